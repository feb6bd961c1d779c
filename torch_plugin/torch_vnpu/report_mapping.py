"""The table "mapping" of a report: which tiling each matrix product, convolution and attention got, and what it costs.

A mapping is what `_C._profile_end()` tells of one launch (kernels/kern_plan.h): `{family, batch, m, n, k, chosen, next,
chosen_by, candidates, dram_bytes, compulsory_bytes, useful_macs, padded_macs}`; a tiling (`chosen`, `next`) is `{order,
m, n, k, heads, buffers, grid, predicted_cycles, measured_ps}`.
"""

from __future__ import annotations

import json
from typing import Any

from .report_ops import Op
from .units import bytes_text, percent_text, si_text, time_text


def mapping_rows(ops: list[Op]) -> list[dict[str, Any]]:
    """One row per operator name, dtype and mapping, the most work first; `count` launches had it."""
    rows: dict[tuple, dict[str, Any]] = {}
    for op in ops:
        for mapping in op.mappings:
            key = (op.op, op.dtype, json.dumps(mapping, sort_keys=True))
            row = rows.setdefault(key, {"op": op.op, "dtype": op.dtype, "count": 0, **mapping})
            row["count"] += 1
    return sorted(rows.values(), key=lambda row: (-row["count"] * row["useful_macs"], row["op"], row["m"], row["n"]))


def next_costs(mapping: dict[str, Any]) -> float | None:
    """What the next-best tiling costs more, as a share: of simulated time where both were timed, else by closed form
    (negative: the closed form would have preferred it). None: there is none."""
    chosen, other = mapping["chosen"], mapping["next"]
    if other is None:
        return None
    unit = "measured_ps" if chosen["measured_ps"] and other["measured_ps"] else "predicted_cycles"
    return other[unit] / chosen[unit] - 1.0 if chosen[unit] else None


def shape_text(mapping: dict[str, Any]) -> str:
    """ "12 x [128, 128, 32]": batch and m, n, k."""
    batch = f"{mapping['batch']} x " if mapping["batch"] > 1 else ""
    return f"{batch}[{mapping['m']}, {mapping['n']}, {mapping['k']}]"


def tiling_text(tiling: dict[str, Any] | None) -> str:
    """ "weights 512 x 128 x 384, 2 buffers on 4 x 1"; heads where several share a tile."""
    if tiling is None:
        return "-"
    heads = f"{tiling['heads']} heads of " if tiling["heads"] > 1 else ""
    grid = " x ".join(str(size) for size in tiling["grid"])
    buffers = f"{tiling['buffers']} buffer{'s' if tiling['buffers'] != 1 else ''}"
    return f"{tiling['order']} {heads}{tiling['m']} x {tiling['n']} x {tiling['k']}, {buffers} on {grid}"


HEADINGS = (
    "operator",
    "m, n, k",
    "calls",
    "tiling",
    "by",
    "DRAM",
    "compulsory",
    "ratio",
    "MACs",
    "useful",
    "next best",
    "costs",
)


def cells(row: dict[str, Any]) -> list[str]:
    """One text per heading."""
    more = next_costs(row)
    time = row["chosen"]["measured_ps"]
    by = f"{row['chosen_by']} {time_text(time)}" if time else row["chosen_by"]
    return [
        row["op"], shape_text(row), str(row["count"]), tiling_text(row["chosen"]), by,
        bytes_text(row["dram_bytes"]), bytes_text(row["compulsory_bytes"]),
        f"{row['dram_bytes'] / row['compulsory_bytes']:.2f}" if row["compulsory_bytes"] else "-",
        si_text(row["useful_macs"]),
        percent_text(row["useful_macs"] / row["padded_macs"]) if row["padded_macs"] else "-",
        tiling_text(row["next"]), f"{more * 100:+.1f}%" if more is not None else "-",
    ]  # fmt: skip
