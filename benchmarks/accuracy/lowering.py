"""Composite operators as a vendor's framework and compiler emit them: sequences of library kernels.

Mapping `best` uses the library's fused kernels. `xla-like` follows XLA for TPU: no fusion across a reduction, so

- softmax: four kernels, six passes over the tensor (reads and writes, counted one by one): the kernel library's own rule;
- layer norm as its primitives: mean | centre | square and mean | scale by 1/std | weight and bias: eight passes;
- attention: scores by a matrix product, maximum, exp, the sum beside, and the division folded into the second product.

Rules by operator class, never by shape.
"""

from __future__ import annotations

from typing import Any

from benchmarks.accuracy.rows import Call

Calls = list[tuple[int, Call]]
FUSED = "best"


GELU_TANH = 3  # kern_activation_t


def gemm(m: int, n: int, k: int, dtype: str, batch: int = 1, out: str | None = None, **epilogue: Any) -> Calls:
    """epilogue: activation, residual: done on the way out, as XLA fuses elementwise consumers of a product."""
    call: Call = {"op": "gemm", "m": m, "n": n, "k": k, "dtype": dtype, **epilogue}
    if batch > 1:
        call["batch"] = batch
    if out:
        call["out"] = out
    return [(1, call)]


def pointwise(
    rows: int, cols: int, func: str, dtype: str, by_row: tuple[int, ...] = (), by_col: tuple[int, ...] = ()
) -> Calls:
    call: Call = {"op": "pointwise", "shape": [rows, cols], "func": func, "dtype": dtype}
    if by_row:
        call["rows"] = list(by_row)
    if by_col:
        call["cols"] = list(by_col)
    return [(1, call)]


def reduction(rows: int, cols: int, kind: str, dtype: str) -> Calls:
    return [(1, {"op": "reduce", "rows": rows, "cols": cols, "kind": kind, "dtype": dtype})]


def softmax(rows: int, cols: int, dtype: str) -> Calls:
    return [(1, {"op": "softmax", "rows": rows, "cols": cols, "dtype": dtype})]


def layer_norm(rows: int, cols: int, dtype: str, mapping: str) -> Calls:
    if mapping == FUSED:
        return [(1, {"op": "layer_norm", "rows": rows, "cols": cols, "dtype": dtype})]
    return [
        *reduction(rows, cols, "mean", dtype),
        *pointwise(rows, cols, "sub", dtype, (1,)),
        *reduction(rows, cols, "mean", dtype),
        *pointwise(rows, cols, "mul", dtype, (1,)),
        *pointwise(rows, cols, "affine", dtype, (), (1, 2)),
    ]


def attention(heads: int, seq: int, dim: int, dtype: str, mapping: str) -> Calls:
    if mapping == FUSED:
        return [(1, {"op": "attention", "heads": heads, "seq": seq, "dim": dim, "dtype": dtype})]
    return [
        *gemm(seq, seq, dim, dtype, heads),
        *reduction(heads * seq, seq, "max", dtype),
        *pointwise(heads * seq, seq, "exp_sub", dtype, (1,)),
        *gemm(seq, dim, seq, dtype, heads),
    ]


def encoder_block(seq: int, hidden: int, heads: int, dtype: str, mapping: str) -> Calls:
    """A BERT block: three projections, attention, output projection, two norms, feed-forward of 4 x hidden."""
    inner = 4 * hidden
    norm = layer_norm(seq, hidden, dtype, mapping)
    return [
        *(3 * gemm(seq, hidden, hidden, dtype)),
        *attention(heads, seq, hidden // heads, dtype, mapping),
        *gemm(seq, hidden, hidden, dtype, residual=True),
        *norm,
        *gemm(seq, inner, hidden, dtype, activation=GELU_TANH),
        *gemm(seq, hidden, inner, dtype, residual=True),
        *norm,
    ]
