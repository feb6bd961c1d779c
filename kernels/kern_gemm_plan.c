#include "kernels/kern_gemm_plan.h"

#include "kernels/kern_cost.h"
#include "kernels/kern_profile.h"

#define MAX_CANDIDATES  24u
#define MAX_PARTS       17u   /* of them equal parts of an axis */
#define MAX_EDGE        4096u /* of a tile of results: longer ones have no better runs */
#define HOST_VOLUME     (128u * 384u * 128u) /* products per MM that the host executor likes */
#define MM_ISSUE_CYCLES 12u /* assumption: semaphore hand-over that a short MM does not hide */

typedef struct candidates {
    uint32_t count;
    uint32_t value[MAX_CANDIDATES];
} candidates_t;

static uint64_t max64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static int64_t max64s(int64_t a, int64_t b) {
    return a > b ? a : b;
}

bool kern_gemm_has_row(const kern_gemm_shape_t *shape) {
    return shape->has_c && shape->c[1] == 0;
}

bool kern_gemm_needs_temp(const kern_gemm_shape_t *shape) {
    bool two_steps = (shape->has_c || shape->has_alpha) && shape->activation != KERN_ACT_NONE;
    bool two_scales = shape->has_c && shape->has_alpha && shape->has_beta;
    return (two_steps && shape->out_dtype != VNPU_F32) || two_scales;
}

uint32_t kern_gemm_rows(const kern_gemm_plan_t *plan) {
    uint32_t block = plan->row_block > 1 ? plan->row_block : 1;
    return (uint32_t)kern_ceil_div(plan->axis[GEMM_M].tile, block) * block;
}

/* 0 elements: all of a tile. */
static uint32_t parts_of(const kern_axis_t *axis, uint32_t elems) {
    return elems > 0 ? (uint32_t)kern_ceil_div(axis->tile, elems) : 1;
}

uint32_t kern_gemm_steps(const kern_gemm_plan_t *plan) {
    return parts_of(&plan->axis[GEMM_K], plan->step_k);
}

uint32_t kern_gemm_depth(const kern_gemm_plan_t *plan) {
    return plan->step_k > 0 ? kern_gemm_steps(plan) * plan->step_k : plan->axis[GEMM_K].tile;
}

uint32_t kern_gemm_rest(const kern_gemm_plan_t *plan) {
    int64_t k = plan->axis[GEMM_K].size;
    if (!plan->has_whole_steps || k % plan->step_k == 0) return 0;
    int64_t rest = plan->step_k - k % plan->step_k;
    return (uint32_t)(rest < k ? rest : k);
}

uint32_t kern_gemm_row_parts(const kern_gemm_plan_t *plan) {
    return parts_of(&plan->axis[GEMM_M], plan->part_m);
}

uint32_t kern_gemm_stores(const kern_gemm_plan_t *plan) {
    return kern_gemm_row_parts(plan) * parts_of(&plan->axis[GEMM_N], plan->store_n);
}

uint32_t kern_gemm_last_step(const kern_gemm_plan_t *plan) {
    const kern_axis_t *k = &plan->axis[GEMM_K];
    return plan->step_k > 0 ? (uint32_t)((k->size - 1) % k->tile) / plan->step_k : 0;
}

uint32_t kern_gemm_step_products(const kern_gemm_plan_t *plan, uint32_t step) {
    if (plan->step_k == 0) return 1;
    if (step == kern_gemm_last_step(plan)) return kern_gemm_stores(plan);
    return step == 0 ? kern_gemm_row_parts(plan) : 1;
}

uint32_t kern_gemm_products(const kern_gemm_plan_t *plan) {
    uint32_t steps = kern_gemm_steps(plan), products = 0;
    for (uint32_t s = 0; s < steps; s++)
        products += kern_gemm_step_products(plan, s);
    return products;
}

static uint64_t tile_elems(const kern_gemm_plan_t *plan) {
    return (uint64_t)kern_gemm_rows(plan) * plan->axis[GEMM_N].tile;
}

/* Of both operands, packed. */
static uint64_t operand_bytes(const kern_gemm_shape_t *shape, const kern_gemm_plan_t *plan) {
    const kern_axis_t *n = &plan->axis[GEMM_N], *k = &plan->axis[GEMM_K];
    uint64_t rows = kern_gemm_rows(plan);
    uint64_t a = plan->a_buffers * kern_buffer_bytes(shape->a_dtype, rows * k->tile);
    if (plan->is_a_fixed)
        a = plan->fixed_buffers * kern_buffer_bytes(shape->a_dtype, rows * k->tile * k->trips);
    uint64_t weights = (uint64_t)kern_gemm_depth(plan) * n->tile;
    if (plan->is_panel) weights *= k->trips;
    uint32_t weight_buffers = plan->is_panel ? plan->panel_buffers : plan->a_buffers;
    return a + weight_buffers * kern_buffer_bytes(shape->b_dtype, weights);
}

/* Of everything else. */
static uint64_t result_bytes(const kern_gemm_shape_t *shape, const kern_gemm_plan_t *plan) {
    uint64_t bytes = 0;
    if (!shape->is_direct)
        bytes += plan->tile_buffers * kern_buffer_bytes(shape->out_dtype, tile_elems(plan));
    if (kern_gemm_has_row(shape)) {
        bytes += plan->panel_buffers * kern_buffer_bytes(shape->c_dtype, plan->axis[GEMM_N].tile);
    } else if (shape->has_c) {
        bytes += plan->tile_buffers * kern_buffer_bytes(shape->c_dtype, tile_elems(plan));
    }
    if (kern_gemm_needs_temp(shape)) bytes += kern_align(tile_elems(plan) * 4);
    return bytes;
}

uint64_t kern_gemm_sram_bytes(const kern_gemm_shape_t *shape, const kern_gemm_plan_t *plan) {
    uint64_t operands = plan->part_bytes > 0 ? (uint64_t)plan->a_buffers * plan->part_bytes
                                             : operand_bytes(shape, plan);
    return operands + result_bytes(shape, plan);
}

/* ---- loops and buffers of a candidate ---- */

/* Gives loops to what is left of each axis. A loop inside another goes in whole rounds of the
 * buffers it turns. */
static void set_loops(kern_gemm_plan_t *plan, uint32_t a_buffers, uint32_t tile_buffers) {
    static const uint8_t order[2][GEMM_AXES] = {{GEMM_B, GEMM_N, GEMM_M, GEMM_K},
                                                {GEMM_B, GEMM_M, GEMM_N, GEMM_K}};
    uint8_t depth = 0;
    uint32_t innermost = GEMM_AXES;
    for (uint32_t i = 0; i < GEMM_AXES; i++) {
        uint32_t x = order[plan->rows_outside][i];
        if (plan->axis[x].trips > 1) innermost = x;
    }
    for (uint32_t i = 0; i < GEMM_AXES; i++) {
        uint32_t x = order[plan->rows_outside][i];
        kern_axis_t *axis = &plan->axis[x];
        if (axis->trips == 1) continue;
        uint32_t round = x == innermost ? a_buffers : tile_buffers;
        if (depth > 0 && !plan->rotates_nest)
            axis->trips = (uint32_t)kern_ceil_div(axis->trips, round) * round;
        axis->level = depth++;
        plan->a_level = axis->level;
        if (x != GEMM_K) plan->tile_level = axis->level;
        bool is_panel = x == GEMM_B || x == GEMM_N || (x == GEMM_M && plan->rows_outside);
        if (is_panel) plan->panel_level = axis->level; /* what is loaded inside the loop over n */
    }
    plan->a_buffers = plan->a_level == VNPU_NO_LOOP ? 1 : a_buffers;
    plan->tile_buffers = plan->tile_level == VNPU_NO_LOOP ? 1 : tile_buffers;
    if (plan->panel_level == VNPU_NO_LOOP) plan->panel_buffers = 1;
    plan->fixed_buffers = plan->axis[GEMM_B].level == VNPU_NO_LOOP ? 1 : tile_buffers;
}

/* Rows of tiles of block types are whole blocks. */
static bool has_blocks(const kern_gemm_shape_t *shape, const kern_gemm_plan_t *plan) {
    return plan->axis[GEMM_K].tile % vnpu_dtype_block(shape->a_dtype) == 0 &&
           plan->step_k % vnpu_dtype_block(shape->a_dtype) == 0 &&
           plan->axis[GEMM_N].tile % vnpu_dtype_block(shape->b_dtype) == 0 &&
           plan->axis[GEMM_N].tile % vnpu_dtype_block(shape->out_dtype) == 0;
}

static bool fits(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                 const kern_gemm_plan_t *plan) {
    if (plan->tile_buffers * kern_align(tile_elems(plan) * 4) > machine->acc_bytes) return false;
    /* The panel's increments and the waits on all of K must fit their fields. */
    if ((uint64_t)plan->axis[GEMM_K].trips * kern_gemm_products(plan) > 4096) return false;
    return has_blocks(shape, plan) && kern_gemm_sram_bytes(shape, plan) <= machine->sram_bytes;
}

/* ---- cost ---- */

/* What the busiest instance has along an axis. */
static uint64_t share(const kern_axis_t *axis) {
    uint64_t all = (uint64_t)kern_ceil_div(axis->tiles, axis->grid) * axis->tile;
    return all < (uint64_t)axis->size ? all : (uint64_t)axis->size;
}

static uint64_t epilogue_cycles(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                                uint64_t m, uint64_t n) {
    if (shape->is_direct) return 0;
    uint64_t cycles = 0;
    if (shape->has_c) cycles += kern_cost_vector(machine, m, n, KERN_CLASS_ALU);
    if (shape->has_alpha) cycles += kern_cost_vector(machine, m, n, KERN_CLASS_MUL);
    if (shape->has_beta) cycles += kern_cost_vector(machine, m, n, KERN_CLASS_MUL);
    if (shape->activation != KERN_ACT_NONE)
        cycles += kern_cost_vector(machine, m, n, KERN_CLASS_TRANSCENDENTAL);
    return cycles ? cycles : kern_cost_vector(machine, m, n, KERN_CLASS_CAST);
}

/* A transfer of one tile: cycles of its engine, and what the memory does for one instance. */
typedef struct moved {
    uint64_t cycles, bytes, openings;
} moved_t;

/* The mean of an axis' tiles, as the last one is clipped. */
static uint64_t mean_tile(const kern_axis_t *axis) {
    return kern_ceil_div(share(axis), kern_ceil_div(share(axis), axis->tile));
}

/* A tile of rows x cols elements with the given strides in DRAM. */
static moved_t move_of(const vnpu_machine_t *machine, vnpu_dtype_t dtype, const kern_axis_t *rows,
                       int64_t row_stride, const kern_axis_t *cols, int64_t col_stride) {
    uint64_t height = mean_tile(rows), width = mean_tile(cols), elems = height * width;
    uint64_t run = row_stride == 1 ? height : 1; /* contiguous elements */
    if (col_stride == 1) run = row_stride == (int64_t)width ? elems : width;
    uint64_t bytes = vnpu_dtype_span(dtype, elems), run_bytes = vnpu_dtype_span(dtype, run);
    uint64_t pitch = vnpu_dtype_span(dtype, (uint64_t)max64s(row_stride, col_stride));
    uint64_t runs = kern_ceil_div(elems, run);
    if (pitch < run_bytes || runs == 1) pitch = run_bytes;
    return (moved_t){kern_cost_dma_alone(machine, bytes, run_bytes), bytes,
                     kern_cost_openings(machine, runs, run_bytes, pitch)};
}

/* What a plan moves: a tile of every operand; `c` counts as part of the results' tile. */
typedef struct traffic {
    moved_t a, b, out;
    uint64_t c_cycles; /* loads of a full c, for a tile of results */
} traffic_t;

static traffic_t traffic_of(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                            const kern_gemm_plan_t *plan) {
    const kern_axis_t *m = &plan->axis[GEMM_M], *n = &plan->axis[GEMM_N], *k = &plan->axis[GEMM_K];
    kern_axis_t all = kern_axis_make(k->size, k->size);
    const kern_axis_t *ka = plan->is_a_whole ? &all : k;
    traffic_t t = {.a = move_of(machine, shape->a_dtype, m, shape->a[1], ka, shape->a[2]),
                   .b = move_of(machine, shape->b_dtype, k, shape->b[1], n, shape->b[2]),
                   .out = move_of(machine, shape->out_dtype, m, shape->out[1], n, shape->out[2])};
    if (shape->is_direct)
        t.out.cycles = max64(t.out.cycles, kern_ceil_div(4 * mean_tile(m) * mean_tile(n),
                                                         machine->dma_accumulator_bytes_per_cycle));
    if (plan->is_shared) { /* a tile is read for all along a grid axis; a token to and from each */
        t.a.bytes /= plan->grid[1], t.a.openings /= plan->grid[1];
        t.b.bytes /= plan->grid[0], t.b.openings /= plan->grid[0];
        t.a.cycles += 2 * (plan->grid[0] + plan->grid[1]) * machine->issue_cycles;
    }
    if (shape->has_c && !kern_gemm_has_row(shape)) {
        uint64_t c = vnpu_dtype_span(shape->c_dtype, mean_tile(m) * mean_tile(n));
        t.out.bytes += c;
        t.c_cycles = c / machine->dma_bytes_per_cycle + machine->dma_descriptor_cycles;
    }
    return t;
}

/* Tiles of results of the busiest instance. */
static uint64_t result_tiles(const kern_axis_t *axis) {
    return axis[GEMM_B].trips * kern_ceil_div(share(&axis[GEMM_M]), axis[GEMM_M].tile) *
           kern_ceil_div(share(&axis[GEMM_N]), axis[GEMM_N].tile);
}

/* The array's time: no plan with these tiles takes less. */
static uint64_t matrix_cycles(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                              const kern_axis_t *axis) {
    uint64_t once = kern_cost_matrix(machine, shape->a_dtype, share(&axis[GEMM_M]),
                                     (uint64_t)shape->size[GEMM_K], share(&axis[GEMM_N]),
                                     axis[GEMM_M].tile, axis[GEMM_K].tile, axis[GEMM_N].tile);
    return axis[GEMM_B].trips * once + result_tiles(axis) * axis[GEMM_K].tiles * MM_ISSUE_CYCLES;
}

/* What a step of the loops takes, in which one MM and its loads are under way. */
typedef struct step {
    const vnpu_machine_t *machine;
    const kern_gemm_plan_t *plan;
    uint64_t instances, matrix; /* cycles of its MM */
    uint64_t most_bytes;        /* that an instance loads in all: no more is ever under way */
    moved_t out;                /* results that leave meanwhile; cycles: of the engine that loads */
} step_t;

/* The memory's time for what every instance moves, with what refresh and turnarounds leave; bytes
 * and openings of rows go side by side. */
static uint64_t memory_cycles(const step_t *step, moved_t moved) {
    uint64_t dram = max64(kern_cost_dram(step->machine, moved.bytes * step->instances),
                          kern_cost_opening(step->machine, moved.openings * step->instances));
    return dram + dram / 8;
}

static moved_t both(moved_t x, moved_t y) {
    return (moved_t){x.cycles + y.cycles, x.bytes + y.bytes, x.openings + y.openings};
}

static moved_t scaled(moved_t x, uint64_t num, uint64_t den) {
    return (moved_t){x.cycles * num / den, x.bytes * num / den, x.openings * num / den};
}

/* From the request to the last byte, when nothing else is under way. */
static uint64_t arrival(const step_t *step, moved_t load) {
    return max64(load.cycles, memory_cycles(step, load)) + kern_cost_latency(step->machine);
}

static uint64_t step_cycles(const step_t *step, moved_t load) {
    const vnpu_machine_t *machine = step->machine;
    moved_t all = both(load, step->out);
    uint64_t slowest = max64(step->matrix, max64(all.cycles, memory_cycles(step, all)));
    /* A buffer comes round when its load has arrived and its product has left the array. The memory
     * gives its bandwidth to as much as its queues were made for, less to less. */
    uint64_t ahead = step->most_bytes < machine->dma_outstanding_bytes
                         ? step->most_bytes
                         : machine->dma_outstanding_bytes;
    uint64_t latency =
        max64(kern_cost_latency(machine), kern_cost_dram(machine, ahead * step->instances));
    uint64_t turn =
        load.cycles + latency + step->matrix + machine->matrix_rows + machine->matrix_cols;
    if (step->plan
            ->is_shared) /* the receivers' tokens come first, and the slowest of them counts */
        turn += kern_cost_latency(machine) + 2 * machine->semaphore_cycles;
    return max64(slowest, turn / step->plan->a_buffers);
}

/* Steps that load what stays too: the first pass of what streams past it. */
static uint64_t first_steps(const kern_gemm_plan_t *plan) {
    if (plan->is_a_whole) return 0;
    uint64_t steps = (uint64_t)plan->axis[GEMM_B].trips * plan->axis[GEMM_K].tiles;
    return plan->is_panel
               ? steps * kern_ceil_div(share(&plan->axis[GEMM_N]), plan->axis[GEMM_N].tile)
               : steps;
}

static uint64_t cost_of(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                        const kern_gemm_plan_t *plan) {
    const kern_axis_t *axis = plan->axis;
    uint64_t tiles = result_tiles(axis), steps = tiles * axis[GEMM_K].tiles;
    uint64_t epilogue = epilogue_cycles(machine, shape, axis[GEMM_M].tile, axis[GEMM_N].tile);
    traffic_t traffic = traffic_of(machine, shape, plan);
    bool has_store_queue = machine->dma_queues > 1;
    step_t step = {.machine = machine,
                   .plan = plan,
                   .instances = (uint64_t)plan->grid[0] * plan->grid[1],
                   .matrix = matrix_cycles(machine, shape, axis) / steps,
                   .out = traffic.out};
    step.out.cycles = traffic.c_cycles + (has_store_queue ? 0 : traffic.out.cycles);
    step.out = scaled(step.out, tiles, steps);
    moved_t all = both(traffic.a, traffic.b);
    moved_t streamed = plan->is_panel ? traffic.a : plan->is_a_fixed ? traffic.b : all;
    uint64_t first = first_steps(plan);
    step.most_bytes = first * all.bytes + (steps - first) * streamed.bytes;
    /* The first load is waited for, the last product follows the last load. */
    uint64_t with_kept = step_cycles(&step, all), without = step_cycles(&step, streamed);
    uint64_t steady = first * with_kept + (steps - first) * without + step.matrix -
                      (first > 0 ? with_kept : without);
    steady = max64(steady, tiles * epilogue);
    if (has_store_queue) steady = max64(steady, tiles * traffic.out.cycles);
    uint64_t drain =
        machine->matrix_rows + machine->matrix_cols + epilogue + arrival(&step, traffic.out);
    uint64_t cycles = steady + arrival(&step, all) + drain;
    if (plan->is_a_whole) cycles += (axis[GEMM_B].trips - 1) * arrival(&step, traffic.a);
    if (!has_store_queue) /* loads queue behind a store that waits for its product */
        cycles += (tiles - 1) * (step.matrix + drain);
    bool waits_for_panel = plan->is_panel && plan->panel_buffers == 1;
    if (waits_for_panel) {
        uint64_t panels = axis[GEMM_B].trips * axis[GEMM_N].trips - 1;
        cycles += panels * (arrival(&step, all) + drain);
    }
    /* Between plans that are about as good: less traffic in fewer rows, and the larger MM, which
     * the host executor prefers. */
    uint64_t volume = (uint64_t)axis[GEMM_M].tile * axis[GEMM_N].tile * axis[GEMM_K].tile;
    if (volume < HOST_VOLUME) cycles += cycles / 32;
    if (volume < HOST_VOLUME / 8) cycles += cycles / 32;
    moved_t loads = both(scaled(all, first, 1), scaled(streamed, steps - first, 1));
    moved_t sum = both(loads, scaled(traffic.out, tiles, 1));
    return cycles + kern_cost_dram(machine, sum.bytes * step.instances) / 8 +
           kern_cost_opening(machine, sum.openings * step.instances) / 16;
}

/* ---- candidates ---- */

static void add(candidates_t *list, uint64_t value, uint64_t most) {
    if (value > most) value = most;
    if (value == 0 || list->count == MAX_CANDIDATES) return;
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->value[i] == value) return;
    }
    list->value[list->count++] = (uint32_t)value;
}

static uint64_t round_up(uint64_t value, uint64_t unit) {
    return kern_ceil_div(value, unit) * unit;
}

/* Equal parts of `size`, from the fewest on in steps of an eighth, and powers of two; multiples of
 * `unit` where it is smaller than the size. */
static void add_parts(candidates_t *list, uint64_t size, uint64_t unit, uint64_t most) {
    if (unit > size) unit = size;
    if (most > size) most = size;
    uint64_t parts = kern_ceil_div(size, most);
    while (list->count < MAX_PARTS) {
        add(list, round_up(kern_ceil_div(size, parts), unit), most);
        if (kern_ceil_div(size, parts) <= unit) break;
        parts += max64(parts / 8, 1);
    }
    for (uint64_t value = 512; value >= 8 && list->count < MAX_CANDIDATES; value /= 2)
        add(list, value, most);
    for (uint64_t value = 4; value >= 1 && list->count < MAX_CANDIDATES; value /= 4)
        add(list, value, most);
}

/* The best plans so far, cheapest first; of equal cost, the first found. */
typedef struct search {
    const vnpu_machine_t *machine;
    const kern_gemm_shape_t *shape;
    kern_gemm_plan_t *best;
    uint32_t count, most;
    struct search
        *shared; /* the best plan with shared tiles: beside the others, so that a trial has both */
} search_t;

/* The same tiles in the same order on the same cores: only numbers of buffers differ. */
static bool is_variant(const kern_gemm_plan_t *x, const kern_gemm_plan_t *y) {
    bool is_same = x->is_shared == y->is_shared && x->is_panel == y->is_panel &&
                   x->is_a_fixed == y->is_a_fixed && x->grid[0] == y->grid[0] &&
                   x->grid[1] == y->grid[1];
    for (uint32_t a = 0; a < GEMM_AXES; a++)
        is_same =
            is_same && x->axis[a].tile == y->axis[a].tile && x->axis[a].grid == y->axis[a].grid;
    return is_same;
}

/* Puts a plan in its place; of variants the better one stays. */
static void offer(search_t *search, const kern_gemm_plan_t *plan) {
    kern_gemm_plan_t *best = search->best;
    uint32_t hole = search->count;
    if (hole == search->most && plan->cycles >= best[hole - 1].cycles) return;
    for (uint32_t i = 0; i < search->count; i++) {
        if (!is_variant(&best[i], plan)) continue;
        if (plan->cycles >= best[i].cycles) return;
        hole = i;
        break;
    }
    if (hole == search->count && search->count < search->most) search->count++;
    if (hole == search->most) hole--;
    for (; hole > 0 && best[hole - 1].cycles > plan->cycles; hole--)
        best[hole] = best[hole - 1];
    best[hole] = *plan;
}

/* Rows that stay come in pieces, beside the weights of the first pass, unless K is one piece. */
static void set_order(kern_gemm_plan_t *plan, kern_gemm_order_t order, uint32_t panel_buffers) {
    plan->is_panel = order == KERN_GEMM_PANEL;
    plan->is_a_fixed = order == KERN_GEMM_ROWS;
    plan->is_a_whole = plan->is_a_fixed && (plan->is_a_whole || plan->axis[GEMM_K].trips == 1);
    plan->panel_buffers = panel_buffers;
    plan->a_level = plan->tile_level = plan->panel_level = VNPU_NO_LOOP;
}

static void consider(search_t *search, const kern_gemm_plan_t *base, kern_gemm_order_t order,
                     uint32_t panel_buffers) {
    for (uint32_t a_buffers = 2; a_buffers <= 4; a_buffers += 2) {
        kern_gemm_plan_t plan = *base;
        set_order(&plan, order, panel_buffers);
        set_loops(&plan, a_buffers, 2);
        if (!fits(search->machine, search->shape, &plan)) return;
        plan.cycles = cost_of(search->machine, search->shape, &plan);
        offer(search, &plan);
    }
}

/* Products of bf16, and of f32 in bf16 pieces, are summed in pairs of k (docs/numerics.md): a pair
 * lies in one tile, so that the bits do not hang on the tiling. */
static bool splits_pairs(const search_t *search, uint64_t k_tile) {
    const kern_gemm_shape_t *shape = search->shape;
    bool has_pairs = shape->a_dtype == VNPU_BF16 ||
                     (shape->a_dtype == VNPU_F32 && search->machine->matrix_f32_passes > 0);
    return has_pairs && k_tile % 2 != 0 && k_tile < (uint64_t)shape->size[GEMM_K];
}

/* Longest edge of a tile of results that is `across` wide at least: as the accumulator has room. */
static uint64_t longest_edge(const vnpu_machine_t *machine, uint64_t least, uint64_t across) {
    uint64_t room = machine->acc_bytes / 4 / max64(across, 1);
    return max64(room < MAX_EDGE ? room : MAX_EDGE, least);
}

/* Whether no plan with these tiles can come into the list, whatever its order. */
static bool is_hopeless(const search_t *search, const kern_gemm_plan_t *plan) {
    if (tile_elems(plan) * 4 > search->machine->acc_bytes) return true;
    const search_t *list[2] = {search, search->shared};
    uint64_t least = matrix_cycles(search->machine, search->shape, plan->axis);
    for (int i = 0; i < (plan->is_shared ? 2 : 1); i++) {
        if (list[i]->count < list[i]->most || least < list[i]->best[list[i]->most - 1].cycles)
            return false;
    }
    return true;
}

/* One split over the cores: grid axis 0 along `along`, grid axis 1 along n. */
static void consider_split(search_t *search, uint32_t along, uint32_t grid0, uint32_t grid1) {
    const int64_t *size = search->shape->size;
    const vnpu_machine_t *machine = search->machine;
    uint64_t rows = (uint64_t)size[GEMM_M], cols = (uint64_t)size[GEMM_N];
    candidates_t m = {0}, n = {0}, k = {0};
    kern_fold_t fold = kern_cost_fold(machine);
    add_parts(&m, along == GEMM_M ? kern_ceil_div(rows, grid0) : rows, fold.m,
              longest_edge(machine, fold.m, cols < fold.n ? cols : fold.n));
    add_parts(&n, kern_ceil_div(cols, grid1), fold.n,
              longest_edge(machine, fold.n, rows < fold.m ? rows : fold.m));
    add_parts(&k, (uint64_t)size[GEMM_K], fold.k, 8192);
    if (splits_pairs(search, 1)) add(&k, 2, (uint64_t)size[GEMM_K]);
    for (uint32_t i = 0; i < m.count * n.count * k.count; i++) {
        kern_gemm_plan_t plan = {.grid = {grid0, grid1}};
        plan.axis[GEMM_B] = kern_axis_make(size[GEMM_B], 1);
        plan.axis[GEMM_M] = kern_axis_make(size[GEMM_M], m.value[i % m.count]);
        plan.axis[GEMM_N] = kern_axis_make(size[GEMM_N], n.value[i / m.count % n.count]);
        plan.axis[GEMM_K] = kern_axis_make(size[GEMM_K], k.value[i / m.count / n.count]);
        if (splits_pairs(search, plan.axis[GEMM_K].tile)) continue;
        if (plan.axis[along].tiles < grid0 || plan.axis[GEMM_N].tiles < grid1) continue;
        if (grid0 > 1) kern_axis_split(&plan.axis[along], 0, grid0);
        if (grid1 > 1) kern_axis_split(&plan.axis[GEMM_N], 1, grid1);
        bool is_by_rows = along == GEMM_M || grid0 == 1;
        plan.is_shared = is_by_rows && kern_share_is_possible(machine, plan.grid);
        if (is_hopeless(search, &plan)) continue;
        plan.is_shared = false;
        for (int whole = 0; whole < 2 && plan.axis[GEMM_M].trips == 1; whole++) {
            plan.is_a_whole = whole == 1;
            consider(search, &plan, KERN_GEMM_ROWS, 2);
        }
        consider(search, &plan, KERN_GEMM_PANEL, 2);
        consider(search, &plan, KERN_GEMM_PANEL, 1);
        if (plan.axis[GEMM_K].tiles > 1 || search->count == 0)
            consider(search, &plan, KERN_GEMM_TILES, 1);
        plan.is_shared = is_by_rows && kern_share_is_possible(machine, plan.grid);
        if (plan.is_shared) consider(search->shared, &plan, KERN_GEMM_TILES, 1);
    }
}

static uint32_t rank(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                     kern_gemm_plan_t *out_plans, uint32_t most) {
    kern_gemm_plan_t plan;
    search_t shared = {.machine = machine, .shape = shape, .best = &plan, .most = 1};
    search_t search = {
        .machine = machine, .shape = shape, .best = out_plans, .most = most, .shared = &shared};
    if (most == 0) return 0;
    for (uint32_t grid1 = machine->workers; grid1 >= 1; grid1--) {
        uint32_t grid0 = machine->workers / grid1;
        if (grid1 > 1 && grid0 * grid1 != machine->workers && grid0 != 1) continue;
        if (shape->size[GEMM_B] >= grid0 && grid0 > 1)
            consider_split(&search, GEMM_B, grid0, grid1);
        if (shape->size[GEMM_M] >= grid0) consider_split(&search, GEMM_M, grid0, grid1);
        if (grid1 == 1 && grid0 > 1) consider_split(&search, GEMM_M, 1, 1);
    }
    if (shared.count == 0) return search.count;
    if (most > 1 && search.count == most) search.count--; /* its place, whatever it is */
    offer(&search, &plan);
    return search.count;
}

uint32_t kern_gemm_rank(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                        kern_gemm_plan_t *out_plans, uint32_t most) {
    const kern_profile_t *profile = kern_profile_of(machine);
    uint32_t first = profile->plan_gemm && profile->plan_gemm(machine, shape, out_plans);
    return first + rank(machine, shape, out_plans + first, most - first);
}

/* ---- rules ---- */

/* How many parts of an axis go together, so that a tile has at most `most`. */
static uint32_t together(const kern_axis_t *axis, uint32_t elems, uint32_t most) {
    return (uint32_t)kern_ceil_div(parts_of(axis, elems), most);
}

static void set_steps(const kern_gemm_shape_t *shape, const kern_gemm_rule_t *rule,
                      kern_gemm_plan_t *plan) {
    if (rule->step_k == 0 || rule->load_k % rule->step_k != 0) return;
    uint32_t times = together(&plan->axis[GEMM_K], rule->step_k, KERN_GEMM_STEPS);
    plan->load_k = rule->load_k * times;
    plan->step_k = rule->step_k * times;
    plan->has_whole_steps = rule->has_whole_steps && vnpu_dtype_block(shape->b_dtype) == 1;
}

static void set_stores(const kern_gemm_rule_t *rule, kern_gemm_plan_t *plan) {
    if (plan->axis[GEMM_M].grid > 1 || plan->axis[GEMM_N].grid > 1) return;
    plan->part_m = rule->part_m * together(&plan->axis[GEMM_M], rule->part_m, KERN_GEMM_PARTS);
    plan->store_n = rule->store_n * together(&plan->axis[GEMM_N], rule->store_n, KERN_GEMM_PARTS);
}

/* Parts of what the results leave. */
static void set_ends(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape, uint32_t parts,
                     kern_gemm_plan_t *plan) {
    uint64_t unit = kern_align(1) * vnpu_dtype_bytes(shape->a_dtype) *
                    vnpu_dtype_bytes(shape->b_dtype); /* whole elements of both */
    uint64_t others = result_bytes(shape, plan);
    if (others >= machine->sram_bytes) return;
    uint64_t part = (machine->sram_bytes - others) / parts / unit * unit;
    if (operand_bytes(shape, plan) <= plan->a_buffers * part) plan->part_bytes = (uint32_t)part;
}

bool kern_gemm_finish(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                      const kern_gemm_rule_t *rule, kern_gemm_plan_t *out_plan) {
    const int64_t *size = shape->size;
    uint32_t along = rule->b_grid > 1 ? GEMM_B : GEMM_M;
    kern_gemm_plan_t plan = {.grid = {along == GEMM_B ? rule->b_grid : rule->m_grid, rule->n_grid}};
    plan.axis[GEMM_B] = kern_axis_make(size[GEMM_B], 1);
    plan.axis[GEMM_M] = kern_axis_make(size[GEMM_M], rule->m);
    plan.axis[GEMM_N] = kern_axis_make(size[GEMM_N], rule->n);
    plan.axis[GEMM_K] = kern_axis_make(size[GEMM_K], rule->k);
    if (plan.axis[along].tiles < plan.grid[0] || plan.axis[GEMM_N].tiles < plan.grid[1])
        return false;
    if (plan.grid[0] > 1) kern_axis_split(&plan.axis[along], 0, plan.grid[0]);
    if (plan.grid[1] > 1) kern_axis_split(&plan.axis[GEMM_N], 1, plan.grid[1]);
    if (rule->order == KERN_GEMM_ROWS && plan.axis[GEMM_M].trips > 1) return false;
    plan.row_block = rule->row_block;
    plan.rotates_nest = rule->rotates_nest;
    plan.rows_outside = rule->rows_outside && rule->order == KERN_GEMM_TILES;
    plan.is_shared =
        rule->is_shared && along == GEMM_M && kern_share_is_possible(machine, plan.grid);
    plan.a_with_results = plan.is_shared && rule->a_with_results && machine->dma_queues > 1;
    set_order(&plan, rule->order, rule->panel_buffers);
    set_loops(&plan, rule->stream_buffers, rule->result_buffers);
    if (rule->order == KERN_GEMM_TILES && !plan.is_shared) {
        set_steps(shape, rule, &plan);
        if (rule->has_ends) set_ends(machine, shape, rule->stream_buffers, &plan);
        plan.holds_stored = rule->holds_stored && shape->is_direct && machine->dma_queues > 1;
    }
    if (shape->is_direct) set_stores(rule, &plan);
    if (!fits(machine, shape, &plan)) return false;
    plan.cycles = cost_of(machine, shape, &plan);
    *out_plan = plan;
    return true;
}

bool kern_gemm_choose(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                      kern_gemm_plan_t *out_plan) {
    return kern_gemm_rank(machine, shape, out_plan, 1) == 1;
}
