#include "sim/sim_share.h"

#include <stddef.h>

__extension__ typedef unsigned __int128 wide_t;

/*
 * Progress of a stream is kept in its own full-rate ticks, with PROGRESS_BITS of fraction:
 * `remaining` starts at min_ticks << PROGRESS_BITS and shrinks by `rate` <= 1 << PROGRESS_BITS per
 * tick. A stream at its own rate is therefore exact whatever bytes and ticks are, and a rate that
 * is rounded down never ends a stream early. Demands and the capacity are bytes per tick with
 * BYTE_BITS of fraction, all rounded down: demands that add up to the capacity do not contend
 * because of rounding.
 */
#define PROGRESS_BITS 24u
#define FULL_RATE     (UINT64_C(1) << PROGRESS_BITS)
#define BYTE_BITS     32u

static uint64_t saturate(wide_t value) {
    return value > UINT64_MAX ? UINT64_MAX : (uint64_t)value;
}

/* Of one part. */
static uint64_t capacity(const sim_share_t *share) {
    wide_t scaled = ((wide_t)share->bytes_per_cycle * share->clock.den) << BYTE_BITS;
    uint64_t bytes_per_tick = saturate(scaled / share->clock.num / share->parts);
    return bytes_per_tick == 0 ? 1 : bytes_per_tick;
}

static void advance(sim_share_t *share) {
    sim_tick_t now = sim_now(share->engine);
    uint64_t elapsed = now - share->updated;
    share->updated = now;
    if (elapsed == 0) return;
    for (uint32_t i = 0; i < share->count; i++) {
        sim_stream_t *stream = share->stream[i];
        wide_t moved = (wide_t)stream->rate * elapsed;
        stream->remaining = moved >= stream->remaining ? 0 : stream->remaining - (uint64_t)moved;
    }
}

/* Max-min among the streams of one class that use a part: each takes its demand or an equal part of
 * what is left. Streams are sorted by their largest demand, which is that of the part if there is
 * one. Returns what stays; rates only go down. */
static uint64_t divide_part(sim_share_t *share, uint32_t part, bool is_first, uint64_t left) {
    uint32_t users = 0;
    for (uint32_t i = 0; i < share->count; i++) {
        const sim_stream_t *stream = share->stream[i];
        users += stream->is_first == is_first && stream->part_demand[part] > 0;
    }
    for (uint32_t i = 0; i < share->count; i++) {
        sim_stream_t *stream = share->stream[i];
        uint64_t demand = stream->part_demand[part];
        if (stream->is_first != is_first || demand == 0) continue;
        uint64_t fair = left / users--;
        if (demand <= fair) {
            left -= demand;
            continue;
        }
        uint64_t rate = (uint64_t)(((wide_t)fair << PROGRESS_BITS) / demand);
        if (rate < stream->rate) stream->rate = rate == 0 ? 1 : rate;
        left -= fair;
    }
    return left;
}

static void divide(sim_share_t *share) {
    for (uint32_t i = 0; i < share->count; i++)
        share->stream[i]->rate = FULL_RATE;
    for (uint32_t part = 0; part < share->parts; part++) {
        uint64_t left = divide_part(share, part, true, capacity(share));
        (void)divide_part(share, part, false, left);
    }
}

static void arm(sim_share_t *share) {
    sim_event_cancel(share->engine, &share->event);
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < share->count; i++) {
        const sim_stream_t *stream = share->stream[i];
        uint64_t ticks = stream->remaining / stream->rate + (stream->remaining % stream->rate != 0);
        if (ticks < first) first = ticks;
    }
    if (first != UINT64_MAX && first < SIM_TICK_NEVER - share->updated)
        sim_event_schedule(share->engine, &share->event, share->updated + first);
}

static void on_progress(sim_engine_t *engine, sim_event_t *event) {
    sim_share_t *share = SIM_CONTAINER_OF(event, sim_share_t, event);
    sim_stream_t *ended[SIM_SHARE_MAX_STREAMS];
    uint32_t ended_count = 0, kept = 0;
    advance(share);
    for (uint32_t i = 0; i < share->count; i++) {
        sim_stream_t *stream = share->stream[i];
        if (stream->remaining == 0) {
            ended[ended_count++] = stream;
        } else {
            stream->slot = (int32_t)kept;
            share->stream[kept++] = stream;
        }
    }
    share->count = kept;
    divide(share);
    arm(share);
    /* Last: a callback may start a stream here. */
    for (uint32_t i = 0; i < ended_count; i++) {
        ended[i]->slot = -1;
        ended[i]->end = sim_now(engine);
        if (ended[i]->on_end != NULL) ended[i]->on_end(engine, ended[i]);
    }
}

void sim_share_init(sim_share_t *share, sim_engine_t *engine, const sim_clock_t *clock,
                    uint64_t bytes_per_cycle) {
    sim_share_init_parts(share, engine, clock, bytes_per_cycle, 1, 0);
}

void sim_share_init_parts(sim_share_t *share, sim_engine_t *engine, const sim_clock_t *clock,
                          uint64_t bytes_per_cycle, uint32_t parts, uint64_t part_bytes) {
    *share = (sim_share_t){.engine = engine,
                           .bytes_per_cycle = bytes_per_cycle,
                           .parts = parts,
                           .part_bytes = part_bytes,
                           .clock = *clock};
    if (bytes_per_cycle == 0) sim_bug("sim_share", sim_now(engine), "no capacity");
    if (parts == 0 || parts > SIM_SHARE_MAX_PARTS || (parts > 1 && part_bytes == 0))
        sim_bug("sim_share", sim_now(engine), "%u parts", parts);
    sim_event_init(&share->event, SIM_PHASE_COMPLETE, on_progress);
}

void sim_share_reset(sim_share_t *share) {
    sim_event_cancel(share->engine, &share->event);
    share->count = 0;
    share->updated = 0;
}

/* Equal demands keep the order of their start. */
static void insert(sim_share_t *share, sim_stream_t *stream) {
    if (share->count == SIM_SHARE_MAX_STREAMS)
        sim_bug("sim_share", share->updated, "more than %u streams", SIM_SHARE_MAX_STREAMS);
    uint32_t place = share->count++;
    while (place > 0 && share->stream[place - 1]->demand > stream->demand) {
        share->stream[place] = share->stream[place - 1];
        share->stream[place]->slot = (int32_t)place;
        place--;
    }
    share->stream[place] = stream;
    stream->slot = (int32_t)place;
}

/* Bytes below `end` that lie in `part`. */
static uint64_t below(uint64_t end, uint32_t part, uint32_t parts, uint64_t part_bytes) {
    uint64_t round = parts * part_bytes, begin = part * part_bytes, rest = end % round;
    uint64_t last = rest <= begin ? 0 : rest - begin < part_bytes ? rest - begin : part_bytes;
    return end / round * part_bytes + last;
}

uint64_t sim_range_bytes(const sim_range_t *range, uint32_t part, uint32_t parts,
                         uint64_t part_bytes) {
    if (parts == 1) return range->bytes;
    uint64_t extent = range->extent == 0 ? 1 : range->extent;
    uint64_t inside = below(range->first + extent, part, parts, part_bytes) -
                      below(range->first, part, parts, part_bytes);
    return (uint64_t)((wide_t)range->bytes * inside / extent);
}

/* Of a stream, in one part. */
static uint64_t bytes_in(const sim_share_t *share, const sim_stream_t *stream, uint32_t part) {
    if (stream->num_ranges == 0 || share->parts == 1)
        return stream->bytes / share->parts + (part < stream->bytes % share->parts);
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < stream->num_ranges; r++)
        bytes += sim_range_bytes(&stream->range[r], part, share->parts, share->part_bytes);
    return bytes;
}

static void set_demands(const sim_share_t *share, sim_stream_t *stream, uint64_t ticks) {
    stream->demand = 0;
    for (uint32_t part = 0; part < share->parts; part++) {
        wide_t bytes = bytes_in(share, stream, part);
        stream->part_demand[part] = saturate((bytes << BYTE_BITS) / ticks);
        if (stream->part_demand[part] > stream->demand) stream->demand = stream->part_demand[part];
    }
}

/* Alone: the part with the most bytes. */
static uint64_t least_ticks(const sim_share_t *share, const sim_stream_t *stream) {
    uint64_t most = 0;
    for (uint32_t part = 0; part < share->parts; part++) {
        uint64_t bytes = bytes_in(share, stream, part);
        if (bytes > most) most = bytes;
    }
    wide_t scaled = (wide_t)most << BYTE_BITS;
    return saturate((scaled + capacity(share) - 1) / capacity(share));
}

void sim_share_start(sim_share_t *share, sim_stream_t *stream) {
    advance(share);
    share->total_bytes += stream->bytes;
    stream->start = share->updated;
    stream->end = SIM_TICK_NEVER;
    uint64_t ticks = stream->min_ticks;
    if (ticks == 0) ticks = least_ticks(share, stream);
    if (ticks == 0) { /* nothing to move and no time to take */
        stream->slot = -1;
        stream->end = share->updated;
        if (stream->on_end != NULL) stream->on_end(share->engine, stream);
        return;
    }
    if (ticks > UINT64_MAX >> PROGRESS_BITS)
        sim_bug("sim_share", share->updated, "a stream of %llu ticks", (unsigned long long)ticks);
    stream->remaining = ticks << PROGRESS_BITS;
    set_demands(share, stream, ticks);
    insert(share, stream);
    divide(share);
    arm(share);
}
