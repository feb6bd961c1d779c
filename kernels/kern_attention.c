#include "kernels/kern_attention.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- shared pieces ---- */

void kern_attention_args(kern_builder_t *builder, const kern_attention_shape_t *shape) {
    for (uint32_t a = 0; a < ATT_ARG_COUNT; a++) {
        vnpu_arg_kind_t kind =
            VNPU_ARG_SCALAR; /* an absent operand is a scalar that nothing reads */
        if (a == ATT_ARG_Q || a == ATT_ARG_K || a == ATT_ARG_V) kind = VNPU_ARG_IN;
        if (a == ATT_ARG_OUT) kind = VNPU_ARG_OUT;
        if (a == ATT_ARG_MASK && shape->has_mask) kind = VNPU_ARG_IN;
        if (a == ATT_ARG_LSE && shape->has_lse) kind = VNPU_ARG_OUT;
        (void)kern_arg(builder, kind);
    }
}

vnpu_insn_t *kern_attention_unary(kern_builder_t *builder, uint8_t func, uint16_t dst,
                                  uint16_t src) {
    vnpu_insn_t *insn = kern_emit(builder, KERN_VECTOR, VNPU_OP_V_UNARY);
    insn->func = func;
    insn->dst = dst;
    insn->src[0] = src;
    return insn;
}

vnpu_insn_t *kern_attention_binary(kern_builder_t *builder, uint8_t func, uint16_t dst, uint16_t a,
                                   uint16_t b) {
    vnpu_insn_t *insn = kern_emit(builder, KERN_VECTOR, VNPU_OP_V_BINARY);
    insn->func = func;
    insn->dst = dst;
    insn->src[0] = a;
    insn->src[1] = b;
    return insn;
}

vnpu_insn_t *kern_attention_maximum(kern_builder_t *builder, uint16_t dst, uint16_t src) {
    vnpu_insn_t *insn = kern_emit(builder, KERN_VECTOR, VNPU_OP_V_REDUCE);
    insn->func = VNPU_R_MAX;
    insn->dst = dst;
    insn->src[0] = src;
    return insn;
}

vnpu_insn_t *kern_attention_scale(kern_builder_t *builder, const kern_attention_shape_t *shape,
                                  const kern_attention_lane_t *lane) {
    vnpu_insn_t *insn = kern_attention_binary(builder, VNPU_B_MUL, lane->work, lane->scores,
                                              lane->constant[ATT_ARG_SCALE]);
    uint32_t at = kern_last(builder, KERN_VECTOR);
    if (shape->has_mask) {
        insn->func2 = VNPU_B_ADD;
        insn->src[2] = lane->mask;
    }
    if (shape->is_causal) {
        vnpu_insn_t *select = kern_emit(builder, KERN_VECTOR, VNPU_OP_V_SELECT);
        select->dst = lane->work;
        select->src[0] = lane->outside;
        select->src[1] = lane->constant[ATT_ARG_NEG_INF];
        select->src[2] = lane->work;
    }
    return kern_insn(builder, KERN_VECTOR, at);
}

/* What is read again and again comes outermost, so that runs stay long. */
static int64_t order_key(int64_t stride) {
    return stride == 0 ? INT64_MAX : stride;
}

vnpu_insn_t *kern_attention_emit_move(kern_builder_t *builder, const kern_attention_move_t *move) {
    uint32_t order[VNPU_MAX_DIMS];
    for (uint32_t i = 0; i < move->count; i++) {
        uint32_t at = i;
        for (; at > 0 && order_key(move->far[order[at - 1]]) < order_key(move->far[i]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    kern_term_t far[VNPU_MAX_DIMS], near[VNPU_MAX_DIMS];
    for (uint32_t i = 0; i < move->count; i++) {
        uint32_t from = order[i];
        far[i] = (kern_term_t){move->axis[from], move->far[from], false};
        near[i] = (kern_term_t){move->axis[from], move->near[from], false};
    }
    int64_t bytes = vnpu_dtype_bytes(move->dtype);
    vnpu_ap_t dram =
        kern_ap_terms(VNPU_SPACE_DRAM, move->dtype, move->far_base * bytes, far, move->count, true);
    vnpu_ap_t sram =
        kern_ap_terms(VNPU_SPACE_SRAM, move->dtype, move->sram, near, move->count, false);
    dram.arg = move->arg;
    kern_ap_rotate(&sram, move->level, move->buffers, move->pitch);
    kern_ap_merge((vnpu_ap_t *[]){&dram, &sram}, 2, 0);
    bool is_turned = sram.ndims > 1 && sram.dim[sram.ndims - 1].stride != 1;
    bool is_store = move->queue == KERN_STORE;
    vnpu_insn_t *insn =
        kern_emit(builder, move->queue, is_turned ? VNPU_OP_DMA_TRANSPOSE : VNPU_OP_DMA_COPY);
    insn->dst = kern_ap(builder, is_store ? &dram : &sram);
    insn->src[0] = kern_ap(builder, is_store ? &sram : &dram);
    return insn;
}

/* ---- launches ---- */

typedef struct call {
    kern_context_t *context;
    vnpu_stream_t stream;
    kern_attention_shape_t shape;
    vnpu_addr_t address[ATT_ARG_LSE + 1];
    float scale;
} call_t;

static void make_key(const kern_attention_shape_t *s, kern_key_t *key) {
    kern_key_init(key, "attention");
    const int64_t sizes[] = {s->batch, s->heads, s->kv_heads, s->queries, s->keys, s->depth};
    kern_key_add(key, sizes, sizeof sizes);
    kern_key_add(key, s->q, sizeof s->q);
    kern_key_add(key, s->k, sizeof s->k);
    kern_key_add(key, s->v, sizeof s->v);
    kern_key_add(key, s->out, sizeof s->out);
    kern_key_add(key, s->mask, sizeof s->mask);
    kern_key_add(key, s->lse, sizeof s->lse);
    kern_key_add_u64(key, (uint64_t)s->dtype | (uint64_t)s->out_dtype << 8 |
                              (uint64_t)s->mask_dtype << 16 | (uint64_t)s->has_mask << 24 |
                              (uint64_t)s->has_lse << 25 | (uint64_t)s->is_causal << 26 |
                              (uint64_t)s->is_direct << 27);
}

static vnpu_status_t build(const call_t *call, const kern_key_t *key,
                           const kern_entry_t **out_entry) {
    *out_entry = NULL;
    kern_context_t *context = call->context;
    const vnpu_machine_t *machine = &context->machine;
    kern_attention_block_t block;
    kern_attention_stream_t stream;
    kern_entry_t entry = {0};
    kern_builder_t builder;
    kern_builder_init(&builder, machine, "attention");
    vnpu_status_t status = VNPU_OK;
    if (kern_attention_block_plan(machine, &call->shape, &block)) {
        kern_attention_block_generate(&call->shape, &block, &builder);
        kern_attention_block_describe(machine, &call->shape, &block, &entry.mapping);
    } else if (kern_attention_stream_plan(machine, &call->shape, &stream)) {
        kern_attention_stream_generate(&call->shape, &stream, &builder);
        kern_attention_stream_describe(machine, &call->shape, &stream, &entry.mapping);
    } else {
        status = kern_fail(
            context, VNPU_ERROR_UNSUPPORTED,
            "attention: no tile of heads of %lld fits %llu bytes of SRAM and %llu of accumulator",
            (long long)call->shape.depth, (unsigned long long)machine->sram_bytes,
            (unsigned long long)machine->acc_bytes);
    }
    memcpy(entry.grid, entry.mapping.chosen.grid, sizeof entry.grid);
    if (status == VNPU_OK) status = kern_load_program(context, &builder, &entry.module);
    kern_builder_fini(&builder);
    if (status != VNPU_OK) return status;
    return kern_keep_program(context, key, &entry, "attention", out_entry);
}

static vnpu_status_t launch(const call_t *call) {
    kern_key_t key;
    make_key(&call->shape, &key);
    const kern_entry_t *entry = kern_cache_find(&call->context->cache, &key);
    if (!entry) {
        vnpu_status_t status = build(call, &key, &entry);
        if (status != VNPU_OK) return status;
    }
    uint64_t args[ATT_ARG_COUNT] = {0};
    memcpy(args, call->address, sizeof call->address);
    args[ATT_ARG_SCALE] = kern_arg_f32(call->scale);
    args[ATT_ARG_NEG_INF] = kern_arg_f32(-INFINITY);
    args[ATT_ARG_LOWEST] = kern_arg_f32(-FLT_MAX);
    args[ATT_ARG_TINY] = kern_arg_f32(FLT_MIN);
    return kern_launch(call->context, call->stream, entry, args, ATT_ARG_COUNT);
}

/* ---- calls ---- */

static bool has_sizes(const kern_tensor_t *t, int64_t b, int64_t h, int64_t s, int64_t d) {
    return t->ndims == 4 && t->size[0] == b && t->size[1] == h && t->size[2] == s &&
           t->size[3] == d;
}

static bool broadcasts(const kern_tensor_t *mask, const kern_attention_shape_t *s) {
    const int64_t want[4] = {s->batch, s->heads, s->queries, s->keys};
    if (mask->ndims > 4) return false;
    for (uint32_t i = 1; i <= mask->ndims; i++) {
        int64_t size = mask->size[mask->ndims - i];
        if (size != want[4 - i] && size != 1) return false;
    }
    return true;
}

static void read_strides(const kern_tensor_t *t, int64_t stride[4]) {
    for (uint32_t i = 1; i <= t->ndims; i++)
        stride[4 - i] = t->size[t->ndims - i] > 1 ? t->stride[t->ndims - i] : 0;
}

static vnpu_status_t check_sizes(kern_context_t *context, const kern_attention_t *call,
                                 const kern_attention_shape_t *s) {
    const kern_tensor_t *lse = &call->logsumexp;
    bool is_right = has_sizes(&call->out, s->batch, s->heads, s->queries, s->depth) &&
                    has_sizes(&call->k, s->batch, s->kv_heads, s->keys, s->depth) &&
                    has_sizes(&call->v, s->batch, s->kv_heads, s->keys, s->depth) &&
                    s->kv_heads > 0 && s->heads % s->kv_heads == 0 &&
                    (!s->has_mask || broadcasts(&call->mask, s)) &&
                    (!s->has_lse || (lse->ndims == 3 && lse->size[0] == s->batch &&
                                     lse->size[1] == s->heads && lse->size[2] == s->queries));
    if (is_right) return VNPU_OK;
    char a[160], b[160];
    return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                     "attention: sizes do not agree: q %s, k %s, mask, out or v",
                     kern_describe(&call->q, a, sizeof a), kern_describe(&call->k, b, sizeof b));
}

/* Products and soft maximum are one program: one class of cores has to have all of it. */
static vnpu_status_t check_functions(kern_context_t *context, vnpu_dtype_t dtype) {
    if (kern_has_attention(context, dtype)) return VNPU_OK;
    return kern_fail(context, VNPU_ERROR_UNSUPPORTED,
                     "attention: the vector engine beside the matrix engine (class %s) lacks "
                     "functions that softmax needs: a vector.passes is 0",
                     context->machine.class_name);
}

bool kern_has_attention(const kern_context_t *context, vnpu_dtype_t dtype) {
    const vnpu_machine_t *machine = &context->class_machine[kern_class_for(context, dtype)];
    bool is_multiplied = dtype < VNPU_DTYPE_COUNT && machine->matrix_rate_num[dtype] != 0;
    return !is_multiplied || kern_has_all_functions(machine);
}

static vnpu_status_t check_types(kern_context_t *context, const kern_attention_t *call) {
    vnpu_dtype_t type = call->q.dtype;
    bool is_right = kern_dtype_is_float(type) && call->k.dtype == type && call->v.dtype == type &&
                    kern_dtype_is_float(call->out.dtype) &&
                    (!call->mask.address || kern_dtype_is_float(call->mask.dtype)) &&
                    (!call->logsumexp.address || call->logsumexp.dtype == VNPU_F32);
    if (!is_right || context->machine.matrix_rate_num[type] == 0) {
        return kern_fail(context, VNPU_ERROR_UNSUPPORTED,
                         "attention: q %s, k %s, v %s: one float type that the matrix unit has is "
                         "needed (and a float mask)",
                         kern_dtype_name(type), kern_dtype_name(call->k.dtype),
                         kern_dtype_name(call->v.dtype));
    }
    return VNPU_OK;
}

/* Strides as for one element along dimensions of size 1, so that equal programs have equal keys. */
static void make_shape(const kern_attention_t *call, kern_attention_shape_t *s) {
    *s = (kern_attention_shape_t){.batch = call->q.size[0],
                                  .heads = call->q.size[1],
                                  .kv_heads = call->k.size[1],
                                  .queries = call->q.size[2],
                                  .keys = call->k.size[2],
                                  .depth = call->q.size[3],
                                  .dtype = call->q.dtype,
                                  .out_dtype = call->out.dtype,
                                  .mask_dtype =
                                      call->mask.address ? call->mask.dtype : VNPU_DTYPE_NONE,
                                  .has_mask = call->mask.address != 0,
                                  .has_lse = call->logsumexp.address != 0,
                                  .is_causal = call->is_causal};
    s->is_direct = !s->has_mask && !s->is_causal && (float)call->scale > 0;
    read_strides(&call->q, s->q);
    read_strides(&call->k, s->k);
    read_strides(&call->v, s->v);
    read_strides(&call->out, s->out);
    if (s->has_mask) read_strides(&call->mask, s->mask);
    for (uint32_t d = 0; d < 3 && s->has_lse; d++)
        s->lse[d] = call->logsumexp.size[d] > 1 ? call->logsumexp.stride[d] : 0;
}

static vnpu_status_t check_reach(kern_context_t *context, const kern_attention_t *call) {
    const kern_tensor_t *t[] = {&call->q, &call->k, &call->v, &call->out, &call->mask};
    for (int i = 0; i < (call->mask.address ? 5 : 4); i++) {
        if (kern_span(t[i]) >= KERN_MAX_SPAN)
            return kern_fail(context, VNPU_ERROR_UNSUPPORTED,
                             "attention: an operand reaches %lld elements, more than 2^30",
                             (long long)kern_span(t[i]));
    }
    return VNPU_OK;
}

static vnpu_status_t run_attention(kern_context_t *context, vnpu_stream_t stream,
                                   const kern_attention_t *call) {
    const kern_tensor_t *t[] = {&call->out, &call->q,    &call->k,
                                &call->v,   &call->mask, &call->logsumexp};
    static const char *const name[] = {"out", "q", "k", "v", "mask", "logsumexp"};
    for (int i = 0; i < 6; i++) {
        if (i >= 4 && t[i]->address == 0) continue;
        vnpu_status_t status = kern_check_tensor(context, "attention", name[i], t[i]);
        if (status == VNPU_OK && (i == 0 || i == 5))
            status = kern_check_output(context, "attention", t[i]);
        if (status != VNPU_OK) return status;
    }
    if (call->q.ndims != 4 || call->k.ndims != 4)
        return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                         "attention: q and k must have 4 dimensions");
    call_t c = {.context = context, .stream = stream, .scale = (float)call->scale};
    make_shape(call, &c.shape);
    vnpu_status_t status = check_sizes(context, call, &c.shape);
    if (status == VNPU_OK) status = check_types(context, call);
    if (status == VNPU_OK) status = check_functions(context, call->q.dtype);
    if (status == VNPU_OK) status = check_reach(context, call);
    if (status != VNPU_OK) return status;
    if (kern_numel(&call->out) == 0) return VNPU_OK;
    if (c.shape.keys == 0) { /* no row has a key */
        if (c.shape.has_lse) {
            status = kern_fill(context, stream, &call->logsumexp, -INFINITY, 0);
            if (status != VNPU_OK) return status;
        }
        return kern_fill(context, stream, &call->out, 0, 0);
    }
    for (int i = 0; i < 6; i++)
        c.address[i] = t[i]->address;
    return launch(&c);
}

vnpu_status_t kern_attention(kern_context_t *context, vnpu_stream_t stream,
                             const kern_attention_t *call) {
    uint32_t before = kern_class_enter(context, call->q.dtype);
    vnpu_status_t status = run_attention(context, stream, call);
    kern_class_leave(context, before);
    return status;
}
