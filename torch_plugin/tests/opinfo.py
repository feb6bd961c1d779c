"""PyTorch's own samples and tolerances of an operator (OpInfo), on the device.

Two references, of which one must be met: the CPU's result in f32, rounded once to the type under test, and the CPU's
in that type. In bf16 and f16 the CPU rounds in between in some operators (addr, log_softmax) where the device does not,
and both do in operators made of others (bilinear).
"""

from __future__ import annotations

import sys
import types
import unittest
from collections.abc import Callable

import torch
from conftest import DEVICE

# torch's test module takes one base class from this package; the operators' samples need nothing of it.
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))

from torch.testing._internal.common_device_type import toleranceOverride  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.opinfo.core import OpInfo, SampleInput  # noqa: E402


def operators(*names: str) -> list[OpInfo]:
    """Every variant of the operators; a name that torch does not have is an error."""
    found = [op for op in op_db if op.name in names]
    missing = set(names) - {op.name for op in found}
    if missing:
        raise ValueError(f"torch has no samples of {sorted(missing)}")
    return found


def mapped(change: Callable, value):
    """change(tensor) for every tensor of nested arguments."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(change, item) for item in value)
    if isinstance(value, dict):
        return {key: mapped(change, item) for key, item in value.items()}
    return value


def tolerance(op: OpInfo, dtype: torch.dtype) -> dict[str, float]:
    """The widest that torch states for the operator and type; empty: assert_close's own."""
    stated = [
        decorator.d[dtype]
        for info in op.decorators
        for decorator in getattr(info, "decorators", ())
        if isinstance(decorator, toleranceOverride) and dtype in decorator.d
    ]
    if not stated:
        return {}
    # assert_close's own where torch states less: its overrides widen.
    atol, rtol = torch.testing._comparison.default_tolerances(dtype)[::-1]
    return {"atol": max(atol, *(s.atol for s in stated)), "rtol": max(rtol, *(s.rtol for s in stated))}


def call(op: OpInfo, sample: SampleInput, change: Callable):
    """The operator on the sample with every tensor changed."""
    return op(mapped(change, sample.input), *mapped(change, list(sample.args)), **mapped(change, dict(sample.kwargs)))


def listed(result) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def check(op: OpInfo, dtype: torch.dtype, has_sample: Callable[[SampleInput], bool] = lambda sample: True) -> int:
    """Compares every sample of the operator; returns how many there were."""
    torch.manual_seed(0)
    close, count = tolerance(op, dtype), 0
    for sample in op.sample_inputs("cpu", dtype):
        if not has_sample(sample):
            continue
        exact = call(op, sample, lambda t: t.detach().float() if t.dtype == dtype else t)
        rounded = call(op, sample, torch.Tensor.detach)
        actual = call(op, sample, lambda t: t.detach().to(DEVICE))
        for wide, want, got in zip(*map(listed, (exact, rounded, actual)), strict=True):
            assert got.device.type == "vnpu" and got.dtype == want.dtype
            try:
                torch.testing.assert_close(got.cpu(), wide.to(got.dtype), equal_nan=True, **close)
            except AssertionError:
                torch.testing.assert_close(got.cpu(), want, equal_nan=True, **close)
        count += 1
    return count
