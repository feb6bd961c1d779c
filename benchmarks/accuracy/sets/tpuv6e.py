"""TPU v6e, one chip: Llama-3.1-8B in bf16, ns. Which neighbour a layer's time is booked on is not clear, so the rows are sums per
token count of the five large products (q, o, gate, up, down); counts for which one of them is not in the file are left out."""

from __future__ import annotations

from pathlib import Path

from benchmarks.accuracy import lowering
from benchmarks.accuracy.rows import DataSet, Row, number, read_csv

CONFIG = "tpuv6e"
HIDDEN, INNER = 4096, 14336
LAYERS = {  # name: (outputs, inputs)
    "q_proj": (HIDDEN, HIDDEN),
    "o_proj": (HIDDEN, HIDDEN),
    "gate_proj": (INNER, HIDDEN),
    "up_proj": (INNER, HIDDEN),
    "down_proj": (HIDDEN, INNER),
}


def read(path: Path, mapping: str) -> list[Row]:
    found: dict[int, dict[str, float | None]] = {}
    for row in read_csv(path):
        if row["layer_name"] in LAYERS:
            tokens = int(number(row, "input") or 0)
            found.setdefault(tokens, {})[row["layer_name"]] = number(row, "latency(ns)")
    rows = []
    for tokens, layers in sorted(found.items()):
        if set(layers) != set(LAYERS):
            continue
        calls, flops, nbytes = [], 0.0, 0.0
        for n, k in LAYERS.values():
            calls += lowering.gemm(tokens, n, k, "bf16", out="bf16")
            flops += 2.0 * tokens * n * k
            nbytes += 2.0 * (tokens * (n + k) + n * k)
        times = list(layers.values())
        measured = None if any(t is None for t in times) else sum(times)
        rows.append(Row(f"{tokens} tokens", "gemm", tuple(calls), flops, nbytes, measured))
    return rows


SETS = [DataSet("tpuv6e1", "tpuv6e1*layers_ns.csv", CONFIG, "ns", "silicon", read)]
