/* The chip's options from the environment, and the search for its configuration. */
#include "device/dev_chip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *lookup(char *const *env, const char *name) {
    size_t length = strlen(name);
    for (; *env != NULL; env++) {
        if (strncmp(*env, name, length) == 0 && (*env)[length] == '=' && (*env)[length + 1] != '\0')
            return *env + length + 1;
    }
    return NULL;
}

typedef struct env_choice {
    const char *text;
    int value;
} env_choice_t;

static sim_status_t read_choice(char *const *env, const char *name, const env_choice_t *choices,
                                const char *right, int *value, sim_error_t *err) {
    const char *text = lookup(env, name);
    if (text == NULL) return SIM_OK;
    for (; choices->text != NULL; choices++) {
        if (strcmp(text, choices->text) == 0) {
            *value = choices->value;
            return SIM_OK;
        }
    }
    return sim_error_set(err, SIM_ERROR_CONFIG, "%s=%s: must be %s", name, text, right);
}

static sim_status_t read_number(char *const *env, const char *name, uint64_t max, uint64_t *value,
                                sim_error_t *err) {
    const char *text = lookup(env, name);
    if (text == NULL) return SIM_OK;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || *text == '-' || number > max) {
        return sim_error_set(err, SIM_ERROR_CONFIG, "%s=%s: must be a whole number from 0 to %llu",
                             name, text, (unsigned long long)max);
    }
    *value = number;
    return SIM_OK;
}

sim_status_t dev_chip_options_from_env(char *const *env, dev_chip_options_t *options,
                                       sim_error_t *err) {
    static const env_choice_t modes[] = {{"full", DEV_MODE_FULL},
                                         {"timing", DEV_MODE_TIMING},
                                         {"functional", DEV_MODE_FUNCTIONAL},
                                         {"chaos", DEV_MODE_CHAOS},
                                         {NULL, 0}};
    static const env_choice_t reuses[] = {
        {"on", DEV_REUSE_ON}, {"off", DEV_REUSE_OFF}, {"check", DEV_REUSE_CHECK}, {NULL, 0}};
    static const env_choice_t levels[] = {{"avx2", 2}, {"avx512", 5}, {NULL, 0}};
    *options = (dev_chip_options_t){0};
    int mode = DEV_MODE_FULL, reuse = DEV_REUSE_ON;
    uint64_t threads = 0;
    sim_status_t status =
        read_choice(env, "VNPU_MODE", modes, "full, timing, functional or chaos", &mode, err);
    if (status == SIM_OK)
        status = read_choice(env, "VNPU_REUSE", reuses, "on, off or check", &reuse, err);
    if (status == SIM_OK)
        status = read_choice(env, "VNPU_ISA", levels, "avx2 or avx512", &options->isa_level, err);
    if (status == SIM_OK) status = read_number(env, "VNPU_THREADS", 256, &threads, err);
    if (status == SIM_OK) status = read_number(env, "VNPU_SEED", UINT64_MAX, &options->seed, err);
    if (status == SIM_OK)
        status = read_number(env, "VNPU_HOST_LIMIT", UINT64_MAX, &options->host_limit, err);
    options->mode = (dev_mode_t)mode;
    options->reuse = (dev_reuse_t)reuse;
    options->threads = (uint32_t)threads;
    options->dump_dir = lookup(env, "VNPU_DUMP");
    return status;
}

sim_status_t dev_chip_load_config(const char *name_or_path, const char *overrides,
                                  const char *config_dir, sim_config_t **out_config,
                                  sim_error_t *err) {
    *out_config = NULL;
    const char *name = name_or_path == NULL || name_or_path[0] == '\0' ? "default" : name_or_path;
    bool is_path = strchr(name, '/') != NULL || strstr(name, ".ini") != NULL;
    if (is_path) return sim_config_load(name, overrides, out_config, err);
    char path[4096];
    int length =
        snprintf(path, sizeof path, "%s/%s.ini", config_dir == NULL ? "configs" : config_dir, name);
    if (length < 0 || (size_t)length >= sizeof path) {
        return sim_error_set(err, SIM_ERROR_CONFIG,
                             "the name of the configuration is too long: %.60s...", name);
    }
    if (access(path, R_OK) != 0) {
        return sim_error_set(
            err, SIM_ERROR_NOT_FOUND,
            "configuration \"%s\" not found: no %s (give a name in that folder, or a path)", name,
            path);
    }
    return sim_config_load(path, overrides, out_config, err);
}
