/* The validator's own state and the interface between its parts: streams, patterns, operations. */
#ifndef DEV_VALIDATE_INTERNAL_H
#define DEV_VALIDATE_INTERNAL_H

#include "device/dev_isa_names.h"
#include "device/dev_program_internal.h"

typedef struct dev_check {
    dev_program_t *program;
    const dev_class_t *cls; /* that shall run it; NULL: format only */
    sim_error_t *err;
    uint32_t queue; /* section being walked */
    uint32_t pc;    /* instruction, relative to the section */
    const vnpu_insn_t *insn;
    const dev_op_info_t *info;
    dev_nest_t nest;
    bool has_weights; /* an MM that loads weights came before in this stream */
} dev_check_t;

/* Errors of the header or a table, of a pattern, of the current instruction. All return `status`.
 */
sim_status_t dev_check_fail(dev_check_t *check, size_t offset, const char *format, ...)
    SIM_PRINTF(3, 4);
sim_status_t dev_check_fail_ap(dev_check_t *check, uint32_t ap, const char *format, ...)
    SIM_PRINTF(3, 4);
sim_status_t dev_check_fail_insn(dev_check_t *check, sim_status_t status, const char *format, ...)
    SIM_PRINTF(3, 4);

/* One pattern by itself. */
sim_status_t dev_check_ap(dev_check_t *check, uint32_t ap) SIM_MUST_USE;
/* The pattern of operand i as used by the current instruction: loops that are open, bounds,
 * direction. */
sim_status_t dev_check_use(dev_check_t *check, uint32_t operand, bool is_read,
                           bool is_written) SIM_MUST_USE;
/* Everything about the current instruction but its loop structure and semaphores. */
sim_status_t dev_check_op(dev_check_t *check) SIM_MUST_USE;

/* Which operands the instruction reads and writes, as operand sets (an accumulating destination is
 * in both). */
void dev_insn_access(const vnpu_insn_t *insn, const dev_op_info_t *info, uint32_t *out_read,
                     uint32_t *out_written);

#endif
