"""Per-operator tables of a report: what each operator took, moved and computed, and what bounds it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from .profile_blob import COUNTERS, D2D, D2H, FILL, H2D, KERNEL, KIND_NAMES, NO_RECORD, Profile
from .report_peaks import Peaks

# An operator whose best-used unit stays below this share of its peak is bound by overheads (fill, set-up, latency).
OVERHEAD_BELOW = 0.35


@dataclass
class Op:
    """One dispatched operator (or, with dispatched False, launches that no operator owns)."""

    op: str
    dtype: str
    shapes: str
    where: str
    module: str
    host_ps: int
    dispatched: bool = True
    device_ps: int = 0
    launches: int = 0
    kernels: int = 0
    link_bytes: int = 0
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    mappings: list[dict] = field(default_factory=list)

    @property
    def simulated_ps(self) -> int:
        return self.device_ps + self.host_ps


def launch_bytes(profile: Profile, row) -> tuple[int, int]:
    """DRAM bytes (read, written) of one launch: of its patterns, or of the copy or fill itself."""
    if int(row["record"]) != NO_RECORD:
        counters = profile.records[int(row["record"])].counters
        return counters["dram_read_bytes"], counters["dram_written_bytes"]
    kind, size = int(row["kind"]), int(row["bytes"])
    return (size if kind in (D2H, D2D) else 0), (size if kind in (H2D, D2D, FILL) else 0)


def collect(profile: Profile, tuples: list[tuple]) -> list[Op]:
    """Joins the operators of `_C._profile_end()` with the launches that carry their tags."""
    by_tag = {tag: Op(op, dtype, shapes, where, module, host_ps, mappings=list(*mappings))
              for tag, op, dtype, shapes, where, host_ps, module, *mappings in tuples}  # fmt: skip
    if len(by_tag) != len(tuples):
        raise ValueError("two operators of the profile share a tag")
    loose: dict[str, Op] = {}
    for row in profile.launches:
        op = by_tag.get(int(row["tag"]))
        if op is None:
            name = f"runtime::{KIND_NAMES[int(row['kind'])]}"
            op = loose.setdefault(name, Op(name, "", "", "device", "", 0, dispatched=False))
        op.launches += 1
        start, end = profile.span_ps(row)
        op.device_ps += end - start
        if int(row["kind"]) in (H2D, D2H):
            op.link_bytes += int(row["bytes"])
        read, written = launch_bytes(profile, row)
        if int(row["record"]) == NO_RECORD:
            op.counters["dram_read_bytes"] += read
            op.counters["dram_written_bytes"] += written
            continue
        op.kernels += int(row["kind"]) == KERNEL
        for key, value in profile.records[int(row["record"])].counters.items():
            op.counters[key] += value
    return list(by_tag.values()) + list(loose.values())


def speed_of_light(op: Op, peaks: Peaks) -> dict[str, float]:
    """Share of each unit's peak over the operator's device time."""
    seconds = op.device_ps * 1e-12
    if seconds <= 0:
        return {"matrix": 0.0, "vector": 0.0, "dram": 0.0}
    counters, flops = op.counters, peaks.flops_of(op.dtype)
    moved = counters["dram_read_bytes"] + counters["dram_written_bytes"]
    return {
        "matrix": 2 * counters["macs"] / flops / seconds if flops else 0.0,
        "vector": counters["vector_elems"] / peaks.vector_elems / seconds if peaks.vector_elems else 0.0,
        "dram": moved / peaks.dram_bytes / seconds if peaks.dram_bytes else 0.0,
    }


def bound_by(op: Op, sol: dict[str, float]) -> str:
    if op.host_ps > op.device_ps:
        return "host"
    if op.link_bytes and not op.kernels:
        return "link"
    if not op.device_ps:
        return "-"
    best = max(sol, key=lambda key: sol[key])
    return best if sol[best] >= OVERHEAD_BELOW else "overhead"


def _add(total: Op, op: Op) -> None:
    total.host_ps += op.host_ps
    total.device_ps += op.device_ps
    total.launches += op.launches
    total.kernels += op.kernels
    total.link_bytes += op.link_bytes
    total.mappings += op.mappings
    for key, value in op.counters.items():
        total.counters[key] += value


def op_table(ops: list[Op], total_ps: int, peaks: Peaks) -> list[dict]:
    """One row per (op, dtype, shapes, where), longest first."""
    groups: dict[tuple, tuple[Op, list[int]]] = {}
    for op in ops:
        key = (op.op, op.dtype, op.shapes, op.where)
        if key not in groups:
            groups[key] = (Op(*key, module="", host_ps=0, dispatched=op.dispatched), [0])
        _add(groups[key][0], op)
        groups[key][1][0] += 1
    rows = []
    for op, (count,) in groups.values():
        sol, counters = speed_of_light(op, peaks), op.counters
        moved = counters["dram_read_bytes"] + counters["dram_written_bytes"]
        rows.append(
            {
                "op": op.op, "dtype": op.dtype, "shapes": op.shapes, "where": op.where,
                "count": count, "launches": op.launches,
                "simulated_ps": op.simulated_ps, "share": op.simulated_ps / total_ps if total_ps else 0.0,
                "flops": 2 * counters["macs"],
                "vector_elems": counters["vector_elems"],
                "dram_read_bytes": counters["dram_read_bytes"],
                "dram_written_bytes": counters["dram_written_bytes"],
                "intensity": 2 * counters["macs"] / moved if moved else 0.0,
                "array_fill": counters["macs"] / counters["padded_macs"] if counters["padded_macs"] else None,
                "speed_of_light": sol, "bound_by": bound_by(op, sol),
                "mapping": op.mappings[0] if op.mappings else None,
            }
        )  # fmt: skip
    return sorted(rows, key=lambda row: (-row["simulated_ps"], row["op"], row["shapes"]))


def op_types(ops: list[Op], total_ps: int) -> list[dict]:
    """Statistics per operator name over its dispatches, longest first."""
    times: dict[str, list[int]] = {}
    for op in ops:
        times.setdefault(op.op, []).append(op.simulated_ps)
    rows = [
        {
            "op": name, "count": len(values), "simulated_ps": sum(values),
            "share": sum(values) / total_ps if total_ps else 0.0,
            "mean_ps": round(statistics.fmean(values)), "median_ps": round(statistics.median(values)),
            "min_ps": min(values), "max_ps": max(values), "stddev_ps": round(statistics.pstdev(values)),
        }
        for name, values in times.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-row["simulated_ps"], row["op"]))


def modules(ops: list[Op], total_ps: int) -> list[dict]:
    """One row per module path, every path including the modules inside it; [] when no operator carries a path."""
    rows: dict[str, dict] = {}
    for op in ops:
        parts = op.module.split(".") if op.module else []
        for depth in range(1, len(parts) + 1):
            path = ".".join(parts[:depth])
            row = rows.setdefault(path, {"module": path, "depth": depth, "count": 0, "simulated_ps": 0, "flops": 0})
            row["count"] += 1
            row["simulated_ps"] += op.simulated_ps
            row["flops"] += 2 * op.counters["macs"]
    for row in rows.values():
        row["share"] = row["simulated_ps"] / total_ps if total_ps else 0.0
    return list(rows.values())


def coverage(ops: list[Op]) -> dict:
    """Dispatched operators by where they ran; runtime copies that no operator owns do not count."""
    groups: dict[tuple, dict] = {}
    for op in ops:
        if not op.dispatched:
            continue
        key = (op.op, op.dtype, op.where)
        row = groups.setdefault(key, {"op": op.op, "dtype": op.dtype, "count": 0, "where": op.where, "simulated_ps": 0})
        row["count"] += 1
        row["simulated_ps"] += op.simulated_ps
    rows = sorted(groups.values(), key=lambda row: (-row["simulated_ps"], row["op"]))
    return {
        "native": sum(row["count"] for row in rows if row["where"] == "device"),
        "fallback": sum(row["count"] for row in rows if row["where"] == "host"),
        "ops": rows,
    }
