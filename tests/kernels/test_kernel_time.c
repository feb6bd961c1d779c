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

/* ---- classes of cores ---- */

/* Of the four cores of default.ini as cubes and six others for vector work. */
#define CUBES "vector.lanes=32,grid.workers=3"
#define KEYS(prefix)                                                                               \
    prefix "vector.lanes=256," prefix "sram.bytes=2 MiB," prefix "dma.bytes_per_cycle=128," prefix \
           "core.issue_cycles=3," prefix "core.clock=800 MHz"
#define BOTH  CUBES ",class vec.count=6,class vec.matrix.count=0," KEYS("class vec.")
#define ALONE "grid.cores=6," KEYS("")

typedef struct times {
    uint64_t gemm, add, softmax, copy;
    float last[3]; /* values: the last of every result */
} times_t;

static float last_of(const kern_tensor_t *t) {
    float value;
    uint64_t elems = (uint64_t)(t->size[0] * t->size[1]);
    must(vnpu_memcpy_d2h(&value, t->address + (elems - 1) * 4, 4, 0, 0), "read");
    return value;
}

static uint64_t timed(vnpu_status_t (*call)(const kern_tensor_t *out, const kern_tensor_t *in),
                      const kern_tensor_t *out, const kern_tensor_t *in) {
    must(call(out, in), "first"); /* loads the program */
    start();
    must(call(out, in), "second");
    return stop();
}

static vnpu_status_t call_gemm(const kern_tensor_t *out, const kern_tensor_t *in) {
    kern_gemm_t call = {.out = *out, .a = *in, .b = *in, .alpha = 1};
    return kern_gemm(context, 0, &call);
}

static vnpu_status_t call_add(const kern_tensor_t *out, const kern_tensor_t *in) {
    kern_pointwise_t call = {.name = "add",
                             .out = *out,
                             .num_inputs = 2,
                             .input = {*in, *in},
                             .num_nodes = 1,
                             .node = {{KERN_NODE_BINARY, VNPU_B_ADD, {0, 1, 0}}}};
    return kern_pointwise(context, 0, &call);
}

static vnpu_status_t call_softmax(const kern_tensor_t *out, const kern_tensor_t *in) {
    return kern_softmax(context, 0, out, in, 1, false);
}

static vnpu_status_t call_copy(const kern_tensor_t *out, const kern_tensor_t *in) {
    return kern_copy(context, 0, out, in);
}

static times_t times_of(const char *options) {
    open_chip(options);
    kern_tensor_t in = dense(512, 512), out = dense(512, 512);
    times_t times;
    times.gemm = timed(call_gemm, &out, &in);
    times.last[0] = last_of(&out);
    times.add = timed(call_add, &out, &in);
    times.last[1] = last_of(&out);
    times.softmax = timed(call_softmax, &out, &in);
    times.last[2] = last_of(&out);
    times.copy = timed(call_copy, &out, &in);
    close_chip();
    return times;
}

/* Each family runs on the class that is best at it, in exactly the time that a chip of only those
 * cores takes, and gives the same values. */
Test(kernel_time, a_family_takes_the_time_of_its_class, .timeout = 120) {
    times_t both = times_of(BOTH), cubes = times_of(CUBES), alone = times_of(ALONE);
    cr_assert_eq(both.gemm, cubes.gemm);
    cr_assert_neq(both.gemm, alone.gemm);
    cr_assert_eq(both.add, alone.add);
    cr_assert_neq(both.add, cubes.add);
    cr_assert_eq(both.softmax, alone.softmax);
    cr_assert_eq(both.copy, alone.copy);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(both.last[i], cubes.last[i]);
        cr_assert_eq(both.last[i], alone.last[i]);
    }
    times_t again = times_of(BOTH);
    cr_assert_eq(memcmp(&both, &again, sizeof both), 0);
}

/* The order of the classes in the file decides nothing but their numbers. */
Test(kernel_time, vector_cores_may_come_first, .timeout = 120) {
    times_t alone = times_of(ALONE);
    times_t turned =
        times_of(ALONE ",matrix.count=0,class cube.count=4,class cube.workers=3,"
                       "class cube.matrix.count=1,class cube.vector.lanes=32,class cube.sram.bytes="
                       "4 MiB,class cube.dma.bytes_per_cycle=256,class cube.core.issue_cycles=1,"
                       "class cube.core.clock=1 GHz");
    times_t cubes = times_of(CUBES);
    cr_assert_eq(turned.add, alone.add);
    cr_assert_eq(turned.softmax, alone.softmax);
    cr_assert_eq(turned.gemm, cubes.gemm);
}

/* A matrix type that only a slower class has. */
Test(kernel_time, a_type_goes_to_the_class_that_has_it, .timeout = 120) {
    open_chip("matrix.rate.f32=0,class old.count=1,class old.matrix.rate.f32=1/8");
    kern_tensor_t in = dense(64, 64), out = dense(64, 64);
    must(call_gemm(&out, &in), "gemm");
    cr_assert_eq(last_of(&out), 16.0f);
    close_chip();
    open_chip("matrix.rate.f32=0,class old.count=1,class old.matrix.count=0");
    kern_gemm_t call = {.out = out, .a = in, .b = in, .alpha = 1};
    cr_assert_eq(kern_gemm(context, 0, &call), VNPU_ERROR_UNSUPPORTED);
    cr_assert_not_null(strstr(kern_error_detail(context), "has no f32 by f32"), "%s",
                       kern_error_detail(context));
    close_chip();
}
