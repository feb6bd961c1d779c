#include <criterion/criterion.h>
#include <signal.h>

#include "sim/sim_event.h"

static const uint64_t HZ[] = {1,          2,          3,          7,          1000,
                              1000000,    33333333,   234375000,  650000000,  833333333,
                              940000000,  999999999,  1000000000, 1050000000, 1200000000,
                              1333333333, 1600000000, 1750000000, 2400000000, 2800000000,
                              3000000001, 4000000000, 5333333333, 7999999999, 8000000000u};
#define HZ_COUNT (sizeof HZ / sizeof HZ[0])

static sim_clock_t clock_of(uint64_t hz) {
    sim_clock_t clock;
    cr_assert_eq(sim_clock_init(&clock, hz), SIM_OK, "%lu Hz", (unsigned long)hz);
    return clock;
}

static void check_cycle(const sim_clock_t *clock, uint64_t cycle) {
    sim_tick_t tick = sim_clock_tick(clock, cycle);
    cr_assert_eq(sim_clock_cycle(clock, tick), cycle, "%lu Hz, cycle %lu", (unsigned long)clock->hz,
                 (unsigned long)cycle);
    cr_assert_eq(sim_clock_cycle_up(clock, tick), cycle);
    if (tick == 0) return;
    /* One tick earlier the cycle has not begun; one tick later the next whole cycle is another one.
     */
    cr_assert_eq(sim_clock_cycle(clock, tick - 1), cycle - 1, "%lu Hz, before cycle %lu",
                 (unsigned long)clock->hz, (unsigned long)cycle);
    cr_assert_leq(sim_clock_cycle_up(clock, tick - 1), cycle);
    cr_assert_eq(sim_clock_cycle_up(clock, tick + 1), cycle + 1);
}

Test(clock, cycle_of_tick_of_a_cycle_is_the_cycle) {
    for (size_t i = 0; i < HZ_COUNT; i++) {
        sim_clock_t clock = clock_of(HZ[i]);
        uint64_t mix = 88172645463325252u;
        for (uint64_t cycle = 0; cycle < 3000; cycle++)
            check_cycle(&clock, cycle);
        for (int n = 0; n < 3000; n++) { /* xorshift; up to 2^30 cycles: 2^30 s at 1 Hz still fit */
            mix ^= mix << 13, mix ^= mix >> 7, mix ^= mix << 17;
            check_cycle(&clock, mix >> 34);
        }
    }
}

/* Half a century of cycles: products beyond 64 bits. 2^50 cycles at 940 MHz are 14 days; 2^60 at 8
 * GHz 4.6 years. */
Test(clock, large_cycles_do_not_drift) {
    for (size_t i = 0; i < HZ_COUNT; i++) {
        if (HZ[i] < 100000000) continue;
        sim_clock_t clock = clock_of(HZ[i]);
        for (uint64_t cycle = (UINT64_C(1) << 50) - 100; cycle < (UINT64_C(1) << 50) + 100; cycle++)
            check_cycle(&clock, cycle);
    }
    sim_clock_t fast = clock_of(8000000000u);
    check_cycle(&fast, UINT64_C(1) << 63);
}

Test(clock, known_values) {
    sim_clock_t ghz = clock_of(1000000000), fast = clock_of(8000000000u), odd = clock_of(940000000);
    cr_assert_eq(sim_clock_tick(&ghz, 1), 8);
    cr_assert_eq(sim_clock_tick(&ghz, 1000), 8000);
    cr_assert_eq(sim_clock_tick(&fast, 12345), 12345);
    /* 940 MHz: 8.5106... ticks a cycle, and 47 cycles are exactly 400 ticks. */
    cr_assert_eq(sim_clock_tick(&odd, 1), 9);
    cr_assert_eq(sim_clock_tick(&odd, 2), 18);
    cr_assert_eq(sim_clock_tick(&odd, 47), 400);
    cr_assert_eq(sim_clock_tick(&odd, UINT64_C(47) * 1000000007), UINT64_C(400) * 1000000007);
    cr_assert_eq(sim_clock_cycle(&odd, 8), 0);
    cr_assert_eq(sim_clock_cycle(&odd, 9), 1);
    cr_assert_eq(sim_clock_cycle_up(&odd, 10), 2);
    cr_assert_eq(sim_clock_cycle_up(&odd, 0), 0);
}

Test(clock, out_of_range_is_refused) {
    sim_clock_t clock;
    cr_assert_eq(sim_clock_init(&clock, 0), SIM_ERROR_INVALID_VALUE);
    cr_assert_eq(sim_clock_init(&clock, 8000000001u), SIM_ERROR_INVALID_VALUE);
    cr_assert_eq(sim_clock_init(&clock, UINT64_MAX), SIM_ERROR_INVALID_VALUE);
}

Test(clock, a_time_beyond_64_bits_aborts, .signal = SIGABRT) {
    sim_clock_t slow = clock_of(1);
    (void)sim_clock_tick(&slow, UINT64_MAX / 2);
}
