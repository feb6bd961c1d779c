/*
 * What every engine unit (matrix, vector, DMA) shares: an operation with its times and the causes
 * of its cycles.
 *
 * A unit takes operations in order (sim_X_submit). For each it sets
 *   start  when the operation begins to occupy the engine (never before the previous operation's
 * end), end    when the engine is free for the next one, done   when its results are visible (end +
 * pipeline latency): semaphores are signalled then, and books every tick of [start, end) to exactly
 * one cause: sum(cause) == end - start. Ticks between two operations belong to the caller
 * (semaphore wait, idle, ...).
 */
#ifndef SIM_OP_H
#define SIM_OP_H

#include "sim/sim_event.h"

/* Why an engine spent a tick. Names as in report.json are sim_cause_name(). */
typedef enum sim_cause {
    SIM_CAUSE_USEFUL = 0,     /* the work itself at the unit's full rate, used lanes only */
    SIM_CAUSE_UNUSED_LANES,   /* array rows/columns or vector lanes without work, minimum initiation
                                 interval */
    SIM_CAUSE_WEIGHT_LOAD,    /* preload that no streaming hides */
    SIM_CAUSE_FILL_DRAIN,     /* pipeline fill and drain, start-up of a vector instruction */
    SIM_CAUSE_DMA_SETUP,      /* descriptor, per-run cost, completion of a transfer */
    SIM_CAUSE_DRAM,           /* DRAM latency, timing rules, refresh, channel queue */
    SIM_CAUSE_CACHE,          /* hits: lookup, banks taken by others */
    SIM_CAUSE_NOC,            /* interconnect serialisation and contention */
    SIM_CAUSE_SRAM_CONFLICT,  /* scratchpad or accumulator bandwidth taken by others */
    SIM_CAUSE_OPERAND_WAIT,   /* semaphore wait for data that a DMA queue brings; the array's own
                                 operand ports */
    SIM_CAUSE_SEMAPHORE_WAIT, /* any other semaphore wait */
    SIM_CAUSE_ISSUE,          /* fetch, decode and issue of instructions */
    SIM_CAUSE_LAUNCH_GAP,     /* the command path between launches */
    SIM_CAUSE_IDLE,           /* no instruction left, or nothing launched */
    SIM_CAUSE_OTHER,
    SIM_CAUSE_COUNT
} sim_cause_t;
const char *sim_cause_name(sim_cause_t cause); /* "useful", "unused_lanes", ... */

typedef struct sim_op sim_op_t;
typedef void (*sim_op_fn)(sim_engine_t *engine, sim_op_t *op);

/* Embedded in sim_matrix_op_t etc. The caller sets the callbacks (either may be NULL) and owns the
 * memory until on_done. */
struct sim_op {
    sim_op_fn on_end;  /* phase COMPLETE at tick `end` */
    sim_op_fn on_done; /* phase COMPLETE at tick `done`, after on_end */
    void *owner;       /* the caller's */
    sim_tick_t start, end, done;
    sim_tick_t cause[SIM_CAUSE_COUNT];
};

#endif
