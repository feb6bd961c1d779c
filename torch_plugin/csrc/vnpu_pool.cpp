// Pooling: windows on the vector unit.
#include <ATen/core/grad_mode.h>
#include <ATen/native/Pool.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/ones.h>
#include <torch/library.h>

#include "torch_plugin/csrc/vnpu_tensor.h"
#include "vnpu_handlers.h"

namespace vnpu {
namespace {

constexpr int64_t kMostPositions = 128; // of a window of kern_pool

struct Window {
    int64_t kernel[2], stride[2], pad[2], dilation[2];
};

// One number stands for both dimensions; an empty stride is the kernel.
void fill(int64_t to[2], const std::vector<int64_t> &from, const int64_t *otherwise) {
    for (size_t d = 0; d < 2; ++d) {
        to[d] = from.empty() ? otherwise[d] : from[from.size() == 1 ? 0 : d];
    }
}

// kernel_size, stride, padding are arguments 1 to 3.
Window window_of(const OpCall &call) {
    constexpr int64_t one[2] = {1, 1};
    Window window{};
    fill(window.kernel, call.integers(1), one);
    fill(window.stride, call.integers(2), window.kernel);
    fill(window.pad, call.integers(3), one);
    fill(window.dilation, {}, one);
    return window;
}

int64_t results(const Window &w, int64_t size, size_t d, bool ceil_mode) {
    return at::native::pooling_output_shape<int64_t>(size, w.kernel[d], w.pad[d], w.stride[d],
                                                     w.dilation[d], ceil_mode);
}

// [.., C, H, W] with a batch dimension in front.
at::Tensor with_batch(const at::Tensor &tensor) {
    return tensor.dim() == 3 ? tensor.unsqueeze(0) : tensor;
}

bool pool(OpCall &call, const at::Tensor &in, const at::Tensor &out, const at::Tensor &indices,
          const Window &w, kern_pool_kind_t kind, double scale) {
    kern_pool_t kern{};
    bool fits = to_kern(with_batch(in), &kern.in) && to_kern(with_batch(out), &kern.out);
    fits = fits && (!indices.defined() || to_kern(with_batch(indices), &kern.indices));
    if (!fits) {
        (void)call.host(std::string("no pooling of ") + c10::toString(in.scalar_type()));
        return false;
    }
    for (size_t d = 0; d < 2; ++d) {
        kern.kernel[d] = static_cast<uint32_t>(w.kernel[d]);
        kern.stride[d] = static_cast<uint32_t>(w.stride[d]);
        kern.pad[d] = static_cast<uint32_t>(w.pad[d]);
        kern.dilation[d] = static_cast<uint32_t>(w.dilation[d]);
    }
    kern.kind = kind;
    kern.scale = scale;
    KernelLock lock;
    return call.ran(kern_pool(lock.context(), current_stream(), &kern), lock);
}

// Sums of windows; large ones by rows, then by columns.
bool sum_pool(OpCall &call, const at::Tensor &in, const at::Tensor &out, const Window &w,
              double scale) {
    if (w.kernel[0] * w.kernel[1] <= kMostPositions) {
        return pool(call, in, out, {}, w, KERN_POOL_SUM, scale);
    }
    Window rows = w, cols = w;
    rows.kernel[1] = rows.stride[1] = 1, rows.pad[1] = 0;
    cols.kernel[0] = cols.stride[0] = 1, cols.pad[0] = 0;
    std::vector<int64_t> sizes = in.sizes().vec();
    sizes[sizes.size() - 2] = out.size(-2);
    const at::Tensor sums = at::empty(sizes, in.options().dtype(at::kFloat));
    return pool(call, in, sums, {}, rows, KERN_POOL_SUM, 1.0) &&
           pool(call, sums, out, {}, cols, KERN_POOL_SUM, scale);
}

// Every window lies inside image and border, so that all have as many elements.
bool windows_are_whole(const Window &w, const at::Tensor &in, const at::Tensor &out) {
    bool are_whole = true;
    for (size_t d = 0; d < 2; ++d) {
        const auto dim = static_cast<int64_t>(d) - 2;
        const int64_t last = (out.size(dim) - 1) * w.stride[d] - w.pad[d] + w.kernel[d];
        are_whole = are_whole && last <= in.size(dim) + w.pad[d];
    }
    return are_whole;
}

// How many elements each window has, [1, OH, OW]; with_pad: the border counts.
at::Tensor window_counts(OpCall &call, const at::Tensor &in, const at::Tensor &out, Window w,
                         bool with_pad) {
    std::vector<int64_t> size = {1, in.size(-2), in.size(-1)};
    for (size_t d = 0; d < 2 && with_pad; ++d) {
        size[d + 1] += 2 * w.pad[d];
        w.pad[d] = 0;
    }
    const auto options = in.options().dtype(at::kFloat);
    const at::Tensor counts = at::empty({1, out.size(-2), out.size(-1)}, options);
    return sum_pool(call, at::ones(size, options), counts, w, 1.0) ? counts : at::Tensor();
}

std::vector<int64_t> result_sizes(const at::Tensor &self, int64_t rows, int64_t cols) {
    std::vector<int64_t> sizes = self.sizes().vec();
    sizes[sizes.size() - 2] = rows;
    sizes[sizes.size() - 1] = cols;
    return sizes;
}

// Indices are computed for a gradient, not otherwise.
at::Tensor max_pool2d_autograd(const at::Tensor &self, at::IntArrayRef kernel,
                               at::IntArrayRef stride, at::IntArrayRef padding,
                               at::IntArrayRef dilation, bool ceil_mode) {
    if (at::GradMode::is_enabled() && self.requires_grad()) {
        return std::get<0>(
            at::max_pool2d_with_indices(self, kernel, stride, padding, dilation, ceil_mode));
    }
    at::AutoDispatchBelowADInplaceOrView guard;
    return at::max_pool2d(self, kernel, stride, padding, dilation, ceil_mode);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
    m.impl("max_pool2d", &max_pool2d_autograd);
}

Window max_window(const OpCall &call) {
    constexpr int64_t one[2] = {1, 1};
    Window w = window_of(call);
    fill(w.dilation, call.integers(4), one);
    return w;
}

void check_max(const at::Tensor &self, const Window &w, int64_t rows, int64_t cols) {
    at::native::pool2d_shape_check(self, static_cast<int>(w.kernel[0]),
                                   static_cast<int>(w.kernel[1]), static_cast<int>(w.stride[0]),
                                   static_cast<int>(w.stride[1]), static_cast<int>(w.pad[0]),
                                   static_cast<int>(w.pad[1]), static_cast<int>(w.dilation[0]),
                                   static_cast<int>(w.dilation[1]), self.size(-3), self.size(-2),
                                   self.size(-1), rows, cols, self.suggest_memory_format());
}

} // namespace

namespace ops {

// max_pool2d(self, kernel_size, stride, padding, dilation, ceil_mode)
Outcome max_pool2d(OpCall &call) {
    const at::Tensor self = call.tensor(0);
    const Window w = max_window(call);
    TORCH_CHECK(self.dim() == 3 || self.dim() == 4,
                "max_pool2d: 3 or 4 dimensions are needed, not ", self.dim());
    const int64_t rows = results(w, self.size(-2), 0, call.boolean(5)),
                  cols = results(w, self.size(-1), 1, call.boolean(5));
    check_max(self, w, rows, cols);
    const auto format =
        self.dim() == 4 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
    const at::Tensor out =
        at::empty(result_sizes(self, rows, cols), self.options().memory_format(format));
    if (out.numel() == 0 || pool(call, self, out, {}, w, KERN_POOL_MAX, 1.0)) {
        return call.done(out);
    }
    return Outcome::host;
}

// max_pool2d_with_indices.out(self, kernel_size, stride, padding, dilation, ceil_mode, *, out,
// indices)
Outcome max_pool2d_with_indices_out(OpCall &call) {
    const at::Tensor self = call.tensor(0), out = call.tensor(6), indices = call.tensor(7);
    const Window w = max_window(call);
    const std::vector<int64_t> sizes =
        result_sizes(self, results(w, self.size(-2), 0, call.boolean(5)),
                     results(w, self.size(-1), 1, call.boolean(5)));
    at::native::resize_output(out, sizes);
    at::native::resize_output(indices, sizes);
    if (out.numel() == 0 || pool(call, self, out, indices, w, KERN_POOL_MAX, 1.0)) {
        return call.done(out, indices);
    }
    return Outcome::host;
}

// avg_pool2d.out(self, kernel_size, stride, padding, ceil_mode, count_include_pad,
// divisor_override, *, out)
Outcome avg_pool2d_out(OpCall &call) {
    const at::Tensor self = call.tensor(0), out = call.out();
    const Window w = window_of(call);
    at::native::resize_output(out, result_sizes(self, results(w, self.size(-2), 0, call.boolean(4)),
                                                results(w, self.size(-1), 1, call.boolean(4))));
    if (out.numel() == 0) {
        return call.done(out);
    }
    if (!self.is_floating_point()) {
        return call.host(std::string("averages of ") + c10::toString(self.scalar_type()));
    }
    const bool with_pad = call.boolean(5), has_divisor = !call.arg(6).isNone();
    const bool is_even = has_divisor || (windows_are_whole(w, self, out) &&
                                         (with_pad || (w.pad[0] == 0 && w.pad[1] == 0)));
    const int64_t count = has_divisor ? call.integer(6) : w.kernel[0] * w.kernel[1];
    if (is_even) {
        return sum_pool(call, self, out, w, 1.0 / static_cast<double>(count)) ? call.done(out)
                                                                              : Outcome::host;
    }
    const at::Tensor sums = at::empty(out.sizes(), self.options().dtype(at::kFloat));
    const at::Tensor counts = window_counts(call, self, out, w, with_pad);
    if (!counts.defined() || !sum_pool(call, self, sums, w, 1.0)) {
        return Outcome::host;
    }
    out.copy_(at::div(sums, counts));
    return call.done(out);
}

// _adaptive_avg_pool2d(self, output_size): windows of one size, or the host. To 1 x 1 torch takes
// the mean.
Outcome adaptive_avg_pool2d(OpCall &call) {
    const at::Tensor self = call.tensor(0);
    const std::vector<int64_t> size = call.integers(1);
    if (self.numel() == 0 || size[0] == 0 || size[1] == 0 || self.size(-2) % size[0] != 0 ||
        self.size(-1) % size[1] != 0 || !self.is_floating_point()) {
        return call.host("windows of unequal size, or none");
    }
    Window w{};
    for (size_t d = 0; d < 2; ++d) {
        w.kernel[d] = w.stride[d] = self.size(static_cast<int64_t>(d) - 2) / size[d];
        w.dilation[d] = 1;
    }
    const auto format =
        self.dim() == 4 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
    const at::Tensor out =
        at::empty(result_sizes(self, size[0], size[1]), self.options().memory_format(format));
    const auto count = static_cast<double>(w.kernel[0] * w.kernel[1]);
    return sum_pool(call, self, out, w, 1.0 / count) ? call.done(out) : Outcome::host;
}

} // namespace ops
} // namespace vnpu
