/* What a plan means: traffic against the compulsory minimum, products against the array's. */
#include "kernels/kern_cost.h"
#include "kernels/kern_gemm_plan.h"

static kern_tiling_t tiling_of(const kern_gemm_plan_t *plan) {
    return (kern_tiling_t){.order = plan->is_a_fixed  ? "rows"
                                    : plan->is_panel  ? "weights"
                                    : plan->is_shared ? "shared tiles"
                                                      : "tiles",
                           .m = plan->axis[GEMM_M].tile,
                           .n = plan->axis[GEMM_N].tile,
                           .k = plan->axis[GEMM_K].tile,
                           .heads = 1,
                           .grid = {plan->grid[0], plan->grid[1]},
                           .buffers = plan->a_buffers,
                           .cycles = plan->cycles};
}

/* Instances along an axis that have a tile of it. */
static uint64_t busy(const kern_axis_t *axis) {
    return axis->tiles < axis->grid ? axis->tiles : axis->grid;
}

/* Bytes that the program's patterns move between DRAM and SRAM, clipped tiles as clipped. */
static uint64_t moved_bytes(const kern_gemm_shape_t *shape, const kern_gemm_plan_t *plan) {
    const kern_axis_t *axis = plan->axis;
    uint64_t b = (uint64_t)shape->size[GEMM_B], m = (uint64_t)shape->size[GEMM_M],
             n = (uint64_t)shape->size[GEMM_N], k = (uint64_t)shape->size[GEMM_K];
    uint64_t a_times = plan->is_a_fixed ? busy(&axis[GEMM_N]) : axis[GEMM_N].tiles;
    uint64_t b_times = plan->is_panel ? busy(&axis[GEMM_M]) : axis[GEMM_M].tiles;
    if (plan->is_shared) { /* the reader's tiles */
        a_times = kern_ceil_div(axis[GEMM_N].tiles, axis[GEMM_N].grid);
        b_times = kern_ceil_div(axis[GEMM_M].tiles, axis[GEMM_M].grid);
    }
    uint64_t bytes = vnpu_dtype_span(shape->a_dtype, b * m * k) * a_times +
                     vnpu_dtype_span(shape->b_dtype, b * (k + kern_gemm_rest(plan)) * n) * b_times +
                     vnpu_dtype_span(shape->out_dtype, b * m * n);
    if (!shape->has_c) return bytes;
    uint64_t rows = kern_gemm_has_row(shape) ? busy(&axis[GEMM_M]) : m;
    return bytes + vnpu_dtype_span(shape->c_dtype, b * rows * n);
}

/* Elements of an operand that differ: a stride of 0 repeats them. */
static uint64_t elements(const kern_gemm_shape_t *shape, const int64_t stride[3], uint32_t rows,
                         uint32_t cols) {
    const uint32_t axis[3] = {GEMM_B, rows, cols};
    uint64_t count = 1;
    for (int i = 0; i < 3; i++)
        count *= stride[i] != 0 ? (uint64_t)shape->size[axis[i]] : 1;
    return count;
}

static uint64_t compulsory_bytes(const kern_gemm_shape_t *shape) {
    uint64_t bytes = vnpu_dtype_span(shape->a_dtype, elements(shape, shape->a, GEMM_M, GEMM_K)) +
                     vnpu_dtype_span(shape->b_dtype, elements(shape, shape->b, GEMM_K, GEMM_N)) +
                     vnpu_dtype_span(shape->out_dtype, elements(shape, shape->out, GEMM_M, GEMM_N));
    if (!shape->has_c) return bytes;
    return bytes + vnpu_dtype_span(shape->c_dtype, elements(shape, shape->c, GEMM_M, GEMM_N));
}

/* One product per tile; whole tiles and the last ones have their own padding. */
static uint64_t padded_macs(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                            const kern_gemm_plan_t *plan) {
    uint64_t part[3][2], count[3][2], sum = 0;
    static const uint32_t axes[3] = {GEMM_M, GEMM_K, GEMM_N};
    for (int x = 0; x < 3; x++) {
        uint64_t size = (uint64_t)shape->size[axes[x]], tile = plan->axis[axes[x]].tile;
        part[x][0] = tile, count[x][0] = size / tile;
        part[x][1] = size % tile, count[x][1] = size % tile > 0;
    }
    for (int i = 0; i < 8; i++) {
        int m = i & 1, k = i >> 1 & 1, n = i >> 2;
        sum += count[0][m] * count[1][k] * count[2][n] *
               kern_cost_padded_macs(machine, part[0][m], part[1][k], part[2][n]);
    }
    return sum * (uint64_t)shape->size[GEMM_B];
}

void kern_gemm_describe(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                        const kern_gemm_plan_t *plan, const kern_gemm_plan_t *next,
                        kern_mapping_t *out_mapping) {
    const int64_t *size = shape->size;
    *out_mapping = (kern_mapping_t){.family = "gemm",
                                    .batch = size[GEMM_B],
                                    .m = size[GEMM_M],
                                    .n = size[GEMM_N],
                                    .k = size[GEMM_K],
                                    .chosen = tiling_of(plan),
                                    .dram_bytes = moved_bytes(shape, plan),
                                    .compulsory_bytes = compulsory_bytes(shape),
                                    .padded_macs = padded_macs(machine, shape, plan)};
    out_mapping->useful_macs = (uint64_t)size[GEMM_B] * (uint64_t)size[GEMM_M] *
                               (uint64_t)size[GEMM_N] * (uint64_t)size[GEMM_K];
    if (next) out_mapping->next = tiling_of(next);
}
