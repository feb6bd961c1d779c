/* Measured memory bandwidth against what limits it in closed form. */
#include <criterion/criterion.h>
#include <string.h>

#include "sim/sim_probe.h"
#include "tests/sim/alloc_count.h"
#include "tests/sim/units.h"

static sim_probe_t probe(const char *name, const char *overrides) {
    sim_config_t *config = config_new(name, overrides);
    sim_error_t err = {0};
    sim_probe_t out;
    cr_assert_eq(sim_probe_run(config, &out, &err), SIM_OK, "%s", err.text);
    sim_config_destroy(config);
    return out;
}

static void near(uint64_t got, double want, double part, const char *what) {
    cr_assert((double)got <= want * (1 + 1e-9) && (double)got >= want * (1 - part),
              "%s: %.4g, not %.4g", what, (double)got, want);
}

/* A DRAM far faster than the rest. */
#define FAST_DRAM                                                                                  \
    "dram.channels=64,dram.trefi=0,dram.bytes=64 GiB,noc.bytes_per_cycle=4 KiB,"                   \
    "noc.memory_bytes_per_cycle=64 KiB"

Test(probe, engines_limit_a_stream) {
    sim_probe_t one =
        probe("default", FAST_DRAM ",grid.cores=1,dma.queues=1,dma.bytes_per_cycle=16");
    near(one.stream_bytes_per_s, 16e9, 0.03, "one engine of 16 bytes a cycle at 1 GHz");
    sim_probe_t eight =
        probe("default", FAST_DRAM ",grid.cores=4,dma.queues=2,dma.bytes_per_cycle=16");
    near(eight.stream_bytes_per_s, 8 * 16e9, 0.04, "eight of them");
    sim_probe_t half = probe("default", FAST_DRAM
                             ",grid.cores=4,grid.workers=2,dma.queues=2,dma.bytes_per_cycle=16");
    near(half.stream_bytes_per_s, 4 * 16e9, 0.04, "of the cores that compute");
}

/* Little's law: one request in flight takes an idle latency each. */
Test(probe, requests_in_flight_limit_a_stream) {
    sim_probe_t one = probe("default", FAST_DRAM ",grid.cores=1,dma.queues=1,dma.request_bytes=64,"
                                                 "dma.outstanding_bytes=64,dma.run_cycles=0");
    sim_probe_t four = probe("default", FAST_DRAM ",grid.cores=1,dma.queues=1,dma.request_bytes=64,"
                                                  "dma.outstanding_bytes=256,dma.run_cycles=0");
    near(four.stream_bytes_per_s, 4 * (double)one.stream_bytes_per_s, 0.1, "four in flight");
    cr_assert_lt(one.stream_bytes_per_s, 2000000000u, "64 bytes take more than 32 ns");
}

Test(probe, the_bus_and_refresh_limit_many_engines) {
    sim_probe_t whole = probe("default", "");
    double peak = 819.2e9, beside_refresh = peak * (1 - 560.0 / 6240.0);
    near(whole.stream_bytes_per_s, beside_refresh, 0.15, "default.ini");
    sim_probe_t port = probe("default", "noc.memory_bytes_per_cycle=128");
    near(port.stream_bytes_per_s, 128e9, 0.02, "the memory port");
    cr_assert_eq(probe("default", "grid.cores=4").stream_bytes_per_s, whole.stream_bytes_per_s,
                 "the same twice");
}

/* 64 bytes are two bursts, in two bank groups: two of the four activates in tFAW of a channel. */
Test(probe, activates_limit_random_reads) {
    sim_probe_t slow = probe("default", "dram.tfaw=200,dram.trefi=0");
    near(slow.random_bytes_per_s, 32 * 2 * 64 / (200 / 1.6e9), 0.2,
         "channels are not equally loaded");
    sim_probe_t plain = probe("default", "");
    cr_assert_gt(plain.random_bytes_per_s, slow.random_bytes_per_s);
    cr_assert_lt(plain.random_bytes_per_s, plain.stream_bytes_per_s);
}

/* Every topology, classes of cores, and a window. */
Test(probe, other_chips) {
    static const char *const NAMES[] = {"tiny", "gemmini-16", "wormhole-like", "ascend910-like"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        sim_probe_t out = probe(NAMES[i], "");
        cr_assert(out.stream_bytes_per_s > 0 && out.random_bytes_per_s > 0, "%s", NAMES[i]);
    }
    sim_probe_t window = probe("default", "dram.window=32");
    near(window.stream_bytes_per_s, 819.2e9, 0.25, "a window");
}

Test(probe, a_configuration_that_a_unit_refuses) {
    sim_config_t *config = config_new("default", "dram.mapping=ro-ba");
    sim_error_t err = {0};
    sim_probe_t out;
    cr_assert_neq(sim_probe_run(config, &out, &err), SIM_OK);
    cr_assert_neq(err.text[0], '\0');
    sim_config_destroy(config);
}

Test(probe, every_allocation_may_fail) {
    sim_config_t *config = config_new("tiny", "cache.bytes=64 KiB");
    unsigned long failures = 0;
    for (sim_status_t status = SIM_ERROR_OUT_OF_MEMORY; status != SIM_OK && failures < 12;
         failures++) {
        sim_probe_t out;
        sim_error_t err = {0};
        alloc_count_reset();
        alloc_fail_from(failures);
        status = sim_probe_run(config, &out, &err);
        cr_assert_eq(alloc_live(), 0, "failure %lu", failures);
        alloc_count_reset();
        cr_assert(status != SIM_OK && out.stream_bytes_per_s == 0, "failure %lu", failures);
        cr_assert_eq(status, SIM_ERROR_OUT_OF_MEMORY);
    }
    cr_assert_eq(failures, 12); /* lists, units, engines: before anything runs */
    sim_config_destroy(config);
}
