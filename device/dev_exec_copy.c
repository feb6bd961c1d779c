/*
 * Copies between strided views: dense rows, rows with a constant source, two-dimensional transposes
 * in blocks, casts. The destination's dimensions are walked so that its side-by-side elements, or
 * the source's, lie innermost.
 */
#include "device/dev_exec_internal.h"

#include <string.h>

#define CHUNK            1024u /* elements converted at a time */
#define STREAM_ROW_BYTES 256u  /* shorter rows do not fill lines */

typedef struct copy_job {
    exec_walk_t walk; /* operand 0: destination, 1: source */
    uint8_t *dst;
    const uint8_t *src;
    vnpu_dtype_t dst_type, src_type;
    uint32_t dst_bytes, src_bytes;
    const dev_vec_level_t *level;
    exec_worker_t *worker;
} copy_job_t;

/* ---- same type ---- */

#define STRIDED(name, type)                                                                        \
    static void name(uint8_t *dst, int64_t dst_stride, const uint8_t *src, int64_t src_stride,     \
                     uint64_t n) {                                                                 \
        for (uint64_t i = 0; i < n; i++) {                                                         \
            memcpy(dst + (int64_t)i * dst_stride * (int64_t)sizeof(type),                          \
                   src + (int64_t)i * src_stride * (int64_t)sizeof(type), sizeof(type));           \
        }                                                                                          \
    }
STRIDED(strided_1, uint8_t)
STRIDED(strided_2, uint16_t)
STRIDED(strided_4, uint32_t)
STRIDED(strided_8, uint64_t)

static void copy_row(uint8_t *dst, int64_t dst_stride, const uint8_t *src, int64_t src_stride,
                     uint64_t n, uint32_t bytes) {
    if (dst_stride == 1 && src_stride == 1) {
        memcpy(dst, src, n * bytes);
        return;
    }
    switch (bytes) {
    case 1: strided_1(dst, dst_stride, src, src_stride, n); return;
    case 2: strided_2(dst, dst_stride, src, src_stride, n); return;
    case 4: strided_4(dst, dst_stride, src, src_stride, n); return;
    case 8: strided_8(dst, dst_stride, src, src_stride, n); return;
    default: sim_bug("executor", 0, "element of %u bytes", bytes);
    }
}

#define TRANSPOSE(name, type)                                                                      \
    /* Blocks of 32 x 32: both sides of a block stay in the first-level cache. */                  \
    static void name(uint8_t *dst, int64_t dst_stride, const uint8_t *src, int64_t src_stride,     \
                     uint64_t rows, uint64_t cols) {                                               \
        for (uint64_t r0 = 0; r0 < rows; r0 += 32) {                                               \
            uint64_t r1 = r0 + 32 < rows ? r0 + 32 : rows;                                         \
            for (uint64_t c0 = 0; c0 < cols; c0 += 32) {                                           \
                uint64_t c1 = c0 + 32 < cols ? c0 + 32 : cols;                                     \
                for (uint64_t c = c0; c < c1; c++) {                                               \
                    type *to = (type *)(void *)dst + (int64_t)c * dst_stride;                      \
                    const type *from = (const type *)(const void *)src + c;                        \
                    for (uint64_t r = r0; r < r1; r++)                                             \
                        to[r] = from[(int64_t)r * src_stride];                                     \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
TRANSPOSE(transpose_1, uint8_t)
TRANSPOSE(transpose_2, uint16_t)
TRANSPOSE(transpose_8, uint64_t)

/* dst[c][r] = src[r][c]; strides in elements. */
static void transpose(const copy_job_t *job, uint8_t *dst, int64_t dst_stride, const uint8_t *src,
                      int64_t src_stride, uint64_t rows, uint64_t cols) {
    switch (job->dst_bytes) {
    case 1: transpose_1(dst, dst_stride, src, src_stride, rows, cols); return;
    case 2: transpose_2(dst, dst_stride, src, src_stride, rows, cols); return;
    case 4:
        job->level->transpose4((uint32_t *)(void *)dst, dst_stride,
                               (const uint32_t *)(const void *)src, src_stride, rows, cols);
        return;
    case 8: transpose_8(dst, dst_stride, src, src_stride, rows, cols); return;
    default: sim_bug("executor", 0, "element of %u bytes", job->dst_bytes);
    }
}

/* ---- casts ---- */

static bool goes_through_i64(vnpu_dtype_t dst, vnpu_dtype_t src) {
    return !dev_is_float(dst) && !dev_is_float(src);
}

/* Contiguous conversion of n <= CHUNK aligned elements. */
static void convert(const dev_vec_level_t *level, vnpu_dtype_t dst_type, void *dst,
                    vnpu_dtype_t src_type, const void *src, size_t n) {
    _Alignas(64) union {
        float f32[CHUNK];
        int64_t i64[CHUNK];
    } middle;
    if (goes_through_i64(dst_type, src_type)) {
        level->to_i64[src_type](middle.i64, src, n);
        level->from_i64[dst_type](dst, middle.i64, n);
    } else if (src_type == VNPU_F32) {
        level->from_f32[dst_type](dst, src, n);
    } else if (dst_type == VNPU_F32) {
        level->to_f32[src_type](dst, src, n);
    } else {
        level->to_f32[src_type](middle.f32, src, n);
        level->from_f32[dst_type](dst, middle.f32, n);
    }
}

static bool is_aligned(const void *ptr, uint32_t bytes) {
    return (uintptr_t)ptr % bytes == 0;
}

static void convert_row(const copy_job_t *job, uint8_t *dst, int64_t dst_stride, const uint8_t *src,
                        int64_t src_stride, uint64_t n) {
    _Alignas(64) uint8_t from[8 * CHUNK], to[8 * CHUNK];
    bool src_is_dense = src_stride == 1 && is_aligned(src, job->src_bytes);
    bool dst_is_dense = dst_stride == 1 && is_aligned(dst, job->dst_bytes);
    for (uint64_t i = 0; i < n; i += CHUNK) {
        size_t count = n - i < CHUNK ? n - i : CHUNK;
        const uint8_t *x = src + (int64_t)i * src_stride * job->src_bytes;
        uint8_t *y = dst + (int64_t)i * dst_stride * job->dst_bytes;
        if (!src_is_dense) copy_row(from, 1, x, src_stride, count, job->src_bytes);
        convert(job->level, job->dst_type, dst_is_dense ? y : to, job->src_type,
                src_is_dense ? x : from, count);
        if (!dst_is_dense) copy_row(y, dst_stride, to, 1, count, job->dst_bytes);
    }
}

/* dst += cast(src), element by element: floats add in f32 and round to the destination, integers
 * add in i64 and wrap. */
static void accumulate_row(const copy_job_t *job, uint8_t *dst, int64_t dst_stride,
                           const uint8_t *src, int64_t src_stride, uint64_t n) {
    bool is_float = dev_is_float(job->dst_type);
    for (uint64_t i = 0; i < n; i++) {
        uint8_t *y = dst + (int64_t)i * dst_stride * job->dst_bytes;
        uint8_t cast[8];
        const uint8_t *x = src + (int64_t)i * src_stride * job->src_bytes;
        if (goes_through_i64(job->dst_type, job->src_type)) {
            dev_store_i64(job->dst_type, cast, dev_load_i64(job->src_type, x));
        } else {
            dev_store_f32(job->dst_type, cast, dev_load_f32(job->src_type, x));
        }
        if (is_float) {
            float sum = dev_load_f32(job->dst_type, y) + dev_load_f32(job->dst_type, cast);
            dev_store_f32(job->dst_type, y, sum);
        } else {
            uint64_t sum = (uint64_t)dev_load_i64(job->dst_type, y);
            dev_store_i64(job->dst_type, y,
                          (int64_t)(sum + (uint64_t)dev_load_i64(job->dst_type, cast)));
        }
    }
}

/* ---- the walk ---- */

static void swap_dims(exec_walk_t *walk, uint32_t a, uint32_t b) {
    uint64_t size = walk->size[a];
    walk->size[a] = walk->size[b];
    walk->size[b] = size;
    for (uint32_t o = 0; o < walk->ops; o++) {
        int64_t stride = walk->stride[o][a];
        walk->stride[o][a] = walk->stride[o][b];
        walk->stride[o][b] = stride;
    }
}

/* Takes dimension d out of its place and puts it last. */
static void move_last(exec_walk_t *walk, uint32_t d) {
    for (; d + 1 < walk->ndims; d++)
        swap_dims(walk, d, d + 1);
}

static int find_unit(const exec_walk_t *walk, uint32_t op) {
    for (uint32_t d = walk->ndims; d-- > 0;) {
        if (walk->stride[op][d] == 1 && walk->size[d] > 1) return (int)d;
    }
    return -1;
}

static void stream_row(const copy_job_t *job, uint8_t *dst, int64_t dst_stride, const uint8_t *src,
                       int64_t src_stride, uint64_t n) {
    uint64_t bytes = n * job->dst_bytes;
    if (dst_stride == 1 && src_stride == 1 && bytes >= STREAM_ROW_BYTES) {
        job->level->stream(dst, src, bytes);
    } else {
        copy_row(dst, dst_stride, src, src_stride, n, job->dst_bytes);
    }
}

typedef void (*row_fn)(const copy_job_t *job, uint8_t *dst, int64_t dst_stride, const uint8_t *src,
                       int64_t src_stride, uint64_t n);

static void same_type_row(const copy_job_t *job, uint8_t *dst, int64_t dst_stride,
                          const uint8_t *src, int64_t src_stride, uint64_t n) {
    copy_row(dst, dst_stride, src, src_stride, n, job->dst_bytes);
}

static void for_each_row(const copy_job_t *job, row_fn row) {
    const exec_walk_t *walk = &job->walk;
    uint32_t last = walk->ndims - 1;
    uint64_t index[VNPU_MAX_DIMS] = {0};
    int64_t offset[WALK_MAX_OPS] = {0};
    do {
        row(job, job->dst + offset[0] * job->dst_bytes, walk->stride[0][last],
            job->src + offset[1] * job->src_bytes, walk->stride[1][last], walk->size[last]);
    } while (exec_walk_step(walk, last, index, offset));
}

/* Source rows lie along dimension ndims - 1, destination rows along ndims - 2. */
static void for_each_transpose(const copy_job_t *job) {
    const exec_walk_t *walk = &job->walk;
    uint32_t along_src = walk->ndims - 1, along_dst = walk->ndims - 2;
    uint64_t index[VNPU_MAX_DIMS] = {0};
    int64_t offset[WALK_MAX_OPS] = {0};
    do {
        transpose(job, job->dst + offset[0] * job->dst_bytes, walk->stride[0][along_src],
                  job->src + offset[1] * job->src_bytes, walk->stride[1][along_dst],
                  walk->size[along_dst], walk->size[along_src]);
    } while (exec_walk_step(walk, along_dst, index, offset));
}

void exec_copy(exec_worker_t *worker, const dev_view_t *dst, uint8_t *dst_ptr,
               const dev_view_t *src, const uint8_t *src_ptr, exec_copy_kind_t kind) {
    if (dst->count == 0) return;
    copy_job_t job = {.dst = dst_ptr,
                      .src = src_ptr,
                      .dst_type = dst->dtype,
                      .src_type = src->dtype,
                      .dst_bytes = dst->elem_bytes,
                      .src_bytes = src->elem_bytes,
                      .level = worker->exec->level,
                      .worker = worker};
    exec_walk_t *walk = &job.walk;
    exec_walk_begin(walk, dst);
    exec_walk_add(walk, dst->stride);
    exec_walk_add(walk, src->stride);
    exec_walk_merge(walk, 0);
    if (kind ==
        COPY_ACCUMULATE) { /* in the order of the walk: an address that occurs twice takes both */
        for_each_row(&job, accumulate_row);
        return;
    }
    bool same_type = dst->dtype == src->dtype;
    int along_dst = find_unit(walk, 0), along_src = find_unit(walk, 1);
    bool turns = same_type && along_dst >= 0 && along_src >= 0 && along_dst != along_src &&
                 is_aligned(dst_ptr, dst->elem_bytes) && is_aligned(src_ptr, src->elem_bytes);
    if (turns) {
        move_last(walk, (uint32_t)along_dst);
        move_last(walk, (uint32_t)(along_src > along_dst ? along_src - 1 : along_src));
        for_each_transpose(&job);
        return;
    }
    int inner = along_dst >= 0 ? along_dst : along_src;
    if (inner >= 0) {
        move_last(walk, (uint32_t)inner);
        exec_walk_merge(walk, 0);
    }
    row_fn same = kind == COPY_STREAM ? stream_row : same_type_row;
    for_each_row(&job, same_type ? same : convert_row);
}

static void fill_row(uint8_t *dst, int64_t stride, uint64_t n, const uint8_t *element,
                     uint32_t bytes) {
    bool is_uniform = true;
    for (uint32_t b = 1; b < bytes; b++)
        is_uniform &= element[b] == element[0];
    if (stride == 1 && is_uniform) {
        memset(dst, element[0], n * bytes);
        return;
    }
    copy_row(dst, stride, element, 0, n, bytes);
}

void exec_fill(const dev_view_t *dst, uint8_t *dst_ptr, const void *element) {
    if (dst->count == 0) return;
    exec_walk_t walk;
    exec_walk_begin(&walk, dst);
    exec_walk_add(&walk, dst->stride);
    exec_walk_merge(&walk, 0);
    int inner = find_unit(&walk, 0);
    if (inner >= 0) {
        move_last(&walk, (uint32_t)inner);
        exec_walk_merge(&walk, 0);
    }
    uint32_t last = walk.ndims - 1;
    uint64_t index[VNPU_MAX_DIMS] = {0};
    int64_t offset[WALK_MAX_OPS] = {0};
    do {
        fill_row(dst_ptr + offset[0] * dst->elem_bytes, walk.stride[0][last], walk.size[last],
                 element, dst->elem_bytes);
    } while (exec_walk_step(&walk, last, index, offset));
}
