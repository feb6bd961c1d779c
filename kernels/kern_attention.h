/*
 * Attention, inside: softmax(scale * q k^T + mask) v for [B, H, S, D] operands.
 *
 * Two programs. `block`: all keys of a head fit a tile; a unit is a group of heads of one batch and
 * a block of queries, loaded at once, the heads walked by a hardware loop. `stream`: keys come in
 * blocks, with running maximum and sum. In both, a body works on several lanes (heads, or parts of
 * the queries): the array multiplies one lane while the vector unit normalises another.
 */
#ifndef KERN_ATTENTION_H
#define KERN_ATTENTION_H

#include "kernels/kern_internal.h"
#include "kernels/kern_nest.h"

#define ATTENTION_LANES 4u

enum {
    ATT_B = 0,
    ATT_H,
    ATT_S,
    ATT_D
}; /* strides of operands; mask and logsumexp use what they have */

typedef struct kern_attention_shape {
    int64_t batch, heads, kv_heads, queries, keys, depth;
    int64_t q[4], k[4], v[4], out[4], mask[4], lse[4];
    vnpu_dtype_t dtype, out_dtype, mask_dtype;
    bool has_mask, has_lse, is_causal;
    bool is_direct; /* no mask, scale > 0: the maximum can be taken before scaling */
} kern_attention_shape_t;

/* Arguments, in order. The constants are scalars so that the vector unit can read them. */
enum {
    ATT_ARG_OUT = 0,
    ATT_ARG_Q,
    ATT_ARG_K,
    ATT_ARG_V,
    ATT_ARG_MASK,
    ATT_ARG_LSE,
    ATT_ARG_SCALE,
    ATT_ARG_NEG_INF,
    ATT_ARG_LOWEST,
    ATT_ARG_TINY,
    ATT_ARG_ZERO,
    ATT_ARG_COUNT
};

/* One lane's tiles as the vector unit sees them; pattern indices. */
typedef struct kern_attention_lane {
    uint16_t scores, work, weights;   /* [q][keys]: accumulator, f32, what PV multiplies */
    uint16_t mask, outside;           /* [q][keys]: added; 0/1 for keys above the diagonal */
    uint16_t maximum, sum;            /* [q] */
    uint16_t maximum_b, sum_b;        /* the same, broadcast along the tile they are used with */
    uint16_t constant[ATT_ARG_COUNT]; /* scalars over [q][keys] */
    uint16_t row_constant[ATT_ARG_COUNT]; /* scalars over [q] */
} kern_attention_lane_t;

/* The block program. False: it does not fit (out_plan is then undefined). */
typedef struct kern_attention_block {
    kern_nest_t nest; /* batch, head groups, query blocks */
    uint32_t group, lanes;
    uint64_t cycles;
    kern_tiling_t next; /* next best; order NULL: there is none */
} kern_attention_block_t;
bool kern_attention_block_plan(const vnpu_machine_t *machine, const kern_attention_shape_t *shape,
                               kern_attention_block_t *out_plan);
void kern_attention_block_generate(const kern_attention_shape_t *shape,
                                   const kern_attention_block_t *plan, kern_builder_t *builder);

/* The streaming program. */
typedef struct kern_attention_stream {
    kern_axis_t batch, kv_head, repeat, query, key;
    uint32_t grid[2], lanes, key_buffers;
    int64_t lane_queries; /* queries that one lane owns */
    uint64_t cycles;
    kern_tiling_t next; /* next best; order NULL: there is none */
} kern_attention_stream_t;
bool kern_attention_stream_plan(const vnpu_machine_t *machine, const kern_attention_shape_t *shape,
                                kern_attention_stream_t *out_plan);
void kern_attention_stream_generate(const kern_attention_shape_t *shape,
                                    const kern_attention_stream_t *plan, kern_builder_t *builder);

/* What the plans mean (kern_attention_mapping.c). */
kern_tiling_t kern_attention_block_tiling(const kern_attention_shape_t *shape,
                                          const kern_attention_block_t *plan);
kern_tiling_t kern_attention_stream_tiling(const kern_attention_shape_t *shape,
                                           const kern_attention_stream_t *plan);
void kern_attention_block_describe(const vnpu_machine_t *machine,
                                   const kern_attention_shape_t *shape,
                                   const kern_attention_block_t *plan, kern_mapping_t *out_mapping);
void kern_attention_stream_describe(const vnpu_machine_t *machine,
                                    const kern_attention_shape_t *shape,
                                    const kern_attention_stream_t *plan,
                                    kern_mapping_t *out_mapping);

/* ---- shared pieces ---- */

/* Declares the arguments in the order above. */
void kern_attention_args(kern_builder_t *builder, const kern_attention_shape_t *shape);
vnpu_insn_t *kern_attention_unary(kern_builder_t *builder, uint8_t func, uint16_t dst,
                                  uint16_t src);
vnpu_insn_t *kern_attention_binary(kern_builder_t *builder, uint8_t func, uint16_t dst, uint16_t a,
                                   uint16_t b);
/* work = scale * scores (+ mask), keys above the diagonal -inf. Returns the instruction that reads
 * the scores. */
vnpu_insn_t *kern_attention_scale(kern_builder_t *builder, const kern_attention_shape_t *shape,
                                  const kern_attention_lane_t *lane);
/* maximum = row maximum of src. */
vnpu_insn_t *kern_attention_maximum(kern_builder_t *builder, uint16_t dst, uint16_t src);

/* A move between DRAM and a tile over up to five terms, in any order; they are walked by descending
 * DRAM stride. */
typedef struct kern_attention_move {
    kern_queue_t queue;
    uint8_t arg;
    vnpu_dtype_t dtype;
    uint32_t count;
    const kern_axis_t *axis[VNPU_MAX_DIMS];
    int64_t far[VNPU_MAX_DIMS], near[VNPU_MAX_DIMS];
    int64_t far_base; /* elements */
    uint32_t sram;
    uint8_t level;
    uint32_t buffers;
    uint64_t pitch;
} kern_attention_move_t;
vnpu_insn_t *kern_attention_emit_move(kern_builder_t *builder, const kern_attention_move_t *move);

#endif
