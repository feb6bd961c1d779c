"""`--fit`: a deterministic coordinate search over the fitted keys of a chip, on its calibration rows. Prints, edits nothing.

A chip has at most six fitted keys; each stands in its configuration with its physical meaning. The loss is the mean over the sets of
their mean absolute error, so that large sets do not drown small ones.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from benchmarks.accuracy.evaluate import judged, sample
from benchmarks.accuracy.pool import Pool, PoolError, config_path
from benchmarks.accuracy.rows import DataSet

MAX_FITTED = 6
STEPS = (Fraction(13, 10), Fraction(11, 10), Fraction(103, 100))
RATIO_DENOMINATOR = 64


@dataclass(frozen=True)
class Key:
    """A fitted key: its unit as written in the configuration ("" for counts, "ratio" for n/d) and what it means."""

    name: str
    unit: str
    meaning: str


FITTED: dict[str, list[Key]] = {
    "tpuv4-like": [
        Key("matrix.rate.f16", "ratio", "rows a cycle of an fp16 product, which is no native type of the MXU"),
        Key("dma.bytes_per_cycle", "B", "what a core's engine moves: streams see half of the memory's rate"),
        Key("cmd.launch_gap", "ns", "from the end of a fused kernel to the start of the next"),
        Key("vector.passes.cast", "ratio", "vector passes of a conversion: results to fp16, without native support"),
        Key("vector.reduce_tail_cycles", "", "lanes and sublanes of a reduction combined, step by step"),
        Key("matrix.pipeline_cycles", "", "from the last row into the array to its last result"),
    ],
    "tpuv3-like": [
        Key("dram.clock", "MHz", "pin rate that one core reaches; published is the rate of the pins, for two cores"),
        Key("cmd.launch_gap", "ns", "from the end of a fused kernel to the start of the next"),
    ],
    "tpuv6e": [
        Key("matrix.rate.bf16", "ratio", "rows a cycle that the arrays keep up: the ceiling of the layers' sums"),
    ],
    "wormhole-like": [
        Key("core.instance_cycles", "", "start of a program on the grid"),
        Key(
            "matrix.gap_cycles",
            "",
            "hand-over of source registers between unpackers and array, for every tile of 32 x 32",
        ),
        Key(
            "matrix.operand_bytes_per_cycle",
            "B",
            "what both unpackers take from L1; published: 32 each when both are active",
        ),
    ],
    "trainium2-like": [
        Key("dma.descriptor_cycles", "", "from one transfer of a ring to the next"),
        Key("dma.run_cycles", "", "a row of a transfer, dealt to sixteen engines"),
        Key("cmd.launch_gap", "ns", "a kernel through the runtime, start and end"),
    ],
    "gemmini-16": [
        Key("core.issue_cycles", "", "from one command to the next"),
        Key("matrix.min_stream_cycles", "", "from one pair of preload and compute commands to the next"),
        Key("matrix.pipeline_cycles", "", "results through the accumulator's write port"),
        Key("dma.descriptor_cycles", "", "from a command to its first request"),
        Key("dma.accumulator_bytes_per_cycle", "B", "rate of the scaling units between accumulator and memory"),
    ],
}


def config_value(config: str, key: str) -> Fraction:
    """The number of a key in configs/<config>.ini, or in a file that it includes, in its written unit."""
    value = _value_in(config_path(config), key)
    if value is None:
        raise PoolError(f"{config}: no key {key} to fit")
    return value


def _value_in(path: Path, key: str) -> Fraction | None:
    section, _, name = key.partition(".")
    text = path.read_text()
    part = re.search(rf"(?ms)^\[{re.escape(section)}\]\n(.*?)(?=^\[|\Z)", text)
    line = re.search(rf"(?m)^{re.escape(name)}\s*=\s*([0-9./]+)", part.group(1)) if part else None
    if line is not None:
        return Fraction(line.group(1))
    for included in reversed(re.findall(r"(?m)^include\s*=\s*(\S+)", text)):
        value = _value_in(path.parent / included, key)
        if value is not None:
            return value
    return None


def written(value: Fraction, unit: str) -> str:
    if unit == "ratio":
        return str(value)
    return f"{int(value)} {unit}".strip()


def rounded(value: Fraction, unit: str) -> Fraction:
    """To what the key can hold: whole units, or sixty-fourths."""
    if unit == "ratio":
        return Fraction(max(1, round(value * RATIO_DENOMINATOR)), RATIO_DENOMINATOR)
    return Fraction(max(1, round(value)))


def loss_of(found: list[tuple[DataSet, Path]], pool: Pool, limit: int | None) -> tuple[float, dict[str, float]]:
    means = {}
    for dataset, path in found:
        rows = sample(dataset.read(path, dataset.profile), limit)
        pairs = judged(rows, pool.predict(dataset, rows, dataset.profile))
        if pairs:
            means[dataset.name] = statistics.fmean(abs(dataset.error(value, measured)) for _, value, measured in pairs)
    return (statistics.fmean(means.values()) if means else float("inf")), means


def search(config: str, found: list[tuple[DataSet, Path]], pool: Pool, limit: int | None) -> dict[str, str]:
    """Moves one key at a time by shrinking factors while the loss falls; prints every improvement."""
    keys = FITTED[config]
    assert len(keys) <= MAX_FITTED
    values = {key.name: config_value(config, key.name) for key in keys}

    def text(point: dict[str, Fraction]) -> dict[str, str]:
        return {key.name: written(point[key.name], key.unit) for key in keys}

    best, means = loss_of(found, pool.with_options(text(values)), limit)
    print(f"{config}: {text(values)}: {best:.3f} % {_short(means)}", flush=True)
    for step in STEPS:
        is_better = True
        while is_better:
            is_better = False
            for key in keys:
                for factor in (step, 1 / step):
                    trial = dict(values)
                    trial[key.name] = rounded(values[key.name] * factor, key.unit)
                    if trial == values:
                        continue
                    loss, means = loss_of(found, pool.with_options(text(trial)), limit)
                    if loss < best - 1e-6:
                        best, values, is_better = loss, trial, True
                        print(f"{config}: {text(values)}: {best:.3f} % {_short(means)}", flush=True)
                        break
    return text(values)


def _short(means: dict[str, float]) -> str:
    return " ".join(f"{name}={mean:.2f}" for name, mean in means.items())


def run(found: list[tuple[DataSet, Path]], pool: Pool, limit: int | None) -> int:
    chips: dict[str, list[tuple[DataSet, Path]]] = {}
    for dataset, path in found:
        if dataset.is_fitted and dataset.tool is None and dataset.config in FITTED:
            chips.setdefault(dataset.config, []).append((dataset, path))
    for config, part in chips.items():
        result = search(config, part, pool, limit)
        print(f"{config}: " + "  ".join(f"{key} = {value}" for key, value in result.items()))
    if not chips:
        print("no set of a chip with fitted keys in this folder")
    return 0
