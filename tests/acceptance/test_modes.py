"""VNPU_MODE: chaos gives the bits of full, functional has no time, timing has no float values and needs no memory for them."""

from __future__ import annotations

import pytest
from chip import python

ENCODE = """
from blocks import encoder_and_ids
model, ids = encoder_and_ids()
model.to("vnpu")
ids = ids.to("vnpu")
with torch.no_grad():
    result = model(ids)
"""
PROFILED = ENCODE.replace("with torch.no_grad():", "with torch.no_grad(), torch_vnpu.profile(kernels=True) as p:")


@pytest.fixture(scope="module")
def full() -> dict:
    return python(
        PROFILED + "answer(digest=digest(result), timeline=timeline(p.report), ps=p.report['time']['simulated_ps'])"
    )


@pytest.mark.parametrize("seed", ["1", "2"])
def test_chaos_gives_the_bits_of_full(seed, full):
    got = python(ENCODE + "answer(digest=digest(result))", {"VNPU_MODE": "chaos", "VNPU_SEED": seed})
    assert got["digest"] == full["digest"]


def test_functional_gives_the_bits_of_full_and_no_time(full):
    code = (
        ENCODE
        + """
begin, end = torch.vnpu.Event(enable_timing=True), torch.vnpu.Event(enable_timing=True)
x = torch.randn(512, 512).to("vnpu")
begin.record(); y = x @ x; end.record()
torch.vnpu.synchronize()
answer(digest=digest(result))
"""
    )
    assert python(code, {"VNPU_MODE": "functional"})["digest"] == full["digest"]


TIMING = (
    PROFILED
    + """
answer(timeline=timeline(p.report), ps=p.report["time"]["simulated_ps"])
try:
    result.cpu()
    answer(error=None)
except RuntimeError as error:
    answer(error=str(error))
"""
)


def test_timing_takes_the_time_of_full_and_refuses_float_values(full):
    got = python(TIMING, {"VNPU_MODE": "timing"})
    assert (got["timeline"], got["ps"]) == (full["timeline"], full["ps"])
    assert got["error"] is not None and "VNPU_MODE=timing" in got["error"]


INTEGERS = """
x = torch.arange(1000, device="vnpu")
mask = (x * 7) > 3000
table = torch.arange(5000, device="vnpu").view(1000, 5)
rows = torch.nn.functional.embedding(torch.tensor([3, 999, 0], device="vnpu"), table)
answer(sum=int((x * x - 3).sum()), count=int(mask.sum()), chosen=torch.where(mask, x, -x).cpu()[[0, 428, 429]].tolist(),
       rows=rows.cpu().tolist(),
       ints=x.to(torch.int32).cpu()[-1].item())
"""


def test_integers_are_right_in_timing_mode():
    got = python(INTEGERS, {"VNPU_MODE": "timing"})
    assert got["sum"] == sum(i * i - 3 for i in range(1000))
    assert got["count"] == sum(i * 7 > 3000 for i in range(1000))
    assert got["chosen"] == [0, -428, 429]
    assert got["rows"] == [[15, 16, 17, 18, 19], [4995, 4996, 4997, 4998, 4999], [0, 1, 2, 3, 4]]
    assert got["ints"] == 999


LARGE = """
layers = [torch.empty(16384, 16384, device="vnpu") for _ in range(100)]  # 100 x 1 GiB
x = torch.empty(1, 16384, device="vnpu")
with torch_vnpu.profile(slices=False) as p:
    for weight in layers:
        x = torch.nn.functional.linear(x, weight)
torch.vnpu.synchronize()
pid = torch_vnpu._C._device_pid()
answer(bytes=sum(w.nbytes for w in layers), rss=rss_bytes(pid), peak=rss_bytes(pid, "VmHWM"),
       simulated_ps=p.report["time"]["simulated_ps"], read=p.report["dram"]["read_bytes"])
"""


def test_a_model_of_100_gb_costs_little_memory(default):
    got = python(LARGE, {"VNPU_MODE": "timing", "VNPU_OPTIONS": "dram.bytes=200 GiB"})
    assert got["bytes"] >= 100e9
    assert got["read"] >= got["bytes"], "every weight is read once"
    assert got["simulated_ps"] >= float(got["bytes"] / default.dram_peak) * 1e12
    assert got["peak"] < 1e9, f"{got['peak'] / 1e6:.0f} MB at most, {got['rss'] / 1e6:.0f} MB now"


def test_float_copies_to_the_device_are_lengths_in_timing_mode():
    code = """
x = torch.ones(64 << 20)  # 256 MB of floats
y = x.to("vnpu")
torch.vnpu.synchronize()
pid = torch_vnpu._C._device_pid()
rss = int(next(line for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS")).split()[1]) * 1024
answer(rss=rss, ids=torch.arange(5).to("vnpu").cpu().tolist())
try:
    y.cpu()
    answer(error=None)
except RuntimeError as error:
    answer(error=str(error))
"""
    got = python(code, {"VNPU_MODE": "timing"})
    assert got["rss"] < 100e6
    assert got["ids"] == [0, 1, 2, 3, 4]
    assert got["error"] and "timing" in got["error"]
