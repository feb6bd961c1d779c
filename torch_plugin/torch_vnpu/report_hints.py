"""Ranked advice from a finished report: each hint has a condition that held, its numbers, and an upper bound of the gain."""

from __future__ import annotations

from typing import Any

MAX_HINTS = 4


def _share(report: dict, kind: str, *causes: str) -> float:
    """Mean share of the time that engines of a kind spent on the causes."""
    for row in report["engine_kinds"]:
        if row["name"] == kind and row["total_ps"]:
            return sum(row["causes_ps"].get(cause, 0) for cause in causes) / row["total_ps"]
    return 0.0


def _hint(title: str, detail: str, gain: float) -> dict[str, Any]:
    return {"title": title, "detail": detail, "gain_at_most": round(gain, 4)}


def _time_hints(report: dict, total: int) -> list[dict]:
    line, hints = report["timeline"], []
    gap, host, copy = (line[key] / total for key in ("launch_gap_ps", "host_ps", "copy_ps"))
    if gap > 0.1:
        hints.append(_hint(
            f"launch-bound: {gap:.0%} of the time goes to the command path between kernels",
            f"{report['launches']['kernels']} kernels ran. Larger batches, fused operators or a captured graph mean fewer "
            "launches; cmd.launch_gap, cmd.doorbell, cmd.fetch and cmd.decode set the cost of one.", gap))  # fmt: skip
    if host > 0.1:
        hints.append(_hint(
            f"host-bound: for {host:.0%} of the time nothing was submitted",
            "Avoid .item(), .cpu() and synchronize() between operators; host.launch and host.sync set their prices.", host))  # fmt: skip
    if copy > 0.05:
        hints.append(_hint(
            f"copies over the host link take {copy:.0%} of the time while no kernel runs",
            "Keep tensors on the device, or overlap copies with non_blocking=True and pinned memory.", copy))  # fmt: skip
    fallen = [row for row in report["coverage"]["ops"] if row["where"] == "host"]
    lost = sum(row["simulated_ps"] for row in fallen) / total
    if fallen and lost > 0.005:
        names = ", ".join(row["op"] for row in fallen[:3])
        hints.append(_hint(
            f"{report['coverage']['fallback']} operators fell back to the host and cost {lost:.0%} of the time",
            f"Costliest: {names}. `python -m torch_vnpu.coverage` lists what is native.", lost))  # fmt: skip
    return hints


def _matrix_hints(report: dict) -> list[dict]:
    hints, fill = [], report["utilisation"]["array_fill"]
    unused = _share(report, "matrix", "unused_lanes")
    if fill is not None and fill < 0.7 and unused > 0.05:
        hints.append(_hint(
            f"the matrix array is under-filled: {fill:.0%} of the cells that ran had work",
            "Dimensions that are no multiple of matrix.rows (K) and matrix.cols (N) pad the last tile; a smaller array or "
            "padded weights fill it better.", unused))  # fmt: skip
    load = _share(report, "matrix", "weight_load")
    if load > 0.1:
        hints.append(_hint(
            f"weight loading that nothing hides takes {load:.0%} of the matrix engines' time",
            "Few rows stream through each weight tile (small M). Larger batches, or a higher matrix.load_rows_per_cycle.",
            load))  # fmt: skip
    drain = _share(report, "matrix", "fill_drain")
    if drain > 0.1:
        hints.append(_hint(
            f"filling and draining the matrix array takes {drain:.0%} of the matrix engines' time",
            "Short products do not amortise the array's depth: batch them or use a smaller array.", drain))  # fmt: skip
    return hints


def _fusion_hints(report: dict) -> list[dict]:
    """Pointwise and row operators that only move data to and from DRAM."""
    rows = [row for row in report["op_table"] if row["where"] == "device" and row["vector_elems"] and not row["flops"]]
    rows = [row for row in rows if row["bound_by"] == "dram"]
    share = sum(row["share"] for row in rows)
    if share < 0.15:
        return []
    names = ", ".join(dict.fromkeys(row["op"] for row in rows[:3]))
    return [_hint(
        f"operators without matrix work, bound by DRAM, take {share:.0%} of the time",
        f"Longest: {names}. Fused with the product before or after them they would not go through DRAM.", share)]  # fmt: skip


def _memory_hints(report: dict) -> list[dict]:
    hints, dram = [], report["dram"]
    exposed = sum(row["share"] for row in report["op_table"] if row["bound_by"] in ("dram", "overhead"))
    waits = min(_share(report, "dma", "dram"), exposed)  # what other work hides costs nothing
    if dram["peak_bytes_per_s"] and dram["achieved_bytes_per_s"] > 0.7 * dram["peak_bytes_per_s"]:
        share = dram["achieved_bytes_per_s"] / dram["peak_bytes_per_s"]
        hints.append(_hint(
            f"DRAM-bound: {share:.0%} of the peak bandwidth is in use over the whole run",
            "Only fewer bytes help: larger tiles in SRAM (sram.bytes), a narrower dtype, fused operators; or dram.channels.",
            waits))  # fmt: skip
    moved = dram["read_bytes"] + dram["written_bytes"]
    bus = dram["bus_read_bytes"] + dram["bus_written_bytes"]
    if bus and moved and bus > 1.2 * moved:
        hints.append(_hint(
            f"short runs waste DRAM bandwidth: {bus / moved:.2f} bytes cross the bus per byte used",
            "Strided or narrow rows are rounded up to bursts (dram.burst_bytes): make the innermost dimension contiguous.",
            waits * (1 - moved / bus)))  # fmt: skip
    rows = dram["row_hits"] + dram["row_closed"] + dram["row_conflicts"]
    if rows and dram["row_conflicts"] > 0.3 * rows and waits > 0.1:
        hints.append(_hint(
            f"{dram['row_conflicts'] / rows:.0%} of the DRAM accesses close another row first",
            "Streams collide in the same banks: try dram.hash or another dram.mapping.", waits * dram["row_conflicts"] / rows))  # fmt: skip
    setup = _share(report, "dma", "dma_setup")
    if setup > 0.1:
        hints.append(_hint(
            f"DMA set-up takes {setup:.0%} of the DMA queues' time",
            "Transfers are small: dma.descriptor_cycles and dma.run_cycles are paid for each one and each run.", setup))  # fmt: skip
    conflict = max(_share(report, kind, "sram_conflict") for kind in ("matrix", "vector", "dma"))
    if conflict > 0.05:
        hints.append(_hint(
            f"scratchpad bandwidth is short: {conflict:.0%} of an engine's time goes to conflicts",
            "sram.banks, sram.word_bytes and acc.banks set what engines may use at once.", conflict))  # fmt: skip
    return hints


def hints_of(report: dict) -> list[dict]:
    """At most MAX_HINTS, largest possible gain first. Needs every section but `hints`."""
    total = report["time"]["simulated_ps"]
    if not total:
        return []
    found = _time_hints(report, total) + _matrix_hints(report) + _fusion_hints(report) + _memory_hints(report)
    return sorted(found, key=lambda hint: -hint["gain_at_most"])[:MAX_HINTS]
