/*
 * Pointwise expressions as vector instructions: chains of two binary nodes become one instruction,
 * intermediate values get temporary tiles that are reused once they are dead. Pure: no machine, no
 * addresses.
 */
#ifndef KERN_EXPR_H
#define KERN_EXPR_H

#include "kernels/kern.h"

/* Where a value lives. */
typedef enum kern_ref_kind {
    KERN_REF_NONE = 0,
    KERN_REF_INPUT,
    KERN_REF_SCALAR,
    KERN_REF_TEMP,
    KERN_REF_INDEX,
    KERN_REF_OUT
} kern_ref_kind_t;

typedef struct kern_ref {
    kern_ref_kind_t kind;
    uint32_t index;
} kern_ref_t;

typedef struct kern_expr_insn {
    vnpu_op_t op;
    uint8_t func, func2;
    uint16_t flags; /* VNPU_F_REVERSE2, VNPU_F_INTEGER */
    kern_ref_t dst, src[3];
} kern_expr_insn_t;

typedef struct kern_expr {
    uint32_t num_insns, num_temps;
    kern_expr_insn_t insn[KERN_MAX_NODES + 1];
    bool uses_input[KERN_MAX_INPUTS];
    bool uses_index;
} kern_expr_t;

/* Returns NULL, or why the expression is wrong. */
const char *kern_expr_compile(const kern_pointwise_t *call, kern_expr_t *out_expr);

#endif
