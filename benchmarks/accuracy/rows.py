"""Rows of a set, and sets: what a measured file becomes before anything is predicted."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Call = dict[str, Any]
DATA = Path(__file__).resolve().parent / "data"


@dataclass(frozen=True)
class Row:
    """One measurement.

    name : unique in its set
    group : operator class, for errors by class
    calls : (times, kernel call) in sequence; the prediction is the sum of their times
    flops, nbytes : of the operation as the model's user sees it (compulsory bytes, unpadded), for the baseline only
    measured : in the unit of the set; None where the file has no such column
    options : config keys that this row's measurement changed (a math fidelity, an array size)
    refused : why there is no prediction
    causes : the prediction is the share of these causes in the matrix engine's time, per cent; empty: it is the time
    """

    name: str
    group: str
    calls: tuple[tuple[int, Call], ...]
    flops: float
    nbytes: float
    measured: float | None = None
    options: tuple[tuple[str, str], ...] = ()
    refused: str = ""
    causes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ratio:
    """A change of the machine or of the operation, seen in pairs of rows that differ in nothing else.

    name : "memory latency 20 -> 100"
    pattern, replacement : regular expression in the name of a row before the change, and what stands there in the name of the row after
    """

    name: str
    pattern: str
    replacement: str

    def partner(self, row_name: str) -> str | None:
        """The row after the change; None for a row that is not one before it."""
        name, count = re.subn(self.pattern, self.replacement, row_name, count=1)
        return name if count else None


@dataclass(frozen=True)
class DataSet:
    """A family of rows: where they lie, on which chip they run, how they become kernel calls.

    pattern : glob of the file in the data folder
    config : configs/<config>.ini
    unit : "us", "ns" or "cycles" (of the core clock of the config); "points": per cent, whose errors are differences
    profile : mapping profile of the chip's compiler, "best" where there is none
    read : (file, mapping) -> rows; must not look at the measured column to build calls
    options : config keys in force for the whole set (an ideal memory)
    is_fitted : whether its rows serve as calibration
    is_table : a small published table; the repository's is used where the data folder has none
    best_flops : mapping `best` beside the profile only for rows of at most so many operations: its search times every candidate
    ratios : changes whose effect is judged apart from the errors of single rows
    tool : predicts all rows of a file without the kernel library (replays), in the unit of the set
    """

    name: str
    pattern: str
    config: str
    unit: str
    grade: str
    read: Callable[[Path, str], list[Row]]
    profile: str = "best"
    options: tuple[tuple[str, str], ...] = ()
    is_fitted: bool = True
    tool: Callable[[Path], dict[str, float]] | None = None
    is_table: bool = False
    note: str = ""
    limit_pct: float | None = None
    best_flops: float | None = None
    ratios: tuple[Ratio, ...] = ()

    def find(self, folder: Path) -> Path | None:
        found = sorted(folder.glob(self.pattern))
        if not found and self.is_table:
            found = sorted(DATA.glob(self.pattern))
        return found[0] if found else None

    def error(self, predicted: float, measured: float) -> float:
        """Per cent of the measured value; percentage points where the values are per cent."""
        return predicted - measured if self.unit == "points" else 100.0 * (predicted - measured) / measured

    def in_unit(self, ps: int, clock_hz: int) -> float:
        if self.unit == "us":
            return ps / 1e6
        if self.unit == "ns":
            return ps / 1e3
        return ps * clock_hz / 1e12


@dataclass
class Prediction:
    """Of one row: a value in the set's unit, or why there is none."""

    value: float | None
    reason: str = ""
    counters: dict[str, float] = field(default_factory=dict)


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return [{(k or "").strip(): (v or "").strip() for k, v in row.items()} for row in csv.DictReader(file)]


def number(row: dict[str, str], *names: str) -> float | None:
    """The first of the columns that is there and holds a finite number."""
    for name in names:
        text = row.get(name, "")
        try:
            value = float(text)
        except ValueError:
            continue
        if math.isfinite(value):
            return value
    return None


def unique(names: Iterable[str]) -> list[str]:
    """The same names, later twins numbered, so that no row hides another."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return out


def product(sizes: Iterable[int]) -> int:
    return math.prod(sizes)


def round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
