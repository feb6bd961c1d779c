/*
 * The iteration space of a program: axes (dimensions) cut in tiles, dealt to the program's
 * instances and walked by hardware loops. An axis split over a grid axis deals its tiles round
 * (VNPU_CLIP_CYCLIC); what lies beyond its size is clipped away, so any size, tile and number of
 * cores is correct.
 *
 * An operand is a list of terms, one per axis that its instruction walks: the axis and the
 * operand's stride along it. kern_ap_terms turns them into an access pattern; operands of one
 * instruction list the same axes in the same order.
 */
#ifndef KERN_NEST_H
#define KERN_NEST_H

#include "kernels/kern_builder.h"

typedef struct kern_axis {
    int64_t size;      /* elements of the whole dimension, >= 1 */
    uint32_t tile;     /* elements of a tile, <= size */
    uint32_t tiles;    /* ceil(size / tile) */
    uint32_t grid;     /* instances along it; 1: not split */
    uint8_t grid_axis; /* which grid axis, when split */
    uint32_t trips;    /* tiles that one instance walks */
    uint8_t level;     /* its loop, VNPU_NO_LOOP when trips == 1 */
    uint32_t from;     /* a part of every tile of another axis: its first element in the tile, */
    uint32_t skip;     /* and elements of the tile that are not in the part */
} kern_axis_t;

kern_axis_t kern_axis_make(int64_t size, int64_t tile);
void kern_axis_split(kern_axis_t *axis, uint8_t grid_axis, uint32_t grid);
bool kern_axis_is_clipped(const kern_axis_t *axis);
/* Elements [from, from + elems) of every tile of `axis`, which is not split: the same loop, clipped
 * where the last tile ends. Patterns over it start `from` strides in. from < axis->tile. */
kern_axis_t kern_axis_part(const kern_axis_t *axis, uint32_t from, uint32_t elems);

typedef struct kern_term {
    const kern_axis_t *axis;
    int64_t stride; /* elements */
    bool keep;      /* a dimension of its own even when the tile is one element */
} kern_term_t;

/* Appends one term's dimension, clip and movement to a pattern; see kern_ap_terms. */
void kern_ap_append(vnpu_ap_t *ap, const kern_term_t *term, bool moves);

/* The border of an operand that is read in overlapping tiles: along an axis of results, tile number
 * i needs `size` elements from i * step - pad on; [0, extent) of them exist. */
typedef struct kern_window {
    int64_t size, step, extent, pad;
} kern_window_t;
/* Whether the hardware's windows can express it (vnpu_isa.h: overlap and pad are bytes). */
bool kern_window_is_possible(const kern_axis_t *axis, const kern_window_t *window);
/* Appends the dimension of a DRAM pattern; the SRAM pattern has a plain dimension of `size`. */
void kern_ap_append_window(vnpu_ap_t *ap, const kern_axis_t *axis, const kern_window_t *window,
                           int64_t stride);

/*
 * Pattern over the terms (outermost first). moves: the pattern follows loops and grid (DRAM, IOTA);
 * else it is a tile buffer. Terms with one element per tile and no clip are left out unless kept.
 */
vnpu_ap_t kern_ap_terms(vnpu_space_t space, vnpu_dtype_t dtype, int64_t base,
                        const kern_term_t *term, uint32_t count, bool moves);

#define KERN_NEST_DIMS VNPU_MAX_DIMS

typedef struct kern_nest {
    uint32_t ndims;
    kern_axis_t axis[KERN_NEST_DIMS]; /* outermost first */
    uint32_t grid[VNPU_MAX_AXES];
    uint32_t depth;   /* loops */
    uint8_t inner;    /* innermost loop: turns the buffers; VNPU_NO_LOOP when there is none */
    uint32_t buffers; /* 2 when there is a loop, else 1 */
    uint64_t trips;   /* of all loops together */
} kern_nest_t;

/*
 * Deals the axes in `split_mask` to at most `workers` instances, gives loops to what is left and
 * pads the innermost one to whole rounds of buffers. False: more loops or clips than the hardware
 * has (the caller cuts the space).
 */
bool kern_nest_plan(kern_nest_t *nest, uint32_t workers, uint32_t split_mask);
void kern_nest_open(const kern_nest_t *nest, kern_builder_t *builder);
void kern_nest_close(const kern_nest_t *nest, kern_builder_t *builder);
/* Loop mask of the axes in dim_mask. */
uint8_t kern_nest_levels(const kern_nest_t *nest, uint32_t dim_mask);

/*
 * Fills tile sizes: axes in `order` grow one after the other until `budget` elements are reached;
 * `limit[i]` (0: none) caps the tile of order[i]; the first axis that does not fit whole is cut in
 * equal tiles of a multiple of `align` (order[0]).
 */
void kern_nest_tile(kern_nest_t *nest, const int64_t *size, const uint8_t *order,
                    const uint32_t *limit, uint64_t budget, uint32_t align);
uint64_t kern_nest_tile_elems(const kern_nest_t *nest);
/* Edge of a square tile of at most `elems`: a power of two, at most `most`. */
uint32_t kern_nest_edge(uint64_t elems, uint32_t most);

#endif
