/*
 * The timing engine: replays the instruction streams of launches through the timed units of sim/.
 * An epoch begins with clocks at cycle 0, DRAM banks precharged, arbiters reset, semaphores 0;
 * launches, copies and fills on disjoint cores run in it side by side and share DRAM and
 * interconnect. It computes no values; gather and scatter addresses come from the executor.
 *
 * Per queue an instruction is fetched and decoded (core.issue_cycles), waits for its semaphores,
 * waits for a place in its unit and occupies it; its signals are visible core.semaphore_cycles
 * after its results are. Every tick of every engine is booked to one cause; an engine's causes sum
 * to the duration of the launch.
 */
#ifndef DEV_TIMING_H
#define DEV_TIMING_H

#include "device/dev_exec.h"
#include "device/dev_machine.h"
#include "device/dev_program.h"
#include "device/vnpu_profile.h"
#include "sim/sim_energy.h"

typedef struct dev_timing dev_timing_t;

/* What a launch, copy or fill gave in its epoch. Immutable once made; shared by all launches with
 * the same key. */
typedef struct dev_record {
    char name[64];
    uint64_t key[2];
    uint64_t duration_ticks;
    uint64_t macs, padded_macs;
    uint64_t dram_read_bytes, dram_written_bytes, bus_read_bytes, bus_written_bytes;
    uint64_t row_hits, row_closed, row_conflicts;
    uint64_t cache_hits, cache_misses, cache_evicted; /* lines */
    uint64_t insns, vector_elems;
    uint64_t shared_read_bytes,
        shared_written_bytes;    /* as dram_*: of the shared scratchpad memory */
    uint64_t *cause_ticks;       /* [engines][SIM_CAUSE_COUNT] */
    vnpu_profile_slice_t *slice; /* times in ticks here; NULL unless asked for */
    uint32_t num_slices;
    uint32_t id; /* set by the reuse table */
    uint64_t energy_fj[VNPU_ENERGY_PARTS];
} dev_record_t;

/* Timing addresses of a launch's pointer arguments (dev_place.h). */
typedef struct dev_placement {
    uint64_t address[VNPU_MAX_ARGS];
    uint64_t key[2]; /* hash of everything that the duration depends on */
} dev_placement_t;

sim_status_t dev_timing_create(const dev_machine_t *machine, const sim_config_t *config,
                               dev_timing_t **out_timing, sim_error_t *err) SIM_MUST_USE;
void dev_timing_destroy(dev_timing_t *timing);
/* What the shards of operands in the shared scratchpad memory are (sim/sim_shared.h), borrowed; it
 * may grow. */
void dev_timing_set_shards(dev_timing_t *timing, const sim_shards_t *table);

uint32_t dev_timing_engines(const dev_timing_t *timing);
/* "core0.matrix", "core0.vector", "core0.dma0", ... into text[32]. */
void dev_timing_engine_name(const dev_timing_t *timing, uint32_t engine, char text[32]);
uint64_t dev_timing_dram_peak(const dev_timing_t *timing); /* bytes/s */
const sim_energy_table_t *
dev_timing_energy_table(const dev_timing_t *timing); /* the timing engine's */

/* What runs in an epoch. All borrowed until the epoch's records are taken. */
typedef struct dev_job {
    const dev_launch_t *launch; /* NULL: a copy or fill inside DRAM by the DMA queues of `core` */
    const dev_placement_t
        *placement;            /* timing addresses; of a copy: 0 the destination, 1 the source */
    const dev_row_set_t *rows; /* of the executor, or NULL: gathers walk their tables in order */
    uint64_t bytes;            /* of a copy or fill */
    uint32_t core;
    bool is_copy;
    bool with_slices;
} dev_job_t;

typedef struct dev_job_end {
    uint32_t job;   /* in the order of dev_timing_start, from 0 */
    sim_tick_t end; /* its results are visible, its cores are free; its duration is end - start */
} dev_job_end_t;

/*
 * An epoch, step by step: begin, then start and advance as the caller decides, then finish and one
 * take per job.
 *
 * start: the job begins at `tick`, from now on; its cores must be free. Call it when advance(tick)
 * has told all ends, so that the same starts always give the same epoch. OUT_OF_MEMORY is the only
 * failure; the epoch is then to be begun anew. advance: runs events of ticks <= limit, up to the
 * tick at which a job has ended. True: *out_end tells which. False: none did. finish: after the
 * last event; DEADLOCK, with the queues that wait, when jobs are left over. take: the job's record
 * is the caller's (dev_record_free). Engines of cores that it does not hold have no causes, or
 * `idle` for its duration when it was alone in the epoch.
 */
void dev_timing_begin(dev_timing_t *timing);
sim_status_t dev_timing_start(dev_timing_t *timing, const dev_job_t *job, sim_tick_t tick,
                              sim_error_t *err) SIM_MUST_USE;
bool dev_timing_advance(dev_timing_t *timing, sim_tick_t limit, dev_job_end_t *out_end);
sim_status_t dev_timing_finish(dev_timing_t *timing, sim_error_t *err) SIM_MUST_USE;
void dev_timing_take(dev_timing_t *timing, uint32_t job, dev_record_t *out_record);

/*
 * One job as an epoch of its own. The record is the caller's (dev_record_free). A program that the
 * executor ran to its end cannot deadlock here, since the semaphores are the same; without the
 * executor a deadlock is SIM_ERROR_DEADLOCK.
 */
sim_status_t dev_timing_run(dev_timing_t *timing, const dev_job_t *job, dev_record_t *out_record,
                            sim_error_t *err) SIM_MUST_USE;
void dev_record_free(dev_record_t *record); /* its arrays, not itself */
/* True when both describe the same epoch: duration, counters, causes. */
bool dev_record_equal(const dev_record_t *a, const dev_record_t *b, uint32_t engines);

#endif
