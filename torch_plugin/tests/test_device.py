"""The life of the device: autoload, start, errors, fork, loss."""

import os
import time

import pytest
import torch
from conftest import run_python


def test_autoload_computes():
    done = run_python("import torch; x = torch.ones(3, device='vnpu'); print((x + x).cpu())")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "tensor([2., 2., 2.])"
    assert done.stderr == ""


def test_autoload_starts_nothing():
    done = run_python(
        "import torch; from torch_vnpu import _C; assert torch.vnpu.is_available() and torch.vnpu.device_count() == 1; "
        "assert torch.accelerator.current_accelerator().type == 'vnpu'; print(_C._is_started(), torch.vnpu.is_initialized())"
    )
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_import_before_torch():
    done = run_python("import torch_vnpu, torch; print(torch.ones(2, device='vnpu').sum().item())")
    assert done.stdout.strip() == "2.0", done.stderr


def test_other_torch_version_is_refused_in_one_line(tmp_path):
    code = (
        "import sys, types; info = types.ModuleType('torch_vnpu._build_info'); info.TORCH_VERSION = '1.2.3'; "
        "sys.modules['torch_vnpu._build_info'] = info\n"
        "import torch; print(torch.ones(2).sum().item())\n"
        "print(torch.vnpu.is_available(), torch.vnpu.device_count())\n"
        "torch.manual_seed(0)\n"
        "torch.ones(2, device='vnpu')"
    )
    done = run_python(code)
    assert done.stdout.split() == ["2.0", "False", "0"]
    assert done.stderr.splitlines()[-1].startswith("RuntimeError: torch_vnpu was built for torch 1.2.3")


def test_in_process_transport():
    done = run_python(
        "import torch; from torch_vnpu import _C; print(torch.ones(2, device='vnpu').sum().item(), _C._device_pid())",
        VNPU_TRANSPORT="inproc",
    )
    assert done.stdout.split() == ["2.0", "0"], done.stderr


def test_bad_config_tells_where():
    done = run_python("import torch; torch.ones(2, device='vnpu')", VNPU_OPTIONS="dram.chanels=4")
    assert done.returncode != 0
    assert "chanels" in done.stderr and "VNPU_ERROR_CONFIG" in done.stderr


def test_options_change_the_chip():
    done = run_python("import torch; print(torch.vnpu.get_device_properties().cores)", VNPU_OPTIONS="grid.cores=2")
    assert done.stdout.strip() == "2", done.stderr


@pytest.mark.parametrize("call", [lambda: torch.empty(1, device="vnpu:3"), lambda: torch.vnpu.set_device(1)])
def test_index_out_of_range(call):
    with pytest.raises(RuntimeError, match="device index|out of range"):
        call()


def test_properties_and_module_functions():
    properties = torch.vnpu.get_device_properties()
    assert properties.total_memory == torch.vnpu.mem_get_info()[1]
    assert torch.vnpu.get_device_name() == properties.name == "default"
    assert torch.vnpu.current_device() == 0
    with torch.vnpu.device("vnpu:0"):
        assert torch.vnpu.current_device() == 0
    assert torch.float32 in torch.vnpu.get_device_capability()["supported_dtypes"]
    assert torch.float64 not in torch.vnpu.get_device_capability()["supported_dtypes"]
    assert torch.ones(1).vnpu().is_vnpu
    assert torch.nn.Linear(2, 2).vnpu().weight.device.type == "vnpu"


def test_fork_child_raises_by_name_and_parent_goes_on():
    x = torch.ones(4, device="vnpu")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            torch.ones(1, device="vnpu")
            text = b"no error"
        except Exception as error:
            text = str(error).encode()
        os.write(write, text)
        os._exit(0)
    os.waitpid(child, 0)
    text = os.read(read, 4096).decode()
    os.close(read), os.close(write)
    assert "VNPU_ERROR_FORKED" in text and "spawn" in text
    assert (x + 1).sum().item() == 8.0


def test_fork_before_use_starts_clean():
    code = """
import os, torch
child = os.fork()
if child == 0:
    print(torch.ones(3, device="vnpu").sum().item(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(torch.ones(4, device="vnpu").sum().item())
"""
    done = run_python(code)
    assert done.stdout.split() == ["3.0", "4.0"], done.stderr


def test_lost_device_is_an_error_and_not_a_hang():
    code = """
import os, signal, torch
from torch_vnpu import _C
x = torch.ones(64, 64, device="vnpu")
os.kill(_C._device_pid(), signal.SIGKILL)
try:
    for i in range(100):
        x = x + 1
        torch.vnpu.synchronize()
except torch.AcceleratorError as error:
    print(error.error_code, str(error).splitlines()[0])
"""
    done = run_python(code, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("48 ") and "device lost" in done.stdout and "signal 9" in done.stdout


def test_index_out_of_range_is_reported_at_the_next_synchronize():
    code = """
import torch
table = torch.ones(4, 4, device="vnpu")
try:
    torch.index_select(table, 0, torch.tensor([9], device="vnpu"))
    torch.vnpu.synchronize()
except torch.AcceleratorError as error:
    print(error.error_code, "INDEX_OUT_OF_RANGE" in str(error))
torch.vnpu.reset_device()
print((table + 1).sum().item())
"""
    done = run_python(code)
    assert done.stdout.split() == ["37", "True", "32.0"], (done.stdout, done.stderr)


def test_script_ending_with_backward_exits_cleanly():
    code = "import torch; x = torch.ones(8, 8, device='vnpu', requires_grad=True); (x * x).sum().backward()"
    for _ in range(3):
        done = run_python(code, VNPU_FALLBACK="allow")
        assert done.returncode == 0, done.stderr


def is_gone(pid: int) -> bool:
    """The process has ended (a zombie counts: nobody has collected it yet)."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_nothing_is_left_after_exit():
    done = run_python("import torch; from torch_vnpu import _C; torch.ones(1, device='vnpu'); print(_C._device_pid())")
    pid = int(done.stdout)
    deadline = time.monotonic() + 10
    while not is_gone(pid) and time.monotonic() < deadline:
        os.sched_yield()
    assert is_gone(pid)
