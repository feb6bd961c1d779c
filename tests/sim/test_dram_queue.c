#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>

#include "sim/sim_dram_internal.h"
#include "tests/sim/alloc_count.h"
#include "tests/sim/units.h"

#define TICKS 5u /* a cycle of 1.6 GHz is 625 ps */

/* One channel of the default chip, no frontend, no refresh; consecutive bursts stay in one bank. */
#define BARE                                                                                       \
    "dram.channels=1,dram.bytes=64MiB,dram.frontend=0ps,dram.hash=false,dram.mapping=ro-ba-bg-co,"
#define WINDOW     BARE "dram.trefi=0,dram.window=8"
#define NEXT_ROW   (UINT64_C(16) * 1024)
#define NEXT_BANK  (UINT64_C(4) * 1024)
#define NEXT_GROUP UINT64_C(1024)

/* The default chip's timing, in cycles. */
enum { BL = 2, CL = 23, CWL = 8, RCDRD = 23, RP = 23, RAS = 55, RTP = 8, CCD_L = 4, RTW = 19 };

typedef struct access {
    sim_event_t event;
    sim_dram_request_t request;
    uint64_t done; /* cycle; 0: not yet */
} access_t;

typedef struct bench {
    sim_engine_t *engine;
    sim_dram_t *dram;
    sim_event_t timer;
} bench_t;

static void nothing(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    (void)event;
}

static void on_done(sim_engine_t *engine, sim_event_t *event) {
    access_t *access = SIM_CONTAINER_OF(event, access_t, event);
    cr_assert_eq(access->done, 0);
    cr_assert_eq(sim_now(engine), access->request.done);
    access->done = sim_now(engine) / TICKS;
}

static bench_t bench_new(const char *overrides) {
    bench_t bench = {.engine = engine_new()};
    sim_config_t *config = config_new("default", overrides);
    sim_error_t err = {0};
    cr_assert_eq(sim_dram_create(config, &bench.dram, &err), SIM_OK, "%s", err.text);
    sim_config_destroy(config);
    sim_dram_attach(bench.dram, bench.engine);
    sim_event_init(&bench.timer, SIM_PHASE_ARRIVE, nothing);
    return bench;
}

static void bench_fini(bench_t *bench) {
    sim_dram_destroy(bench->dram);
    sim_engine_destroy(bench->engine);
}

static void run_to(bench_t *bench, uint64_t cycle) {
    sim_tick_t tick = cycle * TICKS;
    if (tick <= sim_now(bench->engine)) return;
    sim_event_schedule(bench->engine, &bench->timer, tick);
    (void)sim_engine_run_until(bench->engine, tick);
}

static void start(bench_t *bench, access_t *access, uint64_t address, uint64_t bytes,
                  bool is_write) {
    *access = (access_t){0};
    sim_event_init(&access->event, SIM_PHASE_COMPLETE, on_done);
    sim_dram_begin(bench->dram, &access->request, is_write, &access->event, 0);
    sim_dram_add(bench->dram, &access->request, address, bytes);
    sim_dram_end(bench->dram, &access->request);
}

static uint64_t alone(bench_t *bench, uint64_t cycle, uint64_t address, bool is_write) {
    access_t access;
    run_to(bench, cycle);
    start(bench, &access, address, 32, is_write);
    (void)sim_engine_run(bench->engine);
    return access.done - cycle;
}

Test(dram_queue, idle_latencies_are_those_of_the_service_in_order) {
    bench_t bench = bench_new(WINDOW);
    cr_assert_eq(alone(&bench, 0, 0, false), RCDRD + CL + BL);
    cr_assert_eq(alone(&bench, 1000, 64, false), CL + BL);
    cr_assert_eq(alone(&bench, 2000, NEXT_ROW, false), RP + RCDRD + CL + BL);
    cr_assert_eq(alone(&bench, 3000, NEXT_ROW, true), 1); /* posted */
    const sim_dram_stats_t *stats = sim_dram_stats(bench.dram);
    cr_assert_eq(stats->row_hits, 2);
    cr_assert_eq(stats->row_closed, 1);
    cr_assert_eq(stats->row_conflicts, 1);
    cr_assert_eq(stats->trains, 4);
    bench_fini(&bench);
}

/* A read, `others` reads of other rows of its bank, and four more of its row: how many of those
 * pass the others. */
static uint32_t passing(const char *overrides, uint32_t others) {
    bench_t bench = bench_new(overrides);
    access_t first, other[8], hit[4];
    uint32_t passed = 0;
    start(&bench, &first, 0, 32, false);
    for (uint32_t i = 0; i < others; i++)
        start(&bench, &other[i], (i + 1) * NEXT_ROW, 32, false);
    for (uint32_t i = 0; i < 4; i++)
        start(&bench, &hit[i], 32 * (i + 1), 32, false);
    (void)sim_engine_run(bench.engine);
    cr_assert_eq(first.done, RCDRD + CL + BL);
    /* the row stays open for tRAS */
    cr_assert_eq(other[0].done, RAS + RP + RCDRD + CL + BL);
    for (uint32_t i = 0; i < 4; i++) {
        if (hit[i].done > other[0].done) continue;
        cr_assert_eq(hit[i].done, first.done + (i + 1) * CCD_L);
        passed++;
    }
    bench_fini(&bench);
    return passed;
}

Test(dram_queue, hits_pass_older_bursts_of_other_rows_as_far_as_the_window_reaches) {
    for (uint32_t window = 2; window <= 8; window++) {
        char overrides[300];
        (void)snprintf(overrides, sizeof overrides, BARE "dram.trefi=0,dram.window=%u", window);
        for (uint32_t others = 1; others <= 8; others++)
            cr_assert_eq(passing(overrides, others), others < window ? 4 : 0,
                         "window %u, %u others", window, others);
    }
    for (uint32_t hits = 1; hits <= 5; hits++) {
        char overrides[300];
        (void)snprintf(overrides, sizeof overrides, WINDOW ",dram.max_row_hits=%u", hits);
        cr_assert_eq(passing(overrides, 1), hits - 1);
    }
}

/* A controller that looks every cycle: all bursts in a plain list, the same rules. */
typedef struct burst {
    uint64_t row, arrival, done;
    uint32_t group, bank;
    bool is_write, is_in, is_called, is_served;
} burst_t;

typedef struct model {
    sim_dram_t *dram;
    burst_t *burst;
    uint32_t count, next; /* the next one to get into the window */
    uint32_t in[2];
    bool is_writing;
} model_t;

static sim_dram_bank_t *bank_of(const model_t *model, const burst_t *burst) {
    return &model->dram->channel->bank[burst->group * model->dram->bank_count + burst->bank];
}

static bool same_bank(const burst_t *a, const burst_t *b) {
    return a->group == b->group && a->bank == b->bank;
}

static void let_in(model_t *model, uint64_t cycle) {
    while (model->next < model->count) {
        burst_t *burst = &model->burst[model->next];
        if (burst->arrival > cycle || model->in[burst->is_write] >= model->dram->window) return;
        burst->is_in = true;
        model->in[burst->is_write]++;
        model->next++;
        if (burst->is_write) burst->done = cycle + 1; /* acknowledged */
    }
}

static void turn(model_t *model) {
    uint32_t reads = model->in[0], writes = model->in[1];
    if (!model->is_writing)
        model->is_writing = writes > model->dram->write_high || (reads == 0 && writes > 0);
    else if (reads > 0 && writes < model->dram->write_low)
        model->is_writing = false;
    if (writes == 0 && reads > 0) model->is_writing = false;
}

/* What burst i wants next; false if it may not have it now. */
static bool wanted(const model_t *model, uint32_t i, sim_dram_command_t *command) {
    const burst_t *burst = &model->burst[i];
    uint64_t open = bank_of(model, burst)->row;
    if (!burst->is_in || burst->is_served) return false;
    if (open == burst->row) {
        *command = burst->is_write ? SIM_DRAM_WR : SIM_DRAM_RD;
        return burst->is_called || burst->is_write == model->is_writing;
    }
    if (burst->is_write != model->is_writing) return false;
    *command = open == SIM_DRAM_NO_ROW ? SIM_DRAM_ACT : SIM_DRAM_PRE;
    for (uint32_t j = 0; j < model->next; j++) {
        const burst_t *other = &model->burst[j];
        if (!other->is_in || other->is_served || !same_bank(burst, other)) continue;
        if (j < i && other->is_write == burst->is_write) return false; /* the oldest decides */
        /* a row that was opened for a burst stays for it */
        if (other->is_called && other->row == open) return false;
    }
    return true;
}

static void give(model_t *model, burst_t *burst, sim_dram_command_t command, uint64_t cycle) {
    sim_dram_issue(model->dram, model->dram->channel, burst->group, burst->bank, command, cycle);
    if (command == SIM_DRAM_PRE) {
        bank_of(model, burst)->row = SIM_DRAM_NO_ROW;
    } else if (command == SIM_DRAM_ACT) {
        bank_of(model, burst)->row = burst->row;
        if (!burst->is_called) model->in[burst->is_write]--;
        burst->is_called = true;
    } else {
        burst->is_served = true;
        if (!burst->is_called) model->in[burst->is_write]--;
        if (!burst->is_write) burst->done = cycle + model->dram->timing.data_cycles[0];
    }
}

/* One command of one kind at `cycle`: the oldest burst first, of column commands those whose row
 * was opened for them. */
static bool one_command(model_t *model, bool is_column, sim_dram_command_t only, uint64_t cycle) {
    burst_t *best = NULL;
    sim_dram_command_t best_command = only;
    for (uint32_t i = 0; i < model->next; i++) {
        sim_dram_command_t command;
        burst_t *burst = &model->burst[i];
        if (!wanted(model, i, &command)) continue;
        bool fits = is_column ? command == SIM_DRAM_RD || command == SIM_DRAM_WR : command == only;
        if (!fits || sim_dram_earliest(model->dram, model->dram->channel, burst->group, burst->bank,
                                       command, cycle) > cycle)
            continue;
        if (best != NULL && !(is_column && burst->is_called && !best->is_called)) continue;
        best = burst;
        best_command = command;
    }
    if (best != NULL) give(model, best, best_command, cycle);
    return best != NULL;
}

static void run_model(model_t *model) {
    uint32_t served = 0;
    for (uint64_t cycle = 0; served < model->count; cycle++) {
        let_in(model, cycle);
        for (bool again = true; again;) {
            turn(model);
            again = one_command(model, true, SIM_DRAM_RD, cycle) ||
                    one_command(model, false, SIM_DRAM_ACT, cycle) ||
                    one_command(model, false, SIM_DRAM_PRE, cycle);
            let_in(model, cycle);
        }
        served = 0;
        for (uint32_t i = 0; i < model->count; i++)
            served += model->burst[i].is_served;
        cr_assert_lt(cycle, 1000000);
    }
}

#define BURSTS 120u

Test(dram_queue, decides_as_a_controller_that_looks_every_cycle) {
    uint64_t seed = 1;
    for (int trial = 0; trial < 120; trial++) {
        char overrides[400];
        (void)snprintf(overrides, sizeof overrides, BARE "dram.trefi=0,dram.window=%d,%s",
                       2 + trial % 12, trial % 3 == 0 ? "dram.write_high=1/2" : "");
        bench_t bench = bench_new(overrides), shadow = bench_new(overrides);
        burst_t *burst = calloc(BURSTS, sizeof *burst);
        access_t *access = calloc(BURSTS, sizeof *access);
        cr_assert(burst != NULL && access != NULL);
        model_t model = {.dram = shadow.dram, .burst = burst, .count = BURSTS};
        uint64_t cycle = 0;
        for (uint32_t i = 0; i < BURSTS; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            uint64_t address = (seed >> 40 & 7) * NEXT_ROW + (seed >> 44 & 3) * NEXT_BANK +
                               (seed >> 48 & 3) * NEXT_GROUP + (seed >> 50 & 3) * 32;
            if (trial % 4 != 0) cycle += seed >> 33 & (trial % 4 == 1 ? 7 : 63);
            sim_dram_place_t at = sim_dram_map_decode(&bench.dram->map, address);
            bool is_write = trial % 5 != 0 && (seed >> 60 & 1) != 0;
            burst[i] = (burst_t){.row = at.row,
                                 .arrival = cycle,
                                 .group = at.group,
                                 .bank = at.bank,
                                 .is_write = is_write};
            run_to(&bench, cycle);
            start(&bench, &access[i], address, 32, is_write);
        }
        (void)sim_engine_run(bench.engine);
        run_model(&model);
        for (uint32_t i = 0; i < BURSTS; i++)
            cr_assert_eq(access[i].done, burst[i].done,
                         "trial %d, burst %u, write %d at %llu: %llu, not %llu", trial, i,
                         burst[i].is_write, (unsigned long long)burst[i].arrival,
                         (unsigned long long)access[i].done, (unsigned long long)burst[i].done);
        free(burst);
        free(access);
        bench_fini(&bench);
        bench_fini(&shadow);
    }
}

/* Reads and writes in turn, row hits all: cycles until the channel is done. */
static uint64_t mixed(const char *overrides) {
    bench_t bench = bench_new(overrides);
    static access_t access[512];
    for (uint64_t i = 0; i < 512; i++)
        start(&bench, &access[i], i % 2 * NEXT_GROUP + i / 2 % 32 * 32, 32, i % 2 == 1);
    (void)sim_engine_run(bench.engine);
    uint64_t last = bench.dram->channel->last_column;
    for (uint64_t i = 0; i < 512; i++)
        cr_assert_neq(access[i].done, 0);
    cr_assert_eq(sim_dram_stats(bench.dram)->read_bytes, 256 * 32);
    cr_assert_eq(sim_dram_stats(bench.dram)->write_bytes, 256 * 32);
    bench_fini(&bench);
    return last;
}

Test(dram_queue, writes_wait_for_a_batch) {
    uint64_t in_order = mixed(BARE "dram.trefi=0"),
             window = mixed(BARE "dram.trefi=0,dram.window=64");
    cr_assert_gt(in_order, 255 * RTW); /* a turn for every pair */
    cr_assert_lt(window, in_order / 4);
    uint64_t impatient = mixed(BARE "dram.trefi=0,dram.window=64,dram.write_high=1/4");
    cr_assert_gt(impatient, window);
    uint64_t fickle =
        mixed(BARE "dram.trefi=0,dram.window=64,dram.write_high=1/2,dram.write_low=1/2");
    cr_assert_gt(fickle, window);
}

/* ---- nothing is lost ----------------------------------------------------- */

enum { STRESS = 400 };

typedef struct traffic {
    access_t access[STRESS];
} traffic_t;

static void expect_ended(const traffic_t *traffic, uint32_t count, const char *overrides) {
    for (uint32_t i = 0; i < count; i++)
        cr_assert_eq(traffic->access[i].done, 1, "%s: request %u", overrides, i);
}

static void on_ended(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    access_t *access = SIM_CONTAINER_OF(event, access_t, event);
    cr_assert_eq(access->done++, 0);
}

/* Small groups of reads and writes with pauses: directions turn, and refreshes come between an
 * activate and its column command. Each group has ended when nothing is left to happen. */
static void all_end(const char *overrides, uint64_t seed) {
    static traffic_t traffic;
    bench_t bench = bench_new(overrides);
    uint64_t random = seed, tick;
    for (uint32_t i = 0; i < STRESS; i++) {
        access_t *access = &traffic.access[i];
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t bits = random >> 24;
        if (bits % 4 == 0) {
            (void)sim_engine_run(bench.engine);
            expect_ended(&traffic, i, overrides);
        }
        if (bits % 4 < 3) {
            tick = sim_now(bench.engine) + 1 + bits / 4 % 700;
            sim_event_schedule(bench.engine, &bench.timer, tick);
            (void)sim_engine_run_until(bench.engine, tick);
        }
        *access = (access_t){0};
        sim_event_init(&access->event, SIM_PHASE_COMPLETE, on_ended);
        sim_dram_begin(bench.dram, &access->request, bits / 64 % 3 == 0, &access->event, 0);
        sim_dram_add(bench.dram, &access->request, (bits >> 10) % (1 << 20) & ~UINT64_C(31),
                     32 * (1 + (bits >> 32) % 8));
        sim_dram_end(bench.dram, &access->request);
    }
    (void)sim_engine_run(bench.engine);
    expect_ended(&traffic, STRESS, overrides);
    bench_fini(&bench);
}

Test(dram_queue, every_request_ends) {
    static const char *const clocks[] = {"800MHz", "1.6GHz", "4.8GHz", "8GHz"};
    static const char *const others[] = {"dram.window=8", "dram.window=2,dram.page=closed",
                                         "dram.window=32,dram.max_row_hits=2",
                                         "dram.window=8,dram.write_high=1/8,dram.write_low=1/8"};
    static const char *const refreshes[] = {
        "dram.trefi=0", "dram.trefi=300,dram.trfc=120",
        "dram.refresh=per_bank,dram.trefipb=60,dram.trfcpb=40,dram.trrefd=4"};
    for (size_t c = 0; c < sizeof clocks / sizeof clocks[0]; c++)
        for (size_t o = 0; o < sizeof others / sizeof others[0]; o++)
            for (size_t r = 0; r < sizeof refreshes / sizeof refreshes[0]; r++)
                for (uint64_t seed = 1; seed <= 10; seed++) {
                    char overrides[400];
                    (void)snprintf(overrides, sizeof overrides, BARE "dram.clock=%s,%s,%s",
                                   clocks[c], others[o], refreshes[r]);
                    all_end(overrides, seed);
                }
}

Test(dram_queue, large_requests_are_cut_into_trains) {
    /* 4 KiB in four bank groups: a burst every two cycles, as in order */
    bench_t bench = bench_new("dram.channels=1,dram.bytes=64MiB,dram.frontend=0ps,dram.hash=false,"
                              "dram.mapping=ro-ba-co-bg,dram.trefi=0,dram.window=16");
    access_t access[3];
    for (uint64_t i = 0; i < 3; i++)
        start(&bench, &access[i], i * 4096, 4096, false);
    (void)sim_engine_run(bench.engine);
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t least = RCDRD + (128 * (i + 1) - 1) * 2 + CL + BL;
        if (i != 1) cr_assert_geq(access[i].done, least);
        cr_assert_leq(access[i].done,
                      least + 21 + 8); /* four activates; the next one's first bursts */
    }
    cr_assert_lt(access[1].done, access[2].done);
    cr_assert_eq(sim_dram_stats(bench.dram)->trains, 12);
    cr_assert_eq(sim_dram_stats(bench.dram)->row_closed, 12);
    bench_fini(&bench);
}

Test(dram_queue, refresh_costs_its_duty_and_closed_pages_close) {
    const char *const refreshing[] = {"",
                                      ",dram.refresh=per_bank,dram.trfcpb=320,dram.trefipb=390"};
    for (int mode = 0; mode < 2; mode++) {
        char overrides[400];
        uint64_t cycles[2];
        for (int on = 0; on < 2; on++) {
            (void)snprintf(overrides, sizeof overrides,
                           "dram.channels=1,dram.bytes=64MiB,dram.frontend=0ps,dram.hash=false,"
                           "dram.mapping=ro-ba-co-bg,dram.window=32%s%s",
                           on ? "" : ",dram.trefi=0", on ? refreshing[mode] : "");
            bench_t bench = bench_new(overrides);
            access_t access;
            start(&bench, &access, 0, 16 << 20, false);
            (void)sim_engine_run(bench.engine);
            cycles[on] = access.done;
            if (on) cr_assert_geq(sim_dram_stats(bench.dram)->refreshes, access.done / 6240);
            bench_fini(&bench);
        }
        double loss = 1 - (double)cycles[0] / (double)cycles[1];
        if (mode == 0) {
            cr_assert_geq(loss, 0.99 * 560 / 6240);
            cr_assert_leq(loss, 1.2 * 560 / 6240);
        } else {
            cr_assert_geq(loss, 0.0);
            cr_assert_leq(loss, 560.0 / 6240); /* the other banks go on */
        }
    }
    bench_t bench = bench_new(WINDOW ",dram.page=closed");
    cr_assert_eq(alone(&bench, 0, 0, false), RCDRD + CL + BL);
    cr_assert_eq(alone(&bench, 1000, 0, false), RCDRD + CL + BL);
    access_t access[2];
    run_to(&bench, 2000);
    start(&bench, &access[0], 0, 32, false);
    start(&bench, &access[1], 32, 32, false);
    (void)sim_engine_run(bench.engine);
    cr_assert_eq(access[1].done, access[0].done + CCD_L); /* known: the row stays for it */
    bench_fini(&bench);
}

/* Reads of 4 KiB, 64 at a time. */
typedef struct stream {
    bench_t *bench;
    uint64_t next, end;
} stream_t;

typedef struct reader {
    sim_event_t event;
    sim_dram_request_t request;
    stream_t *stream;
} reader_t;

static void read_on(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    reader_t *reader = SIM_CONTAINER_OF(event, reader_t, event);
    stream_t *stream = reader->stream;
    if (stream->next == stream->end) return;
    sim_dram_begin(stream->bench->dram, &reader->request, false, &reader->event, 0);
    sim_dram_add(stream->bench->dram, &reader->request, stream->next, 4096);
    stream->next += 4096;
    sim_dram_end(stream->bench->dram, &reader->request);
}

Test(dram_queue, a_stream_through_every_shipped_timing_set) {
    static const char *const sets[] = {"ddr4-2400",   "ddr4-3200", "lpddr4-3200", "lpddr5-6400",
                                       "gddr6-14000", "hbm2-2.0",  "hbm2e-3.2",   "hbm3-6.4"};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        char text[200];
        (void)snprintf(text, sizeof text, "include = default.ini\ninclude = dram/%s.ini\n",
                       sets[i]);
        sim_config_t *config;
        sim_error_t err = {0};
        bench_t bench = {.engine = engine_new()};
        cr_assert_eq(sim_config_parse(text, VNPU_SOURCE_DIR "/configs/own.ini", "dram.window=32",
                                      &config, &err),
                     SIM_OK, "%s", err.text);
        cr_assert_eq(sim_dram_create(config, &bench.dram, &err), SIM_OK, "%s", err.text);
        sim_config_destroy(config);
        sim_dram_attach(bench.dram, bench.engine);
        stream_t stream = {.bench = &bench, .end = UINT64_C(8) << 20};
        static reader_t reader[64];
        for (int j = 0; j < 64; j++) {
            reader[j] = (reader_t){.stream = &stream};
            sim_event_init(&reader[j].event, SIM_PHASE_COMPLETE, read_on);
            read_on(bench.engine, &reader[j].event);
        }
        double seconds = (double)sim_engine_run(bench.engine) * SIM_TICK_PS * 1e-12;
        double peak = (double)sim_dram_peak_bytes_per_s(bench.dram);
        cr_assert_eq(stream.next, stream.end);
        cr_assert_leq((double)stream.end / seconds, peak, "%s", sets[i]);
        cr_assert_geq((double)stream.end / seconds, 0.8 * peak, "%s: %f", sets[i],
                      (double)stream.end / seconds / peak);
        bench_fini(&bench);
    }
}

Test(dram_queue, a_reset_gives_the_same_again_without_allocating) {
    bench_t bench = bench_new("dram.window=16,dram.max_row_hits=8");
    static access_t access[2000];
    static uint64_t first[2000];
    for (int run = 0; run < 2; run++) {
        uint64_t seed = 7;
        alloc_count_reset();
        for (int i = 0; i < 2000; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if (i % 3 == 0) run_to(&bench, (uint64_t)i * 3);
            start(&bench, &access[i], seed >> 31, 1 + (seed & 8191), seed >> 63);
        }
        (void)sim_engine_run(bench.engine);
        if (run == 1) cr_assert_eq(alloc_count(), 0);
        for (int i = 0; i < 2000; i++) {
            cr_assert_neq(access[i].done, 0);
            if (run == 0) first[i] = access[i].done;
            cr_assert_eq(access[i].done, first[i]);
        }
        start(&bench, &access[0], 0, 1 << 20, false); /* cut short */
        sim_engine_reset(bench.engine);
        sim_dram_reset(bench.dram);
        cr_assert_eq(sim_dram_stats(bench.dram)->trains, 0);
    }
    bench_fini(&bench);
}

Test(dram_queue, every_failing_allocation_is_reported) {
    sim_config_t *config = config_new("default", "dram.window=32");
    for (unsigned long failures = 0;; failures++) {
        sim_dram_t *dram;
        sim_error_t err = {0};
        alloc_count_reset();
        alloc_fail_from(failures);
        sim_status_t status = sim_dram_create(config, &dram, &err);
        alloc_count_reset();
        if (status == SIM_OK) {
            cr_assert_eq(failures, 5); /* channels, groups, banks, queues, itself */
            sim_dram_destroy(dram);
            break;
        }
        cr_assert_eq(status, SIM_ERROR_OUT_OF_MEMORY);
        cr_assert_null(dram);
    }
    sim_config_destroy(config);
}

Test(dram_queue, in_order_access_beside_a_window_is_a_bug, .signal = SIGABRT) {
    bench_t bench = bench_new(WINDOW);
    (void)sim_dram_access(bench.dram, 0, 32, false, 0);
}

Test(dram_queue, more_banks_than_the_window_knows_are_refused) {
    sim_config_t *config =
        config_new("default", "dram.window=2,dram.banks_per_group=32,dram.bytes=64GiB");
    sim_dram_t *dram;
    sim_error_t err = {0};
    cr_assert_eq(sim_dram_create(config, &dram, &err), SIM_ERROR_CONFIG);
    cr_assert_not_null(strstr(err.text, "dram.window: more than 64 banks"), "%s", err.text);
    sim_config_destroy(config);
}
