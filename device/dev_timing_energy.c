/* Energy of a launch: actions of the engines as they are submitted, of interconnect and DRAM from
 * their statistics. */
#include "device/dev_timing_internal.h"

#include <string.h>

__extension__ typedef unsigned __int128 wide_t;

void timing_energy_matrix(timing_job_t *job, const sim_matrix_op_t *op, vnpu_dtype_t dtype) {
    uint64_t *count = job->actions[VNPU_ENERGY_MATRIX].count;
    sim_bank_use_t use[2];
    sim_energy_action_t action = SIM_ENERGY_MAC_I8;
    uint64_t passes = 1;
    if (dtype == VNPU_F32) action = SIM_ENERGY_MAC_F32;
    if (dtype == VNPU_F32 && job->cls->matrix_f32_passes > 0) {
        action = SIM_ENERGY_MAC_BF16;
        passes = job->cls->matrix_f32_passes;
    }
    if (dtype == VNPU_BF16) action = SIM_ENERGY_MAC_BF16;
    if (dtype == VNPU_F16) action = SIM_ENERGY_MAC_F16;
    sim_matrix_use(&job->cls->matrix, op, use);
    count[action] += passes * op->m * op->k * op->n;
    count[SIM_ENERGY_SRAM_BYTE] += use[0].bytes;
    count[SIM_ENERGY_ACC_BYTE] += use[1].bytes;
}

static void count_class(uint64_t *count, sim_vector_class_t cls, uint64_t elems) {
    switch (cls) {
    case SIM_VECTOR_NONE:
    case SIM_VECTOR_CLASS_COUNT: return;
    case SIM_VECTOR_ALU: count[SIM_ENERGY_VECTOR_ALU] += elems; return;
    case SIM_VECTOR_MUL: count[SIM_ENERGY_VECTOR_MUL] += elems; return;
    case SIM_VECTOR_DIV: count[SIM_ENERGY_VECTOR_DIV] += elems; return;
    case SIM_VECTOR_TRANSCENDENTAL: count[SIM_ENERGY_VECTOR_TRANSCENDENTAL] += elems; return;
    case SIM_VECTOR_CAST: count[SIM_ENERGY_VECTOR_CAST] += elems; return;
    case SIM_VECTOR_REDUCE: count[SIM_ENERGY_VECTOR_REDUCE] += elems; return;
    }
}

void timing_energy_vector(timing_job_t *job, const sim_vector_op_t *op, uint64_t elems) {
    uint64_t *count = job->actions[VNPU_ENERGY_VECTOR].count;
    count_class(count, op->cls, elems);
    count_class(count, op->cls2, elems);
    count[SIM_ENERGY_SRAM_BYTE] += op->sram.bytes;
    count[SIM_ENERGY_ACC_BYTE] += op->acc.bytes;
}

void timing_energy_dma(timing_job_t *job, const sim_dma_op_t *op) {
    uint64_t copies = op->multicast_count > 0 ? op->multicast_count : 1;
    job->actions[VNPU_ENERGY_DMA].count[SIM_ENERGY_SRAM_BYTE] += copies * op->sram_bytes;
    job->actions[VNPU_ENERGY_DMA].count[SIM_ENERGY_ACC_BYTE] += op->acc_bytes;
}

void timing_count_memory(timing_job_t *job, const sim_dma_op_t *op, uint64_t bytes) {
    dev_record_t *record = &job->record;
    bool is_shared = sim_dma_is_shared(op);
    uint64_t read = op->kind == SIM_DMA_READ || op->accumulate ? bytes : 0;
    uint64_t written = op->kind == SIM_DMA_WRITE ? bytes : 0;
    *(is_shared ? &record->shared_read_bytes : &record->dram_read_bytes) += read;
    *(is_shared ? &record->shared_written_bytes : &record->dram_written_bytes) += written;
    if (is_shared) job->actions[VNPU_ENERGY_DMA].count[SIM_ENERGY_SRAM_BYTE] += read + written;
}

/* Part of `total` that a job has by its share of the weights; what the jobs before it got is in
 * *given, so that the parts of all jobs sum to the total. */
static uint64_t share(uint64_t total, uint64_t upto, uint64_t all, uint64_t *given) {
    uint64_t end = all == 0 ? total : (uint64_t)((wide_t)total * upto / all);
    uint64_t part = end - *given;
    *given = end;
    return part;
}

static uint64_t dram_bytes(const timing_job_t *job) {
    return job->record.dram_read_bytes + job->record.dram_written_bytes;
}

static uint64_t shared_bytes(const timing_job_t *job) {
    return job->record.shared_read_bytes + job->record.shared_written_bytes;
}

/* Bursts, rows, lines and hops cannot be told apart by launch when several run at once: each takes
 * its share by the bytes of its patterns. With one launch in the epoch they are all its own. */
void timing_energy_end(dev_timing_t *timing) {
    const sim_dram_stats_t *dram = sim_dram_stats(timing->dram);
    static const sim_cache_stats_t none;
    const sim_cache_stats_t *cache = timing->cache != NULL ? sim_cache_stats(timing->cache) : &none;
    uint64_t hops = sim_noc_stats(timing->noc)->byte_hops, given[11] = {0}, upto = 0, all = 0;
    uint64_t moved_upto = 0, moved_all = 0;
    for (uint32_t j = 0; j < timing->num_jobs; j++)
        all += dram_bytes(timing->job[j]);
    for (uint32_t j = 0; j < timing->num_jobs; j++)
        moved_all += shared_bytes(timing->job[j]);
    moved_all += all;
    for (uint32_t j = 0; j < timing->num_jobs; j++) {
        timing_job_t *job = timing->job[j];
        dev_record_t *record = &job->record;
        upto = j + 1 == timing->num_jobs ? all : upto + dram_bytes(job);
        moved_upto = j + 1 == timing->num_jobs ? moved_all
                                               : moved_upto + dram_bytes(job) + shared_bytes(job);
        record->bus_read_bytes = share(dram->read_bytes, upto, all, &given[0]);
        record->bus_written_bytes = share(dram->write_bytes, upto, all, &given[1]);
        record->row_hits = share(dram->row_hits, upto, all, &given[2]);
        record->row_closed = share(dram->row_closed, upto, all, &given[3]);
        record->row_conflicts = share(dram->row_conflicts, upto, all, &given[4]);
        record->cache_hits = share(cache->hits, upto, all, &given[7]);
        record->cache_misses = share(cache->misses, upto, all, &given[8]);
        record->cache_evicted = share(cache->evicted, upto, all, &given[9]);
        uint64_t *count = job->actions[VNPU_ENERGY_DRAM].count;
        count[SIM_ENERGY_CACHE_BYTE] = share(cache->bytes, upto, all, &given[10]);
        count[SIM_ENERGY_DRAM_READ_BYTE] = record->bus_read_bytes;
        count[SIM_ENERGY_DRAM_WRITE_BYTE] = record->bus_written_bytes;
        count[SIM_ENERGY_DRAM_ACTIVATE] = record->row_closed + record->row_conflicts;
        count[SIM_ENERGY_DRAM_REFRESH] = share(dram->refreshes, upto, all, &given[5]);
        job->actions[VNPU_ENERGY_NOC].count[SIM_ENERGY_NOC_BYTE_HOP] =
            share(hops, moved_upto, moved_all, &given[6]);
        for (uint32_t part = 0; part < VNPU_ENERGY_PARTS; part++) {
            record->energy_fj[part] = sim_energy_dynamic_fj(&job->cls->energy, &job->actions[part]);
        }
    }
}

const sim_energy_table_t *dev_timing_energy_table(const dev_timing_t *timing) {
    return &timing->machine.cls[0].energy; /* what is asked of it is the chip's */
}
