#include "kernels/kern_rows.h"

/*
 * softmax: exp(x - max) / sum; log-softmax: x - max - log(sum). A row that fits a tile is read
 * once; a longer one three times: its maximum, its sum, its results.
 */

enum { MAXIMUM = 0, SUM = 1 };

static bool is_log(const kern_rows_coder_t *c) {
    return c->call->kind == KERN_ROWS_LOG_SOFTMAX;
}

static vnpu_insn_t *shift(const kern_rows_coder_t *c) {
    return kern_rows_binary(c, VNPU_B_SUB, kern_rows_local(c, c->work, KERN_TILE),
                            kern_rows_operand(c, ROWS_IN, KERN_TILE),
                            kern_rows_local(c, c->row[MAXIMUM], KERN_ROW_B));
}

/* exp of the shifted tile and its row sums; then 1 / sum or log(sum) into the SUM vector. */
static void exponentials(const kern_rows_coder_t *c) {
    uint8_t r = kern_rowset_r_mask(c->rows);
    vnpu_insn_t *insn = kern_rows_unary(c, VNPU_U_EXP, kern_rows_local(c, c->spare, KERN_TILE),
                                        kern_rows_local(c, c->work, KERN_TILE));
    uint32_t sums = r ? c->partial : c->row[SUM];
    insn->src[3] = kern_rows_local(c, sums, r ? KERN_PARTIAL : KERN_ROW);
    if (r) {
        insn->flags |= VNPU_F_PARTIAL;
        insn->not_first = r;
        insn = kern_emit(c->builder, KERN_VECTOR, VNPU_OP_V_FOLD);
        insn->func = VNPU_R_ADD;
        insn->src[0] = kern_rows_local(c, c->partial, KERN_PARTIAL);
        insn->dst = kern_rows_local(c, c->row[SUM], KERN_ROW);
        insn->last_only = r;
    }
    uint16_t sum = kern_rows_local(c, c->row[SUM], KERN_ROW);
    kern_rows_unary(c, is_log(c) ? VNPU_U_LOG : VNPU_U_RECIP, sum, sum)->last_only = r;
}

/* The results of the tile, into out. */
static void results(const kern_rows_coder_t *c) {
    vnpu_insn_t *insn = kern_rows_binary(
        c, is_log(c) ? VNPU_B_SUB : VNPU_B_MUL, kern_rows_operand(c, ROWS_OUT, KERN_TILE),
        kern_rows_local(c, c->work, KERN_TILE), kern_rows_local(c, c->row[SUM], KERN_ROW_B));
    kern_wait(insn, c->out.free, 1);
    kern_signal(insn, c->out.full, 1);
}

static void whole_rows(const kern_rows_coder_t *c) {
    uint32_t loads = kern_rows_load(c, false);
    kern_wait(kern_rows_reduce(c, VNPU_R_MAX, VNPU_U_COPY, c->row[MAXIMUM],
                               kern_rows_operand(c, ROWS_IN, KERN_TILE)),
              c->in.full, loads);
    kern_signal(shift(c), c->in.free, 1);
    exponentials(c);
    results(c);
}

static void long_rows(const kern_rows_coder_t *c) {
    for (int pass = 0; pass < 3; pass++) {
        kern_rowset_open_r(c->rows, c->builder);
        uint32_t loads = kern_rows_load(c, false);
        vnpu_insn_t *first = pass == 0
                                 ? kern_rows_reduce(c, VNPU_R_MAX, VNPU_U_COPY, c->row[MAXIMUM],
                                                    kern_rows_operand(c, ROWS_IN, KERN_TILE))
                                 : shift(c);
        kern_wait(first, c->in.full, loads);
        kern_signal(first, c->in.free, 1);
        if (pass == 1) exponentials(c);
        if (pass == 2) {
            if (!is_log(c))
                kern_rows_unary(c, VNPU_U_EXP, kern_rows_local(c, c->work, KERN_TILE),
                                kern_rows_local(c, c->work, KERN_TILE));
            results(c);
            kern_rowset_move_t store = {KERN_STORE,
                                        KERN_TILE,
                                        c->call->dtype[ROWS_OUT],
                                        c->call->dtype[ROWS_OUT],
                                        c->arg[ROWS_OUT],
                                        c->call->iter.stride[ROWS_OUT],
                                        c->sram[ROWS_OUT],
                                        c->rows->nest.inner,
                                        c->rows->nest.buffers};
            vnpu_insn_t *insn = kern_rowset_emit_move(c->rows, c->builder, &store);
            kern_wait(insn, c->out.full, 1);
            kern_signal(insn, c->out.free, 1);
        }
        kern_rowset_close_r(c->rows, c->builder);
    }
}

void kern_softmax_generate(const kern_rows_coder_t *c) {
    if (c->has_passes) {
        long_rows(c);
    } else {
        whole_rows(c);
    }
}
