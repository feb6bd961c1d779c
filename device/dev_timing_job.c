/* Jobs of an epoch: launches, copies and fills from their start to their record. */
#include "device/dev_timing_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- starts
 * -----------------------------------------------------------------------------------------------------------
 */

/* Of the core that it holds, or the lowest of them: all are of one class. */
static const dev_class_t *class_of(const dev_timing_t *timing, const dev_job_t *job) {
    uint32_t core = job->core;
    for (uint32_t c = 0; job->launch != NULL && c < timing->machine.cores; c++) {
        core = c;
        if (((job->launch->core_mask[c / 64] >> (c % 64)) & 1u) != 0) break;
    }
    return timing->core[core].cls;
}

static bool holds_core(const timing_job_t *job, uint32_t core) {
    if (job->launch == NULL) return core == job->core;
    return ((job->launch->core_mask[core / 64] >> (core % 64)) & 1u) != 0;
}

/* The books of its engines begin with the job. */
static void open_books(timing_job_t *job) {
    dev_timing_t *timing = job->timing;
    for (uint32_t c = 0; c < timing->machine.cores; c++) {
        if (!holds_core(job, c)) continue;
        timing_books_t *books = &timing->books[timing->core[c].first_engine];
        for (uint32_t e = 0; e < timing_engines_of(job->cls); e++)
            books[e] = (timing_books_t){.booked_to = job->start};
    }
}

static void close_books(timing_job_t *job) {
    dev_timing_t *timing = job->timing;
    for (uint32_t c = 0; c < timing->machine.cores; c++) {
        if (!holds_core(job, c)) continue;
        for (uint32_t u = 0; u < timing_engines_of(job->cls); u++) {
            uint32_t e = timing->core[c].first_engine + u;
            timing_book(timing, e, job->end, SIM_CAUSE_IDLE);
            memcpy(&job->record.cause_ticks[e * SIM_CAUSE_COUNT], timing->books[e].cause,
                   sizeof timing->books[e].cause);
        }
    }
}

void timing_job_ended(timing_job_t *job) {
    dev_timing_t *timing = job->timing;
    job->end = sim_now(timing->engine);
    for (uint32_t i = 0; job->launch != NULL && job->placed.program->is_team && i < job->instances;
         i++) {
        timing_drop_signals(&timing->core[job->team[i]]);
    }
    job->has_ended = true;
    job->record.duration_ticks = job->end - job->start;
    close_books(job);
    job->next_ended = NULL;
    if (timing->ended == NULL)
        timing->ended = job;
    else
        timing->ended_tail->next_ended = job;
    timing->ended_tail = job;
    sim_engine_stop(timing->engine);
}

static timing_job_t *take_job(dev_timing_t *timing) {
    if (timing->num_jobs == timing->job_room) {
        uint32_t room = timing->job_room == 0 ? 8 : timing->job_room * 2;
        timing_job_t **grown = realloc(timing->job, room * sizeof *grown);
        if (grown == NULL) return NULL;
        memset(&grown[timing->job_room], 0, (room - timing->job_room) * sizeof *grown);
        timing->job = grown;
        timing->job_room = room;
    }
    timing_job_t **slot = &timing->job[timing->num_jobs];
    if (*slot == NULL)
        *slot = malloc(sizeof **slot);
    else
        dev_record_free(&(*slot)->record);
    if (*slot != NULL) memset(*slot, 0, sizeof **slot);
    return *slot;
}

/* --- copies and fills
 * -------------------------------------------------------------------------------------------------
 */

static uint32_t move_engine(const timing_job_t *job, const sim_op_t *op) {
    bool is_writer = op == &job->write.op && job->cls->dma_queues > 1;
    return timing_dma_engine(&job->timing->core[job->core], is_writer ? 1 : 0);
}

static void move_end(sim_engine_t *engine, sim_op_t *op) {
    (void)engine;
    timing_job_t *job = op->owner;
    uint32_t e = move_engine(job, op);
    timing_books_t *books = &job->timing->books[e];
    timing_book(job->timing, e, op->start, SIM_CAUSE_ISSUE);
    for (uint32_t c = 0; c < SIM_CAUSE_COUNT; c++)
        books->cause[c] += op->cause[c];
    books->booked_to = op->end;
}

static void move_done(sim_engine_t *engine, sim_op_t *op) {
    (void)engine;
    timing_job_t *job = op->owner;
    if (--job->ops_left == 0) timing_job_ended(job);
}

static void move_submit(timing_job_t *job, sim_dma_op_t *op, sim_dma_kind_t kind, uint64_t base,
                        uint32_t queue) {
    uint64_t bytes = job->move_bytes;
    *op = (sim_dma_op_t){.kind = kind, .base = base, .run_bytes = bytes, .sram_bytes = bytes};
    op->op.on_end = move_end;
    op->op.on_done = move_done;
    op->op.owner = job;
    timing_count_memory(job, op, bytes);
    timing_energy_dma(job, op);
    sim_dma_submit(job->timing->core[job->core].dma[queue], op);
}

static void move_start(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    timing_job_t *job = SIM_CONTAINER_OF(event, timing_job_t, start_event);
    job->ops_left = job->is_copy ? 2 : 1;
    if (job->is_copy) move_submit(job, &job->read, SIM_DMA_READ, job->placed.arg[1], 0);
    move_submit(job, &job->write, SIM_DMA_WRITE, job->placed.arg[0],
                job->cls->dma_queues > 1 ? 1 : 0);
}

/* --- the epoch
 * --------------------------------------------------------------------------------------------------------
 */

sim_status_t dev_timing_start(dev_timing_t *timing, const dev_job_t *given, sim_tick_t tick,
                              sim_error_t *err) {
    timing_job_t *job = take_job(timing);
    uint64_t *causes =
        job == NULL ? NULL : calloc((size_t)timing->engines * SIM_CAUSE_COUNT, sizeof *causes);
    if (causes == NULL)
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "no memory for a timing record");
    timing->num_jobs++;
    job->timing = timing;
    job->cls = class_of(timing, given);
    job->launch = given->launch;
    job->rows = given->rows;
    job->with_slices = given->with_slices;
    job->start = tick;
    job->record.cause_ticks = causes;
    job->record.key[0] = given->placement->key[0];
    job->record.key[1] = given->placement->key[1];
    if (given->launch == NULL) {
        snprintf(job->record.name, sizeof job->record.name, "%s", given->is_copy ? "copy" : "fill");
        job->core = given->core;
        memcpy(job->placed.arg, given->placement->address, 2 * sizeof job->placed.arg[0]);
        job->move_bytes = given->bytes;
        job->is_copy = given->is_copy;
        open_books(job);
        sim_event_init(&job->start_event, SIM_PHASE_ISSUE, move_start);
        sim_event_schedule(timing->engine, &job->start_event, tick);
        return SIM_OK;
    }
    const vnpu_program_header_t *header = &given->launch->program->header;
    snprintf(job->record.name, sizeof job->record.name, "%s", header->name);
    job->placed = *given->launch;
    for (uint32_t a = 0; a < header->num_args; a++) {
        if (header->arg_kind[a] != VNPU_ARG_SCALAR)
            job->placed.arg[a] = given->placement->address[a];
    }
    job->instances = given->launch->grid[0] * given->launch->grid[1];
    open_books(job);
    timing_start_cores(job, tick);
    return SIM_OK;
}

bool dev_timing_advance(dev_timing_t *timing, sim_tick_t limit, dev_job_end_t *out_end) {
    if (timing->ended == NULL) (void)sim_engine_run_until(timing->engine, limit);
    timing_job_t *job = timing->ended;
    if (job == NULL) return false;
    timing->ended = job->next_ended;
    uint32_t index = 0;
    while (timing->job[index] != job)
        index++;
    *out_end = (dev_job_end_t){.job = index, .end = job->end};
    return true;
}

static size_t waiting_queues(const timing_core_t *core, char *text, size_t bytes) {
    const dev_program_t *program = core->job->placed.program;
    size_t used = 0;
    for (uint32_t q = 0; q < core->num_queues && bytes - used > 200; q++) {
        const timing_queue_t *queue = &core->queue[q];
        if (queue->stage != TIMING_WAIT_SEM) continue;
        char name[16], sem[80];
        dev_queue_name(queue->section, name);
        dev_semaphore_name(program, queue->waiting_sem, sem);
        used += (size_t)snprintf(text + used, bytes - used,
                                 "\n  core %u %s insn %u waits for semaphore %s, it is %lld",
                                 core->index, name, (uint32_t)(queue->insn - program->insn), sem,
                                 (long long)core->sem[queue->waiting_sem]);
    }
    return used;
}

static sim_status_t deadlocked(const dev_timing_t *timing, const timing_job_t *job,
                               sim_error_t *err) {
    char text[600] = "";
    size_t used = 0;
    for (uint32_t c = 0; c < timing->machine.cores; c++) {
        const timing_core_t *core = &timing->core[c];
        if (core->job != job || core->instance == INSTANCE_NONE) continue;
        used += waiting_queues(core, text + used, sizeof text - used);
    }
    return sim_error_set(err, SIM_ERROR_DEADLOCK, "%s: deadlock in the timing engine:%s",
                         job->record.name, text);
}

sim_status_t dev_timing_finish(dev_timing_t *timing, sim_error_t *err) {
    dev_job_end_t ignored;
    while (dev_timing_advance(timing, SIM_TICK_NEVER - 1u, &ignored)) {
    }
    for (uint32_t j = 0; j < timing->num_jobs; j++) {
        if (!timing->job[j]->has_ended) return deadlocked(timing, timing->job[j], err);
    }
    timing_energy_end(timing);
    if (timing->num_jobs != 1) return SIM_OK;
    const timing_job_t *job = timing->job[0]; /* alone in the epoch: the other engines idle along */
    for (uint32_t c = 0; c < timing->machine.cores; c++) {
        const timing_core_t *core = &timing->core[c];
        for (uint32_t u = 0; !holds_core(job, c) && u < timing_engines_of(core->cls); u++) {
            uint64_t *causes = &job->record.cause_ticks[(core->first_engine + u) * SIM_CAUSE_COUNT];
            causes[SIM_CAUSE_IDLE] = job->record.duration_ticks;
        }
    }
    return SIM_OK;
}

void dev_timing_take(dev_timing_t *timing, uint32_t index, dev_record_t *out_record) {
    timing_job_t *job = timing->job[index];
    *out_record = job->record;
    job->record.cause_ticks = NULL;
    job->record.slice = NULL;
}

sim_status_t dev_timing_run(dev_timing_t *timing, const dev_job_t *job, dev_record_t *out_record,
                            sim_error_t *err) {
    memset(out_record, 0, sizeof *out_record);
    dev_timing_begin(timing);
    sim_status_t status = dev_timing_start(timing, job, 0, err);
    if (status == SIM_OK) status = dev_timing_finish(timing, err);
    if (status == SIM_OK) dev_timing_take(timing, 0, out_record);
    return status;
}

/* --- records
 * ----------------------------------------------------------------------------------------------------------
 */

void dev_record_free(dev_record_t *record) {
    free(record->cause_ticks);
    free(record->slice);
    record->cause_ticks = NULL;
    record->slice = NULL;
    record->num_slices = 0;
}

bool dev_record_equal(const dev_record_t *a, const dev_record_t *b, uint32_t engines) {
    return a->duration_ticks == b->duration_ticks && a->macs == b->macs &&
           a->padded_macs == b->padded_macs && a->dram_read_bytes == b->dram_read_bytes &&
           a->dram_written_bytes == b->dram_written_bytes &&
           a->bus_read_bytes == b->bus_read_bytes && a->bus_written_bytes == b->bus_written_bytes &&
           a->row_hits == b->row_hits && a->row_closed == b->row_closed &&
           a->row_conflicts == b->row_conflicts && a->cache_hits == b->cache_hits &&
           a->cache_misses == b->cache_misses && a->cache_evicted == b->cache_evicted &&
           a->shared_read_bytes == b->shared_read_bytes &&
           a->shared_written_bytes == b->shared_written_bytes && a->insns == b->insns &&
           a->vector_elems == b->vector_elems &&
           memcmp(a->energy_fj, b->energy_fj, sizeof a->energy_fj) == 0 &&
           memcmp(a->cause_ticks, b->cause_ticks,
                  (size_t)engines * SIM_CAUSE_COUNT * sizeof *a->cause_ticks) == 0;
}
