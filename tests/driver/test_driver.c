/* Every function of vnpu.h and vnpu_sim.h: what it does, and what it says to bad arguments. Times
 * are the fake chip's. */
#include "tests/driver/driver_test.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define STALE UINT64_C(0x01000001000000ff)

Test(driver, bad_arguments_are_refused_without_effect) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        vnpu_addr_t address, other;
        uint64_t ps;
        double ms;
        char byte = 0;
        size_t bytes;
        const void *blob;
        const vnpu_status_t bad = VNPU_ERROR_INVALID_VALUE, stale = VNPU_ERROR_INVALID_HANDLE;
        OK(vnpu_mem_alloc(0, 1000, &address));
        OK(vnpu_mem_alloc(0, 1000, &other));
        uint64_t before = host_clock();
        IS(vnpu_init(1), bad);
        IS(vnpu_device_count(NULL), bad);
        IS(vnpu_device_machine(0, NULL), bad);
        IS(vnpu_device_machine(1, &(vnpu_machine_t){0}), bad);
        IS(vnpu_device_synchronize(-1), bad);
        IS(vnpu_device_reset(3), bad);
        IS(vnpu_mem_alloc(0, 1, NULL), bad);
        IS(vnpu_mem_alloc(2, 1, &(vnpu_addr_t){0}), bad);
        IS(vnpu_mem_free(0, address + 1), bad);
        IS(vnpu_mem_free(0, address + 512), bad);
        IS(vnpu_mem_free(0, (uintptr_t)&byte), bad);
        IS(vnpu_mem_info(0, NULL, &bytes), bad);
        IS(vnpu_mem_info(0, &bytes, NULL), bad);
        IS(vnpu_host_alloc(1, NULL), bad);
        IS(vnpu_host_alloc((size_t)1 << 50, (void **)&blob), VNPU_ERROR_OUT_OF_MEMORY);
        IS(vnpu_host_free(&byte), bad);
        IS(vnpu_host_is_pinned(&byte, NULL), bad);
        IS(vnpu_memcpy_h2d(address, NULL, 1, 0, 0), bad);
        IS(vnpu_memcpy_d2h(NULL, address, 1, 0, 0), bad);
        IS(vnpu_memcpy_h2d(address + 999, &ps, 2, 0, 0), bad);
        cr_assert(strstr(detail(), "pass the end of the allocation of 1000 bytes") != NULL, "%s",
                  detail());
        IS(vnpu_memcpy_h2d((uintptr_t)&byte, &byte, 1, 0, 0), bad);
        cr_assert(strstr(detail(), "no device address") != NULL, "%s", detail());
        IS(vnpu_memcpy_d2h(&byte, other + 1024, 1, 0, 0), bad);
        cr_assert(strstr(detail(), "in no live allocation") != NULL, "%s", detail());
        IS(vnpu_memcpy_d2h(&byte, 0, 1, 0, 0), bad);
        IS(vnpu_memcpy_d2d(address, other + 1, 1000, 0), bad);
        IS(vnpu_memcpy_d2d(address + 1, other, 1000, 0), bad);
        IS(vnpu_memcpy_h2d(address, &byte, 1, STALE, 0), stale);
        IS(vnpu_memset(address, 0, 3, 1, 0), bad);
        IS(vnpu_memset(address, 0, 0, 1, 0), bad);
        IS(vnpu_memset(address, 0, 8, 126, 0), bad);
        IS(vnpu_memset(address, 0, 8, SIZE_MAX / 4, 0), bad);
        IS(vnpu_memset(address, 0, 8, 1, STALE), stale);
        IS(vnpu_stream_create(0, 0, NULL), bad);
        IS(vnpu_stream_create(9, 0, &(vnpu_stream_t){0}), bad);
        IS(vnpu_stream_destroy(0), stale);
        IS(vnpu_stream_destroy(STALE), stale);
        IS(vnpu_stream_synchronize(STALE), stale);
        IS(vnpu_stream_query(STALE), stale);
        IS(vnpu_stream_wait_event(0, STALE), stale);
        IS(vnpu_event_create(0, NULL), bad);
        IS(vnpu_event_destroy(0), stale);
        IS(vnpu_event_record(STALE, 0), stale);
        IS(vnpu_event_synchronize(STALE), stale);
        IS(vnpu_event_query(STALE), stale);
        IS(vnpu_event_time_ps(STALE, &ps), stale);
        IS(vnpu_event_time_ps(STALE, NULL), bad);
        IS(vnpu_event_elapsed_ms(STALE, STALE, &ms), stale);
        IS(vnpu_event_elapsed_ms(STALE, STALE, NULL), bad);
        IS(vnpu_module_unload(STALE), stale);
        IS(vnpu_sim_host_clock(0, NULL), bad);
        IS(vnpu_sim_host_advance(0, UINT64_MAX), bad);
        IS(vnpu_profile_end(0, NULL, &bytes), bad);
        IS(vnpu_profile_end(0, &blob, NULL), bad);
        IS(vnpu_sim_config_text(0, NULL), bad);
        IS(vnpu_sim_device_pid(0, NULL), bad);
        IS(vnpu_sim_memory_rate(0, NULL, NULL), bad);
        cr_assert_eq(host_clock(), before, "a refused call took simulated time");
        OK(vnpu_device_synchronize(0));
        OK(vnpu_shutdown());
    }
}

Test(driver, bad_launches_are_refused) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        const vnpu_status_t bad = VNPU_ERROR_INVALID_VALUE;
        vnpu_module_t add = load("add1", 2), module;
        uint64_t args[2] = {0}, ps;
        vnpu_launch_config_t good = {.size = sizeof good, .grid = {1, 1}}, config = good;
        IS(vnpu_launch(add, NULL, args, 2), bad);
        config.size--;
        IS(vnpu_launch(add, &config, args, 2), bad);
        config = good;
        IS(vnpu_launch(add, &config, args, 1), bad);
        IS(vnpu_launch(add, &config, args, 3), bad);
        IS(vnpu_launch(add, &config, NULL, 2), bad);
        config.grid[1] = 0;
        IS(vnpu_launch(add, &config, args, 2), bad);
        config = good;
        config.core_mask = 4; /* two workers */
        IS(vnpu_launch(add, &config, args, 2), bad);
        cr_assert(strstr(detail(), "2 workers") != NULL, "%s", detail());
        config = good;
        config.stream = STALE;
        IS(vnpu_launch(add, &config, args, 2), VNPU_ERROR_INVALID_HANDLE);
        IS(vnpu_launch(add + 1, &good, args, 2), VNPU_ERROR_INVALID_HANDLE);
        IS(vnpu_program_time(add, &good, args, 2, NULL), bad);
        OK(vnpu_program_time(add, &good, args, 2, &ps));
        cr_assert_eq(ps, FAKE_BASE_PS);
        IS(vnpu_module_load(0, NULL, 1, &module), bad);
        IS(vnpu_module_load(0, args, 1, NULL), bad);
        IS(vnpu_module_load(0, args, sizeof args, &module), VNPU_ERROR_INVALID_IMAGE);
        cr_assert_eq(module, 0);
        vnpu_program_header_t header = {.magic = 1, .bytes = sizeof header};
        IS(vnpu_module_load(0, &header, sizeof header, &module), VNPU_ERROR_INVALID_IMAGE);
        cr_assert_str_eq(detail(), "fake program: bad magic or size");
        IS(vnpu_module_load_text(0, NULL, "x", &module), bad);
        IS(vnpu_module_load_text(0, ".program p\n.queue dma0\n nopp\n", "hello.s", &module),
           VNPU_ERROR_INVALID_VALUE);
        cr_assert(strncmp(detail(), "hello.s:3: ", 11) == 0, "%s", detail());
        IS(vnpu_module_unload(add + 1), VNPU_ERROR_INVALID_HANDLE);
        OK(vnpu_module_unload(add));
        IS(vnpu_module_unload(add), VNPU_ERROR_INVALID_HANDLE);
        OK(vnpu_shutdown());
    }
}

Test(driver, empty_work_is_fine) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        vnpu_addr_t address = 5;
        void *pointer = &address;
        OK(vnpu_mem_alloc(0, 0, &address));
        cr_assert_eq(address, 0);
        OK(vnpu_mem_free(0, 0));
        OK(vnpu_host_alloc(0, &pointer));
        cr_assert_null(pointer);
        OK(vnpu_memcpy_h2d(0, NULL, 0, 0, 0));
        OK(vnpu_memcpy_d2h(NULL, 0, 0, 0, 1));
        OK(vnpu_memcpy_d2d(0, 0, 0, 0));
        OK(vnpu_memset(0, 0, 4, 0, 0));
        OK(vnpu_stream_synchronize(0));
        OK(vnpu_stream_query(0));
        OK(vnpu_device_synchronize(0));
        OK(vnpu_shutdown());
        OK(vnpu_shutdown()); /* idempotent */
        IS(vnpu_mem_alloc(0, 1, &address), VNPU_ERROR_NOT_INITIALIZED);
    }
}

Test(driver, memset_of_every_width) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        vnpu_addr_t address;
        OK(vnpu_mem_alloc(0, 256, &address));
        for (uint32_t width = 1; width <= 8; width *= 2) {
            const uint64_t pattern = UINT64_C(0x8877665544332211);
            uint8_t data[256];
            OK(vnpu_memset(address, 0xee, 1, 256, 0));
            OK(vnpu_memset(address + 3, pattern, width, 20, 0));
            OK(vnpu_memcpy_d2h(data, address, 256, 0, 0));
            for (uint32_t i = 0; i < 256; i++) {
                bool is_inside = i >= 3 && i < 3 + 20 * width;
                uint64_t expected = is_inside ? pattern >> (i - 3) % width * 8 & 0xff : 0xee;
                cr_assert_eq(data[i], expected, "width %u byte %u", width, i);
            }
        }
        OK(vnpu_shutdown());
    }
}

Test(driver, memory_is_counted_and_runs_out) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        size_t free_bytes, total, now;
        vnpu_addr_t a, b, none = 1;
        OK(vnpu_mem_info(0, &free_bytes, &total));
        cr_assert_eq(total, FAKE_DRAM_BYTES);
        OK(vnpu_mem_alloc(0, 1000, &a));
        OK(vnpu_mem_alloc(0, FAKE_DRAM_BYTES / 2, &b));
        cr_assert_eq(a % 512, 0);
        OK(vnpu_mem_info(0, &now, &total));
        cr_assert_eq(now, free_bytes - 1024 - FAKE_DRAM_BYTES / 2);
        IS(vnpu_mem_alloc(0, FAKE_DRAM_BYTES, &none), VNPU_ERROR_OUT_OF_MEMORY);
        cr_assert_eq(none, 0);
        cr_assert(strstr(detail(), "dram.bytes") != NULL, "%s", detail());
        OK(vnpu_mem_free(0, a));
        OK(vnpu_mem_free(0, b));
        IS(vnpu_mem_free(0, a), VNPU_ERROR_INVALID_VALUE);
        OK(vnpu_mem_info(0, &now, &total));
        cr_assert_eq(now, free_bytes);
        OK(vnpu_device_synchronize(0)); /* an error of a call is no asynchronous one */
        OK(vnpu_shutdown());
    }
}

/* The virtual clock, call by call, against the fake chip's closed form. */
Test(driver, host_clock_and_events_follow_simulated_time) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        vnpu_module_t work = load("work", 1);
        vnpu_event_t before, after, never;
        uint64_t ps;
        double ms;
        OK(vnpu_event_create(0, &before));
        OK(vnpu_event_create(0, &after));
        OK(vnpu_event_create(0, &never));
        uint64_t clock = host_clock();
        OK(vnpu_event_record(before, 0));
        clock += FAKE_SUBMIT_PS;
        uint64_t start_ps = clock + FAKE_ARRIVAL_PS; /* the stream was empty */
        OK(launch(work, 0, (uint64_t[]){1000000}, 1));
        OK(launch(work, 0, (uint64_t[]){2000000}, 1));
        OK(vnpu_event_record(after, 0));
        clock += 2 * FAKE_LAUNCH_PS + FAKE_SUBMIT_PS;
        cr_assert_eq(host_clock(), clock);
        uint64_t launched =
            start_ps + FAKE_LAUNCH_PS; /* the first launch arrives later than the event ends */
        uint64_t end_ps = launched + 3000000;
        IS(vnpu_event_query(after), VNPU_ERROR_NOT_READY);
        IS(vnpu_stream_query(0), VNPU_ERROR_NOT_READY);
        clock += 2 * FAKE_QUERY_PS;
        IS(vnpu_event_elapsed_ms(before, after, &ms), VNPU_ERROR_NOT_READY);
        IS(vnpu_event_elapsed_ms(never, after, &ms), VNPU_ERROR_INVALID_VALUE);
        OK(vnpu_event_query(never));
        OK(vnpu_event_synchronize(never));
        clock += FAKE_QUERY_PS + FAKE_SYNC_PS;
        cr_assert_eq(host_clock(), clock);
        OK(vnpu_sim_host_advance(0, end_ps - clock - FAKE_QUERY_PS -
                                        1)); /* the query itself costs time */
        IS(vnpu_event_query(after), VNPU_ERROR_NOT_READY);
        OK(vnpu_sim_host_advance(0, 1));
        OK(vnpu_event_query(after));
        OK(vnpu_event_time_ps(before, &ps));
        cr_assert_eq(ps, start_ps);
        OK(vnpu_event_time_ps(after, &ps));
        cr_assert_eq(ps, end_ps);
        OK(vnpu_event_elapsed_ms(before, after, &ms));
        cr_assert_float_eq(ms, (double)(end_ps - start_ps) / 1e9, 1e-15);
        clock = host_clock();
        OK(vnpu_stream_synchronize(0));
        cr_assert_eq(host_clock(), clock + FAKE_SYNC_PS,
                     "nothing to wait for: the cost of the call alone");
        OK(launch(work, 0, (uint64_t[]){5000}, 1));
        OK(vnpu_event_record(after, 0));
        OK(vnpu_event_synchronize(after));
        cr_assert_eq(host_clock(), clock + FAKE_SYNC_PS + FAKE_LAUNCH_PS + FAKE_ARRIVAL_PS + 5000);
        OK(vnpu_shutdown());
    }
}

Test(driver, streams_order_their_work_and_events_order_streams) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        vnpu_module_t work = load("work", 1);
        vnpu_stream_t a, b;
        vnpu_event_t a_done, b_done;
        uint64_t a_ps, b_ps;
        OK(vnpu_stream_create(0, 0, &a));
        OK(vnpu_stream_create(0, 0, &b));
        OK(vnpu_event_create(0, &a_done));
        OK(vnpu_event_create(0, &b_done));
        OK(launch(work, a, (uint64_t[]){1000000}, 1));
        OK(vnpu_event_record(a_done, a));
        OK(vnpu_event_record(b_done, b)); /* independent: long before a's end */
        OK(vnpu_stream_synchronize(b));
        OK(vnpu_event_time_ps(b_done, &b_ps));
        IS(vnpu_event_query(a_done), VNPU_ERROR_NOT_READY);
        OK(vnpu_stream_wait_event(b, a_done));
        OK(vnpu_event_record(b_done, b));
        OK(vnpu_stream_synchronize(b));
        OK(vnpu_event_time_ps(a_done, &a_ps));
        cr_assert_lt(b_ps, a_ps);
        OK(vnpu_event_time_ps(b_done, &b_ps));
        cr_assert_eq(b_ps, a_ps);
        OK(launch(work, a, (uint64_t[]){1000}, 1));
        OK(vnpu_stream_destroy(a)); /* its work goes on */
        IS(vnpu_stream_query(a), VNPU_ERROR_INVALID_HANDLE);
        OK(vnpu_event_destroy(a_done));
        IS(vnpu_event_query(a_done), VNPU_ERROR_INVALID_HANDLE);
        uint64_t clock = host_clock();
        OK(vnpu_device_synchronize(0));
        cr_assert_gt(host_clock(), clock + FAKE_SYNC_PS,
                     "work of a destroyed stream is waited for");
        OK(vnpu_shutdown());
    }
}

#define MAX_CLOCKS 160u

/* Two streams with `program` on the second; every clock and event time on the way. */
static uint32_t clocks_of(const char *transport, const char *program, uint64_t *clock) {
    uint32_t n = 0;
    start(transport);
    vnpu_module_t work = load("work", 1), other = load(program, 1);
    vnpu_stream_t a, b;
    vnpu_event_t event[2];
    OK(vnpu_stream_create(0, 0, &a));
    OK(vnpu_stream_create(0, 0, &b));
    OK(vnpu_event_create(0, &event[0]));
    OK(vnpu_event_create(0, &event[1]));
    OK(launch(work, a, (uint64_t[]){1000000}, 1));
    OK(vnpu_event_record(event[0], a));
    OK(launch(other, b, (uint64_t[]){3000000}, 1));
    OK(vnpu_event_record(event[1], b));
    IS(vnpu_stream_query(b), VNPU_ERROR_NOT_READY);
    IS(vnpu_event_query(event[1]), VNPU_ERROR_NOT_READY);
    OK(vnpu_stream_synchronize(a));
    clock[n++] = host_clock();
    OK(vnpu_event_synchronize(event[1]));
    clock[n++] = host_clock();
    for (uint32_t i = 0; i < FAKE_DEPTH + 20; i++) { /* a full stream waits in simulated time */
        OK(launch(i % 3 == 0 ? other : work, b, (uint64_t[]){10000 + i}, 1));
        if (i % 10 == 0) OK(launch(work, a, (uint64_t[]){7}, 1));
        clock[n++] = host_clock();
    }
    OK(vnpu_device_synchronize(0));
    clock[n++] = host_clock();
    for (uint32_t i = 0; i < 2; i++)
        OK(vnpu_event_time_ps(event[i], &clock[n++]));
    OK(vnpu_shutdown());
    return n;
}

Test(driver, times_that_the_chip_tells_late_are_asked_for) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        uint64_t known[MAX_CLOCKS], asked[MAX_CLOCKS];
        uint32_t n = clocks_of(transports[t], "work", known);
        cr_assert_eq(clocks_of(transports[t], "late", asked), n);
        for (uint32_t i = 0; i < n; i++) {
            cr_assert_eq(asked[i], known[i], "clock %u", i);
        }
    }
}

Test(driver, cores_of_a_stream_are_checked) {
    start("inproc");
    vnpu_stream_t stream;
    OK(vnpu_stream_create(0, 0, &stream));
    OK(vnpu_stream_set_cores(stream, 2));
    OK(vnpu_stream_set_cores(0, 3));
    OK(vnpu_stream_set_cores(0, 0));
    IS(vnpu_stream_set_cores(stream, 4), VNPU_ERROR_INVALID_VALUE);
    cr_assert(strstr(detail(), "0x4 names other cores than the 2 workers") != NULL, "%s", detail());
    OK(vnpu_stream_destroy(stream));
    IS(vnpu_stream_set_cores(stream, 1), VNPU_ERROR_INVALID_HANDLE);
    OK(vnpu_shutdown());
}

Test(driver, handles_of_the_past_are_stale) {
    start("inproc");
    vnpu_stream_t stream, again;
    vnpu_event_t event;
    OK(vnpu_stream_create(0, 0, &stream));
    OK(vnpu_event_create(0, &event));
    vnpu_module_t module = load("work", 1);
    IS(vnpu_stream_destroy(event), VNPU_ERROR_INVALID_HANDLE); /* of another kind */
    OK(vnpu_stream_destroy(stream));
    for (int i = 0; i < 1000; i++) {
        OK(vnpu_stream_create(0, 0, &again));
        cr_assert_neq(again, stream);
        OK(vnpu_stream_destroy(again));
    }
    OK(vnpu_shutdown());
    start("inproc");
    IS(vnpu_event_query(event), VNPU_ERROR_INVALID_HANDLE);
    IS(vnpu_module_unload(module), VNPU_ERROR_INVALID_HANDLE);
    cr_assert_eq(host_clock(), 0);
    OK(vnpu_shutdown());
}

Test(driver, a_fault_is_sticky_until_reset) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        const vnpu_status_t fault = VNPU_ERROR_ILLEGAL_ADDRESS;
        vnpu_module_t bad = load("fault", 0), work = load("work", 1);
        vnpu_event_t event;
        vnpu_addr_t address, none;
        vnpu_stream_t stream;
        uint8_t byte;
        OK(vnpu_event_create(0, &event));
        OK(vnpu_mem_alloc(0, 1, &address));
        OK(vnpu_memset(address, 42, 1, 1, 0));
        OK(launch(work, 0, (uint64_t[]){1}, 1));
        OK(vnpu_event_record(event, 0));
        OK(launch(bad, 0, NULL, 0));
        OK(launch(work, 0, (uint64_t[]){1}, 1)); /* nobody has waited: nobody was told */
        OK(vnpu_event_synchronize(event));       /* what was before it is not its fault */
        IS(vnpu_device_synchronize(0), fault);
        cr_assert_str_eq(detail(), "fake fault: core 0, queue dma0, insn 3");
        IS(vnpu_device_synchronize(0), fault);
        IS(launch(work, 0, (uint64_t[]){1}, 1), fault);
        IS(vnpu_memcpy_d2h(&byte, address, 1, 0, 0), fault);
        IS(vnpu_memset(address, 0, 1, 1, 0), fault);
        IS(vnpu_mem_alloc(0, 1, &none), fault);
        IS(vnpu_stream_create(0, 0, &stream), fault);
        IS(vnpu_event_query(event), fault);
        cr_assert_str_eq(detail(), "fake fault: core 0, queue dma0, insn 3");
        OK(vnpu_device_reset(0));
        OK(vnpu_memcpy_d2h(&byte, address, 1, 0, 0));
        cr_assert_eq(byte, 42, "memory stays");
        OK(vnpu_device_synchronize(0));
        /* each kind of synchronizing call reports */
        OK(launch(bad, 0, NULL, 0));
        IS(vnpu_memcpy_d2h(&byte, address, 1, 0, 0), fault);
        OK(vnpu_device_reset(0));
        OK(launch(bad, 0, NULL, 0));
        IS(vnpu_stream_synchronize(0), fault);
        IS(vnpu_mem_free(0, address), fault); /* and it is freed */
        OK(vnpu_device_reset(0));
        IS(vnpu_mem_free(0, address), VNPU_ERROR_INVALID_VALUE);
        OK(launch(bad, 0, NULL, 0));
        OK(vnpu_event_record(event, 0));
        IS(vnpu_event_query(event), fault);
        OK(vnpu_device_reset(0));
        OK(launch(bad, 0, NULL, 0));
        IS(vnpu_stream_query(0), fault);
        OK(vnpu_device_reset(0));
        OK(launch(bad, 0, NULL, 0));
        IS(vnpu_shutdown(), fault); /* never reported to anyone */
        start(transports[t]);
        OK(vnpu_device_synchronize(0));
        OK(vnpu_shutdown());
    }
}

Test(driver, tells_about_itself) {
    int count = 0;
    OK(vnpu_device_count(&count)); /* starts nothing */
    cr_assert_eq(count, 1);
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        vnpu_machine_t machine;
        const char *text;
        int64_t pid = -1;
        OK(vnpu_init(0));
        OK(vnpu_device_machine(0, &machine));
        cr_assert_eq(machine.size, sizeof machine);
        cr_assert_str_eq(machine.name, "fake");
        OK(vnpu_sim_config_text(0, &text));
        cr_assert_str_eq(text, "[chip]\nname = fake\n");
        OK(vnpu_sim_device_pid(0, &pid));
        uint64_t stream, random;
        OK(vnpu_sim_memory_rate(0, &stream, &random));
        cr_assert(stream == FAKE_STREAM_RATE && random == FAKE_RANDOM_RATE);
        cr_assert_eq(pid > 0, t == 0);
        OK(vnpu_shutdown());
    }
    cr_assert_str_eq(vnpu_status_name(VNPU_ERROR_ILLEGAL_ADDRESS), "VNPU_ERROR_ILLEGAL_ADDRESS");
    cr_assert_str_eq(vnpu_status_name((vnpu_status_t)60), "VNPU_ERROR_UNKNOWN");
    char text[8];
    IS(vnpu_init(7), VNPU_ERROR_INVALID_VALUE);
    cr_assert_eq(vnpu_error_detail(text, sizeof text), strlen("vnpu_init: flags must be 0"));
    cr_assert_str_eq(text, "vnpu_in");
    cr_assert_eq(vnpu_error_detail(NULL, 0), strlen("vnpu_init: flags must be 0"));
}

/* The first call that needs the device starts it. */
Test(driver, starts_by_itself) {
    setenv("VNPU_TRANSPORT", "inproc", 1);
    setenv("VNPU_DEVICE_LIBRARY", FAKE_LIBRARY, 1);
    vnpu_addr_t address;
    OK(vnpu_mem_alloc(0, 10, &address));
    OK(vnpu_shutdown());
}

/* A stray host access to a device address faults at once, in a process of its own. */
Test(driver, device_addresses_cannot_be_touched) {
    start("inproc");
    vnpu_addr_t address;
    OK(vnpu_mem_alloc(0, 4096, &address));
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    bool is_reserved = false;
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long low, high;
        char rights[8];
        if (sscanf(line, "%lx-%lx %7s", &low, &high, rights) == 3 && low <= address &&
            address < high) {
            is_reserved = strcmp(rights, "---p") == 0;
        }
    }
    fclose(maps);
    cr_assert(is_reserved, "0x%lx is not reserved", (unsigned long)address);
    OK(vnpu_shutdown());
}

/* Symbols that leave the libraries, as nm tells them: nothing of ours may interpose, nothing else
 * may leak. */
static void check_exports(const char *library, const char *prefix, int at_least) {
    char command[512], line[512], name[256], kind[8];
    snprintf(command, sizeof command, "nm -D --defined-only %s", library);
    FILE *pipe = popen(command, "re");
    int count = 0;
    while (fgets(line, sizeof line, pipe) != NULL) {
        cr_assert_eq(sscanf(line, "%*s %7s %255s", kind, name), 2, "%s", line);
        cr_assert_eq(strncmp(name, prefix, strlen(prefix)), 0, "%s exports %s", library, name);
        cr_assert(strncmp(name, "vnpu__", 6) != 0, "%s exports the internal %s", library, name);
        count++;
    }
    cr_assert_eq(pclose(pipe), 0);
    cr_assert_geq(count, at_least, "%s", library);
}

Test(driver, libraries_export_nothing_but_their_interface) {
    check_exports(VNPU_LIBRARY, "vnpu_", 40);
    check_exports(DEVICE_LIBRARY, "vnpu_device_table", 1);
}
