/* Core classes beside the first: each is a whole set of values, its own and the inherited ones. */
#include "sim/sim_config_internal.h"

#include <stdlib.h>
#include <string.h>

sim_config_t *sim_config_new(void) {
    size_t count;
    (void)sim_schema(&count);
    sim_config_t *config = calloc(1, sizeof *config + count * sizeof config->value[0]);
    if (config != NULL) config->count = count;
    return config;
}

uint32_t sim_config_classes(const sim_config_t *config) {
    return config->class_count + 1;
}

const sim_config_t *sim_config_class(const sim_config_t *config, uint32_t index) {
    if (index > config->class_count) sim_bug("sim_config", 0, "no class %u", index);
    return index == 0 ? config : config->class_view[index - 1];
}

const char *sim_config_class_name(const sim_config_t *config, uint32_t index) {
    const sim_config_t *view = sim_config_class(config, index);
    return index == 0 ? sim_config_str(view, "grid.class") : view->class_name;
}

uint32_t sim_config_cores(const sim_config_t *config) {
    const sim_config_t *chip = config->chip != NULL ? config->chip : config;
    uint64_t cores = 0;
    for (uint32_t c = 0; c < sim_config_classes(chip); c++)
        cores += sim_config_u64(sim_config_class(chip, c), "grid.cores");
    return (uint32_t)cores;
}

bool sim_config_class_sets(const sim_config_t *config, uint32_t index,
                           const char *section_dot_key) {
    long key = sim_class_find(section_dot_key);
    if (key < 0) sim_bug("sim_config", 0, "key '%s' does not differ by class", section_dot_key);
    return !sim_config_class(config, index)->value[key].is_inherited;
}

/* ---- names ---------------------------------------------------------------- */

/* The schema's key that holds each of the class's own keys. */
static const char *const OWN_KEYS[] = {"cores", "workers"};

static long own_key(const char *name) {
    size_t count;
    const sim_key_t *own = sim_class_schema(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(own[i].name, name) == 0) return sim_schema_find("grid", OWN_KEYS[i]);
    return -1;
}

long sim_class_find(const char *name) {
    const char *dot = strchr(name, '.');
    if (dot == NULL) return own_key(name);
    char section[SIM_CLASS_NAME_BYTES];
    (void)snprintf(section, sizeof section, "%.*s", (int)(dot - name), name);
    long index = sim_schema_find(section, dot + 1);
    size_t count;
    if (index >= 0 && !sim_key_is_per_class(&sim_schema(&count)[index])) return -1;
    return index;
}

const sim_key_t *sim_key_of(const sim_config_t *config, size_t index) {
    size_t count, own_count;
    const sim_key_t *key = &sim_schema(&count)[index], *own = sim_class_schema(&own_count);
    if (config->chip == NULL || strcmp(key->section, "grid") != 0) return key;
    for (size_t i = 0; i < own_count; i++)
        if (strcmp(key->name, OWN_KEYS[i]) == 0) return &own[i];
    return key;
}

const char *sim_key_label(const sim_config_t *config, size_t index,
                          char label[SIM_KEY_LABEL_BYTES]) {
    const sim_key_t *key = sim_key_of(config, index);
    if (config->chip == NULL)
        (void)snprintf(label, SIM_KEY_LABEL_BYTES, "%s.%s", key->section, key->name);
    else if (strncmp(key->section, "class", 5) == 0)
        (void)snprintf(label, SIM_KEY_LABEL_BYTES, "class %s.%s", config->class_name, key->name);
    else
        (void)snprintf(label, SIM_KEY_LABEL_BYTES, "class %s.%s.%s", config->class_name,
                       key->section, key->name);
    return label;
}

/* ---- making ---------------------------------------------------------------- */

long sim_class_of(const sim_config_t *config, const char *name) {
    for (uint32_t c = 0; c < config->class_count; c++)
        if (strcmp(config->class_view[c]->class_name, name) == 0) return (long)c + 1;
    return -1;
}

static bool is_name(const char *name) {
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return length > 0 && name[length] == '\0' && length < SIM_CLASS_NAME_BYTES;
}

sim_config_t *sim_class_add(sim_config_t *config, const char *name, const char **out_reason) {
    *out_reason = "a name of 1 to 31 characters of a-z, 0-9, _ and - is needed";
    if (!is_name(name)) return NULL;
    *out_reason = "a chip has at most 8 classes";
    if (config->class_count == SIM_MAX_CLASSES - 1) return NULL;
    *out_reason = NULL;
    sim_config_t *view = sim_config_new();
    if (view == NULL) return NULL;
    view->chip = config;
    (void)snprintf(view->class_name, sizeof view->class_name, "%s", name);
    config->class_view[config->class_count++] = view;
    return view;
}

static sim_status_t copy_value(sim_value_t *to, const sim_value_t *from) {
    if (from->text == NULL) return SIM_OK; /* a required key, reported already */
    sim_value_t value = {.number = from->number,
                         .ratio = from->ratio,
                         .text = strdup(from->text),
                         .origin = strdup(from->origin),
                         .is_inherited = true};
    if (value.text == NULL || value.origin == NULL) {
        free(value.text);
        free(value.origin);
        return SIM_ERROR_OUT_OF_MEMORY;
    }
    *to = value;
    return SIM_OK;
}

/* A key that only a class has, by its default. */
static sim_status_t preset(sim_config_t *view, size_t index, const char *origin,
                           sim_problems_t *problems) {
    const sim_key_t *key = sim_key_of(view, index);
    if (key->default_text == NULL) {
        sim_problems_add(problems, "%s: required key 'class %s.%s' is missing", origin,
                         view->class_name, key->name);
        return SIM_OK;
    }
    char reason[SIM_VALUE_REASON_BYTES];
    sim_value_t *value = &view->value[index];
    if (sim_value_parse(key, key->default_text, value, reason) != SIM_OK)
        return SIM_ERROR_OUT_OF_MEMORY;
    value->origin = strdup("default");
    value->is_inherited = true;
    return value->origin == NULL ? SIM_ERROR_OUT_OF_MEMORY : SIM_OK;
}

sim_status_t sim_class_inherit(sim_config_t *config, const char *origin, sim_problems_t *problems) {
    for (uint32_t c = 0; c < config->class_count; c++) {
        sim_config_t *view = config->class_view[c];
        for (size_t i = 0; i < config->count; i++) {
            if (view->value[i].text != NULL) continue;
            bool is_own = strcmp(sim_key_of(view, i)->section, "class NAME") == 0;
            sim_status_t status = is_own ? preset(view, i, origin, problems)
                                         : copy_value(&view->value[i], &config->value[i]);
            if (status != SIM_OK) return status;
        }
    }
    return SIM_OK;
}

/* ---- writing --------------------------------------------------------------- */

void sim_class_write_effective(const sim_config_t *config, FILE *stream) {
    for (uint32_t c = 0; c < config->class_count; c++) {
        const sim_config_t *view = config->class_view[c];
        (void)fprintf(stream, "\n[class %s]\n", view->class_name);
        for (size_t i = 0; i < view->count; i++) {
            const sim_value_t *value = &view->value[i];
            if (value->is_inherited) continue;
            const sim_key_t *key = sim_key_of(view, i);
            bool is_own = strcmp(key->section, "class NAME") == 0;
            (void)fprintf(stream, "%s%s%s = %s ; %s\n", is_own ? "" : key->section,
                          is_own ? "" : ".", key->name, value->text, value->origin);
        }
    }
}

uint64_t sim_class_hash(const sim_config_t *config, uint64_t hash) {
    for (uint32_t c = 0; c < config->class_count; c++) {
        const sim_config_t *view = config->class_view[c];
        hash = sim_hash_text(hash, "class"); /* not its name, which is a label */
        for (size_t i = 0; i < view->count; i++) {
            const sim_key_t *key = sim_key_of(view, i);
            if (strcmp(key->section, "class NAME") != 0 && !sim_key_is_per_class(key)) continue;
            hash = sim_hash_text(hash, view->value[i].text);
        }
    }
    return hash;
}
