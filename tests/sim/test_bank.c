#include <criterion/criterion.h>

#include "sim/sim_bank.h"
#include "tests/sim/units.h"

static const sim_bank_spec_t SIXTEEN = {
    .banks = 16, .ports = 1, .word_bytes = 16, .has_conflicts = true};

/* `count` runs of `run` bytes, `stride` bytes apart. */
static sim_bank_use_t use_of(const sim_bank_spec_t *spec, uint64_t run, uint64_t count,
                             int64_t stride) {
    sim_bank_walk_t walk = {.run_bytes = run, .ndims = 1, .size = {count}, .stride = {stride}};
    return sim_bank_use(spec, &walk);
}

Test(bank, dense_bytes_use_every_bank) {
    sim_bank_use_t use = use_of(&SIXTEEN, 4, 1024, 4);
    cr_assert_eq(use.bytes, 4096);
    cr_assert_eq(use.cycles, 16); /* 256 words over 16 banks */
    use = use_of(&SIXTEEN, 4, 1025, 4);
    cr_assert_eq(use.bytes, 4112);
    cr_assert_eq(use.cycles, 17);
}

Test(bank, the_stride_decides_how_many_banks_it_visits) {
    /* B / gcd(B, s): stride in words, cycles of 64 accesses */
    static const struct {
        int64_t words;
        uint64_t cycles;
    } cases[] = {{1, 4},  {2, 8},   {3, 4},  {4, 16},  {5, 4},
                 {8, 32}, {16, 64}, {17, 4}, {24, 32}, {32, 64}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            sim_bank_use_t use = use_of(&SIXTEEN, 4, 64, sign * 16 * cases[i].words);
            cr_assert_eq(use.cycles, cases[i].cycles, "stride of %d words", (int)cases[i].words);
            cr_assert_eq(use.bytes, 64 * 16); /* whole words */
        }
}

Test(bank, every_port_counts) {
    sim_bank_spec_t spec = SIXTEEN;
    spec.ports = 2;
    cr_assert_eq(use_of(&spec, 4, 64, 256).cycles, 32);
    cr_assert_eq(use_of(&spec, 4, 65, 256).cycles, 33);
}

Test(bank, few_elements_visit_few_banks) {
    cr_assert_eq(use_of(&SIXTEEN, 4, 1, 16).cycles, 1);
    cr_assert_eq(use_of(&SIXTEEN, 4, 3, 32).cycles, 1); /* three words in three banks */
    cr_assert_eq(use_of(&SIXTEEN, 4, 8, 32).cycles, 1);
    cr_assert_eq(use_of(&SIXTEEN, 4, 9, 32).cycles, 2); /* the ninth is in the first bank */
    /* two rows of one bank each, in two banks: strides of 16 and 1 words */
    sim_bank_walk_t walk = {.run_bytes = 4, .ndims = 2, .size = {100, 2}, .stride = {16 * 16, 16}};
    cr_assert_eq(sim_bank_use(&SIXTEEN, &walk).cycles, 100);
}

Test(bank, runs_take_whole_words) {
    sim_bank_walk_t walk = {.base = 12, .run_bytes = 8, .ndims = 1, .size = {10}, .stride = {64}};
    sim_bank_use_t use = sim_bank_use(&SIXTEEN, &walk); /* two words each, 4 apart: 8 banks */
    cr_assert_eq(use.bytes, 10 * 32);
    cr_assert_eq(use.cycles, 3);
    walk.base = 8;
    use = sim_bank_use(&SIXTEEN, &walk);
    cr_assert_eq(use.bytes, 10 * 16);
    cr_assert_eq(use.cycles, 3); /* ten words in 4 banks */
}

Test(bank, neighbours_in_a_word_come_together) {
    sim_bank_use_t use = use_of(&SIXTEEN, 4, 64, 8); /* every second element: 64 * 8 - 4 bytes */
    cr_assert_eq(use.bytes, 512);
    cr_assert_eq(use.cycles, 2);
    sim_bank_walk_t walk = {
        .run_bytes = 4, .ndims = 2, .size = {8, 16}, .stride = {64, 4}}; /* dense rows */
    use = sim_bank_use(&SIXTEEN, &walk);
    cr_assert_eq(use.bytes, 512);
    cr_assert_eq(use.cycles, 2);
}

Test(bank, a_broadcast_is_read_once) {
    sim_bank_walk_t walk = {.run_bytes = 4, .ndims = 2, .size = {8, 16}, .stride = {0, 256}};
    sim_bank_use_t use = sim_bank_use(&SIXTEEN, &walk);
    cr_assert_eq(use.bytes, 256);
    cr_assert_eq(use.cycles, 16);
}

Test(bank, without_conflicts_a_byte_is_a_byte) {
    sim_bank_spec_t spec = SIXTEEN;
    spec.has_conflicts = false;
    sim_bank_use_t use = use_of(&spec, 4, 64, 256);
    cr_assert_eq(use.bytes, 256);
    cr_assert_eq(use.cycles, 0);
}

/* The closed form beside an enumeration of the accesses: never optimistic where the walk is long
 * enough to visit its banks evenly. */
Test(bank, beside_an_enumeration) {
    for (int64_t outer = 1; outer <= 40; outer++)
        for (int64_t inner = 1; inner <= 20; inner++) {
            uint64_t hits[16] = {0}, most = 0;
            for (int64_t i = 0; i < 16; i++)
                for (int64_t j = 0; j < 16; j++)
                    hits[(uint64_t)(i * outer + j * inner) % 16]++;
            for (int b = 0; b < 16; b++)
                most = hits[b] > most ? hits[b] : most;
            sim_bank_walk_t walk = {
                .run_bytes = 16, .ndims = 2, .size = {16, 16}, .stride = {outer * 16, inner * 16}};
            if (inner == 1) continue; /* merged into one run: words between are read once */
            cr_assert_eq(sim_bank_use(&SIXTEEN, &walk).cycles, most, "strides %d and %d",
                         (int)outer, (int)inner);
        }
}

Test(bank, the_configuration_says_so) {
    sim_config_t *config = config_new("default", "sram.conflicts=strides,sram.ports_per_bank=2");
    sim_bank_spec_t sram = sim_bank_spec_of_sram(config), acc = sim_bank_spec_of_acc(config);
    cr_assert(sram.has_conflicts && !acc.has_conflicts);
    cr_assert_eq(sram.ports, 2);
    cr_assert_eq(acc.ports, 1);
    cr_assert_eq(sram.banks, sim_config_u64(config, "sram.banks"));
    cr_assert_eq(acc.word_bytes, sim_config_u64(config, "acc.word_bytes"));
    sim_config_destroy(config);
}

/* ---- banks that are blocks of bytes ---- */

static const sim_bank_spec_t BLOCKS = {
    .banks = 4, .ports = 1, .word_bytes = 16, .part_bytes = 1024};

Test(bank, a_block_says_where_an_operand_lies) {
    sim_bank_walk_t walk = {
        .base = 512, .run_bytes = 64, .ndims = 2, .size = {4, 3}, .stride = {1024, -16}};
    sim_bank_use_t use = sim_bank_use(&BLOCKS, &walk);
    cr_assert_eq(use.bytes, 12 * 64);
    cr_assert_eq(use.cycles, 0); /* the ports of its banks limit it, not its strides */
    cr_assert_eq(use.num_ranges, 1);
    cr_assert_eq(use.range[0].first, 512 - 32);
    cr_assert_eq(use.range[0].extent, 3 * 1024 + 64 + 32);
    cr_assert_eq(use.range[0].bytes, 12 * 64);
}

Test(bank, operands_beyond_the_ranges_join_the_last) {
    sim_bank_use_t sum = {0};
    for (uint64_t i = 0; i < 5; i++) {
        sim_bank_walk_t walk = {.base = 1024 * i, .run_bytes = 100};
        sim_bank_use_t use = sim_bank_use(&BLOCKS, &walk);
        sim_bank_add(&sum, &use, 2);
    }
    cr_assert_eq(sum.bytes, 1000);
    cr_assert_eq(sum.num_ranges, SIM_SHARE_MAX_RANGES);
    cr_assert_eq(sum.range[1].first, 1024);
    cr_assert_eq(sum.range[1].bytes, 200);
    cr_assert_eq(sum.range[2].bytes, 600);
}

/* Every byte of both, counted one by one. */
Test(bank, the_overlap_is_that_of_all_pairs_of_bytes) {
    for (uint64_t trial = 0; trial < 200; trial++) {
        sim_range_t a = {.first = trial * 97 % 5000, .extent = 1 + trial * 131 % 4000};
        sim_range_t b = {.first = trial * 389 % 7000, .extent = 1 + trial * 57 % 3000};
        uint64_t in_a[4] = {0}, in_b[4] = {0}, pairs = 0;
        for (uint64_t i = 0; i < a.extent; i++)
            in_a[(a.first + i) / 1024 % 4]++;
        for (uint64_t i = 0; i < b.extent; i++)
            in_b[(b.first + i) / 1024 % 4]++;
        for (uint32_t bank = 0; bank < 4; bank++) {
            pairs += in_a[bank] * in_b[bank];
            sim_range_t counted = {.first = a.first, .extent = a.extent, .bytes = a.extent};
            cr_assert_eq(sim_range_bytes(&counted, bank, 4, 1024), in_a[bank]);
        }
        uint64_t exact = (pairs << 16) / (a.extent * b.extent);
        uint64_t got = sim_bank_overlap(&BLOCKS, &a, &b);
        cr_assert_leq(got, exact);
        cr_assert_leq(exact - got, 8, "trial %d", (int)trial); /* four banks, each rounded down */
    }
    sim_bank_spec_t words = {.banks = 4, .ports = 1, .word_bytes = 16};
    sim_range_t same = {.first = 0, .extent = 64};
    cr_assert_eq(sim_bank_overlap(&words, &same, &same), 0);
}

Test(bank, blocks_need_whole_words_and_few_banks) {
    static const char *const BAD[] = {"sram.interleave_bytes=100,sram.banks=4",
                                      "sram.interleave_bytes=64 KiB,sram.banks=9",
                                      "sram.interleave_bytes=64 KiB,sram.banks=1"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        sim_config_t *config;
        sim_error_t err = {0};
        cr_assert_eq(sim_config_load(VNPU_SOURCE_DIR "/configs/default.ini", BAD[i], &config, &err),
                     SIM_ERROR_CONFIG);
        cr_assert_not_null(strstr(err.text, "sram.interleave_bytes"), "%s: %s", BAD[i], err.text);
    }
}
