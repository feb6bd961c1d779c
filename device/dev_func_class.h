/*
 * Which class of vector work an instruction is: the class decides its passes (vector.passes.*) and
 * whether a core has it at all. One table for the timing engine, which charges it, and the
 * validator, which refuses it.
 */
#ifndef DEV_FUNC_CLASS_H
#define DEV_FUNC_CLASS_H

#include "device/vnpu_isa.h"
#include "sim/sim_vector.h"

/* insn: a V_ instruction. *out_cls2: of a V_BINARY's second function, else SIM_VECTOR_NONE. */
void dev_vector_classes(const vnpu_insn_t *insn, sim_vector_class_t *out_cls,
                        sim_vector_class_t *out_cls2);
/* "transcendental", ...: the last part of its key. */
const char *dev_vector_class_text(sim_vector_class_t cls);

#endif
