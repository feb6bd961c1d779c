#include "tests/sim/dma_bench.h"

/* ---- routed interconnects ---- */

#define RING                                                                                       \
    ",noc.type=ring,noc.columns=8,noc.latency_cycles=0,noc.inject_cycles=3,noc.hop_cycles=7,"      \
    "noc.eject_cycles=2,noc.header_flits=1,noc.clock=1GHz"

static sim_tick_t time_of_read(const char *overrides, uint64_t bytes, sim_noc_stats_t *out_stats) {
    sim_dma_spec_t spec = spec_of();
    bench_t bench;
    bench_init(&bench, &spec, overrides);
    sim_dma_op_t op = op_of(&bench, SIM_DMA_READ, 0, 1, 0, bytes);
    sim_dma_submit(bench.unit[0], &op);
    (void)sim_engine_run(bench.engine);
    expect_causes_sum(&op.op);
    *out_stats = *sim_noc_stats(bench.noc);
    bench_fini(&bench);
    return op.op.end;
}

Test(dma, a_read_goes_there_and_back) {
    sim_noc_stats_t stats;
    sim_tick_t crossbar = time_of_read(QUIET, 256, &stats);
    sim_tick_t ring = time_of_read(QUIET RING ",noc.memory_nodes=3:0", 256, &stats);
    /* A header over three hops, then a header and a flit back, for NOC_LATENCY and a flit. */
    cr_assert_eq(ring - crossbar, (2 * (3 + 3 * 7 + 2) + 2 - NOC_LATENCY) * TICKS);
    cr_assert_eq(stats.messages, 2);
    cr_assert_eq(stats.byte_hops, 3 * 256);
}

Test(dma, a_request_over_two_endpoints_is_two_messages) {
    sim_noc_stats_t stats;
    (void)time_of_read(
        "dram.channels=2,dram.bytes=64MiB,dram.hash=false,dram.mapping=ro-ba-bg-ch-co" RING
        ",noc.memory_nodes=1:0 3:0",
        4096, &stats);
    cr_assert_eq(stats.messages, 4);
    cr_assert_eq(stats.bytes, 4096);
    cr_assert_eq(stats.byte_hops, 2048 + 3 * 2048);
}

/* ---- alone, ideal memory: the engine's own cost ---- */

Test(dma, isolated_runs_follow_the_half_size_curve) {
    const uint64_t run[] = {4, 32, 255, 256, 257, 512, 1024, 2048, 4096, 5000, 65536};
    const sim_dma_kind_t kinds[] = {SIM_DMA_READ, SIM_DMA_WRITE, SIM_DMA_LOCAL};
    for (size_t i = 0; i < sizeof run / sizeof run[0]; i++)
        for (size_t kind = 0; kind < 3; kind++) {
            const uint32_t runs = 100;
            sim_dma_spec_t spec = spec_of();
            bench_t bench;
            bench_init(&bench, &spec, NULL);
            sim_dma_op_t op = op_of(&bench, kinds[kind], 0, runs, 1 << 20, run[i]);
            sim_dma_submit(bench.unit[0], &op);
            uint64_t pieces = 0; /* a long run is cut in requests, each rounded up to words */
            for (uint64_t left = run[i]; left > 0; left -= left < 4096 ? left : 4096)
                pieces += words(left < 4096 ? left : 4096);
            uint64_t cycles = 64 + runs * (1 + pieces);
            expect_at(bench.engine, &bench.count[0], 1, cycles * TICKS);
            expect_at(bench.engine, &bench.count[1], 1, (cycles + 32) * TICKS);
            cr_assert_eq(op.op.start, 0);
            expect_causes_sum(&op.op);
            cr_assert_eq(op.op.cause[SIM_CAUSE_USEFUL], runs * run[i] * TICKS / 256);
            cr_assert_eq(op.op.cause[SIM_CAUSE_DMA_SETUP],
                         cycles * TICKS - runs * run[i] * TICKS / 256);
            if (run[i] % 256 == 0 &&
                run[i] <= 4096) /* efficiency r / (r + run_cycles * width), exactly */
                cr_assert_eq((cycles - 64) * run[i], runs * words(run[i]) * (run[i] + 256));
            bench_fini(&bench);
        }
}

Test(dma, runs_without_a_gap_are_one_run) {
    sim_dma_spec_t spec = spec_of();
    bench_t bench;
    bench_init(&bench, &spec, NULL);
    sim_dma_op_t op = {.kind = SIM_DMA_READ,
                       .ndims = 3,
                       .size = {2, 4, 8},
                       .stride = {1 << 20, 512, 64},
                       .run_bytes = 64};
    watch(&op.op, bench.count);
    sim_dma_submit(bench.unit[0], &op);
    expect_at(bench.engine, &bench.count[0], 1, (64 + 2 * (1 + 2048 / 256)) * TICKS);
    bench_fini(&bench);
}

Test(dma, transpose_and_accumulate_multiply_the_data_cycles) {
    for (int mode = 0; mode < 4; mode++) {
        sim_dma_spec_t spec = spec_of();
        bench_t bench;
        bench_init(&bench, &spec, NULL);
        sim_dma_op_t op = op_of(&bench, SIM_DMA_WRITE, 0, 10, 1 << 20, 2048);
        op.transpose = mode & 1;
        op.accumulate = mode & 2;
        sim_dma_submit(bench.unit[0], &op);
        uint64_t data = (op.transpose ? 12u : 8u) * (op.accumulate ? 2u : 1u);
        expect_at(bench.engine, &bench.count[0], 1, (64 + 10 * (1 + data)) * TICKS);
        expect_causes_sum(&op.op);
        bench_fini(&bench);
    }
}

Test(dma, an_empty_transfer_costs_its_descriptor) {
    for (uint32_t descriptor = 0; descriptor < 3; descriptor++) {
        sim_dma_spec_t spec = spec_of();
        spec.descriptor_cycles = descriptor;
        bench_t bench;
        bench_init(&bench, &spec, NULL);
        sim_dma_op_t op = op_of(&bench, SIM_DMA_READ, 0, 0, 64, 64);
        sim_dma_submit(bench.unit[0], &op);
        expect_at(bench.engine, &bench.count[0], 1, (descriptor == 0 ? 1 : descriptor) * TICKS);
        expect_causes_sum(&op.op);
        bench_fini(&bench);
    }
}

/* ---- through the memory system ---- */

/* When `bytes` of one closed row that are asked for at `now` are back: 10 ns each way, DRAM cycles
 * of 5 ticks. */
static sim_tick_t dram_read_ready(sim_tick_t now, uint64_t bytes) {
    return (now + 80 + 4) / 5 * 5 + (23 + 23 + 2 + (bytes / 32 - 1) * 4) * 5 + 80;
}

Test(dma, latency_of_one_read) {
    for (uint64_t bytes = 32; bytes <= 1024; bytes *= 2) {
        sim_dma_spec_t spec = spec_of();
        bench_t bench;
        bench_init(&bench, &spec, QUIET);
        sim_dma_op_t op = op_of(&bench, SIM_DMA_READ, 0, 1, 0, bytes);
        sim_dma_submit(bench.unit[0], &op);
        /* descriptor, DRAM, crossbar from its next edge on (the scratchpad takes the data as it
         * comes), completion */
        sim_tick_t ready = dram_read_ready(64 * TICKS, bytes);
        sim_tick_t end = up(ready) + (NOC_LATENCY + words(bytes)) * TICKS;
        expect_at(bench.engine, &bench.count[0], 1, end);
        expect_at(bench.engine, &bench.count[1], 1, end + 32 * TICKS);
        expect_causes_sum(&op.op);
        cr_assert_eq(op.op.cause[SIM_CAUSE_DMA_SETUP] + op.op.cause[SIM_CAUSE_USEFUL],
                     (64 + 1 + words(bytes)) * TICKS);
        cr_assert_gt(op.op.cause[SIM_CAUSE_DRAM], op.op.cause[SIM_CAUSE_NOC]);
        cr_assert_gt(op.op.cause[SIM_CAUSE_NOC], 0);
        cr_assert_eq(op.op.cause[SIM_CAUSE_SRAM_CONFLICT], 0);
        cr_assert_eq(sim_dram_stats(bench.dram)->read_bytes, bytes);
        cr_assert_eq(bench.sram.total_bytes, bytes);
        bench_fini(&bench);
    }
}

Test(dma, latency_of_one_write) {
    for (uint64_t bytes = 32; bytes <= 1024; bytes *= 2) {
        sim_dma_spec_t spec = spec_of();
        bench_t bench;
        bench_init(&bench, &spec, QUIET);
        sim_dma_op_t op = op_of(&bench, SIM_DMA_WRITE, 0, 1, 0, bytes);
        sim_dma_submit(bench.unit[0], &op);
        sim_tick_t sent = (64 + 1 + words(bytes)) * TICKS,
                   arrived = sent + (NOC_LATENCY + words(bytes)) * TICKS;
        /* the DRAM sees it at its next edge: tRCD, bursts of one bank, tCWL */
        sim_tick_t done = (arrived + 80 + 4) / 5 * 5 + (20 + 8 + 2 + (bytes / 32 - 1) * 4) * 5 + 80;
        expect_at(bench.engine, &bench.count[0], 1, up(done));
        expect_causes_sum(&op.op);
        cr_assert_eq(sim_dram_stats(bench.dram)->write_bytes, bytes);
        cr_assert_eq(bench.sram.total_bytes, bytes);
        bench_fini(&bench);
    }
}

Test(dma, accumulating_on_dram_reads_and_writes) {
    sim_dma_spec_t spec = spec_of();
    bench_t bench;
    bench_init(&bench, &spec, QUIET);
    sim_dma_op_t op = op_of(&bench, SIM_DMA_WRITE, 0, 8, 4096, 512);
    op.accumulate = true;
    sim_dma_submit(bench.unit[0], &op);
    (void)sim_engine_run(bench.engine);
    cr_assert_eq(bench.count[1], 1);
    cr_assert_eq(sim_dram_stats(bench.dram)->write_bytes, 8 * 512);
    cr_assert_eq(sim_dram_stats(bench.dram)->read_bytes, 8 * 512);
    expect_causes_sum(&op.op);
    bench_fini(&bench);
}

Test(dma, gather_reads_the_rows_it_is_given) {
    sim_dma_spec_t spec = spec_of();
    bench_t bench;
    bench_init(&bench, &spec, QUIET);
    uint64_t row[64];
    for (uint64_t i = 0; i < 64; i++)
        row[i] = (i * 37 % 64) * 131072;
    sim_dma_op_t op = {.kind = SIM_DMA_READ, .row_address = row, .row_count = 64, .run_bytes = 96};
    watch(&op.op, bench.count);
    sim_dma_submit(bench.unit[0], &op);
    (void)sim_engine_run(bench.engine);
    cr_assert_eq(bench.count[1], 1);
    cr_assert_eq(sim_dram_stats(bench.dram)->read_bytes, 64 * 96);
    cr_assert_eq(sim_dram_stats(bench.dram)->trains, 64);
    cr_assert_eq(bench.sram.total_bytes, 64 * 96);
    /* every row is another row of one bank: the row cycle decides, in DRAM cycles */
    cr_assert_geq(op.op.end, 63 * (55 + 23) * 5);
    expect_causes_sum(&op.op);
    bench_fini(&bench);
}

Test(dma, strides_and_negative_strides_touch_what_they_should) {
    sim_dma_spec_t spec = spec_of();
    bench_t bench;
    bench_init(&bench, &spec, QUIET);
    /* 3 x 5 runs of 64 bytes, backwards in the outer dimension */
    sim_dma_op_t op = {.kind = SIM_DMA_READ,
                       .base = 1 << 20,
                       .ndims = 2,
                       .size = {3, 5},
                       .stride = {-65536, 1024},
                       .run_bytes = 64};
    watch(&op.op, bench.count);
    sim_dma_submit(bench.unit[0], &op);
    (void)sim_engine_run(bench.engine);
    cr_assert_eq(sim_dram_stats(bench.dram)->read_bytes, 3 * 5 * 64);
    cr_assert_eq(sim_dram_stats(bench.dram)->trains, 15);
    bench_fini(&bench);
}

Test(dma, scratchpad_bytes_may_differ_from_the_runs) {
    sim_dma_spec_t spec = spec_of();
    bench_t bench;
    bench_init(&bench, &spec, QUIET);
    sim_dma_op_t op = op_of(&bench, SIM_DMA_LOCAL, 0, 7, 4096, 3000);
    op.sram_bytes = 2 * 7 * 3000; /* read and written */
    sim_dma_submit(bench.unit[0], &op);
    (void)sim_engine_run(bench.engine);
    cr_assert_eq(bench.sram.total_bytes, 2 * 7 * 3000);
    cr_assert_eq(sim_dram_stats(bench.dram)->trains, 0);
    expect_causes_sum(&op.op);
    bench_fini(&bench);
}

/* ---- bandwidth ---- */

/* The whole default DRAM behind a slow frontend: `latency` picoseconds each way dominate. */
static double bytes_per_tick(const sim_dma_spec_t *spec, const char *overrides, sim_dma_kind_t kind,
                             uint64_t bytes) {
    bench_t bench;
    bench_init(&bench, spec, overrides);
    sim_dma_op_t op = op_of(&bench, kind, 0, 1, 0, bytes);
    sim_dma_submit(bench.unit[0], &op);
    (void)sim_engine_run(bench.engine);
    cr_assert_eq(bench.count[1], 1);
    expect_causes_sum(&op.op);
    double rate = (double)bytes / (double)(op.op.end - op.op.start);
    bench_fini(&bench);
    return rate;
}

Test(dma, little_limits_a_long_latency_memory) {
    sim_dma_spec_t spec = spec_of();
    /* 2 us each way: 32 requests in flight, all of 4 KiB; the rest of the way is small beside it */
    for (uint64_t outstanding = 16384; outstanding <= 131072; outstanding *= 2) {
        spec.outstanding_bytes = outstanding;
        double latency = 2 * 16000;
        double rate =
            bytes_per_tick(&spec, "dram.frontend=2us,dram.trefi=0", SIM_DMA_READ, 8 << 20);
        cr_assert_leq(rate, (double)outstanding / latency);
        cr_assert_geq(rate, (double)outstanding /
                                (latency + 4096)); /* 512 ns for DRAM, crossbar and queues */
    }
}

Test(dma, enough_in_flight_reaches_the_engines_width) {
    sim_dma_spec_t spec = spec_of();
    spec.run_cycles = 0;
    const sim_dma_kind_t kinds[] = {SIM_DMA_READ, SIM_DMA_WRITE};
    for (int i = 0; i < 2; i++) {
        double rate = bytes_per_tick(&spec, "", kinds[i], 16 << 20);
        cr_assert_leq(rate, 32.0);
        cr_assert_geq(rate, 32.0 * 0.99);
    }
}

Test(dma, two_engines_share_a_crossbar_port) {
    sim_dma_spec_t spec = spec_of();
    bench_t bench;
    bench_init(&bench, &spec, "dram.trefi=0");
    sim_dma_op_t a = op_of(&bench, SIM_DMA_READ, 0, 1, 0, 4 << 20),
                 b = op_of(&bench, SIM_DMA_READ, 1 << 30, 1, 0, 4 << 20);
    sim_dma_submit(bench.unit[0], &a);
    sim_dma_submit(bench.unit[1], &b);
    (void)sim_engine_run(bench.engine);
    cr_assert_eq(bench.count[1], 2);
    uint64_t port_ticks = (8 << 20) / NOC_WIDTH * TICKS;
    sim_tick_t end = a.op.end > b.op.end ? a.op.end : b.op.end,
               other = a.op.end > b.op.end ? b.op.end : a.op.end;
    cr_assert_geq(end, port_ticks);
    cr_assert_leq((double)end, (double)port_ticks * 1.02);
    cr_assert_geq((double)other, (double)end * 0.95); /* fairly */
    expect_causes_sum(&a.op);
    expect_causes_sum(&b.op);
    cr_assert_gt(a.op.cause[SIM_CAUSE_NOC] + b.op.cause[SIM_CAUSE_NOC], port_ticks / 4);
    bench_fini(&bench);
}

Test(dma, a_busy_scratchpad_is_named) {
    sim_dma_spec_t spec = spec_of();
    bench_t bench;
    bench_init(&bench, &spec, "dram.trefi=0");
    /* a stream that asks for all of the scratchpad: max-min leaves the engine its own width, 1/8 of
     * it */
    sim_stream_t hog = {.bytes = 2048 * 40000, .min_ticks = 40000 * TICKS};
    sim_dma_op_t op = op_of(&bench, SIM_DMA_READ, 0, 1, 0, 1 << 20);
    sim_share_start(&bench.sram, &hog);
    sim_dma_submit(bench.unit[0], &op);
    (void)sim_engine_run(bench.engine);
    cr_assert_eq(op.op.cause[SIM_CAUSE_SRAM_CONFLICT], 0);
    bench_fini(&bench);
    /* sixteen of them leave it 1/17 */
    bench_init(&bench, &spec, "dram.trefi=0");
    sim_stream_t hogs[16];
    for (int i = 0; i < 16; i++) {
        hogs[i] = hog;
        sim_share_start(&bench.sram, &hogs[i]);
    }
    sim_dma_op_t slow = op_of(&bench, SIM_DMA_READ, 0, 1, 0, 1 << 20);
    sim_dma_submit(bench.unit[0], &slow);
    (void)sim_engine_run(bench.engine);
    cr_assert_geq(slow.op.end, (UINT64_C(1) << 20) * 17 / 2048 * TICKS);
    cr_assert_gt(slow.op.cause[SIM_CAUSE_SRAM_CONFLICT], slow.op.cause[SIM_CAUSE_DRAM]);
    expect_causes_sum(&slow.op);
    bench_fini(&bench);
}

/* Two banks, each with half of the ports: a load into the second one takes it from a reader there,
 * words that it touches twice counted twice, and leaves a reader of the first one alone. */
Test(dma, writes_come_first_in_the_bank_that_they_go_to) {
    sim_dma_spec_t spec = spec_of();
    spec.writes_first = true;
    spec.local_word_bytes = 64;
    spec.bytes_per_cycle = 1024;
    for (uint64_t cut = 0; cut < 2; cut++) {
        bench_t bench;
        bench_init(&bench, &spec, "dram.trefi=0");
        sim_clock_t clock = clock_of(GHZ);
        sim_share_init_parts(&bench.sram, bench.engine, &clock, 2048, 2, 1 << 16);
        sim_stream_t reader[2];
        for (uint64_t i = 0; i < 2; i++) {
            reader[i] =
                (sim_stream_t){.bytes = 1024 * 4096, .min_ticks = 4096 * TICKS, .num_ranges = 1};
            reader[i].range[0] =
                (sim_range_t){.first = i * 65536, .extent = 64, .bytes = 1024 * 4096};
            sim_share_start(&bench.sram, &reader[i]);
        }
        uint64_t run = 4096 - 32 * cut, rows = 256, touched = (run + 63) / 64 * 64;
        sim_dma_op_t op = op_of(&bench, SIM_DMA_READ, 0, (uint32_t)rows, 8192, run);
        op.local = (sim_range_t){.first = 65536, .extent = 4096};
        sim_dma_submit(bench.unit[0], &op);
        (void)sim_engine_run(bench.engine);
        cr_assert_eq(op.op.cause[SIM_CAUSE_SRAM_CONFLICT], 0);
        cr_assert_eq(reader[0].end, 4096 * TICKS);
        uint64_t taken = rows * touched / 1024 * TICKS; /* cycles of that bank's port */
        cr_assert_geq(reader[1].end, 4096 * TICKS + taken);
        cr_assert_leq(reader[1].end, 4096 * TICKS + taken + rows, "%d", (int)reader[1].end);
        bench_fini(&bench);
    }
}

/* ---- transfers behind each other ---- */

Test(dma, the_next_descriptor_hides_behind_the_last_data) {
    sim_dma_spec_t spec = spec_of();
    bench_t bench;
    bench_init(&bench, &spec, NULL);
    sim_dma_op_t a = op_of(&bench, SIM_DMA_READ, 0, 1, 0, 4096), b = a;
    sim_dma_submit(bench.unit[0], &a);
    cr_assert(sim_dma_can_submit(bench.unit[0]));
    sim_dma_submit(bench.unit[0], &b);
    cr_assert_not(sim_dma_can_submit(bench.unit[0]));
    /* the front end works through both: descriptor, 1 + 16; descriptor, 1 + 16 */
    expect_at(bench.engine, &bench.count[0], 1, 81 * TICKS);
    expect_at(bench.engine, &bench.count[0], 2, 162 * TICKS);
    cr_assert_eq(b.op.start, a.op.end);
    bench_fini(&bench);
    /* a long way to memory: b's descriptor and requests go while a's data comes */
    bench_init(&bench, &spec, "dram.frontend=1us,dram.trefi=0");
    sim_dma_op_t c = op_of(&bench, SIM_DMA_READ, 0, 1, 0, 4096),
                 d = op_of(&bench, SIM_DMA_READ, 1 << 20, 1, 0, 4096);
    sim_dma_submit(bench.unit[0], &c);
    sim_dma_submit(bench.unit[0], &d);
    (void)sim_engine_run(bench.engine);
    cr_assert_eq(bench.count[1], 2);
    cr_assert_geq(c.op.end, 16000);
    cr_assert_eq(d.op.end - c.op.end,
                 81 * TICKS); /* one behind the other by what the front end needs */
    cr_assert_eq(d.op.start, c.op.end);
    expect_causes_sum(&c.op);
    expect_causes_sum(&d.op);
    bench_fini(&bench);
}

#define CHAIN 300u

/* Transfers of all kinds and shapes on both engines, until the end. */
static void run_mixed(bench_t *bench, sim_dma_op_t op[2][CHAIN], uint64_t *row) {
    feeder_t feeder[2];
    uint64_t seed = 99;
    for (uint32_t e = 0; e < 2; e++) {
        feeder[e] = (feeder_t){.unit = bench->unit[e], .op = op[e], .count = CHAIN};
        for (uint32_t i = 0; i < CHAIN; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            sim_dma_kind_t kind = (sim_dma_kind_t)(seed >> 33) % 3;
            op[e][i] =
                (sim_dma_op_t){.kind = kind,
                               .base = seed >> 32 & 0xfffff,
                               .ndims = 2,
                               .run_bytes = seed >> 40 & 0x1fff,
                               .size = {(uint32_t)(seed >> 55 & 3), (uint32_t)(seed >> 58 & 7)},
                               .stride = {1 << 20, 9000},
                               .transpose = i % 5 == 0,
                               .accumulate = i % 7 == 0};
            if (i % 11 == 0) {
                op[e][i].row_address = row;
                op[e][i].row_count = 16;
            }
            op[e][i].op = (sim_op_t){.on_end = feed, .on_done = finished, .owner = &feeder[e]};
        }
    }
    for (uint32_t e = 0; e < 2; e++)
        feed(bench->engine, &op[e][0].op);
    (void)sim_engine_run(bench->engine);
    for (uint32_t e = 0; e < 2; e++)
        cr_assert_eq(feeder[e].done, CHAIN);
}

static void long_mix_of(sim_dma_spec_t spec, const char *overrides) {
    bench_t bench;
    bench_init(&bench, &spec, overrides);
    sim_dma_op_t(*op)[CHAIN] = calloc(2, sizeof *op), (*again)[CHAIN] = calloc(2, sizeof *again);
    cr_assert(op != NULL && again != NULL);
    uint64_t row[16];
    for (uint64_t i = 0; i < 16; i++)
        row[i] = i * i * 12345;
    run_mixed(&bench, op, row);
    sim_dram_stats_t stats = *sim_dram_stats(bench.dram);
    for (uint32_t e = 0; e < 2; e++)
        for (uint32_t i = 0; i < CHAIN; i++) {
            expect_causes_sum(&op[e][i].op);
            if (i > 0) cr_assert_geq(op[e][i].op.start, op[e][i - 1].op.end);
            cr_assert_eq(op[e][i].op.done, op[e][i].op.end + 32 * TICKS);
        }
    bench_reset(&bench);
    /* cut one short, then all again */
    sim_dma_op_t stray = op_of(&bench, SIM_DMA_READ, 0, 1, 0, 1 << 20);
    sim_dma_submit(bench.unit[0], &stray);
    (void)sim_engine_run_until(bench.engine, 3000);
    cr_assert_eq(bench.count[0], 0);
    bench_reset(&bench);
    run_mixed(&bench, again, row);
    for (uint32_t e = 0; e < 2; e++)
        for (uint32_t i = 0; i < CHAIN; i++)
            expect_same_op(&op[e][i].op, &again[e][i].op);
    cr_assert_arr_eq(&stats, sim_dram_stats(bench.dram), sizeof stats);
    free(op);
    free(again);
    bench_fini(&bench);
}

static void long_mix(const char *overrides) {
    sim_dma_spec_t spec = spec_of();
    spec.outstanding_bytes = 16384;
    long_mix_of(spec, overrides);
    spec.read_transfers = 5;
    spec.write_transfers = 3;
    spec.outstanding_requests = 7;
    spec.max_run_bytes = 1000;
    long_mix_of(spec, overrides);
    spec.prefetches = true;
    long_mix_of(spec, overrides);
    spec.write_transfers = 64;
    spec.outstanding_requests = 0;
    spec.command_runs = 5;
    long_mix_of(spec, overrides);
    spec.aligned_requests = true;
    spec.keeps_rows = true;
    spec.write_ack_bytes = 32;
    spec.bytes_per_cycle = 64;
    spec.request_bytes = 256;
    long_mix_of(spec, overrides);
}

Test(dma, a_long_mix_ends_in_order_and_repeats_after_a_reset) {
    long_mix("");
    long_mix("dram.window=32");
    long_mix(
        "dram.window=4,dram.page=closed,dram.refresh=per_bank,dram.trfcpb=320,dram.trefipb=390");
}

/* Two engines, one reading, one writing, over the same banks: the window batches the turns. */
Test(dma, a_window_of_the_dram_serves_a_copy_faster) {
    sim_tick_t end[2];
    for (int i = 0; i < 2; i++) {
        sim_dma_spec_t spec = spec_of();
        spec.outstanding_bytes = 32768;
        bench_t bench;
        bench_init(&bench, &spec,
                   i == 0 ? "dram.channels=1,dram.bytes=1GiB,dram.trefi=0"
                          : "dram.channels=1,dram.bytes=1GiB,dram.trefi=0,dram.window=128");
        sim_dma_op_t in = op_of(&bench, SIM_DMA_READ, 0, 1, 0, 1 << 18),
                     out = op_of(&bench, SIM_DMA_WRITE, 1 << 20, 1, 0, 1 << 18);
        sim_dma_submit(bench.unit[0], &in);
        sim_dma_submit(bench.unit[1], &out);
        (void)sim_engine_run(bench.engine);
        cr_assert_eq(bench.count[1], 2);
        cr_assert_eq(sim_dram_stats(bench.dram)->read_bytes, 1 << 18);
        cr_assert_eq(sim_dram_stats(bench.dram)->write_bytes, 1 << 18);
        expect_causes_sum(&in.op);
        expect_causes_sum(&out.op);
        end[i] = in.op.end > out.op.end ? in.op.end : out.op.end;
        bench_fini(&bench);
    }
    cr_assert_lt(end[1], end[0]);
}

Test(dma, spec_comes_from_the_config) {
    sim_config_t *config = config_new(
        "default", "dma.bytes_per_cycle=64B,dma.outstanding_bytes=8KiB,dma.transpose_factor=10/9,"
                   "dma.outstanding_requests=16,dma.write_transfers=8,dma.max_run_bytes=64B,"
                   "dma.aligned_requests=true,dma.descriptor_prefetch=true");
    sim_dma_spec_t spec;
    cr_assert_eq(sim_dma_spec_from_config(config, &spec), SIM_OK);
    cr_assert_eq(spec.bytes_per_cycle, 64);
    cr_assert_eq(spec.outstanding_bytes, 8192);
    cr_assert_eq(spec.outstanding_requests, 16);
    cr_assert_eq(spec.read_transfers, 2);
    cr_assert_eq(spec.write_transfers, 8);
    cr_assert_eq(spec.max_run_bytes, 64);
    cr_assert(spec.aligned_requests);
    cr_assert(spec.prefetches);
    cr_assert_eq(spec.transpose_factor.num * 9, spec.transpose_factor.den * 10);
    sim_config_destroy(config);
}

Test(dma, a_useless_spec_is_refused) {
    sim_engine_t *engine = engine_new();
    sim_dma_spec_t spec = spec_of();
    spec.transpose_factor = (sim_ratio_t){1, 2};
    sim_dma_t *unit = (sim_dma_t *)&spec;
    cr_assert_eq(sim_dma_create(engine, &spec, NULL, NULL, 0, NULL, NULL, &unit),
                 SIM_ERROR_INVALID_VALUE);
    cr_assert_null(unit);
    sim_dma_spec_t bad[4] = {spec_of(), spec_of(), spec_of(), spec_of()};
    bad[0].read_transfers = 0;
    bad[1].write_transfers = 0;
    for (int i = 2; i < 4; i++)
        bad[i].aligned_requests = true;
    bad[2].bytes_per_cycle = 48;
    bad[3].request_bytes = 128; /* less than a word */
    for (int i = 0; i < 4; i++)
        cr_assert_eq(sim_dma_create(engine, &bad[i], NULL, NULL, 0, NULL, NULL, &unit),
                     SIM_ERROR_INVALID_VALUE);
    sim_engine_destroy(engine);
}
