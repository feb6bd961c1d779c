#include "sim/sim_op.h"

const char *sim_cause_name(sim_cause_t cause) {
    switch (cause) {
    case SIM_CAUSE_USEFUL: return "useful";
    case SIM_CAUSE_UNUSED_LANES: return "unused_lanes";
    case SIM_CAUSE_WEIGHT_LOAD: return "weight_load";
    case SIM_CAUSE_FILL_DRAIN: return "fill_drain";
    case SIM_CAUSE_DMA_SETUP: return "dma_setup";
    case SIM_CAUSE_DRAM: return "dram";
    case SIM_CAUSE_CACHE: return "cache";
    case SIM_CAUSE_NOC: return "noc";
    case SIM_CAUSE_SRAM_CONFLICT: return "sram_conflict";
    case SIM_CAUSE_OPERAND_WAIT: return "operand_wait";
    case SIM_CAUSE_SEMAPHORE_WAIT: return "semaphore_wait";
    case SIM_CAUSE_ISSUE: return "issue";
    case SIM_CAUSE_LAUNCH_GAP: return "launch_gap";
    case SIM_CAUSE_IDLE: return "idle";
    case SIM_CAUSE_OTHER: return "other";
    case SIM_CAUSE_COUNT: break;
    }
    sim_bug("sim_op", 0, "no cause %d", (int)cause);
}
