/*
 * The program of a convolution while it is put together: what kern_conv_code.c and the tiles in
 * blocks (kern_conv_blocks.c) share.
 */
#ifndef KERN_CONV_CODE_H
#define KERN_CONV_CODE_H

#include "kernels/kern_conv_plan.h"
#include "kernels/kern_move.h"

/* Strides of tiles in elements. Where there are no blocks, *_block is 0. */
typedef struct kern_conv_coder {
    const kern_conv_shape_t *shape;
    const kern_conv_plan_t *plan;
    kern_builder_t *builder;                     /* NULL: patterns are only counted */
    bool is_turned, is_channels_last, is_merged; /* is_merged: kw and c are one dimension */
    kern_axis_t kernel[2], row;                  /* whole kernel dimensions; kw and c together */
    int64_t in_stride[CONV_AXES]; /* of the image tile: elements per row, column, ... */
    int64_t weight_stride[CONV_AXES], weight_kernel[2];
    int64_t tile_stride[CONV_AXES];             /* of the result tile */
    int64_t in_block, weight_block, tile_block; /* from block to block of channels */
    kern_axis_t n_blocks, n_inner;              /* of results: blocks, and channels of a block */
    kern_axis_t pixels;                         /* image columns that share a word */
    uint64_t image_elems, weight_elems, chunk_elems, tile_elems; /* chunk: of one c tile */
    uint8_t arg_in, arg_weight, arg_bias, arg_out;
    uint32_t sram_in, sram_weight, sram_bias, sram_out, sram_temp, acc;
    kern_ring_t a, b, c, result, out; /* image; panel; bias; accumulator; result tile */
} kern_conv_coder_t;

/*
 * Tiles in blocks of plan->block elements (a word of the scratchpad, a line of the array):
 *   image    [block of c][b][row][column][c], or with pixels > 1 [b][row][column][pixel][c]: a word
 *            has the channels of its column and of those behind it
 *   weights  [block of n][kh][kw][c][n]
 *   results  [block of n][b][oh][ow][n]
 * Output channels are one block, as long as they are, where the tile or the whole is no multiple of
 * blocks. One product per kernel position, or per plan->pixels positions of a kernel row; where a
 * tile of c is no multiple of blocks, whole blocks and the rest are products of their own.
 */
void kern_conv_blocks_lay_out(kern_conv_coder_t *c);
/* Where image and weights lie: each buffer is a part of the scratchpad with the image from its
 * start and the weights up to its end. */
void kern_conv_blocks_place(kern_conv_coder_t *c);
/* Elements from buffer to buffer. */
uint64_t kern_conv_blocks_pitch(const kern_conv_coder_t *c, vnpu_dtype_t dtype);
/* The dimension of n, of weights or results: its terms, all kept. */
uint32_t kern_conv_blocks_n(const kern_conv_coder_t *c, kern_term_t *term, int64_t block,
                            int64_t one);
/* Dimensions of moves: of the image behind rows and columns, of weights and results all. */
void kern_conv_blocks_move_image(const kern_conv_coder_t *c, kern_move_t *move);
void kern_conv_blocks_move_weights(const kern_conv_coder_t *c, kern_move_t *move);
void kern_conv_blocks_move_results(const kern_conv_coder_t *c, kern_move_t *move);
/* The products of a tile: the first waits for its loads, the last frees them. */
void kern_conv_blocks_products(const kern_conv_coder_t *c);

#endif
