#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/sim_config.h"
#include "tests/sim/alloc_count.h"
#include "tests/sim/units.h"

#define CONFIGS VNPU_SOURCE_DIR "/configs/"

static sim_config_t *load(const char *name, const char *overrides) {
    char path[512];
    sim_config_t *config;
    sim_error_t err = {0};
    (void)snprintf(path, sizeof path, CONFIGS "%s.ini", name);
    cr_assert_eq(sim_config_load(path, overrides, &config, &err), SIM_OK, "%s", err.text);
    return config;
}

/* Parses `text` as a file beside the shipped ones, so that it may include them. */
static sim_config_t *parse(const char *text, const char *overrides) {
    sim_config_t *config;
    sim_error_t err = {0};
    cr_assert_eq(sim_config_parse(text, CONFIGS "own.ini", overrides, &config, &err), SIM_OK, "%s",
                 err.text);
    return config;
}

static sim_error_t failure(const char *text, const char *overrides) {
    sim_config_t *config = (sim_config_t *)1;
    sim_error_t err = {0};
    cr_assert_eq(sim_config_parse(text, CONFIGS "own.ini", overrides, &config, &err),
                 SIM_ERROR_CONFIG, "accepted: %s %s", text, overrides);
    cr_assert_null(config);
    cr_assert_eq(err.status, SIM_ERROR_CONFIG);
    return err;
}

static void expect_failure(const char *text, const char *overrides, const char *part) {
    sim_error_t err = failure(text, overrides);
    cr_assert_not_null(strstr(err.text, part), "'%s' lacks '%s'", err.text, part);
}

static int lines_of(const char *text) {
    int lines = *text != '\0';
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

/* What a writer puts on a stream; the caller frees. */
static char *captured(void (*write)(const sim_config_t *, FILE *), const sim_config_t *config) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    cr_assert_not_null(stream);
    write(config, stream);
    cr_assert_eq(fclose(stream), 0);
    return text;
}

/* ---- shipped files ------------------------------------------------------- */

Test(config, default_chip) {
    sim_config_t *config = load("default", NULL);
    cr_assert_str_eq(sim_config_str(config, "chip.name"), "default");
    cr_assert_eq(sim_config_u64(config, "grid.cores"), 4);
    cr_assert_eq(sim_config_u64(config, "core.clock"), 1000000000);
    cr_assert_eq(sim_config_u64(config, "matrix.rows"), 128);
    cr_assert_eq(sim_config_ratio(config, "matrix.rate.f32").num, 1);
    cr_assert_eq(sim_config_ratio(config, "matrix.rate.f32").den, 4);
    cr_assert_eq(sim_config_u64(config, "sram.bytes"), 4u << 20);
    cr_assert_eq(sim_config_u64(config, "acc.bytes"), 512u << 10);
    cr_assert_eq(sim_config_u64(config, "dram.bytes"), UINT64_C(16) << 30);
    cr_assert_eq(sim_config_u64(config, "dram.frontend"), 10000);
    cr_assert_eq(sim_config_u64(config, "dram.hash"), 1);
    cr_assert_eq(sim_config_u64(config, "dram.page"), 0);
    cr_assert_str_eq(sim_config_str(config, "dram.page"), "open");
    cr_assert_eq(sim_config_u64(config, "link.bandwidth"), 32000000000u);
    cr_assert_eq(sim_config_u64(config, "host.sync"), 5000000);
    cr_assert_eq(sim_config_u64(config, "host.flops"), 100000000000u);
    cr_assert_str_eq(sim_config_text(config, "host.flops"), "100 G");
    sim_config_destroy(config);
}

Test(config, shipped_chips_have_no_contradiction) {
    static const char *const NAMES[] = {"default", "tiny"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        sim_config_t *config = load(NAMES[i], NULL);
        char text[1000];
        cr_assert_str_eq(sim_config_str(config, "chip.name"), NAMES[i]);
        cr_assert_eq(sim_config_self_check(config, text, sizeof text), 0, "%s", text);
        cr_assert_str_eq(text, "");
        sim_config_destroy(config);
    }
}

Test(config, origins_name_the_line) {
    sim_config_t *config = load("default", "dram.hash=false");
    const char *origin = sim_config_origin(config, "matrix.rows");
    cr_assert_eq(strncmp(origin, CONFIGS "default.ini:", strlen(CONFIGS "default.ini:")), 0, "%s",
                 origin);
    long number = strtol(strrchr(origin, ':') + 1, NULL, 10);
    FILE *file = fopen(CONFIGS "default.ini", "r");
    cr_assert_not_null(file);
    char line[512] = "";
    for (long i = 0; i < number; i++)
        cr_assert_not_null(fgets(line, sizeof line, file));
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(strncmp(line, "rows = 128", 10), 0, "line %ld is: %s", number, line);
    cr_assert_str_eq(sim_config_origin(config, "dram.hash"), "override");
    sim_config_destroy(config);
}

Test(config, the_schema_is_sound) {
    size_t count;
    const sim_key_t *keys = sim_schema(&count);
    cr_assert_gt(count, 90);
    for (size_t i = 0; i < count; i++) {
        cr_assert_leq(keys[i].min, keys[i].max, "%s.%s", keys[i].section, keys[i].name);
        cr_assert_eq(keys[i].choices != NULL, keys[i].type == SIM_TYPE_ENUM, "%s.%s",
                     keys[i].section, keys[i].name);
        cr_assert_eq(keys[i].text[strlen(keys[i].text) - 1], '.', "%s", keys[i].text);
        cr_assert_null(strchr(keys[i].section, '.')); /* an override is cut at the first dot */
        for (size_t j = 0; j < i; j++)
            cr_assert(strcmp(keys[i].section, keys[j].section) != 0 ||
                      strcmp(keys[i].name, keys[j].name) != 0);
        if (i > 0 && strcmp(keys[i].section, keys[i - 1].section) != 0)
            for (size_t j = 0; j < i; j++)
                cr_assert_str_neq(keys[i].section, keys[j].section, "a section in two parts");
    }
}

/* Promise: a key that has no effect is an error. Every key that can vary is named by a unit's or
 * the device's code. */
Test(config, every_key_has_a_reader) {
    size_t count;
    const sim_key_t *keys = sim_schema(&count);
    for (size_t i = 0; i < count; i++) {
        if (keys[i].is_label) continue;
        if (keys[i].type == SIM_TYPE_ENUM && strchr(keys[i].choices, '|') == NULL) continue;
        char command[512];
        (void)snprintf(
            command, sizeof command,
            "cd '%s' && grep -rqF --include='*.c' --exclude='sim_config*.c' '\"%s.%s\"' sim device",
            VNPU_SOURCE_DIR, keys[i].section, keys[i].name);
        cr_assert_eq(system(command), 0, "no unit reads %s.%s", keys[i].section, keys[i].name);
    }
}

/* ---- values -------------------------------------------------------------- */

Test(config, units) {
    static const struct {
        const char *override, *key, *text;
        uint64_t number;
    } CASES[] = {
        {"core.clock=940 MHz", "core.clock", "940 MHz", 940000000},
        {"core.clock=1.05GHz", "core.clock", "1050 MHz", 1050000000},
        {"core.clock=1000000000 Hz", "core.clock", "1 GHz", 1000000000},
        {"core.clock = 1.000000001 GHz", "core.clock", "1000000001 Hz", 1000000001},
        {"dram.frontend=0.625 ns", "dram.frontend", "625 ps", 625},
        {"dram.frontend=1.5us", "dram.frontend", "1500 ns", 1500000},
        {"dram.frontend=0 ps", "dram.frontend", "0 ps", 0},
        {"dram.frontend=1 ms", "dram.frontend", "1 ms", 1000000000},
        {"sram.bytes=65536", "sram.bytes", "64 KiB", 65536},
        {"sram.bytes=1.5 MiB", "sram.bytes", "1536 KiB", 1572864},
        {"sram.bytes=2 MB", "sram.bytes", "2000000 B", 2000000},
        {"sram.bytes=128 kB", "sram.bytes", "125 KiB", 128000},
        {"link.bandwidth=0.5 TB/s", "link.bandwidth", "500 GB/s", 500000000000u},
        {"link.bandwidth=1 GiB/s", "link.bandwidth", "1073741824 B/s", 1073741824},
        {"host.flops=2.5 T", "host.flops", "2500 G", 2500000000000u},
        {"host.flops=123456789", "host.flops", "123456789", 123456789},
        {"grid.cores=07", "grid.cores", "7", 7},
        {"matrix.rows=1 k", "matrix.rows", "1000", 1000},
        {"dram.trfc=100 cycles", "dram.trfc", "100", 100},
        {"dram.hash=no", "dram.hash", "false", 0},
        {"dram.hash=on", "dram.hash", "true", 1},
        {"dram.page=closed", "dram.page", "closed", 1},
        {"dram.placement=physical", "dram.placement", "physical", 1},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        sim_config_t *config = load("default", CASES[i].override);
        cr_assert_eq(sim_config_u64(config, CASES[i].key), CASES[i].number, "%s",
                     CASES[i].override);
        cr_assert_str_eq(sim_config_text(config, CASES[i].key), CASES[i].text);
        cr_assert_str_eq(sim_config_origin(config, CASES[i].key), "override");
        sim_config_destroy(config);
    }
}

Test(config, ratios) {
    static const struct {
        const char *value;
        uint32_t num, den;
        const char *text;
    } CASES[] = {{"1/4", 1, 4, "1/4"},
                 {"2/8", 1, 4, "1/4"},
                 {"0.25", 1, 4, "1/4"},
                 {"2", 2, 1, "2"},
                 {"0", 0, 1, "0"},
                 {"0.0", 0, 1, "0"},
                 {"0/7", 0, 1, "0"},
                 {"16", 16, 1, "16"},
                 {"1.5", 3, 2, "3/2"},
                 {"3 / 2", 3, 2, "3/2"},
                 {"1/4294967295", 1, 4294967295u, "1/4294967295"}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char override[64];
        (void)snprintf(override, sizeof override, "matrix.rate.i8=%s", CASES[i].value);
        sim_config_t *config = load("default", override);
        sim_ratio_t ratio = sim_config_ratio(config, "matrix.rate.i8");
        cr_assert_eq(ratio.num, CASES[i].num, "%s", CASES[i].value);
        cr_assert_eq(ratio.den, CASES[i].den, "%s", CASES[i].value);
        cr_assert_str_eq(sim_config_text(config, "matrix.rate.i8"), CASES[i].text);
        sim_config_destroy(config);
    }
}

Test(config, wrong_values_say_why) {
    static const struct {
        const char *override, *part;
    } CASES[] = {
        {"core.clock=1000000000", "core.clock = '1000000000': needs a unit: Hz, kHz, MHz or GHz"},
        {"core.clock=1 ns", "unit 'ns' is not Hz, kHz, MHz or GHz"},
        {"core.clock=1 ghz", "unit 'ghz' is not"},
        {"core.clock=8.000000001 GHz", "out of range 1 MHz .. 8 GHz"},
        {"core.clock=0.9999999999 GHz", "not a whole number of the smallest unit"},
        {"core.clock=fast", "expected a number"},
        {"core.clock=-1 GHz", "expected a number"},
        {"core.clock=1. GHz", "expected a number"},
        {"core.clock=.5 GHz", "expected a number"},
        {"core.clock=99999999999999999999 GHz", "expected a number"},
        {"core.clock=99999999999999 GHz", "does not fit 64 bits"},
        {"core.clock=", "has no value"},
        {"grid.cores=0", "out of range 1 .. 256"},
        {"grid.cores=257", "out of range 1 .. 256"},
        {"grid.cores=4 KiB", "unit 'KiB' is not none, k, M, G or T"},
        {"grid.cores=1.5", "not a whole number"},
        {"sram.bytes=4 mb", "unit 'mb' is not B, KiB"},
        {"sram.bytes=1023", "out of range 1 KiB .. 1 GiB"},
        {"dram.tcl=10 ns", "unit 'ns' is not none or cycles"},
        {"dram.frontend=10", "needs a unit: ps, ns"},
        {"dram.hash=maybe", "expected true or false"},
        {"dram.page=half", "expected one of open|closed"},
        {"dram.page=ope", "expected one of open|closed"},
        {"noc.type=star", "expected one of crossbar|ring|mesh|torus"},
        {"matrix.rate.i8=1/0", "the second not 0"},
        {"matrix.rate.i8=16.001", "out of range 0 .. 16"},
        {"matrix.rate.i8=1/2/3", "after a ratio"},
        {"matrix.rate.i8=0.00000000001", "32-bit"},
        {"vector.passes.alu=1025", "out of range 0 .. 1024"},
        {"dram.write_high=0", "out of range 1/1024 .. 1"},
        {"dma.transpose_factor=1/2", "out of range 1 .. 1024"},
        {"chip.name=", "has 0 bytes, allowed are 1 .. 63"},
        {"chip.note=a ; b", "which begins a comment"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        expect_failure("include = default.ini\n", CASES[i].override, CASES[i].part);
        cr_assert_eq(lines_of(failure("include = default.ini\n", CASES[i].override).text), 1, "%s",
                     CASES[i].override);
    }
}

Test(config, limits_are_inclusive) {
    sim_config_t *config =
        load("default", "grid.cores=256,core.clock=8 GHz,sram.bytes=1 KiB,matrix.rate.i8=16");
    cr_assert_eq(sim_config_u64(config, "grid.cores"), 256);
    cr_assert_eq(sim_config_u64(config, "core.clock"), 8000000000u);
    sim_config_destroy(config);
}

/* ---- keys ---------------------------------------------------------------- */

Test(config, unknown_keys_name_line_and_nearest) {
    expect_failure("include = default.ini\n[matrix]\nrows = 8\nrwos = 8\n", "",
                   "own.ini:4: unknown key 'matrix.rwos', did you mean 'matrix.rows'?");
    expect_failure("include = default.ini\n\n; comment\n[dram]\n\ntRCD = 8\n", "",
                   "own.ini:6: unknown key 'dram.tRCD'");
    expect_failure("include = default.ini\n[matirx]\nrows = 8\n", "",
                   "own.ini:2: unknown section '[matirx]', did you mean '[matrix]'?");
    expect_failure("include = default.ini\n[empty]\n", "", "unknown section '[empty]'");
    expect_failure("include = default.ini\n", "grid.core=2",
                   "override: unknown key 'grid.core', did you mean 'grid.cores'?");
    expect_failure("include = default.ini\n", "gird.cores=2", "did you mean 'grid.cores'?");
    expect_failure("include = default.ini\nrows = 8\n", "", "own.ini:2: unknown key 'rows'");
    /* A known key of another section is not found by its name alone. */
    expect_failure("include = default.ini\n[grid]\nrows = 8\n", "",
                   "own.ini:3: unknown key 'grid.rows'");
}

Test(config, repeated_keys_name_both_lines) {
    expect_failure("include = default.ini\n[matrix]\nrows = 8\ncols = 8\nrows = 8\n", "",
                   "own.ini:5: matrix.rows is set twice, first at " CONFIGS "own.ini:3");
    expect_failure(
        "include = default.ini\n[matrix]\nrows = 8\n[grid]\ncores = 2\n[matrix]\nrows = 4\n", "",
        "own.ini:7: matrix.rows is set twice");
    expect_failure("include = default.ini\n", "grid.cores=1,grid.workers=1,grid.cores=1",
                   "grid.cores is given twice");
}

Test(config, missing_keys_are_named) {
    sim_error_t err = failure("[chip]\nname = x\n", "");
    cr_assert_not_null(strstr(err.text, "own.ini: required key 'grid.cores' is missing"));
    cr_assert_null(strstr(err.text, "chip.name"));
    cr_assert_null(strstr(err.text, "chip.note")); /* has a default */
}

Test(config, defaults_fill_what_is_left_out) {
    sim_config_t *full = load("tiny", NULL);
    char *text = captured(sim_config_write_effective, full);
    char *line = strstr(text, "queue_depth");
    cr_assert_not_null(line);
    memset(line, ';', 1);
    sim_config_t *config = parse(text, NULL);
    cr_assert_eq(sim_config_u64(config, "cmd.queue_depth"), 1024);
    cr_assert_str_eq(sim_config_origin(config, "cmd.queue_depth"), "default");
    sim_config_destroy(config);
    sim_config_destroy(full);
    free(text);
}

Test(config, lines_that_are_nothing_are_refused) {
    expect_failure("include = default.ini\n[matrix]\nrows 8\n", "",
                   "own.ini:3: not a comment, [section] or key = value");
    expect_failure("include = default.ini\n[matrix\nrows = 8\n", "", "own.ini:2: not a comment");
    expect_failure("include = default.ini\n[matrix] rows = 8\n", "", "own.ini:2: not a comment");
    expect_failure("include = default.ini\n[]\n", "", "own.ini:2: unknown section '[]'");
    expect_failure("include = default.ini\nrows", "", "own.ini:2: not a comment");
}

/* The library alone would join an indented line to the one before, as more of its value. */
Test(config, indentation_comments_and_line_ends) {
    sim_config_t *config = parse("\xEF\xBB\xBFinclude = tiny.ini\r\n"
                                 "# comment = 1\r\n"
                                 "; comment = 2\r\n"
                                 "\r\n"
                                 "  [matrix] ; section\r\n"
                                 "\trows = 16 ; half of it = 8\r\n"
                                 "   cols=32\r\n"
                                 "[chip]\r\n"
                                 "note = a;b # c = [d]",
                                 NULL);
    cr_assert_eq(sim_config_u64(config, "matrix.rows"), 16);
    cr_assert_eq(sim_config_u64(config, "matrix.cols"), 32);
    cr_assert_str_eq(sim_config_origin(config, "matrix.cols"), CONFIGS "own.ini:7");
    cr_assert_str_eq(sim_config_str(config, "chip.note"), "a;b # c = [d]");
    sim_config_destroy(config);
}

/* The library alone cuts a line at 197 bytes and takes the rest for another line. */
Test(config, long_values_are_whole_and_do_not_move_line_numbers) {
    static const size_t LENGTHS[] = {150, 180, 186, 187, 188, 189, 190, 191, 192, 193, 194,  195,
                                     196, 197, 198, 199, 200, 201, 202, 203, 300, 397, 1000, 4096};
    for (size_t i = 0; i < sizeof LENGTHS / sizeof LENGTHS[0]; i++) {
        char text[5000], note[4097];
        for (size_t n = 0; n < LENGTHS[i]; n++)
            note[n] = (char)(n % 9 == 8 ? '=' : 'a' + n % 7);
        note[LENGTHS[i]] = '\0';
        (void)snprintf(text, sizeof text,
                       "include = tiny.ini\n[chip]\nnote = %s ; tail\n[matrix]\nrwos = 1\n", note);
        sim_error_t err = failure(text, "");
        cr_assert_eq(lines_of(err.text), 1, "%s", err.text);
        cr_assert_not_null(strstr(err.text, "own.ini:5: unknown key 'matrix.rwos'"), "%s",
                           err.text);
        strstr(text, "rwos")[1] = 'o', strstr(text, "roos")[2] = 'w';
        sim_config_t *config = parse(text, NULL);
        cr_assert_str_eq(sim_config_str(config, "chip.note"), note, "length %zu", LENGTHS[i]);
        char *effective = captured(sim_config_write_effective, config);
        sim_config_t *again = parse(effective, NULL);
        cr_assert_str_eq(sim_config_str(again, "chip.note"), note);
        free(effective);
        sim_config_destroy(again);
        sim_config_destroy(config);
    }
    char text[5000];
    memset(text, 'x', sizeof text);
    (void)snprintf(text + 4500, sizeof text - 4500, " = 1\n");
    expect_failure(text, "", "own.ini:1: not a comment"); /* no key is that long */
}

Test(config, all_errors_are_reported) {
    const char *text =
        "include = default.ini\n[matrix]\nrows = 0\nrwos = 1\ncols = 1 MiB\n[dram]\ntcl = x\n";
    sim_error_t err = failure(text, "grid.cores=0,grid.corse=1");
    cr_assert_eq(lines_of(err.text), 6, "%s", err.text);
    static const char *const PARTS[] = {":3: matrix.rows",
                                        ":4: unknown key",
                                        ":5: matrix.cols",
                                        ":7: dram.tcl",
                                        "override: grid.cores = '0'",
                                        "override: unknown key 'grid.corse'"};
    for (size_t i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++)
        cr_assert_not_null(strstr(err.text, PARTS[i]), "'%s' lacks '%s'", err.text, PARTS[i]);
    /* Too many for the text: the rest is counted. */
    err = failure("[chip]\nname = x\n", "");
    int more = 0;
    const char *tail = strrchr(err.text, '\n');
    cr_assert_not_null(tail);
    cr_assert_eq(sscanf(tail, "\nand %d more", &more), 1, "%s", err.text);
    size_t count, required = 0;
    const sim_key_t *keys = sim_schema(&count);
    for (size_t i = 0; i < count; i++)
        required += keys[i].default_text == NULL;
    cr_assert_eq((size_t)(lines_of(err.text) - 1 + more), required - 1); /* chip.name is there */
}

Test(config, overrides) {
    sim_config_t *config = load("default", " grid.cores = 2 ,, matrix.rate.f32=1 ,");
    cr_assert_eq(sim_config_u64(config, "grid.cores"), 2);
    cr_assert_eq(sim_config_ratio(config, "matrix.rate.f32").den, 1);
    cr_assert_str_eq(sim_config_origin(config, "grid.cores"), "override");
    sim_config_destroy(config);
    sim_config_destroy(load("default", ""));
    expect_failure("include = default.ini\n", "grid.cores",
                   "override 'grid.cores': not section.key=value");
    expect_failure("include = default.ini\n", "cores=2",
                   "override 'cores=2': not section.key=value");
    expect_failure("include = default.ini\n", "cores=2.5",
                   "override 'cores=2.5': not section.key=value");
}

/* ---- includes ------------------------------------------------------------ */

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s", path);
    cr_assert_geq(fputs(text, file), 0);
    cr_assert_eq(fclose(file), 0);
}

Test(config, include_gives_the_base_and_its_lines) {
    char folder[] = "/tmp/vnpu-config-XXXXXX", base[64], leaf[64];
    cr_assert_not_null(mkdtemp(folder));
    (void)snprintf(base, sizeof base, "%s/base.ini", folder);
    (void)snprintf(leaf, sizeof leaf, "%s/leaf.ini", folder);
    write_file(base, "include = " CONFIGS "tiny.ini\n[matrix]\nrows = 16\ncols = 16\n");
    write_file(leaf, "; over the base\ninclude = base.ini\n[matrix]\nrows = 32\n");
    sim_config_t *config;
    sim_error_t err = {0};
    char origin[128];
    cr_assert_eq(sim_config_load(leaf, NULL, &config, &err), SIM_OK, "%s", err.text);
    cr_assert_eq(sim_config_u64(config, "matrix.rows"), 32);
    cr_assert_eq(sim_config_u64(config, "matrix.cols"), 16);
    (void)snprintf(origin, sizeof origin, "%s:4", leaf);
    cr_assert_str_eq(sim_config_origin(config, "matrix.rows"), origin);
    (void)snprintf(origin, sizeof origin, "%s:4", base);
    cr_assert_str_eq(sim_config_origin(config, "matrix.cols"), origin);
    sim_config_destroy(config);

    write_file(base, "include = " CONFIGS "tiny.ini\n\n[matrix]\nrosw = 16\n");
    cr_assert_eq(sim_config_load(leaf, NULL, &config, &err), SIM_ERROR_CONFIG);
    (void)snprintf(origin, sizeof origin, "%s:4: unknown key 'matrix.rosw'", base);
    cr_assert_not_null(strstr(err.text, origin), "%s", err.text);

    write_file(base, "include = leaf.ini\n"); /* a circle */
    err = (sim_error_t){0};
    cr_assert_eq(sim_config_load(leaf, NULL, &config, &err), SIM_ERROR_CONFIG);
    cr_assert_not_null(strstr(err.text, "includes are nested deeper than 8"), "%s", err.text);
    cr_assert_eq(unlink(base) + unlink(leaf) + rmdir(folder), 0);
}

Test(config, includes_come_first_and_the_later_one_counts) {
    expect_failure("[matrix]\nrows = 8\ninclude = tiny.ini\n", "",
                   "own.ini:3: unknown key 'matrix.include'");
    expect_failure("grid.cores = 2\ninclude = default.ini\n", "",
                   "own.ini:2: includes come before everything else");
    sim_config_t *config = parse("include = default.ini\ninclude = dram/gddr6-14000.ini\n"
                                 "[dram]\ntrp = 28\n",
                                 "");
    cr_assert_str_eq(sim_config_text(config, "dram.standard"), "GDDR6 14 Gb/s");
    cr_assert_eq(sim_config_u64(config, "dram.trp"), 28);
    cr_assert_eq(sim_config_u64(config, "dram.tcl"), 24);
    cr_assert_eq(sim_config_u64(config, "grid.cores"), 4);
    sim_config_destroy(config);
    expect_failure("include = none.ini\n", "", "own.ini:1: cannot open '" CONFIGS "none.ini'");
}

Test(config, files_that_cannot_be_read) {
    sim_config_t *config;
    sim_error_t err = {0};
    cr_assert_eq(sim_config_load(CONFIGS "none.ini", NULL, &config, &err), SIM_ERROR_IO);
    cr_assert_null(config);
    cr_assert_not_null(strstr(err.text, "none.ini"));
    err = (sim_error_t){0};
    cr_assert_eq(sim_config_load(CONFIGS, NULL, &config, &err), SIM_ERROR_IO); /* a folder */
    char path[] = "/tmp/vnpu-config-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, "[chip]\nname\0 = x\n", 17), 17);
    err = (sim_error_t){0};
    cr_assert_eq(sim_config_load(path, NULL, &config, &err), SIM_ERROR_IO);
    cr_assert_not_null(strstr(err.text, "zero byte"), "%s", err.text);
    cr_assert_eq(ftruncate(fd, 2 << 20), 0);
    err = (sim_error_t){0};
    cr_assert_eq(sim_config_load(path, NULL, &config, &err), SIM_ERROR_IO);
    cr_assert_not_null(strstr(err.text, "larger than 1 MiB"), "%s", err.text);
    cr_assert_eq(close(fd) + unlink(path), 0);
}

/* ---- effective configuration and hash ------------------------------------ */

Test(config, effective_round_trip) {
    static const char *const OVERRIDES[] = {
        "", "core.clock=1.05 GHz,matrix.rate.i8=3/7,dram.hash=false,chip.note=a = b"};
    static const char *const NAMES[] = {"default", "tiny"};
    for (int i = 0; i < 4; i++) {
        sim_config_t *config = load(NAMES[i % 2], OVERRIDES[i / 2]);
        char *text = captured(sim_config_write_effective, config);
        sim_config_t *again = parse(text, NULL);
        cr_assert_eq(sim_config_hash(again), sim_config_hash(config));
        size_t count;
        const sim_key_t *keys = sim_schema(&count);
        for (size_t k = 0; k < count; k++) {
            char name[128];
            (void)snprintf(name, sizeof name, "%s.%s", keys[k].section, keys[k].name);
            cr_assert_str_eq(sim_config_text(again, name), sim_config_text(config, name), "%s",
                             name);
        }
        sim_config_destroy(again);
        sim_config_destroy(config);
        free(text);
    }
}

/* What a key needs beside it to have an effect. */
static const char *base_of(const sim_key_t *key) {
    bool is_routed = strcmp(key->section, "noc") == 0 && key->default_text != NULL;
    if (is_routed) return "noc.type=torus,noc.columns=16,noc.latency_cycles=0";
    if (strcmp(key->name, "stream_elems") == 0) return "matrix.gap_cycles=1";
    if (strcmp(key->name, "interleave_bytes") == 0) return "sram.banks=8";
    bool is_dram = strcmp(key->section, "dram") == 0 && key->default_text != NULL;
    return is_dram ? "dram.window=8,dram.trefipb=390,dram.trfcpb=100" : "";
}

/* Another valid value for `name`, as overrides; false if there is none. */
static bool other_value(const sim_key_t *key, const char *name, const sim_config_t *config,
                        char *override, size_t bytes) {
    char candidate[12][96];
    int count = 0;
    uint64_t now = key->type == SIM_TYPE_STRING || key->type == SIM_TYPE_RATIO
                       ? 0
                       : sim_config_u64(config, name);
    switch (key->type) {
    case SIM_TYPE_RATIO:
        (void)snprintf(candidate[count++], 96, "17/16");
        (void)snprintf(candidate[count++], 96, "1/2"); /* parts of a whole */
        break;
    case SIM_TYPE_BOOL:
        (void)snprintf(candidate[count++], 96, "%s", now != 0 ? "false" : "true");
        break;
    case SIM_TYPE_STRING:
        (void)snprintf(candidate[count++], 96, "another");
        (void)snprintf(candidate[count++], 96, "0-3:0"); /* nodes */
        (void)snprintf(candidate[count++], 96, "128:5"); /* rates */
        (void)snprintf(candidate[count++], 96, "8x128"); /* tiles */
        break;
    case SIM_TYPE_ENUM: {
        if (strchr(key->choices, '|') == NULL) return false; /* one choice */
        for (const char *choice = key->choices; choice != NULL && count < 12;) {
            (void)snprintf(candidate[count++], 96, "%.*s", (int)strcspn(choice, "|"), choice);
            choice = strchr(choice, '|');
            if (choice != NULL) choice++;
        }
        break;
    }
    case SIM_TYPE_COUNT:
    case SIM_TYPE_BYTES:
    case SIM_TYPE_HZ:
    case SIM_TYPE_PS:
    case SIM_TYPE_BYTES_PER_S:
    case SIM_TYPE_CYCLES: {
        const char *unit = key->type == SIM_TYPE_HZ            ? "Hz"
                           : key->type == SIM_TYPE_PS          ? "ps"
                           : key->type == SIM_TYPE_BYTES_PER_S ? "B/s"
                                                               : "";
        const uint64_t values[] = {now + 1, now - 1, now * 2, now / 2, 1 << 20}; /* whole lines */
        for (int i = 0; i < 5; i++)
            (void)snprintf(candidate[count++], 96, "%lu %s", (unsigned long)values[i], unit);
        break;
    }
    }
    for (int i = 0; i < count; i++) {
        sim_config_t *changed;
        char item[224];
        (void)snprintf(item, sizeof item, "%s=%.90s", name, candidate[i]);
        (void)snprintf(override, bytes, "%s", merged(base_of(key), item));
        if (sim_config_load(CONFIGS "default.ini", override, &changed, NULL) != SIM_OK) continue;
        bool differs = strcmp(sim_config_text(changed, name), sim_config_text(config, name)) != 0;
        sim_config_destroy(changed);
        if (differs) return true;
    }
    cr_assert_fail("no other value for %s", name);
    return false;
}

Test(config, the_hash_follows_every_key_but_labels) {
    size_t count;
    const sim_key_t *keys = sim_schema(&count);
    int labels = 0, fixed = 0;
    for (size_t i = 0; i < count; i++) {
        char name[128], override[512];
        (void)snprintf(name, sizeof name, "%s.%s", keys[i].section, keys[i].name);
        labels += keys[i].is_label;
        sim_config_t *config = load("default", base_of(&keys[i]));
        uint64_t hash = sim_config_hash(config);
        bool has_other = other_value(&keys[i], name, config, override, sizeof override);
        sim_config_destroy(config);
        if (!has_other) {
            fixed++;
            continue;
        }
        sim_config_t *changed = load("default", override);
        if (keys[i].is_label)
            cr_assert_eq(sim_config_hash(changed), hash, "%s", override);
        else
            cr_assert_neq(sim_config_hash(changed), hash, "%s", override);
        sim_config_destroy(changed);
    }
    cr_assert_eq(labels, 4); /* chip.name, chip.note, grid.class, dram.standard */
    cr_assert_eq(fixed, 1);  /* timing.data: one choice yet */
}

Test(config, the_hash_does_not_hang_on_spelling) {
    sim_config_t *a =
        load("default", "sram.bytes=4096 KiB,core.clock=1000 MHz,matrix.rate.f32=0.25");
    sim_config_t *b = load("default", NULL);
    cr_assert_eq(sim_config_hash(a), sim_config_hash(b));
    sim_config_destroy(a);
    sim_config_destroy(b);
}

/* ---- what keys say together ---------------------------------------------- */

Test(config, contradictions_are_errors) {
    static const struct {
        const char *override, *part;
    } CASES[] = {
        {"grid.workers=5", "grid.cores = 4 is below grid.workers = 5"},
        {"dma.outstanding_bytes=2 KiB",
         "dma.outstanding_bytes = 2 KiB is below dma.request_bytes = 4 KiB"},
        {"dram.tras=22", "dram.tras = 22 is below dram.trcdrd = 23"},
        {"dram.tccd_l=1", "dram.tccd_l = 1 is below dram.tccd_s = 2"},
        {"dram.trefi=560", "dram.trefi = 560 leaves no time beside dram.trfc = 560"},
        {"dram.burst_bytes=48", "dram.row_bytes is not a multiple of dram.burst_bytes"},
        {"dram.channels=24", "dram.bytes is not a multiple"},
        {"matrix.switch_cycles=1,matrix.weight_buffers=3",
         "matrix.switch_cycles needs weights or inputs that are loaded into at most two buffers"},
        {"matrix.switch_cycles=1,matrix.dataflow=output_stationary",
         "matrix.dataflow = output_stationary"},
        {"matrix.operands=broadcast,matrix.overlap=false", "matrix.overlap = false has no effect"},
        {"matrix.stream_elems=32", "matrix.stream_elems = 32 has no effect"},
        {"layout.tile=8*128", "layout.tile = 8*128: it must be none, or rows x columns"},
        {"matrix.f32=bf16x6,matrix.rate.bf16=0", "matrix.f32 = bf16x6 needs matrix.rate.bf16"},
        {"matrix.f32=bf16x6,matrix.rate.bf16=1/500000000", "is too fine"},
        {"dma.aligned_requests=true,dma.bytes_per_cycle=96 B",
         "dma.aligned_requests = true needs dma.bytes_per_cycle = 96 B and dma.request_bytes = "
         "4 KiB as powers of two"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        expect_failure("include = default.ini\n", CASES[i].override, CASES[i].part);
    sim_config_destroy(load("default", "grid.workers=4,dram.trefi=0"));
}

Test(config, oddities_are_warnings) {
    static const struct {
        const char *override, *part;
    } CASES[] = {
        {"dma.bytes_per_cycle=512",
         "dma.bytes_per_cycle: an engine moves 512 GB/s, a core's port 256 GB/s"},
        {"noc.memory_bytes_per_cycle=512", "memory ports carry 512 GB/s of the DRAM's 819.2"},
        {"noc.type=mesh,noc.columns=4,noc.latency_cycles=0,noc.memory_bytes_per_cycle=256",
         "memory ports carry 512 GB/s of the DRAM's 819.2"},
        {"noc.clock=500 MHz", "all cores' ports carry 512 GB/s"},
        {"grid.workers=2", "all cores' ports carry 512 GB/s"},
        {"sram.banks=2",
         "matrix.rate.bf16: the array eats 256 bytes per cycle of bf16, the scratchpad gives 128"},
        {"vector.lanes=1025", "vector.lanes: one f32 operand needs 4100 bytes"},
        {"acc.banks=1",
         "matrix.rate.bf16: results take 512 bytes per cycle, the accumulator takes 256"},
        {"matrix.load_rows_per_cycle=129", "the array has 128 rows"},
        {"matrix.load_rows_per_cycle=9",
         "f32 weights need 4608 bytes per cycle, the scratchpad gives 4096"},
        {"dma.outstanding_bytes=4 KiB", "dma.outstanding_bytes: limits an engine to"},
        {"dma.outstanding_requests=1", "dma.outstanding_requests: limits an engine to"},
        {"dram.tccd_s=3", "dram.tccd_s: longer than a burst"},
        {"host.clock=wall", "host.clock = wall"},
        {"matrix.split=best", "override: matrix.split: without effect, there is one array"},
        {"dram.refresh=per_bank,dram.trfcpb=320,dram.trefipb=390",
         "dram.trfc: without effect, one bank refreshes at a time"},
        {"dram.trfcpb=320", "override: dram.trfcpb: without effect, all banks refresh together"},
        {"dram.write_low=1/4", "override: dram.write_low: without effect, dram.window = 1"},
        {"matrix.f32=bf16x3", "matrix.rate.f32: without effect, matrix.f32 makes f32 products"},
        {"matrix.step=20,matrix.rate.f32=0",
         "matrix.rate.bf16: the array eats 5120 bytes per cycle of bf16"},
        {"matrix.dataflow=output_stationary,matrix.step=4,matrix.count=4",
         "matrix.rate.bf16: the array eats 5120 bytes per cycle of bf16"},
        {"matrix.count=8", "matrix.rate.i8: results take 8192 bytes per cycle"},
        {"matrix.dataflow=output_stationary,matrix.load_rows_per_cycle=9",
         "matrix.rate.f32: results take 4608 bytes per cycle"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        sim_config_t *config = load("default", CASES[i].override);
        char text[2000];
        int count = sim_config_self_check(config, text, sizeof text);
        cr_assert_gt(count, 0, "%s", CASES[i].override);
        cr_assert_eq(count, lines_of(text) - 1, "%s", text); /* each ends with a newline */
        cr_assert_not_null(strstr(text, CASES[i].part), "%s: '%s' lacks '%s'", CASES[i].override,
                           text, CASES[i].part);
        char small[16];
        cr_assert_eq(sim_config_self_check(config, small, sizeof small), count);
        cr_assert_eq(strncmp(small, text, sizeof small - 1), 0);
        sim_config_destroy(config);
    }
}

Test(config, the_summary_tells_peaks) {
    sim_config_t *config = load("default", "matrix.rate.f16=0");
    char *text = captured(sim_config_write_summary, config);
    static const char *const PARTS[] = {"32.77 TOPS",
                                        "131.1 TOPS",
                                        "262.1 TOPS",
                                        "819.2 GB/s peak",
                                        "745.7 GB/s",
                                        "ridge point 160",
                                        "4096 GB/s a core",
                                        "29.26 GB/s",
                                        "peak f16        none",
                                        "256 GB/s a link, crossbar; 1 memory endpoints send 1024",
                                        "20 ns of an idle read",
                                        "best, tensors stored in tiles: none"};
    for (size_t i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++)
        cr_assert_not_null(strstr(text, PARTS[i]), "'%s' lacks '%s'", text, PARTS[i]);
    free(text);
    sim_config_destroy(config);
    config = load("default", "matrix.count=2,matrix.step=3,matrix.f32=bf16x3");
    text = captured(sim_config_write_summary, config);
    cr_assert_not_null(strstr(text, "peak f32       262.1 TOPS"), "%s", text); /* 131.1 x 6 / 3 */
    cr_assert_not_null(strstr(text, "2 weight_stationary array of 128 x 128 x 3"), "%s", text);
    free(text);
    sim_config_destroy(config);
    config =
        load("default", "noc.type=ring,noc.columns=4,noc.latency_cycles=0,noc.memory_nodes=0:0 "
                        "2:0,noc.memory_inject=100,noc.hop_cycles=10");
    text = captured(sim_config_write_summary, config); /* two endpoints; 1 hop of 4 on average */
    cr_assert_not_null(strstr(text, "ring; 2 memory endpoints send 200 GB/s"), "%s", text);
    cr_assert_not_null(strstr(text, "24 ns of an idle read"), "%s", text); /* 2 x (1 + 10 + 1) */
    free(text);
    sim_config_destroy(config);
}

/* ---- failures ------------------------------------------------------------ */

Test(config, load_fails_cleanly_at_every_allocation) {
    sim_config_t *config;
    unsigned long n = 0;
    for (;; n++) {
        sim_error_t err = {0};
        alloc_count_reset();
        alloc_fail_from(n);
        config = (sim_config_t *)1;
        sim_status_t status = sim_config_parse(
            "include = tiny.ini\n[chip]\nnote = "
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
            CONFIGS "own.ini", "grid.workers=1", &config, &err);
        if (status == SIM_OK) break;
        cr_assert_eq(status, SIM_ERROR_OUT_OF_MEMORY, "allocation %lu: %s", n, err.text);
        cr_assert_null(config);
        cr_assert_eq(alloc_live(), 0, "allocation %lu leaks", n);
    }
    cr_assert_gt(n, 200);
    sim_config_destroy(config);
    cr_assert_eq(alloc_live(), 0);
    sim_config_destroy(NULL);
}

Test(config, an_unknown_name_in_code_aborts, .signal = SIGABRT) {
    (void)sim_config_u64(load("default", NULL), "grid.corse");
}

Test(config, a_wrong_type_in_code_aborts, .signal = SIGABRT) {
    (void)sim_config_u64(load("default", NULL), "matrix.rate.f32");
}
