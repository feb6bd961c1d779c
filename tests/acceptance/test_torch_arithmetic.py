"""Configuration arithmetic with PyTorch operators: one process per chip runs the same work, and time moves as arithmetic says."""

from __future__ import annotations

import pytest
from chip import Config, check_causes, finish_python, python, start_python
from recount import Program, read_launches, stream_cycles

WORK = """
GEMM, STREAM, ROW = 2048, 1 << 24, 4096
def measure(name, run):
    run()
    with torch_vnpu.profile(slices=False, kernels=True) as p:
        run()
    rows = [row for row in p.report["kernels"] if row["kind"] == "kernel"]
    causes = {}
    for engine in p.report["engines"]:
        unit = causes.setdefault(engine["name"].split(".")[1], {})
        for cause, ps in engine["causes_ps"].items():
            unit[cause] = unit.get(cause, 0) + ps
    answer(**{name: dict(ps=sum(row["duration_ps"] for row in rows), launches=len(rows), flops=p.report["flops"],
                         read=p.report["dram"]["read_bytes"], written=p.report["dram"]["written_bytes"], causes=causes,
                         engines=p.report["engines"], total_ps=p.report["time"]["simulated_ps"])})
a, b, c = (torch.empty(GEMM, GEMM, device="vnpu") for _ in range(3))
measure("gemm", lambda: torch.mm(a, b, out=c))
x, y, z = (torch.empty(STREAM, device="vnpu") for _ in range(3))
measure("add", lambda: torch.add(x, y, out=z))
measure("neg", lambda: torch.neg(x, out=z))
w, row, out = torch.empty(ROW, ROW, device="vnpu"), torch.empty(1, ROW, device="vnpu"), torch.empty(1, ROW, device="vnpu")
measure("row", lambda: torch.mm(row, w, out=out))
"""
CHIPS = {
    "base": "",
    "fast": "core.clock=2 GHz",
    "slow": "core.clock=500 MHz",
    "rows": "matrix.rows=64",
    "cols": "matrix.cols=64",
    "cores": "grid.cores=2",
    "channels": "dram.channels=16",
    "sram": "sram.bytes=1 MiB",
}


@pytest.fixture(scope="module")
def chips() -> dict[str, dict]:
    """Times only: VNPU_MODE=timing. Two processes at a time."""
    answers, running = {}, {}
    for name, options in [*CHIPS.items(), (None, None)]:
        while len(running) == 2 or (name is None and running):
            first = next(iter(running))
            answers[first] = finish_python(running.pop(first))
        if name is not None:
            running[name] = start_python(WORK, {"VNPU_MODE": "timing", "VNPU_OPTIONS": options})
    return answers


def test_causes_sum_on_every_chip(chips):
    for chip in chips.values():
        for work in chip.values():
            check_causes(work["engines"], work["total_ps"])


def test_a_large_product_reaches_85_percent_of_peak(chips, default):
    work = chips["base"]["gemm"]
    assert work["flops"] == 2 * 2048**3
    peak = float(2 * default.macs_per_s())
    assert 0.85 * peak <= work["flops"] / (work["ps"] * 1e-12) <= peak


@pytest.mark.parametrize("name", ["add", "neg"])
def test_a_stream_reaches_85_percent_of_dram(name, chips, default):
    work = chips["base"][name]
    arrays = {"add": 3, "neg": 2}[name]
    moved = work["read"] + work["written"]
    assert moved == arrays * (1 << 24) * 4
    limit = float(default.dram_peak * (1 - default.refresh_share))
    assert 0.85 * limit <= moved / (work["ps"] * 1e-12) <= limit


def test_twice_the_core_clock_halves_a_compute_bound_product(chips):
    assert chips["base"]["gemm"]["ps"] == pytest.approx(chips["slow"]["gemm"]["ps"] / 2, rel=0.03)


@pytest.mark.parametrize("name", ["add", "neg"])
def test_twice_the_core_clock_leaves_memory_bound_time(name, chips):
    assert chips["fast"][name]["ps"] == pytest.approx(chips["base"][name]["ps"], rel=0.01)


@pytest.mark.parametrize("name", ["rows", "cols", "cores"])
def test_half_the_array_or_cores_doubles_a_product(name, chips):
    assert chips[name]["gemm"]["ps"] == pytest.approx(2 * chips["base"]["gemm"]["ps"], rel=0.1)


def test_half_the_channels(chips):
    base, narrow = chips["base"], chips["channels"]
    for name in ("add", "neg"):
        assert narrow[name]["ps"] == pytest.approx(2 * base[name]["ps"], rel=0.1)
    assert base["gemm"]["ps"] <= narrow["gemm"]["ps"] <= 1.25 * base["gemm"]["ps"], "compute-bound, nearly"


def test_a_quarter_of_the_scratchpad_reads_more(chips):
    """Smaller tiles pass over the operands more often; the products are the same."""
    base, small = chips["base"]["gemm"], chips["sram"]["gemm"]
    assert small["flops"] == base["flops"]
    assert small["read"] > base["read"]
    assert small["ps"] >= base["ps"]


def test_one_row_is_dram_bound(chips, default):
    """M = 1: every weight is read once and used once. The array waits for tiles, and they come as fast as DRAM gives them."""
    work = chips["base"]["row"]
    assert work["flops"] == 2 * 4096 * 4096
    assert work["read"] >= 4096 * 4096 * 4
    array = work["causes"]["matrix"]
    assert array["operand_wait"] == max(array.values())
    assert array["operand_wait"] > 1.5 * array["weight_load"]
    limit = float(default.dram_peak * (1 - default.refresh_share))
    assert work["read"] / (work["ps"] * 1e-12) >= 0.8 * limit
    assert chips["channels"]["row"]["ps"] == pytest.approx(2 * work["ps"], rel=0.1), "half the DRAM"
    assert chips["rows"]["row"]["ps"] == pytest.approx(work["ps"], rel=0.05), "half the array: not what it waits for"


def test_129_cubed_costs_its_partial_tiles(tmp_path):
    """The arrays stream as long as the folds of the dumped program take, nearly empty ones included."""
    dump = tmp_path / "dump"
    code = """
shapes = [(129, 129, 129), (128, 128, 128), (1, 300, 1000), (257, 64, 31)]
results = {}
for m, k, n in shapes:
    a, b = torch.empty(m, k, device="vnpu"), torch.empty(k, n, device="vnpu")
    with torch_vnpu.profile(slices=False, kernels=True) as p:
        a @ b
    streamed = sum(e["causes_ps"]["useful"] + e["causes_ps"]["unused_lanes"] for e in p.report["engines"] if e["name"].endswith("matrix"))
    results[str((m, k, n))] = dict(streamed=streamed, flops=p.report["flops"], seqs=[row["seq"] for row in p.report["kernels"]])
answer(**results)
"""
    config = Config("default")
    got = python(code, {"VNPU_MODE": "timing", "VNPU_DUMP": str(dump)})
    launches = {row["seq"]: row for row in read_launches(dump) if row["kind"] == "kernel"}
    for shape, work in got.items():
        m, k, n = map(int, shape.strip("()").split(","))
        assert work["flops"] == 2 * m * k * n
        cycles = 0
        for seq in work["seqs"]:
            row = launches[seq]
            program = Program.read(dump / f"{row['program']}.vnpu")
            cycles += stream_cycles(
                program,
                tuple(row["grid"]),
                config.int("matrix.rows"),
                config.int("matrix.cols"),
                config["matrix.rate.f32"],
            )
        assert work["streamed"] == cycles * 1000, shape
        assert cycles * config["matrix.rate.f32"] >= -(-k // 128) * -(-n // 128) * m, (
            "no fewer folds than the shape has"
        )
