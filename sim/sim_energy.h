/*
 * Energy: actions counted exactly by the units, times the energy of one action from the
 * configuration ([energy], femtojoules; 0: not modelled), plus static power times time.
 *
 * 1 mW for 1 ps is 1 fJ, so everything is integers. Sources of the numbers are named in the
 * configurations; docs/timing.md.
 */
#ifndef SIM_ENERGY_H
#define SIM_ENERGY_H

#include "sim/sim_config.h"

typedef enum sim_energy_action {
    SIM_ENERGY_MAC_F32 = 0, /* useful multiply-adds, by operand type */
    SIM_ENERGY_MAC_BF16,
    SIM_ENERGY_MAC_F16,
    SIM_ENERGY_MAC_I8,
    SIM_ENERGY_VECTOR_ALU, /* elements, by operation class */
    SIM_ENERGY_VECTOR_MUL,
    SIM_ENERGY_VECTOR_DIV,
    SIM_ENERGY_VECTOR_TRANSCENDENTAL,
    SIM_ENERGY_VECTOR_CAST,
    SIM_ENERGY_VECTOR_REDUCE,
    SIM_ENERGY_SRAM_BYTE, /* through a scratchpad's port, read or written */
    SIM_ENERGY_ACC_BYTE,
    SIM_ENERGY_NOC_BYTE_HOP,
    SIM_ENERGY_CACHE_BYTE,     /* into or out of the cache */
    SIM_ENERGY_DRAM_READ_BYTE, /* over the bus: whole bursts */
    SIM_ENERGY_DRAM_WRITE_BYTE,
    SIM_ENERGY_DRAM_ACTIVATE,
    SIM_ENERGY_DRAM_REFRESH,
    SIM_ENERGY_LINK_BYTE,
    SIM_ENERGY_ACTION_COUNT
} sim_energy_action_t;

/* "mac.f32", ...: the key in section energy. */
const char *sim_energy_action_name(sim_energy_action_t action);

typedef struct sim_energy_table {
    uint64_t fj[SIM_ENERGY_ACTION_COUNT];
    uint64_t static_mw;
} sim_energy_table_t;
void sim_energy_table_init(const sim_config_t *config, sim_energy_table_t *out_table);

typedef struct sim_energy_counts {
    uint64_t count[SIM_ENERGY_ACTION_COUNT];
} sim_energy_counts_t;
/* Sum over the actions, femtojoules, without static power. */
uint64_t sim_energy_dynamic_fj(const sim_energy_table_t *table, const sim_energy_counts_t *counts);
uint64_t sim_energy_static_fj(const sim_energy_table_t *table, uint64_t ps);

#endif
