#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>

#include "sim/sim_dram.h"
#include "tests/sim/units.h"

#define TICKS 5u /* a cycle of 1.6 GHz is 625 ps */

/* One channel of the default chip, no frontend, no refresh: every cycle that is left is the DRAM's
 * own. */
#define BARE "dram.channels=1,dram.bytes=64MiB,dram.frontend=0ps,dram.trefi=0,dram.hash=false"

/* The default chip's timing, in cycles. */
enum {
    BL = 2,
    CL = 23,
    CWL = 8,
    RCDRD = 23,
    RCDWR = 20,
    RP = 23,
    RAS = 55,
    TWR = 26,
    RTP = 8,
    CCD_S = 2,
    CCD_L = 4,
    RRD = 7,
    WTR_S = 10,
    WTR_L = 13,
    RTW = 19,
    RFC = 560,
    REFI = 6240
};

static sim_dram_t *dram_new(const char *overrides) {
    sim_config_t *config = config_new("default", overrides);
    sim_error_t err = {0};
    sim_dram_t *dram;
    cr_assert_eq(sim_dram_create(config, &dram, &err), SIM_OK, "%s", err.text);
    sim_config_destroy(config);
    return dram;
}

static uint64_t read_cycles(sim_dram_t *dram, uint64_t address, uint64_t bytes,
                            uint64_t now_cycles) {
    sim_tick_t done = sim_dram_access(dram, address, bytes, false, now_cycles * TICKS);
    cr_assert_eq(done % TICKS, 0);
    return done / TICKS;
}

static uint64_t write_cycles(sim_dram_t *dram, uint64_t address, uint64_t bytes,
                             uint64_t now_cycles) {
    return sim_dram_access(dram, address, bytes, true, now_cycles * TICKS) / TICKS;
}

/* Consecutive bursts stay in one bank; rows of one bank are 1 KiB x 16 banks apart. */
#define ONE_BANK   BARE ",dram.mapping=ro-ba-bg-co"
#define NEXT_ROW   (UINT64_C(16) * 1024)
#define NEXT_BANK  (UINT64_C(4) * 1024)
#define NEXT_GROUP UINT64_C(1024)

Test(dram, idle_latencies) {
    sim_dram_t *dram = dram_new(ONE_BANK);
    cr_assert_eq(read_cycles(dram, 0, 32, 0), RCDRD + CL + BL);
    cr_assert_eq(read_cycles(dram, 64, 32, 1000), 1000 + CL + BL);
    cr_assert_eq(read_cycles(dram, NEXT_ROW, 32, 2000), 2000 + RP + RCDRD + CL + BL);
    cr_assert_eq(write_cycles(dram, NEXT_ROW, 32, 3000), 3000 + CWL + BL);
    cr_assert_eq(write_cycles(dram, 0, 32, 4000), 4000 + RP + RCDWR + CWL + BL);
    cr_assert_eq(write_cycles(dram, NEXT_BANK, 32, 5000), 5000 + RCDWR + CWL + BL);
    const sim_dram_stats_t *stats = sim_dram_stats(dram);
    cr_assert_eq(stats->row_hits, 2);
    cr_assert_eq(stats->row_closed, 2);
    cr_assert_eq(stats->row_conflicts, 2);
    cr_assert_eq(stats->trains, 6);
    cr_assert_eq(stats->read_bytes, 96);
    cr_assert_eq(stats->write_bytes, 96);
    sim_dram_destroy(dram);
}

Test(dram, frontend_comes_each_way_and_requests_start_at_an_edge) {
    sim_dram_t *dram =
        dram_new("dram.channels=1,dram.bytes=64MiB,dram.frontend=10ns,dram.trefi=0,dram.hash=false,"
                 "dram.mapping=ro-ba-bg-co");
    sim_tick_t latency = (RCDRD + CL + BL) * TICKS + 2 * 80;
    cr_assert_eq(sim_dram_access(dram, 0, 32, false, 0), latency);
    /* 5001 ticks + 80 is one tick past an edge: the DRAM sees it at 5085 */
    cr_assert_eq(sim_dram_access(dram, 0, 32, false, 5001), 5085 + (CL + BL) * TICKS + 80);
    sim_dram_destroy(dram);
}

Test(dram, one_bank_streams_at_ccd_l) {
    for (uint64_t bursts = 1; bursts <= 32; bursts++) {
        sim_dram_t *dram = dram_new(ONE_BANK);
        cr_assert_eq(read_cycles(dram, 0, bursts * 32, 0), RCDRD + (bursts - 1) * CCD_L + CL + BL);
        sim_dram_reset(dram);
        cr_assert_eq(write_cycles(dram, 0, bursts * 32, 0),
                     RCDWR + (bursts - 1) * CCD_L + CWL + BL);
        /* one by one it is the same */
        sim_dram_reset(dram);
        uint64_t last = 0;
        for (uint64_t i = 0; i < bursts; i++)
            last = read_cycles(dram, i * 32, 32, 0);
        cr_assert_eq(last, RCDRD + (bursts - 1) * CCD_L + CL + BL);
        sim_dram_destroy(dram);
    }
}

Test(dram, two_bank_groups_stream_at_ccd_s) {
    sim_dram_t *dram = dram_new(BARE ",dram.mapping=ro-ba-co-bg,dram.bank_groups=2");
    for (uint64_t bursts = 2; bursts <= 64; bursts++) {
        sim_dram_reset(dram);
        /* the second activate comes tRRD after the first; from there a burst every CCD_S, CCD_L
         * within a group */
        uint64_t last = RCDRD + RRD + (bursts - 2) * CCD_S;
        cr_assert_eq(read_cycles(dram, 0, bursts * 32, 0), last + CL + BL, "%d bursts",
                     (int)bursts);
        /* rows are open now: from the first column command on */
        cr_assert_eq(read_cycles(dram, 0, bursts * 32, 2000),
                     2000 + (bursts - 1) * CCD_S + CL + BL);
    }
    sim_dram_destroy(dram);
}

/* A brute-force order of column commands, burst by burst: what the closed form of a train must
 * equal. */
static uint64_t brute_force(const uint32_t *bursts, const uint64_t *ready, uint32_t groups,
                            uint32_t s, uint32_t l) {
    uint64_t last = 0, own[4] = {0}, left = 0;
    uint32_t placed[4] = {0};
    for (uint32_t g = 0; g < groups; g++)
        left += bursts[g];
    bool is_first = true;
    while (left > 0)
        for (uint32_t g = 0; g < groups; g++) {
            if (placed[g] == bursts[g]) continue;
            uint64_t at = placed[g] == 0 ? ready[g] : own[g] + l;
            if (!is_first && at < last + s) at = last + s;
            is_first = false;
            last = own[g] = at;
            placed[g]++;
            left--;
        }
    return last;
}

Test(dram, trains_of_several_groups_equal_burst_by_burst) {
    const char *const ccd[] = {",dram.tccd_s=2,dram.tccd_l=4", ",dram.tccd_s=2,dram.tccd_l=11",
                               ",dram.tccd_s=3,dram.tccd_l=3"};
    const uint32_t spacing[][2] = {{2, 4}, {2, 11}, {3, 3}};
    for (size_t c = 0; c < 3; c++) {
        char overrides[256];
        (void)snprintf(overrides, sizeof overrides, "%s%s", BARE ",dram.mapping=ro-ba-co4-bg-co8",
                       ccd[c]);
        sim_dram_t *dram = dram_new(overrides);
        for (uint64_t first = 0; first < 40; first += 3)
            for (uint64_t count = 1; first + count <= 128; count += 5) {
                sim_dram_reset(dram);
                /* groups in the order of the first burst on, 8 bursts of each in turn */
                uint32_t bursts[4] = {0};
                uint64_t ready[4], activates = 0;
                for (uint64_t i = first; i < first + count; i++)
                    bursts[(i / 8 - first / 8) % 4]++;
                for (uint32_t g = 0; g < 4; g++)
                    ready[g] = bursts[g] > 0 ? RCDRD + RRD * activates++ : 0;
                uint64_t expected =
                    brute_force(bursts, ready, 4, spacing[c][0], spacing[c][1]) + CL + BL;
                cr_assert_eq(read_cycles(dram, first * 32, count * 32, 0), expected,
                             "first %d count %d", (int)first, (int)count);
            }
        sim_dram_destroy(dram);
    }
}

Test(dram, at_most_four_activates_in_the_window) {
    /* every burst another bank: 16 closed banks */
    sim_dram_t *dram = dram_new(BARE ",dram.mapping=ro-co-ba-bg,dram.tfaw=50");
    uint64_t last = 0;
    for (uint64_t i = 0; i < 16; i++) {
        last = read_cycles(dram, i * 32, 32, 0);
        cr_assert_eq(last, i / 4 * 50 + i % 4 * RRD + RCDRD + CL + BL, "bank %d", (int)i);
    }
    sim_dram_destroy(dram);
    dram = dram_new(BARE ",dram.mapping=ro-co-ba-bg"); /* 26 < 4 x 7: tRRD decides */
    for (uint64_t i = 0; i < 16; i++)
        cr_assert_eq(read_cycles(dram, i * 32, 32, 0), i * RRD + RCDRD + CL + BL);
    sim_dram_destroy(dram);
}

Test(dram, read_and_write_turn_the_bus) {
    sim_dram_t *dram = dram_new(ONE_BANK);
    (void)read_cycles(dram, 0, 32, 0);
    uint64_t now = 1000;
    cr_assert_eq(read_cycles(dram, 0, 32, now), now + CL + BL);
    cr_assert_eq(write_cycles(dram, 32, 32, now), now + RTW + CWL + BL);
    cr_assert_eq(read_cycles(dram, 64, 32, now), now + RTW + (CWL + BL + WTR_L) + CL + BL);
    /* another bank group, row open: WTR_S */
    (void)read_cycles(dram, NEXT_GROUP, 32, 2000);
    cr_assert_eq(write_cycles(dram, 0, 32, 3000), 3000 + CWL + BL);
    cr_assert_eq(read_cycles(dram, NEXT_GROUP, 32, 3000), 3000 + (CWL + BL + WTR_S) + CL + BL);
    sim_dram_destroy(dram);
}

Test(dram, same_bank_conflicts_cost_the_row_cycle) {
    sim_dram_t *dram = dram_new(ONE_BANK);
    for (uint64_t i = 0; i < 10; i++)
        cr_assert_eq(read_cycles(dram, i * NEXT_ROW, 32, 0), i * (RAS + RP) + RCDRD + CL + BL);
    sim_dram_reset(dram);
    /* a write holds its row until its data is in the cells */
    for (uint64_t i = 0; i < 10; i++)
        cr_assert_eq(write_cycles(dram, i * NEXT_ROW, 32, 0),
                     i * (RCDWR + CWL + BL + TWR + RP) + RCDWR + CWL + BL);
    cr_assert_eq(sim_dram_stats(dram)->row_conflicts, 9);
    sim_dram_destroy(dram);
}

Test(dram, another_bank_opens_while_one_streams) {
    sim_dram_t *dram = dram_new(ONE_BANK);
    uint64_t first = read_cycles(dram, 0, 1024, 0);
    cr_assert_eq(first, RCDRD + 31 * CCD_L + CL + BL);
    /* its row opened at cycle 7; its columns follow the first train's: same group CCD_L, another
     * group CCD_S */
    cr_assert_eq(read_cycles(dram, NEXT_GROUP, 32, 0), first + CCD_S);
    cr_assert_eq(read_cycles(dram, NEXT_BANK, 32, 0), first + CCD_L);
    sim_dram_destroy(dram);
}

Test(dram, closed_page_closes_behind_every_access) {
    sim_dram_t *dram = dram_new(ONE_BANK ",dram.page=closed");
    cr_assert_eq(read_cycles(dram, 0, 32, 0), RCDRD + CL + BL);
    cr_assert_eq(read_cycles(dram, NEXT_ROW, 32, 0), RAS + RP + RCDRD + CL + BL);
    cr_assert_eq(read_cycles(dram, NEXT_ROW, 32, 1000), 1000 + RCDRD + CL + BL);
    cr_assert_eq(sim_dram_stats(dram)->row_closed, 3);
    sim_dram_destroy(dram);
}

/* ---- refresh ---- */

#define REFRESHING                                                                                 \
    "dram.channels=1,dram.bytes=64MiB,dram.frontend=0ps,dram.hash=false,dram.mapping=ro-ba-bg-co"

Test(dram, a_refresh_blocks_from_when_it_is_due) {
    const uint64_t due = REFI / 2; /* channel 0 of 1 */
    sim_dram_t *dram = dram_new(REFRESHING);
    cr_assert_eq(read_cycles(dram, 0, 32, due - 1),
                 due - 1 + RCDRD + CL + BL); /* before it: not held up */
    cr_assert_eq(sim_dram_stats(dram)->refreshes, 0);
    sim_dram_reset(dram);
    cr_assert_eq(read_cycles(dram, 0, 32, due), due + RFC + RCDRD + CL + BL);
    cr_assert_eq(sim_dram_stats(dram)->refreshes, 1);
    sim_dram_reset(dram);
    /* an open row is closed first */
    (void)read_cycles(dram, 0, 32, 0);
    cr_assert_eq(read_cycles(dram, 0, 32, due), due + RP + RFC + RCDRD + CL + BL);
    sim_dram_reset(dram);
    /* over when the access comes */
    cr_assert_eq(read_cycles(dram, 0, 32, due + RFC), due + RFC + RCDRD + CL + BL);
    /* and the row is closed again when ten more are missed in idle time; the last of them is still
     * felt */
    cr_assert_eq(read_cycles(dram, 0, 32, due + 10 * REFI + 1),
                 due + 10 * REFI + RFC + RCDRD + CL + BL);
    cr_assert_eq(sim_dram_stats(dram)->refreshes, 11);
    sim_dram_destroy(dram);
}

Test(dram, refresh_is_staggered_over_the_channels) {
    const uint64_t channels = 8;
    sim_dram_t *dram = dram_new("dram.channels=8,dram.bytes=64MiB,dram.frontend=0ps,dram.hash="
                                "false,dram.mapping=ro-ba-bg-co-ch");
    for (uint64_t i = 0; i < channels; i++) {
        uint64_t due = (2 * i + 1) * REFI / (2 * channels);
        sim_dram_reset(dram);
        cr_assert_eq(read_cycles(dram, i * 32, 32, due - 1), due - 1 + RCDRD + CL + BL);
        sim_dram_reset(dram);
        cr_assert_eq(read_cycles(dram, i * 32, 32, due), due + RFC + RCDRD + CL + BL);
    }
    sim_dram_destroy(dram);
}

Test(dram, channels_may_refresh_together) {
    sim_dram_t *dram =
        dram_new("dram.channels=2,dram.bytes=64MiB,dram.frontend=0ps,dram.hash=false,"
                 "dram.mapping=ro-ba-bg-co-ch,dram.refresh_stagger=false");
    for (uint64_t i = 0; i < 2; i++) {
        sim_dram_reset(dram);
        cr_assert_eq(read_cycles(dram, i * 32, 32, REFI - 1), REFI - 1 + RCDRD + CL + BL);
        sim_dram_reset(dram);
        cr_assert_eq(read_cycles(dram, i * 32, 32, REFI), REFI + RFC + RCDRD + CL + BL);
    }
    sim_dram_destroy(dram);
}

Test(dram, a_per_bank_refresh_leaves_the_other_banks_alone) {
    const uint64_t rfcpb = 320, interval = 390, rrefd = 15, due = interval / 2;
    sim_dram_t *dram =
        dram_new(REFRESHING ",dram.refresh=per_bank,dram.trfcpb=320,dram.trefipb=390,"
                            "dram.trrefd=15");
    /* the first one is that of bank 0 of group 0 */
    cr_assert_eq(read_cycles(dram, 0, 32, due - 1), due - 1 + RCDRD + CL + BL);
    sim_dram_reset(dram);
    cr_assert_eq(read_cycles(dram, 0, 32, due), due + rfcpb + RCDRD + CL + BL);
    cr_assert_eq(sim_dram_stats(dram)->refreshes, 1);
    sim_dram_reset(dram);
    cr_assert_eq(read_cycles(dram, NEXT_GROUP, 32, due), due + rrefd + RCDRD + CL + BL);
    sim_dram_reset(dram);
    (void)read_cycles(dram, NEXT_GROUP, 32, 0);
    cr_assert_eq(read_cycles(dram, NEXT_GROUP, 32, due), due + CL + BL); /* its row stays open */
    (void)read_cycles(dram, 0, 32, due + interval - 1);
    /* then that of bank 0 of group 1, whose open row is closed first */
    cr_assert_eq(read_cycles(dram, NEXT_GROUP, 32, due + interval),
                 due + interval + RP + rfcpb + RCDRD + CL + BL);
    sim_dram_reset(dram);
    /* every bank in turn; of a long idle time each bank's last one is felt */
    uint64_t late =
        due + 1000 * interval; /* 1001 refreshes: the last is that of bank 1000 mod 16 */
    cr_assert_eq(read_cycles(dram, 1000 % 4 * NEXT_GROUP + 1000 / 4 % 4 * NEXT_BANK, 32, late),
                 late + rfcpb + RCDRD + CL + BL);
    cr_assert_eq(sim_dram_stats(dram)->refreshes, 1001);
    sim_dram_destroy(dram);
}

/* Streams `bytes` in requests of `request` bytes, `window` of them in flight; returns the ticks
 * that it took. */
static sim_tick_t stream(sim_dram_t *dram, uint64_t bytes, uint64_t request, uint32_t window,
                         bool is_write) {
    sim_tick_t *done = calloc(window, sizeof *done), now = 0, last = 0;
    cr_assert_not_null(done);
    for (uint64_t i = 0; i < bytes / request; i++) {
        sim_tick_t *slot = &done[i % window];
        if (*slot > now) now = *slot;
        *slot = sim_dram_access(dram, i * request, request, is_write, now);
        if (*slot > last) last = *slot;
    }
    free(done);
    return last;
}

Test(dram, the_long_run_loses_the_refresh_duty) {
    const uint64_t bytes = UINT64_C(32) << 20;
    sim_dram_t *dram =
        dram_new("dram.channels=1,dram.bytes=64MiB,dram.hash=false,dram.mapping=ro-ba-co-bg");
    sim_dram_t *free_running = dram_new(
        "dram.channels=1,dram.bytes=64MiB,dram.hash=false,dram.mapping=ro-ba-co-bg,dram.trefi=0");
    double with = (double)stream(dram, bytes, 4096, 32, false),
           without = (double)stream(free_running, bytes, 4096, 32, false);
    double loss = 1 - without / with;
    /* tRFC of every tREFI, and at most closing and reopening the rows around it */
    cr_assert_geq(loss, 0.999 * RFC / REFI);
    cr_assert_leq(loss, (double)(RFC + RTP + RP + RCDRD + 3 * RRD + CCD_L) / REFI * 1.001);
    uint64_t expected = ((uint64_t)with / TICKS - REFI / 2) / REFI + 1;
    cr_assert_leq(sim_dram_stats(dram)->refreshes, expected);
    cr_assert_geq(sim_dram_stats(dram)->refreshes + 1, expected);
    sim_dram_destroy(dram);
    sim_dram_destroy(free_running);
}

Test(dram, a_sequential_stream_reaches_nine_tenths_of_what_refresh_leaves) {
    const uint64_t bytes = UINT64_C(64) << 20;
    sim_dram_t *dram = dram_new("");
    cr_assert_eq(sim_dram_peak_bytes_per_s(dram), UINT64_C(819200000000));
    cr_assert_eq(sim_dram_channels(dram), 32);
    double bound = 819.2e9 * (1 - (double)RFC / REFI);
    for (int is_write = 0; is_write < 2; is_write++) {
        sim_dram_reset(dram);
        double seconds =
            (double)stream(dram, bytes, 4096, 256, is_write == 1) * SIM_TICK_PS * 1e-12;
        cr_assert_geq((double)bytes / seconds, 0.9 * bound);
        cr_assert_leq((double)bytes / seconds, bound);
        const sim_dram_stats_t *stats = sim_dram_stats(dram);
        cr_assert_eq(is_write ? stats->write_bytes : stats->read_bytes, bytes);
        cr_assert_eq(stats->row_hits + stats->row_closed + stats->row_conflicts, stats->trains);
    }
    sim_dram_destroy(dram);
}

Test(dram, partial_bursts_move_whole_ones) {
    sim_dram_t *dram = dram_new(ONE_BANK);
    (void)read_cycles(dram, 31, 2, 0); /* one byte on either side of a burst's edge */
    cr_assert_eq(sim_dram_stats(dram)->read_bytes, 64);
    (void)write_cycles(dram, 5, 1, 0);
    cr_assert_eq(sim_dram_stats(dram)->write_bytes, 32);
    cr_assert_eq(sim_dram_access(dram, 0, 0, false, 1234567), 1234567); /* nothing takes no time */
    cr_assert_eq(sim_dram_stats(dram)->trains, 2);
    sim_dram_destroy(dram);
}

Test(dram, a_reset_gives_the_same_again) {
    sim_dram_t *dram = dram_new("");
    sim_tick_t first[500];
    for (int run = 0; run < 2; run++) {
        uint64_t seed = 7;
        for (int i = 0; i < 500; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            sim_tick_t done = sim_dram_access(dram, seed >> 31, 1 + (seed & 4095), seed >> 63,
                                              (sim_tick_t)i * 100);
            if (run == 0) first[i] = done;
            cr_assert_eq(done, first[i]);
        }
        sim_dram_reset(dram);
        cr_assert_eq(sim_dram_stats(dram)->trains, 0);
    }
    sim_dram_destroy(dram);
}

Test(dram, back_in_time_is_a_bug, .signal = SIGABRT) {
    sim_dram_t *dram = dram_new("");
    (void)sim_dram_access(dram, 0, 32, false, 100);
    (void)sim_dram_access(dram, 0, 32, false, 99);
}

Test(dram, shipped_timing_sets) {
    static const struct {
        const char *name;
        uint64_t bytes_per_s;     /* peak, from the standard's data rate and width */
        double hit_ns, closed_ns; /* idle latency between the frontends */
    } sets[] = {
        {"ddr4-2400", UINT64_C(19200000000), 20 / 1.2, 36 / 1.2},
        {"ddr4-3200", UINT64_C(25600000000), 26 / 1.6, 48 / 1.6},
        {"lpddr4-3200", UINT64_C(12800000000), 43 / 1.6, 72 / 1.6},
        {"lpddr5-6400", UINT64_C(51200000000), 19 / 0.8, 34 / 0.8},
        {"gddr6-14000", UINT64_C(56000000000), 26 / 1.75, 53 / 1.75},
        {"hbm2-2.0", UINT64_C(256000000000), 16, 30},
        {"hbm2e-3.2", UINT64_C(409600000000), 25 / 1.6, 48 / 1.6},
        {"hbm3-6.4", UINT64_C(819200000000), 22 / 1.6, 53 / 1.6},
    };
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        char text[200];
        (void)snprintf(text, sizeof text, "include = default.ini\ninclude = dram/%s.ini\n",
                       sets[i].name);
        sim_config_t *config;
        sim_error_t err = {0};
        sim_dram_t *dram;
        const char *own = VNPU_SOURCE_DIR "/configs/own.ini";
        const char *quiet = "dram.refresh=all_bank,dram.trefi=0";
        cr_assert_eq(sim_config_parse(text, own, quiet, &config, &err), SIM_OK, "%s", err.text);
        cr_assert_eq(sim_dram_create(config, &dram, &err), SIM_OK, "%s", err.text);
        sim_config_destroy(config);
        cr_assert_eq(sim_dram_peak_bytes_per_s(dram), sets[i].bytes_per_s, "%s", sets[i].name);
        double frontend = 2 * 10, tick = SIM_TICK_PS * 1e-3;
        double closed = (double)sim_dram_access(dram, 0, 1, false, 0) * tick - frontend;
        double hit = (double)(sim_dram_access(dram, 0, 1, false, 800) - 800) * tick - frontend;
        cr_assert_leq(closed - sets[i].closed_ns, 2 / 0.8, "%s: %f", sets[i].name, closed);
        cr_assert_geq(closed - sets[i].closed_ns, -1e-9, "%s: %f", sets[i].name, closed);
        cr_assert_leq(hit - sets[i].hit_ns, 2 / 0.8, "%s: %f", sets[i].name, hit);
        cr_assert_geq(hit - sets[i].hit_ns, -1e-9, "%s: %f", sets[i].name, hit);
        /* a stream reaches most of it; in order, it waits for the bank that refreshes */
        sim_dram_destroy(dram);
        cr_assert_eq(sim_config_parse(text, own, "", &config, &err), SIM_OK, "%s", err.text);
        cr_assert_eq(sim_dram_create(config, &dram, &err), SIM_OK, "%s", err.text);
        const uint64_t bytes = UINT64_C(16) << 20;
        double seconds = (double)stream(dram, bytes, 4096, 256, false) * tick * 1e-9;
        double bound = (double)sets[i].bytes_per_s;
        cr_assert_geq((double)bytes / seconds, 0.75 * bound, "%s: %f", sets[i].name,
                      (double)bytes / seconds / bound);
        cr_assert_leq((double)bytes / seconds, bound);
        sim_dram_destroy(dram);
        sim_config_destroy(config);
    }
}
