/* A DMA engine as the configuration describes it. */
#include "sim/sim_dma.h"

sim_status_t sim_dma_spec_from_config(const sim_config_t *config, sim_dma_spec_t *out_spec) {
    *out_spec = (sim_dma_spec_t){
        .accumulator_bytes_per_cycle =
            (uint32_t)sim_config_u64(config, "dma.accumulator_bytes_per_cycle"),
        .accumulator_word_bytes = (uint32_t)sim_config_u64(config, "acc.word_bytes"),
        .bytes_per_cycle = (uint32_t)sim_config_u64(config, "dma.bytes_per_cycle"),
        .descriptor_cycles = (uint32_t)sim_config_u64(config, "dma.descriptor_cycles"),
        .run_cycles = (uint32_t)sim_config_u64(config, "dma.run_cycles"),
        .completion_cycles = (uint32_t)sim_config_u64(config, "dma.completion_cycles"),
        .request_bytes = sim_config_u64(config, "dma.request_bytes"),
        .max_run_bytes = sim_config_u64(config, "dma.max_run_bytes"),
        .outstanding_bytes = sim_config_u64(config, "dma.outstanding_bytes"),
        .outstanding_requests = (uint32_t)sim_config_u64(config, "dma.outstanding_requests"),
        .read_transfers = (uint32_t)sim_config_u64(config, "dma.read_transfers"),
        .write_transfers = (uint32_t)sim_config_u64(config, "dma.write_transfers"),
        .command_runs = (uint32_t)sim_config_u64(config, "dma.command_runs"),
        .keeps_rows = sim_config_u64(config, "dma.merge_rows") == 0,
        .local_word_bytes = sim_config_u64(config, "sram.interleave_bytes") == 0
                                ? 0
                                : (uint32_t)sim_config_u64(config, "sram.word_bytes"),
        .writes_first = sim_config_u64(config, "sram.writes_first") != 0,
        .write_ack_bytes = sim_config_u64(config, "noc.write_ack_bytes"),
        .prefetches = sim_config_u64(config, "dma.descriptor_prefetch") != 0,
        .aligned_requests = sim_config_u64(config, "dma.aligned_requests") != 0,
        .transpose_factor = sim_config_ratio(config, "dma.transpose_factor"),
        .accumulate_factor = sim_config_ratio(config, "dma.accumulate_factor"),
    };
    return sim_clock_init(&out_spec->clock, sim_config_u64(config, "core.clock"));
}
