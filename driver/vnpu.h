/*
 * vnpu.h: the driver of the virtual NPU. Everything a portable program needs; what only a simulator
 * can tell is in vnpu_sim.h.
 *
 * First steps: vnpu_init(0), vnpu_mem_alloc, vnpu_module_load, vnpu_launch, vnpu_memcpy_d2h,
 * vnpu_shutdown (examples/hello_vnpu.c). The first call that needs it starts a private device
 * process (vnpud); VNPU_TRANSPORT=inproc keeps the chip in this process instead. VNPU_CONFIG
 * chooses the chip, VNPU_OPTIONS overrides its keys.
 *
 * Conventions. Every function returns a vnpu_status_t that must be looked at; out_ parameters are
 * zeroed first. Handles are 64-bit values with a generation: a stale one is
 * VNPU_ERROR_INVALID_HANDLE, never a crash. A device address is a vnpu_addr_t: it lies in a
 * reserved range that the host cannot touch. All functions are thread-safe unless they say
 * otherwise. Asynchronous errors (faults of a program) are sticky: the first synchronizing call
 * reports them, later work on the device fails with the same code until vnpu_device_reset;
 * vnpu_error_detail tells where it happened. After fork() the child gets VNPU_ERROR_FORKED from
 * every call; the parent is not disturbed. Time is simulated: events carry the time of the modelled
 * chip, the virtual host clock advances by configured costs per call: a launch host.launch; a copy,
 * fill, allocation, free, module load or unload, event record or wait host.submit; a query
 * host.query; a synchronize or reset host.sync, and on to the end of what it waited for (so does a
 * blocking D2H copy); the rest nothing. A stream holds cmd.queue_depth packets: the next one waits,
 * in simulated time too, until the oldest has ended.
 *
 * Environment, read at the start: VNPU_TRANSPORT=process|inproc, VNPU_DAEMON (path of vnpud),
 * VNPU_DEVICE_LIBRARY (path of libvnpu_device.so), VNPU_CONFIG, VNPU_CONFIG_DIR, VNPU_OPTIONS, and
 * what the device reads itself (VNPU_MODE, ...).
 */
#ifndef VNPU_H
#define VNPU_H

#include <stddef.h>
#include <stdint.h>

#include "device/vnpu_machine.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VNPU_API           __attribute__((visibility("default"))) __attribute__((warn_unused_result))
#define VNPU_API_VOID      __attribute__((visibility("default")))
#define VNPU_VERSION_MAJOR 0
#define VNPU_VERSION_MINOR 1
#define VNPU_VERSION_PATCH 0

typedef enum vnpu_status {
    VNPU_OK = 0,
    VNPU_ERROR_INVALID_VALUE = 1,
    VNPU_ERROR_OUT_OF_MEMORY = 2,
    VNPU_ERROR_NOT_INITIALIZED = 3,
    VNPU_ERROR_NOT_FOUND = 4,
    VNPU_ERROR_INVALID_HANDLE = 5,
    VNPU_ERROR_NOT_READY = 6,
    VNPU_ERROR_NOT_PERMITTED = 7,
    VNPU_ERROR_FORKED = 8,
    VNPU_ERROR_ABI_MISMATCH = 9,
    VNPU_ERROR_CONFIG = 10,
    VNPU_ERROR_INVALID_IMAGE = 11,
    VNPU_ERROR_QUEUE_FULL = 12,
    VNPU_ERROR_IO = 13,
    VNPU_ERROR_UNSUPPORTED = 14,
    VNPU_ERROR_ILLEGAL_ADDRESS = 32, /* from here on sticky */
    VNPU_ERROR_ILLEGAL_INSTRUCTION = 33,
    VNPU_ERROR_SRAM_OVERFLOW = 34,
    VNPU_ERROR_DEADLOCK = 35,
    VNPU_ERROR_TRAP = 36,
    VNPU_ERROR_INDEX_OUT_OF_RANGE = 37,
    VNPU_ERROR_VALUE_UNKNOWN = 38, /* timing mode; not sticky */
    VNPU_ERROR_DEVICE_LOST =
        48, /* the device process is gone: only vnpu_shutdown + vnpu_init help */
    VNPU_ERROR_INTERNAL = 63
} vnpu_status_t;

typedef uint64_t vnpu_addr_t;   /* device address; 0 is never valid */
typedef uint64_t vnpu_stream_t; /* 0: the default stream of the device */
typedef uint64_t vnpu_event_t;
typedef uint64_t vnpu_module_t;

/* --- initialisation
 * -----------------------------------------------------------------------------------------------
 */
/* Starts or attaches to the device. flags must be 0. Idempotent. Fails with a text in
 * vnpu_error_detail: config errors, vnpud not found (the places tried), refused system calls (and
 * what to set instead). */
VNPU_API vnpu_status_t vnpu_init(uint32_t flags);
/* Ends the device process, frees everything; returns the last unreported asynchronous error.
 * Idempotent. */
VNPU_API vnpu_status_t vnpu_shutdown(void);
VNPU_API_VOID const char *vnpu_status_name(vnpu_status_t status); /* "VNPU_ERROR_ILLEGAL_ADDRESS" */
/* Copies the detail of this thread's last failure (or of the sticky device error) into text,
 * NUL-terminated; returns its full length. "" when there is none. */
VNPU_API_VOID size_t vnpu_error_detail(char *text, size_t text_bytes);

/* --- devices
 * ------------------------------------------------------------------------------------------------------
 */
VNPU_API vnpu_status_t vnpu_device_count(int *out_count); /* 1 for now; does not start the device */
VNPU_API vnpu_status_t vnpu_device_machine(
    int device, vnpu_machine_t *out_machine); /* as its first class of cores sees it */
/* The chip as cores of class `index` < num_classes see it. */
VNPU_API vnpu_status_t vnpu_device_class(int device, uint32_t index, vnpu_machine_t *out_machine);
VNPU_API vnpu_status_t vnpu_device_synchronize(int device); /* all streams; reports sticky errors */
VNPU_API vnpu_status_t
vnpu_device_reset(int device); /* clears a sticky error of a program; memory stays */

/* --- memory
 * -------------------------------------------------------------------------------------------------------
 */
/* bytes 0: *out_address = 0 and VNPU_OK. Alignment 512. OUT_OF_MEMORY names requested, free and the
 * key that sets the size. */
VNPU_API vnpu_status_t vnpu_mem_alloc(int device, size_t bytes, vnpu_addr_t *out_address);
/* As vnpu_mem_alloc, in the memory that lies in the cores' scratchpads (sram.shared_bytes), beside
 * the device memory: in whole pages of every core, the first in core 0. Its addresses are used like
 * others. UNSUPPORTED where the chip has none. */
VNPU_API vnpu_status_t vnpu_mem_alloc_shared(int device, size_t bytes, vnpu_addr_t *out_address);
/* As vnpu_mem_alloc_shared, for a matrix of rows of row_bytes: block (i, j) of shard_rows rows x
 * shard_row_bytes lies in core i x row_step + j x column_step, each in a core of its own
 * (INVALID_VALUE names what does not fit), and every core gives as many whole pages as one block
 * takes. Addresses stay those of the whole matrix, row after row: only the time of reaching them
 * differs. */
typedef struct vnpu_shards {
    uint32_t size; /* sizeof(vnpu_shards_t) */
    uint32_t shard_rows, shard_row_bytes;
    uint16_t row_step, column_step;
    uint64_t row_bytes;
} vnpu_shards_t;
VNPU_API vnpu_status_t vnpu_mem_alloc_shards(int device, size_t bytes, const vnpu_shards_t *shards,
                                             vnpu_addr_t *out_address);
/* Of either. Ordered after everything submitted before it. 0 is fine. */
VNPU_API vnpu_status_t vnpu_mem_free(int device, vnpu_addr_t address);
/* Of the device memory. */
VNPU_API vnpu_status_t vnpu_mem_info(int device, size_t *out_free, size_t *out_total);
/* Pinned host memory, shared with the device process: asynchronous copies need it. */
VNPU_API vnpu_status_t vnpu_host_alloc(size_t bytes, void **out_pointer);
VNPU_API vnpu_status_t vnpu_host_free(void *pointer);
VNPU_API vnpu_status_t vnpu_host_is_pinned(const void *pointer, int *out_is_pinned);

/* Copies. H2D: pageable memory is read before the call returns; pinned memory (non_blocking) when
 * the stream gets there. D2H returns when the data is there (pageable), or at once (pinned,
 * non_blocking: valid after a synchronize). */
VNPU_API vnpu_status_t vnpu_memcpy_h2d(vnpu_addr_t dst, const void *src, size_t bytes,
                                       vnpu_stream_t stream, int non_blocking);
VNPU_API vnpu_status_t vnpu_memcpy_d2h(void *dst, vnpu_addr_t src, size_t bytes,
                                       vnpu_stream_t stream, int non_blocking);
VNPU_API vnpu_status_t vnpu_memcpy_d2d(vnpu_addr_t dst, vnpu_addr_t src, size_t bytes,
                                       vnpu_stream_t stream);
/* count elements of width 1, 2, 4 or 8 bytes, set to the low bytes of pattern. Asynchronous. */
VNPU_API vnpu_status_t vnpu_memset(vnpu_addr_t dst, uint64_t pattern, uint32_t width, size_t count,
                                   vnpu_stream_t stream);

/* --- streams and events
 * ------------------------------------------------------------------------------------------- */
VNPU_API vnpu_status_t vnpu_stream_create(int device, int priority, vnpu_stream_t *out_stream);
/*
 * Work of different streams overlaps in time where it uses different parts of the chip: kernels,
 * copies inside DRAM and fills on disjoint cores share DRAM and interconnect; copies over the link
 * run beside all of them, one at a time in each direction. set_cores: launches of the stream that
 * name no cores, and no other class, run on these (bit c: core c, all of one class; 0: every worker
 * core, as at first), its copies inside DRAM and fills are done by the lowest of them.
 * INVALID_VALUE names cores that do not compute. Applies to what is submitted later.
 */
VNPU_API vnpu_status_t vnpu_stream_set_cores(vnpu_stream_t stream, uint64_t core_mask);
VNPU_API vnpu_status_t
vnpu_stream_destroy(vnpu_stream_t stream); /* returns at once; queued work completes */
VNPU_API vnpu_status_t vnpu_stream_synchronize(vnpu_stream_t stream);
/* VNPU_OK when everything submitted has completed by the virtual host clock, else
 * VNPU_ERROR_NOT_READY; costs host.query. */
VNPU_API vnpu_status_t vnpu_stream_query(vnpu_stream_t stream);
VNPU_API vnpu_status_t vnpu_stream_wait_event(vnpu_stream_t stream,
                                              vnpu_event_t event); /* unrecorded: no-op */
VNPU_API vnpu_status_t vnpu_event_create(int device, vnpu_event_t *out_event);
VNPU_API vnpu_status_t vnpu_event_destroy(vnpu_event_t event);
VNPU_API vnpu_status_t vnpu_event_record(vnpu_event_t event, vnpu_stream_t stream);
VNPU_API vnpu_status_t vnpu_event_synchronize(vnpu_event_t event); /* unrecorded: VNPU_OK */
VNPU_API vnpu_status_t vnpu_event_query(vnpu_event_t event);
/* Simulated milliseconds between two recorded events; NOT_READY if one has not completed. */
VNPU_API vnpu_status_t vnpu_event_elapsed_ms(vnpu_event_t start, vnpu_event_t end, double *out_ms);
VNPU_API vnpu_status_t vnpu_event_time_ps(vnpu_event_t event, uint64_t *out_ps);

/* --- modules and launches
 * ----------------------------------------------------------------------------------------- */
/* A program image (device/vnpu_isa.h); validated: INVALID_IMAGE tells instruction, offset and
 * reason. */
VNPU_API vnpu_status_t vnpu_module_load(int device, const void *image, size_t bytes,
                                        vnpu_module_t *out_module);
VNPU_API vnpu_status_t
vnpu_module_unload(vnpu_module_t module); /* after the work submitted before it */

typedef struct vnpu_launch_config {
    uint32_t size;      /* sizeof(vnpu_launch_config_t) */
    uint32_t grid[2];   /* instances, >= 1 each */
    uint32_t tag;       /* label in profiles, 0: none */
    uint64_t core_mask; /* bit c: core c, all of one class; 0: the stream's cores */
    vnpu_stream_t stream;
    uint32_t core_class; /* c + 1: class c; 0: that of the mask, or else the first class whose cores
                            can run the program */
    uint32_t reserved;   /* 0 */
} vnpu_launch_config_t;
/* A launch runs on cores of one class. INVALID_VALUE: a mask beyond its workers. At the next
 * synchronize: UNSUPPORTED when they lack a queue or a type that the program uses, INVALID_IMAGE
 * when it needs more of something than they have. Asynchronous. args: num_args x 8 bytes (addresses
 * or scalars), copied before the call returns. */
VNPU_API vnpu_status_t vnpu_launch(vnpu_module_t module, const vnpu_launch_config_t *config,
                                   const uint64_t *args, uint32_t num_args);

#ifdef __cplusplus
}
#endif
#endif
