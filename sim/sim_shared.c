#include "sim/sim_shared.h"

#include <stdlib.h>

/* What a request wants of one core. */
struct sim_shared_access {
    sim_shared_request_t *request;
    sim_shared_access_t *next;        /* of the request, or free */
    sim_shared_access_t *next_queued; /* at the core */
    uint32_t core;
    uint64_t bytes;
};

/* Accesses come in chunks, as many as were ever under way at once. */
#define CHUNK_ACCESSES 64u
typedef struct chunk {
    struct chunk *next;
    sim_shared_access_t access[CHUNK_ACCESSES];
} chunk_t;

/* Serves one access at a time. */
typedef struct home {
    sim_shared_t *shared;
    sim_shared_core_t spec;
    sim_shared_access_t *head, *tail;
    sim_stream_t stream;
} home_t;

struct sim_shared {
    sim_engine_t *engine;
    uint64_t page_bytes;
    const sim_shards_t *shards;
    sim_shared_access_t *free_access;
    chunk_t *chunk;
    uint32_t cores;
    home_t home[];
};

/* ---- accesses ---------------------------------------------------------------- */

static void add_accesses(sim_shared_t *shared, chunk_t *chunk) {
    for (uint32_t i = CHUNK_ACCESSES; i-- > 0;) {
        chunk->access[i].next = shared->free_access;
        shared->free_access = &chunk->access[i];
    }
}

static sim_shared_access_t *take_access(sim_shared_t *shared) {
    if (shared->free_access == NULL) {
        chunk_t *chunk = calloc(1, sizeof *chunk);
        if (chunk == NULL)
            sim_bug("sim_shared", sim_now(shared->engine), "out of memory for an access");
        chunk->next = shared->chunk;
        shared->chunk = chunk;
        add_accesses(shared, chunk);
    }
    sim_shared_access_t *access = shared->free_access;
    shared->free_access = access->next;
    return access;
}

static uint32_t shard_core(const sim_shared_t *shared, const sim_shards_t *shards, uint64_t offset,
                           uint64_t *out_bytes) {
    uint64_t row = offset / shards->row_bytes, at = offset % shards->row_bytes;
    uint64_t left = shards->shard_row_bytes - at % shards->shard_row_bytes;
    *out_bytes = left < shards->row_bytes - at ? left : shards->row_bytes - at;
    uint64_t core = row / shards->shard_rows * shards->row_step +
                    at / shards->shard_row_bytes * shards->column_step;
    return (uint32_t)(core % shared->cores);
}

uint32_t sim_shared_core_at(const sim_shared_t *shared, uint64_t address, uint64_t *out_bytes) {
    uint64_t offset = address & ((UINT64_C(1) << SIM_SHARED_OFFSET_BITS) - 1);
    uint32_t index = (uint32_t)(address >> SIM_SHARED_SHARDS_BIT) % SIM_SHARED_MAX_SHARDS;
    if (index > 0) return shard_core(shared, &shared->shards[index], offset, out_bytes);
    *out_bytes = shared->page_bytes - offset % shared->page_bytes;
    return (uint32_t)(offset / shared->page_bytes % shared->cores);
}

/* ---- a core ------------------------------------------------------------------- */

static void serve(home_t *home) {
    const sim_shared_access_t *access = home->head;
    home->stream.bytes = access->bytes;
    home->stream.is_first = home->spec.writes_first && access->request->is_write;
    sim_share_start(home->spec.port, &home->stream);
}

/* The last access is through: the request's event runs, at once if it is due. */
static void finish(sim_shared_t *shared, const sim_shared_request_t *request) {
    sim_tick_t tick = request->done > request->not_before ? request->done : request->not_before;
    if (tick <= sim_now(shared->engine))
        request->event->fn(shared->engine, request->event);
    else
        sim_event_schedule(shared->engine, request->event, tick);
}

static void on_served(sim_engine_t *engine, sim_stream_t *stream) {
    home_t *home = stream->owner;
    sim_shared_t *shared = home->shared;
    sim_shared_access_t *access = home->head;
    sim_shared_request_t *request = access->request;
    sim_tick_t done = sim_now(engine);
    if (!request->is_write) done += sim_clock_tick(&home->spec.clock, home->spec.latency_cycles);
    if (done > request->done) request->done = done;
    home->head = access->next_queued;
    if (home->head != NULL) serve(home);
    access->next = shared->free_access;
    shared->free_access = access;
    if (--request->left == 0) finish(shared, request);
}

static void enqueue(home_t *home, sim_shared_access_t *access) {
    access->next_queued = NULL;
    if (home->head != NULL) {
        home->tail->next_queued = access;
        home->tail = access;
        return;
    }
    home->head = home->tail = access;
    serve(home);
}

/* ---- requests ------------------------------------------------------------------ */

void sim_shared_begin(sim_shared_t *shared, sim_shared_request_t *request, bool is_write,
                      sim_event_t *event, sim_tick_t not_before) {
    *request = (sim_shared_request_t){.event = event,
                                      .done = sim_now(shared->engine),
                                      .not_before = not_before,
                                      .is_write = is_write};
}

static void add_to_core(sim_shared_t *shared, sim_shared_request_t *request, uint32_t core,
                        uint64_t bytes) {
    sim_shared_access_t *access = request->access;
    while (access != NULL && access->core != core)
        access = access->next;
    if (access == NULL) {
        access = take_access(shared);
        *access = (sim_shared_access_t){.request = request, .next = request->access, .core = core};
        request->access = access;
        request->left++;
    }
    access->bytes += bytes;
}

void sim_shared_add(sim_shared_t *shared, sim_shared_request_t *request, uint64_t address,
                    uint64_t bytes) {
    while (bytes > 0) {
        uint64_t run;
        uint32_t core = sim_shared_core_at(shared, address, &run);
        if (run > bytes) run = bytes;
        add_to_core(shared, request, core, run);
        address += run;
        bytes -= run;
    }
}

void sim_shared_end(sim_shared_t *shared, sim_shared_request_t *request) {
    if (request->left == 0) {
        finish(shared, request);
        return;
    }
    for (sim_shared_access_t *access = request->access, *next; access != NULL; access = next) {
        next = access->next;
        enqueue(&shared->home[access->core], access);
    }
}

/* ---- life cycle ------------------------------------------------------------------ */

sim_status_t sim_shared_create(const sim_config_t *config, sim_engine_t *engine, uint32_t cores,
                               sim_shared_t **out_shared) {
    *out_shared = NULL;
    if (sim_shared_bytes_of(config) == 0) return SIM_OK;
    sim_shared_t *shared = calloc(1, sizeof *shared + cores * sizeof shared->home[0]);
    chunk_t *chunk = calloc(1, sizeof *chunk);
    if (shared == NULL || chunk == NULL) {
        free(shared);
        free(chunk);
        return SIM_ERROR_OUT_OF_MEMORY;
    }
    shared->engine = engine;
    shared->page_bytes = sim_config_u64(config, "sram.shared_page_bytes");
    shared->cores = cores;
    shared->chunk = chunk;
    sim_shared_reset(shared);
    *out_shared = shared;
    return SIM_OK;
}

void sim_shared_set_core(sim_shared_t *shared, uint32_t core, const sim_shared_core_t *spec) {
    shared->home[core].spec = *spec;
}

void sim_shared_set_shards(sim_shared_t *shared, const sim_shards_t *table) {
    shared->shards = table;
}

void sim_shared_destroy(sim_shared_t *shared) {
    if (shared == NULL) return;
    for (chunk_t *chunk = shared->chunk, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(shared);
}

void sim_shared_reset(sim_shared_t *shared) {
    if (shared == NULL) return;
    shared->free_access = NULL;
    for (chunk_t *chunk = shared->chunk; chunk != NULL; chunk = chunk->next)
        add_accesses(shared, chunk);
    for (uint32_t core = 0; core < shared->cores; core++) {
        home_t *home = &shared->home[core];
        home->shared = shared;
        home->head = home->tail = NULL;
        home->stream = (sim_stream_t){.on_end = on_served, .owner = home};
    }
}

/* ---- shards ---------------------------------------------------------------------------- */

/* Whether no two blocks of `rows` x `columns` meet in a core. */
static bool are_apart(const sim_shards_t *shards, uint64_t rows, uint64_t columns) {
    uint64_t down = rows > 1 ? shards->row_step : 1, across = columns > 1 ? shards->column_step : 1;
    bool is_alone = rows == 1 || columns == 1;
    return down > 0 && across > 0 &&
           (is_alone || across >= rows * down || down >= columns * across);
}

sim_status_t sim_shards_check(const sim_shards_t *shards, uint64_t bytes, uint32_t cores,
                              uint64_t *out_core_bytes, sim_error_t *err) {
    *out_core_bytes = 0;
    if (shards->row_bytes == 0 || shards->shard_rows == 0 || shards->shard_row_bytes == 0 ||
        bytes == 0)
        return sim_error_set(err, SIM_ERROR_INVALID_VALUE,
                             "shards of %u rows x %u bytes, of a matrix of %llu bytes a row",
                             shards->shard_rows, shards->shard_row_bytes,
                             (unsigned long long)shards->row_bytes);
    uint64_t rows = ((bytes - 1) / shards->row_bytes) / shards->shard_rows + 1;
    uint64_t columns = (shards->row_bytes - 1) / shards->shard_row_bytes + 1;
    uint64_t last = (rows - 1) * shards->row_step + (columns - 1) * shards->column_step;
    if (rows > cores || columns > cores || last >= cores || !are_apart(shards, rows, columns))
        return sim_error_set(
            err, SIM_ERROR_INVALID_VALUE,
            "%llu x %llu shards, steps of %u and %u cores: each needs one of %u cores of its own",
            (unsigned long long)rows, (unsigned long long)columns, shards->row_step,
            shards->column_step, cores);
    *out_core_bytes = (uint64_t)shards->shard_rows * shards->shard_row_bytes;
    return SIM_OK;
}

/* ---- of a configuration ------------------------------------------------------------ */

uint64_t sim_shared_bytes_of(const sim_config_t *config) {
    return sim_config_u64(config, "sram.shared_bytes") * sim_config_cores(config);
}

uint64_t sim_shared_stripe_of(const sim_config_t *config) {
    return sim_config_u64(config, "sram.shared_page_bytes") * sim_config_cores(config);
}

double sim_shared_bytes_per_s(const sim_config_t *config) {
    double width = (double)sim_config_u64(config, "noc.bytes_per_cycle");
    sim_ratio_t limit = sim_config_ratio(config, "noc.core_inject");
    double inject = (double)limit.num / (double)limit.den;
    if (limit.num != 0 && inject < width) width = inject;
    return width * (double)sim_config_u64(config, "noc.clock") * sim_config_cores(config);
}
