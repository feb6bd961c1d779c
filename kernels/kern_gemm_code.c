#include "kernels/kern_gemm_plan.h"

#include "kernels/kern_cost.h"
#include "kernels/kern_internal.h"

typedef struct coder {
    const kern_gemm_shape_t *shape;
    const kern_gemm_plan_t *plan;
    kern_builder_t *builder;
    uint8_t arg_a, arg_b, arg_c, arg_out, arg_alpha, arg_beta;
    uint32_t sram_a, sram_b, sram_c, sram_out, sram_temp, acc;
    kern_ring_t a, b, c, result,
        out;                     /* a: what streams; b, c: panel and bias, or full tiles of c */
    kern_ring_t fixed;           /* rows that stay */
    uint16_t multiplied, stored; /* of a tile whose buffers wait for its stores */
    kern_share_t share;
    uint16_t turn; /* a_with_results: both buffers of a step are free */
} coder_t;

static const kern_axis_t *axis_of(const coder_t *c, uint32_t x) {
    return &c->plan->axis[x];
}
static kern_queue_t queue_of_a(const coder_t *c) {
    return c->plan->a_with_results ? KERN_STORE : KERN_LOAD;
}
static uint8_t level_mask(const kern_axis_t *axis) {
    return (uint8_t)(axis->level == VNPU_NO_LOOP ? 0u : 1u << axis->level);
}
static uint64_t padded(uint64_t elems, vnpu_dtype_t dtype) { /* elements between buffers */
    return kern_buffer_elems(dtype, elems);
}
static vnpu_dtype_t acc_dtype(const kern_gemm_shape_t *shape) {
    return kern_dtype_is_float(shape->a_dtype) ? VNPU_F32 : VNPU_I32;
}

/* Products of a tile of results. */
static uint32_t products_of(const coder_t *c) {
    return axis_of(c, GEMM_K)->trips * kern_gemm_products(c->plan);
}

/* ---- moves ---- */

static void rotate(const coder_t *c, vnpu_ap_t *ap, uint8_t level, uint32_t buffers,
                   uint64_t elems) {
    kern_ap_rotate(ap, level, buffers, elems);
    if (c->plan->rotates_nest) kern_ap_rotate_nest(ap, 0);
}

/* Copies between a matrix in DRAM (strides over b, rows, cols) and a tile with row stride `pitch`,
 * walking DRAM's shorter stride innermost. b_clip: the batch axis stays in the pattern when it is
 * clipped. */
typedef struct move {
    uint8_t arg;
    vnpu_dtype_t dtype;
    const kern_axis_t *batch, *rows, *cols;
    int64_t stride[3];
    int64_t sram;
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
    rotate(c, &sram, move->level, move->buffers, move->buffer_elems);
    if (!c->shape->keeps_rows) kern_ap_merge((vnpu_ap_t *[]){&dram, &sram}, 2, 0);
    vnpu_insn_t *insn =
        kern_emit(c->builder, queue, is_turned ? VNPU_OP_DMA_TRANSPOSE : VNPU_OP_DMA_COPY);
    bool is_store = move->arg == c->arg_out;
    insn->dst = kern_ap(c->builder, is_store ? &dram : &sram);
    insn->src[0] = kern_ap(c->builder, is_store ? &sram : &dram);
    return insn;
}

/* Elements of a buffer of results. */
static uint64_t tile_elems(const coder_t *c) {
    return (uint64_t)kern_gemm_rows(c->plan) * axis_of(c, GEMM_N)->tile;
}

static uint64_t weight_elems(const coder_t *c) {
    uint64_t elems = (uint64_t)kern_gemm_depth(c->plan) * axis_of(c, GEMM_N)->tile;
    return c->plan->is_panel ? elems * axis_of(c, GEMM_K)->trips : elems;
}

/* Elements of a row of the a buffer, and of a buffer. */
static uint64_t a_pitch(const coder_t *c) {
    const kern_axis_t *k = axis_of(c, GEMM_K);
    return c->plan->is_a_fixed ? (uint64_t)k->tile * k->trips : k->tile;
}
static uint64_t a_elems(const coder_t *c) {
    return kern_gemm_rows(c->plan) * a_pitch(c);
}
static uint8_t a_level(const coder_t *c) {
    return c->plan->is_a_fixed ? axis_of(c, GEMM_B)->level : c->plan->a_level;
}
static uint32_t a_buffers(const coder_t *c) {
    return c->plan->is_a_fixed ? c->plan->fixed_buffers : c->plan->a_buffers;
}

/* Elements from one buffer of an operand to the next. */
static uint64_t buffer_elems(const coder_t *c, vnpu_dtype_t dtype, uint64_t elems) {
    if (c->plan->part_bytes == 0) return padded(elems, dtype);
    return c->plan->part_bytes / vnpu_dtype_bytes(dtype) * vnpu_dtype_block(dtype);
}

/* The k tiles of rows that stay follow each other in a row of the buffer. */
static void walk_rows(const coder_t *c, vnpu_ap_t *ap) {
    const kern_axis_t *k = axis_of(c, GEMM_K);
    if (k->level != VNPU_NO_LOOP) ap->loop_inc[k->level] = (int32_t)k->tile;
}

static vnpu_insn_t *load_a(const coder_t *c, const kern_axis_t *m, const kern_axis_t *k) {
    kern_axis_t all = kern_axis_make(k->size, k->size);
    move_t move = {c->arg_a,
                   c->shape->a_dtype,
                   axis_of(c, GEMM_B),
                   m,
                   c->plan->is_a_whole ? &all : k,
                   {c->shape->a[0], c->shape->a[1], c->shape->a[2]},
                   c->sram_a,
                   (int64_t)a_pitch(c),
                   a_level(c),
                   a_buffers(c),
                   buffer_elems(c, c->shape->a_dtype, a_elems(c))};
    vnpu_insn_t *insn = emit_move(c, queue_of_a(c), &move);
    if (!c->plan->is_a_fixed || c->plan->is_a_whole) return insn;
    vnpu_ap_t sram = kern_ap_of(c->builder, insn->dst);
    walk_rows(c, &sram);
    insn->dst = kern_ap(c->builder, &sram);
    return insn;
}

/* The panel's k tiles follow each other. */
static void walk_panel(const coder_t *c, vnpu_ap_t *ap) {
    const kern_axis_t *k = axis_of(c, GEMM_K);
    if (!c->plan->is_panel || k->level == VNPU_NO_LOOP) return;
    ap->loop_inc[k->level] = (int32_t)(k->tile * axis_of(c, GEMM_N)->tile);
}

static vnpu_insn_t *load_b(const coder_t *c, const kern_axis_t *k) {
    const kern_axis_t *n = axis_of(c, GEMM_N);
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
                   buffer_elems(c, c->shape->b_dtype, weight_elems(c))};
    vnpu_insn_t *insn = emit_move(c, KERN_LOAD, &move);
    vnpu_ap_t sram = kern_ap_of(c->builder, insn->dst);
    walk_panel(c, &sram);
    insn->dst = kern_ap(c->builder, &sram);
    return insn;
}

/* What the last step of K lacks to a whole one, to rows of its buffer that nobody reads: as many
 * rows of b from before it. */
static void load_rest(const coder_t *c) {
    const kern_axis_t *k = axis_of(c, GEMM_K), *n = axis_of(c, GEMM_N);
    int64_t step = c->plan->step_k, rest = kern_gemm_rest(c->plan);
    if (rest == 0) return;
    kern_axis_t rows = kern_axis_make(rest, rest);
    rows.from = k->size > step ? (uint32_t)(k->size - step) : 0;
    int64_t to = k->size - (int64_t)(k->tiles - 1) * k->tile; /* row of the last tile */
    move_t move = {c->arg_b,
                   c->shape->b_dtype,
                   axis_of(c, GEMM_B),
                   &rows,
                   n,
                   {c->shape->b[0], c->shape->b[1], c->shape->b[2]},
                   c->sram_b + (to - rows.from) * n->tile * vnpu_dtype_bytes(c->shape->b_dtype),
                   n->tile,
                   c->plan->a_level,
                   c->plan->a_buffers,
                   buffer_elems(c, c->shape->b_dtype, weight_elems(c))};
    emit_move(c, KERN_LOAD, &move)->last_only = level_mask(k);
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
                   padded(is_row ? n->tile : tile_elems(c), c->shape->c_dtype)};
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
                   padded(tile_elems(c), c->shape->out_dtype)};
    return emit_move(c, KERN_STORE, &move);
}

/* Who takes results out of the accumulator. */
static kern_queue_t consumer_of(const coder_t *c) {
    return c->shape->is_direct ? KERN_STORE : KERN_VECTOR;
}

/* ---- array ---- */

/* The axis of rows in whole blocks: what lies beyond the operand is multiplied and not stored. */
static kern_axis_t whole_rows(const coder_t *c) {
    kern_axis_t axis = *axis_of(c, GEMM_M);
    uint32_t block = c->plan->row_block > 1 ? c->plan->row_block : 1;
    axis.tile = kern_gemm_rows(c->plan);
    axis.size = (int64_t)(kern_ceil_div((uint64_t)axis.size, block) * block);
    return axis;
}

/* What of a tile. */
typedef struct part {
    kern_axis_t m, n;
} part_t;

/* Rows and columns of transfer `s` of a tile of results; rows: those of the tile, or of the array.
 */
static part_t part_of(const coder_t *c, uint32_t s, const kern_axis_t *rows) {
    const kern_axis_t *n = axis_of(c, GEMM_N);
    uint32_t down = kern_gemm_row_parts(c->plan), m = c->plan->part_m, columns = c->plan->store_n;
    part_t part = {*rows, *n};
    if (m > 0) part.m = kern_axis_part(rows, s % down * m, m);
    if (columns > 0) part.n = kern_axis_part(n, s / down * columns, columns);
    return part;
}

static vnpu_insn_t *emit_mm(const coder_t *c, const part_t *part, const kern_axis_t *k) {
    const kern_gemm_plan_t *plan = c->plan;
    const kern_axis_t *b = axis_of(c, GEMM_B), *m = &part->m, *n = &part->n;
    uint32_t pitch = axis_of(c, GEMM_N)->tile;
    kern_term_t left[3] = {{b, 0, false}, {m, (int64_t)a_pitch(c), true}, {k, 1, true}};
    kern_term_t right[2] = {{k, pitch, true}, {n, 1, true}};
    kern_term_t result[3] = {{b, 0, false}, {m, pitch, true}, {n, 1, true}};
    vnpu_ap_t ap_a = kern_ap_terms(VNPU_SPACE_SRAM, c->shape->a_dtype, c->sram_a, left, 3, false);
    vnpu_ap_t ap_b = kern_ap_terms(VNPU_SPACE_SRAM, c->shape->b_dtype, c->sram_b, right, 2, false);
    vnpu_ap_t ap_d = kern_ap_terms(VNPU_SPACE_ACC, acc_dtype(c->shape), c->acc, result, 3, false);
    rotate(c, &ap_a, a_level(c), a_buffers(c), buffer_elems(c, c->shape->a_dtype, a_elems(c)));
    if (plan->is_a_fixed) walk_rows(c, &ap_a);
    rotate(c, &ap_b, plan->is_panel ? plan->panel_level : plan->a_level,
           plan->is_panel ? plan->panel_buffers : plan->a_buffers,
           buffer_elems(c, c->shape->b_dtype, weight_elems(c)));
    walk_panel(c, &ap_b);
    rotate(c, &ap_d, plan->tile_level, plan->tile_buffers, padded(tile_elems(c), VNPU_F32));
    vnpu_insn_t *insn = kern_emit(c->builder, KERN_MATRIX, VNPU_OP_MM);
    insn->dst = kern_ap(c->builder, &ap_d);
    insn->src[0] = kern_ap(c->builder, &ap_a);
    insn->src[1] = kern_ap(c->builder, &ap_b);
    if (k->from > 0) {
        insn->flags |= VNPU_F_ACCUMULATE;
    } else {
        insn->not_first = level_mask(k);
    }
    kern_signal(insn, plan->holds_stored ? c->multiplied : c->a.free, 1);
    kern_signal(insn, c->result.full, 1);
    return insn;
}

static vnpu_insn_t *emit_whole(const coder_t *c, const kern_axis_t *k) {
    part_t all = {whole_rows(c), *axis_of(c, GEMM_N)};
    return emit_mm(c, &all, k);
}

/* Product `p` of a step of K: the first step goes by rows, the last by the transfers of results. */
static vnpu_insn_t *emit_part(const coder_t *c, uint32_t step, uint32_t p, const kern_axis_t *k) {
    kern_axis_t rows = whole_rows(c);
    part_t part = {rows, *axis_of(c, GEMM_N)};
    bool is_last = step == kern_gemm_last_step(c->plan);
    if (is_last || step == 0) part = part_of(c, p, &rows);
    if (!is_last) part.n = *axis_of(c, GEMM_N);
    return emit_mm(c, &part, k);
}

/* ---- epilogue ---- */

typedef enum place { PLACE_ACC, PLACE_C, PLACE_TEMP, PLACE_OUT, PLACE_ALPHA, PLACE_BETA } place_t;

/* Results in the accumulator. */
static vnpu_ap_t results_ap(const coder_t *c, const kern_axis_t *m, const kern_axis_t *n) {
    kern_term_t term[3] = {
        {axis_of(c, GEMM_B), 0, false}, {m, axis_of(c, GEMM_N)->tile, false}, {n, 1, false}};
    vnpu_ap_t ap = kern_ap_terms(VNPU_SPACE_ACC, acc_dtype(c->shape), c->acc, term, 3, false);
    rotate(c, &ap, c->plan->tile_level, c->plan->tile_buffers, padded(tile_elems(c), VNPU_F32));
    return ap;
}

static vnpu_ap_t place_ap(const coder_t *c, place_t place) {
    const kern_gemm_plan_t *plan = c->plan;
    const kern_gemm_shape_t *shape = c->shape;
    const kern_axis_t *m = axis_of(c, GEMM_M), *n = axis_of(c, GEMM_N);
    uint64_t tile = tile_elems(c);
    kern_term_t term[3] = {{axis_of(c, GEMM_B), 0, false}, {m, n->tile, false}, {n, 1, false}};
    vnpu_ap_t ap = {0};
    switch (place) {
    case PLACE_ACC: ap = results_ap(c, m, n); break;
    case PLACE_OUT:
        ap = kern_ap_terms(VNPU_SPACE_SRAM, shape->out_dtype, c->sram_out, term, 3, false);
        rotate(c, &ap, plan->tile_level, plan->tile_buffers, padded(tile, shape->out_dtype));
        break;
    case PLACE_C:
        if (kern_gemm_has_row(shape)) term[1].stride = 0;
        ap = kern_ap_terms(VNPU_SPACE_SRAM, shape->c_dtype, c->sram_c, term, 3, false);
        if (kern_gemm_has_row(shape)) {
            rotate(c, &ap, plan->panel_level, plan->panel_buffers, padded(n->tile, shape->c_dtype));
        } else {
            rotate(c, &ap, plan->tile_level, plan->tile_buffers, padded(tile, shape->c_dtype));
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

uint8_t kern_gemm_activation(kern_activation_t activation) {
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

/* A part from the accumulator to DRAM, cast on the way. */
static vnpu_insn_t *store_results(const coder_t *c, uint32_t s) {
    part_t part = part_of(c, s, axis_of(c, GEMM_M));
    const int64_t *stride = c->shape->out;
    kern_term_t term[3] = {{axis_of(c, GEMM_B), stride[0], false},
                           {&part.m, stride[1], false},
                           {&part.n, stride[2], false}};
    vnpu_ap_t far = kern_ap_terms(VNPU_SPACE_DRAM, c->shape->out_dtype, 0, term, 3, true);
    far.arg = c->arg_out;
    vnpu_ap_t near = results_ap(c, &part.m, &part.n);
    if (!c->shape->keeps_rows) kern_ap_merge((vnpu_ap_t *[]){&far, &near}, 2, 0);
    vnpu_insn_t *store = kern_emit(c->builder, KERN_STORE, VNPU_OP_DMA_COPY);
    store->dst = kern_ap(c->builder, &far);
    store->src[0] = kern_ap(c->builder, &near);
    kern_signal(store, c->result.free, 1);
    return store;
}

/* When all products are done. */
static void emit_direct_store(const coder_t *c) {
    uint32_t stores = kern_gemm_stores(c->plan);
    kern_sync_wait(c->builder, KERN_STORE, c->result.full, products_of(c));
    for (uint32_t s = 0; s < stores; s++)
        (void)store_results(c, s);
}

/* Behind the products of a tile of operands: with the last of K, parts of the results are stored as
 * they come. The buffers are free when everything is multiplied and all but the last is stored: the
 * vector queue, which has nothing else to do here, watches both. */
static void emit_held_store(const coder_t *c) {
    kern_builder_t *b = c->builder;
    uint32_t products = kern_gemm_products(c->plan), stores = kern_gemm_stores(c->plan);
    uint32_t last = kern_gemm_last_step(c->plan), waited = 0, until = 0;
    uint8_t k_loop = level_mask(axis_of(c, GEMM_K));
    for (uint32_t i = 0; i < last; i++)
        until += kern_gemm_step_products(c->plan, i);
    for (uint32_t s = 0; s < stores; s++) {
        until += s < kern_gemm_step_products(c->plan, last); /* products up to its own */
        if (until > waited) kern_sync_wait(b, KERN_STORE, c->result.full, until - waited);
        waited = until;
        vnpu_insn_t *store = store_results(c, s);
        store->last_only = k_loop;
        if (s < stores - 1) kern_signal(store, c->stored, 1);
    }
    if (products > waited) kern_sync_wait(b, KERN_STORE, c->result.full, products - waited);
    if (stores > 1) kern_sync_wait(b, KERN_VECTOR, c->stored, stores - 1)->last_only = k_loop;
    kern_signal(kern_sync_wait(b, KERN_VECTOR, c->multiplied, products), c->a.free,
                (int32_t)products);
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
    kern_sync_wait(c->builder, KERN_VECTOR, c->result.full, products_of(c));
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
    insn->func = kern_gemm_activation(shape->activation);
    kern_signal(insn, c->out.full, 1);
}

/* ---- program ---- */

/* In parts: a from the start of its part, b up to its end. */
static void declare_operands(coder_t *c) {
    const kern_gemm_plan_t *plan = c->plan;
    uint64_t a = kern_buffer_bytes(c->shape->a_dtype, a_elems(c)),
             weights = kern_buffer_bytes(c->shape->b_dtype, weight_elems(c));
    if (plan->part_bytes > 0) {
        c->sram_a = kern_sram(c->builder, (uint64_t)plan->a_buffers * plan->part_bytes);
        c->sram_b = c->sram_a + plan->part_bytes - (uint32_t)weights;
        return;
    }
    uint32_t weight_buffers = plan->is_panel ? plan->panel_buffers : plan->a_buffers;
    c->sram_a = kern_sram(c->builder, a_buffers(c) * a);
    c->sram_b = kern_sram_far(c->builder, weight_buffers * weights);
}

static void declare(coder_t *c) {
    const kern_gemm_shape_t *shape = c->shape;
    const kern_gemm_plan_t *plan = c->plan;
    kern_builder_t *b = c->builder;
    uint64_t m = kern_gemm_rows(plan), n = axis_of(c, GEMM_N)->tile;
    c->arg_out = kern_arg(b, VNPU_ARG_OUT);
    c->arg_a = kern_arg(b, VNPU_ARG_IN);
    c->arg_b = kern_arg(b, VNPU_ARG_IN);
    if (shape->has_c) c->arg_c = kern_arg(b, VNPU_ARG_IN);
    if (shape->has_alpha) c->arg_alpha = kern_arg(b, VNPU_ARG_SCALAR);
    if (shape->has_beta) c->arg_beta = kern_arg(b, VNPU_ARG_SCALAR);
    declare_operands(c);
    if (!shape->is_direct)
        c->sram_out = kern_sram(b, plan->tile_buffers * kern_buffer_bytes(shape->out_dtype, m * n));
    c->acc = kern_acc(b, plan->tile_buffers * kern_align(m * n * 4));
    bool is_row = kern_gemm_has_row(shape);
    uint32_t c_buffers = is_row ? plan->panel_buffers : plan->tile_buffers;
    if (shape->has_c)
        c->sram_c = kern_sram(b, c_buffers * kern_buffer_bytes(shape->c_dtype, is_row ? n : m * n));
    if (kern_gemm_needs_temp(shape)) c->sram_temp = kern_sram(b, m * n * 4);
    if (plan->is_shared) kern_share_init(b, plan->grid, &c->share);
    if (plan->a_with_results) c->turn = kern_sem(b);
    c->a = kern_ring(b, KERN_MATRIX, plan->a_buffers * kern_gemm_products(plan));
    c->result = kern_ring(b, consumer_of(c), plan->tile_buffers * kern_gemm_stores(plan));
    if (!shape->is_direct) c->out = kern_ring(b, KERN_STORE, plan->tile_buffers);
    if (plan->is_a_fixed) c->fixed = kern_ring(b, consumer_of(c), plan->fixed_buffers);
    if (plan->is_panel) c->b = kern_ring(b, consumer_of(c), plan->panel_buffers);
    if (plan->step_k > 0) c->b.full = kern_sem(b);
    if (plan->holds_stored) {
        c->multiplied = kern_sem(b);
        c->stored = kern_sem(b);
    }
    if (shape->has_c) c->c = kern_ring(b, KERN_VECTOR, c_buffers);
}

static void open_axis(const coder_t *c, uint32_t x) {
    if (axis_of(c, x)->level != VNPU_NO_LOOP) kern_loop(c->builder, axis_of(c, x)->trips);
}
static void close_axis(const coder_t *c, uint32_t x) {
    if (axis_of(c, x)->level != VNPU_NO_LOOP) kern_end(c->builder);
}

/* Both tiles of a step, each read by one instance for all that need it. */
static void load_shared(const coder_t *c) {
    const kern_axis_t *k = axis_of(c, GEMM_K);
    kern_builder_t *b = c->builder;
    kern_queue_t queue[2] = {KERN_LOAD, queue_of_a(c)};
    kern_sync_wait(b, queue[1], c->a.free, 1);
    if (c->plan->a_with_results) {
        kern_sync_signal(b, queue[1], c->turn, 1);
        kern_sync_wait(b, queue[0], c->turn, 1);
    }
    for (uint32_t axis = 0; axis < 2; axis++)
        kern_share_tell(b, queue[axis], &c->share, axis);
    for (uint32_t axis = 2; axis-- > 0;) {
        kern_share_wait(b, queue[axis], &c->share, axis);
        vnpu_insn_t *load = axis == 1 ? load_a(c, axis_of(c, GEMM_M), k) : load_b(c, k);
        kern_share_send(&c->share, axis, load);
    }
}

/* a of a step's piece, the first one by rows. */
static void load_piece(const coder_t *c, uint32_t from) {
    kern_axis_t piece = kern_axis_part(axis_of(c, GEMM_K), from, c->plan->load_k);
    uint32_t parts = from == 0 ? kern_gemm_row_parts(c->plan) : 1;
    for (uint32_t p = 0; p < parts; p++) {
        kern_axis_t rows = *axis_of(c, GEMM_M);
        if (parts > 1) rows = kern_axis_part(&rows, p * c->plan->part_m, c->plan->part_m);
        kern_signal(load_a(c, &rows, &piece), c->a.full, 1);
    }
}

/* A tile step by step: a product begins when its part is there. The buffers wait for all of the
 * tile that was there before. */
static void emit_steps(const coder_t *c) {
    const kern_gemm_plan_t *plan = c->plan;
    uint32_t steps = kern_gemm_steps(plan), down = kern_gemm_row_parts(plan);
    for (uint32_t s = 0; s < steps; s++) {
        uint32_t from = s * plan->step_k, products = kern_gemm_step_products(plan, s);
        kern_axis_t step = kern_axis_part(axis_of(c, GEMM_K), from, plan->step_k);
        bool has_piece = from % plan->load_k == 0;
        if (has_piece && s > 0) load_piece(c, from);
        vnpu_insn_t *load = load_b(c, &step);
        if (s == 0) kern_wait(load, c->a.free, kern_gemm_products(plan));
        kern_signal(load, c->b.full, 1);
        if (s == kern_gemm_last_step(plan)) load_rest(c);
        if (s == 0) load_piece(c, from);
        for (uint32_t p = 0; p < products; p++) {
            vnpu_insn_t *product = emit_part(c, s, p, &step);
            if (p == 0) kern_wait(product, c->b.full, 1);
            if (has_piece && p < (s == 0 ? down : 1)) kern_wait(product, c->a.full, 1);
        }
    }
}

/* What stays comes with the first pass of what streams past it, a k tile at a time. */
static void load_kept(const coder_t *c) {
    const kern_axis_t *k = axis_of(c, GEMM_K);
    uint8_t passes = level_mask(axis_of(c, c->plan->is_panel ? GEMM_M : GEMM_N));
    uint16_t full = c->plan->is_panel ? c->b.full : c->fixed.full;
    vnpu_insn_t *load = c->plan->is_panel ? load_b(c, k) : load_a(c, axis_of(c, GEMM_M), k);
    load->first_only = passes;
    kern_signal(load, full, 1);
    kern_sync_wait(c->builder, KERN_MATRIX, full, 1)->first_only = passes;
}

static void emit_products(const coder_t *c) {
    kern_builder_t *b = c->builder;
    const kern_axis_t *k = axis_of(c, GEMM_K);
    kern_sync_wait(b, KERN_MATRIX, c->result.free, kern_gemm_stores(c->plan));
    open_axis(c, GEMM_K);
    if (c->plan->is_panel || (c->plan->is_a_fixed && !c->plan->is_a_whole)) load_kept(c);
    if (c->plan->is_shared) {
        load_shared(c);
        vnpu_insn_t *product = emit_whole(c, k);
        for (uint32_t axis = 0; axis < 2; axis++)
            kern_wait(product, c->share.full[axis], 1);
    } else if (c->plan->step_k > 0) {
        emit_steps(c);
    } else {
        vnpu_insn_t *load = c->plan->is_a_fixed ? load_b(c, k) : load_a(c, axis_of(c, GEMM_M), k);
        kern_wait(load, c->a.free, 1);
        kern_signal(load, c->a.full, 1);
        bool has_both = !c->plan->is_panel && !c->plan->is_a_fixed;
        if (has_both) kern_signal(load_b(c, k), c->a.full, 1);
        kern_wait(emit_whole(c, k), c->a.full, has_both ? 2 : 1);
    }
    if (c->plan->holds_stored) emit_held_store(c);
    close_axis(c, GEMM_K);
}

void kern_gemm_generate(const kern_gemm_shape_t *shape, const kern_gemm_plan_t *plan,
                        kern_builder_t *builder) {
    coder_t c = {.shape = shape, .plan = plan, .builder = builder};
    declare(&c);
    bool has_row = kern_gemm_has_row(shape);
    open_axis(&c, GEMM_B);
    if (plan->is_a_whole) {
        vnpu_insn_t *load = load_a(&c, axis_of(&c, GEMM_M), axis_of(&c, GEMM_K));
        kern_wait(load, c.fixed.free, 1);
        kern_signal(load, c.fixed.full, 1);
        kern_sync_wait(builder, KERN_MATRIX, c.fixed.full, 1);
    } else if (plan->is_a_fixed) {
        kern_sync_wait(builder, KERN_LOAD, c.fixed.free, 1);
    }
    if (plan->rows_outside) open_axis(&c, GEMM_M);
    open_axis(&c, GEMM_N);
    if (has_row) {
        vnpu_insn_t *load = load_c(&c);
        kern_wait(load, c.c.free, 1);
        kern_signal(load, c.c.full, 1);
        kern_sync_wait(builder, KERN_VECTOR, c.c.full, 1);
    }
    if (plan->is_panel) kern_sync_wait(builder, KERN_LOAD, c.b.free, 1);
    if (!plan->rows_outside) open_axis(&c, GEMM_M);
    emit_products(&c);
    if (shape->has_c && !has_row) {
        vnpu_insn_t *load = load_c(&c);
        kern_wait(load, c.c.free, 1);
        kern_signal(load, c.c.full, 1);
    }
    if (shape->is_direct) {
        if (!plan->holds_stored) emit_direct_store(&c);
    } else {
        emit_epilogue(&c);
        vnpu_insn_t *store = store_out(&c);
        kern_wait(store, c.out.full, 1);
        kern_signal(store, c.out.free, 1);
    }
    if (!plan->rows_outside) close_axis(&c, GEMM_M);
    /* Every product with this panel is done (the epilogue waited for it), and so is every use of
     * the bias. */
    if (plan->is_panel || has_row) {
        vnpu_insn_t *fence = kern_emit(builder, consumer_of(&c), VNPU_OP_FENCE);
        if (plan->is_panel) kern_signal(fence, c.b.free, 1);
        if (has_row) kern_signal(fence, c.c.free, 1);
    }
    close_axis(&c, GEMM_N);
    if (plan->rows_outside) close_axis(&c, GEMM_M);
    if (plan->is_a_fixed)
        kern_sync_signal(builder, consumer_of(&c), c.fixed.free, 1); /* it waited for them */
    close_axis(&c, GEMM_B);
}
