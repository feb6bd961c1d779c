/*
 * The interpreter of one program instance: runs one queue until it blocks on a semaphore or ends,
 * then the next. In chaos mode it picks a random runnable queue after each instruction and holds
 * DMA writes back.
 */
#include "device/dev_exec_internal.h"

#include <stdlib.h>

/* splitmix64: a seeded sequence of its own, the same on every host. */
uint64_t exec_random(exec_instance_t *instance) {
    uint64_t z = instance->random += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static bool can_take(const exec_instance_t *instance, const vnpu_insn_t *insn) {
    for (uint32_t w = 0; w < 2; w++) {
        vnpu_sem_wait_t wait = insn->wait[w];
        if (wait.sem != VNPU_NO_SEM && instance->sem[wait.sem] < wait.value) return false;
    }
    return true;
}

static void take(exec_instance_t *instance, const vnpu_insn_t *insn) {
    if (insn->flags & VNPU_F_NO_CONSUME) return;
    for (uint32_t w = 0; w < 2; w++) {
        if (insn->wait[w].sem != VNPU_NO_SEM)
            instance->sem[insn->wait[w].sem] -= insn->wait[w].value;
    }
}

static void signal_instance(exec_instance_t *instance, const vnpu_insn_t *insn) {
    for (uint32_t s = 0; s < 2; s++) {
        uint16_t sem = insn->signal[s].sem;
        if (sem == VNPU_NO_SEM) continue;
        instance->sem[sem] += insn->signal[s].delta;
        uint8_t waiter = instance->program->sem_waiter[sem];
        if (waiter >= instance->program->header.num_queues) continue;
        exec_queue_t *queue = &instance->queue[waiter];
        if (queue->state == QUEUE_BLOCKED) queue->state = QUEUE_READY; /* it looks again */
    }
}

static void signal_all(exec_instance_t *instance, const vnpu_insn_t *insn) {
    if (insn->remote_core == 0 && insn->multicast == 0) {
        signal_instance(instance, insn);
        return;
    }
    for (uint32_t i = 0; i < instance->team_size; i++) {
        exec_instance_t *other = &instance->team[i];
        if (dev_insn_reaches(insn, instance->grid_pos, other->grid_pos)) {
            signal_instance(other, insn);
        }
    }
}

/* The instruction of `sender` with the memories of `receiver`. */
static sim_status_t copy_into(exec_instance_t *receiver, const exec_instance_t *sender) {
    exec_instance_t as = *sender;
    as.worker = receiver->worker;
    return exec_dma(&as);
}

static sim_status_t multicast(exec_instance_t *instance) {
    sim_status_t status = SIM_OK;
    for (uint32_t i = 0; i < instance->team_size && status == SIM_OK; i++) {
        exec_instance_t *other = &instance->team[i];
        if (!dev_insn_reaches(instance->insn, instance->grid_pos, other->grid_pos)) continue;
        status = copy_into(other, instance);
    }
    return status;
}

static sim_status_t execute(exec_instance_t *instance) {
    const vnpu_insn_t *insn = instance->insn;
    if (insn->multicast != 0) return multicast(instance);
    switch ((vnpu_op_t)insn->op) {
    case VNPU_OP_NOP:
    case VNPU_OP_SYNC:
    case VNPU_OP_FENCE:
    case VNPU_OP_MARK: return SIM_OK;
    case VNPU_OP_TRAP: return exec_fault(instance, SIM_ERROR_TRAP, "trap %u", insn->imm[0]);
    case VNPU_OP_DMA_COPY:
    case VNPU_OP_DMA_TRANSPOSE:
    case VNPU_OP_DMA_FILL:
    case VNPU_OP_DMA_GATHER:
    case VNPU_OP_DMA_SCATTER: return exec_dma(instance);
    case VNPU_OP_MM: return exec_mm(instance);
    case VNPU_OP_V_UNARY:
    case VNPU_OP_V_BINARY:
    case VNPU_OP_V_SELECT:
    case VNPU_OP_V_REDUCE:
    case VNPU_OP_V_FOLD: return exec_vector(instance);
    case VNPU_OP_LOOP:
    case VNPU_OP_ENDLOOP: /* the cursor walks over them */
    case VNPU_OP_V_ARGRED:
    case VNPU_OP_V_RANDOM:
    case VNPU_OP_V_SCAN:
    case VNPU_OP_REMOTE: break;
    }
    return exec_fault(instance, SIM_ERROR_ILLEGAL_INSTRUCTION,
                      "opcode 0x%02x is not executed by this device", insn->op);
}

static void advance(exec_queue_t *queue) {
    queue->insn = dev_cursor_next(&queue->cursor);
    if (!queue->insn) queue->state = QUEUE_ENDED;
}

/* Runs the queue until it blocks or ends. */
static sim_status_t run_queue(exec_instance_t *instance, uint32_t q) {
    exec_queue_t *queue = &instance->queue[q];
    instance->running = q;
    instance->cursor = &queue->cursor;
    while (queue->state == QUEUE_READY) {
        const vnpu_insn_t *insn = queue->insn;
        if (!can_take(instance, insn)) {
            queue->state = QUEUE_BLOCKED;
            break;
        }
        take(instance, insn);
        instance->insn = insn;
        instance->has_run = true;
        sim_status_t status = execute(instance);
        if (status != SIM_OK) return status;
        signal_all(instance, insn);
        advance(queue);
    }
    return SIM_OK;
}

static sim_status_t run_in_order(exec_instance_t *instance) {
    uint32_t queues = instance->program->header.num_queues;
    for (bool has_run = true; has_run;) {
        has_run = false;
        for (uint32_t q = 0; q < queues; q++) {
            if (instance->queue[q].state != QUEUE_READY) continue;
            has_run = true;
            sim_status_t status = run_queue(instance, q);
            if (status != SIM_OK) return status;
        }
    }
    return SIM_OK;
}

/* ---- chaos ---- */

/* Completes the oldest held-back write of the queue. */
static sim_status_t finish_late(exec_instance_t *instance, uint32_t q) {
    exec_queue_t *queue = &instance->queue[q];
    exec_late_t *late = queue->late;
    queue->late = late->next;
    if (!queue->late) queue->late_tail = NULL;
    instance->running = q;
    instance->insn = late->insn;
    instance->cursor = &late->cursor;
    sim_status_t status = exec_late_finish(instance, late);
    if (status == SIM_OK) signal_all(instance, late->insn);
    exec_late_destroy(late);
    return status;
}

static sim_status_t hold_back(exec_instance_t *instance, exec_queue_t *queue) {
    exec_late_t *late;
    sim_status_t status = exec_dma_late(instance, &late);
    if (status != SIM_OK) return status;
    if (queue->late_tail) {
        queue->late_tail->next = late;
    } else {
        queue->late = late;
    }
    queue->late_tail = late;
    return SIM_OK;
}

/* One instruction of the queue; false in *out_ran when it has to wait. */
static sim_status_t step_chaos(exec_instance_t *instance, uint32_t q, bool *out_ran) {
    exec_queue_t *queue = &instance->queue[q];
    const vnpu_insn_t *insn = queue->insn;
    sim_status_t status = SIM_OK;
    *out_ran = false;
    if (!can_take(instance, insn)) return SIM_OK;
    *out_ran = true;
    /* A fence, and everything that signals without moving data, comes after what the queue still
     * holds back. */
    bool is_dma = (insn->op & 0xf0u) == 0x10u && insn->multicast == 0;
    while (!is_dma && queue->late && status == SIM_OK)
        status = finish_late(instance, q);
    if (status != SIM_OK) return status;
    take(instance, insn);
    instance->running = q;
    instance->insn = insn;
    instance->cursor = &queue->cursor;
    if (is_dma) {
        status = hold_back(instance, queue);
    } else {
        status = execute(instance);
        if (status == SIM_OK) signal_all(instance, insn);
    }
    advance(queue);
    return status;
}

static sim_status_t run_chaos(exec_instance_t *instance) {
    uint32_t queues = instance->program->header.num_queues;
    for (;;) {
        /* Choices 0..queues-1: an instruction of that queue; queues..: complete its oldest
         * held-back write. */
        uint32_t start = (uint32_t)(exec_random(instance) % (2 * queues));
        bool has_run = false;
        for (uint32_t i = 0; i < 2 * queues && !has_run; i++) {
            uint32_t choice = (start + i) % (2 * queues), q = choice % queues;
            sim_status_t status = SIM_OK;
            if (choice >= queues && instance->queue[q].late) {
                status = finish_late(instance, q);
                has_run = true;
            } else if (choice < queues && instance->queue[q].state != QUEUE_ENDED) {
                status = step_chaos(instance, q, &has_run);
            }
            if (status != SIM_OK) return status;
        }
        if (!has_run) break;
        instance->has_run = true;
    }
    for (uint32_t q = 0; q < queues; q++) {
        if (instance->queue[q].state != QUEUE_ENDED) instance->queue[q].state = QUEUE_BLOCKED;
    }
    return SIM_OK;
}

static void begin(exec_instance_t *instance) {
    const dev_program_t *program = instance->program;
    for (uint32_t q = 0; q < program->header.num_queues; q++) {
        exec_queue_t *queue = &instance->queue[q];
        *queue = (exec_queue_t){.state = QUEUE_READY};
        dev_cursor_init(&queue->cursor, program, &program->queue[q]);
        dev_cursor_place(&queue->cursor, instance->grid_pos);
        advance(queue);
    }
    for (uint32_t s = 0; s < VNPU_MAX_SEMS; s++)
        instance->sem[s] = 0;
    instance->num_aliases = 0;
    instance->has_run = false;
    instance->random = instance->exec->options.seed * 0x2545f4914f6cdd1dull +
                       instance->exec->runs * 0x9e3779b97f4a7c15ull + instance->index;
}

/* Runs the instance until it cannot go on. */
static sim_status_t go(exec_instance_t *instance) {
    return instance->exec->options.mode == DEV_EXEC_CHAOS ? run_chaos(instance)
                                                          : run_in_order(instance);
}

static bool is_stuck(const exec_instance_t *instance) {
    for (uint32_t q = 0; q < instance->program->header.num_queues; q++) {
        if (instance->queue[q].state != QUEUE_ENDED) return true;
    }
    return false;
}

static void drop_late(exec_instance_t *instance) {
    for (uint32_t q = 0; q < instance->program->header.num_queues; q++) {
        while (instance->queue[q].late) {
            exec_late_t *next = instance->queue[q].late->next;
            exec_late_destroy(instance->queue[q].late);
            instance->queue[q].late = next;
        }
    }
}

sim_status_t exec_run_instance(exec_instance_t *instance) {
    begin(instance);
    sim_status_t status = go(instance);
    if (status == SIM_OK && is_stuck(instance)) status = exec_report_deadlock(instance);
    drop_late(instance);
    return status;
}

sim_status_t exec_run_team(exec_instance_t *team, uint32_t size, exec_instance_t **out_culprit) {
    sim_status_t status = SIM_OK;
    bool is_any = true, is_whole = true;
    *out_culprit = team;
    for (uint32_t i = 0; i < size; i++)
        begin(&team[i]);
    while (is_any && status == SIM_OK) {
        is_any = false;
        bool is_chaos = team->exec->options.mode == DEV_EXEC_CHAOS;
        uint32_t first = is_chaos ? (uint32_t)(exec_random(team) % size) : 0;
        for (uint32_t i = 0; i < size && status == SIM_OK; i++) {
            exec_instance_t *instance = &team[(first + i) % size];
            instance->has_run = false;
            status = go(instance);
            if (status != SIM_OK) *out_culprit = instance;
            is_any = is_any || instance->has_run;
        }
    }
    for (uint32_t i = 0; i < size; i++) {
        is_whole = is_whole && !is_stuck(&team[i]);
        drop_late(&team[i]);
    }
    if (status == SIM_OK && !is_whole) status = exec_report_team_deadlock(team, size);
    return status;
}
