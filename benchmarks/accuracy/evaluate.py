"""One set on its chip: predictions, errors, baseline, skill; and errors across the operator classes of a chip."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.accuracy.pool import Pool, PoolError
from benchmarks.accuracy.rows import DataSet, Prediction, Ratio, Row
from benchmarks.accuracy.stats import baseline_errors, summary

WORST_ROWS = 5
REFERENCE_CLASS = "gemm"

Result = dict[str, Any]


def sample(rows: list[Row], limit: int | None) -> list[Row]:
    """Every n-th row, so that about `limit` remain; all without a limit."""
    if not limit or len(rows) <= limit:
        return rows
    step = len(rows) / limit
    return [rows[int(i * step)] for i in range(limit)]


def judged(rows: Iterable[Row], predictions: dict[str, Prediction]) -> list[tuple[Row, float, float]]:
    """(row, predicted, measured) where both exist."""
    out = []
    for row in rows:
        value = predictions[row.name].value
        if value is not None and row.measured is not None and (row.measured > 0 or row.causes):
            out.append((row, value, row.measured))
    return out


def evaluate(dataset: DataSet, path: Path, pool: Pool, mapping: str, predict_only: bool, limit: int | None) -> Result:
    """The set's entry of the JSON output (DESIGN.md section 8), with the keys that the text report needs."""
    rows = dataset.read(path, mapping)
    if mapping != dataset.profile and dataset.best_flops is not None:
        rows = [row for row in rows if row.flops <= dataset.best_flops]
    rows = sample(rows, limit)
    predictions = predict(dataset, path, rows, pool, mapping)
    result: Result = {
        "name": dataset.name,
        "file": path.name,
        "config": dataset.config,
        "mapping": mapping,
        "unit": dataset.unit,
        "grade": dataset.grade,
        "rows": len(rows),
        "predictions": {row.name: predictions[row.name].value for row in rows},
        "refused": {row.name: p.reason for row in rows if (p := predictions[row.name]).value is None},
    }
    if not predict_only:
        result.update(_errors(dataset, rows, predictions))
    return result


def predict(dataset: DataSet, path: Path, rows: list[Row], pool: Pool, mapping: str) -> dict[str, Prediction]:
    if dataset.tool is None:
        return pool.predict(dataset, rows, mapping)
    try:
        values = dataset.tool(path)
    except PoolError as error:
        return {row.name: Prediction(None, str(error)) for row in rows}
    return {row.name: Prediction(values.get(row.name), "the replay has no such trace") for row in rows}


def _errors(dataset: DataSet, rows: list[Row], predictions: dict[str, Prediction]) -> Result:
    pairs = judged(rows, predictions)
    errors = [dataset.error(value, measured) for _, value, measured in pairs]
    base: list[float] = []
    # Shares have no operations and bytes; three rows are met by any three constants.
    if dataset.unit != "points" and len(pairs) > 3:
        base = baseline_errors(*zip(*((row.flops, row.nbytes, measured) for row, _, measured in pairs)))
    out: Result = dict(summary(errors))
    out["judged_rows"] = len(pairs)
    out["baseline_mean_pct"] = summary(base)["mean_pct"]
    mean, baseline = out["mean_pct"], out["baseline_mean_pct"]
    out["skill"] = 1.0 - mean / baseline if mean is not None and baseline else None
    order = sorted(range(len(pairs)), key=lambda i: -abs(errors[i]))[:WORST_ROWS]
    out["worst"] = [
        {"row": pairs[i][0].name, "predicted": pairs[i][1], "measured": pairs[i][2], "error_pct": errors[i]}
        for i in order
    ]
    out["classes"] = _by_class(pairs, errors)
    out["ratios"] = [ratio_errors(ratio, pairs) for ratio in dataset.ratios]
    return out


def ratio_errors(ratio: Ratio, pairs: list[tuple[Row, float, float]]) -> Result:
    """The change after / before, predicted against measured, over all pairs of judged rows; per cent of the measured change."""
    by_name = {row.name: (predicted, measured) for row, predicted, measured in pairs}
    changes = []
    for name, (predicted, measured) in by_name.items():
        partner = ratio.partner(name)
        if partner in by_name and partner != name:
            after = by_name[partner]
            changes.append((name, after[0] / predicted, after[1] / measured))
    errors = [100.0 * (predicted / measured - 1.0) for _, predicted, measured in changes]
    worst = max(range(len(changes)), key=lambda i: abs(errors[i]), default=None)
    return {
        "name": ratio.name,
        "pairs": len(changes),
        **summary(errors),
        "measured": statistics.fmean(m for _, _, m in changes) if changes else None,
        "predicted": statistics.fmean(p for _, p, _ in changes) if changes else None,
        "worst_row": changes[worst][0] if worst is not None else None,
    }


def _by_class(pairs: list[tuple[Row, float, float]], errors: list[float]) -> dict[str, Result]:
    classes: dict[str, list[float]] = {}
    for (row, _, _), error in zip(pairs, errors):
        classes.setdefault(row.group, []).append(error)
    return {name: {"rows": len(part), "errors_pct": part, **summary(part)} for name, part in classes.items()}


def cross_class(results: list[Result]) -> dict[str, Result]:
    """Per chip: what one scale, taken from the GEMM rows alone, leaves as error on the other classes.

    The scale makes the median GEMM prediction exact; a chip without judged GEMM rows has no entry.
    """
    chips: dict[str, dict[str, list[float]]] = {}
    for result in results:
        for name, part in result.get("classes", {}).items():
            chips.setdefault(result["config"], {}).setdefault(name, []).extend(part["errors_pct"])
    out: dict[str, Result] = {}
    for chip, classes in chips.items():
        reference = classes.get(REFERENCE_CLASS)
        if not reference or len(classes) < 2:
            continue
        scale = 1.0 / statistics.median(1.0 + e / 100.0 for e in reference)
        scaled = {
            name: summary([100.0 * ((1.0 + e / 100.0) * scale - 1.0) for e in part]) | {"rows": len(part)}
            for name, part in classes.items()
        }
        out[chip] = {"scale": scale, "classes": scaled}
    return out
