#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/kern_test.h"

typedef struct attention_case {
    int64_t b, h, kv, s, skv, d;
} attention_case_t;

/* What check() makes operands of, and how close results must be. */
static vnpu_dtype_t operand_type = VNPU_F32;
static double tolerance = 1e-4;

enum { TOKEN_MAJOR = 1, CAUSAL = 2, LSE = 4, MASK_KEYS = 8, MASK_FULL = 16, MASK_HEADS = 32 };

static double *dump(const kern_tensor_t *t) {
    double *value = malloc((size_t)(test_numel(t) + 1) * sizeof *value);
    for (int64_t i = 0; i < test_numel(t); i++)
        value[i] = test_get(t, i);
    return value;
}

typedef struct reference {
    const double *q, *k, *v, *mask;
    int64_t mask_stride[4];
    double *score;
} reference_t;

static double mask_at(const reference_t *r, int64_t b, int64_t h, int64_t i, int64_t j) {
    if (!r->mask) return 0;
    return r->mask[b * r->mask_stride[0] + h * r->mask_stride[1] + i * r->mask_stride[2] +
                   j * r->mask_stride[3]];
}

static void check_row(const attention_case_t *c, const kern_attention_t *call, const reference_t *r,
                      int64_t b, int64_t h, int64_t i, const double *out, const double *lse) {
    int64_t kv = h / (c->h / c->kv), row = (b * c->h + h) * c->s + i;
    double maximum = -INFINITY, sum = 0;
    for (int64_t j = 0; j < c->skv; j++) {
        double dot = 0;
        for (int64_t d = 0; d < c->d; d++)
            dot += r->q[row * c->d + d] * r->k[((b * c->kv + kv) * c->skv + j) * c->d + d];
        r->score[j] = call->scale * dot + mask_at(r, b, h, i, j);
        if (call->is_causal && j > i) r->score[j] = -INFINITY;
        maximum = fmax(maximum, r->score[j]);
    }
    for (int64_t j = 0; j < c->skv; j++) {
        r->score[j] = isinf(maximum) ? 0 : exp(r->score[j] - maximum);
        sum += r->score[j];
    }
    for (int64_t d = 0; d < c->d; d++) {
        double want = 0;
        for (int64_t j = 0; j < c->skv; j++)
            want += r->score[j] * r->v[((b * c->kv + kv) * c->skv + j) * c->d + d];
        want = sum > 0 ? want / sum : 0;
        cr_assert(fabs(out[row * c->d + d] - want) < tolerance,
                  "[%lld %lld %lld %lld] causal %d: b %lld h %lld query %lld: %g, not %g",
                  (long long)c->b, (long long)c->h, (long long)c->s, (long long)c->skv,
                  call->is_causal, (long long)b, (long long)h, (long long)i, out[row * c->d + d],
                  want);
    }
    if (lse && sum > 0) {
        double want = maximum + log(sum);
        cr_assert(fabs(lse[row] - want) < 2e-5 * (1 + fabs(want)), "logsumexp: %g, not %g",
                  lse[row], want);
    }
}

static void check(kern_context_t *context, const attention_case_t *c, uint32_t variant) {
    static const uint32_t token_major[4] = {0, 2, 1, 3};
    const uint32_t *order = variant & TOKEN_MAJOR ? token_major : NULL;
    int64_t qs[4] = {c->b, c->h, c->s, c->d}, ks[4] = {c->b, c->kv, c->skv, c->d};
    int64_t ms[4] = {c->b, variant & MASK_HEADS ? c->h : 1,
                     variant & (MASK_FULL | MASK_HEADS) ? c->s : 1, c->skv};
    kern_attention_t call = {.scale = 0.3, .is_causal = variant & CAUSAL};
    call.q = test_permuted(operand_type, 4, qs, order),
    call.k = test_permuted(operand_type, 4, ks, order);
    call.v = test_permuted(operand_type, 4, ks, order),
    call.out = test_permuted(operand_type, 4, qs, order);
    kern_tensor_t mask = test_tensor(VNPU_F32, 4, ms), lse = test_tensor(VNPU_F32, 3, qs);
    for (int64_t i = 0; i < test_numel(&mask); i++) { /* some keys out; some rows without any */
        if (test_random() % 4 == 0 || i / c->skv % 11 == 5) test_set(&mask, i, -INFINITY);
    }
    if (variant & (MASK_KEYS | MASK_FULL | MASK_HEADS)) call.mask = mask;
    if (variant & LSE) call.logsumexp = lse;
    test_ok(context, kern_attention(context, 0, &call), "attention");
    reference_t r = {.q = dump(&call.q),
                     .k = dump(&call.k),
                     .v = dump(&call.v),
                     .mask = call.mask.address ? dump(&mask) : NULL,
                     .score = malloc((size_t)(c->skv + 1) * sizeof(double))};
    for (int d = 0; d < 4; d++)
        r.mask_stride[d] = ms[d] == 1 ? 0 : mask.stride[d];
    double *out = dump(&call.out), *sums = variant & LSE ? dump(&lse) : NULL;
    int64_t rows = c->b * c->h * c->s, step = rows > 600 ? 7 : 1;
    for (int64_t row = 0; row < rows; row += step)
        check_row(c, &call, &r, row / (c->h * c->s), row / c->s % c->h, row % c->s, out, sums);
    free((void *)r.q), free((void *)r.k), free((void *)r.v), free((void *)r.mask), free(r.score),
        free(out), free(sums);
    test_release(&call.q), test_release(&call.k), test_release(&call.v), test_release(&call.out);
    test_release(&mask), test_release(&lse);
}

static void check_all(kern_context_t *context, const attention_case_t *c, uint32_t stride) {
    for (uint32_t variant = 0; variant < 64; variant += stride)
        check(context, c, variant);
}

Test(attention, one_block, .timeout = 200) {
    static const attention_case_t cases[] = {
        {2, 12, 12, 128, 128, 32}, {1, 4, 4, 1, 1, 8},    {3, 5, 5, 17, 33, 24},
        {5, 3, 1, 31, 64, 40},     {1, 8, 2, 65, 70, 64}, {9, 2, 2, 16, 16, 16},
        {1, 1, 1, 127, 129, 32},
    };
    for (uint32_t m = 0; m < 2; m++) {
        kern_context_t *context = test_open(m);
        for (uint32_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
            check_all(context, &cases[c], c == 0 ? 13 : 5);
        test_close(context);
    }
}

Test(attention, blocks_on_default, .timeout = 200) {
    static const attention_case_t cases[] = {
        {1, 2, 2, 300, 1500, 64}, {2, 2, 1, 700, 701, 32}, {1, 1, 1, 40, 9001, 16}};
    for (uint32_t m = 0; m < 2; m++) {
        kern_context_t *context = test_open(m);
        for (uint32_t c = 0; c < 3; c++)
            check_all(context, &cases[c], 19);
        test_close(context);
    }
}

Test(attention, tiny, .timeout = 200) {
    static const attention_case_t cases[] = {
        {2, 3, 3, 20, 24, 8},  {1, 4, 2, 33, 65, 16}, {1, 2, 2, 70, 300, 8},
        {3, 2, 1, 9, 101, 12}, {2, 1, 1, 1, 77, 8},   {1, 2, 2, 64, 64, 32},
    };
    for (uint32_t m = 2; m < test_num_machines; m++) {
        kern_context_t *context = test_open(m);
        for (uint32_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
            check_all(context, &cases[c], 3);
        test_close(context);
    }
}

Test(attention, empty_and_refusals) {
    kern_context_t *context = test_open(0);
    check(context, &(attention_case_t){1, 2, 2, 3, 0, 4}, 0);
    check(context, &(attention_case_t){0, 2, 2, 3, 5, 4}, 0);
    check(context, &(attention_case_t){1, 2, 2, 0, 5, 4}, 0);
    kern_attention_t call = {.scale = 1};
    call.q = call.out = test_tensor(VNPU_F32, 4, (int64_t[]){1, 3, 4, 8});
    call.k = call.v = test_tensor(VNPU_F32, 4, (int64_t[]){1, 2, 4, 8});
    cr_assert_eq(kern_attention(context, 0, &call), VNPU_ERROR_INVALID_VALUE); /* 3 heads over 2 */
    cr_assert(strstr(kern_error_detail(context), "f32 [1, 3, 4, 8]"));
    call.k.size[1] = call.v.size[1] = 1;
    call.k.dtype = VNPU_I32;
    cr_assert_eq(kern_attention(context, 0, &call), VNPU_ERROR_UNSUPPORTED);
    test_release(&call.q), test_release(&call.k);
    test_close(context);
}

/* Weights are rounded to bf16 between the products; the sums are not. */
Test(attention, bf16, .timeout = 200) {
    static const attention_case_t cases[] = {{2, 4, 4, 65, 70, 32}, {1, 2, 1, 40, 2000, 16}};
    operand_type = VNPU_BF16;
    tolerance = 0.06;
    for (uint32_t m = 0; m < test_num_machines; m += 2) {
        kern_context_t *context = test_open(m);
        for (uint32_t c = 0; c < 2; c++) {
            check(context, &cases[c], 0);
            check(context, &cases[c], TOKEN_MAJOR | CAUSAL);
            check(context, &cases[c], MASK_FULL);
        }
        test_close(context);
    }
}
