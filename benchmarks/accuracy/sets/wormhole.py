"""Recorded NoC reads on Wormhole, replayed through interconnect and DRAM by wormhole_replay (no kernels): cycles of a whole run.

`wormhole_reads` issues reads at the recorded times at the earliest. `wormhole_reads_gaps` keeps only the recorded gaps, so that what
holds a read up moves the later ones. DRAM and L1 traces are classes of their own: a formula of the last issue time and the busiest
source, without any model, is good on the first replay.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from benchmarks.accuracy.device import find_libraries
from benchmarks.accuracy.pool import ROOT, PoolError, config_path
from benchmarks.accuracy.rows import DataSet, Row, unique

CONFIG = "wormhole-like"
TOOL = "wormhole_replay"


def read(path: Path, mapping: str) -> list[Row]:
    traces = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    rows = []
    for name, trace in zip(unique(t["trace"] for t in traces), traces):
        reads = [op for agent in trace["agents"] for op in agent["ops"] if op[0] != "barrier"]
        group = "dram_reads" if name.startswith("DRAM") else "l1_reads"
        measured = trace.get("golden_cycles")
        rows.append(
            Row(name, group, (), 0.0, float(sum(op[3] for op in reads)), None if measured is None else float(measured))
        )
    return rows


def replay(*arguments: str) -> Callable[[Path], dict[str, float]]:
    def run(path: Path) -> dict[str, float]:
        places = [find_libraries()[2].parent, *sorted(ROOT.glob("build/*/bin"), key=lambda p: -p.stat().st_mtime)]
        tool = next((place / TOOL for place in places if (place / TOOL).exists()), None)
        if tool is None:
            raise PoolError(f"{TOOL} is not built: ninja -C build/NAME {TOOL}")
        command = [str(tool), str(path), "-c", str(config_path(CONFIG)), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PoolError(f"wormhole_replay: {done.stderr.strip()}")
        traces = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return {name: float(trace["predicted"]) for name, trace in zip(unique(t["name"] for t in traces), traces)}

    return run


SETS = [
    DataSet("wormhole_reads", "wormhole_reads*.jsonl", CONFIG, "cycles", "silicon", read, tool=replay(), limit_pct=5.0),
    DataSet("wormhole_reads_gaps", "wormhole_reads*.jsonl", CONFIG, "cycles", "silicon", read, tool=replay("--gaps")),
]
