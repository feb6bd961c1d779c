"""The device process: who computes, what a death on either side does, and a fork."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest
from chip import MARK, finish_python, python, start_python

SHARE = """
import resource
x = torch.randn(2048, 2048).to("vnpu")
y = x @ x
torch.vnpu.synchronize()
pid = torch_vnpu._C._device_pid()
def own():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
client, chip = own(), cpu_seconds(pid)
for _ in range(6):
    y = x @ x
torch.vnpu.synchronize()
answer(client=own() - client, chip=cpu_seconds(pid) - chip)
"""


def test_the_chip_computes_and_not_the_client():
    """A ratio of CPU times of a GEMM-bound run, so the host's speed and load do not matter."""
    got = python(SHARE)
    assert got["chip"] > 0.1, "long enough to be measured in clock ticks"
    assert got["client"] < 0.3 * (got["client"] + got["chip"]), got


LOST = """
x = torch.randn(1024, 1024).to("vnpu")
torch.vnpu.synchronize()
pid = torch_vnpu._C._device_pid()
errors = []
def attempt(what):
    try:
        what()
        errors.append(None)
    except Exception as error:
        errors.append([type(error).__name__, str(error)])
def run():
    y = x
    for i in range(200):
        y = y @ x
        if i == 20:
            os.kill(pid, 9)
    y.cpu()
attempt(run)
attempt(torch.vnpu.synchronize)
attempt(lambda: (x + x).cpu())
answer(errors=errors, cpu=(torch.ones(3) + 1).tolist())
"""


@pytest.fixture(scope="module")
def lost() -> dict:
    return python(LOST)


def test_a_killed_device_is_lost_by_name(lost):
    for error in lost["errors"]:
        assert error is not None, "nothing may succeed on a device that is gone"
        kind, text = error
        assert "device lost" in text.lower() or "DEVICE_LOST" in text, error
    assert "signal 9" in lost["errors"][0][1] and "Killed" in lost["errors"][0][1], "how it died"


def test_the_host_goes_on_without_the_device(lost):
    assert lost["cpu"] == [2.0, 2.0, 2.0]


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> bool:
    """Polls; the limit is for a hang, a healthy end takes milliseconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


START = """
x = torch.randn(1024, 1024).to("vnpu")
y = x @ x
torch.vnpu.synchronize()
answer(pid=torch_vnpu._C._device_pid())
for _ in range(100):
    y = y @ x
"""
ENDINGS = {
    "returns": "",
    "raises": "raise SystemExit(3)",
    "exits at once": "os._exit(0)",
    "aborts": "os.abort()",
    "is killed": "os.kill(os.getpid(), 9)",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_end_of_a_client_leaves_no_vnpud(ending):
    process = start_python(START + ENDINGS[ending])
    out, err = process.communicate(timeout=120)
    line = next((line for line in out.splitlines() if line.startswith(MARK)), None)
    assert line is not None, err
    pid = int(line.split(":")[1].strip(" }"))
    assert wait_until(lambda: not is_alive(pid)), f"vnpud {pid} lives on"
    expected = {"returns": 0, "raises": 3, "exits at once": 0, "aborts": -signal.SIGABRT, "is killed": -signal.SIGKILL}
    assert process.returncode == expected[ending], err


FORK = """
x = torch.arange(5, device="vnpu")
torch.vnpu.synchronize()
read, write = os.pipe()
child = os.fork()
if child == 0:
    try:
        torch.ones(3, device="vnpu")
        text = "no error"
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    os.write(write, text.encode())
    os._exit(0)
os.close(write)
text = b""
while piece := os.read(read, 4096):
    text += piece
_, how = os.waitpid(child, 0)
answer(child=text.decode(), how=how, parent=(x * 2).cpu().tolist(), again=torch.ones(2, device="vnpu").cpu().tolist())
"""


def test_a_forked_child_is_told_and_the_parent_goes_on():
    got = finish_python(start_python(FORK))
    assert got["how"] == 0
    assert "VNPU_ERROR_FORKED" in got["child"] and "fork" in got["child"]
    assert got["parent"] == [0, 2, 4, 6, 8]
    assert got["again"] == [1.0, 1.0]
