#include "sim/sim_status.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#include "sim/sim_op.h"

Test(status, first_failure_wins) {
    sim_error_t err = {0};
    cr_assert_eq(sim_error_set(&err, SIM_ERROR_CONFIG, "key %d", 7), SIM_ERROR_CONFIG);
    cr_assert_eq(err.status, SIM_ERROR_CONFIG);
    cr_assert_str_eq(err.text, "key 7");
    /* The later status is returned, the text and status of the first stay. */
    cr_assert_eq(sim_error_set(&err, SIM_ERROR_IO, "later"), SIM_ERROR_IO);
    cr_assert_eq(err.status, SIM_ERROR_CONFIG);
    cr_assert_str_eq(err.text, "key 7");
}

Test(status, a_null_error_is_fine) {
    cr_assert_eq(sim_error_set(NULL, SIM_ERROR_IO, "%s", "unheard"), SIM_ERROR_IO);
}

Test(status, a_long_text_is_cut_and_terminated) {
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    sim_error_t err = {0};
    cr_assert_eq(sim_error_set(&err, SIM_ERROR_IO, "%s", text), SIM_ERROR_IO);
    cr_assert_eq(strlen(err.text), sizeof err.text - 1);
}

Test(status, every_code_has_a_name_of_its_own) {
    const int codes[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                         12, 13, 14, 32, 33, 34, 35, 36, 37, 38, 48, 63};
    const size_t count = sizeof codes / sizeof codes[0];
    for (size_t i = 0; i < count; i++) {
        const char *name = sim_status_name((sim_status_t)codes[i]);
        cr_assert_str_neq(name, "UNKNOWN", "code %d", codes[i]);
        for (size_t j = 0; j < i; j++)
            cr_assert_str_neq(name, sim_status_name((sim_status_t)codes[j]));
    }
    cr_assert_str_eq(sim_status_name(SIM_ERROR_DEADLOCK), "DEADLOCK");
    cr_assert_str_eq(sim_status_name((sim_status_t)1000), "UNKNOWN");
}

Test(status, every_cause_has_a_name_of_its_own) {
    for (int i = 0; i < SIM_CAUSE_COUNT; i++)
        for (int j = 0; j < i; j++)
            cr_assert_str_neq(sim_cause_name((sim_cause_t)i), sim_cause_name((sim_cause_t)j));
    cr_assert_str_eq(sim_cause_name(SIM_CAUSE_USEFUL), "useful");
    cr_assert_str_eq(sim_cause_name(SIM_CAUSE_OTHER), "other");
}

Test(status, a_bug_aborts, .signal = SIGABRT) {
    sim_bug("test", 3, "on purpose");
}
