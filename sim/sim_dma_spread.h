/*
 * What of a DMA request lies behind which port of the interconnect: memory endpoints of DRAM
 * channels, or the cores that hold pages of the shared scratchpad memory. Private to sim_dma*.c.
 */
#ifndef SIM_DMA_SPREAD_H
#define SIM_DMA_SPREAD_H

#include "sim/sim_dma_pieces.h"

#define SIM_DMA_MAX_ENDPOINTS 64u

/* Bytes of a request by port. */
typedef struct sim_dma_spread {
    uint32_t count;
    struct {
        uint32_t port;
        uint64_t bytes;
    } part[SIM_DMA_MAX_ENDPOINTS];
} sim_dma_spread_t;

/* dram NULL: all at the first endpoint. shared not NULL: the request lies there. */
typedef struct sim_dma_sides {
    const sim_dram_t *dram;
    const sim_shared_t *shared;
    const sim_noc_t *noc;
} sim_dma_sides_t;

/* The request of `bytes` that `pieces` begins. More ports than SIM_DMA_MAX_ENDPOINTS: the last part
 * stands for the rest. */
void sim_dma_spread(const sim_dma_sides_t *sides, sim_dma_pieces_t *pieces, uint64_t bytes,
                    sim_dma_spread_t *out_spread);

#endif
