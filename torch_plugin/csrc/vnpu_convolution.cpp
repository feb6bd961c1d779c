// Convolutions: there is no kernel for them yet. Torch has no CPU kernel under these names either,
// so they do the host's part themselves: announced, counted and priced as every host operator.
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

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

} // namespace

namespace ops {

// convolution_overrideable(input, weight, bias, stride, padding, dilation, transposed,
// output_padding, groups)
Outcome convolution(OpCall &call) {
    const at::Tensor device_input = call.tensor(0);
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
