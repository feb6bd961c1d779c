#include <string.h>

#include "kernels/kern_attention.h"
#include "kernels/kern_cost.h"

enum { AXIS_B = 0, AXIS_H, AXIS_Q };

/* ---- planning ---- */

typedef struct sizes {
    uint64_t q, k, mask, out, lse; /* elements of a unit's buffers */
} sizes_t;

static sizes_t sizes_of(const kern_attention_shape_t *s, uint64_t group, uint64_t queries) {
    uint64_t keys = (uint64_t)s->keys, depth = (uint64_t)s->depth;
    sizes_t size = {
        .q = group * queries * depth, .k = group * keys * depth, .out = group * queries * depth};
    if (s->has_mask)
        size.mask = (s->mask[ATT_H] ? group : 1) * (s->mask[ATT_S] ? queries : 1) *
                    (s->mask[ATT_D] ? keys : 1);
    if (s->has_lse) size.lse = group * queries;
    return size;
}

static uint64_t sram_need(const kern_attention_shape_t *s, const kern_attention_block_t *plan) {
    uint64_t queries = plan->nest.axis[AXIS_Q].tile, keys = (uint64_t)s->keys,
             bytes = vnpu_dtype_bytes(s->dtype);
    sizes_t size = sizes_of(s, plan->group, queries);
    uint64_t unit = kern_align(size.q * bytes) + 2 * kern_align(size.k * bytes) +
                    kern_align(size.out * vnpu_dtype_bytes(s->out_dtype)) +
                    kern_align(size.lse * 4) +
                    kern_align(size.mask * vnpu_dtype_bytes(s->mask_dtype));
    uint64_t lane = kern_align(queries * keys * bytes) + 2 * kern_align(queries * 4);
    uint64_t need = plan->nest.buffers * unit + plan->lanes * lane;
    if (s->dtype != VNPU_F32) need += kern_align(queries * keys * 4);
    if (s->is_causal) need += kern_align(queries * keys);
    return need;
}

static uint64_t cost_of(const vnpu_machine_t *machine, const kern_attention_shape_t *s,
                        const kern_attention_block_t *plan) {
    uint64_t m = plan->nest.axis[AXIS_Q].tile, n = (uint64_t)s->keys, d = (uint64_t)s->depth;
    uint64_t first = kern_cost_matrix(machine, s->dtype, m, d, n, m, d, n);
    uint64_t second = kern_cost_matrix(machine, s->dtype, m, n, d, m, n, d);
    uint64_t passes = s->is_direct ? 2 : 4;
    uint64_t vector = passes * kern_cost_vector(machine, m, n, KERN_CLASS_ALU) +
                      kern_cost_vector(machine, m, n, KERN_CLASS_TRANSCENDENTAL) +
                      kern_cost_vector(machine, m, d, KERN_CLASS_MUL);
    uint64_t matrix = first + second;
    uint64_t slowest = matrix > vector ? matrix : vector;
    uint64_t bytes = vnpu_dtype_bytes(s->dtype);
    sizes_t size = sizes_of(s, plan->group, m);
    int64_t head_run =
        s->q[ATT_H] == s->depth ? plan->group : 1; /* heads that follow each other in memory */
    uint64_t run = (uint64_t)head_run * d * bytes;
    uint64_t load = kern_cost_dma(machine, size.q * bytes, run) +
                    2 * kern_cost_dma(machine, size.k * bytes, run);
    uint64_t unit = plan->group * slowest;
    uint64_t waits =
        first + second + vector / plan->lanes; /* the last lane's tail, the next one's start */
    if (plan->lanes == 1) waits += plan->group * (matrix < vector ? matrix : vector);
    unit += waits;
    uint64_t dram = kern_cost_dram(machine, (2 * size.q + 2 * size.k + size.mask) * bytes *
                                                plan->nest.grid[0] * plan->nest.grid[1]);
    if (load > unit) unit = load;
    if (dram > unit) unit = dram;
    return plan->nest.trips * unit + load;
}

static bool try_plan(const vnpu_machine_t *machine, const kern_attention_shape_t *s, uint32_t group,
                     int64_t queries, kern_attention_block_t *plan) {
    *plan = (kern_attention_block_t){.group = group};
    plan->nest.ndims = 3;
    plan->nest.axis[AXIS_B] = kern_axis_make(s->batch, 1);
    plan->nest.axis[AXIS_H] = kern_axis_make(s->heads, group);
    plan->nest.axis[AXIS_Q] = kern_axis_make(s->queries, queries);
    if (!kern_nest_plan(&plan->nest, machine->workers, 7)) return false;
    for (plan->lanes = ATTENTION_LANES; group % plan->lanes != 0;)
        plan->lanes--;
    uint64_t m = plan->nest.axis[AXIS_Q].tile;
    for (; plan->lanes > 0; plan->lanes--) {
        if (group % plan->lanes != 0) continue;
        uint64_t acc =
            kern_align(m * (uint64_t)s->keys * 4) + kern_align(m * (uint64_t)s->depth * 4);
        if (plan->lanes * acc <= machine->acc_bytes && sram_need(s, plan) <= machine->sram_bytes)
            break;
    }
    if (plan->lanes == 0) return false;
    plan->cycles = cost_of(machine, s, plan);
    return true;
}

/* Keeps the better plan, and what the other would cost. */
static void offer(const kern_attention_shape_t *s, kern_attention_block_t *plan,
                  kern_attention_block_t *best, bool has_best) {
    if (!has_best || plan->cycles < best->cycles) {
        if (has_best) plan->next = kern_attention_block_tiling(s, best);
        *best = *plan;
    } else if (!best->next.order || plan->cycles < best->next.cycles) {
        best->next = kern_attention_block_tiling(s, plan);
    }
}

bool kern_attention_block_plan(const vnpu_machine_t *machine, const kern_attention_shape_t *s,
                               kern_attention_block_t *out_plan) {
    if (s->keys > 8192 || s->depth > 8192) return false;
    int64_t repeat = s->heads / s->kv_heads;
    /* Fewer rows than this would leave the array loading weights: then keys are streamed. */
    int64_t least = s->queries < (int64_t)machine->matrix_rows / 2
                        ? s->queries
                        : (int64_t)machine->matrix_rows / 2;
    bool is_found = false;
    for (int64_t group = repeat; group <= s->heads && group <= 64; group += repeat) {
        if (s->heads % group != 0) continue;
        for (int64_t parts = 1; (s->queries + parts - 1) / parts >= least; parts *= 2) {
            kern_attention_block_t plan;
            int64_t queries = (s->queries + parts - 1) / parts;
            if (queries <= 4096 && try_plan(machine, s, (uint32_t)group, queries, &plan)) {
                offer(s, &plan, out_plan, is_found);
                is_found = true;
            }
            if (queries == 1) break;
        }
    }
    return is_found;
}

/* ---- code ---- */

typedef struct coder {
    const kern_attention_shape_t *s;
    const kern_attention_block_t *plan;
    kern_builder_t *b;
    sizes_t size;
    kern_axis_t unit[2]; /* batch and head group as one element each: for their clips */
    kern_axis_t keys, depth;
    uint8_t head_level;               /* loop over the group's lanes, or VNPU_NO_LOOP */
    uint32_t q, k, v, mask, out, lse; /* SRAM, per unit */
    uint32_t weights[ATTENTION_LANES], maximum[ATTENTION_LANES], sum[ATTENTION_LANES], work,
        outside;
    uint32_t scores[ATTENTION_LANES], product[ATTENTION_LANES]; /* accumulator */
    kern_ring_t scores_ring, weights_ring, product_ring, out_ring;
    uint16_t in_free, qk_full, v_full, mask_full;
    uint32_t stores;
} coder_t;

static const kern_axis_t *query_axis(const coder_t *c) {
    return &c->plan->nest.axis[AXIS_Q];
}

/* A pattern over [unit][q][columns] (columns NULL: over [q]); head_elems: where the buffer holds
 * every head of the unit. */
static vnpu_ap_t lane_ap(const coder_t *c, vnpu_space_t space, vnpu_dtype_t dtype, int64_t base,
                         int64_t row, const kern_axis_t *columns, int64_t column,
                         int64_t head_elems, uint32_t lane) {
    kern_term_t term[4] = {
        {&c->unit[0], 0, false}, {&c->unit[1], 0, false}, {query_axis(c), row, true}};
    uint32_t count = 3;
    if (columns) term[count++] = (kern_term_t){columns, column, true};
    vnpu_ap_t ap = kern_ap_terms(space, dtype, base + lane * head_elems * vnpu_dtype_bytes(dtype),
                                 term, count, false);
    if (c->head_level != VNPU_NO_LOOP)
        ap.loop_inc[c->head_level] = (int32_t)(head_elems * c->plan->lanes);
    return ap;
}

static uint64_t pitch(uint64_t elems, vnpu_dtype_t dtype) {
    uint32_t bytes = vnpu_dtype_bytes(dtype);
    return kern_align(elems * bytes) / bytes;
}

static uint16_t unit_buffer(const coder_t *c, vnpu_ap_t ap, uint64_t elems) {
    kern_ap_rotate(&ap, c->plan->nest.inner, c->plan->nest.buffers,
                   pitch(elems, (vnpu_dtype_t)ap.dtype));
    return kern_ap(c->b, &ap);
}

static uint16_t put(const coder_t *c, vnpu_ap_t ap) {
    return kern_ap(c->b, &ap);
}

static kern_attention_lane_t make_lane(const coder_t *c, uint32_t g) {
    const kern_attention_shape_t *s = c->s;
    const kern_axis_t *n = &c->keys;
    kern_attention_lane_t lane;
    memset(&lane, 0xff, sizeof lane);
    lane.scores = put(c, lane_ap(c, VNPU_SPACE_ACC, VNPU_F32, c->scores[g], s->keys, n, 1, 0, g));
    lane.weights =
        put(c, lane_ap(c, VNPU_SPACE_SRAM, s->dtype, c->weights[g], s->keys, n, 1, 0, g));
    lane.work = s->dtype == VNPU_F32
                    ? lane.weights
                    : put(c, lane_ap(c, VNPU_SPACE_SRAM, VNPU_F32, c->work, s->keys, n, 1, 0, g));
    if (s->has_mask) {
        int64_t column = s->mask[ATT_D] ? 1 : 0, row = s->mask[ATT_S] ? (column ? s->keys : 1) : 0;
        int64_t per_head = (int64_t)(c->size.mask / (s->mask[ATT_H] ? c->plan->group : 1));
        lane.mask = unit_buffer(c,
                                lane_ap(c, VNPU_SPACE_SRAM, s->mask_dtype, c->mask, row, n, column,
                                        s->mask[ATT_H] ? per_head : 0, g),
                                c->size.mask);
    }
    if (s->is_causal)
        lane.outside =
            put(c, lane_ap(c, VNPU_SPACE_SRAM, VNPU_BOOL, c->outside, s->keys, n, 1, 0, g));
    lane.maximum = put(c, lane_ap(c, VNPU_SPACE_SRAM, VNPU_F32, c->maximum[g], 1, NULL, 0, 0, g));
    lane.sum = put(c, lane_ap(c, VNPU_SPACE_SRAM, VNPU_F32, c->sum[g], 1, NULL, 0, 0, g));
    lane.maximum_b = put(c, lane_ap(c, VNPU_SPACE_SRAM, VNPU_F32, c->maximum[g], 1, n, 0, 0, g));
    lane.sum_b = put(c, lane_ap(c, VNPU_SPACE_SRAM, VNPU_F32, c->sum[g], 1, &c->depth, 0, 0, g));
    for (uint32_t a = ATT_ARG_SCALE; a < ATT_ARG_COUNT; a++) {
        lane.constant[a] =
            put(c, lane_ap(c, VNPU_SPACE_ARG, VNPU_F32, 8 * (int64_t)a, 0, n, 0, 0, 0));
        lane.row_constant[a] =
            put(c, lane_ap(c, VNPU_SPACE_ARG, VNPU_F32, 8 * (int64_t)a, 0, NULL, 0, 0, 0));
    }
    return lane;
}

/* exp(scores - maximum) into weights, 1 / sum into sum. */
static void emit_softmax(const coder_t *c, uint32_t g) {
    const kern_attention_shape_t *s = c->s;
    kern_attention_lane_t lane = make_lane(c, g);
    vnpu_insn_t *insn;
    kern_sync_wait(c->b, KERN_VECTOR, c->weights_ring.free, 1);
    if (s->is_direct) {
        kern_wait(kern_attention_maximum(c->b, lane.maximum, lane.scores), c->scores_ring.full, 1);
        insn = kern_attention_binary(c->b, VNPU_B_SUB, lane.work, lane.scores, lane.maximum_b);
        insn->func2 = VNPU_B_MUL;
        insn->src[2] = lane.constant[ATT_ARG_SCALE];
        kern_signal(insn, c->scores_ring.free, 1);
    } else {
        insn = kern_attention_scale(c->b, s, &lane);
        kern_wait(insn, c->scores_ring.full, 1);
        kern_signal(insn, c->scores_ring.free, 1);
        kern_attention_maximum(c->b, lane.maximum, lane.work);
        kern_attention_binary(c->b, VNPU_B_MAX, lane.maximum, lane.maximum,
                              lane.row_constant[ATT_ARG_LOWEST]);
        kern_attention_binary(c->b, VNPU_B_SUB, lane.work, lane.work, lane.maximum_b);
    }
    insn = kern_attention_unary(c->b, VNPU_U_EXP, lane.weights, lane.work);
    insn->src[3] = lane.sum;
    kern_signal(insn, c->weights_ring.full, 1);
    if (!s->is_direct)
        kern_attention_binary(c->b, VNPU_B_MAX, lane.sum, lane.sum,
                              lane.row_constant[ATT_ARG_TINY]);
    if (s->has_lse) {
        vnpu_ap_t rows =
            lane_ap(c, VNPU_SPACE_SRAM, VNPU_F32, c->lse, 1, NULL, 0, query_axis(c)->tile, g);
        uint16_t lse = unit_buffer(c, rows, c->size.lse);
        kern_attention_unary(c->b, VNPU_U_LOG, lse, lane.sum);
        if (s->is_direct) {
            insn = kern_attention_binary(c->b, VNPU_B_MUL, lse, lane.maximum,
                                         lane.row_constant[ATT_ARG_SCALE]);
            insn->func2 = VNPU_B_ADD;
            insn->src[2] = lse;
        } else {
            kern_attention_binary(c->b, VNPU_B_ADD, lse, lse, lane.maximum);
        }
    }
    kern_attention_unary(c->b, VNPU_U_RECIP, lane.sum, lane.sum);
}

/* The unit's weights (keys or values) of one head: two dimensions. */
static uint16_t weight_ap(const coder_t *c, uint32_t base, const kern_axis_t *rows,
                          const kern_axis_t *columns, uint32_t g) {
    kern_term_t term[2] = {{rows, columns->size, true}, {columns, 1, true}};
    int64_t head = c->s->keys * c->s->depth;
    vnpu_ap_t ap = kern_ap_terms(VNPU_SPACE_SRAM, c->s->dtype,
                                 base + g * head * vnpu_dtype_bytes(c->s->dtype), term, 2, false);
    if (c->head_level != VNPU_NO_LOOP)
        ap.loop_inc[c->head_level] = (int32_t)(head * c->plan->lanes);
    return unit_buffer(c, ap, c->size.k);
}

static void emit_products(const coder_t *c) {
    const kern_attention_shape_t *s = c->s;
    int64_t head = (int64_t)query_axis(c)->tile * s->depth;
    for (uint32_t g = 0; g < c->plan->lanes; g++) {
        vnpu_insn_t *insn = kern_emit(c->b, KERN_MATRIX, VNPU_OP_MM);
        insn->src[0] = unit_buffer(
            c, lane_ap(c, VNPU_SPACE_SRAM, s->dtype, c->q, s->depth, &c->depth, 1, head, g),
            c->size.q);
        insn->src[1] = weight_ap(c, c->k, &c->depth, &c->keys, g);
        insn->dst =
            put(c, lane_ap(c, VNPU_SPACE_ACC, VNPU_F32, c->scores[g], s->keys, &c->keys, 1, 0, g));
        kern_wait(insn, c->scores_ring.free, 1);
        kern_signal(insn, c->scores_ring.full, 1);
    }
    vnpu_insn_t *wait = kern_emit(c->b, KERN_MATRIX, VNPU_OP_SYNC);
    kern_wait(wait, c->v_full, 1);
    wait->first_only = (uint8_t)(c->head_level == VNPU_NO_LOOP ? 0u : 1u << c->head_level);
    for (uint32_t g = 0; g < c->plan->lanes; g++) {
        vnpu_insn_t *insn = kern_emit(c->b, KERN_MATRIX, VNPU_OP_MM);
        insn->src[0] = put(
            c, lane_ap(c, VNPU_SPACE_SRAM, s->dtype, c->weights[g], s->keys, &c->keys, 1, 0, g));
        insn->src[1] = weight_ap(c, c->v, &c->keys, &c->depth, g);
        insn->dst = put(
            c, lane_ap(c, VNPU_SPACE_ACC, VNPU_F32, c->product[g], s->depth, &c->depth, 1, 0, g));
        kern_wait(insn, c->weights_ring.full, 1);
        kern_wait(insn, c->product_ring.free, 1);
        kern_signal(insn, c->weights_ring.free, 1);
        kern_signal(insn, c->product_ring.full, 1);
    }
}

static void emit_result(const coder_t *c, uint32_t g) {
    const kern_attention_shape_t *s = c->s;
    int64_t head = (int64_t)query_axis(c)->tile * s->depth;
    uint16_t product =
        put(c, lane_ap(c, VNPU_SPACE_ACC, VNPU_F32, c->product[g], s->depth, &c->depth, 1, 0, g));
    uint16_t sum = put(c, lane_ap(c, VNPU_SPACE_SRAM, VNPU_F32, c->sum[g], 1, &c->depth, 0, 0, g));
    uint16_t out = unit_buffer(
        c, lane_ap(c, VNPU_SPACE_SRAM, s->out_dtype, c->out, s->depth, &c->depth, 1, head, g),
        c->size.out);
    vnpu_insn_t *insn = kern_attention_binary(c->b, VNPU_B_MUL, out, product, sum);
    kern_wait(insn, c->product_ring.full, 1);
    kern_signal(insn, c->product_ring.free, 1);
}

/* 1 where a key comes after its query: iota counts key - query. */
static void emit_diagonal(const coder_t *c) {
    kern_term_t term[4] = {{&c->unit[0], 0, false},
                           {&c->unit[1], 0, false},
                           {query_axis(c), -1, true},
                           {&c->keys, 1, true}};
    vnpu_ap_t distance = kern_ap_terms(VNPU_SPACE_IOTA, VNPU_I64, 0, term, 4, true);
    vnpu_ap_t zero =
        lane_ap(c, VNPU_SPACE_ARG, VNPU_I64, 8 * (int64_t)ATT_ARG_ZERO, 0, &c->keys, 0, 0, 0);
    vnpu_ap_t outside =
        lane_ap(c, VNPU_SPACE_SRAM, VNPU_BOOL, c->outside, c->s->keys, &c->keys, 1, 0, 0);
    vnpu_insn_t *insn =
        kern_attention_binary(c->b, VNPU_B_GT, put(c, outside), put(c, distance), put(c, zero));
    insn->flags |= VNPU_F_INTEGER;
}

/* ---- moves ---- */

static kern_attention_move_t unit_move(const coder_t *c, kern_queue_t queue, uint8_t arg,
                                       vnpu_dtype_t dtype, uint32_t sram, uint64_t elems) {
    return (kern_attention_move_t){.queue = queue,
                                   .arg = arg,
                                   .dtype = dtype,
                                   .sram = sram,
                                   .level = c->plan->nest.inner,
                                   .buffers = c->plan->nest.buffers,
                                   .pitch = pitch(elems, dtype)};
}

static void add_term(kern_attention_move_t *move, const kern_axis_t *axis, int64_t far,
                     int64_t near) {
    move->axis[move->count] = axis;
    move->far[move->count] = far;
    move->near[move->count++] = near;
}

/* q, out, logsumexp: [batch][heads of the group][queries][depth] */
static vnpu_insn_t *move_rows(const coder_t *c, kern_queue_t queue, uint8_t arg, vnpu_dtype_t dtype,
                              uint32_t sram, const int64_t stride[4], int64_t depth,
                              uint64_t elems) {
    const kern_axis_t *axis = c->plan->nest.axis;
    kern_attention_move_t move = unit_move(c, queue, arg, dtype, sram, elems);
    add_term(&move, &axis[AXIS_B], stride[ATT_B], 0);
    add_term(&move, &axis[AXIS_H], stride[ATT_H], (int64_t)axis[AXIS_Q].tile * depth);
    add_term(&move, &axis[AXIS_Q], stride[ATT_S], depth);
    if (arg != ATT_ARG_LSE) add_term(&move, &c->depth, stride[ATT_D], 1);
    return kern_attention_emit_move(c->b, &move);
}

/* k (turned: [depth][keys]) or v; a head of keys serves `repeat` heads of queries and is loaded for
 * each of them. */
static vnpu_insn_t *load_keys(const coder_t *c, uint8_t arg, uint32_t sram, const int64_t stride[4],
                              bool is_turned) {
    const kern_attention_shape_t *s = c->s;
    kern_axis_t heads = c->plan->nest.axis[AXIS_H];
    int64_t repeat = s->heads / s->kv_heads, head = s->keys * s->depth;
    kern_axis_t again = kern_axis_make(repeat, repeat);
    heads.size /= repeat;
    heads.tile = (uint32_t)(heads.tile / repeat);
    kern_attention_move_t move = unit_move(c, KERN_LOAD, arg, s->dtype, sram, c->size.k);
    add_term(&move, &c->plan->nest.axis[AXIS_B], stride[ATT_B], 0);
    if (repeat > 1) add_term(&move, &again, 0, head);
    add_term(&move, &heads, stride[ATT_H], head * repeat);
    add_term(&move, &c->keys, stride[ATT_S], is_turned ? 1 : s->depth);
    add_term(&move, &c->depth, stride[ATT_D], is_turned ? s->keys : 1);
    return kern_attention_emit_move(c->b, &move);
}

static vnpu_insn_t *load_mask(const coder_t *c) {
    const kern_attention_shape_t *s = c->s;
    const kern_axis_t *axis = c->plan->nest.axis;
    int64_t row = s->mask[ATT_D] ? s->keys : 1,
            head = (s->mask[ATT_S] ? axis[AXIS_Q].tile : 1) * row;
    kern_attention_move_t move =
        unit_move(c, KERN_LOAD, ATT_ARG_MASK, s->mask_dtype, c->mask, c->size.mask);
    add_term(&move, &axis[AXIS_B], s->mask[ATT_B], 0);
    if (s->mask[ATT_H]) add_term(&move, &axis[AXIS_H], s->mask[ATT_H], head);
    if (s->mask[ATT_S]) add_term(&move, &axis[AXIS_Q], s->mask[ATT_S], row);
    if (s->mask[ATT_D]) add_term(&move, &c->keys, s->mask[ATT_D], 1);
    return kern_attention_emit_move(c->b, &move);
}

static void emit_loads(const coder_t *c) {
    const kern_attention_shape_t *s = c->s;
    vnpu_insn_t *insn =
        move_rows(c, KERN_LOAD, ATT_ARG_Q, s->dtype, c->q, s->q, s->depth, c->size.q);
    kern_wait(insn, c->in_free, 1);
    kern_signal(insn, c->qk_full, 1);
    kern_signal(load_keys(c, ATT_ARG_K, c->k, s->k, true), c->qk_full, 1);
    if (s->has_mask) kern_signal(load_mask(c), c->mask_full, 1);
    kern_signal(load_keys(c, ATT_ARG_V, c->v, s->v, false), c->v_full, 1);
}

static void emit_stores(const coder_t *c) {
    const kern_attention_shape_t *s = c->s;
    vnpu_insn_t *insn =
        move_rows(c, KERN_STORE, ATT_ARG_OUT, s->out_dtype, c->out, s->out, s->depth, c->size.out);
    kern_wait(insn, c->out_ring.full, 1);
    kern_signal(insn, c->out_ring.free, 1);
    if (!s->has_lse) return;
    insn = move_rows(c, KERN_STORE, ATT_ARG_LSE, VNPU_F32, c->lse, s->lse, 1, c->size.lse);
    kern_signal(insn, c->out_ring.free, 1);
}

/* ---- program ---- */

static void declare(coder_t *c) {
    const kern_attention_shape_t *s = c->s;
    uint32_t buffers = c->plan->nest.buffers, bytes = vnpu_dtype_bytes(s->dtype);
    uint64_t queries = query_axis(c)->tile, tile = queries * (uint64_t)s->keys;
    kern_attention_args(c->b, s);
    c->q = kern_sram(c->b, buffers * kern_align(c->size.q * bytes));
    c->k = kern_sram(c->b, buffers * kern_align(c->size.k * bytes));
    c->v = kern_sram(c->b, buffers * kern_align(c->size.k * bytes));
    c->out = kern_sram(c->b, buffers * kern_align(c->size.out * vnpu_dtype_bytes(s->out_dtype)));
    if (s->has_mask)
        c->mask =
            kern_sram(c->b, buffers * kern_align(c->size.mask * vnpu_dtype_bytes(s->mask_dtype)));
    if (s->has_lse) c->lse = kern_sram(c->b, buffers * kern_align(c->size.lse * 4));
    if (s->dtype != VNPU_F32) c->work = kern_sram(c->b, tile * 4);
    if (s->is_causal) c->outside = kern_sram(c->b, tile);
    for (uint32_t g = 0; g < c->plan->lanes; g++) {
        c->weights[g] = kern_sram(c->b, tile * bytes);
        c->maximum[g] = kern_sram(c->b, queries * 4);
        c->sum[g] = kern_sram(c->b, queries * 4);
        c->scores[g] = kern_acc(c->b, tile * 4);
        c->product[g] = kern_acc(c->b, queries * (uint64_t)s->depth * 4);
    }
    c->scores_ring = kern_ring(c->b, KERN_VECTOR, c->plan->lanes);
    c->weights_ring = kern_ring(c->b, KERN_MATRIX, c->plan->lanes);
    c->product_ring = kern_ring(c->b, KERN_VECTOR, c->plan->lanes);
    c->out_ring = kern_ring(c->b, KERN_STORE, buffers * c->stores);
    c->in_free = kern_sem(c->b);
    c->qk_full = kern_sem(c->b);
    c->v_full = kern_sem(c->b);
    c->mask_full = kern_sem(c->b);
    kern_sync_signal(c->b, KERN_VECTOR, c->in_free, (int32_t)buffers);
}

void kern_attention_block_generate(const kern_attention_shape_t *s,
                                   const kern_attention_block_t *plan, kern_builder_t *builder) {
    coder_t c = {.s = s, .plan = plan, .b = builder, .head_level = VNPU_NO_LOOP};
    c.size = sizes_of(s, plan->group, plan->nest.axis[AXIS_Q].tile);
    c.keys = kern_axis_make(s->keys, s->keys);
    c.depth = kern_axis_make(s->depth, s->depth);
    for (uint32_t i = 0; i < 2; i++) {
        c.unit[i] = plan->nest.axis[i];
        c.unit[i].size = c.unit[i].tiles; /* tiles are exact: a unit is there or not */
        c.unit[i].tile = 1;
    }
    c.stores = s->has_lse ? 2 : 1;
    uint32_t bodies = plan->group / plan->lanes;
    if (bodies > 1) c.head_level = (uint8_t)plan->nest.depth;
    declare(&c);
    kern_nest_open(&plan->nest, builder);
    emit_loads(&c);
    kern_sync_wait(builder, KERN_MATRIX, c.qk_full, 2);
    kern_sync_wait(builder, KERN_VECTOR, c.out_ring.free, c.stores);
    if (s->has_mask) kern_sync_wait(builder, KERN_VECTOR, c.mask_full, 1);
    if (s->is_causal) emit_diagonal(&c);
    if (bodies > 1) kern_loop(builder, bodies);
    emit_products(&c);
    for (uint32_t g = 0; g < plan->lanes; g++)
        emit_softmax(&c, g);
    for (uint32_t g = 0; g < plan->lanes; g++)
        emit_result(&c, g);
    if (bodies > 1) kern_end(builder);
    /* Every product of the unit was waited for, so its operands are free once the vector unit is
     * done with mask and results. */
    vnpu_insn_t *fence = kern_emit(builder, KERN_VECTOR, VNPU_OP_FENCE);
    kern_signal(fence, c.in_free, 1);
    kern_signal(fence, c.out_ring.full, 1);
    emit_stores(&c);
    kern_nest_close(&plan->nest, builder);
}
