"""One self-contained HTML page of a report: no script, style, font or picture comes from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from . import report_mapping, report_svg
from .report_ops import OVERHEAD_BELOW
from .units import bytes_text, energy_text, percent_text, si_text, time_text

_TEMPLATES = Path(__file__).parent / "templates"


def _legend(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(class, cause, meaning) of every cause that any engine spent time on."""
    seen = {cause for row in report["engine_kinds"] for cause, ps in row["causes_ps"].items() if ps}
    return [
        (report_svg.cause_class(cause), cause, report_svg.CAUSE_TEXT.get(cause, ""))
        for cause in report_svg.cause_order(sorted(seen))
    ]


def _verdict(report: dict[str, Any]) -> str:
    """What bounds the run: the largest bound of the operator table by time, gaps included."""
    line, total = report["timeline"], report["time"]["simulated_ps"]
    if not total:
        return "no simulated time"
    times: dict[str, int] = {
        "launch gaps": line["launch_gap_ps"],
        "the host": line["host_ps"],
        "copies": line["copy_ps"],
    }
    names = {"matrix": "the matrix engines", "vector": "the vector engines", "dram": "DRAM bandwidth",
             "overhead": "overheads inside kernels", "host": "the host", "link": "copies"}  # fmt: skip
    for row in report["op_table"]:
        if row["bound_by"] in names and row["launches"] and row["bound_by"] not in ("host", "link"):
            name = names[row["bound_by"]]
            times[name] = times.get(name, 0) + row["simulated_ps"]
    best = max(times, key=lambda name: times[name])
    return f"{best} ({percent_text(times[best] / total)} of the time)"


def render(report: dict[str, Any]) -> str:
    """The page as text. Needs only the dictionary, so any report.json can be turned into a page again."""
    env = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {
        "time": time_text, "size": bytes_text, "si": si_text, "percent": percent_text, "energy": energy_text,
    }  # fmt: skip
    line = report["timeline"]
    split = [
        ("kernels run", line["kernel_ps"], "c-work-0"),
        ("launch gaps (command path)", line["launch_gap_ps"], "c-control-1"),
        ("link copies, nothing runs", line["copy_ps"], "c-memory-1"),
        ("host, nothing submitted", line["host_ps"], "c-idle-0"),
    ]
    by_traffic = sorted(report["op_table"], key=lambda row: -(row["dram_read_bytes"] + row["dram_written_bytes"]))
    return env.get_template("report.html.j2").render(
        report=report,
        verdict=_verdict(report),
        overhead_below=OVERHEAD_BELOW,
        mapping_headings=report_mapping.HEADINGS,
        mapping=[report_mapping.cells(row) for row in report.get("mapping", [])],
        split=split,
        split_svg=report_svg.split_bar(split),
        legend=_legend(report),
        kinds_svg=report_svg.cause_bars(report["engine_kinds"]),
        engines_svg=report_svg.cause_bars(report["engines"]),
        causes=report_svg.cause_order(list(report["engines"][0]["causes_ps"])) if report["engines"] else [],
        roofline_svg=report_svg.roofline(report["roofline"]),
        traffic_svg=report_svg.traffic_bars(
            [row for row in by_traffic if row["dram_read_bytes"] + row["dram_written_bytes"]][:12]
        ),
    )
