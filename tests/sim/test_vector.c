#include <criterion/criterion.h>

#include "sim/sim_vector.h"
#include "tests/sim/units.h"

#define TICKS 8u /* a cycle of 1 GHz */

static sim_vector_spec_t spec_of(uint32_t lanes) {
    return (sim_vector_spec_t){
        .lanes = lanes,
        .startup_cycles = 16,
        .reduce_tail_cycles = 11,
        .pipeline_cycles = 4,
        .passes = {{0, 1}, {1, 1}, {1, 1}, {4, 1}, {5, 2}, {1, 2}, {1, 1}},
        .clock = clock_of(GHZ),
    };
}

typedef struct bench {
    sim_engine_t *engine;
    sim_share_t sram, acc;
    sim_vector_t *unit;
    uint64_t count[2];
} bench_t;

static void bench_init(bench_t *bench, const sim_vector_spec_t *spec,
                       uint64_t sram_bytes_per_cycle) {
    *bench = (bench_t){.engine = engine_new()};
    sim_share_init(&bench->sram, bench->engine, &spec->clock, sram_bytes_per_cycle);
    sim_share_init(&bench->acc, bench->engine, &spec->clock, 4096);
    cr_assert_eq(sim_vector_create(bench->engine, spec, &bench->sram, &bench->acc, &bench->unit),
                 SIM_OK);
}

static void bench_fini(bench_t *bench) {
    sim_vector_destroy(bench->unit);
    sim_engine_destroy(bench->engine);
}

static sim_vector_op_t op_of(bench_t *bench, uint64_t outer, uint64_t inner, sim_vector_class_t cls,
                             sim_vector_class_t cls2) {
    sim_vector_op_t op = {.outer = outer, .inner = inner, .cls = cls, .cls2 = cls2};
    watch(&op.op, bench->count);
    return op;
}

Test(vector, closed_form) {
    sim_vector_spec_t spec = spec_of(128);
    /* startup + rows * vectors * passes */
    cr_assert_eq(sim_vector_cycles(&spec, 1, 1, SIM_VECTOR_ALU, SIM_VECTOR_NONE), 17);
    cr_assert_eq(sim_vector_cycles(&spec, 1, 128, SIM_VECTOR_ALU, SIM_VECTOR_NONE), 17);
    cr_assert_eq(sim_vector_cycles(&spec, 1, 129, SIM_VECTOR_ALU, SIM_VECTOR_NONE), 18);
    cr_assert_eq(sim_vector_cycles(&spec, 10, 129, SIM_VECTOR_ALU, SIM_VECTOR_NONE), 16 + 20);
    cr_assert_eq(sim_vector_cycles(&spec, 10, 128, SIM_VECTOR_DIV, SIM_VECTOR_NONE), 16 + 40);
    /* a fraction of a pass is rounded up once: 3 vectors at 5/2, at 1/2, at 5/2 + 1/2 */
    cr_assert_eq(sim_vector_cycles(&spec, 3, 128, SIM_VECTOR_TRANSCENDENTAL, SIM_VECTOR_NONE),
                 16 + 8);
    cr_assert_eq(sim_vector_cycles(&spec, 3, 128, SIM_VECTOR_CAST, SIM_VECTOR_NONE), 16 + 2);
    cr_assert_eq(sim_vector_cycles(&spec, 3, 128, SIM_VECTOR_TRANSCENDENTAL, SIM_VECTOR_CAST),
                 16 + 9);
    /* the tail of a reduction comes once, in either place */
    cr_assert_eq(sim_vector_cycles(&spec, 7, 128, SIM_VECTOR_REDUCE, SIM_VECTOR_NONE), 16 + 7 + 11);
    cr_assert_eq(sim_vector_cycles(&spec, 7, 128, SIM_VECTOR_MUL, SIM_VECTOR_REDUCE), 16 + 14 + 11);
    cr_assert_eq(sim_vector_cycles(&spec, 0, 128, SIM_VECTOR_ALU, SIM_VECTOR_NONE), 16);
    spec.startup_cycles = 0;
    cr_assert_eq(sim_vector_cycles(&spec, 0, 128, SIM_VECTOR_ALU, SIM_VECTOR_NONE), 1);
}

Test(vector, start_end_and_done) {
    const uint64_t inner[] = {1, 127, 128, 129, 1000};
    for (size_t i = 0; i < 5; i++) {
        for (sim_vector_class_t cls = SIM_VECTOR_ALU; cls < SIM_VECTOR_CLASS_COUNT; cls++) {
            sim_vector_spec_t spec = spec_of(128);
            bench_t bench;
            bench_init(&bench, &spec, 4096);
            sim_vector_op_t op = op_of(&bench, 5, inner[i], cls, SIM_VECTOR_NONE);
            op.sram.bytes = 5 * inner[i] * 8;
            op.acc.bytes = 5 * inner[i] * 4;
            sim_vector_submit(bench.unit, &op);
            cr_assert_not(sim_vector_can_submit(bench.unit));
            uint64_t cycles = sim_vector_cycles(&spec, 5, inner[i], cls, SIM_VECTOR_NONE);
            expect_at(bench.engine, &bench.count[0], 1, cycles * TICKS);
            cr_assert(sim_vector_can_submit(bench.unit));
            expect_at(bench.engine, &bench.count[1], 1, (cycles + 4) * TICKS);
            expect_causes_sum(&op.op);
            cr_assert_eq(op.op.cause[SIM_CAUSE_SRAM_CONFLICT], 0);
            cr_assert_eq(bench.sram.total_bytes, op.sram.bytes);
            cr_assert_eq(bench.acc.total_bytes, op.acc.bytes);
            bench_fini(&bench);
        }
    }
}

Test(vector, causes_of_a_partial_vector) {
    sim_vector_spec_t spec = spec_of(128);
    bench_t bench;
    bench_init(&bench, &spec, 4096);
    sim_vector_op_t op = op_of(&bench, 6, 160, SIM_VECTOR_REDUCE, SIM_VECTOR_NONE);
    sim_vector_submit(bench.unit, &op);
    (void)sim_engine_run(bench.engine);
    /* 12 vectors of 128 lanes for 960 elements: 5/8 used */
    cr_assert_eq(op.op.cause[SIM_CAUSE_FILL_DRAIN], (16 + 11) * TICKS);
    cr_assert_eq(op.op.cause[SIM_CAUSE_UNUSED_LANES], 12 * TICKS * 3 / 8);
    cr_assert_eq(op.op.cause[SIM_CAUSE_USEFUL], 12 * TICKS * 5 / 8);
    expect_causes_sum(&op.op);
    bench_fini(&bench);
}

Test(vector, scratchpad_conflicts_stretch) {
    sim_vector_spec_t spec = spec_of(128);
    bench_t bench;
    bench_init(&bench, &spec, 256);
    sim_vector_op_t op = op_of(&bench, 32, 128, SIM_VECTOR_ALU, SIM_VECTOR_NONE);
    op.sram.bytes = 256 * 96; /* 48 cycles of work, 96 cycles of bytes */
    sim_vector_submit(bench.unit, &op);
    expect_at(bench.engine, &bench.count[0], 1, 96 * TICKS);
    expect_causes_sum(&op.op);
    cr_assert_eq(op.op.cause[SIM_CAUSE_SRAM_CONFLICT], 48 * TICKS);
    cr_assert_eq(op.op.cause[SIM_CAUSE_USEFUL], 32 * TICKS);
    bench_fini(&bench);
}

Test(vector, starts_at_a_clock_edge) {
    sim_vector_spec_t spec = spec_of(128);
    bench_t bench;
    bench_init(&bench, &spec, 4096);
    sim_vector_op_t first = op_of(&bench, 1, 128, SIM_VECTOR_ALU, SIM_VECTOR_NONE), second = first;
    sim_vector_submit(bench.unit, &first);
    (void)sim_engine_run_until(bench.engine, 17 * TICKS + 3); /* done is still to come */
    cr_assert_eq(sim_now(bench.engine), 17 * TICKS + 3);
    sim_vector_submit(bench.unit, &second);
    cr_assert_eq(second.op.start, 18 * TICKS);
    expect_at(bench.engine, &bench.count[0], 2, 35 * TICKS);
    bench_fini(&bench);
}

Test(vector, a_reset_gives_the_same_again) {
    sim_vector_spec_t spec = spec_of(100);
    spec.clock = clock_of(1050000000);
    bench_t bench;
    bench_init(&bench, &spec, 300);
    sim_op_t first = {0};
    for (int run = 0; run < 3; run++) {
        sim_vector_op_t op = op_of(&bench, 9, 333, SIM_VECTOR_TRANSCENDENTAL, SIM_VECTOR_REDUCE);
        op.sram.bytes = 77777;
        sim_vector_submit(bench.unit, &op);
        if (run == 1) { /* cut short */
            (void)sim_engine_run_until(bench.engine, 100);
        } else {
            (void)sim_engine_run(bench.engine);
            expect_causes_sum(&op.op);
            if (run == 0) first = op.op;
            expect_same_op(&op.op, &first);
        }
        sim_engine_reset(bench.engine);
        sim_vector_reset(bench.unit);
        sim_share_reset(&bench.sram);
        sim_share_reset(&bench.acc);
    }
    bench_fini(&bench);
}

Test(vector, spec_comes_from_the_config) {
    sim_config_t *config =
        config_new("default", "vector.lanes=64,vector.passes.div=7/2,vector.passes.cast=1/4,"
                              "vector.pipeline_cycles=3,sram.latency_cycles=9");
    sim_vector_spec_t spec;
    cr_assert_eq(sim_vector_spec_from_config(config, &spec), SIM_OK);
    cr_assert_eq(spec.lanes, 64);
    cr_assert_eq(spec.pipeline_cycles, 12);
    cr_assert_eq(spec.passes[SIM_VECTOR_DIV].num * 2, spec.passes[SIM_VECTOR_DIV].den * 7);
    cr_assert_eq(spec.passes[SIM_VECTOR_CAST].num * 4, spec.passes[SIM_VECTOR_CAST].den);
    sim_config_destroy(config);
}

Test(vector, banks_that_an_operand_meets_limit_it) {
    sim_vector_spec_t spec = spec_of(128);
    for (uint64_t cycles = 47; cycles <= 49; cycles++) { /* 16 + 32 of its own */
        bench_t bench;
        bench_init(&bench, &spec, 4096);
        sim_vector_op_t op = op_of(&bench, 32, 128, SIM_VECTOR_ALU, SIM_VECTOR_NONE);
        op.sram = (sim_bank_use_t){.bytes = 64, .cycles = cycles};
        sim_vector_submit(bench.unit, &op);
        sim_engine_run(bench.engine);
        uint64_t more = cycles > 48 ? cycles - 48 : 0;
        cr_assert_eq(op.op.end - op.op.start, (48 + more) * TICKS);
        cr_assert_eq(op.op.cause[SIM_CAUSE_SRAM_CONFLICT], more * TICKS);
        bench_fini(&bench);
    }
}
