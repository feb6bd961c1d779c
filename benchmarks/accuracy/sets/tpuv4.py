"""TPU v4: fp16 GEMMs and vector operations that one fused XLA kernel made. Times in us.

Measured columns: fusion_avg (GEMM), avg_duration_us (add, relu, layer norm), <function>_avg_duration_us (activations).
"""

from __future__ import annotations

import ast
from pathlib import Path

from benchmarks.accuracy.rows import DataSet, Row, number, product, read_csv, unique

CONFIG = "tpuv4-like"
# Operations per element, for the baseline.
ACTIVATIONS = {
    "binary": 1, "elu": 4, "leaky": 3, "linear": 1, "parametric": 3, "relu": 1, "selu": 6, "sigmoid": 4, "tanh": 4,
}  # fmt: skip


def read_gemm(path: Path, mapping: str) -> list[Row]:
    table = read_csv(path)
    names = unique(row.get("kernel_name", "") or "gemm" for row in table)
    rows = []
    for name, row in zip(names, table):
        m, n, k = (int(number(row, f"dim_{d}", d.upper()) or 0) for d in "mnk")
        call = {"op": "gemm", "m": m, "n": n, "k": k, "dtype": "f16", "out": "f16"}
        rows.append(
            Row(name, "gemm", ((1, call),), 2.0 * m * n * k, 2.0 * (m * k + k * n + m * n), number(row, "fusion_avg"))
        )
    return rows


def _shape(text: str) -> list[int]:
    return [int(size) for size in ast.literal_eval(text[text.index("(") :])]


def _pointwise(name: str, group: str, shape: list[int], func: str, reads: int, ops: int,
               measured: float | None) -> Row:  # fmt: skip
    call = {"op": "pointwise", "shape": shape, "func": func, "dtype": "f32"}
    elems = product(shape)
    return Row(name, group, ((1, call),), float(ops * elems), 4.0 * (reads + 1) * elems, measured)


def read_pointwise(func: str, reads: int):
    def read(path: Path, mapping: str) -> list[Row]:
        table = read_csv(path)
        names = unique(row["kernel_name"] for row in table)
        return [
            _pointwise(name, func, _shape(row["kernel_name"]), func, reads, 1, number(row, "avg_duration_us"))
            for name, row in zip(names, table)
        ]

    return read


def read_activations(path: Path, mapping: str) -> list[Row]:
    """XLA expands the logistic function to tanh; the others are what their names say."""
    lowered = {"sigmoid": "sigmoid_tanh"} if mapping == "xla-like" else {}
    rows = []
    for row in read_csv(path):
        shape = _shape(row["kernel_shape"])
        for func, ops in ACTIVATIONS.items():
            measured = number(row, f"{func}_avg_duration_us")
            rows.append(
                _pointwise(f"{func} {row['kernel_shape']}", func, shape, lowered.get(func, func), 1, ops, measured)
            )
    names = unique(row.name for row in rows)
    return [Row(**{**vars(row), "name": name}) for name, row in zip(names, rows)]


def read_layer_norm(path: Path, mapping: str) -> list[Row]:
    """Without weight and bias: the source makes them inside the compiled function, constant one and zero, and XLA folds them."""
    table = read_csv(path)
    rows = []
    for name, row in zip(unique(row["kernel_name"] for row in table), table):
        batch, seq, hidden = (int(number(row, c) or 0) for c in ("batch_size", "seq_len", "hidden_dim"))
        call = {"op": "layer_norm", "rows": batch * seq, "cols": hidden, "dtype": "f32", "affine": False}
        elems = batch * seq * hidden
        measured = number(row, "avg_duration_us")
        rows.append(Row(name, "layer_norm", ((1, call),), 8.0 * elems, 8.0 * elems, measured))
    return rows


def _set(name: str, pattern: str, read, limit: float, is_fitted: bool = True) -> DataSet:
    return DataSet(name, pattern, CONFIG, "us", "silicon", read, "xla-like", is_fitted=is_fitted, limit_pct=limit)


SETS = [
    _set("tpuv4_gemm_large", "tpuv4_gemm_large*.csv", read_gemm, 7.0),
    _set("tpuv4_gemm_mid", "tpuv4_gemm_mid*.csv", read_gemm, 6.5),
    _set("tpuv4_add3d", "tpuv4_add3d*.csv", read_pointwise("add", 2), 3.0),
    _set("tpuv4_relu3d", "tpuv4_relu3d*.csv", read_pointwise("relu", 1), 3.0),
    _set("tpuv4_activations", "tpuv4_activations*.csv", read_activations, 3.0),
    _set("tpuv4_layernorm2d", "tpuv4_layernorm2d*.csv", read_layer_norm, 6.0),
]
