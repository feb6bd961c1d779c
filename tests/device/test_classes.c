/* Classes of cores: the machine, which class a launch goes to, and that it takes that class's time.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev_machine.h"
#include "device/dev_program.h"
#include "device/vnpu_machine.h"
#include "device/vnpu_profile.h"
#include "sim/sim_op.h"
#include "tests/device/dev_test_chip.h"

/* Core 0: the tiny chip's. Cores 1 to 3, of which two compute: four times the lanes, half the
 * clock, no matrix engine, one DMA queue, half the scratchpad. */
#define CHIP                                                                                       \
    "include = tiny.ini\n[grid]\nclass = cube\n[class vec]\ncount = 3\nworkers = 2\n"              \
    "core.clock = 500 MHz\ncore.issue_cycles = 2\ncore.instance_cycles = 30\nmatrix.count = 0\n"   \
    "vector.lanes = 32\nsram.bytes = 32 KiB\nsram.banks = 32\ndma.queues = 1\n"                    \
    "energy.vector.cast = 1000\n"
#define HEAD                                                                                       \
    ".sram 16384\n.ap a sram f32 base=0 dims=[16:16, 16:1]\n"                                      \
    ".ap b sram f32 base=1024 dims=[16:16, 16:1]\n"                                                \
    ".ap x sram f32 base=4096 dims=[40:32, 32:1]\n"
#define ACC     ".acc 4096\n.ap c acc f32 base=0 dims=[16:16, 16:1]\n"
#define PRODUCT ".program product\n" HEAD ACC ".queue matrix0\nmm dst=c src0=a src1=b\n"
#define VECTOR  ".program vector\n" HEAD ".queue vector0\nv_unary.copy dst=x src0=x\n"

typedef struct rig {
    bench_t bench;
    dev_machine_t machine;
} rig_t;

static void rig_open(rig_t *rig, const char *overrides, dev_chip_options_t options) {
    sim_error_t err = {0};
    sim_config_t *config;
    memset(rig, 0, sizeof *rig);
    cr_assert_eq(
        sim_config_parse(CHIP, VNPU_SOURCE_DIR "/configs/own.ini", overrides, &config, &err),
        SIM_OK, "%s", err.text);
    cr_assert_eq(dev_machine_init(&rig->machine, config, &err), SIM_OK, "%s", err.text);
    bench_start(&rig->bench, config, options);
}

static void rig_close(rig_t *rig) {
    bench_close(&rig->bench);
}

static vnpu_completion_t send(rig_t *rig, vnpu_packet_t *packet, const void *in, void *out) {
    rig->bench.clock += 1000000000; /* long after everything before it */
    return bench_send(&rig->bench, packet, in, out);
}

static vnpu_completion_t load(rig_t *rig, const char *text) {
    rig->bench.clock += 1000000000;
    return bench_load(&rig->bench, text);
}

static vnpu_completion_t launch(rig_t *rig, uint64_t module, uint32_t grid, uint32_t core_class,
                                uint64_t mask) {
    vnpu_packet_t packet = {.type = VNPU_PACKET_KERNEL};
    packet.u.kernel = (vnpu_packet_kernel_t){.module = (uint32_t)module,
                                             .core_class = (uint16_t)core_class,
                                             .grid = {grid, 1},
                                             .core_mask = mask};
    return send(rig, &packet, NULL, NULL);
}

/* Simulated time of the program, without the command path. */
static uint64_t time_of(rig_t *rig, uint64_t module, uint32_t grid, uint32_t core_class,
                        uint64_t mask) {
    vnpu_completion_t done = launch(rig, module, grid, core_class, mask);
    cr_assert_eq(done.status, SIM_OK);
    return done.end_ps - done.start_ps - rig->machine.completion_ps;
}

static const char *last_error(rig_t *rig, char text[2048]) {
    vnpu_packet_t packet = {.type = VNPU_PACKET_ERROR_INFO};
    vnpu_completion_t done = send(rig, &packet, NULL, NULL);
    cr_assert_leq(done.value[0], 2048);
    bench_read(&rig->bench, VNPU_BLOB_ERROR, done.value[0], text);
    return text;
}

static void expect_refusal(rig_t *rig, vnpu_completion_t done, sim_status_t status,
                           const char *part) {
    char text[2048];
    cr_assert_eq(done.status, (int32_t)status, "status %d", done.status);
    cr_assert_not_null(strstr(last_error(rig, text), part), "'%s' lacks '%s'", text, part);
}

/* ---- the machine ---- */

Test(classes, the_machine_numbers_cores_class_after_class) {
    rig_t rig;
    rig_open(&rig, NULL, (dev_chip_options_t){0});
    const dev_machine_t *m = &rig.machine;
    cr_assert_eq(m->num_classes, 2);
    cr_assert_eq(m->cores, 4);
    cr_assert_str_eq(m->cls[0].name, "cube");
    cr_assert_str_eq(m->cls[1].name, "vec");
    cr_assert_eq(m->cls[1].first_core, 1);
    cr_assert_eq(m->cls[1].cores, 3);
    cr_assert_eq(m->cls[1].workers, 2);
    cr_assert_eq(m->cls[1].core_clock.hz, 500000000);
    cr_assert_eq(m->cls[1].vector.clock.hz, 500000000);
    cr_assert(m->cls[0].has_matrix);
    cr_assert_not(m->cls[1].has_matrix);
    cr_assert_eq(m->cls[1].matrix_rate[VNPU_F32].num, 0);
    cr_assert_eq(m->cls[1].sram_bytes, 32 << 10);
    cr_assert_eq(dev_machine_class_of(m, 0), 0);
    for (uint32_t c = 1; c < 4; c++)
        cr_assert_eq(dev_machine_class_of(m, c), 1);
    rig_close(&rig);
}

Test(classes, a_client_reads_a_description_of_each) {
    rig_t rig;
    rig_open(&rig, NULL, (dev_chip_options_t){0});
    vnpu_packet_t packet = {.type = VNPU_PACKET_MACHINE};
    vnpu_machine_t machine[2];
    cr_assert_eq(send(&rig, &packet, NULL, NULL).value[0], sizeof machine);
    bench_read(&rig.bench, VNPU_BLOB_MACHINE, sizeof machine, machine);
    for (uint32_t c = 0; c < 2; c++) {
        cr_assert_eq(machine[c].size, sizeof machine[c]);
        cr_assert_eq(machine[c].num_classes, 2);
        cr_assert_eq(machine[c].class_index, c);
        cr_assert_eq(machine[c].chip_cores, 4);
    }
    cr_assert_eq(machine[0].matrix_rows, 8);
    cr_assert_eq(machine[1].matrix_rows, 0);
    cr_assert_eq(machine[1].matrix_rate_num[VNPU_F32], 0);
    cr_assert_eq(machine[1].first_core, 1);
    cr_assert_eq(machine[1].workers, 2);
    cr_assert_eq(machine[1].vector_lanes, 32);
    cr_assert_eq(machine[1].core_clock_hz, 500000000);
    cr_assert_str_eq(machine[1].class_name, "vec");
    rig_close(&rig);
}

Test(classes, engines_exist_where_the_class_has_them) {
    static const char *const NAMES[] = {
        "core0.matrix", "core0.vector", "core0.dma0", "core0.dma1",   "core1.vector",
        "core1.dma0",   "core2.vector", "core2.dma0", "core3.vector", "core3.dma0"};
    rig_t rig;
    rig_open(&rig, NULL, (dev_chip_options_t){0});
    uint64_t vector = load(&rig, VECTOR).value[0];
    vnpu_packet_t packet = {.type = VNPU_PACKET_PROFILE_START};
    cr_assert_eq(send(&rig, &packet, NULL, NULL).status, SIM_OK);
    uint64_t ps = time_of(&rig, vector, 1, 0, 4); /* core 2 */
    packet = (vnpu_packet_t){.type = VNPU_PACKET_PROFILE_STOP};
    uint64_t bytes = send(&rig, &packet, NULL, NULL).value[0];
    uint8_t *blob = malloc(bytes);
    bench_read(&rig.bench, VNPU_BLOB_PROFILE, bytes, blob);
    const vnpu_profile_header_t *header = (const void *)blob;
    cr_assert_eq(header->num_engines, 10);
    const char *name = (const char *)blob + header->names_offset;
    for (uint32_t e = 0; e < 10; e++, name += strlen(name) + 1)
        cr_assert_str_eq(name, NAMES[e]);
    /* Every engine's causes sum to the launch; only core 2's vector engine worked. */
    const uint8_t *causes = blob + header->records_offset + sizeof(vnpu_profile_record_t);
    for (uint32_t e = 0; e < 10; e++) {
        uint64_t cause[SIM_CAUSE_COUNT], sum = 0;
        memcpy(cause, causes + e * sizeof cause, sizeof cause);
        for (uint32_t c = 0; c < SIM_CAUSE_COUNT; c++)
            sum += cause[c];
        cr_assert_eq(sum, ps, "%s", NAMES[e]);
        cr_assert_eq(cause[SIM_CAUSE_USEFUL] > 0, e == 6, "%s", NAMES[e]);
    }
    free(blob);
    rig_close(&rig);
}

/* ---- time ---- */

Test(classes, an_operation_takes_the_closed_form_of_its_class) {
    rig_t rig;
    rig_open(&rig, NULL, (dev_chip_options_t){0});
    uint64_t product = load(&rig, PRODUCT).value[0], vector = load(&rig, VECTOR).value[0];
    const dev_class_t *cube = &rig.machine.cls[0], *vec = &rig.machine.cls[1];
    uint64_t mm = sim_matrix_cold_cycles(&cube->matrix, 16, 16, 16, cube->matrix_rate[VNPU_F32]) +
                  cube->matrix.rows + cube->matrix.cols - 2 + cube->matrix.pipeline_cycles;
    uint64_t lead[2] = {cube->instance_cycles + cube->issue_cycles,
                        vec->instance_cycles + vec->issue_cycles};
    cr_assert_neq(lead[0], lead[1]);
    cr_assert_eq(time_of(&rig, product, 1, 0, 0), (lead[0] + mm) * 1000);
    uint64_t form[2];
    for (uint32_t c = 0; c < 2; c++) {
        const sim_vector_spec_t *spec = &rig.machine.cls[c].vector;
        form[c] = lead[c] + spec->pipeline_cycles +
                  sim_vector_cycles(spec, 40, 32, SIM_VECTOR_CAST, SIM_VECTOR_NONE);
    }
    cr_assert_eq(time_of(&rig, vector, 1, 1, 0), form[0] * 1000, "1 GHz");
    cr_assert_eq(time_of(&rig, vector, 1, 2, 0), form[1] * 2000, "500 MHz");
    cr_assert_eq(time_of(&rig, vector, 1, 0, 2), form[1] * 2000, "by its mask");
    cr_assert_eq(time_of(&rig, vector, 2, 2, 0), form[1] * 2000, "two workers, side by side");
    cr_assert_gt(time_of(&rig, vector, 2, 0, 2), form[1] * 2000, "one of them");
    cr_assert_gt(time_of(&rig, vector, 3, 2, 0), form[1] * 2000, "the third core does not compute");
    rig_close(&rig);
}

Test(classes, a_chip_of_one_class_keeps_its_time_beside_another) {
    rig_t rig;
    rig_open(&rig, NULL, (dev_chip_options_t){0});
    sim_config_t *config;
    sim_error_t err = {0};
    cr_assert_eq(sim_config_load(VNPU_SOURCE_DIR "/configs/tiny.ini", NULL, &config, &err), SIM_OK);
    rig_t alone = {.bench.clock = 0};
    cr_assert_eq(dev_machine_init(&alone.machine, config, &err), SIM_OK);
    bench_start(&alone.bench, config, (dev_chip_options_t){0});
    const char *texts[2] = {PRODUCT, VECTOR};
    for (uint32_t t = 0; t < 2; t++) {
        uint64_t with = load(&rig, texts[t]).value[0], without = load(&alone, texts[t]).value[0];
        cr_assert_eq(time_of(&rig, with, 1, 0, 0), time_of(&alone, without, 1, 0, 0));
    }
    rig_close(&alone);
    rig_close(&rig);
}

Test(classes, reuse_keeps_the_classes_apart) {
    rig_t rig;
    rig_open(&rig, NULL, (dev_chip_options_t){.reuse = DEV_REUSE_CHECK}); /* a wrong hit aborts */
    uint64_t vector = load(&rig, VECTOR).value[0];
    uint64_t a = time_of(&rig, vector, 1, 1, 0), b = time_of(&rig, vector, 1, 2, 0);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(time_of(&rig, vector, 1, 1, 0), a);
        cr_assert_eq(time_of(&rig, vector, 1, 2, 0), b);
    }
    rig_close(&rig);
}

/* Energy of a launch, dynamic: the class's own table. */
static uint64_t energy_of(rig_t *rig, uint64_t module, uint32_t core_class) {
    vnpu_packet_t packet = {.type = VNPU_PACKET_PROFILE_START};
    cr_assert_eq(send(rig, &packet, NULL, NULL).status, SIM_OK);
    (void)time_of(rig, module, 1, core_class, 0);
    packet = (vnpu_packet_t){.type = VNPU_PACKET_PROFILE_STOP};
    uint64_t bytes = send(rig, &packet, NULL, NULL).value[0];
    uint8_t *blob = malloc(bytes);
    bench_read(&rig->bench, VNPU_BLOB_PROFILE, bytes, blob);
    vnpu_profile_record_t record;
    memcpy(&record, blob + ((const vnpu_profile_header_t *)(const void *)blob)->records_offset,
           sizeof record);
    free(blob);
    return record.energy_fj[VNPU_ENERGY_VECTOR];
}

Test(classes, energy_is_that_of_the_class) {
    rig_t rig;
    rig_open(&rig, "energy.vector.cast=10,energy.sram_byte=0,energy.acc_byte=0",
             (dev_chip_options_t){0});
    uint64_t vector = load(&rig, VECTOR).value[0];
    cr_assert_eq(energy_of(&rig, vector, 1), 40 * 32 * 10);
    cr_assert_eq(energy_of(&rig, vector, 2), 40 * 32 * 1000);
    rig_close(&rig);
}

/* ---- which class ---- */

Test(classes, a_program_without_a_mask_goes_to_the_first_class_that_runs_it) {
    rig_t rig;
    rig_open(&rig, NULL, (dev_chip_options_t){0});
    uint64_t vector = load(&rig, VECTOR).value[0];
    cr_assert_eq(time_of(&rig, vector, 1, 0, 0), time_of(&rig, vector, 1, 1, 0));
    rig_close(&rig);
    rig_open(&rig, "matrix.count=0,class vec.matrix.count=1,class vec.vector.lanes=8",
             (dev_chip_options_t){0});
    uint64_t product = load(&rig, PRODUCT).value[0];
    cr_assert_eq(time_of(&rig, product, 1, 0, 0), time_of(&rig, product, 1, 2, 0));
    vector = load(&rig, VECTOR).value[0];
    cr_assert_eq(time_of(&rig, vector, 1, 0, 0), time_of(&rig, vector, 1, 1, 0));
    rig_close(&rig);
}

Test(classes, what_the_cores_lack_is_refused_by_name) {
    rig_t rig;
    rig_open(&rig, NULL, (dev_chip_options_t){0});
    uint64_t product = load(&rig, PRODUCT).value[0], vector = load(&rig, VECTOR).value[0];
    expect_refusal(&rig, launch(&rig, product, 1, 2, 0), SIM_ERROR_UNSUPPORTED,
                   "cores 1 to 3 (class vec) cannot run product: offset 0x80: queue matrix0: the "
                   "cores have no such engine");
    expect_refusal(&rig, launch(&rig, product, 1, 0, 6), SIM_ERROR_UNSUPPORTED, "(class vec)");
    expect_refusal(&rig, launch(&rig, vector, 1, 0, 3), SIM_ERROR_INVALID_VALUE,
                   "core mask 0x3 must name cores 0 to 0 (class cube) and no others");
    expect_refusal(&rig, launch(&rig, vector, 1, 0, 8), SIM_ERROR_INVALID_VALUE,
                   "core mask 0x8 must name cores 1 to 2 (class vec)");
    expect_refusal(&rig, launch(&rig, vector, 1, 1, 2), SIM_ERROR_INVALID_VALUE, "(class cube)");
    expect_refusal(&rig, launch(&rig, vector, 1, 0, 1ull << 63), SIM_ERROR_INVALID_VALUE,
                   "(class vec)");
    expect_refusal(&rig, launch(&rig, vector, 1, 3, 0), SIM_ERROR_INVALID_VALUE, "class 2 of 2");
    cr_assert_eq(launch(&rig, vector, 1, 0, 6).status, SIM_OK, "none of that stays");
    uint64_t wide = load(&rig, ".program wide\n.sram 49152\n.ap x sram f32 dims=[8:1]\n"
                               ".queue dma0\ndma_fill dst=x value=1\n")
                        .value[0];
    cr_assert_eq(launch(&rig, wide, 1, 0, 0).status, SIM_OK);
    expect_refusal(&rig, launch(&rig, wide, 1, 2, 0), SIM_ERROR_INVALID_IMAGE,
                   "needs 49152 bytes of SRAM, a core has 32768");
    uint64_t acc =
        load(&rig, ".program acc\n" HEAD ACC ".queue vector0\nv_unary.copy dst=c src0=a\n")
            .value[0];
    expect_refusal(&rig, launch(&rig, acc, 1, 2, 0), SIM_ERROR_INVALID_IMAGE,
                   "needs 4096 bytes of accumulator, a core has 0");
    uint64_t dma1 = load(&rig, ".program two\n.sram 64\n.ap x sram f32 dims=[8:1]\n"
                               ".queue dma1\ndma_fill dst=x value=1\n")
                        .value[0];
    expect_refusal(&rig, launch(&rig, dma1, 1, 2, 0), SIM_ERROR_INVALID_IMAGE,
                   "queue dma1: a core has 1 of that kind");
    rig_close(&rig);
}

/* vector.passes.* = 0: the engine has no such functions. */
Test(classes, a_program_goes_where_its_functions_are) {
    rig_t rig;
    rig_open(&rig, "vector.passes.transcendental=0,class vec.vector.passes.transcendental=2",
             (dev_chip_options_t){0});
    uint64_t exp =
        load(&rig, ".program exp\n" HEAD ".queue vector0\nv_unary.exp dst=x src0=x\n").value[0];
    uint64_t pow = load(&rig, ".program pow\n" HEAD ".queue vector0\n"
                              "v_binary.add.pow dst=x src0=x src1=x src2=x\n")
                       .value[0];
    cr_assert_eq(time_of(&rig, exp, 1, 0, 0), time_of(&rig, exp, 1, 2, 0));
    expect_refusal(&rig, launch(&rig, exp, 1, 1, 0), SIM_ERROR_UNSUPPORTED,
                   "cores 0 to 0 (class cube) cannot run exp: queue vector0 insn 0");
    expect_refusal(&rig, launch(&rig, exp, 1, 1, 0), SIM_ERROR_UNSUPPORTED,
                   "lacks functions of class transcendental (vector.passes.transcendental = 0)");
    expect_refusal(&rig, launch(&rig, pow, 1, 1, 0), SIM_ERROR_UNSUPPORTED, "transcendental");
    cr_assert_eq(launch(&rig, pow, 1, 0, 0).status, SIM_OK);
    rig_close(&rig);
    rig_open(&rig, "vector.passes.reduce=0,class vec.vector.passes.alu=0", (dev_chip_options_t){0});
    expect_refusal(&rig,
                   load(&rig, ".program both\n" HEAD ".ap r sram f32 base=0 dims=[40:1]\n"
                              ".queue vector0\nv_unary.relu dst=x src0=x\n"
                              "v_reduce.add dst=r src0=x\n"),
                   SIM_ERROR_UNSUPPORTED, "both: no core of this chip runs it");
    rig_close(&rig);
}

Test(classes, a_program_that_no_class_runs_is_refused_at_load_with_each_reason) {
    rig_t rig;
    rig_open(&rig, NULL, (dev_chip_options_t){0});
    expect_refusal(&rig,
                   load(&rig, ".program big\n.sram 131072\n.ap x sram f32 dims=[8:1]\n"
                              ".queue dma0\ndma_fill dst=x value=1\n"),
                   SIM_ERROR_INVALID_IMAGE,
                   "big: no core of this chip runs it:\n  class cube: big: offset 0x20: needs "
                   "131072 bytes of SRAM, a core has 65536\n  class vec: big: offset 0x20: needs "
                   "131072 bytes of SRAM, a core has 32768");
    rig_close(&rig);
    rig_open(&rig, "matrix.rate.f32=0", (dev_chip_options_t){0});
    expect_refusal(&rig, load(&rig, PRODUCT), SIM_ERROR_UNSUPPORTED,
                   "the matrix unit of this device lacks f32");
    rig_close(&rig);
}

/* A program with queues that one class lacks keeps its semaphores: the checks of a class leave
 * nothing. */
Test(classes, a_program_of_one_class_runs_with_semaphores) {
    rig_t rig;
    rig_open(&rig, NULL, (dev_chip_options_t){0});
    uint64_t both = load(&rig, ".program both\n.sem full\n.sem next\n" HEAD ACC
                               ".queue dma0\ndma_fill dst=a value=0 signal=full\n"
                               "dma_fill dst=b value=0 wait=next signal=full\n"
                               ".queue matrix0\nsync wait=full signal=next\n"
                               "mm dst=c src0=a src1=b wait=full\n")
                        .value[0];
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(launch(&rig, both, 1, 0, 0).status, SIM_OK);
        cr_assert_eq(launch(&rig, both, 1, 2, 0).status, SIM_ERROR_UNSUPPORTED);
    }
    rig_close(&rig);
}

/* Both classes compute the same values; the program's instances see the grid, not the class. */
Test(classes, values_do_not_hang_on_the_class) {
    rig_t rig;
    rig_open(&rig, NULL, (dev_chip_options_t){.threads = 2});
    uint64_t module =
        load(&rig, ".program numbers\n.arg z out\n.sem done\n.sram 4096\n"
                   ".ap n iota i32 base=5 dims=[16:3] grid0=+1000\n.ap t sram i32 dims=[16:1]\n"
                   ".ap far dram i32 arg=z dims=[16:1] grid0=+16\n"
                   ".queue vector0\nv_unary.copy dst=t src0=n int signal=done\n"
                   ".queue dma0\ndma_copy dst=far src0=t wait=done\n")
            .value[0];
    vnpu_packet_t packet = {.type = VNPU_PACKET_ALLOC};
    packet.u.mem.bytes = 16 * 5 * 4;
    uint64_t address = send(&rig, &packet, NULL, NULL).value[0];
    uint64_t product = load(&rig, PRODUCT).value[0];
    for (uint32_t class = 1; class <= 2; class ++) {
        cr_assert_eq(launch(&rig, product, 1, 2, 0).status, SIM_ERROR_UNSUPPORTED);
        vnpu_packet_t kernel[2] = {{.type = VNPU_PACKET_KERNEL, .slots = 2}};
        kernel[0].u.kernel = (vnpu_packet_kernel_t){.module = (uint32_t)module,
                                                    .num_args = 1,
                                                    .core_class = (uint16_t) class,
                                                    .grid = {5, 1}};
        memcpy(&kernel[1], &address, sizeof address);
        cr_assert_eq(send(&rig, kernel, NULL, NULL).status, SIM_OK);
        int32_t got[80] = {0};
        vnpu_packet_t copy = {.type = VNPU_PACKET_COPY_D2H};
        copy.u.copy = (vnpu_packet_copy_t){.device = address, .bytes = 320, .total = 320};
        cr_assert_eq(send(&rig, &copy, NULL, got).status, SIM_OK);
        for (int32_t i = 0; i < 80; i++)
            cr_assert_eq(got[i], 5 + 3 * (i % 16) + 1000 * (i / 16));
        vnpu_packet_t fill = {.type = VNPU_PACKET_FILL};
        fill.u.fill = (vnpu_packet_fill_t){.device = address, .count = 320, .width = 1};
        cr_assert_eq(send(&rig, &fill, NULL, NULL).status, SIM_OK);
    }
    rig_close(&rig);
}

/* 24 cubes beside 48 vector cores, as on Ascend 910B: a class reaches the cores that no mask of 64
 * bits names. */
Test(classes, a_class_reaches_cores_beyond_the_mask) {
    rig_t rig;
    rig_open(&rig, "grid.cores=24,class vec.count=48,class vec.workers=0", (dev_chip_options_t){0});
    cr_assert_eq(rig.machine.cores, 72);
    cr_assert_eq(rig.machine.cls[1].workers, 48);
    uint64_t vector = load(&rig, VECTOR).value[0], product = load(&rig, PRODUCT).value[0];
    uint64_t one = time_of(&rig, vector, 1, 2, 0);
    cr_assert_eq(time_of(&rig, vector, 48, 2, 0), one, "all side by side");
    cr_assert_gt(time_of(&rig, vector, 49, 2, 0), one);
    cr_assert_gt(time_of(&rig, vector, 41, 0, 0xffffffffff000000), one, "a mask names 40 of them");
    cr_assert_eq(time_of(&rig, product, 24, 0, 0), time_of(&rig, product, 1, 0, 0));
    rig_close(&rig);
}

/* Copies inside the memory are done by core 0, whatever its class. */
Test(classes, copies_use_the_first_core) {
    rig_t rig;
    rig_open(&rig, "matrix.count=0,dma.queues=1", (dev_chip_options_t){0});
    vnpu_packet_t packet = {.type = VNPU_PACKET_ALLOC};
    packet.u.mem.bytes = 8192;
    uint64_t address = send(&rig, &packet, NULL, NULL).value[0];
    vnpu_packet_t copy = {.type = VNPU_PACKET_COPY_D2D};
    copy.u.copy = (vnpu_packet_copy_t){
        .device = address, .host = address + 4096, .bytes = 4096, .total = 4096};
    cr_assert_eq(send(&rig, &copy, NULL, NULL).status, SIM_OK);
    rig_close(&rig);
}
