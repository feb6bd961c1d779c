/*
 * DRAM: channels of banks in bank groups, served in order per channel, one row train (bursts of one
 * row) at a time.
 *
 * A request is a contiguous byte range. It is cut by the address mapping into trains; each train's
 * PRE, ACT and column commands are placed at the earliest cycle that every rule allows (tRCD, tRP,
 * tRAS, tRC, tRRD_S/L, tFAW, tCCD_S/L, tWTR_S/L, tRTW, tRTP, tWR, refresh), so the answer is known
 * at once and no event is needed. Calls must come in non-decreasing time. The rules are const rows
 * {from, to, scope, delay, reason} in sim_dram_rules.c. Refresh is all-bank per channel, staggered:
 * channel i of n first due at (i + 1/2) tREFI / n of the epoch. A new epoch starts with all banks
 * precharged. Idle latencies (closed forms, docs/timing.md): hit CL + BL, closed
 * RCD + CL + BL, conflict RP + RCD + CL + BL, plus dram.frontend each way.
 *
 * dram.mapping lists address fields from most to least significant, e.g. "ro-ba-co-ch-co16-bg":
 * row, bank, channel, bank group, column; "coN" takes N bursts, "co" alone what is left of a row.
 * Everything but rows is a power of two (refused otherwise). The bursts of one request in one
 * channel and one row number take turns over the bank groups that the low bits name, as a
 * controller's queue would order them. dram.hash = true permutes the banks by the low row bits and
 * the channels by the bits above the channel field. Operands of the canonical placement (numbered
 * by address bits 40 and up) start in different banks.
 *
 * A refresh that is due waits for the train in
 * progress; reads and writes are served in order, so a change of direction between two requests
 * costs a turn of the bus (no write queue: docs/fidelity.md).
 */
#ifndef SIM_DRAM_H
#define SIM_DRAM_H

#include "sim/sim_config.h"
#include "sim/sim_op.h"

typedef struct sim_dram_stats {
    uint64_t read_bytes, write_bytes; /* bus bytes: whole bursts */
    uint64_t row_hits, row_closed, row_conflicts, trains, refreshes;
} sim_dram_stats_t;

typedef struct sim_dram sim_dram_t;
sim_status_t sim_dram_create(const sim_config_t *config, sim_dram_t **out_dram,
                             sim_error_t *err) SIM_MUST_USE;
void sim_dram_destroy(sim_dram_t *dram);
void sim_dram_reset(sim_dram_t *dram); /* new epoch; statistics back to zero */
/*
 * One request at tick `now`: returns the tick when its last data byte is on the bus (read) or its
 * last write burst is done. address is the timing address (docs/timing.md: canonical placement).
 */
sim_tick_t sim_dram_access(sim_dram_t *dram, uint64_t address, uint64_t bytes, bool is_write,
                           sim_tick_t now);
const sim_dram_stats_t *sim_dram_stats(const sim_dram_t *dram);

uint64_t sim_dram_peak_bytes_per_s(const sim_dram_t *dram);
/* Address period after which channel, bank group and column bits repeat (hash aside): one row of
 * every bank group and channel. */
uint64_t sim_dram_stripe_bytes(const sim_dram_t *dram);
uint32_t sim_dram_channels(const sim_dram_t *dram);
/* The channel of an address, and for how many bytes from there on it stays. */
uint32_t sim_dram_channel_at(const sim_dram_t *dram, uint64_t address, uint64_t *out_bytes);

#endif
