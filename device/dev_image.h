/*
 * Writing program images from tables: the last step of the assembler, and how tests make images.
 * Nothing is checked here beyond sizes: dev_program_load does that.
 *
 * The strings of an image are either absent (strings_bytes 0) or the names of all arguments, then
 * all semaphores, then all access patterns, in order, each NUL-terminated. A name is
 * [A-Za-z_][A-Za-z0-9_]*, at most 63 characters, unique in its class.
 */
#ifndef DEV_IMAGE_H
#define DEV_IMAGE_H

#include "device/vnpu_isa.h"
#include "sim/sim_status.h"

/* All borrowed. num_insns is the sum of the queues' counts; `first` of each section is filled in by
 * the writer. */
typedef struct dev_image_tables {
    const char *name; /* at most 51 characters */
    const vnpu_queue_section_t *queue;
    const vnpu_insn_t *insn;
    const vnpu_ap_t *ap;
    const uint8_t *arg_kind;
    const char *strings;
    uint32_t num_queues, num_insns, num_aps, num_args, num_sems;
    uint32_t sram_bytes, acc_bytes, strings_bytes;
} dev_image_tables_t;

/* *out_image: malloc'ed, the caller frees it. */
sim_status_t dev_image_write(const dev_image_tables_t *tables, void **out_image, size_t *out_bytes,
                             sim_error_t *err) SIM_MUST_USE;

/* CRC-32 (polynomial 0xEDB88320) of an image, taken with the header's crc32 field as zero. bytes >=
 * the header's size. */
uint32_t dev_image_crc32(const void *image, size_t bytes);
/* Writes the right CRC into an image that was changed. */
void dev_image_seal(void *image, size_t bytes);

/* An instruction without operands, waits and signals; a pattern without argument, rotation and
 * clips. */
vnpu_insn_t dev_image_insn(vnpu_op_t op);
vnpu_ap_t dev_image_ap(vnpu_space_t space, vnpu_dtype_t dtype);

#endif
