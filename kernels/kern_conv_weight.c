/*
 * Gradient of a convolution's weights: out[g][m][n][i][j] = sum over b, y, x of
 * grad[g][b][y][x][m] * in[g][b][y * stride + i * dilation - pad][...][n], as products (m | y, x)
 * by (y, x | n, i, j): the image's tile with its border lies in the scratchpad and is read by a
 * pattern, as in kern_conv. Sums run over images, rows and columns in this order, whatever the
 * tiles are (bf16: in pairs inside a tile).
 */
#include <string.h>

#include "kernels/kern_cost.h"
#include "kernels/kern_internal.h"
#include "kernels/kern_move.h"

enum { AXIS_G = 0, AXIS_M, AXIS_N, AXIS_B, AXIS_Y, AXIS_X, AXES }; /* in loop order */

typedef struct shape {
    int64_t size[AXES]; /* M: results, N: channels of a group; Y, X: of the result's gradient */
    int64_t in_size[2], kernel[2], stride[2], dilation[2], pad[2];
    int64_t in[AXES], grad[AXES], out[AXES], out_kernel[2]; /* strides */
    vnpu_dtype_t dtype, out_dtype;
} shape_t;

typedef struct plan {
    kern_axis_t axis[AXES];
    uint32_t grid[2];
    uint32_t buffers, result_buffers;
    uint8_t level, result_level; /* loops that turn them */
} plan_t;

typedef struct coder {
    const shape_t *shape;
    const plan_t *plan;
    kern_builder_t *builder;
    bool is_image_last, is_grad_last; /* channels are the contiguous direction */
    kern_window_t window[2];
    kern_axis_t kernel[2];
    int64_t in_stride[AXES], grad_stride[AXES], out_stride[AXES], out_kernel[2]; /* of tiles */
    uint64_t in_elems, grad_elems, out_elems;
    uint8_t arg_out, arg_in, arg_grad;
    uint32_t sram_in, sram_grad, sram_out, acc;
    kern_ring_t operands, result, out;
} coder_t;

static const kern_axis_t *axis_of(const coder_t *c, uint32_t x) {
    return &c->plan->axis[x];
}
static uint8_t level_mask(const kern_axis_t *axis) {
    return (uint8_t)(axis->level == VNPU_NO_LOOP ? 0u : 1u << axis->level);
}

/* ---- layouts ---- */

static kern_window_t window_of(const shape_t *s, const plan_t *plan, int spatial) {
    int64_t tile = plan->axis[spatial ? AXIS_X : AXIS_Y].tile;
    int64_t reach = (s->kernel[spatial] - 1) * s->dilation[spatial] + 1;
    return (kern_window_t){.size = (tile - 1) * s->stride[spatial] + reach,
                           .step = tile * s->stride[spatial],
                           .extent = s->in_size[spatial],
                           .pad = s->pad[spatial]};
}

/* [rows][cols][channels] or [channels][rows][cols]; returns the elements. */
static uint64_t lay_out(int64_t *stride, uint32_t channel, bool is_last, int64_t rows, int64_t cols,
                        int64_t channels) {
    stride[channel] = is_last ? 1 : rows * cols;
    stride[AXIS_X] = is_last ? channels : 1;
    stride[AXIS_Y] = cols * stride[AXIS_X];
    return (uint64_t)(rows * cols * channels);
}

static coder_t coder_of(const shape_t *s, const plan_t *plan) {
    coder_t c = {.shape = s, .plan = plan};
    const kern_axis_t *axis = plan->axis;
    c.is_image_last = s->in[AXIS_N] != 0 && s->in[AXIS_N] < s->in[AXIS_X];
    c.is_grad_last = s->grad[AXIS_M] != 0 && s->grad[AXIS_M] < s->grad[AXIS_X];
    for (int d = 0; d < 2; d++) {
        c.window[d] = window_of(s, plan, d);
        c.kernel[d] = kern_axis_make(s->kernel[d], s->kernel[d]);
    }
    c.in_elems = lay_out(c.in_stride, AXIS_N, c.is_image_last, c.window[0].size, c.window[1].size,
                         axis[AXIS_N].tile);
    c.grad_elems = lay_out(c.grad_stride, AXIS_M, c.is_grad_last, axis[AXIS_Y].tile,
                           axis[AXIS_X].tile, axis[AXIS_M].tile);
    c.out_kernel[1] = 1;
    c.out_kernel[0] = s->kernel[1];
    c.out_stride[AXIS_N] = s->kernel[0] * s->kernel[1];
    c.out_stride[AXIS_M] = c.out_stride[AXIS_N] * axis[AXIS_N].tile;
    c.out_elems = (uint64_t)(c.out_stride[AXIS_M] * axis[AXIS_M].tile);
    return c;
}

static uint64_t sram_need(const coder_t *c) {
    uint32_t elem = vnpu_dtype_bytes(c->shape->dtype);
    return c->plan->buffers * (kern_align(c->in_elems * elem) + kern_align(c->grad_elems * elem)) +
           c->plan->result_buffers *
               kern_align(c->out_elems * vnpu_dtype_bytes(c->shape->out_dtype));
}

static uint64_t products_of(const plan_t *plan) { /* of one tile of results */
    return (uint64_t)plan->axis[AXIS_B].trips * plan->axis[AXIS_Y].trips * plan->axis[AXIS_X].trips;
}

static bool fits(const vnpu_machine_t *machine, const shape_t *s, const plan_t *plan) {
    coder_t c = coder_of(s, plan);
    if (products_of(plan) > UINT16_MAX)
        return false; /* the wait on all of them must fit its field */
    static const uint32_t axes[2] = {AXIS_Y, AXIS_X};
    for (int d = 0; d < 2; d++) {
        if (!kern_window_is_possible(&plan->axis[axes[d]], &c.window[d])) return false;
    }
    return sram_need(&c) <= machine->sram_bytes &&
           plan->result_buffers * kern_align(c.out_elems * 4) <= machine->acc_bytes;
}

/* ---- plans ---- */

/* A loop inside another that turns buffers goes in whole rounds of them. False: too many loops. */
static bool set_loops(plan_t *plan) {
    uint32_t depth = 0, inner = AXES, result = AXES;
    bool is_single = false;
    plan->level = plan->result_level = VNPU_NO_LOOP;
    for (uint32_t x = 0; x < AXES; x++) {
        if (plan->axis[x].trips == 1) continue;
        inner = x;
        if (x < AXIS_B) result = x;
    }
    for (uint32_t x = 0; x < AXES; x++) {
        kern_axis_t *axis = &plan->axis[x];
        if (axis->trips == 1) continue;
        if (depth == VNPU_MAX_LOOPS) return false;
        bool turns = x == inner || x == result;
        is_single = x == inner && x == AXIS_B && depth > 0 && axis->trips % 2 != 0;
        if (depth > 0 && turns && !is_single) axis->trips += axis->trips % 2;
        axis->level = (uint8_t)depth++;
        if (x == inner) plan->level = axis->level;
        if (x == result) plan->result_level = axis->level;
    }
    /* An odd number of images has no whole rounds of two buffers. */
    plan->buffers = plan->level == VNPU_NO_LOOP || is_single ? 1 : 2;
    plan->result_buffers = plan->result_level == VNPU_NO_LOOP ? 1 : 2;
    /* An image or a group that is clipped away takes a dimension that the patterns do not have. */
    return !kern_axis_is_clipped(&plan->axis[AXIS_B]) && !kern_axis_is_clipped(&plan->axis[AXIS_G]);
}

static uint64_t share(const kern_axis_t *axis) {
    uint64_t all = kern_ceil_div(axis->tiles, axis->grid) * axis->tile;
    return all < (uint64_t)axis->size ? all : (uint64_t)axis->size;
}

static uint64_t cost_of(const vnpu_machine_t *machine, const shape_t *s, const plan_t *plan) {
    coder_t c = coder_of(s, plan);
    const kern_axis_t *axis = plan->axis;
    uint32_t elem = vnpu_dtype_bytes(s->dtype);
    uint64_t positions = (uint64_t)(s->kernel[0] * s->kernel[1]);
    uint64_t m = share(&axis[AXIS_M]), n = share(&axis[AXIS_N]) * positions;
    uint64_t k_tile = (uint64_t)axis[AXIS_Y].tile * axis[AXIS_X].tile;
    uint64_t k_tiles = (uint64_t)axis[AXIS_B].tiles * axis[AXIS_Y].tiles * axis[AXIS_X].tiles;
    uint64_t groups = share(&axis[AXIS_G]);
    uint64_t products = groups * k_tiles *
                        kern_cost_matrix(machine, s->dtype, m, k_tile, n, axis[AXIS_M].tile, k_tile,
                                         axis[AXIS_N].tile * positions);
    uint64_t tiles = groups * kern_ceil_div(m, axis[AXIS_M].tile) *
                     kern_ceil_div(n, axis[AXIS_N].tile * positions);
    uint64_t row = (uint64_t)s->in_size[1] * elem;
    uint64_t load = kern_cost_dma(machine, c.in_elems * elem, row) +
                    kern_cost_dma(machine, c.grad_elems * elem, (uint64_t)axis[AXIS_X].tile * elem);
    uint64_t dram = kern_cost_dram(machine, tiles * k_tiles * (c.in_elems + c.grad_elems) * elem *
                                                plan->grid[0] * plan->grid[1]);
    uint64_t loads = tiles * k_tiles * load;
    uint64_t slowest = products > loads ? products : loads;
    uint64_t rounds = kern_ceil_div((uint64_t)plan->grid[0] * plan->grid[1], machine->workers);
    return rounds * (slowest > dram ? slowest : dram) + load + kern_cost_loaded_latency(machine);
}

typedef struct search {
    const vnpu_machine_t *machine;
    const shape_t *shape;
    plan_t best;
    uint64_t cycles;
} search_t;

static void consider(search_t *search, const int64_t tile[AXES], uint32_t grid_m, uint32_t grid_n) {
    plan_t plan = {.grid = {grid_m, grid_n}};
    for (uint32_t x = 0; x < AXES; x++)
        plan.axis[x] = kern_axis_make(search->shape->size[x], tile[x]);
    if (plan.axis[AXIS_M].tiles < grid_m || plan.axis[AXIS_N].tiles < grid_n) return;
    if (grid_m > 1) kern_axis_split(&plan.axis[AXIS_M], 0, grid_m);
    if (grid_n > 1) kern_axis_split(&plan.axis[AXIS_N], 1, grid_n);
    if (!set_loops(&plan) || !fits(search->machine, search->shape, &plan)) return;
    uint64_t cycles = cost_of(search->machine, search->shape, &plan);
    if (cycles >= search->cycles) return;
    search->cycles = cycles;
    search->best = plan;
}

/* Tiles of results, channels and rows by halves of what one instance has. */
static void consider_grid(search_t *search, uint32_t grid_m, uint32_t grid_n) {
    const int64_t *size = search->shape->size;
    int64_t most_m = (int64_t)kern_ceil_div((uint64_t)size[AXIS_M], grid_m);
    int64_t most_n = (int64_t)kern_ceil_div((uint64_t)size[AXIS_N], grid_n);
    for (int64_t m = most_m;; m = (m + 1) / 2) {
        for (int64_t n = most_n;; n = (n + 1) / 2) {
            for (int64_t y = size[AXIS_Y];; y = (y + 1) / 2) {
                for (int64_t x = size[AXIS_X];; x = (x + 1) / 2) {
                    consider(search, (int64_t[AXES]){1, m, n, 1, y, x}, grid_m, grid_n);
                    if (x == 1 || y > 1)
                        break; /* pieces of rows only where single rows are too long */
                }
                if (y == 1) break;
            }
            if (n == 1) break;
        }
        if (m == 1) break;
    }
}

static bool choose(const vnpu_machine_t *machine, const shape_t *shape, plan_t *out_plan) {
    search_t search = {.machine = machine, .shape = shape, .cycles = UINT64_MAX};
    for (uint32_t grid_n = 1; grid_n <= machine->workers; grid_n++) {
        uint32_t grid_m = machine->workers / grid_n;
        if (grid_m * grid_n != machine->workers) continue;
        consider_grid(&search, grid_m, grid_n);
    }
    if (search.cycles == UINT64_MAX) consider_grid(&search, 1, 1);
    *out_plan = search.best;
    return search.cycles != UINT64_MAX;
}

/* ---- code ---- */

static vnpu_insn_t *load(const coder_t *c, bool is_image) {
    const shape_t *s = c->shape;
    const int64_t *far = is_image ? s->in : s->grad;
    const int64_t *near = is_image ? c->in_stride : c->grad_stride;
    uint32_t channel = is_image ? AXIS_N : AXIS_M;
    kern_move_t move = {.arg = is_image ? c->arg_in : c->arg_grad,
                        .far_dtype = s->dtype,
                        .near_dtype = s->dtype,
                        .sram = is_image ? c->sram_in : c->sram_grad,
                        .level = c->plan->level,
                        .buffers = c->plan->buffers,
                        .elems = is_image ? c->in_elems : c->grad_elems};
    kern_move_add(&move, axis_of(c, AXIS_G), far[AXIS_G], 0, NULL);
    kern_move_add(&move, axis_of(c, AXIS_B), far[AXIS_B], 0, NULL);
    kern_move_add(&move, axis_of(c, channel), far[channel], near[channel], NULL);
    for (int d = 0; d < 2; d++) {
        uint32_t x = d ? AXIS_X : AXIS_Y;
        kern_move_add(&move, axis_of(c, x), far[x], near[x], is_image ? &c->window[d] : NULL);
    }
    return kern_move_emit(c->builder, KERN_LOAD, &move);
}

static vnpu_ap_t result_ap(const coder_t *c, vnpu_space_t space, vnpu_dtype_t dtype, uint32_t base,
                           bool keep) {
    kern_term_t term[4] = {{axis_of(c, AXIS_M), c->out_stride[AXIS_M], keep},
                           {axis_of(c, AXIS_N), c->out_stride[AXIS_N], keep},
                           {&c->kernel[0], c->out_kernel[0], false},
                           {&c->kernel[1], c->out_kernel[1], false}};
    vnpu_ap_t ap = kern_ap_terms(space, dtype, base, term, 4, false);
    kern_ap_rotate(&ap, c->plan->result_level, c->plan->result_buffers,
                   kern_move_padded(c->out_elems, dtype));
    return ap;
}

static void emit_mm(const coder_t *c) {
    const shape_t *s = c->shape;
    const kern_axis_t *y = axis_of(c, AXIS_Y), *x = axis_of(c, AXIS_X);
    kern_term_t left[3] = {{axis_of(c, AXIS_M), c->grad_stride[AXIS_M], true},
                           {y, c->grad_stride[AXIS_Y], false},
                           {x, c->grad_stride[AXIS_X], true}};
    kern_term_t right[5] = {{y, c->in_stride[AXIS_Y] * s->stride[0], false},
                            {x, c->in_stride[AXIS_X] * s->stride[1], true},
                            {axis_of(c, AXIS_N), c->in_stride[AXIS_N], true},
                            {&c->kernel[0], c->in_stride[AXIS_Y] * s->dilation[0], false},
                            {&c->kernel[1], c->in_stride[AXIS_X] * s->dilation[1], false}};
    vnpu_ap_t a = kern_ap_terms(VNPU_SPACE_SRAM, s->dtype, c->sram_grad, left, 3, false);
    vnpu_ap_t b = kern_ap_terms(VNPU_SPACE_SRAM, s->dtype, c->sram_in, right, 5, false);
    vnpu_ap_t d = result_ap(c, VNPU_SPACE_ACC, VNPU_F32, c->acc, true);
    kern_ap_rotate(&a, c->plan->level, c->plan->buffers, kern_move_padded(c->grad_elems, s->dtype));
    kern_ap_rotate(&b, c->plan->level, c->plan->buffers, kern_move_padded(c->in_elems, s->dtype));
    vnpu_insn_t *insn = kern_emit(c->builder, KERN_MATRIX, VNPU_OP_MM);
    insn->func = y->tile > 1 || kern_axis_is_clipped(y) ? 1 : 0;
    insn->dst = kern_ap(c->builder, &d);
    insn->src[0] = kern_ap(c->builder, &a);
    insn->src[1] = kern_ap(c->builder, &b);
    insn->not_first = (uint8_t)(level_mask(axis_of(c, AXIS_B)) | level_mask(y) | level_mask(x));
    kern_wait(insn, c->operands.full, 2);
    kern_signal(insn, c->operands.free, 1);
    kern_signal(insn, c->result.full, 1);
}

static void emit_result(const coder_t *c, uint32_t products) {
    vnpu_ap_t sums = result_ap(c, VNPU_SPACE_ACC, VNPU_F32, c->acc, false);
    vnpu_ap_t out = result_ap(c, VNPU_SPACE_SRAM, c->shape->out_dtype, c->sram_out, false);
    kern_ap_merge((vnpu_ap_t *[]){&out, &sums}, 2, 0);
    kern_sync_wait(c->builder, KERN_VECTOR, c->out.free, 1);
    kern_sync_wait(c->builder, KERN_VECTOR, c->result.full, products);
    vnpu_insn_t *insn = kern_emit(c->builder, KERN_VECTOR, VNPU_OP_V_UNARY);
    insn->dst = kern_ap(c->builder, &out);
    insn->src[0] = kern_ap(c->builder, &sums);
    kern_signal(insn, c->result.free, 1);
    kern_signal(insn, c->out.full, 1);
    kern_move_t move = {.arg = c->arg_out,
                        .far_dtype = c->shape->out_dtype,
                        .near_dtype = c->shape->out_dtype,
                        .sram = c->sram_out,
                        .level = c->plan->result_level,
                        .buffers = c->plan->result_buffers,
                        .elems = c->out_elems};
    kern_move_add(&move, axis_of(c, AXIS_G), c->shape->out[AXIS_G], 0, NULL);
    for (uint32_t x = AXIS_M; x <= AXIS_N; x++)
        kern_move_add(&move, axis_of(c, x), c->shape->out[x], c->out_stride[x], NULL);
    for (int d = 0; d < 2; d++)
        kern_move_add(&move, &c->kernel[d], c->shape->out_kernel[d], c->out_kernel[d], NULL);
    insn = kern_move_emit(c->builder, KERN_STORE, &move);
    kern_wait(insn, c->out.full, 1);
    kern_signal(insn, c->out.free, 1);
}

static void generate(const shape_t *s, const plan_t *plan, kern_builder_t *b) {
    coder_t c = coder_of(s, plan);
    uint32_t elem = vnpu_dtype_bytes(s->dtype);
    c.builder = b;
    c.arg_out = kern_arg(b, VNPU_ARG_OUT);
    c.arg_in = kern_arg(b, VNPU_ARG_IN);
    c.arg_grad = kern_arg(b, VNPU_ARG_IN);
    c.sram_in = kern_sram(b, plan->buffers * kern_align(c.in_elems * elem));
    c.sram_grad = kern_sram(b, plan->buffers * kern_align(c.grad_elems * elem));
    c.sram_out = kern_sram(b, plan->result_buffers *
                                  kern_align(c.out_elems * vnpu_dtype_bytes(s->out_dtype)));
    c.acc = kern_acc(b, plan->result_buffers * kern_align(c.out_elems * 4));
    c.operands = kern_ring(b, KERN_MATRIX, plan->buffers);
    c.result = kern_ring(b, KERN_VECTOR, plan->result_buffers);
    c.out = kern_ring(b, KERN_STORE, plan->result_buffers);
    for (uint32_t x = 0; x < AXES; x++) {
        if (x == AXIS_B) kern_sync_wait(b, KERN_MATRIX, c.result.free, 1);
        if (plan->axis[x].level != VNPU_NO_LOOP) kern_loop(b, plan->axis[x].trips);
    }
    vnpu_insn_t *insn = load(&c, true);
    kern_wait(insn, c.operands.free, 1);
    kern_signal(insn, c.operands.full, 1);
    kern_signal(load(&c, false), c.operands.full, 1);
    emit_mm(&c);
    for (uint32_t x = AXES; x-- > 0;) {
        if (plan->axis[x].level != VNPU_NO_LOOP) kern_end(b);
        if (x == AXIS_B) emit_result(&c, (uint32_t)products_of(plan));
    }
}

/* ---- calls ---- */

static void make_key(const shape_t *s, kern_key_t *key) {
    kern_key_init(key, "conv_weight");
    kern_key_add(key, s->size, sizeof s->size);
    kern_key_add(key, s->in_size, sizeof s->in_size);
    kern_key_add(key, s->kernel, sizeof s->kernel);
    kern_key_add(key, s->stride, sizeof s->stride);
    kern_key_add(key, s->dilation, sizeof s->dilation);
    kern_key_add(key, s->pad, sizeof s->pad);
    kern_key_add(key, s->in, sizeof s->in);
    kern_key_add(key, s->grad, sizeof s->grad);
    kern_key_add(key, s->out, sizeof s->out);
    kern_key_add(key, s->out_kernel, sizeof s->out_kernel);
    kern_key_add_u64(key, (uint64_t)s->dtype | (uint64_t)s->out_dtype << 8);
}

static vnpu_status_t build(kern_context_t *context, const shape_t *s, const kern_key_t *key,
                           const kern_entry_t **out_entry) {
    plan_t plan;
    *out_entry = NULL;
    if (!choose(&context->machine, s, &plan))
        return kern_fail(
            context, VNPU_ERROR_UNSUPPORTED,
            "conv_weight: no tile of a %lld x %lld kernel (stride %lld x %lld, dilation %lld x "
            "%lld, pad %lld x %lld) fits %llu bytes of SRAM and %llu of accumulator",
            (long long)s->kernel[0], (long long)s->kernel[1], (long long)s->stride[0],
            (long long)s->stride[1], (long long)s->dilation[0], (long long)s->dilation[1],
            (long long)s->pad[0], (long long)s->pad[1],
            (unsigned long long)context->machine.sram_bytes,
            (unsigned long long)context->machine.acc_bytes);
    kern_builder_t builder;
    kern_builder_init(&builder, &context->machine, "conv_weight");
    generate(s, &plan, &builder);
    vnpu_status_t status = kern_add_program(context, key, &builder, plan.grid, out_entry);
    kern_builder_fini(&builder);
    return status;
}

static vnpu_status_t check_call(kern_context_t *context, const kern_conv_weight_t *call) {
    const kern_tensor_t *t[3] = {&call->out, &call->in, &call->grad};
    static const char *const name[3] = {"out", "in", "grad"};
    for (int i = 0; i < 3; i++) {
        vnpu_status_t status = kern_check_tensor(context, "conv_weight", name[i], t[i]);
        if (status == VNPU_OK && i == 0) status = kern_check_output(context, "conv_weight", t[i]);
        if (status != VNPU_OK) return status;
        if (t[i]->ndims != 4)
            return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                             "conv_weight: %s has %u dimensions, 4 are needed", name[i],
                             t[i]->ndims);
    }
    const int64_t *o = call->out.size, *in = call->in.size, *g = call->grad.size;
    bool is_right = call->groups > 0 && in[0] == g[0] && g[1] == o[0] && o[0] % call->groups == 0 &&
                    in[1] == o[1] * call->groups && call->stride[0] && call->stride[1] &&
                    call->dilation[0] && call->dilation[1];
    if (!is_right) {
        char to[160], ti[160], tg[160];
        return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                         "conv_weight: operands do not agree: out %s, in %s, grad %s, %u groups",
                         kern_describe(&call->out, to, sizeof to),
                         kern_describe(&call->in, ti, sizeof ti),
                         kern_describe(&call->grad, tg, sizeof tg), call->groups);
    }
    vnpu_dtype_t dtype = call->in.dtype;
    if (!kern_dtype_is_float(dtype) || dtype != call->grad.dtype ||
        context->machine.matrix_rate_num[dtype] == 0)
        return kern_fail(
            context, VNPU_ERROR_UNSUPPORTED, "conv_weight: the matrix unit of %s has no %s by %s",
            context->machine.name, kern_dtype_name(dtype), kern_dtype_name(call->grad.dtype));
    return VNPU_OK;
}

static void read_call(const kern_conv_weight_t *call, shape_t *s) {
    const kern_tensor_t *o = &call->out, *in = &call->in, *g = &call->grad;
    int64_t groups = call->groups, m = o->size[0] / groups, n = o->size[1];
    *s = (shape_t){.size = {groups, m, n, g->size[0], g->size[2], g->size[3]},
                   .dtype = call->in.dtype,
                   .out_dtype = o->dtype};
    for (int d = 0; d < 2; d++) {
        s->in_size[d] = in->size[2 + d], s->kernel[d] = o->size[2 + d];
        s->stride[d] = call->stride[d], s->dilation[d] = call->dilation[d],
        s->pad[d] = call->pad[d];
        s->out_kernel[d] = o->size[2 + d] > 1 ? o->stride[2 + d] : 0;
    }
    s->in[AXIS_G] = groups > 1 ? in->stride[1] * n : 0, s->in[AXIS_N] = n > 1 ? in->stride[1] : 0;
    s->grad[AXIS_G] = groups > 1 ? g->stride[1] * m : 0, s->grad[AXIS_M] = m > 1 ? g->stride[1] : 0;
    s->out[AXIS_G] = groups > 1 ? o->stride[0] * m : 0, s->out[AXIS_M] = m > 1 ? o->stride[0] : 0;
    s->out[AXIS_N] = n > 1 ? o->stride[1] : 0;
    s->in[AXIS_B] = in->size[0] > 1 ? in->stride[0] : 0;
    s->grad[AXIS_B] = g->size[0] > 1 ? g->stride[0] : 0;
    for (uint32_t d = 0; d < 2; d++) {
        s->in[AXIS_Y + d] = in->size[2 + d] > 1 ? in->stride[2 + d] : 0;
        s->grad[AXIS_Y + d] = g->size[2 + d] > 1 ? g->stride[2 + d] : 0;
    }
}

static vnpu_status_t run(kern_context_t *context, vnpu_stream_t stream,
                         const kern_conv_weight_t *call) {
    vnpu_status_t status = check_call(context, call);
    if (status != VNPU_OK || kern_numel(&call->out) == 0) return status;
    if (kern_numel(&call->in) == 0 || kern_numel(&call->grad) == 0)
        return kern_fill(context, stream, &call->out, 0, 0);
    if (kern_span(&call->in) >= KERN_MAX_SPAN || kern_span(&call->grad) >= KERN_MAX_SPAN ||
        kern_span(&call->out) >= KERN_MAX_SPAN)
        return kern_fail(context, VNPU_ERROR_UNSUPPORTED, "conv_weight: an operand is too large");
    shape_t shape;
    read_call(call, &shape);
    kern_key_t key;
    make_key(&shape, &key);
    const kern_entry_t *entry = kern_cache_find(&context->cache, &key);
    if (!entry) {
        status = build(context, &shape, &key, &entry);
        if (status != VNPU_OK) return status;
    }
    uint64_t args[3] = {call->out.address, call->in.address, call->grad.address};
    return kern_launch(context, stream, entry, args, 3);
}

vnpu_status_t kern_conv_weight(kern_context_t *context, vnpu_stream_t stream,
                               const kern_conv_weight_t *call) {
    uint32_t before = kern_class_enter(context, call->in.dtype);
    vnpu_status_t status = run(context, stream, call);
    kern_class_leave(context, before);
    return status;
}
