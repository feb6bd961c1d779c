/*
 * A bandwidth shared by concurrent streams (the ports of a scratchpad or accumulator), fluid model.
 *
 * A stream moves `bytes` and, alone, takes `min_ticks` (its own engine's rate). While the sum of
 * the demands bytes/min_ticks stays within the capacity every stream runs at its own rate and ends
 * exactly at start + min_ticks; otherwise the capacity is divided max-min fairly and the streams
 * that get less end later. Progress is kept in integers (fixed point, rounded so that a stream
 * never ends early); finish times are recomputed only when a stream starts or ends.
 *
 * A memory whose banks are blocks of consecutive bytes (sram.interleave) is a share of several
 * parts, a bank each, with an equal part of the capacity: a stream says where its bytes lie
 * (`range`, spread evenly over each), takes from the parts that they lie in, and goes on at the
 * rate of the one that gives it least. What it leaves unused in the others is not given on.
 * Streams that come first (writes of a DMA engine into single-ported banks) get their demand before
 * the rest of the capacity is divided.
 */
#ifndef SIM_SHARE_H
#define SIM_SHARE_H

#include <stdbool.h>

#include "sim/sim_event.h"

typedef struct sim_share sim_share_t;
typedef struct sim_stream sim_stream_t;
typedef void (*sim_stream_fn)(sim_engine_t *engine, sim_stream_t *stream);

#define SIM_SHARE_MAX_STREAMS 32u
#define SIM_SHARE_MAX_PARTS   8u
#define SIM_SHARE_MAX_RANGES  3u /* a stream's operands */

/* `bytes` that lie, or pass, evenly in [first, first + extent) of a memory. */
typedef struct sim_range {
    uint64_t first, extent, bytes;
} sim_range_t;

struct sim_stream {
    sim_stream_fn on_end; /* phase COMPLETE */
    void *owner;
    uint64_t bytes;
    sim_tick_t min_ticks, start, end;
    bool is_first;                           /* before the streams that are not */
    uint32_t num_ranges;                     /* 0: evenly over all parts */
    sim_range_t range[SIM_SHARE_MAX_RANGES]; /* unused with one part */
    /* private */
    uint64_t remaining, rate, demand;
    uint64_t part_demand[SIM_SHARE_MAX_PARTS];
    int32_t slot;
};

struct sim_share {
    sim_engine_t *engine;
    uint64_t bytes_per_cycle; /* capacity of all parts */
    uint32_t parts;
    uint64_t part_bytes; /* consecutive bytes in one of several parts */
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
/* As above, in `parts` 1 .. SIM_SHARE_MAX_PARTS: byte a is in part a / part_bytes mod parts. */
void sim_share_init_parts(sim_share_t *share, sim_engine_t *engine, const sim_clock_t *clock,
                          uint64_t bytes_per_cycle, uint32_t parts, uint64_t part_bytes);
/* New epoch: no stream, statistics kept. */
void sim_share_reset(sim_share_t *share);
/* Starts now. bytes == 0: a pure delay of min_ticks. min_ticks == 0 with bytes > 0: as fast as the
 * capacity allows. */
void sim_share_start(sim_share_t *share, sim_stream_t *stream);

/* Bytes of the range that lie in `part`, rounded down. */
uint64_t sim_range_bytes(const sim_range_t *range, uint32_t part, uint32_t parts,
                         uint64_t part_bytes);

#endif
