/* The timing engine: units alone and in pairs, as programs, to the cycle. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev_asm.h"
#include "device/dev_place.h"
#include "device/dev_timing.h"

typedef struct bench {
    sim_config_t *config;
    dev_machine_t machine;
    dev_timing_t *timing;
} bench_t;

static void bench_open(bench_t *bench, const char *overrides) {
    sim_error_t err = {0};
    sim_status_t status =
        sim_config_load(VNPU_SOURCE_DIR "/configs/tiny.ini", overrides, &bench->config, &err);
    cr_assert_eq(status, SIM_OK, "%s", err.text);
    status = dev_machine_init(&bench->machine, bench->config, &err);
    cr_assert_eq(status, SIM_OK, "%s", err.text);
    status = dev_timing_create(&bench->machine, bench->config, &bench->timing, &err);
    cr_assert_eq(status, SIM_OK, "%s", err.text);
}

static void bench_close(bench_t *bench) {
    dev_timing_destroy(bench->timing);
    sim_config_destroy(bench->config);
}

/* Runs assembler text as one launch; the record is the caller's. */
static sim_status_t bench_try(bench_t *bench, const char *text, uint32_t grid, dev_record_t *record,
                              sim_error_t *err) {
    void *image;
    size_t bytes;
    dev_program_t *program;
    sim_status_t status = dev_asm_assemble(text, "test", &image, &bytes, err);
    cr_assert_eq(status, SIM_OK, "%s", err->text);
    status = dev_program_load(image, bytes, &bench->machine, &program, err);
    cr_assert_eq(status, SIM_OK, "%s", err->text);
    free(image);
    dev_launch_t launch = {.program = program, .grid = {grid, 1}};
    for (uint32_t c = 0; c < bench->machine.cls[0].workers; c++)
        launch.core_mask[c / 64] |= 1ull << (c % 64);
    for (uint32_t a = 0; a < VNPU_MAX_ARGS; a++)
        launch.arg[a] = 0x200000000000ull + a * 0x10000000ull;
    dev_place_options_t options = {.config_hash = 1};
    dev_placement_t placement;
    dev_place(&launch, &options, &placement);
    dev_job_t job = {.launch = &launch, .placement = &placement};
    status = dev_timing_run(bench->timing, &job, record, err);
    dev_program_destroy(program);
    return status;
}

/* Duration in core cycles; checks that every engine's causes sum to it. */
static uint64_t bench_cycles(bench_t *bench, const char *text, uint32_t grid) {
    dev_record_t record;
    sim_error_t err = {0};
    cr_assert_eq(bench_try(bench, text, grid, &record, &err), SIM_OK, "%s", err.text);
    for (uint32_t e = 0; e < dev_timing_engines(bench->timing); e++) {
        uint64_t sum = 0;
        for (uint32_t c = 0; c < SIM_CAUSE_COUNT; c++)
            sum += record.cause_ticks[e * SIM_CAUSE_COUNT + c];
        cr_assert_eq(sum, record.duration_ticks, "engine %u books %llu of %llu ticks", e,
                     (unsigned long long)sum, (unsigned long long)record.duration_ticks);
        cr_assert_eq(record.cause_ticks[e * SIM_CAUSE_COUNT + SIM_CAUSE_OTHER], 0);
    }
    uint64_t cycles = sim_clock_cycle_up(&bench->machine.cls[0].core_clock, record.duration_ticks);
    cr_assert_eq(sim_clock_tick(&bench->machine.cls[0].core_clock, cycles), record.duration_ticks,
                 "no whole number of cycles");
    dev_record_free(&record);
    return cycles;
}

#define HEAD                                                                                       \
    ".program pair\n.sem full\n.sem free\n.sram 16384\n.acc 4096\n"                                \
    ".ap a sram f32 base=0 dims=[16:16, 16:1]\n.ap b sram f32 base=1024 dims=[16:16, 16:1]\n"      \
    ".ap c acc f32 base=0 dims=[16:16, 16:1]\n"                                                    \
    ".ap x sram f32 base=4096 dims=[40:8, 8:1]\n.ap y sram f32 base=8192 dims=[40:8, 8:1]\n"       \
    ".ap t sram f32 base=4096 dims=[256:1]\n.ap u sram f32 base=12288 dims=[256:1]\n"

/* Cycles of every launch before its first operation: instance start, then issue of the first
 * instruction. */
static uint64_t lead_in(const bench_t *bench) {
    return bench->machine.cls[0].instance_cycles + bench->machine.cls[0].issue_cycles;
}

Test(timing, a_vector_operation_takes_its_closed_form) {
    bench_t bench;
    bench_open(&bench, NULL);
    uint64_t cycles = bench_cycles(&bench, HEAD ".queue vector0\nv_unary.copy dst=y src0=x\n", 1);
    uint64_t form =
        sim_vector_cycles(&bench.machine.cls[0].vector, 40, 8, SIM_VECTOR_CAST, SIM_VECTOR_NONE);
    cr_assert_eq(cycles, lead_in(&bench) + form + bench.machine.cls[0].vector.pipeline_cycles);
    bench_close(&bench);
}

/* 64 elements whose words all lie in one bank, written side by side. */
Test(timing, strides_that_meet_one_bank_take_a_cycle_a_word) {
    static const char *const TEXT =
        ".program one\n.sram 16384\n.acc 4096\n.ap x sram f32 base=0 dims=[64:%u]\n"
        ".ap y sram f32 base=8192 dims=[64:1]\n.queue vector0\nv_unary.copy dst=y src0=x\n";
    for (int has_conflicts = 0; has_conflicts < 2; has_conflicts++) {
        bench_t bench;
        bench_open(&bench, has_conflicts ? "sram.conflicts=strides,sram.banks=16,sram.word_bytes=4B"
                                         : "sram.banks=16,sram.word_bytes=4B");
        char text[400];
        (void)snprintf(text, sizeof text, TEXT, 16u);
        uint64_t cycles = bench_cycles(&bench, text, 1) - lead_in(&bench);
        uint64_t form = sim_vector_cycles(&bench.machine.cls[0].vector, 1, 64, SIM_VECTOR_CAST,
                                          SIM_VECTOR_NONE);
        uint64_t bytes = 2 * 64 * 4 / 64; /* through 64 bytes a cycle */
        if (form < bytes) form = bytes;
        if (has_conflicts) form = 64;
        cr_assert_eq(cycles, form + bench.machine.cls[0].vector.pipeline_cycles);
        (void)snprintf(text, sizeof text, TEXT, 17u);
        cycles = bench_cycles(&bench, text, 1) - lead_in(&bench);
        cr_assert_lt(cycles, 64);
        bench_close(&bench);
    }
}

Test(timing, a_product_takes_its_closed_form) {
    bench_t bench;
    bench_open(&bench, NULL);
    uint64_t cycles = bench_cycles(&bench, HEAD ".queue matrix0\nmm dst=c src0=a src1=b\n", 1);
    const sim_matrix_spec_t *spec = &bench.machine.cls[0].matrix;
    uint64_t form =
        sim_matrix_cold_cycles(spec, 16, 16, 16, bench.machine.cls[0].matrix_rate[VNPU_F32]);
    cr_assert_eq(cycles,
                 lead_in(&bench) + form + spec->rows + spec->cols - 2 + spec->pipeline_cycles);
    bench_close(&bench);
}

/* Blocks of 17 bytes: 16 x 16 by 16 x 16 in four folds, the streamed operand twice, the weights
 * once, a byte a cycle. */
Test(timing, blocks_take_their_bytes) {
    bench_t bench;
    bench_open(&bench, "matrix.rate.bfp8=1,matrix.rate.bfp4=2,matrix.operand_bytes_per_cycle=1 "
                       "B,sram.banks=64,acc.banks=64");
    static const struct {
        const char *name;
        uint64_t bytes;
    } CASES[] = {{"bfp8", 17}, {"bfp4", 9}};
    const sim_matrix_spec_t *spec = &bench.machine.cls[0].matrix;
    for (size_t i = 0; i < 2; i++) {
        char text[512];
        (void)snprintf(
            text, sizeof text,
            ".program one\n.sram 16384\n.acc 4096\n.ap a sram %s base=0 dims=[16:1, 1:1]\n"
            ".ap b sram %s base=1024 dims=[16:1, 1:1]\n.ap c acc f32 base=0 dims=[16:16, 16:1]\n"
            ".queue matrix0\nmm dst=c src0=a src1=b\n",
            CASES[i].name, CASES[i].name);
        uint64_t cycles = bench_cycles(&bench, text, 1), fold = 3 * 16 * CASES[i].bytes / 4;
        cr_assert_eq(cycles,
                     lead_in(&bench) + 8 + 4 * fold + spec->rows + spec->cols - 2 +
                         spec->pipeline_cycles,
                     "%llu", (unsigned long long)cycles);
        (void)snprintf(
            text, sizeof text,
            ".program one\n.sram 16384\n.arg in in\n.ap x dram %s arg=in base=0 dims=[5:1]\n"
            ".ap y sram %s base=0 dims=[5:1]\n.queue dma0\ndma_copy dst=y src0=x\n",
            CASES[i].name, CASES[i].name);
        dev_record_t record;
        sim_error_t err = {0};
        cr_assert_eq(bench_try(&bench, text, 1, &record, &err), SIM_OK, "%s", err.text);
        cr_assert_eq(record.dram_read_bytes, 5 * CASES[i].bytes);
        dev_record_free(&record);
    }
    bench_close(&bench);
}

/* 16 x 16 x 16 on other arrays; what follows the last step is skew, rest of a drain (8 rows) and
 * pipeline. */
Test(timing, a_product_takes_the_closed_form_of_its_array) {
    static const struct {
        const char *keys;
        uint64_t array, tail;
    } CASES[] = {
        {"matrix.dataflow=input_stationary", 8 + 4 * 16, 14},
        {"matrix.dataflow=output_stationary", 4 * 16, 14 + 8},
        {"matrix.step=8", 8 + 3 * 8 + 2, 14},
        {"matrix.count=2", 8 + 2 * 16, 14},
        {"matrix.count=8", 8 + 2 * 16, 14},                  /* 2 of 8 columns used */
        {"matrix.count=8,matrix.split=best", 8 + 8 + 4, 14}, /* n by 2, m by 4: loads show */
        {"matrix.overlap=false", 8 + 4 * (16 + 14), 0},
        {"matrix.f32=bf16x3", 2 * 8 + 4 * 3 * 16, 14},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char overrides[256];
        snprintf(overrides, sizeof overrides, "%s,sram.banks=64,acc.banks=64", CASES[i].keys);
        bench_t bench;
        bench_open(&bench, overrides);
        uint64_t cycles = bench_cycles(&bench, HEAD ".queue matrix0\nmm dst=c src0=a src1=b\n", 1);
        cr_assert_eq(cycles,
                     lead_in(&bench) + CASES[i].array + CASES[i].tail +
                         bench.machine.cls[0].matrix.pipeline_cycles,
                     "%s: %llu", CASES[i].keys,
                     (unsigned long long)(cycles - lead_in(&bench) -
                                          bench.machine.cls[0].matrix.pipeline_cycles));
        bench_close(&bench);
    }
}

/* 40 rows of 8 elements with a gap, and 256 in one run: runs and bytes of the destination count,
 * wherever it is. */
Test(timing, moves_inside_the_scratchpad_take_their_bytes) {
    bench_t bench;
    bench_open(&bench, "dma.run_cycles=3,dma.bytes_per_cycle=16 B");
    uint64_t lead = lead_in(&bench) + bench.machine.cls[0].dma.descriptor_cycles +
                    bench.machine.cls[0].dma.completion_cycles;
    cr_assert_eq(bench_cycles(&bench, HEAD ".queue dma0\ndma_fill dst=t value=1\n", 1),
                 lead + 3 + 256 * 4 / 16);
    cr_assert_eq(bench_cycles(&bench, HEAD ".queue dma0\ndma_copy dst=t src0=u\n", 1),
                 lead + 3 + 256 * 4 / 16);
    cr_assert_eq(bench_cycles(&bench,
                              HEAD ".ap gaps sram f32 base=8192 dims=[40:16, 8:1]\n"
                                   ".queue dma0\ndma_copy dst=gaps src0=x\n",
                              1),
                 lead + 40 * (3 + 2));
    bench_close(&bench);
}

Test(timing, independent_operations_take_the_maximum) {
    bench_t bench;
    bench_open(&bench, NULL);
    uint64_t vector = bench_cycles(&bench, HEAD ".queue vector0\nv_unary.copy dst=y src0=x\n", 1);
    uint64_t matrix = bench_cycles(&bench, HEAD ".queue matrix0\nmm dst=c src0=a src1=b\n", 1);
    uint64_t both = bench_cycles(
        &bench,
        HEAD ".queue matrix0\nmm dst=c src0=a src1=b\n.queue vector0\nv_unary.copy dst=y src0=x\n",
        1);
    cr_assert_eq(both, vector > matrix ? vector : matrix);
    bench_close(&bench);
}

Test(timing, dependent_operations_take_the_sum_and_the_semaphore) {
    bench_t bench;
    bench_open(&bench, NULL);
    uint64_t vector = bench_cycles(&bench, HEAD ".queue vector0\nv_unary.copy dst=y src0=x\n", 1);
    uint64_t matrix = bench_cycles(&bench, HEAD ".queue matrix0\nmm dst=c src0=a src1=b\n", 1);
    uint64_t both = bench_cycles(&bench,
                                 HEAD ".queue matrix0\nmm dst=c src0=a src1=b signal=full\n"
                                      ".queue vector0\nv_unary.copy dst=y src0=x wait=full\n",
                                 1);
    cr_assert_eq(both, vector + matrix - lead_in(&bench) + bench.machine.cls[0].semaphore_cycles);
    bench_close(&bench);
}

/* n tiles of 256 elements: dma0 fills one of `buffers`, vector0 copies it on. */
static uint64_t ring_cycles(bench_t *bench, int tiles, int buffers) {
    char text[1500];
    snprintf(text, sizeof text,
             HEAD ".ap in sram f32 base=4096 dims=[256:1] rot=0:%d:256\n"
                  ".queue dma0\nloop %d\ndma_fill dst=in value=1 wait=free signal=full\nendloop\n"
                  ".queue vector0\nsync signal=free+%d\nloop %d\nv_unary.copy dst=u src0=in "
                  "wait=full signal=free\nendloop\n",
             buffers, tiles, buffers, tiles);
    return bench_cycles(bench, text, 1);
}

Test(timing, one_buffer_is_serial_two_buffers_overlap) {
    bench_t bench;
    bench_open(&bench, NULL);
    uint64_t fill =
        bench_cycles(&bench, HEAD ".queue dma0\ndma_fill dst=t value=1\n", 1) - lead_in(&bench);
    uint64_t copy = bench_cycles(&bench, HEAD ".queue vector0\nv_unary.copy dst=u src0=t\n", 1) -
                    lead_in(&bench);
    uint64_t serial = ring_cycles(&bench, 9, 1) - ring_cycles(&bench, 8, 1);
    cr_assert_eq(serial, fill + copy + 2 * bench.machine.cls[0].semaphore_cycles,
                 "%llu, fill %llu, copy %llu", (unsigned long long)serial, (unsigned long long)fill,
                 (unsigned long long)copy);
    uint64_t overlapped = ring_cycles(&bench, 9, 2) - ring_cycles(&bench, 8, 2);
    uint64_t slower = fill > copy ? fill : copy;
    cr_assert_lt(overlapped, serial);
    cr_assert_leq(overlapped, slower + 2 * bench.machine.cls[0].semaphore_cycles);
    bench_close(&bench);
}

Test(timing, instances_run_one_after_the_other_on_a_core) {
    bench_t bench;
    bench_open(&bench, NULL);
    const char *text = HEAD ".queue vector0\nv_unary.copy dst=y src0=x\n";
    uint64_t one = bench_cycles(&bench, text, 1), three = bench_cycles(&bench, text, 3);
    cr_assert_eq(three, 3 * one);
    bench_close(&bench);
}

Test(timing, a_second_run_is_the_same) {
    bench_t bench;
    bench_open(&bench, NULL);
    const char *text = ".program load\n.arg x in\n.sram 8192\n.sem s\n.ap d dram f32 arg=x "
                       "dims=[16:100, 64:1]\n.ap t sram f32 base=0 dims=[16:64, 64:1]\n"
                       ".queue dma0\nloop 20\ndma_copy dst=t src0=d\nendloop\n";
    dev_record_t first, second;
    sim_error_t err = {0};
    cr_assert_eq(bench_try(&bench, text, 1, &first, &err), SIM_OK);
    cr_assert_eq(
        bench_try(&bench, HEAD ".queue vector0\nv_unary.copy dst=y src0=x\n", 1, &second, &err),
        SIM_OK);
    dev_record_free(&second);
    cr_assert_eq(bench_try(&bench, text, 1, &second, &err), SIM_OK);
    cr_assert(dev_record_equal(&first, &second, dev_timing_engines(bench.timing)));
    cr_assert_eq(first.dram_read_bytes, 20u * 16 * 64 * 4);
    dev_record_free(&first);
    dev_record_free(&second);
    bench_close(&bench);
}

Test(timing, a_missing_signal_is_a_deadlock_that_names_waiter_and_semaphore) {
    bench_t bench;
    bench_open(&bench, NULL);
    dev_record_t record;
    sim_error_t err = {0};
    sim_status_t status =
        bench_try(&bench,
                  HEAD ".queue vector0\nv_unary.copy dst=y src0=x wait=full\n.queue matrix0\nmm "
                       "dst=c src0=a src1=b signal=free\n",
                  1, &record, &err);
    cr_assert_eq(status, SIM_ERROR_DEADLOCK);
    cr_assert(strstr(err.text, "vector0") != NULL &&
                  strstr(err.text, "semaphore 0 (full), it is 0") != NULL,
              "%s", err.text);
    bench_close(&bench);
}

/* 16 x 16 results of four bytes at 40 bytes a cycle, as bf16; without the key the program is
 * refused. */
Test(timing, results_go_from_the_accumulator_to_dram) {
    static const char TEXT[] =
        ".program out\n.arg z out\n.acc 1024\n.ap c acc f32 dims=[16:16, 16:1]\n"
        ".ap far dram bf16 arg=z dims=[16:16, 16:1]\n.queue dma0\ndma_copy dst=far src0=c\n";
    bench_t bench;
    uint64_t cycles[2];
    for (int i = 0; i < 2; i++) {
        bench_open(&bench, i == 0 ? "dma.accumulator_bytes_per_cycle=4 B"
                                  : "dma.accumulator_bytes_per_cycle=8 B,energy.acc_byte=3");
        dev_record_t record;
        sim_error_t err = {0};
        cr_assert_eq(bench_try(&bench, TEXT, 1, &record, &err), SIM_OK, "%s", err.text);
        cr_assert_eq(record.dram_written_bytes, 16 * 16 * 2);
        if (i == 1) cr_assert_eq(record.energy_fj[VNPU_ENERGY_DMA], 3 * 16 * 16 * 4);
        dev_record_free(&record);
        cycles[i] = bench_cycles(&bench, TEXT, 1);
        bench_close(&bench);
    }
    /* One request: the accumulator is read, then the data goes. */
    cr_assert_eq(cycles[0] - cycles[1], 1024 / 4 - 1024 / 8);
    bench_open(&bench, NULL);
    void *image;
    size_t bytes;
    dev_program_t *program;
    sim_error_t err = {0};
    cr_assert_eq(dev_asm_assemble(TEXT, "test", &image, &bytes, &err), SIM_OK, "%s", err.text);
    cr_assert_eq(dev_program_load(image, bytes, &bench.machine, &program, &err),
                 SIM_ERROR_UNSUPPORTED);
    cr_assert_not_null(
        strstr(err.text, "dma_copy: the DMA engines of this device do not reach acc"), "%s",
        err.text);
    free(image);
    bench_close(&bench);
}

/* --- a cache in front of the DRAM
 * -------------------------------------------------------------------------------- */

/* Every core reads one row of 64 bytes again and again: without a cache all of it comes from one
 * channel. */
#define HOT_ROW                                                                                    \
    ".program hot\n.arg p in\n.sram 4096\n.ap far dram f32 arg=p dims=[16:1]\n.ap near sram f32 "  \
    "dims=[16:1]\n"                                                                                \
    ".queue dma0\nloop 64\ndma_copy dst=near src0=far\nendloop\n"
#define CACHED "cache.bytes=64 KiB,cache.line_bytes=128,cache.hit_cycles=5,energy.cache_byte=7"

static void hot_row(const char *overrides, dev_record_t *record) {
    bench_t bench;
    sim_error_t err = {0};
    bench_open(&bench, overrides);
    cr_assert_eq(bench_try(&bench, HOT_ROW, 4, record, &err), SIM_OK, "%s", err.text);
    uint64_t cached = 0;
    for (uint32_t e = 0; e < dev_timing_engines(bench.timing); e++)
        cached += record->cause_ticks[e * SIM_CAUSE_COUNT + SIM_CAUSE_CACHE];
    cr_assert_eq(cached > 0, record->cache_hits > 0);
    dev_record_free(record);
    bench_close(&bench);
}

Test(timing, a_hot_row_comes_out_of_the_cache) {
    dev_record_t without, with, again;
    hot_row("", &without);
    hot_row(CACHED, &with);
    cr_assert_eq(without.cache_hits + without.cache_misses, 0);
    cr_assert_eq(without.bus_read_bytes, 4 * 64 * 64);
    cr_assert(with.cache_misses == 1 && with.cache_hits == 4 * 64 - 1 && with.cache_evicted == 0);
    cr_assert_eq(with.bus_read_bytes, 128, "one line");
    cr_assert_eq(with.dram_read_bytes, without.dram_read_bytes, "what the patterns say");
    cr_assert_lt(with.duration_ticks, without.duration_ticks);
    cr_assert_eq(with.energy_fj[VNPU_ENERGY_DRAM], 7 * (4 * 64 * 64 + 128));
    hot_row(CACHED, &again);
    cr_assert_eq(again.duration_ticks, with.duration_ticks);
}

/* --- energy
 * -------------------------------------------------------------------------------------------------------
 */

#define ENERGY_PROGRAM                                                                             \
    ".program energy\n.arg p in\n.arg z out\n.sem full\n.sem product\n.sem done\n.sram "           \
    "16384\n.acc 4096\n"                                                                           \
    ".ap far dram f32 arg=p dims=[16:16, 16:1]\n.ap out dram f32 arg=z dims=[16:16, 16:1]\n"       \
    ".ap a sram f32 base=0 dims=[16:16, 16:1]\n.ap b sram f32 base=1024 dims=[16:16, 16:1]\n"      \
    ".ap c acc f32 base=0 dims=[16:16, 16:1]\n.ap y sram f32 base=8192 dims=[16:16, 16:1]\n"       \
    ".queue dma0\ndma_copy dst=a src0=far signal=full\ndma_copy dst=out src0=y wait=done\n"        \
    ".queue matrix0\nmm dst=c src0=a src1=b wait=full signal=product\n"                            \
    ".queue vector0\nv_unary.exp dst=y src0=c wait=product signal=done\n"

static void energy_of(const char *overrides, dev_record_t *record) {
    bench_t bench;
    sim_error_t err = {0};
    bench_open(&bench, overrides);
    cr_assert_eq(bench_try(&bench, ENERGY_PROGRAM, 1, record, &err), SIM_OK, "%s", err.text);
    dev_record_free(record);
    bench_close(&bench);
}

Test(timing, energy_is_the_sum_over_the_actions) {
    /* a 16 x 16 x 16 product on an 8 x 8 array: 4 folds; a row passes for both column folds,
     * results are written twice and read once; 1 KiB each */
    static const struct {
        const char *key;
        uint64_t count[VNPU_ENERGY_PARTS];
    } ACTIONS[] = {
        {"mac.f32", {4096, 0, 0, 0, 0}},
        {"vector.transcendental", {0, 256, 0, 0, 0}},
        {"sram_byte", {3 * 1024, 1024, 2 * 1024, 0, 0}},
        {"acc_byte", {3 * 1024, 1024, 0, 0, 0}},
        {"noc_byte_hop", {0, 0, 0, 2 * 1024, 0}},
        {"dram_read_byte", {0, 0, 0, 0, 1024}},
        {"dram_write_byte", {0, 0, 0, 0, 1024}},
        {"mac.bf16", {0}},
        {"mac.f16", {0}},
        {"mac.i8", {0}},
        {"vector.alu", {0}},
        {"vector.mul", {0}},
        {"vector.div", {0}},
        {"vector.cast", {0}},
        {"vector.reduce", {0}},
        {"link_byte", {0}},
    };
    uint64_t sum[VNPU_ENERGY_PARTS] = {0};
    char all[1024] = "";
    dev_record_t record;
    for (uint32_t i = 0; i < sizeof ACTIONS / sizeof ACTIONS[0]; i++) {
        char one[64];
        uint64_t each = 1000 + i;
        snprintf(one, sizeof one, "energy.%s=%llu", ACTIONS[i].key, (unsigned long long)each);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i > 0 ? "," : "", one);
        energy_of(one, &record);
        for (uint32_t p = 0; p < VNPU_ENERGY_PARTS; p++) {
            cr_assert_eq(record.energy_fj[p], each * ACTIONS[i].count[p],
                         "%s, part %u: %llu actions", ACTIONS[i].key, p,
                         (unsigned long long)(record.energy_fj[p] / each));
            sum[p] += record.energy_fj[p];
        }
    }
    energy_of(all, &record);
    cr_assert_arr_eq(record.energy_fj, sum, sizeof sum);
    energy_of("energy.mac.bf16=11,energy.mac.f32=13,matrix.f32=bf16x3",
              &record); /* three bf16 products each */
    cr_assert_eq(record.energy_fj[VNPU_ENERGY_MATRIX], 11 * 3 * 4096);
    energy_of("energy.dram_activate=7", &record);
    cr_assert_eq(record.energy_fj[VNPU_ENERGY_DRAM],
                 7 * (record.row_closed + record.row_conflicts));
    cr_assert_gt(record.row_closed, 0);
    energy_of("energy.dram_refresh=7,dram.trefi=1000,dram.trfc=100", &record);
    cr_assert_gt(record.energy_fj[VNPU_ENERGY_DRAM], 0);
    cr_assert_eq(record.energy_fj[VNPU_ENERGY_DRAM] % 7, 0);
    energy_of("", &record);
    for (uint32_t p = 0; p < VNPU_ENERGY_PARTS; p++)
        cr_assert_eq(record.energy_fj[p], 0);
}

#define RING                                                                                       \
    "noc.type=ring,noc.columns=8,noc.latency_cycles=0,noc.inject_cycles=3,noc.hop_cycles=7,noc."   \
    "eject_cycles=2,"                                                                              \
    "energy.noc_byte_hop=1000,noc.memory_nodes="

Test(timing, bytes_pay_for_the_hops_that_they_take) {
    dev_record_t record;
    energy_of(RING "3:0", &record);
    cr_assert_eq(record.energy_fj[VNPU_ENERGY_NOC], 1000 * 3 * 2048);
    energy_of(RING "5:0", &record); /* the other way round */
    cr_assert_eq(record.energy_fj[VNPU_ENERGY_NOC], 1000 * 3 * 2048);
    energy_of(RING "5:0,noc.networks=2", &record); /* one way: three hops back, five there */
    cr_assert_eq(record.energy_fj[VNPU_ENERGY_NOC], 1000 * (3 + 5) * 1024);
}

Test(timing, dma_queues_take_the_networks_in_turn) {
    for (uint32_t queue = 0; queue < 2; queue++) {
        char text[512];
        bench_t bench;
        dev_record_t record;
        sim_error_t err = {0};
        snprintf(text, sizeof text,
                 ".program write\n.arg z out\n.sram 4096\n.ap out dram f32 arg=z dims=[256:1]\n"
                 ".ap y sram f32 base=0 dims=[256:1]\n.queue dma%u\ndma_copy dst=out src0=y\n",
                 queue);
        bench_open(&bench, RING "1:0,noc.networks=2");
        cr_assert_eq(bench_try(&bench, text, 1, &record, &err), SIM_OK, "%s", err.text);
        cr_assert_eq(record.energy_fj[VNPU_ENERGY_NOC], 1000 * 1024 * (queue == 0 ? 1 : 7));
        dev_record_free(&record);
        bench_close(&bench);
    }
}

Test(timing, core_clock_doubles_core_bound_speed) {
    bench_t slow, fast;
    bench_open(&slow, NULL);
    bench_open(&fast, "core.clock=2 GHz");
    dev_record_t a, b;
    sim_error_t err = {0};
    const char *text = HEAD ".queue matrix0\nmm dst=c src0=a src1=b\n";
    cr_assert_eq(bench_try(&slow, text, 1, &a, &err), SIM_OK);
    cr_assert_eq(bench_try(&fast, text, 1, &b, &err), SIM_OK);
    cr_assert_eq(a.duration_ticks, 2 * b.duration_ticks);
    dev_record_free(&a);
    dev_record_free(&b);
    bench_close(&slow);
    bench_close(&fast);
}

Test(timing, keep_saves_the_preload_only_of_the_same_weights) {
    bench_t bench;
    bench_open(&bench, NULL);
    const char *head =
        HEAD ".ap a8 sram f32 base=0 dims=[16:8, 8:1]\n.ap b8 sram f32 base=1024 dims=[8:8, 8:1]\n"
             ".ap d8 sram f32 base=2048 dims=[8:8, 8:1]\n.ap c8 acc f32 base=0 dims=[16:8, "
             "8:1]\n.queue matrix0\n";
    char text[2000];
    uint64_t cycles[3];
    const char *const second[] = {"mm dst=c8 src0=a8 src1=b8", "mm keep dst=c8 src0=a8 src1=b8",
                                  "mm keep dst=c8 src0=a8 src1=d8"};
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "%smm dst=c8 src0=a8 src1=b8\n%s\n", head, second[i]);
        cycles[i] = bench_cycles(&bench, text, 1);
    }
    bench_close(&bench);
    bench_open(&bench, "matrix.weight_buffers=1"); /* the preload shows: nothing hides it */
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "%smm dst=c8 src0=a8 src1=b8\n%s\n", head, second[i]);
        uint64_t one = bench_cycles(&bench, text, 1);
        cr_assert_geq(one, cycles[i]);
        cycles[i] = one;
    }
    cr_assert_lt(cycles[1], cycles[0]);
    cr_assert_eq(cycles[2], cycles[0]);
    bench_close(&bench);
}

/* Two trips, the second clipped away: its signal must wait for the first one's product. */
Test(timing, an_empty_instruction_keeps_its_place) {
    bench_t bench;
    bench_open(&bench, NULL);
    const char *head = HEAD ".ap ac sram f32 base=0 dims=[16:16, 16:1] clip=1:16:loop:0\n"
                            ".ap bc sram f32 base=1024 dims=[16:16, 16:1] clip=0:16:loop:0\n";
    char text[2000];
    snprintf(text, sizeof text,
             "%s.queue matrix0\nloop 1\nmm dst=c src0=ac src1=bc notfirst=0 last=0 "
             "signal=full\nendloop\n"
             ".queue vector0\nv_unary.copy dst=y src0=x wait=full\n",
             head);
    uint64_t whole = bench_cycles(&bench, text, 1);
    snprintf(text, sizeof text,
             "%s.queue matrix0\nloop 2\nmm dst=c src0=ac src1=bc notfirst=0 first=0\n"
             "mm dst=c src0=ac src1=bc notfirst=0 last=0 signal=full\nendloop\n"
             ".queue vector0\nv_unary.copy dst=y src0=x wait=full\n",
             head);
    cr_assert_eq(bench_cycles(&bench, text, 1), whole);
    bench_close(&bench);
}

/* A column that is written to the words of three neighbours is read once, by an engine whose
 * commands are rows. */
Test(timing, what_repeats_in_a_word_is_read_once) {
    static const char *const options[] = {"dma.command_runs=16", "dma.command_runs=0"};
    for (int i = 0; i < 2; i++) {
        bench_t bench;
        bench_open(&bench, options[i]);
        dev_record_t record;
        sim_error_t err = {0};
        uint32_t word = bench.machine.cls[0].sram_banks.word_bytes, columns = 20;
        char text[512];
        cr_assert_geq(word, 9);
        snprintf(
            text, sizeof text,
            ".program p\n.arg a in\n.sram 4096\n.ap near sram i8 base=%u dims=[%u:%u, 3:-%u, 3:1]\n"
            ".ap far dram i8 arg=a dims=[%u:3, 3:0, 3:1]\n.queue dma0\n dma_copy dst=near "
            "src0=far\n",
            2 * word, columns, word, word - 3, columns);
        cr_assert_eq(bench_try(&bench, text, 1, &record, &err), SIM_OK, "%s", err.text);
        cr_assert_eq(record.dram_read_bytes, 3 * columns * (i == 0 ? 1u : 3u), "%s: %llu",
                     options[i], (unsigned long long)record.dram_read_bytes);
        dev_record_free(&record);
        bench_close(&bench);
    }
}

/* A copy into blocks takes the runs of its source. */
Test(timing, blocks_do_not_cut_runs) {
    bench_t bench;
    bench_open(&bench, NULL);
    static const char text[] =
        ".program p\n.arg a in\n.sram 8192\n.ap far dram i8 arg=a dims=[32:256, 64:1]\n"
        ".ap near sram i8 dims=[32:%s]\n.queue dma0\n dma_copy dst=near src0=far\n";
    char plain[400], blocks[400];
    snprintf(plain, sizeof plain, text, "64, 64:1");
    snprintf(blocks, sizeof blocks, text, "16, 4:512, 16:1");
    cr_assert_eq(bench_cycles(&bench, blocks, 1), bench_cycles(&bench, plain, 1));
    bench_close(&bench);
}

/* A padded copy reads what exists; a tile that lies outside altogether is a fill. */
Test(timing, a_window_reads_what_exists_of_it) {
    bench_t bench;
    bench_open(&bench, NULL);
    static const char head[] = ".program p\n.arg a in\n.sram 4096\n"
                               ".ap near sram f32 dims=[4:16, 16:1]\n.ap far dram f32 arg=a "
                               "base=-%d dims=[4:16, 16:1] loop0=+32 "
                               "clip=0:6:loop:0:2:%u\n.queue dma0\n loop %u\n dma_copy dst=near "
                               "src0=far pad value=1\n endloop\n";
    /* rows of 64 bytes, tiles of 4 rows, 2 apart: tile i has rows 2 i - pad .. 2 i - pad + 3 of 6
     */
    static const uint32_t cases[][3] = {
        {0, 3, 4 + 4 + 2}, {1, 4, 3 + 4 + 3 + 1}, {4, 5, 0 + 2 + 4 + 4 + 2}, {4, 1, 0}};
    for (uint32_t i = 0; i < 4; i++) {
        char text[512];
        dev_record_t record;
        sim_error_t err = {0};
        snprintf(text, sizeof text, head, (int)(64 * cases[i][0]), cases[i][0], cases[i][1]);
        cr_assert_eq(bench_try(&bench, text, 1, &record, &err), SIM_OK, "%s", err.text);
        cr_assert_eq(record.dram_read_bytes, 64 * cases[i][2], "case %u: %llu bytes", i,
                     (unsigned long long)record.dram_read_bytes);
        cr_assert_gt(record.duration_ticks, 0);
        dev_record_free(&record);
    }
    bench_close(&bench);
}
