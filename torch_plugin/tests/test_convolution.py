"""Convolutions, pooling and batch norm against the CPU: shapes, layouts, torch's own samples, a network."""

import sys
import types
import unittest

import pytest
import torch
from conftest import DEVICE, compare
from torch import nn
from torch.nn import functional as F

CLOSE = {"atol": 1e-4, "rtol": 1e-4}


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize(
    "size,weight,options",
    [
        ((2, 3, 8, 9), (5, 3, 3, 3), {"padding": 1}),
        ((1, 4, 7, 7), (6, 4, 1, 1), {}),
        ((1, 4, 9, 9), (6, 4, 1, 1), {"stride": 2}),
        ((1, 3, 30, 29), (8, 3, 7, 7), {"stride": 2, "padding": 3}),
        ((2, 4, 17, 13), (4, 2, 3, 2), {"stride": (1, 2), "padding": (2, 1), "dilation": (3, 2), "groups": 2}),
        ((2, 33, 12, 12), (33, 1, 3, 3), {"padding": 1, "groups": 33}),
        ((2, 6, 6, 6), (12, 1, 3, 3), {"padding": "same", "groups": 6}),
        ((3, 6, 6), (4, 3, 2, 2), {}),
    ],
)
def test_convolution_2d(size, weight, options, is_last):
    x, w, b = randn(*size), randn(*weight, seed=1), randn(weight[0], seed=2)
    if is_last and x.dim() == 4:
        x, w = x.to(memory_format=torch.channels_last), w.to(memory_format=torch.channels_last)
    compare(lambda i, k, c: F.conv2d(i, k, c, **options), x, w, b, **CLOSE)
    compare(lambda i, k: F.conv2d(i, k, **options), x, w, **CLOSE)


def test_convolution_1d():
    x, w, b = randn(2, 6, 50), randn(4, 3, 5, seed=1), randn(4, seed=2)
    compare(lambda i, k, c: F.conv1d(i, k, c, stride=2, padding=3, dilation=2, groups=2), x, w, b, **CLOSE)
    compare(lambda i, k: F.conv1d(i, k), x[:, :3], w, **CLOSE)
    compare(lambda i, k: F.conv1d(i.transpose(1, 2), k), randn(2, 30, 3), w, **CLOSE)


def test_convolution_keeps_the_memory_format():
    x, w = randn(2, 3, 8, 8).to(DEVICE), randn(5, 3, 3, 3).to(DEVICE)
    assert F.conv2d(x, w).is_contiguous()
    last = F.conv2d(x.to(memory_format=torch.channels_last), w)
    assert last.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_convolution_of_narrow_types(dtype):
    x, w = randn(2, 8, 10, 10).to(dtype), randn(6, 8, 3, 3, seed=1).to(dtype)
    got = F.conv2d(x.to(DEVICE), w.to(DEVICE), padding=1)
    assert got.dtype == dtype
    want = F.conv2d(x.float(), w.float(), padding=1)
    torch.testing.assert_close(got.cpu().float(), want, atol=0.1, rtol=2e-2)


def test_convolutions_that_stay_on_the_host_are_named():
    with pytest.raises(NotImplementedError, match="convolution in three dimensions"):
        F.conv3d(randn(1, 2, 4, 4, 4).to(DEVICE), randn(3, 2, 2, 2, 2).to(DEVICE))
    with pytest.raises(NotImplementedError, match="stride and dilation"):
        F.conv_transpose2d(randn(1, 2, 4, 4).to(DEVICE), randn(2, 3, 2, 2).to(DEVICE), stride=2, dilation=2)
    with pytest.raises(NotImplementedError, match="pad 400 x 1"):
        F.conv2d(randn(1, 2, 4, 4).to(DEVICE), randn(3, 2, 2, 2).to(DEVICE), padding=(400, 1))


@pytest.mark.host
def test_host_convolutions_give_the_same():
    compare(lambda i, k: F.conv3d(i, k), randn(1, 2, 4, 4, 4), randn(3, 2, 2, 2, 2), **CLOSE)
    compare(lambda i, k: F.conv_transpose2d(i, k, stride=2, dilation=2), randn(1, 2, 4, 4), randn(2, 3, 2, 2), **CLOSE)


@pytest.mark.parametrize(
    "size,weight,options",
    [
        ((2, 3, 8, 9), (5, 3, 3, 3), {"padding": 1}),
        ((1, 4, 7, 7), (6, 4, 1, 1), {}),
        ((1, 4, 9, 9), (6, 4, 1, 1), {"stride": 2}),  # results that nothing reaches
        ((2, 3, 20, 21), (8, 3, 7, 7), {"stride": 2, "padding": 3}),
        ((2, 4, 15, 14), (6, 2, 3, 2), {"stride": (1, 3), "padding": (2, 0), "dilation": (2, 1), "groups": 2}),
        ((2, 5, 9, 9), (5, 1, 3, 3), {"padding": 1, "stride": 2, "groups": 5}),
        ((1, 2, 6, 6), (3, 2, 2, 2), {"padding": 4}),  # more border than kernel
        ((3, 2, 5, 5), (4, 2, 5, 5), {}),
    ],
)
def test_gradients(size, weight, options):
    def gradients(x, w, b):
        x, w, b = (t.detach().requires_grad_() for t in (x, w, b))
        F.conv2d(x, w, b, **options).square().sum().backward()
        return x.grad, w.grad, b.grad

    x, w, b = randn(*size), randn(*weight, seed=1), randn(weight[0], seed=2)
    compare(gradients, x, w, b, atol=1e-3, rtol=1e-4)
    compare(gradients, x.to(memory_format=torch.channels_last), w, b, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize(
    "size,weight,options",
    [
        ((2, 3, 6, 7), (3, 5, 3, 3), {}),
        ((2, 3, 6, 7), (3, 5, 4, 4), {"stride": 2, "padding": 1}),
        ((1, 4, 5, 5), (4, 3, 3, 2), {"stride": (3, 2), "output_padding": (1, 0), "groups": 2}),
        ((1, 4, 5, 5), (4, 1, 3, 3), {"padding": 2, "dilation": 2, "groups": 4}),
        ((1, 2, 5, 5), (2, 3, 2, 2), {"stride": 3}),
    ],
)
def test_transposed_convolution(size, weight, options):
    x, w = randn(*size), randn(*weight, seed=1)
    b = randn(weight[1] * options.get("groups", 1), seed=2)
    compare(lambda i, k, c: F.conv_transpose2d(i, k, c, **options), x, w, b, **CLOSE)

    def gradients(x, w, b):
        x, w, b = (t.detach().requires_grad_() for t in (x, w, b))
        F.conv_transpose2d(x, w, b, **options).square().sum().backward()
        return x.grad, w.grad, b.grad

    compare(gradients, x, w, b, atol=1e-3, rtol=1e-4)


def test_gradients_in_one_dimension():
    def gradients(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        F.conv1d(x, w, stride=2, padding=2).square().sum().backward()
        return x.grad, w.grad

    compare(gradients, randn(2, 4, 30), randn(6, 4, 5, seed=1), atol=1e-3, rtol=1e-4)
    compare(lambda t, k: F.conv_transpose1d(t, k, stride=2), randn(2, 4, 9), randn(4, 3, 5, seed=1), **CLOSE)


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize(
    "size,options",
    [
        ((2, 5, 12, 13), {"kernel_size": 3, "stride": 2, "padding": 1}),
        ((2, 5, 8, 8), {"kernel_size": 2}),
        ((1, 3, 9, 7), {"kernel_size": (3, 2), "stride": (1, 3), "padding": (1, 0)}),
        ((1, 3, 10, 10), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
        ((3, 11, 11), {"kernel_size": 3, "stride": 3}),
    ],
)
def test_pooling(size, options, is_last):
    x = randn(*size)
    if is_last and x.dim() == 4:
        x = x.to(memory_format=torch.channels_last)
    compare(lambda t: F.max_pool2d(t, **options), x)
    compare(lambda t: F.max_pool2d(t, return_indices=True, **options), x)
    compare(lambda t: F.avg_pool2d(t, **options), x)
    compare(lambda t: F.avg_pool2d(t, count_include_pad=False, **options), x)
    compare(lambda t: F.avg_pool2d(t, divisor_override=7, **options), x)


def test_pooling_in_one_dimension_and_adaptive():
    x = randn(2, 3, 24)
    compare(lambda t: F.max_pool1d(t, 3, 2, 1), x)
    compare(lambda t: F.avg_pool1d(t, 4), x)
    image = randn(2, 5, 12, 18)
    compare(lambda t: F.adaptive_avg_pool2d(t, 1), image)
    compare(lambda t: F.adaptive_avg_pool2d(t, (4, 6)), image)
    compare(lambda t: F.adaptive_avg_pool2d(t, (2, None)), randn(1, 2, 40, 3))
    compare(lambda t: F.avg_pool2d(t, 20), randn(1, 2, 40, 40))  # more positions than one kernel has
    compare(lambda t: F.max_pool2d(t, 3, dilation=2), image)


def test_maxima_have_no_indices_without_a_gradient():
    x = randn(1, 2, 8, 8).to(DEVICE)
    import torch_vnpu

    with torch_vnpu.profile() as p:
        F.max_pool2d(x, 2)
    assert [op["op"] for op in p.report["coverage"]["ops"]] == ["aten::max_pool2d"]
    grown = x.clone().requires_grad_()
    assert F.max_pool2d(grown, 2).grad_fn is not None


@pytest.mark.parametrize("shape", [(4, 7), (4, 7, 9), (3, 5, 6, 8), (2, 3, 4, 5, 6)])
def test_batch_norm(shape):
    x, channels = randn(*shape) * 3 + 1, shape[1]
    mean, var = randn(channels, seed=1), randn(channels, seed=2).abs() + 0.1
    weight, bias = randn(channels, seed=3), randn(channels, seed=4)
    compare(lambda t, m, v, w, b: F.batch_norm(t, m, v, w, b), x, mean, var, weight, bias, **CLOSE)
    compare(lambda t, m, v: F.batch_norm(t, m, v), x, mean, var, **CLOSE)
    compare(lambda t, m, v, w: F.batch_norm(t, m, v, w, eps=0.1), x, mean, var, weight, **CLOSE)

    def train(t, m, v, w, b):
        m, v = m.clone(), v.clone()
        return F.batch_norm(t, m, v, w, b, training=True, momentum=0.3), m, v

    compare(train, x, mean, var, weight, bias, **CLOSE)
    compare(lambda t, w, b: F.batch_norm(t, None, None, w, b, training=True), x, weight, bias, **CLOSE)


class Bottleneck(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        out = 4 * channels
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
            nn.Conv2d(channels, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.short = nn.Sequential()
        if stride != 1 or channels_in != out:
            self.short = nn.Sequential(nn.Conv2d(channels_in, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.short(x))


@pytest.mark.parametrize("is_last", [False, True])
def test_a_small_residual_network(is_last):
    """No operator on the host (VNPU_FALLBACK=error), values as on the CPU."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
        Bottleneck(16, 16, 1), Bottleneck(64, 32, 2), Bottleneck(128, 32, 1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    ).eval()  # fmt: skip
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    x = randn(2, 3, 64, 64)
    if is_last:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    with torch.no_grad():
        want = net(x)
        got = net.to(DEVICE)(x.to(DEVICE))
    torch.testing.assert_close(got.cpu(), want, atol=1e-4, rtol=1e-3)


# What torch's samples ask for and the host does: by operator, the reason that the refusal names.
SAMPLES = {
    "nn.functional.conv1d": None,
    "nn.functional.conv2d": None,
    "nn.functional.conv_transpose1d": "stride and dilation",
    "nn.functional.conv_transpose2d": "stride and dilation",
    "nn.functional.max_pool1d": None,
    "nn.functional.max_pool2d": None,
    "nn.functional.avg_pool1d": None,
    "nn.functional.avg_pool2d": None,
    "nn.functional.adaptive_avg_pool1d": "windows of unequal size",
    "nn.functional.adaptive_avg_pool2d": "windows of unequal size",
    "nn.functional.batch_norm": None,
}


def operators() -> dict:
    """torch's operator database. It needs expecttest for a base class of torch's own tests, which is not used here."""
    stand_in = types.ModuleType("expecttest")
    stand_in.TestCase = unittest.TestCase
    sys.modules.setdefault("expecttest", stand_in)
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.name: op for op in op_db}


@pytest.mark.parametrize("name", SAMPLES)
def test_torch_samples(name):
    """Forward results on OpInfo's samples at its tolerances for f32."""
    op = operators()[name]
    ran = 0
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=False):

        def call(value, *args, kwargs=sample.kwargs):
            return op.op(value, *args, **kwargs)

        try:
            compare(call, sample.input, *sample.args, atol=1e-5, rtol=1.3e-6 if "conv" not in name else 1e-4)
        except NotImplementedError as refusal:
            assert SAMPLES[name] is not None and SAMPLES[name] in str(refusal), str(refusal)
            continue
        ran += 1
    assert ran >= 2
