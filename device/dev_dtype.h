/*
 * Element types, one value at a time: conversions to and from f32 and i64 (docs/numerics.md,
 * "Casts"). float -> float    round to nearest even; f8e4m3 has no infinity: what exceeds 448 after
 * rounding is NaN float -> integer  truncates, saturates, NaN -> 0;  float -> bool: != 0 (NaN is
 * true) integer -> integer wraps; integer -> bool: != 0; integer -> float: through f32, round to
 * nearest even
 */
#ifndef DEV_DTYPE_H
#define DEV_DTYPE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "device/vnpu_isa.h"

static inline uint32_t dev_f32_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float dev_bits_f32(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline bool dev_is_float(vnpu_dtype_t dtype) {
    return (dtype >= VNPU_F32 && dtype <= VNPU_F8E5M2) || dtype == VNPU_BFP8 || dtype == VNPU_BFP4;
}

static inline float dev_bf16_to_f32(uint16_t h) {
    return dev_bits_f32((uint32_t)h << 16);
}

static inline uint16_t dev_f32_to_bf16(float x) {
    uint32_t bits = dev_f32_bits(x);
    uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return (uint16_t)((is_nan ? bits | 0x400000u : rounded) >> 16);
}

static inline float dev_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, mantissa = h & 0x3ffu;
    uint32_t exponent = h & 0x7c00u;
    if (exponent == 0x7c00u) {
        return dev_bits_f32(sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x400000u : 0u));
    }
    if (exponent == 0) return dev_bits_f32(sign | dev_f32_bits((float)mantissa * 0x1p-24f));
    return dev_bits_f32(sign | (((uint32_t)(h & 0x7fffu) << 13) + 0x38000000u));
}

static inline uint16_t dev_f32_to_f16(float x) {
    uint32_t bits = dev_f32_bits(x), sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x1ffu));
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and more round to infinity */
    if (a < 0x38800000u) { /* subnormal: 0.5 has the ulp 2^-24, the addition rounds */
        return (uint16_t)(sign | (dev_f32_bits(dev_bits_f32(a) + 0.5f) - 0x3f000000u));
    }
    a += 0xc8000fffu + (a >> 13 & 1u); /* exponent bias 127 -> 15, round half to even */
    return (uint16_t)(sign | a >> 13);
}

static inline float dev_f8e4m3_to_f32(uint8_t h) {
    uint32_t sign = (uint32_t)(h & 0x80u) << 24, rest = h & 0x7fu;
    if (rest == 0x7fu) return dev_bits_f32(sign | 0x7fc00000u);
    if (rest < 8u) return dev_bits_f32(sign | dev_f32_bits((float)rest * 0x1p-9f));
    return dev_bits_f32(sign | ((rest << 20) + (120u << 23)));
}

static inline uint8_t dev_f32_to_f8e4m3(float x) {
    uint32_t bits = dev_f32_bits(x), sign = bits >> 24 & 0x80u, a = bits & 0x7fffffffu;
    if (a >= 0x43f00000u) return (uint8_t)(sign | 0x7fu); /* 480 and more, infinity, NaN */
    if (a < 0x3c800000u) {                                /* below 2^-6: 2^14 has the ulp 2^-9 */
        return (uint8_t)(sign | (dev_f32_bits(dev_bits_f32(a) + 0x1p14f) - 0x46800000u));
    }
    a += 0u - (120u << 23) + 0x7ffffu + (a >> 20 & 1u);
    return (uint8_t)(sign | a >> 20);
}

static inline float dev_f8e5m2_to_f32(uint8_t h) {
    return dev_f16_to_f32((uint16_t)(h << 8));
}

static inline uint8_t dev_f32_to_f8e5m2(float x) {
    uint32_t bits = dev_f32_bits(x), sign = bits >> 24 & 0x80u, a = bits & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint8_t)(sign | 0x7fu);
    if (a >= 0x47700000u) return (uint8_t)(sign | 0x7cu); /* 61440 and more */
    if (a < 0x38800000u) {                                /* below 2^-14: 2^7 has the ulp 2^-16 */
        return (uint8_t)(sign | (dev_f32_bits(dev_bits_f32(a) + 0x1p7f) - 0x43000000u));
    }
    a += 0u - (112u << 23) + 0xfffffu + (a >> 21 & 1u);
    return (uint8_t)(sign | a >> 21);
}

static inline int64_t dev_f32_to_i64(float x) {
    if (!(x > -0x1p63f)) return x != x ? 0 : INT64_MIN;
    return x >= 0x1p63f ? INT64_MAX : (int64_t)x;
}

static inline int32_t dev_f32_to_i32(float x) {
    if (!(x > -0x1p31f)) return x != x ? 0 : INT32_MIN;
    return x >= 0x1p31f ? INT32_MAX : (int32_t)x;
}

/* Truncation into [low, high], both exact in f32. */
static inline int32_t dev_f32_to_small(float x, float low, float high) {
    float clamped = x > low ? x : low;
    clamped = clamped < high ? clamped : high;
    return x != x ? 0 : (int32_t)clamped;
}

/* One element at any alignment. */
float dev_load_f32(vnpu_dtype_t dtype, const void *element);
int64_t dev_load_i64(vnpu_dtype_t dtype, const void *element);
void dev_store_f32(vnpu_dtype_t dtype, void *element, float value);
void dev_store_i64(vnpu_dtype_t dtype, void *element, int64_t value);

#endif
