#include "device/dev_machine.h"

#include <stdio.h>

#include "sim/sim_layout.h"
#include "sim/sim_shared.h"

static uint32_t u32(const sim_config_t *config, const char *key) {
    return (uint32_t)sim_config_u64(config, key); /* the schema bounds every such key below 2^32 */
}

static void read_rates(dev_class_t *cls, const sim_config_t *config) {
    for (uint32_t d = 0; d < VNPU_DTYPE_COUNT; d++) {
        cls->matrix_rate[d] = (sim_ratio_t){.num = 0, .den = 1};
    }
    cls->matrix_f32_pieces = 1;
    if (!cls->has_matrix) return;
    cls->matrix_rate[VNPU_F32] = sim_matrix_f32_rate(config, &cls->matrix_f32_pieces);
    cls->matrix_f32_passes = sim_matrix_f32_passes(config);
    cls->matrix_rate[VNPU_BF16] = sim_config_ratio(config, "matrix.rate.bf16");
    cls->matrix_rate[VNPU_F16] = sim_config_ratio(config, "matrix.rate.f16");
    cls->matrix_rate[VNPU_I8] = sim_config_ratio(config, "matrix.rate.i8");
    cls->matrix_rate[VNPU_U8] = cls->matrix_rate[VNPU_I8];
    cls->matrix_rate[VNPU_BFP8] = sim_config_ratio(config, "matrix.rate.bfp8");
    cls->matrix_rate[VNPU_BFP4] = sim_config_ratio(config, "matrix.rate.bfp4");
}

static void read_core(dev_class_t *cls, const sim_config_t *config) {
    cls->cores = u32(config, "grid.cores");
    cls->workers = u32(config, "grid.workers");
    if (cls->workers == 0) cls->workers = cls->cores;
    cls->issue_cycles = u32(config, "core.issue_cycles");
    cls->semaphore_cycles = u32(config, "core.semaphore_cycles");
    cls->instance_cycles = u32(config, "core.instance_cycles");
    cls->dma_queues = u32(config, "dma.queues");
    cls->sram_bytes =
        sim_config_u64(config, "sram.bytes") - sim_config_u64(config, "sram.shared_bytes");
    cls->sram_bytes_per_cycle = sim_config_u64(config, "sram.banks") *
                                sim_config_u64(config, "sram.ports_per_bank") *
                                sim_config_u64(config, "sram.word_bytes");
    cls->sram_latency_cycles = u32(config, "sram.latency_cycles");
    cls->acc_bytes = sim_config_u64(config, "acc.bytes");
    cls->acc_bytes_per_cycle =
        sim_config_u64(config, "acc.banks") * sim_config_u64(config, "acc.word_bytes");
    cls->sram_banks = sim_bank_spec_of_sram(config);
    cls->acc_banks = sim_bank_spec_of_acc(config);
    cls->has_matrix = sim_config_u64(config, "matrix.count") > 0;
    if (!cls->has_matrix) cls->acc_bytes = 0; /* results of a matrix engine have no place */
    sim_energy_table_init(config, &cls->energy);
}

/* One class; `config` is its view. What neither the schema's ranges nor the configuration's own
 * checks see is refused here. */
static sim_status_t read_class(dev_class_t *cls, const sim_config_t *config, sim_error_t *err) {
    sim_status_t status = sim_clock_init(&cls->core_clock, sim_config_u64(config, "core.clock"));
    if (status == SIM_OK) status = sim_matrix_spec_from_config(config, &cls->matrix);
    if (status == SIM_OK) status = sim_vector_spec_from_config(config, &cls->vector);
    if (status == SIM_OK) status = sim_dma_spec_from_config(config, &cls->dma);
    if (status != SIM_OK) {
        return sim_error_set(err, SIM_ERROR_CONFIG,
                             "class %s: the units refuse the configuration: %s", cls->name,
                             sim_status_name(status));
    }
    read_core(cls, config);
    read_rates(cls, config);
    for (uint32_t d = 0; d < VNPU_DTYPE_COUNT; d++) {
        if (cls->matrix_rate[d].num != 0) return SIM_OK;
    }
    if (!cls->has_matrix) return SIM_OK;
    return sim_error_set(err, SIM_ERROR_CONFIG,
                         "class %s: every matrix.rate is 0: the array computes nothing", cls->name);
}

static void read_command_path(dev_machine_t *machine, const sim_config_t *config) {
    machine->launch_gap_ps = sim_config_u64(config, "cmd.launch_gap");
    machine->doorbell_ps = sim_config_u64(config, "cmd.doorbell");
    machine->fetch_ps = sim_config_u64(config, "cmd.fetch");
    machine->decode_ps = sim_config_u64(config, "cmd.decode");
    machine->completion_ps = sim_config_u64(config, "cmd.completion");
    machine->cmd_queue_depth = u32(config, "cmd.queue_depth");
    machine->hardware_queues = u32(config, "cmd.hardware_queues");
    machine->epoch_max_packets = u32(config, "epoch.max_packets");
    machine->host_submit_ps = sim_config_u64(config, "host.submit");
    machine->host_launch_ps = sim_config_u64(config, "host.launch");
    machine->host_query_ps = sim_config_u64(config, "host.query");
    machine->host_sync_ps = sim_config_u64(config, "host.sync");
    machine->host_flops = sim_config_u64(config, "host.flops");
    machine->host_bytes_per_s = sim_config_u64(config, "host.bandwidth");
    machine->host_clock_wall = sim_config_u64(config, "host.clock") == 1;
}

sim_status_t dev_machine_init(dev_machine_t *machine, const sim_config_t *config,
                              sim_error_t *err) {
    *machine = (dev_machine_t){.num_classes = sim_config_classes(config)};
    for (uint32_t c = 0; c < machine->num_classes; c++) {
        dev_class_t *cls = &machine->cls[c];
        (void)snprintf(cls->name, sizeof cls->name, "%s", sim_config_class_name(config, c));
        cls->first_core = machine->cores;
        sim_status_t status = read_class(cls, sim_config_class(config, c), err);
        if (status != SIM_OK) return status;
        machine->cores += cls->cores;
    }
    sim_status_t status = sim_link_spec_from_config(config, &machine->link);
    if (status != SIM_OK) {
        return sim_error_set(err, SIM_ERROR_CONFIG, "the link refuses the configuration: %s",
                             sim_status_name(status));
    }
    machine->dram_bytes = sim_config_u64(config, "dram.bytes");
    machine->shared_bytes = sim_shared_bytes_of(config);
    machine->shared_stripe_bytes = sim_shared_stripe_of(config);
    machine->placement_physical = sim_config_u64(config, "dram.placement") == 1;
    read_command_path(machine, config);
    machine->mapping_profile = u32(config, "mapping.profile");
    machine->mapping_multicast = sim_config_u64(config, "mapping.multicast") != 0;
    status = sim_layout_read(sim_config_str(config, "layout.tile"), machine->layout_tile, err);
    if (status != SIM_OK) return status;
    machine->config_hash = sim_config_hash(config);
    return SIM_OK;
}

uint32_t dev_machine_class_of(const dev_machine_t *machine, uint32_t core) {
    uint32_t c = 0;
    while (c + 1 < machine->num_classes && core >= machine->cls[c + 1].first_core)
        c++;
    return c;
}
