#include "kernels/kern_rows.h"

/*
 * Layer norm in two passes over the tile: mean, then the squares of what is left, so that a large
 * mean costs no digits. A row that does not fit is read three times.
 */

enum { MEAN = 0, RSTD = 1 };

static void scale(vnpu_insn_t *insn, double factor, float addend) {
    insn->flags |= VNPU_F_SCALE;
    insn->imm[0] = kern_f32_bits((float)factor);
    insn->imm[1] = kern_f32_bits(addend);
}

static double reciprocal_length(const kern_rows_coder_t *c) {
    return 1.0 / (double)kern_rowset_r(c->rows)->size;
}

static vnpu_insn_t *sums(const kern_rows_coder_t *c) {
    vnpu_insn_t *first = kern_rows_reduce(c, VNPU_R_ADD, VNPU_U_COPY, c->row[MEAN],
                                          kern_rows_operand(c, ROWS_IN, KERN_TILE));
    return first;
}

static void means(const kern_rows_coder_t *c) {
    uint16_t mean = kern_rows_local(c, c->row[MEAN], KERN_ROW);
    vnpu_insn_t *insn = kern_rows_unary(c, VNPU_U_COPY, mean, mean);
    insn->last_only = kern_rowset_r_mask(c->rows);
    scale(insn, reciprocal_length(c), 0);
}

static vnpu_insn_t *centre(const kern_rows_coder_t *c) {
    return kern_rows_binary(c, VNPU_B_SUB, kern_rows_local(c, c->work, KERN_TILE),
                            kern_rows_operand(c, ROWS_IN, KERN_TILE),
                            kern_rows_local(c, c->row[MEAN], KERN_ROW_B));
}

static void deviations(const kern_rows_coder_t *c) {
    kern_rows_reduce(c, VNPU_R_ADD, VNPU_U_SQUARE, c->row[RSTD],
                     kern_rows_local(c, c->work, KERN_TILE));
    uint16_t rstd = kern_rows_local(c, c->row[RSTD], KERN_ROW);
    vnpu_insn_t *insn = kern_rows_unary(c, VNPU_U_RSQRT, rstd, rstd);
    insn->last_only = kern_rowset_r_mask(c->rows);
    scale(insn, reciprocal_length(c), c->call->eps);
}

/* work * rstd (* weight) (+ bias) into out. in.free is signalled by the last instruction when
 * `frees`. */
static void results(const kern_rows_coder_t *c, bool frees) {
    bool has_weight = c->call->has[ROWS_WEIGHT], has_bias = c->call->has[ROWS_BIAS];
    uint16_t work = kern_rows_local(c, c->work, KERN_TILE),
             out = kern_rows_operand(c, ROWS_OUT, KERN_TILE);
    bool needs_second = has_weight && has_bias;
    vnpu_insn_t *insn = kern_rows_binary(c, VNPU_B_MUL, needs_second ? work : out, work,
                                         kern_rows_local(c, c->row[RSTD], KERN_ROW_B));
    if (has_weight || has_bias) {
        insn->func2 = has_weight ? VNPU_B_MUL : VNPU_B_ADD;
        insn->src[2] = kern_rows_operand(c, has_weight ? ROWS_WEIGHT : ROWS_BIAS, KERN_COLUMN_B);
    }
    if (needs_second)
        insn = kern_rows_binary(c, VNPU_B_ADD, out, work,
                                kern_rows_operand(c, ROWS_BIAS, KERN_COLUMN_B));
    kern_wait(insn, c->out.free, 1);
    kern_signal(insn, c->out.full, 1);
    if (frees) kern_signal(insn, c->in.free, 1);
}

static void whole_rows(const kern_rows_coder_t *c) {
    uint32_t loads = kern_rows_load(c, false);
    kern_wait(sums(c), c->in.full, loads);
    means(c);
    vnpu_insn_t *last = centre(c);
    if (!c->in_place) kern_signal(last, c->in.free, 1);
    deviations(c);
    results(c, false);
}

static void long_rows(const kern_rows_coder_t *c) {
    for (int pass = 0; pass < 3; pass++) {
        kern_rowset_open_r(c->rows, c->builder);
        uint32_t loads = kern_rows_load(c, pass == 2);
        vnpu_insn_t *first = pass == 0 ? sums(c) : centre(c);
        kern_wait(first, c->in.full, loads);
        if (pass < 2) kern_signal(first, c->in.free, 1);
        if (pass == 0) means(c);
        if (pass == 1) deviations(c);
        if (pass == 2) {
            results(c, true);
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

void kern_layer_norm_generate(const kern_rows_coder_t *c) {
    if (c->has_passes) {
        long_rows(c);
    } else {
        whole_rows(c);
    }
}
