#include <criterion/criterion.h>

#include "sim/sim_share.h"
#include "tests/sim/units.h"

/* Capacity 256 bytes a cycle of 1 GHz: 32 bytes a tick. */
#define CAPACITY 256u

typedef struct bench {
    sim_engine_t *engine;
    sim_share_t share;
    uint64_t ended;
} bench_t;

static void on_end(sim_engine_t *engine, sim_stream_t *stream) {
    cr_assert_eq(sim_now(engine), stream->end);
    (*(uint64_t *)stream->owner)++;
}

static void bench_init(bench_t *bench, uint64_t bytes_per_cycle, uint64_t hz) {
    *bench = (bench_t){.engine = engine_new()};
    sim_clock_t clock = clock_of(hz);
    sim_share_init(&bench->share, bench->engine, &clock, bytes_per_cycle);
}

static sim_stream_t stream_of(bench_t *bench, uint64_t bytes, sim_tick_t min_ticks) {
    return (sim_stream_t){
        .on_end = on_end, .owner = &bench->ended, .bytes = bytes, .min_ticks = min_ticks};
}

typedef struct starter {
    sim_event_t event;
    sim_share_t *share;
    sim_stream_t *stream;
} starter_t;

static void start_now(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    starter_t *starter = SIM_CONTAINER_OF(event, starter_t, event);
    sim_share_start(starter->share, starter->stream);
}

static void start_at(bench_t *bench, starter_t *starter, sim_stream_t *stream, sim_tick_t tick) {
    *starter = (starter_t){.share = &bench->share, .stream = stream};
    sim_event_init(&starter->event, SIM_PHASE_ISSUE, start_now);
    sim_event_schedule(bench->engine, &starter->event, tick);
}

Test(share, alone_takes_its_own_time_exactly) {
    const sim_tick_t ticks[] = {1, 2, 3, 7, 1000, 1001, 999983, 123456789};
    for (size_t i = 0; i < sizeof ticks / sizeof ticks[0]; i++) {
        bench_t bench;
        bench_init(&bench, CAPACITY, GHZ);
        sim_stream_t stream = stream_of(&bench, 31 * ticks[i], ticks[i]);
        sim_share_start(&bench.share, &stream);
        expect_at(bench.engine, &bench.ended, 1, ticks[i]);
        cr_assert_eq(stream.end, ticks[i]);
        cr_assert_eq(bench.share.total_bytes, 31 * ticks[i]);
        sim_engine_destroy(bench.engine);
    }
}

Test(share, demands_up_to_the_capacity_do_not_contend) {
    bench_t bench;
    bench_init(&bench, CAPACITY, GHZ);
    /* 1/3 + 1/3 + 1/3 of 32 bytes a tick, none of them whole in fixed point. */
    sim_stream_t stream[3];
    for (int i = 0; i < 3; i++) {
        stream[i] = stream_of(&bench, 3200, 300);
        sim_share_start(&bench.share, &stream[i]);
    }
    (void)sim_engine_run_until(bench.engine, 299);
    cr_assert_eq(bench.ended, 0);
    (void)sim_engine_run_until(bench.engine, 300);
    cr_assert_eq(bench.ended, 3);
    sim_engine_destroy(bench.engine);
}

Test(share, two_equal_streams_halve) {
    bench_t bench;
    bench_init(&bench, CAPACITY, GHZ);
    sim_stream_t a = stream_of(&bench, 32000, 1000), b = a;
    sim_share_start(&bench.share, &a);
    sim_share_start(&bench.share, &b);
    (void)sim_engine_run_until(bench.engine, 1999);
    cr_assert_eq(bench.ended, 0);
    (void)sim_engine_run_until(bench.engine, 2000);
    cr_assert_eq(bench.ended, 2);
    sim_engine_destroy(bench.engine);
}

Test(share, a_later_stream_slows_only_the_overlap) {
    bench_t bench;
    bench_init(&bench, CAPACITY, GHZ);
    sim_stream_t a = stream_of(&bench, 32000, 1000), b = stream_of(&bench, 16000, 500);
    starter_t starter;
    sim_share_start(&bench.share, &a);
    start_at(&bench, &starter, &b, 400);
    /* From 400 both move at half: b's 500 take 1000; a has 600 left, 500 of them done at 1400, then
     * alone. */
    expect_at(bench.engine, &bench.ended, 1, 1400);
    expect_at(bench.engine, &bench.ended, 2, 1500);
    cr_assert_eq(b.end, 1400);
    cr_assert_eq(a.end, 1500);
    sim_engine_destroy(bench.engine);
}

Test(share, max_min_gives_the_small_one_all_it_asks_for) {
    bench_t bench;
    bench_init(&bench, CAPACITY, GHZ);
    /* Demands 8, 32 and 32 bytes a tick of 32: 8, 12, 12. */
    sim_stream_t small = stream_of(&bench, 8 * 600, 600);
    sim_stream_t big = stream_of(&bench, 32 * 300, 300), other = stream_of(&bench, 32 * 300, 300);
    sim_share_start(&bench.share, &big);
    sim_share_start(&bench.share, &small);
    sim_share_start(&bench.share, &other);
    expect_at(bench.engine, &bench.ended, 1, 600);
    cr_assert_eq(small.end, 600);
    /* At 600 the big ones have moved 7200 of 9600 bytes each; the rest goes at 16 bytes a tick. */
    (void)sim_engine_run_until(bench.engine, 749);
    cr_assert_eq(bench.ended, 1);
    (void)sim_engine_run_until(bench.engine,
                               751); /* 3/8 is whole in fixed point, 12/32 may round once */
    cr_assert_eq(bench.ended, 3);
    cr_assert_eq(big.end, other.end);
    sim_engine_destroy(bench.engine);
}

Test(share, wider_than_the_capacity_is_stretched) {
    bench_t bench;
    bench_init(&bench, CAPACITY, GHZ);
    sim_stream_t stream = stream_of(&bench, 64 * 100, 100); /* asks for 64 bytes a tick of 32 */
    sim_share_start(&bench.share, &stream);
    expect_at(bench.engine, &bench.ended, 1, 200);
    sim_engine_destroy(bench.engine);
}

Test(share, no_bytes_is_a_delay_and_no_time_is_the_capacity) {
    bench_t bench;
    bench_init(&bench, CAPACITY, GHZ);
    sim_stream_t load = stream_of(&bench, 32 * 1000, 1000);
    sim_stream_t delay = stream_of(&bench, 0, 77), nothing = stream_of(&bench, 0, 0);
    sim_share_start(&bench.share, &load);
    sim_share_start(&bench.share, &nothing);
    cr_assert_eq(bench.ended, 1);
    cr_assert_eq(nothing.end, 0);
    sim_share_start(&bench.share, &delay);
    expect_at(bench.engine, &bench.ended, 2, 77); /* takes no bandwidth and is not slowed */
    expect_at(bench.engine, &bench.ended, 3, 1000);
    sim_engine_reset(bench.engine);
    sim_share_reset(&bench.share);
    sim_stream_t fast = stream_of(&bench, 321, 0);
    sim_share_start(&bench.share, &fast);
    expect_at(bench.engine, &bench.ended, 4, 11); /* ceil(321 / 32) */
    sim_engine_destroy(bench.engine);
}

/* Random starts: no stream ends before its own time nor before the capacity could have moved all
 * bytes, and the share is never idle while it has work: the last end is the capacity's own time,
 * give or take a tick a stream. */
Test(share, never_early_and_work_conserving) {
    uint64_t seed = 1;
    for (int trial = 0; trial < 200; trial++) {
        bench_t bench;
        bench_init(&bench, 100 + (uint64_t)trial, 940000000 + (uint64_t)trial * 1000003);
        sim_stream_t stream[SIM_SHARE_MAX_STREAMS];
        uint64_t total = 0, count = 2 + (uint64_t)trial % (SIM_SHARE_MAX_STREAMS - 1);
        for (uint64_t i = 0; i < count; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            uint64_t ticks = 1 + (seed >> 40) % 100;
            uint64_t bytes =
                (40 + (seed >> 50) % 100) * ticks; /* over 32 bytes a tick: always contended */
            stream[i] = stream_of(&bench, bytes, ticks);
            total += bytes;
            sim_share_start(&bench.share, &stream[i]);
        }
        sim_tick_t end = sim_engine_run(bench.engine);
        cr_assert_eq(bench.ended, count);
        for (uint64_t i = 0; i < count; i++)
            cr_assert_geq(stream[i].end, stream[i].min_ticks);
        /* capacity * end >= total, in whole numbers: end * den / num cycles of bytes_per_cycle */
        double capacity = (double)bench.share.bytes_per_cycle * (double)bench.share.clock.den /
                          (double)bench.share.clock.num;
        cr_assert_geq((double)end * capacity * (1 + 1e-9), (double)total);
        double widest = 0;
        for (uint64_t i = 0; i < count; i++) {
            double own = (double)stream[i].min_ticks;
            if (own > widest) widest = own;
        }
        double bound = (double)total / capacity + widest + (double)count + 1;
        cr_assert_leq((double)end, bound * (1 + 1e-6));
        sim_engine_destroy(bench.engine);
    }
}

Test(share, a_reset_gives_the_same_again) {
    bench_t bench;
    bench_init(&bench, 37, 1050000000);
    sim_tick_t first[5];
    for (int run = 0; run < 2; run++) {
        sim_stream_t stream[5];
        for (uint64_t i = 0; i < 5; i++) {
            stream[i] = stream_of(&bench, 1000 * (i + 1), 100 + i);
            sim_share_start(&bench.share, &stream[i]);
        }
        (void)sim_engine_run(bench.engine);
        for (int i = 0; i < 5; i++) {
            if (run == 0) first[i] = stream[i].end;
            cr_assert_eq(stream[i].end, first[i]);
        }
        sim_engine_reset(bench.engine);
        sim_share_reset(&bench.share);
    }
    sim_engine_destroy(bench.engine);
}

/* ---- parts ---- */

/* Two parts of 1 KiB, 16 bytes a tick each. */
static void parts_init(bench_t *bench) {
    *bench = (bench_t){.engine = engine_new()};
    sim_clock_t clock = clock_of(GHZ);
    sim_share_init_parts(&bench->share, bench->engine, &clock, CAPACITY, 2, 1024);
}

static sim_stream_t at(bench_t *bench, uint64_t first, uint64_t extent, uint64_t bytes,
                       sim_tick_t min_ticks) {
    sim_stream_t stream = stream_of(bench, bytes, min_ticks);
    stream.num_ranges = 1;
    stream.range[0] = (sim_range_t){.first = first, .extent = extent, .bytes = bytes};
    return stream;
}

Test(share, streams_in_different_parts_do_not_contend) {
    bench_t bench;
    parts_init(&bench);
    sim_stream_t low = at(&bench, 0, 1024, 1600, 100), high = at(&bench, 1024, 1024, 1600, 100);
    sim_share_start(&bench.share, &low);
    sim_share_start(&bench.share, &high);
    (void)sim_engine_run(bench.engine);
    cr_assert_eq(low.end, 100);
    cr_assert_eq(high.end, 100);
    sim_engine_destroy(bench.engine);
}

Test(share, streams_in_the_same_part_halve) {
    bench_t bench;
    parts_init(&bench);
    /* Parts repeat: bytes 2048 .. 3071 are in the first one again. */
    sim_stream_t low = at(&bench, 0, 1024, 1600, 100), again = at(&bench, 2048, 1024, 1600, 100);
    sim_share_start(&bench.share, &low);
    sim_share_start(&bench.share, &again);
    (void)sim_engine_run(bench.engine);
    cr_assert_eq(low.end, 200);
    cr_assert_eq(again.end, 200);
    sim_engine_destroy(bench.engine);
}

Test(share, a_stream_goes_at_the_rate_of_its_fullest_part) {
    bench_t bench;
    parts_init(&bench);
    /* 4/5 of its bytes lie in the first part: 32 bytes a tick there, of 16. */
    sim_stream_t stream = at(&bench, 0, 1280, 4000, 100);
    sim_share_start(&bench.share, &stream);
    expect_at(bench.engine, &bench.ended, 1, 200);
    sim_stream_t fast = at(&bench, 0, 1280, 4000, 0);
    sim_share_start(&bench.share, &fast);
    expect_at(bench.engine, &bench.ended, 2, 400);
    sim_engine_destroy(bench.engine);
}

Test(share, what_comes_first_leaves_the_rest) {
    for (int first = 0; first < 2; first++) {
        bench_t bench;
        bench_init(&bench, CAPACITY, GHZ);
        sim_stream_t write = stream_of(&bench, 20 * 100, 100), read = stream_of(&bench, 3200, 100);
        write.is_first = first == 1;
        sim_share_start(&bench.share, &read);
        sim_share_start(&bench.share, &write);
        (void)sim_engine_run(bench.engine);
        /* First: 20 of 32 bytes for 100 ticks, the read has 12 meanwhile. Else both have 16. */
        uint64_t own = first == 1 ? 100 : 125;
        cr_assert(write.end == own || write.end == own + 1, "%d", (int)write.end);
        cr_assert(read.end == 163 || read.end == 164, "%d", (int)read.end); /* 5200 bytes in all */
        sim_engine_destroy(bench.engine);
    }
}

Test(share, what_gets_nothing_goes_on_later) {
    bench_t bench;
    parts_init(&bench);
    sim_stream_t write = at(&bench, 0, 1024, 1600, 100), read = at(&bench, 0, 64, 1600, 100);
    write.is_first = true;
    sim_share_start(&bench.share, &read);
    sim_share_start(&bench.share, &write);
    (void)sim_engine_run(bench.engine);
    cr_assert_eq(write.end, 100);
    cr_assert_eq(read.end, 200);
    sim_engine_destroy(bench.engine);
}
