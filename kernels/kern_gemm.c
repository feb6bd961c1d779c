#include <string.h>

#include "kernels/kern_gemm_plan.h"
#include "kernels/kern_internal.h"

typedef struct coder {
    const kern_gemm_shape_t *shape;
    const kern_gemm_plan_t *plan;
    kern_builder_t *builder;
    uint8_t arg_a, arg_b, arg_c, arg_out, arg_alpha, arg_beta;
    uint32_t sram_a, sram_b, sram_c, sram_out, sram_temp, acc;
    kern_ring_t a, b, c, result,
        out;           /* a: what streams; b, c: panel and bias, or full tiles of c */
    kern_ring_t fixed; /* rows that stay */
} coder_t;

static const kern_axis_t *axis_of(const coder_t *c, uint32_t x) {
    return &c->plan->axis[x];
}
static uint8_t level_mask(const kern_axis_t *axis) {
    return axis->level == VNPU_NO_LOOP ? 0 : (uint8_t)(1u << axis->level);
}
static uint64_t padded(uint64_t elems, vnpu_dtype_t dtype) { /* elements between buffers */
    return kern_align(elems * vnpu_dtype_bytes(dtype)) / vnpu_dtype_bytes(dtype);
}
static vnpu_dtype_t acc_dtype(const kern_gemm_shape_t *shape) {
    return kern_dtype_is_float(shape->a_dtype) ? VNPU_F32 : VNPU_I32;
}

/* ---- moves ---- */

/* Copies between a matrix in DRAM (strides over b, rows, cols) and a tile with row stride `pitch`,
 * walking DRAM's shorter stride innermost. b_clip: the batch axis stays in the pattern when it is
 * clipped. */
typedef struct move {
    uint8_t arg;
    vnpu_dtype_t dtype;
    const kern_axis_t *batch, *rows, *cols;
    int64_t stride[3];
    uint32_t sram;
    int64_t row_pitch; /* 0: rows are not stored (a broadcast row) */
    uint8_t level;
    uint32_t buffers;
    uint64_t buffer_elems;
} move_t;

static vnpu_insn_t *emit_move(const coder_t *c, kern_queue_t queue, const move_t *move) {
    bool is_turned = move->row_pitch != 0 && move->stride[2] > move->stride[1] &&
                     move->rows->tile > 1 && move->stride[1] != 0;
    kern_term_t far[3] = {{move->batch, move->stride[0], false}};
    kern_term_t near[3] = {{move->batch, 0, false}};
    uint32_t count = 1;
    for (uint32_t i = 0; i < 2; i++) {
        bool is_row = (i == 0) != is_turned;
        if (is_row && move->row_pitch == 0) continue;
        far[count] =
            (kern_term_t){is_row ? move->rows : move->cols, move->stride[is_row ? 1 : 2], false};
        near[count] = (kern_term_t){far[count].axis, is_row ? move->row_pitch : 1, false};
        count++;
    }
    vnpu_ap_t dram = kern_ap_terms(VNPU_SPACE_DRAM, move->dtype, 0, far, count, true);
    vnpu_ap_t sram = kern_ap_terms(VNPU_SPACE_SRAM, move->dtype, move->sram, near, count, false);
    dram.arg = move->arg;
    kern_ap_rotate(&sram, move->level, move->buffers, move->buffer_elems);
    kern_ap_merge((vnpu_ap_t *[]){&dram, &sram}, 2, 0);
    vnpu_insn_t *insn =
        kern_emit(c->builder, queue, is_turned ? VNPU_OP_DMA_TRANSPOSE : VNPU_OP_DMA_COPY);
    bool is_store = queue == KERN_STORE;
    insn->dst = kern_ap(c->builder, is_store ? &dram : &sram);
    insn->src[0] = kern_ap(c->builder, is_store ? &sram : &dram);
    return insn;
}

static uint64_t weight_elems(const coder_t *c) {
    uint64_t elems = (uint64_t)axis_of(c, GEMM_K)->tile * axis_of(c, GEMM_N)->tile;
    return c->plan->is_panel ? elems * axis_of(c, GEMM_K)->trips : elems;
}

/* Elements of a row of the a buffer, and of a buffer. */
static uint64_t a_pitch(const coder_t *c) {
    const kern_axis_t *k = axis_of(c, GEMM_K);
    return c->plan->is_a_fixed ? (uint64_t)k->tile * k->trips : k->tile;
}
static uint64_t a_elems(const coder_t *c) {
    return axis_of(c, GEMM_M)->tile * a_pitch(c);
}
static uint8_t a_level(const coder_t *c) {
    return c->plan->is_a_fixed ? axis_of(c, GEMM_B)->level : c->plan->a_level;
}
static uint32_t a_buffers(const coder_t *c) {
    return c->plan->is_a_fixed ? c->plan->fixed_buffers : c->plan->a_buffers;
}

static vnpu_insn_t *load_a(const coder_t *c) {
    const kern_axis_t *k = axis_of(c, GEMM_K);
    kern_axis_t all = kern_axis_make(k->size, k->size);
    move_t move = {c->arg_a,
                   c->shape->a_dtype,
                   axis_of(c, GEMM_B),
                   axis_of(c, GEMM_M),
                   c->plan->is_a_fixed ? &all : k,
                   {c->shape->a[0], c->shape->a[1], c->shape->a[2]},
                   c->sram_a,
                   (int64_t)a_pitch(c),
                   a_level(c),
                   a_buffers(c),
                   padded(a_elems(c), c->shape->a_dtype)};
    return emit_move(c, KERN_LOAD, &move);
}

/* The panel's k tiles follow each other. */
static void walk_panel(const coder_t *c, vnpu_ap_t *ap) {
    const kern_axis_t *k = axis_of(c, GEMM_K);
    if (!c->plan->is_panel || k->level == VNPU_NO_LOOP) return;
    ap->loop_inc[k->level] = (int32_t)(k->tile * axis_of(c, GEMM_N)->tile);
}

static vnpu_insn_t *load_b(const coder_t *c) {
    const kern_axis_t *n = axis_of(c, GEMM_N), *k = axis_of(c, GEMM_K);
    bool is_panel = c->plan->is_panel;
    move_t move = {c->arg_b,
                   c->shape->b_dtype,
                   axis_of(c, GEMM_B),
                   k,
                   n,
                   {c->shape->b[0], c->shape->b[1], c->shape->b[2]},
                   c->sram_b,
                   n->tile,
                   is_panel ? c->plan->panel_level : c->plan->a_level,
                   is_panel ? c->plan->panel_buffers : c->plan->a_buffers,
                   padded(weight_elems(c), c->shape->b_dtype)};
    vnpu_insn_t *insn = emit_move(c, KERN_LOAD, &move);
    vnpu_ap_t sram = kern_ap_of(c->builder, insn->dst);
    walk_panel(c, &sram);
    insn->dst = kern_ap(c->builder, &sram);
    return insn;
}

static vnpu_insn_t *load_c(const coder_t *c) {
    const kern_axis_t *m = axis_of(c, GEMM_M), *n = axis_of(c, GEMM_N);
    bool is_row = kern_gemm_has_row(c->shape);
    move_t move = {c->arg_c,
                   c->shape->c_dtype,
                   axis_of(c, GEMM_B),
                   m,
                   n,
                   {c->shape->c[0], c->shape->c[1], c->shape->c[2]},
                   c->sram_c,
                   is_row ? 0 : n->tile,
                   is_row ? c->plan->panel_level : c->plan->tile_level,
                   is_row ? c->plan->panel_buffers : c->plan->tile_buffers,
                   padded(is_row ? n->tile : (uint64_t)m->tile * n->tile, c->shape->c_dtype)};
    return emit_move(c, KERN_LOAD, &move);
}

static vnpu_insn_t *store_out(const coder_t *c) {
    const kern_axis_t *m = axis_of(c, GEMM_M), *n = axis_of(c, GEMM_N);
    move_t move = {c->arg_out,
                   c->shape->out_dtype,
                   axis_of(c, GEMM_B),
                   m,
                   n,
                   {c->shape->out[0], c->shape->out[1], c->shape->out[2]},
                   c->sram_out,
                   n->tile,
                   c->plan->tile_level,
                   c->plan->tile_buffers,
                   padded((uint64_t)m->tile * n->tile, c->shape->out_dtype)};
    return emit_move(c, KERN_STORE, &move);
}

/* ---- array ---- */

static void emit_mm(const coder_t *c) {
    const kern_gemm_plan_t *plan = c->plan;
    const kern_axis_t *b = axis_of(c, GEMM_B), *m = axis_of(c, GEMM_M), *n = axis_of(c, GEMM_N),
                      *k = axis_of(c, GEMM_K);
    kern_term_t left[3] = {{b, 0, false}, {m, (int64_t)a_pitch(c), true}, {k, 1, true}};
    kern_term_t right[2] = {{k, n->tile, true}, {n, 1, true}};
    kern_term_t result[3] = {{b, 0, false}, {m, n->tile, true}, {n, 1, true}};
    vnpu_ap_t ap_a = kern_ap_terms(VNPU_SPACE_SRAM, c->shape->a_dtype, c->sram_a, left, 3, false);
    vnpu_ap_t ap_b = kern_ap_terms(VNPU_SPACE_SRAM, c->shape->b_dtype, c->sram_b, right, 2, false);
    vnpu_ap_t ap_d = kern_ap_terms(VNPU_SPACE_ACC, acc_dtype(c->shape), c->acc, result, 3, false);
    kern_ap_rotate(&ap_a, a_level(c), a_buffers(c), padded(a_elems(c), c->shape->a_dtype));
    if (plan->is_a_fixed && k->level != VNPU_NO_LOOP) ap_a.loop_inc[k->level] = (int32_t)k->tile;
    kern_ap_rotate(&ap_b, plan->is_panel ? plan->panel_level : plan->a_level,
                   plan->is_panel ? plan->panel_buffers : plan->a_buffers,
                   padded(weight_elems(c), c->shape->b_dtype));
    walk_panel(c, &ap_b);
    kern_ap_rotate(&ap_d, plan->tile_level, plan->tile_buffers,
                   padded((uint64_t)m->tile * n->tile, VNPU_F32));
    vnpu_insn_t *insn = kern_emit(c->builder, KERN_MATRIX, VNPU_OP_MM);
    insn->dst = kern_ap(c->builder, &ap_d);
    insn->src[0] = kern_ap(c->builder, &ap_a);
    insn->src[1] = kern_ap(c->builder, &ap_b);
    insn->not_first = level_mask(k);
    kern_wait(insn, c->a.full, plan->is_panel || plan->is_a_fixed ? 1 : 2);
    kern_signal(insn, c->a.free, 1);
    kern_signal(insn, c->result.full, 1);
}

/* ---- epilogue ---- */

typedef enum place { PLACE_ACC, PLACE_C, PLACE_TEMP, PLACE_OUT, PLACE_ALPHA, PLACE_BETA } place_t;

static vnpu_ap_t place_ap(const coder_t *c, place_t place) {
    const kern_gemm_plan_t *plan = c->plan;
    const kern_gemm_shape_t *shape = c->shape;
    const kern_axis_t *m = axis_of(c, GEMM_M), *n = axis_of(c, GEMM_N);
    uint64_t tile = (uint64_t)m->tile * n->tile;
    kern_term_t term[3] = {{axis_of(c, GEMM_B), 0, false}, {m, n->tile, false}, {n, 1, false}};
    vnpu_ap_t ap = {0};
    switch (place) {
    case PLACE_ACC:
        ap = kern_ap_terms(VNPU_SPACE_ACC, acc_dtype(shape), c->acc, term, 3, false);
        kern_ap_rotate(&ap, plan->tile_level, plan->tile_buffers, padded(tile, VNPU_F32));
        break;
    case PLACE_OUT:
        ap = kern_ap_terms(VNPU_SPACE_SRAM, shape->out_dtype, c->sram_out, term, 3, false);
        kern_ap_rotate(&ap, plan->tile_level, plan->tile_buffers, padded(tile, shape->out_dtype));
        break;
    case PLACE_C:
        if (kern_gemm_has_row(shape)) term[1].stride = 0;
        ap = kern_ap_terms(VNPU_SPACE_SRAM, shape->c_dtype, c->sram_c, term, 3, false);
        if (kern_gemm_has_row(shape)) {
            kern_ap_rotate(&ap, plan->panel_level, plan->panel_buffers,
                           padded(n->tile, shape->c_dtype));
        } else {
            kern_ap_rotate(&ap, plan->tile_level, plan->tile_buffers, padded(tile, shape->c_dtype));
        }
        break;
    case PLACE_TEMP:
        ap = kern_ap_terms(VNPU_SPACE_SRAM, VNPU_F32, c->sram_temp, term, 3, false);
        break;
    case PLACE_ALPHA:
    case PLACE_BETA:
        term[1].stride = term[2].stride = 0;
        ap = kern_ap_terms(VNPU_SPACE_ARG, VNPU_F32,
                           8 * (int64_t)(place == PLACE_ALPHA ? c->arg_alpha : c->arg_beta), term,
                           3, false);
        break;
    }
    return ap;
}

static vnpu_insn_t *emit_vector(const coder_t *c, vnpu_op_t op, place_t dst, const place_t *src,
                                uint32_t sources) {
    vnpu_ap_t ap[4] = {place_ap(c, dst)};
    vnpu_ap_t *list[4] = {&ap[0], &ap[1], &ap[2], &ap[3]};
    for (uint32_t s = 0; s < sources; s++)
        ap[s + 1] = place_ap(c, src[s]);
    kern_ap_merge(list, sources + 1, 0);
    vnpu_insn_t *insn = kern_emit(c->builder, KERN_VECTOR, op);
    insn->dst = kern_ap(c->builder, &ap[0]);
    for (uint32_t s = 0; s < sources; s++)
        insn->src[s] = kern_ap(c->builder, &ap[s + 1]);
    if (acc_dtype(c->shape) == VNPU_I32) insn->flags |= VNPU_F_INTEGER;
    return insn;
}

static uint8_t activation_func(kern_activation_t activation) {
    switch (activation) {
    case KERN_ACT_NONE: return VNPU_U_COPY;
    case KERN_ACT_RELU: return VNPU_U_RELU;
    case KERN_ACT_GELU_ERF: return VNPU_U_GELU_ERF;
    case KERN_ACT_GELU_TANH: return VNPU_U_GELU_TANH;
    case KERN_ACT_SILU: return VNPU_U_SILU;
    case KERN_ACT_TANH: return VNPU_U_TANH;
    }
    return VNPU_U_COPY;
}

/* alpha * acc + beta * c into `dst`; returns the instruction that reads the accumulator. */
static vnpu_insn_t *emit_scale(const coder_t *c, place_t dst) {
    const kern_gemm_shape_t *shape = c->shape;
    vnpu_insn_t *insn;
    if (!shape->has_c) {
        insn = emit_vector(c, VNPU_OP_V_BINARY, dst, (place_t[]){PLACE_ACC, PLACE_ALPHA}, 2);
        insn->func = VNPU_B_MUL;
        return insn;
    }
    if (!shape->has_alpha && !shape->has_beta) {
        insn = emit_vector(c, VNPU_OP_V_BINARY, dst, (place_t[]){PLACE_ACC, PLACE_C}, 2);
        insn->func = VNPU_B_ADD;
        return insn;
    }
    place_t addend = PLACE_C;
    if (shape->has_alpha && shape->has_beta) {
        insn = emit_vector(c, VNPU_OP_V_BINARY, PLACE_TEMP, (place_t[]){PLACE_C, PLACE_BETA}, 2);
        insn->func = VNPU_B_MUL;
        addend = PLACE_TEMP;
    }
    place_t scaled[3] = {PLACE_ACC, PLACE_ALPHA, addend};
    if (!shape->has_alpha) {
        scaled[0] = PLACE_C;
        scaled[1] = PLACE_BETA;
        scaled[2] = PLACE_ACC;
    }
    insn = emit_vector(c, VNPU_OP_V_BINARY, dst, scaled, 3);
    insn->func = VNPU_B_MUL;
    insn->func2 = VNPU_B_ADD;
    return insn;
}

static void emit_epilogue(const coder_t *c) {
    const kern_gemm_shape_t *shape = c->shape;
    bool has_scale = shape->has_c || shape->has_alpha;
    bool has_activation = shape->activation != KERN_ACT_NONE;
    bool has_full_c = shape->has_c && !kern_gemm_has_row(shape);
    if (has_full_c) kern_sync_wait(c->builder, KERN_VECTOR, c->c.full, 1);
    kern_sync_wait(c->builder, KERN_VECTOR, c->out.free, 1);
    /* In order: the accumulator is read by an instruction after this wait. */
    kern_sync_wait(c->builder, KERN_VECTOR, c->result.full, axis_of(c, GEMM_K)->trips);
    vnpu_insn_t *insn;
    if (has_scale) {
        bool is_wide = has_activation && shape->out_dtype != VNPU_F32;
        place_t middle = is_wide ? PLACE_TEMP : PLACE_OUT;
        insn = emit_scale(c, middle);
        kern_signal(insn, c->result.free, 1);
        if (has_full_c) kern_signal(insn, c->c.free, 1);
        if (!has_activation) {
            if (has_full_c) {
                kern_signal(kern_emit(c->builder, KERN_VECTOR, VNPU_OP_FENCE), c->out.full, 1);
            } else {
                kern_signal(insn, c->out.full, 1);
            }
            return;
        }
        insn = emit_vector(c, VNPU_OP_V_UNARY, PLACE_OUT, &middle, 1);
    } else {
        insn = emit_vector(c, VNPU_OP_V_UNARY, PLACE_OUT, (place_t[]){PLACE_ACC}, 1);
        kern_signal(insn, c->result.free, 1);
    }
    insn->func = activation_func(shape->activation);
    kern_signal(insn, c->out.full, 1);
}

/* ---- program ---- */

static void declare(coder_t *c) {
    const kern_gemm_shape_t *shape = c->shape;
    const kern_gemm_plan_t *plan = c->plan;
    kern_builder_t *b = c->builder;
    uint64_t m = axis_of(c, GEMM_M)->tile, n = axis_of(c, GEMM_N)->tile;
    c->arg_out = kern_arg(b, VNPU_ARG_OUT);
    c->arg_a = kern_arg(b, VNPU_ARG_IN);
    c->arg_b = kern_arg(b, VNPU_ARG_IN);
    if (shape->has_c) c->arg_c = kern_arg(b, VNPU_ARG_IN);
    if (shape->has_alpha) c->arg_alpha = kern_arg(b, VNPU_ARG_SCALAR);
    if (shape->has_beta) c->arg_beta = kern_arg(b, VNPU_ARG_SCALAR);
    uint32_t weight_buffers = plan->is_panel ? plan->panel_buffers : plan->a_buffers;
    c->sram_a =
        kern_sram(b, a_buffers(c) * kern_align(a_elems(c) * vnpu_dtype_bytes(shape->a_dtype)));
    c->sram_b = kern_sram(b, weight_buffers *
                                 kern_align(weight_elems(c) * vnpu_dtype_bytes(shape->b_dtype)));
    c->sram_out =
        kern_sram(b, plan->tile_buffers * kern_align(m * n * vnpu_dtype_bytes(shape->out_dtype)));
    c->acc = kern_acc(b, plan->tile_buffers * kern_align(m * n * 4));
    bool is_row = kern_gemm_has_row(shape);
    uint32_t c_buffers = is_row ? plan->panel_buffers : plan->tile_buffers;
    if (shape->has_c)
        c->sram_c = kern_sram(
            b, c_buffers * kern_align((is_row ? n : m * n) * vnpu_dtype_bytes(shape->c_dtype)));
    if (kern_gemm_needs_temp(shape)) c->sram_temp = kern_sram(b, m * n * 4);
    c->a = kern_ring(b, KERN_MATRIX, plan->a_buffers);
    c->result = kern_ring(b, KERN_VECTOR, plan->tile_buffers);
    c->out = kern_ring(b, KERN_STORE, plan->tile_buffers);
    if (plan->is_a_fixed) c->fixed = kern_ring(b, KERN_VECTOR, plan->fixed_buffers);
    if (plan->is_panel) c->b = kern_ring(b, KERN_VECTOR, plan->panel_buffers);
    if (shape->has_c) c->c = kern_ring(b, KERN_VECTOR, c_buffers);
}

static void open_axis(const coder_t *c, uint32_t x) {
    if (axis_of(c, x)->level != VNPU_NO_LOOP) kern_loop(c->builder, axis_of(c, x)->trips);
}
static void close_axis(const coder_t *c, uint32_t x) {
    if (axis_of(c, x)->level != VNPU_NO_LOOP) kern_end(c->builder);
}

static void emit_products(const coder_t *c) {
    kern_builder_t *b = c->builder;
    uint8_t row_loop = level_mask(axis_of(c, GEMM_M));
    kern_sync_wait(b, KERN_MATRIX, c->result.free, 1);
    open_axis(c, GEMM_K);
    if (c->plan->is_panel) {
        vnpu_insn_t *load = load_b(c);
        load->first_only = row_loop;
        kern_signal(load, c->b.full, 1);
        kern_sync_wait(b, KERN_MATRIX, c->b.full, 1)->first_only = row_loop;
    }
    vnpu_insn_t *load = c->plan->is_a_fixed ? load_b(c) : load_a(c);
    kern_wait(load, c->a.free, 1);
    kern_signal(load, c->a.full, 1);
    if (!c->plan->is_panel && !c->plan->is_a_fixed) kern_signal(load_b(c), c->a.full, 1);
    emit_mm(c);
    close_axis(c, GEMM_K);
}

static void generate(const kern_gemm_shape_t *shape, const kern_gemm_plan_t *plan,
                     kern_builder_t *builder) {
    coder_t c = {.shape = shape, .plan = plan, .builder = builder};
    declare(&c);
    bool has_row = kern_gemm_has_row(shape);
    open_axis(&c, GEMM_B);
    if (plan->is_a_fixed) {
        vnpu_insn_t *load = load_a(&c);
        kern_wait(load, c.fixed.free, 1);
        kern_signal(load, c.fixed.full, 1);
        kern_sync_wait(builder, KERN_MATRIX, c.fixed.full, 1);
    }
    open_axis(&c, GEMM_N);
    if (has_row) {
        vnpu_insn_t *load = load_c(&c);
        kern_wait(load, c.c.free, 1);
        kern_signal(load, c.c.full, 1);
        kern_sync_wait(builder, KERN_VECTOR, c.c.full, 1);
    }
    if (plan->is_panel) kern_sync_wait(builder, KERN_LOAD, c.b.free, 1);
    open_axis(&c, GEMM_M);
    emit_products(&c);
    if (shape->has_c && !has_row) {
        vnpu_insn_t *load = load_c(&c);
        kern_wait(load, c.c.free, 1);
        kern_signal(load, c.c.full, 1);
    }
    emit_epilogue(&c);
    vnpu_insn_t *store = store_out(&c);
    kern_wait(store, c.out.full, 1);
    kern_signal(store, c.out.free, 1);
    close_axis(&c, GEMM_M);
    /* Every product with this panel is done (the epilogue waited for it), and so is every use of
     * the bias. */
    if (plan->is_panel || has_row) {
        vnpu_insn_t *fence = kern_emit(builder, KERN_VECTOR, VNPU_OP_FENCE);
        if (plan->is_panel) kern_signal(fence, c.b.free, 1);
        if (has_row) kern_signal(fence, c.c.free, 1);
    }
    close_axis(&c, GEMM_N);
    if (plan->is_a_fixed)
        kern_sync_signal(builder, KERN_VECTOR, c.fixed.free, 1); /* its products were waited for */
    close_axis(&c, GEMM_B);
}

static void make_key(const kern_gemm_shape_t *s, kern_key_t *key) {
    kern_key_init(key, "gemm");
    kern_key_add(key, s->size, sizeof s->size);
    kern_key_add(key, s->a, sizeof s->a);
    kern_key_add(key, s->b, sizeof s->b);
    kern_key_add(key, s->out, sizeof s->out);
    if (s->has_c) kern_key_add(key, s->c, sizeof s->c);
    kern_key_add_u64(key, (uint64_t)s->a_dtype | (uint64_t)s->b_dtype << 8 |
                              (uint64_t)s->out_dtype << 16 | (uint64_t)s->c_dtype << 24 |
                              (uint64_t)s->has_c << 32 | (uint64_t)s->has_alpha << 33 |
                              (uint64_t)s->has_beta << 34 | (uint64_t)s->activation << 40);
}

static vnpu_status_t get_program(kern_context_t *context, const kern_gemm_shape_t *shape,
                                 const kern_entry_t **out_entry) {
    kern_key_t key;
    make_key(shape, &key);
    *out_entry = kern_cache_find(&context->cache, &key);
    if (*out_entry) return VNPU_OK;
    kern_gemm_plan_t plan;
    if (!kern_gemm_choose(&context->machine, shape, &plan)) {
        return kern_fail(
            context, VNPU_ERROR_UNSUPPORTED,
            "gemm: no tile of %lld x %lld x %lld fits %llu bytes of SRAM and %llu of accumulator",
            (long long)shape->size[GEMM_M], (long long)shape->size[GEMM_K],
            (long long)shape->size[GEMM_N], (unsigned long long)context->machine.sram_bytes,
            (unsigned long long)context->machine.acc_bytes);
    }
    kern_builder_t builder;
    kern_builder_init(&builder, &context->machine, "gemm");
    generate(shape, &plan, &builder);
    vnpu_status_t status = kern_add_program(context, &key, &builder, plan.grid, out_entry);
    kern_builder_fini(&builder);
    return status;
}

/* ---- calls ---- */

typedef struct operands {
    vnpu_addr_t out, a, b, c;
    double alpha, beta;
} operands_t;

/* Cuts what one program cannot reach. */
static int64_t reach(const kern_gemm_shape_t *s, uint32_t x) {
    int64_t last = s->size[x] - 1, most = 0;
    int64_t stride[4] = {0};
    switch (x) {
    case GEMM_B:
        stride[0] = s->a[0], stride[1] = s->b[0], stride[2] = s->out[0], stride[3] = s->c[0];
        break;
    case GEMM_M: stride[0] = s->a[1], stride[2] = s->out[1], stride[3] = s->c[1]; break;
    case GEMM_N: stride[1] = s->b[2], stride[2] = s->out[2], stride[3] = s->c[2]; break;
    default: stride[0] = s->a[2], stride[1] = s->b[1]; break;
    }
    for (int i = 0; i < 4; i++) {
        if (last * stride[i] > most) most = last * stride[i];
    }
    return most;
}

static vnpu_status_t launch(kern_context_t *context, vnpu_stream_t stream,
                            const kern_gemm_shape_t *shape, const operands_t *at) {
    const kern_entry_t *entry;
    vnpu_status_t status = get_program(context, shape, &entry);
    if (status != VNPU_OK) return status;
    uint64_t args[6] = {at->out, at->a, at->b};
    uint32_t count = 3;
    if (shape->has_c) args[count++] = at->c;
    if (shape->has_alpha) args[count++] = kern_arg_f32(at->alpha);
    if (shape->has_beta) args[count++] = kern_arg_f32(at->beta);
    return kern_launch(context, stream, entry, args, count);
}

static vnpu_status_t run(kern_context_t *context, vnpu_stream_t stream,
                         const kern_gemm_shape_t *shape, const operands_t *at) {
    uint32_t longest = GEMM_B;
    int64_t total = 0;
    for (uint32_t x = 0; x < GEMM_AXES; x++) {
        total += reach(shape, x);
        if (x != GEMM_K && reach(shape, x) > reach(shape, longest)) longest = x;
    }
    if (total < KERN_MAX_SPAN) return launch(context, stream, shape, at);
    if (shape->size[longest] == 1)
        return kern_fail(context, VNPU_ERROR_UNSUPPORTED,
                         "gemm: a row of K = %lld elements is too long",
                         (long long)shape->size[GEMM_K]);
    int64_t half = (shape->size[longest] + 1) / 2;
    for (int64_t from = 0; from < shape->size[longest]; from += half) {
        kern_gemm_shape_t part = *shape;
        operands_t moved = *at;
        part.size[longest] =
            shape->size[longest] - from < half ? shape->size[longest] - from : half;
        int32_t ia = longest == GEMM_B ? 0 : longest == GEMM_M ? 1 : -1;
        int32_t ib = longest == GEMM_B ? 0 : longest == GEMM_N ? 2 : -1;
        uint32_t io = longest == GEMM_B ? 0 : longest == GEMM_M ? 1 : 2;
        if (ia >= 0) moved.a += (uint64_t)(from * shape->a[ia]) * vnpu_dtype_bytes(shape->a_dtype);
        if (ib >= 0) moved.b += (uint64_t)(from * shape->b[ib]) * vnpu_dtype_bytes(shape->b_dtype);
        moved.out += (uint64_t)(from * shape->out[io]) * vnpu_dtype_bytes(shape->out_dtype);
        if (shape->has_c)
            moved.c += (uint64_t)(from * shape->c[io]) * vnpu_dtype_bytes(shape->c_dtype);
        vnpu_status_t status = run(context, stream, &part, &moved);
        if (status != VNPU_OK) return status;
    }
    return VNPU_OK;
}

static void read_strides(const kern_tensor_t *t, int64_t out[3]) {
    uint32_t first = t->ndims - 2;
    out[0] = first == 1 && t->size[0] > 1 ? t->stride[0] : 0;
    out[1] = t->size[first] > 1 ? t->stride[first] : 0;
    out[2] = t->size[first + 1] > 1 ? t->stride[first + 1] : 0;
}

/* A batch whose rows continue each other in every operand is one taller matrix. */
static void merge_batch(kern_gemm_shape_t *s) {
    int64_t m = s->size[GEMM_M];
    if (s->size[GEMM_B] == 1 || s->b[0] != 0) return;
    bool has_rows = s->a[0] == s->a[1] * m && s->out[0] == s->out[1] * m && s->c[0] == s->c[1] * m;
    if (m == 1) {
        s->a[1] = s->a[0], s->out[1] = s->out[0], s->c[1] = s->c[0];
    } else if (!has_rows) {
        return;
    }
    s->size[GEMM_M] = m * s->size[GEMM_B];
    s->size[GEMM_B] = 1;
    s->a[0] = s->out[0] = s->c[0] = 0;
}

/* out = (b^T a^T)^T when out's columns are its contiguous direction. */
static void turn(kern_gemm_shape_t *s, operands_t *at) {
    kern_gemm_shape_t t = *s;
    t.size[GEMM_M] = s->size[GEMM_N], t.size[GEMM_N] = s->size[GEMM_M];
    t.a[0] = s->b[0], t.a[1] = s->b[2], t.a[2] = s->b[1];
    t.b[0] = s->a[0], t.b[1] = s->a[2], t.b[2] = s->a[1];
    t.out[1] = s->out[2], t.out[2] = s->out[1];
    t.c[1] = s->c[2], t.c[2] = s->c[1];
    t.a_dtype = s->b_dtype, t.b_dtype = s->a_dtype;
    vnpu_addr_t a = at->a;
    at->a = at->b;
    at->b = a;
    *s = t;
}

static vnpu_status_t check_operands(kern_context_t *context, const kern_gemm_t *call) {
    const kern_tensor_t *t[4] = {&call->out, &call->a, &call->b, &call->c};
    static const char *const name[4] = {"out", "a", "b", "c"};
    for (int i = 0; i < (call->c.address ? 4 : 3); i++) {
        vnpu_status_t status = kern_check_tensor(context, "gemm", name[i], t[i]);
        if (status != VNPU_OK) return status;
        if (t[i]->ndims < 2 || t[i]->ndims > 3)
            return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                             "gemm: %s has %u dimensions, 2 or 3 are needed", name[i], t[i]->ndims);
    }
    return VNPU_OK;
}

static vnpu_status_t check_sizes(kern_context_t *context, const kern_gemm_t *call) {
    const kern_tensor_t *o = &call->out, *a = &call->a, *b = &call->b, *c = &call->c;
    int64_t batch = o->ndims == 3 ? o->size[0] : 1;
    bool is_right = a->size[a->ndims - 2] == o->size[o->ndims - 2] &&
                    a->size[a->ndims - 1] == b->size[b->ndims - 2] &&
                    b->size[b->ndims - 1] == o->size[o->ndims - 1];
    const kern_tensor_t *t[2] = {a, b};
    for (int i = 0; i < 2; i++)
        is_right = is_right && (t[i]->ndims == 2 || t[i]->size[0] == batch || t[i]->size[0] == 1);
    if (c->address != 0) {
        is_right = is_right && (c->ndims == 2 || c->size[0] == batch || c->size[0] == 1);
        for (uint32_t i = 1; i <= 2; i++) {
            int64_t size = c->size[c->ndims - i];
            is_right = is_right && (size == o->size[o->ndims - i] || size == 1);
        }
    }
    if (is_right) return VNPU_OK;
    char ta[160], tb[160], to[160];
    return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                     "gemm: sizes do not agree: out %s, a %s, b %s",
                     kern_describe(o, to, sizeof to), kern_describe(a, ta, sizeof ta),
                     kern_describe(b, tb, sizeof tb));
}

static vnpu_status_t check_types(kern_context_t *context, const kern_gemm_t *call) {
    vnpu_dtype_t a = call->a.dtype, b = call->b.dtype;
    bool is_int8 = (a == VNPU_I8 || a == VNPU_U8) && (b == VNPU_I8 || b == VNPU_U8);
    bool is_possible = is_int8 || (kern_dtype_is_float(a) && a == b);
    if (!is_possible || context->machine.matrix_rate_num[a] == 0 ||
        context->machine.matrix_rate_num[b] == 0) {
        return kern_fail(context, VNPU_ERROR_UNSUPPORTED,
                         "gemm: the matrix unit of %s has no %s by %s", context->machine.name,
                         kern_dtype_name(a), kern_dtype_name(b));
    }
    bool is_scaled = call->alpha != 1 || (call->c.address && call->beta != 1 && call->beta != 0) ||
                     call->activation != KERN_ACT_NONE;
    if (is_int8 && is_scaled)
        return kern_fail(context, VNPU_ERROR_UNSUPPORTED,
                         "gemm: %s by %s with alpha, beta or an activation", kern_dtype_name(a),
                         kern_dtype_name(b));
    if ((unsigned)call->activation > KERN_ACT_TANH)
        return kern_fail(context, VNPU_ERROR_INVALID_VALUE, "gemm: activation %d",
                         (int)call->activation);
    return VNPU_OK;
}

/* No products at all: out = act(beta * c). */
static vnpu_status_t run_empty_sum(kern_context_t *context, vnpu_stream_t stream,
                                   const kern_gemm_t *call, bool has_c) {
    if (!has_c) {
        /* act(0) is 0 for every activation there is */
        return kern_fill(context, stream, &call->out, 0, 0);
    }
    kern_pointwise_t p = {.name = "gemm_empty",
                          .out = call->out,
                          .num_inputs = 1,
                          .num_scalars = 1,
                          .scalar_f = {call->beta},
                          .num_nodes = 2};
    kern_tensor_t *c = &p.input[0];
    *c = call->out;
    c->address = call->c.address;
    c->dtype = call->c.dtype;
    for (uint32_t i = 1; i <= c->ndims; i++) {
        bool has_dim = i <= call->c.ndims && call->c.size[call->c.ndims - i] > 1;
        c->stride[c->ndims - i] = has_dim ? call->c.stride[call->c.ndims - i] : 0;
    }
    p.node[0] = (kern_node_t){KERN_NODE_BINARY, VNPU_B_MUL, {KERN_INPUT(0), KERN_SCALAR(0), 0}};
    p.node[1] =
        (kern_node_t){KERN_NODE_UNARY, activation_func(call->activation), {KERN_NODE(0), 0, 0}};
    return kern_pointwise(context, stream, &p);
}

vnpu_status_t kern_gemm(kern_context_t *context, vnpu_stream_t stream, const kern_gemm_t *call) {
    vnpu_status_t status = check_operands(context, call);
    if (status == VNPU_OK) status = check_sizes(context, call);
    if (status == VNPU_OK) status = check_types(context, call);
    if (status != VNPU_OK || kern_numel(&call->out) == 0) return status;
    const kern_tensor_t *o = &call->out;
    bool has_c = call->c.address != 0 && call->beta != 0;
    if (call->a.size[call->a.ndims - 1] == 0) return run_empty_sum(context, stream, call, has_c);
    kern_gemm_shape_t shape = {.size = {o->ndims == 3 ? o->size[0] : 1, o->size[o->ndims - 1],
                                        o->size[o->ndims - 2], call->a.size[call->a.ndims - 1]},
                               .a_dtype = call->a.dtype,
                               .b_dtype = call->b.dtype,
                               .out_dtype = o->dtype,
                               .c_dtype = has_c ? call->c.dtype : VNPU_DTYPE_NONE,
                               .has_c = has_c,
                               .has_alpha = call->alpha != 1,
                               .has_beta = has_c && call->beta != 1,
                               .activation = call->activation};
    operands_t at = {o->address,      call->a.address, call->b.address,
                     call->c.address, call->alpha,     call->beta};
    read_strides(&call->a, shape.a);
    read_strides(&call->b, shape.b);
    read_strides(o, shape.out);
    if (has_c) read_strides(&call->c, shape.c);
    bool is_column_major =
        shape.out[2] > shape.out[1] && shape.out[1] == 1 && shape.size[GEMM_M] > 1;
    if (is_column_major) turn(&shape, &at);
    merge_batch(&shape);
    return run(context, stream, &shape, &at);
}
