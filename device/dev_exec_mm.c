/*
 * Matrix products. f32: one FMA chain per element, k ascending through the whole accumulation,
 * whoever computes it: libxsmm's kernels continue the chain through C, so blocks in m, n and k do
 * not change a bit. libxsmm is never given N mod 64 in 1..16, where its AVX-512 kernels split the
 * chain. bf16   pairs in the order k+1, k, subnormals flushed: both operands widened with k swapped
 * in pairs, DAZ and FTZ on f16, f8 widened, then as f32 i8, u8 exact: f32 products over blocks of k
 * whose sums stay below 2^24, added in i32 (wrapping). f32 in bf16 pieces (matrix.f32 = bf16xN): a
 * bf16 product with N terms for one k
 */
#include "device/dev_exec_internal.h"

#include <immintrin.h>
#include <libxsmm.h>
#include <math.h>
#include <string.h>

#define BLOCK_M        128u
#define BLOCK_N        256u
#define BLOCK_K        256u
#define FEW_ROWS       4u /* up to here the in-order kernels win */
#define PIECES_BLOCK_K 512u
#define INT_BLOCK_K    256u /* 256 * 255 * 255 < 2^24 */
#define MXCSR_DAZ_FTZ  0x8040u

typedef exec_matrix_t matrix_t;

sim_status_t exec_mm_init(const dev_vec_level_t *level, sim_error_t *err) {
    libxsmm_init();
    /* LIBXSMM_TARGET does not decide: without FMA the bits would be others. */
    int host = libxsmm_cpuid();
    int target = level->isa_level >= 5 ? host : LIBXSMM_X86_AVX2;
    if (host < LIBXSMM_X86_AVX2) {
        return sim_error_set(err, SIM_ERROR_UNSUPPORTED, "the host's matrix kernels lack FMA");
    }
    libxsmm_set_target_archid(target < host ? target : host);
    return SIM_OK;
}

/* ---- f32 on row-major operands ---- */

typedef struct block {
    float *c;
    const float *a, *b;
    int64_t ldc, lda, ldb;
} block_t;

static void one_block(const dev_vec_level_t *level, const block_t *at, size_t m, size_t n, size_t k,
                      bool accumulate) {
    libxsmm_blasint lda = (libxsmm_blasint)at->lda, ldb = (libxsmm_blasint)at->ldb,
                    ldc = (libxsmm_blasint)at->ldc;
    float alpha = 1.0f, beta = accumulate ? 1.0f : 0.0f;
    int flags = LIBXSMM_GEMM_FLAG_NONE, prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
    /* libxsmm is column-major: C' = B' A'. */
    libxsmm_smmfunction kernel =
        libxsmm_smmdispatch((libxsmm_blasint)n, (libxsmm_blasint)m, (libxsmm_blasint)k, &ldb, &lda,
                            &ldc, &alpha, &beta, &flags, &prefetch);
    if (kernel) {
        kernel(at->b, at->a, at->c);
    } else {
        level->mm(at->c, at->ldc, at->a, at->lda, at->b, at->ldb, m, n, k, accumulate);
    }
}

/* The next piece of n columns that libxsmm may be given: never 1..16 mod 64. n > 16. */
static size_t next_columns(size_t n) {
    if (n > BLOCK_N + 16) return BLOCK_N;
    size_t rest = n % 64;
    if (rest == 0 || rest > 16) return n <= BLOCK_N ? n : BLOCK_N;
    /* 64 q + r, r in 1..16: take 64 (q - 1) + 48 (48 mod 64 is fine), leaving 16 + r. */
    return n - rest - 16;
}

static void mm_f32(const dev_vec_level_t *level, const block_t *at, size_t m, size_t n, size_t k,
                   bool accumulate) {
    bool is_small = m <= FEW_ROWS || n <= 16 || level->isa_level == 1;
    bool fits = at->lda <= INT32_MAX && at->ldb <= INT32_MAX && at->ldc <= INT32_MAX;
    if (is_small || !fits) {
        level->mm(at->c, at->ldc, at->a, at->lda, at->b, at->ldb, m, n, k, accumulate);
        return;
    }
    for (size_t j = 0; j < n;) {
        size_t columns = next_columns(n - j);
        for (size_t p = 0; p < k; p += BLOCK_K) {
            size_t depth = k - p < BLOCK_K ? k - p : BLOCK_K;
            for (size_t i = 0; i < m; i += BLOCK_M) {
                block_t part = {.c = at->c + (int64_t)i * at->ldc + (int64_t)j,
                                .a = at->a + (int64_t)i * at->lda + (int64_t)p,
                                .b = at->b + (int64_t)p * at->ldb + (int64_t)j,
                                .lda = at->lda,
                                .ldb = at->ldb,
                                .ldc = at->ldc};
                size_t rows = m - i < BLOCK_M ? m - i : BLOCK_M;
                one_block(level, &part, rows, columns, depth, accumulate || p > 0);
            }
        }
        j += columns;
    }
}

/* ---- operands into row-major f32 ---- */

static bool is_usable(const matrix_t *x, size_t rows, size_t cols) {
    return x->dtype == VNPU_F32 && (x->col == 1 || cols == 1) &&
           (rows == 1 || x->row >= (int64_t)cols) && (uintptr_t)x->ptr % sizeof(float) == 0;
}

/* Row of `cols` elements, cols apart by x->col, into f32. */
static void widen_row(const dev_vec_level_t *level, float *dst, const matrix_t *x, size_t row,
                      size_t cols) {
    const uint8_t *src = x->ptr + (int64_t)row * x->row * x->bytes;
    if (x->col == 1 && (uintptr_t)src % x->bytes == 0) {
        level->to_f32[x->dtype](dst, src, cols);
        return;
    }
    for (size_t c = 0; c < cols; c++) {
        dst[c] = dev_load_f32(x->dtype, src + (int64_t)c * x->col * x->bytes);
    }
}

/* dst[rows][cols] = x, dense. */
static void pack(const dev_vec_level_t *level, float *dst, const matrix_t *x, size_t rows,
                 size_t cols) {
    if (x->dtype == VNPU_F32 && x->row == 1 && (uintptr_t)x->ptr % sizeof(float) == 0) {
        level->transpose4((uint32_t *)(void *)dst, (int64_t)cols,
                          (const uint32_t *)(const void *)x->ptr, x->col, cols, rows);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        widen_row(level, dst + r * cols, x, r, cols);
}

/* ---- a product of few rows with a transposed operand: panels that stay in the first-level caches
 * ---- */

static void mm_few_rows(exec_worker_t *worker, const block_t *at, const matrix_t *b, size_t m,
                        size_t n, size_t k, bool accumulate) {
    enum { PANEL_N = 64, PANEL_K = 128 };
    const dev_vec_level_t *level = worker->exec->level;
    float *panel = exec_scratch(worker, SCRATCH_B, PANEL_N * PANEL_K * sizeof(float));
    for (size_t j = 0; j < n; j += PANEL_N) {
        size_t columns = n - j < PANEL_N ? n - j : PANEL_N;
        for (size_t p = 0; p < k; p += PANEL_K) {
            size_t depth = k - p < PANEL_K ? k - p : PANEL_K;
            matrix_t part = *b;
            part.ptr += ((int64_t)p * b->row + (int64_t)j * b->col) * b->bytes;
            pack(level, panel, &part, depth, columns);
            level->mm(at->c + j, at->ldc, at->a + p, at->lda, panel, (int64_t)columns, m, columns,
                      depth, accumulate || p > 0);
        }
    }
}

static void mm_f32_any(exec_worker_t *worker, float *c, int64_t ldc, const matrix_t *a,
                       const matrix_t *b, size_t m, size_t n, size_t k, bool accumulate) {
    const dev_vec_level_t *level = worker->exec->level;
    block_t at = {.c = c,
                  .ldc = ldc,
                  .a = (const float *)(const void *)a->ptr,
                  .lda = a->row,
                  .b = (const float *)(const void *)b->ptr,
                  .ldb = b->row};
    if (!is_usable(a, m, k)) {
        float *packed = exec_scratch(worker, SCRATCH_A, m * k * sizeof(float));
        pack(level, packed, a, m, k);
        at.a = packed;
        at.lda = (int64_t)k;
    }
    if (m == 1) at.lda = (int64_t)k;
    if (!is_usable(b, k, n)) {
        if (m <= FEW_ROWS && b->dtype == VNPU_F32) {
            mm_few_rows(worker, &at, b, m, n, k, accumulate);
            return;
        }
        float *packed = exec_scratch(worker, SCRATCH_B, k * n * sizeof(float));
        pack(level, packed, b, k, n);
        at.b = packed;
        at.ldb = (int64_t)n;
    }
    if (k == 1) at.ldb = (int64_t)n;
    mm_f32(level, &at, m, n, k, accumulate);
}

/* ---- bf16 ---- */

/* a[m][k] with k swapped in pairs, an odd k padded by a zero: [m][even]. */
static void pack_pairs_a(const dev_vec_level_t *level, float *dst, const matrix_t *a, size_t m,
                         size_t k, size_t even) {
    for (size_t r = 0; r < m; r++) {
        float *row = dst + r * even;
        widen_row(level, row, a, r, k);
        if (even > k) row[k] = 0.0f;
        for (size_t p = 0; p < even; p += 2) {
            float first = row[p];
            row[p] = row[p + 1];
            row[p + 1] = first;
        }
    }
}

static void pack_pairs_b(const dev_vec_level_t *level, float *dst, const matrix_t *b, size_t k,
                         size_t n, size_t even) {
    for (size_t p = 0; p < even; p++) {
        float *row = dst + (p ^ 1u) * n;
        if (p < k) {
            widen_row(level, row, b, p, n);
        } else {
            memset(row, 0, n * sizeof(float));
        }
    }
}

static void mm_bf16(exec_worker_t *worker, float *c, int64_t ldc, const matrix_t *a,
                    const matrix_t *b, size_t m, size_t n, size_t k, bool accumulate) {
    const dev_vec_level_t *level = worker->exec->level;
    size_t even = k + k % 2;
    float *packed_a = exec_scratch(worker, SCRATCH_A, m * even * sizeof(float));
    float *packed_b = exec_scratch(worker, SCRATCH_B, even * n * sizeof(float));
    pack_pairs_a(level, packed_a, a, m, k, even);
    pack_pairs_b(level, packed_b, b, k, n, even);
    block_t at = {
        .c = c, .ldc = ldc, .a = packed_a, .lda = (int64_t)even, .b = packed_b, .ldb = (int64_t)n};
    unsigned saved = _mm_getcsr();
    _mm_setcsr(saved | MXCSR_DAZ_FTZ);
    mm_f32(level, &at, m, n, even, accumulate);
    _mm_setcsr(saved);
}

/* ---- f32 in bf16 pieces ---- */

/* Which pieces are multiplied, the smallest products first; bf16xN takes the last N. */
static const uint8_t PIECES[9][2] = {{2, 2}, {2, 1}, {1, 2}, {2, 0}, {0, 2},
                                     {1, 1}, {1, 0}, {0, 1}, {0, 0}};

/* x = piece[0] + piece[1] + piece[2], each rounded to bf16; 0 beside what is infinite or NaN. */
static void split(float x, float piece[3]) {
    float rest = x;
    for (int i = 0; i < 3; i++) {
        piece[i] = dev_bf16_to_f32(dev_f32_to_bf16(rest));
        rest = isfinite(piece[i]) ? rest - piece[i] : 0.0f;
    }
}

/* Where product `r` of `passes` for element p of k goes: pairs of k stay side by side, as in bf16.
 */
static size_t place(size_t p, size_t r, size_t passes) {
    return ((p / 2 * passes + r) * 2) + (p % 2 ? 0 : 1);
}

/* dst[m][passes * even], the zeros of an odd k included. */
static void pack_pieces_a(exec_worker_t *worker, float *dst, const matrix_t *a, size_t m, size_t k,
                          size_t passes) {
    const uint8_t(*use)[2] = PIECES + 9 - passes;
    size_t width = passes * (k + k % 2);
    float *row = exec_scratch(worker, SCRATCH_ROW, k * sizeof(float));
    for (size_t i = 0; i < m; i++, dst += width) {
        widen_row(worker->exec->level, row, a, i, k);
        if (k % 2) memset(dst + width - 2 * passes, 0, 2 * passes * sizeof(float));
        for (size_t p = 0; p < k; p++) {
            float piece[3];
            split(row[p], piece);
            for (size_t r = 0; r < passes; r++)
                dst[place(p, r, passes)] = piece[use[r][0]];
        }
    }
}

static void pack_pieces_b(exec_worker_t *worker, float *dst, const matrix_t *b, size_t k, size_t n,
                          size_t passes) {
    const uint8_t(*use)[2] = PIECES + 9 - passes;
    float *row = exec_scratch(worker, SCRATCH_ROW, 4 * n * sizeof(float));
    float *piece = row + n; /* [3][n] */
    if (k % 2) memset(dst + passes * (k - 1) * n, 0, 2 * passes * n * sizeof(float));
    for (size_t p = 0; p < k; p++) {
        widen_row(worker->exec->level, row, b, p, n);
        for (size_t j = 0; j < n; j++) {
            float parts[3];
            split(row[j], parts);
            for (size_t i = 0; i < 3; i++)
                piece[i * n + j] = parts[i];
        }
        for (size_t r = 0; r < passes; r++)
            memcpy(dst + place(p, r, passes) * n, piece + use[r][1] * n, n * sizeof(float));
    }
}

static void mm_pieces(exec_worker_t *worker, float *c, int64_t ldc, const matrix_t *a,
                      const matrix_t *b, size_t m, size_t n, size_t k, bool accumulate) {
    size_t passes = worker->f32_passes;
    size_t most = PIECES_BLOCK_K / passes & ~(size_t)1; /* whole pairs */
    for (size_t p = 0; p < k; p += most) {
        size_t depth = k - p < most ? k - p : most, width = passes * (depth + depth % 2);
        matrix_t part_a = *a, part_b = *b;
        part_a.ptr += (int64_t)p * a->col * a->bytes;
        part_b.ptr += (int64_t)p * b->row * b->bytes;
        float *packed_a = exec_scratch(worker, SCRATCH_A, m * width * sizeof(float));
        float *packed_b = exec_scratch(worker, SCRATCH_B, width * n * sizeof(float));
        pack_pieces_a(worker, packed_a, &part_a, m, depth, passes);
        pack_pieces_b(worker, packed_b, &part_b, depth, n, passes);
        block_t at = {.c = c,
                      .ldc = ldc,
                      .a = packed_a,
                      .lda = (int64_t)width,
                      .b = packed_b,
                      .ldb = (int64_t)n};
        unsigned saved = _mm_getcsr();
        _mm_setcsr(saved | MXCSR_DAZ_FTZ);
        mm_f32(worker->exec->level, &at, m, n, width, accumulate || p > 0);
        _mm_setcsr(saved);
    }
}

/* ---- i8, u8 ---- */

static void mm_int(exec_worker_t *worker, int32_t *c, int64_t ldc, const matrix_t *a,
                   const matrix_t *b, size_t m, size_t n, size_t k, bool accumulate) {
    const dev_vec_level_t *level = worker->exec->level;
    float *packed_a = exec_scratch(worker, SCRATCH_A, m * INT_BLOCK_K * sizeof(float));
    float *packed_b = exec_scratch(worker, SCRATCH_B, INT_BLOCK_K * n * sizeof(float));
    float *sums = exec_scratch(worker, SCRATCH_ROW, m * n * sizeof(float));
    for (size_t p = 0; p < k; p += INT_BLOCK_K) {
        size_t depth = k - p < INT_BLOCK_K ? k - p : INT_BLOCK_K;
        matrix_t part_a = *a, part_b = *b;
        part_a.ptr += (int64_t)p * a->col * a->bytes;
        part_b.ptr += (int64_t)p * b->row * b->bytes;
        pack(level, packed_a, &part_a, m, depth);
        pack(level, packed_b, &part_b, depth, n);
        block_t at = {.c = sums,
                      .ldc = (int64_t)n,
                      .a = packed_a,
                      .lda = (int64_t)depth,
                      .b = packed_b,
                      .ldb = (int64_t)n};
        mm_f32(level, &at, m, n, depth, false);
        bool adds = accumulate || p > 0;
        for (size_t r = 0; r < m; r++) {
            for (size_t j = 0; j < n; j++) {
                uint32_t *to = (uint32_t *)(void *)&c[(int64_t)r * ldc + (int64_t)j];
                *to = (adds ? *to : 0u) + (uint32_t)(int32_t)sums[r * n + j];
            }
        }
    }
}

/* ---- the instruction ---- */

static void mm_plane(exec_worker_t *worker, void *c, int64_t ldc, const matrix_t *a,
                     const matrix_t *b, size_t m, size_t n, size_t k, bool accumulate) {
    if (!dev_is_float(a->dtype)) {
        mm_int(worker, c, ldc, a, b, m, n, k, accumulate);
    } else if (a->dtype == VNPU_BF16 && b->dtype == VNPU_BF16) {
        mm_bf16(worker, c, ldc, a, b, m, n, k, accumulate);
    } else if (a->dtype == VNPU_F32 && worker->f32_passes > 0) {
        mm_pieces(worker, c, ldc, a, b, m, n, k, accumulate);
    } else {
        mm_f32_any(worker, c, ldc, a, b, m, n, k, accumulate);
    }
}

/* Result rows of one product; strided or misaligned ones go through a dense copy. Elements are 4
 * bytes. */
void exec_mm_strided(exec_worker_t *worker, uint8_t *c, int64_t row, int64_t col,
                     const exec_matrix_t *a, const exec_matrix_t *b, size_t m, size_t n, size_t k,
                     bool accumulate) {
    bool is_dense = (col == 1 || n == 1) && (m == 1 || row >= (int64_t)n) && (uintptr_t)c % 4 == 0;
    if (is_dense) {
        mm_plane(worker, c, m == 1 ? (int64_t)n : row, a, b, m, n, k, accumulate);
        return;
    }
    uint8_t *dense = exec_scratch(worker, SCRATCH_C, m * n * 4);
    for (size_t i = 0; accumulate && i < m * n; i++) {
        int64_t at = (int64_t)(i / n) * row + (int64_t)(i % n) * col;
        memcpy(dense + 4 * i, c + 4 * at, 4);
    }
    mm_plane(worker, dense, (int64_t)n, a, b, m, n, k, accumulate);
    for (size_t i = 0; i < m * n; i++) {
        int64_t at = (int64_t)(i / n) * row + (int64_t)(i % n) * col;
        memcpy(c + 4 * at, dense + 4 * i, 4);
    }
}

/* Sums of no products. */
static void mm_nothing(const exec_operand_t *dst, bool accumulate) {
    static const uint8_t zero[4];
    if (!accumulate) exec_fill(&dst->view, dst->ptr, zero);
}

sim_status_t exec_mm(exec_instance_t *instance) {
    const vnpu_insn_t *insn = instance->insn;
    exec_operand_t dst, a, b;
    sim_status_t status = exec_operand_make(instance, insn->src[0], ACCESS_READ, &a);
    if (status == SIM_OK) status = exec_operand_make(instance, insn->src[1], ACCESS_READ_LOCAL, &b);
    if (status == SIM_OK) status = exec_operand_make(instance, insn->dst, ACCESS_WRITE, &dst);
    if (status != SIM_OK) return status;
    if (dst.view.count == 0) return SIM_OK;
    bool accumulate = dev_cursor_accumulates(instance->cursor, insn);
    if (instance->exec->options.mode == DEV_EXEC_TIMING && dev_is_float(dst.view.dtype))
        return SIM_OK;
    const dev_machine_t *machine = &instance->exec->machine;
    instance->worker->f32_passes =
        machine->cls[dev_machine_class_of(machine, instance->core)].matrix_f32_passes;
    if (a.view.count == 0) { /* k clipped to nothing */
        mm_nothing(&dst, accumulate);
        return SIM_OK;
    }
    if (insn->func > 0 || b.view.ndims > 2) {
        exec_mm_dims(instance->worker, &dst, &a, &b, insn->func + 1u, accumulate);
        return SIM_OK;
    }
    uint32_t last = a.view.ndims - 1;
    exec_walk_t walk;
    dev_view_t rows = a.view;
    rows.ndims = last;
    exec_walk_begin(&walk, &rows);
    exec_walk_add(&walk, dst.view.stride);
    exec_walk_add(&walk, a.view.stride);
    exec_walk_merge(&walk, 0);
    uint32_t inner = walk.ndims - 1;
    matrix_t left = {.dtype = a.view.dtype,
                     .bytes = a.view.elem_bytes,
                     .row = walk.stride[1][inner],
                     .col = a.view.stride[last]};
    matrix_t right = {.ptr = b.ptr,
                      .dtype = b.view.dtype,
                      .bytes = b.view.elem_bytes,
                      .row = b.view.stride[0],
                      .col = b.view.stride[1]};
    uint64_t index[VNPU_MAX_DIMS] = {0};
    int64_t offset[WALK_MAX_OPS] = {0};
    do {
        left.ptr = a.ptr + offset[1] * a.view.elem_bytes;
        exec_mm_strided(instance->worker, dst.ptr + offset[0] * 4, walk.stride[0][inner],
                        dst.view.stride[last], &left, &right, walk.size[inner], b.view.size[1],
                        b.view.size[0], accumulate);
    } while (exec_walk_step(&walk, inner, index, offset));
    return SIM_OK;
}
