"""Matrix products, rows, reductions, attention, gathers against the CPU."""

import pytest
import torch
from conftest import DEVICE, compare
from torch.nn import functional as F


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("m,k,n", [(1, 1, 1), (3, 5, 7), (128, 128, 128), (129, 127, 130), (1, 300, 9), (64, 1, 65)])
def test_matrix_products(m, k, n):
    a, b, c, bias = randn(m, k), randn(k, n, seed=1), randn(m, n, seed=2), randn(n, seed=3)
    close = {"atol": 1e-4, "rtol": 1e-4}
    compare(torch.mm, a, b, **close)
    compare(lambda x, y: x.t().contiguous().t() @ y, a, b, **close)
    compare(lambda x, y: y.t() @ x.t(), a, b, **close)
    compare(torch.addmm, bias, a, b, **close)
    compare(lambda x, y, z: torch.addmm(z, x, y, beta=0.5, alpha=2), a, b, c, **close)
    compare(lambda x, y, z: torch.addmm(z, x, y, beta=0), a, b, c, **close)
    compare(lambda x, y, z: F.linear(x, y.t(), z), a, b, bias, **close)
    compare(lambda x, y: x @ y[:, 0], a, b, **close)
    compare(lambda x, y: x[0] @ y[:, 0], a, b, **close)


def test_batched_products():
    a, b = randn(3, 5, 7), randn(3, 7, 4, seed=1)
    compare(torch.bmm, a, b, atol=1e-4)
    compare(lambda x, y: x @ y[0], a, b, atol=1e-4)
    compare(lambda x, y, z: torch.baddbmm(z, x, y, beta=2, alpha=0.5), a, b, randn(3, 5, 4), atol=1e-4)
    compare(lambda x, y, z: torch.baddbmm(z, x, y), a, b, randn(1, 1, 4), atol=1e-4)
    compare(lambda x, y: torch.matmul(x, y), randn(2, 3, 5, 7), randn(2, 3, 7, 4), atol=1e-4)
    compare(lambda x, y: torch.matmul(x, y), randn(2, 1, 5, 7), randn(3, 7, 4), atol=1e-4)
    compare(lambda x, y: torch.einsum("bij,bkj->bik", x, y), randn(2, 5, 7), randn(2, 6, 7), atol=1e-4)
    compare(lambda x, y: x.transpose(1, 2) @ y.transpose(1, 2), randn(3, 7, 5), randn(3, 4, 7), atol=1e-4)


def test_product_into_its_own_operand():
    x = randn(6, 6)
    d = x.to(DEVICE)
    torch.mm(d, d, out=d)
    torch.testing.assert_close(d.cpu(), x @ x, atol=1e-4, rtol=1e-4)
    e = x.to(DEVICE)
    e.addmm_(x.to(DEVICE), x.to(DEVICE))
    torch.testing.assert_close(e.cpu(), x + x @ x, atol=1e-4, rtol=1e-4)


def test_wrong_shapes_are_refused():
    with pytest.raises(RuntimeError):
        torch.ones(2, 3, device=DEVICE) @ torch.ones(2, 3, device=DEVICE)
    with pytest.raises(RuntimeError):
        torch.dot(torch.ones(2, device=DEVICE), torch.ones(3, device=DEVICE))


@pytest.mark.parametrize("shape,dim", [((5, 7), -1), ((5, 7), 0), ((2, 3, 129), 2), ((4, 1), 1), ((6,), 0), ((), 0)])
def test_softmax(shape, dim):
    x = randn(*shape) * 5
    compare(lambda t: torch.softmax(t, dim), x)
    compare(lambda t: torch.log_softmax(t, dim), x, atol=1e-5)
    if len(shape) > 1:
        compare(lambda t: torch.softmax(t.transpose(0, 1), dim), x)


def test_softmax_of_masked_rows():
    x = randn(4, 8)
    x[1, 3:] = float("-inf")
    compare(lambda t: torch.softmax(t, -1), x)


@pytest.mark.parametrize(
    "shape,norm", [((4, 384), (384,)), ((3, 5, 7), (7,)), ((3, 5, 7), (5, 7)), ((1, 1000), (1000,))]
)
def test_layer_norm(shape, norm):
    x, weight, bias = randn(*shape) * 3 + 1, randn(*norm, seed=1), randn(*norm, seed=2)
    compare(lambda t: F.layer_norm(t, norm), x)
    compare(lambda t, w, b: F.layer_norm(t, norm, w, b, 1e-12), x, weight, bias)
    compare(lambda t, w: F.layer_norm(t, norm, w), x, weight)
    compare(lambda t, w, b: torch.native_layer_norm(t, norm, w, b, 1e-5), x, weight, bias, atol=1e-4)


REDUCTIONS = [
    ("sum", torch.sum), ("mean", torch.mean), ("amax", torch.amax), ("amin", torch.amin), ("any", torch.any),
    ("all", torch.all),
]  # fmt: skip


@pytest.mark.parametrize("name,function", REDUCTIONS)
def test_reductions(name, function):
    x = randn(3, 5, 130)
    for dims in (0, 1, 2, -1, (0, 2), (1, 2), (0, 1, 2)):
        compare(lambda t, d=dims: function(t, dim=d), x, atol=1e-4)
        compare(lambda t, d=dims: function(t, dim=d, keepdim=True), x, atol=1e-4)
    compare(lambda t: function(t.permute(2, 0, 1), dim=1), x, atol=1e-4)
    if name not in ("amax", "amin"):
        compare(function, x, atol=1e-3)
    if name != "mean":
        compare(lambda t: function(t, dim=1), (x * 10).to(torch.int64))
        compare(lambda t: function(t, dim=1), (x * 10).to(torch.int32))
        compare(lambda t: function(t, dim=1), x > 0)


def test_more_reductions():
    x = randn(4, 9)
    compare(torch.max, x)
    compare(torch.min, x)
    compare(torch.max, (x * 10).long())
    compare(lambda t: t.prod(1), x)
    compare(lambda t: t.prod(), x[:, :3])
    compare(lambda t: torch.linalg.vector_norm(t, dim=1), x)
    compare(lambda t: torch.linalg.vector_norm(t), x)
    compare(lambda t: F.normalize(t, dim=1), x)
    compare(lambda t: t.sum(), torch.tensor(3.0))
    compare(lambda t: t.sum(0), torch.empty(0, 3))
    compare(lambda t: t.mean(), torch.empty(0))
    compare(lambda t: t.sum(dtype=torch.int64), x > 0)
    with_nan = torch.tensor([[1.0, float("nan"), 3.0], [1.0, 2.0, 3.0]])
    compare(lambda t: t.amax(1), with_nan)
    compare(lambda t: t.sum(1), with_nan)
    compare(lambda t: t.any(1), with_nan)


ATTENTION = [(2, 3, 16, 16, 32), (1, 2, 7, 33, 64), (2, 12, 128, 128, 32), (1, 1, 1, 5, 16)]


@pytest.mark.parametrize("b,h,s,t,d", ATTENTION)
def test_attention(b, h, s, t, d):
    q, k, v = randn(b, h, s, d), randn(b, h, t, d, seed=1), randn(b, h, t, d, seed=2)
    mask = torch.ones(b, 1, s, t, dtype=torch.bool)
    mask[..., t // 2 :] = False
    attend = F.scaled_dot_product_attention
    with torch.no_grad():
        compare(attend, q, k, v, atol=1e-4)
        compare(lambda *a: attend(*a, scale=0.3), q, k, v, atol=1e-4)
        compare(lambda x, y, z, m: attend(x, y, z, attn_mask=m), q, k, v, mask, atol=1e-4)
        compare(lambda x, y, z, m: attend(x, y, z, attn_mask=m), q, k, v, randn(s, t), atol=1e-4)
        compare(lambda *a: attend(*a, is_causal=True), q, k, v, atol=1e-4)
        swapped = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
        compare(attend, *swapped, atol=1e-4)


def test_attention_with_fewer_key_heads():
    q, k, v = randn(2, 8, 9, 16), randn(2, 2, 9, 16, seed=1), randn(2, 2, 9, 16, seed=2)
    with torch.no_grad():
        compare(lambda *a: F.scaled_dot_product_attention(*a, enable_gqa=True), q, k, v, atol=1e-4)


def test_attention_results():
    q, k, v = randn(1, 2, 5, 8), randn(1, 2, 6, 8, seed=1), randn(1, 2, 6, 8, seed=2)
    function = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    compare(lambda *a: function(*a), q, k, v, atol=1e-4)
    masked = torch.zeros(5, 6)
    masked[2] = float("-inf")  # a query without any key
    with torch.no_grad():
        out = F.scaled_dot_product_attention(*(x.to(DEVICE) for x in (q, k, v)), attn_mask=masked.to(DEVICE))
    assert out.cpu()[0, :, 2].abs().max().item() == 0.0


@pytest.mark.host
def test_attention_choice_follows_the_switches(monkeypatch):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = randn(1, 2, 5, 8).to(DEVICE)
    names = []

    def traced(backend):
        import torch_vnpu._C as c

        c._profile_begin(False)
        with sdpa_kernel(backend), torch.no_grad():
            F.scaled_dot_product_attention(q, q, q)
        names.append({row[1] for row in c._profile_end()[1]})

    traced(SDPBackend.MATH)
    traced(SDPBackend.FLASH_ATTENTION)
    assert "aten::bmm.out" in names[0] and "aten::_scaled_dot_product_flash_attention_for_cpu" in names[1]
    assert "aten::bmm.out" not in names[1]


def test_extremes_with_their_places():
    x = randn(5, 4, 33)
    x[0, 0, 7] = x[0, 0].max()
    x[1, 2, 5] = float("nan")
    for values in (x, (x.nan_to_num() * 2).long(), x > 0, (x.nan_to_num() * 3).to(torch.bfloat16)):
        for dim in (0, 1, -1):
            if values.dtype != torch.bool:
                compare(lambda t, d=dim: t.argmax(d), values)
                compare(lambda t, d=dim: t.argmin(d, keepdim=True), values)
            compare(lambda t, d=dim: tuple(t.max(d)), values)
            compare(lambda t, d=dim: tuple(t.min(d, keepdim=True)), values)
    compare(torch.argmax, x)
    compare(torch.argmin, x[2:])
    compare(torch.argmax, torch.tensor(3.0))


def test_norms_and_losses():
    x, y = randn(4, 9), randn(4, 9, seed=1)
    for order in (0, 1, 2, 3, 0.5, float("inf"), float("-inf")):
        compare(lambda t, o=order: torch.linalg.vector_norm(t, o, dim=1), x, atol=1e-4, rtol=1e-4)
    for reduction in ("none", "mean", "sum"):
        compare(lambda a, b, r=reduction: F.mse_loss(a, b, reduction=r), x, y)
    compare(lambda t, low, high: t.clamp(low, high), x, y - 0.5, y + 0.5)
    compare(lambda t, low: t.clamp(min=low), x, y[0])
    compare(lambda t, high: t.clamp(max=high), x, y[:, :1])
    compare(torch.lerp, x, y, torch.rand(4, 9, generator=torch.Generator().manual_seed(2)))
    compare(torch.rsub, x, y)


def test_moments_and_triangles():
    x = randn(4, 5, 6)
    for function in (torch.var, torch.std):
        compare(lambda t, f=function: f(t, 1), x)
        compare(lambda t, f=function: f(t), x)
        compare(lambda t, f=function: f(t, (0, 2), correction=0, keepdim=True), x)
    compare(lambda t: torch.var_mean(t, -1), x)
    compare(lambda t: torch.std_mean(t, (0, 1)), x)
    for diagonal in (-2, 0, 1):
        compare(lambda t, d=diagonal: t.tril(d), x)
        compare(lambda t, d=diagonal: t.triu(d), x[:, :, :3])
    compare(torch.tril, torch.ones(7, 7, dtype=torch.bool))
    compare(torch.triu, torch.arange(12).view(3, 4))


def test_transformer_inference_paths():
    torch.manual_seed(0)
    padding = torch.zeros(2, 9, dtype=torch.bool)
    padding[1, 6:] = True
    causal = torch.ones(9, 9, dtype=torch.bool).triu(1)
    for norm_first, activation in ((False, "relu"), (True, "gelu")):
        layer = torch.nn.TransformerEncoderLayer(
            32, 4, 64, batch_first=True, norm_first=norm_first, activation=activation
        ).eval()
        x = randn(2, 9, 32)
        with torch.no_grad():
            for kwargs in ({}, {"src_mask": causal}, {"src_key_padding_mask": padding}):
                want = layer.to("cpu")(x, **kwargs)
                got = layer.to(DEVICE)(x.to(DEVICE), **{key: mask.to(DEVICE) for key, mask in kwargs.items()})
                torch.testing.assert_close(got.cpu(), want, atol=1e-4, rtol=1e-4)
    attention = torch.nn.MultiheadAttention(32, 4, batch_first=True).eval()
    with torch.no_grad():
        for kwargs in ({}, {"average_attn_weights": False}, {"need_weights": False}):
            want = attention.to("cpu")(x, x, x, **kwargs)
            got = attention.to(DEVICE)(*[x.to(DEVICE)] * 3, **kwargs)
            for expected, actual in zip(want, got, strict=True):
                assert (expected is None) == (actual is None)
                if expected is not None:
                    torch.testing.assert_close(actual.cpu(), expected, atol=1e-4, rtol=1e-4)


def test_embedding_and_index():
    table, index = randn(50, 12), torch.tensor([[3, 49, 0], [7, 7, 1]])
    compare(lambda t, i: F.embedding(i, t), table, index)
    compare(lambda t, i: torch.index_select(t, 1, i), table, torch.tensor([0, 11, 5]))
    compare(lambda t, i: torch.index_select(t, 0, i), (table * 9).long(), torch.tensor([4, 4], dtype=torch.int32))
    compare(lambda t, i: t[i], table, index)
    compare(lambda t, i: t[:, i], table, torch.tensor([1, -1, 0]))
    compare(lambda t, i, j: t[i, j], table, torch.tensor([[0], [3]]), torch.tensor([1, 2, -2]))
    compare(lambda t, i, j: t[i, j], table > 0, torch.tensor([0, 3]), torch.tensor([1, 2]))
    cube = randn(4, 5, 6)
    compare(lambda t, i, j: t[:, i, j], cube, torch.tensor([0, -1]), torch.tensor([5, 2]))
    compare(lambda t, i, j: t[i, j], cube, torch.tensor([3, 0]), torch.tensor([[4], [1]]))


def test_index_beyond_a_merged_dimension_is_seen():
    from conftest import run_python

    done = run_python(
        "import torch; x = torch.ones(4, 5, device='vnpu'); i = torch.tensor([0], device='vnpu')\n"
        "try:\n    x[i, i + 7].cpu()\nexcept torch.AcceleratorError as error:\n    print(error.error_code)"
    )
    assert done.stdout.strip() == "37", done.stderr


def test_cat_and_stack():
    a, b = randn(3, 4), randn(3, 4, seed=1)
    compare(lambda x, y: torch.cat([x, y]), a, b)
    compare(lambda x, y: torch.cat([x, y[:, :2]], dim=1), a, b)
    compare(lambda x, y: torch.stack([x, y], dim=1), a, b)
    compare(lambda x, y: torch.cat([x, y]), a, b.to(torch.int64))
    compare(lambda x, y: torch.cat([x.t(), y.t()]), a, b)
    compare(lambda x: torch.cat([x, torch.empty(0, device=x.device)]), a)


def test_backward_formulas():
    x = randn(6, 10)
    for function in (
        lambda t: torch.softmax(t, -1).square().sum(),
        lambda t: torch.log_softmax(t, -1)[:, :3].sum(),
        lambda t: F.gelu(t).sum(),
        lambda t: F.silu(t).square().sum(),
        lambda t: torch.tanh(t).square().sum(),
        lambda t: torch.sigmoid(t).square().sum(),
        lambda t: F.relu(t).square().sum(),
        lambda t: (t @ t.t()).exp().mean(),
        lambda t: torch.sqrt(t.abs() + 1).sum(),
        lambda t: F.layer_norm(t, (10,)).pow(3).sum(),
    ):
        a = x.clone().requires_grad_()
        b = x.to(DEVICE).requires_grad_()
        function(a).backward()
        function(b).backward()
        torch.testing.assert_close(b.grad.cpu(), a.grad, atol=1e-4, rtol=1e-4)


def test_layer_norm_backward():
    for shape, norm in (((4, 6, 10), (10,)), ((4, 6, 10), (6, 10)), ((10,), (10,))):
        results = []
        for device in ("cpu", DEVICE):
            tensors = [randn(*shape), randn(*norm, seed=1), randn(*norm, seed=2)]
            tensors = [tensor.to(device).requires_grad_() for tensor in tensors]
            F.layer_norm(tensors[0], norm, tensors[1], tensors[2]).pow(3).sum().backward()
            results.append([tensor.grad.cpu() for tensor in tensors])
        for want, got in zip(*results, strict=True):
            torch.testing.assert_close(got, want, atol=1e-3, rtol=1e-4)
