"""Runs a fixed set of programs on the chip of VNPU_CONFIG and VNPU_OPTIONS and prints all that was counted, as one line of JSON.

A key of the configuration that changes no number here changes no result: test_keys.py. Timing mode, in this process, no torch.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.accuracy.device import Device, RefusedError  # noqa: E402

KI, MI = 2**10, 2**20
NO_RECORD = 0xFFFFFFFF

# (rows, elements of f32 a row, bytes from row to row, bytes from tile to tile): short and long runs, hits and conflicts of DRAM rows.
WALKS = [(16, 16, 4 * KI, 64), (16, 8, 64 * KI, 4 * KI), (8, 64, 12352, 512), (8, 16, MI, 32 * KI), (4, 256, 16 * KI, 128 * KI),
         (32, 8, 8 * KI, 32), (2, 512, 256 * KI, 2 * KI)]  # fmt: skip

WALK = """
.program walk
.arg a in
.arg b inout
.sem full
.sem free
.const R {rows}
.const E {elems}
.sram 8*R*E
.ap a_far dram f32 arg=a dims=[R:{stride}, E:1] loop0=+{step} grid0=+{step}
.ap b_far dram f32 arg=b dims=[R:{stride}, E:1] loop0=+{step} grid0=+{step}
.ap near sram f32 dims=[R:E, E:1] rot=0:2:R*E
.queue dma0
  loop {tiles}
    {load} dst=near src0=a_far wait=free signal=full
  endloop
.queue dma1
  sync signal=free+2
  loop {tiles}
    dma_copy dst=b_far src0=near wait=full signal=free {store}
  endloop
"""

# Reads of what was just written, and writes behind reads: turnarounds of the data bus.
MIXED = """
.program mixed
.arg a inout
.sem turn
.sem back
.sram 4096
.ap far  dram f32 arg=a dims=[4:{stride}, 64:1] loop0=+64 grid0=+256
.ap near sram f32 dims=[4:64, 64:1]
.queue dma0
  sync signal=turn
  loop 12
    dma_copy dst=far src0=near wait=turn signal=back
    dma_copy dst=near src0=far wait=back signal=turn
  endloop
"""

# Both engines at once: reads of one place, writes to another.
CROSS = """
.program cross
.arg a in
.arg b inout
.sram 4096
.ap a_far dram f32 arg=a dims=[4:{stride}, 64:1] loop0=+64 grid0=+256
.ap b_far dram f32 arg=b dims=[4:{stride}, 64:1] loop0=+64 grid0=+256
.ap left  sram f32 dims=[4:64, 64:1]
.ap right sram f32 base=1024 dims=[4:64, 64:1]
.queue dma0
  loop 12
    dma_copy dst=left src0=a_far
  endloop
.queue dma1
  loop 12
    dma_copy dst=b_far src0=right
  endloop
"""

# Many transfers of one short row: how many are on their way.
SHORT = """
.program short
.arg a in
.arg b inout
.sram 4096
.ap a_far dram f32 arg=a dims=[16:1] loop0=+64
.ap b_far dram f32 arg=b dims=[16:1] loop0=+64
.ap left  sram f32 dims=[16:1]
.ap right sram f32 base=1024 dims=[16:1]
.queue dma0
  loop 60
    dma_copy dst=left src0=a_far
  endloop
.queue dma1
  loop 60
    dma_copy dst=b_far src0=right
  endloop
"""

# Rows of a table by computed indices.
GATHER = """
.program gather
.arg table in
.arg out out
.sem at
.sem done
.sram 8192
.ap numbers iota i32 base=3 dims=[32:37]
.ap index   sram i32 dims=[32:1]
.ap table_far dram f32 arg=table dims=[2048:64, 16:1]
.ap rows    sram f32 base=1024 dims=[32:16, 16:1]
.ap out_far dram f32 arg=out dims=[32:16, 16:1]
.queue vector0
  v_unary.copy dst=index src0=numbers int signal=at
.queue dma0
  dma_gather.error dst=rows src0=table_far src1=index rows=2048 wait=at signal=done
.queue dma1
  dma_copy dst=out_far src0=rows wait=done
"""

# What the simplest vector engine has.
PLAIN = """
.program plain
.arg out out
.sem done
.sram 16*1024
.ap row  sram f32 dims=[4:256, 256:1]
.ap far  dram f32 arg=out dims=[4:256, 256:1]
.queue vector0
  v_binary.add dst=row src0=row src1=row
  v_binary.mul dst=row src0=row src1=row
  v_unary.copy dst=row src0=row
  v_unary.relu dst=row src0=row signal=done
.queue dma0
  dma_copy dst=far src0=row wait=done
"""

# Products of lines shorter than a piece, over several folds of weights.
LINES = """
.program lines
.sram 16*1024
.acc 15*72*4
.ap a sram {dtype} dims=[5:120, 3:40, 40:1]
.ap b sram {dtype} base=4096 dims=[40:72, 72:1]
.ap c acc {sums} dims=[5:216, 3:72, 72:1]
.queue matrix0
  loop 3
    mm dst=c src0=a src1=b
  endloop
"""

# A load while the vector engine reads.
CROWDED = """
.program crowded
.arg a in
.sram 16*1024
.ap far  dram f32 arg=a dims=[4096:1]
.ap near sram f32 dims=[4096:1]
.queue vector0
  loop 8
    v_unary.relu dst=near src0=near
  endloop
.queue dma0
  dma_copy dst=near src0=far
"""

# Every class of vector work, lane-filling rows and short ones, a column, and row sums; matrix products of partial and whole folds.
UNITS = """
.program units
.arg out out
.sem done
.sem sums
.sram 16*1024
.ap row  sram f32 dims=[4:256, 256:1]
.ap far  dram f32 arg=out dims=[4:256, 256:1]
.ap red  sram f32 base=8192 dims=[4:1]
.ap row2 sram f32 dims=[256:4, 4:1]
.ap col  sram f32 dims=[64:64]
.queue vector0
  v_binary.add dst=row src0=row src1=row
  v_binary.mul dst=row src0=row src1=row
  v_binary.div dst=row src0=row src1=row
  v_unary.exp dst=row src0=row
  v_unary.copy dst=row src0=row
  v_unary.relu dst=row2 src0=row2
  v_unary.relu dst=col src0=col
  v_reduce.add dst=red src0=row signal=done
.queue dma0
  dma_copy dst=far src0=row wait=done
"""


class Probe(Device):
    """All numbers of all programs, in order."""

    def __init__(self) -> None:
        super().__init__()
        self._check(self._driver.vnpu_profile_begin(0, 0), "vnpu_profile_begin")
        self.numbers: dict[str, list[int]] = {}

    def stored_columns(self, size: int) -> int:
        """Products as torch gives them: parts of tiles, and of folds."""
        return size

    def timed(self, run: Any) -> dict[str, Any]:
        run()
        return {}

    def host_clock(self) -> int:
        out = ctypes.c_uint64()
        self._check(self._driver.vnpu_sim_host_clock(0, ctypes.byref(out)), "vnpu_sim_host_clock")
        return out.value

    def kernels(self) -> None:
        calls: list[dict[str, Any]] = [{"op": "gemm", "m": m, "n": n, "k": k, "dtype": dtype} for dtype in ("f32", "bf16", "f16", "i8")
                                       for m, n, k in ((24, 40, 72), (2, 10, 12), (130, 150, 300))]  # fmt: skip
        calls.append(
            {"op": "gemm", "m": 130, "n": 150, "k": 300, "dtype": "i8", "out": "i8"}
        )  # narrower on the way out
        calls += [{"op": "softmax", "rows": 24, "cols": 200}, {"op": "layer_norm", "rows": 24, "cols": 200},
                  {"op": "reduce", "rows": 64, "cols": 300}, {"op": "reduce", "rows": 64, "cols": 5000},
                  {"op": "pointwise", "shape": [40, 300], "func": "exp_sub"},
                  {"op": "pointwise", "shape": [3, 70_000], "func": "add"}]  # fmt: skip
        for call in calls:
            try:
                self.call(call)
            except RefusedError as error:
                self.numbers["refused"] = [*self.numbers.get("refused", []), len(str(error))]

    def classes(self) -> int:
        """Classes of cores."""
        machine = ctypes.create_string_buffer(16 * KI)
        count = 0
        while self._driver.vnpu_device_class(0, ctypes.c_uint32(count), machine) == 0:
            count += 1
        return count

    def on_each_class(self) -> None:
        """The programs once more, on every class that can run them: by itself each goes to the first."""
        count = self.classes()
        for core_class in range(1, count + 1) if count > 1 else ():
            try:
                self.programs(core_class)
            except RefusedError as error:
                self.numbers["refused"] = [*self.numbers.get("refused", []), core_class, len(str(error))]

    def programs(self, core_class: int = 0) -> None:
        for rows, elems, stride, step in WALKS:
            for load, store in (("dma_copy", ""), ("dma_transpose", ""), ("dma_copy", "acc")):
                text = WALK.format(
                    rows=rows, elems=elems, stride=stride // 4, step=step // 4, tiles=12, load=load, store=store
                )
                self.text(text, [rows * stride + 300 * step + 4 * KI] * 2, (4, 1), core_class)
        for stride in (16 * KI, MI, 12352):
            self.text(MIXED.format(stride=stride // 4), [4 * stride + 64 * KI], (2, 1), core_class)
            self.text(CROSS.format(stride=stride // 4), [4 * stride + 64 * KI] * 2, (2, 1), core_class)
        self.lines(core_class)
        rest = (
            (CROWDED, [16 * KI]),
            (SHORT, [64 * KI] * 2),
            (PLAIN, [16 * KI]),
            (GATHER, [2048 * 256, 4 * KI]),
            (UNITS, [16 * KI]),
        )
        for text, args in rest:
            self.text(text, args, core_class=core_class)
            self._check(self._driver.vnpu_device_synchronize(0), "synchronize")

    def lines(self, core_class: int) -> None:
        for dtype, sums in (("f32", "f32"), ("bf16", "f32"), ("i8", "i32")):
            try:
                self.text(LINES.format(dtype=dtype, sums=sums), [], core_class=core_class)
            except RefusedError as error:  # no such products
                self.numbers["refused"] = [*self.numbers.get("refused", []), len(str(error))]

    def host(self) -> None:
        """The command path, the link and the host's calls: what they take shows in the host's clock and in every launch's times."""
        address = self._alloc(MI)
        none = ctypes.c_uint64(0)
        clock = []
        for nbytes in (1, 300_000):
            self._check(
                self._driver.vnpu_sim_memcpy_h2d_length(ctypes.c_uint64(address), ctypes.c_size_t(nbytes), none), "copy"
            )
            clock.append(self.host_clock())
        self._check(self._driver.vnpu_device_synchronize(0), "synchronize")
        clock.append(self.host_clock())
        self._driver.vnpu_stream_query(none)
        clock.append(self.host_clock())
        self._streams(address)
        self._overlap(address)
        self._check(self._driver.vnpu_device_synchronize(0), "synchronize")
        self.numbers["host"] = [*clock, self.host_clock()]
        self._free_all()

    def _streams(self, address: int) -> None:
        """More streams than hardware queues, and more packets than a stream holds."""
        streams = []
        for _ in range(9):
            stream = ctypes.c_uint64()
            self._check(self._driver.vnpu_stream_create(0, 0, ctypes.byref(stream)), "vnpu_stream_create")
            streams.append(stream)
        for count, stream in [(1, s) for s in streams] * 2 + [(1100, streams[0])]:
            for _ in range(count):
                self._check(
                    self._driver.vnpu_memset(
                        ctypes.c_uint64(address),
                        ctypes.c_uint64(0),
                        ctypes.c_uint32(1),
                        ctypes.c_size_t(64 * KI),
                        stream,
                    ),
                    "vnpu_memset",
                )
        self.numbers["submitted"] = [self.host_clock()]
        for stream in streams:
            self._check(self._driver.vnpu_stream_destroy(stream), "vnpu_stream_destroy")

    def _overlap(self, address: int) -> None:
        """Fills of two streams on a core each, side by side; on a chip of one core there is nothing to see."""
        streams = []
        for core in range(2):
            stream = ctypes.c_uint64()
            self._check(self._driver.vnpu_stream_create(0, 0, ctypes.byref(stream)), "vnpu_stream_create")
            streams.append(stream)
            if self._driver.vnpu_stream_set_cores(stream, ctypes.c_uint64(1 << core)) != 0:
                return
        for i in range(6):
            place, zero = ctypes.c_uint64(address + i * 128 * KI), ctypes.c_uint64(0)
            done = self._driver.vnpu_memset(place, zero, ctypes.c_uint32(1), ctypes.c_size_t(100 * KI), streams[i % 2])
            self._check(done, "vnpu_memset")

    def finish(self) -> dict[str, list[int]]:
        blob, size = ctypes.c_void_p(), ctypes.c_size_t()
        self._check(self._driver.vnpu_profile_end(0, ctypes.byref(blob), ctypes.byref(size)), "vnpu_profile_end")
        data = ctypes.string_at(blob.value, size.value)
        _, _, launches, records, engines, causes = struct.unpack_from("<6I", data, 0)
        launches_at, records_at = struct.unpack_from("<2Q", data, 40)
        static_mw, link_fj = struct.unpack_from("<2Q", data, 80)
        end = launches_at + 64 * launches
        self.numbers["launches"] = [
            n for at in range(launches_at, end, 64) for n in struct.unpack_from("<3Q", data, at + 24)
        ]
        at, durations, energy, cause = records_at, [], [static_mw, link_fj], []
        for _ in range(records):
            durations += struct.unpack_from("<16Q", data, at + 72)
            energy += struct.unpack_from("<5Q", data, at + 216)
            cause += struct.unpack_from(f"<{engines * causes}Q", data, at + 256)
            at += struct.unpack_from("<I", data, at + 212)[0]
        self.numbers |= {"records": durations, "energy": energy, "causes": cause}
        return self.numbers


def main() -> int:
    probe = Probe()
    probe.kernels()
    probe.programs()
    probe.on_each_class()
    probe.host()
    print(json.dumps(probe.finish()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
