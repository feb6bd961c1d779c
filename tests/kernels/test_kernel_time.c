/* The library on the whole stack, in this process: results through the driver, and simulated times
 * against arithmetic. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kern.h"

static kern_context_t *context;
static vnpu_event_t from, to;

static void must(vnpu_status_t status, const char *what) {
    char text[800] = "";
    if (status != VNPU_OK) (void)vnpu_error_detail(text, sizeof text);
    cr_assert_eq(status, VNPU_OK, "%s: %s: %s", what, vnpu_status_name(status), text);
}

static void open_chip(const char *options) {
    setenv("VNPU_TRANSPORT", "inproc", 1);
    setenv("VNPU_CONFIG_DIR", VNPU_SOURCE_DIR "/configs", 1);
    setenv("VNPU_CONFIG", "default", 1);
    setenv("VNPU_OPTIONS", options, 1);
    unsetenv("VNPU_MODE");
    must(vnpu_init(0), "init");
    must(kern_context_create(0, &context), "context");
    must(vnpu_event_create(0, &from), "event");
    must(vnpu_event_create(0, &to), "event");
}

static void close_chip(void) {
    kern_context_destroy(context);
    must(vnpu_shutdown(), "shutdown");
}

static kern_tensor_t dense(int64_t rows, int64_t columns) {
    kern_tensor_t t = {
        .dtype = VNPU_F32, .ndims = 2, .size = {rows, columns}, .stride = {columns, 1}};
    must(vnpu_mem_alloc(0, (size_t)(rows * columns) * 4, &t.address), "alloc");
    must(kern_fill(context, 0, &t, 0.5, 0), "fill");
    return t;
}

/* Simulated picoseconds from start to stop, the host's calls in between included. */
static void start(void) {
    must(vnpu_event_record(from, 0), "record");
}

static uint64_t stop(void) {
    must(vnpu_event_record(to, 0), "record");
    must(vnpu_device_synchronize(0), "synchronize");
    uint64_t a, b;
    must(vnpu_event_time_ps(from, &a), "time");
    must(vnpu_event_time_ps(to, &b), "time");
    return b - a;
}

static uint64_t time_gemm(int64_t m, int64_t k, int64_t n) {
    kern_gemm_t call = {.out = dense(m, n), .a = dense(m, k), .b = dense(k, n), .alpha = 1};
    start();
    must(kern_gemm(context, 0, &call), "gemm");
    uint64_t ps = stop();
    float value;
    must(vnpu_memcpy_d2h(&value, call.out.address + (uint64_t)(m * n - 1) * 4, 4, 0, 0), "read");
    cr_assert_eq(value, (float)k / 4, "%g", (double)value);
    return ps;
}

/* Costs of a launch that are not the kernel's: calls, doorbell, fetch, decode, completion. */
static uint64_t overhead_ps(void) {
    const vnpu_machine_t *m = kern_machine(context);
    return m->host_submit_ps * 2 + m->host_launch_ps + m->launch_gap_ps + 3000000;
}

Test(kernel_time, large_product_is_compute_bound, .timeout = 120) {
    open_chip("");
    const vnpu_machine_t *m = kern_machine(context);
    double macs = 2048.0 * 2048 * 2048;
    double per_second = (double)m->matrix_rows * m->matrix_cols * m->workers *
                        (double)m->core_clock_hz * m->matrix_rate_num[VNPU_F32] /
                        m->matrix_rate_den[VNPU_F32];
    double ideal_ps = macs / per_second * 1e12;
    uint64_t ps = time_gemm(2048, 2048, 2048);
    cr_assert((double)ps < ideal_ps / 0.85 && (double)ps > ideal_ps, "%llu ps, %g at the peak",
              (unsigned long long)ps, ideal_ps);
    close_chip();
}

Test(kernel_time, one_row_is_dram_bound, .timeout = 120) {
    open_chip("");
    double ideal_ps = 4096.0 * 4096 * 4 / (double)kern_machine(context)->dram_bytes_per_s * 1e12;
    double ps = (double)(time_gemm(1, 4096, 4096) - overhead_ps());
    cr_assert(ps < ideal_ps / 0.75, "%g ps, %g at the peak", ps, ideal_ps);
    close_chip();
}

Test(kernel_time, stream_reaches_the_dram, .timeout = 120) {
    open_chip("");
    kern_tensor_t in = dense(8192, 2048), out = dense(8192, 1);
    start();
    must(kern_reduce(context, 0, KERN_SUM, &out, &in, 2), "sum");
    double ps = (double)(stop() - overhead_ps());
    double ideal_ps = 8192.0 * 2048 * 4 / (double)kern_machine(context)->dram_bytes_per_s * 1e12;
    cr_assert(ps < ideal_ps / 0.8, "%g ps, %g at the peak", ps, ideal_ps);
    close_chip();
}

Test(kernel_time, twice_the_cores_half_the_time, .timeout = 120) {
    uint64_t ps[2];
    static const char *const options[] = {"grid.cores=2", "grid.cores=4"};
    for (int i = 0; i < 2; i++) {
        open_chip(options[i]);
        ps[i] = time_gemm(1024, 1024, 1024) - overhead_ps();
        close_chip();
    }
    cr_assert(ps[1] < ps[0] * 6 / 10, "%llu ps with 2 cores, %llu with 4",
              (unsigned long long)ps[0], (unsigned long long)ps[1]);
}

/* The same launch takes the same time, from the first run on, and its bits do not change. */
Test(kernel_time, repeats, .timeout = 120) {
    open_chip("");
    kern_gemm_t call = {
        .out = dense(300, 200), .a = dense(300, 500), .b = dense(500, 200), .alpha = 1};
    uint64_t first = 0;
    for (int i = 0; i < 4; i++) {
        start();
        must(kern_gemm(context, 0, &call), "gemm");
        uint64_t ps = stop();
        if (i == 1) first = ps;
        if (i > 1) cr_assert_eq(ps, first);
    }
    close_chip();
}

Test(kernel_time, bad_index_is_reported_at_the_synchronize, .timeout = 120) {
    open_chip("");
    kern_tensor_t table = dense(10, 64), out = dense(4, 64), index = dense(4, 2);
    index.dtype = VNPU_I64, index.ndims = 1, index.stride[0] = 1;
    int64_t values[4] = {1, 2, 10, 3};
    must(vnpu_memcpy_h2d(index.address, values, sizeof values, 0, 0), "write");
    must(kern_index_select(context, 0, &out, &table, 0, &index), "index_select");
    cr_assert_eq(vnpu_device_synchronize(0), VNPU_ERROR_INDEX_OUT_OF_RANGE);
    kern_context_destroy(context);
    vnpu_status_t status = vnpu_shutdown();
    (void)status; /* the error was reported already */
}
