/*
 * Where a launch's operands lie for the timing engine, and the reuse key.
 *
 * Canonical placement (dram.placement = canonical): pointer arguments whose touched ranges overlap form an alias group and keep
 * their relative offsets; group g is timed at g * 2^40 + (real offset mod DEV_MEMORY_ALIGN). So time does not hang on
 * where an allocator put a tensor (every allocation is aligned to DEV_MEMORY_ALIGN), and equal layers have equal keys. The
 * DRAM starts groups in different banks (sim/sim_dram.h), as different rows would. `physical`: real addresses, which join the key.
 * docs/decisions/0002-placement.md tells why not "modulo the stripe".
 */
#ifndef DEV_PLACE_H
#define DEV_PLACE_H

#include "device/dev_timing.h"

typedef struct dev_place_options {
    bool is_physical;
    uint64_t config_hash;
    uint64_t rows_hash; /* data-dependent addresses, 0: none */
} dev_place_options_t;

void dev_place(const dev_launch_t *launch, const dev_place_options_t *options, dev_placement_t *out_placement);
/* Key of a copy or fill inside DRAM (kind 0 fill, 1 copy), and its timing addresses. */
void dev_place_move(uint64_t src, uint64_t dst, uint64_t bytes, bool is_copy, const dev_place_options_t *options,
                    dev_placement_t *out_placement);

/* A 128-bit running hash (two 64-bit lanes of different multipliers); not cryptographic. */
typedef struct dev_hash { uint64_t a, b; } dev_hash_t;
void dev_hash_init(dev_hash_t *hash);
void dev_hash_add(dev_hash_t *hash, uint64_t value);

#endif
