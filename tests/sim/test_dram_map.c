#include <criterion/criterion.h>
#include <stdlib.h>

#include "sim/sim_dram_internal.h"
#include "tests/sim/units.h"

/* 4 channels x 2 groups x 4 banks x 8 bursts x 32 B: 8 KiB of one row of every bank; 128 rows in 1
 * MiB. */
#define BANKS "dram.bank_groups=2,dram.banks_per_group=4,dram.row_bytes=256B,dram.burst_bytes=32B,"
#define SMALL "dram.bytes=1MiB,dram.channels=4," BANKS

static sim_dram_map_t map_of(const char *overrides) {
    sim_config_t *config = config_new("default", overrides);
    sim_error_t err = {0};
    sim_dram_map_t map;
    cr_assert_eq(sim_dram_map_init(config, &map, &err), SIM_OK, "%s", err.text);
    sim_config_destroy(config);
    return map;
}

static const char *const mappings[] = {
    "ro-ba-ch-bg-co",  "ro-ba-co-ch-co4-bg",  "ro-co2-ba-co-ch-co2-bg",
    "ba-ro-co-bg-ch",  "ch-bg-ba-ro-co",      "co-ro-ba-bg-ch",
    "ro-ba-bg-ch-co8", "ro-co4-bg-co2-ba-ch", "ro-ba-co2-co2-bg-co2-ch"};

/* Every burst of `channels` x 1 MiB has a place of its own. */
static void check_bijection(const char *mapping, bool is_hashed, uint32_t channels) {
    char overrides[300];
    (void)snprintf(overrides, sizeof overrides,
                   BANKS "dram.channels=%u,dram.bytes=%uMiB,dram.mapping=%s,dram.hash=%s", channels,
                   channels, mapping, is_hashed ? "true" : "false");
    sim_dram_map_t map = map_of(overrides);
    uint8_t *seen = calloc(channels, 32768);
    cr_assert_not_null(seen);
    for (uint64_t burst = 0; burst < 32768 * (uint64_t)channels; burst++) {
        sim_dram_place_t at = sim_dram_map_decode(&map, burst * 32 + burst % 32);
        cr_assert_lt(at.channel, channels);
        cr_assert_lt(at.group, 2);
        cr_assert_lt(at.bank, 4);
        cr_assert_lt(at.column, 8);
        cr_assert_lt(at.row, 512);
        uint64_t index =
            (((at.row * channels + at.channel) * 2 + at.group) * 4 + at.bank) * 8 + at.column;
        cr_assert_eq(seen[index]++, 0, "%s, %u channels: burst %d", mapping, channels, (int)burst);
    }
    free(seen);
}

Test(dram_map, is_a_bijection) {
    static const uint32_t channels[] = {1, 3, 4, 6, 12};
    for (size_t m = 0; m < sizeof mappings / sizeof mappings[0]; m++)
        for (size_t c = 0; c < sizeof channels / sizeof channels[0]; c++) {
            check_bijection(mappings[m], false, channels[c]);
            check_bijection(mappings[m], true, channels[c]);
        }
}

#define TWELVE BANKS "dram.channels=12,dram.bytes=3MiB,dram.mapping=ro-ba-co-ch-co4-bg,"

Test(dram_map, twelve_channels_take_turns) {
    sim_dram_map_t map = map_of(TWELVE "dram.hash=false");
    /* one bank group bit and two column bits below: 8 bursts to a channel, then the next one */
    for (uint64_t burst = 0; burst < 98304; burst += 5) {
        sim_dram_place_t at = sim_dram_map_decode(&map, burst * 32);
        uint64_t turn = burst / 8 / 12;
        cr_assert_eq(at.channel, burst / 8 % 12);
        cr_assert_eq(at.group, burst & 1);
        cr_assert_eq(at.column, (burst >> 1 & 3) | (turn & 1) << 2);
        cr_assert_eq(at.bank, turn >> 1 & 3);
        cr_assert_eq(at.row, turn >> 3);
    }
    cr_assert_eq(map.segment_bits, 3);
    cr_assert_eq(sim_dram_map_stripe_bytes(&map), 12 * 8 * 32 * 2);
}

Test(dram_map, the_hash_spreads_strides_over_twelve_channels) {
    sim_dram_map_t map = map_of(TWELVE "dram.hash=true");
    uint32_t turn = 0, turns = 0;
    for (uint64_t i = 0; i < 12; i++) {
        turn |= 1u << sim_dram_map_decode(&map, i * 12 * 256).channel;
        turns |= 1u << sim_dram_map_decode(&map, i * 144 * 256).channel;
    }
    cr_assert_eq(turn, 4095);  /* the stride of a whole turn over the channels */
    cr_assert_eq(turns, 4095); /* of twelve turns */
}

Test(dram_map, operands_lie_alike_in_twelve_channels) {
    sim_dram_map_t map = map_of(TWELVE "dram.hash=true");
    for (uint64_t address = 0; address < 65536; address += 96) {
        sim_dram_place_t a = sim_dram_map_decode(&map, address),
                         b = sim_dram_map_decode(
                             &map, address + (UINT64_C(5) << SIM_DRAM_PLACEMENT_BITS));
        cr_assert_eq(a.channel, b.channel); /* time must not hang on the operand's number */
        cr_assert_neq(a.row, b.row);
    }
}

Test(dram_map, fields_lie_where_the_mapping_says) {
    sim_dram_map_t map = map_of(SMALL "dram.mapping=ro-ba-co-ch-co4-bg,dram.hash=false");
    /* from the lowest bit: 1 bank group, 2 column, 2 channel, 1 column, 2 bank, then rows */
    for (uint64_t burst = 0; burst < 32768; burst += 7) {
        sim_dram_place_t at = sim_dram_map_decode(&map, burst * 32);
        cr_assert_eq(at.group, burst & 1);
        cr_assert_eq(at.column, (burst >> 1 & 3) | (burst >> 5 & 1) << 2);
        cr_assert_eq(at.channel, burst >> 3 & 3);
        cr_assert_eq(at.bank, burst >> 6 & 3);
        cr_assert_eq(at.row, burst >> 8);
    }
    cr_assert_eq(map.segment_bits, 3);
}

Test(dram_map, the_hash_spreads_rows_and_strides) {
    sim_dram_map_t map = map_of(SMALL "dram.mapping=ro-ba-co-ch-co4-bg,dram.hash=true");
    uint32_t banks = 0, channels = 0;
    for (uint64_t row = 0; row < 8; row++) {
        sim_dram_place_t at = sim_dram_map_decode(&map, row * 8192);
        banks |= 1u << (at.group * 4 + at.bank);
    }
    cr_assert_eq(banks, 255); /* eight rows of one bank meet in eight banks */
    for (uint64_t i = 0; i < 4; i++)
        channels |= 1u << sim_dram_map_decode(&map, i * 1024).channel;
    cr_assert_eq(channels, 15); /* the stride of a whole turn over the channels */
}

Test(dram_map, operands_of_the_canonical_placement_start_in_different_banks) {
    sim_dram_map_t map = map_of("");
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < i; j++) {
            sim_dram_place_t a = sim_dram_map_decode(&map, (uint64_t)i << SIM_DRAM_PLACEMENT_BITS);
            sim_dram_place_t b = sim_dram_map_decode(&map, (uint64_t)j << SIM_DRAM_PLACEMENT_BITS);
            cr_assert_neq(a.row, b.row);
            cr_assert(a.bank != b.bank || a.group != b.group, "operands %d and %d", i, j);
        }
}

Test(dram_map, the_stripe_repeats_channel_group_and_column) {
    for (size_t m = 0; m < sizeof mappings / sizeof mappings[0]; m++) {
        char overrides[300];
        (void)snprintf(overrides, sizeof overrides, SMALL "dram.mapping=%s,dram.hash=false",
                       mappings[m]);
        sim_dram_map_t map = map_of(overrides);
        uint64_t stripe = sim_dram_map_stripe_bytes(&map);
        for (uint64_t address = 0; address + stripe < 1 << 20; address += 32) {
            sim_dram_place_t a = sim_dram_map_decode(&map, address),
                             b = sim_dram_map_decode(&map, address + stripe);
            cr_assert_eq(a.channel, b.channel, "%s", mappings[m]);
            cr_assert_eq(a.group, b.group, "%s", mappings[m]);
            cr_assert_eq(a.column, b.column, "%s", mappings[m]);
        }
    }
    sim_dram_map_t map = map_of(SMALL "dram.mapping=ro-ba-co-ch-co4-bg");
    cr_assert_eq(sim_dram_map_stripe_bytes(&map), 2048);
}

static sim_dram_rows_t rows_of(const char *overrides) {
    sim_config_t *config = config_new("default", overrides);
    sim_error_t err = {0};
    sim_dram_rows_t rows;
    cr_assert_eq(sim_dram_rows(config, &rows, &err), SIM_OK, "%s", err.text);
    sim_config_destroy(config);
    return rows;
}

/* By hand: 4 channels at 1 GHz, 2 groups of 4 banks with rows of 256 bytes. */
Test(dram_map, rows_that_open_for_a_segment) {
#define TIMES "dram.clock=1GHz,dram.trrd_s=5,dram.trrd_l=5,dram.tfaw=20,dram.tras=40,dram.trp=20,"
    sim_dram_rows_t rows = rows_of(SMALL TIMES "dram.mapping=ro-ba-co-ch-co4-bg");
    cr_assert_eq(rows.segment_bytes, 256, "four bursts of two groups");
    cr_assert_eq(rows.open_bytes, 512, "a row of either");
    cr_assert_eq(rows.stripe_bytes, 2048);
    cr_assert_eq(rows.open_ps, 6000,
                 "a bank again after 60 ns, on the mean 2.5 of 4 in turn; four channels");
    rows = rows_of(SMALL TIMES "dram.mapping=ro-ba-ch-bg-co,dram.window=32");
    cr_assert_eq(rows.segment_bytes, 512);
    cr_assert_eq(rows.open_ps, 3750, "out of order all banks take turns");
    rows = rows_of(SMALL TIMES "dram.mapping=ro-ba-bg-ch-co,dram.window=32");
    cr_assert_eq(rows.segment_bytes, 256, "one group, then the next channel");
    cr_assert_eq(rows.open_bytes, 256);
}

Test(dram_map, a_number_of_rows_that_is_no_power_of_two) {
    sim_dram_map_t map =
        map_of("dram.bytes=24GiB,dram.channels=32,dram.mapping=ro-ba-co-ch-co8-bg,dram.hash=false");
    uint64_t last = (UINT64_C(24) << 30) - 32;
    sim_dram_place_t at = sim_dram_map_decode(&map, last);
    cr_assert_eq(at.row, (UINT64_C(24) << 30) / (32 * 16 * 1024) - 1);
    cr_assert_eq(at.channel, 31);
    cr_assert_eq(at.column, 31);
}

Test(dram_map, wrong_mappings_are_refused_by_name) {
    static const struct {
        const char *overrides, *text;
    } cases[] = {
        {"dram.mapping=ro-ba-bg-ch-xx", "\"xx\""},
        {"dram.mapping=ba-bg-ch-co", "\"ro\": missing"},
        {"dram.mapping=ro-ba-bg-co", "\"ch\": missing"},
        {"dram.mapping=ro-ba-ch-co", "\"bg\": missing"},
        {"dram.mapping=ro-bg-ch-co", "\"ba\": missing"},
        {"dram.mapping=ro-ba-bg-ch-co4", "\"co\": missing"},
        {"dram.mapping=ro-ba-bg-ch-co-co64", "more bursts"},
        {"dram.mapping=ro-ba-bg-ch-co-co3", "power of two"},
        {"dram.mapping=ro-ba-bg-ch-co-co+4", "power of two"},
        {"dram.mapping=ro-ba-bg-ch-co-ch", "named twice"},
        {"dram.bank_groups=3,dram.bytes=12GiB", "dram.bank_groups = 3"},
        {"dram.channels=12,dram.bytes=12GiB,dram.mapping=ro-ba-bg-co", "\"ch\": missing"},
        {"dram.mapping=ba-ro-bg-ch-co,dram.bytes=24GiB", "no power of two"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sim_config_t *config = config_new("default", cases[i].overrides);
        sim_error_t err = {0};
        sim_dram_t *dram = (sim_dram_t *)&err;
        cr_assert_eq(sim_dram_create(config, &dram, &err), SIM_ERROR_CONFIG, "%s",
                     cases[i].overrides);
        cr_assert_null(dram);
        cr_assert_not_null(strstr(err.text, cases[i].text), "%s: %s", cases[i].overrides, err.text);
        sim_config_destroy(config);
    }
}
