#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev_image.h"
#include "device/dev_program.h"
#include "tests/device/dev_test_random.h"

#define ARG_ADDRESS 0x200000100000ull

/* ---- brute force: the definition of an access pattern, element by element ---- */

typedef struct point {
    uint32_t i[VNPU_MAX_LOOPS], trips[VNPU_MAX_LOOPS];
    uint32_t g[VNPU_MAX_AXES], grid[VNPU_MAX_AXES];
} point_t;

static int64_t reference_size(const vnpu_ap_t *ap, const point_t *at, uint32_t dim) {
    int64_t size = ap->dim[dim].size;
    for (int c = 0; c < 4; c++) {
        const vnpu_clip_t *clip = &ap->clip[c];
        if (!(clip->axis_mode & VNPU_CLIP_USED) || clip->dim != dim) continue;
        uint32_t axis = (clip->axis_mode & 4) ? 1 : 0;
        int64_t index = 0;
        switch (clip->axis_mode & 3) {
        case VNPU_CLIP_LOOP: index = at->i[clip->loop]; break;
        case VNPU_CLIP_GRID: index = at->g[axis]; break;
        case VNPU_CLIP_BLOCK:
            index = (int64_t)at->g[axis] * at->trips[clip->loop] + at->i[clip->loop];
            break;
        case VNPU_CLIP_CYCLIC:
            index = (int64_t)at->i[clip->loop] * at->grid[axis] + at->g[axis];
            break;
        }
        int64_t left = clip->extent - index * ap->dim[dim].size;
        if (left < size) size = left;
    }
    return size < 0 ? 0 : size;
}

static int64_t reference_start(const vnpu_ap_t *ap, const point_t *at) {
    int64_t offset = 0;
    for (int l = 0; l < 4; l++)
        offset += (int64_t)at->i[l] * ap->loop_inc[l];
    for (int a = 0; a < 2; a++)
        offset += (int64_t)at->g[a] * ap->grid_inc[a];
    if (ap->rot_loop != VNPU_NO_LOOP) {
        /* Count the iterations, one by one: those before this one of the loops from `outer` in. */
        int outer = ap->rot_loop - ap->rot_outer;
        int64_t n = 0, each = 1;
        for (int l = ap->rot_loop; l >= outer; l--) {
            n += each * at->i[l];
            each *= at->trips[l];
        }
        offset += n % ap->rot_count * ap->rot_stride;
    }
    return offset;
}

/* Element offsets relative to `start`, in order; returns their number (at most `capacity`,
 * asserted). */
static size_t reference_walk(const vnpu_ap_t *ap, const point_t *at, int64_t *out,
                             size_t capacity) {
    int64_t size[VNPU_MAX_DIMS], index[VNPU_MAX_DIMS] = {0};
    for (uint32_t d = 0; d < ap->ndims; d++) {
        size[d] = reference_size(ap, at, d);
        if (size[d] == 0) return 0;
    }
    int64_t start = reference_start(ap, at);
    for (size_t n = 0;; n++) {
        cr_assert_lt(n, capacity);
        out[n] = start;
        for (uint32_t d = 0; d < ap->ndims; d++)
            out[n] += index[d] * ap->dim[d].stride;
        uint32_t d = ap->ndims;
        while (d > 0 && ++index[d - 1] == size[d - 1])
            index[--d] = 0;
        if (d == 0) return n + 1;
    }
}

/* The same through a view. */
static size_t view_walk(const dev_view_t *view, uint64_t *out, size_t capacity) {
    uint32_t index[VNPU_MAX_DIMS] = {0};
    if (view->count == 0) return 0;
    for (size_t n = 0;; n++) {
        cr_assert_lt(n, capacity);
        int64_t offset = 0;
        for (uint32_t d = 0; d < view->ndims; d++)
            offset += index[d] * view->stride[d];
        out[n] = view->base + (uint64_t)offset * view->elem_bytes;
        uint32_t d = view->ndims;
        while (d > 0 && ++index[d - 1] == view->size[d - 1])
            index[--d] = 0;
        if (d == 0) return n + 1;
    }
}

static vnpu_ap_t random_ap(uint64_t *seed) {
    static const vnpu_dtype_t dtypes[] = {VNPU_F32, VNPU_BF16, VNPU_I8, VNPU_I64};
    vnpu_ap_t ap = dev_image_ap(VNPU_SPACE_DRAM, dtypes[dev_test_random(seed) % 4]);
    ap.arg = 0;
    ap.base = 8 * dev_test_between(seed, -8, 64);
    ap.ndims = (uint8_t)dev_test_between(seed, 1, 5);
    for (uint32_t d = 0; d < ap.ndims; d++) {
        ap.dim[d].size = (uint32_t)dev_test_between(seed, 1, 4);
        ap.dim[d].stride = (int32_t)dev_test_between(seed, -9, 20);
    }
    for (int l = 0; l < 4; l++)
        ap.loop_inc[l] = (int32_t)dev_test_between(seed, -30, 60);
    for (int a = 0; a < 2; a++)
        ap.grid_inc[a] = (int32_t)dev_test_between(seed, -30, 60);
    if (dev_test_random(seed) % 3 == 0) {
        ap.rot_loop = (uint8_t)dev_test_between(seed, 0, 3);
        ap.rot_count = (uint8_t)dev_test_between(seed, 1, 3);
        ap.rot_outer = (uint8_t)dev_test_between(seed, 0, ap.rot_loop);
        ap.rot_stride = (uint32_t)dev_test_between(seed, 0, 90);
    }
    int clips = (int)dev_test_between(seed, 0, 4);
    for (int c = 0; c < clips; c++) {
        vnpu_clip_t *clip = &ap.clip[c];
        uint32_t mode = (uint32_t)dev_test_between(seed, 0, 3);
        uint32_t axis = mode == VNPU_CLIP_LOOP ? 0 : (uint32_t)dev_test_between(seed, 0, 1);
        clip->dim = (uint8_t)dev_test_between(seed, 0, ap.ndims - 1);
        clip->extent = (uint32_t)dev_test_between(seed, 0, ap.dim[clip->dim].size * 9);
        clip->loop = mode == VNPU_CLIP_GRID ? VNPU_NO_LOOP : (uint8_t)dev_test_between(seed, 0, 3);
        clip->axis_mode = (uint8_t)(VNPU_CLIP_USED | axis << 2 | mode);
    }
    return ap;
}

static void make_view(dev_view_t *view, const vnpu_ap_t *ap, const point_t *at) {
    dev_cursor_t cursor = {.depth = 4};
    dev_launch_t launch = {.arg = {ARG_ADDRESS}, .grid = {at->grid[0], at->grid[1]}};
    memcpy(cursor.counter, at->i, sizeof cursor.counter);
    memcpy(cursor.trips, at->trips, sizeof cursor.trips);
    dev_view_make(view, ap, &cursor, &launch, at->g);
}

static point_t random_point(uint64_t *seed) {
    point_t at;
    for (int l = 0; l < 4; l++) {
        at.trips[l] = (uint32_t)dev_test_between(seed, 1, 4);
        at.i[l] = (uint32_t)dev_test_between(seed, 0, at.trips[l] - 1);
    }
    for (int a = 0; a < 2; a++) {
        at.grid[a] = (uint32_t)dev_test_between(seed, 1, 4);
        at.g[a] = (uint32_t)dev_test_between(seed, 0, at.grid[a] - 1);
    }
    return at;
}

Test(view, walks_the_same_bytes_as_the_definition) {
    uint64_t seed = 1;
    int empty = 0;
    for (int round = 0; round < 20000; round++) {
        vnpu_ap_t ap = random_ap(&seed);
        point_t at = random_point(&seed);
        static int64_t want[1024];
        static uint64_t got[1024];
        dev_view_t view;
        make_view(&view, &ap, &at);
        size_t count = reference_walk(&ap, &at, want, 1024);
        cr_assert_eq(view.count, count, "round %d", round);
        cr_assert_eq(view_walk(&view, got, 1024), count, "round %d", round);
        uint64_t low = UINT64_MAX, high = 0, low_view, high_view;
        for (size_t n = 0; n < count; n++) {
            uint64_t address = ARG_ADDRESS + (uint64_t)(ap.base + want[n] * view.elem_bytes);
            cr_assert_eq(got[n], address, "round %d element %zu", round, n);
            if (address < low) low = address;
            if (address + view.elem_bytes > high) high = address + view.elem_bytes;
        }
        dev_view_extent(&view, &low_view, &high_view);
        empty += count == 0;
        cr_assert_eq(low_view, count ? low : view.base, "round %d", round);
        cr_assert_eq(high_view, count ? high : view.base, "round %d", round);
    }
    cr_assert_gt(empty, 1000);
    cr_assert_lt(empty, 15000);
}

/* Runs by definition: cut the walk wherever an element does not follow the one before. */
static size_t reference_runs(const uint64_t *address, size_t count, uint64_t elem) {
    size_t runs = count > 0;
    for (size_t n = 1; n < count; n++)
        runs += address[n] != address[n - 1] + elem;
    return runs;
}

Test(view, merges_dimensions_that_continue_each_other) {
    static const struct {
        uint32_t ndims;
        vnpu_dim_t dim[VNPU_MAX_DIMS];
        uint64_t run_elems, runs;
    } rows[] = {
        {1, {{64, 1}}, 64, 1},
        {1, {{64, 2}}, 1, 64},
        {1, {{64, -1}}, 1, 64},
        {1, {{64, 0}}, 1, 64},
        {1, {{1, 7}}, 1, 1},
        {2, {{8, 64}, {64, 1}}, 512, 1},
        {2, {{8, 100}, {64, 1}}, 64, 8},
        {3, {{4, 512}, {8, 64}, {64, 1}}, 2048, 1},
        {3, {{4, 600}, {8, 64}, {64, 1}}, 512, 4},
        {3, {{4, 64}, {1, 999}, {64, 1}}, 256, 1},
        {2, {{8, 1}, {1, 5}}, 8, 1},
        {2, {{8, 1}, {4, 8}}, 1, 32},
        {2, {{8, 0}, {64, 1}}, 64, 8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        vnpu_ap_t ap = dev_image_ap(VNPU_SPACE_SRAM, VNPU_F32);
        point_t at = {.trips = {1, 1, 1, 1}, .grid = {1, 1}};
        dev_view_t view;
        uint64_t run_bytes, runs;
        ap.ndims = (uint8_t)rows[i].ndims;
        memcpy(ap.dim, rows[i].dim, sizeof ap.dim);
        make_view(&view, &ap, &at);
        dev_view_runs(&view, &run_bytes, &runs);
        cr_assert_eq(run_bytes, rows[i].run_elems * 4, "row %zu: %lu bytes", i, run_bytes);
        cr_assert_eq(runs, rows[i].runs, "row %zu: %lu runs", i, runs);
    }
}

Test(view, runs_cover_the_view_and_are_contiguous) {
    uint64_t seed = 2;
    for (int round = 0; round < 20000; round++) {
        vnpu_ap_t ap = random_ap(&seed);
        point_t at = random_point(&seed);
        static uint64_t address[1024];
        dev_view_t view;
        uint64_t run_bytes, runs;
        make_view(&view, &ap, &at);
        size_t count = view_walk(&view, address, 1024);
        dev_view_runs(&view, &run_bytes, &runs);
        cr_assert_eq(run_bytes * runs, count * view.elem_bytes, "round %d", round);
        for (size_t n = 0; n < count; n++) {
            if (n * view.elem_bytes % run_bytes == 0) continue;
            cr_assert_eq(address[n], address[n - 1] + view.elem_bytes, "round %d", round);
        }
        cr_assert_geq(runs, reference_runs(address, count, view.elem_bytes), "round %d", round);
    }
}

Test(view, iota_base_counts_elements) {
    vnpu_ap_t ap = dev_image_ap(VNPU_SPACE_IOTA, VNPU_I64);
    point_t at = {.i = {3}, .trips = {5, 1, 1, 1}, .g = {2, 1}, .grid = {4, 2}};
    dev_view_t view;
    ap.base = -7;
    ap.ndims = 1;
    ap.dim[0] = (vnpu_dim_t){16, 1};
    ap.loop_inc[0] = 16;
    ap.grid_inc[0] = 100;
    ap.grid_inc[1] = -1000;
    make_view(&view, &ap, &at);
    cr_assert_eq((int64_t)view.base, -7 + 3 * 16 + 2 * 100 - 1000);
}

/* ---- extents of arguments ---- */

/* One DMA queue: loops of the given trips, one copy between `ap` (DRAM) and SRAM, with masks. Only
 * what extents read. */
static void tiny_program(dev_program_t *program, const vnpu_ap_t *ap, const uint32_t trips[4],
                         uint8_t first_only, uint8_t last_only, bool writes) {
    program->header = (vnpu_program_header_t){.num_queues = 1, .num_insns = 9, .num_aps = 2};
    program->queue[0] = (vnpu_queue_section_t){.kind = VNPU_QUEUE_DMA, .count = 9};
    program->ap[0] = *ap;
    program->ap[1] = dev_image_ap(VNPU_SPACE_SRAM, (vnpu_dtype_t)ap->dtype);
    for (int l = 0; l < 4; l++) {
        program->insn[l] = dev_image_insn(VNPU_OP_LOOP);
        program->insn[l].imm[0] = trips[l];
        program->insn[5 + l] = dev_image_insn(VNPU_OP_ENDLOOP);
    }
    vnpu_insn_t copy = dev_image_insn(VNPU_OP_DMA_COPY);
    copy.dst = writes ? 0 : 1;
    copy.src[0] = writes ? 1 : 0;
    copy.first_only = first_only;
    copy.last_only = last_only;
    program->insn[4] = copy;
}

static void reference_extent(const dev_program_t *program, const uint32_t grid[2], int64_t *low,
                             int64_t *high) {
    dev_launch_t launch = {.program = program, .grid = {grid[0], grid[1]}};
    *low = *high = 0;
    for (uint32_t n = 0; n < grid[0] * grid[1]; n++) {
        uint32_t pos[2] = {n % grid[0], n / grid[0]};
        dev_cursor_t cursor;
        dev_cursor_init(&cursor, program, &program->queue[0]);
        while (dev_cursor_next(&cursor)) {
            dev_view_t view;
            uint64_t from, to;
            dev_view_make(&view, &program->ap[0], &cursor, &launch, pos);
            if (view.count == 0) continue;
            dev_view_extent(&view, &from, &to);
            bool is_first = *low == *high;
            if (is_first || (int64_t)from < *low) *low = (int64_t)from;
            if (is_first || (int64_t)to > *high) *high = (int64_t)to;
        }
    }
}

Test(view, argument_extents_are_exact) {
    uint64_t seed = 3;
    static vnpu_insn_t insn[9];
    static vnpu_ap_t aps[2];
    dev_program_t program = {.insn = insn, .ap = aps};
    int touched = 0;
    for (int round = 0; round < 20000; round++) {
        vnpu_ap_t ap = random_ap(&seed);
        ap.rot_outer = 0; /* patterns in DRAM rotate by one loop */
        uint32_t trips[4], grid[2];
        for (int l = 0; l < 4; l++)
            trips[l] = (uint32_t)dev_test_between(&seed, 1, 5);
        for (int a = 0; a < 2; a++)
            grid[a] = (uint32_t)dev_test_between(&seed, 1, 5);
        uint8_t first = 0, last = 0;
        if (round % 4 == 0) first = (uint8_t)dev_test_between(&seed, 0, 15);
        if (round % 4 == 1) last = (uint8_t)dev_test_between(&seed, 0, 15);
        bool writes = round & 1;
        tiny_program(&program, &ap, trips, first, last, writes);
        int64_t low, high;
        dev_arg_extent_t extent;
        reference_extent(&program, grid, &low, &high);
        dev_program_arg_extent(&program, 0, grid, &extent);
        cr_assert_eq(writes ? extent.write_low : extent.read_low, low, "round %d", round);
        cr_assert_eq(writes ? extent.write_high : extent.read_high, high, "round %d", round);
        cr_assert_eq(writes ? extent.read_high : extent.write_high, 0, "round %d", round);
        touched += low != high;
    }
    cr_assert_gt(touched, 10000);
}
