"""Checks the layers: which file may include which. The table is the law (docs/architecture.md).

Also refuses files over the size limit and includes that are not written from the root.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 800
FOLDERS = ("sim", "device", "driver", "kernels", "torch_plugin/csrc", "tests", "benchmarks", "examples", "tools")
LAYERS = ("sim", "device", "driver", "kernels", "torch_plugin")

# Path prefix -> what it may include: folders, single headers, prefixes with "*". The longest prefix counts.
ALLOWED: dict[str, tuple[str, ...]] = {
    "sim/": ("sim/",),
    "device/": ("device/", "sim/"),
    # device/vnpu_*.h are the chip's port headers: formats, no functions of the chip.
    "driver/": ("driver/", "device/vnpu_*", "sim/sim_status.h"),
    # vnpu_module_load_text: the assembler (plain C, no chip) is linked into the driver privately.
    "driver/vnpu_module": ("driver/", "device/vnpu_*", "sim/sim_status.h", "device/dev_asm.h"),
    "kernels/": ("kernels/", "driver/vnpu.h", "driver/vnpu_sim.h", "device/vnpu_isa.h"),
    "torch_plugin/csrc/": (
        "torch_plugin/csrc/", "driver/vnpu.h", "driver/vnpu_sim.h", "kernels/kern.h", "kernels/kern_plan.h", "device/vnpu_isa.h"
    ),
    "tests/sim/": ("tests/sim/", "sim/"),
    "tests/device/": ("tests/device/", "tests/sim/", "device/", "sim/"),
    "tests/driver/": ("tests/", "driver/", "device/", "sim/"),
    "tests/kernels/": ("tests/", "kernels/", "driver/", "device/", "sim/"),
    "tests/": ("tests/", "kernels/", "driver/", "device/", "sim/"),
    "benchmarks/": ("benchmarks/", "kernels/", "driver/", "device/", "sim/"),
    "examples/": ("examples/", "driver/vnpu.h", "driver/vnpu_sim.h"),
    "tools/": ("tools/", "kernels/", "driver/", "device/", "sim/"),
}  # fmt: skip
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def allowed_for(path: str) -> tuple[str, ...]:
    return ALLOWED[max((prefix for prefix in ALLOWED if path.startswith(prefix)), key=len)]


def matches(name: str, entry: str) -> bool:
    if entry.endswith(("/", "*")):
        return name.startswith(entry.rstrip("*"))
    return name == entry


def is_ours(root: Path, name: str) -> bool:
    return name.split("/")[0] in (*LAYERS, "tests", "benchmarks", "examples", "tools") and (root / name).exists()


def check_file(root: Path, path: Path) -> list[str]:
    """Problems of one file, as "path:line: text"."""
    relative = path.relative_to(root).as_posix()
    lines = path.read_text(encoding="utf-8").splitlines()
    problems = []
    if len(lines) > MAX_LINES:
        problems.append(f"{relative}:{MAX_LINES + 1}: {len(lines)} lines, the limit is {MAX_LINES}")
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, name = match.groups()
        if quote == '"' and not is_ours(root, name):
            if (path.parent / name).exists():
                problems.append(f"{relative}:{number}: include {name} by its path from the root")
            continue
        if is_ours(root, name) and not any(matches(name, entry) for entry in allowed_for(relative)):
            problems.append(f"{relative}:{number}: {relative.rsplit('/', 1)[0]}/ may not include {name}")
    return problems


def check(root: Path = ROOT) -> tuple[int, list[str]]:
    """(files looked at, problems)."""
    files = sorted(
        path
        for folder in FOLDERS
        for path in (root / folder).rglob("*")
        if path.suffix in (".c", ".h", ".cpp", ".hpp", ".cc")
    )
    return len(files), [problem for path in files for problem in check_file(root, path)]


if __name__ == "__main__":
    count, problems = check()
    print("\n".join(problems) if problems else f"layers: {count} files are clean")
    sys.exit(1 if problems or not count else 0)
