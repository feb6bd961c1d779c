#include "device/dev_program.h"

#include "device/dev_isa_names.h"
#include "device/dev_program_internal.h"
#include "device/dev_validate_internal.h"

/*
 * Which bytes a launch touches through an argument: exact bounds over all loops, grid positions and
 * clipped tiles.
 *
 * A pattern's bounds are a sum over variables (four loop counters, two grid coordinates) and
 * dimensions. Variables that no clip mentions contribute their own minimum and maximum. The others
 * fall into groups that share a clip or a clipped dimension; inside a group the clips cut the space
 * of counters into boxes on which every size is constant, so the extremes lie at corners of boxes.
 * A box's corners have coordinates 0, the last value, and the digits of the last full and of the
 * partial tile index: a handful per variable, which are tried in all combinations.
 */

enum { NUM_VARS = VNPU_MAX_LOOPS + VNPU_MAX_AXES };
#define MAX_CANDIDATES                                                                             \
    380u /* 2 ends + 4 clips x 6 tiles x 3 digits, each with up to 5 neighbours in a rotation,     \
            less duplicates */

typedef struct span {
    int64_t low, high;
} span_t;

typedef struct extent_vars {
    const vnpu_ap_t *ap;
    uint32_t low[NUM_VARS], high[NUM_VARS]; /* inclusive; loops first, then grid axes */
    uint32_t trips[NUM_VARS];               /* T of loops, G of axes */
    uint32_t group[NUM_VARS];               /* smallest variable of the group */
    uint32_t value[NUM_VARS];               /* the point being tried */
} extent_vars_t;

/* Sums saturate: a grid of 2^32 may reach beyond 64 bits, and the address check refuses such a
 * launch anyway. */
static int64_t add_saturating(int64_t a, int64_t b) {
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum)) return sum;
    return a < 0 ? INT64_MIN : INT64_MAX;
}

static int64_t multiply_saturating(int64_t a, int64_t b) {
    int64_t product;
    if (!__builtin_mul_overflow(a, b, &product)) return product;
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

static uint32_t clip_var_loop(const vnpu_clip_t *clip) {
    return clip->loop;
}

static uint32_t clip_var_axis(const vnpu_clip_t *clip) {
    return VNPU_MAX_LOOPS + (clip->axis_mode >> 2 & 1u);
}

static vnpu_clip_mode_t clip_mode(const vnpu_clip_t *clip) {
    return (vnpu_clip_mode_t)(clip->axis_mode & 3u);
}

static bool clip_used(const vnpu_ap_t *ap, uint32_t c) {
    return c < 4 && (ap->clip[c].axis_mode & VNPU_CLIP_USED);
}

static bool is_window(const vnpu_ap_t *ap, uint32_t c) {
    return ap->clip[c].axis_mode & VNPU_CLIP_WINDOW;
}

/* ---- groups ---- */

static void join(extent_vars_t *vars, uint32_t a, uint32_t b) {
    uint32_t from = vars->group[a], to = vars->group[b];
    if (from < to) {
        uint32_t swap = from;
        from = to;
        to = swap;
    }
    for (uint32_t v = 0; v < NUM_VARS; v++) {
        if (vars->group[v] == from) vars->group[v] = to;
    }
}

/* A window that does not move hangs on no variable. */
static bool is_still(const vnpu_clip_t *clip) {
    return clip_mode(clip) == VNPU_CLIP_LOOP && clip->loop == VNPU_NO_LOOP;
}

static uint32_t clip_any_var(const vnpu_clip_t *clip) {
    return clip_mode(clip) == VNPU_CLIP_GRID ? clip_var_axis(clip) : clip_var_loop(clip);
}

static void make_groups(extent_vars_t *vars) {
    const vnpu_ap_t *ap = vars->ap;
    for (uint32_t v = 0; v < NUM_VARS; v++)
        vars->group[v] = v;
    for (uint32_t c = 0; clip_used(ap, c); c++) {
        const vnpu_clip_t *clip = &ap->clip[c];
        vnpu_clip_mode_t mode = clip_mode(clip);
        if (is_still(clip)) continue;
        if (mode == VNPU_CLIP_BLOCK || mode == VNPU_CLIP_CYCLIC) {
            join(vars, clip_var_loop(clip), clip_var_axis(clip));
        }
        for (uint32_t other = 0; other < c; other++) {
            if (ap->clip[other].dim != clip->dim || is_still(&ap->clip[other])) continue;
            join(vars, clip_any_var(clip), clip_any_var(&ap->clip[other]));
        }
    }
}

/* ---- candidate values of one variable ---- */

typedef struct candidates {
    uint32_t count;
    uint32_t value[MAX_CANDIDATES];
} candidates_t;

static void add_value(candidates_t *list, const extent_vars_t *vars, uint32_t v, uint64_t value) {
    if (value < vars->low[v]) value = vars->low[v];
    if (value > vars->high[v]) value = vars->high[v];
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->value[i] == value) return;
    }
    if (list->count < MAX_CANDIDATES) list->value[list->count++] = (uint32_t)value;
}

/* A boundary, and in a rotation the first and last buffer beside it on both sides. */
static void add_boundary(candidates_t *list, const extent_vars_t *vars, uint32_t v,
                         uint64_t value) {
    if (value < vars->low[v]) value = vars->low[v];
    if (value > vars->high[v]) value = vars->high[v];
    add_value(list, vars, v, value);
    if (vars->ap->rot_loop != v) return;
    uint64_t count = vars->ap->rot_count, base = value - value % count;
    add_value(list, vars, v, base);
    add_value(list, vars, v, base + count - 1);
    add_value(list, vars, v, base + count);
    if (base > 0) add_value(list, vars, v, base - 1);
}

/* Digits of tile index t in the clip's number system, as far as variable v is one of them. */
static void add_digits(candidates_t *list, const extent_vars_t *vars, uint32_t v,
                       const vnpu_clip_t *clip, uint64_t t) {
    vnpu_clip_mode_t mode = clip_mode(clip);
    uint32_t loop = clip_var_loop(clip), axis = clip_var_axis(clip);
    if (mode == VNPU_CLIP_LOOP || mode == VNPU_CLIP_GRID) {
        if (v == clip_any_var(clip)) add_boundary(list, vars, v, t);
        return;
    }
    uint32_t major = mode == VNPU_CLIP_BLOCK ? axis : loop;
    uint32_t minor = mode == VNPU_CLIP_BLOCK ? loop : axis;
    uint64_t radix = vars->trips[minor];
    if (v == minor) add_boundary(list, vars, v, t % radix);
    if (v != major) return;
    add_boundary(list, vars, v, t / radix);
    if (t / radix > 0) add_boundary(list, vars, v, t / radix - 1);
}

static int64_t floor_div(int64_t a, int64_t b) {
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

/* Tiles beside which the size of a window changes its course: the first and the last that have
 * elements, and the first and the last that are whole. */
static void add_window(candidates_t *list, const extent_vars_t *vars, uint32_t v,
                       const vnpu_clip_t *clip, uint8_t pad) {
    int64_t size = vars->ap->dim[clip->dim].size, step = size - clip->overlap;
    int64_t tile[6] = {floor_div(pad - size, step) + 1,
                       floor_div(pad + step - 1, step) - 1,
                       floor_div(pad + step - 1, step),
                       floor_div((int64_t)clip->extent + pad - size, step),
                       floor_div((int64_t)clip->extent + pad - size, step) + 1,
                       floor_div((int64_t)clip->extent + pad - 1, step)};
    for (int i = 0; i < 6; i++)
        add_digits(list, vars, v, clip, tile[i] > 0 ? (uint64_t)tile[i] : 0);
}

static void make_candidates(candidates_t *list, const extent_vars_t *vars, uint32_t v) {
    list->count = 0;
    add_boundary(list, vars, v, vars->low[v]);
    add_boundary(list, vars, v, vars->high[v]);
    for (uint32_t c = 0; clip_used(vars->ap, c); c++) {
        const vnpu_clip_t *clip = &vars->ap->clip[c];
        if (is_still(clip)) continue;
        if (is_window(vars->ap, c)) {
            add_window(list, vars, v, clip, vars->ap->pad[c]);
            continue;
        }
        uint32_t full = clip->extent / vars->ap->dim[clip->dim].size; /* tiles that are not cut */
        if (full > 0) add_digits(list, vars, v, clip, full - 1);
        add_digits(list, vars, v, clip, full);
    }
}

/* ---- the value of the bounds at one point ---- */

static void add_variable(span_t *span, const extent_vars_t *vars, uint32_t v, uint32_t value) {
    const vnpu_ap_t *ap = vars->ap;
    int64_t inc = v < VNPU_MAX_LOOPS ? ap->loop_inc[v] : ap->grid_inc[v - VNPU_MAX_LOOPS];
    int64_t term = multiply_saturating(inc, value);
    if (ap->rot_loop == v) term += (int64_t)(value % ap->rot_count) * ap->rot_stride;
    span->low = add_saturating(span->low, term);
    span->high = add_saturating(span->high, term);
}

static uint64_t point_index(const extent_vars_t *vars, const vnpu_clip_t *clip) {
    uint64_t i = 0, g = 0;
    if (clip_mode(clip) != VNPU_CLIP_GRID) i = vars->value[clip_var_loop(clip)];
    if (clip_mode(clip) != VNPU_CLIP_LOOP) g = vars->value[clip_var_axis(clip)];
    switch (clip_mode(clip)) {
    case VNPU_CLIP_LOOP: return i;
    case VNPU_CLIP_GRID: return g;
    case VNPU_CLIP_BLOCK: return g * vars->trips[clip_var_loop(clip)] + i;
    case VNPU_CLIP_CYCLIC: return i * vars->trips[clip_var_axis(clip)] + g;
    }
    return 0;
}

/* What a window leaves of its dimension: moves the span behind what is cut away in front. */
static uint64_t cut_window(span_t *span, const vnpu_ap_t *ap, uint32_t c, uint64_t index) {
    const vnpu_clip_t *clip = &ap->clip[c];
    int64_t size = ap->dim[clip->dim].size;
    if (index > INT32_MAX) return 0;
    int64_t first = (int64_t)index * (size - clip->overlap) - ap->pad[c];
    int64_t low = first < 0 ? -first : 0;
    int64_t high = clip->extent - first < size ? clip->extent - first : size;
    if (high <= low) return 0;
    int64_t skipped = multiply_saturating(low, ap->dim[clip->dim].stride);
    span->low = add_saturating(span->low, skipped);
    span->high = add_saturating(span->high, skipped);
    return (uint64_t)(high - low);
}

static void add_dim(span_t *span, const vnpu_ap_t *ap, uint32_t d, uint32_t size) {
    int64_t reach = (int64_t)ap->dim[d].stride * (int64_t)(size - 1);
    if (reach < 0) {
        span->low = add_saturating(span->low, reach);
    } else {
        span->high = add_saturating(span->high, reach);
    }
}

/* Adds the dimensions whose clips belong to the group. False: one of them is empty here. */
static bool add_clipped_dims(span_t *span, const extent_vars_t *vars, uint32_t group) {
    const vnpu_ap_t *ap = vars->ap;
    for (uint32_t d = 0; d < ap->ndims; d++) {
        uint64_t nominal = ap->dim[d].size, size = nominal;
        bool is_ours = false;
        for (uint32_t c = 0; clip_used(ap, c); c++) {
            const vnpu_clip_t *clip = &ap->clip[c];
            if (clip->dim != d || is_still(clip)) continue;
            if (vars->group[clip_any_var(clip)] != group) continue;
            is_ours = true;
            uint64_t index = point_index(vars, clip);
            if (is_window(ap, c)) {
                size = cut_window(span, ap, c, index);
                continue;
            }
            uint64_t left = index > clip->extent / nominal ? 0 : clip->extent - index * nominal;
            if (left < size) size = left;
        }
        if (!is_ours) continue;
        if (size == 0) return false;
        add_dim(span, ap, d, (uint32_t)size);
    }
    return true;
}

static void widen(span_t *all, const span_t *one, bool *any) {
    if (!*any || one->low < all->low) all->low = one->low;
    if (!*any || one->high > all->high) all->high = one->high;
    *any = true;
}

/* Tries every combination of candidates of the group's variables. False: empty at all of them. */
static bool group_span(extent_vars_t *vars, uint32_t group, span_t *out_span) {
    candidates_t list[NUM_VARS];
    uint32_t member[NUM_VARS], at[NUM_VARS] = {0}, members = 0;
    for (uint32_t v = 0; v < NUM_VARS; v++) {
        if (vars->group[v] != group) continue;
        make_candidates(&list[members], vars, v);
        member[members++] = v;
    }
    bool any = false;
    for (;;) {
        span_t span = {0};
        for (uint32_t m = 0; m < members; m++) {
            vars->value[member[m]] = list[m].value[at[m]];
            add_variable(&span, vars, member[m], list[m].value[at[m]]);
        }
        if (add_clipped_dims(&span, vars, group)) widen(out_span, &span, &any);
        uint32_t m = 0;
        while (m < members && ++at[m] == list[m].count)
            at[m++] = 0;
        if (m == members) return any;
    }
}

/* Bounds of the pattern in elements from its base, high exclusive. False: never touched. */
static bool pattern_span(extent_vars_t *vars, span_t *out_span) {
    const vnpu_ap_t *ap = vars->ap;
    bool is_dim_clipped[VNPU_MAX_DIMS] = {false};
    *out_span = (span_t){0};
    make_groups(vars);
    for (uint32_t c = 0; clip_used(ap, c); c++)
        is_dim_clipped[ap->clip[c].dim] = true;
    for (uint32_t d = 0; d < ap->ndims; d++) {
        if (!is_dim_clipped[d]) add_dim(out_span, ap, d, ap->dim[d].size);
    }
    for (uint32_t c = 0; clip_used(ap, c); c++) {
        if (!is_still(&ap->clip[c])) continue;
        uint64_t size = cut_window(out_span, ap, c, 0);
        if (size == 0) return false;
        add_dim(out_span, ap, ap->clip[c].dim, (uint32_t)size);
    }
    for (uint32_t v = 0; v < NUM_VARS; v++) {
        if (vars->group[v] != v) continue; /* counted with its group */
        span_t span = {0};
        if (!group_span(vars, v, &span)) return false;
        out_span->low = add_saturating(out_span->low, span.low);
        out_span->high = add_saturating(out_span->high, span.high);
    }
    out_span->high = add_saturating(out_span->high, 1);
    return true;
}

/* ---- a program ---- */

/* Ranges of all variables for an instruction. False: it never executes. */
static bool insn_vars(extent_vars_t *vars, const dev_nest_t *nest, const vnpu_insn_t *insn,
                      const uint32_t grid[VNPU_MAX_AXES]) {
    for (uint32_t l = 0; l < VNPU_MAX_LOOPS; l++) {
        vars->trips[l] = l < nest->depth ? nest->trips[l] : 1;
        vars->low[l] = vars->high[l] = 0;
        if (l < nest->depth && !dev_nest_range(nest, insn, l, &vars->low[l], &vars->high[l])) {
            return false;
        }
    }
    for (uint32_t a = 0; a < VNPU_MAX_AXES; a++) {
        vars->trips[VNPU_MAX_LOOPS + a] = grid[a];
        vars->low[VNPU_MAX_LOOPS + a] = 0;
        vars->high[VNPU_MAX_LOOPS + a] = grid[a] - 1;
    }
    return true;
}

static void widen_bytes(const extent_vars_t *vars, const span_t *span, int64_t *low,
                        int64_t *high) {
    int64_t elem = vnpu_dtype_bytes((vnpu_dtype_t)vars->ap->dtype);
    int64_t from = add_saturating(vars->ap->base, multiply_saturating(span->low, elem));
    int64_t to = add_saturating(vars->ap->base, multiply_saturating(span->high, elem));
    bool is_empty = *low == *high;
    if (is_empty || from < *low) *low = from;
    if (is_empty || to > *high) *high = to;
}

static void add_insn(const dev_program_t *program, uint32_t arg, const vnpu_insn_t *insn,
                     const dev_nest_t *nest, const uint32_t grid[VNPU_MAX_AXES],
                     dev_arg_extent_t *extent) {
    uint32_t read, written;
    dev_insn_access(insn, dev_op_info(insn->op), &read, &written);
    for (uint32_t i = 0; i < DEV_NUM_OPERANDS; i++) {
        if (!((read | written) >> i & 1u)) continue;
        const vnpu_ap_t *ap = &program->ap[dev_insn_operand(insn, i)];
        extent_vars_t vars = {.ap = ap};
        span_t span;
        if (ap->space != VNPU_SPACE_DRAM || ap->arg != arg) continue;
        if (!insn_vars(&vars, nest, insn, grid) || !pattern_span(&vars, &span)) continue;
        if (read >> i & 1u) widen_bytes(&vars, &span, &extent->read_low, &extent->read_high);
        if (written >> i & 1u) widen_bytes(&vars, &span, &extent->write_low, &extent->write_high);
    }
}

void dev_program_arg_extent(const dev_program_t *program, uint32_t arg,
                            const uint32_t grid[VNPU_MAX_AXES], dev_arg_extent_t *out_extent) {
    *out_extent = (dev_arg_extent_t){0};
    for (uint32_t q = 0; q < program->header.num_queues; q++) {
        const vnpu_queue_section_t *section = &program->queue[q];
        if (section->kind != VNPU_QUEUE_DMA) continue; /* only they reach DRAM */
        dev_nest_t nest = {0};
        for (uint32_t pc = 0; pc < section->count; pc++) {
            const vnpu_insn_t *insn = &program->insn[section->first + pc];
            if (insn->op == VNPU_OP_LOOP) {
                nest.trips[nest.depth++] = insn->imm[0];
            } else if (insn->op == VNPU_OP_ENDLOOP) {
                nest.depth--;
            } else {
                add_insn(program, arg, insn, &nest, grid, out_extent);
            }
        }
    }
}
