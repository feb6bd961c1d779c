/* One element at a time: the definition that the vector levels are compared with. */
#include "device/dev_vec.h"

#include <math.h>
#include <sleef.h>
#include <string.h>

#define W 1u
typedef float V;
typedef bool M;

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline M v_first(size_t n) {
    return n != 0;
}
static inline V v_load(const float *p) {
    return *p;
}
static inline void v_store(float *p, V v) {
    *p = v;
}
static inline V v_load_n(const float *p, size_t n) {
    return n ? *p : 0.0f;
}
static inline void v_store_n(float *p, V v, size_t n) {
    if (n) *p = v;
}
static inline V v_set(float x) {
    return x;
}
static inline V v_add(V a, V b) {
    return a + b;
}
static inline V v_sub(V a, V b) {
    return a - b;
}
static inline V v_mul(V a, V b) {
    return a * b;
}
static inline V v_div(V a, V b) {
    return a / b;
}
static inline V v_fma(V a, V b, V c) {
    return fmaf(a, b, c);
}
static inline V v_sqrt(V a) {
    return sqrtf(a);
}
static inline V v_floor(V a) {
    return floorf(a);
}
static inline V v_ceil(V a) {
    return ceilf(a);
}
static inline V v_trunc(V a) {
    return truncf(a);
}
static inline V v_rint(V a) {
    return rintf(a);
}
static inline V v_and(V a, V b) {
    return of_bits(bits_of(a) & bits_of(b));
}
static inline V v_or(V a, V b) {
    return of_bits(bits_of(a) | bits_of(b));
}
static inline V v_xor(V a, V b) {
    return of_bits(bits_of(a) ^ bits_of(b));
}
static inline V v_andnot(V a, V b) {
    return of_bits(~bits_of(a) & bits_of(b));
}
static inline M v_lt(V a, V b) {
    return a < b;
}
static inline M v_le(V a, V b) {
    return a <= b;
}
static inline M v_eq(V a, V b) {
    return a == b;
}
static inline M v_unordered(V a, V b) {
    return a != a || b != b;
}
static inline V v_larger(V a, V b) {
    return a > b ? a : b;
}
static inline V v_smaller(V a, V b) {
    return a < b ? a : b;
}
static inline V v_scale(V p, V n) {
    if (n != n) return p;
    int32_t whole = (int32_t)n, half = whole >> 1;
    return p * of_bits((uint32_t)(half + 127) << 23) *
           of_bits((uint32_t)(whole - half + 127) << 23);
}
static inline M m_not(M a) {
    return !a;
}
static inline M m_and(M a, M b) {
    return a && b;
}
static inline M m_or(M a, M b) {
    return a || b;
}
static inline M m_xor(M a, M b) {
    return a != b;
}
static inline V v_blend(M m, V t, V f) {
    return m ? t : f;
}
static inline V v_add_exponent(V p, V n) {
    if (n != n) return p; /* NaN: stays */
    return of_bits(bits_of(p) + ((uint32_t)(int32_t)n << 23));
}
static inline V v_each(float (*f)(float, float), V a, V b) {
    return f(a, b);
}
static inline V v_sleef_expm1(V x) {
    return Sleef_finz_expm1f1_u10purecfma(x);
}
static inline V v_sleef_log(V x) {
    return Sleef_finz_logf1_u10purecfma(x);
}
static inline V v_sleef_log1p(V x) {
    return Sleef_finz_log1pf1_u10purecfma(x);
}
static inline V v_sleef_sin(V x) {
    return Sleef_finz_sinf1_u10purecfma(x);
}
static inline V v_sleef_cos(V x) {
    return Sleef_finz_cosf1_u10purecfma(x);
}
static inline V v_sleef_tanh(V x) {
    return Sleef_finz_tanhf1_u10purecfma(x);
}
static inline V v_sleef_pow(V x, V y) {
    return Sleef_finz_powf1_u10purecfma(x, y);
}
static inline V v_sleef_atan2(V x, V y) {
    return Sleef_finz_atan2f1_u10purecfma(x, y);
}

#include "device/dev_dtype.h"

static void f16_f32(void *dst, const void *src, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((float *)dst)[i] = dev_f16_to_f32(((const uint16_t *)src)[i]);
}

static void f32_f16(void *dst, const void *src, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((uint16_t *)dst)[i] = dev_f32_to_f16(((const float *)src)[i]);
}

static void fold_rows(vnpu_reduce_t func, float *out, const float *partial, size_t rows) {
    for (size_t r = 0; r < rows; r++)
        out[r] = dev_vec_fold(func, partial + r * VNPU_PARTIALS);
}

static void stream_bytes(void *dst, const void *src, size_t bytes) {
    memcpy(dst, src, bytes);
}

static void transpose_words(uint32_t *dst, int64_t dst_stride, const uint32_t *src,
                            int64_t src_stride, size_t rows, size_t cols) {
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c++) {
            dst[(int64_t)c * dst_stride + (int64_t)r] = src[(int64_t)r * src_stride + (int64_t)c];
        }
    }
}

#include "device/dev_vec_impl.h"

DEV_VEC_LEVEL(exact, 1);
