/* Products whose tiles are loaded and multiplied in steps of K: values, and where things lie. */
#include <stdlib.h>

#include "kernels/kern_gemm_plan.h"
#include "kernels/kern_internal.h"
#include "tests/kernels/kern_test.h"

#define ROW_BLOCK 16

typedef struct product {
    kern_tensor_t a, b, c, out;
    kern_gemm_shape_t shape;
    vnpu_module_t module;
} product_t;

/* i8 x i8 = i32, or f32 with bias row, alpha and an activation. turned: b lies column by column. */
static product_t make_product(const int64_t size[4], bool is_float, bool is_turned) {
    int64_t batch = size[0], m = size[1], k = size[2], n = size[3];
    vnpu_dtype_t in = is_float ? VNPU_F32 : VNPU_I8, out = is_float ? VNPU_F32 : VNPU_I32;
    product_t p = {.a = test_tensor(in, 3, (int64_t[]){batch, m, k}),
                   .b = test_tensor(in, 3, (int64_t[]){batch, k, n}),
                   .c = test_tensor(out, 2, (int64_t[]){1, n}),
                   .out = test_tensor(out, 3, (int64_t[]){batch, m, n})};
    test_fill(&p.a, is_float ? -1 : -128, is_float ? 1 : 127);
    test_fill(&p.b, is_float ? -1 : -128, is_float ? 1 : 127);
    p.shape = (kern_gemm_shape_t){.size = {batch, n, m, k},
                                  .a = {m * k, k, 1},
                                  .b = {k * n, is_turned ? 1 : n, is_turned ? k : 1},
                                  .out = {m * n, n, 1},
                                  .c = {0, 0, 1},
                                  .a_dtype = in,
                                  .b_dtype = in,
                                  .out_dtype = out,
                                  .c_dtype = is_float ? out : VNPU_DTYPE_NONE,
                                  .has_c = is_float,
                                  .has_alpha = is_float,
                                  .keeps_rows = !is_float,
                                  .activation = is_float ? KERN_ACT_RELU : KERN_ACT_NONE};
    return p;
}

static void release(product_t *p) {
    if (p->module) kern_unload(p->module);
    test_release(&p->a), test_release(&p->b), test_release(&p->c), test_release(&p->out);
}

/* Once. */
static void run(kern_context_t *context, product_t *p, const kern_gemm_plan_t *plan) {
    kern_builder_t builder;
    kern_builder_init(&builder, kern_machine(context), "steps");
    kern_gemm_generate(&p->shape, plan, &builder);
    kern_entry_t entry = {.grid = {plan->grid[0], plan->grid[1]}};
    test_ok(context, kern_load_program(context, &builder, &entry.module), "load");
    kern_builder_fini(&builder);
    p->module = entry.module;
    uint64_t args[5] = {p->out.address, p->a.address, p->b.address};
    uint32_t count = 3;
    if (p->shape.has_c) args[count++] = p->c.address;
    if (p->shape.has_alpha) args[count++] = kern_arg_f32(0.5);
    test_ok(context, kern_launch(context, 0, &entry, args, count), "launch");
}

static void check(const product_t *p, const char *what) {
    const kern_gemm_shape_t *s = &p->shape;
    int64_t m = s->size[GEMM_M], k = s->size[GEMM_K], n = s->size[GEMM_N];
    int64_t count = s->size[GEMM_B] * m * n;
    for (int64_t e = 0; e < count; e += 1 + count / 397) { /* every tile and tail is looked at */
        int64_t row = e / n * k, from = e / (m * n) * k * n, col = e % n;
        double sum = 0;
        for (int64_t j = 0; j < k; j++)
            sum += test_get(&p->a, row + j) * test_get(&p->b, from + j * s->b[1] + col * s->b[2]);
        if (s->has_c) sum = 0.5 * sum + test_get(&p->c, col);
        if (s->activation == KERN_ACT_RELU && sum < 0) sum = 0;
        double error = test_get(&p->out, e) - sum, limit = s->has_c ? 1e-4 : 0;
        cr_assert(error <= limit && error >= -limit,
                  "%s: %lld x %lld x %lld: element %lld is %g, not %g", what, (long long)m,
                  (long long)k, (long long)n, (long long)e, test_get(&p->out, e), sum);
    }
}

typedef struct steps_case {
    int64_t size[4]; /* batch, m, k, n */
    int64_t tile[3]; /* m, k, n */
    uint32_t load_k, step_k;
} steps_case_t;

static const steps_case_t cases[] = {
    {{1, 1, 1, 1}, {16, 16, 16}, 64, 16},     /* one step */
    {{1, 1, 100, 40}, {16, 256, 32}, 64, 16}, /* one tile of K, a tail of a step */
    {{1, 33, 64, 16}, {32, 64, 16}, 16, 16},  /* pieces of one step */
    {{1, 33, 64, 16}, {32, 64, 16}, 64, 64},
    {{1, 40, 200, 50}, {32, 96, 32}, 64, 16}, /* last tile of K: a step and a half */
    {{1, 40, 193, 50}, {32, 96, 32}, 64, 16}, /* one element */
    {{1, 40, 97, 50}, {32, 32, 16}, 32, 16},  /* an odd number of tiles */
    {{2, 20, 130, 20}, {16, 64, 16}, 32, 32}, /* four loops */
    {{3, 17, 60, 33}, {32, 64, 48}, 64, 16},
};

/* NARROW: stores of 16 rows x 16 columns; WHOLE: of b's last step. */
enum { DOUBLED = 1, ENDS = 2, HELD = 4, NARROW = 8, WHOLE = 16, OUTSIDE = 32, WAYS = 64 };

static bool finish(kern_context_t *context, const product_t *p, const steps_case_t *c, uint32_t way,
                   kern_gemm_plan_t *out_plan) {
    uint32_t buffers = way & DOUBLED ? 2 : 1;
    kern_gemm_rule_t rule = {.order = KERN_GEMM_TILES,
                             .m = c->tile[0],
                             .k = c->tile[1],
                             .n = c->tile[2],
                             .b_grid = 1,
                             .m_grid = 1,
                             .n_grid = 1,
                             .stream_buffers = buffers,
                             .panel_buffers = 1,
                             .result_buffers = buffers,
                             .row_block = ROW_BLOCK,
                             .rotates_nest = true,
                             .rows_outside = (way & OUTSIDE) != 0,
                             .load_k = c->load_k,
                             .step_k = c->step_k,
                             .has_whole_steps = (way & WHOLE) != 0,
                             .has_ends = (way & ENDS) != 0,
                             .holds_stored = (way & HELD) != 0,
                             .part_m = way & NARROW ? 16 : 0,
                             .store_n = way & NARROW ? 16 : 0};
    return kern_gemm_finish(kern_machine(context), &p->shape, &rule, out_plan);
}

static void run_all(const char *config, const char *options, bool is_float) {
    for (int mode = 0; mode < 2; mode++) {
        shim_open(config, options, mode ? DEV_EXEC_CHAOS : DEV_EXEC_VALUES, 5);
        kern_context_t *context = NULL;
        cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
        const size_t count = sizeof cases / sizeof cases[0];
        for (size_t i = 0; i < WAYS * count; i++) {
            uint32_t way = (uint32_t)(i / count);
            product_t p = make_product(cases[i % count].size, is_float, (way & ENDS) != 0);
            p.shape.is_direct =
                !is_float && kern_machine(context)->dma_accumulator_bytes_per_cycle > 0;
            kern_gemm_plan_t plan;
            cr_assert(finish(context, &p, &cases[i % count], way, &plan), "%s: case %zu", options,
                      i);
            run(context, &p, &plan);
            check(&p, options);
            release(&p);
        }
        test_close(context);
    }
}

Test(gemm_steps, integers_straight_from_the_accumulator, .timeout = 60) {
    run_all("gemmini-16", "sram.bytes=32 KiB", false);
}

Test(gemm_steps, integers_through_the_vector_unit, .timeout = 60) {
    run_all("gemmini-16", "sram.bytes=64 KiB,dma.accumulator_bytes_per_cycle=0 B", false);
}

Test(gemm_steps, one_dma_queue, .timeout = 60) {
    run_all("gemmini-16", "sram.bytes=32 KiB,dma.queues=1", false);
}

Test(gemm_steps, floats_with_an_epilogue, .timeout = 60) {
    run_all("default", "dma.queues=2", true);
}

Test(gemm_steps, operands_lie_at_both_ends) {
    shim_open("gemmini-16", "sram.bytes=32 KiB", DEV_EXEC_VALUES, 3);
    kern_context_t *context = NULL;
    cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
    const steps_case_t wide = {{1, 64, 256, 64}, {32, 128, 32}, 64, 16};
    product_t p = make_product(wide.size, false, false);
    p.shape.is_direct = true;
    kern_gemm_plan_t plan;
    cr_assert(finish(context, &p, &wide, DOUBLED | ENDS | HELD | NARROW, &plan));
    cr_assert_eq(plan.part_bytes, 16384);
    cr_assert_eq(kern_gemm_steps(&plan), 8);
    cr_assert_eq(kern_gemm_row_parts(&plan), 2);
    cr_assert_eq(kern_gemm_stores(&plan), 4);
    cr_assert_eq(kern_gemm_last_step(&plan), 7);
    cr_assert_eq(kern_gemm_products(&plan), 2 + 6 + 4, "by rows, whole, by stores");
    cr_assert_eq(kern_gemm_sram_bytes(&p.shape, &plan), 32768);
    run(context, &p, &plan);
    const dev_program_t *program = shim_last_launch()->program;
    uint32_t products = 0, stores = 0;
    for (uint32_t i = 0; i < program->header.num_insns; i++) {
        const vnpu_insn_t *insn = &program->insn[i];
        stores += insn->op == VNPU_OP_DMA_COPY && insn->last_only != 0;
        if (insn->op != VNPU_OP_MM) continue;
        const vnpu_ap_t *a = &program->ap[insn->src[0]], *b = &program->ap[insn->src[1]];
        int64_t step = products < 2 ? 0 : products < 8 ? products - 1 : 7;
        int64_t store = products < 8 ? 0 : products - 8;
        int64_t row = products < 2 ? products : store % 2;
        cr_assert_eq(a->base, 128 * 16 * row + 16 * step, "a: columns of the tile");
        cr_assert_eq(b->base, 16384 - 128 * 32 + 16 * 32 * step + store / 2 * 16,
                     "b: up to the end");
        cr_assert_eq(a->rot_stride, 16384);
        cr_assert_eq(b->rot_stride, 16384);
        products++;
    }
    cr_assert_eq(products, 12);
    cr_assert_eq(stores, 4, "after the last tile of K");
    check(&p, "ends");
    release(&p);
    test_close(context);
}

/* Bytes of b that loads read: 5 of the last 16 rows are there. */
Test(gemm_steps, the_last_step_is_read_whole) {
    shim_open("gemmini-16", "sram.bytes=32 KiB", DEV_EXEC_VALUES, 3);
    kern_context_t *context = NULL;
    cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
    const int64_t depth[3] = {53, 69, 5}; /* one tile; the last of two; less than a step */
    const int64_t rest[3] = {11, 11, 5};
    for (int i = 0; i < 3; i++) {
        const steps_case_t c = {{1, 16, depth[i], 32}, {16, 64, 32}, 64, 16};
        product_t p = make_product(c.size, false, false);
        p.shape.is_direct = true;
        kern_gemm_plan_t plan;
        cr_assert(finish(context, &p, &c, WHOLE, &plan));
        cr_assert_eq(kern_gemm_depth(&plan) % 16, 0);
        kern_mapping_t mapping;
        kern_gemm_describe(kern_machine(context), &p.shape, &plan, NULL, &mapping);
        cr_assert_eq(mapping.dram_bytes, 16 * depth[i] + 32 * (depth[i] + rest[i]) + 4 * 16 * 32);
        run(context, &p, &plan);
        const dev_program_t *program = shim_last_launch()->program;
        int64_t rows = 0; /* of the load that has no semaphore */
        for (uint32_t j = 0; j < program->header.num_insns; j++) {
            const vnpu_insn_t *insn = &program->insn[j];
            if (insn->op != VNPU_OP_DMA_COPY || insn->signal[0].sem != VNPU_NO_SEM) continue;
            const vnpu_ap_t *far = &program->ap[insn->src[0]];
            rows += far->dim[0].size;
            cr_assert_eq(far->base, depth[i] > 16 ? (depth[i] - 16) * 32 : 0);
            cr_assert_eq(insn->last_only, plan.axis[GEMM_K].trips > 1 ? 1 : 0);
        }
        cr_assert_eq(rows, rest[i], "%lld", (long long)rows);
        check(&p, "whole");
        release(&p);
    }
    test_close(context);
}

/* What does not fit so is packed; what has too many steps takes larger ones. */
Test(gemm_steps, limits) {
    shim_open("gemmini-16", "sram.bytes=32 KiB", DEV_EXEC_VALUES, 3);
    kern_context_t *context = NULL;
    cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
    const steps_case_t large = {{1, 16, 1024, 16}, {16, 1024, 16}, 64, 16},
                       fine = {{1, 16, 1000, 16}, {16, 1000, 16}, 4, 2},
                       odd = {{1, 16, 1000, 16}, {16, 1000, 16}, 5, 2};
    product_t p = make_product(large.size, false, false);
    p.shape.is_direct = true;
    kern_gemm_plan_t plan;
    cr_assert(finish(context, &p, &large, DOUBLED | ENDS, &plan));
    cr_assert_eq(plan.part_bytes, 0, "32 KiB of operands");
    cr_assert(finish(context, &p, &large, ENDS, &plan));
    cr_assert_eq(plan.part_bytes, 32768, "one buffer has all of it");
    p.shape.size[GEMM_K] = 1000;
    cr_assert(finish(context, &p, &fine, ENDS, &plan));
    cr_assert_eq(plan.step_k, 4, "500 steps");
    cr_assert_eq(plan.load_k, 8);
    cr_assert(finish(context, &p, &odd, ENDS, &plan));
    cr_assert_eq(kern_gemm_steps(&plan), 1, "no multiple: whole tiles");
    release(&p);
    test_close(context);
}
