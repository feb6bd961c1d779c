/* What a plan means: traffic against the compulsory minimum, products against the array's. */
#include "kernels/kern_conv_plan.h"
#include "kernels/kern_cost.h"

static kern_tiling_t tiling_of(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan) {
    uint64_t k = (uint64_t)kern_conv_positions(shape) * plan->axis[CONV_C].tile;
    return (kern_tiling_t){.order = plan->is_panel ? "weights" : "tiles",
                           .m = (uint32_t)kern_conv_pixels(plan),
                           .n = plan->axis[CONV_N].tile,
                           .k = (uint32_t)k,
                           .heads = 1,
                           .grid = {plan->grid[0], plan->grid[1]},
                           .buffers = plan->a_buffers,
                           .cycles = plan->cycles};
}

/* Rows or columns of the image that all tiles of the axis read together, borders left out. */
static uint64_t window_elems(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan,
                             int spatial) {
    kern_window_t window = kern_conv_window(shape, plan, spatial);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < plan->axis[spatial == CONV_ROWS ? CONV_H : CONV_W].tiles; i++) {
        int64_t first = i * window.step - window.pad, last = first + window.size;
        if (first < 0) first = 0;
        if (last > window.extent) last = window.extent;
        if (last > first) sum += (uint64_t)(last - first);
    }
    return sum;
}

/* Instances along an axis that have a tile of it. */
static uint64_t busy(const kern_axis_t *axis) {
    return axis->tiles < axis->grid ? axis->tiles : axis->grid;
}

/* Bytes that the program's patterns move between DRAM and SRAM, clipped tiles as clipped. */
static uint64_t moved_bytes(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan) {
    const kern_axis_t *axis = plan->axis;
    uint64_t groups = (uint64_t)shape->size[CONV_G], n = (uint64_t)shape->size[CONV_N],
             c = (uint64_t)shape->size[CONV_C], b = (uint64_t)shape->size[CONV_B];
    uint64_t image = groups * b * c * window_elems(shape, plan, CONV_ROWS) *
                     window_elems(shape, plan, CONV_COLS);
    uint64_t times = 1, parts = 1;
    for (uint32_t x = CONV_B; x <= CONV_W; x++) {
        times *= axis[x].tiles;
        parts *= busy(&axis[x]);
    }
    uint64_t weights = groups * n * c * (uint64_t)kern_conv_positions(shape);
    uint64_t results = groups * n * b * (uint64_t)(shape->size[CONV_H] * shape->size[CONV_W]);
    uint64_t bytes =
        image * vnpu_dtype_bytes(shape->in_dtype) * axis[CONV_N].tiles +
        weights * vnpu_dtype_bytes(shape->weight_dtype) * (plan->is_panel ? parts : times) +
        results * vnpu_dtype_bytes(shape->out_dtype);
    if (!shape->has_bias) return bytes;
    return bytes + groups * n * parts * vnpu_dtype_bytes(shape->bias_dtype);
}

/* Rows or columns of the image that some result reads. */
static uint64_t used_elems(const kern_conv_shape_t *shape, int spatial) {
    int64_t results = shape->size[spatial == CONV_ROWS ? CONV_H : CONV_W];
    int64_t reach = (shape->kernel[spatial] - 1) * shape->dilation[spatial] + 1;
    int64_t step = shape->stride[spatial],
            last = (results - 1) * step + reach - shape->pad[spatial];
    if (last > shape->in_size[spatial]) last = shape->in_size[spatial];
    if (reach < step && shape->pad[spatial] == 0) return (uint64_t)(results * reach);
    return last > 0 ? (uint64_t)last : 0;
}

static uint64_t compulsory_bytes(const kern_conv_shape_t *shape) {
    const int64_t *size = shape->size;
    uint64_t planes = (uint64_t)(size[CONV_G] * size[CONV_B]);
    uint64_t bytes =
        planes * (uint64_t)size[CONV_C] * used_elems(shape, CONV_ROWS) *
            used_elems(shape, CONV_COLS) * vnpu_dtype_bytes(shape->in_dtype) +
        (uint64_t)(size[CONV_G] * size[CONV_N] * size[CONV_C] * kern_conv_positions(shape)) *
            vnpu_dtype_bytes(shape->weight_dtype) +
        planes * (uint64_t)(size[CONV_N] * size[CONV_H] * size[CONV_W]) *
            vnpu_dtype_bytes(shape->out_dtype);
    if (!shape->has_bias) return bytes;
    return bytes + (uint64_t)(size[CONV_G] * size[CONV_N]) * vnpu_dtype_bytes(shape->bias_dtype);
}

/* A product per kernel position, or for as many as share a word. */
static uint64_t block_macs(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                           const kern_conv_plan_t *plan, uint64_t pixels, uint64_t channels,
                           uint64_t n) {
    uint64_t cols = (uint64_t)shape->kernel[CONV_COLS], sum = 0;
    for (uint64_t j = 0; j < cols; j += plan->pixels) {
        uint64_t packed = cols - j < plan->pixels ? cols - j : plan->pixels;
        sum += kern_cost_padded_macs(machine, pixels, packed * channels, n);
    }
    return (uint64_t)shape->kernel[CONV_ROWS] * sum;
}

/* One product per tile; whole tiles and the last ones have their own padding. */
static uint64_t padded_macs(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                            const kern_conv_plan_t *plan) {
    enum { PARTS = CONV_W - CONV_N + 2 }; /* n, b, oh, ow, c */
    static const uint32_t axes[PARTS] = {CONV_N, CONV_B, CONV_H, CONV_W, CONV_C};
    uint64_t part[PARTS][2], count[PARTS][2], sum = 0;
    for (int x = 0; x < PARTS; x++) {
        uint64_t size = (uint64_t)shape->size[axes[x]], tile = plan->axis[axes[x]].tile;
        part[x][0] = tile, count[x][0] = size / tile;
        part[x][1] = size % tile, count[x][1] = size % tile > 0;
    }
    bool is_turned = kern_conv_is_turned(shape);
    for (uint32_t i = 0; i < 1u << PARTS; i++) {
        uint64_t value[PARTS], times = 1;
        for (int x = 0; x < PARTS; x++) {
            value[x] = part[x][i >> x & 1u];
            times *= count[x][i >> x & 1u];
        }
        if (times == 0) continue;
        uint64_t pixels = value[1] * value[2] * value[3],
                 k = value[4] * (uint64_t)kern_conv_positions(shape);
        if (plan->block > 0) {
            sum += times * block_macs(machine, shape, plan, pixels, value[4], value[0]);
            continue;
        }
        sum += times * (is_turned ? kern_cost_padded_macs(machine, value[0], k, pixels)
                                  : kern_cost_padded_macs(machine, pixels, k, value[0]));
    }
    return sum * (uint64_t)shape->size[CONV_G];
}

void kern_conv_describe(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                        const kern_conv_plan_t *plan, const kern_conv_plan_t *next,
                        kern_mapping_t *out_mapping) {
    const int64_t *size = shape->size;
    *out_mapping = (kern_mapping_t){.family = "conv",
                                    .batch = size[CONV_G] * size[CONV_B],
                                    .m = size[CONV_H] * size[CONV_W],
                                    .n = size[CONV_N],
                                    .k = size[CONV_C] * kern_conv_positions(shape),
                                    .chosen = tiling_of(shape, plan),
                                    .dram_bytes = moved_bytes(shape, plan),
                                    .compulsory_bytes = compulsory_bytes(shape),
                                    .padded_macs = padded_macs(machine, shape, plan)};
    out_mapping->useful_macs =
        (uint64_t)(out_mapping->batch * out_mapping->m * out_mapping->n * out_mapping->k);
    if (next) out_mapping->next = tiling_of(shape, next);
}
