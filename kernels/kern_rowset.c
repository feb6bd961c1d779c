#include "kernels/kern_rowset.h"

#include <string.h>

#include "kernels/kern_cost.h"

#define MAX_TILE_ELEMS (64u << 10) /* 256 KiB of f32, unless the caller says otherwise */
#define MIN_TILE_ELEMS (2u << 10)
#define TURN_EDGE      64u /* rows of a tile whose contiguous direction runs across rows */

/* ---- planning ---- */

static uint64_t rows_of(const kern_nest_t *nest, uint32_t kept) {
    uint64_t rows = 1;
    for (uint32_t d = 0; d < kept; d++)
        rows *= nest->axis[d].tile;
    return rows;
}

static bool fits(const vnpu_machine_t *machine, const kern_rowset_need_t *need, uint64_t rows,
                 uint64_t width) {
    uint64_t bytes = rows * width * need->elem_bytes + width * need->column_bytes +
                     rows * need->row_bytes + need->fixed_bytes;
    return bytes <= machine->sram_bytes;
}

/* The widest chunk of R that fits with `rows` rows; 0: none. */
static uint64_t widest(const vnpu_machine_t *machine, const kern_rowset_need_t *need, uint64_t rows,
                       uint64_t size) {
    if (fits(machine, need, rows, size) && rows * size <= 4 * MAX_TILE_ELEMS) return size;
    uint64_t width = 4 * MAX_TILE_ELEMS;
    while (width >= VNPU_PARTIALS && (width >= size || !fits(machine, need, rows, width)))
        width /= 2;
    return width >= VNPU_PARTIALS ? width : 0;
}

static uint32_t contiguous_kept(const kern_iter_t *iter, uint32_t kept) {
    uint32_t best = kept;
    for (uint32_t d = 0; d < kept; d++) {
        if (iter->size[d] > 1 && iter->stride[0][d] < iter->stride[0][best]) best = d;
    }
    return iter->size[kept] > 1 ? best : kept;
}

/* Rows of a tile: the contiguous kept dimension first, then from the inside out, while the tile
 * stays within `elems`. */
static void grow_rows(kern_rowset_t *rows, const kern_iter_t *iter, const vnpu_machine_t *machine,
                      const kern_rowset_need_t *need, uint64_t width, uint64_t elems) {
    int64_t tile[KERN_NEST_DIMS] = {1, 1, 1, 1, 1};
    uint32_t first = contiguous_kept(iter, rows->kept);
    uint64_t have = 1;
    for (uint32_t i = 0; i <= rows->kept; i++) {
        uint32_t d = i == 0 ? first : rows->kept - i;
        if (d == rows->kept || (i > 0 && d == first)) continue;
        uint64_t most = elems / (have * width);
        if (i == 0 && most < TURN_EDGE) most = TURN_EDGE;
        while (most > 1 && !fits(machine, need, have * most, width))
            most /= 2;
        if (most < 2) continue;
        if (most > (uint64_t)iter->size[d]) most = (uint64_t)iter->size[d];
        uint64_t parts = kern_ceil_div((uint64_t)iter->size[d], most);
        tile[d] = (int64_t)kern_ceil_div((uint64_t)iter->size[d], parts);
        have *= (uint64_t)tile[d];
        if (tile[d] < iter->size[d] && i > 0) break;
    }
    for (uint32_t d = 0; d < rows->kept; d++)
        rows->nest.axis[d] = kern_axis_make(iter->size[d], tile[d]);
}

bool kern_rowset_plan(const vnpu_machine_t *machine, const kern_iter_t *iter, uint32_t kept,
                      const kern_rowset_need_t *need, bool may_split_r, bool passes,
                      kern_rowset_t *out_rows) {
    kern_rowset_t rows = {.kept = kept};
    uint64_t total = 1, size = (uint64_t)iter->size[kept];
    for (uint32_t d = 0; d <= kept; d++) {
        rows.size[d] = iter->size[d];
        total *= (uint64_t)iter->size[d];
    }
    bool is_turned = contiguous_kept(iter, kept) != kept;
    uint64_t edge = is_turned ? (uint64_t)iter->size[contiguous_kept(iter, kept)] : 1;
    if (edge > TURN_EDGE) edge = TURN_EDGE;
    uint64_t width = 0;
    for (; edge >= 1 && width == 0; edge /= 2)
        width = widest(machine, need, edge, size);
    if (may_split_r && width >= size && size >= 2 * (uint64_t)machine->workers * MIN_TILE_ELEMS)
        width = kern_ceil_div(kern_ceil_div(size, machine->workers), VNPU_PARTIALS) * VNPU_PARTIALS;
    if (width == 0) return false;
    uint64_t elems = total / (8ull * machine->workers);
    if (elems > MAX_TILE_ELEMS && !need->has_one_buffer) elems = MAX_TILE_ELEMS;
    if (elems < MIN_TILE_ELEMS) elems = MIN_TILE_ELEMS;
    rows.nest.ndims = kept + 1;
    grow_rows(&rows, iter, machine, need, width, elems);
    rows.nest.axis[kept] = kern_axis_make((int64_t)size, (int64_t)width);
    uint32_t mask = (1u << kept) - 1u;
    if (may_split_r) mask |= 1u << kept;
    if (!kern_nest_plan(&rows.nest, machine->workers, mask)) return false;
    if (need->has_one_buffer) rows.nest.buffers = 1;
    kern_axis_t *r = &rows.nest.axis[kept];
    if (passes && r->level != VNPU_NO_LOOP) r->trips += r->trips % 2;
    rows.rows = (uint32_t)rows_of(&rows.nest, kept);
    rows.width = r->tile;
    *out_rows = rows;
    return fits(machine, need, rows.rows, rows.width);
}

uint8_t kern_rowset_r_mask(const kern_rowset_t *rows) {
    return kern_nest_levels(&rows->nest, 1u << rows->kept);
}

/* ---- patterns ---- */

uint64_t kern_rowset_pitch(const kern_rowset_t *rows, vnpu_dtype_t dtype, kern_shape_t shape) {
    uint64_t elems = rows->rows;
    if (shape == KERN_TILE) elems *= rows->width;
    if (shape == KERN_COLUMN_B) elems = rows->width;
    if (shape == KERN_PARTIAL) elems *= VNPU_PARTIALS;
    return kern_align(elems * vnpu_dtype_bytes(dtype)) / vnpu_dtype_bytes(dtype);
}

/* Strides of the kept dimensions when a row takes `pitch` elements. */
static void row_strides(const kern_rowset_t *rows, int64_t pitch, int64_t stride[KERN_NEST_DIMS]) {
    for (uint32_t d = rows->kept; d-- > 0;) {
        stride[d] = pitch;
        pitch *= rows->nest.axis[d].tile;
    }
}

vnpu_ap_t kern_rowset_ap(const kern_rowset_t *rows, vnpu_space_t space, vnpu_dtype_t dtype,
                         int64_t base, kern_shape_t shape, uint8_t level, uint32_t buffers) {
    int64_t stride[KERN_NEST_DIMS], pitch = 0, along = 0;
    bool has_r = shape == KERN_TILE || shape == KERN_ROW_B || shape == KERN_COLUMN_B ||
                 shape == KERN_ONE_TILE;
    if (shape == KERN_TILE) pitch = rows->width;
    if (shape == KERN_ROW || shape == KERN_ROW_B) pitch = 1;
    if (shape == KERN_PARTIAL) pitch = VNPU_PARTIALS;
    if (shape == KERN_TILE || shape == KERN_COLUMN_B) along = 1;
    row_strides(rows, pitch, stride);
    kern_term_t term[KERN_NEST_DIMS] = {{NULL, 0, false}};
    for (uint32_t d = 0; d < rows->kept; d++)
        term[d] = (kern_term_t){&rows->nest.axis[d], stride[d], false};
    uint32_t count = rows->kept;
    if (has_r) term[count++] = (kern_term_t){kern_rowset_r(rows), along, true};
    vnpu_ap_t ap = kern_ap_terms(space, dtype, base, term, count, false);
    if (shape == KERN_PARTIAL) kern_ap_dim(&ap, VNPU_PARTIALS, 1);
    kern_ap_rotate(&ap, level, buffers, kern_rowset_pitch(rows, dtype, shape));
    return ap;
}

vnpu_insn_t *kern_rowset_emit_move(const kern_rowset_t *rows, kern_builder_t *builder,
                                   const kern_rowset_move_t *move) {
    int64_t dense[KERN_NEST_DIMS];
    row_strides(rows, move->shape == KERN_TILE ? rows->width : 1, dense);
    dense[rows->kept] = 1;
    uint32_t order[KERN_NEST_DIMS], count = 0;
    for (uint32_t d = 0; d <= rows->kept; d++) {
        bool is_r = d == rows->kept;
        if (move->shape == KERN_ROW && is_r) continue;
        if (move->shape == KERN_COLUMN_B && !is_r) continue;
        uint32_t at = count++;
        for (; at > 0 && move->stride[order[at - 1]] < move->stride[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    kern_term_t far[KERN_NEST_DIMS], near[KERN_NEST_DIMS];
    for (uint32_t i = 0; i < count; i++) {
        far[i] = (kern_term_t){&rows->nest.axis[order[i]], move->stride[order[i]], false};
        near[i] = (kern_term_t){&rows->nest.axis[order[i]], dense[order[i]], false};
    }
    vnpu_ap_t dram = kern_ap_terms(VNPU_SPACE_DRAM, move->dram_dtype, 0, far, count, true);
    vnpu_ap_t sram =
        kern_ap_terms(VNPU_SPACE_SRAM, move->sram_dtype, move->sram, near, count, false);
    dram.arg = move->arg;
    kern_ap_rotate(&sram, move->level, move->buffers,
                   kern_rowset_pitch(rows, move->sram_dtype, move->shape));
    kern_ap_merge((vnpu_ap_t *[]){&dram, &sram}, 2, 0);
    bool is_turned = sram.ndims > 1 && sram.dim[sram.ndims - 1].stride != 1;
    vnpu_insn_t *insn =
        kern_emit(builder, move->queue, is_turned ? VNPU_OP_DMA_TRANSPOSE : VNPU_OP_DMA_COPY);
    bool is_store = move->queue == KERN_STORE;
    insn->dst = kern_ap(builder, is_store ? &dram : &sram);
    insn->src[0] = kern_ap(builder, is_store ? &sram : &dram);
    return insn;
}

/* ---- loops ---- */

static bool has_loop(const kern_axis_t *axis) {
    return axis->level != VNPU_NO_LOOP;
}

void kern_rowset_open_kept(const kern_rowset_t *rows, kern_builder_t *builder) {
    for (uint32_t d = 0; d < rows->kept; d++) {
        if (has_loop(&rows->nest.axis[d])) kern_loop(builder, rows->nest.axis[d].trips);
    }
}

void kern_rowset_close_kept(const kern_rowset_t *rows, kern_builder_t *builder) {
    for (uint32_t d = 0; d < rows->kept; d++) {
        if (has_loop(&rows->nest.axis[d])) kern_end(builder);
    }
}

void kern_rowset_open_r(const kern_rowset_t *rows, kern_builder_t *builder) {
    if (has_loop(kern_rowset_r(rows))) kern_loop(builder, kern_rowset_r(rows)->trips);
}

void kern_rowset_close_r(const kern_rowset_t *rows, kern_builder_t *builder) {
    if (has_loop(kern_rowset_r(rows))) kern_end(builder);
}

/* ---- from tensors ---- */

static void gather_dims(const kern_tensor_t *const *operand, uint32_t count, uint32_t mask,
                        bool wanted, kern_iter_t *iter) {
    *iter = (kern_iter_t){.num_operands = count};
    for (uint32_t d = 0; d < operand[0]->ndims; d++) {
        if ((mask >> d & 1u) != wanted) continue;
        iter->size[iter->ndims] = operand[0]->size[d];
        for (uint32_t o = 0; o < count; o++)
            iter->stride[o][iter->ndims] =
                operand[o]->size[d] > 1 || o == 0 ? operand[o]->stride[d] : 0;
        iter->ndims++;
    }
    kern_iter_collapse(iter, true);
}

bool kern_rowset_iter(const kern_tensor_t *const *operand, uint32_t count, uint32_t dim_mask,
                      kern_iter_t *out_iter, uint32_t *out_kept) {
    kern_iter_t kept, reduced;
    gather_dims(operand, count, dim_mask, false, &kept);
    gather_dims(operand, count, dim_mask, true, &reduced);
    if (reduced.ndims != 1 || kept.ndims >= KERN_MAX_DIMS) return false;
    *out_iter = kept;
    *out_kept = kept.ndims;
    out_iter->ndims++;
    out_iter->size[kept.ndims] = reduced.size[0];
    for (uint32_t o = 0; o < count; o++)
        out_iter->stride[o][kept.ndims] = reduced.stride[o][0];
    return true;
}

int32_t kern_rowset_cut(const kern_iter_t *iter, uint32_t kept, int64_t *out_part) {
    int64_t total = 0, longest_reach = 0;
    uint32_t longest = 0, shortest = 0;
    for (uint32_t d = 0; d <= kept; d++) {
        int64_t reach = iter->size[d] - 1;
        for (uint32_t o = 0; o < iter->num_operands; o++) {
            int64_t r = (iter->size[d] - 1) * iter->stride[o][d];
            if (r > reach) reach = r;
        }
        total += reach;
        if (d == kept && reach >= KERN_MAX_SPAN) return -2;
        if (d == kept) break;
        if (reach > longest_reach) longest = d, longest_reach = reach;
        if (iter->size[d] < iter->size[shortest]) shortest = d;
    }
    if (total >= KERN_MAX_SPAN && longest_reach > 0) {
        *out_part = (iter->size[longest] + 1) / 2;
        return (int32_t)longest;
    }
    if (kept <= KERN_ROWSET_KEPT) return -1;
    *out_part = 1;
    return (int32_t)shortest;
}
