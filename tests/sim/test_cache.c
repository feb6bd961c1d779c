/* The cache against closed forms: every time exact (t - 1 and t), on one bare DRAM channel. */
#include <criterion/criterion.h>

#include "sim/sim_cache.h"
#include "sim/sim_dma.h"
#include "tests/sim/alloc_count.h"
#include "tests/sim/units.h"

#define TICKS 5u /* a cycle of 1.6 GHz, the DRAM's and the interconnect's, is 625 ps */
#define BARE                                                                                       \
    "dram.channels=1,dram.bytes=64MiB,dram.frontend=0ps,dram.trefi=0,dram.hash=false,"             \
    "dram.mapping=ro-ba-bg-co,noc.clock=1.6 GHz"
/* 32 sets of 2 lines of 128 bytes, 4 banks of 32 bytes a cycle. */
#define SMALL                                                                                      \
    ",cache.bytes=8 KiB,cache.ways=2,cache.line_bytes=128,cache.banks=4,cache.bytes_per_cycle=32," \
    "cache.hit_cycles=10"
enum {
    LINE = 128,
    SERVICE = LINE / 32,
    HIT = 10,
    SAME_SET = 32 * LINE, /* from a line to the next of its set */
    BL = 2,
    CL = 23,
    CWL = 8,
    RCDRD = 23,
    CCD_L = 4,
    COLD = RCDRD + CL + BL + 3 * CCD_L, /* four bursts of a closed row of one bank group */
    OPEN = CL + BL + 3 * CCD_L
};

typedef struct bench {
    sim_engine_t *engine;
    sim_dram_t *dram;
    sim_cache_t *cache;
} bench_t;

static bench_t bench_open(const char *overrides) {
    sim_config_t *config = config_new("default", merged(BARE SMALL, overrides));
    sim_error_t err = {0};
    bench_t bench = {.engine = engine_new()};
    cr_assert_eq(sim_dram_create(config, &bench.dram, &err), SIM_OK, "%s", err.text);
    cr_assert_eq(sim_cache_create(config, bench.engine, bench.dram, &bench.cache, &err), SIM_OK,
                 "%s", err.text);
    sim_config_destroy(config);
    return bench;
}

static void bench_close(bench_t *bench) {
    sim_cache_destroy(bench->cache);
    sim_dram_destroy(bench->dram);
    sim_engine_destroy(bench->engine);
}

/* A request of up to four ranges at a cycle. */
typedef struct job {
    sim_event_t begin, end;
    sim_cache_request_t request;
    bench_t *bench;
    bool is_write;
    uint64_t address[4], bytes[4];
    uint64_t count; /* ends */
} job_t;

static void on_job_end(sim_engine_t *engine, sim_event_t *event) {
    job_t *job = SIM_CONTAINER_OF(event, job_t, end);
    job->count++;
    cr_assert_eq(sim_now_phase(engine), SIM_PHASE_COMPLETE);
    cr_assert_geq(sim_now(engine), job->request.done);
}

static void on_job_begin(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    job_t *job = SIM_CONTAINER_OF(event, job_t, begin);
    sim_event_init(&job->end, SIM_PHASE_COMPLETE, on_job_end);
    sim_cache_begin(job->bench->cache, &job->request, job->is_write, &job->end, 0);
    for (int i = 0; i < 4; i++)
        sim_cache_add(job->bench->cache, &job->request, job->address[i], job->bytes[i]);
    sim_cache_end(job->bench->cache, &job->request);
}

static void start(bench_t *bench, job_t *job, uint64_t cycle) {
    job->bench = bench;
    job->count = 0;
    sim_event_init(&job->begin, SIM_PHASE_ISSUE, on_job_begin);
    sim_event_schedule(bench->engine, &job->begin, cycle * TICKS);
}

/* One range, started at a cycle; done at exactly another. */
static void expect(bench_t *bench, bool is_write, uint64_t address, uint64_t bytes, uint64_t cycle,
                   uint64_t done) {
    job_t job = {.is_write = is_write, .address = {address}, .bytes = {bytes}};
    start(bench, &job, cycle);
    expect_at(bench->engine, &job.count, 1, done * TICKS);
}

Test(cache, a_miss_adds_the_lookup_to_the_dram_and_a_hit_is_the_lookup) {
    bench_t b = bench_open("");
    expect(&b, false, 0, LINE, 0, COLD + HIT);
    expect(&b, false, 0, LINE, 1000, 1000 + SERVICE + HIT);
    expect(&b, false, 64, 32, 2000,
           2000 + 1 + HIT); /* a part of a line that a bank gives in a cycle */
    expect(&b, false, LINE, 1, 3000, 3000 + OPEN + HIT); /* a whole line is fetched for a byte */
    expect(&b, false, LINE + 100, 28, 4000, 4000 + 1 + HIT);
    const sim_cache_stats_t *stats = sim_cache_stats(b.cache);
    cr_assert(stats->hits == 3 && stats->misses == 2 && stats->evicted == 0);
    cr_assert_eq(sim_dram_stats(b.dram)->read_bytes, 2 * LINE);
    cr_assert_eq(stats->bytes, LINE + LINE + LINE + 32 + 1 + LINE + 28);
    bench_close(&b);
}

Test(cache, an_epoch_starts_empty) {
    bench_t b = bench_open("");
    for (int epoch = 0; epoch < 3; epoch++) {
        expect(&b, false, 0, LINE, 0, COLD + HIT);
        expect(&b, true, 0, LINE, 500, 500 + SERVICE + HIT);
        sim_engine_reset(b.engine);
        sim_dram_reset(b.dram);
        sim_cache_reset(b.cache);
        cr_assert_eq(sim_cache_stats(b.cache)->hits, 0);
    }
    /* With a fetch under way. */
    job_t job = {.address = {0}, .bytes = {LINE}};
    start(&b, &job, 0);
    (void)sim_engine_run_until(b.engine, 10 * TICKS);
    sim_engine_reset(b.engine);
    sim_dram_reset(b.dram);
    sim_cache_reset(b.cache);
    expect(&b, false, 0, LINE, 0, COLD + HIT);
    cr_assert_eq(job.count, 0);
    bench_close(&b);
}

/* Two ways: the third line of a set takes the place of the one used longest ago. */
Test(cache, the_least_recently_used_line_goes) {
    bench_t b = bench_open("");
    uint64_t a = 0, c = SAME_SET, d = 2 * SAME_SET;
    expect(&b, false, a, 32, 0, COLD + HIT);
    (void)sim_engine_run(b.engine);
    job_t job[3] = {{.address = {c}, .bytes = {32}},
                    {.address = {a}, .bytes = {32}},
                    {.address = {d}, .bytes = {32}}};
    for (uint64_t i = 0; i < 3; i++)
        start(&b, &job[i], 1000 * (i + 1));
    (void)sim_engine_run(b.engine);
    cr_assert_eq(sim_cache_stats(b.cache)->misses, 3); /* a, c, d */
    expect(&b, false, a, 32, 10000, 10000 + 1 + HIT);  /* was used after c */
    expect(&b, false, d, 32, 11000, 11000 + 1 + HIT);
    job_t last = {.address = {c}, .bytes = {32}};
    start(&b, &last, 12000);
    (void)sim_engine_run(b.engine);
    cr_assert_eq(sim_cache_stats(b.cache)->misses, 4);
    bench_close(&b);
}

Test(cache, written_lines_stay_and_go_to_the_dram_when_they_are_evicted) {
    bench_t b = bench_open("");
    expect(&b, true, 0, LINE, 0, SERVICE + HIT); /* whole: nothing is fetched */
    cr_assert_eq(sim_dram_stats(b.dram)->read_bytes + sim_dram_stats(b.dram)->write_bytes, 0);
    expect(&b, false, 0, LINE, 100, 100 + SERVICE + HIT);
    expect(&b, true, SAME_SET, 32, 200, 200 + 1 + HIT); /* a part: the line is fetched meanwhile */
    (void)sim_engine_run(b.engine);
    cr_assert_eq(sim_dram_stats(b.dram)->read_bytes, LINE);
    cr_assert_eq(sim_dram_stats(b.dram)->write_bytes, 0);
    job_t job = {.address = {2 * SAME_SET, 3 * SAME_SET}, .bytes = {32, 32}}; /* both have to go */
    start(&b, &job, 1000);
    (void)sim_engine_run(b.engine);
    cr_assert_eq(sim_cache_stats(b.cache)->evicted, 2);
    cr_assert_eq(sim_dram_stats(b.dram)->write_bytes, 2 * LINE);
    cr_assert_eq(sim_dram_stats(b.dram)->read_bytes, 3 * LINE);
    bench_close(&b);
}

/* A read of what a partial write fetches waits for it. */
Test(cache, a_line_on_its_way_is_waited_for_not_fetched_again) {
    bench_t b = bench_open("");
    job_t first = {.address = {0}, .bytes = {32}}, second = {.address = {64}, .bytes = {32}},
          third = {.address = {96}, .bytes = {32}, .is_write = true};
    start(&b, &first, 0);
    start(&b, &third, 3);
    start(&b, &second, 20);
    expect_at(b.engine, &third.count, 1, (3 + 1 + HIT) * TICKS);
    expect_at(b.engine, &second.count, 1, (COLD + HIT) * TICKS);
    cr_assert_eq(first.count, 1);
    cr_assert(first.request.has_waited && second.request.has_waited && !third.request.has_waited);
    cr_assert_eq(sim_dram_stats(b.dram)->read_bytes, LINE);
    cr_assert(sim_cache_stats(b.cache)->hits == 2 && sim_cache_stats(b.cache)->misses == 1);
    bench_close(&b);
}

Test(cache, write_through_is_done_with_the_dram_and_holds_nothing_new) {
    bench_t b = bench_open("cache.write=through");
    uint64_t row_open = 1000;
    expect(&b, false, 0, LINE, 0, COLD + HIT);
    expect(&b, true, 0, LINE, row_open, row_open + CWL + BL + 3 * CCD_L);
    expect(&b, false, 0, LINE, 2000, 2000 + SERVICE + HIT); /* updated, still held */
    expect(&b, true, LINE, 32, 3000, 3000 + 1 + HIT); /* the lookup takes longer than the DRAM */
    cr_assert_eq(sim_dram_stats(b.dram)->write_bytes, LINE + 32);
    uint64_t misses = sim_cache_stats(b.cache)->misses;
    job_t job = {.address = {LINE}, .bytes = {32}};
    start(&b, &job, 4000);
    (void)sim_engine_run(b.engine);
    cr_assert_eq(sim_cache_stats(b.cache)->misses, misses + 1, "it was not allocated");
    cr_assert_eq(sim_cache_stats(b.cache)->evicted, 0);
    bench_close(&b);
}

/* Hits of lines in four banks side by side, and in one bank one after the other. */
Test(cache, banks_share_the_bandwidth) {
    bench_t b = bench_open("");
    job_t load = {.address = {0}, .bytes = {32 * LINE}};
    start(&b, &load, 0);
    (void)sim_engine_run(b.engine);
    expect(&b, false, 0, 32 * LINE, 10000, 10000 + 32 / 4 * SERVICE + HIT);
    job_t one = {.address = {0, 4 * LINE, 8 * LINE, 12 * LINE}, .bytes = {LINE, LINE, LINE, LINE}};
    job_t other = {.address = {LINE}, .bytes = {LINE}};
    start(&b, &one, 20000);
    start(&b, &other, 20000);
    expect_at(b.engine, &other.count, 1, (20000 + SERVICE + HIT) * TICKS);
    expect_at(b.engine, &one.count, 1, (20000 + 4 * SERVICE + HIT) * TICKS);
    cr_assert(!one.request.has_waited);
    bench_close(&b);
}

/* Operands of the canonical placement (2^40 apart) do not meet in one set. */
Test(cache, operands_are_spread_over_the_sets) {
    bench_t b = bench_open("dram.bytes=16 TiB,dram.channels=1,cache.ways=1,cache.bytes=4 KiB");
    for (int turn = 0; turn < 2; turn++)
        for (uint64_t g = 1; g <= 4; g++) {
            job_t job = {.address = {g << 40}, .bytes = {32}};
            start(&b, &job, (uint64_t)turn * 40000 + g * 1000);
            (void)sim_engine_run(b.engine);
        }
    cr_assert_gt(sim_cache_stats(b.cache)->hits, 0);
    bench_close(&b);
}

Test(cache, works_over_a_window_too) {
    bench_t b = bench_open("dram.window=32");
    job_t miss = {.address = {0}, .bytes = {4 * LINE}}, hit = miss;
    start(&b, &miss, 0);
    (void)sim_engine_run(b.engine);
    cr_assert(miss.count == 1 && miss.request.done >= (COLD + HIT) * TICKS);
    start(&b, &hit, 5000);
    expect_at(b.engine, &hit.count, 1, (5000 + SERVICE + HIT) * TICKS);
    bench_close(&b);
}

Test(cache, nothing_without_bytes_and_refusals) {
    sim_config_t *config = config_new("default", "");
    sim_cache_t *cache = (sim_cache_t *)1;
    sim_error_t err = {0};
    cr_assert_eq(sim_cache_create(config, NULL, NULL, &cache, &err), SIM_OK);
    cr_assert_null(cache);
    cr_assert_eq(sim_cache_peak_bytes_per_s(config), 0);
    sim_cache_destroy(NULL);
    sim_cache_reset(NULL);
    sim_config_destroy(config);
    char path[512];
    (void)snprintf(path, sizeof path, "%s/configs/default.ini", VNPU_SOURCE_DIR);
    static const char *const CASES[][2] = {
        {"cache.bytes=1 MiB,cache.ways=3", "cache.bytes = 1 MiB is not a multiple of ways"},
        {"cache.bytes=1 MiB,cache.line_bytes=16", "not a multiple of dram.burst_bytes = 32 B"}};
    for (int i = 0; i < 2; i++) {
        err = (sim_error_t){0};
        cr_assert_neq(sim_config_load(path, CASES[i][0], &config, &err), SIM_OK);
        cr_assert_not_null(strstr(err.text, CASES[i][1]), "%s", err.text);
    }
}

/* Through the DMA engine: the second reading of 64 KiB comes out of the cache, and its wait is the
 * cache's. */
Test(cache, a_dma_engine_reads_through_it) {
    sim_config_t *config =
        config_new("default", "cache.bytes=1 MiB,dram.trefi=0,dma.bytes_per_cycle=256");
    sim_engine_t *engine = engine_new();
    sim_error_t err = {0};
    sim_dram_t *dram;
    sim_cache_t *cache;
    sim_dma_t *dma;
    sim_dma_spec_t spec;
    cr_assert_eq(sim_dram_create(config, &dram, &err), SIM_OK);
    cr_assert_eq(sim_cache_create(config, engine, dram, &cache, &err), SIM_OK);
    cr_assert_eq(sim_dma_spec_from_config(config, &spec), SIM_OK);
    cr_assert_eq(sim_dma_create(engine, &spec, dram, NULL, 0, NULL, NULL, &dma), SIM_OK);
    sim_dma_set_cache(dma, cache);
    sim_dma_op_t op[2];
    for (int i = 0; i < 2; i++) {
        op[i] = (sim_dma_op_t){.kind = SIM_DMA_READ, .run_bytes = 64 * 1024};
        sim_dma_submit(dma, &op[i]);
        (void)sim_engine_run(engine);
        expect_causes_sum(&op[i].op);
    }
    cr_assert_gt(op[0].op.cause[SIM_CAUSE_DRAM], 0);
    cr_assert_eq(op[0].op.cause[SIM_CAUSE_CACHE], 0);
    cr_assert_gt(op[1].op.cause[SIM_CAUSE_CACHE], 0);
    cr_assert_eq(op[1].op.cause[SIM_CAUSE_DRAM], 0);
    cr_assert_lt(op[1].op.end - op[1].op.start, op[0].op.end - op[0].op.start);
    cr_assert_eq(sim_dram_stats(dram)->read_bytes, 64 * 1024);
    cr_assert_eq(sim_cache_stats(cache)->hits, 512);
    sim_dma_destroy(dma);
    sim_cache_destroy(cache);
    sim_dram_destroy(dram);
    sim_engine_destroy(engine);
    sim_config_destroy(config);
}

Test(cache, every_allocation_may_fail) {
    sim_config_t *config = config_new("default", BARE SMALL);
    sim_error_t err = {0};
    sim_engine_t *engine = engine_new();
    sim_dram_t *dram;
    sim_cache_t *cache;
    cr_assert_eq(sim_dram_create(config, &dram, &err), SIM_OK);
    unsigned long failures = 0;
    for (sim_status_t status = SIM_ERROR_OUT_OF_MEMORY; status != SIM_OK; failures++) {
        alloc_count_reset();
        alloc_fail_from(failures);
        status = sim_cache_create(config, engine, dram, &cache, &err);
        cr_assert(status == SIM_OK || (status == SIM_ERROR_OUT_OF_MEMORY && cache == NULL));
        if (status != SIM_OK) cr_assert_eq(alloc_live(), 0);
    }
    cr_assert_eq(failures, 4); /* itself, lines, banks */
    alloc_count_reset();
    sim_cache_destroy(cache);
    sim_dram_destroy(dram);
    sim_engine_destroy(engine);
    sim_config_destroy(config);
}

/* The second of two equal epochs allocates nothing. */
Test(cache, pools_grow_once) {
    bench_t b = bench_open("");
    unsigned long before = 0;
    for (int epoch = 0; epoch < 2; epoch++) {
        job_t job[40] = {0};
        for (uint64_t i = 0; i < 40; i++) {
            job[i] = (job_t){.address = {i % 7 * LINE, i * 3 * LINE},
                             .bytes = {3 * LINE, 5 * LINE},
                             .is_write = i % 3 == 2};
            start(&b, &job[i], i);
        }
        alloc_count_reset();
        (void)sim_engine_run(b.engine);
        if (epoch == 0) before = alloc_count();
        cr_assert(epoch == 0 ? before > 0 : alloc_count() == 0, "%lu", alloc_count());
        for (int i = 0; i < 40; i++)
            cr_assert_eq(job[i].count, 1);
        sim_engine_reset(b.engine);
        sim_dram_reset(b.dram);
        sim_cache_reset(b.cache);
    }
    bench_close(&b);
}
