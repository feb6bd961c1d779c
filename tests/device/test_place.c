/* Canonical placement and the reuse key. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev_asm.h"
#include "device/dev_place.h"
#include "sim/sim_shared.h"

static const char *const text =
    ".program add\n.arg x in\n.arg y in\n.arg z out\n.arg s scalar\n.sram 8192\n"
    ".ap dx dram f32 arg=x dims=[1024:1]\n.ap dy dram f32 arg=y dims=[1024:1]\n"
    ".ap dz dram f32 arg=z dims=[1024:1]\n.ap t sram f32 base=0 dims=[1024:1]\n"
    ".queue dma0\ndma_copy dst=t src0=dx\ndma_copy dst=t src0=dy\ndma_copy dst=dz src0=t\n";

static dev_program_t *program_of(const char *source) {
    void *image;
    size_t bytes;
    sim_error_t err = {0};
    dev_program_t *program;
    cr_assert_eq(dev_asm_assemble(source, "test", &image, &bytes, &err), SIM_OK, "%s", err.text);
    cr_assert_eq(dev_program_load(image, bytes, NULL, &program, &err), SIM_OK, "%s", err.text);
    free(image);
    return program;
}

static dev_placement_t place(const dev_program_t *program, uint64_t x, uint64_t y, uint64_t z,
                             uint64_t s, bool is_physical) {
    dev_launch_t launch = {
        .program = program, .arg = {x, y, z, s}, .grid = {1, 1}, .core_mask = {1}};
    dev_place_options_t options = {.is_physical = is_physical, .config_hash = 7};
    dev_placement_t placement;
    dev_place(&launch, &options, &placement);
    return placement;
}

static bool same_key(const dev_placement_t *a, const dev_placement_t *b) {
    return memcmp(a->key, b->key, sizeof a->key) == 0;
}

#define BASE 0x200000000000ull

Test(place, where_an_allocator_puts_operands_does_not_matter) {
    dev_program_t *program = program_of(text);
    dev_placement_t a = place(program, BASE, BASE + 0x10000, BASE + 0x20000, 0, false);
    dev_placement_t b = place(program, BASE + 0x7000000, BASE + 0x200, BASE + 0x30000, 0, false);
    cr_assert(same_key(&a, &b));
    cr_assert_eq(memcmp(a.address, b.address, sizeof a.address), 0);
    cr_assert_neq(a.address[0] >> 40, a.address[1] >> 40);
    dev_program_destroy(program);
}

Test(place, scalars_do_not_matter) {
    dev_program_t *program = program_of(text);
    dev_placement_t a = place(program, BASE, BASE + 0x10000, BASE + 0x20000, 1, false);
    dev_placement_t b = place(program, BASE, BASE + 0x10000, BASE + 0x20000, 2, false);
    cr_assert(same_key(&a, &b));
    dev_program_destroy(program);
}

Test(place, aliases_keep_their_distance_and_have_their_own_key) {
    dev_program_t *program = program_of(text);
    dev_placement_t apart = place(program, BASE, BASE + 0x10000, BASE + 0x20000, 0, false);
    dev_placement_t in_place = place(program, BASE, BASE + 0x10000, BASE, 0, false);
    dev_placement_t shifted = place(program, BASE, BASE + 0x10000, BASE + 512, 0, false);
    cr_assert(!same_key(&apart, &in_place));
    cr_assert(!same_key(&in_place, &shifted));
    cr_assert_eq(in_place.address[0], in_place.address[2]);
    cr_assert_eq(shifted.address[2] - shifted.address[0], 512);
    dev_program_destroy(program);
}

Test(place, aliasing_is_transitive) {
    dev_program_t *program = program_of(text);
    /* x and z do not touch, y touches both: one group. */
    dev_placement_t p = place(program, BASE, BASE + 2048, BASE + 4096, 0, false);
    cr_assert_eq(p.address[1] - p.address[0], 2048);
    cr_assert_eq(p.address[2] - p.address[0], 4096);
    dev_program_destroy(program);
}

Test(place, offsets_within_an_allocation_unit_are_kept) {
    dev_program_t *program = program_of(text);
    dev_placement_t a = place(program, BASE, BASE + 0x10000, BASE + 0x20000, 0, false);
    dev_placement_t b = place(program, BASE + 4, BASE + 0x10000, BASE + 0x20000, 0, false);
    cr_assert(!same_key(&a, &b));
    cr_assert_eq(b.address[0] % 512, 4);
    dev_program_destroy(program);
}

Test(place, physical_addresses_join_the_key) {
    dev_program_t *program = program_of(text);
    dev_placement_t a = place(program, BASE, BASE + 0x10000, BASE + 0x20000, 0, true);
    dev_placement_t b = place(program, BASE, BASE + 0x10000, BASE + 0x30000, 0, true);
    cr_assert(!same_key(&a, &b));
    cr_assert_eq(a.address[1], 0x10000);
    dev_program_destroy(program);
}

/* x in DRAM, y and z in the shared scratchpad memory behind it, in stripes of 12 pages. */
Test(place, shared_memory_keeps_its_place_in_the_stripe) {
    dev_program_t *program = program_of(text);
    const uint64_t first = BASE + (1u << 20), stripe = 12 * 2048;
    dev_place_options_t options = {.shared_base = first, .shared_stripe_bytes = stripe};
    dev_placement_t placed[3];
    for (uint32_t i = 0; i < 3; i++) { /* 0, 1: whole stripes apart; 2: a page further */
        uint64_t y = first + i * stripe * 3 + (i == 2 ? 2048 : 0);
        dev_launch_t launch = {.program = program,
                               .arg = {BASE, y, first + stripe * 2, 0},
                               .grid = {1, 1},
                               .core_mask = {1}};
        dev_place(&launch, &options, &placed[i]);
        cr_assert(!sim_shared_holds(placed[i].address[0]) &&
                  sim_shared_holds(placed[i].address[1]));
        cr_assert_eq(placed[i].address[1] % (UINT64_C(1) << SIM_SHARED_OFFSET_BITS),
                     i == 2 ? 2048 : 0);
        options.is_physical = true;
        dev_placement_t real;
        dev_place(&launch, &options, &real);
        cr_assert_eq(real.address[0], 0);
        cr_assert_eq(real.address[1], SIM_SHARED_BASE + y - first);
        options.is_physical = false;
    }
    cr_assert(same_key(&placed[0], &placed[1]));
    cr_assert(!same_key(&placed[0], &placed[2]));
    dev_program_destroy(program);
}

/* What shards are joins the key, not where they stand in the table or who else there was. */
Test(place, shards_join_the_key) {
    static const sim_shards_t table[3] = {{0}, {1024, 1, 256, 1, 4}, {1024, 1, 512, 1, 4}};
    static const sim_shards_t turned[3] = {{0}, {1024, 1, 512, 1, 4}, {1024, 1, 256, 1, 4}};
    dev_program_t *program = program_of(text);
    const uint64_t first = BASE + (1u << 20);
    dev_placement_t placed[3];
    for (uint32_t i = 0; i < 3; i++) {
        dev_place_options_t options = {.shards = i == 2 ? turned : table,
                                       .shared_base = first,
                                       .shared_stripe_bytes = 12 * 2048};
        uint64_t y = first + i * 12 * 2048;
        dev_launch_t launch = {.program = program,
                               .arg = {BASE, y + 512, BASE + 8192, 0},
                               .grid = {1, 1},
                               .core_mask = {1}};
        launch.home[1] = (sim_shared_home_t){y, i == 0 ? 1 : 2};
        dev_place(&launch, &options, &placed[i]);
        cr_assert_eq(placed[i].address[1] >> SIM_SHARED_SHARDS_BIT & 0xff, launch.home[1].shards);
        cr_assert_eq(placed[i].address[1] % (UINT64_C(1) << SIM_SHARED_OFFSET_BITS), 512);
    }
    cr_assert(!same_key(&placed[0], &placed[1]));
    cr_assert(same_key(&placed[0], &placed[2]));
    dev_program_destroy(program);
}
