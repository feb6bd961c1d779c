#include "sim/sim_dram.h"

#include <assert.h>
#include <stdlib.h>

#include "sim/sim_dram_internal.h"

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
static void refresh_all(sim_dram_t *dram, sim_dram_channel_t *channel, uint64_t cycle) {
    uint64_t interval = dram->timing.param[SIM_DRAM_REFI];
    uint64_t missed = (cycle - channel->refresh_due) / interval;
    close_all_banks(dram, channel, channel->refresh_due);
    uint64_t due = channel->refresh_due + missed * interval;
    sim_dram_issue(dram, channel, 0, 0, SIM_DRAM_REF,
                   sim_dram_earliest(dram, channel, 0, 0, SIM_DRAM_REF, due));
    channel->refresh_due = due + interval;
    dram->stats.refreshes += missed + 1;
}

/* Of the refreshes that were missed only the last of each bank can still be felt. */
static void refresh_banks(sim_dram_t *dram, sim_dram_channel_t *channel, uint64_t cycle) {
    uint64_t interval = dram->timing.param[SIM_DRAM_REFI];
    uint32_t banks = dram->group_count * dram->bank_count;
    uint64_t missed = (cycle - channel->refresh_due) / interval;
    dram->stats.refreshes += missed + 1;
    uint64_t skipped = missed < banks ? 0 : missed + 1 - banks;
    channel->refresh_due += skipped * interval;
    channel->refresh_bank = (uint32_t)((channel->refresh_bank + skipped) % banks);
    for (; channel->refresh_due <= cycle; channel->refresh_due += interval) {
        uint32_t group = channel->refresh_bank % dram->group_count;
        uint32_t bank = channel->refresh_bank / dram->group_count;
        sim_dram_bank_t *state = &channel->bank[group * dram->bank_count + bank];
        if (state->row != SIM_DRAM_NO_ROW)
            sim_dram_issue(
                dram, channel, group, bank, SIM_DRAM_PRE,
                sim_dram_earliest(dram, channel, group, bank, SIM_DRAM_PRE, channel->refresh_due));
        state->row = SIM_DRAM_NO_ROW;
        sim_dram_issue(
            dram, channel, group, bank, SIM_DRAM_REFPB,
            sim_dram_earliest(dram, channel, group, bank, SIM_DRAM_REFPB, channel->refresh_due));
        channel->refresh_bank = (channel->refresh_bank + 1) % banks;
    }
}

void sim_dram_refresh(sim_dram_t *dram, sim_dram_channel_t *channel, uint64_t cycle) {
    if (cycle < channel->refresh_due) return;
    if (dram->is_per_bank_refresh)
        refresh_banks(dram, channel, cycle);
    else
        refresh_all(dram, channel, cycle);
}

/* ---- row trains ---- */

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
static uint64_t one_round(sim_dram_train_t *const train[], uint32_t count, uint64_t last,
                          uint32_t s, uint32_t l) {
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
static uint64_t all_rounds(sim_dram_train_t *const train[], uint32_t count, uint64_t rounds,
                           uint64_t last, uint32_t s, uint32_t l) {
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
                              sim_dram_train_t train[], uint32_t count, bool is_write,
                              uint64_t arrival) {
    sim_dram_command_t column = is_write ? SIM_DRAM_WR : SIM_DRAM_RD;
    uint32_t s = dram->timing.column_s[is_write], l = dram->timing.column_l[is_write];
    sim_dram_train_t *active[SIM_DRAM_MAX_GROUPS];
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

uint32_t sim_dram_split(const sim_dram_t *dram, const sim_dram_place_t *at, uint64_t first,
                        uint64_t end, sim_dram_train_t train[SIM_DRAM_MAX_GROUPS]) {
    const sim_dram_map_t *map = &dram->map;
    if (end - first == 1 || map->group.bits == 0 || map->group.shift >= map->segment_bits) {
        train[0] = (sim_dram_train_t){.group = at->group, .bursts = (uint32_t)(end - first)};
        return 1;
    }
    uint32_t count = 0;
    uint64_t mask = (UINT64_C(1) << map->segment_bits) - 1;
    uint64_t from = first & mask, to = from + (end - first);
    uint32_t start = (uint32_t)sim_dram_field_get(map->group, first);
    uint32_t permute = start ^ at->group; /* the hash is the same for the whole row */
    for (uint32_t i = 0; i < dram->group_count; i++) {
        uint32_t group = (start + i) & (dram->group_count - 1);
        uint64_t bursts =
            bursts_below(map->group, group, to) - bursts_below(map->group, group, from);
        if (bursts > 0)
            train[count++] =
                (sim_dram_train_t){.group = group ^ permute, .bursts = (uint32_t)bursts};
    }
    return count;
}

/* The bursts [first, end) of one segment: one channel, one bank number, one row, some or all bank
 * groups. */
static uint64_t serve_segment(sim_dram_t *dram, uint64_t first, uint64_t end, bool is_write,
                              uint64_t arrival) {
    sim_dram_place_t at = sim_dram_map_bank(&dram->map, first);
    sim_dram_channel_t *channel = &dram->channel[at.channel];
    sim_dram_refresh(dram, channel, later(arrival, channel->last_column));
    sim_dram_train_t train[SIM_DRAM_MAX_GROUPS];
    uint32_t count = sim_dram_split(dram, &at, first, end, train);
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

/* The bursts of a range, and its arrival at the channels. */
static uint64_t enter(sim_dram_t *dram, uint64_t address, uint64_t bytes, bool is_write,
                      sim_tick_t now, uint64_t *first, uint64_t *end) {
    if (now < dram->last) sim_bug("sim_dram", now, "called back in time");
    dram->last = now;
    *first = address >> dram->map.burst_shift;
    *end = ((address + bytes - 1) >> dram->map.burst_shift) + 1;
    uint64_t *moved = is_write ? &dram->stats.write_bytes : &dram->stats.read_bytes;
    *moved += (*end - *first) * dram->burst_bytes;
    return sim_clock_cycle_up(&dram->clock, now + dram->frontend_ticks);
}

static uint64_t segment_end(const sim_dram_t *dram, uint64_t first, uint64_t end) {
    uint64_t stop = (first | ((UINT64_C(1) << dram->map.segment_bits) - 1)) + 1;
    return stop < end ? stop : end;
}

sim_tick_t sim_dram_access(sim_dram_t *dram, uint64_t address, uint64_t bytes, bool is_write,
                           sim_tick_t now) {
    if (dram->window > 1) sim_bug("sim_dram", now, "in-order access beside a scheduling window");
    if (bytes == 0) return now;
    uint64_t first, end, done = 0;
    uint64_t arrival = enter(dram, address, bytes, is_write, now, &first, &end);
    while (first < end) {
        uint64_t stop = segment_end(dram, first, end);
        done = later(done, serve_segment(dram, first, stop, is_write, arrival));
        first = stop;
    }
    return sim_clock_tick(&dram->clock, done) + dram->frontend_ticks;
}

/* ---- requests of several ranges ---- */

void sim_dram_attach(sim_dram_t *dram, sim_engine_t *engine) {
    dram->engine = engine;
}

void sim_dram_begin(sim_dram_t *dram, sim_dram_request_t *request, bool is_write,
                    sim_event_t *event, sim_tick_t not_before) {
    *request = (sim_dram_request_t){.event = event,
                                    .done = sim_now(dram->engine),
                                    .not_before = not_before,
                                    .left = 1,
                                    .is_write = is_write};
}

void sim_dram_add(sim_dram_t *dram, sim_dram_request_t *request, uint64_t address, uint64_t bytes) {
    sim_tick_t now = sim_now(dram->engine);
    if (bytes == 0) return;
    if (dram->window == 1) {
        request->done =
            later(request->done, sim_dram_access(dram, address, bytes, request->is_write, now));
        return;
    }
    uint64_t first, end;
    uint64_t arrival = enter(dram, address, bytes, request->is_write, now, &first, &end);
    while (first < end) {
        uint64_t stop = segment_end(dram, first, end);
        sim_dram_place_t at = sim_dram_map_bank(&dram->map, first);
        sim_dram_queue_add(dram, &at, first, stop, request, arrival);
        first = stop;
    }
}

void sim_dram_request_end(sim_dram_t *dram, sim_dram_request_t *request) {
    if (request->done_cycle > 0)
        request->done = sim_clock_tick(&dram->clock, request->done_cycle) + dram->frontend_ticks;
    sim_tick_t tick = later(request->done, request->not_before), now = sim_now(dram->engine);
    if (request->done_cycle > 0 && tick <= now) tick = request->done = now + 1; /* from a queue */
    if (tick <= now)
        request->event->fn(dram->engine, request->event);
    else
        sim_event_schedule(dram->engine, request->event, tick);
}

void sim_dram_end(sim_dram_t *dram, sim_dram_request_t *request) {
    if (--request->left == 0) sim_dram_request_end(dram, request);
}

/* ---- life cycle ---- */

void sim_dram_reset(sim_dram_t *dram) {
    uint32_t channels = dram->channel_count, groups = dram->group_count;
    uint64_t interval = dram->timing.param[SIM_DRAM_REFI];
    for (uint32_t i = 0; i < channels; i++) {
        uint64_t due = dram->is_refresh_staggered
                           ? (2 * (uint64_t)i + 1) * interval / (2 * (uint64_t)channels)
                           : interval;
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
    for (uint32_t i = 0; dram->queues != NULL && i < channels; i++) {
        dram->channel[i].queue = (void *)(dram->queues + i * dram->queue_bytes);
        sim_dram_queue_reset(dram, dram->channel[i].queue);
    }
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
        [SIM_DRAM_RFCPB] = "dram.trfcpb",    [SIM_DRAM_RREFD] = "dram.trrefd",
        [SIM_DRAM_REFI] = "dram.trefi",
    };
    uint32_t param[SIM_DRAM_PARAM_COUNT] = {0};
    for (int i = SIM_DRAM_NONE + 1; i < SIM_DRAM_PARAM_COUNT; i++)
        param[i] = (uint32_t)sim_config_u64(config, key[i]);
    if (sim_config_u64(config, "dram.refresh") == 1)
        param[SIM_DRAM_REFI] = (uint32_t)sim_config_u64(config, "dram.trefipb");
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
    dram->is_per_bank_refresh = sim_config_u64(config, "dram.refresh") == 1;
    dram->is_refresh_staggered = sim_config_u64(config, "dram.refresh_stagger") != 0;
    dram->window = (uint32_t)sim_config_u64(config, "dram.window");
    dram->max_row_hits = (uint32_t)sim_config_u64(config, "dram.max_row_hits");
    sim_ratio_t high = sim_config_ratio(config, "dram.write_high"),
                low = sim_config_ratio(config, "dram.write_low");
    dram->write_high = (uint32_t)((uint64_t)dram->window * high.num / high.den);
    dram->write_low = (uint32_t)(((uint64_t)dram->window * low.num + low.den - 1) / low.den);
    dram->frontend_ticks =
        (sim_config_u64(config, "dram.frontend") + SIM_TICK_PS - 1) / SIM_TICK_PS;
    if (dram->group_count > SIM_DRAM_MAX_GROUPS)
        return sim_error_set(err, SIM_ERROR_CONFIG, "dram.bank_groups: more than %u",
                             SIM_DRAM_MAX_GROUPS);
    if (dram->window > 1 && dram->group_count * dram->bank_count > 64)
        return sim_error_set(err, SIM_ERROR_CONFIG,
                             "dram.window: more than 64 banks in a channel with a window");
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
    if (dram->window > 1) {
        dram->queue_bytes = sim_dram_queue_bytes(dram);
        dram->queues = calloc(channels, dram->queue_bytes);
        if (dram->queues == NULL) {
            status = sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "dram: %zu queues", channels);
            goto fail;
        }
        for (uint32_t i = 0; i < channels; i++)
            sim_dram_queue_init(dram, i, dram->queues + i * dram->queue_bytes);
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
    free(dram->queues);
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
    *out_bytes = dram->map.channels == 1 ? UINT64_MAX - address : run - address % run;
    return sim_dram_map_bank(&dram->map, address >> dram->map.burst_shift).channel;
}
