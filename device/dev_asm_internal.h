/* Assembler state, and the parts that share it: words of a line (text), directives, instructions.
 */
#ifndef DEV_ASM_INTERNAL_H
#define DEV_ASM_INTERNAL_H

#define HASH_NONFATAL_OOM 1 /* an error, not exit(): a failed add leaves hh.tbl NULL */
#include <uthash.h>

#include "device/dev_asm.h"
#include "device/dev_isa_names.h"
#include "device/dev_program_internal.h"

#define DEV_ASM_WORDS 64u
#define DEV_MAX_NAME  64u

/* Names live in one table; the class is the first character of the key. */
typedef enum dev_asm_class {
    DEV_ASM_ARG = 'a',
    DEV_ASM_SEM = 's',
    DEV_ASM_AP = 'p',
    DEV_ASM_CONST = 'c',
} dev_asm_class_t;

typedef struct dev_asm_name {
    char key[DEV_MAX_NAME + 1]; /* class, then the name */
    int64_t value;              /* index in its table, or the constant */
    UT_hash_handle hh;
} dev_asm_name_t;

typedef struct dev_asm {
    const char *origin;
    uint32_t line;
    sim_error_t *err;
    char *words_buffer; /* room for the longest line */
    char *word[DEV_ASM_WORDS];
    uint32_t num_words;
    dev_asm_name_t *names;
    char name[sizeof((vnpu_program_header_t){0}).name];
    bool has_no_names, has_sram, has_acc;
    uint8_t arg_kind[VNPU_MAX_ARGS];
    char arg_name[VNPU_MAX_ARGS][DEV_MAX_NAME], sem_name[VNPU_MAX_SEMS][DEV_MAX_NAME];
    vnpu_queue_section_t queue[VNPU_MAX_QUEUES];
    vnpu_ap_t *ap;
    char (*ap_name)[DEV_MAX_NAME];
    vnpu_insn_t *insn;
    uint32_t num_args, num_sems, num_queues, num_aps, num_insns, max_aps, max_insns;
    uint32_t sram_bytes, acc_bytes;
} dev_asm_t;

/* "origin:line: reason"; returns the status SIM_ERROR_INVALID_VALUE. */
sim_status_t dev_asm_fail(dev_asm_t *as, const char *format, ...) SIM_PRINTF(2, 3);
/* An unknown word: names the nearest of `count` known ones (NULL entries are skipped). */
sim_status_t dev_asm_fail_unknown(dev_asm_t *as, const char *what, const char *word,
                                  const char *const *known, size_t count);

/* Splits [begin, end) into as->word, without its comment; [..] is one word, without blanks. */
sim_status_t dev_asm_split(dev_asm_t *as, const char *begin, const char *end) SIM_MUST_USE;
/* "key=value" -> value, and the key is cut off; NULL without '='. */
char *dev_asm_value(char *word);
/* Cuts text at the next `separator`; returns what follows, or NULL at the end. */
char *dev_asm_cut(char *text, char separator);

/* Integers: sums of products of decimal or 0x numbers (K, M suffix) and constants: "4*TILE+16". */
sim_status_t dev_asm_int(dev_asm_t *as, const char *text, int64_t low, int64_t high,
                         int64_t *out_value) SIM_MUST_USE;
sim_status_t dev_asm_u32(dev_asm_t *as, const char *text, uint32_t high,
                         uint32_t *out_value) SIM_MUST_USE;
/* Bits of an f32. */
sim_status_t dev_asm_float(dev_asm_t *as, const char *text, uint32_t *out_bits) SIM_MUST_USE;

sim_status_t dev_asm_define(dev_asm_t *as, dev_asm_class_t class, const char *name,
                            int64_t value) SIM_MUST_USE;
sim_status_t dev_asm_lookup(dev_asm_t *as, dev_asm_class_t class, const char *name,
                            int64_t *out_value) SIM_MUST_USE;
void dev_asm_free_names(dev_asm_t *as);

/* One line with a directive, or an instruction, already split. */
sim_status_t dev_asm_directive(dev_asm_t *as) SIM_MUST_USE;
sim_status_t dev_asm_insn(dev_asm_t *as) SIM_MUST_USE;

#endif
