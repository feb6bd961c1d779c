/* What the keys say together: contradictions (errors), oddities (warnings), peak numbers. */
#include "sim/sim_cache.h"
#include "sim/sim_config_internal.h"
#include "sim/sim_layout.h"
#include "sim/sim_noc.h"

#include <inttypes.h>
#include <string.h>

#include "sim/sim_matrix.h"
#include "sim/sim_shared.h"

/* Element sizes of the dtypes that have a rate; of blocks, a value's share. */
static const struct {
    const char *name, *key;
    double bytes;
} DTYPES[] = {{"f32", "matrix.rate.f32", 4},           {"bf16", "matrix.rate.bf16", 2},
              {"f16", "matrix.rate.f16", 2},           {"i8", "matrix.rate.i8", 1},
              {"bfp8", "matrix.rate.bfp8", 17.0 / 16}, {"bfp4", "matrix.rate.bfp4", 9.0 / 16}};
#define DTYPE_COUNT  (sizeof DTYPES / sizeof DTYPES[0])
#define DTYPE_COMMON 4u /* of them: a chip without them says so */

static uint64_t get(const sim_config_t *config, const char *key) {
    return sim_config_u64(config, key);
}

/* ---- errors -------------------------------------------------------------- */

/* Pairs of which the first must not be below the second; of a class of cores, of the chip. */
typedef struct ordered {
    const char *large, *small, *why;
} ordered_t;
static const ordered_t ORDERED_CORE[] = {
    {"grid.cores", "grid.workers", "the chip has no more cores"},
    {"dma.outstanding_bytes", "dma.request_bytes", "one request must fit what may be in flight"},
};
static const ordered_t ORDERED_CHIP[] = {
    {"dram.row_bytes", "dram.burst_bytes", "a row holds whole bursts"},
    {"dram.tras", "dram.trcdrd", "a row is open for at least one read"},
    {"dram.tccd_l", "dram.tccd_s", "_l is the stricter rule"},
    {"dram.trrd_l", "dram.trrd_s", "_l is the stricter rule"},
    {"dram.twtr_l", "dram.twtr_s", "_l is the stricter rule"},
    {"dram.tfaw", "dram.trrd_s", "the window holds more than one activate"},
};

static void check_banks(const sim_config_t *config, const char *origin, sim_problems_t *problems) {
    uint64_t block = get(config, "sram.interleave_bytes");
    if (block == 0) return;
    uint64_t banks = get(config, "sram.banks");
    if (banks < 2 || banks > SIM_SHARE_MAX_PARTS || block % get(config, "sram.word_bytes") != 0)
        sim_problems_add(problems,
                         "%s: sram.interleave_bytes = %s needs whole words (sram.word_bytes = %s) "
                         "and 2 to %u banks (sram.banks = %s)",
                         origin, sim_config_text(config, "sram.interleave_bytes"),
                         sim_config_text(config, "sram.word_bytes"), SIM_SHARE_MAX_PARTS,
                         sim_config_text(config, "sram.banks"));
}

static void check_shared(const sim_config_t *config, uint32_t class, const char *origin,
                         sim_problems_t *problems) {
    static const char *const KEYS[] = {"sram.shared_bytes", "sram.shared_page_bytes"};
    const sim_config_t *view = sim_config_class(config, class);
    uint64_t bytes = get(view, KEYS[0]);
    for (size_t i = 0; i < 2; i++)
        if (get(view, KEYS[i]) != get(config, KEYS[i]))
            sim_problems_add(problems, "%s: %s = %s: every class shares as much, the chip's is %s",
                             origin, KEYS[i], sim_config_text(view, KEYS[i]),
                             sim_config_text(config, KEYS[i]));
    if (bytes > 0 && bytes >= get(view, "sram.bytes"))
        sim_problems_add(
            problems, "%s: sram.shared_bytes = %s leaves kernels none of sram.bytes = %s", origin,
            sim_config_text(view, KEYS[0]), sim_config_text(view, "sram.bytes"));
    if (bytes % get(view, KEYS[1]) != 0)
        sim_problems_add(problems, "%s: sram.shared_bytes = %s is no multiple of %s = %s", origin,
                         sim_config_text(view, KEYS[0]), KEYS[1], sim_config_text(view, KEYS[1]));
}

bool sim_config_has_pieces(const sim_config_t *config) {
    return get(config, "matrix.gap_cycles") != 0 || get(config, "matrix.min_stream_cycles") > 1 ||
           get(config, "matrix.load_beside") != 0;
}

/* Keys of the matrix unit that would do nothing, or cannot be had together. */
static void check_matrix_errors(const sim_config_t *config, const char *origin,
                                sim_problems_t *problems) {
    bool is_loaded = get(config, "matrix.dataflow") != SIM_OUTPUT_STATIONARY;
    if (get(config, "matrix.switch_cycles") != 0 &&
        (!is_loaded || get(config, "matrix.weight_buffers") > 2))
        sim_problems_add(problems,
                         "%s: matrix.switch_cycles needs weights or inputs that are loaded into at "
                         "most two buffers: matrix.dataflow = %s, matrix.weight_buffers = %s",
                         origin, sim_config_text(config, "matrix.dataflow"),
                         sim_config_text(config, "matrix.weight_buffers"));
    if (get(config, "matrix.stream_elems") != 0 && !sim_config_has_pieces(config))
        sim_problems_add(problems,
                         "%s: matrix.stream_elems = %s has no effect with matrix.gap_cycles = 0, "
                         "min_stream_cycles = 1 and load_beside = stream",
                         origin, sim_config_text(config, "matrix.stream_elems"));
    bool is_broadcast = strcmp(sim_config_str(config, "matrix.operands"), "broadcast") == 0;
    if (is_broadcast && get(config, "matrix.overlap") == 0)
        sim_problems_add(problems,
                         "%s: matrix.overlap = false has no effect with matrix.operands = "
                         "broadcast: nothing crosses the array",
                         origin);
    if (get(config, "matrix.f32") == 0) return;
    sim_ratio_t bf16 = sim_config_ratio(config, "matrix.rate.bf16");
    if (bf16.num == 0)
        sim_problems_add(problems, "%s: matrix.f32 = %s needs matrix.rate.bf16", origin,
                         sim_config_text(config, "matrix.f32"));
    if (bf16.den > UINT32_MAX / SIM_MATRIX_MAX_PASSES)
        sim_problems_add(problems, "%s: matrix.f32 = %s: matrix.rate.bf16 = %s is too fine", origin,
                         sim_config_text(config, "matrix.f32"),
                         sim_config_text(config, "matrix.rate.bf16"));
}

static bool is_power_of_two(uint64_t x) {
    return x > 0 && (x & (x - 1)) == 0;
}

static void check_dma_errors(const sim_config_t *config, const char *origin,
                             sim_problems_t *problems) {
    uint64_t word = get(config, "dma.bytes_per_cycle"), most = get(config, "dma.request_bytes");
    if (get(config, "dma.aligned_requests") == 0) return;
    if (is_power_of_two(word) && is_power_of_two(most) && word <= most) return;
    sim_problems_add(problems,
                     "%s: dma.aligned_requests = true needs dma.bytes_per_cycle = %s and "
                     "dma.request_bytes = %s as powers of two, the second not below the first",
                     origin, sim_config_text(config, "dma.bytes_per_cycle"),
                     sim_config_text(config, "dma.request_bytes"));
}

static void check_order(const sim_config_t *config, const char *origin, const ordered_t *pair,
                        size_t count, sim_problems_t *problems) {
    for (size_t i = 0; i < count; i++)
        if (get(config, pair[i].large) < get(config, pair[i].small))
            sim_problems_add(problems, "%s: %s = %s is below %s = %s: %s", origin, pair[i].large,
                             sim_config_text(config, pair[i].large), pair[i].small,
                             sim_config_text(config, pair[i].small), pair[i].why);
}

static void check_unused_matrix(const sim_config_t *config, uint32_t class, const char *origin,
                                sim_problems_t *problems) {
    size_t count;
    const sim_key_t *keys = sim_schema(&count);
    for (size_t i = 0; i < count; i++) {
        bool is_matrix = strcmp(keys[i].section, "matrix") == 0;
        bool is_other = !is_matrix && strcmp(keys[i].section, "acc") != 0;
        if (is_other || strcmp(keys[i].name, "count") == 0) continue;
        char name[SIM_KEY_LABEL_BYTES];
        (void)snprintf(name, sizeof name, "%s.%s", keys[i].section, keys[i].name);
        if (sim_config_class_sets(config, class, name))
            sim_problems_add(problems, "%s: %s has no effect: matrix.count = 0", origin, name);
    }
}

static void check_class(const sim_config_t *config, uint32_t class, const char *origin,
                        sim_problems_t *problems) {
    const sim_config_t *view = sim_config_class(config, class);
    char where[480];
    (void)snprintf(where, sizeof where, class == 0 ? "%.400s" : "%.400s: class %s", origin,
                   sim_config_class_name(config, class));
    check_order(view, where, ORDERED_CORE, sizeof ORDERED_CORE / sizeof ORDERED_CORE[0], problems);
    check_dma_errors(view, where, problems);
    check_banks(view, where, problems);
    check_shared(config, class, where, problems);
    if (get(view, "matrix.count") > 0)
        check_matrix_errors(view, where, problems);
    else if (class > 0)
        check_unused_matrix(config, class, where, problems);
}

static void check_classes(const sim_config_t *config, const char *origin,
                          sim_problems_t *problems) {
    for (uint32_t c = 0; c < sim_config_classes(config); c++)
        check_class(config, c, origin, problems);
    if (sim_config_cores(config) > SIM_MAX_CORES)
        sim_problems_add(problems, "%s: the classes have %u cores together, at most %u", origin,
                         sim_config_cores(config), SIM_MAX_CORES);
    if (sim_class_of(config, sim_config_str(config, "grid.class")) > 0)
        sim_problems_add(problems, "%s: grid.class = %s is the name of another class too", origin,
                         sim_config_str(config, "grid.class"));
}

void sim_config_check_errors(const sim_config_t *config, const char *origin,
                             sim_problems_t *problems) {
    check_classes(config, origin, problems);
    check_order(config, origin, ORDERED_CHIP, sizeof ORDERED_CHIP / sizeof ORDERED_CHIP[0],
                problems);
    uint64_t trefi = get(config, "dram.trefi");
    if (trefi != 0 && trefi <= get(config, "dram.trfc"))
        sim_problems_add(problems,
                         "%s: dram.trefi = %" PRIu64 " leaves no time beside dram.trfc = %s",
                         origin, trefi, sim_config_text(config, "dram.trfc"));
    if (get(config, "dram.refresh") == 1 &&
        get(config, "dram.trefipb") <= get(config, "dram.trrefd"))
        sim_problems_add(problems, "%s: dram.trefipb = %s: not above dram.trrefd = %s", origin,
                         sim_config_text(config, "dram.trefipb"),
                         sim_config_text(config, "dram.trrefd"));
    sim_ratio_t high = sim_config_ratio(config, "dram.write_high"),
                low = sim_config_ratio(config, "dram.write_low");
    if ((uint64_t)low.num * high.den > (uint64_t)high.num * low.den)
        sim_problems_add(problems, "%s: dram.write_low = %s is above dram.write_high = %s", origin,
                         sim_config_text(config, "dram.write_low"),
                         sim_config_text(config, "dram.write_high"));
    if (get(config, "dram.row_bytes") % get(config, "dram.burst_bytes") != 0)
        sim_problems_add(problems, "%s: dram.row_bytes is not a multiple of dram.burst_bytes",
                         origin);
    uint64_t all_banks = get(config, "dram.channels") * get(config, "dram.bank_groups") *
                         get(config, "dram.banks_per_group") * get(config, "dram.row_bytes");
    if (get(config, "dram.bytes") % all_banks != 0)
        sim_problems_add(problems,
                         "%s: dram.bytes is not a multiple of one row of every bank (%" PRIu64
                         " bytes)",
                         origin, all_banks);
    sim_error_t err = {0};
    if (sim_noc_check(config, &err) != SIM_OK)
        sim_problems_add(problems, "%s: %s", origin, err.text);
    err = (sim_error_t){0};
    if (sim_cache_check(config, &err) != SIM_OK)
        sim_problems_add(problems, "%s: %s", origin, err.text);
    uint32_t tile[2];
    err = (sim_error_t){0};
    if (sim_layout_read(sim_config_str(config, "layout.tile"), tile, &err) != SIM_OK)
        sim_problems_add(problems, "%s: %s", origin, err.text);
}

/* ---- numbers that follow, in doubles: for people, never for timing ------- */

static double to_double(sim_ratio_t ratio) {
    return (double)ratio.num / (double)ratio.den;
}

static double per_s(const sim_config_t *config, const char *amount, const char *clock) {
    return (double)get(config, amount) * (double)get(config, clock);
}

static double dram_peak(const sim_config_t *config) {
    return per_s(config, "dram.channels", "dram.clock") * (double)get(config, "dram.burst_bytes") /
           (double)get(config, "dram.burst_cycles");
}

static uint64_t sram_bytes_per_cycle(const sim_config_t *config) {
    return get(config, "sram.banks") * get(config, "sram.ports_per_bank") *
           get(config, "sram.word_bytes");
}

static uint64_t acc_bytes_per_cycle(const sim_config_t *config) {
    return get(config, "acc.banks") * get(config, "acc.word_bytes");
}

static uint64_t working_cores(const sim_config_t *config) {
    uint64_t workers = get(config, "grid.workers");
    return workers != 0 ? workers : get(config, "grid.cores");
}

/* Steps per cycle. */
static double matrix_rate(const sim_config_t *config, size_t dtype) {
    uint32_t pieces;
    if (dtype == 0) return to_double(sim_matrix_f32_rate(config, &pieces));
    return to_double(sim_config_ratio(config, DTYPES[dtype].key));
}

/* Of one class: `config` is its view. */
static double class_peak_ops(const sim_config_t *config, size_t dtype) {
    double cells = (double)get(config, "matrix.rows") * (double)get(config, "matrix.cols") *
                   (double)get(config, "matrix.step") * (double)get(config, "matrix.count");
    return 2.0 * cells * (double)get(config, "core.clock") * (double)working_cores(config) *
           matrix_rate(config, dtype);
}

static double peak_ops(const sim_config_t *config, size_t dtype) {
    double ops = 0;
    for (uint32_t c = 0; c < sim_config_classes(config); c++)
        ops += class_peak_ops(sim_config_class(config, c), dtype);
    return ops;
}

/* Bytes per second that all memory endpoints send. */
static double memory_ports(const sim_config_t *config) {
    double width = (double)get(config, "noc.memory_bytes_per_cycle");
    double limit = to_double(sim_config_ratio(config, "noc.memory_inject"));
    return (limit > 0 && limit < width ? limit : width) * (double)get(config, "noc.clock") *
           (double)sim_noc_endpoints_of(config);
}

/* Idle round trip of a read, seconds: what the outstanding limit has to cover. */
static double memory_latency_s(const sim_config_t *config) {
    uint64_t cycles =
        get(config, "dram.trcdrd") + get(config, "dram.tcl") + get(config, "dram.burst_cycles");
    return (double)cycles / (double)get(config, "dram.clock") +
           2e-12 * (double)get(config, "dram.frontend") +
           2.0 * (double)sim_noc_read_cycles(config) / (double)get(config, "noc.clock") +
           (get(config, "cache.bytes") > 0
                ? (double)get(config, "cache.hit_cycles") / (double)get(config, "noc.clock")
                : 0.0);
}

/* ---- warnings ------------------------------------------------------------ */

typedef struct warnings {
    char *text;
    size_t bytes, used;
    int count;
    const char *class_name; /* before the keys of a class beside the first; NULL: none */
} warnings_t;

static void warn(warnings_t *warnings, const char *format, ...) SIM_PRINTF(2, 3);
static void warn(warnings_t *warnings, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    warnings->count++;
    if (warnings->used + 1 >= warnings->bytes) return;
    bool is_named = warnings->class_name != NULL;
    int length = snprintf(warnings->text + warnings->used, warnings->bytes - warnings->used,
                          "%s%s%s%s", is_named ? "class " : "",
                          is_named ? warnings->class_name : "", is_named ? "." : "", line);
    if (length > 0) warnings->used += (size_t)length;
    if (warnings->used >= warnings->bytes) warnings->used = warnings->bytes - 1;
}

/* Bytes per cycle of an array that streams at full rate against what its memories carry. */
static void check_operands(const sim_config_t *config, size_t dtype, warnings_t *warnings) {
    const char *key = DTYPES[dtype].key, *name = DTYPES[dtype].name;
    double sram = (double)sram_bytes_per_cycle(config), acc = (double)acc_bytes_per_cycle(config);
    double rows = (double)get(config, "matrix.rows"), load = rows;
    double cols = (double)get(config, "matrix.cols") * (double)get(config, "matrix.count");
    double steps = matrix_rate(config, dtype) * (double)get(config, "matrix.step");
    double bytes = DTYPES[dtype].bytes;
    bool is_loaded = get(config, "matrix.dataflow") != SIM_OUTPUT_STATIONARY;
    double eaten = (is_loaded ? rows : rows + cols) * bytes * steps;
    if (load > (double)get(config, "matrix.load_rows_per_cycle"))
        load = (double)get(config, "matrix.load_rows_per_cycle");
    if (eaten > sram)
        warn(warnings, "%s: the array eats %.0f bytes per cycle of %s, the scratchpad gives %.0f\n",
             key, eaten, name, sram);
    if (is_loaded && steps > 0 && load * cols * bytes > sram)
        warn(warnings,
             "matrix.load_rows_per_cycle: %s weights need %.0f bytes per cycle, the scratchpad "
             "gives %.0f\n",
             name, load * cols * bytes, sram);
    double results = is_loaded ? cols * 4.0 * steps : load * cols * 4.0;
    if (steps > 0 && results > acc)
        warn(warnings, "%s: results take %.0f bytes per cycle, the accumulator takes %.0f\n", key,
             results, acc);
}

static void check_matrix(const sim_config_t *config, warnings_t *warnings) {
    for (size_t i = 0; i < DTYPE_COUNT; i++)
        check_operands(config, i, warnings);
    if (get(config, "matrix.load_rows_per_cycle") > get(config, "matrix.rows"))
        warn(warnings, "matrix.load_rows_per_cycle: the array has %s rows\n",
             sim_config_text(config, "matrix.rows"));
}

static void tell_dead(void *context, const char *origin, const char *key, const char *why) {
    warnings_t *warnings = context;
    const char *class_name = warnings->class_name;
    warnings->class_name = NULL; /* the place comes first */
    warn(warnings, "%s: %s%s%s%s: without effect, %s\n", origin, class_name != NULL ? "class " : "",
         class_name != NULL ? class_name : "", class_name != NULL ? "." : "", key, why);
    warnings->class_name = class_name;
}

/* The engines and ports of a class's cores; `config` is its view. */
static void check_engines(const sim_config_t *config, warnings_t *warnings) {
    double dram = dram_peak(config), port = per_s(config, "noc.bytes_per_cycle", "noc.clock");
    double engine = per_s(config, "dma.bytes_per_cycle", "core.clock");
    if (engine > port)
        warn(warnings, "dma.bytes_per_cycle: an engine moves %.4g GB/s, a core's port %.4g GB/s\n",
             engine / 1e9, port / 1e9);
    if (get(config, "dma.bytes_per_cycle") > sram_bytes_per_cycle(config))
        warn(warnings, "dma.bytes_per_cycle: wider than the scratchpad\n");
    uint64_t in_flight = get(config, "dma.outstanding_bytes");
    uint64_t requests = get(config, "dma.outstanding_requests") * get(config, "dma.request_bytes");
    bool is_by_requests = requests > 0 && requests < in_flight;
    double little = (double)(is_by_requests ? requests : in_flight) / memory_latency_s(config);
    if (little < engine && little < dram)
        warn(warnings, "%s: limits an engine to %.4g GB/s at %.4g ns of idle latency\n",
             is_by_requests ? "dma.outstanding_requests" : "dma.outstanding_bytes", little / 1e9,
             memory_latency_s(config) * 1e9);
    if (get(config, "vector.lanes") * 4u > sram_bytes_per_cycle(config))
        warn(warnings,
             "vector.lanes: one f32 operand needs %" PRIu64
             " bytes per cycle, the scratchpad gives %" PRIu64 "\n",
             get(config, "vector.lanes") * 4u, sram_bytes_per_cycle(config));
}

static void check_memory(const sim_config_t *config, warnings_t *warnings) {
    double dram = dram_peak(config), port = per_s(config, "noc.bytes_per_cycle", "noc.clock");
    double memory_port = memory_ports(config), ports = 0;
    for (uint32_t c = 0; c < sim_config_classes(config); c++)
        ports += port * (double)working_cores(sim_config_class(config, c));
    if (memory_port < dram)
        warn(warnings,
             "noc.memory_bytes_per_cycle: memory ports carry %.4g GB/s of the DRAM's %.4g\n",
             memory_port / 1e9, dram / 1e9);
    if (ports < dram)
        warn(warnings, "noc.bytes_per_cycle: all cores' ports carry %.4g GB/s of the DRAM's %.4g\n",
             ports / 1e9, dram / 1e9);
    if (get(config, "dram.tccd_s") > get(config, "dram.burst_cycles"))
        warn(warnings, "dram.tccd_s: longer than a burst, the data bus can never be full\n");
}

/* Returns whether some class has a matrix engine. */
static bool check_each_class(const sim_config_t *config, warnings_t *warnings) {
    bool has_matrix = false;
    for (uint32_t c = 0; c < sim_config_classes(config); c++) {
        const sim_config_t *view = sim_config_class(config, c);
        warnings->class_name = c == 0 ? NULL : sim_config_class_name(config, c);
        if (get(view, "matrix.count") > 0) check_matrix(view, warnings);
        has_matrix = has_matrix || get(view, "matrix.count") > 0;
        check_engines(view, warnings);
        sim_config_tell_effects(config, c, tell_dead, warnings);
    }
    warnings->class_name = NULL;
    return has_matrix;
}

int sim_config_self_check(const sim_config_t *config, char *text, size_t text_bytes) {
    warnings_t warnings = {.text = text, .bytes = text_bytes};
    if (text_bytes > 0) text[0] = '\0';
    if (!check_each_class(config, &warnings))
        warn(&warnings, "matrix.*: without effect, no core has a matrix engine\n");
    check_memory(config, &warnings);
    if (strcmp(sim_config_str(config, "host.clock"), "wall") == 0)
        warn(&warnings, "host.clock = wall: simulated times depend on the machine and its load\n");
    return warnings.count;
}

static void write_noc(const sim_config_t *config, FILE *stream) {
    double clock = (double)get(config, "noc.clock");
    (void)fprintf(
        stream,
        "NoC       %10.4g GB/s a link, %s; %u memory endpoints send %.4g GB/s together; %.4g "
        "ns of an idle read\n",
        per_s(config, "noc.bytes_per_cycle", "noc.clock") / 1e9,
        sim_config_text(config, "noc.type"), sim_noc_endpoints_of(config),
        memory_ports(config) / 1e9, (double)sim_noc_read_cycles(config) / clock * 1e9);
}

/* What a core of the class has; `config` is its view. */
static void write_cores(const sim_config_t *config, FILE *stream) {
    (void)fprintf(stream, "%s cores (%" PRIu64 " compute) at %s, %s lanes, ",
                  sim_config_text(config, "grid.cores"), working_cores(config),
                  sim_config_text(config, "core.clock"), sim_config_text(config, "vector.lanes"));
    if (get(config, "matrix.count") == 0)
        (void)fputs("no array\n", stream);
    else
        (void)fprintf(
            stream, "%s %s array of %s x %s x %s\n", sim_config_text(config, "matrix.count"),
            sim_config_text(config, "matrix.dataflow"), sim_config_text(config, "matrix.rows"),
            sim_config_text(config, "matrix.cols"), sim_config_text(config, "matrix.step"));
}

static void write_memories(const sim_config_t *config, FILE *stream) {
    double clock = (double)get(config, "core.clock");
    (void)fprintf(stream, "scratchpad %9.4g GB/s a core, %s",
                  (double)sram_bytes_per_cycle(config) * clock / 1e9,
                  sim_config_text(config, "sram.bytes"));
    if (get(config, "matrix.count") > 0)
        (void)fprintf(stream, "; accumulator %.4g GB/s, %s",
                      (double)acc_bytes_per_cycle(config) * clock / 1e9,
                      sim_config_text(config, "acc.bytes"));
    (void)fputc('\n', stream);
    (void)fprintf(stream,
                  "DMA       %10.4g GB/s an engine, %s engines a core; core port %.4g GB/s\n",
                  per_s(config, "dma.bytes_per_cycle", "core.clock") / 1e9,
                  sim_config_text(config, "dma.queues"),
                  per_s(config, "noc.bytes_per_cycle", "noc.clock") / 1e9);
}

static void write_peaks(const sim_config_t *config, FILE *stream) {
    double dram = dram_peak(config);
    for (size_t i = 0; i < DTYPE_COUNT; i++) {
        double peak = peak_ops(config, i);
        if (peak > 0)
            (void)fprintf(stream,
                          "peak %-4s %10.4g TOPS, ridge point %.4g operations per DRAM byte\n",
                          DTYPES[i].name, peak / 1e12, peak / dram);
        else if (i < DTYPE_COMMON)
            (void)fprintf(stream, "peak %-4s       none\n", DTYPES[i].name);
    }
}

void sim_config_write_summary(const sim_config_t *config, FILE *stream) {
    double dram = dram_peak(config), trefi = (double)get(config, "dram.trefi");
    double duty = trefi > 0 ? 1.0 - (double)get(config, "dram.trfc") / trefi : 1.0;
    double payload = (double)get(config, "link.payload_bytes");
    double packet = payload + (double)get(config, "link.header_bytes");
    for (uint32_t c = 0; c < sim_config_classes(config); c++) {
        (void)fprintf(stream, "%s %s: ", c == 0 ? "chip" : "class",
                      c == 0 ? sim_config_text(config, "chip.name")
                             : sim_config_class_name(config, c));
        write_cores(sim_config_class(config, c), stream);
    }
    write_peaks(config, stream);
    (void)fprintf(stream, "DRAM      %10.4g GB/s peak, %.4g GB/s beside refresh, %s (%s)\n",
                  dram / 1e9, dram * duty / 1e9, sim_config_text(config, "dram.bytes"),
                  sim_config_text(config, "dram.standard"));
    for (uint32_t c = 0; c < sim_config_classes(config); c++) {
        if (c > 0) (void)fprintf(stream, "class %s:\n", sim_config_class_name(config, c));
        write_memories(sim_config_class(config, c), stream);
    }
    write_noc(config, stream);
    if (get(config, "sram.shared_bytes") > 0)
        (void)fprintf(stream,
                      "shared    %10.4g GB/s out of all cores, %.4g MiB: %s of each scratchpad, "
                      "pages of %s\n",
                      sim_shared_bytes_per_s(config) / 1e9,
                      (double)sim_shared_bytes_of(config) / 1048576.0,
                      sim_config_text(config, "sram.shared_bytes"),
                      sim_config_text(config, "sram.shared_page_bytes"));
    if (get(config, "cache.bytes") > 0)
        (void)fprintf(stream, "cache     %10.4g GB/s, %s, %s ways, lines of %s, %.4g ns of a hit\n",
                      (double)sim_cache_peak_bytes_per_s(config) / 1e9,
                      sim_config_text(config, "cache.bytes"), sim_config_text(config, "cache.ways"),
                      sim_config_text(config, "cache.line_bytes"),
                      (double)get(config, "cache.hit_cycles") / (double)get(config, "noc.clock") *
                          1e9);
    (void)fprintf(stream, "host link %10.4g GB/s of payload each way\n",
                  (double)get(config, "link.bandwidth") * payload / packet / 1e9);
    (void)fprintf(stream, "mapping   %10s, tensors stored in tiles: %s\n",
                  sim_config_text(config, "mapping.profile"),
                  sim_config_text(config, "layout.tile"));
}
