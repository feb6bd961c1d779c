#include <string.h>

#include "kernels/kern_rowset.h"

enum { IN = 0, OUT = 1 };

typedef enum post { POST_NONE, POST_DIVIDE, POST_SQRT } post_t;

/* One pass over one R. */
typedef struct stage {
    kern_context_t *context;
    vnpu_stream_t stream;
    kern_iter_t iter;
    uint32_t kept;
    vnpu_dtype_t dtype[2];
    vnpu_addr_t address[2];
    vnpu_reduce_t func;
    vnpu_unary_t map;
    post_t post;
    double divisor;
    bool is_integer;
    bool to_scratch; /* R may be dealt to the cores: out is [instances along R][kept] */
} stage_t;

static vnpu_dtype_t compute_dtype(const stage_t *s) {
    return s->is_integer ? VNPU_I64 : VNPU_F32;
}

static bool plan(const stage_t *s, kern_rowset_t *rows) {
    kern_rowset_need_t need = {.elem_bytes = 2 * vnpu_dtype_bytes(s->dtype[IN]),
                               .row_bytes = VNPU_PARTIALS * 8 + 8 + 2 * 8,
                               .fixed_bytes = 1024};
    return kern_rowset_plan(&s->context->machine, &s->iter, s->kept, &need, s->to_scratch, false,
                            rows);
}

/* ---- code ---- */

typedef struct coder {
    const stage_t *s;
    const kern_rowset_t *rows;
    kern_builder_t *builder;
    uint8_t arg[2], arg_divisor;
    uint32_t tile, partial, result, out;
    kern_ring_t in_ring, out_ring;
    uint32_t out_buffers;
    uint8_t out_level;
} coder_t;

static uint16_t row_ap(const coder_t *c, uint32_t base, vnpu_dtype_t dtype, bool is_out) {
    vnpu_ap_t ap =
        kern_rowset_ap(c->rows, VNPU_SPACE_SRAM, dtype, base, KERN_ROW,
                       is_out ? c->out_level : VNPU_NO_LOOP, is_out ? c->out_buffers : 1);
    return kern_ap(c->builder, &ap);
}

static uint16_t partial_ap(const coder_t *c) {
    vnpu_ap_t ap = kern_rowset_ap(c->rows, VNPU_SPACE_SRAM, compute_dtype(c->s), c->partial,
                                  KERN_PARTIAL, VNPU_NO_LOOP, 1);
    return kern_ap(c->builder, &ap);
}

/* The row results go straight to the output tile when nothing follows. */
static uint16_t result_ap(const coder_t *c) {
    bool is_final = c->s->post == POST_NONE;
    return row_ap(c, is_final ? c->out : c->result,
                  is_final ? c->s->dtype[OUT] : compute_dtype(c->s), is_final);
}

static void emit_post(const coder_t *c, uint8_t last) {
    const stage_t *s = c->s;
    vnpu_insn_t *insn;
    if (s->post == POST_SQRT) {
        insn = kern_emit(c->builder, KERN_VECTOR, VNPU_OP_V_UNARY);
        insn->func = VNPU_U_SQRT;
    } else {
        insn = kern_emit(c->builder, KERN_VECTOR, VNPU_OP_V_BINARY);
        insn->func = VNPU_B_DIV;
        vnpu_ap_t divisor =
            kern_rowset_ap(c->rows, VNPU_SPACE_ARG, VNPU_F32, 8 * (int64_t)c->arg_divisor,
                           KERN_ONE_ROW, VNPU_NO_LOOP, 1);
        insn->src[1] = kern_ap(c->builder, &divisor);
    }
    insn->src[0] = row_ap(c, c->result, compute_dtype(s), false);
    insn->dst = row_ap(c, c->out, s->dtype[OUT], true);
    insn->last_only = last;
    kern_signal(insn, c->out_ring.full, 1);
}

static void emit_reduction(const coder_t *c) {
    const stage_t *s = c->s;
    uint8_t r = kern_rowset_r_mask(c->rows);
    uint16_t integer = s->is_integer ? VNPU_F_INTEGER : 0;
    kern_rowset_open_r(c->rows, c->builder);
    kern_rowset_move_t load = {KERN_LOAD,    KERN_TILE,           s->dtype[IN],
                               s->dtype[IN], c->arg[IN],          s->iter.stride[IN],
                               c->tile,      c->rows->nest.inner, c->rows->nest.buffers};
    vnpu_insn_t *insn = kern_rowset_emit_move(c->rows, c->builder, &load);
    kern_wait(insn, c->in_ring.free, 1);
    kern_signal(insn, c->in_ring.full, 1);
    if (r == 0) kern_sync_wait(c->builder, KERN_VECTOR, c->out_ring.free, 1);
    insn = kern_emit(c->builder, KERN_VECTOR, VNPU_OP_V_REDUCE);
    insn->func = (uint8_t)s->func;
    insn->func2 = (uint8_t)s->map;
    insn->flags = (uint16_t)(integer | (r ? VNPU_F_PARTIAL : 0));
    insn->not_first = r;
    vnpu_ap_t tile = kern_rowset_ap(c->rows, VNPU_SPACE_SRAM, s->dtype[IN], c->tile, KERN_TILE,
                                    c->rows->nest.inner, c->rows->nest.buffers);
    insn->src[0] = kern_ap(c->builder, &tile);
    insn->dst = r ? partial_ap(c) : result_ap(c);
    kern_wait(insn, c->in_ring.full, 1);
    kern_signal(insn, c->in_ring.free, 1);
    if (r == 0 && s->post == POST_NONE) kern_signal(insn, c->out_ring.full, 1);
    if (r != 0) {
        insn = kern_emit(c->builder, KERN_VECTOR, VNPU_OP_V_FOLD);
        insn->func = (uint8_t)s->func;
        insn->flags = integer;
        insn->src[0] = partial_ap(c);
        insn->dst = result_ap(c);
        insn->last_only = r;
        kern_wait(insn, c->out_ring.free, 1);
        if (s->post == POST_NONE) kern_signal(insn, c->out_ring.full, 1);
    }
    if (s->post != POST_NONE) emit_post(c, r);
    kern_rowset_close_r(c->rows, c->builder);
}

static int64_t kept_elems(const stage_t *s) {
    int64_t elems = 1;
    for (uint32_t d = 0; d < s->kept; d++)
        elems *= s->iter.size[d];
    return elems;
}

static void generate(const stage_t *s, const kern_rowset_t *rows, kern_builder_t *builder) {
    coder_t c = {.s = s, .rows = rows, .builder = builder};
    bool has_loop = kern_rowset_r_mask(rows) != 0;
    c.out_buffers = has_loop ? 1 : rows->nest.buffers;
    c.out_level = has_loop ? VNPU_NO_LOOP : rows->nest.inner;
    c.arg[OUT] = kern_arg(builder, VNPU_ARG_OUT);
    c.arg[IN] = kern_arg(builder, VNPU_ARG_IN);
    c.arg_divisor = kern_arg(builder, VNPU_ARG_SCALAR);
    uint32_t in_bytes = vnpu_dtype_bytes(s->dtype[IN]), out_bytes = vnpu_dtype_bytes(s->dtype[OUT]);
    c.tile = kern_sram(builder, kern_rowset_pitch(rows, s->dtype[IN], KERN_TILE) * in_bytes *
                                    rows->nest.buffers);
    c.out = kern_sram(builder,
                      kern_rowset_pitch(rows, s->dtype[OUT], KERN_ROW) * out_bytes * c.out_buffers);
    c.partial = kern_sram(builder, (uint64_t)rows->rows * VNPU_PARTIALS *
                                       vnpu_dtype_bytes(compute_dtype(s)));
    c.result = kern_sram(builder, (uint64_t)rows->rows * vnpu_dtype_bytes(compute_dtype(s)));
    c.in_ring = kern_ring(builder, KERN_VECTOR, rows->nest.buffers);
    c.out_ring = kern_ring(builder, KERN_STORE, c.out_buffers);
    kern_rowset_open_kept(rows, builder);
    emit_reduction(&c);
    kern_rowset_move_t store = {KERN_STORE,    KERN_ROW,    s->dtype[OUT],
                                s->dtype[OUT], c.arg[OUT],  s->iter.stride[OUT],
                                c.out,         c.out_level, c.out_buffers};
    vnpu_insn_t *insn = kern_rowset_emit_move(rows, builder, &store);
    const kern_axis_t *r = kern_rowset_r(rows);
    if (r->grid > 1) { /* a row of results for each instance along R */
        vnpu_ap_t dram = kern_ap_of(builder, insn->dst);
        dram.grid_inc[r->grid_axis] += (int32_t)kept_elems(s);
        insn->dst = kern_ap(builder, &dram);
    }
    kern_wait(insn, c.out_ring.full, 1);
    kern_signal(insn, c.out_ring.free, 1);
    kern_rowset_close_kept(rows, builder);
}

/* ---- stages ---- */

static void make_key(const stage_t *s, kern_key_t *key) {
    kern_key_init(key, "reduce");
    kern_key_add_u64(key, s->kept | (uint64_t)s->dtype[IN] << 8 | (uint64_t)s->dtype[OUT] << 16 |
                              (uint64_t)s->func << 24 | (uint64_t)s->map << 32 |
                              (uint64_t)s->post << 40 | (uint64_t)s->is_integer << 48 |
                              (uint64_t)s->to_scratch << 49);
    for (uint32_t d = 0; d <= s->kept; d++) {
        kern_key_add_u64(key, (uint64_t)s->iter.size[d]);
        kern_key_add_u64(key, (uint64_t)s->iter.stride[IN][d]);
        kern_key_add_u64(key, (uint64_t)s->iter.stride[OUT][d]);
    }
}

static vnpu_status_t launch(const stage_t *s) {
    kern_key_t key;
    make_key(s, &key);
    const kern_entry_t *entry = kern_cache_find(&s->context->cache, &key);
    if (!entry) {
        kern_rowset_t rows;
        if (!plan(s, &rows))
            return kern_fail(s->context, VNPU_ERROR_UNSUPPORTED, "reduce: no tile fits the SRAM");
        kern_builder_t builder;
        kern_builder_init(&builder, &s->context->machine, "reduce");
        generate(s, &rows, &builder);
        vnpu_status_t status = kern_add_program(s->context, &key, &builder, rows.nest.grid, &entry);
        kern_builder_fini(&builder);
        if (status != VNPU_OK) return status;
    }
    uint64_t args[3] = {s->address[OUT], s->address[IN], kern_arg_f32(s->divisor)};
    return kern_launch(s->context, s->stream, entry, args, 3);
}

/* All of R in one instance would leave most cores idle: partial results first, one for each core
 * along R. */
static vnpu_status_t run_split(const stage_t *s, const kern_rowset_t *rows) {
    uint32_t parts = kern_rowset_r(rows)->grid;
    int64_t kept = kept_elems(s);
    vnpu_addr_t scratch;
    vnpu_status_t status = vnpu_mem_alloc(
        s->context->device, (size_t)(parts * kept) * vnpu_dtype_bytes(compute_dtype(s)), &scratch);
    if (status != VNPU_OK) return kern_fail_driver(s->context, status, "reduce: scratch");
    stage_t first = *s, second = *s;
    first.to_scratch = true;
    first.dtype[OUT] = second.dtype[IN] = compute_dtype(s);
    first.address[OUT] = second.address[IN] = scratch;
    first.post = POST_NONE;
    second.map = VNPU_U_COPY;
    int64_t dense = 1;
    for (uint32_t d = s->kept; d-- > 0;) {
        first.iter.stride[OUT][d] = second.iter.stride[IN][d] = dense;
        dense *= s->iter.size[d];
    }
    second.iter.size[s->kept] = parts;
    second.iter.stride[IN][s->kept] = kept;
    status = launch(&first);
    if (status == VNPU_OK) status = launch(&second);
    vnpu_status_t freed = vnpu_mem_free(s->context->device, scratch);
    if (status == VNPU_OK && freed != VNPU_OK)
        status = kern_fail_driver(s->context, freed, "reduce: scratch");
    return status;
}

static vnpu_status_t run(const stage_t *s) {
    int64_t part;
    int32_t cut = kern_rowset_cut(&s->iter, s->kept, &part);
    if (cut == -2)
        return kern_fail(s->context, VNPU_ERROR_UNSUPPORTED,
                         "reduce: a row of %lld elements is too long",
                         (long long)s->iter.size[s->kept]);
    if (cut < 0) {
        stage_t probe = *s;
        kern_rowset_t rows;
        probe.to_scratch = kept_elems(s) < s->context->machine.workers;
        if (probe.to_scratch && plan(&probe, &rows) && kern_rowset_r(&rows)->grid > 1)
            return run_split(s, &rows);
        return launch(s);
    }
    for (int64_t at = 0; at < s->iter.size[cut]; at += part) {
        stage_t piece = *s;
        int64_t left = s->iter.size[cut] - at;
        piece.iter.size[cut] = left < part ? left : part;
        for (int i = IN; i <= OUT; i++)
            piece.address[i] +=
                (uint64_t)(at * s->iter.stride[i][cut]) * vnpu_dtype_bytes(s->dtype[i]);
        if (piece.iter.size[cut] == 1 && s->kept > 1) { /* drop it */
            for (uint32_t d = (uint32_t)cut; d < s->kept; d++) {
                piece.iter.size[d] = s->iter.size[d + 1];
                for (int i = IN; i <= OUT; i++)
                    piece.iter.stride[i][d] = s->iter.stride[i][d + 1];
            }
            piece.kept--;
        }
        vnpu_status_t status = run(&piece);
        if (status != VNPU_OK) return status;
    }
    return VNPU_OK;
}

/* ---- calls ---- */

typedef struct recipe {
    vnpu_reduce_t func;
    vnpu_unary_t map;
    post_t post;
} recipe_t;

static const recipe_t recipes[] = {
    [KERN_SUM] = {VNPU_R_ADD, VNPU_U_COPY, POST_NONE},
    [KERN_MEAN] = {VNPU_R_ADD, VNPU_U_COPY, POST_DIVIDE},
    [KERN_AMAX] = {VNPU_R_MAX, VNPU_U_COPY, POST_NONE},
    [KERN_AMIN] = {VNPU_R_MIN, VNPU_U_COPY, POST_NONE},
    [KERN_PROD] = {VNPU_R_MUL, VNPU_U_COPY, POST_NONE},
    [KERN_ANY] = {VNPU_R_MAX, VNPU_U_NE0, POST_NONE},
    [KERN_ALL] = {VNPU_R_MIN, VNPU_U_NE0, POST_NONE},
    [KERN_NORM2] = {VNPU_R_ADD, VNPU_U_SQUARE, POST_SQRT},
};

/* The result of no elements at all. */
static vnpu_status_t fill_empty(kern_context_t *context, vnpu_stream_t stream,
                                kern_reduction_t kind, const kern_tensor_t *out) {
    switch (kind) {
    case KERN_SUM:
    case KERN_NORM2:
    case KERN_ANY: return kern_fill(context, stream, out, 0, 0);
    case KERN_PROD:
    case KERN_ALL: return kern_fill(context, stream, out, 1, 1);
    case KERN_MEAN: return kern_fill(context, stream, out, __builtin_nan(""), 0);
    case KERN_AMAX:
    case KERN_AMIN: break;
    }
    return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                     "reduce: maximum or minimum of no elements");
}

/* Nothing is reduced: a pointwise map. */
static vnpu_status_t run_map(kern_context_t *context, vnpu_stream_t stream, kern_reduction_t kind,
                             const kern_tensor_t *out, const kern_tensor_t *in) {
    vnpu_unary_t func = VNPU_U_COPY;
    if (kind == KERN_ANY || kind == KERN_ALL) func = VNPU_U_NE0;
    if (kind == KERN_NORM2) func = VNPU_U_ABS;
    kern_pointwise_t call = {.name = "reduce_one",
                             .out = *out,
                             .num_inputs = 1,
                             .input = {*in},
                             .is_integer = !kern_dtype_is_float(in->dtype) &&
                                           !kern_dtype_is_float(out->dtype),
                             .num_nodes = 1,
                             .node = {{KERN_NODE_UNARY, (uint8_t)func, {KERN_INPUT(0), 0, 0}}}};
    return kern_pointwise(context, stream, &call);
}

/* Several dimensions that do not continue each other: the last of them first, the rest from a
 * scratch tensor. */
static vnpu_status_t run_dims(const stage_t *recipe, const kern_tensor_t *out,
                              const kern_tensor_t *in, uint32_t mask) {
    const kern_tensor_t *operand[2] = {in, out};
    stage_t s = *recipe;
    s.dtype[IN] = in->dtype;
    s.address[IN] = in->address;
    s.dtype[OUT] = out->dtype;
    s.address[OUT] = out->address;
    if (kern_rowset_iter(operand, 2, mask, &s.iter, &s.kept)) return run(&s);
    uint32_t last = 31u - (uint32_t)__builtin_clz(mask);
    kern_tensor_t middle = {.dtype = compute_dtype(recipe), .ndims = in->ndims};
    int64_t elems = 1;
    for (uint32_t d = in->ndims; d-- > 0;) {
        middle.size[d] = d == last ? 1 : in->size[d];
        middle.stride[d] = elems;
        elems *= middle.size[d];
    }
    vnpu_status_t status = vnpu_mem_alloc(
        s.context->device, (size_t)elems * vnpu_dtype_bytes(middle.dtype), &middle.address);
    if (status != VNPU_OK) return kern_fail_driver(s.context, status, "reduce: scratch");
    stage_t first = *recipe, rest = *recipe;
    first.post = POST_NONE;
    rest.map = VNPU_U_COPY;
    status = run_dims(&first, &middle, in, 1u << last);
    if (status == VNPU_OK) status = run_dims(&rest, out, &middle, mask & ~(1u << last));
    vnpu_status_t freed = vnpu_mem_free(s.context->device, middle.address);
    if (status == VNPU_OK && freed != VNPU_OK)
        status = kern_fail_driver(s.context, freed, "reduce: scratch");
    return status;
}

static vnpu_status_t check_call(kern_context_t *context, kern_reduction_t kind,
                                const kern_tensor_t *out, const kern_tensor_t *in,
                                uint32_t dim_mask) {
    vnpu_status_t status = kern_check_output(context, "reduce", out);
    if (status == VNPU_OK) status = kern_check_tensor(context, "reduce", "in", in);
    if (status != VNPU_OK) return status;
    if ((unsigned)kind > KERN_NORM2)
        return kern_fail(context, VNPU_ERROR_INVALID_VALUE, "reduce: kind %d", (int)kind);
    bool is_right =
        out->ndims == in->ndims && (in->ndims == KERN_MAX_DIMS || dim_mask >> in->ndims == 0);
    for (uint32_t d = 0; d < in->ndims && is_right; d++)
        is_right = out->size[d] == (dim_mask >> d & 1u ? 1 : in->size[d]);
    if (is_right) return VNPU_OK;
    char a[160], b[160];
    return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                     "reduce: in %s over mask 0x%x does not give out %s",
                     kern_describe(in, a, sizeof a), dim_mask, kern_describe(out, b, sizeof b));
}

static vnpu_status_t run_reduce(kern_context_t *context, vnpu_stream_t stream,
                                kern_reduction_t kind, const kern_tensor_t *out,
                                const kern_tensor_t *in, uint32_t dim_mask) {
    vnpu_status_t status = check_call(context, kind, out, in, dim_mask);
    if (status != VNPU_OK || kern_numel(out) == 0) return status;
    int64_t reduced = 1;
    uint32_t mask = 0;
    for (uint32_t d = 0; d < in->ndims; d++) {
        if (!(dim_mask >> d & 1u)) continue;
        reduced *= in->size[d];
        if (in->size[d] > 1) mask |= 1u << d;
    }
    if (reduced == 0) return fill_empty(context, stream, kind, out);
    if (mask == 0) return run_map(context, stream, kind, out, in);
    stage_t recipe = {.context = context,
                      .stream = stream,
                      .func = recipes[kind].func,
                      .map = recipes[kind].map,
                      .post = recipes[kind].post,
                      .divisor = (double)reduced,
                      .is_integer =
                          !kern_dtype_is_float(in->dtype) && !kern_dtype_is_float(out->dtype)};
    return run_dims(&recipe, out, in, mask);
}

vnpu_status_t kern_reduce(kern_context_t *context, vnpu_stream_t stream, kern_reduction_t kind,
                          const kern_tensor_t *out, const kern_tensor_t *in, uint32_t dim_mask) {
    uint32_t before = kern_class_enter(context, VNPU_DTYPE_NONE);
    vnpu_status_t status = run_reduce(context, stream, kind, out, in, dim_mask);
    kern_class_leave(context, before);
    return status;
}
