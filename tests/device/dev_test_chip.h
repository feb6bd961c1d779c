/* A chip with one client, driven packet by packet: shared by the tests of the chip. Host clocks are
 * the test's: `clock` goes with every packet. */
#ifndef DEV_TEST_CHIP_H
#define DEV_TEST_CHIP_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev_asm.h"
#include "device/dev_chip.h"

typedef struct bench {
    sim_config_t *config;
    dev_chip_t *chip;
    uint32_t client;
    uint64_t seq, clock;
} bench_t;

/* On a configuration that the bench then owns. */
static inline void bench_start(bench_t *bench, sim_config_t *config, dev_chip_options_t options) {
    sim_error_t err = {0};
    *bench = (bench_t){.config = config};
    cr_assert_eq(dev_chip_create(config, &options, &bench->chip, &err), SIM_OK, "%s", err.text);
    cr_assert_eq(dev_chip_client_open(bench->chip, &bench->client), SIM_OK);
}

/* On the tiny chip. overrides may be NULL. */
static inline void bench_open(bench_t *bench, const char *overrides, dev_chip_options_t options) {
    sim_error_t err = {0};
    sim_config_t *config;
    cr_assert_eq(sim_config_load(VNPU_SOURCE_DIR "/configs/tiny.ini", overrides, &config, &err),
                 SIM_OK, "%s", err.text);
    bench_start(bench, config, options);
}

static inline void bench_close(bench_t *bench) {
    dev_chip_client_close(bench->chip, bench->client);
    dev_chip_destroy(bench->chip);
    sim_config_destroy(bench->config);
}

/* Behind everything before it. */
static inline vnpu_completion_t bench_send(bench_t *bench, vnpu_packet_t *packet, const void *in,
                                           void *out) {
    vnpu_completion_t completion;
    packet->seq = ++bench->seq;
    packet->host_clock_ps = bench->clock;
    packet->flags = (uint8_t)(packet->flags | VNPU_PACKET_BARRIER);
    if (packet->slots == 0) packet->slots = 1;
    dev_chip_execute(bench->chip, bench->client, packet, in, out, &completion);
    cr_assert_eq(completion.seq, packet->seq);
    return completion;
}

static inline vnpu_completion_t bench_mem(bench_t *bench, vnpu_packet_type_t type, uint64_t address,
                                          uint64_t bytes) {
    vnpu_packet_t packet = {.type = (uint8_t)type};
    packet.u.mem.address = address;
    packet.u.mem.bytes = bytes;
    return bench_send(bench, &packet, NULL, NULL);
}

static inline vnpu_completion_t bench_copy(bench_t *bench, vnpu_packet_type_t type, uint64_t device,
                                           void *host, uint64_t bytes) {
    vnpu_packet_t packet = {.type = (uint8_t)type};
    packet.u.copy = (vnpu_packet_copy_t){.device = device, .bytes = bytes, .total = bytes};
    bool is_in = type == VNPU_PACKET_COPY_H2D;
    return bench_send(bench, &packet, is_in ? host : NULL, is_in ? NULL : host);
}

/* Assembles, and loads: value[0] of a completion without error is the module. */
static inline vnpu_completion_t bench_load(bench_t *bench, const char *text) {
    sim_error_t err = {0};
    void *image;
    size_t bytes;
    cr_assert_eq(dev_asm_assemble(text, "test", &image, &bytes, &err), SIM_OK, "%s", err.text);
    vnpu_packet_t packet = {.type = VNPU_PACKET_MODULE_LOAD};
    packet.u.copy = (vnpu_packet_copy_t){.bytes = bytes, .total = bytes};
    vnpu_completion_t completion = bench_send(bench, &packet, image, NULL);
    free(image);
    return completion;
}

/* num_args at most VNPU_PACKET_ARGS; zero cores: any. */
static inline vnpu_completion_t bench_launch(bench_t *bench, vnpu_packet_kernel_t kernel,
                                             const uint64_t *args) {
    vnpu_packet_t packet[2] = {{.type = VNPU_PACKET_KERNEL, .slots = kernel.num_args > 0 ? 2 : 1}};
    packet[0].u.kernel = kernel;
    cr_assert_leq(kernel.num_args * sizeof *args, sizeof packet[1]);
    if (kernel.num_args > 0) memcpy(&packet[1], args, kernel.num_args * sizeof *args);
    return bench_send(bench, packet, NULL, NULL);
}

static inline void bench_read(bench_t *bench, vnpu_blob_t blob, uint64_t bytes, void *out) {
    vnpu_packet_t read = {.type = VNPU_PACKET_BLOB_READ};
    read.u.copy = (vnpu_packet_copy_t){.device = blob, .bytes = bytes, .total = bytes};
    cr_assert_eq(bench_send(bench, &read, NULL, out).status, SIM_OK);
}

#endif
