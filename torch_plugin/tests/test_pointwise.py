"""Pointwise operators against the CPU: types, broadcasting, scalars, in-place and out forms."""

import itertools

import pytest
import torch
from conftest import DEVICE, compare

FLOATS = torch.linspace(-4, 4, 35).view(5, 7)
INTS = torch.arange(-17, 18).view(5, 7)


@pytest.mark.parametrize(
    "name",
    "neg abs sign exp expm1 sin cos tanh sigmoid erf floor ceil trunc round relu reciprocal isnan isposinf isneginf "
    "logical_not square".split(),
)
def test_unary(name):
    function = getattr(torch, name)
    compare(function, FLOATS)
    compare(function, FLOATS.t()[::2])
    special = torch.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-40, 88.0, -88.0])
    compare(function, special, rtol=1e-4)
    if name in ("neg", "abs", "sign", "relu", "logical_not", "isnan", "exp", "sigmoid", "floor", "square"):
        compare(function, INTS)
        compare(function, INTS.to(torch.int32))


@pytest.mark.parametrize("name", ["log", "log1p", "sqrt", "rsqrt"])
def test_unary_positive(name):
    compare(getattr(torch, name), FLOATS.abs() + 0.01)
    compare(getattr(torch, name), torch.tensor([0.0, 1.0, float("inf"), float("nan"), 1e-30, 1e30]))
    compare(getattr(torch, name), INTS.abs() + 1)


@pytest.mark.parametrize("name", ["gelu", "silu", "softplus", "relu", "leaky_relu", "hardtanh", "relu6"])
def test_activations(name):
    compare(getattr(torch.nn.functional, name), FLOATS)
    if name == "gelu":
        compare(lambda x: torch.nn.functional.gelu(x, approximate="tanh"), FLOATS)


SHAPES = [((5, 7), (5, 7)), ((5, 7), (7,)), ((5, 1), (1, 7)), ((), (5, 7)), ((3, 1, 4), (2, 1)), ((0, 3), (1, 3))]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"])
def test_binary_broadcast_and_types(name):
    function = getattr(torch, name)
    generator = torch.Generator().manual_seed(0)
    types = [torch.float32, torch.int64, torch.int32, torch.uint8, torch.bool, torch.bfloat16]
    for left, right in SHAPES:
        compare(function, torch.randn(left, generator=generator), torch.randn(right, generator=generator))
    for a, b in itertools.product(types, types):
        if name == "sub" and torch.bool in (a, b):
            continue  # torch refuses
        x = torch.randint(1, 5, (5, 7), generator=generator).to(a)
        y = torch.randint(1, 5, (7,), generator=generator).to(b)
        compare(function, x, y)


def test_scalars():
    for x in (FLOATS, INTS, INTS.to(torch.int32), (INTS > 0), INTS.to(torch.uint8)):
        for scalar in (3, 2.5, True):
            compare(lambda t, s=scalar: t * s, x)
            compare(lambda t, s=scalar: t + s, x)
            compare(lambda t, s=scalar: t > s, x)
            compare(lambda t, s=scalar: s == t, x)
            if x.dtype != torch.bool:
                compare(lambda t, s=scalar: 1 - t * s, x)
                compare(lambda t, s=scalar: t / s, x)
    compare(lambda t: t.add(t, alpha=2), FLOATS)
    compare(lambda t: torch.sub(t, t, alpha=3), INTS)
    compare(lambda t: t + torch.tensor(2.5), FLOATS)  # a CPU number joins in
    compare(lambda t: torch.tensor(2.5) * t, INTS)


def test_power():
    for exponent in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.5):
        compare(lambda t, e=exponent: t**e, FLOATS.abs() + 0.1, rtol=1e-4)
    compare(lambda t: t**2, INTS)
    compare(lambda t: t**3, INTS)
    compare(lambda t: 2.0**t, FLOATS, rtol=1e-4)
    compare(torch.pow, FLOATS.abs() + 0.1, FLOATS, rtol=1e-4)


def test_clamp():
    for low, high in ((-1, 1), (None, 0.5), (-2, None), (0, 0)):
        compare(lambda t, a=low, b=high: t.clamp(a, b), FLOATS)
    compare(lambda t: t.clamp(-3, 3), INTS)
    compare(lambda t: t.clamp(-2.5, 3), INTS)
    compare(lambda t: t.clamp_min(0), FLOATS)
    compare(lambda t: t.clamp_max(0), FLOATS)
    compare(lambda t: t.clamp(min=-1), torch.tensor([float("nan"), -2.0]))


def test_logic_and_bits():
    a, b = INTS > 3, INTS % 2 == 0
    for function in (torch.logical_and, torch.logical_or, torch.logical_xor):
        compare(function, a, b)
        compare(function, INTS, FLOATS)
    for function in (torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor):
        compare(function, a, b)
        compare(function, INTS, INTS.t().reshape(5, 7))
        compare(function, INTS.to(torch.uint8), INTS.to(torch.uint8) + 3)
    compare(torch.bitwise_not, a)
    compare(torch.bitwise_not, INTS)
    compare(lambda x, y: x & y | ~x, a, b)


def test_division_modes():
    x, y = FLOATS, FLOATS.t().reshape(5, 7) + 0.3
    compare(lambda a, b: torch.div(a, b, rounding_mode="trunc"), x, y)
    compare(lambda a, b: torch.div(a, b, rounding_mode="floor"), x, y)
    compare(lambda a: a // 3, INTS)
    compare(lambda a: a // -2, INTS)
    compare(lambda a: a % 3, INTS)
    compare(torch.remainder, x, y, atol=1e-4)
    compare(torch.fmod, x, y, atol=1e-4)
    compare(torch.atan2, x, y)


def test_ternary():
    a, b, c = FLOATS, FLOATS + 0.5, FLOATS.flip(0) + 2.1
    compare(lambda x, y, z: torch.addcmul(x, y, z, value=0.5), a, b, c)
    compare(torch.addcmul, a, b[0], c)
    compare(torch.addcmul, INTS, INTS, INTS)
    compare(lambda x, y, z: torch.addcdiv(x, y, z.abs() + 1, value=-2), a, b, c)
    compare(lambda x, y: torch.lerp(x, y, 0.3), a, b)
    compare(lambda x, y: torch.lerp(x, y, 0.8), a, b)


def test_selection():
    mask = FLOATS > 0
    compare(torch.where, mask, FLOATS, -FLOATS)
    compare(lambda m, x: torch.where(m, x, 0.0), mask, FLOATS)
    compare(lambda m, x: torch.where(m, 1, x), mask, INTS)
    compare(lambda m, x, y: torch.where(m, x, y), mask[:, :1], INTS, FLOATS)
    compare(lambda m, x: x.masked_fill(m, -1e9), mask, FLOATS)
    compare(lambda m, x: x.masked_fill(m, float("-inf")), mask[0], FLOATS)
    compare(lambda m, x: x.masked_fill(m, 7), mask, INTS)
    compare(lambda m, x, v: x.masked_fill(m, v), mask, FLOATS, torch.tensor(2.0))


def test_in_place_and_out():
    for function in (torch.Tensor.add_, torch.Tensor.mul_, torch.Tensor.sub_, torch.Tensor.div_):
        x, y = FLOATS.clone(), FLOATS.flip(1) + 5
        d = x.to(DEVICE)
        pointer = d.data_ptr()
        result = function(d, y.to(DEVICE))
        assert result is d and d.data_ptr() == pointer
        torch.testing.assert_close(d.cpu(), function(x, y))
    out = torch.empty(0, device=DEVICE)
    torch.add(FLOATS.to(DEVICE), 1, out=out)
    torch.testing.assert_close(out.cpu(), FLOATS + 1)
    strided = torch.zeros(7, 5, device=DEVICE).t()
    torch.mul(FLOATS.to(DEVICE), 2, out=strided)
    torch.testing.assert_close(strided.cpu(), FLOATS * 2)
    wide = torch.zeros(5, 7, dtype=torch.bfloat16, device=DEVICE)
    torch.add(FLOATS.to(DEVICE), FLOATS.to(DEVICE), out=wide)
    torch.testing.assert_close(wide.cpu(), (FLOATS * 2).to(torch.bfloat16))
    with pytest.raises(RuntimeError, match="can't be cast"):
        INTS.to(DEVICE).add_(1.5)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        torch.ones(3, device=DEVICE).add_(torch.ones(2, 3, device=DEVICE))


def test_layouts_are_preserved():
    x = FLOATS.t().to(DEVICE)
    assert (x + 1).stride() == (FLOATS.t() + 1).stride()
    nhwc = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert (nhwc.to(DEVICE) * 2).stride() == nhwc.stride()
    compare(lambda t: t * 2 + t, nhwc)


def test_many_dimensions():
    x = torch.randn(2, 1, 3, 1, 2, 1, 2, 2)
    y = torch.randn(1, 2, 1, 2, 2, 3, 1, 2)
    compare(lambda a, b: a + b, x, y)


def test_large_and_odd_sizes():
    for size in (1, 127, 128, 129, 4096, 65537, 300001):
        x = torch.randn(size)
        compare(lambda t: t * 2 + 1, x)
        compare(lambda t: t.exp(), x)


def test_saved_scalars_make_no_new_program():
    from torch_vnpu import _C

    x = torch.ones(8, device=DEVICE)
    x * 1.25
    before = _C._kernel_stats()
    for scalar in (2.5, 3.5, 4.5):
        x * scalar
    after = _C._kernel_stats()
    assert after[0] == before[0] and after[1] == before[1] + 3
