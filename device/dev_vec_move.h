/* Moves for the levels that have AVX2: a 4-byte transpose of 8 x 8 blocks in registers, copies past
 * the caches. */
#ifndef DEV_VEC_MOVE_H
#define DEV_VEC_MOVE_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void transpose_8x8(float *dst, int64_t dst_stride, const float *src,
                                 int64_t src_stride) {
    __m256 r[8], t[8];
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_ps(src + i * src_stride);
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(dst + i * dst_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(dst + (i + 4) * dst_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

static void stream_bytes(void *dst, const void *src, size_t bytes) {
    uint8_t *to = dst;
    const uint8_t *from = src;
    size_t i = (64 - (uintptr_t)to % 64) % 64; /* whole lines only */
    if (i > bytes) i = bytes;
    memcpy(to, from, i);
    for (; i + 64 <= bytes; i += 64) {
        __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));
        __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(from + i + 32));
        _mm256_stream_si256((__m256i *)(void *)(to + i), low);
        _mm256_stream_si256((__m256i *)(void *)(to + i + 32), high);
    }
    memcpy(to + i, from + i, bytes - i);
}

static void transpose_words(uint32_t *dst, int64_t dst_stride, const uint32_t *src,
                            int64_t src_stride, size_t rows, size_t cols) {
    size_t whole_rows = rows - rows % 8, whole_cols = cols - cols % 8;
    /* Panels of 32 source columns: their destination rows stay in the first-level cache. */
    for (size_t panel = 0; panel < whole_cols; panel += 32) {
        size_t end = panel + 32 < whole_cols ? panel + 32 : whole_cols;
        for (size_t r = 0; r < whole_rows; r += 8) {
            for (size_t c = panel; c < end; c += 8) {
                transpose_8x8((float *)(void *)(dst + (int64_t)c * dst_stride + r), dst_stride,
                              (const float *)(const void *)(src + (int64_t)r * src_stride + c),
                              src_stride);
            }
        }
    }
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = r < whole_rows ? whole_cols : 0; c < cols; c++) {
            dst[(int64_t)c * dst_stride + (int64_t)r] = src[(int64_t)r * src_stride + (int64_t)c];
        }
    }
}

#endif
