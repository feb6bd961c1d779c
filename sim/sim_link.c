#include "sim/sim_link.h"

#define PS_PER_S UINT64_C(1000000000000)

__extension__ typedef unsigned __int128 wide_t;

sim_status_t sim_link_spec_from_config(const sim_config_t *config, sim_link_spec_t *out_spec) {
    *out_spec = (sim_link_spec_t){
        .bytes_per_s = sim_config_u64(config, "link.bandwidth"),
        .latency_ps = sim_config_u64(config, "link.latency"),
        .setup_ps = sim_config_u64(config, "link.setup"),
        .payload_bytes = (uint32_t)sim_config_u64(config, "link.payload_bytes"),
        .header_bytes = (uint32_t)sim_config_u64(config, "link.header_bytes"),
    };
    bool is_valid = out_spec->bytes_per_s > 0 && out_spec->payload_bytes > 0;
    return is_valid ? SIM_OK : SIM_ERROR_INVALID_VALUE;
}

uint64_t sim_link_transfer_ps(const sim_link_spec_t *spec, uint64_t bytes) {
    uint64_t packets = bytes / spec->payload_bytes + (bytes % spec->payload_bytes != 0);
    wide_t wire = (wide_t)packets * spec->header_bytes + bytes;
    wide_t wire_ps = (wire * PS_PER_S + spec->bytes_per_s - 1) / spec->bytes_per_s;
    return spec->setup_ps + spec->latency_ps + (uint64_t)wire_ps;
}
