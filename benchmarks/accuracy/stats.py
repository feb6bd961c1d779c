"""Errors of predictions, and the three-constant fit that they must beat."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

import numpy as np


def error_pct(predicted: float, measured: float) -> float:
    return 100.0 * (predicted - measured) / measured


def summary(errors: Sequence[float]) -> dict[str, float | None]:
    """Mean, median and worst of absolute errors in per cent; None without rows."""
    if not errors:
        return {"mean_pct": None, "median_pct": None, "worst_pct": None, "bias_pct": None}
    size = [abs(e) for e in errors]
    return {
        "mean_pct": statistics.fmean(size),
        "median_pct": statistics.median(size),
        "worst_pct": max(size),
        "bias_pct": statistics.fmean(errors),
    }


def fit_baseline(flops: Sequence[float], nbytes: Sequence[float], measured: Sequence[float]) -> np.ndarray:
    """(c0, 1/P, 1/BW) >= 0 that minimise the squared relative error of c0 + flops/P + nbytes/BW.

    Exact: the best of the least-squares solutions over all subsets of the three columns that are not negative.
    """
    target = np.asarray(measured, dtype=float)
    columns = np.stack([np.ones_like(target), np.asarray(flops, float), np.asarray(nbytes, float)], axis=1)
    scaled = columns / target[:, None]
    norm = np.linalg.norm(scaled, axis=0)
    norm[norm == 0] = 1.0
    scaled = scaled / norm
    best, best_loss = np.zeros(3), float(len(target))
    for size in (1, 2, 3):
        for chosen in itertools.combinations(range(3), size):
            part = scaled[:, chosen]
            solution = np.linalg.lstsq(part, np.ones(len(target)), rcond=None)[0]
            if (solution < 0).any():
                continue
            loss = float(np.sum((part @ solution - 1.0) ** 2))
            if loss < best_loss - 1e-15:
                best_loss = loss
                best = np.zeros(3)
                best[list(chosen)] = solution
    return best / norm


def baseline_errors(flops: Sequence[float], nbytes: Sequence[float], measured: Sequence[float]) -> list[float]:
    """Relative errors in per cent of the fit on the rows that it was fitted on."""
    if not measured:
        return []
    constants = fit_baseline(flops, nbytes, measured)
    return [error_pct(float(constants @ np.array([1.0, f, b])), m) for f, b, m in zip(flops, nbytes, measured)]
