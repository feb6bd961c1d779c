/* vnpu asm FILE [-o OUT], vnpu dis FILE [-o OUT]. */
#include "tools/tool.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev_asm.h"
#include "device/dev_program.h"

typedef struct asm_args {
    const char *in, *out;
} asm_args_t;

static error_t parse(int key, char *arg, struct argp_state *state) {
    asm_args_t *args = state->input;
    if (key == 'o')
        args->out = arg;
    else if (key == ARGP_KEY_ARG && args->in == NULL)
        args->in = arg;
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "one file, please");
    else if (key == ARGP_KEY_END && args->in == NULL)
        argp_error(state, "which file?");
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

static const struct argp_option options[] = {{"output", 'o', "FILE", 0, "Where to write", 0}, {0}};

static FILE *open_out(const char *path, const char *mode) {
    FILE *file = fopen(path, mode);
    if (file == NULL) fprintf(stderr, "vnpu: %s: %s\n", path, strerror(errno));
    return file;
}

int tool_asm(int argc, char **argv) {
    static const struct argp argp = {
        options, parse, "FILE", "Assembles a text kernel (docs/isa.md) and checks it.",
        NULL,    NULL,  NULL};
    asm_args_t args = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &args);
    sim_error_t err = {0};
    void *image = NULL;
    size_t bytes = 0;
    dev_program_t *program = NULL;
    sim_status_t status = tool_read_program(args.in, &image, &bytes, &err);
    if (status == SIM_OK) status = dev_program_load(image, bytes, NULL, &program, &err);
    if (status != SIM_OK) {
        free(image);
        return tool_fail(&err);
    }
    printf("%s: %u instructions, %u access patterns, %u semaphores, %u bytes of SRAM, %u of ACC, "
           "image of %zu bytes\n",
           program->header.name, program->header.num_insns, program->header.num_aps,
           program->header.num_sems, program->header.sram_bytes, program->header.acc_bytes, bytes);
    FILE *file = args.out == NULL ? NULL : open_out(args.out, "wb");
    int failed = args.out != NULL && (file == NULL || fwrite(image, 1, bytes, file) != bytes);
    if (file != NULL && fclose(file) != 0) failed = 1;
    dev_program_destroy(program);
    free(image);
    return failed;
}

int tool_dis(int argc, char **argv) {
    static const struct argp argp = {
        options, parse, "FILE", "Prints a program image as assembler text.", NULL, NULL, NULL};
    asm_args_t args = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &args);
    sim_error_t err = {0};
    void *image = NULL;
    size_t bytes = 0;
    dev_program_t *program = NULL;
    sim_status_t status = tool_read_program(args.in, &image, &bytes, &err);
    if (status == SIM_OK) status = dev_program_load(image, bytes, NULL, &program, &err);
    free(image);
    if (status != SIM_OK) return tool_fail(&err);
    FILE *file = args.out == NULL ? stdout : open_out(args.out, "w");
    if (file != NULL) dev_asm_disassemble(program, file);
    dev_program_destroy(program);
    if (file == NULL) return 1;
    return file != stdout && fclose(file) != 0;
}
