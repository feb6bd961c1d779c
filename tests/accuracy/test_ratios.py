"""Changes between pairs of rows: which rows pair, and what their errors are."""

from __future__ import annotations

import pytest

from benchmarks.accuracy.evaluate import ratio_errors
from benchmarks.accuracy.report import ratio_line
from benchmarks.accuracy.rows import DATA, Ratio, Row
from benchmarks.accuracy.sets import SETS

CHANGE = Ratio("latency 20 -> 100", r"latency 20$", "latency 100")


def row(name: str) -> Row:
    return Row(name, "gemm", (), 0.0, 0.0)


def test_pairs_differ_in_the_change_alone() -> None:
    pairs = [
        (row("a latency 20"), 10.0, 10.0),
        (row("a latency 100"), 22.0, 20.0),  # x 2.2 for x 2
        (row("b latency 20"), 5.0, 8.0),
        (row("b latency 100"), 6.0, 8.0 * 1.25),  # x 1.2 for x 1.25: wrong rows, nearly right ratio
        (row("c latency 20"), 1.0, 1.0),  # no partner
        (row("d latency 100"), 1.0, 1.0),
    ]
    result = ratio_errors(CHANGE, pairs)
    assert result["pairs"] == 2
    assert result["mean_pct"] == pytest.approx((10.0 + 4.0) / 2)
    assert result["bias_pct"] == pytest.approx((10.0 - 4.0) / 2)
    assert result["worst_pct"] == pytest.approx(10.0)
    assert result["worst_row"] == "a latency 20"
    assert (result["predicted"], result["measured"]) == (pytest.approx(1.7), pytest.approx(1.625))
    assert "2 pairs" in ratio_line(result)


def test_no_pairs() -> None:
    result = ratio_errors(CHANGE, [(row("a latency 20"), 1.0, 1.0)])
    assert (result["pairs"], result["mean_pct"]) == (0, None)
    assert "no pairs" in ratio_line(result)


@pytest.mark.parametrize("dataset", [s for s in SETS if s.ratios], ids=lambda s: s.name)
def test_every_change_has_pairs_in_the_data(dataset) -> None:
    path = dataset.find(DATA)
    names = {row.name for row in dataset.read(path, dataset.profile)}
    for ratio in dataset.ratios:
        assert sum(ratio.partner(name) in names for name in names if ratio.partner(name) != name) >= 2, ratio.name
