/*
 * Program builder: writes the instruction streams of one program and packs them into an image
 * (device/vnpu_isa.h).
 *
 * A family emits its loop nest once: kern_loop opens the loop on every queue, kern_end closes it;
 * queues on which a loop stays empty lose it when the image is made. Loads and stores are two
 * roles: on a chip with one DMA queue both go to it, so a family emits the store of a tile after
 * its loads and cannot deadlock.
 *
 * Rings. A ring is a set of buffers between a producer queue and a consumer queue with two counting
 * semaphores: `full` (the producer signals, the consumer waits) and `free` (the reverse). kern_ring
 * gives the consumer's initial credits. Buffers are chosen by rotation over a loop counter, so the
 * trip count of that loop must be a multiple of the number of buffers when an outer loop repeats it
 * (kern_nest.h pads).
 *
 * Misuse (too many semaphores, SRAM beyond the machine, an unclosed loop) is a bug of the library:
 * it aborts with the program's name. Not thread-safe; a builder belongs to one call.
 */
#ifndef KERN_BUILDER_H
#define KERN_BUILDER_H

#include <stdbool.h>
#include <stddef.h>

#include "device/vnpu_isa.h"
#include "driver/vnpu.h"

typedef enum kern_queue {
    KERN_LOAD = 0, /* DMA queue 0 */
    KERN_STORE,    /* DMA queue 1, or 0 on a chip with one */
    KERN_MATRIX,
    KERN_VECTOR,
    KERN_QUEUE_COUNT
} kern_queue_t;

typedef struct kern_stream {
    vnpu_insn_t *insn;
    uint32_t count, capacity;
    uint32_t depth; /* open loops */
} kern_stream_t;

typedef struct kern_builder {
    const vnpu_machine_t *machine;
    char name[52];
    kern_stream_t stream[KERN_QUEUE_COUNT];
    vnpu_ap_t *ap;
    uint32_t num_aps, ap_capacity;
    uint32_t num_sems, num_args;
    uint8_t arg_kind[VNPU_MAX_ARGS];
    uint64_t sram_bytes, acc_bytes; /* allocated */
    uint64_t sram_far_bytes;        /* from the end of the scratchpad */
    bool is_out_of_memory;          /* reported by kern_builder_image */
} kern_builder_t;

/* name: printable, cut to 51 characters. */
void kern_builder_init(kern_builder_t *builder, const vnpu_machine_t *machine, const char *name);
void kern_builder_fini(kern_builder_t *builder);

uint8_t kern_arg(kern_builder_t *builder, vnpu_arg_kind_t kind);
uint16_t kern_sem(kern_builder_t *builder);
/* Byte offset of a new block, aligned to 64 bytes. */
uint32_t kern_sram(kern_builder_t *builder, uint64_t bytes);
/* The same for what is read beside the rest: from the end of a scratchpad whose banks are blocks,
 * so that it lies in other banks as far as there is room. */
uint32_t kern_sram_far(kern_builder_t *builder, uint64_t bytes);
uint32_t kern_acc(kern_builder_t *builder, uint64_t bytes);
/* What kern_sram(bytes) takes up. */
uint64_t kern_align(uint64_t bytes);
/* Values and bytes from one buffer of `elems` values to the next: whole blocks, 64 bytes aligned.
 */
uint64_t kern_buffer_elems(vnpu_dtype_t dtype, uint64_t elems);
uint64_t kern_buffer_bytes(vnpu_dtype_t dtype, uint64_t elems);

/* A pattern without argument, rotation, increments, clips and dimensions. Patterns count values
 * here, whatever their type; kern_builder_image makes blocks of them (vnpu_dtype_block). */
vnpu_ap_t kern_ap_make(vnpu_space_t space, vnpu_dtype_t dtype, int64_t base);
void kern_ap_dim(vnpu_ap_t *ap, uint32_t size, int64_t stride); /* appends a dimension */
uint32_t kern_ap_clip(vnpu_ap_t *ap, vnpu_clip_t clip); /* appends a clip; returns its number */
/* Buffers of `elems` elements, turned by loop `level`; count 1 or level VNPU_NO_LOOP: none. */
void kern_ap_rotate(vnpu_ap_t *ap, uint8_t level, uint32_t count, uint64_t elems);
/* From now on by the iterations of the whole nest from `outer` in: trip counts are free then. */
void kern_ap_rotate_nest(vnpu_ap_t *ap, uint8_t outer);
/* Index of the pattern in the table; equal patterns share an entry. */
uint16_t kern_ap(kern_builder_t *builder, const vnpu_ap_t *ap);
/* The pattern of an index. */
vnpu_ap_t kern_ap_of(const kern_builder_t *builder, uint16_t index);
/*
 * Merges dimensions that continue each other in every one of the patterns (same sizes, outer not
 * clipped inside); the shape that the vector unit sees then has as few and as long rows as
 * possible. keep: innermost dimensions left alone.
 */
void kern_ap_merge(vnpu_ap_t **ap, uint32_t count, uint32_t keep);

void kern_loop(kern_builder_t *builder, uint32_t trips); /* on every queue */
void kern_end(kern_builder_t *builder);
void kern_queue_loop(kern_builder_t *builder, kern_queue_t queue, uint32_t trips); /* on one */
void kern_queue_end(kern_builder_t *builder, kern_queue_t queue);

/* A new instruction without operands; the pointer is good until the next one is emitted on the
 * queue. Never NULL. */
vnpu_insn_t *kern_emit(kern_builder_t *builder, kern_queue_t queue, vnpu_op_t op);
/* Number of the queue's last instruction, and the instruction of a number. Good after others were
 * emitted and after a failed allocation. */
uint32_t kern_last(const kern_builder_t *builder, kern_queue_t queue);
vnpu_insn_t *kern_insn(kern_builder_t *builder, kern_queue_t queue, uint32_t number);
void kern_wait(vnpu_insn_t *insn, uint16_t sem, uint32_t value); /* VNPU_NO_SEM: nothing */
void kern_signal(vnpu_insn_t *insn, uint16_t sem, int32_t delta);
/* SYNC instructions. */
vnpu_insn_t *kern_sync_wait(kern_builder_t *builder, kern_queue_t queue, uint16_t sem,
                            uint32_t value);
void kern_sync_signal(kern_builder_t *builder, kern_queue_t queue, uint16_t sem, int32_t delta);

typedef struct kern_ring {
    uint16_t full, free;
} kern_ring_t;
/* buffers: credits that `consumer` gives before its first instruction. */
kern_ring_t kern_ring(kern_builder_t *builder, kern_queue_t consumer, uint32_t buffers);

/* Physical queue of a role (KERN_STORE is KERN_LOAD on a chip with one DMA queue). */
kern_queue_t kern_physical(const kern_builder_t *builder, kern_queue_t queue);

/* The image, malloc'ed; NULL when out of memory. */
void *kern_builder_image(kern_builder_t *builder, size_t *out_bytes);

/* f32 as an immediate. */
uint32_t kern_f32_bits(float value);

#endif
