/* The timing engine: units of the machine, sequencers of the queues, and the books of every engine.
 */
#include "device/dev_timing_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENGINE_NONE UINT32_MAX
#define MAX_SLICES  (1u << 20)

static void queue_try(timing_queue_t *queue);
static void queue_fetch(timing_queue_t *queue);
static void instance_start(sim_engine_t *engine, sim_event_t *event);

/* --- books
 * --------------------------------------------------------------------------------------------------------
 */

void timing_book(dev_timing_t *timing, uint32_t engine, sim_tick_t upto, sim_cause_t cause) {
    if (engine == ENGINE_NONE) return;
    timing_books_t *books = &timing->books[engine];
    if (upto <= books->booked_to) return;
    books->cause[cause] += upto - books->booked_to;
    books->booked_to = upto;
}

/* A queue that waits while its engine works is no loss; the books of a busy engine are closed by
 * the operation's end. */
static void book_waiting(timing_queue_t *queue, sim_cause_t cause) {
    dev_timing_t *timing = queue->core->timing;
    if (queue->in_unit == 0) timing_book(timing, queue->engine, sim_now(timing->engine), cause);
}

static sim_cause_t semaphore_cause(const timing_queue_t *queue) {
    bool is_data = queue->section->kind != VNPU_QUEUE_DMA &&
                   queue->core->job->sem_from_dma[queue->waiting_sem];
    return is_data ? SIM_CAUSE_OPERAND_WAIT : SIM_CAUSE_SEMAPHORE_WAIT;
}

static void add_slice(timing_job_t *job, const timing_slot_t *slot, const sim_op_t *op) {
    dev_record_t *record = &job->record;
    if (record->num_slices == job->slice_capacity) {
        uint32_t capacity = job->slice_capacity == 0 ? 1024 : job->slice_capacity * 2;
        if (capacity > MAX_SLICES) return;
        vnpu_profile_slice_t *slice = realloc(record->slice, capacity * sizeof *slice);
        if (slice == NULL) return;
        record->slice = slice;
        job->slice_capacity = capacity;
    }
    record->slice[record->num_slices++] =
        (vnpu_profile_slice_t){.engine = slot->queue->engine,
                               .op = slot->opcode,
                               .instance = (uint16_t)slot->instance,
                               .start_ps = op->start - job->start,
                               .end_ps = op->end - job->start};
}

/* --- slots
 * --------------------------------------------------------------------------------------------------------
 */

uint32_t timing_reach(const timing_core_t *core, const vnpu_insn_t *insn, uint32_t *out_core) {
    const timing_job_t *job = core->job;
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->instances; i++) {
        const uint32_t at[VNPU_MAX_AXES] = {i % job->placed.grid[0], i / job->placed.grid[0]};
        if (dev_insn_reaches(insn, core->grid_pos, at)) out_core[count++] = job->team[i];
    }
    return count;
}

static void signal_core(timing_core_t *core, const vnpu_sem_signal_t *signal) {
    for (uint32_t i = 0; i < 2; i++) {
        if (signal[i].sem == VNPU_NO_SEM) continue;
        core->sem[signal[i].sem] += signal[i].delta;
        timing_queue_t *waiter = core->sem_waiter[signal[i].sem];
        if (waiter != NULL && waiter->stage == TIMING_WAIT_SEM &&
            waiter->waiting_sem == signal[i].sem)
            queue_try(waiter);
    }
}

static void deliver(timing_slot_t *slot) {
    timing_queue_t *queue = slot->queue;
    timing_core_t *core = queue->core;
    vnpu_sem_signal_t signal[2] = {slot->signal[0], slot->signal[1]};
    const vnpu_insn_t *remote = slot->remote;
    slot->next_free = queue->free_slots;
    queue->free_slots = slot;
    core->in_flight--;
    if (remote == NULL) {
        signal_core(core, signal);
        return;
    }
    uint32_t reached[DEV_MAX_CORES], count = timing_reach(core, remote, reached);
    for (uint32_t i = 0; i < count; i++)
        signal_core(&core->timing->core[reached[i]], signal);
}

void timing_drop_signals(timing_core_t *core) {
    for (uint32_t q = 0; q < core->num_queues; q++) {
        for (timing_slot_t *slot = core->queue[q].all_slots; slot != NULL; slot = slot->next_all) {
            if (!sim_event_is_pending(&slot->signal_event)) continue;
            sim_event_cancel(core->timing->engine, &slot->signal_event);
            slot->next_free = slot->queue->free_slots;
            slot->queue->free_slots = slot;
            core->in_flight--;
        }
    }
}

/* Ends the instance when its streams have ended and its results are visible: the last one of a
 * launch on this core ends with that, the others with their last signal. */
static void core_check(timing_core_t *core) {
    if (core->active_queues != 0 || core->unfinished != 0 || core->instance == INSTANCE_NONE)
        return;
    dev_timing_t *timing = core->timing;
    if (core->next_instance == INSTANCE_NONE) {
        if (!core->job->placed.program->is_team)
            timing_drop_signals(core); /* a team's go when all of it has ended */
        core->instance = INSTANCE_NONE;
        if (--core->job->cores_left == 0) timing_job_ended(core->job);
        return;
    }
    if (core->in_flight != 0) return;
    core->instance = INSTANCE_NONE;
    sim_tick_t now = sim_now(timing->engine);
    for (uint32_t q = 0; q < core->num_queues; q++)
        timing_book(timing, core->queue[q].engine, now, SIM_CAUSE_IDLE);
    const sim_clock_t *clock = &core->cls->core_clock;
    uint64_t cycle = sim_clock_cycle_up(clock, now) + core->cls->instance_cycles;
    sim_event_schedule(timing->engine, &core->start_event, sim_clock_tick(clock, cycle));
}

static void signal_arrives(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    timing_slot_t *slot = SIM_CONTAINER_OF(event, timing_slot_t, signal_event);
    timing_core_t *core = slot->queue->core;
    deliver(slot);
    core_check(core);
}

/* A signal to another core is a message without payload through the interconnect; that of a
 * multicast comes with the data. */
static sim_tick_t signal_on_its_way(const timing_slot_t *slot, sim_tick_t now) {
    const timing_core_t *core = slot->queue->core;
    uint32_t to[DEV_MAX_CORES];
    if (slot->remote->multicast != 0 || timing_reach(core, slot->remote, to) == 0 ||
        to[0] == core->index)
        return now;
    sim_noc_path_t path = {.src_port = core->index, .dst_port = to[0], .cls = SIM_NOC_REQUEST};
    return sim_noc_send(core->timing->noc, path, 0, now);
}

/* The results of a slot are visible now: its signals follow core.semaphore_cycles later. */
static void finish_slot(timing_slot_t *slot) {
    timing_core_t *core = slot->queue->core;
    dev_timing_t *timing = core->timing;
    sim_tick_t now = sim_now(timing->engine);
    core->unfinished--;
    bool has_signal = slot->signal[0].sem != VNPU_NO_SEM || slot->signal[1].sem != VNPU_NO_SEM;
    uint32_t latency = core->cls->semaphore_cycles;
    if (has_signal && slot->remote != NULL) now = signal_on_its_way(slot, now);
    bool is_now = latency == 0 && now == sim_now(timing->engine);
    if (!has_signal || is_now) {
        deliver(slot);
        return;
    }
    const sim_clock_t *clock = &core->cls->core_clock;
    sim_event_schedule(timing->engine, &slot->signal_event,
                       sim_clock_tick(clock, sim_clock_cycle_up(clock, now) + latency));
}

static timing_slot_t *take_slot(timing_queue_t *queue) {
    timing_slot_t *slot = queue->free_slots;
    if (slot != NULL) {
        queue->free_slots = slot->next_free;
        return slot;
    }
    slot = calloc(1, sizeof *slot);
    if (slot == NULL)
        sim_bug("timing", sim_now(queue->core->timing->engine), "out of memory for an operation");
    slot->queue = queue;
    slot->next_all = queue->all_slots;
    queue->all_slots = slot;
    sim_event_init(&slot->signal_event, SIM_PHASE_COMPLETE, signal_arrives);
    return slot;
}

void timing_op_end(sim_engine_t *engine, sim_op_t *op) {
    (void)engine;
    timing_slot_t *slot = op->owner;
    timing_queue_t *queue = slot->queue;
    dev_timing_t *timing = queue->core->timing;
    timing_books_t *books = &timing->books[queue->engine];
    queue->in_unit--;
    timing_book(timing, queue->engine, op->start, SIM_CAUSE_ISSUE);
    if (books->booked_to != op->start) {
        sim_bug("timing", op->start,
                "engine %u: operation starts at %llu inside what is booked to %llu", queue->engine,
                (unsigned long long)op->start, (unsigned long long)books->booked_to);
    }
    uint64_t sum = 0;
    for (uint32_t c = 0; c < SIM_CAUSE_COUNT; c++) {
        books->cause[c] += op->cause[c];
        sum += op->cause[c];
    }
    if (sum != op->end - op->start) {
        sim_bug("timing", op->end, "engine %u: causes sum to %llu of %llu ticks", queue->engine,
                (unsigned long long)sum, (unsigned long long)(op->end - op->start));
    }
    books->booked_to = op->end;
    if (queue->core->job->with_slices) add_slice(queue->core->job, slot, op);
    if (queue->stage == TIMING_WAIT_UNIT) queue_try(queue);
}

void timing_op_done(sim_engine_t *engine, sim_op_t *op) {
    (void)engine;
    timing_slot_t *slot = op->owner;
    timing_queue_t *queue = slot->queue;
    timing_core_t *core = queue->core;
    queue->outstanding--;
    if (queue->newest == slot) queue->newest = NULL;
    timing_slot_t *follower = slot->followers;
    slot->followers = NULL;
    finish_slot(slot);
    while (follower != NULL) {
        timing_slot_t *next = follower->next_follower;
        finish_slot(follower);
        follower = next;
    }
    if (queue->stage == TIMING_WAIT_FENCE && queue->outstanding == 0) queue_try(queue);
    core_check(core);
}

/* --- the sequencer of a queue
 * --------------------------------------------------------------------------------------- */

static void queue_issue(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    queue_try(SIM_CONTAINER_OF(event, timing_queue_t, issue_event));
}

static void queue_fetch(timing_queue_t *queue) {
    timing_core_t *core = queue->core;
    dev_timing_t *timing = core->timing;
    queue->insn = dev_cursor_next(&queue->cursor);
    if (queue->insn == NULL) {
        queue->stage = TIMING_IDLE;
        core->active_queues--;
        return;
    }
    core->job->record.insns++;
    queue->stage = TIMING_ISSUE;
    const sim_clock_t *clock = &core->cls->core_clock;
    uint64_t cycle = sim_clock_cycle_up(clock, sim_now(timing->engine)) + core->cls->issue_cycles;
    sim_event_schedule(timing->engine, &queue->issue_event, sim_clock_tick(clock, cycle));
}

/* False: the queue waits for a semaphore. */
static bool semaphores_ready(timing_queue_t *queue) {
    timing_core_t *core = queue->core;
    const vnpu_insn_t *insn = queue->insn;
    if (queue->stage == TIMING_WAIT_SEM) book_waiting(queue, semaphore_cause(queue));
    for (uint32_t i = 0; i < 2; i++) {
        uint16_t sem = insn->wait[i].sem;
        if (sem == VNPU_NO_SEM || core->sem[sem] >= insn->wait[i].value) continue;
        if (queue->stage != TIMING_WAIT_SEM) book_waiting(queue, SIM_CAUSE_ISSUE);
        queue->stage = TIMING_WAIT_SEM;
        queue->waiting_sem = sem;
        core->sem_waiter[sem] = queue;
        return false;
    }
    return true;
}

/* An instruction without work. One of the engine (its pattern was clipped away) keeps its place:
 * what it signals says that everything before it is done. SYNC and the like signal at once. */
static void complete_empty(timing_queue_t *queue, timing_slot_t *slot, bool is_engine_op) {
    timing_slot_t *ahead = queue->newest;
    if (!is_engine_op || ahead == NULL) {
        finish_slot(slot);
        return;
    }
    slot->next_follower = ahead->followers;
    ahead->followers = slot;
}

static void queue_try(timing_queue_t *queue) {
    timing_core_t *core = queue->core;
    const vnpu_insn_t *insn = queue->insn;
    if (!semaphores_ready(queue)) return;
    if (insn->op == VNPU_OP_FENCE && queue->outstanding != 0) {
        queue->stage = TIMING_WAIT_FENCE;
        return;
    }
    bool is_engine_op = insn->op >= VNPU_OP_DMA_COPY;
    if (is_engine_op && !timing_unit_ready(queue)) {
        queue->stage = TIMING_WAIT_UNIT;
        return;
    }
    if ((insn->flags & VNPU_F_NO_CONSUME) == 0) {
        for (uint32_t i = 0; i < 2; i++) {
            if (insn->wait[i].sem != VNPU_NO_SEM)
                core->sem[insn->wait[i].sem] -= insn->wait[i].value;
        }
    }
    timing_slot_t *slot = take_slot(queue);
    slot->signal[0] = insn->signal[0];
    slot->signal[1] = insn->signal[1];
    slot->opcode = insn->op;
    slot->instance = core->instance;
    slot->remote = insn->remote_core != 0 || insn->multicast != 0 ? insn : NULL;
    queue->stage = TIMING_ISSUE; /* a completion inside submit must not re-enter this instruction */
    core->in_flight++;
    core->unfinished++;
    queue->in_unit++;
    queue->outstanding++;
    bool is_submitted = is_engine_op && timing_submit(queue, slot);
    if (is_submitted) {
        queue->newest = slot;
    } else {
        queue->in_unit--;
        queue->outstanding--;
        complete_empty(queue, slot, is_engine_op);
    }
    queue_fetch(queue);
    core_check(core);
}

/* --- instances
 * ------------------------------------------------------------------------------------------------------
 */

static void instance_start(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    timing_core_t *core = SIM_CONTAINER_OF(event, timing_core_t, start_event);
    dev_timing_t *timing = core->timing;
    const dev_launch_t *placed = &core->job->placed;
    core->instance = core->next_instance;
    uint64_t after = (uint64_t)core->instance + core->job->takers;
    core->next_instance = after < core->job->instances ? (uint32_t)after : INSTANCE_NONE;
    core->grid_pos[0] = core->instance % placed->grid[0];
    core->grid_pos[1] = core->instance / placed->grid[0];
    memset(core->sem, 0, sizeof core->sem);
    core->weights.count = 0;
    core->active_queues = core->num_queues;
    for (uint32_t q = 0; q < core->num_queues; q++) {
        timing_queue_t *queue = &core->queue[q];
        timing_book(timing, queue->engine, sim_now(timing->engine), SIM_CAUSE_LAUNCH_GAP);
        queue->row_lists = 0;
        queue->in_unit = 0;
        queue->outstanding = 0;
        queue->newest = NULL;
        dev_cursor_init(&queue->cursor, placed->program, queue->section);
        dev_cursor_place(&queue->cursor, core->grid_pos);
    }
    for (uint32_t q = 0; q < core->num_queues; q++)
        queue_fetch(&core->queue[q]);
    core_check(core);
}

static uint32_t vector_engine(const timing_core_t *core) {
    return core->first_engine + (core->cls->has_matrix ? 1 : 0);
}
uint32_t timing_dma_engine(const timing_core_t *core, uint32_t queue) {
    return vector_engine(core) + 1 + queue;
}

static uint32_t engine_of(const timing_core_t *core, const vnpu_queue_section_t *section) {
    switch ((vnpu_queue_kind_t)section->kind) {
    case VNPU_QUEUE_MATRIX: return core->cls->has_matrix ? core->first_engine : ENGINE_NONE;
    case VNPU_QUEUE_VECTOR: return vector_engine(core);
    case VNPU_QUEUE_DMA: return timing_dma_engine(core, section->index);
    case VNPU_QUEUE_CTRL:
    case VNPU_QUEUE_KIND_COUNT: return ENGINE_NONE;
    }
    return ENGINE_NONE;
}

static void core_reset(timing_core_t *core) {
    sim_share_reset(&core->sram);
    sim_share_reset(&core->acc);
    if (core->matrix != NULL) sim_matrix_reset(core->matrix);
    sim_vector_reset(core->vector);
    for (uint32_t d = 0; d < core->cls->dma_queues; d++)
        sim_dma_reset(core->dma[d]);
    core->instance = core->next_instance = INSTANCE_NONE;
    core->active_queues = core->in_flight = core->unfinished = 0;
    memset(core->sem_waiter, 0, sizeof core->sem_waiter);
}

void dev_timing_begin(dev_timing_t *timing) {
    sim_engine_reset(timing->engine);
    sim_dram_reset(timing->dram);
    sim_cache_reset(timing->cache);
    sim_shared_reset(timing->shared);
    sim_noc_reset(timing->noc);
    for (uint32_t c = 0; c < timing->machine.cores; c++)
        core_reset(&timing->core[c]);
    memset(timing->books, 0, timing->engines * sizeof *timing->books);
    timing->num_jobs = 0;
    timing->ended = timing->ended_tail = NULL;
}

static void queue_prepare(timing_core_t *core, uint32_t q) {
    const dev_program_t *program = core->job->placed.program;
    timing_queue_t *queue = &core->queue[q];
    queue->core = core;
    queue->section = &program->queue[q];
    queue->section_index = q;
    queue->engine = engine_of(core, queue->section);
    queue->stage = TIMING_IDLE;
    sim_event_init(&queue->issue_event, SIM_PHASE_ISSUE, queue_issue);
}

static void find_dma_semaphores(timing_job_t *job) {
    const dev_program_t *program = job->placed.program;
    memset(job->sem_from_dma, 0, sizeof job->sem_from_dma);
    for (uint32_t q = 0; q < program->header.num_queues; q++) {
        const vnpu_queue_section_t *section = &program->queue[q];
        if (section->kind != VNPU_QUEUE_DMA) continue;
        for (uint32_t i = 0; i < section->count; i++) {
            const vnpu_insn_t *insn = &program->insn[section->first + i];
            for (uint32_t s = 0; s < 2; s++) {
                if (insn->signal[s].sem < VNPU_MAX_SEMS) job->sem_from_dma[insn->signal[s].sem] = 1;
            }
        }
    }
}

void timing_start_cores(timing_job_t *job, sim_tick_t tick) {
    dev_timing_t *timing = job->timing;
    const dev_launch_t *launch = &job->placed;
    uint32_t taker = 0;
    find_dma_semaphores(job);
    job->takers = 0;
    for (uint32_t c = 0; c < timing->machine.cores; c++)
        job->takers += (uint32_t)(launch->core_mask[c / 64] >> (c % 64)) & 1u;
    job->cores_left = 0;
    for (uint32_t c = 0; c < timing->machine.cores; c++) {
        if (((launch->core_mask[c / 64] >> (c % 64)) & 1u) == 0) continue;
        timing_core_t *core = &timing->core[c];
        if (taker >= job->instances) break;
        core->job = job;
        job->team[taker] = (uint16_t)c;
        core->next_instance = taker++;
        core->num_queues = launch->program->header.num_queues;
        for (uint32_t q = 0; q < core->num_queues; q++)
            queue_prepare(core, q);
        job->cores_left++;
        const sim_clock_t *clock = &core->cls->core_clock;
        uint64_t cycle = sim_clock_cycle_up(clock, tick) + core->cls->instance_cycles;
        sim_event_schedule(timing->engine, &core->start_event, sim_clock_tick(clock, cycle));
    }
}

/* --- creation
 * -------------------------------------------------------------------------------------------------------
 */

uint32_t timing_engines_of(const dev_class_t *cls) {
    return (cls->has_matrix ? 2 : 1) + cls->dma_queues;
}

static sim_status_t core_init(dev_timing_t *timing, uint32_t index) {
    timing_core_t *core = &timing->core[index];
    const dev_class_t *cls = &timing->machine.cls[dev_machine_class_of(&timing->machine, index)];
    core->timing = timing;
    core->cls = cls;
    core->index = index;
    core->first_engine = index == 0 ? 0 : core[-1].first_engine + timing_engines_of(core[-1].cls);
    sim_event_init(&core->start_event, SIM_PHASE_ISSUE, instance_start);
    bool is_blocked = cls->sram_banks.part_bytes > 0; /* each bank with ports of its own */
    sim_share_init_parts(&core->sram, timing->engine, &cls->core_clock, cls->sram_bytes_per_cycle,
                         is_blocked ? cls->sram_banks.banks : 1, cls->sram_banks.part_bytes);
    sim_share_init(&core->acc, timing->engine, &cls->core_clock, cls->acc_bytes_per_cycle);
    sim_status_t status = SIM_OK;
    if (cls->has_matrix)
        status =
            sim_matrix_create(timing->engine, &cls->matrix, &core->sram, &core->acc, &core->matrix);
    if (status == SIM_OK)
        status =
            sim_vector_create(timing->engine, &cls->vector, &core->sram, &core->acc, &core->vector);
    for (uint32_t d = 0; d < cls->dma_queues && status == SIM_OK; d++) {
        sim_dma_spec_t spec = cls->dma;
        spec.network = d % sim_noc_networks(timing->noc);
        status = sim_dma_create(timing->engine, &spec, timing->dram, timing->noc, index,
                                &core->sram, &core->acc, &core->dma[d]);
        if (status != SIM_OK) break;
        sim_dma_set_cache(core->dma[d], timing->cache);
        sim_dma_set_shared(core->dma[d], timing->shared);
    }
    if (timing->shared == NULL) return status;
    sim_shared_core_t home = {&core->sram, cls->core_clock, cls->sram_latency_cycles,
                              cls->dma.writes_first};
    sim_shared_set_core(timing->shared, index, &home);
    return status;
}

sim_status_t dev_timing_create(const dev_machine_t *machine, const sim_config_t *config,
                               dev_timing_t **out_timing, sim_error_t *err) {
    *out_timing = NULL;
    dev_timing_t *timing = calloc(1, sizeof *timing);
    if (timing == NULL)
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "no memory for the timing engine");
    timing->machine = *machine;
    for (uint32_t c = 0; c < machine->num_classes; c++)
        timing->engines += machine->cls[c].cores * timing_engines_of(&machine->cls[c]);
    timing->core = calloc(machine->cores, sizeof *timing->core);
    timing->books = calloc(timing->engines, sizeof *timing->books);
    sim_status_t status =
        timing->core == NULL || timing->books == NULL ? SIM_ERROR_OUT_OF_MEMORY : SIM_OK;
    if (status == SIM_OK) status = sim_engine_create(&timing->engine);
    if (status == SIM_OK) status = sim_dram_create(config, &timing->dram, err);
    if (status == SIM_OK)
        status = sim_cache_create(config, timing->engine, timing->dram, &timing->cache, err);
    if (status == SIM_OK)
        status = sim_shared_create(config, timing->engine, machine->cores, &timing->shared);
    if (status == SIM_OK) status = sim_noc_create(config, machine->cores, &timing->noc, err);
    for (uint32_t c = 0; c < machine->cores && status == SIM_OK; c++)
        status = core_init(timing, c);
    if (status != SIM_OK) {
        dev_timing_destroy(timing);
        return sim_error_set(err, status, "the timing engine could not be made");
    }
    *out_timing = timing;
    return SIM_OK;
}

static void core_fini(timing_core_t *core) {
    sim_matrix_destroy(core->matrix);
    sim_vector_destroy(core->vector);
    for (uint32_t d = 0; d < DEV_MAX_DMA_QUEUES; d++)
        sim_dma_destroy(core->dma[d]);
    for (uint32_t q = 0; q < VNPU_MAX_QUEUES; q++) {
        timing_slot_t *slot = core->queue[q].all_slots;
        while (slot != NULL) {
            timing_slot_t *next = slot->next_all;
            free(slot->row);
            free(slot->port);
            free(slot);
            slot = next;
        }
    }
}

void dev_timing_destroy(dev_timing_t *timing) {
    if (timing == NULL) return;
    for (uint32_t c = 0; timing->core != NULL && c < timing->machine.cores; c++) {
        core_fini(&timing->core[c]);
    }
    sim_noc_destroy(timing->noc);
    sim_shared_destroy(timing->shared);
    sim_cache_destroy(timing->cache);
    sim_dram_destroy(timing->dram);
    sim_engine_destroy(timing->engine);
    for (uint32_t j = 0; j < timing->job_room; j++) {
        if (timing->job[j] != NULL) dev_record_free(&timing->job[j]->record);
        free(timing->job[j]);
    }
    free(timing->job);
    free(timing->books);
    free(timing->core);
    free(timing);
}

void dev_timing_set_shards(dev_timing_t *timing, const sim_shards_t *table) {
    if (timing->shared != NULL) sim_shared_set_shards(timing->shared, table);
}

uint32_t dev_timing_engines(const dev_timing_t *timing) {
    return timing->engines;
}

void dev_timing_engine_name(const dev_timing_t *timing, uint32_t engine, char text[32]) {
    uint32_t c = timing->machine.cores - 1;
    while (engine < timing->core[c].first_engine)
        c--;
    const timing_core_t *core = &timing->core[c];
    if (engine < vector_engine(core))
        snprintf(text, 32, "core%u.matrix", c);
    else if (engine == vector_engine(core))
        snprintf(text, 32, "core%u.vector", c);
    else
        snprintf(text, 32, "core%u.dma%u", c, engine - timing_dma_engine(core, 0));
}

uint64_t dev_timing_dram_peak(const dev_timing_t *timing) {
    return sim_dram_peak_bytes_per_s(timing->dram);
}
