"""Tensors on the device: creation, copies, views, storage, serialization, printing."""

import copy
import io

import pytest
import torch
from conftest import DEVICE, compare

TYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool, torch.complex64, torch.complex128,
]  # fmt: skip


def sample(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    if dtype.is_complex:
        return torch.randn(*shape, dtype=dtype, generator=generator)
    return (torch.randn(*shape, generator=generator) * 50).to(torch.int32).abs().to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_round_trip_and_strides(dtype):
    x = sample(dtype, 6, 5, 7)
    d = x.to(DEVICE)
    assert d.dtype == dtype and d.device == torch.device("vnpu:0")
    for view in (
        lambda t: t,
        lambda t: t.transpose(0, 2),
        lambda t: t.permute(1, 2, 0),
        lambda t: t[1:5:2, ::3],
        lambda t: t[:, 2],
        lambda t: t[0, 0, 0],
        lambda t: t[:, :0],
        lambda t: t[:1].expand(3, 5, 7),
    ):
        assert torch.equal(view(d).cpu(), view(x))
        assert torch.equal(view(d).contiguous().cpu(), view(x).contiguous())
        assert torch.equal(view(x).to(DEVICE).cpu(), view(x))


def test_copy_into_strided_destinations():
    for dtype in (torch.float32, torch.int64, torch.uint8, torch.float64):
        x, y = sample(dtype, 8, 6), sample(dtype, 6, 4) + (0 if dtype == torch.uint8 else 1)
        for place in (lambda t: t[1:7, 1:5], lambda t: t.t()[:, ::2][:, :4], lambda t: t[2:8, :4]):
            expected, actual, from_host = x.clone(), x.to(DEVICE), x.to(DEVICE)
            place(expected).copy_(y)
            place(actual).copy_(y.to(DEVICE))
            place(from_host).copy_(y)
            assert torch.equal(actual.cpu(), expected)
            assert torch.equal(from_host.cpu(), expected)
    target = torch.zeros(4, 6)
    target.t().copy_(sample(torch.float32, 6, 4).to(DEVICE))
    assert torch.equal(target.t(), sample(torch.float32, 6, 4))


@pytest.mark.parametrize("source", [torch.float32, torch.int64, torch.int32, torch.uint8, torch.bool, torch.bfloat16])
def test_type_changes_on_the_device(source):
    x = sample(source, 5, 9)
    for target in (torch.float32, torch.int64, torch.int32, torch.uint8, torch.bool, torch.bfloat16):
        compare(lambda t, to=target: t.to(to), x, atol=0, rtol=0)
        compare(lambda t, to=target: t.t().to(to), x, atol=0, rtol=0)
        assert torch.equal(x.to(DEVICE, target).cpu(), x.to(target))  # both at once


@pytest.mark.host
def test_float64_and_complex_live_in_memory_and_compute_on_the_host():
    x = torch.randn(4, 3, dtype=torch.float64)
    compare(lambda t: t.to(torch.float32), x)
    compare(lambda t: t.float().double(), x)
    compare(lambda t: t @ t.t(), x)
    z = torch.randn(3, 3, dtype=torch.complex64)
    d = z.to(DEVICE)
    assert torch.equal(d.conj().cpu(), z.conj())
    assert torch.equal(d.conj().clone().cpu(), z.conj().resolve_conj())
    assert torch.equal(d.imag.cpu(), z.imag)
    assert torch.equal(d.conj().imag.cpu(), z.conj().imag)
    target = torch.zeros(3, 3, dtype=torch.complex64, device=DEVICE)
    target.conj().copy_(d)
    assert torch.equal(target.cpu(), z.conj().resolve_conj())
    assert d[1, 2].item() == z[1, 2].item() and d.conj()[1, 2].item() == z[1, 2].conj().item()


def test_views_alias():
    x = torch.zeros(4, 6, device=DEVICE)
    x.view(24)[5] = 3
    x.t()[1, 2] = 4
    x[1:3].add_(1)
    x.reshape(2, 12).select(0, 1).mul_(2)
    y = torch.zeros(4, 6)
    y.view(24)[5] = 3
    y.t()[1, 2] = 4
    y[1:3].add_(1)
    y.reshape(2, 12).select(0, 1).mul_(2)
    assert torch.equal(x.cpu(), y)
    assert x.view(24).data_ptr() == x.data_ptr()
    assert torch.equal(x.unfold(1, 2, 2).cpu(), y.unfold(1, 2, 2))
    assert torch.equal(x.repeat(2, 1).cpu(), y.repeat(2, 1))
    assert torch.equal(x.as_strided((2, 2), (7, 1), 3).cpu(), y.as_strided((2, 2), (7, 1), 3))


def test_overlapping_writes_are_refused():
    x = torch.zeros(6, device=DEVICE)
    with pytest.raises(RuntimeError, match="single memory location"):
        x[1:].copy_(x[:-1])
    with pytest.raises(RuntimeError, match="single memory location"):
        x[:1].expand(4).add_(1)


def test_pinned_and_non_blocking():
    x = torch.randn(1000).pin_memory()
    assert x.is_pinned() and not torch.randn(3).is_pinned()
    d = x.to(DEVICE, non_blocking=True)
    back = torch.empty(1000).pin_memory()
    back.copy_(d * 2, non_blocking=True)
    torch.vnpu.synchronize()
    assert torch.equal(back, x * 2)
    for _ in range(20):  # reuse of pinned blocks must wait for the copies that read them
        y = torch.randn(5000).pin_memory()
        expected = y.clone()
        d = y.to(DEVICE, non_blocking=True)
        del y
        torch.empty(5000).pin_memory().fill_(-1)
        assert torch.equal(d.cpu(), expected)


def test_resize_and_storage():
    x = torch.arange(6, device=DEVICE)
    x.resize_(3, 4)
    assert x.shape == (3, 4) and x.view(-1)[:6].tolist() == list(range(6))
    storage = x.untyped_storage()
    storage.resize_(0)
    assert storage.nbytes() == 0
    storage.resize_(96)
    assert storage.nbytes() == 96
    y = torch.empty(0, device=DEVICE).set_(torch.ones(8, device=DEVICE).untyped_storage(), 2, (3,), (2,))
    assert y.tolist() == [1, 1, 1]
    z = torch.zeros(4, device=DEVICE)
    z.set_(torch.ones(2, 2, device=DEVICE))
    assert z.shape == (2, 2) and z.is_set_to(z.view(2, 2))
    z.set_()
    assert z.numel() == 0


def test_save_load_and_deepcopy():
    x = torch.randn(4, 5)
    d = x.to(DEVICE)
    for value in (copy.deepcopy(d), copy.copy(d)):
        assert value.device == d.device and torch.equal(value.cpu(), x)
    buffer = io.BytesIO()
    torch.save({"a": d, "b": d[1:3]}, buffer)
    for kwargs in ({}, {"map_location": "cpu"}, {"map_location": "vnpu:0"}):
        buffer.seek(0)
        loaded = torch.load(buffer, **kwargs)
        assert torch.equal(loaded["a"].cpu(), x) and torch.equal(loaded["b"].cpu(), x[1:3])
        assert loaded["a"].device.type == ("cpu" if kwargs.get("map_location") == "cpu" else "vnpu")
        assert loaded["b"].untyped_storage().data_ptr() == loaded["a"].untyped_storage().data_ptr()
    module = copy.deepcopy(torch.nn.Linear(3, 2).to(DEVICE))
    assert module.weight.device.type == "vnpu"


def test_printing():
    assert repr(torch.tensor([1.5, -2.0]).to(DEVICE)) == "tensor([ 1.5000, -2.0000], device='vnpu:0')"
    assert repr(torch.arange(3).to(DEVICE)) == "tensor([0, 1, 2], device='vnpu:0')"
    assert "device='vnpu:0'" in repr(torch.zeros(2000, dtype=torch.float64, device=DEVICE))
    assert repr(torch.ones(1, device=DEVICE, requires_grad=True)) == "tensor([1.], device='vnpu:0', requires_grad=True)"


def test_factories():
    for make in (
        lambda device: torch.zeros(3, 4, device=device),
        lambda device: torch.ones(5, dtype=torch.int64, device=device),
        lambda device: torch.full((2, 3), 7, device=device),
        lambda device: torch.full((2, 3), -0.5, device=device),
        lambda device: torch.full((3,), True, device=device),
        lambda device: torch.full((4,), 2.5, dtype=torch.float64, device=device),
        lambda device: torch.zeros(4, dtype=torch.complex64, device=device),
        lambda device: torch.arange(10, device=device),
        lambda device: torch.arange(3, 20, 4, device=device),
        lambda device: torch.arange(5, -5, -3, device=device),
        lambda device: torch.arange(0, 1, 0.125, device=device),
        lambda device: torch.arange(4, dtype=torch.int32, device=device),
        lambda device: torch.arange(0, device=device),
        lambda device: torch.tensor([[1, 2], [3, 4]], device=device),
        lambda device: torch.zeros(3, 4, device=device).t().fill_(2),
    ):
        expected, actual = make("cpu"), make(DEVICE)
        assert actual.dtype == expected.dtype and torch.equal(actual.cpu(), expected)


def test_empty_tensors():
    x = torch.empty(0, 3, device=DEVICE)
    assert (x + 1).shape == (0, 3) and x.sum().item() == 0 and x.cpu().shape == (0, 3)
    assert torch.cat([x, torch.ones(2, 3, device=DEVICE)]).shape == (2, 3)
    assert (x @ torch.ones(3, 2, device=DEVICE)).shape == (0, 2)
    assert (torch.ones(2, 0, device=DEVICE) @ torch.ones(0, 3, device=DEVICE)).tolist() == [[0.0] * 3] * 2


def test_dlpack():
    x = torch.arange(6, device=DEVICE)
    y = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    y[0] = 9
    assert x.tolist()[0] == 9
    assert torch.from_dlpack(x).data_ptr() == x.data_ptr()


def test_equal_and_item():
    x = torch.arange(4, device=DEVICE)
    assert torch.equal(x, x.clone()) and not torch.equal(x, x + 1) and not torch.equal(x, x[:2])
    assert [v.item() for v in x] == [0, 1, 2, 3]
    assert bool(torch.tensor(True, device=DEVICE)) and int(x[2]) == 2 and float(x[3]) == 3.0


@pytest.mark.host
def test_deterministic_fill_of_uninitialized_memory():
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.isnan(torch.empty(4, device=DEVICE)).all().item()
        assert torch.empty(4, dtype=torch.int32, device=DEVICE).tolist() == [2**31 - 1] * 4
    finally:
        torch.use_deterministic_algorithms(False)


def test_host_addresses_are_refused_by_mixed_devices():
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device=DEVICE) + torch.ones(3)
