/*
 * Where a launch's operands lie for the timing engine, and the reuse key.
 *
 * Canonical placement (dram.placement = canonical): pointer arguments whose touched ranges overlap
 * form an alias group and keep their relative offsets; group g is timed at g * 2^40 + (real offset
 * mod DEV_MEMORY_ALIGN). So time does not hang on where an allocator put a tensor (every allocation
 * is aligned to DEV_MEMORY_ALIGN), and equal layers have equal keys. The DRAM starts groups in
 * different banks (sim/sim_dram.h), as different rows would. `physical`: real addresses, which join
 * the key. docs/decisions/0002-placement.md tells why not "modulo the stripe". Operands in the
 * shared scratchpad memory, where every allocation begins at core 0, keep their offset modulo its
 * stripe, behind SIM_SHARED_BASE (sim/sim_shared.h); those in shards (dev_launch_t.home) keep their
 * offset in the matrix, and what the shards are joins the key.
 */
#ifndef DEV_PLACE_H
#define DEV_PLACE_H

#include "device/dev_timing.h"

typedef struct dev_place_options {
    bool is_physical;
    const sim_shards_t *shards;                /* the table of dev_memory_shards; NULL: none */
    uint64_t shared_base, shared_stripe_bytes; /* first device address of the shared scratchpad
                                                  memory; stripe 0: none */
    uint64_t config_hash;
    uint64_t rows_hash; /* data-dependent addresses, 0: none */
} dev_place_options_t;

/* Alias groups of an epoch under way. Zero-initialise; dev_place_groups_fini frees. */
typedef struct dev_place_group {
    uint64_t low,
        high; /* device addresses of the first packet that touched it, and of those that joined */
    uint64_t base; /* timing address of low */
} dev_place_group_t;
typedef struct dev_place_groups {
    dev_place_group_t *group;
    uint32_t count, room;
    uint32_t next_number; /* of the next packet's first operand */
} dev_place_groups_t;
void dev_place_groups_fini(dev_place_groups_t *groups);

/* A launch alone in its epoch. */
void dev_place(const dev_launch_t *launch, const dev_place_options_t *options,
               dev_placement_t *out_placement);
/*
 * The next packet of an epoch (groups). What it shares with packets before it keeps its place
 * there: an operand that overlaps a group, and does not begin before it, joins the first such
 * group; others make new ones. Nothing that is placed ever moves, so a packet's timing does not
 * depend on those after it. The first packet is placed as if alone.
 */
sim_status_t dev_place_next(dev_place_groups_t *groups, const dev_launch_t *launch,
                            const dev_place_options_t *options,
                            dev_placement_t *out_placement) SIM_MUST_USE;

/* A copy (src, dst) or fill (dst) inside DRAM by the DMA queues of `core`. address[0]: of dst, [1]:
 * of src. */
typedef struct dev_move {
    uint64_t src, dst, bytes;
    sim_shared_home_t home[2]; /* of dst and src */
    uint32_t core;
    bool is_copy;
} dev_move_t;
void dev_place_move(const dev_move_t *move, const dev_place_options_t *options,
                    dev_placement_t *out_placement);
sim_status_t dev_place_next_move(dev_place_groups_t *groups, const dev_move_t *move,
                                 const dev_place_options_t *options,
                                 dev_placement_t *out_placement) SIM_MUST_USE;

/* A 128-bit running hash (two 64-bit lanes of different multipliers); not cryptographic. */
typedef struct dev_hash {
    uint64_t a, b;
} dev_hash_t;
void dev_hash_init(dev_hash_t *hash);
void dev_hash_add(dev_hash_t *hash, uint64_t value);

#endif
