/* What a client learns of the chip: the properties that the kernel library plans with. */
#include "device/dev_chip_internal.h"

#include <stdio.h>

#include "sim/sim_dram.h"
#include "sim/sim_noc.h"

/* An idle read: frontend both ways, activate, column, burst, the interconnect, and a cache's
 * lookup. */
static uint64_t dram_latency_ps(const sim_config_t *config) {
    uint64_t cycles = sim_config_u64(config, "dram.trcdrd") + sim_config_u64(config, "dram.tcl") +
                      sim_config_u64(config, "dram.burst_cycles");
    uint64_t dram_ps = cycles * 1000000000000ull / sim_config_u64(config, "dram.clock");
    uint64_t lookup =
        sim_config_u64(config, "cache.bytes") > 0 ? sim_config_u64(config, "cache.hit_cycles") : 0;
    uint64_t noc_ps = (sim_noc_read_cycles(config) + lookup) * 1000000000000ull /
                      sim_config_u64(config, "noc.clock");
    return dram_ps + noc_ps + 2 * sim_config_u64(config, "dram.frontend");
}

static uint64_t dram_peak(const sim_config_t *config) {
    return sim_config_u64(config, "dram.channels") * sim_config_u64(config, "dram.burst_bytes") *
           (sim_config_u64(config, "dram.clock") / sim_config_u64(config, "dram.burst_cycles"));
}

static void fill_rows(const dev_chip_t *chip, vnpu_machine_t *p) {
    sim_dram_rows_t rows = {0};
    if (sim_dram_rows(chip->config, &rows, NULL) != SIM_OK)
        return; /* such a chip was refused before */
    p->dram_segment_bytes = rows.segment_bytes;
    p->dram_open_bytes = rows.open_bytes;
    p->dram_stripe_bytes = rows.stripe_bytes;
    p->dram_open_ps = rows.open_ps;
}

void chip_properties(const dev_chip_t *chip, uint32_t class_index, vnpu_machine_t *p) {
    const dev_machine_t *m = &chip->machine;
    const dev_class_t *c = &m->cls[class_index];
    *p = (vnpu_machine_t){.size = sizeof *p,
                          .cores = c->cores,
                          .workers = c->workers,
                          .matrix_rows = c->matrix.rows,
                          .matrix_cols = c->matrix.cols,
                          .matrix_load_rows_per_cycle = c->matrix.load_rows_per_cycle,
                          .matrix_weight_buffers = c->matrix.weight_buffers,
                          .matrix_min_stream_cycles = c->matrix.min_stream_cycles,
                          .vector_lanes = c->vector.lanes,
                          .vector_startup_cycles = c->vector.startup_cycles,
                          .dma_queues = c->dma_queues,
                          .dma_bytes_per_cycle = c->dma.bytes_per_cycle,
                          .dma_descriptor_cycles = c->dma.descriptor_cycles,
                          .dma_run_cycles = c->dma.run_cycles,
                          .dma_completion_cycles = c->dma.completion_cycles,
                          .issue_cycles = c->issue_cycles,
                          .semaphore_cycles = c->semaphore_cycles,
                          .instance_cycles = c->instance_cycles,
                          .core_clock_hz = c->core_clock.hz,
                          .sram_bytes = c->sram_bytes,
                          .acc_bytes = c->acc_bytes,
                          .sram_bytes_per_cycle = c->sram_bytes_per_cycle,
                          .acc_bytes_per_cycle = c->acc_bytes_per_cycle,
                          .dram_bytes = m->dram_bytes,
                          .dram_bytes_per_s = dram_peak(chip->config),
                          .dma_outstanding_bytes = c->dma.outstanding_bytes,
                          .dram_latency_ps = dram_latency_ps(chip->config),
                          .launch_gap_ps = m->launch_gap_ps,
                          .host_submit_ps = m->host_submit_ps,
                          .host_launch_ps = m->host_launch_ps,
                          .host_query_ps = m->host_query_ps,
                          .host_sync_ps = m->host_sync_ps,
                          .host_flops = m->host_flops,
                          .host_bytes_per_s = m->host_bytes_per_s,
                          .link_bytes_per_s = m->link.bytes_per_s,
                          .link_latency_ps = m->link.latency_ps,
                          .config_hash = m->config_hash,
                          .cmd_queue_depth = m->cmd_queue_depth,
                          .host_clock_is_wall = m->host_clock_wall,
                          .matrix_dataflow = c->matrix.dataflow,
                          .matrix_step = c->matrix.step,
                          .matrix_count = c->matrix.count,
                          .matrix_split = c->matrix.split,
                          .matrix_fill_cycles = (uint32_t)sim_matrix_fill_cycles(&c->matrix, 1),
                          .matrix_gap_cycles = c->matrix.gap_cycles,
                          .matrix_stream_elems = c->matrix.stream_elems,
                          .matrix_operand_bytes_per_cycle = c->matrix.operand_bytes,
                          .matrix_switch_cycles = c->matrix.switch_cycles,
                          .matrix_has_full_folds = c->matrix.has_full_folds,
                          .matrix_f32_pieces = c->matrix_f32_pieces,
                          .matrix_f32_passes = c->matrix_f32_passes,
                          .num_classes = m->num_classes,
                          .class_index = class_index,
                          .first_core = c->first_core,
                          .chip_cores = m->cores,
                          .layout_tile = {m->layout_tile[0], m->layout_tile[1]},
                          .mapping_profile = m->mapping_profile,
                          .mapping_multicast = m->mapping_multicast,
                          .shared_page_bytes = (uint32_t)(m->shared_stripe_bytes / m->cores),
                          .shared_bytes = m->shared_bytes,
                          .dma_keeps_rows = c->dma.keeps_rows,
                          .sram_interleave_bytes = (uint32_t)c->sram_banks.part_bytes,
                          .dma_accumulator_bytes_per_cycle = c->dma.accumulator_bytes_per_cycle};
    for (uint32_t d = 0; d < VNPU_DTYPE_COUNT; d++) {
        p->matrix_rate_num[d] = c->matrix_rate[d].num;
        p->matrix_rate_den[d] = c->matrix_rate[d].den;
    }
    for (uint32_t v = 0; v < SIM_VECTOR_CLASS_COUNT; v++) {
        p->vector_passes_num[v] = c->vector.passes[v].num;
        p->vector_passes_den[v] = c->vector.passes[v].den;
    }
    fill_rows(chip, p);
    snprintf(p->name, sizeof p->name, "%s", sim_config_str(chip->config, "chip.name"));
    snprintf(p->class_name, sizeof p->class_name, "%s", c->name);
    if (c->has_matrix) return;
    p->matrix_count = p->matrix_rows = p->matrix_cols = 0;
}

/* Once a chip: a run takes up to a second of the host's time, and a configuration never changes. */
sim_status_t chip_measure(dev_chip_t *chip, vnpu_completion_t *completion) {
    if (!chip->has_probe) {
        sim_error_t err = {0};
        sim_status_t status = sim_probe_run(chip->config, &chip->probe, &err);
        if (status != SIM_OK) return status;
        chip->has_probe = true;
    }
    completion->value[0] = chip->probe.stream_bytes_per_s;
    completion->value[1] = chip->probe.random_bytes_per_s;
    return SIM_OK;
}
