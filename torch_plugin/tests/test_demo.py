"""The demo: a real pretrained model on the device, compared with the CPU, with a report and nothing on the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import torch

from torch_vnpu import minilm


def test_rankings_are_compared():
    a = torch.nn.functional.normalize(torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), dim=1)
    assert minilm.same_ranking(a, a + 1e-8)
    assert not minilm.same_ranking(a, a.flip(0))
    assert minilm.ranking(a).shape == (8, 7)
    assert len(set(minilm.SENTENCES)) == 32


def test_demo_agrees_with_the_cpu_and_writes_its_files(tmp_path):
    env = {**os.environ, "VNPU_FALLBACK": "error", "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "passive"}
    command = [sys.executable, "-m", "torch_vnpu.demo", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env=env, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout and "fell back to the host: 0" in done.stdout
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["coverage"]["fallback"] == 0 and report["coverage"]["native"] > 100
    assert report["config"]["name"] == "default"
    # 6 layers of 4 x 384^2 + 2 x 384 x 1536 weights and two products of attention, for 32 x 128 tokens; and pooling has none
    tokens, hidden = 32 * 128, 384
    layer = tokens * (4 * hidden**2 + 2 * hidden * 4 * hidden) + 2 * tokens * 128 * hidden
    assert 2 * 6 * layer <= report["flops"] <= 2.02 * 6 * layer
    for engine in report["engines"]:
        assert sum(engine["causes_ps"].values()) == engine["total_ps"] == report["time"]["simulated_ps"]
        assert engine["causes_ps"]["other"] <= engine["total_ps"] // 100
    assert (tmp_path / "report.html").stat().st_size > 50_000
    assert (tmp_path / "trace.json.gz").stat().st_size > 1_000
