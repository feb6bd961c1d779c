"""Reads the profile blob of the chip (device/vnpu_profile.h) into arrays. Knows bytes, no torch and no operators."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

MAGIC = 0x464F5250
VERSION = 4
NO_RECORD = 0xFFFFFFFF

KERNEL, H2D, D2H, D2D, FILL = range(5)
KIND_NAMES = ("kernel", "h2d", "d2h", "d2d", "fill")

HEADER = np.dtype(
    [
        ("magic", "<u4"), ("version", "<u4"), ("num_launches", "<u4"), ("num_records", "<u4"),
        ("num_engines", "<u4"), ("num_causes", "<u4"), ("start_ps", "<u8"), ("end_ps", "<u8"),
        ("launches_offset", "<u8"), ("records_offset", "<u8"), ("names_offset", "<u8"), ("bytes", "<u8"),
        ("memory_peak_bytes", "<u8"), ("static_mw", "<u8"), ("link_fj_per_byte", "<u8"), ("reserved", "<u8"),
    ]
)  # fmt: skip
LAUNCH = np.dtype(
    [
        ("seq", "<u8"), ("stream", "<u4"), ("tag", "<u4"), ("kind", "<u4"), ("record", "<u4"),
        ("arrival_ps", "<u8"), ("start_ps", "<u8"), ("end_ps", "<u8"), ("bytes", "<u8"),
        ("is_reused", "<u4"), ("reserved", "<u4"),
    ]
)  # fmt: skip
COUNTERS = (
    "macs", "padded_macs", "dram_read_bytes", "dram_written_bytes", "bus_read_bytes", "bus_written_bytes",
    "row_hits", "row_closed", "row_conflicts", "cache_hits", "cache_misses", "cache_evicted", "insns", "vector_elems",
    "shared_read_bytes", "shared_written_bytes",
)  # fmt: skip
ENERGY_PARTS = ("matrix", "vector", "dma", "noc", "dram")  # vnpu_energy_part_t
RECORD = np.dtype(
    [("name", "S64"), ("key", "<u8"), ("duration_ps", "<u8")]
    + [(name, "<u8") for name in COUNTERS]
    + [("num_slices", "<u4"), ("bytes", "<u4"), ("energy_fj", "<u8", (len(ENERGY_PARTS),))]
)
SLICE = np.dtype([("engine", "<u4"), ("op", "<u2"), ("instance", "<u2"), ("start_ps", "<u8"), ("end_ps", "<u8")])

assert HEADER.itemsize == 104 and LAUNCH.itemsize == 64 and RECORD.itemsize == 256 and SLICE.itemsize == 24


class BlobError(ValueError):
    """The bytes are not a profile that this version can read, or contradict themselves."""


@dataclass
class Record:
    """One timing result: launches of equal timing keys share it. Times in picoseconds from the launch's start."""

    name: str
    key: int
    duration_ps: int
    counters: dict[str, int]
    causes_ps: np.ndarray  # [engines, causes] u64, each row sums to duration_ps
    slices: np.ndarray  # SLICE
    energy_fj: dict[str, int]  # by ENERGY_PARTS, without static power


@dataclass
class Profile:
    """What the chip measured between start and stop, in picoseconds of the chip's clock."""

    start_ps: int
    end_ps: int
    memory_peak_bytes: int
    engines: list[str]
    causes: list[str]
    launches: np.ndarray  # LAUNCH, ordered by start
    records: list[Record] = field(default_factory=list)
    static_mw: int = 0
    link_fj_per_byte: int = 0

    @property
    def total_ps(self) -> int:
        return self.end_ps - self.start_ps

    def span_ps(self, row: np.void) -> tuple[int, int]:
        """When a launch occupied the chip: without the completion record that ends it for the host. Copies over the link
        have no record: theirs includes it."""
        start, index = int(row["start_ps"]), int(row["record"])
        return start, int(row["end_ps"]) if index == NO_RECORD else start + self.records[index].duration_ps


def _names(data: bytes, offset: int, count: int) -> list[str]:
    names = data[offset:].split(b"\0", count)
    if len(names) <= count:
        raise BlobError(f"profile: {count} names promised, {len(names) - 1} found")
    return [name.decode("utf-8", "replace") for name in names[:count]]


def _record(data: bytes, offset: int, engines: int, causes: int) -> tuple[Record, int]:
    if offset + RECORD.itemsize > len(data):
        raise BlobError(f"profile: record at byte {offset} is cut off")
    row = np.frombuffer(data, RECORD, 1, offset)[0]
    num_slices, size = int(row["num_slices"]), int(row["bytes"])
    causes_at = offset + RECORD.itemsize
    slices_at = causes_at + 8 * engines * causes
    if slices_at + num_slices * SLICE.itemsize > offset + size or offset + size > len(data):
        raise BlobError(f"profile: record at byte {offset} does not fit its {size} bytes")
    name = bytes(row["name"]).split(b"\0")[0].decode("utf-8", "replace")
    cause_ps = np.frombuffer(data, "<u8", engines * causes, causes_at).reshape(engines, causes)
    duration = int(row["duration_ps"])
    for engine, total in enumerate(cause_ps.sum(axis=1).tolist()):
        if total not in (duration, 0):  # 0: an engine of a core that another launch had
            raise BlobError(f"profile: causes of engine {engine} in '{name}' sum to {total} ps, not {duration} ps")
    slices = np.frombuffer(data, SLICE, num_slices, slices_at)
    counters = {key: int(row[key]) for key in COUNTERS}
    energy = dict(zip(ENERGY_PARTS, row["energy_fj"].tolist(), strict=True))
    return Record(name, int(row["key"]), duration, counters, cause_ps, slices, energy), offset + size


def parse(data: bytes) -> Profile:
    """Parses and checks a blob; raises BlobError with the place of the first contradiction."""
    if len(data) < HEADER.itemsize:
        raise BlobError(f"profile: {len(data)} bytes are less than a header")
    head = np.frombuffer(data, HEADER, 1)[0]
    if head["magic"] != MAGIC:
        raise BlobError(f"profile: bad magic 0x{int(head['magic']):08x}")
    if head["version"] != VERSION:
        raise BlobError(f"profile: version {head['version']}, this reader knows {VERSION}")
    if int(head["bytes"]) != len(data):
        raise BlobError(f"profile: header says {head['bytes']} bytes, got {len(data)}")
    engines, causes = int(head["num_engines"]), int(head["num_causes"])
    names = _names(data, int(head["names_offset"]), engines + causes)
    count, at = int(head["num_launches"]), int(head["launches_offset"])
    if at + count * LAUNCH.itemsize > len(data):
        raise BlobError(f"profile: {count} launches at byte {at} exceed the blob")
    launches = np.frombuffer(data, LAUNCH, count, at)
    records, at = [], int(head["records_offset"])
    for _ in range(int(head["num_records"])):
        record, at = _record(data, at, engines, causes)
        records.append(record)
    used = launches["record"][launches["record"] != NO_RECORD]
    if used.size and int(used.max()) >= len(records):
        raise BlobError(f"profile: a launch names record {int(used.max())} of {len(records)}")
    order = np.argsort(launches["start_ps"], kind="stable")
    return Profile(
        start_ps=int(head["start_ps"]),
        end_ps=int(head["end_ps"]),
        memory_peak_bytes=int(head["memory_peak_bytes"]),
        static_mw=int(head["static_mw"]),
        link_fj_per_byte=int(head["link_fj_per_byte"]),
        engines=names[:engines],
        causes=names[engines:],
        launches=launches[order],
        records=records,
    )
