#include "sim/sim_cache.h"

#include <inttypes.h>
#include <stdlib.h>

#include "sim/sim_op.h"

#define OPERAND_SHIFT 40u /* of the canonical placement */

/* A request to the DRAM that the cache makes: a fetch, writes that pass, evictions. */
typedef struct transfer transfer_t;
typedef struct waiter waiter_t;

struct waiter {
    sim_cache_request_t *request;
    waiter_t *next;
};

struct transfer {
    sim_event_t event;
    sim_dram_request_t dram;
    sim_cache_t *cache;
    transfer_t *next_free, *next_all;
    waiter_t *waiters;
    uint64_t serial; /* another one at every use */
    bool is_pending;
    uint64_t run_start, run_end; /* bytes not handed to the DRAM yet */
};

typedef struct line {
    uint64_t number, stamp; /* address / line_bytes; of the last use */
    transfer_t *fetch;      /* brings it, if that is still pending and has the serial */
    uint64_t serial;
    uint32_t epoch; /* held if it is the cache's */
    bool is_dirty;
} line_t;

struct sim_cache {
    sim_engine_t *engine;
    sim_dram_t *dram;
    sim_clock_t clock;
    uint64_t sets, line_bytes, bytes_per_cycle;
    uint32_t ways, banks, hit_cycles;
    bool is_write_back;
    uint32_t epoch;
    uint64_t stamp, serial;
    line_t *line;        /* [sets][ways] */
    uint64_t *bank_free; /* [banks], cycle */
    transfer_t *free_transfer, *transfers;
    waiter_t *free_waiter;
    void *chunks; /* of waiters, each begins with a pointer to the next */
    transfer_t *current;
    uint64_t *victim; /* dirty lines that this request evicts */
    size_t victims, victim_room;
    sim_cache_stats_t stats;
};

static sim_tick_t later(sim_tick_t a, sim_tick_t b) {
    return a > b ? a : b;
}

/* ---- pools: they grow to what is in flight at most ---- */

#define WAITERS_AT_ONCE 64u
typedef struct chunk {
    void *next;
    waiter_t waiter[WAITERS_AT_ONCE];
} chunk_t;

static void *must_have(sim_cache_t *cache, void *memory) {
    if (memory == NULL) sim_bug("sim_cache", sim_now(cache->engine), "out of memory");
    return memory;
}

static waiter_t *take_waiter(sim_cache_t *cache) {
    if (cache->free_waiter == NULL) {
        chunk_t *chunk = must_have(cache, calloc(1, sizeof *chunk));
        chunk->next = cache->chunks;
        cache->chunks = chunk;
        for (uint32_t i = 0; i < WAITERS_AT_ONCE; i++) {
            chunk->waiter[i].next = cache->free_waiter;
            cache->free_waiter = &chunk->waiter[i];
        }
    }
    waiter_t *waiter = cache->free_waiter;
    cache->free_waiter = waiter->next;
    return waiter;
}

static void on_transferred(sim_engine_t *engine, sim_event_t *event);

static transfer_t *take_transfer(sim_cache_t *cache, bool is_write) {
    transfer_t *transfer = cache->free_transfer;
    if (transfer == NULL) {
        transfer = must_have(cache, calloc(1, sizeof *transfer));
        transfer->cache = cache;
        transfer->next_all = cache->transfers;
        cache->transfers = transfer;
    } else {
        cache->free_transfer = transfer->next_free;
    }
    transfer->serial = ++cache->serial;
    transfer->is_pending = true;
    transfer->run_start = transfer->run_end = 0;
    sim_event_init(&transfer->event, SIM_PHASE_COMPLETE, on_transferred);
    sim_dram_begin(cache->dram, &transfer->dram, is_write, &transfer->event, 0);
    return transfer;
}

/* Ranges that follow each other go to the DRAM as one. */
static void flush(transfer_t *transfer) {
    if (transfer->run_end > transfer->run_start)
        sim_dram_add(transfer->cache->dram, &transfer->dram, transfer->run_start,
                     transfer->run_end - transfer->run_start);
    transfer->run_start = transfer->run_end = 0;
}

static void transfer_add(transfer_t *transfer, uint64_t address, uint64_t bytes) {
    if (address != transfer->run_end || transfer->run_end == transfer->run_start) {
        flush(transfer);
        transfer->run_start = address;
    }
    transfer->run_end = address + bytes;
}

static void wait_for(sim_cache_t *cache, transfer_t *transfer, sim_cache_request_t *request) {
    if (transfer->waiters != NULL && transfer->waiters->request == request) return;
    waiter_t *waiter = take_waiter(cache);
    *waiter = (waiter_t){request, transfer->waiters};
    transfer->waiters = waiter;
    request->left++;
    request->has_waited = true;
}

/* ---- ends ---- */

static void finish(sim_cache_t *cache, sim_cache_request_t *request) {
    if (request->bank_cycle > 0)
        request->done = later(request->done, sim_clock_tick(&cache->clock, request->bank_cycle));
    sim_tick_t tick = later(request->done, request->not_before);
    if (tick <= sim_now(cache->engine))
        request->event->fn(cache->engine, request->event);
    else
        sim_event_schedule(cache->engine, request->event, tick);
}

static void on_transferred(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    transfer_t *transfer = SIM_CONTAINER_OF(event, transfer_t, event);
    sim_cache_t *cache = transfer->cache;
    uint64_t cycle = sim_clock_cycle_up(&cache->clock, transfer->dram.done);
    sim_tick_t read_done = sim_clock_tick(&cache->clock, cycle + cache->hit_cycles);
    waiter_t *waiter = transfer->waiters;
    transfer->waiters = NULL;
    transfer->is_pending = false;
    transfer->next_free = cache->free_transfer;
    cache->free_transfer = transfer;
    while (waiter != NULL) {
        waiter_t *next = waiter->next;
        sim_cache_request_t *request = waiter->request;
        waiter->next = cache->free_waiter;
        cache->free_waiter = waiter;
        request->done = later(request->done, request->is_write ? transfer->dram.done : read_done);
        if (--request->left == 0) finish(cache, request);
        waiter = next;
    }
}

/* ---- lines ---- */

static line_t *set_of(sim_cache_t *cache, uint64_t address) {
    uint64_t hash = ((address >> OPERAND_SHIFT) * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
    return cache->line + ((address / cache->line_bytes + hash) % cache->sets) * cache->ways;
}

static line_t *find(sim_cache_t *cache, line_t *set, uint64_t number) {
    for (uint32_t w = 0; w < cache->ways; w++)
        if (set[w].epoch == cache->epoch && set[w].number == number) return &set[w];
    return NULL;
}

/* Takes the place of what is not held, else of the least recently used. */
static line_t *replace(sim_cache_t *cache, line_t *set, uint64_t number) {
    line_t *line = &set[0];
    for (uint32_t w = 0; w < cache->ways; w++) {
        if (set[w].epoch != cache->epoch) {
            line = &set[w];
            break;
        }
        if (set[w].stamp < line->stamp) line = &set[w];
    }
    if (line->epoch == cache->epoch && line->is_dirty) {
        if (cache->victims == cache->victim_room) {
            cache->victim_room = cache->victim_room == 0 ? 64 : 2 * cache->victim_room;
            cache->victim = must_have(
                cache, realloc(cache->victim, cache->victim_room * sizeof *cache->victim));
        }
        cache->victim[cache->victims++] = line->number * cache->line_bytes;
    }
    *line = (line_t){.number = number, .epoch = cache->epoch};
    return line;
}

static void take_bank(sim_cache_t *cache, sim_cache_request_t *request, uint64_t number,
                      uint64_t bytes) {
    uint64_t *free_cycle = &cache->bank_free[number % cache->banks];
    uint64_t cycle = sim_clock_cycle_up(&cache->clock, sim_now(cache->engine));
    if (*free_cycle > cycle) cycle = *free_cycle;
    *free_cycle = cycle + (bytes + cache->bytes_per_cycle - 1) / cache->bytes_per_cycle;
    uint64_t done = *free_cycle + cache->hit_cycles;
    if (done > request->bank_cycle) request->bank_cycle = done;
    cache->stats.bytes += bytes;
}

static void fetch(sim_cache_t *cache, sim_cache_request_t *request, line_t *line) {
    if (cache->current == NULL) cache->current = take_transfer(cache, false);
    transfer_add(cache->current, line->number * cache->line_bytes, cache->line_bytes);
    line->fetch = cache->current;
    line->serial = cache->current->serial;
    cache->stats.bytes += cache->line_bytes;
    if (!request->is_write) wait_for(cache, cache->current, request);
}

static void pass_on(sim_cache_t *cache, sim_cache_request_t *request, uint64_t address,
                    uint64_t bytes) {
    if (cache->current == NULL) cache->current = take_transfer(cache, true);
    transfer_add(cache->current, address, bytes);
    wait_for(cache, cache->current, request);
}

/* Bytes [address, address + bytes) of one line. */
static void touch(sim_cache_t *cache, sim_cache_request_t *request, uint64_t address,
                  uint64_t bytes) {
    uint64_t number = address / cache->line_bytes;
    take_bank(cache, request, number, bytes);
    line_t *set = set_of(cache, address);
    line_t *line = find(cache, set, number);
    bool is_hit = line != NULL, passes = request->is_write && !cache->is_write_back;
    cache->stats.hits += is_hit;
    cache->stats.misses += !is_hit;
    if (passes) pass_on(cache, request, address, bytes);
    if (passes && !is_hit) return;
    if (!is_hit) {
        line = replace(cache, set, number);
        if (!request->is_write || bytes < cache->line_bytes) fetch(cache, request, line);
    } else if (!request->is_write && line->fetch != NULL && line->fetch->is_pending &&
               line->fetch->serial == line->serial) {
        wait_for(cache, line->fetch, request);
    }
    line->stamp = ++cache->stamp;
    if (request->is_write && cache->is_write_back) line->is_dirty = true;
}

/* ---- requests ---- */

void sim_cache_begin(sim_cache_t *cache, sim_cache_request_t *request, bool is_write,
                     sim_event_t *event, sim_tick_t not_before) {
    *request = (sim_cache_request_t){.event = event,
                                     .done = sim_now(cache->engine),
                                     .not_before = not_before,
                                     .is_write = is_write,
                                     .left = 1};
    cache->current = NULL;
    cache->victims = 0;
}

void sim_cache_add(sim_cache_t *cache, sim_cache_request_t *request, uint64_t address,
                   uint64_t bytes) {
    while (bytes > 0) {
        uint64_t part = cache->line_bytes - address % cache->line_bytes;
        if (part > bytes) part = bytes;
        touch(cache, request, address, part);
        address += part;
        bytes -= part;
    }
}

/* What was dirty and had to go, as one request; NULL: nothing. */
static transfer_t *evict(sim_cache_t *cache) {
    if (cache->victims == 0) return NULL;
    transfer_t *eviction = take_transfer(cache, true);
    for (size_t i = 0; i < cache->victims; i++)
        transfer_add(eviction, cache->victim[i], cache->line_bytes);
    flush(eviction);
    cache->stats.evicted += cache->victims;
    cache->stats.bytes += cache->victims * cache->line_bytes;
    cache->victims = 0;
    return eviction;
}

/* Every range is with the DRAM before the first request to it may end: an end may begin others. */
void sim_cache_end(sim_cache_t *cache, sim_cache_request_t *request) {
    transfer_t *current = cache->current;
    cache->current = NULL;
    if (current != NULL) flush(current);
    transfer_t *eviction = evict(cache);
    if (current != NULL) sim_dram_end(cache->dram, &current->dram);
    if (eviction != NULL) sim_dram_end(cache->dram, &eviction->dram);
    if (--request->left == 0) finish(cache, request);
}

const sim_cache_stats_t *sim_cache_stats(const sim_cache_t *cache) {
    return &cache->stats;
}

/* ---- configuration, life cycle ---- */

sim_status_t sim_cache_check(const sim_config_t *config, sim_error_t *err) {
    uint64_t bytes = sim_config_u64(config, "cache.bytes");
    uint64_t line = sim_config_u64(config, "cache.line_bytes");
    uint64_t burst = sim_config_u64(config, "dram.burst_bytes");
    uint64_t way = line * sim_config_u64(config, "cache.ways");
    if (bytes == 0) return SIM_OK;
    if (bytes % way != 0)
        return sim_error_set(err, SIM_ERROR_CONFIG,
                             "cache.bytes = %s is not a multiple of ways x line_bytes (%" PRIu64
                             " bytes)",
                             sim_config_text(config, "cache.bytes"), way);
    if (line % burst != 0)
        return sim_error_set(err, SIM_ERROR_CONFIG,
                             "cache.line_bytes = %s is not a multiple of dram.burst_bytes = %s",
                             sim_config_text(config, "cache.line_bytes"),
                             sim_config_text(config, "dram.burst_bytes"));
    return SIM_OK;
}

uint64_t sim_cache_peak_bytes_per_s(const sim_config_t *config) {
    if (sim_config_u64(config, "cache.bytes") == 0) return 0;
    return sim_config_u64(config, "cache.banks") * sim_config_u64(config, "cache.bytes_per_cycle") *
           sim_config_u64(config, "noc.clock");
}

sim_status_t sim_cache_create(const sim_config_t *config, sim_engine_t *engine, sim_dram_t *dram,
                              sim_cache_t **out_cache, sim_error_t *err) {
    *out_cache = NULL;
    sim_status_t status = sim_cache_check(config, err);
    uint64_t bytes = sim_config_u64(config, "cache.bytes");
    if (status != SIM_OK || bytes == 0) return status;
    sim_cache_t *cache = calloc(1, sizeof *cache);
    if (cache == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    cache->engine = engine;
    cache->dram = dram;
    cache->ways = (uint32_t)sim_config_u64(config, "cache.ways");
    cache->banks = (uint32_t)sim_config_u64(config, "cache.banks");
    cache->hit_cycles = (uint32_t)sim_config_u64(config, "cache.hit_cycles");
    cache->line_bytes = sim_config_u64(config, "cache.line_bytes");
    cache->bytes_per_cycle = sim_config_u64(config, "cache.bytes_per_cycle");
    cache->is_write_back = sim_config_u64(config, "cache.write") == 0;
    cache->sets = bytes / cache->line_bytes / cache->ways;
    cache->line = calloc(cache->sets * cache->ways, sizeof *cache->line);
    cache->bank_free = calloc(cache->banks, sizeof *cache->bank_free);
    status = sim_clock_init(&cache->clock, sim_config_u64(config, "noc.clock"));
    if (cache->line == NULL || cache->bank_free == NULL) status = SIM_ERROR_OUT_OF_MEMORY;
    if (status != SIM_OK) {
        sim_cache_destroy(cache);
        return status;
    }
    sim_dram_attach(dram, engine);
    sim_cache_reset(cache);
    *out_cache = cache;
    return SIM_OK;
}

void sim_cache_destroy(sim_cache_t *cache) {
    if (cache == NULL) return;
    while (cache->transfers != NULL) {
        transfer_t *next = cache->transfers->next_all;
        free(cache->transfers);
        cache->transfers = next;
    }
    while (cache->chunks != NULL) {
        void *next = ((chunk_t *)cache->chunks)->next;
        free(cache->chunks);
        cache->chunks = next;
    }
    free(cache->line);
    free(cache->bank_free);
    free(cache->victim);
    free(cache);
}

/* Lines are forgotten by the number of the epoch: none is touched. */
void sim_cache_reset(sim_cache_t *cache) {
    if (cache == NULL) return;
    cache->epoch++;
    cache->free_transfer = NULL;
    for (transfer_t *t = cache->transfers; t != NULL; t = t->next_all) {
        while (t->waiters != NULL) { /* of an epoch that was left */
            waiter_t *next = t->waiters->next;
            t->waiters->next = cache->free_waiter;
            cache->free_waiter = t->waiters;
            t->waiters = next;
        }
        t->is_pending = false;
        t->next_free = cache->free_transfer;
        cache->free_transfer = t;
    }
    for (uint32_t b = 0; b < cache->banks; b++)
        cache->bank_free[b] = 0;
    cache->current = NULL;
    cache->victims = 0;
    cache->stamp = 0;
    cache->stats = (sim_cache_stats_t){0};
}
