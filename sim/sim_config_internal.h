/* Shared by the sim_config_*.c files. */
#ifndef SIM_CONFIG_INTERNAL_H
#define SIM_CONFIG_INTERNAL_H

#include "sim/sim_config.h"

/* Every problem of a configuration, one per line; lines that do not fit are counted. */
typedef struct sim_problems {
    char text[sizeof(((sim_error_t *)0)->text) - 40]; /* room for the line that counts the rest */
    size_t used;
    int count, left_out;
} sim_problems_t;
void sim_problems_add(sim_problems_t *problems, const char *format, ...) SIM_PRINTF(2, 3);

/* One value: `number` for the integer types, BOOL and ENUM (index), `ratio` for RATIO, `text`
 * always (normalised). */
typedef struct sim_value {
    uint64_t number;
    sim_ratio_t ratio;
    char *text;        /* owned; NULL: not set */
    char *origin;      /* owned */
    bool is_inherited; /* a class's value that its section does not set */
} sim_value_t;

struct sim_config {
    size_t count;
    const sim_config_t *chip; /* of a class beside the first: the configuration it belongs to */
    char class_name[SIM_CLASS_NAME_BYTES];
    uint32_t class_count;                          /* classes beside the first */
    sim_config_t *class_view[SIM_MAX_CLASSES - 1]; /* owned */
    sim_value_t value[];                           /* in schema order */
};

/* Whether it makes a difference that a stream of the matrix unit is cut into pieces. */
bool sim_config_has_pieces(const sim_config_t *config);
sim_config_t *sim_config_new(void); /* no value is set; NULL: out of memory */
/* Index in the schema of a key of a class section: "count", "workers" or "section.key" of a key
 * that differs by class; -1. */
long sim_class_find(const char *name);
/* "vector.lanes", or of a class beside the first "class b.vector.lanes", "class b.count". */
#define SIM_KEY_LABEL_BYTES 128
const char *sim_key_label(const sim_config_t *config, size_t index,
                          char label[SIM_KEY_LABEL_BYTES]);
/* The key of the schema, or of the class's own keys, that `index` means in `config`. */
const sim_key_t *sim_key_of(const sim_config_t *config, size_t index);
/* Index of the class of that name, or -1 (class 0 is not found by name: its sections are its own).
 */
long sim_class_of(const sim_config_t *config, const char *name);
/* Adds a class; NULL and *out_reason (NULL: out of memory) if it cannot be. */
sim_config_t *sim_class_add(sim_config_t *config, const char *name, const char **out_reason);
/* Fills what the classes do not set. OUT_OF_MEMORY. */
sim_status_t sim_class_inherit(sim_config_t *config, const char *origin,
                               sim_problems_t *problems) SIM_MUST_USE;
void sim_class_write_effective(const sim_config_t *config, FILE *stream);
uint64_t sim_class_hash(const sim_config_t *config, uint64_t hash);
uint64_t sim_hash_text(uint64_t hash, const char *text);

#define SIM_VALUE_REASON_BYTES 160

/*
 * Reads `text` as a value of `key` into number or ratio of `value` and its normalised form into
 * value->text (allocated). CONFIG: `reason` says why not. OUT_OF_MEMORY. On failure nothing is
 * allocated.
 */
sim_status_t sim_value_parse(const sim_key_t *key, const char *text, sim_value_t *value,
                             char reason[SIM_VALUE_REASON_BYTES]) SIM_MUST_USE;
/* "256 B", "1 GHz", "1/4": number or ratio in the largest unit that divides it. */
void sim_value_format(const sim_key_t *key, uint64_t number, sim_ratio_t ratio, char *text,
                      size_t text_bytes);

/* "1 .. 256", "0 .. 16", "1 KiB .. 1 GiB": the bounds of an integer or RATIO key. */
void sim_value_format_range(const sim_key_t *key, char *text, size_t text_bytes);

/* Index in the schema of "section.key", or -1. */
long sim_schema_find(const char *section, const char *name);
/* True if some key is in `section`; the section with the smallest edit distance either way. */
bool sim_schema_has_section(const char *section, const char **out_nearest);
/* The same for "section.name" or "name" of a class section. */
const sim_key_t *sim_class_nearest(const char *name);
/* The valid key with the smallest edit distance to section.name. */
const sim_key_t *sim_schema_nearest(const char *section, const char *name);

/* Tells every key of class `index` that is set but that no unit reads: where, which, why. */
typedef void (*sim_tell_fn)(void *context, const char *origin, const char *key, const char *why);
void sim_config_tell_effects(const sim_config_t *config, uint32_t index, sim_tell_fn tell,
                             void *context);

/* Contradictions that make a configuration wrong (not only odd). */
void sim_config_check_errors(const sim_config_t *config, const char *origin,
                             sim_problems_t *problems);

#endif
