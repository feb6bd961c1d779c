// Batch norm: the channels' scales and shifts, and their application, in one launch.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/var_mean.h>

#include "torch_plugin/csrc/vnpu_tensor.h"
#include "vnpu_handlers.h"

namespace vnpu {
namespace {

// A value for each channel, over the shape of `like`.
at::Tensor over_channels(const at::Tensor &channels, const at::Tensor &like) {
    std::vector<int64_t> shape(static_cast<size_t>(like.dim()), 1);
    shape[1] = channels.numel();
    return channels.view(shape).expand(like.sizes());
}

// out = in * scale + shift with scale = weight / sqrt(variance + eps), shift = bias - mean * scale.
// The nodes of scale and shift are broadcast values: the kernel computes them once a channel.
bool normalize(OpCall &call, const at::Tensor &out, const at::Tensor &in, const at::Tensor &mean,
               const at::Tensor &variance, const at::Tensor &weight, const at::Tensor &bias,
               double eps) {
    kern_pointwise_t kern{};
    kern.name = "batch_norm";
    bool fits = to_kern(out, &kern.out) && to_kern(in, &kern.input[0]);
    const auto input = [&](const at::Tensor &channels) {
        const uint32_t at = ++kern.num_inputs;
        fits = fits && to_kern(over_channels(channels, in), &kern.input[at]);
        return KERN_INPUT(at);
    };
    const auto node = [&](kern_node_kind_t kind, int func, uint8_t a, uint8_t b) {
        kern.node[kern.num_nodes] = {kind, static_cast<uint8_t>(func), {a, b, 0}};
        return KERN_NODE(kern.num_nodes++);
    };
    const uint8_t at_mean = input(mean), at_variance = input(variance);
    kern.num_scalars = 1;
    kern.scalar_f[0] = eps;
    uint8_t scale = node(KERN_NODE_BINARY, VNPU_B_ADD, at_variance, KERN_SCALAR(0));
    scale = node(KERN_NODE_UNARY, VNPU_U_RSQRT, scale, 0);
    if (weight.defined()) {
        scale = node(KERN_NODE_BINARY, VNPU_B_MUL, scale, input(weight));
    }
    uint8_t shift = node(KERN_NODE_BINARY, VNPU_B_MUL, at_mean, scale);
    shift = bias.defined() ? node(KERN_NODE_BINARY, VNPU_B_SUB, input(bias), shift)
                           : node(KERN_NODE_UNARY, VNPU_U_NEG, shift, 0);
    const uint8_t product = node(KERN_NODE_BINARY, VNPU_B_MUL, KERN_INPUT(0), scale);
    node(KERN_NODE_BINARY, VNPU_B_ADD, product, shift);
    kern.num_inputs++;
    if (!fits) {
        (void)call.host(std::string("no batch norm of ") + c10::toString(in.scalar_type()));
        return false;
    }
    KernelLock lock;
    return call.ran(kern_pointwise(lock.context(), current_stream(), &kern), lock);
}

void update(const at::Tensor &running, const at::Tensor &batch, double factor, double momentum) {
    if (running.defined()) {
        running.mul_(1.0 - momentum).add_(batch, momentum * factor);
    }
}

} // namespace

namespace ops {

// native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
//   -> (out, mean, 1 / standard deviation); the last two are empty outside training, as on the CPU
Outcome native_batch_norm(OpCall &call) {
    const at::Tensor input = call.tensor(0), weight = call.optional_tensor(1),
                     bias = call.optional_tensor(2), running_mean = call.optional_tensor(3),
                     running_var = call.optional_tensor(4);
    const bool is_training = call.boolean(5);
    const double momentum = call.arg(6).toDouble(), eps = call.arg(7).toDouble();
    if (input.dim() < 2 || input.dim() > 5 || input.numel() == 0 || !input.is_floating_point()) {
        return call.host(
            "a batch norm of nothing, of integers, or of another number of dimensions");
    }
    const at::Tensor out = at::empty_like(input, input.suggest_memory_format());
    const auto options = input.options().dtype(at::kFloat);
    if (!is_training) {
        return normalize(call, out, input, running_mean, running_var, weight, bias, eps)
                   ? call.done(out, at::empty({0}, options), at::empty({0}, options))
                   : Outcome::host;
    }
    std::vector<int64_t> dims = {0};
    for (int64_t d = 2; d < input.dim(); ++d) {
        dims.push_back(d);
    }
    const auto [variance, mean] = at::var_mean(input.to(at::kFloat), dims, /*correction=*/0);
    if (!normalize(call, out, input, mean, variance, weight, bias, eps)) {
        return Outcome::host;
    }
    const auto count = static_cast<double>(input.numel() / input.size(1));
    update(running_mean, mean, 1.0, momentum);
    update(running_var, variance, count / std::max(count - 1.0, 1.0), momentum);
    return call.done(out, mean, at::rsqrt(variance.add(eps)));
}

} // namespace ops
} // namespace vnpu
