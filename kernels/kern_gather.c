#include <string.h>

#include "kernels/kern_cost.h"
#include "kernels/kern_internal.h"
#include "kernels/kern_nest.h"

/*
 * Rows of a table chosen by an index vector: the DMA's gather brings them into a tile, a copy takes
 * them out. Loops: chunks of the row, dimensions before the indexed one, then the index.
 */

#define TILE_BYTES (256u << 10)
#define MAX_INNER  2u /* dimensions of a row, and before the indexed one, in one program */
#define MAX_OUTER  1u

enum { TABLE = 0, OUT = 1 };

typedef struct select {
    kern_context_t *context;
    vnpu_stream_t stream;
    kern_iter_t outer, inner; /* operands: table, out */
    int64_t rows, table_stride, out_stride;
    int64_t count, index_stride;
    vnpu_dtype_t dtype, index_dtype;
    vnpu_addr_t address[2], index;
} select_t;

typedef struct plan {
    kern_nest_t nest; /* inner dimensions, outer ones, the index */
    uint32_t row_elems, index_axis;
} plan_t;

/* ---- planning ---- */

static bool make_plan(const select_t *s, plan_t *plan) {
    const vnpu_machine_t *machine = &s->context->machine;
    uint32_t bytes = vnpu_dtype_bytes(s->dtype);
    for (uint64_t budget = TILE_BYTES / bytes; budget >= 1; budget /= 2) {
        *plan = (plan_t){.row_elems = 1};
        uint32_t axis = 0;
        uint64_t left = budget;
        int64_t tile[KERN_NEST_DIMS];
        for (uint32_t d = s->inner.ndims; d-- > 0;) {
            tile[d] = s->inner.size[d] < (int64_t)left ? s->inner.size[d] : (int64_t)left;
            left /= (uint64_t)tile[d];
        }
        for (uint32_t d = 0; d < s->inner.ndims; d++) {
            plan->nest.axis[axis++] = kern_axis_make(s->inner.size[d], tile[d]);
            plan->row_elems *= (uint32_t)tile[d];
        }
        for (uint32_t d = 0; d < s->outer.ndims; d++)
            plan->nest.axis[axis++] = kern_axis_make(s->outer.size[d], 1);
        uint64_t share = kern_ceil_div((uint64_t)s->count, 4ull * machine->workers);
        if (share < 16) share = 16;
        if (left < 1) left = 1;
        plan->index_axis = axis;
        plan->nest.axis[axis++] = kern_axis_make(s->count, (int64_t)(left < share ? left : share));
        plan->nest.ndims = axis;
        if (!kern_nest_plan(&plan->nest, machine->workers, (1u << axis) - 1u)) continue;
        uint64_t tile_rows = plan->nest.axis[plan->index_axis].tile;
        uint64_t need = kern_align(tile_rows * plan->row_elems * bytes) +
                        kern_align(tile_rows * vnpu_dtype_bytes(s->index_dtype));
        if (need * plan->nest.buffers <= machine->sram_bytes) return true;
    }
    return false;
}

/* ---- code ---- */

static void rotate(const plan_t *plan, vnpu_ap_t *ap, uint64_t elems, vnpu_dtype_t dtype) {
    uint32_t bytes = vnpu_dtype_bytes(dtype);
    kern_ap_rotate(ap, plan->nest.inner, plan->nest.buffers, kern_align(elems * bytes) / bytes);
}

/*
 * Terms of a row: the operand's strides along outer and inner dimensions, or the tile's own
 * (operand < 0). Outer dimensions are one element long; they are there for their increments, and
 * for their clips when they are dealt unevenly.
 */
static uint32_t row_terms(const select_t *s, const plan_t *plan, int32_t operand,
                          kern_term_t *term) {
    int64_t dense = 1;
    uint32_t outer = s->outer.ndims, inner = s->inner.ndims;
    for (uint32_t d = 0; d < outer; d++)
        term[d] = (kern_term_t){&plan->nest.axis[inner + d],
                                operand < 0 ? 0 : s->outer.stride[operand][d], false};
    for (uint32_t d = inner; d-- > 0;) {
        const kern_axis_t *axis = &plan->nest.axis[d];
        term[outer + d] =
            (kern_term_t){axis, operand < 0 ? dense : s->inner.stride[operand][d], true};
        dense *= axis->tile;
    }
    return outer + inner;
}

/* The table: all its rows, and one row's pattern. It does not move with the index. */
static vnpu_ap_t table_ap(const select_t *s, const plan_t *plan, uint8_t arg) {
    kern_axis_t all = kern_axis_make(s->rows, s->rows);
    kern_term_t term[KERN_NEST_DIMS] = {{&all, s->table_stride, true}};
    uint32_t count = 1 + row_terms(s, plan, TABLE, term + 1);
    vnpu_ap_t ap = kern_ap_terms(VNPU_SPACE_DRAM, s->dtype, 0, term, count, true);
    ap.arg = arg;
    return ap;
}

static vnpu_ap_t tile_ap(const select_t *s, const plan_t *plan, uint32_t sram) {
    const kern_axis_t *index = &plan->nest.axis[plan->index_axis];
    kern_term_t term[KERN_NEST_DIMS] = {{index, plan->row_elems, true}};
    uint32_t count = 1 + row_terms(s, plan, -1, term + 1);
    vnpu_ap_t ap = kern_ap_terms(VNPU_SPACE_SRAM, s->dtype, sram, term, count, false);
    rotate(plan, &ap, (uint64_t)index->tile * plan->row_elems, s->dtype);
    return ap;
}

static void emit_store(const select_t *s, const plan_t *plan, kern_builder_t *builder, uint8_t arg,
                       uint32_t sram, kern_ring_t ring) {
    const kern_axis_t *index = &plan->nest.axis[plan->index_axis];
    kern_term_t far[KERN_NEST_DIMS], near[KERN_NEST_DIMS];
    far[0] = (kern_term_t){index, s->out_stride, false};
    near[0] = (kern_term_t){index, plan->row_elems, false};
    (void)row_terms(s, plan, OUT, far + 1);
    uint32_t count = 1 + row_terms(s, plan, -1, near + 1);
    vnpu_ap_t dram = kern_ap_terms(VNPU_SPACE_DRAM, s->dtype, 0, far, count, true);
    vnpu_ap_t tile = kern_ap_terms(VNPU_SPACE_SRAM, s->dtype, sram, near, count, false);
    rotate(plan, &tile, (uint64_t)index->tile * plan->row_elems, s->dtype);
    dram.arg = arg;
    kern_ap_merge((vnpu_ap_t *[]){&dram, &tile}, 2, 0);
    vnpu_insn_t *insn = kern_emit(builder, KERN_STORE, VNPU_OP_DMA_COPY);
    insn->dst = kern_ap(builder, &dram);
    insn->src[0] = kern_ap(builder, &tile);
    kern_wait(insn, ring.full, 1);
    kern_signal(insn, ring.free, 1);
}

static void generate(const select_t *s, const plan_t *plan, kern_builder_t *builder) {
    uint8_t arg_out = kern_arg(builder, VNPU_ARG_OUT), arg_table = kern_arg(builder, VNPU_ARG_IN),
            arg_index = kern_arg(builder, VNPU_ARG_IN);
    const kern_axis_t *index = &plan->nest.axis[plan->index_axis];
    uint64_t tile_bytes =
        kern_align((uint64_t)index->tile * plan->row_elems * vnpu_dtype_bytes(s->dtype));
    uint64_t index_bytes = kern_align((uint64_t)index->tile * vnpu_dtype_bytes(s->index_dtype));
    uint32_t sram = kern_sram(builder, tile_bytes * plan->nest.buffers);
    uint32_t sram_index = kern_sram(builder, index_bytes * plan->nest.buffers);
    kern_ring_t ring = kern_ring(builder, KERN_STORE, plan->nest.buffers);
    uint16_t has_index = kern_sem(builder);
    kern_nest_open(&plan->nest, builder);
    kern_term_t far = {index, s->index_stride, true}, near = {index, 1, true};
    vnpu_ap_t dram = kern_ap_terms(VNPU_SPACE_DRAM, s->index_dtype, 0, &far, 1, true);
    vnpu_ap_t list = kern_ap_terms(VNPU_SPACE_SRAM, s->index_dtype, sram_index, &near, 1, false);
    dram.arg = arg_index;
    rotate(plan, &list, index->tile, s->index_dtype);
    vnpu_insn_t *insn = kern_emit(builder, KERN_LOAD, VNPU_OP_DMA_COPY);
    insn->dst = kern_ap(builder, &list);
    insn->src[0] = kern_ap(builder, &dram);
    kern_wait(insn, ring.free, 1);
    kern_signal(insn, has_index, 1);
    vnpu_ap_t table = table_ap(s, plan, arg_table), tile = tile_ap(s, plan, sram);
    insn = kern_emit(builder, KERN_LOAD, VNPU_OP_DMA_GATHER);
    insn->func = VNPU_OOB_ERROR;
    insn->imm[0] = (uint32_t)s->rows;
    insn->dst = kern_ap(builder, &tile);
    insn->src[0] = kern_ap(builder, &table);
    insn->src[1] = kern_ap(builder, &list);
    kern_wait(insn, has_index, 1);
    kern_signal(insn, ring.full, 1);
    emit_store(s, plan, builder, arg_out, sram, ring);
    kern_nest_close(&plan->nest, builder);
}

/* ---- launches ---- */

static void make_key(const select_t *s, kern_key_t *key) {
    kern_key_init(key, "index_select");
    const uint64_t words[] = {(uint64_t)s->rows,
                              (uint64_t)s->table_stride,
                              (uint64_t)s->out_stride,
                              (uint64_t)s->count,
                              (uint64_t)s->index_stride,
                              s->dtype,
                              s->index_dtype,
                              s->outer.ndims,
                              s->inner.ndims};
    kern_key_add(key, words, sizeof words);
    const kern_iter_t *iter[2] = {&s->outer, &s->inner};
    for (int i = 0; i < 2; i++) {
        for (uint32_t d = 0; d < iter[i]->ndims; d++) {
            kern_key_add_u64(key, (uint64_t)iter[i]->size[d]);
            kern_key_add_u64(key, (uint64_t)iter[i]->stride[TABLE][d]);
            kern_key_add_u64(key, (uint64_t)iter[i]->stride[OUT][d]);
        }
    }
}

static vnpu_status_t launch(const select_t *s) {
    kern_key_t key;
    make_key(s, &key);
    const kern_entry_t *entry = kern_cache_find(&s->context->cache, &key);
    if (!entry) {
        plan_t plan;
        if (!make_plan(s, &plan))
            return kern_fail(s->context, VNPU_ERROR_UNSUPPORTED,
                             "index_select: no tile fits the SRAM");
        kern_builder_t builder;
        kern_builder_init(&builder, &s->context->machine, "index_select");
        generate(s, &plan, &builder);
        vnpu_status_t status = kern_add_program(s->context, &key, &builder, plan.nest.grid, &entry);
        kern_builder_fini(&builder);
        if (status != VNPU_OK) return status;
    }
    uint64_t args[3] = {s->address[OUT], s->address[TABLE], s->index};
    return kern_launch(s->context, s->stream, entry, args, 3);
}

static vnpu_status_t run(const select_t *s);

/* Cuts a dimension of `iter` (s->outer or s->inner) in parts. */
static vnpu_status_t run_parts(const select_t *s, bool is_outer, uint32_t dim, int64_t part) {
    const kern_iter_t *whole = is_outer ? &s->outer : &s->inner;
    for (int64_t at = 0; at < whole->size[dim]; at += part) {
        select_t piece = *s;
        kern_iter_t *iter = is_outer ? &piece.outer : &piece.inner;
        int64_t left = whole->size[dim] - at;
        iter->size[dim] = left < part ? left : part;
        for (int i = TABLE; i <= OUT; i++)
            piece.address[i] += (uint64_t)(at * whole->stride[i][dim]) * vnpu_dtype_bytes(s->dtype);
        kern_iter_collapse(iter, false);
        vnpu_status_t status = run(&piece);
        if (status != VNPU_OK) return status;
    }
    return VNPU_OK;
}

static vnpu_status_t run(const select_t *s) {
    int64_t part;
    int32_t cut = kern_iter_cut(&s->outer, MAX_OUTER, &part);
    if (cut >= 0) return run_parts(s, true, (uint32_t)cut, part);
    cut = kern_iter_cut(&s->inner, MAX_INNER, &part);
    if (cut >= 0) return run_parts(s, false, (uint32_t)cut, part);
    bool is_too_far =
        s->rows > UINT32_MAX || s->table_stride > INT32_MAX || s->index_stride > INT32_MAX;
    int64_t reach =
        (s->count - 1) * (s->out_stride > s->index_stride ? s->out_stride : s->index_stride);
    if (is_too_far)
        return kern_fail(s->context, VNPU_ERROR_UNSUPPORTED,
                         "index_select: a table of %lld rows %lld elements apart",
                         (long long)s->rows, (long long)s->table_stride);
    if (reach < KERN_MAX_SPAN) return launch(s);
    int64_t half = (s->count + 1) / 2;
    for (int64_t at = 0; at < s->count; at += half) {
        select_t piece = *s;
        piece.count = s->count - at < half ? s->count - at : half;
        piece.address[OUT] += (uint64_t)(at * s->out_stride) * vnpu_dtype_bytes(s->dtype);
        piece.index += (uint64_t)(at * s->index_stride) * vnpu_dtype_bytes(s->index_dtype);
        vnpu_status_t status = run(&piece);
        if (status != VNPU_OK) return status;
    }
    return VNPU_OK;
}

static vnpu_status_t check_call(kern_context_t *context, const kern_tensor_t *out,
                                const kern_tensor_t *table, uint32_t dim,
                                const kern_tensor_t *index) {
    vnpu_status_t status = kern_check_output(context, "index_select", out);
    if (status == VNPU_OK) status = kern_check_tensor(context, "index_select", "table", table);
    if (status == VNPU_OK) status = kern_check_tensor(context, "index_select", "index", index);
    if (status != VNPU_OK) return status;
    bool is_right = dim < table->ndims && out->ndims == table->ndims && index->ndims <= 1 &&
                    out->dtype == table->dtype;
    for (uint32_t d = 0; d < table->ndims && is_right; d++)
        is_right = out->size[d] == (d == dim ? kern_numel(index) : table->size[d]);
    char a[160], b[160], c[160];
    if (!is_right)
        return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                         "index_select: table %s, dimension %u, index %s do not give out %s",
                         kern_describe(table, a, sizeof a), dim, kern_describe(index, b, sizeof b),
                         kern_describe(out, c, sizeof c));
    if (index->dtype != VNPU_I32 && index->dtype != VNPU_I64)
        return kern_fail(context, VNPU_ERROR_UNSUPPORTED,
                         "index_select: index %s: i32 or i64 is needed",
                         kern_describe(index, b, sizeof b));
    if (kern_numel(out) > 0 && table->size[dim] == 0)
        return kern_fail(context, VNPU_ERROR_INVALID_VALUE, "index_select: table %s has no rows",
                         kern_describe(table, a, sizeof a));
    return VNPU_OK;
}

static void split_dims(const kern_tensor_t *table, const kern_tensor_t *out, uint32_t from,
                       uint32_t to, kern_iter_t *iter) {
    *iter = (kern_iter_t){.num_operands = 2};
    for (uint32_t d = from; d < to; d++) {
        iter->size[iter->ndims] = table->size[d];
        iter->stride[TABLE][iter->ndims] = table->stride[d];
        iter->stride[OUT][iter->ndims++] = out->stride[d];
    }
    kern_iter_collapse(iter, true);
}

static vnpu_status_t run_index_select(kern_context_t *context, vnpu_stream_t stream,
                                      const kern_tensor_t *out, const kern_tensor_t *table,
                                      uint32_t dim, const kern_tensor_t *index) {
    vnpu_status_t status = check_call(context, out, table, dim, index);
    if (status != VNPU_OK || kern_numel(out) == 0) return status;
    select_t s = {.context = context,
                  .stream = stream,
                  .rows = table->size[dim],
                  .table_stride = table->size[dim] > 1 ? table->stride[dim] : 0,
                  .out_stride = out->stride[dim],
                  .count = out->size[dim],
                  .index_stride = index->ndims == 1 ? index->stride[0] : 1,
                  .dtype = table->dtype,
                  .index_dtype = index->dtype,
                  .address = {table->address, out->address},
                  .index = index->address};
    split_dims(table, out, 0, dim, &s.outer);
    split_dims(table, out, dim + 1, table->ndims, &s.inner);
    return run(&s);
}

vnpu_status_t kern_index_select(kern_context_t *context, vnpu_stream_t stream,
                                const kern_tensor_t *out, const kern_tensor_t *table, uint32_t dim,
                                const kern_tensor_t *index) {
    uint32_t before = kern_class_enter(context, VNPU_DTYPE_NONE);
    vnpu_status_t status = run_index_select(context, stream, out, table, dim, index);
    kern_class_leave(context, before);
    return status;
}
