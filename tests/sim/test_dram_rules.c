#include <criterion/criterion.h>

#include "sim/sim_dram_internal.h"
#include "tests/sim/units.h"

static sim_dram_t *dram_new(void) {
    sim_config_t *config = config_new("default", "dram.channels=1,dram.bytes=64MiB,dram.trefi=0");
    sim_error_t err = {0};
    sim_dram_t *dram;
    cr_assert_eq(sim_dram_create(config, &dram, &err), SIM_OK, "%s", err.text);
    sim_config_destroy(config);
    return dram;
}

#define START 1000u

/* All parameters 1 cycle but those of the rule: then it is the rule that decides. */
static void only(sim_dram_t *dram, const sim_dram_rule_t *rule, uint32_t cycles) {
    uint32_t param[SIM_DRAM_PARAM_COUNT];
    param[SIM_DRAM_NONE] = 0;
    for (int i = SIM_DRAM_NONE + 1; i < SIM_DRAM_PARAM_COUNT; i++)
        param[i] = 1;
    for (int i = 0; i < 3; i++)
        if (rule->plus[i] != SIM_DRAM_NONE) param[rule->plus[i]] = cycles + (uint32_t)i;
    sim_dram_timing_init(&dram->timing, param);
    sim_dram_reset(dram);
}

static uint64_t earliest(const sim_dram_t *dram, const sim_dram_rule_t *rule, uint32_t group,
                         uint32_t bank) {
    return sim_dram_earliest(dram, dram->channel, group, bank, rule->to, START);
}

Test(dram_rules, every_rule_is_tight_and_stays_in_its_scope) {
    uint32_t count;
    const sim_dram_rule_t *rules = sim_dram_rules(&count);
    cr_assert_geq(count, 20);
    sim_dram_t *dram = dram_new();
    for (uint32_t i = 0; i < count; i++) {
        const sim_dram_rule_t *rule = &rules[i];
        only(dram, rule, 100);
        uint64_t sum = sim_dram_rule_cycles(rule, dram->timing.param);
        cr_assert_geq(sum, 100, "rule %u has no parameter", i);
        /* a window rule counts from the first of four */
        uint32_t commands = rule->window == 0 ? 1 : rule->window;
        for (uint32_t j = 0; j < commands; j++)
            sim_dram_issue(dram, dram->channel, commands == 1 ? 0 : j, 0, rule->from, START + j);
        uint64_t allowed = START + sum;
        uint64_t same_bank = earliest(dram, rule, 0, 0), same_group = earliest(dram, rule, 0, 1);
        uint64_t same_channel = earliest(dram, rule, 1, 1);
        cr_assert_eq(same_bank, allowed, "rule %u: %s", i, rule->reason);
        if (rule->scope == SIM_DRAM_BANK)
            cr_assert_lt(same_group, allowed, "rule %u: %s", i, rule->reason);
        else
            cr_assert_eq(same_group, allowed, "rule %u: %s", i, rule->reason);
        if (rule->scope == SIM_DRAM_CHANNEL)
            cr_assert_eq(same_channel, allowed, "rule %u: %s", i, rule->reason);
        else
            cr_assert_lt(same_channel, allowed, "rule %u: %s", i, rule->reason);
    }
    sim_dram_destroy(dram);
}

Test(dram_rules, every_rule_has_a_reason_and_every_parameter_a_rule) {
    uint32_t count;
    const sim_dram_rule_t *rules = sim_dram_rules(&count);
    bool is_used[SIM_DRAM_PARAM_COUNT] = {
        [SIM_DRAM_NONE] = true, [SIM_DRAM_CL] = true, [SIM_DRAM_REFI] = true};
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_not_null(rules[i].reason);
        cr_assert_gt(strlen(rules[i].reason), 5);
        for (int j = 0; j < 3; j++)
            is_used[rules[i].plus[j]] = true;
    }
    for (int i = 0; i < SIM_DRAM_PARAM_COUNT; i++)
        cr_assert(is_used[i], "parameter %d", i);
}

Test(dram_rules, the_strictest_of_two_rules_counts) {
    sim_dram_t *dram = dram_new();
    uint32_t param[SIM_DRAM_PARAM_COUNT] = {0};
    param[SIM_DRAM_CCD_S] = 5;
    param[SIM_DRAM_BL] = 9; /* a burst that is longer than tCCD_S holds the bus */
    param[SIM_DRAM_CCD_L] = 7;
    sim_dram_timing_init(&dram->timing, param);
    cr_assert_eq(dram->timing.column_s[0], 9);
    cr_assert_eq(dram->timing.column_l[0], 9);
    param[SIM_DRAM_CCD_L] = 12;
    sim_dram_timing_init(&dram->timing, param);
    cr_assert_eq(dram->timing.column_s[1], 9);
    cr_assert_eq(dram->timing.column_l[1], 12);
    sim_dram_destroy(dram);
}
