"""Times of kernel calls: one device process per configuration, each call timed once (the result is a pure function of both)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.accuracy.rows import Call, DataSet, Prediction, Row

ROOT = Path(__file__).resolve().parents[2]
Options = tuple[tuple[str, str], ...]
KERNEL_PROFILES = ("best", "xla-like", "ttnn-like", "gemmini-like")  # values of mapping.profile
Machine = tuple[str, Options, str]  # configuration, options, VNPU_PLAN


class PoolError(RuntimeError):
    """A device process could not start or died."""


def call_key(call: Call) -> str:
    return json.dumps(call, sort_keys=True)


class Pool:
    """Caches times by (configuration, options, call)."""

    def __init__(self, jobs: int = 1, extra_options: Mapping[str, str] | None = None) -> None:
        self._jobs = jobs
        self._extra = dict(extra_options or {})
        self._times: dict[tuple[Machine, str], dict[str, Any]] = {}

    def with_options(self, extra: Mapping[str, str]) -> Pool:
        """A pool of its own whose chips have these keys changed."""
        return Pool(self._jobs, {**self._extra, **extra})

    def machine(self, dataset: DataSet, row: Row, mapping: str) -> Machine:
        """Mapping `best`: the simulator decides between close tilings, tensors are stored densely. A compiler's profile:
        its rules, and the layout of the chip; where the kernel library has none of that name, the cost model decides.
        """
        merged = {"mapping.profile": mapping if mapping in KERNEL_PROFILES else "best"}
        if mapping == "best":
            merged["layout.tile"] = "none"
        merged.update(dataset.options)
        merged.update(row.options)
        merged.update(self._extra)
        return dataset.config, tuple(sorted(merged.items())), "measure" if mapping == "best" else "model"

    def predict(self, dataset: DataSet, rows: Iterable[Row], mapping: str) -> dict[str, Prediction]:
        rows = list(rows)
        wanted: dict[Machine, dict[str, Call]] = {}
        for row in rows:
            machine = self.machine(dataset, row, mapping)
            for _, call in row.calls if not row.refused else ():
                if (machine, call_key(call)) not in self._times:
                    wanted.setdefault(machine, {})[call_key(call)] = call
        tasks = [(machine, part) for machine, calls in wanted.items() for part in self._shares(calls)]
        with ThreadPoolExecutor(max_workers=self._jobs) as executor:
            for machine, replies in executor.map(lambda task: (task[0], run_calls(*task)), tasks):
                for key, reply in replies.items():
                    self._times[machine, key] = reply
        return {row.name: self._assemble(dataset, row, mapping) for row in rows}

    def _shares(self, calls: dict[str, Call]) -> list[dict[str, Call]]:
        """Equal parts, one per job; few calls stay together."""
        parts = min(self._jobs, max(1, len(calls) // 8))
        items = list(calls.items())
        return [dict(items[i::parts]) for i in range(parts)]

    def _assemble(self, dataset: DataSet, row: Row, mapping: str) -> Prediction:
        if row.refused:
            return Prediction(None, row.refused)
        machine = self.machine(dataset, row, mapping)
        ps, clock, causes = 0, 1, 0
        counters = {"launches": 0.0, "macs": 0.0, "padded_macs": 0.0, "dram_bytes": 0.0}
        for times, call in row.calls:
            reply = self._times[machine, call_key(call)]
            reason = reply.get("refused") or reply.get("failed")
            if reason:
                return Prediction(None, reason)
            ps += times * reply["ps"]
            clock = reply["clock_hz"]
            causes += times * sum(reply["causes_ps"].get(cause, 0) for cause in row.causes)
            for name in counters:
                counters[name] += times * reply[name]
        value = 100.0 * causes / ps if row.causes else dataset.in_unit(ps, clock)
        return Prediction(value, "", counters)


def config_path(config: str) -> Path:
    """configs/NAME.ini, or a file of this folder: arrangements of a chip that only a set needs."""
    shipped = ROOT / "configs" / f"{config}.ini"
    return shipped if shipped.exists() else Path(__file__).resolve().parent / f"{config}.ini"


def run_calls(machine: Machine, calls: dict[str, Call]) -> dict[str, dict[str, Any]]:
    """Starts a device process with this configuration and times the calls."""
    config, options, plan = machine
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environment["VNPU_CONFIG"] = str(config_path(config))
    environment["VNPU_OPTIONS"] = ",".join(f"{key}={value}" for key, value in options)
    environment["VNPU_PLAN"] = plan
    environment["OMP_NUM_THREADS"] = "1"
    text = "".join(json.dumps(call) + "\n" for call in calls.values())
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.accuracy.worker"],
        input=text, capture_output=True, text=True, env=environment, cwd=ROOT, check=False,
    )  # fmt: skip
    replies = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if replies and "fatal" in replies[0]:
        raise PoolError(f"{config}: {replies[0]['fatal']}")
    if len(replies) != len(calls):
        raise PoolError(
            f"{config}: the device process answered {len(replies)} of {len(calls)} calls: {done.stderr.strip()[-2000:]}"
        )
    return dict(zip(calls, replies))
