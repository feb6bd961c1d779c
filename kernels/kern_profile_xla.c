/*
 * xla-like: matrix products as XLA emits them for a TPU, as far as times of products on a TPU v4
 * tell (docs/mapping.md).
 *
 * - K goes in one step while a row of an operand has up to STEP_BYTES. The cores split the longer
 *   of m and n (n only in whole widths of the array); what the split deals to a core stays in its
 *   scratchpad, the other operand comes in tiles of EDGE rows or columns. With one DMA queue a core
 *   loads, multiplies and stores in turn.
 * - A longer K goes in steps of EDGE. The cores split m, into tiles of at most ROWS x EDGE results;
 *   the loads of a step run ahead of the products.
 * - Results have one buffer; two where a batch is walked.
 * A tile that does not fit is halved; where no tile fits fewer cores share the product.
 */
#include "kernels/kern_cost.h"
#include "kernels/kern_profile.h"

#define EDGE       512
#define ROWS       2048
#define STEP_BYTES 4096
#define UNIT       8 /* rows of a vector register */

/* What one of `parts` equal ones has, in whole units. */
static int64_t share(int64_t size, uint32_t parts, uint64_t unit) {
    uint64_t part = kern_ceil_div((uint64_t)size, parts);
    return (int64_t)(kern_ceil_div(part, unit) * unit);
}

/* Halves one edge of the tile until the plan fits. */
static bool finish(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                   kern_gemm_rule_t *rule, int64_t *edge, kern_gemm_plan_t *out_plan) {
    for (; *edge >= UNIT; *edge /= 2) {
        if (kern_gemm_finish(machine, shape, rule, out_plan)) return true;
    }
    return false;
}

static bool one_step(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape, uint32_t cores,
                     kern_gemm_plan_t *out_plan) {
    const int64_t *size = shape->size;
    int64_t whole = (int64_t)cores * machine->matrix_cols;
    bool is_m = size[GEMM_M] >= size[GEMM_N] || size[GEMM_N] % whole != 0;
    kern_gemm_rule_t rule = {.order = is_m ? KERN_GEMM_ROWS : KERN_GEMM_PANEL,
                             .m = is_m ? share(size[GEMM_M], cores, UNIT) : EDGE,
                             .n = is_m ? EDGE : share(size[GEMM_N], cores, machine->matrix_cols),
                             .k = size[GEMM_K],
                             .b_grid = 1,
                             .m_grid = is_m ? cores : 1,
                             .n_grid = is_m ? 1 : cores,
                             .stream_buffers = 2,
                             .panel_buffers = 1,
                             .result_buffers = size[GEMM_B] > 1 ? 2 : 1};
    return finish(machine, shape, &rule, is_m ? &rule.n : &rule.m, out_plan);
}

static bool many_steps(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                       uint32_t cores, kern_gemm_plan_t *out_plan) {
    int64_t rows = share(shape->size[GEMM_M], cores, UNIT);
    uint32_t tiles = (uint32_t)kern_ceil_div((uint64_t)rows, ROWS);
    kern_gemm_rule_t rule = {.order = KERN_GEMM_TILES,
                             .m = share(rows, tiles, UNIT),
                             .n = EDGE,
                             .k = EDGE,
                             .b_grid = 1,
                             .m_grid = cores,
                             .n_grid = 1,
                             .stream_buffers = 2,
                             .panel_buffers = 1,
                             .result_buffers = 1};
    return finish(machine, shape, &rule, &rule.m, out_plan);
}

bool kern_profile_xla_gemm(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                           kern_gemm_plan_t *out_plan) {
    int64_t row_bytes = shape->size[GEMM_K] * vnpu_dtype_bytes(shape->a_dtype);
    for (uint32_t cores = machine->workers; cores >= 1; cores--) {
        bool is_done = row_bytes > STEP_BYTES ? many_steps(machine, shape, cores, out_plan)
                                              : one_step(machine, shape, cores, out_plan);
        if (is_done) return true;
    }
    return false;
}
