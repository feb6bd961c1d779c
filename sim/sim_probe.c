#include "sim/sim_probe.h"

#include <stdlib.h>

#include "sim/sim_dma.h"
#include "sim/sim_event.h"

#define STREAM_BYTES (UINT64_C(64) << 20)
#define CHUNK_BYTES  (UINT64_C(64) << 10)
#define RANDOM_READS UINT64_C(32768)
#define RANDOM_BYTES UINT64_C(64)
#define ROWS_AT_ONCE UINT64_C(256)
#define REACH_BYTES  (UINT64_C(4) << 30)
#define PS_PER_S     UINT64_C(1000000000000)

__extension__ typedef unsigned __int128 wide_t;

typedef struct bench bench_t;

/* A DMA engine and what it still has to do: transfers first, first + engines, .... */
typedef struct reader {
    bench_t *bench;
    sim_dma_t *dma;
    uint64_t next;
    bool is_feeding;
} reader_t;

struct bench {
    sim_engine_t *engine;
    sim_dram_t *dram;
    sim_cache_t *cache;
    sim_noc_t *noc;
    reader_t *reader;
    uint32_t count, room;
    sim_dma_op_t *op; /* [transfers] */
    uint64_t transfers;
    uint64_t *row; /* [RANDOM_READS] */
    sim_tick_t finished;
};

/* Submits until one waits. An end inside a submission does not start over. */
static void feed(reader_t *reader) {
    bench_t *bench = reader->bench;
    if (reader->is_feeding) return;
    reader->is_feeding = true;
    while (reader->next < bench->transfers && sim_dma_can_submit(reader->dma)) {
        sim_dma_op_t *op = &bench->op[reader->next];
        reader->next += bench->count;
        op->op.owner = reader;
        sim_dma_submit(reader->dma, op);
    }
    reader->is_feeding = false;
}

static void on_end(sim_engine_t *engine, sim_op_t *op) {
    (void)engine;
    feed(op->owner);
}

static void on_done(sim_engine_t *engine, sim_op_t *op) {
    bench_t *bench = ((reader_t *)op->owner)->bench;
    bench->finished = sim_now(engine);
}

static uint64_t drawn(uint64_t number) { /* splitmix64 */
    uint64_t x = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static void plan_stream(bench_t *bench) {
    bench->transfers = STREAM_BYTES / CHUNK_BYTES;
    for (uint64_t i = 0; i < bench->transfers; i++)
        bench->op[i] = (sim_dma_op_t){.op = {.on_end = on_end, .on_done = on_done},
                                      .kind = SIM_DMA_READ,
                                      .base = i * CHUNK_BYTES,
                                      .run_bytes = CHUNK_BYTES};
}

static void plan_random(bench_t *bench, uint64_t memory_bytes) {
    uint64_t places = (memory_bytes < REACH_BYTES ? memory_bytes : REACH_BYTES) / RANDOM_BYTES;
    for (uint64_t i = 0; i < RANDOM_READS; i++)
        bench->row[i] = drawn(i) % places * RANDOM_BYTES;
    bench->transfers = RANDOM_READS / ROWS_AT_ONCE;
    for (uint64_t i = 0; i < bench->transfers; i++)
        bench->op[i] = (sim_dma_op_t){.op = {.on_end = on_end, .on_done = on_done},
                                      .kind = SIM_DMA_READ,
                                      .run_bytes = RANDOM_BYTES,
                                      .row_address = bench->row + i * ROWS_AT_ONCE,
                                      .row_count = ROWS_AT_ONCE};
}

/* What the planned transfers achieve, from an epoch's start. */
static uint64_t run(bench_t *bench, uint64_t bytes) {
    sim_engine_reset(bench->engine);
    sim_dram_reset(bench->dram);
    sim_cache_reset(bench->cache);
    sim_noc_reset(bench->noc);
    bench->finished = 0;
    for (uint32_t i = 0; i < bench->count; i++) {
        sim_dma_reset(bench->reader[i].dma);
        bench->reader[i].next = i;
    }
    for (uint32_t i = 0; i < bench->count; i++)
        feed(&bench->reader[i]);
    (void)sim_engine_run(bench->engine);
    return (uint64_t)((wide_t)bytes * PS_PER_S / ((wide_t)bench->finished * SIM_TICK_PS));
}

/* ---- engines ---- */

static sim_status_t add_core(bench_t *bench, const sim_config_t *view, uint32_t core) {
    sim_dma_spec_t spec;
    sim_status_t status = sim_dma_spec_from_config(view, &spec);
    uint32_t queues = (uint32_t)sim_config_u64(view, "dma.queues");
    for (uint32_t q = 0; q < queues && status == SIM_OK; q++) {
        spec.network = q % sim_noc_networks(bench->noc);
        status = sim_dma_create(bench->engine, &spec, bench->dram, bench->noc, core, NULL, NULL,
                                &bench->reader[bench->count].dma);
        if (status != SIM_OK) break;
        sim_dma_set_cache(bench->reader[bench->count].dma, bench->cache);
        bench->reader[bench->count++].bench = bench;
    }
    return status;
}

/* The engines of the cores that compute; queue by queue of a core, class by class. */
static sim_status_t add_engines(bench_t *bench, const sim_config_t *config) {
    sim_status_t status = SIM_OK;
    uint32_t first = 0;
    for (uint32_t c = 0; c < sim_config_classes(config); c++) {
        const sim_config_t *view = sim_config_class(config, c);
        uint32_t cores = (uint32_t)sim_config_u64(view, "grid.cores");
        uint32_t workers = (uint32_t)sim_config_u64(view, "grid.workers");
        if (workers == 0) workers = cores;
        for (uint32_t i = 0; i < workers && status == SIM_OK; i++)
            status = add_core(bench, view, first + i);
        first += cores;
    }
    return status;
}

static uint32_t most_engines(const sim_config_t *config) {
    uint32_t most = 0;
    for (uint32_t c = 0; c < sim_config_classes(config); c++) {
        const sim_config_t *view = sim_config_class(config, c);
        most += (uint32_t)(sim_config_u64(view, "grid.cores") * sim_config_u64(view, "dma.queues"));
    }
    return most;
}

static void bench_fini(bench_t *bench) {
    for (uint32_t i = 0; i < bench->count; i++)
        sim_dma_destroy(bench->reader[i].dma);
    sim_noc_destroy(bench->noc);
    sim_cache_destroy(bench->cache);
    sim_dram_destroy(bench->dram);
    sim_engine_destroy(bench->engine);
    free(bench->reader);
    free(bench->op);
    free(bench->row);
}

static sim_status_t bench_init(bench_t *bench, const sim_config_t *config, sim_error_t *err) {
    *bench = (bench_t){0};
    bench->reader = calloc(most_engines(config), sizeof *bench->reader);
    bench->op = calloc(STREAM_BYTES / CHUNK_BYTES, sizeof *bench->op);
    bench->row = calloc(RANDOM_READS, sizeof *bench->row);
    sim_status_t status = SIM_OK;
    if (bench->reader == NULL || bench->op == NULL || bench->row == NULL)
        status = SIM_ERROR_OUT_OF_MEMORY;
    if (status == SIM_OK) status = sim_engine_create(&bench->engine);
    if (status == SIM_OK) status = sim_dram_create(config, &bench->dram, err);
    if (status == SIM_OK)
        status = sim_cache_create(config, bench->engine, bench->dram, &bench->cache, err);
    if (status == SIM_OK)
        status = sim_noc_create(config, sim_config_cores(config), &bench->noc, err);
    if (status == SIM_OK) status = add_engines(bench, config);
    if (status == SIM_OK) return SIM_OK;
    bench_fini(bench);
    return sim_error_set(err, status, "the units to measure memory with could not be made");
}

sim_status_t sim_probe_run(const sim_config_t *config, sim_probe_t *out_probe, sim_error_t *err) {
    *out_probe = (sim_probe_t){0};
    bench_t bench;
    sim_status_t status = bench_init(&bench, config, err);
    if (status != SIM_OK) return status;
    plan_stream(&bench);
    out_probe->stream_bytes_per_s = run(&bench, STREAM_BYTES);
    plan_random(&bench, sim_config_u64(config, "dram.bytes"));
    out_probe->random_bytes_per_s = run(&bench, RANDOM_READS * RANDOM_BYTES);
    bench_fini(&bench);
    return SIM_OK;
}
