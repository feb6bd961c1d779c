"""bf16, f16 and int8 on the device: PyTorch's samples, wider results, models, and what a chip lacks."""

from __future__ import annotations

import json

import opinfo
import pytest
import torch
from conftest import DEVICE, run_python
from torch.nn import functional as F

FLOATS = [torch.float32, torch.bfloat16, torch.float16]
HALVES = [torch.bfloat16, torch.float16]
PRODUCTS = opinfo.operators(
    *"mm bmm addmm baddbmm addbmm matmul __rmatmul__ mv addmv dot vdot inner outer addr einsum tensordot".split(),
    *"linalg.multi_dot linalg.vecdot nn.functional.linear nn.functional.bilinear".split(),
)
OTHERS = [
    op
    for op in opinfo.operators(
        *"nn.functional.gelu nn.functional.relu tanh sigmoid exp sqrt rsqrt add sub mul sum mean amax softmax".split(),
        *"log_softmax nn.functional.rms_norm nn.functional.normalize var std var_mean linalg.vector_norm".split(),
        *"index_select where cat".split(),
    )
    if op.variant_test_name != "with_dtype"  # results in float64: the chip has no such type
]


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def name_of(value) -> str | None:
    return value.formatted_name if isinstance(value, opinfo.OpInfo) else None


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", PRODUCTS, ids=name_of)
def test_products_on_torchs_samples(op, dtype):
    assert opinfo.check(op, dtype) > 0


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", opinfo.operators("nn.functional.scaled_dot_product_attention"), ids=name_of)
def test_attention_on_torchs_samples(op, dtype):
    # Dropout is random: nothing to compare. 3 dimensions and mixed heads run as a composite.
    assert opinfo.check(op, dtype, lambda sample: not sample.kwargs.get("dropout_p")) > 5


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("op", OTHERS, ids=name_of)
def test_the_rest_of_a_model_on_torchs_samples(op, dtype):
    assert opinfo.check(op, dtype) > 0


@pytest.mark.parametrize("dtype", HALVES)
def test_layer_norm(dtype):
    x, weight, bias = (randn(*shape, seed=i, dtype=dtype) for i, shape in enumerate(((6, 384), (384,), (384,))))
    want = F.layer_norm(x.float(), (384,), weight.float(), bias.float()).to(dtype)
    got = F.layer_norm(x.to(DEVICE), (384,), weight.to(DEVICE), bias.to(DEVICE))
    torch.testing.assert_close(got.cpu(), want)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("m,k,n", [(1, 700, 9), (129, 127, 130), (64, 1, 65), (200, 513, 72)])
def test_a_result_is_rounded_once(dtype, m, k, n):
    """The accumulator is f32: out in f32 shows it, out in the narrow type is its rounding."""
    a, b, c = randn(m, k, dtype=dtype).to(DEVICE), randn(k, n, seed=1, dtype=dtype).to(DEVICE), randn(m, n, seed=2)
    wide = torch.mm(a, b, out_dtype=torch.float32)
    assert wide.dtype == torch.float32
    assert torch.equal(torch.mm(a, b).cpu(), wide.cpu().to(dtype))
    # f64 sums of the exact products: an f32 chain errs by at most k half units in the last place of sum |a b|.
    exact, scale = a.cpu().double() @ b.cpu().double(), a.cpu().double().abs() @ b.cpu().double().abs()
    assert ((wide.cpu().double() - exact).abs() <= scale * k * 2.0**-24).all()
    added = torch.addmm(c.to(DEVICE), a, b, out_dtype=torch.float32, beta=0.5)
    torch.testing.assert_close(added.cpu(), wide.cpu() + 0.5 * c)
    batch = torch.bmm(a[None], b[None], out_dtype=torch.float32)
    assert torch.equal(batch[0].cpu(), wide.cpu())


def test_a_wrong_result_type_is_refused():
    a = torch.ones(2, 2, device=DEVICE, dtype=torch.bfloat16)
    with pytest.raises(RuntimeError, match="out_dtype"):
        torch.mm(a, a, out_dtype=torch.float16)


@pytest.mark.parametrize("m,k,n", [(17, 16, 8), (32, 1000, 48), (130, 129, 131)])
def test_int8_products_are_exact(m, k, n):
    generator = torch.Generator().manual_seed(k)
    a = torch.randint(-128, 128, (m, k), generator=generator, dtype=torch.int8)
    b = torch.randint(-128, 128, (k, n), generator=generator, dtype=torch.int8)
    a[0], b[:, 0] = -128, -128
    want = a.int().numpy() @ b.int().numpy()
    assert (torch._int_mm(a.to(DEVICE), b.to(DEVICE)).cpu().numpy() == want).all()
    out = torch.empty(m, n, dtype=torch.int32, device=DEVICE)
    torch._int_mm(a.to(DEVICE), b.t().contiguous().to(DEVICE).t(), out=out)
    assert (out.cpu().numpy() == want).all()


def test_int8_products_of_other_types_are_refused():
    a = torch.ones(4, 4, device=DEVICE, dtype=torch.int16)
    with pytest.raises(RuntimeError, match="int8"):
        torch._int_mm(a, a)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("b,h,s,t,d", [(2, 3, 16, 16, 32), (1, 2, 7, 33, 64), (2, 12, 128, 128, 32)])
def test_attention(dtype, b, h, s, t, d):
    q, k, v = (randn(b, h, n, d, seed=i, dtype=dtype) for i, n in enumerate((s, t, t)))
    mask = torch.ones(b, 1, s, t, dtype=torch.bool)
    mask[..., t // 2 :] = False
    attend, close = F.scaled_dot_product_attention, {"atol": 2e-2 if dtype == torch.bfloat16 else 3e-3, "rtol": 1e-2}
    for kwargs in (
        {},
        {"scale": 0.3},
        {"attn_mask": mask},
        {"attn_mask": randn(s, t, dtype=dtype)},
        {"is_causal": True},
    ):
        wide = {key: x.float() if torch.is_tensor(x) and x.is_floating_point() else x for key, x in kwargs.items()}
        want = attend(q.float(), k.float(), v.float(), **wide)
        on_device = {key: x.to(DEVICE) if torch.is_tensor(x) else x for key, x in kwargs.items()}
        got = attend(q.to(DEVICE), k.to(DEVICE), v.to(DEVICE), **on_device)
        assert got.dtype == dtype
        torch.testing.assert_close(got.cpu().float(), want, **close)


def test_attention_of_bf16_is_the_fused_kernel():
    import torch_vnpu._C as c

    q = randn(1, 2, 5, 8, dtype=torch.bfloat16).to(DEVICE)
    c._profile_begin(False)
    F.scaled_dot_product_attention(q, q, q)
    names = {row[1] for row in c._profile_end()[1]}
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" in names and "aten::bmm.out" not in names


def encoder() -> torch.nn.Module:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, activation="gelu")
    return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()


@pytest.mark.parametrize("dtype", HALVES)
def test_a_transformer_runs_in_half_precision(dtype):
    model, x = encoder(), randn(2, 19, 64)
    with torch.no_grad():
        want = model(x)
        got = model.to(DEVICE, dtype)(x.to(DEVICE, dtype))
    assert got.dtype == dtype
    # Layer norm ends the model: values are about 1; a layer rounds about a dozen times.
    error = (got.cpu().float() - want).abs().max().item()
    assert error < (0.1 if dtype == torch.bfloat16 else 0.015)


def test_training_in_bf16():
    """Gradients of a small network in bf16 against f32: the directions agree."""
    torch.manual_seed(0)
    gradients = []
    for device, dtype in (("cpu", torch.float32), (DEVICE, torch.bfloat16)):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(24, 48), torch.nn.GELU(), torch.nn.LayerNorm(48), torch.nn.Linear(48, 8)
        )
        model = model.to(device, dtype)
        model(randn(16, 24).to(device, dtype)).square().mean().backward()
        gradients.append([p.grad.cpu().float().flatten() for p in model.parameters()])
    for want, got in zip(*gradients, strict=True):
        assert F.cosine_similarity(want, got, dim=0).item() > 0.999


def test_autocast():
    """Products in bf16, norms and losses in f32, as on other devices."""
    model, x = encoder().to(DEVICE), randn(2, 19, 64).to(DEVICE)
    linear, y = torch.nn.Linear(64, 32).to(DEVICE), randn(7, 64).to(DEVICE)
    with torch.no_grad():
        want = linear(y)
        with torch.autocast("vnpu", dtype=torch.bfloat16):
            got = linear(y)
            assert got.dtype == torch.bfloat16
            assert torch.softmax(got, -1).dtype == torch.float32
            assert (y @ y.t()).dtype == torch.bfloat16
            mixed = model(x)
        torch.testing.assert_close(got.float().cpu(), want.cpu(), atol=2e-2, rtol=2e-2)
        assert (mixed.float().cpu() - model(x).cpu()).abs().max().item() < 0.1


LACKS = """
import json, torch, torch_vnpu
a = torch.ones(4, 4)
def attempt(dtype):
    x = a.to("vnpu", dtype)
    try:
        (torch._int_mm(x, x) if dtype == torch.int8 else x @ x).cpu()
        return ""
    except NotImplementedError as error:
        return str(error)
print(json.dumps([attempt(dtype) for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int8)]))
"""


@pytest.mark.parametrize(
    "chip,has",
    [("default", "1111"), ("tpuv1-like", "0001"), ("ascend910-like", "0011"), ("gaudi2-like", "1110"), ("vta", "0001")],
)
def test_types_that_a_chip_lacks_are_refused_by_name(chip, has):
    done = run_python(LACKS, VNPU_CONFIG=chip)
    errors = json.loads(done.stdout.splitlines()[-1])
    for error, name, kern, is_there in zip(
        errors, ("float32", "bfloat16", "float16", "int8"), ("f32", "bf16", "f16", "i8"), has, strict=True
    ):
        if is_there == "1":
            assert error == ""
            continue
        assert f"{name}[4, 4]" in error and f"has no {kern} by {kern}" in error
        assert "mm" in error and "matrix unit of" in error


PIECES = """
import json, torch, torch_vnpu
g = torch.Generator().manual_seed(0)
a, b = torch.randn(70, 301, generator=g), torch.randn(301, 50, generator=g)
x, y = a.to("vnpu"), b.to("vnpu")
got = (x @ y).cpu()
rounded = torch.mm(x.bfloat16(), y.bfloat16(), out_dtype=torch.float32).cpu()
error = ((got.double() - a.double() @ b.double()).abs() / (a.abs().double() @ b.abs().double())).max().item()
print(json.dumps([error, torch.equal(got, rounded)]))
"""


def test_products_of_f32_have_the_accuracy_of_their_pieces():
    """matrix.f32 decides values: bf16x1 (a TPU's default) rounds the operands to bf16, more pieces less, native not."""

    def run(chip: str, options: str = "") -> tuple[float, bool]:
        return tuple(json.loads(run_python(PIECES, VNPU_CONFIG=chip, VNPU_OPTIONS=options).stdout.splitlines()[-1]))

    error, is_bf16 = run("tpuv4-like")
    assert is_bf16 and 2.0**-13 < error < 2.0**-8
    three, is_bf16 = run("default", "matrix.f32=bf16x3")
    assert not is_bf16 and three < 2.0**-15
    six, _ = run("default", "matrix.f32=bf16x6")
    native, _ = run("default")
    assert 0 < native < 2.0**-20 and 0 < six < 2.0**-18 and six < three < error
