/* vnpu config explain [PREFIX] | check FILE... | show [NAME], vnpu info [--quick] [NAME]. */
#include "tools/tool.h"

#include "sim/sim_probe.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

typedef struct config_args {
    const char *words[16];
    int count;
    const char *overrides;
    bool is_quick;
} config_args_t;

static error_t parse(int key, char *arg, struct argp_state *state) {
    config_args_t *args = state->input;
    if (key == 'o') {
        args->overrides = arg;
    } else if (key == 'q') {
        args->is_quick = true;
    } else if (key == ARGP_KEY_ARG) {
        if (args->count == 16) argp_error(state, "too many arguments");
        args->words[args->count++] = arg;
    } else {
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_option options[] = {
    {"option", 'o', "KEY=VALUE,...", 0, "Override keys", 0}, {0}};

static int explain_keys(const sim_key_t *key, size_t count, const char *prefix) {
    int shown = 0;
    for (size_t i = 0; i < count; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s.%s", key[i].section, key[i].name);
        if (prefix != NULL && strncmp(name, prefix, strlen(prefix)) != 0) continue;
        printf("%-28s %s", name, key[i].text);
        if (key[i].choices != NULL) printf(" One of: %s.", key[i].choices);
        printf(" (%s%s)\n", key[i].default_text == NULL ? "required" : "default ",
               key[i].default_text == NULL ? "" : key[i].default_text);
        shown++;
    }
    return shown;
}

static const struct argp_option info_options[] = {
    {"option", 'o', "KEY=VALUE,...", 0, "Override keys", 0},
    {"quick", 'q', NULL, 0, "Only what follows from the keys: measure nothing", 0},
    {0}};

static int explain(const char *prefix) {
    size_t count;
    const sim_key_t *key = sim_schema(&count);
    int shown = explain_keys(key, count, prefix);
    key = sim_class_schema(&count);
    shown += explain_keys(key, count, prefix);
    if (shown == 0) fprintf(stderr, "vnpu: no key begins with \"%s\"\n", prefix);
    return shown == 0;
}

static int print_warnings(const sim_config_t *config) {
    char text[8192];
    int warnings = sim_config_self_check(config, text, sizeof text);
    if (warnings > 0) fprintf(stderr, "%s\n", text);
    return warnings;
}

static int check(const char *path, const char *overrides) {
    sim_error_t err = {0};
    sim_config_t *config;
    if (tool_load_config(path, overrides, &config, &err) != SIM_OK) return tool_fail(&err);
    int warnings = print_warnings(config);
    printf("%s: ok, %d warning%s\n", path, warnings, warnings == 1 ? "" : "s");
    sim_config_destroy(config);
    return 0;
}

static sim_status_t print_measured(const sim_config_t *config, sim_error_t *err) {
    sim_probe_t probe;
    sim_status_t status = sim_probe_run(config, &probe, err);
    if (status != SIM_OK) return status;
    double peak = (double)sim_config_u64(config, "dram.channels") *
                  (double)sim_config_u64(config, "dram.burst_bytes") *
                  (double)sim_config_u64(config, "dram.clock") /
                  (double)sim_config_u64(config, "dram.burst_cycles");
    printf("measured  %10.4g GB/s of a 64 MiB stream, %.3g %% of the peak; %.4g GB/s of random "
           "reads of 64 bytes\n",
           (double)probe.stream_bytes_per_s / 1e9, 100.0 * (double)probe.stream_bytes_per_s / peak,
           (double)probe.random_bytes_per_s / 1e9);
    return SIM_OK;
}

static int info(const char *name, const config_args_t *args) {
    sim_error_t err = {0};
    sim_config_t *config;
    if (tool_load_config(name, args->overrides, &config, &err) != SIM_OK) return tool_fail(&err);
    printf("chip %s\n", sim_config_str(config, "chip.name"));
    sim_config_write_summary(config, stdout);
    sim_status_t status = args->is_quick ? SIM_OK : print_measured(config, &err);
    if (status == SIM_OK) print_warnings(config);
    sim_config_destroy(config);
    return status == SIM_OK ? 0 : tool_fail(&err);
}

static int show(const char *name, const char *overrides) {
    sim_error_t err = {0};
    sim_config_t *config;
    if (tool_load_config(name, overrides, &config, &err) != SIM_OK) return tool_fail(&err);
    sim_config_write_effective(config, stdout);
    sim_config_destroy(config);
    return 0;
}

int tool_config(int argc, char **argv) {
    static const struct argp argp = {
        options,
        parse,
        "explain [PREFIX] | check FILE... | show [NAME] | reference",
        "Configuration keys and files. reference prints docs/config.md.",
        NULL,
        NULL,
        NULL};
    config_args_t args = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &args);
    const char *verb = args.count > 0 ? args.words[0] : "show";
    if (strcmp(verb, "explain") == 0) return explain(args.count > 1 ? args.words[1] : NULL);
    if (strcmp(verb, "show") == 0)
        return show(args.count > 1 ? args.words[1] : NULL, args.overrides);
    if (strcmp(verb, "reference") == 0) {
        sim_config_write_reference(stdout);
        return 0;
    }
    if (strcmp(verb, "check") == 0 && args.count > 1) {
        int failed = 0;
        for (int i = 1; i < args.count; i++)
            failed |= check(args.words[i], args.overrides);
        return failed;
    }
    fprintf(stderr,
            "vnpu config: give explain [PREFIX], check FILE..., show [NAME] or reference\n");
    return 2;
}

int tool_info(int argc, char **argv) {
    static const struct argp argp = {info_options,
                                     parse,
                                     "[NAME-OR-PATH]",
                                     "What chip a configuration describes: peaks, ridge points, "
                                     "memories, measured bandwidth of the DRAM, warnings.",
                                     NULL,
                                     NULL,
                                     NULL};
    config_args_t args = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return info(args.count > 0 ? args.words[0] : NULL, &args);
}
