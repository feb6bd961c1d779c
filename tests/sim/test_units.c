#include <criterion/criterion.h>

#include "sim/sim_dma.h"
#include "sim/sim_matrix.h"
#include "sim/sim_vector.h"
#include "tests/sim/alloc_count.h"
#include "tests/sim/units.h"

/* What all units have in common: failing allocations, and none once they run. */

typedef struct core {
    sim_engine_t *engine;
    sim_dram_t *dram;
    sim_noc_t *noc;
    sim_share_t sram, acc;
    sim_matrix_t *matrix;
    sim_vector_t *vector;
    sim_dma_t *dma;
} core_t;

static void core_fini(core_t *core) {
    sim_matrix_destroy(core->matrix);
    sim_vector_destroy(core->vector);
    sim_dma_destroy(core->dma);
    sim_dram_destroy(core->dram);
    sim_noc_destroy(core->noc);
}

static sim_status_t core_init(core_t *core, sim_engine_t *engine, const sim_config_t *config,
                              sim_error_t *err) {
    sim_matrix_spec_t matrix;
    sim_vector_spec_t vector;
    sim_dma_spec_t dma;
    *core = (core_t){.engine = engine};
    sim_status_t status = sim_matrix_spec_from_config(config, &matrix);
    if (status == SIM_OK) status = sim_vector_spec_from_config(config, &vector);
    if (status == SIM_OK) status = sim_dma_spec_from_config(config, &dma);
    if (status != SIM_OK) return status;
    sim_share_init(&core->sram, engine, &matrix.clock, 2048);
    sim_share_init(&core->acc, engine, &matrix.clock, 4096);
    status = sim_dram_create(config, &core->dram, err);
    if (status == SIM_OK) status = sim_noc_create(config, 1, &core->noc, err);
    if (status == SIM_OK)
        status = sim_matrix_create(engine, &matrix, &core->sram, &core->acc, &core->matrix);
    if (status == SIM_OK)
        status = sim_vector_create(engine, &vector, &core->sram, &core->acc, &core->vector);
    if (status == SIM_OK)
        status =
            sim_dma_create(engine, &dma, core->dram, core->noc, 0, &core->sram, NULL, &core->dma);
    if (status != SIM_OK) core_fini(core);
    return status;
}

Test(units, every_failing_allocation_is_reported_and_leaks_nothing) {
    const char *const configs[] = {"default", "tiny"};
    for (int i = 0; i < 2; i++) {
        sim_config_t *config = config_new(configs[i], "");
        sim_engine_t *engine = engine_new();
        core_t core;
        unsigned long failures = 0;
        for (;; failures++) {
            sim_error_t err = {0};
            alloc_count_reset();
            alloc_fail_from(failures);
            sim_status_t status = core_init(&core, engine, config, &err);
            if (status == SIM_OK) break;
            cr_assert_eq(status, SIM_ERROR_OUT_OF_MEMORY);
            cr_assert_eq(alloc_live(), 0, "failing allocation %lu", failures);
            cr_assert_lt(failures, 100);
        }
        cr_assert_geq(failures, 5);
        core_fini(&core);
        cr_assert_eq(alloc_live(), 0);
        alloc_count_reset();
        sim_engine_destroy(engine);
        sim_config_destroy(config);
    }
}

Test(units, nothing_is_allocated_while_they_run) {
    sim_config_t *config = config_new("default", "");
    sim_engine_t *engine = engine_new();
    sim_error_t err = {0};
    core_t core;
    cr_assert_eq(core_init(&core, engine, config, &err), SIM_OK, "%s", err.text);
    alloc_count_reset();
    for (uint32_t i = 0; i < 50; i++) {
        uint64_t count[2] = {0};
        sim_matrix_op_t matrix = {.m = 100 + i,
                                  .k = 200,
                                  .n = 300,
                                  .rate = {1, 4},
                                  .in_bytes = 4,
                                  .weight_bytes = 4,
                                  .out_bytes = 4};
        sim_vector_op_t vector = {.outer = 10,
                                  .inner = 1000 + i,
                                  .cls = SIM_VECTOR_DIV,
                                  .sram = {.bytes = 80000},
                                  .acc = {.bytes = 40000}};
        sim_dma_op_t dma = {.kind = i % 2 ? SIM_DMA_READ : SIM_DMA_WRITE,
                            .base = i * 7919,
                            .ndims = 2,
                            .size = {9, 11},
                            .stride = {1 << 20, 12345},
                            .run_bytes = 3000 + i};
        watch(&matrix.op, count);
        watch(&vector.op, count);
        watch(&dma.op, count);
        sim_matrix_submit(core.matrix, &matrix);
        sim_vector_submit(core.vector, &vector);
        sim_dma_submit(core.dma, &dma);
        (void)sim_engine_run(engine);
        cr_assert_eq(count[0], 3);
        cr_assert_eq(count[1], 3);
        expect_causes_sum(&matrix.op);
        expect_causes_sum(&vector.op);
        expect_causes_sum(&dma.op);
    }
    cr_assert_eq(alloc_count(), 0);
    core_fini(&core);
    sim_engine_destroy(engine);
    sim_config_destroy(config);
}

/* Two engines that share the scratchpad: within its capacity each takes its own time, beyond it the
 * bytes decide. */
Test(units, matrix_and_vector_share_the_scratchpad) {
    sim_engine_t *engine = engine_new();
    sim_clock_t clock = clock_of(GHZ);
    sim_matrix_spec_t matrix_spec = {.rows = 128,
                                     .cols = 128,
                                     .weight_buffers = 2,
                                     .load_rows_per_cycle = 1,
                                     .min_stream_cycles = 1,
                                     .clock = clock};
    sim_vector_spec_t vector_spec = {.lanes = 128, .clock = clock};
    for (int i = 1; i < SIM_VECTOR_CLASS_COUNT; i++)
        vector_spec.passes[i] = (sim_ratio_t){1, 1};
    for (uint64_t is_narrow = 0; is_narrow < 2; is_narrow++) {
        sim_share_t sram;
        sim_matrix_t *matrix;
        sim_vector_t *vector;
        sim_engine_reset(engine);
        /* 512 bytes a cycle each; the narrow one has 768 for both */
        sim_share_init(&sram, engine, &clock, is_narrow ? 768 : 1024);
        cr_assert_eq(sim_matrix_create(engine, &matrix_spec, &sram, NULL, &matrix), SIM_OK);
        cr_assert_eq(sim_vector_create(engine, &vector_spec, &sram, NULL, &vector), SIM_OK);
        uint64_t count[2] = {0};
        sim_matrix_op_t m = {
            .m = 896, .k = 128, .n = 128, .rate = {1, 1}, .in_bytes = 4, .weight_bytes = 4};
        sim_vector_op_t v = {
            .outer = 1024, .inner = 128, .cls = SIM_VECTOR_ALU, .sram = {.bytes = 1024 * 512}};
        watch(&m.op, count);
        watch(&v.op, count);
        sim_matrix_submit(matrix, &m);
        sim_vector_submit(vector, &v);
        (void)sim_engine_run(engine);
        cr_assert_eq(count[0], 2);
        /* 1024 cycles and 1024 x 512 bytes each: alike, so both end together */
        uint64_t cycles = is_narrow ? 1024 * 1024 / 768 : 1024;
        cr_assert_geq(m.op.end, cycles * 8);
        cr_assert_leq(m.op.end, (cycles + is_narrow * 2) * 8);
        cr_assert_eq(m.op.end, v.op.end);
        cr_assert_eq(m.op.cause[SIM_CAUSE_SRAM_CONFLICT], m.op.end - 1024 * 8);
        cr_assert_eq(v.op.cause[SIM_CAUSE_SRAM_CONFLICT], v.op.end - 1024 * 8);
        sim_matrix_destroy(matrix);
        sim_vector_destroy(vector);
    }
    sim_engine_destroy(engine);
}
