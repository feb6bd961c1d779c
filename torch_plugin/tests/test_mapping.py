"""The mapping of matrix products and attention: from the kernel library into the report."""

from __future__ import annotations

import io

import fake_profile
import pytest
from rich.console import Console

from torch_vnpu import report, report_html, report_mapping, report_text

ENV = {"vnpu": "test", "torch": "test", "variables": {}}


def tiling(m: int, cycles: int, ps: int | None = None, **changes) -> dict:
    return {"order": "weights", "m": m, "n": 128, "k": 384, "heads": 1, "buffers": 2, "grid": (4, 1),
            "predicted_cycles": cycles, "measured_ps": ps} | changes  # fmt: skip


def mapping(**changes) -> dict:
    return {"family": "gemm", "batch": 1, "m": 4096, "n": 384, "k": 384, "chosen": tiling(512, 1000, 2_000_000),
            "chosen_by": "measure", "candidates": 3, "next": tiling(256, 900, 2_500_000), "dram_bytes": 3_000_000,
            "compulsory_bytes": 2_000_000, "useful_macs": 600, "padded_macs": 800} | changes  # fmt: skip


@pytest.fixture(name="data")
def _data() -> dict:
    blob, ops = fake_profile.encoder_like()
    ops = [(*op, [mapping()] if op[1] == "aten::addmm.out" else []) for op in ops]
    return report.build(blob, ops, fake_profile.machine(), "", 1.0, env=ENV)[0]


def test_rows_are_grouped(data):
    assert [row["count"] for row in data["mapping"]] == [18]
    assert data["mapping"][0]["dram_bytes"] == 3_000_000
    by_op = {row["op"]: row["mapping"] for row in data["op_table"]}
    assert by_op["aten::addmm.out"]["chosen"]["m"] == 512 and by_op["aten::gelu.out"] is None


def test_next_best_is_compared_in_one_unit():
    assert report_mapping.next_costs(mapping()) == pytest.approx(0.25)
    assert report_mapping.next_costs(mapping(next=tiling(256, 900))) == pytest.approx(-0.1)
    assert report_mapping.next_costs(mapping(next=None)) is None


def test_texts():
    row = {"op": "aten::mm.out", "dtype": "float32", "count": 2, **mapping(batch=12)}
    cells = report_mapping.cells(row)
    assert len(cells) == len(report_mapping.HEADINGS)
    assert cells[1] == "12 x [4096, 384, 384]" and cells[3] == "weights 512 x 128 x 384, 2 buffers on 4 x 1"
    assert cells[7] == "1.50" and cells[9] == "75.0%" and cells[11] == "+25.0%"
    assert report_mapping.tiling_text(tiling(64, 1, order="block", heads=4, buffers=1)).startswith(
        "block 4 heads of 64 x"
    )


def test_both_reports_show_it(data):
    out = io.StringIO()
    report_text.render(data, Console(file=out, width=150))
    page = report_html.render(data)
    assert "mapping, most work first" in out.getvalue() and "+25.0%" in out.getvalue()
    assert "<h2>Mapping</h2>" in page and "weights 512 x 128 x 384, 2 buffers on 4 x 1" in page
    blob, ops = fake_profile.encoder_like()
    plain = report.build(blob, ops, fake_profile.machine(), "", 1.0, env=ENV)[0]
    assert plain["mapping"] == [] and "<h2>Mapping</h2>" not in report_html.render(plain)


@pytest.mark.parametrize("batch, queries, keys", [(2, 100, 128), (1, 40, 300), (3, 5, 7)])
def test_predicted_traffic_is_what_the_launch_moved(batch, queries, keys, tmp_path):
    """DRAM bytes and padded products of the mapping are those that the simulator counts."""
    import torch

    import torch_vnpu

    torch.manual_seed(0)
    q, k = torch.randn(batch, 4, queries, 32).to("vnpu"), torch.randn(batch, 4, keys, 32).to("vnpu")
    a, b, c = (torch.randn(*size).to("vnpu") for size in ((queries * 5, 384), (384, keys), (keys,)))
    with torch.no_grad(), torch_vnpu.profile(slices=False) as p:
        torch.nn.functional.scaled_dot_product_attention(q, k, k)
        torch.addmm(c, a, b)
        torch.bmm(q[0], k[0].transpose(1, 2))
        (a + 1.0).sum()
    assert {row["mapping"]["family"] for row in p.report["op_table"] if row["mapping"]} == {"gemm", "attention"}
    assert len(p.report["mapping"]) == 3
    assert "Mapping" in next(path for path in p.save(tmp_path) if path.suffix == ".html").read_text()
    for row in p.report["op_table"]:
        if not row["mapping"]:
            assert row["flops"] == 0
            continue
        got = row["mapping"]
        assert got["dram_bytes"] == row["dram_read_bytes"] + row["dram_written_bytes"], got
        assert got["compulsory_bytes"] <= got["dram_bytes"]
        assert 2 * got["useful_macs"] == row["flops"]
        assert got["useful_macs"] / got["padded_macs"] == pytest.approx(row["array_fill"]), got
