// Operators made of others of the device: torch has no default for them, or one that would go
// another way.
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>

#include "torch_plugin/csrc/vnpu_tensor.h"
#include "vnpu_handlers.h"

namespace vnpu {
namespace {

struct Moments {
    at::Tensor variance, mean;
};

// The tensor in f32 if it is of a narrower float type, else as it is.
at::Tensor widened(const at::Tensor &tensor) {
    return is_half(tensor) ? tensor.to(at::kFloat) : tensor;
}

bool has_moments(const at::Tensor &tensor) {
    return tensor.scalar_type() == at::kFloat || is_half(tensor);
}

// (self, dim, *, correction, keepdim): the mean first, then the squared distances from it; in f32.
Moments moments(OpCall &call) {
    const at::Tensor self = widened(call.tensor(0));
    std::vector<int64_t> dims = call.integers(1);
    if (dims.empty()) {
        for (int64_t d = 0; d < self.dim(); ++d) {
            dims.push_back(d);
        }
    }
    double count = 1;
    for (const int64_t dim : dims) {
        count *= self.dim() != 0 ? static_cast<double>(self.size(dim)) : 1.0;
    }
    const double correction = call.arg(2).isNone() ? 1.0 : call.scalar(2).toDouble();
    const bool keepdim = call.boolean(3);
    const at::Tensor mean = self.mean(dims, /*keepdim=*/true);
    const at::Tensor squares = at::square(at::sub(self, mean)).sum(dims, keepdim);
    const at::Tensor variance = at::mul(squares, 1.0 / std::max(0.0, count - correction));
    return {variance, keepdim ? mean : mean.view(variance.sizes())};
}

// keep[i][j] of a matrix m x n: j - i <= diagonal, or >= it.
bool triangle(OpCall &call, const at::Tensor &keep, int64_t columns, int64_t diagonal,
              bool is_lower) {
    kern_pointwise_t kern{};
    kern.name = is_lower ? "tril" : "triu";
    kern.is_integer = true;
    if (!to_kern(keep, &kern.out)) {
        return false;
    }
    kern.num_scalars = 2;
    kern.scalar_i[0] = columns;
    kern.scalar_i[1] = diagonal;
    const int compare = is_lower ? VNPU_B_LE : VNPU_B_GE;
    const auto binary = [](int func, uint8_t a, uint8_t b) {
        return kern_node_t{KERN_NODE_BINARY, static_cast<uint8_t>(func), {a, b, 0}};
    };
    kern.num_nodes = 4;
    kern.node[0] = binary(VNPU_B_REMAINDER, KERN_INDEX, KERN_SCALAR(0));
    kern.node[1] = binary(VNPU_B_FLOORDIV, KERN_INDEX, KERN_SCALAR(0));
    kern.node[2] = binary(VNPU_B_SUB, KERN_NODE(0), KERN_NODE(1));
    kern.node[3] = binary(compare, KERN_NODE(2), KERN_SCALAR(1));
    KernelLock lock;
    return call.ran(kern_pointwise(lock.context(), current_stream(), &kern), lock);
}

// Where the largest (smallest) element of each row lies, the first of equals, as torch finds it; a
// NaN wins.
//   index = min over the row of (x == best or x is NaN ? position : length)
// Positions pass through f32 with float rows: exact up to 2^24.
struct Extreme {
    at::Tensor value, index; // keepdim
};

std::optional<Extreme> find_extreme(OpCall &call, const at::Tensor &self, int64_t dim,
                                    bool is_max) {
    const int64_t length = self.size(dim);
    if (length > (int64_t{1} << 24) || to_dtype(self.scalar_type()) == VNPU_DTYPE_NONE) {
        (void)call.host("rows of another type, or longer than 2^24");
        return std::nullopt;
    }
    const at::Tensor best =
        is_max ? self.amax(dim, /*keepdim=*/true) : self.amin(dim, /*keepdim=*/true);
    std::vector<int64_t> shape(static_cast<size_t>(self.dim()), 1);
    shape[static_cast<size_t>(dim)] = length;
    const at::Tensor positions =
        at::arange(length, self.options().dtype(at::kInt)).view(shape).expand(self.sizes());
    const at::Tensor candidates = at::empty(self.sizes(), self.options().dtype(at::kInt));
    kern_pointwise_t kern{};
    kern.name = is_max ? "argmax" : "argmin";
    kern.is_integer = !self.is_floating_point();
    kern.num_inputs = 3;
    if (!to_kern(candidates, &kern.out) || !to_kern(self, &kern.input[0]) ||
        !to_kern(best.expand(self.sizes()), &kern.input[1]) ||
        !to_kern(positions, &kern.input[2])) {
        (void)call.host("more dimensions than the kernel library takes");
        return std::nullopt;
    }
    kern.num_scalars = 1;
    kern.scalar_f[0] = static_cast<double>(length);
    kern.scalar_i[0] = length;
    kern.num_nodes = 4;
    const uint8_t x = KERN_INPUT(0);
    kern.node[0] = {KERN_NODE_BINARY, VNPU_B_EQ, {x, KERN_INPUT(1), 0}};
    kern.node[1] = {KERN_NODE_BINARY, VNPU_B_NE, {x, x, 0}};
    kern.node[2] = {KERN_NODE_BINARY, VNPU_B_LOR, {KERN_NODE(0), KERN_NODE(1), 0}};
    kern.node[3] = {KERN_NODE_SELECT, 0, {KERN_NODE(2), KERN_INPUT(2), KERN_SCALAR(0)}};
    {
        KernelLock lock;
        if (!call.ran(kern_pointwise(lock.context(), current_stream(), &kern), lock)) {
            return std::nullopt;
        }
    }
    return Extreme{best, candidates.amin(dim, /*keepdim=*/true)};
}

Outcome arg_extreme(OpCall &call, bool is_max) { // (self, dim, keepdim, *, out)
    const at::Tensor self = call.tensor(0), out = call.out();
    const bool is_flat = call.arg(1).isNone(), keepdim = call.boolean(2);
    const at::Tensor rows = is_flat || self.dim() == 0 ? self.reshape({-1}) : self;
    const int64_t dim = is_flat ? 0 : c10::maybe_wrap_dim(call.integer(1), rows.dim());
    if (rows.numel() == 0) {
        return call.host("the extreme of nothing");
    }
    const std::optional<Extreme> found = find_extreme(call, rows, dim, is_max);
    if (!found) {
        return Outcome::host;
    }
    std::vector<int64_t> sizes;
    for (int64_t d = 0; d < self.dim(); ++d) {
        if (is_flat || d == dim) {
            if (keepdim) {
                sizes.push_back(1);
            }
        } else {
            sizes.push_back(self.size(d));
        }
    }
    at::native::resize_output(out, sizes);
    out.copy_(found->index.view(sizes));
    return call.done(out);
}

Outcome extreme_of_dim(OpCall &call, bool is_max) { // (self, dim, keepdim, *, values, indices)
    const at::Tensor self = call.tensor(0), values = call.tensor(3), indices = call.tensor(4);
    if (self.dim() == 0 || self.numel() == 0) {
        return call.host("no row to look at");
    }
    const int64_t dim = c10::maybe_wrap_dim(call.integer(1), self.dim());
    const std::optional<Extreme> found = find_extreme(call, self, dim, is_max);
    if (!found) {
        return Outcome::host;
    }
    const at::Tensor value = call.boolean(2) ? found->value : found->value.squeeze(dim);
    const at::Tensor index = call.boolean(2) ? found->index : found->index.squeeze(dim);
    at::native::resize_output(values, value.sizes());
    at::native::resize_output(indices, index.sizes());
    values.copy_(value);
    indices.copy_(index);
    return call.done(values, indices);
}

Outcome keep_triangle(OpCall &call, bool is_lower) { // (self, diagonal, *, out)
    const at::Tensor self = call.tensor(0), out = call.out();
    at::native::resize_output(out, self.sizes());
    if (self.numel() == 0) {
        return call.done(out);
    }
    const int64_t rows = self.size(-2), columns = self.size(-1);
    const at::Tensor keep = at::empty({rows, columns}, self.options().dtype(at::kBool));
    if (!triangle(call, keep, columns, call.integer(1), is_lower)) {
        return Outcome::host;
    }
    const at::Tensor zero = at::empty({}, self.options()).zero_();
    out.copy_(at::where(keep, self, zero));
    return call.done(out);
}

// What may be seen, as scaled_dot_product_attention wants it, from a mask of what may not.
at::Tensor visible(const at::Tensor &mask, const c10::IValue &mask_type, int64_t batch) {
    if (!mask.defined()) {
        return mask;
    }
    const at::Tensor keep = mask.scalar_type() == at::kBool ? mask.logical_not() : mask;
    const int64_t kind = mask_type.isNone() ? 2 : mask_type.toInt();
    return kind == 1 ? keep.view({batch, 1, 1, keep.size(-1)}) : keep;
}

struct Attention {
    at::Tensor query, key, value; // [batch, sequence, embed]
    int64_t heads;
    at::Tensor in_weight, in_bias, out_weight, out_bias;
    at::Tensor keep; // undefined: everything
};

at::Tensor split_heads(const at::Tensor &x, int64_t heads) {
    return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

// Queries, keys and values of every head; one product when they come from the same tensor.
std::vector<at::Tensor> project(const Attention &a) {
    if (a.query.is_same(a.key) && a.key.is_same(a.value)) {
        std::vector<at::Tensor> parts = at::linear(a.query, a.in_weight, a.in_bias).chunk(3, -1);
        for (at::Tensor &part : parts) {
            part = part.unflatten(-1, {a.heads, part.size(-1) / a.heads}).transpose(1, 2);
        }
        return parts;
    }
    const std::vector<at::Tensor> weights = a.in_weight.chunk(3), biases = a.in_bias.chunk(3);
    return {split_heads(at::linear(a.query, weights[0], biases[0]), a.heads),
            split_heads(at::linear(a.key, weights[1], biases[1]), a.heads),
            split_heads(at::linear(a.value, weights[2], biases[2]), a.heads)};
}

at::Tensor merge_heads(const at::Tensor &x) {
    return x.transpose(1, 2).flatten(2);
}

at::Tensor attend(const Attention &a) {
    const std::vector<at::Tensor> qkv = project(a);
    const std::optional<at::Tensor> keep =
        a.keep.defined() ? std::optional<at::Tensor>(a.keep) : std::nullopt;
    const at::Tensor mixed = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], keep);
    return at::linear(merge_heads(mixed), a.out_weight, a.out_bias);
}

// The same with the weights of the attention, which the fused kernel does not keep.
std::pair<at::Tensor, at::Tensor> attend_with_weights(const Attention &a) {
    const std::vector<at::Tensor> qkv = project(a);
    const double scale = 1.0 / std::sqrt(static_cast<double>(qkv[0].size(-1)));
    at::Tensor scores = at::matmul(at::mul(qkv[0], scale), qkv[1].transpose(-2, -1));
    if (a.keep.defined()) {
        scores =
            a.keep.scalar_type() == at::kBool
                ? scores.masked_fill(a.keep.logical_not(), -std::numeric_limits<double>::infinity())
                : at::add(scores, a.keep);
    }
    const at::Tensor weights = at::softmax(scores, -1);
    return {at::linear(merge_heads(at::matmul(weights, qkv[2])), a.out_weight, a.out_bias),
            weights};
}

} // namespace

namespace ops {

Outcome var_correction(OpCall &call) {
    const at::ScalarType type = call.tensor(0).scalar_type();
    return has_moments(call.tensor(0)) ? call.done(moments(call).variance.to(type))
                                       : call.host("only float types of the chip");
}

Outcome std_correction(OpCall &call) {
    const at::ScalarType type = call.tensor(0).scalar_type();
    return has_moments(call.tensor(0)) ? call.done(at::sqrt(moments(call).variance).to(type))
                                       : call.host("only float types of the chip");
}

Outcome var_mean_correction(OpCall &call) {
    if (!has_moments(call.tensor(0))) {
        return call.host("only float types of the chip");
    }
    const at::ScalarType type = call.tensor(0).scalar_type();
    const Moments both = moments(call);
    return call.done(both.variance.to(type), both.mean.to(type));
}

Outcome std_mean_correction(OpCall &call) {
    if (!has_moments(call.tensor(0))) {
        return call.host("only float types of the chip");
    }
    const at::ScalarType type = call.tensor(0).scalar_type();
    const Moments both = moments(call);
    return call.done(at::sqrt(both.variance).to(type), both.mean.to(type));
}

Outcome argmax_out(OpCall &call) {
    return arg_extreme(call, true);
}
Outcome argmin_out(OpCall &call) {
    return arg_extreme(call, false);
}
Outcome max_dim_out(OpCall &call) {
    return extreme_of_dim(call, true);
}
Outcome min_dim_out(OpCall &call) {
    return extreme_of_dim(call, false);
}

// clamp.Tensor_out(self, min, max, *, out)
Outcome clamp_tensor_out(OpCall &call) {
    const at::Tensor self = call.tensor(0), low = call.optional_tensor(1),
                     high = call.optional_tensor(2);
    at::Tensor out = call.out();
    const at::Tensor raised = low.defined() ? at::maximum(self, low) : self;
    const at::Tensor result = high.defined() ? at::minimum(raised, high) : raised;
    at::native::resize_output(out, result.sizes());
    out.copy_(result);
    return call.done(out);
}

// mse_loss.out(self, target, reduction, *, out); reduction: 0 none, 1 mean, 2 sum
Outcome mse_loss_out(OpCall &call) {
    const at::Tensor squares = at::square(at::sub(call.tensor(0), call.tensor(1))),
                     out = call.out();
    const int64_t reduction = call.integer(2);
    const at::Tensor loss = reduction == 0   ? squares
                            : reduction == 1 ? squares.mean()
                                             : squares.sum();
    at::native::resize_output(out, loss.sizes());
    out.copy_(loss);
    return call.done(out);
}

Outcome tril_out(OpCall &call) {
    return keep_triangle(call, true);
}
Outcome triu_out(OpCall &call) {
    return keep_triangle(call, false);
}

// native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias,
// output_mask)
//   x^ = (x - mean) rstd, g^ = g weight, dx = rstd (g^ - mean(g^) - x^ mean(g^ x^)), dweight =
//   sum(g x^), dbias = sum(g)
Outcome native_layer_norm_backward(OpCall &call) {
    if (!has_moments(call.tensor(1)) || call.tensor(1).numel() == 0) {
        return call.host("only float types of the chip, and no empty tensor");
    }
    const at::Tensor grad = widened(call.tensor(0)), input = widened(call.tensor(1)),
                     mean = call.tensor(3), rstd = call.tensor(4);
    const at::Tensor weight = call.optional_tensor(5), bias = call.optional_tensor(6);
    const c10::List<bool> wanted = call.arg(7).toBoolList();
    const auto norm_dims = static_cast<int64_t>(call.integers(2).size());
    std::vector<int64_t> inner, outer;
    for (int64_t d = 0; d < input.dim(); ++d) {
        (d < input.dim() - norm_dims ? outer : inner).push_back(d);
    }
    const at::Tensor normal = at::mul(at::sub(input, mean), rstd);
    at::Tensor grad_input, grad_weight, grad_bias;
    if (wanted.get(0)) {
        const at::Tensor scaled = weight.defined() ? at::mul(grad, weight) : grad;
        const at::Tensor slope = at::mul(scaled, normal).mean(inner, /*keepdim=*/true);
        const at::Tensor centred = at::sub(scaled, scaled.mean(inner, /*keepdim=*/true));
        grad_input = at::mul(at::sub(centred, at::mul(normal, slope)), rstd)
                         .to(call.tensor(1).scalar_type());
    }
    const auto over_rows = [&outer](const at::Tensor &x) {
        return outer.empty() ? x.clone() : x.sum(outer);
    };
    if (wanted.get(1) && weight.defined()) {
        grad_weight = over_rows(at::mul(grad, normal)).to(weight.scalar_type());
    }
    if (wanted.get(2) && bias.defined()) {
        grad_bias = over_rows(grad).to(bias.scalar_type());
    }
    return call.done(grad_input, grad_weight, grad_bias);
}

// _native_multi_head_attention(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias,
// proj_weight, proj_bias, mask, need_weights, average_attn_weights, mask_type) -> (out, weights):
// the inference path of nn.MultiheadAttention.
Outcome multi_head_attention(OpCall &call) {
    const at::Tensor query = call.tensor(0);
    Attention a{query,           call.tensor(1), call.tensor(2),
                call.integer(4), call.tensor(5), call.tensor(6),
                call.tensor(7),  call.tensor(8), {}};
    a.keep = visible(call.optional_tensor(9), call.arg(12), query.size(0));
    if (!call.boolean(10)) {
        return call.done(attend(a), at::Tensor());
    }
    auto [out, weights] = attend_with_weights(a);
    return call.done(std::move(out), call.boolean(11) ? weights.mean({1}) : weights);
}

// _transformer_encoder_layer_fwd(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight,
// proj_bias, use_gelu, norm_first, eps, norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2,
// ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask, mask_type): the inference path of
// nn.TransformerEncoderLayer.
Outcome transformer_encoder_layer(OpCall &call) {
    const at::Tensor source = call.tensor(0);
    const bool is_norm_first = call.boolean(8);
    const int64_t embed[] = {call.integer(1)};
    const auto norm = [&](const at::Tensor &x, size_t weight) {
        return at::layer_norm(x, embed, call.tensor(weight), call.tensor(weight + 1),
                              call.arg(9).toDouble());
    };
    const at::Tensor first = is_norm_first ? norm(source, 10) : source;
    Attention a{first,           first,          first,
                call.integer(2), call.tensor(3), call.tensor(4),
                call.tensor(5),  call.tensor(6), {}};
    a.keep = visible(call.optional_tensor(18), call.arg(19), source.size(0));
    at::Tensor x = at::add(source, attend(a));
    x = is_norm_first ? x : norm(x, 10);
    const at::Tensor hidden =
        at::linear(is_norm_first ? norm(x, 12) : x, call.tensor(14), call.tensor(15));
    const at::Tensor active = call.boolean(7) ? at::gelu(hidden) : at::relu(hidden);
    x = at::add(x, at::linear(active, call.tensor(16), call.tensor(17)));
    return call.done(is_norm_first ? x : norm(x, 12));
}

} // namespace ops
} // namespace vnpu
