"""Fixtures of the acceptance tests. What costs a process or a forward pass is made once a session."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from chip import Config  # noqa: E402


@pytest.fixture(scope="session")
def tiny() -> Config:
    return Config("tiny")


@pytest.fixture(scope="session")
def default() -> Config:
    return Config("default")
