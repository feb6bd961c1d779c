"""The DRAM model beside DRAMsim3 and Ramulator 2: bandwidth, latency, speed.

    python -m benchmarks.peers.dram --replay build/release/bin/dram_replay [--json FILE]

replays the traffic patterns of ``data/dram_reference.csv`` through ``sim/sim_dram`` with the same
timing set, organisation, mapping and queue size as the two simulators had (matched pairs), and
prints for each pattern the cycles of all three, whether ours is inside what the pattern's class
allows, and requests per CPU second. Exit status 1 if a pattern is outside that is not in ``KNOWN``,
or if the speed is too low.

Classes (docs/fidelity.md): idle latency within one cycle of one reference; sequential, strided,
random without conflicts and one engine within 3 % of one reference; conflicts, mixes of reads and
writes, several engines inside the pair's range widened by 10 %.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SPEED_FACTOR = 20.0
# What each reference holds per channel: Ramulator 2 has 32 reads and 32 writes in its buffers, and
# moves a request whose row it has opened to another one, as dram.window does; DRAMsim3 has 32 and
# 32, and 8 a bank behind them. Watermarks as Ramulator's.
SCHEDULING = {"window": 32, "write_high": "4/5", "write_low": "1/5", "max_row_hits": 0}
# Outside, with the reason: (pair, pattern): reason.
KNOWN: dict[tuple[str, str], str] = {}
EXACT = 1  # cycles
CLOSE = 0.03
WIDE = 0.10


@dataclass(frozen=True)
class Pair:
    """Two runs of the references with the same parameters."""

    dramsim3: str
    ramulator2: str
    mapping: str
    scheduling: dict[str, object]


PAIRS = (
    Pair("d3_ddr4_3200_matched", "r2_ddr4_3200_matched", "ro-ba-bg-co", {}),
    Pair("d3_ddr4_3200_matched_bgi", "r2_ddr4_3200_matched_bgi", "ro-ba-co-bg", {}),
    Pair("d3_ddr4_3200_matched_norefresh", "r2_ddr4_3200_matched_norefresh", "ro-ba-bg-co", {}),
    Pair("d3_hbm2_8Gb", "r2_hbm2_matched", "ro-bg-ba-ch-co", {}),
    Pair("d3_hbm2_8Gb_bgi", "r2_hbm2_matched_bgi", "ro-ba-co-bg-ch", {}),
)


@dataclass(frozen=True)
class Row:
    """One pattern of one pair. Cycles are of the memory clock."""

    pair: str
    pattern: str
    kind: str
    requests: int
    dramsim3: float
    ramulator2: float
    ours: float
    error: float  # against the nearest reference; 0 inside the pair's range for wide classes
    inside: bool
    dramsim3_speed: float
    ramulator2_speed: float
    speed: float


def kind_of(pattern: str) -> str:
    """What a pattern is measured by: ``idle``, ``close``, ``wide`` or ``chain``."""
    if pattern.startswith("idle"):
        return "idle"
    if "rw50" in pattern or "conflict" in pattern or pattern.endswith("_e4"):
        return "wide"
    return "close"


def overrides_of(params: dict, mapping: str, scheduling: dict[str, object]) -> str:
    """The ``dram`` keys of one DRAMsim3 parameter set, for ``vnpu`` configurations."""
    t, org = params["timing_cycles"], params["organisation_and_controller"]
    row_bytes = org["row_bytes_per_channel"]
    burst = t["burst_cycles"]
    refresh = 0 if t["tREFI"] >= 10_000_000 else t["tREFI"]
    keys = {
        "channels": org["channels"],
        "bytes": f"{org['capacity_bytes']}",
        "clock": f"{round(1000 / params['tCK_ns'])} MHz",
        "burst_cycles": burst,
        "burst_bytes": org["request_size_bytes"],
        "bank_groups": org["bankgroups"],
        "banks_per_group": org["banks_per_group"],
        "row_bytes": row_bytes,
        "mapping": mapping,
        "hash": "false",
        "page": "open",
        "frontend": "0 ps",
        "tcl": t["CL"],
        "trcdrd": t.get("tRCDRD", t.get("tRCD")),
        "trcdwr": t.get("tRCDWR", t.get("tRCD")),
        "trp": t["tRP"],
        "tras": t["tRAS"],
        "twr": t["tWR"],
        "trtp": t["tRTP"],
        "tcwl": t["CWL"],
        "tccd_s": max(burst, t["tCCD_S"]),
        "tccd_l": max(burst, t["tCCD_L"]),
        "trrd_s": t["tRRD_S"],
        "trrd_l": t["tRRD_L"],
        "tfaw": t["tFAW"],
        "twtr_s": t["tWTR_S"],
        "twtr_l": t["tWTR_L"],
        "trtw": t["CL"] + burst + 2 - t["CWL"],
        "trfc": t["tRFC"],
        "trefi": refresh,
        "refresh": "all_bank",
        "refresh_stagger": "false",
    }
    keys.update(SCHEDULING)
    keys.update(scheduling)
    return ",".join(f"dram.{key}={value}" for key, value in keys.items())


def injected(pattern: str, rows: list[dict]) -> int:
    """Requests to inject: what the references counted, leftovers of write queues included."""
    most = max(int(row["requests"]) for row in rows)
    if pattern.startswith("dma_"):  # whole blocks of half the pattern's usual number
        return 100_000 if most <= 100_000 else 200_000
    return -(-most // 100) * 100 if most > 1000 else most


def judge(kind: str, references: tuple[float, float], ours: float) -> tuple[float, bool]:
    """Error against the nearest reference and whether it is allowed."""
    low, high = min(references), max(references)
    if kind == "idle":
        error = min((ours - value for value in references), key=abs)
        return error, abs(error) <= EXACT
    if kind == "close":
        error = min((ours / value - 1 for value in references), key=abs)
        return error, abs(error) <= CLOSE
    error = 0.0 if low <= ours <= high else ours / (low if ours < low else high) - 1
    return error, low * (1 - WIDE) <= ours <= high * (1 + WIDE)


def measure(replay: Path, pair: Pair, references: dict, params: dict, repeat: int) -> list[Row]:
    """All patterns that both references of a pair have; speed is the best of ``repeat`` runs."""
    mine = references[pair.dramsim3], references[pair.ramulator2]
    patterns = [name for name in mine[0] if name in mine[1]]
    overrides = overrides_of(params[pair.dramsim3], pair.mapping, pair.scheduling)
    command = [str(replay), str(ROOT / "configs" / "default.ini"), overrides]
    for name in patterns:
        command += [name, str(injected(name, [part[name] for part in mine]))]
    runs = [
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines() for _ in range(repeat)
    ]
    rows = []
    for lines in zip(*runs, strict=True):
        name, requests, cycles, median, _ = lines[0].split()
        seconds = min(float(line.split()[4]) for line in lines)
        kind = kind_of(name)
        column = "p50_read_latency_cycles" if kind == "idle" else "cycles"
        values = []
        for part in mine:
            value = float(part[name][column])
            # a write queue that is never drained: cycles of what was served
            if kind != "idle":
                value *= int(requests) / int(part[name]["requests"])
            values.append(value)
        ours = float(median if kind == "idle" else cycles)
        error, inside = judge(kind, (values[0], values[1]), ours)
        speeds = [float(part[name]["req_per_cpu_second"]) for part in mine]
        rows.append(
            Row(
                pair=pair.dramsim3.removeprefix("d3_"),
                pattern=name,
                kind=kind,
                requests=int(requests),
                dramsim3=values[0],
                ramulator2=values[1],
                ours=ours,
                error=error,
                inside=inside,
                dramsim3_speed=speeds[0],
                ramulator2_speed=speeds[1],
                speed=int(requests) / max(seconds, 1e-6),
            )
        )
    return rows


def read_references(path: Path) -> dict[str, dict[str, dict]]:
    """``{configuration: {pattern: row}}`` of the reference data."""
    table: dict[str, dict[str, dict]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            table.setdefault(row["config"], {})[row["pattern"]] = row
    return table


def speed_ratio(row: Row) -> float:
    """Our requests per CPU second over the faster reference's."""
    return row.speed / max(row.dramsim3_speed, row.ramulator2_speed)


def verdict(row: Row) -> str:
    """``inside``, ``known`` (outside, with a reason) or ``OUTSIDE``."""
    if row.inside:
        return "inside"
    return "known" if (row.pair, row.pattern) in KNOWN else "OUTSIDE"


def print_table(rows: list[Row]) -> None:
    """The table and its summary."""
    print(
        f"{'pair':26} {'pattern':28} {'DRAMsim3':>10} {'Ramulator2':>10} {'ours':>10} "
        f"{'error':>8} {'':7} {'req/CPU s':>10} {'ratio':>6}"
    )
    for row in rows:
        error = f"{row.error:+.0f} cyc" if row.kind == "idle" else f"{100 * row.error:+.2f} %"
        print(
            f"{row.pair:26} {row.pattern:28} {row.dramsim3:10.0f} {row.ramulator2:10.0f} "
            f"{row.ours:10.0f} {error:>8} {verdict(row):7} "
            f"{row.speed:10.0f} {speed_ratio(row):6.1f}"
        )
    for kind in ("idle", "close", "wide"):
        mine = [row for row in rows if row.kind == kind]
        if mine:
            print(f"{kind}: {sum(row.inside for row in mine)} of {len(mine)} inside")
    for row in rows:
        if verdict(row) == "known":
            print(f"known: {row.pair} {row.pattern}: {KNOWN[row.pair, row.pattern]}")
    print(f"speed: median {statistics.median(map(speed_ratio, rows)):.1f} x the faster reference")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--replay", type=Path, required=True, help="the dram_replay program")
    parser.add_argument("--data", type=Path, default=HERE / "data", help="folder of the data")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--repeat", type=int, default=3, help="runs; the fastest counts as speed")
    parser.add_argument("--no-speed", action="store_true", help="do not judge the speed")
    parser.add_argument("--pair", help="only the pair whose DRAMsim3 run has this name")
    arguments = parser.parse_args()
    references = read_references(arguments.data / "dram_reference.csv")
    params = json.loads((arguments.data / "dram_reference_params.json").read_text())
    rows = []
    for pair in PAIRS:
        if arguments.pair in (None, pair.dramsim3):
            rows += measure(arguments.replay, pair, references, params, arguments.repeat)
    if not rows:
        parser.error(f"no pair {arguments.pair}")
    print_table(rows)
    if arguments.json:
        arguments.json.write_text(json.dumps([vars(row) for row in rows], indent=1) + "\n")
    fast = arguments.no_speed or statistics.median(map(speed_ratio, rows)) >= SPEED_FACTOR
    return 0 if fast and all(verdict(row) != "OUTSIDE" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
