/*
 * The event core: one totally ordered queue of intrusive events.
 *
 * Time is a 64-bit count of ticks of 125 ps from the start of an epoch. Events run in the order
 * (tick, phase, sequence of scheduling). A timing wheel (one tick a slot) holds the near future, a
 * binary heap keyed the same way the far one; heap events are migrated before any handler of a
 * reached tick runs, which keeps the order first-in first-out (reference: Varghese and Lauck 1987;
 * docs/timing.md). Nothing is allocated while events run: an event is embedded in its owner. Not
 * thread-safe: one engine belongs to one thread.
 */
#ifndef SIM_EVENT_H
#define SIM_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/sim_status.h"

typedef uint64_t sim_tick_t; /* 125 ps */
#define SIM_TICK_PS    125u
#define SIM_TICK_NEVER UINT64_MAX

typedef enum sim_phase {
    SIM_PHASE_COMPLETE = 0, /* completions, credits, semaphore releases */
    SIM_PHASE_ARRIVE = 1,   /* messages, DRAM data */
    SIM_PHASE_ISSUE = 2,    /* issue and arbitration */
    SIM_PHASE_OBSERVE = 3,  /* statistics, traces */
    SIM_PHASE_COUNT
} sim_phase_t;

typedef struct sim_event sim_event_t;
typedef struct sim_engine sim_engine_t;
typedef void (*sim_event_fn)(sim_engine_t *engine, sim_event_t *event);

/* Embed in the owner and find it with SIM_CONTAINER_OF. Zero-initialise, then sim_event_init. */
struct sim_event {
    sim_event_t *next;
    sim_event_t *prev;
    sim_event_fn fn;
    sim_tick_t tick;
    uint64_t seq;
    uint32_t heap_index;
    uint8_t phase;
    uint8_t state; /* private: idle, in the wheel, in the heap */
    uint16_t reserved;
};

#define SIM_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

sim_status_t sim_engine_create(sim_engine_t **out_engine) SIM_MUST_USE;
void sim_engine_destroy(
    sim_engine_t *engine); /* NULL is fine; pending events are forgotten, not run */

/* Back to tick 0, phase 0, sequence 0: the start of an epoch. Pending events become idle; their
 * memory must still exist. */
void sim_engine_reset(sim_engine_t *engine);

sim_tick_t sim_now(const sim_engine_t *engine);
sim_phase_t sim_now_phase(const sim_engine_t *engine);      /* phase of the running handler */
uint64_t sim_engine_dispatched(const sim_engine_t *engine); /* events run since creation */

void sim_event_init(sim_event_t *event, sim_phase_t phase, sim_event_fn fn);
bool sim_event_is_pending(const sim_event_t *event);
/* Schedules at tick >= now (same tick: phase must be >= the running phase; otherwise a simulator
 * bug, which aborts). The event must be idle. */
void sim_event_schedule(sim_engine_t *engine, sim_event_t *event, sim_tick_t tick);
/* Takes a pending event out; nothing if it is idle. O(1) in the wheel, O(log n) in the heap. */
void sim_event_cancel(sim_engine_t *engine, sim_event_t *event);

/* Runs until no event is left. Returns the tick of the last event (0 if none). */
sim_tick_t sim_engine_run(sim_engine_t *engine);
/* Runs events with tick <= limit; returns true if events are left. Now becomes min(limit, last
 * event) at the end. */
bool sim_engine_run_until(sim_engine_t *engine, sim_tick_t limit);
/* From a handler: the run in progress returns at the end of this tick; `now` stays there. */
void sim_engine_stop(sim_engine_t *engine);

/*
 * Clock domain: integer cycles, local to the epoch (cycle 0 = tick 0), converted without drift:
 *   sim_clock_tick(c) = ceil(cycle * ticks_num / ticks_den), sim_clock_cycle(tick) = floor(tick *
 * den / num), so that sim_clock_cycle(sim_clock_tick(c)) == c for every clock up to 8 GHz (above:
 * refused).
 */
typedef struct sim_clock {
    uint64_t hz;
    uint64_t num; /* ticks per cycle = num / den, reduced */
    uint64_t den;
} sim_clock_t;
sim_status_t sim_clock_init(sim_clock_t *clock,
                            uint64_t hz) SIM_MUST_USE; /* 1 Hz .. 8 GHz, else INVALID_VALUE */
sim_tick_t sim_clock_tick(const sim_clock_t *clock, uint64_t cycle); /* 128-bit inside */
uint64_t sim_clock_cycle(const sim_clock_t *clock, sim_tick_t tick); /* completed cycles at tick */
uint64_t sim_clock_cycle_up(const sim_clock_t *clock,
                            sim_tick_t tick); /* first cycle whose tick is >= tick */

#endif
