"""Makes profile blobs (device/vnpu_profile.h) and machines for tests of the report: no device, made-up but consistent times."""

from __future__ import annotations

import struct

CAUSES = [
    "useful", "unused_lanes", "weight_load", "fill_drain", "dma_setup", "dram", "cache", "noc", "sram_conflict",
    "operand_wait", "semaphore_wait", "issue", "launch_gap", "idle", "other",
]  # fmt: skip
ENGINES = [f"core{core}.{unit}" for core in range(2) for unit in ("matrix", "vector", "dma0", "dma1")]
NO_RECORD = 0xFFFFFFFF
KERNEL, H2D, D2H, D2D, FILL = range(5)


def machine() -> dict:
    """2 cores of 128 x 128 at 1 GHz, f32 at a quarter of the bf16 rate, 100 GB/s of DRAM."""
    rates = [(0, 1)] * 16
    rates[1], rates[2] = (1, 4), (1, 1)
    return {
        "name": "fake", "cores": 2, "workers": 2, "matrix_rows": 128, "matrix_cols": 128, "matrix_rate": rates,
        "vector_lanes": 512, "core_clock_hz": 10**9, "dram_bytes": 2**34,
        "dram_bytes_per_s": 100 * 10**9, "link_bytes_per_s": 32 * 10**9,
    }  # fmt: skip


def split(total: int, parts: dict[str, int]) -> list[int]:
    """Causes of one engine: named shares in percent, the rest idle; sums to total exactly."""
    row = [total * parts.get(cause, 0) // 100 for cause in CAUSES]
    row[CAUSES.index("idle")] += total - sum(row)
    return row


def record(name: str, duration: int, *, macs: int = 0, padded: int | None = None, read: int = 0, written: int = 0,
           elems: int = 0, causes: list[list[int]] | None = None, slices: list[tuple] = (),
           energy: tuple[int, ...] = (0, 0, 0, 0, 0)) -> bytes:  # fmt: skip
    """One record; slices are (engine, op, instance, start_ps, end_ps)."""
    if causes is None:
        causes = [split(duration, {"useful": 40, "dram": 20}) for _ in ENGINES]
    body = struct.pack(f"<{len(ENGINES) * len(CAUSES)}Q", *(ps for row in causes for ps in row))
    body += b"".join(struct.pack("<IHHQQ", *entry) for entry in slices)
    numbers = (
        hash(name) & 0xFFFF,
        duration,
        macs,
        macs if padded is None else padded,
        read,
        written,
        read,
        written,
        60,
        20,
        20,
        30,
        10,
        5,
        1000,
        elems,
        0,
        0,
    )
    return struct.pack("<64s18QII5Q", name.encode(), *numbers, len(slices), 256 + len(body), *energy) + body


def launch(
    seq: int, tag: int, kind: int, record_index: int, arrival: int, start: int, end: int, size: int = 0, reused: int = 0
) -> bytes:
    return struct.pack("<QIIIIQQQQII", seq, 0, tag, kind, record_index, arrival, start, end, size, reused, 0)


def blob(start: int, end: int, launches: list[bytes], records: list[bytes], peak: int = 2**20,
         static_mw: int = 0, link_fj: int = 0) -> bytes:  # fmt: skip
    names = b"".join(name.encode() + b"\0" for name in ENGINES + CAUSES)
    launches_at = 104
    records_at = launches_at + 64 * len(launches)
    names_at = records_at + sum(len(entry) for entry in records)
    total = names_at + len(names)
    head = struct.pack(
        "<6I9Q", 0x464F5250, 4, len(launches), len(records), len(ENGINES), len(CAUSES), start, end, launches_at, records_at,
        names_at, total, peak, static_mw, link_fj,
    ) + bytes(8)  # fmt: skip
    return head + b"".join(launches) + b"".join(records) + names


def encoder_like() -> tuple[bytes, list[tuple]]:
    """A run shaped like a small encoder: copies in, layers of products and norms, one fallback, a copy out."""
    mm = [split(40_000_000, {"useful": 55, "unused_lanes": 5, "weight_load": 6, "fill_drain": 8, "operand_wait": 12, "semaphore_wait": 9}),
          split(40_000_000, {"useful": 18, "fill_drain": 3, "semaphore_wait": 60, "issue": 1}),
          split(40_000_000, {"useful": 40, "dma_setup": 6, "dram": 22, "noc": 3, "sram_conflict": 2}),
          split(40_000_000, {"useful": 22, "dma_setup": 3, "dram": 9})] * 2  # fmt: skip
    norm = [split(9_000_000, {}), split(9_000_000, {"useful": 45, "fill_drain": 6, "operand_wait": 30}),
            split(9_000_000, {"useful": 50, "dram": 38, "dma_setup": 5}), split(9_000_000, {"useful": 50, "dram": 30})] * 2  # fmt: skip
    slices = [
        (engine, 0x20 if engine % 4 == 0 else 0x10, 0, 1_000_000 * i, 1_000_000 * i + 900_000)
        for i in range(30)
        for engine in range(8)
    ]
    records = [
        record(
            "gemm_f32_nt",
            40_000_000,
            macs=250_000_000,
            padded=300_000_000,
            read=900_000,
            written=400_000,
            elems=100_000,
            causes=mm,
            slices=slices,
        ),
        record("layer_norm", 9_000_000, read=600_000, written=600_000, elems=1_500_000, causes=norm),
        record("gelu", 14_000_000, read=900_000, written=900_000, elems=2_000_000),
    ]
    ops, launches, now, seq, tag = [], [], 5_000_000, 0, 0

    def add(op, dtype, shapes, kind, index, duration, where="device", host_ps=0, module="", gap=1_200_000, size=0):
        nonlocal now, seq, tag
        seq, tag = seq + 1, tag + 1
        now += gap
        launches.append(launch(seq, tag, kind, index, now - 700_000, now, now + duration, size, int(seq > 8)))
        now += duration
        ops.append((tag, op, dtype, shapes, where, host_ps, module))

    add("aten::_copy_from", "i64", "[32, 128]", H2D, NO_RECORD, 1_600_000, size=32768)
    for layer in range(6):
        path = f"encoder.layer.{layer}"
        for name in ("query", "key", "value"):
            add(
                "aten::addmm.out",
                "f32",
                "[4096, 384] x [384, 384]",
                KERNEL,
                0,
                40_000_000,
                module=f"{path}.attention.self.{name}",
            )
        add("aten::gelu.out", "f32", "[4096, 1536]", KERNEL, 2, 14_000_000, module=f"{path}.intermediate")
        add("aten::native_layer_norm", "f32", "[4096, 384]", KERNEL, 1, 9_000_000, module=f"{path}.output.LayerNorm")
    add("aten::sort", "f32", "[32]", D2H, NO_RECORD, 800_000, where="host", host_ps=2_000_000, gap=9_000_000, size=128)
    add("aten::_copy_from", "f32", "[32, 384]", D2H, NO_RECORD, 2_000_000, size=49152)
    return blob(4_000_000, now + 3_000_000, launches, records, peak=180 * 2**20), ops
