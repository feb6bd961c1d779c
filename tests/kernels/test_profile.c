/* Storage in tiles, and what a profile's rules make of an operator. */
#include <math.h>

#include "kernels/kern_plan.h"
#include "kernels/kern_profile.h"
#include "tests/kernels/kern_test.h"

static kern_context_t *open_with(const char *overrides) {
    shim_open("default", overrides, DEV_EXEC_VALUES, 3);
    kern_context_t *context = NULL;
    cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
    return context;
}

static void check_sizes(const kern_context_t *context, uint32_t ndims, const int64_t *size,
                        const int64_t *want) {
    int64_t got[KERN_MAX_DIMS] = {0};
    kern_stored_sizes(context, ndims, size, got);
    for (uint32_t d = 0; d < ndims; d++)
        cr_assert_eq(got[d], want[d], "dimension %u of %u: %lld, not %lld", d, ndims,
                     (long long)got[d], (long long)want[d]);
}

Test(layout, minor_dimensions_pad_least) {
    kern_context_t *context = open_with("layout.tile=8x128");
    check_sizes(context, 3, (int64_t[]){16, 16, 16}, (int64_t[]){16, 16, 128});
    check_sizes(context, 3, (int64_t[]){8, 128, 3}, (int64_t[]){3, 8, 128}); /* no padding at all */
    check_sizes(context, 2, (int64_t[]){1, 1}, (int64_t[]){8, 128});
    check_sizes(context, 2, (int64_t[]){128, 8}, (int64_t[]){8, 128}); /* turned */
    check_sizes(context, 2, (int64_t[]){9, 129}, (int64_t[]){16, 256});
    check_sizes(context, 1, (int64_t[]){256}, (int64_t[]){256});
    check_sizes(context, 1, (int64_t[]){1}, (int64_t[]){128});
    check_sizes(context, 1, (int64_t[]){1023}, (int64_t[]){1024});
    check_sizes(context, 1, (int64_t[]){1025}, (int64_t[]){2048});
    check_sizes(context, 2, (int64_t[]){0, 128}, (int64_t[]){0, 128}); /* nothing stays nothing */
    int64_t none[KERN_MAX_DIMS];
    kern_stored_sizes(context, 0, NULL, none);
    test_close(context);
}

Test(layout, without_tiles_nothing_is_padded) {
    kern_context_t *context = open_with(NULL);
    check_sizes(context, 3, (int64_t[]){5, 3, 7}, (int64_t[]){5, 3, 7});
    check_sizes(context, 1, (int64_t[]){1}, (int64_t[]){1});
    test_close(context);
}

static uint64_t launches_of_softmax(const char *overrides, bool is_log, double *out_first) {
    kern_context_t *context = open_with(overrides);
    kern_tensor_t in = test_tensor(VNPU_F32, 2, (int64_t[]){24, 200}),
                  out = test_tensor(VNPU_F32, 2, (int64_t[]){24, 200});
    for (int64_t i = 0; i < 24 * 200; i++)
        test_set(&in, i, (double)(i % 7));
    uint64_t before = shim_launches();
    test_ok(context, kern_softmax(context, 0, &out, &in, 1, is_log), "softmax");
    uint64_t launches = shim_launches() - before;
    *out_first = test_get(&out, 3);
    test_release(&in), test_release(&out);
    test_close(context);
    return launches;
}

Test(layout, columns_are_whole) {
    kern_context_t *context = open_with("layout.tile=8x128");
    cr_assert_eq(kern_stored_columns(context, 64), 128);
    cr_assert_eq(kern_stored_columns(context, 128), 128);
    cr_assert_eq(kern_stored_columns(context, 1025), 1152);
    test_close(context);
    context = open_with(NULL);
    cr_assert_eq(kern_stored_columns(context, 65), 65);
    test_close(context);
}

/* ---- xla-like ---- */

/* Two cores of 16 MiB and accumulators of 4 MiB, arrays of 128 columns: a TPU v4's. */
#define XLA_CHIP                                                                                   \
    "mapping.profile=xla-like,grid.cores=2,sram.bytes=16 MiB,acc.bytes=4 MiB,matrix.rate.f16=1"

static kern_gemm_shape_t f16_product(int64_t batch, int64_t m, int64_t k, int64_t n) {
    return (kern_gemm_shape_t){.size = {[GEMM_B] = batch, [GEMM_N] = n, [GEMM_M] = m, [GEMM_K] = k},
                               .a = {batch > 1 ? m * k : 0, k, 1},
                               .b = {batch > 1 ? k * n : 0, n, 1},
                               .out = {batch > 1 ? m * n : 0, n, 1},
                               .a_dtype = VNPU_F16,
                               .b_dtype = VNPU_F16,
                               .out_dtype = VNPU_F16};
}

Test(profile, products_of_xla) {
    static const struct {
        int64_t m, k, n;
        uint32_t grid[2], tile[3]; /* m, k, n */
        bool is_panel, is_a_fixed;
        uint32_t buffers;
    } CASES[] = {
        /* one step: rows stay, weights come by 512 columns */
        {4096, 2048, 1024, {2, 1}, {2048, 2048, 512}, false, true, 2},
        {6144, 2048, 1024, {2, 1}, {3072, 2048, 256}, false, true, 2}, /* accumulators: half */
        {1024, 2048, 1024, {2, 1}, {512, 2048, 512}, false, true, 2},
        {512, 512, 384, {2, 1}, {256, 512, 384}, false, true, 1},
        /* the longer n: weights stay, rows come by 512 */
        {1024, 2048, 2048, {1, 2}, {512, 2048, 1024}, true, false, 2},
        {256, 512, 512, {1, 2}, {256, 512, 256}, true, false, 1},
        /* half of n is no multiple of the array's width */
        {256, 512, 384, {2, 1}, {128, 512, 384}, false, true, 1},
        /* steps of K, loads ahead */
        {1024, 2049, 1024, {2, 1}, {512, 512, 512}, false, false, 2},
        {4096, 4096, 4096, {2, 1}, {2048, 512, 512}, false, false, 2},
        {5000, 4096, 512, {2, 1}, {1256, 512, 512}, false, false, 2}, /* equal tiles */
        /* too few rows for two cores */
        {1, 512, 100, {1, 1}, {1, 512, 100}, false, true, 1},
    };
    kern_context_t *context = open_with(XLA_CHIP);
    const vnpu_machine_t *machine = kern_machine(context);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        kern_gemm_shape_t shape = f16_product(1, CASES[i].m, CASES[i].k, CASES[i].n);
        kern_gemm_plan_t plan, first;
        cr_assert(kern_profile_xla_gemm(machine, &shape, &plan), "%zu", i);
        cr_assert_eq(plan.grid[0], CASES[i].grid[0], "%zu: %u", i, plan.grid[0]);
        cr_assert_eq(plan.grid[1], CASES[i].grid[1], "%zu: %u", i, plan.grid[1]);
        static const uint32_t axis[3] = {GEMM_M, GEMM_K, GEMM_N};
        for (int x = 0; x < 3; x++)
            cr_assert_eq(plan.axis[axis[x]].tile, CASES[i].tile[x], "%zu, axis %d: %u", i, x,
                         plan.axis[axis[x]].tile);
        cr_assert_eq(plan.is_panel, CASES[i].is_panel, "%zu", i);
        cr_assert_eq(plan.is_a_fixed, CASES[i].is_a_fixed, "%zu", i);
        cr_assert_eq(plan.a_buffers, CASES[i].buffers, "%zu: %u", i, plan.a_buffers);
        cr_assert_eq(plan.tile_buffers, 1, "%zu", i);
        cr_assert_eq(kern_gemm_rank(machine, &shape, &first, 1), 1);
        cr_assert_eq(first.cycles, plan.cycles, "%zu: the rule comes before the search", i);
    }
    test_close(context);
}

Test(profile, xla_doubles_results_along_a_batch) {
    kern_context_t *context = open_with(XLA_CHIP);
    kern_gemm_shape_t shape = f16_product(12, 512, 64, 512);
    kern_gemm_plan_t plan;
    cr_assert(kern_profile_xla_gemm(kern_machine(context), &shape, &plan));
    cr_assert_eq(plan.tile_buffers, 2);
    cr_assert_eq(plan.fixed_buffers, 2);
    test_close(context);
}

Test(profile, xla_leaves_to_the_search_what_fits_nowhere) {
    kern_context_t *context =
        open_with("mapping.profile=xla-like,sram.bytes=4 KiB,acc.bytes=4 KiB");
    kern_gemm_shape_t shape = f16_product(1, 64, 2048, 64); /* a row and a column are 8 KiB */
    kern_gemm_plan_t plan;
    cr_assert_not(kern_profile_xla_gemm(kern_machine(context), &shape, &plan));
    cr_assert_eq(kern_gemm_rank(kern_machine(context), &shape, &plan, 1), 1);
    cr_assert_lt(plan.axis[GEMM_K].tile, 2048);
    test_close(context);
}

/* i8: exact. Both regimes, either split, batches; small memories halve the tiles. */
Test(profile, xla_products_have_the_right_values, .timeout = 60) {
    static const int64_t cases[][4] = {/* batch, m, k, n */
                                       {1, 1, 1, 1},     {1, 17, 2049, 65}, {1, 130, 300, 520},
                                       {1, 60, 70, 600}, {1, 600, 70, 60},  {3, 40, 2500, 33},
                                       {5, 50, 64, 70},  {1, 1030, 5, 512}};
    static const char *const options[] = {"grid.cores=2", "grid.cores=3,dma.queues=1",
                                          "grid.cores=2,sram.bytes=64 KiB,acc.bytes=32 KiB"};
    for (size_t o = 0; o < 2 * sizeof options / sizeof options[0]; o++) {
        char text[256];
        (void)snprintf(text, sizeof text, "mapping.profile=xla-like,%s", options[o / 2]);
        shim_open("default", text, o % 2 ? DEV_EXEC_CHAOS : DEV_EXEC_VALUES, 3);
        kern_context_t *context = NULL;
        cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            int64_t b = cases[i][0], m = cases[i][1], k = cases[i][2], n = cases[i][3];
            kern_gemm_t call = {.alpha = 1, .beta = 1};
            call.a = test_tensor(VNPU_I8, 3, (int64_t[]){b, m, k});
            call.b = test_tensor(VNPU_I8, 3, (int64_t[]){b, k, n});
            call.out = test_tensor(VNPU_I32, 3, (int64_t[]){b, m, n});
            test_fill(&call.a, -128, 127), test_fill(&call.b, -128, 127);
            test_ok(context, kern_gemm(context, 0, &call), text);
            for (int64_t e = 0; e < b * m * n; e += 1 + b * m * n / 997) {
                int64_t sum = 0, left = e / n * k, right = e / (m * n) * k * n + e % n;
                for (int64_t j = 0; j < k; j++)
                    sum += test_get_int(&call.a, left + j) * test_get_int(&call.b, right + j * n);
                cr_assert_eq(test_get_int(&call.out, e), sum, "%s: case %zu, element %lld", text, i,
                             (long long)e);
            }
            test_release(&call.a), test_release(&call.b), test_release(&call.out);
        }
        test_close(context);
    }
}

/* Of the last launch's vector queue: all loops, one within the other. */
static uint64_t trips_of_last_launch(void) {
    const dev_program_t *program = shim_last_launch()->program;
    uint64_t trips = 1;
    for (uint32_t q = 0; q < program->header.num_queues; q++) {
        const vnpu_queue_section_t *queue = &program->queue[q];
        for (uint32_t i = queue->first; i < queue->first + queue->count; i++) {
            bool is_loop = queue->kind == VNPU_QUEUE_VECTOR && program->insn[i].op == VNPU_OP_LOOP;
            if (is_loop) trips *= program->insn[i].imm[0];
        }
    }
    return trips;
}

typedef struct norm_tiles {
    uint32_t sram_bytes;
    uint64_t tiles;
} norm_tiles_t;

static norm_tiles_t tiles_of_layer_norm(const char *overrides, vnpu_dtype_t dtype) {
    kern_context_t *context = open_with(overrides);
    kern_tensor_t in = test_tensor(dtype, 2, (int64_t[]){2048, 1024}),
                  out = test_tensor(dtype, 2, (int64_t[]){2048, 1024});
    test_ok(context, kern_layer_norm(context, 0, &out, &in, NULL, NULL, NULL, NULL, 1, 1e-5),
            "layer norm");
    norm_tiles_t tiles = {shim_last_launch()->program->header.sram_bytes, trips_of_last_launch()};
    test_release(&in), test_release(&out);
    test_close(context);
    return tiles;
}

/* 2 Mi elements on one core: tiles of 64 Ki in two buffers of input and of results and one of work;
 * or an eighth, 256 Ki, in one buffer for all three. What does not fit is halved. */
Test(profile, layer_norm_of_xla_has_eight_tiles_in_place) {
    static const struct {
        const char *overrides;
        vnpu_dtype_t dtype;
        uint32_t elem_bytes, elems;
    } cases[] = {
        {"grid.cores=1,sram.bytes=16 MiB", VNPU_F32, 20, 64u << 10},
        {"grid.cores=1,sram.bytes=16 MiB,mapping.profile=xla-like", VNPU_F32, 4, 256u << 10},
        {"grid.cores=1,sram.bytes=16 MiB,mapping.profile=xla-like", VNPU_F16, 6, 256u << 10},
        {"grid.cores=1,sram.bytes=1 MiB,mapping.profile=xla-like", VNPU_F32, 4, 128u << 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        norm_tiles_t tiles = tiles_of_layer_norm(cases[i].overrides, cases[i].dtype);
        uint32_t least = cases[i].elems * cases[i].elem_bytes;
        cr_assert(tiles.sram_bytes >= least && tiles.sram_bytes < least + least / 16, "%zu: %u", i,
                  tiles.sram_bytes);
        cr_assert_eq(tiles.tiles, (2u << 20) / cases[i].elems, "%zu: %llu", i,
                     (unsigned long long)tiles.tiles);
    }
}

/* Rows 0, s, 2 s, ..: (j - (n - 1) / 2) / sqrt((n^2 - 1) / 12), whatever s. Powers of two and small
 * n keep the inputs exact in every type. */
Test(profile, layer_norm_in_place_has_the_right_values, .timeout = 60) {
    static const vnpu_dtype_t types[][2] = {
        {VNPU_F32, VNPU_F32}, {VNPU_F16, VNPU_F16}, {VNPU_F32, VNPU_BF16}, {VNPU_BF16, VNPU_F32}};
    static const char *const options[] = {"grid.cores=2", "grid.cores=3,dma.queues=1"};
    enum { ROWS = 1000, COLS = 120 };
    for (size_t c = 0; c < 16; c++) {
        char text[128];
        (void)snprintf(text, sizeof text, "mapping.profile=xla-like,%s", options[c / 8]);
        shim_open("default", text, c % 2 ? DEV_EXEC_CHAOS : DEV_EXEC_VALUES, 3);
        kern_context_t *context = NULL;
        cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
        const vnpu_dtype_t *type = types[c / 2 % 4];
        kern_tensor_t in = test_tensor(type[0], 2, (int64_t[]){ROWS, COLS}),
                      out = test_tensor(type[1], 2, (int64_t[]){ROWS, COLS}),
                      mean = test_tensor(VNPU_F32, 1, (int64_t[]){ROWS});
        for (int64_t e = 0; e < ROWS * COLS; e++)
            test_set(&in, e, (double)(e % COLS) * (1 << e / COLS % 3));
        test_ok(context, kern_layer_norm(context, 0, &out, &in, NULL, NULL, &mean, NULL, 1, 0),
                text);
        cr_assert_gt(trips_of_last_launch(), 1u);
        for (int64_t e = 0; e < ROWS * COLS; e++) {
            double want = ((double)(e % COLS) - (COLS - 1) / 2.0) / sqrt((COLS * COLS - 1) / 12.0);
            cr_assert_float_eq(test_get(&out, e), want, 0.01, "%s: case %zu, element %lld", text, c,
                               (long long)e);
        }
        for (int64_t r = 0; r < ROWS; r++)
            cr_assert_float_eq(test_get(&mean, r), (COLS - 1) / 2.0 * (1 << r % 3), 1e-4);
        test_release(&in), test_release(&out), test_release(&mean);
        test_close(context);
    }
}

Test(profile, softmax_is_not_fused_across_a_reduction) {
    for (int is_log = 0; is_log < 2; is_log++) {
        double fused, split;
        cr_assert_eq(launches_of_softmax(NULL, is_log, &fused), 1);
        cr_assert_eq(launches_of_softmax("mapping.profile=xla-like", is_log, &split), 4);
        cr_assert_float_eq(split, fused, 1e-6 * fabs(fused) + 1e-7);
    }
}

Test(profile, in_place) {
    kern_context_t *context = open_with("mapping.profile=xla-like");
    kern_tensor_t x = test_tensor(VNPU_F32, 1, (int64_t[]){2});
    for (int is_log = 0; is_log < 2; is_log++) {
        test_set(&x, 0, 0.0), test_set(&x, 1, log(3.0));
        test_ok(context, kern_softmax(context, 0, &x, &x, 0, is_log), "softmax");
        cr_assert_float_eq(test_get(&x, 1), is_log ? log(0.75) : 0.75, 1e-6);
    }
    test_release(&x);
    test_close(context);
}

/* The grid of 8 x 8, blocks of results, steps of K: what the published benchmark writes in its
 * program configurations (bf16, accumulator of 192 tiles, 1 MiB for operands). */
Test(profile, products_of_ttnn) {
    static const struct {
        const char *overrides;
        int64_t m, k, n;
        uint32_t grid[2], tile[3]; /* m, k, n */
    } CASES[] = {
        {"", 512, 512, 512, {8, 8}, {64, 64, 64}},
        {"mapping.multicast=true", 512, 512, 512, {8, 8}, {64, 64, 64}},
        {"", 1024, 2048, 2048, {8, 8}, {128, 256, 256}},
        {"", 2048, 3072, 3072, {8, 8}, {256, 192, 384}}, /* half of 384 */
        {"", 3072, 3072, 4096, {8, 8}, {384, 96, 512}},  /* a quarter; results just fit */
        {"", 4096, 4096, 4096, {8, 8}, {256, 256, 256}}, /* 256 tiles do not: half, both ways */
        {"", 8192, 8192, 8192, {8, 8}, {256, 256, 256}},
        {"grid.workers=63", 512, 576, 576, {6, 9}, {96, 64, 64}}, /* 7 x 9, a row idle */
        {"", 100, 4096, 4096, {4, 8}, {32, 256, 512}},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char overrides[256];
        snprintf(overrides, sizeof overrides,
                 "mapping.profile=ttnn-like,grid.cores=64,sram.bytes=1 MiB,acc.bytes=768 KiB,"
                 "matrix.rate.bf16=1,%s",
                 CASES[i].overrides);
        kern_context_t *context = open_with(overrides);
        const vnpu_machine_t *machine = kern_machine(context);
        int64_t m = CASES[i].m, k = CASES[i].k, n = CASES[i].n;
        kern_gemm_shape_t shape = {.size = {[GEMM_B] = 1, [GEMM_N] = n, [GEMM_M] = m, [GEMM_K] = k},
                                   .a = {0, k, 1},
                                   .b = {0, n, 1},
                                   .out = {0, n, 1},
                                   .a_dtype = VNPU_BF16,
                                   .b_dtype = VNPU_BF16,
                                   .out_dtype = VNPU_BF16};
        kern_gemm_plan_t plan, searched;
        cr_assert(kern_profile_ttnn_gemm(machine, &shape, &plan), "%zu", i);
        cr_assert_eq(plan.grid[0], CASES[i].grid[0], "%zu: %u", i, plan.grid[0]);
        cr_assert_eq(plan.grid[1], CASES[i].grid[1], "%zu: %u", i, plan.grid[1]);
        static const uint32_t axis[3] = {GEMM_M, GEMM_K, GEMM_N};
        for (int x = 0; x < 3; x++)
            cr_assert_eq(plan.axis[axis[x]].tile, CASES[i].tile[x], "%zu, axis %d: %u", i, x,
                         plan.axis[axis[x]].tile);
        cr_assert(!plan.is_panel && !plan.is_a_fixed && plan.tile_buffers == 1);
        cr_assert_eq(plan.is_shared, machine->mapping_multicast != 0);
        cr_assert_eq(plan.a_with_results, plan.is_shared, "tiny has two queues");
        cr_assert_eq(kern_gemm_rank(machine, &shape, &searched, 1), 1);
        cr_assert_eq(searched.cycles, plan.cycles, "the rule comes before the search");
        test_close(context);
    }
}

/* ---- gemmini-like ---- */

static vnpu_machine_t gemmini(uint32_t dataflow) {
    shim_open("gemmini-16", NULL, DEV_EXEC_VALUES, 3);
    vnpu_machine_t machine;
    cr_assert_eq(vnpu_device_machine(0, &machine), VNPU_OK);
    shim_close();
    machine.mapping_profile = VNPU_PROFILE_GEMMINI;
    machine.matrix_dataflow = dataflow;
    return machine;
}

/* Tiles that Gemmini's library takes, read off the memory traffic of its RTL (reads and writes of
 * every product in rtl_gemmini.csv follow from them). */
Test(profile, gemmini_takes_the_largest_tiles_that_fit_half) {
    static const struct {
        uint32_t dataflow;
        int64_t m, k, n;
        uint32_t tile_m, tile_k, tile_n, buffers;
    } cases[] = {
        {0, 64, 64, 64, 64, 64, 64, 1},       {0, 256, 256, 256, 80, 256, 96, 2},
        {0, 197, 768, 768, 80, 768, 80, 2},   {0, 1, 512, 1000, 1, 512, 240, 2},
        {0, 1, 1024, 4096, 1, 896, 128, 2},   {0, 384, 1024, 1024, 80, 816, 80, 2},
        {0, 4096, 64, 64, 128, 64, 64, 2},    {0, 64, 4096, 64, 64, 1024, 64, 2},
        {1, 256, 256, 256, 128, 256, 128, 1}, {1, 2048, 128, 32, 512, 128, 32, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vnpu_machine_t machine = gemmini(cases[i].dataflow);
        kern_gemm_shape_t shape = {.size = {1, cases[i].n, cases[i].m, cases[i].k},
                                   .a = {0, cases[i].k, 1},
                                   .b = {0, cases[i].n, 1},
                                   .out = {0, cases[i].n, 1},
                                   .a_dtype = VNPU_I8,
                                   .b_dtype = VNPU_I8,
                                   .out_dtype = VNPU_I8,
                                   .is_direct = true};
        kern_gemm_plan_t plan;
        cr_assert(kern_gemm_choose(&machine, &shape, &plan), "case %zu", i);
        cr_assert_eq(plan.axis[GEMM_M].tile, cases[i].tile_m, "case %zu: m %u", i,
                     plan.axis[GEMM_M].tile);
        cr_assert_eq(plan.axis[GEMM_N].tile, cases[i].tile_n, "case %zu: n %u", i,
                     plan.axis[GEMM_N].tile);
        cr_assert_eq(plan.axis[GEMM_K].tile, cases[i].tile_k, "case %zu: k %u", i,
                     plan.axis[GEMM_K].tile);
        cr_assert_eq(plan.a_buffers, cases[i].buffers, "case %zu: %u buffers", i, plan.a_buffers);
        cr_assert_eq(kern_gemm_rows(&plan) % 16, 0);
        /* no empty rounds: every trip has elements */
        for (int x = 0; x < GEMM_AXES; x++)
            cr_assert_eq(plan.axis[x].trips, plan.axis[x].tiles);
    }
}

/* Odd numbers of tiles, partial blocks of rows; small memories make tiles small. */
Test(profile, gemmini_products_have_the_right_values, .timeout = 60) {
    static const int64_t cases[][3] = {{1, 1, 1},    {17, 33, 65},    {50, 100, 70},
                                       {64, 64, 64}, {100, 200, 100}, {37, 300, 190}};
    static const char *const options[] = {
        "sram.bytes=8 KiB,acc.bytes=8 KiB",
        "sram.bytes=16 KiB,acc.bytes=32 KiB,matrix.dataflow=output_stationary",
        "sram.bytes=8 KiB,acc.bytes=8 KiB,dma.accumulator_bytes_per_cycle=0 B,dma.merge_rows=true"};
    for (size_t o = 0; o < 2 * sizeof options / sizeof options[0]; o++) {
        char text[256];
        (void)snprintf(text, sizeof text, "mapping.profile=gemmini-like,%s", options[o / 2]);
        shim_open("gemmini-16", text, o % 2 ? DEV_EXEC_CHAOS : DEV_EXEC_VALUES, 3);
        kern_context_t *context = NULL;
        cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            int64_t m = cases[i][0], k = cases[i][1], n = cases[i][2];
            kern_gemm_t call = {.alpha = 1, .beta = 1};
            call.a = test_tensor(VNPU_I8, 2, (int64_t[]){m, k});
            call.b = test_tensor(VNPU_I8, 2, (int64_t[]){k, n});
            call.out = test_tensor(VNPU_I32, 2, (int64_t[]){m, n});
            test_fill(&call.a, -128, 127), test_fill(&call.b, -128, 127);
            test_ok(context, kern_gemm(context, 0, &call), text);
            for (int64_t e = 0; e < m * n; e++) {
                int64_t sum = 0;
                for (int64_t j = 0; j < k; j++)
                    sum +=
                        test_get_int(&call.a, e / n * k + j) * test_get_int(&call.b, j * n + e % n);
                cr_assert_eq(test_get_int(&call.out, e), sum, "%s: case %zu, element %lld", text, i,
                             (long long)e);
            }
            test_release(&call.a), test_release(&call.b), test_release(&call.out);
        }
        test_close(context);
    }
}

/* Tiles that follow from the memory traffic of the RTL's convolutions. */
Test(profile, gemmini_shrinks_a_convolution_until_it_fits) {
    static const struct {
        int64_t side, in, out, kernel, pad;
        uint32_t tile[4]; /* rows, columns, output and input channels */
    } cases[] = {
        {56, 64, 64, 3, 1, {22, 23, 16, 64}},   {56, 64, 64, 1, 0, {22, 23, 16, 64}},
        {56, 256, 64, 1, 0, {22, 23, 16, 240}}, {14, 256, 256, 3, 1, {14, 14, 32, 240}},
        {7, 512, 512, 3, 1, {7, 7, 112, 119}},  {14, 1024, 256, 1, 0, {14, 14, 32, 568}},
        {27, 96, 256, 5, 2, {22, 23, 16, 96}},
    };
    vnpu_machine_t machine = gemmini(0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t side = cases[i].side, in = cases[i].in, out = cases[i].out, k = cases[i].kernel;
        kern_conv_shape_t shape = {.size = {1, out, 1, side, side, in},
                                   .in_size = {side, side},
                                   .kernel = {k, k},
                                   .stride = {1, 1},
                                   .dilation = {1, 1},
                                   .pad = {cases[i].pad, cases[i].pad},
                                   .in = {[CONV_H] = side * in, [CONV_W] = in, [CONV_C] = 1},
                                   .out = {[CONV_N] = 1, [CONV_H] = side * out, [CONV_W] = out},
                                   .weight = {[CONV_N] = 1, [CONV_C] = out},
                                   .weight_kernel = {k * in * out, in * out},
                                   .in_dtype = VNPU_I8,
                                   .weight_dtype = VNPU_I8,
                                   .out_dtype = VNPU_I8,
                                   .is_direct = true};
        static const uint32_t axis[4] = {CONV_H, CONV_W, CONV_N, CONV_C};
        kern_conv_plan_t plan;
        cr_assert_eq(kern_conv_rank(&machine, &shape, &plan, 1), 1, "case %zu", i);
        for (int x = 0; x < 4; x++) {
            cr_assert_eq(plan.axis[axis[x]].tile, cases[i].tile[x], "case %zu, axis %d: %u", i, x,
                         plan.axis[axis[x]].tile);
            cr_assert_eq(plan.axis[axis[x]].trips, plan.axis[axis[x]].tiles);
        }
        cr_assert_not(plan.is_panel);
    }
}

Test(profile, gemmini_convolutions_have_the_right_values, .timeout = 60) {
    static const struct {
        int64_t side, in, out, kernel;
        uint32_t stride, pad;
    } cases[] = {{7, 5, 20, 3, 1, 1},  {12, 33, 40, 1, 1, 0}, {11, 3, 17, 5, 2, 2},
                 {9, 40, 33, 3, 1, 1}, {9, 40, 32, 3, 1, 1},  {12, 33, 48, 1, 2, 0}};
    for (int mode = 0; mode < 4; mode++) { /* chaos, bias */
        int chaos = mode & 1;
        bool has_bias = mode & 2;
        shim_open("gemmini-16", "mapping.profile=gemmini-like,sram.bytes=8 KiB,acc.bytes=4 KiB",
                  chaos ? DEV_EXEC_CHAOS : DEV_EXEC_VALUES, 3);
        kern_context_t *context = NULL;
        cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            int64_t side = cases[i].side, in = cases[i].in, out = cases[i].out, k = cases[i].kernel;
            int64_t result = (side + 2 * cases[i].pad - k) / cases[i].stride + 1;
            kern_conv_t call = {.stride = {cases[i].stride, cases[i].stride},
                                .dilation = {1, 1},
                                .pad = {cases[i].pad, cases[i].pad},
                                .groups = 1};
            static const uint32_t nhwc[4] = {0, 2, 3, 1}, hwio[4] = {2, 3, 1, 0};
            call.in = test_permuted(VNPU_I8, 4, (int64_t[]){1, in, side, side}, nhwc);
            call.weight = test_permuted(VNPU_I8, 4, (int64_t[]){out, in, k, k}, hwio);
            call.out = test_permuted(VNPU_I32, 4, (int64_t[]){1, out, result, result}, nhwc);
            kern_tensor_t bias = test_tensor(VNPU_I32, 1, (int64_t[]){out});
            if (has_bias) call.bias = bias;
            test_fill(&call.in, -128, 127), test_fill(&call.weight, -128, 127);
            test_fill(&bias, -5000, 5000);
            test_ok(context, kern_conv(context, 0, &call), "convolution");
            /* the bias goes to the accumulator before the products: nothing for the vector unit */
            const dev_program_t *program = shim_last_launch()->program;
            bool has_vector = false;
            for (uint32_t q = 0; q < program->header.num_queues; q++)
                has_vector |= program->queue[q].kind == VNPU_QUEUE_VECTOR;
            cr_assert_not(has_vector, "case %zu", i);
            for (int64_t e = 0; e < out * result * result; e++) {
                int64_t o = e / result / result, y = e / result % result, x = e % result,
                        sum = has_bias ? test_get_int(&bias, o) : 0;
                for (int64_t j = 0; j < in * k * k; j++) {
                    int64_t c = j / k / k, row = y * cases[i].stride + j / k % k - cases[i].pad,
                            col = x * cases[i].stride + j % k - cases[i].pad;
                    if (row < 0 || col < 0 || row >= side || col >= side) continue;
                    sum += test_get_int(&call.in, (c * side + row) * side + col) *
                           test_get_int(&call.weight, o * in * k * k + j);
                }
                cr_assert_eq(test_get_int(&call.out, e), sum, "case %zu, element %lld", i,
                             (long long)e);
            }
            test_release(&call.in), test_release(&call.weight), test_release(&call.out);
            test_release(&bias);
        }
        test_close(context);
    }
}

Test(profile, rows_of_the_table) {
    vnpu_machine_t machine = {.mapping_profile = VNPU_PROFILE_BEST};
    cr_assert_str_eq(kern_profile_of(&machine)->name, "best");
    cr_assert(kern_profile_of(&machine)->has_trials);
    machine.mapping_profile = VNPU_PROFILE_XLA;
    cr_assert_str_eq(kern_profile_of(&machine)->name, "xla-like");
    machine.mapping_profile = VNPU_PROFILE_TTNN;
    cr_assert_str_eq(kern_profile_of(&machine)->name, "ttnn-like");
    machine.mapping_profile = VNPU_PROFILE_GEMMINI;
    cr_assert_str_eq(kern_profile_of(&machine)->name, "gemmini-like");
    machine.mapping_profile = 1000; /* of a newer device */
    cr_assert_str_eq(kern_profile_of(&machine)->name, "best");
}
