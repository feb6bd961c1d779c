"""Memory, streams, events, random numbers, the host fallback, the profile interface."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from conftest import DEVICE, compare, run_python

import torch_vnpu


def stats() -> dict:
    return torch.vnpu.memory_stats()


def test_memory_statistics():
    torch.vnpu.empty_cache()
    before = torch.vnpu.memory_allocated()
    x = torch.empty(1 << 20, dtype=torch.uint8, device=DEVICE)
    assert torch.vnpu.memory_allocated() - before == 1 << 20
    torch.vnpu.reset_peak_memory_stats()
    y = torch.empty(3 << 20, dtype=torch.uint8, device=DEVICE)
    peak = torch.vnpu.max_memory_allocated()
    del y
    assert torch.vnpu.memory_allocated() - before == 1 << 20 and peak - before == 4 << 20
    assert torch.vnpu.memory_reserved() >= torch.vnpu.memory_allocated()
    counts = stats()
    assert (
        counts["allocation.all.current"]
        == counts["allocation.small_pool.current"] + counts["allocation.large_pool.current"]
    )
    assert counts["requested_bytes.all.current"] <= counts["allocated_bytes.all.current"]
    del x


def test_freed_memory_is_reused_and_returned():
    torch.vnpu.synchronize()
    torch.vnpu.empty_cache()
    size = 256 << 20  # a segment of its own: tensors of other tests may live in smaller ones
    x = torch.empty(size, dtype=torch.uint8, device=DEVICE)
    pointer, reserved, allocations = x.data_ptr(), torch.vnpu.memory_reserved(), stats()["num_device_alloc"]
    del x
    y = torch.empty(size, dtype=torch.uint8, device=DEVICE)
    assert y.data_ptr() == pointer and stats()["num_device_alloc"] == allocations
    del y
    free_before = torch.vnpu.mem_get_info()[0]
    torch.vnpu.empty_cache()
    assert torch.vnpu.memory_reserved() < reserved and torch.vnpu.mem_get_info()[0] > free_before


BLOCKS = """
import torch
import torch_vnpu
parts = [torch.empty(200_000, dtype=torch.uint8, device="vnpu") for _ in range(8)]
stats = torch.vnpu.memory_stats
segments = stats()["segment.small_pool.current"]
assert len({part.data_ptr() for part in parts}) == 8 and all(part.data_ptr() % 4096 == 0 for part in parts)
del parts
assert stats()["inactive_split.small_pool.current"] <= segments * 2
torch.empty(1_000_000, dtype=torch.uint8, device="vnpu")  # fits where the pieces were
assert stats()["segment.small_pool.current"] == segments
print("joined")
"""


def test_blocks_are_split_and_joined():
    """In a process of its own: tensors of other tests would keep pieces of segments."""
    done = run_python(BLOCKS)
    assert done.returncode == 0 and "joined" in done.stdout, done.stderr


def test_out_of_memory_retries_then_raises():
    code = """
import torch
import torch_vnpu
total = torch.vnpu.mem_get_info()[1]
half = torch.empty(total // 2, dtype=torch.uint8, device="vnpu")
del half
most = torch.empty(total - (8 << 20), dtype=torch.uint8, device="vnpu")  # the cached half must be given back first
assert torch.vnpu.memory_stats()["num_alloc_retries"] == 1
try:
    torch.empty(1 << 30, dtype=torch.uint8, device="vnpu")
except torch.OutOfMemoryError as error:
    print("1073741824 bytes" in str(error), "vnpu out of memory" in str(error))
assert torch.vnpu.memory_stats()["num_ooms"] == 1
del most
torch.empty(1 << 20, dtype=torch.uint8, device="vnpu")
"""
    done = run_python(code)
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_streams_order_work():
    x = torch.randn(256, 256, device="cpu").to(DEVICE)
    side = torch.vnpu.Stream(priority=-1)
    assert isinstance(side, torch.Stream) and side != torch.vnpu.current_stream()
    ready = torch.vnpu.Event()
    assert isinstance(ready, torch.vnpu.Event) and isinstance(ready, torch.Event)
    y = x @ x
    ready.record()
    with torch.vnpu.stream(side):
        assert torch.vnpu.current_stream() == side
        ready.wait(side)
        z = y + 1
        y.record_stream(side)
    assert torch.vnpu.current_stream() == torch.vnpu.default_stream()
    torch.vnpu.current_stream().wait_stream(side)
    torch.testing.assert_close((z - 1).cpu(), y.cpu())
    side.synchronize()
    assert side.query() and torch.vnpu.default_stream().query()


def test_streams_on_disjoint_cores_overlap():
    cores = torch_vnpu._C._machine()["workers"]
    assert cores >= 2, "the default chip has several cores"
    x = torch.randn(256, 1024).to(DEVICE)
    streams = [torch.vnpu.Stream(cores=range(cores // 2)), torch.vnpu.Stream(cores=range(cores // 2, cores))]
    assert streams[0] != streams[1] and isinstance(streams[0], torch.vnpu.Stream)

    def run(which: list[int]) -> tuple[list[dict], torch.Tensor]:
        torch.vnpu.synchronize()
        with torch_vnpu.profile(kernels=True) as p:
            for i in which:
                with torch.vnpu.stream(streams[i]):
                    y = torch.exp(x)
        return [row for row in p.report["kernels"] if row["kind"] == "kernel"], y

    run([0, 1])  # programs are built and loaded, which takes host time
    (one,), y = run([0])
    both, z = run([0, 1])
    torch.testing.assert_close(y.cpu(), torch.exp(x.cpu()))
    torch.testing.assert_close(z.cpu(), y.cpu(), rtol=0, atol=0)
    assert both[1]["start_ps"] < both[0]["start_ps"] + both[0]["duration_ps"]
    assert both[0]["duration_ps"] >= one["duration_ps"]  # they share the memory
    for cores in ([], [64], [-1], [63]):
        with pytest.raises(RuntimeError, match="core"):
            torch.vnpu.Stream(cores=cores)


def test_elapsed_time_is_simulated_and_repeatable():
    def measure() -> float:
        x = torch.ones(512, 512, device=DEVICE)
        start, end = torch.vnpu.Event(enable_timing=True), torch.vnpu.Event(enable_timing=True)
        torch.vnpu.synchronize()
        start.record()
        for _ in range(3):
            x = x @ x
        end.record()
        end.synchronize()
        assert start.query() and end.query()
        return start.elapsed_time(end)

    measure()  # programs are built and loaded, which takes host time
    first = measure()
    assert first > 0 and [measure() for _ in range(3)] == [first] * 3


def test_events_through_torch():
    event = torch.Event("vnpu", enable_timing=True)
    stream = torch.accelerator.current_stream()
    stream.record_event(event)
    event.synchronize()
    assert event.query()
    stream.record_event(torch.vnpu.Event())
    late = torch.vnpu.Event()
    with pytest.raises((RuntimeError, ValueError)):
        event.elapsed_time(late)  # never recorded


def test_memory_used_on_another_stream_is_kept():
    side = torch.vnpu.Stream()
    for _ in range(10):
        x = torch.full((1 << 18,), 3.0, device=DEVICE)
        side.wait_stream(torch.vnpu.current_stream())
        with torch.vnpu.stream(side):
            for _ in range(3):
                y = x * 2
        x.record_stream(side)
        del x
        torch.full((1 << 18,), 9.0, device=DEVICE)  # must not land in x's memory before the side stream is done
        side.synchronize()
        assert y.cpu().unique().tolist() == [6.0]


@pytest.mark.host
def test_random_numbers_follow_the_device_generator():
    torch.manual_seed(5)
    a = torch.randn(1000, device=DEVICE)
    b = torch.randn(1000, device=DEVICE)
    torch.manual_seed(5)
    assert torch.equal(torch.randn(1000, device=DEVICE), a) and not torch.equal(a, b)
    assert abs(a.mean().item()) < 0.2 and 0.8 < a.cpu().std().item() < 1.2
    state = torch.vnpu.get_rng_state()
    assert state.dtype == torch.uint8 and state.shape == (16,) and state.device.type == "cpu"
    c = torch.rand(10, device=DEVICE)
    torch.vnpu.set_rng_state(state)
    assert torch.equal(torch.rand(10, device=DEVICE), c)
    cpu_state = torch.get_rng_state()
    torch.rand(10, device=DEVICE)
    assert torch.equal(torch.get_rng_state(), cpu_state)  # the CPU's generator is left alone


@pytest.mark.host
def test_generators():
    g = torch.Generator("vnpu").manual_seed(3)
    assert g.device.type == "vnpu" and g.initial_seed() == 3
    x = torch.randn(5, generator=g, device=DEVICE)
    g.manual_seed(3)
    assert torch.equal(torch.randn(5, generator=g, device=DEVICE), x)
    copy = g.clone_state()
    assert torch.equal(torch.rand(3, generator=copy, device=DEVICE), torch.rand(3, generator=g, device=DEVICE))
    with torch.random.fork_rng(devices=[0], device_type="vnpu"):
        inside = torch.rand(3, device=DEVICE)
    assert torch.equal(torch.rand(3, device=DEVICE), inside)
    for draw in (
        lambda: torch.randint(0, 9, (20,), device=DEVICE),
        lambda: torch.randperm(20, device=DEVICE),
        lambda: torch.bernoulli(torch.full((20,), 0.5, device=DEVICE)),
        lambda: torch.empty(20, device=DEVICE).exponential_(),
        lambda: torch.nn.functional.dropout(torch.ones(20, device=DEVICE), 0.5),
        lambda: torch.multinomial(torch.ones(5, device=DEVICE), 3),
    ):
        torch.vnpu.manual_seed(1)
        first = draw()
        torch.vnpu.manual_seed(1)
        assert torch.equal(draw(), first) and first.device.type == "vnpu"


@pytest.mark.host
def test_dropout_backward_uses_its_mask():
    x = torch.ones(1000, device=DEVICE, requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.25)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach()) and 600 < (y > 0).sum().item() < 900


def test_data_loader_pins_and_its_workers_stay_on_the_host():
    from torch.utils.data import DataLoader, TensorDataset

    torch.ones(1, device=DEVICE)  # the parent has the device when the workers are forked
    data = TensorDataset(torch.arange(64.0).view(32, 2), torch.arange(32))
    total = 0.0
    for x, y in DataLoader(data, batch_size=8, num_workers=2, pin_memory=True):
        assert x.is_pinned()
        total += x.to(DEVICE, non_blocking=True).sum().item() + y.to(DEVICE, non_blocking=True).sum().item()
    assert total == 63 * 32 + 31 * 16


def test_threads_share_the_device():
    from concurrent.futures import ThreadPoolExecutor

    def work(seed: int) -> bool:
        x = torch.randn(40, 40, generator=torch.Generator().manual_seed(seed))
        d = x.to(DEVICE)
        return all(torch.allclose((d @ d + i).cpu(), x @ x + i, atol=1e-4) for i in range(30))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_compile_and_export_trace_the_device():
    x = torch.ones(4, 4, device=DEVICE)
    compiled = torch.compile(lambda a: torch.nn.functional.gelu(a @ a) + 1, backend="aot_eager")
    torch.testing.assert_close(compiled(x).cpu(), torch.nn.functional.gelu(torch.full((4, 4), 4.0)) + 1)
    program = torch.export.export(torch.nn.Linear(4, 4).to(DEVICE), (x,))
    assert program.module()(x).device.type == "vnpu"


@pytest.mark.host
def test_what_neither_side_can_do_is_refused_by_name():
    with pytest.raises(NotImplementedError, match="_thnn_fused_lstm_cell.*neither on the vnpu nor on the host"):
        torch.nn.LSTM(4, 4).to(DEVICE)(torch.ones(2, 1, 4, device=DEVICE))
    with pytest.raises(NotImplementedError, match="strided tensors only"):
        torch.eye(3).to(DEVICE).to_sparse()


def test_fallback_error_names_operator_type_and_shape():
    with pytest.raises(NotImplementedError, match=r"aten::cumsum\.out\(float32\[2, 3\]\).*VNPU_FALLBACK=error"):
        torch.ones(2, 3, device=DEVICE).cumsum(1)


def test_fallback_warns_once(monkeypatch):
    monkeypatch.setenv("VNPU_FALLBACK", "warn")
    x = torch.randn(4, 4, device="cpu").to(DEVICE)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            torch.flip(x, (0,))
    assert sum("aten::flip" in str(w.message) for w in caught) == 1


def test_fallback_mode_is_checked(monkeypatch):
    monkeypatch.setenv("VNPU_FALLBACK", "sometimes")
    with pytest.raises(RuntimeError, match="error, warn or allow"):
        torch.ones(3, device=DEVICE).cumsum(0)


@pytest.mark.host
def test_fallback_values():
    x = torch.randn(4, 6)
    compare(lambda t: t.cumsum(1), x)
    compare(lambda t: t.sort(dim=1), x)
    compare(lambda t: t.topk(2, dim=1), x)
    compare(lambda t: t[t > 0], x)
    compare(lambda t: t.cumprod(1), x)
    compare(lambda t, m: t.masked_scatter(m, t.flip(0)), x, x > 0)
    d, e = x.to(DEVICE), x.clone()
    d[d > 0] = 2.0  # written through an argument
    e[e > 0] = 2.0
    assert torch.equal(d.cpu(), e)
    out = torch.empty(0, device=DEVICE)
    torch.cumsum(x.to(DEVICE), 0, out=out)  # an out argument that has to grow
    torch.testing.assert_close(out.cpu(), x.cumsum(0))
    compare(lambda t: torch.nn.functional.conv1d(t.view(1, 4, 6), t[:, :2].reshape(1, 4, 2)), x)


@pytest.mark.host
def test_fallback_costs_simulated_time():
    x = torch.randn(1000, 1000, device="cpu").to(DEVICE)
    torch.vnpu.synchronize()
    before = torch.vnpu.host_clock_ps()
    x.cumsum(1)
    torch.vnpu.synchronize()
    properties = torch.vnpu.get_device_properties()
    link = 2 * 4_000_000 * 10**12 // properties.link_bytes_per_s
    host = 2 * 4_000_000 * 10**12 // properties.host_bytes_per_s
    assert torch.vnpu.host_clock_ps() - before >= link + host


def test_profile_interface():
    from torch_vnpu import _C

    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU()).to(DEVICE)
    x = torch.ones(4, 8).to(DEVICE)
    _C._profile_begin(True)
    with torch.no_grad():
        model(x).cpu()
    blob, ops = _C._profile_end()
    assert blob[:4] == b"PROF"
    assert [op[1] for op in ops] == ["aten::addmm.out", "aten::relu", "aten::_copy_from"]
    assert [op[0] for op in ops] == [1, 2, 3]
    assert ops[0][2:5] == ("float32", "[16] x [4, 8] x [8, 16]", "device") and ops[0][5] == 0
    assert [op[6] for op in ops] == ["Sequential.0", "Sequential.1", ""]
    from torch_vnpu.profile_blob import parse

    launches = parse(blob).launches
    tags = {int(tag) for tag in launches["tag"]}
    assert {1, 2, 3} <= tags  # kernels and copies carry the tag of their operator


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    x, w, b = torch.randn(6, 8), torch.randn(4, 8), torch.randn(4)
    assert dtype in torch.vnpu.get_amp_supported_dtype()

    def forward(x, w, b):
        y = torch.nn.functional.linear(x, w, b)
        return y, torch.softmax(y, -1), torch.nn.functional.layer_norm(y, (4,))

    with torch.autocast("vnpu", dtype=dtype):
        results = forward(*(tensor.to(DEVICE) for tensor in (x, w, b)))
    assert results[0].dtype == dtype and results[1].dtype == torch.float32
    assert forward(x.to(DEVICE), w.to(DEVICE), b.to(DEVICE))[0].dtype == torch.float32
    for want, got in zip(forward(x, w, b), results, strict=True):
        torch.testing.assert_close(got.cpu().float(), want, atol=5e-2, rtol=5e-2)


def test_timing_mode_refuses_float_values_by_name():
    code = """
import torch
import torch_vnpu
x, i = torch.ones(4, 4, device="vnpu"), torch.arange(5, device="vnpu")
assert (i * 2).tolist() == [0, 2, 4, 6, 8]
try:
    (x @ x).cpu()
except torch.AcceleratorError as error:
    print(error.error_code, "VNPU_ERROR_VALUE_UNKNOWN" in str(error))
big = torch.empty(25_000_000_000, device="vnpu")
y = big[:1000] + 1
torch.vnpu.synchronize()
from torch_vnpu import _C
with open(f"/proc/{_C._device_pid()}/status") as status:
    print(next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) < 1 << 20)
"""
    done = run_python(code, VNPU_MODE="timing", VNPU_OPTIONS="dram.bytes=128GiB")
    assert done.stdout.split() == ["38", "True", "True"], (done.stdout, done.stderr)


@pytest.mark.host
def test_profile_counts_a_fallback_as_one_operator():
    from torch_vnpu import _C

    x = torch.ones(100, 100, device=DEVICE)
    _C._profile_begin(False)
    x.cumsum(0)
    _, ops = _C._profile_end()
    assert len(ops) == 1 and ops[0][1] == "aten::cumsum.out" and ops[0][4] == "host" and ops[0][5] > 0
    with pytest.raises(RuntimeError, match="no profile is running"):
        _C._profile_end()


def test_table_is_registered_and_documented(tmp_path):
    root = Path(__file__).resolve().parents[1]
    sys.path.insert(0, str(root))
    import gen_ops
    import ops

    registered = set(torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"))
    for row in ops.ROWS:
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{row.op}", "PrivateUse1"), row.op
        assert any(name == f"aten::{row.op}" for name in registered), row.op
    for name in ops.RANDOM_ON_HOST:
        assert torch._C._dispatch_has_computed_kernel_for_dispatch_key(f"aten::{name}", "PrivateUse1"), name
    page = root.parent / "docs" / "operators.md"
    assert page.read_text() == gen_ops.markdown(ops.ROWS), (
        "run: python torch_plugin/gen_ops.py --markdown docs/operators.md"
    )


def test_coverage_and_diagnose(tmp_path):
    file = tmp_path / "coverage.json"
    done = subprocess.run(
        [sys.executable, "-m", "torch_vnpu.coverage", "--json", str(file)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    import json

    coverage = json.loads(file.read_text())
    where = {row["op"]: row["where"] for row in coverage["ops"]}
    assert where["addmm.out"] == "device" and where["cumsum.out"] == "host" and where["normal_"] == "host (random)"
    assert coverage["device"] == sum(value == "device" for value in where.values()) and coverage["needed"] > 600
    done = subprocess.run([sys.executable, "-m", "torch_vnpu.diagnose"], capture_output=True, text=True)
    assert done.returncode == 0 and "the device works" in done.stdout, done.stdout + done.stderr
