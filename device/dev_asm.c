#include "device/dev_asm.h"

#include <stdlib.h>
#include <string.h>

#include "device/dev_asm_internal.h"
#include "device/dev_image.h"

/* ---- growing tables ---- */

static sim_status_t grow(dev_asm_t *as, void **table, uint32_t *max, uint32_t count, size_t size) {
    if (count < *max) return SIM_OK;
    uint32_t more = *max ? *max * 2 : 32;
    void *larger = realloc(*table, more * size);
    if (larger == NULL) return sim_error_set(as->err, SIM_ERROR_OUT_OF_MEMORY, "%s", as->origin);
    *table = larger;
    *max = more;
    return SIM_OK;
}

static sim_status_t grow_aps(dev_asm_t *as) {
    uint32_t max = as->max_aps;
    void *aps = as->ap, *names = as->ap_name;
    sim_status_t status = grow(as, &aps, &max, as->num_aps, sizeof *as->ap);
    as->ap = aps;
    if (status != SIM_OK) return status;
    status = grow(as, &names, &as->max_aps, as->num_aps, sizeof *as->ap_name);
    as->ap_name = names;
    return status;
}

/* ---- directives ---- */

/* Index of `word` among dense names from `name_of`, which end at the first NULL after code 0. */
static sim_status_t find_code(dev_asm_t *as, const char *what, const char *word,
                              const char *(*name_of)(uint32_t), uint32_t *out_code) {
    const char *known[16];
    for (uint32_t code = 0; code < 16; code++) {
        known[code] = name_of(code);
        if (known[code] && strcmp(known[code], word) == 0) {
            *out_code = code;
            return SIM_OK;
        }
    }
    return dev_asm_fail_unknown(as, what, word, known, 16);
}

static sim_status_t need_words(dev_asm_t *as, uint32_t count, const char *form) {
    if (as->num_words == count) return SIM_OK;
    return dev_asm_fail(as, "written as: %s", form);
}

static sim_status_t do_program(dev_asm_t *as) {
    sim_status_t status = need_words(as, 2, ".program NAME");
    if (status != SIM_OK) return status;
    if (as->name[0] != 0) return dev_asm_fail(as, "a second .program");
    size_t length = strlen(as->word[1]);
    if (length >= sizeof as->name) {
        return dev_asm_fail(as, "a program's name has at most %zu characters", sizeof as->name - 1);
    }
    memcpy(as->name, as->word[1], length);
    return SIM_OK;
}

static sim_status_t do_arg(dev_asm_t *as) {
    uint32_t kind = 0;
    sim_status_t status = need_words(as, 3, ".arg NAME in|out|inout|scalar");
    if (status == SIM_OK) {
        status = find_code(as, "argument kind", as->word[2], dev_arg_kind_name, &kind);
    }
    if (status != SIM_OK) return status;
    if (as->num_args == VNPU_MAX_ARGS)
        return dev_asm_fail(as, "more than %u arguments", VNPU_MAX_ARGS);
    status = dev_asm_define(as, DEV_ASM_ARG, as->word[1], as->num_args);
    if (status != SIM_OK) return status;
    strcpy(as->arg_name[as->num_args], as->word[1]); /* defined: it is short enough */
    as->arg_kind[as->num_args++] = (uint8_t)kind;
    return SIM_OK;
}

static sim_status_t do_sem(dev_asm_t *as) {
    sim_status_t status = need_words(as, 2, ".sem NAME");
    if (status != SIM_OK) return status;
    if (as->num_sems == VNPU_MAX_SEMS)
        return dev_asm_fail(as, "more than %u semaphores", VNPU_MAX_SEMS);
    status = dev_asm_define(as, DEV_ASM_SEM, as->word[1], as->num_sems);
    if (status == SIM_OK) strcpy(as->sem_name[as->num_sems++], as->word[1]);
    return status;
}

static sim_status_t do_const(dev_asm_t *as) {
    int64_t value;
    sim_status_t status = need_words(as, 3, ".const NAME VALUE");
    if (status == SIM_OK) status = dev_asm_int(as, as->word[2], INT64_MIN, INT64_MAX, &value);
    if (status == SIM_OK) status = dev_asm_define(as, DEV_ASM_CONST, as->word[1], value);
    return status;
}

static sim_status_t do_bytes(dev_asm_t *as, bool *is_set, uint32_t *out_bytes) {
    sim_status_t status = need_words(as, 2, ".sram BYTES, .acc BYTES");
    if (status != SIM_OK) return status;
    if (*is_set) return dev_asm_fail(as, "a second %s", as->word[0]);
    *is_set = true;
    return dev_asm_u32(as, as->word[1], UINT32_MAX, out_bytes);
}

static sim_status_t do_sram(dev_asm_t *as) {
    return do_bytes(as, &as->has_sram, &as->sram_bytes);
}

static sim_status_t do_acc(dev_asm_t *as) {
    return do_bytes(as, &as->has_acc, &as->acc_bytes);
}

static sim_status_t do_nonames(dev_asm_t *as) {
    as->has_no_names = true;
    return need_words(as, 1, ".nonames");
}

static sim_status_t do_queue(dev_asm_t *as) {
    sim_status_t status = need_words(as, 2, ".queue KIND INDEX, as in dma0");
    if (status != SIM_OK) return status;
    char *word = as->word[1], kind_name[16];
    size_t letters = strcspn(word, "0123456789");
    uint32_t kind = 0, index = 0;
    if (letters >= sizeof kind_name) return dev_asm_fail(as, "unknown queue '%.60s'", word);
    memcpy(kind_name, word, letters);
    kind_name[letters] = 0;
    status = find_code(as, "queue", kind_name, dev_queue_kind_name, &kind);
    if (status == SIM_OK && word[letters]) {
        status = dev_asm_u32(as, word + letters, UINT8_MAX, &index);
    }
    if (status != SIM_OK) return status;
    for (uint32_t q = 0; q < as->num_queues; q++) {
        if (as->queue[q].kind == kind && as->queue[q].index == index) {
            return dev_asm_fail(as, "queue %s%u has its instructions already", kind_name, index);
        }
    }
    if (as->num_queues == VNPU_MAX_QUEUES)
        return dev_asm_fail(as, "more than %u queues", VNPU_MAX_QUEUES);
    as->queue[as->num_queues++] =
        (vnpu_queue_section_t){.kind = (uint8_t)kind, .index = (uint8_t)index};
    return SIM_OK;
}

/* ---- access patterns ---- */

/* "[size:stride,...]", blanks removed */
static sim_status_t parse_dims(dev_asm_t *as, vnpu_ap_t *ap, char *text) {
    size_t length = strlen(text);
    if (length < 2 || text[0] != '[' || text[length - 1] != ']') {
        return dev_asm_fail(as, "dims=[size:stride, ...]");
    }
    text[length - 1] = 0;
    for (char *at = text + 1; at != NULL;) {
        char *next = dev_asm_cut(at, ','), *stride_text = dev_asm_cut(at, ':');
        if (stride_text == NULL) return dev_asm_fail(as, "dims: '%.60s' is not size:stride", at);
        if (ap->ndims == VNPU_MAX_DIMS) {
            return dev_asm_fail(as, "more than %u dimensions", VNPU_MAX_DIMS);
        }
        vnpu_dim_t *dim = &ap->dim[ap->ndims++];
        int64_t stride = 0;
        sim_status_t status = dev_asm_u32(as, at, UINT32_MAX, &dim->size);
        if (status == SIM_OK) status = dev_asm_int(as, stride_text, INT32_MIN, INT32_MAX, &stride);
        if (status != SIM_OK) return status;
        dim->stride = (int32_t)stride;
        at = next;
    }
    return SIM_OK;
}

/* "loop:count:stride", "outer-loop:count:stride", or "off:count" */
static sim_status_t parse_rotation(dev_asm_t *as, vnpu_ap_t *ap, char *text) {
    char *count_text = dev_asm_cut(text, ':');
    char *stride_text = count_text ? dev_asm_cut(count_text, ':') : NULL;
    bool is_off = strcmp(text, "off") == 0;
    uint32_t loop = VNPU_NO_LOOP, count;
    if (count_text == NULL || is_off != (stride_text == NULL)) {
        return dev_asm_fail(as, "rot=loop:count:stride");
    }
    sim_status_t status = dev_asm_u32(as, count_text, UINT8_MAX, &count);
    char *inner_text = is_off ? NULL : dev_asm_cut(text, '-');
    uint32_t outer = 0;
    if (status == SIM_OK && inner_text != NULL)
        status = dev_asm_u32(as, text, VNPU_MAX_LOOPS - 1, &outer);
    if (status == SIM_OK && !is_off)
        status = dev_asm_u32(as, inner_text ? inner_text : text, VNPU_MAX_LOOPS - 1, &loop);
    if (status == SIM_OK && inner_text != NULL && outer >= loop)
        return dev_asm_fail(as, "rot=%u-%u: from the outer loop to the inner one", outer, loop);
    if (inner_text != NULL) ap->rot_outer = (uint8_t)(loop - outer);
    if (status == SIM_OK && !is_off)
        status = dev_asm_u32(as, stride_text, UINT32_MAX, &ap->rot_stride);
    ap->rot_loop = (uint8_t)loop;
    ap->rot_count = (uint8_t)count;
    return status;
}

/* "overlap:pad" of a window */
static sim_status_t parse_window(dev_asm_t *as, vnpu_clip_t *clip, uint8_t *out_pad,
                                 const char *overlap_text, const char *pad_text) {
    int64_t overlap = 0;
    uint32_t pad = 0;
    sim_status_t status = dev_asm_int(as, overlap_text, INT8_MIN, INT8_MAX, &overlap);
    if (status == SIM_OK) status = dev_asm_u32(as, pad_text, UINT8_MAX, &pad);
    clip->overlap = (int8_t)overlap;
    clip->axis_mode |= VNPU_CLIP_WINDOW;
    *out_pad = (uint8_t)pad;
    return status;
}

/* "dim:extent:loop:L", "dim:extent:grid:A", "dim:extent:block:L:A", "dim:extent:cyclic:L:A"; a
 * window has ":overlap:pad" behind it, one that does not move is "dim:extent:still:overlap:pad" */
static sim_status_t parse_clip(dev_asm_t *as, vnpu_ap_t *ap, char *text) {
    char *field[7] = {text};
    uint32_t c = 0, fields = 1;
    while (fields < 7 && (field[fields] = dev_asm_cut(field[fields - 1], ':')))
        fields++;
    while (c < 4 && (ap->clip[c].axis_mode & VNPU_CLIP_USED))
        c++;
    if (c == 4) return dev_asm_fail(as, "more than 4 clips");
    if (fields < 4) return dev_asm_fail(as, "clip=dim:extent:mode:loop or axis, or both");
    uint32_t dim, mode = 0, loop = VNPU_NO_LOOP, axis = 0;
    vnpu_clip_t *clip = &ap->clip[c];
    sim_status_t status = dev_asm_u32(as, field[0], VNPU_MAX_DIMS - 1, &dim);
    if (status == SIM_OK) status = dev_asm_u32(as, field[1], UINT32_MAX, &clip->extent);
    bool is_still = strcmp(field[2], "still") == 0;
    if (status == SIM_OK && !is_still)
        status = find_code(as, "clip mode", field[2], dev_clip_mode_name, &mode);
    if (status != SIM_OK) return status;
    bool has_loop = mode != VNPU_CLIP_GRID && !is_still, has_axis = mode != VNPU_CLIP_LOOP;
    uint32_t plain = 3u + has_loop + has_axis;
    if (is_still && fields != 5) return dev_asm_fail(as, "clip mode still takes overlap:pad");
    if (fields != plain && fields != plain + 2) {
        return dev_asm_fail(as, "clip mode %s takes %s, and overlap:pad for a window", field[2],
                            !has_axis   ? "a loop level"
                            : !has_loop ? "a grid axis"
                                        : "a loop level and a grid axis");
    }
    if (has_loop) status = dev_asm_u32(as, field[3], VNPU_MAX_LOOPS - 1, &loop);
    if (status == SIM_OK && has_axis) {
        status = dev_asm_u32(as, field[3 + has_loop], VNPU_MAX_AXES - 1, &axis);
    }
    clip->dim = (uint8_t)dim;
    clip->loop = (uint8_t)loop;
    clip->axis_mode = (uint8_t)(VNPU_CLIP_USED | axis << 2 | mode);
    if (status != SIM_OK || fields == plain) return status;
    return parse_window(as, clip, &ap->pad[c], field[plain], field[plain + 1]);
}

static sim_status_t parse_increment(dev_asm_t *as, int32_t *out_inc, const char *text) {
    int64_t value = 0;
    sim_status_t status = dev_asm_int(as, text, INT32_MIN, INT32_MAX, &value);
    *out_inc = (int32_t)value;
    return status;
}

static sim_status_t parse_ap_key(dev_asm_t *as, vnpu_ap_t *ap, const char *key, char *value) {
    static const char *const keys[] = {"arg",   "base",  "dims",  "rot",   "clip", "loop0",
                                       "loop1", "loop2", "loop3", "grid0", "grid1"};
    enum { ARG = 0, BASE, DIMS, ROT, CLIP, LOOP, GRID = LOOP + VNPU_MAX_LOOPS };
    const size_t count = sizeof keys / sizeof keys[0];
    uint32_t k = 0;
    while (k < count && strcmp(keys[k], key) != 0)
        k++;
    if (k == count) return dev_asm_fail_unknown(as, "key", key, keys, count);
    if (k >= GRID) return parse_increment(as, &ap->grid_inc[k - GRID], value);
    if (k >= LOOP) return parse_increment(as, &ap->loop_inc[k - LOOP], value);
    if (k == BASE) return dev_asm_int(as, value, INT64_MIN, INT64_MAX, &ap->base);
    if (k == DIMS) return parse_dims(as, ap, value);
    if (k == ROT) return parse_rotation(as, ap, value);
    if (k == CLIP) return parse_clip(as, ap, value);
    int64_t arg;
    sim_status_t status = dev_asm_lookup(as, DEV_ASM_ARG, value, &arg);
    ap->arg = (uint8_t)arg;
    return status;
}

static sim_status_t do_ap(dev_asm_t *as) {
    uint32_t space = 0, dtype = 0;
    if (as->num_words < 4) {
        return dev_asm_fail(as, "written as: .ap NAME SPACE DTYPE key=value ...");
    }
    sim_status_t status = find_code(as, "space", as->word[2], dev_space_name, &space);
    if (status == SIM_OK) status = find_code(as, "dtype", as->word[3], dev_dtype_name, &dtype);
    if (status == SIM_OK && as->num_aps == VNPU_NO_AP) {
        status = dev_asm_fail(as, "more than %u patterns", VNPU_NO_AP);
    }
    if (status == SIM_OK) status = dev_asm_define(as, DEV_ASM_AP, as->word[1], as->num_aps);
    if (status == SIM_OK) status = grow_aps(as);
    if (status != SIM_OK) return status;
    vnpu_ap_t ap = dev_image_ap((vnpu_space_t)space, (vnpu_dtype_t)dtype);
    for (uint32_t w = 4; w < as->num_words && status == SIM_OK; w++) {
        char *value = dev_asm_value(as->word[w]);
        if (value == NULL) return dev_asm_fail(as, "'%.60s' is not key=value", as->word[w]);
        status = parse_ap_key(as, &ap, as->word[w], value);
    }
    if (status == SIM_OK && ap.ndims == 0) return dev_asm_fail(as, "a pattern needs dims=[...]");
    if (status != SIM_OK) return status;
    strcpy(as->ap_name[as->num_aps], as->word[1]);
    as->ap[as->num_aps++] = ap;
    return SIM_OK;
}

sim_status_t dev_asm_directive(dev_asm_t *as) {
    static const struct {
        const char *name;
        sim_status_t (*act)(dev_asm_t *as);
    } table[] = {{".program", do_program}, {".arg", do_arg},   {".sem", do_sem},
                 {".const", do_const},     {".sram", do_sram}, {".acc", do_acc},
                 {".nonames", do_nonames}, {".ap", do_ap},     {".queue", do_queue}};
    const char *known[sizeof table / sizeof table[0]];
    const size_t count = sizeof table / sizeof table[0];
    for (size_t i = 0; i < count; i++) {
        known[i] = table[i].name;
        if (strcmp(as->word[0], known[i]) == 0) return table[i].act(as);
    }
    return dev_asm_fail_unknown(as, "directive", as->word[0], known, count);
}

/* ---- the whole text ---- */

static sim_status_t assemble_lines(dev_asm_t *as, const char *text) {
    while (*text) {
        const char *end = text + strcspn(text, "\n");
        as->line++;
        sim_status_t status = dev_asm_split(as, text, end);
        if (status == SIM_OK) {
            void *insn = as->insn;
            status = grow(as, &insn, &as->max_insns, as->num_insns, sizeof *as->insn);
            as->insn = insn;
        }
        if (status != SIM_OK) return status;
        if (as->num_words > 0) {
            status = as->word[0][0] == '.' ? dev_asm_directive(as) : dev_asm_insn(as);
        }
        if (status != SIM_OK) return status;
        text = *end ? end + 1 : end;
    }
    if (as->name[0] == 0) return dev_asm_fail(as, "the text has no .program");
    return SIM_OK;
}

static char *append_name(char *at, const char *name) {
    return stpcpy(at, name) + 1;
}

/* All names as dev_image.h orders them; *out_bytes 0 with .nonames. */
static char *make_strings(const dev_asm_t *as, uint32_t *out_bytes) {
    size_t count = (size_t)as->num_args + as->num_sems + as->num_aps;
    char *strings = malloc(count * DEV_MAX_NAME + 1), *at = strings;
    *out_bytes = 0;
    if (strings == NULL || as->has_no_names) return strings;
    for (uint32_t i = 0; i < as->num_args; i++)
        at = append_name(at, as->arg_name[i]);
    for (uint32_t i = 0; i < as->num_sems; i++)
        at = append_name(at, as->sem_name[i]);
    for (uint32_t i = 0; i < as->num_aps; i++)
        at = append_name(at, as->ap_name[i]);
    *out_bytes = (uint32_t)(at - strings);
    return strings;
}

static sim_status_t write_image(dev_asm_t *as, void **out_image, size_t *out_bytes) {
    uint32_t strings_bytes;
    char *strings = make_strings(as, &strings_bytes);
    if (strings == NULL) return sim_error_set(as->err, SIM_ERROR_OUT_OF_MEMORY, "%s", as->origin);
    dev_image_tables_t tables = {.name = as->name,
                                 .queue = as->queue,
                                 .insn = as->insn,
                                 .ap = as->ap,
                                 .arg_kind = as->arg_kind,
                                 .strings = strings,
                                 .num_queues = as->num_queues,
                                 .num_insns = as->num_insns,
                                 .num_aps = as->num_aps,
                                 .num_args = as->num_args,
                                 .num_sems = as->num_sems,
                                 .sram_bytes = as->sram_bytes,
                                 .acc_bytes = as->acc_bytes,
                                 .strings_bytes = strings_bytes};
    sim_status_t status = dev_image_write(&tables, out_image, out_bytes, as->err);
    free(strings);
    return status;
}

sim_status_t dev_asm_assemble(const char *text, const char *origin, void **out_image,
                              size_t *out_bytes, sim_error_t *err) {
    *out_image = NULL;
    *out_bytes = 0;
    dev_asm_t *as = calloc(1, sizeof *as);
    if (as == NULL) return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "%s", origin);
    as->origin = origin;
    as->err = err;
    as->words_buffer = malloc(strlen(text) + 2);
    sim_status_t status;
    if (as->words_buffer == NULL) {
        status = sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "%s", origin);
    } else {
        status = assemble_lines(as, text);
    }
    if (status == SIM_OK) status = write_image(as, out_image, out_bytes);
    dev_asm_free_names(as);
    free(as->words_buffer);
    free(as->ap);
    free(as->ap_name);
    free(as->insn);
    free(as);
    return status;
}
