/* Convolutions whose tiles lie in blocks of channels: values, layouts, what the products take. */
#include "kernels/kern_conv_plan.h"
#include "kernels/kern_internal.h"
#include "kernels/kern_profile.h"
#include "tests/kernels/kern_test.h"

#define BLOCK 16

/* NHWC by HWIO, i8 x i8 = i32 or whole numbers in f32. */
typedef struct conv_case {
    int64_t images, side, in, out, kernel;
    uint32_t stride, pad, dilation, groups;
    int64_t tile[4]; /* rows, columns, output and input channels */
    uint32_t pixels; /* that share a word */
} conv_case_t;

static const conv_case_t cases[] = {
    {1, 8, 64, 48, 3, 1, 1, 1, 1, {5, 8, 32, 64}, 1}, /* whole blocks, last n tile short */
    {1, 9, 40, 32, 3, 1, 1, 1, 1, {4, 5, 32, 23}, 1}, /* 23 + 17: rests of 7 and 1 */
    {2, 7, 55, 32, 1, 1, 0, 1, 1, {3, 7, 16, 23}, 1}, /* 23 + 23 + 9: no block in the last */
    {1, 6, 64, 16, 3, 1, 1, 1, 1, {6, 6, 16, 48}, 1}, /* 48 + 16 */
    {1, 6, 52, 16, 2, 1, 0, 1, 1, {5, 5, 16, 32}, 1}, /* 32 + 20: a rest in the last tile only */
    {1, 6, 46, 16, 2, 1, 1, 2, 1, {5, 5, 16, 23}, 1}, /* 23 + 23: the same rest; dilation */
    {1, 9, 37, 21, 3, 2, 1, 1, 1, {2, 3, 21, 20}, 1}, /* outputs no blocks */
    {1, 9, 20, 37, 3, 2, 1, 1, 1, {2, 3, 10, 12}, 1}, /* less than a block of anything */
    {2, 8, 64, 64, 3, 1, 1, 1, 2, {4, 8, 16, 32}, 1}, /* groups, images */
    {1, 23, 3, 16, 7, 2, 3, 1, 1, {4, 6, 16, 3}, 5},  /* few channels: 5 + 2 positions */
    {1, 11, 4, 32, 3, 1, 1, 1, 1, {4, 6, 32, 4}, 3},  /* as many as the kernel has */
    {2, 9, 1, 5, 5, 1, 2, 1, 1, {4, 9, 5, 1}, 5},     /* one channel */
    {1, 9, 3, 16, 3, 1, 1, 2, 1, {4, 9, 16, 3}, 1},   /* columns apart share no word */
    {1, 9, 8, 16, 3, 1, 1, 1, 1, {4, 9, 16, 5}, 1},   /* nor do parts of the channels */
};
enum { CASES = sizeof cases / sizeof *cases };

static int64_t results(const conv_case_t *t) {
    return (t->side + 2 * t->pad - (t->kernel - 1) * t->dilation - 1) / t->stride + 1;
}

static kern_conv_shape_t shape_of_type(const conv_case_t *t, bool has_bias, bool is_float) {
    vnpu_dtype_t in = is_float ? VNPU_F32 : VNPU_I8, out = is_float ? VNPU_F32 : VNPU_I32;
    int64_t n = t->out / t->groups, c = t->in / t->groups, k = t->kernel, side = results(t);
    return (kern_conv_shape_t){.size = {t->groups, n, t->images, side, side, c},
                               .in_size = {t->side, t->side},
                               .kernel = {k, k},
                               .stride = {t->stride, t->stride},
                               .dilation = {t->dilation, t->dilation},
                               .pad = {t->pad, t->pad},
                               .in = {c, 0, t->side * t->side * t->in, t->side * t->in, t->in, 1},
                               .out = {n, 1, side * side * t->out, side * t->out, t->out, 0},
                               .weight = {[CONV_G] = n, [CONV_N] = 1, [CONV_C] = t->out},
                               .weight_kernel = {k * c * t->out, c * t->out},
                               .bias = {[CONV_G] = n, [CONV_N] = 1},
                               .in_dtype = in,
                               .weight_dtype = in,
                               .out_dtype = out,
                               .bias_dtype = has_bias ? out : VNPU_DTYPE_NONE,
                               .has_bias = has_bias,
                               .loads_bias = has_bias,
                               .is_direct = !has_bias,
                               .keeps_rows = true};
}

static kern_conv_shape_t shape_of(const conv_case_t *t, bool has_bias) {
    return shape_of_type(t, has_bias, false);
}

static bool plan_of(const vnpu_machine_t *machine, const conv_case_t *t,
                    const kern_conv_shape_t *shape, kern_conv_plan_t *out_plan) {
    kern_conv_rule_t rule = {.tile = {1, t->tile[2], 1, t->tile[0], t->tile[1], t->tile[3]},
                             .stream_buffers = 2,
                             .panel_buffers = 1,
                             .rotates_nest = true,
                             .has_whole_steps = true,
                             .has_blocks = true};
    return kern_conv_finish(machine, shape, &rule, out_plan);
}

typedef struct operands {
    kern_tensor_t in, weight, out, bias;
} operands_t;

static void launch(kern_context_t *context, const kern_conv_shape_t *shape,
                   const kern_conv_plan_t *plan, const operands_t *t) {
    kern_builder_t builder;
    kern_builder_init(&builder, kern_machine(context), "blocks");
    kern_conv_generate(shape, plan, &builder);
    kern_entry_t entry = {.grid = {plan->grid[0], plan->grid[1]}};
    test_ok(context, kern_load_program(context, &builder, &entry.module), "load");
    kern_builder_fini(&builder);
    uint64_t args[4] = {t->out.address, t->in.address, t->weight.address, t->bias.address};
    test_ok(context, kern_launch(context, 0, &entry, args, shape->has_bias ? 4 : 3), "launch");
    kern_unload(entry.module);
}

static void check(const conv_case_t *t, const kern_conv_shape_t *s, const operands_t *o,
                  uint32_t number) {
    int64_t side = results(t), n = s->size[CONV_N], c = s->size[CONV_C], k = t->kernel;
    for (int64_t e = 0; e < t->images * side * side * t->out; e++) {
        int64_t channel = e % t->out, x = e / t->out % side, y = e / t->out / side % side,
                image = e / t->out / side / side, group = channel / n;
        double sum = s->has_bias ? test_get(&o->bias, channel) : 0;
        for (int64_t p = 0; p < k * k * c; p++) {
            int64_t row = y * t->stride + p / c / k * t->dilation - t->pad,
                    col = x * t->stride + p / c % k * t->dilation - t->pad;
            if (row < 0 || col < 0 || row >= t->side || col >= t->side) continue;
            int64_t at = ((image * t->side + row) * t->side + col) * t->in + group * c + p % c;
            sum += test_get(&o->in, at) * test_get(&o->weight, p * t->out + channel);
        }
        double got = test_get(&o->out, e);
        cr_assert(got == sum, "case %u, bias %d: element %lld is %g, not %g", number, s->has_bias,
                  (long long)e, got, sum);
    }
}

static void fill_whole(const kern_tensor_t *tensor, int64_t most) {
    for (int64_t i = 0; i < test_numel(tensor); i++)
        test_set(tensor, i, (double)((i * 37 + 11) % (2 * most) - most));
}

static void run_case(kern_context_t *context, uint32_t number, bool has_bias, bool is_float) {
    const conv_case_t *t = &cases[number];
    kern_conv_shape_t shape = shape_of_type(t, has_bias, is_float);
    kern_conv_plan_t plan;
    cr_assert(plan_of(kern_machine(context), t, &shape, &plan), "case %u", number);
    cr_assert_eq(plan.bias_block > 0, has_bias, "case %u", number);
    cr_assert_eq(plan.block, BLOCK, "case %u", number);
    cr_assert_eq(plan.pixels, t->pixels, "case %u: %u", number, plan.pixels);
    int64_t side = results(t), k = t->kernel;
    operands_t o = {
        .in = test_tensor(shape.in_dtype, 1, (int64_t[]){t->images * t->side * t->side * t->in}),
        .weight =
            test_tensor(shape.weight_dtype, 1, (int64_t[]){k * k * shape.size[CONV_C] * t->out}),
        .out = test_tensor(shape.out_dtype, 1, (int64_t[]){t->images * side * side * t->out}),
        .bias = test_tensor(shape.out_dtype, 1, &t->out)};
    fill_whole(&o.in, 127), fill_whole(&o.weight, 61), fill_whole(&o.bias, 9999);
    launch(context, &shape, &plan, &o);
    check(t, &shape, &o, number);
    test_release(&o.in), test_release(&o.weight), test_release(&o.out), test_release(&o.bias);
}

Test(conv_blocks, values_are_right, .timeout = 120) {
    static const dev_exec_mode_t modes[] = {DEV_EXEC_VALUES, DEV_EXEC_CHAOS};
    for (int m = 0; m < 4; m++) {
        shim_open("gemmini-16", NULL, modes[m / 2], 3);
        kern_context_t *context = NULL;
        cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
        for (uint32_t i = 0; i < CASES; i++)
            run_case(context, i, m % 2, false);
        test_close(context);
    }
}

Test(conv_blocks, floats_are_right, .timeout = 120) {
    for (int has_bias = 0; has_bias < 2; has_bias++) {
        shim_open("gemmini-16", "matrix.rate.f32=1", DEV_EXEC_VALUES, 3);
        kern_context_t *context = NULL;
        cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
        for (uint32_t i = 0; i < CASES; i++)
            run_case(context, i, has_bias, true);
        test_close(context);
    }
}

/* ---- the program ---- */

static vnpu_machine_t gemmini(void) {
    shim_open("gemmini-16", NULL, DEV_EXEC_VALUES, 3);
    vnpu_machine_t machine;
    cr_assert_eq(vnpu_device_machine(0, &machine), VNPU_OK);
    shim_close();
    return machine;
}

typedef struct built {
    vnpu_machine_t machine;
    kern_conv_shape_t shape;
    kern_conv_plan_t plan;
    kern_builder_t builder; /* kern_builder_fini */
} built_t;

static void build(built_t *built, const conv_case_t *t, bool has_bias) {
    built->machine = gemmini();
    built->shape = shape_of(t, has_bias);
    cr_assert(plan_of(&built->machine, t, &built->shape, &built->plan));
    kern_builder_init(&built->builder, &built->machine, "blocks");
    kern_conv_generate(&built->shape, &built->plan, &built->builder);
}

/* Elements of k that the products of an iteration of c take, and how many products there are. */
static uint64_t k_of(const kern_builder_t *b, uint32_t *out_products) {
    uint64_t sum = 0;
    *out_products = 0;
    for (uint32_t i = 0; i < b->stream[KERN_MATRIX].count; i++) {
        const vnpu_insn_t *insn = &b->stream[KERN_MATRIX].insn[i];
        if (insn->op != VNPU_OP_MM) continue;
        vnpu_ap_t weights = kern_ap_of(b, insn->src[1]);
        uint64_t k = 1;
        for (uint32_t d = 0; d <= insn->func; d++)
            k *= weights.dim[d].size;
        sum += insn->last_only ? 0 : k;
        ++*out_products;
    }
    return sum;
}

/* 119 of 512 channels are seven blocks and a rest of seven at each of nine positions; of the last
 * 36 two blocks and a rest of four. */
Test(conv_blocks, parts_of_channels_are_products_of_their_own) {
    static const conv_case_t t = {1, 7, 512, 512, 3, 1, 1, 1, 1, {7, 7, 112, 119}, 1};
    built_t built;
    build(&built, &t, true);
    cr_assert_eq(built.plan.bias_block, 16);
    cr_assert_eq(built.plan.stream_bytes, 128 << 10);
    uint32_t products;
    cr_assert_eq(k_of(&built.builder, &products), 9 * 119);
    cr_assert_eq(products, 9 * 3);
    kern_builder_fini(&built.builder);
}

/* Rows and columns of results stay dimensions of their own, also where they follow each other. */
Test(conv_blocks, lines_of_an_image_stay_apart) {
    static const conv_case_t t = {1, 14, 64, 32, 1, 1, 0, 1, 1, {14, 14, 32, 64}, 1};
    built_t built;
    build(&built, &t, false);
    for (uint32_t i = 0; i < built.builder.stream[KERN_MATRIX].count; i++) {
        const vnpu_insn_t *insn = &built.builder.stream[KERN_MATRIX].insn[i];
        if (insn->op != VNPU_OP_MM) continue;
        vnpu_ap_t image = kern_ap_of(&built.builder, insn->src[0]),
                  weights = kern_ap_of(&built.builder, insn->src[1]),
                  sums = kern_ap_of(&built.builder, insn->dst);
        const uint32_t size[4] = {14, 14, 4, BLOCK};
        const int32_t stride[4] = {14 * BLOCK, BLOCK, 14 * 14 * BLOCK, 1};
        cr_assert_eq(image.ndims, 4);
        for (uint32_t d = 0; d < 4; d++) {
            cr_assert_eq(image.dim[d].size, size[d]);
            cr_assert_eq(image.dim[d].stride, stride[d]);
        }
        cr_assert_eq(sums.dim[2].stride, 14 * 14 * BLOCK); /* block of outputs */
        cr_assert_eq(weights.base, (128 << 10) - 64 * 32); /* up to the end of its half */
        cr_assert_eq(image.base, 0);
    }
    kern_builder_fini(&built.builder);
}

/* A kernel row of seven columns by three channels is two products, of 15 and 6. */
Test(conv_blocks, few_channels_share_a_word) {
    static const conv_case_t t = {1, 224, 3, 64, 7, 2, 3, 1, 1, {22, 23, 16, 3}, 5};
    built_t built;
    build(&built, &t, true);
    cr_assert_eq(built.plan.pixels, 5);
    /* 22 rows of results reach over 2 x 22 + 7 - 1 of the image: whole steps */
    cr_assert_eq(kern_conv_window(&built.shape, &built.plan, CONV_ROWS).size, 50);
    uint32_t products;
    cr_assert_eq(k_of(&built.builder, &products), 7 * 7 * 3);
    cr_assert_eq(products, 7 * 2);
    kern_builder_fini(&built.builder);
}

/* The bias of a tile waits for the part of the scratchpad that its image goes to, and leaves it to
 * the image to take. */
Test(conv_blocks, loads_of_a_tile_begin_together) {
    static const conv_case_t t = {1, 28, 256, 128, 1, 1, 0, 1, 1, {22, 23, 16, 240}, 1};
    built_t built;
    build(&built, &t, true);
    uint32_t holds = 0, copies = 0;
    uint16_t held = VNPU_NO_SEM;
    for (uint32_t i = 0; i < built.builder.stream[KERN_LOAD].count; i++) {
        const vnpu_insn_t *insn = &built.builder.stream[KERN_LOAD].insn[i];
        if (insn->op == VNPU_OP_SYNC && (insn->flags & VNPU_F_NO_CONSUME)) {
            holds++;
            held = insn->wait[0].sem;
            cr_assert_eq(copies, 0);
        }
        if (insn->op != VNPU_OP_DMA_COPY) continue;
        copies++;
        if (copies == 2) cr_assert_eq(insn->wait[0].sem, held); /* bias, image, weights */
    }
    cr_assert_eq(holds, 1);
    cr_assert_eq(copies, 3);
    kern_builder_fini(&built.builder);
}

/* What has no channels at the end of each row, or results that the vector unit touches. */
Test(conv_blocks, other_layouts_have_none) {
    static const conv_case_t t = {1, 8, 64, 48, 3, 1, 1, 1, 1, {4, 8, 32, 64}, 1};
    vnpu_machine_t machine = gemmini();
    kern_conv_plan_t plan;
    for (int i = 0; i < 4; i++) {
        kern_conv_shape_t shape = shape_of(&t, false);
        if (i == 0) shape.weight[CONV_N] = 9 * 64, shape.weight[CONV_C] = 1;
        if (i == 1) shape.in[CONV_C] = 64, shape.in[CONV_W] = 1, shape.in[CONV_H] = 8;
        if (i == 2) shape.is_direct = false;
        if (i == 3) shape.is_flipped = true;
        cr_assert(plan_of(&machine, &t, &shape, &plan), "%d", i);
        cr_assert_eq(plan.block, 0, "%d", i);
    }
}
