/*
 * Replays the traffic patterns of the DRAM reference data (data/README.md) through sim/sim_dram.
 *
 *   dram_replay CONFIG OVERRIDES PATTERN REQUESTS...
 *
 * prints for each pattern: name, requests, cycles of the memory clock until the last request is
 * done, median latency of a read in cycles (idle_* and chain_*, else 0), CPU seconds of the loop.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/sim_dram_internal.h"

#define MAX_ENGINES  4u
#define MAX_CHANNELS 64u
#define SEED         12345u

typedef struct replay replay_t;

/* An engine of dma_*: one block at a time. */
typedef struct requester {
    sim_event_t event;
    sim_dram_request_t request;
    replay_t *replay;
    uint64_t base, blocks_left, unsent;
    bool is_due; /* its next block starts with the next cycle */
    struct {
        uint64_t *address;
        uint32_t head, tail;
    } fifo[MAX_CHANNELS];
} requester_t;

struct replay {
    sim_engine_t *engine;
    sim_dram_t *dram;
    uint64_t rng, capacity, size, row_stride; /* size: bytes of a request */
    uint64_t requests;
    sim_event_t timer, blocks;
    bool is_write, is_scatter;
    uint32_t block_bytes, engines;
    uint32_t turn[MAX_CHANNELS];
    requester_t requester[MAX_ENGINES];
};

static void die(const char *what) {
    fprintf(stderr, "dram_replay: %s\n", what);
    exit(1);
}

static void *allocate(uint64_t count, size_t bytes) {
    void *memory = calloc(count, bytes);
    if (memory == NULL) die("out of memory");
    return memory;
}

static uint64_t splitmix64(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static void nothing(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    (void)event;
}

static void run_to(replay_t *replay, sim_tick_t tick) {
    if (tick <= sim_now(replay->engine)) return;
    sim_event_schedule(replay->engine, &replay->timer, tick);
    (void)sim_engine_run_until(replay->engine, tick);
}

static uint64_t cycles_at(const replay_t *replay, sim_tick_t tick) {
    return sim_clock_cycle(&replay->dram->clock, tick);
}

/* ---- full load: all requests are there at cycle 0 ---- */

typedef enum walk { WALK_SEQUENTIAL, WALK_STRIDE, WALK_STREAMS, WALK_COPY, WALK_RANDOM } walk_t;
typedef enum mix { MIX_READ, MIX_WRITE, MIX_TURNS, MIX_COIN } mix_t;

static walk_t walk_of(const char *pattern, uint64_t *number) {
    if (strncmp(pattern, "seq_", 4) == 0) return WALK_SEQUENTIAL;
    if (strncmp(pattern, "rand_", 5) == 0) return WALK_RANDOM;
    if (strncmp(pattern, "copy_", 5) == 0) return WALK_COPY;
    if (sscanf(pattern, "stride_read_%" SCNu64, number) == 1 && *number > 0) return WALK_STRIDE;
    if (sscanf(pattern, "streams_conflict_%" SCNu64, number) == 1 && *number > 0)
        return WALK_STREAMS;
    die("unknown pattern");
    return WALK_SEQUENTIAL;
}

static mix_t mix_of(const char *pattern) {
    if (strcmp(pattern, "seq_write") == 0) return MIX_WRITE;
    if (strcmp(pattern, "seq_rw50") == 0 || strcmp(pattern, "copy_rw50") == 0) return MIX_TURNS;
    return strstr(pattern, "_rw50") != NULL ? MIX_COIN : MIX_READ;
}

static uint64_t address_of(replay_t *replay, walk_t walk, uint64_t number, uint64_t i) {
    uint64_t size = replay->size;
    switch (walk) {
    case WALK_SEQUENTIAL: return i * size;
    case WALK_STRIDE: {
        uint64_t per_turn = replay->capacity / number;
        return (i % per_turn * number + i / per_turn * size) % replay->capacity;
    }
    case WALK_STREAMS: return i % number * 1025 * replay->row_stride + i / number * size;
    case WALK_COPY: return i / 2 * size + i % 2 * (replay->capacity / 2);
    case WALK_RANDOM: return splitmix64(&replay->rng) % (replay->capacity / size) * size;
    }
    return 0;
}

static void run_full_load(replay_t *replay, const char *pattern) {
    sim_dram_request_t request[2];
    sim_event_t event[2] = {{0}};
    uint64_t number = 0;
    walk_t walk = walk_of(pattern, &number);
    mix_t mix = mix_of(pattern);
    for (int is_write = 0; is_write < 2; is_write++) {
        sim_event_init(&event[is_write], SIM_PHASE_COMPLETE, nothing);
        sim_dram_begin(replay->dram, &request[is_write], is_write == 1, &event[is_write], 0);
    }
    for (uint64_t i = 0; i < replay->requests; i++) {
        uint64_t address = address_of(replay, walk, number, i);
        bool is_write = mix == MIX_WRITE || (mix == MIX_TURNS && i % 2 == 1) ||
                        (mix == MIX_COIN && (splitmix64(&replay->rng) & 1) != 0);
        sim_dram_add(replay->dram, &request[is_write], address, replay->size);
    }
    for (int is_write = 0; is_write < 2; is_write++)
        sim_dram_end(replay->dram, &request[is_write]);
    (void)sim_engine_run(replay->engine);
}

/* ---- at a given rate ---- */

static void run_load(replay_t *replay, const char *pattern) {
    const char *percent = strrchr(pattern, '_') + 1;
    bool is_random = strncmp(pattern, "load_rand", 9) == 0;
    uint64_t divisor = strtoull(percent, NULL, 10) * replay->dram->channel_count;
    uint64_t burst = 100 * replay->dram->timing.param[SIM_DRAM_BL];
    if (divisor == 0) die("load_*: a rate above 0 %");
    sim_dram_request_t request;
    sim_event_t event = {0};
    sim_event_init(&event, SIM_PHASE_COMPLETE, nothing);
    sim_dram_begin(replay->dram, &request, false, &event, 0);
    for (uint64_t i = 0; i < replay->requests; i++) {
        run_to(replay, sim_clock_tick(&replay->dram->clock, i * burst / divisor));
        uint64_t address =
            is_random ? splitmix64(&replay->rng) % (replay->capacity / replay->size) * replay->size
                      : i * replay->size;
        sim_dram_add(replay->dram, &request, address, replay->size);
    }
    sim_dram_end(replay->dram, &request);
    (void)sim_engine_run(replay->engine);
}

/* ---- one request at a time ---- */

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t lone_address(replay_t *replay, const char *pattern, uint64_t i) {
    const sim_dram_map_t *map = &replay->dram->map;
    if (strcmp(pattern, "chain_rand") == 0)
        return splitmix64(&replay->rng) % (replay->capacity / replay->size) * replay->size;
    if (strcmp(pattern, "chain_seq") == 0) return i * replay->size;
    if (strcmp(pattern, "idle_row_conflict") == 0) return i % 2 * replay->row_stride;
    if (strcmp(pattern, "idle_row_hit") == 0) return 0;
    /* idle_row_closed: every bank of every channel once */
    uint64_t burst = 0, rest = i;
    const sim_dram_field_t field[] = {map->channel, map->group, map->bank};
    for (int f = 0; f < 3; f++) {
        burst |= (rest & ((UINT64_C(1) << field[f].bits) - 1)) << field[f].shift;
        rest >>= field[f].bits;
    }
    return burst << map->burst_shift;
}

static uint64_t run_lone(replay_t *replay, const char *pattern) {
    uint64_t idle = strcmp(pattern, "idle_row_closed") == 0 ? 20
                    : strncmp(pattern, "idle", 4) == 0      ? 400
                                                            : 1; /* accept to issue */
    uint64_t *latency = allocate(replay->requests, sizeof *latency);
    for (uint64_t i = 0; i < replay->requests; i++) {
        sim_dram_request_t request;
        sim_event_t event = {0};
        sim_tick_t start = sim_now(replay->engine);
        sim_event_init(&event, SIM_PHASE_COMPLETE, nothing);
        sim_dram_begin(replay->dram, &request, false, &event, 0);
        sim_dram_add(replay->dram, &request, lone_address(replay, pattern, i), replay->size);
        sim_dram_end(replay->dram, &request);
        (void)sim_engine_run(replay->engine);
        latency[i] = cycles_at(replay, request.done) - cycles_at(replay, start);
        uint64_t next = cycles_at(replay, request.done) + idle;
        run_to(replay, sim_clock_tick(&replay->dram->clock, next));
    }
    qsort(latency, replay->requests, sizeof *latency, by_value);
    uint64_t median = latency[replay->requests / 2];
    free(latency);
    return median;
}

/* ---- engines with a block each, in turn at each channel ---- */

/* Offers requests of the engines in turn until the channel has no room. */
static void offer(void *user, uint32_t channel, uint64_t cycle) {
    replay_t *replay = user;
    const sim_dram_queue_t *queue = replay->dram->channel[channel].queue;
    uint32_t idle = 0;
    while (idle < replay->engines && sim_dram_queue_has_room(queue)) {
        requester_t *from = &replay->requester[replay->turn[channel]];
        replay->turn[channel] = (replay->turn[channel] + 1) % replay->engines;
        if (from->fifo[channel].head == from->fifo[channel].tail) {
            idle++;
            continue;
        }
        idle = 0;
        uint64_t address = from->fifo[channel].address[from->fifo[channel].head++];
        uint64_t burst = address >> replay->dram->map.burst_shift;
        sim_dram_place_t at = sim_dram_map_bank(&replay->dram->map, burst);
        sim_dram_queue_add(replay->dram, &at, burst, burst + 1, &from->request, cycle);
        if (--from->unsent == 0) sim_dram_end(replay->dram, &from->request);
    }
}

static void start_block(requester_t *requester) {
    replay_t *replay = requester->replay;
    requester->is_due = false;
    requester->blocks_left--;
    uint64_t block = replay->block_bytes, base = requester->base;
    requester->base = (base + block) % replay->capacity;
    if (replay->is_scatter) base = splitmix64(&replay->rng) % (replay->capacity / block) * block;
    sim_dram_begin(replay->dram, &requester->request, replay->is_write, &requester->event, 0);
    requester->unsent = block / replay->size;
    for (uint32_t i = 0; i < replay->dram->channel_count; i++)
        requester->fifo[i].head = requester->fifo[i].tail = 0;
    for (uint64_t at = 0; at < block; at += replay->size) {
        uint64_t burst = (base + at) >> replay->dram->map.burst_shift;
        uint32_t channel = sim_dram_map_bank(&replay->dram->map, burst).channel;
        requester->fifo[channel].address[requester->fifo[channel].tail++] = base + at;
    }
}

/* All blocks of a cycle are in their FIFOs before the channels take from them in turn: one that got
 * in alone would be a window ahead of the others for good. */
static void start_blocks(sim_engine_t *engine, sim_event_t *event) {
    replay_t *replay = SIM_CONTAINER_OF(event, replay_t, blocks);
    for (uint32_t e = 0; e < replay->engines; e++) {
        if (replay->requester[e].is_due) start_block(&replay->requester[e]);
    }
    uint64_t cycle = sim_clock_cycle_up(&replay->dram->clock, sim_now(engine));
    for (uint32_t i = 0; i < replay->dram->channel_count; i++)
        offer(replay, i, cycle);
}

static void next_block(sim_engine_t *engine, sim_event_t *event) {
    requester_t *requester = SIM_CONTAINER_OF(event, requester_t, event);
    replay_t *replay = requester->replay;
    if (requester->blocks_left == 0) return;
    requester->is_due = true;
    if (sim_event_is_pending(&replay->blocks)) return;
    const sim_clock_t *clock = &replay->dram->clock;
    uint64_t cycle = sim_clock_cycle_up(clock, sim_now(engine));
    sim_event_schedule(engine, &replay->blocks, sim_clock_tick(clock, cycle));
}

static void run_dma(replay_t *replay, const char *pattern) {
    char direction[8], walk[8];
    if (sscanf(pattern, "dma_%7[a-z]_%7[a-z]_%u_e%u", direction, walk, &replay->block_bytes,
               &replay->engines) != 4 ||
        replay->engines == 0 || replay->engines > MAX_ENGINES || replay->block_bytes == 0)
        die("dma_<rw>_<contig|scatter>_<bytes>_e<1..4>");
    replay->is_write = strcmp(direction, "write") == 0;
    replay->is_scatter = strcmp(walk, "scatter") == 0;
    uint64_t per_block = replay->block_bytes / replay->size;
    uint64_t blocks = replay->requests / per_block / replay->engines;
    replay->requests = blocks * per_block * replay->engines;
    for (uint32_t i = 0; i < replay->dram->channel_count; i++) {
        replay->turn[i] = 0;
        sim_dram_queue_on_room(replay->dram->channel[i].queue, offer, replay);
    }
    sim_event_init(&replay->blocks, SIM_PHASE_ARRIVE, start_blocks);
    for (uint32_t e = 0; e < replay->engines; e++) {
        requester_t *requester = &replay->requester[e];
        *requester = (requester_t){
            .replay = replay, .base = replay->capacity / 4 * e, .blocks_left = blocks};
        sim_event_init(&requester->event, SIM_PHASE_COMPLETE, next_block);
        for (uint32_t i = 0; i < replay->dram->channel_count; i++)
            requester->fifo[i].address = allocate(per_block, sizeof(uint64_t));
    }
    for (uint32_t e = 0; e < replay->engines; e++)
        next_block(replay->engine, &replay->requester[e].event);
    (void)sim_engine_run(replay->engine);
    for (uint32_t i = 0; i < replay->dram->channel_count; i++) {
        sim_dram_queue_on_room(replay->dram->channel[i].queue, NULL, NULL);
        for (uint32_t e = 0; e < replay->engines; e++)
            free(replay->requester[e].fifo[i].address);
    }
}

/* ---- all ---- */

static double cpu_seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void run(replay_t *replay, const char *pattern) {
    sim_engine_reset(replay->engine);
    sim_dram_reset(replay->dram);
    replay->rng = SEED;
    uint64_t median = 0;
    double start = cpu_seconds();
    if (strncmp(pattern, "dma_", 4) == 0)
        run_dma(replay, pattern);
    else if (strncmp(pattern, "load_", 5) == 0)
        run_load(replay, pattern);
    else if (strncmp(pattern, "idle_", 5) == 0 || strncmp(pattern, "chain_", 6) == 0)
        median = run_lone(replay, pattern);
    else
        run_full_load(replay, pattern);
    double seconds = cpu_seconds() - start;
    uint64_t last = 0;
    for (uint32_t i = 0; i < replay->dram->channel_count; i++)
        if (replay->dram->channel[i].last_column > last)
            last = replay->dram->channel[i].last_column;
    last += replay->dram->timing.data_cycles[sim_dram_stats(replay->dram)->read_bytes == 0];
    printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %.6f\n", pattern, replay->requests, last, median,
           seconds);
}

int main(int argc, char **argv) {
    if (argc < 5 || argc % 2 == 0) die("usage: dram_replay CONFIG OVERRIDES (PATTERN REQUESTS)...");
    sim_config_t *config;
    sim_error_t err = {0};
    static replay_t replay;
    if (sim_config_load(argv[1], argv[2], &config, &err) != SIM_OK ||
        sim_dram_create(config, &replay.dram, &err) != SIM_OK)
        die(err.text);
    if (replay.dram->window == 1) die("dram.window: the patterns need a window");
    if (replay.dram->channel_count > MAX_CHANNELS) die("dram.channels: at most 64");
    if (sim_engine_create(&replay.engine) != SIM_OK) die("out of memory");
    sim_dram_attach(replay.dram, replay.engine);
    sim_event_init(&replay.timer, SIM_PHASE_OBSERVE, nothing);
    replay.capacity = sim_config_u64(config, "dram.bytes");
    if (replay.dram->burst_bytes < 64)
        die("dram.burst_bytes: the patterns are of 64 bytes or more");
    replay.size = replay.dram->burst_bytes;
    replay.row_stride = UINT64_C(1) << (replay.dram->map.row.shift + replay.dram->map.burst_shift);
    for (int i = 3; i < argc; i += 2) {
        replay.requests = strtoull(argv[i + 1], NULL, 10);
        if (replay.requests == 0) die("REQUESTS: a number above 0");
        run(&replay, argv[i]);
    }
    sim_dram_destroy(replay.dram);
    sim_engine_destroy(replay.engine);
    sim_config_destroy(config);
    return 0;
}
