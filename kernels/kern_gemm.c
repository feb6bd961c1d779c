#include <string.h>

#include "kernels/kern_cost.h"
#include "kernels/kern_gemm_plan.h"
#include "kernels/kern_internal.h"
#include "kernels/kern_profile.h"

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

/* The candidates of one shape. */
typedef struct choice {
    const kern_gemm_shape_t *shape;
    kern_gemm_plan_t plan[KERN_TRIALS];
    uint32_t count;
    bool has_stepped; /* the second one goes step by step */
} choice_t;

static void generate(const void *call, uint32_t candidate, kern_builder_t *builder,
                     uint32_t out_grid[2]) {
    const choice_t *choice = call;
    const kern_gemm_plan_t *plan = &choice->plan[candidate];
    kern_gemm_generate(choice->shape, plan, builder);
    memcpy(out_grid, plan->grid, sizeof plan->grid);
}

/* How many candidates the simulator shall compare: 1 where the closed form is clear or the product
 * too small to matter. */
static uint32_t trials(const choice_t *choice, bool measures) {
    const int64_t *size = choice->shape->size;
    double macs =
        (double)size[GEMM_B] * (double)size[GEMM_M] * (double)size[GEMM_N] * (double)size[GEMM_K];
    if (!measures || kern_plan_is_small(macs, choice->plan[0].cycles)) return 1;
    uint64_t cycles[KERN_TRIALS];
    for (uint32_t i = 0; i < choice->count; i++)
        cycles[i] = choice->plan[i].cycles;
    uint32_t close = kern_plan_close(cycles, choice->count);
    bool has_both = choice->count > 1 && choice->plan[0].is_shared != choice->plan[1].is_shared;
    return (has_both || choice->has_stepped) && close < 2 ? 2 : close;
}

/* Where results go straight to DRAM, tiles that are loaded, multiplied and stored step by step are
 * worth a trial on one core (kern_profile_gemmini.c): the closed form does not know steps. */
static void add_stepped(const kern_context_t *context, choice_t *choice) {
    kern_gemm_plan_t plan;
    if (context->machine.workers > 1 || !choice->shape->is_direct || choice->count == 0) return;
    if (!kern_profile_of(&context->machine)->has_trials) return;
    if (!kern_profile_gemmini_gemm(&context->machine, choice->shape, &plan)) return;
    kern_plan_second(choice->plan, &choice->count, &plan, sizeof plan);
    choice->has_stepped = true;
}

/* Where tiles may be shared, the best plan of either kind comes first: what receivers wait for each
 * other the closed form knows least, so both are timed. */
static void pair_up(choice_t *choice) {
    for (uint32_t i = 1; i < choice->count; i++) {
        if (choice->plan[i].is_shared == choice->plan[0].is_shared) continue;
        kern_gemm_plan_t other = choice->plan[i];
        memmove(&choice->plan[2], &choice->plan[1], (i - 1) * sizeof other);
        choice->plan[1] = other;
        return;
    }
}

static void describe(const void *call, const vnpu_machine_t *machine, uint32_t chosen,
                     uint32_t next, kern_mapping_t *out_mapping) {
    const choice_t *choice = call;
    kern_gemm_describe(machine, choice->shape, &choice->plan[chosen],
                       next == KERN_NO_TRIAL ? NULL : &choice->plan[next], out_mapping);
}

static vnpu_status_t get_program(kern_context_t *context, const kern_gemm_shape_t *shape,
                                 const kern_entry_t **out_entry) {
    kern_key_t key;
    make_key(shape, &key);
    *out_entry = kern_cache_find(&context->cache, &key);
    if (*out_entry) return VNPU_OK;
    bool measures;
    vnpu_status_t status = kern_plan_check(context, &measures);
    if (status != VNPU_OK) return status;
    choice_t choice = {.shape = shape};
    choice.count = kern_gemm_rank(&context->machine, shape, choice.plan, KERN_TRIALS);
    pair_up(&choice);
    add_stepped(context, &choice);
    if (choice.count == 0) {
        return kern_fail(
            context, VNPU_ERROR_UNSUPPORTED,
            "gemm: no tile of %lld x %lld x %lld fits %llu bytes of SRAM and %llu of accumulator",
            (long long)shape->size[GEMM_M], (long long)shape->size[GEMM_K],
            (long long)shape->size[GEMM_N], (unsigned long long)context->machine.sram_bytes,
            (unsigned long long)context->machine.acc_bytes);
    }
    kern_trial_t trial = {.name = "gemm",
                          .call = &choice,
                          .generate = generate,
                          .describe = describe,
                          .ranked = choice.count,
                          .count = trials(&choice, measures)};
    return kern_plan_build(context, &key, &trial, out_entry);
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
    int64_t block = longest == GEMM_N ? vnpu_dtype_block(shape->b_dtype) : 1;
    int64_t half = (shape->size[longest] / block + 1) / 2 * block;
    for (int64_t from = 0; from < shape->size[longest]; from += half) {
        kern_gemm_shape_t part = *shape;
        operands_t moved = *at;
        part.size[longest] =
            shape->size[longest] - from < half ? shape->size[longest] - from : half;
        int32_t ia = longest == GEMM_B ? 0 : longest == GEMM_M ? 1 : -1;
        int32_t ib = longest == GEMM_B ? 0 : longest == GEMM_N ? 2 : -1;
        uint32_t io = longest == GEMM_B ? 0 : longest == GEMM_M ? 1 : 2;
        if (ia >= 0) moved.a += vnpu_dtype_span(shape->a_dtype, (uint64_t)(from * shape->a[ia]));
        if (ib >= 0) moved.b += vnpu_dtype_span(shape->b_dtype, (uint64_t)(from * shape->b[ib]));
        moved.out += vnpu_dtype_span(shape->out_dtype, (uint64_t)(from * shape->out[io]));
        if (shape->has_c)
            moved.c += vnpu_dtype_span(shape->c_dtype, (uint64_t)(from * shape->c[io]));
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
        if (status == VNPU_OK && i == 0) status = kern_check_output(context, "gemm", t[i]);
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
    bool is_int8;
    vnpu_status_t status = kern_check_product(context, "gemm", a, b, &is_int8);
    if (status != VNPU_OK) return status;
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
    p.node[1] = (kern_node_t){
        KERN_NODE_UNARY, kern_gemm_activation(call->activation), {KERN_NODE(0), 0, 0}};
    return kern_pointwise(context, stream, &p);
}

bool kern_lacks_activation(const kern_context_t *context, kern_activation_t activation) {
    kern_class_t function = kern_class_unary(kern_gemm_activation(activation));
    return activation != KERN_ACT_NONE && !kern_has_functions(&context->machine, function);
}

vnpu_status_t kern_activate(kern_context_t *context, vnpu_stream_t stream, const kern_tensor_t *out,
                            kern_activation_t activation) {
    kern_pointwise_t p = {
        .name = "activation",
        .out = *out,
        .num_inputs = 1,
        .input = {*out},
        .num_nodes = 1,
        .node = {{KERN_NODE_UNARY, kern_gemm_activation(activation), {KERN_INPUT(0), 0, 0}}}};
    return kern_pointwise(context, stream, &p);
}

static vnpu_status_t run_gemm(kern_context_t *context, vnpu_stream_t stream,
                              const kern_gemm_t *call) {
    vnpu_status_t status = check_operands(context, call);
    if (status == VNPU_OK) status = check_sizes(context, call);
    if (status == VNPU_OK) status = check_types(context, call);
    if (status != VNPU_OK || kern_numel(&call->out) == 0) return status;
    const kern_tensor_t *o = &call->out;
    bool has_c = call->c.address != 0 && call->beta != 0;
    if (call->a.size[call->a.ndims - 1] == 0) return run_empty_sum(context, stream, call, has_c);
    if (kern_lacks_activation(context, call->activation)) {
        kern_gemm_t plain = *call;
        plain.activation = KERN_ACT_NONE;
        status = run_gemm(context, stream, &plain);
        return status != VNPU_OK ? status
                                 : kern_activate(context, stream, &call->out, call->activation);
    }
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
    shape.keeps_rows = context->machine.dma_keeps_rows;
    shape.is_direct = context->machine.dma_accumulator_bytes_per_cycle > 0 && !has_c &&
                      vnpu_dtype_block(o->dtype) == 1 && !shape.has_alpha &&
                      call->activation == KERN_ACT_NONE;
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

vnpu_status_t kern_gemm(kern_context_t *context, vnpu_stream_t stream, const kern_gemm_t *call) {
    uint32_t before = kern_class_enter(context, call->a.dtype);
    vnpu_status_t status = run_gemm(context, stream, call);
    kern_class_leave(context, before);
    return status;
}
