#include "sim/sim_matrix.h"

#include <stdlib.h>

#include "sim/sim_matrix_chain.h"

__extension__ typedef unsigned __int128 wide_t;

#define MAX_WAITING (SIM_MATRIX_MAX_BUFFERS - 1u)

struct sim_matrix {
    sim_engine_t *engine;
    sim_matrix_spec_t spec;
    sim_share_t *share[2]; /* scratchpad, accumulator */
    sim_matrix_op_t *current;
    sim_matrix_op_t *waiting[MAX_WAITING]; /* [0, num_waiting), oldest first */
    uint32_t num_waiting;
    sim_chain_t chain;
    bool is_used; /* the array holds something: a switch has to cross it */
};

static uint64_t ceil_div(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}

static uint64_t max64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static uint64_t step_of(const sim_matrix_spec_t *spec) {
    return spec->step == 0 ? 1 : spec->step;
}

static uint32_t count_of(const sim_matrix_spec_t *spec) {
    return spec->count == 0 ? 1 : spec->count;
}

/* Of all arrays. */
static uint64_t cells_of(const sim_matrix_spec_t *spec) {
    return (uint64_t)spec->rows * spec->cols * count_of(spec);
}

static uint64_t skew_of(const sim_matrix_spec_t *spec) {
    return spec->is_broadcast ? 0 : (uint64_t)spec->rows + spec->cols - 2;
}

static bool has_loads(const sim_matrix_spec_t *spec) {
    return spec->dataflow != SIM_OUTPUT_STATIONARY;
}

/* One array's part of a product, its dimensions in their roles, the folds of it. */
typedef struct part {
    uint32_t rows, cols, streamed;
    uint64_t row_folds, col_folds;
} part_t;

static part_t part_of(const sim_matrix_spec_t *spec, uint32_t m, uint32_t k, uint32_t n) {
    part_t part = {0};
    switch (spec->dataflow) {
    case SIM_WEIGHT_STATIONARY: part = (part_t){.rows = k, .cols = n, .streamed = m}; break;
    case SIM_OUTPUT_STATIONARY: part = (part_t){.rows = m, .cols = n, .streamed = k}; break;
    case SIM_INPUT_STATIONARY: part = (part_t){.rows = k, .cols = m, .streamed = n}; break;
    }
    part.row_folds = ceil_div(part.rows, spec->rows);
    part.col_folds = ceil_div(part.cols, spec->cols);
    return part;
}

/* The largest part when `along_n` arrays split n and as many as are left split m. */
static part_t split(const sim_matrix_spec_t *spec, uint32_t m, uint32_t k, uint32_t n,
                    uint32_t along_n) {
    uint32_t along_m = count_of(spec) / along_n;
    return part_of(spec, (uint32_t)ceil_div(m, along_m), k, (uint32_t)ceil_div(n, along_n));
}

static uint64_t steps_of(const sim_matrix_spec_t *spec, const part_t *part) {
    return part->row_folds * part->col_folds * ceil_div(part->streamed, step_of(spec));
}

static part_t share_of(const sim_matrix_spec_t *spec, uint32_t m, uint32_t k, uint32_t n) {
    uint32_t count = count_of(spec);
    if (spec->split == SIM_SPLIT_M) return split(spec, m, k, n, 1);
    part_t best = split(spec, m, k, n, count);
    if (spec->split == SIM_SPLIT_N) return best;
    for (uint32_t along_n = count - 1; along_n >= 1; along_n--) {
        if (count % along_n != 0) continue;
        part_t part = split(spec, m, k, n, along_n);
        if (steps_of(spec, &part) < steps_of(spec, &best)) best = part;
    }
    return best;
}

/* ---- closed forms -------------------------------------------------------- */

uint64_t sim_matrix_folds(const sim_matrix_spec_t *spec, uint32_t k, uint32_t n) {
    return ceil_div(k, spec->rows) * ceil_div(n, (uint64_t)spec->cols * count_of(spec));
}

uint64_t sim_matrix_product_folds(const sim_matrix_spec_t *spec, uint32_t m, uint32_t k,
                                  uint32_t n) {
    if (m == 0 || k == 0 || n == 0) return 0;
    part_t part = share_of(spec, m, k, n);
    return part.row_folds * part.col_folds;
}

uint64_t sim_matrix_padded_macs(const sim_matrix_spec_t *spec, uint32_t m, uint32_t k, uint32_t n) {
    if (m == 0 || k == 0 || n == 0) return 0;
    part_t part = share_of(spec, m, k, n);
    return steps_of(spec, &part) * step_of(spec) * cells_of(spec);
}

uint64_t sim_matrix_stream_cycles(const sim_matrix_spec_t *spec, uint32_t streamed,
                                  sim_ratio_t rate) {
    uint64_t steps = ceil_div(streamed, step_of(spec));
    return max64(ceil_div(steps * rate.den, rate.num), spec->min_stream_cycles);
}

/* How a fold's stream is cut: `rows` times a row in pieces, the last one maybe shorter. */
typedef struct cut {
    uint64_t rows, full; /* full pieces of a row */
    uint32_t tail;       /* elements of its last piece; 0: a full one */
} cut_t;

static cut_t cut_of(const sim_matrix_spec_t *spec, uint32_t streamed, uint32_t row_elems) {
    bool is_apart = spec->has_rows_apart && row_elems > 0 && row_elems < streamed;
    uint32_t row = is_apart ? row_elems : streamed;
    uint32_t piece = spec->stream_elems == 0 ? row : spec->stream_elems;
    return (cut_t){.rows = ceil_div(streamed, row), .full = row / piece, .tail = row % piece};
}

static uint64_t pieces_of(const cut_t *cut) {
    return cut->rows * (cut->full + (cut->tail > 0));
}

/* Cycles of all pieces; of the last one. */
static uint64_t piece_cycles(const sim_matrix_spec_t *spec, uint32_t streamed, const cut_t *cut,
                             sim_ratio_t rate, uint64_t *out_last) {
    uint32_t size = spec->stream_elems == 0 ? streamed : spec->stream_elems;
    if (cut->full == 0) size = cut->tail;
    uint64_t full = sim_matrix_stream_cycles(spec, size, rate);
    uint64_t tail = cut->tail == 0 ? 0 : sim_matrix_stream_cycles(spec, cut->tail, rate);
    *out_last = cut->tail == 0 ? full : tail;
    return cut->rows * (cut->full * full + tail);
}

static uint64_t port_cycles(const sim_matrix_spec_t *spec, uint64_t used_rows, uint64_t pieces) {
    uint64_t rows = spec->has_full_folds ? spec->rows : used_rows;
    return ceil_div(rows, spec->load_rows_per_cycle) * pieces;
}

static uint64_t fill_cycles(const sim_matrix_spec_t *spec, uint64_t pieces) {
    return pieces * spec->gap_cycles + (spec->is_serial ? skew_of(spec) : 0);
}

uint64_t sim_matrix_fill_cycles(const sim_matrix_spec_t *spec, uint32_t streamed) {
    return fill_cycles(spec, spec->stream_elems == 0 ? 1 : ceil_div(streamed, spec->stream_elems));
}

uint64_t sim_matrix_latency_cycles(const sim_matrix_spec_t *spec) {
    return spec->pipeline_cycles + (spec->is_serial ? 0 : skew_of(spec));
}

/* What the operand ports need for each of an operation's folds. */
static uint64_t operand_cycles(const sim_matrix_spec_t *spec, const sim_matrix_op_t *op,
                               uint64_t folds) {
    sim_bank_use_t use[2];
    if (spec->operand_bytes == 0) return 0;
    sim_matrix_use(spec, op, use);
    return ceil_div(use[0].bytes, folds * spec->operand_bytes);
}

/* With one or two buffers every load waits for the switch before it: part of `full` and `last`. */
static sim_folds_t folds_of(const sim_matrix_spec_t *spec, sim_matrix_op_t *op) {
    sim_folds_t folds = {0};
    op->fill_cycles = op->operand_cycles = 0;
    if (op->m == 0 || op->k == 0 || op->n == 0) return folds;
    part_t part = share_of(spec, op->m, op->k, op->n);
    uint64_t pieces = has_loads(spec) && op->pieces > 1 ? op->pieces : 1;
    folds.row_folds = part.row_folds;
    folds.col_folds = part.col_folds;
    folds.last = port_cycles(spec, part.rows - (part.row_folds - 1) * spec->rows, pieces);
    folds.full = folds.row_folds > 1 ? port_cycles(spec, spec->rows, pieces) : folds.last;
    if (has_loads(spec)) {
        folds.last += spec->switch_cycles;
        folds.full += spec->switch_cycles;
    }
    bool has_rows = spec->dataflow == SIM_WEIGHT_STATIONARY;
    cut_t cut = cut_of(spec, part.streamed, has_rows ? op->row_elems : 0);
    uint64_t stream = piece_cycles(spec, part.streamed, &cut, op->rate, &folds.piece);
    uint64_t count = folds.row_folds * folds.col_folds;
    uint64_t operands = operand_cycles(spec, op, count);
    uint64_t fill = fill_cycles(spec, pieces_of(&cut)), own = stream + fill;
    op->operand_cycles = operands > own ? count * (operands - own) : 0;
    op->fill_cycles = count * fill;
    folds.stream = max64(own, operands);
    return folds;
}

/* The first fold: of a load it is known when it may begin, at `from` or later. */
static void first_fold(const sim_matrix_spec_t *spec, sim_chain_t *chain, const sim_folds_t *folds,
                       uint64_t from, bool is_kept, bool is_used) {
    uint32_t newest = spec->weight_buffers - 1;
    uint64_t port = folds->row_folds > 1 ? folds->full : folds->last;
    if (!has_loads(spec)) {
        chain->streamed = max64(chain->streamed, from);
        sim_chain_drains(chain, spec->weight_buffers, 1, port, folds->stream);
    } else if (is_kept) {
        uint64_t start = max64(chain->streamed, from);
        chain->streamed = chain->buffer[newest] = start + folds->stream;
        /* The one place to wait was taken until now: nobody loads before. */
        bool is_late = spec->weight_buffers <= 2 && start > spec->switch_cycles;
        if (is_late) chain->port = max64(chain->port, start - spec->switch_cycles);
    } else {
        uint64_t free = max64(chain->port, chain->buffer[0]) + (is_used ? spec->switch_cycles : 0);
        if (spec->loads_beside_piece) free = max64(free, chain->streamed - chain->piece);
        chain->port = max64(free, from);
        chain->buffer[0] = 0;
        sim_chain_loads(chain, spec->weight_buffers, 1, port - spec->switch_cycles, folds->stream);
    }
}

/* Loads that take turns with the piece that they pass beside. */
static uint64_t conflict_cycles(const sim_matrix_spec_t *spec, const sim_matrix_op_t *op,
                                const sim_folds_t *folds, bool is_kept) {
    if (!spec->loads_beside_piece || is_kept) return 0;
    return (folds->row_folds * folds->col_folds * folds->full * op->same_bank) >> 16;
}

/* Puts the operation behind `chain`; it is submitted at cycle `from`. Returns its first cycle. */
static uint64_t plan(const sim_matrix_spec_t *spec, sim_chain_t *chain, sim_matrix_op_t *op,
                     uint64_t from, bool is_used) {
    uint64_t start = max64(chain->streamed, from);
    sim_folds_t folds = folds_of(spec, op);
    uint64_t count = folds.row_folds * folds.col_folds;
    op->stall_cycles = op->tail_cycles = op->conflict_cycles = 0;
    if (count == 0) { /* nothing to do is still an instruction */
        op->array_cycles = 1;
        chain->streamed = start + 1;
        if (has_loads(spec)) chain->port = chain->streamed;
    } else {
        bool is_kept = op->keep_weights && count == 1 && spec->dataflow == SIM_WEIGHT_STATIONARY;
        first_fold(spec, chain, &folds, from, is_kept, is_used);
        uint64_t conflict = conflict_cycles(spec, op, &folds, is_kept);
        if (count > 1) sim_chain_product(chain, spec, &folds, 1);
        sim_chain_shift(chain, spec->weight_buffers, conflict);
        chain->piece = folds.piece;
        op->array_cycles = chain->streamed - start;
        op->conflict_cycles = conflict;
        op->stall_cycles = op->array_cycles - count * folds.stream - conflict;
    }
    op->tail_cycles = sim_matrix_latency_cycles(spec);
    if (!has_loads(spec) && chain->port > chain->streamed)
        op->tail_cycles += chain->port - chain->streamed;
    return start;
}

uint64_t sim_matrix_cold_cycles(const sim_matrix_spec_t *spec, uint32_t m, uint32_t k, uint32_t n,
                                sim_ratio_t rate) {
    sim_matrix_op_t op = {.m = m, .k = k, .n = n, .rate = rate};
    sim_chain_t chain = {0};
    (void)plan(spec, &chain, &op, 0, false);
    return op.array_cycles;
}

/* An operand of `elems` elements that passes `times`, beside others of the same memory. */
static void add_use(sim_bank_use_t *sum, const sim_bank_use_t *once, uint64_t elems,
                    uint32_t elem_bytes, uint64_t times) {
    sim_bank_use_t use = *once;
    if (use.bytes == 0) use.bytes = elems * elem_bytes;
    sim_bank_add(sum, &use, times);
}

void sim_matrix_use(const sim_matrix_spec_t *spec, const sim_matrix_op_t *op,
                    sim_bank_use_t out_use[2]) {
    out_use[0] = out_use[1] = (sim_bank_use_t){0};
    if (op->m == 0 || op->k == 0 || op->n == 0) return;
    part_t part = share_of(spec, op->m, op->k, op->n);
    uint64_t row_folds = part.row_folds, col_folds = part.col_folds;
    bool is_kept = op->keep_weights && row_folds * col_folds == 1;
    uint64_t in_times = col_folds, weight_times = 1;
    switch (spec->dataflow) {
    case SIM_WEIGHT_STATIONARY: weight_times = is_kept ? 0 : 1; break;
    case SIM_INPUT_STATIONARY: in_times = 1, weight_times = col_folds; break;
    case SIM_OUTPUT_STATIONARY: weight_times = row_folds; break;
    }
    add_use(&out_use[0], &op->in, (uint64_t)op->m * op->k, op->in_bytes, in_times);
    add_use(&out_use[0], &op->weights, (uint64_t)op->k * op->n, op->weight_bytes, weight_times);
    /* Every k fold writes its sums; all but the first read them again, the first one when it
     * accumulates. Sums that stay in the array are written once. */
    uint64_t k_folds = spec->dataflow == SIM_OUTPUT_STATIONARY ? 1 : row_folds;
    add_use(&out_use[1], &op->out, (uint64_t)op->m * op->n, op->out_bytes,
            2 * k_folds - 1 + op->accumulate);
}

/* ---- the unit ------------------------------------------------------------ */

static void book(const sim_matrix_spec_t *spec, sim_matrix_op_t *op) {
    sim_tick_t *cause = op->op.cause;
    for (int i = 0; i < SIM_CAUSE_COUNT; i++)
        cause[i] = 0;
    wide_t cells = (wide_t)op->m * op->k * op->n * op->rate.den * spec->clock.num;
    wide_t per_tick = (wide_t)cells_of(spec) * step_of(spec) * op->rate.num * spec->clock.den;
    bool is_load = has_loads(spec);
    uint64_t drains = is_load ? 0 : op->stall_cycles;
    cause[SIM_CAUSE_USEFUL] = (sim_tick_t)(cells / per_tick);
    cause[SIM_CAUSE_WEIGHT_LOAD] = sim_span_ticks(&spec->clock, op->stall_cycles - drains);
    cause[SIM_CAUSE_FILL_DRAIN] = sim_span_ticks(&spec->clock, op->fill_cycles + drains);
    cause[SIM_CAUSE_OPERAND_WAIT] = sim_span_ticks(&spec->clock, op->operand_cycles);
    sim_tick_t conflict = sim_span_ticks(&spec->clock, op->conflict_cycles);
    cause[SIM_CAUSE_UNUSED_LANES] = op->span.min_ticks - cause[SIM_CAUSE_USEFUL] -
                                    cause[SIM_CAUSE_WEIGHT_LOAD] - cause[SIM_CAUSE_FILL_DRAIN] -
                                    cause[SIM_CAUSE_OPERAND_WAIT] - conflict;
    cause[SIM_CAUSE_SRAM_CONFLICT] = op->op.end - op->op.start - op->span.min_ticks + conflict;
}

static void on_array_free(sim_engine_t *engine, sim_span_t *span);

/* The unit is free; what fold 0 needs may have been loading since the operation was submitted. */
static void begin(sim_matrix_t *unit, sim_matrix_op_t *op) {
    const sim_clock_t *clock = &unit->spec.clock;
    uint64_t submitted = sim_clock_cycle_up(clock, op->submitted);
    uint64_t start = plan(&unit->spec, &unit->chain, op, submitted, unit->is_used);
    unit->is_used = true;
    op->op.start = sim_clock_tick(clock, start);
    sim_tick_t min_ticks = sim_clock_tick(clock, start + op->array_cycles) - op->op.start;
    sim_bank_use_t use[2];
    sim_matrix_use(&unit->spec, op, use);
    unit->current = op;
    op->span.owner = unit;
    sim_span_start(unit->engine, &op->span, clock, op->op.start, min_ticks, unit->share, use,
                   on_array_free);
}

static void on_result(sim_engine_t *engine, sim_span_t *span) {
    sim_matrix_op_t *op = SIM_CONTAINER_OF(span, sim_matrix_op_t, span);
    if (op->op.on_done != NULL) op->op.on_done(engine, &op->op);
}

static sim_matrix_op_t *take_waiting(sim_matrix_t *unit) {
    if (unit->num_waiting == 0) return NULL;
    sim_matrix_op_t *next = unit->waiting[0];
    unit->num_waiting--;
    for (uint32_t i = 0; i < unit->num_waiting; i++)
        unit->waiting[i] = unit->waiting[i + 1];
    return next;
}

static void on_array_free(sim_engine_t *engine, sim_span_t *span) {
    sim_matrix_op_t *op = SIM_CONTAINER_OF(span, sim_matrix_op_t, span);
    sim_matrix_t *unit = span->owner;
    const sim_matrix_spec_t *spec = &unit->spec;
    op->op.end = sim_now(engine);
    uint64_t end = sim_clock_cycle(&spec->clock, op->op.end);
    op->op.done = sim_clock_tick(&spec->clock, end + op->tail_cycles);
    book(spec, op);
    sim_chain_shift(&unit->chain, spec->weight_buffers, end - unit->chain.streamed);
    unit->current = NULL;
    sim_matrix_op_t *next = take_waiting(unit);
    if (next != NULL) begin(unit, next);
    bool is_done = op->op.done == op->op.end;
    if (!is_done) sim_span_wait(engine, span, op->op.done, on_result);
    if (op->op.on_end != NULL) op->op.on_end(engine, &op->op);
    if (is_done) on_result(engine, span);
}

/* Each operation that waits loads into a buffer of its own. */
static uint32_t max_waiting(const sim_matrix_spec_t *spec) {
    return has_loads(spec) && spec->weight_buffers > 2 ? spec->weight_buffers - 1 : 1;
}

bool sim_matrix_can_submit(const sim_matrix_t *unit) {
    return unit->num_waiting < max_waiting(&unit->spec);
}

void sim_matrix_submit(sim_matrix_t *unit, sim_matrix_op_t *op) {
    op->submitted = sim_now(unit->engine);
    if (!sim_matrix_can_submit(unit))
        sim_bug("sim_matrix", op->submitted, "submit to a unit whose places to wait are taken");
    if (op->rate.num == 0 || op->rate.den == 0)
        sim_bug("sim_matrix", op->submitted, "an operation of a type that the unit lacks");
    if (unit->current == NULL)
        begin(unit, op);
    else
        unit->waiting[unit->num_waiting++] = op;
}

static bool is_valid(const sim_matrix_spec_t *spec) {
    if (spec->rows == 0 || spec->cols == 0 || spec->load_rows_per_cycle == 0 ||
        spec->min_stream_cycles == 0 || spec->clock.num == 0)
        return false;
    if (spec->weight_buffers < 1 || spec->weight_buffers > SIM_MATRIX_MAX_BUFFERS) return false;
    bool can_switch = has_loads(spec) && spec->weight_buffers <= 2;
    return spec->switch_cycles == 0 || can_switch;
}

sim_status_t sim_matrix_create(sim_engine_t *engine, const sim_matrix_spec_t *spec,
                               sim_share_t *sram, sim_share_t *acc, sim_matrix_t **out_unit) {
    *out_unit = NULL;
    if (!is_valid(spec)) return SIM_ERROR_INVALID_VALUE;
    sim_matrix_t *unit = calloc(1, sizeof *unit);
    if (unit == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    unit->engine = engine;
    unit->spec = *spec;
    unit->share[0] = sram;
    unit->share[1] = acc;
    *out_unit = unit;
    return SIM_OK;
}

void sim_matrix_destroy(sim_matrix_t *unit) {
    free(unit);
}

void sim_matrix_reset(sim_matrix_t *unit) {
    unit->current = NULL;
    unit->num_waiting = 0;
    unit->chain = (sim_chain_t){0};
    unit->is_used = false;
}
