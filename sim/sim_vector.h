/*
 * Vector unit: `lanes` elements per pass. One operation over `outer` rows of `inner` elements takes
 *   startup + outer * ceil(inner / lanes) * (passes(class) + passes(class2)) cycles
 * (+ outer-independent tail of reduce_tail cycles for reductions); operand bytes stream through the
 * SRAM and accumulator shares, in no fewer cycles than their banks need (sim_bank.h). Rates: NKI's
 * public engine model, ONNXim; docs/timing.md. Causes: startup and tail FILL_DRAIN; elements that
 * do not fill the last vector UNUSED_LANES (cycles * (1
 * - elements / (vectors * lanes)), rounded down); stretch SRAM_CONFLICT.
 */
#ifndef SIM_VECTOR_H
#define SIM_VECTOR_H

#include "sim/sim_config.h"
#include "sim/sim_op.h"
#include "sim/sim_share.h"
#include "sim/sim_span.h"

typedef enum sim_vector_class {
    SIM_VECTOR_NONE = 0, /* no second operation */
    SIM_VECTOR_ALU,      /* add, sub, max, compare, logic, select */
    SIM_VECTOR_MUL,
    SIM_VECTOR_DIV, /* div, recip, sqrt, rsqrt, fmod, pow counts as DIV + TRANSCENDENTAL */
    SIM_VECTOR_TRANSCENDENTAL,
    SIM_VECTOR_CAST, /* copy and cast */
    SIM_VECTOR_REDUCE,
    SIM_VECTOR_CLASS_COUNT
} sim_vector_class_t;

typedef struct sim_vector_spec {
    uint32_t lanes;
    uint32_t startup_cycles, reduce_tail_cycles, pipeline_cycles;
    sim_ratio_t passes[SIM_VECTOR_CLASS_COUNT]; /* cycles per vector of lanes; 0: never submitted */
    sim_clock_t clock;
} sim_vector_spec_t;

typedef struct sim_vector_op {
    sim_op_t op; /* first */
    uint64_t outer, inner;
    sim_vector_class_t cls, cls2;
    sim_bank_use_t sram, acc; /* of all operands together: bytes read + written, most cycles */
    /* private */
    sim_span_t span;
} sim_vector_op_t;

typedef struct sim_vector sim_vector_t;
sim_status_t sim_vector_create(sim_engine_t *engine, const sim_vector_spec_t *spec,
                               sim_share_t *sram, sim_share_t *acc,
                               sim_vector_t **out_unit) SIM_MUST_USE;
void sim_vector_destroy(sim_vector_t *unit);
void sim_vector_reset(sim_vector_t *unit);
sim_status_t sim_vector_spec_from_config(const sim_config_t *config,
                                         sim_vector_spec_t *out_spec) SIM_MUST_USE;
bool sim_vector_can_submit(const sim_vector_t *unit); /* nothing in [start, end) */
void sim_vector_submit(sim_vector_t *unit, sim_vector_op_t *op);
uint64_t
sim_vector_cycles(const sim_vector_spec_t *spec, uint64_t outer, uint64_t inner,
                  sim_vector_class_t cls,
                  sim_vector_class_t cls2); /* start -> end, closed form, no memory limits */

#endif
