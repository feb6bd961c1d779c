/* Energy of a launch: actions of the engines as they are submitted, of interconnect and DRAM from
 * their statistics. */
#include "device/dev_timing_internal.h"

#include <string.h>

static sim_energy_counts_t *actions_of(timing_core_t *core) {
    dev_timing_t *timing = core->timing;
    return timing->actions[core->cls - timing->machine.cls];
}

void timing_energy_matrix(timing_core_t *core, const sim_matrix_op_t *op, vnpu_dtype_t dtype) {
    uint64_t *count = actions_of(core)[VNPU_ENERGY_MATRIX].count;
    sim_bank_use_t use[2];
    sim_energy_action_t action = SIM_ENERGY_MAC_I8;
    uint64_t passes = 1;
    if (dtype == VNPU_F32) action = SIM_ENERGY_MAC_F32;
    if (dtype == VNPU_F32 && core->cls->matrix_f32_passes > 0) {
        action = SIM_ENERGY_MAC_BF16;
        passes = core->cls->matrix_f32_passes;
    }
    if (dtype == VNPU_BF16) action = SIM_ENERGY_MAC_BF16;
    if (dtype == VNPU_F16) action = SIM_ENERGY_MAC_F16;
    sim_matrix_use(&core->cls->matrix, op, use);
    count[action] += passes * op->m * op->k * op->n;
    count[SIM_ENERGY_SRAM_BYTE] += use[0].bytes;
    count[SIM_ENERGY_ACC_BYTE] += use[1].bytes;
}

static void count_class(uint64_t *count, sim_vector_class_t cls, uint64_t elems) {
    switch (cls) {
    case SIM_VECTOR_NONE:
    case SIM_VECTOR_CLASS_COUNT: return;
    case SIM_VECTOR_ALU: count[SIM_ENERGY_VECTOR_ALU] += elems; return;
    case SIM_VECTOR_MUL: count[SIM_ENERGY_VECTOR_MUL] += elems; return;
    case SIM_VECTOR_DIV: count[SIM_ENERGY_VECTOR_DIV] += elems; return;
    case SIM_VECTOR_TRANSCENDENTAL: count[SIM_ENERGY_VECTOR_TRANSCENDENTAL] += elems; return;
    case SIM_VECTOR_CAST: count[SIM_ENERGY_VECTOR_CAST] += elems; return;
    case SIM_VECTOR_REDUCE: count[SIM_ENERGY_VECTOR_REDUCE] += elems; return;
    }
}

void timing_energy_vector(timing_core_t *core, const sim_vector_op_t *op, uint64_t elems) {
    uint64_t *count = actions_of(core)[VNPU_ENERGY_VECTOR].count;
    count_class(count, op->cls, elems);
    count_class(count, op->cls2, elems);
    count[SIM_ENERGY_SRAM_BYTE] += op->sram.bytes;
    count[SIM_ENERGY_ACC_BYTE] += op->acc.bytes;
}

void timing_energy_dma(timing_core_t *core, const sim_dma_op_t *op) {
    actions_of(core)[VNPU_ENERGY_DMA].count[SIM_ENERGY_SRAM_BYTE] += op->sram_bytes;
    actions_of(core)[VNPU_ENERGY_DMA].count[SIM_ENERGY_ACC_BYTE] += op->acc_bytes;
}

void timing_energy_end(dev_timing_t *timing, dev_record_t *record) {
    const sim_dram_stats_t *dram = sim_dram_stats(timing->dram);
    uint64_t *count = timing->actions[0][VNPU_ENERGY_DRAM].count;
    count[SIM_ENERGY_DRAM_READ_BYTE] = dram->read_bytes;
    count[SIM_ENERGY_DRAM_WRITE_BYTE] = dram->write_bytes;
    count[SIM_ENERGY_DRAM_ACTIVATE] = dram->row_closed + dram->row_conflicts;
    count[SIM_ENERGY_DRAM_REFRESH] = dram->refreshes;
    timing->actions[0][VNPU_ENERGY_NOC].count[SIM_ENERGY_NOC_BYTE_HOP] =
        sim_noc_stats(timing->noc)->byte_hops;
    for (uint32_t part = 0; part < VNPU_ENERGY_PARTS; part++) {
        for (uint32_t c = 0; c < timing->machine.num_classes; c++)
            record->energy_fj[part] += sim_energy_dynamic_fj(&timing->machine.cls[c].energy,
                                                             &timing->actions[c][part]);
    }
}

const sim_energy_table_t *dev_timing_energy_table(const dev_timing_t *timing) {
    return &timing->machine.cls[0].energy; /* what is asked of it is the chip's */
}
