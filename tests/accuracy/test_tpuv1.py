"""TPU v1's networks as programs: every product is there, and shares are those of a whole."""

from __future__ import annotations

import pytest

from benchmarks.accuracy.convolution import Conv
from benchmarks.accuracy.pool import run_calls
from benchmarks.accuracy.sets import tables
from benchmarks.accuracy.tpuv1_programs import convolutions, perceptron

CHIP = ("tpuv1-like", (), "model")
SMALL = Conv(2, 5, 6, 256, 256, 3, 1, 1)
CASES = {
    "MLP0": (perceptron(*tables.MLP0), 5 * 200 * 2048**2),
    "CNN0": (convolutions(*tables.CNN0), 16 * tables.CNN0[1].macs),
    "odd layers": (perceptron(3, 7, 300), 3 * 7 * 512**2),
    "one layer": (convolutions(1, SMALL), SMALL.macs),
    "1 x 1": (convolutions(2, Conv(1, 4, 4, 256, 256, 1, 1, 0)), 2 * 16 * 256**2),
}


@pytest.mark.parametrize("name", CASES)
def test_programs_multiply_what_the_network_does(name: str) -> None:
    call, macs = CASES[name]
    reply = run_calls(CHIP, {"call": call})["call"]
    assert reply.get("macs") == macs, reply
    assert sum(reply["causes_ps"].values()) == reply["ps"]


def test_a_layer_that_is_no_square_is_not_written_out() -> None:
    with pytest.raises(AssertionError):
        convolutions(1, Conv(1, 4, 4, 64, 256, 1, 1, 0))
