/* Canonical placement of operands and the reuse key. */
#include "device/dev_place.h"

#include <string.h>

#include "device/dev_memory.h"

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
} place_operand_t;

static void operand_init(place_operand_t *operand, const dev_launch_t *launch, uint32_t arg) {
    dev_arg_extent_t extent;
    dev_program_arg_extent(launch->program, arg, launch->grid, &extent);
    bool reads = extent.read_low != extent.read_high, writes = extent.write_low != extent.write_high;
    int64_t low = reads ? extent.read_low : extent.write_low, high = reads ? extent.read_high : extent.write_high;
    if (writes && extent.write_low < low) low = extent.write_low;
    if (writes && extent.write_high > high) high = extent.write_high;
    operand->arg = arg;
    operand->low = launch->arg[arg] + (uint64_t)low;
    operand->high = launch->arg[arg] + (uint64_t)high;
}

static bool overlap(const place_operand_t *x, const place_operand_t *y) { return x->low < y->high && y->low < x->high; }

/* Union of overlapping operands, numbered by their first argument. O(n^3) of at most 32, in practice 3 to 6. */
static void group_operands(place_operand_t *operand, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) operand[i].group = i;
    for (bool is_changed = true; is_changed;) {
        is_changed = false;
        for (uint32_t i = 0; i < count; i++) {
            for (uint32_t j = i + 1; j < count; j++) {
                if (operand[i].group == operand[j].group || !overlap(&operand[i], &operand[j])) continue;
                uint32_t low = operand[i].group < operand[j].group ? operand[i].group : operand[j].group;
                operand[i].group = operand[j].group = low;
                is_changed = true;
            }
        }
    }
}

static uint64_t group_low(const place_operand_t *operand, uint32_t count, uint32_t group) {
    uint64_t low = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (operand[i].group == group && operand[i].low < low) low = operand[i].low;
    }
    return low;
}

/* The DRAM starts groups in different banks by their number (sim/sim_dram.h). */
static uint64_t group_base(uint32_t group, uint64_t low) {
    return ((uint64_t)group << 40) + low % DEV_MEMORY_ALIGN;
}

static void key_launch(dev_hash_t *hash, const dev_launch_t *launch, const dev_place_options_t *options) {
    dev_hash_init(hash);
    dev_hash_add(hash, options->config_hash);
    dev_hash_add(hash, options->rows_hash);
    dev_hash_add(hash, options->is_physical);
    dev_hash_add(hash, launch->program->hash);
    dev_hash_add(hash, launch->grid[0]);
    dev_hash_add(hash, launch->grid[1]);
    for (uint32_t i = 0; i < DEV_MAX_CORES / 64; i++) dev_hash_add(hash, launch->core_mask[i]);
}

void dev_place(const dev_launch_t *launch, const dev_place_options_t *options, dev_placement_t *out_placement) {
    memset(out_placement, 0, sizeof *out_placement);
    place_operand_t operand[VNPU_MAX_ARGS];
    uint32_t count = 0;
    for (uint32_t a = 0; a < launch->program->header.num_args; a++) {
        if (launch->program->header.arg_kind[a] != VNPU_ARG_SCALAR) operand_init(&operand[count++], launch, a);
    }
    group_operands(operand, count);
    dev_hash_t hash;
    key_launch(&hash, launch, options);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t real = launch->arg[operand[i].arg];
        uint64_t low = group_low(operand, count, operand[i].group);
        uint64_t timed = options->is_physical ? real - DEV_MEMORY_BASE
                                              : group_base(operand[i].group, low) + (real - low);
        out_placement->address[operand[i].arg] = timed;
        dev_hash_add(&hash, timed);
    }
    out_placement->key[0] = hash.a;
    out_placement->key[1] = hash.b;
}

void dev_place_move(uint64_t src, uint64_t dst, uint64_t bytes, bool is_copy, const dev_place_options_t *options,
                    dev_placement_t *out_placement) {
    memset(out_placement, 0, sizeof *out_placement);
    place_operand_t operand[2] = {{.low = dst, .high = dst + bytes}, {.low = src, .high = src + (is_copy ? bytes : 0), .arg = 1}};
    group_operands(operand, 2);
    dev_hash_t hash;
    dev_hash_init(&hash);
    dev_hash_add(&hash, options->config_hash);
    dev_hash_add(&hash, is_copy ? 0x636f7079u : 0x66696c6cu);
    dev_hash_add(&hash, bytes);
    for (uint32_t i = 0; i < (is_copy ? 2u : 1u); i++) {
        uint64_t low = group_low(operand, 2, operand[i].group);
        uint64_t timed = options->is_physical ? operand[i].low - DEV_MEMORY_BASE
                                              : group_base(operand[i].group, low) + (operand[i].low - low);
        out_placement->address[i] = timed;
        dev_hash_add(&hash, timed);
    }
    out_placement->key[0] = hash.a;
    out_placement->key[1] = hash.b;
}
