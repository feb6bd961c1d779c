#include "sim/sim_dma_pieces.h"

bool sim_dma_pieces_begin_command(const sim_dma_pieces_t *pieces, const sim_dma_piece_t *piece) {
    uint32_t most = pieces->spec->command_runs;
    return most > 0 && piece->begins_run && (piece->begins_line || pieces->runs == most);
}

/* What memory sees of a piece: the same, or the aligned block that it lies in. */
static void align(const sim_dma_spec_t *spec, sim_dma_piece_t *piece, sim_dma_piece_t *out_block) {
    *out_block = *piece;
    if (!spec->aligned_requests) return;
    uint64_t useful = 0;
    for (uint64_t size = spec->bytes_per_cycle; size <= spec->request_bytes; size *= 2) {
        uint64_t start = piece->address & ~(size - 1), holds = start + size - piece->address;
        if (holds > piece->bytes) holds = piece->bytes;
        if (holds <= useful) continue;
        useful = holds;
        out_block->address = start;
        out_block->bytes = size;
    }
    piece->bytes = useful;
}

/* Runs of the command that are the same as the one just taken. */
static void skip_repeats(sim_dma_pieces_t *pieces, const sim_dma_piece_t *taken) {
    sim_dma_piece_t next;
    while (sim_dma_walk_peek(&pieces->walk, pieces->spec->request_bytes, &next) &&
           next.begins_run && !sim_dma_pieces_begin_command(pieces, &next) &&
           next.address == taken->address && next.bytes == taken->bytes) {
        sim_dma_walk_take(&pieces->walk, &next);
        pieces->repeated += next.bytes;
        pieces->runs++;
    }
}

/* A run begins in a word of its own. */
static uint64_t word_bytes(const sim_dma_spec_t *spec, uint64_t offset, uint64_t bytes) {
    uint64_t word = spec->local_word_bytes;
    return word == 0 ? 0 : (offset % word + bytes + word - 1) / word * word;
}

bool sim_dma_pieces_next(sim_dma_pieces_t *pieces, sim_dma_piece_t *out_piece,
                         sim_dma_piece_t *out_block) {
    const sim_dma_spec_t *spec = pieces->spec;
    if (spec->aligned_requests && pieces->bytes > 0) return false;
    if (!sim_dma_walk_peek(&pieces->walk, spec->request_bytes, out_piece)) return false;
    bool is_next = sim_dma_pieces_begin_command(pieces, out_piece);
    if (is_next && pieces->bytes > 0) return false;
    align(spec, out_piece, out_block);
    if (pieces->bytes + out_block->bytes > spec->request_bytes) return false;
    pieces->bytes += out_block->bytes;
    out_piece->word_bytes = word_bytes(spec, pieces->walk.offset, out_piece->bytes);
    if (out_piece->begins_run) pieces->runs = is_next ? 1 : pieces->runs + 1;
    sim_dma_walk_take(&pieces->walk, out_piece);
    if (spec->command_runs > 0) skip_repeats(pieces, out_piece);
    return true;
}
