#include "device/dev_exec_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void queue_name(const exec_instance_t *instance, uint32_t queue, char text[16]) {
    dev_queue_name(&instance->program->queue[queue], text);
}

static uint32_t insn_index(const exec_instance_t *instance, uint32_t queue,
                           const vnpu_insn_t *insn) {
    return (uint32_t)(insn - instance->program->insn) - instance->program->queue[queue].first;
}

void exec_where(const exec_instance_t *instance, char *text, size_t bytes) {
    char queue[16];
    queue_name(instance, instance->running, queue);
    (void)snprintf(text, bytes, "program %s: queue %s insn %u (line %u), core %u, instance %u",
                   instance->program->header.name, queue,
                   insn_index(instance, instance->running, instance->insn), instance->insn->line,
                   instance->core, instance->index);
}

sim_status_t exec_fault(const exec_instance_t *instance, sim_status_t status, const char *format,
                        ...) {
    char where[192], what[700];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(what, sizeof what, format, list);
    va_end(list);
    exec_where(instance, where, sizeof where);
    return sim_error_set(instance->err, status, "%s: %s", where, what);
}

typedef struct report {
    char text[sizeof((sim_error_t *)NULL)->text];
    size_t length;
} report_t;

static SIM_PRINTF(2, 3) void add(report_t *report, const char *format, ...) {
    va_list list;
    va_start(list, format);
    size_t room = sizeof report->text - report->length;
    int written = vsnprintf(report->text + report->length, room, format, list);
    va_end(list);
    if (written > 0) report->length += (size_t)written < room ? (size_t)written : room - 1;
}

/* Does the rest of the queue's stream, its open loops included, still signal the semaphore? */
static bool still_signals(const exec_queue_t *queue, uint16_t sem) {
    dev_cursor_t cursor = queue->cursor;
    const vnpu_insn_t *insn = queue->insn;
    /* A bounded look: streams are finite, but may be long. */
    for (uint64_t steps = 0; insn && steps < 1000000; steps++) {
        if (insn->signal[0].sem == sem || insn->signal[1].sem == sem) return true;
        insn = dev_cursor_next(&cursor);
    }
    return insn != NULL;
}

/* Edges from other instances of a team: the first queues whose instructions reach this instance. */
static bool add_others(report_t *report, const exec_instance_t *instance, uint16_t sem) {
    const dev_program_t *program = instance->program;
    uint32_t found = 0;
    for (uint32_t i = 0; i < instance->team_size; i++) {
        const exec_instance_t *other = &instance->team[i];
        for (uint32_t q = 0; q < program->header.num_queues; q++) {
            const exec_queue_t *queue = &other->queue[q];
            const vnpu_queue_section_t *section = &program->queue[q];
            bool signals = false;
            for (uint32_t n = 0; n < section->count && !signals; n++) {
                const vnpu_insn_t *insn = &program->insn[section->first + n];
                bool is_there = insn->only == 0 || dev_place_matches(insn->only, other->grid_pos);
                bool is_sent = insn->remote_core != 0 || insn->multicast != 0;
                bool is_it = insn->signal[0].sem == sem || insn->signal[1].sem == sem;
                signals = is_it && is_sent && is_there &&
                          dev_insn_reaches(insn, other->grid_pos, instance->grid_pos);
            }
            if (!signals || ++found > 3) continue;
            char name[16];
            queue_name(other, q, name);
            add(report, "%s%s of instance %u (%s)", found > 1 ? ", " : "; sent by ", name,
                other->index, queue->state == QUEUE_ENDED ? "ended" : "blocked");
        }
    }
    if (found > 3) add(report, " and %u more", found - 3);
    return found > 0;
}

/* Edges of the wait-for graph: the queues whose instructions signal the semaphore. */
static void add_signalers(report_t *report, const exec_instance_t *instance, uint16_t sem) {
    const dev_program_t *program = instance->program;
    bool has_any = false;
    for (uint32_t q = 0; q < program->header.num_queues; q++) {
        const vnpu_queue_section_t *section = &program->queue[q];
        bool signals = false;
        for (uint32_t i = 0; i < section->count; i++) {
            const vnpu_insn_t *insn = &program->insn[section->first + i];
            bool is_own = insn->remote_core == 0 && insn->multicast == 0;
            for (uint32_t s = 0; s < 2; s++)
                signals |= is_own && insn->signal[s].sem == sem && insn->signal[s].delta > 0;
        }
        if (!signals) continue;
        char name[16];
        queue_name(instance, q, name);
        const exec_queue_t *queue = &instance->queue[q];
        const char *how = queue->state == QUEUE_ENDED ? "ended"
                          : still_signals(queue, sem) ? "blocked before its signal"
                                                      : "blocked, past its last signal";
        add(report, "%s%s (%s)", has_any ? ", " : "; signalled by ", name, how);
        has_any = true;
    }
    has_any = add_others(report, instance, sem) || has_any;
    if (!has_any) add(report, "; no instruction signals it");
}

static void add_queue(report_t *report, const exec_instance_t *instance, uint32_t q) {
    const exec_queue_t *queue = &instance->queue[q];
    char name[16];
    queue_name(instance, q, name);
    add(report, "\n  %s insn %u (line %u)", name, insn_index(instance, q, queue->insn),
        queue->insn->line);
    for (uint32_t l = 0; l < queue->cursor.depth; l++) {
        add(report, "%s%u/%u", l ? ", " : " in loop ", queue->cursor.counter[l],
            queue->cursor.trips[l]);
    }
    for (uint32_t w = 0; w < 2; w++) {
        vnpu_sem_wait_t wait = queue->insn->wait[w];
        if (wait.sem == VNPU_NO_SEM || instance->sem[wait.sem] >= wait.value) continue;
        char sem[80];
        dev_semaphore_name(instance->program, wait.sem, sem);
        add(report, " waits for semaphore %s >= %u, it is %lld", sem, wait.value,
            (long long)instance->sem[wait.sem]);
        add_signalers(report, instance, wait.sem);
    }
}

sim_status_t exec_report_deadlock(exec_instance_t *instance) {
    report_t report = {.length = 0};
    add(&report, "deadlock: program %s, core %u, instance %u: no queue can go on",
        instance->program->header.name, instance->core, instance->index);
    for (uint32_t q = 0; q < instance->program->header.num_queues; q++) {
        if (instance->queue[q].state == QUEUE_BLOCKED) add_queue(&report, instance, q);
    }
    return sim_error_set(instance->err, SIM_ERROR_DEADLOCK, "%s", report.text);
}

sim_status_t exec_report_team_deadlock(exec_instance_t *team, uint32_t size) {
    report_t report = {.length = 0};
    add(&report, "deadlock: program %s: no queue of its %u instances can go on",
        team->program->header.name, size);
    for (uint32_t i = 0; i < size; i++) {
        const exec_instance_t *instance = &team[i];
        for (uint32_t q = 0; q < instance->program->header.num_queues; q++) {
            if (instance->queue[q].state != QUEUE_BLOCKED) continue;
            add(&report, "\n core %u, instance %u (%u:%u):", instance->core, instance->index,
                instance->grid_pos[0], instance->grid_pos[1]);
            add_queue(&report, instance, q);
        }
    }
    return sim_error_set(team->err, SIM_ERROR_DEADLOCK, "%s", report.text);
}
