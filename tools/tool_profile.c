/* vnpu profile SCRIPT [ARGS]: the Python side does the work (torch_vnpu.run_script). */
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int tool_profile(int argc, char **argv) {
    const char *python = getenv("VNPU_PYTHON");
    if (python == NULL) python = "python3";
    char **args = calloc((size_t)argc + 3, sizeof *args);
    if (args == NULL) return 1;
    char module[] = "torch_vnpu.run_script", dash_m[] = "-m";
    args[0] = strdup(python);
    args[1] = dash_m;
    args[2] = module;
    for (int i = 1; i < argc; i++)
        args[i + 2] = argv[i];
    /* torch's OpenMP workers would spin beside the device process otherwise. */
    setenv("OMP_WAIT_POLICY", "passive", 0);
    execvp(args[0], args);
    fprintf(stderr,
            "vnpu: cannot run %s: %s (VNPU_PYTHON names the interpreter that has torch_vnpu)\n",
            python, strerror(errno));
    free(args[0]);
    free(args);
    return 1;
}
