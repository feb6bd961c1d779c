/*
 * DRAM: channels of banks in bank groups, served in order per channel, one row train (bursts of one
 * row) at a time.
 *
 * A request is cut by the address mapping into trains; each train's PRE, ACT and column commands
 * are placed at the earliest cycle that every rule allows (tRCD, tRP, tRAS, tRC, tRRD_S/L, tFAW,
 * tCCD_S/L, tWTR_S/L, tRTW, tRTP, tWR, refresh). The rules are const rows {from, to, scope, delay,
 * reason} in sim_dram_rules.c. A new epoch starts with all banks precharged. Idle latencies (closed
 * forms, docs/timing.md): hit CL + BL, closed RCD + CL + BL, conflict RP + RCD + CL + BL, plus
 * dram.frontend each way.
 *
 * Refresh: all banks of a channel every dram.trefi, or with dram.refresh = per_bank one bank after
 * the other every dram.trefipb, the others going on. With dram.refresh_stagger channel i of n is
 * first due at (i + 1/2) / n of the interval, otherwise all at the end of the first. A refresh that
 * is due waits for the train in progress (in order) or for the command in progress (window).
 *
 * dram.mapping lists address fields from most to least significant, e.g. "ro-ba-co-ch-co16-bg":
 * row, bank, channel, bank group, column; "coN" takes N bursts, "co" alone what is left of a row.
 * Everything but rows and channels is a power of two (refused otherwise); a number of channels that
 * is none (12, 96) is the rest of a division. The bursts of one request in one
 * channel and one row number take turns over the bank groups that the low bits name, as a
 * controller's queue would order them. dram.hash = true permutes the banks by the low row bits and
 * the channels by the bits above the channel field. Operands of the canonical placement (numbered
 * by address bits 40 and up) start in different banks.
 *
 * Order of service:
 *   dram.window = 1   trains in the order of arrival; the answer is known at once. A change of
 *                     direction between two requests costs a turn of the bus (no write queue).
 *   dram.window = n   first ready, first come, first served over the n oldest bursts of reads and
 *                     the n oldest of writes of a channel: the command that can go first goes; at
 *                     the same cycle column commands before activates before precharges, then the
 *                     older burst. A row opens for the oldest burst of its bank, which leaves the
 *                     window then and goes before other column commands. Later bursts of the row
 *                     pass older ones of other rows as long as they keep the bank too busy to be
 *                     precharged, but with dram.max_row_hits at most so many. Writes are buffered:
 *                     the channel turns to them when dram.write_high of the window is full or no
 *                     read waits, and back below dram.write_low when one does. A write is
 *                     acknowledged a cycle after it has got into the window. What waits in front
 *                     of the window waits in order. A train of more bursts than the window has left
 *                     is in it whole. Reads are not answered out of the write buffer.
 * Calls must come in non-decreasing time. With a window, decisions of a channel are made late, by
 * one event per batch, never after the data that they send; they are the ones that a controller
 * would make cycle by cycle.
 */
#ifndef SIM_DRAM_H
#define SIM_DRAM_H

#include "sim/sim_config.h"
#include "sim/sim_event.h"
#include "sim/sim_op.h"

typedef struct sim_dram_stats {
    uint64_t read_bytes, write_bytes; /* bus bytes: whole bursts */
    uint64_t row_hits, row_closed, row_conflicts, trains, refreshes;
} sim_dram_stats_t;

/* What a planner must know of rows: a stream in short runs opens more of them. */
typedef struct sim_dram_rows {
    uint32_t
        segment_bytes; /* consecutive bytes of one channel, bank and row number, all bank groups */
    uint32_t open_bytes;   /* of the rows that open for a segment */
    uint32_t stripe_bytes; /* span that holds such rows of every channel */
    uint32_t open_ps; /* between two openings at random places, on the mean of the whole chip */
} sim_dram_rows_t;
sim_status_t sim_dram_rows(const sim_config_t *config, sim_dram_rows_t *out_rows,
                           sim_error_t *err) SIM_MUST_USE;

typedef struct sim_dram sim_dram_t;
sim_status_t sim_dram_create(const sim_config_t *config, sim_dram_t **out_dram,
                             sim_error_t *err) SIM_MUST_USE;
void sim_dram_destroy(sim_dram_t *dram);
void sim_dram_reset(sim_dram_t *dram); /* new epoch; statistics back to zero */
/*
 * One request at tick `now`: returns the tick when its last data byte is on the bus (read) or its
 * last write burst is done. In order, and only with dram.window = 1. address is the timing address
 * (docs/timing.md: canonical placement).
 */
sim_tick_t sim_dram_access(sim_dram_t *dram, uint64_t address, uint64_t bytes, bool is_write,
                           sim_tick_t now);

/*
 * One request of several ranges, in whichever order of service is configured: begin, add ..., end.
 * The event (idle, initialised by the caller, phase COMPLETE) runs when the last range is done, not
 * before not_before; at once, inside sim_dram_end, if that is now. `done` then says when the memory
 * was done. Request and event are borrowed until then. The engine must have been attached.
 */
typedef struct sim_dram_request {
    sim_event_t *event;
    sim_tick_t done, not_before;
    uint64_t done_cycle; /* private from here on */
    uint32_t left;       /* trains, and one until the end */
    bool is_write;
} sim_dram_request_t;
void sim_dram_attach(sim_dram_t *dram, sim_engine_t *engine); /* borrowed */
void sim_dram_begin(sim_dram_t *dram, sim_dram_request_t *request, bool is_write,
                    sim_event_t *event, sim_tick_t not_before);
void sim_dram_add(sim_dram_t *dram, sim_dram_request_t *request, uint64_t address, uint64_t bytes);
void sim_dram_end(sim_dram_t *dram, sim_dram_request_t *request);

const sim_dram_stats_t *sim_dram_stats(const sim_dram_t *dram);

uint64_t sim_dram_peak_bytes_per_s(const sim_dram_t *dram);
/* Address period after which channel, bank group and column bits repeat (hash aside): one row of
 * every bank group and channel. */
uint64_t sim_dram_stripe_bytes(const sim_dram_t *dram);
uint32_t sim_dram_channels(const sim_dram_t *dram);
/* The channel of an address, and for how many bytes from there on it stays. */
uint32_t sim_dram_channel_at(const sim_dram_t *dram, uint64_t address, uint64_t *out_bytes);

#endif
