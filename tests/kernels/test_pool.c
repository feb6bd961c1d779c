#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/kern_test.h"

typedef struct pool_case {
    int64_t batch, channels, height, width;
    uint32_t kernel[2], stride[2], pad[2], dilation[2];
    int64_t more; /* results behind what fits: a border behind the end */
} pool_case_t;

static const pool_case_t cases[] = {
    {1, 3, 12, 13, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 0}, /* of a ResNet */
    {2, 5, 8, 8, {2, 2}, {2, 2}, {0, 0}, {1, 1}, 0},
    {2, 3, 9, 7, {3, 2}, {1, 3}, {1, 0}, {2, 1}, 0},
    {1, 4, 7, 7, {7, 7}, {1, 1}, {0, 0}, {1, 1}, 0}, /* the whole image */
    {3, 2, 1, 40, {1, 5}, {1, 2}, {0, 2}, {1, 1}, 0},
    {1, 2, 7, 8, {3, 3}, {2, 2}, {0, 0}, {1, 1}, 1}, /* rounded up */
    {1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 0},
    {1, 70, 33, 34, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

static int64_t results(const pool_case_t *t, int d) {
    int64_t size = d ? t->width : t->height,
            reach = (int64_t)(t->kernel[d] - 1) * t->dilation[d] + 1;
    return (size + 2 * (int64_t)t->pad[d] - reach) / t->stride[d] + 1 + t->more;
}

static kern_pool_t make(const pool_case_t *t, kern_pool_kind_t kind, vnpu_dtype_t dtype,
                        bool is_last, bool has_index) {
    static const uint32_t last[4] = {0, 2, 3, 1};
    const uint32_t *order = is_last ? last : NULL;
    kern_pool_t call = {.kind = kind, .scale = kind == KERN_POOL_SUM ? 0.25 : 1};
    for (int d = 0; d < 2; d++) {
        call.kernel[d] = t->kernel[d], call.stride[d] = t->stride[d];
        call.pad[d] = t->pad[d], call.dilation[d] = t->dilation[d];
    }
    int64_t out[4] = {t->batch, t->channels, results(t, 0), results(t, 1)};
    call.in =
        test_permuted(dtype, 4, (int64_t[]){t->batch, t->channels, t->height, t->width}, order);
    call.out = test_permuted(dtype, 4, out, order);
    if (has_index) call.indices = test_permuted(VNPU_I64, 4, out, order);
    return call;
}

static void release(kern_pool_t *call) {
    test_release(&call->in), test_release(&call->out);
    if (call->indices.address) test_release(&call->indices);
}

/* torch's rules: the first of equal maxima, the last NaN, the first element when all are -inf. */
static void check_one(const kern_pool_t *call, int64_t i) {
    const int64_t *is = call->in.size, *os = call->out.size;
    int64_t x = i % os[3], y = i / os[3] % os[2], plane = i / os[3] / os[2], index = -1;
    double best = -INFINITY, sum = 0, scale = 0;
    for (int64_t a = 0; a < call->kernel[0]; a++) {
        for (int64_t b = 0; b < call->kernel[1]; b++) {
            int64_t row = y * call->stride[0] + a * call->dilation[0] - call->pad[0];
            int64_t col = x * call->stride[1] + b * call->dilation[1] - call->pad[1];
            if (row < 0 || col < 0 || row >= is[2] || col >= is[3]) continue;
            double value = test_get(&call->in, (plane * is[2] + row) * is[3] + col);
            if (index < 0) index = row * is[3] + col;
            if (value > best || isnan(value)) best = value, index = row * is[3] + col;
            sum += value;
            scale += fabs(value);
        }
    }
    double got = test_get(&call->out, i);
    if (call->kind == KERN_POOL_SUM) {
        double tolerance = 1e-6 * scale + (call->out.dtype == VNPU_F32 ? 0 : fabs(sum) / 256);
        cr_assert(fabs(got - call->scale * sum) <= tolerance, "element %lld is %g, not %g",
                  (long long)i, got, call->scale * sum);
        return;
    }
    cr_assert(got == best || (isnan(got) && isnan(best)), "element %lld is %g, not %g",
              (long long)i, got, best);
    if (!call->indices.address) return;
    int64_t found = test_get_int(&call->indices, i);
    cr_assert_eq(found, index, "element %lld: index %lld, not %lld", (long long)i, (long long)found,
                 (long long)index);
}

static void run_case(kern_context_t *context, kern_pool_t *call) {
    test_ok(context, kern_pool(context, 0, call), "pool");
    for (int64_t i = 0; i < test_numel(&call->out); i++)
        check_one(call, i);
    release(call);
}

Test(pool, maxima, .timeout = 120) {
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (uint32_t c = 0; c < CASES; c++) {
            for (uint32_t variant = 0; variant < 4; variant++) {
                kern_pool_t call = make(&cases[c], KERN_POOL_MAX, c == 1 ? VNPU_BF16 : VNPU_F32,
                                        variant & 1, variant & 2);
                run_case(context, &call);
            }
        }
        test_close(context);
    }
}

Test(pool, sums, .timeout = 120) {
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (uint32_t c = 0; c < CASES; c++) {
            kern_pool_t call = make(&cases[c], KERN_POOL_SUM, c % 3 == 1 ? VNPU_BF16 : VNPU_F32,
                                    (c + m) & 1, false);
            run_case(context, &call);
        }
        test_close(context);
    }
}

Test(pool, ties_infinities_and_nans) {
    for (uint32_t m = 0; m < test_num_machines; m += 2) {
        kern_context_t *context = test_open(m);
        for (uint32_t kind = 0; kind < 3; kind++) {
            kern_pool_t call = make(&cases[0], KERN_POOL_MAX, VNPU_F32, false, true);
            for (int64_t i = 0; i < test_numel(&call.in); i++) {
                double value = kind == 0   ? (double)(i % 3)
                               : kind == 1 ? -INFINITY
                                           : (i % 11 == 0 ? NAN : 1);
                test_set(&call.in, i, value);
            }
            run_case(context, &call);
        }
        test_close(context);
    }
}

Test(pool, misuse_is_refused_by_name) {
    kern_context_t *context = test_open(2);
    kern_pool_t call = make(&cases[0], KERN_POOL_MAX, VNPU_F32, false, true), bad = call;
    bad.kernel[0] = 0;
    cr_assert_eq(kern_pool(context, 0, &bad), VNPU_ERROR_INVALID_VALUE);
    bad = call;
    bad.kernel[0] = bad.kernel[1] = 12;
    cr_assert_eq(kern_pool(context, 0, &bad), VNPU_ERROR_UNSUPPORTED);
    cr_assert_not_null(strstr(kern_error_detail(context), "12 x 12"), "%s",
                       kern_error_detail(context));
    bad = call;
    bad.indices.dtype = VNPU_I32;
    cr_assert_eq(kern_pool(context, 0, &bad), VNPU_ERROR_INVALID_VALUE);
    cr_assert_not_null(strstr(kern_error_detail(context), "do not agree"));
    release(&call);
    test_close(context);
}
