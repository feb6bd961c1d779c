/*
 * gemmini-like: matrix products as Gemmini's library maps them (tiled_matmul_auto of gemmini.h; the
 * rule is published with it, docs/mapping.md).
 *
 * A tile is I x K of the left and K x J of the right operand, counted in blocks as large as the
 * array. With weights in the array, tiles take at most half of scratchpad and accumulator each: the
 * next one loads while one is multiplied. With results in the array they take all of both, one
 * after the other. Tiles begin near a square, the side what the accumulator holds, the depth what a
 * half of the scratchpad's share holds, and grow one block at a time, J, I, K in turn, while they
 * fit and there is more of the operand. Whole blocks are multiplied. The operands of a tile lie at
 * both ends of their half, or of all, of the scratchpad. With weights in the array the left one
 * comes in pieces of the widest load, 4 blocks of K, the right one in blocks, the last of them
 * whole too, and every block is multiplied once it is there; results are stored four blocks of
 * columns at a time, with results in the array one. Buffers are loaded again when all stores are
 * issued: as many blocks of rows as the reservation station holds may be on their way.
 *
 * A convolution (tiled_conv_auto) begins with all of it as one tile and takes from the longest of
 * rows, columns, output channels, kernel and input channels, one, or a block of channels, at a time
 * until it fits; columns down to a block are left alone while there are rows. Then columns, and at
 * last every dimension in turn, grow back while they fit. Channels lie in blocks of the array
 * (kern_conv_code.h).
 */
#include "kernels/kern_cost.h"
#include "kernels/kern_profile.h"

#define PIECE_BLOCKS 4u /* MAX_BYTES of a transfer over the width of the array */
#define STORES       4u /* commands that the reservation station holds (Configs.scala) */

/* In blocks. */
typedef struct extent {
    uint64_t i, j, k;
} extent_t;

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t root(uint64_t square) {
    uint64_t side = 1;
    while ((side + 1) * (side + 1) <= square)
        side++;
    return side;
}

/* Blocks that the two memories of a tile hold. */
typedef struct room {
    uint64_t operands, results;
} room_t;

static bool fits(room_t room, extent_t tile) {
    return (tile.i + tile.j) * tile.k <= room.operands && tile.i * tile.j <= room.results;
}

static extent_t tile_of(room_t room, extent_t all) {
    uint64_t side = root(room.results);
    extent_t tile = {smaller(all.i, side), smaller(all.j, side),
                     smaller(all.k, room.operands / 2 / side)};
    for (bool has_grown = true; has_grown;) {
        has_grown = false;
        uint64_t *const side_of[3] = {&tile.j, &tile.i, &tile.k};
        const uint64_t most[3] = {all.j, all.i, all.k};
        for (int s = 0; s < 3; s++) {
            if (*side_of[s] >= most[s]) continue;
            ++*side_of[s];
            if (fits(room, tile)) {
                has_grown = true;
            } else {
                --*side_of[s];
            }
        }
    }
    return tile;
}

bool kern_profile_gemmini_gemm(const vnpu_machine_t *machine, const kern_gemm_shape_t *shape,
                               kern_gemm_plan_t *out_plan) {
    uint64_t block = machine->matrix_rows, bytes = vnpu_dtype_bytes(shape->a_dtype);
    bool is_doubled = machine->matrix_dataflow == 0; /* weights stay in the array */
    uint64_t share = is_doubled ? 2 : 1;
    room_t room = {machine->sram_bytes / (block * block * bytes) / share,
                   machine->acc_bytes / (block * block * 4) / share};
    if (room.operands < 2 || room.results == 0) return false;
    const int64_t *size = shape->size;
    extent_t all = {kern_ceil_div((uint64_t)size[GEMM_M], block),
                    kern_ceil_div((uint64_t)size[GEMM_N], block),
                    kern_ceil_div((uint64_t)size[GEMM_K], block)};
    extent_t tile = tile_of(room, all);
    kern_gemm_rule_t rule = {.order = KERN_GEMM_TILES,
                             .m = (int64_t)(tile.i * block),
                             .n = (int64_t)(tile.j * block),
                             .k = (int64_t)(tile.k * block),
                             .b_grid = 1,
                             .m_grid = 1,
                             .n_grid = 1,
                             .stream_buffers = (uint32_t)share,
                             .panel_buffers = 1,
                             .result_buffers = (uint32_t)share,
                             .row_block = (uint32_t)block,
                             .rotates_nest = true,
                             .rows_outside = true,
                             .load_k = is_doubled ? (uint32_t)(PIECE_BLOCKS * block) : 0,
                             .step_k = is_doubled ? (uint32_t)block : 0,
                             .has_whole_steps = true,
                             .has_ends = true,
                             .holds_stored = true,
                             .part_m = (uint32_t)(STORES * block),
                             .store_n = (uint32_t)(is_doubled ? PIECE_BLOCKS * block : block)};
    return kern_gemm_finish(machine, shape, &rule, out_plan);
}

/* ---- convolutions ---- */

enum { ROWS = 0, COLS, OUT, IN, SIDES };

static uint64_t blocks(uint64_t elems, uint64_t block) {
    return kern_ceil_div(elems, block);
}

/* Rows of scratchpad and accumulator, as wide as the array, that a tile takes. */
static bool conv_fits(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                      const uint64_t side[SIDES]) {
    uint64_t block = machine->matrix_rows, positions = 1, pixels = 1;
    for (int s = 0; s < 2; s++) {
        uint64_t reach = (uint64_t)((shape->kernel[s] - 1) * shape->dilation[s] + 1);
        pixels *= side[s] * (uint64_t)shape->stride[s] + reach - 1;
        positions *= (uint64_t)shape->kernel[s];
    }
    uint64_t image = blocks(side[IN], block) * pixels,
             weights = blocks(side[OUT], block) * positions * side[IN],
             results = blocks(side[OUT], block) * side[ROWS] * side[COLS];
    return (image + weights) * block <= machine->sram_bytes / 2 &&
           results * block * 4 <= machine->acc_bytes / 2;
}

static void shrink(const vnpu_machine_t *machine, uint64_t side[SIDES]) {
    uint64_t block = machine->matrix_rows;
    int longest = -1;
    for (int s = 0; s < SIDES; s++) {
        bool is_kept = s == COLS && side[COLS] <= block && side[ROWS] > 1;
        if (!is_kept && (longest < 0 || side[s] > side[longest])) longest = s;
    }
    uint64_t *most = &side[longest];
    if (longest == ROWS || longest == COLS) {
        --*most;
    } else if (*most % block != 0) {
        *most = *most / block * block;
    } else {
        *most -= block;
    }
    if (*most == 0) *most = 1;
}

/* One more along a dimension, if there is more and it fits. */
static bool grow(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                 uint64_t side[SIDES], const uint64_t all[SIDES], int s) {
    if (side[s] >= all[s]) return false;
    side[s]++;
    if (conv_fits(machine, shape, side)) return true;
    side[s]--;
    return false;
}

/* "Downsampling": every second row and column of an even image. */
bool kern_profile_gemmini_skips(const kern_conv_shape_t *shape) {
    for (int s = 0; s < 2; s++)
        if (shape->stride[s] != 2 || shape->in_size[s] % 2 != 0) return false;
    return true;
}

bool kern_profile_gemmini_conv(const vnpu_machine_t *machine, const kern_conv_shape_t *shape,
                               kern_conv_plan_t *out_plan) {
    const int64_t *size = shape->size;
    const uint64_t all[SIDES] = {(uint64_t)size[CONV_H], (uint64_t)size[CONV_W],
                                 (uint64_t)size[CONV_N], (uint64_t)size[CONV_C]};
    uint64_t side[SIDES] = {all[ROWS], all[COLS], all[OUT], all[IN]};
    const uint64_t smallest = SIDES;
    while (!conv_fits(machine, shape, side)) {
        if (side[ROWS] + side[COLS] + side[OUT] + side[IN] == smallest) return false;
        shrink(machine, side);
    }
    while (grow(machine, shape, side, all, COLS)) {
    }
    for (bool has_grown = true; has_grown;) {
        has_grown = false;
        for (int s = 0; s < SIDES; s++)
            has_grown = grow(machine, shape, side, all, s) || has_grown;
    }
    kern_conv_rule_t rule = {.tile = {[CONV_G] = 1,
                                      [CONV_N] = (int64_t)side[OUT],
                                      [CONV_B] = 1,
                                      [CONV_H] = (int64_t)side[ROWS],
                                      [CONV_W] = (int64_t)side[COLS],
                                      [CONV_C] = (int64_t)side[IN]},
                             .stream_buffers = 2,
                             .panel_buffers = 1,
                             .rotates_nest = true,
                             .has_whole_steps = true,
                             .has_inner_n = true,
                             .has_blocks = true};
    return kern_conv_finish(machine, shape, &rule, out_plan);
}
