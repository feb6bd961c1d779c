"""The shipped chips side by side: python -m benchmarks.chips [--docs] [--json FILE]

Reads configs/*.ini through the `vnpu` command, runs MiniLM and a ResNet-shaped network on every chip in timing mode, and the network's
convolutions in int8 where a chip has that, each in a process of its own, and writes docs/chips.md with --docs. Times are simulated;
sizes are in bytes.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs" / "chips.md"
DTYPES = ("f32", "bf16", "f16", "i8")
FLOATS = ("f32", "bf16", "f16")
MODELS = ("minilm", "resnet", "convolutions")
BATCH, TOKENS = 8, 128
TIMEOUT_S = 900
MARK = "RESULT "
HIDDEN = ("tiny",)  # for tests

Chip = dict[str, Any]


def tool() -> Path:
    """The vnpu command: VNPU_TOOL, or beside the package."""
    if "VNPU_TOOL" in os.environ:
        return Path(os.environ["VNPU_TOOL"])
    spec = importlib.util.find_spec("torch_vnpu")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("torch_vnpu is not installed: ./run setup, or set VNPU_TOOL")
    folder = Path(spec.origin).parent
    for path in (folder / "bin" / "vnpu", folder.parents[1] / "bin" / "vnpu"):
        if path.exists():
            return path
    raise FileNotFoundError(f"no vnpu command beside {folder}")


def ask(*words: str) -> str:
    return subprocess.run([tool(), *words], capture_output=True, text=True, check=True, cwd=ROOT).stdout


def describe(name: str) -> Chip:
    """Keys of the effective configuration, and the numbers of the summary."""
    path = str(ROOT / "configs" / f"{name}.ini")
    keys, section = {}, ""
    for line in ask("config", "show", path).splitlines():
        line = line.split(" ; ")[0].strip()
        if line.startswith("["):
            section = line.strip("[]")
        elif " = " in line:
            key, value = line.split(" = ", 1)
            keys[f"{section}.{key}"] = value
    text = ask("info", path)
    peaks = {}
    for dtype in DTYPES:
        match = re.search(rf"^peak {dtype} +([\d.e+]+) TOPS, ridge point ([\d.e+]+)", text, re.M)
        peaks[dtype] = (float(match[1]), float(match[2])) if match else None
    dram = re.search(r"^DRAM +([\d.e+]+) GB/s", text, re.M)
    assert dram, text
    return {"name": name, "keys": keys, "peaks": peaks, "dram_gb_s": float(dram[1])}


# ---- one model on one chip: in a process of its own ----


def resnet50() -> Any:
    """ResNet-50, v1.5 (the stride in the 3 x 3), as torch's own: bottleneck blocks 3, 4, 6, 3, batch norms; made-up weights."""
    from torch import nn

    def conv(cin: int, cout: int, kernel: int, stride: int = 1) -> list[Any]:
        return [nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(cout)]

    class Block(nn.Module):
        def __init__(self, cin: int, mid: int, stride: int) -> None:
            super().__init__()
            act = nn.ReLU(inplace=True)
            self.body = nn.Sequential(*conv(cin, mid, 1), act, *conv(mid, mid, 3, stride), act, *conv(mid, 4 * mid, 1))
            self.short = nn.Identity() if cin == 4 * mid else nn.Sequential(*conv(cin, 4 * mid, 1, stride))
            self.act = act

        def forward(self, x: Any) -> Any:
            return self.act(self.body(x) + self.short(x))

    layers: list[Any] = [*conv(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    cin = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for i in range(blocks):
            layers.append(Block(cin, 64 << stage, 2 if stage and not i else 1))
            cin = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, 1000)).eval()


def run(model_name: str, dtype_name: str) -> dict[str, Any]:
    """Simulated time of a forward pass without any operator on the host, or what refuses it."""
    import torch

    import torch_vnpu

    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[dtype_name]
    inputs: dict[str, Any]
    if model_name == "minilm":
        from torch_vnpu import minilm

        model = minilm.load()[0]
        ids = torch.arange(BATCH * TOKENS).reshape(BATCH, TOKENS) % 30_000
        ones, zeros = torch.ones_like(ids), torch.zeros_like(ids)
        inputs = {"input_ids": ids.to("vnpu"), "attention_mask": ones.to("vnpu"), "token_type_ids": zeros.to("vnpu")}
    else:
        model = resnet50()
        inputs = {"input": torch.zeros(1, 3, 224, 224, dtype=dtype).to("vnpu")}
    model = model.to(dtype).to("vnpu")
    try:
        with torch.no_grad(), torch_vnpu.profile(slices=False) as p:
            model(**inputs)
    except (RuntimeError, NotImplementedError) as error:
        return {"refused": str(error).splitlines()[0]}
    return {"ps": p.report["time"]["simulated_ps"], "operators": p.report["coverage"]["native"]}


def run_convolutions() -> dict[str, Any]:
    """Simulated time of ResNet-50's convolutions and its last product in int8, kernel by kernel: torch has no such modules."""
    from benchmarks.accuracy.convolution import resnet
    from benchmarks.accuracy.device import Device, RefusedError

    device = Device()
    calls = [(times, conv.call("i8", "i8")) for times, conv in resnet(50, 1)]
    calls.append((1, {"op": "gemm", "m": 1, "n": 1000, "k": 2048, "dtype": "i8"}))
    try:
        results = [(times, device.call(call)) for times, call in calls]
    except RefusedError as error:
        return {"refused": str(error)}
    finally:
        device.close()
    return {"ps": sum(times * result["ps"] for times, result in results), "operators": sum(times for times, _ in calls)}


def run_on(name: str, model: str, dtype: str) -> dict[str, Any]:
    kept = ("VNPU_TOOL", "VNPU_BUILD")
    env = {key: value for key, value in os.environ.items() if not key.startswith("VNPU_") or key in kept}
    env |= {"VNPU_CONFIG": str(ROOT / "configs" / f"{name}.ini"), "VNPU_MODE": "timing", "VNPU_FALLBACK": "error",
            "OMP_NUM_THREADS": "1"}  # fmt: skip
    words = [sys.executable, "-m", "benchmarks.chips", "--run", model, "--dtype", dtype]
    try:
        done = subprocess.run(words, env=env, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return {"failed": f"no result within {TIMEOUT_S} s"}
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            return json.loads(line[len(MARK) :])
    return {"failed": (done.stderr.strip().splitlines() or ["no result"])[-1]}


# ---- the page ----


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]


def _peak(chip: Chip, dtype: str) -> str:
    peak = chip["peaks"][dtype]
    return f"{peak[0]:.4g}" if peak else "refused"


def classes_of(keys: dict[str, str]) -> list[tuple[str, dict[str, str]]]:
    """Name and keys of each class of cores: what a [class NAME] section sets, over the chip's own. The first has no name."""
    classes = [("", keys)]
    for name in dict.fromkeys(key.split(".")[0] for key in keys if key.startswith("class ")):
        own = {key.partition(".")[2]: value for key, value in keys.items() if key.startswith(f"{name}.")}
        cores = {"grid.cores": own.pop("count"), "grid.workers": own.pop("workers", "0")}
        classes.append((name.removeprefix("class "), keys | own | cores))
    return classes


def _core_cells(k: dict[str, str]) -> list[str]:
    workers = k["grid.cores"] if k["grid.workers"] == "0" else f"{k['grid.workers']} of {k['grid.cores']}"
    array = f"{k['matrix.count']} x {k['matrix.rows']} x {k['matrix.cols']} x {k['matrix.step']}, {k['matrix.dataflow'].replace('_', ' ')}"
    has_array = k["matrix.count"] != "0"
    return [workers, k["core.clock"], array if has_array else "none", k["vector.lanes"],
            f"{k['sram.bytes']} + {k['acc.bytes']}" if has_array else k["sram.bytes"]]  # fmt: skip


def machine_rows(chips: list[Chip]) -> list[list[str]]:
    """A row for each class of cores."""
    rows = []
    for chip in chips:
        k = chip["keys"]
        shared = [k["noc.type"], f"{chip['dram_gb_s']:.4g} GB/s, {k['dram.bytes']}, {k['dram.standard']}"]
        classes = classes_of(k)
        for name, keys in classes:
            label = chip["name"] if len(classes) == 1 else f"{chip['name']}: {name or k['grid.class']}"
            rows.append([label, *_core_cells(keys), *(shared if not name else ["", ""])])
    return rows


def peak_rows(chips: list[Chip]) -> list[list[str]]:
    rows = []
    for chip in chips:
        ridge = max((chip["peaks"][d][1] for d in DTYPES if chip["peaks"][d]), default=0.0)
        f32 = chip["keys"]["matrix.f32"]
        note = "" if f32 == "native" else f" ({f32})"
        rows.append([chip["name"], _peak(chip, "f32") + note, *(_peak(chip, d) for d in DTYPES[1:]), f"{ridge:.4g}"])
    return rows


def _time(result: dict[str, Any] | None, dtype: str) -> str:
    if result is None:
        return "-"
    if "failed" in result:
        return f"failed: {result['failed']}"
    if "refused" in result:
        return f"refused: {result['refused'].split(' (')[0][:90]}"
    return f"{result['ps'] / 1e9:.3f} ms"


def _row(chip: Chip, results: dict[str, Any]) -> list[str]:
    """A type that the chip lacks is refused; one that was not run has a dash."""
    return [chip["name"], *(_time(results.get(d), d) if chip["peaks"][d] else f"refused: {d}" for d in FLOATS)]


def _checked(accuracy: Path) -> list[list[str]]:
    """Rows of what was compared, from the harness's results."""
    if not accuracy.exists():
        return []
    sets = json.loads(accuracy.read_text())["sets"]
    return [[s["config"], s["name"], str(s.get("judged_rows", s["rows"])), f"{s['mean_pct']:.1f} %"]
            for s in sets if s.get("mean_pct") is not None]  # fmt: skip


def page(chips: list[Chip], times: dict[str, dict[str, Any]], accuracy: Path) -> str:
    lines = ["# The chips side by side", "",
             "Generated by `python -m benchmarks.chips --docs` from `configs/*.ini`: change those. Each value there names its source",
             "or says that it is an assumption, or that it was fitted. Peaks are arithmetic on them (`vnpu info NAME`);",
             "times are simulated.", "",
             "## Machines", ""]  # fmt: skip
    lines += _table(["chip", "cores", "clock", "arrays: count x rows x columns x step", "lanes", "scratchpad + accumulator of a core",
                     "interconnect", "memory"], machine_rows(chips))  # fmt: skip
    lines += [
        "",
        "## Peaks, TOPS",
        "",
        "What a chip cannot do is refused by name.",
        "The ridge point is of the fastest type: operations per byte of memory.",
        "",
    ]
    lines += _table(["chip", "f32", "bf16", "f16", "int8", "ridge point"], peak_rows(chips))
    rows = _checked(accuracy)
    lines += ["", "## What was checked against what", ""]
    if rows:
        lines += _table(["chip", "measurements", "rows", "mean error"], rows)
        rest = [chip["name"] for chip in chips if chip["name"] not in {row[0] for row in rows}]
        lines += ["", f"Not compared: {', '.join(rest)}. See [accuracy.md](accuracy.md)."]
    else:
        lines += ["Not compared: no results of `python -m benchmarks.accuracy --json` were given (`--accuracy FILE`)."]
    lines += networks(chips, times)
    lines += ["", "## ResNet-50's convolutions in int8, one image", ""]
    if not any(times["convolutions"].values()):
        return "\n".join([*lines, "Not run."]) + "\n"
    lines += [
        "Simulated time of the 53 convolutions and the last product alone, kernel by kernel with the launch gap between them,",
        "on the chips that have int8 products: torch has no int8 modules.",
        "",
    ]
    rows = [
        [c["name"], _time(times["convolutions"][c["name"]]["i8"], "i8")]
        for c in chips
        if times["convolutions"][c["name"]]
    ]
    return "\n".join([*lines, *_table(["chip", "int8"], rows)]) + "\n"


def networks(chips: list[Chip], times: dict[str, dict[str, Any]]) -> list[str]:
    """The tables of the networks that torch runs."""
    lines: list[str] = []
    titles = {
        "minilm": f"MiniLM, {BATCH} x {TOKENS} tokens",
        "resnet": "A network of ResNet-50's shape, one image of 224 x 224",
    }
    for model, title in titles.items():
        lines += ["", f"## {title}", ""]
        if not any(times[model].values()):
            lines += ["Not run."]
            continue
        lines += [
            "Simulated time of one forward pass, host calls included (`VNPU_MODE=timing`), in every float type of the chip;",
            "no operator ran on the host (`VNPU_FALLBACK=error`). Weights are not quantised: a chip without float products refuses.",
            "",
        ]
        lines += _table(["chip", *FLOATS], [_row(chip, times[model][chip["name"]]) for chip in chips])
    return lines


def measure(chips: list[Chip], models: list[str], workers: int) -> dict[str, dict[str, Any]]:
    """Model, chip, type to a result, in every type that the chip has."""
    times: dict[str, dict[str, Any]] = {model: {chip["name"]: {} for chip in chips} for model in MODELS}

    def one(job: tuple[str, str, str]) -> None:
        model, name, dtype = job
        result = times[model][name][dtype] = run_on(name, model, dtype)
        print(f"{model} {name} {dtype}: {_time(result, dtype)}", flush=True)

    jobs = []
    for model in models:
        for chip in chips:
            dtypes = ("i8",) if model == "convolutions" else FLOATS
            jobs += [(model, chip["name"], dtype) for dtype in dtypes if chip["peaks"][dtype]]
    with ThreadPoolExecutor(max_workers=workers) as pool:
        list(pool.map(one, jobs))
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--docs", action="store_true", help=f"write {DOCS.relative_to(ROOT)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results")
    parser.add_argument("--accuracy", type=Path, default=ROOT / "docs" / "accuracy.json", metavar="FILE")
    parser.add_argument(
        "--models", nargs="*", choices=MODELS, default=list(MODELS), help="networks to run (default: all)"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes side by side")
    parser.add_argument("--run", choices=MODELS, help=argparse.SUPPRESS)
    parser.add_argument("--dtype", choices=DTYPES, default="f32", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        result = run_convolutions() if arguments.run == "convolutions" else run(arguments.run, arguments.dtype)
        print(MARK + json.dumps(result))
        return 0
    chips = [describe(path.stem) for path in sorted((ROOT / "configs").glob("*.ini")) if path.stem not in HIDDEN]
    times = measure(chips, arguments.models, arguments.jobs)
    if arguments.json:
        arguments.json.write_text(json.dumps({"chips": chips, "times": times}, indent=1) + "\n")
    text = page(chips, times, arguments.accuracy)
    if arguments.docs:
        DOCS.write_text(text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
