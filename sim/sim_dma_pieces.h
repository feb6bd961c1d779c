/*
 * What one request of a DMA engine holds: pieces of the runs of a transfer, cut where runs,
 * commands and the largest request end. Private to sim_dma*.c.
 */
#ifndef SIM_DMA_PIECES_H
#define SIM_DMA_PIECES_H

#include "sim/sim_dma.h"

/* From the front of `walk` on. */
typedef struct sim_dma_pieces {
    const sim_dma_spec_t *spec;
    sim_dma_walk_t walk;
    uint64_t bytes;
    uint32_t runs;     /* of the command, so far */
    uint64_t repeated; /* bytes that were there already */
} sim_dma_pieces_t;

/* Whether a command begins with `piece`, which comes next. */
bool sim_dma_pieces_begin_command(const sim_dma_pieces_t *pieces, const sim_dma_piece_t *piece);
/* The next piece, and the block of it that memory sees; false: the request ends. Short runs share a
 * request whole, long ones are cut; an aligned request is one piece. */
bool sim_dma_pieces_next(sim_dma_pieces_t *pieces, sim_dma_piece_t *out_piece,
                         sim_dma_piece_t *out_block);

#endif
