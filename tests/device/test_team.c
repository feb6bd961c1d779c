/* Instances that signal and multicast to each other: values in any order, time, refusals, and hangs
 * in words. */
#include <criterion/criterion.h>

#include "device/vnpu_profile.h"
#include "tests/device/dev_test_chip.h"

#define TILE  64u
#define STEPS 5u

typedef struct rig {
    bench_t bench;
    char text[4000]; /* of the last error */
    vnpu_profile_record_t record;
} rig_t;

static vnpu_completion_t mem(rig_t *rig, vnpu_packet_type_t type, uint64_t bytes) {
    return bench_mem(&rig->bench, type, 0, bytes);
}

static void open_rig(rig_t *rig, const char *overrides, dev_chip_options_t options) {
    memset(rig, 0, sizeof *rig);
    char keys[300];
    snprintf(keys, sizeof keys, "grid.cores=4%s", overrides);
    bench_open(&rig->bench, keys, options);
}

static void close_rig(rig_t *rig) {
    bench_close(&rig->bench);
}

static void keep_error(rig_t *rig) {
    bench_read(&rig->bench, VNPU_BLOB_ERROR, mem(rig, VNPU_PACKET_ERROR_INFO, 0).value[0],
               rig->text);
}

static uint32_t load(rig_t *rig, const char *text) {
    vnpu_completion_t done = bench_load(&rig->bench, text);
    if (done.status != SIM_OK) keep_error(rig);
    return done.status == SIM_OK ? (uint32_t)done.value[0] : 0;
}

/* Launches; on success the profile's record is kept. */
static sim_status_t launch(rig_t *rig, uint32_t module, const uint64_t *args, uint16_t num_args,
                           uint32_t x, uint32_t y, uint64_t cores) {
    vnpu_packet_kernel_t kernel = {
        .module = module, .num_args = num_args, .grid = {x, y}, .core_mask = cores};
    cr_assert_eq(mem(rig, VNPU_PACKET_PROFILE_START, 0).status, SIM_OK);
    sim_status_t status = (sim_status_t)bench_launch(&rig->bench, kernel, args).status;
    if (status != SIM_OK) keep_error(rig);
    uint64_t bytes = mem(rig, VNPU_PACKET_PROFILE_STOP, 0).value[0];
    uint8_t *blob = malloc(bytes);
    bench_read(&rig->bench, VNPU_BLOB_PROFILE, bytes, blob);
    vnpu_profile_header_t header;
    memcpy(&header, blob, sizeof header);
    if (header.num_records > 0)
        memcpy(&rig->record, blob + header.records_offset, sizeof rig->record);
    free(blob);
    return status;
}

/*
 * Row leaders load tiles of x (one row of x each), column leaders tiles of w; every instance adds
 * what it was sent: out[y][x] = sum over steps of x[y][step] + w[x][step]. The leader waits until
 * both receivers have told that the buffer is free.
 */
static const char *const sums_text =
    ".program sums\n.arg x in\n.arg w in\n.arg out out\n.sem x_full\n.sem w_full\n.sem "
    "x_free\n.sem w_free\n.sem done\n.sem zero\n"
    ".const T 64\n.const STEPS 5\n.sram 4*5*T\n"
    ".ap x_far dram f32 arg=x dims=[T:1] loop0=+T grid1=+STEPS*T\n.ap w_far dram f32 arg=w "
    "dims=[T:1] loop0=+T grid0=+STEPS*T\n"
    ".ap x_near sram f32 dims=[T:1]\n.ap w_near sram f32 base=4*2*T dims=[T:1]\n"
    ".ap sum sram f32 base=4*4*T dims=[T:1]\n.ap out_far dram f32 arg=out dims=[T:1] grid0=+T "
    "grid1=+2*T\n"
    ".queue dma0\nloop STEPS\n"
    "  dma_copy dst=x_near src0=x_far only=0:* wait=x_free>=2 signal=x_full multicast=axis0\n"
    "  dma_copy dst=w_near src0=w_far only=*:0 wait=w_free>=2 signal=w_full "
    "multicast=axis1\nendloop\n"
    "dma_copy dst=out_far src0=sum wait=done\n"
    ".queue vector0\nsync signal=x_free to=0:*\nsync signal=w_free to=*:0\n"
    "sync wait=zero\n"
    "loop STEPS\n"
    "  v_binary.add dst=sum src0=sum src1=x_near wait=x_full signal=x_free to=0:*\n"
    "  v_binary.add dst=sum src0=sum src1=w_near wait=w_full signal=w_free to=*:0\nendloop\nsync "
    "signal=done\n"
    ".queue dma1\ndma_fill dst=sum value=0 signal=zero\n";

static void check_sums(const char *overrides, dev_chip_options_t options) {
    rig_t rig;
    open_rig(&rig, overrides, options);
    float x[2][STEPS][TILE], w[2][STEPS][TILE], out[2][2][TILE];
    for (uint32_t i = 0; i < 2 * STEPS * TILE; i++) {
        (&x[0][0][0])[i] = (float)(i % 97);
        (&w[0][0][0])[i] = (float)(i % 89) * 1000;
    }
    uint64_t args[3];
    for (int a = 0; a < 3; a++)
        args[a] = mem(&rig, VNPU_PACKET_ALLOC, sizeof x).value[0];
    for (int a = 0; a < 2; a++) {
        vnpu_packet_t copy = {.type = VNPU_PACKET_COPY_H2D};
        copy.u.copy = (vnpu_packet_copy_t){.device = args[a], .bytes = sizeof x, .total = sizeof x};
        cr_assert_eq(bench_send(&rig.bench, &copy, a == 0 ? (void *)x : (void *)w, NULL).status,
                     SIM_OK);
    }
    uint32_t module = load(&rig, sums_text);
    cr_assert_neq(module, 0, "%s", rig.text);
    for (int run = 0; run < 3; run++) {
        cr_assert_eq(launch(&rig, module, args, 3, 2, 2, 0), SIM_OK, "%s", rig.text);
        vnpu_packet_t copy = {.type = VNPU_PACKET_COPY_D2H};
        copy.u.copy =
            (vnpu_packet_copy_t){.device = args[2], .bytes = sizeof out, .total = sizeof out};
        cr_assert_eq(bench_send(&rig.bench, &copy, NULL, out).status, SIM_OK);
        for (uint32_t i = 0; i < 4 * TILE; i++) {
            uint32_t column = i / TILE % 2, row = i / TILE / 2, e = i % TILE;
            float wanted = 0;
            for (uint32_t s = 0; s < STEPS; s++)
                wanted += x[row][s][e] + w[column][s][e];
            cr_assert_eq(out[row][column][e], wanted, "%u:%u element %u: %f, not %f", column, row,
                         e, (double)out[row][column][e], (double)wanted);
        }
    }
    if (options.mode != DEV_MODE_FUNCTIONAL) { /* each tile is read once */
        cr_assert_eq(rig.record.dram_read_bytes, sizeof x + sizeof w);
        cr_assert_eq(rig.record.bus_read_bytes, sizeof x + sizeof w);
    }
    close_rig(&rig);
}

Test(team, tiles_reach_every_receiver_in_any_order) {
    check_sums(",class vec.count=2,class vec.matrix.count=0,class vec.sram.bytes=1 KiB,class "
               "vec.dma.queues=1",
               (dev_chip_options_t){.threads = 2});
    check_sums("", (dev_chip_options_t){.reuse = DEV_REUSE_CHECK, .threads = 2});
    check_sums(",core.semaphore_cycles=0", (dev_chip_options_t){.threads = 1});
    check_sums(",noc.type=mesh,noc.columns=3,noc.rows=3,noc.latency_cycles=0,noc.memory_nodes=1:1",
               (dev_chip_options_t){.threads = 2});
    for (uint64_t seed = 1; seed <= 30; seed++)
        check_sums("", (dev_chip_options_t){.mode = DEV_MODE_CHAOS, .seed = seed});
}

#define HEAD                                                                                       \
    ".program p\n.arg x in\n.sem a\n.sem b\n.sram 65536\n.ap far dram f32 arg=x dims=[2048:1] "    \
    "loop0=+2048\n.ap near sram f32 dims=[2048:1]\n"

static uint64_t cycles(const char *overrides, const char *text, uint32_t x, uint32_t y) {
    rig_t rig;
    open_rig(&rig, overrides, (dev_chip_options_t){.reuse = DEV_REUSE_CHECK});
    uint64_t address = mem(&rig, VNPU_PACKET_ALLOC, 1 << 20).value[0];
    uint32_t module = load(&rig, text);
    cr_assert_neq(module, 0, "%s", rig.text);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(launch(&rig, module, &address, 1, x, y, 0), SIM_OK, "%s", rig.text);
    close_rig(&rig);
    return rig.record.duration_ps / 1000; /* 1 GHz */
}

Test(team, a_signal_to_another_core_passes_the_interconnect) {
    uint64_t own = cycles("", HEAD ".queue ctrl\nsync signal=a\n.queue dma0\nsync wait=a\n", 2, 1);
    const char *other =
        HEAD ".queue ctrl\nsync signal=a to=1:*\n.queue dma0\nsync wait=a>=2 only=1:*\n";
    for (uint32_t latency = 5; latency <= 40; latency += 35) {
        char keys[100];
        snprintf(keys, sizeof keys, ",noc.latency_cycles=%u", latency);
        cr_assert_eq(cycles(keys, other, 2, 1), own + latency);
    }
}

/* All of four cores need the same data, and the memory is what takes the time. */
Test(team, one_read_feeds_all_receivers) {
    const char *slow =
        ",dram.clock=300 MHz,dma.outstanding_bytes=64 KiB,noc.memory_bytes_per_cycle=4 B";
    uint64_t each =
        cycles(slow, HEAD ".queue dma0\nloop 16\ndma_copy dst=near src0=far\nendloop\n", 4, 1);
    uint64_t once = cycles(slow,
                           HEAD ".queue dma0\nloop 16\ndma_copy dst=near src0=far only=0:* "
                                "multicast=axis0 signal=a\nendloop\n"
                                ".queue ctrl\nsync wait=a>=16\n",
                           4, 1);
    uint64_t alone =
        cycles(slow, HEAD ".queue dma0\nloop 16\ndma_copy dst=near src0=far\nendloop\n", 1, 1);
    cr_assert_geq(each * 10, alone * 37, "%llu each, %llu alone", (unsigned long long)each,
                  (unsigned long long)alone);
    cr_assert_leq(once * 100, alone * 102);
    cr_assert_geq(once, alone);
}

Test(team, instances_that_cannot_all_run_at_once_are_refused) {
    rig_t rig;
    open_rig(&rig, "", (dev_chip_options_t){0});
    uint64_t address = mem(&rig, VNPU_PACKET_ALLOC, 1 << 20).value[0];
    uint32_t module =
        load(&rig, HEAD ".queue ctrl\nsync signal=a to=1:*\n.queue dma0\nsync wait=a only=1:*\n");
    cr_assert_eq(launch(&rig, module, &address, 1, 5, 1, 0), SIM_ERROR_INVALID_VALUE);
    cr_assert(strstr(rig.text, "grid 5 x 1 needs 5 cores, the launch has 4") != NULL, "%s",
              rig.text);
    cr_assert_eq(launch(&rig, module, &address, 1, 2, 2, 7), SIM_ERROR_INVALID_VALUE);
    cr_assert(strstr(rig.text, "the launch has 3") != NULL, "%s", rig.text);
    cr_assert_eq(launch(&rig, module, &address, 1, 1, 4, 0), SIM_ERROR_INVALID_VALUE);
    cr_assert(strstr(rig.text, "it signals instance 1:0, the grid is 1 x 4") != NULL, "%s",
              rig.text);
    close_rig(&rig);
}

Test(team, a_hang_across_cores_explains_itself) {
    rig_t rig;
    open_rig(&rig, "", (dev_chip_options_t){0});
    uint64_t address = mem(&rig, VNPU_PACKET_ALLOC, 1 << 20).value[0];
    uint32_t module = load(&rig, HEAD ".queue ctrl\nsync signal=a to=1:* wait=b\n.queue dma0\nsync "
                                      "wait=a only=1:* signal=b to=0:*\n");
    cr_assert_eq(launch(&rig, module, &address, 1, 2, 1, 0), SIM_ERROR_DEADLOCK);
    const char *const parts[] = {
        "no queue of its 2 instances can go on", "core 1, instance 1 (1:0):", "ctrl0 insn 0",
        "waits for semaphore 1 (b) >= 1, it is 0; sent by dma0 of instance 1 (blocked)",
        "waits for semaphore 0 (a) >= 1, it is 0; sent by ctrl0 of instance 0 (blocked), ctrl0 of "
        "instance 1"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        cr_assert(strstr(rig.text, parts[i]) != NULL, "%s", rig.text);
    close_rig(&rig);
}

Test(team, bad_programs_are_refused_with_a_reason) {
    static const struct {
        const char *text, *reason;
    } bad[] = {
        {".queue dma0\ndma_copy dst=far src0=near multicast=axis0\n",
         "multicast goes from dram to sram"},
        {".queue dma0\ndma_copy dst=near src0=near2 multicast=all\n",
         "multicast goes from dram to sram"},
        {".queue dma0\ndma_fill dst=near value=0 multicast=all\n",
         "multicast belongs to a dma_copy or dma_transpose without flags"},
        {".queue dma0\ndma_copy dst=near src0=far multicast=all to=0:0 signal=a\n",
         "a multicast signals its receivers"},
        {".queue ctrl\nsync wait=a to=0:0\n", "nothing is signalled"},
        {".queue ctrl\nloop 2 only=0:0\nsync signal=a\nendloop\n", "no only"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rig_t rig;
        open_rig(&rig, "", (dev_chip_options_t){0});
        char text[1000];
        snprintf(
            text, sizeof text,
            ".program p\n.arg x inout\n.sem a\n.sram 65536\n.ap far dram f32 arg=x dims=[2048:1]\n"
            ".ap near sram f32 dims=[2048:1]\n.ap near2 sram f32 base=8192 dims=[2048:1]\n%s",
            bad[i].text);
        cr_assert_eq(load(&rig, text), 0, "%zu", i);
        cr_assert(strstr(rig.text, bad[i].reason) != NULL, "%zu: %s", i, rig.text);
        close_rig(&rig);
    }
}

Test(team, text_and_image_say_the_same) {
    sim_error_t err = {0};
    void *image, *again;
    size_t bytes, again_bytes, length;
    char *text;
    dev_program_t *program;
    cr_assert_eq(dev_asm_assemble(sums_text, "test", &image, &bytes, &err), SIM_OK, "%s", err.text);
    cr_assert_eq(dev_program_load(image, bytes, NULL, &program, &err), SIM_OK, "%s", err.text);
    cr_assert(program->is_team);
    FILE *file = open_memstream(&text, &length);
    dev_asm_disassemble(program, file);
    fclose(file);
    cr_assert(strstr(text, "multicast=axis1") != NULL && strstr(text, "only=*:0") != NULL &&
                  strstr(text, "to=0:*") != NULL,
              "%s", text);
    cr_assert_eq(dev_asm_assemble(text, "again", &again, &again_bytes, &err), SIM_OK, "%s",
                 err.text);
    cr_assert_eq(again_bytes, bytes);
    cr_assert_eq(memcmp(again, image, bytes), 0);
    for (int i = 0; i < 2; i++)
        free(i == 0 ? image : again);
    dev_program_destroy(program);
    free(text);
}
