"""Pairs of engines as programs, to the cycle: independent = max, dependent = sum + semaphore, one buffer fewer = serial."""

from __future__ import annotations

import itertools

import pytest
from chip import run_program

# DRAM in step with the core, and no refresh in the first 4 us: a transfer takes the same time from any cycle on.
OPTIONS = "dram.clock=1 GHz"
TILE_BYTES = 1024

TABLES = """
.program pair
.sem full
.sem free
.arg x in
.arg y out
.sram 32768
.acc 8192
.ap a      sram f32 base=0     dims=[16:16, 16:1]
.ap b      sram f32 base=1024  dims=[16:16, 16:1]
.ap c      acc  f32 base=0     dims=[16:16, 16:1]
.ap in     sram f32 base=2048  dims=[256:1]
.ap out    sram f32 base=3072  dims=[256:1]
.ap tile   sram f32 base=4096  dims=[256:1]
.ap tile2  sram f32 base=5120  dims=[256:1]
.ap x_far  dram f32 arg=x      dims=[256:1]
.ap y_far  dram f32 arg=y      dims=[256:1]
"""
# Engines and what one of them does alone: disjoint operands.
OPERATIONS = {
    "dma0": "dma_copy dst=tile src0=x_far",
    "dma1": "dma_copy dst=y_far src0=tile2",
    "matrix0": "mm dst=c src0=a src1=b",
    "vector0": "v_unary.exp dst=out src0=in",
}


@pytest.fixture(scope="module")
def cycles(tmp_path_factory, tiny):
    """Runs queues {name: lines}; the cycles after the lead-in of every launch (instance start, first issue)."""
    folder = tmp_path_factory.mktemp("pairs")
    lead = tiny.int("core.instance_cycles") + tiny.int("core.issue_cycles")

    def run(queues: dict[str, str], tables: str = TABLES) -> int:
        text = tables + "".join(f"\n.queue {name}\n{lines}\n" for name, lines in queues.items())
        return (
            run_program(text, options=OPTIONS, args={"x": 64 * TILE_BYTES, "y": 64 * TILE_BYTES}, folder=folder).cycles
            - lead
        )

    return run


@pytest.fixture(scope="module")
def alone(cycles):
    return {name: cycles({name: line}) for name, line in OPERATIONS.items()}


def test_single_operations_take_their_closed_forms(alone, tiny):
    vector = tiny.int("vector.startup_cycles") + 256 // tiny.int("vector.lanes") * tiny.int(
        "vector.passes.transcendental"
    )
    assert alone["vector0"] == vector + tiny.int("vector.pipeline_cycles") + tiny.int("sram.latency_cycles")
    folds, rows = (16 // 8) * (16 // 8), tiny.int("matrix.rows")
    tail = rows + tiny.int("matrix.cols") - 2 + tiny.int("matrix.pipeline_cycles") + tiny.int("sram.latency_cycles")
    assert alone["matrix0"] == rows // tiny.int("matrix.load_rows_per_cycle") + folds * 16 + tail


# dma0 and dma1 share the DRAM: they are no disjoint pair.
@pytest.mark.parametrize(
    "pair", [p for p in itertools.combinations(OPERATIONS, 2) if p != ("dma0", "dma1")], ids="+".join
)
def test_independent_operations_take_the_maximum(pair, cycles, alone):
    assert cycles({name: OPERATIONS[name] for name in pair}) == max(alone[name] for name in pair)


def test_three_independent_operations_take_the_maximum(cycles, alone):
    names = ("dma0", "matrix0", "vector0")
    assert cycles({name: OPERATIONS[name] for name in names}) == max(alone[name] for name in names)


@pytest.mark.parametrize("pair", list(itertools.permutations(OPERATIONS, 2)), ids="->".join)
def test_dependent_operations_take_the_sum_and_the_semaphore(pair, cycles, alone, tiny):
    first, second = pair
    both = cycles({first: OPERATIONS[first] + " signal=full", second: OPERATIONS[second] + " wait=full"})
    assert both == alone[first] + tiny.int("core.semaphore_cycles") + alone[second]


def test_a_semaphore_costs_its_latency_and_no_more(cycles, alone, tiny):
    hops = 6
    both = cycles({
        "matrix0": OPERATIONS["matrix0"] + " signal=full\nsync wait=free signal=full\nsync wait=free signal=full",
        "vector0": "sync wait=full signal=free\nsync wait=full signal=free\n" + OPERATIONS["vector0"] + " wait=full",
    })  # fmt: skip
    assert both == alone["matrix0"] + alone["vector0"] + (hops - 1) * tiny.int("core.semaphore_cycles")


RING = (
    TABLES
    + """
.ap ring   sram f32 base=8192  dims=[256:1] rot=0:{buffers}:256
.ap ring_m sram f32 base=8192  dims=[16:16, 16:1] rot=0:{buffers}:256
.ap ring_c acc  f32 base=0     dims=[16:16, 16:1] rot=0:{buffers}:256
.ap out_m  sram f32 base=3072  dims=[16:16, 16:1]
"""
)
# Producer and consumer of a ring of buffers.
RINGS = {
    "dma0->vector0": ("dma_fill dst=ring value=1", "v_unary.exp dst=out src0=ring"),
    "vector0->matrix0": ("v_unary.exp dst=ring src0=in", "mm dst=c src0=ring_m src1=b"),
    "matrix0->vector0": ("mm dst=ring_c src0=a src1=b", "v_unary.exp dst=out_m src0=ring_c"),
    "vector0->dma1": ("v_unary.exp dst=ring src0=in", "dma_copy dst=tile src0=ring"),
}


class Ring:
    """Cycles a tile takes in the steady state, in a ring of so many buffers and for each side on its own."""

    def __init__(self, name: str, cycles) -> None:
        self.queues, self.lines, self.cycles = name.split("->"), RINGS[name], cycles

    def _grown(self, run) -> int:
        """Two tiles more, behind enough tiles to be in the steady state."""
        return run(14) - run(12)

    def together(self, buffers: int) -> int:
        def run(tiles: int) -> int:
            (producer, consumer), (make, use) = self.queues, self.lines
            return self.cycles({
                producer: f"loop {tiles}\n{make} wait=free signal=full\nendloop",
                consumer: f"sync signal=free+{buffers}\nloop {tiles}\n{use} wait=full signal=free\nendloop",
            }, RING.format(buffers=buffers))  # fmt: skip

        return self._grown(run)

    def period(self, side: int) -> int:
        def run(tiles: int) -> int:
            return self.cycles(
                {self.queues[side]: f"loop {tiles}\n{self.lines[side]}\nendloop"}, RING.format(buffers=2)
            )

        return self._grown(run)

    def latency(self, side: int) -> int:
        return self.cycles({self.queues[side]: f"loop 1\n{self.lines[side]}\nendloop"}, RING.format(buffers=2))


@pytest.mark.parametrize("name", RINGS)
def test_one_buffer_is_serial_two_overlap(name, cycles, tiny):
    ring = Ring(name, cycles)
    semaphores = 2 * tiny.int("core.semaphore_cycles")
    serial = ring.latency(0) + ring.latency(1) + semaphores
    slower = max(ring.period(0), ring.period(1))
    assert ring.together(1) == 2 * serial, "one buffer: each side waits for the other"
    assert ring.together(2) == max(slower, serial), "two buffers: the slower side, or two tiles a round trip"
    assert ring.together(4) == slower, "enough buffers: the slower side alone"
