"""The report from made-up profiles: every picosecond is booked, the sums agree, the files open."""

from __future__ import annotations

import gzip
import io
import json
import re
from html.parser import HTMLParser

import fake_profile as fake
import pytest
from rich.console import Console

from torch_vnpu import profile_blob, report, report_html, report_text, trace
from torch_vnpu.profile_blob import BlobError

ENV = {"vnpu": "test", "torch": "test", "variables": {"VNPU_MODE": "full"}}
US = 1_000_000  # picoseconds


def build(blob: bytes, ops: list[tuple], **options):
    return report.build(blob, ops, fake.machine(), "[chip]\nname = fake\n", 0.5, env=ENV, **options)


def op(tag: int, name: str = "aten::mul.out", where: str = "device", host_ps: int = 0) -> tuple:
    return (tag, name, "f32", "[8]", where, host_ps, "")


@pytest.fixture(scope="module")
def encoder():
    return build(*fake.encoder_like(), kernels=True)


def test_report_has_the_fixed_fields(encoder):
    data = json.loads(json.dumps(encoder[0]))  # nothing in it that JSON cannot hold
    assert data["schema"] == "vnpu-report/1"
    assert data["config"] == {"name": "fake", "effective": "[chip]\nname = fake\n"}
    assert set(data["time"]) >= {"simulated_ps", "wall_s"}
    assert set(data["coverage"]) == {"native", "fallback", "ops"}
    for row in data["coverage"]["ops"]:
        assert set(row) == {"op", "dtype", "count", "where", "simulated_ps"} and row["where"] in ("device", "host")
    for row in data["engines"]:
        assert set(row) == {"name", "total_ps", "causes_ps"}
        assert all(isinstance(ps, int) for ps in row["causes_ps"].values())
    assert set(data["dram"]) >= {"read_bytes", "written_bytes", "peak_bytes_per_s", "achieved_bytes_per_s"}
    assert set(data["memory"]) == {"peak_bytes", "capacity_bytes"}
    assert len(data["kernels"]) == data["launches"]["count"]


def test_causes_of_every_engine_sum_to_the_simulated_time(encoder):
    data = encoder[0]
    assert [row["name"] for row in data["engines"]] == fake.ENGINES
    for row in data["engines"]:
        assert row["total_ps"] == data["time"]["simulated_ps"] == sum(row["causes_ps"].values())
    line = data["timeline"]
    assert sum(line.values()) == data["time"]["simulated_ps"]


def test_sums_over_tables_agree(encoder):
    data = encoder[0]
    assert data["flops"] == 18 * 2 * 250_000_000 == sum(row["flops"] for row in data["op_table"])
    for key in ("read_bytes", "written_bytes"):
        assert data["dram"][key] == sum(row[f"dram_{key}"] for row in data["op_table"])
    times = sum(row["simulated_ps"] for row in data["op_table"])
    assert times == sum(row["simulated_ps"] for row in data["op_types"])
    assert times == sum(row["simulated_ps"] for row in data["coverage"]["ops"])
    assert data["coverage"]["native"] == 32 and data["coverage"]["fallback"] == 1
    assert next(r for r in data["modules"] if r["module"] == "encoder.layer")["count"] == 30


def test_gaps_are_split_by_arrival_and_copies():
    """[0..10) host, [10..12) command path, kernel to 20, [20..23) link copy, [23..24) command path, kernel, [28..30) host."""
    records = [fake.record("k", 8 * US), fake.record("l", 4 * US)]
    launches = [
        fake.launch(1, 1, fake.KERNEL, 0, 10 * US, 12 * US, 20 * US),
        fake.launch(2, 2, fake.H2D, fake.NO_RECORD, 19 * US, 20 * US, 23 * US, 96),
        fake.launch(3, 3, fake.KERNEL, 1, 19 * US, 24 * US, 28 * US),
    ]
    data, _ = build(fake.blob(0, 30 * US, launches, records), [op(1), op(2, "aten::_copy_from"), op(3)])
    assert data["timeline"] == {
        "kernel_ps": 12 * US, "launch_gap_ps": 3 * US, "copy_ps": 3 * US, "host_ps": 12 * US
    }  # fmt: skip
    causes = data["engines"][0]["causes_ps"]
    assert causes["launch_gap"] == 3 * US and sum(causes.values()) == 30 * US
    assert data["link"]["bytes"] == 96
    assert data["dram"]["written_bytes"] == 96  # the copy writes device memory


def overlapping() -> tuple[bytes, list[tuple]]:
    """Launch 1 on core 0 from 2 to 10, launch 2 on core 1 from 4 to 16, a fill on core 0 from 12 to 14, nothing from 16 to 20."""

    def on(core: int, duration: int) -> list[list[int]]:
        return [
            fake.split(duration, {"useful": 50}) if name.startswith(f"core{core}.") else [0] * len(fake.CAUSES)
            for name in fake.ENGINES
        ]

    records = [fake.record("k", 8 * US, causes=on(0, 8 * US), macs=3), fake.record("l", 12 * US, causes=on(1, 12 * US), macs=4),
               fake.record("fill", 2 * US, causes=on(0, 2 * US))]  # fmt: skip
    launches = [fake.launch(1, 1, fake.KERNEL, 0, 2 * US, 2 * US, 10 * US), fake.launch(2, 2, fake.KERNEL, 1, 2 * US, 4 * US, 16 * US),
                fake.launch(3, 3, fake.FILL, 2, 3 * US, 12 * US, 14 * US, 64)]  # fmt: skip
    return fake.blob(0, 20 * US, launches, records), [op(1), op(2, "aten::mm"), op(3, "aten::zero_")]


def test_overlapping_launches_share_the_time_and_no_engine():
    data, _ = build(*overlapping(), kernels=True)
    assert data["timeline"] == {"kernel_ps": 14 * US, "launch_gap_ps": 0, "copy_ps": 0, "host_ps": 6 * US}
    for engine in data["engines"]:
        assert sum(engine["causes_ps"].values()) == 20 * US
        assert engine["causes_ps"]["useful"] == (5 * US if engine["name"].startswith("core0.") else 6 * US)
    assert [(k["start_ps"], k["start_ps"] + k["duration_ps"]) for k in data["kernels"]] == [
        (2 * US, 10 * US), (4 * US, 16 * US), (12 * US, 14 * US)
    ]  # fmt: skip
    assert data["flops"] == 14


def test_overlapping_launches_have_rows_of_their_own_in_the_trace(tmp_path):
    blob, ops = overlapping()
    trace.write(tmp_path / "t.json.gz", profile_blob.parse(blob), ops)
    events = load_trace(tmp_path / "t.json.gz")
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    where = {e["args"]["seq"]: rows[e["pid"], e["tid"]] for e in events if "seq" in e.get("args", {})}
    assert where == {1: "launches", 2: "launches 2", 3: "launches"}
    assert {e["name"]: rows[e["pid"], e["tid"]] for e in events if "module" in e.get("args", {})} == {
        op(1)[1]: "operators", "aten::mm": "operators 2", "aten::zero_": "operators"
    }  # fmt: skip


def test_the_completion_record_occupies_nothing():
    """A launch ends for the host when its completion arrives; the next one may start before that."""
    launches = [fake.launch(i, 1, fake.KERNEL, 0, 0, i * 9 * US, i * 9 * US + 11 * US) for i in range(2)]
    data, _ = build(fake.blob(0, 17 * US, launches, [fake.record("k", 8 * US)]), [op(1)])
    assert data["timeline"] == {"kernel_ps": 16 * US, "launch_gap_ps": 1 * US, "copy_ps": 0, "host_ps": 0}
    assert data["op_table"][0]["simulated_ps"] == 16 * US


def test_a_record_counts_once_per_launch():
    rows = [fake.launch(i, 1, fake.KERNEL, 0, 0, i * 8 * US, (i + 1) * 8 * US, 0, int(i > 0)) for i in range(5)]
    blob = fake.blob(0, 40 * US, rows, [fake.record("k", 8 * US, macs=7, read=3, written=2)])
    data, _ = build(blob, [op(1)])
    assert data["flops"] == 5 * 2 * 7
    assert (data["dram"]["read_bytes"], data["dram"]["written_bytes"]) == (15, 10)
    assert data["launches"] == {"count": 5, "kernels": 5, "copies": 0, "reused": 4, "distinct": 1, "insns": 5000}
    assert data["engines"][0]["causes_ps"]["useful"] == 5 * 8 * US * 40 // 100


def test_host_operators_are_priced_and_counted():
    data, _ = build(
        fake.blob(0, 9 * US, [], []), [op(1, "aten::sort", "host", 4 * US), op(2, "aten::sort", "host", 5 * US)]
    )
    assert data["coverage"]["fallback"] == 2 and data["coverage"]["native"] == 0
    assert data["op_table"][0]["simulated_ps"] == 9 * US and data["op_table"][0]["bound_by"] == "host"
    assert any("fell back" in hint["title"] for hint in data["hints"])


def test_launches_without_an_operator_are_named_but_not_counted_as_operators():
    data, _ = build(
        fake.blob(0, 8 * US, [fake.launch(1, 77, fake.KERNEL, 0, 0, 0, 8 * US)], [fake.record("k", 8 * US)]), []
    )
    assert data["op_table"][0]["op"] == "runtime::kernel"
    assert data["coverage"] == {"native": 0, "fallback": 0, "ops": []}


def test_utilisation_follows_from_the_machine():
    """128 x 128 x 2 cores x 1 GHz / 4 = 8.192e12 f32 MAC/s: 1 us of them is MFU 1; bf16 runs at 4 times that."""
    macs = 128 * 128 * 2 * 1000 // 4
    blob = fake.blob(
        0, US, [fake.launch(1, 1, fake.KERNEL, 0, 0, 0, US)], [fake.record("k", US, macs=macs, read=100_000)]
    )
    data, _ = build(blob, [op(1)])
    assert data["utilisation"]["mfu"] == pytest.approx(1.0)
    assert data["op_table"][0]["speed_of_light"]["matrix"] == pytest.approx(1.0)
    assert data["op_table"][0]["bound_by"] == "matrix"
    assert data["dram"]["achieved_bytes_per_s"] == 100_000 * 10**6
    half, _ = build(blob, [(1, "aten::mm", "torch.bfloat16", "", "device", 0, "")])
    assert half["utilisation"]["mfu"] == pytest.approx(0.25)


def test_hints_hold_their_condition():
    rows = [fake.launch(i, 1, fake.KERNEL, 0, 0, i * 4 * US + 2 * US, i * 4 * US + 4 * US) for i in range(10)]
    bound, _ = build(fake.blob(0, 40 * US, rows, [fake.record("k", 2 * US)]), [op(1)])
    assert "launch-bound" in bound["hints"][0]["title"] and bound["hints"][0]["gain_at_most"] == pytest.approx(0.5)
    pointwise = fake.blob(0, 40 * US, [fake.launch(0, 1, fake.KERNEL, 0, 0, 0, 40 * US)], [
        fake.record("k", 40 * US, read=2_000_000, written=2_000_000, elems=1000)])  # fmt: skip
    fusable, _ = build(pointwise, [op(1)])
    assert "without matrix work" in fusable["hints"][0]["title"] or "DRAM-bound" in fusable["hints"][0]["title"]
    assert any(hint["gain_at_most"] == 1.0 for hint in fusable["hints"])
    full = fake.record("k", 40 * US, causes=[fake.split(40 * US, {"useful": 100}) for _ in fake.ENGINES])
    busy, _ = build(fake.blob(0, 40 * US, [fake.launch(0, 1, fake.KERNEL, 0, 0, 0, 40 * US)], [full]), [op(1)])
    assert busy["hints"] == []


def test_empty_and_functional_profiles_are_reported():
    for blob in (
        fake.blob(5, 5, [], []),
        fake.blob(0, 0, [fake.launch(1, 1, fake.KERNEL, 0, 0, 0, 0)], [fake.record("k", 0)]),
    ):
        data, profile = build(blob, [op(1)])
        assert data["time"]["simulated_ps"] == 0 and data["hints"] == []
        assert "<html" in report_html.render(data)
        assert trace.slices_left_out(profile) == 0


def test_energy_is_the_sum_of_its_parts():
    records = [
        fake.record("gemm", 8 * US, energy=(1_000_000, 2000, 3000, 4000, 5_000_000)),
        fake.record("copy", 2 * US, energy=(0, 0, 1000, 0, 7000)),
    ]
    launches = [
        fake.launch(1, 1, fake.KERNEL, 0, 0, 0, 8 * US),
        fake.launch(2, 2, fake.KERNEL, 0, 0, 8 * US, 16 * US),
        fake.launch(3, 3, fake.KERNEL, 1, 0, 16 * US, 18 * US),
        fake.launch(4, 4, fake.H2D, fake.NO_RECORD, 0, 18 * US, 19 * US, size=100),
    ]
    data, _ = build(fake.blob(0, 20 * US, launches, records, static_mw=3000, link_fj=50), [op(i) for i in (1, 2, 3, 4)])
    energy = data["energy"]
    assert energy["by_engine"] == {"matrix": 2000, "vector": 4, "dma": 7, "noc": 8, "dram": 10007, "link": 5}
    assert energy["static_pj"] == 60_000_000  # 3 W for 20 us
    assert energy["total_pj"] == sum(energy["by_engine"].values()) + energy["static_pj"]
    assert energy["average_w"] == energy["total_pj"] / (20 * US)
    stream = io.StringIO()
    report_text.render(data, Console(file=stream, width=150))
    assert "energy, 60 uJ at 3 W" in stream.getvalue()
    assert "<h2>Energy</h2>" in report_html.render(data)


def test_no_energy_keys_no_energy_table(encoder):
    assert encoder[0]["energy"]["total_pj"] == 0
    assert "<h2>Energy</h2>" not in report_html.render(encoder[0])


def broken(change) -> bytes:
    data = bytearray(fake.encoder_like()[0])
    change(data)
    return bytes(data)


def test_bad_blobs_are_refused_by_name():
    cases = {
        "less than a header": b"PROF",
        "bad magic": broken(lambda data: data.__setitem__(0, 0)),
        "version 9": broken(lambda data: data.__setitem__(4, 9)),
        "header says": fake.encoder_like()[0] + b"x",
        "causes of engine 0": fake.blob(
            0, 8, [], [fake.record("k", 8, causes=[[7] + [0] * (len(fake.CAUSES) - 1)] * 8)]
        ),
        "names record 3": fake.blob(0, 8, [fake.launch(1, 1, fake.KERNEL, 3, 0, 0, 8)], []),
    }
    for text, blob in cases.items():
        with pytest.raises(BlobError, match=text):
            profile_blob.parse(blob)


def test_contradicting_times_are_refused():
    records = [fake.record("k", 8 * US)]
    overlap = [fake.launch(i, 1, fake.KERNEL, 0, 0, i * 4 * US, i * 4 * US + 8 * US) for i in range(2)]
    with pytest.raises(BlobError, match="in launches of"):  # both say that they had every engine
        build(fake.blob(0, 20 * US, overlap, records), [op(1)])
    with pytest.raises(BlobError, match="does not fit"):
        build(fake.blob(0, 20 * US, [fake.launch(1, 1, fake.KERNEL, 0, 0, 0, 7 * US)], records), [op(1)])
    with pytest.raises(ValueError, match="share a tag"):
        build(fake.blob(0, 1, [], []), [op(1), op(1)])


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "input", "br", "rect", "line", "circle"):
            self.open.append(tag)
        self.links += [value for key, value in attrs if key in ("src", "href", "xlink:href") and value]

    def handle_endtag(self, tag):
        if tag not in ("rect", "line", "circle"):
            assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.links += [value for key, value in attrs if key in ("src", "href") and value]


def test_page_is_one_well_formed_offline_file(encoder):
    text = report_html.render(encoder[0])
    page = _Page()
    page.feed(text)
    assert page.open == [] and page.links == []
    assert not re.search(r"https?://|@import|url\(", text)
    for row in encoder[0]["op_table"]:
        assert row["op"] in text
    assert text.count('class="seg c-work-0"') >= len(fake.ENGINES)


def test_page_escapes_what_it_shows():
    evil = [(1, "<script>alert(1)</script>", "f32", '"><b>', "device", 0, "m<i>")]
    data, _ = build(
        fake.blob(0, 8, [fake.launch(1, 1, fake.KERNEL, 0, 0, 0, 8)], [fake.record("k", 8, macs=1, read=1)]), evil
    )
    text = report_html.render(data)
    assert "<script>alert" not in text and '"><b>' not in text and "m<i>" not in text


def test_page_can_be_made_again_from_the_json(encoder):
    assert report_html.render(json.loads(json.dumps(encoder[0]))) == report_html.render(encoder[0])


def test_text_report_names_everything(encoder):
    out = io.StringIO()
    report_text.render(encoder[0], Console(file=out))
    text = out.getvalue()
    for word in ("aten::addmm.out", "native 32, fallen back to the host 1", "100.0%", "semaphore_wait", "MFU"):
        assert word in text


def load_trace(path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)["traceEvents"]


def test_trace_rows_do_not_overlap_and_cover_every_launch(encoder, tmp_path):
    data, profile = encoder
    ops = fake.encoder_like()[1]
    trace.write(tmp_path / "t.json.gz", profile, ops, "fake")
    events = load_trace(tmp_path / "t.json.gz")
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert set(fake.ENGINES) <= set(names.values())
    slices = [e for e in events if e["ph"] == "X"]
    rows: dict[tuple, list[tuple]] = {}
    for event in slices:
        rows.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in rows.values():
        spans.sort()
        for before, after in zip(spans, spans[1:], strict=False):
            assert after[0] >= before[1] - 1e-9
    launches = [e for e in slices if "seq" in e.get("args", {})]
    assert len(launches) == data["launches"]["count"]
    assert len([e for e in slices if e["name"] == "MM"]) == 18 * 30 * 2
    assert max(end for spans in rows.values() for _, end in spans) <= data["time"]["simulated_ps"] / 1e6


def test_trace_says_what_it_left_out(encoder, tmp_path):
    profile = encoder[1]
    assert trace.slices_left_out(profile) == 0
    assert trace.slices_left_out(profile, budget=500) == 18 * 240 - 2 * 240
    trace.write(tmp_path / "t.json.gz", profile, [], budget=500)
    assert len([e for e in load_trace(tmp_path / "t.json.gz") if e["name"] == "MM"]) == 2 * 60
    with gzip.open(tmp_path / "t.json.gz", "rt", encoding="utf-8") as file:
        assert json.load(file)["otherData"]["instruction_slices_left_out"] == 18 * 240 - 480
