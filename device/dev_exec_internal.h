/* Shared by the parts of the executor: run and threads, interpreter, operands, DMA, matrix, vector.
 */
#ifndef DEV_EXEC_INTERNAL_H
#define DEV_EXEC_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "device/dev_dtype.h"
#include "device/dev_exec.h"
#include "device/dev_vec.h"

#define EXEC_NO_QUEUE UINT32_MAX

/* A buffer of one host thread that grows and stays: packed operands, converted rows. 64-byte
 * aligned. */
typedef struct exec_scratch {
    void *data;
    size_t bytes;
} exec_scratch_t;

enum {
    SCRATCH_A,
    SCRATCH_B,
    SCRATCH_C,
    SCRATCH_ROW,
    SCRATCH_LEFT, /* dense operands and results of exec_mm_dims */
    SCRATCH_RIGHT,
    SCRATCH_RESULT,
    SCRATCH_COUNT
};

/* A host thread's core: one instance at a time lives in these memories. */
typedef struct exec_worker {
    dev_exec_t *exec;
    uint8_t *sram, *acc; /* 2 MiB aligned, mapped at first use */
    void *map;
    size_t map_bytes;
    exec_scratch_t scratch[SCRATCH_COUNT];
    uint32_t f32_passes; /* of the product in work: bf16 terms of one of f32, 0: native */
    float *vector_temp;  /* EXEC_VECTOR_TEMPS blocks */
    pthread_t thread;
    bool has_thread;
} exec_worker_t;

/* Row lists of one queue of one instance. */
typedef struct exec_rows {
    uint64_t hash; /* of the rows relative to their table's argument */
    uint32_t count, room;
    dev_rows_t *list;
} exec_rows_t;

/* Row lists of a launch, [instances][VNPU_MAX_QUEUES]. */
struct dev_row_set {
    uint32_t instances;
    exec_rows_t rows[];
};

typedef enum exec_queue_state { QUEUE_READY, QUEUE_BLOCKED, QUEUE_ENDED } exec_queue_state_t;

/* A DMA write that chaos mode holds back, with the semaphores that its completion signals. */
typedef struct exec_late exec_late_t;

typedef struct exec_queue {
    dev_cursor_t cursor;
    const vnpu_insn_t *insn; /* the next one; NULL at the end */
    exec_queue_state_t state;
    exec_late_t *late, *late_tail; /* in order */
} exec_queue_t;

/* Scratchpad bytes [low, high) that stand for rows of DRAM (dev_exec_alias.c). */
#define EXEC_MAX_ALIASES 16u
typedef struct exec_alias {
    uint64_t low, high;
    uint64_t dram_low, dram_high; /* device addresses that the rows span */
    const uint8_t *src;           /* host memory of the first row */
    uint64_t rows, row_bytes;
    int64_t pitch; /* bytes from row to row in DRAM */
} exec_alias_t;

/* One program instance while it runs. */
typedef struct exec_instance {
    dev_exec_t *exec;
    exec_worker_t *worker;
    const dev_launch_t *launch;
    const dev_program_t *program;
    uint32_t owner, index, core;
    uint32_t grid_pos[VNPU_MAX_AXES];
    uint32_t running;           /* queue section of the instruction in work */
    const vnpu_insn_t *insn;    /* that instruction */
    const dev_cursor_t *cursor; /* at its loop counters */
    int64_t sem[VNPU_MAX_SEMS];
    exec_queue_t queue[VNPU_MAX_QUEUES];
    exec_alias_t alias[EXEC_MAX_ALIASES];
    uint32_t num_aliases;
    uint64_t random;            /* chaos */
    struct exec_instance *team; /* all instances of the launch, [instances]; NULL: it is no team */
    uint32_t team_size;
    bool has_run; /* something, since it was last looked at */
    sim_error_t *err;
} exec_instance_t;

/* An operand of the running instruction: its view and where its element 0 lies in host memory. */
typedef struct exec_operand {
    dev_view_t view;
    uint8_t *ptr;       /* NULL for IOTA */
    uint64_t low, high; /* bytes touched, in the view's address space */
} exec_operand_t;

struct dev_exec {
    dev_machine_t machine;
    dev_memory_t *memory;
    dev_exec_options_t options;
    const dev_vec_level_t *level;
    uint32_t threads;
    exec_worker_t *worker; /* [threads]; 0 is the caller's */

    /* The run in progress; helpers read it between `generation` and their check-out. */
    const dev_launch_t *launch;
    uint32_t owner, instances, takers;
    uint16_t core[DEV_MAX_CORES]; /* cores of the mask, ascending */
    uint32_t streamed_args; /* bit a: the launch writes so much through argument a that its stores
                               bypass the caches */
    _Atomic uint32_t next_core;
    _Atomic uint32_t fault_instance; /* lowest instance that failed so far, UINT32_MAX: none */
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    uint64_t generation;
    uint32_t busy_helpers;
    bool is_stopping;
    sim_error_t fault; /* of fault_instance; under lock */

    exec_instance_t *team;      /* of the running team */
    exec_worker_t *team_worker; /* memories of its cores, kept for the next one */
    uint32_t team_room;

    dev_row_set_t *rows; /* when the program gathers or scatters */
    uint64_t runs;       /* launches so far: joins the seed of chaos */
};

/* ---- dev_exec_core.c: the interpreter ---- */
sim_status_t exec_run_instance(exec_instance_t *instance) SIM_MUST_USE;
/* Instances that signal each other, each with a worker of its own: in turns, each until it cannot
 * go on. The fault is in the err of *out_culprit. */
sim_status_t exec_run_team(exec_instance_t *team, uint32_t size,
                           exec_instance_t **out_culprit) SIM_MUST_USE;
/* Records a fault of the running instruction: "program p: queue dma0 insn 3 (line 12), core 1,
 * instance 5: <text>". */
sim_status_t exec_fault(const exec_instance_t *instance, sim_status_t status, const char *format,
                        ...) SIM_PRINTF(3, 4);
uint64_t exec_random(exec_instance_t *instance);

/* ---- dev_exec_report.c ---- */
sim_status_t exec_report_deadlock(exec_instance_t *instance);
sim_status_t exec_report_team_deadlock(exec_instance_t *team, uint32_t size);
/* "program p: queue dma0 insn 3 (line 12), core 1, instance 5" */
void exec_where(const exec_instance_t *instance, char *text, size_t bytes);

/* ---- dev_exec_operand.c ---- */
typedef enum exec_access {
    ACCESS_READ, /* through ptr and the view's strides, which may lead to DRAM (dev_exec_alias.c) */
    ACCESS_READ_LOCAL, /* in the scratchpad itself */
    ACCESS_WRITE,  /* every element is overwritten; sources of the same instruction are made before
                    */
    ACCESS_UPDATE, /* some elements are written, or read as well */
} exec_access_t;
/* The view of pattern `ap` now, checked against its memory. Empty views have ptr NULL. */
sim_status_t exec_operand_make(exec_instance_t *instance, uint16_t ap, exec_access_t access,
                               exec_operand_t *out_operand) SIM_MUST_USE;
/* Host pointer of [low, high) in the space of the view. */
sim_status_t exec_translate(exec_instance_t *instance, vnpu_space_t space, uint64_t low,
                            uint64_t high, bool is_write, const char *name,
                            uint8_t **out_ptr) SIM_MUST_USE;
/* Scratch of at least `bytes`; never NULL (no host memory is a simulator failure). */
void *exec_scratch(exec_worker_t *worker, int which, size_t bytes);
/* Elements whose values a timing-only run does not have: floats in memory. ARG and IOTA are known.
 */
bool exec_is_unknown(const exec_instance_t *instance, const exec_operand_t *operand);

/* ---- dev_exec_alias.c ---- */
/* Remembers a load instead of copying it; false: it has to be copied. dst and src were made (WRITE,
 * READ). */
bool exec_alias_load(exec_instance_t *instance, const exec_operand_t *dst,
                     const exec_operand_t *src);
/* Before an access to scratchpad bytes. */
void exec_alias_read(exec_instance_t *instance, exec_operand_t *operand, bool may_map);
void exec_alias_write_sram(exec_instance_t *instance, const exec_operand_t *operand,
                           bool is_read_too);
/* Before a write to device addresses. */
void exec_alias_write_dram(exec_instance_t *instance, uint64_t low, uint64_t high);

/* ---- dev_exec_walk.c: joint dimensions of several operands ---- */
#define WALK_MAX_OPS 5u
typedef struct exec_walk {
    uint32_t ndims, ops;
    uint64_t size[VNPU_MAX_DIMS];
    int64_t stride[WALK_MAX_OPS][VNPU_MAX_DIMS]; /* elements of each operand */
} exec_walk_t;
void exec_walk_begin(exec_walk_t *walk, const dev_view_t *shape);
void exec_walk_add(exec_walk_t *walk, const int64_t *stride); /* walk->ndims strides */
/* Drops dimensions of size 1 and merges those that continue each other in every operand; the last
 * `keep` stay apart. At least one dimension is left. */
void exec_walk_merge(exec_walk_t *walk, uint32_t keep);
/* Steps over dims [0, ndims) of the index; false when it wraps to zero. offset[op] follows. */
bool exec_walk_step(const exec_walk_t *walk, uint32_t ndims, uint64_t *index, int64_t *offset);

/* ---- dev_exec_copy.c ---- */
/* COPY_STREAM: the destination is large and not read back soon. */
typedef enum exec_copy_kind { COPY_PLAIN, COPY_ACCUMULATE, COPY_STREAM } exec_copy_kind_t;
/* dst[i] (+)= cast(src[i]); the views have one shape. */
void exec_copy(exec_worker_t *worker, const dev_view_t *dst, uint8_t *dst_ptr,
               const dev_view_t *src, const uint8_t *src_ptr, exec_copy_kind_t kind);
/* dst[i] = the element whose bytes are at `element`. */
void exec_fill(const dev_view_t *dst, uint8_t *dst_ptr, const void *element);

/* ---- dev_exec_dma.c, dev_exec_mm.c, dev_exec_vector.c ---- */
sim_status_t exec_dma(exec_instance_t *instance) SIM_MUST_USE;
sim_status_t exec_mm(exec_instance_t *instance) SIM_MUST_USE;
sim_status_t exec_vector(exec_instance_t *instance) SIM_MUST_USE;
/* Rows of the n-th gather or scatter of the running queue. */
void exec_rows_record(exec_instance_t *instance, const uint64_t *address, uint64_t count,
                      uint64_t base);

/* Chaos: the reads of a DMA instruction now, its write and signals later. */
sim_status_t exec_dma_late(exec_instance_t *instance, exec_late_t **out_late) SIM_MUST_USE;
sim_status_t exec_late_finish(exec_instance_t *instance, exec_late_t *late) SIM_MUST_USE;
void exec_late_destroy(exec_late_t *late);
struct exec_late {
    exec_late_t *next;
    const vnpu_insn_t *insn;
    dev_cursor_t cursor; /* where the instruction stood: its views are made again at the write */
    dev_view_t captured; /* dense copy of what the instruction writes, in dst's type */
    uint8_t *data;       /* NULL: nothing captured, the instruction runs whole when it completes */
};

/* ---- dev_exec_mm.c: kernels of libxsmm ---- */
sim_status_t exec_mm_init(const dev_vec_level_t *level, sim_error_t *err) SIM_MUST_USE;
/* A strided matrix in memory: element (r, c) at ptr[r * row + c * col]. */
typedef struct exec_matrix {
    const uint8_t *ptr;
    vnpu_dtype_t dtype;
    uint32_t bytes;
    int64_t row, col;
} exec_matrix_t;
/* c[m][n] (+)= a[m][k] b[k][n]; element (r, c) of the result at c + 4 * (r * row + c * col). */
void exec_mm_strided(exec_worker_t *worker, uint8_t *c, int64_t row, int64_t col,
                     const exec_matrix_t *a, const exec_matrix_t *b, size_t m, size_t n, size_t k,
                     bool accumulate);

/* ---- dev_exec_mm_dims.c: operands of several dimensions of k or n ---- */
void exec_mm_dims(exec_worker_t *worker, const exec_operand_t *dst, const exec_operand_t *a,
                  const exec_operand_t *b, uint32_t k_dims, bool accumulate);

/* ---- dev_exec_int.c: the integer side of the vector engine ---- */
typedef enum exec_int_fault { INT_OK, INT_DIVISION_BY_ZERO, INT_UNSUPPORTED } exec_int_fault_t;
exec_int_fault_t exec_int_unary(vnpu_unary_t func, int64_t *dst, const int64_t *a, size_t n);
exec_int_fault_t exec_int_binary(vnpu_binary_t func, int64_t *dst, const int64_t *a,
                                 const int64_t *b, size_t n);

#endif
