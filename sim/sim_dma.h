/*
 * DMA engine: one queue of transfers between DRAM and a core's scratchpad (or inside the
 * scratchpad).
 *
 * A transfer is a strided walk over DRAM (5 dimensions) whose innermost contiguous stretch is a
 * *run* (with keeps_rows no longer than the innermost dimension). The engine
 *   1. spends descriptor_cycles (fetch, decode), then
 *   2. issues requests of whole runs (several short runs share a request; long runs are split) of
 *      at most request_bytes. Each run costs run_cycles and, per request that it is in,
 *      ceil(bytes / bytes_per_cycle) cycles of the engine: short runs are slow, efficiency
 *      r / (r + run_cycles * bytes_per_cycle), half-size r = run_cycles * bytes_per_cycle
 *      (docs/timing.md). A transpose multiplies the data cycles by transpose_factor, an accumulate
 *      by accumulate_factor. max_run_bytes cuts longer contiguous stretches into runs of their own
 *      (0: none). With aligned_requests a request is a power of two of words of bytes_per_cycle,
 *      aligned to its own size, of one run: of those that begin it the one that holds most of what
 *      is left, the smaller where two hold as much. The whole of it passes memory and interconnect
 *      (TileLink, AXI). Results that a write takes out of the accumulator come at
 *      accumulator_bytes_per_cycle, what a read puts there goes at accumulator_word_bytes, where
 *      that is slower than the data in memory,
 *   3. holds at most outstanding_bytes and outstanding_requests (0: any number) in flight (Little:
 *      throughput <= outstanding / latency),
 *   4. each request passes DRAM, interconnect and scratchpad port (reads; writes the other way:
 *      scratchpad, interconnect, DRAM); where the interconnect has requests, a read's goes to the
 *      memory first. A request that spans several memory endpoints is a message to or from each,
 *   5. ends when its last request has arrived; done is completion_cycles later (semaphore update).
 *
 * Transfers of one engine are pipelined: the next descriptor is fetched while the last data of
 * those before it is in flight, its requests are issued after the previous transfer's last request.
 * A transfer begins, with the fetch of its descriptor, once the one before has issued and fewer
 * than read_transfers (writes and moves inside the scratchpad: write_transfers) have not ended.
 * With prefetches it need not wait until the one before has issued: descriptors are fetched side by
 * side, from submission on. Transfers issue and end in order.
 *
 * With command_runs > 0 a transfer is a row of commands, each of at most so many runs of one line
 * (of the innermost dimension outside a run), each with a descriptor of its own: one begins once
 * fewer than read_transfers or write_transfers before it have requests outstanding. Where lines are
 * cut by max_run_bytes a command has one part of each of its runs: a block of rows and columns. A
 * run of a command that repeats the address of the one before is not read again.
 *
 * With run_writes every run of a read is written so often: image columns that lie in the windows
 * of several neighbours (Gemmini's pixel repeats). It is read once.
 *
 * A read request goes to memory when its slot of the engine begins, and its data passes the
 * crossbar and the scratchpad port as it comes; a write request is read from the scratchpad whole
 * before it enters the crossbar, and its acknowledgement, if it has one, comes back as
 * write_ack_bytes from each endpoint. Accumulating on DRAM reads, then writes. An empty transfer
 * costs its descriptor, at least one cycle.
 *
 * A transfer whose addresses lie in the shared scratchpad memory (sim_shared.h) passes that instead
 * of the DRAM: the port of the core that holds a page takes the place of a memory endpoint, also
 * where that is the engine's own core; no cache is asked. What it waits there counts as NOC.
 *
 * A multicast read is one message to all its receivers; a request has passed the interconnect when
 * the last of them has it. The scratchpad ports of the others are not charged.
 *
 * Causes (with a cache, the wait of a request that it served alone is CACHE): USEFUL = bytes /
 * bytes_per_cycle; the engine's other cycles (descriptor as far as nothing else was issued, runs,
 * short last words, factors) DMA_SETUP; the rest of [start, end) is split over DRAM, NOC and
 * SRAM_CONFLICT in proportion to the time that its requests waited in each (remainder to DRAM). The
 * completion gap [end, done) is the caller's.
 */
#ifndef SIM_DMA_H
#define SIM_DMA_H

#include "sim/sim_cache.h"
#include "sim/sim_config.h"
#include "sim/sim_dma_walk.h"
#include "sim/sim_dram.h"
#include "sim/sim_noc.h"
#include "sim/sim_op.h"
#include "sim/sim_share.h"
#include "sim/sim_shared.h"

#define SIM_DMA_MAX_TRANSFERS 64u

typedef struct sim_dma_spec {
    uint32_t accumulator_bytes_per_cycle; /* 0: the engines do not reach the accumulator */
    uint32_t accumulator_word_bytes;      /* >= 1 if they do */
    uint32_t bytes_per_cycle, descriptor_cycles, run_cycles, completion_cycles;
    uint64_t request_bytes, max_run_bytes, outstanding_bytes;
    uint32_t outstanding_requests;
    uint32_t read_transfers, write_transfers; /* 1 .. SIM_DMA_MAX_TRANSFERS */
    uint32_t command_runs;                    /* 0: a transfer is one command */
    bool prefetches, keeps_rows;
    bool aligned_requests; /* bytes_per_cycle and request_bytes are powers of two then */
    sim_ratio_t transpose_factor, accumulate_factor; /* >= 1: data cycles are multiplied */
    sim_clock_t clock;
    uint32_t network;          /* of the interconnect, for both ways of a transfer */
    uint64_t write_ack_bytes;  /* 0: a write is through when memory has it */
    uint32_t local_word_bytes; /* of a scratchpad whose ports serve words; 0: bytes */
    bool writes_first;         /* into the scratchpad: before the reads of all units */
} sim_dma_spec_t;

typedef enum sim_dma_kind {
    SIM_DMA_READ,
    SIM_DMA_WRITE,
    SIM_DMA_LOCAL /* scratchpad to scratchpad, or fill of it */
} sim_dma_kind_t;

typedef struct sim_dma_op {
    sim_op_t op; /* first */
    sim_dma_kind_t kind;
    bool transpose, accumulate; /* accumulate on a DRAM destination: read + write */
    /* DRAM side: runs of run_bytes at base + sum idx[d] * stride[d]; dims 0..ndims-1, dimension 0
     * outermost. */
    uint64_t base;
    uint32_t ndims;
    uint32_t size[5];
    int64_t stride[5];
    uint64_t run_bytes;
    /* gather/scatter: runs at these addresses (row_count of them) instead of the walk; borrowed
     * until on_done */
    const uint64_t *row_address;
    uint64_t row_count;
    uint64_t sram_bytes; /* bytes through the scratchpad port (0: as many as the runs have) */
    sim_range_t local;   /* where they lie there, passed from first to last; extent 0: anywhere */
    bool is_scattered;   /* every request's bytes lie all over it */
    /* Where the scratchpad's ports serve words: so many times is a run of a read written, to a word
     * of its own each (0: once), and so many bytes are filled beside the data (a border). */
    uint32_t run_writes;
    uint64_t fill_bytes;
    /* a read that arrives in several scratchpads at once: the cores' ports of the interconnect, the
     * engine's own with them; 0: only there. Borrowed until on_done. */
    const uint32_t *multicast_port;
    uint32_t multicast_count;
    uint64_t acc_bytes; /* > 0: to or from the accumulator, this many bytes through its port */
    /* private */
    struct sim_dma_op *next; /* in order of submission */
    sim_dma_walk_t walk;
    sim_event_t event;
    uint64_t total_bytes, moved_bytes, local_moved_bytes, engine_cycles, filled_bytes;
    sim_tick_t begin, not_before, waited[4];
    uint64_t ready_cycle;        /* the descriptor is there */
    uint32_t in_flight, runs;    /* of the command that is built */
    bool is_taken_up, is_issued; /* by the front end; all requests */
    bool is_shared;              /* in the shared scratchpad memory */
} sim_dma_op_t;

typedef struct sim_dma sim_dma_t;
/* port: the core's. dram, noc, sram, acc may be NULL (ideal). All borrowed. */
sim_status_t sim_dma_create(sim_engine_t *engine, const sim_dma_spec_t *spec, sim_dram_t *dram,
                            sim_noc_t *noc, uint32_t port, sim_share_t *sram, sim_share_t *acc,
                            sim_dma_t **out_unit) SIM_MUST_USE;
/* A cache in front of the DRAM, borrowed; NULL: none. Before the first transfer. */
void sim_dma_set_cache(sim_dma_t *unit, sim_cache_t *cache);
/* The shared scratchpad memory, borrowed; NULL: none. Before the first transfer. */
void sim_dma_set_shared(sim_dma_t *unit, sim_shared_t *shared);
/* Whether the memory side of a transfer lies there, by its addresses. */
static inline bool sim_dma_is_shared(const sim_dma_op_t *op) {
    if (op->kind == SIM_DMA_LOCAL) return false;
    if (op->row_address == NULL) return sim_shared_holds(op->base);
    return op->row_count > 0 && sim_shared_holds(op->row_address[0]);
}
void sim_dma_destroy(sim_dma_t *unit);
void sim_dma_reset(sim_dma_t *unit);
sim_status_t sim_dma_spec_from_config(const sim_config_t *config,
                                      sim_dma_spec_t *out_spec) SIM_MUST_USE;
/* At most one waits for its turn to begin. */
bool sim_dma_can_submit(const sim_dma_t *unit);
void sim_dma_submit(sim_dma_t *unit, sim_dma_op_t *op);

#endif
