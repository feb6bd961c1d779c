/*
 * The executor: computes the values of a launch. It runs the queues of each program instance in any
 * order that the semaphores allow, cores in parallel on host threads. For a race-free program the
 * bits do not depend on the order, the number of threads or the host's vector width
 * (docs/numerics.md): f32 MM      one FMA chain per element, k ascending through the whole
 * accumulation (from +0 or from what is in ACC) reductions  16 partial results, lane = index mod 16
 * along the reduced dimension, then a fixed tree
 *               ((l, l+8), (l, l+4), (l, l+2), (l, l+1)); carried from instruction to instruction
 * with PARTIAL functions   SLEEF finz variants, own erf and gelu; division and square root
 * correctly rounded casts       float to float round to nearest even; float to integer truncates,
 * saturates, NaN -> 0; integer to integer wraps
 */
#ifndef DEV_EXEC_H
#define DEV_EXEC_H

#include "device/dev_machine.h"
#include "device/dev_memory.h"
#include "device/dev_program.h"

typedef struct dev_exec dev_exec_t;

typedef enum dev_exec_mode {
    DEV_EXEC_VALUES = 0,
    DEV_EXEC_CHAOS = 1, /* values in a random legal order, seeded: finds missing semaphores */
    DEV_EXEC_TIMING =
        2, /* integers and bools only: instructions that write floats to DRAM mark their range
              unknown, float arithmetic is not computed; addresses and indices stay right */
} dev_exec_mode_t;

typedef struct dev_exec_options {
    dev_exec_mode_t mode;
    uint32_t threads; /* 0: one per CPU in the affinity mask, at most one per worker core */
    uint64_t seed;    /* chaos */
    int isa_level; /* 0: best of the host; 2 = AVX2+FMA, 5 = AVX-512; 1 = scalar reference. Without
                      FMA: refused */
} dev_exec_options_t;

/* What timing needs to know of a launch's data: the row addresses that gathers and scatters
 * touched, per instance and queue in program order. Owned by the executor, valid until the next
 * run. */
typedef struct dev_rows {
    const uint64_t *address;
    uint64_t count;
} dev_rows_t; /* device addresses; skipped rows left out */

sim_status_t dev_exec_create(const dev_machine_t *machine, dev_memory_t *memory,
                             const dev_exec_options_t *options, dev_exec_t **out_exec,
                             sim_error_t *err) SIM_MUST_USE;
void dev_exec_destroy(dev_exec_t *exec);

/*
 * Runs every instance of the launch to its end. owner: whose memory the program may touch. On a
 * fault (illegal address, index out of range, trap, deadlock, SRAM overflow) returns its status,
 * with err naming program, queue, instruction, line, core, instance, address and extent; memory
 * written so far stays written. A deadlock is exact: when no queue can go on, the report is the
 * wait-for graph: per blocked queue which semaphore it waits for, its value, the value needed, and
 * which queues signal it (or that none does).
 */
sim_status_t dev_exec_run(dev_exec_t *exec, uint32_t owner, const dev_launch_t *launch,
                          sim_error_t *err) SIM_MUST_USE;

/* Gathers/scatters of the last run: the n-th executed DMA_GATHER/SCATTER of queue section `queue`
 * of instance `instance`. */
uint64_t dev_exec_row_lists(const dev_exec_t *exec, uint32_t instance, uint32_t queue);
dev_rows_t dev_exec_rows(const dev_exec_t *exec, uint32_t instance, uint32_t queue, uint64_t n);
/* Takes the lists of the last run out of the executor, for a launch that is timed later; NULL: the
 * program has no gathers. */
typedef struct dev_row_set dev_row_set_t;
dev_row_set_t *dev_exec_take_rows(dev_exec_t *exec);
dev_rows_t dev_row_set_get(const dev_row_set_t *set, uint32_t instance, uint32_t queue, uint64_t n);
void dev_row_set_destroy(dev_row_set_t *set); /* NULL is fine */
/* Hash of all of them (0 when there are none): the data-dependent part of the reuse key. */
uint64_t dev_exec_rows_hash(const dev_exec_t *exec);

/* "avx512", "avx2" or "exact" (level 1: one element at a time, the reference of the tests). */
const char *dev_exec_isa_name(const dev_exec_t *exec);
uint32_t dev_exec_threads(const dev_exec_t *exec);

#endif
