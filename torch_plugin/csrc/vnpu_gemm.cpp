// Matrix products and attention.
#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/SDPBackend.h>
#include <ATen/native/Resize.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <c10/core/GradMode.h>

#include "torch_plugin/csrc/vnpu_tensor.h"
#include "vnpu_handlers.h"

namespace vnpu {
namespace {

// The kernel writes tiles while it still reads operands: an operand that shares memory with the
// result is copied first.
at::Tensor apart(const at::Tensor &operand, const at::Tensor &out) {
    const bool is_shared = operand.is_alias_of(out) &&
                           at::get_overlap_status(operand, out) != at::MemOverlapStatus::No;
    return is_shared ? operand.clone() : operand;
}

// out = alpha * a @ b + beta * c; c may be undefined. Sizes are checked by the callers' meta
// functions or here by the library.
Outcome gemm(OpCall &call, const at::Tensor &out, const at::Tensor &left, const at::Tensor &right,
             const at::Tensor &added, const at::Scalar &alpha, const at::Scalar &beta) {
    if (out.numel() == 0) {
        return call.done(out);
    }
    const bool has_added = added.defined() && beta.toDouble() != 0.0;
    if (left.size(-1) == 0) { // nothing to sum
        if (has_added) {
            out.copy_(at::mul(added, beta).expand(out.sizes()));
        } else {
            out.zero_();
        }
        return call.done(out);
    }
    const at::Tensor a = apart(left, out), b = apart(right, out);
    at::Tensor c = has_added ? added.expand(out.sizes()) : added;
    if (has_added && !(c.data_ptr() == out.data_ptr() && c.strides() == out.strides())) {
        c = apart(c, out);
    }
    kern_gemm_t gemm{};
    bool fits = to_kern(out, &gemm.out) && to_kern(a, &gemm.a) && to_kern(b, &gemm.b);
    fits = fits && (!has_added || to_kern(c, &gemm.c));
    if (!fits) {
        return call.host(std::string("no matrix product of ") + c10::toString(out.scalar_type()));
    }
    gemm.alpha = alpha.toDouble();
    gemm.beta = has_added ? beta.toDouble() : 0.0;
    KernelLock lock;
    return call.ran(kern_gemm(lock.context(), current_stream(), &gemm), lock) ? call.done(out)
                                                                              : Outcome::host;
}

// Chosen per call: the fused kernel serves what it can and autograd does not need; the composite
// serves the rest.
int64_t choose_attention(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value,
                         const std::optional<at::Tensor> &mask, double dropout, bool is_causal,
                         std::optional<double>, bool) {
    constexpr auto math = static_cast<int64_t>(at::SDPBackend::math);
    const auto &context = at::globalContext();
    const bool needs_gradient =
        c10::GradMode::is_enabled() &&
        (query.requires_grad() || key.requires_grad() || value.requires_grad() ||
         (mask.has_value() && mask->requires_grad()));
    const auto is_float = [](const at::Tensor &t) {
        return t.scalar_type() == at::kFloat && t.dim() == 4;
    };
    const bool fits = dropout == 0.0 && !needs_gradient && is_float(query) && is_float(key) &&
                      is_float(value) && query.size(3) == key.size(3) &&
                      key.size(3) == value.size(3) && query.size(0) == key.size(0) &&
                      key.size(0) == value.size(0) && key.size(1) == value.size(1) &&
                      key.size(1) > 0 && query.size(1) % key.size(1) == 0 && key.size(2) > 0 &&
                      query.numel() > 0;
    const bool mask_fits =
        !mask.has_value() ||
        (!is_causal && (mask->dim() == 2 || mask->dim() == 4) &&
         (mask->scalar_type() == at::kBool || mask->scalar_type() == at::kFloat));
    if (fits && mask_fits && context.userEnabledFlashSDP()) {
        return static_cast<int64_t>(at::SDPBackend::flash_attention);
    }
    return context.userEnabledMathSDP() ? math : static_cast<int64_t>(at::SDPBackend::error);
}

} // namespace

namespace ops {

// mm.out(self, mat2, out), bmm.out alike
Outcome mm_out(OpCall &call) {
    const at::Tensor left = call.tensor(0), right = call.tensor(1), out = call.out();
    at::native::resize_output(out, {left.size(0), right.size(1)});
    return gemm(call, out, left, right, {}, 1, 0);
}

Outcome bmm_out(OpCall &call) {
    const at::Tensor left = call.tensor(0), right = call.tensor(1), out = call.out();
    at::native::resize_output(out, {left.size(0), left.size(1), right.size(2)});
    return gemm(call, out, left, right, {}, 1, 0);
}

// addmm.out(self, mat1, mat2, *, beta, alpha, out)
Outcome addmm_out(OpCall &call) {
    const at::Tensor left = call.tensor(1), right = call.tensor(2), out = call.out();
    at::native::resize_output(out, {left.size(0), right.size(1)});
    return gemm(call, out, left, right, call.tensor(0), call.scalar(4), call.scalar(3));
}

Outcome baddbmm_out(OpCall &call) {
    const at::Tensor left = call.tensor(1), right = call.tensor(2), out = call.out();
    at::native::resize_output(out, {left.size(0), left.size(1), right.size(2)});
    return gemm(call, out, left, right, call.tensor(0), call.scalar(4), call.scalar(3));
}

// addmv.out(self, mat, vec, *, beta, alpha, out): a product with one column.
Outcome addmv_out(OpCall &call) {
    const at::Tensor self = call.tensor(0), matrix = call.tensor(1), vector = call.tensor(2),
                     out = call.out();
    at::native::resize_output(out, {matrix.size(0)});
    const at::Tensor column = self.expand({matrix.size(0)}).unsqueeze(1);
    const Outcome outcome = gemm(call, out.unsqueeze(1), matrix, vector.unsqueeze(1), column,
                                 call.scalar(4), call.scalar(3));
    if (outcome == Outcome::done) {
        call.replace_result(out);
    }
    return outcome;
}

// dot(self, tensor)
Outcome dot(OpCall &call) {
    const at::Tensor a = call.tensor(0), b = call.tensor(1);
    TORCH_CHECK(a.dim() == 1 && b.dim() == 1, "1D tensors expected, but got ", a.dim(), "D and ",
                b.dim(), "D tensors");
    TORCH_CHECK(a.scalar_type() == b.scalar_type(),
                "dot : expected both vectors to have same dtype, but found ", a.scalar_type(),
                " and ", b.scalar_type());
    TORCH_CHECK(a.numel() == b.numel(), "inconsistent tensor size, expected tensor [", a.numel(),
                "] and src [", b.numel(), "] to have the same number of elements, but got ",
                a.numel(), " and ", b.numel(), " elements respectively");
    const at::Tensor out = at::empty({1, 1}, a.options());
    const Outcome outcome = gemm(call, out, a.unsqueeze(0), b.unsqueeze(1), {}, 1, 0);
    if (outcome == Outcome::done) {
        call.replace_result(out.view(at::IntArrayRef{}));
    }
    return outcome;
}

// _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, *,
// attn_mask, scale)
Outcome flash_attention(OpCall &call) {
    const at::Tensor query = call.tensor(0), key = call.tensor(1), value = call.tensor(2);
    if (call.arg(3).toDouble() != 0.0) {
        return call.host("the attention kernel has no dropout");
    }
    const at::Tensor mask = call.optional_tensor(5);
    const double scale = call.arg(6).isNone() ? 1.0 / std::sqrt(static_cast<double>(query.size(3)))
                                              : call.arg(6).toDouble();
    // Sequence before heads in memory, as the CPU does: the transpose that follows in every model
    // is then a view.
    const at::Tensor out =
        at::empty({query.size(0), query.size(2), query.size(1), value.size(3)}, query.options())
            .transpose(1, 2);
    const at::Tensor logsumexp =
        at::empty({query.size(0), query.size(1), query.size(2)}, query.options().dtype(at::kFloat));
    kern_attention_t attention{};
    bool fits = to_kern(out, &attention.out) && to_kern(query, &attention.q) &&
                to_kern(key, &attention.k) && to_kern(value, &attention.v) &&
                to_kern(logsumexp, &attention.logsumexp);
    if (mask.defined()) {
        const at::Tensor bias =
            mask.expand({query.size(0), query.size(1), query.size(2), key.size(2)});
        fits = fits && to_kern(bias, &attention.mask);
    }
    if (!fits) {
        return call.host(std::string("no attention of ") + c10::toString(query.scalar_type()));
    }
    attention.scale = scale;
    attention.is_causal = call.boolean(4);
    KernelLock lock;
    return call.ran(kern_attention(lock.context(), current_stream(), &attention), lock)
               ? call.done(out, logsumexp)
               : Outcome::host;
}

} // namespace ops
} // namespace vnpu

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &vnpu::choose_attention)
} // namespace at::native
