#include <math.h>
#include <string.h>

#include "tests/kernels/kern_test.h"

static void check_copy(kern_context_t *context, const kern_tensor_t *out, const kern_tensor_t *in,
                       const char *what) {
    test_ok(context, kern_copy(context, 0, out, in), what);
    for (int64_t i = 0; i < test_numel(out); i++) {
        double want = test_get(in, i);
        if (out->dtype == VNPU_BOOL) want = want != 0;
        if (out->dtype != VNPU_F32 && out->dtype != VNPU_BF16 && out->dtype != VNPU_F16)
            want = trunc(want);
        double tolerance = out->dtype == VNPU_BF16  ? fabs(want) / 256
                           : out->dtype == VNPU_F16 ? fabs(want) / 2048
                                                    : 0;
        cr_assert(fabs(test_get(out, i) - want) <= tolerance, "%s: element %lld is %g, not %g",
                  what, (long long)i, test_get(out, i), want);
    }
}

Test(copy, permutations) {
    static const int64_t shapes[][4] = {
        {3, 5, 7, 11}, {1, 129, 1, 130}, {2, 3, 257, 65}, {40, 1, 3, 128}};
    static const uint32_t orders[][4] = {
        {0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 3, 0, 2}, {0, 1, 3, 2}};
    static const vnpu_dtype_t types[] = {VNPU_F32, VNPU_I64, VNPU_U8, VNPU_BF16};
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (int s = 0; s < 4; s++) {
            for (int o = 0; o < 25; o += 1 + (int)m % 3) {
                kern_tensor_t in = test_permuted(types[o % 4], 4, shapes[s], orders[o % 5]);
                kern_tensor_t out = test_permuted(types[o % 4], 4, shapes[s], orders[o / 5]);
                check_copy(context, &out, &in, "permutation");
                test_release(&in), test_release(&out);
            }
        }
        test_close(context);
    }
}

Test(copy, casts) {
    static const vnpu_dtype_t types[] = {VNPU_F32, VNPU_BF16, VNPU_F16, VNPU_I8,  VNPU_U8,
                                         VNPU_I16, VNPU_I32,  VNPU_I64, VNPU_BOOL};
    static const int64_t size[2] = {33, 130};
    static const uint32_t turned[2] = {1, 0};
    for (uint32_t m = 0; m < test_num_machines; m += 2) {
        kern_context_t *context = test_open(m);
        for (int c = 0; c < 81; c++) {
            kern_tensor_t in = test_permuted(types[c / 9], 2, size, c % 2 ? turned : NULL);
            kern_tensor_t out = test_tensor(types[c % 9], 2, size);
            if (out.dtype == VNPU_U8) test_fill(&in, 0, 100);
            check_copy(context, &out, &in, "cast");
            test_release(&in), test_release(&out);
        }
        test_close(context);
    }
}

Test(copy, broadcast_slices_and_empty) {
    kern_context_t *context = test_open(1);
    kern_tensor_t in = test_tensor(VNPU_F32, 2, (int64_t[]){40, 300}),
                  out = test_tensor(VNPU_F32, 3, (int64_t[]){5, 40, 300});
    kern_tensor_t wide = test_view(&in, 3, (int64_t[]){5, 40, 300}, (int64_t[]){0, 300, 1});
    check_copy(context, &out, &wide, "broadcast");
    kern_tensor_t column = test_view(&in, 3, (int64_t[]){5, 40, 300}, (int64_t[]){0, 300, 0});
    check_copy(context, &out, &column, "broadcast column");
    /* every second row, columns 7.. : into the middle of out */
    kern_tensor_t slice = test_view(&in, 2, (int64_t[]){20, 100}, (int64_t[]){600, 1});
    slice.address += 7 * 4;
    kern_tensor_t place = test_view(&out, 2, (int64_t[]){20, 100}, (int64_t[]){301, 3});
    check_copy(context, &place, &slice, "slice");
    kern_tensor_t none = test_view(&in, 2, (int64_t[]){0, 100}, (int64_t[]){1, 1});
    test_ok(context, kern_copy(context, 0, &none, &none), "empty");
    kern_tensor_t scalar = test_view(&in, 0, NULL, NULL), to = test_view(&out, 0, NULL, NULL);
    check_copy(context, &to, &scalar, "0-dim");
    cr_assert_eq(kern_copy(context, 0, &out, &in), VNPU_ERROR_INVALID_VALUE);
    test_release(&in), test_release(&out);
    test_close(context);
}

Test(copy, long_one) {
    for (uint32_t m = 0; m < 3; m++) {
        kern_context_t *context = test_open(m);
        kern_tensor_t in = test_tensor(VNPU_F32, 1, (int64_t[]){500009}),
                      out = test_tensor(VNPU_F32, 1, (int64_t[]){500009});
        check_copy(context, &out, &in, "long");
        test_release(&in), test_release(&out);
        test_close(context);
    }
}

Test(copy, eight_dimensions) {
    static const int64_t size[8] = {2, 3, 2, 3, 2, 3, 2, 3};
    static const uint32_t order[8] = {7, 0, 6, 1, 5, 2, 4, 3};
    for (uint32_t m = 0; m < test_num_machines; m += 2) {
        kern_context_t *context = test_open(m);
        kern_tensor_t in = test_permuted(VNPU_F32, 8, size, order),
                      out = test_tensor(VNPU_F32, 8, size);
        check_copy(context, &out, &in, "8 dims");
        test_release(&in), test_release(&out);
        test_close(context);
    }
}

Test(fill, every_type_dense_and_strided) {
    static const vnpu_dtype_t types[] = {VNPU_F32, VNPU_BF16, VNPU_F16, VNPU_I8,  VNPU_U8,
                                         VNPU_I16, VNPU_I32,  VNPU_I64, VNPU_BOOL};
    static const int64_t size[2] = {31, 70};
    for (uint32_t m = 0; m < test_num_machines; m += 2) {
        kern_context_t *context = test_open(m);
        for (int t = 0; t < 9; t++) {
            kern_tensor_t out = test_tensor(types[t], 2, size);
            test_ok(context, kern_fill(context, 0, &out, 2.5, 1), "fill");
            double want = t < 3 ? 2.5 : 1;
            for (int64_t i = 0; i < test_numel(&out); i++)
                cr_assert_eq(test_get(&out, i), want, "type %d: %g", t, test_get(&out, i));
            kern_tensor_t part = test_view(&out, 2, (int64_t[]){15, 30}, (int64_t[]){140, 2});
            test_ok(context, kern_fill(context, 0, &part, -1.5, 0), "strided fill");
            for (int64_t i = 0; i < test_numel(&out); i++) {
                bool is_in = i / 70 % 2 == 0 && i / 140 < 15 && i % 70 < 60 && i % 2 == 0;
                cr_assert_eq(test_get(&out, i), is_in ? (t < 3 ? -1.5 : 0) : want);
            }
            test_release(&out);
        }
        test_close(context);
    }
}
