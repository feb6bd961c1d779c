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
 *
 * With part_bytes a bank is a block of that many consecutive bytes, byte a in bank a / part_bytes
 * mod banks: where the walk lies then says which ports it takes (sim_share.h), and strides do not
 * matter.
 */
#ifndef SIM_BANK_H
#define SIM_BANK_H

#include "sim/sim_config.h"
#include "sim/sim_share.h"

#define SIM_BANK_MAX_DIMS 5u

typedef struct sim_bank_spec {
    uint32_t banks, ports, word_bytes; /* >= 1 */
    bool has_conflicts;  /* false: a byte is a byte, wherever it lies: use.cycles is 0 */
    uint64_t part_bytes; /* 0: banks take turns word by word */
} sim_bank_spec_t;

typedef struct sim_bank_walk {
    uint64_t base, run_bytes; /* run_bytes >= 1 */
    uint32_t ndims;
    uint64_t size[SIM_BANK_MAX_DIMS];  /* >= 1, dimension 0 outermost */
    int64_t stride[SIM_BANK_MAX_DIMS]; /* bytes; 0: the same bytes, read once */
} sim_bank_walk_t;

typedef struct sim_bank_use {
    uint64_t bytes;      /* through the ports: whole words with conflicts */
    uint64_t cycles;     /* no fewer, however idle the memory is; 0: no limit */
    uint32_t num_ranges; /* 0: where they lie makes no difference */
    sim_range_t range[SIM_SHARE_MAX_RANGES];
} sim_bank_use_t;

sim_bank_spec_t sim_bank_spec_of_sram(const sim_config_t *config);
sim_bank_spec_t sim_bank_spec_of_acc(const sim_config_t *config);
sim_bank_use_t sim_bank_use(const sim_bank_spec_t *spec, const sim_bank_walk_t *walk);
/* Adds an operand that passes `times` beside those of `sum`. Operands beyond the ranges that a use
 * has are taken as lying where the last one does. */
void sim_bank_add(sim_bank_use_t *sum, const sim_bank_use_t *once, uint64_t times);
/* Of two evenly spread ranges, the part of all pairs of bytes that lie in the same bank: out of
 * 1 << 16. 0 where banks take turns word by word. */
uint32_t sim_bank_overlap(const sim_bank_spec_t *spec, const sim_range_t *a, const sim_range_t *b);

#endif
