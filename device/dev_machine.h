/*
 * The machine description: what a chip is, read from its configuration: classes of cores, and what
 * all cores share. Plain constant data: no pointer, no state.
 */
#ifndef DEV_MACHINE_H
#define DEV_MACHINE_H

#include "device/vnpu_isa.h"
#include "sim/sim_bank.h"
#include "sim/sim_config.h"
#include "sim/sim_dma.h"
#include "sim/sim_energy.h"
#include "sim/sim_link.h"
#include "sim/sim_matrix.h"
#include "sim/sim_vector.h"

#define DEV_MAX_CORES      SIM_MAX_CORES
#define DEV_MAX_CLASSES    SIM_MAX_CLASSES
#define DEV_MAX_DMA_QUEUES 4u

/* Equal cores: their engines, each with a queue, and their memories. Every class has a vector
 * engine and DMA engines. */
typedef struct dev_class {
    char name[SIM_CLASS_NAME_BYTES];
    uint32_t first_core, cores, workers; /* workers compute: the first ones */
    sim_clock_t core_clock;
    uint32_t issue_cycles, semaphore_cycles, instance_cycles;
    bool has_matrix; /* matrix.count > 0: a matrix engine, its queue and an accumulator */
    sim_matrix_spec_t matrix;
    sim_ratio_t matrix_rate[VNPU_DTYPE_COUNT]; /* num 0: the array lacks the type; all are 0 without
                                                  a matrix engine */
    uint32_t
        matrix_f32_pieces; /* bf16 pieces of an f32 operand, by matrix.f32; 1: native or bf16x1 */
    uint32_t matrix_f32_passes; /* products of pieces that make one of f32 (docs/numerics.md); 0:
                                   native */
    sim_vector_spec_t vector;
    sim_dma_spec_t dma;
    uint32_t dma_queues;
    uint64_t sram_bytes, acc_bytes; /* of programs: without the shared part of a scratchpad */
    uint64_t sram_bytes_per_cycle, acc_bytes_per_cycle;
    sim_bank_spec_t sram_banks, acc_banks;
    uint32_t sram_latency_cycles;
    sim_energy_table_t
        energy; /* of the engines' actions; the chip's own are the same in every class */
} dev_class_t;

typedef struct dev_machine {
    uint32_t cores; /* of all classes, numbered class after class */
    uint32_t num_classes;
    dev_class_t cls[DEV_MAX_CLASSES];
    uint64_t dram_bytes;
    uint64_t shared_bytes,
        shared_stripe_bytes; /* memory in the cores' scratchpads (sim/sim_shared.h), a page of every
                                core; 0: none */
    sim_link_spec_t link;
    uint64_t launch_gap_ps, doorbell_ps, fetch_ps, decode_ps, completion_ps; /* command path */
    uint32_t cmd_queue_depth, hardware_queues;
    uint32_t epoch_max_packets;
    uint64_t host_submit_ps, host_launch_ps, host_query_ps, host_sync_ps;
    uint64_t host_flops, host_bytes_per_s; /* price of a fallback */
    bool host_clock_wall, placement_physical;
    uint32_t layout_tile[2];  /* rows, columns; 1, 1: none */
    uint32_t mapping_profile; /* vnpu_mapping_profile_t */
    bool mapping_multicast;
    uint64_t config_hash;
} dev_machine_t;

/* Reads every key that the device uses. Fails with SIM_ERROR_CONFIG and a text when keys contradict
 * each other. */
sim_status_t dev_machine_init(dev_machine_t *machine, const sim_config_t *config,
                              sim_error_t *err) SIM_MUST_USE;

/* Class of core `core` < cores. */
uint32_t dev_machine_class_of(const dev_machine_t *machine, uint32_t core);

#endif
