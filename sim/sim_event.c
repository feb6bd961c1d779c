#include "sim/sim_event.h"

#include <assert.h>
#include <stdlib.h>

#define WHEEL_SLOTS  4096u /* power of two; reach of the wheel: 512 ns */
#define WHEEL_WORDS  (WHEEL_SLOTS / 64u)
#define HEAP_INITIAL 1024u
#define SEQ_BITS     62u

enum { STATE_IDLE = 0, STATE_WHEEL, STATE_HEAP };

static_assert(WHEEL_WORDS == 64, "the summary is one 64-bit word");

/* tick and key are copied out of the event: comparing does not touch the event's cache line. */
typedef struct heap_node {
    sim_tick_t tick;
    uint64_t key; /* phase << SEQ_BITS | seq */
    sim_event_t *event;
} heap_node_t;

struct sim_engine {
    sim_tick_t now;
    uint64_t seq;
    uint64_t dispatched;
    bool is_running, is_stopped;
    uint8_t phase;
    /*
     * Slot t % WHEEL_SLOTS holds exactly the events of tick t, for now <= t < now + WHEEL_SLOTS,
     * one list per phase. A list's head points back at its tail (head->prev), the tail's next is
     * NULL.
     */
    sim_event_t *slot[WHEEL_SLOTS][SIM_PHASE_COUNT];
    uint64_t used[WHEEL_WORDS]; /* bit per slot: some list is not empty */
    uint64_t used_words;        /* bit per word of `used` */
    heap_node_t *heap;          /* events with tick >= now + WHEEL_SLOTS, no others */
    uint32_t heap_count, heap_capacity;
};

sim_status_t sim_engine_create(sim_engine_t **out_engine) {
    *out_engine = NULL;
    sim_engine_t *engine = calloc(1, sizeof *engine);
    if (engine == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    engine->heap = malloc(HEAP_INITIAL * sizeof *engine->heap);
    if (engine->heap == NULL) {
        sim_engine_destroy(engine);
        return SIM_ERROR_OUT_OF_MEMORY;
    }
    engine->heap_capacity = HEAP_INITIAL;
    *out_engine = engine;
    return SIM_OK;
}

void sim_engine_destroy(sim_engine_t *engine) {
    if (engine == NULL) return;
    free(engine->heap);
    free(engine);
}

/* ---- wheel --------------------------------------------------------------- */

static void mark_used(sim_engine_t *engine, uint32_t slot) {
    engine->used[slot / 64u] |= UINT64_C(1) << (slot % 64u);
    engine->used_words |= UINT64_C(1) << (slot / 64u);
}

static void mark_empty(sim_engine_t *engine, uint32_t slot) {
    uint64_t *word = &engine->used[slot / 64u];
    *word &= ~(UINT64_C(1) << (slot % 64u));
    if (*word == 0) engine->used_words &= ~(UINT64_C(1) << (slot / 64u));
}

static void wheel_append(sim_engine_t *engine, sim_event_t *event) {
    uint32_t slot = (uint32_t)(event->tick % WHEEL_SLOTS);
    sim_event_t **head = &engine->slot[slot][event->phase];
    event->state = STATE_WHEEL;
    event->next = NULL;
    if (*head == NULL) {
        event->prev = event;
        *head = event;
    } else {
        event->prev = (*head)->prev;
        event->prev->next = event;
        (*head)->prev = event;
    }
    mark_used(engine, slot);
}

static void wheel_remove(sim_engine_t *engine, sim_event_t *event) {
    uint32_t slot = (uint32_t)(event->tick % WHEEL_SLOTS);
    sim_event_t **head = &engine->slot[slot][event->phase];
    if (*head == event) {
        *head = event->next;
        if (event->next != NULL) event->next->prev = event->prev;
    } else {
        event->prev->next = event->next;
        if (event->next != NULL)
            event->next->prev = event->prev;
        else
            (*head)->prev = event->prev;
    }
    event->state = STATE_IDLE;
    event->next = event->prev = NULL;
    sim_event_t **lists = engine->slot[slot];
    if (lists[0] == NULL && lists[1] == NULL && lists[2] == NULL && lists[3] == NULL)
        mark_empty(engine, slot);
}

static_assert(SIM_PHASE_COUNT == 4, "wheel_remove looks at four lists");

/* Distance from `now` to the first used slot, walking the ring once; false if the wheel is empty.
 */
static bool wheel_next(const sim_engine_t *engine, uint32_t *out_distance) {
    if (engine->used_words == 0) return false;
    uint32_t here = (uint32_t)(engine->now % WHEEL_SLOTS);
    uint32_t word = here / 64u;
    uint64_t bits = engine->used[word] >> (here % 64u) << (here % 64u);
    if (bits == 0) {
        /* Words after this one first, then around the ring up to the low part of this one. */
        uint64_t after = word == 63u ? 0 : engine->used_words >> (word + 1u) << (word + 1u);
        word = (uint32_t)__builtin_ctzll(after != 0 ? after : engine->used_words);
        bits = engine->used[word];
    }
    uint32_t slot = word * 64u + (uint32_t)__builtin_ctzll(bits);
    *out_distance = (slot - here) % WHEEL_SLOTS;
    return true;
}

/* ---- heap ---------------------------------------------------------------- */

static bool is_before(const heap_node_t *a, const heap_node_t *b) {
    return a->tick != b->tick ? a->tick < b->tick : a->key < b->key;
}

static void heap_put(sim_engine_t *engine, uint32_t index, heap_node_t node) {
    engine->heap[index] = node;
    node.event->heap_index = index;
}

static void heap_sift_up(sim_engine_t *engine, uint32_t index, heap_node_t node) {
    while (index > 0) {
        uint32_t parent = (index - 1u) / 2u;
        if (!is_before(&node, &engine->heap[parent])) break;
        heap_put(engine, index, engine->heap[parent]);
        index = parent;
    }
    heap_put(engine, index, node);
}

static void heap_sift_down(sim_engine_t *engine, uint32_t index, heap_node_t node) {
    for (;;) {
        uint32_t child = 2u * index + 1u;
        if (child >= engine->heap_count) break;
        if (child + 1u < engine->heap_count &&
            is_before(&engine->heap[child + 1u], &engine->heap[child]))
            child++;
        if (!is_before(&engine->heap[child], &node)) break;
        heap_put(engine, index, engine->heap[child]);
        index = child;
    }
    heap_put(engine, index, node);
}

static void heap_insert(sim_engine_t *engine, sim_event_t *event) {
    if (engine->heap_count == engine->heap_capacity) {
        if (engine->heap_capacity > UINT32_MAX / 4u)
            sim_bug("sim_event", engine->now, "more than 2^30 events beyond the wheel");
        uint32_t capacity = engine->heap_capacity * 2u;
        heap_node_t *heap = realloc(engine->heap, capacity * sizeof *heap);
        if (heap == NULL) sim_bug("sim_event", engine->now, "no memory for %u events", capacity);
        engine->heap = heap;
        engine->heap_capacity = capacity;
    }
    event->state = STATE_HEAP;
    heap_node_t node = {.tick = event->tick,
                        .key = (uint64_t)event->phase << SEQ_BITS | event->seq,
                        .event = event};
    heap_sift_up(engine, engine->heap_count++, node);
}

static void heap_remove(sim_engine_t *engine, uint32_t index) {
    engine->heap[index].event->state = STATE_IDLE;
    heap_node_t last = engine->heap[--engine->heap_count];
    if (index == engine->heap_count) return;
    if (index > 0 && is_before(&last, &engine->heap[(index - 1u) / 2u]))
        heap_sift_up(engine, index, last);
    else
        heap_sift_down(engine, index, last);
}

/* ---- engine -------------------------------------------------------------- */

void sim_engine_reset(sim_engine_t *engine) {
    if (engine->is_running) sim_bug("sim_event", engine->now, "reset from a handler");
    uint32_t distance;
    while (wheel_next(engine, &distance)) {
        sim_event_t **lists = engine->slot[(engine->now + distance) % WHEEL_SLOTS];
        for (int phase = 0; phase < SIM_PHASE_COUNT; phase++)
            if (lists[phase] != NULL) wheel_remove(engine, lists[phase]);
    }
    for (uint32_t i = 0; i < engine->heap_count; i++)
        engine->heap[i].event->state = STATE_IDLE;
    engine->heap_count = 0;
    engine->now = 0;
    engine->phase = SIM_PHASE_COMPLETE;
    engine->seq = 0;
}

sim_tick_t sim_now(const sim_engine_t *engine) {
    return engine->now;
}

sim_phase_t sim_now_phase(const sim_engine_t *engine) {
    return (sim_phase_t)engine->phase;
}

uint64_t sim_engine_dispatched(const sim_engine_t *engine) {
    return engine->dispatched;
}

void sim_event_init(sim_event_t *event, sim_phase_t phase, sim_event_fn fn) {
    *event = (sim_event_t){.fn = fn, .phase = (uint8_t)phase, .state = STATE_IDLE};
}

bool sim_event_is_pending(const sim_event_t *event) {
    return event->state != STATE_IDLE;
}

void sim_event_schedule(sim_engine_t *engine, sim_event_t *event, sim_tick_t tick) {
    if (event->state != STATE_IDLE)
        sim_bug("sim_event", engine->now, "event scheduled twice, for %llu and %llu",
                (unsigned long long)event->tick, (unsigned long long)tick);
    if (tick < engine->now || tick == SIM_TICK_NEVER)
        sim_bug("sim_event", engine->now, "event scheduled at tick %llu", (unsigned long long)tick);
    if (tick == engine->now && event->phase < engine->phase)
        sim_bug("sim_event", engine->now, "phase %u scheduled in this tick's phase %u",
                event->phase, engine->phase);
    event->tick = tick;
    event->seq = engine->seq++;
    if (tick - engine->now < WHEEL_SLOTS)
        wheel_append(engine, event);
    else
        heap_insert(engine, event);
}

void sim_event_cancel(sim_engine_t *engine, sim_event_t *event) {
    if (event->state == STATE_WHEEL)
        wheel_remove(engine, event);
    else if (event->state == STATE_HEAP)
        heap_remove(engine, event->heap_index);
}

/*
 * Every event that comes within the wheel's reach moves there before a handler of the new tick
 * runs. What such a handler schedules for the same later tick has a higher sequence number and
 * lands behind: first in, first out.
 */
static void advance(sim_engine_t *engine, sim_tick_t tick) {
    engine->now = tick;
    engine->phase = SIM_PHASE_COMPLETE;
    while (engine->heap_count > 0 && engine->heap[0].tick - tick < WHEEL_SLOTS) {
        sim_event_t *event = engine->heap[0].event;
        heap_remove(engine, 0);
        wheel_append(engine, event);
    }
}

/* Everything in the wheel comes before everything in the heap. */
static bool next_tick(const sim_engine_t *engine, sim_tick_t *out_tick) {
    uint32_t distance;
    if (wheel_next(engine, &distance)) {
        *out_tick = engine->now + distance;
        return true;
    }
    if (engine->heap_count == 0) return false;
    *out_tick = engine->heap[0].tick;
    return true;
}

/* Handlers may add to the running phase and to later ones of this tick, so one pass over the phases
 * is enough. */
static void run_tick(sim_engine_t *engine) {
    sim_event_t **lists = engine->slot[engine->now % WHEEL_SLOTS];
    for (uint8_t phase = 0; phase < SIM_PHASE_COUNT; phase++) {
        engine->phase = phase;
        while (lists[phase] != NULL) {
            sim_event_t *event = lists[phase];
            wheel_remove(engine, event);
            engine->dispatched++;
            event->fn(engine, event);
        }
    }
    engine->phase = SIM_PHASE_COMPLETE; /* between runs the caller may schedule any phase */
}

bool sim_engine_run_until(sim_engine_t *engine, sim_tick_t limit) {
    if (engine->is_running) sim_bug("sim_event", engine->now, "run from a handler");
    engine->is_running = true;
    sim_tick_t tick;
    bool is_left;
    engine->is_stopped = false;
    while ((is_left = next_tick(engine, &tick)) && tick <= limit && !engine->is_stopped) {
        advance(engine, tick);
        run_tick(engine);
    }
    if (is_left && limit > engine->now && !engine->is_stopped) advance(engine, limit);
    engine->is_running = false;
    return is_left;
}

void sim_engine_stop(sim_engine_t *engine) {
    if (!engine->is_running) sim_bug("sim_event", engine->now, "stop without a run");
    engine->is_stopped = true;
}

sim_tick_t sim_engine_run(sim_engine_t *engine) {
    uint64_t dispatched = engine->dispatched;
    (void)sim_engine_run_until(engine, SIM_TICK_NEVER - 1u);
    return engine->dispatched == dispatched ? 0 : engine->now;
}
