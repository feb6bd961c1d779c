/*
 * The control socket between a client and its device process, and the function table of the
 * in-process device.
 *
 * Socket: SOCK_SEQPACKET, one vnpu_control_message_t a frame, always whole. The client says HELLO;
 * vnpud answers WELCOME (with the shared memory and the doorbell eventfd as SCM_RIGHTS) or ERROR.
 * Then only pinned blocks travel here: PIN -> PINNED (with the block's file descriptor) or ERROR,
 * UNPIN without an answer. Everything else is a packet (vnpu_packet.h). An ERROR that answers
 * nothing is vnpud's last word before it ends. End of file: the other side is gone.
 */
#ifndef VNPU_CONTROL_H
#define VNPU_CONTROL_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "device/vnpu_packet.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VNPU_CONTROL_MAGIC 0x4c544356u /* "VCTL" */
#define VNPU_CONTROL_FD    3           /* vnpud's end of the socket */
#define VNPU_CONTROL_TEXT  1024u

typedef enum vnpu_control_type {
    VNPU_CONTROL_HELLO = 1,   /* client: layout, pid */
    VNPU_CONTROL_WELCOME = 2, /* vnpud: layout, bytes of the shared memory; fds: memory, doorbell */
    VNPU_CONTROL_ERROR = 3,   /* vnpud: status, step, error_number, text */
    VNPU_CONTROL_PIN = 4,     /* client: bytes */
    VNPU_CONTROL_PINNED = 5,  /* vnpud: block, bytes (whole pages); fd: memory */
    VNPU_CONTROL_UNPIN = 6,   /* client: block */
} vnpu_control_type_t;

/* Sizes that both sides must have been compiled with. */
typedef struct vnpu_control_layout {
    uint32_t protocol_version;
    uint32_t packet_bytes, completion_bytes, control_page_bytes;
    uint32_t ring_slots, completion_slots;
    uint32_t staging_chunk_bytes, staging_chunks;
} vnpu_control_layout_t;

#define VNPU_CONTROL_LAYOUT                                                                        \
    {                                                                                              \
        VNPU_PROTOCOL_VERSION, (uint32_t)sizeof(vnpu_packet_t),                                    \
            (uint32_t)sizeof(vnpu_completion_t), (uint32_t)sizeof(vnpu_control_page_t),            \
            VNPU_RING_SLOTS, VNPU_COMPLETION_SLOTS, VNPU_STAGING_CHUNK, VNPU_STAGING_CHUNKS        \
    }

typedef struct vnpu_control_message {
    uint32_t magic;
    uint32_t type; /* vnpu_control_type_t */
    vnpu_control_layout_t layout;
    int32_t pid;          /* of the sender */
    int32_t status;       /* ERROR: sim_status_t */
    int32_t error_number; /* ERROR: errno, 0 if no system call failed */
    uint32_t block;       /* pinned block, >= 1 */
    uint64_t bytes;
    char step[32];                /* ERROR: what was being done */
    char text[VNPU_CONTROL_TEXT]; /* ERROR: NUL-terminated reason */
} vnpu_control_message_t;
static_assert(sizeof(vnpu_control_message_t) == 1120, "control message");

/*
 * The in-process device: libvnpu_device.so exports vnpu_device_table() and nothing else. Same
 * shared-memory layout, in plain memory of the device; nothing runs until drain() is called.
 * Statuses are sim_status_t. One thread at a time.
 */
typedef struct vnpu_device_table {
    uint32_t bytes; /* sizeof(vnpu_device_table_t) */
    vnpu_control_layout_t layout;
    /* Opens a chip as the environment says. text receives the reason of a failure. *out_shared
     * lives until close. */
    int32_t (*open)(char *const *env, void **out_device, void **out_shared,
                    uint64_t *out_shared_bytes, char *text, size_t text_bytes);
    int32_t (*drain)(void *device, char *text,
                     size_t text_bytes); /* executes all that the ring holds */
    int32_t (*pin)(void *device, void *pointer, uint64_t bytes, uint32_t *out_block);
    void (*unpin)(void *device, uint32_t block);
    void (*close)(void *device);
} vnpu_device_table_t;

typedef const vnpu_device_table_t *(*vnpu_device_table_fn)(void);
#define VNPU_DEVICE_TABLE_SYMBOL "vnpu_device_table"

#ifdef __cplusplus
}
#endif
#endif
