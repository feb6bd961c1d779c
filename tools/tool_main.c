/* vnpu: the command line of the virtual NPU. */
#include "tools/tool.h"

#include <string.h>

typedef struct tool_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *text;
} tool_command_t;

static const tool_command_t commands[] = {
    {"info", tool_info,
     "the chip that a configuration describes: peaks, memories, engines, warnings"},
    {"config", tool_config, "explain keys, check a file, show the effective configuration"},
    {"asm", tool_asm, "assemble a text kernel into a program image"},
    {"dis", tool_dis, "disassemble a program image"},
    {"run", tool_run,
     "run one program on a chip, with memory images in and out; prints cycles and causes"},
    {"profile", tool_profile, "run a PyTorch script and write the report"},
};
#define NUM_COMMANDS (sizeof commands / sizeof commands[0])

static int usage(FILE *stream) {
    fprintf(stream, "usage: vnpu COMMAND [ARGS]\n\n");
    for (size_t i = 0; i < NUM_COMMANDS; i++)
        fprintf(stream, "  %-8s %s\n", commands[i].name, commands[i].text);
    fprintf(stream, "\n\"vnpu COMMAND --help\" tells the options of one.\n");
    return stream == stdout ? 0 : 2;
}

int main(int argc, char **argv) {
    if (argc < 2) return usage(stderr);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return usage(stdout);
    if (strcmp(argv[1], "--version") == 0) {
        printf("vnpu 0.1.0\n");
        return 0;
    }
    for (size_t i = 0; i < NUM_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) != 0) continue;
        return commands[i].run(argc - 1, argv + 1);
    }
    fprintf(stderr, "vnpu: unknown command \"%s\"\n", argv[1]);
    return usage(stderr);
}
