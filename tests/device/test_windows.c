/* Windows: padded copies of overlapping tiles, and products over several dimensions of k and n. */
#include <math.h>

#include "tests/device/dev_test_exec.h"
#include "tests/device/dev_test_random.h"
#include "tests/device/dev_test_text.h"

/* ---- padded copies ---- */

/* Tiles of rows x cols of an image, cut into steps by a loop (rows) and the grid (columns); every
 * tile is stored whole. */
typedef struct window_case {
    uint32_t height, width; /* of the image */
    uint32_t rows, row_step, row_pad, row_tiles;
    uint32_t cols, col_step, col_pad, col_tiles;
} window_case_t;

static const window_case_t window_cases[] = {
    {9, 11, 4, 2, 1, 5, 5, 3, 1, 4},  /* overlaps */
    {5, 4, 7, 7, 1, 1, 6, 6, 1, 1},   /* one tile larger than the image */
    {7, 7, 1, 2, 0, 4, 2, 3, 0, 3},   /* gaps between tiles */
    {3, 3, 2, 1, 6, 16, 2, 1, 5, 15}, /* tiles that lie outside altogether */
    {8, 6, 2, 2, 0, 4, 3, 3, 0, 2},   /* no overlap, no pad */
    {7, 5, 3, 3, 0, 4, 2, 2, 0, 4},   /* only behind the end */
};
enum { WINDOW_CASES = sizeof window_cases / sizeof *window_cases };

static dev_program_t *window_program(const window_case_t *t, const char *dtype, const char *value,
                                     const dev_machine_t *machine) {
    char text[2048], rows_clip[32] = "loop:0";
    if (t->row_tiles == 1) snprintf(rows_clip, sizeof rows_clip, "still");
    size_t bytes;
    uint32_t elem = strcmp(dtype, "i8") == 0 ? 1 : 4, tile = t->rows * t->cols;
    snprintf(text, sizeof text,
             ".program windows\n.arg image in\n.arg out out\n.sem full\n.sram %u\n"
             ".ap far dram %s arg=image base=%d dims=[%u:%u, %u:1] loop0=+%u grid1=+%u "
             "clip=0:%u:%s:%d:%u clip=1:%u:grid:1:%d:%u\n"
             ".ap near sram %s dims=[%u:%u, %u:1]\n"
             ".ap whole dram %s arg=out dims=[%u:1] loop0=+%u grid1=+%u\n"
             ".ap flat sram %s dims=[%u:1]\n"
             ".queue dma0\n  loop %u\n    dma_copy dst=near src0=far pad value=%s\n    fence\n"
             "    dma_copy dst=whole src0=flat\n    fence\n  endloop\n",
             tile * elem, dtype, -(int)(elem * (t->row_pad * t->width + t->col_pad)), t->rows,
             t->width, t->cols, t->row_step * t->width, t->col_step, t->height, rows_clip,
             (int)t->rows - (int)t->row_step, t->row_pad, t->width, (int)t->cols - (int)t->col_step,
             t->col_pad, dtype, t->rows, t->cols, t->cols, dtype, tile, tile, tile * t->row_tiles,
             dtype, tile, t->row_tiles, value);
    void *image = dev_test_assemble(text, &bytes);
    dev_program_t *program = dev_test_load(image, bytes, machine);
    free(image);
    return program;
}

static bool source_of(const window_case_t *t, uint32_t i, uint32_t g, uint32_t r, uint32_t c,
                      uint32_t *out_index) {
    int64_t y = (int64_t)i * t->row_step + r - t->row_pad,
            x = (int64_t)g * t->col_step + c - t->col_pad;
    if (y < 0 || x < 0 || y >= t->height || x >= t->width) return false;
    *out_index = (uint32_t)(y * t->width + x);
    return true;
}

static void check_windows(exec_env_t *env, const window_case_t *t, bool is_byte) {
    dev_program_t *program =
        window_program(t, is_byte ? "i8" : "f32", is_byte ? "-3" : "-inf", &env->machine);
    uint32_t elem = is_byte ? 1 : 4, elems = t->height * t->width, tile = t->rows * t->cols;
    uint32_t stored = tile * t->row_tiles * t->col_tiles;
    dev_launch_t launch = launch_of(program, &env->machine, 1, t->col_tiles);
    launch.arg[0] = env_alloc(env, elems * elem);
    launch.arg[1] = env_alloc(env, stored * elem);
    uint8_t *image = env_host(env, launch.arg[0], elems * elem);
    for (uint32_t e = 0; e < elems; e++) {
        float value = (float)(e % 100);
        if (is_byte) {
            image[e] = (uint8_t)(e % 100);
        } else {
            memcpy(image + 4 * e, &value, 4);
        }
    }
    sim_error_t err = {0};
    cr_assert_eq(dev_exec_run(env->exec, TEST_OWNER, &launch, &err), SIM_OK, "%s", err.text);
    const uint8_t *out = env_host(env, launch.arg[1], stored * elem);
    for (uint32_t e = 0; e < stored; e++) {
        uint32_t c = e % t->cols, r = e / t->cols % t->rows, i = e / tile % t->row_tiles,
                 g = e / tile / t->row_tiles, from;
        double want = is_byte ? -3.0 : (double)-INFINITY, got = (double)(int8_t)out[e];
        if (source_of(t, i, g, r, c, &from)) want = (double)(from % 100);
        if (!is_byte) {
            float value;
            memcpy(&value, out + 4 * e, 4);
            got = (double)value;
        }
        cr_assert(got == want, "tile %u %u, element %u %u: %g, not %g", i, g, r, c, got, want);
    }
    for (int a = 0; a < 2; a++)
        cr_assert_eq(dev_memory_free(env->memory, TEST_OWNER, launch.arg[a], NULL), SIM_OK);
    dev_program_destroy(program);
}

/* With values in program order, and in any legal order. */
static void in_both_orders(void (*check)(exec_env_t *env)) {
    static const dev_exec_mode_t modes[] = {DEV_EXEC_VALUES, DEV_EXEC_CHAOS};
    for (int m = 0; m < 2; m++) {
        exec_env_t env;
        env_open(&env, 2, (dev_exec_options_t){.mode = modes[m], .threads = 1});
        check(&env);
        env_close(&env);
    }
}

static void check_all_windows(exec_env_t *env) {
    for (uint32_t w = 0; w < WINDOW_CASES; w++) {
        check_windows(env, &window_cases[w], false);
        check_windows(env, &window_cases[w], true);
    }
}

Test(windows, copies_fill_what_lies_outside) {
    in_both_orders(check_all_windows);
}

/* ---- copies into blocks ---- */

/* Rows of `cols` elements, cut into tiles by a loop, laid in blocks of `block`; the last tile is
 * short. With `pad` there is a row of the image in front that does not exist. */
typedef struct blocks_case {
    uint32_t rows, cols, tile, block, pad;
} blocks_case_t;

static const blocks_case_t blocks_cases[] = {
    {5, 39, 39, 16, 0}, {3, 40, 17, 4, 0}, {2, 32, 16, 8, 0},    {4, 20, 20, 3, 1},
    {3, 24, 12, 4, 1},  {1, 7, 5, 2, 0},   {300, 64, 64, 16, 0}, /* long enough to be aliased */
};

static uint32_t ceil_of(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

static dev_program_t *blocks_program(const blocks_case_t *t, const dev_machine_t *machine) {
    char text[2048];
    size_t bytes;
    uint32_t blocks = ceil_of(t->tile, t->block), rows = t->rows + t->pad;
    uint32_t elems = rows * blocks * t->block, tiles = ceil_of(t->cols, t->tile);
    char window[64] = "", pad[32] = "";
    if (t->pad > 0) {
        snprintf(window, sizeof window, "clip=0:%u:still:0:%u", t->rows, t->pad);
        snprintf(pad, sizeof pad, "pad value=-3");
    }
    snprintf(text, sizeof text,
             ".program blocks\n.arg image in\n.arg out out\n.sram %u\n"
             ".ap far dram i8 arg=image base=%d dims=[%u:%u, %u:1] loop0=+%u %s clip=1:%u:loop:0\n"
             ".ap near sram i8 dims=[%u:%u, %u:%u, %u:1]\n"
             ".ap whole dram i8 arg=out dims=[%u:1] loop0=+%u\n.ap flat sram i8 dims=[%u:1]\n"
             ".queue dma0\n  loop %u\n    dma_fill dst=flat value=77\n    fence\n"
             "    dma_copy dst=near src0=far %s\n    fence\n    dma_copy dst=whole src0=flat\n"
             "    fence\n  endloop\n",
             elems, -(int)(t->pad * t->cols), rows, t->cols, t->tile, t->tile, window, t->cols,
             rows, t->block, blocks, rows * t->block, t->block, elems, elems, elems, tiles, pad);
    void *image = dev_test_assemble(text, &bytes);
    dev_program_t *program = dev_test_load(image, bytes, machine);
    free(image);
    return program;
}

static void check_blocks(exec_env_t *env, const blocks_case_t *t) {
    dev_program_t *program = blocks_program(t, &env->machine);
    uint32_t blocks = ceil_of(t->tile, t->block), rows = t->rows + t->pad;
    uint32_t elems = rows * blocks * t->block, tiles = ceil_of(t->cols, t->tile);
    dev_launch_t launch = launch_of(program, &env->machine, 1, 1);
    launch.arg[0] = env_alloc(env, t->rows * t->cols);
    launch.arg[1] = env_alloc(env, elems * tiles);
    int8_t *image = (int8_t *)env_host(env, launch.arg[0], t->rows * t->cols);
    for (uint32_t e = 0; e < t->rows * t->cols; e++)
        image[e] = (int8_t)(e % 61);
    sim_error_t err = {0};
    cr_assert_eq(dev_exec_run(env->exec, TEST_OWNER, &launch, &err), SIM_OK, "%s", err.text);
    const int8_t *out = (const int8_t *)env_host(env, launch.arg[1], elems * tiles);
    for (uint32_t e = 0; e < elems * tiles; e++) {
        uint32_t in_block = e % t->block, row = e / t->block % rows,
                 block = e / t->block / rows % blocks, tile = e / elems;
        uint32_t col = tile * t->tile + block * t->block + in_block;
        bool exists = block * t->block + in_block < t->tile && col < t->cols && row >= t->pad;
        int want = t->pad > 0 ? -3 : 77; /* without pad what is not there stays as it was */
        if (exists) want = (int)(((row - t->pad) * t->cols + col) % 61);
        cr_assert_eq(out[e], want, "tile %u, block %u, row %u, element %u: %d, not %d", tile, block,
                     row, in_block, out[e], want);
    }
    for (int a = 0; a < 2; a++)
        cr_assert_eq(dev_memory_free(env->memory, TEST_OWNER, launch.arg[a], NULL), SIM_OK);
    dev_program_destroy(program);
}

static void check_all_blocks(exec_env_t *env) {
    for (size_t i = 0; i < sizeof blocks_cases / sizeof *blocks_cases; i++)
        check_blocks(env, &blocks_cases[i]);
}

Test(windows, copies_lay_rows_in_blocks) {
    in_both_orders(check_all_blocks);
}

Test(windows, misuse_of_blocks_is_refused_by_name) {
    static const struct {
        const char *near, *far, *insn, *error;
    } rows[] = {
        {"sram f32 dims=[2:8, 2:4, 4:1]", "dram f32 arg=a dims=[2:9, 9:1]",
         "dma_copy dst=near src0=far", "dst dimension 1 must have size 3 and no clip"},
        {"sram f32 dims=[2:8, 2:4, 4:1]", "dram f32 arg=a dims=[3:9, 7:1]",
         "dma_copy dst=near src0=far", "dst dimension 0 has size 2, src0 dimension 0 has 3"},
        {"sram f32 dims=[2:8, 2:4, 4:1]", "dram f32 arg=a dims=[2:9, 7:1]",
         "dma_copy dst=near src0=far acc", "blocks and acc exclude each other"},
        {"sram f32 dims=[2:8, 2:4, 4:1]", "sram f32 base=64 dims=[2:9, 7:1]",
         "dma_copy dst=near src0=far", "src0: cannot be in sram"},
        {"sram f32 dims=[2:8, 2:4, 4:1]", "dram f32 arg=a dims=[2:9, 7:1] clip=1:9:still:0:0",
         "dma_copy dst=near src0=far pad", "src0 dimension 1: a window in blocks"},
        {"sram f32 dims=[2:8, 2:4, 4:1]", "dram f32 arg=a dims=[2:9, 7:1]",
         "dma_transpose dst=near src0=far", "src0 has 2 dimensions, 3 are needed"},
        {"sram bfp8 dims=[2:8, 2:4, 1:1]", "dram bfp8 arg=a dims=[2:9, 2:1]",
         "dma_copy dst=near src0=far", "blocks of a type that has blocks of its own"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        size_t bytes;
        snprintf(text, sizeof text,
                 ".program p\n.arg a in\n.sram 512\n.ap near %s\n.ap far %s\n.queue dma0\n  %s\n",
                 rows[i].near, rows[i].far, rows[i].insn);
        void *image = dev_test_assemble(text, &bytes);
        dev_program_t *program;
        sim_error_t err = {0};
        cr_assert_eq(dev_program_load(image, bytes, NULL, &program, &err), SIM_ERROR_INVALID_IMAGE,
                     "row %zu", i);
        cr_assert_not_null(strstr(err.text, rows[i].error), "row %zu: %s", i, err.text);
        free(image);
    }
}

/* The range that an argument is said to have is the one that is read. */
Test(windows, extents_are_exact) {
    for (uint32_t w = 0; w < WINDOW_CASES; w++) {
        const window_case_t *t = &window_cases[w];
        dev_machine_t machine = test_machine(1);
        dev_program_t *program = window_program(t, "f32", "0", &machine);
        int64_t low = INT64_MAX, high = 0;
        for (uint32_t e = 0; e < t->rows * t->cols * t->row_tiles * t->col_tiles; e++) {
            uint32_t c = e % t->cols, r = e / t->cols % t->rows,
                     i = e / t->cols / t->rows % t->row_tiles,
                     g = e / t->cols / t->rows / t->row_tiles, from;
            if (!source_of(t, i, g, r, c, &from)) continue;
            if (4 * (int64_t)from < low) low = 4 * (int64_t)from;
            if (4 * (int64_t)from + 4 > high) high = 4 * (int64_t)from + 4;
        }
        dev_arg_extent_t extent;
        dev_program_arg_extent(program, 0, (uint32_t[]){1, t->col_tiles}, &extent);
        cr_assert_eq(extent.read_low, low, "case %u: %lld, not %lld", w, (long long)extent.read_low,
                     (long long)low);
        cr_assert_eq(extent.read_high, high, "case %u: %lld, not %lld", w,
                     (long long)extent.read_high, (long long)high);
        dev_program_destroy(program);
    }
}

Test(windows, text_goes_round) {
    size_t bytes, again;
    dev_machine_t machine = test_machine(1);
    dev_program_t *program = window_program(&window_cases[0], "f32", "-inf", &machine);
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    dev_asm_disassemble(program, file);
    cr_assert_eq(fclose(file), 0);
    void *first = dev_test_assemble(text, &bytes);
    dev_program_t *second = dev_test_load(first, bytes, &machine);
    cr_assert_eq(second->hash, program->hash, "%s", text);
    char *text2 = NULL;
    file = open_memstream(&text2, &again);
    dev_asm_disassemble(second, file);
    cr_assert_eq(fclose(file), 0);
    cr_assert_str_eq(text, text2);
    free(first), free(text), free(text2);
    dev_program_destroy(program);
    dev_program_destroy(second);
}

Test(windows, misuse_is_refused_by_name) {
    static const struct {
        const char *patterns, *insn, *error;
    } rows[] = {
        {"clip=0:9:grid:0:1:1", "dma_copy dst=near src0=far", "only src0 of a copy with flag pad"},
        {"clip=0:9:grid:0:1:1", "dma_copy dst=far src0=near", "is a window"},
        {"clip=0:9:grid:0:1:1", "dma_copy dst=near src0=far pad acc", "exclude each other"},
        {"clip=0:9:grid:0:1:1", "dma_copy dst=cut src0=far pad",
         "dst dimension 0 must have size 4 and no clip"},
        {"clip=0:9:grid:0:1:1 clip=0:9:grid:1", "dma_copy dst=near src0=far pad",
         "a window and another clip"},
        {"clip=0:9:grid:0", "dma_copy dst=near src0=far pad", "clipped differently"},
        {"clip=0:9:grid:0:4:1", "dma_copy dst=near src0=far pad",
         "an overlap of 4, the tile has 4"},
        {"clip=0:9:grid:0:1:1", "dma_copy dst=near src0=far pad imm1=1", "imm[1] must be 0"},
        {"", "dma_copy dst=near src0=far imm0=1", "immediates without flag pad"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        size_t bytes;
        snprintf(
            text, sizeof text,
            ".program p\n.arg a inout\n.sram 64\n.ap far dram f32 arg=a dims=[4:1] grid0=+3 %s\n"
            ".ap near sram f32 dims=[4:1]\n.ap cut sram f32 dims=[4:1] clip=0:9:grid:0\n"
            ".queue dma0\n  %s\n",
            rows[i].patterns, rows[i].insn);
        void *image = dev_test_assemble(text, &bytes);
        dev_program_t *program;
        sim_error_t err = {0};
        cr_assert_eq(dev_program_load(image, bytes, NULL, &program, &err), SIM_ERROR_INVALID_IMAGE,
                     "row %zu", i);
        cr_assert_not_null(strstr(err.text, rows[i].error), "row %zu: %s", i, err.text);
        free(image);
    }
}

/* ---- products ---- */

typedef struct conv_case {
    uint32_t channels, height, width, kernel_h, kernel_w, stride, outputs;
    bool is_channels_last; /* [h][w][c] and k over (kh, kw, c), else [c][h][w] and k over (c, kh,
                              kw) */
    bool is_turned;        /* the image is src1: the result is [o][oh][ow] */
    bool accumulate;
    uint32_t out_pad; /* elements added to the result's inner row */
} conv_case_t;

static vnpu_ap_t pattern(vnpu_space_t space, uint32_t ndims, const uint32_t *size,
                         const uint32_t *stride) {
    vnpu_ap_t ap = ap_dense(space, VNPU_F32, 0, 1, 0, 0);
    ap.ndims = (uint8_t)ndims;
    for (uint32_t d = 0; d < ndims; d++)
        ap.dim[d] = (vnpu_dim_t){size[d], (int32_t)stride[d]};
    return ap;
}

static float chain(const conv_case_t *t, const float *image, const float *weight, uint32_t y,
                   uint32_t x, uint32_t o, float sum) {
    uint32_t k = t->channels * t->kernel_h * t->kernel_w;
    for (uint32_t p = 0; p < k; p++) {
        uint32_t c, ky, kx, at;
        if (t->is_channels_last) {
            c = p % t->channels, kx = p / t->channels % t->kernel_w,
            ky = p / t->channels / t->kernel_w;
            at = ((y * t->stride + ky) * t->width + x * t->stride + kx) * t->channels + c;
        } else {
            kx = p % t->kernel_w, ky = p / t->kernel_w % t->kernel_h,
            c = p / t->kernel_w / t->kernel_h;
            at = (c * t->height + y * t->stride + ky) * t->width + x * t->stride + kx;
        }
        sum = fmaf(image[at], weight[p * t->outputs + o], sum);
    }
    return sum;
}

static void check_product(exec_env_t *env, const conv_case_t *t, uint64_t seed) {
    uint32_t oh = (t->height - t->kernel_h) / t->stride + 1,
             ow = (t->width - t->kernel_w) / t->stride + 1, k[3], ks[3], wk[3];
    uint32_t cs = t->is_channels_last ? 1 : t->height * t->width,
             xs = t->is_channels_last ? t->channels : 1, ys = t->width * xs;
    uint32_t in = t->channels * t->height * t->width,
             weights = t->channels * t->kernel_h * t->kernel_w * t->outputs,
             inner = (t->is_turned ? ow : t->outputs) + t->out_pad,
             results = (t->is_turned ? t->outputs * oh : oh * ow) * inner;
    float *image = malloc(in * 4), *weight = malloc(weights * 4), *out = malloc(results * 4),
          *want = malloc(results * 4);
    for (uint32_t i = 0; i < in; i++)
        image[i] = (float)(int32_t)(dev_test_random(&seed) >> 32) * 0x1p-31f;
    for (uint32_t i = 0; i < weights; i++)
        weight[i] = (float)(int32_t)(dev_test_random(&seed) >> 32) * 0x1p-31f;
    for (uint32_t i = 0; i < results; i++)
        out[i] = want[i] = (float)i;
    for (uint32_t i = 0; i < oh * ow * t->outputs; i++) {
        uint32_t o = i % t->outputs, x = i / t->outputs % ow, y = i / t->outputs / ow;
        float *to = &want[t->is_turned ? (o * oh + y) * inner + x : (y * ow + x) * inner + o];
        *to = chain(t, image, weight, y, x, o, t->accumulate ? *to : 0.0f);
    }
    uint32_t first =
        t->is_channels_last ? 0 : 1; /* where kh and kw are among the dimensions of k */
    k[first] = t->kernel_h, ks[first] = ys, k[first + 1] = t->kernel_w, ks[first + 1] = xs;
    k[first ? 0 : 2] = t->channels, ks[first ? 0 : 2] = cs;
    wk[2] = t->outputs, wk[1] = k[2] * wk[2], wk[0] = k[1] * wk[1];
    uint32_t p[2] = {oh, ow}, ps[2] = {t->stride * ys, t->stride * xs};
    vnpu_ap_t window, filter, result;
    if (t->is_turned) {
        window = pattern(VNPU_SPACE_SRAM, 5, (uint32_t[]){k[0], k[1], k[2], p[0], p[1]},
                         (uint32_t[]){ks[0], ks[1], ks[2], ps[0], ps[1]});
        filter = pattern(VNPU_SPACE_SRAM, 4, (uint32_t[]){t->outputs, k[0], k[1], k[2]},
                         (uint32_t[]){1, wk[0], wk[1], wk[2]});
        result = pattern(VNPU_SPACE_ACC, 3, (uint32_t[]){t->outputs, oh, ow},
                         (uint32_t[]){oh * inner, inner, 1});
    } else {
        window = pattern(VNPU_SPACE_SRAM, 5, (uint32_t[]){p[0], p[1], k[0], k[1], k[2]},
                         (uint32_t[]){ps[0], ps[1], ks[0], ks[1], ks[2]});
        filter = pattern(VNPU_SPACE_SRAM, 4, (uint32_t[]){k[0], k[1], k[2], t->outputs},
                         (uint32_t[]){wk[0], wk[1], wk[2], 1});
        result = pattern(VNPU_SPACE_ACC, 3, (uint32_t[]){oh, ow, t->outputs},
                         (uint32_t[]){ow * inner, inner, 1});
    }
    test_operand_t dst = {result, out, results * 4}, src_image = {window, image, in * 4},
                   src_filter = {filter, weight, weights * 4};
    test_operand_t *ops[5] = {&dst, t->is_turned ? &src_filter : &src_image,
                              t->is_turned ? &src_image : &src_filter};
    vnpu_insn_t insn = dev_image_insn(VNPU_OP_MM);
    insn.func = 2;
    insn.not_first = t->accumulate;
    run_insn_ok(env, insn, ops);
    cr_assert_eq(memcmp(out, want, results * 4), 0, "case %u", (uint32_t)seed % 100);
    free(image), free(weight), free(out), free(want);
}

Test(windows, products_are_one_chain_over_the_dimensions_of_k) {
    static const conv_case_t cases[] = {
        {3, 9, 11, 3, 3, 1, 5, false, false, false, 0},
        {3, 9, 11, 3, 3, 1, 5, false, true, true, 0},
        {7, 12, 10, 3, 2, 2, 33, true, false, true, 0},
        {7, 12, 10, 3, 2, 2, 33, true, true, false, 3},
        {2, 40, 41, 5, 7, 3, 70, false, true, false, 2},
        {16, 30, 30, 3, 3, 1, 64, true, false, false, 1},
        {1, 4, 4, 4, 4, 1, 1, false, false, true, 0},
        {64, 20, 20, 3, 3, 1, 48, false, true, false, 0},
    };
    static const int levels[] = {1, 2, 5};
    for (uint32_t l = 0; l < 3; l++) {
        if (levels[l] == 5 && !__builtin_cpu_supports("avx512f")) continue;
        exec_env_t env;
        env_open(&env, 1, (dev_exec_options_t){.isa_level = levels[l], .threads = 1});
        for (uint32_t c = 0; c < sizeof cases / sizeof *cases; c++)
            check_product(&env, &cases[c], 100 + c);
        env_close(&env);
    }
}

Test(windows, dimensions_of_a_product_must_agree) {
    static const struct {
        const char *left, *right, *result, *insn, *error;
    } rows[] = {
        {"4:9, 3:3, 3:1", "3:15, 3:5, 5:1", "4:5, 5:1", "mm.k2", NULL},
        {"4:9, 3:3, 3:1", "3:15, 3:5, 5:1", "4:5, 5:1", "mm", "dst has 2 dimensions, 4 are needed"},
        {"4:9, 3:3, 3:1", "3:15, 2:5, 5:1", "4:5, 5:1", "mm.k2",
         "src0 dimension 2 has size 3, src1 dimension 1 has 2"},
        {"3:3, 3:1", "3:15, 3:5, 5:1", "5:1", "mm.k2",
         "src0 has 2 dimensions, 2 of k and 1 or more of m are needed"},
        {"4:3, 3:1", "3:1", "4:1", "mm", "src1 has 1 dimensions, 1 of k and 1 or more of n"},
        {"4:3, 3:1", "3:10, 2:5, 5:1", "4:10, 2:5, 5:1", "mm", NULL},
        {"4:3, 3:1", "3:10, 2:5, 5:1", "4:10, 5:2, 2:1", "mm",
         "dst dimension 1 has size 5, src1 dimension 1 has 2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        size_t bytes;
        snprintf(text, sizeof text,
                 ".program p\n.sram 4096\n.acc 4096\n.ap a sram f32 dims=[%s]\n.ap b sram f32 "
                 "dims=[%s]\n.ap c acc f32 dims=[%s]\n.queue matrix0\n  %s dst=c src0=a src1=b\n",
                 rows[i].left, rows[i].right, rows[i].result, rows[i].insn);
        void *image = dev_test_assemble(text, &bytes);
        dev_program_t *program = NULL;
        sim_error_t err = {0};
        sim_status_t status = dev_program_load(image, bytes, NULL, &program, &err);
        cr_assert_eq(status, rows[i].error ? SIM_ERROR_INVALID_IMAGE : SIM_OK, "row %zu: %s", i,
                     err.text);
        if (rows[i].error)
            cr_assert_not_null(strstr(err.text, rows[i].error), "row %zu: %s", i, err.text);
        dev_program_destroy(program);
        free(image);
    }
}
