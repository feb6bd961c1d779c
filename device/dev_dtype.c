#include "device/dev_dtype.h"

#include "sim/sim_status.h"

#define LOAD(type, from)                                                                           \
    type value;                                                                                    \
    memcpy(&value, from, sizeof value)

float dev_load_f32(vnpu_dtype_t dtype, const void *element) {
    switch (dtype) {
    case VNPU_F32: {
        LOAD(float, element);
        return value;
    }
    case VNPU_BF16: {
        LOAD(uint16_t, element);
        return dev_bf16_to_f32(value);
    }
    case VNPU_F16: {
        LOAD(uint16_t, element);
        return dev_f16_to_f32(value);
    }
    case VNPU_F8E4M3: return dev_f8e4m3_to_f32(*(const uint8_t *)element);
    case VNPU_F8E5M2: return dev_f8e5m2_to_f32(*(const uint8_t *)element);
    case VNPU_I8:
    case VNPU_U8:
    case VNPU_I16:
    case VNPU_I32:
    case VNPU_I64:
    case VNPU_BOOL: return (float)dev_load_i64(dtype, element);
    case VNPU_BFP8: /* never computed: dev_exec_run refuses */
    case VNPU_BFP4:
    case VNPU_DTYPE_NONE:
    case VNPU_DTYPE_COUNT: break;
    }
    sim_bug("executor", 0, "load of dtype %d", (int)dtype);
}

int64_t dev_load_i64(vnpu_dtype_t dtype, const void *element) {
    switch (dtype) {
    case VNPU_I8: return *(const int8_t *)element;
    case VNPU_U8: return *(const uint8_t *)element;
    case VNPU_BOOL: return *(const uint8_t *)element != 0;
    case VNPU_I16: {
        LOAD(int16_t, element);
        return value;
    }
    case VNPU_I32: {
        LOAD(int32_t, element);
        return value;
    }
    case VNPU_I64: {
        LOAD(int64_t, element);
        return value;
    }
    case VNPU_F32:
    case VNPU_BF16:
    case VNPU_F16:
    case VNPU_F8E4M3:
    case VNPU_F8E5M2: return dev_f32_to_i64(dev_load_f32(dtype, element));
    case VNPU_BFP8: /* never computed: dev_exec_run refuses */
    case VNPU_BFP4:
    case VNPU_DTYPE_NONE:
    case VNPU_DTYPE_COUNT: break;
    }
    sim_bug("executor", 0, "load of dtype %d", (int)dtype);
}

#define STORE(type, expression)                                                                    \
    type stored = (expression);                                                                    \
    memcpy(element, &stored, sizeof stored)

void dev_store_f32(vnpu_dtype_t dtype, void *element, float value) {
    switch (dtype) {
    case VNPU_F32: {
        STORE(float, value);
        return;
    }
    case VNPU_BF16: {
        STORE(uint16_t, dev_f32_to_bf16(value));
        return;
    }
    case VNPU_F16: {
        STORE(uint16_t, dev_f32_to_f16(value));
        return;
    }
    case VNPU_F8E4M3: {
        STORE(uint8_t, dev_f32_to_f8e4m3(value));
        return;
    }
    case VNPU_F8E5M2: {
        STORE(uint8_t, dev_f32_to_f8e5m2(value));
        return;
    }
    case VNPU_I8: {
        STORE(int8_t, (int8_t)dev_f32_to_small(value, -128.0f, 127.0f));
        return;
    }
    case VNPU_U8: {
        STORE(uint8_t, (uint8_t)dev_f32_to_small(value, 0.0f, 255.0f));
        return;
    }
    case VNPU_I16: {
        STORE(int16_t, (int16_t)dev_f32_to_small(value, -32768.0f, 32767.0f));
        return;
    }
    case VNPU_I32: {
        STORE(int32_t, dev_f32_to_i32(value));
        return;
    }
    case VNPU_I64: {
        STORE(int64_t, dev_f32_to_i64(value));
        return;
    }
    case VNPU_BOOL: {
        STORE(uint8_t, (uint8_t)(value != 0.0f));
        return;
    }
    case VNPU_BFP8: /* never computed: dev_exec_run refuses */
    case VNPU_BFP4:
    case VNPU_DTYPE_NONE:
    case VNPU_DTYPE_COUNT: break;
    }
    sim_bug("executor", 0, "store of dtype %d", (int)dtype);
}

void dev_store_i64(vnpu_dtype_t dtype, void *element, int64_t value) {
    switch (dtype) {
    case VNPU_I8:
    case VNPU_U8: {
        STORE(uint8_t, (uint8_t)(uint64_t)value);
        return;
    }
    case VNPU_I16: {
        STORE(uint16_t, (uint16_t)(uint64_t)value);
        return;
    }
    case VNPU_I32: {
        STORE(uint32_t, (uint32_t)(uint64_t)value);
        return;
    }
    case VNPU_I64: {
        STORE(int64_t, value);
        return;
    }
    case VNPU_BOOL: {
        STORE(uint8_t, (uint8_t)(value != 0));
        return;
    }
    case VNPU_F32:
    case VNPU_BF16:
    case VNPU_F16:
    case VNPU_F8E4M3:
    case VNPU_F8E5M2: dev_store_f32(dtype, element, (float)value); return;
    case VNPU_BFP8: /* never computed: dev_exec_run refuses */
    case VNPU_BFP4:
    case VNPU_DTYPE_NONE:
    case VNPU_DTYPE_COUNT: break;
    }
    sim_bug("executor", 0, "store of dtype %d", (int)dtype);
}
