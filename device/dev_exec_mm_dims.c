/*
 * Matrix products whose operands have several dimensions of k or n: windows of a padded tile,
 * weights by kernel position. What is no matrix in memory is first copied to one, in the type that
 * it has and in the order of its dimensions; the product is then that of plain matrices, so it is
 * the same chain of multiply-adds, k ascending over the dimensions of k in order.
 */
#include "device/dev_exec_internal.h"

#define BLOCK_ROWS 128u /* of a copied left operand, at most */
#define BLOCK_COLS 256u /* of a copied right operand */

/* Dimensions [from, to) of a view as one: its size, and its stride if there is one. */
typedef struct side {
    uint64_t size;
    int64_t stride;
    bool is_regular;
} side_t;

static side_t side_of(const dev_view_t *view, uint32_t from, uint32_t to) {
    side_t side = {.size = 1, .stride = 1, .is_regular = true};
    for (uint32_t d = to; d-- > from;) {
        if (view->size[d] == 1) continue;
        if (side.size == 1) {
            side.stride = view->stride[d];
        } else if (view->stride[d] != side.stride * (int64_t)side.size) {
            side.is_regular = false;
        }
        side.size *= view->size[d];
    }
    return side;
}

/* An operand [outer dims][inner dims]: as it lies in memory, or dense copies of parts of it. */
typedef struct plane {
    const exec_operand_t *operand;
    uint32_t split; /* inner dimensions start here */
    side_t outer, inner;
    bool is_matrix;
} plane_t;

static plane_t plane_of(const exec_operand_t *operand, uint32_t split) {
    plane_t plane = {.operand = operand,
                     .split = split,
                     .outer = side_of(&operand->view, 0, split),
                     .inner = side_of(&operand->view, split, operand->view.ndims)};
    plane.is_matrix = plane.outer.is_regular && plane.inner.is_regular;
    return plane;
}

/* `view` cut along dimension `dim` to [from, from + count); returns the elements skipped. */
static int64_t cut(dev_view_t *view, uint32_t dim, uint64_t from, uint64_t count) {
    view->count = view->count / view->size[dim] * count;
    view->size[dim] = (uint32_t)count;
    return (int64_t)from * view->stride[dim];
}

static void make_dense(dev_view_t *view) {
    int64_t stride = 1;
    for (uint32_t d = view->ndims; d-- > 0;) {
        view->stride[d] = stride;
        stride *= view->size[d];
    }
}

/* The operand with dimension `dim` cut to [from, from + count), as a matrix. */
static exec_matrix_t matrix_of(exec_worker_t *worker, const plane_t *plane, uint32_t dim,
                               uint64_t from, uint64_t count, int scratch) {
    dev_view_t part = plane->operand->view;
    const uint8_t *ptr = plane->operand->ptr + cut(&part, dim, from, count) * part.elem_bytes;
    exec_matrix_t matrix = {.ptr = ptr,
                            .dtype = part.dtype,
                            .bytes = part.elem_bytes,
                            .row = plane->outer.stride,
                            .col = plane->inner.stride};
    if (plane->is_matrix) return matrix;
    dev_view_t dense = part;
    make_dense(&dense);
    uint8_t *copy = exec_scratch(worker, scratch, part.count * part.elem_bytes);
    exec_copy(worker, &dense, copy, &part, ptr, COPY_PLAIN);
    matrix.ptr = copy;
    matrix.row = (int64_t)side_of(&part, plane->split, part.ndims).size;
    matrix.col = 1;
    return matrix;
}

/* Elements of dimension `dim` to take at a time, so that about `most` of the side are taken. */
static uint64_t step_of(const plane_t *plane, uint32_t dim, uint64_t side_size, uint64_t most) {
    uint64_t size = plane->operand->view.size[dim], others = side_size / size;
    if (plane->is_matrix || side_size <= most) return size;
    uint64_t step = most / others;
    return step == 0 ? 1 : step;
}

/* One block of the result: rows dims [0, split) and columns of `dst`, dense where it is no matrix.
 */
static void multiply(exec_worker_t *worker, const dev_view_t *part, uint8_t *ptr, uint32_t split,
                     const exec_matrix_t *left, const exec_matrix_t *right, uint64_t k,
                     bool accumulate) {
    side_t rows = side_of(part, 0, split), cols = side_of(part, split, part->ndims);
    if (rows.is_regular && cols.is_regular) {
        exec_mm_strided(worker, ptr, rows.stride, cols.stride, left, right, rows.size, cols.size, k,
                        accumulate);
        return;
    }
    dev_view_t dense = *part;
    make_dense(&dense);
    uint8_t *sums = exec_scratch(worker, SCRATCH_RESULT, part->count * part->elem_bytes);
    if (accumulate) exec_copy(worker, &dense, sums, part, ptr, COPY_PLAIN);
    exec_mm_strided(worker, sums, (int64_t)cols.size, 1, left, right, rows.size, cols.size, k,
                    accumulate);
    exec_copy(worker, part, ptr, &dense, sums, COPY_PLAIN);
}

void exec_mm_dims(exec_worker_t *worker, const exec_operand_t *dst, const exec_operand_t *a,
                  const exec_operand_t *b, uint32_t k_dims, bool accumulate) {
    uint32_t m_dims = a->view.ndims - k_dims;
    plane_t left = plane_of(a, m_dims), right = plane_of(b, k_dims);
    uint64_t k = left.inner.size;
    uint32_t n_dim = k_dims; /* outermost dimension of n in b; in dst it is dimension m_dims */
    uint64_t rows = a->view.size[0], cols = b->view.size[n_dim];
    uint64_t row_step = step_of(&left, 0, left.outer.size, BLOCK_ROWS);
    uint64_t col_step = step_of(&right, n_dim, right.inner.size, BLOCK_COLS);
    for (uint64_t j = 0; j < cols; j += col_step) {
        uint64_t width = cols - j < col_step ? cols - j : col_step;
        exec_matrix_t columns = matrix_of(worker, &right, n_dim, j, width, SCRATCH_RIGHT);
        for (uint64_t i = 0; i < rows; i += row_step) {
            uint64_t height = rows - i < row_step ? rows - i : row_step;
            exec_matrix_t lines = matrix_of(worker, &left, 0, i, height, SCRATCH_LEFT);
            dev_view_t part = dst->view;
            int64_t skipped = cut(&part, 0, i, height);
            skipped += cut(&part, m_dims, j, width);
            multiply(worker, &part, dst->ptr + skipped * part.elem_bytes, m_dims, &lines, &columns,
                     k, accumulate);
        }
    }
}
