#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/kern_test.h"

static void check_softmax(kern_context_t *context, const kern_tensor_t *out,
                          const kern_tensor_t *in, uint32_t dim, bool is_log) {
    test_ok(context, kern_softmax(context, 0, out, in, dim, is_log), "softmax");
    int64_t length = in->size[dim], inner = 1;
    for (uint32_t d = dim + 1; d < in->ndims; d++)
        inner *= in->size[d];
    for (int64_t row = 0; row < test_numel(in) / length; row++) {
        int64_t first = row / inner * length * inner + row % inner;
        double maximum = -INFINITY, sum = 0;
        for (int64_t i = 0; i < length; i++)
            maximum = fmax(maximum, test_get(in, first + i * inner));
        for (int64_t i = 0; i < length; i++)
            sum += exp(test_get(in, first + i * inner) - maximum);
        for (int64_t i = 0; i < length; i++) {
            double x = test_get(in, first + i * inner) - maximum;
            double want = is_log ? x - log(sum) : exp(x) / sum,
                   got = test_get(out, first + i * inner);
            double tolerance = is_log ? 2e-5 : 1e-6 + 1e-5 * want;
            cr_assert(fabs(got - want) <= tolerance,
                      "softmax of %lld along %u: row %lld element %lld is %g, not %g",
                      (long long)length, dim, (long long)row, (long long)i, got, want);
        }
    }
}

Test(softmax, lengths, .timeout = 120) {
    static const int64_t lengths[] = {1, 2, 15, 16, 17, 127, 128, 129, 1009, 6000};
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (int l = 0; l < 10; l++) {
            int64_t size[2] = {l < 8 ? 61 : 5, lengths[l]};
            kern_tensor_t in = test_tensor(VNPU_F32, 2, size), out = test_tensor(VNPU_F32, 2, size);
            check_softmax(context, &out, &in, 1, false);
            check_softmax(context, &out, &in, 1, true);
            check_softmax(context, &out, &in, 0, l % 2);
            test_release(&in), test_release(&out);
        }
        test_close(context);
    }
}

Test(softmax, dims_and_layouts) {
    static const int64_t size[4] = {3, 20, 5, 70};
    static const uint32_t orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}};
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (uint32_t v = 0; v < 12; v++) {
            kern_tensor_t in = test_permuted(VNPU_F32, 4, size, orders[v % 3]),
                          out = test_permuted(VNPU_F32, 4, size, orders[(v / 4 + v) % 3]);
            check_softmax(context, &out, &in, v % 4, v % 2);
            test_release(&in), test_release(&out);
        }
        test_close(context);
    }
}

/* Longer than the scratchpad holds: three passes. */
Test(softmax, long_rows) {
    static const struct {
        uint32_t machine;
        int64_t length;
    } cases[] = {{0, 400000}, {2, 20000}, {4, 9001}, {5, 13000}};
    for (int c = 0; c < 4; c++) {
        kern_context_t *context = test_open(cases[c].machine);
        int64_t size[2] = {3, cases[c].length};
        kern_tensor_t in = test_tensor(VNPU_F32, 2, size), out = test_tensor(VNPU_F32, 2, size);
        check_softmax(context, &out, &in, 1, false);
        check_softmax(context, &out, &in, 1, true);
        test_release(&in), test_release(&out);
        test_close(context);
    }
}

Test(softmax, infinities_and_types) {
    kern_context_t *context = test_open(0);
    kern_tensor_t in = test_tensor(VNPU_F32, 2, (int64_t[]){4, 50}),
                  out = test_tensor(VNPU_BF16, 2, (int64_t[]){4, 50});
    for (int64_t i = 0; i < 49; i++)
        test_set(&in, 50 + i, -INFINITY);
    test_ok(context, kern_softmax(context, 0, &out, &in, 1, false), "infinities");
    cr_assert_eq(test_get(&out, 50), 0);
    cr_assert_eq(test_get(&out, 99), 1);
    kern_tensor_t ints = test_tensor(VNPU_I32, 2, (int64_t[]){4, 50});
    cr_assert_eq(kern_softmax(context, 0, &out, &ints, 1, false), VNPU_ERROR_UNSUPPORTED);
    cr_assert_eq(kern_softmax(context, 0, &out, &in, 2, false), VNPU_ERROR_INVALID_VALUE);
    test_release(&in), test_release(&out), test_release(&ints);
    test_close(context);
}

typedef struct norm_case {
    uint32_t machine;
    int64_t size[3];
    uint32_t norm_dims, variant; /* bits: weight, bias, mean and rstd, turned */
} norm_case_t;

static void check_norm(kern_context_t *context, const norm_case_t *n) {
    static const uint32_t turned[3] = {2, 0, 1};
    kern_tensor_t in = test_permuted(VNPU_F32, 3, n->size, n->variant & 8 ? turned : NULL),
                  out = test_tensor(VNPU_F32, 3, n->size);
    for (int64_t i = 0; i < test_numel(&in);
         i++) /* a mean that would swallow the digits of a one-pass variance */
        test_set(&in, i, test_get(&in, i) + 100);
    uint32_t kept = 3 - n->norm_dims;
    kern_tensor_t weight = test_tensor(VNPU_F32, n->norm_dims, n->size + kept),
                  bias = test_tensor(VNPU_F32, n->norm_dims, n->size + kept);
    kern_tensor_t mean = test_tensor(VNPU_F32, kept, n->size),
                  rstd = test_tensor(VNPU_F32, kept, n->size);
    bool has_statistics = n->variant & 4;
    test_ok(context,
            kern_layer_norm(context, 0, &out, &in, n->variant & 1 ? &weight : NULL,
                            n->variant & 2 ? &bias : NULL, has_statistics ? &mean : NULL,
                            has_statistics ? &rstd : NULL, n->norm_dims, 1e-5),
            "layer_norm");
    int64_t length = test_numel(&weight);
    for (int64_t row = 0; row < test_numel(&in) / length; row++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < length; i++)
            sum += test_get(&in, row * length + i);
        double m = sum / (double)length;
        for (int64_t i = 0; i < length; i++)
            squares += pow(test_get(&in, row * length + i) - m, 2);
        double r = 1 / sqrt(squares / (double)length + 1e-5);
        for (int64_t i = 0; i < length; i++) {
            double want = (test_get(&in, row * length + i) - m) * r;
            if (n->variant & 1) want *= test_get(&weight, i);
            if (n->variant & 2) want += test_get(&bias, i);
            cr_assert(fabs(test_get(&out, row * length + i) - want) < 2e-4,
                      "variant %u row %lld element %lld: %g, not %g", n->variant, (long long)row,
                      (long long)i, test_get(&out, row * length + i), want);
        }
        if (!has_statistics) continue;
        cr_assert(fabs(test_get(&mean, row) - m) < 1e-4 &&
                  fabs(test_get(&rstd, row) - r) < 1e-4 * r);
    }
    test_release(&in), test_release(&out), test_release(&weight), test_release(&bias),
        test_release(&mean), test_release(&rstd);
}

Test(layer_norm, variants) {
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (uint32_t v = 0; v < 16; v++) {
            check_norm(context, &(norm_case_t){m, {3, 37, 129}, 1, v});
            check_norm(context, &(norm_case_t){m, {5, 11, 17}, 2, v});
            check_norm(context, &(norm_case_t){m, {2, 7, 30}, 3, v});
        }
        check_norm(context, &(norm_case_t){m, {1, 100, 384}, 1, 3});
        test_close(context);
    }
}

Test(layer_norm, long_rows) {
    kern_context_t *context = test_open(0);
    check_norm(context, &(norm_case_t){0, {1, 3, 300001}, 1, 7});
    test_close(context);
    for (uint32_t m = 2; m < test_num_machines; m++) {
        context = test_open(m);
        for (uint32_t v = 0; v < 8; v++)
            check_norm(context, &(norm_case_t){m, {1, 3, 9000}, 1, v});
        test_close(context);
    }
}

Test(layer_norm, refusals) {
    kern_context_t *context = test_open(0);
    kern_tensor_t in = test_tensor(VNPU_F32, 2, (int64_t[]){4, 50}),
                  wrong = test_tensor(VNPU_F32, 1, (int64_t[]){49});
    cr_assert_eq(kern_layer_norm(context, 0, &in, &in, &wrong, NULL, NULL, NULL, 1, 1e-5),
                 VNPU_ERROR_INVALID_VALUE);
    cr_assert(strstr(kern_error_detail(context), "weight is f32 [49]"));
    cr_assert_eq(kern_layer_norm(context, 0, &in, &in, NULL, NULL, NULL, NULL, 3, 1e-5),
                 VNPU_ERROR_INVALID_VALUE);
    test_release(&in), test_release(&wrong);
    test_close(context);
}
