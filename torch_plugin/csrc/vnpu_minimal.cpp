// Tensors and their storage: creation, views, resizing, set_. No kernel runs here.
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/_resize_output_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/equal_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <torch/library.h>

#include "torch_plugin/csrc/vnpu_allocator.h"
#include "torch_plugin/csrc/vnpu_runtime.h"

namespace vnpu {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

void check_options(std::optional<at::Layout> layout, std::optional<at::Device> device,
                   std::optional<bool> pin) {
    TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided,
                "vnpu: only strided tensors, not layout ", *layout);
    TORCH_CHECK(!pin.value_or(false), "vnpu: only CPU tensors can be pinned");
    if (device.has_value()) {
        check_index(device->has_index() ? device->index() : current_device());
    }
}

// use_deterministic_algorithms fills what was never written, so that its use is seen.
at::Tensor filled_if_deterministic(at::Tensor tensor) {
    const auto &context = at::globalContext();
    if (context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory() &&
        tensor.numel() != 0) {
        if (tensor.is_floating_point() || tensor.is_complex()) {
            tensor.fill_(std::numeric_limits<double>::quiet_NaN());
        } else if (tensor.scalar_type() == at::kBool) {
            tensor.fill_(true);
        } else {
            tensor.fill_(
                at::Scalar(static_cast<int64_t>((1ull << (8 * tensor.element_size() - 1)) - 1)));
        }
    }
    return tensor;
}

at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> layout, std::optional<at::Device> device,
                               std::optional<bool> pin, std::optional<at::MemoryFormat> format) {
    check_options(layout, device, pin);
    return filled_if_deterministic(at::detail::empty_generic(size, &device_allocator(), kKeys,
                                                             c10::dtype_or_default(dtype), format));
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin) {
    check_options(layout, device, pin);
    return filled_if_deterministic(at::detail::empty_strided_generic(
        size, stride, &device_allocator(), kKeys, c10::dtype_or_default(dtype)));
}

at::Tensor as_strided(const at::Tensor &self, at::IntArrayRef size, at::IntArrayRef stride,
                      std::optional<int64_t> offset) {
    return at::native::as_strided_tensorimpl(self, size, stride, offset);
}

void grow_storage(const at::Tensor &self, size_t bytes) {
    if (bytes > self.storage().nbytes()) {
        resize_storage(self.storage(), bytes);
    }
}

const at::Tensor &resize_(const at::Tensor &self, at::IntArrayRef size,
                          std::optional<at::MemoryFormat> format) {
    at::TensorImpl *impl = self.unsafeGetTensorImpl();
    const int64_t before = self.numel();
    if (impl->sizes() != size) {
        impl->set_sizes_contiguous(size);
    }
    if (format.has_value()) {
        TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format", *format);
        impl->empty_tensor_restride(*format);
    }
    if (self.numel() != 0) {
        grow_storage(self,
                     at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.itemsize(),
                                                      static_cast<size_t>(self.storage_offset())));
    }
    if (self.numel() > before && self.is_contiguous()) {
        filled_if_deterministic(self.view({-1}).narrow(0, before, self.numel() - before));
    }
    return self;
}

at::Tensor &set_storage_offset(at::Tensor &self, at::Storage source, int64_t offset,
                               at::IntArrayRef size, at::IntArrayRef stride) {
    at::native::checkSetStorage(self, source, offset, size, stride,
                                /*check_offset_in_bounds=*/false);
    self.unsafeGetTensorImpl()->set_storage_offset(offset);
    const at::OptionalIntArrayRef strides =
        stride.data() != nullptr ? at::OptionalIntArrayRef(stride) : std::nullopt;
    at::TensorImpl *impl = self.unsafeGetTensorImpl();
    if (strides.has_value()) {
        impl->set_sizes_and_strides(size, *strides);
    } else {
        impl->set_sizes_contiguous(size);
    }
    if (self.numel() != 0) {
        grow_storage(self,
                     at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.itemsize(),
                                                      static_cast<size_t>(offset)));
    }
    return self;
}

at::Tensor &set_storage(at::Tensor &self, at::Storage source) {
    const auto elements = static_cast<int64_t>(source.nbytes() / self.itemsize());
    return set_storage_offset(self, std::move(source), 0, {elements}, {});
}

at::Tensor &set_empty(at::Tensor &self) {
    at::Storage storage(at::Storage::use_byte_size_t(), 0, &device_allocator(), /*resizable=*/true);
    return set_storage_offset(self, std::move(storage), 0, {0}, {});
}

void record_stream(at::Tensor &self, at::Stream stream) {
    device_allocator().recordStream(self.storage().data_ptr(), stream);
}

bool equal(const at::Tensor &self, const at::Tensor &other) {
    TORCH_CHECK(self.device() == other.device(),
                "Expected all tensors to be on the same device, but found ", self.device(), " and ",
                other.device());
    TORCH_CHECK(self.dtype() == other.dtype(),
                "Expected all tensors to have the same dtype, but found ", self.dtype(), " and ",
                other.dtype());
    if (self.sizes() != other.sizes()) {
        return false;
    }
    return self.numel() == 0 || !at::ne(self, other).any().item<bool>();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    m.impl("empty.memory_format", empty_memory_format);
    m.impl("empty_strided", empty_strided);
    m.impl("as_strided", as_strided);
    m.impl("view", at::native::view);
    m.impl("_reshape_alias", at::native::_reshape_alias);
    m.impl("unfold", at::native::unfold);
    m.impl("view_as_real", at::native::view_as_real);
    m.impl("view_as_complex", at::native::view_as_complex);
    m.impl("resize_", resize_);
    m.impl("_resize_output_", at::native::_resize_output_);
    m.impl("is_set_to", at::native::is_set_to);
    m.impl("set_.source_Tensor", at::native::set_tensor_);
    m.impl("set_.source_Storage", set_storage);
    m.impl("set_.source_Storage_storage_offset", set_storage_offset);
    m.impl("set_", set_empty);
    m.impl("record_stream", record_stream);
    m.impl("equal", equal);
}

} // namespace
} // namespace vnpu
