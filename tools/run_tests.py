"""Runs every test and counts them one by one; the last line is `N passed, N failed, N skipped`.

Stages: layers (include rules), lint (ruff, clang-format), c (Criterion), python (pytest of the device and the tools), acceptance (pytest of
whole programs), accuracy (pytest of the harness), tsan (plain threaded programs under TSan), asan (the C tests under ASan and UBSan).
Counts come from reports (Criterion's JSON, pytest's XML), never from exit codes alone: a binary that ran no test, left no
report, or printed a sanitizer's finding counts as failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SANITIZER_TEXT = ("LeakSanitizer", "AddressSanitizer", "ThreadSanitizer", "runtime error:")
SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1",
}
TIMEOUT_S = {"release": 300, "asan": 900, "tsan": 600}


@dataclass
class Result:
    """Counts of one stage or one binary, and what to show of its failures."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, other: Result) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.notes += other.notes

    def fail(self, note: str) -> Result:
        self.failed += 1
        self.notes.append(note)
        return self


def say(text: str) -> None:
    print(text, flush=True)


def run(command: list[str], timeout: float, env: dict[str, str] | None = None) -> tuple[int, str]:
    """(exit code, output); the code is 124 after a timeout."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **(env or {})}, timeout=timeout, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
        )  # fmt: skip
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as error:
        text = error.stdout or b""
        return 124, (
            text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        ) + f"\ntimeout after {timeout:.0f} s"


def tail(text: str, lines: int = 40) -> str:
    return "\n".join("    " + line for line in text.splitlines()[-lines:])


def count_criterion(report: Path, name: str, code: int, output: str) -> Result:
    """Counts a Criterion binary by the status of every test in its JSON report."""
    result = Result()
    try:
        suites = json.loads(report.read_text(encoding="utf-8"))["test_suites"]
        rows = [(suite["name"], test["name"], test["status"]) for suite in suites for test in suite["tests"]]
    except (OSError, ValueError, KeyError) as error:
        return result.fail(f"{name}: no usable report ({error}), exit code {code}\n{tail(output)}")
    bad = []
    for suite, test, status in rows:
        if status == "PASSED":
            result.passed += 1
        elif status == "SKIPPED":
            result.skipped += 1
        else:
            result.failed += 1
            bad.append(f"{suite}/{test}: {status}")
    if not rows:
        return result.fail(f"{name}: ran no test\n{tail(output)}")
    found = next((line for line in output.splitlines() if any(text in line for text in SANITIZER_TEXT)), None)
    if found and not bad:
        result.failed += 1
        bad.append(f"sanitizer: {found.strip()}")
    if code != 0 and not bad:
        result.failed += 1
        bad.append(f"exit code {code} although no test failed")
    if bad:
        result.notes.append(f"{name}: {'; '.join(bad)}\n{tail(output, 60)}")
    return result


def criterion_binary(binary: Path, tree: Path, timeout: float) -> Result:
    report = tree / "reports" / f"{binary.name}.json"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    env = {"CRITERION_JOBS": "1", **SANITIZER_ENV}
    code, output = run([str(binary), f"--json={report}"], timeout, env)
    return count_criterion(report, f"{tree.name}/{binary.name}", code, output)


def plain_program(binary: Path, timeout: float) -> Result:
    """A test without Criterion: one test, passed on exit code 0 without a sanitizer's finding."""
    code, output = run([str(binary)], timeout, SANITIZER_ENV)
    if code == 0 and not any(text in output for text in SANITIZER_TEXT):
        return Result(passed=1)
    return Result().fail(f"{binary.name}: exit code {code}\n{tail(output)}")


def programs(tree: Path, prefix: str) -> list[Path]:
    return sorted(
        path
        for path in (tree / "tests").rglob(f"{prefix}*")
        if path.is_file() and os.access(path, os.X_OK) and not path.suffix
    )


def build(name: str, configure: list[str], targets: list[str]) -> Result:
    """Configures and builds a tree; progress is one line, the output is kept in build/logs."""
    log = ROOT / "build" / "logs" / f"build-{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    say(f"[{name}] building {' '.join(targets) or 'everything'} (log: {log.relative_to(ROOT)})")
    with open(log, "w", encoding="utf-8") as file:
        for command in (configure, ["ninja", "-C", f"build/{name}", *targets]):
            if subprocess.run(
                command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            ).returncode:
                file.flush()
                return Result().fail(
                    f"build of {name} failed: {' '.join(command)}\n{tail(log.read_text(encoding='utf-8', errors='replace'))}"
                )
    say(f"[{name}] built in {time.monotonic() - started:.0f} s")
    return Result()


def run_pool(name: str, binaries: list[Path], one: Callable[[Path], Result], jobs: int) -> Result:
    total = Result()
    if not binaries:
        return total.fail(f"{name}: no test program was built")
    with ThreadPoolExecutor(jobs) as pool:
        for binary, result in zip(binaries, pool.map(one, binaries), strict=True):
            mark = "ok  " if not result.failed else "FAIL"
            say(
                f"[{name}] {mark} {binary.name}: {result.passed} passed, {result.failed} failed, {result.skipped} skipped"
            )
            total.add(result)
    return total


def stage_layers(_: argparse.Namespace) -> Result:
    code, output = run([sys.executable, "tools/check_layers.py"], 60)
    say(f"[layers] {output.strip().splitlines()[-1] if output.strip() else 'no output'}")
    return Result(passed=1) if code == 0 else Result().fail(f"layers:\n{tail(output)}")


def stage_lint(_: argparse.Namespace) -> Result:
    """Findings and formatting of Python, formatting of C and C++."""
    folders = ("benchmarks", "device", "driver", "examples", "kernels", "sim", "tests", "tools", "torch_plugin")
    sources = sorted(
        str(path) for folder in folders for end in ("[ch]", "cpp") for path in Path(folder).rglob(f"*.{end}")
    )
    total = Result()
    for name, command in (
        ("ruff", ["ruff", "check", "--quiet", "--no-cache", "."]),
        ("ruff format", ["ruff", "format", "--check", "--quiet", "--no-cache", "."]),
        ("clang-format", ["clang-format", "--dry-run", "-Werror", *sources]),
    ):
        tool = Path(sys.executable).parent / command[0]
        if not tool.exists():
            say(f"[lint] {name} is not installed: skipped")
            total.add(Result(skipped=1))
            continue
        code, output = run([str(tool), *command[1:]], 120)
        say(f"[lint] {name}: {'clean' if code == 0 else 'findings'}")
        total.add(Result(passed=1) if code == 0 else Result().fail(f"{name}:\n{tail(output)}"))
    return total


def stage_c(args: argparse.Namespace) -> Result:
    tree = ROOT / "build" / "release"
    if not (tree / "build.ninja").exists():
        return Result().fail("c: build/release is not there: run ./run setup")
    built = build("release", ["cmake", "-S", ".", "-B", "build/release"], ["all", "tests/all"])
    if built.failed:
        return built
    binaries = [path for path in programs(tree, "test_") if args.filter in path.name]
    return run_pool("c", binaries, lambda path: criterion_binary(path, tree, TIMEOUT_S["release"]), args.jobs)


def stage_asan(args: argparse.Namespace) -> Result:
    tree = ROOT / "build" / "asan"
    built = build("asan", ["cmake", "--preset", "asan"], [])
    if built.failed:
        return built
    binaries = [path for path in programs(tree, "test_") if args.filter in path.name]
    return run_pool("asan", binaries, lambda path: criterion_binary(path, tree, TIMEOUT_S["asan"]), args.jobs)


def stage_tsan(args: argparse.Namespace) -> Result:
    """Criterion cannot run under TSan: programs tests/*/*_stress.c have a plain main."""
    tree = ROOT / "build" / "tsan"
    names = sorted(path.stem for path in (ROOT / "tests").rglob("*_stress.c"))
    if not names:
        return Result().fail("tsan: no program tests/*/*_stress.c")
    built = build("tsan", ["cmake", "--preset", "tsan"], names)
    if built.failed:
        return built
    found = [path for name in names for path in programs(tree, name)]
    return run_pool("tsan", found, lambda path: plain_program(path, TIMEOUT_S["tsan"]), 1)


def count_junit(path: Path, code: int, name: str) -> Result:
    """Counts pytest's XML; an expected failure counts as skipped."""
    result = Result()
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        return result.fail(f"{name}: no usable report ({error}), exit code {code}")
    bad = []
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            result.failed += 1
            bad.append(f"{case.get('classname')}::{case.get('name')}")
        elif case.find("skipped") is not None:
            result.skipped += 1
        else:
            result.passed += 1
    if not cases:
        return result.fail(f"{name}: ran no test")
    if code != 0 and not bad:
        result.failed += 1
        bad.append(f"pytest's exit code {code} although no test failed")
    if bad:
        result.notes.append(f"{name}: " + "; ".join(bad))
    return result


def run_pytest(name: str, folders: list[str], args: argparse.Namespace) -> Result:
    report = ROOT / "build" / "logs" / f"pytest-{name}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    chosen = ["-k", args.filter] if args.filter else []
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--tb=short",
        f"--junitxml={report}",
        *chosen,
        *args.pytest,
        *folders,
    ]
    say(f"[{name}] " + " ".join(command[1:]))
    process = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL)
    return count_junit(report, process.returncode, name)


def stage_python(args: argparse.Namespace) -> Result:
    return run_pytest("python", ["torch_plugin/tests", "tools/tests"], args)


def stage_acceptance(args: argparse.Namespace) -> Result:
    return run_pytest("acceptance", ["tests/acceptance"], args)


def stage_accuracy(args: argparse.Namespace) -> Result:
    return run_pytest("accuracy", ["tests/accuracy"], args)


STAGES: dict[str, Callable[[argparse.Namespace], Result]] = {
    "layers": stage_layers,
    "lint": stage_lint,
    "c": stage_c,
    "python": stage_python,
    "acceptance": stage_acceptance,
    "accuracy": stage_accuracy,
    "tsan": stage_tsan,
    "asan": stage_asan,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="./run test", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", default=",".join(STAGES), help=f"stages, comma separated (default: {','.join(STAGES)})"
    )
    parser.add_argument("--filter", default="", help="only C binaries whose name holds this, and pytest -k")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="C test programs at a time")
    parser.add_argument("pytest", nargs="*", help="more arguments for pytest (after --)")
    args = parser.parse_args()
    wanted = args.only.split(",")
    unknown = [name for name in wanted if name not in STAGES]
    if unknown:
        parser.error(f"no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")
    total, times = Result(), []
    for name in wanted:
        started = time.monotonic()
        result = STAGES[name](args)
        times.append(f"{name} {result.passed}/{result.passed + result.failed} in {time.monotonic() - started:.0f} s")
        total.add(result)
    for note in total.notes:
        say(f"\nFAILED {note}")
    say("\n" + ", ".join(times))
    say(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
