/* The fixed tree over 16 partials for the levels that have AVX2: rows one by one, lanes side by
 * side. */
#ifndef DEV_VEC_FOLD_H
#define DEV_VEC_FOLD_H

#include <immintrin.h>
#include <stddef.h>

#include "device/dev_vec.h"

/* a > b ? a : b, with NaN from either. */
static inline __m256 fold_max8(__m256 a, __m256 b) {
    return _mm256_blendv_ps(_mm256_max_ps(a, b), _mm256_add_ps(a, b),
                            _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}
static inline __m128 fold_max4(__m128 a, __m128 b) {
    return _mm_blendv_ps(_mm_max_ps(a, b), _mm_add_ps(a, b), _mm_cmp_ps(a, b, _CMP_UNORD_Q));
}
static inline __m256 fold_min8(__m256 a, __m256 b) {
    return _mm256_blendv_ps(_mm256_min_ps(a, b), _mm256_add_ps(a, b),
                            _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}
static inline __m128 fold_min4(__m128 a, __m128 b) {
    return _mm_blendv_ps(_mm_min_ps(a, b), _mm_add_ps(a, b), _mm_cmp_ps(a, b, _CMP_UNORD_Q));
}

#define FOLD(name, op8, op4)                                                                       \
    static inline float fold_##name(const float *partial) {                                        \
        __m256 eight = op8(_mm256_loadu_ps(partial), _mm256_loadu_ps(partial + 8));                \
        __m128 four = op4(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));         \
        __m128 two = op4(four, _mm_movehl_ps(four, four));                                         \
        return _mm_cvtss_f32(op4(two, _mm_shuffle_ps(two, two, 1)));                               \
    }
FOLD(add, _mm256_add_ps, _mm_add_ps)
FOLD(mul, _mm256_mul_ps, _mm_mul_ps)
FOLD(max, fold_max8, fold_max4)
FOLD(min, fold_min8, fold_min4)

static void fold_rows(vnpu_reduce_t func, float *out, const float *partial, size_t rows) {
    for (size_t r = 0; r < rows; r++) {
        const float *from = partial + r * VNPU_PARTIALS;
        switch (func) {
        case VNPU_R_ADD: out[r] = fold_add(from); break;
        case VNPU_R_MUL: out[r] = fold_mul(from); break;
        case VNPU_R_MAX: out[r] = fold_max(from); break;
        case VNPU_R_MIN: out[r] = fold_min(from); break;
        case VNPU_R_COUNT: break;
        }
    }
}

#endif
