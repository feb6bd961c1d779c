"""all-MiniLM-L6-v2, real weights, on default.ini: values, bits, flops, bytes, and where the cycles went."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chip import check_causes, python
from recount import Work, count_dump, read_launches

GOLDEN = Path(__file__).parent / "golden" / "minilm.json"
SENTENCES = 8

FORWARD = f"""
from torch_vnpu import minilm
model, tokenizer = minilm.load()
inputs = minilm.tokens(tokenizer, minilm.SENTENCES[:{SENTENCES}])
"""
ON_DEVICE = """
model.to("vnpu")
torch.vnpu.synchronize()
on_device = {name: value.to("vnpu") for name, value in inputs.items()}
with torch_vnpu.profile(kernels=True) as p:
    result = minilm.encode(model, on_device)
"""
WHOLE = (
    """
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):  # of the CPU's kernels the counter knows only this one
    expected = minilm.encode(model, inputs)
"""
    + ON_DEVICE
    + """
got = result.cpu()
report = p.report
answer(worst=(got - expected).abs().max().item(), same_ranking=minilm.same_ranking(expected, got), digest=digest(got),
       counted=counter.get_total_flops(), flops=report["flops"], dram=report["dram"], coverage=report["coverage"],
       engines=report["engines"], time=report["time"], seqs=[row["seq"] for row in report["kernels"]], timeline=timeline(report))
"""
)


@pytest.fixture(scope="module")
def dump(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("minilm") / "dump"


@pytest.fixture(scope="module")
def whole(dump) -> dict:
    return python(FORWARD + WHOLE, {"VNPU_DUMP": str(dump), "VNPU_THREADS": "2"})


def test_embeddings_agree_with_the_cpu(whole):
    assert whole["worst"] <= 1e-4
    assert whole["same_ranking"]


def test_nothing_falls_back(whole):
    assert whole["coverage"]["fallback"] == 0
    assert whole["coverage"]["native"] > 100
    assert all(op["where"] == "device" for op in whole["coverage"]["ops"])


def test_causes_sum_to_the_time_of_every_engine(whole):
    assert len(whole["engines"]) == 16, "four cores with array, vector unit and two DMA engines"
    check_causes(whole["engines"], whole["time"]["simulated_ps"])


def test_macs_and_bytes_recounted_from_the_dump(whole, dump):
    seqs = set(whole["seqs"])
    launches = [row for row in read_launches(dump) if row["seq"] in seqs]
    assert len(launches) == len(seqs), "every launch of the report is in the dump"
    dram = whole["dram"]
    assert count_dump(dump, launches) == Work(whole["flops"] // 2, dram["read_bytes"], dram["written_bytes"])


def test_flops_cover_what_torch_counts(whole):
    assert whole["flops"] == whole["counted"] > 0, "products and attention, no padding"


def levels() -> list[str]:
    """avx2, and avx512 where the host has it (elsewhere the golden file stands for it)."""
    flags = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    wanted = {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
    return ["avx2"] + (["avx512"] if wanted <= set(flags.split()) else [])


@pytest.mark.parametrize(("isa", "threads"), list(zip(levels(), ["1", "2"], strict=False)))
def test_bits_and_cycles_are_those_of_the_golden_file(isa, threads, whole):
    """One hash of the output for every host: golden/minilm.json."""
    golden = json.loads(GOLDEN.read_text())
    code = FORWARD + ON_DEVICE + "answer(digest=digest(result), timeline=timeline(p.report))"
    got = python(code, {"VNPU_ISA": isa, "VNPU_THREADS": threads})
    assert golden["sentences"] == SENTENCES
    assert got["digest"] == golden["sha256"]
    assert got["timeline"] == whole["timeline"]


def test_the_whole_run_has_the_golden_bits(whole):
    assert whole["digest"] == json.loads(GOLDEN.read_text())["sha256"]


HALF = (
    FORWARD
    + """
expected = minilm.encode(model, inputs)
model.to("vnpu", torch.bfloat16)
torch.vnpu.synchronize()
on_device = {name: value.to("vnpu") for name, value in inputs.items()}
with torch_vnpu.profile() as p:
    result = minilm.encode(model, on_device)
got = result.cpu()
answer(cosine=torch.nn.functional.cosine_similarity(got.float(), expected).min().item(), digest=digest(got.view(torch.int16)),
       same_ranking=minilm.same_ranking(expected, got.float()), coverage=p.report["coverage"], time=p.report["time"])
"""
)


def test_the_model_in_bf16(whole):
    """Nothing falls back, the embeddings point the same way, the array is faster, and every host has the same bits."""
    got = [python(HALF, {"VNPU_ISA": isa, "VNPU_FALLBACK": "error"}) for isa in levels()]
    assert got[0]["coverage"]["fallback"] == 0 and got[0]["coverage"]["native"] > 100
    assert got[0]["cosine"] > 0.9995 and got[0]["same_ranking"]
    assert got[0]["time"]["simulated_ps"] < 0.7 * whole["time"]["simulated_ps"]
    assert len({run["digest"] for run in got}) == 1
