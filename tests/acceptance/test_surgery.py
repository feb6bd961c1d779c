"""Surgery on a dumped matrix product: each cut changes values, bytes and cycles exactly as it must, or ends in a deadlock report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from chip import Run, python, run_program, run_raw, vnpu
from recount import Program, Work, count_program, read_launches, stream_cycles
from surgery import Product
from test_recount import manual_programs

CHIP = "default"


@dataclass
class Case:
    """A product C = f(A @ B + bias) as a dumped program, with its files."""

    product: Product
    grid: str
    a: np.ndarray
    b: np.ndarray
    bias: np.ndarray
    relu: bool
    names: tuple[str, str, str, str]  # arguments a, b, bias, c
    folder: Path
    image: Path
    original: tuple[int, np.ndarray]  # time and result of the run that was dumped

    def expected(self, k: int | None = None) -> np.ndarray:
        """In double precision; k: the products of the first k elements only."""
        value = self.a[:, :k].astype(np.float64) @ self.b[:k].astype(np.float64) + self.bias
        return np.maximum(value, 0) if self.relu else value

    def arguments(self) -> dict:
        args = {}
        for name, value in zip(self.names[:3], (self.a, self.b, self.bias), strict=True):
            path = self.folder / f"{name}.bin"
            value.tofile(path)
            args[name] = path
        return args | {self.names[3]: self.a.shape[0] * self.b.shape[1] * 4}

    def run(self, text: str) -> tuple[Run, np.ndarray]:
        out = self.folder / "out.bin"
        run = run_program(
            text, CHIP, args=self.arguments(), grid=self.grid, out={self.names[3]: out}, folder=self.folder
        )
        return run, np.fromfile(out, np.float32).reshape(self.a.shape[0], self.b.shape[1])

    def failure(self, text: str) -> str:
        done = run_raw(text, CHIP, args=self.arguments(), grid=self.grid, folder=self.folder, check=False)
        assert done.returncode == 1
        return done.stderr

    def work(self, text: str) -> Work:
        return count_program(self.assembled(text), self.grid_size())

    def assembled(self, text: str) -> Program:
        source, image = self.folder / "edited.txt", self.folder / "edited.vnpu"
        source.write_text(text)
        vnpu("asm", source, "-o", image)
        return Program.read(image)

    def grid_size(self) -> tuple[int, int]:
        x, _, y = self.grid.partition(",")
        return int(x), int(y or 1)


def disassemble(image: Path) -> str:
    return vnpu("dis", image).stdout


def operands(m: int, k: int, n: int) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.standard_normal(shape, dtype=np.float32) for shape in ((m, k), (k, n), (n,))]


def manual_case(folder: Path) -> Case:
    """The product of docs/isa.md, dumped by the command itself. One tile of columns: an odd K loop then keeps its two buffers apart."""
    a, b, bias = operands(300, 500, 100)
    text = (
        manual_programs()["gemm_relu"]
        .replace(".const N 200", ".const N 100")
        .replace(".const NTILES 2", ".const NTILES 1")
    )
    source, image, dump, out = (folder / name for name in ("manual.txt", "manual.vnpu", "dump", "original.bin"))
    source.write_text(text)
    vnpu("asm", source, "-o", image)
    case = Case(Product(disassemble(image)), "3", a, b, bias, True, ("a", "b", "bias", "c"), folder, image, (0, a))
    run = run_program(image, CHIP, args=case.arguments(), grid="3", out={"c": out}, env={"VNPU_DUMP": str(dump)})
    (case.image,) = dump.glob("*.vnpu")
    case.original = run["duration_ps"], np.fromfile(out, np.float32).reshape(300, 100)
    return case


ADDMM = """
import numpy
folder = os.environ["FOLDER"]
a, b, bias = (torch.from_numpy(numpy.load(f"{folder}/{name}.npy")).to("vnpu") for name in ("a", "b", "bias"))
with torch_vnpu.profile(kernels=True) as p:
    c = torch.addmm(bias, a, b)
numpy.save(f"{folder}/c.npy", c.cpu().numpy())
answer(kernels=[[row["seq"], row["duration_ps"]] for row in p.report["kernels"] if row["kind"] == "kernel"])
"""


def torch_case(m: int, k: int, n: int):
    """torch.addmm on the device, dumped as it ran."""

    def make(folder: Path) -> Case:
        values = operands(m, k, n)
        for name, value in zip(("a", "b", "bias"), values, strict=True):
            np.save(folder / f"{name}.npy", value)
        dump = folder / "dump"
        got = python(ADDMM, {"FOLDER": str(folder), "VNPU_DUMP": str(dump)})
        ((seq, took_ps),) = got["kernels"]
        (row,) = (row for row in read_launches(dump) if row["seq"] == seq)
        image = dump / f"{row['program']}.vnpu"
        grid = ",".join(map(str, row["grid"]))
        original = took_ps, np.load(folder / "c.npy")
        return Case(Product(disassemble(image)), grid, *values, False, ("1", "2", "3", "0"), folder, image, original)

    return make


CASES = {"manual": manual_case, "torch, one tile": torch_case(16, 4000, 64), "torch, tiles": torch_case(100, 2000, 500)}


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory) -> Case:
    return CASES[request.param](tmp_path_factory.mktemp("surgery"))


@pytest.fixture(scope="module")
def whole(case) -> tuple[Run, np.ndarray]:
    return case.run(case.product.text())


def array_ps(run: Run) -> int:
    """Time in which the arrays of all cores streamed rows."""
    rows = [run.causes(engine["name"]) for engine in run["engines"] if engine["name"].endswith(".matrix")]
    return sum(causes["useful"] + causes["unused_lanes"] for causes in rows)


def busy_ps(run: Run, unit: str) -> int:
    return sum(run.busy_ps(engine["name"]) for engine in run["engines"] if engine["name"].endswith("." + unit))


def expected_array_ps(case: Case, text: str, default) -> int:
    cycles = stream_cycles(
        case.assembled(text),
        case.grid_size(),
        default.int("matrix.rows"),
        default.int("matrix.cols"),
        default["matrix.rate.f32"],
    )
    return cycles * 1000


def check(case: Case, text: str, default, k: int) -> tuple[Run, np.ndarray]:
    """Runs an edited program: bytes, MACs and array time as recounted, values as the product of the first k elements."""
    run, value = case.run(text)
    assert Work(run["macs"], run["dram_read_bytes"], run["dram_written_bytes"]) == case.work(text)
    assert run["macs"] == case.a.shape[0] * k * case.b.shape[1]
    assert array_ps(run) == expected_array_ps(case, text, default)
    np.testing.assert_allclose(value, case.expected(k), rtol=1e-4, atol=1e-4)
    return run, value


def test_the_dump_runs_as_it_is(case, whole, default):
    run, value = check(case, case.product.text(), default, case.a.shape[1])
    assert run == whole[0], "the same program takes the same time"
    assert run["duration_ps"] == case.original[0]
    assert np.array_equal(value, whole[1]) and np.array_equal(value, case.original[1]), "bit for bit what was dumped"
    assert run["dram_written_bytes"] == value.nbytes


def test_the_image_and_its_text_are_one_program(case):
    source, image = case.folder / "same.txt", case.folder / "same.vnpu"
    source.write_text(disassemble(case.image))
    vnpu("asm", source, "-o", image)
    assert image.read_bytes() == case.image.read_bytes()


def test_a_shorter_k_loop(case, whole, default):
    text, k = case.product.shorter_k(), (case.product.trips - case.product.cut) * case.product.k_step()
    run, value = check(case, text, default, k)
    last = case.a.shape[1] - k
    assert 0 < last <= case.product.cut * case.product.k_step()
    lost = whole[0]["dram_read_bytes"] - run["dram_read_bytes"]
    assert lost >= min(case.a.shape[0], case.b.shape[1]) * last * 4, "at least what the loop moved of one operand"
    assert lost % (4 * last) == 0
    assert run["dram_written_bytes"] == whole[0]["dram_written_bytes"]
    assert run["duration_ps"] < whole[0]["duration_ps"]
    assert not np.allclose(value, case.expected(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("operand", ["src0", "src1"])
def test_a_doubled_transfer(operand, case, whole, default):
    index = case.product.load_of(operand)
    text = case.product.doubled(index)
    run, value = check(case, text, default, case.a.shape[1])
    assert np.array_equal(value, whole[1]), "the second transfer brings the same bytes"
    more = run["dram_read_bytes"] - whole[0]["dram_read_bytes"]
    tile_bytes = (case.a if operand == "src0" else case.b).nbytes
    assert more > 0 and more % tile_bytes == 0, "a whole number of passes over the matrix"
    unit = case.product.lines[index].queue
    width = default.int("dma.bytes_per_cycle")
    before, after = (busy_ps(r, unit) for r in (whole[0], run))
    assert after - before >= 0.8 * more / width * 1000, "bytes through a port of that width"
    assert run["duration_ps"] > whole[0]["duration_ps"]


def test_the_last_mm_of_each_k_loop_removed(case, whole, default):
    k = (case.product.trips - case.product.cut) * case.product.k_step()
    run, value = check(case, case.product.without_last_mm(), default, k)
    assert run["dram_read_bytes"] == whole[0]["dram_read_bytes"]
    assert run["dram_written_bytes"] == whole[0]["dram_written_bytes"]
    assert run["duration_ps"] < whole[0]["duration_ps"]
    shorter, same = case.run(case.product.shorter_k())
    assert np.array_equal(value, same), "bit for bit what the shorter K loop gives"
    assert array_ps(run) == array_ps(shorter)


def test_every_mm_removed(case, whole):
    run, value = case.run(case.product.without_mm())
    assert run["macs"] == 0 and array_ps(run) == 0
    assert run["dram_read_bytes"] == whole[0]["dram_read_bytes"]
    assert run["dram_written_bytes"] == whole[0]["dram_written_bytes"]
    assert run["duration_ps"] < whole[0]["duration_ps"]
    assert not np.allclose(value, case.expected(), rtol=1e-4, atol=1e-4)


def test_a_transfer_that_does_not_signal(case):
    """The array waits for tiles for ever: the report names queue, semaphore, and that nobody will signal."""
    index = case.product.load_of("src0")
    (name,) = case.product.lines[index].names("signal")
    text = case.failure(case.product.without_signal(index))
    assert "DEADLOCK" in text
    waiter = next(
        line for line in text.splitlines() if f"waits for semaphore {case.product.semaphore_number(name)} " in line
    )
    assert "matrix0" in waiter


def test_an_mm_that_does_not_signal(case):
    """Neither its buffers come back nor its results: the loads and the epilogue wait, each by name."""
    names = case.product.lines[case.product.mm].names("signal")
    text = case.failure(case.product.without_signal(case.product.mm))
    assert "DEADLOCK" in text
    for name in names:
        number = case.product.semaphore_number(name)
        waiters = {line.queue for line in case.product.lines if name in line.names("wait")}
        report = [line for line in text.splitlines() if f"waits for semaphore {number} " in line]
        assert report and any(waiter in report[0] for waiter in waiters), text
        assert any("no instruction signals it" in line or "signalled by" in line for line in report)
