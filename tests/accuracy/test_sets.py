"""How files become rows: names, calls, storage layout."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from benchmarks.accuracy import evaluate, fit, lowering
from benchmarks.accuracy.rows import DATA, DataSet, unique
from benchmarks.accuracy.sets import SETS, by_name

MEASURED = {
    "cycles", "tpuv3_cycles", "fusion_avg", "avg_duration_us", "device_cycles_derived", "total_cycles", "latency(ns)", "us",
    "per_cent", "golden_cycles",
}  # fmt: skip


def is_measured(column: str) -> bool:
    return column in MEASURED or column.endswith("_avg_duration_us")


def without_measurements(path: Path, folder: Path) -> Path:
    copy = folder / path.name
    if path.suffix == ".jsonl":
        traces = [json.loads(line) for line in path.read_text().splitlines()]
        for trace in traces:
            del trace["golden_cycles"]
        copy.write_text("".join(json.dumps(trace) + "\n" for trace in traces))
        return copy
    with path.open(newline="") as source, copy.open("w", newline="") as target:
        reader = csv.DictReader(source)
        columns = [name for name in reader.fieldnames or [] if not is_measured(name)]
        writer = csv.DictWriter(target, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(reader)
    return copy


@pytest.mark.parametrize("dataset", SETS, ids=lambda d: d.name)
def test_calls_do_not_hang_on_the_measured_column(dataset: DataSet, tmp_path: Path) -> None:
    path = dataset.find(DATA)
    assert path is not None
    for mapping in {"best", dataset.profile}:
        full = dataset.read(path, mapping)
        blind = dataset.read(without_measurements(path, tmp_path), mapping)
        assert [(r.name, r.calls, r.options, r.refused) for r in full] == [
            (r.name, r.calls, r.options, r.refused) for r in blind
        ]
        assert all(row.measured is None for row in blind)
        assert sum(row.measured is not None for row in full) > 0


@pytest.mark.parametrize("dataset", SETS, ids=lambda d: d.name)
def test_rows_have_names_of_their_own_and_none_is_lost(dataset: DataSet) -> None:
    path = dataset.find(DATA)
    assert path is not None
    rows = dataset.read(path, dataset.profile)
    assert len({row.name for row in rows}) == len(rows) > 0
    assert all(row.refused or row.calls or dataset.tool for row in rows)


def test_every_row_of_the_tpu_v4_files_is_read() -> None:
    for name in ("tpuv4_gemm_large", "tpuv4_gemm_mid", "tpuv4_add3d", "tpuv4_relu3d", "tpuv4_layernorm2d"):
        dataset = by_name(name)
        path = dataset.find(DATA)
        assert path is not None
        with path.open(newline="") as file:
            assert len(dataset.read(path, "best")) == sum(1 for _ in csv.DictReader(file))


def test_layer_norms_of_the_tpu_v4_have_no_weight_and_no_bias() -> None:
    rows = by_name("tpuv4_layernorm2d").read(DATA / "tpuv4_layernorm2d.csv", "xla-like")
    assert all(call["affine"] is False for row in rows for _, call in row.calls)


def test_profiles_move_more_than_fused_kernels() -> None:
    assert len(lowering.layer_norm(64, 64, "f32", "best")) == 1
    assert len(lowering.layer_norm(64, 64, "f32", "xla-like")) == 5


def test_twins_are_numbered() -> None:
    assert unique(["a", "b", "a", "a"]) == ["a", "b", "a #2", "a #3"]


def test_samples_are_spread_evenly() -> None:
    rows = by_name("tpuv4_gemm_large").read(DATA / "tpuv4_gemm_large_343.csv", "best")
    some = evaluate.sample(rows, 10)
    assert len(some) == 10 and some[0] is rows[0] and len({row.name for row in some}) == 10
    assert evaluate.sample(rows, None) == rows


def test_fitted_keys_exist_and_are_few() -> None:
    for config, keys in fit.FITTED.items():
        assert 0 < len(keys) <= 6
        for key in keys:
            assert fit.config_value(config, key.name) > 0
