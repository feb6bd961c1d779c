// Copies between host and device, inside the device, and fills.
#include <array>
#include <cstdlib>
#include <cstring>

#include <ATen/MemoryOverlap.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include "torch_plugin/csrc/vnpu_tensor.h"
#include "vnpu_handlers.h"

namespace vnpu {
namespace {

// Type under which the library moves the bits of a tensor that it only copies: itself if the chip
// knows it, else an integer of its width; NONE for 16-byte elements.
vnpu_dtype_t storage_dtype(at::ScalarType type) {
    const vnpu_dtype_t known = to_dtype(type);
    if (known != VNPU_DTYPE_NONE) {
        return known;
    }
    switch (c10::elementSize(type)) {
    case 1: return VNPU_U8;
    case 2: return VNPU_I16;
    case 4: return VNPU_I32;
    case 8: return VNPU_I64;
    default: return VNPU_DTYPE_NONE;
    }
}

// Two tensors of equal sizes as operands of a copy. Adjacent dimensions that both walk through
// without a gap become one, so that a rank above the library's limit is rare. 16-byte elements
// become pairs.
bool copy_operands(const at::Tensor &dst, const at::Tensor &src, kern_tensor_t *out,
                   kern_tensor_t *in) {
    const bool is_same = dst.scalar_type() == src.scalar_type();
    const bool is_wide = is_same && dst.element_size() == 16;
    std::array<c10::SmallVector<int64_t, 10>, 3> dims; // size, stride of dst, stride of src
    const int64_t unit = is_wide ? 2 : 1;
    for (int64_t d = 0; d < dst.dim(); ++d) {
        const int64_t size = dst.size(d), to = dst.stride(d) * unit, from = src.stride(d) * unit;
        if (size == 1) {
            continue;
        }
        if (!dims[0].empty() && dims[1].back() == to * size && dims[2].back() == from * size) {
            dims[0].back() *= size;
            dims[1].back() = to;
            dims[2].back() = from;
            continue;
        }
        dims[0].push_back(size);
        dims[1].push_back(to);
        dims[2].push_back(from);
    }
    if (is_wide) {
        dims[0].push_back(2);
        dims[1].push_back(1);
        dims[2].push_back(1);
    }
    if (dims[0].size() > KERN_MAX_DIMS) {
        return false;
    }
    *out = {};
    *in = {};
    out->address = address_of(dst);
    in->address = address_of(src);
    out->dtype = is_wide   ? VNPU_I64
                 : is_same ? storage_dtype(dst.scalar_type())
                           : to_dtype(dst.scalar_type());
    in->dtype = is_wide   ? VNPU_I64
                : is_same ? storage_dtype(src.scalar_type())
                          : to_dtype(src.scalar_type());
    out->ndims = in->ndims = static_cast<uint32_t>(dims[0].size());
    for (uint32_t d = 0; d < out->ndims; ++d) {
        out->size[d] = in->size[d] = dims[0][d];
        out->stride[d] = dims[1][d];
        in->stride[d] = dims[2][d];
    }
    return out->dtype != VNPU_DTYPE_NONE && in->dtype != VNPU_DTYPE_NONE;
}

// One block of memory holds every element of both, in the same order.
bool is_one_block(const at::Tensor &a, const at::Tensor &b) {
    return a.scalar_type() == b.scalar_type() && a.is_non_overlapping_and_dense() &&
           b.is_non_overlapping_and_dense() &&
           (a.strides() == b.strides() || (a.is_contiguous() && b.is_contiguous()));
}

void record_pinned_use(const at::Tensor &host) {
    at::getHostAllocator(kDevice)->record_event(const_cast<void *>(host.storage().data()),
                                                host.storage().data_ptr().get_context(),
                                                make_stream(current_stream()));
}

// VNPU_MODE=timing stores no float values: a copy of floats is its length, and costs the device no
// memory.
bool is_length_enough(const at::Tensor &src) {
    static const bool is_timing = [] {
        const char *mode = std::getenv("VNPU_MODE");
        return mode != nullptr && std::strcmp(mode, "timing") == 0;
    }();
    return is_timing && (src.is_floating_point() || src.is_complex());
}

void block_to_device(const at::Tensor &dst, const at::Tensor &src, bool non_blocking) {
    if (is_length_enough(src)) {
        check(vnpu_sim_memcpy_h2d_length(address_of(dst), src.nbytes(), current_stream()),
              "copying to the device");
        return;
    }
    const bool is_async = non_blocking && src.is_pinned();
    check(vnpu_memcpy_h2d(address_of(dst), src.const_data_ptr(), src.nbytes(), current_stream(),
                          is_async),
          "copying to the device");
    if (is_async) {
        record_pinned_use(src);
    }
}

void block_to_host(const at::Tensor &dst, const at::Tensor &src, bool non_blocking) {
    const bool is_async = non_blocking && dst.is_pinned();
    check(vnpu_memcpy_d2h(dst.mutable_data_ptr(), address_of(src), src.nbytes(), current_stream(),
                          is_async),
          "copying to the host");
    if (is_async) {
        record_pinned_use(dst);
    }
}

bool device_to_device(OpCall &call, const at::Tensor &dst, const at::Tensor &src) {
    at::assert_no_internal_overlap(dst);
    at::assert_no_partial_overlap(dst, src);
    if (is_one_block(dst, src)) {
        if (address_of(dst) != address_of(src)) {
            check(vnpu_memcpy_d2d(address_of(dst), address_of(src), src.nbytes(), current_stream()),
                  "copying on the device");
        }
        return true;
    }
    kern_tensor_t out, in;
    if (!copy_operands(dst, src, &out, &in)) {
        return false;
    }
    KernelLock lock;
    return call.ran(kern_copy(lock.context(), current_stream(), &out, &in), lock);
}

void host_to_device(OpCall &call, const at::Tensor &dst, const at::Tensor &src, bool non_blocking) {
    const at::Tensor ready =
        src.scalar_type() == dst.scalar_type() ? src : src.to(dst.scalar_type());
    if (is_one_block(dst, ready)) {
        block_to_device(dst, ready, non_blocking);
        return;
    }
    const at::Tensor packed = ready.contiguous();
    if (dst.is_contiguous()) {
        block_to_device(dst, packed, false);
        return;
    }
    const at::Tensor staged = at::empty(packed.sizes(), dst.options());
    block_to_device(staged, packed, false);
    TORCH_CHECK(device_to_device(call, dst, staged), "vnpu: cannot scatter ", dst.scalar_type(),
                dst.sizes(), " with strides ", dst.strides(), ": ", call.reason());
}

void device_to_host(OpCall &call, const at::Tensor &dst, const at::Tensor &src, bool non_blocking) {
    if (is_one_block(dst, src)) {
        block_to_host(dst, src, non_blocking);
        return;
    }
    at::Tensor packed = src;
    if (!src.is_non_overlapping_and_dense()) {
        packed = at::empty(src.sizes(), src.options());
        TORCH_CHECK(device_to_device(call, packed, src), "vnpu: cannot gather ", src.scalar_type(),
                    src.sizes(), " with strides ", src.strides(), ": ", call.reason());
    }
    const at::Tensor host =
        at::empty_strided(packed.sizes(), packed.strides(), packed.options().device(at::kCPU));
    block_to_host(host, packed, false);
    dst.copy_(host);
}

// What the chip cannot copy (a change from or to a type that it does not know) is a host operator
// like any other; the copy itself is ours, because the CPU has no _copy_from.
void through_host(OpCall &call, const at::Tensor &dst, const at::Tensor &src) {
    call.goes_to_host();
    const at::Tensor host = at::empty(src.sizes(), src.options().device(at::kCPU));
    device_to_host(call, host, src, false);
    const at::Tensor converted = host.to(dst.scalar_type());
    OpScope::add_host_time(
        charge_host(host.nbytes() + converted.nbytes(), static_cast<uint64_t>(host.numel())));
    host_to_device(call, dst, converted, false);
}

// A view of the stored values, without the lazy bits.
at::Tensor stored(const at::Tensor &tensor) {
    at::Tensor plain = tensor;
    if (tensor.is_conj() || tensor.is_neg()) {
        plain = tensor.alias();
        plain._set_conj(false);
        plain._set_neg(false);
    }
    return plain;
}

// The lazy bits of both sides are resolved on the host, where complex numbers live.
void copy_with_bits(OpCall &call, const at::Tensor &dst, const at::Tensor &src) {
    const at::Tensor from = stored(src), to = stored(dst);
    at::Tensor host = from;
    if (is_device(from)) {
        host = at::empty(from.sizes(), from.options().device(at::kCPU));
        device_to_host(call, host, from, false);
    }
    if (src.is_conj() != dst.is_conj()) {
        host = host.is_complex() ? host.conj().resolve_conj() : host;
    }
    if (src.is_neg() != dst.is_neg()) {
        host = host.neg();
    }
    host = host.to(to.scalar_type());
    if (is_device(to)) {
        host_to_device(call, to, host, false);
    } else {
        to.copy_(host);
    }
}

// Copies src into dst (sizes already equal). False: the chip cannot do it, call.reason() tells why.
bool copy_values(OpCall &call, const at::Tensor &dst, const at::Tensor &src, bool non_blocking) {
    if (src.is_conj() || src.is_neg() || dst.is_conj() || dst.is_neg()) {
        copy_with_bits(call, dst, src);
    } else if (!is_device(src)) {
        host_to_device(call, dst, src, non_blocking);
    } else if (!is_device(dst)) {
        device_to_host(call, dst, src, non_blocking);
    } else {
        return device_to_device(call, dst, src);
    }
    return true;
}

bool fill(OpCall &call, const at::Tensor &self, const at::Scalar &value) {
    kern_tensor_t out, in;
    if (!copy_operands(self, self, &out, &in) || to_dtype(self.scalar_type()) == VNPU_DTYPE_NONE) {
        return false;
    }
    const bool is_float = c10::isFloatingType(self.scalar_type());
    const bool is_bool = self.scalar_type() == at::kBool;
    const double as_float = is_float ? value.toDouble() : 0.0;
    const int64_t as_int = is_float                  ? 0
                           : is_bool                 ? (value.toDouble() != 0.0 ? 1 : 0)
                           : value.isFloatingPoint() ? static_cast<int64_t>(value.toDouble())
                                                     : value.to<int64_t>();
    KernelLock lock;
    return call.ran(kern_fill(lock.context(), current_stream(), &out, as_float, as_int), lock);
}

// Types that only the memory knows: the bit pattern, if it fits one.
bool fill_pattern(const at::Tensor &self, const at::Scalar &value) {
    if (!self.is_non_overlapping_and_dense() || self.element_size() > 8) {
        return false;
    }
    const at::Tensor one = at::empty({}, self.options().device(at::kCPU)).fill_(value);
    uint64_t pattern = 0;
    std::memcpy(&pattern, one.const_data_ptr(), static_cast<size_t>(self.element_size()));
    check(vnpu_memset(address_of(self), pattern, static_cast<uint32_t>(self.element_size()),
                      static_cast<size_t>(self.numel()), current_stream()),
          "filling memory");
    return true;
}

} // namespace

namespace ops {

// _copy_from(self, dst, non_blocking): dst = self.
Outcome copy_from(OpCall &call) {
    const at::Tensor dst = call.tensor(1);
    const at::Tensor src =
        call.tensor(0).sizes() == dst.sizes() ? call.tensor(0) : call.tensor(0).expand(dst.sizes());
    if (dst.numel() == 0 || copy_values(call, dst, src, call.boolean(2))) {
        return call.done(dst);
    }
    through_host(call, dst, src);
    return call.done(dst);
}

Outcome copy_from_and_resize(OpCall &call) {
    const at::Tensor src = call.tensor(0), dst = call.tensor(1);
    if (src.sizes() != dst.sizes()) {
        dst.resize_(src.sizes());
    }
    if (dst.numel() != 0 && !copy_values(call, dst, src, false)) {
        through_host(call, dst, src);
    }
    return call.done(dst);
}

Outcome local_scalar_dense(OpCall &call) {
    const at::Tensor self = call.tensor(0);
    const at::Tensor host = at::empty({}, self.options().device(at::kCPU));
    check(vnpu_memcpy_d2h(host.mutable_data_ptr(), address_of(self), host.nbytes(),
                          current_stream(), 0),
          "reading a value");
    at::Tensor value = host;
    if (self.is_conj()) {
        value = value.conj().resolve_conj();
    }
    return call.done(at::_local_scalar_dense(self.is_neg() ? value.neg() : value));
}

Outcome fill_scalar(OpCall &call) {
    const at::Tensor self = call.tensor(0);
    if (self.numel() == 0 || fill(call, self, call.scalar(1)) ||
        fill_pattern(self, call.scalar(1))) {
        return call.done(self);
    }
    return call.host(call.reason());
}

Outcome fill_tensor(OpCall &call) {
    const at::Tensor self = call.tensor(0), value = call.tensor(1);
    TORCH_CHECK(value.dim() == 0,
                "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
                " dimensions.");
    if (value.device().is_cpu()) {
        self.fill_(value.item());
    } else {
        self.copy_(value.expand(self.sizes()));
    }
    return call.done(self);
}

Outcome zero(OpCall &call) {
    const at::Tensor self = call.tensor(0);
    if (self.numel() == 0 || fill(call, self, 0) || fill_pattern(self, 0)) {
        return call.done(self);
    }
    return call.host(call.reason());
}

// cat.out(tensors, dim, out)
Outcome cat_out(OpCall &call) {
    const std::vector<at::Tensor> tensors = call.arg(0).toTensorVector();
    const at::Tensor out = call.out();
    const auto is_skipped = [](const at::Tensor &tensor) {
        return tensor.dim() == 1 && tensor.size(0) == 0;
    };
    std::vector<int64_t> sizes;
    int64_t dim = 0, along = 0;
    for (const at::Tensor &tensor : tensors) {
        if (is_skipped(tensor)) {
            continue;
        }
        if (sizes.empty()) {
            sizes = tensor.sizes().vec();
            dim = c10::maybe_wrap_dim(call.integer(1), tensor.dim());
        }
        along += tensor.size(dim);
    }
    if (sizes.empty()) {
        at::native::resize_output(out, {0});
        return call.done(out);
    }
    sizes[static_cast<size_t>(dim)] = along;
    at::native::resize_output(out, sizes);
    int64_t start = 0;
    for (const at::Tensor &tensor : tensors) {
        if (!is_skipped(tensor)) {
            const int64_t length = tensor.size(dim);
            out.narrow(dim, start, length).copy_(tensor);
            start += length;
        }
    }
    return call.done(out);
}

} // namespace ops
} // namespace vnpu
