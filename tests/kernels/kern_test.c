#include "tests/kernels/kern_test.h"

#include <math.h>
#include <string.h>

const machine_case_t test_machines[] = {
    {"default", NULL, DEV_EXEC_VALUES},
    {"default", "grid.workers=3", DEV_EXEC_CHAOS},
    {"tiny", NULL, DEV_EXEC_VALUES},
    {"tiny", "dma.queues=1", DEV_EXEC_VALUES},
    {"tiny",
     "dma.queues=1,grid.cores=2,dma.accumulator_bytes_per_cycle=32 B,class vec.count=3,"
     "class vec.workers=2,class vec.matrix.count=0,"
     "class vec.vector.lanes=64,class vec.dma.queues=2,class vec.sram.bytes=48 KiB",
     DEV_EXEC_CHAOS},
    {"tiny", "grid.cores=3,dma.accumulator_bytes_per_cycle=64 B,dma.merge_rows=false",
     DEV_EXEC_CHAOS},
    {"tiny", "mapping.profile=xla-like", DEV_EXEC_CHAOS},
    {"tiny", "mapping.profile=ttnn-like,mapping.multicast=true,grid.cores=4", DEV_EXEC_CHAOS},
};
const uint32_t test_num_machines = sizeof test_machines / sizeof test_machines[0];

static uint64_t state = 88172645463325252ull;
static size_t tensors;

kern_context_t *test_open(uint32_t i) {
    shim_open(test_machines[i].config, test_machines[i].overrides, test_machines[i].mode, 7 + i);
    kern_context_t *context = NULL;
    cr_assert_eq(kern_context_create(0, &context), VNPU_OK);
    tensors = 0;
    return context;
}

void test_close(kern_context_t *context) {
    cr_assert_eq(tensors, 0, "%zu tensors left", tensors);
    kern_context_destroy(context);
    shim_close();
}

uint32_t test_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

double test_uniform(double a, double b) {
    return a + (b - a) * (test_random() / 4294967296.0);
}

int64_t test_numel(const kern_tensor_t *tensor) {
    int64_t elems = 1;
    for (uint32_t d = 0; d < tensor->ndims; d++)
        elems *= tensor->size[d];
    return elems;
}

int64_t test_offset(const kern_tensor_t *tensor, int64_t linear) {
    int64_t offset = 0;
    for (uint32_t d = tensor->ndims; d-- > 0;) {
        offset += linear % tensor->size[d] * tensor->stride[d];
        linear /= tensor->size[d];
    }
    return offset * vnpu_dtype_bytes(tensor->dtype);
}

static float half_to_float(uint16_t half) {
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double magnitude = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) magnitude = fraction ? NAN : INFINITY;
    return (float)(half >> 15 ? -magnitude : magnitude);
}

double test_get(const kern_tensor_t *tensor, int64_t linear) {
    const void *p = shim_host(tensor->address + (uint64_t)test_offset(tensor, linear),
                              vnpu_dtype_bytes(tensor->dtype));
    uint32_t bits;
    uint16_t half;
    float f;
    switch (tensor->dtype) {
    case VNPU_F32: memcpy(&f, p, 4); return f;
    case VNPU_BF16:
        memcpy(&half, p, 2);
        bits = (uint32_t)half << 16;
        memcpy(&f, &bits, 4);
        return f;
    case VNPU_F16: memcpy(&half, p, 2); return half_to_float(half);
    default: return (double)test_get_int(tensor, linear);
    }
}

int64_t test_get_int(const kern_tensor_t *tensor, int64_t linear) {
    const void *p = shim_host(tensor->address + (uint64_t)test_offset(tensor, linear),
                              vnpu_dtype_bytes(tensor->dtype));
    int64_t i64;
    int32_t i32;
    int16_t i16;
    switch (tensor->dtype) {
    case VNPU_I64: memcpy(&i64, p, 8); return i64;
    case VNPU_I32: memcpy(&i32, p, 4); return i32;
    case VNPU_I16: memcpy(&i16, p, 2); return i16;
    case VNPU_I8: return *(const int8_t *)p;
    case VNPU_U8: return *(const uint8_t *)p;
    case VNPU_BOOL: return *(const uint8_t *)p;
    default: cr_assert_fail("not an integer tensor"); return 0;
    }
}

void test_set(const kern_tensor_t *tensor, int64_t linear, double value) {
    void *p = shim_host(tensor->address + (uint64_t)test_offset(tensor, linear),
                        vnpu_dtype_bytes(tensor->dtype));
    float f = (float)value;
    uint32_t bits;
    int64_t i = (int64_t)value;
    switch (tensor->dtype) {
    case VNPU_F32: memcpy(p, &f, 4); return;
    case VNPU_BF16: /* truncated: any bf16 value will do as an input */
        memcpy(&bits, &f, 4);
        bits >>= 16;
        memcpy(p, &bits, 2);
        return;
    case VNPU_F16: /* small halves of integers: exact */
    {
        uint16_t half = 0;
        double magnitude = fabs(value);
        int exponent = 0;
        if (magnitude > 0) {
            (void)frexp(magnitude, &exponent);
            uint32_t fraction = (uint32_t)ldexp(magnitude, 11 - exponent);
            half = (uint16_t)((uint32_t)(exponent + 14) << 10 | (fraction & 1023u));
        }
        if (value < 0) half |= 0x8000;
        memcpy(p, &half, 2);
        return;
    }
    case VNPU_BOOL: i = value != 0; break;
    default: break;
    }
    memcpy(p, &i, vnpu_dtype_bytes(tensor->dtype)); /* little-endian: the low bytes */
}

void test_fill(const kern_tensor_t *tensor, double low, double high) {
    for (int64_t i = 0; i < test_numel(tensor); i++) {
        double value = test_uniform(low, high);
        if (tensor->dtype == VNPU_BOOL) value = test_random() % 2;
        if (tensor->dtype == VNPU_U8) value = fabs(value);
        test_set(tensor, i, value);
    }
}

kern_tensor_t test_permuted(vnpu_dtype_t dtype, uint32_t ndims, const int64_t *size,
                            const uint32_t *order) {
    kern_tensor_t tensor = {.dtype = dtype, .ndims = ndims};
    int64_t elems = 1;
    for (uint32_t i = ndims; i-- > 0;) {
        uint32_t d = order ? order[i] : i;
        tensor.size[d] = size[d];
        tensor.stride[d] = elems;
        elems *= size[d];
    }
    size_t bytes = (size_t)elems * vnpu_dtype_bytes(dtype);
    tensor.address = shim_alloc(bytes);
    tensors++;
    if (elems > 0) {
        memset(shim_host(tensor.address, bytes), 0x5a, bytes);
        test_fill(&tensor, -4, 4);
    }
    return tensor;
}

kern_tensor_t test_tensor(vnpu_dtype_t dtype, uint32_t ndims, const int64_t *size) {
    return test_permuted(dtype, ndims, size, NULL);
}

void test_release(kern_tensor_t *tensor) {
    shim_free(tensor->address);
    tensor->address = 0;
    tensors--;
}

kern_tensor_t test_view(const kern_tensor_t *tensor, uint32_t ndims, const int64_t *size,
                        const int64_t *stride) {
    kern_tensor_t view = {.address = tensor->address, .dtype = tensor->dtype, .ndims = ndims};
    for (uint32_t d = 0; d < ndims; d++) {
        view.size[d] = size[d];
        view.stride[d] = stride[d];
    }
    return view;
}

void test_ok(kern_context_t *context, vnpu_status_t status, const char *what) {
    cr_assert_eq(status, VNPU_OK, "%s: status %d: %s / %s", what, (int)status,
                 kern_error_detail(context), shim_detail());
}
