/* Tilings that the simulator chose, on the whole stack in this process. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "driver/vnpu_sim.h"
#include "kernels/kern_cost.h"
#include "kernels/kern_gemm_plan.h"
#include "kernels/kern_internal.h"
#include "kernels/kern_profile.h"

static kern_context_t *context;

static void must(vnpu_status_t status, const char *what) {
    char text[800] = "";
    if (status != VNPU_OK) (void)vnpu_error_detail(text, sizeof text);
    cr_assert_eq(status, VNPU_OK, "%s: %s: %s", what, vnpu_status_name(status), text);
}

static void open_config(const char *config, const char *options, const char *mode,
                        const char *plan) {
    setenv("VNPU_TRANSPORT", "inproc", 1);
    setenv("VNPU_CONFIG_DIR", VNPU_SOURCE_DIR "/configs", 1);
    setenv("VNPU_CONFIG", config, 1);
    setenv("VNPU_OPTIONS", options, 1);
    setenv("VNPU_MODE", mode, 1);
    setenv("VNPU_PLAN", plan, 1);
    must(vnpu_init(0), "init");
    must(kern_context_create(0, &context), "context");
}

static void open_chip(const char *mode, const char *plan) {
    open_config("default", "", mode, plan);
}

static void close_chip(void) {
    kern_context_destroy(context);
    must(vnpu_shutdown(), "shutdown");
}

static kern_tensor_t dense(int64_t rows, int64_t columns) {
    kern_tensor_t t = {
        .dtype = VNPU_F32, .ndims = 2, .size = {rows, columns}, .stride = {columns, 1}};
    must(vnpu_mem_alloc(0, (size_t)(rows * columns) * 4, &t.address), "alloc");
    must(kern_fill(context, 0, &t, 0.5, 0), "fill");
    return t;
}

static kern_mapping_t map_gemm(int64_t m, int64_t k, int64_t n) {
    kern_gemm_t call = {.out = dense(m, n), .a = dense(m, k), .b = dense(k, n), .alpha = 1};
    must(kern_gemm(context, 0, &call), "gemm");
    kern_mapping_t mapping = *kern_last_plan(context);
    must(vnpu_mem_free(0, call.out.address), "free");
    must(vnpu_mem_free(0, call.a.address), "free");
    must(vnpu_mem_free(0, call.b.address), "free");
    return mapping;
}

/* What the simulator says of a plan, with operands that lie apart. */
static uint64_t time_plan(const kern_gemm_shape_t *shape, const kern_gemm_plan_t *plan) {
    kern_builder_t builder;
    kern_builder_init(&builder, kern_machine(context), "alone");
    kern_gemm_generate(shape, plan, &builder);
    size_t bytes;
    void *image = kern_builder_image(&builder, &bytes);
    kern_builder_fini(&builder);
    vnpu_module_t module;
    must(vnpu_module_load(0, image, bytes, &module), "load");
    free(image);
    vnpu_launch_config_t config = {.size = sizeof config, .grid = {plan->grid[0], plan->grid[1]}};
    uint64_t ps;
    must(vnpu_program_time(module, &config, (uint64_t[]){1ull << 44, 1ull << 45, 1ull << 46}, 3,
                           &ps),
         "time");
    must(vnpu_module_unload(module), "unload");
    return ps;
}

static const int64_t shapes[][3] = {{512, 384, 384}, {1024, 384, 1536}, {200, 1000, 300}};

/* No candidate within 10 % of the closed form's favourite is faster than what was chosen. */
Test(plan, the_fastest_of_the_close_ones, .timeout = 120) {
    open_chip("timing", "measure");
    uint32_t compared = 0;
    for (int i = 0; i < 3; i++) {
        int64_t m = shapes[i][0], k = shapes[i][1], n = shapes[i][2];
        kern_gemm_shape_t shape = {.size = {1, n, m, k},
                                   .a = {0, k, 1},
                                   .b = {0, n, 1},
                                   .out = {0, n, 1},
                                   .a_dtype = VNPU_F32,
                                   .b_dtype = VNPU_F32,
                                   .out_dtype = VNPU_F32};
        kern_mapping_t mapping = map_gemm(m, k, n);
        kern_gemm_plan_t plan[KERN_TRIALS];
        uint32_t count = kern_gemm_rank(kern_machine(context), &shape, plan, KERN_TRIALS);
        uint32_t close = 0;
        for (; close < count && plan[close].cycles - plan[0].cycles <= plan[0].cycles / 10;)
            close++;
        cr_assert_eq(mapping.candidates, close > 1 ? close : 0);
        for (uint32_t c = 0; close > 1 && c < close; c++)
            cr_assert(mapping.chosen.measured_ps <= time_plan(&shape, &plan[c]));
        compared += close > 1;
    }
    cr_assert(compared > 0, "no shape was close");
    close_chip();
}

/* Where results leave the accumulator for DRAM, `best` on one core is no slower than the steps of
 * gemmini-like, which no closed form judges. */
Test(plan, tiles_in_steps_are_tried, .timeout = 120) {
    static const int64_t sides[] = {128, 200};
    open_config("gemmini-16", "mapping.profile=best", "timing", "measure");
    for (int i = 0; i < 2; i++) {
        int64_t n = sides[i];
        kern_gemm_t call = {.alpha = 1};
        kern_tensor_t *const operand[3] = {&call.out, &call.a, &call.b};
        for (int o = 0; o < 3; o++) {
            *operand[o] =
                (kern_tensor_t){.dtype = VNPU_I8, .ndims = 2, .size = {n, n}, .stride = {n, 1}};
            must(vnpu_mem_alloc(0, (size_t)(n * n), &operand[o]->address), "alloc");
        }
        must(kern_gemm(context, 0, &call), "gemm");
        kern_mapping_t mapping = *kern_last_plan(context);
        kern_gemm_shape_t shape = {.size = {1, n, n, n},
                                   .a = {0, n, 1},
                                   .b = {0, n, 1},
                                   .out = {0, n, 1},
                                   .a_dtype = VNPU_I8,
                                   .b_dtype = VNPU_I8,
                                   .out_dtype = VNPU_I8,
                                   .is_direct = true};
        kern_gemm_plan_t steps;
        cr_assert(kern_profile_gemmini_gemm(kern_machine(context), &shape, &steps));
        cr_assert_gt(steps.step_k, 0);
        cr_assert_geq(mapping.candidates, 2);
        cr_assert_leq(mapping.chosen.measured_ps, time_plan(&shape, &steps));
        for (int o = 0; o < 3; o++)
            must(vnpu_mem_free(0, operand[o]->address), "free");
    }
    close_chip();
}

/* The choice does not hang on what ran before, nor on where operands lie. */
Test(plan, the_order_of_calls_does_not_matter, .timeout = 120) {
    kern_mapping_t first[3];
    for (int turn = 0; turn < 2; turn++) {
        open_chip("timing", "measure");
        for (int j = 0; j < 3; j++) {
            int i = turn == 0 ? j : 2 - j;
            kern_mapping_t got = map_gemm(shapes[i][0], shapes[i][1], shapes[i][2]);
            if (turn == 0) first[i] = got;
            cr_assert_eq(got.chosen.m, first[i].chosen.m);
            cr_assert_eq(got.chosen.n, first[i].chosen.n);
            cr_assert_eq(got.chosen.k, first[i].chosen.k);
            cr_assert_eq(got.chosen.measured_ps, first[i].chosen.measured_ps);
            cr_assert_eq(got.next.measured_ps, first[i].next.measured_ps);
            (void)dense(17 + j, 3); /* the next operands lie elsewhere */
        }
        close_chip();
    }
}

Test(plan, nothing_is_measured_without_time, .timeout = 120) {
    static const char *const mode[] = {"functional", "timing"}, *const plan[] = {"measure",
                                                                                 "model"};
    for (int i = 0; i < 2; i++) {
        open_chip(mode[i], plan[i]);
        kern_mapping_t mapping = map_gemm(512, 384, 384);
        cr_assert_eq(mapping.candidates, 0);
        cr_assert_eq(mapping.chosen.measured_ps, 0);
        must(vnpu_device_synchronize(0), "synchronize");
        close_chip();
    }
}

/* Numbers by hand: 512 x 384 x 384. */
Test(plan, mapping_adds_up, .timeout = 120) {
    open_chip("timing", "measure");
    kern_mapping_t mapping = map_gemm(512, 384, 384);
    cr_assert_str_eq(mapping.family, "gemm");
    cr_assert_eq(mapping.compulsory_bytes, (512 * 384 + 384 * 384 + 512 * 384) * 4);
    cr_assert(mapping.dram_bytes >= mapping.compulsory_bytes);
    cr_assert_eq(mapping.useful_macs, 512ull * 384 * 384);
    cr_assert(mapping.padded_macs >= mapping.useful_macs);
    cr_assert(mapping.next.order != NULL);
    cr_assert(mapping.next.measured_ps >= mapping.chosen.measured_ps);
    mapping = map_gemm(1, 100, 100); /* one fold of 128 x 128 for a row, however it is cut */
    cr_assert_eq(mapping.candidates, 0);
    cr_assert_eq(mapping.useful_macs, 10000);
    cr_assert_eq(mapping.padded_macs % (128 * 128), 0);
    close_chip();
}

static kern_gemm_shape_t shape_of(vnpu_dtype_t dtype, int64_t m, int64_t k, int64_t n) {
    return (kern_gemm_shape_t){.size = {1, n, m, k},
                               .a = {0, k, 1},
                               .b = {0, n, 1},
                               .out = {0, n, 1},
                               .a_dtype = dtype,
                               .b_dtype = dtype,
                               .out_dtype = dtype};
}

static void open_four_arrays(void) {
    open_config(VNPU_SOURCE_DIR "/benchmarks/accuracy/tpuv6e.ini", "mapping.profile=best", "timing",
                "model");
}

static uint64_t memory_ps(uint64_t bytes) {
    const vnpu_machine_t *machine = kern_machine(context);
    return bytes * 1000000 / (machine->dram_bytes_per_s / 1000000);
}

/* 600 rows on one core with four arrays of 256: all of them stay, weights are read once, and the
 * product comes near the slower of array and memory. */
Test(plan, rows_that_the_accumulator_holds_stay, .timeout = 120) {
    open_four_arrays();
    kern_gemm_shape_t shape = shape_of(VNPU_BF16, 600, 8192, 4096);
    kern_gemm_plan_t plan;
    cr_assert_eq(kern_gemm_rank(kern_machine(context), &shape, &plan, 1), 1);
    cr_assert(plan.is_a_fixed && plan.axis[GEMM_M].tiles == 1);
    uint64_t memory = memory_ps(2 * (600 * 8192 + 8192 * 4096 + 600 * 4096));
    uint64_t ps = time_plan(&shape, &plan);
    cr_assert(ps >= memory && ps < memory * 5 / 4, "%llu ps, the memory alone takes %llu",
              (unsigned long long)ps, (unsigned long long)memory);
    close_chip();
}

/* Where the array decides, rows in pieces come beside the first products: most of their load is
 * hidden, and whole they are waited for. */
Test(plan, rows_in_pieces_hide_their_load, .timeout = 120) {
    open_four_arrays();
    kern_gemm_shape_t shape = shape_of(VNPU_BF16, 900, 8192, 4096);
    kern_gemm_rule_t rule = {.order = KERN_GEMM_ROWS,
                             .m = 900,
                             .n = 1024,
                             .k = 1024,
                             .b_grid = 1,
                             .m_grid = 1,
                             .n_grid = 1,
                             .stream_buffers = 4,
                             .panel_buffers = 2,
                             .result_buffers = 2};
    kern_gemm_plan_t plan;
    cr_assert(kern_gemm_finish(kern_machine(context), &shape, &rule, &plan) && !plan.is_a_whole);
    uint64_t pieces = time_plan(&shape, &plan);
    plan.is_a_whole = true;
    uint64_t whole = time_plan(&shape, &plan), load = memory_ps(2 * 900 * 8192);
    cr_assert(pieces + load / 2 < whole, "%llu ps in pieces, %llu whole, the load %llu",
              (unsigned long long)pieces, (unsigned long long)whole, (unsigned long long)load);
    close_chip();
}
