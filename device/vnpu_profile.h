/*
 * Profile blob: what the chip measured between PROFILE_START and PROFILE_STOP. Layout: header,
 * launches, records; every record is followed by its engines' causes and its trace slices. All
 * times in picoseconds of the chip's clock. Launches that had equal timing keys share a record
 * (timing reuse).
 */
#ifndef VNPU_PROFILE_H
#define VNPU_PROFILE_H

#include <assert.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VNPU_PROFILE_MAGIC   0x464f5250u /* "PROF" */
#define VNPU_PROFILE_VERSION 4u

typedef struct vnpu_profile_header {
    uint32_t magic, version;
    uint32_t num_launches, num_records;
    uint32_t num_engines; /* engines of the chip, in the order of their indices */
    uint32_t num_causes;
    uint64_t start_ps, end_ps;                              /* chip time at start and stop */
    uint64_t launches_offset, records_offset, names_offset; /* bytes from the start of the blob */
    uint64_t bytes;
    uint64_t memory_peak_bytes; /* allocated at most, since the start */
    uint64_t static_mw;         /* power whatever the chip does: 1 mW for 1 ps is 1 fJ */
    uint64_t link_fj_per_byte;  /* of the payload of copies between host and device */
    uint64_t reserved;
} vnpu_profile_header_t;
static_assert(sizeof(vnpu_profile_header_t) == 104, "profile header");
/* names_offset: num_engines names, then num_causes names, each NUL-terminated. */

typedef enum vnpu_launch_kind {
    VNPU_LAUNCH_KERNEL = 0,
    VNPU_LAUNCH_H2D = 1,
    VNPU_LAUNCH_D2H = 2,
    VNPU_LAUNCH_D2D = 3,
    VNPU_LAUNCH_FILL = 4
} vnpu_launch_kind_t;

typedef struct vnpu_profile_launch {
    uint64_t seq;
    uint32_t stream;
    uint32_t tag;
    uint32_t kind;   /* vnpu_launch_kind_t */
    uint32_t record; /* index, 0xffffffff: none (copies over the link) */
    uint64_t arrival_ps, start_ps, end_ps;
    uint64_t bytes;     /* of a copy or fill */
    uint32_t is_reused; /* timing came from the reuse table */
    uint32_t reserved;
} vnpu_profile_launch_t;
static_assert(sizeof(vnpu_profile_launch_t) == 64, "profile launch");

/* Where the energy of a launch goes; static power and the host link are not part of a launch's
 * record. */
typedef enum vnpu_energy_part {
    VNPU_ENERGY_MATRIX =
        0,              /* multiply-adds, operands and results through scratchpad and accumulator */
    VNPU_ENERGY_VECTOR, /* elements, scratchpad and accumulator */
    VNPU_ENERGY_DMA,    /* scratchpad */
    VNPU_ENERGY_NOC,
    VNPU_ENERGY_DRAM, /* bytes over the bus, activates, refreshes; the cache in front of it */
    VNPU_ENERGY_PARTS
} vnpu_energy_part_t;

typedef struct vnpu_profile_record {
    char name[64]; /* program */
    uint64_t key;  /* reuse key (hash) */
    uint64_t duration_ps;
    uint64_t macs;        /* useful, clipped */
    uint64_t padded_macs; /* array cells x cycles x rate that the folds occupied */
    uint64_t dram_read_bytes, dram_written_bytes; /* bytes of the patterns */
    uint64_t bus_read_bytes, bus_written_bytes;   /* whole bursts */
    uint64_t row_hits, row_closed, row_conflicts;
    uint64_t cache_hits, cache_misses,
        cache_evicted; /* lines; evicted: dirty, written to the DRAM */
    uint64_t insns;    /* executed, all queues and instances */
    uint64_t vector_elems;
    uint64_t shared_read_bytes, shared_written_bytes; /* bytes of the patterns in the shared
                                                         scratchpad memory, not in dram_* */
    uint32_t num_slices;                              /* trace slices, after the causes */
    uint32_t bytes; /* record with causes and slices: next record starts here + bytes */
    uint64_t energy_fj[VNPU_ENERGY_PARTS]; /* dynamic, by the [energy] keys: 0 where they are */
    /* then uint64_t cause_ps[num_engines][num_causes]; each engine's causes sum to duration_ps
     * exactly */
    /* then vnpu_profile_slice_t slice[num_slices] */
} vnpu_profile_record_t;
static_assert(sizeof(vnpu_profile_record_t) == 256, "profile record");

typedef struct vnpu_profile_slice {
    uint32_t engine;
    uint16_t op; /* vnpu_op_t */
    uint16_t instance;
    uint64_t start_ps, end_ps; /* from the start of the launch */
} vnpu_profile_slice_t;

#ifdef __cplusplus
}
#endif
#endif
