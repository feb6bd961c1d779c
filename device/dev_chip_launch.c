/* Kernels and copies: values by the executor, time by the timing engine or the reuse table. */
#include "device/dev_chip_internal.h"

#include <string.h>

/* The class that a launch goes to: the one it names, that of its mask, or the first that can run
 * the program. */
static uint32_t class_of_launch(const dev_machine_t *machine, const dev_program_t *program,
                                const vnpu_packet_kernel_t *kernel) {
    if (kernel->core_class != 0) return kernel->core_class - 1u;
    if (kernel->core_mask != 0)
        return dev_machine_class_of(machine, (uint32_t)__builtin_ctzll(kernel->core_mask));
    return (uint32_t)__builtin_ctz(program->class_mask);
}

static sim_status_t refuse_mask(const dev_class_t *cls, const char *name, uint64_t mask,
                                sim_error_t *err) {
    uint32_t last = cls->first_core + cls->workers - 1;
    return sim_error_set(err, SIM_ERROR_INVALID_VALUE,
                         "%s: core mask 0x%llx must name cores %u to %u (class %s) and no others",
                         name, (unsigned long long)mask, cls->first_core, last, cls->name);
}

static sim_status_t choose_cores(const dev_chip_t *chip, dev_program_t *program,
                                 const vnpu_packet_kernel_t *kernel, dev_launch_t *launch,
                                 sim_error_t *err) {
    const dev_machine_t *machine = &chip->machine;
    const char *name = program->header.name;
    uint32_t index = class_of_launch(machine, program, kernel);
    if (index >= machine->num_classes) {
        return sim_error_set(err, SIM_ERROR_INVALID_VALUE, "%s: class %u of %u", name, index,
                             machine->num_classes);
    }
    const dev_class_t *cls = &machine->cls[index];
    uint64_t outside = kernel->core_mask;
    for (uint32_t c = cls->first_core; c < cls->first_core + cls->workers; c++) {
        bool is_taken = kernel->core_mask == 0 || (c < 64 && ((kernel->core_mask >> c) & 1) != 0);
        if (!is_taken) continue;
        launch->core_mask[c / 64] |= 1ull << (c % 64);
        if (c < 64) outside &= ~(1ull << c);
    }
    if (outside != 0) return refuse_mask(cls, name, kernel->core_mask, err);
    if ((program->class_mask >> index & 1u) != 0) return SIM_OK;
    sim_error_t reason = {0};
    sim_status_t status = dev_program_fits(program, cls, &reason);
    return sim_error_set(err, status, "cores %u to %u (class %s) cannot run %.300s",
                         cls->first_core, cls->first_core + cls->cores - 1, cls->name, reason.text);
}

static sim_status_t launch_from_packet(const dev_chip_t *chip, const chip_client_t *client,
                                       const vnpu_packet_t *packet, dev_launch_t *launch,
                                       sim_error_t *err) {
    const vnpu_packet_kernel_t *kernel = &packet->u.kernel;
    memset(launch, 0, sizeof *launch);
    if (kernel->module == 0 || kernel->module > client->num_modules ||
        client->module[kernel->module - 1].program == NULL) {
        return sim_error_set(err, SIM_ERROR_INVALID_HANDLE,
                             "launch of module %u, which is not loaded", kernel->module);
    }
    launch->program = client->module[kernel->module - 1].program;
    const char *name = launch->program->header.name;
    if (kernel->num_args != launch->program->header.num_args) {
        return sim_error_set(err, SIM_ERROR_INVALID_VALUE, "%s takes %u arguments, got %u", name,
                             launch->program->header.num_args, kernel->num_args);
    }
    uint64_t instances = (uint64_t)kernel->grid[0] * kernel->grid[1];
    if (instances == 0 || instances > UINT32_MAX) {
        return sim_error_set(err, SIM_ERROR_INVALID_VALUE,
                             "%s: grid %u x %u must have 1 to 2^32 - 1 instances", name,
                             kernel->grid[0], kernel->grid[1]);
    }
    launch->grid[0] = kernel->grid[0];
    launch->grid[1] = kernel->grid[1];
    memcpy(launch->arg, packet + 1, kernel->num_args * sizeof launch->arg[0]);
    for (uint32_t a = 0; a < kernel->num_args; a++)
        launch->home[a] = dev_memory_home(chip->memory, launch->arg[a]);
    sim_status_t status =
        choose_cores(chip, client->module[kernel->module - 1].program, kernel, launch, err);
    return status == SIM_OK ? dev_launch_check_team(launch, err) : status;
}

dev_place_options_t chip_place_options(const dev_chip_t *chip, uint64_t rows_hash) {
    return (dev_place_options_t){.is_physical = chip->machine.placement_physical,
                                 .shards = dev_memory_shards(chip->memory),
                                 .shared_base = dev_memory_shared_base(chip->machine.dram_bytes),
                                 .shared_stripe_bytes = chip->machine.shared_bytes > 0
                                                            ? chip->machine.shared_stripe_bytes
                                                            : 0,
                                 .config_hash = chip->machine.config_hash,
                                 .rows_hash = rows_hash};
}

/* Stores a fresh record where the reuse mode wants it. On CHECK a hit that differs is a simulator
 * bug. */
static sim_status_t store_record(dev_chip_t *chip, const dev_record_t *found, dev_record_t *fresh,
                                 const dev_record_t **out_record) {
    if (found != NULL && chip->options.reuse == DEV_REUSE_CHECK &&
        !dev_record_equal(found, fresh, dev_timing_engines(chip->timing))) {
        sim_bug("reuse", fresh->duration_ticks,
                "%s: simulating again gives %llu ticks, the record says %llu", fresh->name,
                (unsigned long long)fresh->duration_ticks,
                (unsigned long long)found->duration_ticks);
    }
    if (found != NULL) {
        if (fresh->slice != NULL) dev_reuse_give_slices(chip->reuse, found, fresh);
        dev_record_free(fresh);
        *out_record = found;
        return SIM_OK;
    }
    if (chip->options.reuse == DEV_REUSE_OFF) {
        return dev_reuse_keep(chip->reuse, fresh, out_record);
    }
    return dev_reuse_add(chip->reuse, fresh, out_record);
}

sim_status_t chip_time_alone(dev_chip_t *chip, const dev_job_t *job,
                             const dev_record_t **out_record, bool *out_reused, sim_error_t *err) {
    const dev_record_t *found = NULL;
    if (chip->options.reuse != DEV_REUSE_OFF)
        found = dev_reuse_find(chip->reuse, job->placement->key);
    *out_record = found;
    *out_reused = found != NULL;
    if (found != NULL && chip->options.reuse == DEV_REUSE_ON &&
        !(job->with_slices && found->slice == NULL))
        return SIM_OK;
    dev_record_t fresh;
    sim_status_t status = dev_timing_run(chip->timing, job, &fresh, err);
    return status == SIM_OK ? store_record(chip, found, &fresh, out_record) : status;
}

void chip_kernel(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                 vnpu_completion_t *completion) {
    sim_error_t err = {0};
    dev_launch_t launch;
    sim_status_t status = launch_from_packet(chip, client, packet, &launch, &err);
    if (status != SIM_OK) {
        chip_fail(client, completion, status, &err);
        return;
    }
    if (chip->dump_log != NULL)
        chip_dump_launch(chip, &client->module[packet->u.kernel.module - 1], &launch, packet);
    status = dev_exec_run(chip->exec, client->id, &launch, &err);
    if (status != SIM_OK) {
        chip_fail(client, completion, status, &err);
        return;
    }
    if (chip->timing == NULL) { /* functional: no time passes on the chip */
        (void)chip_profile_add(client, packet, VNPU_LAUNCH_KERNEL, 0);
        return;
    }
    chip_node_t *node = chip_node_new(chip, client, packet, CHIP_KERNEL);
    node->launch = launch;
    node->launch.program = dev_program_retain(launch.program);
    node->rows_hash = dev_exec_rows_hash(chip->exec);
    node->rows = dev_exec_take_rows(chip->exec);
    chip_arrive(chip, client, packet, node, VNPU_LAUNCH_KERNEL, 0, completion);
}

void chip_program_time(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                       vnpu_completion_t *completion) {
    sim_error_t err = {0};
    dev_launch_t launch;
    sim_status_t status = launch_from_packet(chip, client, packet, &launch, &err);
    const dev_record_t *record = NULL;
    bool is_reused = false;
    if (status == SIM_OK && chip->timing == NULL) {
        status = sim_error_set(&err, SIM_ERROR_NOT_PERMITTED, "VNPU_MODE=functional has no time");
    }
    if (status == SIM_OK) {
        dev_place_options_t options = chip_place_options(chip, 0);
        dev_placement_t placement;
        dev_place(&launch, &options, &placement);
        dev_job_t job = {.launch = &launch, .placement = &placement};
        status = chip_time_alone(chip, &job, &record, &is_reused, &err);
    }
    if (status != SIM_OK) {
        chip_fail(client, completion, status, &err);
        return;
    }
    completion->value[0] = record->duration_ticks * SIM_TICK_PS;
}

/* --- copies and fills inside DRAM
 * ------------------------------------------------------------------------------------- */

static void fill_pattern(void *host, const vnpu_packet_fill_t *fill) {
    uint64_t pattern = fill->pattern;
    if (fill->width == 1) {
        memset(host, (int)(pattern & 0xff), fill->count);
        return;
    }
    for (uint64_t i = 0; i < fill->count; i++)
        memcpy((uint8_t *)host + i * fill->width, &pattern, fill->width);
}

static sim_status_t move_values(dev_chip_t *chip, const chip_client_t *client,
                                const vnpu_packet_t *packet, uint64_t dst, uint64_t src,
                                uint64_t bytes, sim_error_t *err) {
    void *to = dev_memory_translate(chip->memory, client->id, dst, bytes, err);
    if (to == NULL) return SIM_ERROR_ILLEGAL_ADDRESS;
    if (packet->type == VNPU_PACKET_FILL) {
        fill_pattern(to, &packet->u.fill);
        dev_memory_mark_known(chip->memory, dst, bytes);
        return SIM_OK;
    }
    const void *from = dev_memory_translate(chip->memory, client->id, src, bytes, err);
    if (from == NULL) return SIM_ERROR_ILLEGAL_ADDRESS;
    bool is_known =
        chip->options.mode != DEV_MODE_TIMING || dev_memory_is_known(chip->memory, src, bytes);
    if (is_known) {
        memmove(to, from, bytes);
        dev_memory_mark_known(chip->memory, dst, bytes);
    } else {
        dev_memory_mark_unknown(chip->memory, dst, bytes);
    }
    return SIM_OK;
}

void chip_move(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
               vnpu_completion_t *completion) {
    bool is_copy = packet->type == VNPU_PACKET_COPY_D2D;
    const vnpu_packet_fill_t *fill = &packet->u.fill;
    uint64_t dst = is_copy ? packet->u.copy.device : fill->device,
             src = is_copy ? packet->u.copy.host : 0;
    uint64_t bytes = is_copy ? packet->u.copy.bytes : fill->count * fill->width;
    sim_error_t err = {0};
    sim_status_t status = SIM_OK;
    if (!is_copy && fill->width != 1 && fill->width != 2 && fill->width != 4 && fill->width != 8) {
        status = sim_error_set(&err, SIM_ERROR_INVALID_VALUE,
                               "fill width %u must be 1, 2, 4 or 8 bytes", fill->width);
    }
    if (status == SIM_OK && packet->core >= chip->machine.cores) {
        status = sim_error_set(&err, SIM_ERROR_INVALID_VALUE,
                               "a copy inside DRAM by core %u must name core 0 to %u", packet->core,
                               chip->machine.cores - 1);
    }
    if (status == SIM_OK && bytes != 0)
        status = move_values(chip, client, packet, dst, src, bytes, &err);
    if (status != SIM_OK) {
        chip_fail(client, completion, status, &err);
        return;
    }
    if (chip->dump_log != NULL) chip_dump_copy(chip, packet, is_copy ? "d2d" : "fill", dst, bytes);
    vnpu_launch_kind_t kind = is_copy ? VNPU_LAUNCH_D2D : VNPU_LAUNCH_FILL;
    if (chip->timing == NULL) {
        (void)chip_profile_add(client, packet, kind, bytes);
        return;
    }
    chip_node_t *node = chip_node_new(chip, client, packet, bytes == 0 ? CHIP_JOIN : CHIP_MOVE);
    node->move = (dev_move_t){
        .src = src,
        .dst = dst,
        .bytes = bytes,
        .core = packet->core,
        .is_copy = is_copy,
        .home = {dev_memory_home(chip->memory, dst), dev_memory_home(chip->memory, src)}};
    chip_arrive(chip, client, packet, node, kind, bytes, completion);
}

/* --- copies over the link
 * --------------------------------------------------------------------------------------------- */

static sim_status_t link_values(dev_chip_t *chip, const chip_client_t *client,
                                const vnpu_packet_t *packet, const void *payload_in,
                                void *payload_out, vnpu_completion_t *completion,
                                sim_error_t *err) {
    uint64_t device = packet->u.copy.device, bytes = packet->u.copy.bytes;
    void *memory = dev_memory_translate(chip->memory, client->id, device, bytes, err);
    if (memory == NULL) return SIM_ERROR_ILLEGAL_ADDRESS;
    if (packet->type == VNPU_PACKET_COPY_H2D) {
        if (packet->flags & VNPU_PACKET_LENGTH_ONLY) {
            if (chip->options.mode != DEV_MODE_TIMING) {
                return sim_error_set(err, SIM_ERROR_INVALID_VALUE,
                                     "a copy without data is for VNPU_MODE=timing only");
            }
            dev_memory_mark_unknown(chip->memory, device, bytes);
            return SIM_OK;
        }
        memcpy(memory, payload_in, bytes);
        dev_memory_mark_known(chip->memory, device, bytes);
        return SIM_OK;
    }
    if (chip->options.mode == DEV_MODE_TIMING &&
        !dev_memory_is_known(chip->memory, device, bytes)) {
        return sim_error_set(
            err, SIM_ERROR_VALUE_UNKNOWN,
            "VNPU_MODE=timing computes no float values: %llu bytes at 0x%llx are unknown",
            (unsigned long long)bytes, (unsigned long long)device);
    }
    if (payload_out != NULL) memcpy(payload_out, memory, bytes);
    if (packet->u.copy.total == bytes && bytes <= 24) {
        memcpy(completion->value, memory, bytes);
        completion->inline_bytes = (uint16_t)bytes;
    }
    return SIM_OK;
}

void chip_link_copy(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                    const void *payload_in, void *payload_out, vnpu_completion_t *completion) {
    sim_error_t err = {0};
    bool is_h2d = packet->type == VNPU_PACKET_COPY_H2D;
    sim_status_t status =
        link_values(chip, client, packet, payload_in, payload_out, completion, &err);
    if (status != SIM_OK) {
        chip_fail(client, completion, status, &err);
        return;
    }
    if (packet->flags & VNPU_PACKET_MORE) return;
    uint64_t total = packet->u.copy.total;
    if (chip->dump_log != NULL)
        chip_dump_copy(chip, packet, is_h2d ? "h2d" : "d2h", packet->u.copy.device, total);
    vnpu_launch_kind_t kind = is_h2d ? VNPU_LAUNCH_H2D : VNPU_LAUNCH_D2H;
    if (chip->timing == NULL) {
        (void)chip_profile_add(client, packet, kind, total);
        return;
    }
    chip_node_t *node = chip_node_new(chip, client, packet, CHIP_LINK);
    node->link_ps = sim_link_transfer_ps(&chip->machine.link, total);
    chip_arrive(chip, client, packet, node, kind, total, completion);
}
