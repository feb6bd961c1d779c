#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev_image.h"
#include "tests/device/dev_test_random.h"
#include "tests/device/dev_test_text.h"

static const dev_machine_t machine = {.num_classes = 1,
                                      .cls = {{.dma_queues = 2,
                                               .sram_bytes = 65536,
                                               .acc_bytes = 8192,
                                               .has_matrix = true,
                                               .matrix_rate = {[VNPU_F32] = {1, 4}}}}};

/* Patterns and names that the cases below draw from. */
static const char prefix[] =
    ".program p\n"
    ".arg in in\n.arg out out\n.arg both inout\n.arg s scalar\n"
    ".sem a\n.sem b\n"
    ".sram 64K\n.acc 8K\n"
    ".ap far dram f32 arg=both dims=[4:100, 32:1]\n"
    ".ap far_in dram f32 arg=in dims=[4:100, 32:1]\n"
    ".ap far_out dram f32 arg=out dims=[4:100, 32:1]\n"
    ".ap far_clip dram f32 arg=both dims=[4:100, 32:1] clip=0:9:loop:0\n"
    ".ap far_clip2 dram f32 arg=both dims=[4:100, 32:1] clip=0:10:loop:0\n"
    ".ap table dram f32 arg=both dims=[9:100, 32:1]\n"
    ".ap table1 dram f32 arg=both dims=[9:100]\n"
    ".ap table_clip dram f32 arg=both dims=[9:100, 32:1] clip=0:9:loop:0\n"
    ".ap near sram f32 dims=[4:32, 32:1]\n"
    ".ap near_clip sram f32 dims=[4:32, 32:1] clip=0:9:loop:0\n"
    ".ap near33 sram f32 dims=[4:33, 33:1]\n"
    ".ap flat sram f32 dims=[128:1]\n"
    ".ap near_zero sram f32 dims=[4:0, 32:1]\n"
    ".ap index sram i32 dims=[4:1] base=4096\n"
    ".ap index3 sram i32 dims=[3:1] base=4096\n"
    ".ap index2d sram i32 dims=[4:1, 1:1] base=4096\n"
    ".ap findex sram f32 dims=[4:1] base=4096\n"
    ".ap weights sram f32 dims=[32:16, 16:1] base=8192\n"
    ".ap weights3 sram f32 dims=[1:0, 32:16, 16:1] base=8192\n"
    ".ap weights8 sram i8 dims=[32:16, 16:1] base=8192\n"
    ".ap near8 sram u8 dims=[4:32, 32:1]\n"
    ".ap near_bf sram bf16 dims=[4:32, 32:1]\n"
    ".ap weights_bf sram bf16 dims=[32:16, 16:1] base=8192\n"
    ".ap sums acc f32 dims=[4:16, 16:1]\n"
    ".ap sums_i acc i32 dims=[4:16, 16:1]\n"
    ".ap sums_clip acc f32 dims=[4:16, 16:1] clip=0:9:loop:0\n"
    ".ap sums5 acc f32 dims=[5:16, 16:1]\n"
    ".ap longs sram i64 dims=[4:32, 32:1] base=16384\n"
    ".ap rows sram f32 dims=[4:1] base=1024\n"
    ".ap rows_l sram i64 dims=[4:1] base=1024\n"
    ".ap rows5 sram f32 dims=[5:1] base=1024\n"
    ".ap part sram f32 dims=[4:16, 16:1] base=2048\n"
    ".ap part_bf sram bf16 dims=[4:16, 16:1] base=2048\n"
    ".ap part8 sram f32 dims=[4:8, 8:1] base=2048\n"
    ".ap one sram f32 dims=[1:1]\n"
    ".ap scalar arg f32 base=24 dims=[4:0, 32:0]\n"
    ".ap pointer arg f32 base=16 dims=[4:0, 32:0]\n"
    ".ap past_args arg f32 base=32 dims=[4:0, 32:0]\n"
    ".ap count iota i64 dims=[4:32, 32:1]\n"
    ".ap moving sram f32 dims=[4:32, 32:1] loop0=+128\n"
    ".ap moving1 sram f32 dims=[4:32, 32:1] loop1=+128\n"
    ".ap turning sram f32 dims=[4:32, 32:1] rot=0:3:8192\n"
    ".ap turning2 sram f32 dims=[4:32, 32:1] rot=0-1:3:4096\n"
    ".ap turning3 sram f32 dims=[4:32, 32:1] rot=0-1:3:8192\n"
    ".ap below sram f32 dims=[4:32, 32:-1] base=120\n"
    ".ap beyond sram f32 dims=[4:32, 32:1] base=65536-508\n"
    ".ap acc_beyond acc f32 dims=[4:16, 16:1] base=8192-252\n"
    ".ap wide sram f32 dims=[4:32, 32:1] loop0=2147483647 loop1=2147483647\n";

static sim_status_t try_text(const char *body, const dev_machine_t *on, sim_error_t *err) {
    char *text = malloc(sizeof prefix + strlen(body));
    strcpy(text, prefix);
    strcat(text, body);
    size_t bytes;
    void *image = dev_test_assemble(text, &bytes);
    dev_program_t *program;
    sim_status_t status = dev_program_load(image, bytes, on, &program, err);
    cr_assert_eq(program == NULL, status != SIM_OK);
    dev_program_destroy(program);
    free(image);
    free(text);
    return status;
}

typedef struct text_case {
    const char *body, *want; /* want NULL: accepted */
} text_case_t;

static void check_text_cases(const text_case_t *rows, size_t count, sim_status_t want) {
    for (size_t i = 0; i < count; i++) {
        sim_error_t err = {0};
        sim_status_t status = try_text(rows[i].body, &machine, &err);
        if (rows[i].want == NULL) {
            cr_assert_eq(status, SIM_OK, "%s\n  gave: %s", rows[i].body, err.text);
            continue;
        }
        cr_assert_eq(status, want, "%s\n  gave status %d: %s", rows[i].body, (int)status, err.text);
        cr_assert_not_null(strstr(err.text, rows[i].want), "%s\n  gave: %s\n  want: %s",
                           rows[i].body, err.text, rows[i].want);
        cr_assert_not_null(strstr(err.text, "(offset 0x"), "%s", err.text);
    }
}

#define CHECK_INVALID(rows)                                                                        \
    check_text_cases(rows, sizeof(rows) / sizeof(rows)[0], SIM_ERROR_INVALID_IMAGE)
#define D ".queue dma0\n"
#define X ".queue matrix0\n"
#define V ".queue vector0\n"

Test(validator, control_and_queues) {
    static const text_case_t rows[] = {
        {D "loop 2\n nop\n endloop\n loop 3\n sync\n endloop", NULL},
        {D "loop 1\n loop 1\n loop 1\n loop 1\n nop\n endloop\n endloop\n endloop\n endloop", NULL},
        {".queue ctrl0\n trap 3\n mark 4\n fence\n nop\n sync", NULL},
        {D "loop 0\n nop\n endloop", "loop: 0 trips"},
        {D "loop 2\n endloop", "endloop: the loop has no instructions"},
        {D "loop 65536\n loop 65536\n loop 256\n nop\n endloop\n endloop\n endloop", NULL},
        {D "loop 65536\n loop 65536\n loop 257\n nop\n endloop\n endloop\n endloop",
         "loop: more than 2^40 iterations of the innermost loop"},
        {D "nop\n endloop", "queue dma0 insn 1 (offset 0x"},
        {D "nop\n endloop", "endloop: no loop is open"},
        {D "loop 2\n nop", "queue dma0 insn 0"},
        {D "loop 2\n nop", "loop: is never closed"},
        {D "loop 1\n loop 1\n loop 1\n loop 1\n loop 1\n nop", "loop: nested deeper than 4 levels"},
        {D "loop 2 wait=a\n nop\n endloop", "loop: takes no wait, signal or loop mask"},
        {D "loop 2\n nop\n endloop signal=a", "endloop: takes no wait, signal or loop mask"},
        {D "loop 2\n loop 2 first=0\n nop", "loop: takes no wait, signal or loop mask"},
        {D "nop first=0", "mask first (0x01) names a loop level that is not open: 0 are"},
        {D "loop 2\n nop last=1", "mask last (0x02) names a loop level that is not open: 1 are"},
        {D "loop 2\n nop notfirst=0\n endloop", "nop: mask notfirst, but nothing here accumulates"},
        {D "nop imm0=1", "nop: imm[0] must be 0"},
        {D "mark 1 imm1=1", "mark: imm[1] must be 0"},
        {D "mm dst=sums src0=near src1=weights", "mm: does not run on a dma queue"},
        {V "dma_copy dst=near src0=far", "dma_copy: does not run on a vector queue"},
        {X "v_unary.exp dst=near src0=near", "v_unary: does not run on a matrix queue"},
        {".queue ctrl0\n dma_copy dst=near src0=far", "dma_copy: does not run on a ctrl queue"},
        {D "nop dst=near", "nop: there is no dst here"},
        {D "dma_copy dst=near", "dma_copy: src0 is missing"},
        {D "dma_copy src0=near", "dma_copy: dst is missing"},
        {D "dma_copy dst=near src0=far src1=far", "dma_copy: there is no src1 here"},
        {D "dma_copy dst=near src0=far keep", "dma_copy: flag keep (bit 1) does not exist here"},
    };
    CHECK_INVALID(rows);
}

Test(validator, semaphores) {
    static const text_case_t rows[] = {
        {D "nop wait=a wait=b signal=a signal=b-3", NULL},
        {D "nop wait=a hold", NULL},
        {D "nop wait=a\n" V "nop signal=a\n nop wait=b", NULL},
        {D "nop wait=a\n" V "nop\n nop wait=a", "queue vector0 insn 1"},
        {D "nop wait=a\n" V "nop wait=a", "semaphore 0 is waited for by queue dma0 already"},
        {D "nop wait=a>=0", "wait 0: waits for >= 0"},
        {D "nop wait=a wait=a", "waits twice for semaphore 0"},
        {D "nop signal=a+0", "signal 0: adds 0"},
        {D "nop hold", "flag hold without a wait"},
    };
    CHECK_INVALID(rows);
}

Test(validator, dma) {
    static const text_case_t rows[] = {
        {D "dma_copy dst=near src0=far\n dma_copy dst=far src0=near acc", NULL},
        {D "dma_copy dst=near8 src0=near_bf\n dma_transpose dst=far src0=near", NULL},
        {D "dma_fill dst=near value=1\n dma_fill dst=longs value=-1\n dma_fill dst=far value=0",
         NULL},
        {D "dma_gather.skip dst=near src0=table src1=index rows=9 wrap", NULL},
        {D "dma_scatter dst=table src0=near src1=index rows=9 acc", NULL},
        {D "loop 3\n dma_copy dst=near_clip src0=far_clip\n endloop", NULL},
        {D "dma_copy dst=far src0=far_in", "dma_copy: DRAM to DRAM"},
        {D "dma_copy dst=sums src0=sums", "dma_copy: dst: cannot be in acc"},
        {D "dma_copy dst=near src0=sums", "dma_copy: src0: cannot be in acc"},
        {D "dma_copy dst=sums src0=near", "dma_copy: dst: cannot be in acc"},
        {D "dma_transpose dst=far src0=sums", "dma_transpose: src0: cannot be in acc"},
        {D "dma_copy dst=near src0=count", "dma_copy: src0: cannot be in iota"},
        {D "dma_copy dst=near src0=scalar", "dma_copy: src0: cannot be in arg"},
        {D "dma_copy dst=near33 src0=far", "dst dimension 1 has size 33, src0 dimension 1 has 32"},
        {D "dma_copy dst=flat src0=far", "src0 has 2 dimensions, 1 are needed"},
        {D "loop 3\n dma_copy dst=near src0=far_clip\n endloop",
         "dst dimension 0 and src0 dimension 0 are clipped differently"},
        {D "loop 3\n dma_copy dst=near_clip src0=far_clip2\n endloop", "are clipped differently"},
        {D "dma_copy dst=far_in src0=near", "dst: writes argument 0, declared in"},
        {D "dma_copy dst=near src0=far_out", "src0: reads argument 1, declared out"},
        {D "dma_copy dst=far_out src0=near acc", "dst: reads argument 1, declared out"},
        {D "dma_copy dst=near_zero src0=far", "dst: stride 0 on dimension 0 writes one place many"},
        {D "dma_fill dst=near imm1=1", "the value of a float is imm[0] alone"},
        {D "dma_fill dst=sums value=1", "dma_fill: dst: cannot be in acc"},
        {D "dma_gather dst=near src0=near src1=index rows=4", "src0: cannot be in sram"},
        {D "dma_gather dst=far src0=table src1=index rows=9", "dst: cannot be in dram"},
        {D "dma_gather dst=near src0=table src1=far rows=9", "src1: cannot be in dram"},
        {D "dma_gather dst=near src0=table src1=findex rows=9",
         "src1: indices are i32 or i64, not f32"},
        {D "dma_gather dst=near src0=table1 src1=index rows=9",
         "src0: a table has 2 dimensions or more"},
        {D "dma_gather dst=near src0=table src1=index rows=8",
         "imm[0] says 8 rows, the table has 9"},
        {D "dma_gather dst=near src0=table src1=index2d rows=9",
         "src1 has 2 dimensions, 1 are needed"},
        {D "dma_gather dst=near src0=table src1=index3 rows=9",
         "dst dimension 0 has size 4, src1 dimension 0 has 3"},
        {D "dma_gather dst=near33 src0=table src1=index rows=9",
         "dst dimension 1 has size 33, src0 dimension 1 has 32"},
        {D "dma_gather dst=flat src0=table src1=index rows=9",
         "dst has 1 dimensions, 2 are needed"},
        {D "loop 2\n dma_gather dst=near src0=table_clip src1=index rows=9\n endloop",
         "src0 dimension 0 must have size 9 and no clip"},
        {D "dma_scatter dst=near src0=near src1=index rows=4", "dst: cannot be in sram"},
        {D "dma_scatter dst=table src0=far src1=index rows=9", "src0: cannot be in dram"},
        {D "dma_gather dst=near src0=table src1=index rows=9 acc",
         "flag acc (bit 0) does not exist"},
    };
    CHECK_INVALID(rows);
}

Test(validator, matrix) {
    static const text_case_t rows[] = {
        {X "mm dst=sums src0=near src1=weights\n mm dst=sums src0=near src1=weights keep", NULL},
        {X "loop 3\n mm dst=sums_clip src0=near_clip src1=weights notfirst=0\n endloop", NULL},
        {X "mm dst=near src0=near src1=weights", "mm: dst: cannot be in sram"},
        {X "mm dst=sums src0=far src1=weights", "mm: src0: cannot be in dram"},
        {X "mm dst=sums src0=near src1=sums", "mm: src1: cannot be in acc"},
        {X "mm dst=sums src0=near src1=weights3", "dst has 2 dimensions, 3 are needed"},
        {X "mm dst=sums src0=flat src1=weights",
         "src0 has 1 dimensions, 1 of k and 1 or more of m"},
        {X "mm dst=sums src0=near33 src1=weights",
         "src0 dimension 1 has size 33, src1 dimension 0 has 32"},
        {X "mm dst=sums src0=near src1=near",
         "src0 dimension 1 has size 32, src1 dimension 0 has 4"},
        {X "mm dst=sums5 src0=near src1=weights",
         "dst dimension 0 has size 5, src0 dimension 0 has 4"},
        {X "loop 3\n mm dst=sums src0=near_clip src1=weights\n endloop", "are clipped differently"},
        {X "mm dst=sums src0=near src1=weights8", "multiplies two operands of one float type"},
        {X "mm dst=sums_i src0=near src1=weights", "dst: the result of f32 by f32 is f32, not i32"},
        {X "mm dst=sums src0=near8 src1=weights8", "dst: the result of u8 by i8 is i32, not f32"},
        {X "mm dst=sums src0=near src1=weights keep",
         "keep: no earlier mm of this queue has loaded"},
        {X "mm dst=sums src0=near src1=weights acc", NULL},
        {X "loop 2\n mm dst=sums src0=near src1=weights acc notfirst=0\n endloop",
         "mask notfirst and flag acc exclude each other"},
    };
    CHECK_INVALID(rows);
}

Test(validator, vector) {
    static const text_case_t rows[] = {
        {V "v_unary.exp dst=near src0=near src3=rows\n v_unary.copy dst=longs src0=count int",
         NULL},
        {V "v_unary.exp dst=near src0=scalar scale=2:1 src3=part partial", NULL},
        {V "v_binary.add.mul dst=near src0=near src1=count src2=scalar reverse2", NULL},
        {V "v_select dst=near src0=near8 src1=near src2=scalar", NULL},
        {V "v_reduce.max.abs dst=rows src0=near\n v_reduce.add dst=part src0=near partial", NULL},
        {V "v_reduce.add dst=one src0=flat\n v_fold.add dst=rows src0=part", NULL},
        {V "v_unary.neg dst=longs src0=longs int src3=rows_l", NULL},
        {V "v_unary.exp dst=far src0=near", "v_unary: dst: cannot be in dram"},
        {V "v_unary.exp dst=near src0=far", "v_unary: src0: cannot be in dram"},
        {V "v_unary.exp dst=scalar src0=near", "v_unary: dst: cannot be in arg"},
        {V "v_unary.exp dst=count src0=near", "v_unary: dst: cannot be in iota"},
        {V "v_unary.exp dst=near src0=near33",
         "dst dimension 1 has size 32, src0 dimension 1 has 33"},
        {V "v_unary.exp dst=near_zero src0=near", "dst: stride 0 on dimension 0"},
        {V "v_unary.exp dst=near src0=near imm0=1", "immediates without flag scale"},
        {V "v_unary.exp dst=longs src0=longs int", "exp does not exist with flag int"},
        {V "v_unary.neg dst=longs src0=longs int scale=1:0", "scale does not exist with flag int"},
        {V "v_unary.bitnot dst=near src0=near", "bitnot needs flag int"},
        {V "v_unary.exp dst=near src0=near partial", "flag partial without row sums (src3)"},
        {V "v_unary.exp dst=near src0=near src3=rows5",
         "dst dimension 0 has size 4, src3 dimension 0 has 5"},
        {V "v_unary.exp dst=near src0=near src3=rows_l",
         "src3: partial results and row sums are f32"},
        {V "v_unary.exp dst=near src0=near src3=part", "src3 has 2 dimensions, 1 are needed"},
        {V "v_unary.exp dst=near src0=near src3=part8 partial",
         "src3 dimension 1 must have size 16"},
        {V "v_unary.neg dst=longs src0=longs int src3=rows", "row sums are i64 or i32, not f32"},
        {V "loop 2\n v_unary.exp dst=near src0=near notfirst=0\n endloop",
         "nothing here accumulates"},
        {V "v_binary.add dst=near src0=near src1=near src2=near",
         "a second function and src2 come together"},
        {V "v_binary.add.mul dst=near src0=near src1=near",
         "a second function and src2 come together"},
        {V "v_binary.add dst=near src0=near src1=near reverse2", "reverse2 without func2"},
        {V "v_binary.xor dst=near src0=near src1=near", "xor needs flag int"},
        {V "v_binary.add.shl dst=near src0=near src1=near src2=near", "shl needs flag int"},
        {V "v_binary.atan2 dst=longs src0=longs src1=longs int",
         "atan2 does not exist with flag int"},
        {V "v_binary.add dst=near src0=near src1=near33", "src1 dimension 1 has 33"},
        {V "v_select dst=near src0=near src1=near", "v_select: src2 is missing"},
        {V "v_reduce.max dst=rows5 src0=near",
         "src0 dimension 0 has size 4, dst dimension 0 has 5"},
        {V "v_reduce.max dst=part src0=near", "dst has 2 dimensions, 1 are needed"},
        {V "v_reduce.max dst=rows src0=flat", "dst dimension 0 must have size 1 and no clip"},
        {V "v_reduce.max dst=part_bf src0=near partial",
         "dst: partial results and row sums are f32"},
        {V "v_fold.max dst=rows src0=near", "src0 dimension 1 must have size 16 and no clip"},
        {V "v_fold.max dst=rows src0=part_bf", "src0: partial results and row sums are f32"},
        {V "v_fold.max dst=rows src0=scalar", "v_fold: src0: cannot be in arg"},
    };
    CHECK_INVALID(rows);
}

Test(validator, bounds) {
    static const text_case_t rows[] = {
        {V "loop 125\n v_unary.exp dst=moving src0=near\n endloop", NULL},
        {V "loop 126\n v_unary.exp dst=moving src0=near first=0\n endloop", NULL},
        {V "loop 2\n v_unary.exp dst=turning src0=near\n endloop", NULL},
        {V "loop 1\n v_unary.exp dst=near src0=scalar\n endloop", NULL},
        {V "loop 126\n v_unary.exp dst=moving src0=near\n endloop", NULL},
        {V "loop 126\n v_unary.exp dst=moving src0=near last=0\n endloop", NULL},
        {V "loop 128\n v_unary.exp dst=moving src0=near\n endloop", NULL},
        {V "loop 129\n v_unary.exp dst=moving src0=near\n endloop",
         "dst: bytes 0 to 66048 of sram, the program has 65536"},
        {V "loop 129\n v_unary.exp dst=moving src0=near last=0\n endloop",
         "dst: bytes 65536 to 66048 of sram, the program has 65536"},
        {V "loop 3\n v_unary.exp dst=turning src0=near\n endloop",
         "dst: bytes 0 to 66048 of sram, the program has 65536"},
        {V "v_unary.exp dst=near src0=below", "src0: bytes -4 to 508 of sram"},
        {V "v_unary.exp dst=near src0=beyond", "src0: bytes 65028 to 65540 of sram"},
        {V "v_unary.exp dst=acc_beyond src0=part", "dst: bytes 7940 to 8196 of acc"},
        {V "v_unary.exp dst=near src0=past_args",
         "src0: bytes 32 to 36 of arg, the program has 32"},
        {V "v_unary.exp dst=near src0=pointer", "src0: reads argument 2, which is an address"},
        {V "v_unary.exp dst=moving src0=near",
         "dst: the pattern moves with loop level 0, 0 are open"},
        {V "loop 2\n v_unary.exp dst=moving1 src0=near\n endloop",
         "dst: the pattern moves with loop level 1, 1 are open here"},
        {V "v_unary.exp dst=turning src0=near", "moves with loop level 0"},
        {V "loop 2\n v_unary.exp dst=turning2 src0=near\n endloop", "moves with loop level 1"},
        {V "loop 5\n loop 5\n v_unary.exp dst=turning2 src0=near\n endloop\n endloop", NULL},
        {V "loop 5\n loop 5\n v_unary.exp dst=turning3 src0=near\n endloop\n endloop",
         "dst: bytes 0 to 66048 of sram, the program has 65536"},
        {D "dma_copy dst=near_clip src0=far_clip", "moves with loop level 0"},
        {V "loop 40000\n loop 40000\n v_unary.exp dst=wide src0=near\n endloop\n endloop",
         "dst: reaches more than 2^46 elements from its base"},
    };
    CHECK_INVALID(rows);
}

Test(validator, an_instruction_that_never_runs_has_no_bounds) {
    static const text_case_t rows[] = {
        {V "loop 200\n v_unary.exp dst=moving src0=near first=0 last=0\n endloop", NULL},
    };
    CHECK_INVALID(rows);
}

Test(validator, what_the_device_lacks_is_unsupported_by_name) {
    static const text_case_t rows[] = {
        {V "v_argred.max dst=rows_l src0=near", "v_argred: reserved opcode, not supported"},
        {V "v_random dst=near", "v_random: reserved opcode"},
        {V "v_scan.add dst=near src0=near", "v_scan: reserved opcode"},
        {D "remote dst=near src0=near", "remote: reserved opcode"},
        {X "mm dst=sums src0=near_bf src1=weights_bf",
         "mm: the matrix unit of this device lacks bf16"},
        {X "mm dst=sums_i src0=near8 src1=weights8", "mm: the matrix unit of this device lacks u8"},
    };
    check_text_cases(rows, sizeof rows / sizeof rows[0], SIM_ERROR_UNSUPPORTED);
    sim_error_t err = {0};
    cr_assert_eq(try_text(rows[4].body, NULL, &err), SIM_OK, "%s", err.text);
}

/* ---- patches of single fields ---- */

typedef enum part { HEADER, QUEUE, INSN, AP, STRINGS } part_t;

typedef struct patch {
    part_t part;
    uint32_t index;
    size_t field, size;
    int64_t value;
    const char *want; /* NULL: accepted */
} patch_t;

#define F(part, index, type, member, value, want)                                                  \
    { part, index, offsetof(type, member), sizeof((type){0}.member), value, want }
#define HDR(member, value, want)        F(HEADER, 0, vnpu_program_header_t, member, value, want)
#define QUE(index, member, value, want) F(QUEUE, index, vnpu_queue_section_t, member, value, want)
#define INS(index, member, value, want) F(INSN, index, vnpu_insn_t, member, value, want)
#define PAT(index, member, value, want) F(AP, index, vnpu_ap_t, member, value, want)

static size_t part_offset(const vnpu_program_header_t *header, part_t part, uint32_t index) {
    size_t queue = sizeof *header;
    size_t insn = queue + header->num_queues * sizeof(vnpu_queue_section_t);
    size_t ap = insn + header->num_insns * sizeof(vnpu_insn_t);
    switch (part) {
    case HEADER: return 0;
    case QUEUE: return queue + index * sizeof(vnpu_queue_section_t);
    case INSN: return insn + index * sizeof(vnpu_insn_t);
    case AP: return ap + index * sizeof(vnpu_ap_t);
    case STRINGS: return ap + header->num_aps * sizeof(vnpu_ap_t) + index;
    }
    return 0;
}

static const char small[] =
    ".program small\n"
    ".arg x inout\n.arg s scalar\n.sem go\n.sem stop\n.sram 4096\n.acc 64\n"
    ".ap far dram f32 arg=x dims=[8:1] loop0=+8 clip=0:20:loop:0\n"
    ".ap near sram f32 dims=[8:1] rot=0:2:8 clip=0:20:loop:0\n"
    ".ap sum acc f32 dims=[8:1]\n"
    ".queue dma0\n loop 3\n dma_copy dst=near src0=far wait=stop signal=go\n endloop\n"
    ".queue vector0\n loop 3\n v_unary.exp dst=sum src0=sum\n sync wait=go\n endloop\n";

static void check_patches(const patch_t *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t bytes;
        uint8_t *image = dev_test_assemble(small, &bytes);
        vnpu_program_header_t header;
        memcpy(&header, image, sizeof header);
        size_t at = part_offset(&header, rows[i].part, rows[i].index);
        memcpy(image + at + rows[i].field, &rows[i].value, rows[i].size);
        if (!(rows[i].part == HEADER && rows[i].field == offsetof(vnpu_program_header_t, crc32))) {
            dev_image_seal(image, bytes);
        }
        sim_error_t err = {0};
        dev_program_t *program;
        sim_status_t status = dev_program_load(image, bytes, &machine, &program, &err);
        if (rows[i].want == NULL) {
            cr_assert_eq(status, SIM_OK, "patch %zu: %s", i, err.text);
        } else {
            cr_assert_eq(status, SIM_ERROR_INVALID_IMAGE, "patch %zu (%s) was accepted", i,
                         rows[i].want);
            cr_assert_null(program);
            cr_assert_not_null(strstr(err.text, rows[i].want), "patch %zu\n  gave: %s\n  want: %s",
                               i, err.text, rows[i].want);
        }
        dev_program_destroy(program);
        free(image);
    }
}

#define CHECK_PATCHES(rows) check_patches(rows, sizeof(rows) / sizeof(rows)[0])

Test(validator, frame_and_header) {
    static const patch_t rows[] = {
        HDR(magic, 0x12345678, "offset 0x0: magic 0x12345678"),
        HDR(version, 2, "offset 0x4: version 2, this device reads version 1"),
        HDR(bytes, 128, "offset 0x8: header says 128 bytes"),
        HDR(crc32, 0, "offset 0xc: CRC 0x00000000"),
        HDR(num_queues, 3, "offset 0x10: the tables need"),
        HDR(num_insns, 6, "offset 0x10: the tables need"),
        HDR(num_aps, 0x7fffffff, "offset 0x10: the tables need"),
        HDR(num_args, 33, "small: offset 0x12: 33 arguments, at most 32"),
        HDR(num_sems, 65, "small: offset 0x14: 65 semaphores, at most 64"),
        HDR(reserved0, 1, "small: offset 0x16: reserved field is not zero"),
        HDR(sram_bytes, 65537, "small: offset 0x20: needs 65537 bytes of SRAM, a core has 65536"),
        HDR(acc_bytes, 8193,
            "small: offset 0x24: needs 8193 bytes of accumulator, a core has 8192"),
        HDR(sram_bytes, 65536, NULL),
        HDR(sram_bytes, 63, "dst: bytes 0 to 64 of sram, the program has 63"),
        HDR(arg_kind[0], 4, "small: offset 0x2c: kind 4 of argument 0"),
        HDR(arg_kind[2], 1, "small: offset 0x2e: kind 1 of argument 2"),
        HDR(name[0], 0, "the program's name must be"),
        HDR(name[1], ' ', "the program's name must be"),
        HDR(name[1], ';', "the program's name must be"),
        HDR(name[40], 'x', "the program's name must be"),
        HDR(name[2], '.', NULL),
    };
    CHECK_PATCHES(rows);
}

Test(validator, sections_and_strings) {
    static const patch_t rows[] = {
        QUE(0, kind, 4, "small: offset 0x80: queue kind 4"),
        QUE(0, reserved, 1, "small: offset 0x80: queue kind 1, or a reserved field"),
        QUE(1, reserved1, 1, "small: offset 0x90: queue kind 3, or a reserved field"),
        QUE(0, index, 1, NULL),
        QUE(0, index, 2, "queue dma2: a core has 2 of that kind"),
        QUE(1, index, 1, "queue vector1: a core has 1 of that kind"),
        QUE(1, kind, VNPU_QUEUE_DMA, "small: offset 0x90: queue dma0 has two sections"),
        QUE(1, first, 2, "queue vector0: instructions 2 + 4; sections follow each other"),
        QUE(0, count, 8, "queue dma0: instructions 0 + 8"),
        QUE(1, count, 3, "small: offset 0x18: 7 instructions, the queues hold 6"),
        {STRINGS, 0, 0, 1, 'y', NULL},
        {STRINGS, 0, 0, 1, '1', "name of argument 0 is not an identifier"},
        {STRINGS, 1, 0, 1, 'z', "name of pattern 2 is not an identifier"},
        {STRINGS, 0, 0, 1, 0, "name of argument 0 is not an identifier"},
        {STRINGS, 0, 0, 1, 's', "two arguments have the name s"},
    };
    CHECK_PATCHES(rows);
}

Test(validator, encoding_of_instructions) {
    static const patch_t rows[] = {
        INS(1, op, 0x0f,
            "small: queue dma0 insn 1 (offset 0xe0, line 13): opcode 0x0f does not exist"),
        INS(1, remote_core, 1, "to 0x0001: a place has bit 15 set and bit 14 clear"),
        INS(1, remote_core, 0xc000, "to 0xc000: a place has bit 15 set and bit 14 clear"),
        INS(1, only, 1, "only 0x0001, to 0x0000: a place has bit 15 set and bit 14 clear"),
        INS(1, only, VNPU_PLACE(0, VNPU_PLACE_ANY), NULL),
        INS(1, multicast, 4, "dma_copy: multicast 4 does not exist"),
        INS(1, reserved1, 1, "dma_copy: a reserved field is not zero"),
        INS(1, func, 1, "dma_copy: func 1: there is none here"),
        INS(1, func2, 1, "dma_copy: func2 1: there is none here"),
        INS(1, flags, 0x400, "dma_copy: flag ? (bit 10) does not exist here"),
        INS(1, first_only, 0x10, "mask first (0x10)"),
        INS(1, wait[0].sem, 2, "dma_copy: wait 0: semaphore 2 of 2"),
        INS(1, wait[1].value, 1, "wait 1: a value but no semaphore"),
        INS(1, signal[0].sem, 2, "signal 0: semaphore 2 of 2"),
        INS(1, signal[1].delta, 1, "signal 1: a delta, no semaphore"),
        INS(1, dst, 3, "dma_copy: dst: pattern 3 of 3"),
        INS(1, line, 0, NULL),
        INS(4, func, VNPU_U_COUNT,
            "small: queue vector0 insn 1 (offset 0x1a0, line 17): v_unary: func 33"),
    };
    CHECK_PATCHES(rows);
}

Test(validator, encoding_of_patterns) {
    static const patch_t rows[] = {
        PAT(0, space, 0, "small: pattern 0 far (offset 0x260): space 0 does not exist"),
        PAT(0, space, VNPU_SPACE_COUNT, "space 6 does not exist"),
        PAT(0, dtype, 0, "dtype 0 does not exist"),
        PAT(0, dtype, VNPU_DTYPE_COUNT, "dtype 14 does not exist"),
        PAT(0, ndims, 0, "0 dimensions, 1 to 5 are possible"),
        PAT(0, ndims, 6, "6 dimensions, 1 to 5 are possible"),
        PAT(0, arg, 2, "a DRAM pattern needs an argument: 2 of 2"),
        PAT(0, arg, VNPU_NO_ARG, "a DRAM pattern needs an argument"),
        PAT(0, arg, 1, "argument 1 is a scalar, not an address"),
        PAT(1, arg, 0, "argument 0 in space sram"),
        PAT(2, dtype, VNPU_U8, NULL),
        PAT(1, space, VNPU_SPACE_IOTA, "iota counts in i32 or i64, not f32"),
        PAT(0, reserved1, 1, "a reserved field is not zero"),
        PAT(0, reserved2, 1, "a reserved field is not zero"),
        PAT(0, scale, 1, "a reserved field is not zero"),
        PAT(0, zero_point, 1, "a reserved field is not zero"),
        PAT(0, sparsity, 1, "a reserved field is not zero"),
        PAT(0, base, 2, "base 2 is not a multiple of 4 bytes (f32)"),
        PAT(0, base, (int64_t)1 << 60, "base beyond 2^48"),
        PAT(0, base, -4, NULL),
        PAT(0, dim[0].size, 0, "dimension 0 has size 0"),
        PAT(0, dim[1].size, 1, "dimension 1 beyond ndims is not zero"),
        PAT(0, dim[4].stride, 1, "dimension 4 beyond ndims is not zero"),
        PAT(0, grid_inc[0], 5, NULL),
        PAT(1, grid_inc[1], 5, "a pattern in sram cannot move with the grid (axis 1)"),
        PAT(1, rot_loop, 4, "rotation by loop level 4"),
        PAT(1, rot_count, 0, "rotation over 0 buffers"),
        PAT(1, rot_outer, 1, "rotation by 1 loops outside level 0"),
        PAT(0, rot_outer, 1, "rotation is off but has values"),
        PAT(1, rot_loop, VNPU_NO_LOOP, "rotation is off but has values"),
        PAT(0, rot_count, 0, NULL),
        PAT(0, clip[0].axis_mode, 0, "clip 0 is unused, not zero"),
        PAT(0, clip[0].axis_mode, VNPU_CLIP_USED | 16, "clip 0: reserved bits"),
        PAT(0, clip[0].axis_mode, VNPU_CLIP_USED | VNPU_CLIP_WINDOW,
            "clip 0 is a window; only src0 of a copy with flag pad has windows"),
        PAT(0, pad[0], 1, "clip 0: an overlap or a pad, but no window"),
        PAT(0, pad[1], 1, "clip 1 is unused, not zero"),
        PAT(0, clip[0].axis_mode, VNPU_CLIP_USED | 4, "clip 0: a grid axis in mode loop"),
        PAT(0, clip[0].axis_mode, VNPU_CLIP_USED | VNPU_CLIP_GRID,
            "clip 0: loop level 0 in mode grid"),
        PAT(0, clip[0].loop, 4, "clip 0: loop level 4 in mode loop"),
        PAT(0, clip[0].loop, VNPU_NO_LOOP, "clip 0: loop level 255 in mode loop"),
        PAT(0, clip[0].dim, 1, "clip 0: dimension 1 of 1"),
        PAT(0, clip[0].overlap, 1, "clip 0: an overlap or a pad, but no window"),
        PAT(0, clip[2].axis_mode, VNPU_CLIP_USED, "clip 2 is used, clip 1 is not"),
        PAT(0, clip[1].axis_mode, VNPU_CLIP_USED, "clipped differently"),
    };
    CHECK_PATCHES(rows);
}

Test(validator, reach_is_limited) {
    static const char *const rows[] = {
        ".ap x dram i8 arg=a dims=[4294967295:2147483647]\n",
        ".ap x dram i8 arg=a dims=[4294967295:0, 4294967295:0]\n",
        ".ap x dram i8 arg=a dims=[40000:2147483647, 40000:-2147483648]\n",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        size_t bytes;
        sim_error_t err = {0};
        dev_program_t *program;
        snprintf(text, sizeof text, ".program p\n.arg a in\n%s", rows[i]);
        void *image = dev_test_assemble(text, &bytes);
        cr_assert_eq(dev_program_load(image, bytes, NULL, &program, &err), SIM_ERROR_INVALID_IMAGE);
        cr_assert_not_null(strstr(err.text, "2^46"), "%s", err.text);
        free(image);
    }
}

Test(validator, truncated_images) {
    size_t bytes;
    uint8_t *image = dev_test_assemble(small, &bytes);
    for (size_t n = 0; n < bytes; n += 7) {
        uint8_t *part = malloc(n + 1);
        memcpy(part, image, n);
        sim_error_t err = {0};
        dev_program_t *program;
        cr_assert_eq(dev_program_load(part, n, NULL, &program, &err), SIM_ERROR_INVALID_IMAGE);
        cr_assert_null(program);
        free(part);
    }
    free(image);
}

Test(program, crc_is_the_zlib_polynomial) {
    /* CRC-32 of 128 zero bytes, by zlib. */
    uint8_t zeros[128] = {0};
    cr_assert_eq(dev_image_crc32(zeros, sizeof zeros), 0xc2a8fa9du);
}

Test(program, the_hash_tells_programs_apart_and_nothing_else) {
    size_t bytes;
    uint8_t *image = dev_test_assemble(small, &bytes);
    dev_program_t *one = dev_test_load(image, bytes, NULL),
                  *two = dev_test_load(image, bytes, NULL);
    cr_assert_eq(one->hash, two->hash);
    dev_program_destroy(two);
    vnpu_program_header_t header;
    memcpy(&header, image, sizeof header);
    image[part_offset(&header, INSN, 0) + offsetof(vnpu_insn_t, imm)] = 2;
    dev_image_seal(image, bytes);
    two = dev_test_load(image, bytes, NULL);
    cr_assert_neq(one->hash, two->hash);
    dev_program_destroy(one);
    dev_program_destroy(two);
    free(image);
}

/* ---- fuzzing ---- */

/* Views of all operands at the counters that `corner` picks (bit l: last trip of level l) stay
 * inside SRAM and ACC. */
static void check_views(const dev_program_t *program, const vnpu_insn_t *insn,
                        dev_cursor_t *cursor) {
    dev_launch_t launch = {.program = program, .grid = {3, 2}};
    const uint32_t grid_pos[2] = {2, 1};
    const uint16_t operand[5] = {insn->dst, insn->src[0], insn->src[1], insn->src[2], insn->src[3]};
    for (int i = 0; i < 5; i++) {
        if (operand[i] == VNPU_NO_AP) continue;
        const vnpu_ap_t *ap = &program->ap[operand[i]];
        uint64_t limit = ap->space == VNPU_SPACE_SRAM  ? program->header.sram_bytes
                         : ap->space == VNPU_SPACE_ACC ? program->header.acc_bytes
                                                       : UINT64_MAX;
        dev_view_t view;
        uint64_t low, high, run, runs;
        dev_view_make(&view, ap, cursor, &launch, grid_pos);
        dev_view_extent(&view, &low, &high);
        dev_view_runs(&view, &run, &runs);
        if (limit == UINT64_MAX || view.count == 0) continue;
        cr_assert(low < high && high <= limit, "accepted bytes %lu to %lu of %lu", low, high,
                  limit);
    }
}

static bool runs_at(const vnpu_insn_t *insn, const dev_cursor_t *cursor) {
    for (uint32_t l = 0; l < 4; l++) {
        if ((insn->first_only >> l & 1) && cursor->counter[l] != 0) return false;
        if ((insn->last_only >> l & 1) && cursor->counter[l] + 1 != cursor->trips[l]) return false;
    }
    return true;
}

static void check_accepted(const dev_program_t *program, uint64_t *seed) {
    for (uint32_t q = 0; q < program->header.num_queues; q++) {
        const vnpu_queue_section_t *section = &program->queue[q];
        dev_cursor_t cursor;
        dev_cursor_init(&cursor, program, section);
        for (uint32_t pc = 0; pc < section->count; pc++) {
            const vnpu_insn_t *insn = &program->insn[section->first + pc];
            if (insn->op == VNPU_OP_LOOP) cursor.trips[cursor.depth++] = insn->imm[0];
            if (insn->op == VNPU_OP_ENDLOOP) cursor.trips[--cursor.depth] = 1;
            for (uint32_t pick = 0; pick < 20; pick++) {
                for (uint32_t l = 0; l < 4; l++) {
                    uint32_t last = cursor.trips[l] - 1;
                    cursor.counter[l] = pick < 16 ? (pick >> l & 1 ? last : 0)
                                                  : (uint32_t)dev_test_between(seed, 0, last);
                }
                if (runs_at(insn, &cursor)) check_views(program, insn, &cursor);
            }
        }
        dev_cursor_init(&cursor, program, section);
        for (int step = 0; step < 20 && dev_cursor_next(&cursor); step++) {
        }
    }
    const uint32_t grid[2] = {3, 2};
    dev_arg_extent_t extent;
    for (uint32_t a = 0; a < program->header.num_args; a++) {
        dev_program_arg_extent(program, a, grid, &extent);
    }
}

static void mutate(uint8_t *image, size_t bytes, uint64_t *seed) {
    static const uint32_t interesting[] = {0,    1,    2,      3,          4,          0x7f,
                                           0x80, 0xff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff};
    int edits = (int)dev_test_between(seed, 1, 3);
    for (int e = 0; e < edits; e++) {
        /* The header's sizes are rarely worth a try: nothing is accepted then. */
        size_t from = dev_test_random(seed) % 16 == 0 ? 0 : sizeof(vnpu_program_header_t);
        size_t at = (size_t)dev_test_between(seed, (int64_t)from, (int64_t)bytes - 1);
        uint32_t value = (uint32_t)dev_test_random(seed);
        switch (dev_test_random(seed) % 4) {
        case 0: image[at] ^= (uint8_t)(1u << value % 8); break;
        case 1: image[at] = (uint8_t)interesting[value % 12]; break;
        case 2: image[at] = (uint8_t)(image[at] + value % 7 - 3); break;
        case 3:
            at &= ~(size_t)3;
            if (at + 4 <= bytes) memcpy(image + at, &interesting[value % 12], 4);
            break;
        }
    }
}

static const char *const fuzz_texts[] = {
    small,
    ".program gemm\n.nonames\n.arg a in\n.arg c out\n.sem f\n.sem e\n.sram 4096\n.acc 1024\n"
    ".ap a dram f32 arg=a dims=[8:20, 8:1] grid0=+160 loop1=+8 clip=0:30:grid:0 clip=1:20:loop:1\n"
    ".ap s sram f32 dims=[8:8, 8:1] rot=1:2:64 clip=0:30:grid:0 clip=1:20:loop:1\n"
    ".ap w sram f32 base=1024 dims=[8:8, 8:1] loop0=+64 clip=0:20:loop:1\n"
    ".ap o acc f32 dims=[8:8, 8:1] rot=0:2:64 clip=0:30:grid:0\n"
    ".queue dma0\n loop 2\n loop 3\n dma_copy dst=s src0=a wait=e signal=f\n endloop\n endloop\n"
    ".queue matrix0\n loop 2\n loop 3\n mm dst=o src0=s src1=w notfirst=1 wait=f signal=e\n "
    "endloop\n endloop\n",
    ".program rows\n.arg t inout\n.arg k scalar\n.sram 4096\n.acc 512\n"
    ".ap t dram f32 arg=t dims=[9:16, 8:1]\n.ap p sram f32 dims=[4:8, 8:1] base=64\n"
    ".ap i sram i32 dims=[4:1] base=16\n.ap r sram f32 dims=[4:1] base=1024 loop0=+4\n"
    ".ap k arg f32 base=8 dims=[4:0, 8:0]\n.ap n iota i64 dims=[4:0, 8:1]\n"
    ".ap v sram f32 dims=[4:8, 8:1] base=2048 loop0=+32\n"
    ".queue dma0\n dma_gather.clamp dst=p src0=t src1=i rows=9\n dma_scatter dst=t src0=p src1=i "
    "rows=9 acc\n"
    ".queue vector0\n loop 4\n v_binary.add.mul dst=v src0=p src1=k src2=n src3=r\n"
    " v_reduce.max dst=r src0=v first=0\n v_unary.exp dst=v src0=v last=0\n endloop\n",
};

Test(validator, mutated_images_never_crash_and_never_leave_sram, .timeout = 250) {
    uint64_t seed = 6;
    int accepted = 0;
    for (int base = 0; base < 3; base++) {
        size_t bytes;
        uint8_t *image = dev_test_assemble(fuzz_texts[base], &bytes);
        uint8_t *copy = malloc(bytes);
        for (int round = 0; round < 70000; round++) {
            memcpy(copy, image, bytes);
            mutate(copy, bytes, &seed);
            dev_image_seal(copy, bytes);
            sim_error_t err = {0};
            dev_program_t *program;
            sim_status_t status = dev_program_load(copy, bytes, &machine, &program, &err);
            cr_assert_eq(status == SIM_OK, program != NULL);
            cr_assert_eq(status == SIM_OK, err.text[0] == 0);
            if (program != NULL) check_accepted(program, &seed);
            accepted += program != NULL;
            dev_program_destroy(program);
        }
        free(copy);
        free(image);
    }
    cr_assert_gt(accepted, 10000, "%d", accepted);
    cr_assert_lt(accepted, 150000, "%d", accepted);
}
