"""Matrix products beside ONNXim, TOGSim (PyTorchSim's core) and SCALE-Sim: cycles, and the CPU time that simulating them takes.

    python -m benchmarks.peers.products [--data DIR] [--json FILE] [--no-speed]

- ONNXim: bf16 products on its TPU v4 machine (``onnxim_tpuv4.ini``), cycles of both beside the bound that no tiling beats: MACs
  over the arrays' rate, or the operands once over the DRAM's. The two choose different tilings: their cycles need not agree.
- SCALE-Sim: the stall-free products of the accuracy harness, whose cycles must be equal.

CPU seconds of the peers are those of ``data/``, of another machine of this kind; ours are user and system time of the process
around each call (tiling search, program, simulation; timing reuse off), the device in the same process. Exit status 1 when a
SCALE-Sim count differs, or the median speed falls below ``SPEED_FACTOR`` times the faster peer.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.accuracy import pool
from benchmarks.accuracy.rows import Call, Row
from benchmarks.accuracy.sets import scalesim

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MACHINE = "systolic_ws_128x128_c4_simple_noc_tpuv4"
TOGSIM = "TOGSim:gemm_"
CONFIG = HERE / "onnxim_tpuv4.ini"
CORES, CLOCK, MACS_PER_CYCLE, DRAM_BYTES_PER_S = 4, 1.2e9, 4 * 128 * 128, 614.4e9
SPEED_FACTOR = 20.0
# SCALE-Sim reports the index of the last cycle; output-stationary it leaves out the drain, here a cycle.
EXTRA_CYCLES = {"gemm_ws": 1, "gemm_is": 1, "gemm_os": 2}


@dataclass(frozen=True)
class Product:
    """One product of ONNXim's data: cycles and CPU seconds, and TOGSim's CPU seconds on its TPU v4 machine where it ran it."""

    m: int
    k: int
    n: int
    cycles: int
    cpu_s: float
    togsim_cpu_s: float | None

    @property
    def name(self) -> str:
        return f"{self.m} x {self.k} x {self.n}"

    @property
    def call(self) -> Call:
        return {"op": "gemm", "m": self.m, "n": self.n, "k": self.k, "dtype": "bf16"}

    @property
    def bound(self) -> float:
        """Cycles that no tiling beats."""
        nbytes = 2 * (self.m * self.k + self.k * self.n + self.m * self.n)
        return max(self.m * self.k * self.n / MACS_PER_CYCLE, nbytes / DRAM_BYTES_PER_S * CLOCK)


def sizes(workload: str) -> tuple[int, int, int]:
    """ "matmul_M_K_N", or "matmul_M" of a square one."""
    numbers = [int(part) for part in workload.split("_")[1:]]
    m, k, n = numbers if len(numbers) == 3 else (numbers[0],) * 3
    return m, k, n


def read_products(path: Path) -> list[Product]:
    """ONNXim's products; operands are of two bytes."""
    with path.open(newline="") as file:
        table = list(csv.DictReader(file))
    togsim = {
        row["workload"].removeprefix(TOGSIM): float(row["cpu_seconds"])
        for row in table
        if row["workload"].startswith(TOGSIM) and row["config"].endswith("tpuv4")
    }
    rows = [row for row in table if row["config"] == MACHINE and row["workload"].startswith("matmul_")]
    products = []
    for row in rows:
        m, k, n = sizes(row["workload"])
        seconds = float(row["cpu_seconds"])
        products.append(Product(m, k, n, int(row["cycles"]), seconds, togsim.get(f"{m}_{k}_{n}")))
    return sorted(products, key=lambda p: (p.m * p.k * p.n, p.name))


def simulate(config: Path, options: Iterable[tuple[str, str]], calls: list[Call]) -> list[dict[str, Any]]:
    """Cycles and CPU seconds of each call, in a process of its own."""
    environment = dict(os.environ)
    environment.update(
        PYTHONPATH=str(ROOT),
        VNPU_CONFIG=str(config),
        VNPU_OPTIONS=",".join(f"{key}={value}" for key, value in options),
        VNPU_TRANSPORT="inproc",
        VNPU_REUSE="off",
        VNPU_THREADS="1",
    )
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peers.products_worker"],
        input="".join(json.dumps(call) + "\n" for call in calls), capture_output=True, text=True, env=environment,
        cwd=ROOT, check=False,
    )  # fmt: skip
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or len(replies) != len(calls):
        raise RuntimeError(f"{config.name}: {done.stderr.strip() or 'the worker answered too little'}")
    return replies


def onnxim(data: Path) -> list[dict[str, Any]]:
    products = read_products(data / "onnxim.csv")
    rows = []
    for product, reply in zip(products, simulate(CONFIG, (), [p.call for p in products]), strict=True):
        peer = min(product.cpu_s, product.togsim_cpu_s or product.cpu_s)
        rows.append(
            {
                "product": product.name, "bound": product.bound, "onnxim_cycles": product.cycles, "cycles": reply["cycles"],
                "onnxim_cpu_s": product.cpu_s, "togsim_cpu_s": product.togsim_cpu_s, "cpu_s": reply["cpu_s"],
                "speed": peer / reply["cpu_s"],
            }
        )  # fmt: skip
    return rows


def scale_sim(path: Path) -> list[dict[str, Any]]:
    """Rows of equal options share a process."""
    with path.open(newline="") as file:
        seconds = [float(row["cpu_seconds"]) for row in csv.DictReader(file)]
    groups: dict[tuple[tuple[str, str], ...], list[tuple[Row, float]]] = {}
    for row, peer in zip(scalesim.read(path, "best"), seconds, strict=True):
        groups.setdefault(row.options, []).append((row, peer))
    rows = []
    for options, part in groups.items():
        replies = simulate(pool.config_path(scalesim.CONFIG), options, [row.calls[0][1] for row, _ in part])
        for (row, peer), reply in zip(part, replies, strict=True):
            rows.append(
                {
                    "case": row.name,
                    "scalesim_cycles": int(row.measured or 0) + EXTRA_CYCLES[row.group],
                    "cycles": reply["cycles"],
                    "scalesim_cpu_s": peer,
                    "cpu_s": reply["cpu_s"],
                    "speed": peer / reply["cpu_s"],
                }
            )
    return rows


def is_equal(row: dict[str, Any]) -> bool:
    return round(row["cycles"], 3) == row["scalesim_cycles"]


def print_onnxim(rows: list[dict[str, Any]]) -> None:
    print(
        f"{'M x K x N':20} {'bound':>10} {'ONNXim':>10} {'ours':>10} {'ours/bound':>10} {'ONNXim CPU s':>12} "
        f"{'TOGSim CPU s':>12} {'ours':>8} {'speed':>7}"
    )
    for row in rows:
        togsim = f"{row['togsim_cpu_s']:12.2f}" if row["togsim_cpu_s"] else f"{'':12}"
        print(
            f"{row['product']:20} {row['bound']:10.0f} {row['onnxim_cycles']:10d} {row['cycles']:10.0f} "
            f"{row['cycles'] / row['bound']:10.2f} {row['onnxim_cpu_s']:12.2f} {togsim} {row['cpu_s']:8.3f} {row['speed']:6.0f}x"
        )
    print(f"speed: median {median_speed(rows):.0f} x the faster of ONNXim and TOGSim\n")


def print_scale_sim(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if not is_equal(row):
            print(f"{row['case']}: SCALE-Sim {row['scalesim_cycles']} cycles, ours {row['cycles']:.0f}")
    print(
        f"SCALE-Sim: {sum(map(is_equal, rows))} of {len(rows)} counts equal; speed: median {median_speed(rows):.0f} x"
    )


def median_speed(rows: list[dict[str, Any]]) -> float:
    return statistics.median(row["speed"] for row in rows)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, default=HERE / "data", help="folder of onnxim.csv")
    parser.add_argument("--scalesim", type=Path, default=ROOT / "benchmarks/accuracy/data/scalesim.csv")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--no-speed", action="store_true", help="do not judge the speed")
    arguments = parser.parse_args()
    products, counts = onnxim(arguments.data), scale_sim(arguments.scalesim)
    print_onnxim(products)
    print_scale_sim(counts)
    if arguments.json:
        arguments.json.write_text(json.dumps({"onnxim": products, "scalesim": counts}, indent=1) + "\n")
    is_fast = arguments.no_speed or min(median_speed(products), median_speed(counts)) >= SPEED_FACTOR
    return 0 if is_fast and all(map(is_equal, counts)) else 1


if __name__ == "__main__":
    sys.exit(main())
