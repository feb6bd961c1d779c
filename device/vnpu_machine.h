/*
 * What the chip tells of itself: filled by the device, read by driver and kernel library.
 */
#ifndef VNPU_MACHINE_H
#define VNPU_MACHINE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whose compiler maps operators to the chip (mapping.profile, docs/mapping.md). */
typedef enum vnpu_mapping_profile {
    VNPU_PROFILE_BEST = 0,   /* the kernel library's own search */
    VNPU_PROFILE_XLA = 1,    /* xla-like */
    VNPU_PROFILE_TTNN = 2,   /* ttnn-like */
    VNPU_PROFILE_GEMMINI = 3 /* gemmini-like */
} vnpu_mapping_profile_t;

#define VNPU_MAX_CLASSES 8u

/*
 * What a kernel library must know of a chip, as cores of one class see it: engines, scratchpad and
 * `cores` are the class's, memory, link and host are the chip's. Most chips have one class; class 0
 * comes first. dtypes: bit (1 << vnpu_dtype_t). Rates relative to one row per cycle.
 */
typedef struct vnpu_machine {
    uint32_t size;           /* sizeof(vnpu_machine_t): grows at the end only */
    uint32_t cores, workers; /* of the class; the first `workers` of them compute */
    uint32_t matrix_rows, matrix_cols, matrix_load_rows_per_cycle, matrix_weight_buffers,
        matrix_min_stream_cycles;
    uint32_t matrix_rate_num[16], matrix_rate_den[16]; /* by vnpu_dtype_t; num 0: not available */
    uint32_t vector_lanes, vector_startup_cycles;
    uint32_t vector_passes_num[8],
        vector_passes_den[8]; /* by class: -, alu, mul, div, transcendental, cast, reduce */
    uint32_t dma_queues, dma_bytes_per_cycle, dma_descriptor_cycles, dma_run_cycles,
        dma_completion_cycles;
    uint32_t issue_cycles, semaphore_cycles, instance_cycles;
    uint64_t core_clock_hz;
    uint64_t sram_bytes, acc_bytes; /* of one core */
    uint64_t sram_bytes_per_cycle, acc_bytes_per_cycle;
    uint64_t dram_bytes, dram_bytes_per_s; /* capacity, peak bandwidth */
    uint64_t dma_outstanding_bytes, dram_latency_ps;
    uint64_t launch_gap_ps, host_submit_ps, host_launch_ps, host_query_ps, host_sync_ps;
    uint64_t host_flops, host_bytes_per_s; /* price of work that falls back to the host */
    uint64_t link_bytes_per_s, link_latency_ps;
    uint64_t config_hash;
    char name[64];               /* chip.name */
    uint32_t cmd_queue_depth;    /* packets that a stream holds before the host blocks */
    uint32_t host_clock_is_wall; /* host.clock = wall: host time between calls is charged too */
    uint32_t matrix_dataflow;    /* what stays in the array: 0 weights, 1 results, 2 inputs
                                    (sim_matrix.h) */
    uint32_t matrix_step;        /* elements of the streamed dimension per step; 0 means 1 */
    uint32_t matrix_count;       /* arrays of a core, side by side; 0 means 1 */
    uint32_t matrix_split;       /* what they split: 0 n, 1 m, 2 what pads least */
    uint32_t matrix_fill_cycles; /* of each fold beside its stream: control, and skew where folds do
                                    not overlap */
    uint32_t matrix_switch_cycles;  /* between a switch to new weights and the next load */
    uint32_t matrix_has_full_folds; /* a partly used array loads or drains all its rows */
    uint32_t matrix_f32_pieces;     /* loads of one f32 operand; 0 means 1 */
    uint32_t layout_tile[2];  /* rows, columns: tensors are stored in whole tiles; 0 means 1 */
    uint32_t mapping_profile; /* vnpu_mapping_profile_t */
    /* A class without matrix engine has matrix_rows, matrix_cols, every matrix_rate_num and
     * acc_bytes 0. */
    uint32_t num_classes, class_index; /* classes of the chip, at least 1; which one this is */
    uint32_t first_core, chip_cores;   /* number of the class's first core; cores of all classes */
    char class_name[32];
    uint32_t dma_keeps_rows; /* rows of a transfer are never joined: operands keep theirs */
    uint32_t dma_accumulator_bytes_per_cycle; /* results from the accumulator to DRAM; 0: by way of
                                                 the scratchpad */
    uint32_t matrix_gap_cycles;   /* part of matrix_fill_cycles, again for every further piece of a
                                     stream */
    uint32_t matrix_stream_elems; /* of such a piece; 0: a stream is one piece */
    uint32_t matrix_operand_bytes_per_cycle; /* what the operand ports take; 0: any number */
    uint32_t matrix_f32_passes; /* bf16 products that make one of f32; 0: f32 is native */
    uint32_t mapping_multicast; /* products may read tiles once for several cores */
    uint32_t shared_page_bytes; /* of the shared scratchpad memory: pages are dealt to the cores in
                                   turn */
    uint64_t
        shared_bytes; /* of it, in all scratchpads together, behind the DRAM's addresses; 0: none */
    uint32_t dram_segment_bytes; /* consecutive bytes of one channel, bank and row number, all bank
                                    groups */
    uint32_t dram_open_bytes;    /* of the rows that open for a segment */
    uint32_t dram_stripe_bytes;  /* span that holds such rows of every channel */
    uint32_t sram_interleave_bytes; /* consecutive bytes of one bank of the scratchpad; 0: banks
                                       take turns word by word */
    uint32_t
        dram_open_ps; /* between two openings at random places, on the mean of the whole chip */
} vnpu_machine_t;

#ifdef __cplusplus
}
#endif
#endif
