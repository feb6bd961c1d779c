"""Storage of tensors on chips whose memory is tiled: the minor two dimensions are padded to whole tiles.

The compiler chooses which dimensions are minor so that it pads least (mapping profile `xla-like`, layout 8 x 128).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from benchmarks.accuracy.rows import product, round_up

TILES = {"xla-like": (8, 128)}
LONG_VECTOR = 1024  # one-dimensional tensors are tiled by 8 x 128 elements in a row


def padded(shape: Sequence[int], mapping: str) -> list[int]:
    """The shape as stored: row-major, whole tiles. Other mappings store tensors densely."""
    tile = TILES.get(mapping)
    if tile is None:
        return list(shape)
    if len(shape) == 1:
        return [round_up(shape[0], tile[1] if shape[0] < LONG_VECTOR else LONG_VECTOR)]
    return list(min(_orders(shape, tile), key=lambda s: (product(s), s)))


def _orders(shape: Sequence[int], tile: tuple[int, int]) -> list[tuple[int, ...]]:
    found = []
    for sublane, lane in itertools.permutations(range(len(shape)), 2):
        rest = [size for d, size in enumerate(shape) if d not in (sublane, lane)]
        found.append((*rest, round_up(shape[sublane], tile[0]), round_up(shape[lane], tile[1])))
    return found
