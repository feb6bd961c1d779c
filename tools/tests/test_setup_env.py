"""./run setup never takes a CUDA build unasked, and skips what is done."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import setup_env


class Pip:
    """Stands for run_logged: remembers the commands, fails those whose name is in `broken`."""

    def __init__(self, *broken: str) -> None:
        self.broken, self.commands = broken, []

    def __call__(self, name, command, progress, env=None):
        self.commands.append(command)
        if name in self.broken:
            raise setup_env.StepError(f"{name} failed")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(setup_env, "VENV", tmp_path)
    monkeypatch.setattr(setup_env, "STAMPS", tmp_path / "stamps")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.delenv("VNPU_TORCH", raising=False)
    return tmp_path


def install(monkeypatch, pip: Pip) -> list[list[str]]:
    monkeypatch.setattr(setup_env, "run_logged", pip)
    setup_env.install_torch()
    return pip.commands


def test_every_unasked_request_names_the_cpu_build(place, monkeypatch):
    commands = install(monkeypatch, Pip("torch"))
    assert len(commands) == 2
    assert all(command[-1] == f"torch=={setup_env.TORCH}+cpu" for command in commands)
    assert setup_env.CPU_INDEX in commands[1] and setup_env.CPU_INDEX not in commands[0]


def test_without_a_cpu_build_setup_stops_with_one_line(place, monkeypatch):
    pip = Pip("torch", "torch-cpu-index")
    monkeypatch.setattr(setup_env, "run_logged", pip)
    with pytest.raises(setup_env.StepError, match="VNPU_TORCH") as error:
        setup_env.install_torch()
    assert "\n" not in str(error.value)
    assert all(command[-1].endswith("+cpu") for command in pip.commands)


def test_the_users_wish_is_taken_and_remembered(place, monkeypatch):
    monkeypatch.setenv("VNPU_TORCH", "torch==2.13.0")
    assert install(monkeypatch, Pip())[0][-1] == "torch==2.13.0"
    (place / "lib/python3.11/site-packages/torch-2.13.0.dist-info").mkdir(parents=True)
    assert install(monkeypatch, Pip()) == []
    monkeypatch.delenv("VNPU_TORCH")
    assert install(monkeypatch, Pip())[0][-1].endswith("+cpu")


def test_an_installed_cpu_build_is_kept(place, monkeypatch):
    (place / f"lib/python3.11/site-packages/torch-{setup_env.TORCH}+cpu.dist-info").mkdir(parents=True)
    assert install(monkeypatch, Pip()) == []


def test_another_machine_is_refused_by_name(place, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(setup_env.StepError, match="aarch64"):
        setup_env.install_torch()


def test_a_failed_step_shows_the_end_of_its_log(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(setup_env, "ROOT", tmp_path)
    monkeypatch.setattr(setup_env, "LOGS", tmp_path / "logs")
    with pytest.raises(setup_env.StepError, match="(?s)exit code 3.*it broke.*x.log"):
        setup_env.run_logged("x", ["sh", "-c", "echo it broke; exit 3"], "a step")
    setup_env.run_logged("y", ["true"], "another step")
    assert "another step" in capsys.readouterr().out


def test_the_digest_follows_contents_not_times(tmp_path, monkeypatch):
    monkeypatch.setattr(setup_env, "ROOT", tmp_path)
    for name in setup_env.FILES:
        (tmp_path / name).write_text("")
    source = tmp_path / "sim" / "a.c"
    source.parent.mkdir()
    source.write_text("int a;")
    first = setup_env.source_digest()
    source.touch()
    (tmp_path / "sim" / "note.md").write_text("text")
    assert setup_env.source_digest() == first
    source.write_text("int b;")
    assert setup_env.source_digest() != first
