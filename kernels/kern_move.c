#include "kernels/kern_move.h"

#include <stdlib.h>

/* In its place by DRAM stride, the longest first, unless the caller says which. */
void kern_move_add(kern_move_t *move, const kern_axis_t *axis, int64_t far, int64_t near,
                   const kern_window_t *window) {
    if (move->count == KERN_MOVE_DIMS) abort();
    uint32_t at = move->count++;
    for (; at > 0 && !move->keeps_order && move->dim[at - 1].far < far; at--)
        move->dim[at] = move->dim[at - 1];
    move->dim[at] = (kern_move_dim_t){axis, far, near, window, 0, 0};
}

void kern_move_add_blocks(kern_move_t *move, const kern_axis_t *axis, int64_t far, int64_t near,
                          uint32_t block, int64_t near_block) {
    kern_move_add(move, axis, far, near, NULL);
    if (axis->tile <= block) return;
    move->dim[move->count - 1].block = block;
    move->dim[move->count - 1].near_block = near_block;
}

uint64_t kern_move_padded(uint64_t elems, vnpu_dtype_t dtype) {
    return kern_align(elems * vnpu_dtype_bytes(dtype)) / vnpu_dtype_bytes(dtype);
}

static bool is_turned(const vnpu_ap_t *dram, const vnpu_ap_t *sram) {
    for (uint32_t d = dram->ndims; d-- > 0;) {
        if (dram->dim[d].size == 1 || dram->dim[d].stride == 0) continue;
        for (uint32_t e = 0; e < d; e++) {
            if (sram->dim[e].size > 1 && sram->dim[e].stride < sram->dim[d].stride) return true;
        }
        return false;
    }
    return false;
}

vnpu_insn_t *kern_move_emit(kern_builder_t *builder, kern_queue_t queue, const kern_move_t *move) {
    vnpu_ap_t dram = kern_ap_make(VNPU_SPACE_DRAM, move->far_dtype, 0),
              sram = kern_ap_make(move->near_space ? move->near_space : VNPU_SPACE_SRAM,
                                  move->near_dtype, move->sram);
    bool pads = false, has_blocks = false;
    for (uint32_t d = 0; d < move->count; d++) {
        const kern_move_dim_t *dim = &move->dim[d];
        kern_term_t far = {dim->axis, dim->far, false}, near = {dim->axis, dim->near, false};
        if (dim->window) {
            kern_ap_append_window(&dram, dim->axis, dim->window, dim->far);
            kern_ap_dim(&sram, (uint32_t)dim->window->size, dim->near);
            pads = true;
        } else if (dim->block > 0) {
            kern_ap_append(&dram, &far, true);
            kern_ap_dim(&sram, (dim->axis->tile + dim->block - 1) / dim->block, dim->near_block);
            kern_ap_dim(&sram, dim->block, dim->near);
            has_blocks = true;
        } else {
            kern_ap_append(&dram, &far, true);
            kern_ap_append(&sram, &near, false);
        }
    }
    if (dram.ndims == 0) {
        kern_ap_dim(&dram, 1, 1);
        kern_ap_dim(&sram, 1, 1);
    }
    dram.arg = move->arg;
    kern_ap_rotate(&sram, move->level, move->buffers,
                   kern_move_padded(move->elems, move->near_dtype));
    if (move->rotates_nest) kern_ap_rotate_nest(&sram, 0);
    if (!move->keeps_rows && !has_blocks) kern_ap_merge((vnpu_ap_t *[]){&dram, &sram}, 2, 0);
    bool is_copy = move->keeps_order || !is_turned(&dram, &sram);
    vnpu_op_t op = is_copy ? VNPU_OP_DMA_COPY : VNPU_OP_DMA_TRANSPOSE;
    vnpu_insn_t *insn = kern_emit(builder, queue, op);
    bool is_store = queue == KERN_STORE;
    insn->dst = kern_ap(builder, is_store ? &dram : &sram);
    insn->src[0] = kern_ap(builder, is_store ? &sram : &dram);
    if (pads) {
        insn->flags |= VNPU_F_PAD;
        insn->imm[0] = move->value[0];
        insn->imm[1] = move->value[1];
    }
    return insn;
}
