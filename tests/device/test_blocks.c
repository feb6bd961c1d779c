/* Block floating point: patterns count blocks; programs with them are timed, not computed. */
#include <stdlib.h>
#include <string.h>

#include "device/dev_asm.h"
#include "tests/device/dev_test_exec.h"

Test(blocks, bytes_of_whole_blocks) {
    static const struct {
        uint64_t values, bfp8, bfp4, bf16;
    } CASES[] = {{0, 0, 0, 0},    {1, 17, 9, 2},    {15, 17, 9, 30},
                 {16, 17, 9, 32}, {17, 34, 18, 34}, {1024, 1088, 576, 2048}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        cr_assert_eq(vnpu_dtype_span(VNPU_BFP8, CASES[i].values), CASES[i].bfp8);
        cr_assert_eq(vnpu_dtype_span(VNPU_BFP4, CASES[i].values), CASES[i].bfp4);
        cr_assert_eq(vnpu_dtype_span(VNPU_BF16, CASES[i].values), CASES[i].bf16);
    }
    cr_assert_eq(vnpu_dtype_block(VNPU_BFP8), 16);
    cr_assert_eq(vnpu_dtype_block(VNPU_I8), 1);
}

static sim_status_t load(const char *text, dev_program_t **out_program, sim_error_t *err) {
    void *image;
    size_t bytes;
    sim_status_t status = dev_asm_assemble(text, "test", &image, &bytes, err);
    cr_assert_eq(status, SIM_OK, "%s", err->text);
    dev_machine_t machine = test_machine(1);
    status = dev_program_load(image, bytes, &machine, out_program, err);
    free(image);
    return status;
}

#define HEAD ".program blocks\n.sram 65536\n.acc 65536\n.arg in in\n"
#define MM   ".queue matrix0\nmm dst=d src0=a src1=b\n"
#define D    ".ap d acc f32 base=0 dims=[32:48, 48:1]\n"

/* 32 x 64 by 64 x 48: a has 4 blocks a row, b 3. */
Test(blocks, an_operand_corresponds_value_by_value) {
    static const struct {
        const char *text, *want;
    } CASES[] = {
        {HEAD D
         ".ap a sram bfp8 base=3 dims=[32:4, 4:1]\n.ap b sram bfp8 base=3000 dims=[64:3, 3:1]\n" MM,
         NULL},
        {HEAD D
         ".ap a sram bfp4 base=0 dims=[32:4, 4:1]\n.ap b sram bfp4 base=3000 dims=[64:3, 3:1]\n" MM,
         NULL},
        {HEAD D ".ap a sram bfp8 base=0 dims=[32:64, 64:1]\n.ap b sram bfp8 base=40000 dims=[64:3, "
                "3:1]\n" MM,
         "src0 dimension 1 has size 1024, src1 dimension 0 has 64"},
        {HEAD D
         ".ap a sram bfp8 base=0 dims=[32:4, 4:1]\n.ap b sram bfp8 base=3000 dims=[64:2, 2:1]\n" MM,
         "dst dimension 1 has size 48, src1 dimension 1 has 32"},
        {HEAD D
         ".ap a sram bfp8 base=0 dims=[32:4, 4:1]\n.ap b sram bfp4 base=3000 dims=[64:3, 3:1]\n" MM,
         "not bfp8 by bfp4"},
        {HEAD ".ap x acc f32 base=0 dims=[4:48, 48:1]\n.ap y sram bfp8 base=0 dims=[4:3, 3:1]\n"
              ".queue vector0\nv_unary.copy dst=y src0=x\n",
         NULL},
        /* 16 blocks of 17 bytes end at 272 */
        {".program end\n.sram 272\n.arg in in\n.ap x dram bfp8 arg=in base=0 dims=[16:1]\n"
         ".ap y sram bfp8 base=0 dims=[16:1]\n.queue dma0\ndma_copy dst=y src0=x\n",
         NULL},
        {".program end\n.sram 271\n.arg in in\n.ap x dram bfp8 arg=in base=0 dims=[16:1]\n"
         ".ap y sram bfp8 base=0 dims=[16:1]\n.queue dma0\ndma_copy dst=y src0=x\n",
         "bytes 0 to 272 of sram, the program has 271"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        sim_error_t err = {0};
        dev_program_t *program = NULL;
        sim_status_t status = load(CASES[i].text, &program, &err);
        if (CASES[i].want == NULL) {
            cr_assert_eq(status, SIM_OK, "%zu: %s", i, err.text);
            dev_program_destroy(program);
        } else {
            cr_assert_neq(status, SIM_OK, "%zu", i);
            cr_assert(strstr(err.text, CASES[i].want), "%zu: %s", i, err.text);
        }
    }
}

/* Clips count blocks too: three tiles of 2 blocks over 5, and of 32 values over 80. */
Test(blocks, clips_correspond) {
    static const char *const TEXT =
        HEAD ".ap x acc f32 base=0 dims=[32:1] clip=0:80:loop:0\n"
             ".ap y sram bfp8 base=0 dims=[2:1] clip=0:%d:loop:0\n"
             ".queue vector0\nloop 3\nv_unary.copy dst=y src0=x\nendloop\n";
    for (int extent = 4; extent <= 6; extent++) {
        char text[512];
        sim_error_t err = {0};
        dev_program_t *program = NULL;
        snprintf(text, sizeof text, TEXT, extent);
        sim_status_t status = load(text, &program, &err);
        cr_assert_eq(status == SIM_OK, extent == 5, "%d: %s", extent, err.text);
        if (status == SIM_OK)
            dev_program_destroy(program);
        else
            cr_assert(strstr(err.text, "clipped differently"), "%s", err.text);
    }
}

Test(blocks, values_are_refused_by_name) {
    static const dev_exec_mode_t MODES[] = {DEV_EXEC_VALUES, DEV_EXEC_CHAOS, DEV_EXEC_TIMING};
    for (size_t i = 0; i < 3; i++) {
        exec_env_t env;
        env_open(&env, 1, (dev_exec_options_t){.mode = MODES[i], .threads = 1});
        sim_error_t err = {0};
        dev_program_t *program = NULL;
        cr_assert_eq(load(HEAD D ".ap a sram bfp8 base=0 dims=[32:4, 4:1]\n"
                                 ".ap b sram bfp8 base=3000 dims=[64:3, 3:1]\n" MM,
                          &program, &err),
                     SIM_OK, "%s", err.text);
        dev_launch_t launch = {.program = program, .grid = {1, 1}, .core_mask = {1}};
        launch.arg[0] = env_alloc(&env, 64);
        sim_status_t status = dev_exec_run(env.exec, TEST_OWNER, &launch, &err);
        if (MODES[i] == DEV_EXEC_TIMING) {
            cr_assert_eq(status, SIM_OK, "%s", err.text);
        } else {
            cr_assert_eq(status, SIM_ERROR_UNSUPPORTED);
            cr_assert(strstr(err.text, "bfp8, which is timed, not computed: VNPU_MODE=timing"),
                      "%s", err.text);
        }
        dev_program_destroy(program);
        env_close(&env);
    }
}
