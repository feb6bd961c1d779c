// Operators that work on rows: softmax, layer norm, reductions.
#include <cmath>
#include <limits>

#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sub.h>

#include "torch_plugin/csrc/vnpu_tensor.h"
#include "vnpu_handlers.h"

namespace vnpu {
namespace {

// A tensor without dimensions is a row of one element.
at::Tensor at_least_1d(const at::Tensor &tensor) {
    return tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor;
}

Outcome softmax(OpCall &call, bool is_log) {
    const at::Tensor self = call.tensor(0), out = call.out();
    at::native::resize_output(out, self.sizes());
    if (self.numel() == 0) {
        return call.done(out);
    }
    const at::Tensor rows = at_least_1d(self);
    kern_tensor_t in, result;
    if (!to_kern(rows, &in) || !to_kern(at_least_1d(out), &result)) {
        return call.host(std::string("no softmax of ") + c10::toString(self.scalar_type()));
    }
    const auto dim = static_cast<uint32_t>(c10::maybe_wrap_dim(call.integer(1), rows.dim()));
    KernelLock lock;
    return call.ran(kern_softmax(lock.context(), current_stream(), &result, &in, dim, is_log), lock)
               ? call.done(out)
               : Outcome::host;
}

// The value of a reduction over nothing.
std::optional<at::Scalar> identity(kern_reduction_t kind) {
    switch (kind) {
    case KERN_SUM: return 0;
    case KERN_NORM2: return 0;
    case KERN_ANY: return false;
    case KERN_PROD: return 1;
    case KERN_ALL: return true;
    case KERN_MEAN: return std::numeric_limits<double>::quiet_NaN();
    case KERN_AMAX: return std::nullopt;
    case KERN_AMIN: return std::nullopt;
    }
    return std::nullopt;
}

uint32_t reduced_dims(const at::Tensor &self, at::IntArrayRef dims) {
    uint32_t mask = 0;
    for (const int64_t dim : dims) {
        const uint32_t bit = 1u << c10::maybe_wrap_dim(dim, self.dim());
        TORCH_CHECK((mask & bit) == 0, "dim ", dim, " appears multiple times in the list of dims");
        mask |= bit;
    }
    return dims.empty() ? (1u << self.dim()) - 1u : mask;
}

// Reduces self into out (resized). `dims` empty: all. The library converts on load and on store.
Outcome reduce(OpCall &call, kern_reduction_t kind, const at::Tensor &self, at::IntArrayRef dims,
               bool keepdim, const at::Tensor &out) {
    if (self.dim() > static_cast<int64_t>(KERN_MAX_DIMS)) {
        return call.host("more dimensions than the kernel library takes");
    }
    const uint32_t mask = self.dim() == 0 ? 0 : reduced_dims(self, dims);
    std::vector<int64_t> kept, sizes;
    for (int64_t d = 0; d < self.dim(); ++d) {
        const bool is_reduced = (mask >> d & 1u) != 0;
        kept.push_back(is_reduced ? 1 : self.size(d));
        if (!is_reduced || keepdim) {
            sizes.push_back(kept.back());
        }
    }
    const at::Tensor rows = at_least_1d(self);
    at::native::resize_output(out, sizes);
    if (out.numel() == 0) {
        return call.done(out);
    }
    if (self.numel() == 0) {
        const std::optional<at::Scalar> value = identity(kind);
        if (!value) {
            return call.host("a maximum of nothing");
        }
        out.fill_(*value);
        return call.done(out);
    }
    kern_tensor_t in, result{};
    result.address = address_of(out);
    result.dtype = to_dtype(out.scalar_type());
    if (!to_kern(rows, &in) || result.dtype == VNPU_DTYPE_NONE) {
        return call.host(std::string("no reduction of ") + c10::toString(self.scalar_type()) +
                         " to " + c10::toString(out.scalar_type()));
    }
    result.ndims = in.ndims;
    for (uint32_t d = 0, from = 0; d < in.ndims;
         ++d) { // out's own strides, whichever dimensions it kept
        const bool is_reduced = self.dim() == 0 || (mask >> d & 1u) != 0;
        result.size[d] = is_reduced ? 1 : in.size[d];
        result.stride[d] = is_reduced ? 0 : out.stride(from);
        from += !is_reduced || keepdim ? 1 : 0;
    }
    KernelLock lock;
    const vnpu_status_t status = kern_reduce(lock.context(), current_stream(), kind, &result, &in,
                                             self.dim() == 0 ? 1u : mask);
    return call.ran(status, lock) ? call.done(out) : Outcome::host;
}

// The computation type of sum, mean and prod: the result's, so that f64 results go to the host.
bool is_narrowing(const at::Tensor &self, const at::Tensor &out) {
    return c10::isFloatingType(self.scalar_type()) && c10::isIntegralType(out.scalar_type(), true);
}

Outcome reduce_dims(OpCall &call, kern_reduction_t kind) { // (self, dim, keepdim, *, dtype, out)
    const at::Tensor self = call.tensor(0), out = call.out();
    if (is_narrowing(self, out)) {
        return call.host("a float reduction with an integer result");
    }
    return reduce(call, kind, self, call.integers(1), call.boolean(2), out);
}

Outcome reduce_plain(OpCall &call, kern_reduction_t kind) { // (self, dim, keepdim, *, out)
    return reduce(call, kind, call.tensor(0), call.integers(1), call.boolean(2), call.out());
}

Outcome reduce_new(OpCall &call, kern_reduction_t kind, at::ScalarType type) {
    const at::Tensor self = call.tensor(0);
    return reduce(call, kind, self, {}, false, at::empty({0}, self.options().dtype(type)));
}

} // namespace

namespace ops {

Outcome softmax_out(OpCall &call) {
    return softmax(call, false);
}
Outcome log_softmax_out(OpCall &call) {
    return softmax(call, true);
}

// _softmax_backward_data.out(grad_output, output, dim, input_dtype, *, grad_input): y * (g - sum(g
// * y))
Outcome softmax_backward_out(OpCall &call) {
    const at::Tensor grad = call.tensor(0), output = call.tensor(1), out = call.out();
    const at::Tensor weighted = at::mul(grad, output);
    const at::Tensor sums = weighted.sum(call.integer(2), /*keepdim=*/true);
    at::native::resize_output(out, grad.sizes());
    out.copy_(at::mul(output, at::sub(grad, sums)));
    return call.done(out);
}

// _log_softmax_backward_data.out(grad_output, output, dim, input_dtype, *, out): g - exp(y) *
// sum(g)
Outcome log_softmax_backward_out(OpCall &call) {
    const at::Tensor grad = call.tensor(0), output = call.tensor(1), out = call.out();
    const at::Tensor sums = grad.sum(call.integer(2), /*keepdim=*/true);
    at::native::resize_output(out, grad.sizes());
    out.copy_(at::sub(grad, at::mul(at::exp(output), sums)));
    return call.done(out);
}

// native_layer_norm(input, normalized_shape, weight, bias, eps) -> (out, mean, rstd)
Outcome native_layer_norm(OpCall &call) {
    const at::Tensor input = call.tensor(0).contiguous();
    const std::vector<int64_t> shape = call.integers(1);
    const auto norm_dims = static_cast<int64_t>(shape.size());
    TORCH_CHECK(norm_dims >= 1 && input.dim() >= norm_dims &&
                    input.sizes().slice(static_cast<size_t>(input.dim() - norm_dims)) ==
                        at::IntArrayRef(shape),
                "Given normalized_shape=", at::IntArrayRef(shape),
                ", expected input with shape [*, ...], but got input of size", input.sizes());
    const at::Tensor weight = call.optional_tensor(2), bias = call.optional_tensor(3);
    if (!(call.arg(4).toDouble() > 0.0)) {
        return call.host("the kernel takes a positive eps only");
    }
    const int64_t rows_dims = input.dim() - norm_dims;
    std::vector<int64_t> stat_sizes = input.sizes().slice(0, static_cast<size_t>(rows_dims)).vec();
    stat_sizes.resize(static_cast<size_t>(input.dim()), 1);
    const at::Tensor out = at::empty(input.sizes(), input.options());
    // Statistics in the type of the weights, f32 when that is not the input's, as on the CPU.
    const bool is_mixed = weight.defined() && weight.scalar_type() != input.scalar_type();
    const at::ScalarType stat_type = is_mixed ? at::kFloat : input.scalar_type();
    const at::Tensor mean = at::empty(stat_sizes, input.options().dtype(stat_type));
    const at::Tensor rstd = at::empty(stat_sizes, input.options().dtype(stat_type));
    if (input.numel() == 0) {
        mean.fill_(std::numeric_limits<double>::quiet_NaN());
        rstd.fill_(std::numeric_limits<double>::quiet_NaN());
        return call.done(out, mean, rstd);
    }
    kern_tensor_t in, result, scale, shift, mean_out, rstd_out;
    bool fits = to_kern(input, &in) && to_kern(out, &result) && to_kern(mean, &mean_out) &&
                to_kern(rstd, &rstd_out);
    fits = fits && (!weight.defined() || to_kern(weight, &scale)) &&
           (!bias.defined() || to_kern(bias, &shift));
    if (!fits) {
        return call.host(std::string("no layer norm of ") + c10::toString(input.scalar_type()));
    }
    KernelLock lock;
    const vnpu_status_t status = kern_layer_norm(
        lock.context(), current_stream(), &result, &in, weight.defined() ? &scale : nullptr,
        bias.defined() ? &shift : nullptr, &mean_out, &rstd_out, static_cast<uint32_t>(norm_dims),
        call.arg(4).toDouble());
    return call.ran(status, lock) ? call.done(out, mean, rstd) : Outcome::host;
}

Outcome sum_out(OpCall &call) {
    return reduce_dims(call, KERN_SUM);
}
Outcome mean_out(OpCall &call) {
    return reduce_dims(call, KERN_MEAN);
}
Outcome amax_out(OpCall &call) {
    return reduce_plain(call, KERN_AMAX);
}
Outcome amin_out(OpCall &call) {
    return reduce_plain(call, KERN_AMIN);
}
Outcome max_all(OpCall &call) {
    return reduce_new(call, KERN_AMAX, call.tensor(0).scalar_type());
}
Outcome min_all(OpCall &call) {
    return reduce_new(call, KERN_AMIN, call.tensor(0).scalar_type());
}

// prod(self, *, dtype)
Outcome prod_all(OpCall &call) {
    const at::ScalarType type = call.tensor(0).scalar_type();
    const at::ScalarType result = !call.arg(1).isNone()             ? call.arg(1).toScalarType()
                                  : c10::isIntegralType(type, true) ? at::kLong
                                                                    : type;
    return reduce_new(call, KERN_PROD, result);
}

// prod.int_out(self, dim, keepdim, *, dtype, out)
Outcome prod_out(OpCall &call) {
    return reduce_dims(call, KERN_PROD);
}

Outcome any_out(OpCall &call) {
    return reduce_plain(call, KERN_ANY);
}
Outcome any_dims_out(OpCall &call) {
    return reduce_plain(call, KERN_ANY);
}
Outcome any_all_out(OpCall &call) {
    return reduce(call, KERN_ANY, call.tensor(0), {}, false, call.out());
}
Outcome all_out(OpCall &call) {
    return reduce_plain(call, KERN_ALL);
}
Outcome all_dims_out(OpCall &call) {
    return reduce_plain(call, KERN_ALL);
}
Outcome all_all_out(OpCall &call) {
    return reduce(call, KERN_ALL, call.tensor(0), {}, false, call.out());
}

// linalg_vector_norm.out(self, ord, dim, keepdim, *, dtype, out)
Outcome vector_norm_out(OpCall &call) {
    const at::Tensor self = call.tensor(0), out = call.out();
    const double order = call.scalar(1).toDouble();
    const std::vector<int64_t> dims = call.integers(2);
    const bool keepdim = call.boolean(3);
    if (order == 2.0) {
        return reduce(call, KERN_NORM2, self, dims, keepdim, out);
    }
    if (self.scalar_type() != at::kFloat && !is_half(self)) {
        return call.host("norms of other orders only of float types of the chip");
    }
    if (order == 0.0) {
        return reduce(call, KERN_SUM, at::ne(self, 0), dims, keepdim, out);
    }
    const at::Tensor sizes = at::abs(self);
    if (order == 1.0) {
        return reduce(call, KERN_SUM, sizes, dims, keepdim, out);
    }
    if (std::isinf(order)) {
        return reduce(call, order > 0 ? KERN_AMAX : KERN_AMIN, sizes, dims, keepdim, out);
    }
    // The sum stays in f32 until its root is taken.
    const at::Tensor powers = at::pow(sizes.to(at::kFloat), order);
    const bool is_wide = out.scalar_type() == at::kFloat;
    const at::Tensor sum = is_wide ? out : at::empty({0}, powers.options());
    const Outcome outcome = reduce(call, KERN_SUM, powers, dims, keepdim, sum);
    if (outcome == Outcome::done) {
        at::Tensor root = out;
        if (!is_wide) {
            at::native::resize_output(out, sum.sizes());
            call.replace_result(out);
        }
        at::pow_out(root, sum, 1.0 / order);
    }
    return outcome;
}

} // namespace ops
} // namespace vnpu
