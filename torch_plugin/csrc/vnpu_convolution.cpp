// Convolutions. Torch has no CPU kernel under these names, so what the kernel library refuses does the
// host's part here: announced, counted and priced as every host operator.
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>

#include "torch_plugin/csrc/vnpu_tensor.h"
#include "vnpu_handlers.h"

namespace vnpu {
namespace {

// Multiply-adds of a convolution, times two: every weight meets every position of its channel's
// output (transposed: input).
uint64_t operations(const at::Tensor &weight, const at::Tensor &positions, int64_t channels) {
    const int64_t per_channel = channels != 0 ? positions.numel() / channels : 0;
    return 2u * static_cast<uint64_t>(weight.numel()) * static_cast<uint64_t>(per_channel);
}

at::Tensor to_host(const at::Tensor &tensor) {
    return tensor.defined() ? tensor.to(at::kCPU) : tensor;
}

at::Tensor to_device(const at::Tensor &tensor, const at::Tensor &like) {
    return tensor.defined() ? tensor.to(like.device()) : tensor;
}

uint64_t bytes_of(std::initializer_list<at::Tensor> tensors) {
    uint64_t bytes = 0;
    for (const at::Tensor &tensor : tensors) {
        bytes += tensor.defined() ? tensor.nbytes() : 0;
    }
    return bytes;
}

// Sizes of the result, [B, O, ...]; of input [B, C, ...] and weight [O, C / groups, ...].
std::vector<int64_t> result_sizes(const at::Tensor &input, const at::Tensor &weight,
                                  const std::vector<int64_t> &stride,
                                  const std::vector<int64_t> &padding,
                                  const std::vector<int64_t> &dilation) {
    std::vector<int64_t> sizes = {input.size(0), weight.size(0)};
    for (size_t d = 0; d < stride.size(); ++d) {
        const auto dim = static_cast<int64_t>(d) + 2;
        const int64_t reach = dilation[d] * (weight.size(dim) - 1) + 1;
        sizes.push_back((input.size(dim) + 2 * padding[d] - reach) / stride[d] + 1);
    }
    return sizes;
}

// The result of the kernel library; undefined, with the reason in the call, where it refuses.
at::Tensor on_device(OpCall &call, const at::Tensor &input, const at::Tensor &weight,
                     const at::Tensor &bias) {
    const std::vector<int64_t> stride = call.integers(3), padding = call.integers(4),
                               dilation = call.integers(5);
    kern_conv_t conv{};
    if (input.dim() != 4 || call.boolean(6)) {
        (void)call.host(call.boolean(6) ? "a transposed convolution" : "a convolution in three dimensions");
        return {};
    }
    const bool is_last = input.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
    const auto format = is_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    const at::Tensor out = at::empty(result_sizes(input, weight, stride, padding, dilation),
                                     input.options().memory_format(format));
    bool fits = to_kern(out, &conv.out) && to_kern(input, &conv.in) && to_kern(weight, &conv.weight);
    fits = fits && (!bias.defined() || to_kern(bias, &conv.bias));
    if (!fits) {
        (void)call.host(std::string("no convolution of ") + c10::toString(input.scalar_type()));
        return {};
    }
    for (size_t d = 0; d < 2; ++d) {
        conv.stride[d] = static_cast<uint32_t>(stride[d]);
        conv.pad[d] = static_cast<uint32_t>(padding[d]);
        conv.dilation[d] = static_cast<uint32_t>(dilation[d]);
    }
    conv.groups = static_cast<uint32_t>(call.integer(8));
    KernelLock lock;
    return call.ran(kern_conv(lock.context(), current_stream(), &conv), lock) ? out : at::Tensor();
}

} // namespace

namespace ops {

// convolution_overrideable(input, weight, bias, stride, padding, dilation, transposed,
// output_padding, groups)
Outcome convolution(OpCall &call) {
    const at::Tensor device_input = call.tensor(0);
    const at::Tensor result =
        on_device(call, device_input, call.tensor(1), call.optional_tensor(2));
    if (result.defined()) {
        return call.done(result);
    }
    call.goes_to_host();
    const at::Tensor input = to_host(device_input), weight = to_host(call.tensor(1)),
                     bias = to_host(call.optional_tensor(2));
    const bool is_transposed = call.boolean(6);
    const at::Tensor out =
        at::convolution(input, weight, bias, call.integers(3), call.integers(4), call.integers(5),
                        is_transposed, call.integers(7), call.integer(8));
    const at::Tensor &positions = is_transposed ? input : out;
    OpScope::add_host_time(charge_host(bytes_of({input, weight, bias, out}),
                                       operations(weight, positions, positions.size(1))));
    return call.done(to_device(out, device_input));
}

// convolution_backward_overrideable(grad_output, input, weight, stride, padding, dilation,
// transposed, output_padding, groups, output_mask) -> (grad_input, grad_weight, grad_bias)
Outcome convolution_backward(OpCall &call) {
    const at::Tensor device_grad = call.tensor(0);
    call.goes_to_host();
    const at::Tensor grad = to_host(device_grad), input = to_host(call.tensor(1)),
                     weight = to_host(call.tensor(2));
    const c10::List<bool> list = call.arg(9).toBoolList();
    const std::array<bool, 3> mask = {list.get(0), list.get(1), list.get(2)};
    const int64_t bias_size[] = {grad.size(1)};
    const bool is_transposed = call.boolean(6);
    const auto [grad_input, grad_weight, grad_bias] = at::convolution_backward(
        grad, input, weight, at::OptionalIntArrayRef(bias_size), call.integers(3), call.integers(4),
        call.integers(5), is_transposed, call.integers(7), call.integer(8), mask);
    const at::Tensor &positions = is_transposed ? input : grad;
    const uint64_t once = operations(weight, positions, positions.size(1));
    const uint64_t passes = (mask[0] ? 1u : 0u) + (mask[1] ? 1u : 0u);
    OpScope::add_host_time(charge_host(
        bytes_of({grad, input, weight, grad_input, grad_weight, grad_bias}), once * passes));
    return call.done(to_device(grad_input, device_grad), to_device(grad_weight, device_grad),
                     to_device(grad_bias, device_grad));
}

} // namespace ops
} // namespace vnpu
