/*
 * DMA instructions. In timing mode floats are neither moved nor stored: a float destination in DRAM
 * becomes unknown, an unknown source reads as zero (timing.data) where an integer is made of it.
 */
#include "device/dev_exec_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static dev_memory_t *memory_of(exec_instance_t *instance) {
    return instance->exec->memory;
}

/* ---- copy and fill ---- */

typedef enum move_t {
    MOVE_DATA, /* as in values mode */
    MOVE_ZERO, /* the source is unknown, the destination an integer */
    MOVE_NONE, /* a float destination: not stored */
} move_t;

static bool is_known(exec_instance_t *instance, const exec_operand_t *src) {
    if (dev_is_float(src->view.dtype)) return false;
    if (src->view.space != VNPU_SPACE_DRAM) return true;
    return dev_memory_is_known(memory_of(instance), src->low, src->high - src->low);
}

/* What this move does to values; marks a DRAM destination. src NULL: a fill. */
static move_t plan_move(exec_instance_t *instance, const exec_operand_t *dst,
                        const exec_operand_t *src) {
    if (instance->exec->options.mode != DEV_EXEC_TIMING) return MOVE_DATA;
    move_t move = MOVE_DATA;
    if (dev_is_float(dst->view.dtype)) {
        move = MOVE_NONE;
    } else if (src && !is_known(instance, src)) {
        move = MOVE_ZERO;
    }
    if (dst->view.space == VNPU_SPACE_DRAM) {
        uint64_t bytes = dst->high - dst->low;
        if (move == MOVE_DATA) {
            dev_memory_mark_known(memory_of(instance), dst->low, bytes);
        } else {
            dev_memory_mark_unknown(memory_of(instance), dst->low, bytes);
        }
    }
    return move;
}

/*
 * Destination and source of a copy. A store makes its destination first: that settles what the
 * written DRAM bytes stand for in the scratchpad before the source is looked up there. Inside the
 * scratchpad the source comes first.
 */
static sim_status_t make_pair(exec_instance_t *instance, exec_access_t access, exec_operand_t *dst,
                              exec_operand_t *src) {
    const vnpu_insn_t *insn = instance->insn;
    bool is_store = instance->program->ap[insn->dst].space == VNPU_SPACE_DRAM;
    sim_status_t status = SIM_OK;
    if (is_store) status = exec_operand_make(instance, insn->dst, access, dst);
    if (status == SIM_OK) status = exec_operand_make(instance, insn->src[0], ACCESS_READ, src);
    if (status == SIM_OK && !is_store) status = exec_operand_make(instance, insn->dst, access, dst);
    return status;
}

static exec_copy_kind_t kind_of(const exec_instance_t *instance) {
    const vnpu_insn_t *insn = instance->insn;
    if (insn->flags & VNPU_F_ACCUMULATE) return COPY_ACCUMULATE;
    uint8_t arg = instance->program->ap[insn->dst].arg;
    return arg != VNPU_NO_ARG && (instance->exec->streamed_args >> arg & 1u) ? COPY_STREAM
                                                                             : COPY_PLAIN;
}

/* The element of imm[0..1] in the type of `view`. */
static void value_of(const vnpu_insn_t *insn, const dev_view_t *view, uint8_t element[8]) {
    if (dev_is_float(view->dtype)) {
        dev_store_f32(view->dtype, element, dev_bits_f32(insn->imm[0]));
    } else {
        uint64_t value = (uint64_t)insn->imm[1] << 32 | insn->imm[0];
        dev_store_i64(view->dtype, element, (int64_t)value);
    }
}

/* Whether the destination lays the innermost dimension of the source in blocks. */
static bool is_blocked(const exec_instance_t *instance) {
    const vnpu_insn_t *insn = instance->insn;
    const vnpu_ap_t *ap = instance->program->ap;
    return insn->src[0] != VNPU_NO_AP && ap[insn->dst].ndims == ap[insn->src[0]].ndims + 1u;
}

/* `blocks` of `elems` elements, from element `from` of the source's innermost dimension on. */
static void copy_blocks(exec_instance_t *instance, const dev_view_t *dst, uint8_t *dst_ptr,
                        const dev_view_t *src, const uint8_t *src_ptr, uint32_t from,
                        uint32_t blocks, uint32_t elems) {
    uint32_t outer = src->ndims - 1;
    dev_view_t to = *dst, in = *src;
    int64_t step = src->stride[outer];
    in.ndims = dst->ndims;
    in.size[outer] = to.size[outer] = blocks;
    in.size[outer + 1] = to.size[outer + 1] = elems;
    in.stride[outer] = step * (int64_t)dst->size[outer + 1];
    in.stride[outer + 1] = step;
    in.count = src->count / src->size[outer] * blocks * elems;
    to.count = in.count;
    if (in.count == 0) return;
    int64_t skipped = from / dst->size[outer + 1] * dst->stride[outer];
    exec_copy(instance->worker, &to, dst_ptr + skipped * dst->elem_bytes, &in,
              src_ptr + from * step * src->elem_bytes, COPY_PLAIN);
}

/* Both of the shape of `src`, but for blocks: whole ones, then what is left. */
static void copy_plain(exec_instance_t *instance, const dev_view_t *dst, uint8_t *dst_ptr,
                       const dev_view_t *src, const uint8_t *src_ptr) {
    if (dst->ndims == src->ndims) {
        exec_copy(instance->worker, dst, dst_ptr, src, src_ptr, COPY_PLAIN);
        return;
    }
    uint32_t block = dst->size[src->ndims], elems = src->size[src->ndims - 1];
    uint32_t blocks = elems / block, rest = elems % block;
    copy_blocks(instance, dst, dst_ptr, src, src_ptr, 0, blocks, block);
    copy_blocks(instance, dst, dst_ptr, src, src_ptr, blocks * block, 1, rest);
}

/* A whole tile at `dst`: the value of the instruction, and over it what exists of the source. */
static void copy_padded(exec_instance_t *instance, const dev_view_t *dst, uint8_t *dst_ptr,
                        const exec_operand_t *src) {
    dev_view_t inner = *dst;
    int64_t skipped = 0;
    uint32_t shared = src->view.ndims;
    if (shared < dst->ndims) shared--; /* the innermost one is in blocks */
    inner.count = src->view.count;
    for (uint32_t d = 0; d < shared; d++) {
        inner.size[d] = src->view.size[d];
        if (src->view.has_window) skipped += src->view.front[d] * dst->stride[d];
    }
    if (inner.count != dst->count) {
        uint8_t element[8];
        value_of(instance->insn, dst, element);
        exec_fill(dst, dst_ptr, element);
    }
    if (inner.count == 0) return;
    copy_plain(instance, &inner, dst_ptr + skipped * dst->elem_bytes, &src->view, src->ptr);
}

static sim_status_t dma_copy(exec_instance_t *instance) {
    const vnpu_insn_t *insn = instance->insn;
    bool accumulates = insn->flags & VNPU_F_ACCUMULATE, has_blocks = is_blocked(instance);
    exec_operand_t dst, src;
    sim_status_t status =
        make_pair(instance, accumulates || has_blocks ? ACCESS_UPDATE : ACCESS_WRITE, &dst, &src);
    if (status != SIM_OK || dst.view.count == 0) return status;
    if (src.view.count == 0 && !(insn->flags & VNPU_F_PAD)) return SIM_OK;
    static const uint8_t zero[8];
    bool is_whole = src.view.count == dst.view.count && !has_blocks;
    if (!accumulates && is_whole && exec_alias_load(instance, &dst, &src)) return SIM_OK;
    switch (plan_move(instance, &dst, src.view.count ? &src : NULL)) {
    case MOVE_DATA:
        if (insn->flags & VNPU_F_PAD) {
            copy_padded(instance, &dst.view, dst.ptr, &src);
            break;
        }
        if (has_blocks) {
            copy_plain(instance, &dst.view, dst.ptr, &src.view, src.ptr);
            break;
        }
        exec_copy(instance->worker, &dst.view, dst.ptr, &src.view, src.ptr, kind_of(instance));
        break;
    case MOVE_ZERO:
        if (!accumulates) exec_fill(&dst.view, dst.ptr, zero);
        break;
    case MOVE_NONE: break;
    }
    return SIM_OK;
}

static sim_status_t dma_fill(exec_instance_t *instance) {
    const vnpu_insn_t *insn = instance->insn;
    exec_operand_t dst;
    sim_status_t status = exec_operand_make(instance, insn->dst, ACCESS_WRITE, &dst);
    if (status != SIM_OK || dst.view.count == 0) return status;
    uint8_t element[8];
    value_of(insn, &dst.view, element);
    if (plan_move(instance, &dst, NULL) == MOVE_DATA) exec_fill(&dst.view, dst.ptr, element);
    return SIM_OK;
}

/* ---- gather and scatter ---- */

/* A gather or scatter: rows of `packed` against rows of the table that the indices choose. */
typedef struct rows_job {
    dev_view_t table, table_row, packed_row;
    exec_operand_t packed;
    uint8_t *table_ptr; /* of device address table_low */
    uint64_t table_low;
    uint64_t n;
    int64_t *row;      /* chosen row per index, -1: skipped; scratch */
    uint64_t *address; /* of the chosen rows, in order */
    uint64_t count;
} rows_job_t;

static void drop_leading(const dev_view_t *view, dev_view_t *out_row) {
    *out_row = *view;
    out_row->ndims--;
    out_row->count = 1;
    for (uint32_t d = 0; d < out_row->ndims; d++) {
        out_row->size[d] = view->size[d + 1];
        out_row->stride[d] = view->stride[d + 1];
        out_row->count *= out_row->size[d];
    }
}

static sim_status_t choose_row(exec_instance_t *instance, int64_t index, uint64_t position,
                               int64_t *out_row) {
    const vnpu_insn_t *insn = instance->insn;
    int64_t rows = insn->imm[0], row = index;
    if ((insn->flags & VNPU_F_WRAP_NEGATIVE) && row < 0) row += rows;
    *out_row = row;
    if (row >= 0 && row < rows) return SIM_OK;
    switch ((vnpu_oob_t)insn->func) {
    case VNPU_OOB_CLAMP: *out_row = row < 0 ? 0 : rows - 1; return SIM_OK;
    case VNPU_OOB_SKIP: *out_row = -1; return SIM_OK;
    case VNPU_OOB_ERROR: break;
    }
    return exec_fault(instance, SIM_ERROR_INDEX_OUT_OF_RANGE,
                      "index %" PRId64 " at position %" PRIu64 ", the table has %" PRId64 " rows",
                      index, position, rows);
}

static sim_status_t choose_rows(exec_instance_t *instance, const exec_operand_t *index,
                                rows_job_t *job) {
    int64_t pitch = job->table.stride[0] * job->table.elem_bytes;
    job->row = exec_scratch(instance->worker, SCRATCH_ROW, 2 * job->n * sizeof *job->row);
    job->address = (uint64_t *)(void *)(job->row + job->n);
    job->count = 0;
    for (uint64_t i = 0; i < job->n; i++) {
        const uint8_t *element =
            index->ptr + (int64_t)i * index->view.stride[0] * index->view.elem_bytes;
        sim_status_t status =
            choose_row(instance, dev_load_i64(index->view.dtype, element), i, &job->row[i]);
        if (status != SIM_OK) return status;
        if (job->row[i] < 0) continue;
        job->address[job->count++] = job->table.base + (uint64_t)(job->row[i] * pitch);
    }
    return SIM_OK;
}

/* Translates the stretch of the table that the chosen rows touch. */
static sim_status_t reach_table(exec_instance_t *instance, bool is_write, rows_job_t *job) {
    uint64_t first = UINT64_MAX, last = 0, low, high;
    for (uint64_t i = 0; i < job->count; i++) {
        if (job->address[i] < first) first = job->address[i];
        if (job->address[i] > last) last = job->address[i];
    }
    dev_view_extent(&job->table_row, &low, &high);
    job->table_low = first + (low - job->table.base);
    return exec_translate(instance, job->table.space, job->table_low,
                          last + (high - job->table.base), is_write, "table", &job->table_ptr);
}

static void move_rows(exec_instance_t *instance, bool is_gather, rows_job_t *job) {
    int64_t pitch = job->table.stride[0] * job->table.elem_bytes;
    int64_t step = job->packed.view.stride[0] * job->packed.view.elem_bytes;
    exec_copy_kind_t kind =
        instance->insn->flags & VNPU_F_ACCUMULATE ? COPY_ACCUMULATE : COPY_PLAIN;
    for (uint64_t i = 0; i < job->n; i++) {
        if (job->row[i] < 0) continue;
        uint64_t address = job->table.base + (uint64_t)(job->row[i] * pitch);
        uint8_t *table = job->table_ptr + (int64_t)(address - job->table_low);
        uint8_t *packed = job->packed.ptr + (int64_t)i * step;
        if (is_gather) {
            exec_copy(instance->worker, &job->packed_row, packed, &job->table_row, table, kind);
        } else {
            exec_copy(instance->worker, &job->table_row, table, &job->packed_row, packed, kind);
        }
    }
}

/* What happens to the values of the rows, with the marks of a DRAM destination. */
static move_t plan_rows(exec_instance_t *instance, bool is_gather, const rows_job_t *job) {
    if (instance->exec->options.mode != DEV_EXEC_TIMING) return MOVE_DATA;
    exec_operand_t table = {.view = job->table, .low = job->table_low};
    uint64_t low, high, last = 0;
    dev_view_extent(&job->table_row, &low, &high);
    for (uint64_t i = 0; i < job->count; i++) {
        if (job->address[i] > last) last = job->address[i];
    }
    table.high = last + (high - job->table.base);
    return is_gather ? plan_move(instance, &job->packed, &table)
                     : plan_move(instance, &table, &job->packed);
}

static sim_status_t dma_rows(exec_instance_t *instance, bool is_gather) {
    const vnpu_insn_t *insn = instance->insn;
    const vnpu_ap_t *table_ap = &instance->program->ap[is_gather ? insn->src[0] : insn->dst];
    uint64_t base = table_ap->arg != VNPU_NO_ARG ? instance->launch->arg[table_ap->arg] : 0;
    rows_job_t job;
    exec_operand_t index;
    dev_view_make(&job.table, table_ap, instance->cursor, instance->launch, instance->grid_pos);
    sim_status_t status =
        exec_operand_make(instance, is_gather ? insn->dst : insn->src[0],
                          is_gather ? ACCESS_UPDATE : ACCESS_READ_LOCAL,
                          &job.packed); /* LOCAL: a scatter may write what it was loaded from */
    if (status == SIM_OK) status = exec_operand_make(instance, insn->src[1], ACCESS_READ, &index);
    if (status != SIM_OK) return status;
    job.n = job.packed.view.size[0];
    if (job.table.count == 0 || job.packed.view.count == 0) return SIM_OK;
    drop_leading(&job.table, &job.table_row);
    drop_leading(&job.packed.view, &job.packed_row);
    status = choose_rows(instance, &index, &job);
    if (status != SIM_OK) return status;
    exec_rows_record(instance, job.address, job.count, base);
    if (job.count == 0) return SIM_OK;
    status = reach_table(instance, !is_gather, &job);
    if (status != SIM_OK) return status;
    static const uint8_t zero[8];
    move_t move = plan_rows(instance, is_gather, &job);
    if (move == MOVE_DATA) move_rows(instance, is_gather, &job);
    if (move == MOVE_ZERO && is_gather) exec_fill(&job.packed.view, job.packed.ptr, zero);
    return SIM_OK;
}

sim_status_t exec_dma(exec_instance_t *instance) {
    switch ((vnpu_op_t)instance->insn->op) {
    case VNPU_OP_DMA_COPY:
    case VNPU_OP_DMA_TRANSPOSE: return dma_copy(instance);
    case VNPU_OP_DMA_FILL: return dma_fill(instance);
    case VNPU_OP_DMA_GATHER: return dma_rows(instance, true);
    case VNPU_OP_DMA_SCATTER: return dma_rows(instance, false);
    default: return exec_fault(instance, SIM_ERROR_ILLEGAL_INSTRUCTION, "not a DMA instruction");
    }
}

/* ---- chaos: reads now, writes later ---- */

/*
 * A copy that overwrites is split: its source is captured, converted, in a dense buffer, and
 * written when the transfer completes. The others (fill, accumulate, blocks, gather, scatter) run
 * whole at completion, after all earlier ones of the queue.
 */
static sim_status_t capture(exec_instance_t *instance, exec_late_t *late) {
    exec_operand_t dst, src;
    sim_status_t status = make_pair(instance, ACCESS_WRITE, &dst, &src);
    if (status != SIM_OK || dst.view.count == 0) return status;
    late->captured = dst.view;
    int64_t stride = 1;
    for (uint32_t d = dst.view.ndims; d-- > 0;) {
        late->captured.stride[d] = stride;
        stride *= dst.view.size[d];
    }
    late->data = malloc(dst.view.count * dst.view.elem_bytes);
    if (!late->data) sim_bug("executor", 0, "no host memory for a held-back transfer");
    if (instance->insn->flags & VNPU_F_PAD) {
        copy_padded(instance, &late->captured, late->data, &src);
    } else {
        exec_copy(instance->worker, &late->captured, late->data, &src.view, src.ptr, COPY_PLAIN);
    }
    return SIM_OK;
}

sim_status_t exec_dma_late(exec_instance_t *instance, exec_late_t **out_late) {
    *out_late = NULL;
    exec_late_t *late = calloc(1, sizeof *late);
    if (!late) sim_bug("executor", 0, "no host memory for a held-back transfer");
    late->insn = instance->insn;
    late->cursor = *instance->cursor;
    bool is_copy =
        instance->insn->op == VNPU_OP_DMA_COPY || instance->insn->op == VNPU_OP_DMA_TRANSPOSE;
    sim_status_t status = SIM_OK;
    if (is_copy && !(instance->insn->flags & VNPU_F_ACCUMULATE) && !is_blocked(instance))
        status = capture(instance, late);
    if (status != SIM_OK) {
        exec_late_destroy(late);
        return status;
    }
    *out_late = late;
    return SIM_OK;
}

sim_status_t exec_late_finish(exec_instance_t *instance, exec_late_t *late) {
    if (!late->data) return exec_dma(instance); /* an empty copy does nothing again */
    exec_operand_t dst;
    sim_status_t status = exec_operand_make(instance, late->insn->dst, ACCESS_WRITE, &dst);
    if (status != SIM_OK) return status;
    exec_copy(instance->worker, &dst.view, dst.ptr, &late->captured, late->data, COPY_PLAIN);
    return SIM_OK;
}

void exec_late_destroy(exec_late_t *late) {
    if (!late) return;
    free(late->data);
    free(late);
}
