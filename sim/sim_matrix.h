/*
 * Matrix unit: a weight-stationary systolic array of `rows` (k) x `cols` (n) cells, weights
 * double-buffered.
 *
 * One operation multiplies M x K by K x N. It is cut in folds of at most rows x cols weights, n
 * outer, k inner. Per fold
 *   load   = ceil(k_used / load_rows_per_cycle) cycles on the weight port (none with keep_weights
 *            and a single fold),
 *   stream = max(M * ii, min_stream) cycles on the input port, ii = cycles per row for the dtype
 *            (rate 1/4 -> 4; rate 2 -> 1/2, rounded up per fold).
 * With two weight buffers the load of fold f+1 runs while fold f streams (also across operations,
 * once the next one is submitted); with one it waits for the stream to end. The array is free for
 * the next operation when the last fold has entered (end); results are complete rows + cols - 2 +
 * pipeline cycles later (done). Steady state: one fold per max(stream, load) cycles. Sources:
 * SCALE-Sim (fold = R + R + C + M - 2 without overlap), ONNXim, Trainium's public cost model
 * (initiation interval, background weight load); docs/timing.md.
 *
 * Operand bytes (moving operand read per fold, weights read per fold, result write per fold, and
 * read of all but the first k fold, of that too when accumulating) go through the SRAM and
 * accumulator shares as streams spanning the operation; what they stretch is SRAM_CONFLICT.
 *
 * Causes: USEFUL = m * k * n / (rows * cols * rate) cycles, what the whole array at full rate would
 * need; the rest of the streaming (partial folds, min_stream, rounding of ii, an operation without
 * elements: one cycle) is UNUSED_LANES; load cycles that nothing hides are WEIGHT_LOAD. Rounding to
 * ticks goes to UNUSED_LANES.
 */
#ifndef SIM_MATRIX_H
#define SIM_MATRIX_H

#include "sim/sim_config.h"
#include "sim/sim_op.h"
#include "sim/sim_share.h"
#include "sim/sim_span.h"

typedef struct sim_matrix_spec {
    uint32_t rows, cols, weight_buffers; /* 1 or 2 */
    uint32_t load_rows_per_cycle, min_stream_cycles, pipeline_cycles;
    sim_clock_t clock;
} sim_matrix_spec_t;

typedef struct sim_matrix_op {
    sim_op_t op; /* first */
    uint32_t m, k, n;
    sim_ratio_t rate; /* relative to one row per cycle: f32 1/4, bf16 1, i8 2 */
    bool keep_weights, accumulate;
    uint32_t in_bytes, weight_bytes, out_bytes; /* per element */
    /* private */
    sim_span_t span;
    sim_tick_t submitted;
    uint64_t load_cycles;    /* of fold 0 */
    uint64_t array_cycles;   /* from then on */
    uint64_t exposed_cycles; /* loads that nothing hides */
    uint64_t stream_cycles;  /* of one fold */
} sim_matrix_op_t;

typedef struct sim_matrix sim_matrix_t;
/* The shares may be NULL: an ideal memory. Everything is borrowed. */
sim_status_t sim_matrix_create(sim_engine_t *engine, const sim_matrix_spec_t *spec,
                               sim_share_t *sram, sim_share_t *acc,
                               sim_matrix_t **out_unit) SIM_MUST_USE;
void sim_matrix_destroy(sim_matrix_t *unit);
void sim_matrix_reset(sim_matrix_t *unit);
sim_status_t sim_matrix_spec_from_config(const sim_config_t *config,
                                         sim_matrix_spec_t *out_spec) SIM_MUST_USE;
/* One operation streams, one more may wait with its weights preloading: true if a submit is
 * possible now. */
bool sim_matrix_can_submit(const sim_matrix_t *unit);
void sim_matrix_submit(sim_matrix_t *unit, sim_matrix_op_t *op);

/* Closed forms, in cycles (also used by kernels' cost model and the tests). */
uint64_t sim_matrix_folds(const sim_matrix_spec_t *spec, uint32_t k, uint32_t n);
/* Cycles that one fold of m rows streams. */
uint64_t sim_matrix_stream_cycles(const sim_matrix_spec_t *spec, uint32_t m, sim_ratio_t rate);
/* start -> end of one operation that finds the array idle and cold, no memory limits. */
uint64_t sim_matrix_cold_cycles(const sim_matrix_spec_t *spec, uint32_t m, uint32_t k, uint32_t n,
                                sim_ratio_t rate);

#endif
