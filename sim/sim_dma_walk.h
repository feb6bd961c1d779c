/* The runs of a transfer, one after the other: a strided walk over up to five dimensions, or a list
 * of addresses. */
#ifndef SIM_DMA_WALK_H
#define SIM_DMA_WALK_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_DMA_MAX_DIMS 5u

typedef struct sim_dma_walk {
    uint64_t address; /* of the current run */
    uint64_t run_bytes, runs_left, offset;
    uint64_t longest; /* longer stretches are several runs, from their start on; 0: any length */
    /* > 0: of so many longer stretches of a line the first runs come first, then the second, ... */
    uint32_t rows;
    uint32_t row;                /* of those, at work */
    uint64_t chunk;              /* where in the stretch they begin */
    const uint64_t *row_address; /* the next one; NULL: strided */
    uint32_t ndims;
    uint32_t size[SIM_DMA_MAX_DIMS], index[SIM_DMA_MAX_DIMS];
    int64_t stride[SIM_DMA_MAX_DIMS];
} sim_dma_walk_t;

/* A part of one run. */
typedef struct sim_dma_piece {
    uint64_t address, bytes;
    uint64_t word_bytes; /* of the scratchpad's words that it touches; set by sim_dma_pieces.c */
    bool begins_run, begins_line; /* line: the runs of the innermost dimension, or of a block */
} sim_dma_piece_t;

/* Dimension 0 is the outermost; a dimension of size 0 or run_bytes 0: no runs. merges: inner
 * dimensions that continue the run without a gap become part of it. */
void sim_dma_walk_strided(sim_dma_walk_t *walk, uint64_t base, uint32_t ndims, const uint32_t *size,
                          const int64_t *stride, uint64_t run_bytes, bool merges);
/* row_address is borrowed. */
void sim_dma_walk_rows(sim_dma_walk_t *walk, const uint64_t *row_address, uint64_t row_count,
                       uint64_t run_bytes);
/* What comes next, at most `limit` bytes of it and of one run; false at the end. */
bool sim_dma_walk_peek(const sim_dma_walk_t *walk, uint64_t limit, sim_dma_piece_t *out_piece);
/* Steps over a piece. */
void sim_dma_walk_take(sim_dma_walk_t *walk, const sim_dma_piece_t *piece);

#endif
