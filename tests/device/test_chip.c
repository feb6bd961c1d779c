/* The chip: packets, the command path's clocks, reuse, sticky errors, timing mode, profile. */
#include <criterion/criterion.h>

#include "device/vnpu_profile.h"
#include "sim/sim_link.h"
#include "sim/sim_op.h"
#include "tests/device/dev_test_chip.h"

static uint64_t alloc(bench_t *bench, uint64_t bytes) {
    vnpu_completion_t completion = bench_mem(bench, VNPU_PACKET_ALLOC, 0, bytes);
    cr_assert_eq(completion.status, SIM_OK);
    return completion.value[0];
}

static uint32_t load(bench_t *bench, const char *text) {
    vnpu_completion_t completion = bench_load(bench, text);
    cr_assert_eq(completion.status, SIM_OK);
    return (uint32_t)completion.value[0];
}

static vnpu_completion_t launch(bench_t *bench, uint32_t module, const uint64_t *args,
                                uint32_t num_args) {
    return bench_launch(
        bench,
        (vnpu_packet_kernel_t){.module = module, .num_args = (uint16_t)num_args, .grid = {1, 1}},
        args);
}

static const char *const doubling =
    ".program doubling\n.arg x in\n.arg z out\n.sem full\n.sem done\n.sram 8192\n"
    ".ap dx dram f32 arg=x dims=[256:1]\n.ap dz dram f32 arg=z dims=[256:1]\n"
    ".ap t sram f32 base=0 dims=[256:1]\n.ap u sram f32 base=4096 dims=[256:1]\n"
    ".queue dma0\ndma_copy dst=t src0=dx signal=full\ndma_copy dst=dz src0=u wait=done\n"
    ".queue vector0\nv_binary.add dst=u src0=t src1=t wait=full signal=done\n";
static const char *const stuck =
    ".program stuck\n.arg z out\n.sem never\n.sem after\n.sram 1024\n.ap dz dram f32 arg=z "
    "dims=[16:1]\n.ap t sram f32 base=0 dims=[16:1]\n"
    ".queue dma0\ndma_copy dst=dz src0=t wait=never signal=after\n.queue vector0\nsync wait=after "
    "signal=never\n";

Test(chip, a_kernel_computes_and_takes_time) {
    bench_t bench;
    bench_open(&bench, NULL, (dev_chip_options_t){0});
    float x[256], z[256];
    for (int i = 0; i < 256; i++)
        x[i] = (float)i;
    uint64_t args[2] = {alloc(&bench, sizeof x), alloc(&bench, sizeof z)};
    cr_assert_eq(bench_copy(&bench, VNPU_PACKET_COPY_H2D, args[0], x, sizeof x).status, SIM_OK);
    vnpu_completion_t done = launch(&bench, load(&bench, doubling), args, 2);
    cr_assert_eq(done.status, SIM_OK);
    cr_assert_gt(done.end_ps, done.start_ps);
    cr_assert_eq(bench_copy(&bench, VNPU_PACKET_COPY_D2H, args[1], z, sizeof z).status, SIM_OK);
    for (int i = 0; i < 256; i++)
        cr_assert_eq(z[i], 2 * x[i]);
    bench_close(&bench);
}

Test(chip, the_command_path_adds_up) {
    bench_t bench;
    bench_open(&bench, NULL, (dev_chip_options_t){0});
    uint64_t gap = sim_config_u64(bench.config, "cmd.launch_gap"),
             completion = sim_config_u64(bench.config, "cmd.completion");
    uint64_t path = sim_config_u64(bench.config, "cmd.doorbell") +
                    sim_config_u64(bench.config, "cmd.fetch") +
                    sim_config_u64(bench.config, "cmd.decode");
    uint64_t args[2] = {alloc(&bench, 1024), alloc(&bench, 1024)};
    uint32_t module = load(&bench, doubling);
    bench.clock = 1000000000; /* long after everything */
    vnpu_completion_t first = launch(&bench, module, args, 2);
    cr_assert_eq(first.start_ps, bench.clock + path);
    uint64_t duration = first.end_ps - completion - first.start_ps;
    vnpu_completion_t second =
        launch(&bench, module, args, 2); /* the same host clock: waits for the drain */
    uint64_t decoded = bench.clock + path + sim_config_u64(bench.config, "cmd.fetch") +
                       sim_config_u64(bench.config, "cmd.decode");
    uint64_t drained = first.start_ps + duration + gap;
    cr_assert_eq(second.start_ps, drained > decoded ? drained : decoded);
    cr_assert_eq(second.end_ps - second.start_ps, duration + completion);
    bench_close(&bench);
}

Test(chip, link_copies_take_their_closed_form) {
    bench_t bench;
    bench_open(&bench, NULL, (dev_chip_options_t){0});
    sim_link_spec_t link;
    cr_assert_eq(sim_link_spec_from_config(bench.config, &link), SIM_OK);
    static char data[100000];
    uint64_t address = alloc(&bench, sizeof data);
    for (uint64_t bytes = 1; bytes <= sizeof data; bytes *= 10) {
        vnpu_completion_t done = bench_copy(&bench, VNPU_PACKET_COPY_H2D, address, data, bytes);
        cr_assert_eq(done.end_ps - done.start_ps,
                     sim_link_transfer_ps(&link, bytes) +
                         sim_config_u64(bench.config, "cmd.completion"));
    }
    bench_close(&bench);
}

/* Durations of n launches of the same kernel, with a reuse mode. */
static uint64_t total_ps(dev_reuse_t reuse, bool *out_same) {
    bench_t bench;
    bench_open(&bench, NULL, (dev_chip_options_t){.reuse = reuse});
    uint32_t module = load(&bench, doubling);
    uint64_t first = 0, total = 0;
    *out_same = true;
    for (int i = 0; i < 5; i++) {
        uint64_t args[2] = {alloc(&bench, 1024 + 512 * (uint64_t)i), alloc(&bench, 1024)};
        vnpu_completion_t done = launch(&bench, module, args, 2);
        cr_assert_eq(done.status, SIM_OK);
        if (i == 0) first = done.end_ps - done.start_ps;
        *out_same = *out_same && done.end_ps - done.start_ps == first;
        total += done.end_ps - done.start_ps;
    }
    bench_close(&bench);
    return total;
}

Test(chip, reuse_changes_nothing) {
    bool same_on, same_off, same_check;
    uint64_t on = total_ps(DEV_REUSE_ON, &same_on), off = total_ps(DEV_REUSE_OFF, &same_off),
             check = total_ps(DEV_REUSE_CHECK, &same_check);
    cr_assert_eq(on, off);
    cr_assert_eq(on, check);
    cr_assert(same_on && same_off && same_check);
}

Test(chip, a_deadlock_is_sticky_until_reset) {
    bench_t bench;
    bench_open(&bench, NULL, (dev_chip_options_t){0});
    uint64_t args[2] = {alloc(&bench, 1024), alloc(&bench, 1024)};
    uint32_t good = load(&bench, doubling), bad = load(&bench, stuck);
    cr_assert_eq(launch(&bench, bad, args, 1).status, SIM_ERROR_DEADLOCK);
    vnpu_completion_t info = bench_mem(&bench, VNPU_PACKET_ERROR_INFO, 0, 0);
    char text[2000] = "";
    vnpu_packet_t read = {.type = VNPU_PACKET_BLOB_READ};
    read.u.copy = (vnpu_packet_copy_t){
        .device = VNPU_BLOB_ERROR, .bytes = info.value[0], .total = info.value[0]};
    cr_assert_eq(bench_send(&bench, &read, NULL, text).status, SIM_OK);
    cr_assert(strstr(text, "stuck") != NULL && strstr(text, "dma0") != NULL, "%s", text);
    cr_assert_eq(launch(&bench, good, args, 2).status, SIM_ERROR_DEADLOCK);
    cr_assert_eq(bench_mem(&bench, VNPU_PACKET_MEM_INFO, 0, 0).status, SIM_OK);
    cr_assert_eq(bench_mem(&bench, VNPU_PACKET_RESET, 0, 0).status, SIM_OK);
    cr_assert_eq(launch(&bench, good, args, 2).status, SIM_OK);
    bench_close(&bench);
}

Test(chip, bad_packets_fail_alone) {
    bench_t bench;
    bench_open(&bench, NULL, (dev_chip_options_t){0});
    uint64_t args[2] = {alloc(&bench, 1024), alloc(&bench, 1024)};
    uint32_t module = load(&bench, doubling);
    cr_assert_eq(launch(&bench, module + 1, args, 2).status, SIM_ERROR_INVALID_HANDLE);
    cr_assert_eq(launch(&bench, module, args, 1).status, SIM_ERROR_INVALID_VALUE);
    cr_assert_eq(bench_mem(&bench, VNPU_PACKET_FREE, args[0] + 1, 0).status != SIM_OK, 1);
    cr_assert_eq(bench_mem(&bench, VNPU_PACKET_MODULE_UNLOAD, 99, 0).status,
                 SIM_ERROR_INVALID_HANDLE);
    cr_assert_eq(bench_mem(&bench, (vnpu_packet_type_t)77, 0, 0).status, SIM_ERROR_INVALID_VALUE);
    cr_assert_eq(bench_mem(&bench, VNPU_PACKET_PROFILE_STOP, 0, 0).status, SIM_ERROR_NOT_PERMITTED);
    cr_assert_eq(launch(&bench, module, args, 2).status, SIM_OK);
    bench_close(&bench);
}

Test(chip, stray_addresses_are_faults_that_name_the_address) {
    bench_t bench;
    bench_open(&bench, NULL, (dev_chip_options_t){0});
    uint64_t args[2] = {alloc(&bench, 512),
                        alloc(&bench, 1024)}; /* the kernel reads 1024 bytes of the first */
    cr_assert_eq(launch(&bench, load(&bench, doubling), args, 2).status, SIM_ERROR_ILLEGAL_ADDRESS);
    bench_close(&bench);
}

Test(chip, timing_mode_keeps_integers_and_refuses_floats) {
    bench_t bench;
    bench_open(&bench, NULL, (dev_chip_options_t){.mode = DEV_MODE_TIMING});
    uint64_t args[2] = {alloc(&bench, 1024), alloc(&bench, 1024)};
    vnpu_packet_t packet = {.type = VNPU_PACKET_COPY_H2D, .flags = VNPU_PACKET_LENGTH_ONLY};
    packet.u.copy = (vnpu_packet_copy_t){.device = args[0], .bytes = 1024, .total = 1024};
    cr_assert_eq(bench_send(&bench, &packet, NULL, NULL).status, SIM_OK);
    vnpu_completion_t done = launch(&bench, load(&bench, doubling), args, 2);
    cr_assert_eq(done.status, SIM_OK);
    cr_assert_gt(done.end_ps, done.start_ps);
    char data[1024];
    cr_assert_eq(bench_copy(&bench, VNPU_PACKET_COPY_D2H, args[1], data, sizeof data).status,
                 SIM_ERROR_VALUE_UNKNOWN);
    int64_t number = 42, back = 0;
    uint64_t integer = alloc(&bench, 512);
    cr_assert_eq(bench_copy(&bench, VNPU_PACKET_COPY_H2D, integer, &number, sizeof number).status,
                 SIM_OK);
    cr_assert_eq(bench_copy(&bench, VNPU_PACKET_COPY_D2H, integer, &back, sizeof back).status,
                 SIM_OK);
    cr_assert_eq(back, 42);
    bench_close(&bench);
}

Test(chip, timing_mode_times_as_full_mode) {
    uint64_t ps[2];
    for (int mode = 0; mode < 2; mode++) {
        bench_t bench;
        bench_open(&bench, NULL,
                   (dev_chip_options_t){.mode = mode == 0 ? DEV_MODE_FULL : DEV_MODE_TIMING});
        uint64_t args[2] = {alloc(&bench, 1024), alloc(&bench, 1024)};
        vnpu_completion_t done = launch(&bench, load(&bench, doubling), args, 2);
        ps[mode] = done.end_ps - done.start_ps;
        bench_close(&bench);
    }
    cr_assert_eq(ps[0], ps[1]);
}

Test(chip, a_profile_books_every_tick) {
    bench_t bench;
    bench_open(&bench, NULL, (dev_chip_options_t){0});
    uint64_t args[2] = {alloc(&bench, 1024), alloc(&bench, 1024)};
    uint32_t module = load(&bench, doubling);
    bench.clock += 7000000; /* the host was busy before the profile: not part of it */
    uint64_t start_ps = bench.clock;
    cr_assert_eq(bench_mem(&bench, VNPU_PACKET_PROFILE_START, 0, 1).status, SIM_OK);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(launch(&bench, module, args, 2).status, SIM_OK);
    bench.clock += 90000000; /* and behind the last launch: part of it */
    uint64_t bytes = bench_mem(&bench, VNPU_PACKET_PROFILE_STOP, 0, 0).value[0];
    uint8_t *blob = malloc(bytes);
    vnpu_packet_t read = {.type = VNPU_PACKET_BLOB_READ};
    read.u.copy = (vnpu_packet_copy_t){.device = VNPU_BLOB_PROFILE, .bytes = bytes, .total = bytes};
    cr_assert_eq(bench_send(&bench, &read, NULL, blob).status, SIM_OK);
    vnpu_profile_header_t header;
    vnpu_profile_record_t record;
    memcpy(&header, blob, sizeof header);
    memcpy(&record, blob + header.records_offset, sizeof record);
    cr_assert_eq(header.start_ps, start_ps);
    cr_assert_eq(header.end_ps, bench.clock);
    cr_assert_eq(header.num_launches, 3);
    cr_assert_eq(header.num_records, 1);
    cr_assert_eq(header.num_causes, SIM_CAUSE_COUNT);
    cr_assert_eq(record.dram_read_bytes, 1024);
    cr_assert_eq(record.dram_written_bytes, 1024);
    cr_assert_eq(record.num_slices, 3);
    const uint8_t *causes = blob + header.records_offset + sizeof record;
    for (uint32_t e = 0; e < header.num_engines; e++) {
        uint64_t sum = 0;
        for (uint32_t c = 0; c < header.num_causes; c++) {
            uint64_t ps;
            memcpy(&ps, causes + ((size_t)e * header.num_causes + c) * sizeof ps, sizeof ps);
            sum += ps;
        }
        cr_assert_eq(sum, record.duration_ps);
    }
    free(blob);
    bench_close(&bench);
}

Test(chip, a_closed_client_gives_back_its_memory) {
    bench_t bench;
    bench_open(&bench, NULL, (dev_chip_options_t){0});
    uint64_t before = bench_mem(&bench, VNPU_PACKET_MEM_INFO, 0, 0).value[0];
    (void)alloc(&bench, 1 << 20);
    cr_assert_lt(bench_mem(&bench, VNPU_PACKET_MEM_INFO, 0, 0).value[0], before);
    dev_chip_client_close(bench.chip, bench.client);
    cr_assert_eq(dev_chip_client_open(bench.chip, &bench.client), SIM_OK);
    cr_assert_eq(bench_mem(&bench, VNPU_PACKET_MEM_INFO, 0, 0).value[0], before);
    bench_close(&bench);
}
