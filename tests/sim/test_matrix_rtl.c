/* Other people's arrays as configurations of the unit: SCALE-Sim's counts and RTL. The data and
 * their sources: benchmarks/accuracy/data/README.md. */
#include "tests/sim/matrix_bench.h"

#define DATA VNPU_SOURCE_DIR "/benchmarks/accuracy/data/"

/* ---- SCALE-Sim ----------------------------------------------------------- */

static sim_dataflow_t dataflow_of(const char *name) {
    if (strcmp(name, "ws") == 0) return SIM_WEIGHT_STATIONARY;
    if (strcmp(name, "os") == 0) return SIM_OUTPUT_STATIONARY;
    cr_assert_str_eq(name, "is");
    return SIM_INPUT_STATIONARY;
}

/* Folds do not overlap, a partly used array costs as much as a full one, and the drain of results
 * is not counted (so it has a buffer of its own). What is reported is the index of the last cycle.
 */
Test(matrix_rtl, every_count_of_scale_sim) {
    FILE *file = fopen(DATA "scalesim.csv", "r");
    cr_assert_not_null(file);
    char line[512];
    cr_assert_not_null(fgets(line, sizeof line, file));
    cr_assert_eq(strncmp(line, "version,case,M,K,N,rows,cols,dataflow,total_cycles", 50), 0);
    int rows_seen = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned m, k, n, rows, cols;
        unsigned long cycles;
        char dataflow[3];
        cr_assert_eq(sscanf(line, "%*[^,],%*[^,],%u,%u,%u,%u,%u,%2[a-z],%lu", &m, &k, &n, &rows,
                            &cols, dataflow, &cycles),
                     7, "%s", line);
        sim_matrix_spec_t spec = bench_spec(dataflow_of(dataflow), rows, cols);
        spec.is_serial = spec.has_full_folds = true;
        if (spec.dataflow != SIM_OUTPUT_STATIONARY) spec.weight_buffers = 1;
        sim_matrix_op_t op = bench_op(m, k, n);
        (void)bench_cycles(&spec, &op, 1);
        cr_assert_eq(op.op.end / TICKS - 1, cycles, "%s", line);
        cr_assert_eq(sim_matrix_cold_cycles(&spec, m, k, n, op.rate) - 1, cycles, "%s", line);
        rows_seen++;
    }
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(rows_seen, 353);
}

/* The same array from keys. */
Test(matrix_rtl, scale_sim_in_keys) {
    sim_config_t *config =
        config_new("tiny", "matrix.overlap=false,matrix.partial_folds=full,matrix.weight_buffers=1,"
                           "matrix.dataflow=input_stationary,sram.latency_cycles=0");
    sim_matrix_spec_t spec;
    cr_assert_eq(sim_matrix_spec_from_config(config, &spec), SIM_OK);
    cr_assert_eq(sim_matrix_cold_cycles(&spec, 100, 100, 100, (sim_ratio_t){1, 1}),
                 13 * 13 * (100 + 2 * 8 + 8 - 2));
    sim_config_destroy(config);
}

/* ---- Gemmini, 16 x 16 int8, Verilator ------------------------------------ */

/* Commands to write-back: 16 cycles of front end, mesh registers and accumulator; outputs that stay
 * in the array pass the transposer, 16 rows, too. No fold streams for less than 4 cycles. */
static sim_matrix_spec_t gemmini_spec(sim_dataflow_t dataflow) {
    sim_matrix_spec_t spec = bench_spec(dataflow, 16, 16);
    spec.has_full_folds = true;
    spec.min_stream_cycles = 4;
    spec.pipeline_cycles = dataflow == SIM_OUTPUT_STATIONARY ? 32 : 16;
    return spec;
}

static uint64_t gemmini_cycles(sim_dataflow_t dataflow, uint32_t count, uint32_t rows,
                               bool is_reused) {
    static sim_matrix_op_t op[128];
    cr_assert_leq(count, 128);
    sim_matrix_spec_t spec = gemmini_spec(dataflow);
    for (uint32_t i = 0; i < count; i++) {
        op[i] = bench_op(rows, 16, 16);
        op[i].keep_weights = is_reused && i > 0;
    }
    return bench_cycles(&spec, op, count);
}

Test(matrix_rtl, every_compute_count_of_gemmini) {
    FILE *file = fopen(DATA "rtl_gemmini.csv", "r");
    cr_assert_not_null(file);
    char line[512];
    int checked = 0, bound_by_commands = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        bool is_os = strncmp(line, "os_", 3) == 0, is_reused = strncmp(line, "ws_reuse", 8) == 0;
        if (!is_os && strncmp(line, "ws_", 3) != 0) continue;
        const char *shape = strstr(line, "{n:"), *rows_at = strstr(line, "a_rows:");
        const char *end = strstr(line, "}\",");
        cr_assert(shape != NULL && end != NULL, "%s", line);
        unsigned count = 0, rows = 16;
        unsigned long cycles;
        cr_assert_eq(sscanf(shape, "{n:%u", &count), 1);
        if (rows_at != NULL) cr_assert_eq(sscanf(rows_at, "a_rows:%u", &rows), 1);
        cr_assert_eq(sscanf(end, "}\",%*u,%*u,%lu", &cycles), 1, "%s", line);
        uint64_t predicted = gemmini_cycles(is_os ? SIM_OUTPUT_STATIONARY : SIM_WEIGHT_STATIONARY,
                                            count, rows, is_reused);
        /* Short tiles on weights that stay need a command pair every 7.2 cycles, which is the
         * command queue's limit, not the array's. */
        if (is_reused && rows < 16 && count > 1) {
            cr_assert_leq(predicted, cycles, "%s", line);
            bound_by_commands++;
            continue;
        }
        cr_assert_eq(predicted, cycles, "%s", line);
        checked++;
    }
    cr_assert_eq(fclose(file), 0);
    cr_assert_geq(checked, 80);
    cr_assert_leq(bound_by_commands, 40);
}

Test(matrix_rtl, steady_state_of_gemmini_is_16_cycles_a_tile_pair) {
    for (int dataflow = SIM_WEIGHT_STATIONARY; dataflow <= SIM_OUTPUT_STATIONARY; dataflow++)
        for (uint32_t rows = 1; rows <= 16; rows += 5)
            cr_assert_eq(gemmini_cycles((sim_dataflow_t)dataflow, 64, rows, false) -
                             gemmini_cycles((sim_dataflow_t)dataflow, 63, rows, false),
                         16);
}

/* ---- OpenTPU (PyRTL) ----------------------------------------------------- */

/* Dispatch takes a cycle before the first vector; new weights shift in for S cycles once the switch
 * has crossed the array, S + 3 after dispatch; a vector's last column is out 2S cycles after it
 * entered: the skew of 2S - 2 and two registers. */
static sim_matrix_spec_t opentpu_spec(uint32_t size) {
    sim_matrix_spec_t spec = bench_spec(SIM_WEIGHT_STATIONARY, size, size);
    spec.has_full_folds = true;
    spec.gap_cycles = 1;
    spec.switch_cycles = size + 3;
    spec.pipeline_cycles = 2;
    return spec;
}

Test(matrix_rtl, opentpu_gaps) {
    for (uint32_t size = 8; size <= 32; size *= 2) {
        sim_matrix_spec_t spec = opentpu_spec(size);
        for (uint32_t vectors = 1; vectors < 4 * size; vectors += 3) {
            sim_matrix_op_t op[12];
            for (uint32_t i = 0; i < 12; i++) {
                op[i] = bench_op(vectors, size, size);
                op[i].keep_weights = i >= 6;
            }
            (void)bench_cycles(&spec, op, 12);
            uint64_t same = vectors + 1, next = same > 2 * size + 3 ? same : 2 * size + 3;
            cr_assert_eq(op[0].op.end, (size + same) * TICKS, "shifted in, then dispatched");
            for (uint32_t i = 1; i < 12; i++)
                cr_assert_eq(op[i].op.end - op[i - 1].op.end, (i < 6 ? next : same) * TICKS,
                             "S %u, L %u, %u", size, vectors, i);
            for (uint32_t i = 0; i < 12; i++) /* dispatched at 0, complete in cycle 2S + L */
                cr_assert_eq(op[i].op.done - op[i].op.end, 2 * size * TICKS);
        }
    }
}

/* The shift is hidden behind any work on the weights before, in one instruction or in several. */
Test(matrix_rtl, opentpu_hides_the_shift_behind_several_products) {
    sim_matrix_spec_t spec = opentpu_spec(16);
    sim_matrix_op_t op[8];
    for (uint32_t i = 0; i < 8; i++) {
        op[i] = bench_op(20, 16, 16);
        op[i].keep_weights = i % 2 == 1;
    }
    (void)bench_cycles(&spec, op, 8);
    for (uint32_t i = 2; i < 8; i++)
        cr_assert_eq(op[i].op.end - op[i - 1].op.end, 21 * TICKS, "%u", i);
}

/* ---- tinyTPU (VHDL) ------------------------------------------------------ */

/* K tiles on a batch of N rows take K + 2N + 33 cycles: one per row of K behind the first tile, the
 * weights of the next tile hidden. (What is left, N + 33, is the pipeline behind the array and the
 * activation unit.) */
Test(matrix_rtl, tinytpu_tiles) {
    for (uint32_t size = 8; size <= 16; size += 2) {
        sim_matrix_spec_t spec = bench_spec(SIM_WEIGHT_STATIONARY, size, size);
        for (uint32_t tiles = 1; tiles < 20; tiles++) {
            uint32_t k = tiles * size;
            sim_matrix_op_t op = bench_op(size, k, size);
            (void)bench_cycles(&spec, &op, 1);
            cr_assert_eq(op.op.end / TICKS + size + 33, k + 2 * size + 33);
            /* a weight column takes ceil(K / N) * N beside its instructions */
            op = bench_op(size, k - size / 2, 3 * size);
            (void)bench_cycles(&spec, &op, 1);
            uint64_t load = tiles == 1 ? size - size / 2 : size;
            cr_assert_eq(op.op.end / TICKS - load, 3 * k);
        }
    }
}

/* ---- axis_sa (SystemVerilog), output-stationary -------------------------- */

/* R x C there is C x R here: its results leave column by column. One tile takes K + R + 2C - 2 + LM
 * + LA cycles, first input to last output; the next one may follow after K. */
Test(matrix_rtl, axis_sa_tiles) {
    for (uint32_t r = 2; r <= 16; r += 7) {
        for (uint32_t c = 4; c <= 16; c += 4) {
            for (uint32_t k = c; k < 100; k += 13) {
                const uint32_t multiplier = 3, adder = 1;
                sim_matrix_spec_t spec = bench_spec(SIM_OUTPUT_STATIONARY, c, r);
                spec.pipeline_cycles = multiplier + adder;
                sim_matrix_op_t op[5];
                for (uint32_t i = 0; i < 5; i++)
                    op[i] = bench_op(c, k, r);
                (void)bench_cycles(&spec, op, 5);
                uint64_t tile = k + r + 2 * c - 2 + multiplier + adder;
                for (uint32_t i = 0; i < 5; i++) {
                    cr_assert_eq(op[i].op.end, (i + 1) * k * TICKS);
                    cr_assert_eq(op[i].op.done, (i * k + tile) * TICKS);
                }
            }
        }
    }
}
