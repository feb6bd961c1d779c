/*
 * Host link (PCIe-like), full duplex: a transfer of n bytes in one direction takes latency + n /
 * bandwidth, in packets of payload_bytes with header_bytes overhead; transfers of one direction are
 * served in order.
 */
#ifndef SIM_LINK_H
#define SIM_LINK_H

#include "sim/sim_config.h"
#include "sim/sim_event.h"

typedef struct sim_link_spec {
    uint64_t bytes_per_s, latency_ps, setup_ps; /* setup: copy engine descriptor */
    uint32_t payload_bytes, header_bytes;
} sim_link_spec_t;
sim_status_t sim_link_spec_from_config(const sim_config_t *config,
                                       sim_link_spec_t *out_spec) SIM_MUST_USE;
/* Duration of one transfer on an idle direction, picoseconds (integers, rounded up): setup +
 * latency + wire bytes / rate. */
uint64_t sim_link_transfer_ps(const sim_link_spec_t *spec, uint64_t bytes);

#endif
