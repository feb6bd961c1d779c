/* From an instruction to an operation of a timed unit. */
#include "device/dev_timing_internal.h"

#include <stdlib.h>
#include <string.h>

#include "device/dev_func_class.h"

static void view_of(const timing_queue_t *queue, uint16_t index, dev_view_t *view) {
    const dev_launch_t *placed = &queue->core->job->placed;
    dev_view_make(view, &placed->program->ap[index], &queue->cursor, placed, queue->core->grid_pos);
}

/* What a view costs at the ports of its memory. A broadcast dimension (stride 0) is read once. */
static sim_bank_use_t port_use(const dev_class_t *cls, const dev_view_t *view) {
    sim_bank_walk_t walk = {
        .base = view->base, .run_bytes = view->elem_bytes, .ndims = view->ndims};
    for (uint32_t d = 0; d < view->ndims; d++) {
        walk.size[d] = view->size[d];
        walk.stride[d] = view->stride[d] * (int64_t)view->elem_bytes;
    }
    return sim_bank_use(view->space == VNPU_SPACE_SRAM ? &cls->sram_banks : &cls->acc_banks, &walk);
}

/* Where a view lies, from its first byte to its last; nowhere where banks take turns word by word.
 */
static sim_range_t range_of(const dev_class_t *cls, const dev_view_t *view) {
    return port_use(cls, view).range[0];
}

/* The last piece of the streamed operand `a` (its first `m` dimensions stream), which the next load
 * passes beside, in the banks of the weights: what loads next is taken as lying anywhere among
 * them. */
static uint32_t same_bank(const dev_class_t *cls, const dev_view_t *a, uint32_t m,
                          const dev_view_t *b) {
    uint32_t piece = cls->matrix.stream_elems;
    dev_view_t last = *a;
    for (uint32_t d = 0; d < m; d++) {
        uint32_t row = a->size[d], left = d + 1 < m ? 1 : row;
        if (d + 1 == m && piece > 0 && row > piece) left = row % piece == 0 ? piece : row % piece;
        last.base += (uint64_t)((int64_t)(row - left) * a->stride[d] * (int64_t)a->elem_bytes);
        last.size[d] = left;
    }
    sim_range_t streamed = range_of(cls, &last), weights = range_of(cls, b);
    return sim_bank_overlap(&cls->sram_banks, &streamed, &weights);
}

/* `keep` saves the preload only when the array really holds this tile: the same place and shape as
 * the product before. */
static bool holds_weights(timing_core_t *core, const dev_view_t *weights, bool wants_keep) {
    const dev_view_t *held = &core->weights;
    bool is_same = held->count != 0 && held->base == weights->base &&
                   held->dtype == weights->dtype && held->ndims == weights->ndims;
    for (uint32_t d = 0; is_same && d < weights->ndims; d++) {
        is_same = held->size[d] == weights->size[d] && held->stride[d] == weights->stride[d];
    }
    core->weights = *weights;
    return wants_keep && is_same;
}

static bool submit_matrix(timing_queue_t *queue, timing_slot_t *slot) {
    const vnpu_insn_t *insn = queue->insn;
    dev_view_t a, b, c;
    view_of(queue, insn->src[0], &a);
    view_of(queue, insn->src[1], &b);
    view_of(queue, insn->dst, &c);
    if (a.count == 0 || b.count == 0 || c.count == 0) return false;
    sim_matrix_op_t *op = &slot->op.matrix;
    memset(op, 0, sizeof *op);
    op->k = 1;
    for (uint32_t d = 0; d <= insn->func; d++)
        op->k *= b.size[d];
    op->m = (uint32_t)(a.count * vnpu_dtype_block(a.dtype) / op->k);
    op->n = (uint32_t)(b.count * vnpu_dtype_block(b.dtype) / op->k);
    op->rate = queue->core->cls->matrix_rate[a.dtype];
    op->pieces = a.dtype == VNPU_F32 ? queue->core->cls->matrix_f32_pieces : 1;
    op->keep_weights = holds_weights(queue->core, &b, (insn->flags & VNPU_F_KEEP_WEIGHTS) != 0);
    op->accumulate = dev_cursor_accumulates(&queue->cursor, insn);
    op->in_bytes = a.elem_bytes;
    op->weight_bytes = b.elem_bytes;
    op->out_bytes = c.elem_bytes;
    const dev_class_t *cls = queue->core->cls;
    if (vnpu_dtype_block(a.dtype) > 1) { /* fractions of a byte per value */
        op->in.bytes = a.count * a.elem_bytes;
        op->weights.bytes = b.count * b.elem_bytes;
    }
    uint32_t m_dims = a.ndims - (insn->func + 1u);
    if (m_dims > 0) op->row_elems = a.size[m_dims - 1];
    if (cls->sram_banks.has_conflicts || cls->sram_banks.part_bytes > 0) {
        op->in = port_use(cls, &a);
        op->weights = port_use(cls, &b);
        op->same_bank = same_bank(cls, &a, m_dims, &b);
    }
    if (cls->acc_banks.has_conflicts) op->out = port_use(cls, &c);
    const sim_matrix_spec_t *spec = &cls->matrix;
    queue->core->job->record.macs += (uint64_t)op->m * op->k * op->n;
    queue->core->job->record.padded_macs += sim_matrix_padded_macs(spec, op->m, op->k, op->n);
    timing_energy_matrix(queue->core->job, op, a.dtype);
    op->op.on_end = timing_op_end;
    op->op.on_done = timing_op_done;
    op->op.owner = slot;
    sim_matrix_submit(queue->core->matrix, op);
    return true;
}

/* Merges dimensions that continue each other in every view: inner elements, outer rows. Sizes of
 * all views agree. */
static void merge_views(const dev_view_t *view, uint32_t views, uint64_t *out_outer,
                        uint64_t *out_inner) {
    uint32_t ndims = view[0].ndims;
    uint64_t inner = view[0].size[ndims - 1], outer = 1;
    uint32_t d = ndims - 1;
    for (; d > 0; d--) {
        bool is_dense = true;
        for (uint32_t v = 0; v < views && is_dense; v++) {
            int64_t step = view[v].stride[d] * (int64_t)view[v].size[d];
            is_dense = view[v].size[d - 1] == 1 || view[v].stride[d - 1] == step;
        }
        if (!is_dense) break;
        inner *= view[0].size[d - 1];
    }
    for (uint32_t e = 0; e < d; e++)
        outer *= view[0].size[e];
    *out_outer = outer;
    *out_inner = inner;
}

/* The view with its blocks unfolded. */
static dev_view_t in_values(dev_view_t view) {
    uint32_t block = vnpu_dtype_block(view.dtype), inner = view.ndims - 1;
    if (block == 1) return view;
    view.size[inner] *= block;
    for (uint32_t d = 0; d < inner; d++)
        view.stride[d] *= block;
    return view;
}

static bool submit_vector(timing_queue_t *queue, timing_slot_t *slot) {
    const vnpu_insn_t *insn = queue->insn;
    sim_vector_op_t *op = &slot->op.vector;
    memset(op, 0, sizeof *op);
    bool is_reduction = insn->op == VNPU_OP_V_REDUCE || insn->op == VNPU_OP_V_FOLD;
    dev_view_t view[5];
    uint32_t shaped = 0; /* views of the elementwise shape */
    uint16_t operand[5] = {insn->dst, insn->src[0], insn->src[1], insn->src[2], insn->src[3]};
    for (uint32_t i = 0; i < 5; i++) {
        if (operand[i] == VNPU_NO_AP) continue;
        dev_view_t one;
        view_of(queue, operand[i], &one);
        if (one.count == 0) return false;
        sim_bank_use_t use =
            port_use(queue->core->cls, &one); /* operands of one instruction pass side by side */
        if (one.space == VNPU_SPACE_SRAM) sim_bank_add(&op->sram, &use, 1);
        if (one.space == VNPU_SPACE_ACC) sim_bank_add(&op->acc, &use, 1);
        bool is_rows = (is_reduction && i == 0) || i == 4;
        if (!is_rows) view[shaped++] = in_values(one);
    }
    dev_vector_classes(insn, &op->cls, &op->cls2);
    merge_views(view, shaped, &op->outer, &op->inner);
    queue->core->job->record.vector_elems += op->outer * op->inner;
    timing_energy_vector(queue->core->job, op, op->outer * op->inner);
    /* Several short rows share a vector: the operand ports gather rows (docs/timing.md). */
    uint64_t lanes = queue->core->cls->vector.lanes;
    if (op->inner * 2 <= lanes && op->outer > 1) {
        uint64_t rows = lanes / op->inner;
        if (rows > op->outer) rows = op->outer;
        op->inner *= rows;
        op->outer = (op->outer + rows - 1) / rows;
    }
    op->op.on_end = timing_op_end;
    op->op.on_done = timing_op_done;
    op->op.owner = slot;
    sim_vector_submit(queue->core->vector, op);
    return true;
}

/* A DMA engine repeats what it broadcasts; with conflicts it takes whole words. */
static uint64_t local_bytes(const dev_class_t *cls, const dev_view_t *view) {
    uint64_t bytes = view->count * view->elem_bytes;
    if (!cls->sram_banks.has_conflicts) return bytes;
    uint64_t whole = port_use(cls, view).bytes;
    return whole > bytes ? whole : bytes;
}

/* What of a destination in blocks the source fills. */
static void cut_blocks(dev_view_t *dst, const dev_view_t *src) {
    uint32_t inner = src->ndims - 1, block = dst->size[inner + 1];
    dst->count /= dst->size[inner];
    dst->size[inner] = (src->size[inner] + block - 1) / block;
    dst->count *= dst->size[inner];
}

/* Of the side in DRAM; inside the scratchpad of the destination. */
static void walk_runs(const dev_view_t *view, bool keeps_rows, sim_dma_op_t *op) {
    uint32_t inner = view->ndims - 1;
    uint64_t run = view->elem_bytes;
    uint32_t left = view->ndims; /* dimensions not merged into the run */
    if (view->stride[inner] == 1 || view->size[inner] == 1) {
        run *= view->size[inner];
        left = inner;
        while (left > 0 && (view->size[left - 1] == 1 ||
                            (!keeps_rows &&
                             view->stride[left - 1] * (int64_t)view->elem_bytes == (int64_t)run))) {
            run *= view->size[left - 1];
            left--;
        }
    }
    op->base = view->base;
    op->run_bytes = run;
    op->ndims = left;
    for (uint32_t d = 0; d < left; d++) {
        op->size[d] = view->size[d];
        op->stride[d] = view->stride[d] * (int64_t)view->elem_bytes;
    }
}

/* An engine whose commands are rows of a matrix writes a row of memory to several words of the
 * scratchpad: a dimension of stride 0 outside the run that fills a word with it at most. */
static void take_repeats(const dev_class_t *cls, sim_dma_op_t *op) {
    if (op->ndims == 0) return;
    uint32_t last = op->ndims - 1;
    bool is_word =
        op->stride[last] == 0 && op->run_bytes * op->size[last] <= cls->sram_banks.word_bytes;
    if (!is_word || op->size[last] == 1) return;
    op->run_writes = op->size[last];
    op->ndims = last;
}

/* Elements of a dimension that a border fills: before the source, and as many behind it at most
 * (the rest of a tile that reaches beyond is nobody's). */
static uint32_t border_of(const vnpu_ap_t *ap, const dev_view_t *src, uint32_t d, uint32_t whole) {
    if (!src->has_window) return 0;
    uint32_t behind = whole - src->front[d] - src->size[d], pad = 0;
    for (uint32_t c = 0; c < 4; c++) {
        if ((ap->clip[c].axis_mode & VNPU_CLIP_WINDOW) && ap->clip[c].dim == d) pad = ap->pad[c];
    }
    return src->front[d] + (behind < pad ? behind : pad);
}

/* Bytes, of whole words, that a padded copy fills with its border. */
static uint64_t fill_bytes(const dev_class_t *cls, const vnpu_ap_t *ap, const dev_view_t *dst,
                           const dev_view_t *src) {
    uint32_t word = cls->sram_banks.word_bytes, inner = dst->ndims - 1;
    uint64_t words = ((uint64_t)dst->size[inner] * dst->elem_bytes + word - 1) / word,
             there = words, all = words;
    for (uint32_t d = 0; d < inner; d++) {
        bool is_block = d + 1 == src->ndims; /* of dst alone */
        uint32_t size = is_block ? dst->size[d] : src->size[d];
        there *= size;
        all *= is_block ? size : size + border_of(ap, src, d, dst->size[d]);
    }
    return (all - there) * word;
}

static void dram_rows(timing_queue_t *queue, timing_slot_t *slot, const dev_view_t *table,
                      uint16_t ap_index, uint64_t n) {
    dev_timing_t *timing = queue->core->timing;
    const timing_job_t *job = queue->core->job;
    const vnpu_ap_t *ap = &job->placed.program->ap[ap_index];
    uint64_t shift = job->placed.arg[ap->arg] - job->launch->arg[ap->arg];
    dev_rows_t list = {NULL, n};
    if (job->rows != NULL) {
        list = dev_row_set_get(job->rows, queue->core->instance, queue->section_index,
                               queue->row_lists);
    }
    queue->row_lists++;
    if (list.count > slot->row_capacity) {
        uint64_t *row = realloc(slot->row, list.count * sizeof *row);
        if (row == NULL)
            sim_bug("timing", sim_now(timing->engine), "out of memory for %llu rows",
                    (unsigned long long)list.count);
        slot->row = row;
        slot->row_capacity = list.count;
    }
    uint64_t table_rows = table->size[0] != 0 ? table->size[0] : 1;
    int64_t pitch = table->stride[0] * (int64_t)table->elem_bytes;
    for (uint64_t i = 0; i < list.count; i++) {
        slot->row[i] = list.address != NULL
                           ? list.address[i] + shift
                           : table->base + (uint64_t)((int64_t)(i % table_rows) * pitch);
    }
    sim_dma_op_t *op = &slot->op.dma;
    op->row_address = slot->row;
    op->row_count = list.count;
    op->run_bytes = table->elem_bytes;
    for (uint32_t d = 1; d < table->ndims; d++)
        op->run_bytes *= table->size[d];
}

/* A copy, or a fill (src NULL). */
static void set_move(const timing_queue_t *queue, sim_dma_op_t *op, dev_view_t *dst,
                     const dev_view_t *src) {
    const dev_class_t *cls = queue->core->cls;
    const vnpu_insn_t *insn = queue->insn;
    bool is_read = op->kind == SIM_DMA_READ, has_commands = cls->dma.command_runs > 0;
    if (is_read && dst->ndims > src->ndims) {
        cut_blocks(dst, src);
        op->is_scattered = true;
    }
    const dev_view_t *far = is_read ? src : dst;
    walk_runs(far, cls->dma.keeps_rows, op);
    if (is_read && has_commands && dst->space == VNPU_SPACE_SRAM) {
        take_repeats(cls, op);
        const vnpu_ap_t *ap = &queue->core->job->placed.program->ap[insn->src[0]];
        if (insn->flags & VNPU_F_PAD) op->fill_bytes = fill_bytes(cls, ap, dst, src);
    }
    uint64_t times = op->run_writes > 0 ? op->run_writes : 1; /* read once */
    timing_count_memory(queue->core->job, op, far->count * far->elem_bytes / times);
    op->sram_bytes = 0;
    if (src != NULL && src->space == VNPU_SPACE_SRAM) {
        op->sram_bytes += local_bytes(cls, src);
        op->local = range_of(cls, src);
    }
    if (dst->space == VNPU_SPACE_SRAM) {
        op->sram_bytes += local_bytes(cls, dst);
        op->local = range_of(cls, dst);
    }
    if (src != NULL && src->space == VNPU_SPACE_ACC) op->acc_bytes = src->count * src->elem_bytes;
    if (dst->space == VNPU_SPACE_ACC) op->acc_bytes = dst->count * dst->elem_bytes;
}

static bool submit_dma(timing_queue_t *queue, timing_slot_t *slot) {
    const vnpu_insn_t *insn = queue->insn;
    sim_dma_op_t *op = &slot->op.dma;
    memset(op, 0, sizeof *op);
    dev_view_t dst, src;
    view_of(queue, insn->dst, &dst);
    bool has_source = insn->src[0] != VNPU_NO_AP;
    if (has_source) view_of(queue, insn->src[0], &src);
    bool pads = (insn->flags & VNPU_F_PAD) != 0; /* a source of nothing leaves a fill */
    if (dst.count == 0 || (has_source && src.count == 0 && !pads)) return false;
    op->transpose = insn->op == VNPU_OP_DMA_TRANSPOSE;
    op->accumulate = (insn->flags & VNPU_F_ACCUMULATE) != 0 && dst.space == VNPU_SPACE_DRAM;
    bool reads_dram = has_source && src.space == VNPU_SPACE_DRAM && src.count != 0;
    bool writes_dram = dst.space == VNPU_SPACE_DRAM;
    op->kind = reads_dram ? SIM_DMA_READ : writes_dram ? SIM_DMA_WRITE : SIM_DMA_LOCAL;
    if (insn->op == VNPU_OP_DMA_GATHER || insn->op == VNPU_OP_DMA_SCATTER) {
        dev_view_t index;
        view_of(queue, insn->src[1], &index);
        if (index.count == 0) return false;
        bool is_gather = insn->op == VNPU_OP_DMA_GATHER;
        dram_rows(queue, slot, is_gather ? &src : &dst, is_gather ? insn->src[0] : insn->dst,
                  index.count);
        const dev_view_t *local = is_gather ? &dst : &src;
        op->sram_bytes = local->count * local->elem_bytes + index.count * index.elem_bytes;
        timing_count_memory(queue->core->job, op, op->row_count * op->run_bytes);
    } else {
        set_move(queue, op, &dst, has_source ? &src : NULL);
    }
    if (insn->multicast != 0) {
        const timing_core_t *core = queue->core;
        if (slot->port == NULL)
            slot->port = calloc(core->timing->machine.cores, sizeof *slot->port);
        if (slot->port == NULL)
            sim_bug("timing", sim_now(core->timing->engine), "out of memory for a multicast");
        op->multicast_port = slot->port;
        op->multicast_count = timing_reach(core, insn, slot->port);
    }
    op->op.on_end = timing_op_end;
    op->op.on_done = timing_op_done;
    op->op.owner = slot;
    timing_energy_dma(queue->core->job, op);
    sim_dma_submit(queue->core->dma[queue->section->index], op);
    return true;
}

bool timing_submit(timing_queue_t *queue, timing_slot_t *slot) {
    switch ((vnpu_queue_kind_t)queue->section->kind) {
    case VNPU_QUEUE_MATRIX: return queue->insn->op == VNPU_OP_MM && submit_matrix(queue, slot);
    case VNPU_QUEUE_VECTOR: return queue->insn->op >= VNPU_OP_V_UNARY && submit_vector(queue, slot);
    case VNPU_QUEUE_DMA: return queue->insn->op >= VNPU_OP_DMA_COPY && submit_dma(queue, slot);
    case VNPU_QUEUE_CTRL:
    case VNPU_QUEUE_KIND_COUNT: return false;
    }
    return false;
}

bool timing_unit_ready(const timing_queue_t *queue) {
    const timing_core_t *core = queue->core;
    switch ((vnpu_queue_kind_t)queue->section->kind) {
    case VNPU_QUEUE_MATRIX: return sim_matrix_can_submit(core->matrix);
    case VNPU_QUEUE_VECTOR: return sim_vector_can_submit(core->vector);
    case VNPU_QUEUE_DMA: return sim_dma_can_submit(core->dma[queue->section->index]);
    case VNPU_QUEUE_CTRL:
    case VNPU_QUEUE_KIND_COUNT: return true;
    }
    return true;
}
