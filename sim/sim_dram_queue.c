/*
 * The scheduling window of a channel: first ready, first come, first served, command by command.
 *
 * The channel has a cycle of its own, the one of its last command. pick() finds the command that
 * can go first; no command at or after the arrival of a later request is placed before that request
 * is known, so the order is the one of a controller that looks every cycle. Two ways on:
 *   - an event, min_data cycles after the next command: late, but before the data of that command
 *     is there, so that one event serves many commands;
 *   - a full window: as long as a segment waits in front of it, nothing that comes later can be
 *     seen, so decisions ahead of time are final. That is why one waiting place is enough.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/sim_dram_internal.h"

enum { READ, WRITE, DIRECTIONS };

/* Kinds of command in the order of preference, and as bits. */
enum { COLUMN, ACTIVATE, PRECHARGE, KINDS };
enum { COLUMN_BIT = 1, ACTIVATE_BIT = 2, PRECHARGE_BIT = 4, ALL_KINDS = 7 };

typedef enum opened { WAS_OPEN, WAS_CLOSED, WAS_ANOTHER } opened_t;

/* A train in the window. */
typedef struct entry {
    sim_dram_request_t *request;
    uint64_t row;
    uint64_t age; /* of its next burst */
    uint32_t bursts, step;
    uint16_t next, prev; /* of its bank and direction, the oldest first; next: free list */
    uint8_t opened;      /* opened_t: what it cost to get at its row */
    bool has_begun;
    bool is_called; /* its row was opened for it: its next burst is not in the window any more */
} entry_t;

typedef struct list {
    uint16_t head, tail;
    uint16_t hit; /* the oldest entry of the open row */
} list_t;

typedef struct segment {
    sim_dram_request_t *request; /* NULL: none */
    sim_dram_place_t at;
    uint64_t first, end;
} segment_t;

typedef struct choice {
    uint64_t cycle; /* UINT64_MAX: no command */
    uint64_t age;
    sim_dram_command_t command;
    uint32_t bank;
} choice_t;

struct sim_dram_queue {
    sim_event_t decide;
    sim_dram_t *dram;
    uint32_t channel, bank_bits;
    bool is_writing;
    uint8_t stale;        /* kinds whose best is not known */
    choice_t best[KINDS]; /* of each kind */
    uint64_t cycle, age, decide_cycle;
    uint32_t bursts[DIRECTIONS]; /* in the window */
    /* one bit a bank: entries; entries of the open row; the oldest is one of them; the row was
     * opened for an entry that has not had it yet; a row is open; it has had all its hits while
     * another waits */
    uint64_t waiting[DIRECTIONS], hits[DIRECTIONS], content[DIRECTIONS], called[DIRECTIONS];
    uint64_t open, spent;
    segment_t front;
    sim_dram_room_fn on_room;
    void *room_user;
    uint16_t free_entry;
    uint32_t entry_count;
    list_t list[64][DIRECTIONS];
    uint32_t row_hits[64];
    entry_t entry[];
};

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static uint32_t lowest(uint64_t mask) {
    return (uint32_t)__builtin_ctzll(mask);
}

static uint64_t min_data(const sim_dram_t *dram) {
    uint32_t read = dram->timing.data_cycles[READ], write = dram->timing.data_cycles[WRITE];
    return read < write ? read : write;
}

/* ---- lists ---- */

static void set_hit(sim_dram_queue_t *queue, uint32_t bank, int direction, uint16_t hit) {
    uint64_t bit = UINT64_C(1) << bank;
    queue->list[bank][direction].hit = hit;
    if (hit == SIM_DRAM_NO_ENTRY)
        queue->hits[direction] &= ~bit;
    else
        queue->hits[direction] |= bit;
    if (hit != SIM_DRAM_NO_ENTRY && hit == queue->list[bank][direction].head)
        queue->content[direction] |= bit;
    else
        queue->content[direction] &= ~bit;
}

/* The oldest entry of `row`, from `from` on. */
static uint16_t find(const sim_dram_queue_t *queue, uint16_t from, uint64_t row) {
    while (from != SIM_DRAM_NO_ENTRY && queue->entry[from].row != row)
        from = queue->entry[from].next;
    return from;
}

static void append(sim_dram_queue_t *queue, uint32_t bank, int direction, uint16_t index,
                   uint64_t open_row) {
    list_t *list = &queue->list[bank][direction];
    if (list->head == SIM_DRAM_NO_ENTRY) queue->stale |= ACTIVATE_BIT | PRECHARGE_BIT;
    queue->entry[index].prev = list->tail;
    queue->entry[index].next = SIM_DRAM_NO_ENTRY;
    if (list->tail == SIM_DRAM_NO_ENTRY)
        list->head = index;
    else
        queue->entry[list->tail].next = index;
    list->tail = index;
    queue->waiting[direction] |= UINT64_C(1) << bank;
    if (list->hit == SIM_DRAM_NO_ENTRY && queue->entry[index].row == open_row) {
        set_hit(queue, bank, direction, index);
        queue->stale |= COLUMN_BIT | PRECHARGE_BIT;
    }
}

/* Takes the hit out; the next hit is behind it. */
static void take_hit(sim_dram_queue_t *queue, uint32_t bank, int direction) {
    list_t *list = &queue->list[bank][direction];
    uint16_t index = list->hit;
    entry_t *entry = &queue->entry[index];
    uint16_t next_hit = find(queue, entry->next, entry->row);
    if (entry->prev == SIM_DRAM_NO_ENTRY)
        list->head = entry->next;
    else
        queue->entry[entry->prev].next = entry->next;
    if (entry->next == SIM_DRAM_NO_ENTRY)
        list->tail = entry->prev;
    else
        queue->entry[entry->next].prev = entry->prev;
    if (list->head == SIM_DRAM_NO_ENTRY) queue->waiting[direction] &= ~(UINT64_C(1) << bank);
    set_hit(queue, bank, direction, next_hit);
    entry->next = queue->free_entry;
    queue->free_entry = index;
}

/* ---- into the window ---- */

static void admit(sim_dram_queue_t *queue) {
    const sim_dram_t *dram = queue->dram;
    const segment_t *segment = &queue->front;
    sim_dram_request_t *request = segment->request;
    int direction = request->is_write ? WRITE : READ;
    sim_dram_train_t train[SIM_DRAM_MAX_GROUPS];
    uint32_t count = sim_dram_split(dram, &segment->at, segment->first, segment->end, train);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bank = train[i].group * dram->bank_count + segment->at.bank;
        uint16_t index = queue->free_entry;
        entry_t *entry = &queue->entry[index];
        queue->free_entry = entry->next;
        *entry = (entry_t){.request = request,
                           .row = segment->at.row,
                           .age = queue->age + i,
                           .bursts = train[i].bursts,
                           .step = count};
        append(queue, bank, direction, index, dram->channel[queue->channel].bank[bank].row);
    }
    queue->age += segment->end - segment->first;
    queue->bursts[direction] += (uint32_t)(segment->end - segment->first);
    queue->front.request = NULL;
    if (direction == READ) {
        request->left += count - 1; /* the waiting segment counted as one */
        return;
    }
    request->done_cycle = later(request->done_cycle, queue->cycle + 1);
    if (--request->left == 0) sim_dram_request_end(queue->dram, request);
}

static bool has_place(const sim_dram_queue_t *queue, bool is_write) {
    return queue->bursts[is_write ? WRITE : READ] < queue->dram->window;
}

/* ---- decisions ---- */

static void choose_direction(sim_dram_queue_t *queue) {
    uint32_t reads = queue->bursts[READ], writes = queue->bursts[WRITE];
    bool was_writing = queue->is_writing;
    if (!queue->is_writing)
        queue->is_writing = writes > queue->dram->write_high || (reads == 0 && writes > 0);
    else if (reads > 0 && writes < queue->dram->write_low)
        queue->is_writing = false;
    if (writes == 0 && reads > 0) queue->is_writing = false;
    if (queue->is_writing != was_writing) queue->stale = ALL_KINDS;
}

/* First cycle at which the channel takes the command. */
static uint64_t floor_of(const sim_dram_queue_t *queue, sim_dram_command_t command) {
    const sim_dram_channel_t *channel = &queue->dram->channel[queue->channel];
    uint64_t cycle = later(queue->cycle, channel->next[command]);
    return command == SIM_DRAM_ACT ? later(cycle, channel->window[channel->window_at]) : cycle;
}

/* The best of one command over the banks of `mask`: the earliest, then the oldest; replaces *best
 * when it is better. */
static void best_of(const sim_dram_queue_t *queue, uint64_t mask, int direction,
                    sim_dram_command_t command, choice_t *best) {
    const sim_dram_channel_t *channel = &queue->dram->channel[queue->channel];
    bool is_column = command == SIM_DRAM_RD || command == SIM_DRAM_WR;
    uint64_t base = floor_of(queue, command);
    for (; mask != 0; mask &= mask - 1) {
        uint32_t bank = lowest(mask);
        uint64_t cycle = later(later(base, channel->bank[bank].next[command]),
                               channel->group[bank >> queue->bank_bits].next[command]);
        if (cycle > best->cycle) continue;
        const list_t *list = &queue->list[bank][direction];
        uint64_t age = queue->entry[is_column ? list->hit : list->head].age;
        if (is_column && !queue->entry[list->hit].is_called) age |= UINT64_C(1) << 63;
        if (cycle < best->cycle || age < best->age) *best = (choice_t){cycle, age, command, bank};
    }
}

static void find_best(sim_dram_queue_t *queue, int kind) {
    int direction = queue->is_writing ? WRITE : READ;
    uint64_t waiting = queue->waiting[direction], hits = queue->hits[direction] & ~queue->spent;
    uint64_t called = queue->called[READ] | queue->called[WRITE];
    choice_t *best = &queue->best[kind];
    *best = (choice_t){.cycle = UINT64_MAX, .command = SIM_DRAM_COMMAND_COUNT};
    queue->stale &= (uint8_t) ~(1u << kind);
    if (kind == ACTIVATE) {
        best_of(queue, waiting & ~queue->open, direction, SIM_DRAM_ACT, best);
    } else if (kind == PRECHARGE) {
        uint64_t content = queue->content[direction] & ~queue->spent;
        best_of(queue, waiting & queue->open & ~content & ~called, direction, SIM_DRAM_PRE, best);
    } else {
        uint64_t reads = queue->called[READ], writes = queue->called[WRITE];
        if (direction == READ)
            reads |= hits;
        else
            writes |= hits;
        best_of(queue, reads, READ, SIM_DRAM_RD, best);
        best_of(queue, writes, WRITE, SIM_DRAM_WR, best);
    }
}

/* The next command: the earliest of the best of each kind. What cannot be earlier stays stale. */
static choice_t pick(sim_dram_queue_t *queue) {
    choice_t next = {.cycle = UINT64_MAX, .command = SIM_DRAM_COMMAND_COUNT};
    for (int kind = 0; kind < KINDS; kind++) {
        if ((queue->stale >> kind & 1) != 0) {
            if (kind == ACTIVATE && floor_of(queue, SIM_DRAM_ACT) >= next.cycle) continue;
            find_best(queue, kind);
        }
        if (queue->best[kind].cycle < next.cycle) next = queue->best[kind];
    }
    return next;
}

/* A refresh closes rows whose burst has not gone: it is in the window again. */
static void call_back(sim_dram_queue_t *queue, uint32_t bank, int direction) {
    if ((queue->called[direction] >> bank & 1) == 0) return;
    queue->entry[queue->list[bank][direction].hit].is_called = false;
    queue->bursts[direction]++;
}

static void close_row(sim_dram_queue_t *queue, uint32_t bank) {
    call_back(queue, bank, READ);
    call_back(queue, bank, WRITE);
    queue->open &= ~(UINT64_C(1) << bank);
    queue->spent &= ~(UINT64_C(1) << bank);
    queue->called[READ] &= ~(UINT64_C(1) << bank);
    queue->called[WRITE] &= ~(UINT64_C(1) << bank);
    set_hit(queue, bank, READ, SIM_DRAM_NO_ENTRY);
    set_hit(queue, bank, WRITE, SIM_DRAM_NO_ENTRY);
}

/* For the oldest entry of the present direction: its next burst leaves the window, as if it moved
 * on to the bank. */
static void open_row(sim_dram_queue_t *queue, uint32_t bank, entry_t *entry) {
    int own = queue->is_writing ? WRITE : READ;
    if (entry->opened == WAS_OPEN) entry->opened = WAS_CLOSED;
    if (!entry->is_called) queue->bursts[own]--;
    entry->is_called = true;
    queue->called[own] |= UINT64_C(1) << bank;
    queue->open |= UINT64_C(1) << bank;
    queue->row_hits[bank] = 0;
    for (int direction = 0; direction < DIRECTIONS; direction++)
        set_hit(queue, bank, direction, find(queue, queue->list[bank][direction].head, entry->row));
}

static void count_train(sim_dram_stats_t *stats, entry_t *entry) {
    if (entry->has_begun) return;
    entry->has_begun = true;
    stats->trains++;
    stats->row_hits += entry->opened == WAS_OPEN;
    stats->row_closed += entry->opened == WAS_CLOSED;
    stats->row_conflicts += entry->opened == WAS_ANOTHER;
}

static void after_column(sim_dram_queue_t *queue, uint32_t bank, int direction, uint64_t cycle) {
    sim_dram_t *dram = queue->dram;
    const list_t *list = &queue->list[bank][direction];
    entry_t *entry = &queue->entry[list->hit];
    sim_dram_request_t *request = entry->request;
    count_train(&dram->stats, entry);
    entry->age += entry->step;
    if (!entry->is_called) queue->bursts[direction]--;
    entry->is_called = false;
    queue->called[direction] &= ~(UINT64_C(1) << bank);
    queue->row_hits[bank]++;
    if (--entry->bursts == 0) {
        take_hit(queue, bank, direction);
        if (direction == READ) {
            request->done_cycle =
                later(request->done_cycle, cycle + dram->timing.data_cycles[READ]);
            if (--request->left == 0) sim_dram_request_end(dram, request);
        }
    }
    if (dram->max_row_hits > 0 && queue->row_hits[bank] >= dram->max_row_hits &&
        list->head != list->hit)
        queue->spent |= UINT64_C(1) << bank;
}

/* A closed page: behind the last hit that the window knows of. */
static void close_page(sim_dram_queue_t *queue, uint32_t bank) {
    sim_dram_t *dram = queue->dram;
    if (((queue->hits[READ] | queue->hits[WRITE]) >> bank & 1) != 0) return;
    sim_dram_channel_t *channel = &dram->channel[queue->channel];
    uint32_t group = bank / dram->bank_count, own = bank % dram->bank_count;
    sim_dram_issue(dram, channel, group, own, SIM_DRAM_PRE,
                   sim_dram_earliest(dram, channel, group, own, SIM_DRAM_PRE, queue->cycle));
    channel->bank[bank].row = SIM_DRAM_NO_ROW;
    queue->stale = ALL_KINDS;
    close_row(queue, bank);
}

static void place(sim_dram_queue_t *queue, choice_t choice) {
    sim_dram_t *dram = queue->dram;
    sim_dram_channel_t *channel = &dram->channel[queue->channel];
    uint32_t bank = choice.bank, group = bank >> queue->bank_bits;
    const list_t *list = &queue->list[bank][queue->is_writing ? WRITE : READ];
    queue->cycle = choice.cycle;
    sim_dram_issue(dram, channel, group, bank - (group << queue->bank_bits), choice.command,
                   choice.cycle);
    if (choice.command == SIM_DRAM_PRE) {
        queue->stale = ALL_KINDS;
        queue->entry[list->head].opened = WAS_ANOTHER;
        channel->bank[bank].row = SIM_DRAM_NO_ROW;
        close_row(queue, bank);
    } else if (choice.command == SIM_DRAM_ACT) {
        queue->stale |= COLUMN_BIT | ACTIVATE_BIT;
        channel->bank[bank].row = queue->entry[list->head].row;
        open_row(queue, bank, &queue->entry[list->head]);
    } else {
        queue->stale |= COLUMN_BIT | PRECHARGE_BIT;
        channel->last_column = choice.cycle;
        after_column(queue, bank, choice.command == SIM_DRAM_WR ? WRITE : READ, choice.cycle);
        if (dram->is_closed_page) close_page(queue, bank);
    }
}

static void refresh(sim_dram_queue_t *queue, uint64_t cycle) {
    sim_dram_channel_t *channel = &queue->dram->channel[queue->channel];
    sim_dram_refresh(queue->dram, channel, cycle);
    queue->stale = ALL_KINDS;
    for (uint64_t mask = queue->open; mask != 0; mask &= mask - 1)
        if (channel->bank[lowest(mask)].row == SIM_DRAM_NO_ROW) close_row(queue, lowest(mask));
}

/* One command or refresh before cycle `end`; false if there is none, and then *next is the cycle of
 * the next command. */
static bool step(sim_dram_queue_t *queue, uint64_t end, uint64_t *next) {
    choose_direction(queue);
    choice_t choice = pick(queue);
    *next = choice.cycle;
    if (choice.cycle >= end) return false;
    if (choice.cycle >= queue->dram->channel[queue->channel].refresh_due) {
        refresh(queue, choice.cycle);
        return true;
    }
    place(queue, choice);
    if (queue->front.request != NULL && has_place(queue, queue->front.request->is_write)) {
        admit(queue);
        if (queue->on_room != NULL) queue->on_room(queue->room_user, queue->channel, queue->cycle);
    }
    return true;
}

/* ---- events ---- */

/* What arrives from `now` on is not at the channel before this cycle. */
static uint64_t decidable(const sim_dram_t *dram, sim_tick_t now) {
    return sim_clock_cycle_up(&dram->clock, now + dram->frontend_ticks);
}

/* The event is there before the data of the next command, which is at `cycle` at the earliest; at
 * once after it when a write waits for its place. */
static void wake(sim_dram_queue_t *queue, uint64_t cycle) {
    sim_dram_t *dram = queue->dram;
    bool write_waits = queue->front.request != NULL && queue->front.request->is_write;
    uint64_t at = cycle + (write_waits ? 1 : min_data(dram));
    if (sim_event_is_pending(&queue->decide)) {
        if (queue->decide_cycle <= at) return;
        sim_event_cancel(dram->engine, &queue->decide);
    }
    queue->decide_cycle = at;
    sim_tick_t tick = sim_clock_tick(&dram->clock, at) - 1;
    /* a cycle of one tick or two: not so early that on_decide would not reach the command */
    if (decidable(dram, tick) <= cycle) tick++;
    sim_event_schedule(dram->engine, &queue->decide, tick);
}

static void on_decide(sim_engine_t *engine, sim_event_t *event) {
    sim_dram_queue_t *queue = SIM_CONTAINER_OF(event, sim_dram_queue_t, decide);
    const sim_dram_t *dram = queue->dram;
    uint64_t end = decidable(dram, sim_now(engine)), next;
    while (step(queue, end, &next))
        ;
    if (next != UINT64_MAX) wake(queue, next);
}

void sim_dram_queue_add(sim_dram_t *dram, const sim_dram_place_t *at, uint64_t first, uint64_t end,
                        sim_dram_request_t *request, uint64_t arrival) {
    sim_dram_queue_t *queue = dram->channel[at->channel].queue;
    uint64_t next;
    while (queue->front.request != NULL)
        (void)step(queue, UINT64_MAX, &next);
    /* what comes in one cycle is seen as one: not even the direction may change in between */
    while (queue->cycle < arrival && step(queue, arrival, &next))
        ;
    request->left++;
    queue->front = (segment_t){request, *at, first, end};
    queue->cycle = later(arrival, queue->cycle); /* nothing is decided before it any more */
    if (has_place(queue, request->is_write)) admit(queue);
    wake(queue, queue->cycle);
}

bool sim_dram_queue_has_room(const sim_dram_queue_t *queue) {
    return queue->front.request == NULL;
}

void sim_dram_queue_on_room(sim_dram_queue_t *queue, sim_dram_room_fn fn, void *user) {
    queue->on_room = fn;
    queue->room_user = user;
}

/* ---- life cycle ---- */

/* Each entry in the window has a burst of its own; beside them there are at most the called ones,
 * one a bank, and those of the segment that got in last, one a bank group. */
static uint32_t entries(const sim_dram_t *dram) {
    return DIRECTIONS * (dram->window + dram->group_count * (dram->bank_count + 1));
}

size_t sim_dram_queue_bytes(const sim_dram_t *dram) {
    return sizeof(sim_dram_queue_t) + entries(dram) * sizeof(entry_t);
}

void sim_dram_queue_init(sim_dram_t *dram, uint32_t channel, void *memory) {
    sim_dram_queue_t *queue = memory;
    *queue = (sim_dram_queue_t){.dram = dram,
                                .channel = channel,
                                .bank_bits = dram->map.bank.bits,
                                .entry_count = entries(dram)};
    sim_event_init(&queue->decide, SIM_PHASE_ISSUE, on_decide);
}

void sim_dram_queue_reset(sim_dram_t *dram, sim_dram_queue_t *queue) {
    if (dram->engine != NULL) sim_event_cancel(dram->engine, &queue->decide);
    queue->is_writing = false;
    queue->stale = ALL_KINDS;
    queue->cycle = queue->age = queue->decide_cycle = 0;
    queue->open = queue->spent = 0;
    queue->called[READ] = queue->called[WRITE] = 0;
    queue->front.request = NULL;
    queue->free_entry = SIM_DRAM_NO_ENTRY;
    for (uint32_t i = queue->entry_count; i-- > 0;) {
        queue->entry[i].next = queue->free_entry;
        queue->free_entry = (uint16_t)i;
    }
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        queue->bursts[direction] = 0;
        queue->waiting[direction] = queue->hits[direction] = queue->content[direction] = 0;
        for (int bank = 0; bank < 64; bank++)
            queue->list[bank][direction] =
                (list_t){SIM_DRAM_NO_ENTRY, SIM_DRAM_NO_ENTRY, SIM_DRAM_NO_ENTRY};
    }
}
