/*
 * Tiling of a convolution: out[g][b][oh][ow][n] = sum over c, kh, kw of
 * in[g][b][oh * stride + kh * dilation - pad][...][c] * weight[g][n][c][kh][kw], as products of the
 * matrix unit without a copy of the windows in memory: a tile of the image with its border lies in
 * the scratchpad, and the unit reads it by a pattern (oh, ow | kh, kw, c).
 *
 * Loops are g, n, b, oh, ow, c from the outside in, or, of a rule, n inside the pixels. The weights
 * of one n tile are kept for all pixels (`is_panel`), or loaded with the image, tile by tile. The
 * operand that stays in the array is the weights; where the result's columns are its contiguous
 * direction (torch's NCHW), both operands change places (`is_turned`), so that neither image nor
 * result is transposed on the way.
 *
 * Order of the sum (docs/numerics.md): tiles of c; inside a tile (c, kh, kw), or (kh, kw, c) when
 * channels are the image's contiguous direction; with blocks the rest of c before whole blocks.
 */
#ifndef KERN_CONV_PLAN_H
#define KERN_CONV_PLAN_H

#include "kernels/kern.h"
#include "kernels/kern_nest.h"
#include "kernels/kern_plan.h"

enum { CONV_G = 0, CONV_N, CONV_B, CONV_H, CONV_W, CONV_C, CONV_AXES }; /* in loop order */
enum { CONV_ROWS = 0, CONV_COLS = 1 };                                  /* spatial dimensions */

/* A call reduced to what its program hangs on. Strides in elements, by axis; axes that an operand
 * does not have: 0. */
typedef struct kern_conv_shape {
    int64_t size[CONV_AXES]; /* N: of one group, H, W: of the result, C: of one group */
    int64_t in_size[2], kernel[2], stride[2], dilation[2], pad[2];
    int64_t in[CONV_AXES], out[CONV_AXES];
    int64_t weight[CONV_AXES], weight_kernel[2];
    int64_t bias[CONV_AXES];
    vnpu_dtype_t in_dtype, weight_dtype, out_dtype, bias_dtype;
    bool has_bias, is_flipped;
    bool keeps_rows; /* transfers have the rows of the tile, also where these follow each other */
    bool is_direct;  /* results go from the accumulator to DRAM, without the vector unit */
    bool loads_bias; /* and the bias to it before the products, where a plan can */
    kern_activation_t activation;
} kern_conv_shape_t;

typedef struct kern_conv_plan {
    kern_axis_t axis[CONV_AXES];
    uint32_t grid[2];
    bool is_panel;
    uint32_t a_buffers, panel_buffers, tile_buffers;
    uint8_t a_level, panel_level, tile_level; /* loops that turn them */
    uint32_t
        bias_block;    /* > 0: the bias is loaded to the accumulator, so many channels at a time */
    bool rotates_nest; /* buffers turn with the iterations of all loops: no empty rounds */
    bool has_whole_steps; /* windows of the image end where the next one begins */
    bool has_inner_n;     /* loops are g, b, oh, ow, n, c */
    /* Tiles in blocks (kern_conv_blocks.c). block > 0: channels in blocks of so many, a word of the
     * scratchpad each; one product per kernel position. pixels > 1: so many neighbouring columns of
     * the image share a word, and so many positions a product. */
    uint32_t block, pixels;
    uint64_t stream_bytes; /* from one buffer of image and weights to the next, 64 bytes aligned */
    uint64_t cycles;       /* what the closed form says */
} kern_conv_plan_t;

/* What a compiler's rule says of a plan, on one core; kern_conv_finish derives the rest. */
typedef struct kern_conv_rule {
    int64_t tile[CONV_AXES]; /* elements; more than there are means all */
    bool is_panel;
    uint32_t stream_buffers, panel_buffers; /* of the image; of weights that are kept */
    bool rotates_nest, has_whole_steps;
    bool has_inner_n; /* with blocks */
    bool has_blocks;  /* where layouts, types and results allow: see kern_conv_can_block */
} kern_conv_rule_t;
/* False: the plan does not fit the memories, or has more loops and dimensions than the hardware. */
bool kern_conv_finish(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                      const kern_conv_rule_t *rule, kern_conv_plan_t *out_plan);

/* The result's columns, not its channels, are its contiguous direction. */
bool kern_conv_is_turned(const kern_conv_shape_t *shape);
/* Channels are the image's contiguous direction. */
bool kern_conv_is_channels_last(const kern_conv_shape_t *shape);
/* Elements of an image tile along rows or columns, and what of the image they are. */
kern_window_t kern_conv_window(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan,
                               int spatial);
/* Results of one tile: b x oh x ow. */
uint64_t kern_conv_pixels(const kern_conv_plan_t *plan);
/* Products per result and channel of a tile: kh * kw. */
int64_t kern_conv_positions(const kern_conv_shape_t *shape);
/* Whether a plan's tiles can lie in blocks: channels are the contiguous direction of image, weights
 * and result, the results go to DRAM without the vector unit, and the array is square. */
bool kern_conv_can_block(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                         const kern_conv_plan_t *plan);
/* Results go from the accumulator to DRAM. */
bool kern_conv_is_direct(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan);
/* Sums that pass between epilogue instructions need a tile of their own. */
bool kern_conv_needs_temp(const kern_conv_shape_t *shape);

/* Pure function of machine and shape (sizes >= 1): the best `most` plans that differ in more than
 * numbers of buffers, cheapest first; where the machine's profile has a rule (kern_profile.h), its
 * plan comes before them. Returns how many there are; 0: not even the smallest tile fits. */
uint32_t kern_conv_rank(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                        kern_conv_plan_t *out_plans, uint32_t most);
/* The program of a plan (kern_conv_code.c). */
void kern_conv_generate(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan,
                        kern_builder_t *builder);
/* Whether the program's patterns have no more than the hardware's dimensions and clips. */
bool kern_conv_is_expressible(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan);
/* What a plan means for traffic and array; `next` may be NULL (kern_conv_mapping.c). */
void kern_conv_describe(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                        const kern_conv_plan_t *plan, const kern_conv_plan_t *next,
                        kern_mapping_t *out_mapping);

#endif
