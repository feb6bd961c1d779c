"""Errors and the three-constant fit."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.accuracy.stats import baseline_errors, fit_baseline, summary

FLOPS = [1e6, 2e8, 3e9, 5e7, 9e9]
BYTES = [4e5, 3e6, 1e6, 8e7, 2e8]


@pytest.mark.parametrize("constants", [(1.5, 1e-8, 3e-7), (0.9, 0.0, 2e-7), (0.0, 5e-9, 0.0), (2.0, 0.0, 0.0)])
def test_rows_made_by_three_constants_give_them_back(constants: tuple[float, float, float]) -> None:
    measured = [constants[0] + constants[1] * f + constants[2] * b for f, b in zip(FLOPS, BYTES)]
    assert fit_baseline(FLOPS, BYTES, measured) == pytest.approx(constants, rel=1e-6, abs=1e-15)
    assert max(map(abs, baseline_errors(FLOPS, BYTES, measured))) < 1e-6


def test_constants_are_never_negative() -> None:
    """More bytes, less time: an unconstrained fit would take a negative bandwidth."""
    measured = [10.0 - 1e-8 * b for b in BYTES]
    fitted = fit_baseline(FLOPS, BYTES, measured)
    assert (fitted >= 0).all()
    grid = [np.array([c, p, w]) for c in (2.0, 5.0, 10.0) for p in (0.0, 1e-9) for w in (0.0, 1e-8)]

    def loss(constants: np.ndarray) -> float:
        columns = np.stack([np.ones(len(FLOPS)), FLOPS, BYTES], axis=1)
        return float(np.sum((columns @ constants / measured - 1.0) ** 2))

    assert all(loss(fitted) <= loss(other) + 1e-12 for other in grid)


def test_one_row_and_no_row() -> None:
    assert abs(baseline_errors([1e6], [1e6], [3.0])[0]) < 1e-9
    assert baseline_errors([], [], []) == []
    assert summary([])["mean_pct"] is None


def test_summary() -> None:
    result = summary([10.0, -20.0, 3.0])
    assert (result["mean_pct"], result["median_pct"], result["worst_pct"]) == (11.0, 10.0, 20.0)
    assert result["bias_pct"] == pytest.approx(-7.0 / 3)
