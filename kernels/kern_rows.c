#include "kernels/kern_rows.h"

#include <string.h>

#include "kernels/kern_profile.h"

/* ---- pieces of programs ---- */

static uint32_t operand_buffers(const kern_rows_coder_t *c, uint32_t operand) {
    bool is_column = operand == ROWS_WEIGHT || operand == ROWS_BIAS;
    bool is_row = operand == ROWS_MEAN || operand == ROWS_RSTD;
    if (is_column && !c->has_passes) return 1;
    if (is_row && c->has_passes) return 1;
    return c->rows->nest.buffers;
}

uint16_t kern_rows_operand(const kern_rows_coder_t *c, uint32_t operand, kern_shape_t shape) {
    vnpu_ap_t ap =
        kern_rowset_ap(c->rows, VNPU_SPACE_SRAM, c->call->dtype[operand], c->sram[operand], shape,
                       c->rows->nest.inner, operand_buffers(c, operand));
    return kern_ap(c->builder, &ap);
}

uint16_t kern_rows_local(const kern_rows_coder_t *c, uint32_t base, kern_shape_t shape) {
    vnpu_ap_t ap = kern_rowset_ap(c->rows, VNPU_SPACE_SRAM, VNPU_F32, base, shape, VNPU_NO_LOOP, 1);
    return kern_ap(c->builder, &ap);
}

vnpu_insn_t *kern_rows_unary(const kern_rows_coder_t *c, uint8_t func, uint16_t dst, uint16_t src) {
    vnpu_insn_t *insn = kern_emit(c->builder, KERN_VECTOR, VNPU_OP_V_UNARY);
    insn->func = func;
    insn->dst = dst;
    insn->src[0] = src;
    return insn;
}

vnpu_insn_t *kern_rows_binary(const kern_rows_coder_t *c, uint8_t func, uint16_t dst, uint16_t a,
                              uint16_t b) {
    vnpu_insn_t *insn = kern_emit(c->builder, KERN_VECTOR, VNPU_OP_V_BINARY);
    insn->func = func;
    insn->dst = dst;
    insn->src[0] = a;
    insn->src[1] = b;
    return insn;
}

vnpu_insn_t *kern_rows_reduce(const kern_rows_coder_t *c, uint8_t func, uint8_t map, uint32_t base,
                              uint16_t src) {
    uint8_t r = kern_rowset_r_mask(c->rows);
    if (r != 0) {
        vnpu_insn_t *reduce = kern_emit(c->builder, KERN_VECTOR, VNPU_OP_V_REDUCE);
        reduce->func = func;
        reduce->func2 = map;
        reduce->flags = VNPU_F_PARTIAL;
        reduce->not_first = r;
        reduce->src[0] = src;
        reduce->dst = kern_rows_local(c, c->partial, KERN_PARTIAL);
        uint32_t at = kern_last(c->builder, KERN_VECTOR);
        vnpu_insn_t *fold = kern_emit(c->builder, KERN_VECTOR, VNPU_OP_V_FOLD);
        fold->func = func;
        fold->src[0] = kern_rows_local(c, c->partial, KERN_PARTIAL);
        fold->dst = kern_rows_local(c, base, KERN_ROW);
        fold->last_only = r;
        return kern_insn(c->builder, KERN_VECTOR, at);
    }
    vnpu_insn_t *insn = kern_emit(c->builder, KERN_VECTOR, VNPU_OP_V_REDUCE);
    insn->func = func;
    insn->func2 = map;
    insn->src[0] = src;
    insn->dst = kern_rows_local(c, base, KERN_ROW);
    return insn;
}

static vnpu_insn_t *load_one(const kern_rows_coder_t *c, uint32_t operand, kern_shape_t shape) {
    kern_rowset_move_t move = {KERN_LOAD,
                               shape,
                               c->call->dtype[operand],
                               c->call->dtype[operand],
                               c->arg[operand],
                               c->call->iter.stride[operand],
                               c->sram[operand],
                               c->rows->nest.inner,
                               operand_buffers(c, operand)};
    return kern_rowset_emit_move(c->rows, c->builder, &move);
}

uint32_t kern_rows_load(const kern_rows_coder_t *c, bool columns) {
    vnpu_insn_t *insn = load_one(c, ROWS_IN, KERN_TILE);
    kern_wait(insn, c->in.free, 1);
    kern_signal(insn, c->in.full, 1);
    uint32_t loads = 1;
    for (uint32_t o = ROWS_WEIGHT; o <= ROWS_BIAS && columns && c->has_passes; o++) {
        if (!c->call->has[o]) continue;
        kern_signal(load_one(c, o, KERN_COLUMN_B), c->in.full, 1);
        loads++;
    }
    return loads;
}

/* ---- programs ---- */

static bool is_f32_tile(uint32_t operand) {
    return operand == ROWS_IN || operand == ROWS_OUT;
}

/* In place: an element of the buffer that input and results share; f32 work lies there too, unless
 * one of them is narrower. */
static uint32_t shared_bytes(const kern_rows_t *call) {
    uint32_t in = vnpu_dtype_bytes(call->dtype[ROWS_IN]),
             out = vnpu_dtype_bytes(call->dtype[ROWS_OUT]);
    return in > out ? in : out;
}

static bool shares_work(const kern_rows_t *call) {
    return call->dtype[ROWS_IN] == VNPU_F32 && call->dtype[ROWS_OUT] == VNPU_F32;
}

static bool plan_in_place(const kern_rows_t *call, const kern_rowset_need_t *ordinary,
                          kern_rowset_t *rows) {
    const vnpu_machine_t *machine = &call->context->machine;
    if (call->kind != KERN_ROWS_LAYER_NORM || !kern_profile_of(machine)->norm_in_place)
        return false;
    kern_rowset_need_t need = *ordinary;
    need.has_one_buffer = true;
    need.elem_bytes = shared_bytes(call) + (shares_work(call) ? 0 : 4);
    return kern_rowset_plan(machine, &call->iter, call->kept, &need, false, true, rows) &&
           kern_rowset_r_mask(rows) == 0;
}

static bool plan(const kern_rows_t *call, kern_rowset_t *rows, bool *out_in_place) {
    kern_rowset_need_t need = {.elem_bytes = 2 * (vnpu_dtype_bytes(call->dtype[ROWS_IN]) +
                                                  vnpu_dtype_bytes(call->dtype[ROWS_OUT])) +
                                             4,
                               .row_bytes = 4 * VNPU_PARTIALS + 2 * 4 + 4 * 4,
                               .fixed_bytes = 2048};
    if (call->kind == KERN_ROWS_LOG_SOFTMAX) need.elem_bytes += 4;
    for (uint32_t o = ROWS_WEIGHT; o <= ROWS_BIAS; o++) {
        if (call->has[o]) need.column_bytes += 2 * vnpu_dtype_bytes(call->dtype[o]);
    }
    *out_in_place = plan_in_place(call, &need, rows);
    if (*out_in_place) return true;
    return kern_rowset_plan(&call->context->machine, &call->iter, call->kept, &need, false, true,
                            rows);
}

static kern_shape_t shape_of(uint32_t operand) {
    if (is_f32_tile(operand)) return KERN_TILE;
    return operand == ROWS_WEIGHT || operand == ROWS_BIAS ? KERN_COLUMN_B : KERN_ROW;
}

static void declare(kern_rows_coder_t *c) {
    const kern_rows_t *call = c->call;
    uint64_t elems = kern_rowset_pitch(c->rows, VNPU_F32, KERN_TILE), tile = elems * 4;
    for (uint32_t o = 0; o < ROWS_OPERANDS; o++) {
        if (!call->has[o]) continue;
        bool is_read = o == ROWS_IN || o == ROWS_WEIGHT || o == ROWS_BIAS;
        c->arg[o] = kern_arg(c->builder, is_read ? VNPU_ARG_IN : VNPU_ARG_OUT);
        if (c->in_place && is_f32_tile(o)) continue;
        c->sram[o] =
            kern_sram(c->builder, kern_rowset_pitch(c->rows, call->dtype[o], shape_of(o)) *
                                      vnpu_dtype_bytes(call->dtype[o]) * operand_buffers(c, o));
    }
    if (c->in_place)
        c->sram[ROWS_IN] = c->sram[ROWS_OUT] = kern_sram(c->builder, elems * shared_bytes(call));
    bool has_work = !c->in_place || !shares_work(call);
    c->work = has_work ? kern_sram(c->builder, tile) : c->sram[ROWS_IN];
    c->spare = call->kind == KERN_ROWS_LOG_SOFTMAX ? kern_sram(c->builder, tile) : c->work;
    c->partial = kern_sram(c->builder, kern_rowset_pitch(c->rows, VNPU_F32, KERN_PARTIAL) * 4);
    for (int i = 0; i < 2; i++)
        c->row[i] = kern_sram(c->builder, kern_rowset_pitch(c->rows, VNPU_F32, KERN_ROW) * 4);
    c->in = kern_ring(c->builder, KERN_VECTOR, c->rows->nest.buffers);
    c->out = kern_ring(c->builder, KERN_STORE, c->rows->nest.buffers);
    c->fixed = kern_sem(c->builder);
}

static void store_one(const kern_rows_coder_t *c, uint32_t operand, kern_ring_t ring) {
    kern_rowset_move_t move = {KERN_STORE,
                               shape_of(operand),
                               c->call->dtype[operand],
                               c->call->dtype[operand],
                               c->arg[operand],
                               c->call->iter.stride[operand],
                               c->sram[operand],
                               c->rows->nest.inner,
                               operand_buffers(c, operand)};
    vnpu_insn_t *insn = kern_rowset_emit_move(c->rows, c->builder, &move);
    kern_wait(insn, ring.full, 1);
    kern_signal(insn, ring.free, 1);
    if (operand == ROWS_OUT && c->in_place) kern_signal(insn, c->in.free, 1);
}

/* Means and reciprocal deviations of a tile of rows go out as vectors, through a ring of their own.
 */
static void emit_statistics(const kern_rows_coder_t *c, const kern_ring_t ring[2]) {
    for (uint32_t o = ROWS_MEAN; o <= ROWS_RSTD; o++) {
        if (!c->call->has[o]) continue;
        vnpu_insn_t *insn = kern_rows_unary(c, VNPU_U_COPY, kern_rows_operand(c, o, KERN_ROW),
                                            kern_rows_local(c, c->row[o - ROWS_MEAN], KERN_ROW));
        kern_wait(insn, ring[o - ROWS_MEAN].free, 1);
        kern_signal(insn, ring[o - ROWS_MEAN].full, 1);
        store_one(c, o, ring[o - ROWS_MEAN]);
    }
}

static void generate(const kern_rows_t *call, const kern_rowset_t *rows, bool in_place,
                     kern_builder_t *builder) {
    kern_rows_coder_t c = {.call = call,
                           .rows = rows,
                           .builder = builder,
                           .in_place = in_place,
                           .has_passes = kern_rowset_r_mask(rows) != 0};
    declare(&c);
    kern_ring_t statistics[2];
    for (uint32_t o = ROWS_MEAN; o <= ROWS_RSTD; o++) {
        if (call->has[o])
            statistics[o - ROWS_MEAN] = kern_ring(builder, KERN_STORE, operand_buffers(&c, o));
    }
    uint32_t fixed = 0;
    for (uint32_t o = ROWS_WEIGHT; o <= ROWS_BIAS && !c.has_passes; o++) {
        if (!call->has[o]) continue;
        kern_signal(load_one(&c, o, KERN_COLUMN_B), c.fixed, 1);
        fixed++;
    }
    if (fixed > 0) kern_sync_wait(builder, KERN_VECTOR, c.fixed, fixed);
    kern_rowset_open_kept(rows, builder);
    if (call->kind == KERN_ROWS_LAYER_NORM) {
        kern_layer_norm_generate(&c);
    } else {
        kern_softmax_generate(&c);
    }
    if (!c.has_passes) store_one(&c, ROWS_OUT, c.out);
    emit_statistics(&c, statistics);
    kern_rowset_close_kept(rows, builder);
}

/* ---- launches ---- */

static const char *name_of(const kern_rows_t *call) {
    static const char *const name[] = {"softmax", "log_softmax", "layer_norm"};
    return name[call->kind];
}

static void make_key(const kern_rows_t *call, kern_key_t *key) {
    kern_key_init(key, name_of(call));
    kern_key_add_u64(key, kern_f32_bits(call->eps));
    for (uint32_t o = 0; o < ROWS_OPERANDS; o++) {
        kern_key_add_u64(key, call->has[o] ? call->dtype[o] : 0);
        for (uint32_t d = 0; d <= call->kept && call->has[o]; d++)
            kern_key_add_u64(key, (uint64_t)call->iter.stride[o][d]);
    }
    for (uint32_t d = 0; d <= call->kept; d++)
        kern_key_add_u64(key, (uint64_t)call->iter.size[d]);
}

static vnpu_status_t launch(const kern_rows_t *call) {
    kern_key_t key;
    make_key(call, &key);
    const kern_entry_t *entry = kern_cache_find(&call->context->cache, &key);
    if (!entry) {
        kern_rowset_t rows;
        bool in_place;
        if (!plan(call, &rows, &in_place))
            return kern_fail(call->context, VNPU_ERROR_UNSUPPORTED, "%s: no tile fits the SRAM",
                             name_of(call));
        kern_builder_t builder;
        kern_builder_init(&builder, &call->context->machine, name_of(call));
        generate(call, &rows, in_place, &builder);
        vnpu_status_t status =
            kern_add_program(call->context, &key, &builder, rows.nest.grid, &entry);
        kern_builder_fini(&builder);
        if (status != VNPU_OK) return status;
    }
    uint64_t args[ROWS_OPERANDS];
    uint32_t count = 0;
    for (uint32_t o = 0; o < ROWS_OPERANDS; o++) {
        if (call->has[o]) args[count++] = call->address[o];
    }
    return kern_launch(call->context, call->stream, entry, args, count);
}

static void drop_dim(kern_rows_t *call, uint32_t dim) {
    for (uint32_t d = dim; d < call->kept; d++) {
        call->iter.size[d] = call->iter.size[d + 1];
        for (uint32_t o = 0; o < ROWS_OPERANDS; o++)
            call->iter.stride[o][d] = call->iter.stride[o][d + 1];
    }
    call->kept--;
}

static vnpu_status_t run(const kern_rows_t *call) {
    int64_t part;
    int32_t cut = kern_rowset_cut(&call->iter, call->kept, &part);
    if (cut == -2)
        return kern_fail(call->context, VNPU_ERROR_UNSUPPORTED,
                         "%s: a row of %lld elements is too long", name_of(call),
                         (long long)call->iter.size[call->kept]);
    if (cut < 0) return launch(call);
    for (int64_t at = 0; at < call->iter.size[cut]; at += part) {
        kern_rows_t piece = *call;
        int64_t left = call->iter.size[cut] - at;
        piece.iter.size[cut] = left < part ? left : part;
        for (uint32_t o = 0; o < ROWS_OPERANDS; o++) {
            if (call->has[o])
                piece.address[o] +=
                    (uint64_t)(at * call->iter.stride[o][cut]) * vnpu_dtype_bytes(call->dtype[o]);
        }
        if (piece.iter.size[cut] == 1 && call->kept > 1) drop_dim(&piece, (uint32_t)cut);
        vnpu_status_t status = run(&piece);
        if (status != VNPU_OK) return status;
    }
    return VNPU_OK;
}

/* ---- calls ---- */

static vnpu_status_t check_pair(kern_context_t *context, const char *name, const kern_tensor_t *out,
                                const kern_tensor_t *in) {
    vnpu_status_t status = kern_check_output(context, name, out);
    if (status == VNPU_OK) status = kern_check_tensor(context, name, "in", in);
    if (status != VNPU_OK) return status;
    char a[160], b[160];
    if (!kern_same_sizes(out, in))
        return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                         "%s: in is %s, out is %s: sizes must agree", name,
                         kern_describe(in, a, sizeof a), kern_describe(out, b, sizeof b));
    if (!kern_dtype_is_float(in->dtype) || !kern_dtype_is_float(out->dtype))
        return kern_fail(context, VNPU_ERROR_UNSUPPORTED, "%s: %s to %s: floats are needed", name,
                         kern_describe(in, a, sizeof a), kern_describe(out, b, sizeof b));
    return VNPU_OK;
}

static void set_operand(kern_rows_t *call, uint32_t operand, const kern_tensor_t *tensor) {
    call->has[operand] = true;
    call->dtype[operand] = tensor->dtype;
    call->address[operand] = tensor->address;
}

static vnpu_status_t run_softmax(kern_context_t *context, vnpu_stream_t stream,
                                 const kern_tensor_t *out, const kern_tensor_t *in, uint32_t dim,
                                 bool is_log) {
    vnpu_status_t status = check_pair(context, "softmax", out, in);
    if (status != VNPU_OK || kern_numel(out) == 0) return status;
    kern_tensor_t one[2] = {*out, *in}; /* a 0-dim tensor is a row of one */
    for (int i = 0; i < 2 && in->ndims == 0; i++) {
        one[i].ndims = 1;
        one[i].size[0] = one[i].stride[0] = 1;
    }
    if (dim >= one[0].ndims)
        return kern_fail(context, VNPU_ERROR_INVALID_VALUE, "softmax: dimension %u of %u", dim,
                         one[0].ndims);
    if (kern_profile_of(&context->machine)->splits_softmax)
        return kern_softmax_split(context, stream, &one[0], &one[1], dim, is_log);
    kern_rows_t call = {.context = context,
                        .stream = stream,
                        .kind = is_log ? KERN_ROWS_LOG_SOFTMAX : KERN_ROWS_SOFTMAX};
    const kern_tensor_t *operand[2] = {&one[1], &one[0]};
    set_operand(&call, ROWS_IN, in);
    set_operand(&call, ROWS_OUT, out);
    if (!kern_rowset_iter(operand, 2, 1u << dim, &call.iter, &call.kept))
        return kern_fail(context, VNPU_ERROR_UNSUPPORTED, "softmax: too many dimensions");
    return run(&call);
}

vnpu_status_t kern_softmax(kern_context_t *context, vnpu_stream_t stream, const kern_tensor_t *out,
                           const kern_tensor_t *in, uint32_t dim, bool is_log) {
    uint32_t before = kern_class_enter(context, VNPU_DTYPE_NONE);
    vnpu_status_t status = run_softmax(context, stream, out, in, dim, is_log);
    kern_class_leave(context, before);
    return status;
}

/* The parameter over the normalised dimensions only, seen with the input's dimensions. */
static vnpu_status_t spread(kern_context_t *context, const kern_tensor_t *in,
                            const kern_tensor_t *small, bool is_column, uint32_t norm_dims,
                            const char *name, kern_tensor_t *out) {
    uint32_t kept = in->ndims - norm_dims, first = is_column ? kept : 0,
             count = is_column ? norm_dims : kept;
    vnpu_status_t status = kern_check_tensor(context, "layer_norm", name, small);
    if (status != VNPU_OK) return status;
    *out = *small;
    out->ndims = in->ndims;
    bool is_right = small->ndims == count || (!is_column && small->ndims == in->ndims);
    for (uint32_t d = 0; d < in->ndims; d++) {
        bool has_dim = d >= first && d < first + count;
        out->size[d] = has_dim ? in->size[d] : 1;
        out->stride[d] = has_dim && is_right ? small->stride[d - first] : 0;
        is_right = is_right && (!has_dim || small->size[d - first] == in->size[d]);
    }
    char a[160], b[160];
    if (!is_right || !kern_dtype_is_float(small->dtype))
        return kern_fail(
            context, VNPU_ERROR_INVALID_VALUE, "layer_norm: %s is %s for in %s over %u dimensions",
            name, kern_describe(small, a, sizeof a), kern_describe(in, b, sizeof b), norm_dims);
    return VNPU_OK;
}

static kern_tensor_t dense_like(const kern_tensor_t *tensor) {
    kern_tensor_t dense = *tensor;
    int64_t elems = 1;
    for (uint32_t d = dense.ndims; d-- > 0;) {
        dense.stride[d] = elems;
        elems *= dense.size[d];
    }
    dense.address = 0;
    return dense;
}

typedef struct norm_call {
    const kern_tensor_t *small[4]; /* weight, bias, mean, rstd, or NULL */
    uint32_t norm_dims;
    double eps;
} norm_call_t;

static vnpu_status_t layer_norm(kern_context_t *context, vnpu_stream_t stream,
                                const kern_tensor_t *out, const kern_tensor_t *in,
                                const norm_call_t *norm, bool *out_is_direct) {
    static const char *const name[4] = {"weight", "bias", "mean", "rstd"};
    kern_rows_t call = {.context = context,
                        .stream = stream,
                        .kind = KERN_ROWS_LAYER_NORM,
                        .eps = (float)norm->eps};
    kern_tensor_t spread_out[4], nothing = {.dtype = VNPU_F32, .ndims = in->ndims};
    const kern_tensor_t *operand[ROWS_OPERANDS] = {in, out};
    for (uint32_t d = 0; d < in->ndims; d++)
        nothing.size[d] = 1;
    set_operand(&call, ROWS_IN, in);
    set_operand(&call, ROWS_OUT, out);
    for (uint32_t i = 0; i < 4; i++) {
        operand[ROWS_WEIGHT + i] = &nothing;
        if (!norm->small[i]) continue;
        vnpu_status_t status =
            spread(context, in, norm->small[i], i < 2, norm->norm_dims, name[i], &spread_out[i]);
        if (status != VNPU_OK) return status;
        set_operand(&call, ROWS_WEIGHT + i, norm->small[i]);
        operand[ROWS_WEIGHT + i] = &spread_out[i];
    }
    uint32_t mask = ((1u << norm->norm_dims) - 1u) << (in->ndims - norm->norm_dims);
    *out_is_direct = kern_rowset_iter(operand, ROWS_OPERANDS, mask, &call.iter, &call.kept);
    return *out_is_direct ? run(&call) : VNPU_OK;
}

/* Normalised dimensions that do not continue each other: by way of dense copies. */
static vnpu_status_t layer_norm_dense(kern_context_t *context, vnpu_stream_t stream,
                                      const kern_tensor_t *out, const kern_tensor_t *in,
                                      const norm_call_t *norm) {
    kern_tensor_t dense_in = dense_like(in), dense_out = dense_like(out);
    size_t elems = (size_t)kern_numel(in);
    vnpu_status_t status =
        vnpu_mem_alloc(context->device, elems * vnpu_dtype_bytes(in->dtype), &dense_in.address);
    if (status == VNPU_OK)
        status = vnpu_mem_alloc(context->device, elems * vnpu_dtype_bytes(out->dtype),
                                &dense_out.address);
    if (status != VNPU_OK) {
        status = kern_fail_driver(context, status, "layer_norm: scratch");
    } else {
        bool is_direct = false;
        status = kern_copy(context, stream, &dense_in, in);
        if (status == VNPU_OK)
            status = layer_norm(context, stream, &dense_out, &dense_in, norm, &is_direct);
        if (status == VNPU_OK && !is_direct)
            status = kern_fail(context, VNPU_ERROR_UNSUPPORTED,
                               "layer_norm: weight or bias is not contiguous");
        if (status == VNPU_OK) status = kern_copy(context, stream, out, &dense_out);
    }
    vnpu_status_t freed = vnpu_mem_free(context->device, dense_in.address);
    if (freed == VNPU_OK) freed = vnpu_mem_free(context->device, dense_out.address);
    if (status == VNPU_OK && freed != VNPU_OK)
        status = kern_fail_driver(context, freed, "layer_norm: scratch");
    return status;
}

static vnpu_status_t run_layer_norm(kern_context_t *context, vnpu_stream_t stream,
                                    const kern_tensor_t *out, const kern_tensor_t *in,
                                    const kern_tensor_t *weight, const kern_tensor_t *bias,
                                    const kern_tensor_t *mean, const kern_tensor_t *rstd,
                                    uint32_t norm_dims, double eps) {
    vnpu_status_t status = check_pair(context, "layer_norm", out, in);
    if (status != VNPU_OK) return status;
    if (norm_dims == 0 || norm_dims > in->ndims || !((float)eps >= 0))
        return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                         "layer_norm: %u of %u dimensions, eps %g", norm_dims, in->ndims, eps);
    if (kern_numel(in) == 0) return VNPU_OK;
    norm_call_t norm = {{weight, bias, mean, rstd}, norm_dims, eps};
    bool is_direct = false;
    status = layer_norm(context, stream, out, in, &norm, &is_direct);
    if (status != VNPU_OK || is_direct) return status;
    return layer_norm_dense(context, stream, out, in, &norm);
}

vnpu_status_t kern_layer_norm(kern_context_t *context, vnpu_stream_t stream,
                              const kern_tensor_t *out, const kern_tensor_t *in,
                              const kern_tensor_t *weight, const kern_tensor_t *bias,
                              const kern_tensor_t *mean, const kern_tensor_t *rstd,
                              uint32_t norm_dims, double eps) {
    uint32_t before = kern_class_enter(context, VNPU_DTYPE_NONE);
    vnpu_status_t status =
        run_layer_norm(context, stream, out, in, weight, bias, mean, rstd, norm_dims, eps);
    kern_class_leave(context, before);
    return status;
}
