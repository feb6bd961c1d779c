/*
 * Vector kernels: the arithmetic of the vector engine on f32 planes, compiled once per level of the
 * host's instruction set. Every level computes each element by the same IEEE operations in the same
 * order, so the bits do not depend on the level (tests/device/test_exec_vector.c compares them).
 * NaN results are NaN at every level; their payload is unspecified.
 *
 * A plane is rows x cols elements; columns lie side by side (or are one value per row), rows
 * row_stride elements apart.
 */
#ifndef DEV_VEC_H
#define DEV_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/vnpu_isa.h"

typedef struct dev_vec_src {
    const float *ptr;
    int64_t row_stride;
    bool is_scalar; /* one value for all columns of a row */
} dev_vec_src_t;

typedef struct dev_vec_plane {
    float *dst;
    int64_t dst_stride;
    size_t rows, cols;
} dev_vec_plane_t;

/* scale: NULL, or {multiplier, addend} applied before the function with two roundings. */
typedef void (*dev_vec_unary_fn)(const dev_vec_plane_t *plane, const dev_vec_src_t *a,
                                 const float *scale);
typedef void (*dev_vec_binary_fn)(const dev_vec_plane_t *plane, const dev_vec_src_t *a,
                                  const dev_vec_src_t *b);
/* partial[row * 16 + lane] takes in the elements of the row whose column mod 16 is the lane, in
 * ascending order. */
typedef void (*dev_vec_reduce_fn)(float *partial, const dev_vec_src_t *a, size_t rows, size_t cols);
typedef void (*dev_vec_load_fn)(void *dst, const void *src, size_t n);

typedef enum dev_vec_map {
    DEV_MAP_COPY,
    DEV_MAP_SQUARE,
    DEV_MAP_ABS,
    DEV_MAP_NE0,
    DEV_MAP_COUNT
} dev_vec_map_t;

typedef struct dev_vec_level {
    const char *name;
    int isa_level;                          /* 1 exact, 2 AVX2 + FMA, 5 AVX-512 */
    dev_vec_unary_fn unary[VNPU_U_COUNT];   /* NULL: not a float function */
    dev_vec_binary_fn binary[VNPU_B_COUNT]; /* NULL: not a float function */
    dev_vec_reduce_fn reduce[VNPU_R_COUNT][DEV_MAP_COUNT];
    /* The fixed tree: out[row] from partial[row * 16 + lane]. */
    void (*fold)(vnpu_reduce_t func, float *out, const float *partial, size_t rows);
    void (*select)(const dev_vec_plane_t *plane, const dev_vec_src_t *condition,
                   const dev_vec_src_t *a, const dev_vec_src_t *b);
    /* Contiguous conversions, by dtype: n elements to or from f32 and i64. Source and destination
     * do not overlap. */
    dev_vec_load_fn to_f32[VNPU_DTYPE_COUNT], from_f32[VNPU_DTYPE_COUNT];
    dev_vec_load_fn to_i64[VNPU_DTYPE_COUNT], from_i64[VNPU_DTYPE_COUNT];
    /* c[m][n] (+)= a[m][k] b[k][n], n contiguous: one FMA chain per element, k ascending, from c or
     * from +0. */
    void (*mm)(float *c, int64_t ldc, const float *a, int64_t lda, const float *b, int64_t ldb,
               size_t m, size_t n, size_t k, bool accumulate);
    /* A copy past the caches, for destinations too large to be read back from them. The caller ends
     * with a store fence. */
    void (*stream)(void *dst, const void *src, size_t bytes);
    /* dst[c][r] = src[r][c], 4-byte elements; strides in elements. */
    void (*transpose4)(uint32_t *dst, int64_t dst_stride, const uint32_t *src, int64_t src_stride,
                       size_t rows, size_t cols);
} dev_vec_level_t;

extern const dev_vec_level_t dev_vec_exact, dev_vec_avx2, dev_vec_avx512;

/* The best level of this host (0), or the one asked for if the host has it; NULL if it has not. */
const dev_vec_level_t *dev_vec_choose(int isa_level);

/* Functions that have no vector form: exact by definition, the same code at every level. */
float dev_vec_fmod(float a, float b);
float dev_vec_remainder(float a, float b);
float dev_vec_floordiv(float a, float b);
/* The fixed tree over 16 partials: (l, l+8), (l, l+4), (l, l+2), (l, l+1). */
float dev_vec_fold(vnpu_reduce_t func, const float partial[VNPU_PARTIALS]);
int64_t dev_int_fold(vnpu_reduce_t func, const int64_t partial[VNPU_PARTIALS]);
float dev_vec_identity(vnpu_reduce_t func);
int64_t dev_int_identity(vnpu_reduce_t func);

#endif
