/* What must be the same through either transport: bytes, times, orders, limits. */
#include "tests/driver/driver_test.h"

#include <pthread.h>

#define MIB (1024u * 1024u)

static void fill_pattern(uint8_t *data, size_t bytes, uint32_t seed) {
    uint32_t x = seed * 2654435761u + 1;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = (uint8_t)(x >> 24);
    }
}

Test(transport, copies_of_every_size_come_back) {
    static const size_t sizes[] = {1,
                                   3,
                                   8,
                                   24,
                                   25,
                                   63,
                                   64,
                                   65,
                                   4095,
                                   4097,
                                   512 * 1024 - 1,
                                   512 * 1024,
                                   512 * 1024 + 1,
                                   2 * MIB,
                                   2 * MIB + 7,
                                   7 * MIB + 13};
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            vnpu_addr_t address, copy;
            OK(vnpu_mem_alloc(0, sizes[i] + 5, &address));
            OK(vnpu_mem_alloc(0, sizes[i], &copy));
            uint8_t *out = malloc(sizes[i]), *back = calloc(1, sizes[i]);
            fill_pattern(out, sizes[i], (uint32_t)i);
            OK(vnpu_memcpy_h2d(address + 5, out, sizes[i], 0, 0));
            uint8_t *kept = malloc(sizes[i]);
            memcpy(kept, out, sizes[i]);
            memset(out, 0, sizes[i]); /* pageable: read before the call returned */
            OK(vnpu_memcpy_d2d(copy, address + 5, sizes[i], 0));
            OK(vnpu_memcpy_d2h(back, copy, sizes[i], 0, 0));
            cr_assert_eq(memcmp(kept, back, sizes[i]), 0, "%zu bytes, %s", sizes[i], transports[t]);
            OK(vnpu_mem_free(0, address));
            OK(vnpu_mem_free(0, copy));
            free(out), free(back), free(kept);
        }
        OK(vnpu_shutdown());
    }
}

Test(transport, pinned_copies_are_asynchronous_and_right) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        const size_t bytes = 3 * MIB + 11;
        uint8_t *in, *out;
        OK(vnpu_host_alloc(bytes + 100, (void **)&in));
        OK(vnpu_host_alloc(bytes, (void **)&out));
        int is_pinned = 0;
        OK(vnpu_host_is_pinned(in + bytes, &is_pinned));
        cr_assert_eq(is_pinned, 1);
        OK(vnpu_host_is_pinned(&is_pinned, &is_pinned));
        cr_assert_eq(is_pinned, 0);
        fill_pattern(in, bytes + 100, 3);
        vnpu_addr_t address;
        OK(vnpu_mem_alloc(0, bytes, &address));
        for (int non_blocking = 0; non_blocking <= 1; non_blocking++) {
            memset(out, 0, bytes);
            OK(vnpu_memcpy_h2d(address, in + 100, bytes, 0, non_blocking));
            uint64_t before = host_clock();
            OK(vnpu_memcpy_d2h(out, address, bytes, 0, non_blocking));
            /* non-blocking: no wait in simulated time, either */
            cr_assert_eq(host_clock() == before + FAKE_SUBMIT_PS, non_blocking == 1, "%s",
                         transports[t]);
            OK(vnpu_device_synchronize(0));
            cr_assert_eq(memcmp(in + 100, out, bytes), 0, "%s", transports[t]);
        }
        OK(vnpu_memcpy_d2h(out, address, 4 * 1024, 0, 1));
        OK(vnpu_host_free(out)); /* with a copy under way */
        OK(vnpu_host_free(in));
        OK(vnpu_host_free(NULL));
        IS(vnpu_host_free(&address), VNPU_ERROR_INVALID_VALUE);
        OK(vnpu_shutdown());
    }
}

/* A mixed sequence of calls; returns a fold of every simulated time that it saw. */
static uint64_t observe_times(void) {
    vnpu_stream_t a, b;
    vnpu_event_t e[3];
    OK(vnpu_stream_create(0, 0, &a));
    OK(vnpu_stream_create(0, -1, &b));
    for (int i = 0; i < 3; i++) {
        OK(vnpu_event_create(0, &e[i]));
    }
    vnpu_module_t work = load("work", 1);
    vnpu_addr_t address;
    OK(vnpu_mem_alloc(0, MIB, &address));
    uint64_t fold = 0;
    uint8_t data[1000] = {1};
    for (uint64_t i = 0; i < 300; i++) {
        OK(vnpu_event_record(e[0], a));
        OK(launch(work, i % 3 ? a : b, (uint64_t[]){1000 + i * 37}, 1));
        OK(vnpu_event_record(e[1], a));
        OK(vnpu_stream_wait_event(b, e[1]));
        OK(vnpu_memset(address, i, 4, 100 + i, b));
        OK(vnpu_event_record(e[2], b));
        vnpu_status_t ready = vnpu_event_query(e[i % 3]);
        cr_assert(ready == VNPU_OK || ready == VNPU_ERROR_NOT_READY);
        fold = fold * 31 + (uint64_t)ready;
        if (i % 7 == 0) {
            OK(vnpu_memcpy_d2h(data, address, sizeof data, a, 0));
        }
        if (i % 11 == 0) {
            OK(vnpu_stream_synchronize(b));
        }
        fold = fold * 31 + host_clock();
    }
    OK(vnpu_device_synchronize(0));
    for (int i = 0; i < 3; i++) {
        uint64_t ps;
        OK(vnpu_event_time_ps(e[i], &ps));
        fold = fold * 31 + ps;
    }
    return fold * 31 + host_clock();
}

Test(transport, simulated_time_is_the_same_everywhere) {
    uint64_t fold[TRANSPORTS * 2];
    for (size_t i = 0; i < TRANSPORTS * 2; i++) {
        start(transports[i % TRANSPORTS]);
        fold[i] = observe_times();
        OK(vnpu_shutdown());
        cr_assert_eq(fold[i], fold[0], "run %zu, %s", i, transports[i % TRANSPORTS]);
    }
}

/* More launches than rings, completions and the stream's depth hold; the depth shows in the host
 * clock. */
Test(transport, ten_thousand_queued_launches) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        vnpu_module_t work = load("work", 1), add = load("add1", 2);
        vnpu_addr_t address;
        OK(vnpu_mem_alloc(0, 400, &address));
        OK(vnpu_memset(address, 0, 4, 100, 0));
        OK(vnpu_device_synchronize(0));
        uint64_t start_ps = host_clock();
        for (int i = 0; i < 10000; i++) {
            OK(launch(work, 0, (uint64_t[]){1000000}, 1));
        }
        uint64_t queued_ps = host_clock();
        OK(vnpu_device_synchronize(0));
        uint64_t end_ps = host_clock();
        uint64_t first =
            start_ps + FAKE_LAUNCH_PS + FAKE_ARRIVAL_PS; /* start of the first launch */
        cr_assert_eq(end_ps, first + UINT64_C(10000) * 1000000, "%s", transports[t]);
        /* Launch n is submitted when n - depth has ended. */
        cr_assert_eq(queued_ps, first + (uint64_t)(10000 - FAKE_DEPTH) * 1000000, "%s",
                     transports[t]);
        for (int i = 0; i < 10000; i++) {
            OK(launch(add, 0, (uint64_t[]){address, 100}, 2));
        }
        uint32_t value[100];
        OK(vnpu_memcpy_d2h(value, address, sizeof value, 0, 0));
        cr_assert_eq(value[0], 10000);
        cr_assert_eq(value[99], 10000);
        OK(vnpu_shutdown());
    }
}

Test(transport, launches_with_every_number_of_arguments) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        vnpu_addr_t address;
        OK(vnpu_mem_alloc(0, 4, &address));
        OK(vnpu_memset(address, 0, 4, 1, 0));
        uint32_t value = 0, expected = 0;
        for (uint16_t n = 2; n <= 32; n++) {
            uint64_t args[32] = {address, 1};
            vnpu_module_t add = load("add1", n);
            for (int i = 0; i < 300; i++) { /* packets of every size cross the end of the ring */
                OK(launch(add, 0, args, n));
                expected++;
            }
            OK(vnpu_module_unload(add));
            IS(launch(add, 0, args, n), VNPU_ERROR_INVALID_HANDLE);
        }
        OK(vnpu_memcpy_d2h(&value, address, 4, 0, 0));
        cr_assert_eq(value, expected, "%s", transports[t]);
        OK(vnpu_shutdown());
    }
}

typedef struct worker {
    pthread_t thread;
    vnpu_module_t add;
    int index;
    uint32_t bad;
} worker_t;

static void *work_in_thread(void *opaque) {
    worker_t *worker = opaque;
    vnpu_stream_t stream;
    vnpu_addr_t address;
    uint32_t *data = malloc(MIB), count = MIB / 4;
    if (vnpu_stream_create(0, 0, &stream) != VNPU_OK ||
        vnpu_mem_alloc(0, MIB, &address) != VNPU_OK) {
        worker->bad++;
    }
    for (uint32_t round = 0; round < 20 && worker->bad == 0; round++) {
        for (uint32_t i = 0; i < count; i++) {
            data[i] = round * 1000 + (uint32_t)worker->index + i;
        }
        bool is_ok = vnpu_memcpy_h2d(address, data, MIB, stream, 0) == VNPU_OK;
        for (int i = 0; i < 50 && is_ok; i++) {
            is_ok = launch(worker->add, stream, (uint64_t[]){address, count / 64}, 2) == VNPU_OK;
        }
        is_ok = is_ok && vnpu_memcpy_d2h(data, address, MIB, stream, 0) == VNPU_OK;
        for (uint32_t i = 0; i < count && is_ok; i++) {
            is_ok =
                data[i] == round * 1000 + (uint32_t)worker->index + i + (i < count / 64 ? 50 : 0);
        }
        worker->bad += !is_ok;
    }
    free(data);
    return NULL;
}

Test(transport, threads_share_a_device) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        worker_t worker[4];
        vnpu_module_t add = load("add1", 2);
        for (int i = 0; i < 4; i++) {
            worker[i] = (worker_t){.add = add, .index = i * 7};
            cr_assert_eq(pthread_create(&worker[i].thread, NULL, work_in_thread, &worker[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(worker[i].thread, NULL);
            cr_assert_eq(worker[i].bad, 0, "thread %d, %s: %s", i, transports[t], detail());
        }
        OK(vnpu_shutdown());
    }
}

Test(transport, blobs_larger_than_a_chunk) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        const void *blob;
        size_t bytes;
        OK(vnpu_profile_begin(0, 1));
        OK(vnpu_profile_end(0, &blob, &bytes));
        cr_assert_eq(bytes, FAKE_PROFILE_BYTES);
        const uint8_t *data = blob;
        for (uint64_t i = 0; i < bytes; i++) {
            cr_assert_eq(data[i], (uint8_t)(i * 7 + i / 251), "byte %lu", (unsigned long)i);
        }
        OK(vnpu_shutdown());
    }
}

/* A module of several chunks, between chunks of copies. */
Test(transport, large_module) {
    for (size_t t = 0; t < TRANSPORTS; t++) {
        start(transports[t]);
        vnpu_program_header_t header = {
            .magic = VNPU_ISA_MAGIC, .bytes = 1300 * 1024 + 3, .num_args = 1, .name = "work"};
        uint8_t *image = calloc(1, header.bytes);
        memcpy(image, &header, sizeof header);
        vnpu_module_t module;
        OK(vnpu_module_load(0, image, header.bytes, &module));
        OK(launch(module, 0, (uint64_t[]){5}, 1));
        IS(vnpu_module_load(0, image, header.bytes - 1, &module), VNPU_ERROR_INVALID_IMAGE);
        cr_assert(strstr(detail(), "bad magic or size") != NULL, "%s", detail());
        OK(vnpu_device_synchronize(0));
        free(image);
        OK(vnpu_shutdown());
    }
}
