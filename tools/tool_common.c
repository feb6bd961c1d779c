/* Files, configurations and programs for the subcommands. */
#include "tools/tool.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/dev_asm.h"

int tool_fail(const sim_error_t *err) {
    fprintf(stderr, "vnpu: %s\n", err->text);
    return 1;
}

void *tool_read_file(const char *path, size_t *out_bytes) {
    *out_bytes = 0;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "vnpu: %s: %s\n", path, strerror(errno));
        return NULL;
    }
    char *data = NULL;
    size_t used = 0, capacity = 0;
    for (;;) {
        if (capacity - used < 65536) {
            capacity = capacity * 2 + 131072;
            char *grown = realloc(data, capacity);
            if (grown == NULL) break;
            data = grown;
        }
        size_t got = fread(data + used, 1, capacity - used - 1, file);
        used += got;
        if (got == 0) break;
    }
    if (ferror(file) || data == NULL) {
        fprintf(stderr, "vnpu: %s: cannot be read\n", path);
        free(data);
        data = NULL;
    } else {
        data[used] = '\0';
        *out_bytes = used;
    }
    fclose(file);
    return data;
}

sim_status_t tool_read_program(const char *path, void **out_image, size_t *out_bytes,
                               sim_error_t *err) {
    *out_image = NULL;
    size_t bytes;
    char *data = tool_read_file(path, &bytes);
    if (data == NULL) return sim_error_set(err, SIM_ERROR_IO, "%s: no program", path);
    uint32_t magic = 0;
    if (bytes >= sizeof magic) memcpy(&magic, data, sizeof magic);
    if (magic == VNPU_ISA_MAGIC) {
        *out_image = data;
        *out_bytes = bytes;
        return SIM_OK;
    }
    sim_status_t status = dev_asm_assemble(data, path, out_image, out_bytes, err);
    free(data);
    return status;
}

/* <dir of this program>/../share/vnpu/configs, ../configs or the source tree's configs. */
static const char *config_dir(char path[PATH_MAX]) {
    const char *from_env = getenv("VNPU_CONFIG_DIR");
    if (from_env != NULL) return from_env;
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length > 0) {
        self[length] = '\0';
        *strrchr(self, '/') = '\0';
        static const char *const places[] = {"configs", "../share/vnpu/configs", "../share/configs",
                                             "../configs"};
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            int used = snprintf(path, PATH_MAX, "%s/%s", self, places[i]);
            if (used > 0 && used < PATH_MAX && access(path, R_OK) == 0) return path;
        }
    }
    return VNPU_SOURCE_CONFIGS;
}

sim_status_t tool_load_config(const char *name_or_path, const char *overrides,
                              sim_config_t **out_config, sim_error_t *err) {
    char path[PATH_MAX];
    if (name_or_path == NULL) name_or_path = getenv("VNPU_CONFIG");
    if (overrides == NULL) overrides = getenv("VNPU_OPTIONS");
    return dev_chip_load_config(name_or_path, overrides, config_dir(path), out_config, err);
}
