/* Programs for tests, from their text. Failures end the test. */
#ifndef DEV_TEST_TEXT_H
#define DEV_TEST_TEXT_H

#include <criterion/criterion.h>

#include "device/dev_asm.h"

static inline void *dev_test_assemble(const char *text, size_t *out_bytes) {
    void *image;
    sim_error_t err = {0};
    cr_assert_eq(dev_asm_assemble(text, "test.s", &image, out_bytes, &err), SIM_OK, "%s", err.text);
    return image;
}

static inline dev_program_t *dev_test_load(const void *image, size_t bytes,
                                           const dev_machine_t *machine) {
    dev_program_t *program;
    sim_error_t err = {0};
    cr_assert_eq(dev_program_load(image, bytes, machine, &program, &err), SIM_OK, "%s", err.text);
    return program;
}

#endif
