/* The timing engine: units of the machine, sequencers of the queues, and the books of every engine. */
#include "device/dev_timing_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENGINE_NONE UINT32_MAX
#define INSTANCE_NONE UINT32_MAX
#define MAX_SLICES (1u << 20)

static void queue_try(timing_queue_t *queue);
static void queue_fetch(timing_queue_t *queue);
static void instance_start(sim_engine_t *engine, sim_event_t *event);

/* --- books -------------------------------------------------------------------------------------------------------- */

static void book(dev_timing_t *timing, uint32_t engine, sim_tick_t upto, sim_cause_t cause) {
    if (engine == ENGINE_NONE) return;
    timing_books_t *books = &timing->books[engine];
    if (upto <= books->booked_to) return;
    books->cause[cause] += upto - books->booked_to;
    books->booked_to = upto;
}

/* A queue that waits while its engine works is no loss; the books of a busy engine are closed by the operation's end. */
static void book_waiting(timing_queue_t *queue, sim_cause_t cause) {
    dev_timing_t *timing = queue->core->timing;
    if (queue->in_unit == 0) book(timing, queue->engine, sim_now(timing->engine), cause);
}

static sim_cause_t semaphore_cause(const timing_queue_t *queue) {
    bool is_data = queue->section->kind != VNPU_QUEUE_DMA && queue->core->timing->sem_from_dma[queue->waiting_sem];
    return is_data ? SIM_CAUSE_OPERAND_WAIT : SIM_CAUSE_SEMAPHORE_WAIT;
}

static void add_slice(dev_timing_t *timing, const timing_slot_t *slot, const sim_op_t *op) {
    dev_record_t *record = timing->record;
    if (record->num_slices == timing->slice_capacity) {
        uint32_t capacity = timing->slice_capacity == 0 ? 1024 : timing->slice_capacity * 2;
        if (capacity > MAX_SLICES) return;
        vnpu_profile_slice_t *slice = realloc(record->slice, capacity * sizeof *slice);
        if (slice == NULL) return;
        record->slice = slice;
        timing->slice_capacity = capacity;
    }
    record->slice[record->num_slices++] = (vnpu_profile_slice_t){
        .engine = slot->queue->engine, .op = slot->opcode, .instance = (uint16_t)slot->instance,
        .start_ps = op->start, .end_ps = op->end};
}

/* --- slots -------------------------------------------------------------------------------------------------------- */

static void deliver(timing_slot_t *slot) {
    timing_queue_t *queue = slot->queue;
    timing_core_t *core = queue->core;
    vnpu_sem_signal_t signal[2] = {slot->signal[0], slot->signal[1]};
    slot->next_free = queue->free_slots;
    queue->free_slots = slot;
    core->in_flight--;
    for (uint32_t i = 0; i < 2; i++) {
        if (signal[i].sem == VNPU_NO_SEM) continue;
        core->sem[signal[i].sem] += signal[i].delta;
        timing_queue_t *waiter = core->sem_waiter[signal[i].sem];
        if (waiter != NULL && waiter->stage == TIMING_WAIT_SEM && waiter->waiting_sem == signal[i].sem) queue_try(waiter);
    }
}

static void core_check(timing_core_t *core) {
    if (core->active_queues != 0 || core->in_flight != 0 || core->instance == INSTANCE_NONE) return;
    dev_timing_t *timing = core->timing;
    core->instance = INSTANCE_NONE;
    if (core->next_instance == INSTANCE_NONE) {
        timing->cores_left--;
        return;
    }
    sim_tick_t now = sim_now(timing->engine);
    for (uint32_t q = 0; q < core->num_queues; q++) book(timing, core->queue[q].engine, now, SIM_CAUSE_IDLE);
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

/* The results of a slot are visible now: its signals follow core.semaphore_cycles later. */
static void finish_slot(timing_slot_t *slot) {
    timing_core_t *core = slot->queue->core;
    dev_timing_t *timing = core->timing;
    sim_tick_t now = sim_now(timing->engine);
    if (now > timing->finished) timing->finished = now;
    bool has_signal = slot->signal[0].sem != VNPU_NO_SEM || slot->signal[1].sem != VNPU_NO_SEM;
    uint32_t latency = core->cls->semaphore_cycles;
    if (!has_signal || latency == 0) {
        deliver(slot);
        return;
    }
    const sim_clock_t *clock = &core->cls->core_clock;
    sim_event_schedule(timing->engine, &slot->signal_event, sim_clock_tick(clock, sim_clock_cycle_up(clock, now) + latency));
}

static timing_slot_t *take_slot(timing_queue_t *queue) {
    timing_slot_t *slot = queue->free_slots;
    if (slot != NULL) {
        queue->free_slots = slot->next_free;
        return slot;
    }
    slot = calloc(1, sizeof *slot);
    if (slot == NULL) sim_bug("timing", sim_now(queue->core->timing->engine), "out of memory for an operation");
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
    book(timing, queue->engine, op->start, SIM_CAUSE_ISSUE);
    if (books->booked_to != op->start) {
        sim_bug("timing", op->start, "engine %u: operation starts at %llu inside what is booked to %llu", queue->engine,
                (unsigned long long)op->start, (unsigned long long)books->booked_to);
    }
    uint64_t sum = 0;
    for (uint32_t c = 0; c < SIM_CAUSE_COUNT; c++) {
        books->cause[c] += op->cause[c];
        sum += op->cause[c];
    }
    if (sum != op->end - op->start) {
        sim_bug("timing", op->end, "engine %u: causes sum to %llu of %llu ticks", queue->engine, (unsigned long long)sum,
                (unsigned long long)(op->end - op->start));
    }
    books->booked_to = op->end;
    if (timing->with_slices) add_slice(timing, slot, op);
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

/* --- the sequencer of a queue --------------------------------------------------------------------------------------- */

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
    timing->record->insns++;
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

/* An instruction without work. One of the engine (its pattern was clipped away) keeps its place: what it signals says that
 * everything before it is done. SYNC and the like signal at once. */
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
            if (insn->wait[i].sem != VNPU_NO_SEM) core->sem[insn->wait[i].sem] -= insn->wait[i].value;
        }
    }
    timing_slot_t *slot = take_slot(queue);
    slot->signal[0] = insn->signal[0];
    slot->signal[1] = insn->signal[1];
    slot->opcode = insn->op;
    slot->instance = core->instance;
    queue->stage = TIMING_ISSUE; /* a completion inside submit must not re-enter this instruction */
    core->in_flight++;
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

/* --- instances ------------------------------------------------------------------------------------------------------ */

static void instance_start(sim_engine_t *engine, sim_event_t *event) {
    (void)engine;
    timing_core_t *core = SIM_CONTAINER_OF(event, timing_core_t, start_event);
    dev_timing_t *timing = core->timing;
    const dev_program_t *program = timing->placed.program;
    core->instance = core->next_instance;
    uint64_t after = (uint64_t)core->instance + timing->takers;
    core->next_instance = after < timing->instances ? (uint32_t)after : INSTANCE_NONE;
    core->grid_pos[0] = core->instance % timing->placed.grid[0];
    core->grid_pos[1] = core->instance / timing->placed.grid[0];
    memset(core->sem, 0, sizeof core->sem);
    core->weights.count = 0;
    core->active_queues = core->num_queues;
    for (uint32_t q = 0; q < core->num_queues; q++) {
        timing_queue_t *queue = &core->queue[q];
        book(timing, queue->engine, sim_now(timing->engine), SIM_CAUSE_LAUNCH_GAP);
        queue->row_lists = 0;
        queue->in_unit = 0;
        queue->outstanding = 0;
        queue->newest = NULL;
        dev_cursor_init(&queue->cursor, program, queue->section);
    }
    for (uint32_t q = 0; q < core->num_queues; q++) queue_fetch(&core->queue[q]);
    core_check(core);
}

static uint32_t vector_engine(const timing_core_t *core) { return core->first_engine + (core->cls->has_matrix ? 1 : 0); }
static uint32_t dma_engine(const timing_core_t *core, uint32_t queue) { return vector_engine(core) + 1 + queue; }

static uint32_t engine_of(const timing_core_t *core, const vnpu_queue_section_t *section) {
    switch ((vnpu_queue_kind_t)section->kind) {
    case VNPU_QUEUE_MATRIX: return core->cls->has_matrix ? core->first_engine : ENGINE_NONE;
    case VNPU_QUEUE_VECTOR: return vector_engine(core);
    case VNPU_QUEUE_DMA: return dma_engine(core, section->index);
    case VNPU_QUEUE_CTRL: case VNPU_QUEUE_KIND_COUNT: return ENGINE_NONE;
    }
    return ENGINE_NONE;
}

static void core_reset(timing_core_t *core) {
    sim_share_reset(&core->sram);
    sim_share_reset(&core->acc);
    if (core->matrix != NULL) sim_matrix_reset(core->matrix);
    sim_vector_reset(core->vector);
    for (uint32_t d = 0; d < core->cls->dma_queues; d++) sim_dma_reset(core->dma[d]);
    core->instance = core->next_instance = INSTANCE_NONE;
    core->active_queues = core->in_flight = 0;
    memset(core->sem_waiter, 0, sizeof core->sem_waiter);
}

static void timing_reset(dev_timing_t *timing) {
    sim_engine_reset(timing->engine);
    sim_dram_reset(timing->dram);
    sim_noc_reset(timing->noc);
    for (uint32_t c = 0; c < timing->machine.cores; c++) core_reset(&timing->core[c]);
    memset(timing->books, 0, timing->engines * sizeof *timing->books);
    memset(timing->actions, 0, sizeof timing->actions);
    timing->finished = 0;
    timing->slice_capacity = 0;
}

static void queue_prepare(timing_core_t *core, uint32_t q) {
    const dev_program_t *program = core->timing->placed.program;
    timing_queue_t *queue = &core->queue[q];
    queue->core = core;
    queue->section = &program->queue[q];
    queue->section_index = q;
    queue->engine = engine_of(core, queue->section);
    queue->stage = TIMING_IDLE;
    sim_event_init(&queue->issue_event, SIM_PHASE_ISSUE, queue_issue);
}

static void find_dma_semaphores(dev_timing_t *timing) {
    const dev_program_t *program = timing->placed.program;
    memset(timing->sem_from_dma, 0, sizeof timing->sem_from_dma);
    for (uint32_t q = 0; q < program->header.num_queues; q++) {
        const vnpu_queue_section_t *section = &program->queue[q];
        if (section->kind != VNPU_QUEUE_DMA) continue;
        for (uint32_t i = 0; i < section->count; i++) {
            const vnpu_insn_t *insn = &program->insn[section->first + i];
            for (uint32_t s = 0; s < 2; s++) {
                if (insn->signal[s].sem < VNPU_MAX_SEMS) timing->sem_from_dma[insn->signal[s].sem] = 1;
            }
        }
    }
}

static void start_cores(dev_timing_t *timing) {
    const dev_launch_t *launch = &timing->placed;
    uint32_t taker = 0;
    timing->takers = 0;
    for (uint32_t c = 0; c < timing->machine.cores; c++) {
        timing->takers += (uint32_t)(launch->core_mask[c / 64] >> (c % 64)) & 1u;
    }
    timing->cores_left = 0;
    for (uint32_t c = 0; c < timing->machine.cores; c++) {
        if (((launch->core_mask[c / 64] >> (c % 64)) & 1u) == 0) continue;
        timing_core_t *core = &timing->core[c];
        if (taker >= timing->instances) break;
        core->next_instance = taker++;
        core->num_queues = launch->program->header.num_queues;
        for (uint32_t q = 0; q < core->num_queues; q++) queue_prepare(core, q);
        timing->cores_left++;
        sim_event_schedule(timing->engine, &core->start_event,
                           sim_clock_tick(&core->cls->core_clock, core->cls->instance_cycles));
    }
}

/* --- records -------------------------------------------------------------------------------------------------------- */

static sim_status_t record_begin(dev_timing_t *timing, dev_record_t *record, const char *name) {
    memset(record, 0, sizeof *record);
    snprintf(record->name, sizeof record->name, "%s", name);
    record->cause_ticks = calloc((size_t)timing->engines * SIM_CAUSE_COUNT, sizeof *record->cause_ticks);
    timing->record = record;
    return record->cause_ticks == NULL ? SIM_ERROR_OUT_OF_MEMORY : SIM_OK;
}

static void record_end(dev_timing_t *timing, dev_record_t *record, sim_tick_t duration) {
    const sim_dram_stats_t *stats = sim_dram_stats(timing->dram);
    record->duration_ticks = duration;
    record->bus_read_bytes = stats->read_bytes;
    record->bus_written_bytes = stats->write_bytes;
    record->row_hits = stats->row_hits;
    record->row_closed = stats->row_closed;
    record->row_conflicts = stats->row_conflicts;
    timing_energy_end(timing, record);
    for (uint32_t e = 0; e < timing->engines; e++) {
        book(timing, e, duration, SIM_CAUSE_IDLE);
        memcpy(&record->cause_ticks[e * SIM_CAUSE_COUNT], timing->books[e].cause, sizeof timing->books[e].cause);
    }
    timing->record = NULL;
}

void dev_record_free(dev_record_t *record) {
    free(record->cause_ticks);
    free(record->slice);
    record->cause_ticks = NULL;
    record->slice = NULL;
    record->num_slices = 0;
}

bool dev_record_equal(const dev_record_t *a, const dev_record_t *b, uint32_t engines) {
    return a->duration_ticks == b->duration_ticks && a->macs == b->macs && a->padded_macs == b->padded_macs &&
           a->dram_read_bytes == b->dram_read_bytes && a->dram_written_bytes == b->dram_written_bytes &&
           a->bus_read_bytes == b->bus_read_bytes && a->bus_written_bytes == b->bus_written_bytes &&
           a->row_hits == b->row_hits && a->row_closed == b->row_closed && a->row_conflicts == b->row_conflicts &&
           a->insns == b->insns && a->vector_elems == b->vector_elems &&
           memcmp(a->energy_fj, b->energy_fj, sizeof a->energy_fj) == 0 &&
           memcmp(a->cause_ticks, b->cause_ticks, (size_t)engines * SIM_CAUSE_COUNT * sizeof *a->cause_ticks) == 0;
}

static sim_status_t deadlocked(dev_timing_t *timing, sim_error_t *err) {
    char text[600];
    size_t used = 0;
    for (uint32_t c = 0; c < timing->machine.cores && used < sizeof text - 200; c++) {
        const timing_core_t *core = &timing->core[c];
        if (core->instance == INSTANCE_NONE) continue;
        for (uint32_t q = 0; q < core->num_queues && used < sizeof text - 200; q++) {
            const timing_queue_t *queue = &core->queue[q];
            if (queue->stage != TIMING_WAIT_SEM) continue;
            char name[16], sem[80];
            dev_queue_name(queue->section, name);
            dev_semaphore_name(timing->placed.program, queue->waiting_sem, sem);
            used += (size_t)snprintf(text + used, sizeof text - used, "\n  core %u %s insn %u waits for semaphore %s, it is %lld", c,
                                     name, (uint32_t)(queue->insn - timing->placed.program->insn), sem,
                                     (long long)core->sem[queue->waiting_sem]);
        }
    }
    return sim_error_set(err, SIM_ERROR_DEADLOCK, "%s: deadlock in the timing engine:%s", timing->placed.program->header.name, text);
}

sim_status_t dev_timing_run(dev_timing_t *timing, const dev_launch_t *launch, const dev_placement_t *placement,
                            const dev_exec_t *rows, bool with_slices, dev_record_t *out_record, sim_error_t *err) {
    sim_status_t status = record_begin(timing, out_record, launch->program->header.name);
    if (status != SIM_OK) return sim_error_set(err, status, "no memory for a timing record");
    timing->launch = launch;
    timing->placement = placement;
    timing->rows = rows;
    timing->with_slices = with_slices;
    timing->placed = *launch;
    for (uint32_t a = 0; a < launch->program->header.num_args; a++) {
        if (launch->program->header.arg_kind[a] != VNPU_ARG_SCALAR) timing->placed.arg[a] = placement->address[a];
    }
    timing->instances = launch->grid[0] * launch->grid[1];
    timing_reset(timing);
    find_dma_semaphores(timing);
    uint64_t before = sim_engine_dispatched(timing->engine);
    start_cores(timing);
    sim_engine_run(timing->engine);
    out_record->events = sim_engine_dispatched(timing->engine) - before;
    if (timing->cores_left != 0) {
        status = deadlocked(timing, err);
        record_end(timing, out_record, sim_now(timing->engine));
        dev_record_free(out_record);
        return status;
    }
    record_end(timing, out_record, timing->finished);
    out_record->key[0] = placement->key[0];
    out_record->key[1] = placement->key[1];
    return SIM_OK;
}

static void move_op(sim_dma_op_t *op, sim_dma_kind_t kind, uint64_t base, uint64_t bytes) {
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->base = base;
    op->run_bytes = bytes;
    op->sram_bytes = bytes;
}

static void book_move(dev_timing_t *timing, uint32_t engine, const sim_op_t *op) {
    book(timing, engine, op->start, SIM_CAUSE_ISSUE);
    for (uint32_t c = 0; c < SIM_CAUSE_COUNT; c++) timing->books[engine].cause[c] += op->cause[c];
    timing->books[engine].booked_to = op->end;
}

sim_status_t dev_timing_move(dev_timing_t *timing, uint64_t src, uint64_t dst, uint64_t bytes, bool is_copy,
                             dev_record_t *out_record, sim_error_t *err) {
    sim_status_t status = record_begin(timing, out_record, is_copy ? "copy" : "fill");
    if (status != SIM_OK) return sim_error_set(err, status, "no memory for a timing record");
    timing_reset(timing);
    timing_core_t *core = &timing->core[0];
    uint32_t writer = core->cls->dma_queues > 1 ? 1 : 0;
    sim_dma_op_t read, write;
    sim_tick_t duration = 0;
    if (is_copy) {
        move_op(&read, SIM_DMA_READ, src, bytes);
        timing_energy_dma(core, &read);
        sim_dma_submit(core->dma[0], &read);
        out_record->dram_read_bytes = bytes;
    }
    move_op(&write, SIM_DMA_WRITE, dst, bytes);
    timing_energy_dma(core, &write);
    sim_dma_submit(core->dma[writer], &write);
    out_record->dram_written_bytes = bytes;
    sim_engine_run(timing->engine);
    if (is_copy) {
        book_move(timing, dma_engine(core, 0), &read.op);
        duration = read.op.done;
    }
    book_move(timing, dma_engine(core, writer), &write.op);
    if (write.op.done > duration) duration = write.op.done;
    record_end(timing, out_record, duration);
    return SIM_OK;
}

/* --- creation ------------------------------------------------------------------------------------------------------- */

static uint32_t engines_of(const dev_class_t *cls) { return (cls->has_matrix ? 2 : 1) + cls->dma_queues; }

static sim_status_t core_init(dev_timing_t *timing, uint32_t index) {
    timing_core_t *core = &timing->core[index];
    const dev_class_t *cls = &timing->machine.cls[dev_machine_class_of(&timing->machine, index)];
    core->timing = timing;
    core->cls = cls;
    core->index = index;
    core->first_engine = index == 0 ? 0 : core[-1].first_engine + engines_of(core[-1].cls);
    sim_event_init(&core->start_event, SIM_PHASE_ISSUE, instance_start);
    sim_share_init(&core->sram, timing->engine, &cls->core_clock, cls->sram_bytes_per_cycle);
    sim_share_init(&core->acc, timing->engine, &cls->core_clock, cls->acc_bytes_per_cycle);
    sim_status_t status = SIM_OK;
    if (cls->has_matrix) status = sim_matrix_create(timing->engine, &cls->matrix, &core->sram, &core->acc, &core->matrix);
    if (status == SIM_OK) status = sim_vector_create(timing->engine, &cls->vector, &core->sram, &core->acc, &core->vector);
    for (uint32_t d = 0; d < cls->dma_queues && status == SIM_OK; d++) {
        sim_dma_spec_t spec = cls->dma;
        spec.network = d % sim_noc_networks(timing->noc);
        status = sim_dma_create(timing->engine, &spec, timing->dram, timing->noc, index, &core->sram, &core->acc,
                                &core->dma[d]);
    }
    return status;
}

sim_status_t dev_timing_create(const dev_machine_t *machine, const sim_config_t *config, dev_timing_t **out_timing,
                               sim_error_t *err) {
    *out_timing = NULL;
    dev_timing_t *timing = calloc(1, sizeof *timing);
    if (timing == NULL) return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "no memory for the timing engine");
    timing->machine = *machine;
    for (uint32_t c = 0; c < machine->num_classes; c++) timing->engines += machine->cls[c].cores * engines_of(&machine->cls[c]);
    timing->core = calloc(machine->cores, sizeof *timing->core);
    timing->books = calloc(timing->engines, sizeof *timing->books);
    sim_status_t status = timing->core == NULL || timing->books == NULL ? SIM_ERROR_OUT_OF_MEMORY : SIM_OK;
    if (status == SIM_OK) status = sim_engine_create(&timing->engine);
    if (status == SIM_OK) status = sim_dram_create(config, &timing->dram, err);
    if (status == SIM_OK) status = sim_noc_create(config, machine->cores, &timing->noc, err);
    for (uint32_t c = 0; c < machine->cores && status == SIM_OK; c++) status = core_init(timing, c);
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
    for (uint32_t d = 0; d < DEV_MAX_DMA_QUEUES; d++) sim_dma_destroy(core->dma[d]);
    for (uint32_t q = 0; q < VNPU_MAX_QUEUES; q++) {
        timing_slot_t *slot = core->queue[q].all_slots;
        while (slot != NULL) {
            timing_slot_t *next = slot->next_all;
            free(slot->row);
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
    sim_dram_destroy(timing->dram);
    sim_engine_destroy(timing->engine);
    free(timing->books);
    free(timing->core);
    free(timing);
}

uint32_t dev_timing_engines(const dev_timing_t *timing) { return timing->engines; }

void dev_timing_engine_name(const dev_timing_t *timing, uint32_t engine, char text[32]) {
    uint32_t c = timing->machine.cores - 1;
    while (engine < timing->core[c].first_engine) c--;
    const timing_core_t *core = &timing->core[c];
    if (engine < vector_engine(core)) snprintf(text, 32, "core%u.matrix", c);
    else if (engine == vector_engine(core)) snprintf(text, 32, "core%u.vector", c);
    else snprintf(text, 32, "core%u.dma%u", c, engine - dma_engine(core, 0));
}

uint64_t dev_timing_dram_peak(const dev_timing_t *timing) { return sim_dram_peak_bytes_per_s(timing->dram); }
