#include <stdio.h>
#include <string.h>

#include "kernels/kern_internal.h"

int64_t kern_numel(const kern_tensor_t *tensor) {
    int64_t elems = 1;
    for (uint32_t d = 0; d < tensor->ndims; d++)
        elems *= tensor->size[d];
    return elems;
}

int64_t kern_span(const kern_tensor_t *tensor) {
    int64_t last = 0;
    for (uint32_t d = 0; d < tensor->ndims; d++) {
        if (tensor->size[d] == 0) return 0;
        last += (tensor->size[d] - 1) * tensor->stride[d];
    }
    return last + 1;
}

bool kern_same_sizes(const kern_tensor_t *a, const kern_tensor_t *b) {
    if (a->ndims != b->ndims) return false;
    for (uint32_t d = 0; d < a->ndims; d++) {
        if (a->size[d] != b->size[d]) return false;
    }
    return true;
}

const char *kern_dtype_name(vnpu_dtype_t dtype) {
    switch (dtype) {
    case VNPU_F32: return "f32";
    case VNPU_BF16: return "bf16";
    case VNPU_F16: return "f16";
    case VNPU_F8E4M3: return "f8e4m3";
    case VNPU_F8E5M2: return "f8e5m2";
    case VNPU_I8: return "i8";
    case VNPU_U8: return "u8";
    case VNPU_I16: return "i16";
    case VNPU_I32: return "i32";
    case VNPU_I64: return "i64";
    case VNPU_BOOL: return "bool";
    case VNPU_BFP8: return "bfp8";
    case VNPU_BFP4: return "bfp4";
    case VNPU_DTYPE_NONE:
    case VNPU_DTYPE_COUNT: break;
    }
    return "?";
}

bool kern_dtype_is_float(vnpu_dtype_t dtype) {
    return dtype == VNPU_F32 || dtype == VNPU_BF16 || dtype == VNPU_F16 || dtype == VNPU_F8E4M3 ||
           dtype == VNPU_F8E5M2 || vnpu_dtype_block(dtype) > 1;
}

vnpu_status_t kern_check_product(kern_context_t *context, const char *family, vnpu_dtype_t a,
                                 vnpu_dtype_t b, bool *out_is_int8) {
    *out_is_int8 = (a == VNPU_I8 || a == VNPU_U8) && (b == VNPU_I8 || b == VNPU_U8);
    const uint32_t *rate = context->machine.matrix_rate_num;
    bool is_possible = *out_is_int8 || (kern_dtype_is_float(a) && a == b);
    if (is_possible && rate[a] != 0 && rate[b] != 0) return VNPU_OK;
    return kern_fail(context, VNPU_ERROR_UNSUPPORTED, "%s: the matrix unit of %s has no %s by %s",
                     family, context->machine.name, kern_dtype_name(a), kern_dtype_name(b));
}

/* Families whose kernels count blocks. */
static bool takes_blocks(const char *family) {
    return strcmp(family, "gemm") == 0;
}

/* Whole blocks of contiguous values, and rows that start with one. */
static bool has_blocks(const kern_tensor_t *tensor) {
    int64_t block = vnpu_dtype_block(tensor->dtype);
    uint32_t last = tensor->ndims - 1;
    if (tensor->ndims == 0 || tensor->size[last] % block != 0 || tensor->stride[last] != 1)
        return false;
    for (uint32_t d = 0; d < last; d++) {
        if (tensor->stride[d] % block != 0) return false;
    }
    return true;
}

const char *kern_describe(const kern_tensor_t *tensor, char *text, size_t bytes) {
    size_t used = (size_t)snprintf(text, bytes, "%s [", kern_dtype_name(tensor->dtype));
    for (uint32_t d = 0; d < tensor->ndims && used < bytes; d++) {
        used += (size_t)snprintf(text + used, bytes - used, "%s%lld", d ? ", " : "",
                                 (long long)tensor->size[d]);
    }
    if (used < bytes) snprintf(text + used, bytes - used, "]");
    return text;
}

vnpu_status_t kern_check_tensor(kern_context_t *context, const char *family, const char *operand,
                                const kern_tensor_t *tensor) {
    if (tensor->ndims > KERN_MAX_DIMS) {
        return kern_fail(context, VNPU_ERROR_UNSUPPORTED,
                         "%s: %s has %u dimensions, at most %u are possible", family, operand,
                         tensor->ndims, KERN_MAX_DIMS);
    }
    if (vnpu_dtype_bytes(tensor->dtype) == 0) {
        return kern_fail(context, VNPU_ERROR_INVALID_VALUE, "%s: %s has no element type", family,
                         operand);
    }
    bool is_block = vnpu_dtype_block(tensor->dtype) > 1;
    if (tensor->dtype == VNPU_F8E4M3 || tensor->dtype == VNPU_F8E5M2 ||
        (is_block && !takes_blocks(family))) {
        return kern_fail(context, VNPU_ERROR_UNSUPPORTED, "%s: %s is %s, which no kernel handles",
                         family, operand, kern_dtype_name(tensor->dtype));
    }
    char text[160];
    if (is_block && !has_blocks(tensor)) {
        return kern_fail(context, VNPU_ERROR_UNSUPPORTED,
                         "%s: %s %s: rows must be whole blocks of %u values, side by side", family,
                         operand, kern_describe(tensor, text, sizeof text),
                         vnpu_dtype_block(tensor->dtype));
    }
    for (uint32_t d = 0; d < tensor->ndims; d++) {
        if (tensor->size[d] < 0 || tensor->stride[d] < 0 || tensor->size[d] >= INT64_C(1) << 40 ||
            tensor->stride[d] >= INT64_C(1) << 40) {
            return kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                             "%s: %s %s: size or stride %lld of dimension %u is out of range",
                             family, operand, kern_describe(tensor, text, sizeof text),
                             (long long)tensor->stride[d], d);
        }
    }
    if (tensor->address == 0 && kern_numel(tensor) > 0) {
        return kern_fail(context, VNPU_ERROR_INVALID_VALUE, "%s: %s %s has no address", family,
                         operand, kern_describe(tensor, text, sizeof text));
    }
    return VNPU_OK;
}

vnpu_status_t kern_check_output(kern_context_t *context, const char *family,
                                const kern_tensor_t *tensor) {
    vnpu_status_t status = kern_check_tensor(context, family, "out", tensor);
    if (status == VNPU_OK && kern_numel(tensor) == 0) return VNPU_OK;
    for (uint32_t d = 0; d < tensor->ndims && status == VNPU_OK; d++) {
        if (tensor->size[d] < 2 || tensor->stride[d] != 0) continue;
        char text[160];
        status = kern_fail(context, VNPU_ERROR_INVALID_VALUE,
                           "%s: out %s has stride 0 along dimension %u: its elements overlap",
                           family, kern_describe(tensor, text, sizeof text), d);
    }
    return status;
}

uint64_t kern_arg_f32(double value) {
    float rounded = (float)value;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return bits;
}

uint64_t kern_arg_i64(int64_t value) {
    return (uint64_t)value;
}

/* ---- iteration spaces ---- */

static void remove_dim(kern_iter_t *iter, uint32_t dim) {
    iter->ndims--;
    for (uint32_t d = dim; d < iter->ndims; d++) {
        iter->size[d] = iter->size[d + 1];
        for (uint32_t o = 0; o < iter->num_operands; o++)
            iter->stride[o][d] = iter->stride[o][d + 1];
    }
}

static void swap_dims(kern_iter_t *iter, uint32_t a, uint32_t b) {
    int64_t size = iter->size[a];
    iter->size[a] = iter->size[b];
    iter->size[b] = size;
    for (uint32_t o = 0; o < iter->num_operands; o++) {
        int64_t stride = iter->stride[o][a];
        iter->stride[o][a] = iter->stride[o][b];
        iter->stride[o][b] = stride;
    }
}

static bool continues(const kern_iter_t *iter, uint32_t d) {
    for (uint32_t o = 0; o < iter->num_operands; o++) {
        if (iter->stride[o][d] != iter->stride[o][d + 1] * iter->size[d + 1]) return false;
    }
    return iter->size[d] * iter->size[d + 1] <= KERN_MAX_SPAN;
}

void kern_iter_collapse(kern_iter_t *iter, bool sort) {
    for (uint32_t d = iter->ndims; d-- > 0;) {
        if (iter->size[d] == 1) remove_dim(iter, d);
    }
    for (uint32_t d = 1; d < iter->ndims && sort; d++) {
        for (uint32_t e = d; e > 0 && iter->stride[0][e - 1] < iter->stride[0][e]; e--)
            swap_dims(iter, e - 1, e);
    }
    for (uint32_t d = iter->ndims; d-- > 1;) {
        if (!continues(iter, d - 1)) continue;
        iter->size[d] *= iter->size[d - 1];
        remove_dim(iter, d - 1);
    }
    if (iter->ndims == 0) {
        iter->ndims = 1;
        iter->size[0] = 1;
        for (uint32_t o = 0; o < iter->num_operands; o++)
            iter->stride[o][0] = 0;
    }
}

/* Reach of the operand that reaches farthest along dimension d. */
static int64_t reach_of(const kern_iter_t *iter, uint32_t d) {
    int64_t reach = iter->size[d] - 1;
    for (uint32_t o = 0; o < iter->num_operands; o++) {
        int64_t r = (iter->size[d] - 1) * iter->stride[o][d];
        if (r > reach) reach = r;
    }
    return reach;
}

int32_t kern_iter_cut(const kern_iter_t *iter, uint32_t max_dims, int64_t *out_part) {
    int64_t total = 0;
    uint32_t longest = 0, shortest = 0;
    for (uint32_t d = 0; d < iter->ndims; d++) {
        int64_t reach = reach_of(iter, d);
        total += reach;
        if (reach > reach_of(iter, longest)) longest = d;
        if (iter->size[d] < iter->size[shortest]) shortest = d;
    }
    if (total >= KERN_MAX_SPAN) {
        *out_part = (iter->size[longest] + 1) / 2;
        return (int32_t)longest;
    }
    if (iter->ndims <= max_dims) return -1;
    *out_part = 1;
    return (int32_t)shortest;
}
