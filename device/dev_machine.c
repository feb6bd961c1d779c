#include "device/dev_machine.h"

#include "sim/sim_layout.h"

static uint32_t u32(const sim_config_t *config, const char *key) {
    return (uint32_t)sim_config_u64(config, key); /* the schema bounds every such key below 2^32 */
}

static void read_rates(dev_machine_t *machine, const sim_config_t *config) {
    for (uint32_t d = 0; d < VNPU_DTYPE_COUNT; d++) {
        machine->matrix_rate[d] = (sim_ratio_t){.num = 0, .den = 1};
    }
    machine->matrix_rate[VNPU_F32] = sim_matrix_f32_rate(config, &machine->matrix_f32_pieces);
    machine->matrix_rate[VNPU_BF16] = sim_config_ratio(config, "matrix.rate.bf16");
    machine->matrix_rate[VNPU_F16] = sim_config_ratio(config, "matrix.rate.f16");
    machine->matrix_rate[VNPU_I8] = sim_config_ratio(config, "matrix.rate.i8");
    machine->matrix_rate[VNPU_U8] = machine->matrix_rate[VNPU_I8];
}

static void read_core(dev_machine_t *machine, const sim_config_t *config) {
    machine->issue_cycles = u32(config, "core.issue_cycles");
    machine->semaphore_cycles = u32(config, "core.semaphore_cycles");
    machine->instance_cycles = u32(config, "core.instance_cycles");
    machine->dma_queues = u32(config, "dma.queues");
    machine->sram_bytes = sim_config_u64(config, "sram.bytes");
    machine->sram_bytes_per_cycle = sim_config_u64(config, "sram.banks") *
                                    sim_config_u64(config, "sram.ports_per_bank") *
                                    sim_config_u64(config, "sram.word_bytes");
    machine->sram_latency_cycles = u32(config, "sram.latency_cycles");
    machine->acc_bytes = sim_config_u64(config, "acc.bytes");
    machine->acc_bytes_per_cycle =
        sim_config_u64(config, "acc.banks") * sim_config_u64(config, "acc.word_bytes");
    machine->sram_banks = sim_bank_spec_of_sram(config);
    machine->acc_banks = sim_bank_spec_of_acc(config);
    machine->dram_bytes = sim_config_u64(config, "dram.bytes");
    machine->placement_physical = sim_config_u64(config, "dram.placement") == 1;
}

static void read_command_path(dev_machine_t *machine, const sim_config_t *config) {
    machine->launch_gap_ps = sim_config_u64(config, "cmd.launch_gap");
    machine->doorbell_ps = sim_config_u64(config, "cmd.doorbell");
    machine->fetch_ps = sim_config_u64(config, "cmd.fetch");
    machine->decode_ps = sim_config_u64(config, "cmd.decode");
    machine->completion_ps = sim_config_u64(config, "cmd.completion");
    machine->cmd_queue_depth = u32(config, "cmd.queue_depth");
    machine->hardware_queues = u32(config, "cmd.hardware_queues");
    machine->host_submit_ps = sim_config_u64(config, "host.submit");
    machine->host_launch_ps = sim_config_u64(config, "host.launch");
    machine->host_query_ps = sim_config_u64(config, "host.query");
    machine->host_sync_ps = sim_config_u64(config, "host.sync");
    machine->host_flops = sim_config_u64(config, "host.flops");
    machine->host_bytes_per_s = sim_config_u64(config, "host.bandwidth");
    machine->host_clock_wall = sim_config_u64(config, "host.clock") == 1;
}

/* What neither the schema's ranges nor the configuration's own checks see. */
static sim_status_t check(const dev_machine_t *machine, sim_error_t *err) {
    for (uint32_t d = 0; d < VNPU_DTYPE_COUNT; d++) {
        if (machine->matrix_rate[d].num != 0) return SIM_OK;
    }
    return sim_error_set(err, SIM_ERROR_CONFIG,
                         "every matrix.rate is 0: the array computes nothing");
}

sim_status_t dev_machine_init(dev_machine_t *machine, const sim_config_t *config,
                              sim_error_t *err) {
    *machine = (dev_machine_t){0};
    machine->cores = u32(config, "grid.cores");
    machine->workers = u32(config, "grid.workers");
    if (machine->workers == 0) machine->workers = machine->cores;
    sim_status_t status =
        sim_clock_init(&machine->core_clock, sim_config_u64(config, "core.clock"));
    if (status == SIM_OK) status = sim_matrix_spec_from_config(config, &machine->matrix);
    if (status == SIM_OK) status = sim_vector_spec_from_config(config, &machine->vector);
    if (status == SIM_OK) status = sim_dma_spec_from_config(config, &machine->dma);
    if (status == SIM_OK) status = sim_link_spec_from_config(config, &machine->link);
    if (status != SIM_OK) {
        return sim_error_set(err, SIM_ERROR_CONFIG, "the units refuse the configuration: %s",
                             sim_status_name(status));
    }
    read_rates(machine, config);
    read_core(machine, config);
    read_command_path(machine, config);
    machine->mapping_profile = u32(config, "mapping.profile");
    status = sim_layout_read(sim_config_str(config, "layout.tile"), machine->layout_tile, err);
    if (status != SIM_OK) return status;
    machine->config_hash = sim_config_hash(config);
    return check(machine, err);
}
