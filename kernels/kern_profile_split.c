/* Operators that a compiler does not fuse across a reduction: as several kernels of this library.
 */
#include "kernels/kern_internal.h"
#include "kernels/kern_profile.h"

/* A dense tensor of its own; `dim` has size 1 unless it is ndims. */
static vnpu_status_t make_scratch(kern_context_t *context, const kern_tensor_t *like, uint32_t dim,
                                  kern_tensor_t *out) {
    *out = *like;
    out->dtype = VNPU_F32;
    int64_t stride = 1;
    for (uint32_t d = like->ndims; d-- > 0;) {
        if (d == dim) out->size[d] = 1;
        out->stride[d] = stride;
        stride *= out->size[d];
    }
    out->address = 0;
    vnpu_status_t status =
        vnpu_mem_alloc(context->device, (size_t)stride * vnpu_dtype_bytes(VNPU_F32), &out->address);
    return status == VNPU_OK ? VNPU_OK : kern_fail_driver(context, status, "softmax: scratch");
}

/* One value a row, seen with the sizes of the whole tensor. */
static kern_tensor_t broadcast(const kern_tensor_t *row, const kern_tensor_t *whole, uint32_t dim) {
    kern_tensor_t out = *row;
    out.size[dim] = whole->size[dim];
    out.stride[dim] = 0;
    return out;
}

typedef struct rows {
    kern_tensor_t maximum, sum;
    kern_tensor_t exponential; /* address 0: `out` takes it */
} rows_t;

static vnpu_status_t exponentials(kern_context_t *context, vnpu_stream_t stream,
                                  const kern_tensor_t *out, const kern_tensor_t *in,
                                  const kern_tensor_t *maximum) {
    kern_pointwise_t p = {.name = "softmax_exp",
                          .out = *out,
                          .num_inputs = 2,
                          .input = {*in, *maximum},
                          .num_nodes = 2};
    p.node[0] = (kern_node_t){KERN_NODE_BINARY, VNPU_B_SUB, {KERN_INPUT(0), KERN_INPUT(1), 0}};
    p.node[1] = (kern_node_t){KERN_NODE_UNARY, VNPU_U_EXP, {KERN_NODE(0), 0, 0}};
    return kern_pointwise(context, stream, &p);
}

static vnpu_status_t quotients(kern_context_t *context, vnpu_stream_t stream,
                               const kern_tensor_t *out, const kern_tensor_t *sum) {
    kern_pointwise_t p = {
        .name = "softmax_div", .out = *out, .num_inputs = 2, .input = {*out, *sum}, .num_nodes = 1};
    p.node[0] = (kern_node_t){KERN_NODE_BINARY, VNPU_B_DIV, {KERN_INPUT(0), KERN_INPUT(1), 0}};
    return kern_pointwise(context, stream, &p);
}

static vnpu_status_t logarithms(kern_context_t *context, vnpu_stream_t stream,
                                const kern_tensor_t *out, const kern_tensor_t *in,
                                const kern_tensor_t *maximum, const kern_tensor_t *sum) {
    kern_pointwise_t p = {.name = "softmax_log",
                          .out = *out,
                          .num_inputs = 3,
                          .input = {*in, *maximum, *sum},
                          .num_nodes = 3};
    p.node[0] = (kern_node_t){KERN_NODE_BINARY, VNPU_B_SUB, {KERN_INPUT(0), KERN_INPUT(1), 0}};
    p.node[1] = (kern_node_t){KERN_NODE_UNARY, VNPU_U_LOG, {KERN_INPUT(2), 0, 0}};
    p.node[2] = (kern_node_t){KERN_NODE_BINARY, VNPU_B_SUB, {KERN_NODE(0), KERN_NODE(1), 0}};
    return kern_pointwise(context, stream, &p);
}

static vnpu_status_t run(kern_context_t *context, vnpu_stream_t stream, const kern_tensor_t *out,
                         const kern_tensor_t *in, uint32_t dim, bool is_log, const rows_t *rows) {
    const kern_tensor_t *e = is_log ? &rows->exponential : out;
    kern_tensor_t maximum = broadcast(&rows->maximum, in, dim),
                  sum = broadcast(&rows->sum, in, dim);
    vnpu_status_t status = kern_reduce(context, stream, KERN_AMAX, &rows->maximum, in, 1u << dim);
    if (status == VNPU_OK) status = exponentials(context, stream, e, in, &maximum);
    if (status == VNPU_OK)
        status = kern_reduce(context, stream, KERN_SUM, &rows->sum, e, 1u << dim);
    if (status != VNPU_OK) return status;
    return is_log ? logarithms(context, stream, out, in, &maximum, &sum)
                  : quotients(context, stream, out, &sum);
}

vnpu_status_t kern_softmax_split(kern_context_t *context, vnpu_stream_t stream,
                                 const kern_tensor_t *out, const kern_tensor_t *in, uint32_t dim,
                                 bool is_log) {
    rows_t rows = {0};
    vnpu_status_t status = make_scratch(context, in, dim, &rows.maximum);
    if (status == VNPU_OK) status = make_scratch(context, in, dim, &rows.sum);
    if (status == VNPU_OK && is_log)
        status = make_scratch(context, in, in->ndims, &rows.exponential);
    if (status == VNPU_OK) status = run(context, stream, out, in, dim, is_log, &rows);
    const kern_tensor_t *scratch[3] = {&rows.maximum, &rows.sum, &rows.exponential};
    for (int i = 0; i < 3; i++) {
        if (scratch[i]->address == 0) continue;
        vnpu_status_t freed = vnpu_mem_free(context->device, scratch[i]->address);
        if (status == VNPU_OK && freed != VNPU_OK)
            status = kern_fail_driver(context, freed, "softmax: scratch");
    }
    return status;
}
