/*
 * Inside the driver. One device, one mutex: every function here is called with the device's lock
 * held unless it says otherwise. Waits release the lock and take it again; the caller's `users`
 * count keeps the device from being closed.
 *
 * Completions are read in order: packet `seq` is done when seq <= read_seq. A stream's last
 * completions and an event's time are kept in simulated time, so nothing that a call answers
 * depends on when the completion happened to be read.
 */
#ifndef VNPU_INTERNAL_H
#define VNPU_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "device/vnpu_control.h"
#include "device/vnpu_packet.h"
#include "driver/vnpu.h"
#include "driver/vnpu_sim.h"

#define VNPU__STAGING_BYTES ((uint64_t)VNPU_STAGING_CHUNK * VNPU_STAGING_CHUNKS)
#define VNPU__DEVICE_BASE   UINT64_C(0x200000000000)
#define VNPU__TEXT          2048u

typedef struct vnpu__device vnpu__device_t;

/* --- errors (vnpu_error.c; no lock) --- */
/* Sets the detail of this thread and returns status. */
vnpu_status_t vnpu__fail(vnpu_status_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* --- handles (vnpu_table.c) --- */
typedef enum vnpu__kind { VNPU__STREAM = 1, VNPU__EVENT = 2, VNPU__MODULE = 3 } vnpu__kind_t;

/* First member of every object. Objects are recycled, never freed: a stale handle meets another
 * generation. */
typedef struct vnpu__object {
    uint32_t slot, generation;
    uint32_t next_free; /* slot + 1 */
    bool is_live;
} vnpu__object_t;

typedef struct vnpu__table {
    vnpu__kind_t kind;
    size_t object_bytes;
    vnpu__object_t **object;
    uint32_t count, capacity;
    uint32_t first_free; /* slot + 1, 0: none */
} vnpu__table_t;

void *vnpu__table_add(vnpu__table_t *table,
                      uint64_t *out_handle); /* zeroed behind its header; NULL: no memory */
void *vnpu__table_find(const vnpu__table_t *table, uint64_t handle);
void vnpu__table_remove(vnpu__table_t *table, void *object);

/* --- objects --- */
typedef struct vnpu__point {
    uint64_t seq, end_ps;
} vnpu__point_t; /* end_ps holds once seq <= read_seq; VNPU_TIME_OPEN: the chip has to be asked */

typedef struct vnpu__stream {
    vnpu__object_t object;
    uint32_t id; /* in packets; never used twice */
    int priority;
    uint64_t count;       /* timed packets so far */
    uint64_t last_seq;    /* of the last one */
    uint64_t last_end_ps; /* latest end read, or VNPU_TIME_OPEN */
    vnpu__point_t *point; /* of the last queue_depth packets */
    uint64_t core_mask;   /* of launches that name no cores, 0: every worker core */
} vnpu__stream_t;

typedef struct vnpu__event {
    vnpu__object_t object;
    uint64_t seq;    /* of the record, 0: never recorded */
    uint64_t end_ps; /* or VNPU_TIME_OPEN */
} vnpu__event_t;

typedef struct vnpu__module {
    vnpu__object_t object;
    uint32_t device_id;
    uint32_t num_args;
} vnpu__module_t;

/* A packet's answer, for a caller that waits for it. */
typedef struct vnpu__ticket {
    uint64_t seq;
    vnpu_completion_t completion;
} vnpu__ticket_t;

/* What to do when a completion is read. */
typedef struct vnpu__inflight {
    vnpu__stream_t *stream;
    vnpu__event_t *event;
    vnpu__ticket_t *ticket;
    uint32_t stream_generation, event_generation;
    uint64_t position;    /* of the packet in its stream */
    uint64_t clock_ps;    /* at its submission */
    uint64_t staging_end; /* staging in front of this cursor is free, 0: none used */
} vnpu__inflight_t;

typedef struct vnpu__allocation {
    uint64_t address, bytes;
} vnpu__allocation_t;

typedef struct vnpu__pinned {
    uint8_t *pointer;
    uint64_t bytes, mapped_bytes;
    uint32_t block;
    uint64_t last_seq; /* last packet that uses it */
} vnpu__pinned_t;

/* How packets reach the chip. */
typedef struct vnpu__transport {
    const char *name;
    /* Fills device->shared and device->shared_bytes; sets the thread's detail on failure and leaves
     * nothing behind. */
    vnpu_status_t (*open)(vnpu__device_t *device);
    void (*close)(vnpu__device_t *device);
    void (*published)(vnpu__device_t *device, uint64_t tail);
    /* No lock. Until `seq` is done (true) or the device is gone (false). */
    bool (*wait)(vnpu__device_t *device, uint64_t seq);
    /* Why wait() said false. Called once. */
    void (*obituary)(vnpu__device_t *device, char *text, size_t text_bytes);
    vnpu_status_t (*pin)(vnpu__device_t *device, uint64_t bytes, vnpu__pinned_t *out_pinned);
    void (*unpin)(vnpu__device_t *device, const vnpu__pinned_t *pinned);
    void (*fork_child)(vnpu__device_t *device); /* async-signal-safe */
} vnpu__transport_t;

extern const vnpu__transport_t vnpu__process_transport, vnpu__inproc_transport;

typedef enum vnpu__state {
    VNPU__UNSTARTED,
    VNPU__STARTING,
    VNPU__READY,
    VNPU__CLOSING,
    VNPU__SHUT_DOWN
} vnpu__state_t;

struct vnpu__device {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* state, users, is_reading_out, is_loading */
    vnpu__state_t state;
    atomic_bool is_forked;
    uint32_t users;

    const vnpu__transport_t *transport;
    int64_t pid; /* of vnpud, 0 in-process */
    int socket, doorbell;
    void *library, *inproc; /* dlopen handle, device of the table */
    const vnpu_device_table_t *table;
    bool is_inproc_broken;

    void *shared;
    uint64_t shared_bytes;
    vnpu_control_page_t *control;
    uint8_t *ring, *staging_in, *staging_out;
    const vnpu_completion_t *completions;
    void *reserved; /* PROT_NONE range of device addresses, NULL: not reserved */

    uint64_t next_seq, read_seq, tail;
    uint64_t staging_head, staging_tail; /* byte cursors of the H2D staging ring */
    uint64_t clock_ps;                   /* virtual host clock */
    uint64_t max_end_ps;                 /* over every timed packet read, or VNPU_TIME_OPEN */
    uint32_t last_stream_id;             /* of the timed packet submitted last */
    uint64_t switch_seq; /* latest timed packet of another stream than the one before it */
    vnpu__inflight_t inflight[VNPU_COMPLETION_SLOTS];
    bool is_reading_out,
        is_loading; /* staging-out and the chip's image buffer have one user at a time */

    /* First fault of a program (sticky), and first failure of other asynchronous work (reported
     * once). */
    vnpu_status_t fault, failure;
    uint64_t fault_seq, failure_seq;
    bool is_fault_reported, is_lost, is_loss_reported;
    char fault_text[VNPU__TEXT], lost_text[VNPU__TEXT];

    vnpu_machine_t machine; /* of class 0 */
    vnpu_machine_t class_machine[VNPU_MAX_CLASSES];
    char *config_text;
    void *profile;
    uint32_t next_stream_id;
    vnpu__stream_t default_stream;
    vnpu__table_t streams, events, modules;
    vnpu__allocation_t *allocation; /* sorted by address */
    uint32_t num_allocations, max_allocations;
    vnpu__pinned_t *pinned;
    uint32_t num_pinned, max_pinned;
};

/* --- entry and exit of every public function (vnpu_device.c; enter takes the lock, leave gives it
 * back) --- */
/* Starts the device if it never was. With a sticky fault already reported: fails unless
 * `allow_fault`. */
vnpu_status_t vnpu__enter(int device_index, bool allow_fault, vnpu__device_t **out_device);
vnpu_status_t vnpu__leave(vnpu__device_t *device, vnpu_status_t status);
vnpu_status_t vnpu__start(vnpu__device_t *device);
void vnpu__stop(vnpu__device_t *device);
/* Directory of this library, with a trailing '/'; "" if unknown. No lock. */
void vnpu__library_dir(char *path, size_t bytes);

/* Bytes of device addresses: DRAM, and behind it the shared scratchpad memory. */
static inline uint64_t vnpu__address_bytes(const vnpu__device_t *device) {
    return device->machine.dram_bytes + device->machine.shared_bytes;
}

/* --- packets (vnpu_queue.c) --- */
typedef struct vnpu__request {
    vnpu_packet_t packet; /* type, flags, tag, u: the caller's; the rest is filled in */
    uint64_t args[8u * (VNPU_MAX_PACKET_SLOTS - 1u)];
    uint32_t num_args;
    vnpu__stream_t *stream; /* NULL: not timed in a stream */
    bool is_partial;        /* a chunk that is not the last: in the stream, but not counted */
    vnpu__event_t *event;
    vnpu__ticket_t *ticket;
    const void *payload; /* goes through staging; at most one chunk */
    uint32_t payload_bytes;
} vnpu__request_t;

/* Writes the packet once ring, staging and the stream's depth allow. *out_seq may be NULL. */
vnpu_status_t vnpu__submit(vnpu__device_t *device, vnpu__request_t *request, uint64_t *out_seq);
/* Waits until `seq` is done. Statuses of packets are not looked at. */
vnpu_status_t vnpu__wait(vnpu__device_t *device, uint64_t seq);
/* What the stream, everything, or the event ends at by what was submitted up to now: waits (wall
 * time) for all of it, and asks the chip where streams overlap. */
vnpu_status_t vnpu__stream_end(vnpu__device_t *device, vnpu__stream_t *stream, uint64_t *out_ps);
vnpu_status_t vnpu__all_end(vnpu__device_t *device, uint64_t *out_ps);
vnpu_status_t vnpu__event_end(vnpu__device_t *device, vnpu__event_t *event, uint64_t *out_ps);
/* The lowest core of the stream: its copies inside DRAM are done there. */
uint32_t vnpu__stream_core(const vnpu__stream_t *stream);
/* submit with a ticket, wait: the completion's status becomes the call's, with the chip's text as
 * detail. */
vnpu_status_t vnpu__call(vnpu__device_t *device, vnpu__request_t *request,
                         vnpu_completion_t *out_completion);
/* Copies chunks in: H2D or MODULE_LOAD. Every chunk carries the address behind the one before. */
vnpu_status_t vnpu__write_in(vnpu__device_t *device, const vnpu__request_t *model, const void *src,
                             uint64_t bytes, vnpu_completion_t *out_last);
/* Copies chunks out: D2H or BLOB_READ (model->packet.u.copy.device is a blob then). */
vnpu_status_t vnpu__read_out(vnpu__device_t *device, const vnpu__request_t *model, void *dst,
                             uint64_t bytes, vnpu_completion_t *out_last);
/* Reads a blob of known size into memory from malloc, with a NUL behind it. */
vnpu_status_t vnpu__read_blob(vnpu__device_t *device, vnpu_blob_t blob, uint64_t bytes,
                              void **out_data);
/* Asynchronous errors of packets up to `seq`: what a synchronizing call returns. */
vnpu_status_t vnpu__async_status(vnpu__device_t *device, uint64_t seq);
/* The status of an answer as the status of the call; a failed one brings the chip's text, or the
 * fault that caused it. */
vnpu_status_t vnpu__answer_status(vnpu__device_t *device, const vnpu_completion_t *done);
vnpu_status_t vnpu__report_fault(vnpu__device_t *device);
vnpu_status_t vnpu__report_loss(vnpu__device_t *device);
void vnpu__advance_to(vnpu__device_t *device, uint64_t ps); /* virtual host clock, never back */

/* --- objects (vnpu_stream.c, vnpu_module.c, vnpu_memory.c, vnpu_pinned.c) --- */
vnpu_status_t vnpu__find_stream(vnpu__device_t *device, vnpu_stream_t handle,
                                vnpu__stream_t **out_stream);
vnpu_status_t vnpu__init_stream(vnpu__device_t *device, vnpu__stream_t *stream);
/* Refuses a mask that names cores of several classes, or such that do not compute. */
vnpu_status_t vnpu__check_cores(const vnpu__device_t *device, const char *what, uint64_t core_mask);
void vnpu__free_objects(vnpu__device_t *device); /* at shutdown: every handle becomes stale */
vnpu__pinned_t *vnpu__find_pinned(vnpu__device_t *device, const void *pointer, uint64_t bytes);
void vnpu__free_pinned(vnpu__device_t *device);
uint32_t vnpu__thread_tag(void); /* no lock */

/* --- vnpud (vnpu_spawn.c; no lock needed) --- */
vnpu_status_t vnpu__spawn(int socket, int64_t *out_pid, char *path, size_t path_bytes);
/* "was killed by signal 9 (Killed)", "ended with status 1", ... of a process that is ending; reaps
 * it. */
void vnpu__describe_end(int64_t pid, char *text, size_t text_bytes);

#endif
