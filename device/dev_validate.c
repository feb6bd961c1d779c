#include "device/dev_validate_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Such a stream would not end in a lifetime; and products of trip counts stay far from 2^64. */
#define MAX_ITERATIONS ((uint64_t)1 << 40)

static size_t queue_offset(uint32_t queue) {
    return sizeof(vnpu_program_header_t) + queue * sizeof(vnpu_queue_section_t);
}

static size_t insn_offset(const dev_program_t *program, uint32_t insn) {
    return queue_offset(program->header.num_queues) + insn * sizeof(vnpu_insn_t);
}

static size_t ap_offset(const dev_program_t *program, uint32_t ap) {
    return insn_offset(program, program->header.num_insns) + ap * sizeof(vnpu_ap_t);
}

static size_t strings_offset(const dev_program_t *program) {
    return ap_offset(program, program->header.num_aps);
}

#define REASON(format)                                                                             \
    char reason[700];                                                                              \
    va_list args;                                                                                  \
    va_start(args, format);                                                                        \
    vsnprintf(reason, sizeof reason, format, args);                                                \
    va_end(args)

sim_status_t dev_check_fail(dev_check_t *check, size_t offset, const char *format, ...) {
    REASON(format);
    return sim_error_set(check->err, SIM_ERROR_INVALID_IMAGE, "%s: offset 0x%zx: %s",
                         check->program->header.name, offset, reason);
}

/* What another core may have. */
static sim_status_t check_lacks(dev_check_t *check, size_t offset, const char *format, ...)
    SIM_PRINTF(3, 4);
static sim_status_t check_lacks(dev_check_t *check, size_t offset, const char *format, ...) {
    REASON(format);
    return sim_error_set(check->err, SIM_ERROR_UNSUPPORTED, "%s: offset 0x%zx: %s",
                         check->program->header.name, offset, reason);
}

sim_status_t dev_check_fail_ap(dev_check_t *check, uint32_t ap, const char *format, ...) {
    REASON(format);
    const dev_program_t *program = check->program;
    const char *name =
        dev_program_string(program, program->header.num_args + program->header.num_sems + ap);
    return sim_error_set(check->err, SIM_ERROR_INVALID_IMAGE,
                         "%s: pattern %u%s%s (offset 0x%zx): %s", program->header.name, ap,
                         name ? " " : "", name ? name : "", ap_offset(program, ap), reason);
}

sim_status_t dev_check_fail_insn(dev_check_t *check, sim_status_t status, const char *format, ...) {
    REASON(format);
    const dev_program_t *program = check->program;
    const vnpu_queue_section_t *section = &program->queue[check->queue];
    char queue[16], line[24] = "";
    dev_queue_name(section, queue);
    if (check->insn->line != 0) snprintf(line, sizeof line, ", line %u", check->insn->line);
    return sim_error_set(check->err, status, "%s: queue %s insn %u (offset 0x%zx%s): %s%s%s",
                         program->header.name, queue, check->pc,
                         insn_offset(program, section->first + check->pc), line,
                         check->info ? check->info->name : "", check->info ? ": " : "", reason);
}

#define FAIL_INSN(...) dev_check_fail_insn(check, SIM_ERROR_INVALID_IMAGE, __VA_ARGS__)

const char *dev_program_string(const dev_program_t *program, uint32_t n) {
    const char *at = program->strings, *end = at + program->header.strings_bytes;
    while (n-- > 0 && at < end)
        at += strlen(at) + 1;
    return at < end ? at : NULL;
}

/* ---- header, strings, sections ---- */

static sim_status_t check_name(dev_check_t *check) {
    const char *name = check->program->header.name;
    size_t size = sizeof check->program->header.name,
           offset = offsetof(vnpu_program_header_t, name);
    size_t length = strnlen(name, size);
    bool is_good = length > 0 && length < size;
    for (size_t i = 0; i < size && is_good; i++) {
        if (i >= length) {
            is_good = name[i] == 0;
        } else {
            is_good = name[i] > ' ' && name[i] <= '~' && name[i] != ';' && name[i] != '#';
        }
    }
    if (is_good) return SIM_OK;
    memcpy(check->program->header.name, "?", 2); /* it stands in every message */
    return dev_check_fail(check, offset,
                          "the program's name must be 1 to %zu printable characters without "
                          "spaces, ';' and '#', padded with zeros",
                          size - 1);
}

static sim_status_t check_header(dev_check_t *check) {
    const vnpu_program_header_t *header = &check->program->header;
    sim_status_t status = check_name(check);
    if (status != SIM_OK) return status;
    if (header->num_args > VNPU_MAX_ARGS) {
        return dev_check_fail(check, 18, "%u arguments, at most %u", header->num_args,
                              VNPU_MAX_ARGS);
    }
    if (header->num_sems > VNPU_MAX_SEMS) {
        return dev_check_fail(check, 20, "%u semaphores, at most %u", header->num_sems,
                              VNPU_MAX_SEMS);
    }
    if (header->reserved0 != 0) return dev_check_fail(check, 22, "reserved field is not zero");
    if (header->num_aps > VNPU_NO_AP) {
        return dev_check_fail(check, 28, "%u patterns, at most %u", header->num_aps, VNPU_NO_AP);
    }
    for (uint32_t a = 0; a < VNPU_MAX_ARGS; a++) {
        uint32_t kind = header->arg_kind[a];
        if (a < header->num_args ? kind > VNPU_ARG_INOUT : kind != 0) {
            return dev_check_fail(check, offsetof(vnpu_program_header_t, arg_kind) + a,
                                  "kind %u of argument %u", kind, a);
        }
    }
    const dev_class_t *cls = check->cls;
    if (cls && header->sram_bytes > cls->sram_bytes) {
        return dev_check_fail(check, 32, "needs %u bytes of SRAM, a core has %llu",
                              header->sram_bytes, (unsigned long long)cls->sram_bytes);
    }
    return SIM_OK;
}

/* After the queues: a core without matrix engine has no accumulator either, and the engine is the
 * better reason. */
static sim_status_t check_accumulator(dev_check_t *check) {
    const vnpu_program_header_t *header = &check->program->header;
    if (!check->cls || header->acc_bytes <= check->cls->acc_bytes) return SIM_OK;
    return dev_check_fail(check, 36, "needs %u bytes of accumulator, a core has %llu",
                          header->acc_bytes, (unsigned long long)check->cls->acc_bytes);
}

static bool is_identifier(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!is_letter && !(i > 0 && c >= '0' && c <= '9')) return false;
    }
    return length > 0 && length < DEV_MAX_NAME;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* `count` names from *at on: identifiers, no two equal. */
static sim_status_t check_name_class(dev_check_t *check, const char *what, uint32_t count,
                                     const char **at) {
    const dev_program_t *program = check->program;
    const char *end = program->strings + program->header.strings_bytes;
    const char **names = malloc((count + 1) * sizeof *names);
    if (names == NULL) {
        return sim_error_set(check->err, SIM_ERROR_OUT_OF_MEMORY, "%s: %u names",
                             program->header.name, count);
    }
    sim_status_t status = SIM_OK;
    for (uint32_t i = 0; i < count && status == SIM_OK; i++) {
        size_t offset = strings_offset(program) + (size_t)(*at - program->strings);
        size_t length = strnlen(*at, (size_t)(end - *at));
        if (*at + length >= end || !is_identifier(*at, length)) {
            status = dev_check_fail(check, offset, "name of %s %u is not an identifier", what, i);
            break;
        }
        names[i] = *at;
        *at += length + 1;
    }
    if (status == SIM_OK) qsort(names, count, sizeof *names, compare_names);
    for (uint32_t i = 1; i < count && status == SIM_OK; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            size_t offset = strings_offset(program) + (size_t)(names[i] - program->strings);
            status = dev_check_fail(check, offset, "two %ss have the name %.60s", what, names[i]);
        }
    }
    free(names);
    return status;
}

static sim_status_t check_strings(dev_check_t *check) {
    const vnpu_program_header_t *header = &check->program->header;
    if (header->strings_bytes == 0) return SIM_OK;
    const char *at = check->program->strings;
    sim_status_t status = check_name_class(check, "argument", header->num_args, &at);
    if (status == SIM_OK) status = check_name_class(check, "semaphore", header->num_sems, &at);
    if (status == SIM_OK) status = check_name_class(check, "pattern", header->num_aps, &at);
    if (status == SIM_OK && at != check->program->strings + header->strings_bytes) {
        status =
            dev_check_fail(check, strings_offset(check->program), "%u bytes of strings, %zu used",
                           header->strings_bytes, (size_t)(at - check->program->strings));
    }
    return status;
}

static uint32_t queues_of_kind(const dev_check_t *check, uint32_t kind) {
    if (kind == VNPU_QUEUE_MATRIX && check->cls && !check->cls->has_matrix) return 0;
    if (kind != VNPU_QUEUE_DMA) return 1;
    return check->cls ? check->cls->dma_queues : DEV_MAX_DMA_QUEUES;
}

static sim_status_t check_sections(dev_check_t *check) {
    const dev_program_t *program = check->program;
    uint32_t first = 0;
    for (uint32_t q = 0; q < program->header.num_queues; q++) {
        const vnpu_queue_section_t *section = &program->queue[q];
        if (section->kind >= VNPU_QUEUE_KIND_COUNT || section->reserved || section->reserved1) {
            return dev_check_fail(check, queue_offset(q),
                                  "queue kind %u, or a reserved field that is not zero",
                                  section->kind);
        }
        char name[16];
        dev_queue_name(section, name);
        if (queues_of_kind(check, section->kind) == 0) {
            return check_lacks(check, queue_offset(q), "queue %s: the cores have no such engine",
                               name);
        }
        if (section->index >= queues_of_kind(check, section->kind)) {
            return dev_check_fail(check, queue_offset(q), "queue %s: a core has %u of that kind",
                                  name, queues_of_kind(check, section->kind));
        }
        for (uint32_t other = 0; other < q; other++) {
            if (program->queue[other].kind == section->kind &&
                program->queue[other].index == section->index) {
                return dev_check_fail(check, queue_offset(q), "queue %s has two sections", name);
            }
        }
        if (section->first != first || section->count > program->header.num_insns - first) {
            return dev_check_fail(check, queue_offset(q),
                                  "queue %s: instructions %u + %u; sections follow each other, the "
                                  "next instruction is %u of %u",
                                  name, section->first, section->count, first,
                                  program->header.num_insns);
        }
        first += section->count;
    }
    if (first != program->header.num_insns) {
        return dev_check_fail(check, 24, "%u instructions, the queues hold %u",
                              program->header.num_insns, first);
    }
    return SIM_OK;
}

/* ---- streams ---- */

static sim_status_t check_semaphores(dev_check_t *check) {
    const vnpu_insn_t *insn = check->insn;
    uint32_t num_sems = check->program->header.num_sems;
    for (int i = 0; i < 2; i++) {
        uint32_t sem = insn->wait[i].sem;
        if (sem == VNPU_NO_SEM) {
            if (insn->wait[i].value != 0) return FAIL_INSN("wait %d: a value but no semaphore", i);
            continue;
        }
        if (sem >= num_sems) return FAIL_INSN("wait %d: semaphore %u of %u", i, sem, num_sems);
        if (insn->wait[i].value == 0) return FAIL_INSN("wait %d: waits for >= 0", i);
        if (i == 1 && insn->wait[0].sem == sem)
            return FAIL_INSN("waits twice for semaphore %u", sem);
        uint8_t *waiter = &check->program->sem_waiter[sem];
        if (*waiter != 0xff && *waiter != check->queue) {
            char other[16];
            dev_queue_name(&check->program->queue[*waiter], other);
            return FAIL_INSN("semaphore %u is waited for by queue %s already: one queue may wait",
                             sem, other);
        }
        *waiter = (uint8_t)check->queue;
    }
    for (int i = 0; i < 2; i++) {
        uint32_t sem = insn->signal[i].sem;
        if (sem == VNPU_NO_SEM) {
            if (insn->signal[i].delta != 0) return FAIL_INSN("signal %d: a delta, no semaphore", i);
            continue;
        }
        if (sem >= num_sems) return FAIL_INSN("signal %d: semaphore %u of %u", i, sem, num_sems);
        if (insn->signal[i].delta == 0) return FAIL_INSN("signal %d: adds 0", i);
    }
    if ((insn->flags & VNPU_F_NO_CONSUME) && insn->wait[0].sem == VNPU_NO_SEM &&
        insn->wait[1].sem == VNPU_NO_SEM) {
        return FAIL_INSN("flag hold without a wait");
    }
    return SIM_OK;
}

static bool is_bare(const vnpu_insn_t *insn) {
    return insn->first_only == 0 && insn->last_only == 0 && insn->wait[0].sem == VNPU_NO_SEM &&
           insn->wait[1].sem == VNPU_NO_SEM && insn->signal[0].sem == VNPU_NO_SEM &&
           insn->signal[1].sem == VNPU_NO_SEM;
}

static sim_status_t check_loop(dev_check_t *check, uint32_t index) {
    dev_nest_t *nest = &check->nest;
    if (!is_bare(check->insn)) return FAIL_INSN("takes no wait, signal or loop mask");
    if (check->insn->op == VNPU_OP_LOOP) {
        if (check->insn->imm[0] == 0) return FAIL_INSN("0 trips");
        if (nest->depth == VNPU_MAX_LOOPS) {
            return FAIL_INSN("nested deeper than %u levels", VNPU_MAX_LOOPS);
        }
        uint64_t iterations = check->insn->imm[0];
        for (uint32_t l = 0; l < nest->depth; l++) {
            if (iterations <= MAX_ITERATIONS) iterations *= nest->trips[l];
        }
        if (iterations > MAX_ITERATIONS) {
            return FAIL_INSN("more than 2^40 iterations of the innermost loop");
        }
        nest->trips[nest->depth] = check->insn->imm[0];
        nest->open[nest->depth++] = index;
        return SIM_OK;
    }
    if (nest->depth == 0) return FAIL_INSN("no loop is open");
    uint32_t open = nest->open[--nest->depth];
    if (open + 1 == index) return FAIL_INSN("the loop has no instructions");
    check->program->match[open] = index;
    check->program->match[index] = open;
    return SIM_OK;
}

static sim_status_t check_masks(dev_check_t *check) {
    const uint8_t mask[3] = {check->insn->first_only, check->insn->last_only,
                             check->insn->not_first};
    static const char *const name[3] = {"first", "last", "notfirst"};
    for (int i = 0; i < 3; i++) {
        if (mask[i] >> check->nest.depth != 0) {
            return FAIL_INSN("mask %s (0x%02x) names a loop level that is not open: %u are",
                             name[i], mask[i], check->nest.depth);
        }
    }
    return SIM_OK;
}

static bool is_place(uint16_t place) {
    return place == 0 || (place >> 14) == 2;
}

/* Fields that name other instances. */
static sim_status_t check_team(dev_check_t *check) {
    const vnpu_insn_t *insn = check->insn;
    dev_program_t *program = check->program;
    bool is_loop = insn->op == VNPU_OP_LOOP || insn->op == VNPU_OP_ENDLOOP;
    if (!is_place(insn->only) || !is_place(insn->remote_core)) {
        return FAIL_INSN("only 0x%04x, to 0x%04x: a place has bit 15 set and bit 14 clear",
                         insn->only, insn->remote_core);
    }
    if (insn->only != 0 && is_loop) return FAIL_INSN("every instance has the same loops: no only");
    if (insn->multicast > VNPU_MULTICAST_ALL) {
        return FAIL_INSN("multicast %u does not exist", insn->multicast);
    }
    if (insn->multicast == 0 && insn->remote_core == 0) return SIM_OK;
    if (insn->multicast != 0 && insn->remote_core != 0) {
        return FAIL_INSN("a multicast signals its receivers: no to");
    }
    bool is_copy = insn->op == VNPU_OP_DMA_COPY || insn->op == VNPU_OP_DMA_TRANSPOSE;
    if (insn->multicast != 0 && (!is_copy || insn->flags != 0)) {
        return FAIL_INSN("multicast belongs to a dma_copy or dma_transpose without flags");
    }
    if (insn->multicast != 0 && (program->ap[insn->dst].space != VNPU_SPACE_SRAM ||
                                 program->ap[insn->src[0]].space != VNPU_SPACE_DRAM)) {
        return FAIL_INSN("multicast goes from dram to sram");
    }
    if (insn->remote_core != 0 && insn->signal[0].sem == VNPU_NO_SEM &&
        insn->signal[1].sem == VNPU_NO_SEM) {
        return FAIL_INSN("to names an instance, but nothing is signalled");
    }
    program->is_team = true;
    for (uint32_t a = 0; a < VNPU_MAX_AXES && insn->remote_core != 0; a++) {
        uint32_t at = vnpu_place_axis(insn->remote_core, a);
        if (at != VNPU_PLACE_ANY && at >= program->team_grid[a]) program->team_grid[a] = at + 1;
    }
    return SIM_OK;
}

static sim_status_t check_insn(dev_check_t *check, uint32_t index) {
    const vnpu_insn_t *insn = check->insn;
    check->info = dev_op_info(insn->op);
    if (check->info == NULL) return FAIL_INSN("opcode 0x%02x does not exist", insn->op);
    if (check->info->is_reserved) {
        return dev_check_fail_insn(check, SIM_ERROR_UNSUPPORTED,
                                   "reserved opcode, not supported by this device");
    }
    if (!(check->info->queues >> check->program->queue[check->queue].kind & 1u)) {
        return FAIL_INSN("does not run on a %s queue",
                         dev_queue_kind_name(check->program->queue[check->queue].kind));
    }
    if (insn->reserved1) return FAIL_INSN("a reserved field is not zero");
    sim_status_t status = check_semaphores(check);
    if (status == SIM_OK) status = check_masks(check);
    if (status == SIM_OK) status = dev_check_op(check);
    if (status == SIM_OK) status = check_team(check);
    if (status != SIM_OK) return status;
    if (insn->op == VNPU_OP_LOOP || insn->op == VNPU_OP_ENDLOOP) return check_loop(check, index);
    return SIM_OK;
}

static sim_status_t check_stream(dev_check_t *check, uint32_t queue) {
    const vnpu_queue_section_t *section = &check->program->queue[queue];
    check->queue = queue;
    check->nest = (dev_nest_t){0};
    check->has_weights = false;
    for (uint32_t pc = 0; pc < section->count; pc++) {
        check->pc = pc;
        check->insn = &check->program->insn[section->first + pc];
        sim_status_t status = check_insn(check, section->first + pc);
        if (status != SIM_OK) return status;
    }
    if (check->nest.depth == 0) return SIM_OK;
    check->pc = check->nest.open[check->nest.depth - 1] - section->first;
    check->insn = &check->program->insn[section->first + check->pc];
    check->info = dev_op_info(VNPU_OP_LOOP);
    return FAIL_INSN("is never closed");
}

static sim_status_t validate(dev_program_t *program, const dev_class_t *cls, sim_error_t *err) {
    dev_check_t check = {.program = program, .cls = cls, .err = err};
    memset(program->sem_waiter, 0xff, sizeof program->sem_waiter);
    sim_status_t status = check_header(&check);
    if (status == SIM_OK) status = check_strings(&check);
    if (status == SIM_OK) status = check_sections(&check);
    if (status == SIM_OK) status = check_accumulator(&check);
    for (uint32_t a = 0; a < program->header.num_aps && status == SIM_OK; a++) {
        status = dev_check_ap(&check, a);
    }
    for (uint32_t q = 0; q < program->header.num_queues && status == SIM_OK; q++) {
        status = check_stream(&check, q);
    }
    return status;
}

/* Whether a class can run a program that is valid by itself; what the first pass filled in stays.
 */
static sim_status_t check_class(dev_program_t *program, const dev_class_t *cls, sim_error_t *err) {
    uint8_t waiter[VNPU_MAX_SEMS];
    memcpy(waiter, program->sem_waiter, sizeof waiter);
    sim_status_t status = validate(program, cls, err);
    memcpy(program->sem_waiter, waiter, sizeof waiter);
    return status;
}

/* No class runs the program: every class with its reason. */
static sim_status_t refuse_all(dev_program_t *program, const dev_machine_t *machine,
                               sim_error_t *err) {
    char text[900];
    size_t used = 0;
    sim_status_t status = SIM_ERROR_INVALID_IMAGE;
    for (uint32_t c = 0; c < machine->num_classes; c++) {
        sim_error_t reason = {0};
        if (check_class(program, &machine->cls[c], &reason) == SIM_ERROR_UNSUPPORTED)
            status = SIM_ERROR_UNSUPPORTED;
        if (used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "\n  class %s: %.200s",
                                     machine->cls[c].name, reason.text);
    }
    return sim_error_set(err, status, "%s: no core of this chip runs it:%s", program->header.name,
                         text);
}

sim_status_t dev_program_validate(dev_program_t *program, const dev_machine_t *machine,
                                  sim_error_t *err) {
    program->class_mask = UINT32_MAX;
    if (machine == NULL) return validate(program, NULL, err);
    program->class_mask = 1;
    if (machine->num_classes == 1) return validate(program, &machine->cls[0], err);
    sim_status_t status = validate(program, NULL, err); /* the image by itself */
    if (status != SIM_OK) return status;
    program->class_mask = 0;
    for (uint32_t c = 0; c < machine->num_classes; c++) {
        sim_error_t reason = {0};
        if (check_class(program, &machine->cls[c], &reason) == SIM_OK)
            program->class_mask |= 1u << c;
    }
    return program->class_mask != 0 ? SIM_OK : refuse_all(program, machine, err);
}

sim_status_t dev_program_fits(dev_program_t *program, const dev_class_t *cls, sim_error_t *err) {
    return check_class(program, cls, err);
}
