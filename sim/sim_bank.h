/*
 * Banks of a scratchpad or accumulator: what a strided walk costs at its ports.
 *
 * Word w is in bank w mod banks; a bank gives `ports` words a cycle. A walk is runs of run_bytes at
 * base + sum idx[d] * stride[d]. Closed form (docs/timing.md, "Banks"):
 *   words   each run takes the words that it touches, whole: ceil((base mod word + run) / word),
 *           as for the first run. Dimensions closer together than a word read through what lies
 *           between them: one run from first to last element.
 *   banks   a dimension of stride s words visits banks / gcd(banks, s) banks, at most as many as it
 *           has elements; a run of w words visits w; all of them together the product, at most
 *           min(w, g) * banks / g with g the gcd of banks and all strides,
 *   cycles  ceil(words / (banks visited * ports)): at best, when the walk visits them evenly.
 * A stride that is no multiple of the word counts as one that visits every bank.
 */
#ifndef SIM_BANK_H
#define SIM_BANK_H

#include "sim/sim_config.h"

#define SIM_BANK_MAX_DIMS 5u

typedef struct sim_bank_spec {
    uint32_t banks, ports, word_bytes; /* >= 1 */
    bool has_conflicts; /* false: a byte is a byte, wherever it lies: use.cycles is 0 */
} sim_bank_spec_t;

typedef struct sim_bank_walk {
    uint64_t base, run_bytes; /* run_bytes >= 1 */
    uint32_t ndims;
    uint64_t size[SIM_BANK_MAX_DIMS];  /* >= 1, dimension 0 outermost */
    int64_t stride[SIM_BANK_MAX_DIMS]; /* bytes; 0: the same bytes, read once */
} sim_bank_walk_t;

typedef struct sim_bank_use {
    uint64_t bytes;  /* through the ports: whole words with conflicts */
    uint64_t cycles; /* no fewer, however idle the memory is; 0: no limit */
} sim_bank_use_t;

sim_bank_spec_t sim_bank_spec_of_sram(const sim_config_t *config);
sim_bank_spec_t sim_bank_spec_of_acc(const sim_config_t *config);
sim_bank_use_t sim_bank_use(const sim_bank_spec_t *spec, const sim_bank_walk_t *walk);

#endif
