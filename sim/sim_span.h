/*
 * The time that one operation occupies its unit: `min_ticks`, longer when the shares that carry its
 * operands are contended, rounded up to an edge of the unit's clock. Used inside the matrix and the
 * vector unit.
 */
#ifndef SIM_SPAN_H
#define SIM_SPAN_H

#include "sim/sim_bank.h"
#include "sim/sim_op.h"
#include "sim/sim_share.h"

typedef struct sim_span sim_span_t;
typedef void (*sim_span_fn)(sim_engine_t *engine, sim_span_t *span);

/* Embed in the operation. Everything but `owner` is private to sim_span.c. */
struct sim_span {
    void *owner;
    sim_span_fn on_end;
    const sim_clock_t *clock;
    sim_share_t *share[2];
    sim_stream_t stream[2];
    sim_event_t event;
    sim_tick_t min_ticks;
    uint32_t pending;
};

/* A span of `min_ticks` >= 1 whose first tick is `start` (not before now) and that moves use[i]
 * through share[i] (NULL: ideal, no bytes: not used), in no fewer cycles than use[i] says. on_end
 * runs at its end, phase COMPLETE. Everything is borrowed until then. */
void sim_span_start(sim_engine_t *engine, sim_span_t *span, const sim_clock_t *clock,
                    sim_tick_t start, sim_tick_t min_ticks, sim_share_t *const share[2],
                    const sim_bank_use_t use[2], sim_span_fn on_end);
/* Once ended, a span can wait for one more instant (an operation's `done`), tick >= now; then
 * on_end runs. */
void sim_span_wait(sim_engine_t *engine, sim_span_t *span, sim_tick_t tick, sim_span_fn on_end);

/* Whole ticks in `cycles`, rounded down: for booking causes, which never add up to more than the
 * time itself. */
sim_tick_t sim_span_ticks(const sim_clock_t *clock, uint64_t cycles);

#endif
