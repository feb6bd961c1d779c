#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kern_gemm_plan.h"
#include "kernels/kern_internal.h"
#include "kernels/kern_plan.h"
#include "tests/kernels/kern_test.h"

typedef struct gemm_case {
    int64_t batch, m, k, n;
} gemm_case_t;

static double activate(kern_activation_t activation, double x) {
    switch (activation) {
    case KERN_ACT_NONE: return x;
    case KERN_ACT_RELU: return x > 0 ? x : 0;
    case KERN_ACT_GELU_ERF: return 0.5 * x * (1 + erf(x / sqrt(2)));
    case KERN_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case KERN_ACT_SILU: return x / (1 + exp(-x));
    case KERN_ACT_TANH: return tanh(x);
    }
    return x;
}

/* A 2- or 3-dimensional operand, dimensions may be 1, as doubles in row-major order. */
typedef struct values {
    int64_t batch, rows, cols;
    double *value;
} values_t;

static values_t values_of(const kern_tensor_t *t) {
    uint32_t r = t->ndims - 2;
    values_t v = {r == 1 ? t->size[0] : 1, t->size[r], t->size[r + 1], NULL};
    v.value = malloc((size_t)(v.batch * v.rows * v.cols + 1) * sizeof *v.value);
    for (int64_t i = 0; i < test_numel(t); i++)
        v.value[i] = test_get(t, i);
    return v;
}

static double at(const values_t *v, int64_t b, int64_t row, int64_t col) {
    int64_t index =
        (v->batch == 1 ? 0 : b * v->rows * v->cols) + (v->rows == 1 ? 0 : row * v->cols);
    return v->value[index + (v->cols == 1 ? 0 : col)];
}

static void check(kern_context_t *context, const kern_gemm_t *call, const char *what) {
    test_ok(context, kern_gemm(context, 0, call), what);
    const kern_tensor_t *o = &call->out;
    int64_t batch = o->ndims == 3 ? o->size[0] : 1, m = o->size[o->ndims - 2],
            n = o->size[o->ndims - 1], k = call->a.size[call->a.ndims - 1];
    values_t va = values_of(&call->a), vb = values_of(&call->b), vo = values_of(o), vc = {0};
    if (call->c.address) vc = values_of(&call->c);
    int64_t step =
        batch * m * n > 20000 ? 7 : 1; /* a prime to tile sizes: every tile is looked at */
    for (int64_t i = 0; i < batch * m * n; i += step) {
        int64_t b = i / (m * n), row = i / n % m, col = i % n;
        double sum = 0, scale = 0;
        for (int64_t j = 0; j < k; j++) {
            double p = at(&va, b, row, j) * at(&vb, b, j, col);
            sum += p;
            scale += fabs(p);
        }
        double want = call->alpha * sum;
        if (call->c.address && call->beta != 0) want += call->beta * at(&vc, b, row, col);
        want = activate(call->activation, want);
        double got = at(&vo, b, row, col), tolerance = 1e-5 * (1 + fabs(call->alpha) * scale);
        if (o->dtype == VNPU_BF16) tolerance += fabs(want) / 128;
        cr_assert(fabs(got - want) <= tolerance,
                  "%s: [%lld %lld %lld] k %lld: element %lld %lld %lld is %g, not %g", what,
                  (long long)batch, (long long)m, (long long)n, (long long)k, (long long)b,
                  (long long)row, (long long)col, got, want);
    }
    free(va.value), free(vb.value), free(vo.value), free(vc.value);
}

static kern_tensor_t matrix(vnpu_dtype_t dtype, int64_t batch, int64_t rows, int64_t cols,
                            bool turned) {
    static const uint32_t turned3[3] = {0, 2, 1}, turned2[2] = {1, 0};
    if (batch == 1)
        return test_permuted(dtype, 2, (int64_t[]){rows, cols}, turned ? turned2 : NULL);
    return test_permuted(dtype, 3, (int64_t[]){batch, rows, cols}, turned ? turned3 : NULL);
}

static void run_case(kern_context_t *context, const gemm_case_t *g, uint32_t variant) {
    kern_gemm_t call = {.alpha = 1, .beta = 1};
    call.a = matrix(VNPU_F32, g->batch, g->m, g->k, variant & 1);
    call.b = matrix(VNPU_F32, g->batch, g->k, g->n, variant & 2);
    call.out = matrix(VNPU_F32, g->batch, g->m, g->n, variant & 4);
    kern_tensor_t c = matrix(VNPU_F32, 1, variant & 16 ? 1 : g->m, g->n, false);
    if (variant & 8) call.c = c;
    if (variant & 32) call.alpha = 0.5;
    if (variant & 64) call.beta = -2;
    call.activation = (kern_activation_t)(variant / 128 % 6);
    check(context, &call, "gemm");
    test_release(&call.a), test_release(&call.b), test_release(&call.out), test_release(&c);
}

Test(gemm, shapes_default, .timeout = 120) {
    static const gemm_case_t cases[] = {
        {1, 1, 1, 1},     {1, 127, 129, 128}, {1, 129, 127, 129}, {1, 128, 128, 128},
        {1, 1, 384, 384}, {1, 5, 700, 3},     {1, 300, 200, 1},   {3, 17, 33, 65},
        {7, 40, 64, 40},  {2, 257, 70, 300},  {1, 31, 2100, 90},  {1, 64, 3000, 700},
        {48, 16, 32, 16}, {1, 600, 384, 400},
    };
    for (uint32_t m = 0; m < 2; m++) {
        kern_context_t *context = test_open(m);
        for (uint32_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            run_case(context, &cases[c], c % 8);
            run_case(context, &cases[c], 8 + 16 + c % 8);
        }
        test_close(context);
    }
}

Test(gemm, shapes_tiny, .timeout = 120) {
    static const gemm_case_t cases[] = {
        {1, 1, 1, 1},      {1, 7, 8, 9},      {1, 8, 8, 8},    {1, 9, 9, 9},
        {1, 1, 100, 50},   {1, 50, 100, 1},   {1, 65, 64, 63}, {5, 13, 17, 19},
        {1, 100, 700, 90}, {2, 120, 33, 200}, {16, 8, 8, 8},   {1, 200, 300, 64},
    };
    for (uint32_t m = 2; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (uint32_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            run_case(context, &cases[c], c % 8);
            run_case(context, &cases[c], 8 + (c % 2) * 16 + 32 + 64 + c % 8);
        }
        test_close(context);
    }
}

Test(gemm, epilogues) {
    static const gemm_case_t g = {1, 70, 50, 90};
    for (uint32_t m = 0; m < test_num_machines; m += 2) {
        kern_context_t *context = test_open(m);
        for (uint32_t variant = 0; variant < 768; variant += 8)
            run_case(context, &g, variant);
        test_close(context);
    }
}

Test(gemm, empty_and_zero_k) {
    kern_context_t *context = test_open(0);
    static const gemm_case_t cases[] = {{1, 0, 5, 5}, {1, 5, 5, 0}, {2, 3, 0, 4}, {1, 3, 0, 4}};
    for (uint32_t c = 0; c < 4; c++) {
        run_case(context, &cases[c], 0);
        run_case(context, &cases[c], 8 + 16 + 64 + 128);
    }
    test_close(context);
}

static bool last_program_has(vnpu_queue_kind_t kind) {
    const dev_program_t *program = shim_last_launch()->program;
    for (uint32_t q = 0; q < program->header.num_queues; q++)
        if (program->queue[q].kind == kind) return true;
    return false;
}

/* A chip whose DMA engines reach the accumulator: an epilogue only where something is computed. */
Test(gemm, results_leave_the_accumulator_directly) {
    static const gemm_case_t g = {1, 30, 20, 40};
    for (int way = 0; way < 2; way++) {
        shim_open("tiny", way ? "dma.accumulator_bytes_per_cycle=32 B" : NULL, DEV_EXEC_VALUES, 1);
        kern_context_t *context = NULL;
        cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
        run_case(context, &g, 0);
        cr_assert_eq(last_program_has(VNPU_QUEUE_VECTOR), !way);
        run_case(context, &g, 32); /* alpha */
        cr_assert(last_program_has(VNPU_QUEUE_VECTOR));
        kern_context_destroy(context);
        shim_close();
    }
}

/* Where the memory is slow, tiles are read once for a row or a column of cores; in any order of
 * cores and queues. */
Test(gemm, shared_tiles, .timeout = 120) {
    static const gemm_case_t cases[] = {{1, 240, 256, 240}, {1, 200, 300, 190}, {1, 161, 177, 200}};
    static const char *const keys = "mapping.multicast=true,grid.cores=6";
    for (uint32_t way = 0; way < 2; way++) {
        shim_set_dram(500000000);
        shim_open("tiny", keys, way ? DEV_EXEC_CHAOS : DEV_EXEC_VALUES, 2);
        kern_context_t *context = NULL;
        uint32_t shared = 0;
        cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
        for (uint32_t i = 0; i < 3 * 8; i++) {
            run_case(context, &cases[i / 8], i % 8 + (i % 2 ? 8 + 16 : 0));
            shared += strcmp(kern_last_plan(context)->chosen.order, "shared tiles") == 0;
        }
        cr_assert_geq(shared, 6, "%u of 24", shared);
        kern_context_destroy(context);
        shim_close();
    }
}

Test(gemm, shared_tiles_take_the_key_and_help_a_slow_memory) {
    kern_context_t *context = test_open(2);
    vnpu_machine_t machine = *kern_machine(context);
    kern_gemm_shape_t shape = {.size = {1, 512, 512, 512},
                               .a = {0, 512, 1},
                               .b = {0, 512, 1},
                               .out = {0, 512, 1},
                               .a_dtype = VNPU_F32,
                               .b_dtype = VNPU_F32,
                               .out_dtype = VNPU_F32};
    machine.workers = machine.cores = 16;
    for (uint32_t way = 0; way < 4; way++) {
        kern_gemm_plan_t plan;
        machine.mapping_multicast = way & 1;
        machine.dram_bytes_per_s = way & 2 ? 1000000000 : 1000000000000;
        cr_assert(kern_gemm_choose(&machine, &shape, &plan));
        cr_assert(plan.is_shared == (way == 3) || way == 1, "way %u",
                  way); /* a fast memory: either */
    }
    test_close(context);
}

/* out = a x b by the program of a plan, as kern_gemm would launch it. */
static void run_plan(kern_context_t *context, const kern_gemm_shape_t *shape,
                     const kern_gemm_plan_t *plan, const kern_gemm_t *call) {
    kern_key_t key;
    kern_key_init(&key, "forced");
    kern_key_add(&key, shape, sizeof *shape);
    kern_key_add(&key, plan, sizeof *plan);
    kern_builder_t builder;
    kern_builder_init(&builder, kern_machine(context), "forced");
    kern_gemm_generate(shape, plan, &builder);
    const kern_entry_t *entry;
    test_ok(context, kern_add_program(context, &key, &builder, plan->grid, &entry), "load");
    kern_builder_fini(&builder);
    uint64_t args[3] = {call->out.address, call->a.address, call->b.address};
    test_ok(context, kern_launch(context, 0, entry, args, 3), "launch");
}

static void check_pieces(kern_context_t *context, const gemm_case_t *g, bool is_whole) {
    kern_gemm_shape_t shape = {.size = {g->batch, g->n, g->m, g->k},
                               .a = {g->batch > 1 ? g->m * g->k : 0, g->k, 1},
                               .b = {g->batch > 1 ? g->n * g->k : 0, g->n, 1},
                               .out = {g->batch > 1 ? g->m * g->n : 0, g->n, 1},
                               .a_dtype = VNPU_F32,
                               .b_dtype = VNPU_F32,
                               .out_dtype = VNPU_F32};
    kern_gemm_rule_t rule = {.order = KERN_GEMM_ROWS,
                             .m = g->m,
                             .n = 24,
                             .k = 16,
                             .b_grid = 1,
                             .m_grid = 1,
                             .n_grid = 1,
                             .stream_buffers = 2,
                             .panel_buffers = 2,
                             .result_buffers = 2};
    kern_gemm_plan_t plan;
    cr_assert(kern_gemm_finish(kern_machine(context), &shape, &rule, &plan));
    cr_assert(plan.is_a_fixed && !plan.is_a_whole && plan.axis[GEMM_K].trips > 1);
    plan.is_a_whole = is_whole;
    kern_gemm_t call = {.alpha = 1, .beta = 1};
    call.a = matrix(VNPU_F32, g->batch, g->m, g->k, false);
    call.b = matrix(VNPU_F32, g->batch, g->k, g->n, false);
    call.out = matrix(VNPU_F32, g->batch, g->m, g->n, false);
    kern_tensor_t other = matrix(VNPU_F32, g->batch, g->m, g->n, false);
    run_plan(context, &shape, &plan, &call);
    kern_tensor_t out = call.out;
    call.out = other;
    check(context, &call, "the library's own");
    for (int64_t i = 0; i < test_numel(&out); i++)
        cr_assert_eq(test_get(&out, i), test_get(&other, i), "%lld: bits do not hang on tiles",
                     (long long)i);
    test_release(&call.a), test_release(&call.b), test_release(&out), test_release(&other);
}

/* Rows that stay come a k tile at a time, with the weights of the first pass, or in one transfer:
 * with a batch, a clipped last tile, one pass; in any order of queues. */
Test(gemm, rows_come_in_pieces, .timeout = 60) {
    static const gemm_case_t cases[] = {{1, 24, 96, 100}, {3, 16, 90, 150}, {2, 20, 65, 24}};
    for (uint32_t way = 0; way < 4; way++) {
        shim_open("tiny", "", way & 1 ? DEV_EXEC_CHAOS : DEV_EXEC_VALUES, 2);
        kern_context_t *context = NULL;
        cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
        for (uint32_t i = 0; i < 3; i++)
            check_pieces(context, &cases[i], way & 2);
        kern_context_destroy(context);
        shim_close();
    }
}

/* int8 by uint8: exact sums in i32 */
Test(gemm, int8) {
    for (uint32_t m = 0; m < test_num_machines; m += 2) {
        kern_context_t *context = test_open(m);
        kern_gemm_t call = {.alpha = 1, .beta = 1};
        call.a = test_tensor(VNPU_I8, 2, (int64_t[]){37, 130});
        call.b = test_tensor(VNPU_I8, 2, (int64_t[]){130, 45});
        call.out = test_tensor(VNPU_I32, 2, (int64_t[]){37, 45});
        call.c = test_tensor(VNPU_I32, 2, (int64_t[]){1, 45});
        test_fill(&call.a, -128, 127), test_fill(&call.b, -128, 127);
        test_ok(context, kern_gemm(context, 0, &call), "int8");
        for (int64_t i = 0; i < 37 * 45; i++) {
            int64_t sum = test_get_int(&call.c, i % 45);
            for (int64_t k = 0; k < 130; k++)
                sum += test_get_int(&call.a, i / 45 * 130 + k) *
                       test_get_int(&call.b, k * 45 + i % 45);
            cr_assert_eq(test_get_int(&call.out, i), sum);
        }
        test_release(&call.a), test_release(&call.b), test_release(&call.out),
            test_release(&call.c);
        test_close(context);
    }
}

/* The bits do not hang on tiling: a whole product equals the products of its rows. */
Test(gemm, bits_do_not_hang_on_tiles) {
    static const vnpu_dtype_t types[] = {VNPU_F32, VNPU_BF16, VNPU_F16};
    enum { M = 150, K = 501, N = 200 };
    for (uint32_t i = 0; i < 6; i++) {
        kern_context_t *context = test_open(i < 3 ? 0 : 2);
        vnpu_dtype_t type = types[i % 3];
        kern_tensor_t a = test_tensor(type, 2, (int64_t[]){M, K}),
                      b = test_tensor(type, 2, (int64_t[]){K, N}),
                      all = test_tensor(VNPU_F32, 2, (int64_t[]){M, N}),
                      one = test_tensor(VNPU_F32, 2, (int64_t[]){1, N});
        kern_gemm_t call = {.out = all, .a = a, .b = b, .alpha = 1};
        test_ok(context, kern_gemm(context, 0, &call), "all");
        for (int64_t row = 0; row < M; row += 37) {
            kern_gemm_t part = {.out = one, .a = a, .b = b, .alpha = 1};
            part.a.size[0] = 1;
            part.a.address += (uint64_t)row * K * vnpu_dtype_bytes(type);
            test_ok(context, kern_gemm(context, 0, &part), "row");
            cr_assert_eq(memcmp(shim_host(one.address, N * 4),
                                shim_host(all.address + (uint64_t)row * N * 4, N * 4), N * 4),
                         0, "type %u row %lld", type, (long long)row);
        }
        test_release(&a), test_release(&b), test_release(&all), test_release(&one);
        test_close(context);
    }
}

/* Products of bf16, and of f32 in bf16 pieces, are summed in pairs of k: whatever the scratchpad
 * holds, a tile of several has an even k. */
Test(gemm, tiles_of_pairs_are_even) {
    static const uint64_t sram[] = {512, 1024, 4096, 65536};
    for (uint32_t i = 0; i < 8; i++) {
        kern_context_t *context = test_open(2);
        vnpu_machine_t machine = *kern_machine(context);
        vnpu_dtype_t type = i < 4 ? VNPU_BF16 : VNPU_F32;
        machine.sram_bytes = sram[i % 4] * (i < 4 ? 1 : 2);
        machine.matrix_f32_passes = 3;
        for (int64_t k = 1; k < 200; k += 7) {
            kern_gemm_shape_t shape = {.size = {1, 9, 5, k},
                                       .a = {0, k, 1},
                                       .b = {0, 9, 1},
                                       .out = {0, 9, 1},
                                       .a_dtype = type,
                                       .b_dtype = type,
                                       .out_dtype = VNPU_F32};
            kern_gemm_plan_t plan[8];
            uint32_t count = kern_gemm_rank(&machine, &shape, plan, 8);
            cr_assert_gt(count, 0);
            for (uint32_t p = 0; p < count; p++)
                cr_assert(plan[p].axis[GEMM_K].tiles == 1 || plan[p].axis[GEMM_K].tile % 2 == 0,
                          "k %lld in tiles of %u", (long long)k, plan[p].axis[GEMM_K].tile);
        }
        test_close(context);
    }
}

Test(gemm, refusals) {
    kern_context_t *context = test_open(0);
    kern_gemm_t call = {.alpha = 1, .beta = 1};
    call.a = test_tensor(VNPU_I64, 2, (int64_t[]){4, 5});
    call.b = test_tensor(VNPU_I64, 2, (int64_t[]){5, 6});
    call.out = test_tensor(VNPU_I64, 2, (int64_t[]){4, 6});
    cr_assert_eq(kern_gemm(context, 0, &call), VNPU_ERROR_UNSUPPORTED);
    cr_assert(strstr(kern_error_detail(context), "i64"));
    call.a.size[1] = 4;
    cr_assert_eq(kern_gemm(context, 0, &call), VNPU_ERROR_INVALID_VALUE);
    test_release(&call.a), test_release(&call.b), test_release(&call.out);
    test_close(context);
}

static kern_tensor_t blocks(int64_t rows, int64_t cols) {
    kern_tensor_t t = {.dtype = VNPU_BFP8, .ndims = 2, .size = {rows, cols}, .stride = {cols, 1}};
    t.address = shim_alloc(vnpu_dtype_span(VNPU_BFP8, (uint64_t)(rows * cols)));
    return t;
}

/* Block floating point is timed; its values, other kernels and cut blocks are refused by name. */
Test(gemm, block_types) {
    for (int is_timed = 0; is_timed < 2; is_timed++) {
        shim_open("default", "matrix.rate.bfp8=1", is_timed ? DEV_EXEC_TIMING : DEV_EXEC_VALUES, 3);
        kern_context_t *context = NULL;
        cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
        kern_gemm_t call = {
            .alpha = 1, .a = blocks(96, 80), .b = blocks(80, 160), .out = blocks(96, 160)};
        vnpu_status_t status = kern_gemm(context, 0, &call);
        if (is_timed) {
            cr_assert_eq(status, VNPU_OK, "%s", kern_error_detail(context));
            const kern_mapping_t *mapping = kern_last_plan(context);
            cr_assert_eq(mapping->compulsory_bytes, (96 * 80 + 80 * 160 + 96 * 160) / 16 * 17);
        } else {
            cr_assert_neq(status, VNPU_OK);
            cr_assert(strstr(shim_detail(), "bfp8, which is timed, not computed"), "%s",
                      shim_detail());
        }
        call.a.size[1] = call.b.size[0] = 72;
        cr_assert_eq(kern_gemm(context, 0, &call), VNPU_ERROR_UNSUPPORTED);
        cr_assert(strstr(kern_error_detail(context), "whole blocks of 16"), "%s",
                  kern_error_detail(context));
        cr_assert_eq(kern_fill(context, 0, &call.out, 0, 0), VNPU_ERROR_UNSUPPORTED);
        cr_assert(strstr(kern_error_detail(context), "bfp8, which no kernel handles"));
        call.a = blocks(96, 80), call.b = blocks(80, 160);
        call.a.dtype = call.b.dtype = call.out.dtype = VNPU_BFP4;
        cr_assert_eq(kern_gemm(context, 0, &call), VNPU_ERROR_UNSUPPORTED);
        cr_assert(strstr(kern_error_detail(context), "has no bfp4 by bfp4"));
        test_close(context);
    }
}

/* bf16 and f16 operands: small integers, so that every order of summation is exact. */
Test(gemm, halves) {
    static const vnpu_dtype_t types[] = {VNPU_BF16, VNPU_F16};
    for (uint32_t m = 0; m < test_num_machines; m += 2) {
        kern_context_t *context = test_open(m);
        for (int t = 0; t < 2; t++) {
            kern_gemm_t call = {.alpha = 1};
            call.a = test_tensor(types[t], 2, (int64_t[]){37, 131});
            call.b = test_tensor(types[t], 2, (int64_t[]){131, 45});
            call.out = test_tensor(VNPU_F32, 2, (int64_t[]){37, 45});
            for (int64_t i = 0; i < test_numel(&call.a); i++)
                test_set(&call.a, i, (double)(test_random() % 9) - 4);
            for (int64_t i = 0; i < test_numel(&call.b); i++)
                test_set(&call.b, i, (double)(test_random() % 9) - 4);
            test_ok(context, kern_gemm(context, 0, &call), "halves");
            for (int64_t i = 0; i < 37 * 45; i++) {
                double sum = 0;
                for (int64_t k = 0; k < 131; k++)
                    sum += test_get(&call.a, i / 45 * 131 + k) * test_get(&call.b, k * 45 + i % 45);
                cr_assert_eq(test_get(&call.out, i), sum);
            }
            test_release(&call.a), test_release(&call.b), test_release(&call.out);
        }
        test_close(context);
    }
}
