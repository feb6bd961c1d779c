#include "sim/sim_config_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void sim_config_destroy(sim_config_t *config) {
    if (config == NULL) return;
    for (size_t i = 0; i < config->count; i++) {
        free(config->value[i].text);
        free(config->value[i].origin);
    }
    for (uint32_t c = 0; c < config->class_count; c++)
        sim_config_destroy(config->class_view[c]);
    free(config);
}

/* Index of a key that the caller wrote as a literal. */
static size_t index_of(const sim_config_t *config, const char *section_dot_key) {
    size_t count;
    const sim_key_t *keys = sim_schema(&count);
    for (size_t i = 0; i < config->count; i++) {
        size_t length = strlen(keys[i].section);
        if (strncmp(section_dot_key, keys[i].section, length) == 0 &&
            section_dot_key[length] == '.' &&
            strcmp(section_dot_key + length + 1, keys[i].name) == 0)
            return i;
    }
    sim_bug("sim_config", 0, "key '%s' is not in the schema", section_dot_key);
}

static sim_type_t type_at(size_t index) {
    size_t count;
    return sim_schema(&count)[index].type;
}

uint64_t sim_config_u64(const sim_config_t *config, const char *section_dot_key) {
    size_t index = index_of(config, section_dot_key);
    if (type_at(index) == SIM_TYPE_RATIO || type_at(index) == SIM_TYPE_STRING)
        sim_bug("sim_config", 0, "key '%s' is not an integer", section_dot_key);
    return config->value[index].number;
}

sim_ratio_t sim_config_ratio(const sim_config_t *config, const char *section_dot_key) {
    size_t index = index_of(config, section_dot_key);
    if (type_at(index) != SIM_TYPE_RATIO)
        sim_bug("sim_config", 0, "key '%s' is not a ratio", section_dot_key);
    return config->value[index].ratio;
}

const char *sim_config_str(const sim_config_t *config, const char *section_dot_key) {
    size_t index = index_of(config, section_dot_key);
    if (type_at(index) != SIM_TYPE_STRING && type_at(index) != SIM_TYPE_ENUM)
        sim_bug("sim_config", 0, "key '%s' is not a text", section_dot_key);
    return config->value[index].text;
}

const char *sim_config_text(const sim_config_t *config, const char *section_dot_key) {
    return config->value[index_of(config, section_dot_key)].text;
}

const char *sim_config_origin(const sim_config_t *config, const char *section_dot_key) {
    return config->value[index_of(config, section_dot_key)].origin;
}

void sim_config_write_effective(const sim_config_t *config, FILE *stream) {
    size_t count;
    const sim_key_t *keys = sim_schema(&count);
    const char *section = "";
    for (size_t i = 0; i < count; i++) {
        if (strcmp(keys[i].section, section) != 0) {
            (void)fprintf(stream, "%s[%s]\n", i == 0 ? "" : "\n", keys[i].section);
            section = keys[i].section;
        }
        (void)fprintf(stream, "%s = %s ; %s\n", keys[i].name, config->value[i].text,
                      config->value[i].origin);
    }
    sim_class_write_effective(config, stream);
}

/* FNV-1a, 64 bits: the same on every machine, and good enough behind a key that is also compared by
 * its parts. */
uint64_t sim_hash_text(uint64_t hash, const char *text) {
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return (hash ^ 0xffu) * UINT64_C(0x100000001b3); /* end mark: "ab","c" differs from "a","bc" */
}

uint64_t sim_config_hash(const sim_config_t *config) {
    size_t count;
    const sim_key_t *keys = sim_schema(&count);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++) {
        if (keys[i].is_label) continue;
        hash = sim_hash_text(hash, keys[i].section);
        hash = sim_hash_text(hash, keys[i].name);
        /* Normalised: "1024 B" and "1 KiB" are one text. */
        hash = sim_hash_text(hash, config->value[i].text);
    }
    return sim_class_hash(config, hash);
}

static const char *type_name(const sim_key_t *key) {
    switch (key->type) {
    case SIM_TYPE_COUNT: return "count";
    case SIM_TYPE_BYTES: return "bytes";
    case SIM_TYPE_HZ: return "frequency";
    case SIM_TYPE_PS: return "time";
    case SIM_TYPE_BYTES_PER_S: return "bytes per second";
    case SIM_TYPE_CYCLES: return "cycles";
    case SIM_TYPE_RATIO: return "ratio";
    case SIM_TYPE_BOOL: return "true or false";
    case SIM_TYPE_ENUM: return "choice";
    case SIM_TYPE_STRING: return "text";
    }
    sim_bug("sim_config", 0, "no type %d", (int)key->type);
}

static void write_range(const sim_key_t *key, FILE *stream) {
    char text[72];
    switch (key->type) {
    case SIM_TYPE_BOOL: (void)fputs("true, false", stream); return;
    case SIM_TYPE_ENUM:
        for (const char *p = key->choices; *p != '\0'; p++) {
            if (*p == '|')
                (void)fputs(", ", stream);
            else
                (void)fputc(*p, stream);
        }
        return;
    case SIM_TYPE_STRING:
        (void)fprintf(stream, "%" PRIu64 " .. %" PRIu64 " characters", key->min, key->max);
        return;
    case SIM_TYPE_RATIO:
    case SIM_TYPE_COUNT:
    case SIM_TYPE_BYTES:
    case SIM_TYPE_HZ:
    case SIM_TYPE_PS:
    case SIM_TYPE_BYTES_PER_S:
    case SIM_TYPE_CYCLES: break;
    }
    sim_value_format_range(key, text, sizeof text);
    (void)fputs(text, stream);
}

static const char PAGE_HEAD[] =
    "# Configuration keys\n"
    "\n"
    "Written by `vnpu config reference` from the table in `sim/sim_schema.c`; do not edit.\n"
    "\n"
    "A configuration is an INI file. `include = base.ini`, one or several lines of it at the "
    "top, reads other\n"
    "files first, in order; their keys may be set again. Comments begin with `;` (or with `#` at "
    "the start of a\n"
    "line). Overrides are\n"
    "`section.key=value`, several joined by commas. An unknown or repeated key, a wrong unit, a "
    "value out of\n"
    "range or a missing required key is an error with file, line and the nearest key.\n"
    "\n"
    "Units: bytes B, KiB, MiB, GiB, TiB, kB, MB, GB, TB (none: B); frequency Hz, kHz, MHz, GHz; "
    "time ps, ns,\n"
    "us, ms, s; bytes per second B/s, kB/s, MB/s, GB/s, TB/s, MiB/s, GiB/s; counts plain or with "
    "k, M, G, T;\n"
    "cycles plain; ratios 1/4, 2 or 0.25. Decimal fractions are exact: a value that is not a whole "
    "number of the\n"
    "smallest unit is refused.\n";

static void write_keys(const sim_key_t *keys, size_t count, FILE *stream) {
    const char *section = "";
    for (size_t i = 0; i < count; i++) {
        if (strcmp(keys[i].section, section) != 0) {
            section = keys[i].section;
            (void)fprintf(
                stream,
                "\n## [%s]\n\n| key | type | range | default | meaning |\n|---|---|---|---|---|\n",
                section);
        }
        (void)fprintf(stream, "| `%s` | %s | ", keys[i].name, type_name(&keys[i]));
        write_range(&keys[i], stream);
        const char *preset = keys[i].default_text;
        (void)fprintf(stream, " | %s | %s |\n",
                      preset == NULL      ? "required"
                      : preset[0] == '\0' ? "empty"
                                          : preset,
                      keys[i].text);
    }
}

void sim_config_write_reference(FILE *stream) {
    size_t count;
    const sim_key_t *keys = sim_schema(&count);
    (void)fputs(PAGE_HEAD, stream);
    write_keys(keys, count, stream);
    keys = sim_class_schema(&count);
    write_keys(keys, count, stream);
    (void)fputs(
        "\nAnd every key of the sections core, matrix, vector, sram, acc and dma, and of energy "
        "the mac, vector,\nsram_byte and acc_byte keys, by its whole name: `vector.lanes = 64`. "
        "What a class does not set is as in the\nsections above, which describe the first "
        "class. `matrix.count = 0`: the class has no matrix engine, no\nmatrix queue and no "
        "accumulator.\n",
        stream);
}
