/* The complete programs of docs/isa.md do what the text around them says. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev_asm.h"
#include "device/dev_exec.h"
#include "tests/device/dev_test_random.h"

#define OWNER 3u

typedef struct manual {
    sim_config_t *config;
    dev_machine_t machine;
    dev_memory_t *memory;
    dev_exec_t *exec;
    dev_program_t *program;
    dev_launch_t launch;
} manual_t;

/* The fenced block of the manual that starts with ".program NAME". */
static char *manual_text(const char *name) {
    FILE *file = fopen(VNPU_SOURCE_DIR "/docs/isa.md", "rb");
    cr_assert_not_null(file);
    static char manual[1 << 17];
    size_t size = fread(manual, 1, sizeof manual - 1, file);
    cr_assert_lt(size, sizeof manual - 1);
    manual[size] = 0;
    fclose(file);
    char start[64];
    snprintf(start, sizeof start, "\n.program %s\n", name);
    char *begin = strstr(manual, start);
    cr_assert_not_null(begin, "%s", name);
    char *end = strstr(begin, "\n```");
    cr_assert_not_null(end);
    *end = 0;
    return begin;
}

static void manual_open(manual_t *manual, const char *name, uint32_t grid, dev_exec_mode_t mode) {
    sim_error_t err = {0};
    void *image;
    size_t bytes;
    dev_exec_options_t options = {.mode = mode, .threads = 2, .seed = grid};
    cr_assert_eq(
        sim_config_load(VNPU_SOURCE_DIR "/configs/default.ini", NULL, &manual->config, &err),
        SIM_OK, "%s", err.text);
    cr_assert_eq(dev_machine_init(&manual->machine, manual->config, &err), SIM_OK, "%s", err.text);
    cr_assert_eq(dev_memory_create(64u << 20, DEV_BACKING_FULL, 0, &manual->memory, &err), SIM_OK,
                 "%s", err.text);
    cr_assert_eq(dev_exec_create(&manual->machine, manual->memory, &options, &manual->exec, &err),
                 SIM_OK, "%s", err.text);
    cr_assert_eq(dev_asm_assemble(manual_text(name), "docs/isa.md", &image, &bytes, &err), SIM_OK,
                 "%s", err.text);
    cr_assert_eq(dev_program_load(image, bytes, &manual->machine, &manual->program, &err), SIM_OK,
                 "%s", err.text);
    free(image);
    manual->launch = (dev_launch_t){.program = manual->program, .grid = {grid, 1}};
    for (uint32_t c = 0; c < manual->machine.cls[0].workers; c++) {
        manual->launch.core_mask[c / 64] |= 1ull << c % 64;
    }
}

static void manual_close(manual_t *manual) {
    dev_program_destroy(manual->program);
    dev_exec_destroy(manual->exec);
    dev_memory_destroy(manual->memory);
    sim_config_destroy(manual->config);
}

/* An argument of n floats in [-1, 1), or zeros with seed NULL. */
static float *manual_arg(manual_t *manual, uint32_t arg, size_t n, uint64_t *seed) {
    sim_error_t err = {0};
    cr_assert_eq(dev_memory_alloc(manual->memory, OWNER, n * 4, &manual->launch.arg[arg], &err),
                 SIM_OK, "%s", err.text);
    float *host = dev_memory_translate(manual->memory, OWNER, manual->launch.arg[arg], n * 4, &err);
    cr_assert_not_null(host, "%s", err.text);
    for (size_t i = 0; i < n; i++) {
        host[i] = seed ? (float)dev_test_between(seed, -1000, 999) / 1000.0f : 0.0f;
    }
    return host;
}

static void run(manual_t *manual) {
    sim_error_t err = {0};
    cr_assert_eq(dev_exec_run(manual->exec, OWNER, &manual->launch, &err), SIM_OK, "%s", err.text);
}

static void check_vector_add(dev_exec_mode_t mode) {
    enum { N = 100000 };
    uint64_t seed = 7;
    manual_t manual;
    manual_open(&manual, "vector_add", 1, mode);
    float *a = manual_arg(&manual, 0, N, &seed), *b = manual_arg(&manual, 1, N, &seed);
    float *out = manual_arg(&manual, 2, N, NULL);
    run(&manual);
    for (size_t i = 0; i < N; i++)
        cr_assert_eq(out[i], a[i] + b[i], "element %zu", i);
    manual_close(&manual);
}

static void check_gemm_relu(dev_exec_mode_t mode) {
    enum { M = 300, N = 200, K = 500 };
    uint64_t seed = 8;
    manual_t manual;
    manual_open(&manual, "gemm_relu", 3, mode);
    float *a = manual_arg(&manual, 0, M * K, &seed), *b = manual_arg(&manual, 1, K * N, &seed);
    float *bias = manual_arg(&manual, 2, N, &seed), *c = manual_arg(&manual, 3, M * N, NULL);
    run(&manual);
    for (size_t m = 0; m < M; m++) {
        for (size_t n = 0; n < N; n++) {
            float sum = 0.0f;
            for (size_t k = 0; k < K; k++)
                sum = fmaf(a[m * K + k], b[k * N + n], sum);
            float want = sum + bias[n] > 0.0f ? sum + bias[n] : 0.0f;
            cr_assert_eq(c[m * N + n], want, "row %zu column %zu", m, n);
        }
    }
    manual_close(&manual);
}

Test(manual, vector_add_computes_the_sum) {
    check_vector_add(DEV_EXEC_VALUES);
    check_vector_add(DEV_EXEC_CHAOS);
}

Test(manual, gemm_relu_computes_the_product_bit_by_bit) {
    check_gemm_relu(DEV_EXEC_VALUES);
    check_gemm_relu(DEV_EXEC_CHAOS);
}

/* The worked example of section 4: tile (2, 3) of a 300 x 500 matrix. */
Test(manual, the_worked_pattern) {
    static const char *const lines[] = {
        ".ap a dram f32 arg=a dims=[128:500, 128:1] grid0=+128*500 loop1=+128 clip=0:300:grid:0 "
        "clip=1:500:loop:1",
        ".ap a_tile sram f32 dims=[128:128, 128:1] rot=1:2:128*128 clip=0:300:grid:0 "
        "clip=1:500:loop:1"};
    char text[1024];
    snprintf(text, sizeof text,
             ".program t\n.arg a in\n.sram 256K\n%s\n%s\n.queue dma0\n loop 1\n loop 4\n"
             " dma_copy dst=a_tile src0=a\n endloop\n endloop\n",
             lines[0], lines[1]);
    sim_error_t err = {0};
    void *image;
    size_t bytes;
    dev_program_t *program;
    cr_assert_eq(dev_asm_assemble(text, "t.s", &image, &bytes, &err), SIM_OK, "%s", err.text);
    cr_assert_eq(dev_program_load(image, bytes, NULL, &program, &err), SIM_OK, "%s", err.text);
    dev_launch_t launch = {.program = program, .grid = {3, 1}};
    const uint32_t grid_pos[2] = {2, 0};
    dev_cursor_t cursor;
    dev_cursor_init(&cursor, program, &program->queue[0]);
    for (int step = 0; step < 4; step++)
        cr_assert_not_null(dev_cursor_next(&cursor));
    dev_view_t far, near;
    uint64_t run_bytes, runs;
    dev_view_make(&far, &program->ap[0], &cursor, &launch, grid_pos);
    dev_view_make(&near, &program->ap[1], &cursor, &launch, grid_pos);
    dev_view_runs(&far, &run_bytes, &runs);
    cr_assert_eq(far.base, 128384u * 4);
    cr_assert_eq(far.size[0], 44u);
    cr_assert_eq(far.size[1], 116u);
    cr_assert_eq(runs, 44u);
    cr_assert_eq(run_bytes, 464u);
    cr_assert_eq(near.base, 128u * 128 * 4);
    cr_assert_eq(near.count, 44u * 116);
    dev_program_destroy(program);
    free(image);
}
