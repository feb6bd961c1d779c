"""Writes a trace that ui.perfetto.dev and chrome://tracing open: operators, launches, link copies, engines.

Chrome's JSON format, gzipped. Time is simulated time from the start of the profile; `ts` and `dur` are microseconds, cut to
whole nanoseconds (exact picoseconds are in the arguments of launches).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from .profile_blob import D2H, H2D, KIND_NAMES, NO_RECORD, Profile

MAX_SLICES = 400_000  # instruction slices; more make viewers slow. The trace says how many were left out.

OP_NAMES = {
    0x00: "NOP", 0x03: "SYNC", 0x04: "FENCE", 0x05: "TRAP", 0x06: "MARK",
    0x10: "DMA_COPY", 0x11: "DMA_TRANSPOSE", 0x12: "DMA_FILL", 0x13: "DMA_GATHER", 0x14: "DMA_SCATTER",
    0x20: "MM",
    0x30: "V_UNARY", 0x31: "V_BINARY", 0x32: "V_SELECT", 0x33: "V_REDUCE", 0x34: "V_FOLD",
}  # fmt: skip

HOST_PID, CHIP_PID = 1, 2
OPS_TID, LAUNCH_TID, UP_TID, DOWN_TID, FIRST_ENGINE_TID = 1, 2, 3, 4, 16
MAX_LANES = 10  # rows of operators, rows of launches: what overlaps lies in different ones


def _us(ps: int) -> str:
    ns = ps // 1000
    return f"{ns // 1000}.{ns % 1000:03d}"


def _lane_tid(tid: int, lane: int) -> int:
    """Thread of the row that holds the lane: the first has its own number, others lie between the link and the engines."""
    return tid if lane == 0 else DOWN_TID + lane


def _lanes(spans: list[tuple[int, int]]) -> list[int]:
    """A row for each of the spans, which come in the order of their starts, so that rows do not overlap; the last row takes the rest."""
    ends: list[int] = []
    lanes = []
    for start, end in spans:
        lane = next((i for i, busy in enumerate(ends) if busy <= start), min(len(ends), MAX_LANES - 1))
        if lane == len(ends):
            ends.append(end)
        ends[lane] = end
        lanes.append(lane)
    return lanes


def _metadata(profile: Profile, title: str, op_lanes: int, launch_lanes: int) -> Iterator[str]:
    names = {HOST_PID: "operators and copies (simulated time)", CHIP_PID: f"chip {title} (simulated time)"}
    for pid, name in names.items():
        yield json.dumps({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}})
        yield json.dumps({"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}})
    rows = [(HOST_PID, OPS_TID, "operators"), (CHIP_PID, LAUNCH_TID, "launches"),
            (HOST_PID, UP_TID, "link: host to device"), (HOST_PID, DOWN_TID, "link: device to host")]  # fmt: skip
    rows += [(HOST_PID, _lane_tid(OPS_TID, i), f"operators {i + 1}") for i in range(1, op_lanes)]
    rows += [(CHIP_PID, _lane_tid(LAUNCH_TID, i), f"launches {i + 1}") for i in range(1, launch_lanes)]
    rows += [(CHIP_PID, FIRST_ENGINE_TID + i, name) for i, name in enumerate(profile.engines)]
    for pid, tid, name in rows:
        yield json.dumps({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}})
        yield json.dumps({"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}})


def _event(pid: int, tid: int, name: str, start: int, end: int, args: dict | None = None) -> str:
    tail = f',"args":{json.dumps(args)}' if args else ""
    dur = end // 1000 - start // 1000
    return (
        f'{{"ph":"X","pid":{pid},"tid":{tid},"name":{json.dumps(name)},"ts":{_us(start)},'
        f'"dur":{dur // 1000}.{dur % 1000:03d}{tail}}}'
    )


def _operators(profile: Profile, tuples: list[tuple]) -> tuple[list[str], int]:
    """One slice per run of launches of the same operator, from its first launch's start to its last one's end; the number of rows."""
    by_tag = {entry[0]: entry for entry in tuples}
    spans: list[list[int]] = []
    for row in profile.launches:
        tag, (start, end) = int(row["tag"]), profile.span_ps(row)
        if tag not in by_tag:
            continue
        if spans and spans[-1][0] == tag:
            spans[-1][2] = max(spans[-1][2], end)
        else:
            spans.append([tag, start, end])
    lanes, events = _lanes([(start, end) for _, start, end in spans]), []
    for (tag, start, end), lane in zip(spans, lanes, strict=True):
        _, op, dtype, shapes, where, _, module = by_tag[tag][:7]
        args = {"dtype": dtype, "shapes": shapes, "where": where, "module": module}
        tid = _lane_tid(OPS_TID, lane)
        events.append(_event(HOST_PID, tid, op, start - profile.start_ps, end - profile.start_ps, args))
    return events, max(lanes, default=0) + 1


def _launch_rows(profile: Profile) -> tuple[list[str], int]:
    """Launches and copies; the number of rows that launches take."""
    on_chip = [row for row in profile.launches if int(row["kind"]) not in (H2D, D2H)]
    lanes = dict(
        zip((int(row["seq"]) for row in on_chip), _lanes([profile.span_ps(row) for row in on_chip]), strict=True)
    )
    events = []
    for row in profile.launches:
        kind = int(row["kind"])
        record = None if int(row["record"]) == NO_RECORD else profile.records[int(row["record"])]
        chip = (CHIP_PID, _lane_tid(LAUNCH_TID, lanes.get(int(row["seq"]), 0)))
        pid, tid = {H2D: (HOST_PID, UP_TID), D2H: (HOST_PID, DOWN_TID)}.get(kind, chip)
        start, end = (ps - profile.start_ps for ps in profile.span_ps(row))
        args = {
            "seq": int(row["seq"]),
            "tag": int(row["tag"]),
            "stream": int(row["stream"]),
            "start_ps": start,
            "end_ps": end,
        }
        if record:
            args |= {"is_reused": bool(row["is_reused"]), **record.counters}
        else:
            args["bytes"] = int(row["bytes"])
        events.append(_event(pid, tid, record.name if record else KIND_NAMES[kind], start, end, args))
    return events, max(lanes.values(), default=0) + 1


def _engine_slices(profile: Profile, budget: int) -> Iterator[str]:
    """Instruction slices of whole launches, in time order, while they fit the budget."""
    templates: dict[int, list[tuple[str, int, int]]] = {}
    for row in profile.launches:
        index = int(row["record"])
        if index == NO_RECORD:
            continue
        if index not in templates:
            templates[index] = [
                (f'{{"ph":"X","pid":{CHIP_PID},"tid":{FIRST_ENGINE_TID + engine},'
                 f'"name":"{OP_NAMES.get(op, f"op {op:#04x}")}","ts":', start, end)
                for engine, op, _, start, end in profile.records[index].slices.tolist()
            ]  # fmt: skip
        slices = templates[index]
        if len(slices) > budget:
            return
        budget -= len(slices)
        base = int(row["start_ps"]) - profile.start_ps
        for head, start, end in slices:
            start_ns, end_ns = (base + start) // 1000, (base + end) // 1000
            dur = end_ns - start_ns
            yield (f'{head}{start_ns // 1000}.{start_ns % 1000:03d},"dur":{dur // 1000}.{dur % 1000:03d}}}')


def slices_left_out(profile: Profile, budget: int = MAX_SLICES) -> int:
    """Instruction slices that the trace does not hold."""
    left = 0
    for index in profile.launches["record"]:
        if int(index) != NO_RECORD:
            count = len(profile.records[int(index)].slices)
            budget, left = (budget - count, left) if left == 0 and count <= budget else (budget, left + count)
    return left


def write(path: Path, profile: Profile, tuples: list[tuple], title: str = "", budget: int = MAX_SLICES) -> None:
    """Writes `path` (.json.gz)."""
    other = {
        "clock": "simulated time of the modelled chip",
        "instruction_slices_left_out": slices_left_out(profile, budget),
    }
    operators, op_lanes = _operators(profile, tuples)
    launches, launch_lanes = _launch_rows(profile)
    with gzip.open(path, "wt", compresslevel=4, encoding="utf-8") as file:
        file.write(f'{{"displayTimeUnit":"ns","otherData":{json.dumps(other)},"traceEvents":[\n')
        first = True
        for part in (
            _metadata(profile, title, op_lanes, launch_lanes),
            operators,
            launches,
            _engine_slices(profile, budget),
        ):
            for line in part:
                file.write(line if first else ",\n" + line)
                first = False
        file.write("\n]}\n")
