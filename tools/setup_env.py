"""Makes .venv and builds into it: the part of `./run setup` after the Debian packages. Standard library only.

Every step is skipped when its stamp in .venv/stamps matches, so a second run takes well under a second.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMPS = VENV / "stamps"
LOGS = ROOT / "build" / "logs"
TORCH = "2.13.0"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# What the package is made from.
SOURCES = ("sim", "device", "driver", "kernels", "torch_plugin", "configs", "tools", "examples", "cmake")
FILES = ("CMakeLists.txt", "pyproject.toml")


class StepError(Exception):
    """A step failed; the message says how and where the log is."""


def say(text: str) -> None:
    print(f"[setup] {text}", flush=True)


def progress_of(log: Path) -> str:
    """The last "[12/80]" that a build wrote into its log; "" when there is none."""
    counts = re.findall(r"\[(\d+)/(\d+)\] ", log.read_text(encoding="utf-8", errors="replace"))
    return f" ({counts[-1][0]} of {counts[-1][1]})" if counts else ""


def run_logged(name: str, command: list[str], progress: str, env: dict[str, str] | None = None) -> None:
    """Runs a command with its output in build/logs/NAME.log and a line now and then."""
    LOGS.mkdir(parents=True, exist_ok=True)
    log, started = LOGS / f"{name}.log", time.monotonic()
    say(f"{progress} (log: {log.relative_to(ROOT)})")
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        while True:
            try:
                code = process.wait(timeout=15)
                break
            except subprocess.TimeoutExpired:
                say(f"  {time.monotonic() - started:.0f} s ...{progress_of(log)}")
    if code:
        text = log.read_text(encoding="utf-8", errors="replace")
        errors = [line for line in text.splitlines() if re.search(r"\berror\b", line, re.IGNORECASE)][:8]
        raise StepError(
            "\n".join(
                [
                    f"{progress} failed (exit code {code})",
                    *text.splitlines()[-25:],
                    "first errors:",
                    *errors,
                    f"whole log: {log}",
                ]
            )
        )


def is_done(name: str, value: str) -> bool:
    stamp = STAMPS / name
    return stamp.exists() and stamp.read_text(encoding="utf-8") == value


def mark_done(name: str, value: str) -> None:
    STAMPS.mkdir(parents=True, exist_ok=True)
    (STAMPS / name).write_text(value, encoding="utf-8")


def venv_works(value: str) -> bool:
    """Whether .venv, made by whomever, runs this very Python and has pip."""
    probe = "import pip, platform, sys; print(sys.base_prefix, platform.python_version())"
    try:
        done = subprocess.run([str(PYTHON), "-c", probe], capture_output=True, encoding="utf-8", timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.strip() == value


def make_venv() -> None:
    value = f"{sys.base_prefix} {platform.python_version()}"
    if PYTHON.exists() and is_done("venv", value):
        return
    if venv_works(value):
        mark_done("venv", value)
        return
    say(f"virtual environment .venv (Python {platform.python_version()})")
    venv.EnvBuilder(with_pip=True, clear=VENV.exists()).create(VENV)
    mark_done("venv", value)


def torch_installed() -> str | None:
    """Version of the torch in .venv, from its metadata; None when there is none."""
    for path in sorted((VENV / "lib" / "python3.11" / "site-packages").glob("torch-*.dist-info")):
        return path.name.removeprefix("torch-").removesuffix(".dist-info")
    return None


def install_torch() -> None:
    """Only a CPU build: a local version '+cpu' names one, wherever it comes from. VNPU_TORCH overrides the choice."""
    wished = os.environ.get("VNPU_TORCH")
    have = torch_installed()
    if have is not None and (have == f"{TORCH}+cpu" or (wished and is_done("torch", wished))):
        return
    pip = [str(PYTHON), "-m", "pip", "install", "--no-input"]
    if wished:
        run_logged("torch", [*pip, wished], f"torch: {wished} (VNPU_TORCH)")
        mark_done("torch", wished)
        return
    if platform.machine() != "x86_64":
        raise StepError(
            f"torch: no known CPU build of {TORCH} for {platform.machine()}; set VNPU_TORCH to a requirement or a wheel"
        )
    exact = f"torch=={TORCH}+cpu"
    try:
        run_logged("torch", [*pip, exact], f"{exact} from pip's own sources")
    except StepError:
        try:
            run_logged(
                "torch-cpu-index",
                [*pip, "--extra-index-url", CPU_INDEX, "--timeout", "15", exact],
                f"{exact} from {CPU_INDEX}",
            )
        except StepError:
            raise StepError(
                f"torch: no CPU build ({exact}) from pip's sources or {CPU_INDEX}. The default index would bring a CUDA build of "
                f"several GB, which is not installed unasked: set VNPU_TORCH=torch=={TORCH} to take it, or VNPU_TORCH=/path/to/wheel."
            ) from None


def install_requirements() -> None:
    requirements = ROOT / "requirements.txt"
    value = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if is_done("requirements", value):
        return
    command = [str(PYTHON), "-m", "pip", "install", "--no-input", "-r", str(requirements)]
    run_logged("requirements", command, "Python packages of requirements.txt")
    mark_done("requirements", value)


def source_digest() -> str:
    """Hash over the contents of all that the build reads (a fresh checkout of the same tree does not rebuild)."""
    digest = hashlib.sha256()
    paths = [ROOT / name for name in FILES]
    for folder in SOURCES:
        paths += [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    for path in sorted(paths):
        is_tool = path.suffix == ".py" and path.parent == ROOT / "tools"
        if path.suffix in (".pyc", ".md") or "tests" in path.relative_to(ROOT).parts or is_tool:
            continue
        digest.update(str(path.relative_to(ROOT)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def build() -> None:
    value = source_digest()
    if is_done("build", value):
        return
    # torch must not load a half-built device while the build asks it for its paths.
    env = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PATH": f"{VENV / 'bin'}:{os.environ.get('PATH', '')}"}
    command = [
        str(PYTHON),
        "-m",
        "pip",
        "install",
        "--no-input",
        "--no-build-isolation",
        "--no-deps",
        "--force-reinstall",
        "-v",
        ".",
    ]
    run_logged("build", command, "building vnpu and its PyTorch device", env)
    mark_done("build", value)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run setup", description=__doc__)
    parser.add_argument("--quiet", action="store_true", help="say nothing when there is nothing to do")
    args = parser.parse_args()
    started = time.monotonic()
    try:
        for step in (make_venv, install_torch, install_requirements, build):
            step()
    except StepError as error:
        print(f"run: {error}", file=sys.stderr)
        return 2
    if not args.quiet:
        say(f"ready ({time.monotonic() - started:.1f} s): ./run demo, ./run test, ./run python, ./run vnpu")
    return 0


if __name__ == "__main__":
    sys.exit(main())
