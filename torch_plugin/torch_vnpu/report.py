"""Builds the dictionary of report.json (schema vnpu-report/1) from a profile. Everything else is made from it.

Times are integers in picoseconds of simulated time, sizes in bytes, rates per second; shares are fractions of 1.
"""

from __future__ import annotations

import os
import platform
from typing import Any

from . import profile_blob, report_hints, report_mapping, report_ops, report_time
from .profile_blob import KERNEL, NO_RECORD, Profile
from .report_peaks import Peaks, peaks_of

SCHEMA = "vnpu-report/1"
VERSION = "0.1.0"

FIDELITY = [
    "Values and time come from the same tile programs: every operator was executed and timed as one instruction stream.",
    "Matrix, vector and DMA engines, scratchpad bandwidth, the crossbar and DRAM (banks, rows, refresh) are simulated "
    "cycle-approximately by events; each unit is exact against its own closed form.",
    "Streams are served one launch after another; DRAM banks start precharged at each epoch (docs/fidelity.md tells the cost).",
    "Host time is a virtual clock of configured costs per call; work of the host program itself is not charged.",
    "Operators that fall back to the host are priced by host.flops and host.bandwidth, their copies by the link model.",
    "The default chip is no existing product: its numbers are not calibrated against silicon.",
]


def _dram(profile: Profile, peaks: Peaks) -> dict[str, Any]:
    totals = dict.fromkeys(
        (
            "read_bytes",
            "written_bytes",
            "bus_read_bytes",
            "bus_written_bytes",
            "row_hits",
            "row_closed",
            "row_conflicts",
            "cache_hits",
            "cache_misses",
            "cache_evicted",
        ),
        0,
    )
    for row in profile.launches:
        read, written = report_ops.launch_bytes(profile, row)
        totals["read_bytes"] += read
        totals["written_bytes"] += written
        if int(row["record"]) != NO_RECORD:
            counters = profile.records[int(row["record"])].counters
            for key in totals.keys() - {"read_bytes", "written_bytes"}:
                totals[key] += counters[key]
    moved = totals["read_bytes"] + totals["written_bytes"]
    totals["peak_bytes_per_s"] = int(peaks.dram_bytes)
    totals["achieved_bytes_per_s"] = moved * 10**12 // profile.total_ps if profile.total_ps else 0
    return totals


def _utilisation(ops: list[report_ops.Op], profile: Profile, peaks: Peaks, dram: dict) -> dict[str, Any]:
    seconds = profile.total_ps * 1e-12
    at_peak = sum(2 * op.counters["macs"] / peaks.flops_of(op.dtype) for op in ops if peaks.flops_of(op.dtype))
    macs = sum(op.counters["macs"] for op in ops)
    padded = sum(op.counters["padded_macs"] for op in ops)
    elems = sum(op.counters["vector_elems"] for op in ops)
    return {
        "mfu": at_peak / seconds if seconds else 0.0,
        "mbu": dram["achieved_bytes_per_s"] / peaks.dram_bytes if peaks.dram_bytes else 0.0,
        "vector": elems / peaks.vector_elems / seconds if seconds and peaks.vector_elems else 0.0,
        "array_fill": macs / padded if padded else None,
        "peak_flops_per_s": {name: int(value) for name, value in peaks.matrix_flops.items()},
        "peak_vector_elems_per_s": int(peaks.vector_elems),
    }


def _roofline(table: list[dict], peaks: Peaks) -> dict[str, Any]:
    """Points in operations per byte and operations per second: matrix points count flops, vector points elements."""
    points = []
    for row in table:
        moved = row["dram_read_bytes"] + row["dram_written_bytes"]
        amount, unit = (row["flops"], "matrix") if row["flops"] else (row["vector_elems"], "vector")
        if row["simulated_ps"] and moved and amount:
            points.append(
                {
                    "op": row["op"], "shapes": row["shapes"], "unit": unit, "intensity": amount / moved,
                    "per_s": amount / (row["simulated_ps"] * 1e-12), "simulated_ps": row["simulated_ps"],
                }
            )  # fmt: skip
    roofs = [{"name": f"matrix {name}", "per_s": value} for name, value in peaks.matrix_flops.items()]
    roofs.append({"name": "vector", "per_s": peaks.vector_elems})
    return {"bandwidth_bytes_per_s": peaks.dram_bytes, "roofs": roofs, "points": points[:1000]}


def _energy(profile: Profile, link_bytes: int) -> dict[str, Any]:
    """Picojoules by part of the chip: launches from their actions, the link from its payload, static power from the time.
    All zero where the configuration has no [energy]."""
    parts = dict.fromkeys(profile_blob.ENERGY_PARTS, 0)
    used = profile.launches["record"][profile.launches["record"] != NO_RECORD].tolist()
    for index in used:
        for part, fj in profile.records[index].energy_fj.items():
            parts[part] += fj
    parts["link"] = link_bytes * profile.link_fj_per_byte
    by_engine = {part: fj // 1000 for part, fj in parts.items()}
    static_pj = profile.static_mw * profile.total_ps // 1000
    total_pj = sum(by_engine.values()) + static_pj
    return {
        "total_pj": total_pj,
        "by_engine": by_engine,
        "static_pj": static_pj,
        "average_w": total_pj / profile.total_ps if profile.total_ps else 0.0,
    }


def _launches(profile: Profile) -> dict[str, int]:
    rows = profile.launches
    kernels = rows[rows["kind"] == KERNEL]
    return {
        "count": len(rows),
        "kernels": len(kernels),
        "copies": len(rows) - len(kernels),
        "reused": int((kernels["is_reused"] != 0).sum()),
        "distinct": len(profile.records),
        "insns": sum(profile.records[int(i)].counters["insns"] for i in rows["record"][rows["record"] != NO_RECORD]),
    }


def kernel_rows(profile: Profile, tuples: list[tuple]) -> list[dict]:
    """One row per launch, in time order (`kernels` of the report, on request)."""
    names = {entry[0]: entry[1] for entry in tuples}
    rows = []
    for row in profile.launches:
        record = None if int(row["record"]) == NO_RECORD else profile.records[int(row["record"])]
        start, end = profile.span_ps(row)
        kind = profile_blob.KIND_NAMES[int(row["kind"])]
        rows.append(
            {
                "seq": int(row["seq"]), "tag": int(row["tag"]), "op": names.get(int(row["tag"]), ""),
                "kind": kind, "name": record.name if record else kind, "stream": int(row["stream"]),
                "arrival_ps": int(row["arrival_ps"]) - profile.start_ps,
                "start_ps": start - profile.start_ps,
                "duration_ps": end - start,
                "bytes": int(row["bytes"]), "is_reused": bool(row["is_reused"]),
                "key": f"{record.key:016x}" if record else None,
                "counters": dict(record.counters) if record else None,
            }
        )  # fmt: skip
    return rows


def environment() -> dict[str, Any]:
    """What a reader needs to reproduce the run; nothing of it influences simulated time but VNPU_*."""
    import numpy
    import torch

    cpu = platform.processor()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            cpu = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {
        "vnpu": VERSION, "torch": torch.__version__, "numpy": numpy.__version__, "python": platform.python_version(),
        "platform": platform.platform(), "cpu": cpu, "cpus": os.cpu_count(), "torch_threads": torch.get_num_threads(),
        "variables": {key: value for key, value in sorted(os.environ.items()) if key.startswith("VNPU_")},
    }  # fmt: skip


def build(
    blob: bytes,
    tuples: list[tuple],
    machine: dict[str, Any],
    config_text: str,
    wall_s: float,
    *,
    title: str = "",
    kernels: bool = False,
    memory_rate: tuple[int, int] | None = None,
    env: dict[str, Any] | None = None,
) -> tuple[dict[str, Any], Profile]:
    """The report and the parsed profile (traces are made from it).

    Parameters
    ----------
    blob, tuples : what `torch_vnpu._C._profile_end()` returned.
    machine, config_text : `_C._machine()`, `_C._config_text()`.
    wall_s : seconds of wall time inside the profile.
    kernels : add one row per launch.
    memory_rate : bytes per second of a stream and of random reads, measured on the chip (`_C._memory_rate()`).
    """
    profile = profile_blob.parse(blob)
    peaks = peaks_of(machine)
    line = report_time.timeline_of(profile)
    engines = report_time.engine_causes(profile, line)
    ops = report_ops.collect(profile, tuples)
    table = report_ops.op_table(ops, profile.total_ps, peaks)
    dram = _dram(profile, peaks)
    dram["stream_bytes_per_s"], dram["random_bytes_per_s"] = memory_rate or (None, None)
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "title": title,
        "config": {"name": machine["name"], "effective": config_text},
        "time": {
            "simulated_ps": profile.total_ps,
            "wall_s": wall_s,
            "slowdown": wall_s / (profile.total_ps * 1e-12) if profile.total_ps else None,
            "core_clock_hz": int(machine["core_clock_hz"]),
        },
        "flops": sum(2 * op.counters["macs"] for op in ops),
        "utilisation": _utilisation(ops, profile, peaks, dram),
        "coverage": report_ops.coverage(ops),
        "timeline": vars(line).copy(),
        "launches": _launches(profile),
        "engines": engines,
        "engine_kinds": report_time.engine_kinds(engines),
        "dram": dram,
        "energy": _energy(profile, sum(op.link_bytes for op in ops)),
        "link": {"bytes": sum(op.link_bytes for op in ops), "peak_bytes_per_s": int(peaks.link_bytes)},
        "memory": {"peak_bytes": profile.memory_peak_bytes, "capacity_bytes": int(machine["dram_bytes"])},
        "op_table": table,
        "op_types": report_ops.op_types(ops, profile.total_ps),
        "mapping": report_mapping.mapping_rows(ops),
        "modules": report_ops.modules(ops, profile.total_ps),
        "roofline": _roofline(table, peaks),
        "fidelity": FIDELITY,
        "environment": environment() if env is None else env,
    }
    report["hints"] = report_hints.hints_of(report)
    if kernels:
        report["kernels"] = kernel_rows(profile, tuples)
    return report, profile
