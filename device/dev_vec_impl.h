/*
 * The body of every level of vector kernels. The including file defines the vector type V of W
 * lanes, the mask type M and the primitives v_*, m_*; then one `DEV_VEC_LEVEL(name, isa)` makes the
 * table. Each expression below is one fixed sequence of IEEE operations per lane; fused operations
 * are written as v_fma, nothing else is contracted (-ffp-contract=off).
 */
#ifndef DEV_VEC_IMPL_H
#define DEV_VEC_IMPL_H

#include "device/dev_dtype.h"
#include "device/dev_vec.h"

#define INLINE static inline __attribute__((always_inline))

/* ---- unary functions
 * ----------------------------------------------------------------------------------------------------
 */

INLINE V f_copy(V x) {
    return x;
}
INLINE V f_neg(V x) {
    return v_xor(x, v_set(-0.0f));
}
INLINE V f_abs(V x) {
    return v_andnot(v_set(-0.0f), x);
}
INLINE V f_square(V x) {
    return v_mul(x, x);
}
INLINE V f_sign(V x) {
    V zero = v_set(0.0f), one = v_set(1.0f);
    return v_blend(v_lt(zero, x), one, v_blend(v_lt(x, zero), v_set(-1.0f), zero));
}
INLINE V f_relu(V x) {
    return v_blend(v_le(x, v_set(0.0f)), v_set(0.0f), x);
} /* NaN stays */
INLINE V f_floor(V x) {
    return v_floor(x);
}
INLINE V f_ceil(V x) {
    return v_ceil(x);
}
INLINE V f_trunc(V x) {
    return v_trunc(x);
}
INLINE V f_round(V x) {
    return v_rint(x);
}
INLINE V f_recip(V x) {
    return v_div(v_set(1.0f), x);
}
INLINE V f_sqrt(V x) {
    return v_sqrt(x);
}
INLINE V f_rsqrt(V x) {
    return v_div(v_set(1.0f), v_sqrt(x));
}

/*
 * exp, at most 0.92 ULP (all floats, against double): 2^n times a polynomial on |r| <= ln(2) / 2, a
 * weighted minimax fit. 2^n is applied with one rounding, so subnormal results are right. Below
 * -104 the result is 0 without ever being computed: masked attention asks for it by the million,
 * and a result that underflows costs the host a microcode assist.
 */
INLINE V f_exp(V x) {
    M is_zero = v_lt(x, v_set(-104.0f));
    V c = v_blend(is_zero, v_set(0.0f), v_smaller(v_set(90.0f), x)); /* NaN stays */
    V n = v_rint(v_mul(c, v_set(0x1.715476p+0f)));
    V r = v_fma(n, v_set(-0x1.62e400p-1f), c); /* ln(2) in two parts */
    r = v_fma(n, v_set(-0x1.7f7d1cp-20f), r);
    V p = v_fma(v_set(0x1.6db410p-10f), r, v_set(0x1.123b46p-7f));
    p = v_fma(p, r, v_set(0x1.55545ep-5f));
    p = v_fma(p, r, v_set(0x1.55548ep-3f));
    p = v_fma(p, r, v_set(0.5f));
    p = v_fma(p, r, v_set(1.0f));
    p = v_fma(p, r, v_set(1.0f));
    return v_blend(is_zero, v_set(0.0f), v_scale(p, n));
}
INLINE V f_expm1(V x) {
    return v_sleef_expm1(x);
}
INLINE V f_log(V x) {
    return v_sleef_log(x);
}
INLINE V f_log1p(V x) {
    return v_sleef_log1p(x);
}
INLINE V f_sin(V x) {
    return v_sleef_sin(x);
}
INLINE V f_cos(V x) {
    return v_sleef_cos(x);
}
INLINE V f_tanh(V x) {
    return v_sleef_tanh(x);
}
INLINE V f_sigmoid(V x) {
    V one = v_set(1.0f);
    return v_div(one, v_add(one, f_exp(f_neg(x))));
}
INLINE V f_silu(V x) {
    return v_div(x, v_add(v_set(1.0f), f_exp(f_neg(x))));
}

/* exp(-q) for 0 <= q <= 20: 2^n times a polynomial on |r| <= ln(2) / 2; relative error below 2e-7.
 */
INLINE V exp_negative(V q) {
    V n = v_rint(v_mul(q, v_set(-0x1.715476p+0f)));
    V r = v_fma(n, v_set(-0x1.62e400p-1f), f_neg(q)); /* ln(2) in two parts */
    r = v_fma(n, v_set(-0x1.7f7d1cp-20f), r);
    V p = v_fma(v_set(0x1.6db410p-10f), r, v_set(0x1.123b46p-7f));
    p = v_fma(p, r, v_set(0x1.55545ep-5f));
    p = v_fma(p, r, v_set(0x1.55548ep-3f));
    p = v_fma(p, r, v_set(0.5f));
    p = v_add(v_fma(p, v_mul(r, r), r), v_set(1.0f));
    return v_add_exponent(p, n);
}

/*
 * erf, at most 1.02 ULP (all floats, against double). Below 15/16: x + x * S(x^2). Above: 1 -
 * exp(-(t + t * L(t))), t clamped to 4, where erf rounds to 1. S and L are minimax fits of erf(x) /
 * x - 1 and -log(erfc(t)) / t - 1.
 */
INLINE V f_erf(V x) {
    V t = f_abs(x), s = v_mul(x, x);
    V a = v_fma(v_set(0x1.54a844p-14f), s, v_set(-0x1.a7c0e2p-11f));
    a = v_fma(a, s, v_set(0x1.547fb4p-8f));
    a = v_fma(a, s, v_set(-0x1.b80720p-6f));
    a = v_fma(a, s, v_set(0x1.ce2db2p-4f));
    a = v_fma(a, s, v_set(-0x1.812742p-2f));
    a = v_fma(a, s, v_set(0x1.06eba8p-3f));
    a = v_fma(a, x, x);
    V u = v_smaller(v_set(4.0f), t);
    V b = v_fma(v_set(0x1.9aa0aep-17f), u, v_set(-0x1.5d0a62p-12f));
    b = v_fma(b, u, v_set(0x1.e2c946p-9f));
    b = v_fma(b, u, v_set(-0x1.86bbf8p-6f));
    b = v_fma(b, u, v_set(0x1.b38ea0p-4f));
    b = v_fma(b, u, v_set(0x1.452a9cp-1f));
    b = v_fma(b, u, v_set(0x1.0780aep-3f));
    b = v_sub(v_set(1.0f), exp_negative(v_fma(b, u, u)));
    b = v_or(b, v_and(x, v_set(-0.0f)));
    return v_blend(v_lt(t, v_set(0.9375f)), a, b);
}
INLINE V f_gelu_erf(V x) {
    V half = v_mul(x, v_set(0.5f));
    return v_mul(half, v_add(v_set(1.0f), f_erf(v_mul(x, v_set(0x1.6a09e6p-1f)))));
}
/* x * sigmoid(2 u), u = sqrt(2 / pi) * (x + 0.044715 x^3): the same function as with tanh, one
 * exponential. */
INLINE V f_gelu_tanh(V x) {
    V cubic = v_mul(v_mul(x, x), x);
    V u = v_mul(v_set(-0x1.988454p+0f), v_fma(v_set(0.044715f), cubic, x)); /* -2 sqrt(2 / pi) */
    return v_div(x, v_add(v_set(1.0f), f_exp(u)));
}
INLINE V f_softplus(V x) {
    return v_blend(v_lt(v_set(20.0f), x), x, v_sleef_log1p(f_exp(x)));
}
INLINE V from_mask(M m) {
    return v_blend(m, v_set(1.0f), v_set(0.0f));
}
INLINE V f_not(V x) {
    return from_mask(v_eq(x, v_set(0.0f)));
}
INLINE V f_ne0(V x) {
    return from_mask(m_not(v_eq(x, v_set(0.0f))));
}
INLINE V f_isnan(V x) {
    return from_mask(m_not(v_eq(x, x)));
}
INLINE V f_isinf(V x) {
    return from_mask(v_eq(f_abs(x), v_set(__builtin_inff())));
}
INLINE V f_isneginf(V x) {
    return from_mask(v_eq(x, v_set(-__builtin_inff())));
}
INLINE V f_isposinf(V x) {
    return from_mask(v_eq(x, v_set(__builtin_inff())));
}

INLINE void unary_loop(V (*f)(V), const dev_vec_plane_t *plane, const dev_vec_src_t *a,
                       bool is_scaled, const float *scale) {
    V multiplier = v_set(is_scaled ? scale[0] : 1.0f), addend = v_set(is_scaled ? scale[1] : 0.0f);
    size_t cols = plane->cols, whole = cols - cols % W;
    for (size_t r = 0; r < plane->rows; r++) {
        const float *x = a->ptr + (int64_t)r * a->row_stride;
        float *y = plane->dst + (int64_t)r * plane->dst_stride;
        for (size_t c = 0; c < whole; c += W) {
            V v = v_load(x + c);
            if (is_scaled) v = v_add(v_mul(v, multiplier), addend);
            v_store(y + c, f(v));
        }
        if (whole == cols) continue;
        V v = v_load_n(x + whole, cols - whole);
        if (is_scaled) v = v_add(v_mul(v, multiplier), addend);
        v_store_n(y + whole, f(v), cols - whole);
    }
}

#define UNARY(name)                                                                                \
    static void unary_##name(const dev_vec_plane_t *plane, const dev_vec_src_t *a,                 \
                             const float *scale) {                                                 \
        if (scale) {                                                                               \
            unary_loop(f_##name, plane, a, true, scale);                                           \
        } else {                                                                                   \
            unary_loop(f_##name, plane, a, false, NULL);                                           \
        }                                                                                          \
    }

/* clang-format off */
UNARY(copy)
UNARY(neg) UNARY(abs) UNARY(square) UNARY(sign) UNARY(relu) UNARY(floor) UNARY(ceil) UNARY(trunc)
UNARY(round) UNARY(recip) UNARY(sqrt) UNARY(rsqrt) UNARY(exp) UNARY(expm1) UNARY(log)
UNARY(log1p) UNARY(sin) UNARY(cos) UNARY(tanh) UNARY(sigmoid) UNARY(erf) UNARY(silu)
    /* clang-format on */
    UNARY(gelu_erf) UNARY(gelu_tanh) UNARY(softplus) UNARY(not ) UNARY(ne0) UNARY(isnan)
    /* clang-format off */
UNARY(isinf) UNARY(isneginf) UNARY(isposinf)
    /* clang-format on */

    /* ---- binary functions
       ---------------------------------------------------------------------------------------------------
     */

    INLINE V f_add(V a, V b) {
    return v_add(a, b);
}
INLINE V f_sub(V a, V b) {
    return v_sub(a, b);
}
INLINE V f_mul(V a, V b) {
    return v_mul(a, b);
}
INLINE V f_div(V a, V b) {
    return v_div(a, b);
}
INLINE V f_max(V a, V b) {
    return v_blend(v_unordered(a, b), v_add(a, b), v_larger(a, b));
}
INLINE V f_min(V a, V b) {
    return v_blend(v_unordered(a, b), v_add(a, b), v_smaller(a, b));
}
INLINE V f_pow(V a, V b) {
    return v_sleef_pow(a, b);
}
INLINE V f_atan2(V a, V b) {
    return v_sleef_atan2(a, b);
}
INLINE V f_fmod(V a, V b) {
    return v_each(dev_vec_fmod, a, b);
}
INLINE V f_remainder(V a, V b) {
    return v_each(dev_vec_remainder, a, b);
}
INLINE V f_floordiv(V a, V b) {
    return v_each(dev_vec_floordiv, a, b);
}
INLINE V f_eq(V a, V b) {
    return from_mask(v_eq(a, b));
}
INLINE V f_ne(V a, V b) {
    return from_mask(m_not(v_eq(a, b)));
}
INLINE V f_lt(V a, V b) {
    return from_mask(v_lt(a, b));
}
INLINE V f_le(V a, V b) {
    return from_mask(v_le(a, b));
}
INLINE V f_gt(V a, V b) {
    return from_mask(v_lt(b, a));
}
INLINE V f_ge(V a, V b) {
    return from_mask(v_le(b, a));
}
INLINE M is_true(V a) {
    return m_not(v_eq(a, v_set(0.0f)));
}
INLINE V f_land(V a, V b) {
    return from_mask(m_and(is_true(a), is_true(b)));
}
INLINE V f_lor(V a, V b) {
    return from_mask(m_or(is_true(a), is_true(b)));
}
INLINE V f_lxor(V a, V b) {
    return from_mask(m_xor(is_true(a), is_true(b)));
}

INLINE void binary_loop(V (*f)(V, V), const dev_vec_plane_t *plane, const dev_vec_src_t *a,
                        const dev_vec_src_t *b, bool a_scalar, bool b_scalar) {
    size_t cols = plane->cols, whole = cols - cols % W;
    for (size_t r = 0; r < plane->rows; r++) {
        const float *x = a->ptr + (int64_t)r * a->row_stride;
        const float *y = b->ptr + (int64_t)r * b->row_stride;
        float *z = plane->dst + (int64_t)r * plane->dst_stride;
        V x0 = v_set(*x), y0 = v_set(*y);
        for (size_t c = 0; c < whole; c += W) {
            v_store(z + c, f(a_scalar ? x0 : v_load(x + c), b_scalar ? y0 : v_load(y + c)));
        }
        size_t rest = cols - whole;
        if (rest == 0) continue;
        V v =
            f(a_scalar ? x0 : v_load_n(x + whole, rest), b_scalar ? y0 : v_load_n(y + whole, rest));
        v_store_n(z + whole, v, rest);
    }
}

#define BINARY(name)                                                                               \
    static void binary_##name(const dev_vec_plane_t *plane, const dev_vec_src_t *a,                \
                              const dev_vec_src_t *b) {                                            \
        if (b->is_scalar) {                                                                        \
            if (a->is_scalar) {                                                                    \
                binary_loop(f_##name, plane, a, b, true, true);                                    \
            } else {                                                                               \
                binary_loop(f_##name, plane, a, b, false, true);                                   \
            }                                                                                      \
        } else if (a->is_scalar) {                                                                 \
            binary_loop(f_##name, plane, a, b, true, false);                                       \
        } else {                                                                                   \
            binary_loop(f_##name, plane, a, b, false, false);                                      \
        }                                                                                          \
    }

/* clang-format off */
BINARY(add)
BINARY(sub) BINARY(mul) BINARY(div) BINARY(max) BINARY(min) BINARY(pow) BINARY(fmod)
BINARY(remainder) BINARY(floordiv) BINARY(atan2) BINARY(eq) BINARY(ne) BINARY(lt) BINARY(le)
BINARY(gt) BINARY(ge) BINARY(land) BINARY(lor) BINARY(lxor)
    /* clang-format on */

    static void select_plane(const dev_vec_plane_t *plane, const dev_vec_src_t *condition,
                             const dev_vec_src_t *a, const dev_vec_src_t *b) {
    for (size_t r = 0; r < plane->rows; r++) {
        const float *q = condition->ptr + (int64_t)r * condition->row_stride;
        const float *x = a->ptr + (int64_t)r * a->row_stride;
        const float *y = b->ptr + (int64_t)r * b->row_stride;
        float *z = plane->dst + (int64_t)r * plane->dst_stride;
        for (size_t c = 0; c < plane->cols; c += W) {
            size_t n = plane->cols - c < W ? plane->cols - c : W;
            V test = condition->is_scalar ? v_set(*q) : v_load_n(q + c, n);
            V left = a->is_scalar ? v_set(*x) : v_load_n(x + c, n);
            V right = b->is_scalar ? v_set(*y) : v_load_n(y + c, n);
            v_store_n(z + c, v_blend(is_true(test), left, right), n);
        }
    }
}

/* ---- reductions
 * ---------------------------------------------------------------------------------------------------------
 */

#define GROUPS (VNPU_PARTIALS / W)

/* `R` rows at once, so that their chains of additions overlap. */
INLINE void reduce_rows(V (*f)(V, V), V (*map)(V), float *partial, const float *x,
                        int64_t row_stride, size_t R, size_t cols) {
    V acc[4][GROUPS];
    for (size_t r = 0; r < R; r++) {
        for (size_t g = 0; g < GROUPS; g++)
            acc[r][g] = v_load(partial + r * VNPU_PARTIALS + g * W);
    }
    size_t whole = cols - cols % VNPU_PARTIALS;
    for (size_t c = 0; c < whole; c += VNPU_PARTIALS) {
        for (size_t r = 0; r < R; r++) {
            for (size_t g = 0; g < GROUPS; g++) {
                V v = v_load(x + (int64_t)r * row_stride + c + g * W);
                acc[r][g] = f(acc[r][g], map(v));
            }
        }
    }
    for (size_t g = 0; g < GROUPS && whole + g * W < cols; g++) {
        size_t at = whole + g * W, n = cols - at < W ? cols - at : W;
        for (size_t r = 0; r < R; r++) {
            V v = map(v_load_n(x + (int64_t)r * row_stride + at, n));
            acc[r][g] = v_blend(v_first(n), f(acc[r][g], v), acc[r][g]);
        }
    }
    for (size_t r = 0; r < R; r++) {
        for (size_t g = 0; g < GROUPS; g++)
            v_store(partial + r * VNPU_PARTIALS + g * W, acc[r][g]);
    }
}

INLINE void reduce_plane(V (*f)(V, V), V (*map)(V), float *partial, const dev_vec_src_t *a,
                         size_t rows, size_t cols) {
    size_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        reduce_rows(f, map, partial + r * VNPU_PARTIALS, a->ptr + (int64_t)r * a->row_stride,
                    a->row_stride, 4, cols);
    }
    for (; r < rows; r++) {
        reduce_rows(f, map, partial + r * VNPU_PARTIALS, a->ptr + (int64_t)r * a->row_stride,
                    a->row_stride, 1, cols);
    }
}

#define REDUCE(func, map)                                                                          \
    static void reduce_##func##_##map(float *partial, const dev_vec_src_t *a, size_t rows,         \
                                      size_t cols) {                                               \
        reduce_plane(f_##func, f_##map, partial, a, rows, cols);                                   \
    }
#define REDUCE_MAPS(func)                                                                          \
    REDUCE(func, copy) REDUCE(func, square) REDUCE(func, abs) REDUCE(func, ne0)
/* clang-format off */
REDUCE_MAPS(add)
REDUCE_MAPS(max) REDUCE_MAPS(min) REDUCE_MAPS(mul)
/* clang-format on */

/* ---- conversions
 * --------------------------------------------------------------------------------------------------------
 */

#define CONVERT(name, from, to, expression)                                                        \
    static void name(void *dst, const void *src, size_t n) {                                       \
        const from *restrict x = src;                                                              \
        to *restrict y = dst;                                                                      \
        for (size_t i = 0; i < n; i++)                                                             \
            y[i] = (expression);                                                                   \
    }

    CONVERT(f32_f32, float, float, x[i]) CONVERT(bf16_f32, uint16_t, float, dev_bf16_to_f32(x[i]))
        CONVERT(f8e4m3_f32, uint8_t, float, dev_f8e4m3_to_f32(x[i])) CONVERT(
            f8e5m2_f32, uint8_t, float,
            dev_f8e5m2_to_f32(x[i])) CONVERT(i8_f32, int8_t, float,
                                             (float)x[i]) CONVERT(u8_f32, uint8_t, float,
                                                                  (float)x[i])
            CONVERT(i16_f32, int16_t, float,
                    (float)x[i]) CONVERT(i32_f32, int32_t, float,
                                         (float)x[i]) CONVERT(i64_f32, int64_t, float, (float)x[i])
                CONVERT(bool_f32, uint8_t, float, (x[i] != 0 ? 1.0f : 0.0f)) CONVERT(
                    f32_bf16, float,
                    uint16_t, dev_f32_to_bf16(x[i])) CONVERT(f32_f8e4m3, float,
                                                             uint8_t, dev_f32_to_f8e4m3(x[i]))
                    CONVERT(f32_f8e5m2, float, uint8_t, dev_f32_to_f8e5m2(x[i])) CONVERT(
                        f32_i8,
                        float, int8_t, (int8_t)dev_f32_to_small(x[i], -128.0f, 127.0f))
                        CONVERT(f32_u8, float, uint8_t,
                                (uint8_t)dev_f32_to_small(x[i], 0.0f, 255.0f))
                            CONVERT(f32_i16, float, int16_t,
                                    (int16_t)dev_f32_to_small(
                                        x[i], -32768.0f,
                                        32767.0f)) CONVERT(f32_i32, float, int32_t,
                                                           dev_f32_to_i32(x[i]))
                                CONVERT(f32_i64, float, int64_t, dev_f32_to_i64(x[i])) CONVERT(
                                    f32_bool, float, uint8_t, (uint8_t)(x[i] != 0.0f))

                                    CONVERT(i8_i64, int8_t, int64_t, x[i]) CONVERT(
                                        u8_i64,
                                        uint8_t, int64_t,
                                        x[i]) CONVERT(i16_i64, int16_t, int64_t,
                                                      x[i]) CONVERT(i32_i64, int32_t, int64_t, x[i])
                                        CONVERT(i64_i64, int64_t, int64_t, x[i]) CONVERT(
                                            bool_i64, uint8_t, int64_t,
                                            x[i] !=
                                                0) CONVERT(bf16_i64, uint16_t, int64_t,
                                                           dev_f32_to_i64(dev_bf16_to_f32(x[i])))
                                            CONVERT(f16_i64, uint16_t, int64_t,
                                                    dev_f32_to_i64(dev_f16_to_f32(x[i])))
                                                CONVERT(f8e4m3_i64, uint8_t, int64_t,
                                                        dev_f32_to_i64(dev_f8e4m3_to_f32(x[i])))
                                                    CONVERT(f8e5m2_i64, uint8_t, int64_t,
                                                            dev_f32_to_i64(dev_f8e5m2_to_f32(x[i])))
                                                        CONVERT(i64_i8, uint64_t, uint8_t,
                                                                (uint8_t)x[i]) /* also u8: the bits
                                                                                  are the same */
    CONVERT(i64_i16, uint64_t, uint16_t, (uint16_t)x[i])
        CONVERT(i64_i32, uint64_t, uint32_t, (uint32_t)x[i])
            CONVERT(i64_bool, int64_t, uint8_t, (uint8_t)(x[i] != 0))
                CONVERT(i64_bf16, int64_t, uint16_t, dev_f32_to_bf16((float)x[i]))
                    CONVERT(i64_f16, int64_t, uint16_t, dev_f32_to_f16((float)x[i]))
                        CONVERT(i64_f8e4m3, int64_t, uint8_t, dev_f32_to_f8e4m3((float)x[i]))
                            CONVERT(i64_f8e5m2, int64_t, uint8_t, dev_f32_to_f8e5m2((float)x[i]))

    /* ---- matrix product with few rows or columns
       ---------------------------------------------------------------------------- */

    /* R rows by G vectors of columns (the last one of `last` lanes), all of k. */
    INLINE void mm_block(float *c, int64_t ldc, const float *a, int64_t lda, const float *b,
                         int64_t ldb, size_t R, size_t G, size_t last, size_t k, bool accumulate) {
    V acc[4][4];
    for (size_t r = 0; r < R; r++) {
        for (size_t g = 0; g < G; g++) {
            const float *from = c + (int64_t)r * ldc + g * W;
            acc[r][g] = accumulate ? v_load_n(from, g + 1 < G ? W : last) : v_set(0.0f);
        }
    }
    for (size_t i = 0; i < k; i++) {
        V y[4];
        const float *row = b + (int64_t)i * ldb;
        for (size_t g = 0; g < G; g++) {
            y[g] = g + 1 < G || last == W ? v_load(row + g * W) : v_load_n(row + g * W, last);
        }
        for (size_t r = 0; r < R; r++) {
            V x = v_set(a[(int64_t)r * lda + (int64_t)i]);
            for (size_t g = 0; g < G; g++)
                acc[r][g] = v_fma(x, y[g], acc[r][g]);
        }
    }
    for (size_t r = 0; r < R; r++) {
        for (size_t g = 0; g < G; g++) {
            v_store_n(c + (int64_t)r * ldc + g * W, acc[r][g], g + 1 < G ? W : last);
        }
    }
}

INLINE void mm_rows(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb,
                    size_t R, size_t n, size_t k, bool accumulate) {
    size_t j = 0;
    for (; j + 4 * W <= n; j += 4 * W) {
        mm_block(c + j, ldc, a, lda, b + j, ldb, R, 4, W, k, accumulate);
    }
    for (; j < n; j += W) {
        size_t last = n - j < W ? n - j : W;
        mm_block(c + j, ldc, a, lda, b + j, ldb, R, 1, last, k, accumulate);
    }
}

static void mm_small(float *c, int64_t ldc, const float *a, int64_t lda, const float *b,
                     int64_t ldb, size_t m, size_t n, size_t k, bool accumulate) {
    size_t i = 0;
    for (; i + 4 <= m; i += 4) {
        mm_rows(c + (int64_t)i * ldc, ldc, a + (int64_t)i * lda, lda, b, ldb, 4, n, k, accumulate);
    }
    for (; i < m; i++) {
        mm_rows(c + (int64_t)i * ldc, ldc, a + (int64_t)i * lda, lda, b, ldb, 1, n, k, accumulate);
    }
}

#define DEV_VEC_UNARY(code, name)  [VNPU_U_##code] = unary_##name
#define DEV_VEC_BINARY(code, name) [VNPU_B_##code] = binary_##name
#define DEV_VEC_REDUCE(code, func)                                                                 \
    [VNPU_R_##code] = {reduce_##func##_copy, reduce_##func##_square, reduce_##func##_abs,          \
                       reduce_##func##_ne0}

#define DEV_VEC_LEVEL(level, isa)                                                                  \
    const dev_vec_level_t dev_vec_##level = {                                                      \
        .name = #level,                                                                            \
        .isa_level = isa,                                                                          \
        .unary = {DEV_VEC_UNARY(COPY, copy),                                                       \
                  DEV_VEC_UNARY(NEG, neg),                                                         \
                  DEV_VEC_UNARY(ABS, abs),                                                         \
                  DEV_VEC_UNARY(SQUARE, square),                                                   \
                  DEV_VEC_UNARY(SIGN, sign),                                                       \
                  DEV_VEC_UNARY(RELU, relu),                                                       \
                  DEV_VEC_UNARY(FLOOR, floor),                                                     \
                  DEV_VEC_UNARY(CEIL, ceil),                                                       \
                  DEV_VEC_UNARY(TRUNC, trunc),                                                     \
                  DEV_VEC_UNARY(ROUND, round),                                                     \
                  DEV_VEC_UNARY(RECIP, recip),                                                     \
                  DEV_VEC_UNARY(SQRT, sqrt),                                                       \
                  DEV_VEC_UNARY(RSQRT, rsqrt),                                                     \
                  DEV_VEC_UNARY(EXP, exp),                                                         \
                  DEV_VEC_UNARY(EXPM1, expm1),                                                     \
                  DEV_VEC_UNARY(LOG, log),                                                         \
                  DEV_VEC_UNARY(LOG1P, log1p),                                                     \
                  DEV_VEC_UNARY(SIN, sin),                                                         \
                  DEV_VEC_UNARY(COS, cos),                                                         \
                  DEV_VEC_UNARY(TANH, tanh),                                                       \
                  DEV_VEC_UNARY(SIGMOID, sigmoid),                                                 \
                  DEV_VEC_UNARY(ERF, erf),                                                         \
                  DEV_VEC_UNARY(SILU, silu),                                                       \
                  DEV_VEC_UNARY(GELU_ERF, gelu_erf),                                               \
                  DEV_VEC_UNARY(GELU_TANH, gelu_tanh),                                             \
                  DEV_VEC_UNARY(SOFTPLUS, softplus),                                               \
                  DEV_VEC_UNARY(NOT, not ),                                                        \
                  DEV_VEC_UNARY(NE0, ne0),                                                         \
                  DEV_VEC_UNARY(ISNAN, isnan),                                                     \
                  DEV_VEC_UNARY(ISINF, isinf),                                                     \
                  DEV_VEC_UNARY(ISNEGINF, isneginf),                                               \
                  DEV_VEC_UNARY(ISPOSINF, isposinf)},                                              \
        .binary = {DEV_VEC_BINARY(ADD, add),                                                       \
                   DEV_VEC_BINARY(SUB, sub),                                                       \
                   DEV_VEC_BINARY(MUL, mul),                                                       \
                   DEV_VEC_BINARY(DIV, div),                                                       \
                   DEV_VEC_BINARY(MAX, max),                                                       \
                   DEV_VEC_BINARY(MIN, min),                                                       \
                   DEV_VEC_BINARY(POW, pow),                                                       \
                   DEV_VEC_BINARY(FMOD, fmod),                                                     \
                   DEV_VEC_BINARY(REMAINDER, remainder),                                           \
                   DEV_VEC_BINARY(FLOORDIV, floordiv),                                             \
                   DEV_VEC_BINARY(ATAN2, atan2),                                                   \
                   DEV_VEC_BINARY(EQ, eq),                                                         \
                   DEV_VEC_BINARY(NE, ne),                                                         \
                   DEV_VEC_BINARY(LT, lt),                                                         \
                   DEV_VEC_BINARY(LE, le),                                                         \
                   DEV_VEC_BINARY(GT, gt),                                                         \
                   DEV_VEC_BINARY(GE, ge),                                                         \
                   DEV_VEC_BINARY(LAND, land),                                                     \
                   DEV_VEC_BINARY(LOR, lor),                                                       \
                   DEV_VEC_BINARY(LXOR, lxor)},                                                    \
        .reduce = {DEV_VEC_REDUCE(ADD, add), DEV_VEC_REDUCE(MAX, max), DEV_VEC_REDUCE(MIN, min),   \
                   DEV_VEC_REDUCE(MUL, mul)},                                                      \
        .fold = fold_rows,                                                                         \
        .select = select_plane,                                                                    \
        .to_f32 = {[VNPU_F32] = f32_f32,                                                           \
                   [VNPU_BF16] = bf16_f32,                                                         \
                   [VNPU_F16] = f16_f32,                                                           \
                   [VNPU_F8E4M3] = f8e4m3_f32,                                                     \
                   [VNPU_F8E5M2] = f8e5m2_f32,                                                     \
                   [VNPU_I8] = i8_f32,                                                             \
                   [VNPU_U8] = u8_f32,                                                             \
                   [VNPU_I16] = i16_f32,                                                           \
                   [VNPU_I32] = i32_f32,                                                           \
                   [VNPU_I64] = i64_f32,                                                           \
                   [VNPU_BOOL] = bool_f32},                                                        \
        .from_f32 = {[VNPU_F32] = f32_f32,                                                         \
                     [VNPU_BF16] = f32_bf16,                                                       \
                     [VNPU_F16] = f32_f16,                                                         \
                     [VNPU_F8E4M3] = f32_f8e4m3,                                                   \
                     [VNPU_F8E5M2] = f32_f8e5m2,                                                   \
                     [VNPU_I8] = f32_i8,                                                           \
                     [VNPU_U8] = f32_u8,                                                           \
                     [VNPU_I16] = f32_i16,                                                         \
                     [VNPU_I32] = f32_i32,                                                         \
                     [VNPU_I64] = f32_i64,                                                         \
                     [VNPU_BOOL] = f32_bool},                                                      \
        .to_i64 = {[VNPU_F32] = f32_i64,                                                           \
                   [VNPU_BF16] = bf16_i64,                                                         \
                   [VNPU_F16] = f16_i64,                                                           \
                   [VNPU_F8E4M3] = f8e4m3_i64,                                                     \
                   [VNPU_F8E5M2] = f8e5m2_i64,                                                     \
                   [VNPU_I8] = i8_i64,                                                             \
                   [VNPU_U8] = u8_i64,                                                             \
                   [VNPU_I16] = i16_i64,                                                           \
                   [VNPU_I32] = i32_i64,                                                           \
                   [VNPU_I64] = i64_i64,                                                           \
                   [VNPU_BOOL] = bool_i64},                                                        \
        .from_i64 = {[VNPU_F32] = i64_f32,                                                         \
                     [VNPU_BF16] = i64_bf16,                                                       \
                     [VNPU_F16] = i64_f16,                                                         \
                     [VNPU_F8E4M3] = i64_f8e4m3,                                                   \
                     [VNPU_F8E5M2] = i64_f8e5m2,                                                   \
                     [VNPU_I8] = i64_i8,                                                           \
                     [VNPU_U8] = i64_i8,                                                           \
                     [VNPU_I16] = i64_i16,                                                         \
                     [VNPU_I32] = i64_i32,                                                         \
                     [VNPU_I64] = i64_i64,                                                         \
                     [VNPU_BOOL] = i64_bool},                                                      \
        .mm = mm_small,                                                                            \
        .stream = stream_bytes,                                                                    \
        .transpose4 = transpose_words,                                                             \
    }

#endif
