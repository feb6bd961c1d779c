"""Small models and single operators, odd sizes, two chips: the report's MACs and bytes are those of the dumped programs."""

from __future__ import annotations

import pytest
from chip import check_causes, python
from recount import Work, count_dump, read_launches

CODE = """
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel  # of the CPU's kernels the counter knows only this one
from torch.utils.flop_counter import FlopCounterMode
from blocks import encoder_and_ids

def randn(*shape):
    return torch.randn(*shape)

torch.manual_seed(3)
encoder, ids = encoder_and_ids()
mlp = nn.Sequential(nn.Linear(37, 53), nn.ReLU(), nn.Linear(53, 11), nn.GELU())
table = nn.Embedding(101, 19)
x, y, z = randn(37, 37), randn(37, 37), randn(5, 29, 31)
heads = [randn(2, 3, 41, 24) for _ in range(3)]
image = randn(2, 6, 19, 17)
last = image.to(memory_format=torch.channels_last)
CASES = {
    "encoder": (encoder, [ids]),
    "mlp": (mlp, [x]),
    "embedding": (table, [torch.randint(0, 101, (7, 3))]),
    "mm": (torch.mm, [x, y]),
    "mm_transposed": (lambda a, b: a.t() @ b.t(), [x, y]),
    "bmm": (lambda a: torch.bmm(a, a.transpose(1, 2)), [z]),
    "addmm": (torch.addmm, [randn(37), x, y]),
    "row_times_matrix": (torch.mm, [x[:1], y]),
    "attention": (F.scaled_dot_product_attention, heads),
    "add_broadcast": (lambda a, b: a + b, [z, randn(29, 1)]),
    "transposed_copy": (lambda a: a.transpose(0, 2).contiguous(), [z]),
    "conv": (nn.Conv2d(6, 13, 3, padding=1), [image]),
    "conv_strided": (nn.Conv2d(6, 10, (5, 3), 2, (2, 0), groups=2), [image]),
    "conv_1x1": (nn.Conv2d(6, 21, 1, bias=False), [image]),
    "conv_last": (nn.Conv2d(6, 13, 3, padding=2, dilation=2), [last]),
    "conv1d": (nn.Conv1d(6, 8, 5, padding=2), [image[:, :, 0]]),
    "max_pool": (lambda a: F.max_pool2d(a, 3, 2, 1), [image]),
    "avg_pool": (lambda a: F.avg_pool2d(a, 2), [last]),
    "batch_norm": (nn.BatchNorm2d(6).eval(), [image]),
    "softmax": (lambda a: a.softmax(-1), [z]),
    "layer_norm": (lambda a: F.layer_norm(a, (31,)), [z]),
    "sum": (lambda a: a.sum(1), [z]),
    "where": (lambda a: torch.where(a > 0, a, a * 2), [z]),
    "cat": (lambda a, b: torch.cat([a, b]), [x, y]),
    "cast": (lambda a: a.to(torch.int32), [z]),
    "fill": (lambda a: torch.zeros_like(a) + 1, [x]),
    "clone": (lambda a: a.clone(), [x]),
    "out_and_back": (lambda a: a.to("cpu").to(a.device), [x]),
}
for name, (run, args) in CASES.items():
    with torch.no_grad():
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
            expected = run(*args)
        device_args = [a.to("vnpu") for a in args]
        module = run.to("vnpu") if isinstance(run, nn.Module) else run
        torch.vnpu.synchronize()
        with torch_vnpu.profile(slices=False, kernels=True) as p:
            got = module(*device_args)
    report = p.report
    answer(**{name: dict(counted=counter.get_total_flops(), flops=report["flops"], read=report["dram"]["read_bytes"],
           written=report["dram"]["written_bytes"], seqs=[row["seq"] for row in report["kernels"]], engines=report["engines"],
           total_ps=report["time"]["simulated_ps"], error=(got.cpu().double() - expected.double()).abs().max().item())})
"""


@pytest.fixture(scope="module", params=["default", "tiny"])
def measured(request, tmp_path_factory):
    dump = tmp_path_factory.mktemp("recount") / "dump"
    cases = python(CODE, {"VNPU_CONFIG": request.param, "VNPU_DUMP": str(dump)})
    assert len(cases) >= 20
    return cases, {row["seq"]: row for row in read_launches(dump)}, dump


def test_values_are_those_of_the_cpu(measured):
    for name, case in measured[0].items():
        assert case["error"] <= 1e-4, name


def test_macs_and_bytes_are_recounted(measured):
    cases, launches, dump = measured
    for name, case in cases.items():
        work = count_dump(dump, [launches[seq] for seq in case["seqs"]])
        assert work == Work(case["flops"] // 2, case["read"], case["written"]), name
        assert case["read"] + case["written"] > 0, name


def test_flops_cover_what_torch_counts(measured):
    cases = measured[0]
    for name, case in cases.items():
        assert case["flops"] >= case["counted"], name
    assert {name for name, case in cases.items() if case["counted"] > 0} == PRODUCTS


PRODUCTS = {"encoder", "mlp", "mm", "mm_transposed", "bmm", "addmm", "row_times_matrix", "attention",
            "conv", "conv_strided", "conv_1x1", "conv_last", "conv1d"}  # fmt: skip


def test_products_alone_count_exactly(measured):
    for name in PRODUCTS:
        case = measured[0][name]
        assert case["flops"] == case["counted"] > 0, name


def test_causes_sum_in_every_report(measured):
    for case in measured[0].values():
        check_causes(case["engines"], case["total_ps"])
