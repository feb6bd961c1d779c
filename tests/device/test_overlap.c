/* Packets of different streams in simulated time: what overlaps, what waits, and that reuse and
 * questions change nothing. */
#include <criterion/criterion.h>

#include "device/vnpu_profile.h"
#include "sim/sim_link.h"
#include "sim/sim_op.h"
#include "tests/device/dev_test_chip.h"
#include "tests/device/dev_test_random.h"

#define MAX_ROWS 256u

typedef struct rig {
    bench_t bench;
    uint32_t compute, load;
    uint64_t gap, completion, memory;
    bool asks; /* after every packet */
    vnpu_profile_launch_t row[MAX_ROWS];
    uint32_t rows;
    uint8_t *blob;
} rig_t;

static vnpu_completion_t send(rig_t *rig, vnpu_packet_t *packet, const void *in, void *out) {
    vnpu_completion_t completion = bench_send(&rig->bench, packet, in, out);
    cr_assert_eq(completion.status, SIM_OK);
    return completion;
}

static vnpu_completion_t ask(rig_t *rig, vnpu_time_of_t of, uint64_t which) {
    vnpu_packet_t packet = {.type = VNPU_PACKET_TIME};
    packet.u.mem.address = of;
    packet.u.mem.bytes = which;
    return send(rig, &packet, NULL, NULL);
}

/* Sends a packet of a stream; returns its sequence number. */
static uint64_t put(rig_t *rig, vnpu_packet_t *packet, uint32_t stream, const void *in, void *out) {
    packet->stream = stream;
    uint64_t seq = send(rig, packet, in, out).seq;
    if (rig->asks) (void)ask(rig, VNPU_TIME_OF_ALL, 0);
    return seq;
}

static vnpu_completion_t mem(rig_t *rig, vnpu_packet_type_t type, uint64_t bytes) {
    vnpu_packet_t packet = {.type = (uint8_t)type};
    packet.u.mem.bytes = bytes;
    return send(rig, &packet, NULL, NULL);
}

static uint32_t load(rig_t *rig, const char *text) {
    vnpu_completion_t done = bench_load(&rig->bench, text);
    cr_assert_eq(done.status, SIM_OK);
    return (uint32_t)done.value[0];
}

/* Vector work without DRAM; and loads that keep the memory busy. */
static const char *const compute_text =
    ".program compute\n.arg x in\n.sem full\n.sram 8192\n.ap dx dram f32 arg=x dims=[16:1]\n.ap t "
    "sram f32 dims=[256:1]\n"
    ".ap s sram f32 dims=[16:1]\n.queue dma0\ndma_copy dst=s src0=dx signal=full\n"
    ".queue vector0\nsync wait=full\nloop 200\nv_unary.exp dst=t src0=t\nendloop\n";
static const char *const load_text =
    ".program load\n.arg x in\n.sram 16384\n.ap dx dram f32 arg=x dims=[2048:1] grid0=+65536 "
    "loop0=+4096\n.ap t sram f32 dims=[2048:1]\n"
    ".ap dy dram f32 arg=x base=8192 dims=[2048:1] grid0=+65536 loop0=+4096\n.ap u sram f32 "
    "base=8192 dims=[2048:1]\n"
    ".queue dma0\nloop 16\ndma_copy dst=t src0=dx\nendloop\n.queue dma1\nloop 16\ndma_copy dst=u "
    "src0=dy\nendloop\n";

static void open_rig(rig_t *rig, const char *overrides, dev_reuse_t reuse) {
    memset(rig, 0, sizeof *rig);
    char keys[200];
    snprintf(keys, sizeof keys, "grid.cores=4%s", overrides);
    bench_open(&rig->bench, keys, (dev_chip_options_t){.reuse = reuse, .threads = 1});
    rig->gap = sim_config_u64(rig->bench.config, "cmd.launch_gap");
    rig->completion = sim_config_u64(rig->bench.config, "cmd.completion");
    rig->memory = mem(rig, VNPU_PACKET_ALLOC, 8 << 20).value[0];
    rig->compute = load(rig, compute_text);
    rig->load = load(rig, load_text);
    (void)mem(rig, VNPU_PACKET_PROFILE_START, 0);
}

/* Ends the profile: rig->row by submission. */
static void stop(rig_t *rig) {
    uint64_t bytes = mem(rig, VNPU_PACKET_PROFILE_STOP, 0).value[0];
    rig->blob = realloc(rig->blob, bytes);
    bench_read(&rig->bench, VNPU_BLOB_PROFILE, bytes, rig->blob);
    vnpu_profile_header_t header;
    memcpy(&header, rig->blob, sizeof header);
    rig->rows = header.num_launches;
    cr_assert_leq(rig->rows, MAX_ROWS);
    memcpy(rig->row, rig->blob + header.launches_offset, rig->rows * sizeof rig->row[0]);
}

static void close_rig(rig_t *rig) {
    bench_close(&rig->bench);
    free(rig->blob);
}

static uint64_t launch(rig_t *rig, uint32_t module, uint32_t stream, uint64_t cores,
                       uint64_t offset, uint32_t grid) {
    vnpu_packet_t packet[2] = {{.type = VNPU_PACKET_KERNEL, .slots = 2}};
    uint64_t address = rig->memory + offset;
    packet[0].u.kernel = (vnpu_packet_kernel_t){
        .module = module, .num_args = 1, .grid = {grid, 1}, .core_mask = cores};
    memcpy(&packet[1], &address, sizeof address);
    return put(rig, packet, stream, NULL, NULL);
}

static uint64_t fill(rig_t *rig, uint32_t stream, uint32_t core, uint64_t offset, uint64_t bytes) {
    vnpu_packet_t packet = {.type = VNPU_PACKET_FILL, .core = core};
    packet.u.fill =
        (vnpu_packet_fill_t){.device = rig->memory + offset, .count = bytes, .width = 1};
    return put(rig, &packet, stream, NULL, NULL);
}

static uint64_t link_copy(rig_t *rig, vnpu_packet_type_t type, uint32_t stream, uint64_t bytes) {
    static char host[1 << 20];
    vnpu_packet_t packet = {.type = (uint8_t)type};
    packet.u.copy = (vnpu_packet_copy_t){.device = rig->memory, .bytes = bytes, .total = bytes};
    return put(rig, &packet, stream, host, host);
}

static uint64_t record(rig_t *rig, uint32_t stream) {
    vnpu_packet_t packet = {.type = VNPU_PACKET_EVENT_RECORD};
    return put(rig, &packet, stream, NULL, NULL);
}

static void wait(rig_t *rig, uint32_t stream, uint64_t event) {
    vnpu_packet_t packet = {.type = VNPU_PACKET_EVENT_WAIT};
    packet.u.mem.bytes = event;
    (void)put(rig, &packet, stream, NULL, NULL);
}

/* Without the completion record. */
static uint64_t span(const rig_t *rig, uint32_t row) {
    return rig->row[row].end_ps - rig->completion - rig->row[row].start_ps;
}

static uint64_t alone(const char *overrides, bool is_load, uint64_t cores, uint32_t grid) {
    rig_t rig;
    open_rig(&rig, overrides, DEV_REUSE_ON);
    launch(&rig, is_load ? rig.load : rig.compute, 1, cores, 0, grid);
    stop(&rig);
    uint64_t ps = span(&rig, 0);
    close_rig(&rig);
    return ps;
}

Test(overlap, compute_on_disjoint_cores_takes_the_longer_of_both) {
    rig_t rig;
    uint64_t one = alone("", false, 3, 2);
    open_rig(&rig, "", DEV_REUSE_CHECK);
    launch(&rig, rig.compute, 1, 3, 0, 2);
    launch(&rig, rig.compute, 2, 12, 1 << 20, 2);
    stop(&rig);
    cr_assert_lt(rig.row[1].start_ps, rig.row[0].end_ps - rig.completion);
    cr_assert_gt(rig.row[1].end_ps, rig.row[0].start_ps);
    for (uint32_t r = 0; r < 2;
         r++) { /* each as if alone, but for its one load and the next edge of the core's clock */
        cr_assert_geq(span(&rig, r) * 100, one * 99);
        cr_assert_leq(span(&rig, r) * 100, one * 101);
    }
    close_rig(&rig);
}

/* Classes of cores are disjoint: a stream on each, and neither names cores of the other's clock. */
Test(overlap, classes_of_cores_run_side_by_side) {
    const char *classes =
        ",class vec.count=2,class vec.matrix.count=0,class vec.core.clock=700 MHz";
    uint64_t one[2] = {alone(classes, false, 0, 4), alone(classes, false, 1 << 4, 1)};
    cr_assert_gt(one[1], one[0], "700 MHz");
    rig_t rig;
    open_rig(&rig, classes, DEV_REUSE_CHECK);
    launch(&rig, rig.compute, 1, 0, 0, 4);
    launch(&rig, rig.compute, 2, 1 << 4, 1 << 20, 1);
    launch(&rig, rig.compute, 2, 1 << 5, 2 << 20, 1);
    stop(&rig);
    cr_assert_lt(rig.row[1].start_ps, rig.row[0].end_ps - rig.completion);
    cr_assert_geq(rig.row[2].start_ps, rig.row[1].end_ps - rig.completion, "one stream");
    for (uint32_t r = 0; r < 3; r++) {
        uint64_t same = one[r == 0 ? 0 : 1];
        cr_assert_geq(span(&rig, r) * 100, same * 99);
        cr_assert_leq(span(&rig, r) * 100, same * 101);
    }
    close_rig(&rig);
}

Test(overlap, loads_on_disjoint_cores_share_the_memory) {
    rig_t rig;
    const char *slow = ",dma.outstanding_bytes=64 KiB,dram.clock=300 MHz"; /* one of them is enough
                                                                              for the memory */
    uint64_t one = alone(slow, true, 3, 2);
    open_rig(&rig, slow, DEV_REUSE_CHECK);
    launch(&rig, rig.load, 1, 3, 0, 2);
    launch(&rig, rig.load, 2, 12, 1 << 20, 2);
    stop(&rig);
    uint64_t first = rig.row[0].start_ps,
             last = rig.row[1].end_ps > rig.row[0].end_ps ? rig.row[1].end_ps : rig.row[0].end_ps;
    uint64_t both = last - rig.completion - first;
    cr_assert_geq(both * 100, one * 180, "%llu ps beside %llu ps alone", (unsigned long long)both,
                  (unsigned long long)one);
    cr_assert_leq(both * 100, one * 210);
    cr_assert_gt(span(&rig, 0) * 100, one * 170); /* nobody goes first */
    close_rig(&rig);
}

Test(overlap, a_stream_is_serial_and_cores_have_one_packet_at_a_time) {
    rig_t rig;
    uint64_t one = alone("", false, 3, 2);
    open_rig(&rig, "", DEV_REUSE_CHECK);
    launch(&rig, rig.compute, 1, 3, 0, 2);
    launch(&rig, rig.compute, 1, 12, 0, 2); /* the same stream */
    launch(&rig, rig.compute, 2, 14, 0, 2); /* another one, a core of the second */
    stop(&rig);
    for (uint32_t r = 0; r < 2; r++) {
        cr_assert_eq(span(&rig, r), one);
        cr_assert_eq(rig.row[r + 1].start_ps, rig.row[r].end_ps - rig.completion + rig.gap);
    }
    close_rig(&rig);
}

Test(overlap, what_starts_first_takes_the_core) {
    rig_t rig;
    open_rig(&rig, "", DEV_REUSE_CHECK);
    link_copy(&rig, VNPU_PACKET_COPY_H2D, 1, 500000);
    launch(&rig, rig.compute, 1, 0, 0, 4); /* has to wait for the copy */
    launch(&rig, rig.compute, 2, 0, 0, 4); /* submitted later, but has nothing to wait for */
    stop(&rig);
    cr_assert_lt(rig.row[2].start_ps, rig.row[0].end_ps);
    cr_assert_geq(rig.row[1].start_ps, rig.row[0].end_ps - rig.completion + rig.gap);
    cr_assert_geq(rig.row[1].start_ps, rig.row[2].end_ps - rig.completion + rig.gap);
    close_rig(&rig);
}

Test(overlap, events_order_streams) {
    rig_t rig;
    open_rig(&rig, "", DEV_REUSE_CHECK);
    launch(&rig, rig.load, 1, 3, 0, 2);
    wait(&rig, 2, record(&rig, 1));
    launch(&rig, rig.compute, 2, 12, 0, 2);
    uint64_t event = record(&rig, 2);
    launch(&rig, rig.load, 3, 12, 0, 2); /* waits for nothing but the cores, and is there first */
    uint64_t told = ask(&rig, VNPU_TIME_OF_PACKET, event).value[0];
    stop(&rig);
    cr_assert_geq(rig.row[1].start_ps, rig.row[0].end_ps - rig.completion + rig.gap);
    cr_assert_lt(rig.row[2].start_ps, rig.row[0].end_ps);
    cr_assert_geq(rig.row[1].start_ps, rig.row[2].end_ps - rig.completion + rig.gap);
    cr_assert_eq(told, rig.row[1].end_ps - rig.completion);
    close_rig(&rig);
}

Test(overlap, link_copies_run_beside_kernels_one_a_direction) {
    rig_t rig;
    uint64_t one = alone("", true, 0, 4);
    open_rig(&rig, "", DEV_REUSE_CHECK);
    sim_link_spec_t link;
    cr_assert_eq(sim_link_spec_from_config(rig.bench.config, &link), SIM_OK);
    launch(&rig, rig.load, 1, 0, 0, 4);
    link_copy(&rig, VNPU_PACKET_COPY_H2D, 2, 300000);
    link_copy(&rig, VNPU_PACKET_COPY_H2D, 3, 300000);
    link_copy(&rig, VNPU_PACKET_COPY_D2H, 4, 300000);
    stop(&rig);
    uint64_t wire = sim_link_transfer_ps(&link, 300000);
    cr_assert_eq(span(&rig, 0), one); /* the link shares nothing that is modelled with the cores */
    for (uint32_t r = 1; r < 4; r++)
        cr_assert_eq(span(&rig, r), wire);
    cr_assert_lt(rig.row[1].start_ps, rig.row[0].end_ps);
    cr_assert_eq(rig.row[2].start_ps, rig.row[1].end_ps - rig.completion);
    cr_assert_lt(rig.row[3].start_ps, rig.row[1].end_ps);
    close_rig(&rig);
}

Test(overlap, a_fill_runs_beside_kernels_of_other_cores) {
    rig_t rig;
    open_rig(&rig, "", DEV_REUSE_CHECK);
    launch(&rig, rig.compute, 1, 3, 0, 2);
    fill(&rig, 2, 2, 4 << 20, 20000);
    fill(&rig, 3, 1, 5 << 20, 20000); /* core 1 is taken */
    stop(&rig);
    cr_assert_lt(rig.row[1].start_ps, rig.row[0].end_ps);
    cr_assert_geq(rig.row[2].start_ps, rig.row[0].end_ps - rig.completion + rig.gap);
    close_rig(&rig);
}

Test(overlap, a_full_epoch_drains) {
    rig_t rig;
    open_rig(&rig, ",epoch.max_packets=1", DEV_REUSE_CHECK);
    for (uint32_t s = 0; s < 3; s++)
        launch(&rig, rig.compute, s, 1u << s, 0, 1);
    stop(&rig);
    for (uint32_t r = 0; r < 2; r++)
        cr_assert_eq(rig.row[r + 1].start_ps, rig.row[r].end_ps - rig.completion + rig.gap);
    close_rig(&rig);
    open_rig(&rig, ",epoch.max_packets=2", DEV_REUSE_CHECK);
    for (uint32_t s = 0; s < 3; s++)
        launch(&rig, rig.compute, s, 1u << s, 0, 1);
    stop(&rig);
    cr_assert_lt(rig.row[1].start_ps, rig.row[0].end_ps);
    cr_assert_eq(rig.row[2].start_ps, rig.row[1].end_ps - rig.completion + rig.gap);
    close_rig(&rig);
}

/* A pair that comes again in the same way is not simulated again. */
static void pairs(rig_t *rig, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        rig->bench.clock += 1000000000;
        launch(rig, rig->load, 1, 3, 0, 2);
        launch(rig, rig->load, 2, 12, 1 << 20, 2);
        fill(rig, 2, 3, 4 << 20, 10000);
    }
    stop(rig);
}

Test(overlap, a_recurring_pair_is_reused) {
    rig_t on, off, check;
    open_rig(&on, "", DEV_REUSE_ON);
    open_rig(&off, "", DEV_REUSE_OFF);
    open_rig(&check, "", DEV_REUSE_CHECK);
    pairs(&on, 4);
    pairs(&off, 4);
    pairs(&check, 4);
    for (uint32_t r = 0; r < on.rows; r++) {
        cr_assert_eq(on.row[r].is_reused, r >= 3, "row %u", r);
        cr_assert_eq(off.row[r].is_reused, 0);
        cr_assert_eq(check.row[r].is_reused, r >= 3);
        cr_assert_eq(on.row[r].start_ps, off.row[r].start_ps);
        cr_assert_eq(on.row[r].end_ps, off.row[r].end_ps);
        cr_assert_eq(on.row[r].end_ps, check.row[r].end_ps);
    }
    close_rig(&on);
    close_rig(&off);
    close_rig(&check);
}

/* Starts that never come again: old epochs go, a recent one is still known. */
Test(overlap, only_the_latest_epochs_are_kept) {
    rig_t rig;
    open_rig(&rig, "", DEV_REUSE_CHECK);
    stop(&rig); /* nobody profiles */
    for (uint64_t i = 0; i < 3 * 16; i++) {
        rig.bench.clock += 1000000000;
        launch(&rig, rig.load, 1, 3, 0, 2);
        rig.bench.clock += 1000 * (i % 40);
        launch(&rig, rig.load, 2, 12, 1 << 20, 2);
        cr_assert_gt(ask(&rig, VNPU_TIME_OF_ALL, 0).value[0], rig.bench.clock);
    }
    (void)mem(&rig, VNPU_PACKET_PROFILE_START, 0);
    static const uint64_t offset_ns[2] = {7, 29}; /* the latest, and one of 18 pairs ago */
    for (uint32_t i = 0; i < 2; i++) {
        rig.bench.clock += 1000000000;
        launch(&rig, rig.load, 1, 3, 0, 2);
        rig.bench.clock += 1000 * offset_ns[i];
        launch(&rig, rig.load, 2, 12, 1 << 20, 2);
    }
    stop(&rig);
    cr_assert_eq(rig.row[3].is_reused, 0);
    cr_assert_eq(rig.row[1].is_reused, 1);
    close_rig(&rig);
}

/* The causes of a launch are those of its own cores, and sum to its duration. */
Test(overlap, causes_are_booked_to_the_launch_that_holds_the_core) {
    rig_t rig;
    open_rig(&rig, "", DEV_REUSE_ON);
    launch(&rig, rig.compute, 1, 3, 0, 2);
    launch(&rig, rig.load, 2, 12, 1 << 20, 2);
    stop(&rig);
    vnpu_profile_header_t header;
    memcpy(&header, rig.blob, sizeof header);
    cr_assert_eq(header.num_records, 2);
    const uint8_t *at = rig.blob + header.records_offset;
    uint64_t read = 0, bus = 0;
    for (uint32_t r = 0; r < 2; r++) {
        vnpu_profile_record_t row;
        memcpy(&row, at, sizeof row);
        cr_assert_eq(row.duration_ps, span(&rig, r));
        read += row.dram_read_bytes;
        bus += row.bus_read_bytes;
        for (uint32_t e = 0; e < header.num_engines; e++) {
            uint64_t sum = 0, ps;
            for (uint32_t c = 0; c < header.num_causes; c++) {
                memcpy(&ps, at + sizeof row + ((size_t)e * header.num_causes + c) * sizeof ps,
                       sizeof ps);
                sum += ps;
            }
            bool is_own = e / (header.num_engines / 4) / 2 == r;
            cr_assert_eq(sum, is_own ? row.duration_ps : 0, "record %u engine %u", r, e);
        }
        at += row.bytes;
    }
    cr_assert_geq(bus, read);
    cr_assert_leq(bus, read + 4096);
    close_rig(&rig);
}

/* --- random programs
 * ----------------------------------------------------------------------------------------------------
 */

static void random_packets(rig_t *rig, uint64_t seed) {
    uint64_t state = seed, event = 0;
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t stream = (uint32_t)(dev_test_random(&state) % 4);
        uint64_t cores = 1 + dev_test_random(&state) % 15,
                 offset = dev_test_random(&state) % 4 << 20;
        switch (dev_test_random(&state) % 8) {
        case 0: fill(rig, stream, (uint32_t)(dev_test_random(&state) % 4), offset, 3000); break;
        case 1: link_copy(rig, VNPU_PACKET_COPY_H2D, stream, 20000); break;
        case 2: event = record(rig, stream); break;
        case 3:
            if (event != 0) wait(rig, stream, event);
            break;
        case 4: rig->bench.clock += dev_test_random(&state) % 20000000; break;
        case 5: launch(rig, rig->load, stream, cores, offset, 2); break;
        default: launch(rig, rig->compute, stream, cores, offset, 2); break;
        }
    }
    stop(rig);
}

Test(overlap, questions_and_reuse_change_no_time) {
    for (uint64_t seed = 1; seed <= 12; seed++) {
        rig_t rig[4];
        for (uint32_t i = 0; i < 4; i++) {
            open_rig(&rig[i], seed % 3 == 0 ? ",epoch.max_packets=5,cmd.launch_gap=0 ns" : "",
                     i == 0   ? DEV_REUSE_OFF
                     : i == 3 ? DEV_REUSE_CHECK
                              : DEV_REUSE_ON);
            rig[i].asks = i == 1;
            random_packets(&rig[i], seed);
            cr_assert_eq(rig[i].rows, rig[0].rows);
            for (uint32_t r = 0; r < rig[0].rows; r++) {
                cr_assert_eq(rig[i].row[r].start_ps, rig[0].row[r].start_ps,
                             "seed %llu run %u row %u", (unsigned long long)seed, i, r);
                cr_assert_eq(rig[i].row[r].end_ps, rig[0].row[r].end_ps, "seed %llu run %u row %u",
                             (unsigned long long)seed, i, r);
            }
        }
        uint32_t overlaps = 0;
        for (uint32_t r = 0; r < rig[0].rows; r++) {
            for (uint32_t q = 0; q < r; q++) {
                const vnpu_profile_launch_t *a = &rig[0].row[q], *b = &rig[0].row[r];
                bool is_apart = b->start_ps >= a->end_ps - rig[0].completion ||
                                a->start_ps >= b->end_ps - rig[0].completion;
                cr_assert(is_apart || a->stream != b->stream, "seed %llu rows %u %u",
                          (unsigned long long)seed, q, r);
                overlaps +=
                    !is_apart && a->kind == VNPU_LAUNCH_KERNEL && b->kind == VNPU_LAUNCH_KERNEL;
            }
        }
        cr_assert_gt(overlaps, 0, "seed %llu", (unsigned long long)seed);
        for (uint32_t i = 0; i < 4; i++)
            close_rig(&rig[i]);
    }
}
