/* Text to value and back. Integers only: "0.625 ns" is read as 625 / 1000 x 1000 ps, never through
 * floating point. */
#include "sim/sim_config_internal.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct unit {
    const char *name;
    uint64_t factor;
} unit_t;

/* From large to small: formatting takes the first that divides the value. Decimal bytes are for
 * reading only. */
static const unit_t COUNT_UNITS[] = {{"T", 1000000000000u}, {"G", 1000000000u}, {"M", 1000000u},
                                     {"k", 1000u},          {"", 1u},           {NULL, 0}};
static const unit_t BYTES_UNITS[] = {{"TiB", 1099511627776u},
                                     {"GiB", 1073741824u},
                                     {"MiB", 1048576u},
                                     {"KiB", 1024u},
                                     {"B", 1u},
                                     {"", 1u},
                                     {"TB", 1000000000000u},
                                     {"GB", 1000000000u},
                                     {"MB", 1000000u},
                                     {"kB", 1000u},
                                     {NULL, 0}};
static const unit_t HZ_UNITS[] = {
    {"GHz", 1000000000u}, {"MHz", 1000000u}, {"kHz", 1000u}, {"Hz", 1u}, {NULL, 0}};
static const unit_t PS_UNITS[] = {{"s", 1000000000000u}, {"ms", 1000000000u}, {"us", 1000000u},
                                  {"ns", 1000u},         {"ps", 1u},          {NULL, 0}};
static const unit_t RATE_UNITS[] = {{"TB/s", 1000000000000u},
                                    {"GB/s", 1000000000u},
                                    {"MB/s", 1000000u},
                                    {"kB/s", 1000u},
                                    {"B/s", 1u},
                                    {"GiB/s", 1073741824u},
                                    {"MiB/s", 1048576u},
                                    {NULL, 0}};
static const unit_t CYCLES_UNITS[] = {{"", 1u}, {"cycles", 1u}, {NULL, 0}};
static const char *const BOOL_WORDS[] = {"false", "true", "no", "yes",
                                         "off",   "on",   NULL}; /* odd index: true */

static const unit_t *units_of(sim_type_t type, const char **out_names) {
    switch (type) {
    case SIM_TYPE_COUNT: *out_names = "none, k, M, G or T"; return COUNT_UNITS;
    case SIM_TYPE_BYTES: *out_names = "B, KiB, MiB, GiB, TiB, kB, MB, GB or TB"; return BYTES_UNITS;
    case SIM_TYPE_HZ: *out_names = "Hz, kHz, MHz or GHz"; return HZ_UNITS;
    case SIM_TYPE_PS: *out_names = "ps, ns, us, ms or s"; return PS_UNITS;
    case SIM_TYPE_BYTES_PER_S:
        *out_names = "B/s, kB/s, MB/s, GB/s, TB/s, MiB/s or GiB/s";
        return RATE_UNITS;
    case SIM_TYPE_CYCLES: *out_names = "none or cycles"; return CYCLES_UNITS;
    case SIM_TYPE_RATIO:
    case SIM_TYPE_BOOL:
    case SIM_TYPE_ENUM:
    case SIM_TYPE_STRING: break;
    }
    sim_bug("sim_config", 0, "type %d has no units", (int)type);
}

/*
 * Digits with an optional fraction: mantissa / 10^decimals, trailing zeros of the fraction dropped.
 * Returns the end of the number, NULL if there is none or it is too long.
 */
static const char *read_decimal(const char *text, uint64_t *out_mantissa, uint64_t *out_scale) {
    uint64_t mantissa = 0, scale = 1;
    const char *p = text;
    if (!isdigit((unsigned char)*p)) return NULL;
    for (; isdigit((unsigned char)*p); p++)
        if (__builtin_mul_overflow(mantissa, 10u, &mantissa) ||
            __builtin_add_overflow(mantissa, (uint64_t)(*p - '0'), &mantissa))
            return NULL;
    if (*p == '.') {
        p++;
        if (!isdigit((unsigned char)*p)) return NULL;
        for (; isdigit((unsigned char)*p); p++)
            if (__builtin_mul_overflow(mantissa, 10u, &mantissa) ||
                __builtin_mul_overflow(scale, 10u, &scale) ||
                __builtin_add_overflow(mantissa, (uint64_t)(*p - '0'), &mantissa))
                return NULL;
    }
    while (scale > 1 && mantissa % 10u == 0) {
        mantissa /= 10u;
        scale /= 10u;
    }
    *out_mantissa = mantissa;
    *out_scale = scale;
    return p;
}

static uint64_t gcd(uint64_t a, uint64_t b) {
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static sim_status_t refuse(char *reason, const char *format, ...) SIM_PRINTF(2, 3);
static sim_status_t refuse(char *reason, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(reason, SIM_VALUE_REASON_BYTES, format, args);
    va_end(args);
    return SIM_ERROR_CONFIG;
}

/* A bound of a key as text; bounds of ratios are scaled by 65536. */
static void format_bound(const sim_key_t *key, uint64_t bound, char *text, size_t text_bytes) {
    uint64_t common = bound == 0 ? 65536u : gcd(bound, 65536u);
    sim_ratio_t ratio = {(uint32_t)(bound / common), (uint32_t)(65536u / common)};
    sim_value_format(key, bound, ratio, text, text_bytes);
}

void sim_value_format_range(const sim_key_t *key, char *text, size_t text_bytes) {
    char min[32], max[32];
    format_bound(key, key->min, min, sizeof min);
    format_bound(key, key->max, max, sizeof max);
    (void)snprintf(text, text_bytes, "%s .. %s", min, max);
}

static sim_status_t refuse_range(const sim_key_t *key, char *reason) {
    char range[72];
    sim_value_format_range(key, range, sizeof range);
    return refuse(reason, "out of range %s", range);
}

static sim_status_t parse_number(const sim_key_t *key, const char *text, sim_value_t *value,
                                 char *reason) {
    uint64_t mantissa, scale;
    const char *end = read_decimal(text, &mantissa, &scale);
    if (end == NULL) return refuse(reason, "expected a number");
    while (*end == ' ' || *end == '\t')
        end++;
    const char *names;
    const unit_t *unit = units_of(key->type, &names);
    while (unit->name != NULL && strcmp(unit->name, end) != 0)
        unit++;
    if (unit->name == NULL)
        return *end == '\0' ? refuse(reason, "needs a unit: %s", names)
                            : refuse(reason, "unit '%.20s' is not %s", end, names);
    /* mantissa * factor / scale must be whole; reduce the factor first to keep large values in 64
     * bits. */
    uint64_t factor = unit->factor;
    while (scale > 1 && factor % 10u == 0) {
        factor /= 10u;
        scale /= 10u;
    }
    uint64_t number;
    if (__builtin_mul_overflow(mantissa, factor, &number))
        return refuse(reason, "does not fit 64 bits");
    if (number % scale != 0) return refuse(reason, "is not a whole number of the smallest unit");
    number /= scale;
    if (number < key->min || number > key->max) return refuse_range(key, reason);
    value->number = number;
    return SIM_OK;
}

static sim_status_t parse_ratio(const sim_key_t *key, const char *text, sim_value_t *value,
                                char *reason) {
    uint64_t num, den, divisor = 1, divisor_scale = 1;
    const char *end = read_decimal(text, &num, &den);
    if (end == NULL) return refuse(reason, "expected a fraction such as 1/4, 2 or 0.25");
    while (*end == ' ')
        end++;
    if (*end == '/') {
        end++;
        while (*end == ' ')
            end++;
        end = read_decimal(end, &divisor, &divisor_scale);
        if (end == NULL || den != 1 || divisor_scale != 1 || divisor == 0)
            return refuse(reason, "expected a fraction of two whole numbers, the second not 0");
        den = divisor;
    }
    if (*end != '\0') return refuse(reason, "unit '%.20s' after a ratio, which has none", end);
    uint64_t common = num == 0 ? den : gcd(num, den);
    num /= common;
    den /= common;
    if (num > UINT32_MAX || den > UINT32_MAX)
        return refuse(reason, "a fraction of 32-bit numbers is needed");
    if (num * 65536u < key->min * den || num * 65536u > key->max * den)
        return refuse_range(key, reason);
    value->ratio = (sim_ratio_t){(uint32_t)num, (uint32_t)den};
    return SIM_OK;
}

static sim_status_t parse_bool(const char *text, sim_value_t *value, char *reason) {
    for (uint64_t i = 0; BOOL_WORDS[i] != NULL; i++)
        if (strcmp(BOOL_WORDS[i], text) == 0) {
            value->number = i % 2u;
            return SIM_OK;
        }
    return refuse(reason, "expected true or false");
}

/* The index-th of "a|b|c", or NULL. */
static const char *choice_at(const char *choices, uint64_t index, size_t *out_length) {
    for (; index > 0; index--) {
        choices = strchr(choices, '|');
        if (choices == NULL) return NULL;
        choices++;
    }
    *out_length = strcspn(choices, "|");
    return choices;
}

static sim_status_t parse_enum(const sim_key_t *key, const char *text, sim_value_t *value,
                               char *reason) {
    size_t length;
    const char *choice;
    for (uint64_t i = 0; (choice = choice_at(key->choices, i, &length)) != NULL; i++)
        if (strlen(text) == length && strncmp(choice, text, length) == 0) {
            value->number = i;
            return SIM_OK;
        }
    return refuse(reason, "expected one of %s", key->choices);
}

static sim_status_t parse_string(const sim_key_t *key, const char *text, char *reason) {
    size_t length = strlen(text);
    if (length < key->min || length > key->max)
        return refuse(reason, "has %zu bytes, allowed are %" PRIu64 " .. %" PRIu64, length,
                      key->min, key->max);
    /* What an INI line could not carry would not survive the effective configuration. */
    for (size_t i = 0; i < length; i++) {
        if (iscntrl((unsigned char)text[i])) return refuse(reason, "contains a control character");
        if (text[i] == ';' && (i == 0 || text[i - 1] == ' '))
            return refuse(reason, "contains ' ;', which begins a comment");
    }
    if (length > 0 && (text[0] == ' ' || text[length - 1] == ' '))
        return refuse(reason, "begins or ends with a blank");
    return SIM_OK;
}

static sim_status_t parse_typed(const sim_key_t *key, const char *text, sim_value_t *value,
                                char *reason) {
    switch (key->type) {
    case SIM_TYPE_COUNT:
    case SIM_TYPE_BYTES:
    case SIM_TYPE_HZ:
    case SIM_TYPE_PS:
    case SIM_TYPE_BYTES_PER_S:
    case SIM_TYPE_CYCLES: return parse_number(key, text, value, reason);
    case SIM_TYPE_RATIO: return parse_ratio(key, text, value, reason);
    case SIM_TYPE_BOOL: return parse_bool(text, value, reason);
    case SIM_TYPE_ENUM: return parse_enum(key, text, value, reason);
    case SIM_TYPE_STRING: return parse_string(key, text, reason);
    }
    sim_bug("sim_config", 0, "no type %d", (int)key->type);
}

sim_status_t sim_value_parse(const sim_key_t *key, const char *text, sim_value_t *value,
                             char reason[SIM_VALUE_REASON_BYTES]) {
    sim_value_t parsed = {.ratio = {0, 1}};
    if (*text == '\0' && key->type != SIM_TYPE_STRING) return refuse(reason, "has no value");
    sim_status_t status = parse_typed(key, text, &parsed, reason);
    if (status != SIM_OK) return status;
    char buffer[64];
    if (key->type == SIM_TYPE_STRING) {
        parsed.text = strdup(text);
    } else {
        sim_value_format(key, parsed.number, parsed.ratio, buffer, sizeof buffer);
        parsed.text = strdup(buffer);
    }
    if (parsed.text == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    value->number = parsed.number;
    value->ratio = parsed.ratio;
    value->text = parsed.text;
    return SIM_OK;
}

static void format_number(sim_type_t type, uint64_t number, char *text, size_t text_bytes) {
    const char *names;
    const unit_t *unit = units_of(type, &names);
    /* Counts stay plain until they are unreadable: 1000 rows, but 100 G operations per second. */
    bool is_plain = type == SIM_TYPE_COUNT && number < 1000000u;
    if (is_plain || type == SIM_TYPE_CYCLES) {
        (void)snprintf(text, text_bytes, "%" PRIu64, number);
        return;
    }
    while (unit->factor > 1 && (number % unit->factor != 0 || number == 0))
        unit++;
    (void)snprintf(text, text_bytes, unit->name[0] == '\0' ? "%" PRIu64 "%s" : "%" PRIu64 " %s",
                   number / unit->factor, unit->name);
}

void sim_value_format(const sim_key_t *key, uint64_t number, sim_ratio_t ratio, char *text,
                      size_t text_bytes) {
    size_t length = 0;
    switch (key->type) {
    case SIM_TYPE_COUNT:
    case SIM_TYPE_BYTES:
    case SIM_TYPE_HZ:
    case SIM_TYPE_PS:
    case SIM_TYPE_BYTES_PER_S:
    case SIM_TYPE_CYCLES: format_number(key->type, number, text, text_bytes); return;
    case SIM_TYPE_RATIO:
        if (ratio.den == 1)
            (void)snprintf(text, text_bytes, "%" PRIu32, ratio.num);
        else
            (void)snprintf(text, text_bytes, "%" PRIu32 "/%" PRIu32, ratio.num, ratio.den);
        return;
    case SIM_TYPE_BOOL:
        (void)snprintf(text, text_bytes, "%s", number != 0 ? "true" : "false");
        return;
    case SIM_TYPE_ENUM: {
        const char *choice = choice_at(key->choices, number, &length);
        assert(choice != NULL);
        (void)snprintf(text, text_bytes, "%.*s", (int)length, choice);
        return;
    }
    case SIM_TYPE_STRING: break;
    }
    sim_bug("sim_config", 0, "a text is not formatted");
}

/* ---- names --------------------------------------------------------------- */

#define NAME_BYTES 64u

long sim_schema_find(const char *section, const char *name) {
    size_t count;
    const sim_key_t *keys = sim_schema(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].section, section) == 0 && strcmp(keys[i].name, name) == 0)
            return (long)i;
    return -1;
}

/* Levenshtein distance, both texts cut to NAME_BYTES. */
static uint32_t edit_distance(const char *a, const char *b) {
    uint32_t row[NAME_BYTES + 1u];
    uint32_t length_a = (uint32_t)strnlen(a, NAME_BYTES),
             length_b = (uint32_t)strnlen(b, NAME_BYTES);
    for (uint32_t j = 0; j <= length_b; j++)
        row[j] = j;
    for (uint32_t i = 1; i <= length_a; i++) {
        uint32_t diagonal = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= length_b; j++) {
            uint32_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1u < best) best = row[j] + 1u;
            if (row[j - 1] + 1u < best) best = row[j - 1] + 1u;
            row[j] = best;
        }
    }
    return row[length_b];
}

bool sim_schema_has_section(const char *section, const char **out_nearest) {
    size_t count;
    const sim_key_t *keys = sim_schema(&count);
    uint32_t best = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        uint32_t distance = edit_distance(section, keys[i].section);
        if (distance < best) {
            best = distance;
            *out_nearest = keys[i].section;
        }
    }
    return strcmp(section, *out_nearest) == 0;
}

const sim_key_t *sim_schema_nearest(const char *section, const char *name) {
    size_t count;
    const sim_key_t *keys = sim_schema(&count);
    const sim_key_t *nearest = keys;
    uint32_t best = UINT32_MAX;
    char wanted[2u * NAME_BYTES], have[2u * NAME_BYTES];
    (void)snprintf(wanted, sizeof wanted, "%.60s.%.60s", section, name);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(have, sizeof have, "%s.%s", keys[i].section, keys[i].name);
        uint32_t distance = edit_distance(wanted, have);
        if (distance < best) {
            best = distance;
            nearest = &keys[i];
        }
    }
    return nearest;
}

const sim_key_t *sim_class_nearest(const char *name) {
    size_t count, own_count;
    const sim_key_t *keys = sim_schema(&count), *own = sim_class_schema(&own_count);
    const sim_key_t *nearest = own;
    uint32_t best = UINT32_MAX;
    char have[2u * NAME_BYTES];
    for (size_t i = 0; i < count + own_count; i++) {
        const sim_key_t *key = i < own_count ? &own[i] : &keys[i - own_count];
        if (i >= own_count && !sim_key_is_per_class(key)) continue;
        (void)snprintf(have, sizeof have, "%s%s%s", i < own_count ? "" : key->section,
                       i < own_count ? "" : ".", key->name);
        uint32_t distance = edit_distance(name, have);
        if (distance < best) {
            best = distance;
            nearest = key;
        }
    }
    return nearest;
}
