#include "kernels/kern_conv_plan.h"

#include "kernels/kern_cost.h"
#include "kernels/kern_internal.h"
#include "kernels/kern_profile.h"

#define MAX_PARTS       16u
#define MAX_SPANS       40u
#define MM_ISSUE_CYCLES 12u   /* assumption: semaphore hand-over that a short MM does not hide */
#define MOST_ROWS       4096u /* of a product: pixels, or results of a row tile */
#define MOST_COLS       1024u

static uint64_t max64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}
static uint64_t min64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}
static uint32_t elem(vnpu_dtype_t dtype) {
    return vnpu_dtype_bytes(dtype);
}

/* ---- what follows from shape and plan ---- */

/* Least stride along which the operand has more than one element. */
static int64_t least(int64_t a, int64_t b) {
    if (a == 0) return b;
    return b == 0 || a < b ? a : b;
}

bool kern_conv_is_turned(const kern_conv_shape_t *shape) {
    const int64_t *s = shape->out;
    int64_t pixel = least(s[CONV_W], least(s[CONV_H], s[CONV_B]));
    return s[CONV_N] > pixel && pixel != 0;
}

bool kern_conv_is_channels_last(const kern_conv_shape_t *shape) {
    const int64_t *s = shape->in;
    int64_t pixel = least(s[CONV_W], s[CONV_H]);
    return s[CONV_C] != 0 && (pixel == 0 || s[CONV_C] < pixel);
}

int64_t kern_conv_positions(const kern_conv_shape_t *shape) {
    return shape->kernel[CONV_ROWS] * shape->kernel[CONV_COLS];
}

kern_window_t kern_conv_window(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan,
                               int spatial) {
    int64_t tile = plan->axis[spatial == CONV_ROWS ? CONV_H : CONV_W].tile;
    int64_t reach = (shape->kernel[spatial] - 1) * shape->dilation[spatial] + 1;
    if (plan->has_whole_steps) reach += shape->stride[spatial] - 1;
    return (kern_window_t){.size = (tile - 1) * shape->stride[spatial] + reach,
                           .step = tile * shape->stride[spatial],
                           .extent = shape->in_size[spatial],
                           .pad = shape->pad[spatial]};
}

uint64_t kern_conv_pixels(const kern_conv_plan_t *plan) {
    return (uint64_t)plan->axis[CONV_B].tile * plan->axis[CONV_H].tile * plan->axis[CONV_W].tile;
}

bool kern_conv_needs_temp(const kern_conv_shape_t *shape) {
    bool two_steps = shape->has_bias && shape->activation != KERN_ACT_NONE;
    vnpu_dtype_t sums = kern_dtype_is_float(shape->in_dtype) ? VNPU_F32 : VNPU_I32;
    return two_steps && shape->out_dtype != sums;
}

/* Elements that a tile of the axis takes, whole blocks where there are blocks. */
static uint64_t stored(const kern_conv_plan_t *plan, uint32_t x) {
    uint64_t tile = plan->axis[x].tile;
    return plan->block > 0 ? kern_ceil_div(tile, plan->block) * plan->block : tile;
}

static uint64_t image_elems(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan) {
    uint64_t elems = (uint64_t)(kern_conv_window(shape, plan, CONV_ROWS).size *
                                kern_conv_window(shape, plan, CONV_COLS).size) *
                     plan->axis[CONV_B].tile * stored(plan, CONV_C);
    return plan->pixels > 1 ? elems + (uint64_t)(plan->pixels - 1) * plan->block : elems;
}

static uint64_t chunk_elems(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan) {
    return (uint64_t)kern_conv_positions(shape) * plan->axis[CONV_C].tile * stored(plan, CONV_N);
}

static uint64_t tile_elems(const kern_conv_plan_t *plan) {
    return kern_conv_pixels(plan) * stored(plan, CONV_N);
}

static uint64_t sram_bytes(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan) {
    uint64_t weights = chunk_elems(shape, plan) * elem(shape->weight_dtype);
    if (plan->is_panel) weights *= plan->axis[CONV_C].trips;
    uint32_t weight_buffers = plan->is_panel ? plan->panel_buffers : plan->a_buffers;
    uint64_t bytes =
        plan->a_buffers * kern_align(image_elems(shape, plan) * elem(shape->in_dtype)) +
        weight_buffers * kern_align(weights);
    if (plan->block > 0) bytes = plan->a_buffers * plan->stream_bytes;
    if (!kern_conv_is_direct(shape, plan))
        bytes += plan->tile_buffers * kern_align(tile_elems(plan) * elem(shape->out_dtype));
    if (shape->has_bias && plan->bias_block == 0)
        bytes += plan->panel_buffers *
                 kern_align((uint64_t)plan->axis[CONV_N].tile * elem(shape->bias_dtype));
    if (kern_conv_needs_temp(shape)) bytes += kern_align(tile_elems(plan) * 4);
    return bytes;
}

bool kern_conv_is_direct(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan) {
    return shape->is_direct || plan->bias_block > 0;
}

/* The array's columns, where every tile has whole blocks of them, the last one too, else all of a
 * tile; 0: the vector unit adds the bias. */
static uint32_t bias_block(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                           const kern_conv_plan_t *plan) {
    const kern_axis_t *n = &plan->axis[CONV_N];
    uint32_t block = machine->matrix_cols;
    bool is_whole = n->size % block == 0 && n->tile % block == 0;
    if (!shape->loads_bias || kern_conv_is_turned(shape)) return 0;
    return is_whole ? block : n->tile;
}

/* ---- loops and buffers of a candidate ---- */

static uint32_t axis_at(const kern_conv_plan_t *plan, uint32_t depth) {
    static const uint32_t inner_n[CONV_AXES] = {CONV_G, CONV_B, CONV_H, CONV_W, CONV_N, CONV_C};
    return plan->has_inner_n ? inner_n[depth] : depth;
}

/* Gives loops to what is left of each axis; false: more than there are. A loop inside another that
 * turns buffers goes in whole rounds of them. */
static bool set_loops(kern_conv_plan_t *plan, uint32_t a_buffers, uint32_t panel_buffers) {
    uint32_t depth = 0, inner = CONV_AXES, tile = CONV_AXES, panel = CONV_AXES;
    plan->a_level = plan->tile_level = plan->panel_level = VNPU_NO_LOOP;
    for (uint32_t i = 0; i < CONV_AXES; i++) {
        uint32_t x = axis_at(plan, i);
        if (plan->axis[x].trips == 1) continue;
        inner = x;
        if (x != CONV_C) tile = x;
        if (x <= CONV_N) panel = x;
    }
    for (uint32_t i = 0; i < CONV_AXES; i++) {
        uint32_t x = axis_at(plan, i);
        kern_axis_t *axis = &plan->axis[x];
        if (axis->trips == 1) continue;
        if (depth == VNPU_MAX_LOOPS) return false;
        uint32_t round = 1;
        if (x == panel) round = panel_buffers;
        if (x == tile && round < 2) round = 2;
        if (x == inner && round < a_buffers) round = a_buffers; /* 2 or 4: multiples of 2 */
        if (depth > 0 && !plan->rotates_nest)
            axis->trips = (uint32_t)kern_ceil_div(axis->trips, round) * round;
        axis->level = (uint8_t)depth++;
        if (x == inner) plan->a_level = axis->level;
        if (x == tile) plan->tile_level = axis->level;
        if (x == panel) plan->panel_level = axis->level;
    }
    plan->a_buffers = plan->a_level == VNPU_NO_LOOP ? 1 : a_buffers;
    plan->tile_buffers = plan->tile_level == VNPU_NO_LOOP ? 1 : 2;
    plan->panel_buffers = plan->panel_level == VNPU_NO_LOOP ? 1 : panel_buffers;
    return true;
}

static bool fits(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                 const kern_conv_plan_t *plan) {
    if (plan->tile_buffers * kern_align(tile_elems(plan) * 4) > machine->acc_bytes) return false;
    if (plan->axis[CONV_C].trips > 4096) return false; /* the wait on all of c must fit its field */
    return sram_bytes(shape, plan) <= machine->sram_bytes;
}

/* ---- cost ---- */

/* What the busiest instance has along an axis. */
static uint64_t share(const kern_axis_t *axis) {
    uint64_t all = (uint64_t)kern_ceil_div(axis->tiles, axis->grid) * axis->tile;
    return min64(all, (uint64_t)axis->size);
}

/* Contiguous elements of a tile, given sizes and strides in any order. */
static uint64_t run_elems(uint32_t count, const int64_t *size, const int64_t *stride) {
    int64_t run = 1;
    for (bool grows = true; grows;) {
        grows = false;
        for (uint32_t i = 0; i < count; i++) {
            if (size[i] == 1 || stride[i] != run) continue;
            run *= size[i];
            grows = true;
            break;
        }
    }
    return (uint64_t)run;
}

static uint64_t image_run(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan) {
    int64_t size[4] = {plan->axis[CONV_C].tile, 0, 0, plan->axis[CONV_B].tile};
    int64_t stride[4] = {shape->in[CONV_C], shape->in[CONV_W], shape->in[CONV_H],
                         shape->in[CONV_B]};
    for (int s = 0; s < 2; s++) {
        kern_window_t window = kern_conv_window(shape, plan, s);
        size[s == CONV_ROWS ? 2 : 1] = window.size < window.extent ? window.size : window.extent;
    }
    return run_elems(4, size, stride);
}

static uint64_t weight_run(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan) {
    int64_t size[4] = {shape->kernel[CONV_COLS], shape->kernel[CONV_ROWS], plan->axis[CONV_C].tile,
                       plan->axis[CONV_N].tile};
    int64_t stride[4] = {shape->weight_kernel[CONV_COLS], shape->weight_kernel[CONV_ROWS],
                         shape->weight[CONV_C], shape->weight[CONV_N]};
    return run_elems(4, size, stride);
}

static uint64_t result_run(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan) {
    static const uint32_t axes[4] = {CONV_W, CONV_H, CONV_B, CONV_N};
    int64_t size[4], stride[4];
    for (int i = 0; i < 4; i++) {
        size[i] = plan->axis[axes[i]].tile;
        stride[i] = shape->out[axes[i]];
    }
    return run_elems(4, size, stride);
}

static uint64_t epilogue_cycles(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                                uint64_t outer, uint64_t inner) {
    uint64_t cycles = 0;
    if (shape->has_bias) cycles += kern_cost_vector(machine, outer, inner, KERN_CLASS_ALU);
    if (shape->activation == KERN_ACT_RELU) {
        cycles += kern_cost_vector(machine, outer, inner, KERN_CLASS_ALU);
    } else if (shape->activation != KERN_ACT_NONE) {
        cycles += kern_cost_vector(machine, outer, inner, KERN_CLASS_TRANSCENDENTAL);
    }
    return cycles ? cycles : kern_cost_vector(machine, outer, inner, KERN_CLASS_CAST);
}

/* What one instance does. */
typedef struct work {
    uint64_t groups, pixels, n, pixel_tiles, n_tiles, c_tiles; /* of the busiest instance */
    uint64_t image_load, weight_load, store;                   /* cycles of one tile's moves */
    uint64_t load_cycles, store_cycles, bytes;                 /* of all */
} work_t;

/* Rows and columns of the image that a tile reads, at most what there is. */
static uint64_t window_area(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan) {
    uint64_t area = 1;
    for (int s = 0; s < 2; s++) {
        kern_window_t window = kern_conv_window(shape, plan, s);
        area *= (uint64_t)(window.size < window.extent ? window.size : window.extent);
    }
    return area;
}

static work_t work_of(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                      const kern_conv_plan_t *plan) {
    const kern_axis_t *axis = plan->axis;
    work_t w = {.groups = share(&axis[CONV_G]),
                .pixels = 1,
                .n = share(&axis[CONV_N]),
                .pixel_tiles = 1,
                .c_tiles = axis[CONV_C].tiles};
    for (uint32_t x = CONV_B; x <= CONV_W; x++) {
        w.pixels *= share(&axis[x]);
        w.pixel_tiles *= kern_ceil_div(share(&axis[x]), axis[x].tile);
    }
    w.n_tiles = kern_ceil_div(w.n, axis[CONV_N].tile);
    uint32_t ei = elem(shape->in_dtype), ew = elem(shape->weight_dtype),
             eo = elem(shape->out_dtype);
    uint64_t image = window_area(shape, plan) * axis[CONV_B].tile * axis[CONV_C].tile * ei;
    uint64_t weights = chunk_elems(shape, plan) * ew, result = tile_elems(plan) * eo;
    w.image_load = kern_cost_dma(machine, image, image_run(shape, plan) * ei);
    w.weight_load = kern_cost_dma(machine, weights, weight_run(shape, plan) * ew);
    w.store = kern_cost_dma(machine, result, result_run(shape, plan) * eo);
    if (kern_conv_is_direct(shape, plan))
        w.store = max64(
            w.store, kern_ceil_div(4 * tile_elems(plan), machine->dma_accumulator_bytes_per_cycle));
    uint64_t images = w.groups * w.n_tiles * w.pixel_tiles * w.c_tiles;
    uint64_t panels = w.groups * w.n_tiles * w.c_tiles * (plan->is_panel ? 1 : w.pixel_tiles);
    uint64_t results = w.groups * w.n_tiles * w.pixel_tiles;
    /* Last tiles are clipped: scale to the elements that there are. */
    uint64_t whole = w.pixel_tiles * kern_conv_pixels(plan);
    uint64_t channels = (uint64_t)shape->size[CONV_C], all = w.c_tiles * axis[CONV_C].tile;
    uint64_t cols = w.n_tiles * axis[CONV_N].tile;
    w.load_cycles = images * w.image_load * w.pixels / whole * channels / all +
                    panels * w.weight_load * w.n / cols * channels / all;
    w.store_cycles = results * w.store * w.pixels / whole * w.n / cols;
    w.bytes = images * image * w.pixels / whole * channels / all +
              panels * weights * w.n / cols * channels / all + w.groups * w.pixels * w.n * eo;
    return w;
}

static uint64_t matrix_cycles(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                              const kern_conv_plan_t *plan, const work_t *w) {
    uint64_t k = (uint64_t)(shape->size[CONV_C] * kern_conv_positions(shape));
    uint64_t k_tile = (uint64_t)plan->axis[CONV_C].tile * (uint64_t)kern_conv_positions(shape);
    uint64_t pixel_tile = kern_ceil_div(w->pixels, w->pixel_tiles);
    uint32_t n_tile = plan->axis[CONV_N].tile;
    bool is_turned = kern_conv_is_turned(shape);
    uint64_t one = is_turned ? kern_cost_matrix(machine, shape->in_dtype, w->n, k, w->pixels,
                                                n_tile, k_tile, pixel_tile)
                             : kern_cost_matrix(machine, shape->in_dtype, w->pixels, k, w->n,
                                                pixel_tile, k_tile, n_tile);
    return w->groups * one;
}

static uint64_t cost_of(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                        const kern_conv_plan_t *plan) {
    work_t w = work_of(machine, shape, plan);
    uint64_t tiles = w.groups * w.pixel_tiles * w.n_tiles, mms = tiles * w.c_tiles;
    uint64_t matrix = matrix_cycles(machine, shape, plan, &w) + mms * MM_ISSUE_CYCLES;
    uint64_t pixels = kern_conv_pixels(plan), n = plan->axis[CONV_N].tile;
    bool is_turned = kern_conv_is_turned(shape);
    uint64_t epilogue = 0;
    if (!kern_conv_is_direct(shape, plan))
        epilogue = epilogue_cycles(machine, shape, is_turned ? n : pixels, is_turned ? pixels : n);
    uint64_t dram = kern_cost_dram(machine, w.bytes * plan->grid[0] * plan->grid[1]);
    dram += dram / 8; /* what refresh and turnarounds leave */
    if (machine->dma_queues < 2) {
        w.load_cycles += w.store_cycles;
        w.store_cycles = 0;
    }
    uint64_t steady =
        max64(max64(matrix, w.load_cycles), max64(max64(w.store_cycles, dram), tiles * epilogue));
    uint64_t latency = kern_cost_loaded_latency(machine);
    uint64_t array = (uint64_t)machine->matrix_rows + machine->matrix_cols;
    uint64_t drain = array + epilogue + w.store;
    uint64_t first = w.image_load + w.weight_load;
    /* A buffer comes round when its load has arrived and its product has left the array. */
    uint64_t turn = (plan->is_panel ? w.image_load : first) + latency + matrix / mms + array;
    steady = max64(steady, mms * turn / plan->a_buffers);
    uint64_t rounds = kern_ceil_div((uint64_t)plan->grid[0] * plan->grid[1], machine->workers);
    uint64_t cycles = steady + first + latency + drain;
    if (plan->is_panel && plan->panel_buffers == 1)
        cycles += (w.groups * w.n_tiles - 1) * (first + latency + drain);
    /* Between plans that are about as good: less traffic. */
    return rounds * cycles + dram / 8;
}

/* ---- candidates ---- */

typedef struct parts {
    uint32_t count;
    uint32_t value[MAX_PARTS];
} parts_t;

static void add_part(parts_t *list, uint64_t value) {
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->value[i] == value) return;
    }
    if (list->count < MAX_PARTS) list->value[list->count++] = (uint32_t)value;
}

/* Equal parts of `size`, at most `most`, multiples of `unit` where it is smaller than the size;
 * then smaller ones for small scratchpads. */
static parts_t parts_of(uint64_t size, uint64_t unit, uint64_t most) {
    parts_t list = {.count = 0};
    unit = min64(max64(unit, 1), size);
    most = min64(max64(most, unit), size);
    for (uint64_t cut = kern_ceil_div(size, most); list.count < 8; cut += 1 + cut / 3) {
        uint64_t part = kern_ceil_div(kern_ceil_div(size, cut), unit) * unit;
        add_part(&list, min64(part, size));
        if (kern_ceil_div(size, cut) <= unit) break;
    }
    for (uint64_t value = unit / 2; value >= 1; value /= 2)
        add_part(&list, value);
    return list;
}

/* Pixels of a tile. */
typedef struct span {
    uint32_t b, h, w;
} span_t;

typedef struct spans {
    uint32_t count;
    span_t value[MAX_SPANS];
} spans_t;

static void add_span(spans_t *list, uint32_t b, uint32_t h, uint32_t w) {
    if (list->count < MAX_SPANS) list->value[list->count++] = (span_t){b, h, w};
}

/* Several images, then rows of one image, then pieces of a row. sizes: of one instance. */
static spans_t spans_of(uint64_t b, uint64_t h, uint64_t w, uint64_t least_pixels) {
    spans_t list = {.count = 0};
    parts_t rows = parts_of(h, 1, h), cols = parts_of(w, 1, w);
    if (h * w < least_pixels && b > 1) {
        parts_t images = parts_of(b, 1, max64(MOST_ROWS / (h * w), 1));
        for (uint32_t i = 0; i < images.count && i < 8; i++)
            add_span(&list, images.value[i], (uint32_t)h, (uint32_t)w);
    }
    for (uint32_t i = 0; i < rows.count; i++)
        add_span(&list, 1, rows.value[i], (uint32_t)w);
    for (uint32_t i = 0; i < cols.count; i++) {
        if (h > 1 && cols.value[i] >= 8) add_span(&list, 1, 8 < h ? 8 : (uint32_t)h, cols.value[i]);
        add_span(&list, 1, 1, cols.value[i]);
    }
    add_span(&list, 1, 1, 1);
    return list;
}

/* The best plans so far, cheapest first; of equal cost, the first found. */
typedef struct search {
    const vnpu_machine_t *machine;
    const kern_conv_shape_t *shape;
    kern_conv_plan_t *best;
    uint32_t count, most;
} search_t;

/* The same tiles in the same order on the same cores: only numbers of buffers differ. */
static bool is_variant(const kern_conv_plan_t *x, const kern_conv_plan_t *y) {
    bool is_same =
        x->is_panel == y->is_panel && x->grid[0] == y->grid[0] && x->grid[1] == y->grid[1];
    for (uint32_t a = 0; a < CONV_AXES; a++)
        is_same =
            is_same && x->axis[a].tile == y->axis[a].tile && x->axis[a].grid == y->axis[a].grid;
    return is_same;
}

/* Puts a plan in its place; of variants the better one stays. */
static void offer(search_t *search, const kern_conv_plan_t *plan) {
    kern_conv_plan_t *best = search->best;
    uint32_t hole = search->count;
    if (hole == search->most && plan->cycles >= best[hole - 1].cycles) return;
    if (!kern_conv_is_expressible(search->shape, plan)) return;
    for (uint32_t i = 0; i < search->count; i++) {
        if (!is_variant(&best[i], plan)) continue;
        if (plan->cycles >= best[i].cycles) return;
        hole = i;
        break;
    }
    if (hole == search->count && search->count < search->most) search->count++;
    if (hole == search->most) hole--;
    for (; hole > 0 && best[hole - 1].cycles > plan->cycles; hole--)
        best[hole] = best[hole - 1];
    best[hole] = *plan;
}

/* False: too large, also for other numbers of buffers. */
static bool consider(search_t *search, const kern_conv_plan_t *base, bool is_panel,
                     uint32_t panel_buffers) {
    for (uint32_t a_buffers = 2; a_buffers <= 4; a_buffers += 2) {
        kern_conv_plan_t plan = *base;
        plan.is_panel = is_panel;
        plan.bias_block = bias_block(search->machine, search->shape, &plan);
        if (!set_loops(&plan, a_buffers, panel_buffers)) return false;
        if (!fits(search->machine, search->shape, &plan)) return a_buffers > 2;
        plan.cycles = cost_of(search->machine, search->shape, &plan);
        offer(search, &plan);
    }
    return true;
}

static void consider_tiles(search_t *search, const kern_conv_plan_t *plan) {
    bool fits_once = consider(search, plan, true, 1);
    if (fits_once) consider(search, plan, true, 2);
    bool reloads = plan->axis[CONV_C].tiles > 1 || plan->axis[CONV_N].trips > 1;
    if (reloads || !fits_once) consider(search, plan, false, 1);
}

/* How the axes are dealt to instances: grid axis 0 along `along`, grid axis 1 along `other`. */
typedef struct dealing {
    uint32_t along, grid0, other, grid1;
} dealing_t;

static bool deal(kern_conv_plan_t *plan, const dealing_t *d) {
    if (plan->axis[d->along].tiles < d->grid0 || plan->axis[d->other].tiles < d->grid1)
        return false;
    if (d->grid0 > 1) kern_axis_split(&plan->axis[d->along], 0, d->grid0);
    if (d->grid1 > 1) kern_axis_split(&plan->axis[d->other], 1, d->grid1);
    return true;
}

static uint64_t part_of(const search_t *search, const dealing_t *d, uint32_t x) {
    uint64_t size = (uint64_t)search->shape->size[x];
    if (d->along == x) size = kern_ceil_div(size, d->grid0);
    if (d->other == x) size = kern_ceil_div(size, d->grid1);
    return size;
}

/* bf16 products are summed in pairs of k (docs/numerics.md): a pair lies in one tile. */
static bool splits_pairs(const kern_conv_shape_t *shape, uint32_t c_tile) {
    return shape->in_dtype == VNPU_BF16 && c_tile < (uint64_t)shape->size[CONV_C] &&
           c_tile * (uint64_t)kern_conv_positions(shape) % 2 != 0;
}

static void consider_dealing(search_t *search, dealing_t d) {
    const int64_t *size = search->shape->size;
    kern_fold_t fold = kern_cost_fold(search->machine);
    bool is_turned = kern_conv_is_turned(search->shape);
    uint64_t positions = (uint64_t)kern_conv_positions(search->shape);
    parts_t n = parts_of(part_of(search, &d, CONV_N), is_turned ? fold.m : fold.n,
                         is_turned ? MOST_ROWS : MOST_COLS);
    parts_t c = parts_of((uint64_t)size[CONV_C], kern_ceil_div(fold.k, positions), 8192);
    if (splits_pairs(search->shape, 1) && size[CONV_C] > 1) add_part(&c, 2);
    spans_t spans = spans_of(part_of(search, &d, CONV_B), part_of(search, &d, CONV_H),
                             part_of(search, &d, CONV_W), 512);
    for (uint32_t i = 0; i < spans.count * n.count * c.count; i++) {
        span_t span = spans.value[i / c.count / n.count];
        if (splits_pairs(search->shape, c.value[i % c.count])) continue;
        kern_conv_plan_t plan = {.grid = {d.grid0, d.grid1}};
        plan.axis[CONV_G] = kern_axis_make(size[CONV_G], 1);
        plan.axis[CONV_N] = kern_axis_make(size[CONV_N], n.value[i / c.count % n.count]);
        plan.axis[CONV_B] = kern_axis_make(size[CONV_B], span.b);
        plan.axis[CONV_H] = kern_axis_make(size[CONV_H], span.h);
        plan.axis[CONV_W] = kern_axis_make(size[CONV_W], span.w);
        plan.axis[CONV_C] = kern_axis_make(size[CONV_C], c.value[i % c.count]);
        if (deal(&plan, &d)) consider_tiles(search, &plan);
    }
}

static uint32_t rank(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                     kern_conv_plan_t *out_plans, uint32_t most) {
    static const uint32_t along[4] = {CONV_G, CONV_B, CONV_H, CONV_W};
    search_t search = {.machine = machine, .shape = shape, .best = out_plans, .most = most};
    if (most == 0) return 0;
    for (uint32_t grid1 = 1; grid1 <= machine->workers; grid1++) {
        uint32_t grid0 = machine->workers / grid1;
        if (grid0 * grid1 != machine->workers && grid0 != 1) continue;
        if (shape->size[CONV_N] < grid1) break;
        for (uint32_t i = 0; i < 4; i++) {
            if (grid0 > 1 ? shape->size[along[i]] >= grid0 : i == 0)
                consider_dealing(&search, (dealing_t){along[i], grid0, CONV_N, grid1});
        }
    }
    if (search.count > 0) return search.count;
    consider_dealing(&search, (dealing_t){CONV_G, 1, CONV_N, 1});
    /* Too many loops or dimensions: groups and images are instances. */
    uint32_t groups = (uint32_t)shape->size[CONV_G], images = (uint32_t)shape->size[CONV_B];
    if (search.count == 0) consider_dealing(&search, (dealing_t){CONV_G, groups, CONV_B, images});
    return search.count;
}

uint32_t kern_conv_rank(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                        kern_conv_plan_t *out_plans, uint32_t most) {
    const kern_profile_t *profile = kern_profile_of(machine);
    uint32_t first = profile->plan_conv && profile->plan_conv(machine, shape, out_plans);
    return first + rank(machine, shape, out_plans + first, most - first);
}

/* ---- rules ---- */

/* Image and weights of one tile in their part of the scratchpad. */
static bool fits_part(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan) {
    return image_elems(shape, plan) * elem(shape->in_dtype) +
               chunk_elems(shape, plan) * elem(shape->weight_dtype) <=
           plan->stream_bytes;
}

/* Blocks as wide as the array; few channels share a word where the tile has all of them. Left out
 * where a tile does not fit its part. */
static void set_blocks(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                       uint32_t buffers, kern_conv_plan_t *plan) {
    const kern_axis_t *channels = &plan->axis[CONV_C];
    plan->stream_bytes = machine->sram_bytes / buffers / 64 * 64;
    plan->block = machine->matrix_rows;
    plan->pixels = 1;
    if (channels->trips == 1 && shape->dilation[CONV_COLS] == 1)
        plan->pixels = (uint32_t)min64(max64(plan->block / channels->tile, 1),
                                       (uint64_t)shape->kernel[CONV_COLS]);
    if (!fits_part(shape, plan)) plan->pixels = 1;
    if (!fits_part(shape, plan)) plan->block = plan->pixels = 0;
}

bool kern_conv_finish(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                      const kern_conv_rule_t *rule, kern_conv_plan_t *out_plan) {
    kern_conv_plan_t plan = {
        .grid = {1, 1}, .is_panel = rule->is_panel, .rotates_nest = rule->rotates_nest};
    for (uint32_t x = 0; x < CONV_AXES; x++)
        plan.axis[x] = kern_axis_make(shape->size[x], rule->tile[x]);
    plan.has_whole_steps = rule->has_whole_steps;
    plan.bias_block = bias_block(machine, shape, &plan);
    if (rule->has_blocks && kern_conv_can_block(machine, shape, &plan))
        set_blocks(machine, shape, rule->stream_buffers, &plan);
    plan.has_inner_n = rule->has_inner_n && plan.block > 0;
    if (!set_loops(&plan, rule->stream_buffers, rule->panel_buffers)) return false;
    if (!fits(machine, shape, &plan) || !kern_conv_is_expressible(shape, &plan)) return false;
    plan.cycles = cost_of(machine, shape, &plan);
    *out_plan = plan;
    return true;
}
