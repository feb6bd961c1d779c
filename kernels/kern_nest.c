#include "kernels/kern_nest.h"

#include <stdlib.h>

static uint32_t ceil_div(int64_t a, int64_t b) {
    return (uint32_t)((a + b - 1) / b);
}

kern_axis_t kern_axis_make(int64_t size, int64_t tile) {
    if (tile > size) tile = size;
    uint32_t tiles = ceil_div(size, tile);
    return (kern_axis_t){.size = size,
                         .tile = (uint32_t)tile,
                         .tiles = tiles,
                         .grid = 1,
                         .trips = tiles,
                         .level = VNPU_NO_LOOP};
}

void kern_axis_split(kern_axis_t *axis, uint8_t grid_axis, uint32_t grid) {
    axis->grid_axis = grid_axis;
    axis->grid = grid;
    axis->trips = ceil_div(axis->tiles, grid);
}

kern_axis_t kern_axis_part(const kern_axis_t *axis, uint32_t from, uint32_t elems) {
    if (axis->grid > 1 || axis->from + axis->skip > 0 || from >= axis->tile) abort();
    if (elems > axis->tile - from) elems = axis->tile - from;
    /* Of the last tile. */
    int64_t last = axis->size - (int64_t)(axis->tiles - 1) * axis->tile - from;
    if (last < 0) last = 0;
    kern_axis_t part = *axis;
    part.tile = elems;
    part.from = from;
    part.skip = axis->tile - elems;
    part.size = (int64_t)(axis->tiles - 1) * elems + (last < elems ? last : elems);
    return part;
}

bool kern_axis_is_clipped(const kern_axis_t *axis) {
    return (int64_t)axis->trips * axis->grid * axis->tile != axis->size;
}

static vnpu_clip_t clip_of(const kern_axis_t *axis, uint32_t dim) {
    vnpu_clip_mode_t mode = VNPU_CLIP_LOOP;
    if (axis->grid > 1) mode = axis->level == VNPU_NO_LOOP ? VNPU_CLIP_GRID : VNPU_CLIP_CYCLIC;
    uint32_t grid_axis = axis->grid > 1 ? axis->grid_axis : 0;
    return (vnpu_clip_t){.extent = (uint32_t)axis->size,
                         .dim = (uint8_t)dim,
                         .loop = axis->level,
                         .axis_mode = (uint8_t)(mode | grid_axis << 2)};
}

static void add_increment(int32_t *increment, int64_t value) {
    int64_t sum = *increment + value;
    if (sum != (int32_t)sum) abort(); /* the caller cuts operands to what fits */
    *increment = (int32_t)sum;
}

/* The pattern moves by `step` elements from tile to tile of the axis. */
static void add_movement(vnpu_ap_t *ap, const kern_axis_t *axis, int64_t step) {
    if (axis->level != VNPU_NO_LOOP) add_increment(&ap->loop_inc[axis->level], step * axis->grid);
    if (axis->grid > 1) add_increment(&ap->grid_inc[axis->grid_axis], step);
}

void kern_ap_append(vnpu_ap_t *ap, const kern_term_t *term, bool moves) {
    const kern_axis_t *axis = term->axis;
    bool is_clipped = kern_axis_is_clipped(axis);
    if (moves) add_movement(ap, axis, (int64_t)(axis->tile + axis->skip) * term->stride);
    ap->base +=
        (int64_t)vnpu_dtype_span((vnpu_dtype_t)ap->dtype, (uint64_t)(axis->from * term->stride));
    if (axis->tile == 1 && !is_clipped && !term->keep) return;
    kern_ap_dim(ap, axis->tile, term->stride);
    if (is_clipped) kern_ap_clip(ap, clip_of(axis, ap->ndims - 1));
}

bool kern_window_is_possible(const kern_axis_t *axis, const kern_window_t *window) {
    int64_t overlap = window->size - window->step;
    bool has_overlap = overlap >= INT8_MIN && overlap <= INT8_MAX;
    return window->pad <= UINT8_MAX && (axis->tiles == 1 || has_overlap);
}

void kern_ap_append_window(vnpu_ap_t *ap, const kern_axis_t *axis, const kern_window_t *window,
                           int64_t stride) {
    int64_t overlap = window->size - window->step;
    add_movement(ap, axis, window->step * stride);
    ap->base -= window->pad * stride * vnpu_dtype_bytes((vnpu_dtype_t)ap->dtype);
    kern_ap_dim(ap, (uint32_t)window->size, stride);
    vnpu_clip_t clip = {.loop = VNPU_NO_LOOP, .dim = (uint8_t)(ap->ndims - 1)};
    bool is_still = axis->level == VNPU_NO_LOOP && axis->grid == 1;
    if (!is_still) {
        clip = clip_of(axis, ap->ndims - 1);
        clip.overlap = (int8_t)overlap;
    }
    clip.extent = (uint32_t)window->extent;
    clip.axis_mode |= VNPU_CLIP_WINDOW;
    ap->pad[kern_ap_clip(ap, clip)] = (uint8_t)window->pad;
}

vnpu_ap_t kern_ap_terms(vnpu_space_t space, vnpu_dtype_t dtype, int64_t base,
                        const kern_term_t *term, uint32_t count, bool moves) {
    vnpu_ap_t ap = kern_ap_make(space, dtype, base);
    for (uint32_t i = 0; i < count; i++)
        kern_ap_append(&ap, &term[i], moves);
    if (ap.ndims == 0) kern_ap_dim(&ap, 1, 1);
    return ap;
}

/* ---- nests ---- */

/* The axis whose tiles keep most of `workers` cores busy; ndims when none can be split. */
static uint32_t best_split(const kern_nest_t *nest, uint32_t workers, uint32_t mask) {
    uint32_t best = nest->ndims;
    uint64_t best_score = 0;
    for (uint32_t d = 0; d < nest->ndims; d++) {
        const kern_axis_t *axis = &nest->axis[d];
        if (!(mask >> d & 1u) || axis->grid > 1 || axis->tiles < 2) continue;
        uint32_t grid = axis->tiles < workers ? axis->tiles : workers;
        /* work per round and worker, in 1/1000: tiles / (rounds * workers) */
        uint64_t score = 1000ull * axis->tiles / ((uint64_t)ceil_div(axis->tiles, grid) * workers);
        if (score > best_score) {
            best_score = score;
            best = d;
        }
    }
    return best;
}

static void split(kern_nest_t *nest, uint32_t workers, uint32_t mask) {
    nest->grid[0] = nest->grid[1] = 1;
    for (uint8_t g = 0; g < VNPU_MAX_AXES && workers > 1; g++) {
        uint32_t d = best_split(nest, workers, mask);
        if (d == nest->ndims) return;
        uint32_t grid = nest->axis[d].tiles < workers ? nest->axis[d].tiles : workers;
        kern_axis_split(&nest->axis[d], g, grid);
        nest->grid[g] = grid;
        workers /= grid;
    }
}

bool kern_nest_plan(kern_nest_t *nest, uint32_t workers, uint32_t split_mask) {
    split(nest, workers, split_mask);
    nest->depth = 0;
    nest->inner = VNPU_NO_LOOP;
    nest->buffers = 1;
    nest->trips = 1;
    uint32_t inner = 0, clips = 0;
    for (uint32_t d = 0; d < nest->ndims; d++) {
        if (nest->axis[d].trips == 1) continue;
        if (nest->depth == VNPU_MAX_LOOPS) return false;
        nest->inner = nest->axis[d].level = (uint8_t)nest->depth++;
        inner = d;
    }
    if (nest->depth > 0) nest->buffers = 2;
    if (nest->depth > 1) nest->axis[inner].trips += nest->axis[inner].trips % 2;
    for (uint32_t d = 0; d < nest->ndims; d++) {
        nest->trips *= nest->axis[d].trips;
        clips += kern_axis_is_clipped(&nest->axis[d]);
    }
    return clips <= 4;
}

void kern_nest_open(const kern_nest_t *nest, kern_builder_t *builder) {
    for (uint32_t d = 0; d < nest->ndims; d++) {
        if (nest->axis[d].level != VNPU_NO_LOOP) kern_loop(builder, nest->axis[d].trips);
    }
}

void kern_nest_close(const kern_nest_t *nest, kern_builder_t *builder) {
    for (uint32_t l = 0; l < nest->depth; l++)
        kern_end(builder);
}

uint8_t kern_nest_levels(const kern_nest_t *nest, uint32_t dim_mask) {
    uint32_t levels = 0;
    for (uint32_t d = 0; d < nest->ndims; d++) {
        if ((dim_mask >> d & 1u) && nest->axis[d].level != VNPU_NO_LOOP)
            levels |= 1u << nest->axis[d].level;
    }
    return (uint8_t)levels;
}

void kern_nest_tile(kern_nest_t *nest, const int64_t *size, const uint8_t *order,
                    const uint32_t *limit, uint64_t budget, uint32_t align) {
    int64_t tile[KERN_NEST_DIMS];
    for (uint32_t d = 0; d < nest->ndims; d++)
        tile[d] = 1;
    for (uint32_t i = 0; i < nest->ndims && budget > 1; i++) {
        int64_t whole = size[order[i]], most = (int64_t)budget;
        if (limit && limit[i] > 0 && most > limit[i]) most = limit[i];
        int64_t t = whole;
        if (t > most) {
            t = ceil_div(whole, ceil_div(whole, most));
            int64_t aligned = ceil_div(t, align) * (int64_t)align;
            if (i == 0 && aligned <= most) t = aligned;
        }
        tile[order[i]] = t;
        budget /= (uint64_t)t;
        if (t < whole && (!limit || limit[i] == 0)) break;
    }
    for (uint32_t d = 0; d < nest->ndims; d++)
        nest->axis[d] = kern_axis_make(size[d], tile[d]);
}

uint64_t kern_nest_tile_elems(const kern_nest_t *nest) {
    uint64_t elems = 1;
    for (uint32_t d = 0; d < nest->ndims; d++)
        elems *= nest->axis[d].tile;
    return elems;
}

uint32_t kern_nest_edge(uint64_t elems, uint32_t most) {
    uint32_t edge = most;
    while (edge > 1 && (uint64_t)edge * edge > elems)
        edge /= 2;
    return edge;
}
