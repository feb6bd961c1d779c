// Tensors of torch as operands of the kernel library.
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/kern.h"

namespace vnpu {

// VNPU_DTYPE_NONE for a type that the chip does not know (f64, complex).
inline vnpu_dtype_t to_dtype(at::ScalarType type) {
    switch (type) {
    case at::kFloat: return VNPU_F32;
    case at::kBFloat16: return VNPU_BF16;
    case at::kHalf: return VNPU_F16;
    case at::kByte: return VNPU_U8;
    case at::kChar: return VNPU_I8;
    case at::kShort: return VNPU_I16;
    case at::kInt: return VNPU_I32;
    case at::kLong: return VNPU_I64;
    case at::kBool: return VNPU_BOOL;
    default: return VNPU_DTYPE_NONE;
    }
}

inline vnpu_addr_t address_of(const at::TensorBase &tensor) {
    return reinterpret_cast<vnpu_addr_t>(tensor.const_data_ptr());
}

// bf16 and f16: what several operators make of them is computed in f32 and rounded once.
inline bool is_half(const at::TensorBase &tensor) {
    return tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf;
}

inline bool is_device(const at::TensorBase &tensor) {
    return tensor.is_privateuseone();
}

// The tensor as it is; false if it has more dimensions than the library takes or a type that the
// chip does not know.
inline bool to_kern(const at::TensorBase &tensor, kern_tensor_t *out) {
    *out = {};
    out->address = address_of(tensor);
    out->dtype = to_dtype(tensor.scalar_type());
    out->ndims = static_cast<uint32_t>(tensor.dim());
    if (tensor.dim() > static_cast<int64_t>(KERN_MAX_DIMS) || out->dtype == VNPU_DTYPE_NONE) {
        return false;
    }
    for (uint32_t d = 0; d < out->ndims; ++d) {
        out->size[d] = tensor.size(d);
        out->stride[d] = tensor.stride(d);
    }
    return true;
}

} // namespace vnpu
