/* Contexts, cache and failing allocations, on a driver of a few lines: nothing runs here. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/vnpu_sim.h"
#include "kernels/kern_cache.h"
#include "kernels/kern_expr.h"
#include "kernels/kern_internal.h"
#include "tests/sim/alloc_count.h"

static struct {
    vnpu_status_t machine, load, launch;
    uint64_t loaded, unloaded, launched;
    vnpu_status_t time; /* of vnpu_program_time, whose answers follow */
    uint64_t timed, ps[8], launched_module;
    vnpu_launch_config_t last;
} fake;

vnpu_status_t vnpu_device_machine(int device, vnpu_machine_t *out) {
    if (device != 0) return VNPU_ERROR_INVALID_VALUE;
    *out = (vnpu_machine_t){.size = sizeof *out,
                            .cores = 2,
                            .workers = 2,
                            .matrix_rows = 16,
                            .matrix_cols = 16,
                            .matrix_load_rows_per_cycle = 1,
                            .matrix_weight_buffers = 2,
                            .matrix_min_stream_cycles = 1,
                            .vector_lanes = 64,
                            .vector_startup_cycles = 8,
                            .dma_queues = 2,
                            .dma_bytes_per_cycle = 64,
                            .core_clock_hz = 1000000000,
                            .sram_bytes = 1 << 20,
                            .acc_bytes = 1 << 17,
                            .dram_bytes_per_s = 100000000000,
                            .dram_latency_ps = 100000,
                            .name = "fake"};
    out->matrix_rate_num[VNPU_F32] = out->matrix_rate_den[VNPU_F32] = 1;
    return fake.machine;
}

vnpu_status_t vnpu_device_class(int device, uint32_t index, vnpu_machine_t *out) {
    (void)index;
    return vnpu_device_machine(device, out); /* one class: never asked */
}

vnpu_status_t vnpu_module_load(int device, const void *image, size_t bytes,
                               vnpu_module_t *out_module) {
    (void)device, (void)image, (void)bytes;
    *out_module = fake.load == VNPU_OK ? ++fake.loaded : 0;
    return fake.load;
}

vnpu_status_t vnpu_module_unload(vnpu_module_t module) {
    (void)module;
    fake.unloaded++;
    return VNPU_OK;
}

vnpu_status_t vnpu_launch(vnpu_module_t module, const vnpu_launch_config_t *config,
                          const uint64_t *args, uint32_t num_args) {
    (void)args, (void)num_args;
    fake.launched_module = module;
    fake.last = *config;
    if (fake.launch == VNPU_OK) fake.launched++;
    return fake.launch;
}

vnpu_status_t vnpu_program_time(vnpu_module_t module, const vnpu_launch_config_t *config,
                                const uint64_t *args, uint32_t num_args, uint64_t *out_ps) {
    (void)module, (void)config, (void)args, (void)num_args;
    *out_ps = fake.time == VNPU_OK ? fake.ps[fake.timed++ % 8] : 0;
    return fake.time;
}

vnpu_status_t vnpu_mem_alloc(int device, size_t bytes, vnpu_addr_t *out_address) {
    (void)device, (void)bytes;
    *out_address = 4096;
    return VNPU_OK;
}

vnpu_status_t vnpu_mem_free(int device, vnpu_addr_t address) {
    (void)device, (void)address;
    return VNPU_OK;
}

vnpu_status_t vnpu_memset(vnpu_addr_t dst, uint64_t pattern, uint32_t width, size_t count,
                          vnpu_stream_t stream) {
    (void)dst, (void)pattern, (void)width, (void)count, (void)stream;
    return VNPU_OK;
}

size_t vnpu_error_detail(char *text, size_t text_bytes) {
    return (size_t)snprintf(text, text_bytes, "the driver's text");
}

static kern_tensor_t dense(uint32_t ndims, int64_t a, int64_t b) {
    kern_tensor_t t = {
        .address = 512, .dtype = VNPU_F32, .ndims = ndims, .size = {a, b}, .stride = {b, 1}};
    if (ndims == 1) t.stride[0] = 1;
    return t;
}

static vnpu_status_t run_add(kern_context_t *context, int64_t size) {
    kern_tensor_t t = dense(1, size, 0);
    kern_pointwise_t call = {.name = "add",
                             .out = t,
                             .num_inputs = 2,
                             .input = {t, t},
                             .num_nodes = 1,
                             .node = {{KERN_NODE_BINARY, VNPU_B_ADD, {0, 1, 0}}}};
    return kern_pointwise(context, 3, &call);
}

static vnpu_status_t run_all(kern_context_t *context) {
    kern_tensor_t a = dense(2, 40, 40), row = dense(2, 40, 1), index = dense(1, 40, 0);
    kern_gemm_t gemm = {
        .out = a, .a = a, .b = a, .c = a, .alpha = 2, .beta = 3, .activation = KERN_ACT_SILU};
    index.dtype = VNPU_I64;
    kern_attention_t attention = {.scale = 1, .is_causal = true};
    attention.q = attention.k = attention.v = attention.out =
        (kern_tensor_t){.address = 512,
                        .dtype = VNPU_F32,
                        .ndims = 4,
                        .size = {2, 2, 40, 8},
                        .stride = {640, 320, 8, 1}};
    vnpu_status_t status = run_add(context, 1000);
    if (status == VNPU_OK) status = kern_gemm(context, 0, &gemm);
    if (status == VNPU_OK) status = kern_softmax(context, 0, &a, &a, 0, true);
    if (status == VNPU_OK)
        status = kern_layer_norm(context, 0, &a, &a, NULL, NULL, NULL, NULL, 1, 1e-5);
    if (status == VNPU_OK) status = kern_reduce(context, 0, KERN_MEAN, &row, &a, 2);
    if (status == VNPU_OK) status = kern_index_select(context, 0, &a, &a, 0, &index);
    if (status == VNPU_OK) status = kern_attention(context, 0, &attention);
    attention.k.size[2] = attention.v.size[2] = 9000; /* streamed */
    attention.k.stride[1] = attention.v.stride[1] = 72000;
    if (status == VNPU_OK) status = kern_attention(context, 0, &attention);
    a.stride[0] = 1, a.stride[1] = 40;
    kern_tensor_t out = dense(2, 40, 40);
    if (status == VNPU_OK) status = kern_copy(context, 0, &out, &a);
    return status;
}

Test(context, every_failing_allocation) {
    memset(&fake, 0, sizeof fake);
    unsigned long n = 0;
    for (vnpu_status_t status = VNPU_ERROR_OUT_OF_MEMORY; status != VNPU_OK; n++) {
        fake.loaded = fake.unloaded = 0;
        alloc_count_reset();
        alloc_fail_from(n);
        kern_context_t *context;
        status = kern_context_create(0, &context);
        if (status == VNPU_OK) status = run_all(context);
        cr_assert(status == VNPU_OK || status == VNPU_ERROR_OUT_OF_MEMORY,
                  "allocation %lu: status %d", n, (int)status);
        kern_context_destroy(context);
        cr_assert_eq(alloc_live(), 0, "allocation %lu: %ld blocks left", n, alloc_live());
        cr_assert_eq(fake.loaded, fake.unloaded, "allocation %lu: modules left", n);
        cr_assert(n < 10000);
    }
    alloc_count_reset();
    cr_assert(n > 20, "%lu allocations", n);
}

Test(context, driver_errors_pass_through) {
    memset(&fake, 0, sizeof fake);
    kern_context_t *context;
    cr_assert_eq(kern_context_create(1, &context), VNPU_ERROR_INVALID_VALUE);
    cr_assert_null(context);
    cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
    cr_assert_str_eq(kern_error_detail(context), "");
    fake.load = VNPU_ERROR_INVALID_IMAGE;
    cr_assert_eq(run_add(context, 100), VNPU_ERROR_INVALID_IMAGE);
    cr_assert(strstr(kern_error_detail(context), "the driver's text"));
    fake.load = VNPU_OK;
    fake.launch = VNPU_ERROR_DEVICE_LOST;
    cr_assert_eq(run_add(context, 100), VNPU_ERROR_DEVICE_LOST);
    fake.launch = VNPU_OK;
    cr_assert_eq(run_add(context, 100), VNPU_OK);
    uint64_t programs, launches;
    kern_stats(context, &programs, &launches);
    cr_assert_eq(programs, 1);
    cr_assert_eq(launches, 1);
    kern_context_destroy(context);
    kern_context_destroy(NULL);
}

Test(context, tag_stream_and_grid_reach_the_launch) {
    memset(&fake, 0, sizeof fake);
    kern_context_t *context;
    cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
    kern_set_tag(context, 77);
    cr_assert_eq(run_add(context, 100000), VNPU_OK);
    cr_assert_eq(fake.last.tag, 77);
    cr_assert_eq(fake.last.stream, 3);
    cr_assert_eq(fake.last.grid[0] * fake.last.grid[1], 2, "both cores");
    cr_assert_eq(run_add(context, 0), VNPU_OK);
    cr_assert_eq(fake.launched, 1, "nothing is launched for nothing");
    kern_context_destroy(context);
}

/* Operands that reach beyond what one pattern holds are cut; the parts lie where they belong. */
Test(context, far_operands_are_cut) {
    memset(&fake, 0, sizeof fake);
    kern_context_t *context;
    cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
    cr_assert_eq(run_add(context, INT64_C(5) << 30), VNPU_OK);
    cr_assert(fake.launched >= 5, "%llu launches", (unsigned long long)fake.launched);
    kern_tensor_t a = dense(2, 70000, 70000);
    fake.launched = 0;
    kern_gemm_t gemm = {.out = dense(2, 70000, 8), .a = a, .b = dense(2, 70000, 8), .alpha = 1};
    cr_assert_eq(kern_gemm(context, 0, &gemm), VNPU_OK);
    cr_assert(fake.launched >= 5);
    kern_tensor_t out = dense(2, 70000, 1);
    fake.launched = 0;
    cr_assert_eq(kern_reduce(context, 0, KERN_SUM, &out, &a, 2), VNPU_OK);
    cr_assert(fake.launched >= 5);
    kern_context_destroy(context);
}

static vnpu_status_t run_square(kern_context_t *context, int64_t size) {
    kern_tensor_t a = dense(2, size, size);
    kern_gemm_t gemm = {.out = a, .a = a, .b = a, .alpha = 1};
    return kern_gemm(context, 0, &gemm);
}

/* The simulator's answers decide; what loses is unloaded; a second call asks nothing. */
Test(plan, the_fastest_program_stays) {
    unsetenv("VNPU_PLAN");
    uint64_t first_tile[KERN_TRIALS] = {0};
    for (uint32_t winner = 0; winner < KERN_TRIALS; winner++) {
        memset(&fake, 0, sizeof fake);
        for (uint32_t i = 0; i < 8; i++)
            fake.ps[i] = i == winner ? 900 : 1000 + i;
        kern_context_t *context;
        cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
        cr_assert_eq(run_square(context, 512), VNPU_OK);
        const kern_mapping_t *mapping = kern_last_plan(context);
        cr_assert_eq(mapping->candidates, KERN_TRIALS);
        cr_assert_eq(fake.timed, KERN_TRIALS);
        cr_assert_eq(fake.loaded, KERN_TRIALS);
        cr_assert_eq(fake.unloaded, KERN_TRIALS - 1);
        cr_assert_eq(fake.launched_module, winner + 1);
        cr_assert_eq(mapping->chosen.measured_ps, 900);
        cr_assert_eq(mapping->next.measured_ps, winner == 0 ? 1001 : 1000);
        first_tile[winner] = ((uint64_t)mapping->chosen.m << 40) +
                             ((uint64_t)mapping->chosen.n << 20) + mapping->chosen.k +
                             ((uint64_t)mapping->chosen.grid[0] << 60);
        cr_assert_eq(run_square(context, 512), VNPU_OK);
        cr_assert_eq(fake.timed, KERN_TRIALS, "cached");
        cr_assert_eq(kern_last_plan(context), mapping);
        kern_set_tag(context, 5);
        cr_assert_null(kern_last_plan(context), "nothing launched under this label");
        cr_assert_eq(run_add(context, 10), VNPU_OK);
        cr_assert_null(kern_last_plan(context), "an addition has no mapping");
        kern_context_destroy(context);
        cr_assert_eq(fake.unloaded, fake.loaded);
    }
    for (uint32_t i = 1; i < KERN_TRIALS; i++)
        cr_assert(first_tile[i - 1] != first_tile[i]);
}

Test(plan, equal_times_keep_the_closed_form) {
    unsetenv("VNPU_PLAN");
    memset(&fake, 0, sizeof fake);
    for (uint32_t i = 0; i < 8; i++)
        fake.ps[i] = 1000;
    kern_context_t *context;
    cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
    cr_assert_eq(run_square(context, 512), VNPU_OK);
    cr_assert_eq(fake.timed, KERN_TRIALS);
    cr_assert_eq(fake.launched_module, 1);
    kern_context_destroy(context);
}

/* Small products, VNPU_PLAN=model and a device without time ask nothing (the last: once). */
Test(plan, the_closed_form_decides) {
    static const char *const plan[] = {NULL, "model", "measure"};
    for (int i = 0; i < 3; i++) {
        memset(&fake, 0, sizeof fake);
        if (plan[i]) setenv("VNPU_PLAN", plan[i], 1);
        if (!plan[i]) unsetenv("VNPU_PLAN");
        if (i == 2) fake.time = VNPU_ERROR_NOT_PERMITTED;
        kern_context_t *context;
        cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
        for (int64_t size = 512; size <= 520; size += 8)
            cr_assert_eq(run_square(context, i == 0 ? 64 : size), VNPU_OK);
        const kern_mapping_t *mapping = kern_last_plan(context);
        cr_assert_eq(mapping->candidates, 0);
        cr_assert_eq(mapping->chosen.measured_ps, 0);
        cr_assert_eq(fake.timed, 0);
        cr_assert_eq(fake.loaded, i == 0 ? 1 : 2);
        kern_context_destroy(context);
    }
}

/* A failing question fails the call and leaves no module behind. */
Test(plan, failures_unload) {
    unsetenv("VNPU_PLAN");
    memset(&fake, 0, sizeof fake);
    fake.time = VNPU_ERROR_DEVICE_LOST;
    kern_context_t *context;
    cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
    cr_assert_eq(run_square(context, 512), VNPU_ERROR_DEVICE_LOST);
    cr_assert_not_null(strstr(kern_error_detail(context), "the driver's text"));
    cr_assert_eq(fake.loaded, fake.unloaded);
    setenv("VNPU_PLAN", "guess", 1);
    kern_context_t *other;
    cr_assert_eq(kern_context_create(0, &other), VNPU_OK);
    cr_assert_eq(run_square(other, 512), VNPU_ERROR_INVALID_VALUE);
    cr_assert_str_eq(kern_error_detail(other), "VNPU_PLAN=guess: it must be model or measure");
    unsetenv("VNPU_PLAN");
    kern_context_destroy(other);
    kern_context_destroy(context);
}

static void no_unload(vnpu_module_t module) {
    fake.unloaded += module;
}

Test(cache, finds_what_was_added) {
    memset(&fake, 0, sizeof fake);
    kern_cache_t cache = {0};
    kern_key_t key;
    for (uint64_t i = 0; i < 1000; i++) {
        kern_key_init(&key, i % 2 ? "odd" : "even");
        kern_key_add_u64(&key, i / 2);
        cr_assert_null(kern_cache_find(&cache, &key));
        kern_entry_t entry = {.module = i + 1};
        cr_assert_not_null(kern_cache_add(&cache, &key, &entry));
    }
    for (uint64_t i = 0; i < 1000; i++) {
        kern_key_init(&key, i % 2 ? "odd" : "even");
        kern_key_add_u64(&key, i / 2);
        cr_assert_eq(kern_cache_find(&cache, &key)->module, i + 1);
    }
    kern_cache_fini(&cache, no_unload);
    cr_assert_eq(fake.unloaded, 500500);
}

/* (a + b) * c: one instruction; a shared value is not merged away; dead nodes cost nothing. */
Test(expr, chains) {
    kern_pointwise_t call = {
        .name = "x",
        .out = dense(1, 8, 0),
        .num_inputs = 3,
        .num_nodes = 2,
        .node = {{KERN_NODE_BINARY, VNPU_B_ADD, {0, 1, 0}},
                 {KERN_NODE_BINARY, VNPU_B_MUL, {KERN_INPUT(2), KERN_NODE(0), 0}}}};
    kern_expr_t expr;
    cr_assert_null(kern_expr_compile(&call, &expr));
    cr_assert_eq(expr.num_insns, 1);
    cr_assert_eq(expr.num_temps, 0);
    cr_assert_eq(expr.insn[0].func, VNPU_B_ADD);
    cr_assert_eq(expr.insn[0].func2, VNPU_B_MUL);
    cr_assert(expr.insn[0].flags & VNPU_F_REVERSE2);
    call.node[1].operand[0] = KERN_NODE(0); /* the square of the sum */
    cr_assert_null(kern_expr_compile(&call, &expr));
    cr_assert_eq(expr.num_insns, 2);
    cr_assert_eq(expr.num_temps, 1);
    cr_assert_not(expr.uses_input[2]);
}

/* A long unary chain needs one temporary. */
Test(expr, temporaries_are_reused) {
    kern_pointwise_t call = {.name = "x", .out = dense(1, 8, 0), .num_inputs = 1, .num_nodes = 10};
    for (uint8_t n = 0; n < 10; n++)
        call.node[n] = (kern_node_t){
            KERN_NODE_UNARY, VNPU_U_EXP, {n ? KERN_NODE(n - 1) : KERN_INPUT(0), 0, 0}};
    kern_expr_t expr;
    cr_assert_null(kern_expr_compile(&call, &expr));
    cr_assert_eq(expr.num_insns, 10);
    cr_assert_eq(expr.num_temps, 1);
    call.out.dtype = VNPU_BOOL; /* a truth value is made of the result */
    cr_assert_null(kern_expr_compile(&call, &expr));
    cr_assert_eq(expr.num_insns, 11);
    cr_assert_eq(expr.insn[10].func, VNPU_U_NE0);
    call.node[9].func = VNPU_U_ISNAN;
    cr_assert_null(kern_expr_compile(&call, &expr));
    cr_assert_eq(expr.num_insns, 10);
}
