"""Recounts the work of dumped launches (VNPU_DUMP) from the program images alone.

An independent reader of `device/vnpu_isa.h` and of `launches.jsonl`: no code is shared with the chip. Every instruction is visited
by numpy for all iterations of its loops and all instances of the grid at once; clips cut sizes, masks drop iterations.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

MAGIC = 0x55504E56
ELEMENT = {1: 4, 2: 2, 3: 2, 4: 1, 5: 1, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 1}  # bytes of vnpu_dtype_t
DRAM = 1
LOOP, ENDLOOP = 0x01, 0x02
COPIES = {0x10, 0x11, 0x12}  # copy, transpose, fill
GATHER, SCATTER, MM = 0x13, 0x14, 0x20
ACCUMULATE = 1
SKIP_ROWS = 2  # vnpu_oob_t: which rows move depends on the data
ABSENT = 0xFFFF


@dataclass
class Pattern:
    space: int
    dtype: int
    sizes: list[int]
    clips: list[tuple[int, ...]]  # extent, dimension, loop, mode, axis, step from tile to tile, pad

    @property
    def element(self) -> int:
        return ELEMENT[self.dtype]


@dataclass
class Instruction:
    op: int
    func: int
    flags: int
    first: int
    last: int
    only: int  # VNPU_PLACE, 0: all instances
    dst: int
    src: tuple[int, ...]
    trips: int


@dataclass
class Work:
    """Exact totals."""

    macs: int = 0
    read: int = 0
    written: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.macs + other.macs, self.read + other.read, self.written + other.written)


def _pattern(data: bytes) -> Pattern:
    space, dtype, ndims = data[0], data[1], data[2]
    sizes = [struct.unpack_from("<I", data, 16 + 8 * d)[0] for d in range(ndims)]
    clips = []
    for c in range(4):
        extent, dim, loop, axis_mode, overlap = struct.unpack_from("<IBBBb", data, 96 + 8 * c)
        if axis_mode & 0x80:
            clips.append((extent, dim, loop, axis_mode & 3, axis_mode >> 2 & 1, sizes[dim] - overlap, data[4 + c]))
    return Pattern(space, dtype, sizes, clips)


def _instruction(data: bytes) -> Instruction:
    op, func, flags, first, last = struct.unpack_from("<BBHBB", data, 0)
    dst, *src, only = struct.unpack_from("<6H", data, 28)
    return Instruction(op, func, flags, first, last, only, dst, tuple(src), struct.unpack_from("<I", data, 40)[0])


@dataclass
class Program:
    name: str
    queues: list[list[Instruction]]
    patterns: list[Pattern]

    @staticmethod
    def read(path: Path) -> Program:
        data = path.read_bytes()
        magic, version, size, _ = struct.unpack_from("<4I", data, 0)
        assert (magic, version, size) == (MAGIC, 1, len(data)), path
        num_queues = struct.unpack_from("<H", data, 16)[0]
        num_insns, num_patterns = struct.unpack_from("<2I", data, 24)
        name = data[76:128].split(b"\0")[0].decode()
        at = 128 + 16 * num_queues
        insns = [_instruction(data[at + 64 * i : at + 64 * (i + 1)]) for i in range(num_insns)]
        at += 64 * num_insns
        patterns = [_pattern(data[at + 128 * p : at + 128 * (p + 1)]) for p in range(num_patterns)]
        queues = []
        for q in range(num_queues):
            first, count = struct.unpack_from("<2I", data, 128 + 16 * q + 4)
            queues.append(insns[first : first + count])
        return Program(name, queues, patterns)


@dataclass
class _Nest:
    """All iterations of an instruction as broadcastable index arrays: axes 0 and 1 are the grid, then the open loops."""

    grid: tuple[int, int]
    trips: list[int] = field(default_factory=list)

    def axis(self, position: int, length: int) -> np.ndarray:
        shape = [1] * (2 + len(self.trips))
        shape[position] = length
        return np.arange(length, dtype=np.int64).reshape(shape)

    def sizes(self, pattern: Pattern) -> list[np.ndarray]:
        sizes = [np.int64(size) for size in pattern.sizes]
        for extent, dim, loop, mode, axis, step, pad in pattern.clips:
            grid = self.axis(axis, self.grid[axis])
            count = np.int64(0)  # of a window that does not move
            if mode != 1 and loop != 0xFF:
                count = self.axis(2 + loop, self.trips[loop])
            if mode == 0:
                index = count
            elif mode == 1:
                index = grid
            elif mode == 2:
                index = grid * self.trips[loop] + count
            else:
                index = count * self.grid[axis] + grid
            first = index * step - pad
            left = np.minimum(pattern.sizes[dim], extent - first) - np.maximum(0, -first)
            sizes[dim] = np.maximum(0, np.minimum(sizes[dim], left))
        return sizes

    def total(self, values: np.ndarray, insn: Instruction) -> int:
        """Sum over the iterations and instances that the masks leave."""
        for axis in range(2):
            place = insn.only >> (7 * axis) & 127
            if insn.only and place != 127:
                values = values * (self.axis(axis, self.grid[axis]) == place)
        for level, trips in enumerate(self.trips):
            if insn.first >> level & 1:
                values = values * (self.axis(2 + level, trips) == 0)
            if insn.last >> level & 1:
                values = values * (self.axis(2 + level, trips) == trips - 1)
        values = np.asarray(values)
        every = math.prod(self.grid) * math.prod(self.trips)
        return int(values.sum()) * (every // values.size)


def _product(sizes: list[np.ndarray]) -> np.ndarray:
    result = np.int64(1)
    for size in sizes:
        result = result * size
    return result


def _work(program: Program, insn: Instruction, nest: _Nest) -> Work:
    if insn.op == MM:
        left = nest.sizes(program.patterns[insn.src[0]])
        right = nest.sizes(program.patterns[insn.src[1]])
        return Work(macs=nest.total(_product(left) * _product(right[insn.func + 1 :]), insn))
    if insn.op not in COPIES | {GATHER, SCATTER}:
        return Work()
    source = None if insn.src[0] == ABSENT else program.patterns[insn.src[0]]
    target = program.patterns[insn.dst]
    reads = source is not None and source.space == DRAM
    if not reads and target.space != DRAM:
        return Work()
    far = source if reads else target
    sizes = nest.sizes(far)
    if insn.op in (GATHER, SCATTER):
        if insn.func == SKIP_ROWS:
            raise ValueError(f"{program.name}: the rows of a gather that skips depend on its data")
        rows = nest.sizes(program.patterns[insn.src[1]])[0]
        sizes = [rows, *sizes[1:]]
    moved = nest.total(_product(sizes) * far.element, insn)
    if reads:
        return Work(read=moved)
    return Work(read=moved if insn.flags & ACCUMULATE else 0, written=moved)


def count_program(program: Program, grid: tuple[int, int]) -> Work:
    total = Work()
    for queue in program.queues:
        nest = _Nest(grid)
        for insn in queue:
            if insn.op == LOOP:
                nest.trips.append(insn.trips)
            elif insn.op == ENDLOOP:
                nest.trips.pop()
            else:
                total += _work(program, insn, nest)
    return total


def read_launches(folder: Path) -> Iterator[dict]:
    with open(folder / "launches.jsonl", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def count_dump(folder: Path, launches: Iterable[dict]) -> Work:
    """Total of the given lines of launches.jsonl: kernels, copies and fills."""
    programs: dict[str, Program] = {}
    known: dict[tuple, Work] = {}
    total = Work()
    for row in launches:
        if row["kind"] == "kernel":
            key = (row["program"], *row["grid"])
            if key not in known:
                name = row["program"]
                programs.setdefault(name, Program.read(folder / f"{name}.vnpu"))
                known[key] = count_program(programs[name], tuple(row["grid"]))
            total += known[key]
        else:
            size = row["bytes"]
            total += Work(
                0, size if row["kind"] in ("d2h", "d2d") else 0, size if row["kind"] in ("h2d", "d2d", "fill") else 0
            )
    return total


def stream_cycles(program: Program, grid: tuple[int, int], rows: int, cols: int, rate: Fraction) -> int:
    """Core cycles in which the arrays of all cores stream rows: per product ceil(k / rows) x ceil(n / cols) folds of m rows."""
    total = 0
    for queue in program.queues:
        nest = _Nest(grid)
        for insn in queue:
            if insn.op == LOOP:
                nest.trips.append(insn.trips)
            elif insn.op == ENDLOOP:
                nest.trips.pop()
            elif insn.op == MM:
                split = insn.func + 1
                m = nest.sizes(program.patterns[insn.src[0]])[:-split]
                right = nest.sizes(program.patterns[insn.src[1]])
                k, n = _product(right[:split]), _product(right[split:])
                stream = -(-_product(m) * rate.denominator // rate.numerator)
                total += nest.total(-(-k // rows) * -(-n // cols) * stream, insn)
    return total
