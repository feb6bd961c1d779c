/* Core classes of a configuration. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim_config.h"
#include "sim/sim_matrix.h"
#include "sim/sim_noc.h"
#include "tests/sim/alloc_count.h"

#define CONFIGS VNPU_SOURCE_DIR "/configs/"
#define TWO                                                                                        \
    "include = tiny.ini\n[grid]\nclass = cube\n[class vec]\ncount = 3\nworkers = 2\n"              \
    "vector.lanes = 32\nmatrix.count = 0\nsram.bytes = 32 KiB\n"

static sim_config_t *parse(const char *text, const char *overrides) {
    sim_config_t *config;
    sim_error_t err = {0};
    cr_assert_eq(sim_config_parse(text, CONFIGS "own.ini", overrides, &config, &err), SIM_OK, "%s",
                 err.text);
    return config;
}

static void expect_failure(const char *text, const char *overrides, const char *part) {
    sim_config_t *config = (sim_config_t *)1;
    sim_error_t err = {0};
    cr_assert_eq(sim_config_parse(text, CONFIGS "own.ini", overrides, &config, &err),
                 SIM_ERROR_CONFIG, "accepted: %s", text);
    cr_assert_null(config);
    cr_assert_not_null(strstr(err.text, part), "'%s' lacks '%s'", err.text, part);
}

static char *written(void (*write)(const sim_config_t *, FILE *), const sim_config_t *config) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    cr_assert_not_null(stream);
    write(config, stream);
    cr_assert_eq(fclose(stream), 0);
    return text;
}

Test(class, a_chip_without_sections_has_one) {
    sim_config_t *config = parse("include = tiny.ini\n", "grid.cores=3,grid.workers=2");
    cr_assert_eq(sim_config_classes(config), 1);
    cr_assert_eq(sim_config_class(config, 0), config);
    cr_assert_str_eq(sim_config_class_name(config, 0), "core");
    cr_assert_eq(sim_config_cores(config), 3);
    sim_config_destroy(config);
}

Test(class, a_section_adds_cores_that_differ_by_its_keys) {
    sim_config_t *config = parse(TWO, NULL);
    cr_assert_eq(sim_config_classes(config), 2);
    cr_assert_str_eq(sim_config_class_name(config, 0), "cube");
    cr_assert_str_eq(sim_config_class_name(config, 1), "vec");
    const sim_config_t *vec = sim_config_class(config, 1);
    cr_assert_eq(sim_config_u64(config, "grid.cores"), 1, "of the first class");
    cr_assert_eq(sim_config_u64(vec, "grid.cores"), 3);
    cr_assert_eq(sim_config_u64(vec, "grid.workers"), 2);
    cr_assert_eq(sim_config_cores(config), 4);
    cr_assert_eq(sim_config_cores(vec), 4, "of the chip");
    cr_assert_eq(sim_config_u64(vec, "vector.lanes"), 32);
    cr_assert_eq(sim_config_u64(config, "vector.lanes"), 8);
    cr_assert_eq(sim_config_u64(vec, "matrix.count"), 0);
    cr_assert_eq(sim_config_u64(vec, "sram.bytes"), 32 << 10);
    cr_assert_eq(sim_config_u64(vec, "dma.queues"), 2, "as the sections say");
    cr_assert_str_eq(sim_config_origin(vec, "vector.lanes"), CONFIGS "own.ini:7");
    cr_assert(sim_config_class_sets(config, 1, "vector.lanes"));
    cr_assert_not(sim_config_class_sets(config, 1, "dma.queues"));
    cr_assert(sim_config_class_sets(config, 0, "dma.queues"));
    sim_config_destroy(config);
}

/* The units read a class's view as they read a configuration. */
Test(class, units_read_the_view) {
    sim_config_t *config = parse("include = tiny.ini\n[class b]\ncount = 1\nmatrix.rows = 16\n"
                                 "core.clock = 500 MHz\n",
                                 NULL);
    sim_matrix_spec_t a, b;
    cr_assert_eq(sim_matrix_spec_from_config(config, &a), SIM_OK);
    cr_assert_eq(sim_matrix_spec_from_config(sim_config_class(config, 1), &b), SIM_OK);
    cr_assert_eq(a.rows, 8);
    cr_assert_eq(b.rows, 16);
    cr_assert_eq(b.cols, 8);
    cr_assert_eq(b.clock.hz, 500000000);
    sim_config_destroy(config);
}

Test(class, what_the_sections_change_the_class_inherits) {
    sim_config_t *config = parse(TWO, "dma.queues=1,vector.lanes=4");
    const sim_config_t *vec = sim_config_class(config, 1);
    cr_assert_eq(sim_config_u64(vec, "dma.queues"), 1);
    cr_assert_eq(sim_config_u64(vec, "vector.lanes"), 32);
    sim_config_destroy(config);
}

Test(class, overrides_and_later_files_reach_a_class) {
    sim_config_t *config =
        parse(TWO, "class vec.vector.lanes=16, class vec.count = 2,class vec.workers=0,"
                   "class b.count=1");
    cr_assert_eq(sim_config_classes(config), 3);
    const sim_config_t *vec = sim_config_class(config, 1);
    cr_assert_eq(sim_config_u64(vec, "vector.lanes"), 16);
    cr_assert_eq(sim_config_u64(vec, "grid.cores"), 2);
    cr_assert_eq(sim_config_u64(vec, "grid.workers"), 0);
    cr_assert_str_eq(sim_config_origin(vec, "vector.lanes"), "override");
    cr_assert_eq(sim_config_cores(config), 4);
    sim_config_destroy(config);
}

Test(class, the_interconnect_has_a_port_for_every_core) {
    /* 4 cores on the 2 x 2 routers left: one core more has no router. */
    const char *mesh = "noc.type=mesh,noc.latency_cycles=0,noc.columns=2,noc.rows=2,"
                       "noc.core_nodes=all,noc.memory_nodes=0:0";
    sim_config_t *config = parse(TWO, mesh);
    cr_assert_eq(sim_noc_endpoints_of(config), 1);
    sim_config_destroy(config);
    char more[256];
    (void)snprintf(more, sizeof more, "%s,class vec.count=4", mesh);
    expect_failure(TWO, more, "noc.core_nodes");
}

Test(class, wrong_sections_say_why) {
    static const struct {
        const char *text, *overrides, *part;
    } CASES[] = {
        {"include = tiny.ini\n[class b]\n", "", "required key 'class b.count' is missing"},
        {"include = tiny.ini\n", "class b.vector.lanes=3", "required key 'class b.count'"},
        {"include = tiny.ini\n[class b]\ncount = 0\n", "", "own.ini:3: class b.count = '0': out"},
        {"include = tiny.ini\n[class b]\ncount = 1\nvector.lanse = 4\n", "",
         "own.ini:4: class b: unknown key 'vector.lanse', did you mean 'vector.lanes'?"},
        {"include = tiny.ini\n[class b]\ncuont = 1\n", "", "did you mean 'count'?"},
        {"include = tiny.ini\n[class b]\ncount = 1\nnoc.clock = 1 GHz\n", "",
         "own.ini:4: class b: all classes share the key 'noc.clock'"},
        {"include = tiny.ini\n[class b]\ncount = 1\nvector.lanes = many\n", "",
         "own.ini:4: class b.vector.lanes = 'many': expected a number"},
        {"include = tiny.ini\n[class b]\ncount = 1\ncount = 2\n", "",
         "own.ini:4: class b.count is set twice, first at " CONFIGS "own.ini:3"},
        {"include = tiny.ini\n[class b]\ncount = 1\n[class b]\nvector.lanes = 4\nvector.lanes = "
         "4\n",
         "", "own.ini:6: class b.vector.lanes is set twice"},
        {"include = tiny.ini\n[class b]\ncount = 1\n", "class b.count=1,class b.count=1",
         "class b.count is given twice"},
        {"include = tiny.ini\n[class Big Core]\ncount = 1\n", "",
         "own.ini:2: class 'Big Core': a name of 1 to 31 characters"},
        {"include = tiny.ini\n[class core]\ncount = 1\n", "",
         "grid.class = core is the name of another class too"},
        {"include = tiny.ini\n[class b]\ncount = 1\nworkers = 2\n", "",
         "class b: grid.cores = 1 is below grid.workers = 2"},
        {"include = tiny.ini\n[class b]\ncount = 1\ndma.request_bytes = 8 KiB\n", "",
         "class b: dma.outstanding_bytes = 4 KiB is below dma.request_bytes = 8 KiB"},
        {"include = tiny.ini\n[class b]\ncount = 256\n", "", "257 cores together, at most 256"},
        {"include = tiny.ini\n[class b]\ncount = 1\nmatrix.count = 0\nmatrix.rows = 4\n", "",
         "class b: matrix.rows has no effect: matrix.count = 0"},
        {"include = tiny.ini\n[class b]\ncount = 1\nmatrix.count = 0\nacc.bytes = 4 KiB\n", "",
         "class b: acc.bytes has no effect: matrix.count = 0"},
        {"include = tiny.ini\n[class b]\ncount = 1\nmatrix.operands = broadcast\n",
         "matrix.overlap=false", "class b: matrix.overlap = false has no effect"},
        {"include = tiny.ini\n",
         "class a.count=1,class b.count=1,class c.count=1,class d.count=1,class e.count=1,"
         "class f.count=1,class g.count=1,class h.count=1",
         "override: class 'h': a chip has at most 8 classes"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        expect_failure(CASES[i].text, CASES[i].overrides, CASES[i].part);
}

Test(class, effective_round_trip) {
    sim_config_t *config = parse(TWO, "class vec.energy.sram_byte=77");
    char *text = written(sim_config_write_effective, config);
    cr_assert_not_null(strstr(text, "\n[class vec]\ncount = 3 ; "), "%s", text);
    cr_assert_not_null(strstr(text, "\nvector.lanes = 32 ; " CONFIGS "own.ini:7\n"));
    cr_assert_not_null(strstr(text, "\nenergy.sram_byte = 77 ; override\n"));
    cr_assert_null(strstr(text, "\ndma.queues"), "what a class inherits is not repeated");
    sim_config_t *again = parse(text, NULL);
    cr_assert_eq(sim_config_hash(again), sim_config_hash(config));
    cr_assert_eq(sim_config_classes(again), 2);
    sim_config_destroy(again);
    sim_config_destroy(config);
    free(text);
}

static uint64_t hash_of(const char *text, const char *overrides) {
    sim_config_t *config = parse(text, overrides);
    uint64_t hash = sim_config_hash(config);
    sim_config_destroy(config);
    return hash;
}

Test(class, the_hash_follows_every_key_of_a_class) {
    uint64_t base = hash_of(TWO, "class vec.matrix.count=1");
    size_t count;
    const sim_key_t *keys = sim_schema(&count);
    uint32_t tried = 0;
    for (size_t i = 0; i < count; i++) {
        if (!sim_key_is_per_class(&keys[i]) || keys[i].type == SIM_TYPE_ENUM) continue;
        if (keys[i].type == SIM_TYPE_STRING || keys[i].type == SIM_TYPE_BOOL) continue;
        char override[200];
        const char *value = keys[i].type == SIM_TYPE_HZ ? "77 MHz" : "3";
        if (strcmp(keys[i].name, "stream_elems") == 0) value = "3,class vec.matrix.gap_cycles=1";
        if (strcmp(keys[i].name, "request_bytes") == 0) value = "64";
        if (strcmp(keys[i].name, "outstanding_bytes") == 0) value = "2 KiB";
        if (strcmp(keys[i].section, "sram") == 0 || strcmp(keys[i].section, "acc") == 0)
            value = strcmp(keys[i].name, "bytes") == 0 ? "7 KiB" : "3";
        (void)snprintf(override, sizeof override, "class vec.%s.%s=%s%s", keys[i].section,
                       keys[i].name, value,
                       strcmp(keys[i].name, "count") == 0 ? "" : ",class vec.matrix.count=1");
        sim_config_t *changed;
        sim_status_t status = sim_config_parse(TWO, CONFIGS "own.ini", override, &changed, NULL);
        if (status != SIM_OK) continue; /* it needs another key beside it */
        cr_assert_neq(sim_config_hash(changed), base, "%s", override);
        sim_config_destroy(changed);
        tried++;
    }
    cr_assert_gt(tried, 40);
    cr_assert_neq(hash_of(TWO, "class vec.count=2,class vec.matrix.count=1"), base);
    cr_assert_neq(hash_of(TWO, "class vec.workers=1,class vec.matrix.count=1"), base);
    cr_assert_neq(hash_of(TWO, "class b.count=1,class vec.matrix.count=1"), base);
    cr_assert_eq(hash_of(TWO, "class vec.matrix.count=1,grid.class=other"), base, "a label");
    cr_assert_eq(hash_of(TWO, "class vec.matrix.count=1,class vec.dma.queues=2"), base,
                 "as inherited");
}

Test(class, warnings_and_summary_tell_of_each_class) {
    char text[4096];
    sim_config_t *config = parse(TWO, "class vec.dma.bytes_per_cycle=1 KiB");
    cr_assert_eq(sim_config_self_check(config, text, sizeof text), 2, "%s", text);
    cr_assert_not_null(strstr(text, "class vec.dma.bytes_per_cycle: wider than the scratchpad"),
                       "%s", text);
    char *summary = written(sim_config_write_summary, config);
    cr_assert_not_null(strstr(summary, "\nclass vec: 3 cores (2 compute) at 1 GHz, 32 lanes, no "
                                       "array\n"),
                       "%s", summary);
    free(summary);
    sim_config_destroy(config);
    /* The peak is that of all classes. */
    sim_config_t *both = parse(TWO, "class vec.matrix.count=1,class vec.matrix.rows=16");
    summary = written(sim_config_write_summary, both);
    cr_assert_not_null(strstr(summary, "peak f32        0.64 TOPS"), "%s", summary);
    free(summary);
    sim_config_destroy(both);
    config = parse("include = tiny.ini\n", "matrix.count=0");
    cr_assert_gt(sim_config_self_check(config, text, sizeof text), 0);
    cr_assert_not_null(strstr(text, "matrix.*: without effect"), "%s", text);
    sim_config_destroy(config);
}

Test(class, a_failed_allocation_leaves_nothing) {
    for (unsigned long n = 0;; n++) {
        sim_config_t *config = (sim_config_t *)1;
        sim_error_t err = {0};
        alloc_count_reset();
        alloc_fail_from(n);
        sim_status_t status = sim_config_parse(TWO, CONFIGS "own.ini", "", &config, &err);
        if (status == SIM_OK) {
            sim_config_destroy(config);
            cr_assert_eq(alloc_live(), 0);
            return;
        }
        cr_assert_eq(status, SIM_ERROR_OUT_OF_MEMORY, "allocation %lu: %s", n, err.text);
        cr_assert_eq(alloc_live(), 0, "allocation %lu leaks", n);
    }
}
