"""MACs and DRAM bytes recounted from dumped programs (recount.py) equal what the chip counted."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from chip import ROOT, run_program
from recount import Work, count_dump, read_launches

GRIDS = ("1", "3", "2,3")


def assert_recounts(run, dump) -> None:
    launches = [row for row in read_launches(dump) if row["kind"] == "kernel"]
    assert len(launches) == 1
    assert count_dump(dump, launches) == Work(run["macs"], run["dram_read_bytes"], run["dram_written_bytes"])


def manual_programs() -> dict[str, str]:
    """The complete programs of docs/isa.md."""
    blocks = re.findall(r"```vnpu\n(.*?)```", (ROOT / "docs" / "isa.md").read_text(), re.S)
    return {re.search(r"\.program (\w+)", block)[1]: block for block in blocks if ".program" in block}


@pytest.mark.parametrize("grid", GRIDS)
def test_the_programs_of_the_manual(grid, tmp_path):
    programs = manual_programs()
    assert len(programs) == 2
    for name, text in programs.items():
        args = dict.fromkeys(re.findall(r"\.arg (\w+) (?:in|out)", text), 8 << 20)
        dump = tmp_path / name
        run = run_program(text, "default", args=args, grid=grid, env={"VNPU_DUMP": str(dump)}, folder=tmp_path)
        assert run["dram_read_bytes"] and run["dram_written_bytes"]
        assert_recounts(run, dump)


def test_a_product_of_the_manual_has_the_macs_of_its_sizes(tmp_path):
    args = {"a": 300 * 500 * 4, "b": 500 * 200 * 4, "bias": 800, "c": 300 * 200 * 4}
    run = run_program(manual_programs()["gemm_relu"], "default", args=args, grid="3", folder=tmp_path)
    assert run["macs"] == 300 * 500 * 200
    assert run["dram_written_bytes"] == 300 * 200 * 4


class Generator:
    """Random programs of clipped, masked, looped transfers and products; sizes small, every clip mode."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.patterns = 0

    def clips(self, sizes: list[int], depth: int) -> list[tuple[int, str]]:
        """Up to two clips as (dimension, the rest of their text)."""
        texts = []
        for _ in range(self.random.randint(0, 2)):
            dim = self.random.randrange(len(sizes))
            modes = ["grid:{axis}"] + (["loop:{loop}", "block:{loop}:{axis}", "cyclic:{loop}:{axis}"] if depth else [])
            where = self.random.choice(modes).format(
                axis=self.random.randint(0, 1), loop=self.random.randrange(max(depth, 1))
            )
            texts.append((dim, f"{self.random.randint(1, sizes[dim] * 5)}:{where}"))
        return texts

    def pattern(self, space: str, dims: list[int], clips, arg: str = "") -> str:
        self.patterns += 1
        strides, step = [], 1
        for size in reversed(dims):
            strides.insert(0, step)
            step *= size
        text = ", ".join(f"{size}:{stride}" for size, stride in zip(dims, strides, strict=True))
        cut = "".join(f" clip={dim}:{rest}" for dim, rest in clips)
        self.lines.append(f".ap p{self.patterns} {space} f32{arg} dims=[{text}]{cut}")
        return f"p{self.patterns}"

    def mask(self, depth: int) -> str:
        word = self.random.choice(["", "", "first", "last"])
        return f" {word}={self.random.randrange(depth)}" if word and depth else ""

    def nest(self, one) -> list[str]:
        depth = self.random.randint(0, 3)
        body = [f"loop {self.random.randint(1, 4)}" for _ in range(depth)]
        body += [one(depth) + self.mask(depth) for _ in range(self.random.randint(1, 3))]
        return body + ["endloop"] * depth

    def transfer(self, depth: int) -> str:
        dims = [self.random.randint(1, 6) for _ in range(self.random.randint(1, 4))]
        clips = self.clips(dims, depth)
        kind = self.random.choice(["load", "store", "add", "fill"])
        far = self.pattern("dram", dims, clips, " arg=x")
        if kind == "fill":
            return f"dma_fill dst={far} value=1"
        near = self.pattern("sram", dims, clips)
        if kind == "load":
            return f"dma_copy dst={near} src0={far}"
        return f"dma_copy dst={far} src0={near}" + (" acc" if kind == "add" else "")

    def product(self, depth: int) -> str:
        m, k, n = (self.random.randint(1, 12) for _ in range(3))
        cuts = self.clips([m, k, n], depth)

        def of(first: int, second: int) -> list:
            return [({first: 0, second: 1}[dim], rest) for dim, rest in cuts if dim in (first, second)]

        a, b = self.pattern("sram", [m, k], of(0, 1)), self.pattern("sram", [k, n], of(1, 2))
        return f"mm dst={self.pattern('acc', [m, n], of(0, 2))} src0={a} src1={b}"

    def program(self) -> str:
        queues = {
            "dma0": self.nest(self.transfer),
            "dma1": self.nest(self.transfer),
            "matrix0": self.nest(self.product),
        }
        text = ".program random\n.arg x inout\n.sram 16384\n.acc 4096\n" + "\n".join(self.lines)
        return text + "".join(f"\n.queue {name}\n" + "\n".join(body) for name, body in queues.items()) + "\n"


@pytest.mark.parametrize("seed", range(25))
def test_random_programs(seed, tmp_path):
    text = Generator(seed).program()
    grid = GRIDS[seed % len(GRIDS)]
    dump = tmp_path / "dump"
    assert_recounts(
        run_program(text, args={"x": 1 << 16}, grid=grid, env={"VNPU_DUMP": str(dump)}, folder=tmp_path), dump
    )


def test_gathers_count_their_rows(tmp_path):
    rows, width, table = 37, 24, 100
    index = tmp_path / "index"
    np.arange(rows, dtype=np.int64).tofile(index)
    text = f"""
.program gather
.arg table in
.arg index in
.arg out out
.sem full
.sram 16384
.ap rows  dram f32 arg=table dims=[{table}:{width}, {width}:1]
.ap names dram i64 arg=index dims=[{rows}:1]
.ap out_far dram f32 arg=out dims=[{rows}:{width}, {width}:1]
.ap names_near sram i64 dims=[{rows}:1]
.ap near sram f32 base=1024 dims=[{rows}:{width}, {width}:1]
.queue dma0
dma_copy dst=names_near src0=names
fence
dma_gather dst=near src0=rows src1=names_near rows={table}
fence
dma_copy dst=out_far src0=near
"""
    dump = tmp_path / "dump"
    args = {"table": table * width * 4, "index": index, "out": rows * width * 4}
    run = run_program(text, args=args, env={"VNPU_DUMP": str(dump)}, folder=tmp_path)
    assert run["dram_read_bytes"] == rows * 8 + rows * width * 4
    assert_recounts(run, dump)
