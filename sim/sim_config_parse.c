/*
 * INI text and overrides to a configuration. libinih does the lines; what it does not offer is done
 * by the reader here: it counts lines, gives every line at its full length (the library alone cuts
 * at 197 bytes and counts the rest as another line), does not join indented lines to the one
 * before, and notices every line that is no "key = value".
 */
#include "sim/sim_config_internal.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INCLUDE_DEPTH 8
#define MAX_FILE_BYTES    (1u << 20)

typedef struct loader {
    sim_config_t *config;
    sim_problems_t problems;
    bool is_out_of_memory;
} loader_t;

typedef struct source {
    loader_t *loader;
    const struct source *parent; /* the file that includes this one */
    const char *origin;          /* file name in messages */
    const char *cursor;          /* next line */
    bool *is_set;                /* per class and key: given in this file */
    char *long_value; /* value of a line that is too long for the library's buffer, else NULL */
    int line;
    bool is_handled; /* the library called the handler for this line, or it needs no call */
    bool has_key;
    bool is_skipped; /* in an unknown section, which is reported once */
} source_t;

void sim_problems_add(sim_problems_t *problems, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    problems->count++;
    size_t length = strlen(line) + (problems->used > 0 ? 1u : 0u);
    if (problems->left_out > 0 || problems->used + length >= sizeof problems->text) {
        problems->left_out++;
        return;
    }
    (void)snprintf(problems->text + problems->used, sizeof problems->text - problems->used, "%s%s",
                   problems->used > 0 ? "\n" : "", line);
    problems->used += length;
}

/* ---- one key ------------------------------------------------------------- */

static bool is_overridden(const char *origin) {
    return origin != NULL && strcmp(origin, "override") == 0;
}

/* Sets key `index` of the chip or of a class; `where` is "file:line" or "override". */
static void set_key(loader_t *loader, sim_config_t *target, size_t index, const char *text,
                    const char *where) {
    sim_value_t value = {0};
    char reason[SIM_VALUE_REASON_BYTES];
    sim_status_t status = sim_value_parse(sim_key_of(target, index), text, &value, reason);
    if (status == SIM_ERROR_CONFIG) {
        char label[SIM_KEY_LABEL_BYTES];
        sim_problems_add(&loader->problems, "%s: %s = '%.40s': %s", where,
                         sim_key_label(target, index, label), text, reason);
        /* The key is not missing: do not report it twice. */
        value.text = strdup("");
    }
    value.origin = strdup(where);
    if (value.text == NULL || value.origin == NULL) {
        free(value.text);
        free(value.origin);
        loader->is_out_of_memory = true;
        return;
    }
    free(target->value[index].text);
    free(target->value[index].origin);
    target->value[index] = value;
}

#define CLASS_SECTION "class "

/* "class b" -> "b"; NULL: a section of the chip. */
static const char *class_name(const char *section) {
    size_t length = strlen(CLASS_SECTION);
    if (strncmp(section, CLASS_SECTION, length) != 0) return NULL;
    section += length;
    while (*section == ' ' || *section == '\t')
        section++;
    return section;
}

/* The class of that name, made if it is new; NULL: reported. */
static sim_config_t *class_target(loader_t *loader, const char *name, const char *where) {
    long known = sim_class_of(loader->config, name);
    if (known > 0) return loader->config->class_view[known - 1];
    const char *reason;
    sim_config_t *made = sim_class_add(loader->config, name, &reason);
    if (made != NULL) return made;
    if (reason != NULL)
        sim_problems_add(&loader->problems, "%s: class '%.40s': %s", where, name, reason);
    else
        loader->is_out_of_memory = true;
    return NULL;
}

static void unknown_class_key(loader_t *loader, const sim_config_t *class, const char *where,
                              const char *name) {
    size_t count;
    const sim_key_t *keys = sim_schema(&count), *key = sim_class_nearest(name);
    const char *dot = strchr(name, '.');
    bool is_of_chip = false;
    for (size_t i = 0; dot != NULL && i < count && !is_of_chip; i++)
        is_of_chip = strncmp(keys[i].section, name, (size_t)(dot - name)) == 0 &&
                     keys[i].section[dot - name] == '\0' && strcmp(keys[i].name, dot + 1) == 0;
    bool is_own = strcmp(key->section, "class NAME") == 0;
    sim_problems_add(&loader->problems, "%s: class %s: %s '%.60s', did you mean '%s%s%s'?", where,
                     class->class_name, is_of_chip ? "all classes share the key" : "unknown key",
                     name, is_own ? "" : key->section, is_own ? "" : ".", key->name);
}

static void unknown_key(loader_t *loader, const char *where, const char *section,
                        const char *name) {
    const sim_key_t *nearest = sim_schema_nearest(section, name);
    sim_problems_add(&loader->problems, "%s: unknown key '%s%s%s', did you mean '%s.%s'?", where,
                     section, *section != '\0' ? "." : "", name, nearest->section, nearest->name);
}

/* The key that `section` and `name` mean, and whose it is; -1: reported. */
static long find_key(loader_t *loader, const char *section, const char *name, const char *where,
                     sim_config_t **out_target) {
    const char *class = class_name(section);
    *out_target = loader->config;
    if (class == NULL) {
        long index = sim_schema_find(section, name);
        if (index < 0) unknown_key(loader, where, section, name);
        return index;
    }
    *out_target = class_target(loader, class, where);
    if (*out_target == NULL) return -1;
    long index = sim_class_find(name);
    if (index < 0) unknown_class_key(loader, *out_target, where, name);
    return index;
}

/* ---- files --------------------------------------------------------------- */

static void read_source(loader_t *loader, const source_t *parent, const char *origin,
                        const char *text);

static char *read_file(loader_t *loader, const char *path, const char *where) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        sim_problems_add(&loader->problems, "%s: cannot open '%s': %s", where, path,
                         strerror(errno));
        return NULL;
    }
    char *text = malloc(MAX_FILE_BYTES + 1u);
    if (text == NULL) {
        loader->is_out_of_memory = true;
        (void)fclose(file);
        return NULL;
    }
    size_t bytes = fread(text, 1, MAX_FILE_BYTES + 1u, file);
    const char *fault = NULL;
    if (ferror(file))
        fault = "cannot be read";
    else if (bytes > MAX_FILE_BYTES)
        fault = "is larger than 1 MiB";
    else if (memchr(text, '\0', bytes) != NULL)
        fault = "contains a zero byte: not a text";
    (void)fclose(file);
    if (fault != NULL) {
        sim_problems_add(&loader->problems, "%s: '%s' %s", where, path, fault);
        free(text);
        return NULL;
    }
    text[bytes] = '\0';
    return text;
}

static void include(source_t *source, const char *name, const char *where) {
    loader_t *loader = source->loader;
    if (source->has_key) {
        sim_problems_add(&loader->problems, "%s: includes come before everything else", where);
        return;
    }
    int depth = 0;
    for (const source_t *s = source; s != NULL; s = s->parent)
        depth++;
    if (depth > MAX_INCLUDE_DEPTH) {
        sim_problems_add(&loader->problems, "%s: includes are nested deeper than %d", where,
                         MAX_INCLUDE_DEPTH);
        return;
    }
    const char *slash = name[0] == '/' ? NULL : strrchr(source->origin, '/');
    int folder = slash == NULL ? 0 : (int)(slash - source->origin + 1);
    char *path = NULL;
    if (asprintf(&path, "%.*s%s", folder, source->origin, name) < 0) {
        loader->is_out_of_memory = true;
        return;
    }
    char *text = read_file(loader, path, where);
    if (text != NULL) read_source(loader, source, path, text);
    free(text);
    free(path);
}

/* Called by the library for "name = value". */
static int on_key(void *user, const char *section, const char *name, const char *value) {
    source_t *source = user;
    if (source->long_value != NULL) value = source->long_value;
    source->is_handled = true;
    char where[480];
    (void)snprintf(where, sizeof where, "%.440s:%d", source->origin, source->line);
    if (*section == '\0' && strcmp(name, "include") == 0) {
        include(source, value, where);
        return 1;
    }
    source->has_key = true;
    if (source->is_skipped) return 1;
    sim_config_t *target;
    long index = find_key(source->loader, section, name, where, &target);
    if (index < 0) return 1;
    long class = target->chip == NULL ? 0 : sim_class_of(target->chip, target->class_name);
    bool *is_set = &source->is_set[(size_t) class * target->count + (size_t)index];
    if (*is_set) {
        sim_problems_add(&source->loader->problems, "%s: %s.%s is set twice, first at %s", where,
                         section, name, target->value[index].origin);
    } else {
        *is_set = true;
        set_key(source->loader, target, (size_t)index, value, where);
    }
    return 1;
}

/* Length of a line without its comment and the blanks at its end; the library's rule for comments:
 * " ;" begins one. */
static size_t content_length(const char *line, size_t length) {
    for (size_t i = 1; i < length; i++)
        if (line[i] == ';' && isspace((unsigned char)line[i - 1])) length = i;
    while (length > 0 && isspace((unsigned char)line[length - 1]))
        length--;
    return length;
}

static void check_previous_line(const source_t *source) {
    if (source->line > 0 && !source->is_handled)
        sim_problems_add(&source->loader->problems,
                         "%s:%d: not a comment, [section] or key = value", source->origin,
                         source->line);
}

/* "[name]": false if the line is no section at all; an unknown one is reported here, once. */
static bool enter_section(source_t *source, const char *line, size_t length) {
    if (length < 2 || line[length - 1] != ']') return false;
    char name[64];
    const char *nearest = NULL;
    (void)snprintf(name, sizeof name, "%.*s", (int)(length - 2), line + 1);
    source->has_key = true;
    if (class_name(name) != NULL) {
        char where[480];
        (void)snprintf(where, sizeof where, "%.440s:%d", source->origin, source->line);
        source->is_skipped = class_target(source->loader, class_name(name), where) == NULL;
        return true;
    }
    source->is_skipped = !sim_schema_has_section(name, &nearest);
    if (source->is_skipped)
        sim_problems_add(&source->loader->problems,
                         "%s:%d: unknown section '[%s]', did you mean '[%s]'?", source->origin,
                         source->line, name, nearest);
    return true;
}

/* Keeps the value of "name = value" aside; returns the length of "name =", 0 if the line is no such
 * thing. */
static size_t shorten(source_t *source, const char *line, size_t length, size_t capacity) {
    size_t name = strcspn(line, "=:");
    if (name >= length || name >= capacity) return 0;
    size_t skip = name + 1;
    while (skip < length && isspace((unsigned char)line[skip]))
        skip++;
    source->long_value = strndup(line + skip, length - skip);
    if (source->long_value == NULL) source->loader->is_out_of_memory = true;
    return name + 1;
}

/* The library's fgets: the next line without indentation and comment, shortened if it is long. */
static char *next_line(char *buffer, int buffer_bytes, void *stream) {
    source_t *source = stream;
    check_previous_line(source);
    free(source->long_value);
    source->long_value = NULL;
    source->is_handled = true;
    const char *line = source->cursor;
    if (*line == '\0') return NULL;
    source->line++;
    size_t raw = strcspn(line, "\n");
    source->cursor = line + raw + (line[raw] == '\n');
    if (source->line == 1 && strncmp(line, "\xEF\xBB\xBF", 3) == 0) {
        line += 3;
        raw -= 3;
    }
    while (raw > 0 && isspace((unsigned char)*line)) {
        line++;
        raw--;
    }
    size_t length = *line == ';' || *line == '#' ? 0 : content_length(line, raw);
    size_t capacity = (size_t)buffer_bytes - 2u; /* newline and terminator */
    if (length > 0 && line[0] == '[') {
        source->is_handled = enter_section(source, line, length);
        if (!source->is_handled || source->is_skipped) length = 0;
    } else if (length > 0) {
        source->is_handled = false; /* until the library calls on_key */
        if (length > capacity) length = shorten(source, line, length, capacity);
    }
    (void)snprintf(buffer, (size_t)buffer_bytes, "%.*s\n", (int)length, line);
    return buffer;
}

static void read_source(loader_t *loader, const source_t *parent, const char *origin,
                        const char *text) {
    source_t source = {.loader = loader, .parent = parent, .origin = origin, .cursor = text};
    source.is_set = calloc(SIM_MAX_CLASSES * loader->config->count, sizeof *source.is_set);
    if (source.is_set == NULL) {
        loader->is_out_of_memory = true;
        return;
    }
    /* The status only says that some line was bad, which next_line reports line by line. */
    (void)ini_parse_stream(next_line, &source, on_key, &source);
    free(source.long_value);
    free(source.is_set);
}

/* ---- overrides, defaults ------------------------------------------------- */

static char *trim(char *text) {
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    text[length] = '\0';
    return text;
}

static void apply_override(loader_t *loader, char *item) {
    char *equals = strchr(item, '=');
    char *dot = strchr(item, '.');
    if (equals == NULL || dot == NULL || dot > equals) {
        sim_problems_add(&loader->problems, "override '%.60s': not section.key=value", item);
        return;
    }
    *equals = '\0';
    *dot = '\0';
    const char *section = trim(item), *name = trim(dot + 1), *value = trim(equals + 1);
    sim_config_t *target;
    long index = find_key(loader, section, name, "override", &target);
    if (index < 0) return;
    if (is_overridden(target->value[index].origin))
        sim_problems_add(&loader->problems, "override: %s.%s is given twice", section, name);
    else
        set_key(loader, target, (size_t)index, value, "override");
}

static void apply_overrides(loader_t *loader, const char *overrides) {
    char *copy = strdup(overrides == NULL ? "" : overrides);
    if (copy == NULL) {
        loader->is_out_of_memory = true;
        return;
    }
    char *rest = copy;
    for (char *item = strsep(&rest, ","); item != NULL; item = strsep(&rest, ","))
        if (*trim(item) != '\0') apply_override(loader, trim(item));
    free(copy);
}

static void apply_defaults(loader_t *loader, const char *origin) {
    size_t count;
    const sim_key_t *keys = sim_schema(&count);
    for (size_t i = 0; i < count; i++) {
        if (loader->config->value[i].text != NULL) continue;
        if (keys[i].default_text == NULL)
            sim_problems_add(&loader->problems, "%s: required key '%s.%s' is missing", origin,
                             keys[i].section, keys[i].name);
        else
            set_key(loader, loader->config, i, keys[i].default_text, "default");
    }
    if (sim_class_inherit(loader->config, origin, &loader->problems) != SIM_OK)
        loader->is_out_of_memory = true;
}

static sim_status_t finish(loader_t *loader, const char *origin, const char *overrides,
                           sim_config_t **out_config, sim_error_t *err) {
    sim_problems_t *problems = &loader->problems;
    apply_overrides(loader, overrides);
    apply_defaults(loader, origin);
    if (problems->count == 0 && !loader->is_out_of_memory)
        sim_config_check_errors(loader->config, origin, problems);
    if (problems->count == 0 && !loader->is_out_of_memory) {
        *out_config = loader->config;
        return SIM_OK;
    }
    sim_config_destroy(loader->config);
    if (loader->is_out_of_memory)
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "%s: out of memory", origin);
    if (problems->left_out > 0)
        return sim_error_set(err, SIM_ERROR_CONFIG, "%s\nand %d more", problems->text,
                             problems->left_out);
    return sim_error_set(err, SIM_ERROR_CONFIG, "%s", problems->text);
}

static sim_status_t start(loader_t *loader, const char *origin, sim_error_t *err) {
    loader->config = sim_config_new();
    if (loader->config == NULL)
        return sim_error_set(err, SIM_ERROR_OUT_OF_MEMORY, "%s: out of memory", origin);
    return SIM_OK;
}

sim_status_t sim_config_parse(const char *text, const char *origin, const char *overrides,
                              sim_config_t **out_config, sim_error_t *err) {
    *out_config = NULL;
    loader_t loader = {0};
    sim_status_t status = start(&loader, origin, err);
    if (status != SIM_OK) return status;
    read_source(&loader, NULL, origin, text);
    return finish(&loader, origin, overrides, out_config, err);
}

sim_status_t sim_config_load(const char *path, const char *overrides, sim_config_t **out_config,
                             sim_error_t *err) {
    *out_config = NULL;
    loader_t loader = {0};
    sim_status_t status = start(&loader, path, err);
    if (status != SIM_OK) return status;
    char *text = read_file(&loader, path, path);
    if (text == NULL && !loader.is_out_of_memory) {
        status = sim_error_set(err, SIM_ERROR_IO, "%s", loader.problems.text);
        sim_config_destroy(loader.config);
        return status;
    }
    if (text != NULL) read_source(&loader, NULL, path, text);
    free(text);
    return finish(&loader, path, overrides, out_config, err);
}
