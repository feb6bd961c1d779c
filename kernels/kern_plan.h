/*
 * How a matrix product or an attention was mapped to the chip, and who decided.
 *
 * Tilings are ranked by closed form (kern_cost.h). Where the best few lie within 10 % of each other
 * and the product is large enough to matter, their programs are loaded and timed by
 * vnpu_program_time; the fastest stays, on a tie the one that the closed form prefers. They are
 * timed with stand-in operands, apart from each other and aligned as allocations are: the choice is
 * a function of configuration and shape, not of addresses, order of calls or earlier runs. It takes
 * no simulated time but that of the calls that load and unload the other programs.
 *
 * VNPU_PLAN=model|measure, read when a context is created: `model` trusts the closed form always;
 * `measure` (default) decides as above. A mapping profile other than `best` (kern_profile.h) never
 * asks the simulator. A device without time (VNPU_MODE=functional) uses the
 * closed form.
 */
#ifndef KERN_PLAN_H
#define KERN_PLAN_H

#include <stdint.h>

#include "kernels/kern.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kern_tiling {
    const char *order;    /* what stays: "weights", "tiles", "rows"; attention: "block", "stream" */
    uint32_t m, n, k;     /* elements of a tile; attention: queries, keys, depth */
    uint32_t heads;       /* attention: whose keys are loaded together; else 1 */
    uint32_t grid[2];     /* program instances */
    uint32_t buffers;     /* of the operand that streams */
    uint64_t cycles;      /* core cycles by closed form, with what breaks ties */
    uint64_t measured_ps; /* by the simulator; 0: it was not asked */
} kern_tiling_t;

typedef struct kern_mapping {
    const char *family;     /* "gemm" or "attention" */
    int64_t batch, m, n, k; /* attention: batch x heads, queries, keys, depth */
    kern_tiling_t chosen;
    kern_tiling_t next;        /* next best; order NULL: there is none */
    uint64_t dram_bytes;       /* that the program's patterns move */
    uint64_t compulsory_bytes; /* every operand once */
    uint64_t useful_macs;
    uint64_t padded_macs; /* with the cells and steps of the array that tiles leave unused */
    uint32_t candidates;  /* tilings that the simulator compared; 0: the closed form decided */
} kern_mapping_t;

/* Of the last launch since kern_set_tag that had one; NULL: none. Valid as long as the context. */
KERN_API_VOID const kern_mapping_t *kern_last_plan(const kern_context_t *context);

#ifdef __cplusplus
}
#endif
#endif
