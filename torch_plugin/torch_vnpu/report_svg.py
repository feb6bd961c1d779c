"""Charts of the HTML page as inline SVG. Colours come from the page's style sheet (classes), so both themes work."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from .units import bytes_text, percent_text, si_text, time_text

# Causes in the order they are stacked; the group sets the hue, the place in it the shade (templates/report.html.j2).
CAUSE_GROUPS = {
    "work": ("useful",),
    "array": ("unused_lanes", "weight_load", "fill_drain"),
    "memory": ("dma_setup", "dram", "noc", "sram_conflict", "cache"),
    "waiting": ("operand_wait", "semaphore_wait"),
    "control": ("issue", "launch_gap"),
    "idle": ("idle", "other"),
}
CAUSE_TEXT = {
    "useful": "the work itself at full rate",
    "unused_lanes": "array cells or lanes without work",
    "weight_load": "weight preload that nothing hides",
    "fill_drain": "pipeline fill, drain and start-up",
    "dma_setup": "descriptors, per-run cost, completion",
    "dram": "DRAM latency, timing rules, refresh",
    "cache": "lookups of a cache that held it all",
    "noc": "interconnect serialisation and contention",
    "sram_conflict": "scratchpad bandwidth taken by others",
    "operand_wait": "waiting for data that a DMA queue brings",
    "semaphore_wait": "any other semaphore wait",
    "issue": "fetch, decode and issue",
    "launch_gap": "the command path between launches",
    "idle": "no instruction left, or nothing launched",
    "other": "not attributed",
}


def cause_class(cause: str) -> str:
    for group, causes in CAUSE_GROUPS.items():
        if cause in causes:
            return f"c-{group}-{causes.index(cause)}"
    return "c-idle-1"


def cause_order(causes: list[str]) -> list[str]:
    known = [cause for group in CAUSE_GROUPS.values() for cause in group if cause in causes]
    return known + [cause for cause in causes if cause not in known]


def _tip(text: str) -> str:
    return f'data-tip="{escape(text, quote=True)}"'


def cause_bars(rows: list[dict[str, Any]], width: int = 980, label_width: int = 150) -> str:
    """One stacked bar per engine or kind of engine; the parts of a bar sum to 100 % of the profiled time."""
    height, step, inner = 22, 32, width - label_width - 60
    parts = []
    for index, row in enumerate(rows):
        y, x, total = index * step + 4, float(label_width), row["total_ps"]
        name = f"{row['count']} × {row['name']}" if "count" in row else row["name"]
        parts.append(f'<text class="label" x="{label_width - 10}" y="{y + 15}" text-anchor="end">{escape(name)}</text>')
        if not total:
            continue
        for cause in cause_order(list(row["causes_ps"])):
            share = row["causes_ps"][cause] / total
            if share <= 0:
                continue
            tip = f"{name}\n{cause}: {percent_text(share)} ({time_text(row['causes_ps'][cause])})\n{CAUSE_TEXT.get(cause, '')}"
            parts.append(
                f'<rect class="seg {cause_class(cause)}" x="{x:.2f}" y="{y}" width="{max(share * inner, 0.4):.2f}" '
                f'height="{height}" {_tip(tip)}/>'
            )
            x += share * inner
        useful = row["causes_ps"].get("useful", 0) / total
        parts.append(f'<text class="value" x="{label_width + inner + 8}" y="{y + 15}">{percent_text(useful)}</text>')
    return _svg(width, len(rows) * step + 4, "".join(parts), "stacked bars: causes per engine")


def split_bar(parts: list[tuple[str, int, str]], width: int = 980) -> str:
    """One bar of named parts (name, picoseconds, class)."""
    total, x, out = sum(part[1] for part in parts), 0.0, []
    for name, ps, css in parts:
        if not total or not ps:
            continue
        span = ps / total * width
        out.append(
            f'<rect class="seg {css}" x="{x:.2f}" y="2" width="{max(span, 0.4):.2f}" height="26" '
            f"{_tip(f'{name}: {percent_text(ps / total)} ({time_text(ps)})')}/>"
        )
        x += span
    return _svg(width, 30, "".join(out), "bar: parts of the simulated time")


def traffic_bars(rows: list[dict[str, Any]], width: int = 980, label_width: int = 300) -> str:
    """DRAM bytes read and written, one bar per row of the operator table."""
    step, height, inner = 28, 18, width - label_width - 120
    most = max((row["dram_read_bytes"] + row["dram_written_bytes"] for row in rows), default=0)
    parts = []
    for index, row in enumerate(rows):
        y, x = index * step + 4, float(label_width)
        label = f"{row['op']} {row['shapes']}"
        shown = label if len(label) <= 44 else label[:43] + "…"
        parts.append(
            f'<text class="label" x="{label_width - 10}" y="{y + 13}" text-anchor="end" {_tip(label)}>{escape(shown)}</text>'
        )
        for key, css in (("dram_read_bytes", "t-read"), ("dram_written_bytes", "t-written")):
            span = row[key] / most * inner if most else 0.0
            if span:
                tip = f"{label}\n{key.split('_')[1]} {bytes_text(row[key])} in {row['count']} calls"
                parts.append(
                    f'<rect class="seg {css}" x="{x:.2f}" y="{y}" width="{span:.2f}" height="{height}" {_tip(tip)}/>'
                )
                x += span
        both = bytes_text(row["dram_read_bytes"] + row["dram_written_bytes"])
        parts.append(f'<text class="value" x="{x + 8:.1f}" y="{y + 13}">{both}</text>')
    return _svg(width, len(rows) * step + 4, "".join(parts), "bars: DRAM traffic per operator")


class _LogAxis:
    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high = math.floor(math.log10(low)), math.ceil(math.log10(high))
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.low) / max(self.high - self.low, 1)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def roofline(data: dict[str, Any], width: int = 980, height: int = 420) -> str:
    """Log-log roofline: roofs of the units, the DRAM slope, one dot per row of the operator table (area: time)."""
    points = [point for point in data["points"] if point["intensity"] > 0 and point["per_s"] > 0]
    bandwidth, roofs = data["bandwidth_bytes_per_s"], data["roofs"]
    if not points or not roofs or not bandwidth:
        return '<p class="muted">No operator computed anything that a roofline could show.</p>'
    top = max(roof["per_s"] for roof in roofs)
    ridge = top / bandwidth
    x = _LogAxis(
        min([p["intensity"] for p in points] + [0.1]),
        max([p["intensity"] for p in points] + [ridge * 4]),
        80,
        width - 20,
    )
    y = _LogAxis(min([p["per_s"] for p in points] + [top / 1e3]), top * 1.5, height - 44, 14)
    parts = []
    for tick in x.ticks():
        parts.append(f'<line class="grid" x1="{x.at(tick):.1f}" x2="{x.at(tick):.1f}" y1="{y.end}" y2="{y.start}"/>')
        parts.append(f'<text class="tick" x="{x.at(tick):.1f}" y="{y.start + 18}" text-anchor="middle">{tick:g}</text>')
    for tick in y.ticks():
        parts.append(f'<line class="grid" x1="{x.start}" x2="{x.end}" y1="{y.at(tick):.1f}" y2="{y.at(tick):.1f}"/>')
        parts.append(
            f'<text class="tick" x="{x.start - 8}" y="{y.at(tick) + 4:.1f}" text-anchor="end">{si_text(tick)}</text>'
        )
    parts.append(
        f'<text class="tick" x="{(x.start + x.end) / 2}" y="{height - 6}" text-anchor="middle">operations per DRAM byte</text>'
    )
    left = 10.0**x.low
    slope_from = max(left, 10.0**y.low / bandwidth)
    slope_tip = _tip(f"DRAM {si_text(bandwidth, 'B/s')}")
    parts.append(
        f'<line class="roof" x1="{x.at(slope_from):.1f}" y1="{y.at(slope_from * bandwidth):.1f}" x2="{x.at(ridge):.1f}" '
        f'y2="{y.at(top):.1f}" {slope_tip}/>'
    )
    for per_s in sorted({roof["per_s"] for roof in roofs if roof["per_s"] > 10.0**y.low}):
        names = [roof["name"] for roof in roofs if roof["per_s"] == per_s]
        text = f"{', '.join([names[0], *(name.split()[-1] for name in names[1:])])} {si_text(per_s, 'OP/s')}"
        at, start = y.at(per_s), x.at(max(per_s / bandwidth, left))
        parts.append(f'<line class="roof" x1="{start:.1f}" x2="{x.end}" y1="{at:.1f}" y2="{at:.1f}" {_tip(text)}/>')
        parts.append(f'<text class="tick" x="{x.end - 4}" y="{at - 5:.1f}" text-anchor="end">{escape(text)}</text>')
    longest = max(point["simulated_ps"] for point in points)
    for point in sorted(points, key=lambda p: -p["simulated_ps"]):
        radius = 4 + 12 * math.sqrt(point["simulated_ps"] / longest)
        tip = (f"{point['op']} {point['shapes']}\n{si_text(point['per_s'], 'OP/s')} at {point['intensity']:.3g} OP/B\n"
               f"{time_text(point['simulated_ps'])}, {point['unit']} unit")  # fmt: skip
        parts.append(
            f'<circle class="dot d-{point["unit"]}" cx="{x.at(point["intensity"]):.1f}" cy="{y.at(point["per_s"]):.1f}" '
            f'r="{radius:.1f}" {_tip(tip)}/>'
        )
    return _svg(width, height, "".join(parts), "roofline")


def _svg(width: int, height: int, body: str, label: str) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label, quote=True)}">{body}</svg>'
