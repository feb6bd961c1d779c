/* What the keys of the matrix unit mean, each by a closed form. */
#include "tests/sim/matrix_bench.h"

static const sim_ratio_t ONE = {1, 1}, QUARTER = {1, 4};

static uint64_t cycles_of(const sim_op_t *op, sim_cause_t cause) {
    return op->cause[cause] / TICKS;
}

/* ---- step shapes --------------------------------------------------------- */

Test(shapes, one_step_multiplies_m0_k0_by_k0_n0) {
    static const struct {
        const char *name;
        sim_dataflow_t dataflow;
        uint32_t rows, cols, step, load_rows, m, k, n;
        sim_ratio_t rate;
        uint64_t end, useful;
    } CASES[] = {
        /* 1 x 128 x 128: a row a cycle behind the load of the weights */
        {"systolic", SIM_WEIGHT_STATIONARY, 128, 128, 1, 1, 300, 128, 128, {1, 1}, 428, 300},
        {"cube 16 x 16 x 16", SIM_WEIGHT_STATIONARY, 16, 16, 16, 16, 64, 64, 64, {1, 1}, 65, 64},
        {"a started cube counts", SIM_WEIGHT_STATIONARY, 16, 16, 16, 16, 65, 17, 16, {1, 1}, 11, 4},
        {"8 x 16 x 16, one pass", SIM_WEIGHT_STATIONARY, 16, 16, 8, 16, 32, 32, 32, {1, 1}, 17, 16},
        {"four passes", SIM_WEIGHT_STATIONARY, 16, 16, 8, 16, 32, 32, 32, {1, 4}, 65, 64},
        {"1 x 16 x 16", SIM_WEIGHT_STATIONARY, 16, 16, 1, 16, 64, 16, 32, {1, 1}, 129, 128},
        {"outer product 256 x 1 x 256",
         SIM_OUTPUT_STATIONARY,
         256,
         256,
         1,
         16,
         512,
         100,
         256,
         {1, 1},
         200,
         200},
        {"two outer products a cycle",
         SIM_OUTPUT_STATIONARY,
         256,
         256,
         2,
         16,
         512,
         101,
         256,
         {1, 1},
         102,
         101},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        sim_matrix_spec_t spec = bench_spec(CASES[i].dataflow, CASES[i].rows, CASES[i].cols);
        spec.step = CASES[i].step;
        spec.load_rows_per_cycle = CASES[i].load_rows;
        sim_matrix_op_t op = bench_op(CASES[i].m, CASES[i].k, CASES[i].n);
        op.rate = CASES[i].rate;
        (void)bench_cycles(&spec, &op, 1);
        cr_assert_eq(op.op.end / TICKS, CASES[i].end, "%s: %lu", CASES[i].name,
                     (unsigned long)(op.op.end / TICKS));
        cr_assert_eq(cycles_of(&op.op, SIM_CAUSE_USEFUL), CASES[i].useful, "%s", CASES[i].name);
    }
}

/* All that the folds occupy: what is useful, and what pads it. */
Test(shapes, padded_macs) {
    sim_matrix_spec_t spec = bench_spec(SIM_WEIGHT_STATIONARY, 16, 16);
    cr_assert_eq(sim_matrix_padded_macs(&spec, 10, 17, 16), 2u * 10 * 256);
    spec.step = 16;
    cr_assert_eq(sim_matrix_padded_macs(&spec, 10, 17, 16), 2u * 16 * 256);
    spec.count = 4;
    cr_assert_eq(sim_matrix_padded_macs(&spec, 10, 17, 16), 2u * 16 * 256 * 4);
    spec.dataflow = SIM_OUTPUT_STATIONARY;
    cr_assert_eq(sim_matrix_padded_macs(&spec, 10, 17, 16), 32u * 16 * 64);
    spec.dataflow = SIM_INPUT_STATIONARY;
    cr_assert_eq(sim_matrix_padded_macs(&spec, 10, 17, 65), 2u * 32 * 16 * 64);
    cr_assert_eq(sim_matrix_padded_macs(&spec, 0, 17, 65), 0);
    cr_assert_eq(sim_matrix_product_folds(&spec, 130, 17, 65), 9u * 2);
    spec.split = SIM_SPLIT_M;
    cr_assert_eq(sim_matrix_product_folds(&spec, 130, 17, 65), 3u * 2);
}

/* ---- dataflows ----------------------------------------------------------- */

Test(shapes, input_stationary_is_weight_stationary_with_the_operands_exchanged) {
    const uint32_t sizes[] = {1, 7, 16, 17, 40};
    for (int i = 0; i < 125; i++) {
        uint32_t m = sizes[i % 5], k = sizes[i / 5 % 5], n = sizes[i / 25];
        sim_matrix_spec_t weights = bench_spec(SIM_WEIGHT_STATIONARY, 16, 8), inputs = weights;
        inputs.dataflow = SIM_INPUT_STATIONARY;
        uint64_t bytes[2];
        sim_matrix_op_t op[2] = {bench_op(m, k, n), bench_op(n, k, m)};
        op[1].in_bytes = op[0].weight_bytes;
        op[1].weight_bytes = op[0].in_bytes;
        for (int j = 0; j < 2; j++) {
            sim_engine_t *engine = engine_new();
            sim_share_t sram;
            sim_share_init(&sram, engine, &weights.clock, 1 << 20);
            bench_run(engine, j == 0 ? &weights : &inputs, &sram, NULL, &op[j], 1);
            bytes[j] = sram.total_bytes;
            sim_engine_destroy(engine);
        }
        cr_assert_eq(op[0].op.end, op[1].op.end);
        cr_assert_eq(op[0].op.done, op[1].op.done);
        cr_assert_arr_eq(op[0].op.cause, op[1].op.cause, sizeof op[0].op.cause);
        cr_assert_eq(bytes[0], bytes[1]);
    }
}

/* 20 x 30 by 30 x 24 on 8 x 8: results are 3 x 3 folds of 30 steps; 8, 8, then 4 rows drain. */
Test(shapes, output_stationary_hides_the_drain_behind_the_next_fold) {
    sim_matrix_spec_t spec = bench_spec(SIM_OUTPUT_STATIONARY, 8, 8);
    spec.pipeline_cycles = 5;
    sim_matrix_op_t op = bench_op(20, 30, 24);
    (void)bench_cycles(&spec, &op, 1);
    cr_assert_eq(op.op.end, 9 * 30 * TICKS);
    cr_assert_eq(op.op.done, (9 * 30 + 8 + 8 - 2 + 4 + 5) * TICKS, "skew, rest of the drain");
    cr_assert_eq(cycles_of(&op.op, SIM_CAUSE_USEFUL), 20 * 30 * 24 / 64);
    cr_assert_eq(op.op.cause[SIM_CAUSE_FILL_DRAIN] + op.op.cause[SIM_CAUSE_WEIGHT_LOAD], 0);
    /* one buffer: a stream waits for the drain before it */
    spec.weight_buffers = 1;
    sim_matrix_op_t serial = bench_op(20, 30, 24);
    (void)bench_cycles(&spec, &serial, 1);
    cr_assert_eq(serial.op.end, (9 * 30 + 3 * (8 + 8 + 4) - 4) * TICKS);
    cr_assert_eq(cycles_of(&serial.op, SIM_CAUSE_FILL_DRAIN), 3 * (8 + 8 + 4) - 4);
    cr_assert_eq(serial.op.cause[SIM_CAUSE_WEIGHT_LOAD], 0);
    cr_assert_eq(serial.op.done - serial.op.end, (14 + 4 + 5) * TICKS);
}

/* Short streams are bound by the drain: one fold per 8 cycles once both buffers are full. */
Test(shapes, output_stationary_is_bound_by_a_slow_drain) {
    sim_matrix_spec_t spec = bench_spec(SIM_OUTPUT_STATIONARY, 8, 8);
    sim_matrix_op_t op[20];
    for (int i = 0; i < 20; i++)
        op[i] = bench_op(8, 3, 8);
    uint64_t done = bench_cycles(&spec, op, 20);
    cr_assert_eq(op[1].op.end, 6 * TICKS);
    for (int i = 3; i < 20; i++)
        cr_assert_eq(op[i].op.end - op[i - 1].op.end, 8 * TICKS);
    cr_assert_eq(done, 3 + 20 * 8 + 14);
    cr_assert_eq(cycles_of(&op[10].op, SIM_CAUSE_FILL_DRAIN), 5);
    cr_assert_eq(cycles_of(&op[10].op, SIM_CAUSE_USEFUL), 3);
    spec.load_rows_per_cycle = 4;
    for (int i = 0; i < 20; i++)
        op[i] = bench_op(8, 3, 8);
    (void)bench_cycles(&spec, op, 20);
    cr_assert_eq(op[19].op.end, 20 * 3 * TICKS, "four rows a cycle hide behind three steps");
}

Test(shapes, results_of_an_output_stationary_array_are_written_once) {
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        sim_matrix_spec_t spec = bench_spec(SIM_OUTPUT_STATIONARY, 8, 8);
        sim_engine_t *engine = engine_new();
        sim_share_t sram, acc;
        sim_share_init(&sram, engine, &spec.clock, 1 << 20);
        sim_share_init(&acc, engine, &spec.clock, 1 << 20);
        sim_matrix_op_t op = bench_op(20, 30, 10);
        op.accumulate = accumulate == 1;
        bench_run(engine, &spec, &sram, &acc, &op, 1);
        /* inputs for each of 2 column folds, weights for each of 3 row folds */
        cr_assert_eq(sram.total_bytes, 2u * 20 * 30 * 2 + 3u * 30 * 10);
        cr_assert_eq(acc.total_bytes, 20u * 10 * 4 * (accumulate == 1 ? 2 : 1));
        sim_engine_destroy(engine);
    }
}

/* ---- several arrays ------------------------------------------------------ */

Test(shapes, arrays_side_by_side_split_the_columns) {
    for (int dataflow = 0; dataflow < 2; dataflow++) {
        sim_matrix_spec_t four = bench_spec((sim_dataflow_t)dataflow, 16, 16), wide = four;
        four.count = 4;
        wide.cols = 64;
        for (uint32_t size = 1; size < 200; size += 33) {
            sim_matrix_op_t a = bench_op(size, 64, size + 7), b = a;
            (void)bench_cycles(&four, &a, 1);
            (void)bench_cycles(&wide, &b, 1);
            cr_assert_eq(a.op.end, b.op.end, "as one array of all columns");
            cr_assert_arr_eq(a.op.cause, b.op.cause, sizeof a.op.cause);
            cr_assert_eq(b.op.done - a.op.done, 48 * TICKS, "but each is crossed for itself");
        }
    }
}

/* Each array works on its part as if alone; what they share is read once. */
Test(shapes, arrays_split_either_dimension_of_the_result) {
    for (int i = 0; i < 3 * 5 * 5; i++) {
        const uint32_t sizes[] = {1, 15, 16, 40, 129};
        uint32_t m = sizes[i / 3 % 5], n = sizes[i / 15], k = 50;
        sim_matrix_spec_t spec = bench_spec((sim_dataflow_t)(i % 3), 16, 16), one = spec;
        spec.count = 6;
        spec.split = SIM_SPLIT_M;
        cr_assert_eq(sim_matrix_cold_cycles(&spec, m, k, n, ONE),
                     sim_matrix_cold_cycles(&one, (m + 5) / 6, k, n, ONE));
        uint64_t least = sim_matrix_padded_macs(&spec, m, k, n);
        spec.split = SIM_SPLIT_N;
        cr_assert_eq(sim_matrix_cold_cycles(&spec, m, k, n, ONE),
                     sim_matrix_cold_cycles(&one, m, k, (n + 5) / 6, ONE));
        const uint32_t along_n[] = {6, 3, 2};
        for (int j = 0; j < 3; j++) {
            uint32_t along_m = 6 / along_n[j];
            uint64_t part = 6 * sim_matrix_padded_macs(&one, (m + along_m - 1) / along_m, k,
                                                       (n + along_n[j] - 1) / along_n[j]);
            if (part < least) least = part;
        }
        spec.split = SIM_SPLIT_BEST;
        cr_assert_eq(sim_matrix_padded_macs(&spec, m, k, n), least);
    }
}

Test(shapes, a_narrow_product_splits_its_rows) {
    sim_matrix_spec_t spec = bench_spec(SIM_WEIGHT_STATIONARY, 128, 128);
    spec.count = 4;
    cr_assert_eq(sim_matrix_cold_cycles(&spec, 4096, 128, 64, ONE), 128 + 4096);
    spec.split = SIM_SPLIT_BEST;
    cr_assert_eq(sim_matrix_cold_cycles(&spec, 4096, 128, 64, ONE), 128 + 1024);
    cr_assert_eq(sim_matrix_cold_cycles(&spec, 4096, 128, 256, ONE), 128 + 2048, "2 x 2");
    cr_assert_eq(sim_matrix_cold_cycles(&spec, 4096, 128, 512, ONE), 128 + 4096, "few loads");
    sim_engine_t *engine = engine_new();
    sim_share_t sram;
    sim_share_init(&sram, engine, &spec.clock, 1 << 20);
    sim_matrix_op_t op = bench_op(4096, 128, 256);
    bench_run(engine, &spec, &sram, NULL, &op, 1);
    cr_assert_eq(sram.total_bytes, 4096u * 128 * 2 + 128u * 256);
    cr_assert_eq(cycles_of(&op.op, SIM_CAUSE_USEFUL), 2048);
    sim_engine_destroy(engine);
}

/* ---- folds that do not overlap, gaps, broadcast -------------------------- */

Test(shapes, serial_folds_pay_fill_and_drain) {
    sim_matrix_spec_t spec = bench_spec(SIM_WEIGHT_STATIONARY, 16, 8);
    spec.is_serial = true;
    spec.pipeline_cycles = 3;
    sim_matrix_op_t op = bench_op(10, 32, 16);
    (void)bench_cycles(&spec, &op, 1);
    /* two buffers: loads of 16 rows hide behind 10 rows and a skew of 22 */
    cr_assert_eq(op.op.end, (16 + 4 * (10 + 22)) * TICKS);
    cr_assert_eq(op.op.done - op.op.end, 3 * TICKS);
    cr_assert_eq(cycles_of(&op.op, SIM_CAUSE_WEIGHT_LOAD), 16);
    cr_assert_eq(cycles_of(&op.op, SIM_CAUSE_FILL_DRAIN), 4 * 22);
    cr_assert_eq(cycles_of(&op.op, SIM_CAUSE_USEFUL), 40);
    spec.weight_buffers = 1;
    op = bench_op(10, 32, 16);
    (void)bench_cycles(&spec, &op, 1);
    cr_assert_eq(op.op.end, 4 * (16 + 10 + 22) * TICKS);
}

Test(shapes, a_gap_precedes_every_fold) {
    for (int dataflow = 0; dataflow < 3; dataflow++) {
        sim_matrix_spec_t spec = bench_spec((sim_dataflow_t)dataflow, 16, 16);
        spec.load_rows_per_cycle = 16;
        spec.gap_cycles = 5;
        sim_matrix_op_t op = bench_op(32, 32, 32);
        (void)bench_cycles(&spec, &op, 1);
        uint64_t load = dataflow == SIM_OUTPUT_STATIONARY ? 0 : 1;
        cr_assert_eq(op.op.end, (load + 4 * (5 + 32)) * TICKS);
        cr_assert_eq(cycles_of(&op.op, SIM_CAUSE_FILL_DRAIN), 20);
    }
}

/* A register holds 32: 32 elements are one piece, 33 two. */
Test(shapes, a_gap_precedes_every_piece_of_a_stream) {
    for (int dataflow = 0; dataflow < 3; dataflow++) {
        sim_matrix_spec_t spec = bench_spec((sim_dataflow_t)dataflow, 16, 16);
        spec.load_rows_per_cycle = 16;
        spec.gap_cycles = 5;
        spec.stream_elems = 32;
        for (uint32_t size = 31; size <= 65; size++) {
            uint32_t x[3][3] = {{size, 32, 32}, {32, size, 32}, {32, 32, size}}; /* streamed */
            const uint32_t *s = x[dataflow == SIM_WEIGHT_STATIONARY   ? 0
                                  : dataflow == SIM_OUTPUT_STATIONARY ? 1
                                                                      : 2];
            sim_matrix_op_t op = bench_op(s[0], s[1], s[2]);
            (void)bench_cycles(&spec, &op, 1);
            uint64_t load = dataflow == SIM_OUTPUT_STATIONARY ? 0 : 1;
            uint64_t pieces = size <= 32 ? 1 : size <= 64 ? 2 : 3;
            cr_assert_eq(op.op.end, (load + 4 * (5 * pieces + size)) * TICKS, "%u", size);
            cr_assert_eq(cycles_of(&op.op, SIM_CAUSE_FILL_DRAIN), 20 * pieces);
        }
    }
}

/* A tile of 32 x 32 in each source register, 64 bytes a cycle from L1, two rows a step and phase:
 * products of 32^3 need a new streamed tile each (32 cycles of 16-bit elements), and the tile that
 * stays is one more for every fold. */
Test(shapes, operand_ports_limit_the_stream) {
    static const struct {
        uint32_t m, bytes, phases;
        uint64_t fold;
    } CASES[] = {
        {256, 2, 2, 9 * 32}, /* ports: nine tiles for eight products */
        {128, 2, 2, 5 * 32}, /* five for four */
        {256, 2, 4, 8 * 64}, /* the cells */
        {256, 1, 2, 8 * 32}, /* 9 * 16 < 8 * 32 */
        {256, 1, 1, 9 * 16},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        sim_matrix_spec_t spec = bench_spec(SIM_WEIGHT_STATIONARY, 32, 32);
        spec.step = 2;
        spec.load_rows_per_cycle = 32;
        spec.operand_bytes = 64;
        sim_matrix_op_t op = bench_op(CASES[i].m, 64, 96);
        op.in_bytes = op.weight_bytes = CASES[i].bytes;
        op.rate = (sim_ratio_t){1, CASES[i].phases};
        (void)bench_cycles(&spec, &op, 1);
        uint64_t useful = CASES[i].m / 2 * CASES[i].phases;
        cr_assert_eq(op.op.end, (1 + 6 * CASES[i].fold) * TICKS, "%zu", i);
        cr_assert_eq(cycles_of(&op.op, SIM_CAUSE_OPERAND_WAIT), 6 * (CASES[i].fold - useful));
        cr_assert_eq(cycles_of(&op.op, SIM_CAUSE_USEFUL), 6 * useful);
        /* The limit is tight: where the ports are it, a byte less a cycle is slower. */
        spec.operand_bytes = 63;
        sim_matrix_op_t slower = op;
        (void)bench_cycles(&spec, &slower, 1);
        cr_assert_eq(slower.op.end > op.op.end, CASES[i].fold > useful, "%zu", i);
        spec.operand_bytes = 0;
        (void)bench_cycles(&spec, &slower, 1);
        cr_assert_eq(slower.op.end, (1 + 6 * useful) * TICKS);
    }
}

/* Gaps stop the array, not the ports: eight pieces of 64 + 3 cycles, or nine tiles of 32 + x. */
Test(shapes, operand_ports_work_during_gaps) {
    static const struct {
        uint32_t port;
        uint64_t fold, wait;
    } CASES[] = {{64, 8 * 67, 0}, {35, 8 * 67, 0}, {34, 543, 7}, {32, 576, 40}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        sim_matrix_spec_t spec = bench_spec(SIM_WEIGHT_STATIONARY, 32, 32);
        spec.step = 2;
        spec.load_rows_per_cycle = 32;
        spec.gap_cycles = 3;
        spec.stream_elems = 32;
        spec.operand_bytes = CASES[i].port;
        sim_matrix_op_t op = bench_op(256, 64, 64);
        op.in_bytes = op.weight_bytes = 2;
        op.rate = (sim_ratio_t){1, 4};
        (void)bench_cycles(&spec, &op, 1);
        cr_assert_eq(op.op.end, (1 + 4 * CASES[i].fold) * TICKS, "%zu: %llu", i,
                     (unsigned long long)(op.op.end / TICKS));
        cr_assert_eq(cycles_of(&op.op, SIM_CAUSE_OPERAND_WAIT), 4 * CASES[i].wait);
        cr_assert_eq(cycles_of(&op.op, SIM_CAUSE_FILL_DRAIN), 4 * 24);
    }
}

/* Output-stationary: rows and columns both stream by. Kept weights are not read again. */
Test(shapes, operand_ports_count_what_is_read) {
    sim_matrix_spec_t spec = bench_spec(SIM_OUTPUT_STATIONARY, 16, 16);
    spec.operand_bytes = 8;
    sim_matrix_op_t op = bench_op(32, 40, 48);
    (void)bench_cycles(&spec, &op, 1);
    uint64_t bytes = 3u * 32 * 40 * 2 + 2u * 40 * 48;
    cr_assert_eq(op.op.end, 6 * ((bytes + 47) / 48) * TICKS);
    spec = bench_spec(SIM_WEIGHT_STATIONARY, 16, 16);
    spec.operand_bytes = 8;
    sim_matrix_op_t kept[2] = {bench_op(20, 16, 16), bench_op(20, 16, 16)};
    kept[1].keep_weights = true;
    (void)bench_cycles(&spec, kept, 2);
    cr_assert_eq(kept[0].op.end, (16 + (640 + 256) / 8) * TICKS);
    cr_assert_eq(kept[1].op.end - kept[0].op.end, 640 / 8 * TICKS);
}

Test(shapes, broadcast_operands_have_no_skew) {
    sim_matrix_spec_t spec = bench_spec(SIM_WEIGHT_STATIONARY, 16, 16);
    spec.pipeline_cycles = 7;
    sim_matrix_op_t op = bench_op(32, 16, 16);
    (void)bench_cycles(&spec, &op, 1);
    cr_assert_eq(op.op.done - op.op.end, (30 + 7) * TICKS);
    spec.is_broadcast = true;
    op = bench_op(32, 16, 16);
    (void)bench_cycles(&spec, &op, 1);
    cr_assert_eq(op.op.done - op.op.end, 7 * TICKS);
}

Test(shapes, full_folds_load_and_drain_all_rows) {
    sim_matrix_spec_t spec = bench_spec(SIM_WEIGHT_STATIONARY, 16, 16);
    cr_assert_eq(sim_matrix_cold_cycles(&spec, 5, 17, 16, ONE), 16 + 5 + 5, "one row: hidden");
    spec.has_full_folds = true;
    cr_assert_eq(sim_matrix_cold_cycles(&spec, 5, 17, 16, ONE), 16 + 16 + 5);
    spec.dataflow = SIM_OUTPUT_STATIONARY;
    sim_matrix_op_t op = bench_op(1, 40, 16);
    cr_assert_eq(bench_cycles(&spec, &op, 1), 40 + 30 + 16);
    spec.has_full_folds = false;
    op = bench_op(1, 40, 16);
    cr_assert_eq(bench_cycles(&spec, &op, 1), 40 + 30 + 1);
}

/* The second load may begin 10 cycles after the switch: 10 + 16 bound the period. */
Test(shapes, a_switch_delays_the_next_load) {
    sim_matrix_spec_t spec = bench_spec(SIM_WEIGHT_STATIONARY, 16, 16);
    spec.switch_cycles = 10;
    for (uint32_t buffers = 1; buffers <= 2; buffers++) {
        for (uint32_t m = 4; m <= 40; m += 6) {
            spec.weight_buffers = buffers;
            uint64_t wait = buffers == 1 ? 26 : m < 26 ? 26 - m : 0;
            cr_assert_eq(sim_matrix_cold_cycles(&spec, m, 64, 16, ONE), 16 + 4 * m + 3 * wait);
        }
    }
}

Test(shapes, pieces_of_f32_are_loaded_one_by_one) {
    sim_matrix_spec_t spec = bench_spec(SIM_WEIGHT_STATIONARY, 16, 16);
    sim_matrix_op_t op[2] = {bench_op(4, 16, 16), bench_op(4, 16, 16)};
    for (int i = 0; i < 2; i++) {
        op[i].rate = QUARTER;
        op[i].pieces = 3;
    }
    (void)bench_cycles(&spec, op, 2);
    cr_assert_eq(op[1].op.end, (48 + 48 + 16) * TICKS, "three loads of 16, streams of 16");
}

/* ---- more buffers -------------------------------------------------------- */

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

#define OPS 40

/* The definition: operations of one fold, op j submitted as soon as the array takes op j - n + 1.
 */
static void expect_chain_of(uint32_t buffers, uint32_t seed) {
    sim_matrix_spec_t spec = bench_spec(SIM_WEIGHT_STATIONARY, 16, 16);
    spec.weight_buffers = buffers;
    sim_matrix_op_t op[OPS];
    uint64_t start[OPS], end[OPS], loaded = 0, waiting = buffers > 2 ? buffers - 1 : 1;
    for (uint32_t i = 0; i < OPS; i++) {
        seed = seed * 1664525u + 1013904223u;
        op[i] = bench_op(1 + (seed >> 8) % (seed >> 31 ? 60 : 12), 1 + (seed >> 20) % 16, 16);
        uint64_t submitted = i > waiting ? start[i - waiting] : 0;
        uint64_t freed = i >= buffers ? end[i - buffers] : 0;
        loaded = later(later(loaded, freed), submitted) + op[i].k;
        start[i] = later(i > 0 ? end[i - 1] : 0, submitted);
        end[i] = later(start[i], loaded) + op[i].m;
    }
    (void)bench_cycles(&spec, op, OPS);
    for (uint32_t i = 0; i < OPS; i++) {
        cr_assert_eq(op[i].op.start, start[i] * TICKS, "buffers %u, %u", buffers, i);
        cr_assert_eq(op[i].op.end, end[i] * TICKS, "buffers %u, %u", buffers, i);
    }
}

Test(shapes, operations_that_wait_load_into_buffers_of_their_own) {
    for (uint32_t buffers = 1; buffers <= SIM_MATRIX_MAX_BUFFERS; buffers++)
        for (uint32_t seed = 0; seed < 200; seed++)
            expect_chain_of(buffers, seed);
}

/* A long stream covers the three loads behind it with four buffers, one of them with two. */
Test(shapes, a_fifo_of_weights_evens_out) {
    for (uint32_t buffers = 2; buffers <= 4; buffers += 2) {
        sim_matrix_spec_t spec = bench_spec(SIM_WEIGHT_STATIONARY, 256, 256);
        spec.weight_buffers = buffers;
        sim_matrix_op_t op[8];
        for (uint32_t i = 0; i < 8; i++)
            op[i] = bench_op(i % 4 == 0 ? 1000 : 8, 256, 256);
        (void)bench_cycles(&spec, op, 8);
        uint64_t stall = op[5].op.cause[SIM_CAUSE_WEIGHT_LOAD] +
                         op[6].op.cause[SIM_CAUSE_WEIGHT_LOAD] +
                         op[7].op.cause[SIM_CAUSE_WEIGHT_LOAD];
        cr_assert_eq(stall, buffers == 4 ? 0 : 2 * 248 * TICKS, "%lu",
                     (unsigned long)(stall / TICKS));
    }
}

/* ---- contention ---------------------------------------------------------- */

/* A narrow scratchpad stops the array: pending loads move along, in every dataflow. */
Test(shapes, contention_stretches_and_sums_up) {
    for (int dataflow = 0; dataflow < 3; dataflow++) {
        sim_matrix_spec_t spec = bench_spec((sim_dataflow_t)dataflow, 16, 16);
        sim_engine_t *engine = engine_new();
        sim_share_t sram;
        sim_share_init(&sram, engine, &spec.clock, 8);
        sim_matrix_op_t op[4], alone[4];
        for (int i = 0; i < 4; i++)
            op[i] = alone[i] = bench_op(64, 64, 64);
        bench_run(engine, &spec, &sram, NULL, op, 4);
        (void)bench_cycles(&spec, alone, 4);
        for (int i = 0; i < 4; i++) {
            uint64_t stretched = op[i].op.end - op[i].op.start;
            cr_assert_eq(op[i].op.cause[SIM_CAUSE_SRAM_CONFLICT],
                         stretched - (alone[i].op.end - alone[i].op.start));
            cr_assert_eq(op[i].op.done - op[i].op.end, alone[i].op.done - alone[i].op.end);
            cr_assert_eq(op[i].op.cause[SIM_CAUSE_WEIGHT_LOAD],
                         alone[i].op.cause[SIM_CAUSE_WEIGHT_LOAD]);
        }
        cr_assert_geq(op[3].op.end, sram.total_bytes / 8 * TICKS);
        sim_engine_destroy(engine);
    }
}

/* ---- configuration ------------------------------------------------------- */

Test(shapes, keys_reach_the_spec) {
    sim_config_t *config = config_new(
        "tiny", "matrix.dataflow=input_stationary,matrix.operands=systolic,matrix.step=3,"
                "matrix.count=5,matrix.partial_folds=full,matrix.overlap=false,matrix.gap_cycles=7,"
                "matrix.switch_cycles=9,sram.latency_cycles=1,matrix.pipeline_cycles=2,"
                "matrix.stream_elems=6,matrix.operand_bytes_per_cycle=24 B");
    sim_matrix_spec_t spec;
    cr_assert_eq(sim_matrix_spec_from_config(config, &spec), SIM_OK);
    cr_assert_eq(spec.dataflow, SIM_INPUT_STATIONARY);
    cr_assert(!spec.is_broadcast && spec.has_full_folds && spec.is_serial);
    cr_assert_eq(spec.step, 3);
    cr_assert_eq(spec.count, 5);
    cr_assert_eq(spec.gap_cycles, 7);
    cr_assert_eq(spec.switch_cycles, 9);
    cr_assert_eq(spec.stream_elems, 6);
    cr_assert_eq(spec.operand_bytes, 24);
    cr_assert_eq(sim_matrix_fill_cycles(&spec, 12), 2 * 7 + 14);
    cr_assert_eq(sim_matrix_latency_cycles(&spec), 3);
    sim_config_destroy(config);
    config = config_new("tiny", "matrix.dataflow=output_stationary,matrix.operands=broadcast");
    cr_assert_eq(sim_matrix_spec_from_config(config, &spec), SIM_OK);
    cr_assert_eq(spec.dataflow, SIM_OUTPUT_STATIONARY);
    cr_assert(spec.is_broadcast && !spec.has_full_folds && !spec.is_serial);
    sim_config_destroy(config);
}

Test(shapes, f32_as_passes_of_bf16) {
    static const struct {
        const char *choice;
        uint32_t num, den, pieces;
    } CASES[] = {{"native", 2, 7, 1},
                 {"bf16x1", 3, 2, 1},
                 {"bf16x3", 3, 6, 2},
                 {"bf16x6", 3, 12, 3},
                 {"bf16x9", 3, 18, 3}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char overrides[128];
        uint32_t pieces;
        (void)snprintf(overrides, sizeof overrides,
                       "matrix.rate.bf16=3/2,matrix.rate.f32=2/7,matrix.f32=%s", CASES[i].choice);
        sim_config_t *config = config_new("tiny", overrides);
        sim_ratio_t rate = sim_matrix_f32_rate(config, &pieces);
        cr_assert_eq((uint64_t)rate.num * CASES[i].den, (uint64_t)CASES[i].num * rate.den, "%s",
                     CASES[i].choice);
        cr_assert_eq(pieces, CASES[i].pieces);
        sim_config_destroy(config);
    }
}

/* Ends and dones of a mix of operations under a configuration, as one number. */
static uint64_t signature(const char *dataflow, const char *override) {
    char overrides[256];
    (void)snprintf(overrides, sizeof overrides, "matrix.dataflow=%s,%s", dataflow, override);
    sim_config_t *config = config_new("tiny", overrides);
    sim_matrix_spec_t spec;
    cr_assert_eq(sim_matrix_spec_from_config(config, &spec), SIM_OK);
    sim_matrix_op_t op[12];
    for (uint32_t i = 0; i < 12; i++) {
        op[i] = bench_op(1 + i * 13 % 37, 1 + i * 7 % 20, 1 + i * 11 % 30);
        op[i].rate = sim_matrix_f32_rate(config, &op[i].pieces);
    }
    (void)bench_cycles(&spec, op, 12);
    uint64_t hash = 0;
    for (uint32_t i = 0; i < 12; i++)
        hash = (hash * 31 + op[i].op.end) * 31 + op[i].op.done;
    sim_config_destroy(config);
    return hash;
}

/* Which key changes which dataflow; what changes nothing is refused (tests/sim/test_config.c). */
Test(shapes, every_key_has_effect_in_every_dataflow) {
    static const char *const FLOWS[] = {"weight_stationary", "output_stationary",
                                        "input_stationary"};
    static const char *const KEYS[] = {
        "matrix.rows=4",
        "matrix.cols=4",
        "matrix.operands=broadcast",
        "matrix.step=2",
        "matrix.count=2",
        "matrix.partial_folds=full",
        "matrix.overlap=false",
        "matrix.gap_cycles=1",
        "matrix.gap_cycles=1,matrix.stream_elems=8",
        "matrix.operand_bytes_per_cycle=3 B",
        "matrix.weight_buffers=1",
        "matrix.weight_buffers=4",
        "matrix.rate.f32=1/3",
        "matrix.load_rows_per_cycle=3",
        "matrix.f32=bf16x3",
        "matrix.pipeline_cycles=9",
        "matrix.min_stream_cycles=9",
    };
    for (size_t f = 0; f < 3; f++) {
        uint64_t base = signature(FLOWS[f], "");
        for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++)
            cr_assert_neq(signature(FLOWS[f], KEYS[i]), base, "%s: %s", FLOWS[f], KEYS[i]);
        if (f != 1) cr_assert_neq(signature(FLOWS[f], "matrix.switch_cycles=3"), base);
        uint64_t n = signature(FLOWS[f], "matrix.count=4"),
                 m = signature(FLOWS[f], "matrix.count=4,matrix.split=m"),
                 best = signature(FLOWS[f], "matrix.count=4,matrix.split=best");
        cr_assert(n != m && n != best && m != best, "%s", FLOWS[f]);
        for (size_t other = 0; other < f; other++)
            cr_assert_neq(signature(FLOWS[other], ""), base);
    }
}

Test(shapes, a_switch_where_nothing_is_loaded_is_refused) {
    sim_engine_t *engine = engine_new();
    for (int i = 0; i < 2; i++) {
        sim_matrix_spec_t spec =
            bench_spec(i == 0 ? SIM_OUTPUT_STATIONARY : SIM_WEIGHT_STATIONARY, 8, 8);
        spec.switch_cycles = 1;
        spec.weight_buffers = i == 0 ? 2 : 3;
        sim_matrix_t *unit = (sim_matrix_t *)&spec;
        cr_assert_eq(sim_matrix_create(engine, &spec, NULL, NULL, &unit), SIM_ERROR_INVALID_VALUE);
        cr_assert_null(unit);
    }
    sim_engine_destroy(engine);
}

/* ---- banks --------------------------------------------------------------- */

Test(shapes, banks_that_an_operand_meets_limit_the_stream) {
    sim_matrix_spec_t spec = bench_spec(SIM_WEIGHT_STATIONARY, 16, 16);
    for (uint64_t cycles = 49; cycles <= 51; cycles++) { /* two folds of columns: 16 + 2 x 50 */
        sim_engine_t *engine = engine_new();
        sim_share_t sram, acc;
        sim_share_init(&sram, engine, &spec.clock, 4096);
        sim_share_init(&acc, engine, &spec.clock, 4096);
        sim_matrix_op_t op = bench_op(50, 16, 32);
        op.in = (sim_bank_use_t){.bytes = 3200, .cycles = cycles + 8}; /* read once per fold */
        op.out = (sim_bank_use_t){.bytes = 12800, .cycles = 100};
        bench_run(engine, &spec, &sram, &acc, &op, 1);
        uint64_t own = 116, port = 2 * (cycles + 8);
        cr_assert_eq(op.op.end, (port > own ? port : own) * TICKS, "%d", (int)cycles);
        cr_assert_eq(cycles_of(&op.op, SIM_CAUSE_SRAM_CONFLICT), port > own ? port - own : 0);
        cr_assert_eq(sram.total_bytes, 2 * 3200 + 16 * 32);
        cr_assert_eq(acc.total_bytes, 12800);
        sim_engine_destroy(engine);
    }
}

/* ---- pieces of a stream, and loads beside the last one -------------------- */

/* Gemmini's command pairs: 16 cycles beside a load, max(rows, 7) without one. A line of an image is
 * a piece of its own; `lines` lines of `cols`, two folds of 16 x 16 weights. */
Test(shapes, a_load_passes_beside_the_last_piece) {
    static const struct {
        uint32_t lines, cols;
        uint64_t fold; /* from the second on */
    } CASES[] = {
        {1, 64, 4 * 16},           /* hidden behind a full piece */
        {1, 40, 2 * 16 + 16},      /* the last piece of 8 waits for the load */
        {1, 3, 16},                /* one piece, shorter than a load */
        {7, 7, 6 * 7 + 16},        /* a line each, 7 cycles at least */
        {7, 5, 6 * 7 + 16},        /* the least */
        {13, 23, 13 * 23 - 7 + 16} /* 16 + 7 of every line */
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        sim_matrix_spec_t spec = bench_spec(SIM_WEIGHT_STATIONARY, 16, 16);
        spec.stream_elems = 16;
        spec.min_stream_cycles = 7;
        spec.has_rows_apart = spec.loads_beside_piece = true;
        uint64_t end[2];
        for (uint32_t folds = 1; folds <= 2; folds++) {
            sim_matrix_op_t op = bench_op(CASES[i].lines * CASES[i].cols, 16 * folds * 5, 16);
            op.row_elems = CASES[i].cols;
            (void)bench_cycles(&spec, &op, 1);
            end[folds - 1] = op.op.end / TICKS;
        }
        cr_assert_eq(end[1] - end[0], 5 * CASES[i].fold, "%zu: %d", i, (int)(end[1] - end[0]));
        /* And from one operation to the next. */
        sim_matrix_op_t two[2];
        for (int o = 0; o < 2; o++) {
            two[o] = bench_op(CASES[i].lines * CASES[i].cols, 80, 16);
            two[o].row_elems = CASES[i].cols;
        }
        (void)bench_cycles(&spec, two, 2);
        cr_assert_eq(two[1].op.end / TICKS, end[1], "%zu", i);
    }
}

Test(shapes, a_load_and_its_piece_in_one_bank_take_turns) {
    sim_matrix_spec_t spec = bench_spec(SIM_WEIGHT_STATIONARY, 16, 16);
    spec.stream_elems = 16;
    spec.loads_beside_piece = true;
    sim_matrix_op_t apart = bench_op(64, 160, 32), half = apart, same = apart;
    half.same_bank = 1u << 15;
    same.same_bank = 1u << 16;
    (void)bench_cycles(&spec, &apart, 1);
    (void)bench_cycles(&spec, &half, 1);
    (void)bench_cycles(&spec, &same, 1);
    cr_assert_eq(same.op.end - apart.op.end, 20 * 16 * TICKS); /* of 20 loads, 16 cycles each */
    cr_assert_eq(half.op.end - apart.op.end, 10 * 16 * TICKS);
    cr_assert_eq(cycles_of(&same.op, SIM_CAUSE_SRAM_CONFLICT), 20 * 16);
    cr_assert_eq(cycles_of(&apart.op, SIM_CAUSE_SRAM_CONFLICT), 0);
    spec.loads_beside_piece = false; /* the whole stream is there for it */
    (void)bench_cycles(&spec, &same, 1);
    (void)bench_cycles(&spec, &apart, 1);
    cr_assert_eq(same.op.end, apart.op.end);
}
