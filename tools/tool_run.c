/* vnpu run: a program, its arguments from files, on the chip of a configuration. */
#include "tools/tool_run.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev_program.h"

/* The chip with one client, driven packet by packet. */
typedef struct run_chip {
    sim_config_t *config;
    dev_chip_t *chip;
    uint32_t client;
    uint64_t seq;
    sim_error_t err;
} run_chip_t;

static bool step(run_chip_t *run, vnpu_packet_t *packet, const void *in, void *out,
                 vnpu_completion_t *completion) {
    packet->seq = ++run->seq;
    dev_chip_execute(run->chip, run->client, packet, in, out, completion);
    if (completion->status == SIM_OK) return true;
    vnpu_packet_t ask = {.type = VNPU_PACKET_ERROR_INFO, .slots = 1, .seq = ++run->seq};
    vnpu_completion_t answer;
    dev_chip_execute(run->chip, run->client, &ask, NULL, NULL, &answer);
    char text[sizeof run->err.text] = "";
    vnpu_packet_t read = {.type = VNPU_PACKET_BLOB_READ, .slots = 1, .seq = ++run->seq};
    read.u.copy.device = VNPU_BLOB_ERROR;
    read.u.copy.bytes = read.u.copy.total = answer.value[0];
    if (answer.value[0] <= sizeof text)
        dev_chip_execute(run->chip, run->client, &read, NULL, text, &answer);
    sim_error_set(&run->err, (sim_status_t)completion->status, "%s: %s",
                  sim_status_name((sim_status_t)completion->status), text);
    return false;
}

static bool copy_in(run_chip_t *run, uint64_t address, const void *data, uint64_t bytes) {
    vnpu_packet_t packet = {.type = VNPU_PACKET_COPY_H2D, .slots = 1};
    packet.u.copy = (vnpu_packet_copy_t){.device = address, .bytes = bytes, .total = bytes};
    vnpu_completion_t completion;
    return step(run, &packet, data, NULL, &completion);
}

static bool prepare_arg(run_chip_t *run, run_arg_t *arg) {
    if (arg->bytes == 0 && arg->file == NULL) return true;
    void *data = NULL;
    if (arg->file != NULL) {
        size_t bytes;
        data = tool_read_file(arg->file, &bytes);
        if (data == NULL)
            return sim_error_set(&run->err, SIM_ERROR_IO, "argument %s", arg->name) == SIM_OK;
        arg->bytes = bytes;
    } else {
        data = calloc(1, arg->bytes);
    }
    vnpu_packet_t packet = {.type = VNPU_PACKET_ALLOC, .slots = 1};
    packet.u.mem.bytes = arg->bytes;
    vnpu_completion_t completion;
    bool is_ok = data != NULL && step(run, &packet, NULL, NULL, &completion);
    if (is_ok) {
        arg->address = completion.value[0];
        is_ok = copy_in(run, arg->address, data, arg->bytes);
    }
    free(data);
    return is_ok;
}

static int find_arg(const dev_program_t *program, const char *name) {
    char *end;
    unsigned long number = strtoul(name, &end, 10);
    if (*name != '\0' && *end == '\0' && number < program->header.num_args) return (int)number;
    const char *text = program->strings;
    for (uint32_t a = 0; a < program->header.num_args && program->header.strings_bytes != 0; a++) {
        if (strcmp(text, name) == 0) return (int)a;
        text += strlen(text) + 1;
    }
    return -1;
}

/* Puts the spec's arguments in the program's order. */
static bool order_args(run_chip_t *run, const dev_program_t *program, const run_spec_t *spec,
                       uint64_t *args) {
    bool is_given[VNPU_MAX_ARGS] = {false};
    for (uint32_t i = 0; i < spec->num_args; i++) {
        int a = find_arg(program, spec->arg[i].name);
        if (a < 0)
            return sim_error_set(&run->err, SIM_ERROR_NOT_FOUND, "%s has no argument \"%s\"",
                                 program->header.name, spec->arg[i].name) == SIM_OK;
        args[a] = spec->arg[i].address != 0 ? spec->arg[i].address : spec->arg[i].scalar;
        is_given[a] = true;
    }
    for (uint32_t a = 0; a < program->header.num_args; a++) {
        if (!is_given[a])
            return sim_error_set(&run->err, SIM_ERROR_INVALID_VALUE,
                                 "argument %u of %s is missing (--arg)", a,
                                 program->header.name) == SIM_OK;
    }
    return true;
}

static bool load_module(run_chip_t *run, const void *image, size_t bytes, uint32_t *out_module,
                        uint32_t *out_class_mask) {
    vnpu_packet_t packet = {.type = VNPU_PACKET_MODULE_LOAD, .slots = 1};
    packet.u.copy = (vnpu_packet_copy_t){.bytes = bytes, .total = bytes};
    vnpu_completion_t completion;
    if (!step(run, &packet, image, NULL, &completion)) return false;
    *out_module = (uint32_t)completion.value[0];
    *out_class_mask = (uint32_t)completion.value[1];
    return true;
}

/* The class of cores that the program runs on; class_mask: those that can. */
static bool choose_class(run_chip_t *run, const run_spec_t *spec, uint32_t class_mask,
                         uint32_t *out_class) {
    uint32_t count = sim_config_classes(run->config), first = 0;
    *out_class = (uint32_t)__builtin_ctz(class_mask);
    for (uint32_t c = 0; c < count; c++) {
        uint64_t cores = sim_config_u64(sim_config_class(run->config, c), "grid.cores");
        if (spec->core_class != NULL &&
            strcmp(spec->core_class, sim_config_class_name(run->config, c)) == 0) {
            *out_class = c;
            return true;
        }
        if (spec->core_class == NULL && first < 64 && (spec->core_mask >> first) != 0)
            *out_class = c;
        first += (uint32_t)cores;
    }
    if (spec->core_class == NULL) return true;
    return sim_error_set(&run->err, SIM_ERROR_NOT_FOUND,
                         "--core-class %s: this chip has no class of that name",
                         spec->core_class) == SIM_OK;
}

static bool launch(run_chip_t *run, const run_spec_t *spec, const dev_program_t *program,
                   uint32_t module, uint32_t core_class) {
    vnpu_packet_t packet[VNPU_MAX_PACKET_SLOTS] = {
        {.type = VNPU_PACKET_KERNEL, .flags = VNPU_PACKET_BARRIER}};
    uint32_t num_args = program->header.num_args;
    packet[0].slots = (uint16_t)(1 + (num_args + 7) / 8);
    packet[0].u.kernel = (vnpu_packet_kernel_t){.module = module,
                                                .num_args = (uint16_t)num_args,
                                                .core_class = (uint16_t)(core_class + 1),
                                                .grid = {spec->grid[0], spec->grid[1]},
                                                .core_mask = spec->core_mask};
    uint64_t args[VNPU_MAX_ARGS] = {0};
    if (!order_args(run, program, spec, args)) return false;
    memcpy(&packet[1], args, num_args * sizeof args[0]);
    vnpu_completion_t completion;
    return step(run, packet, NULL, NULL, &completion);
}

static bool profile(run_chip_t *run, bool is_start, bool with_slices, uint64_t *out_bytes) {
    vnpu_packet_t packet = {.type = is_start ? VNPU_PACKET_PROFILE_START : VNPU_PACKET_PROFILE_STOP,
                            .slots = 1};
    packet.u.mem.bytes = with_slices;
    vnpu_completion_t completion;
    if (!step(run, &packet, NULL, NULL, &completion)) return false;
    *out_bytes = completion.value[0];
    return true;
}

static bool print_profile(run_chip_t *run, const run_spec_t *spec, uint64_t bytes,
                          uint32_t core_class) {
    uint8_t *blob = malloc(bytes);
    vnpu_packet_t packet = {.type = VNPU_PACKET_BLOB_READ, .slots = 1};
    packet.u.copy =
        (vnpu_packet_copy_t){.device = VNPU_BLOB_PROFILE, .bytes = bytes, .total = bytes};
    vnpu_completion_t completion;
    bool is_ok = blob != NULL && step(run, &packet, NULL, blob, &completion);
    if (is_ok)
        run_print(spec, blob,
                  sim_config_u64(sim_config_class(run->config, core_class), "core.clock"));
    free(blob);
    return is_ok;
}

static bool write_out(run_chip_t *run, const run_spec_t *spec, const dev_program_t *program,
                      const run_out_t *out) {
    int a = find_arg(program, out->name);
    const run_arg_t *arg = NULL;
    for (uint32_t i = 0; i < spec->num_args; i++) {
        if (find_arg(program, spec->arg[i].name) == a) arg = &spec->arg[i];
    }
    if (a < 0 || arg == NULL || arg->bytes == 0) {
        return sim_error_set(&run->err, SIM_ERROR_NOT_FOUND,
                             "--out %s: no buffer argument of that name", out->name) == SIM_OK;
    }
    uint8_t *data = malloc(arg->bytes);
    vnpu_packet_t packet = {.type = VNPU_PACKET_COPY_D2H, .slots = 1};
    packet.u.copy =
        (vnpu_packet_copy_t){.device = arg->address, .bytes = arg->bytes, .total = arg->bytes};
    vnpu_completion_t completion;
    bool is_ok = data != NULL && step(run, &packet, NULL, data, &completion);
    FILE *file = is_ok ? fopen(out->file, "wb") : NULL;
    if (is_ok && (file == NULL || fwrite(data, 1, arg->bytes, file) != arg->bytes)) {
        is_ok =
            sim_error_set(&run->err, SIM_ERROR_IO, "%s: %s", out->file, strerror(errno)) == SIM_OK;
    }
    if (file != NULL) fclose(file);
    free(data);
    return is_ok;
}

static bool run_program(run_chip_t *run, run_spec_t *spec, const void *image, size_t bytes,
                        const dev_program_t *program) {
    uint32_t module = 0, class_mask = 0, core_class = 0;
    uint64_t blob_bytes = 0;
    if (!load_module(run, image, bytes, &module, &class_mask) ||
        !choose_class(run, spec, class_mask, &core_class))
        return false;
    for (uint32_t i = 0; i < spec->num_args; i++) {
        if (!prepare_arg(run, &spec->arg[i])) return false;
    }
    if (!profile(run, true, spec->with_slices, &blob_bytes) ||
        !launch(run, spec, program, module, core_class))
        return false;
    if (!profile(run, false, false, &blob_bytes) ||
        !print_profile(run, spec, blob_bytes, core_class))
        return false;
    for (uint32_t i = 0; i < spec->num_outs; i++) {
        if (!write_out(run, spec, program, &spec->out[i])) return false;
    }
    return true;
}

static sim_status_t open_chip(run_chip_t *run, const run_spec_t *spec) {
    extern char **environ;
    dev_chip_options_t options;
    sim_status_t status = tool_load_config(spec->config, spec->overrides, &run->config, &run->err);
    if (status == SIM_OK) status = dev_chip_options_from_env(environ, &options, &run->err);
    if (status == SIM_OK) status = dev_chip_create(run->config, &options, &run->chip, &run->err);
    if (status == SIM_OK) status = dev_chip_client_open(run->chip, &run->client);
    return status;
}

/* --- options
 * ----------------------------------------------------------------------------------------------------------
 */

static void split_name(struct argp_state *state, const char *text, char name[64],
                       const char **value) {
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text || equals - text > 63)
        argp_error(state, "\"%s\": NAME=VALUE expected", text);
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = '\0';
    *value = equals + 1;
}

static void add_arg(struct argp_state *state, run_spec_t *spec, const char *text) {
    if (spec->num_args == VNPU_MAX_ARGS) argp_error(state, "more than %u arguments", VNPU_MAX_ARGS);
    run_arg_t *arg = &spec->arg[spec->num_args++];
    const char *value;
    split_name(state, text, arg->name, &value);
    char *end = NULL;
    if (strncmp(value, "in:", 3) == 0) {
        arg->file = value + 3;
        return;
    }
    if (strncmp(value, "zero:", 5) == 0) {
        arg->bytes = strtoull(value + 5, &end, 0);
        if (arg->bytes == 0) argp_error(state, "\"%s\": zero:BYTES with at least one byte", text);
    } else if (strncmp(value, "f32:", 4) == 0) {
        float number = strtof(value + 4, &end);
        memcpy(&arg->scalar, &number, sizeof number);
    } else if (strncmp(value, "i64:", 4) == 0) {
        arg->scalar = (uint64_t)strtoll(value + 4, &end, 0);
    }
    if (end == NULL || *end != '\0')
        argp_error(state, "\"%s\": in:FILE, zero:BYTES, f32:VALUE or i64:VALUE expected", text);
}

static void read_grid(struct argp_state *state, run_spec_t *spec, const char *text) {
    char rest;
    int got = sscanf(text, "%u,%u%c", &spec->grid[0], &spec->grid[1], &rest);
    if (got == 1) spec->grid[1] = 1;
    if (got < 1 || got > 2 || spec->grid[0] == 0 || spec->grid[1] == 0)
        argp_error(state, "--grid %s: X or X,Y expected", text);
}

static error_t parse(int key, char *arg, struct argp_state *state) {
    run_spec_t *spec = state->input;
    const char *value;
    switch (key) {
    case 'c': spec->config = arg; break;
    case 'o': spec->overrides = arg; break;
    case 'g': read_grid(state, spec, arg); break;
    case 'm': spec->core_mask = strtoull(arg, NULL, 0); break;
    case 'k': spec->core_class = arg; break;
    case 'a': add_arg(state, spec, arg); break;
    case 'O':
        if (spec->num_outs == VNPU_MAX_ARGS)
            argp_error(state, "more than %u outputs", VNPU_MAX_ARGS);
        split_name(state, arg, spec->out[spec->num_outs].name, &value);
        spec->out[spec->num_outs++].file = value;
        break;
    case 'j': spec->is_json = true; break;
    case 's': spec->with_slices = true; break;
    case ARGP_KEY_ARG:
        if (spec->program != NULL) argp_error(state, "one program, please");
        spec->program = arg;
        break;
    case ARGP_KEY_END:
        if (spec->program == NULL) argp_error(state, "which program?");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_option options[] = {
    {"config", 'c', "NAME", 0,
     "Chip: a name in configs/ or a path (default: VNPU_CONFIG or default)", 0},
    {"option", 'o', "KEY=VALUE,...", 0, "Override keys of the configuration", 0},
    {"grid", 'g', "X[,Y]", 0, "Instances (default 1)", 0},
    {"core-mask", 'm', "MASK", 0, "Cores that take instances (default: all workers of the class)",
     0},
    {"core-class", 'k', "CLASS", 0,
     "Class of cores, by name (default: that of the mask, or the first that can run the program)",
     0},
    {"arg", 'a', "NAME=VALUE", 0,
     "in:FILE (a buffer with the file's bytes), zero:BYTES, f32:VALUE, i64:VALUE; NAME or number",
     0},
    {"out", 'O', "NAME=FILE", 0, "Write a buffer argument to a file afterwards", 0},
    {"json", 'j', NULL, 0, "Print JSON instead of tables", 0},
    {"slices", 's', NULL, 0, "List every operation of every engine with its start and end", 0},
    {0}};

int tool_run(int argc, char **argv) {
    static const struct argp argp = {
        options, parse, "PROGRAM", "Runs one program (image or text) on a chip: values and time.",
        NULL,    NULL,  NULL};
    run_spec_t spec = {.grid = {1, 1}};
    argp_parse(&argp, argc, argv, 0, NULL, &spec);
    run_chip_t run = {0};
    void *image = NULL;
    size_t bytes = 0;
    dev_program_t *program = NULL;
    sim_status_t status = tool_read_program(spec.program, &image, &bytes, &run.err);
    if (status == SIM_OK) status = dev_program_load(image, bytes, NULL, &program, &run.err);
    if (status == SIM_OK) status = open_chip(&run, &spec);
    bool is_ok = status == SIM_OK && run_program(&run, &spec, image, bytes, program);
    int result = is_ok ? 0 : tool_fail(&run.err);
    dev_chip_destroy(run.chip);
    sim_config_destroy(run.config);
    dev_program_destroy(program);
    free(image);
    return result;
}
