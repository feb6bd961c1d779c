/* Shared by the tests of the matrix unit's shapes: operations submitted as early as the unit takes
 * them. 1 GHz: 8 ticks a cycle. */
#ifndef MATRIX_BENCH_H
#define MATRIX_BENCH_H

#include "sim/sim_matrix.h"
#include "tests/sim/units.h"

#define TICKS 8u

static inline sim_matrix_spec_t bench_spec(sim_dataflow_t dataflow, uint32_t rows, uint32_t cols) {
    return (sim_matrix_spec_t){.dataflow = dataflow,
                               .rows = rows,
                               .cols = cols,
                               .weight_buffers = 2,
                               .load_rows_per_cycle = 1,
                               .min_stream_cycles = 1,
                               .clock = clock_of(GHZ)};
}

static inline sim_matrix_op_t bench_op(uint32_t m, uint32_t k, uint32_t n) {
    return (sim_matrix_op_t){
        .m = m, .k = k, .n = n, .rate = {1, 1}, .in_bytes = 2, .weight_bytes = 1, .out_bytes = 4};
}

typedef struct bench_feed {
    sim_matrix_t *unit;
    sim_matrix_op_t *op;
    uint32_t next, count;
} bench_feed_t;

static inline void bench_submit(sim_engine_t *engine, sim_op_t *op) {
    (void)engine;
    bench_feed_t *feed = op->owner;
    while (feed->next < feed->count && sim_matrix_can_submit(feed->unit))
        sim_matrix_submit(feed->unit, &feed->op[feed->next++]);
}

/* Runs all operations on a new unit; the shares may be NULL. */
static inline void bench_run(sim_engine_t *engine, const sim_matrix_spec_t *spec, sim_share_t *sram,
                             sim_share_t *acc, sim_matrix_op_t *op, uint32_t count) {
    bench_feed_t feed = {.op = op, .count = count};
    cr_assert_eq(sim_matrix_create(engine, spec, sram, acc, &feed.unit), SIM_OK);
    for (uint32_t i = 0; i < count; i++) {
        op[i].op.on_end = bench_submit;
        op[i].op.owner = &feed;
    }
    bench_submit(engine, &op[0].op);
    (void)sim_engine_run(engine);
    cr_assert_eq(feed.next, count);
    for (uint32_t i = 0; i < count; i++) {
        expect_causes_sum(&op[i].op);
        if (i > 0) cr_assert_geq(op[i].op.done, op[i - 1].op.done);
    }
    sim_matrix_destroy(feed.unit);
}

/* The same with ideal memories. Returns the cycle in which the last one is done. */
static inline uint64_t bench_cycles(const sim_matrix_spec_t *spec, sim_matrix_op_t *op,
                                    uint32_t count) {
    sim_engine_t *engine = engine_new();
    bench_run(engine, spec, NULL, NULL, op, count);
    sim_engine_destroy(engine);
    return op[count - 1].op.done / TICKS;
}

#endif
