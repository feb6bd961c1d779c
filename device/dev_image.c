#include "device/dev_image.h"

#include <stdlib.h>
#include <string.h>

#define CRC_OFFSET offsetof(vnpu_program_header_t, crc32)

static uint32_t crc_update(uint32_t crc, const uint8_t *bytes, size_t count) {
    /* Reflected polynomial, four bits at a step: entry i is the remainder of i. */
    static const uint32_t nibble[16] = {0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu,
                                        0x76dc4190u, 0x6b6b51f4u, 0x4db26158u, 0x5005713cu,
                                        0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu,
                                        0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu};
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        crc = nibble[crc & 15u] ^ crc >> 4;
        crc = nibble[crc & 15u] ^ crc >> 4;
    }
    return crc;
}

uint32_t dev_image_crc32(const void *image, size_t bytes) {
    static const uint8_t zero[4] = {0};
    const uint8_t *p = image;
    uint32_t crc = crc_update(0xffffffffu, p, CRC_OFFSET);
    crc = crc_update(crc, zero, sizeof zero);
    size_t rest = CRC_OFFSET + sizeof zero;
    return ~crc_update(crc, p + rest, bytes - rest);
}

void dev_image_seal(void *image, size_t bytes) {
    uint32_t crc = dev_image_crc32(image, bytes);
    memcpy((uint8_t *)image + CRC_OFFSET, &crc, sizeof crc);
}

static uint8_t *append(uint8_t *at, const void *from, size_t bytes) {
    if (bytes > 0) memcpy(at, from, bytes);
    return at + bytes;
}

static uint8_t *append_sections(uint8_t *at, const dev_image_tables_t *tables) {
    uint32_t first = 0;
    for (uint32_t q = 0; q < tables->num_queues; q++) {
        vnpu_queue_section_t section = tables->queue[q];
        section.first = first;
        first += section.count;
        at = append(at, &section, sizeof section);
    }
    return at;
}

sim_status_t dev_image_write(const dev_image_tables_t *tables, void **out_image, size_t *out_bytes,
                             sim_error_t *err) {
    *out_image = NULL;
    *out_bytes = 0;
    uint64_t bytes = sizeof(vnpu_program_header_t) +
                     (uint64_t)tables->num_queues * sizeof(vnpu_queue_section_t) +
                     (uint64_t)tables->num_insns * sizeof(vnpu_insn_t) +
                     (uint64_t)tables->num_aps * sizeof(vnpu_ap_t) + tables->strings_bytes;
    vnpu_program_header_t header = {.magic = VNPU_ISA_MAGIC,
                                    .version = VNPU_ISA_VERSION,
                                    .bytes = (uint32_t)bytes,
                                    .num_queues = (uint16_t)tables->num_queues,
                                    .num_args = (uint16_t)tables->num_args,
                                    .num_sems = (uint16_t)tables->num_sems,
                                    .num_insns = tables->num_insns,
                                    .num_aps = tables->num_aps,
                                    .sram_bytes = tables->sram_bytes,
                                    .acc_bytes = tables->acc_bytes,
                                    .strings_bytes = tables->strings_bytes};
    if (bytes > UINT32_MAX || tables->num_queues > VNPU_MAX_QUEUES ||
        tables->num_args > VNPU_MAX_ARGS || tables->num_sems > VNPU_MAX_SEMS ||
        tables->num_aps > VNPU_NO_AP || strlen(tables->name) >= sizeof header.name) {
        return sim_error_set(err, SIM_ERROR_INVALID_VALUE,
                             "%.60s: tables too large for an image, or the name too long",
                             tables->name);
    }
    if (tables->num_args > 0) memcpy(header.arg_kind, tables->arg_kind, tables->num_args);
    memcpy(header.name, tables->name, strlen(tables->name));
    uint8_t *image = malloc(bytes);
    if (image == NULL) {
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "%s: image of %zu bytes", tables->name,
                             (size_t)bytes);
    }
    uint8_t *at = append(image, &header, sizeof header);
    at = append_sections(at, tables);
    at = append(at, tables->insn, tables->num_insns * sizeof(vnpu_insn_t));
    at = append(at, tables->ap, tables->num_aps * sizeof(vnpu_ap_t));
    append(at, tables->strings, tables->strings_bytes);
    dev_image_seal(image, bytes);
    *out_image = image;
    *out_bytes = bytes;
    return SIM_OK;
}

vnpu_insn_t dev_image_insn(vnpu_op_t op) {
    vnpu_insn_t insn = {.op = (uint8_t)op, .dst = VNPU_NO_AP};
    for (int i = 0; i < 4; i++)
        insn.src[i] = VNPU_NO_AP;
    for (int i = 0; i < 2; i++) {
        insn.wait[i].sem = VNPU_NO_SEM;
        insn.signal[i].sem = VNPU_NO_SEM;
    }
    return insn;
}

vnpu_ap_t dev_image_ap(vnpu_space_t space, vnpu_dtype_t dtype) {
    return (vnpu_ap_t){.space = (uint8_t)space,
                       .dtype = (uint8_t)dtype,
                       .arg = VNPU_NO_ARG,
                       .rot_loop = VNPU_NO_LOOP,
                       .rot_count = 1};
}
