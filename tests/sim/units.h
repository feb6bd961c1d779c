/* Shared by the tests of the timed units: clocks, configurations, and "not done at t - 1, done at
 * t". */
#ifndef UNITS_H
#define UNITS_H

#include <criterion/criterion.h>
#include <string.h>

#include "sim/sim_config.h"
#include "sim/sim_op.h"

#define GHZ UINT64_C(1000000000)

static inline sim_clock_t clock_of(uint64_t hz) {
    sim_clock_t clock;
    cr_assert_eq(sim_clock_init(&clock, hz), SIM_OK);
    return clock;
}

static inline sim_engine_t *engine_new(void) {
    sim_engine_t *engine;
    cr_assert_eq(sim_engine_create(&engine), SIM_OK);
    return engine;
}

/* The overrides `extra` over those of `base`: a key may be given once. Static memory. */
static inline const char *merged(const char *base, const char *extra) {
    static char text[2048];
    char copy[1024], *save = NULL;
    (void)snprintf(text, sizeof text, "%s", extra);
    (void)snprintf(copy, sizeof copy, "%s", base);
    for (char *item = strtok_r(copy, ",", &save); item != NULL; item = strtok_r(NULL, ",", &save)) {
        char key[64];
        (void)snprintf(key, sizeof key, "%.*s=", (int)strcspn(item, "="), item);
        size_t used = strlen(text);
        if (strstr(extra, key) == NULL)
            (void)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? "," : "", item);
    }
    return text;
}

/* A shipped configuration with overrides. */
static inline sim_config_t *config_new(const char *name, const char *overrides) {
    char path[512];
    sim_error_t err = {0};
    sim_config_t *config;
    (void)snprintf(path, sizeof path, "%s/configs/%s.ini", VNPU_SOURCE_DIR, name);
    cr_assert_eq(sim_config_load(path, overrides, &config, &err), SIM_OK, "%s", err.text);
    return config;
}

/* Sets *owner (a uint64_t counter) so that callbacks can be observed. */
static inline void count_end(sim_engine_t *engine, sim_op_t *op) {
    cr_assert_eq(sim_now(engine), op->end);
    cr_assert_eq(sim_now_phase(engine), SIM_PHASE_COMPLETE);
    ((uint64_t *)op->owner)[0]++;
}

static inline void count_done(sim_engine_t *engine, sim_op_t *op) {
    cr_assert_eq(sim_now(engine), op->done);
    cr_assert_eq(sim_now_phase(engine), SIM_PHASE_COMPLETE);
    ((uint64_t *)op->owner)[1]++;
}

/* count[0]: ends, count[1]: dones. */
static inline void watch(sim_op_t *op, uint64_t count[2]) {
    op->on_end = count_end;
    op->on_done = count_done;
    op->owner = count;
}

/* Counter 0 (ends) or 1 (dones) rises to `value` at exactly `tick`. */
static inline void expect_at(sim_engine_t *engine, const uint64_t *counter, uint64_t value,
                             sim_tick_t tick) {
    (void)sim_engine_run_until(engine, tick - 1);
    cr_assert_eq(*counter, value - 1, "early: %llu before tick %llu", (unsigned long long)*counter,
                 (unsigned long long)tick);
    (void)sim_engine_run_until(engine, tick);
    cr_assert_eq(*counter, value, "late: %llu at tick %llu", (unsigned long long)*counter,
                 (unsigned long long)tick);
}

static inline sim_tick_t sum_of_causes(const sim_op_t *op) {
    sim_tick_t sum = 0;
    for (int i = 0; i < SIM_CAUSE_COUNT; i++)
        sum += op->cause[i];
    return sum;
}

static inline void expect_causes_sum(const sim_op_t *op) {
    cr_assert_geq(op->end, op->start);
    cr_assert_geq(op->done, op->end);
    cr_assert_eq(sum_of_causes(op), op->end - op->start);
}

static inline void expect_same_op(const sim_op_t *a, const sim_op_t *b) {
    cr_assert_eq(a->start, b->start);
    cr_assert_eq(a->end, b->end);
    cr_assert_eq(a->done, b->done);
    cr_assert_arr_eq(a->cause, b->cause, sizeof a->cause);
}

#endif
