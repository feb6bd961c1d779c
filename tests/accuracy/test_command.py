"""The command on small copies of the data: the contract of its output, absent files, absent columns, other rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy.rows import DATA
from tests.accuracy.test_sets import without_measurements

ROOT = Path(__file__).resolve().parents[2]
GEMM = "tpuv4_gemm_mid_686_vs_scalesim.csv"
NORM = "tpuv4_layernorm2d.csv"


def small(folder: Path, name: str, rows: int, extra: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    lines = (DATA / name).read_text().splitlines()[: rows + 1]
    path = folder / name
    path.write_text("\n".join(lines) + "\n" + extra)
    return path


def run(folder: Path, *arguments: str) -> dict[str, Any]:
    out = folder / "out.json"
    command = [sys.executable, "-m", "benchmarks.accuracy", "--data", str(folder), "--json", str(out), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())


def sets_of(out: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in out["sets"]}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    full, blind = tmp_path_factory.mktemp("full"), tmp_path_factory.mktemp("blind")
    for name, rows in ((GEMM, 3), (NORM, 2)):
        without_measurements(small(full, name, rows), blind)
    return full, blind


def test_output_and_predictions_without_the_measured_column(folders: tuple[Path, Path]) -> None:
    full, blind = folders
    names = ("--set", "tpuv4_gemm_mid", "--set", "tpuv4_layernorm2d")
    seen = sets_of(run(full, *names))
    unseen = sets_of(run(blind, *names, "--predict-only"))
    assert set(seen) == set(unseen) == {"tpuv4_gemm_mid", "tpuv4_layernorm2d"}
    for name, entry in seen.items():
        assert entry["predictions"] == unseen[name]["predictions"]
        assert all(value > 0 for value in entry["predictions"].values())
        assert "mean_pct" not in unseen[name]
        assert {
            "config",
            "mapping",
            "rows",
            "mean_pct",
            "median_pct",
            "worst_pct",
            "baseline_mean_pct",
            "worst",
        } <= set(entry)
        assert entry["mapping"] == "xla-like" and entry["rows"] == len(entry["predictions"])
        assert entry["median_pct"] <= entry["worst_pct"] == abs(entry["worst"][0]["error_pct"])


def test_other_rows_and_options(tmp_path: Path) -> None:
    """A row that no published file has; a slower array makes it slower."""
    small(tmp_path, GEMM, 1, "matmul_of_a_test,40,56,72" + ",1" * 17 + "\n")
    fast = sets_of(run(tmp_path, "--set", "tpuv4_gemm_mid", "--no-best"))["tpuv4_gemm_mid"]
    slow = sets_of(run(tmp_path, "--set", "tpuv4_gemm_mid", "--no-best", "--option", "cmd.launch_gap=5 us"))[
        "tpuv4_gemm_mid"
    ]
    assert "matmul_of_a_test" in fast["predictions"]
    for row, value in fast["predictions"].items():
        assert slow["predictions"][row] > value + 4.0  # us


def test_refused_rows_are_named(tmp_path: Path) -> None:
    (tmp_path / "tpuv3_cycles.csv").write_text("workload,tpuv3_cycles\ngemm_64x64x64,900\nquantum_walk_12,5\n")
    entry = sets_of(run(tmp_path, "--set", "tpuv3_cycles"))["tpuv3_cycles"]
    assert entry["rows"] == 2 and entry["judged_rows"] == 1
    assert entry["predictions"]["quantum_walk_12"] is None
    assert "quantum_walk_12" in entry["refused"]["quantum_walk_12"]


def test_a_set_that_is_not_there(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.accuracy", "--data", str(tmp_path), "--set", "tpuv4_gemm_mid"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "tpuv4_gemm_mid" in done.stderr


def test_systolic_counts_are_reproduced(tmp_path: Path) -> None:
    """Weight- and input-stationary folds equal SCALE-Sim's number of cycles (it reports the index of the last)."""
    lines = (DATA / "scalesim.csv").read_text().splitlines()
    chosen = [line for line in lines[1:] if ",os," not in line][::40]
    (tmp_path / "scalesim.csv").write_text("\n".join([lines[0], *chosen]) + "\n")
    entry = sets_of(run(tmp_path, "--set", "scalesim"))["scalesim"]
    assert entry["judged_rows"] == len(chosen) > 3
    measured = {f"{p[0]} {p[1]} {p[5]}x{p[6]} {p[7]}": float(p[8]) for p in (line.split(",") for line in chosen)}
    assert {row: value - 1 for row, value in entry["predictions"].items()} == measured
