/* Memory in the cores' scratchpads: which core a byte is in, and the closed forms of transfers over
 * a torus. */
#include "sim/sim_shared.h"

#include <stdio.h>
#include <stdlib.h>

#include "sim/sim_dma.h"
#include "tests/sim/alloc_count.h"
#include "tests/sim/units.h"

#define TICKS 8u /* a cycle of 1 GHz */
#define PAGE  2048u

/* 4 x 3 routers with a core each, 32 bytes a cycle everywhere, no headers: 5 + 9 a hop + 4, and a
 * request of a cycle. */
#define TORUS                                                                                      \
    "noc.type=torus,noc.columns=4,noc.rows=3,grid.cores=12,grid.workers=0,noc.clock=1GHz,"         \
    "noc.latency_cycles=0,noc.bytes_per_cycle=32B,noc.memory_bytes_per_cycle=32B,"                 \
    "noc.inject_cycles=5,noc.hop_cycles=9,noc.eject_cycles=4,noc.header_flits=0,"                  \
    "noc.max_packet_bytes=8KiB,sram.shared_bytes=64KiB,sram.shared_page_bytes=2KiB"
#define CROSSBAR                                                                                   \
    "noc.type=crossbar,noc.clock=1GHz,noc.latency_cycles=20,noc.bytes_per_cycle=32B,"              \
    "grid.cores=12,grid.workers=0,sram.shared_bytes=64KiB"
enum { CORES = 12, WIDTH = 256, LATENCY = 8, ENDS = 9, HOP = 9, DESCRIPTOR = 64, RUN = 1 };

typedef struct bench {
    sim_engine_t *engine;
    sim_noc_t *noc;
    sim_shared_t *shared;
    sim_share_t sram[CORES];
    sim_dma_t *unit[CORES];
    uint64_t count[CORES][2];
} bench_t;

static sim_dma_spec_t spec_of(void) {
    return (sim_dma_spec_t){.bytes_per_cycle = 256,
                            .descriptor_cycles = DESCRIPTOR,
                            .run_cycles = RUN,
                            .completion_cycles = 32,
                            .request_bytes = 8192,
                            .outstanding_bytes = 65536,
                            .read_transfers = 2,
                            .write_transfers = 2,
                            .transpose_factor = {1, 1},
                            .accumulate_factor = {1, 1},
                            .clock = clock_of(GHZ)};
}

static void bench_init(bench_t *bench, const char *overrides) {
    *bench = (bench_t){.engine = engine_new()};
    sim_config_t *config = config_new("default", overrides);
    sim_error_t err = {0};
    cr_assert_eq(sim_noc_create(config, CORES, &bench->noc, &err), SIM_OK, "%s", err.text);
    cr_assert_eq(sim_shared_create(config, bench->engine, CORES, &bench->shared), SIM_OK);
    sim_config_destroy(config);
    sim_dma_spec_t spec = spec_of();
    for (uint32_t c = 0; c < CORES; c++) {
        sim_share_init(&bench->sram[c], bench->engine, &spec.clock, WIDTH);
        sim_shared_core_t core = {&bench->sram[c], spec.clock, LATENCY, false};
        sim_shared_set_core(bench->shared, c, &core);
        cr_assert_eq(sim_dma_create(bench->engine, &spec, NULL, bench->noc, c, &bench->sram[c],
                                    NULL, &bench->unit[c]),
                     SIM_OK);
        sim_dma_set_shared(bench->unit[c], bench->shared);
    }
}

static void bench_fini(bench_t *bench) {
    for (uint32_t c = 0; c < CORES; c++)
        sim_dma_destroy(bench->unit[c]);
    sim_shared_destroy(bench->shared);
    sim_noc_destroy(bench->noc);
    sim_engine_destroy(bench->engine);
}

/* Page `page` of the memory from `offset` on. */
static sim_dma_op_t op_of(bench_t *bench, uint32_t core, sim_dma_kind_t kind, uint64_t page,
                          uint64_t bytes) {
    sim_dma_op_t op = {.kind = kind, .base = SIM_SHARED_BASE + page * PAGE, .run_bytes = bytes};
    watch(&op.op, bench->count[core]);
    return op;
}

static uint32_t hops(uint32_t a, uint32_t b) {
    uint32_t x = a % 4 > b % 4 ? a % 4 - b % 4 : b % 4 - a % 4,
             y = a / 4 > b / 4 ? a / 4 - b / 4 : b / 4 - a / 4;
    return (x > 2 ? 4 - x : x) + (y > 1 ? 3 - y : y);
}

static uint64_t up(uint64_t bytes, uint64_t width) {
    return (bytes + width - 1) / width;
}

Test(shared, pages_go_to_the_cores_in_turn) {
    bench_t bench;
    bench_init(&bench, TORUS);
    for (uint64_t number = 0; number < 3; number++)
        for (uint64_t page = 0; page < 2 * CORES; page++) {
            uint64_t base = SIM_SHARED_BASE + (number << SIM_SHARED_OFFSET_BITS), left;
            cr_assert_eq(sim_shared_core_at(bench.shared, base + page * PAGE + 5, &left),
                         page % CORES);
            cr_assert_eq(left, PAGE - 5);
        }
    cr_assert(sim_shared_holds(SIM_SHARED_BASE) && !sim_shared_holds((UINT64_C(1) << 57) - 1));
    cr_assert(!sim_shared_holds(UINT64_MAX - 511));
    bench_fini(&bench);
}

/* 5 x 700 bytes in blocks of 2 rows x 300 bytes: 3 x 3 blocks, the last ones cut. */
Test(shared, blocks_lie_in_cores_of_their_own) {
    static const sim_shards_t table[3] = {{0}, {700, 2, 300, 1, 4}, {700, 2, 300, 4, 1}};
    bench_t bench;
    bench_init(&bench, TORUS);
    sim_shared_set_shards(bench.shared, table);
    for (uint64_t index = 1; index < 3; index++)
        for (uint64_t row = 0; row < 5; row++)
            for (uint64_t at = 0; at < 700; at++) {
                uint64_t left, base = SIM_SHARED_BASE | index << SIM_SHARED_SHARDS_BIT |
                                      UINT64_C(9) << SIM_SHARED_OFFSET_BITS;
                uint32_t core = sim_shared_core_at(bench.shared, base + row * 700 + at, &left);
                uint64_t i = row / 2, j = at / 300, end = j == 2 ? 700 : 300 * (j + 1);
                cr_assert_eq(core, index == 1 ? i + 4 * j : 4 * i + j);
                cr_assert_eq(left, end - at);
            }
    bench_fini(&bench);
}

/* A block of four rows out of one core is one message, as long as a page of as many bytes. */
Test(shared, a_block_is_read_as_one_message) {
    static const sim_shards_t table[2] = {{0}, {4096, 4, 512, 4, 1}};
    bench_t bench;
    bench_init(&bench, TORUS);
    sim_shared_set_shards(bench.shared, table);
    sim_dma_op_t op = {.kind = SIM_DMA_READ,
                       .base = SIM_SHARED_BASE + (UINT64_C(1) << SIM_SHARED_SHARDS_BIT) + 3 * 512,
                       .ndims = 1,
                       .size = {4},
                       .stride = {4096},
                       .run_bytes = 512};
    watch(&op.op, bench.count[2]);
    uint64_t way = ENDS + HOP;
    sim_dma_submit(bench.unit[2], &op);
    expect_at(bench.engine, &bench.count[2][0], 1,
              (DESCRIPTOR + way + 1 + PAGE / WIDTH + LATENCY + way + PAGE / 32) * TICKS);
    cr_assert_eq(bench.sram[3].total_bytes, PAGE);
    bench_fini(&bench);
}

Test(shared, shards_that_do_not_fit_are_refused) {
    static const struct {
        sim_shards_t shards;
        uint64_t bytes;
        bool is_right;
    } cases[] = {
        {{1024, 64, 128, 1, 8}, 512 * 1024, true},
        {{1024, 64, 128, 8, 1}, 512 * 1024, true},
        {{1024, 64, 128, 1, 7}, 512 * 1024, false}, /* blocks meet */
        {{1024, 64, 128, 1, 9}, 512 * 1024, false}, /* beyond the last core */
        {{1024, 64, 128, 0, 8}, 512 * 1024, false},
        {{1024, 64, 128, 0, 1}, 64 * 1024, true}, /* one row of blocks */
        {{1024, 8, 128, 1, 8}, 512 * 1024, false},
        {{0, 64, 128, 1, 8}, 512 * 1024, false},
        {{1024, 0, 128, 1, 8}, 512 * 1024, false},
        {{1024, 64, 0, 1, 8}, 512 * 1024, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes;
        sim_error_t err = {0};
        sim_status_t status = sim_shards_check(&cases[i].shards, cases[i].bytes, 64, &bytes, &err);
        cr_assert_eq(status, cases[i].is_right ? SIM_OK : SIM_ERROR_INVALID_VALUE, "%zu", i);
        cr_assert_eq(bytes, cases[i].is_right ? 8192 : 0);
        cr_assert(cases[i].is_right || strstr(err.text, "shards") != NULL);
    }
}

/* A request there, the scratchpad, the data back: the own core has the way without hops. */
Test(shared, a_read_is_there_and_back) {
    static const uint64_t sizes[] = {32, 100, PAGE};
    for (uint32_t core = 0; core < CORES; core++)
        for (uint32_t home = 0; home < CORES; home++)
            for (size_t i = 0; i < 3; i++) {
                bench_t bench;
                bench_init(&bench, TORUS);
                sim_dma_op_t op = op_of(&bench, core, SIM_DMA_READ, home, sizes[i]);
                uint64_t way = ENDS + HOP * hops(core, home);
                sim_tick_t at = (DESCRIPTOR + way + 1) * TICKS;
                at += up(sizes[i] * TICKS, WIDTH) +
                      LATENCY * TICKS; /* of the scratchpad, to the tick */
                at = up(at, TICKS) * TICKS + (way + up(sizes[i], 32)) * TICKS;
                sim_dma_submit(bench.unit[core], &op);
                expect_at(bench.engine, &bench.count[core][0], 1, at);
                expect_causes_sum(&op.op);
                cr_assert_eq(op.op.cause[SIM_CAUSE_DRAM], 0);
                bench_fini(&bench);
            }
}

/* Out of the own scratchpad, the way, into the other one. */
Test(shared, a_write_goes_one_way) {
    for (uint32_t home = 0; home < CORES; home++) {
        bench_t bench;
        bench_init(&bench, TORUS);
        sim_dma_op_t op = op_of(&bench, 1, SIM_DMA_WRITE, home, PAGE);
        uint64_t cycles =
            DESCRIPTOR + RUN + PAGE / WIDTH + ENDS + HOP * hops(1, home) + PAGE / 32 + PAGE / WIDTH;
        sim_dma_submit(bench.unit[1], &op);
        expect_at(bench.engine, &bench.count[1][0], 1, cycles * TICKS);
        expect_causes_sum(&op.op);
        bench_fini(&bench);
    }
}

Test(shared, a_crossbar_has_the_latency_of_the_data) {
    bench_t bench;
    bench_init(&bench, CROSSBAR);
    sim_dma_op_t op = op_of(&bench, 3, SIM_DMA_READ, 7, PAGE);
    sim_dma_submit(bench.unit[3], &op);
    expect_at(bench.engine, &bench.count[3][0], 1,
              (DESCRIPTOR + PAGE / WIDTH + LATENCY + 20 + PAGE / 32) * TICKS);
    bench_fini(&bench);
}

/* Two readers of one core, from different sides: its port sends one after the other. */
Test(shared, two_readers_of_a_core_halve_its_port) {
    bench_t bench;
    bench_init(&bench, TORUS);
    sim_dma_op_t op[2];
    uint64_t way = ENDS + HOP,
             alone = DESCRIPTOR + way + 1 + PAGE / WIDTH + LATENCY + way + PAGE / 32;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t core = i == 0 ? 1 : 3; /* both a hop from core 0 */
        op[i] = op_of(&bench, core, SIM_DMA_READ, 0, PAGE);
        sim_dma_submit(bench.unit[core], &op[i]);
    }
    expect_at(bench.engine, &bench.count[1][0], 1, alone * TICKS);
    expect_at(bench.engine, &bench.count[3][0], 1, (alone + PAGE / 32) * TICKS);
    cr_assert_eq(bench.sram[0].total_bytes, 2 * PAGE);
    bench_fini(&bench);
}

/* Pages of different cores pass side by side, up to what the reader's port takes. */
Test(shared, a_request_over_pages_asks_each_core) {
    bench_t bench;
    bench_init(&bench, TORUS);
    sim_dma_op_t op = op_of(&bench, 5, SIM_DMA_READ, 2, 4 * PAGE);
    sim_dma_submit(bench.unit[5], &op);
    (void)sim_engine_run(bench.engine);
    for (uint32_t c = 0; c < CORES; c++)
        cr_assert_eq(bench.sram[c].total_bytes,
                     (c >= 2 && c < 6 ? PAGE : 0) + (c == 5 ? 4 * PAGE : 0));
    uint64_t cycles = op.op.end / TICKS, data = 4 * PAGE / 32;
    cr_assert(cycles > DESCRIPTOR + data && cycles < DESCRIPTOR + data + 100, "%llu",
              (unsigned long long)cycles);
    bench_fini(&bench);
}

/* The core's own engine has half of its ports, and the reader the other half. */
Test(shared, a_scratchpad_is_shared_with_its_own_core) {
    bench_t bench;
    bench_init(&bench, TORUS);
    sim_stream_t own = {.bytes = 1u << 20, .min_ticks = (1u << 20) * TICKS / WIDTH};
    sim_share_start(&bench.sram[0], &own);
    sim_dma_op_t op = op_of(&bench, 1, SIM_DMA_READ, 0, PAGE);
    uint64_t way = ENDS + HOP;
    sim_dma_submit(bench.unit[1], &op);
    expect_at(bench.engine, &bench.count[1][0], 1,
              (DESCRIPTOR + way + 1 + 2 * PAGE / WIDTH + LATENCY + way + PAGE / 32) * TICKS);
    bench_fini(&bench);
}

/* One message to all of them; the memory's core sends it once. */
Test(shared, a_multicast_reads_once) {
    bench_t bench;
    bench_init(&bench, TORUS);
    uint32_t port[] = {4, 5, 6};
    sim_dma_op_t op = op_of(&bench, 4, SIM_DMA_READ, 7, PAGE);
    op.multicast_port = port;
    op.multicast_count = 3;
    sim_dma_submit(bench.unit[4], &op);
    (void)sim_engine_run(bench.engine);
    cr_assert_eq(bench.sram[7].total_bytes, PAGE);
    cr_assert_eq(bench.count[4][1], 1);
    bench_fini(&bench);
}

Test(shared, many_requests_and_a_reset_leave_nothing) {
    bench_t bench;
    bench_init(&bench, TORUS);
    sim_tick_t end[2];
    for (int round = 0; round < 2; round++) {
        sim_dma_op_t op[CORES];
        for (uint32_t c = 0; c < CORES; c++) {
            op[c] = op_of(&bench, c, c % 2 == 0 ? SIM_DMA_READ : SIM_DMA_WRITE, 3 * c, 100 * PAGE);
            sim_dma_submit(bench.unit[c], &op[c]);
        }
        end[round] = sim_engine_run(bench.engine);
        for (uint32_t c = 0; c < CORES; c++)
            expect_causes_sum(&op[c].op);
        sim_dma_submit(bench.unit[0], &op[0]);
        (void)sim_engine_run_until(bench.engine, end[round] + 1000); /* in the middle */
        sim_engine_reset(bench.engine);
        sim_noc_reset(bench.noc);
        for (uint32_t c = 0; c < CORES; c++) {
            sim_dma_reset(bench.unit[c]);
            sim_share_reset(&bench.sram[c]);
        }
        sim_shared_reset(bench.shared);
    }
    cr_assert_eq(end[0], end[1]);
    bench_fini(&bench);
}

#define CLASSES                                                                                    \
    "include = " VNPU_SOURCE_DIR "/configs/default.ini\n[sram]\nshared_bytes = 16 KiB\n"           \
    "[class other]\ncount = 1\nsram.shared_bytes = 8 KiB\n"

Test(shared, every_class_shares_as_much) {
    sim_config_t *config;
    sim_error_t err = {0};
    cr_assert_eq(sim_config_parse(CLASSES, VNPU_SOURCE_DIR "/configs/own.ini", NULL, &config, &err),
                 SIM_ERROR_CONFIG);
    cr_assert_not_null(
        strstr(err.text, "class other: sram.shared_bytes = 8 KiB: every class shares as much"),
        "%s", err.text);
}

Test(shared, what_the_keys_say_together) {
    static const struct {
        const char *overrides, *text;
    } cases[] = {
        {"sram.bytes=64KiB,sram.shared_bytes=64KiB", "leaves kernels none of sram.bytes = 64 KiB"},
        {"sram.shared_bytes=3KiB", "no multiple of sram.shared_page_bytes = 2 KiB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sim_config_t *config;
        sim_error_t err = {0};
        cr_assert_eq(sim_config_load(VNPU_SOURCE_DIR "/configs/default.ini", cases[i].overrides,
                                     &config, &err),
                     SIM_ERROR_CONFIG);
        cr_assert_not_null(strstr(err.text, cases[i].text), "%s", err.text);
    }
    char text[4096];
    sim_config_t *config = config_new("default", "sram.shared_page_bytes=4KiB");
    (void)sim_config_self_check(config, text, sizeof text);
    cr_assert_not_null(strstr(text, "there is no shared part"), "%s", text);
    sim_shared_t *none;
    cr_assert_eq(sim_shared_create(config, NULL, 4, &none), SIM_OK);
    cr_assert_null(none);
    sim_config_destroy(config);
}

Test(shared, the_summary_tells_size_and_rate) {
    sim_config_t *config = config_new("default", CROSSBAR);
    cr_assert_eq(sim_shared_bytes_of(config), CORES * 65536u);
    cr_assert_eq(sim_shared_stripe_of(config), CORES * PAGE);
    char *text;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    sim_config_write_summary(config, stream);
    (void)fclose(stream);
    cr_assert_not_null(
        strstr(text, "384 GB/s out of all cores, 0.75 MiB: 64 KiB of each scratchpad"), "%s", text);
    free(text);
    sim_config_destroy(config);
}

Test(shared, creation_fails_cleanly) {
    sim_config_t *config = config_new("default", CROSSBAR);
    sim_engine_t *engine = engine_new();
    sim_shared_t *shared;
    for (unsigned long n = 0; n < 2; n++) {
        alloc_count_reset();
        alloc_fail_from(n);
        cr_assert_eq(sim_shared_create(config, engine, CORES, &shared), SIM_ERROR_OUT_OF_MEMORY);
        cr_assert_null(shared);
        cr_assert_eq(alloc_live(), 0);
    }
    alloc_count_reset();
    sim_engine_destroy(engine);
    sim_config_destroy(config);
}
