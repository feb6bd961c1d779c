/* Canonical placement of operands and the reuse key. */
#include "device/dev_place.h"

#include <stdlib.h>
#include <string.h>

#include "device/dev_memory.h"
#include "sim/sim_shared.h"

static uint64_t mix(uint64_t x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    return x ^ (x >> 32);
}

void dev_hash_init(dev_hash_t *hash) {
    hash->a = 0x9e3779b97f4a7c15ull;
    hash->b = 0xc2b2ae3d27d4eb4full;
}

void dev_hash_add(dev_hash_t *hash, uint64_t value) {
    hash->a = mix(hash->a ^ value) + 0x9e3779b97f4a7c15ull;
    hash->b = mix(hash->b + value * 0x94d049bb133111ebull) ^ 0xbf58476d1ce4e5b9ull;
}

/* A pointer argument: the byte range that the launch touches, in device addresses. */
typedef struct place_operand {
    uint64_t low, high; /* empty: low == high */
    uint32_t arg;
    uint32_t group;
    sim_shared_home_t home;
} place_operand_t;

static void operand_init(place_operand_t *operand, const dev_launch_t *launch, uint32_t arg) {
    dev_arg_extent_t extent;
    dev_program_arg_extent(launch->program, arg, launch->grid, &extent);
    bool reads = extent.read_low != extent.read_high,
         writes = extent.write_low != extent.write_high;
    int64_t low = reads ? extent.read_low : extent.write_low,
            high = reads ? extent.read_high : extent.write_high;
    if (writes && extent.write_low < low) low = extent.write_low;
    if (writes && extent.write_high > high) high = extent.write_high;
    operand->arg = arg;
    operand->home = launch->home[arg];
    operand->low = launch->arg[arg] + (uint64_t)low;
    operand->high = launch->arg[arg] + (uint64_t)high;
}

static bool overlap(const place_operand_t *x, const place_operand_t *y) {
    return x->low < y->high && y->low < x->high;
}

/* Union of overlapping operands, numbered by their first argument. O(n^3) of at most 32, in
 * practice 3 to 6. */
static void group_operands(place_operand_t *operand, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        operand[i].group = i;
    for (bool is_changed = true; is_changed;) {
        is_changed = false;
        for (uint32_t i = 0; i < count; i++) {
            for (uint32_t j = i + 1; j < count; j++) {
                if (operand[i].group == operand[j].group || !overlap(&operand[i], &operand[j]))
                    continue;
                uint32_t low =
                    operand[i].group < operand[j].group ? operand[i].group : operand[j].group;
                operand[i].group = operand[j].group = low;
                is_changed = true;
            }
        }
    }
}

static bool is_shared(const dev_place_options_t *options, uint64_t address) {
    return options->shared_stripe_bytes > 0 && address >= options->shared_base;
}

/* The DRAM starts groups in different banks by their number (sim/sim_dram.h). */
static uint64_t group_base(const dev_place_options_t *options, uint32_t group, uint64_t low,
                           sim_shared_home_t home) {
    if (!is_shared(options, low))
        return ((uint64_t)group << SIM_SHARED_OFFSET_BITS) + low % DEV_MEMORY_ALIGN;
    uint64_t number = group % (1u << SIM_SHARED_NUMBER_BITS);
    uint64_t base = SIM_SHARED_BASE + (number << SIM_SHARED_OFFSET_BITS) +
                    ((uint64_t)home.shards << SIM_SHARED_SHARDS_BIT);
    return base + (home.shards > 0 ? low - home.start
                                   : (low - options->shared_base) % options->shared_stripe_bytes);
}

/* A timing address as the key sees it: a place in the table says nothing, what stands there does.
 */
static void key_address(dev_hash_t *hash, const dev_place_options_t *options, uint64_t address) {
    uint32_t index = sim_shared_holds(address)
                         ? (uint32_t)(address >> SIM_SHARED_SHARDS_BIT) % SIM_SHARED_MAX_SHARDS
                         : 0;
    dev_hash_add(hash, address - ((uint64_t)index << SIM_SHARED_SHARDS_BIT));
    if (index == 0) return;
    const sim_shards_t *shards = &options->shards[index];
    dev_hash_add(hash, shards->row_bytes);
    dev_hash_add(hash, ((uint64_t)shards->shard_rows << 32) + shards->shard_row_bytes);
    dev_hash_add(hash, ((uint64_t)shards->row_step << 32) + shards->column_step);
}

static void key_launch(dev_hash_t *hash, const dev_launch_t *launch,
                       const dev_place_options_t *options) {
    dev_hash_init(hash);
    dev_hash_add(hash, options->config_hash);
    dev_hash_add(hash, options->rows_hash);
    dev_hash_add(hash, options->is_physical);
    dev_hash_add(hash, launch->program->hash);
    dev_hash_add(hash, launch->grid[0]);
    dev_hash_add(hash, launch->grid[1]);
    for (uint32_t i = 0; i < DEV_MAX_CORES / 64; i++)
        dev_hash_add(hash, launch->core_mask[i]);
}

/* --- groups of an epoch
 * ------------------------------------------------------------------------------------------------
 */

void dev_place_groups_fini(dev_place_groups_t *groups) {
    free(groups->group);
    *groups = (dev_place_groups_t){0};
}

static dev_place_group_t *find_group(dev_place_groups_t *groups, uint32_t count, uint64_t low,
                                     uint64_t high) {
    for (uint32_t g = 0; g < count; g++) {
        dev_place_group_t *group = &groups->group[g];
        if (low < group->high && group->low < high && low >= group->low) return group;
    }
    return NULL;
}

static sim_status_t add_group(dev_place_groups_t *groups, dev_place_group_t group) {
    if (groups->count == groups->room) {
        uint32_t room = groups->room == 0 ? 16 : groups->room * 2;
        dev_place_group_t *grown = realloc(groups->group, room * sizeof *grown);
        if (grown == NULL) return SIM_ERROR_OUT_OF_MEMORY;
        groups->group = grown;
        groups->room = room;
    }
    groups->group[groups->count++] = group;
    return SIM_OK;
}

/* Byte range of one alias group of the packet. */
static dev_place_group_t group_range(const place_operand_t *operand, uint32_t count,
                                     uint32_t number) {
    dev_place_group_t range = {.low = UINT64_MAX};
    for (uint32_t i = 0; i < count; i++) {
        if (operand[i].group != number) continue;
        if (operand[i].low < range.low) range.low = operand[i].low;
        if (operand[i].high > range.high) range.high = operand[i].high;
    }
    return range;
}

/* Places the alias groups of a packet: lowest timing address of group number i in out_base[i].
 * groups: NULL when alone. */
static sim_status_t place_groups(dev_place_groups_t *groups, const dev_place_options_t *options,
                                 const place_operand_t *operand, uint32_t count,
                                 dev_place_group_t *out_range) {
    uint32_t before = groups == NULL ? 0 : groups->count,
             first = groups == NULL ? 0 : groups->next_number;
    sim_status_t status = SIM_OK;
    for (uint32_t i = 0; i < count && status == SIM_OK; i++) {
        if (operand[i].group != i) continue;
        dev_place_group_t range = group_range(operand, count, i);
        dev_place_group_t *known =
            groups == NULL ? NULL : find_group(groups, before, range.low, range.high);
        range.base = known != NULL ? known->base + (range.low - known->low)
                                   : group_base(options, first + i, range.low, operand[i].home);
        if (known != NULL && range.high > known->high) known->high = range.high;
        if (known == NULL && groups != NULL) status = add_group(groups, range);
        out_range[i] = range;
    }
    if (groups != NULL) groups->next_number = first + count;
    return status;
}

static uint64_t timing_address(const place_operand_t *operand, const dev_place_group_t *range,
                               uint64_t real, const dev_place_options_t *options) {
    if (!options->is_physical)
        return range[operand->group].base + (real - range[operand->group].low);
    if (!is_shared(options, operand->low)) return real - DEV_MEMORY_BASE;
    uint64_t start = operand->home.shards > 0 ? operand->home.start : options->shared_base;
    return SIM_SHARED_BASE + ((uint64_t)operand->home.shards << SIM_SHARED_SHARDS_BIT) +
           (real - start);
}

/* --- packets
 * ----------------------------------------------------------------------------------------------------------
 */

sim_status_t dev_place_next(dev_place_groups_t *groups, const dev_launch_t *launch,
                            const dev_place_options_t *options, dev_placement_t *out_placement) {
    memset(out_placement, 0, sizeof *out_placement);
    place_operand_t operand[VNPU_MAX_ARGS];
    dev_place_group_t range[VNPU_MAX_ARGS];
    uint32_t count = 0;
    for (uint32_t a = 0; a < launch->program->header.num_args; a++) {
        if (launch->program->header.arg_kind[a] != VNPU_ARG_SCALAR)
            operand_init(&operand[count++], launch, a);
    }
    group_operands(operand, count);
    sim_status_t status = place_groups(groups, options, operand, count, range);
    if (status != SIM_OK) return status;
    dev_hash_t hash;
    key_launch(&hash, launch, options);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t timed = timing_address(&operand[i], range, launch->arg[operand[i].arg], options);
        out_placement->address[operand[i].arg] = timed;
        key_address(&hash, options, timed);
    }
    out_placement->key[0] = hash.a;
    out_placement->key[1] = hash.b;
    return SIM_OK;
}

void dev_place(const dev_launch_t *launch, const dev_place_options_t *options,
               dev_placement_t *out_placement) {
    sim_status_t status = dev_place_next(NULL, launch, options, out_placement);
    if (status != SIM_OK) sim_bug("place", 0, "a launch alone needs no memory");
}

sim_status_t dev_place_next_move(dev_place_groups_t *groups, const dev_move_t *move,
                                 const dev_place_options_t *options,
                                 dev_placement_t *out_placement) {
    memset(out_placement, 0, sizeof *out_placement);
    place_operand_t operand[2] = {
        {.low = move->dst, .high = move->dst + move->bytes, .home = move->home[0]},
        {.low = move->src, .high = move->src + move->bytes, .arg = 1, .home = move->home[1]}};
    dev_place_group_t range[2];
    uint32_t count = move->is_copy ? 2 : 1;
    group_operands(operand, count);
    sim_status_t status = place_groups(groups, options, operand, count, range);
    if (status != SIM_OK) return status;
    dev_hash_t hash;
    dev_hash_init(&hash);
    dev_hash_add(&hash, options->config_hash);
    dev_hash_add(&hash, move->is_copy ? 0x636f7079u : 0x66696c6cu);
    dev_hash_add(&hash, move->bytes);
    dev_hash_add(&hash, move->core);
    for (uint32_t i = 0; i < count; i++) {
        out_placement->address[i] = timing_address(&operand[i], range, operand[i].low, options);
        key_address(&hash, options, out_placement->address[i]);
    }
    out_placement->key[0] = hash.a;
    out_placement->key[1] = hash.b;
    return SIM_OK;
}

void dev_place_move(const dev_move_t *move, const dev_place_options_t *options,
                    dev_placement_t *out_placement) {
    sim_status_t status = dev_place_next_move(NULL, move, options, out_placement);
    if (status != SIM_OK) sim_bug("place", 0, "a copy alone needs no memory");
}
