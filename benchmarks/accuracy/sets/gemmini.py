"""Gemmini RTL (16 x 16 int8, 256 KiB scratchpad, 64 KiB accumulator) with the ideal memory of its testbench: cycles.

The memory answers after a fixed latency, in order, one 16-byte beat every `beat_gap` cycles; a write is answered by one beat,
among those of read data. Latency and beats are the row's own options. tiled_matmul_auto_* and tiled_conv_auto_* are library
calls; the microbenchmarks are tile programs of the same transfers and products.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from benchmarks.accuracy import lowering
from benchmarks.accuracy.convolution import Conv
from benchmarks.accuracy.rows import Call, DataSet, Ratio, Row, number, read_csv, unique

CONFIG = "gemmini-16"
PORT_CYCLES = 4  # see dram.frontend in configs/gemmini-16.ini
PITCH = 1024  # bytes from row to row of the microbenchmarks' matrices in memory: rows do not join to longer requests
BANK_BYTES = 65536  # sram.interleave_bytes of configs/gemmini-16.ini
OUTPUT_STATIONARY = (
    ("matrix.dataflow", "output_stationary"),
    ("matrix.pipeline_cycles", "25"),
)  # and 16 in the transposer
Shape = dict[str, int]


def shape_of(text: str) -> Shape:
    return {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", text)}


def memory_options(latency: int, beat_gap: int) -> tuple[tuple[str, str], ...]:
    """The ideal memory of the testbench. Latency: half of it on the way there and half on the way back, with PORT_CYCLES of the requesting
    side. Beats: the bus, whose clock is one every `beat_gap` cycles."""
    return (("dram.frontend", f"{500 * (latency + PORT_CYCLES)} ps"), ("noc.clock", f"{1000 // beat_gap} MHz"))


def _moves(n: int, rows: int, cols: int, elem: str, is_in: bool) -> Call:
    """n transfers of rows x cols between DRAM and scratchpad, one after the other on one queue."""
    far, near = ("dram", "sram")
    size = 1 if elem == "i8" else 4
    pitch = PITCH // size
    lines = [
        ".program moves", f".arg far {'in' if is_in else 'out'}", f".sram {n * rows * cols * size}",
        f".ap far {far} {elem} arg=far dims=[{rows}:{pitch}, {cols}:1] loop0=+{rows}*{pitch}",
        f".ap near {near} {elem} dims=[{rows}:{cols}, {cols}:1] loop0=+{rows}*{cols}",
        f".queue dma{0 if is_in else 1}", f"loop {n}",
        f"dma_copy dst={'near' if is_in else 'far'} src0={'far' if is_in else 'near'}", "endloop",
    ]  # fmt: skip
    return {"op": "text", "source": "\n".join(lines) + "\n", "args": [n * rows * PITCH]}


def _results_out(n: int, rows: int, cols: int, elem: str) -> Call:
    """n results of the accumulator, converted on the way to memory: mvout from the accumulator."""
    pitch = PITCH // (1 if elem == "i8" else 4)
    lines = [
        ".program results_out", ".arg far out", f".acc {rows * cols * 4}",
        f".ap sums acc i32 dims=[{rows}:{cols}, {cols}:1]",
        f".ap far dram {elem} arg=far dims=[{rows}:{pitch}, {cols}:1] loop0=+{rows}*{pitch}",
        ".queue dma1", f"loop {n}", "dma_copy dst=far src0=sums", "endloop",
    ]  # fmt: skip
    return {"op": "text", "source": "\n".join(lines) + "\n", "args": [n * rows * PITCH]}


def _products(n: int, rows: int, dim: int, keep: bool) -> Call:
    """n products of rows x dim by dim x dim, weights loaded for each of them, or kept from the first; operands in banks of their own."""
    lines = [
        ".program products", f".sram {BANK_BYTES + dim * dim}", f".acc {4 * rows * dim}",
        f".ap a sram i8 dims=[{rows}:{dim}, {dim}:1]", f".ap b sram i8 base={BANK_BYTES} dims=[{dim}:{dim}, {dim}:1]",
        f".ap d acc i32 dims=[{rows}:{dim}, {dim}:1]", ".queue matrix0",
    ]  # fmt: skip
    if keep:
        lines.append("mm dst=d src0=a src1=b")
    count = n - 1 if keep else n
    if count:
        lines += [f"loop {count}", f"mm dst=d src0=a src1=b{' keep' if keep else ''}", "endloop"]
    return {"op": "text", "source": "\n".join(lines) + "\n"}


def _micro(operation: str, s: Shape) -> Call | None:
    makers: dict[str, Callable[[], Call]] = {
        "mvin_spad": lambda: _moves(s["n"], s["rows"], s["cols"], "i8", True),
        "mvin_acc32": lambda: _moves(s["n"], s["rows"], s["cols"], "i32", True),
        "mvout_spad8": lambda: _moves(s["n"], s["rows"], s["cols"], "i8", False),
        "mvout_acc8": lambda: _results_out(s["n"], s["rows"], s["cols"], "i8"),
        "mvout_acc32": lambda: _results_out(s["n"], s["rows"], s["cols"], "i32"),
        "ws_preload_compute": lambda: _products(s["n"], s["a_rows"], s["dim"], False),
        "ws_preload_compute_kacc": lambda: _products(s["n"], s["a_rows"], s["dim"], False),
        "ws_reuse_compute": lambda: _products(s["n"], s["a_rows"], s["dim"], True),
        "os_preload_compute": lambda: _products(s["n"], s["dim"], s["dim"], False),
        "os_kacc_compute": lambda: _products(s["n"], s["dim"], s["dim"], False),
    }
    return makers[operation]() if operation in makers else None


def _work(operation: str, s: Shape, mapping: str) -> tuple[str, lowering.Calls, float, float, str]:
    """(class, calls, flops, bytes, why refused)."""
    if operation.startswith("tiled_matmul"):
        m, k, n = s["M"], s["K"], s["N"]
        calls = lowering.gemm(m, n, k, "i8", out="i8")
        return "gemm", calls, 2.0 * m * n * k, float(m * k + k * n + m * n), ""
    if operation.startswith("tiled_conv"):
        conv = Conv(1, s["in"], s["in"], s["in_ch"], s["out_ch"], s["kernel"], s["stride"], s["pad"])
        return "conv", [(1, {**conv.call("i8", "i8"), "bias": True})], conv.flops, float(conv.elems), ""
    call = _micro(operation, s)
    if call is None:
        return operation, [], 0.0, 0.0, f"{operation}: no rule for this operation"
    n, rows = s["n"], s.get("rows", s.get("a_rows", s.get("dim", 1)))
    if "dim" in s:
        return operation, [(1, call)], 2.0 * n * rows * s["dim"] ** 2, 0.0, ""
    return operation, [(1, call)], 0.0, float(n * rows * s["cols"] * s.get("elem_bytes", 1)), ""


def _is_tiled(operation: str) -> bool:
    return operation.startswith("tiled")


def reader(wanted: Callable[[str], bool]) -> Callable[[Path, str], list[Row]]:
    def read(path: Path, mapping: str) -> list[Row]:
        table = [row for row in read_csv(path) if wanted(row["operation"])]
        names = unique(
            f"{r['operation']} {r['shape']} latency {r['mem_latency_cycles']} gap {r['beat_gap']}" for r in table
        )
        rows = []
        for name, row in zip(names, table):
            group, calls, flops, nbytes, refused = _work(row["operation"], shape_of(row["shape"]), mapping)
            options = memory_options(int(row["mem_latency_cycles"]), int(row["beat_gap"]))
            if row["operation"].endswith("_os") or row["operation"].startswith("os_"):
                options = (*options, *OUTPUT_STATIONARY)
            rows.append(Row(name, group, tuple(calls), flops, nbytes, number(row, "cycles"), options, refused))
        return rows

    return read


LATENCY = Ratio("memory latency 20 -> 100", "latency 20 gap 1", "latency 100 gap 1")
BEAT_GAP = Ratio("beat gap 1 -> 2", "latency 20 gap 1", "latency 20 gap 2")

SETS = [
    DataSet(
        "rtl_gemmini",
        "rtl_gemmini*.csv",
        CONFIG,
        "cycles",
        "RTL",
        reader(_is_tiled),
        "gemmini-like",
        limit_pct=5.0,
        ratios=(LATENCY, BEAT_GAP),
    ),
    DataSet(
        "rtl_gemmini_micro",
        "rtl_gemmini*.csv",
        CONFIG,
        "cycles",
        "RTL",
        reader(lambda op: not _is_tiled(op)),
        limit_pct=10.0,
        ratios=(LATENCY,),
    ),
]
