/* What a request is, how many are in flight, and transfers behind each other. */
#include "tests/sim/dma_bench.h"

/* 1 KiB of a row, then the next bank; clocks of 1 GHz: every closed bank answers equally late. */
#define FAR merged(QUIET, "dram.frontend=200ns,dram.clock=1GHz")

Test(dma, requests_in_flight_limit_as_little_says) {
    for (uint32_t most = 1; most <= 8; most++) {
        sim_dma_spec_t spec = spec_of();
        spec.request_bytes = 32;
        spec.run_cycles = 15; /* slower than the activates of the DRAM */
        spec.outstanding_requests = most;
        bench_t bench;
        bench_init(&bench, &spec, FAR);
        /* 16 runs, each a request to a bank of its own: DRAM, interconnect, one word */
        sim_dma_op_t op = op_of(&bench, SIM_DMA_READ, 0, 16, 1024, 32);
        uint64_t latency = 200 + (23 + 23 + 2) + 200 + NOC_LATENCY + 1, through[16], end = 0;
        for (uint32_t i = 0; i < 16; i++) {
            uint64_t issue = i == 0 ? 64 : end;
            if (i >= most && issue < through[i - most]) issue = through[i - most];
            through[i] = issue + latency;
            end = issue + 16; /* the engine is free */
        }
        sim_dma_submit(bench.unit[0], &op);
        expect_at(bench.engine, &bench.count[0], 1, through[15] * TICKS);
        expect_causes_sum(&op.op);
        bench_fini(&bench);
    }
}

Test(dma, an_aligned_request_is_a_power_of_two_of_words) {
    /* What of 16 to 64 bytes holds most, the smaller of two: address, bytes, words. */
    static const uint32_t block[][3] = {{0, 64, 4},  {0, 65, 5},  {16, 64, 5}, {32, 64, 4},
                                        {48, 64, 5}, {36, 64, 6}, {1, 1, 1},   {15, 2, 2},
                                        {0, 33, 4},  {32, 33, 3}, {8, 128, 9}, {24, 24, 4}};
    for (size_t i = 0; i < sizeof block / sizeof block[0]; i++)
        for (int kind = SIM_DMA_READ; kind <= SIM_DMA_WRITE; kind++) {
            sim_dma_spec_t spec = spec_of();
            spec.bytes_per_cycle = 16;
            spec.request_bytes = 64;
            spec.aligned_requests = true;
            bench_t bench;
            bench_init(&bench, &spec, NULL);
            sim_dma_op_t op =
                op_of(&bench, (sim_dma_kind_t)kind, block[i][0], 3, 4096, block[i][1]);
            sim_dma_submit(bench.unit[0], &op);
            expect_at(bench.engine, &bench.count[0], 1, (64 + 3 * (1 + block[i][2])) * TICKS);
            cr_assert_eq(op.op.cause[SIM_CAUSE_USEFUL], 3 * block[i][1] * TICKS / 16);
            expect_causes_sum(&op.op);
            bench_fini(&bench);
            bench_init(&bench, &spec, QUIET);
            op.op.end = 0;
            sim_dma_submit(bench.unit[0], &op);
            (void)sim_engine_run(bench.engine);
            const sim_dram_stats_t *stats = sim_dram_stats(bench.dram);
            cr_assert_geq(stats->read_bytes + stats->write_bytes, 3 * 16 * block[i][2]);
            cr_assert_eq(bench.sram.total_bytes, 3 * block[i][1]);
            bench_fini(&bench);
        }
}

Test(dma, long_stretches_may_be_several_runs) {
    for (uint64_t longest = 0; longest <= 1024; longest += 256) {
        sim_dma_spec_t spec = spec_of();
        spec.max_run_bytes = longest;
        bench_t bench;
        bench_init(&bench, &spec, NULL);
        sim_dma_op_t op = op_of(&bench, SIM_DMA_READ, 0, 10, 8192, 1024 + 128);
        sim_dma_submit(bench.unit[0], &op);
        uint64_t runs = longest == 0 ? 1 : (1024 + 128 + longest - 1) / longest;
        uint64_t data = longest == 0 || longest % 256 == 0 ? 5 : 0;
        expect_at(bench.engine, &bench.count[0], 1, (64 + 10 * (runs + data)) * TICKS);
        expect_causes_sum(&op.op);
        bench_fini(&bench);
    }
}

Test(dma, rows_may_stay_apart) {
    for (int merges = 0; merges < 2; merges++) {
        sim_dma_spec_t spec = spec_of();
        spec.keeps_rows = !merges;
        spec.request_bytes = 256;
        bench_t bench;
        bench_init(&bench, &spec, NULL);
        sim_dma_op_t op = {.kind = SIM_DMA_READ,
                           .ndims = 2,
                           .size = {3, 4},
                           .stride = {1 << 20, 64},
                           .run_bytes = 64};
        watch(&op.op, bench.count);
        sim_dma_submit(bench.unit[0], &op);
        expect_at(bench.engine, &bench.count[0], 1, (64u + 3u * (merges ? 2u : 4u * 2u)) * TICKS);
        expect_causes_sum(&op.op);
        bench_fini(&bench);
    }
}

/* A read's data and a write's answer share the way back: here an answer is as wide as 100 words. */
Test(dma, a_write_may_be_answered) {
    sim_tick_t end[3];
    for (uint64_t i = 0; i < 3; i++) {
        sim_dma_spec_t spec = spec_of();
        spec.write_ack_bytes = i == 0 ? 0 : 100 * NOC_WIDTH;
        bench_t bench;
        bench_init(&bench, &spec, QUIET);
        sim_dma_op_t write = op_of(&bench, SIM_DMA_WRITE, 0, 1, 0, 256),
                     read = op_of(&bench, SIM_DMA_READ, 1 << 20, 1, 0, 256);
        sim_dma_submit(bench.unit[0], &write);
        if (i == 2) { /* its data comes while the answer is sent */
            (void)sim_engine_run_until(bench.engine, 40 * TICKS);
            sim_dma_submit(bench.unit[1], &read);
        }
        (void)sim_engine_run(bench.engine);
        expect_causes_sum(&write.op);
        end[i] = i == 2 ? read.op.end : write.op.end;
        cr_assert_eq(sim_noc_stats(bench.noc)->bytes, (i == 2 ? 512 : 256) + spec.write_ack_bytes);
        bench_fini(&bench);
    }
    /* way back and serialisation, from the next edge of the interconnect on */
    cr_assert_eq(end[1], up(end[0]) + (NOC_LATENCY + 100) * TICKS);
    cr_assert_eq(end[2], end[1] + TICKS);
}

/* Rows of 64 results of four bytes that become one: the accumulator gives 40 bytes a cycle, the
 * engine takes 16. */
Test(dma, results_come_as_fast_as_the_accumulator_gives_them) {
    for (uint32_t runs = 1; runs <= 10; runs++) {
        sim_dma_spec_t spec = spec_of();
        spec.accumulator_bytes_per_cycle = 40;
        spec.accumulator_word_bytes = 1;
        spec.bytes_per_cycle = 16;
        spec.request_bytes = 64;
        bench_t bench;
        bench_init(&bench, &spec, NULL);
        sim_dma_op_t op = op_of(&bench, SIM_DMA_WRITE, 0, runs, 4096, 64);
        op.acc_bytes = 4 * 64 * runs;
        sim_dma_submit(bench.unit[0], &op);
        expect_at(bench.engine, &bench.count[0], 1, (64 + runs + (256 * runs + 39) / 40) * TICKS);
        expect_causes_sum(&op.op);
        bench_fini(&bench);
        spec.accumulator_bytes_per_cycle = 80; /* 3.2 cycles a row: its four words take longer */
        bench_init(&bench, &spec, NULL);
        sim_dma_submit(bench.unit[0], &op);
        expect_at(bench.engine, &bench.count[0], 1, (64 + runs + 4 * runs) * TICKS);
        bench_fini(&bench);
        bench_init(&bench, &spec, QUIET); /* through the accumulator's port */
        sim_dma_submit(bench.unit[0], &op);
        (void)sim_engine_run(bench.engine);
        cr_assert_eq(bench.acc.total_bytes, 256 * runs);
        cr_assert_eq(bench.sram.total_bytes, 0);
        cr_assert_eq(sim_dram_stats(bench.dram)->write_bytes, 64 * runs);
        expect_causes_sum(&op.op);
        bench_fini(&bench);
    }
}

/* ---- transfers on their way ---- */

/* `most` transfers on their way: the next one begins when the oldest has ended, and no two come
 * closer than the front end works. */
static void expect_pipelined(sim_dma_kind_t kind, uint32_t most) {
    enum { COUNT = 12 };
    sim_dma_spec_t spec = spec_of();
    if (kind == SIM_DMA_READ)
        spec.read_transfers = most;
    else
        spec.write_transfers = most;
    bench_t bench;
    bench_init(&bench, &spec, FAR);
    sim_dma_op_t op[COUNT];
    feeder_t feeder = {.unit = bench.unit[0], .op = op, .count = COUNT};
    for (uint32_t i = 0; i < COUNT; i++) {
        op[i] = op_of(&bench, kind, 1024 * i, 1, 0, 256);
        op[i].op = (sim_op_t){.on_end = feed, .on_done = finished, .owner = &feeder};
    }
    feed(bench.engine, &op[0].op);
    /* Nobody feeds while nothing ends, so that all but two wait here: hand them on as they fit. */
    while (feeder.done < COUNT) {
        (void)sim_engine_run_until(bench.engine, sim_now(bench.engine) + TICKS);
        feed(bench.engine, &op[0].op);
    }
    const uint64_t front = 64 + 1 + 1;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t end = op[0].op.end + front * i * TICKS;
        if (i >= most && end < op[i - most].op.end + op[0].op.end)
            end = op[i - most].op.end + op[0].op.end;
        if (i > 0 && end < op[i - 1].op.end + front * TICKS) end = op[i - 1].op.end + front * TICKS;
        cr_assert_eq(op[i].op.end, end, "%d: transfer %u of %u at once: %llu, not %llu", (int)kind,
                     i, most, (unsigned long long)op[i].op.end, (unsigned long long)end);
        cr_assert_eq(op[i].op.start, i == 0 ? 0 : op[i - 1].op.end);
        expect_causes_sum(&op[i].op);
    }
    bench_fini(&bench);
}

Test(dma, as_many_transfers_drain_as_the_key_says) {
    for (uint32_t most = 1; most <= 9; most++) {
        expect_pipelined(SIM_DMA_READ, most);
        expect_pipelined(SIM_DMA_WRITE, most);
    }
}

Test(dma, descriptors_are_fetched_ahead) {
    for (uint32_t most = 1; most <= 4; most++) {
        sim_dma_spec_t spec = spec_of();
        spec.prefetches = true;
        spec.read_transfers = most;
        bench_t bench;
        bench_init(&bench, &spec, NULL);
        enum { COUNT = 8 };
        sim_dma_op_t op[COUNT];
        feeder_t feeder = {.unit = bench.unit[0], .op = op, .count = COUNT};
        for (uint32_t i = 0; i < COUNT; i++) {
            op[i] = op_of(&bench, SIM_DMA_READ, 0, 1, 0, 4096);
            op[i].op = (sim_op_t){.on_end = feed, .on_done = finished, .owner = &feeder};
        }
        feed(bench.engine, &op[0].op);
        (void)sim_engine_run(bench.engine);
        cr_assert_eq(feeder.done, COUNT);
        /* 64 cycles of descriptor from the start, or the end of the oldest, on; 17 of issue */
        uint64_t end[COUNT];
        for (uint32_t i = 0; i < COUNT; i++) {
            uint64_t ready = 64 + (i >= most ? end[i - most] : 0), free = i > 0 ? end[i - 1] : 0;
            end[i] = (ready > free ? ready : free) + 17;
            cr_assert_eq(op[i].op.end, end[i] * TICKS, "%u of %u: %llu", i, most,
                         (unsigned long long)op[i].op.end);
            expect_causes_sum(&op[i].op);
            /* what no other transfer's requests hid */
            cr_assert_eq(op[i].op.cause[SIM_CAUSE_DMA_SETUP],
                         op[i].op.end - op[i].op.start - 16 * TICKS);
        }
        bench_fini(&bench);
    }
}

/* Two lines of six runs in commands of at most four: 4, 2, 4, 2. */
Test(dma, a_transfer_may_be_several_commands) {
    static const uint32_t runs[4] = {4, 2, 4, 2};
    for (uint32_t most = 1; most <= 3; most++)
        for (int prefetches = 0; prefetches < 2; prefetches++) {
            sim_dma_spec_t spec = spec_of();
            spec.command_runs = 4;
            spec.read_transfers = most;
            spec.prefetches = prefetches;
            spec.request_bytes = 256;
            bench_t bench;
            bench_init(&bench, &spec, NULL);
            sim_dma_op_t op = {.kind = SIM_DMA_READ,
                               .ndims = 2,
                               .size = {2, 6},
                               .stride = {1 << 20, 4096},
                               .run_bytes = 256};
            watch(&op.op, bench.count);
            sim_dma_submit(bench.unit[0], &op);
            uint64_t end[4];
            for (uint32_t i = 0; i < 4; i++) { /* a run and its word take two cycles */
                uint64_t free = i > 0 ? end[i - 1] : 0, from = i >= most ? end[i - most] : 0;
                if (!prefetches) from = free;
                end[i] = (from + 64 > free ? from + 64 : free) + 2 * runs[i];
            }
            expect_at(bench.engine, &bench.count[0], 1, end[3] * TICKS);
            expect_causes_sum(&op.op);
            cr_assert_eq(op.op.cause[SIM_CAUSE_DMA_SETUP], (end[3] - 12) * TICKS);
            bench_fini(&bench);
        }
}

/* Twelve results that take the same row of 64 bytes: read once a command, written to all. */
Test(dma, a_row_that_repeats_is_read_once_a_command) {
    sim_dma_spec_t spec = spec_of();
    spec.accumulator_bytes_per_cycle = 7;
    spec.accumulator_word_bytes = 32;
    spec.bytes_per_cycle = 16;
    spec.request_bytes = 64;
    spec.aligned_requests = true;
    spec.command_runs = 5;
    bench_t bench;
    bench_init(&bench, &spec, NULL);
    sim_dma_op_t op = {.kind = SIM_DMA_READ,
                       .ndims = 2,
                       .size = {2, 6},
                       .stride = {0, 0},
                       .run_bytes = 64,
                       .acc_bytes = 2 * 6 * 64};
    watch(&op.op, bench.count);
    sim_dma_submit(bench.unit[0], &op);
    /* per line two commands, of 5 rows and 1: a descriptor, a run, two cycles a row or four words
     */
    expect_at(bench.engine, &bench.count[0], 1, 2 * ((64 + 1 + 10) + (64 + 1 + 4)) * TICKS);
    expect_causes_sum(&op.op);
    bench_fini(&bench);
    bench_init(&bench, &spec, QUIET);
    sim_dma_submit(bench.unit[0], &op);
    (void)sim_engine_run(bench.engine);
    cr_assert_eq(sim_dram_stats(bench.dram)->read_bytes, 4 * 64);
    cr_assert_eq(bench.acc.total_bytes, 12 * 64);
    cr_assert_eq(bench.sram.total_bytes, 0);
    expect_causes_sum(&op.op);
    bench_fini(&bench);
}

/* Into a bank of one word of 16 bytes a cycle: 40 columns of 3 bytes, written to `times` words
 * each, and a border of 7 words. */
Test(dma, a_run_may_be_written_to_several_words) {
    static const uint32_t times[] = {0, 1, 3, 5};
    uint64_t once = 0, three = 0;
    for (int border = 0; border < 2; border++)
        for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
            sim_dma_spec_t spec = spec_of();
            spec.bytes_per_cycle = 16;
            spec.request_bytes = 64;
            spec.aligned_requests = true;
            spec.command_runs = 40;
            spec.run_cycles = 0;
            spec.local_word_bytes = 16;
            bench_t bench;
            bench_init(&bench, &spec, QUIET);
            sim_share_init_parts(&bench.sram, bench.engine, &spec.clock, 32, 2, 1 << 16);
            sim_dma_op_t op = {.kind = SIM_DMA_READ,
                               .ndims = 1,
                               .size = {40},
                               .stride = {64},
                               .run_bytes = 3,
                               .sram_bytes = 40 * 16,
                               .local = {0, 40 * 16, 0},
                               .run_writes = times[i],
                               .fill_bytes = border ? 7 * 16 : 0};
            watch(&op.op, bench.count);
            sim_dma_submit(bench.unit[0], &op);
            (void)sim_engine_run(bench.engine);
            uint64_t words = 40 * (times[i] > 0 ? times[i] : 1) + (border ? 7 : 0);
            uint64_t read_bytes = sim_dram_stats(bench.dram)->read_bytes;
            if (border == 0 && i == 0) once = read_bytes;
            cr_assert_eq(read_bytes, once);
            cr_assert_eq(bench.sram.total_bytes, 16 * words);
            cr_assert_geq(op.op.end, words * TICKS);
            /* The port is what limits: what else there is to write is all that it takes longer. */
            if (times[i] == 3) three = op.op.end - words * TICKS;
            if (times[i] == 5) cr_assert_eq(op.op.end - words * TICKS, three);
            expect_causes_sum(&op.op);
            bench_fini(&bench);
        }
}

/* Behind a slow memory commands go like transfers of their own. */
Test(dma, commands_are_limited_as_transfers_are) {
    sim_tick_t end[2];
    for (int split = 0; split < 2; split++) {
        sim_dma_spec_t spec = spec_of();
        spec.request_bytes = 32;
        spec.command_runs = split ? 0 : 1;
        spec.read_transfers = 3;
        spec.prefetches = true;
        bench_t bench;
        bench_init(&bench, &spec, FAR);
        sim_dma_op_t op[12];
        feeder_t feeder = {.unit = bench.unit[0], .op = op, .count = split ? 12 : 1};
        for (uint32_t i = 0; i < feeder.count; i++) {
            op[i] = op_of(&bench, SIM_DMA_READ, 1024 * i, split ? 1 : 12, 1024, 32);
            op[i].op = (sim_op_t){.on_end = feed, .on_done = finished, .owner = &feeder};
        }
        feed(bench.engine, &op[0].op);
        (void)sim_engine_run(bench.engine);
        cr_assert_eq(feeder.done, feeder.count);
        end[split] = op[feeder.count - 1].op.end;
        for (uint32_t i = 0; i < feeder.count; i++)
            expect_causes_sum(&op[i].op);
        bench_fini(&bench);
    }
    cr_assert_eq(end[0], end[1]);
}

Test(dma, a_short_transfer_does_not_pass_a_long_one) {
    sim_dma_spec_t spec = spec_of();
    spec.read_transfers = 8;
    bench_t bench;
    bench_init(&bench, &spec, FAR);
    sim_dma_op_t op[3] = {op_of(&bench, SIM_DMA_READ, 0, 1, 0, 16384),
                          op_of(&bench, SIM_DMA_LOCAL, 0, 1, 0, 256),
                          op_of(&bench, SIM_DMA_READ, 65536, 0, 0, 256)};
    feeder_t feeder = {.unit = bench.unit[0], .op = op, .count = 3};
    for (int i = 0; i < 3; i++)
        op[i].op = (sim_op_t){.on_end = feed, .on_done = finished, .owner = &feeder};
    feed(bench.engine, &op[0].op);
    (void)sim_engine_run(bench.engine);
    cr_assert_eq(feeder.done, 3);
    /* what waited for nothing but its turn ends with the one before */
    cr_assert_eq(op[1].op.end, op[0].op.end);
    cr_assert_eq(op[1].op.start, op[0].op.end);
    cr_assert_geq(op[2].op.end, op[1].op.end);
    for (int i = 0; i < 3; i++)
        expect_causes_sum(&op[i].op);
    bench_fini(&bench);
}
