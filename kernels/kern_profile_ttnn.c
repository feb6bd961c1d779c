/*
 * ttnn-like: matrix products as Tenstorrent's library maps them in its published measurements (its
 * matmul benchmark, two-dimensional multicast; docs/mapping.md).
 *
 * - Cores form the squarest grid there is; its rows split m, its columns n, in tiles of 32. What
 *   gets no tile stays idle.
 * - A core keeps one block of results until its K is done; a block that the accumulator cannot hold
 *   is halved both ways, again and again.
 * - K goes in as many steps as the grid has columns, each what one column's cores hold of the left
 *   operand; a step that does not fit twice beside the results is halved.
 * - Loads are ahead of products by one step; results have one buffer. The queue whose network
 *   suits reads of DRAM reads the right operand, the other one, whose network suits writes, reads
 *   the left operand and writes the results, in order.
 */
#include "kernels/kern_cost.h"
#include "kernels/kern_profile.h"

#define TILE      32
#define MAX_HALVE 6

static int64_t share(int64_t size, int64_t parts) {
    uint64_t part = kern_ceil_div((uint64_t)size, (uint64_t)parts);
    return (int64_t)kern_ceil_div(part, TILE) * TILE;
}

static uint32_t tiles(int64_t size, int64_t tile) {
    return (uint32_t)kern_ceil_div((uint64_t)size, (uint64_t)tile);
}

bool kern_profile_ttnn_gemm(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                            kern_gemm_plan_t *out_plan) {
    const int64_t *size = shape->size;
    uint32_t rows = 1;
    while ((rows + 1) * (rows + 1) <= machine->workers)
        rows++;
    uint32_t cols = machine->workers / rows;
    int64_t m = share(size[GEMM_M], rows), n = share(size[GEMM_N], cols);
    for (int cut = 0; cut <= MAX_HALVE; cut++) {
        kern_gemm_rule_t rule = {.order = KERN_GEMM_TILES,
                                 .m = share(m, 1 << cut),
                                 .n = share(n, 1 << cut),
                                 .b_grid = 1,
                                 .m_grid = tiles(size[GEMM_M], m),
                                 .n_grid = tiles(size[GEMM_N], n),
                                 .stream_buffers = 2,
                                 .panel_buffers = 1,
                                 .result_buffers = 1,
                                 .is_shared = true,
                                 .a_with_results = true};
        for (int half = 0; half <= MAX_HALVE; half++) {
            rule.k = share(size[GEMM_K], (int64_t)cols << half);
            if (kern_gemm_finish(machine, shape, &rule, out_plan)) return true;
        }
    }
    return false;
}
