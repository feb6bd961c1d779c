/* Helpers of the driver's tests: which chip and transport, statuses with their texts, programs of
 * the fake chip. */
#ifndef DRIVER_TEST_H
#define DRIVER_TEST_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "device/vnpu_isa.h"
#include "driver/vnpu.h"
#include "driver/vnpu_sim.h"
#include "tests/driver/fake_chip.h"

static inline const char *detail(void) {
    static char text[2048];
    vnpu_error_detail(text, sizeof text);
    return text;
}

#define IS(call, expected)                                                                         \
    do {                                                                                           \
        vnpu_status_t is_ = (call), wanted_ = (expected);                                          \
        cr_assert_eq(is_, wanted_, "%s: %s instead of %s: %s", #call, vnpu_status_name(is_),       \
                     vnpu_status_name(wanted_), detail());                                         \
    } while (0)
#define OK(call) IS(call, VNPU_OK)

static const char *const transports[] = {"process", "inproc"};
#define TRANSPORTS (sizeof transports / sizeof transports[0])

/* The fake chip behind the transport, freshly started. */
static inline void start(const char *transport) {
    setenv("VNPU_TRANSPORT", transport, 1);
    setenv("VNPU_DAEMON", FAKE_DAEMON, 1);
    setenv("VNPU_DEVICE_LIBRARY", FAKE_LIBRARY, 1);
    OK(vnpu_init(0));
}

static inline vnpu_module_t load(const char *name, uint16_t num_args) {
    vnpu_program_header_t header = {.magic = VNPU_ISA_MAGIC,
                                    .version = VNPU_ISA_VERSION,
                                    .bytes = sizeof header,
                                    .num_args = num_args};
    strcpy(header.name, name);
    vnpu_module_t module;
    OK(vnpu_module_load(0, &header, sizeof header, &module));
    return module;
}

static inline vnpu_status_t launch(vnpu_module_t module, vnpu_stream_t stream, const uint64_t *args,
                                   uint32_t num_args) {
    vnpu_launch_config_t config = {.size = sizeof config, .grid = {1, 1}, .stream = stream};
    return vnpu_launch(module, &config, args, num_args);
}

static inline uint64_t host_clock(void) {
    uint64_t ps = 0;
    OK(vnpu_sim_host_clock(0, &ps));
    return ps;
}

#endif
