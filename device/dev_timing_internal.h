/* Inside the timing engine: the machine as units, and the per-queue sequencers. */
#ifndef DEV_TIMING_INTERNAL_H
#define DEV_TIMING_INTERNAL_H

#include "device/dev_timing.h"
#include "sim/sim_cache.h"
#include "sim/sim_dma.h"
#include "sim/sim_dram.h"
#include "sim/sim_matrix.h"
#include "sim/sim_noc.h"
#include "sim/sim_share.h"
#include "sim/sim_vector.h"

#define INSTANCE_NONE UINT32_MAX

typedef struct timing_queue timing_queue_t;
typedef struct timing_core timing_core_t;
typedef struct timing_job timing_job_t;

/* An instruction between issue and the delivery of its signals. */
typedef struct timing_slot {
    union {
        sim_op_t any;
        sim_matrix_op_t matrix;
        sim_vector_op_t vector;
        sim_dma_op_t dma;
    } op;
    timing_queue_t *queue;
    struct timing_slot *next_free, *next_all;
    struct timing_slot *followers; /* empty instructions behind this operation: they complete with
                                      it, newest first */
    struct timing_slot *next_follower;
    sim_event_t signal_event;
    vnpu_sem_signal_t signal[2];
    const vnpu_insn_t *remote; /* signals go to other instances; NULL: to its own */
    uint32_t *port;            /* [cores] receivers of a multicast, made at its first */
    uint64_t *row;             /* gather addresses, grown as needed */
    uint64_t row_capacity;
    uint32_t instance;
    uint8_t opcode;
} timing_slot_t;

typedef enum timing_stage {
    TIMING_IDLE,  /* stream ended, or no instance */
    TIMING_ISSUE, /* fetch and decode */
    TIMING_WAIT_SEM,
    TIMING_WAIT_UNIT,
    TIMING_WAIT_FENCE
} timing_stage_t;

struct timing_queue {
    timing_core_t *core;
    const vnpu_queue_section_t *section;
    uint32_t section_index;
    uint32_t engine; /* UINT32_MAX: control queue, no engine */
    dev_cursor_t cursor;
    const vnpu_insn_t *insn; /* at the head, decoded */
    timing_stage_t stage;
    uint16_t waiting_sem;
    sim_event_t issue_event;
    uint32_t in_unit;     /* operations between submit and end */
    uint32_t outstanding; /* between submit and done */
    timing_slot_t *free_slots, *all_slots;
    timing_slot_t *newest; /* the operation submitted last, NULL when it is done */
    uint64_t row_lists;    /* gathers seen in this instance */
};

/* One engine's books. */
typedef struct timing_books {
    sim_tick_t booked_to;
    uint64_t cause[SIM_CAUSE_COUNT];
} timing_books_t;

struct timing_core {
    dev_timing_t *timing;
    const dev_class_t *cls; /* in timing->machine */
    timing_job_t *job;      /* whose instances it runs, or ran last in this epoch */
    uint32_t index;
    uint32_t first_engine; /* matrix if the class has it, vector, DMA */
    sim_share_t sram, acc;
    sim_matrix_t *matrix; /* NULL: the class has none */
    sim_vector_t *vector;
    sim_dma_t *dma[DEV_MAX_DMA_QUEUES];
    timing_queue_t queue[VNPU_MAX_QUEUES];
    uint32_t num_queues, active_queues; /* active: stream not ended */
    uint32_t in_flight;                 /* operations not done and signals not delivered */
    uint32_t unfinished;                /* operations not done */
    int64_t sem[VNPU_MAX_SEMS];
    timing_queue_t *sem_waiter[VNPU_MAX_SEMS];
    sim_event_t start_event;
    uint32_t instance;      /* running now */
    uint32_t next_instance; /* UINT32_MAX: none left */
    uint32_t grid_pos[VNPU_MAX_AXES];
    dev_view_t weights; /* what the array holds since its last product; count 0: nothing */
};

/* A launch, or a copy or fill inside DRAM, of the epoch. */
struct timing_job {
    dev_timing_t *timing;
    const dev_class_t *cls;     /* of its cores */
    const dev_launch_t *launch; /* NULL: a copy or fill */
    dev_launch_t placed;        /* the launch with timing addresses as arguments */
    const dev_row_set_t *rows;
    uint32_t instances, takers;   /* takers: cores in the mask */
    uint32_t cores_left;          /* with instances to run */
    uint16_t team[DEV_MAX_CORES]; /* core of each instance of a team */
    sim_tick_t start, end;
    bool has_ended;
    timing_job_t *next_ended;
    dev_record_t record;
    uint32_t slice_capacity;
    bool with_slices;
    uint8_t sem_from_dma[VNPU_MAX_SEMS]; /* some DMA queue signals it */
    sim_energy_counts_t actions[VNPU_ENERGY_PARTS];
    /* a copy or fill */
    uint32_t core, ops_left;
    uint64_t move_bytes;
    bool is_copy;
    sim_dma_op_t read, write;
    sim_event_t start_event;
};

struct dev_timing {
    dev_machine_t machine;
    sim_engine_t *engine;
    sim_dram_t *dram;
    sim_cache_t *cache;   /* NULL: none */
    sim_shared_t *shared; /* NULL: none */
    sim_noc_t *noc;
    timing_core_t *core;   /* machine.cores */
    timing_books_t *books; /* one per engine */
    uint32_t engines;
    timing_job_t *
        *job; /* of the epoch, in the order of their starts; their memory stays for the next one */
    uint32_t num_jobs, job_room;
    timing_job_t *ended, *ended_tail; /* not yet told to the caller */
};

/* dev_timing_ops.c: fills and submits the unit operation of the queue's head instruction. False: it
 * has nothing to do (an empty pattern, a SYNC): no unit is occupied. */
bool timing_submit(timing_queue_t *queue, timing_slot_t *slot);
bool timing_unit_ready(const timing_queue_t *queue);

/* dev_timing_energy.c: an operation about to be submitted; the record's energy at the end. */
void timing_energy_matrix(timing_job_t *job, const sim_matrix_op_t *op, vnpu_dtype_t dtype);
void timing_energy_vector(timing_job_t *job, const sim_vector_op_t *op, uint64_t elems);
void timing_energy_dma(timing_job_t *job, const sim_dma_op_t *op);
/* Bytes of a transfer's patterns: of the DRAM, or of the shared scratchpad memory with their energy
 * there. */
void timing_count_memory(timing_job_t *job, const sim_dma_op_t *op, uint64_t bytes);
/* After the last event: what DRAM and interconnect counted goes to the jobs of the epoch, and every
 * record gets its energy. */
void timing_energy_end(dev_timing_t *timing);

/* dev_timing.c */
void timing_op_end(sim_engine_t *engine, sim_op_t *op);
void timing_op_done(sim_engine_t *engine, sim_op_t *op);
/* Deals the instances of a launch to its cores; they start core.instance_cycles after `tick`. */
void timing_start_cores(timing_job_t *job, sim_tick_t tick);
/* Cores whose instances an instruction of the core's instance signals or sends to; their number. */
uint32_t timing_reach(const timing_core_t *core, const vnpu_insn_t *insn, uint32_t *out_core);
uint32_t timing_engines_of(const dev_class_t *cls); /* engines of one core */
uint32_t timing_dma_engine(const timing_core_t *core, uint32_t queue);
void timing_book(dev_timing_t *timing, uint32_t engine, sim_tick_t upto, sim_cause_t cause);

/* Signals under way of a core whose receivers do not matter any more. */
void timing_drop_signals(timing_core_t *core);

/* dev_timing_job.c: the last instance has ended, its signals are delivered. */
void timing_job_ended(timing_job_t *job);

#endif
