#include "sim/sim_event.h"

#define TICKS_PER_S (1000000000000u / SIM_TICK_PS)

__extension__ typedef unsigned __int128 wide_t;

static uint64_t gcd(uint64_t a, uint64_t b) {
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* value * mul / div rounded down or up; 64-bit arithmetic where it fits, because it is several
 * times as fast. */
static uint64_t scale(uint64_t value, uint64_t mul, uint64_t div, bool up) {
    uint64_t product;
    uint64_t extra = up ? div - 1 : 0;
    if (!__builtin_mul_overflow(value, mul, &product) &&
        !__builtin_add_overflow(product, extra, &product))
        return product / div;
    wide_t wide = ((wide_t)value * mul + extra) / div;
    if (wide > UINT64_MAX) sim_bug("sim_clock", value, "time does not fit 64 bits");
    return (uint64_t)wide;
}

sim_status_t sim_clock_init(sim_clock_t *clock, uint64_t hz) {
    *clock = (sim_clock_t){0};
    /* Above one cycle a tick two cycles would share a tick and cycle(tick(c)) = c would break. */
    if (hz == 0 || hz > TICKS_PER_S) return SIM_ERROR_INVALID_VALUE;
    uint64_t common = gcd(TICKS_PER_S, hz);
    *clock = (sim_clock_t){.hz = hz, .num = TICKS_PER_S / common, .den = hz / common};
    return SIM_OK;
}

sim_tick_t sim_clock_tick(const sim_clock_t *clock, uint64_t cycle) {
    return scale(cycle, clock->num, clock->den, true);
}

uint64_t sim_clock_cycle(const sim_clock_t *clock, sim_tick_t tick) {
    return scale(tick, clock->den, clock->num, false);
}

uint64_t sim_clock_cycle_up(const sim_clock_t *clock, sim_tick_t tick) {
    /* ceil(c * num / den) >= tick  <=>  c * num / den > tick - 1, the right side being whole. */
    return tick == 0 ? 0 : scale(tick - 1, clock->den, clock->num, false) + 1;
}
