/* Private parts of the DRAM model: timing rules as data, address mapping, state. For sim_dram*.c
 * and their tests. */
#ifndef SIM_DRAM_INTERNAL_H
#define SIM_DRAM_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/sim_dram.h"

/* ---- rules ---- */

typedef enum sim_dram_command {
    SIM_DRAM_ACT,
    SIM_DRAM_PRE,
    SIM_DRAM_RD,
    SIM_DRAM_WR,
    SIM_DRAM_REF,   /* all banks */
    SIM_DRAM_REFPB, /* one bank */
    SIM_DRAM_COMMAND_COUNT
} sim_dram_command_t;

typedef enum sim_dram_scope {
    SIM_DRAM_BANK,    /* the same bank */
    SIM_DRAM_GROUP,   /* any bank of the same bank group */
    SIM_DRAM_CHANNEL, /* any bank of the same channel */
    SIM_DRAM_SCOPE_COUNT
} sim_dram_scope_t;

/* Timing parameters, cycles of dram.clock. */
typedef enum sim_dram_param {
    SIM_DRAM_NONE = 0, /* 0 cycles */
    SIM_DRAM_BL,
    SIM_DRAM_CL,
    SIM_DRAM_CWL,
    SIM_DRAM_RCDRD,
    SIM_DRAM_RCDWR,
    SIM_DRAM_RP,
    SIM_DRAM_RAS,
    SIM_DRAM_TWR,
    SIM_DRAM_RTP,
    SIM_DRAM_CCD_S,
    SIM_DRAM_CCD_L,
    SIM_DRAM_RRD_S,
    SIM_DRAM_RRD_L,
    SIM_DRAM_FAW,
    SIM_DRAM_WTR_S,
    SIM_DRAM_WTR_L,
    SIM_DRAM_RTW,
    SIM_DRAM_RFC,
    SIM_DRAM_RFCPB,
    SIM_DRAM_RREFD,
    SIM_DRAM_REFI, /* between two refresh commands of a channel, of whichever kind */
    SIM_DRAM_PARAM_COUNT
} sim_dram_param_t;

/* `to` comes no earlier than the sum of the parameters after `from`, seen within `scope`. window:
 * after the window-th last `from` instead of the last (tFAW). */
typedef struct sim_dram_rule {
    sim_dram_command_t from, to;
    sim_dram_scope_t scope;
    uint32_t window;
    sim_dram_param_t plus[3];
    const char *reason;
} sim_dram_rule_t;
const sim_dram_rule_t *sim_dram_rules(uint32_t *out_count);
uint64_t sim_dram_rule_cycles(const sim_dram_rule_t *rule,
                              const uint32_t param[SIM_DRAM_PARAM_COUNT]);

/* What one command does to the next-allowed times: the rules of `from`, the strictest of each
 * (scope, to). */
#define SIM_DRAM_MAX_EFFECTS 10u
typedef struct sim_dram_effects {
    uint32_t count;
    struct {
        uint8_t scope, to;
        uint32_t cycles;
    } effect[SIM_DRAM_MAX_EFFECTS];
} sim_dram_effects_t;
typedef struct sim_dram_timing {
    uint32_t param[SIM_DRAM_PARAM_COUNT];
    uint32_t window_cycles; /* tFAW */
    sim_dram_effects_t after[SIM_DRAM_COMMAND_COUNT];
    /* [is_write]: spacing of column commands of different and of the same bank group, command to
     * end of data */
    uint32_t column_s[2], column_l[2], data_cycles[2];
} sim_dram_timing_t;
void sim_dram_timing_init(sim_dram_timing_t *timing, const uint32_t param[SIM_DRAM_PARAM_COUNT]);

/* ---- mapping ---- */

typedef struct sim_dram_field {
    uint8_t shift, bits;
} sim_dram_field_t;

/* Bits of the burst index (address / burst_bytes). The column may be in several pieces, least
 * significant first. */
#define SIM_DRAM_MAX_COLUMN_FIELDS 4u
#define SIM_DRAM_PLACEMENT_BITS                                                                    \
    40u /* address bits from here on number operands (canonical placement) */
typedef struct sim_dram_map {
    sim_dram_field_t channel, group, bank, row;
    sim_dram_field_t column[SIM_DRAM_MAX_COLUMN_FIELDS];
    uint32_t column_fields;
    uint32_t channels;
    uint32_t divisor; /* channels, where that is no power of two: they have no bits, see
                         sim_dram_map_divide; else 0 */
    uint8_t burst_shift, total_bits;
    uint8_t segment_bits;       /* the low bits that are column or bank group */
    uint64_t hash_mask;         /* row bits that permute the banks; 0: no hash */
    uint64_t channel_hash_mask; /* bits of the channel that are permuted; 0: no hash */
    bool is_channel_hashed;     /* the same where channels are a divisor: rotated */
} sim_dram_map_t;

typedef struct sim_dram_place {
    uint32_t channel, group, bank, column;
    uint64_t row;
} sim_dram_place_t;

sim_status_t sim_dram_map_init(const sim_config_t *config, sim_dram_map_t *out_map,
                               sim_error_t *err) SIM_MUST_USE;
sim_dram_place_t sim_dram_map_decode(const sim_dram_map_t *map, uint64_t address);
uint64_t sim_dram_map_stripe_bytes(const sim_dram_map_t *map);

static inline uint64_t sim_dram_field_get(sim_dram_field_t field, uint64_t bits) {
    return (bits >> field.shift) & ((UINT64_C(1) << field.bits) - 1);
}

/* XOR of the first `groups` (2, 4, 8) groups of `width` bits, in the low bits of the result. */
static inline uint64_t sim_dram_fold(uint64_t bits, uint32_t width, uint32_t groups) {
    bits ^= bits >> width;
    if (groups > 2) bits ^= bits >> (2 * width);
    if (groups > 4) bits ^= bits >> (4 * width);
    return bits;
}

/*
 * Channels whose number is no power of two: the burst index above the channel field's place is
 * divided by it. The rest is the channel, rotated by the quotient's two low digits when hashed; the
 * quotient takes the place of what was divided, so that the other fields lie as if one bit pattern
 * named them all. The operand's number (canonical placement) stays apart.
 */
static inline uint64_t sim_dram_map_divide(const sim_dram_map_t *map, uint64_t burst,
                                           uint64_t *out_channel) {
    uint32_t shift = map->channel.shift, place = SIM_DRAM_PLACEMENT_BITS - map->burst_shift;
    uint64_t offset = burst & ((UINT64_C(1) << place) - 1), operand = burst - offset;
    uint64_t number = offset >> shift, quotient = number / map->divisor;
    uint64_t turn = map->is_channel_hashed ? quotient + quotient / map->divisor : 0;
    *out_channel = (number + turn) % map->divisor;
    return operand | quotient << shift | (offset & ((UINT64_C(1) << shift) - 1));
}

/*
 * Everything but the column. The hash spreads rows that would meet in one bank (bank and group
 * XORed with the folded row) and strides that would meet in one channel (channel XORed with the
 * folded bits above it). Operands of the canonical placement, numbered by the high bits, start in
 * different banks: in real memory they would rarely start in the same one.
 */
static inline sim_dram_place_t sim_dram_map_bank(const sim_dram_map_t *map, uint64_t burst) {
    uint32_t bank_bits = map->bank.bits, group_bits = map->group.bits;
    uint64_t channel;
    if (map->divisor != 0) {
        burst = sim_dram_map_divide(map, burst, &channel);
    } else {
        uint64_t above =
            sim_dram_fold(burst >> (map->channel.shift + map->channel.bits), map->channel.bits, 4);
        channel = sim_dram_field_get(map->channel, burst) ^ (above & map->channel_hash_mask);
    }
    uint64_t row = sim_dram_field_get(map->row, burst) | (burst >> map->total_bits)
                                                             << map->row.bits;
    uint64_t operand = burst >> (SIM_DRAM_PLACEMENT_BITS - map->burst_shift);
    uint64_t hashed = row & map->hash_mask;
    uint64_t bank =
        sim_dram_field_get(map->bank, burst) ^ operand ^ sim_dram_fold(hashed, bank_bits, 8);
    uint64_t group = sim_dram_field_get(map->group, burst) ^ operand >> bank_bits ^
                     sim_dram_fold(hashed >> bank_bits, group_bits, 8);
    return (sim_dram_place_t){
        .row = row,
        .channel = (uint32_t)channel,
        .bank = (uint32_t)(bank & ((UINT64_C(1) << bank_bits) - 1)),
        .group = (uint32_t)(group & ((UINT64_C(1) << group_bits) - 1)),
    };
}

/* ---- state ---- */

#define SIM_DRAM_NO_ROW     UINT64_MAX
#define SIM_DRAM_WINDOW     4u /* activates that tFAW counts */
#define SIM_DRAM_MAX_GROUPS 64u
#define SIM_DRAM_NO_ENTRY   UINT16_MAX

typedef struct sim_dram_bank {
    uint64_t next[SIM_DRAM_COMMAND_COUNT]; /* first cycle that the rules of this scope allow */
    uint64_t row;
} sim_dram_bank_t;

typedef struct sim_dram_group {
    uint64_t next[SIM_DRAM_COMMAND_COUNT];
} sim_dram_group_t;

typedef struct sim_dram_queue sim_dram_queue_t; /* sim_dram_queue.c; NULL with dram.window = 1 */

typedef struct sim_dram_channel {
    uint64_t next[SIM_DRAM_COMMAND_COUNT];
    uint64_t window[SIM_DRAM_WINDOW]; /* cycle from which the window allows the activate after each
                                         of the last ones */
    uint32_t window_at;
    uint32_t refresh_bank; /* per-bank refresh: the next one */
    uint64_t last_column;
    uint64_t refresh_due; /* UINT64_MAX: never */
    sim_dram_group_t *group;
    sim_dram_bank_t *bank; /* [group * banks_per_group + bank] */
    sim_dram_queue_t *queue;
} sim_dram_channel_t;

struct sim_dram {
    sim_dram_timing_t timing;
    sim_dram_map_t map;
    sim_clock_t clock;
    uint32_t channel_count, group_count, bank_count; /* groups of a channel, banks of a group */
    uint32_t burst_bytes;
    bool is_closed_page, is_per_bank_refresh, is_refresh_staggered;
    uint32_t window, write_high, write_low, max_row_hits; /* bursts; hits of a row, 0: no limit */
    sim_tick_t frontend_ticks, last;
    sim_dram_stats_t stats;
    sim_engine_t *engine;
    sim_dram_channel_t *channel;
    sim_dram_group_t *groups;
    sim_dram_bank_t *banks;
    char *queues;
    size_t queue_bytes;
};

/* First cycle >= `from` at which every rule allows the command. Pure. */
uint64_t sim_dram_earliest(const sim_dram_t *dram, const sim_dram_channel_t *channel,
                           uint32_t group, uint32_t bank, sim_dram_command_t command,
                           uint64_t from);
/* Places the command; asserts that sim_dram_earliest allows it. */
void sim_dram_issue(sim_dram_t *dram, sim_dram_channel_t *channel, uint32_t group, uint32_t bank,
                    sim_dram_command_t command, uint64_t cycle);
/* Refreshes that are due at `cycle`. */
void sim_dram_refresh(sim_dram_t *dram, sim_dram_channel_t *channel, uint64_t cycle);

/* Trains of one request in one channel and one row of each bank group: their bursts take turns on
 * the bus. */
typedef struct sim_dram_train {
    uint32_t group, bursts;
    uint64_t cycle; /* of the last column command placed */
} sim_dram_train_t;
/* The trains of the bursts [first, end) of one segment: one channel, one bank number, one row.
 * Returns how many. */
uint32_t sim_dram_split(const sim_dram_t *dram, const sim_dram_place_t *at, uint64_t first,
                        uint64_t end, sim_dram_train_t train[SIM_DRAM_MAX_GROUPS]);

/* ---- the scheduling window of a channel (sim_dram_queue.c) ---- */

size_t sim_dram_queue_bytes(const sim_dram_t *dram);
void sim_dram_queue_init(sim_dram_t *dram, uint32_t channel, void *memory);
void sim_dram_queue_reset(sim_dram_t *dram, sim_dram_queue_t *queue);
/* One segment, at the channel from `arrival` (cycles) on. Its bytes wait in front of the window
 * when that is full; what is there already is served as far as it takes to make room for it. */
void sim_dram_queue_add(sim_dram_t *dram, const sim_dram_place_t *at, uint64_t first, uint64_t end,
                        sim_dram_request_t *request, uint64_t arrival);
/* Whether one more segment fits without serving others ahead of time. */
bool sim_dram_queue_has_room(const sim_dram_queue_t *queue);
/* For arbiters of several requesters in front of the channels (benchmarks/peers): called when the
 * place in front of the window becomes free, with the channel's cycle. NULL: nobody. */
typedef void (*sim_dram_room_fn)(void *user, uint32_t channel, uint64_t cycle);
void sim_dram_queue_on_room(sim_dram_queue_t *queue, sim_dram_room_fn fn, void *user);
/* All bytes of the request are done, as far as the channels are concerned. */
void sim_dram_request_end(sim_dram_t *dram, sim_dram_request_t *request);

#endif
