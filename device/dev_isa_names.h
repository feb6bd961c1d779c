/*
 * The instruction set as data: one row per opcode (name, queues, operands, flags, functions,
 * immediates) and the names of functions, element types, spaces and flags. Validator, assembler and
 * disassembler read the same rows.
 */
#ifndef DEV_ISA_NAMES_H
#define DEV_ISA_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "device/vnpu_isa.h"

/* What a function byte of an instruction means. */
typedef enum dev_func_kind {
    DEV_FUNC_NONE = 0, /* must be 0 */
    DEV_FUNC_UNARY,
    DEV_FUNC_BINARY,
    DEV_FUNC_BINARY_OPTIONAL, /* 0: no second function */
    DEV_FUNC_REDUCE,
    DEV_FUNC_MAP, /* unary functions allowed before a reduction: copy, square, abs, ne0 */
    DEV_FUNC_OOB,
    DEV_FUNC_KDIMS, /* dimensions of k - 1; 0 is left out in text */
    DEV_FUNC_KIND_COUNT
} dev_func_kind_t;

/* Operand sets: bit 0 dst, bit 1 + i src[i]. */
#define DEV_OPERAND_DST    1u
#define DEV_OPERAND_SRC(i) (2u << (i))
#define DEV_NUM_OPERANDS   5u

typedef struct dev_op_info {
    vnpu_op_t op;
    const char *name;
    uint8_t queues;   /* bit per vnpu_queue_kind_t */
    uint8_t required; /* operand set */
    uint8_t optional; /* operand set */
    uint8_t num_imm;  /* imm[0 .. num_imm) may be used, the others must be 0 */
    uint16_t flags;   /* VNPU_F_* that mean something here */
    dev_func_kind_t func, func2;
    bool is_reserved; /* encoded, but not on this device */
} dev_op_info_t;

/* NULL for a code that is no opcode. */
const dev_op_info_t *dev_op_info(uint32_t op);
/* Row i in table order, NULL past the end: for searches by name. */
const dev_op_info_t *dev_op_row(size_t i);

/* Names; NULL for an unknown code. Codes start at 0 and are dense unless the enum says otherwise.
 */
const char *dev_func_name(dev_func_kind_t kind, uint32_t func);
const char *dev_dtype_name(uint32_t dtype);
const char *dev_space_name(uint32_t space);
const char *dev_queue_kind_name(uint32_t kind);
const char *dev_arg_kind_name(uint32_t kind);
const char *dev_clip_mode_name(uint32_t mode);
const char *dev_flag_name(uint32_t bit); /* of 1 << bit */

/* Operand i of the set (0: dst, 1 + s: src[s]): its access pattern index, and its name "dst",
 * "src0"... */
uint16_t dev_insn_operand(const vnpu_insn_t *insn, uint32_t i);
const char *dev_operand_name(uint32_t i);

bool dev_dtype_is_float(uint32_t dtype);

#endif
