#include "sim/sim_dma_spread.h"

static void add(sim_dma_spread_t *spread, uint32_t port, uint64_t bytes) {
    uint32_t i = 0;
    while (i < spread->count && spread->part[i].port != port)
        i++;
    if (i == SIM_DMA_MAX_ENDPOINTS) i--;
    if (i == spread->count) {
        spread->part[i].port = port;
        spread->part[i].bytes = 0;
        spread->count++;
    }
    spread->part[i].bytes += bytes;
}

/* The port behind which `address` lies; *bytes: so many from there on do, as it was where that is
 * all. */
static uint32_t port_at(const sim_dma_sides_t *sides, uint64_t address, uint64_t *bytes) {
    if (sides->shared != NULL) return sim_shared_core_at(sides->shared, address, bytes);
    uint32_t channel = 0;
    if (sides->dram != NULL) channel = sim_dram_channel_at(sides->dram, address, bytes);
    return sim_noc_memory_port(sides->noc, channel);
}

static void add_piece(const sim_dma_sides_t *sides, sim_dma_spread_t *spread,
                      sim_dma_piece_t piece) {
    while (piece.bytes > 0) {
        uint64_t run = piece.bytes;
        uint32_t port = port_at(sides, piece.address, &run);
        if (run > piece.bytes) run = piece.bytes;
        add(spread, port, run);
        piece.address += run;
        piece.bytes -= run;
    }
}

void sim_dma_spread(const sim_dma_sides_t *sides, sim_dma_pieces_t *pieces, uint64_t bytes,
                    sim_dma_spread_t *out_spread) {
    out_spread->count = 0;
    if (sides->shared == NULL && sim_noc_memory_ports(sides->noc) == 1) {
        add(out_spread, sim_noc_memory_port(sides->noc, 0), bytes);
        return;
    }
    sim_dma_piece_t piece, block;
    while (sim_dma_pieces_next(pieces, &piece, &block))
        add_piece(sides, out_spread, block);
}
