#include "kernels/kern_conv_code.h"
#include "kernels/kern_gemm_plan.h"
#include "kernels/kern_internal.h"

#define MOST_TERMS 8u

/* Patterns are put together of tile positions only, so that they can be counted first. */
typedef kern_conv_coder_t coder_t;

static const kern_axis_t *axis_of(const coder_t *c, uint32_t x) {
    return &c->plan->axis[x];
}
static uint8_t level_mask(const kern_axis_t *axis) {
    return (uint8_t)(axis->level == VNPU_NO_LOOP ? 0u : 1u << axis->level);
}
static vnpu_dtype_t acc_dtype(const kern_conv_shape_t *shape) {
    return kern_dtype_is_float(shape->in_dtype) ? VNPU_F32 : VNPU_I32;
}

static void rotate(const coder_t *c, vnpu_ap_t *ap, uint8_t level, uint32_t buffers,
                   uint64_t elems) {
    kern_ap_rotate(ap, level, buffers, elems);
    if (c->plan->rotates_nest) kern_ap_rotate_nest(ap, 0);
}

/* ---- layouts of tiles ---- */

static void lay_out_image(coder_t *c) {
    int64_t rows = kern_conv_window(c->shape, c->plan, CONV_ROWS).size,
            cols = kern_conv_window(c->shape, c->plan, CONV_COLS).size,
            channels = axis_of(c, CONV_C)->tile;
    int64_t *s = c->in_stride;
    s[CONV_C] = c->is_channels_last ? 1 : rows * cols;
    s[CONV_W] = c->is_channels_last ? channels : 1;
    s[CONV_H] = cols * s[CONV_W];
    s[CONV_B] = rows * cols * channels;
    c->image_elems = (uint64_t)(s[CONV_B] * axis_of(c, CONV_B)->tile);
}

/* Dimensions of k in their order, then n; or n, then k. */
static void lay_out_weights(coder_t *c) {
    int64_t n = axis_of(c, CONV_N)->tile, channels = axis_of(c, CONV_C)->tile;
    int64_t kh = c->shape->kernel[CONV_ROWS], kw = c->shape->kernel[CONV_COLS];
    int64_t one = c->is_turned ? 1 : n;
    if (c->is_channels_last) {
        c->weight_stride[CONV_C] = one;
        c->weight_kernel[CONV_COLS] = one * channels;
        c->weight_kernel[CONV_ROWS] = one * channels * kw;
    } else {
        c->weight_kernel[CONV_COLS] = one;
        c->weight_kernel[CONV_ROWS] = one * kw;
        c->weight_stride[CONV_C] = one * kw * kh;
    }
    c->weight_stride[CONV_N] = c->is_turned ? channels * kh * kw : 1;
    c->chunk_elems = (uint64_t)(channels * kh * kw * n);
    c->weight_elems = c->chunk_elems * (c->plan->is_panel ? axis_of(c, CONV_C)->trips : 1);
}

static void lay_out_tile(coder_t *c) {
    int64_t n = axis_of(c, CONV_N)->tile, pixels = (int64_t)kern_conv_pixels(c->plan);
    int64_t *s = c->tile_stride;
    s[CONV_W] = c->is_turned ? 1 : n;
    s[CONV_H] = s[CONV_W] * axis_of(c, CONV_W)->tile;
    s[CONV_B] = s[CONV_H] * axis_of(c, CONV_H)->tile;
    s[CONV_N] = c->is_turned ? pixels : 1;
    c->tile_elems = (uint64_t)(n * pixels);
}

static coder_t coder_of(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan) {
    coder_t c = {.shape = shape,
                 .plan = plan,
                 .is_turned = kern_conv_is_turned(shape),
                 .is_channels_last = kern_conv_is_channels_last(shape)};
    for (int s = 0; s < 2; s++)
        c.kernel[s] = kern_axis_make(shape->kernel[s], shape->kernel[s]);
    const kern_axis_t *channels = &plan->axis[CONV_C];
    c.is_merged = c.is_channels_last && shape->dilation[CONV_COLS] == 1 &&
                  shape->kernel[CONV_COLS] > 1 && !shape->is_flipped &&
                  !kern_axis_is_clipped(channels);
    int64_t row = shape->kernel[CONV_COLS] * channels->tile;
    c.row = kern_axis_make(row, row);
    if (plan->block > 0) {
        kern_conv_blocks_lay_out(&c);
        return c;
    }
    lay_out_image(&c);
    lay_out_weights(&c);
    lay_out_tile(&c);
    return c;
}

/* ---- terms ---- */

typedef struct terms {
    kern_term_t term[MOST_TERMS];
    uint32_t count;
} terms_t;

static void add(terms_t *list, const kern_axis_t *axis, int64_t stride, bool keep) {
    list->term[list->count++] = (kern_term_t){axis, stride, keep};
}

/* Dimensions of k, with the strides of the image or of the weights. */
static void add_k(const coder_t *c, terms_t *list, bool is_image) {
    const int64_t *dilation = c->shape->dilation;
    int64_t kh =
        is_image ? c->in_stride[CONV_H] * dilation[CONV_ROWS] : c->weight_kernel[CONV_ROWS];
    int64_t kw =
        is_image ? c->in_stride[CONV_W] * dilation[CONV_COLS] : c->weight_kernel[CONV_COLS];
    int64_t channel = is_image ? c->in_stride[CONV_C] : c->weight_stride[CONV_C];
    if (!is_image && c->shape->is_flipped) kh = -kh, kw = -kw; /* from the last position on */
    const kern_axis_t *channels = axis_of(c, CONV_C);
    if (!c->is_channels_last) add(list, channels, channel, true);
    add(list, &c->kernel[CONV_ROWS], kh, false);
    if (c->is_merged) {
        add(list, &c->row, channel, true);
        return;
    }
    add(list, &c->kernel[CONV_COLS], kw, false);
    if (c->is_channels_last) add(list, channels, channel, true);
}

static void add_pixels(const coder_t *c, terms_t *list, const int64_t *stride, int64_t row_step,
                       int64_t col_step) {
    add(list, axis_of(c, CONV_B), stride[CONV_B], false);
    add(list, axis_of(c, CONV_H), stride[CONV_H] * row_step, false);
    add(list, axis_of(c, CONV_W), stride[CONV_W] * col_step, true);
}

static void image_terms(const coder_t *c, terms_t *list) {
    const int64_t *step = c->shape->stride;
    if (c->is_turned) add_k(c, list, true);
    add_pixels(c, list, c->in_stride, step[CONV_ROWS], step[CONV_COLS]);
    if (!c->is_turned) add_k(c, list, true);
}

static void weight_terms(const coder_t *c, terms_t *list) {
    if (c->is_turned) add(list, axis_of(c, CONV_N), c->weight_stride[CONV_N], true);
    add_k(c, list, false);
    if (!c->is_turned) add(list, axis_of(c, CONV_N), c->weight_stride[CONV_N], true);
}

static void result_terms(const coder_t *c, terms_t *list, bool keep) {
    if (c->is_turned) add(list, axis_of(c, CONV_N), c->tile_stride[CONV_N], keep);
    add_pixels(c, list, c->tile_stride, 1, 1);
    list->term[list->count - 1].keep = keep;
    if (!c->is_turned) add(list, axis_of(c, CONV_N), c->tile_stride[CONV_N], keep);
}

static uint32_t dims_of(const terms_t *list) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const kern_axis_t *axis = list->term[i].axis;
        count += axis->tile > 1 || list->term[i].keep || kern_axis_is_clipped(axis);
    }
    return count;
}

static uint32_t k_dims(const coder_t *c) {
    terms_t list = {.count = 0};
    add_k(c, &list, true);
    return dims_of(&list);
}

bool kern_conv_is_expressible(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan) {
    coder_t c = coder_of(shape, plan);
    terms_t image = {.count = 0}, weights = {.count = 0}, result = {.count = 0};
    image_terms(&c, &image);
    weight_terms(&c, &weights);
    result_terms(&c, &result, true);
    bool fits = dims_of(&image) <= VNPU_MAX_DIMS && dims_of(&weights) <= VNPU_MAX_DIMS &&
                dims_of(&result) <= VNPU_MAX_DIMS && k_dims(&c) <= 4;
    if (plan->block > 0) fits = true; /* at most b, oh, ow and two of k or n */
    /* The image's two windows are clips as well. */
    uint32_t image_clips = 2, result_clips = 0;
    for (uint32_t x = 0; x < CONV_AXES; x++) {
        bool is_clipped = kern_axis_is_clipped(&plan->axis[x]);
        image_clips += is_clipped && x != CONV_N && x != CONV_H && x != CONV_W;
        result_clips += is_clipped && x != CONV_C;
    }
    for (int s = 0; s < 2; s++) {
        kern_window_t window = kern_conv_window(shape, plan, s);
        const kern_axis_t *axis = &plan->axis[s == CONV_ROWS ? CONV_H : CONV_W];
        fits = fits && kern_window_is_possible(axis, &window);
    }
    return fits && image_clips <= 4 && result_clips <= 4;
}

/* ---- moves ---- */

/* Of image or weights. */
static void take_blocks(const coder_t *c, kern_move_t *move) {
    if (c->plan->block == 0) return;
    move->keeps_order = true;
    move->elems = kern_conv_blocks_pitch(c, move->near_dtype);
}

static vnpu_insn_t *load_image(const coder_t *c) {
    const kern_conv_shape_t *shape = c->shape;
    kern_move_t move = {.arg = c->arg_in,
                        .rotates_nest = c->plan->rotates_nest,
                        .keeps_rows = c->shape->keeps_rows,
                        .far_dtype = shape->in_dtype,
                        .near_dtype = shape->in_dtype,
                        .sram = c->sram_in,
                        .level = c->plan->a_level,
                        .buffers = c->plan->a_buffers,
                        .elems = c->image_elems};
    take_blocks(c, &move);
    kern_window_t window[2];
    static const uint32_t axes[2] = {CONV_H, CONV_W};
    kern_move_add(&move, axis_of(c, CONV_G), shape->in[CONV_G], 0, NULL);
    kern_move_add(&move, axis_of(c, CONV_B), shape->in[CONV_B], c->in_stride[CONV_B], NULL);
    for (int s = 0; s < 2; s++) {
        const kern_axis_t *axis = axis_of(c, axes[s]);
        window[s] = kern_conv_window(shape, c->plan, s);
        /* Tiles that neither overlap nor leave the image are tiles of results. */
        bool is_plain = window[s].pad == 0 && window[s].size == axis->tile &&
                        window[s].step == axis->tile && window[s].extent == axis->size;
        kern_move_add(&move, axis, shape->in[axes[s]], c->in_stride[axes[s]],
                      is_plain ? NULL : &window[s]);
    }
    if (c->plan->block > 0) {
        kern_conv_blocks_move_image(c, &move);
        return kern_move_emit(c->builder, KERN_LOAD, &move);
    }
    kern_move_add(&move, axis_of(c, CONV_C), shape->in[CONV_C], c->in_stride[CONV_C], NULL);
    return kern_move_emit(c->builder, KERN_LOAD, &move);
}

/* The panel's c tiles follow each other. */
static void walk_panel(const coder_t *c, vnpu_ap_t *ap) {
    const kern_axis_t *channels = axis_of(c, CONV_C);
    if (!c->plan->is_panel || channels->level == VNPU_NO_LOOP) return;
    ap->loop_inc[channels->level] = (int32_t)c->chunk_elems;
}

static uint8_t weight_level(const coder_t *c) {
    return c->plan->is_panel ? c->plan->panel_level : c->plan->a_level;
}
static uint32_t weight_buffers(const kern_conv_plan_t *plan) {
    return plan->is_panel ? plan->panel_buffers : plan->a_buffers;
}

static vnpu_insn_t *load_weights(const coder_t *c) {
    const kern_conv_shape_t *shape = c->shape;
    kern_move_t move = {.arg = c->arg_weight,
                        .rotates_nest = c->plan->rotates_nest,
                        .keeps_rows = c->shape->keeps_rows,
                        .far_dtype = shape->weight_dtype,
                        .near_dtype = shape->weight_dtype,
                        .sram = c->sram_weight,
                        .level = weight_level(c),
                        .buffers = weight_buffers(c->plan),
                        .elems = c->weight_elems};
    take_blocks(c, &move);
    kern_move_add(&move, axis_of(c, CONV_G), shape->weight[CONV_G], 0, NULL);
    if (c->plan->block > 0) {
        kern_conv_blocks_move_weights(c, &move);
        return kern_move_emit(c->builder, KERN_LOAD, &move);
    }
    kern_move_add(&move, axis_of(c, CONV_N), shape->weight[CONV_N], c->weight_stride[CONV_N], NULL);
    kern_move_add(&move, axis_of(c, CONV_C), shape->weight[CONV_C], c->weight_stride[CONV_C], NULL);
    for (int s = 0; s < 2; s++)
        kern_move_add(&move, &c->kernel[s], shape->weight_kernel[s], c->weight_kernel[s], NULL);
    vnpu_insn_t *insn = kern_move_emit(c->builder, KERN_LOAD, &move);
    vnpu_ap_t sram = kern_ap_of(c->builder, insn->dst);
    walk_panel(c, &sram);
    insn->dst = kern_ap(c->builder, &sram);
    return insn;
}

static vnpu_insn_t *load_bias(const coder_t *c) {
    const kern_conv_shape_t *shape = c->shape;
    kern_move_t move = {.arg = c->arg_bias,
                        .rotates_nest = c->plan->rotates_nest,
                        .keeps_rows = c->shape->keeps_rows,
                        .far_dtype = shape->bias_dtype,
                        .near_dtype = shape->bias_dtype,
                        .sram = c->sram_bias,
                        .level = c->plan->panel_level,
                        .buffers = c->plan->panel_buffers,
                        .elems = axis_of(c, CONV_N)->tile};
    kern_move_add(&move, axis_of(c, CONV_G), shape->bias[CONV_G], 0, NULL);
    kern_move_add(&move, axis_of(c, CONV_N), shape->bias[CONV_N], 1, NULL);
    return kern_move_emit(c->builder, KERN_LOAD, &move);
}

/* Who takes results out of the accumulator. */
static kern_queue_t consumer_of(const coder_t *c) {
    return kern_conv_is_direct(c->shape, c->plan) ? KERN_STORE : KERN_VECTOR;
}

static vnpu_insn_t *store_out(const coder_t *c) {
    const kern_conv_shape_t *shape = c->shape;
    kern_move_t move = {.arg = c->arg_out,
                        .rotates_nest = c->plan->rotates_nest,
                        .keeps_rows = c->shape->keeps_rows,
                        .far_dtype = shape->out_dtype,
                        .near_dtype = shape->out_dtype,
                        .sram = c->sram_out,
                        .level = c->plan->tile_level,
                        .buffers = c->plan->tile_buffers,
                        .elems = c->tile_elems};
    if (kern_conv_is_direct(shape, c->plan)) { /* cast on the way */
        move.near_space = VNPU_SPACE_ACC;
        move.near_dtype = acc_dtype(shape);
        move.sram = c->acc;
    }
    kern_move_add(&move, axis_of(c, CONV_G), shape->out[CONV_G], 0, NULL);
    if (c->plan->block > 0) {
        move.keeps_order = true;
        kern_conv_blocks_move_results(c, &move);
        return kern_move_emit(c->builder, KERN_STORE, &move);
    }
    for (uint32_t x = CONV_N; x <= CONV_W; x++)
        kern_move_add(&move, axis_of(c, x), shape->out[x], c->tile_stride[x], NULL);
    return kern_move_emit(c->builder, KERN_STORE, &move);
}

/* ---- array ---- */

/* Elements to where a flipped kernel begins. */
static int64_t last_position(const coder_t *c) {
    if (!c->shape->is_flipped) return 0;
    return (c->shape->kernel[CONV_ROWS] - 1) * c->weight_kernel[CONV_ROWS] +
           (c->shape->kernel[CONV_COLS] - 1) * c->weight_kernel[CONV_COLS];
}

static void emit_mm(const coder_t *c) {
    const kern_conv_shape_t *shape = c->shape;
    const kern_conv_plan_t *plan = c->plan;
    terms_t image = {.count = 0}, weights = {.count = 0}, result = {.count = 0};
    image_terms(c, &image);
    weight_terms(c, &weights);
    result_terms(c, &result, true);
    vnpu_ap_t a =
        kern_ap_terms(VNPU_SPACE_SRAM, shape->in_dtype, c->sram_in, image.term, image.count, false);
    int64_t first = c->sram_weight + last_position(c) * vnpu_dtype_bytes(shape->weight_dtype);
    vnpu_ap_t w = kern_ap_terms(VNPU_SPACE_SRAM, shape->weight_dtype, first, weights.term,
                                weights.count, false);
    vnpu_ap_t d =
        kern_ap_terms(VNPU_SPACE_ACC, acc_dtype(shape), c->acc, result.term, result.count, false);
    rotate(c, &a, plan->a_level, plan->a_buffers,
           kern_move_padded(c->image_elems, shape->in_dtype));
    rotate(c, &w, weight_level(c), weight_buffers(plan),
           kern_move_padded(c->weight_elems, shape->weight_dtype));
    walk_panel(c, &w);
    rotate(c, &d, plan->tile_level, plan->tile_buffers, kern_move_padded(c->tile_elems, VNPU_F32));
    vnpu_insn_t *insn = kern_emit(c->builder, KERN_MATRIX, VNPU_OP_MM);
    insn->func = (uint8_t)(k_dims(c) - 1);
    insn->dst = kern_ap(c->builder, &d);
    insn->src[c->is_turned ? 1 : 0] = kern_ap(c->builder, &a);
    insn->src[c->is_turned ? 0 : 1] = kern_ap(c->builder, &w);
    if (plan->bias_block > 0) {
        insn->flags |= VNPU_F_ACCUMULATE;
    } else {
        insn->not_first = level_mask(axis_of(c, CONV_C));
    }
    kern_wait(insn, c->a.full, plan->is_panel ? 1 : 2);
    kern_signal(insn, c->a.free, 1);
    kern_signal(insn, c->result.full, 1);
}

/* ---- epilogue ---- */

typedef enum place { PLACE_ACC, PLACE_BIAS, PLACE_TEMP, PLACE_OUT } place_t;

static vnpu_ap_t place_ap(const coder_t *c, place_t place) {
    const kern_conv_plan_t *plan = c->plan;
    const kern_conv_shape_t *shape = c->shape;
    terms_t list = {.count = 0};
    result_terms(c, &list, false);
    vnpu_ap_t ap = {0};
    switch (place) {
    case PLACE_ACC:
        ap = kern_ap_terms(VNPU_SPACE_ACC, acc_dtype(shape), c->acc, list.term, list.count, false);
        rotate(c, &ap, plan->tile_level, plan->tile_buffers,
               kern_move_padded(c->tile_elems, VNPU_F32));
        break;
    case PLACE_OUT:
        ap = kern_ap_terms(VNPU_SPACE_SRAM, shape->out_dtype, c->sram_out, list.term, list.count,
                           false);
        rotate(c, &ap, plan->tile_level, plan->tile_buffers,
               kern_move_padded(c->tile_elems, shape->out_dtype));
        break;
    case PLACE_BIAS:
        for (uint32_t i = 0; i < list.count; i++)
            list.term[i].stride = list.term[i].axis == axis_of(c, CONV_N);
        ap = kern_ap_terms(VNPU_SPACE_SRAM, shape->bias_dtype, c->sram_bias, list.term, list.count,
                           false);
        rotate(c, &ap, plan->panel_level, plan->panel_buffers,
               kern_move_padded(axis_of(c, CONV_N)->tile, shape->bias_dtype));
        break;
    case PLACE_TEMP:
        ap = kern_ap_terms(VNPU_SPACE_SRAM, acc_dtype(shape), c->sram_temp, list.term, list.count,
                           false);
        break;
    }
    return ap;
}

static vnpu_insn_t *emit_vector(const coder_t *c, vnpu_op_t op, uint8_t func, place_t dst,
                                const place_t *src, uint32_t sources) {
    vnpu_ap_t ap[3] = {place_ap(c, dst)};
    vnpu_ap_t *list[3] = {&ap[0], &ap[1], &ap[2]};
    for (uint32_t s = 0; s < sources; s++)
        ap[s + 1] = place_ap(c, src[s]);
    kern_ap_merge(list, sources + 1, 0);
    vnpu_insn_t *insn = kern_emit(c->builder, KERN_VECTOR, op);
    insn->func = func;
    insn->dst = kern_ap(c->builder, &ap[0]);
    for (uint32_t s = 0; s < sources; s++)
        insn->src[s] = kern_ap(c->builder, &ap[s + 1]);
    if (acc_dtype(c->shape) == VNPU_I32) insn->flags |= VNPU_F_INTEGER;
    return insn;
}

static void emit_epilogue(const coder_t *c) {
    const kern_conv_shape_t *shape = c->shape;
    uint8_t activation = kern_gemm_activation(shape->activation);
    kern_sync_wait(c->builder, KERN_VECTOR, c->out.free, 1);
    /* In order: the accumulator is read by an instruction after this wait. */
    kern_sync_wait(c->builder, KERN_VECTOR, c->result.full, axis_of(c, CONV_C)->trips);
    vnpu_insn_t *insn;
    if (!shape->has_bias) {
        insn = emit_vector(c, VNPU_OP_V_UNARY, activation, PLACE_OUT, (place_t[]){PLACE_ACC}, 1);
        kern_signal(insn, c->result.free, 1);
        kern_signal(insn, c->out.full, 1);
        return;
    }
    bool has_activation = shape->activation != KERN_ACT_NONE;
    place_t middle = kern_conv_needs_temp(shape) ? PLACE_TEMP : PLACE_OUT;
    insn =
        emit_vector(c, VNPU_OP_V_BINARY, VNPU_B_ADD, middle, (place_t[]){PLACE_ACC, PLACE_BIAS}, 2);
    kern_signal(insn, c->result.free, 1);
    if (has_activation) insn = emit_vector(c, VNPU_OP_V_UNARY, activation, PLACE_OUT, &middle, 1);
    kern_signal(insn, c->out.full, 1);
}

static void emit_results(const coder_t *c) {
    if (kern_conv_is_direct(c->shape, c->plan)) {
        kern_sync_wait(c->builder, KERN_STORE, c->result.full, axis_of(c, CONV_C)->trips);
        kern_signal(store_out(c), c->result.free, 1);
        return;
    }
    emit_epilogue(c);
    vnpu_insn_t *store = store_out(c);
    kern_wait(store, c->out.full, 1);
    kern_signal(store, c->out.free, 1);
}

/* ---- bias in the accumulator ---- */

/* The bias of every result of a tile, block by block: what the products add to. */
static void load_bias_blocks(const coder_t *c) {
    const kern_conv_shape_t *shape = c->shape;
    uint32_t block = c->plan->bias_block;
    kern_axis_t blocks = *axis_of(c, CONV_N), inner = kern_axis_make(block, block);
    if (blocks.size % block != 0) { /* all of a tile is one */
        inner = blocks;
        blocks = kern_axis_make(1, 1);
    } else {
        blocks.size /= block;
        blocks.tile /= block;
    }
    int64_t far_n = shape->bias[CONV_N], near_n = c->tile_stride[CONV_N];
    int64_t near_block = c->plan->block > 0 ? c->tile_block : near_n * block;
    kern_term_t far[6] = {{axis_of(c, CONV_G), shape->bias[CONV_G], false},
                          {&blocks, far_n * block, false}};
    kern_term_t near[6] = {{axis_of(c, CONV_G), 0, false}, {&blocks, near_block, false}};
    uint32_t count = 2;
    for (uint32_t x = CONV_B; x <= CONV_W; x++, count++) {
        far[count] = (kern_term_t){axis_of(c, x), 0, x == CONV_W};
        near[count] = (kern_term_t){axis_of(c, x), c->tile_stride[x], x == CONV_W};
    }
    far[count] = (kern_term_t){&inner, far_n, true};
    near[count++] = (kern_term_t){&inner, near_n, true};
    vnpu_ap_t dram = kern_ap_terms(VNPU_SPACE_DRAM, shape->bias_dtype, 0, far, count, true);
    vnpu_ap_t acc = kern_ap_terms(VNPU_SPACE_ACC, acc_dtype(shape), c->acc, near, count, false);
    dram.arg = c->arg_bias;
    rotate(c, &acc, c->plan->tile_level, c->plan->tile_buffers,
           kern_move_padded(c->tile_elems, VNPU_F32));
    /* All loads of a tile begin when its part of the scratchpad is free, which the image takes. */
    if (c->plan->block > 0)
        kern_sync_wait(c->builder, KERN_LOAD, c->a.free, 1)->flags |= VNPU_F_NO_CONSUME;
    vnpu_insn_t *load = kern_emit(c->builder, KERN_LOAD, VNPU_OP_DMA_COPY);
    load->dst = kern_ap(c->builder, &acc);
    load->src[0] = kern_ap(c->builder, &dram);
    kern_wait(load, c->result.free, 1);
    kern_signal(load, c->c.full, 1);
    kern_sync_wait(c->builder, KERN_MATRIX, c->c.full, 1);
}

/* ---- program ---- */

static void place_operands(coder_t *c) {
    const kern_conv_shape_t *shape = c->shape;
    const kern_conv_plan_t *plan = c->plan;
    if (plan->block > 0) {
        kern_conv_blocks_place(c);
        return;
    }
    c->sram_in =
        kern_sram(c->builder,
                  plan->a_buffers * kern_align(c->image_elems * vnpu_dtype_bytes(shape->in_dtype)));
    c->sram_weight = kern_sram_far(
        c->builder,
        weight_buffers(plan) * kern_align(c->weight_elems * vnpu_dtype_bytes(shape->weight_dtype)));
}

static void declare(coder_t *c) {
    const kern_conv_shape_t *shape = c->shape;
    const kern_conv_plan_t *plan = c->plan;
    kern_builder_t *b = c->builder;
    c->arg_out = kern_arg(b, VNPU_ARG_OUT);
    c->arg_in = kern_arg(b, VNPU_ARG_IN);
    c->arg_weight = kern_arg(b, VNPU_ARG_IN);
    if (shape->has_bias) c->arg_bias = kern_arg(b, VNPU_ARG_IN);
    place_operands(c);
    bool is_direct = kern_conv_is_direct(shape, plan);
    if (!is_direct)
        c->sram_out = kern_sram(
            b, plan->tile_buffers * kern_align(c->tile_elems * vnpu_dtype_bytes(shape->out_dtype)));
    c->acc = kern_acc(b, plan->tile_buffers * kern_align(c->tile_elems * 4));
    bool has_row = shape->has_bias && plan->bias_block == 0;
    if (has_row)
        c->sram_bias =
            kern_sram(b, plan->panel_buffers * kern_align(axis_of(c, CONV_N)->tile *
                                                          vnpu_dtype_bytes(shape->bias_dtype)));
    if (kern_conv_needs_temp(shape)) c->sram_temp = kern_sram(b, c->tile_elems * 4);
    c->a = kern_ring(b, KERN_MATRIX, plan->a_buffers);
    c->result = kern_ring(b, consumer_of(c), plan->tile_buffers);
    if (!is_direct) c->out = kern_ring(b, KERN_STORE, plan->tile_buffers);
    if (plan->is_panel) c->b = kern_ring(b, consumer_of(c), plan->panel_buffers);
    if (has_row) c->c = kern_ring(b, KERN_VECTOR, plan->panel_buffers);
    if (plan->bias_block > 0) c->c.full = kern_sem(b);
}

static void open_axis(const coder_t *c, uint32_t x) {
    if (axis_of(c, x)->level != VNPU_NO_LOOP) kern_loop(c->builder, axis_of(c, x)->trips);
}
static void close_axis(const coder_t *c, uint32_t x) {
    if (axis_of(c, x)->level != VNPU_NO_LOOP) kern_end(c->builder);
}

static void emit_products(const coder_t *c) {
    kern_builder_t *b = c->builder;
    uint8_t pixel_loops =
        (uint8_t)(level_mask(axis_of(c, CONV_B)) | level_mask(axis_of(c, CONV_H)) |
                  level_mask(axis_of(c, CONV_W)));
    if (c->plan->bias_block > 0) {
        load_bias_blocks(c);
    } else {
        kern_sync_wait(b, KERN_MATRIX, c->result.free, 1);
    }
    open_axis(c, CONV_C);
    if (c->plan->is_panel) {
        vnpu_insn_t *load = load_weights(c);
        load->first_only = pixel_loops;
        kern_signal(load, c->b.full, 1);
        kern_sync_wait(b, KERN_MATRIX, c->b.full, 1)->first_only = pixel_loops;
    }
    vnpu_insn_t *load = load_image(c);
    kern_wait(load, c->a.free, 1);
    kern_signal(load, c->a.full, 1);
    if (!c->plan->is_panel) kern_signal(load_weights(c), c->a.full, 1);
    if (c->plan->block > 0) {
        kern_conv_blocks_products(c);
    } else {
        emit_mm(c);
    }
    close_axis(c, CONV_C);
}

void kern_conv_generate(const kern_conv_shape_t *shape, const kern_conv_plan_t *plan,
                        kern_builder_t *builder) {
    coder_t c = coder_of(shape, plan);
    c.builder = builder;
    declare(&c);
    open_axis(&c, CONV_G);
    if (!plan->has_inner_n) open_axis(&c, CONV_N);
    bool has_row = shape->has_bias && plan->bias_block == 0;
    if (has_row) {
        vnpu_insn_t *load = load_bias(&c);
        kern_wait(load, c.c.free, 1);
        kern_signal(load, c.c.full, 1);
        kern_sync_wait(builder, KERN_VECTOR, c.c.full, 1);
    }
    if (plan->is_panel) kern_sync_wait(builder, KERN_LOAD, c.b.free, 1);
    for (uint32_t x = CONV_B; x <= CONV_W; x++)
        open_axis(&c, x);
    if (plan->has_inner_n) open_axis(&c, CONV_N);
    emit_products(&c);
    emit_results(&c);
    if (plan->has_inner_n) close_axis(&c, CONV_N);
    for (uint32_t x = CONV_B; x <= CONV_W; x++)
        close_axis(&c, x);
    /* Every product with this panel is done (the epilogue waited for it), and so is every use of
     * the bias. */
    if (plan->is_panel || has_row) {
        vnpu_insn_t *fence = kern_emit(builder, consumer_of(&c), VNPU_OP_FENCE);
        if (plan->is_panel) kern_signal(fence, c.b.free, 1);
        if (has_row) kern_signal(fence, c.c.free, 1);
    }
    if (!plan->has_inner_n) close_axis(&c, CONV_N);
    close_axis(&c, CONV_G);
}
