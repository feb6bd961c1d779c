#include "sim/sim_vector.h"

#include <stdlib.h>

__extension__ typedef unsigned __int128 wide_t;

struct sim_vector {
    sim_engine_t *engine;
    sim_vector_spec_t spec;
    sim_share_t *share[2]; /* scratchpad, accumulator */
    sim_vector_op_t *current;
};

static uint64_t vectors(const sim_vector_spec_t *spec, uint64_t outer, uint64_t inner) {
    return outer * (inner / spec->lanes + (inner % spec->lanes != 0));
}

/* count vectors at passes(cls) + passes(cls2) cycles each, rounded up once. */
static uint64_t pass_cycles(const sim_vector_spec_t *spec, uint64_t count, sim_vector_class_t cls,
                            sim_vector_class_t cls2) {
    sim_ratio_t a = spec->passes[cls];
    sim_ratio_t b = cls2 == SIM_VECTOR_NONE ? (sim_ratio_t){0, 1} : spec->passes[cls2];
    uint64_t num = (uint64_t)a.num * b.den + (uint64_t)b.num * a.den;
    uint64_t den = (uint64_t)a.den * b.den;
    return (uint64_t)(((wide_t)count * num + den - 1) / den);
}

static uint64_t tail_cycles(const sim_vector_spec_t *spec, sim_vector_class_t cls,
                            sim_vector_class_t cls2) {
    bool is_reduction = cls == SIM_VECTOR_REDUCE || cls2 == SIM_VECTOR_REDUCE;
    return spec->startup_cycles + (is_reduction ? spec->reduce_tail_cycles : 0u);
}

uint64_t sim_vector_cycles(const sim_vector_spec_t *spec, uint64_t outer, uint64_t inner,
                           sim_vector_class_t cls, sim_vector_class_t cls2) {
    uint64_t cycles = pass_cycles(spec, vectors(spec, outer, inner), cls, cls2);
    cycles += tail_cycles(spec, cls, cls2);
    return cycles > 0 ? cycles : 1; /* nothing to do is still an instruction */
}

static void book(const sim_vector_spec_t *spec, sim_vector_op_t *op) {
    sim_tick_t *cause = op->op.cause;
    for (int i = 0; i < SIM_CAUSE_COUNT; i++)
        cause[i] = 0;
    uint64_t slots = vectors(spec, op->outer, op->inner) * spec->lanes;
    cause[SIM_CAUSE_FILL_DRAIN] =
        sim_span_ticks(&spec->clock, tail_cycles(spec, op->cls, op->cls2));
    if (slots == 0) cause[SIM_CAUSE_FILL_DRAIN] = op->span.min_ticks;
    sim_tick_t work = op->span.min_ticks - cause[SIM_CAUSE_FILL_DRAIN];
    if (slots > 0)
        cause[SIM_CAUSE_UNUSED_LANES] =
            (sim_tick_t)((wide_t)work * (slots - op->outer * op->inner) / slots);
    cause[SIM_CAUSE_USEFUL] = work - cause[SIM_CAUSE_UNUSED_LANES];
    cause[SIM_CAUSE_SRAM_CONFLICT] = op->op.end - op->op.start - op->span.min_ticks;
}

static void on_result(sim_engine_t *engine, sim_span_t *span) {
    sim_vector_op_t *op = SIM_CONTAINER_OF(span, sim_vector_op_t, span);
    if (op->op.on_done != NULL) op->op.on_done(engine, &op->op);
}

static void on_lanes_free(sim_engine_t *engine, sim_span_t *span) {
    sim_vector_op_t *op = SIM_CONTAINER_OF(span, sim_vector_op_t, span);
    sim_vector_t *unit = span->owner;
    const sim_clock_t *clock = &unit->spec.clock;
    op->op.end = sim_now(engine);
    uint64_t end = sim_clock_cycle(clock, op->op.end);
    op->op.done = sim_clock_tick(clock, end + unit->spec.pipeline_cycles);
    book(&unit->spec, op);
    unit->current = NULL;
    bool is_done = op->op.done == op->op.end;
    if (!is_done) sim_span_wait(engine, span, op->op.done, on_result);
    if (op->op.on_end != NULL) op->op.on_end(engine, &op->op);
    if (is_done) on_result(engine, span);
}

bool sim_vector_can_submit(const sim_vector_t *unit) {
    return unit->current == NULL;
}

void sim_vector_submit(sim_vector_t *unit, sim_vector_op_t *op) {
    const sim_clock_t *clock = &unit->spec.clock;
    sim_tick_t now = sim_now(unit->engine);
    if (unit->current != NULL) sim_bug("sim_vector", now, "submit to a busy unit");
    if (op->cls == SIM_VECTOR_NONE || op->cls >= SIM_VECTOR_CLASS_COUNT ||
        op->cls2 >= SIM_VECTOR_CLASS_COUNT)
        sim_bug("sim_vector", now, "operation classes %d, %d", (int)op->cls, (int)op->cls2);
    if (unit->spec.passes[op->cls].num == 0 ||
        (op->cls2 != SIM_VECTOR_NONE && unit->spec.passes[op->cls2].num == 0))
        sim_bug("sim_vector", now, "class %d or %d: the unit lacks it", (int)op->cls,
                (int)op->cls2);
    uint64_t start = sim_clock_cycle_up(clock, now);
    uint64_t cycles = sim_vector_cycles(&unit->spec, op->outer, op->inner, op->cls, op->cls2);
    op->op.start = sim_clock_tick(clock, start);
    sim_tick_t min_ticks = sim_clock_tick(clock, start + cycles) - op->op.start;
    sim_bank_use_t use[2] = {op->sram, op->acc};
    unit->current = op;
    op->span.owner = unit;
    sim_span_start(unit->engine, &op->span, clock, op->op.start, min_ticks, unit->share, use,
                   on_lanes_free);
}

sim_status_t sim_vector_create(sim_engine_t *engine, const sim_vector_spec_t *spec,
                               sim_share_t *sram, sim_share_t *acc, sim_vector_t **out_unit) {
    *out_unit = NULL;
    if (spec->lanes == 0 || spec->clock.num == 0) return SIM_ERROR_INVALID_VALUE;
    for (int cls = SIM_VECTOR_NONE + 1; cls < SIM_VECTOR_CLASS_COUNT; cls++)
        if (spec->passes[cls].den == 0) return SIM_ERROR_INVALID_VALUE;
    sim_vector_t *unit = calloc(1, sizeof *unit);
    if (unit == NULL) return SIM_ERROR_OUT_OF_MEMORY;
    unit->engine = engine;
    unit->spec = *spec;
    unit->share[0] = sram;
    unit->share[1] = acc;
    *out_unit = unit;
    return SIM_OK;
}

void sim_vector_destroy(sim_vector_t *unit) {
    free(unit);
}

void sim_vector_reset(sim_vector_t *unit) {
    unit->current = NULL;
}

sim_status_t sim_vector_spec_from_config(const sim_config_t *config, sim_vector_spec_t *out_spec) {
    *out_spec = (sim_vector_spec_t){
        .lanes = (uint32_t)sim_config_u64(config, "vector.lanes"),
        .startup_cycles = (uint32_t)sim_config_u64(config, "vector.startup_cycles"),
        .reduce_tail_cycles = (uint32_t)sim_config_u64(config, "vector.reduce_tail_cycles"),
        .pipeline_cycles = (uint32_t)(sim_config_u64(config, "vector.pipeline_cycles") +
                                      sim_config_u64(config, "sram.latency_cycles")),
        .passes =
            {
                [SIM_VECTOR_NONE] = {0, 1},
                [SIM_VECTOR_ALU] = sim_config_ratio(config, "vector.passes.alu"),
                [SIM_VECTOR_MUL] = sim_config_ratio(config, "vector.passes.mul"),
                [SIM_VECTOR_DIV] = sim_config_ratio(config, "vector.passes.div"),
                [SIM_VECTOR_TRANSCENDENTAL] =
                    sim_config_ratio(config, "vector.passes.transcendental"),
                [SIM_VECTOR_CAST] = sim_config_ratio(config, "vector.passes.cast"),
                [SIM_VECTOR_REDUCE] = sim_config_ratio(config, "vector.passes.reduce"),
            },
    };
    return sim_clock_init(&out_spec->clock, sim_config_u64(config, "core.clock"));
}
