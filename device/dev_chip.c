/* The chip: creation, clients, and one packet after the other. */
#include "device/dev_chip_internal.h"

#include <stdlib.h>
#include <string.h>

static const char *const status_hint = "the text is in the error blob";

void chip_fail(chip_client_t *client, vnpu_completion_t *completion, sim_status_t status,
               const sim_error_t *err) {
    completion->status = (int32_t)status;
    client->last_error = (sim_error_t){0};
    sim_error_set(&client->last_error, status, "%s",
                  err != NULL && err->text[0] != '\0' ? err->text : status_hint);
    bool is_sticky = status >= SIM_ERROR_ILLEGAL_ADDRESS && status != SIM_ERROR_VALUE_UNKNOWN;
    if (is_sticky && client->sticky.status == SIM_OK) client->sticky = client->last_error;
}

/* --- clients
 * --------------------------------------------------------------------------------------------------------
 */

sim_status_t dev_chip_client_open(dev_chip_t *chip, uint32_t *out_client) {
    *out_client = 0;
    for (uint32_t i = 0; i < DEV_MAX_CLIENTS; i++) {
        if (chip->client[i].is_open) continue;
        memset(&chip->client[i], 0, sizeof chip->client[i]);
        chip->client[i].is_open = true;
        chip->client[i].id = i + 1;
        *out_client = i + 1;
        return SIM_OK;
    }
    return SIM_ERROR_QUEUE_FULL;
}

void dev_chip_client_close(dev_chip_t *chip, uint32_t id) {
    if (id == 0 || id > DEV_MAX_CLIENTS || !chip->client[id - 1].is_open) return;
    chip_client_t *client = &chip->client[id - 1];
    chip_close_times(chip);
    chip_forget_client(chip, id);
    dev_memory_free_owner(chip->memory, id);
    for (uint32_t m = 0; m < client->num_modules; m++)
        dev_program_destroy(client->module[m].program);
    free(client->module);
    free(client->image);
    free(client->launch);
    free(client->blob);
    memset(client, 0, sizeof *client);
}

/* --- creation
 * -------------------------------------------------------------------------------------------------------
 */

static sim_status_t chip_config_text(dev_chip_t *chip) {
    FILE *stream = open_memstream(&chip->config_text, &chip->config_text_bytes);
    if (stream == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    sim_config_write_effective(chip->config, stream);
    return fclose(stream) == 0 ? SIM_OK : SIM_ERROR_OUT_OF_MEMORY;
}

static sim_status_t chip_parts(dev_chip_t *chip, sim_error_t *err) {
    sim_status_t status = dev_machine_init(&chip->machine, chip->config, err);
    if (status != SIM_OK) return status;
    bool is_timing = chip->options.mode == DEV_MODE_TIMING;
    status = dev_memory_create_shared(chip->machine.dram_bytes, chip->machine.shared_bytes,
                                      chip->machine.shared_stripe_bytes, chip->machine.cores,
                                      is_timing ? DEV_BACKING_TIMING : DEV_BACKING_FULL,
                                      chip->options.host_limit, &chip->memory, err);
    if (status != SIM_OK) return status;
    dev_exec_options_t options = {.mode = is_timing ? DEV_EXEC_TIMING : DEV_EXEC_VALUES,
                                  .threads = chip->options.threads,
                                  .seed = chip->options.seed,
                                  .isa_level = chip->options.isa_level};
    if (chip->options.mode == DEV_MODE_CHAOS) options.mode = DEV_EXEC_CHAOS;
    status = dev_exec_create(&chip->machine, chip->memory, &options, &chip->exec, err);
    if (status != SIM_OK) return status;
    if (chip->options.mode != DEV_MODE_FUNCTIONAL) {
        status = dev_timing_create(&chip->machine, chip->config, &chip->timing, err);
        if (status == SIM_OK) dev_timing_set_shards(chip->timing, dev_memory_shards(chip->memory));
        if (status == SIM_OK) status = chip_walk_create(chip);
        if (status != SIM_OK) return status;
    }
    status = dev_reuse_create(&chip->reuse);
    if (status == SIM_OK) status = chip_config_text(chip);
    if (status == SIM_OK && chip->options.dump_dir != NULL) status = chip_dump_open(chip, err);
    return status;
}

sim_status_t dev_chip_create(const sim_config_t *config, const dev_chip_options_t *options,
                             dev_chip_t **out_chip, sim_error_t *err) {
    *out_chip = NULL;
    dev_chip_t *chip = calloc(1, sizeof *chip);
    if (chip == NULL) return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "no memory for the chip");
    chip->config = config;
    chip->options = *options;
    sim_status_t status = chip_parts(chip, err);
    if (status != SIM_OK) {
        dev_chip_destroy(chip);
        return sim_error_set(err, status, "the chip could not be made");
    }
    for (uint32_t c = 0; c < chip->machine.num_classes; c++)
        chip_properties(chip, c, &chip->properties[c]);
    *out_chip = chip;
    return SIM_OK;
}

void dev_chip_destroy(dev_chip_t *chip) {
    if (chip == NULL) return;
    for (uint32_t id = 1; id <= DEV_MAX_CLIENTS; id++)
        dev_chip_client_close(chip, id);
    chip_time_fini(chip);
    if (chip->dump_log != NULL) fclose(chip->dump_log);
    dev_reuse_destroy(chip->reuse);
    dev_timing_destroy(chip->timing);
    dev_exec_destroy(chip->exec);
    dev_memory_destroy(chip->memory);
    free(chip->config_text);
    free(chip);
}

/* --- packets that take no simulated time
 * ------------------------------------------------------------------------------ */

static void chip_alloc(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                       vnpu_completion_t *completion) {
    sim_error_t err = {0};
    uint64_t address = 0;
    const vnpu_packet_alloc_t *alloc = &packet->u.alloc;
    uint64_t bytes = alloc->bytes;
    uint32_t place = alloc->place;
    sim_shards_t matrix = {alloc->row_bytes, alloc->shard_rows, alloc->shard_row_bytes,
                           alloc->row_step, alloc->column_step};
    const sim_shards_t *shards = alloc->row_bytes > 0 ? &matrix : NULL;
    sim_status_t status = SIM_ERROR_INVALID_VALUE;
    if (place == VNPU_PLACE_DRAM)
        status = dev_memory_alloc(chip->memory, client->id, bytes, &address, &err);
    else if (place == VNPU_PLACE_SHARED)
        status = dev_memory_alloc_shared(chip->memory, client->id, bytes, shards, &address, &err);
    else
        sim_error_set(&err, status,
                      "allocation in place %u: 0 is DRAM, 1 the shared scratchpad memory", place);
    if (status != SIM_OK) chip_fail(client, completion, status, &err);
    completion->value[0] = address;
}

static void chip_free(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                      vnpu_completion_t *completion) {
    sim_error_t err = {0};
    sim_status_t status = dev_memory_free(chip->memory, client->id, packet->u.mem.address, &err);
    if (status != SIM_OK) chip_fail(client, completion, status, &err);
}

static sim_status_t module_append(chip_client_t *client, const vnpu_packet_t *packet,
                                  const void *payload) {
    uint64_t bytes = packet->u.copy.bytes, needed = client->image_bytes + bytes;
    if (needed > client->image_capacity) {
        uint64_t capacity = needed * 2;
        uint8_t *image = realloc(client->image, capacity);
        if (image == NULL) return SIM_ERROR_OUT_OF_MEMORY;
        client->image = image;
        client->image_capacity = capacity;
    }
    memcpy(client->image + client->image_bytes, payload, bytes);
    client->image_bytes = needed;
    return SIM_OK;
}

static sim_status_t module_slot(chip_client_t *client, uint32_t *out_index) {
    for (uint32_t m = 0; m < client->num_modules; m++) {
        if (client->module[m].program == NULL) {
            *out_index = m;
            return SIM_OK;
        }
    }
    if (client->num_modules == client->module_capacity) {
        uint32_t capacity = client->module_capacity == 0 ? 64 : client->module_capacity * 2;
        chip_module_t *module = realloc(client->module, capacity * sizeof *module);
        if (module == NULL) return SIM_ERROR_OUT_OF_MEMORY;
        client->module = module;
        client->module_capacity = capacity;
    }
    *out_index = client->num_modules++;
    client->module[*out_index] = (chip_module_t){0};
    return SIM_OK;
}

static void chip_module_load(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                             const void *payload, vnpu_completion_t *completion) {
    sim_error_t err = {0};
    sim_status_t status = module_append(client, packet, payload);
    if (status == SIM_OK && (packet->flags & VNPU_PACKET_MORE)) return;
    dev_program_t *program = NULL;
    uint32_t index = 0;
    if (status == SIM_OK)
        status =
            dev_program_load(client->image, client->image_bytes, &chip->machine, &program, &err);
    client->image_bytes = 0;
    if (status == SIM_OK) status = module_slot(client, &index);
    if (status != SIM_OK) {
        dev_program_destroy(program);
        chip_fail(client, completion, status, &err);
        return;
    }
    client->module[index] = (chip_module_t){.program = program};
    completion->value[0] = index + 1;
    completion->value[1] = program->class_mask;
}

static void chip_module_unload(chip_client_t *client, const vnpu_packet_t *packet,
                               vnpu_completion_t *completion) {
    uint64_t handle = packet->u.mem.address;
    if (handle == 0 || handle > client->num_modules || client->module[handle - 1].program == NULL) {
        sim_error_t err = {0};
        sim_error_set(&err, SIM_ERROR_INVALID_HANDLE, "module %llu is not loaded",
                      (unsigned long long)handle);
        chip_fail(client, completion, SIM_ERROR_INVALID_HANDLE, &err);
        return;
    }
    dev_program_destroy(client->module[handle - 1].program);
    client->module[handle - 1] = (chip_module_t){0};
}

static void chip_blob_read(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                           void *payload, vnpu_completion_t *completion) {
    const void *data = NULL;
    uint64_t size = 0;
    switch ((vnpu_blob_t)(packet->u.copy.device & 0xff)) {
    case VNPU_BLOB_ERROR:
        data = client->last_error.text;
        size = strlen(client->last_error.text) + 1;
        break;
    case VNPU_BLOB_PROFILE:
        data = client->blob;
        size = client->blob_bytes;
        break;
    case VNPU_BLOB_MACHINE:
        data = chip->properties;
        size = chip->machine.num_classes * sizeof chip->properties[0];
        break;
    case VNPU_BLOB_CONFIG:
        data = chip->config_text;
        size = chip->config_text_bytes + 1;
        break;
    }
    uint64_t offset = packet->u.copy.device >> 8, bytes = packet->u.copy.bytes;
    if (data == NULL || offset > size || bytes > size - offset) {
        sim_error_t err = {0};
        sim_error_set(&err, SIM_ERROR_INVALID_VALUE,
                      "blob %llu has %llu bytes, asked for %llu at %llu",
                      (unsigned long long)(packet->u.copy.device & 0xff), (unsigned long long)size,
                      (unsigned long long)bytes, (unsigned long long)offset);
        chip_fail(client, completion, SIM_ERROR_INVALID_VALUE, &err);
        return;
    }
    memcpy(payload, (const uint8_t *)data + offset, bytes);
}

/* Work that a sticky error stops. Queries, frees and resets go on. */
static bool is_work(vnpu_packet_type_t type) {
    switch (type) {
    case VNPU_PACKET_KERNEL:
    case VNPU_PACKET_COPY_H2D:
    case VNPU_PACKET_COPY_D2H:
    case VNPU_PACKET_COPY_D2D:
    case VNPU_PACKET_FILL:
    case VNPU_PACKET_PROGRAM_TIME: return true;
    default: return false;
    }
}

static void execute(dev_chip_t *chip, chip_client_t *client, const vnpu_packet_t *packet,
                    const void *payload_in, void *payload_out, vnpu_completion_t *completion) {
    sim_status_t status = SIM_OK;
    switch ((vnpu_packet_type_t)packet->type) {
    case VNPU_PACKET_NOP: break;
    case VNPU_PACKET_KERNEL: chip_kernel(chip, client, packet, completion); break;
    case VNPU_PACKET_COPY_H2D:
    case VNPU_PACKET_COPY_D2H:
        chip_link_copy(chip, client, packet, payload_in, payload_out, completion);
        break;
    case VNPU_PACKET_COPY_D2D:
    case VNPU_PACKET_FILL: chip_move(chip, client, packet, completion); break;
    case VNPU_PACKET_ALLOC: chip_alloc(chip, client, packet, completion); break;
    case VNPU_PACKET_FREE: chip_free(chip, client, packet, completion); break;
    case VNPU_PACKET_MODULE_LOAD:
        chip_module_load(chip, client, packet, payload_in, completion);
        break;
    case VNPU_PACKET_MODULE_UNLOAD: chip_module_unload(client, packet, completion); break;
    case VNPU_PACKET_EVENT_RECORD:
    case VNPU_PACKET_EVENT_WAIT: chip_event(chip, client, packet, completion); break;
    case VNPU_PACKET_TIME: chip_time(chip, client, packet, completion); break;
    case VNPU_PACKET_MEM_INFO:
        dev_memory_info(chip->memory, &completion->value[0], &completion->value[1],
                        &completion->value[2]);
        break;
    case VNPU_PACKET_ERROR_INFO: completion->value[0] = strlen(client->last_error.text) + 1; break;
    case VNPU_PACKET_PROFILE_START: status = chip_profile_start(chip, client, packet); break;
    case VNPU_PACKET_PROFILE_STOP:
        status = chip_profile_stop(chip, client, packet);
        completion->value[0] = client->blob_bytes;
        break;
    case VNPU_PACKET_PROGRAM_TIME: chip_program_time(chip, client, packet, completion); break;
    case VNPU_PACKET_BLOB_READ:
        chip_blob_read(chip, client, packet, payload_out, completion);
        break;
    case VNPU_PACKET_RESET: client->sticky = (sim_error_t){0}; break;
    case VNPU_PACKET_MACHINE:
        completion->value[0] = chip->machine.num_classes * sizeof chip->properties[0];
        completion->value[1] = chip->config_text_bytes + 1;
        break;
    case VNPU_PACKET_MEASURE: status = chip_measure(chip, completion); break;
    case VNPU_PACKET_TYPE_COUNT: status = SIM_ERROR_INVALID_VALUE; break;
    default: status = SIM_ERROR_INVALID_VALUE; break;
    }
    if (status != SIM_OK) {
        sim_error_t err = {0};
        sim_error_set(&err, status, "packet %llu (type %u): %s", (unsigned long long)packet->seq,
                      packet->type, sim_status_name(status));
        chip_fail(client, completion, status, &err);
    }
}

void dev_chip_execute(dev_chip_t *chip, uint32_t id, const vnpu_packet_t *packet,
                      const void *payload_in, void *payload_out,
                      vnpu_completion_t *out_completion) {
    *out_completion = (vnpu_completion_t){
        .seq = packet->seq, .start_ps = packet->host_clock_ps, .end_ps = packet->host_clock_ps};
    if (id == 0 || id > DEV_MAX_CLIENTS || !chip->client[id - 1].is_open) {
        out_completion->status = SIM_ERROR_INVALID_HANDLE;
        return;
    }
    chip_client_t *client = &chip->client[id - 1];
    if (client->sticky.status != SIM_OK && is_work((vnpu_packet_type_t)packet->type)) {
        out_completion->status = (int32_t)client->sticky.status;
        client->last_error = client->sticky;
        return;
    }
    execute(chip, client, packet, payload_in, payload_out, out_completion);
}
