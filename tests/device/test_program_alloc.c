/* Every allocation of loading, assembling and disassembling fails once: an error, nothing leaks. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev_asm.h"
#include "tests/sim/alloc_count.h"

static const char text[] =
    ".program p\n.arg x inout\n.sem go\n.sem stop\n.sram 4096\n.const TILE 8\n"
    ".ap far dram f32 arg=x dims=[TILE:1] loop0=+TILE clip=0:20:loop:0\n"
    ".ap near sram f32 dims=[TILE:1] rot=0:2:8 clip=0:20:loop:0\n"
    ".queue dma0\n loop 3\n dma_copy dst=near src0=far wait=stop signal=go\n endloop\n";

Test(program_alloc, assembling_survives_each_failing_allocation) {
    sim_error_t err = {0};
    void *image;
    size_t bytes;
    alloc_count_reset();
    cr_assert_eq(dev_asm_assemble(text, "t.s", &image, &bytes, &err), SIM_OK, "%s", err.text);
    unsigned long total = alloc_count();
    free(image);
    cr_assert_eq(alloc_live(), 0);
    cr_assert_gt(total, 5);
    for (unsigned long n = 0; n < total; n++) {
        memset(&err, 0, sizeof err);
        alloc_count_reset();
        alloc_fail_from(n);
        cr_assert_eq(dev_asm_assemble(text, "t.s", &image, &bytes, &err), SIM_ERROR_OUT_OF_MEMORY,
                     "allocation %lu: %s", n, err.text);
        cr_assert_null(image);
        cr_assert_eq(alloc_live(), 0, "allocation %lu leaks", n);
        alloc_count_reset();
    }
}

Test(program_alloc, loading_survives_each_failing_allocation) {
    sim_error_t err = {0};
    void *image;
    size_t bytes;
    dev_program_t *program;
    cr_assert_eq(dev_asm_assemble(text, "t.s", &image, &bytes, &err), SIM_OK, "%s", err.text);
    alloc_count_reset();
    cr_assert_eq(dev_program_load(image, bytes, NULL, &program, &err), SIM_OK, "%s", err.text);
    unsigned long total = alloc_count();
    dev_program_destroy(program);
    cr_assert_eq(alloc_live(), 0);
    cr_assert_gt(total, 4);
    for (unsigned long n = 0; n < total; n++) {
        memset(&err, 0, sizeof err);
        alloc_count_reset();
        alloc_fail_from(n);
        cr_assert_eq(dev_program_load(image, bytes, NULL, &program, &err), SIM_ERROR_OUT_OF_MEMORY,
                     "allocation %lu: %s", n, err.text);
        cr_assert_null(program);
        cr_assert_eq(alloc_live(), 0, "allocation %lu leaks", n);
        alloc_count_reset();
    }
    free(image);
}

Test(program_alloc, an_unknown_name_is_an_error_even_without_memory_for_the_nearest) {
    sim_error_t err = {0};
    void *image;
    size_t bytes;
    static const char bad[] = ".program p\n.sem go\n.queue dma0\n nop wait=og\n";
    alloc_count_reset();
    cr_assert_eq(dev_asm_assemble(bad, "t.s", &image, &bytes, &err), SIM_ERROR_INVALID_VALUE);
    cr_assert_not_null(strstr(err.text, "the nearest is 'go'"), "%s", err.text);
    unsigned long total = alloc_count();
    memset(&err, 0, sizeof err);
    alloc_count_reset();
    alloc_fail_from(total - 1);
    cr_assert_eq(dev_asm_assemble(bad, "t.s", &image, &bytes, &err), SIM_ERROR_INVALID_VALUE);
    alloc_count_reset();
    cr_assert_not_null(strstr(err.text, "t.s:4: unknown semaphore 'og'"), "%s", err.text);
}
