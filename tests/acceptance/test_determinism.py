"""The same cycles, launch by launch, whatever the host does: threads, load, sleeps, reuse. And ten thousand queued launches."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from chip import python

ENCODE = """
import contextlib
from blocks import encoder_and_ids
model, ids = encoder_and_ids()
model.to("vnpu")
ids = ids.to("vnpu")
pause = float(os.environ.get("PAUSE", "0"))
if pause:
    for module in model.modules():
        module.register_forward_hook(lambda *_: time.sleep(pause))
with torch.no_grad(), torch_vnpu.profile(kernels=True) as p:
    first = model(ids)
    second = model(ids)
answer(digest=digest(first, second), timeline=timeline(p.report), simulated_ps=p.report["time"]["simulated_ps"],
       reused=sum(row["is_reused"] for row in p.report["kernels"]), launches=len(p.report["kernels"]))
"""
SAME = ("digest", "timeline", "simulated_ps", "launches")


@pytest.fixture(scope="module")
def base() -> dict:
    return python(ENCODE)


def assert_same(got: dict, base: dict) -> None:
    assert {key: got[key] for key in SAME} == {key: base[key] for key in SAME}


def test_the_base_reuses_the_second_forward(base):
    """Otherwise switching reuse off would show nothing."""
    assert base["reused"] >= base["launches"] // 2


@pytest.mark.parametrize("threads", ["1", "2"])
def test_threads_change_nothing(threads, base):
    assert_same(python(ENCODE, {"VNPU_THREADS": threads}), base)


@pytest.mark.parametrize("reuse", ["off", "check"])
def test_reuse_changes_nothing(reuse, base):
    got = python(ENCODE, {"VNPU_REUSE": reuse})
    assert_same(got, base)
    assert (got["reused"] == 0) == (reuse == "off")


def test_sleeps_between_submissions_change_nothing(base):
    assert_same(python(ENCODE, {"PAUSE": "0.05"}), base)


def test_busy_cores_change_nothing(base):
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        got = python(ENCODE)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert_same(got, base)


MANY = """
x = torch.zeros(1000, device="vnpu")
with torch_vnpu.profile(slices=False, kernels=True) as p:
    for _ in range(10000):
        x += 1
host_ps = torch.vnpu.host_clock_ps()
answer(values=x.cpu().unique().tolist(), simulated_ps=p.report["time"]["simulated_ps"], host_ps=host_ps,
       timeline=timeline(p.report), launches=p.report["launches"]["kernels"])
"""


def test_ten_thousand_queued_launches(default):
    first, second = python(MANY), python(MANY, {"VNPU_THREADS": "1", "VNPU_REUSE": "off"})
    assert first["values"] == [10000.0]
    assert first["launches"] == 10000 > default.int("cmd.queue_depth")
    assert first == second
    assert first["simulated_ps"] >= 10000 * max(default.int("host.launch"), default.int("cmd.launch_gap"))
