#include <string.h>

#include "tests/kernels/kern_test.h"

static void check(kern_context_t *context, const kern_tensor_t *table, uint32_t dim, int64_t count,
                  vnpu_dtype_t type) {
    int64_t size[KERN_MAX_DIMS], inner = 1;
    for (uint32_t d = 0; d < table->ndims; d++) {
        size[d] = d == dim ? count : table->size[d];
        if (d > dim) inner *= table->size[d];
    }
    kern_tensor_t out = test_tensor(table->dtype, table->ndims, size),
                  index = test_tensor(type, 1, (int64_t[]){count});
    for (int64_t i = 0; i < count; i++)
        test_set(&index, i, (double)(test_random() % (uint64_t)table->size[dim]));
    test_ok(context, kern_index_select(context, 0, &out, table, dim, &index), "index_select");
    for (int64_t i = 0; i < test_numel(&out); i++) {
        int64_t outer = i / (count * inner), at = test_get_int(&index, i / inner % count);
        int64_t from = (outer * table->size[dim] + at) * inner + i % inner;
        cr_assert_eq(test_get(&out, i), test_get(table, from), "element %lld", (long long)i);
    }
    test_release(&out), test_release(&index);
}

Test(index_select, dims_counts_types) {
    static const int64_t counts[] = {0, 1, 15, 16, 17, 300};
    static const vnpu_dtype_t types[] = {VNPU_F32, VNPU_I64, VNPU_BF16, VNPU_BOOL};
    static const uint32_t turned[3] = {2, 0, 1};
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (uint32_t c = 0; c < 6; c++) {
            for (uint32_t dim = 0; dim < 3; dim++) {
                kern_tensor_t table = test_permuted(types[(c + dim) % 4], 3, (int64_t[]){9, 31, 70},
                                                    c % 2 ? turned : NULL);
                check(context, &table, dim, counts[c], c % 3 ? VNPU_I64 : VNPU_I32);
                test_release(&table);
            }
        }
        test_close(context);
    }
}

Test(index_select, embedding_and_long_rows) {
    for (uint32_t m = 0; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        kern_tensor_t table = test_tensor(VNPU_F32, 2, (int64_t[]){1000, 384}),
                      wide = test_tensor(VNPU_F32, 2, (int64_t[]){7, 70001});
        check(context, &table, 0, 517, VNPU_I64);
        check(context, &wide, 0, 10, VNPU_I64);
        test_release(&table), test_release(&wide);
        test_close(context);
    }
}

Test(index_select, bad_index) {
    kern_context_t *context = test_open(0);
    kern_tensor_t table = test_tensor(VNPU_F32, 2, (int64_t[]){10, 8}),
                  out = test_tensor(VNPU_F32, 2, (int64_t[]){4, 8}),
                  index = test_tensor(VNPU_I64, 1, (int64_t[]){4});
    static const double bad[] = {10, -1};
    for (int b = 0; b < 2; b++) {
        for (int64_t i = 0; i < 4; i++)
            test_set(&index, i, i == 2 ? bad[b] : 1);
        cr_assert_eq(kern_index_select(context, 0, &out, &table, 0, &index),
                     VNPU_ERROR_INDEX_OUT_OF_RANGE);
    }
    kern_tensor_t floats = test_tensor(VNPU_F32, 1, (int64_t[]){4});
    cr_assert_eq(kern_index_select(context, 0, &out, &table, 0, &floats), VNPU_ERROR_UNSUPPORTED);
    cr_assert_eq(kern_index_select(context, 0, &out, &table, 1, &index), VNPU_ERROR_INVALID_VALUE);
    test_release(&table), test_release(&out), test_release(&index), test_release(&floats);
    test_close(context);
}
