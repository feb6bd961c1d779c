#include <criterion/criterion.h>

#include "sim/sim_matrix_chain.h"

#define MAX_FOLDS 4096u

/* The definition, fold by fold: every fold's times are kept. */
typedef struct reference {
    uint64_t streamed[MAX_FOLDS], port[MAX_FOLDS];
    size_t count;
} reference_t;

static reference_t reference;

static uint64_t at(const uint64_t *times, size_t back) {
    return reference.count >= back ? times[reference.count - back] : 0;
}

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static void reference_fold(bool is_drain, uint32_t buffers, uint64_t port, uint64_t stream) {
    uint64_t streamed, ported;
    if (is_drain) {
        streamed = later(at(reference.streamed, 1), at(reference.port, buffers)) + stream;
        ported = later(at(reference.port, 1), streamed) + port;
    } else {
        ported = later(at(reference.port, 1), at(reference.streamed, buffers)) + port;
        streamed = later(at(reference.streamed, 1), ported) + stream;
    }
    cr_assert_lt(reference.count, MAX_FOLDS);
    reference.streamed[reference.count] = streamed;
    reference.port[reference.count++] = ported;
}

static uint32_t random_state;
static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % bound;
}

static void expect_equal(const sim_chain_t *chain, uint32_t seed) {
    cr_assert_eq(chain->streamed, at(reference.streamed, 1), "seed %u, fold %zu", seed,
                 reference.count);
    cr_assert_eq(chain->port, at(reference.port, 1), "seed %u, fold %zu", seed, reference.count);
}

/* Products of any shape after each other: what one leaves in buffers and port, the next finds. */
static void expect_products(bool is_drain, uint32_t buffers, uint32_t seed) {
    sim_matrix_spec_t spec = {.weight_buffers = buffers,
                              .dataflow = is_drain ? SIM_OUTPUT_STATIONARY : SIM_WEIGHT_STATIONARY};
    sim_chain_t chain = {0};
    reference.count = 0;
    random_state = seed;
    for (int product = 0; product < 12; product++) {
        sim_folds_t folds = {.row_folds = 1 + random_below(7), .col_folds = 1 + random_below(40)};
        folds.stream = 1 + random_below(random_below(2) ? 40 : 8);
        folds.full = 1 + random_below(random_below(2) ? 40 : 8);
        folds.last = random_below(3) == 0 ? folds.full : 1 + random_below((uint32_t)folds.full);
        if (folds.row_folds == 1) folds.full = folds.last;
        for (uint64_t i = 0; i < folds.row_folds * folds.col_folds; i++) {
            bool is_last = i % folds.row_folds == folds.row_folds - 1;
            reference_fold(is_drain, buffers, is_last ? folds.last : folds.full, folds.stream);
        }
        sim_chain_product(&chain, &spec, &folds, 0);
        expect_equal(&chain, seed);
    }
}

Test(chain, loads_are_those_of_the_definition) {
    for (uint32_t buffers = 1; buffers <= SIM_MATRIX_MAX_BUFFERS; buffers++)
        for (uint32_t seed = 0; seed < 500; seed++)
            expect_products(false, buffers, seed);
}

Test(chain, drains_are_those_of_the_definition) {
    for (uint32_t buffers = 1; buffers <= SIM_MATRIX_MAX_BUFFERS; buffers++)
        for (uint32_t seed = 0; seed < 500; seed++)
            expect_products(true, buffers, seed);
}

/* A run in one piece and fold by fold leave the same behind. */
Test(chain, runs_do_not_hang_on_how_they_are_cut) {
    for (uint32_t buffers = 1; buffers <= SIM_MATRIX_MAX_BUFFERS; buffers++) {
        for (uint64_t port = 1; port < 20; port += 3) {
            for (uint64_t count = 1; count < 30; count++) {
                sim_chain_t whole = {.streamed = 50, .port = 3}, cut;
                whole.buffer[buffers - 1] = 50;
                cut = whole;
                sim_chain_loads(&whole, buffers, count, port, 7);
                for (uint64_t i = 0; i < count; i++)
                    sim_chain_loads(&cut, buffers, 1, port, 7);
                cr_assert_arr_eq(&whole, &cut, sizeof whole);
                whole = (sim_chain_t){.streamed = 5, .port = 90};
                whole.buffer[buffers - 1] = 90;
                cut = whole;
                sim_chain_drains(&whole, buffers, count, port, 7);
                for (uint64_t i = 0; i < count; i++)
                    sim_chain_drains(&cut, buffers, 1, port, 7);
                cr_assert_arr_eq(&whole, &cut, sizeof whole);
            }
        }
    }
}

/* Long products take no time to plan. Three buffers carry the slack of short loads: the full
 * rate where two expose each long load. */
Test(chain, slack_is_carried_by_a_third_buffer) {
    const uint64_t columns = 1000000000;
    sim_folds_t folds = {
        .row_folds = 2, .col_folds = columns, .full = 128, .last = 60, .stream = 100};
    sim_matrix_spec_t spec = {.weight_buffers = 2};
    sim_chain_t chain = {0};
    sim_chain_product(&chain, &spec, &folds, 0);
    cr_assert_eq(chain.streamed, 128 + columns * 200 + (columns - 1) * 28);
    spec.weight_buffers = 3;
    chain = (sim_chain_t){0};
    sim_chain_product(&chain, &spec, &folds, 0);
    cr_assert_eq(chain.streamed, 128 + columns * 200);
}
