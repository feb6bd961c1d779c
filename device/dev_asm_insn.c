#include "device/dev_asm_internal.h"

#include <string.h>

#include "device/dev_image.h"

/* One instruction: "mnemonic[.func[.func2]] {flag | key=value}". */

#define MAX_FUNCS 64u

typedef struct operand_state {
    vnpu_insn_t insn;
    const dev_op_info_t *info;
    uint32_t waits, signals;
    bool has_line;
    const char *fill_value; /* "value=", resolved when the destination's type is known */
} operand_state_t;

static sim_status_t find_op(dev_asm_t *as, const char *name, const dev_op_info_t **out_info) {
    const char *known[64];
    size_t count = 0;
    for (; dev_op_row(count) && count < 64; count++) {
        known[count] = dev_op_row(count)->name;
        if (strcmp(known[count], name) == 0) {
            *out_info = dev_op_row(count);
            return SIM_OK;
        }
    }
    return dev_asm_fail_unknown(as, "instruction", name, known, count);
}

static sim_status_t find_func(dev_asm_t *as, dev_func_kind_t kind, const char *name,
                              uint8_t *out_func) {
    const char *known[MAX_FUNCS];
    for (uint32_t f = 0; f < MAX_FUNCS; f++) {
        known[f] = dev_func_name(kind, f);
        if (known[f] && strcmp(known[f], name) == 0) {
            *out_func = (uint8_t)f;
            return SIM_OK;
        }
    }
    return dev_asm_fail_unknown(as, "function", name, known, MAX_FUNCS);
}

/* ".func.func2" behind the mnemonic. */
static sim_status_t parse_funcs(dev_asm_t *as, operand_state_t *state, char *func) {
    const dev_op_info_t *info = state->info;
    bool is_needed = info->func == DEV_FUNC_BINARY || info->func == DEV_FUNC_REDUCE;
    if (func == NULL && is_needed) return dev_asm_fail(as, "%s needs a function", info->name);
    if (func == NULL) return SIM_OK;
    if (info->func == DEV_FUNC_NONE) return dev_asm_fail(as, "%s has no functions", info->name);
    char *func2 = dev_asm_cut(func, '.');
    sim_status_t status = find_func(as, info->func, func, &state->insn.func);
    if (status != SIM_OK || func2 == NULL) return status;
    if (info->func2 == DEV_FUNC_NONE) {
        return dev_asm_fail(as, "%s has one function, not two", info->name);
    }
    return find_func(as, info->func2, func2, &state->insn.func2);
}

static sim_status_t parse_flag(dev_asm_t *as, operand_state_t *state, const char *word) {
    const char *known[16];
    for (uint32_t bit = 0; bit < 16; bit++) {
        known[bit] = dev_flag_name(bit);
        if (known[bit] && strcmp(known[bit], word) == 0) {
            state->insn.flags |= (uint16_t)(1u << bit);
            return SIM_OK;
        }
    }
    return dev_asm_fail_unknown(as, "flag", word, known, 16);
}

static sim_status_t parse_sem(dev_asm_t *as, const char *name, uint16_t *out_sem) {
    int64_t index;
    sim_status_t status = dev_asm_lookup(as, DEV_ASM_SEM, name, &index);
    *out_sem = (uint16_t)index;
    return status;
}

/* "sem", "sem>=n" */
static sim_status_t parse_wait(dev_asm_t *as, operand_state_t *state, char *text) {
    uint32_t value = 1;
    if (state->waits == 2) return dev_asm_fail(as, "more than two waits");
    vnpu_sem_wait_t *wait = &state->insn.wait[state->waits++];
    char *at = dev_asm_cut(text, '>');
    if (at != NULL && *at != '=') return dev_asm_fail(as, "a wait is written name>=value");
    if (at != NULL) {
        sim_status_t status = dev_asm_u32(as, at + 1, UINT16_MAX, &value);
        if (status != SIM_OK) return status;
    }
    wait->value = (uint16_t)value;
    return parse_sem(as, text, &wait->sem);
}

/* "sem", "sem+n", "sem-n" */
static sim_status_t parse_signal(dev_asm_t *as, operand_state_t *state, char *text) {
    int64_t delta = 1;
    if (state->signals == 2) return dev_asm_fail(as, "more than two signals");
    vnpu_sem_signal_t *signal = &state->insn.signal[state->signals++];
    char *sign = strpbrk(text, "+-");
    if (sign != NULL) {
        sim_status_t status = dev_asm_int(as, sign, INT16_MIN, INT16_MAX, &delta);
        if (status != SIM_OK) return status;
        *sign = 0;
    }
    signal->delta = (int16_t)delta;
    return parse_sem(as, text, &signal->sem);
}

/* "0,2": loop levels */
static sim_status_t parse_mask(dev_asm_t *as, char *text, uint8_t *out_mask) {
    while (text != NULL) {
        char *next = dev_asm_cut(text, ',');
        uint32_t level;
        sim_status_t status = dev_asm_u32(as, text, VNPU_MAX_LOOPS - 1, &level);
        if (status != SIM_OK) return status;
        *out_mask |= (uint8_t)(1u << level);
        text = next;
    }
    return SIM_OK;
}

/* "x:y": a grid coordinate each, or * */
static sim_status_t parse_place(dev_asm_t *as, char *text, uint16_t *out_place) {
    char *second = dev_asm_cut(text, ':');
    if (second == NULL) return dev_asm_fail(as, "an instance is written x:y, * for any");
    const char *part[VNPU_MAX_AXES] = {text, second};
    uint32_t at[VNPU_MAX_AXES];
    for (uint32_t a = 0; a < VNPU_MAX_AXES; a++) {
        at[a] = VNPU_PLACE_ANY;
        if (strcmp(part[a], "*") == 0) continue;
        sim_status_t status = dev_asm_u32(as, part[a], VNPU_PLACE_ANY - 1, &at[a]);
        if (status != SIM_OK) return status;
    }
    *out_place = VNPU_PLACE(at[0], at[1]);
    return SIM_OK;
}

static sim_status_t parse_multicast(dev_asm_t *as, const char *text, uint16_t *out_group) {
    static const char *const groups[] = {"axis0", "axis1", "all"};
    for (uint32_t g = 0; g < 3; g++) {
        if (strcmp(groups[g], text) != 0) continue;
        *out_group = (uint16_t)(g + 1);
        return SIM_OK;
    }
    return dev_asm_fail_unknown(as, "group", text, groups, 3);
}

/* "factor:addend" */
static sim_status_t parse_scale(dev_asm_t *as, operand_state_t *state, char *text) {
    char *addend = dev_asm_cut(text, ':');
    state->insn.flags |= VNPU_F_SCALE;
    sim_status_t status = dev_asm_float(as, text, &state->insn.imm[0]);
    if (status != SIM_OK || addend == NULL) return status;
    return dev_asm_float(as, addend, &state->insn.imm[1]);
}

static sim_status_t parse_operand(dev_asm_t *as, operand_state_t *state, uint32_t operand,
                                  const char *name) {
    int64_t index;
    sim_status_t status = dev_asm_lookup(as, DEV_ASM_AP, name, &index);
    if (operand == 0) {
        state->insn.dst = (uint16_t)index;
    } else {
        state->insn.src[operand - 1] = (uint16_t)index;
    }
    return status;
}

static sim_status_t parse_key(dev_asm_t *as, operand_state_t *state, const char *key, char *value) {
    static const char *const keys[] = {"dst",    "src0",  "src1",     "src2",     "src3",  "wait",
                                       "signal", "first", "last",     "notfirst", "scale", "rows",
                                       "value",  "imm0",  "imm1",     "imm2",     "imm3",  "line",
                                       "to",     "only",  "multicast"};
    enum {
        OPERANDS = 0,
        WAIT = 5,
        SIGNAL,
        FIRST,
        LAST,
        NOTFIRST,
        SCALE,
        ROWS,
        VALUE,
        IMM,
        LINE = IMM + 4,
        TO,
        ONLY,
        MULTICAST
    };
    const size_t count = sizeof keys / sizeof keys[0];
    uint32_t k = 0;
    while (k < count && strcmp(keys[k], key) != 0)
        k++;
    vnpu_insn_t *insn = &state->insn;
    switch (k) {
    case WAIT: return parse_wait(as, state, value);
    case SIGNAL: return parse_signal(as, state, value);
    case FIRST: return parse_mask(as, value, &insn->first_only);
    case LAST: return parse_mask(as, value, &insn->last_only);
    case NOTFIRST: return parse_mask(as, value, &insn->not_first);
    case SCALE: return parse_scale(as, state, value);
    case ROWS: return dev_asm_u32(as, value, UINT32_MAX, &insn->imm[0]);
    case VALUE: state->fill_value = value; return SIM_OK;
    case TO: return parse_place(as, value, &insn->remote_core);
    case ONLY: return parse_place(as, value, &insn->only);
    case MULTICAST: return parse_multicast(as, value, &insn->multicast);
    case LINE: state->has_line = true; return dev_asm_u32(as, value, UINT32_MAX, &insn->line);
    default: break;
    }
    if (k < WAIT) return parse_operand(as, state, k - OPERANDS, value);
    if (k >= IMM && k < LINE) return dev_asm_u32(as, value, UINT32_MAX, &insn->imm[k - IMM]);
    return dev_asm_fail_unknown(as, "key", key, keys, count);
}

/* The value of a DMA_FILL or of what a padded copy adds, in the form of the destination's type. */
static sim_status_t resolve_fill(dev_asm_t *as, operand_state_t *state) {
    vnpu_insn_t *insn = &state->insn;
    bool has_value = insn->op == VNPU_OP_DMA_FILL || (insn->flags & VNPU_F_PAD);
    if (!has_value) return dev_asm_fail(as, "value= belongs to dma_fill and to copies with pad");
    if (insn->dst == VNPU_NO_AP) return dev_asm_fail(as, "value= needs a destination");
    if (dev_dtype_is_float(as->ap[insn->dst].dtype)) {
        return dev_asm_float(as, state->fill_value, &insn->imm[0]);
    }
    int64_t value = 0;
    sim_status_t status = dev_asm_int(as, state->fill_value, INT64_MIN, INT64_MAX, &value);
    insn->imm[0] = (uint32_t)(uint64_t)value;
    insn->imm[1] = (uint32_t)((uint64_t)value >> 32);
    return status;
}

static sim_status_t parse_words(dev_asm_t *as, operand_state_t *state) {
    bool takes_number = state->info->op == VNPU_OP_LOOP || state->info->op == VNPU_OP_TRAP ||
                        state->info->op == VNPU_OP_MARK;
    for (uint32_t w = 1; w < as->num_words; w++) {
        char *word = as->word[w], *value = dev_asm_value(word);
        sim_status_t status;
        if (value != NULL) {
            status = parse_key(as, state, word, value);
        } else if (takes_number && w == 1) {
            status = dev_asm_u32(as, word, UINT32_MAX, &state->insn.imm[0]);
        } else {
            status = parse_flag(as, state, word);
        }
        if (status != SIM_OK) return status;
    }
    return SIM_OK;
}

sim_status_t dev_asm_insn(dev_asm_t *as) {
    operand_state_t state = {0};
    if (as->num_queues == 0) return dev_asm_fail(as, "an instruction before the first .queue");
    char *func = dev_asm_cut(as->word[0], '.');
    sim_status_t status = find_op(as, as->word[0], &state.info);
    if (status != SIM_OK) return status;
    state.insn = dev_image_insn(state.info->op);
    status = parse_funcs(as, &state, func);
    if (status == SIM_OK) status = parse_words(as, &state);
    if (status == SIM_OK && state.fill_value) status = resolve_fill(as, &state);
    if (status != SIM_OK) return status;
    if (!state.has_line) state.insn.line = as->line;
    as->insn[as->num_insns++] = state.insn; /* room was made by the caller */
    as->queue[as->num_queues - 1].count++;
    return SIM_OK;
}
