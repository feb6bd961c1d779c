#include <math.h>
#include <string.h>

#include "tests/kernels/kern_test.h"

#define UNARY(f, a)                                                                                \
    {                                                                                              \
        KERN_NODE_UNARY, (f), {                                                                    \
            (a), 0, 0                                                                              \
        }                                                                                          \
    }
#define BINARY(f, a, b)                                                                            \
    {                                                                                              \
        KERN_NODE_BINARY, (f), {                                                                   \
            (a), (b), 0                                                                            \
        }                                                                                          \
    }

static void check_add(kern_context_t *context, const kern_tensor_t *out, const kern_tensor_t *a,
                      const kern_tensor_t *b, const char *what) {
    kern_pointwise_t call = {.name = "add",
                             .out = *out,
                             .num_inputs = 2,
                             .input = {*a, *b},
                             .num_nodes = 1,
                             .node = {BINARY(VNPU_B_ADD, KERN_INPUT(0), KERN_INPUT(1))}};
    test_ok(context, kern_pointwise(context, 0, &call), what);
    for (int64_t i = 0; i < test_numel(out); i++) {
        float want = (float)test_get(a, i) + (float)test_get(b, i);
        cr_assert_eq((float)test_get(out, i), want, "%s: element %lld: %g, not %g", what,
                     (long long)i, test_get(out, i), (double)want);
    }
}

Test(pointwise, every_length) {
    static const int64_t lengths[] = {0, 1, 15, 16, 17, 127, 128, 129, 1009, 4096, 16385, 300007};
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            kern_tensor_t a = test_tensor(VNPU_F32, 1, &lengths[l]),
                          b = test_tensor(VNPU_F32, 1, &lengths[l]),
                          out = test_tensor(VNPU_F32, 1, &lengths[l]);
            check_add(context, &out, &a, &b, "lengths");
            test_release(&a), test_release(&b), test_release(&out);
        }
        test_close(context);
    }
}

Test(pointwise, no_dimension) {
    kern_context_t *context = test_open(0);
    kern_tensor_t a = test_tensor(VNPU_F32, 0, NULL), out = test_tensor(VNPU_F32, 0, NULL);
    check_add(context, &out, &a, &a, "0-dim");
    test_release(&a), test_release(&out);
    test_close(context);
}

Test(pointwise, layouts_and_broadcasts) {
    static const int64_t shapes[][4] = {
        {3, 5, 7, 11}, {2, 33, 1, 65}, {1, 130, 129, 2}, {4, 1, 17, 200}};
    static const uint32_t orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {2, 0, 3, 1}};
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (int s = 0; s < 4; s++) {
            for (int o = 0; o < 16; o++) {
                kern_tensor_t a = test_permuted(VNPU_F32, 4, shapes[s], orders[o % 4]);
                kern_tensor_t out = test_permuted(VNPU_F32, 4, shapes[s], orders[o / 4]);
                kern_tensor_t b = test_permuted(VNPU_F32, 4, shapes[s], orders[(o + 1) % 4]);
                b.stride[o % 4] = 0; /* broadcasts */
                b.stride[(o / 4 + 2) % 4] = 0;
                check_add(context, &out, &a, &b, "layouts");
                test_release(&a), test_release(&b), test_release(&out);
            }
        }
        test_close(context);
    }
}

Test(pointwise, eight_dimensions) {
    static const int64_t size[8] = {2, 3, 2, 3, 2, 3, 2, 3};
    static const uint32_t order[8] = {7, 0, 6, 1, 5, 2, 4, 3}, other[8] = {3, 1, 7, 5, 0, 2, 6, 4};
    for (uint32_t m = 0; m < test_num_machines; m += 2) {
        kern_context_t *context = test_open(m);
        kern_tensor_t a = test_permuted(VNPU_F32, 8, size, order),
                      b = test_permuted(VNPU_F32, 8, size, other),
                      out = test_tensor(VNPU_F32, 8, size);
        check_add(context, &out, &a, &b, "8 dims");
        test_release(&a), test_release(&b), test_release(&out);
        test_close(context);
    }
}

Test(pointwise, in_place) {
    int64_t size[2] = {70, 300};
    kern_context_t *context = test_open(1);
    kern_tensor_t a = test_tensor(VNPU_F32, 2, size), before = test_tensor(VNPU_F32, 2, size);
    test_ok(context, kern_copy(context, 0, &before, &a), "copy");
    kern_pointwise_t call = {.name = "mul_",
                             .out = a,
                             .num_inputs = 1,
                             .input = {a},
                             .num_scalars = 1,
                             .scalar_f = {3},
                             .num_nodes = 1,
                             .node = {BINARY(VNPU_B_MUL, KERN_INPUT(0), KERN_SCALAR(0))}};
    test_ok(context, kern_pointwise(context, 0, &call), "mul_");
    for (int64_t i = 0; i < test_numel(&a); i++)
        cr_assert_eq((float)test_get(&a, i), (float)test_get(&before, i) * 3.0f);
    test_release(&a), test_release(&before);
    test_close(context);
}

/* Chains, shared values, dead nodes, select: out = a > 0 ? (a * b + c) / (a * b) : relu(b - a) */
Test(pointwise, expression) {
    static const int64_t size[2] = {19, 1003};
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        kern_tensor_t a = test_tensor(VNPU_F32, 2, size), b = test_tensor(VNPU_F32, 2, size),
                      c = test_tensor(VNPU_F32, 2, size), out = test_tensor(VNPU_F32, 2, size);
        c.stride[0] = 0;
        kern_pointwise_t call = {
            .name = "expr",
            .out = out,
            .num_inputs = 3,
            .input = {a, b, c},
            .num_scalars = 2,
            .scalar_f = {0, 1.5},
            .num_nodes = 9,
            .node = {BINARY(VNPU_B_MUL, KERN_INPUT(0), KERN_INPUT(1)), /* 0: a * b, used twice */
                     BINARY(VNPU_B_ADD, KERN_NODE(0), KERN_INPUT(2)),  /* 1 */
                     BINARY(VNPU_B_DIV, KERN_NODE(1), KERN_NODE(0)),   /* 2: fused with 1 */
                     BINARY(VNPU_B_SUB, KERN_INPUT(1), KERN_INPUT(0)), /* 3 */
                     BINARY(VNPU_B_SUB, KERN_SCALAR(1), KERN_NODE(3)), /* 4: reversed chain */
                     UNARY(VNPU_U_EXP, KERN_NODE(4)),                  /* 5: dead */
                     BINARY(VNPU_B_GT, KERN_INPUT(0), KERN_SCALAR(0)), /* 6 */
                     UNARY(VNPU_U_RELU, KERN_NODE(4)),                 /* 7 */
                     {KERN_NODE_SELECT, 0, {KERN_NODE(6), KERN_NODE(2), KERN_NODE(7)}}}};
        test_ok(context, kern_pointwise(context, 0, &call), "expr");
        for (int64_t i = 0; i < test_numel(&out); i++) {
            float x = (float)test_get(&a, i), y = (float)test_get(&b, i),
                  z = (float)test_get(&c, i);
            float p = x * y, s = p + z, d = y - x, r = 1.5f - d;
            float want = x > 0 ? s / p : r > 0 ? r : 0;
            cr_assert_eq((float)test_get(&out, i), want, "machine %u element %lld: %g, not %g", m,
                         (long long)i, test_get(&out, i), (double)want);
        }
        test_release(&a), test_release(&b), test_release(&c), test_release(&out);
        test_close(context);
    }
}

Test(pointwise, dtypes) {
    static const vnpu_dtype_t types[] = {VNPU_F32, VNPU_BF16, VNPU_F16, VNPU_I8,  VNPU_U8,
                                         VNPU_I16, VNPU_I32,  VNPU_I64, VNPU_BOOL};
    static const int64_t size[1] = {777};
    for (uint32_t m = 0; m < test_num_machines; m += 2) {
        kern_context_t *context = test_open(m);
        for (int i = 0; i < 9; i++) {
            for (int j = 0; j < 9; j++) {
                kern_tensor_t a = test_tensor(types[i], 1, size),
                              out = test_tensor(types[j], 1, size);
                bool is_integer = i >= 3 && j >= 3;
                bool is_unsigned =
                    types[i] == VNPU_U8 || types[i] == VNPU_BOOL || types[j] == VNPU_U8;
                for (int64_t e = 0; e < size[0]; e++)
                    test_set(&a, e, (double)(test_random() % 5) - (is_unsigned ? 0 : 2));
                kern_pointwise_t call = {
                    .name = "twice",
                    .out = out,
                    .num_inputs = 1,
                    .input = {a},
                    .is_integer = is_integer,
                    .num_nodes = 1,
                    .node = {BINARY(VNPU_B_ADD, KERN_INPUT(0), KERN_INPUT(0))}};
                test_ok(context, kern_pointwise(context, 0, &call), "dtypes");
                for (int64_t e = 0; e < size[0]; e++) {
                    double want = 2 * test_get(&a, e);
                    if (types[j] == VNPU_BOOL) want = want != 0;
                    cr_assert_eq(test_get(&out, e), want, "%d -> %d: %g, not %g", i, j,
                                 test_get(&out, e), want);
                }
                test_release(&a), test_release(&out);
            }
        }
        test_close(context);
    }
}

/* arange and causal masks: the index of the output element, any layout */
Test(pointwise, index) {
    static const int64_t size[3] = {5, 67, 130};
    static const uint32_t orders[2][3] = {{0, 1, 2}, {2, 0, 1}};
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (int o = 0; o < 2; o++) {
            kern_tensor_t out = test_permuted(VNPU_I64, 3, size, orders[o]);
            kern_pointwise_t call = {.name = "arange",
                                     .out = out,
                                     .is_integer = true,
                                     .num_scalars = 2,
                                     .scalar_i = {3, -7},
                                     .num_nodes = 2,
                                     .node = {BINARY(VNPU_B_MUL, KERN_INDEX, KERN_SCALAR(0)),
                                              BINARY(VNPU_B_ADD, KERN_NODE(0), KERN_SCALAR(1))}};
            test_ok(context, kern_pointwise(context, 0, &call), "arange");
            for (int64_t i = 0; i < test_numel(&out); i++)
                cr_assert_eq(test_get_int(&out, i), 3 * i - 7,
                             "machine %u order %d: element %lld is %lld", m, o, (long long)i,
                             (long long)test_get_int(&out, i));
            test_release(&out);
        }
        test_close(context);
    }
}

Test(pointwise, programs_are_cached_and_scalars_are_arguments) {
    static const int64_t size[1] = {1000};
    kern_context_t *context = test_open(0);
    kern_tensor_t a = test_tensor(VNPU_F32, 1, size);
    for (int i = 0; i < 5; i++) {
        kern_pointwise_t call = {.name = "scale",
                                 .out = a,
                                 .num_inputs = 1,
                                 .input = {a},
                                 .num_scalars = 1,
                                 .scalar_f = {i},
                                 .num_nodes = 1,
                                 .node = {BINARY(VNPU_B_MUL, KERN_INPUT(0), KERN_SCALAR(0))}};
        test_ok(context, kern_pointwise(context, 0, &call), "scale");
    }
    uint64_t programs, launches;
    kern_stats(context, &programs, &launches);
    cr_assert_eq(programs, 1);
    cr_assert_eq(launches, 5);
    test_release(&a);
    test_close(context);
}

Test(pointwise, refusals) {
    static const int64_t size[1] = {4}, other[1] = {5};
    kern_context_t *context = test_open(0);
    kern_tensor_t a = test_tensor(VNPU_F32, 1, size), b = test_tensor(VNPU_F32, 1, other);
    kern_pointwise_t call = {.name = "bad",
                             .out = a,
                             .num_inputs = 1,
                             .input = {b},
                             .num_nodes = 1,
                             .node = {UNARY(VNPU_U_EXP, KERN_INPUT(0))}};
    cr_assert_eq(kern_pointwise(context, 0, &call), VNPU_ERROR_INVALID_VALUE);
    cr_assert(strstr(kern_error_detail(context), "f32 [5]") &&
              strstr(kern_error_detail(context), "f32 [4]"));
    call.input[0] = a;
    call.node[0].operand[0] = KERN_INPUT(1);
    cr_assert_eq(kern_pointwise(context, 0, &call), VNPU_ERROR_INVALID_VALUE);
    call.node[0].operand[0] = KERN_NODE(0);
    cr_assert_eq(kern_pointwise(context, 0, &call), VNPU_ERROR_INVALID_VALUE);
    call.node[0].operand[0] = KERN_INPUT(0);
    call.node[0].func = VNPU_U_COUNT;
    cr_assert_eq(kern_pointwise(context, 0, &call), VNPU_ERROR_INVALID_VALUE);
    call.node[0].func = VNPU_U_EXP;
    call.input[0].dtype = VNPU_F8E4M3;
    cr_assert_eq(kern_pointwise(context, 0, &call), VNPU_ERROR_UNSUPPORTED);
    cr_assert(strstr(kern_error_detail(context), "f8e4m3"));
    call.input[0] = a;
    call.out.stride[0] = 0;
    cr_assert_eq(kern_pointwise(context, 0, &call), VNPU_ERROR_INVALID_VALUE);
    cr_assert(strstr(kern_error_detail(context), "overlap"));
    call.out.stride[0] = 1;
    call.input[0].address = 0;
    cr_assert_eq(kern_pointwise(context, 0, &call), VNPU_ERROR_INVALID_VALUE);
    test_release(&a), test_release(&b);
    test_close(context);
}

/* Values of broadcast operands are computed once; their temporaries are replaced in place by full
 * ones: out = sqrt(|v| + 1) * x + (relu(v) - w), and chains of such. */
Test(pointwise, broadcast_values) {
    static const int64_t size[3] = {3, 37, 301};
    for (uint32_t m = 0; m < test_num_machines; m++) {
        for (uint32_t variant = 0; variant < 4; variant++) {
            kern_context_t *context = test_open(m);
            kern_tensor_t x = test_tensor(VNPU_F32, 3, size), v = test_tensor(VNPU_F32, 3, size),
                          w = test_tensor(VNPU_F32, 3, size), out = test_tensor(VNPU_F32, 3, size);
            v.stride[0] = v.stride[2] = 0;
            w.stride[0] = 0, w.stride[variant & 1 ? 1 : 2] = 0;
            kern_pointwise_t call = {.name = "broadcast",
                                     .out = out,
                                     .num_inputs = 3,
                                     .input = {x, v, w},
                                     .num_scalars = 1,
                                     .scalar_f = {1},
                                     .num_nodes = 7,
                                     .node = {UNARY(VNPU_U_ABS, KERN_INPUT(1)),
                                              BINARY(VNPU_B_ADD, KERN_NODE(0), KERN_SCALAR(0)),
                                              UNARY(VNPU_U_SQRT, KERN_NODE(1)),
                                              UNARY(VNPU_U_RELU, KERN_INPUT(1)),
                                              BINARY(VNPU_B_SUB, KERN_NODE(3), KERN_INPUT(2)),
                                              BINARY(VNPU_B_MUL, KERN_NODE(2), KERN_INPUT(0)),
                                              BINARY(VNPU_B_ADD, KERN_NODE(5), KERN_NODE(4))}};
            if (variant &
                2) { /* sqrt(|v| + 1) + x, then its negative: one temporary, narrow and full */
                call.num_nodes = 6;
                call.node[3] = (kern_node_t)UNARY(VNPU_U_NEG, KERN_NODE(2));
                call.node[4] = (kern_node_t){
                    KERN_NODE_SELECT, 0, {KERN_INPUT(0), KERN_NODE(3), KERN_INPUT(2)}};
                call.node[5] = (kern_node_t)UNARY(VNPU_U_NEG, KERN_NODE(4));
            }
            test_ok(context, kern_pointwise(context, 0, &call), "broadcast");
            for (int64_t i = 0; i < test_numel(&out); i++) {
                float a = (float)test_get(&x, i), b = (float)test_get(&v, i),
                      c = (float)test_get(&w, i), root = sqrtf(fabsf(b) + 1);
                float difference = (b > 0 ? b : 0) - c, product = root * a;
                float want = variant & 2 ? -(a != 0 ? -root : c) : product + difference;
                cr_assert_eq((float)test_get(&out, i), want,
                             "machine %u variant %u element %lld: %g, not %g", m, variant,
                             (long long)i, test_get(&out, i), (double)want);
            }
            test_release(&x), test_release(&v), test_release(&w), test_release(&out);
            test_close(context);
        }
    }
}
