#include "sim/sim_dram.h"

#include <assert.h>
#include <stdlib.h>

#include "sim/sim_dram_internal.h"

#define MAX_GROUPS 64u

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* ---- commands ---- */

uint64_t sim_dram_earliest(const sim_dram_t *dram, const sim_dram_channel_t *channel,
                           uint32_t group, uint32_t bank, sim_dram_command_t command,
                           uint64_t from) {
    uint64_t cycle = later(from, channel->next[command]);
    cycle = later(cycle, channel->group[group].next[command]);
    cycle = later(cycle, channel->bank[group * dram->bank_count + bank].next[command]);
    return command == SIM_DRAM_ACT ? later(cycle, channel->window[channel->window_at]) : cycle;
}

void sim_dram_issue(sim_dram_t *dram, sim_dram_channel_t *channel, uint32_t group, uint32_t bank,
                    sim_dram_command_t command, uint64_t cycle) {
    assert(sim_dram_earliest(dram, channel, group, bank, command, 0) <= cycle);
    uint64_t *const next[SIM_DRAM_SCOPE_COUNT] = {
        [SIM_DRAM_BANK] = channel->bank[group * dram->bank_count + bank].next,
        [SIM_DRAM_GROUP] = channel->group[group].next,
        [SIM_DRAM_CHANNEL] = channel->next,
    };
    const sim_dram_effects_t *effects = &dram->timing.after[command];
    for (uint32_t i = 0; i < effects->count; i++) {
        uint64_t *allowed = &next[effects->effect[i].scope][effects->effect[i].to];
        *allowed = later(*allowed, cycle + effects->effect[i].cycles);
    }
    if (command == SIM_DRAM_ACT) {
        channel->window[channel->window_at] = cycle + dram->timing.window_cycles;
        channel->window_at = (channel->window_at + 1) % SIM_DRAM_WINDOW;
    }
}

/* ---- refresh ---- */

static void close_all_banks(sim_dram_t *dram, sim_dram_channel_t *channel, uint64_t from) {
    uint64_t cycle = from;
    bool is_open = false;
    for (uint32_t i = 0; i < dram->group_count * dram->bank_count; i++) {
        if (channel->bank[i].row == SIM_DRAM_NO_ROW) continue;
        is_open = true;
        cycle = sim_dram_earliest(dram, channel, i / dram->bank_count, i % dram->bank_count,
                                  SIM_DRAM_PRE, cycle);
    }
    for (uint32_t i = 0; is_open && i < dram->group_count * dram->bank_count; i++) {
        if (channel->bank[i].row == SIM_DRAM_NO_ROW) continue;
        sim_dram_issue(dram, channel, i / dram->bank_count, i % dram->bank_count, SIM_DRAM_PRE,
                       cycle);
        channel->bank[i].row = SIM_DRAM_NO_ROW;
    }
}

/*
 * A refresh that is due when the channel gets to its next train comes before it: a train is never
 * cut. Of the refreshes that fell into an idle time only the last can still be felt.
 */
static void refresh(sim_dram_t *dram, sim_dram_channel_t *channel, uint64_t cycle) {
    if (cycle < channel->refresh_due) return;
    uint64_t interval = dram->timing.param[SIM_DRAM_REFI];
    uint64_t missed = (cycle - channel->refresh_due) / interval;
    close_all_banks(dram, channel, channel->refresh_due);
    uint64_t due = channel->refresh_due + missed * interval;
    sim_dram_issue(dram, channel, 0, 0, SIM_DRAM_REF,
                   sim_dram_earliest(dram, channel, 0, 0, SIM_DRAM_REF, due));
    channel->refresh_due = due + interval;
    dram->stats.refreshes += missed + 1;
}

/* ---- row trains ---- */

/* Trains of one request in one channel and one row of each bank group: their bursts take turns on
 * the bus. */
typedef struct train {
    uint32_t group, bursts;
    uint64_t cycle; /* of the last column command placed */
} train_t;

static void open_row(sim_dram_t *dram, sim_dram_channel_t *channel, uint32_t group, uint32_t bank,
                     uint64_t row, uint64_t arrival) {
    sim_dram_bank_t *state = &channel->bank[group * dram->bank_count + bank];
    dram->stats.trains++;
    if (state->row == row) {
        dram->stats.row_hits++;
        return;
    }
    if (state->row == SIM_DRAM_NO_ROW) {
        dram->stats.row_closed++;
    } else {
        dram->stats.row_conflicts++;
        uint64_t pre = sim_dram_earliest(dram, channel, group, bank, SIM_DRAM_PRE, arrival);
        sim_dram_issue(dram, channel, group, bank, SIM_DRAM_PRE, pre);
    }
    uint64_t act = sim_dram_earliest(dram, channel, group, bank, SIM_DRAM_ACT, arrival);
    sim_dram_issue(dram, channel, group, bank, SIM_DRAM_ACT, act);
    state->row = row;
}

/* One column command of every train in turn, `s` apart, `l` apart within a train. Returns the last
 * one's cycle. */
static uint64_t one_round(train_t *const train[], uint32_t count, uint64_t last, uint32_t s,
                          uint32_t l) {
    for (uint32_t i = 0; i < count; i++) {
        last = later(last + s, train[i]->cycle + l);
        train[i]->cycle = last;
    }
    return last;
}

/*
 * `rounds` rounds. After two of them the spacing is regular: every s cycles when count * s >= l,
 * otherwise every round takes l. (After round 1 the train's commands spread over at most max((count
 * - 1) * s, l - s), whatever round 0 looked like.)
 */
static uint64_t all_rounds(train_t *const train[], uint32_t count, uint64_t rounds, uint64_t last,
                           uint32_t s, uint32_t l) {
    last = one_round(train, count, last, s, l);
    if (rounds > 1) last = one_round(train, count, last, s, l);
    if (rounds <= 2) return last;
    uint64_t period = later((uint64_t)count * s, l);
    for (uint32_t i = 0; i < count; i++)
        train[i]->cycle += (rounds - 2) * period;
    return last + (rounds - 2) * period;
}

/* Column commands of all trains, round robin; trains that end early leave the turn to the others.
 */
static uint64_t place_columns(sim_dram_t *dram, sim_dram_channel_t *channel, uint32_t bank,
                              train_t train[], uint32_t count, bool is_write, uint64_t arrival) {
    sim_dram_command_t column = is_write ? SIM_DRAM_WR : SIM_DRAM_RD;
    uint32_t s = dram->timing.column_s[is_write], l = dram->timing.column_l[is_write];
    train_t *active[MAX_GROUPS];
    uint64_t last = 0, done = 0;
    for (uint32_t i = 0; i < count; i++) {
        active[i] = &train[i];
        uint64_t ready = sim_dram_earliest(dram, channel, train[i].group, bank, column, arrival);
        last = i == 0 ? ready : later(last + s, ready);
        train[i].cycle = last;
    }
    /* Round 0 is placed; its successors follow from it. */
    for (uint64_t placed = 1; count > 0;) {
        uint64_t least = UINT64_MAX;
        uint32_t left = 0;
        for (uint32_t i = 0; i < count; i++)
            if (active[i]->bursts < least) least = active[i]->bursts;
        if (least > placed) last = all_rounds(active, count, least - placed, last, s, l);
        for (uint32_t i = 0; i < count; i++) {
            if (active[i]->bursts > least) {
                active[left++] = active[i];
                continue;
            }
            sim_dram_issue(dram, channel, active[i]->group, bank, column, active[i]->cycle);
            done = later(done, active[i]->cycle);
        }
        count = left;
        placed = least;
    }
    channel->last_column = done;
    return done;
}

/* Bursts of [0, end) whose bank group field is `group`. */
static uint64_t bursts_below(sim_dram_field_t field, uint64_t group, uint64_t end) {
    uint64_t width = UINT64_C(1) << field.shift;
    uint64_t rest = end & ((width << field.bits) - 1);
    uint64_t first = group << field.shift;
    uint64_t whole = (end >> (field.shift + field.bits)) << field.shift;
    if (rest <= first) return whole;
    return whole + (rest - first < width ? rest - first : width);
}

/* The bursts [first, end) of one segment: one channel, one bank number, one row, some or all bank
 * groups. */
static uint64_t serve_segment(sim_dram_t *dram, uint64_t first, uint64_t end, bool is_write,
                              uint64_t arrival) {
    const sim_dram_map_t *map = &dram->map;
    sim_dram_place_t at = sim_dram_map_bank(map, first);
    sim_dram_channel_t *channel = &dram->channel[at.channel];
    refresh(dram, channel, later(arrival, channel->last_column));
    train_t train[MAX_GROUPS];
    uint32_t count = 0;
    if (map->group.bits == 0 || map->group.shift >= map->segment_bits) {
        train[count++] = (train_t){.group = at.group, .bursts = (uint32_t)(end - first)};
    } else {
        uint64_t mask = (UINT64_C(1) << map->segment_bits) - 1;
        uint64_t from = first & mask, to = from + (end - first);
        uint32_t start = (uint32_t)sim_dram_field_get(map->group, first);
        uint32_t permute = start ^ at.group; /* the hash is the same for the whole row */
        for (uint32_t i = 0; i < dram->group_count; i++) {
            uint32_t group = (start + i) & (dram->group_count - 1);
            uint64_t bursts =
                bursts_below(map->group, group, to) - bursts_below(map->group, group, from);
            if (bursts > 0)
                train[count++] = (train_t){.group = group ^ permute, .bursts = (uint32_t)bursts};
        }
    }
    for (uint32_t i = 0; i < count; i++)
        open_row(dram, channel, train[i].group, at.bank, at.row, arrival);
    uint64_t last = place_columns(dram, channel, at.bank, train, count, is_write, arrival);
    for (uint32_t i = 0; dram->is_closed_page && i < count; i++) {
        uint32_t group = train[i].group;
        uint64_t pre = sim_dram_earliest(dram, channel, group, at.bank, SIM_DRAM_PRE, 0);
        sim_dram_issue(dram, channel, group, at.bank, SIM_DRAM_PRE, pre);
        channel->bank[group * dram->bank_count + at.bank].row = SIM_DRAM_NO_ROW;
    }
    return last + dram->timing.data_cycles[is_write];
}

sim_tick_t sim_dram_access(sim_dram_t *dram, uint64_t address, uint64_t bytes, bool is_write,
                           sim_tick_t now) {
    if (now < dram->last) sim_bug("sim_dram", now, "called back in time");
    dram->last = now;
    if (bytes == 0) return now;
    uint64_t arrival = sim_clock_cycle_up(&dram->clock, now + dram->frontend_ticks);
    uint64_t first = address >> dram->map.burst_shift;
    uint64_t end = ((address + bytes - 1) >> dram->map.burst_shift) + 1;
    uint64_t segment = UINT64_C(1) << dram->map.segment_bits;
    uint64_t *moved = is_write ? &dram->stats.write_bytes : &dram->stats.read_bytes;
    *moved += (end - first) * dram->burst_bytes;
    uint64_t done = 0;
    while (first < end) {
        uint64_t stop = (first | (segment - 1)) + 1;
        if (stop > end) stop = end;
        done = later(done, serve_segment(dram, first, stop, is_write, arrival));
        first = stop;
    }
    return sim_clock_tick(&dram->clock, done) + dram->frontend_ticks;
}

/* ---- life cycle ---- */

void sim_dram_reset(sim_dram_t *dram) {
    uint32_t channels = dram->channel_count, groups = dram->group_count;
    uint64_t interval = dram->timing.param[SIM_DRAM_REFI];
    for (uint32_t i = 0; i < channels; i++) {
        uint64_t due = (2 * (uint64_t)i + 1) * interval / (2 * (uint64_t)channels);
        dram->channel[i] = (sim_dram_channel_t){
            .refresh_due = interval == 0 ? UINT64_MAX : due,
            .group = dram->groups + (size_t)i * groups,
            .bank = dram->banks + (size_t)i * groups * dram->bank_count,
        };
    }
    for (uint32_t i = 0; i < channels * groups; i++)
        dram->groups[i] = (sim_dram_group_t){0};
    for (uint32_t i = 0; i < channels * groups * dram->bank_count; i++)
        dram->banks[i] = (sim_dram_bank_t){.row = SIM_DRAM_NO_ROW};
    dram->stats = (sim_dram_stats_t){0};
    dram->last = 0;
}

static void read_timing(const sim_config_t *config, sim_dram_timing_t *timing) {
    static const char *const key[SIM_DRAM_PARAM_COUNT] = {
        [SIM_DRAM_BL] = "dram.burst_cycles", [SIM_DRAM_CL] = "dram.tcl",
        [SIM_DRAM_CWL] = "dram.tcwl",        [SIM_DRAM_RCDRD] = "dram.trcdrd",
        [SIM_DRAM_RCDWR] = "dram.trcdwr",    [SIM_DRAM_RP] = "dram.trp",
        [SIM_DRAM_RAS] = "dram.tras",        [SIM_DRAM_TWR] = "dram.twr",
        [SIM_DRAM_RTP] = "dram.trtp",        [SIM_DRAM_CCD_S] = "dram.tccd_s",
        [SIM_DRAM_CCD_L] = "dram.tccd_l",    [SIM_DRAM_RRD_S] = "dram.trrd_s",
        [SIM_DRAM_RRD_L] = "dram.trrd_l",    [SIM_DRAM_FAW] = "dram.tfaw",
        [SIM_DRAM_WTR_S] = "dram.twtr_s",    [SIM_DRAM_WTR_L] = "dram.twtr_l",
        [SIM_DRAM_RTW] = "dram.trtw",        [SIM_DRAM_RFC] = "dram.trfc",
        [SIM_DRAM_REFI] = "dram.trefi",
    };
    uint32_t param[SIM_DRAM_PARAM_COUNT] = {0};
    for (int i = SIM_DRAM_NONE + 1; i < SIM_DRAM_PARAM_COUNT; i++)
        param[i] = (uint32_t)sim_config_u64(config, key[i]);
    sim_dram_timing_init(timing, param);
}

static sim_status_t read_config(const sim_config_t *config, sim_dram_t *dram, sim_error_t *err) {
    sim_status_t status = sim_dram_map_init(config, &dram->map, err);
    if (status != SIM_OK) return status;
    status = sim_clock_init(&dram->clock, sim_config_u64(config, "dram.clock"));
    if (status != SIM_OK) return sim_error_set(err, SIM_ERROR_CONFIG, "dram.clock: out of range");
    read_timing(config, &dram->timing);
    dram->channel_count = (uint32_t)sim_config_u64(config, "dram.channels");
    dram->group_count = (uint32_t)sim_config_u64(config, "dram.bank_groups");
    dram->bank_count = (uint32_t)sim_config_u64(config, "dram.banks_per_group");
    dram->burst_bytes = (uint32_t)sim_config_u64(config, "dram.burst_bytes");
    dram->is_closed_page = sim_config_u64(config, "dram.page") == 1;
    dram->frontend_ticks =
        (sim_config_u64(config, "dram.frontend") + SIM_TICK_PS - 1) / SIM_TICK_PS;
    if (dram->group_count > MAX_GROUPS)
        return sim_error_set(err, SIM_ERROR_CONFIG, "dram.bank_groups: more than %u", MAX_GROUPS);
    return SIM_OK;
}

sim_status_t sim_dram_create(const sim_config_t *config, sim_dram_t **out_dram, sim_error_t *err) {
    *out_dram = NULL;
    sim_dram_t *dram = calloc(1, sizeof *dram);
    if (dram == NULL) return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "dram");
    sim_status_t status = read_config(config, dram, err);
    if (status != SIM_OK) goto fail;
    size_t channels = dram->channel_count, groups = channels * dram->group_count;
    dram->channel = calloc(channels, sizeof *dram->channel);
    dram->groups = calloc(groups, sizeof *dram->groups);
    dram->banks = calloc(groups * dram->bank_count, sizeof *dram->banks);
    if (dram->channel == NULL || dram->groups == NULL || dram->banks == NULL) {
        status = sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "dram: %zu channels", channels);
        goto fail;
    }
    sim_dram_reset(dram);
    *out_dram = dram;
    return SIM_OK;
fail:
    sim_dram_destroy(dram);
    return status;
}

void sim_dram_destroy(sim_dram_t *dram) {
    if (dram == NULL) return;
    free(dram->channel);
    free(dram->groups);
    free(dram->banks);
    free(dram);
}

const sim_dram_stats_t *sim_dram_stats(const sim_dram_t *dram) {
    return &dram->stats;
}

uint64_t sim_dram_peak_bytes_per_s(const sim_dram_t *dram) {
    return (uint64_t)dram->channel_count * dram->burst_bytes * dram->clock.hz /
           dram->timing.param[SIM_DRAM_BL];
}

uint64_t sim_dram_stripe_bytes(const sim_dram_t *dram) {
    return sim_dram_map_stripe_bytes(&dram->map);
}

uint32_t sim_dram_channels(const sim_dram_t *dram) {
    return dram->channel_count;
}

uint32_t sim_dram_channel_at(const sim_dram_t *dram, uint64_t address, uint64_t *out_bytes) {
    uint64_t run = UINT64_C(1) << (dram->map.channel.shift + dram->map.burst_shift);
    *out_bytes = dram->map.channel.bits == 0 ? UINT64_MAX - address : run - address % run;
    return sim_dram_map_bank(&dram->map, address >> dram->map.burst_shift).channel;
}
