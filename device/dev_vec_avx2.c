#include "device/dev_vec.h"

#include <immintrin.h>
#include <sleef.h>

#include "device/dev_vec_fold.h"
#include "device/dev_vec_move.h"

#define W 8u
typedef __m256 V;
typedef __m256 M;

static inline __m256i lane_mask(size_t n) {
    static const int32_t table[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    return _mm256_loadu_si256((const __m256i *)(const void *)(table + 8 - n));
}
static inline M v_first(size_t n) {
    return _mm256_castsi256_ps(lane_mask(n));
}
static inline V v_load(const float *p) {
    return _mm256_loadu_ps(p);
}
static inline void v_store(float *p, V v) {
    _mm256_storeu_ps(p, v);
}
static inline V v_load_n(const float *p, size_t n) {
    return _mm256_maskload_ps(p, lane_mask(n));
}
static inline void v_store_n(float *p, V v, size_t n) {
    _mm256_maskstore_ps(p, lane_mask(n), v);
}
static inline V v_set(float x) {
    return _mm256_set1_ps(x);
}
static inline V v_add(V a, V b) {
    return _mm256_add_ps(a, b);
}
static inline V v_sub(V a, V b) {
    return _mm256_sub_ps(a, b);
}
static inline V v_mul(V a, V b) {
    return _mm256_mul_ps(a, b);
}
static inline V v_div(V a, V b) {
    return _mm256_div_ps(a, b);
}
static inline V v_fma(V a, V b, V c) {
    return _mm256_fmadd_ps(a, b, c);
}
static inline V v_sqrt(V a) {
    return _mm256_sqrt_ps(a);
}
static inline V v_floor(V a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
static inline V v_ceil(V a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}
static inline V v_trunc(V a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
static inline V v_rint(V a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline V v_and(V a, V b) {
    return _mm256_and_ps(a, b);
}
static inline V v_or(V a, V b) {
    return _mm256_or_ps(a, b);
}
static inline V v_xor(V a, V b) {
    return _mm256_xor_ps(a, b);
}
static inline V v_andnot(V a, V b) {
    return _mm256_andnot_ps(a, b);
}
static inline M v_lt(V a, V b) {
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
static inline M v_le(V a, V b) {
    return _mm256_cmp_ps(a, b, _CMP_LE_OQ);
}
static inline M v_eq(V a, V b) {
    return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}
static inline M v_unordered(V a, V b) {
    return _mm256_cmp_ps(a, b, _CMP_UNORD_Q);
}
static inline V v_larger(V a, V b) {
    return _mm256_max_ps(a, b);
}
static inline V v_smaller(V a, V b) {
    return _mm256_min_ps(a, b);
}
static inline V power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
static inline V v_scale(V p, V n) {
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    V first = _mm256_mul_ps(p, power_of_two(half)); /* exact: the exponent stays normal */
    return _mm256_mul_ps(first, power_of_two(_mm256_sub_epi32(whole, half)));
}
static inline M m_not(M a) {
    return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1)));
}
static inline M m_and(M a, M b) {
    return _mm256_and_ps(a, b);
}
static inline M m_or(M a, M b) {
    return _mm256_or_ps(a, b);
}
static inline M m_xor(M a, M b) {
    return _mm256_xor_ps(a, b);
}
static inline V v_blend(M m, V t, V f) {
    return _mm256_blendv_ps(f, t, m);
}
static inline V v_add_exponent(V p, V n) {
    __m256i shifted = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), shifted));
}
static inline V v_each(float (*f)(float, float), V a, V b) {
    float x[W], y[W];
    v_store(x, a);
    v_store(y, b);
    for (size_t i = 0; i < W; i++)
        x[i] = f(x[i], y[i]);
    return v_load(x);
}
static inline V v_sleef_expm1(V x) {
    return Sleef_finz_expm1f8_u10avx2(x);
}
static inline V v_sleef_log(V x) {
    return Sleef_finz_logf8_u10avx2(x);
}
static inline V v_sleef_log1p(V x) {
    return Sleef_finz_log1pf8_u10avx2(x);
}
static inline V v_sleef_sin(V x) {
    return Sleef_finz_sinf8_u10avx2(x);
}
static inline V v_sleef_cos(V x) {
    return Sleef_finz_cosf8_u10avx2(x);
}
static inline V v_sleef_tanh(V x) {
    return Sleef_finz_tanhf8_u10avx2(x);
}
static inline V v_sleef_pow(V x, V y) {
    return Sleef_finz_powf8_u10avx2(x, y);
}
static inline V v_sleef_atan2(V x, V y) {
    return Sleef_finz_atan2f8_u10avx2(x, y);
}

static void f16_f32(void *dst, const void *src, size_t n) {
    const uint16_t *x = src;
    float *y = dst;
    size_t i = 0;
    for (; i + W <= n; i += W) {
        v_store(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i))));
    }
    for (; i < n; i++)
        y[i] = _cvtsh_ss(x[i]);
}

static void f32_f16(void *dst, const void *src, size_t n) {
    const float *x = src;
    uint16_t *y = dst;
    size_t i = 0;
    for (; i + W <= n; i += W) {
        __m128i h = _mm256_cvtps_ph(v_load(x + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(y + i), h);
    }
    for (; i < n; i++)
        y[i] = _cvtss_sh(x[i], _MM_FROUND_TO_NEAREST_INT);
}

#include "device/dev_vec_impl.h"

DEV_VEC_LEVEL(avx2, 2);
