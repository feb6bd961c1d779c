/* Memory in the cores' scratchpads, through a chip: values, bytes and energy by memory, copies,
 * reuse. */
#include <criterion/criterion.h>

#include "device/vnpu_profile.h"
#include "tests/device/dev_test_chip.h"

#define OPTIONS                                                                                    \
    "grid.cores=4,sram.shared_bytes=16KiB,energy.sram_byte=3,energy.dram_read_byte=5,energy.dram_" \
    "write_byte=5"
enum { BYTES = 4096 };

static const char *const doubling =
    ".program doubling\n.arg x in\n.arg z out\n.sem full\n.sem done\n.sram 8192\n"
    ".ap dx dram f32 arg=x dims=[1024:1]\n.ap dz dram f32 arg=z dims=[1024:1]\n"
    ".ap t sram f32 base=0 dims=[1024:1]\n.ap u sram f32 base=4096 dims=[1024:1]\n"
    ".queue dma0\ndma_copy dst=t src0=dx signal=full\ndma_copy dst=dz src0=u wait=done\n"
    ".queue vector0\nv_binary.add dst=u src0=t src1=t wait=full signal=done\n";

static vnpu_completion_t mem(bench_t *bench, vnpu_packet_type_t type, uint64_t bytes,
                             uint64_t place) {
    vnpu_packet_t packet = {.type = (uint8_t)type};
    packet.u.mem.bytes = bytes;
    packet.u.alloc.place = (uint16_t)place;
    return bench_send(bench, &packet, NULL, NULL);
}

static uint64_t alloc(bench_t *bench, uint64_t bytes, uint64_t place) {
    vnpu_completion_t completion = mem(bench, VNPU_PACKET_ALLOC, bytes, place);
    cr_assert_eq(completion.status, SIM_OK);
    return completion.value[0];
}

static void copy(bench_t *bench, vnpu_packet_type_t type, uint64_t device, void *host) {
    cr_assert_eq(bench_copy(bench, type, device, host, BYTES).status, SIM_OK);
}

static uint32_t load(bench_t *bench) {
    vnpu_completion_t completion = bench_load(bench, doubling);
    cr_assert_eq(completion.status, SIM_OK);
    return (uint32_t)completion.value[0];
}

static void launch(bench_t *bench, uint32_t module, uint64_t x, uint64_t z) {
    const uint64_t args[2] = {x, z};
    vnpu_packet_kernel_t kernel = {.module = module, .num_args = 2, .grid = {1, 1}};
    cr_assert_eq(bench_launch(bench, kernel, args).status, SIM_OK);
}

/* Of the first record of the profile. */
static vnpu_profile_record_t record_of(bench_t *bench) {
    uint64_t bytes = mem(bench, VNPU_PACKET_PROFILE_STOP, 0, 0).value[0];
    uint8_t *blob = malloc(bytes);
    bench_read(bench, VNPU_BLOB_PROFILE, bytes, blob);
    vnpu_profile_header_t header;
    vnpu_profile_record_t record;
    memcpy(&header, blob, sizeof header);
    memcpy(&record, blob + header.records_offset, sizeof record);
    free(blob);
    return record;
}

static vnpu_profile_record_t profiled(bench_t *bench, uint32_t module, uint64_t x, uint64_t z) {
    cr_assert_eq(mem(bench, VNPU_PACKET_PROFILE_START, 0, 0).status, SIM_OK);
    launch(bench, module, x, z);
    return record_of(bench);
}

/* Values are the same wherever operands lie; bytes are counted where they do. */
Test(chip_shared, operands_in_either_memory) {
    bench_t bench;
    bench_open(&bench, OPTIONS, (dev_chip_options_t){.reuse = DEV_REUSE_CHECK});
    uint32_t module = load(&bench);
    uint64_t scratchpad_fj = 0;
    for (uint64_t places = 0; places < 4; places++) {
        uint64_t in_shared = places & 1, out_shared = places >> 1;
        uint64_t x = alloc(&bench, BYTES, in_shared), z = alloc(&bench, BYTES, out_shared);
        float value[BYTES / 4], got[BYTES / 4];
        for (uint32_t i = 0; i < BYTES / 4; i++)
            value[i] = (float)(i + places);
        copy(&bench, VNPU_PACKET_COPY_H2D, x, value);
        vnpu_profile_record_t record = profiled(&bench, module, x, z);
        copy(&bench, VNPU_PACKET_COPY_D2H, z, got);
        for (uint32_t i = 0; i < BYTES / 4; i++)
            cr_assert_eq(got[i], 2 * value[i]);
        cr_assert_eq(record.dram_read_bytes, in_shared ? 0 : BYTES);
        cr_assert_eq(record.shared_read_bytes, in_shared ? BYTES : 0);
        cr_assert_eq(record.dram_written_bytes, out_shared ? 0 : BYTES);
        cr_assert_eq(record.shared_written_bytes, out_shared ? BYTES : 0);
        cr_assert_eq(record.bus_read_bytes, record.dram_read_bytes);
        cr_assert_eq(record.bus_written_bytes, record.dram_written_bytes);
        if (places == 0) scratchpad_fj = record.energy_fj[VNPU_ENERGY_DMA];
        cr_assert_eq(record.energy_fj[VNPU_ENERGY_DMA],
                     scratchpad_fj + 3 * BYTES * (in_shared + out_shared));
        if (places == 3) cr_assert_eq(record.energy_fj[VNPU_ENERGY_DRAM], 0);
    }
    bench_close(&bench);
}

/* A copy between the memories, and a fill; equal launches hit wherever the allocator put them. */
Test(chip_shared, moves_and_reuse) {
    bench_t bench;
    bench_open(&bench, OPTIONS, (dev_chip_options_t){0});
    uint64_t dram = alloc(&bench, BYTES, 0), shared = alloc(&bench, BYTES, 1),
             other = alloc(&bench, BYTES, 1);
    uint8_t value[BYTES], got[BYTES];
    for (uint32_t i = 0; i < BYTES; i++)
        value[i] = (uint8_t)(i * 7);
    copy(&bench, VNPU_PACKET_COPY_H2D, dram, value);
    cr_assert_eq(mem(&bench, VNPU_PACKET_PROFILE_START, 0, 0).status, SIM_OK);
    vnpu_packet_t move = {.type = VNPU_PACKET_COPY_D2D};
    move.u.copy =
        (vnpu_packet_copy_t){.device = shared, .host = dram, .bytes = BYTES, .total = BYTES};
    cr_assert_eq(bench_send(&bench, &move, NULL, NULL).status, SIM_OK);
    vnpu_profile_record_t record = record_of(&bench);
    cr_assert(record.dram_read_bytes == BYTES && record.dram_written_bytes == 0);
    cr_assert(record.shared_read_bytes == 0 && record.shared_written_bytes == BYTES);
    copy(&bench, VNPU_PACKET_COPY_D2H, shared, got);
    cr_assert_eq(memcmp(value, got, BYTES), 0);
    vnpu_packet_t fill = {.type = VNPU_PACKET_FILL};
    fill.u.fill = (vnpu_packet_fill_t){.device = shared, .count = BYTES, .pattern = 9, .width = 1};
    cr_assert_eq(bench_send(&bench, &fill, NULL, NULL).status, SIM_OK);
    copy(&bench, VNPU_PACKET_COPY_D2H, shared, got);
    cr_assert_eq(got[BYTES - 1], 9);
    uint32_t module = load(&bench);
    vnpu_profile_record_t first = profiled(&bench, module, shared, dram),
                          second = profiled(&bench, module, other, dram);
    cr_assert_eq(first.key, second.key);
    cr_assert_eq(first.duration_ps, second.duration_ps);
    cr_assert_neq(first.key, profiled(&bench, module, dram, shared).key);
    bench_close(&bench);
}

/* A matrix in blocks: values are those of the matrix, the way of the blocks is part of the key. */
Test(chip_shared, blocks_of_a_matrix) {
    bench_t bench;
    bench_open(&bench, OPTIONS, (dev_chip_options_t){.reuse = DEV_REUSE_CHECK});
    uint32_t module = load(&bench);
    uint64_t z = alloc(&bench, BYTES, 0), last = 0;
    for (uint32_t way = 0; way < 2;
         way++) { /* 16 rows of 1 KiB: 4 rows a core, 256 bytes of each row a core */
        vnpu_packet_t packet = {.type = VNPU_PACKET_ALLOC};
        packet.u.alloc = (vnpu_packet_alloc_t){.bytes = 4 * BYTES,
                                               .place = VNPU_PLACE_SHARED,
                                               .row_bytes = 1024,
                                               .shard_rows = way == 0 ? 4 : 16,
                                               .shard_row_bytes = way == 0 ? 1024 : 256,
                                               .row_step = 1,
                                               .column_step = 1};
        vnpu_completion_t done = bench_send(&bench, &packet, NULL, NULL);
        cr_assert_eq(done.status, SIM_OK);
        float value[BYTES / 4], got[BYTES / 4];
        for (uint32_t i = 0; i < BYTES / 4; i++)
            value[i] = (float)i;
        copy(&bench, VNPU_PACKET_COPY_H2D, done.value[0], value);
        vnpu_profile_record_t record = profiled(&bench, module, done.value[0], z);
        copy(&bench, VNPU_PACKET_COPY_D2H, z, got);
        for (uint32_t i = 0; i < BYTES / 4; i++)
            cr_assert_eq(got[i], 2 * value[i]);
        cr_assert_eq(record.shared_read_bytes, BYTES);
        cr_assert_neq(record.key, last);
        last = record.key;
    }
    vnpu_packet_t packet = {.type = VNPU_PACKET_ALLOC};
    packet.u.alloc = (vnpu_packet_alloc_t){.bytes = BYTES,
                                           .place = VNPU_PLACE_SHARED,
                                           .row_bytes = 1024,
                                           .shard_rows = 1,
                                           .shard_row_bytes = 512,
                                           .row_step = 1,
                                           .column_step = 1};
    cr_assert_eq(bench_send(&bench, &packet, NULL, NULL).status, SIM_ERROR_INVALID_VALUE);
    bench_close(&bench);
}

Test(chip_shared, what_is_refused) {
    bench_t bench;
    bench_open(&bench, OPTIONS, (dev_chip_options_t){0});
    cr_assert_eq(mem(&bench, VNPU_PACKET_ALLOC, 64 * 1024 + 1, VNPU_PLACE_SHARED).status,
                 SIM_ERROR_OUT_OF_MEMORY);
    cr_assert_eq(mem(&bench, VNPU_PACKET_ALLOC, 512, 2).status, SIM_ERROR_INVALID_VALUE);
    bench_close(&bench);
    bench_open(&bench, NULL, (dev_chip_options_t){0});
    cr_assert_eq(mem(&bench, VNPU_PACKET_ALLOC, 512, VNPU_PLACE_SHARED).status,
                 SIM_ERROR_UNSUPPORTED);
    bench_close(&bench);
}
