#include "device/dev_asm_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

sim_status_t dev_asm_fail(dev_asm_t *as, const char *format, ...) {
    char reason[700];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return sim_error_set(as->err, SIM_ERROR_INVALID_VALUE, "%s:%u: %s", as->origin, as->line,
                         reason);
}

/* Levenshtein distance; words longer than a row are never near. */
static uint32_t distance(const char *a, const char *b) {
    uint32_t row[DEV_MAX_NAME];
    size_t length = strlen(b);
    if (length >= DEV_MAX_NAME || strlen(a) >= DEV_MAX_NAME) return UINT32_MAX;
    for (uint32_t j = 0; j <= length; j++)
        row[j] = j;
    for (uint32_t i = 1; a[i - 1]; i++) {
        uint32_t diagonal = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= length; j++) {
            uint32_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[length];
}

sim_status_t dev_asm_fail_unknown(dev_asm_t *as, const char *what, const char *word,
                                  const char *const *known, size_t count) {
    const char *nearest = NULL;
    uint32_t best = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        uint32_t d = known[i] ? distance(word, known[i]) : UINT32_MAX;
        if (d < best) {
            best = d;
            nearest = known[i];
        }
    }
    if (nearest == NULL) return dev_asm_fail(as, "unknown %s '%.60s'", what, word);
    return dev_asm_fail(as, "unknown %s '%.60s'; the nearest is '%s'", what, word, nearest);
}

sim_status_t dev_asm_split(dev_asm_t *as, const char *begin, const char *end) {
    char *out = as->words_buffer;
    int brackets = 0;
    bool is_inside = false;
    as->num_words = 0;
    for (; begin < end && *begin != ';' && *begin != '#'; begin++) {
        bool is_blank = isspace((unsigned char)*begin);
        if (is_blank && brackets > 0) continue;
        if (is_blank) {
            if (is_inside) *out++ = 0;
            is_inside = false;
            continue;
        }
        if (!is_inside && as->num_words == DEV_ASM_WORDS) {
            return dev_asm_fail(as, "more than %u words in a line", DEV_ASM_WORDS);
        }
        if (!is_inside) as->word[as->num_words++] = out;
        is_inside = true;
        brackets += (*begin == '[') - (*begin == ']');
        *out++ = *begin;
    }
    *out = 0;
    if (brackets != 0) return dev_asm_fail(as, "'[' and ']' do not match");
    return SIM_OK;
}

char *dev_asm_cut(char *text, char separator) {
    char *at = strchr(text, separator);
    if (at == NULL) return NULL;
    *at = 0;
    return at + 1;
}

char *dev_asm_value(char *word) {
    return dev_asm_cut(word, '=');
}

/* ---- names ---- */

static bool make_key(char key[DEV_MAX_NAME + 1], dev_asm_class_t class, const char *name,
                     size_t length) {
    if (length == 0 || length >= DEV_MAX_NAME) return false;
    key[0] = (char)class;
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        bool is_digit = c >= '0' && c <= '9';
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!is_letter && !(is_digit && i > 0)) return false;
        key[1 + i] = c;
    }
    key[1 + length] = 0;
    return true;
}

static const char *class_name(dev_asm_class_t class) {
    switch (class) {
    case DEV_ASM_ARG: return "argument";
    case DEV_ASM_SEM: return "semaphore";
    case DEV_ASM_AP: return "pattern";
    case DEV_ASM_CONST: return "constant";
    }
    return "name";
}

sim_status_t dev_asm_define(dev_asm_t *as, dev_asm_class_t class, const char *name, int64_t value) {
    char key[DEV_MAX_NAME + 1];
    dev_asm_name_t *entry;
    if (!make_key(key, class, name, strlen(name))) {
        return dev_asm_fail(as, "'%.70s' is not a name (letters, digits and _, at most %u)", name,
                            DEV_MAX_NAME - 1);
    }
    HASH_FIND_STR(as->names, key, entry);
    if (entry != NULL) return dev_asm_fail(as, "%s '%s' exists already", class_name(class), name);
    entry = calloc(1, sizeof *entry);
    if (entry == NULL) return sim_error_set(as->err, SIM_ERROR_OUT_OF_MEMORY, "name %s", name);
    memcpy(entry->key, key, sizeof key);
    entry->value = value;
    HASH_ADD_STR(as->names, key, entry);
    if (entry->hh.tbl != NULL) return SIM_OK;
    free(entry);
    return sim_error_set(as->err, SIM_ERROR_OUT_OF_MEMORY, "name %s", name);
}

static const dev_asm_name_t *find(const dev_asm_t *as, dev_asm_class_t class, const char *name,
                                  size_t length) {
    char key[DEV_MAX_NAME + 1];
    dev_asm_name_t *entry = NULL;
    if (make_key(key, class, name, length)) HASH_FIND_STR(as->names, key, entry);
    return entry;
}

static sim_status_t fail_name(dev_asm_t *as, dev_asm_class_t class, const char *name) {
    size_t count = 0;
    const char **known = calloc(HASH_COUNT(as->names) + 1, sizeof *known);
    for (const dev_asm_name_t *n = as->names; n && known; n = n->hh.next) {
        if (n->key[0] == (char)class) known[count++] = n->key + 1;
    }
    sim_status_t status = dev_asm_fail_unknown(as, class_name(class), name, known, count);
    free(known);
    return status;
}

sim_status_t dev_asm_lookup(dev_asm_t *as, dev_asm_class_t class, const char *name,
                            int64_t *out_value) {
    const dev_asm_name_t *entry = find(as, class, name, strlen(name));
    *out_value = 0;
    if (entry == NULL) return fail_name(as, class, name);
    *out_value = entry->value;
    return SIM_OK;
}

void dev_asm_free_names(dev_asm_t *as) {
    dev_asm_name_t *entry, *next;
    HASH_ITER(hh, as->names, entry, next) {
        HASH_DEL(as->names, entry);
        free(entry);
    }
}

/* ---- numbers ---- */

/* A number or a constant; *at moves behind it. */
static sim_status_t parse_factor(dev_asm_t *as, const char **at, uint64_t *out_value) {
    const char *begin = *at;
    if (!isdigit((unsigned char)*begin)) {
        size_t length = strspn(begin, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
                                      "0123456789");
        const dev_asm_name_t *entry = find(as, DEV_ASM_CONST, begin, length);
        if (entry == NULL) return dev_asm_fail(as, "'%.60s' is no number and no constant", begin);
        *out_value = (uint64_t)entry->value;
        *at = begin + length;
        return SIM_OK;
    }
    char *end;
    bool is_hex = begin[0] == '0' && (begin[1] == 'x' || begin[1] == 'X');
    errno = 0;
    *out_value = strtoull(begin, &end, is_hex ? 16 : 10);
    uint64_t unit = *end == 'K' ? 1024 : *end == 'M' ? 1024 * 1024 : 1;
    if (unit > 1) end++;
    *at = end;
    if (errno != 0 || (is_hex && end == begin + 1) ||
        __builtin_mul_overflow(*out_value, unit, out_value)) {
        return dev_asm_fail(as, "number '%.60s' does not fit", begin);
    }
    return SIM_OK;
}

/* Products are formed in magnitude, so that -9223372036854775808 can be written. */
static sim_status_t parse_product(dev_asm_t *as, const char **at, bool is_negative,
                                  int64_t *out_value) {
    const char *begin = *at;
    uint64_t product = 1, factor = 0;
    for (;;) {
        sim_status_t status = parse_factor(as, at, &factor);
        if (status != SIM_OK) return status;
        if ((int64_t)factor < 0 && isalpha((unsigned char)*begin)) { /* a negative constant */
            is_negative = !is_negative;
            factor = -factor;
        }
        if (__builtin_mul_overflow(product, factor, &product)) break;
        if (**at != '*') {
            uint64_t limit = (uint64_t)INT64_MAX + is_negative;
            if (product > limit) break;
            *out_value = (int64_t)(is_negative ? -product : product);
            return SIM_OK;
        }
        begin = ++*at;
    }
    return dev_asm_fail(as, "'%.60s' does not fit in 64 bits", begin);
}

sim_status_t dev_asm_int(dev_asm_t *as, const char *text, int64_t low, int64_t high,
                         int64_t *out_value) {
    const char *at = text;
    int64_t sum = 0;
    do {
        bool is_negative = *at == '-';
        if (*at == '+' || *at == '-') at++;
        int64_t term = 0;
        sim_status_t status = parse_product(as, &at, is_negative, &term);
        if (status != SIM_OK) return status;
        if (__builtin_add_overflow(sum, term, &sum)) {
            return dev_asm_fail(as, "'%.60s' does not fit in 64 bits", text);
        }
    } while (*at == '+' || *at == '-');
    if (*at != 0) return dev_asm_fail(as, "'%.60s' is not a number: stopped at '%.20s'", text, at);
    if (sum < low || sum > high) {
        return dev_asm_fail(as, "%.60s = %lld is not in %lld to %lld", text, (long long)sum,
                            (long long)low, (long long)high);
    }
    *out_value = sum;
    return SIM_OK;
}

sim_status_t dev_asm_u32(dev_asm_t *as, const char *text, uint32_t high, uint32_t *out_value) {
    int64_t value = 0;
    sim_status_t status = dev_asm_int(as, text, 0, high, &value);
    *out_value = (uint32_t)value;
    return status;
}

sim_status_t dev_asm_float(dev_asm_t *as, const char *text, uint32_t *out_bits) {
    char *end;
    float value = strtof(text, &end);
    if (end == text || *end != 0) return dev_asm_fail(as, "'%.60s' is not a float", text);
    memcpy(out_bits, &value, sizeof value);
    return SIM_OK;
}
