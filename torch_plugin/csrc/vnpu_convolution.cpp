// Convolutions. Torch has no CPU kernel under these names, so what the kernel library refuses does
// the host's part here: announced, counted and priced as every host operator.
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

// What a convolution is made of, without the direction in which it is computed.
struct Geometry {
    std::vector<int64_t> stride, padding, dilation;
    int64_t groups;
};

// [B, O, ...] of input [B, C, ...] and weight [O, C / groups, ...].
std::vector<int64_t> forward_sizes(const at::Tensor &input, const at::Tensor &weight,
                                   const Geometry &g) {
    std::vector<int64_t> sizes = {input.size(0), weight.size(0)};
    for (size_t d = 0; d < g.stride.size(); ++d) {
        const auto dim = static_cast<int64_t>(d) + 2;
        const int64_t reach = g.dilation[d] * (weight.size(dim) - 1) + 1;
        sizes.push_back((input.size(dim) + 2 * g.padding[d] - reach) / g.stride[d] + 1);
    }
    return sizes;
}

// [B, C, ...] of input [B, O, ...] and weight [O, C / groups, ...] of a transposed convolution.
std::vector<int64_t> transposed_sizes(const at::Tensor &input, const at::Tensor &weight,
                                      const Geometry &g, const std::vector<int64_t> &more) {
    std::vector<int64_t> sizes = {input.size(0), weight.size(1) * g.groups};
    for (size_t d = 0; d < g.stride.size(); ++d) {
        const auto dim = static_cast<int64_t>(d) + 2;
        sizes.push_back((input.size(dim) - 1) * g.stride[d] - 2 * g.padding[d] +
                        g.dilation[d] * (weight.size(dim) - 1) + more[d] + 1);
    }
    return sizes;
}

at::Tensor empty_like_image(const at::Tensor &image, const std::vector<int64_t> &sizes) {
    const bool is_last = image.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
    const auto format = is_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    return at::empty(sizes, image.options().memory_format(format));
}

bool refuse_type(OpCall &call, const at::Tensor &tensor) {
    (void)call.host(std::string("no convolution of ") + c10::toString(tensor.scalar_type()));
    return false;
}

// out = convolution of in; the numbers of `conv` but its tensors are set.
bool convolve(OpCall &call, kern_conv_t conv, const at::Tensor &out, const at::Tensor &in,
              const at::Tensor &weight, const at::Tensor &bias) {
    bool fits = to_kern(out, &conv.out) && to_kern(in, &conv.in) && to_kern(weight, &conv.weight);
    fits = fits && (!bias.defined() || to_kern(bias, &conv.bias));
    if (!fits) {
        return refuse_type(call, in);
    }
    KernelLock lock;
    return call.ran(kern_conv(lock.context(), current_stream(), &conv), lock);
}

bool forward(OpCall &call, const at::Tensor &out, const at::Tensor &in, const at::Tensor &weight,
             const at::Tensor &bias, const Geometry &g) {
    kern_conv_t conv{};
    for (size_t d = 0; d < 2; ++d) {
        conv.stride[d] = static_cast<uint32_t>(g.stride[d]);
        conv.pad[d] = static_cast<uint32_t>(g.padding[d]);
        conv.dilation[d] = static_cast<uint32_t>(g.dilation[d]);
    }
    conv.groups = static_cast<uint32_t>(g.groups);
    return convolve(call, conv, out, in, weight, bias);
}

// One dimension of a convolution's gradient with respect to its input: of the results from `start`
// on, `stride` apart, each is a sum over `taps` weights, from `tap` on, `stride` apart, in reverse,
// against neighbouring elements of the gradient from `skip` on, with `pad` zeros before them.
struct Phase {
    int64_t start, taps, tap, pad, skip;
};

std::vector<Phase> phases_of(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                             int64_t dilation) {
    std::vector<Phase> phases;
    for (int64_t r = 0; r < stride; ++r) {
        const int64_t first = padding > r ? (padding - r + stride - 1) / stride : 0;
        const int64_t start = stride * first + r - padding;
        const int64_t taps = r < kernel ? (kernel - r + stride - 1) / stride : 0;
        if (start >= size) {
            continue;
        }
        const int64_t pad = (taps - 1) * dilation - first;
        phases.push_back({start, taps, r, std::max<int64_t>(pad, 0), std::max<int64_t>(-pad, 0)});
    }
    return phases;
}

at::Tensor every(const at::Tensor &tensor, int64_t dim, int64_t start, int64_t step) {
    return tensor.slice(dim, start, std::nullopt, step);
}

// The results of one pair of phases, one group (or, with one channel each, all of them).
bool phase_gradient(OpCall &call, const at::Tensor &out, const at::Tensor &grad,
                    const at::Tensor &weight, const Phase phase[2], const Geometry &g,
                    int64_t groups) {
    kern_conv_t conv{};
    at::Tensor part = out, from = grad, taps = weight;
    for (size_t d = 0; d < 2; ++d) {
        const auto dim = static_cast<int64_t>(d) + 2;
        if (phase[d].taps == 0 || phase[d].skip >= grad.size(dim)) {
            return true; // nothing reaches these results: they are zero already
        }
        part = every(part, dim, phase[d].start, g.stride[d]);
        from = every(from, dim, phase[d].skip, 1);
        taps = every(taps, dim, phase[d].tap, g.stride[d]);
        conv.stride[d] = 1;
        conv.pad[d] = static_cast<uint32_t>(phase[d].pad);
        conv.dilation[d] = static_cast<uint32_t>(g.dilation[d]);
    }
    conv.groups = static_cast<uint32_t>(groups);
    conv.is_flipped = true;
    return convolve(call, conv, part, from, taps, {});
}

// out [B, C, H, W] = gradient of a convolution's input, from that of its result and weights
// [O, C / groups, ...]; also what a transposed convolution computes.
bool input_gradient(OpCall &call, const at::Tensor &out, const at::Tensor &grad,
                    const at::Tensor &weight, const Geometry &g) {
    std::vector<Phase> phases[2];
    bool has_gaps = false;
    for (size_t d = 0; d < 2; ++d) {
        const auto dim = static_cast<int64_t>(d) + 2;
        if (g.stride[d] > 1 && g.dilation[d] > 1) {
            (void)call.host("the gradient of a convolution with stride and dilation");
            return false;
        }
        phases[d] =
            phases_of(out.size(dim), weight.size(dim), g.stride[d], g.padding[d], g.dilation[d]);
        for (const Phase &phase : phases[d]) {
            has_gaps = has_gaps || phase.taps == 0 || phase.skip >= grad.size(dim);
        }
    }
    if (has_gaps) {
        out.zero_();
    }
    // Weights of a group change places: results are channels. With one channel a group nothing
    // does.
    const bool is_depthwise = weight.size(1) == 1 && weight.size(0) == g.groups;
    const int64_t launches = is_depthwise ? 1 : g.groups;
    for (int64_t group = 0; group < launches; ++group) {
        const at::Tensor to =
            is_depthwise ? out : out.chunk(launches, 1)[static_cast<size_t>(group)];
        const at::Tensor from =
            is_depthwise ? grad : grad.chunk(launches, 1)[static_cast<size_t>(group)];
        const at::Tensor filters =
            is_depthwise ? weight
                         : weight.chunk(launches, 0)[static_cast<size_t>(group)].transpose(0, 1);
        for (const Phase &rows : phases[0]) {
            for (const Phase &cols : phases[1]) {
                const Phase both[2] = {rows, cols};
                if (!phase_gradient(call, to, from, filters, both, g,
                                    is_depthwise ? g.groups : 1)) {
                    return false;
                }
            }
        }
    }
    return true;
}

// out [O, C / groups, ...] = gradient of the weights of a convolution of `in` with gradient `grad`.
bool weight_gradient(OpCall &call, const at::Tensor &out, const at::Tensor &in,
                     const at::Tensor &grad, const Geometry &g) {
    kern_conv_weight_t kern{};
    if (!to_kern(out, &kern.out) || !to_kern(in, &kern.in) || !to_kern(grad, &kern.grad)) {
        return refuse_type(call, in);
    }
    for (size_t d = 0; d < 2; ++d) {
        kern.stride[d] = static_cast<uint32_t>(g.stride[d]);
        kern.pad[d] = static_cast<uint32_t>(g.padding[d]);
        kern.dilation[d] = static_cast<uint32_t>(g.dilation[d]);
    }
    kern.groups = static_cast<uint32_t>(g.groups);
    KernelLock lock;
    return call.ran(kern_conv_weight(lock.context(), current_stream(), &kern), lock);
}

bool is_planar(OpCall &call, const at::Tensor &input) {
    if (input.dim() == 4) {
        return true;
    }
    (void)call.host("a convolution in three dimensions");
    return false;
}

// convolution_overrideable on the device; undefined, with the reason in the call, where it is
// refused.
at::Tensor on_device(OpCall &call) {
    const at::Tensor input = call.tensor(0), weight = call.tensor(1),
                     bias = call.optional_tensor(2);
    const Geometry g = {call.integers(3), call.integers(4), call.integers(5), call.integer(8)};
    if (!is_planar(call, input)) {
        return {};
    }
    if (!call.boolean(6)) {
        const at::Tensor out = empty_like_image(input, forward_sizes(input, weight, g));
        return forward(call, out, input, weight, bias, g) ? out : at::Tensor();
    }
    const at::Tensor out =
        empty_like_image(input, transposed_sizes(input, weight, g, call.integers(7)));
    if (out.numel() != 0 && !input_gradient(call, out, input, weight, g)) {
        return {};
    }
    if (bias.defined()) {
        out.add_(bias.view({1, -1, 1, 1}));
    }
    return out;
}

struct Gradients {
    at::Tensor input, weight, bias;
};

// convolution_backward_overrideable on the device; nullopt, with the reason in the call: refused.
std::optional<Gradients> backward_on_device(OpCall &call) {
    const at::Tensor grad = call.tensor(0), input = call.tensor(1), weight = call.tensor(2);
    const Geometry g = {call.integers(3), call.integers(4), call.integers(5), call.integer(8)};
    const c10::List<bool> mask = call.arg(9).toBoolList();
    const bool is_transposed = call.boolean(6);
    Gradients result;
    if (!is_planar(call, input) || grad.numel() == 0 || input.numel() == 0) {
        return std::nullopt;
    }
    if (mask.get(0)) { // the gradient of a transposed convolution is a convolution
        result.input = empty_like_image(input, input.sizes().vec());
        const bool ran = is_transposed ? forward(call, result.input, grad, weight, {}, g)
                                       : input_gradient(call, result.input, grad, weight, g);
        if (!ran) {
            return std::nullopt;
        }
    }
    if (mask.get(1)) {
        result.weight = at::empty(weight.sizes(), weight.options());
        const bool ran = is_transposed ? weight_gradient(call, result.weight, grad, input, g)
                                       : weight_gradient(call, result.weight, input, grad, g);
        if (!ran) {
            return std::nullopt;
        }
    }
    if (mask.get(2)) {
        result.bias = grad.sum(at::IntArrayRef({0, 2, 3}));
    }
    return result;
}

} // namespace

namespace ops {

// convolution_overrideable(input, weight, bias, stride, padding, dilation, transposed,
// output_padding, groups)
Outcome convolution(OpCall &call) {
    const at::Tensor device_input = call.tensor(0);
    const at::Tensor result = on_device(call);
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
    if (std::optional<Gradients> result = backward_on_device(call)) {
        return call.done(result->input, result->weight, result->bias);
    }
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
