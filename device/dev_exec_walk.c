#include "device/dev_exec_internal.h"

void exec_walk_begin(exec_walk_t *walk, const dev_view_t *shape) {
    walk->ndims = shape->ndims;
    walk->ops = 0;
    for (uint32_t d = 0; d < shape->ndims; d++)
        walk->size[d] = shape->size[d];
}

void exec_walk_add(exec_walk_t *walk, const int64_t *stride) {
    for (uint32_t d = 0; d < walk->ndims; d++)
        walk->stride[walk->ops][d] = stride[d];
    walk->ops++;
}

static void move_dim(exec_walk_t *walk, uint32_t to, uint32_t from) {
    walk->size[to] = walk->size[from];
    for (uint32_t o = 0; o < walk->ops; o++)
        walk->stride[o][to] = walk->stride[o][from];
}

/* Dimension `outer` steps over the whole of dimension `inner` in every operand. */
static bool continues(const exec_walk_t *walk, uint32_t outer, uint32_t inner) {
    for (uint32_t o = 0; o < walk->ops; o++) {
        if (walk->stride[o][outer] != walk->stride[o][inner] * (int64_t)walk->size[inner])
            return false;
    }
    return true;
}

void exec_walk_merge(exec_walk_t *walk, uint32_t keep) {
    uint32_t kept = 0, last = walk->ndims - keep; /* dims [last, ndims) stay apart */
    for (uint32_t d = 0; d < last; d++) {
        if (walk->size[d] == 1) continue;
        if (kept > 0 && continues(walk, kept - 1, d)) {
            uint64_t size = walk->size[kept - 1] * walk->size[d];
            move_dim(walk, kept - 1, d);
            walk->size[kept - 1] = size;
        } else {
            move_dim(walk, kept++, d);
        }
    }
    for (uint32_t d = last; d < walk->ndims; d++)
        move_dim(walk, kept++, d);
    if (kept == 0) {
        walk->size[0] = 1;
        for (uint32_t o = 0; o < walk->ops; o++)
            walk->stride[o][0] = 1;
        kept = 1;
    }
    walk->ndims = kept;
}

bool exec_walk_step(const exec_walk_t *walk, uint32_t ndims, uint64_t *index, int64_t *offset) {
    for (uint32_t d = ndims; d-- > 0;) {
        if (++index[d] < walk->size[d]) {
            for (uint32_t o = 0; o < walk->ops; o++)
                offset[o] += walk->stride[o][d];
            return true;
        }
        index[d] = 0;
        for (uint32_t o = 0; o < walk->ops; o++) {
            offset[o] -= walk->stride[o][d] * (int64_t)(walk->size[d] - 1);
        }
    }
    return false;
}
