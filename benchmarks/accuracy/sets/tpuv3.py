"""TPU v3, one core: cycles of single operators, of ResNets and of BERT blocks; f32 tensors through XLA.

Names: gemm_MxKxN (cubes in the file), conv_N x H x W x Cin x Cout x K x stride x pad, layernorm_rows x cols, softmax_rows x cols,
attention_heads x seq x head dimension, bert_* (one encoder block, sequence 512), resnet*.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.accuracy import lowering
from benchmarks.accuracy.convolution import Conv, resnet
from benchmarks.accuracy.rows import DataSet, Row, number, read_csv, unique

CONFIG = "tpuv3-like"
DTYPE, BYTES = "f32", 4
BERT = {"bert_base": (768, 12), "bert_large": (1024, 16), "bert_xlarge": (2048, 32)}  # hidden, heads
BERT_SEQ = 512


def _sizes(name: str) -> list[int]:
    return [int(size) for size in re.findall(r"\d+", name.split("_", 1)[1])]


def _work(name: str, mapping: str) -> tuple[str, lowering.Calls, float, float, str]:
    """(class, calls, flops, bytes, why refused) of a row."""
    kind = name.split("_")[0]
    if kind == "gemm":
        m, k, n = _sizes(name)
        return kind, lowering.gemm(m, n, k, DTYPE), 2.0 * m * n * k, BYTES * (m * k + k * n + m * n), ""
    if kind in ("layernorm", "softmax"):
        rows, cols = _sizes(name)
        is_norm = kind == "layernorm"
        calls = lowering.layer_norm(rows, cols, DTYPE, mapping) if is_norm else lowering.softmax(rows, cols, DTYPE)
        return kind, calls, 8.0 * rows * cols, 2.0 * BYTES * rows * cols, ""
    if kind == "attention":
        heads, seq, dim = _sizes(name)
        flops = 4.0 * heads * seq * seq * dim + 5.0 * heads * seq * seq
        return kind, lowering.attention(heads, seq, dim, DTYPE, mapping), flops, 4.0 * BYTES * heads * seq * dim, ""
    if kind == "bert" and name in BERT:
        hidden, heads = BERT[name]
        flops = 2.0 * BERT_SEQ * 12 * hidden * hidden + 4.0 * BERT_SEQ * BERT_SEQ * hidden
        nbytes = BYTES * (12.0 * hidden * hidden + 20.0 * BERT_SEQ * hidden)
        return kind, lowering.encoder_block(BERT_SEQ, hidden, heads, DTYPE, mapping), flops, nbytes, ""
    if kind == "conv":
        batch, h, w, c_in, c_out, kernel, stride, pad = _sizes(name)
        convs = [(1, Conv(batch, h, w, c_in, c_out, kernel, stride, pad))]
    elif re.fullmatch(r"resnet\d+", name):
        convs = resnet(int(name[6:]), 1)
        kind = "resnet"
    else:
        return kind, [], 0.0, 0.0, f"{name}: no rule for this kind of row"
    calls = [(times, conv.call(DTYPE, "f32")) for times, conv in convs]
    flops = sum(times * conv.flops for times, conv in convs)
    return kind, calls, flops, BYTES * sum(times * conv.elems for times, conv in convs), ""


def read(path: Path, mapping: str) -> list[Row]:
    table = read_csv(path)
    rows = []
    for name, row in zip(unique(row["workload"] for row in table), table):
        group, calls, flops, nbytes, refused = _work(row["workload"], mapping)
        rows.append(Row(name, group, tuple(calls), flops, nbytes, number(row, "tpuv3_cycles"), refused=refused))
    return rows


SETS = [DataSet("tpuv3_cycles", "tpuv3_cycles*.csv", CONFIG, "cycles", "silicon", read, "xla-like", limit_pct=10.0)]
