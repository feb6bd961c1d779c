/* Tiles in blocks (kern_conv_code.h): layouts, moves and products of them. */
#include "kernels/kern_conv_code.h"
#include "kernels/kern_cost.h"

#define MOST_PRODUCTS 1024u /* of a tile: instructions of its program */
#define MOST_TERMS    8u

static const kern_axis_t *axis_of(const kern_conv_coder_t *c, uint32_t x) {
    return &c->plan->axis[x];
}
static uint8_t level_mask(const kern_axis_t *axis) {
    return (uint8_t)(axis->level == VNPU_NO_LOOP ? 0u : 1u << axis->level);
}

/* ---- which plans ---- */

static bool is_contiguous(int64_t size, int64_t stride) {
    return size == 1 || stride == 1;
}

bool kern_conv_can_block(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                         const kern_conv_plan_t *plan) {
    const int64_t *size = shape->size;
    bool is_last = is_contiguous(size[CONV_C], shape->in[CONV_C]) &&
                   is_contiguous(size[CONV_N], shape->weight[CONV_N]) &&
                   is_contiguous(size[CONV_N], shape->out[CONV_N]);
    bool is_plain = !plan->is_panel && !shape->is_flipped && !kern_conv_is_turned(shape) &&
                    kern_conv_is_direct(shape, plan);
    return is_last && is_plain && machine->matrix_rows == machine->matrix_cols &&
           3 * kern_conv_positions(shape) <= MOST_PRODUCTS;
}

/* ---- layouts ---- */

/* Blocks of an axis as an axis of its own: `whole` in every tile, `last` in the last one. */
static kern_axis_t count_axis(const kern_axis_t *axis, uint32_t whole, uint32_t last) {
    kern_axis_t count = *axis;
    count.tile = whole;
    count.size = (int64_t)(axis->tiles - 1) * whole + last;
    return count;
}

static void lay_out_channels(kern_conv_coder_t *c) {
    const kern_axis_t *n = axis_of(c, CONV_N);
    uint32_t block = c->plan->block;
    c->n_inner = *n;
    c->n_blocks = kern_axis_make(1, 1);
    if (n->tile <= block || n->tile % block != 0 || n->size % block != 0) return;
    uint32_t last = (uint32_t)(n->size - (int64_t)(n->tiles - 1) * n->tile);
    c->n_blocks = count_axis(n, n->tile / block, last / block);
    c->n_inner = kern_axis_make(block, block);
}

void kern_conv_blocks_lay_out(kern_conv_coder_t *c) {
    const kern_conv_plan_t *plan = c->plan;
    int64_t block = plan->block, pixels = plan->pixels;
    int64_t rows = kern_conv_window(c->shape, plan, CONV_ROWS).size,
            cols = kern_conv_window(c->shape, plan, CONV_COLS).size;
    int64_t channels = axis_of(c, CONV_C)->tile, images = axis_of(c, CONV_B)->tile;
    lay_out_channels(c);
    c->pixels = kern_axis_make(pixels, pixels);
    c->in_stride[CONV_C] = 1;
    c->in_stride[CONV_W] = block;
    c->in_stride[CONV_H] = cols * block;
    c->in_stride[CONV_B] = rows * cols * block;
    c->in_block = images * rows * cols * block;
    c->image_elems =
        (uint64_t)(kern_ceil_div((uint64_t)channels, (uint64_t)block) * (uint64_t)c->in_block +
                   (uint64_t)((pixels - 1) * block));
    int64_t line = (int64_t)kern_ceil_div(c->n_inner.tile, (uint64_t)block) * block;
    int64_t kh = c->shape->kernel[CONV_ROWS], kw = c->shape->kernel[CONV_COLS];
    c->weight_stride[CONV_N] = 1;
    c->weight_stride[CONV_C] = line;
    c->weight_kernel[CONV_COLS] = channels * line;
    c->weight_kernel[CONV_ROWS] = kw * channels * line;
    c->weight_block = kh * kw * channels * line;
    c->weight_elems = c->chunk_elems = (uint64_t)c->weight_block * c->n_blocks.tile;
    c->tile_stride[CONV_N] = 1;
    c->tile_stride[CONV_W] = line;
    c->tile_stride[CONV_H] = line * axis_of(c, CONV_W)->tile;
    c->tile_stride[CONV_B] = c->tile_stride[CONV_H] * axis_of(c, CONV_H)->tile;
    c->tile_block = (int64_t)kern_conv_pixels(plan) * line;
    c->tile_elems = (uint64_t)c->tile_block * c->n_blocks.tile;
}

void kern_conv_blocks_place(kern_conv_coder_t *c) {
    const kern_conv_plan_t *plan = c->plan;
    uint32_t start = kern_sram(c->builder, plan->a_buffers * plan->stream_bytes);
    uint64_t weights = c->weight_elems * vnpu_dtype_bytes(c->shape->weight_dtype);
    /* A column is written to the words of those in front of it, also of the first one. */
    uint32_t front = (plan->pixels - 1) * plan->block;
    c->sram_in = start + front * vnpu_dtype_bytes(c->shape->in_dtype);
    c->sram_weight = start + (uint32_t)(plan->stream_bytes - weights);
}

uint64_t kern_conv_blocks_pitch(const kern_conv_coder_t *c, vnpu_dtype_t dtype) {
    return c->plan->stream_bytes / vnpu_dtype_bytes(dtype);
}

/* ---- moves ---- */

void kern_conv_blocks_move_image(const kern_conv_coder_t *c, kern_move_t *move) {
    const kern_axis_t *channels = axis_of(c, CONV_C);
    int64_t far = c->shape->in[CONV_C];
    if (c->plan->pixels > 1)
        kern_move_add(move, &c->pixels, 0, (int64_t)channels->tile - c->plan->block, NULL);
    kern_move_add_blocks(move, channels, far, 1, c->plan->block, c->in_block);
}

void kern_conv_blocks_move_weights(const kern_conv_coder_t *c, kern_move_t *move) {
    const kern_conv_shape_t *shape = c->shape;
    for (int s = 0; s < 2; s++)
        kern_move_add(move, &c->kernel[s], shape->weight_kernel[s], c->weight_kernel[s], NULL);
    kern_move_add(move, axis_of(c, CONV_C), shape->weight[CONV_C], c->weight_stride[CONV_C], NULL);
    /* Blocks of n_inner, which is all of n where there are none. */
    kern_move_add_blocks(move, axis_of(c, CONV_N), shape->weight[CONV_N], 1, c->n_inner.tile,
                         c->weight_block);
}

/* A block of channels after the other: a run is a word of them. */
void kern_conv_blocks_move_results(const kern_conv_coder_t *c, kern_move_t *move) {
    const int64_t *out = c->shape->out;
    if (c->n_blocks.size > 1)
        kern_move_add(move, &c->n_blocks, out[CONV_N] * c->plan->block, c->tile_block, NULL);
    for (uint32_t x = CONV_B; x <= CONV_W; x++)
        kern_move_add(move, axis_of(c, x), out[x], c->tile_stride[x], NULL);
    kern_move_add(move, &c->n_inner, out[CONV_N], 1, NULL);
}

uint32_t kern_conv_blocks_n(const kern_conv_coder_t *c, kern_term_t *term, int64_t block,
                            int64_t one) {
    uint32_t count = 0;
    if (c->n_blocks.size > 1) term[count++] = (kern_term_t){&c->n_blocks, block, true};
    term[count++] = (kern_term_t){&c->n_inner, one, true};
    return count;
}

/* ---- products ---- */

/* What one product takes of a tile's channels: `outer` blocks of `inner` from channel `from` on. */
typedef struct part {
    kern_axis_t outer, inner;
    bool has_outer, is_last; /* is_last: of the last tile only */
    uint32_t from;
} part_t;

typedef struct parts {
    part_t part[3];
    uint32_t count;
    bool ends_empty; /* the last one has nothing in the last tile */
} parts_t;

static void add_rest(parts_t *list, kern_axis_t inner, uint32_t from, bool is_last) {
    list->part[list->count++] = (part_t){.inner = inner, .from = from, .is_last = is_last};
}

/* The rest before whole blocks: these are what every tile has, so the last product of a tile frees
 * it. A last tile without a whole block is the exception. */
static parts_t parts_of(const kern_conv_coder_t *c, uint32_t pixels) {
    const kern_axis_t *axis = axis_of(c, CONV_C);
    uint32_t block = c->plan->block, tile = axis->tile;
    uint32_t last = (uint32_t)(axis->size - (int64_t)(axis->tiles - 1) * tile);
    parts_t list = {.count = 0};
    if (tile <= block) {
        kern_axis_t packed = kern_axis_make((int64_t)pixels * tile, (int64_t)pixels * tile);
        add_rest(&list, c->plan->pixels > 1 ? packed : *axis, 0, false);
        return list;
    }
    bool is_same = last == tile;
    uint32_t rest = tile % block, last_rest = last % block;
    if (rest > 0) add_rest(&list, count_axis(axis, rest, is_same ? rest : 0), tile - rest, false);
    if (!is_same && last_rest > 0)
        add_rest(&list, kern_axis_make(last_rest, last_rest), last - last_rest, true);
    list.part[list.count++] = (part_t){.outer = count_axis(axis, tile / block, last / block),
                                       .inner = kern_axis_make(block, block),
                                       .has_outer = true};
    list.ends_empty = last < block;
    return list;
}

/* Dimensions of k with their strides: blocks, and channels of a block. */
static uint32_t add_k(const part_t *part, kern_term_t *term, int64_t block, int64_t one) {
    uint32_t count = 0;
    if (part->has_outer) term[count++] = (kern_term_t){&part->outer, block, true};
    term[count++] = (kern_term_t){&part->inner, one, true};
    return count;
}

static uint32_t add_pixels(const kern_conv_coder_t *c, kern_term_t *term, const int64_t *stride,
                           const int64_t *step) {
    uint32_t count = 0;
    for (uint32_t x = CONV_B; x <= CONV_W; x++) {
        int64_t steps = x == CONV_B ? 1 : step[x - CONV_H];
        term[count++] = (kern_term_t){axis_of(c, x), stride[x] * steps, x == CONV_W};
    }
    return count;
}

static void turn(const kern_conv_coder_t *c, vnpu_ap_t *ap, uint8_t level, uint32_t buffers,
                 uint64_t elems) {
    kern_ap_rotate(ap, level, buffers, elems);
    if (c->plan->rotates_nest) kern_ap_rotate_nest(ap, 0);
}

/* The part of the channels at kernel position (i, j), or at as many as share a word. */
static vnpu_insn_t *emit_product(const kern_conv_coder_t *c, const part_t *part, int64_t i,
                                 int64_t j) {
    const kern_conv_shape_t *shape = c->shape;
    const kern_conv_plan_t *plan = c->plan;
    static const int64_t ONE[2] = {1, 1};
    kern_term_t image[MOST_TERMS], weights[MOST_TERMS], result[MOST_TERMS];
    uint32_t images = add_pixels(c, image, c->in_stride, shape->stride);
    images += add_k(part, image + images, c->in_block, 1);
    int64_t line = c->weight_stride[CONV_C];
    uint32_t count = add_k(part, weights, line * plan->block, line);
    count += kern_conv_blocks_n(c, weights + count, c->weight_block, 1);
    uint32_t results = add_pixels(c, result, c->tile_stride, ONE);
    results += kern_conv_blocks_n(c, result + results, c->tile_block, 1);
    int64_t at = i * shape->dilation[CONV_ROWS] * c->in_stride[CONV_H] +
                 j * shape->dilation[CONV_COLS] * c->in_stride[CONV_W] +
                 part->from / plan->block * c->in_block;
    int64_t from =
        i * c->weight_kernel[CONV_ROWS] + j * c->weight_kernel[CONV_COLS] + part->from * line;
    vnpu_ap_t a =
        kern_ap_terms(VNPU_SPACE_SRAM, shape->in_dtype,
                      c->sram_in + at * vnpu_dtype_bytes(shape->in_dtype), image, images, false);
    vnpu_ap_t w = kern_ap_terms(VNPU_SPACE_SRAM, shape->weight_dtype,
                                c->sram_weight + from * vnpu_dtype_bytes(shape->weight_dtype),
                                weights, count, false);
    bool is_integer = shape->in_dtype == VNPU_I8 || shape->in_dtype == VNPU_U8;
    vnpu_dtype_t sums = is_integer ? VNPU_I32 : VNPU_F32;
    vnpu_ap_t d = kern_ap_terms(VNPU_SPACE_ACC, sums, c->acc, result, results, false);
    turn(c, &a, plan->a_level, plan->a_buffers, kern_conv_blocks_pitch(c, shape->in_dtype));
    turn(c, &w, plan->a_level, plan->a_buffers, kern_conv_blocks_pitch(c, shape->weight_dtype));
    turn(c, &d, plan->tile_level, plan->tile_buffers, kern_move_padded(c->tile_elems, VNPU_F32));
    vnpu_insn_t *insn = kern_emit(c->builder, KERN_MATRIX, VNPU_OP_MM);
    insn->func = part->has_outer ? 1 : 0;
    insn->dst = kern_ap(c->builder, &d);
    insn->src[0] = kern_ap(c->builder, &a);
    insn->src[1] = kern_ap(c->builder, &w);
    return insn;
}

void kern_conv_blocks_products(const kern_conv_coder_t *c) {
    const kern_conv_plan_t *plan = c->plan;
    uint8_t channels = level_mask(axis_of(c, CONV_C));
    int64_t kh = c->shape->kernel[CONV_ROWS], kw = c->shape->kernel[CONV_COLS];
    bool has_sums = plan->bias_block > 0, ends_empty = false;
    vnpu_insn_t *insn = NULL;
    kern_sync_wait(c->builder, KERN_MATRIX, c->a.full, 2);
    for (int64_t p = 0; p < kh * kw; p++) {
        int64_t i = p / kw, j = p % kw, left = kw - j;
        if (j % plan->pixels != 0) continue;
        parts_t list = parts_of(c, left < plan->pixels ? (uint32_t)left : plan->pixels);
        ends_empty = list.ends_empty;
        for (uint32_t x = 0; x < list.count; x++) {
            bool is_last = list.part[x].is_last;
            insn = emit_product(c, &list.part[x], i, j);
            if (is_last) insn->last_only = channels;
            if (has_sums || is_last) {
                insn->flags |= VNPU_F_ACCUMULATE;
            } else {
                insn->not_first = channels;
                has_sums = true;
            }
        }
    }
    /* A product of nothing is complete before those in front of it. */
    if (ends_empty) insn = kern_emit(c->builder, KERN_MATRIX, VNPU_OP_FENCE);
    kern_signal(insn, c->a.free, 1);
    kern_signal(insn, c->result.full, 1);
}
