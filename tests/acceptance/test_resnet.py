"""A network of ResNet-50's shape: values as on the CPU, time on a large image, nothing on the host."""

from __future__ import annotations

import pytest
from chip import ROOT, python

from benchmarks import chips

CODE = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from benchmarks import chips
torch.manual_seed(0)
net = chips.resnet50()
for module in net.modules():
    if isinstance(module, torch.nn.BatchNorm2d):
        module.running_mean.normal_(0, 0.1)
        module.running_var.uniform_(0.5, 1.5)
x = torch.randn(2, 3, 64, 64)
with torch.no_grad():
    want = net(x)
    with torch_vnpu.profile(slices=False) as p:
        got = net.to("vnpu")(x.to("vnpu"))
error = ((got.cpu() - want).abs().max() / want.abs().max()).item()
answer(resnet=dict(error=error, fallback=p.report["coverage"]["fallback"], native=p.report["coverage"]["native"],
       flops=p.report["flops"], families=sorted({{row["family"] for row in p.report["mapping"]}})))
"""


def test_values_are_those_of_the_cpu():
    got = python(CODE, {"VNPU_FALLBACK": "error", "VNPU_CONFIG": "default"})["resnet"]
    assert got["error"] <= 1e-4
    assert got["fallback"] == 0 and got["native"] > 100
    # Of 4.09e9 multiply-adds at 224 x 224; 64 x 64 is (64 / 224)^2 of it, rounded up in small layers.
    assert 2 * 2 * 4.09e9 * (64 / 224) ** 2 <= got["flops"] <= 1.3 * 2 * 2 * 4.09e9 * (64 / 224) ** 2
    assert "conv" in got["families"]


@pytest.mark.parametrize("name,dtype", [("default", "f32"), ("ascend910-like", "f16")])
def test_a_large_image_is_timed(name, dtype):
    chip = chips.describe(name)
    result = chips.run_on(name, "resnet", dtype)
    assert "ps" in result, result
    seconds = result["ps"] / 1e12
    assert 2 * 4.09e9 / (chip["peaks"][dtype][0] * 1e12) < seconds < 0.05
