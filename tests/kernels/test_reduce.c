#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/kern_test.h"

/* Element of out that element `linear` of in is reduced into. */
static int64_t target(const kern_tensor_t *in, uint32_t mask, int64_t linear) {
    int64_t index = 0, scale = 1;
    for (uint32_t d = in->ndims; d-- > 0;) {
        if (!(mask >> d & 1u)) {
            index += linear % in->size[d] * scale;
            scale *= in->size[d];
        }
        linear /= in->size[d];
    }
    return index;
}

static double start(kern_reduction_t kind) {
    if (kind == KERN_AMAX) return -INFINITY;
    if (kind == KERN_AMIN) return INFINITY;
    return kind == KERN_PROD || kind == KERN_ALL;
}

static double combine(kern_reduction_t kind, double a, double x) {
    switch (kind) {
    case KERN_SUM:
    case KERN_MEAN: return a + x;
    case KERN_AMAX: return x > a ? x : a;
    case KERN_AMIN: return x < a ? x : a;
    case KERN_PROD: return a * x;
    case KERN_ANY: return a != 0 || x != 0;
    case KERN_ALL: return a != 0 && x != 0;
    case KERN_NORM2: return a + x * x;
    }
    return a;
}

static void check(kern_context_t *context, kern_reduction_t kind, const kern_tensor_t *in,
                  uint32_t mask, vnpu_dtype_t out_dtype) {
    int64_t size[KERN_MAX_DIMS];
    for (uint32_t d = 0; d < in->ndims; d++)
        size[d] = mask >> d & 1u ? 1 : in->size[d];
    kern_tensor_t out = test_tensor(out_dtype, in->ndims, size);
    test_ok(context, kern_reduce(context, 0, kind, &out, in, mask), "reduce");
    int64_t outs = test_numel(&out), ins = test_numel(in);
    double *want = malloc((size_t)(outs + 1) * sizeof *want),
           *scale = calloc((size_t)outs + 1, sizeof *scale);
    for (int64_t i = 0; i < outs; i++)
        want[i] = start(kind);
    for (int64_t i = 0; i < ins; i++) {
        int64_t o = target(in, mask, i);
        want[o] = combine(kind, want[o], test_get(in, i));
        scale[o] += fabs(test_get(in, i));
    }
    for (int64_t i = 0; i < outs; i++) {
        double count = (double)ins / (double)outs;
        if (kind == KERN_MEAN) want[i] /= count, scale[i] /= count;
        if (kind == KERN_NORM2) want[i] = sqrt(want[i]);
        double tolerance = kind == KERN_PROD ? fabs(want[i]) * 1e-4 : scale[i] * 2e-6;
        if (out_dtype != VNPU_F32 || kind == KERN_AMAX || kind == KERN_AMIN) tolerance = 0;
        double got = test_get(&out, i);
        bool is_right =
            fabs(got - want[i]) <= tolerance || (isnan(got) && isnan(want[i])) || got == want[i];
        cr_assert(is_right, "kind %d mask %x of [%lld %lld %lld %lld]: element %lld is %g, not %g",
                  (int)kind, mask, (long long)in->size[0], (long long)in->size[1],
                  (long long)in->size[2], (long long)in->size[3], (long long)i, got, want[i]);
    }
    free(want), free(scale);
    test_release(&out);
}

Test(reduce, masks_and_layouts, .timeout = 120) {
    static const int64_t shapes[][4] = {{3, 5, 7, 11}, {2, 1, 130, 17}, {1, 40, 3, 257}};
    static const uint32_t orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}};
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (int s = 0; s < 3; s++) {
            for (int o = 0; o < 3; o++) {
                kern_tensor_t in = test_permuted(VNPU_F32, 4, shapes[s], orders[o]);
                for (uint32_t mask = 0; mask < 16; mask++)
                    check(context, (kern_reduction_t)((mask + (uint32_t)o) % 3), &in, mask,
                          VNPU_F32);
                test_release(&in);
            }
        }
        test_close(context);
    }
}

Test(reduce, kinds_and_lengths, .timeout = 120) {
    static const int64_t lengths[] = {1, 2, 15, 16, 17, 127, 128, 1009, 20011};
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (int l = 0; l < 9; l++) {
            kern_tensor_t in = test_tensor(VNPU_F32, 2, (int64_t[]){5, lengths[l]});
            for (int kind = KERN_SUM; kind <= KERN_NORM2; kind++) {
                if (kind == KERN_PROD) test_fill(&in, 0.99, 1.01);
                vnpu_dtype_t type = kind == KERN_ANY || kind == KERN_ALL ? VNPU_BOOL : VNPU_F32;
                check(context, (kern_reduction_t)kind, &in, 2, type);
                if (kind == KERN_PROD) test_fill(&in, -3, 3);
            }
            test_release(&in);
        }
        test_close(context);
    }
}

Test(reduce, integers_and_truth) {
    for (uint32_t m = 0; m < test_num_machines; m += 2) {
        kern_context_t *context = test_open(m);
        kern_tensor_t in = test_tensor(VNPU_I64, 2, (int64_t[]){60, 37}),
                      flags = test_tensor(VNPU_BOOL, 2, (int64_t[]){60, 300});
        test_fill(&in, -1e9, 1e9);
        check(context, KERN_SUM, &in, 1, VNPU_I64);
        check(context, KERN_SUM, &in, 3, VNPU_I64);
        check(context, KERN_AMAX, &in, 2, VNPU_I64);
        check(context, KERN_AMIN, &in, 1, VNPU_I64);
        check(context, KERN_SUM, &flags, 2, VNPU_I64);
        check(context, KERN_ANY, &flags, 2, VNPU_BOOL);
        check(context, KERN_ALL, &flags, 1, VNPU_BOOL);
        check(context, KERN_ALL, &flags, 3, VNPU_BOOL);
        for (int64_t i = 0; i < 300; i++)
            test_set(&flags, i, 1), test_set(&flags, 300 + i, 0);
        check(context, KERN_ANY, &flags, 2, VNPU_BOOL);
        check(context, KERN_ALL, &flags, 2, VNPU_BOOL);
        test_release(&in), test_release(&flags);
        test_close(context);
    }
}

/* One long row: dealt to all cores, partial results combined. */
Test(reduce, one_long_row) {
    for (uint32_t m = 0; m < 2; m++) {
        kern_context_t *context = test_open(m);
        kern_tensor_t in = test_tensor(VNPU_F32, 1, (int64_t[]){1000003});
        in.ndims = 4; /* as [1, 1, 1, n] */
        in.size[3] = in.size[0], in.stride[3] = 1;
        in.size[0] = in.size[1] = in.size[2] = 1;
        in.stride[0] = in.stride[1] = in.stride[2] = in.size[3];
        check(context, KERN_SUM, &in, 15, VNPU_F32);
        uint64_t programs, launches;
        kern_stats(context, &programs, &launches);
        cr_assert_eq(launches, 2, "%llu launches", (unsigned long long)launches);
        check(context, KERN_MEAN, &in, 15, VNPU_F32);
        check(context, KERN_NORM2, &in, 15, VNPU_F32);
        check(context, KERN_AMIN, &in, 15, VNPU_F32);
        test_release(&in);
        test_close(context);
    }
}

Test(reduce, of_nothing) {
    kern_context_t *context = test_open(0);
    kern_tensor_t in = test_tensor(VNPU_F32, 2, (int64_t[]){3, 0}),
                  out = test_tensor(VNPU_F32, 2, (int64_t[]){3, 1});
    static const double want[] = {0, NAN, 0, 0, 1, 0, 1, 0};
    for (int kind = KERN_SUM; kind <= KERN_NORM2; kind++) {
        vnpu_status_t status = kern_reduce(context, 0, (kern_reduction_t)kind, &out, &in, 2);
        if (kind == KERN_AMAX || kind == KERN_AMIN) {
            cr_assert_eq(status, VNPU_ERROR_INVALID_VALUE);
            continue;
        }
        test_ok(context, status, "nothing");
        double got = test_get(&out, 2);
        cr_assert(got == want[kind] || (isnan(got) && isnan(want[kind])), "kind %d: %g", kind, got);
    }
    kern_tensor_t none = test_tensor(VNPU_F32, 2, (int64_t[]){0, 4}),
                  none_out = test_tensor(VNPU_F32, 2, (int64_t[]){0, 1});
    test_ok(context, kern_reduce(context, 0, KERN_AMAX, &none_out, &none, 2), "no rows");
    cr_assert_eq(kern_reduce(context, 0, KERN_SUM, &out, &none, 2), VNPU_ERROR_INVALID_VALUE);
    test_release(&in), test_release(&out), test_release(&none), test_release(&none_out);
    test_close(context);
}

Test(reduce, not_a_number_wins) {
    kern_context_t *context = test_open(0);
    kern_tensor_t in = test_tensor(VNPU_F32, 2, (int64_t[]){4, 100}),
                  out = test_tensor(VNPU_F32, 2, (int64_t[]){4, 1});
    test_set(&in, 250, NAN);
    test_ok(context, kern_reduce(context, 0, KERN_AMAX, &out, &in, 2), "amax");
    cr_assert(isnan(test_get(&out, 2)) && !isnan(test_get(&out, 1)));
    test_release(&in), test_release(&out);
    test_close(context);
}
