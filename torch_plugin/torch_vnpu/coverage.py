"""Which operators run on the chip: ``python -m torch_vnpu.coverage [--json FILE]``.

Counted over the operators that a device backend has to provide: dense overloads that have a CPU or CUDA kernel, no
composite and no generated one, read from the operator list inside the installed torch.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

# Names of other libraries' and other layouts' operators, which no dense device provides.
_FOREIGN = ("mkldnn", "cudnn", "miopen", "mps", "xnnpack", "fbgemm", "sparse", "quantize", "quantized", "nested", "jagged",
            "cslt", "_coalesce", "crow", "ccol", "to_padded_tensor", "q_", "int_repr", "fake_quantize")  # fmt: skip


def needed_operators() -> list[str]:
    """Overload names ("add.out") that need a kernel of the backend in the installed torch."""
    import torchgen
    from torchgen.gen import parse_native_yaml
    from torchgen.model import DispatchKey

    native = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    parsed = parse_native_yaml(str(native / "native_functions.yaml"), str(native / "tags.yaml"))
    indices = [parsed.backend_indices[key] for key in (DispatchKey.CPU, DispatchKey.CUDA)]
    names = []
    for function in parsed.native_functions:
        name = str(function.func.name)
        dense = any(index.has_kernel(function) for index in indices)
        if function.has_composite_kernel or not dense or "generated" in function.tags or function.structured_delegate:
            continue
        if not any(word in name for word in _FOREIGN):
            names.append(name)
    return sorted(names)


def _has_kernel(name: str) -> bool:
    import torch

    return torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "PrivateUse1")


def collect() -> dict[str, Any]:
    """The coverage as a dictionary: counts, and one row per needed operator."""
    import torch

    import torch_vnpu

    if torch_vnpu._error is not None:
        raise RuntimeError(torch_vnpu._error)
    table = json.loads((Path(torch_vnpu.__file__).parent / "operators.json").read_text())
    native = {row["op"]: row for row in table["native"]}
    rows = []
    for name in needed_operators():
        if _has_kernel(name):
            where = native.get(name, {}).get("where", "device")
        else:
            where = "host (random)" if name in table["random_on_host"] else "host"
        row = native.get(name, {})
        rows.append({"op": name, "where": where, "family": row.get("family", ""), "dtypes": row.get("dtypes", ""),
                     "note": row.get("note", "")})  # fmt: skip
    extra = sorted(name for name in native if name not in {row["op"] for row in rows})
    on_device = sum(row["where"] == "device" for row in rows)
    return {
        "schema": "vnpu-coverage/1",
        "torch": torch.__version__,
        "needed": len(rows),
        "device": on_device,
        "host": len(rows) - on_device,
        "also_on_device": extra,  # overloads with a default in torch that have a kernel here nevertheless
        "table_rows": len(native),
        "ops": rows,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_vnpu.coverage", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the coverage as JSON")
    parser.add_argument("--all", action="store_true", help="print the operators that run on the host too")
    args = parser.parse_args()
    coverage = collect()
    print(f"torch {coverage['torch']}: {coverage['needed']} operator overloads need a kernel of the backend")
    print(f"  on the device {coverage['device']}, on the host {coverage['host']}")
    print(f"  and {len(coverage['also_on_device'])} more on the device that torch could compose")
    for row in coverage["ops"]:
        if args.all or row["where"] == "device":
            print(f"  {row['op']:<48}{row['where']:<16}{row['family']}  {row['note']}")
    if args.json:
        args.json.write_text(json.dumps(coverage, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
