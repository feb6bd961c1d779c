#include "device/dev_program.h"

/*
 * The cursor and the views are the only readers of loop counters: values and time both go through
 * them. Offsets are summed in unsigned arithmetic, so that a hostile grid wraps instead of being
 * undefined; the address check refuses what results.
 */

void dev_cursor_init(dev_cursor_t *cursor, const dev_program_t *program,
                     const vnpu_queue_section_t *section) {
    *cursor = (dev_cursor_t){.program = program, .section = section};
    for (uint32_t l = 0; l < VNPU_MAX_LOOPS; l++)
        cursor->trips[l] = 1;
}

void dev_cursor_place(dev_cursor_t *cursor, const uint32_t grid_pos[VNPU_MAX_AXES]) {
    cursor->is_placed = true;
    for (uint32_t a = 0; a < VNPU_MAX_AXES; a++)
        cursor->grid_pos[a] = grid_pos[a];
}

static bool is_masked_out(const dev_cursor_t *cursor, const vnpu_insn_t *insn) {
    for (uint32_t l = 0; l < VNPU_MAX_LOOPS; l++) {
        if ((insn->first_only >> l & 1u) && cursor->counter[l] != 0) return true;
        if ((insn->last_only >> l & 1u) && cursor->counter[l] + 1 != cursor->trips[l]) return true;
    }
    return false;
}

static void cursor_open(dev_cursor_t *cursor, uint32_t trips) {
    uint32_t level = cursor->depth++;
    cursor->pc++;
    cursor->counter[level] = 0;
    cursor->trips[level] = trips;
    cursor->loop_pc[level] = cursor->pc;
}

static void cursor_close(dev_cursor_t *cursor) {
    uint32_t level = cursor->depth - 1;
    if (++cursor->counter[level] < cursor->trips[level]) {
        cursor->pc = cursor->loop_pc[level];
        return;
    }
    cursor->counter[level] = 0;
    cursor->trips[level] = 1;
    cursor->depth = level;
    cursor->pc++;
}

const vnpu_insn_t *dev_cursor_next(dev_cursor_t *cursor) {
    const vnpu_insn_t *stream = cursor->program->insn + cursor->section->first;
    while (cursor->pc < cursor->section->count) {
        const vnpu_insn_t *insn = &stream[cursor->pc];
        if (insn->op == VNPU_OP_LOOP) {
            cursor_open(cursor, insn->imm[0]);
        } else if (insn->op == VNPU_OP_ENDLOOP) {
            cursor_close(cursor);
        } else {
            cursor->pc++;
            if ((insn->first_only | insn->last_only) && is_masked_out(cursor, insn)) continue;
            bool is_others = insn->only != 0 && cursor->is_placed &&
                             !dev_place_matches(insn->only, cursor->grid_pos);
            if (is_others) continue;
            return insn;
        }
    }
    return NULL;
}

bool dev_cursor_accumulates(const dev_cursor_t *cursor, const vnpu_insn_t *insn) {
    if (insn->op == VNPU_OP_MM && (insn->flags & VNPU_F_ACCUMULATE)) return true;
    for (uint32_t l = 0; l < VNPU_MAX_LOOPS; l++) {
        if ((insn->not_first >> l & 1u) && cursor->counter[l] > 0) return true;
    }
    return false;
}

static uint64_t clip_index(const vnpu_clip_t *clip, const dev_cursor_t *cursor,
                           const uint32_t grid[VNPU_MAX_AXES],
                           const uint32_t grid_pos[VNPU_MAX_AXES]) {
    uint32_t axis = clip->axis_mode >> 2 & 1u;
    switch ((vnpu_clip_mode_t)(clip->axis_mode & 3u)) {
    case VNPU_CLIP_LOOP: return clip->loop == VNPU_NO_LOOP ? 0 : cursor->counter[clip->loop];
    case VNPU_CLIP_GRID: return grid_pos[axis];
    case VNPU_CLIP_BLOCK:
        return (uint64_t)grid_pos[axis] * cursor->trips[clip->loop] + cursor->counter[clip->loop];
    case VNPU_CLIP_CYCLIC:
        return (uint64_t)cursor->counter[clip->loop] * grid[axis] + grid_pos[axis];
    }
    return 0; /* two bits, four modes */
}

/* Cuts dimension clip->dim to what of the window exists. */
static void view_window(dev_view_t *view, const vnpu_ap_t *ap, uint32_t c, uint64_t index) {
    const vnpu_clip_t *clip = &ap->clip[c];
    uint32_t d = clip->dim;
    if (!view->has_window) {
        view->has_window = true;
        for (uint32_t e = 0; e < VNPU_MAX_DIMS; e++)
            view->front[e] = 0;
    }
    int64_t size = ap->dim[d].size, step = size - clip->overlap;
    if (index > INT32_MAX) { /* lies behind every extent; below, the product fits */
        view->size[d] = 0;
        return;
    }
    int64_t first = (int64_t)index * step - ap->pad[c];
    int64_t low = first < 0 ? -first : 0;
    int64_t high = clip->extent - first < size ? clip->extent - first : size;
    view->size[d] = high > low ? (uint32_t)(high - low) : 0;
    if (view->size[d] == 0) return;
    view->front[d] = (uint32_t)low;
    view->base += (uint64_t)(low * view->stride[d] * (int64_t)view->elem_bytes);
}

static void view_clip(dev_view_t *view, const vnpu_ap_t *ap, const dev_cursor_t *cursor,
                      const dev_launch_t *launch, const uint32_t grid_pos[VNPU_MAX_AXES]) {
    for (uint32_t c = 0; c < 4 && (ap->clip[c].axis_mode & VNPU_CLIP_USED); c++) {
        const vnpu_clip_t *clip = &ap->clip[c];
        uint64_t nominal = ap->dim[clip->dim].size;
        uint64_t index = clip_index(clip, cursor, launch->grid, grid_pos);
        if (clip->axis_mode & VNPU_CLIP_WINDOW) {
            view_window(view, ap, c, index);
            continue;
        }
        /* A tile index of 2^32 or more lies behind every extent; below, the product fits. */
        if (index > UINT32_MAX || index * nominal >= clip->extent) {
            view->size[clip->dim] = 0;
            continue;
        }
        uint32_t left = (uint32_t)(clip->extent - index * nominal);
        if (left < view->size[clip->dim]) view->size[clip->dim] = left;
    }
}

/* vnpu_dtype_bytes as a table: this runs for every operand of every instruction. */
static const uint8_t elem_bytes[VNPU_DTYPE_COUNT] = {
    [VNPU_F32] = 4,  [VNPU_BF16] = 2,  [VNPU_F16] = 2, [VNPU_F8E4M3] = 1, [VNPU_F8E5M2] = 1,
    [VNPU_I8] = 1,   [VNPU_U8] = 1,    [VNPU_I16] = 2, [VNPU_I32] = 4,    [VNPU_I64] = 8,
    [VNPU_BOOL] = 1, [VNPU_BFP8] = 17, [VNPU_BFP4] = 9};

void dev_view_make(dev_view_t *view, const vnpu_ap_t *ap, const dev_cursor_t *cursor,
                   const dev_launch_t *launch, const uint32_t grid_pos[VNPU_MAX_AXES]) {
    view->space = (vnpu_space_t)ap->space;
    view->dtype = (vnpu_dtype_t)ap->dtype;
    view->elem_bytes = elem_bytes[ap->dtype];
    view->ndims = ap->ndims;
    view->has_window = false;
    for (uint32_t d = 0; d < ap->ndims; d++) {
        view->size[d] = ap->dim[d].size;
        view->stride[d] = ap->dim[d].stride;
    }
    uint64_t offset = 0;
    for (uint32_t l = 0; l < VNPU_MAX_LOOPS; l++) {
        offset += (uint64_t)((int64_t)ap->loop_inc[l] * cursor->counter[l]);
    }
    for (uint32_t a = 0; a < VNPU_MAX_AXES; a++) {
        offset += (uint64_t)((int64_t)ap->grid_inc[a] * grid_pos[a]);
    }
    if (ap->rot_loop != VNPU_NO_LOOP) {
        uint64_t n = 0;
        for (uint32_t l = (uint32_t)ap->rot_loop - ap->rot_outer; l < ap->rot_loop; l++)
            n = (n + cursor->counter[l]) * cursor->trips[l + 1];
        n += cursor->counter[ap->rot_loop];
        offset += n % ap->rot_count * ap->rot_stride;
    }
    if (view->space == VNPU_SPACE_IOTA) {
        view->base = (uint64_t)ap->base + offset;
    } else {
        view->base = (uint64_t)ap->base + offset * view->elem_bytes;
        if (ap->arg != VNPU_NO_ARG) view->base += launch->arg[ap->arg];
    }
    view_clip(view, ap, cursor, launch, grid_pos);
    view->count = 1;
    for (uint32_t d = 0; d < view->ndims; d++)
        view->count *= view->size[d];
}

void dev_view_extent(const dev_view_t *view, uint64_t *out_low, uint64_t *out_high) {
    *out_low = *out_high = view->base;
    if (view->count == 0) return;
    int64_t low = 0, high = 0; /* elements from base */
    for (uint32_t d = 0; d < view->ndims; d++) {
        int64_t reach = view->stride[d] * (int64_t)(view->size[d] - 1);
        if (reach < 0) {
            low += reach;
        } else {
            high += reach;
        }
    }
    *out_low = view->base + (uint64_t)low * view->elem_bytes;
    *out_high = view->base + (uint64_t)(high + 1) * view->elem_bytes;
}

void dev_view_runs(const dev_view_t *view, uint64_t *out_run_bytes, uint64_t *out_runs) {
    *out_run_bytes = *out_runs = 0;
    if (view->count == 0) return;
    uint64_t run = 1; /* elements that follow each other so far */
    for (uint32_t d = view->ndims; d-- > 0;) {
        if (view->size[d] == 1) continue;
        if (view->stride[d] < 0 || (uint64_t)view->stride[d] != run) break;
        run *= view->size[d];
    }
    *out_run_bytes = run * view->elem_bytes;
    *out_runs = view->count / run;
}
