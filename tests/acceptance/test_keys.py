"""No key of a shipped configuration is without effect: changed a little, some number of key_probe.py changes, the summary does, or the
loader refuses or warns."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from chip import ROOT, TIMEOUT_S, clean_env, python, vnpu

CONFIGS = sorted(path.stem for path in (ROOT / "configs").glob("*.ini"))

# Text for the reader: no unit has it. They are asked for where they are shown.
LABELS = ("chip.name", "chip.note", "grid.class", "dram.standard")
# Other keys that make the effect of one visible.
COMPANIONS = {
    "cmd.hardware_queues": "cmd.fetch=2 ms",  # the host submits slower than a queue decodes, else
    "dram.write_high": "dram.window=32,dram.trtw=60",
    "dram.write_low": "dram.window=32,dram.trtw=60",
    # one bank, whose rows queue up
    "dram.max_row_hits": "dram.window=32,dram.bank_groups=1,dram.banks_per_group=1,dram.trp=40,dram.trcdrd=40,dram.tras=40",
    "dram.trfcpb": "dram.refresh=per_bank,dram.trefipb=400,dram.trfcpb=200",
    "dram.trefipb": "dram.refresh=per_bank,dram.trefipb=400,dram.trfcpb=200",
    "dram.trrefd": "dram.refresh=per_bank,dram.trefipb=400,dram.trfcpb=200",
    "dram.refresh": "dram.trefipb=400,dram.trfcpb=200",
    "matrix.split": "matrix.count=2",
    "matrix.stream_elems": "matrix.gap_cycles=4",
    "matrix.stream_rows": "matrix.gap_cycles=4",
    "matrix.load_beside": "matrix.stream_elems=4,matrix.gap_cycles=4,matrix.load_rows_per_cycle=1",
    "sram.interleave_bytes": "sram.banks=2,sram.word_bytes=16 B",
    "sram.writes_first": "sram.interleave_bytes=0 B,sram.banks=1,sram.word_bytes=1 B",
    "cmd.queue_depth": "cmd.launch_gap=20 us",  # packets that take longer than the host takes to submit
    "grid.workers": "grid.cores=2",
    "epoch.max_packets": "grid.cores=2,grid.workers=2,host.submit=0 ns",  # fills side by side
    "mapping.multicast": "mapping.profile=best,grid.cores=4,dram.clock=20 MHz",  # cores that wait for the memory
}
NOC = "noc.type=mesh,noc.latency_cycles=0,noc.columns=6,noc.rows=6,noc.core_nodes=1-4:1-4,noc.memory_nodes=0:0 5:0 0:5 5:5,dram.channels=4"
COMPANIONS |= {
    f"noc.{key}": NOC
    for key in ("columns", "rows", "core_nodes", "memory_nodes", "inject_cycles", "hop_cycles", "eject_cycles", "header_flits",
                "max_packet_bytes", "packet_rate", "core_inject", "core_absorb", "memory_inject", "memory_absorb", "classes")
}  # fmt: skip
COMPANIONS["noc.columns"] = COMPANIONS["noc.rows"] = (
    "noc.type=mesh,noc.latency_cycles=0,noc.columns=6,noc.rows=6,dram.channels=64"
)
COMPANIONS["noc.classes"] = NOC.replace("0:0 5:0 0:5 5:5", "0:1 5:1 0:2 5:2")
COMPANIONS["noc.classes"] += (
    ",grid.cores=16,noc.header_flits=32,noc.bytes_per_cycle=16 B,noc.memory_bytes_per_cycle=16 B"
)
COMPANIONS["noc.networks"] = NOC.replace("mesh", "torus")
COMPANIONS |= {
    f"cache.{key}": "cache.bytes=64 KiB"
    for key in ("ways", "line_bytes", "banks", "bytes_per_cycle", "hit_cycles", "write")
}
COMPANIONS["energy.cache_byte"] = "cache.bytes=64 KiB"
COMPANIONS["sram.shared_page_bytes"] = "sram.shared_bytes=8 KiB"
# Tried where nothing changed: fast enough that several cores pay off on the smallest arrays.
ELSE = {"mapping.multicast": "mapping.profile=best,grid.cores=4,dram.clock=100 MHz"}
# Values that small steps do not find.
OTHERS = {
    "cache.bytes": ["64 KiB", "128 KiB"],
    "sram.interleave_bytes": ["1 KiB", "2 KiB"],
    "sram.shared_bytes": ["8 KiB"],
    "noc.core_nodes": ["2-5:0-3"],
    "noc.memory_nodes": ["5:5 0:0"],
    "noc.packet_rate": ["64:4 4096:16"],
    "noc.core_inject": ["3"],
    "noc.core_absorb": ["3"],
    "noc.memory_inject": ["3"],
    "noc.memory_absorb": ["3"],
    "noc.max_packet_bytes": ["128 B", "32 B"],
    "dram.mapping": ["ro-ba-bg-co-ch", "ro-ch-co-ba-bg"],
    "grid.workers": ["1"],
    "epoch.max_packets": ["1"],
    "timing.data": ["one"],
    "layout.tile": ["16x64"],
}


# Tried behind the steps: the probe never has as much in flight as the chips with the most.
MORE = {"dma.outstanding_bytes": ["24 KiB"]}


class Chip:
    """A configuration's keys, and what it gives for other values of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.keys: dict[str, str] = {}
        section = ""
        for line in vnpu("config", "show", name).stdout.splitlines():
            line = line.split(" ; ")[0].strip()
            if line.startswith("["):
                section = line.strip("[]")
            elif " = " in line:
                key, value = line.split(" = ", 1)
                self.keys[f"{section}.{key}"] = value

    @property
    def cores_a_node(self) -> int:
        """So many cores share a router where NOC gives 16 of them to 16 cores and those of the classes beside them."""
        beside = sum(int(text) for key, text in self.keys.items() if plain(key) == "count" and key != "count")
        return 1 + (beside + 15) // 16

    @functools.cache  # noqa: B019 (one object a session)
    def numbers(self, options: str) -> str:
        """All that the probe counted, or the refusal."""
        env = clean_env({"VNPU_CONFIG": self.name, "VNPU_OPTIONS": options, "VNPU_TRANSPORT": "inproc"})
        if "VNPU_BUILD" in os.environ:
            env["VNPU_BUILD"] = os.environ["VNPU_BUILD"]
        done = subprocess.run(
            [sys.executable, ROOT / "tests" / "acceptance" / "key_probe.py"], env=env, capture_output=True, text=True,
            timeout=TIMEOUT_S,
        )  # fmt: skip
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        return lines[-1] if done.returncode == 0 and lines else "refused: " + done.stderr.strip()[-400:]

    @functools.cache  # noqa: B019 (one object a session)
    def told(self, options: str) -> tuple[int, str, str]:
        """Exit code, summary and warnings of `vnpu info`."""
        done = vnpu("info", "--quick", self.name, *(["-o", options] if options else []), check=False)
        return done.returncode, done.stdout, done.stderr

    def effect(self, key: str) -> str:
        """What a small change of the key changes; empty: nothing."""
        companion = COMPANIONS.get(key, "") if self.keys["noc.type"] == "crossbar" or not key.startswith("noc.") else ""
        return self.effect_beside(key, companion) or (key in ELSE and self.effect_beside(key, ELSE[key])) or ""

    def effect_beside(self, key: str, companion: str) -> str:
        if self.keys["noc.type"] != "crossbar":  # its channels belong to endpoints
            companion = ",".join(part for part in companion.split(",") if not part.startswith("dram.channels="))
        companion = companion.replace("core_nodes=1-4:1-4", "core_nodes=" + " ".join(["1-4:1-4"] * self.cores_a_node))
        if (
            key.startswith("vector.passes.") and self.keys[key] == "0"
        ):  # a function that it has, among those that it lacks
            lacking = [k for k in self.keys if k.startswith("vector.passes.") and self.keys[k] == "0" and k != key]
            companion = ",".join(f"{k}=1" for k in lacking)
        if self.keys["cache.bytes"] != "0 B" and key.startswith(("dram.", "energy.dram")):  # what a cache would hide
            companion = ",".join(part for part in (companion, "cache.bytes=0 B") if part)
        if self.keys["dma.queues"] == "1":  # the probe's programs load and store on queues of their own
            companion = ",".join(part for part in (companion, "dma.queues=2") if part)
        base = self.numbers(companion)
        assert not base.startswith("refused"), f"{self.name} {companion}: {base}"
        summary, is_dead = "", False
        for value in others(key, self.keys[key]):
            rest = [part for part in companion.split(",") if part and not part.startswith(f"{key}=")]
            options = ",".join([*rest, f"{key}={value}"])
            code, text, warnings = self.told(options)
            if code != 0:
                summary = summary or f"refused: {value}"
                continue
            if "without effect" in warnings and key in warnings:
                return f"warned: {value}"
            now = self.numbers(options)
            if now.startswith("refused"):
                summary = summary or now
            elif now != base:
                return f"changed: {value}"
            elif text != self.told(companion)[1]:
                return f"shown: {value}"
            else:
                is_dead = True  # a value that was taken and changed nothing
        return "" if is_dead else summary


def plain(key: str) -> str:
    """The key of the sections that a class's key overrides: class tpc.vector.lanes -> vector.lanes."""
    return re.sub(r"^class [^.]+\.", "", key)


def others(key: str, text: str) -> list[str]:
    """Values near that of a key, likeliest effect first."""
    choices = _choices().get(plain(key))
    if key in OTHERS:
        return OTHERS[key]
    if choices:
        return [choice for choice in choices if choice != text]
    if text in ("true", "false"):
        return ["false" if text == "true" else "true"]
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/(\d+))?( ?[A-Za-z/]*)", text)
    assert match, f"{key} = {text}: no rule to change it"
    number, unit = float(match[1]) / int(match[2] or 1), match[3]
    if match[2]:
        top, bottom = int(match[1]), int(match[2])
        return [f"{top}/{bottom + 1}", f"{top * 2}/{bottom}", f"{top}/{bottom * 2}"]
    near = [number + 1, number * 2, number / 2, number - 1, number * 16 + 7, number + 100]
    return [f"{int(n)}{unit}" for n in near if n >= 0 and n == int(n) and n != number] + MORE.get(key, [])


@functools.cache
def _choices() -> dict[str, list[str]]:
    found = {}
    for line in vnpu("config", "explain").stdout.splitlines():
        match = re.match(r"(\S+) .* One of: ([a-z0-9_|-]+)\.", line)
        if match:
            found[match[1]] = match[2].split("|")
    return found


class Chips(dict[str, Chip]):
    def __missing__(self, name: str) -> Chip:
        self[name] = Chip(name)
        return self[name]


@pytest.fixture(scope="module")
def chips() -> Chips:
    return Chips()


FALLBACK = ("host.flops", "host.bandwidth")  # the price of an operator that falls back: below


@pytest.mark.parametrize("name", CONFIGS)
def test_every_key_has_an_effect(name, chips):
    chip = chips[name]
    keys = [key for key in chip.keys if key not in LABELS + FALLBACK and key != "host.clock"]
    # An energy table serves several chips: its rows for types that this array lacks say nothing here.
    lacks = {
        f"energy.mac.{key.rpartition('.')[2]}"
        for key, text in chip.keys.items()
        if key.startswith("matrix.rate.") and text == "0"
    }
    if chip.keys["dma.queues"] == "1":
        lacks.add("dma.queues")
    if chip.keys["dram.trefi"] == "0":  # no refresh: how it would be done is left at the defaults
        lacks |= {
            "dram.refresh",
            "dram.refresh_stagger",
            "dram.trfc",
            "dram.trfcpb",
            "dram.trefipb",
            "energy.dram_refresh",
        }
    keys = [key for key in keys if key not in lacks]
    with ThreadPoolExecutor(max_workers=max(2, os.cpu_count() or 2)) as pool:
        effects = dict(zip(keys, pool.map(chip.effect, keys)))
    assert [key for key, effect in effects.items() if not effect] == []


@pytest.mark.parametrize("key", LABELS)
def test_labels_are_shown(key):
    assert f"{key.split('.')[1]} = other words" in vnpu("config", "show", "default", "-o", f"{key}=other words").stdout


def test_a_wall_clock_is_warned_of():
    assert "host.clock = wall" in vnpu("info", "default", "-o", "host.clock=wall").stderr


PRICED = """
x = torch.randn(4000, 8).to("vnpu")
with torch_vnpu.profile() as p:
    torch.linalg.norm(torch.linalg.qr(x)[1])
answer(ps=p.report["time"]["simulated_ps"], fallback=p.report["coverage"]["fallback"])
"""


def test_the_price_of_a_fallback_follows_the_host():
    runs = [python(PRICED, {"VNPU_FALLBACK": "allow", "VNPU_OPTIONS": options})
            for options in ("", "host.flops=1 G", "host.bandwidth=1 GB/s")]  # fmt: skip
    assert all(run["fallback"] > 0 for run in runs)
    assert len({run["ps"] for run in runs}) == 3, runs


def test_the_probe_is_exact(chips):
    """The same numbers twice: a difference is an effect, not noise."""
    chip = chips["tiny"]
    assert chip.numbers("") == chip.numbers.__wrapped__(chip, "")


def test_what_changes_nothing_is_seen(chips):
    """The test itself can fail: a value written in another way changes nothing."""
    chip = chips["tiny"]
    assert chip.numbers("core.clock=1000 MHz") == chip.numbers("")


def test_probe_output_has_every_part(chips):
    assert set(json.loads(chips["default"].numbers(""))) >= {
        "launches",
        "records",
        "energy",
        "causes",
        "host",
        "submitted",
    }
