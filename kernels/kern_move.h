/*
 * Moves of tiles between DRAM and scratchpad: dimensions of two patterns, walked by DRAM's strides,
 * with windows (kern_nest.h) where the tiles of an operand overlap or leave it.
 */
#ifndef KERN_MOVE_H
#define KERN_MOVE_H

#include "kernels/kern_nest.h"

#define KERN_MOVE_DIMS 6u

typedef struct kern_move_dim {
    const kern_axis_t *axis;
    int64_t far, near; /* strides in DRAM and in the tile, elements */
    const kern_window_t *window;
    uint32_t block;     /* > 0: the tile has the dimension in blocks of so many elements, */
    int64_t near_block; /* so far apart */
} kern_move_dim_t;

typedef struct kern_move {
    uint8_t arg;
    vnpu_dtype_t far_dtype, near_dtype;
    vnpu_space_t near_space; /* SRAM, or ACC where the engine reads it; NONE: SRAM */
    uint32_t sram;           /* byte offset of the first buffer */
    uint8_t level;           /* loop that turns the buffers */
    uint32_t buffers;        /* 1: none */
    uint64_t elems;          /* of one buffer */
    bool rotates_nest; /* buffers turn with the iterations of all loops, not of `level` alone */
    bool keeps_rows;   /* dimensions stay apart, also where they follow each other */
    bool keeps_order;  /* dimensions in the order in which they are added; a copy */
    uint32_t value[2]; /* where windows lie outside: imm of VNPU_F_PAD */
    uint32_t count;
    kern_move_dim_t dim[KERN_MOVE_DIMS];
} kern_move_t;

/* Adds a dimension; window NULL, or borrowed until the move is emitted: a load then. */
void kern_move_add(kern_move_t *move, const kern_axis_t *axis, int64_t far, int64_t near,
                   const kern_window_t *window);
/* The innermost dimension, of a move that keeps its order: in blocks where the tile has more than
 * one. */
void kern_move_add_blocks(kern_move_t *move, const kern_axis_t *axis, int64_t far, int64_t near,
                          uint32_t block, int64_t near_block);
/* KERN_LOAD or KERN_STORE; a tile whose contiguous direction is another one in DRAM is a transpose.
 */
vnpu_insn_t *kern_move_emit(kern_builder_t *builder, kern_queue_t queue, const kern_move_t *move);
/* Elements from buffer to buffer. */
uint64_t kern_move_padded(uint64_t elems, vnpu_dtype_t dtype);

#endif
