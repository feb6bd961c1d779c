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
