#include <string.h>

#include "kernels/kern_conv_plan.h"
#include "kernels/kern_cost.h"
#include "kernels/kern_gemm_plan.h"
#include "kernels/kern_internal.h"
#include "kernels/kern_profile.h"
#include "kernels/kern_slide.h"

static void make_key(const kern_conv_shape_t *s, kern_key_t *key) {
    kern_key_init(key, "conv");
    kern_key_add(key, s->size, sizeof s->size);
    kern_key_add(key, s->in_size, sizeof s->in_size);
    kern_key_add(key, s->kernel, sizeof s->kernel);
    kern_key_add(key, s->stride, sizeof s->stride);
    kern_key_add(key, s->dilation, sizeof s->dilation);
    kern_key_add(key, s->pad, sizeof s->pad);
    kern_key_add(key, s->in, sizeof s->in);
    kern_key_add(key, s->out, sizeof s->out);
    kern_key_add(key, s->weight, sizeof s->weight);
    kern_key_add(key, s->weight_kernel, sizeof s->weight_kernel);
    if (s->has_bias) kern_key_add(key, s->bias, sizeof s->bias);
    kern_key_add_u64(key, (uint64_t)s->in_dtype | (uint64_t)s->weight_dtype << 8 |
                              (uint64_t)s->out_dtype << 16 | (uint64_t)s->bias_dtype << 24 |
                              (uint64_t)s->has_bias << 32 | (uint64_t)s->is_flipped << 33 |
                              (uint64_t)s->activation << 40);
}

/* ---- programs ---- */

/* The candidates of one shape. */
typedef struct choice {
    const kern_conv_shape_t *shape;
    kern_conv_plan_t plan[KERN_TRIALS];
    uint32_t count;
    bool has_blocks; /* the second one has tiles in blocks */
} choice_t;

static void generate(const void *call, uint32_t candidate, kern_builder_t *builder,
                     uint32_t out_grid[2]) {
    const choice_t *choice = call;
    const kern_conv_plan_t *plan = &choice->plan[candidate];
    kern_conv_generate(choice->shape, plan, builder);
    memcpy(out_grid, plan->grid, sizeof plan->grid);
}

/* How many candidates the simulator shall compare: 1 where the closed form is clear or the
 * convolution too small to matter. */
static uint32_t trials(const choice_t *choice, bool measures) {
    double macs = (double)kern_conv_positions(choice->shape);
    for (uint32_t x = 0; x < CONV_AXES; x++)
        macs *= (double)choice->shape->size[x];
    if (!measures || kern_plan_is_small(macs, choice->plan[0].cycles)) return 1;
    uint64_t cycles[KERN_TRIALS];
    for (uint32_t i = 0; i < choice->count; i++)
        cycles[i] = choice->plan[i].cycles;
    uint32_t close = kern_plan_close(cycles, choice->count);
    return choice->has_blocks && close < 2 ? 2 : close;
}

/* Where banks are blocks, tiles in blocks of channels at both ends of the scratchpad are worth a
 * trial on one core (kern_profile_gemmini.c): the closed form does not know banks. */
static void add_blocks(const kern_context_t *context, choice_t *choice) {
    const vnpu_machine_t *machine = &context->machine;
    kern_conv_plan_t plan;
    if (machine->workers > 1 || machine->sram_interleave_bytes == 0 || choice->count == 0) return;
    if (!kern_profile_of(machine)->has_trials) return;
    if (!kern_profile_gemmini_conv(machine, choice->shape, &plan)) return;
    kern_plan_second(choice->plan, &choice->count, &plan, sizeof plan);
    choice->has_blocks = true;
}

static void describe(const void *call, const vnpu_machine_t *machine, uint32_t chosen,
                     uint32_t next, kern_mapping_t *out_mapping) {
    const choice_t *choice = call;
    kern_conv_describe(machine, choice->shape, &choice->plan[chosen],
                       next == KERN_NO_TRIAL ? NULL : &choice->plan[next], out_mapping);
}

static vnpu_status_t get_program(kern_context_t *context, const kern_conv_shape_t *s,
                                 const kern_entry_t **out_entry) {
    kern_key_t key;
    make_key(s, &key);
    *out_entry = kern_cache_find(&context->cache, &key);
    if (*out_entry) return VNPU_OK;
    bool measures;
    vnpu_status_t status = kern_plan_check(context, &measures);
    if (status != VNPU_OK) return status;
    choice_t choice = {.shape = s};
    choice.count = kern_conv_rank(&context->machine, s, choice.plan, KERN_TRIALS);
    add_blocks(context, &choice);
    if (choice.count == 0) {
        return kern_fail(
            context, VNPU_ERROR_UNSUPPORTED,
            "conv: no tile of a %lld x %lld kernel (stride %lld x %lld, dilation %lld x "
            "%lld, pad %lld x %lld) fits %llu bytes of SRAM and %llu of accumulator",
            (long long)s->kernel[0], (long long)s->kernel[1], (long long)s->stride[0],
            (long long)s->stride[1], (long long)s->dilation[0], (long long)s->dilation[1],
            (long long)s->pad[0], (long long)s->pad[1],
            (unsigned long long)context->machine.sram_bytes,
            (unsigned long long)context->machine.acc_bytes);
    }
    kern_trial_t trial = {.name = "conv",
                          .call = &choice,
                          .generate = generate,
                          .describe = describe,
                          .ranked = choice.count,
                          .count = trials(&choice, measures)};
    return kern_plan_build(context, &key, &trial, out_entry);
}

/* ---- launches ---- */

typedef struct operands {
    vnpu_addr_t out, in, weight, bias;
} operands_t;

static vnpu_status_t launch(kern_context_t *context, vnpu_stream_t stream,
                            const kern_conv_shape_t *shape, const operands_t *at) {
    const kern_entry_t *entry;
    vnpu_status_t status = get_program(context, shape, &entry);
    if (status != VNPU_OK) return status;
    uint64_t args[4] = {at->out, at->in, at->weight, at->bias};
    return kern_launch(context, stream, entry, args, shape->has_bias ? 4 : 3);
}

/* Farthest element of any operand along an axis that can be cut: g, n, b. */
static int64_t reach(const kern_conv_shape_t *s, uint32_t x) {
    int64_t last = s->size[x] - 1, most = s->in[x];
    if (s->out[x] > most) most = s->out[x];
    if (s->weight[x] > most) most = s->weight[x];
    return last * most;
}

/* What no cut shortens: one image and one filter. */
static int64_t fixed_reach(const kern_conv_shape_t *s) {
    int64_t in = (s->size[CONV_C] - 1) * s->in[CONV_C] + (s->in_size[0] - 1) * s->in[CONV_H] +
                 (s->in_size[1] - 1) * s->in[CONV_W];
    int64_t out = (s->size[CONV_H] - 1) * s->out[CONV_H] + (s->size[CONV_W] - 1) * s->out[CONV_W];
    int64_t weight = (s->size[CONV_C] - 1) * s->weight[CONV_C] +
                     (s->kernel[0] - 1) * s->weight_kernel[0] +
                     (s->kernel[1] - 1) * s->weight_kernel[1];
    int64_t most = in > out ? in : out;
    return most > weight ? most : weight;
}

/* Cuts what one program cannot reach. */
static vnpu_status_t run(kern_context_t *context, vnpu_stream_t stream,
                         const kern_conv_shape_t *shape, const operands_t *at) {
    uint32_t longest = CONV_G;
    int64_t total = fixed_reach(shape);
    for (uint32_t x = CONV_G; x <= CONV_B; x++) {
        total += reach(shape, x);
        if (reach(shape, x) > reach(shape, longest)) longest = x;
    }
    if (total < KERN_MAX_SPAN) return launch(context, stream, shape, at);
    if (shape->size[longest] == 1)
        return kern_fail(context, VNPU_ERROR_UNSUPPORTED,
                         "conv: one image of %lld channels, %lld x %lld, is too large",
                         (long long)shape->size[CONV_C], (long long)shape->in_size[0],
                         (long long)shape->in_size[1]);
    int64_t half = (shape->size[longest] + 1) / 2;
    for (int64_t from = 0; from < shape->size[longest]; from += half) {
        kern_conv_shape_t part = *shape;
        operands_t moved = *at;
        int64_t left = shape->size[longest] - from;
        part.size[longest] = left < half ? left : half;
        moved.in += (uint64_t)(from * shape->in[longest]) * vnpu_dtype_bytes(shape->in_dtype);
        moved.out += (uint64_t)(from * shape->out[longest]) * vnpu_dtype_bytes(shape->out_dtype);
        moved.weight +=
            (uint64_t)(from * shape->weight[longest]) * vnpu_dtype_bytes(shape->weight_dtype);
        if (shape->has_bias)
            moved.bias +=
                (uint64_t)(from * shape->bias[longest]) * vnpu_dtype_bytes(shape->bias_dtype);
        vnpu_status_t status = run(context, stream, &part, &moved);
        if (status != VNPU_OK) return status;
    }
    return VNPU_OK;
}

/* ---- the essence of a call ---- */

static int64_t stride_of(const kern_tensor_t *t, uint32_t dim) {
    return t->size[dim] > 1 ? t->stride[dim] : 0;
}

static void read_sizes(const kern_conv_t *call, kern_conv_shape_t *s) {
    const kern_tensor_t *in = &call->in, *out = &call->out, *w = &call->weight;
    s->size[CONV_G] = call->groups;
    s->size[CONV_N] = out->size[1] / call->groups;
    s->size[CONV_B] = out->size[0];
    s->size[CONV_H] = out->size[2];
    s->size[CONV_W] = out->size[3];
    s->size[CONV_C] = w->size[1];
    for (int d = 0; d < 2; d++) {
        s->in_size[d] = in->size[2 + d];
        s->kernel[d] = w->size[2 + d];
        s->stride[d] = call->stride[d];
        s->dilation[d] = call->dilation[d];
        s->pad[d] = call->pad[d];
        if (s->kernel[d] == 1) s->dilation[d] = 1;
    }
}

/* Channels split in groups: their stride, and that of a group. */
static void split_channels(int64_t *stride, uint32_t axis, int64_t channel, int64_t group_size,
                           int64_t groups) {
    stride[axis] = group_size > 1 ? channel : 0;
    stride[CONV_G] = groups > 1 ? channel * group_size : 0;
}

static void read_strides(const kern_conv_t *call, kern_conv_shape_t *s) {
    const kern_tensor_t *in = &call->in, *out = &call->out, *w = &call->weight;
    int64_t groups = s->size[CONV_G], n = s->size[CONV_N], c = s->size[CONV_C];
    split_channels(s->in, CONV_C, in->stride[1], c, groups);
    split_channels(s->out, CONV_N, out->stride[1], n, groups);
    split_channels(s->weight, CONV_N, w->stride[0], n, groups);
    if (s->has_bias) split_channels(s->bias, CONV_N, call->bias.stride[0], n, groups);
    s->in[CONV_B] = stride_of(in, 0), s->out[CONV_B] = stride_of(out, 0);
    s->in[CONV_H] = stride_of(in, 2), s->out[CONV_H] = stride_of(out, 2);
    s->in[CONV_W] = stride_of(in, 3), s->out[CONV_W] = stride_of(out, 3);
    s->weight[CONV_C] = stride_of(w, 1);
    s->weight_kernel[0] = stride_of(w, 2), s->weight_kernel[1] = stride_of(w, 3);
}

/* A kernel of one element that skips: the rows (columns) between are not the image's. Columns only
 * where they are not the contiguous direction: there the bursts hold them anyway. */
static void skip_elements(kern_conv_shape_t *s) {
    static const uint32_t axes[2] = {CONV_H, CONV_W};
    for (int d = 0; d < 2; d++) {
        bool is_inside = (s->size[axes[d]] - 1) * s->stride[d] < s->in_size[d];
        bool is_possible = s->kernel[d] == 1 && s->pad[d] == 0 && is_inside;
        bool is_run = d == CONV_COLS && !kern_conv_is_channels_last(s);
        if (!is_possible || s->stride[d] == 1 || is_run) continue;
        s->in[axes[d]] *= s->stride[d];
        s->in_size[d] = s->size[axes[d]];
        s->stride[d] = 1;
    }
}

/* Axis `inner` takes `outer` in when they continue each other in image and result; its rows are
 * then one line. */
static void merge_axes(kern_conv_shape_t *s, uint32_t outer, uint32_t inner) {
    int64_t count = s->size[inner];
    if (s->size[outer] == 1) return;
    int64_t in = count > 1 ? s->in[inner] * count : s->in[outer];
    int64_t out = count > 1 ? s->out[inner] * count : s->out[outer];
    if (s->in[outer] != in || s->out[outer] != out) return;
    if (count == 1) s->in[inner] = in, s->out[inner] = out;
    s->size[inner] *= s->size[outer];
    s->in_size[CONV_COLS] = s->size[inner];
    s->size[outer] = 1;
    s->in[outer] = s->out[outer] = 0;
    if (outer == CONV_H) s->in_size[CONV_ROWS] = 1;
}

/* A kernel of one element is a product: as few and as long dimensions as there are. */
static void flatten(kern_conv_shape_t *s) {
    static const uint32_t axes[2] = {CONV_H, CONV_W};
    for (int d = 0; d < 2; d++) {
        bool is_plain = s->kernel[d] == 1 && s->stride[d] == 1 && s->pad[d] == 0 &&
                        s->size[axes[d]] == s->in_size[d];
        if (!is_plain) return;
    }
    merge_axes(s, CONV_H, CONV_W);
    if (s->size[CONV_H] == 1) merge_axes(s, CONV_B, CONV_W);
}

/* ---- checks ---- */

static vnpu_status_t check_operands(kern_context_t *context, const kern_conv_t *call) {
    const kern_tensor_t *t[4] = {&call->out, &call->in, &call->weight, &call->bias};
    static const char *const name[4] = {"out", "in", "weight", "bias"};
    static const uint32_t ndims[4] = {4, 4, 4, 1};
    for (int i = 0; i < (call->bias.address ? 4 : 3); i++) {
        vnpu_status_t status = kern_check_tensor(context, "conv", name[i], t[i]);
        if (status == VNPU_OK && i == 0) status = kern_check_output(context, "conv", t[i]);
        if (status != VNPU_OK) return status;
        if (t[i]->ndims != ndims[i])
            return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                             "conv: %s has %u dimensions, %u are needed", name[i], t[i]->ndims,
                             ndims[i]);
    }
    for (int d = 0; d < 2; d++) {
        if (call->stride[d] == 0 || call->dilation[d] == 0)
            return kern_fail(
                context, VNPU_ERROR_INVALID_VALUE,
                "conv: stride %u and dilation %u along dimension %d must be at least 1",
                call->stride[d], call->dilation[d], d);
    }
    return VNPU_OK;
}

static vnpu_status_t check_sizes(kern_context_t *context, const kern_conv_t *call) {
    const kern_tensor_t *o = &call->out, *in = &call->in, *w = &call->weight;
    int64_t groups = call->groups;
    bool is_right = groups > 0 && o->size[0] == in->size[0] && o->size[1] == w->size[0] &&
                    o->size[1] % groups == 0 && in->size[1] == w->size[1] * groups;
    if (call->bias.address) is_right = is_right && call->bias.size[0] == o->size[1];
    if (is_right) return VNPU_OK;
    char ti[160], tw[160], to[160];
    return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                     "conv: sizes do not agree: out %s, in %s, weight %s, %lld groups",
                     kern_describe(o, to, sizeof to), kern_describe(in, ti, sizeof ti),
                     kern_describe(w, tw, sizeof tw), (long long)groups);
}

static vnpu_status_t check_types(kern_context_t *context, const kern_conv_t *call) {
    vnpu_dtype_t a = call->in.dtype, b = call->weight.dtype;
    bool is_int8;
    vnpu_status_t status = kern_check_product(context, "conv", a, b, &is_int8);
    if (status != VNPU_OK) return status;
    if ((unsigned)call->activation > KERN_ACT_TANH)
        return kern_fail(context, VNPU_ERROR_INVALID_VALUE, "conv: activation %d",
                         (int)call->activation);
    if (is_int8 && call->activation > KERN_ACT_RELU)
        return kern_fail(context, VNPU_ERROR_UNSUPPORTED, "conv: %s by %s with activation %d",
                         kern_dtype_name(a), kern_dtype_name(b), (int)call->activation);
    return VNPU_OK;
}

/* No products at all: out = act(bias). */
static vnpu_status_t run_empty_sum(kern_context_t *context, vnpu_stream_t stream,
                                   const kern_conv_t *call) {
    if (!call->bias.address) return kern_fill(context, stream, &call->out, 0, 0);
    kern_pointwise_t p = {.name = "conv_empty", .out = call->out, .num_inputs = 1, .num_nodes = 1};
    p.input[0] = call->out;
    p.input[0].address = call->bias.address;
    p.input[0].dtype = call->bias.dtype;
    for (uint32_t d = 0; d < 4; d++)
        p.input[0].stride[d] = d == 1 ? call->bias.stride[0] : 0;
    p.node[0] = (kern_node_t){
        KERN_NODE_UNARY, kern_gemm_activation(call->activation), {KERN_INPUT(0), 0, 0}};
    return kern_pointwise(context, stream, &p);
}

/* ---- one filter a channel ---- */

static kern_slide_t slide_of(const kern_conv_t *call, const kern_conv_shape_t *s) {
    kern_slide_t slide = {.kind = KERN_SLIDE_PRODUCT,
                          .in_dtype = s->in_dtype,
                          .out_dtype = s->out_dtype,
                          .weight_dtype = s->weight_dtype,
                          .bias_dtype = s->bias_dtype,
                          .has_bias = s->has_bias,
                          .is_flipped = s->is_flipped,
                          .activation = s->activation,
                          .at_out = call->out.address,
                          .at_in = call->in.address,
                          .at_weight = call->weight.address,
                          .at_bias = call->bias.address};
    slide.size[SLIDE_B] = s->size[CONV_B], slide.size[SLIDE_C] = s->size[CONV_G];
    slide.size[SLIDE_H] = s->size[CONV_H], slide.size[SLIDE_W] = s->size[CONV_W];
    static const uint32_t axes[SLIDE_AXES] = {CONV_B, CONV_G, CONV_H, CONV_W};
    for (uint32_t x = 0; x < SLIDE_AXES; x++) {
        slide.in[x] = s->in[axes[x]];
        slide.out[x] = s->out[axes[x]];
    }
    slide.weight[0] = s->weight[CONV_G], slide.bias = s->bias[CONV_G];
    for (int d = 0; d < 2; d++) {
        slide.weight[1 + d] = s->weight_kernel[d];
        slide.in_size[d] = s->in_size[d], slide.kernel[d] = s->kernel[d];
        slide.stride[d] = s->stride[d], slide.dilation[d] = s->dilation[d],
        slide.pad[d] = s->pad[d];
    }
    return slide;
}

/* Whether the vector unit, of the class of cores that has the most of it, is faster than products
 * with one column each. */
static bool is_slide(const kern_context_t *context, const kern_conv_shape_t *s,
                     const kern_slide_t *slide) {
    const vnpu_machine_t *machine = &context->machine;
    const vnpu_machine_t *vector =
        &context->class_machine[kern_class_for(context, VNPU_DTYPE_NONE)];
    bool is_possible = s->size[CONV_C] == 1 && s->size[CONV_N] == 1 && s->size[CONV_G] > 1 &&
                       kern_dtype_is_float(s->in_dtype) &&
                       kern_conv_positions(s) <= KERN_SLIDE_POSITIONS;
    if (!is_possible) return false;
    uint64_t pixels = (uint64_t)(s->size[CONV_B] * s->size[CONV_H] * s->size[CONV_W]),
             k = (uint64_t)kern_conv_positions(s);
    uint64_t one = kern_conv_is_turned(s)
                       ? kern_cost_matrix(machine, s->in_dtype, 1, k, pixels, 1, k, pixels)
                       : kern_cost_matrix(machine, s->in_dtype, pixels, k, 1, pixels, k, 1);
    uint64_t products = kern_ceil_div((uint64_t)s->size[CONV_G] * one, machine->workers);
    uint64_t mhz = machine->core_clock_hz / 1000000, vector_mhz = vector->core_clock_hz / 1000000;
    return kern_slide_cycles(vector, slide) * mhz < products * vector_mhz;
}

static vnpu_status_t run_slide(kern_context_t *context, vnpu_stream_t stream,
                               const kern_slide_t *slide) {
    uint32_t before = kern_class_enter(context, VNPU_DTYPE_NONE);
    vnpu_status_t status = kern_slide(context, stream, slide, "depthwise");
    kern_class_leave(context, before);
    return status;
}

static vnpu_status_t run_conv(kern_context_t *context, vnpu_stream_t stream,
                              const kern_conv_t *call) {
    vnpu_status_t status = check_operands(context, call);
    if (status == VNPU_OK) status = check_sizes(context, call);
    if (status == VNPU_OK) status = check_types(context, call);
    if (status != VNPU_OK || kern_numel(&call->out) == 0) return status;
    if (kern_numel(&call->weight) == 0 || kern_numel(&call->in) == 0)
        return run_empty_sum(context, stream, call);
    kern_conv_shape_t shape = {.in_dtype = call->in.dtype,
                               .weight_dtype = call->weight.dtype,
                               .out_dtype = call->out.dtype,
                               .bias_dtype =
                                   call->bias.address ? call->bias.dtype : VNPU_DTYPE_NONE,
                               .has_bias = call->bias.address != 0,
                               .is_flipped = call->is_flipped,
                               .activation = call->activation};
    shape.keeps_rows = context->machine.dma_keeps_rows;
    vnpu_dtype_t sums = kern_dtype_is_float(shape.in_dtype) ? VNPU_F32 : VNPU_I32;
    bool has_way =
        context->machine.dma_accumulator_bytes_per_cycle > 0 && call->activation == KERN_ACT_NONE;
    shape.is_direct = has_way && !shape.has_bias;
    shape.loads_bias = has_way && shape.has_bias && shape.bias_dtype == sums;
    read_sizes(call, &shape);
    read_strides(call, &shape);
    kern_slide_t slide = slide_of(call, &shape);
    if (is_slide(context, &shape, &slide)) return run_slide(context, stream, &slide);
    if (kern_lacks_activation(context, call->activation)) {
        kern_conv_t plain = *call;
        plain.activation = KERN_ACT_NONE;
        status = run_conv(context, stream, &plain);
        return status != VNPU_OK ? status
                                 : kern_activate(context, stream, &call->out, call->activation);
    }
    const kern_profile_t *profile = kern_profile_of(&context->machine);
    if (profile->skips == NULL || profile->skips(&shape)) skip_elements(&shape);
    /* A compiler's rule counts rows and columns. */
    if (profile->plan_conv == NULL) flatten(&shape);
    operands_t at = {call->out.address, call->in.address, call->weight.address, call->bias.address};
    return run(context, stream, &shape, &at);
}

vnpu_status_t kern_conv(kern_context_t *context, vnpu_stream_t stream, const kern_conv_t *call) {
    uint32_t before = kern_class_enter(context, call->in.dtype);
    vnpu_status_t status = run_conv(context, stream, call);
    kern_class_leave(context, before);
    return status;
}
