/* What the tests of the DMA engine share: two engines of a core with or without DRAM, interconnect
 * and ports behind them. */
#ifndef DMA_BENCH_H
#define DMA_BENCH_H

#include <criterion/criterion.h>
#include <stdlib.h>

#include "sim/sim_dma.h"
#include "tests/sim/units.h"

#define TICKS 8u /* a cycle of 1 GHz */

static inline sim_dma_spec_t spec_of(void) {
    return (sim_dma_spec_t){.bytes_per_cycle = 256,
                            .descriptor_cycles = 64,
                            .run_cycles = 1,
                            .completion_cycles = 32,
                            .request_bytes = 4096,
                            .outstanding_bytes = 131072,
                            .read_transfers = 2,
                            .write_transfers = 2,
                            .transpose_factor = {3, 2},
                            .accumulate_factor = {2, 1},
                            .clock = clock_of(GHZ)};
}

/* One row of one bank is 1 KiB of consecutive bytes; no refresh: closed forms hold. */
#define QUIET                                                                                      \
    "dram.channels=1,dram.bytes=64MiB,dram.trefi=0,dram.hash=false,dram.mapping=ro-ba-bg-co,dram." \
    "frontend=10ns"

/* Cycles of noc.clock = 1 GHz: 20 and 256 bytes a cycle at the core. */
enum { NOC_LATENCY = 20, NOC_WIDTH = 256 };

typedef struct bench {
    sim_engine_t *engine;
    sim_dram_t *dram;
    sim_noc_t *noc;
    sim_share_t sram, acc;
    sim_dma_t *unit[2];
    uint64_t count[2];
} bench_t;

static inline void bench_init(bench_t *bench, const sim_dma_spec_t *spec, const char *overrides) {
    *bench = (bench_t){.engine = engine_new()};
    sim_share_t *sram = NULL, *acc = NULL;
    if (overrides != NULL) {
        sim_config_t *config = config_new("default", overrides);
        sim_error_t err = {0};
        cr_assert_eq(sim_dram_create(config, &bench->dram, &err), SIM_OK, "%s", err.text);
        cr_assert_eq(sim_noc_create(config, 4, &bench->noc, &err), SIM_OK, "%s", err.text);
        sim_config_destroy(config);
        sram = &bench->sram;
        sim_share_init(sram, bench->engine, &spec->clock, 2048);
        acc = &bench->acc;
        sim_share_init(acc, bench->engine, &spec->clock, 64);
    }
    for (int i = 0; i < 2; i++)
        cr_assert_eq(sim_dma_create(bench->engine, spec, bench->dram, bench->noc, 0, sram, acc,
                                    &bench->unit[i]),
                     SIM_OK);
}

static inline void bench_reset(bench_t *bench) {
    sim_engine_reset(bench->engine);
    for (int i = 0; i < 2; i++)
        sim_dma_reset(bench->unit[i]);
    if (bench->dram == NULL) return;
    sim_dram_reset(bench->dram);
    sim_noc_reset(bench->noc);
    sim_share_reset(&bench->sram);
    sim_share_reset(&bench->acc);
}

static inline void bench_fini(bench_t *bench) {
    for (int i = 0; i < 2; i++)
        sim_dma_destroy(bench->unit[i]);
    sim_dram_destroy(bench->dram);
    sim_noc_destroy(bench->noc);
    sim_engine_destroy(bench->engine);
}

/* `runs` runs of run_bytes, `stride` bytes apart. */
static inline sim_dma_op_t op_of(bench_t *bench, sim_dma_kind_t kind, uint64_t base, uint32_t runs,
                                 int64_t stride, uint64_t run_bytes) {
    sim_dma_op_t op = {.kind = kind,
                       .base = base,
                       .ndims = 1,
                       .size = {runs},
                       .stride = {stride},
                       .run_bytes = run_bytes};
    watch(&op.op, bench->count);
    return op;
}

static inline uint64_t words(uint64_t bytes) {
    return (bytes + 255) / 256;
}

static inline sim_tick_t up(sim_tick_t tick) {
    return (tick + TICKS - 1) / TICKS * TICKS;
}

/* Hands transfers on as the engine takes them. */
typedef struct feeder {
    sim_dma_t *unit;
    sim_dma_op_t *op;
    uint32_t next, count, done;
} feeder_t;

static inline void feed(sim_engine_t *engine, sim_op_t *op) {
    (void)engine;
    feeder_t *feeder = op->owner;
    while (feeder->next < feeder->count && sim_dma_can_submit(feeder->unit))
        sim_dma_submit(feeder->unit, &feeder->op[feeder->next++]);
}

static inline void finished(sim_engine_t *engine, sim_op_t *op) {
    (void)engine;
    ((feeder_t *)op->owner)->done++;
}

#endif
