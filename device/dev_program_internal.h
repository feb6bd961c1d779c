/* Shared by the parts of the program module: loader, validator, argument extents, assembler. */
#ifndef DEV_PROGRAM_INTERNAL_H
#define DEV_PROGRAM_INTERNAL_H

#include "device/dev_program.h"

/*
 * Elements that one pattern may reach from its base, over all dimensions and loops: small enough
 * that byte addresses (times 8) and sums of them never overflow 64 bits.
 */
#define DEV_MAX_REACH ((int64_t)1 << 46)

/* Bytes of a name in the strings, its NUL included. */
#define DEV_MAX_NAME 64u

/* The loops around an instruction. */
typedef struct dev_nest {
    uint32_t depth;
    uint32_t trips[VNPU_MAX_LOOPS];
    uint32_t open[VNPU_MAX_LOOPS]; /* index of the LOOP in the program */
} dev_nest_t;

/* Counter range of loop level l for an instruction under its masks: inclusive. False: it never
 * executes. */
bool dev_nest_range(const dev_nest_t *nest, const vnpu_insn_t *insn, uint32_t l, uint32_t *out_low,
                    uint32_t *out_high);

/* Checks everything and fills in `match`, `sem_waiter` and `class_mask`. Image sizes are right
 * already. */
sim_status_t dev_program_validate(dev_program_t *program, const dev_machine_t *machine,
                                  sim_error_t *err) SIM_MUST_USE;

/*
 * The n-th string of the program: argument names, then semaphore names, then pattern names
 * (dev_image.h). NULL when the image has no strings. O(n): for messages; walkers keep their place
 * themselves.
 */
const char *dev_program_string(const dev_program_t *program, uint32_t n);

#endif
