"""The test runner counts what ran, and calls everything else a failure."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import check_layers
import run_tests


def report(path: Path, statuses: list[str]) -> Path:
    tests = [{"name": f"t{i}", "assertions": 1, "status": status} for i, status in enumerate(statuses)]
    path.write_text(json.dumps({"id": "Criterion v2.4.1", "test_suites": [{"name": "s", "tests": tests}]}))
    return path


def counts(result: run_tests.Result) -> tuple[int, int, int]:
    return result.passed, result.failed, result.skipped


def test_statuses_are_counted_one_by_one(tmp_path):
    path = report(tmp_path / "r.json", ["PASSED", "PASSED", "FAILED", "ERRORED", "SKIPPED"])
    result = run_tests.count_criterion(path, "x", 1, "")
    assert counts(result) == (2, 2, 1)
    assert "s/t2: FAILED; s/t3: ERRORED" in result.notes[0]


def test_what_did_not_run_is_a_failure(tmp_path):
    assert counts(run_tests.count_criterion(report(tmp_path / "r.json", []), "x", 0, "")) == (0, 1, 0)
    assert counts(run_tests.count_criterion(tmp_path / "missing.json", "x", 0, "")) == (0, 1, 0)
    (tmp_path / "cut.json").write_text('{"test_suites": [')
    assert counts(run_tests.count_criterion(tmp_path / "cut.json", "x", 0, "")) == (0, 1, 0)


def test_sanitizer_findings_and_odd_exit_codes_fail(tmp_path):
    path = report(tmp_path / "r.json", ["PASSED"])
    leak = "==7==ERROR: LeakSanitizer: detected memory leaks"
    assert counts(run_tests.count_criterion(path, "x", 0, leak)) == (1, 1, 0)
    assert counts(run_tests.count_criterion(path, "x", 0, "a.c:1:2: runtime error: shift exponent 64")) == (1, 1, 0)
    assert counts(run_tests.count_criterion(path, "x", 139, "")) == (1, 1, 0)
    assert counts(run_tests.count_criterion(path, "x", 0, "fine")) == (1, 0, 0)


def test_pytest_xml_is_counted(tmp_path):
    path = tmp_path / "p.xml"
    path.write_text(
        "<testsuites><testsuite><testcase name='a'/><testcase name='b'><failure/></testcase>"
        "<testcase name='c'><skipped/></testcase><testcase name='d'><error/></testcase></testsuite></testsuites>"
    )
    assert counts(run_tests.count_junit(path, 1, "p")) == (1, 2, 1)
    path.write_text("<testsuites><testsuite/></testsuites>")
    assert counts(run_tests.count_junit(path, 5, "p")) == (0, 1, 0)
    path.write_text("<testsuites><testsuite><testcase name='a'/></testsuite></testsuites>")
    assert counts(run_tests.count_junit(path, 2, "p")) == (1, 1, 0)


def test_plain_programs_pass_on_exit_code_and_silence(tmp_path):
    for text, code, expected in (
        ("fine", 0, (1, 0, 0)),
        ("fine", 3, (0, 1, 0)),
        ("WARNING: ThreadSanitizer: data race", 0, (0, 1, 0)),
    ):
        program = tmp_path / "p"
        program.write_text(f"#!/bin/sh\necho '{text}'\nexit {code}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        assert counts(run_tests.plain_program(program, 10)) == expected
    program.write_text("#!/bin/sh\nexec sleep 20\n")
    assert counts(run_tests.plain_program(program, 0.2)) == (0, 1, 0)


def test_last_line_is_the_count(monkeypatch, capsys):
    stages = {"one": lambda _: run_tests.Result(3, 0, 1), "two": lambda _: run_tests.Result(2, 0, 0).fail("two broke")}
    monkeypatch.setattr(run_tests, "STAGES", stages)
    monkeypatch.setattr(sys, "argv", ["run_tests.py", "--only", "one"])
    assert run_tests.main() == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3 passed, 0 failed, 1 skipped"
    monkeypatch.setattr(sys, "argv", ["run_tests.py", "--only", "one,two"])
    assert run_tests.main() == 1
    out = capsys.readouterr().out
    assert "FAILED two broke" in out and out.splitlines()[-1] == "5 passed, 1 failed, 1 skipped"
    monkeypatch.setattr(sys, "argv", ["run_tests.py", "--only", "three"])
    with pytest.raises(SystemExit):
        run_tests.main()


def test_no_test_program_is_a_failure():
    assert counts(run_tests.run_pool("c", [], lambda path: run_tests.Result(1), 1)) == (0, 1, 0)


def tree(root: Path, files: dict[str, str]) -> tuple[int, list[str]]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return check_layers.check(root)


def test_layers_are_enforced(tmp_path):
    clean = {
        "sim/sim_a.h": "#include <stdint.h>\n",
        "sim/sim_a.c": '#include "sim/sim_a.h"\n',
        "device/dev_a.h": '#include "sim/sim_a.h"\n',
        "device/vnpu_isa.h": "",
        "driver/vnpu.h": '#include "device/vnpu_isa.h"\n',
        "kernels/kern.h": '#include "driver/vnpu.h"\n',
        "examples/a.c": '#include "driver/vnpu.h"\n',
    }
    assert tree(tmp_path / "a", clean) == (7, [])
    bad = {
        "sim/sim_b.c": '#include "device/dev_a.h"\n',
        "driver/b.c": '\n#include "device/dev_a.h"\n',
        "kernels/b.c": '#include "device/dev_a.h"\n',
        "examples/b.c": '#include "kernels/kern.h"\n',
        "sim/sim_c.c": '#include "sim_a.h"\n',
        "sim/sim_d.c": "\n" * 801,
    }
    count, problems = tree(tmp_path / "a", bad)
    assert count == 13 and len(problems) == 6
    assert "driver/b.c:2: driver/ may not include device/dev_a.h" in problems
    assert any("sim_a.h by its path from the root" in text for text in problems)
    assert any("801 lines" in text for text in problems)


def test_this_tree_is_clean():
    count, problems = check_layers.check()
    assert count > 50 and problems == []
