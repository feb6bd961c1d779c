"""GEMMs on Wormhole n150 (and Blackhole p150) as their vendor published them: device cycles.

Only the tuned n150 rows are judged against the model's mapping; *_oob rows hold mappings that a user's first attempt gave, and p150
has no configuration. Both are listed as without prediction.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.accuracy import lowering
from benchmarks.accuracy.rows import DataSet, Ratio, Row, number, read_csv, unique

CONFIG = "wormhole_l1"
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
        options = ((f"matrix.rate.{dtype}", f"1/{passes}"),) if passes else ()
        calls = tuple(lowering.gemm(m, n, k, dtype, out=dtype))
        measured = number(row, "device_cycles_derived")
        # The baseline may know the passes: they multiply the work.
        flops = 2.0 * m * n * k * (passes or 1)
        rows.append(Row(name, "gemm", calls, flops, nbytes, measured, options, refused))
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
        limit_pct=6.0,
        ratios=(
            Ratio("HiFi2 -> HiFi4, bf16", "BF16 HiFi2", "BF16 HiFi4"),
            Ratio("bf16 -> bfp8, HiFi2", "BF16 HiFi2", "BFP8_B HiFi2"),
        ),
    )
]
