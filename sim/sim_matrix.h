/*
 * Matrix unit: `count` arrays of `rows` x `cols` cells that multiply M x K by K x N side by side.
 *
 * One operand stays in the cells for a while (a fold), the rest passes by:
 *   dataflow           rows  columns  streamed   a fold is preceded by    followed by
 *   weight-stationary   K       N        M       load of its weights      -
 *   input-stationary    K       M        N       load of its inputs       -
 *   output-stationary   M       N        K       -                        drain of its results
 * Several arrays split n or m in equal parts, or c by count / c with the c that pads least; each
 * works on its part as if alone, and what they share is read once. Folds run columns outer, rows
 * inner. One step takes `step` elements of the streamed dimension: a systolic array (1, R, C) has
 * step 1, a 16x16x16 cube rows = cols = step = 16, Tensix 16 x 16 step 8, VTA 16 x 16 step 1, an
 * outer-product unit is output-stationary with step 1. Cycles of a fold:
 *   port   = ceil(used rows / load_rows_per_cycle), to load or to drain it; all rows count as used
 *            with has_full_folds; a load is repeated for every piece of the operand (f32 as bf16
 *            pieces); it goes through one port per array,
 *   stream = sum over pieces of max(ceil(ceil(piece / step) / rate), min_stream), rate = steps per
 *            cycle for the dtype (1/4 -> 4 cycles a step; 2 -> 1/2), after gap_cycles of control
 * for each piece; pieces are of stream_elems, of each row of `row_elems` by itself with
 *            has_rows_apart; all at least what the operand ports, which work meanwhile, take for
 * the fold's share of the operands, ceil(bytes / folds / operand_bytes), skew   = rows + cols - 2
 * until the last row has crossed the array; 0 with is_broadcast (the cells of a cube get their
 * operands together). A new stream may enter while the last one crosses (is_serial: only when it
 * has left). With n = weight_buffers copies of what stays in the cells, fold i loads once fold i -
 * n has streamed (+ switch_cycles: the switch crosses the array before the spare copy can be
 * overwritten), or streams once fold i - n has drained. So one buffer is serial, two give
 * max(stream, port) per fold, more carry slack from long folds to short ones, across operations
 * too. Where a load passes beside a piece only (loads_beside_piece: Gemmini pairs it with one
 * command), it begins with the last piece of the fold before: a fold takes max(0, port - piece)
 * more. A load and the piece beside it take turns where both lie in the same bank: `port` cycles
 * more for that part of the folds
 * (`same_bank`), booked as SRAM_CONFLICT.
 *
 * end: the array takes the next operation. done: results are complete, skew + (rest of the drain) +
 * pipeline cycles later.
 *
 * Sources: SCALE-Sim (weight- and input-stationary R + R + C + T - 2, output-stationary R + C + T -
 * 2, folds without overlap), ONNXim, Trainium's public cost model (initiation interval, background
 * weight load), Gemmini's, OpenTPU's, tinyTPU's and axis_sa's RTL (tests/sim/test_matrix_rtl.c);
 * docs/timing.md.
 *
 * Operand bytes go through the SRAM and accumulator shares as streams spanning the operation: a
 * streamed operand per fold, a stationary one once, results written per k fold and read again by
 * all but the first (by that too when accumulating; output-stationary: once). What they stretch is
 * SRAM_CONFLICT, and stops the array's clock: pending loads and drains move along. The operand
 * ports lie between the scratchpad and the array (Tensix: two unpackers); their limit is a rate of
 * the fold, not a share.
 *
 * Causes: USEFUL = m * k * n / (rows * cols * count * step * rate) cycles, what the whole unit at
 * full rate would need; loads that nothing hides are WEIGHT_LOAD; gaps, skew of serial folds and
 * drains that nothing hides are FILL_DRAIN; what the operand ports add is OPERAND_WAIT; the rest
 * (partial folds, min_stream, rounding, an operation without elements: one cycle) is UNUSED_LANES.
 */
#ifndef SIM_MATRIX_H
#define SIM_MATRIX_H

#include "sim/sim_config.h"
#include "sim/sim_op.h"
#include "sim/sim_share.h"
#include "sim/sim_span.h"

#define SIM_MATRIX_MAX_BUFFERS 4u
#define SIM_MATRIX_MAX_PASSES  9u /* of matrix.f32 */

typedef enum sim_dataflow { /* order of the choices of matrix.dataflow */
                            SIM_WEIGHT_STATIONARY = 0,
                            SIM_OUTPUT_STATIONARY,
                            SIM_INPUT_STATIONARY
} sim_dataflow_t;

typedef enum sim_split { SIM_SPLIT_N = 0, SIM_SPLIT_M, SIM_SPLIT_BEST } sim_split_t;

typedef struct sim_matrix_spec {
    uint32_t rows, cols, weight_buffers; /* 1 .. SIM_MATRIX_MAX_BUFFERS */
    uint32_t load_rows_per_cycle, min_stream_cycles, pipeline_cycles;
    sim_clock_t clock;
    sim_dataflow_t dataflow;
    uint32_t step, count; /* 0 means 1 */
    sim_split_t split;
    uint32_t gap_cycles;
    uint32_t stream_elems; /* what operand registers hold of the streamed dimension; 0: all of it */
    uint32_t operand_bytes; /* that the operand ports of all arrays take a cycle; 0: any number */
    uint32_t switch_cycles; /* only where something is loaded into at most two buffers */
    bool is_broadcast, is_serial, has_full_folds, has_rows_apart;
    bool loads_beside_piece; /* something is loaded, into at least two buffers */
} sim_matrix_spec_t;

typedef struct sim_matrix_op {
    sim_op_t op; /* first */
    uint32_t m, k, n;
    sim_ratio_t rate; /* steps per cycle: f32 1/4, bf16 1, i8 2 */
    /* The array holds these weights already: no load. Has effect on one fold of a weight-stationary
     * array only. */
    bool keep_weights;
    bool accumulate;
    uint32_t row_elems; /* of the streamed operand's innermost dimension; 0: one row */
    uint32_t same_bank; /* of 1 << 16: folds whose load and last piece lie in the same bank */
    uint32_t in_bytes, weight_bytes, out_bytes; /* per element */
    uint32_t pieces;                            /* loads of what stays in the array; 0 means 1 */
    /* What passing each operand once costs at the ports; bytes 0: as many as it has elements. */
    sim_bank_use_t in, weights, out;
    /* private */
    sim_span_t span;
    sim_tick_t submitted;
    uint64_t array_cycles;    /* start to end, without contention */
    uint64_t stall_cycles;    /* of them, waiting for a load or a drain */
    uint64_t fill_cycles;     /* of them, gaps and skew */
    uint64_t operand_cycles;  /* of them, waiting for the operand ports */
    uint64_t conflict_cycles; /* of them, a load and a piece in the same bank */
    uint64_t tail_cycles;     /* from end to done */
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
/* Passes of f32 products at the bf16 rate, by matrix.f32; 0: native. */
uint32_t sim_matrix_f32_passes(const sim_config_t *config);
/* Rate and pieces of f32 products: matrix.rate.f32, or with matrix.f32 = bf16xN the bf16 rate / N
 * and the bf16 pieces of one operand. Time only: the values of such products are the executor's. */
sim_ratio_t sim_matrix_f32_rate(const sim_config_t *config, uint32_t *out_pieces);

/* One operation streams, others wait with their operands loading: one, or weight_buffers - 1. True
 * if a submit is possible now. */
bool sim_matrix_can_submit(const sim_matrix_t *unit);
void sim_matrix_submit(sim_matrix_t *unit, sim_matrix_op_t *op);

/* Closed forms, in cycles (also used by kernels' cost model and the tests). */

/* Folds of a K x N tile of weights: of a weight-stationary unit. */
uint64_t sim_matrix_folds(const sim_matrix_spec_t *spec, uint32_t k, uint32_t n);
/* Folds of a product, by the unit's dataflow; 0 when a dimension is 0. */
uint64_t sim_matrix_product_folds(const sim_matrix_spec_t *spec, uint32_t m, uint32_t k,
                                  uint32_t n);
/* Multiply-adds that the folds occupy, useful or not. */
uint64_t sim_matrix_padded_macs(const sim_matrix_spec_t *spec, uint32_t m, uint32_t k, uint32_t n);
/* Cycles that one fold streams. `streamed`: M, K or N, see above. */
uint64_t sim_matrix_stream_cycles(const sim_matrix_spec_t *spec, uint32_t streamed,
                                  sim_ratio_t rate);
/* The array's time of each fold beside its stream: gaps, and skew where folds do not overlap. */
uint64_t sim_matrix_fill_cycles(const sim_matrix_spec_t *spec, uint32_t streamed);
/* From the last step into the array to its results, without the rest of a drain. */
uint64_t sim_matrix_latency_cycles(const sim_matrix_spec_t *spec);
/* What one operation moves through the scratchpad [0] and the accumulator [1]. */
void sim_matrix_use(const sim_matrix_spec_t *spec, const sim_matrix_op_t *op,
                    sim_bank_use_t out_use[2]);
/* start -> end of one operation that finds the array idle and cold, no memory limits, no limit of
 * the operand ports. */
uint64_t sim_matrix_cold_cycles(const sim_matrix_spec_t *spec, uint32_t m, uint32_t k, uint32_t n,
                                sim_ratio_t rate);

#endif
