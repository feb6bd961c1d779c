// Matrix products and attention.
#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/SDPBackend.h>
#include <ATen/native/Resize.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/addcmul.h>
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

// A product whose result type is an argument; the out forms have it as their last one.
Outcome product_of_type(OpCall &call, const at::Tensor &left, const at::Tensor &right,
                        const at::Tensor &added, const c10::IValue &type, const at::Scalar &alpha,
                        const at::Scalar &beta) {
    const at::ScalarType result = type.toScalarType();
    const bool is_batch = left.dim() == 3;
    TORCH_CHECK((left.dim() == 2 || is_batch) && right.dim() == left.dim() &&
                    left.size(-1) == right.size(-2) && (!is_batch || left.size(0) == right.size(0)),
                call.op().schema().name(), ": ", left.sizes(), " by ", right.sizes(),
                ": sizes do not agree");
    TORCH_CHECK(left.scalar_type() == right.scalar_type() &&
                    (result == left.scalar_type() || (result == at::kFloat && is_half(left))),
                call.op().schema().name(),
                ": out_dtype must be the type of the operands, or float32 for "
                "bfloat16 and float16, not ",
                result, " for ", left.scalar_type(), " and ", right.scalar_type());
    std::vector<int64_t> sizes = left.sizes().vec();
    sizes.back() = right.size(-1);
    const bool has_out = call.op().schema().arguments().back().is_out();
    const at::Tensor out = has_out ? call.out() : at::empty(sizes, left.options().dtype(result));
    TORCH_CHECK(out.scalar_type() == result, call.op().schema().name(), ": out is ",
                out.scalar_type(), ", out_dtype ", result);
    at::native::resize_output(out, sizes);
    return gemm(call, out, left, right, added, alpha, beta);
}

bool has_fused_attention(at::ScalarType type) {
    KernelLock lock;
    return kern_has_attention(lock.context(), to_dtype(type));
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
    const auto is_float = [&query](const at::Tensor &t) {
        return (t.scalar_type() == at::kFloat || is_half(t)) && t.dim() == 4 &&
               t.scalar_type() == query.scalar_type();
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
         (mask->scalar_type() == at::kBool || mask->scalar_type() == at::kFloat ||
          mask->scalar_type() == query.scalar_type()));
    if (fits && mask_fits && context.userEnabledFlashSDP() &&
        has_fused_attention(query.scalar_type())) {
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

// What torch has for narrow operands and a wider result: mm.dtype(self, mat2, out_dtype),
// bmm.dtype, addmm.dtype(self, mat1, mat2, out_dtype, *, beta, alpha), baddbmm.dtype, and their out
// forms. The accumulator holds f32, so nothing is rounded.
Outcome mm_dtype(OpCall &call) {
    const at::Tensor left = call.tensor(0), right = call.tensor(1);
    return product_of_type(call, left, right, {}, call.arg(2), 1, 0);
}

Outcome addmm_dtype(OpCall &call) {
    const at::Tensor left = call.tensor(1), right = call.tensor(2);
    return product_of_type(call, left, right, call.tensor(0), call.arg(3), call.scalar(5),
                           call.scalar(4));
}

// _int_mm(self, mat2), _int_mm.out: i8 by i8, exact sums in i32.
Outcome int_mm(OpCall &call) {
    const at::Tensor left = call.tensor(0), right = call.tensor(1);
    TORCH_CHECK(left.dim() == 2 && right.dim() == 2, "_int_mm: two matrices are needed, not ",
                left.sizes(), " and ", right.sizes());
    TORCH_CHECK(left.size(1) == right.size(0), "_int_mm: ", left.sizes(), " by ", right.sizes(),
                ": the inner sizes differ");
    TORCH_CHECK(left.scalar_type() == at::kChar && right.scalar_type() == at::kChar,
                "_int_mm: two int8 matrices are needed, not ", left.scalar_type(), " and ",
                right.scalar_type());
    const bool has_out = call.num_args() == 3;
    const at::Tensor out =
        has_out ? call.out()
                : at::empty({left.size(0), right.size(1)}, left.options().dtype(at::kInt));
    TORCH_CHECK(out.scalar_type() == at::kInt, "_int_mm: the result is int32, not ",
                out.scalar_type());
    at::native::resize_output(out, {left.size(0), right.size(1)});
    return gemm(call, out, left, right, {}, 1, 0);
}

// addbmm(self, batch1, batch2, *, beta, alpha): the batches are the blocks of one long K.
Outcome addbmm(OpCall &call) {
    const at::Tensor left = call.tensor(1), right = call.tensor(2);
    TORCH_CHECK(left.dim() == 3 && right.dim() == 3, "addbmm: batches of matrices are needed, not ",
                left.sizes(), " and ", right.sizes());
    TORCH_CHECK(left.size(0) == right.size(0) && left.size(2) == right.size(1),
                "addbmm: ", left.sizes(), " by ", right.sizes(), ": batch or inner sizes differ");
    const int64_t rows = left.size(1), columns = right.size(2),
                  length = left.size(0) * left.size(2);
    const bool has_out = call.num_args() == 6;
    const at::Tensor out = has_out ? call.out() : at::empty({rows, columns}, left.options());
    at::native::resize_output(out, {rows, columns});
    return gemm(call, out, left.transpose(0, 1).reshape({rows, length}),
                right.reshape({length, columns}), call.tensor(0), call.scalar(4), call.scalar(3));
}

// addr(self, vec1, vec2, *, beta, alpha): no sums, so no matrix unit. Narrow floats in f32, rounded
// once.
Outcome addr(OpCall &call) {
    const at::Tensor self = call.tensor(0), rows = call.tensor(1), columns = call.tensor(2);
    TORCH_CHECK(rows.dim() == 1 && columns.dim() == 1, "addr: two vectors are needed, not ",
                rows.sizes(), " and ", columns.sizes());
    const at::Scalar beta = call.scalar(3), alpha = call.scalar(4);
    const at::ScalarType type = at::promote_types(
        self.scalar_type(), at::promote_types(rows.scalar_type(), columns.scalar_type()));
    if (type == at::kBool || to_dtype(type) == VNPU_DTYPE_NONE) {
        return call.host(std::string("no outer sum of ") + c10::toString(type));
    }
    const at::ScalarType wide = c10::isFloatingType(type) ? at::kFloat : type;
    const at::Tensor left = at::mul(rows.to(wide), alpha).unsqueeze(1), right = columns.to(wide);
    at::Tensor sum;
    if (beta.toDouble() == 0.0) {
        sum = at::mul(left, right); // a NaN of self does not count
    } else {
        const at::Tensor added = self.expand({rows.size(0), columns.size(0)}).to(wide);
        sum = at::addcmul(beta.toDouble() == 1.0 ? added : at::mul(added, beta), left, right);
    }
    if (call.num_args() == 5) {
        return call.done(sum.to(type));
    }
    const at::Tensor out = call.out();
    at::native::resize_output(out, sum.sizes());
    out.copy_(sum);
    return call.done(out);
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
