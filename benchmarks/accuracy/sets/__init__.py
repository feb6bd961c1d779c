"""All sets, in the order in which they are reported."""

from __future__ import annotations

from benchmarks.accuracy.rows import DataSet
from benchmarks.accuracy.sets import gemmini, scalesim, tables, tenstorrent, tpuv3, tpuv4, tpuv6e, wormhole

SETS: list[DataSet] = [
    *tpuv3.SETS,
    *tpuv4.SETS,
    *tenstorrent.SETS,
    *wormhole.SETS,
    *gemmini.SETS,
    *scalesim.SETS,
    *tpuv6e.SETS,
    *tables.SETS,
]


def by_name(name: str) -> DataSet:
    for dataset in SETS:
        if dataset.name == name:
            return dataset
    raise KeyError(f"no set '{name}'; known: {', '.join(s.name for s in SETS)}")
