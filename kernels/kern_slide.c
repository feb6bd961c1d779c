#include "kernels/kern_slide.h"

#include <math.h>
#include <string.h>

#include "kernels/kern_cost.h"
#include "kernels/kern_gemm_plan.h"
#include "kernels/kern_move.h"

/* ---- tiling ---- */

typedef struct plan {
    kern_nest_t nest;
    uint8_t dim[SLIDE_AXES]; /* axis of the call in each place of the nest, outermost first */
    uint8_t place[SLIDE_AXES];
    kern_window_t window[2];
    int64_t in_stride[SLIDE_AXES], out_stride[SLIDE_AXES]; /* of tiles, by axis of the call */
    uint64_t in_elems, out_elems, weight_elems;
    bool is_weight_fixed; /* channels do not move with a loop */
} plan_t;

static const kern_axis_t *axis_of(const plan_t *plan, uint32_t x) {
    return &plan->nest.axis[plan->place[x]];
}

/* The result's dimensions in the order of its memory. */
static void order_dims(const kern_slide_t *call, plan_t *plan) {
    for (uint8_t x = 0; x < SLIDE_AXES; x++) {
        uint32_t at = x;
        for (; at > 0 && call->out[plan->dim[at - 1]] < call->out[x]; at--)
            plan->dim[at] = plan->dim[at - 1];
        plan->dim[at] = x;
    }
    for (uint8_t i = 0; i < SLIDE_AXES; i++)
        plan->place[plan->dim[i]] = i;
}

static int64_t positions_of(const kern_slide_t *call) {
    return call->kernel[0] * call->kernel[1];
}

static void lay_out(const kern_slide_t *call, plan_t *plan) {
    plan->in_elems = plan->out_elems = 1;
    for (int s = 0; s < 2; s++) {
        int64_t tile = axis_of(plan, s ? SLIDE_W : SLIDE_H)->tile;
        int64_t reach = (call->kernel[s] - 1) * call->dilation[s] + 1;
        plan->window[s] = (kern_window_t){.size = (tile - 1) * call->stride[s] + reach,
                                          .step = tile * call->stride[s],
                                          .extent = call->in_size[s],
                                          .pad = call->pad[s]};
    }
    for (uint32_t i = SLIDE_AXES; i-- > 0;) {
        uint32_t x = plan->dim[i];
        plan->in_stride[x] = (int64_t)plan->in_elems;
        plan->out_stride[x] = (int64_t)plan->out_elems;
        plan->out_elems *= plan->nest.axis[i].tile;
        plan->in_elems *=
            x >= SLIDE_H ? (uint64_t)plan->window[x - SLIDE_H].size : plan->nest.axis[i].tile;
    }
    const kern_axis_t *channels = axis_of(plan, SLIDE_C);
    plan->weight_elems = (uint64_t)(channels->tile * positions_of(call));
    plan->is_weight_fixed = channels->level == VNPU_NO_LOOP;
}

static bool needs_sums(const kern_slide_t *call) {
    return call->kind != KERN_SLIDE_MAX;
}

static uint64_t sram_need(const kern_slide_t *call, const plan_t *plan) {
    uint32_t buffers = plan->nest.buffers;
    uint64_t need = buffers * (kern_align(plan->in_elems * vnpu_dtype_bytes(call->in_dtype)) +
                               kern_align(plan->out_elems * vnpu_dtype_bytes(call->out_dtype)));
    if (call->has_index) need += (buffers + 1) * kern_align(plan->out_elems * 4);
    if (needs_sums(call)) need += kern_align(plan->out_elems * 4);
    if (call->kind != KERN_SLIDE_PRODUCT) return need;
    uint32_t copies = plan->is_weight_fixed ? 1 : buffers;
    need += copies * kern_align(plan->weight_elems * vnpu_dtype_bytes(call->weight_dtype));
    if (call->has_bias)
        need +=
            copies * kern_align(axis_of(plan, SLIDE_C)->tile * vnpu_dtype_bytes(call->bias_dtype));
    return need;
}

static bool try_plan(kern_context_t *context, const kern_slide_t *call, uint64_t elems,
                     plan_t *plan) {
    static const uint8_t order[SLIDE_AXES] = {3, 2, 1, 0};
    int64_t size[SLIDE_AXES];
    memset(plan, 0, sizeof *plan);
    order_dims(call, plan);
    for (uint32_t i = 0; i < SLIDE_AXES; i++)
        size[i] = call->size[plan->dim[i]];
    plan->nest.ndims = SLIDE_AXES;
    kern_nest_tile(&plan->nest, size, order, NULL, elems, 16);
    if (!kern_nest_plan(&plan->nest, context->machine.workers, (1u << SLIDE_AXES) - 1u))
        return false;
    lay_out(call, plan);
    for (int s = 0; s < 2; s++) {
        if (!kern_window_is_possible(axis_of(plan, s ? SLIDE_W : SLIDE_H), &plan->window[s]))
            return false;
    }
    return sram_need(call, plan) <= context->machine.sram_bytes;
}

/* ---- cost ---- */

static uint64_t vector_cycles(const vnpu_machine_t *machine, const kern_slide_t *call,
                              uint64_t elems) {
    uint64_t positions = (uint64_t)positions_of(call);
    uint64_t alu = kern_cost_vector(machine, 1, elems, KERN_CLASS_ALU);
    uint64_t mul = kern_cost_vector(machine, 1, elems, KERN_CLASS_MUL);
    uint64_t cast = kern_cost_vector(machine, 1, elems, KERN_CLASS_CAST);
    switch (call->kind) {
    case KERN_SLIDE_MAX: return cast + (positions - 1) * (call->has_index ? 5 : 1) * alu;
    case KERN_SLIDE_SUM: return cast + (positions - 1) * alu + cast;
    case KERN_SLIDE_PRODUCT: break;
    }
    uint64_t last = call->activation != KERN_ACT_NONE ? alu : 0;
    return positions * (mul + alu) + last;
}

uint64_t kern_slide_cycles(const vnpu_machine_t *machine, const kern_slide_t *call) {
    uint64_t elems = 1;
    for (uint32_t x = 0; x < SLIDE_AXES; x++)
        elems *= (uint64_t)call->size[x];
    return vector_cycles(machine, call, kern_ceil_div(elems, machine->workers));
}

static uint64_t cost_of(const vnpu_machine_t *machine, const kern_slide_t *call,
                        const plan_t *plan) {
    uint64_t in = plan->in_elems * vnpu_dtype_bytes(call->in_dtype);
    uint64_t out = plan->out_elems * vnpu_dtype_bytes(call->out_dtype);
    uint64_t row = (uint64_t)plan->window[1].size * vnpu_dtype_bytes(call->in_dtype);
    bool is_whole = plan->window[1].size >= call->in_size[1];
    kern_stream_cost_t cost = {.tiles = plan->nest.trips,
                               .instances = (uint64_t)plan->nest.grid[0] * plan->nest.grid[1],
                               .load_cycles = kern_cost_dma(machine, in, is_whole ? in : row),
                               .vector_cycles = vector_cycles(machine, call, plan->out_elems),
                               .store_cycles = kern_cost_dma(machine, out, out),
                               .dram_bytes = in + out};
    return kern_cost_stream(machine, &cost);
}

/* The best tile size among powers of two; ties go to the larger one. */
static bool choose(kern_context_t *context, const kern_slide_t *call, plan_t *plan) {
    uint64_t best = UINT64_MAX;
    for (uint64_t elems = 1u << 18; elems >= 1; elems /= 2) {
        plan_t candidate;
        if (!try_plan(context, call, elems, &candidate)) continue;
        uint64_t cost = cost_of(&context->machine, call, &candidate);
        if (cost >= best) continue;
        *plan = candidate;
        best = cost;
    }
    return best != UINT64_MAX;
}

/* ---- code ---- */

typedef struct coder {
    const kern_slide_t *call;
    const plan_t *plan;
    kern_builder_t *builder;
    uint8_t arg_out, arg_in, arg_index, arg_weight, arg_bias, arg_zero, arg_width;
    uint32_t sram_in, sram_out, sram_index, sram_flags, sram_sums, sram_weight, sram_bias;
    kern_ring_t in, out, index;
    uint16_t fixed; /* semaphore of what is loaded once */
} coder_t;

/* How an operand of a vector instruction moves over the tile of results. */
static vnpu_ap_t walk(const coder_t *c, vnpu_space_t space, vnpu_dtype_t dtype, int64_t base,
                      const int64_t stride[SLIDE_AXES], bool moves) {
    kern_term_t term[SLIDE_AXES];
    for (uint32_t i = 0; i < SLIDE_AXES; i++)
        term[i] = (kern_term_t){&c->plan->nest.axis[i], stride[c->plan->dim[i]], false};
    return kern_ap_terms(space, dtype, base, term, SLIDE_AXES, moves);
}

static void turn(const coder_t *c, vnpu_ap_t *ap, uint64_t elems) {
    kern_ap_rotate(ap, c->plan->nest.inner, c->plan->nest.buffers,
                   kern_move_padded(elems, (vnpu_dtype_t)ap->dtype));
}

/* Position (i, j) of every window. */
static vnpu_ap_t window_ap(const coder_t *c, int64_t i, int64_t j) {
    const kern_slide_t *call = c->call;
    int64_t stride[SLIDE_AXES];
    memcpy(stride, c->plan->in_stride, sizeof stride);
    int64_t offset =
        i * call->dilation[0] * stride[SLIDE_H] + j * call->dilation[1] * stride[SLIDE_W];
    stride[SLIDE_H] *= call->stride[0];
    stride[SLIDE_W] *= call->stride[1];
    vnpu_ap_t ap = walk(c, VNPU_SPACE_SRAM, call->in_dtype,
                        c->sram_in + offset * vnpu_dtype_bytes(call->in_dtype), stride, false);
    turn(c, &ap, c->plan->in_elems);
    return ap;
}

static vnpu_ap_t out_ap(const coder_t *c) {
    vnpu_ap_t ap =
        walk(c, VNPU_SPACE_SRAM, c->call->out_dtype, c->sram_out, c->plan->out_stride, false);
    turn(c, &ap, c->plan->out_elems);
    return ap;
}

static vnpu_ap_t index_ap(const coder_t *c) {
    vnpu_ap_t ap = walk(c, VNPU_SPACE_SRAM, VNPU_I32, c->sram_index, c->plan->out_stride, false);
    turn(c, &ap, c->plan->out_elems);
    return ap;
}

static vnpu_ap_t sums_ap(const coder_t *c) {
    return walk(c, VNPU_SPACE_SRAM, VNPU_F32, c->sram_sums, c->plan->out_stride, false);
}

static vnpu_ap_t flags_ap(const coder_t *c) {
    return walk(c, VNPU_SPACE_SRAM, VNPU_BOOL, c->sram_flags, c->plan->out_stride, false);
}

/* One value a channel: weight (i, j), or the bias. */
static vnpu_ap_t channel_ap(const coder_t *c, vnpu_dtype_t dtype, uint32_t base, int64_t pitch,
                            int64_t offset, uint64_t elems) {
    int64_t stride[SLIDE_AXES] = {0, pitch, 0, 0};
    vnpu_ap_t ap =
        walk(c, VNPU_SPACE_SRAM, dtype, base + offset * vnpu_dtype_bytes(dtype), stride, false);
    if (!c->plan->is_weight_fixed) turn(c, &ap, elems);
    return ap;
}

static vnpu_ap_t weight_ap(const coder_t *c, int64_t position) {
    int64_t positions = positions_of(c->call);
    int64_t at = c->call->is_flipped ? positions - 1 - position : position;
    return channel_ap(c, c->call->weight_dtype, c->sram_weight, positions, at,
                      c->plan->weight_elems);
}

static vnpu_ap_t scalar_ap(const coder_t *c, uint8_t arg) {
    static const int64_t none[SLIDE_AXES];
    return walk(c, VNPU_SPACE_ARG, VNPU_I64, 8 * (int64_t)arg, none, false);
}

static vnpu_insn_t *emit_vector(const coder_t *c, vnpu_op_t op, uint8_t func, vnpu_ap_t dst,
                                const vnpu_ap_t *src, uint32_t sources) {
    vnpu_ap_t ap[4] = {dst};
    vnpu_ap_t *list[4] = {&ap[0], &ap[1], &ap[2], &ap[3]};
    for (uint32_t s = 0; s < sources; s++)
        ap[s + 1] = src[s];
    kern_ap_merge(list, sources + 1, 0);
    vnpu_insn_t *insn = kern_emit(c->builder, KERN_VECTOR, op);
    insn->func = func;
    insn->dst = kern_ap(c->builder, &ap[0]);
    for (uint32_t s = 0; s < sources; s++)
        insn->src[s] = kern_ap(c->builder, &ap[s + 1]);
    return insn;
}

/* ---- moves ---- */

static vnpu_insn_t *load_image(const coder_t *c) {
    const kern_slide_t *call = c->call;
    kern_move_t move = {.arg = c->arg_in,
                        .far_dtype = call->in_dtype,
                        .near_dtype = call->in_dtype,
                        .sram = c->sram_in,
                        .level = c->plan->nest.inner,
                        .buffers = c->plan->nest.buffers,
                        .elems = c->plan->in_elems};
    if (call->kind == KERN_SLIDE_MAX) move.value[0] = kern_f32_bits(-INFINITY);
    for (uint32_t x = 0; x < SLIDE_AXES; x++) {
        const kern_window_t *window = x >= SLIDE_H ? &c->plan->window[x - SLIDE_H] : NULL;
        kern_move_add(&move, axis_of(c->plan, x), call->in[x], c->plan->in_stride[x], window);
    }
    return kern_move_emit(c->builder, KERN_LOAD, &move);
}

static vnpu_insn_t *store(const coder_t *c, uint8_t arg, vnpu_dtype_t far, vnpu_dtype_t near,
                          uint32_t sram, const int64_t stride[SLIDE_AXES]) {
    kern_move_t move = {.arg = arg,
                        .far_dtype = far,
                        .near_dtype = near,
                        .sram = sram,
                        .level = c->plan->nest.inner,
                        .buffers = c->plan->nest.buffers,
                        .elems = c->plan->out_elems};
    for (uint32_t x = 0; x < SLIDE_AXES; x++)
        kern_move_add(&move, axis_of(c->plan, x), stride[x], c->plan->out_stride[x], NULL);
    return kern_move_emit(c->builder, KERN_STORE, &move);
}

/* Weights [c][kernel rows][kernel columns] and bias [c] of a tile's channels. */
static vnpu_insn_t *load_channels(const coder_t *c, bool is_bias) {
    const kern_slide_t *call = c->call;
    bool is_fixed = c->plan->is_weight_fixed;
    vnpu_dtype_t dtype = is_bias ? call->bias_dtype : call->weight_dtype;
    kern_axis_t kernel[2] = {kern_axis_make(call->kernel[0], call->kernel[0]),
                             kern_axis_make(call->kernel[1], call->kernel[1])};
    kern_move_t move = {.arg = is_bias ? c->arg_bias : c->arg_weight,
                        .far_dtype = dtype,
                        .near_dtype = dtype,
                        .sram = is_bias ? c->sram_bias : c->sram_weight,
                        .level = c->plan->nest.inner,
                        .buffers = is_fixed ? 1 : c->plan->nest.buffers,
                        .elems = is_bias ? axis_of(c->plan, SLIDE_C)->tile : c->plan->weight_elems};
    int64_t positions = positions_of(call);
    kern_move_add(&move, axis_of(c->plan, SLIDE_C), is_bias ? call->bias : call->weight[0],
                  is_bias ? 1 : positions, NULL);
    for (int s = 0; s < 2 && !is_bias; s++)
        kern_move_add(&move, &kernel[s], call->weight[1 + s], s ? 1 : call->kernel[1], NULL);
    return kern_move_emit(c->builder, KERN_LOAD, &move);
}

static uint32_t emit_channel_loads(const coder_t *c, uint16_t signal) {
    if (c->call->kind != KERN_SLIDE_PRODUCT) return 0;
    kern_signal(load_channels(c, false), signal, 1);
    if (!c->call->has_bias) return 1;
    kern_signal(load_channels(c, true), signal, 1);
    return 2;
}

/* ---- windows ---- */

/* row * width + column of position (i, j), counted from the image's corner. */
static vnpu_ap_t place_ap(const coder_t *c, int64_t i, int64_t j) {
    const kern_slide_t *call = c->call;
    int64_t row = i * call->dilation[0] - call->pad[0], col = j * call->dilation[1] - call->pad[1];
    int64_t stride[SLIDE_AXES] = {0, 0, call->stride[0] * call->in_size[1], call->stride[1]};
    return walk(c, VNPU_SPACE_IOTA, VNPU_I64, row * call->in_size[1] + col, stride, true);
}

/* Where a window begins: max(first row, 0) * width + max(first column, 0), what a window of nothing
 * but -inf says. */
static void emit_first_place(const coder_t *c) {
    const kern_slide_t *call = c->call;
    int64_t rows[SLIDE_AXES] = {0, 0, call->stride[0], 0},
            cols[SLIDE_AXES] = {0, 0, 0, call->stride[1]};
    vnpu_ap_t row = walk(c, VNPU_SPACE_IOTA, VNPU_I64, -call->pad[0], rows, true);
    vnpu_ap_t col = walk(c, VNPU_SPACE_IOTA, VNPU_I64, -call->pad[1], cols, true);
    vnpu_ap_t zero = scalar_ap(c, c->arg_zero), width = scalar_ap(c, c->arg_width);
    vnpu_insn_t *insn = emit_vector(c, VNPU_OP_V_BINARY, VNPU_B_MAX, index_ap(c),
                                    (vnpu_ap_t[]){row, zero, width}, 3);
    insn->func2 = VNPU_B_MUL;
    insn->flags |= VNPU_F_INTEGER;
    kern_wait(insn, c->index.free, 1);
    insn = emit_vector(c, VNPU_OP_V_BINARY, VNPU_B_MAX, index_ap(c),
                       (vnpu_ap_t[]){col, zero, index_ap(c)}, 3);
    insn->func2 = VNPU_B_ADD;
    insn->flags |= VNPU_F_INTEGER;
    if (positions_of(call) == 1) kern_signal(insn, c->index.full, 1);
}

/* A larger element, or a NaN, takes the place. */
static void emit_place(const coder_t *c, int64_t i, int64_t j) {
    vnpu_ap_t window = window_ap(c, i, j), flags = flags_ap(c);
    emit_vector(c, VNPU_OP_V_BINARY, VNPU_B_GT, flags, (vnpu_ap_t[]){window, out_ap(c)}, 2);
    emit_vector(c, VNPU_OP_V_BINARY, VNPU_B_NE, flags, (vnpu_ap_t[]){window, window, flags}, 3)
        ->func2 = VNPU_B_LOR;
    vnpu_insn_t *insn = emit_vector(c, VNPU_OP_V_SELECT, 0, index_ap(c),
                                    (vnpu_ap_t[]){flags, place_ap(c, i, j), index_ap(c)}, 3);
    insn->flags |= VNPU_F_INTEGER;
    if (i * c->call->kernel[1] + j == positions_of(c->call) - 1)
        kern_signal(insn, c->index.full, 1);
}

static vnpu_insn_t *emit_first(const coder_t *c) {
    const kern_slide_t *call = c->call;
    bool is_alone = positions_of(call) == 1 && call->activation == KERN_ACT_NONE;
    vnpu_ap_t window = window_ap(c, 0, 0);
    if (call->kind == KERN_SLIDE_MAX)
        return emit_vector(c, VNPU_OP_V_UNARY, VNPU_U_COPY, out_ap(c), &window, 1);
    if (call->kind == KERN_SLIDE_SUM)
        return emit_vector(c, VNPU_OP_V_UNARY, VNPU_U_COPY, sums_ap(c), &window, 1);
    vnpu_ap_t src[3] = {window, weight_ap(c, 0)};
    if (call->has_bias)
        src[2] =
            channel_ap(c, call->bias_dtype, c->sram_bias, 1, 0, axis_of(c->plan, SLIDE_C)->tile);
    vnpu_insn_t *insn = emit_vector(c, VNPU_OP_V_BINARY, VNPU_B_MUL,
                                    is_alone ? out_ap(c) : sums_ap(c), src, call->has_bias ? 3 : 2);
    if (call->has_bias) insn->func2 = VNPU_B_ADD;
    return insn;
}

static void emit_next(const coder_t *c, int64_t i, int64_t j) {
    const kern_slide_t *call = c->call;
    int64_t position = i * call->kernel[1] + j, positions = positions_of(call);
    vnpu_ap_t window = window_ap(c, i, j);
    if (call->kind == KERN_SLIDE_MAX) {
        if (call->has_index) emit_place(c, i, j);
        emit_vector(c, VNPU_OP_V_BINARY, VNPU_B_MAX, out_ap(c), (vnpu_ap_t[]){out_ap(c), window},
                    2);
        return;
    }
    if (call->kind == KERN_SLIDE_SUM) {
        emit_vector(c, VNPU_OP_V_BINARY, VNPU_B_ADD, sums_ap(c), (vnpu_ap_t[]){sums_ap(c), window},
                    2);
        return;
    }
    bool is_last = position == positions - 1 && call->activation == KERN_ACT_NONE;
    vnpu_ap_t weight = weight_ap(c, position);
    vnpu_insn_t *insn =
        emit_vector(c, VNPU_OP_V_BINARY, VNPU_B_MUL, is_last ? out_ap(c) : sums_ap(c),
                    (vnpu_ap_t[]){window, weight, sums_ap(c)}, 3);
    insn->func2 = VNPU_B_ADD;
}

/* What comes after the last position; NULL: nothing. */
static vnpu_insn_t *emit_finish(const coder_t *c) {
    const kern_slide_t *call = c->call;
    vnpu_ap_t sums = sums_ap(c);
    if (call->kind == KERN_SLIDE_SUM) {
        vnpu_insn_t *insn = emit_vector(c, VNPU_OP_V_UNARY, VNPU_U_COPY, out_ap(c), &sums, 1);
        if (call->scale == 1) return insn;
        insn->flags |= VNPU_F_SCALE;
        insn->imm[0] = kern_f32_bits((float)call->scale);
        return insn;
    }
    if (call->kind == KERN_SLIDE_MAX || call->activation == KERN_ACT_NONE) return NULL;
    return emit_vector(c, VNPU_OP_V_UNARY, kern_gemm_activation(call->activation), out_ap(c), &sums,
                       1);
}

static void emit_windows(const coder_t *c, uint32_t loads) {
    const kern_slide_t *call = c->call;
    vnpu_insn_t *insn = emit_first(c);
    kern_wait(insn, c->in.full, loads);
    kern_wait(insn, c->out.free, 1);
    uint32_t last = kern_last(c->builder, KERN_VECTOR); /* that reads the image */
    if (call->has_index) emit_first_place(c);
    for (int64_t p = 1; p < positions_of(call); p++) {
        emit_next(c, p / call->kernel[1], p % call->kernel[1]);
        last = kern_last(c->builder, KERN_VECTOR);
    }
    kern_signal(kern_insn(c->builder, KERN_VECTOR, last), c->in.free, 1);
    vnpu_insn_t *finish = emit_finish(c);
    kern_signal(finish ? finish : kern_insn(c->builder, KERN_VECTOR, last), c->out.full, 1);
}

/* ---- program ---- */

static void declare(coder_t *c) {
    const kern_slide_t *call = c->call;
    const plan_t *plan = c->plan;
    kern_builder_t *b = c->builder;
    uint32_t buffers = plan->nest.buffers, copies = plan->is_weight_fixed ? 1 : buffers;
    c->arg_out = kern_arg(b, VNPU_ARG_OUT);
    c->arg_in = kern_arg(b, VNPU_ARG_IN);
    c->sram_in =
        kern_sram(b, buffers * kern_align(plan->in_elems * vnpu_dtype_bytes(call->in_dtype)));
    c->sram_out =
        kern_sram(b, buffers * kern_align(plan->out_elems * vnpu_dtype_bytes(call->out_dtype)));
    if (needs_sums(call)) c->sram_sums = kern_sram(b, plan->out_elems * 4);
    c->in = kern_ring(b, KERN_VECTOR, buffers);
    c->out = kern_ring(b, KERN_STORE, buffers);
    if (call->has_index) {
        c->arg_index = kern_arg(b, VNPU_ARG_OUT);
        c->arg_zero = kern_arg(b, VNPU_ARG_SCALAR);
        c->arg_width = kern_arg(b, VNPU_ARG_SCALAR);
        c->sram_index = kern_sram(b, buffers * kern_align(plan->out_elems * 4));
        c->sram_flags = kern_sram(b, plan->out_elems);
        c->index = kern_ring(b, KERN_STORE, buffers);
    }
    if (call->kind != KERN_SLIDE_PRODUCT) return;
    c->fixed = kern_sem(b);
    c->arg_weight = kern_arg(b, VNPU_ARG_IN);
    c->sram_weight = kern_sram(
        b, copies * kern_align(plan->weight_elems * vnpu_dtype_bytes(call->weight_dtype)));
    if (!call->has_bias) return;
    c->arg_bias = kern_arg(b, VNPU_ARG_IN);
    c->sram_bias = kern_sram(
        b, copies * kern_align(axis_of(plan, SLIDE_C)->tile * vnpu_dtype_bytes(call->bias_dtype)));
}

static void generate(const kern_slide_t *call, const plan_t *plan, kern_builder_t *builder) {
    coder_t c = {.call = call, .plan = plan, .builder = builder};
    declare(&c);
    if (plan->is_weight_fixed) {
        uint32_t loads = emit_channel_loads(&c, c.fixed);
        if (loads > 0) kern_sync_wait(builder, KERN_VECTOR, c.fixed, loads);
    }
    kern_nest_open(&plan->nest, builder);
    vnpu_insn_t *load = load_image(&c);
    kern_wait(load, c.in.free, 1);
    kern_signal(load, c.in.full, 1);
    uint32_t loads = 1;
    if (!plan->is_weight_fixed) loads += emit_channel_loads(&c, c.in.full);
    emit_windows(&c, loads);
    vnpu_insn_t *insn =
        store(&c, c.arg_out, call->out_dtype, call->out_dtype, c.sram_out, call->out);
    kern_wait(insn, c.out.full, 1);
    kern_signal(insn, c.out.free, 1);
    if (call->has_index) {
        insn = store(&c, c.arg_index, VNPU_I64, VNPU_I32, c.sram_index, call->index);
        kern_wait(insn, c.index.full, 1);
        kern_signal(insn, c.index.free, 1);
    }
    kern_nest_close(&plan->nest, builder);
}

/* ---- launches ---- */

static void make_key(const kern_slide_t *call, kern_key_t *key) {
    kern_key_init(key, "slide");
    kern_key_add(key, call->size, sizeof call->size);
    kern_key_add(key, call->in_size, sizeof call->in_size);
    kern_key_add(key, call->kernel, sizeof call->kernel);
    kern_key_add(key, call->stride, sizeof call->stride);
    kern_key_add(key, call->dilation, sizeof call->dilation);
    kern_key_add(key, call->pad, sizeof call->pad);
    kern_key_add(key, call->in, sizeof call->in);
    kern_key_add(key, call->out, sizeof call->out);
    kern_key_add(key, call->index, sizeof call->index);
    kern_key_add(key, call->weight, sizeof call->weight);
    kern_key_add_u64(key, (uint64_t)call->bias);
    kern_key_add_u64(key, (uint64_t)call->kind | (uint64_t)call->in_dtype << 8 |
                              (uint64_t)call->out_dtype << 16 | (uint64_t)call->weight_dtype << 24 |
                              (uint64_t)call->bias_dtype << 32 | (uint64_t)call->activation << 40 |
                              (uint64_t)call->has_bias << 48 | (uint64_t)call->has_index << 49 |
                              (uint64_t)call->is_flipped << 50);
    kern_key_add_u64(key, kern_f32_bits((float)call->scale));
}

static vnpu_status_t build(kern_context_t *context, const kern_slide_t *call, const char *name,
                           const kern_key_t *key, const kern_entry_t **out_entry) {
    plan_t plan;
    *out_entry = NULL;
    if (!choose(context, call, &plan))
        return kern_fail(
            context, VNPU_ERROR_UNSUPPORTED,
            "%s: no tile of a %lld x %lld window (stride %lld x %lld, dilation %lld x %lld, "
            "pad %lld x %lld) fits %llu bytes of SRAM",
            name, (long long)call->kernel[0], (long long)call->kernel[1],
            (long long)call->stride[0], (long long)call->stride[1], (long long)call->dilation[0],
            (long long)call->dilation[1], (long long)call->pad[0], (long long)call->pad[1],
            (unsigned long long)context->machine.sram_bytes);
    kern_builder_t builder;
    kern_builder_init(&builder, &context->machine, name);
    generate(call, &plan, &builder);
    vnpu_status_t status = kern_add_program(context, key, &builder, plan.nest.grid, out_entry);
    kern_builder_fini(&builder);
    return status;
}

static vnpu_status_t launch(kern_context_t *context, vnpu_stream_t stream, const kern_slide_t *call,
                            const char *name) {
    kern_key_t key;
    make_key(call, &key);
    const kern_entry_t *entry = kern_cache_find(&context->cache, &key);
    if (!entry) {
        vnpu_status_t status = build(context, call, name, &key, &entry);
        if (status != VNPU_OK) return status;
    }
    uint64_t args[6] = {call->at_out, call->at_in};
    uint32_t count = 2;
    if (call->has_index) {
        args[count++] = call->at_index;
        args[count++] = 0;
        args[count++] = kern_arg_i64(call->in_size[1]);
    }
    if (call->kind == KERN_SLIDE_PRODUCT) args[count++] = call->at_weight;
    if (call->kind == KERN_SLIDE_PRODUCT && call->has_bias) args[count++] = call->at_bias;
    return kern_launch(context, stream, entry, args, count);
}

/* Elements that the call reaches, of image and result. */
static int64_t reach_of(const kern_slide_t *call) {
    int64_t in =
        (call->in_size[0] - 1) * call->in[SLIDE_H] + (call->in_size[1] - 1) * call->in[SLIDE_W];
    int64_t out = 0;
    for (uint32_t x = 0; x < SLIDE_AXES; x++) {
        if (x < SLIDE_H) in += (call->size[x] - 1) * call->in[x];
        out += (call->size[x] - 1) * call->out[x];
    }
    return in > out ? in : out;
}

vnpu_status_t kern_slide(kern_context_t *context, vnpu_stream_t stream, const kern_slide_t *call,
                         const char *name) {
    if (positions_of(call) > KERN_SLIDE_POSITIONS)
        return kern_fail(context, VNPU_ERROR_UNSUPPORTED,
                         "%s: a window of %lld x %lld has more than %d positions", name,
                         (long long)call->kernel[0], (long long)call->kernel[1],
                         KERN_SLIDE_POSITIONS);
    if (reach_of(call) < KERN_MAX_SPAN) return launch(context, stream, call, name);
    uint32_t x = call->size[SLIDE_B] > 1 ? SLIDE_B : SLIDE_C;
    if (call->size[x] == 1)
        return kern_fail(context, VNPU_ERROR_UNSUPPORTED,
                         "%s: one plane of %lld x %lld is too large", name,
                         (long long)call->in_size[0], (long long)call->in_size[1]);
    int64_t half = (call->size[x] + 1) / 2;
    for (int64_t from = 0; from < call->size[x]; from += half) {
        kern_slide_t part = *call;
        part.size[x] = call->size[x] - from < half ? call->size[x] - from : half;
        part.at_in += (uint64_t)(from * call->in[x]) * vnpu_dtype_bytes(call->in_dtype);
        part.at_out += (uint64_t)(from * call->out[x]) * vnpu_dtype_bytes(call->out_dtype);
        part.at_index += (uint64_t)(from * call->index[x]) * 8;
        if (x == SLIDE_C) {
            part.at_weight +=
                (uint64_t)(from * call->weight[0]) * vnpu_dtype_bytes(call->weight_dtype);
            part.at_bias += (uint64_t)(from * call->bias) * vnpu_dtype_bytes(call->bias_dtype);
        }
        vnpu_status_t status = kern_slide(context, stream, &part, name);
        if (status != VNPU_OK) return status;
    }
    return VNPU_OK;
}
