/*
 * The machine description: what a chip is, read from its configuration. One core class for now; names leave room for more.
 * Plain constant data: no pointer, no state.
 */
#ifndef DEV_MACHINE_H
#define DEV_MACHINE_H

#include "device/vnpu_isa.h"
#include "sim/sim_bank.h"
#include "sim/sim_config.h"
#include "sim/sim_dma.h"
#include "sim/sim_link.h"
#include "sim/sim_matrix.h"
#include "sim/sim_vector.h"

#define DEV_MAX_CORES 256u
#define DEV_MAX_DMA_QUEUES 4u

typedef struct dev_machine {
    uint32_t cores, workers; /* workers compute: the cores 0..workers-1 */
    sim_clock_t core_clock;
    uint32_t issue_cycles, semaphore_cycles, instance_cycles;
    sim_matrix_spec_t matrix;
    sim_ratio_t matrix_rate[VNPU_DTYPE_COUNT]; /* num 0: the array lacks the type */
    /* Time alone: what bits a product of bf16 pieces has is the executor's to say (docs/numerics.md). */
    uint32_t matrix_f32_pieces; /* bf16 pieces of an f32 operand, by matrix.f32; 1: native */
    sim_vector_spec_t vector;
    sim_dma_spec_t dma;
    uint32_t dma_queues;
    uint64_t sram_bytes, acc_bytes;
    uint64_t sram_bytes_per_cycle, acc_bytes_per_cycle;
    sim_bank_spec_t sram_banks, acc_banks;
    uint32_t sram_latency_cycles;
    uint64_t dram_bytes;
    sim_link_spec_t link;
    uint64_t launch_gap_ps, doorbell_ps, fetch_ps, decode_ps, completion_ps; /* command path */
    uint32_t cmd_queue_depth, hardware_queues;
    uint64_t host_submit_ps, host_launch_ps, host_query_ps, host_sync_ps;
    uint64_t host_flops, host_bytes_per_s; /* price of a fallback */
    bool host_clock_wall, placement_physical;
    uint32_t layout_tile[2];  /* rows, columns; 1, 1: none */
    uint32_t mapping_profile; /* vnpu_mapping_profile_t */
    uint64_t config_hash;
} dev_machine_t;

/* Reads every key that the device uses. Fails with SIM_ERROR_CONFIG and a text when keys contradict each other. */
sim_status_t dev_machine_init(dev_machine_t *machine, const sim_config_t *config, sim_error_t *err) SIM_MUST_USE;

#endif
