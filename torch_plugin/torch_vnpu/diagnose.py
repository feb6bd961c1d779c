"""Says what works and what does not: ``python -m torch_vnpu.diagnose``. Exit status 0 when the device computes.

Each step runs in a process of its own, so that a crash or a failed start of one does not hide the others.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path

_STEPS = [
    ("import torch without the device", "import torch; print(torch.__version__)", {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}),
    (
        "load the extension",
        "import torch, torch_vnpu\nif torch_vnpu._error: raise SystemExit(torch_vnpu._error)\nprint(torch.vnpu.device_count(), 'device')",
        {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    ),
    (
        "autoload through `import torch`",
        "import torch\nif not torch.vnpu.is_available(): raise SystemExit('no device')\nprint('torch.vnpu')",
        {},
    ),
    ("start the device", "import torch, torch_vnpu; print(torch.vnpu.get_device_properties())", {}),
    (
        "compute",
        "import torch, torch_vnpu; x = torch.arange(4.0, device='vnpu'); y = (x + x).cpu().tolist(); "
        "assert y == [0, 2, 4, 6], y; print(y)",
        {},
    ),
    ("VNPU_TRANSPORT=inproc", "import torch, torch_vnpu; print(torch.ones(2, device='vnpu').sum().item())",
     {"VNPU_TRANSPORT": "inproc"}),
]  # fmt: skip


def _run(code: str, extra: dict[str, str]) -> tuple[bool, str]:
    """Runs Python code in a new process: success, and the last line of what it said."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **extra}, capture_output=True, text=True, timeout=120
        )
    except subprocess.TimeoutExpired:
        return False, "no answer within 120 s"
    lines = [line for line in (done.stdout if done.returncode == 0 else done.stderr).splitlines() if line.strip()]
    if done.returncode < 0:
        lines.append(f"killed by signal {-done.returncode}")
    return done.returncode == 0, lines[-1] if lines else f"exit status {done.returncode}"


def _environment() -> list[str]:
    """Facts that a bug report needs."""
    package = Path(__file__).resolve().parent
    lines = [f"python      {platform.python_version()} on {platform.platform()}", f"package     {package}"]
    for name in ("torch", "torch-vnpu"):
        try:
            lines.append(f"{name:<12}{importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            lines.append(f"{name:<12}no installed distribution")
    entry = [
        point.value for point in importlib.metadata.entry_points(group="torch.backends") if point.name == "torch_vnpu"
    ]
    lines.append(f"autoload    {entry[0] if entry else 'no entry point: import torch_vnpu by hand'}")
    lines.append(f"vnpud       {_daemon(package)}")
    settings = [f"{key}={value}" for key, value in sorted(os.environ.items()) if key.startswith("VNPU_")]
    lines.append("environment " + (" ".join(settings) if settings else "no VNPU_ variable is set"))
    return lines


def _daemon(package: Path) -> str:
    for place in (
        Path(os.environ.get("VNPU_DAEMON", "")),
        package / "bin" / "vnpud",
        package.parents[1] / "bin" / "vnpud",
    ):
        if place.is_file():
            return str(place)
    return "not found beside the package (the driver's own search decides)"


def main() -> int:
    print("\n".join(_environment()))
    failed = 0
    for title, code, extra in _STEPS:
        ok, text = _run(code, extra)
        failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'}  {title}: {text}")
    print("the device works" if not failed else f"{failed} of {len(_STEPS)} steps failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
