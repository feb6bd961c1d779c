/*
 * Vector instructions. The operands' dimensions are merged jointly; what is left is a plane (rows x
 * columns) under up to three outer dimensions. f32 operands are computed on in place; others pass
 * through blocks in the first-level cache, as does the f32 intermediate of two chained functions.
 * Integer instructions pass through i64 blocks.
 */
#include "device/dev_exec_internal.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK      2048u /* elements of a block */
#define BLOCK_ROWS 128u  /* rows of a block when rows are summed */
#define MAX_SRC    3u

/* Operands of the walk: 0 destination, 1..3 sources, 4 row results. */
enum { OP_DST = 0, OP_SRC = 1, OP_ROWS = 4 };

typedef struct vector_operand {
    bool is_used, is_iota, is_aligned;
    vnpu_dtype_t dtype;
    uint32_t bytes;
    uint8_t *ptr;     /* of the plane */
    int64_t iota;     /* value of the plane's first element */
    int64_t row, col; /* strides in elements */
} vector_operand_t;

typedef struct vector_job {
    exec_instance_t *instance;
    const dev_vec_level_t *level;
    const vnpu_insn_t *insn;
    bool is_integer, has_dst, has_rows, is_partial, continues;
    uint32_t num_src;
    exec_operand_t operand[WALK_MAX_OPS];
    vector_operand_t plane[WALK_MAX_OPS];
    int64_t lane; /* stride between the 16 partials */
    vnpu_reduce_t reduce;
    dev_vec_map_t map;
    float scale[2];
    const float *scaling; /* NULL or scale */
    exec_walk_t walk;
    size_t rows, cols;
    float *temp[5]; /* sources, intermediate, destination; BLOCK elements of 8 bytes each */
} vector_job_t;

/* ---- loading and storing blocks ---- */

static void load_row_f32(const vector_job_t *job, const vector_operand_t *op, float *dst,
                         size_t row, size_t col, size_t cols) {
    int64_t at = (int64_t)row * op->row + (int64_t)col * op->col;
    if (op->is_iota) {
        for (size_t c = 0; c < cols; c++)
            dst[c] = (float)(op->iota + at + (int64_t)c * op->col);
        return;
    }
    const uint8_t *src = op->ptr + at * op->bytes;
    if (op->col == 1 && op->is_aligned) {
        job->level->to_f32[op->dtype](dst, src, cols);
        return;
    }
    for (size_t c = 0; c < cols; c++)
        dst[c] = dev_load_f32(op->dtype, src + (int64_t)c * op->col * op->bytes);
}

static void load_row_i64(const vector_job_t *job, const vector_operand_t *op, int64_t *dst,
                         size_t row, size_t col, size_t cols) {
    int64_t at = (int64_t)row * op->row + (int64_t)col * op->col;
    if (op->is_iota) {
        for (size_t c = 0; c < cols; c++)
            dst[c] = op->iota + at + (int64_t)c * op->col;
        return;
    }
    const uint8_t *src = op->ptr + at * op->bytes;
    if (op->col == 1 && op->is_aligned) {
        job->level->to_i64[op->dtype](dst, src, cols);
        return;
    }
    for (size_t c = 0; c < cols; c++)
        dst[c] = dev_load_i64(op->dtype, src + (int64_t)c * op->col * op->bytes);
}

static bool is_direct(const vector_operand_t *op) {
    return op->dtype == VNPU_F32 && !op->is_iota && op->is_aligned;
}

/* The block [row, row + rows) x [col, col + cols) of a source. needs_columns: one value per row is
 * spread out. */
static dev_vec_src_t load_block(const vector_job_t *job, const vector_operand_t *op, float *temp,
                                size_t row, size_t col, size_t rows, size_t cols,
                                bool needs_columns) {
    bool is_scalar = op->col == 0 && !needs_columns;
    if (is_direct(op) && (op->col == 1 || is_scalar)) {
        const float *first = (const float *)(const void *)op->ptr;
        return (dev_vec_src_t){first + (int64_t)row * op->row + (int64_t)col * op->col, op->row,
                               is_scalar};
    }
    size_t width = is_scalar ? 1 : cols;
    size_t height = op->row == 0 ? 1 : rows; /* one row for all */
    for (size_t r = 0; r < height; r++)
        load_row_f32(job, op, temp + r * width, row + r, col, width);
    return (dev_vec_src_t){temp, op->row == 0 ? 0 : (int64_t)width, is_scalar};
}

static void store_row_f32(const vector_job_t *job, const vector_operand_t *op, const float *src,
                          size_t row, size_t col, size_t cols) {
    uint8_t *dst = op->ptr + ((int64_t)row * op->row + (int64_t)col * op->col) * op->bytes;
    if (op->col == 1 && op->is_aligned) {
        job->level->from_f32[op->dtype](dst, src, cols);
        return;
    }
    for (size_t c = 0; c < cols; c++)
        dev_store_f32(op->dtype, dst + (int64_t)c * op->col * op->bytes, src[c]);
}

static void store_row_i64(const vector_job_t *job, const vector_operand_t *op, const int64_t *src,
                          size_t row, size_t col, size_t cols) {
    uint8_t *dst = op->ptr + ((int64_t)row * op->row + (int64_t)col * op->col) * op->bytes;
    if (op->col == 1 && op->is_aligned) {
        job->level->from_i64[op->dtype](dst, src, cols);
        return;
    }
    for (size_t c = 0; c < cols; c++)
        dev_store_i64(op->dtype, dst + (int64_t)c * op->col * op->bytes, src[c]);
}

/* ---- row results ---- */

static uint8_t *row_result(const vector_job_t *job, size_t row) {
    const vector_operand_t *op = &job->plane[OP_ROWS];
    return op->ptr + (int64_t)row * op->row * op->bytes;
}

static void rows_begin_f32(const vector_job_t *job, float *partial, size_t row, size_t rows) {
    const vector_operand_t *op = &job->plane[OP_ROWS];
    if (!job->continues) {
        float identity = dev_vec_identity(job->reduce);
        for (size_t i = 0; i < rows * VNPU_PARTIALS; i++)
            partial[i] = identity;
        return;
    }
    for (size_t i = 0; i < rows * VNPU_PARTIALS; i++) {
        const uint8_t *at = row_result(job, row + i / VNPU_PARTIALS);
        partial[i] =
            dev_load_f32(op->dtype, at + (int64_t)(i % VNPU_PARTIALS) * job->lane * op->bytes);
    }
}

static void rows_end_f32(const vector_job_t *job, const float *partial, size_t row, size_t rows) {
    const vector_operand_t *op = &job->plane[OP_ROWS];
    if (job->is_partial) {
        for (size_t i = 0; i < rows * VNPU_PARTIALS; i++) {
            uint8_t *at = row_result(job, row + i / VNPU_PARTIALS);
            dev_store_f32(op->dtype, at + (int64_t)(i % VNPU_PARTIALS) * job->lane * op->bytes,
                          partial[i]);
        }
        return;
    }
    float result[BLOCK_ROWS];
    job->level->fold(job->reduce, result, partial, rows);
    for (size_t r = 0; r < rows; r++)
        dev_store_f32(op->dtype, row_result(job, row + r), result[r]);
}

static void rows_begin_i64(const vector_job_t *job, int64_t partial[VNPU_PARTIALS], size_t row) {
    const vector_operand_t *op = &job->plane[OP_ROWS];
    for (size_t l = 0; l < VNPU_PARTIALS; l++) {
        partial[l] =
            job->continues
                ? dev_load_i64(op->dtype, row_result(job, row) + (int64_t)l * job->lane * op->bytes)
                : dev_int_identity(job->reduce);
    }
}

static void rows_end_i64(const vector_job_t *job, const int64_t partial[VNPU_PARTIALS],
                         size_t row) {
    const vector_operand_t *op = &job->plane[OP_ROWS];
    if (!job->is_partial) {
        dev_store_i64(op->dtype, row_result(job, row), dev_int_fold(job->reduce, partial));
        return;
    }
    for (size_t l = 0; l < VNPU_PARTIALS; l++) {
        dev_store_i64(op->dtype, row_result(job, row) + (int64_t)l * job->lane * op->bytes,
                      partial[l]);
    }
}

static void reduce_i64(vnpu_reduce_t func, int64_t *partial, const int64_t *src, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int64_t *to = &partial[i % VNPU_PARTIALS];
        uint64_t a = (uint64_t)*to, b = (uint64_t)src[i];
        switch (func) {
        case VNPU_R_ADD: *to = (int64_t)(a + b); break;
        case VNPU_R_MUL: *to = (int64_t)(a * b); break;
        case VNPU_R_MAX: *to = *to > src[i] ? *to : src[i]; break;
        case VNPU_R_MIN: *to = *to < src[i] ? *to : src[i]; break;
        case VNPU_R_COUNT: break;
        }
    }
}

/* ---- f32 planes ---- */

static void apply_binary(const vector_job_t *job, vnpu_binary_t func, bool is_reversed,
                         const dev_vec_plane_t *plane, const dev_vec_src_t *a,
                         const dev_vec_src_t *b) {
    job->level->binary[func](plane, is_reversed ? b : a, is_reversed ? a : b);
}

static void apply_f32(const vector_job_t *job, const dev_vec_plane_t *plane,
                      const dev_vec_src_t *src) {
    const vnpu_insn_t *insn = job->insn;
    if (insn->op == VNPU_OP_V_UNARY) {
        job->level->unary[insn->func](plane, &src[0], job->scaling);
    } else if (insn->op == VNPU_OP_V_SELECT) {
        job->level->select(plane, &src[0], &src[1], &src[2]);
    } else if (insn->func2 == VNPU_B_NONE) {
        apply_binary(job, insn->func, insn->flags & VNPU_F_REVERSE, plane, &src[0], &src[1]);
    } else {
        dev_vec_plane_t middle = *plane;
        middle.dst = job->temp[3];
        middle.dst_stride = (int64_t)plane->cols;
        apply_binary(job, insn->func, insn->flags & VNPU_F_REVERSE, &middle, &src[0], &src[1]);
        dev_vec_src_t first = {middle.dst, middle.dst_stride, false};
        apply_binary(job, insn->func2, insn->flags & VNPU_F_REVERSE2, plane, &first, &src[2]);
    }
}

static void block_f32(const vector_job_t *job, float *partial, size_t row, size_t col, size_t rows,
                      size_t cols) {
    const vector_operand_t *dst = &job->plane[OP_DST];
    bool needs_columns = job->insn->op == VNPU_OP_V_UNARY || !job->has_dst;
    dev_vec_src_t src[MAX_SRC] = {0};
    for (uint32_t s = 0; s < job->num_src; s++) {
        src[s] = load_block(job, &job->plane[OP_SRC + s], job->temp[s], row, col, rows, cols,
                            needs_columns);
    }
    if (!job->has_dst) {
        job->level->reduce[job->reduce][job->map](partial, &src[0], rows, cols);
        return;
    }
    bool in_place = is_direct(dst) && dst->col == 1;
    dev_vec_plane_t plane = {
        .dst = job->temp[4], .dst_stride = (int64_t)cols, .rows = rows, .cols = cols};
    if (in_place) {
        plane.dst = (float *)(void *)dst->ptr + (int64_t)row * dst->row + (int64_t)col;
        plane.dst_stride = dst->row;
    }
    apply_f32(job, &plane, src);
    dev_vec_src_t result = {plane.dst, plane.dst_stride, false};
    if (job->has_rows) job->level->reduce[job->reduce][DEV_MAP_COPY](partial, &result, rows, cols);
    for (size_t r = 0; !in_place && r < rows; r++) {
        store_row_f32(job, dst, plane.dst + r * cols, row + r, col, cols);
    }
}

/* One call for the whole plane: everything in place, one function, no sums. */
static bool is_simple(const vector_job_t *job) {
    if (job->has_rows || job->insn->func2 != VNPU_B_NONE) return false;
    if (!is_direct(&job->plane[OP_DST]) || job->plane[OP_DST].col != 1) return false;
    bool needs_columns = job->insn->op == VNPU_OP_V_UNARY;
    for (uint32_t s = 0; s < job->num_src; s++) {
        const vector_operand_t *op = &job->plane[OP_SRC + s];
        if (!is_direct(op) || !(op->col == 1 || (op->col == 0 && !needs_columns))) return false;
    }
    return true;
}

static sim_status_t plane_f32(const vector_job_t *job) {
    if (is_simple(job)) {
        block_f32(job, NULL, 0, 0, job->rows, job->cols);
        return SIM_OK;
    }
    float partial[BLOCK_ROWS * VNPU_PARTIALS];
    size_t width = job->cols < BLOCK ? job->cols : BLOCK;
    size_t height = BLOCK / width;
    if (height > BLOCK_ROWS && job->has_rows) height = BLOCK_ROWS;
    for (size_t row = 0; row < job->rows; row += height) {
        size_t rows = job->rows - row < height ? job->rows - row : height;
        if (job->has_rows) rows_begin_f32(job, partial, row, rows);
        for (size_t col = 0; col < job->cols; col += width) {
            size_t cols = job->cols - col < width ? job->cols - col : width;
            block_f32(job, partial, row, col, rows, cols);
        }
        if (job->has_rows) rows_end_f32(job, partial, row, rows);
    }
    return SIM_OK;
}

/* ---- i64 planes ---- */

static exec_int_fault_t apply_i64(const vector_job_t *job, int64_t *dst, int64_t *const *src,
                                  size_t n) {
    const vnpu_insn_t *insn = job->insn;
    if (insn->op == VNPU_OP_V_UNARY) return exec_int_unary(insn->func, dst, src[0], n);
    if (insn->op == VNPU_OP_V_SELECT) {
        for (size_t i = 0; i < n; i++)
            dst[i] = src[0][i] ? src[1][i] : src[2][i];
        return INT_OK;
    }
    bool swap = insn->flags & VNPU_F_REVERSE, swap2 = insn->flags & VNPU_F_REVERSE2;
    exec_int_fault_t fault =
        exec_int_binary(insn->func, dst, src[swap ? 1 : 0], src[swap ? 0 : 1], n);
    if (fault != INT_OK || insn->func2 == VNPU_B_NONE) return fault;
    return exec_int_binary(insn->func2, dst, swap2 ? src[2] : dst, swap2 ? dst : src[2], n);
}

static exec_int_fault_t map_i64(const vector_job_t *job, int64_t *values, size_t n) {
    static const vnpu_unary_t maps[DEV_MAP_COUNT] = {VNPU_U_COPY, VNPU_U_SQUARE, VNPU_U_ABS,
                                                     VNPU_U_NE0};
    return exec_int_unary(maps[job->map], values, values, n);
}

static sim_status_t fault_i64(const vector_job_t *job, exec_int_fault_t fault) {
    switch (fault) {
    case INT_OK: return SIM_OK;
    case INT_DIVISION_BY_ZERO:
        return exec_fault(job->instance, SIM_ERROR_ILLEGAL_INSTRUCTION, "integer division by zero");
    case INT_UNSUPPORTED: break;
    }
    return exec_fault(job->instance, SIM_ERROR_ILLEGAL_INSTRUCTION,
                      "function %u, %u does not exist for integers", job->insn->func,
                      job->insn->func2);
}

static sim_status_t plane_i64(const vector_job_t *job) {
    int64_t *src[MAX_SRC], *dst = (int64_t *)(void *)job->temp[4], partial[VNPU_PARTIALS];
    for (uint32_t s = 0; s < MAX_SRC; s++)
        src[s] = (int64_t *)(void *)job->temp[s];
    for (size_t row = 0; row < job->rows; row++) {
        if (job->has_rows) rows_begin_i64(job, partial, row);
        for (size_t col = 0; col < job->cols; col += BLOCK) {
            size_t n = job->cols - col < BLOCK ? job->cols - col : BLOCK;
            for (uint32_t s = 0; s < job->num_src; s++) {
                load_row_i64(job, &job->plane[OP_SRC + s], src[s], row, col, n);
            }
            exec_int_fault_t fault =
                job->has_dst ? apply_i64(job, dst, src, n) : map_i64(job, src[0], n);
            if (fault != INT_OK) return fault_i64(job, fault);
            if (job->has_rows) reduce_i64(job->reduce, partial, job->has_dst ? dst : src[0], n);
            if (job->has_dst) store_row_i64(job, &job->plane[OP_DST], dst, row, col, n);
        }
        if (job->has_rows) rows_end_i64(job, partial, row);
    }
    return SIM_OK;
}

/* ---- the walk over planes ---- */

static void bind_plane(vector_job_t *job, uint32_t op, uint32_t slot, int64_t offset) {
    const dev_view_t *view = &job->operand[op].view;
    vector_operand_t *plane = &job->plane[op];
    uint32_t inner = job->walk.ndims - 1;
    plane->is_iota = view->space == VNPU_SPACE_IOTA;
    plane->dtype = view->dtype;
    plane->bytes = view->elem_bytes;
    plane->ptr =
        job->operand[op].ptr ? job->operand[op].ptr + offset * (int64_t)view->elem_bytes : NULL;
    plane->iota = (int64_t)view->base + offset;
    plane->row = inner > 0 ? job->walk.stride[slot][inner - 1] : 0;
    plane->col = job->walk.stride[slot][inner];
    plane->is_aligned = (uintptr_t)plane->ptr % plane->bytes == 0;
}

static sim_status_t for_each_plane(vector_job_t *job) {
    exec_walk_t *walk = &job->walk;
    uint32_t slot_of[WALK_MAX_OPS], outer = walk->ndims > 2 ? walk->ndims - 2 : 0;
    uint32_t slots = 0;
    for (uint32_t op = 0; op < WALK_MAX_OPS; op++) {
        if (job->plane[op].is_used) slot_of[op] = slots++;
    }
    job->cols = walk->size[walk->ndims - 1];
    job->rows = walk->ndims > 1 ? walk->size[walk->ndims - 2] : 1;
    uint64_t index[VNPU_MAX_DIMS] = {0};
    int64_t offset[WALK_MAX_OPS] = {0};
    do {
        for (uint32_t op = 0; op < WALK_MAX_OPS; op++) {
            if (job->plane[op].is_used) bind_plane(job, op, slot_of[op], offset[slot_of[op]]);
        }
        sim_status_t status = job->is_integer ? plane_i64(job) : plane_f32(job);
        if (status != SIM_OK) return status;
    } while (outer > 0 && exec_walk_step(walk, outer, index, offset));
    return SIM_OK;
}

/* Joint dimensions: those of the destination or of the reduced source; row results have none of the
 * innermost. */
static void make_walk(vector_job_t *job) {
    const dev_view_t *shape = &job->operand[job->has_dst ? OP_DST : OP_SRC].view;
    exec_walk_t *walk = &job->walk;
    exec_walk_begin(walk, shape);
    for (uint32_t op = 0; op < OP_ROWS; op++) {
        if (job->plane[op].is_used) exec_walk_add(walk, job->operand[op].view.stride);
    }
    if (job->has_rows) {
        int64_t stride[VNPU_MAX_DIMS] = {0};
        for (uint32_t d = 0; d + 1 < shape->ndims; d++)
            stride[d] = job->operand[OP_ROWS].view.stride[d];
        exec_walk_add(walk, stride);
    }
    exec_walk_merge(walk, job->has_rows ? 1 : 0);
}

static void zero_operand(const exec_operand_t *operand) {
    static const uint8_t zero[8];
    exec_fill(&operand->view, operand->ptr, zero);
}

/* Timing mode: true when there is nothing to compute. Integers made of unknown floats become zero.
 */
static bool is_skipped(vector_job_t *job) {
    if (job->instance->exec->options.mode != DEV_EXEC_TIMING) return false;
    bool has_unknown = false, has_integer = false;
    for (uint32_t s = 0; s < job->num_src; s++) {
        has_unknown |= exec_is_unknown(job->instance, &job->operand[OP_SRC + s]);
    }
    const uint32_t results[2] = {OP_DST, OP_ROWS};
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t op = results[i];
        if (!job->plane[op].is_used || dev_is_float(job->operand[op].view.dtype)) continue;
        has_integer = true;
        if (has_unknown) zero_operand(&job->operand[op]);
    }
    return has_unknown || !has_integer;
}

static sim_status_t add_operand(vector_job_t *job, uint32_t op, uint16_t ap, exec_access_t access) {
    job->plane[op].is_used = true;
    return exec_operand_make(job->instance, ap, access, &job->operand[op]);
}

static sim_status_t check_function(const vector_job_t *job) {
    const vnpu_insn_t *insn = job->insn;
    if (job->is_integer || !job->has_dst || insn->op == VNPU_OP_V_SELECT) return SIM_OK;
    bool exists;
    if (insn->op == VNPU_OP_V_UNARY) {
        exists = insn->func < VNPU_U_COUNT && job->level->unary[insn->func];
    } else {
        exists = insn->func < VNPU_B_COUNT && job->level->binary[insn->func] &&
                 insn->func2 < VNPU_B_COUNT &&
                 (insn->func2 == VNPU_B_NONE || job->level->binary[insn->func2]);
    }
    if (exists) return SIM_OK;
    return exec_fault(job->instance, SIM_ERROR_ILLEGAL_INSTRUCTION,
                      "function %u, %u does not exist for floats", insn->func, insn->func2);
}

static exec_access_t rows_access(const vector_job_t *job) {
    return job->continues ? ACCESS_UPDATE : ACCESS_WRITE;
}

static sim_status_t elementwise(vector_job_t *job) {
    const vnpu_insn_t *insn = job->insn;
    job->has_dst = true;
    job->num_src = insn->op == VNPU_OP_V_UNARY ? 1 : insn->op == VNPU_OP_V_SELECT ? 3 : 2;
    if (insn->op == VNPU_OP_V_BINARY && insn->func2 != VNPU_B_NONE) job->num_src = 3;
    sim_status_t status = SIM_OK;
    for (uint32_t s = 0; s < job->num_src && status == SIM_OK; s++) {
        status = add_operand(job, OP_SRC + s, insn->src[s], ACCESS_READ);
    }
    if (status == SIM_OK) status = add_operand(job, OP_DST, insn->dst, ACCESS_WRITE);
    job->has_rows = insn->op != VNPU_OP_V_SELECT && insn->src[3] != VNPU_NO_AP;
    if (status == SIM_OK && job->has_rows) {
        job->reduce = VNPU_R_ADD;
        status = add_operand(job, OP_ROWS, insn->src[3], rows_access(job));
    }
    if (insn->flags & VNPU_F_SCALE) {
        job->scale[0] = dev_bits_f32(insn->imm[0]);
        job->scale[1] = dev_bits_f32(insn->imm[1]);
        job->scaling = job->scale;
    }
    return status == SIM_OK ? check_function(job) : status;
}

static sim_status_t reduction(vector_job_t *job) {
    const vnpu_insn_t *insn = job->insn;
    job->has_rows = true;
    job->num_src = 1;
    job->reduce = (vnpu_reduce_t)insn->func;
    switch (insn->op == VNPU_OP_V_REDUCE ? (vnpu_unary_t)insn->func2 : VNPU_U_COPY) {
    case VNPU_U_SQUARE: job->map = DEV_MAP_SQUARE; break;
    case VNPU_U_ABS: job->map = DEV_MAP_ABS; break;
    case VNPU_U_NE0: job->map = DEV_MAP_NE0; break;
    default: job->map = DEV_MAP_COPY; break; /* the validator lets no other through */
    }
    sim_status_t status = add_operand(job, OP_SRC, insn->src[0], ACCESS_READ);
    if (status == SIM_OK) status = add_operand(job, OP_ROWS, insn->dst, rows_access(job));
    return status;
}

sim_status_t exec_vector(exec_instance_t *instance) {
    const vnpu_insn_t *insn = instance->insn;
    exec_worker_t *worker = instance->worker;
    vector_job_t job; /* large: only what is read is set */
    job.instance = instance;
    job.level = instance->exec->level;
    job.insn = insn;
    job.is_integer = insn->flags & VNPU_F_INTEGER;
    job.has_dst = job.has_rows = false;
    job.reduce = VNPU_R_ADD;
    job.map = DEV_MAP_COPY;
    job.scaling = NULL;
    job.lane = 0;
    for (uint32_t op = 0; op < WALK_MAX_OPS; op++)
        job.plane[op].is_used = false;
    bool reduces = insn->op == VNPU_OP_V_REDUCE || insn->op == VNPU_OP_V_FOLD;
    job.is_partial = (insn->flags & VNPU_F_PARTIAL) && insn->op != VNPU_OP_V_FOLD;
    job.continues = job.is_partial && dev_cursor_accumulates(instance->cursor, insn);
    sim_status_t status = reduces ? reduction(&job) : elementwise(&job);
    if (status != SIM_OK) return status;
    for (uint32_t t = 0; t < 5; t++)
        job.temp[t] = worker->vector_temp + t * BLOCK * 2;
    if (job.has_rows && job.is_partial) {
        const dev_view_t *view = &job.operand[OP_ROWS].view;
        job.lane = view->stride[view->ndims - 1];
    }
    if (job.operand[job.has_dst ? OP_DST : OP_SRC].view.count == 0) return SIM_OK;
    if (is_skipped(&job)) return SIM_OK;
    make_walk(&job);
    return for_each_plane(&job);
}
