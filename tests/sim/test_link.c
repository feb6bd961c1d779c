#include <criterion/criterion.h>

#include "sim/sim_link.h"
#include "tests/sim/units.h"

Test(link, closed_form) {
    sim_link_spec_t spec = {.bytes_per_s = 32 * GHZ,
                            .latency_ps = 500000,
                            .setup_ps = 300000,
                            .payload_bytes = 256,
                            .header_bytes = 24};
    cr_assert_eq(sim_link_transfer_ps(&spec, 0), 800000);
    /* 1 byte: 25 on the wire at 31.25 ps, rounded up */
    cr_assert_eq(sim_link_transfer_ps(&spec, 1), 800000 + 782);
    cr_assert_eq(sim_link_transfer_ps(&spec, 256), 800000 + 8750);
    cr_assert_eq(sim_link_transfer_ps(&spec, 257), 800000 + 9532); /* 305 bytes: 9531.25 */
    /* a gibibyte: header overhead 24/256 */
    uint64_t wire = (UINT64_C(1) << 30) / 256 * 280;
    cr_assert_eq(sim_link_transfer_ps(&spec, UINT64_C(1) << 30), 800000 + wire * 125 / 4);
    /* an exbibyte does not overflow on the way */
    spec.bytes_per_s = 1000000 * GHZ;
    spec.header_bytes = 0;
    cr_assert_eq(sim_link_transfer_ps(&spec, UINT64_C(1) << 60),
                 800000 + ((UINT64_C(1) << 60) + 999) / 1000);
}

Test(link, spec_comes_from_the_config) {
    sim_config_t *config =
        config_new("default", "link.bandwidth=64GB/s,link.latency=1us,link.setup=2us,"
                              "link.payload_bytes=128B,link.header_bytes=16B");
    sim_link_spec_t spec;
    cr_assert_eq(sim_link_spec_from_config(config, &spec), SIM_OK);
    cr_assert_eq(sim_link_transfer_ps(&spec, 128), 3000000 + 2250);
    sim_config_destroy(config);
}
