"""`./run bench`: wall time of the simulator against torch on the CPU, same thread count, alternating in one process.

MiniLM (32 x 128 tokens, f32): values alone (VNPU_MODE=functional), the first forward with time (each in a fresh process), later ones
with reused timing. A GEMM of 1 GFLOP: values alone. Medians, and the ratio to the CPU's median of the same process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

GEMM = (1024, 512, 1024)  # M, K, N: 2 * M * K * N = 1.07 GFLOP


def alternate(
    on_cpu: Callable[[], object], on_device: Callable[[], object], rounds: int
) -> tuple[list[float], list[float]]:
    """Seconds of each call, CPU and device in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for row, call in zip(times, (on_cpu, on_device)):
            started = time.perf_counter()
            call()
            row.append(time.perf_counter() - started)
    return times


def measure_minilm(rounds: int) -> dict[str, list[float]]:
    """{cpu, device, first}: `first` is the first forward on the device, which builds programs and, in mode full, times them."""
    import copy

    import torch

    from torch_vnpu import minilm

    model, tokenizer = minilm.load()
    inputs = minilm.tokens(tokenizer)
    device_model = copy.deepcopy(model).to("vnpu")
    device_inputs = {name: value.to("vnpu") for name, value in inputs.items()}

    def forward_device() -> None:
        with torch.no_grad():
            device_model(**device_inputs)
        torch.vnpu.synchronize()

    def forward_cpu() -> None:
        with torch.no_grad():
            model(**inputs)

    forward_cpu()
    torch.vnpu.synchronize()
    started = time.perf_counter()
    forward_device()
    first = time.perf_counter() - started
    cpu, device = alternate(forward_cpu, forward_device, rounds)
    return {"cpu": cpu, "device": device, "first": [first]}


def measure_gemm(rounds: int) -> dict[str, list[float]]:
    import torch

    m, k, n = GEMM
    torch.manual_seed(0)
    a, b = torch.randn(m, k), torch.randn(k, n)
    da, db = a.to("vnpu"), b.to("vnpu")

    def on_device() -> None:
        da @ db
        torch.vnpu.synchronize()

    on_device()
    a @ b
    cpu, device = alternate(lambda: a @ b, on_device, rounds)
    return {"cpu": cpu, "device": device}


def worker(what: str, rounds: int, threads: int) -> dict[str, list[float]]:
    import torch

    torch.set_num_threads(threads)
    return {"minilm": measure_minilm, "gemm": measure_gemm}[what](rounds)


def spawn(what: str, mode: str, rounds: int, threads: int) -> dict[str, list[float]]:
    """Runs a worker in a fresh process: the mode of a device is fixed when it starts."""
    env = {
        **os.environ,
        "VNPU_MODE": mode,
        "VNPU_THREADS": str(threads),
        "OMP_WAIT_POLICY": "passive",
        "VNPU_FALLBACK": "error",
    }
    command = [
        sys.executable,
        "-m",
        "benchmarks.wall",
        "--worker",
        what,
        "--rounds",
        str(rounds),
        "--threads",
        str(threads),
    ]
    done = subprocess.run(
        command, env=env, cwd=Path(__file__).resolve().parent.parent, stdout=subprocess.PIPE, encoding="utf-8"
    )
    if done.returncode:
        raise SystemExit(f"bench: {what} in mode {mode} failed (exit code {done.returncode})")
    return json.loads(done.stdout.splitlines()[-1])


def row(name: str, device: list[float], cpu: list[float], goal: float) -> dict:
    ours, theirs = statistics.median(device), statistics.median(cpu)
    return {"name": name, "device_s": ours, "cpu_s": theirs, "ratio": ours / theirs, "goal": goal, "runs": len(device)}


def bench(rounds: int, processes: int, threads: int) -> list[dict]:
    def say(text: str) -> None:
        print(f"bench: {text} ...", file=sys.stderr, flush=True)

    say("MiniLM, values alone")
    values = spawn("minilm", "functional", rounds, threads)
    firsts, later, cpu = [], [], []
    for number in range(processes):
        say(f"MiniLM, values and time, process {number + 1} of {processes}")
        full = spawn("minilm", "full", max(rounds // processes, 2), threads)
        firsts += full["first"]
        later += full["device"]
        cpu += full["cpu"]
    say("GEMM of 1 GFLOP, values alone")
    gemm = spawn("gemm", "functional", rounds * 4, threads)
    return [
        row("MiniLM forward, values alone", values["device"], values["cpu"], 1.5),
        row("MiniLM first forward, values and time", firsts, cpu, 2.5),
        row("MiniLM later forwards, timing reused", later, cpu, 1.7),
        row(f"GEMM {' x '.join(map(str, GEMM))}, values alone", gemm["device"], gemm["cpu"], 1.1),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./run bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9, help="alternating rounds of each measurement (default: 9)")
    parser.add_argument("--processes", type=int, default=3, help="fresh processes for the first forward (default: 3)")
    parser.add_argument(
        "--threads", type=int, default=min(2, os.cpu_count() or 1), help="threads of torch and of the device"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to a file too")
    parser.add_argument("--worker", choices=("minilm", "gemm"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(worker(args.worker, args.rounds, args.threads)))
        return 0
    rows = bench(args.rounds, args.processes, args.threads)
    print(
        f"{'median wall time, ' + str(args.threads) + ' threads':<44}{'vnpu':>10}{'torch CPU':>12}{'ratio':>8}{'goal':>8}{'runs':>6}"
    )
    for entry in rows:
        print(f"{entry['name']:<44}{entry['device_s'] * 1e3:>7.1f} ms{entry['cpu_s'] * 1e3:>9.1f} ms"
              f"{entry['ratio']:>7.2f}x{entry['goal']:>7.1f}x{entry['runs']:>6}")  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
