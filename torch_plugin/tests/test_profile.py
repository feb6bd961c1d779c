"""The profiler on the device: what it measures must follow from what ran."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import torch_vnpu


@pytest.fixture(scope="module")
def product():
    a, b = torch.randn(96, 80).to("vnpu"), torch.randn(80, 64).to("vnpu")
    with torch_vnpu.profile(kernels=True, title="product") as profile:
        for _ in range(3):
            c = a @ b
        result = c.cpu()
    assert torch.allclose(result, a.cpu() @ b.cpu(), atol=1e-4)
    return profile


def test_flops_and_bytes_follow_from_the_shapes(product):
    report = product.report
    assert report["flops"] == 3 * 2 * 96 * 80 * 64
    row = next(row for row in report["op_table"] if "mm" in row["op"])
    assert row["count"] == 3 and row["where"] == "device"
    assert row["dram_written_bytes"] == 3 * 96 * 64 * 4
    assert row["dram_read_bytes"] >= 3 * (96 * 80 + 80 * 64) * 4
    assert report["link"]["bytes"] == 96 * 64 * 4


def test_every_engine_is_booked_to_the_picosecond(product):
    report = product.report
    total = report["time"]["simulated_ps"]
    assert total > 0 and report["engines"]
    for engine in report["engines"]:
        assert sum(engine["causes_ps"].values()) == engine["total_ps"] == total
        assert engine["causes_ps"]["other"] <= total // 100
    assert sum(report["timeline"].values()) == total


def test_kernels_are_listed_and_equal_launches_reuse_their_timing(product):
    kernels = [row for row in product.report["kernels"] if row["kind"] == "kernel"]
    assert len(kernels) == product.report["launches"]["kernels"] >= 3
    assert len({row["key"] for row in kernels}) == 1
    assert len({row["duration_ps"] for row in kernels}) == 1


def test_simulated_time_repeats_and_wall_time_does_not_matter():
    x = torch.randn(64, 64).to("vnpu")
    times = []
    for _ in range(3):
        with torch_vnpu.profile(slices=False) as profile:
            y = (x @ x).relu()
            torch.vnpu.synchronize()
        times.append([(row["op"], row["simulated_ps"]) for row in profile.report["op_table"]])
    assert times[0] == times[1] == times[2] and times[0]
    assert y.shape == (64, 64)


def test_files_are_written_and_agree(product, tmp_path):
    paths = product.save(tmp_path / "a" / "b")
    assert [path.name for path in paths] == ["report.json", "report.html", "trace.json.gz", "config.ini"]
    assert json.loads(paths[0].read_text())["time"] == product.report["time"]
    assert "[matrix]" in paths[3].read_text()


def test_profiles_do_not_nest_and_need_their_end():
    with torch_vnpu.profile() as outer:
        with pytest.raises(RuntimeError, match="not nest"):
            torch_vnpu.profile().__enter__()
        with pytest.raises(RuntimeError, match="after the `with` block"):
            _ = outer.report
    assert outer.report["schema"] == "vnpu-report/1"


def test_an_exception_passes_through_and_the_next_profile_works():
    with pytest.raises(KeyError), torch_vnpu.profile():
        raise KeyError("mine")
    with torch_vnpu.profile() as profile:
        torch.ones(4, device="vnpu").add_(1)
    assert profile.report["launches"]["count"] >= 1


@pytest.mark.host
def test_host_operators_are_named_and_priced():
    x = torch.randn(32).to("vnpu")
    with torch_vnpu.profile() as profile:
        x.sort()
    coverage = profile.report["coverage"]
    row = next(row for row in coverage["ops"] if row["where"] == "host")
    assert "sort" in row["op"] and coverage["fallback"] == 1
    assert row["simulated_ps"] > 0


def test_flops_cover_what_torch_counts():
    model = torch.nn.Sequential(torch.nn.Linear(48, 96), torch.nn.GELU(), torch.nn.Linear(96, 24))
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
    for net, x in ((model, torch.randn(16, 48)), (layer, torch.randn(2, 8, 32))):
        # Torch does not count the fused attention of the CPU: both take the one that is made of products.
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            net.train()(x)
        net.to("vnpu")
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), torch_vnpu.profile() as profile:
            net(x.to("vnpu"))
        assert profile.report["flops"] == counter.get_total_flops()


def test_modules_are_named():
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).to("vnpu")
    with torch_vnpu.profile() as profile:
        net(torch.randn(4, 8).to("vnpu"))
    names = [row["module"] for row in profile.report["modules"]]
    assert names and any(name.endswith("0") for name in names)


SCRIPT = """
import sys, torch
x = torch.ones(8, device="vnpu")
print("sum", (x + x).sum().item(), sys.argv[1:], __name__)
sys.exit(int(sys.argv[1]))
"""


def test_vnpu_profile_runs_a_script_and_keeps_its_exit_code(tmp_path):
    script = tmp_path / "work.py"
    script.write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "torch_vnpu.cli",
        "profile",
        "--out",
        str(tmp_path / "out"),
        str(script),
        "7",
        "--x",
    ]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env={**os.environ}, timeout=300)
    assert done.returncode == 7, done.stderr
    assert "sum 16.0 ['7', '--x'] __main__" in done.stdout
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["title"] == "work" and report["coverage"]["native"] >= 2
    assert (tmp_path / "out" / "report.html").exists()


def test_vnpu_profile_reports_what_ran_before_an_exception(tmp_path):
    script = tmp_path / "work.py"
    script.write_text("import torch\nx = torch.ones(8, device='vnpu') + 1\nraise ValueError('wished')\n")
    command = [
        sys.executable,
        "-m",
        "torch_vnpu.cli",
        "profile",
        "--quiet",
        "--out",
        str(tmp_path / "out"),
        str(script),
    ]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 1 and "ValueError: wished" in done.stderr
    assert json.loads((tmp_path / "out" / "report.json").read_text())["launches"]["kernels"] >= 1
    missing = [sys.executable, "-m", "torch_vnpu.cli", "profile", "nowhere.py"]
    done = subprocess.run(missing, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 2 and "no such script: nowhere.py" in done.stderr
