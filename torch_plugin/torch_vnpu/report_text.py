"""A report on the terminal (rich tables; plain text where the output is no terminal)."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from . import report_mapping
from .units import bytes_text, energy_text, percent_text, si_text, time_text


def _summary(report: dict[str, Any], console: Console) -> None:
    time, use, cover = report["time"], report["utilisation"], report["coverage"]
    cycles = time["simulated_ps"] * time["core_clock_hz"] / 1e12
    slowdown = f"   slowdown {time['slowdown']:,.0f}x" if time["slowdown"] else ""
    env = report["environment"]
    dram = report["dram"]
    rate = dram["stream_bytes_per_s"]
    stream = f", a long read reaches {si_text(rate, 'B/s')}" if rate else ""
    lines = [
        ("chip", f"{report['config']['name']}   vnpu {env.get('vnpu', '?')}   torch {env.get('torch', '?')}"),
        ("time", f"simulated {time_text(time['simulated_ps'])} ({si_text(cycles, 'cycles')} at "
                 f"{si_text(time['core_clock_hz'], 'Hz')})   wall {time['wall_s']:.2f} s{slowdown}"),
        ("work", f"{si_text(report['flops'], 'FLOP')} in {report['launches']['kernels']} kernels "
                 f"({report['launches']['reused']} with reused timing)"),
        ("use", f"MFU {percent_text(use['mfu'])}   DRAM bandwidth {percent_text(use['mbu'])}   vector "
                f"{percent_text(use['vector'])}   array fill {percent_text(use['array_fill'])}"),
        ("cover", f"operators native {cover['native']}, fallen back to the host {cover['fallback']}"),
        ("memory", f"peak {bytes_text(report['memory']['peak_bytes'])} of {bytes_text(report['memory']['capacity_bytes'])}"),
        ("dram", f"read {bytes_text(dram['read_bytes'])}, written {bytes_text(dram['written_bytes'])}, "
                 f"{si_text(dram['achieved_bytes_per_s'], 'B/s')} of {si_text(dram['peak_bytes_per_s'], 'B/s')}{stream}"),
    ]  # fmt: skip
    for name, text in lines:
        console.print(f"[bold]{name:<7}[/bold] {text}", highlight=False)


def _op_table(report: dict[str, Any], console: Console, limit: int) -> None:
    table = Table(title="operators, longest first", title_justify="left", box=None, pad_edge=False)
    table.add_column("operator")
    table.add_column("shapes", max_width=44, no_wrap=True, overflow="ellipsis")
    for name in ("calls", "time", "share", "FLOP", "DRAM", "matrix", "vector", "dram"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("bound by")
    for row in report["op_table"][:limit]:
        sol = row["speed_of_light"]
        table.add_row(
            row["op"], row["shapes"], str(row["count"]), time_text(row["simulated_ps"]), percent_text(row["share"]),
            si_text(row["flops"]) if row["flops"] else "-",
            bytes_text(row["dram_read_bytes"] + row["dram_written_bytes"]),
            percent_text(sol["matrix"]), percent_text(sol["vector"]), percent_text(sol["dram"]), row["bound_by"],
        )  # fmt: skip
    console.print(table)
    if len(report["op_table"]) > limit:
        rest = report["op_table"][limit:]
        console.print(f"  and {len(rest)} more rows, {time_text(sum(row['simulated_ps'] for row in rest))} together")


def _mapping(report: dict[str, Any], console: Console, limit: int) -> None:
    """Tilings of matrix products and attention: traffic, padding, and the runner-up."""
    rows = report.get("mapping", [])
    if not rows:
        return
    table = Table(title="mapping, most work first", title_justify="left", box=None, pad_edge=False)
    texts = ("operator", "m, n, k", "tiling", "by", "next best")
    for name in report_mapping.HEADINGS:
        table.add_column(name, justify="left" if name in texts else "right", overflow="fold")
    for row in rows[:limit]:
        table.add_row(*report_mapping.cells(row))
    console.print(table)
    if len(rows) > limit:
        console.print(f"  and {len(rows) - limit} more mappings")
    console.print()


def _causes(report: dict[str, Any], console: Console) -> None:
    """Where the cycles went: engines of a kind together, all causes, 100 % a column."""
    kinds = [row for row in report["engine_kinds"] if row["total_ps"]]
    if not kinds:
        return
    table = Table(title="where the time went, per kind of engine", title_justify="left", box=None, pad_edge=False)
    table.add_column("cause")
    for row in kinds:
        table.add_column(f"{row['count']} x {row['name']}", justify="right")
    for cause in kinds[0]["causes_ps"]:
        shares = [row["causes_ps"].get(cause, 0) / row["total_ps"] for row in kinds]
        if any(shares):
            table.add_row(cause, *(percent_text(share) for share in shares))
    table.add_section()
    table.add_row("sum", *(percent_text(sum(row["causes_ps"].values()) / row["total_ps"]) for row in kinds))
    console.print(table)


def _energy(report: dict[str, Any], console: Console) -> None:
    energy = report["energy"]
    if not energy["total_pj"]:
        return
    table = Table(
        title=f"energy, {energy_text(energy['total_pj'])} at {energy['average_w']:.3g} W",
        title_justify="left", box=None, pad_edge=False,
    )  # fmt: skip
    table.add_column("part")
    table.add_column("energy", justify="right")
    table.add_column("share", justify="right")
    for name, pj in [*energy["by_engine"].items(), ("static", energy["static_pj"])]:
        table.add_row(name, energy_text(pj), percent_text(pj / energy["total_pj"]))
    console.print(table)
    console.print()


def render(report: dict[str, Any], console: Console | None = None, limit: int = 15) -> None:
    """Prints the report; `limit` rows of the operator table."""
    console = console or Console()
    if not console.is_terminal:
        console = Console(file=console.file, width=150, color_system=None)
    _summary(report, console)
    console.print()
    _op_table(report, console, limit)
    console.print()
    _mapping(report, console, limit)
    _causes(report, console)
    console.print()
    _energy(report, console)
    for number, hint in enumerate(report["hints"], 1):
        console.print()
        console.print(
            f"[bold]hint {number}[/bold] {hint['title']} (at most {percent_text(hint['gain_at_most'])})",
            highlight=False,
        )
        console.print(f"       {hint['detail']}", highlight=False)
