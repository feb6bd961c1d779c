#include "sim/sim_span.h"

#include <stddef.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide_t;

sim_tick_t sim_span_ticks(const sim_clock_t *clock, uint64_t cycles) {
    return (sim_tick_t)((wide_t)cycles * clock->num / clock->den);
}

static void on_edge(sim_engine_t *engine, sim_event_t *event) {
    sim_span_t *span = SIM_CONTAINER_OF(event, sim_span_t, event);
    span->on_end(engine, span);
}

void sim_span_wait(sim_engine_t *engine, sim_span_t *span, sim_tick_t tick, sim_span_fn on_end) {
    span->on_end = on_end;
    sim_event_init(&span->event, SIM_PHASE_COMPLETE, on_edge);
    sim_event_schedule(engine, &span->event, tick);
}

/* Shares end streams at any tick; the unit goes on at its next clock edge. */
static void end_at_edge(sim_engine_t *engine, sim_span_t *span) {
    sim_tick_t now = sim_now(engine);
    sim_tick_t edge = sim_clock_tick(span->clock, sim_clock_cycle_up(span->clock, now));
    if (edge == now)
        span->on_end(engine, span);
    else
        sim_span_wait(engine, span, edge, span->on_end);
}

static void on_stream_end(sim_engine_t *engine, sim_stream_t *stream) {
    sim_span_t *span = stream->owner;
    if (--span->pending == 0) end_at_edge(engine, span);
}

static void begin(sim_engine_t *engine, sim_span_t *span) {
    for (int i = 0; i < 2; i++)
        span->pending += span->share[i] != NULL;
    if (span->pending == 0) {
        sim_span_wait(engine, span, sim_now(engine) + span->min_ticks, span->on_end);
        return;
    }
    for (int i = 0; i < 2; i++)
        if (span->share[i] != NULL) sim_share_start(span->share[i], &span->stream[i]);
}

static void on_start(sim_engine_t *engine, sim_event_t *event) {
    begin(engine, SIM_CONTAINER_OF(event, sim_span_t, event));
}

void sim_span_start(sim_engine_t *engine, sim_span_t *span, const sim_clock_t *clock,
                    sim_tick_t start, sim_tick_t min_ticks, sim_share_t *const share[2],
                    const sim_bank_use_t use[2], sim_span_fn on_end) {
    if (min_ticks == 0) sim_bug("sim_span", sim_now(engine), "an operation without time");
    span->on_end = on_end;
    span->clock = clock;
    span->min_ticks = min_ticks;
    span->pending = 0;
    for (int i = 0; i < 2; i++) {
        sim_tick_t port_ticks = sim_clock_tick(clock, use[i].cycles);
        span->share[i] = use[i].bytes > 0 ? share[i] : NULL;
        span->stream[i] =
            (sim_stream_t){.on_end = on_stream_end,
                           .owner = span,
                           .bytes = use[i].bytes,
                           .min_ticks = port_ticks > min_ticks ? port_ticks : min_ticks,
                           .num_ranges = use[i].num_ranges};
        memcpy(span->stream[i].range, use[i].range, sizeof use[i].range);
    }
    if (start == sim_now(engine)) {
        begin(engine, span);
    } else {
        sim_event_init(&span->event, SIM_PHASE_ISSUE, on_start);
        sim_event_schedule(engine, &span->event, start);
    }
}
