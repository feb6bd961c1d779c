/*
 * Tiling of a matrix product: out[b][m][n] = sum over k of a[b][m][k] * b[b][k][n].
 *
 * Loops are b, n, m, k from the outside in. Weights (b) are stationary: a panel of all K for one n
 * tile is loaded once and kept for every m (`is_panel`), or, when it does not fit, tile by tile
 * with the rows. Where the accumulator holds all rows it is the other way round: they stay
 * (`is_a_fixed`) and the weights stream past. Candidates are ranked by closed form; where the best
 * few are close, kern_gemm.c lets the simulator decide (kern_plan.h).
 */
#ifndef KERN_GEMM_PLAN_H
#define KERN_GEMM_PLAN_H

#include "kernels/kern.h"
#include "kernels/kern_nest.h"
#include "kernels/kern_plan.h"

enum { GEMM_B = 0, GEMM_N, GEMM_M, GEMM_K, GEMM_AXES }; /* in loop order, but for rows_outside */

/* A call reduced to what its program hangs on. Strides in elements, in the order of the names. */
typedef struct kern_gemm_shape {
    int64_t size[GEMM_AXES];
    int64_t a[3];   /* b, m, k */
    int64_t b[3];   /* b, k, n */
    int64_t out[3]; /* b, m, n */
    int64_t c[3];   /* b, m, n */
    vnpu_dtype_t a_dtype, b_dtype, out_dtype, c_dtype;
    bool has_c, has_alpha, has_beta;
    bool keeps_rows; /* transfers have the rows of the tile, also where these follow each other */
    bool is_direct;  /* results go from the accumulator to DRAM: nothing but a cast on the way */
    kern_activation_t activation;
} kern_gemm_shape_t;

typedef struct kern_gemm_plan {
    kern_axis_t axis[GEMM_AXES];
    uint32_t grid[2];
    bool is_panel;
    bool is_a_fixed; /* one tile of rows: all of K is loaded once per batch, only weights stream */
    bool is_a_whole; /* such rows come in one transfer before the weights; else a k tile at a time,
                        with the first of them */
    uint32_t fixed_buffers;
    uint32_t a_buffers, panel_buffers, tile_buffers;
    uint8_t a_level, panel_level, tile_level; /* loops that turn them */
    bool rotates_nest;   /* buffers turn with the iterations of all loops: no empty rounds */
    bool rows_outside;   /* the loop over m is outside that over n */
    bool a_with_results; /* shared: the queue that stores results reads a, the other one b */
    bool is_shared; /* order TILES: a tile of rows is read once for all instances along grid axis 1,
                       of weights along axis 0 */
    uint32_t row_block;      /* the array multiplies whole blocks of so many rows; 0 means 1 */
    uint32_t load_k, step_k; /* elements of K of a piece of a, of b and a product; 0: whole tiles */
    bool has_whole_steps;    /* b's last step takes the traffic of the others */
    uint32_t part_bytes; /* of scratchpad from one buffer of both operands to the next; 0: packed */
    uint32_t part_m, store_n; /* rows, columns of a transfer of results to DRAM; 0: all */
    bool holds_stored; /* buffers of operands are free when the results of the tile are in DRAM */
    uint64_t cycles;   /* what the closed form says */
} kern_gemm_plan_t;

/* What stays while the other operand streams past. */
typedef enum kern_gemm_order {
    KERN_GEMM_PANEL, /* weights: all of K for one n tile */
    KERN_GEMM_TILES, /* nothing: a tile of each operand per product */
    KERN_GEMM_ROWS   /* rows: all of K; one m tile per instance */
} kern_gemm_order_t;

/* What a compiler's rule says of a plan; kern_gemm_finish derives the rest. */
typedef struct kern_gemm_rule {
    kern_gemm_order_t order;
    int64_t m, n, k;         /* elements of a tile; more than there are means all */
    uint32_t b_grid, m_grid; /* instances along grid axis 0: one of them is 1 */
    uint32_t n_grid;         /* along grid axis 1 */
    uint32_t stream_buffers; /* of the operand that streams, 1 to 4 */
    uint32_t panel_buffers;  /* of the weights in order PANEL */
    uint32_t result_buffers; /* of results, in accumulator and scratchpad */
    uint32_t row_block;      /* rows that are multiplied together; m is a multiple; 0 means 1 */
    bool rotates_nest;       /* buffers turn with the iterations of all loops */
    bool rows_outside;       /* order TILES: the loop over m is outside that over n */
    /* Order TILES, not shared: of a tile, a is loaded in pieces of load_k elements of K, b in steps
     * of step_k, of which load_k is a multiple, and multiplied step by step. The first step of b
     * comes first, then a's piece, then b's other steps of it; from then on a's piece comes before
     * b's steps. Multiples of both where a tile would have more than KERN_GEMM_STEPS. 0: whole. */
    uint32_t load_k, step_k;
    /* Loads of b do not end where K does: of its last step as many rows are read as of the others.
     * What lies beyond the operand is not ours to read: rows before it stand for that. */
    bool has_whole_steps;
    /* Order TILES: the scratchpad has a part for each stream buffer; a buffer of a begins where its
     * part does, that of b ends where it ends. Packed where they do not fit so. */
    bool has_ends;
    /* Order TILES: buffers of operands are loaded again when the results of their tile are stored,
     * but for the last transfer, not when it is multiplied; where results go straight to DRAM, by a
     * queue of their own. */
    bool holds_stored;
    /* Results that go straight to DRAM are stored so many rows (a multiple of row_block) and
     * columns at a time, multiples where a tile would have more than KERN_GEMM_PARTS of either;
     * columns after columns. With steps of K the first step is loaded and multiplied by these rows,
     * the last one multiplied by the parts of the results: products begin with the first rows,
     * stores with the first results. The grid splits neither. 0: all of the tile. */
    uint32_t part_m, store_n;
    bool a_with_results; /* shared: of two queues the one that stores results reads a, the other one
                            b */
    bool is_shared; /* order TILES: tiles are read once for rows and columns of instances, where the
                       machine can */
} kern_gemm_rule_t;
/* Instructions are emitted for each of them. */
#define KERN_GEMM_STEPS 256u
#define KERN_GEMM_PARTS 16u
/* False: the plan does not fit the memories, or an axis has fewer tiles than instances. */
bool kern_gemm_finish(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                      const kern_gemm_rule_t *rule, kern_gemm_plan_t *out_plan);

/* Tiles that one instance reads for all along a grid axis (kern_gemm_share.c). Each receiver has a
 * semaphore of its own at the reader, so that a fast one does not speak for a slow one. */
#define KERN_SHARE_MOST 48u
typedef struct kern_share {
    uint32_t grid[2];
    uint16_t full[2]; /* a tile has come along axis 0, along axis 1: from two readers, one may be
                         ahead */
    uint16_t told[KERN_SHARE_MOST]; /* of the instances along axis 0, then along axis 1 */
} kern_share_t;
/* False: not on such a machine, or the grid has too many coordinates. */
bool kern_share_is_possible(const vnpu_machine_t *machine, const uint32_t grid[2]);
void kern_share_init(kern_builder_t *builder, const uint32_t grid[2], kern_share_t *out_share);
/* Tells the reader along `axis` that this instance's buffer is free. queue: the one of the axis's
 * loads. */
void kern_share_tell(kern_builder_t *builder, kern_queue_t queue, const kern_share_t *share,
                     uint32_t axis);
/* Before a load: its reader waits for all along `axis`. */
void kern_share_wait(kern_builder_t *builder, kern_queue_t queue, const kern_share_t *share,
                     uint32_t axis);
/* The load itself: by the reader alone, to all along `axis`. */
void kern_share_send(const kern_share_t *share, uint32_t axis, vnpu_insn_t *load);

/* Pure function of machine and shape (sizes >= 1). False: not even the smallest tile fits. */
bool kern_gemm_choose(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                      kern_gemm_plan_t *out_plan);
/* The same, the best `most` >= 1 plans that differ in more than numbers of buffers, cheapest first;
 * where the machine's profile has a rule for products (kern_profile.h), its plan comes before them.
 * Returns how many there are. The first is what kern_gemm_choose gives. */
uint32_t kern_gemm_rank(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                        kern_gemm_plan_t *out_plans, uint32_t most);
/* What a plan means for traffic and array; `next` may be NULL (kern_gemm_mapping.c). */
void kern_gemm_describe(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                        const kern_gemm_plan_t *plan, const kern_gemm_plan_t *next,
                        kern_mapping_t *out_mapping);
/* Rows of a tile as the array sees them, and as buffers have room for. */
uint32_t kern_gemm_rows(const kern_gemm_plan_t *plan);
/* Steps of K of a tile of both operands, 1 or more; which is the last one there is of the last
 * tile; the products of a step, and of all. */
uint32_t kern_gemm_steps(const kern_gemm_plan_t *plan);
uint32_t kern_gemm_last_step(const kern_gemm_plan_t *plan);
uint32_t kern_gemm_step_products(const kern_gemm_plan_t *plan, uint32_t step);
uint32_t kern_gemm_products(const kern_gemm_plan_t *plan);
/* Parts of the rows of a tile: 1 or more. */
uint32_t kern_gemm_row_parts(const kern_gemm_plan_t *plan);
/* Rows of b that a tile's buffer has room for: whole steps. */
uint32_t kern_gemm_depth(const kern_gemm_plan_t *plan);
/* Rows of b that are read again, because its last step is read whole. */
uint32_t kern_gemm_rest(const kern_gemm_plan_t *plan);
/* Transfers of a tile of results that goes straight to DRAM: 1 or more. */
uint32_t kern_gemm_stores(const kern_gemm_plan_t *plan);
/* f32 values that pass between epilogue instructions need a tile of their own. */
bool kern_gemm_needs_temp(const kern_gemm_shape_t *shape);
/* c is one row for all m: loaded once per n tile. */
bool kern_gemm_has_row(const kern_gemm_shape_t *shape);
/* The program of a plan (kern_gemm_code.c). */
void kern_gemm_generate(const kern_gemm_shape_t *shape, const kern_gemm_plan_t *plan,
                        kern_builder_t *builder);
/* Function of the vector unit. */
uint8_t kern_gemm_activation(kern_activation_t activation);
uint64_t kern_gemm_sram_bytes(const kern_gemm_shape_t *shape, const kern_gemm_plan_t *plan);

#endif
