#include <criterion/criterion.h>

#include "sim/sim_matrix.h"
#include "tests/sim/units.h"

static const sim_ratio_t QUARTER = {1, 4}, ONE = {1, 1}, TWO = {2, 1};

/* 1 GHz: 8 ticks a cycle. */
#define TICKS 8u

static sim_matrix_spec_t spec_of(uint32_t rows, uint32_t cols, uint32_t buffers) {
    return (sim_matrix_spec_t){.rows = rows,
                               .cols = cols,
                               .weight_buffers = buffers,
                               .load_rows_per_cycle = 1,
                               .min_stream_cycles = 1,
                               .pipeline_cycles = 4,
                               .clock = clock_of(GHZ)};
}

typedef struct bench {
    sim_engine_t *engine;
    sim_share_t share;
    sim_matrix_t *unit;
    uint64_t count[2];
} bench_t;

static void bench_init(bench_t *bench, const sim_matrix_spec_t *spec,
                       uint64_t sram_bytes_per_cycle) {
    *bench = (bench_t){.engine = engine_new()};
    bool is_ideal = sram_bytes_per_cycle == 0;
    if (!is_ideal) sim_share_init(&bench->share, bench->engine, &spec->clock, sram_bytes_per_cycle);
    cr_assert_eq(
        sim_matrix_create(bench->engine, spec, is_ideal ? NULL : &bench->share, NULL, &bench->unit),
        SIM_OK);
}

static void bench_fini(bench_t *bench) {
    sim_matrix_destroy(bench->unit);
    sim_engine_destroy(bench->engine);
}

static sim_matrix_op_t op_of(bench_t *bench, uint32_t m, uint32_t k, uint32_t n, sim_ratio_t rate) {
    sim_matrix_op_t op = {
        .m = m, .k = k, .n = n, .rate = rate, .in_bytes = 4, .weight_bytes = 4, .out_bytes = 4};
    watch(&op.op, bench->count);
    return op;
}

/* The definition, fold by fold: what the closed forms must equal. */
static uint64_t cold_by_folds(const sim_matrix_spec_t *spec, uint32_t m, uint32_t k, uint32_t n,
                              sim_ratio_t rate) {
    uint64_t load_free = 0, stream_free = 0, stream_start = 0;
    for (uint32_t j = 0; j < n; j += spec->cols) {
        for (uint32_t i = 0; i < k; i += spec->rows) {
            uint64_t used = k - i < spec->rows ? k - i : spec->rows;
            uint64_t load = (used + spec->load_rows_per_cycle - 1) / spec->load_rows_per_cycle;
            uint64_t stream = ((uint64_t)m * rate.den + rate.num - 1) / rate.num;
            if (stream < spec->min_stream_cycles) stream = spec->min_stream_cycles;
            uint64_t buffer_free = spec->weight_buffers == 2 ? stream_start : stream_free;
            uint64_t loaded = (load_free > buffer_free ? load_free : buffer_free) + load;
            load_free = loaded;
            stream_start = loaded > stream_free ? loaded : stream_free;
            stream_free = stream_start + stream;
        }
    }
    return stream_free;
}

Test(matrix, folds) {
    sim_matrix_spec_t spec = spec_of(128, 64, 2);
    cr_assert_eq(sim_matrix_folds(&spec, 128, 64), 1);
    cr_assert_eq(sim_matrix_folds(&spec, 129, 64), 2);
    cr_assert_eq(sim_matrix_folds(&spec, 129, 65), 4);
    cr_assert_eq(sim_matrix_folds(&spec, 1, 1), 1);
    cr_assert_eq(sim_matrix_folds(&spec, 4096, 4096), 32 * 64);
    cr_assert_eq(sim_matrix_folds(&spec, 0, 64), 0);
}

Test(matrix, cold_cycles_are_those_of_the_folds) {
    const uint32_t sizes[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 64, 65};
    const size_t count = sizeof sizes / sizeof sizes[0];
    const sim_ratio_t rates[] = {QUARTER, ONE, TWO, {3, 2}};
    for (uint32_t buffers = 1; buffers <= 2; buffers++)
        for (uint32_t load = 1; load <= 3; load += 2)
            for (uint32_t min_stream = 1; min_stream <= 12; min_stream += 11)
                for (size_t i = 0; i < count * count * count * 4; i++) {
                    sim_matrix_spec_t spec = spec_of(8, 16, buffers);
                    spec.load_rows_per_cycle = load;
                    spec.min_stream_cycles = min_stream;
                    uint32_t m = sizes[i % count], k = sizes[i / count % count],
                             n = sizes[i / count / count % count];
                    sim_ratio_t rate = rates[i / count / count / count];
                    cr_assert_eq(sim_matrix_cold_cycles(&spec, m, k, n, rate),
                                 cold_by_folds(&spec, m, k, n, rate), "%u %u %u", m, k, n);
                }
}

Test(matrix, start_end_and_done_of_one_operation) {
    const sim_ratio_t rates[] = {QUARTER, ONE, TWO};
    for (size_t i = 0; i < 3; i++) {
        sim_matrix_spec_t spec = spec_of(128, 128, 2);
        bench_t bench;
        bench_init(&bench, &spec, 0);
        sim_matrix_op_t op = op_of(&bench, 128, 128, 128, rates[i]);
        sim_matrix_submit(bench.unit, &op);
        /* load 128, then 128 rows at 4, 1 and 1/2 cycles a row */
        uint64_t cycles = 128 + 128 * rates[i].den / rates[i].num;
        expect_at(bench.engine, &bench.count[0], 1, cycles * TICKS);
        expect_at(bench.engine, &bench.count[1], 1, (cycles + 128 + 128 - 2 + 4) * TICKS);
        cr_assert_eq(op.op.start, 0);
        expect_causes_sum(&op.op);
        cr_assert_eq(op.op.cause[SIM_CAUSE_WEIGHT_LOAD], 128 * TICKS);
        cr_assert_eq(op.op.cause[SIM_CAUSE_USEFUL], 128 * TICKS * rates[i].den / rates[i].num);
        cr_assert_eq(op.op.cause[SIM_CAUSE_UNUSED_LANES], 0);
        bench_fini(&bench);
    }
}

Test(matrix, partial_tiles_of_129_cubed) {
    sim_matrix_spec_t spec = spec_of(128, 128, 2);
    bench_t bench;
    bench_init(&bench, &spec, 0);
    sim_matrix_op_t op = op_of(&bench, 129, 129, 129, ONE);
    sim_matrix_submit(bench.unit, &op);
    /* 4 folds of 129 rows each; the first load is 128 rows, the others hide behind 129. */
    uint64_t cycles = 128 + 4 * 129;
    cr_assert_eq(sim_matrix_cold_cycles(&spec, 129, 129, 129, ONE), cycles);
    expect_at(bench.engine, &bench.count[0], 1, cycles * TICKS);
    expect_causes_sum(&op.op);
    cr_assert_eq(op.op.cause[SIM_CAUSE_WEIGHT_LOAD], 128 * TICKS);
    cr_assert_eq(op.op.cause[SIM_CAUSE_USEFUL], 129u * 129u * 129u * TICKS / (128u * 128u));
    bench_fini(&bench);
}

/* Submits `count` operations as early as the unit takes them, all at the start of time; returns the
 * last end in cycles. */
typedef struct feeder {
    sim_matrix_t *unit;
    sim_matrix_op_t *op;
    uint32_t next, count;
} feeder_t;

static void feed(sim_engine_t *engine, sim_op_t *op) {
    (void)engine;
    feeder_t *feeder = op->owner;
    while (feeder->next < feeder->count && sim_matrix_can_submit(feeder->unit))
        sim_matrix_submit(feeder->unit, &feeder->op[feeder->next++]);
}

static uint64_t run_chain(bench_t *bench, sim_matrix_op_t *op, uint32_t count) {
    feeder_t feeder = {.unit = bench->unit, .op = op, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        op[i].op.on_end = feed;
        op[i].op.on_done = NULL;
        op[i].op.owner = &feeder;
    }
    feed(bench->engine, &op[0].op);
    (void)sim_engine_run(bench->engine);
    cr_assert_eq(feeder.next, count);
    for (uint32_t i = 0; i < count; i++) {
        expect_causes_sum(&op[i].op);
        if (i > 0) cr_assert_eq(op[i].op.start, op[i - 1].op.end);
    }
    return op[count - 1].op.end / TICKS;
}

#define CHAIN 20u

Test(matrix, steady_state_is_the_longer_of_stream_and_load) {
    const uint32_t rows_in[] = {32, 127, 128, 129, 512};
    for (size_t i = 0; i < 5; i++) {
        sim_matrix_spec_t spec = spec_of(128, 128, 2);
        bench_t bench;
        bench_init(&bench, &spec, 0);
        sim_matrix_op_t op[CHAIN];
        for (uint32_t j = 0; j < CHAIN; j++)
            op[j] = op_of(&bench, rows_in[i], 128, 128, ONE);
        uint64_t stream = rows_in[i], period = stream > 128 ? stream : 128;
        /* cold load, one period per later fold, the last stream */
        cr_assert_eq(run_chain(&bench, op, CHAIN), 128 + (CHAIN - 1) * period + stream);
        cr_assert_eq(op[CHAIN - 1].op.cause[SIM_CAUSE_WEIGHT_LOAD], (period - stream) * TICKS);
        bench_fini(&bench);
    }
}

Test(matrix, one_weight_buffer_is_serial) {
    sim_matrix_spec_t spec = spec_of(128, 128, 1);
    bench_t bench;
    bench_init(&bench, &spec, 0);
    sim_matrix_op_t op[CHAIN];
    for (uint32_t j = 0; j < CHAIN; j++)
        op[j] = op_of(&bench, 512, 128, 128, ONE);
    cr_assert_eq(run_chain(&bench, op, CHAIN), CHAIN * (128 + 512));
    bench_fini(&bench);
}

Test(matrix, kept_weights_are_not_loaded) {
    sim_matrix_spec_t spec = spec_of(128, 128, 2);
    bench_t bench;
    bench_init(&bench, &spec, 0);
    sim_matrix_op_t op[CHAIN];
    for (uint32_t j = 0; j < CHAIN; j++) {
        op[j] = op_of(&bench, 64, 128, 128, ONE);
        op[j].keep_weights = j > 0;
    }
    cr_assert_eq(run_chain(&bench, op, CHAIN), 128 + CHAIN * 64);
    bench_fini(&bench);
    /* several folds do not fit the array: their weights are loaded again */
    bench_init(&bench, &spec, 0);
    sim_matrix_op_t big = op_of(&bench, 64, 256, 128, ONE);
    big.keep_weights = true;
    sim_matrix_submit(bench.unit, &big);
    expect_at(bench.engine, &bench.count[0], 1, (128 + 128 + 64) * TICKS);
    bench_fini(&bench);
}

Test(matrix, preload_starts_when_the_operation_is_submitted) {
    sim_matrix_spec_t spec = spec_of(128, 128, 2);
    bench_t bench;
    bench_init(&bench, &spec, 0);
    sim_matrix_op_t a = op_of(&bench, 512, 128, 128, ONE), b = op_of(&bench, 512, 128, 128, ONE);
    sim_matrix_submit(bench.unit, &a);
    (void)sim_engine_run_until(bench.engine, 0);
    /* a streams in [128, 640). b comes 100 cycles before its end: 28 cycles of its load show. */
    (void)sim_engine_run_until(bench.engine, 540 * TICKS);
    cr_assert_eq(sim_now(bench.engine), 540 * TICKS);
    cr_assert(sim_matrix_can_submit(bench.unit));
    sim_matrix_submit(bench.unit, &b);
    cr_assert_not(sim_matrix_can_submit(bench.unit));
    expect_at(bench.engine, &bench.count[0], 1, 640 * TICKS);
    expect_at(bench.engine, &bench.count[0], 2, (640 + 28 + 512) * TICKS);
    cr_assert_eq(b.op.start, 640 * TICKS);
    cr_assert_eq(b.op.cause[SIM_CAUSE_WEIGHT_LOAD], 28 * TICKS);
    bench_fini(&bench);
}

Test(matrix, minimum_stream_is_unused_lanes) {
    sim_matrix_spec_t spec = spec_of(128, 128, 2);
    spec.min_stream_cycles = 64;
    bench_t bench;
    bench_init(&bench, &spec, 0);
    sim_matrix_op_t op = op_of(&bench, 1, 128, 64, ONE);
    sim_matrix_submit(bench.unit, &op);
    expect_at(bench.engine, &bench.count[0], 1, (128 + 64) * TICKS);
    cr_assert_eq(op.op.cause[SIM_CAUSE_USEFUL], TICKS / 2);
    cr_assert_eq(op.op.cause[SIM_CAUSE_UNUSED_LANES], 64 * TICKS - TICKS / 2);
    bench_fini(&bench);
}

Test(matrix, narrow_scratchpad_stretches_to_the_bytes) {
    sim_matrix_spec_t spec = spec_of(128, 128, 2);
    bench_t bench;
    bench_init(&bench, &spec, 64);
    sim_matrix_op_t op = op_of(&bench, 256, 128, 128, ONE);
    sim_matrix_submit(bench.unit, &op);
    uint64_t bytes = 256u * 128 * 4 + 128u * 128 * 4; /* one fold: input and weights */
    uint64_t cycles = bytes / 64, alone = 128 + 256;
    cr_assert_gt(cycles, alone);
    (void)sim_engine_run_until(bench.engine, cycles * TICKS - 1);
    cr_assert_eq(bench.count[0], 0);
    (void)sim_engine_run(bench.engine);
    /* the rate is rounded down once: within two cycles, never early */
    cr_assert_geq(op.op.end, cycles * TICKS);
    cr_assert_leq(op.op.end, (cycles + 2) * TICKS);
    cr_assert_eq(op.op.end % TICKS, 0);
    expect_causes_sum(&op.op);
    cr_assert_eq(op.op.cause[SIM_CAUSE_SRAM_CONFLICT], op.op.end - alone * TICKS);
    cr_assert_eq(bench.share.total_bytes, bytes);
    bench_fini(&bench);
}

Test(matrix, operand_bytes_of_folds_and_accumulation) {
    sim_matrix_spec_t spec = spec_of(8, 8, 2);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        sim_engine_t *engine = engine_new();
        sim_share_t sram, acc;
        sim_share_init(&sram, engine, &spec.clock, 1 << 20);
        sim_share_init(&acc, engine, &spec.clock, 1 << 20);
        sim_matrix_t *unit;
        cr_assert_eq(sim_matrix_create(engine, &spec, &sram, &acc, &unit), SIM_OK);
        sim_matrix_op_t op = {.m = 10,
                              .k = 20,
                              .n = 12,
                              .rate = ONE,
                              .accumulate = accumulate == 1,
                              .in_bytes = 2,
                              .weight_bytes = 1,
                              .out_bytes = 4};
        sim_matrix_submit(unit, &op);
        (void)sim_engine_run(engine);
        cr_assert_eq(sram.total_bytes,
                     10u * 20 * 2 * 2 + 20u * 12); /* input once per column fold */
        cr_assert_eq(acc.total_bytes,
                     10u * 12 * 4 * (5 + (uint64_t)accumulate)); /* 3 writes, 2 or 3 reads */
        sim_matrix_destroy(unit);
        sim_engine_destroy(engine);
    }
}

Test(matrix, an_odd_clock_stays_on_its_edges) {
    sim_matrix_spec_t spec = spec_of(16, 16, 2);
    spec.clock = clock_of(940000000);
    bench_t bench;
    bench_init(&bench, &spec, 0);
    sim_matrix_op_t op[CHAIN];
    for (uint32_t j = 0; j < CHAIN; j++)
        op[j] = op_of(&bench, 5 + j, 17, 13, TWO);
    (void)run_chain(&bench, op, CHAIN);
    uint64_t cycle = 0;
    for (uint32_t j = 0; j < CHAIN; j++) {
        cr_assert_eq(op[j].op.start, sim_clock_tick(&spec.clock, cycle));
        cycle = sim_clock_cycle(&spec.clock, op[j].op.end);
        cr_assert_eq(op[j].op.end, sim_clock_tick(&spec.clock, cycle));
        cr_assert_eq(op[j].op.done, sim_clock_tick(&spec.clock, cycle + 16 + 16 - 2 + 4));
    }
    bench_fini(&bench);
}

Test(matrix, nothing_to_do_takes_one_cycle) {
    sim_matrix_spec_t spec = spec_of(16, 16, 2);
    bench_t bench;
    bench_init(&bench, &spec, 64);
    sim_matrix_op_t op = op_of(&bench, 0, 16, 16, ONE);
    sim_matrix_submit(bench.unit, &op);
    expect_at(bench.engine, &bench.count[0], 1, TICKS);
    expect_causes_sum(&op.op);
    cr_assert_eq(bench.share.total_bytes, 0);
    bench_fini(&bench);
}

Test(matrix, a_reset_gives_the_same_again) {
    sim_matrix_spec_t spec = spec_of(32, 16, 2);
    bench_t bench;
    bench_init(&bench, &spec, 100);
    sim_op_t first[CHAIN];
    for (int run = 0; run < 2; run++) {
        sim_matrix_op_t op[CHAIN];
        for (uint32_t j = 0; j < CHAIN; j++)
            op[j] = op_of(&bench, 3 * j + 1, 40, 20 + j, j % 2 ? QUARTER : TWO);
        (void)run_chain(&bench, op, CHAIN);
        for (uint32_t j = 0; j < CHAIN; j++) {
            if (run == 0) first[j] = op[j].op;
            expect_same_op(&op[j].op, &first[j]);
        }
        /* leave something behind in the middle of its work */
        op[0] = op_of(&bench, 1000, 40, 20, ONE);
        sim_matrix_submit(bench.unit, &op[0]);
        (void)sim_engine_run_until(bench.engine, sim_now(bench.engine) + 100);
        sim_engine_reset(bench.engine);
        sim_matrix_reset(bench.unit);
        sim_share_reset(&bench.share);
    }
    bench_fini(&bench);
}

Test(matrix, spec_comes_from_the_config) {
    sim_config_t *config =
        config_new("default", "matrix.rows=64,matrix.pipeline_cycles=5,sram.latency_cycles=7");
    sim_matrix_spec_t spec;
    cr_assert_eq(sim_matrix_spec_from_config(config, &spec), SIM_OK);
    cr_assert_eq(spec.rows, 64);
    cr_assert_eq(spec.cols, 128);
    cr_assert_eq(spec.weight_buffers, 2);
    cr_assert_eq(spec.pipeline_cycles, 12);
    cr_assert_eq(spec.clock.hz, GHZ);
    sim_config_destroy(config);
}

Test(matrix, a_useless_spec_is_refused) {
    sim_matrix_spec_t spec = spec_of(16, 16, SIM_MATRIX_MAX_BUFFERS + 1);
    sim_engine_t *engine = engine_new();
    sim_matrix_t *unit = (sim_matrix_t *)&spec;
    cr_assert_eq(sim_matrix_create(engine, &spec, NULL, NULL, &unit), SIM_ERROR_INVALID_VALUE);
    cr_assert_null(unit);
    sim_engine_destroy(engine);
}
