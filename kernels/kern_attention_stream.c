#include <string.h>

#include "kernels/kern_attention.h"
#include "kernels/kern_cost.h"

/*
 * Keys in blocks, with the running maximum m and sum l of each query:
 *   m' = max(m, max(s)), a = exp(m - m'), p = exp(s - m'), l = a l + sum(p), o = a o + p v; at the
 * end o / l. Grid axis 1 is the batch. A lane owns a contiguous part of the queries and walks it
 * tile by tile.
 */

/* ---- planning ---- */

static uint64_t lane_bytes(const kern_attention_shape_t *s, uint64_t m, uint64_t n) {
    uint64_t d = (uint64_t)s->depth, bytes = vnpu_dtype_bytes(s->dtype);
    uint64_t need = 2 * kern_align(m * d * bytes) +
                    2 * kern_align(m * d * vnpu_dtype_bytes(s->out_dtype)) + kern_align(m * d * 4) +
                    kern_align(m * n * bytes) + 7 * kern_align(m * 4);
    if (s->has_mask) {
        uint64_t rows = s->mask[ATT_S] ? m : 1, columns = s->mask[ATT_D] ? n : 1;
        need += 2 * kern_align(rows * columns * vnpu_dtype_bytes(s->mask_dtype));
    }
    return need;
}

static bool fits(const vnpu_machine_t *machine, const kern_attention_shape_t *s, uint64_t lanes,
                 uint64_t m, uint64_t n) {
    uint64_t d = (uint64_t)s->depth, bytes = vnpu_dtype_bytes(s->dtype);
    uint64_t need = lanes * lane_bytes(s, m, n) + 4 * kern_align(n * d * bytes) +
                    kern_align(m * n * 4) + kern_align(m * n);
    uint64_t acc = lanes * (kern_align(m * n * 4) + kern_align(m * d * 4));
    return need <= machine->sram_bytes && acc <= machine->acc_bytes;
}

/* Keys per block, near `target`: an even number of blocks, none of them empty, so that two buffers
 * come out even. */
static int64_t key_block(int64_t keys, int64_t target, uint32_t *out_buffers) {
    *out_buffers = 1;
    if (keys <= target) return keys;
    int64_t blocks = (keys + target - 1) / target;
    blocks += blocks % 2;
    for (int tries = 0; tries < 8; tries++, blocks += 2) {
        int64_t block = (keys + blocks - 1) / blocks;
        if ((blocks - 1) * block >= keys || (keys + block - 1) / block != blocks) continue;
        *out_buffers = 2;
        return block;
    }
    return target;
}

static void set_loops(kern_attention_stream_t *plan) {
    kern_axis_t *axis[4] = {&plan->kv_head, &plan->repeat, &plan->query, &plan->key};
    uint8_t depth = 0;
    for (uint32_t i = 0; i < 4; i++) {
        if (axis[i]->trips == 1) continue;
        if (depth > 0 && i < 3) axis[i]->trips += axis[i]->trips % 2;
        axis[i]->level = depth++;
    }
}

static void split(kern_attention_stream_t *plan, uint32_t workers) {
    kern_axis_t *axis[3] = {&plan->kv_head, &plan->query, &plan->repeat}, *best = NULL;
    plan->grid[0] = 1;
    plan->grid[1] = (uint32_t)plan->batch.size;
    if (plan->batch.size > 1) kern_axis_split(&plan->batch, 1, plan->grid[1]);
    uint32_t left = (uint32_t)kern_ceil_div(workers, plan->grid[1]);
    for (uint32_t i = 0; i < 3 && left > 1; i++) {
        uint32_t grid = axis[i]->tiles < left ? axis[i]->tiles : left;
        if (grid <= plan->grid[0]) continue;
        plan->grid[0] = grid;
        best = axis[i];
    }
    if (best) kern_axis_split(best, 0, plan->grid[0]);
}

static uint64_t cost_of(const vnpu_machine_t *machine, const kern_attention_shape_t *s,
                        const kern_attention_stream_t *plan) {
    uint64_t m = plan->query.tile, n = plan->key.tile, d = (uint64_t)s->depth;
    uint64_t matrix = kern_cost_matrix(machine, s->dtype, m, d, n, m, d, n) +
                      kern_cost_matrix(machine, s->dtype, m, n, d, m, n, d);
    uint64_t vector = (s->is_direct ? 2 : 3) * kern_cost_vector(machine, m, n, KERN_CLASS_ALU) +
                      kern_cost_vector(machine, m, n, KERN_CLASS_TRANSCENDENTAL) +
                      kern_cost_vector(machine, m, d, KERN_CLASS_MUL) +
                      6 * kern_cost_vector(machine, 1, m, KERN_CLASS_ALU);
    uint64_t slowest = matrix > vector ? matrix : vector,
             fastest = matrix > vector ? vector : matrix;
    uint64_t body = plan->lanes * slowest + fastest;
    uint64_t load = 2 * kern_cost_dma(machine, n * d * vnpu_dtype_bytes(s->dtype),
                                      d * vnpu_dtype_bytes(s->dtype));
    if (load > body || plan->key_buffers == 1) body = plan->key_buffers == 1 ? body + load : load;
    uint64_t rounds = kern_ceil_div((uint64_t)plan->grid[0] * plan->grid[1], machine->workers);
    return rounds * plan->kv_head.trips * plan->repeat.trips * plan->query.trips *
           (plan->key.trips * body + fastest);
}

static bool try_plan(const vnpu_machine_t *machine, const kern_attention_shape_t *s, int64_t m,
                     int64_t target, kern_attention_stream_t *plan) {
    *plan = (kern_attention_stream_t){0};
    int64_t n = key_block(s->keys, target, &plan->key_buffers);
    if (m > s->queries) m = s->queries;
    int64_t tiles = (s->queries + m - 1) / m;
    uint32_t lanes = tiles < ATTENTION_LANES ? (uint32_t)tiles : ATTENTION_LANES;
    while (lanes > 0 && !fits(machine, s, lanes, (uint64_t)m, (uint64_t)n))
        lanes--;
    if (lanes == 0) return false;
    plan->lane_queries = (tiles + lanes - 1) / lanes * m;
    plan->lanes = (uint32_t)((s->queries + plan->lane_queries - 1) / plan->lane_queries);
    int64_t repeat = s->heads / s->kv_heads;
    plan->batch = kern_axis_make(s->batch, 1);
    plan->kv_head = kern_axis_make(s->kv_heads, 1);
    plan->repeat = kern_axis_make(repeat, 1);
    plan->query =
        kern_axis_make(plan->lane_queries < s->queries ? plan->lane_queries : s->queries, m);
    plan->key = kern_axis_make(s->keys, n);
    split(plan, machine->workers);
    set_loops(plan);
    return true;
}

/* Keeps the better plan, and what the other would cost. */
static void offer(const kern_attention_shape_t *s, kern_attention_stream_t *plan,
                  kern_attention_stream_t *best, bool has_best) {
    if (!has_best || plan->cycles < best->cycles) {
        if (has_best) plan->next = kern_attention_stream_tiling(s, best);
        *best = *plan;
    } else if (!best->next.order || plan->cycles < best->next.cycles) {
        best->next = kern_attention_stream_tiling(s, plan);
    }
}

bool kern_attention_stream_plan(const vnpu_machine_t *machine, const kern_attention_shape_t *s,
                                kern_attention_stream_t *out_plan) {
    bool is_found = false;
    for (int64_t m = 512; m >= 1; m /= 2) {
        if (m > 1 && m / 2 >= s->queries) continue;
        for (int64_t n = 1024; n >= 1; n /= 2) {
            kern_attention_stream_t plan;
            if ((n > 1 && n / 2 >= s->keys) || !try_plan(machine, s, m, n, &plan)) continue;
            plan.cycles = cost_of(machine, s, &plan);
            offer(s, &plan, out_plan, is_found);
            is_found = true;
        }
    }
    return is_found;
}

/* ---- code ---- */

typedef struct lane_buffers {
    uint32_t q, out, mask, lse, weights, sums;  /* q, out, mask, lse: rings */
    uint32_t maximum, next, factor, total, sum; /* [q] vectors */
    uint32_t scores, product;                   /* accumulator */
} lane_buffers_t;

typedef struct coder {
    const kern_attention_shape_t *s;
    const kern_attention_stream_t *plan;
    kern_builder_t *b;
    kern_axis_t depth, query[ATTENTION_LANES];
    lane_buffers_t lane[ATTENTION_LANES];
    uint32_t k, v, work, outside;
    uint8_t unit_level; /* loop that turns q and out */
    uint32_t unit_buffers;
    kern_ring_t scores_ring, weights_ring, product_ring, out_ring, q_ring;
    uint16_t kv_free, k_full, v_full, mask_full;
    uint32_t stores;
} coder_t;

static uint64_t pitch(uint64_t elems, vnpu_dtype_t dtype) {
    uint32_t bytes = vnpu_dtype_bytes(dtype);
    return kern_align(elems * bytes) / bytes;
}

/* [unit][q][columns], or [unit][q]. turn: elements of a unit's buffer (0: not a ring). */
static uint16_t lane_ap(const coder_t *c, uint32_t g, vnpu_space_t space, vnpu_dtype_t dtype,
                        int64_t base, int64_t row, const kern_axis_t *columns, int64_t column,
                        uint64_t turn) {
    kern_term_t term[4] = {
        {&c->plan->kv_head, 0, false}, {&c->plan->repeat, 0, false}, {&c->query[g], row, true}};
    uint32_t count = 3;
    if (columns) term[count++] = (kern_term_t){columns, column, true};
    vnpu_ap_t ap = kern_ap_terms(space, dtype, base, term, count, false);
    if (turn) kern_ap_rotate(&ap, c->unit_level, c->unit_buffers, pitch(turn, dtype));
    return kern_ap(c->b, &ap);
}

static uint16_t row_ap(const coder_t *c, uint32_t g, uint32_t base) {
    return lane_ap(c, g, VNPU_SPACE_SRAM, VNPU_F32, base, 1, NULL, 0, 0);
}

static uint16_t row_constant(const coder_t *c, uint32_t g, uint32_t arg) {
    return lane_ap(c, g, VNPU_SPACE_ARG, VNPU_F32, 8 * (int64_t)arg, 0, NULL, 0, 0);
}

/* A tile that the key loop turns. */
static uint16_t key_ring_ap(const coder_t *c, vnpu_ap_t ap, uint64_t elems) {
    kern_ap_rotate(&ap, c->plan->key.level, c->plan->key_buffers,
                   pitch(elems, (vnpu_dtype_t)ap.dtype));
    return kern_ap(c->b, &ap);
}

static uint64_t mask_elems(const coder_t *c) {
    uint64_t rows = c->s->mask[ATT_S] ? c->plan->query.tile : 1,
             columns = c->s->mask[ATT_D] ? c->plan->key.tile : 1;
    return rows * columns;
}

static kern_attention_lane_t make_lane(const coder_t *c, uint32_t g) {
    const kern_attention_shape_t *s = c->s;
    const kern_axis_t *n = &c->plan->key;
    const lane_buffers_t *at = &c->lane[g];
    kern_attention_lane_t lane;
    memset(&lane, 0xff, sizeof lane);
    lane.scores = lane_ap(c, g, VNPU_SPACE_ACC, VNPU_F32, at->scores, n->tile, n, 1, 0);
    lane.weights = lane_ap(c, g, VNPU_SPACE_SRAM, s->dtype, at->weights, n->tile, n, 1, 0);
    lane.work = s->dtype == VNPU_F32
                    ? lane.weights
                    : lane_ap(c, g, VNPU_SPACE_SRAM, VNPU_F32, c->work, n->tile, n, 1, 0);
    lane.maximum = row_ap(c, g, at->maximum);
    lane.sum = row_ap(c, g, at->sum);
    lane.maximum_b = lane_ap(c, g, VNPU_SPACE_SRAM, VNPU_F32, at->next, 1, n, 0, 0);
    lane.sum_b = lane_ap(c, g, VNPU_SPACE_SRAM, VNPU_F32, at->factor, 1, &c->depth, 0, 0);
    if (s->is_causal)
        lane.outside = lane_ap(c, g, VNPU_SPACE_SRAM, VNPU_BOOL, c->outside, n->tile, n, 1, 0);
    if (s->has_mask) {
        int64_t column = s->mask[ATT_D] ? 1 : 0, row = s->mask[ATT_S] ? (column ? n->tile : 1) : 0;
        kern_term_t term[4] = {{&c->plan->kv_head, 0, false},
                               {&c->plan->repeat, 0, false},
                               {&c->query[g], row, true},
                               {n, column, true}};
        lane.mask =
            key_ring_ap(c, kern_ap_terms(VNPU_SPACE_SRAM, s->mask_dtype, at->mask, term, 4, false),
                        mask_elems(c));
    }
    lane.constant[ATT_ARG_SCALE] =
        lane_ap(c, g, VNPU_SPACE_ARG, VNPU_F32, 8 * (int64_t)ATT_ARG_SCALE, 0, n, 0, 0);
    lane.constant[ATT_ARG_NEG_INF] =
        lane_ap(c, g, VNPU_SPACE_ARG, VNPU_F32, 8 * (int64_t)ATT_ARG_NEG_INF, 0, n, 0, 0);
    return lane;
}

/* 1 where a key comes after its query. */
static void emit_diagonal(const coder_t *c, uint32_t g, uint16_t outside) {
    const kern_axis_t *n = &c->plan->key;
    kern_term_t term[4] = {{&c->plan->kv_head, 0, false},
                           {&c->plan->repeat, 0, false},
                           {&c->query[g], -1, true},
                           {n, 1, true}};
    vnpu_ap_t distance = kern_ap_terms(VNPU_SPACE_IOTA, VNPU_I64,
                                       -(int64_t)g * c->plan->lane_queries, term, 4, true);
    uint16_t zero = lane_ap(c, g, VNPU_SPACE_ARG, VNPU_I64, 8 * (int64_t)ATT_ARG_ZERO, 0, n, 0, 0);
    kern_attention_binary(c->b, VNPU_B_GT, outside, kern_ap(c->b, &distance), zero)->flags |=
        VNPU_F_INTEGER;
}

static void emit_start(const coder_t *c, uint32_t g) {
    const lane_buffers_t *at = &c->lane[g];
    uint16_t sums =
        lane_ap(c, g, VNPU_SPACE_SRAM, VNPU_F32, at->sums, c->s->depth, &c->depth, 1, 0);
    uint16_t zero =
        lane_ap(c, g, VNPU_SPACE_ARG, VNPU_F32, 8 * (int64_t)ATT_ARG_ZERO, 0, &c->depth, 0, 0);
    kern_attention_unary(c->b, VNPU_U_COPY, row_ap(c, g, at->maximum),
                         row_constant(c, g, ATT_ARG_LOWEST));
    kern_attention_unary(c->b, VNPU_U_COPY, row_ap(c, g, at->total),
                         row_constant(c, g, ATT_ARG_ZERO));
    kern_attention_unary(c->b, VNPU_U_COPY, sums, zero);
}

/* The block's weights, and what the running values are multiplied with. */
static void emit_softmax(const coder_t *c, uint32_t g) {
    const lane_buffers_t *at = &c->lane[g];
    kern_attention_lane_t lane = make_lane(c, g);
    uint16_t maximum = lane.maximum, next = row_ap(c, g, at->next),
             factor = row_ap(c, g, at->factor), total = row_ap(c, g, at->total);
    vnpu_insn_t *insn;
    kern_sync_wait(c->b, KERN_VECTOR, c->weights_ring.free, 1);
    if (c->s->is_direct) {
        kern_wait(kern_attention_maximum(c->b, next, lane.scores), c->scores_ring.full, 1);
        insn =
            kern_attention_binary(c->b, VNPU_B_MUL, next, next, row_constant(c, g, ATT_ARG_SCALE));
        insn->func2 = VNPU_B_MAX;
        insn->src[2] = maximum;
        insn = kern_attention_binary(c->b, VNPU_B_MUL, lane.work, lane.scores,
                                     lane.constant[ATT_ARG_SCALE]);
        insn->func2 = VNPU_B_SUB;
        insn->src[2] = lane.maximum_b;
        kern_signal(insn, c->scores_ring.free, 1);
    } else {
        if (c->s->is_causal) emit_diagonal(c, g, lane.outside);
        insn = kern_attention_scale(c->b, c->s, &lane);
        kern_wait(insn, c->scores_ring.full, 1);
        kern_signal(insn, c->scores_ring.free, 1);
        kern_attention_maximum(c->b, next, lane.work);
        kern_attention_binary(c->b, VNPU_B_MAX, next, next, maximum);
        kern_attention_binary(c->b, VNPU_B_SUB, lane.work, lane.work, lane.maximum_b);
    }
    insn = kern_attention_unary(c->b, VNPU_U_EXP, lane.weights, lane.work);
    insn->src[3] = lane.sum;
    kern_signal(insn, c->weights_ring.full, 1);
    kern_attention_binary(c->b, VNPU_B_SUB, factor, maximum, next);
    kern_attention_unary(c->b, VNPU_U_EXP, factor, factor);
    kern_attention_unary(c->b, VNPU_U_COPY, maximum, next);
    insn = kern_attention_binary(c->b, VNPU_B_MUL, total, total, factor);
    insn->func2 = VNPU_B_ADD;
    insn->src[2] = lane.sum;
}

static void emit_accumulate(const coder_t *c, uint32_t g) {
    const lane_buffers_t *at = &c->lane[g];
    uint16_t sums =
        lane_ap(c, g, VNPU_SPACE_SRAM, VNPU_F32, at->sums, c->s->depth, &c->depth, 1, 0);
    uint16_t factor = lane_ap(c, g, VNPU_SPACE_SRAM, VNPU_F32, at->factor, 1, &c->depth, 0, 0);
    vnpu_insn_t *insn = kern_attention_binary(c->b, VNPU_B_MUL, sums, sums, factor);
    insn->func2 = VNPU_B_ADD;
    insn->src[2] =
        lane_ap(c, g, VNPU_SPACE_ACC, VNPU_F32, at->product, c->s->depth, &c->depth, 1, 0);
    kern_wait(insn, c->product_ring.full, 1);
    kern_signal(insn, c->product_ring.free, 1);
    /* With the last lane, every product of this block is done: its keys and values may go. */
    if (g + 1 == c->plan->lanes) kern_signal(insn, c->kv_free, 1);
}

static void emit_finish(const coder_t *c, uint32_t g) {
    const kern_attention_shape_t *s = c->s;
    const lane_buffers_t *at = &c->lane[g];
    uint16_t total = row_ap(c, g, at->total), maximum = row_ap(c, g, at->maximum);
    uint16_t total_b = lane_ap(c, g, VNPU_SPACE_SRAM, VNPU_F32, at->total, 1, &c->depth, 0, 0);
    uint64_t tile = c->plan->query.tile;
    kern_attention_binary(c->b, VNPU_B_MAX, total, total, row_constant(c, g, ATT_ARG_TINY));
    if (s->has_lse) {
        uint16_t lse = lane_ap(c, g, VNPU_SPACE_SRAM, VNPU_F32, at->lse, 1, NULL, 0, tile);
        kern_attention_unary(c->b, VNPU_U_LOG, lse, total);
        kern_attention_binary(c->b, VNPU_B_ADD, lse, lse, maximum);
    }
    kern_attention_unary(c->b, VNPU_U_RECIP, total, total);
    kern_attention_binary(
        c->b, VNPU_B_MUL,
        lane_ap(c, g, VNPU_SPACE_SRAM, s->out_dtype, at->out, s->depth, &c->depth, 1,
                tile * (uint64_t)s->depth),
        lane_ap(c, g, VNPU_SPACE_SRAM, VNPU_F32, at->sums, s->depth, &c->depth, 1, 0), total_b);
}

static uint16_t weight_ap(const coder_t *c, uint32_t base, const kern_axis_t *rows,
                          const kern_axis_t *columns) {
    kern_term_t term[2] = {{rows, columns->tile, true}, {columns, 1, true}};
    return key_ring_ap(c, kern_ap_terms(VNPU_SPACE_SRAM, c->s->dtype, base, term, 2, false),
                       (uint64_t)rows->tile * columns->tile);
}

static void emit_products(const coder_t *c) {
    const kern_attention_shape_t *s = c->s;
    const kern_axis_t *n = &c->plan->key;
    kern_sync_wait(c->b, KERN_MATRIX, c->k_full, 1);
    for (uint32_t g = 0; g < c->plan->lanes; g++) {
        vnpu_insn_t *insn = kern_emit(c->b, KERN_MATRIX, VNPU_OP_MM);
        insn->src[0] = lane_ap(c, g, VNPU_SPACE_SRAM, s->dtype, c->lane[g].q, s->depth, &c->depth,
                               1, (uint64_t)c->plan->query.tile * (uint64_t)s->depth);
        insn->src[1] = weight_ap(c, c->k, &c->depth, n);
        insn->dst = lane_ap(c, g, VNPU_SPACE_ACC, VNPU_F32, c->lane[g].scores, n->tile, n, 1, 0);
        kern_wait(insn, c->scores_ring.free, 1);
        kern_signal(insn, c->scores_ring.full, 1);
    }
    kern_sync_wait(c->b, KERN_MATRIX, c->v_full, 1);
    for (uint32_t g = 0; g < c->plan->lanes; g++) {
        vnpu_insn_t *insn = kern_emit(c->b, KERN_MATRIX, VNPU_OP_MM);
        insn->src[0] =
            lane_ap(c, g, VNPU_SPACE_SRAM, s->dtype, c->lane[g].weights, n->tile, n, 1, 0);
        insn->src[1] = weight_ap(c, c->v, n, &c->depth);
        insn->dst =
            lane_ap(c, g, VNPU_SPACE_ACC, VNPU_F32, c->lane[g].product, s->depth, &c->depth, 1, 0);
        kern_wait(insn, c->weights_ring.full, 1);
        kern_wait(insn, c->product_ring.free, 1);
        kern_signal(insn, c->weights_ring.free, 1);
        kern_signal(insn, c->product_ring.full, 1);
    }
}

/* ---- moves ---- */

static void add_term(kern_attention_move_t *move, const kern_axis_t *axis, int64_t far,
                     int64_t near) {
    move->axis[move->count] = axis;
    move->far[move->count] = far;
    move->near[move->count++] = near;
}

/* q, out, logsumexp of a lane. The batch and heads are one element each: heads of queries are
 * kv_head * repeat + r. */
static vnpu_insn_t *move_rows(const coder_t *c, uint32_t g, kern_queue_t queue, uint8_t arg,
                              vnpu_dtype_t dtype, uint32_t sram, const int64_t stride[4]) {
    const kern_attention_shape_t *s = c->s;
    int64_t depth = arg == ATT_ARG_LSE ? 1 : s->depth;
    kern_attention_move_t move = {
        .queue = queue,
        .arg = arg,
        .dtype = dtype,
        .sram = sram,
        .far_base = (int64_t)g * c->plan->lane_queries * stride[ATT_S],
        .level = c->unit_level,
        .buffers = c->unit_buffers,
        .pitch = pitch((uint64_t)c->plan->query.tile * (uint64_t)depth, dtype)};
    add_term(&move, &c->plan->batch, stride[ATT_B], 0);
    add_term(&move, &c->plan->kv_head, stride[ATT_H] * (s->heads / s->kv_heads), 0);
    add_term(&move, &c->plan->repeat, stride[ATT_H], 0);
    add_term(&move, &c->query[g], stride[ATT_S], depth);
    if (arg != ATT_ARG_LSE) add_term(&move, &c->depth, stride[ATT_D], 1);
    return kern_attention_emit_move(c->b, &move);
}

static vnpu_insn_t *load_keys(const coder_t *c, uint8_t arg, uint32_t sram, const int64_t stride[4],
                              bool is_turned) {
    const kern_axis_t *n = &c->plan->key;
    kern_attention_move_t move = {
        .queue = KERN_LOAD,
        .arg = arg,
        .dtype = c->s->dtype,
        .sram = sram,
        .level = n->level,
        .buffers = c->plan->key_buffers,
        .pitch = pitch((uint64_t)n->tile * (uint64_t)c->s->depth, c->s->dtype)};
    add_term(&move, &c->plan->batch, stride[ATT_B], 0);
    add_term(&move, &c->plan->kv_head, stride[ATT_H], 0);
    add_term(&move, n, stride[ATT_S], is_turned ? 1 : c->s->depth);
    add_term(&move, &c->depth, stride[ATT_D], is_turned ? n->tile : 1);
    return kern_attention_emit_move(c->b, &move);
}

static vnpu_insn_t *load_mask(const coder_t *c, uint32_t g) {
    const kern_attention_shape_t *s = c->s;
    const kern_axis_t *n = &c->plan->key;
    kern_attention_move_t move = {.queue = KERN_LOAD,
                                  .arg = ATT_ARG_MASK,
                                  .dtype = s->mask_dtype,
                                  .sram = c->lane[g].mask,
                                  .far_base = (int64_t)g * c->plan->lane_queries * s->mask[ATT_S],
                                  .level = n->level,
                                  .buffers = c->plan->key_buffers,
                                  .pitch = pitch(mask_elems(c), s->mask_dtype)};
    add_term(&move, &c->plan->batch, s->mask[ATT_B], 0);
    add_term(&move, &c->plan->kv_head, s->mask[ATT_H] * (s->heads / s->kv_heads), 0);
    add_term(&move, &c->plan->repeat, s->mask[ATT_H], 0);
    if (s->mask[ATT_S]) add_term(&move, &c->query[g], s->mask[ATT_S], s->mask[ATT_D] ? n->tile : 1);
    if (s->mask[ATT_D]) add_term(&move, n, s->mask[ATT_D], 1);
    return kern_attention_emit_move(c->b, &move);
}

static void emit_key_loads(const coder_t *c) {
    vnpu_insn_t *insn = load_keys(c, ATT_ARG_K, c->k, c->s->k, true);
    kern_wait(insn, c->kv_free, 1);
    kern_signal(insn, c->k_full, 1);
    for (uint32_t g = 0; g < c->plan->lanes && c->s->has_mask; g++)
        kern_signal(load_mask(c, g), c->mask_full, 1);
    kern_signal(load_keys(c, ATT_ARG_V, c->v, c->s->v, false), c->v_full, 1);
}

static void emit_stores(const coder_t *c) {
    for (uint32_t g = 0; g < c->plan->lanes; g++) {
        vnpu_insn_t *insn =
            move_rows(c, g, KERN_STORE, ATT_ARG_OUT, c->s->out_dtype, c->lane[g].out, c->s->out);
        if (g == 0) kern_wait(insn, c->out_ring.full, 1);
        kern_signal(insn, c->out_ring.free, 1);
        if (!c->s->has_lse) continue;
        insn = move_rows(c, g, KERN_STORE, ATT_ARG_LSE, VNPU_F32, c->lane[g].lse, c->s->lse);
        kern_signal(insn, c->out_ring.free, 1);
    }
}

/* ---- program ---- */

static void declare_lane(coder_t *c, uint32_t g) {
    const kern_attention_shape_t *s = c->s;
    lane_buffers_t *at = &c->lane[g];
    uint32_t buffers = c->unit_buffers, bytes = vnpu_dtype_bytes(s->dtype);
    uint64_t m = c->plan->query.tile, n = c->plan->key.tile, d = (uint64_t)s->depth;
    c->query[g] = c->plan->query;
    int64_t left = s->queries - (int64_t)g * c->plan->lane_queries;
    c->query[g].size = left < c->plan->lane_queries ? left : c->plan->lane_queries;
    at->q = kern_sram(c->b, buffers * kern_align(m * d * bytes));
    at->out = kern_sram(c->b, buffers * kern_align(m * d * vnpu_dtype_bytes(s->out_dtype)));
    at->sums = kern_sram(c->b, m * d * 4);
    at->weights = kern_sram(c->b, m * n * bytes);
    uint32_t *vector[] = {&at->maximum, &at->next, &at->factor, &at->total, &at->sum};
    for (uint32_t i = 0; i < 5; i++)
        *vector[i] = kern_sram(c->b, m * 4);
    at->lse = kern_sram(c->b, buffers * kern_align(m * 4));
    if (s->has_mask)
        at->mask = kern_sram(c->b, c->plan->key_buffers *
                                       kern_align(mask_elems(c) * vnpu_dtype_bytes(s->mask_dtype)));
    at->scores = kern_acc(c->b, m * n * 4);
    at->product = kern_acc(c->b, m * d * 4);
}

static void declare(coder_t *c) {
    const kern_attention_shape_t *s = c->s;
    const kern_attention_stream_t *plan = c->plan;
    uint64_t m = plan->query.tile, n = plan->key.tile, d = (uint64_t)s->depth,
             bytes = vnpu_dtype_bytes(s->dtype);
    const kern_axis_t *unit[3] = {&plan->kv_head, &plan->repeat, &plan->query};
    c->unit_level = VNPU_NO_LOOP;
    for (uint32_t i = 0; i < 3; i++) {
        if (unit[i]->level != VNPU_NO_LOOP) c->unit_level = unit[i]->level;
    }
    c->unit_buffers = c->unit_level == VNPU_NO_LOOP ? 1 : 2;
    c->stores = plan->lanes * (s->has_lse ? 2 : 1);
    kern_attention_args(c->b, s);
    for (uint32_t g = 0; g < plan->lanes; g++)
        declare_lane(c, g);
    c->k = kern_sram(c->b, plan->key_buffers * kern_align(n * d * bytes));
    c->v = kern_sram(c->b, plan->key_buffers * kern_align(n * d * bytes));
    if (s->dtype != VNPU_F32) c->work = kern_sram(c->b, m * n * 4);
    if (s->is_causal) c->outside = kern_sram(c->b, m * n);
    c->scores_ring = kern_ring(c->b, KERN_VECTOR, plan->lanes);
    c->weights_ring = kern_ring(c->b, KERN_MATRIX, plan->lanes);
    c->product_ring = kern_ring(c->b, KERN_VECTOR, plan->lanes);
    c->q_ring = kern_ring(c->b, KERN_VECTOR, c->unit_buffers);
    c->out_ring = kern_ring(c->b, KERN_STORE, c->unit_buffers * c->stores);
    c->kv_free = kern_sem(c->b);
    c->k_full = kern_sem(c->b);
    c->v_full = kern_sem(c->b);
    c->mask_full = kern_sem(c->b);
    kern_sync_signal(c->b, KERN_VECTOR, c->kv_free, (int32_t)plan->key_buffers);
}

static void open_axis(const coder_t *c, const kern_axis_t *axis) {
    if (axis->level != VNPU_NO_LOOP) kern_loop(c->b, axis->trips);
}
static void close_axis(const coder_t *c, const kern_axis_t *axis) {
    if (axis->level != VNPU_NO_LOOP) kern_end(c->b);
}

static void emit_block(const coder_t *c) {
    emit_key_loads(c);
    emit_products(c);
    if (c->s->has_mask) kern_sync_wait(c->b, KERN_VECTOR, c->mask_full, c->plan->lanes);
    for (uint32_t g = 0; g < c->plan->lanes; g++)
        emit_softmax(c, g);
    for (uint32_t g = 0; g < c->plan->lanes; g++)
        emit_accumulate(c, g);
}

void kern_attention_stream_generate(const kern_attention_shape_t *s,
                                    const kern_attention_stream_t *plan, kern_builder_t *builder) {
    coder_t c = {.s = s, .plan = plan, .b = builder};
    c.depth = kern_axis_make(s->depth, s->depth);
    declare(&c);
    open_axis(&c, &plan->kv_head);
    open_axis(&c, &plan->repeat);
    open_axis(&c, &plan->query);
    for (uint32_t g = 0; g < plan->lanes; g++) {
        vnpu_insn_t *insn = move_rows(&c, g, KERN_LOAD, ATT_ARG_Q, s->dtype, c.lane[g].q, s->q);
        if (g == 0) kern_wait(insn, c.q_ring.free, 1);
        kern_signal(insn, c.q_ring.full, 1);
    }
    kern_sync_wait(builder, KERN_MATRIX, c.q_ring.full, plan->lanes);
    kern_sync_wait(builder, KERN_VECTOR, c.out_ring.free, c.stores);
    for (uint32_t g = 0; g < plan->lanes; g++)
        emit_start(&c, g);
    open_axis(&c, &plan->key);
    emit_block(&c);
    close_axis(&c, &plan->key);
    for (uint32_t g = 0; g < plan->lanes; g++)
        emit_finish(&c, g);
    vnpu_insn_t *fence = kern_emit(builder, KERN_VECTOR, VNPU_OP_FENCE);
    kern_signal(fence, c.q_ring.free, 1);
    kern_signal(fence, c.out_ring.full, 1);
    emit_stores(&c);
    close_axis(&c, &plan->query);
    close_axis(&c, &plan->repeat);
    close_axis(&c, &plan->kv_head);
}
