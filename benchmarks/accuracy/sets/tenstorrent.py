"""GEMMs on Wormhole n150 (and Blackhole p150) as their vendor published them: device cycles.

Only the tuned n150 rows are judged against the model's mapping; *_oob rows hold mappings that a user's first attempt gave, and p150
has no configuration. Both are listed as without prediction.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.accuracy import lowering
from benchmarks.accuracy.rows import DataSet, Ratio, Row, number, read_csv, unique

CONFIG = "wormhole-like"
GRID = 8  # the products ran on 8 x 8 cores
OPTIONS = {
    "grid.workers": "64",
    # Instances that share a tile of the right operand lie in a column of cores, those of the left one in a row.
    "noc.core_nodes": " ".join(f"{x}:1-5 {x}:7-9" for x in (1, 2, 3, 4, 6, 7, 8, 9)) + " 1-4:10-11 6-9:10-11",
    "mapping.multicast": "true",
    "cmd.launch_gap": "0 ns",  # device cycles are a kernel's own
    # An assumption: Dst holds 16 tiles; the partial results of 192 wait in their place in L1 as bf16, here as f32 in a space of their own.
    "acc.bytes": "768 KiB",
}
# Rows named L1: left operand and results lie in the cores' L1s, a block each; at most 3072 x 3072 in bf16, twice: 576 KiB a core.
SHARED = "640 KiB"
PASSES = {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}  # passes of the matrix unit over the mantissas
BITS = {"BF16": 16.0, "BFP8_B": 8.5, "BFP4_B": 4.5}  # a shared exponent per 16 elements
TYPES = {"BF16": "bf16", "BFP8_B": "bfp8", "BFP4_B": "bfp4"}
PLACES = {"oob": "out-of-the-box row: the mapping is not the tuned one", "P150": "p150: no configuration of this chip"}


def _refusal(config: str, dtype: str) -> str:
    for word, reason in PLACES.items():
        if word in config:
            return reason
    return "" if dtype in TYPES else f"{dtype}: no type of that width"


def read(path: Path, mapping: str) -> list[Row]:
    table = read_csv(path)
    names = unique(f"{r['config']} {r['M']}x{r['K']}x{r['N']} {r['dtype']} {r['fidelity']}" for r in table)
    rows = []
    for name, row in zip(names, table):
        m, k, n = (int(number(row, c) or 0) for c in "MKN")
        nbytes = BITS.get(row["dtype"], 16.0) / 8 * (m * k + k * n + m * n)
        passes = PASSES.get(row["fidelity"])
        refused = _refusal(row["config"], row["dtype"]) or ("" if passes else f"{row['fidelity']}: unknown fidelity")
        dtype = TYPES.get(row["dtype"], "bf16")
        is_in_l1 = "_L1_" in row["config"]
        options = [(f"matrix.rate.{dtype}", f"1/{passes}")] if passes else []
        if is_in_l1:
            options.append(("sram.shared_bytes", SHARED))
        blocks = {"a": [GRID, GRID], "out": [GRID, GRID]} if is_in_l1 else {}
        calls = tuple(lowering.gemm(m, n, k, dtype, out=dtype, blocks=blocks))
        measured = number(row, "device_cycles_derived")
        # The baseline may know the passes: they multiply the work.
        flops = 2.0 * m * n * k * (passes or 1)
        rows.append(Row(name, "gemm", calls, flops, nbytes, measured, tuple(options), refused))
    return rows


SETS = [
    DataSet(
        "tenstorrent_gemm",
        "tenstorrent_gemm*.csv",
        CONFIG,
        "cycles",
        "silicon",
        read,
        "ttnn-like",
        tuple(OPTIONS.items()),
        limit_pct=6.0,
        best_flops=2e10,
        ratios=(
            Ratio("HiFi2 -> HiFi4, bf16", "BF16 HiFi2", "BF16 HiFi4"),
            Ratio("bf16 -> bfp8, HiFi2", "BF16 HiFi2", "BFP8_B HiFi2"),
        ),
    )
]
