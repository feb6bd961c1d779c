"""What a changed configuration does to hand-written programs: time moves as arithmetic says."""

from __future__ import annotations

from math import ceil

import pytest
from chip import Config, run_program

CORES = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("arithmetic")


def stream_text(tile_bytes: int, tiles: int, *, write: bool = False) -> str:
    """Every instance moves `tiles` tiles of its own part of x, one after the other, four buffers."""
    elems = tile_bytes // 4
    far = f".ap far dram f32 arg=x dims=[{elems}:1] loop0=+{elems} grid0=+{elems * tiles}"
    near = f".ap near sram f32 dims=[{elems}:1] rot=0:4:{elems}"
    move = "dma_copy dst=far src0=near" if write else "dma_copy dst=near src0=far"
    kind = "out" if write else "in"
    return f".program stream\n.arg x {kind}\n.sram {4 * tile_bytes}\n{far}\n{near}\n.queue dma0\nloop {tiles}\n{move}\nendloop\n"


def stream(
    folder,
    config: str,
    options: str = "",
    *,
    tile_bytes: int = 2**19,
    tiles: int = 24,
    grid: int = CORES,
    write: bool = False,
):
    total = tile_bytes * tiles * grid
    run = run_program(
        stream_text(tile_bytes, tiles, write=write), config, options, {"x": total}, str(grid), folder=folder
    )
    assert (run["dram_read_bytes"], run["dram_written_bytes"]) == ((0, total) if write else (total, 0))
    return run, total / run["duration_ps"] * 1e12


@pytest.mark.parametrize("write", [False, True], ids=["read", "write"])
def test_a_stream_gets_85_percent_of_what_refresh_leaves(write, folder, default):
    run, rate = stream(folder, "default", write=write)
    limit = float(default.dram_peak * (1 - default.refresh_share))
    assert 0.85 * limit <= rate <= limit
    assert (
        run["bus_written_bytes" if write else "bus_read_bytes"]
        == run["dram_written_bytes" if write else "dram_read_bytes"]
    )


def test_half_the_channels_halve_a_stream(folder):
    _, full = stream(folder, "default")
    _, half = stream(folder, "default", "dram.channels=16")
    assert half == pytest.approx(full / 2, rel=0.05)


def test_core_clock_leaves_a_memory_bound_stream_within_one_percent(folder):
    slow, _ = stream(folder, "default")
    fast, _ = stream(folder, "default", "core.clock=2 GHz")
    assert fast["duration_ps"] == pytest.approx(slow["duration_ps"], rel=0.01)


def test_a_stream_of_one_core_is_bound_by_its_port(folder, default):
    """One core's DMA engine and port are far slower than the DRAM of the whole chip."""
    _, rate = stream(folder, "default", grid=1)
    port = float(min(default["dma.bytes_per_cycle"], default["noc.bytes_per_cycle"]) * default["core.clock"])
    assert 0.9 * port <= rate <= port


def test_short_runs_pay_their_cycles(folder, tiny):
    """Runs of r bytes reach r / (r + run_cycles x width) of the engine: here half of it. A fast DRAM keeps out of the way."""
    width, count = tiny.int("dma.bytes_per_cycle"), 512
    cells = width // 4

    def text(cols: int, rows: int) -> str:
        return (
            f".program runs\n.arg x in\n.sram {count * width}\n.ap far dram f32 arg=x dims=[{rows}:{2 * cols}, {cols}:1]\n"
            f".ap near sram f32 dims=[{rows}:{cols}, {cols}:1]\n.queue dma0\ndma_copy dst=near src0=far\n"
        )

    options = "dram.channels=8"
    short = run_program(text(cells, count), options=options, args={"x": 2 * count * width}, folder=folder)
    long = run_program(text(cells * count, 1), options=options, args={"x": 2 * count * width}, folder=folder)
    engine, more = count * width / width * 1000, count * tiny.int("dma.run_cycles") * 1000
    assert short.causes("core0.dma0")["useful"] == long.causes("core0.dma0")["useful"] == engine
    setup = {run["duration_ps"]: run.causes("core0.dma0")["dma_setup"] for run in (short, long)}
    assert setup[short["duration_ps"]] - setup[long["duration_ps"]] == more - tiny.int("dma.run_cycles") * 1000
    assert short["duration_ps"] - long["duration_ps"] >= 0.9 * more


@pytest.mark.parametrize("in_flight", [1, 2, 4])
def test_outstanding_bytes_limit_a_dma(in_flight, folder, tiny):
    """Little: bytes in flight / latency. The latency is that of one request alone; refresh is out of the way."""
    request = tiny.int("dma.request_bytes")
    options = "dram.clock=1 GHz,dram.trefi=65535,core.clock=8 GHz,noc.clock=8 GHz,dram.channels=4"

    def run(requests: int, flight: int):
        text = (
            f".program little\n.arg x in\n.sram {requests * request}\n.ap far dram f32 arg=x dims=[{requests * request // 4}:1]\n"
            f".ap near sram f32 dims=[{requests * request // 4}:1]\n.queue dma0\ndma_copy dst=near src0=far\n"
        )
        limit = f"{options},dma.outstanding_bytes={flight * request}"
        return run_program(text, options=limit, args={"x": requests * request}, folder=folder)["duration_ps"]

    count = 64
    latency = (run(count, 1) - run(count // 2, 1)) / (count // 2)  # one at a time: each takes the latency
    rate = request * count / 2 / (run(count, in_flight) - run(count // 2, in_flight))
    assert rate <= in_flight * request / latency * 1.001
    assert rate >= 0.8 * in_flight * request / latency


# --- the array -----------------------------------------------------------------------------------------------------


def product_text(m: int, k: int, n: int, times: int = 1, dtype: str = "f32") -> str:
    """The product of two tiles that are in the scratchpad already, `times` times."""
    size = {"f32": 4, "bf16": 2}[dtype]
    b = -(-m * k * size // 64) * 64
    return (
        f".program product\n.sram {b + k * n * size}\n.acc {m * n * 4}\n.ap a sram {dtype} dims=[{m}:{k}, {k}:1]\n"
        f".ap b sram {dtype} base={b} dims=[{k}:{n}, {n}:1]\n.ap c acc f32 dims=[{m}:{n}, {n}:1]\n"
        f".queue matrix0\nloop {times}\nmm dst=c src0=a src1=b\nendloop\n"
    )


def array_cycles(config: Config, m: int, k: int, n: int, times: int = 1, dtype: str = "f32") -> int:
    """Folds of rows x cols weights: each streams m rows, and its weights load behind the fold before it."""
    rows, cols = config.int("matrix.rows"), config.int("matrix.cols")
    stream = max(ceil(m / config[f"matrix.rate.{dtype}"]), config.int("matrix.min_stream_cycles"))
    loads = []
    for _ in range(times):
        for _ in range(ceil(n / cols)):
            for f in range(ceil(k / rows)):
                loads.append(ceil(min(rows, k - f * rows) / config.int("matrix.load_rows_per_cycle")))
    return loads[0] + stream * len(loads) + sum(max(0, load - stream) for load in loads[1:])


@pytest.mark.parametrize(
    "shape", [(129, 129, 129), (128, 128, 128), (127, 128, 1), (1, 129, 257), (300, 40, 130)], ids=str
)
@pytest.mark.parametrize(
    "options", ["", "matrix.rows=64", "matrix.cols=32,matrix.rows=256", "matrix.load_rows_per_cycle=4"]
)
def test_partial_tiles_cost_their_closed_form(shape, options, folder):
    """129^3 is four folds of the 128 x 128 array, three of them nearly empty."""
    config = Config("default", options)
    run = run_program(product_text(*shape), "default", options, folder=folder)
    assert run.busy_ps("core0.matrix") == array_cycles(config, *shape) * 1000
    assert run["macs"] == shape[0] * shape[1] * shape[2]
    rows, cols = config.int("matrix.rows"), config.int("matrix.cols")
    useful = run["macs"] / (rows * cols * config["matrix.rate.f32"]) * 1000
    assert run.causes("core0.matrix")["useful"] == pytest.approx(float(useful), abs=125)


def test_129_cubed_is_four_folds(folder, default):
    run = run_program(product_text(129, 129, 129), "default", folder=folder)
    stream = 129 / default["matrix.rate.f32"]
    assert run.busy_ps("core0.matrix") == (128 + 4 * stream) * 1000, "one load in sight, four folds of 129 rows"
    assert run["padded_macs"] == 4 * 129 * 128 * 128


@pytest.mark.parametrize("key", ["matrix.rows", "matrix.cols"])
def test_twice_the_array_halves_a_long_product(key, folder):
    text = product_text(512, 256, 256)
    small = run_program(text, "default", f"{key}=64", folder=folder).busy_ps("core0.matrix")
    large = run_program(text, "default", f"{key}=128", folder=folder).busy_ps("core0.matrix")
    assert large == pytest.approx(small / 2, rel=0.05)


def test_core_clock_halves_a_compute_bound_product(folder):
    text = product_text(256, 256, 256)
    slow, fast = (run_program(text, "default", f"core.clock={clock} GHz", folder=folder) for clock in (1, 2))
    assert slow["duration_ps"] == 2 * fast["duration_ps"]


def test_the_dtype_rate_divides_the_stream(folder, default):
    ratio = default["matrix.rate.bf16"] / default["matrix.rate.f32"]
    m, k, n = 512, 256, 256
    busy = {
        d: run_program(product_text(m, k, n, dtype=d), "default", folder=folder).busy_ps("core0.matrix")
        for d in ("f32", "bf16")
    }
    assert busy["bf16"] == array_cycles(default, m, k, n, dtype="bf16") * 1000
    assert busy["f32"] / busy["bf16"] == pytest.approx(float(ratio), rel=0.1)


def test_one_row_is_weight_load_bound_with_weights_in_sram(folder, tiny):
    """M = 1: each fold streams one row and loads `rows` rows of weights. The load is what takes the time."""
    run = run_program(product_text(1, 64, 64, times=4), folder=folder)
    busy = run.busy_ps("core0.matrix")
    folds, rows = 4 * 64 // 8 * 64 // 8, tiny.int("matrix.rows")
    assert busy == array_cycles(tiny, 1, 64, 64, times=4) * 1000 == (folds * rows + 1) * 1000
    causes = run.causes("core0.matrix")
    assert causes["weight_load"] == (folds * (rows - 1) + 1) * 1000, "all of it but the row that streams meanwhile"
    assert causes["weight_load"] >= 0.8 * busy
    faster = run_program(product_text(1, 64, 64, times=4), options="matrix.load_rows_per_cycle=2", folder=folder)
    assert faster.busy_ps("core0.matrix") == pytest.approx(busy / 2, rel=0.02)


def test_cores_share_the_grid(folder):
    """As many instances as the largest chip has cores: time is instances / cores, to the tick."""
    text = product_text(64, 128, 128)
    took = {
        n: run_program(text, "default", f"grid.cores={n}", grid="8", folder=folder)["duration_ps"] for n in (1, 2, 4, 8)
    }
    assert took[1] == 2 * took[2] == 4 * took[4] == 8 * took[8]


def test_narrow_sram_slows_the_array(folder):
    """The array streams rows x bytes x rate a cycle: with fewer banks than that the scratchpad is the limit, and named."""
    text = product_text(512, 128, 128, dtype="bf16")
    wide = run_program(text, "default", folder=folder)
    narrow = run_program(text, "default", "sram.banks=2", folder=folder)  # 2 x 64 bytes a cycle of the 256 it wants
    assert wide.causes("core0.matrix")["sram_conflict"] == 0
    assert narrow.causes("core0.matrix")["sram_conflict"] > 0
    assert narrow.busy_ps("core0.matrix") == pytest.approx((512 * 128 + 128 * 128) * 2 / 128 * 1000, rel=0.05)
