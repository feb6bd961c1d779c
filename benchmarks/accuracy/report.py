"""Text of the results."""

from __future__ import annotations

from typing import Any

Result = dict[str, Any]


def number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def set_lines(result: Result, other: Result | None) -> list[str]:
    """One set: the numbers, what was refused, the worst rows, and mapping `best` beside the profile."""
    head = (
        f"{result['name']}: {result['config']}, mapping {result['mapping']}, {result['rows']} rows of {result['file']}"
    )
    lines = [head]
    if "mean_pct" in result:
        lines.append(_numbers(result))
    if other is not None and "mean_pct" in other:
        lines.append(f"  mapping best: mean {number(other['mean_pct'])} %, median {number(other['median_pct'])} %")
    lines += [ratio_line(ratio) for ratio in result.get("ratios", [])]
    lines += _refusals(result["refused"])
    for row in result.get("worst", []):
        lines.append(
            f"    {row['error_pct']:+7.1f} %  {row['row']}: predicted {row['predicted']:.6g}, "
            f"measured {row['measured']:.6g} {result['unit']}"
        )
    return lines


def _numbers(result: Result) -> str:
    return (
        f"  mean {number(result['mean_pct'])} %  median {number(result['median_pct'])} %  "
        f"worst {number(result['worst_pct'])} %  bias {number(result['bias_pct'])} %  "
        f"baseline {number(result['baseline_mean_pct'])} %  skill {number(result['skill'], 2)}"
        f"  ({result['judged_rows']} rows judged)"
    )


def ratio_line(ratio: Result) -> str:
    if not ratio["pairs"]:
        return f"  {ratio['name']}: no pairs of rows"
    return (
        f"  {ratio['name']}: {ratio['pairs']} pairs, x {number(ratio['predicted'], 3)} predicted, x {number(ratio['measured'], 3)} "
        f"measured: mean {number(ratio['mean_pct'])} %  bias {number(ratio['bias_pct'])} %  worst {number(ratio['worst_pct'])} % "
        f"({ratio['worst_row']})"
    )


def _refusals(refused: dict[str, str]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for name, reason in refused.items():
        reasons.setdefault(reason, []).append(name)
    lines = []
    for reason, names in reasons.items():
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        lines.append(f"  no prediction for {len(names)} rows ({shown}): {reason}")
    return lines


def cross_lines(cross: dict[str, Result]) -> list[str]:
    lines = []
    for chip, entry in cross.items():
        lines.append(f"{chip}: one scale ({entry['scale']:.3f}) from the GEMM rows alone leaves, by class")
        for name, part in entry["classes"].items():
            lines.append(
                f"    {name:20s} {part['rows']:5d} rows  mean {number(part['mean_pct'])} %  bias {number(part['bias_pct'])} %"
            )
    return lines


def table_lines(results: list[Result]) -> list[str]:
    """A line per set."""
    lines = [f"{'set':22s} {'rows':>5s} {'mean':>7s} {'median':>7s} {'worst':>7s} {'baseline':>8s} {'skill':>6s}"]
    for r in results:
        if "mean_pct" not in r:
            continue
        lines.append(
            f"{r['name']:22s} {r['judged_rows']:5d} {number(r['mean_pct']):>7s} {number(r['median_pct']):>7s} "
            f"{number(r['worst_pct']):>7s} {number(r['baseline_mean_pct']):>8s} {number(r['skill'], 2):>6s}"
        )
    return lines
