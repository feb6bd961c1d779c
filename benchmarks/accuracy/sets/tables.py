"""Published tables that are no files of rows: TPU v1's shares of cycles, Trainium2's DMA points, VTA's bus sweep and networks.

They ship as table_*.csv beside the other data (sources: data/README.md) and are used from there when a data folder has none.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.accuracy.convolution import Conv, resnet
from benchmarks.accuracy.rows import Call, DataSet, Row, number, read_csv, unique
from benchmarks.accuracy.tpuv1_programs import convolutions, perceptron

# Of the matrix engine's causes. What is in none of them is "non-matrix".
TPUV1_SHARES = {
    "array active": ("useful", "unused_lanes"),
    "weight stall": ("operand_wait", "dram", "cache", "noc"),
    "weight shift": ("weight_load",),
    "non-matrix": (
        "fill_drain",
        "semaphore_wait",
        "issue",
        "launch_gap",
        "idle",
        "sram_conflict",
        "dma_setup",
        "other",
    ),
}
MLP0 = (5, 200, 2000)  # layers, batch, inputs and outputs: 20 M weights
CNN0 = (16, Conv(8, 19, 19, 256, 256, 3, 1, 1))  # layers; 8 M weights, 2888 operations a byte


def read_tpuv1(path: Path, mapping: str) -> list[Row]:
    rows = []
    for row in read_csv(path):
        call = perceptron(*MLP0) if row["workload"] == "MLP0" else convolutions(*CNN0)
        shares = TPUV1_SHARES[row["share"]]
        name = f"{row['workload']} {row['share']}"
        rows.append(Row(name, row["workload"], ((1, call),), 0.0, 0.0, number(row, "per_cent"), causes=shares))
    return rows


TRAINIUM_TILES = """
.program tiles_added
.arg a in
.arg b in
.arg out out
.sem in_full
.sem in_free
.sem out_full
.sem out_free
.sram {sram}
.ap a_far dram f32 arg=a dims=[{rows}:{pitch}, {cols}:1] loop0=+{step}
.ap b_far dram f32 arg=b dims=[{rows}:{pitch}, {cols}:1] loop0=+{step}
.ap out_far dram f32 arg=out dims=[{rows}:{pitch}, {cols}:1] loop0=+{step}
.ap a_near sram f32 base=0 dims=[{rows}:{cols}, {cols}:1] rot=0:2:{tile}
.ap b_near sram f32 base={base_b} dims=[{rows}:{cols}, {cols}:1] rot=0:2:{tile}
.ap out_near sram f32 base={base_out} dims=[{rows}:{cols}, {cols}:1] rot=0:2:{tile}
.queue dma0
loop {tiles}
dma_copy dst=a_near src0=a_far wait=in_free signal=in_full
dma_copy dst=b_near src0=b_far signal=in_full
endloop
.queue vector0
sync signal=in_free+2
loop {tiles}
v_binary.add dst=out_near src0=a_near src1=b_near wait=in_full>=2 wait=out_free signal=in_free signal=out_full
endloop
.queue dma1
sync signal=out_free+2
loop {tiles}
dma_copy dst=out_far src0=out_near wait=out_full signal=out_free
endloop
"""


def read_trainium2(path: Path, mapping: str) -> list[Row]:
    """Vector addition of `elements` in tiles of rows x cols; a row-major matrix of `rows` rows, walked by columns."""
    table = read_csv(path)
    names = unique(f"{r['elements']} elements in {r['rows']} x {r['cols']}" for r in table)
    rows = []
    for name, row in zip(names, table):
        elems, tile_rows, cols = (int(number(row, key) or 0) for key in ("elements", "rows", "cols"))
        tiles, tile = elems // (tile_rows * cols), tile_rows * cols
        source = TRAINIUM_TILES.format(
            rows=tile_rows, cols=cols, pitch=elems // tile_rows, step=cols, tile=tile, tiles=tiles, sram=24 * tile,
            base_b=8 * tile, base_out=16 * tile,
        )  # fmt: skip
        call: Call = {"op": "text", "source": source, "args": [4 * elems] * 3}
        rows.append(Row(name, "dma", ((1, call),), float(elems), 12.0 * elems, number(row, "us")))
    return rows


def read_vta(path: Path, mapping: str) -> list[Row]:
    """ResNet-18's C2 by width of the bus."""
    conv = Conv(1, 56, 56, 64, 64, 3, 1, 1)
    rows = []
    for row in read_csv(path):
        bits = int(row["bus_bits"])
        options = (("noc.bytes_per_cycle", f"{bits // 8} B"), ("noc.memory_bytes_per_cycle", f"{bits // 8} B"))
        call = conv.call("i8", "i8")
        rows.append(
            Row(f"C2 {bits} bit", "conv", ((1, call),), conv.flops, float(conv.elems), number(row, "cycles"), options)
        )
    return rows


def read_vta_networks(path: Path, mapping: str) -> list[Row]:
    """Whole networks after the product unit was pipelined. Their first convolution runs on the host: VTA packs 16 channels."""
    rows = []
    for row in read_csv(path):
        convs = resnet(int(row["network"].split()[0].removeprefix("ResNet-")), 1)[1:]
        calls = tuple((count, conv.call("i8", "i8")) for count, conv in convs)
        flops, elems = (
            sum(count * value(conv) for count, conv in convs) for value in (lambda c: c.flops, lambda c: float(c.elems))
        )
        rows.append(Row(row["network"], "network", calls, flops, elems, number(row, "cycles")))
    return rows


SETS = [
    DataSet("tpuv1", "table_tpuv1*.csv", "tpuv1-like", "points", "silicon", read_tpuv1, is_table=True, limit_pct=5.0),
    DataSet(
        "trainium2_dma",
        "table_trainium2*.csv",
        "trainium2-like",
        "us",
        "silicon",
        read_trainium2,
        is_table=True,
        limit_pct=15.0,
    ),
    DataSet("vta_bus", "table_vta_bus*.csv", "vta", "cycles", "RTL", read_vta, is_table=True),
    DataSet("vta_networks", "table_vta_resnet*.csv", "vta", "cycles", "RTL", read_vta_networks, is_table=True),
]
