#include "sim/sim_energy.h"

static const char *const KEYS[SIM_ENERGY_ACTION_COUNT] = {
    [SIM_ENERGY_MAC_F32] = "energy.mac.f32",
    [SIM_ENERGY_MAC_BF16] = "energy.mac.bf16",
    [SIM_ENERGY_MAC_F16] = "energy.mac.f16",
    [SIM_ENERGY_MAC_I8] = "energy.mac.i8",
    [SIM_ENERGY_VECTOR_ALU] = "energy.vector.alu",
    [SIM_ENERGY_VECTOR_MUL] = "energy.vector.mul",
    [SIM_ENERGY_VECTOR_DIV] = "energy.vector.div",
    [SIM_ENERGY_VECTOR_TRANSCENDENTAL] = "energy.vector.transcendental",
    [SIM_ENERGY_VECTOR_CAST] = "energy.vector.cast",
    [SIM_ENERGY_VECTOR_REDUCE] = "energy.vector.reduce",
    [SIM_ENERGY_SRAM_BYTE] = "energy.sram_byte",
    [SIM_ENERGY_ACC_BYTE] = "energy.acc_byte",
    [SIM_ENERGY_NOC_BYTE_HOP] = "energy.noc_byte_hop",
    [SIM_ENERGY_CACHE_BYTE] = "energy.cache_byte",
    [SIM_ENERGY_DRAM_READ_BYTE] = "energy.dram_read_byte",
    [SIM_ENERGY_DRAM_WRITE_BYTE] = "energy.dram_write_byte",
    [SIM_ENERGY_DRAM_ACTIVATE] = "energy.dram_activate",
    [SIM_ENERGY_DRAM_REFRESH] = "energy.dram_refresh",
    [SIM_ENERGY_LINK_BYTE] = "energy.link_byte",
};

const char *sim_energy_action_name(sim_energy_action_t action) {
    return KEYS[action] + sizeof "energy." - 1;
}

void sim_energy_table_init(const sim_config_t *config, sim_energy_table_t *out_table) {
    for (uint32_t i = 0; i < SIM_ENERGY_ACTION_COUNT; i++)
        out_table->fj[i] = sim_config_u64(config, KEYS[i]);
    out_table->static_mw = sim_config_u64(config, "energy.static_mw");
}

static uint64_t product(uint64_t count, uint64_t each) {
    uint64_t fj;
    if (__builtin_mul_overflow(count, each, &fj))
        sim_bug("sim_energy", count, "energy does not fit 64 bits");
    return fj;
}

uint64_t sim_energy_dynamic_fj(const sim_energy_table_t *table, const sim_energy_counts_t *counts) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < SIM_ENERGY_ACTION_COUNT; i++)
        sum += product(counts->count[i], table->fj[i]);
    return sum;
}

uint64_t sim_energy_static_fj(const sim_energy_table_t *table, uint64_t ps) {
    return product(ps, table->static_mw);
}
