/*
 * Shared scratchpad memory: a part of every core's scratchpad (sram.shared_bytes) that, together,
 * is memory of the chip beside its DRAM. Pages of sram.shared_page_bytes are dealt to the cores in
 * turn: byte a is in the scratchpad of core a / shared_page_bytes mod cores. A *stripe* is a page
 * of every core.
 *
 * A matrix may lie there in *shards* instead: blocks of some rows and some bytes of each row, every
 * block in a core of its own (sim_shards_t), as chips keep an operand where it is used. Bytes keep
 * their row-major addresses; a core has its block together.
 *
 * An access is served at the core that holds the page, one access of a core after the other, as
 * fast as that scratchpad's ports give it bytes beside the core's own engines (sim_share.h); what
 * is read is there latency_cycles of the scratchpad later: read  bytes / capacity + latency, write
 * bytes / capacity. The way to that core and back is the interconnect's, and the caller's
 * (sim_dma.h): sim_shared_core_at tells the port.
 *
 * Its timing addresses begin at SIM_SHARED_BASE; SIM_SHARED_NUMBER_BITS from SIM_SHARED_OFFSET_BITS
 * on tell operands apart and say nothing about the core, so that an operand begins at the same core
 * whatever its number; those from SIM_SHARED_SHARDS_BIT on are its shards' place in the table of
 * sim_shared_set_shards, 0: pages. Offsets of shards count from the start of the matrix.
 */
#ifndef SIM_SHARED_H
#define SIM_SHARED_H

#include <stdbool.h>

#include "sim/sim_config.h"
#include "sim/sim_share.h"

#define SIM_SHARED_BASE        (UINT64_C(1) << 62)
#define SIM_SHARED_OFFSET_BITS 40u
#define SIM_SHARED_NUMBER_BITS 14u
#define SIM_SHARED_SHARDS_BIT  (SIM_SHARED_OFFSET_BITS + SIM_SHARED_NUMBER_BITS)
#define SIM_SHARED_MAX_SHARDS  256u /* entry 0 is unused */

/* Block (i, j) of shard_rows rows x shard_row_bytes is in core i x row_step + j x column_step. The
 * last blocks of a row or column may be cut. */
typedef struct sim_shards {
    uint64_t row_bytes; /* of the matrix, from one row to the next */
    uint32_t shard_rows, shard_row_bytes;
    uint32_t row_step, column_step;
} sim_shards_t;

/* How an operand lies: in shards, of a matrix that begins at `start`; shards 0: in pages, or
 * elsewhere. */
typedef struct sim_shared_home {
    uint64_t start;
    uint32_t shards; /* place in the table */
} sim_shared_home_t;

typedef struct sim_shared sim_shared_t;
typedef struct sim_shared_access sim_shared_access_t;

/* *out_shared is NULL where the configuration has none. The engine is borrowed. */
sim_status_t sim_shared_create(const sim_config_t *config, sim_engine_t *engine, uint32_t cores,
                               sim_shared_t **out_shared) SIM_MUST_USE;
/* Every core once, before the first access. port: of its scratchpad, borrowed. writes_first:
 * sram.writes_first. */
typedef struct sim_shared_core {
    sim_share_t *port;
    sim_clock_t clock;
    uint32_t latency_cycles;
    bool writes_first;
} sim_shared_core_t;
void sim_shared_set_core(sim_shared_t *shared, uint32_t core, const sim_shared_core_t *spec);
/* Borrowed; may grow while it is used. */
void sim_shared_set_shards(sim_shared_t *shared, const sim_shards_t *table);
void sim_shared_destroy(sim_shared_t *shared); /* NULL is fine */
/* A new epoch, after the engine's reset and the ports'. NULL is fine. */
void sim_shared_reset(sim_shared_t *shared);

/* Not an address in front of the DRAM's first byte, which wraps. */
static inline bool sim_shared_holds(uint64_t address) {
    return address >> 62 == SIM_SHARED_BASE >> 62;
}
/* The core that holds `address`; so many bytes from there on lie in its page, or in its row of a
 * block. */
uint32_t sim_shared_core_at(const sim_shared_t *shared, uint64_t address, uint64_t *out_bytes);

/* One request of several ranges, as sim_dram_begin, sim_dram_add, sim_dram_end: the event (phase
 * COMPLETE) runs when the last range is done, not before not_before. */
typedef struct sim_shared_request {
    sim_event_t *event;
    sim_tick_t done, not_before;
    bool is_write;
    uint32_t left;               /* private from here on */
    sim_shared_access_t *access; /* a core each */
} sim_shared_request_t;
void sim_shared_begin(sim_shared_t *shared, sim_shared_request_t *request, bool is_write,
                      sim_event_t *event, sim_tick_t not_before);
void sim_shared_add(sim_shared_t *shared, sim_shared_request_t *request, uint64_t address,
                    uint64_t bytes);
void sim_shared_end(sim_shared_t *shared, sim_shared_request_t *request);

/* A matrix of `bytes` on `cores` cores: bytes of the largest block in *out_core_bytes; the reason
 * in err. */
sim_status_t sim_shards_check(const sim_shards_t *shards, uint64_t bytes, uint32_t cores,
                              uint64_t *out_core_bytes, sim_error_t *err) SIM_MUST_USE;

/* Of a configuration: all cores' parts together, 0: none; a page of every core; what the cores'
 * ports of the interconnect send. */
uint64_t sim_shared_bytes_of(const sim_config_t *config);
uint64_t sim_shared_stripe_of(const sim_config_t *config);
double sim_shared_bytes_per_s(const sim_config_t *config);

#endif
