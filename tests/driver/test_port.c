/* What a client can put into its shared memory, and that it hurts nobody but itself. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/dev_port.h"
#include "tests/driver/fake_chip.h"

#define STAGING ((uint64_t)VNPU_STAGING_CHUNK * VNPU_STAGING_CHUNKS)

typedef struct bench {
    dev_chip_t *chip;
    dev_port_t *port;
    uint8_t *shared;
    vnpu_control_page_t *control;
    uint64_t seq, tail, address;
} bench_t;

static void put(bench_t *bench, vnpu_packet_t packet) {
    memcpy(bench->shared + bench->control->ring_offset + bench->tail % VNPU_RING_SLOTS * 64,
           &packet, 64);
    bench->tail += packet.slots;
    atomic_store(&bench->control->tail, bench->tail);
}

static vnpu_packet_t packet_of(bench_t *bench, vnpu_packet_type_t type) {
    return (vnpu_packet_t){.type = (uint8_t)type, .slots = 1, .seq = ++bench->seq};
}

static vnpu_completion_t completion_of(const bench_t *bench, uint64_t seq) {
    const uint8_t *completions = bench->shared + bench->control->completion_offset;
    vnpu_completion_t completion;
    memcpy(&completion, completions + (seq - 1) % VNPU_COMPLETION_SLOTS * 64, 64);
    cr_assert_eq(completion.seq, seq);
    return completion;
}

/* Executes one good-looking packet and returns its status. */
static int32_t status_of(bench_t *bench, vnpu_packet_t packet) {
    sim_error_t err = {0};
    uint32_t count = 0;
    put(bench, packet);
    cr_assert_eq(dev_port_drain(bench->port, 10, &count, &err), SIM_OK, "%s", err.text);
    cr_assert_eq(count, 1);
    return completion_of(bench, packet.seq).status;
}

static bench_t set_up(void) {
    bench_t bench = {0};
    sim_error_t err = {0};
    dev_chip_options_t options = {0};
    uint32_t client = 0;
    cr_assert_eq(dev_chip_create(NULL, &options, &bench.chip, &err), SIM_OK);
    cr_assert_eq(dev_chip_client_open(bench.chip, &client), SIM_OK);
    bench.shared = mmap(NULL, dev_port_shared_bytes(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_eq(dev_port_create(bench.chip, client, bench.shared, &bench.port, &err), SIM_OK);
    bench.control = (vnpu_control_page_t *)(void *)bench.shared;
    vnpu_packet_t alloc = packet_of(&bench, VNPU_PACKET_ALLOC);
    alloc.u.mem.bytes = 1 << 20;
    cr_assert_eq(status_of(&bench, alloc), SIM_OK);
    bench.address = completion_of(&bench, 1).value[0];
    return bench;
}

static void tear_down(bench_t *bench) {
    dev_port_destroy(bench->port);
    dev_chip_destroy(bench->chip);
    munmap(bench->shared, dev_port_shared_bytes());
}

static vnpu_packet_t copy_of(bench_t *bench, vnpu_packet_type_t type, uint64_t host,
                             uint64_t bytes) {
    vnpu_packet_t packet = packet_of(bench, type);
    packet.u.copy = (vnpu_packet_copy_t){
        .device = bench->address, .host = host, .bytes = bytes, .total = bytes};
    return packet;
}

Test(port, copies_stay_inside_the_staging_area) {
    static const struct {
        uint64_t host, bytes;
        bool is_ok;
    } rows[] = {
        {0, 1, true},
        {STAGING - 1, 1, true},
        {STAGING - 1, 2, false},
        {STAGING, 1, false},
        {1, STAGING, false},
        {UINT64_MAX, 2, false},
        {8, UINT64_MAX - 4, false},
        {UINT64_MAX - 3, UINT64_MAX - 3, false},
    };
    static const vnpu_packet_type_t types[] = {VNPU_PACKET_COPY_H2D, VNPU_PACKET_COPY_D2H,
                                               VNPU_PACKET_MODULE_LOAD, VNPU_PACKET_BLOB_READ};
    bench_t bench = set_up();
    for (size_t t = 0; t < 4; t++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            int32_t status =
                status_of(&bench, copy_of(&bench, types[t], rows[i].host, rows[i].bytes));
            if (t < 2) {
                cr_assert_eq(status, rows[i].is_ok ? SIM_OK : SIM_ERROR_INVALID_VALUE,
                             "type %d row %zu", (int)types[t], i);
            } else {
                cr_assert_neq(status, SIM_OK, "type %d row %zu", (int)types[t],
                              i); /* no image, no blob */
            }
        }
    }
    tear_down(&bench);
}

Test(port, pinned_copies_stay_inside_their_block) {
    bench_t bench = set_up();
    static uint8_t memory[8192];
    uint32_t block = 0, other = 0;
    cr_assert_eq(dev_port_pin(bench.port, memory, 4096, &block, NULL), SIM_OK);
    cr_assert_eq(dev_port_pin(bench.port, memory + 4096, 4096, &other, NULL), SIM_OK);
    const uint64_t base = (uint64_t)block << 40;
    static const struct {
        uint64_t block, offset, bytes;
        bool is_ok;
    } rows[] = {
        {1, 0, 4096, true},
        {1, 4095, 1, true},
        {1, 1, 4096, false},
        {1, 4096, 1, false},
        {0, 0, 1, false},
        {3, 0, 1, false},
        {1, 0, UINT64_MAX, false},
        {DEV_PORT_MAX_BLOCKS, 0, 1, false},
        {DEV_PORT_MAX_BLOCKS + 1, 0, 1, false},
        {0xffffff, 0, 1, false},
        {1, 0xffffffffff, 2, false},
    };
    cr_assert_eq(block, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vnpu_packet_t packet = copy_of(&bench, VNPU_PACKET_COPY_H2D,
                                       rows[i].block << 40 | rows[i].offset, rows[i].bytes);
        packet.flags = VNPU_PACKET_PINNED;
        cr_assert_eq(status_of(&bench, packet), rows[i].is_ok ? SIM_OK : SIM_ERROR_INVALID_VALUE,
                     "row %zu", i);
    }
    vnpu_packet_t load = copy_of(&bench, VNPU_PACKET_MODULE_LOAD, base, 128);
    load.flags = VNPU_PACKET_PINNED; /* programs do not come from pinned memory */
    cr_assert_eq(status_of(&bench, load), SIM_ERROR_INVALID_VALUE);
    uint64_t bytes = 0;
    cr_assert_eq(dev_port_unpin(bench.port, block, &bytes), memory);
    cr_assert_eq(bytes, 4096);
    cr_assert_null(dev_port_unpin(bench.port, block, &bytes));
    cr_assert_null(dev_port_unpin(bench.port, 0, &bytes));
    cr_assert_null(dev_port_unpin(bench.port, UINT32_MAX, &bytes));
    vnpu_packet_t stale = copy_of(&bench, VNPU_PACKET_COPY_H2D, base, 1);
    stale.flags = VNPU_PACKET_PINNED;
    cr_assert_eq(status_of(&bench, stale), SIM_ERROR_INVALID_VALUE);
    cr_assert_eq(dev_port_first_block(bench.port), other);
    uint32_t last = 0;
    for (uint32_t i = 1; i < DEV_PORT_MAX_BLOCKS; i++) {
        cr_assert_eq(dev_port_pin(bench.port, memory, 1, &last, NULL), SIM_OK);
    }
    cr_assert_eq(dev_port_pin(bench.port, memory, 1, &last, NULL), SIM_ERROR_OUT_OF_MEMORY);
    tear_down(&bench);
}

Test(port, unknown_packets_complete_with_an_error) {
    bench_t bench = set_up();
    for (uint32_t type = VNPU_PACKET_TYPE_COUNT; type < 256; type++) {
        cr_assert_eq(status_of(&bench, packet_of(&bench, (vnpu_packet_type_t)type)),
                     SIM_ERROR_UNSUPPORTED);
    }
    cr_assert_eq(status_of(&bench, packet_of(&bench, VNPU_PACKET_MEM_INFO)), SIM_OK,
                 "and the port goes on");
    tear_down(&bench);
}

/* A length alone needs no payload, wherever its host field points. */
Test(port, length_only_copies_have_no_payload) {
    bench_t bench = set_up();
    vnpu_packet_t packet = copy_of(&bench, VNPU_PACKET_COPY_H2D, UINT64_MAX, 0);
    packet.flags = VNPU_PACKET_LENGTH_ONLY;
    cr_assert_eq(status_of(&bench, packet), SIM_OK);
    tear_down(&bench);
}

static void is_lost(bench_t *bench, const char *text) {
    sim_error_t err = {0};
    uint32_t count = 0;
    cr_assert_neq(dev_port_drain(bench->port, 10, &count, &err), SIM_OK);
    cr_assert(strstr(err.text, text) != NULL, "\"%s\" lacks \"%s\"", err.text, text);
    tear_down(bench);
}

Test(port, a_ring_without_sense_ends_the_client) {
    static const uint16_t slots[] = {0, 2, VNPU_MAX_PACKET_SLOTS + 1, UINT16_MAX};
    for (size_t i = 0; i < 4; i++) {
        bench_t bench = set_up();
        vnpu_packet_t packet = packet_of(&bench, VNPU_PACKET_NOP);
        packet.slots = slots[i];
        put(&bench, packet);
        atomic_store(&bench.control->tail, bench.tail - slots[i] + 1); /* one slot published */
        is_lost(&bench, "slots where 1 were published");
    }
    static const uint64_t seqs[] = {0, 1, 3, UINT64_MAX};
    for (size_t i = 0; i < 4; i++) {
        bench_t bench = set_up();
        vnpu_packet_t packet = packet_of(&bench, VNPU_PACKET_NOP);
        packet.seq = seqs[i];
        put(&bench, packet);
        is_lost(&bench, "where 2 was due");
    }
    static const uint64_t tails[] = {0, VNPU_RING_SLOTS + 2, UINT64_MAX};
    for (size_t i = 0; i < 3; i++) {
        bench_t bench = set_up(); /* head is 1 */
        atomic_store(&bench.control->tail, tails[i]);
        is_lost(&bench, "does not fit head 1");
    }
}

/* The layout that the client wrote over does not lead the chip anywhere. */
Test(port, the_control_page_is_not_believed) {
    bench_t bench = set_up();
    const vnpu_control_page_t before = *bench.control;
    bench.control->ring_offset = bench.control->completion_offset = UINT64_MAX;
    bench.control->staging_in_offset = bench.control->staging_out_offset = UINT64_MAX;
    atomic_store(&bench.control->head, 77);
    atomic_store(&bench.control->done, 99);
    vnpu_packet_t packet = packet_of(&bench, VNPU_PACKET_MEM_INFO);
    memcpy(bench.shared + before.ring_offset + 64, &packet, 64);
    atomic_store(&bench.control->tail, 2);
    uint32_t count = 0;
    cr_assert_eq(dev_port_drain(bench.port, 10, &count, NULL), SIM_OK);
    cr_assert_eq(count, 1);
    cr_assert_eq(atomic_load(&bench.control->head), 2);
    cr_assert_eq(atomic_load(&bench.control->done), 2);
    bench.control->completion_offset = before.completion_offset;
    cr_assert_eq(completion_of(&bench, 2).value[1], FAKE_DRAM_BYTES);
    tear_down(&bench);
}

Test(port, drains_in_batches_and_knows_who_waits) {
    bench_t bench = set_up();
    uint32_t count = 0;
    for (int i = 0; i < 100; i++) {
        vnpu_packet_t packet = packet_of(&bench, VNPU_PACKET_NOP);
        packet.flags = i == 99 ? VNPU_PACKET_BLOCKING : 0;
        put(&bench, packet);
    }
    cr_assert(dev_port_has_work(bench.port));
    cr_assert_eq(dev_port_drain(bench.port, 64, &count, NULL), SIM_OK);
    cr_assert_eq(count, 64);
    cr_assert_eq(atomic_load(&bench.control->done), 65);
    cr_assert_not(dev_port_client_waits(bench.port));
    cr_assert_eq(dev_port_drain(bench.port, 64, &count, NULL), SIM_OK);
    cr_assert_eq(count, 36);
    cr_assert(dev_port_client_waits(bench.port));
    cr_assert_not(dev_port_has_work(bench.port));
    dev_port_set_state(bench.port, DEV_PORT_DEEP_SLEEP);
    cr_assert_eq(atomic_load(&bench.control->state), 2);
    tear_down(&bench);
}
