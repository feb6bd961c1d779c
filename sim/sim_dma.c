#include "sim/sim_dma.h"

#include <stdlib.h>

#include "sim/sim_dma_pieces.h"
#include "sim/sim_dma_spread.h"
#include "sim/sim_span.h"

__extension__ typedef unsigned __int128 wide_t;

enum { WAIT_DRAM, WAIT_NOC, WAIT_SRAM, WAIT_CACHE };

typedef struct request request_t;
struct request {
    sim_event_t event;
    sim_dma_t *unit;
    sim_dma_op_t *op;
    request_t *next;     /* free list, or the queue of the ports */
    sim_dma_walk_t walk; /* at the first piece */
    sim_dram_request_t memory;
    sim_cache_request_t cached;  /* in its place where there is a cache */
    sim_shared_request_t shared; /* in its place of a transfer in the shared scratchpad memory */
    uint64_t bytes;              /* as memory and interconnect see it */
    uint64_t local_bytes;        /* through the port of scratchpad or accumulator */
    uint64_t local_words;        /* bytes of the words of a bank that they touch; 0: as many */
    uint64_t local_begin;        /* of its transfer, behind so many bytes */
    uint64_t data_cycles, engine_cycles;
    sim_tick_t slot_end;           /* the engine is done with it */
    sim_tick_t entered;            /* the stage that it is in */
    uint32_t runs;                 /* of its command, before it */
    uint32_t command;              /* which one it is of */
    bool is_first, begins_command; /* of the transfer; a command */
};

/* Requests of a command that have been issued and are not through. */
typedef struct command {
    uint32_t in_flight;
    sim_tick_t last; /* when the last one came through */
} command_t;

/* Requests come in chunks, as many as were ever in flight at once. */
#define CHUNK_REQUESTS 32u
typedef struct chunk {
    struct chunk *next;
    request_t request[CHUNK_REQUESTS];
} chunk_t;

struct sim_dma {
    sim_engine_t *engine;
    sim_dma_spec_t spec;
    sim_dram_t *dram;
    sim_cache_t *cache;   /* in front of it; NULL: none */
    sim_shared_t *shared; /* memory beside it; NULL: none */
    sim_noc_t *noc;
    uint32_t port;
    sim_share_t *sram, *acc;
    /* Transfers that have begun, in order: those that have issued their requests and wait for the
     * last data, the one that issues, those whose descriptors are fetched ahead. */
    sim_dma_op_t *oldest, *current, *newest;
    uint32_t begun;
    sim_dma_op_t *waiting;
    uint64_t issue_cycle; /* the front end is free */
    sim_tick_t last_end;
    sim_event_t issue_event, end_event;
    request_t *built; /* the next request to issue */
    uint64_t in_flight_bytes;
    uint32_t in_flight_requests;
    request_t *local_head, *local_tail;
    sim_stream_t local_stream; /* the ports serve one request at a time */
    request_t *free_request;
    chunk_t *chunk;
    uint64_t commands; /* begun */
    command_t command[SIM_DMA_MAX_TRANSFERS];
};

static sim_tick_t edge_after(const sim_dma_t *unit, sim_tick_t tick) {
    return sim_clock_tick(&unit->spec.clock, sim_clock_cycle_up(&unit->spec.clock, tick));
}

static sim_tick_t later(sim_tick_t a, sim_tick_t b) {
    return a > b ? a : b;
}

/* ---- requests: what they hold and cost ---- */

static uint64_t data_cycles(const sim_dma_spec_t *spec, const sim_dma_op_t *op, uint64_t bytes) {
    uint64_t cycles = (bytes + spec->bytes_per_cycle - 1) / spec->bytes_per_cycle;
    uint64_t num = 1, den = 1;
    if (op->transpose) {
        num *= spec->transpose_factor.num;
        den *= spec->transpose_factor.den;
    }
    if (op->accumulate) {
        num *= spec->accumulate_factor.num;
        den *= spec->accumulate_factor.den;
    }
    return (uint64_t)(((wide_t)cycles * num + den - 1) / den);
}

static void add_requests(sim_dma_t *unit, chunk_t *chunk) {
    for (uint32_t i = CHUNK_REQUESTS; i-- > 0;) {
        chunk->request[i].unit = unit;
        chunk->request[i].next = unit->free_request;
        unit->free_request = &chunk->request[i];
    }
}

static request_t *take_request(sim_dma_t *unit) {
    if (unit->free_request == NULL) {
        chunk_t *chunk = calloc(1, sizeof *chunk);
        if (chunk == NULL) sim_bug("sim_dma", sim_now(unit->engine), "out of memory for a request");
        chunk->next = unit->chunk;
        unit->chunk = chunk;
        add_requests(unit, chunk);
    }
    request_t *request = unit->free_request;
    unit->free_request = request->next;
    request->next = NULL;
    return request;
}

static request_t *build_request(sim_dma_t *unit, sim_dma_op_t *op) {
    request_t *request = take_request(unit);
    request->op = op;
    request->walk = op->walk;
    request->data_cycles = request->engine_cycles = request->local_words = 0;
    sim_dma_pieces_t pieces = {.spec = &unit->spec, .walk = op->walk, .runs = op->runs};
    sim_dma_piece_t piece, block;
    request->runs = op->runs;
    request->is_first = op->moved_bytes == 0;
    request->begins_command = request->is_first;
    if (sim_dma_walk_peek(&op->walk, unit->spec.request_bytes, &piece))
        request->begins_command =
            request->begins_command || sim_dma_pieces_begin_command(&pieces, &piece);
    while (sim_dma_pieces_next(&pieces, &piece, &block)) {
        op->moved_bytes += piece.bytes;
        request->local_words += piece.word_bytes * (op->run_writes > 0 ? op->run_writes : 1);
        request->data_cycles += data_cycles(&unit->spec, op, block.bytes);
        if (piece.begins_run) request->engine_cycles += unit->spec.run_cycles;
    }
    op->walk = pieces.walk;
    op->runs = pieces.runs;
    op->moved_bytes += pieces.repeated;
    request->bytes = pieces.bytes;
    uint64_t total = op->total_bytes;
    if (op->sram_bytes > 0) total = op->sram_bytes;
    if (op->acc_bytes > 0) total = op->acc_bytes;
    uint64_t moved = (uint64_t)((wide_t)total * op->moved_bytes / op->total_bytes);
    if (op->acc_bytes > 0) {
        uint64_t rate = op->kind == SIM_DMA_READ ? unit->spec.accumulator_word_bytes
                                                 : unit->spec.accumulator_bytes_per_cycle;
        uint64_t cycles = (moved + rate - 1) / rate - (op->local_moved_bytes + rate - 1) / rate;
        if (cycles > request->data_cycles) request->data_cycles = cycles;
    }
    request->engine_cycles += request->data_cycles;
    uint64_t filled = (uint64_t)((wide_t)op->fill_bytes * op->moved_bytes / op->total_bytes);
    if (request->local_words > 0) request->local_words += filled - op->filled_bytes;
    op->filled_bytes = filled;
    request->local_begin = op->local_moved_bytes;
    request->local_bytes = moved - op->local_moved_bytes;
    op->local_moved_bytes = moved;
    return request;
}

/* ---- transfers: begin, end ---- */

static void pump(sim_dma_t *unit);
static void try_end(sim_dma_t *unit);

/* How many transfers may be on their way when `op` is one of them. */
static uint32_t most_transfers(const sim_dma_t *unit, const sim_dma_op_t *op) {
    return op->kind == SIM_DMA_READ ? unit->spec.read_transfers : unit->spec.write_transfers;
}

static void begin(sim_dma_t *unit, sim_dma_op_t *op) {
    op->next = NULL;
    if (unit->begun++ == 0)
        unit->oldest = op;
    else
        unit->newest->next = op;
    unit->newest = op;
    if (unit->current == NULL) unit->current = op;
    uint64_t now = sim_clock_cycle_up(&unit->spec.clock, sim_now(unit->engine));
    uint64_t cycle = unit->issue_cycle > now && !unit->spec.prefetches ? unit->issue_cycle : now;
    uint32_t descriptor = unit->spec.descriptor_cycles;
    if (op->total_bytes == 0 && descriptor == 0) descriptor = 1;
    op->begin = sim_clock_tick(&unit->spec.clock, cycle);
    op->ready_cycle = cycle + descriptor;
}

/* The front end takes up the current transfer: what of its descriptor nothing hid is its own. */
static void take_up(sim_dma_t *unit, sim_dma_op_t *op) {
    uint64_t from = sim_clock_cycle_up(&unit->spec.clock, op->begin);
    if (unit->issue_cycle > from) from = unit->issue_cycle;
    op->engine_cycles = op->ready_cycle > from ? op->ready_cycle - from : 0;
    if (op->ready_cycle > unit->issue_cycle) unit->issue_cycle = op->ready_cycle;
    op->not_before = sim_clock_tick(&unit->spec.clock, unit->issue_cycle);
    op->is_issued = op->total_bytes == 0;
    op->is_taken_up = true;
}

static bool can_begin(const sim_dma_t *unit, const sim_dma_op_t *op) {
    return (unit->current == NULL || unit->spec.prefetches) &&
           unit->begun < most_transfers(unit, op);
}

/* Moves the transfers up as far as they can; each step makes room for the one behind. */
static void shift(sim_dma_t *unit) {
    for (;;) {
        if (unit->waiting != NULL && can_begin(unit, unit->waiting)) {
            sim_dma_op_t *op = unit->waiting;
            unit->waiting = NULL;
            begin(unit, op);
        }
        if (unit->current == NULL) break;
        if (!unit->current->is_taken_up) take_up(unit, unit->current);
        if (!unit->current->is_issued) break;
        unit->current = unit->current->next;
    }
    pump(unit);
    try_end(unit);
}

static void book(const sim_dma_t *unit, sim_dma_op_t *op) {
    sim_tick_t *cause = op->op.cause;
    for (int i = 0; i < SIM_CAUSE_COUNT; i++)
        cause[i] = 0;
    const sim_clock_t *clock = &unit->spec.clock;
    sim_tick_t time = op->op.end - op->op.start;
    wide_t per_tick = (wide_t)unit->spec.bytes_per_cycle * clock->den;
    sim_tick_t data = (sim_tick_t)((wide_t)op->total_bytes * clock->num / per_tick);
    sim_tick_t setup = sim_span_ticks(clock, op->engine_cycles) - data;
    if (data > time) data = time;
    if (setup > time - data) setup = time - data;
    sim_tick_t rest = time - data - setup;
    wide_t waited = (wide_t)op->waited[WAIT_DRAM] + op->waited[WAIT_NOC] + op->waited[WAIT_SRAM] +
                    op->waited[WAIT_CACHE];
    if (waited == 0) { /* an ideal memory: less than a cycle of rounding */
        setup += rest;
        rest = 0;
        waited = 1;
    }
    cause[SIM_CAUSE_USEFUL] = data;
    cause[SIM_CAUSE_DMA_SETUP] = setup;
    cause[SIM_CAUSE_NOC] = (sim_tick_t)((wide_t)rest * op->waited[WAIT_NOC] / waited);
    cause[SIM_CAUSE_SRAM_CONFLICT] = (sim_tick_t)((wide_t)rest * op->waited[WAIT_SRAM] / waited);
    cause[SIM_CAUSE_CACHE] = (sim_tick_t)((wide_t)rest * op->waited[WAIT_CACHE] / waited);
    cause[op->is_shared ? SIM_CAUSE_NOC : SIM_CAUSE_DRAM] +=
        rest - cause[SIM_CAUSE_NOC] - cause[SIM_CAUSE_SRAM_CONFLICT] - cause[SIM_CAUSE_CACHE];
}

static void on_completion(sim_engine_t *engine, sim_event_t *event) {
    sim_dma_op_t *op = SIM_CONTAINER_OF(event, sim_dma_op_t, event);
    if (op->op.on_done != NULL) op->op.on_done(engine, &op->op);
}

static void on_transfer_end(sim_engine_t *engine, sim_event_t *event) {
    sim_dma_t *unit = SIM_CONTAINER_OF(event, sim_dma_t, end_event);
    sim_dma_op_t *op = unit->oldest;
    const sim_clock_t *clock = &unit->spec.clock;
    op->op.end = sim_now(engine);
    op->op.start = later(op->begin, unit->last_end);
    op->op.done =
        sim_clock_tick(clock, sim_clock_cycle(clock, op->op.end) + unit->spec.completion_cycles);
    book(unit, op);
    unit->last_end = op->op.end;
    unit->oldest = op->next;
    unit->begun--;
    bool is_done = op->op.done == op->op.end;
    if (!is_done) {
        sim_event_init(&op->event, SIM_PHASE_COMPLETE, on_completion);
        sim_event_schedule(engine, &op->event, op->op.done);
    }
    shift(unit);
    if (op->op.on_end != NULL) op->op.on_end(engine, &op->op);
    if (is_done) on_completion(engine, &op->event);
}

/* The oldest transfer ends, at a clock edge, when its last request is through. */
static void try_end(sim_dma_t *unit) {
    const sim_dma_op_t *op = unit->oldest;
    if (unit->begun == 0 || !op->is_issued || op->in_flight > 0) return;
    if (sim_event_is_pending(&unit->end_event)) return;
    sim_tick_t tick = edge_after(unit, later(sim_now(unit->engine), op->not_before));
    sim_event_schedule(unit->engine, &unit->end_event, tick);
}

/* ---- requests: the way through the memory system ---- */

/* Goes on at `tick`, at once if it is now. In phase COMPLETE, because the last stage may end the
 * transfer in its tick. */
static void go_on(request_t *request, sim_event_fn fn, sim_tick_t tick) {
    sim_engine_t *engine = request->unit->engine;
    sim_event_init(&request->event, SIM_PHASE_COMPLETE, fn);
    if (tick <= sim_now(engine))
        fn(engine, &request->event);
    else
        sim_event_schedule(engine, &request->event, tick);
}

static void access_cache(request_t *request, bool is_write, sim_tick_t not_before) {
    sim_cache_t *cache = request->unit->cache;
    sim_cache_begin(cache, &request->cached, is_write, &request->event, not_before);
    sim_dma_pieces_t pieces = {.spec = &request->unit->spec, .walk = request->walk};
    sim_dma_piece_t piece, block;
    while (sim_dma_pieces_next(&pieces, &piece, &block))
        sim_cache_add(cache, &request->cached, block.address, block.bytes);
    sim_cache_end(cache, &request->cached);
}

static void access_shared(request_t *request, bool is_write, sim_tick_t not_before) {
    sim_shared_t *shared = request->unit->shared;
    sim_shared_begin(shared, &request->shared, is_write, &request->event, not_before);
    sim_dma_pieces_t pieces = {
        .spec = &request->unit->spec, .walk = request->walk, .runs = request->runs};
    sim_dma_piece_t piece, block;
    while (sim_dma_pieces_next(&pieces, &piece, &block))
        sim_shared_add(shared, &request->shared, block.address, block.bytes);
    sim_shared_end(shared, &request->shared);
}

static sim_tick_t memory_done(const request_t *request) {
    if (request->op->is_shared) return request->shared.done;
    return request->unit->cache != NULL ? request->cached.done : request->memory.done;
}

/* From when it entered until `done`: at the DRAM, or at the cache if that had everything. Another
 * core's scratchpad counts as part of the way. */
static void count_memory(request_t *request, sim_tick_t done) {
    if (request->op->is_shared) {
        request->op->waited[WAIT_NOC] += done - request->entered;
        return;
    }
    bool is_hit = request->unit->cache != NULL && !request->cached.has_waited;
    request->op->waited[is_hit ? WAIT_CACHE : WAIT_DRAM] += done - request->entered;
}

/* Every piece of the request at the DRAM now; goes on with `next` when the last one is through, not
 * before not_before. */
static void access_dram(request_t *request, bool is_write, sim_event_fn next,
                        sim_tick_t not_before) {
    sim_dram_t *dram = request->unit->dram;
    if (request->op->is_shared) {
        sim_event_init(&request->event, SIM_PHASE_COMPLETE, next);
        access_shared(request, is_write, not_before);
        return;
    }
    if (dram == NULL) {
        request->memory.done = sim_now(request->unit->engine);
        go_on(request, next, later(request->memory.done, not_before));
        return;
    }
    sim_event_init(&request->event, SIM_PHASE_COMPLETE, next);
    if (request->unit->cache != NULL) {
        access_cache(request, is_write, not_before);
        return;
    }
    sim_dram_begin(dram, &request->memory, is_write, &request->event, not_before);
    sim_dma_pieces_t pieces = {
        .spec = &request->unit->spec, .walk = request->walk, .runs = request->runs};
    sim_dma_piece_t piece, block;
    while (sim_dma_pieces_next(&pieces, &piece, &block))
        sim_dram_add(dram, &request->memory, block.address, block.bytes);
    sim_dram_end(dram, &request->memory);
}

static void on_through(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    request_t *request = SIM_CONTAINER_OF(event, request_t, event);
    sim_dma_t *unit = request->unit;
    unit->in_flight_bytes -= request->bytes;
    unit->in_flight_requests--;
    command_t *command = &unit->command[request->command];
    command->in_flight--;
    command->last = sim_now(unit->engine);
    request->op->in_flight--;
    request->next = unit->free_request;
    unit->free_request = request;
    pump(unit);
    try_end(unit);
}

/* Never before the engine's own slot is over. */
static void finish(request_t *request, sim_tick_t tick) {
    go_on(request, on_through, later(tick, request->slot_end));
}

/* ---- messages ---- */

static void spread_request(const sim_dma_t *unit, const request_t *request,
                           sim_dma_spread_t *spread) {
    sim_dma_pieces_t pieces = {.spec = &unit->spec, .walk = request->walk, .runs = request->runs};
    sim_dma_sides_t sides = {unit->dram, request->op->is_shared ? unit->shared : NULL, unit->noc};
    sim_dma_spread(&sides, &pieces, request->bytes, spread);
}

typedef enum payload { HEADER, DATA, ACKNOWLEDGEMENT } payload_t;

/* Data of a memory endpoint to all receivers; returns when the last of them has it. */
static sim_tick_t send_to_all(const sim_dma_t *unit, const sim_dma_op_t *op, sim_noc_path_t path,
                              uint64_t bytes) {
    sim_tick_t now = sim_now(unit->engine), there[SIM_MAX_CORES], last = now;
    sim_noc_multicast(unit->noc, path, op->multicast_port, op->multicast_count, bytes, now, there);
    for (uint32_t i = 0; i < op->multicast_count; i++)
        last = later(last, there[i]);
    return last;
}

/* Sends something to or from every memory endpoint that a request touches now; returns when the
 * last is there. */
static sim_tick_t send(const sim_dma_t *unit, const request_t *request, bool to_memory,
                       payload_t payload) {
    sim_tick_t now = sim_now(unit->engine), arrival = now;
    if (unit->noc == NULL) return now;
    sim_dma_spread_t spread;
    spread_request(unit, request, &spread);
    for (uint32_t i = 0; i < spread.count; i++) {
        uint32_t memory = spread.part[i].port;
        sim_noc_path_t path = {.src_port = to_memory ? unit->port : memory,
                               .dst_port = to_memory ? memory : unit->port,
                               .network = unit->spec.network,
                               .cls = to_memory ? SIM_NOC_REQUEST : SIM_NOC_RESPONSE};
        uint64_t bytes = 0;
        if (payload == DATA) bytes = spread.part[i].bytes;
        if (payload == ACKNOWLEDGEMENT) bytes = unit->spec.write_ack_bytes;
        bool is_multicast = payload == DATA && !to_memory && request->op->multicast_count > 0;
        sim_tick_t there = is_multicast ? send_to_all(unit, request->op, path, bytes)
                                        : sim_noc_send(unit->noc, path, bytes, now);
        arrival = later(arrival, there);
    }
    return arrival;
}

static void on_written(sim_engine_t *engine, sim_event_t *event) {
    request_t *request = SIM_CONTAINER_OF(event, request_t, event);
    sim_dma_t *unit = request->unit;
    count_memory(request, memory_done(request));
    sim_tick_t now = sim_now(engine), arrival = now;
    if (unit->spec.write_ack_bytes > 0) arrival = send(unit, request, false, ACKNOWLEDGEMENT);
    request->op->waited[WAIT_NOC] += arrival - now;
    go_on(request, on_through, arrival);
}

static void on_write_at_dram(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    request_t *request = SIM_CONTAINER_OF(event, request_t, event);
    access_dram(request, true, on_written, request->slot_end);
}

static void on_write_arrived(sim_engine_t *engine, sim_event_t *event) {
    request_t *request = SIM_CONTAINER_OF(event, request_t, event);
    request->entered = sim_now(engine);
    if (request->op->accumulate)
        access_dram(request, false, on_write_at_dram, 0);
    else
        on_write_at_dram(engine, event);
}

static void on_write_read_out(sim_engine_t *engine, sim_event_t *event) {
    request_t *request = SIM_CONTAINER_OF(event, request_t, event);
    sim_dma_t *unit = request->unit;
    sim_tick_t arrival = send(unit, request, true, DATA);
    request->op->waited[WAIT_NOC] += arrival - sim_now(engine);
    go_on(request, on_write_arrived, arrival);
}

static sim_share_t *port_of(const sim_dma_t *unit, const sim_dma_op_t *op) {
    return op->acc_bytes > 0 ? unit->acc : unit->sram;
}

/* Where in the scratchpad the bytes of a request lie: a transfer passes through `local` evenly. */
static void set_range(const request_t *request, sim_stream_t *stream) {
    const sim_dma_op_t *op = request->op;
    stream->num_ranges = op->acc_bytes == 0 && op->local.extent > 0 ? 1 : 0;
    if (stream->num_ranges == 0) return;
    uint64_t total = op->sram_bytes > 0 ? op->sram_bytes : op->total_bytes;
    uint64_t begin = (uint64_t)((wide_t)op->local.extent * request->local_begin / total);
    if (request->local_words > 0) stream->bytes = request->local_words;
    stream->range[0] = (sim_range_t){op->local.first + begin, request->local_bytes, stream->bytes};
    if (op->is_scattered)
        stream->range[0] = (sim_range_t){op->local.first, op->local.extent, stream->bytes};
}

static void serve_local(sim_dma_t *unit) {
    request_t *request = unit->local_head;
    sim_stream_t *stream = &unit->local_stream;
    stream->owner = request;
    stream->bytes = request->local_bytes;
    stream->is_first = unit->spec.writes_first && request->op->kind == SIM_DMA_READ;
    set_range(request, stream);
    stream->min_ticks = sim_clock_tick(&unit->spec.clock, request->data_cycles);
    sim_share_start(port_of(unit, request->op), stream);
}

static void on_local_end(sim_engine_t *engine, sim_stream_t *stream) {
    request_t *request = stream->owner;
    sim_dma_t *unit = request->unit;
    sim_tick_t now = sim_now(engine);
    request->op->waited[WAIT_SRAM] += now - request->entered - stream->min_ticks;
    unit->local_head = request->next;
    if (unit->local_head != NULL) serve_local(unit);
    if (request->op->kind == SIM_DMA_WRITE)
        go_on(request, on_write_read_out, later(now, request->slot_end));
    else
        finish(request, now);
}

static void on_local(sim_engine_t *engine, sim_event_t *event) {
    request_t *request = SIM_CONTAINER_OF(event, request_t, event);
    sim_dma_t *unit = request->unit;
    request->entered = sim_now(engine);
    request->next = NULL;
    if (unit->local_head != NULL) {
        unit->local_tail->next = request;
        unit->local_tail = request;
    } else {
        unit->local_head = unit->local_tail = request;
        serve_local(unit);
    }
}

/* Data of a read: through the interconnect, and into the scratchpad while it comes out of it. */
static void on_read_data(sim_engine_t *engine, sim_event_t *event) {
    request_t *request = SIM_CONTAINER_OF(event, request_t, event);
    sim_dma_t *unit = request->unit;
    sim_tick_t now = sim_now(engine), arrival = send(unit, request, false, DATA);
    count_memory(request, now);
    request->op->waited[WAIT_NOC] += arrival - now;
    if (port_of(unit, request->op) == NULL) {
        finish(request, arrival);
        return;
    }
    sim_tick_t data = sim_clock_tick(&unit->spec.clock, request->data_cycles);
    go_on(request, on_local, arrival - now > data ? arrival - data : now);
}

static void on_read_at_dram(sim_engine_t *engine, sim_event_t *event) {
    request_t *request = SIM_CONTAINER_OF(event, request_t, event);
    sim_tick_t now = sim_now(engine);
    request->op->waited[WAIT_NOC] += now - request->entered;
    request->entered = now;
    access_dram(request, false, on_read_data, 0);
}

static void enter(sim_dma_t *unit, request_t *request) {
    sim_tick_t now = sim_now(unit->engine);
    request->entered = now;
    if (request->op->kind == SIM_DMA_READ) {
        bool has_request = unit->noc != NULL && sim_noc_has_requests(unit->noc);
        go_on(request, on_read_at_dram, has_request ? send(unit, request, true, HEADER) : now);
    } else if (port_of(unit, request->op) != NULL) {
        on_local(unit->engine, &request->event);
    } else if (request->op->kind == SIM_DMA_WRITE) {
        go_on(request, on_write_read_out, request->slot_end);
    } else {
        finish(request, now);
    }
}

/* ---- the engine: issue ---- */

static void on_issue(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    sim_dma_t *unit = SIM_CONTAINER_OF(event, sim_dma_t, issue_event);
    request_t *request = unit->built;
    sim_dma_op_t *op = request->op;
    unit->built = NULL;
    unit->issue_cycle =
        sim_clock_cycle(&unit->spec.clock, sim_now(engine)) + request->engine_cycles;
    request->slot_end = sim_clock_tick(&unit->spec.clock, unit->issue_cycle);
    op->not_before = request->slot_end;
    op->engine_cycles += request->engine_cycles;
    op->in_flight++;
    op->is_issued = op->moved_bytes == op->total_bytes;
    unit->command[request->command].in_flight++;
    unit->in_flight_bytes += request->bytes;
    unit->in_flight_requests++;
    enter(unit, request);
    shift(unit);
}

/* Begins the command of the request that is built; false: too many before it are on their way. */
static bool begin_command(sim_dma_t *unit, sim_dma_op_t *op) {
    request_t *request = unit->built;
    uint64_t k = unit->commands, most = most_transfers(unit, op);
    if (!request->begins_command) {
        request->command = (uint32_t)((k - 1) % SIM_DMA_MAX_TRANSFERS);
        return true;
    }
    /* All requests of the commands before have been issued. */
    sim_tick_t from = op->begin;
    if (k >= most) {
        const command_t *before = &unit->command[(k - most) % SIM_DMA_MAX_TRANSFERS];
        if (before->in_flight > 0) return false;
        from = later(from, before->last);
    }
    bool has_descriptor = request->is_first && from == op->begin; /* the transfer's own */
    if (!has_descriptor) {
        uint64_t cycle = sim_clock_cycle_up(&unit->spec.clock, from), free = unit->issue_cycle;
        if (!unit->spec.prefetches && free > cycle) cycle = free;
        uint64_t ready = cycle + unit->spec.descriptor_cycles;
        if (free < cycle) free = cycle;
        if (ready > free) op->engine_cycles += ready - free;
        if (ready > unit->issue_cycle) unit->issue_cycle = ready;
    }
    request->command = (uint32_t)(k % SIM_DMA_MAX_TRANSFERS);
    request->begins_command = false;
    unit->command[request->command] = (command_t){0};
    unit->commands++;
    return true;
}

/* Issues the next request at the next cycle at which the engine is free, unless it is held up by
 * what is in flight. */
static void pump(sim_dma_t *unit) {
    sim_dma_op_t *op = unit->current;
    if (op == NULL || op->is_issued || sim_event_is_pending(&unit->issue_event)) return;
    if (unit->built == NULL) unit->built = build_request(unit, op);
    const sim_dma_spec_t *spec = &unit->spec;
    uint64_t in_flight = unit->in_flight_bytes;
    if (in_flight > 0 && in_flight + unit->built->bytes > spec->outstanding_bytes) return;
    if (spec->outstanding_requests > 0 && unit->in_flight_requests == spec->outstanding_requests)
        return;
    if (spec->command_runs > 0 && !begin_command(unit, op)) return;
    sim_tick_t edge = edge_after(unit, sim_now(unit->engine));
    sim_tick_t free_tick = sim_clock_tick(&unit->spec.clock, unit->issue_cycle);
    sim_event_schedule(unit->engine, &unit->issue_event, later(edge, free_tick));
}

bool sim_dma_can_submit(const sim_dma_t *unit) {
    return unit->waiting == NULL;
}

void sim_dma_submit(sim_dma_t *unit, sim_dma_op_t *op) {
    if (unit->waiting != NULL)
        sim_bug("sim_dma", sim_now(unit->engine), "submit to an engine with a transfer waiting");
    if (op->row_address != NULL)
        sim_dma_walk_rows(&op->walk, op->row_address, op->row_count, op->run_bytes);
    else
        sim_dma_walk_strided(&op->walk, op->base, op->ndims, op->size, op->stride, op->run_bytes,
                             !unit->spec.keeps_rows);
    op->is_shared = sim_dma_is_shared(op);
    if (op->is_shared && unit->shared == NULL)
        sim_bug("sim_dma", sim_now(unit->engine), "no shared scratchpad memory");
    op->walk.longest = unit->spec.max_run_bytes;
    op->walk.rows = unit->spec.command_runs;
    op->total_bytes = op->walk.run_bytes * op->walk.runs_left;
    bool has_way = op->kind != SIM_DMA_LOCAL && unit->spec.accumulator_bytes_per_cycle > 0;
    if (op->acc_bytes > 0 && !has_way)
        sim_bug("sim_dma", sim_now(unit->engine), "no way to the accumulator");
    op->moved_bytes = op->local_moved_bytes = op->filled_bytes = 0;
    for (int i = 0; i < 4; i++)
        op->waited[i] = 0;
    op->in_flight = op->runs = 0;
    op->is_taken_up = op->is_issued = false;
    unit->waiting = op;
    shift(unit);
}

/* ---- life cycle ---- */

static bool is_power_of_two(uint64_t x) {
    return x > 0 && (x & (x - 1)) == 0;
}

static bool is_valid(const sim_dma_spec_t *spec) {
    if (spec->bytes_per_cycle == 0 || spec->request_bytes == 0 || spec->clock.num == 0)
        return false;
    if (spec->accumulator_bytes_per_cycle > 0 && spec->accumulator_word_bytes == 0) return false;
    const uint32_t transfers[] = {spec->read_transfers, spec->write_transfers};
    for (int i = 0; i < 2; i++)
        if (transfers[i] == 0 || transfers[i] > SIM_DMA_MAX_TRANSFERS) return false;
    if (spec->aligned_requests &&
        !(is_power_of_two(spec->bytes_per_cycle) && is_power_of_two(spec->request_bytes) &&
          spec->bytes_per_cycle <= spec->request_bytes))
        return false;
    const sim_ratio_t *factor[] = {&spec->transpose_factor, &spec->accumulate_factor};
    for (int i = 0; i < 2; i++)
        if (factor[i]->den == 0 || factor[i]->num < factor[i]->den) return false;
    return true;
}

sim_status_t sim_dma_create(sim_engine_t *engine, const sim_dma_spec_t *spec, sim_dram_t *dram,
                            sim_noc_t *noc, uint32_t port, sim_share_t *sram, sim_share_t *acc,
                            sim_dma_t **out_unit) {
    *out_unit = NULL;
    if (!is_valid(spec)) return SIM_ERROR_INVALID_VALUE;
    sim_dma_t *unit = calloc(1, sizeof *unit);
    chunk_t *chunk = calloc(1, sizeof *chunk);
    if (unit == NULL || chunk == NULL) {
        free(unit);
        free(chunk);
        return SIM_ERROR_OUT_OF_MEMORY;
    }
    unit->engine = engine;
    unit->spec = *spec;
    unit->dram = dram;
    unit->noc = noc;
    unit->port = port;
    unit->sram = sram;
    unit->acc = acc;
    if (dram != NULL) sim_dram_attach(dram, engine);
    unit->chunk = chunk;
    sim_event_init(&unit->issue_event, SIM_PHASE_ISSUE, on_issue);
    sim_event_init(&unit->end_event, SIM_PHASE_COMPLETE, on_transfer_end);
    sim_dma_reset(unit);
    *out_unit = unit;
    return SIM_OK;
}

void sim_dma_set_cache(sim_dma_t *unit, sim_cache_t *cache) {
    unit->cache = cache;
}

void sim_dma_set_shared(sim_dma_t *unit, sim_shared_t *shared) {
    unit->shared = shared;
}

void sim_dma_destroy(sim_dma_t *unit) {
    if (unit == NULL) return;
    for (chunk_t *chunk = unit->chunk, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(unit);
}

void sim_dma_reset(sim_dma_t *unit) {
    sim_event_cancel(unit->engine, &unit->issue_event);
    sim_event_cancel(unit->engine, &unit->end_event);
    unit->oldest = unit->newest = unit->current = unit->waiting = NULL;
    unit->begun = unit->in_flight_requests = 0;
    unit->commands = 0;
    unit->command[0] = (command_t){0};
    unit->issue_cycle = unit->last_end = unit->in_flight_bytes = 0;
    unit->built = unit->local_head = unit->local_tail = unit->free_request = NULL;
    unit->local_stream = (sim_stream_t){.on_end = on_local_end};
    for (chunk_t *chunk = unit->chunk; chunk != NULL; chunk = chunk->next)
        add_requests(unit, chunk);
}
