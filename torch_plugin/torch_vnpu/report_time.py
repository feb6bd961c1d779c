"""Books every picosecond of a profile to one cause per engine: causes inside launches, and the gaps between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .profile_blob import D2H, H2D, NO_RECORD, BlobError, Profile

IDLE, LAUNCH_GAP = "idle", "launch_gap"


@dataclass
class Timeline:
    """Parts of the profiled time in picoseconds; they sum to the total."""

    kernel_ps: int = 0  # a launch runs
    launch_gap_ps: int = 0  # work is there, the command path is busy with it
    copy_ps: int = 0  # nothing runs; the host link moves data
    host_ps: int = 0  # nothing was submitted


def _merge(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


class _Gaps:
    """Splits gaps, in ascending order, into copies, host time and the command path."""

    def __init__(self, copies: list[tuple[int, int]]) -> None:
        self.copies, self.at = copies, 0

    def split(self, start: int, end: int, arrival: int, line: Timeline) -> None:
        """arrival: when the work that ends the gap reached the chip."""
        while self.at < len(self.copies) and self.copies[self.at][1] <= start:
            self.at += 1
        cursor, i = start, self.at
        while cursor < end:
            if i < len(self.copies) and self.copies[i][0] <= cursor:
                stop = min(end, self.copies[i][1])
                line.copy_ps += stop - cursor
                i += 1
            else:
                stop = min(end, self.copies[i][0]) if i < len(self.copies) else end
                waiting = min(max(arrival, cursor), stop)
                line.host_ps += waiting - cursor
                line.launch_gap_ps += stop - waiting
            cursor = stop


def timeline_of(profile: Profile) -> Timeline:
    """Walks the launches in time order. A launch that overlaps with those before it adds what it runs on behind them."""
    rows = profile.launches
    copies = rows[(rows["kind"] == H2D) | (rows["kind"] == D2H)]
    spans = [(max(int(row["start_ps"]), profile.start_ps), min(int(row["end_ps"]), profile.end_ps)) for row in copies]
    gaps, line, cursor = _Gaps(_merge([s for s in spans if s[1] > s[0]])), Timeline(), profile.start_ps
    for row in rows[rows["record"] != NO_RECORD]:
        start, end = profile.span_ps(row)
        record = profile.records[int(row["record"])]
        if start < profile.start_ps or end > int(row["end_ps"]) or end > profile.end_ps:
            raise BlobError(f"launch {int(row['seq'])} ('{record.name}') does not fit into its time")
        if start > cursor:
            gaps.split(cursor, start, int(row["arrival_ps"]), line)
            cursor = start
        line.kernel_ps += max(0, end - cursor)
        cursor = max(cursor, end)
    gaps.split(cursor, profile.end_ps, profile.end_ps, line)
    return line


def engine_causes(profile: Profile, line: Timeline) -> list[dict]:
    """One row per engine: {name, total_ps, causes_ps}; the causes sum to the profiled time exactly.

    A launch that shared its time with others has causes for the engines of its own cores only: an engine is idle while it
    belongs to none.
    """
    used = profile.launches["record"][profile.launches["record"] != NO_RECORD]
    counts = np.bincount(used, minlength=len(profile.records)) if len(profile.records) else np.zeros(0, int)
    sums = np.zeros((len(profile.engines), len(profile.causes)), np.uint64)
    for record, count in zip(profile.records, counts.tolist(), strict=True):
        sums += record.causes_ps * np.uint64(count)
    engines = []
    for name, row in zip(profile.engines, sums.tolist(), strict=True):
        causes = dict(zip(profile.causes, row, strict=True))
        others_ps = line.kernel_ps - sum(causes.values())
        if others_ps < 0:
            raise BlobError(f"causes of {name} sum to {sum(causes.values())} ps in launches of {line.kernel_ps} ps")
        causes[LAUNCH_GAP] = causes.get(LAUNCH_GAP, 0) + line.launch_gap_ps
        causes[IDLE] = causes.get(IDLE, 0) + others_ps + line.copy_ps + line.host_ps
        if sum(causes.values()) != profile.total_ps:
            raise BlobError(f"causes of {name} sum to {sum(causes.values())} ps of {profile.total_ps} ps")
        engines.append({"name": name, "total_ps": profile.total_ps, "causes_ps": causes})
    return engines


def engine_kind(name: str) -> str:
    """'core2.dma1' -> 'dma': engines of one kind are summed in the short views."""
    return name.rsplit(".", 1)[-1].rstrip("0123456789") or name


def engine_kinds(engines: list[dict]) -> list[dict]:
    """Engines summed by kind, with the mean share of every cause."""
    kinds: dict[str, dict] = {}
    for engine in engines:
        kind = kinds.setdefault(
            engine_kind(engine["name"]),
            {"name": engine_kind(engine["name"]), "count": 0, "total_ps": 0, "causes_ps": {}},
        )
        kind["count"] += 1
        kind["total_ps"] += engine["total_ps"]
        for cause, ps in engine["causes_ps"].items():
            kind["causes_ps"][cause] = kind["causes_ps"].get(cause, 0) + ps
    return list(kinds.values())
