/*
 * Chip configuration: one schema table (sim_schema.c) drives the parser, the checks, `vnpu config
 * explain`, the docs page and the effective configuration that every result carries.
 *
 * A file is INI (libinih, stream interface); `include = base.ini` lines (top of the file, relative
 * to it) are read first, in order; overrides are "section.key=value". Every value is stored as an
 * integer in the unit of its type: SIM_TYPE_COUNT 1, BYTES bytes (KiB/MiB/GiB, kB/MB/GB), HZ hertz,
 * PS picoseconds (ps/ns/us/ms), BYTES_PER_S bytes/s, CYCLES cycles, RATIO a fraction num/den
 * ("1/4", "2", "0.25"), BOOL 0/1, ENUM index of the choice, STRING text. Unknown or duplicate key,
 * wrong unit, out of range, missing required key: SIM_ERROR_CONFIG with "file:line: ..." and the
 * nearest valid key. All errors of a file are reported (joined by newlines), not only the first.
 *
 * Core classes. The sections describe the first class of cores (grid.cores of them). A section
 * [class NAME] adds another one: `count` cores, of which the first `workers` compute (0, the
 * default: all), with every key as in the sections but those it sets itself, by their whole names:
 * `vector.lanes = 64`. Keys that differ by class: sections core, matrix, vector, sram, acc, dma,
 * and the energies of the engines. Cores are numbered class after class, in the order of the file.
 * An override is "class NAME.vector.lanes=64".
 */
#ifndef SIM_CONFIG_H
#define SIM_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/sim_status.h"

typedef struct sim_config sim_config_t;

typedef enum sim_type {
    SIM_TYPE_COUNT,
    SIM_TYPE_BYTES,
    SIM_TYPE_HZ,
    SIM_TYPE_PS,
    SIM_TYPE_BYTES_PER_S,
    SIM_TYPE_CYCLES,
    SIM_TYPE_RATIO,
    SIM_TYPE_BOOL,
    SIM_TYPE_ENUM,
    SIM_TYPE_STRING
} sim_type_t;

typedef struct sim_ratio {
    uint32_t num, den;
} sim_ratio_t; /* den >= 1; "0" (den 1) may mean: not available */

/* One schema row. */
typedef struct sim_key {
    const char *section, *name;
    sim_type_t type;
    const char *default_text; /* NULL: required */
    uint64_t min, max;        /* inclusive, in the stored unit; RATIO: scaled by 65536 */
    const char *choices;      /* ENUM: "a|b|c" */
    const char *text;         /* one sentence: what the key does, which unit it belongs to */
    bool is_label; /* a name or note: cannot influence time, is left out of sim_config_hash */
} sim_key_t;
const sim_key_t *sim_schema(size_t *out_count);

/*
 * Reads `path` (a file) and applies `overrides` ("a.b=1,c.d=2", NULL or "" for none).
 * out_config is owned by the caller (sim_config_destroy). On failure *out_config is NULL and err
 * tells every problem.
 */
sim_status_t sim_config_load(const char *path, const char *overrides, sim_config_t **out_config,
                             sim_error_t *err) SIM_MUST_USE;
/* The same from a string; `origin` is the file name used in messages. */
sim_status_t sim_config_parse(const char *text, const char *origin, const char *overrides,
                              sim_config_t **out_config, sim_error_t *err) SIM_MUST_USE;
void sim_config_destroy(sim_config_t *config);

/* ---- core classes ---- */
#define SIM_MAX_CORES        256u /* of a chip */
#define SIM_MAX_CLASSES      8u
#define SIM_CLASS_NAME_BYTES 32u
uint32_t sim_config_classes(const sim_config_t *config); /* at least 1 */
/*
 * The chip as a core of class `index` sees it: the getters give the class's value of every key that
 * differs by class, and grid.cores, grid.workers are the class's own. Borrowed from `config`; class
 * 0 is `config` itself.
 */
const sim_config_t *sim_config_class(const sim_config_t *config, uint32_t index);
const char *sim_config_class_name(const sim_config_t *config,
                                  uint32_t index); /* class 0: grid.class */
uint32_t sim_config_cores(
    const sim_config_t *config); /* of the chip, all classes; a class's view gives the same */
/* True if the class's section (or an override) sets the key, false if it is the sections'. Class 0:
 * true. */
bool sim_config_class_sets(const sim_config_t *config, uint32_t index, const char *section_dot_key);
bool sim_key_is_per_class(const sim_key_t *key);
/* The keys that only a class section has: count, workers. */
const sim_key_t *sim_class_schema(size_t *out_count);

/* Getters abort (simulator bug) on a name or type that the schema lacks: they are called with
 * literals. */
uint64_t sim_config_u64(const sim_config_t *config,
                        const char *section_dot_key); /* every integer type, BOOL, ENUM */
sim_ratio_t sim_config_ratio(const sim_config_t *config, const char *section_dot_key);
const char *sim_config_str(const sim_config_t *config,
                           const char *section_dot_key); /* STRING and ENUM text */

/* Text of the value as written (normalised) and where it came from ("default", "override",
 * "file:line"). */
const char *sim_config_text(const sim_config_t *config, const char *section_dot_key);
const char *sim_config_origin(const sim_config_t *config, const char *section_dot_key);
/* Writes every key with its value, INI syntax, origin as a trailing comment: the effective
 * configuration. */
void sim_config_write_effective(const sim_config_t *config, FILE *stream);
/* 64-bit hash of every value that can influence time (not names, notes, paths): part of the reuse
 * key. */
uint64_t sim_config_hash(const sim_config_t *config);
/* What is worth a warning (one per line into `text`): returns how many. Contradictions (a port
 * narrower than the array eats); keys that no unit reads because of what others say: "file:line:
 * key: without effect, why". */
int sim_config_self_check(const sim_config_t *config, char *text, size_t text_bytes);
/* Peak numbers that follow from the keys: operations per dtype, DRAM, SRAM and link bandwidth,
 * ridge points. */
void sim_config_write_summary(const sim_config_t *config, FILE *stream);
/* Every key of the schema as a Markdown page (docs/config.md): type, range, default, meaning. */
void sim_config_write_reference(FILE *stream);

#endif
