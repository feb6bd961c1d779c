"""The comparisons with other simulators, without judging speed: their exit status is the verdict."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", module, "--no-speed", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def replay() -> Path:
    """dram_replay of VNPU_BUILD, else of the newest build folder."""
    build = os.environ.get("VNPU_BUILD")
    found = [Path(build) / "bin/dram_replay"] if build else list(ROOT.glob("build/*/bin/dram_replay"))
    return max(found, key=lambda path: path.stat().st_mtime)


def test_dram_beside_two_simulators() -> None:
    out = run("benchmarks.peers.dram", "--replay", str(replay()), "--repeat", "1")
    assert "idle: 15 of 15 inside" in out
    assert "close: 67 of 67 inside" in out
    assert "wide: 40 of 40 inside" in out
    # Engines that start in one cycle share a channel from its first place on; then their rows meet as in Ramulator 2.
    writes = [line.split() for line in out.splitlines() if "dma_write" in line and "_e4" in line]
    assert len(writes) == 8
    assert all(abs(float(ours) / float(ramulator) - 1) < 0.005 for _, _, _, ramulator, ours, *_ in writes)


def test_products_beside_three_simulators() -> None:
    out = run("benchmarks.peers.products")
    assert "SCALE-Sim: 353 of 353 counts equal" in out
    assert "4096 x 4096 x 4096" in out
