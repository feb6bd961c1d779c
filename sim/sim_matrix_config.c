/* A matrix unit as the configuration describes it. */
#include "sim/sim_matrix.h"

static uint32_t u32(const sim_config_t *config, const char *key) {
    return (uint32_t)sim_config_u64(config, key); /* the schema bounds every such key below 2^32 */
}

sim_status_t sim_matrix_spec_from_config(const sim_config_t *config, sim_matrix_spec_t *out_spec) {
    *out_spec = (sim_matrix_spec_t){
        .dataflow = (sim_dataflow_t)sim_config_u64(config, "matrix.dataflow"),
        .is_broadcast = sim_config_u64(config, "matrix.operands") == 1,
        .rows = u32(config, "matrix.rows"),
        .cols = u32(config, "matrix.cols"),
        .step = u32(config, "matrix.step"),
        .count = u32(config, "matrix.count"),
        .split = (sim_split_t)sim_config_u64(config, "matrix.split"),
        .weight_buffers = u32(config, "matrix.weight_buffers"),
        .load_rows_per_cycle = u32(config, "matrix.load_rows_per_cycle"),
        .has_full_folds = sim_config_u64(config, "matrix.partial_folds") == 1,
        .is_serial = sim_config_u64(config, "matrix.overlap") == 0,
        .gap_cycles = u32(config, "matrix.gap_cycles"),
        .stream_elems = u32(config, "matrix.stream_elems"),
        .has_rows_apart = u32(config, "matrix.stream_rows") != 0,
        .loads_beside_piece = u32(config, "matrix.load_beside") != 0 &&
                              u32(config, "matrix.weight_buffers") > 1 &&
                              u32(config, "matrix.dataflow") != SIM_OUTPUT_STATIONARY,
        .operand_bytes = u32(config, "matrix.operand_bytes_per_cycle"),
        .switch_cycles = u32(config, "matrix.switch_cycles"),
        .min_stream_cycles = u32(config, "matrix.min_stream_cycles"),
        /* The operands come through the scratchpad: its latency is part of the way to the result.
         */
        .pipeline_cycles =
            u32(config, "matrix.pipeline_cycles") + u32(config, "sram.latency_cycles"),
    };
    return sim_clock_init(&out_spec->clock, sim_config_u64(config, "core.clock"));
}

/* By the choices of matrix.f32. x = hi + lo, or hi + mid + lo, each bf16; the smallest products are
 * left out but by x9. */
static const struct {
    uint32_t passes, pieces;
} F32[] = {
    {0, 1}, /* native */
    {1, 1}, /* bf16x1: hi * hi */
    {3, 2}, /* bf16x3: hi * hi, hi * lo, lo * hi */
    {6, 3}, /* bf16x6: all but mid * lo, lo * mid, lo * lo */
    {9, 3}, /* bf16x9 */
};

uint32_t sim_matrix_f32_passes(const sim_config_t *config) {
    return F32[sim_config_u64(config, "matrix.f32")].passes;
}

sim_ratio_t sim_matrix_f32_rate(const sim_config_t *config, uint32_t *out_pieces) {
    uint64_t choice = sim_config_u64(config, "matrix.f32");
    *out_pieces = F32[choice].pieces;
    if (F32[choice].passes == 0) return sim_config_ratio(config, "matrix.rate.f32");
    sim_ratio_t rate = sim_config_ratio(config, "matrix.rate.bf16");
    rate.den *= F32[choice].passes; /* fits: sim_config_check.c */
    return rate;
}
