"""The shipped chips: published peaks, and a small matrix product of every type that is timed or refused by name."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from chip import ROOT, TIMEOUT_S, clean_env, python, vnpu

CONFIGS = sorted(path.stem for path in (ROOT / "configs").glob("*.ini"))
NO_PRODUCT = ("default", "tiny", "systolic-ideal")  # nothing is published of them
BLOCKS = ("bfp8", "bfp4")  # named where a chip has them
DTYPES = ("f32", "bf16", "f16", "i8", *BLOCKS)
WITHIN = 0.02

# TOPS per type and GB/s of memory as published, or by arithmetic from published counts and clocks. What is absent, is not published.
PUBLISHED: dict[str, dict[str, float]] = {
    "tpuv1-like": {"i8": 92, "DRAM": 34},
    "tpuv3-like": {"bf16": 123 / 2, "DRAM": 900},  # one core of two, with the memory of the chip
    "tpuv4-like": {"bf16": 275, "i8": 275, "DRAM": 1200},
    "trainium2-like": {"f32": 20, "bf16": 79, "f16": 79, "DRAM": 2900 / 8},  # one core of eight
    "gaudi2-like": {"bf16": 432, "DRAM": 2460},
    "ascend910-like": {"f16": 256, "i8": 512, "DRAM": 1200},
    "wormhole-like": {"bf16": 74, "f16": 74, "bfp8": 148, "DRAM": 288},
    "edge-like": {"i8": 2 * 512 * 1e9 / 1e12, "DRAM": 12},  # 512 units at 1 GHz; published rounded to 1
    "gemmini-16": {
        "i8": 2 * 256 * 1e9 / 1e12,
        "ports": 16,
    },  # 256 units, an ideal memory behind a 128-bit bus, cycles taken as 1 ns
    "vta": {"i8": 0.0512, "DRAM": 2.1},
}


def summary(name: str) -> dict[str, float]:
    """Peaks in TOPS by type (0: none) and in GB/s of the memory and of its ports, from `vnpu info`."""
    text = vnpu("info", name).stdout
    out = dict.fromkeys(BLOCKS, 0.0)
    out |= {dtype: float(value) for dtype, value in re.findall(r"^peak (\w+) +([\d.e+]+) TOPS", text, re.M)}
    out |= dict.fromkeys(re.findall(r"^peak (\w+) +none", text, re.M), 0.0)
    match = re.search(r"^DRAM +([\d.e+]+) GB/s peak", text, re.M)
    assert match and set(out) == set(DTYPES), text
    ports = re.search(r"memory endpoints send ([\d.e+]+) GB/s", text)
    assert ports, text
    return out | {"DRAM": float(match[1]), "ports": float(ports[1])}


def fitted_clock(name: str) -> float:
    """Published over fitted clock of the memory, where the configuration states both; else 1."""
    text = (ROOT / "configs" / f"{name}.ini").read_text().split("[dram]")[-1]
    match = re.search(r"^clock = ([\d.]+) MHz +; fitted: .*published: .* at ([\d.]+) MHz", text, re.M)
    return float(match[2]) / float(match[1]) if match else 1.0


def test_every_product_is_compared():
    assert set(CONFIGS) - set(NO_PRODUCT) <= set(PUBLISHED)


@pytest.mark.parametrize("name", [name for name in CONFIGS if name in PUBLISHED])
def test_peaks_are_the_published_ones(name):
    got = summary(name)
    got["DRAM"] *= fitted_clock(name)
    for what, value in PUBLISHED[name].items():
        assert got[what] == pytest.approx(value, rel=WITHIN), what


@pytest.mark.parametrize("name", CONFIGS)
def test_a_chip_loads_without_errors(name):
    assert vnpu("config", "check", str(ROOT / "configs" / f"{name}.ini")).stdout.count("ok") == 1


@pytest.mark.parametrize("name", CONFIGS)
def test_a_product_of_every_type_is_timed_or_refused_by_name(name):
    m = 128  # whole tiles of storage: no padding counts
    calls = "".join(json.dumps({"op": "gemm", "m": m, "n": m, "k": m, "dtype": dtype}) + "\n" for dtype in DTYPES)
    env = clean_env({"VNPU_CONFIG": name})
    if "VNPU_BUILD" in os.environ:
        env["VNPU_BUILD"] = os.environ["VNPU_BUILD"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.accuracy.worker"], input=calls, env=env, cwd=ROOT, capture_output=True, text=True,
        timeout=TIMEOUT_S,
    )  # fmt: skip
    replies = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(replies) == len(DTYPES), done.stdout + done.stderr
    peaks = summary(name)
    for dtype, reply in zip(DTYPES, replies):
        if peaks[dtype] == 0:
            assert f"has no {dtype} by {dtype}" in reply["refused"]
        else:
            assert reply["macs"] == m**3
            assert reply["ps"] >= 2 * m**3 / peaks[dtype], (
                "operations over TOPS are picoseconds: no faster than the peak"
            )


def measured(text: str) -> tuple[float, float, float]:
    """GB/s of a stream, its share of the peak in %, GB/s of random reads, from the text of `vnpu info`."""
    match = re.search(
        r"^measured +([\d.e+]+) GB/s of a 64 MiB stream, ([\d.e+]+) % of the peak; ([\d.e+]+) GB/s", text, re.M
    )
    assert match, text
    return float(match[1]), float(match[2]), float(match[3])


@pytest.mark.parametrize("name", CONFIGS)
def test_what_the_memory_achieves_is_measured(name):
    stream, share, random = measured(vnpu("info", name).stdout)
    assert 0 < random <= stream * 1.001
    assert 0 < share < 100.1 and stream == pytest.approx(summary(name)["DRAM"] * share / 100, rel=0.01)


def test_the_report_has_the_measured_bandwidth():
    got = python(
        "x = torch.ones(64, device='vnpu')\nwith torch_vnpu.profile() as p:\n    x + 1\nanswer(dram=p.report['dram'])"
    )["dram"]
    stream, _, random = measured(vnpu("info", "default").stdout)
    assert got["stream_bytes_per_s"] == pytest.approx(stream * 1e9, rel=1e-3)
    assert got["random_bytes_per_s"] == pytest.approx(random * 1e9, rel=1e-3)


def test_a_key_without_effect_is_told_with_its_place(tmp_path):
    chip = tmp_path / "chip.ini"
    chip.write_text(f"include = {ROOT / 'configs' / 'default.ini'}\n[dram]\nmax_row_hits = 4\n")
    told = vnpu("info", "--quick", chip).stderr
    assert f"{chip}:3: dram.max_row_hits: without effect, dram.window = 1" in told
    assert "without effect" not in vnpu("info", "--quick", chip, "-o", "dram.window=32").stderr


CLASSES = """
q, k, v = (torch.randn(2, 3, 40, 16) for _ in range(3))
layer = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Softmax(-1))
want = layer(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
with torch_vnpu.profile() as p, torch.no_grad():
    mixed = torch.nn.functional.scaled_dot_product_attention(q.to("vnpu"), k.to("vnpu"), v.to("vnpu"), is_causal=True)
    got = layer.to("vnpu")(mixed)
busy = {row["name"]: row["causes_ps"]["useful"] for row in p.report["engines"]}
chip = torch.vnpu.get_device_properties(0)
answer(difference=float((got.cpu() - want).abs().max()), fallback=p.report["coverage"]["fallback"], busy=busy,
       processors=chip.multi_processor_count, classes=[(c["class_name"], c["workers"], c["matrix_rows"]) for c in chip.classes])
"""


def test_a_model_runs_on_two_classes_of_cores():
    """Products on Gaudi's matrix engines, the rest on its vector processors: no class has all that fused attention needs."""
    run = python(CLASSES, {"VNPU_CONFIG": "gaudi2-like", "VNPU_FALLBACK": "error"})
    assert run["difference"] < 1e-6 and run["fallback"] == 0
    assert run["classes"] == [["mme", 2, 256], ["tpc", 24, 0]] and run["processors"] == 26
    busy = run["busy"]
    assert len(busy) == 2 * 4 + 24 * 3
    assert busy["core0.matrix"] > 0 and busy["core2.vector"] > 0 and "core2.matrix" not in busy
