"""`./run demo`: 32 sentences through all-MiniLM-L6-v2 on the CPU and on the virtual NPU, compared, with a report."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from .progress import step


def _compare(on_cpu, on_device) -> bool:
    """Prints how far the embeddings agree; True when they do."""
    from . import minilm

    worst = (on_cpu - on_device).abs().max().item()
    same = minilm.same_ranking(on_cpu, on_device)
    first = minilm.ranking(on_device)[:, 0]
    good = worst <= minilm.LIMIT
    print(f"\ncheck   max |difference| {worst:.2e} (limit {minilm.LIMIT:.0e})   {'PASS' if good else 'FAIL'}")
    print(f"check   nearest neighbours, all {len(first)} rankings: {'PASS, the same' if same else 'FAIL, they differ'}")
    for index in (0, 4, 18):
        print(f'        "{minilm.SENTENCES[index]}"\n          is nearest to "{minilm.SENTENCES[first[index]]}"')
    return good and same


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run demo", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("out/demo"), metavar="DIR", help="folder for the files (default: out/demo)"
    )
    parser.add_argument("--rows", type=int, default=15, help="rows of the operator table to print")
    args = parser.parse_args()
    print("vnpu demo: all-MiniLM-L6-v2, real weights, 32 sentences of 128 tokens, f32", flush=True)

    import torch

    import torch_vnpu

    from . import minilm

    with step("loading the model") as now:
        model, tokenizer = minilm.load()
        inputs = minilm.tokens(tokenizer)
        now.note = f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters"
    with step("encoding on the CPU") as cpu:
        on_cpu = minilm.encode(model, inputs)
        cpu.note = f"{torch.get_num_threads()} threads"
    with step("moving the model to the device"):
        model.to("vnpu")
        torch.vnpu.synchronize()
    with (
        step("encoding on the virtual NPU"),
        torch_vnpu.profile(kernels=True, title="all-MiniLM-L6-v2, 32 sentences of 128 tokens") as profile,
    ):
        on_device = minilm.encode(model, {name: value.to("vnpu") for name, value in inputs.items()}).cpu()
    with step("writing the report"):
        paths = profile.save(args.out)

    good = _compare(on_cpu, on_device)
    report = profile.report
    fallback = report["coverage"]["fallback"]
    print(f"check   operators that fell back to the host: {fallback}   {'PASS' if fallback == 0 else 'FAIL'}\n")
    profile.print(limit=args.rows)
    print("\nfiles")
    for path in paths:
        print(f"  {path}")
    print("  (open report.html in a browser; trace.json.gz in ui.perfetto.dev, which keeps it on your machine)")
    return 0 if good and fallback == 0 else 1


if __name__ == "__main__":
    started = time.perf_counter()
    code = main()
    print(f"done in {time.perf_counter() - started:.1f} s", flush=True)
    sys.exit(code)
