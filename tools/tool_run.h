/* One program on one chip: what `vnpu run` was told, and what came out. */
#ifndef TOOL_RUN_H
#define TOOL_RUN_H

#include "device/vnpu_profile.h"
#include "tools/tool.h"

/* One argument of the program: "NAME=in:FILE", "NAME=zero:BYTES", "NAME=f32:VALUE" or
 * "NAME=i64:VALUE". */
typedef struct run_arg {
    char name[64];
    const char *file; /* NULL: none */
    uint64_t bytes;   /* of the buffer; 0: a scalar */
    uint64_t scalar;
    uint64_t address;
} run_arg_t;

typedef struct run_out {
    char name[64];
    const char *file;
} run_out_t;

typedef struct run_spec {
    const char *program, *config, *overrides;
    uint32_t grid[2];
    uint64_t core_mask;
    const char *core_class; /* name; NULL: that of the mask, or the first that can */
    run_arg_t arg[VNPU_MAX_ARGS];
    uint32_t num_args;
    run_out_t out[VNPU_MAX_ARGS];
    uint32_t num_outs;
    bool is_json, with_slices;
} run_spec_t;

/* Prints the profile blob of one launch: cycles, counters, a table of engines and causes (or JSON).
 */
void run_print(const run_spec_t *spec, const uint8_t *blob, uint64_t core_hz);

#endif
