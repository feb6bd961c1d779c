/* Families on chips with classes of cores: where they go, and what a class without some functions
 * changes. */
#include <string.h>

#include "tests/kernels/kern_test.h"

/* Core 0 multiplies and drains; cores 1 to 3 have every function and no matrix engine. */
#define DRAIN                                                                                      \
    "vector.passes.transcendental=0,vector.passes.div=0,vector.passes.reduce=0,class vec.count=3," \
    "class vec.matrix.count=0,class vec.vector.passes.transcendental=2,"                           \
    "class vec.vector.passes.div=4,class vec.vector.passes.reduce=1"

static kern_context_t *open_chip(const char *overrides) {
    shim_open("tiny", overrides, DEV_EXEC_VALUES, 1);
    kern_context_t *context = NULL;
    cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
    return context;
}

static void close_chip(kern_context_t *context) {
    kern_context_destroy(context);
    shim_close();
}

#define M 40
#define N 24
#define K 33

/* act(a @ b + c) with values that do not hang on the chip. */
static void run_gemm(kern_context_t *context, kern_activation_t activation, float result[M * N]) {
    static const int64_t a[2] = {M, K}, b[2] = {K, N}, o[2] = {M, N};
    kern_gemm_t call = {.out = test_tensor(VNPU_F32, 2, o),
                        .a = test_tensor(VNPU_F32, 2, a),
                        .b = test_tensor(VNPU_F32, 2, b),
                        .c = test_tensor(VNPU_F32, 2, o),
                        .alpha = 0.5,
                        .beta = 2,
                        .activation = activation};
    for (int64_t i = 0; i < M * K; i++)
        test_set(&call.a, i, (double)(i * 7 % 23) / 8 - 1.3);
    for (int64_t i = 0; i < K * N; i++)
        test_set(&call.b, i, (double)(i * 5 % 19) / 8 - 1.1);
    for (int64_t i = 0; i < M * N; i++)
        test_set(&call.c, i, (double)(i * 3 % 17) / 8 - 1);
    test_ok(context, kern_gemm(context, 0, &call), "gemm");
    for (int64_t i = 0; i < M * N; i++)
        result[i] = (float)test_get(&call.out, i);
    test_release(&call.out), test_release(&call.a), test_release(&call.b), test_release(&call.c);
}

/* The functions that the class of the matrix engine lacks follow as a program of another class: two
 * launches, the same bits. */
Test(classes_of_cores, an_activation_moves_to_the_class_that_has_it) {
    static const kern_activation_t acts[] = {KERN_ACT_NONE,      KERN_ACT_RELU, KERN_ACT_GELU_ERF,
                                             KERN_ACT_GELU_TANH, KERN_ACT_SILU, KERN_ACT_TANH};
    for (uint32_t i = 0; i < 6; i++) {
        float whole[M * N], split[M * N];
        kern_context_t *context = open_chip(NULL);
        run_gemm(context, acts[i], whole);
        cr_assert_eq(shim_launches(), 1);
        close_chip(context);
        context = open_chip(DRAIN);
        run_gemm(context, acts[i], split);
        cr_assert_eq(shim_launches(), i < 2 ? 1 : 2, "activation %u", i);
        cr_assert_eq(shim_last_launch()->core_mask[0], i < 2 ? 1 : 0xe, "activation %u", i);
        cr_assert_eq(memcmp(whole, split, sizeof whole), 0, "activation %u", i);
        close_chip(context);
    }
}

Test(classes_of_cores, so_does_that_of_a_convolution) {
    static const int64_t in[4] = {1, 3, 9, 9}, weight[4] = {5, 3, 3, 3}, out[4] = {1, 5, 7, 7};
    float got[2][245];
    for (int i = 0; i < 2; i++) {
        kern_context_t *context = open_chip(i == 0 ? NULL : DRAIN);
        kern_conv_t call = {.out = test_tensor(VNPU_F32, 4, out),
                            .in = test_tensor(VNPU_F32, 4, in),
                            .weight = test_tensor(VNPU_F32, 4, weight),
                            .stride = {1, 1},
                            .dilation = {1, 1},
                            .groups = 1,
                            .activation = KERN_ACT_TANH};
        for (int64_t e = 0; e < test_numel(&call.in); e++)
            test_set(&call.in, e, (double)(e * 7 % 23) / 8 - 1.3);
        for (int64_t e = 0; e < test_numel(&call.weight); e++)
            test_set(&call.weight, e, (double)(e * 5 % 19) / 8 - 1.1);
        test_ok(context, kern_conv(context, 0, &call), "conv");
        cr_assert_eq(shim_last_launch()->core_mask[0], i == 0 ? 1 : 0xe);
        for (int64_t e = 0; e < 245; e++)
            got[i][e] = (float)test_get(&call.out, e);
        test_release(&call.out), test_release(&call.in), test_release(&call.weight);
        close_chip(context);
    }
    cr_assert_eq(memcmp(got[0], got[1], sizeof got[0]), 0);
}

Test(classes_of_cores, vector_families_go_where_all_functions_are) {
    /* The draining engine is the wider one. */
    kern_context_t *context = open_chip(DRAIN ",vector.lanes=64");
    static const int64_t size[2] = {10, 50}, one[2] = {10, 1};
    kern_tensor_t in = test_tensor(VNPU_F32, 2, size), out = test_tensor(VNPU_F32, 2, size);
    kern_tensor_t sums = test_tensor(VNPU_F32, 2, one);
    test_ok(context, kern_softmax(context, 0, &out, &in, 1, false), "softmax");
    cr_assert_eq(shim_last_launch()->core_mask[0] & 1, 0);
    test_ok(context, kern_copy(context, 0, &out, &in), "copy");
    cr_assert_eq(shim_last_launch()->core_mask[0] & 1, 0);
    test_ok(context, kern_reduce(context, 0, KERN_SUM, &sums, &in, 2), "sum");
    cr_assert_eq(shim_last_launch()->core_mask[0] & 1, 0);
    test_release(&in), test_release(&out), test_release(&sums);
    close_chip(context);
}

Test(classes_of_cores, attention_needs_one_class_with_all_of_it) {
    static const int64_t size[4] = {1, 2, 12, 8};
    kern_context_t *context = open_chip(DRAIN);
    kern_attention_t call = {.out = test_tensor(VNPU_F32, 4, size),
                             .q = test_tensor(VNPU_F32, 4, size),
                             .k = test_tensor(VNPU_F32, 4, size),
                             .v = test_tensor(VNPU_F32, 4, size),
                             .scale = 0.35};
    cr_assert_not(kern_has_attention(context, VNPU_F32));
    cr_assert_eq(kern_attention(context, 0, &call), VNPU_ERROR_UNSUPPORTED);
    cr_assert_not_null(strstr(kern_error_detail(context), "lacks functions that softmax needs"),
                       "%s", kern_error_detail(context));
    cr_assert_eq(shim_launches(), 0);
    test_release(&call.out), test_release(&call.q), test_release(&call.k), test_release(&call.v);
    close_chip(context);
    context = open_chip("class vec.count=3,class vec.matrix.count=0");
    cr_assert(kern_has_attention(context, VNPU_F32));
    close_chip(context);
    context = open_chip(DRAIN ",matrix.rate.f16=0");
    cr_assert(kern_has_attention(context, VNPU_F16), "refused by kern_attention itself");
    close_chip(context);
}

/* A function that no class has is refused by name when its program is loaded. */
Test(classes_of_cores, a_function_that_no_class_has) {
    kern_context_t *context = open_chip("vector.passes.transcendental=0");
    static const int64_t size[2] = {3, 20};
    kern_tensor_t in = test_tensor(VNPU_F32, 2, size), out = test_tensor(VNPU_F32, 2, size);
    cr_assert_eq(kern_softmax(context, 0, &out, &in, 1, false), VNPU_ERROR_UNSUPPORTED);
    cr_assert_not_null(strstr(shim_detail(), "lacks functions of class transcendental"), "%s",
                       shim_detail());
    test_release(&in), test_release(&out);
    close_chip(context);
}
