#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev_asm.h"
#include "device/dev_image.h"
#include "tests/device/dev_test_random.h"

static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    cr_assert_eq(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    cr_assert_eq(fread(text, 1, (size_t)size, file), (size_t)size);
    text[size] = 0;
    fclose(file);
    return text;
}

static dev_program_t *load(const void *image, size_t bytes) {
    dev_program_t *program;
    sim_error_t err = {0};
    cr_assert_eq(dev_program_load(image, bytes, NULL, &program, &err), SIM_OK, "%s", err.text);
    return program;
}

static void *assemble(const char *text, size_t *out_bytes) {
    void *image;
    sim_error_t err = {0};
    cr_assert_eq(dev_asm_assemble(text, "test.s", &image, out_bytes, &err), SIM_OK, "%s", err.text);
    return image;
}

static char *disassemble(const dev_program_t *program) {
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    dev_asm_disassemble(program, file);
    fclose(file);
    return text;
}

/* image -> text -> image: every byte the same. */
static void check_round_trip(const void *image, size_t bytes) {
    dev_program_t *program = load(image, bytes);
    char *text = disassemble(program);
    size_t again_bytes;
    void *again = assemble(text, &again_bytes);
    cr_assert_eq(again_bytes, bytes, "%s", text);
    cr_assert_arr_eq(again, image, bytes, "%s", text);
    free(again);
    free(text);
    dev_program_destroy(program);
}

/* Every opcode, flag, clip mode, immediate form and value that needs care. */
static const char everything[] =
    ".program every.thing-1\n"
    ".const TILE 4*8   # 32\n"
    ".arg table inout\n.arg result inout\n.arg alpha scalar\n"
    ".sem s0\n.sem s1\n.sem other\n"
    ".sram 1M\n.acc 64K\n"
    ".ap t dram f32 arg=table base=-64 dims=[16:100, TILE:1] loop0=-7 loop3=+9 grid0=+1 grid1=-2\n"
    ".ap r dram f32 arg=result dims=[8:100, TILE:1] clip=0:100:cyclic:1:0 clip=1:77:grid:1\n"
    ".ap rs sram f32 base=4096 dims=[8:TILE, TILE:1] rot=0-2:3:256 clip=0:100:cyclic:1:0 "
    "clip=1:77:grid:1\n"
    ".ap gd sram f32 base=65536 dims=[5:TILE, TILE:1]\n"
    ".ap index sram i64 base=2*TILE dims=[5:1]\n"
    ".ap one dram f32 arg=result dims=[1:1]\n"
    ".ap fi sram i64 dims=[4:-1] base=24 rot=off:0\n"
    ".ap ff sram bf16 dims=[4:2] \n"
    ".ap a sram f32 dims=[4:TILE, TILE:1] clip=0:9:block:0:1\n"
    ".ap b sram f32 dims=[TILE:16, 16:1] base=8192\n"
    ".ap c acc f32 dims=[4:16, 16:1] clip=0:9:block:0:1\n"
    ".ap x acc f32 dims=[4:16, 16:1]\n"
    ".ap y sram bool dims=[4:16, 16:1]\n"
    ".ap n iota i64 base=-3 dims=[4:0, 16:1]\n"
    ".ap k arg f32 base=16 dims=[4:0, 16:0]\n"
    ".ap rows sram f32 base=256 dims=[4:1]\n"
    ".ap part sram f32 base=512 dims=[4:16, 16:1]\n"
    ".ap longs sram i64 base=1024 dims=[4:16, 16:1]\n"
    ".queue dma0\n"
    "  loop 3\n"
    "    loop 2 ; comment\n"
    "      loop 5\n"
    "        loop 2\n"
    "          dma_copy dst=r src0=rs acc wait=s0 signal=s1\n"
    "          dma_gather.clamp dst=gd src0=t src1=index rows=16 wrap first=0,2 last=1,3\n"
    "        endloop\n"
    "        dma_transpose dst=rs src0=r wait=s0>=65535 wait=other>=2 signal=s1-32768 "
    "signal=s0+32767 hold\n"
    "        nop\n"
    "      endloop\n"
    "      sync line=0\n"
    "    endloop\n"
    "  endloop\n"
    "  dma_fill dst=fi value=-9223372036854775808\n"
    "  dma_fill dst=ff value=-1.5e-40 line=4000000000\n"
    "  dma_fill dst=ff imm0=0x7fc12345\n"
    "  dma_fill dst=ff value=-inf\n"
    "  trap 7\n"
    "  mark 4294967295\n"
    "  fence\n"
    "  dma_copy dst=one src0=one2\n"
    ".queue matrix\n"
    "  loop 2\n"
    "    mm dst=c src0=a src1=b notfirst=0 \n"
    "    mm dst=c src0=a src1=b keep\n"
    "  endloop\n"
    ".queue vector0\n"
    "  loop 2\n"
    "    v_unary.gelu_tanh dst=y src0=x scale=0.1:-3 src3=part partial notfirst=0\n"
    "    v_unary.copy dst=x src0=k scale imm0=0x7fc00001 imm1=5\n"
    "    v_unary dst=x src0=n\n"
    "    v_binary.sub.mul dst=x src0=x src1=k src2=y src3=rows reverse reverse2\n"
    "    v_binary.xor dst=longs src0=longs src1=n int\n"
    "    v_select dst=x src0=y src1=x src2=k\n"
    "    v_reduce.max.abs dst=part src0=x partial notfirst=0\n"
    "    v_reduce.mul dst=rows src0=x\n"
    "    v_fold.min dst=rows src0=part\n"
    "  endloop\n"
    ".queue dma3\n"
    "  dma_scatter.skip dst=t2 src0=gd src1=index rows=16 acc\n"
    ".queue ctrl0\n"
    "  sync signal=s0\n";

static char *everything_text(void) {
    static const char more[] = ".ap one2 sram f32 dims=[1:1]\n"
                               ".ap t2 dram f32 arg=table dims=[16:100, TILE:1]\n";
    char *text = malloc(sizeof everything + sizeof more);
    const char *queue = strstr(everything, ".queue");
    size_t before = (size_t)(queue - everything);
    memcpy(text, everything, before);
    strcpy(text + before, more);
    strcat(text, queue);
    return text;
}

Test(assembler, round_trip_of_everything) {
    size_t bytes;
    char *text = everything_text();
    void *image = assemble(text, &bytes);
    check_round_trip(image, bytes);
    free(image);
    free(text);
}

Test(assembler, round_trip_without_names) {
    size_t bytes;
    char *text = everything_text();
    char *nameless = malloc(strlen(text) + 16);
    strcpy(nameless, ".nonames\n");
    strcat(nameless, text);
    void *image = assemble(nameless, &bytes);
    vnpu_program_header_t header;
    memcpy(&header, image, sizeof header);
    cr_assert_eq(header.strings_bytes, 0u);
    check_round_trip(image, bytes);
    free(image);
    free(nameless);
    free(text);
}

Test(assembler, fields_land_where_the_header_says) {
    size_t bytes;
    char *text = everything_text();
    void *image = assemble(text, &bytes);
    dev_program_t *program = load(image, bytes);
    const vnpu_ap_t *t = &program->ap[0], *r = &program->ap[1], *rs = &program->ap[2];
    cr_assert_str_eq(program->header.name, "every.thing-1");
    cr_assert_eq(program->header.sram_bytes, 1u << 20);
    cr_assert_eq(program->header.acc_bytes, 65536u);
    cr_assert_eq(program->header.arg_kind[0], VNPU_ARG_INOUT);
    cr_assert_eq(program->header.arg_kind[2], VNPU_ARG_SCALAR);
    cr_assert_eq(t->base, -64);
    cr_assert_eq(t->dim[1].size, 32u);
    cr_assert_eq(t->loop_inc[0], -7);
    cr_assert_eq(t->loop_inc[3], 9);
    cr_assert_eq(t->grid_inc[1], -2);
    cr_assert_eq(t->rot_loop, VNPU_NO_LOOP);
    cr_assert_eq(r->clip[0].extent, 100u);
    cr_assert_eq(r->clip[0].loop, 1);
    cr_assert_eq(r->clip[0].axis_mode, VNPU_CLIP_USED | VNPU_CLIP_CYCLIC);
    cr_assert_eq(r->clip[1].axis_mode, VNPU_CLIP_USED | 4 | VNPU_CLIP_GRID);
    cr_assert_eq(r->clip[1].loop, VNPU_NO_LOOP);
    cr_assert_eq(rs->rot_loop, 2);
    cr_assert_eq(rs->rot_count, 3);
    cr_assert_eq(rs->rot_outer, 2);
    cr_assert_eq(r->rot_outer, 0);
    cr_assert_eq(rs->rot_stride, 256u);
    const vnpu_insn_t *gather = &program->insn[5], *fill = &program->insn[13];
    cr_assert_eq(gather->op, VNPU_OP_DMA_GATHER);
    cr_assert_eq(gather->func, VNPU_OOB_CLAMP);
    cr_assert_eq(gather->flags, VNPU_F_WRAP_NEGATIVE);
    cr_assert_eq(gather->first_only, 5);
    cr_assert_eq(gather->last_only, 10);
    cr_assert_eq(gather->imm[0], 16u);
    cr_assert_eq(fill->op, VNPU_OP_DMA_FILL);
    cr_assert_eq(fill->imm[0], 0u);
    cr_assert_eq(fill->imm[1], 0x80000000u);
    cr_assert_eq(program->sem_waiter[0], 0);
    cr_assert_eq(program->sem_waiter[1], 0xff);
    cr_assert_eq(program->match[0], 12u);
    dev_program_destroy(program);
    free(image);
    free(text);
}

Test(assembler, lines_come_from_the_source_or_from_line) {
    size_t bytes;
    void *image = assemble("\n.program p\n.queue ctrl0\n\n nop\n nop line=77\n nop", &bytes);
    dev_program_t *program = load(image, bytes);
    cr_assert_eq(program->insn[0].line, 5u);
    cr_assert_eq(program->insn[1].line, 77u);
    cr_assert_eq(program->insn[2].line, 7u);
    dev_program_destroy(program);
    free(image);
}

Test(assembler, numbers) {
    static const struct {
        const char *text;
        int64_t base;
    } rows[] = {{"0", 0},      {"-8", -8},    {"0x40", 64}, {"2K", 2048}, {"1M", 1048576},
                {"2*3*4", 24}, {"N", -16},    {"-N", 16},   {"N*N", 256}, {"4*BIG+2*N-8", 4088},
                {"+8", 8},     {"0x10*2", 32}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        size_t bytes;
        snprintf(text, sizeof text,
                 ".program p\n.const N -16\n.const BIG 1K+8\n.arg a in\n"
                 ".ap x dram f32 arg=a base=%s dims=[1:1]\n",
                 rows[i].text);
        void *image = assemble(text, &bytes);
        dev_program_t *program = load(image, bytes);
        cr_assert_eq(program->ap[0].base, rows[i].base, "%s: %ld", rows[i].text,
                     program->ap[0].base);
        dev_program_destroy(program);
        free(image);
    }
}

Test(assembler, errors_name_file_line_and_the_nearest_word) {
    static const struct {
        const char *text, *want;
    } rows[] = {
        {".progrm p", "e.s:1: unknown directive '.progrm'; the nearest is '.program'"},
        {"nop", "e.s:1: an instruction before the first .queue"},
        {".queue dma0\n dma_cpy",
         "e.s:2: unknown instruction 'dma_cpy'; the nearest is 'dma_copy'"},
        {".queue dmx0", "e.s:1: unknown queue 'dmx'; the nearest is 'dma'"},
        {".queue dma0\n.queue dma0", "e.s:2: queue dma0 has its instructions already"},
        {".queue vector0\n v_unary.gelu_er",
         "unknown function 'gelu_er'; the nearest is 'gelu_erf'"},
        {".queue vector0\n v_binary dst=x", "e.s:2: v_binary needs a function"},
        {".queue vector0\n v_fold.add.copy", "e.s:2: v_fold has one function, not two"},
        {".queue dma0\n nop.add", "e.s:2: nop has no functions"},
        {".queue dma0\n nop wait=x", "e.s:2: unknown semaphore 'x'"},
        {".sem full\n.queue dma0\n nop wait=ful", "unknown semaphore 'ful'; the nearest is 'full'"},
        {".sem s\n.queue dma0\n nop wait=s>2", "e.s:3: a wait is written name>=value"},
        {".sem s\n.queue dma0\n nop wait=s>=65536", "65536 = 65536 is not in 0 to 65535"},
        {".sem s\n.queue dma0\n nop wait=s wait=s wait=s", "e.s:3: more than two waits"},
        {".sem s\n.queue dma0\n nop signal=s+40000", "is not in -32768 to 32767"},
        {".sem s\n.sem s", "e.s:2: semaphore 's' exists already"},
        {".sem 1s", "e.s:1: '1s' is not a name"},
        {".arg a input", "unknown argument kind 'input'; the nearest is 'inout'"},
        {".arg a in\n.ap x dram f33 dims=[1:1]",
         "e.s:2: unknown dtype 'f33'; the nearest is 'f32'"},
        {".ap x sran f32 dims=[1:1]", "unknown space 'sran'; the nearest is 'sram'"},
        {".ap x sram f32", "e.s:1: a pattern needs dims=[...]"},
        {".ap x sram f32 dims=[4]", "dims: '4' is not size:stride"},
        {".ap x sram f32 dims=[1:1,1:1,1:1,1:1,1:1,1:1]", "more than 5 dimensions"},
        {".ap x sram f32 dims=[1:1", "e.s:1: '[' and ']' do not match"},
        {".ap x sram f32 dims=[1:1] lop0=1", "unknown key 'lop0'; the nearest is 'loop0'"},
        {".ap x sram f32 dims=[1:1] rot=1:2", "rot=loop:count:stride"},
        {".ap x sram f32 dims=[1:1] rot=2-1:2:8", "rot=2-1: from the outer loop to the inner one"},
        {".ap x sram f32 dims=[1:1] clip=0:5:loop:1:1", "clip mode loop takes a loop level"},
        {".ap x sram f32 dims=[1:1] clip=0:5:lop:1",
         "unknown clip mode 'lop'; the nearest is 'loop'"},
        {".ap x sram f32 dims=[1:q]", "'q' is no number and no constant"},
        {".ap x sram f32 dims=[1:99999999999]", "is not in -2147483648 to 2147483647"},
        {".ap x sram f32 dims=[1:99999999999999999999]", "does not fit"},
        {".ap x sram f32 dims=[1:9*]", "'' is no number and no constant"},
        {".ap x sram f32 dims=[1:9z]", "'9z' is not a number: stopped at 'z'"},
        {".queue dma0\n dma_copy dest=x", "e.s:2: unknown key 'dest'; the nearest is 'dst'"},
        {".queue dma0\n dma_copy dst=x", "e.s:2: unknown pattern 'x'"},
        {".queue matrix0\n mm kep", "e.s:2: unknown flag 'kep'; the nearest is 'keep'"},
        {".queue dma0\n nop first=4", "4 = 4 is not in 0 to 3"},
        {".queue dma0\n dma_fill value=1", "e.s:2: value= needs a destination"},
        {".queue dma0\n nop value=1", "e.s:2: value= belongs to dma_fill"},
        {".queue vector0\n v_unary scale=x", "e.s:2: 'x' is not a float"},
        {".sram 1\n.sram 2", "e.s:2: a second .sram"},
        {".program a b", "e.s:1: written as: .program NAME"},
        {".program a\n.program b", "e.s:2: a second .program"},
        {"\n\n", "the text has no .program"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *image = &image;
        size_t bytes = 1;
        sim_error_t err = {0};
        sim_status_t status = dev_asm_assemble(rows[i].text, "e.s", &image, &bytes, &err);
        cr_assert_eq(status, SIM_ERROR_INVALID_VALUE, "%s", rows[i].text);
        cr_assert_null(image);
        cr_assert_eq(bytes, 0u);
        cr_assert_not_null(strstr(err.text, rows[i].want), "%s\n  gave: %s\n  want: %s",
                           rows[i].text, err.text, rows[i].want);
    }
}

/* Any bytes: an error or an image, never a crash. Characters are drawn from what the grammar uses.
 */
Test(assembler, random_text_never_crashes) {
    static const char alphabet[] = "\n\n  .=:,[]>+-*#;0123abdmnopqrstx_";
    uint64_t seed = 5;
    char *source = everything_text();
    size_t length = strlen(source);
    int good = 0;
    for (int round = 0; round < 3000; round++) {
        char *text = strdup(source);
        int edits = (int)dev_test_between(&seed, 1, 4);
        for (int e = 0; e < edits; e++) {
            size_t at = (size_t)dev_test_between(&seed, 0, (int64_t)length - 1);
            text[at] = alphabet[dev_test_random(&seed) % (sizeof alphabet - 1)];
        }
        void *image;
        size_t bytes;
        sim_error_t err = {0};
        if (dev_asm_assemble(text, "r.s", &image, &bytes, &err) == SIM_OK) {
            good++;
        } else {
            cr_assert_null(image);
            cr_assert_eq(strncmp(err.text, "r.s:", 4), 0, "%s", err.text);
        }
        free(image);
        free(text);
    }
    free(source);
    cr_assert_gt(good, 50);
    cr_assert_lt(good, 2500);
}

/* The complete programs in docs/isa.md: fenced blocks that start with ".program". */
Test(assembler, programs_of_the_manual_assemble_and_load) {
    char *manual = read_file(VNPU_SOURCE_DIR "/docs/isa.md");
    int programs = 0;
    for (char *at = manual; (at = strstr(at, "\n```vnpu\n")) != NULL;) {
        char *begin = at + strlen("\n```vnpu\n"), *end = strstr(begin, "\n```");
        cr_assert_not_null(end);
        *end = 0;
        if (strncmp(begin, ".program", 8) == 0) {
            size_t bytes;
            void *image = assemble(begin, &bytes);
            check_round_trip(image, bytes);
            free(image);
            programs++;
        }
        at = end + 1;
    }
    free(manual);
    cr_assert_geq(programs, 2);
}
