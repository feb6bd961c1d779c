#include "device/dev_vec.h"

#include <immintrin.h>
#include <sleef.h>

#include "device/dev_vec_fold.h"
#include "device/dev_vec_move.h"

#define W 16u
typedef __m512 V;
typedef __mmask16 M;

static inline M v_first(size_t n) {
    return (M)((1u << n) - 1u);
} /* 0 <= n <= 16 */
static inline V v_load(const float *p) {
    return _mm512_loadu_ps(p);
}
static inline void v_store(float *p, V v) {
    _mm512_storeu_ps(p, v);
}
static inline V v_load_n(const float *p, size_t n) {
    return _mm512_maskz_loadu_ps(v_first(n), p);
}
static inline void v_store_n(float *p, V v, size_t n) {
    _mm512_mask_storeu_ps(p, v_first(n), v);
}
static inline V v_set(float x) {
    return _mm512_set1_ps(x);
}
static inline V v_add(V a, V b) {
    return _mm512_add_ps(a, b);
}
static inline V v_sub(V a, V b) {
    return _mm512_sub_ps(a, b);
}
static inline V v_mul(V a, V b) {
    return _mm512_mul_ps(a, b);
}
static inline V v_div(V a, V b) {
    return _mm512_div_ps(a, b);
}
static inline V v_fma(V a, V b, V c) {
    return _mm512_fmadd_ps(a, b, c);
}
static inline V v_sqrt(V a) {
    return _mm512_sqrt_ps(a);
}
static inline V v_floor(V a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
static inline V v_ceil(V a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}
static inline V v_trunc(V a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
static inline V v_rint(V a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline V v_and(V a, V b) {
    return _mm512_and_ps(a, b);
}
static inline V v_or(V a, V b) {
    return _mm512_or_ps(a, b);
}
static inline V v_xor(V a, V b) {
    return _mm512_xor_ps(a, b);
}
static inline V v_andnot(V a, V b) {
    return _mm512_andnot_ps(a, b);
}
static inline M v_lt(V a, V b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
static inline M v_le(V a, V b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ);
}
static inline M v_eq(V a, V b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
static inline M v_unordered(V a, V b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
}
static inline V v_larger(V a, V b) {
    return _mm512_max_ps(a, b);
}
static inline V v_smaller(V a, V b) {
    return _mm512_min_ps(a, b);
}
static inline V v_scale(V p, V n) {
    return _mm512_scalef_ps(p, n);
}
static inline M m_not(M a) {
    return (M)~a;
}
static inline M m_and(M a, M b) {
    return (M)(a & b);
}
static inline M m_or(M a, M b) {
    return (M)(a | b);
}
static inline M m_xor(M a, M b) {
    return (M)(a ^ b);
}
static inline V v_blend(M m, V t, V f) {
    return _mm512_mask_blend_ps(m, f, t);
}
static inline V v_add_exponent(V p, V n) {
    __m512i shifted = _mm512_slli_epi32(_mm512_cvtps_epi32(n), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), shifted));
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
    return Sleef_finz_expm1f16_u10avx512f(x);
}
static inline V v_sleef_log(V x) {
    return Sleef_finz_logf16_u10avx512f(x);
}
static inline V v_sleef_log1p(V x) {
    return Sleef_finz_log1pf16_u10avx512f(x);
}
static inline V v_sleef_sin(V x) {
    return Sleef_finz_sinf16_u10avx512f(x);
}
static inline V v_sleef_cos(V x) {
    return Sleef_finz_cosf16_u10avx512f(x);
}
static inline V v_sleef_tanh(V x) {
    return Sleef_finz_tanhf16_u10avx512f(x);
}
static inline V v_sleef_pow(V x, V y) {
    return Sleef_finz_powf16_u10avx512f(x, y);
}
static inline V v_sleef_atan2(V x, V y) {
    return Sleef_finz_atan2f16_u10avx512f(x, y);
}

static void f16_f32(void *dst, const void *src, size_t n) {
    float *y = dst;
    for (size_t i = 0; i < n; i += W) {
        size_t rest = n - i < W ? n - i : W;
        __m256i h = _mm256_maskz_loadu_epi16(v_first(rest), (const uint16_t *)src + i);
        v_store_n(y + i, _mm512_cvtph_ps(h), rest);
    }
}

static void f32_f16(void *dst, const void *src, size_t n) {
    const float *x = src;
    for (size_t i = 0; i < n; i += W) {
        size_t rest = n - i < W ? n - i : W;
        __m256i h = _mm512_cvtps_ph(v_load_n(x + i, rest), _MM_FROUND_TO_NEAREST_INT);
        _mm256_mask_storeu_epi16((uint16_t *)dst + i, v_first(rest), h);
    }
}

#include "device/dev_vec_impl.h"

DEV_VEC_LEVEL(avx512, 5);
