#include "device/dev_asm.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev_isa_names.h"
#include "device/dev_program_internal.h"

/* Names of a program's parts: from its strings, or made up. */
typedef struct dis {
    const dev_program_t *program;
    FILE *file;
    bool has_names;
    const char **name; /* arguments, semaphores, patterns; NULL: look each up */
} dis_t;

enum { ARG = 0, SEM = 1, AP = 2 };

static void print_name(const dis_t *dis, int class, uint32_t index) {
    static const char *const prefix[3] = {"arg", "sem", "p"};
    const vnpu_program_header_t *header = &dis->program->header;
    if (!dis->has_names) {
        fprintf(dis->file, "%s%u", prefix[class], index);
        return;
    }
    uint32_t at = index;
    if (class >= SEM) at += header->num_args;
    if (class >= AP) at += header->num_sems;
    fputs(dis->name ? dis->name[at] : dev_program_string(dis->program, at), dis->file);
}

static void print_key_name(const dis_t *dis, const char *key, int class, uint32_t index) {
    fprintf(dis->file, " %s=", key);
    print_name(dis, class, index);
}

/* ---- patterns ---- */

static void print_clip(const dis_t *dis, const vnpu_clip_t *clip, uint32_t pad) {
    uint32_t mode = clip->axis_mode & 3u, axis = clip->axis_mode >> 2 & 1u;
    bool is_still = mode == VNPU_CLIP_LOOP && clip->loop == VNPU_NO_LOOP;
    fprintf(dis->file, " clip=%u:%u:%s", clip->dim, clip->extent,
            is_still ? "still" : dev_clip_mode_name(mode));
    if (mode != VNPU_CLIP_GRID && !is_still) fprintf(dis->file, ":%u", clip->loop);
    if (mode != VNPU_CLIP_LOOP) fprintf(dis->file, ":%u", axis);
    if (clip->axis_mode & VNPU_CLIP_WINDOW) fprintf(dis->file, ":%d:%u", clip->overlap, pad);
}

static void print_ap(const dis_t *dis, uint32_t index) {
    const vnpu_ap_t *ap = &dis->program->ap[index];
    FILE *file = dis->file;
    fputs(".ap ", file);
    print_name(dis, AP, index);
    fprintf(file, " %s %s", dev_space_name(ap->space), dev_dtype_name(ap->dtype));
    if (ap->arg != VNPU_NO_ARG) print_key_name(dis, "arg", ARG, ap->arg);
    if (ap->base != 0) fprintf(file, " base=%" PRId64, ap->base);
    fputs(" dims=[", file);
    for (uint32_t d = 0; d < ap->ndims; d++) {
        fprintf(file, "%s%u:%d", d ? ", " : "", ap->dim[d].size, ap->dim[d].stride);
    }
    fputs("]", file);
    for (uint32_t l = 0; l < VNPU_MAX_LOOPS; l++) {
        if (ap->loop_inc[l] != 0) fprintf(file, " loop%u=%+d", l, ap->loop_inc[l]);
    }
    for (uint32_t a = 0; a < VNPU_MAX_AXES; a++) {
        if (ap->grid_inc[a] != 0) fprintf(file, " grid%u=%+d", a, ap->grid_inc[a]);
    }
    if (ap->rot_loop != VNPU_NO_LOOP) {
        fputs(" rot=", file);
        if (ap->rot_outer > 0) fprintf(file, "%u-", ap->rot_loop - ap->rot_outer);
        fprintf(file, "%u:%u:%u", ap->rot_loop, ap->rot_count, ap->rot_stride);
    } else if (ap->rot_count != 1) {
        fprintf(file, " rot=off:%u", ap->rot_count);
    }
    for (uint32_t c = 0; c < 4; c++) {
        if (ap->clip[c].axis_mode & VNPU_CLIP_USED) print_clip(dis, &ap->clip[c], ap->pad[c]);
    }
    fputs("\n", file);
}

/* ---- instructions ---- */

/* Nine digits, if they read back as the same bits. */
static bool float_text(uint32_t bits, char text[32]) {
    float value, back;
    memcpy(&value, &bits, sizeof value);
    snprintf(text, 32, "%.9g", (double)value);
    back = strtof(text, NULL);
    return memcmp(&value, &back, sizeof value) == 0;
}

/* Immediates in the form that the opcode has a word for, else raw. Returns the flags printed with
 * them. */
static uint32_t print_imm(const dis_t *dis, const vnpu_insn_t *insn) {
    char a[32], b[32];
    FILE *file = dis->file;
    if (insn->op == VNPU_OP_LOOP || insn->op == VNPU_OP_TRAP || insn->op == VNPU_OP_MARK) {
        fprintf(file, " %u", insn->imm[0]);
        return 0;
    }
    if (insn->op == VNPU_OP_DMA_GATHER || insn->op == VNPU_OP_DMA_SCATTER) {
        fprintf(file, " rows=%u", insn->imm[0]);
        return 0;
    }
    bool has_value = insn->op == VNPU_OP_DMA_FILL || (insn->flags & VNPU_F_PAD);
    if (has_value && !dev_dtype_is_float(dis->program->ap[insn->dst].dtype)) {
        uint64_t value = insn->imm[0] | (uint64_t)insn->imm[1] << 32;
        fprintf(file, " value=%" PRId64, (int64_t)value);
        return 0;
    }
    if (has_value && float_text(insn->imm[0], a)) {
        fprintf(file, " value=%s", a);
        return 0;
    }
    if ((insn->flags & VNPU_F_SCALE) && float_text(insn->imm[0], a) &&
        float_text(insn->imm[1], b)) {
        fprintf(file, " scale=%s:%s", a, b);
        return VNPU_F_SCALE;
    }
    for (int i = 0; i < 4; i++) {
        if (insn->imm[i] != 0) fprintf(file, " imm%d=0x%x", i, insn->imm[i]);
    }
    return 0;
}

static void print_mask(const dis_t *dis, const char *key, uint32_t mask) {
    const char *before = "";
    if (mask == 0) return;
    fprintf(dis->file, " %s=", key);
    for (uint32_t l = 0; l < VNPU_MAX_LOOPS; l++) {
        if (!(mask >> l & 1u)) continue;
        fprintf(dis->file, "%s%u", before, l);
        before = ",";
    }
}

static void print_semaphores(const dis_t *dis, const vnpu_insn_t *insn) {
    for (int i = 0; i < 2; i++) {
        if (insn->wait[i].sem == VNPU_NO_SEM) continue;
        print_key_name(dis, "wait", SEM, insn->wait[i].sem);
        fprintf(dis->file, ">=%u", insn->wait[i].value);
    }
    for (int i = 0; i < 2; i++) {
        if (insn->signal[i].sem == VNPU_NO_SEM) continue;
        print_key_name(dis, "signal", SEM, insn->signal[i].sem);
        fprintf(dis->file, "%+d", insn->signal[i].delta);
    }
}

static void print_place(const dis_t *dis, const char *key, uint16_t place) {
    if (place == 0) return;
    fprintf(dis->file, " %s=", key);
    for (uint32_t a = 0; a < VNPU_MAX_AXES; a++) {
        uint32_t at = vnpu_place_axis(place, a);
        fputs(a == 0 ? "" : ":", dis->file);
        if (at == VNPU_PLACE_ANY)
            fputs("*", dis->file);
        else
            fprintf(dis->file, "%u", at);
    }
}

static void print_mnemonic(const dis_t *dis, const dev_op_info_t *info, const vnpu_insn_t *insn) {
    fputs(info->name, dis->file);
    bool is_plain = info->func == DEV_FUNC_KDIMS && insn->func == 0;
    if (info->func == DEV_FUNC_NONE || is_plain) return;
    fprintf(dis->file, ".%s", dev_func_name(info->func, insn->func));
    if (insn->func2 != 0) fprintf(dis->file, ".%s", dev_func_name(info->func2, insn->func2));
}

static void print_insn(const dis_t *dis, const vnpu_insn_t *insn, uint32_t depth) {
    const dev_op_info_t *info = dev_op_info(insn->op);
    fprintf(dis->file, "%*s", (int)(2 + 2 * depth), "");
    print_mnemonic(dis, info, insn);
    uint32_t printed = print_imm(dis, insn);
    for (uint32_t i = 0; i < DEV_NUM_OPERANDS; i++) {
        uint32_t ap = dev_insn_operand(insn, i);
        if (ap != VNPU_NO_AP) print_key_name(dis, dev_operand_name(i), AP, ap);
    }
    for (uint32_t bit = 0; bit < 16; bit++) {
        if ((insn->flags & ~printed) >> bit & 1u) fprintf(dis->file, " %s", dev_flag_name(bit));
    }
    print_mask(dis, "first", insn->first_only);
    print_mask(dis, "last", insn->last_only);
    print_mask(dis, "notfirst", insn->not_first);
    print_place(dis, "only", insn->only);
    print_semaphores(dis, insn);
    print_place(dis, "to", insn->remote_core);
    static const char *const groups[] = {"", " multicast=axis0", " multicast=axis1",
                                         " multicast=all"};
    fputs(groups[insn->multicast & 3u], dis->file);
    fprintf(dis->file, " line=%u\n", insn->line);
}

static void print_queue(const dis_t *dis, const vnpu_queue_section_t *section) {
    char name[16];
    uint32_t depth = 0;
    dev_queue_name(section, name);
    fprintf(dis->file, "\n.queue %s\n", name);
    for (uint32_t pc = 0; pc < section->count; pc++) {
        const vnpu_insn_t *insn = &dis->program->insn[section->first + pc];
        if (insn->op == VNPU_OP_ENDLOOP) depth--;
        print_insn(dis, insn, depth);
        if (insn->op == VNPU_OP_LOOP) depth++;
    }
}

static void print_tables(const dis_t *dis) {
    const vnpu_program_header_t *header = &dis->program->header;
    FILE *file = dis->file;
    fprintf(file, ".program %s\n", header->name);
    if (!dis->has_names) fputs(".nonames\n", file);
    for (uint32_t a = 0; a < header->num_args; a++) {
        fputs(".arg ", file);
        print_name(dis, ARG, a);
        fprintf(file, " %s\n", dev_arg_kind_name(header->arg_kind[a]));
    }
    for (uint32_t s = 0; s < header->num_sems; s++) {
        fputs(".sem ", file);
        print_name(dis, SEM, s);
        fputs("\n", file);
    }
    fprintf(file, ".sram %u\n.acc %u\n\n", header->sram_bytes, header->acc_bytes);
    for (uint32_t p = 0; p < header->num_aps; p++)
        print_ap(dis, p);
}

void dev_asm_disassemble(const dev_program_t *program, FILE *file) {
    const vnpu_program_header_t *header = &program->header;
    size_t names = (size_t)header->num_args + header->num_sems + header->num_aps;
    dis_t dis = {.program = program, .file = file, .has_names = header->strings_bytes > 0};
    if (dis.has_names) dis.name = malloc((names + 1) * sizeof *dis.name);
    if (dis.name != NULL) {
        const char *at = program->strings;
        for (size_t n = 0; n < names; n++, at += strlen(at) + 1)
            dis.name[n] = at;
    }
    print_tables(&dis);
    for (uint32_t q = 0; q < header->num_queues; q++)
        print_queue(&dis, &program->queue[q]);
    free(dis.name);
}
