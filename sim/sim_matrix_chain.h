/*
 * The chain of folds inside a matrix unit: when each may stream, given what it must load before or
 * drain after, and a number of buffers. All times are absolute cycles of the unit's clock.
 *
 *   loads:  loaded(i)  = max(loaded(i-1), streamed(i-n)) + port
 *           streamed(i) = max(streamed(i-1), loaded(i)) + stream
 *   with loads beside the last piece of the stream before (begun at streamed(i) - piece):
 *           streamed(i) = streamed(i-1) + stream + max(0, port - piece)
 *   drains: streamed(i) = max(streamed(i-1), drained(i-n)) + stream
 *           drained(i)  = max(drained(i-1), streamed(i)) + port
 *
 * Runs of equal folds are advanced in closed form, so an operation costs O(n) whatever its size.
 * Private to sim_matrix.c and its test.
 */
#ifndef SIM_MATRIX_CHAIN_H
#define SIM_MATRIX_CHAIN_H

#include "sim/sim_matrix.h"

typedef struct sim_chain {
    uint64_t streamed; /* end of the last stream */
    uint64_t port;     /* end of the last load, or of the last drain */
    /* [0, n): when the last n folds had streamed, or were drained; oldest first */
    uint64_t buffer[SIM_MATRIX_MAX_BUFFERS];
    uint64_t piece; /* length of the last stream's last piece, which a load may pass beside */
} sim_chain_t;

/* A product as the array sees it. Folds have the load or drain `full`, every row_folds-th `last`;
 * stream includes gap and, where folds do not overlap, skew. No folds: nothing to do. */
typedef struct sim_folds {
    uint64_t row_folds, col_folds;
    uint64_t full, last, stream;
    uint64_t piece; /* the last one of a stream */
} sim_folds_t;

/* `count` equal folds. */
void sim_chain_loads(sim_chain_t *chain, uint32_t buffers, uint64_t count, uint64_t load,
                     uint64_t stream);
void sim_chain_drains(sim_chain_t *chain, uint32_t buffers, uint64_t count, uint64_t drain,
                      uint64_t stream);
/* All folds of a product but the first `done` <= 1. */
void sim_chain_product(sim_chain_t *chain, const sim_matrix_spec_t *spec, const sim_folds_t *folds,
                       uint64_t done);
/* Everything pending moves by `cycles`. */
void sim_chain_shift(sim_chain_t *chain, uint32_t buffers, uint64_t cycles);

#endif
