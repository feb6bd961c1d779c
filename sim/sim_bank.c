#include "sim/sim_bank.h"

#include <string.h>

static uint64_t gcd(uint64_t a, uint64_t b) {
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t distance(int64_t stride) {
    return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

static uint64_t plain_bytes(const sim_bank_walk_t *walk) {
    uint64_t bytes = walk->run_bytes;
    for (uint32_t d = 0; d < walk->ndims; d++)
        if (walk->stride[d] != 0) bytes *= walk->size[d];
    return bytes;
}

/* The run with the dimensions that continue it, or follow within the word that it ends in. */
static uint64_t whole_run(const sim_bank_spec_t *spec, const sim_bank_walk_t *walk,
                          bool is_inside[SIM_BANK_MAX_DIMS]) {
    uint64_t run = walk->run_bytes;
    for (uint32_t d = walk->ndims; d-- > 0;) {
        uint64_t step = distance(walk->stride[d]);
        is_inside[d] = step <= run || step < spec->word_bytes;
        if (!is_inside[d]) {
            memset(is_inside, 0, d * sizeof *is_inside);
            break;
        }
        if (step != 0 && walk->size[d] > 1) run += (walk->size[d] - 1) * step;
    }
    return run;
}

/* From the first byte to the last. */
static void set_range(const sim_bank_walk_t *walk, sim_bank_use_t *use) {
    uint64_t low = walk->base, high = walk->base + walk->run_bytes;
    for (uint32_t d = 0; d < walk->ndims; d++) {
        uint64_t reach = (walk->size[d] - 1) * distance(walk->stride[d]);
        if (walk->stride[d] < 0)
            low -= reach;
        else
            high += reach;
    }
    use->num_ranges = 1;
    use->range[0] = (sim_range_t){.first = low, .extent = high - low, .bytes = use->bytes};
}

void sim_bank_add(sim_bank_use_t *sum, const sim_bank_use_t *once, uint64_t times) {
    sum->bytes += once->bytes * times;
    if (once->cycles * times > sum->cycles) sum->cycles = once->cycles * times;
    for (uint32_t r = 0; r < once->num_ranges; r++) {
        sim_range_t range = once->range[r];
        range.bytes *= times;
        if (sum->num_ranges < SIM_SHARE_MAX_RANGES)
            sum->range[sum->num_ranges++] = range;
        else
            sum->range[SIM_SHARE_MAX_RANGES - 1].bytes += range.bytes;
    }
}

uint32_t sim_bank_overlap(const sim_bank_spec_t *spec, const sim_range_t *a, const sim_range_t *b) {
    if (spec->part_bytes == 0) return 0;
    sim_range_t part_a = *a, part_b = *b;
    part_a.bytes = part_b.bytes = 1u << 16;
    uint64_t sum = 0;
    for (uint32_t bank = 0; bank < spec->banks; bank++)
        sum += sim_range_bytes(&part_a, bank, spec->banks, spec->part_bytes) *
               sim_range_bytes(&part_b, bank, spec->banks, spec->part_bytes);
    return (uint32_t)(sum >> 16);
}

sim_bank_use_t sim_bank_use(const sim_bank_spec_t *spec, const sim_bank_walk_t *walk) {
    if (spec->part_bytes > 0 || !spec->has_conflicts) {
        sim_bank_use_t use = {.bytes = plain_bytes(walk)};
        if (spec->part_bytes > 0) set_range(walk, &use);
        return use;
    }
    bool is_inside[SIM_BANK_MAX_DIMS];
    uint64_t word = spec->word_bytes, run = whole_run(spec, walk, is_inside);
    uint64_t run_words = (walk->base % word + run + word - 1) / word;
    uint64_t words = run_words, visited = least(run_words, spec->banks), common = spec->banks;
    for (uint32_t d = 0; d < walk->ndims; d++) {
        if (is_inside[d] || walk->stride[d] == 0 || walk->size[d] == 1) continue;
        uint64_t step = distance(walk->stride[d]);
        uint64_t shared = step % word == 0 ? gcd(spec->banks, step / word) : 1;
        words *= walk->size[d];
        visited = least(visited * least(walk->size[d], spec->banks / shared), spec->banks);
        common = gcd(common, shared);
    }
    visited = least(visited, least(run_words, common) * (spec->banks / common));
    uint64_t per_cycle = visited * spec->ports;
    return (sim_bank_use_t){.bytes = words * word, .cycles = (words + per_cycle - 1) / per_cycle};
}

sim_bank_spec_t sim_bank_spec_of_sram(const sim_config_t *config) {
    return (sim_bank_spec_t){
        .banks = (uint32_t)sim_config_u64(config, "sram.banks"),
        .ports = (uint32_t)sim_config_u64(config, "sram.ports_per_bank"),
        .word_bytes = (uint32_t)sim_config_u64(config, "sram.word_bytes"),
        .has_conflicts = sim_config_u64(config, "sram.conflicts") != 0,
        .part_bytes = sim_config_u64(config, "sram.interleave_bytes"),
    };
}

sim_bank_spec_t sim_bank_spec_of_acc(const sim_config_t *config) {
    return (sim_bank_spec_t){
        .banks = (uint32_t)sim_config_u64(config, "acc.banks"),
        .ports = 1,
        .word_bytes = (uint32_t)sim_config_u64(config, "acc.word_bytes"),
        .has_conflicts = sim_config_u64(config, "acc.conflicts") != 0,
    };
}
