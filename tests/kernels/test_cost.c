#include <string.h>

#include "kernels/kern_cost.h"
#include "kernels/kern_gemm_plan.h"
#include "sim/sim_matrix.h"
#include "sim/sim_vector.h"
#include "tests/kernels/kern_test.h"

/* The numbers below are those of this chip, whatever becomes of default.ini. */
#define PINNED                                                                                     \
    "matrix.rows=128,matrix.cols=128,matrix.rate.f32=1/4,matrix.rate.bf16=1,matrix.rate.i8=2,"     \
    "matrix.weight_buffers=2,matrix.load_rows_per_cycle=1,matrix.min_stream_cycles=1,"             \
    "vector.lanes=512,vector.startup_cycles=16,vector.passes.alu=1,"                               \
    "vector.passes.transcendental=2,dma.bytes_per_cycle=256,dma.descriptor_cycles=64,"             \
    "dma.run_cycles=1"

static vnpu_machine_t machine_of(const char *config, const char *overrides) {
    shim_open(config, overrides, DEV_EXEC_VALUES, 1);
    vnpu_machine_t machine;
    cr_assert_eq(vnpu_device_machine(0, &machine), VNPU_OK);
    shim_close();
    return machine;
}

/* Steady state: one fold per max(stream, load) cycles, as the simulated array has it. */
Test(cost, matrix_folds) {
    vnpu_machine_t m = machine_of("default", PINNED);
    cr_assert_eq(kern_cost_matrix(&m, VNPU_F32, 128, 128, 128, 128, 128, 128), 512);
    cr_assert_eq(kern_cost_matrix(&m, VNPU_F32, 129, 129, 129, 129, 129, 129), 4u * 129 * 4,
                 "129^3: four folds");
    cr_assert_eq(kern_cost_matrix(&m, VNPU_F32, 1, 128, 128, 1, 128, 128), 128,
                 "one row: the weights' load");
    cr_assert_eq(kern_cost_matrix(&m, VNPU_BF16, 512, 256, 384, 512, 256, 384), 2u * 3 * 512);
    cr_assert_eq(kern_cost_matrix(&m, VNPU_I8, 512, 128, 128, 512, 128, 128), 256);
    /* cut in tiles of whole folds: the same */
    cr_assert_eq(kern_cost_matrix(&m, VNPU_F32, 512, 512, 512, 128, 256, 128),
                 kern_cost_matrix(&m, VNPU_F32, 512, 512, 512, 512, 512, 512));
    m.matrix_weight_buffers = 1;
    cr_assert_eq(kern_cost_matrix(&m, VNPU_F32, 128, 128, 128, 128, 128, 128), 512 + 128);
    m.matrix_rate_num[VNPU_F32] = 0;
    cr_assert(kern_cost_matrix(&m, VNPU_F32, 8, 8, 8, 8, 8, 8) > 1ull << 60);
}

Test(cost, fold_count_is_the_units) {
    vnpu_machine_t m = machine_of("default", PINNED);
    sim_matrix_spec_t spec = {.rows = 128,
                              .cols = 128,
                              .weight_buffers = 2,
                              .load_rows_per_cycle = 1,
                              .min_stream_cycles = 1};
    for (uint32_t k = 1; k < 600; k += 61) {
        for (uint32_t n = 1; n < 600; n += 67) {
            uint64_t cycles = kern_cost_matrix(&m, VNPU_BF16, 1000, k, n, 1000, k, n);
            cr_assert_eq(cycles, 1000 * sim_matrix_folds(&spec, k, n), "k %u n %u", k, n);
        }
    }
}

/* Every dataflow and step shape: what one more fold along the columns adds to the unit's own form.
 */
Test(cost, the_array_is_the_units) {
    static const char *const FLOWS[] = {"weight_stationary", "output_stationary",
                                        "input_stationary"};
    static const char *const KEYS[] = {"matrix.step=1",
                                       "matrix.step=4",
                                       "matrix.count=2,matrix.split=n",
                                       "matrix.count=4,matrix.split=m",
                                       "matrix.partial_folds=full",
                                       "matrix.overlap=false",
                                       "matrix.gap_cycles=3",
                                       "matrix.gap_cycles=3,matrix.stream_elems=8",
                                       "matrix.weight_buffers=1",
                                       "matrix.load_rows_per_cycle=3",
                                       "matrix.min_stream_cycles=11"};
    for (size_t i = 0; i < 3 * (sizeof KEYS / sizeof KEYS[0]); i++) {
        char overrides[256];
        snprintf(overrides, sizeof overrides, "matrix.dataflow=%s,%s", FLOWS[i % 3], KEYS[i / 3]);
        vnpu_machine_t machine = machine_of("tiny", overrides);
        sim_matrix_spec_t spec = {.rows = 8,
                                  .cols = 8,
                                  .dataflow = (sim_dataflow_t)machine.matrix_dataflow,
                                  .step = machine.matrix_step,
                                  .count = machine.matrix_count,
                                  .split = (sim_split_t)machine.matrix_split,
                                  .has_full_folds = machine.matrix_has_full_folds != 0,
                                  .gap_cycles = machine.matrix_fill_cycles,
                                  .stream_elems = machine.matrix_stream_elems,
                                  .weight_buffers = machine.matrix_weight_buffers,
                                  .load_rows_per_cycle = machine.matrix_load_rows_per_cycle,
                                  .min_stream_cycles = machine.matrix_min_stream_cycles};
        for (uint32_t size = 1; size < 50; size += 8) {
            for (uint32_t r = 5; r <= 16; r += 11) { /* less than a fold of rows, two folds */
                uint32_t x[3][3] = {{size, r, 32}, {r, size, 32}, {32, r, size}};
                const uint32_t *s = x[machine.matrix_dataflow];
                uint32_t more[3] = {s[0], s[1], s[2]};
                more[machine.matrix_dataflow == 2 ? 0 : 2] += 32;
                sim_ratio_t one = {1, 1};
                uint64_t unit = sim_matrix_cold_cycles(&spec, more[0], more[1], more[2], one) -
                                sim_matrix_cold_cycles(&spec, s[0], s[1], s[2], one);
                uint64_t cost =
                    kern_cost_matrix(&machine, VNPU_F32, s[0], s[1], s[2], s[0], s[1], s[2]);
                cr_assert_eq(cost, unit, "%s, %u %u %u: %llu, %llu", overrides, s[0], s[1], s[2],
                             (unsigned long long)cost, (unsigned long long)unit);
            }
        }
    }
}

/* Slow operand ports: a fold takes what the unit reads for it. */
Test(cost, operand_ports_are_the_units) {
    static const char *const FLOWS[] = {"weight_stationary", "output_stationary",
                                        "input_stationary"};
    const uint32_t sizes[] = {1, 8, 9, 40};
    for (int i = 0; i < 3 * 64; i++) {
        char overrides[256];
        snprintf(overrides, sizeof overrides,
                 "matrix.dataflow=%s,matrix.operand_bytes_per_cycle=1 B", FLOWS[i / 64]);
        vnpu_machine_t machine = machine_of("tiny", overrides);
        sim_matrix_spec_t spec = {
            .rows = 8, .cols = 8, .dataflow = (sim_dataflow_t)machine.matrix_dataflow};
        sim_matrix_op_t op = {.m = sizes[i % 4],
                              .k = sizes[i / 4 % 4],
                              .n = sizes[i / 16 % 4],
                              .in_bytes = 4,
                              .weight_bytes = 4};
        sim_bank_use_t use[2];
        sim_matrix_use(&spec, &op, use);
        uint64_t folds = sim_matrix_product_folds(&spec, op.m, op.k, op.n);
        uint64_t cost = kern_cost_matrix(&machine, VNPU_F32, op.m, op.k, op.n, op.m, op.k, op.n);
        cr_assert_eq(cost, folds * ((use[0].bytes + folds - 1) / folds), "%s, %u %u %u", overrides,
                     op.m, op.k, op.n);
    }
}

/* Where loads are hidden, the folds' steps are the time: the unit's padded work by its cells. */
Test(cost, arrays_split_a_product_as_the_unit_does) {
    static const char *const FLOWS[] = {"weight_stationary", "output_stationary",
                                        "input_stationary"};
    static const char *const SPLITS[] = {"n", "m", "best"};
    const uint32_t sizes[] = {1, 9, 16, 40, 100};
    for (size_t i = 0; i < 9; i++) {
        char overrides[256];
        snprintf(overrides, sizeof overrides,
                 "matrix.dataflow=%s,matrix.split=%s,matrix.count=6,matrix.load_rows_per_cycle=8",
                 FLOWS[i / 3], SPLITS[i % 3]);
        vnpu_machine_t machine = machine_of("tiny", overrides);
        sim_matrix_spec_t spec = {.rows = 8,
                                  .cols = 8,
                                  .count = 6,
                                  .dataflow = (sim_dataflow_t)machine.matrix_dataflow,
                                  .split = (sim_split_t)machine.matrix_split};
        for (int j = 0; j < 125; j++) {
            uint32_t m = sizes[j % 5], k = sizes[j / 5 % 5], n = sizes[j / 25];
            uint64_t cost = kern_cost_matrix(&machine, VNPU_BF16, m, k, n, m, k, n);
            cr_assert_eq(cost * 8 * 8 * 6, sim_matrix_padded_macs(&spec, m, k, n), "%s, %u %u %u",
                         overrides, m, k, n);
        }
    }
}

Test(cost, tiles_fill_the_array) {
    static const struct {
        const char *keys;
        uint64_t m, k, n;
    } CASES[] = {{"matrix.rows=4", 1, 4, 8},
                 {"matrix.count=4,matrix.step=2", 2, 8, 32},
                 {"matrix.rows=4,matrix.step=2,matrix.dataflow=output_stationary", 4, 2, 8},
                 {"matrix.rows=4,matrix.count=2,matrix.dataflow=input_stationary", 8, 4, 2},
                 {"matrix.count=2,matrix.split=m,matrix.dataflow=input_stationary", 16, 8, 1},
                 {"matrix.count=2,matrix.split=best", 1, 8, 8}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        vnpu_machine_t machine = machine_of("tiny", CASES[i].keys);
        kern_fold_t fold = kern_cost_fold(&machine);
        cr_assert(fold.m == CASES[i].m && fold.k == CASES[i].k && fold.n == CASES[i].n, "%s",
                  CASES[i].keys);
    }
}

Test(cost, f32_as_bf16_passes) {
    vnpu_machine_t m = machine_of("tiny", "matrix.f32=bf16x3");
    cr_assert_eq(kern_cost_matrix(&m, VNPU_F32, 100, 8, 8, 100, 8, 8), 300);
    cr_assert_eq(kern_cost_matrix(&m, VNPU_F32, 2, 8, 8, 2, 8, 8), 16, "two pieces load");
    cr_assert_eq(kern_cost_matrix(&m, VNPU_BF16, 2, 8, 8, 2, 8, 8), 8);
}

Test(cost, vector_and_dma) {
    vnpu_machine_t m = machine_of("default", PINNED);
    cr_assert_eq(kern_cost_vector(&m, 1, 512, KERN_CLASS_ALU), 16 + 1);
    cr_assert_eq(kern_cost_vector(&m, 10, 513, KERN_CLASS_ALU), 16 + 20);
    cr_assert_eq(kern_cost_vector(&m, 10, 512, KERN_CLASS_TRANSCENDENTAL), 16 + 20);
    cr_assert_eq(kern_cost_vector(&m, 128, 128, KERN_CLASS_ALU), 16 + 32,
                 "four short rows share a vector");
    m.dma_outstanding_bytes = 0;
    m.dram_latency_ps = 0;
    cr_assert_eq(kern_cost_dma(&m, 1 << 20, 1 << 20), 64 + 1 + (1 << 20) / 256);
    cr_assert_eq(kern_cost_dma(&m, 1 << 20, 256), 64 + 4096 * 2,
                 "runs as long as the overhead: half the rate");
    cr_assert_eq(kern_cost_dma(&m, 0, 256), 0);
}

/* Rows of 4 KiB, one a channel, in stripes of 128 KiB; 10 ns from one opening to the next. */
Test(cost, short_runs_open_more_rows) {
    vnpu_machine_t m = machine_of("default", PINNED);
    m.dram_segment_bytes = m.dram_open_bytes = 4096;
    m.dram_stripe_bytes = 128 << 10;
    m.dram_open_ps = 10000;
    m.core_clock_hz = 1000000000;
    cr_assert_eq(kern_cost_openings(&m, 100, 256, 0), 100, "each its own row");
    cr_assert_eq(kern_cost_openings(&m, 100, 256, 8192), 100, "a row each, every other channel");
    cr_assert_eq(kern_cost_openings(&m, 100, 256, 1024), 25, "four lie in a row");
    cr_assert_eq(kern_cost_openings(&m, 1, 1 << 20, 1 << 20), 256, "whole rows");
    cr_assert_eq(kern_cost_opening(&m, 25), 250);
    m.dram_segment_bytes = 512; /* eight visits of a row, a channel further each */
    cr_assert_eq(kern_cost_openings(&m, 100, 2048, 1 << 20), 400);
    cr_assert_eq(kern_cost_openings(&m, 64, 2048, 4096), 64 * 2048 / 4096 * 2);
    m.dram_segment_bytes = 0;
    cr_assert_eq(kern_cost_openings(&m, 100, 256, 0), 0, "not known");
}

static kern_gemm_shape_t shape_of(int64_t batch, int64_t m, int64_t k, int64_t n) {
    return (kern_gemm_shape_t){.size = {batch, n, m, k},
                               .a = {batch > 1 ? m * k : 0, k, 1},
                               .b = {batch > 1 ? k * n : 0, n, 1},
                               .out = {batch > 1 ? m * n : 0, n, 1},
                               .a_dtype = VNPU_F32,
                               .b_dtype = VNPU_F32,
                               .out_dtype = VNPU_F32};
}

/* Whatever is chosen fits, covers the shape, and is the same when asked again. */
Test(plan, fits_and_covers) {
    static const int64_t sizes[] = {1, 7, 8, 9, 100, 128, 384, 1000, 4096};
    static const char *const configs[] = {"default", "tiny"};
    for (int c = 0; c < 2; c++) {
        vnpu_machine_t machine = machine_of(configs[c], NULL);
        for (int i = 0; i < 9 * 9 * 9; i += 2) {
            kern_gemm_shape_t shape =
                shape_of(i % 3 == 0 ? 5 : 1, sizes[i % 9], sizes[i / 9 % 9], sizes[i / 81]);
            kern_gemm_plan_t plan, again;
            cr_assert(kern_gemm_choose(&machine, &shape, &plan));
            cr_assert(kern_gemm_choose(&machine, &shape, &again));
            cr_assert_eq(plan.cycles, again.cycles);
            cr_assert_eq(memcmp(plan.axis, again.axis, sizeof plan.axis), 0);
            cr_assert(kern_gemm_sram_bytes(&shape, &plan) <= machine.sram_bytes);
            uint64_t tile = (uint64_t)plan.axis[GEMM_M].tile * plan.axis[GEMM_N].tile * 4;
            cr_assert(plan.tile_buffers * tile <= machine.acc_bytes);
            cr_assert(plan.grid[0] * plan.grid[1] <= machine.workers);
            for (int x = 0; x < GEMM_AXES; x++) {
                const kern_axis_t *axis = &plan.axis[x];
                cr_assert((int64_t)axis->trips * axis->grid * axis->tile >= shape.size[x]);
            }
        }
    }
}

/* The choice moves as arithmetic says. */
Test(plan, follows_the_machine) {
    vnpu_machine_t machine = machine_of("default", NULL);
    kern_gemm_shape_t large = shape_of(1, 4096, 1536, 1536);
    kern_gemm_plan_t base, changed;
    cr_assert(kern_gemm_choose(&machine, &large, &base));
    uint64_t ideal = 4096ull * 1536 * 1536 * 4 / (128 * 128 * 4);
    cr_assert(base.cycles >= ideal && base.cycles < ideal * 120 / 100, "%llu cycles, %llu ideal",
              (unsigned long long)base.cycles, (unsigned long long)ideal);
    vnpu_machine_t other = machine;
    other.workers = other.cores = 8;
    cr_assert(kern_gemm_choose(&other, &large, &changed));
    cr_assert(changed.cycles < base.cycles * 6 / 10, "twice the cores");
    other = machine;
    other.dram_bytes_per_s /= 16;
    cr_assert(kern_gemm_choose(&other, &large, &changed));
    cr_assert(changed.cycles > base.cycles, "a slow DRAM costs");
    other = machine;
    other.sram_bytes /= 8;
    cr_assert(kern_gemm_choose(&other, &large, &changed));
    cr_assert(changed.cycles >= base.cycles, "less SRAM is never better");
}

Test(plan, few_rows_stay_and_weights_stream) {
    vnpu_machine_t machine = machine_of("default", NULL);
    kern_gemm_shape_t shape = shape_of(1, 1, 4096, 4096);
    kern_gemm_plan_t plan;
    cr_assert(kern_gemm_choose(&machine, &shape, &plan));
    cr_assert(plan.is_a_fixed);
    cr_assert_eq(plan.grid[0] * plan.grid[1], machine.workers);
}

Test(plan, nothing_fits) {
    vnpu_machine_t machine = machine_of("tiny", NULL);
    machine.sram_bytes = 64;
    kern_gemm_shape_t shape = shape_of(1, 8, 8, 8);
    kern_gemm_plan_t plan;
    cr_assert_not(kern_gemm_choose(&machine, &shape, &plan));
}
