#include <criterion/criterion.h>
#include <string.h>

#include "sim/sim_energy.h"
#include "tests/sim/units.h"

Test(energy, nothing_is_modelled_by_default) {
    sim_config_t *config = config_new("tiny", "");
    sim_energy_table_t table;
    sim_energy_table_init(config, &table);
    sim_energy_counts_t counts;
    for (uint32_t i = 0; i < SIM_ENERGY_ACTION_COUNT; i++)
        counts.count[i] = 1000;
    cr_assert_eq(sim_energy_dynamic_fj(&table, &counts), 0);
    cr_assert_eq(sim_energy_static_fj(&table, 1000), 0);
    sim_config_destroy(config);
}

Test(energy, each_key_is_one_action) {
    uint64_t total = 0;
    sim_energy_counts_t counts;
    for (uint32_t i = 0; i < SIM_ENERGY_ACTION_COUNT; i++)
        counts.count[i] = i + 1;
    char all[2048] = "";
    for (uint32_t i = 0; i < SIM_ENERGY_ACTION_COUNT; i++) {
        char item[96];
        const char *name = sim_energy_action_name((sim_energy_action_t)i);
        (void)snprintf(item, sizeof item, "%senergy.%s=%u", i > 0 ? "," : "", name, 100 + i);
        (void)strcat(all, item);
        sim_config_t *config = config_new("tiny", item + (i > 0));
        sim_energy_table_t table;
        sim_energy_table_init(config, &table);
        cr_assert_eq(sim_energy_dynamic_fj(&table, &counts), (i + 1) * (100 + i), "%s", name);
        total += (i + 1) * (100 + i);
        sim_config_destroy(config);
    }
    sim_config_t *config = config_new("tiny", all);
    sim_energy_table_t table;
    sim_energy_table_init(config, &table);
    cr_assert_eq(sim_energy_dynamic_fj(&table, &counts), total);
    sim_config_destroy(config);
}

Test(energy, a_milliwatt_for_a_picosecond_is_a_femtojoule) {
    sim_config_t *config = config_new("tiny", "energy.static_mw=40000");
    sim_energy_table_t table;
    sim_energy_table_init(config, &table);
    cr_assert_eq(sim_energy_static_fj(&table, 1000000), 40000000000u); /* 40 W for 1 us: 40 uJ */
    sim_config_destroy(config);
}
