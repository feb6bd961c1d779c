#include "sim/sim_matrix.h"

#include <stdlib.h>

__extension__ typedef unsigned __int128 wide_t;

struct sim_matrix {
    sim_engine_t *engine;
    sim_matrix_spec_t spec;
    sim_share_t *share[2]; /* scratchpad, accumulator */
    sim_matrix_op_t *current, *waiting;
    uint64_t free_cycle;    /* end of the last operation */
    uint64_t preload_cycle; /* from here on the weight port and a weight buffer are free for the
                               next one */
};

static uint64_t ceil_div(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}

uint64_t sim_matrix_folds(const sim_matrix_spec_t *spec, uint32_t k, uint32_t n) {
    return ceil_div(k, spec->rows) * ceil_div(n, spec->cols);
}

uint64_t sim_matrix_stream_cycles(const sim_matrix_spec_t *spec, uint32_t m, sim_ratio_t rate) {
    uint64_t cycles = ceil_div((uint64_t)m * rate.den, rate.num);
    return cycles < spec->min_stream_cycles ? spec->min_stream_cycles : cycles;
}

static uint64_t load_cycles(const sim_matrix_spec_t *spec, uint64_t k_used) {
    return ceil_div(k_used, spec->load_rows_per_cycle);
}

/* What two weight buffers leave visible of a load behind a fold of `stream` cycles; one buffer
 * hides nothing. */
static uint64_t exposed(const sim_matrix_spec_t *spec, uint64_t load, uint64_t stream) {
    if (spec->weight_buffers == 1) return load;
    return load > stream ? load - stream : 0;
}

/*
 * Folds run n outer, k inner, so loads repeat as (full, ..., full, last). Fold 0's load is kept
 * apart: whether it is hidden is known when the operation before it ends. The others overlap the
 * fold before them.
 */
static void plan(const sim_matrix_spec_t *spec, sim_matrix_op_t *op) {
    uint64_t folds = sim_matrix_folds(spec, op->k, op->n);
    op->load_cycles = op->exposed_cycles = op->stream_cycles = 0;
    op->array_cycles = 1; /* nothing to do is still an instruction */
    if (folds == 0 || op->m == 0) return;
    uint64_t k_folds = ceil_div(op->k, spec->rows), n_folds = ceil_div(op->n, spec->cols);
    uint64_t last = load_cycles(spec, op->k - (k_folds - 1) * spec->rows);
    uint64_t full = k_folds > 1 ? load_cycles(spec, spec->rows) : last;
    uint64_t full_count = (k_folds - 1) * n_folds, last_count = n_folds;
    if (k_folds > 1)
        full_count--;
    else
        last_count--;
    op->stream_cycles = sim_matrix_stream_cycles(spec, op->m, op->rate);
    op->load_cycles = op->keep_weights && folds == 1 ? 0 : full;
    op->exposed_cycles = full_count * exposed(spec, full, op->stream_cycles) +
                         last_count * exposed(spec, last, op->stream_cycles);
    op->array_cycles = folds * op->stream_cycles + op->exposed_cycles;
}

uint64_t sim_matrix_cold_cycles(const sim_matrix_spec_t *spec, uint32_t m, uint32_t k, uint32_t n,
                                sim_ratio_t rate) {
    sim_matrix_op_t op = {.m = m, .k = k, .n = n, .rate = rate};
    plan(spec, &op);
    return op.load_cycles + op.array_cycles;
}

static void count_bytes(const sim_matrix_spec_t *spec, const sim_matrix_op_t *op,
                        uint64_t bytes[2]) {
    uint64_t k_folds = ceil_div(op->k, spec->rows), n_folds = ceil_div(op->n, spec->cols);
    uint64_t results = (uint64_t)op->m * op->n * op->out_bytes;
    bytes[0] = bytes[1] = 0;
    if (op->stream_cycles == 0) return;
    bytes[0] = (uint64_t)op->m * op->k * n_folds * op->in_bytes;
    if (op->load_cycles > 0) bytes[0] += (uint64_t)op->k * op->n * op->weight_bytes;
    /* Every k fold writes its sums; all but the first read them again, the first one when it
     * accumulates. */
    bytes[1] = results * (2 * k_folds - 1 + op->accumulate);
}

static void book(const sim_matrix_spec_t *spec, sim_matrix_op_t *op) {
    sim_tick_t *cause = op->op.cause;
    for (int i = 0; i < SIM_CAUSE_COUNT; i++)
        cause[i] = 0;
    wide_t cells = (wide_t)op->m * op->k * op->n * op->rate.den * spec->clock.num;
    wide_t per_tick = (wide_t)spec->rows * spec->cols * op->rate.num * spec->clock.den;
    cause[SIM_CAUSE_USEFUL] = (sim_tick_t)(cells / per_tick);
    cause[SIM_CAUSE_WEIGHT_LOAD] = sim_span_ticks(&spec->clock, op->exposed_cycles);
    cause[SIM_CAUSE_UNUSED_LANES] =
        op->span.min_ticks - cause[SIM_CAUSE_USEFUL] - cause[SIM_CAUSE_WEIGHT_LOAD];
    cause[SIM_CAUSE_SRAM_CONFLICT] = op->op.end - op->op.start - op->span.min_ticks;
}

static void on_array_free(sim_engine_t *engine, sim_span_t *span);

/* The unit is free; fold 0's weights may have been loading since the operation was submitted. */
static void begin(sim_matrix_t *unit, sim_matrix_op_t *op) {
    const sim_clock_t *clock = &unit->spec.clock;
    uint64_t submitted = sim_clock_cycle_up(clock, op->submitted);
    uint64_t start = submitted > unit->free_cycle ? submitted : unit->free_cycle;
    uint64_t load_end = submitted > unit->preload_cycle ? submitted : unit->preload_cycle;
    load_end += op->load_cycles;
    uint64_t wait = load_end > start ? load_end - start : 0;
    op->exposed_cycles += wait;
    op->array_cycles += wait;
    op->op.start = sim_clock_tick(clock, start);
    sim_tick_t min_ticks = sim_clock_tick(clock, start + op->array_cycles) - op->op.start;
    uint64_t bytes[2];
    count_bytes(&unit->spec, op, bytes);
    unit->current = op;
    op->span.owner = unit;
    sim_span_start(unit->engine, &op->span, clock, op->op.start, min_ticks, unit->share, bytes,
                   on_array_free);
}

static void on_result(sim_engine_t *engine, sim_span_t *span) {
    sim_matrix_op_t *op = SIM_CONTAINER_OF(span, sim_matrix_op_t, span);
    if (op->op.on_done != NULL) op->op.on_done(engine, &op->op);
}

static void on_array_free(sim_engine_t *engine, sim_span_t *span) {
    sim_matrix_op_t *op = SIM_CONTAINER_OF(span, sim_matrix_op_t, span);
    sim_matrix_t *unit = span->owner;
    const sim_matrix_spec_t *spec = &unit->spec;
    op->op.end = sim_now(engine);
    uint64_t end = sim_clock_cycle(&spec->clock, op->op.end);
    uint64_t latency = (uint64_t)spec->rows + spec->cols - 2 + spec->pipeline_cycles;
    op->op.done = sim_clock_tick(&spec->clock, end + latency);
    book(spec, op);
    unit->free_cycle = end;
    /* With two buffers the spare one is free once the last fold streams. */
    unit->preload_cycle = spec->weight_buffers == 1 ? end : end - op->stream_cycles;
    unit->current = NULL;
    sim_matrix_op_t *next = unit->waiting;
    unit->waiting = NULL;
    if (next != NULL) begin(unit, next);
    bool is_done = op->op.done == op->op.end;
    if (!is_done) sim_span_wait(engine, span, op->op.done, on_result);
    if (op->op.on_end != NULL) op->op.on_end(engine, &op->op);
    if (is_done) on_result(engine, span);
}

bool sim_matrix_can_submit(const sim_matrix_t *unit) {
    return unit->waiting == NULL;
}

void sim_matrix_submit(sim_matrix_t *unit, sim_matrix_op_t *op) {
    op->submitted = sim_now(unit->engine);
    if (unit->waiting != NULL)
        sim_bug("sim_matrix", op->submitted, "submit to a unit with an operation waiting");
    if (op->rate.num == 0 || op->rate.den == 0)
        sim_bug("sim_matrix", op->submitted, "an operation of a type that the unit lacks");
    plan(&unit->spec, op);
    if (unit->current == NULL)
        begin(unit, op);
    else
        unit->waiting = op;
}

sim_status_t sim_matrix_create(sim_engine_t *engine, const sim_matrix_spec_t *spec,
                               sim_share_t *sram, sim_share_t *acc, sim_matrix_t **out_unit) {
    *out_unit = NULL;
    if (spec->rows == 0 || spec->cols == 0 || spec->load_rows_per_cycle == 0 ||
        spec->weight_buffers < 1 || spec->weight_buffers > 2 || spec->min_stream_cycles == 0 ||
        spec->clock.num == 0)
        return SIM_ERROR_INVALID_VALUE;
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
    unit->current = unit->waiting = NULL;
    unit->free_cycle = unit->preload_cycle = 0;
}

sim_status_t sim_matrix_spec_from_config(const sim_config_t *config, sim_matrix_spec_t *out_spec) {
    *out_spec = (sim_matrix_spec_t){
        .rows = (uint32_t)sim_config_u64(config, "matrix.rows"),
        .cols = (uint32_t)sim_config_u64(config, "matrix.cols"),
        .weight_buffers = (uint32_t)sim_config_u64(config, "matrix.weight_buffers"),
        .load_rows_per_cycle = (uint32_t)sim_config_u64(config, "matrix.load_rows_per_cycle"),
        .min_stream_cycles = (uint32_t)sim_config_u64(config, "matrix.min_stream_cycles"),
        /* The operands come through the scratchpad: its latency is part of the way to the result.
         */
        .pipeline_cycles = (uint32_t)(sim_config_u64(config, "matrix.pipeline_cycles") +
                                      sim_config_u64(config, "sram.latency_cycles")),
    };
    return sim_clock_init(&out_spec->clock, sim_config_u64(config, "core.clock"));
}
