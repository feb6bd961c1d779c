/*
 * Four threads and every kind of call on one device, as a plain program: Criterion cannot run under
 * ThreadSanitizer. The argument is the transport. Ends with status 1 on the first wrong byte or
 * unexpected status.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/vnpu_isa.h"
#include "driver/vnpu.h"

#define THREADS 4
#define ROUNDS  25
#define BYTES   700000u

static void check(vnpu_status_t status, const char *call) {
    if (status != VNPU_OK && status != VNPU_ERROR_NOT_READY) {
        char text[2048];
        vnpu_error_detail(text, sizeof text);
        fprintf(stderr, "driver_stress: %s: %s: %s\n", call, vnpu_status_name(status), text);
        exit(1);
    }
}
#define TRY(call) check(call, #call)

static vnpu_module_t work;

static void one_round(uint8_t *data, void *pinned, vnpu_addr_t address, vnpu_stream_t stream,
                      vnpu_event_t event, int round) {
    vnpu_launch_config_t config = {.size = sizeof config, .grid = {1, 1}, .stream = stream};
    const uint64_t args[] = {1000};
    for (int i = 0; i < 100; i++) {
        TRY(vnpu_launch(work, &config, args, 1));
    }
    memset(data, round, BYTES);
    TRY(vnpu_memcpy_h2d(address, data, BYTES, stream, 0));
    TRY(vnpu_event_record(event, stream));
    TRY(vnpu_event_query(event));
    TRY(vnpu_memcpy_d2h(pinned, address, 1000, stream, 1));
    memset(data, 0xff, BYTES);
    TRY(vnpu_memcpy_d2h(data, address, BYTES, stream, 0));
    TRY(vnpu_event_synchronize(event));
    TRY(vnpu_stream_synchronize(stream));
    TRY(vnpu_stream_query(stream));
    for (uint32_t i = 0; i < BYTES; i++) {
        if (data[i] != round || (i < 1000 && ((uint8_t *)pinned)[i] != round)) {
            fprintf(stderr, "driver_stress: byte %u is wrong in round %d\n", i, round);
            exit(1);
        }
    }
}

static void *run(void *unused) {
    vnpu_stream_t stream;
    vnpu_event_t event;
    vnpu_addr_t address;
    void *pinned;
    uint8_t *data = malloc(BYTES);
    for (int round = 0; round < ROUNDS; round++) { /* objects come and go with the rest */
        TRY(vnpu_stream_create(0, 0, &stream));
        TRY(vnpu_event_create(0, &event));
        TRY(vnpu_mem_alloc(0, BYTES, &address));
        TRY(vnpu_host_alloc(1000, &pinned));
        one_round(data, pinned, address, stream, event, round);
        TRY(vnpu_host_free(pinned));
        TRY(vnpu_mem_free(0, address));
        TRY(vnpu_event_destroy(event));
        TRY(vnpu_stream_destroy(stream));
    }
    free(data);
    return unused;
}

int main(int argc, char **argv) {
    setenv("VNPU_TRANSPORT", argc > 1 ? argv[1] : "process", 1);
    setenv("VNPU_DAEMON", FAKE_DAEMON, 1);
    setenv("VNPU_DEVICE_LIBRARY", FAKE_LIBRARY, 1);
    vnpu_program_header_t header = {
        .magic = VNPU_ISA_MAGIC, .bytes = sizeof header, .num_args = 1, .name = "work"};
    TRY(vnpu_module_load(0, &header, sizeof header, &work));
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&thread[i], NULL, run, NULL) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    TRY(vnpu_shutdown());
    printf("driver_stress: %d threads, %d rounds each\n", THREADS, ROUNDS);
    return 0;
}
