#include <string.h>

#include "kernels/kern_nest.h"
#include "tests/kernels/kern_test.h"

#define MOST 4096

/* Marks what one instance's walk of an axis covers, by the clip rules of the instruction set. */
static void cover(const kern_axis_t *axis, uint32_t grid_pos, uint8_t *count) {
    for (uint32_t i = 0; i < axis->trips; i++) {
        uint64_t index = (uint64_t)i * axis->grid + grid_pos;
        for (uint64_t e = index * axis->tile;
             e < (index + 1) * axis->tile && e < (uint64_t)axis->size; e++)
            count[e]++;
    }
}

Test(nest, every_element_once) {
    static uint8_t count[MOST];
    for (int64_t size = 1; size <= MOST; size = size * 3 / 2 + 1) {
        for (int64_t tile = 1; tile <= size; tile = tile * 2 + 1) {
            for (uint32_t grid = 1; grid <= 5; grid++) {
                kern_axis_t axis = kern_axis_make(size, tile);
                if (axis.tiles < grid) continue;
                if (grid > 1) kern_axis_split(&axis, 0, grid);
                memset(count, 0, sizeof count);
                for (uint32_t g = 0; g < grid; g++)
                    cover(&axis, g, count);
                for (int64_t e = 0; e < size; e++)
                    cr_assert_eq(count[e], 1, "size %lld tile %lld grid %u: element %lld",
                                 (long long)size, (long long)tile, grid, (long long)e);
                bool is_exact = (int64_t)axis.trips * grid * axis.tile == size;
                cr_assert_eq(kern_axis_is_clipped(&axis), !is_exact);
            }
        }
    }
}

Test(nest, plan_uses_the_cores_and_pads_the_inner_loop) {
    kern_nest_t nest = {.ndims = 3};
    nest.axis[0] = kern_axis_make(3, 1);
    nest.axis[1] = kern_axis_make(64, 8);
    nest.axis[2] = kern_axis_make(50, 10);
    cr_assert(kern_nest_plan(&nest, 4, 7));
    cr_assert_eq(nest.grid[0], 4);
    cr_assert_eq(nest.axis[1].grid, 4, "8 tiles divide evenly over 4 cores");
    cr_assert_eq(nest.depth, 3);
    cr_assert_eq(nest.axis[2].trips, 6, "5 tiles, in pairs");
    cr_assert_eq(nest.inner, 2);
    cr_assert_eq(nest.buffers, 2);
    cr_assert_eq(nest.trips, 3u * 2 * 6);
    cr_assert_eq(kern_nest_levels(&nest, 5), 5);
}

Test(nest, split_uses_two_axes_when_one_is_short) {
    kern_nest_t nest = {.ndims = 2};
    nest.axis[0] = kern_axis_make(2, 1);
    nest.axis[1] = kern_axis_make(2, 1);
    cr_assert(kern_nest_plan(&nest, 4, 3));
    cr_assert_eq(nest.grid[0] * nest.grid[1], 4);
    cr_assert_eq(nest.depth, 0);
    cr_assert_eq(nest.buffers, 1);
}

Test(nest, too_many_loops) {
    kern_nest_t nest = {.ndims = 5};
    for (int d = 0; d < 5; d++)
        nest.axis[d] = kern_axis_make(6, 2);
    cr_assert_not(kern_nest_plan(&nest, 1, 0));
}

Test(nest, tiles_stay_in_budget) {
    static const int64_t size[3] = {100, 77, 1000};
    static const uint8_t order[3] = {2, 1, 0};
    for (uint64_t budget = 1; budget < 10000000; budget = budget * 3 + 1) {
        kern_nest_t nest = {.ndims = 3};
        kern_nest_tile(&nest, size, order, NULL, budget, 16);
        cr_assert(kern_nest_tile_elems(&nest) <= budget);
        for (int d = 0; d < 3; d++)
            cr_assert_eq(nest.axis[d].size, size[d]);
    }
    /* a turned tile: both contiguous directions first, each capped */
    static const uint8_t turned[3] = {2, 0, 1};
    static const uint32_t limit[3] = {64, 64, 0};
    kern_nest_t nest = {.ndims = 3};
    kern_nest_tile(&nest, size, turned, limit, 64 * 64, 16);
    cr_assert(nest.axis[2].tile <= 64 && nest.axis[2].tile >= 48 && nest.axis[0].tile >= 48 &&
              nest.axis[1].tile == 1);
}

/* Pattern addresses against the definition, through the device's own views. */
Test(nest, patterns_follow_loops_and_grid) {
    kern_axis_t rows = kern_axis_make(100, 7), columns = kern_axis_make(60, 16);
    kern_axis_split(&rows, 0, 3);
    rows.level = 0;
    columns.level = 1;
    kern_term_t term[2] = {{&rows, 60, true}, {&columns, 1, true}};
    vnpu_ap_t ap = kern_ap_terms(VNPU_SPACE_DRAM, VNPU_F32, 0, term, 2, true);
    ap.arg = 0;
    dev_launch_t launch = {.grid = {3, 1}};
    dev_program_t program = {0};
    vnpu_queue_section_t section = {0};
    dev_cursor_t cursor;
    dev_cursor_init(&cursor, &program, &section);
    static uint8_t seen[6000];
    for (uint32_t g = 0; g < 3; g++) {
        for (uint32_t i = 0; i < rows.trips * columns.trips; i++) {
            cursor.trips[0] = rows.trips, cursor.trips[1] = columns.trips;
            cursor.counter[0] = i / columns.trips, cursor.counter[1] = i % columns.trips;
            dev_view_t view;
            dev_view_make(&view, &ap, &cursor, &launch, (uint32_t[]){g, 0});
            for (uint32_t r = 0; r < view.size[0]; r++) {
                for (uint32_t c = 0; c < view.size[1]; c++)
                    seen[view.base / 4 + r * 60 + c]++;
            }
        }
    }
    for (int e = 0; e < 6000; e++)
        cr_assert_eq(seen[e], 1, "element %d: %u times", e, seen[e]);
}

/* Parts of all tiles together are the tiles. */
Test(nest, parts_of_tiles) {
    static uint8_t count[MOST];
    for (int64_t size = 1; size <= 300; size = size * 3 / 2 + 1) {
        for (int64_t tile = 1; tile <= size; tile = tile * 2 + 1) {
            for (uint32_t elems = 1; elems <= tile; elems = elems * 2 + 1) {
                kern_axis_t whole = kern_axis_make(size, tile);
                memset(count, 0, sizeof count);
                for (uint32_t from = 0; from < whole.tile; from += elems) {
                    kern_axis_t part = kern_axis_part(&whole, from, elems);
                    cr_assert_eq(part.trips, whole.trips);
                    cr_assert_eq(part.tile + part.skip, whole.tile);
                    for (uint32_t i = 0; i < part.trips; i++) {
                        int64_t most = part.size - (int64_t)i * part.tile; /* the clip */
                        for (int64_t e = 0; e < part.tile && e < most; e++)
                            count[i * whole.tile + from + e]++;
                    }
                }
                for (int64_t e = 0; e < MOST; e++)
                    cr_assert_eq(count[e], e < size, "size %lld tile %lld part %u: element %lld",
                                 (long long)size, (long long)tile, elems, (long long)e);
            }
        }
    }
    kern_axis_t whole = kern_axis_make(100, 40);
    whole.level = 1;
    kern_axis_t part = kern_axis_part(&whole, 16, 16);
    kern_term_t term = {&part, 3, true};
    vnpu_ap_t far = kern_ap_terms(VNPU_SPACE_DRAM, VNPU_F32, 0, &term, 1, true),
              near = kern_ap_terms(VNPU_SPACE_SRAM, VNPU_F32, 64, &term, 1, false);
    cr_assert_eq(far.base, 4 * 16 * 3);
    cr_assert_eq(far.loop_inc[1], 40 * 3);
    cr_assert_eq(near.base, 64 + 4 * 16 * 3);
    cr_assert_eq(near.loop_inc[1], 0);
    cr_assert_eq(near.clip[0].extent, 16 + 16 + 4, "the last tile has 20 elements");
}
