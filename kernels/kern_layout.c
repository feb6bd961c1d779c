#include "kernels/kern_internal.h"

/* Storage in tiles: the two minor dimensions are whole tiles, chosen so that they pad least. */

static int64_t round_up(int64_t size, int64_t unit) {
    return (size + unit - 1) / unit * unit;
}

static int64_t product(uint32_t ndims, const int64_t *size) {
    int64_t elems = 1;
    for (uint32_t d = 0; d < ndims; d++)
        elems *= size[d];
    return elems;
}

/* The dimensions in order without `rows` and `cols`, then these two in whole tiles. */
static void order(const uint32_t tile[2], uint32_t ndims, const int64_t *size, uint32_t rows,
                  uint32_t cols, int64_t *out) {
    uint32_t count = 0;
    for (uint32_t d = 0; d < ndims; d++) {
        if (d != rows && d != cols) out[count++] = size[d];
    }
    out[count++] = round_up(size[rows], tile[0]);
    out[count] = round_up(size[cols], tile[1]);
}

static bool is_better(uint32_t ndims, const int64_t *size, const int64_t *than) {
    int64_t mine = product(ndims, size), other = product(ndims, than);
    for (uint32_t d = 0; mine == other && d < ndims; d++) {
        if (size[d] != than[d]) return size[d] < than[d];
    }
    return mine < other;
}

void kern_stored_sizes(const kern_context_t *context, uint32_t ndims, const int64_t *size,
                       int64_t *out_size) {
    uint32_t tile[2] = {context->machine.layout_tile[0], context->machine.layout_tile[1]};
    for (uint32_t d = 0; d < ndims; d++)
        out_size[d] = size[d];
    if (ndims == 0 || tile[0] == 0 || (tile[0] == 1 && tile[1] == 1)) return;
    int64_t whole = (int64_t)tile[0] * tile[1];
    if (ndims == 1) { /* a vector fills tiles row by row; a short one takes a part of a tile */
        out_size[0] = round_up(size[0], size[0] < whole ? tile[1] : whole);
        return;
    }
    int64_t best[KERN_MAX_DIMS] = {0}, trial[KERN_MAX_DIMS] = {0};
    for (uint32_t rows = 0; rows < ndims; rows++) {
        for (uint32_t cols = 0; cols < ndims; cols++) {
            if (rows == cols) continue;
            order(tile, ndims, size, rows, cols, trial);
            bool is_first = rows == 0 && cols == 1;
            if (!is_first && !is_better(ndims, trial, best)) continue;
            for (uint32_t d = 0; d < ndims; d++)
                best[d] = trial[d];
        }
    }
    for (uint32_t d = 0; d < ndims; d++)
        out_size[d] = best[d];
}

int64_t kern_stored_columns(const kern_context_t *context, int64_t size) {
    uint32_t cols = context->machine.layout_tile[1];
    return cols == 0 ? size : round_up(size, cols);
}
