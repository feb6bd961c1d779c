#include "device/dev_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev_image.h"
#include "device/dev_isa_names.h"
#include "device/dev_program_internal.h"

void dev_queue_name(const vnpu_queue_section_t *section, char text[16]) {
    const char *kind = dev_queue_kind_name(section->kind);
    snprintf(text, 16, "%s%u", kind ? kind : "queue?", (unsigned)section->index);
}

void dev_semaphore_name(const dev_program_t *program, uint32_t sem, char text[80]) {
    const char *name = program->strings; /* arguments, then semaphores (device/vnpu_isa.h) */
    for (uint32_t i = 0; program->header.strings_bytes > 0 && i < program->header.num_args + sem;
         i++)
        name += strlen(name) + 1;
    if (program->header.strings_bytes > 0)
        snprintf(text, 80, "%u (%.60s)", sem, name);
    else
        snprintf(text, 80, "%u", sem);
}

bool dev_nest_range(const dev_nest_t *nest, const vnpu_insn_t *insn, uint32_t l, uint32_t *out_low,
                    uint32_t *out_high) {
    uint32_t last = nest->trips[l] - 1;
    bool is_first_only = insn->first_only >> l & 1u, is_last_only = insn->last_only >> l & 1u;
    *out_low = is_last_only ? last : 0;
    *out_high = is_first_only ? 0 : last;
    return *out_low <= *out_high;
}

static uint64_t hash_bytes(const void *data, size_t bytes) {
    const uint8_t *p = data;
    uint64_t hash = 0xcbf29ce484222325ull; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * 0x100000001b3ull;
    return hash;
}

/* Sizes and CRC: what must hold before any table of the image is looked at. */
static sim_status_t check_frame(const vnpu_program_header_t *header, const void *image,
                                size_t bytes, sim_error_t *err) {
    if (header->magic != VNPU_ISA_MAGIC) {
        return sim_error_set(err, SIM_ERROR_INVALID_IMAGE, "offset 0x0: magic 0x%08x, not 0x%08x",
                             header->magic, VNPU_ISA_MAGIC);
    }
    if (header->version != VNPU_ISA_VERSION) {
        return sim_error_set(err, SIM_ERROR_INVALID_IMAGE,
                             "offset 0x4: version %u, this device reads version %u",
                             header->version, VNPU_ISA_VERSION);
    }
    if (header->bytes != bytes) {
        return sim_error_set(err, SIM_ERROR_INVALID_IMAGE,
                             "offset 0x8: header says %u bytes, the image has %zu", header->bytes,
                             bytes);
    }
    uint32_t crc = dev_image_crc32(image, bytes);
    if (header->crc32 != crc) {
        return sim_error_set(err, SIM_ERROR_INVALID_IMAGE,
                             "offset 0xc: CRC 0x%08x, computed 0x%08x", header->crc32, crc);
    }
    uint64_t need = sizeof *header + (uint64_t)header->num_queues * sizeof(vnpu_queue_section_t) +
                    (uint64_t)header->num_insns * sizeof(vnpu_insn_t) +
                    (uint64_t)header->num_aps * sizeof(vnpu_ap_t) + header->strings_bytes;
    if (need != bytes) {
        return sim_error_set(err, SIM_ERROR_INVALID_IMAGE,
                             "offset 0x10: the tables need %zu bytes, the image has %zu",
                             (size_t)need, bytes);
    }
    if (header->num_queues > VNPU_MAX_QUEUES) {
        return sim_error_set(err, SIM_ERROR_INVALID_IMAGE, "offset 0x10: %u queues, at most %u",
                             header->num_queues, VNPU_MAX_QUEUES);
    }
    return SIM_OK;
}

/* Copies count * size bytes from *at, which moves on. NULL: out of memory. Never of zero bytes. */
static void *take(const uint8_t **at, size_t count, size_t size) {
    void *copy = malloc(count * size + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, *at, count * size);
    *at += count * size;
    return copy;
}

static sim_status_t copy_tables(dev_program_t *program, const void *image) {
    const vnpu_program_header_t *header = &program->header;
    const uint8_t *at = (const uint8_t *)image + sizeof *header;
    size_t queue_bytes = header->num_queues * sizeof(vnpu_queue_section_t);
    memcpy(program->queue, at, queue_bytes);
    at += queue_bytes;
    program->insn = take(&at, header->num_insns, sizeof(vnpu_insn_t));
    if (program->insn == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    program->ap = take(&at, header->num_aps, sizeof(vnpu_ap_t));
    if (program->ap == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    program->strings = take(&at, header->strings_bytes, 1);
    if (program->strings == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    program->match = calloc((size_t)header->num_insns + 1, sizeof program->match[0]);
    return program->match == NULL ? SIM_ERROR_OUT_OF_MEMORY : SIM_OK;
}

sim_status_t dev_program_load(const void *image, size_t bytes, const dev_machine_t *machine,
                              dev_program_t **out_program, sim_error_t *err) {
    *out_program = NULL;
    if (bytes < sizeof(vnpu_program_header_t)) {
        return sim_error_set(err, SIM_ERROR_INVALID_IMAGE,
                             "offset 0x0: %zu bytes are less than a header (%zu)", bytes,
                             sizeof(vnpu_program_header_t));
    }
    vnpu_program_header_t header;
    memcpy(&header, image, sizeof header);
    sim_status_t status = check_frame(&header, image, bytes, err);
    if (status != SIM_OK) return status;
    dev_program_t *program = calloc(1, sizeof *program);
    if (program == NULL) {
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "program of %zu bytes", bytes);
    }
    program->header = header;
    status = copy_tables(program, image);
    if (status != SIM_OK) {
        sim_error_set(err, status, "program of %zu bytes", bytes);
        goto fail;
    }
    program->hash = hash_bytes(image, bytes);
    status = dev_program_validate(program, machine, err);
    if (status != SIM_OK) goto fail;
    *out_program = program;
    return SIM_OK;
fail:
    dev_program_destroy(program);
    return status;
}

dev_program_t *dev_program_retain(const dev_program_t *program) {
    dev_program_t *shared =
        (dev_program_t *)(uintptr_t)program; /* a count is no part of what the program says */
    shared->users++;
    return shared;
}

void dev_program_destroy(dev_program_t *program) {
    if (program == NULL) return;
    if (program->users > 0) {
        program->users--;
        return;
    }
    free(program->insn);
    free(program->ap);
    free(program->strings);
    free(program->match);
    free(program);
}

/* ---- teams ---- */

bool dev_place_matches(uint16_t place, const uint32_t grid_pos[VNPU_MAX_AXES]) {
    for (uint32_t a = 0; a < VNPU_MAX_AXES; a++) {
        uint32_t wanted = vnpu_place_axis(place, a);
        if (wanted != VNPU_PLACE_ANY && wanted != grid_pos[a]) return false;
    }
    return true;
}

bool dev_insn_reaches(const vnpu_insn_t *insn, const uint32_t from[VNPU_MAX_AXES],
                      const uint32_t to[VNPU_MAX_AXES]) {
    for (uint32_t a = 0; a < VNPU_MAX_AXES; a++) {
        uint32_t wanted = from[a];
        if (insn->remote_core != 0 && vnpu_place_axis(insn->remote_core, a) != VNPU_PLACE_ANY) {
            wanted = vnpu_place_axis(insn->remote_core, a);
        }
        bool is_free = (insn->multicast >> a & 1u) != 0;
        if (!is_free && to[a] != wanted) return false;
    }
    return true;
}

sim_status_t dev_launch_check_team(const dev_launch_t *launch, sim_error_t *err) {
    const dev_program_t *program = launch->program;
    if (!program->is_team) return SIM_OK;
    uint64_t cores = 0, instances = (uint64_t)launch->grid[0] * launch->grid[1];
    for (uint32_t w = 0; w < DEV_MAX_CORES / 64; w++)
        cores += (uint64_t)__builtin_popcountll(launch->core_mask[w]);
    if (instances > cores) {
        return sim_error_set(
            err, SIM_ERROR_INVALID_VALUE,
            "%s: its instances signal each other, so all run at once: grid %u x %u "
            "needs %llu cores, the launch has %llu",
            program->header.name, launch->grid[0], launch->grid[1], (unsigned long long)instances,
            (unsigned long long)cores);
    }
    const uint32_t *least = program->team_grid;
    if (launch->grid[0] < least[0] || launch->grid[1] < least[1]) {
        return sim_error_set(err, SIM_ERROR_INVALID_VALUE,
                             "%s: it signals instance %u:%u, the grid is %u x %u",
                             program->header.name, least[0] > 0 ? least[0] - 1 : 0,
                             least[1] > 0 ? least[1] - 1 : 0, launch->grid[0], launch->grid[1]);
    }
    return SIM_OK;
}
