#include "sim/sim_dram_internal.h"

/* clang-format off */
static const sim_dram_rule_t rules[] = {
    /* from, to, scope, window, parameters, reason */
    {SIM_DRAM_ACT, SIM_DRAM_RD,  SIM_DRAM_BANK,    0, {SIM_DRAM_RCDRD},
     "the row reaches the sense amplifiers before it is read"},
    {SIM_DRAM_ACT, SIM_DRAM_WR,  SIM_DRAM_BANK,    0, {SIM_DRAM_RCDWR},
     "the row reaches the sense amplifiers before it is written"},
    {SIM_DRAM_ACT, SIM_DRAM_PRE, SIM_DRAM_BANK,    0, {SIM_DRAM_RAS},
     "the cells are restored before the row closes"},
    {SIM_DRAM_ACT, SIM_DRAM_ACT, SIM_DRAM_BANK,    0, {SIM_DRAM_RAS, SIM_DRAM_RP},
     "row cycle, tRC"},
    {SIM_DRAM_PRE, SIM_DRAM_ACT, SIM_DRAM_BANK,    0, {SIM_DRAM_RP},
     "the bit lines are precharged before the next row opens"},
    {SIM_DRAM_RD,  SIM_DRAM_PRE, SIM_DRAM_BANK,    0, {SIM_DRAM_RTP},
     "the read leaves the array before the row closes"},
    {SIM_DRAM_WR,  SIM_DRAM_PRE, SIM_DRAM_BANK,    0, {SIM_DRAM_CWL, SIM_DRAM_BL, SIM_DRAM_TWR},
     "the data arrives and is written to the cells before the row closes"},
    {SIM_DRAM_ACT, SIM_DRAM_ACT, SIM_DRAM_GROUP,   0, {SIM_DRAM_RRD_L},
     "activates of one bank group share its supply"},
    {SIM_DRAM_RD,  SIM_DRAM_RD,  SIM_DRAM_GROUP,   0, {SIM_DRAM_CCD_L},
     "one bank group has one column path"},
    {SIM_DRAM_WR,  SIM_DRAM_WR,  SIM_DRAM_GROUP,   0, {SIM_DRAM_CCD_L},
     "one bank group has one column path"},
    {SIM_DRAM_WR,  SIM_DRAM_RD,  SIM_DRAM_GROUP,   0, {SIM_DRAM_CWL, SIM_DRAM_BL, SIM_DRAM_WTR_L},
     "the write drains through the group's column path before a read"},
    {SIM_DRAM_ACT, SIM_DRAM_ACT, SIM_DRAM_CHANNEL, 0, {SIM_DRAM_RRD_S},
     "activates share the supply of the device"},
    {SIM_DRAM_ACT, SIM_DRAM_ACT, SIM_DRAM_CHANNEL, SIM_DRAM_WINDOW, {SIM_DRAM_FAW},
     "at most four activates in any window of tFAW: the charge pump's limit"},
    {SIM_DRAM_RD,  SIM_DRAM_RD,  SIM_DRAM_CHANNEL, 0, {SIM_DRAM_CCD_S},
     "column commands of different bank groups"},
    {SIM_DRAM_RD,  SIM_DRAM_RD,  SIM_DRAM_CHANNEL, 0, {SIM_DRAM_BL},
     "one burst at a time on the data bus"},
    {SIM_DRAM_WR,  SIM_DRAM_WR,  SIM_DRAM_CHANNEL, 0, {SIM_DRAM_CCD_S},
     "column commands of different bank groups"},
    {SIM_DRAM_WR,  SIM_DRAM_WR,  SIM_DRAM_CHANNEL, 0, {SIM_DRAM_BL},
     "one burst at a time on the data bus"},
    {SIM_DRAM_RD,  SIM_DRAM_WR,  SIM_DRAM_CHANNEL, 0, {SIM_DRAM_RTW},
     "the data bus turns round"},
    {SIM_DRAM_WR,  SIM_DRAM_RD,  SIM_DRAM_CHANNEL, 0, {SIM_DRAM_CWL, SIM_DRAM_BL, SIM_DRAM_WTR_S},
     "the data bus turns round"},
    {SIM_DRAM_PRE, SIM_DRAM_REF, SIM_DRAM_CHANNEL, 0, {SIM_DRAM_RP},
     "all banks are precharged before a refresh"},
    {SIM_DRAM_REF, SIM_DRAM_ACT, SIM_DRAM_CHANNEL, 0, {SIM_DRAM_RFC},
     "a refresh occupies every bank"},
    {SIM_DRAM_REF, SIM_DRAM_REF, SIM_DRAM_CHANNEL, 0, {SIM_DRAM_RFC},
     "a refresh occupies every bank"},
    {SIM_DRAM_PRE, SIM_DRAM_REFPB, SIM_DRAM_BANK,  0, {SIM_DRAM_RP},
     "the bank is precharged before its refresh"},
    {SIM_DRAM_REFPB, SIM_DRAM_ACT, SIM_DRAM_BANK,  0, {SIM_DRAM_RFCPB},
     "a per-bank refresh occupies its bank"},
    {SIM_DRAM_REFPB, SIM_DRAM_REFPB, SIM_DRAM_BANK, 0, {SIM_DRAM_RFCPB},
     "a per-bank refresh occupies its bank"},
    {SIM_DRAM_REFPB, SIM_DRAM_ACT, SIM_DRAM_CHANNEL, 0, {SIM_DRAM_RREFD},
     "a refresh opens a row: activates keep their distance from it"},
    {SIM_DRAM_REFPB, SIM_DRAM_REFPB, SIM_DRAM_CHANNEL, 0, {SIM_DRAM_RREFD},
     "two banks begin their refreshes one after the other"},
};
/* clang-format on */

const sim_dram_rule_t *sim_dram_rules(uint32_t *out_count) {
    *out_count = (uint32_t)(sizeof rules / sizeof rules[0]);
    return rules;
}

uint64_t sim_dram_rule_cycles(const sim_dram_rule_t *rule,
                              const uint32_t param[SIM_DRAM_PARAM_COUNT]) {
    return (uint64_t)param[rule->plus[0]] + param[rule->plus[1]] + param[rule->plus[2]];
}

static void add_effect(sim_dram_effects_t *effects, const sim_dram_rule_t *rule, uint32_t cycles) {
    uint32_t i = 0;
    while (i < effects->count && (effects->effect[i].scope != (uint8_t)rule->scope ||
                                  effects->effect[i].to != (uint8_t)rule->to))
        i++;
    if (i == effects->count) {
        if (i == SIM_DRAM_MAX_EFFECTS) sim_bug("sim_dram", 0, "too many rules after one command");
        effects->count++;
        effects->effect[i].scope = (uint8_t)rule->scope;
        effects->effect[i].to = (uint8_t)rule->to;
        effects->effect[i].cycles = 0;
    }
    if (cycles > effects->effect[i].cycles) effects->effect[i].cycles = cycles;
}

static uint32_t spacing(const sim_dram_timing_t *timing, sim_dram_command_t command,
                        sim_dram_scope_t scope) {
    const sim_dram_effects_t *effects = &timing->after[command];
    for (uint32_t i = 0; i < effects->count; i++)
        if (effects->effect[i].scope == (uint8_t)scope && effects->effect[i].to == (uint8_t)command)
            return effects->effect[i].cycles;
    return 0;
}

void sim_dram_timing_init(sim_dram_timing_t *timing, const uint32_t param[SIM_DRAM_PARAM_COUNT]) {
    *timing = (sim_dram_timing_t){0};
    for (int i = 0; i < SIM_DRAM_PARAM_COUNT; i++)
        timing->param[i] = param[i];
    for (uint32_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        uint32_t cycles = (uint32_t)sim_dram_rule_cycles(&rules[i], param);
        if (rules[i].window != 0)
            timing->window_cycles = cycles;
        else
            add_effect(&timing->after[rules[i].from], &rules[i], cycles);
    }
    for (int is_write = 0; is_write < 2; is_write++) {
        sim_dram_command_t column = is_write ? SIM_DRAM_WR : SIM_DRAM_RD;
        uint32_t s = spacing(timing, column, SIM_DRAM_CHANNEL);
        uint32_t l = spacing(timing, column, SIM_DRAM_GROUP);
        timing->column_s[is_write] = s;
        timing->column_l[is_write] = l > s ? l : s;
        timing->data_cycles[is_write] =
            param[is_write ? SIM_DRAM_CWL : SIM_DRAM_CL] + param[SIM_DRAM_BL];
    }
}
