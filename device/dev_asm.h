/*
 * Text form of programs. docs/isa.md has the grammar. Assembling checks the text: syntax, names,
 * ranges of fields; the rules of the instruction set are checked by dev_program_load, whose
 * messages carry the source line. Disassembling a loaded program gives text that assembles to the
 * identical image.
 */
#ifndef DEV_ASM_H
#define DEV_ASM_H

#include <stdio.h>

#include "device/dev_program.h"

/*
 * text: a NUL-terminated source; origin: its name in messages ("gemm.s"). *out_image: malloc'ed,
 * the caller frees it. Error: SIM_ERROR_INVALID_VALUE with "origin:line: reason", and the nearest
 * known word for one that is unknown.
 */
sim_status_t dev_asm_assemble(const char *text, const char *origin, void **out_image,
                              size_t *out_bytes, sim_error_t *err) SIM_MUST_USE;

void dev_asm_disassemble(const dev_program_t *program, FILE *file);

#endif
