#include "kernels/kern_cost.h"

static uint64_t max64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

uint64_t kern_cost_vector(const vnpu_machine_t *machine, uint64_t outer, uint64_t inner,
                          kern_class_t cls) {
    uint64_t lanes = machine->vector_lanes;
    uint64_t vectors = inner * 2 <= lanes ? kern_ceil_div(outer, lanes / inner) /* rows share */
                                          : outer * kern_ceil_div(inner, lanes);
    uint64_t num = machine->vector_passes_num[cls], den = machine->vector_passes_den[cls];
    if (den == 0) den = 1;
    return machine->vector_startup_cycles + kern_ceil_div(vectors * num, den);
}

kern_class_t kern_class_unary(uint8_t func) {
    switch ((vnpu_unary_t)func) {
    case VNPU_U_COPY: return KERN_CLASS_CAST;
    case VNPU_U_SQUARE: return KERN_CLASS_MUL;
    case VNPU_U_RECIP:
    case VNPU_U_SQRT:
    case VNPU_U_RSQRT: return KERN_CLASS_DIV;
    case VNPU_U_EXP:
    case VNPU_U_EXPM1:
    case VNPU_U_LOG:
    case VNPU_U_LOG1P:
    case VNPU_U_SIN:
    case VNPU_U_COS:
    case VNPU_U_TANH:
    case VNPU_U_SIGMOID:
    case VNPU_U_ERF:
    case VNPU_U_SILU:
    case VNPU_U_GELU_ERF:
    case VNPU_U_GELU_TANH:
    case VNPU_U_SOFTPLUS: return KERN_CLASS_TRANSCENDENTAL;
    default: return KERN_CLASS_ALU;
    }
}

kern_class_t kern_class_binary(uint8_t func) {
    switch ((vnpu_binary_t)func) {
    case VNPU_B_MUL: return KERN_CLASS_MUL;
    case VNPU_B_DIV:
    case VNPU_B_FMOD:
    case VNPU_B_REMAINDER:
    case VNPU_B_FLOORDIV: return KERN_CLASS_DIV;
    case VNPU_B_POW:
    case VNPU_B_ATAN2: return KERN_CLASS_TRANSCENDENTAL;
    default: return KERN_CLASS_ALU;
    }
}

/* One transfer may drain while the next is issued: a short one waits for its own data. */
static uint64_t transfer(const vnpu_machine_t *machine, uint64_t bytes, uint64_t run_bytes,
                         uint64_t latency) {
    if (bytes == 0) return 0;
    uint64_t width = machine->dma_bytes_per_cycle;
    uint64_t runs = kern_ceil_div(bytes, run_bytes);
    uint64_t run = machine->dma_run_cycles + kern_ceil_div(run_bytes, width);
    uint64_t issue = machine->dma_descriptor_cycles + runs * run;
    return max64(issue, (issue + latency) / 2);
}

uint64_t kern_cost_dma(const vnpu_machine_t *machine, uint64_t bytes, uint64_t run_bytes) {
    return transfer(machine, bytes, run_bytes, kern_cost_loaded_latency(machine));
}

uint64_t kern_cost_dma_alone(const vnpu_machine_t *machine, uint64_t bytes, uint64_t run_bytes) {
    return transfer(machine, bytes, run_bytes, kern_cost_latency(machine));
}

uint64_t kern_cost_dram(const vnpu_machine_t *machine, uint64_t bytes) {
    uint64_t per_mega = machine->dram_bytes_per_s / (machine->core_clock_hz / 1000000 + 1);
    return bytes * 1000000 / (per_mega ? per_mega : 1);
}

uint64_t kern_cost_openings(const vnpu_machine_t *machine, uint64_t runs, uint64_t run_bytes,
                            uint64_t pitch_bytes) {
    uint64_t segment = machine->dram_segment_bytes;
    if (segment == 0) return 0;
    uint64_t segments = runs * kern_ceil_div(run_bytes, segment);
    uint64_t rows = machine->dram_stripe_bytes / machine->dram_open_bytes; /* to open in a stripe */
    if (pitch_bytes == 0 || rows == 0) return segments;
    /* Segments of a stripe, when the runs lie in it as close as they do. */
    uint64_t near = machine->dram_stripe_bytes * kern_ceil_div(run_bytes, segment) / pitch_bytes;
    return near <= rows ? segments : kern_ceil_div(segments * rows, near);
}

uint64_t kern_cost_opening(const vnpu_machine_t *machine, uint64_t openings) {
    uint64_t ps = 1000000000000ull / (machine->core_clock_hz ? machine->core_clock_hz : 1);
    return openings * machine->dram_open_ps / (ps ? ps : 1);
}

uint64_t kern_cost_latency(const vnpu_machine_t *machine) {
    uint64_t ps = 1000000000000ull / (machine->core_clock_hz ? machine->core_clock_hz : 1);
    return machine->dram_latency_ps / (ps ? ps : 1);
}

uint64_t kern_cost_loaded_latency(const vnpu_machine_t *machine) {
    return max64(kern_cost_latency(machine),
                 kern_cost_dram(machine, machine->dma_outstanding_bytes * machine->workers));
}

uint64_t kern_cost_stream(const vnpu_machine_t *machine, const kern_stream_cost_t *stream) {
    uint64_t dram = kern_cost_dram(machine, stream->dram_bytes * stream->instances);
    uint64_t slowest =
        max64(max64(stream->load_cycles, stream->store_cycles), max64(stream->vector_cycles, dram));
    uint64_t fill = stream->load_cycles + stream->vector_cycles + stream->store_cycles +
                    kern_cost_latency(machine);
    return stream->tiles * slowest + fill;
}

enum { RESULTS_STAY = 1, INPUTS_STAY = 2 }; /* vnpu_machine_t.matrix_dataflow; 0: weights */
enum { SPLIT_N = 0, SPLIT_M = 1 };          /* .matrix_split; 2: what pads least */

/* One axis of a product: its extent, that of an MM, and how many arrays split it. */
typedef struct extent {
    uint64_t size, tile, arrays;
} extent_t;

/* The axes in their roles (sim/sim_matrix.h): rows and columns of the array, streamed. */
typedef struct roles {
    extent_t rows, cols, streamed;
} roles_t;

static roles_t roles_of(const vnpu_machine_t *machine, extent_t m, extent_t k, extent_t n) {
    switch (machine->matrix_dataflow) {
    case RESULTS_STAY: return (roles_t){m, n, k};
    case INPUTS_STAY: return (roles_t){k, m, n};
    default: return (roles_t){k, n, m};
    }
}

static uint64_t at_least_one(uint32_t value) {
    return value == 0 ? 1 : value;
}

static uint64_t folds_along(extent_t extent, uint64_t cells) {
    cells *= extent.arrays;
    return extent.size / extent.tile * kern_ceil_div(extent.tile, cells) +
           kern_ceil_div(extent.size % extent.tile, cells);
}

static uint64_t steps_of(const vnpu_machine_t *machine, extent_t streamed, uint64_t part) {
    return kern_ceil_div(part, at_least_one(machine->matrix_step) * streamed.arrays);
}

/* How the arrays split n and m of one MM, as the unit does. */
static void split(const vnpu_machine_t *machine, extent_t *m, extent_t k, extent_t *n) {
    uint64_t count = at_least_one(machine->matrix_count), best = UINT64_MAX, best_n = count;
    uint64_t from = machine->matrix_split == SPLIT_M ? 1 : count;
    uint64_t to = machine->matrix_split == SPLIT_N ? count : 1;
    for (uint64_t along_n = from; along_n >= to; along_n--) {
        if (count % along_n != 0) continue;
        roles_t mm = roles_of(machine, (extent_t){m->tile, m->tile, count / along_n},
                              (extent_t){k.tile, k.tile, 1}, (extent_t){n->tile, n->tile, along_n});
        uint64_t steps = folds_along(mm.rows, machine->matrix_rows) *
                         folds_along(mm.cols, machine->matrix_cols) *
                         steps_of(machine, mm.streamed, mm.streamed.tile);
        if (steps >= best) continue;
        best = steps;
        best_n = along_n;
    }
    n->arrays = best_n;
    m->arrays = count / best_n;
}

/* Cycles of the port of what stays in the array: a load, or a drain. */
static uint64_t port_cycles(const vnpu_machine_t *machine, vnpu_dtype_t dtype, uint64_t used) {
    uint64_t rows = machine->matrix_rows;
    if (used < rows && !machine->matrix_has_full_folds) rows = used;
    uint64_t port = kern_ceil_div(rows, machine->matrix_load_rows_per_cycle);
    if (machine->matrix_dataflow == RESULTS_STAY) return port;
    if (dtype == VNPU_F32) port *= at_least_one(machine->matrix_f32_pieces);
    return port + machine->matrix_switch_cycles;
}

/* What the operand ports need for a fold: its share of the bytes of an MM with `part` streamed. */
static uint64_t operand_cycles(const vnpu_machine_t *machine, vnpu_dtype_t dtype,
                               const roles_t *roles, uint64_t part) {
    if (machine->matrix_operand_bytes_per_cycle == 0) return 0;
    extent_t rows = roles->rows, cols = roles->cols;
    uint64_t row_folds = kern_ceil_div(rows.tile, machine->matrix_rows * rows.arrays);
    uint64_t col_folds = kern_ceil_div(cols.tile, machine->matrix_cols * cols.arrays);
    bool has_results = machine->matrix_dataflow == RESULTS_STAY;
    uint64_t elems = rows.tile * part * col_folds;
    elems += has_results ? part * cols.tile * row_folds : rows.tile * cols.tile;
    uint64_t per_cycle = row_folds * col_folds * machine->matrix_operand_bytes_per_cycle;
    return kern_ceil_div(vnpu_dtype_span(dtype, elems), per_cycle);
}

/* Cycles of one fold's stream over `part` elements. */
static uint64_t stream_cycles(const vnpu_machine_t *machine, vnpu_dtype_t dtype,
                              const roles_t *roles, uint64_t part) {
    uint64_t num = machine->matrix_rate_num[dtype], den = machine->matrix_rate_den[dtype];
    uint64_t steps = steps_of(machine, roles->streamed, part);
    uint64_t stream = max64(kern_ceil_div(steps * den, num), machine->matrix_min_stream_cycles);
    uint64_t pieces = 1;
    if (machine->matrix_stream_elems != 0)
        pieces = kern_ceil_div(kern_ceil_div(part, roles->streamed.arrays),
                               machine->matrix_stream_elems);
    stream += machine->matrix_fill_cycles + (pieces - 1) * machine->matrix_gap_cycles;
    return max64(stream, operand_cycles(machine, dtype, roles, part));
}

uint64_t kern_cost_matrix(const vnpu_machine_t *machine, vnpu_dtype_t dtype, uint64_t m, uint64_t k,
                          uint64_t n, uint64_t mt, uint64_t kt, uint64_t nt) {
    if (machine->matrix_rate_num[dtype] == 0) return UINT64_MAX / 4;
    extent_t along_m = {m, mt, 1}, along_k = {k, kt, 1}, along_n = {n, nt, 1};
    split(machine, &along_m, along_k, &along_n);
    roles_t roles = roles_of(machine, along_m, along_k, along_n);
    uint64_t folds = folds_along(roles.rows, machine->matrix_rows) *
                     folds_along(roles.cols, machine->matrix_cols);
    uint64_t port = port_cycles(machine, dtype, kern_ceil_div(roles.rows.size, roles.rows.arrays));
    extent_t streamed = roles.streamed;
    uint64_t part[2] = {streamed.tile, streamed.size % streamed.tile};
    uint64_t count[2] = {streamed.size / streamed.tile, part[1] > 0}, cycles = 0;
    for (int i = 0; i < 2; i++) {
        if (count[i] == 0) continue;
        uint64_t stream = stream_cycles(machine, dtype, &roles, part[i]);
        uint64_t fold = machine->matrix_weight_buffers > 1 ? max64(stream, port) : stream + port;
        cycles += count[i] * fold;
    }
    return cycles * folds;
}

uint64_t kern_cost_padded_macs(const vnpu_machine_t *machine, uint64_t m, uint64_t k, uint64_t n) {
    if (m == 0 || k == 0 || n == 0) return 0;
    extent_t along_m = {m, m, 1}, along_k = {k, k, 1}, along_n = {n, n, 1};
    split(machine, &along_m, along_k, &along_n);
    roles_t roles = roles_of(machine, along_m, along_k, along_n);
    uint64_t steps = folds_along(roles.rows, machine->matrix_rows) *
                     folds_along(roles.cols, machine->matrix_cols) *
                     steps_of(machine, roles.streamed, roles.streamed.tile);
    uint64_t cells =
        (uint64_t)machine->matrix_rows * machine->matrix_cols * at_least_one(machine->matrix_count);
    return steps * at_least_one(machine->matrix_step) * cells;
}

kern_fold_t kern_cost_fold(const vnpu_machine_t *machine) {
    uint64_t rows = machine->matrix_rows, cols = machine->matrix_cols;
    uint64_t step = at_least_one(machine->matrix_step), count = at_least_one(machine->matrix_count);
    kern_fold_t fold = {.m = step, .k = rows, .n = cols};
    if (machine->matrix_dataflow == RESULTS_STAY) fold = (kern_fold_t){rows, step, cols};
    if (machine->matrix_dataflow == INPUTS_STAY) fold = (kern_fold_t){cols, rows, step};
    if (machine->matrix_split == SPLIT_N) fold.n *= count;
    if (machine->matrix_split == SPLIT_M) fold.m *= count;
    return fold;
}
