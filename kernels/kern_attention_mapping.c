/* What the plans of attention mean: traffic against the compulsory minimum, products against the
 * array's. */
#include "kernels/kern_attention.h"
#include "kernels/kern_cost.h"

enum { AXIS_B = 0, AXIS_H, AXIS_Q }; /* of the block program's nest */

kern_tiling_t kern_attention_block_tiling(const kern_attention_shape_t *shape,
                                          const kern_attention_block_t *plan) {
    return (kern_tiling_t){.order = "block",
                           .m = plan->nest.axis[AXIS_Q].tile,
                           .n = (uint32_t)shape->keys,
                           .k = (uint32_t)shape->depth,
                           .heads = plan->group,
                           .grid = {plan->nest.grid[0], plan->nest.grid[1]},
                           .buffers = plan->nest.buffers,
                           .cycles = plan->cycles};
}

kern_tiling_t kern_attention_stream_tiling(const kern_attention_shape_t *shape,
                                           const kern_attention_stream_t *plan) {
    return (kern_tiling_t){.order = "stream",
                           .m = plan->query.tile,
                           .n = plan->key.tile,
                           .k = (uint32_t)shape->depth,
                           .heads = 1,
                           .grid = {plan->grid[0], plan->grid[1]},
                           .buffers = plan->key_buffers,
                           .cycles = plan->cycles};
}

/* Both products of `queries` x `keys` in tiles of m x n, whole ones and the last ones. */
static uint64_t padded_macs(const vnpu_machine_t *machine, const kern_attention_shape_t *s,
                            uint64_t queries, uint64_t m, uint64_t n) {
    uint64_t keys = (uint64_t)s->keys, d = (uint64_t)s->depth, sum = 0;
    const uint64_t row[2] = {m, queries % m}, rows[2] = {queries / m, 1};
    const uint64_t col[2] = {n, keys % n}, cols[2] = {keys / n, 1};
    for (int i = 0; i < 4; i++) {
        uint64_t x = row[i & 1], y = col[i >> 1];
        sum += rows[i & 1] * cols[i >> 1] *
               (kern_cost_padded_macs(machine, x, d, y) + kern_cost_padded_macs(machine, x, y, d));
    }
    return sum;
}

/* Every operand once; sizes with a stride of 0 do not count. */
static uint64_t elements(const int64_t stride[4], const int64_t size[4]) {
    uint64_t count = 1;
    for (int d = 0; d < 4; d++)
        count *= stride[d] != 0 ? (uint64_t)size[d] : 1;
    return count;
}

static void describe(const kern_attention_shape_t *s, kern_mapping_t *out) {
    const int64_t q[4] = {s->batch, s->heads, s->queries, s->depth};
    const int64_t k[4] = {s->batch, s->kv_heads, s->keys, s->depth};
    const int64_t mask[4] = {s->batch, s->heads, s->queries, s->keys};
    uint64_t lanes = (uint64_t)s->batch * (uint64_t)s->heads;
    *out = (kern_mapping_t){.family = "attention",
                            .batch = (int64_t)lanes,
                            .m = s->queries,
                            .n = s->keys,
                            .k = s->depth};
    out->useful_macs = 2 * lanes * (uint64_t)s->queries * (uint64_t)s->keys * (uint64_t)s->depth;
    uint64_t bytes = vnpu_dtype_bytes(s->dtype);
    out->compulsory_bytes = (elements(s->q, q) + elements(s->k, k) + elements(s->v, k)) * bytes +
                            elements(s->out, q) * vnpu_dtype_bytes(s->out_dtype);
    if (s->has_mask)
        out->compulsory_bytes += elements(s->mask, mask) * vnpu_dtype_bytes(s->mask_dtype);
    if (s->has_lse) out->compulsory_bytes += lanes * (uint64_t)s->queries * 4;
}

/* Queries in, results out: once in every plan. */
static uint64_t row_bytes(const kern_attention_shape_t *s) {
    uint64_t rows = (uint64_t)s->batch * (uint64_t)s->heads * (uint64_t)s->queries;
    uint64_t bytes =
        rows * (uint64_t)s->depth * (vnpu_dtype_bytes(s->dtype) + vnpu_dtype_bytes(s->out_dtype));
    return bytes + (s->has_lse ? rows * 4 : 0);
}

/* Rounds of a loop that an operand does not follow: it is loaded in each, the padded ones too. */
static uint64_t rounds(const kern_axis_t *axis) {
    return (uint64_t)axis->trips * axis->grid;
}

static uint64_t follow(int64_t stride, int64_t size, uint64_t else_times) {
    return stride != 0 ? (uint64_t)size : else_times;
}

void kern_attention_block_describe(const vnpu_machine_t *machine, const kern_attention_shape_t *s,
                                   const kern_attention_block_t *plan,
                                   kern_mapping_t *out_mapping) {
    describe(s, out_mapping);
    const kern_axis_t *axis = plan->nest.axis;
    uint64_t batch = (uint64_t)s->batch, heads = (uint64_t)s->heads;
    out_mapping->chosen = kern_attention_block_tiling(s, plan);
    out_mapping->next = plan->next;
    out_mapping->padded_macs =
        batch * heads *
        padded_macs(machine, s, (uint64_t)s->queries, axis[AXIS_Q].tile, (uint64_t)s->keys);
    out_mapping->dram_bytes = row_bytes(s) + 2 * batch * heads * rounds(&axis[AXIS_Q]) *
                                                 (uint64_t)s->keys * (uint64_t)s->depth *
                                                 vnpu_dtype_bytes(s->dtype);
    if (!s->has_mask) return;
    out_mapping->dram_bytes += batch * follow(s->mask[ATT_H], s->heads, rounds(&axis[AXIS_H])) *
                               follow(s->mask[ATT_S], s->queries, rounds(&axis[AXIS_Q])) *
                               follow(s->mask[ATT_D], s->keys, 1) * vnpu_dtype_bytes(s->mask_dtype);
}

void kern_attention_stream_describe(const vnpu_machine_t *machine, const kern_attention_shape_t *s,
                                    const kern_attention_stream_t *plan,
                                    kern_mapping_t *out_mapping) {
    describe(s, out_mapping);
    uint64_t batch = (uint64_t)s->batch, heads = (uint64_t)s->heads, padded = 0;
    out_mapping->chosen = kern_attention_stream_tiling(s, plan);
    out_mapping->next = plan->next;
    for (int64_t from = 0; from < s->queries; from += plan->lane_queries) {
        int64_t left = s->queries - from;
        uint64_t own = (uint64_t)(left < plan->lane_queries ? left : plan->lane_queries);
        padded += padded_macs(machine, s, own, plan->query.tile, plan->key.tile);
    }
    out_mapping->padded_macs = batch * heads * padded;
    out_mapping->dram_bytes = row_bytes(s) + 2 * batch * (uint64_t)s->kv_heads *
                                                 rounds(&plan->repeat) * rounds(&plan->query) *
                                                 (uint64_t)s->keys * (uint64_t)s->depth *
                                                 vnpu_dtype_bytes(s->dtype);
    if (!s->has_mask) return;
    uint64_t rows = follow(s->mask[ATT_S], s->queries, plan->lanes * rounds(&plan->query));
    out_mapping->dram_bytes += batch * heads * rows *
                               follow(s->mask[ATT_D], s->keys, plan->key.trips) *
                               vnpu_dtype_bytes(s->mask_dtype);
}
