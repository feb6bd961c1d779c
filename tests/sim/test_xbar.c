#include <criterion/criterion.h>
#include <signal.h>

#include "sim/sim_xbar.h"
#include "tests/sim/units.h"

#define TICKS   8u /* a cycle of noc.clock = 1 GHz */
#define LATENCY 20u
#define MEMORY  4u

/* 256 bytes a cycle at the cores, 1024 at the memory side. */
static sim_xbar_t *xbar_new(void) {
    sim_config_t *config = config_new(
        "default", "noc.clock=1GHz,noc.bytes_per_cycle=256B,noc.memory_bytes_per_cycle=1KiB,"
                   "noc.latency_cycles=20");
    sim_xbar_t *xbar;
    cr_assert_eq(sim_xbar_create(config, MEMORY, &xbar), SIM_OK);
    sim_config_destroy(config);
    return xbar;
}

Test(xbar, zero_load_is_latency_plus_serialisation) {
    const uint64_t bytes[] = {1, 255, 256, 257, 4096, 4097};
    for (size_t i = 0; i < 6; i++) {
        sim_xbar_t *xbar = xbar_new();
        uint64_t cycles = LATENCY + (bytes[i] + 255) / 256;
        cr_assert_eq(sim_xbar_send(xbar, MEMORY, 0, bytes[i], 0), cycles * TICKS);
        cr_assert_eq(sim_xbar_send(xbar, 1, 2, bytes[i], 0), cycles * TICKS);
        sim_xbar_destroy(xbar);
    }
}

Test(xbar, one_destination_port_is_shared) {
    sim_xbar_t *xbar = xbar_new();
    cr_assert_eq(sim_xbar_send(xbar, 0, 2, 4096, 0), (LATENCY + 16) * TICKS);
    cr_assert_eq(sim_xbar_send(xbar, 1, 2, 4096, 0), (LATENCY + 32) * TICKS);
    sim_xbar_destroy(xbar);
}

Test(xbar, one_source_port_is_shared) {
    sim_xbar_t *xbar = xbar_new();
    cr_assert_eq(sim_xbar_send(xbar, 0, 1, 4096, 0), (LATENCY + 16) * TICKS);
    cr_assert_eq(sim_xbar_send(xbar, 0, 2, 4096, 0), (LATENCY + 32) * TICKS);
    sim_xbar_destroy(xbar);
}

Test(xbar, disjoint_ports_and_directions_do_not_disturb_each_other) {
    sim_xbar_t *xbar = xbar_new();
    cr_assert_eq(sim_xbar_send(xbar, 0, 1, 4096, 0), (LATENCY + 16) * TICKS);
    cr_assert_eq(sim_xbar_send(xbar, 2, 3, 4096, 0), (LATENCY + 16) * TICKS);
    cr_assert_eq(sim_xbar_send(xbar, 1, 0, 4096, 0), (LATENCY + 16) * TICKS);
    sim_xbar_destroy(xbar);
}

Test(xbar, the_wide_port_feeds_several_narrow_ones) {
    sim_xbar_t *xbar = xbar_new();
    /* 4 cycles of the memory port each: the heads leave at 0, 4, 8, 12 */
    for (uint32_t core = 0; core < 4; core++)
        cr_assert_eq(sim_xbar_send(xbar, MEMORY, core, 4096, 0), (LATENCY + 4 * core + 16) * TICKS);
    sim_xbar_destroy(xbar);
}

Test(xbar, a_message_starts_at_an_edge_and_a_free_port_does_not_wait) {
    sim_xbar_t *xbar = xbar_new();
    cr_assert_eq(sim_xbar_send(xbar, 0, 1, 256, 3), (1 + LATENCY + 1) * TICKS);
    cr_assert_eq(sim_xbar_send(xbar, 0, 1, 256, 2 * TICKS), (2 + LATENCY + 1) * TICKS);
    cr_assert_eq(sim_xbar_send(xbar, 0, 1, 256, 1000 * TICKS), (1000 + LATENCY + 1) * TICKS);
    sim_xbar_destroy(xbar);
}

Test(xbar, bandwidth_of_a_port) {
    sim_xbar_t *xbar = xbar_new();
    sim_tick_t last = 0;
    for (int i = 0; i < 1000; i++)
        last = sim_xbar_send(xbar, (uint32_t)(i % 3), 3, 1024, 0);
    cr_assert_eq(last, (LATENCY + 1000 * 4) * TICKS);
    sim_xbar_reset(xbar);
    cr_assert_eq(sim_xbar_send(xbar, 0, 3, 1024, 0), (LATENCY + 4) * TICKS);
    sim_xbar_destroy(xbar);
}

Test(xbar, back_in_time_is_a_bug, .signal = SIGABRT) {
    sim_xbar_t *xbar = xbar_new();
    (void)sim_xbar_send(xbar, 0, 1, 256, 10);
    (void)sim_xbar_send(xbar, 2, 3, 256, 9);
}
