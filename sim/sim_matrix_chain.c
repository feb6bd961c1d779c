#include "sim/sim_matrix_chain.h"

#include <string.h>

static uint64_t max64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static uint64_t min64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static void push(sim_chain_t *chain, uint32_t buffers, uint64_t left) {
    for (uint32_t i = 1; i < buffers; i++)
        chain->buffer[i - 1] = chain->buffer[i];
    chain->buffer[buffers - 1] = left;
}

/* When the buffer of fold `fold` - n was left. Folds count from the last one in buffer[], 0; later
 * ones follow it by `period` each. */
static uint64_t left_before(const sim_chain_t *chain, uint32_t buffers, uint64_t fold,
                            uint64_t period) {
    if (fold <= buffers) return chain->buffer[fold - 1];
    return chain->buffer[buffers - 1] + (fold - buffers) * period;
}

/*
 * After the first n folds of a run every buffer was last used by a fold of the same kind. Then
 *   load <= stream: nothing is exposed, streams follow each other; the port runs ahead until the
 *                   buffers are full,
 *   load >  stream: the port never waits for a buffer (fold i - n left before load i - 1 ended), so
 *                   loads follow each other; a stream follows the one before it or its own load.
 */
void sim_chain_loads(sim_chain_t *chain, uint32_t buffers, uint64_t count, uint64_t load,
                     uint64_t stream) {
    uint64_t stepped = min64(count, buffers), rest = count - stepped;
    for (uint64_t i = 0; i < stepped; i++) {
        chain->port = max64(chain->port, chain->buffer[0]) + load;
        chain->streamed = max64(chain->streamed, chain->port) + stream;
        push(chain, buffers, chain->streamed);
    }
    if (rest == 0) return;
    const sim_chain_t from = *chain;
    bool is_serial = buffers == 1, is_stream_bound = !is_serial && load <= stream;
    for (uint64_t i = rest - min64(rest, buffers) + 1; i <= rest; i++) {
        uint64_t streamed = from.streamed + i * stream;
        if (is_serial) streamed += i * load;
        if (!is_serial && !is_stream_bound)
            streamed = max64(streamed, from.port + i * load + stream);
        push(chain, buffers, streamed);
    }
    chain->streamed = chain->buffer[buffers - 1];
    chain->port = from.port + rest * load;
    if (is_serial) chain->port = chain->streamed - stream;
    if (is_stream_bound)
        chain->port = max64(chain->port, left_before(&from, buffers, rest, stream) + load);
}

/*
 * The mirror image. After the first n folds
 *   drain <= stream: nothing waits for a buffer; a drain follows the one before it or its stream,
 *   drain >  stream: the port is always busy; a stream follows the one before it or a drained
 *                    buffer.
 */
void sim_chain_drains(sim_chain_t *chain, uint32_t buffers, uint64_t count, uint64_t drain,
                      uint64_t stream) {
    uint64_t stepped = min64(count, buffers), rest = count - stepped;
    for (uint64_t i = 0; i < stepped; i++) {
        chain->streamed = max64(chain->streamed, chain->buffer[0]) + stream;
        chain->port = max64(chain->port, chain->streamed) + drain;
        push(chain, buffers, chain->port);
    }
    if (rest == 0) return;
    const sim_chain_t from = *chain;
    bool is_serial = buffers == 1, is_stream_bound = !is_serial && drain <= stream;
    for (uint64_t i = rest - min64(rest, buffers) + 1; i <= rest; i++) {
        uint64_t drained = from.port + i * drain;
        if (is_serial) drained += i * stream;
        if (is_stream_bound) drained = max64(drained, from.streamed + i * stream + drain);
        push(chain, buffers, drained);
    }
    chain->port = chain->buffer[buffers - 1];
    chain->streamed = from.streamed + rest * stream;
    if (is_serial) chain->streamed = chain->port - drain;
    if (!is_serial && !is_stream_bound)
        chain->streamed = max64(chain->streamed, left_before(&from, buffers, rest, drain) + stream);
}

static void run(sim_chain_t *chain, const sim_matrix_spec_t *spec, uint64_t count, uint64_t port,
                uint64_t stream) {
    if (spec->dataflow == SIM_OUTPUT_STATIONARY)
        sim_chain_drains(chain, spec->weight_buffers, count, port, stream);
    else
        sim_chain_loads(chain, spec->weight_buffers, count, port, stream);
}

void sim_chain_shift(sim_chain_t *chain, uint32_t buffers, uint64_t cycles) {
    chain->streamed += cycles;
    chain->port += cycles;
    for (uint32_t i = 0; i < buffers; i++)
        chain->buffer[i] += cycles;
}

/* The same but for a shift: what follows is the same too. */
static bool is_shifted(const sim_chain_t *a, const sim_chain_t *b, uint32_t buffers) {
    uint64_t shift = b->streamed - a->streamed;
    sim_chain_t moved = *a;
    sim_chain_shift(&moved, buffers, shift);
    return memcmp(&moved, b, sizeof moved) == 0;
}

static uint64_t beside(const sim_folds_t *folds, uint64_t load) {
    return folds->stream + (load > folds->piece ? load - folds->piece : 0);
}

/* Nothing hides behind anything but a load behind a piece: folds add up. */
static void product_beside(sim_chain_t *chain, uint32_t buffers, const sim_folds_t *folds,
                           uint64_t done) {
    uint64_t full = folds->col_folds * (folds->row_folds - 1), last = folds->col_folds;
    if (folds->row_folds > 1)
        full -= done;
    else
        last -= done;
    chain->streamed += full * beside(folds, folds->full) + last * beside(folds, folds->last);
    chain->port = chain->streamed - folds->piece;
    for (uint32_t i = 0; i < buffers; i++)
        chain->buffer[i] = i + 1 < buffers ? chain->port : chain->streamed;
}

void sim_chain_product(sim_chain_t *chain, const sim_matrix_spec_t *spec, const sim_folds_t *folds,
                       uint64_t done) {
    if (spec->loads_beside_piece) {
        product_beside(chain, spec->weight_buffers, folds, done);
        return;
    }
    if (folds->full == folds->last) {
        run(chain, spec, folds->row_folds * folds->col_folds - done, folds->full, folds->stream);
        return;
    }
    for (uint64_t column = 0; column < folds->col_folds; column++) {
        const sim_chain_t before = *chain;
        uint64_t left = column == 0 ? done : 0;
        run(chain, spec, folds->row_folds - 1 - left, folds->full, folds->stream);
        run(chain, spec, 1, folds->last, folds->stream);
        /* Columns repeat as soon as one ends as it began, mostly the second. */
        if (column == 0 || !is_shifted(&before, chain, spec->weight_buffers)) continue;
        uint64_t rest = folds->col_folds - 1 - column;
        sim_chain_shift(chain, spec->weight_buffers, rest * (chain->streamed - before.streamed));
        return;
    }
}
