/*
 * Programs in memory: loading with validation, the cursor that walks a queue's instruction stream,
 * and the view that an access pattern has at one point of that walk. Executor (values) and timing
 * engine (time) use the same cursor and views, so they cannot disagree on what a program does.
 */
#ifndef DEV_PROGRAM_H
#define DEV_PROGRAM_H

#include <stdbool.h>

#include "device/dev_machine.h"
#include "device/vnpu_isa.h"
#include "sim/sim_status.h"

typedef struct dev_program {
    vnpu_program_header_t header;
    vnpu_queue_section_t queue[VNPU_MAX_QUEUES];
    vnpu_insn_t *insn; /* header.num_insns */
    vnpu_ap_t *ap;     /* header.num_aps */
    char *strings;
    uint32_t *match; /* per instruction: LOOP -> its ENDLOOP, ENDLOOP -> its LOOP */
    uint8_t
        sem_waiter[VNPU_MAX_SEMS]; /* the one queue section that waits on a semaphore, 0xff: none */
    uint64_t hash;                 /* of the image: identifies the program in the reuse key */
    bool is_team; /* instances signal or multicast to each other: all run at once */
    uint32_t team_grid[VNPU_MAX_AXES]; /* least grid that has every instance which is named; 0: none
                                          is */
    uint32_t class_mask; /* bit c: cores of class c have what it needs; loaded without a machine:
                            all bits */
    uint32_t users;      /* launches that need it beside its owner (dev_program_retain) */
} dev_program_t;

/*
 * Copies and validates an image: CRC, sizes, opcodes and their queues, operands and dtypes, loop
 * nesting, loop masks, shape agreement of operands, SRAM and ACC bounds over all loop counters and
 * grid-independent terms (grid terms are checked per launch), one waiting queue per semaphore,
 * reserved fields zero, limits of the machine (machine may be NULL: format only): some class of
 * cores must have every queue, type and byte that the program uses. Error: SIM_ERROR_INVALID_IMAGE
 * with "name: queue dma0 insn 3 (offset 0x1c0, line 12): reason"; UNSUPPORTED when it is the chip
 * that lacks something; with several classes, one such reason for each. The program belongs to the
 * caller (dev_program_destroy).
 */
sim_status_t dev_program_load(const void *image, size_t bytes, const dev_machine_t *machine,
                              dev_program_t **out_program, sim_error_t *err) SIM_MUST_USE;
/* One more user: the program lives until each has called dev_program_destroy. Not thread-safe. */
dev_program_t *dev_program_retain(const dev_program_t *program);
void dev_program_destroy(dev_program_t *program); /* NULL is fine */
/* Why a class outside class_mask cannot run a loaded program. */
sim_status_t dev_program_fits(dev_program_t *program, const dev_class_t *cls,
                              sim_error_t *err) SIM_MUST_USE;

/* "dma0", "matrix0", ... of a queue section, into text[16]. */
void dev_queue_name(const vnpu_queue_section_t *section, char text[16]);
/* "3 (a_full)", or "3" where the image has no names, into text[80]. */
void dev_semaphore_name(const dev_program_t *program, uint32_t sem, char text[80]);

/* A launch, as the executor and the timing engine see it. All borrowed. */
typedef struct dev_launch {
    const dev_program_t *program;
    uint64_t arg[VNPU_MAX_ARGS];           /* device addresses or scalar bytes */
    sim_shared_home_t home[VNPU_MAX_ARGS]; /* of pointers to the shared scratchpad memory */
    uint32_t grid[VNPU_MAX_AXES];          /* >= 1 each */
    uint64_t
        core_mask[DEV_MAX_CORES / 64]; /* cores that take instances, of one class; never empty */
} dev_launch_t;

/* A team needs a core for each instance, and a grid with all instances that it names: else
 * INVALID_VALUE. */
sim_status_t dev_launch_check_team(const dev_launch_t *launch, sim_error_t *err) SIM_MUST_USE;
/* True: `place` (VNPU_PLACE, not 0) names the instance at grid_pos. */
bool dev_place_matches(uint16_t place, const uint32_t grid_pos[VNPU_MAX_AXES]);
/* True: the instance at `to` is one of those that an instruction of the instance at `from` signals.
 */
bool dev_insn_reaches(const vnpu_insn_t *insn, const uint32_t from[VNPU_MAX_AXES],
                      const uint32_t to[VNPU_MAX_AXES]);

/* Walk of one queue for one program instance. */
typedef struct dev_cursor {
    const dev_program_t *program;
    const vnpu_queue_section_t *section;
    uint32_t pc;    /* next instruction, relative to section->first */
    uint32_t depth; /* open loops */
    bool is_placed; /* `only` of instructions is looked at */
    uint32_t grid_pos[VNPU_MAX_AXES];
    uint32_t counter[VNPU_MAX_LOOPS], trips[VNPU_MAX_LOOPS], loop_pc[VNPU_MAX_LOOPS];
} dev_cursor_t;

void dev_cursor_init(dev_cursor_t *cursor, const dev_program_t *program,
                     const vnpu_queue_section_t *section);
/* Instructions that are not for the instance at grid_pos are skipped from now on. */
void dev_cursor_place(dev_cursor_t *cursor, const uint32_t grid_pos[VNPU_MAX_AXES]);
/*
 * The next instruction that executes now: LOOP/ENDLOOP are walked over, instructions masked out by
 * first_only / last_only are skipped. NULL at the end of the stream. The loop counters in the
 * cursor are those of the returned instruction; calling again moves on. O(1) amortised.
 */
const vnpu_insn_t *dev_cursor_next(dev_cursor_t *cursor);
/* True when `not_first` of the instruction says accumulate at the cursor's loop counters. */
bool dev_cursor_accumulates(const dev_cursor_t *cursor, const vnpu_insn_t *insn);

/* An access pattern at given loop counters and grid coordinates. */
typedef struct dev_view {
    vnpu_space_t space;
    vnpu_dtype_t dtype;
    uint32_t elem_bytes;
    uint32_t ndims;
    uint32_t size[VNPU_MAX_DIMS];  /* clipped; any 0: the view is empty */
    int64_t stride[VNPU_MAX_DIMS]; /* elements */
    uint64_t base;   /* byte address: device address (DRAM), offset (SRAM, ACC, ARG); IOTA: element
                        offset as i64 */
    uint64_t count;  /* elements */
    bool has_window; /* some clip is a window: `front` is set */
    uint32_t front[VNPU_MAX_DIMS]; /* elements of the pattern's size cut away before the first one;
                                      base is behind them */
} dev_view_t;

/* grid_pos: coordinates of this instance. Fast: called for every operand of every executed
 * instruction. */
void dev_view_make(dev_view_t *view, const vnpu_ap_t *ap, const dev_cursor_t *cursor,
                   const dev_launch_t *launch, const uint32_t grid_pos[VNPU_MAX_AXES]);
/* Lowest and one-past-highest byte touched (min over negative strides included). Empty view: both =
 * base. */
void dev_view_extent(const dev_view_t *view, uint64_t *out_low, uint64_t *out_high);
/* Length in bytes of the contiguous innermost runs and their number: dimensions that continue each
 * other are merged. */
void dev_view_runs(const dev_view_t *view, uint64_t *out_run_bytes, uint64_t *out_runs);

/*
 * Byte range [low, high) that a launch touches through pointer argument `arg`, over all loops and
 * all grid positions, relative to the argument's value, read and written separately (empty: low ==
 * high == 0). Computed from the patterns; O(patterns).
 */
typedef struct dev_arg_extent {
    int64_t read_low, read_high, write_low, write_high;
} dev_arg_extent_t;
void dev_program_arg_extent(const dev_program_t *program, uint32_t arg,
                            const uint32_t grid[VNPU_MAX_AXES], dev_arg_extent_t *out_extent);

#endif
