/*
 * Epochs: which packets run side by side, and what that takes.
 *
 * The command processor starts packets in the order of time: each as soon as what it waits for has
 * ended and its cores are free, the launch gap included; of two that could start at the same time
 * the one submitted first. An epoch begins with a packet that finds nothing in flight and ends when
 * nothing is in flight again. Its times are a pure function of its members and their starts, so an
 * epoch that is known is walked without simulating: its recorded ends must lead the command
 * processor to the very same starts. By induction over time they are then the ends that the timing
 * engine would give.
 */
#include <stdlib.h>
#include <string.h>

#include "device/dev_chip_internal.h"

#define NEVER UINT64_MAX

static uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* --- when a packet may start
 * ------------------------------------------------------------------------------------------- */

bool chip_is_engine(const chip_node_t *node) {
    return node->kind == CHIP_KERNEL || node->kind == CHIP_MOVE;
}

static bool holds_core(const chip_node_t *node, uint32_t core) {
    if (node->kind == CHIP_MOVE) return core == node->move.core;
    return ((node->launch.core_mask[core / 64] >> (core % 64)) & 1u) != 0;
}

static void hold_cores(const dev_chip_t *chip, chip_engines_t *engines, const chip_node_t *node,
                       uint64_t free_ps) {
    for (uint32_t c = 0; c < chip->machine.cores; c++) {
        if (holds_core(node, c)) engines->core_free_ps[c] = free_ps;
    }
}

void chip_keep_cores(const dev_chip_t *chip, chip_engines_t *engines, const chip_node_t *node) {
    for (uint32_t c = 0; c < chip->machine.cores; c++) {
        if (holds_core(node, c))
            engines->core_free_ps[c] = max_u64(engines->core_free_ps[c], node->end_ps);
    }
}

static bool are_before_ended(const chip_node_t *node) {
    return (node->before[0] == NULL || node->before[0]->is_ended) &&
           (node->before[1] == NULL || node->before[1]->is_ended) &&
           (node->link_before == NULL || node->link_before->is_ended);
}

static uint64_t drained_ps(const chip_node_t *node) {
    uint64_t ps = node->drained_ps;
    for (uint32_t i = 0; i < 2; i++) {
        if (node->before[i] != NULL) ps = max_u64(ps, node->before[i]->end_ps);
    }
    return ps;
}

uint64_t chip_ready_ps(const dev_chip_t *chip, const chip_node_t *node) {
    return max_u64(node->decoded_ps, drained_ps(node) + chip->machine.launch_gap_ps);
}

uint64_t chip_start_ps(const dev_chip_t *chip, const chip_engines_t *engines,
                       const chip_node_t *node) {
    uint64_t free_ps = engines->drained_ps;
    for (uint32_t c = 0; c < chip->machine.cores; c++) {
        if (!holds_core(node, c)) continue;
        if (engines->core_free_ps[c] == CHIP_BUSY) return NEVER;
        free_ps = max_u64(free_ps, engines->core_free_ps[c]);
    }
    return max_u64(chip_ready_ps(chip, node), free_ps + chip->machine.launch_gap_ps);
}

static void end_node(const dev_chip_t *chip, chip_node_t *node, uint64_t end_ps) {
    node->end_ps = end_ps;
    node->host_end_ps = end_ps + chip->machine.completion_ps;
    node->epoch_end_ps = node->host_end_ps;
    node->is_ended = true;
}

void chip_settle_plain(const dev_chip_t *chip, chip_node_t *node) {
    node->is_started = true;
    if (node->kind == CHIP_LINK) {
        uint64_t free_ps =
            node->link_before != NULL ? node->link_before->end_ps : node->link_free_ps;
        node->start_ps = max_u64(chip_ready_ps(chip, node), free_ps);
        end_node(chip, node, node->start_ps + node->link_ps);
        return;
    }
    node->start_ps = node->end_ps = node->host_end_ps = drained_ps(node);
    for (uint32_t i = 0; i < 2; i++) {
        if (node->before[i] != NULL)
            node->host_end_ps = max_u64(node->host_end_ps, node->before[i]->host_end_ps);
    }
    node->epoch_end_ps = node->host_end_ps;
    node->is_ended = true;
}

/* --- one epoch
 * ---------------------------------------------------------------------------------------------------------
 */

typedef struct chip_walk {
    dev_chip_t *chip;
    chip_engines_t *engines;
    uint64_t start_ps;
    chip_node_t **node;         /* [max_packets] members */
    dev_epoch_member_t *member; /* [max_packets] as they come */
    dev_placement_t *placement; /* [max_packets] */
    uint32_t *ended;            /* [max_packets] */
    uint32_t count, num_ended;
    dev_place_groups_t groups;
    const dev_epoch_t *known;         /* NULL: the timing engine runs */
    const dev_record_t *known_record; /* of a known epoch of one packet */
    /* to take a walk back */
    chip_engines_t engines_before;
    chip_node_t **head_before;
    uint32_t head_room;
} chip_walk_t;

sim_status_t chip_walk_create(dev_chip_t *chip) {
    chip_walk_t *walk = chip->walk = calloc(1, sizeof *chip->walk);
    if (walk == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    uint32_t max = chip->machine.epoch_max_packets;
    walk->chip = chip;
    walk->node = calloc(max, sizeof(chip_node_t *));
    walk->member = calloc(max, sizeof *walk->member);
    walk->placement = calloc(max, sizeof *walk->placement);
    walk->ended = calloc(max, sizeof *walk->ended);
    bool is_whole = walk->node != NULL && walk->member != NULL && walk->placement != NULL &&
                    walk->ended != NULL;
    return is_whole ? SIM_OK : SIM_ERROR_OUT_OF_MEMORY;
}

void chip_walk_destroy(struct chip_walk *walk) {
    if (walk == NULL) return;
    dev_place_groups_fini(&walk->groups);
    free(walk->node);
    free(walk->member);
    free(walk->placement);
    free(walk->ended);
    free(walk->head_before);
    free(walk);
}

static void no_memory(const chip_walk_t *walk) {
    sim_bug("epoch", walk->start_ps, "no memory for %u packets", walk->count);
}

static void place(const chip_walk_t *walk, dev_place_groups_t *groups, const chip_node_t *node,
                  dev_placement_t *out_placement) {
    dev_place_options_t options = chip_place_options(walk->chip, node->rows_hash);
    sim_status_t status = node->kind == CHIP_MOVE
                              ? dev_place_next_move(groups, &node->move, &options, out_placement)
                              : dev_place_next(groups, &node->launch, &options, out_placement);
    if (status != SIM_OK) no_memory(walk);
}

static dev_job_t job_of(const chip_node_t *node, const dev_placement_t *placement) {
    dev_job_t job = {.placement = placement, .with_slices = node->with_slices};
    if (node->kind == CHIP_MOVE) {
        job.bytes = node->move.bytes;
        job.is_copy = node->move.is_copy;
        job.core = node->move.core;
    } else {
        job.launch = &node->launch;
        job.rows = node->rows;
    }
    return job;
}

/* False: the known epoch has another packet here, or none, or starts it at another time. */
static bool start_member(chip_walk_t *walk, chip_node_t *node, uint64_t tick) {
    uint32_t index = walk->count++;
    dev_placement_t *placement = &walk->placement[index];
    place(walk, &walk->groups, node, placement);
    walk->node[index] = node;
    walk->member[index] =
        (dev_epoch_member_t){.key = {placement->key[0], placement->key[1]}, .start = tick};
    node->is_started = true;
    node->start_ps = walk->start_ps + tick * SIM_TICK_PS;
    hold_cores(walk->chip, walk->engines, node, CHIP_BUSY);
    if (walk->known != NULL) {
        const dev_epoch_member_t *known = &walk->known->member[index];
        return index < walk->known->count && known->start == tick &&
               memcmp(known->key, placement->key, sizeof known->key) == 0 &&
               (!node->with_slices || known->record.slice != NULL);
    }
    dev_job_t job = job_of(node, placement);
    sim_error_t err = {0};
    if (dev_timing_start(walk->chip->timing, &job, tick, &err) != SIM_OK) no_memory(walk);
    return true;
}

/* The next end up to tick `limit`. */
static bool next_end(chip_walk_t *walk, uint64_t limit, dev_job_end_t *out_end) {
    if (walk->known == NULL) return dev_timing_advance(walk->chip->timing, limit, out_end);
    uint32_t index = walk->known->ended[walk->num_ended];
    const dev_epoch_member_t *known = &walk->known->member[index];
    if (index >= walk->count || known->end > limit) return false;
    *out_end = (dev_job_end_t){.job = index, .end = known->end};
    return true;
}

static void end_member(chip_walk_t *walk, const dev_job_end_t *end) {
    chip_node_t *node = walk->node[end->job];
    walk->member[end->job].end = end->end;
    walk->ended[walk->num_ended++] = end->job;
    end_node(walk->chip, node, walk->start_ps + end->end * SIM_TICK_PS);
    hold_cores(walk->chip, walk->engines, node, node->end_ps);
}

/* Nodes without work at the heads of the streams, as far as what they wait for has ended. */
static void settle_heads(dev_chip_t *chip) {
    for (bool is_changed = true; is_changed;) {
        is_changed = false;
        for (uint32_t i = 0; i < chip->num_streams; i++) {
            chip_stream_t *stream = &chip->stream[i];
            while (stream->head != NULL && !chip_is_engine(stream->head) &&
                   are_before_ended(stream->head)) {
                chip_settle_plain(chip, stream->head);
                stream->head = stream->head->next_in_stream;
                is_changed = true;
            }
        }
    }
}

/* The packet that starts next, by what is known now; NULL: none can. */
static chip_node_t *choose(dev_chip_t *chip, const chip_engines_t *engines,
                           uint64_t *out_start_ps) {
    chip_node_t *best = NULL;
    *out_start_ps = NEVER;
    for (uint32_t i = 0; i < chip->num_streams; i++) {
        chip_node_t *node = chip->stream[i].head;
        if (node == NULL || !chip_is_engine(node) || !are_before_ended(node)) continue;
        uint64_t start = chip_start_ps(chip, engines, node);
        if (start > *out_start_ps || start == NEVER ||
            (start == *out_start_ps && node->order > best->order))
            continue;
        best = node;
        *out_start_ps = start;
    }
    return best;
}

static void leave_head(dev_chip_t *chip, chip_node_t *node) {
    chip->stream[node->stream].head = node->next_in_stream;
}

/* Walks an epoch from its first packet to the moment when nothing is in flight. False: not the
 * known epoch. */
static bool walk_epoch(chip_walk_t *walk, chip_node_t *first, uint64_t start_ps,
                       const dev_epoch_t *known) {
    dev_chip_t *chip = walk->chip;
    walk->known = known;
    walk->start_ps = start_ps;
    walk->count = walk->num_ended = 0;
    walk->groups.count = walk->groups.next_number = 0;
    if (known == NULL) dev_timing_begin(chip->timing);
    leave_head(chip, first);
    if (!start_member(walk, first, 0)) return false;
    while (walk->num_ended < walk->count) {
        uint64_t next_ps = NEVER, limit = NEVER - 1;
        settle_heads(chip);
        chip_node_t *next = walk->count < chip->machine.epoch_max_packets
                                ? choose(chip, walk->engines, &next_ps)
                                : NULL;
        uint64_t tick = next == NULL || next_ps <= start_ps
                            ? 0
                            : (next_ps - start_ps + SIM_TICK_PS - 1) / SIM_TICK_PS;
        if (next != NULL) limit = tick;
        dev_job_end_t end;
        if (next_end(walk, limit, &end)) {
            end_member(walk, &end);
        } else if (next == NULL) {
            if (known != NULL) return false;
            sim_error_t err = {0};
            sim_status_t status = dev_timing_finish(chip->timing, &err);
            sim_bug("epoch", start_ps, "%s: %s", sim_status_name(status), err.text);
        } else {
            leave_head(chip, next);
            if (!start_member(walk, next, tick)) return false;
        }
    }
    return known == NULL || walk->count == known->count;
}

/* --- taking back
 * --------------------------------------------------------------------------------------------------------
 */

static void remember(chip_walk_t *walk) {
    dev_chip_t *chip = walk->chip;
    if (walk->head_room < chip->num_streams) {
        chip_node_t **grown =
            realloc(walk->head_before, chip->stream_capacity * sizeof(chip_node_t *));
        if (grown == NULL) no_memory(walk);
        walk->head_before = grown;
        walk->head_room = chip->stream_capacity;
    }
    for (uint32_t i = 0; i < chip->num_streams; i++)
        walk->head_before[i] = chip->stream[i].head;
    walk->engines_before = *walk->engines;
}

static void take_back(chip_walk_t *walk) {
    dev_chip_t *chip = walk->chip;
    for (uint32_t i = 0; i < chip->num_streams; i++) {
        chip_stream_t *stream = &chip->stream[i];
        for (chip_node_t *node = walk->head_before[i]; node != stream->head;
             node = node->next_in_stream) {
            node->is_started = node->is_ended = false;
        }
        stream->head = walk->head_before[i];
    }
    *walk->engines = walk->engines_before;
}

/* --- records
 * ------------------------------------------------------------------------------------------------------------
 */

static void set_records(chip_walk_t *walk, const dev_epoch_t *epoch, const dev_record_t *alone,
                        bool is_reused) {
    for (uint32_t i = 0; i < walk->count; i++) {
        chip_node_t *node = walk->node[i];
        node->is_reused = is_reused;
        node->record = node->row == CHIP_NO_ROW ? NULL
                       : alone != NULL          ? alone
                                                : &epoch->member[i].record;
    }
}

/* The walk of the timing engine as an epoch for the table. */
static void take_epoch(chip_walk_t *walk, dev_epoch_t *out_epoch) {
    sim_error_t err = {0};
    if (dev_timing_finish(walk->chip->timing, &err) != SIM_OK)
        sim_bug("epoch", walk->start_ps, "%s", err.text);
    *out_epoch = (dev_epoch_t){.member = malloc(walk->count * sizeof *walk->member),
                               .ended = malloc(walk->count * sizeof *walk->ended)};
    if (out_epoch->member == NULL || out_epoch->ended == NULL) no_memory(walk);
    out_epoch->count = walk->count;
    memcpy(out_epoch->member, walk->member, walk->count * sizeof *walk->member);
    memcpy(out_epoch->ended, walk->ended, walk->count * sizeof *walk->ended);
    for (uint32_t i = 0; i < walk->count; i++) {
        dev_record_t *record = &out_epoch->member[i].record;
        dev_timing_take(walk->chip->timing, i, record);
        memcpy(record->key, walk->member[i].key, sizeof record->key);
    }
}

static void check_epoch(const chip_walk_t *walk, const dev_epoch_t *known,
                        const dev_epoch_t *fresh) {
    bool is_same = known->count == fresh->count &&
                   memcmp(known->ended, fresh->ended, known->count * sizeof *known->ended) == 0;
    for (uint32_t i = 0; is_same && i < known->count; i++) {
        const dev_epoch_member_t *a = &known->member[i], *b = &fresh->member[i];
        is_same = memcmp(a->key, b->key, sizeof a->key) == 0 && a->start == b->start &&
                  a->end == b->end &&
                  dev_record_equal(&a->record, &b->record, dev_timing_engines(walk->chip->timing));
    }
    if (!is_same)
        sim_bug("reuse", walk->start_ps,
                "simulating an epoch of %u packets again gives another result", fresh->count);
}

static void check_alone(const chip_walk_t *walk, const dev_record_t *known,
                        const dev_epoch_t *fresh) {
    if (fresh->count == 1 &&
        dev_record_equal(known, &fresh->member[0].record, dev_timing_engines(walk->chip->timing)))
        return;
    sim_bug("reuse", walk->start_ps,
            "simulating %s alone again gives an epoch of %u packets, or another record",
            known->name, fresh->count);
}

/* --- known epochs
 * -------------------------------------------------------------------------------------------------------
 */

/* An epoch of one packet, as far as its record tells. */
static bool walk_alone(chip_walk_t *walk, chip_node_t *first, uint64_t start_ps,
                       const dev_record_t *record) {
    uint32_t ended = 0;
    dev_epoch_member_t member = {.key = {record->key[0], record->key[1]},
                                 .end = record->duration_ticks,
                                 .record = {.slice = record->slice}};
    dev_epoch_t epoch = {.member = &member, .ended = &ended, .count = 1};
    bool is_it = walk_epoch(walk, first, start_ps, &epoch);
    walk->known = NULL;
    return is_it;
}

static bool walk_known(chip_walk_t *walk, chip_node_t *first, uint64_t start_ps,
                       const uint64_t key[2], const dev_epoch_t **out_epoch,
                       const dev_record_t **out_alone) {
    const dev_reuse_table_t *table = walk->chip->reuse;
    *out_epoch = NULL;
    *out_alone = NULL;
    if (walk->chip->options.reuse == DEV_REUSE_OFF) return false;
    const dev_record_t *alone = dev_reuse_find(table, key);
    if (alone != NULL && walk_alone(walk, first, start_ps, alone)) {
        *out_alone = alone;
        return true;
    }
    if (alone != NULL) take_back(walk);
    const dev_epoch_t *epoch = dev_reuse_epochs(table, key);
    for (; epoch != NULL; epoch = epoch->next) {
        if (walk_epoch(walk, first, start_ps, epoch)) {
            *out_epoch = epoch;
            return true;
        }
        take_back(walk);
    }
    return false;
}

static bool is_profiling(const dev_chip_t *chip) {
    for (uint32_t c = 0; c < DEV_MAX_CLIENTS; c++) {
        if (chip->client[c].is_profiling) return true;
    }
    return false;
}

/* Gives the record or epoch of a fresh walk to the table. known: the same, found there before. */
static void store(chip_walk_t *walk, dev_epoch_t *fresh, const dev_epoch_t *known,
                  const dev_record_t *alone) {
    dev_chip_t *chip = walk->chip;
    bool is_off = chip->options.reuse == DEV_REUSE_OFF;
    if (known != NULL) {
        dev_epoch_free(fresh);
        set_records(walk, known, NULL, true);
        return;
    }
    sim_status_t status = SIM_OK;
    if (fresh->count > 1) {
        const dev_epoch_t *added = NULL;
        status = dev_reuse_add_epoch(chip->reuse, fresh, is_off, !is_profiling(chip), &added);
        if (status == SIM_OK) set_records(walk, added, NULL, false);
    } else {
        dev_record_t *record = &fresh->member[0].record;
        const dev_record_t *added = alone;
        if (alone != NULL)
            dev_reuse_give_slices(chip->reuse, alone, record);
        else if (is_off)
            status = dev_reuse_keep(chip->reuse, record, &added);
        else
            status = dev_reuse_add(chip->reuse, record, &added);
        if (alone == NULL) *record = (dev_record_t){0};
        if (status == SIM_OK) set_records(walk, NULL, added, alone != NULL);
        dev_epoch_free(fresh);
    }
    if (status != SIM_OK) no_memory(walk);
}

static void close_epoch(chip_walk_t *walk) {
    chip_engines_t *engines = walk->engines;
    uint64_t end_ps = 0, forced_ps = 0;
    for (uint32_t i = 0; i < walk->count; i++)
        end_ps = max_u64(end_ps, walk->node[i]->end_ps);
    if (walk->count == walk->chip->machine.epoch_max_packets) forced_ps = end_ps;
    for (uint32_t i = 0; i < walk->count; i++) {
        chip_node_t *node = walk->node[i];
        node->epoch_end_ps = end_ps + walk->chip->machine.completion_ps;
        node->forced_drain_ps = forced_ps;
        engines->last_start_ps = max_u64(engines->last_start_ps, node->start_ps);
    }
    engines->last_end_ps = max_u64(engines->last_end_ps, end_ps);
    engines->drained_ps = max_u64(engines->drained_ps, forced_ps);
}

static void run_epoch(dev_chip_t *chip, chip_node_t *first, uint64_t start_ps) {
    chip_walk_t *walk = chip->walk;
    walk->engines = &chip->engines;
    dev_placement_t placement;
    place(walk, NULL, first, &placement);
    const dev_epoch_t *known;
    const dev_record_t *alone;
    remember(walk);
    bool is_known = walk_known(walk, first, start_ps, placement.key, &known, &alone);
    if (is_known && chip->options.reuse == DEV_REUSE_ON) {
        set_records(walk, known, alone, true);
        close_epoch(walk);
        return;
    }
    if (is_known) take_back(walk);
    (void)walk_epoch(walk, first, start_ps, NULL);
    dev_epoch_t fresh;
    take_epoch(walk, &fresh);
    if (known != NULL) check_epoch(walk, known, &fresh);
    if (is_known && alone != NULL) check_alone(walk, alone, &fresh);
    bool may_be_there = alone == NULL && fresh.count == 1 && chip->options.reuse != DEV_REUSE_OFF;
    if (may_be_there)
        alone =
            dev_reuse_find(chip->reuse, placement.key); /* without the slices that are wanted now */
    store(walk, &fresh, known, alone);
    close_epoch(walk);
}

void chip_run_alone(dev_chip_t *chip, chip_node_t *node, uint64_t start_ps) {
    dev_placement_t placement;
    place(chip->walk, NULL, node, &placement);
    dev_job_t job = job_of(node, &placement);
    const dev_record_t *record;
    sim_error_t err = {0};
    if (chip_time_alone(chip, &job, &record, &node->is_reused, &err) != SIM_OK)
        sim_bug("epoch", start_ps, "%s", err.text);
    chip_walk_t *walk = chip->walk;
    walk->engines = &chip->engines;
    walk->count = 1;
    walk->node[0] = node;
    node->is_started = true;
    node->start_ps = start_ps;
    node->record = node->row == CHIP_NO_ROW ? NULL : record;
    end_node(chip, node, start_ps + record->duration_ticks * SIM_TICK_PS);
    chip_keep_cores(chip, walk->engines, node);
    close_epoch(walk);
}

/* --- all pending
 * --------------------------------------------------------------------------------------------------------
 */

static void build_chains(dev_chip_t *chip) {
    for (uint32_t i = 0; i < chip->num_streams; i++)
        chip->stream[i].head = chip->stream[i].last = NULL;
    for (chip_node_t *node = chip->first; node != NULL; node = node->next) {
        if (node->is_final) continue;
        chip_stream_t *stream = &chip->stream[node->stream];
        node->is_started = node->is_ended = false;
        node->next_in_stream = NULL;
        if (stream->head == NULL)
            stream->head = node;
        else
            stream->last->next_in_stream = node;
        stream->last = node;
    }
}

void chip_work_out(dev_chip_t *chip) {
    chip->engines = chip->settled;
    build_chains(chip);
    for (;;) {
        uint64_t start_ps;
        settle_heads(chip);
        chip_node_t *next = choose(chip, &chip->engines, &start_ps);
        if (next == NULL) break;
        run_epoch(chip, next, start_ps);
    }
    for (uint32_t i = 0; i < chip->num_streams; i++) {
        if (chip->stream[i].head != NULL)
            sim_bug("epoch", chip->stream[i].id, "a packet waits for ever");
    }
}
