/* The profile: launches remembered while a client profiles, and the blob that holds them
 * (device/vnpu_profile.h). */
#include "device/dev_chip_internal.h"

#include <stdlib.h>
#include <string.h>

#define RECORD_NONE 0xffffffffu

uint32_t chip_profile_add(chip_client_t *client, const vnpu_packet_t *packet,
                          vnpu_launch_kind_t kind, uint64_t bytes) {
    if (!client->is_profiling) return CHIP_NO_ROW;
    if (client->num_launches == client->launch_capacity) {
        uint32_t capacity = client->launch_capacity == 0 ? 1024 : client->launch_capacity * 2;
        chip_launch_t *launch = realloc(client->launch, capacity * sizeof *launch);
        if (launch == NULL) sim_bug("profile", packet->seq, "no memory for %u launches", capacity);
        client->launch = launch;
        client->launch_capacity = capacity;
    }
    client->launch[client->num_launches] =
        (chip_launch_t){.row = {.seq = packet->seq,
                                .stream = packet->stream,
                                .tag = packet->tag,
                                .kind = (uint32_t)kind,
                                .record = RECORD_NONE,
                                .arrival_ps = packet->host_clock_ps,
                                .start_ps = packet->host_clock_ps,
                                .end_ps = packet->host_clock_ps,
                                .bytes = bytes}};
    return client->num_launches++;
}

void chip_profile_set(chip_client_t *client, const chip_node_t *node) {
    chip_launch_t *launch = &client->launch[node->row];
    launch->row.start_ps = node->start_ps;
    launch->row.end_ps = node->host_end_ps;
    launch->row.is_reused = node->is_reused;
    launch->record = node->record;
}

/* A profile begins and ends when the chip has drained and the host has come to ask: work of the
 * host before it (a priced fallback) is not part of it, work of the host at its end is. */
static uint64_t profile_now_ps(const dev_chip_t *chip, const vnpu_packet_t *packet) {
    if (chip->timing == NULL) return 0; /* functional: no time passes on the chip */
    return chip->drain_ps > packet->host_clock_ps ? chip->drain_ps : packet->host_clock_ps;
}

sim_status_t chip_profile_start(dev_chip_t *chip, chip_client_t *client,
                                const vnpu_packet_t *packet) {
    chip_close_times(chip);
    free(client->blob);
    client->blob = NULL;
    client->blob_bytes = 0;
    client->num_launches = 0;
    client->is_profiling = true;
    client->with_slices = packet->u.mem.bytes & 1;
    client->profile_start_ps = profile_now_ps(chip, packet);
    dev_reuse_drop_kept(chip->reuse);
    return SIM_OK;
}

/* Gives every distinct record of the launches an index; returns their number. records: room for
 * num_launches. */
static uint32_t number_records(chip_client_t *client, const dev_record_t **records) {
    uint32_t count = 0, max_id = 0;
    for (uint32_t i = 0; i < client->num_launches; i++) {
        const dev_record_t *record = client->launch[i].record;
        if (record != NULL && record->id > max_id) max_id = record->id;
    }
    uint32_t *index = calloc((size_t)max_id + 1, sizeof *index); /* by id: position + 1 */
    if (index == NULL) return RECORD_NONE;
    for (uint32_t i = 0; i < client->num_launches; i++) {
        const dev_record_t *record = client->launch[i].record;
        if (record == NULL) continue;
        if (index[record->id] == 0) {
            records[count++] = record;
            index[record->id] = count;
        }
        client->launch[i].row.record = index[record->id] - 1;
    }
    free(index);
    return count;
}

static uint64_t record_bytes(const dev_chip_t *chip, const dev_record_t *record) {
    uint64_t causes =
        chip->timing == NULL ? 0 : (uint64_t)dev_timing_engines(chip->timing) * SIM_CAUSE_COUNT;
    return sizeof(vnpu_profile_record_t) + causes * sizeof(uint64_t) +
           record->num_slices * sizeof(vnpu_profile_slice_t);
}

static void write_record(const dev_chip_t *chip, const dev_record_t *record, uint8_t *to) {
    vnpu_profile_record_t row = {.key = record->key[0],
                                 .duration_ps = record->duration_ticks * SIM_TICK_PS,
                                 .macs = record->macs,
                                 .padded_macs = record->padded_macs,
                                 .dram_read_bytes = record->dram_read_bytes,
                                 .dram_written_bytes = record->dram_written_bytes,
                                 .bus_read_bytes = record->bus_read_bytes,
                                 .bus_written_bytes = record->bus_written_bytes,
                                 .row_hits = record->row_hits,
                                 .row_closed = record->row_closed,
                                 .row_conflicts = record->row_conflicts,
                                 .cache_hits = record->cache_hits,
                                 .cache_misses = record->cache_misses,
                                 .cache_evicted = record->cache_evicted,
                                 .insns = record->insns,
                                 .vector_elems = record->vector_elems,
                                 .shared_read_bytes = record->shared_read_bytes,
                                 .shared_written_bytes = record->shared_written_bytes,
                                 .num_slices = record->num_slices,
                                 .bytes = (uint32_t)record_bytes(chip, record)};
    memcpy(row.name, record->name, sizeof row.name);
    memcpy(row.energy_fj, record->energy_fj, sizeof row.energy_fj);
    memcpy(to, &row, sizeof row);
    to += sizeof row;
    uint32_t causes = dev_timing_engines(chip->timing) * SIM_CAUSE_COUNT;
    for (uint32_t i = 0; i < causes; i++) {
        uint64_t ps = record->cause_ticks[i] * SIM_TICK_PS;
        memcpy(to, &ps, sizeof ps);
        to += sizeof ps;
    }
    for (uint32_t i = 0; i < record->num_slices; i++) {
        vnpu_profile_slice_t slice = record->slice[i];
        slice.start_ps *= SIM_TICK_PS;
        slice.end_ps *= SIM_TICK_PS;
        memcpy(to, &slice, sizeof slice);
        to += sizeof slice;
    }
}

static uint64_t write_names(const dev_chip_t *chip, uint8_t *to) {
    uint64_t used = 0;
    uint32_t engines = chip->timing == NULL ? 0 : dev_timing_engines(chip->timing);
    for (uint32_t e = 0; e < engines; e++) {
        char name[32];
        dev_timing_engine_name(chip->timing, e, name);
        size_t bytes = strlen(name) + 1;
        if (to != NULL) memcpy(to + used, name, bytes);
        used += bytes;
    }
    for (uint32_t c = 0; c < SIM_CAUSE_COUNT; c++) {
        const char *name = sim_cause_name((sim_cause_t)c);
        size_t bytes = strlen(name) + 1;
        if (to != NULL) memcpy(to + used, name, bytes);
        used += bytes;
    }
    return used;
}

static sim_status_t write_blob(dev_chip_t *chip, chip_client_t *client, uint64_t end_ps,
                               const dev_record_t *const *records, uint32_t count) {
    vnpu_profile_header_t header = {.magic = VNPU_PROFILE_MAGIC,
                                    .version = VNPU_PROFILE_VERSION,
                                    .num_launches = client->num_launches,
                                    .num_records = count,
                                    .num_engines =
                                        chip->timing == NULL ? 0 : dev_timing_engines(chip->timing),
                                    .num_causes = SIM_CAUSE_COUNT,
                                    .start_ps = client->profile_start_ps,
                                    .end_ps = end_ps,
                                    .launches_offset = sizeof header};
    if (chip->timing != NULL) {
        const sim_energy_table_t *energy = dev_timing_energy_table(chip->timing);
        header.static_mw = energy->static_mw;
        header.link_fj_per_byte = energy->fj[SIM_ENERGY_LINK_BYTE];
    }
    uint64_t ignored_free, ignored_total;
    dev_memory_info(chip->memory, &ignored_free, &ignored_total, &header.memory_peak_bytes);
    header.records_offset =
        header.launches_offset + client->num_launches * sizeof(vnpu_profile_launch_t);
    header.names_offset = header.records_offset;
    for (uint32_t i = 0; i < count; i++)
        header.names_offset += record_bytes(chip, records[i]);
    header.bytes = header.names_offset + write_names(chip, NULL);
    client->blob = malloc(header.bytes);
    if (client->blob == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    client->blob_bytes = header.bytes;
    memcpy(client->blob, &header, sizeof header);
    uint8_t *to = client->blob + header.launches_offset;
    for (uint32_t i = 0; i < client->num_launches; i++, to += sizeof(vnpu_profile_launch_t)) {
        memcpy(to, &client->launch[i].row, sizeof(vnpu_profile_launch_t));
    }
    for (uint32_t i = 0; i < count; i++) {
        write_record(chip, records[i], to);
        to += record_bytes(chip, records[i]);
    }
    write_names(chip, to);
    return SIM_OK;
}

sim_status_t chip_profile_stop(dev_chip_t *chip, chip_client_t *client,
                               const vnpu_packet_t *packet) {
    if (!client->is_profiling) return SIM_ERROR_NOT_PERMITTED;
    chip_close_times(chip);
    client->is_profiling = false;
    const dev_record_t **records =
        calloc((size_t)client->num_launches + 1, sizeof(const dev_record_t *));
    if (records == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    uint32_t count = number_records(client, records);
    sim_status_t status = SIM_ERROR_OUT_OF_MEMORY;
    if (count != RECORD_NONE)
        status = write_blob(chip, client, profile_now_ps(chip, packet), records, count);
    free(records);
    return status;
}
