#include "sim/sim_dma_walk.h"

#include <stddef.h>

#include "sim/sim_status.h"

void sim_dma_walk_strided(sim_dma_walk_t *walk, uint64_t base, uint32_t ndims, const uint32_t *size,
                          const int64_t *stride, uint64_t run_bytes, bool merges) {
    if (ndims > SIM_DMA_MAX_DIMS) sim_bug("sim_dma", 0, "a walk of %u dimensions", ndims);
    *walk = (sim_dma_walk_t){.address = base, .run_bytes = run_bytes, .runs_left = run_bytes > 0};
    for (uint32_t i = 0; i < ndims; i++)
        walk->runs_left *= size[i];
    if (walk->runs_left == 0) return;
    while (ndims > 0 &&
           (size[ndims - 1] == 1 || (merges && stride[ndims - 1] == (int64_t)walk->run_bytes))) {
        walk->run_bytes *= size[ndims - 1];
        walk->runs_left /= size[ndims - 1];
        ndims--;
    }
    walk->ndims = ndims;
    for (uint32_t i = 0; i < ndims; i++) {
        walk->size[i] = size[i];
        walk->stride[i] = stride[i];
    }
}

void sim_dma_walk_rows(sim_dma_walk_t *walk, const uint64_t *row_address, uint64_t row_count,
                       uint64_t run_bytes) {
    *walk = (sim_dma_walk_t){.run_bytes = run_bytes, .runs_left = run_bytes > 0 ? row_count : 0};
    if (walk->runs_left == 0) return;
    walk->address = row_address[0];
    walk->row_address = row_address + 1;
}

static bool is_first_of_line(const sim_dma_walk_t *walk) {
    return walk->row_address == NULL && walk->ndims > 0 && walk->index[walk->ndims - 1] == 0;
}

/* Stretches are cut into runs, and these come block by block. */
static bool has_blocks(const sim_dma_walk_t *walk) {
    return walk->rows > 0 && walk->longest > 0 && walk->run_bytes > walk->longest &&
           walk->ndims > 0 && walk->row_address == NULL;
}

bool sim_dma_walk_peek(const sim_dma_walk_t *walk, uint64_t limit, sim_dma_piece_t *out_piece) {
    if (walk->runs_left == 0) return false;
    uint64_t left = walk->run_bytes - walk->offset;
    uint64_t within = walk->longest > 0 ? walk->offset % walk->longest : walk->offset;
    bool begins_block = has_blocks(walk) && within == 0 && walk->row == 0;
    if (walk->longest > 0 && left > walk->longest - within) left = walk->longest - within;
    bool begins_line = walk->offset == 0 && is_first_of_line(walk);
    *out_piece = (sim_dma_piece_t){.address = walk->address + walk->offset,
                                   .bytes = left < limit ? left : limit,
                                   .begins_run = within == 0,
                                   .begins_line = begins_line || begins_block};
    return true;
}

static void next_run(sim_dma_walk_t *walk) {
    walk->offset = 0;
    if (--walk->runs_left == 0) return;
    if (walk->row_address != NULL) {
        walk->address = *walk->row_address++;
        return;
    }
    for (uint32_t i = walk->ndims; i-- > 0;) {
        walk->address += (uint64_t)walk->stride[i];
        if (++walk->index[i] < walk->size[i]) return;
        walk->address -= (uint64_t)walk->stride[i] * walk->size[i];
        walk->index[i] = 0;
    }
}

/* The run of a block is over: the same part of the next stretch, or the next part of them all. */
static void next_of_block(sim_dma_walk_t *walk) {
    uint32_t line = walk->ndims - 1;
    bool has_next = walk->row + 1 < walk->rows && walk->index[line] + 1 < walk->size[line];
    if (has_next) {
        walk->row++, walk->index[line]++;
        walk->address += (uint64_t)walk->stride[line];
        walk->offset = walk->chunk;
        return;
    }
    if (walk->offset < walk->run_bytes) {
        walk->chunk = walk->offset;
        walk->address -= (uint64_t)walk->stride[line] * walk->row;
        walk->index[line] -= walk->row;
        walk->row = 0;
        return;
    }
    walk->runs_left -= walk->row;
    walk->row = 0;
    walk->chunk = 0;
    next_run(walk);
}

void sim_dma_walk_take(sim_dma_walk_t *walk, const sim_dma_piece_t *piece) {
    walk->offset += piece->bytes;
    if (has_blocks(walk)) {
        uint64_t end = walk->chunk + walk->longest;
        if (walk->offset == walk->run_bytes || walk->offset == end) next_of_block(walk);
        return;
    }
    if (walk->offset == walk->run_bytes) next_run(walk);
}
