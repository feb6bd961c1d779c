/* The vnpu command: one function per subcommand, each with its own argp parser. Returns the exit
 * status. */
#ifndef TOOL_H
#define TOOL_H

#include <stdint.h>
#include <stdio.h>

#include "device/dev_chip.h"

int tool_info(int argc, char **argv);
int tool_config(int argc, char **argv);
int tool_asm(int argc, char **argv);
int tool_dis(int argc, char **argv);
int tool_run(int argc, char **argv);
int tool_profile(int argc, char **argv);

/* Prints "vnpu: text" for an error and returns 1. */
int tool_fail(const sim_error_t *err);
/* Whole file, malloc'ed, NUL-terminated beyond its bytes; NULL with a message on failure. */
void *tool_read_file(const char *path, size_t *out_bytes);
/* A program from a file: an image, or assembler text (assembled). malloc'ed image. */
sim_status_t tool_read_program(const char *path, void **out_image, size_t *out_bytes,
                               sim_error_t *err);
/* The configuration as the options say, else as VNPU_CONFIG and VNPU_OPTIONS say, else default.ini.
 */
sim_status_t tool_load_config(const char *name_or_path, const char *overrides,
                              sim_config_t **out_config, sim_error_t *err);

#endif
