"""SCALE-Sim v2/v3, stall-free: the matrix unit alone, one product whose operands lie in the scratchpad.

The configuration has one weight buffer, no pipeline stages and no issue costs, so that a fold costs what SCALE-Sim counts; it
reports the index of the last cycle, one less than their number. Convolutions there are matrix products already.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.accuracy.rows import DataSet, Row, number, read_csv, round_up, unique

CONFIG = "systolic_ideal"
DATAFLOWS = {"ws": "weight_stationary", "os": "output_stationary", "is": "input_stationary"}
PROGRAM = """
.program one_product
.sem none
.sram {sram}
.acc {acc}
.ap a sram i8 base=0 dims=[{m}:0, {k}:1]
.ap b sram i8 base={b_base} dims=[{k}:0, {n}:1]
.ap d acc i32 base=0 dims=[{m}:{n}, {n}:1]
.queue matrix0
  mm dst=d src0=a src1=b
"""


def call(m: int, k: int, n: int) -> dict[str, object]:
    """One MM. Source rows repeat (stride 0): the time depends on sizes alone, and any size fits the scratchpad."""
    source = PROGRAM.format(
        m=m, k=k, n=n, b_base=round_up(k, 64), sram=round_up(k, 64) + round_up(n, 64), acc=4 * m * n
    )
    return {"op": "text", "source": source}


def read(path: Path, mapping: str) -> list[Row]:
    table = read_csv(path)
    names = unique(f"{r['version']} {r['case']} {r['rows']}x{r['cols']} {r['dataflow']}" for r in table)
    rows = []
    for name, row in zip(names, table):
        m, k, n = (int(number(row, c) or 0) for c in "MKN")
        options = [("matrix.rows", row["rows"]), ("matrix.cols", row["cols"])]
        options.append(("matrix.dataflow", DATAFLOWS.get(row["dataflow"], row["dataflow"])))
        if row["dataflow"] == "os":  # the tool leaves out the drain of results: here it takes the least, a cycle a fold
            options += [("matrix.load_rows_per_cycle", row["rows"]), ("matrix.weight_buffers", "2")]
        measured = number(row, "total_cycles")
        flops, nbytes = 2.0 * m * n * k, float(m * k + k * n + m * n)
        rows.append(
            Row(name, f"gemm_{row['dataflow']}", ((1, call(m, k, n)),), flops, nbytes, measured, tuple(options))
        )
    return rows


SETS = [DataSet("scalesim", "scalesim*.csv", CONFIG, "cycles", "simulator", read, limit_pct=0.5)]
