"""Drives the chip from outside: the `vnpu` command, and Python programs with torch on device "vnpu", each in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 240  # of one process: a hang, never a measure of speed
MARK = "RESULT "  # begins the line with the answer of a Python program


def clean_env(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without VNPU_* (a developer's settings), with `extra`."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("VNPU_")}
    env.update({"OMP_WAIT_POLICY": "passive", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"})
    env.update(extra or {})
    return env


def _tool() -> Path:
    places = [Path(os.environ["VNPU_TOOL"])] if "VNPU_TOOL" in os.environ else []
    spec = importlib.util.find_spec("torch_vnpu")
    if spec is not None and spec.origin is not None:
        places.append(Path(spec.origin).parent / "bin" / "vnpu")
        places.append(Path(spec.origin).parents[2] / "bin" / "vnpu")  # <build>/python/torch_vnpu
    places.append(ROOT / "build" / "release" / "bin" / "vnpu")
    for path in places:
        if os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(f"no vnpu program in {', '.join(map(str, places))}: build it, or set VNPU_TOOL")


def vnpu(
    *args: str | Path, env: Mapping[str, str] | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Runs the command; with `check` a failure shows its messages."""
    done = subprocess.run(
        [_tool(), *map(str, args)], env=clean_env(env), capture_output=True, text=True, timeout=TIMEOUT_S, cwd=ROOT
    )
    if check and done.returncode != 0:
        raise AssertionError(
            f"vnpu {' '.join(map(str, args))}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done


_UNITS = {
    "": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "MB": 10**6, "GB": 10**9, "k": 10**3, "M": 10**6, "G": 10**9,
    "Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9, "ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "B/s": 1, "GB/s": 10**9,
}  # fmt: skip


class Config(dict):
    """The effective configuration of a chip as numbers (times in picoseconds), from `vnpu config show`."""

    def __init__(self, name: str, options: str = "") -> None:
        section = ""
        for line in vnpu("config", "show", name, *(["-o", options] if options else [])).stdout.splitlines():
            line = line.split(" ; ")[0].strip()
            if line.startswith("["):
                section = line.strip("[]")
            elif " = " in line:
                key, value = line.split(" = ", 1)
                self[f"{section}.{key}"] = self._number(value)

    @staticmethod
    def _number(text: str) -> Fraction | str:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/(\d+))? ?([A-Za-z/]*)", text)
        if match is None or match[3] not in _UNITS:
            return text
        return Fraction(match[1]) / int(match[2] or 1) * _UNITS[match[3]]

    def int(self, key: str) -> int:
        value = self[key]
        assert isinstance(value, Fraction) and value.denominator == 1, f"{key} = {value}"
        return int(value)

    @property
    def dram_peak(self) -> Fraction:
        """Bytes a second of all channels."""
        bursts = self["dram.channels"] * self["dram.clock"] / self["dram.burst_cycles"]
        return bursts * self["dram.burst_bytes"]

    @property
    def refresh_share(self) -> Fraction:
        return self["dram.trfc"] / self["dram.trefi"]

    def macs_per_s(self, dtype: str = "f32") -> Fraction:
        """Of all cores at the array's full rate."""
        workers = self["grid.workers"] or self["grid.cores"]
        return workers * self["matrix.rows"] * self["matrix.cols"] * self[f"matrix.rate.{dtype}"] * self["core.clock"]


class Run(dict):
    """What `vnpu run --json` printed; checks that every engine's causes sum to the duration."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(answer)
        check_causes(self["engines"], self["duration_ps"])

    @property
    def cycles(self) -> int:
        assert self["cycles"] == int(self["cycles"]), f"{self['cycles']} core cycles"
        return int(self["cycles"])

    def causes(self, engine: str) -> dict[str, int]:
        return next(row["causes_ps"] for row in self["engines"] if row["name"] == engine)

    def busy_ps(self, engine: str) -> int:
        """Time in which the engine had an operation."""
        waiting = ("idle", "launch_gap", "issue", "semaphore_wait", "operand_wait", "other")
        return sum(ps for cause, ps in self.causes(engine).items() if cause not in waiting)


def check_causes(engines: Sequence[Mapping[str, Any]], total_ps: int) -> None:
    assert engines
    for engine in engines:
        causes = engine["causes_ps"]
        assert sum(causes.values()) == engine["total_ps"] == total_ps, engine
        assert causes["other"] * 100 <= total_ps, engine


def run_program(
    program: str | Path, config: str = "tiny", options: str = "", args: Mapping[str, Any] | None = None, grid: str = "1",
    out: Mapping[str, Path] | None = None, env: Mapping[str, str] | None = None, folder: Path | None = None,
) -> Run:  # fmt: skip
    """Runs assembler text or a program file with `vnpu run --json`.

    args: name -> Path of a file with its bytes, number of zero bytes (int), or text as the command takes it ("f32:1").
    """
    return Run(json.loads(run_raw(program, config, options, args, grid, out, env, folder).stdout))


def run_raw(
    program: str | Path, config: str = "tiny", options: str = "", args: Mapping[str, Any] | None = None, grid: str = "1",
    out: Mapping[str, Path] | None = None, env: Mapping[str, str] | None = None, folder: Path | None = None, check: bool = True,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    path = program
    if isinstance(program, str):
        assert folder is not None, "text needs a folder"
        path = folder / f"{next(_numbers)}.txt"
        path.write_text(program)
    words: list[str | Path] = ["run", path, "--json", "-c", config, "--grid", grid]
    if options:
        words += ["-o", options]
    for name, value in (args or {}).items():
        text = f"in:{value}" if isinstance(value, Path) else f"zero:{value}" if isinstance(value, int) else value
        words += ["--arg", f"{name}={text}"]
    for name, file in (out or {}).items():
        words += ["--out", f"{name}={file}"]
    return vnpu(*words, env=env, check=check)


def _count():
    number = 0
    while True:
        yield (number := number + 1)


_numbers = _count()


PREAMBLE = """
import hashlib, json, os, sys, time
sys.path.insert(0, {folder!r})
import torch
import torch_vnpu
torch.manual_seed(0)

def answer(**values):
    print({mark!r} + json.dumps(values), flush=True)

def digest(*tensors):
    return hashlib.sha256(b"".join(t.detach().cpu().contiguous().numpy().tobytes() for t in tensors)).hexdigest()

def timeline(report):
    # Every launch with its times: equal digests are equal cycles, launch by launch.
    rows = [(row["name"], row["start_ps"], row["duration_ps"]) for row in report["kernels"]]
    return hashlib.sha256(repr(rows).encode()).hexdigest()

def rss_bytes(pid, field="VmRSS"):
    for line in open(f"/proc/{{pid}}/status"):
        if line.startswith(field):
            return int(line.split()[1]) * 1024

def cpu_seconds(pid):
    words = open(f"/proc/{{pid}}/stat").read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
"""


def start_python(code: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """A Python program after PREAMBLE: `answer(name=value, ...)` is what `finish_python` returns."""
    text = PREAMBLE.format(mark=MARK, folder=str(Path(__file__).parent)) + code
    env = {"VNPU_FALLBACK": "error", **(env or {})}
    return subprocess.Popen(
        [sys.executable, "-c", text],
        env=clean_env(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT / "tests",
    )


def finish_python(process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"no end after {TIMEOUT_S} s\n{out}\n{err}") from None
    lines = [line for line in out.splitlines() if line.startswith(MARK)]
    assert process.returncode == 0 and lines, f"exit code {process.returncode}\n{out}\n{err}"
    values: dict[str, Any] = {}
    for line in lines:
        values |= json.loads(line[len(MARK) :])
    return values


def python(code: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    return finish_python(start_python(code, env))
