/*
 * A bandwidth shared by concurrent streams (the ports of a scratchpad or accumulator), fluid model.
 *
 * A stream moves `bytes` and, alone, takes `min_ticks` (its own engine's rate). While the sum of
 * the demands bytes/min_ticks stays within the capacity every stream runs at its own rate and ends
 * exactly at start + min_ticks; otherwise the capacity is divided max-min fairly and the streams
 * that get less end later. Progress is kept in integers (fixed point, rounded so that a stream
 * never ends early); finish times are recomputed only when a stream starts or ends.
 */
#ifndef SIM_SHARE_H
#define SIM_SHARE_H

#include "sim/sim_event.h"

typedef struct sim_share sim_share_t;
typedef struct sim_stream sim_stream_t;
typedef void (*sim_stream_fn)(sim_engine_t *engine, sim_stream_t *stream);

#define SIM_SHARE_MAX_STREAMS 32u

struct sim_stream {
    sim_stream_fn on_end; /* phase COMPLETE */
    void *owner;
    uint64_t bytes;
    sim_tick_t min_ticks, start, end;
    /* private */
    uint64_t remaining, rate, demand;
    int32_t slot;
};

struct sim_share {
    sim_engine_t *engine;
    uint64_t bytes_per_cycle; /* capacity */
    sim_clock_t clock;
    sim_stream_t *stream[SIM_SHARE_MAX_STREAMS];
    uint32_t count;
    sim_tick_t updated;
    sim_event_t event;
    uint64_t total_bytes; /* statistics */
};

/* bytes_per_cycle >= 1. Caller's memory. */
void sim_share_init(sim_share_t *share, sim_engine_t *engine, const sim_clock_t *clock,
                    uint64_t bytes_per_cycle);
/* New epoch: no stream, statistics kept. */
void sim_share_reset(sim_share_t *share);
/* Starts now. bytes == 0: a pure delay of min_ticks. min_ticks == 0 with bytes > 0: as fast as the
 * capacity allows. */
void sim_share_start(sim_share_t *share, sim_stream_t *stream);

#endif
