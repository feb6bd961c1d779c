#include "device/dev_open.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

/* Value of NAME in a NULL-terminated environment; empty counts as unset. */
static const char *env_value(char *const *env, const char *name) {
    size_t length = strlen(name);
    for (; *env != NULL; env++) {
        if (strncmp(*env, name, length) == 0 && (*env)[length] == '=') {
            return (*env)[length + 1] != '\0' ? *env + length + 1 : NULL;
        }
    }
    return NULL;
}

static bool is_directory(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Where the named configurations are: beside the anchor, one up, installed, or in the tree this was
 * built from. */
static const char *find_config_dir(char *const *env, const char *anchor, char *path, size_t bytes) {
    static const char *const places[] = {"configs", "../configs", "../share/vnpu/configs"};
    const char *given = env_value(env, "VNPU_CONFIG_DIR");
    if (given != NULL) {
        return given;
    }
    const char *slash = anchor != NULL ? strrchr(anchor, '/') : NULL;
    for (size_t i = 0; slash != NULL && i < sizeof places / sizeof places[0]; i++) {
        int length = snprintf(path, bytes, "%.*s/%s", (int)(slash - anchor), anchor, places[i]);
        if (length > 0 && (size_t)length < bytes && is_directory(path)) {
            return path;
        }
    }
    return VNPU_SOURCE_CONFIGS;
}

sim_status_t dev_open(dev_open_t *open, char *const *env, const char *anchor, sim_error_t *err) {
    char path[PATH_MAX];
    memset(open, 0, sizeof *open);
    dev_chip_options_t options;
    open->step = "options";
    sim_status_t status = dev_chip_options_from_env(env, &options, err);
    if (status != SIM_OK) {
        return status;
    }
    open->step = "config";
    status =
        dev_chip_load_config(env_value(env, "VNPU_CONFIG"), env_value(env, "VNPU_OPTIONS"),
                             find_config_dir(env, anchor, path, sizeof path), &open->config, err);
    if (status != SIM_OK) {
        return status;
    }
    open->step = "chip";
    status = dev_chip_create(open->config, &options, &open->chip, err);
    if (status != SIM_OK) {
        dev_open_close(open);
        return status;
    }
    open->step = "client";
    status = dev_chip_client_open(open->chip, &open->client);
    if (status != SIM_OK) {
        sim_error_set(err, status, "the chip takes no client: %s", sim_status_name(status));
        dev_open_close(open);
    }
    return status;
}

void dev_open_close(dev_open_t *open) {
    if (open->chip != NULL && open->client != 0) {
        dev_chip_client_close(open->chip, open->client);
    }
    dev_chip_destroy(open->chip);
    sim_config_destroy(open->config);
    const char *step = open->step;
    *open = (dev_open_t){.step = step};
}
