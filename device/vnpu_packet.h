/*
 * The command path: packets that a client writes, completions that the chip writes, and the shared
 * memory that holds both. Fixed little-endian layout; each side copies a packet before it looks at
 * it.
 *
 * A client has one packet ring; values are computed in submission order (seq 1, 2, ...). In
 * simulated time a packet's stream and the events that it waits for order it, and its host clock
 * says when it arrives. Memory, module and query requests are packets too, so that they are ordered
 * with the work around them.
 */
#ifndef VNPU_PACKET_H
#define VNPU_PACKET_H

#include <assert.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VNPU_PROTOCOL_VERSION 2u
#define VNPU_RING_SLOTS       4096u /* 64-byte slots of the packet ring, a power of two */
#define VNPU_COMPLETION_SLOTS                                                                      \
    4096u /* completions: a packet is not submitted before completion seq - 4096 was read */
#define VNPU_STAGING_CHUNK    (512u * 1024u)
#define VNPU_STAGING_CHUNKS   4u /* each way */
#define VNPU_MAX_PACKET_SLOTS 6u /* a kernel with 32 arguments: 1 + 4 (8 arguments a slot) */

typedef enum vnpu_packet_type {
    VNPU_PACKET_NOP = 0,
    VNPU_PACKET_KERNEL = 1,         /* kernel; num_args u64 follow in the next slots, 8 a slot */
    VNPU_PACKET_COPY_H2D = 2,       /* copy; payload in */
    VNPU_PACKET_COPY_D2H = 3,       /* copy; payload out */
    VNPU_PACKET_COPY_D2D = 4,       /* copy */
    VNPU_PACKET_FILL = 5,           /* fill */
    VNPU_PACKET_ALLOC = 6,          /* alloc; completion.value[0] = address */
    VNPU_PACKET_FREE = 7,           /* mem */
    VNPU_PACKET_MODULE_LOAD = 8,    /* copy.bytes of image, payload in (chunks like a copy); value =
                                       module, mask of classes that can run it */
    VNPU_PACKET_MODULE_UNLOAD = 9,  /* mem.address = module */
    VNPU_PACKET_EVENT_RECORD = 10,  /* completion.end_ps is the event's time */
    VNPU_PACKET_EVENT_WAIT = 11,    /* mem.bytes = seq of the record waited for */
    VNPU_PACKET_MEM_INFO = 12,      /* completion.value = free, total, peak */
    VNPU_PACKET_ERROR_INFO = 13,    /* blob VNPU_BLOB_ERROR becomes readable; value[0] = its size */
    VNPU_PACKET_PROFILE_START = 14, /* mem.bytes: bit 0 = instruction-level trace slices */
    VNPU_PACKET_PROFILE_STOP =
        15, /* blob VNPU_BLOB_PROFILE becomes readable; value[0] = its size */
    VNPU_PACKET_PROGRAM_TIME =
        16, /* kernel of a loaded module, timed without values as its own epoch; value[0] = ps */
    VNPU_PACKET_BLOB_READ = 17, /* copy.device = blob | offset << 8, copy.bytes; payload out */
    VNPU_PACKET_RESET = 18,     /* clears a sticky error */
    VNPU_PACKET_MACHINE = 19,   /* blob VNPU_BLOB_MACHINE (vnpu_machine_t, one per class),
                                   VNPU_BLOB_CONFIG (text); value = their sizes */
    VNPU_PACKET_MEASURE = 20,   /* measured memory bandwidth (sim_probe.h), bytes/s: value[0] a
                                   stream, value[1] random reads */
    VNPU_PACKET_TIME = 21,      /* mem.address = vnpu_time_of_t, mem.bytes = which: value[0] = ps at
                                   which it ends, as known now */
    VNPU_PACKET_TYPE_COUNT
} vnpu_packet_type_t;

typedef enum vnpu_blob {
    VNPU_BLOB_ERROR = 1,
    VNPU_BLOB_PROFILE = 2,
    VNPU_BLOB_MACHINE = 3,
    VNPU_BLOB_CONFIG = 4
} vnpu_blob_t;

/* What VNPU_PACKET_TIME asks for. A packet that ended long ago, or failed, may answer 0; an event's
 * record never forgets. */
typedef enum vnpu_time_of {
    VNPU_TIME_OF_ALL = 0,
    VNPU_TIME_OF_STREAM = 1,
    VNPU_TIME_OF_PACKET = 2
} vnpu_time_of_t;

enum {
    VNPU_PACKET_BARRIER = 1u << 0, /* starts when its stream has drained; on by default */
    VNPU_PACKET_MORE =
        1u
        << 1, /* copy, module load: not the last chunk; only the last one is timed, with `total` */
    VNPU_PACKET_BLOCKING = 1u << 2, /* the client waits for this packet before it goes on */
    VNPU_PACKET_PINNED =
        1u << 3, /* copy: the host side is a pinned block, copy.host = block << 40 | offset */
    VNPU_PACKET_LENGTH_ONLY =
        1u << 4 /* H2D in timing mode: no payload, the destination's values become unknown */
};

typedef struct vnpu_packet_kernel {
    uint32_t module;
    uint16_t num_args;
    uint16_t core_class; /* c + 1: cores of class c; 0: those of the mask, else of the first class
                            that can run it */
    uint32_t grid[2];
    uint64_t core_mask; /* bit c: core c takes instances, all of one class; 0: every worker core of
                           the class */
    uint64_t reserved1;
} vnpu_packet_kernel_t;

typedef struct vnpu_packet_copy {
    uint64_t device; /* device address (D2D: destination) */
    uint64_t host; /* byte offset into the staging area of the direction, or see PINNED (D2D: source
                      address) */
    uint64_t bytes; /* of this chunk */
    uint64_t total; /* of the whole copy */
} vnpu_packet_copy_t;

typedef struct vnpu_packet_fill {
    uint64_t device;
    uint64_t count;   /* elements */
    uint64_t pattern; /* low `width` bytes */
    uint32_t width;   /* 1, 2, 4 or 8 */
    uint32_t reserved;
} vnpu_packet_fill_t;

/* DRAM, or the memory that lies in the cores' scratchpads (sram.shared_bytes). */
typedef enum vnpu_place { VNPU_PLACE_DRAM = 0, VNPU_PLACE_SHARED = 1 } vnpu_place_t;

typedef struct vnpu_packet_mem {
    uint64_t address;
    uint64_t bytes;
    uint64_t reserved[2];
} vnpu_packet_mem_t;

/* An allocation; row_bytes > 0: of a matrix in shards (sim/sim_shared.h), PLACE_SHARED alone. */
typedef struct vnpu_packet_alloc {
    uint64_t row_bytes;
    uint64_t bytes; /* in the place of vnpu_packet_mem_t's */
    uint32_t shard_rows, shard_row_bytes;
    uint16_t place; /* vnpu_place_t */
    uint16_t row_step, column_step;
    uint16_t reserved;
} vnpu_packet_alloc_t;

typedef struct vnpu_packet {
    uint8_t type;   /* vnpu_packet_type_t */
    uint8_t flags;  /* VNPU_PACKET_* bits */
    uint16_t slots; /* 64-byte slots of this packet, 1..VNPU_MAX_PACKET_SLOTS */
    uint32_t stream;
    uint64_t seq;
    uint64_t host_clock_ps; /* virtual host clock at submission */
    uint32_t tag;           /* the client's label, returned in profiles */
    uint32_t core;          /* copy inside DRAM, fill: the core whose DMA queues do it */
    union {
        vnpu_packet_kernel_t kernel;
        vnpu_packet_copy_t copy;
        vnpu_packet_fill_t fill;
        vnpu_packet_mem_t mem;
        vnpu_packet_alloc_t alloc;
    } u;
} vnpu_packet_t;
static_assert(sizeof(vnpu_packet_t) == 64, "packet");

/*
 * Values are complete when a completion is published; its times are those that follow from the
 * packets up to it. A later packet of another stream may overlap with work that it finds in flight:
 * its own completion is then RETIMED, and the end of every earlier packet that the client takes for
 * later than this packet's host clock is to be asked for again (VNPU_PACKET_TIME).
 */
#define VNPU_TIME_OPEN UINT64_MAX
enum { VNPU_COMPLETION_RETIMED = 1u << 0 };

typedef struct vnpu_completion {
    uint64_t seq;
    int32_t status;        /* sim_status_t */
    uint16_t inline_bytes; /* D2H of at most 24 bytes: data is in value[] */
    uint16_t flags;        /* VNPU_COMPLETION_* bits */
    uint64_t start_ps;     /* simulated time on the chip's clock, from the creation of the client */
    uint64_t end_ps; /* VNPU_TIME_OPEN: it hangs on what other streams bring; VNPU_PACKET_TIME tells
                        it */
    uint64_t value[4];
} vnpu_completion_t;
static_assert(sizeof(vnpu_completion_t) == 64, "completion");

/* First page of the shared memory. Cursors count slots (packets) and completions since the start,
 * without wrapping. */
typedef struct vnpu_control_page {
    uint32_t protocol_version;
    uint32_t bytes_total; /* of the shared memory */
    uint64_t staging_in_offset, staging_out_offset;
    uint64_t ring_offset, completion_offset;
    uint8_t pad0[64 - 40];
    _Alignas(64) _Atomic uint64_t tail; /* client: packet slots published */
    _Atomic int32_t client_cpu;         /* where the client last ran (spin rule) */
    _Alignas(64) _Atomic uint64_t head; /* chip: packet slots consumed */
    _Atomic uint32_t state;             /* chip: 0 awake, 1 light sleep, 2 deep sleep */
    _Atomic int32_t chip_cpu;
    _Alignas(64) _Atomic uint64_t done;          /* chip: completions published */
    _Atomic uint32_t done_futex;                 /* low 32 bits of done, futex word (not PRIVATE) */
    _Atomic uint32_t waiters;                    /* client: waiting on done_futex */
    _Alignas(64) _Atomic uint64_t host_clock_ps; /* client: its virtual clock, for tools */
    _Atomic uint32_t client_blocked;
} vnpu_control_page_t;

#ifdef __cplusplus
}
#endif
#endif
