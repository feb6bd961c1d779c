/*
 * A cache of the chip between interconnect and DRAM, shared by all cores, in time alone: which
 * lines are held, not what they hold. Absent unless cache.bytes > 0.
 *
 * Set-associative, least recently used way of a set replaced, cache.banks by line address. A
 * request is cut into lines; each takes its bank for ceil(bytes / bytes_per_cycle) cycles of
 * noc.clock, in order of arrival, and read hit    is done cache.hit_cycles after its bank is, read
 * miss   fetches the whole line from the DRAM at once and is done cache.hit_cycles after it came
 * (the lookup counts behind the DRAM instead of before it); lines that one request misses are
 * fetched as one DRAM request; a line that is on its way already is waited for, not fetched again,
 *   write       cache.write = back: the line is held and dirty, the write is done as a hit is; a
 *               missed line that it does not cover whole is fetched meanwhile. through: the write
 *               goes to the DRAM and is done with it (and the lookup), only lines that are held are
 *               updated,
 *   eviction    of a dirty line writes it to the DRAM behind the fetches of the request that took
 *               its place; nobody waits for it.
 * The bank is taken by what the requester moves; fetches and evictions have a port of their own.
 *
 * Empty at the start of an epoch; what is dirty at its end is not written (it would stay), so a
 * duration stays a pure function of the epoch. The set of a line is its number modulo the sets, for
 * operand g of the canonical placement (address bits 40 and up) shifted by a hash of g: operands do
 * not share sets by numbering.
 */
#ifndef SIM_CACHE_H
#define SIM_CACHE_H

#include "sim/sim_config.h"
#include "sim/sim_dram.h"
#include "sim/sim_event.h"

typedef struct sim_cache_stats {
    uint64_t hits, misses; /* lines touched by requests; a line on its way is a hit */
    uint64_t evicted;      /* dirty lines written to the DRAM */
    uint64_t bytes;        /* through the cache: requesters', fetched, evicted */
} sim_cache_stats_t;

typedef struct sim_cache sim_cache_t;
/* *out_cache is NULL where the configuration has none. Engine and DRAM are borrowed. */
sim_status_t sim_cache_create(const sim_config_t *config, sim_engine_t *engine, sim_dram_t *dram,
                              sim_cache_t **out_cache, sim_error_t *err) SIM_MUST_USE;
void sim_cache_destroy(sim_cache_t *cache); /* NULL is fine */
/* A new epoch: empty, statistics zero. After the engine's reset. NULL is fine. */
void sim_cache_reset(sim_cache_t *cache);

/* One request of several ranges, as sim_dram_begin, sim_dram_add, sim_dram_end: the event (phase
 * COMPLETE) runs when the last range is done, not before not_before; at once, inside
 * sim_cache_end, if that is now. */
typedef struct sim_cache_request {
    sim_event_t *event;
    sim_tick_t done, not_before;
    bool is_write;
    bool has_waited; /* for the DRAM */
    uint32_t left;   /* private from here on */
    uint64_t bank_cycle;
} sim_cache_request_t;
void sim_cache_begin(sim_cache_t *cache, sim_cache_request_t *request, bool is_write,
                     sim_event_t *event, sim_tick_t not_before);
void sim_cache_add(sim_cache_t *cache, sim_cache_request_t *request, uint64_t address,
                   uint64_t bytes);
void sim_cache_end(sim_cache_t *cache, sim_cache_request_t *request);

const sim_cache_stats_t *sim_cache_stats(const sim_cache_t *cache);
/* The keys of the section together; the reason in err. */
sim_status_t sim_cache_check(const sim_config_t *config, sim_error_t *err) SIM_MUST_USE;
uint64_t sim_cache_peak_bytes_per_s(const sim_config_t *config); /* 0: no cache */

#endif
