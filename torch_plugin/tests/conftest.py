"""Tests of the device run with VNPU_FALLBACK=error: nothing passes by running on the host unless a test says so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

DEVICE = torch.device("vnpu")


@pytest.fixture(autouse=True)
def no_fallback(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """`@pytest.mark.host` allows the host for a test."""
    is_allowed = request.node.get_closest_marker("host") is not None
    monkeypatch.setenv("VNPU_FALLBACK", "allow" if is_allowed else "error")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "host: operators of the test may run on the host")


def on_device(value):
    """Tensors inside (nested) arguments, moved to the device."""
    if isinstance(value, torch.Tensor):
        return value.to(DEVICE)
    if isinstance(value, (list, tuple)):
        return type(value)(on_device(item) for item in value)
    return value


def compare(function: Callable, *args, atol: float = 1e-5, rtol: float = 1e-5, **kwargs) -> None:
    """The function gives the same on the CPU and on the device: values, types, shapes."""
    expected = function(*args, **kwargs)
    actual = function(*(on_device(arg) for arg in args), **{key: on_device(arg) for key, arg in kwargs.items()})
    if isinstance(expected, torch.Tensor):
        expected, actual = (expected,), (actual,)
    for want, got in zip(expected, actual, strict=True):
        assert got.device.type == "vnpu"
        torch.testing.assert_close(got.cpu(), want, atol=atol, rtol=rtol, equal_nan=True)


def run_python(code: str, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a new interpreter with the same packages."""
    env = {**os.environ, "VNPU_FALLBACK": "error", **environment}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=timeout)
