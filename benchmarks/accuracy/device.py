"""The driver and the kernel library by ctypes: allocates operands without data and times kernel calls (VNPU_MODE=timing).

One device per process: VNPU_CONFIG and VNPU_OPTIONS are read at the first call. Times are integers in picoseconds.
"""

from __future__ import annotations

import ctypes
import importlib.util
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
MAX_DIMS, MAX_INPUTS, MAX_SCALARS, MAX_NODES = 8, 6, 8, 16
DTYPES = {"f32": 1, "bf16": 2, "f16": 3, "i8": 6, "i32": 9, "bfp8": 12, "bfp4": 13}
DTYPE_BYTES = {"f32": 4, "bf16": 2, "f16": 2, "i8": 1, "i32": 4, "bfp8": 17 / 16, "bfp4": 9 / 16}  # blocks of 16
REDUCTIONS = {"sum": 0, "mean": 1, "max": 2}
UNSUPPORTED = 14
ALIGNMENT = 512

# Pointwise bodies: (kind, func, operands) per node; unary and binary codes are those of device/vnpu_isa.h.
UNARY, BINARY, SELECT = 0, 1, 2
INPUT, SCALAR, NODE = 0x00, 0x40, 0x80
_EXP, _TANH, _SIGMOID, _RELU, _SQUARE, _GELU_TANH = 13, 19, 20, 5, 3, 24
_ADD, _SUB, _MUL, _GT = 1, 2, 3, 16


def _load_profile_blob() -> ModuleType:
    """The plugin's reader of profiles; by its path, because the package around it loads torch."""
    path = ROOT / "torch_plugin" / "torch_vnpu" / "profile_blob.py"
    spec = importlib.util.spec_from_file_location("vnpu_profile_blob", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


profile_blob = _load_profile_blob()


class DeviceError(RuntimeError):
    """A call failed; the text names what and why."""


class RefusedError(DeviceError):
    """The chip or the kernel library refuses the operation, by name."""


class Tensor(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_uint64),
        ("dtype", ctypes.c_int),
        ("ndims", ctypes.c_uint32),
        ("size", ctypes.c_int64 * MAX_DIMS),
        ("stride", ctypes.c_int64 * MAX_DIMS),
    ]


class Node(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("func", ctypes.c_uint8), ("operand", ctypes.c_uint8 * 3)]


class Pointwise(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("out", Tensor),
        ("num_inputs", ctypes.c_uint32),
        ("input", Tensor * MAX_INPUTS),
        ("is_integer", ctypes.c_bool),
        ("num_scalars", ctypes.c_uint32),
        ("scalar_f", ctypes.c_double * MAX_SCALARS),
        ("scalar_i", ctypes.c_int64 * MAX_SCALARS),
        ("num_nodes", ctypes.c_uint32),
        ("node", Node * MAX_NODES),
    ]


class Gemm(ctypes.Structure):
    _fields_ = [
        ("out", Tensor),
        ("a", Tensor),
        ("b", Tensor),
        ("c", Tensor),
        ("alpha", ctypes.c_double),
        ("beta", ctypes.c_double),
        ("activation", ctypes.c_int),
    ]


class Conv(ctypes.Structure):
    _fields_ = [
        ("out", Tensor),
        ("input", Tensor),
        ("weight", Tensor),
        ("bias", Tensor),
        ("stride", ctypes.c_uint32 * 2),
        ("dilation", ctypes.c_uint32 * 2),
        ("pad", ctypes.c_uint32 * 2),
        ("groups", ctypes.c_uint32),
        ("is_flipped", ctypes.c_bool),
        ("activation", ctypes.c_int),
    ]


class Attention(ctypes.Structure):
    _fields_ = [
        ("out", Tensor),
        ("q", Tensor),
        ("k", Tensor),
        ("v", Tensor),
        ("mask", Tensor),
        ("logsumexp", Tensor),
        ("scale", ctypes.c_double),
        ("is_causal", ctypes.c_bool),
    ]


class Shards(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("shard_rows", ctypes.c_uint32),
        ("shard_row_bytes", ctypes.c_uint32),
        ("row_step", ctypes.c_uint16),
        ("column_step", ctypes.c_uint16),
        ("row_bytes", ctypes.c_uint64),
    ]


def _shards(shape: Sequence[int], dtype: str, blocks: Sequence[int]) -> Shards | None:
    if not blocks:
        return None
    rows, columns = blocks
    nbytes = math.ceil(shape[-1] * DTYPE_BYTES[dtype])
    return Shards(
        size=ctypes.sizeof(Shards), shard_rows=-(-shape[-2] // rows), shard_row_bytes=-(-nbytes // columns),
        row_step=1, column_step=rows, row_bytes=nbytes,
    )  # fmt: skip


class Machine(ctypes.Structure):
    """The start of vnpu_machine_t, which grows at its end only."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("cores", ctypes.c_uint32),
        ("workers", ctypes.c_uint32),
        ("matrix", ctypes.c_uint32 * 5),
        ("rate", ctypes.c_uint32 * 32),
        ("vector", ctypes.c_uint32 * 18),
        ("dma", ctypes.c_uint32 * 5),
        ("issue", ctypes.c_uint32 * 3),
        ("core_clock_hz", ctypes.c_uint64),
        ("sram", ctypes.c_uint64 * 4),
        ("dram", ctypes.c_uint64 * 4),
        ("launch_gap_ps", ctypes.c_uint64),
        ("rest", ctypes.c_uint8 * 4096),
    ]


class LaunchConfig(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("grid", ctypes.c_uint32 * 2),
        ("tag", ctypes.c_uint32),
        ("core_mask", ctypes.c_uint64),
        ("stream", ctypes.c_uint64),
        ("core_class", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


def find_libraries() -> tuple[Path, Path, Path]:
    """(libvnpu.so, libvnpu_kernels.so, vnpud): VNPU_BUILD, else the installed package, else the newest build folder."""
    layouts = [("lib/libvnpu.so", "kernels/libvnpu_kernels.so", "bin/vnpud"),
               ("lib/libvnpu.so", "lib/libvnpu_kernels.so", "bin/vnpud")]  # fmt: skip
    given = os.environ.get("VNPU_BUILD")
    if given:
        places = [Path(given)]
    else:
        found = ROOT.glob("build/*/kernels/libvnpu_kernels.so")
        places = [p.parents[1] for p in sorted(found, key=lambda p: p.stat().st_mtime, reverse=True)]
        places = [Path(p) / "torch_vnpu" for p in _site_packages()] + places
    for place in places:
        for layout in layouts:
            paths = tuple(place / part for part in layout)
            if all(p.exists() for p in paths):
                return paths
    raise DeviceError(
        f"no build with libvnpu.so, libvnpu_kernels.so and vnpud in {', '.join(map(str, places)) or ROOT / 'build'}; "
        "run ./run setup, or set VNPU_BUILD to a build folder"
    )


def _site_packages() -> list[str]:
    import site

    return site.getsitepackages()


def strides_of(shape: Sequence[int]) -> list[int]:
    """Row-major strides in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]


class Device:
    """A chip in timing mode. `call` runs one operation and returns its time; operands are allocated and freed around it."""

    def __init__(self) -> None:
        driver, kernels, daemon = find_libraries()
        os.environ.setdefault("VNPU_DAEMON", str(daemon))
        os.environ.setdefault("VNPU_CONFIG_DIR", str(ROOT / "configs"))
        os.environ["VNPU_MODE"] = "timing"
        self._driver = ctypes.CDLL(str(driver), mode=ctypes.RTLD_GLOBAL)
        self._kernels = ctypes.CDLL(str(kernels))
        self._driver.vnpu_status_name.restype = ctypes.c_char_p
        self._kernels.kern_error_detail.restype = ctypes.c_char_p
        self._kernels.kern_stored_sizes.restype = None
        self._kernels.kern_stored_columns.restype = ctypes.c_int64
        self._kernels.kern_machine.restype = ctypes.POINTER(Machine)
        self._context = ctypes.c_void_p()
        self._check(self._driver.vnpu_init(0), "vnpu_init")
        self._check_kernel(self._kernels.kern_context_create(0, ctypes.byref(self._context)), "kern_context_create")
        self._live: list[int] = []
        self.launch_gap_ps = int(self._kernels.kern_machine(self._context).contents.launch_gap_ps)
        self.clock_hz = int(self._kernels.kern_machine(self._context).contents.core_clock_hz)

    def close(self) -> None:
        self._kernels.kern_context_destroy(self._context)
        self._check(self._driver.vnpu_shutdown(), "vnpu_shutdown")

    # ---- errors ----

    def _check(self, status: int, what: str) -> None:
        if status == 0:
            return
        text = ctypes.create_string_buffer(4096)
        self._driver.vnpu_error_detail(text, ctypes.c_size_t(len(text)))
        name = self._driver.vnpu_status_name(status).decode()
        error = RefusedError if status == UNSUPPORTED else DeviceError
        raise error(f"{what}: {name}: {text.value.decode(errors='replace')}")

    def _check_kernel(self, status: int, what: str) -> None:
        if status == 0:
            return
        detail = self._kernels.kern_error_detail(self._context) if self._context else b""
        if detail:
            name = self._driver.vnpu_status_name(status).decode()
            error = RefusedError if status == UNSUPPORTED else DeviceError
            raise error(f"{what}: {name}: {detail.decode(errors='replace')}")
        self._check(status, what)

    # ---- operands ----

    def stored(self, shape: Sequence[int]) -> list[int]:
        """The sizes with which the chip stores a tensor: padded to whole tiles where layout.tile says so."""
        sizes, out = (ctypes.c_int64 * MAX_DIMS)(*shape), (ctypes.c_int64 * MAX_DIMS)()
        self._kernels.kern_stored_sizes(self._context, ctypes.c_uint32(len(shape)), sizes, out)
        return list(out[: len(shape)])

    def _alloc(self, nbytes: int, shards: Shards | None = None) -> int:
        """shards: in the memory that lies in the cores' scratchpads (sram.shared_bytes)."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t(nbytes)
        if shards is None:
            self._check(self._driver.vnpu_mem_alloc(0, size, ctypes.byref(address)), "vnpu_mem_alloc")
        else:
            status = self._driver.vnpu_mem_alloc_shards(0, size, ctypes.byref(shards), ctypes.byref(address))
            self._check(status, "vnpu_mem_alloc_shards")
        self._live.append(address.value)
        return address.value

    def _free_all(self) -> None:
        for address in self._live:
            self._check(self._driver.vnpu_mem_free(0, ctypes.c_uint64(address)), "vnpu_mem_free")
        self._live = []

    def stored_columns(self, size: int) -> int:
        """A dimension that lies along the columns of the tiles of layout.tile: whole ones."""
        return int(self._kernels.kern_stored_columns(self._context, ctypes.c_int64(size)))

    def tensor(self, shape: Sequence[int], dtype: str, blocks: Sequence[int] = ()) -> Tensor:
        """blocks: rows and columns of blocks of a matrix whose blocks lie in scratchpads: cores down a column first, as instances are."""
        count = 1
        for size in shape:
            count *= size
        out = Tensor(
            address=self._alloc(max(math.ceil(count * DTYPE_BYTES[dtype]), ALIGNMENT), _shards(shape, dtype, blocks)),
            dtype=DTYPES[dtype],
            ndims=len(shape),
        )
        for d, (size, stride) in enumerate(zip(shape, strides_of(shape))):
            out.size[d], out.stride[d] = size, stride
        return out

    def permuted(self, shape: Sequence[int], dtype: str, order: Sequence[int]) -> Tensor:
        """A tensor stored row-major as `shape`; dimension d of the view is dimension order[d] of the storage."""
        out = self.tensor(shape, dtype)
        strides = list(out.stride)
        for d, source in enumerate(order):
            out.size[d], out.stride[d] = shape[source], strides[source]
        return out

    def _operand(self, shape: Sequence[int], dtype: str, is_rows: bool, is_cols: bool) -> Tensor:
        last = len(shape) - 1
        if is_rows:
            part = self.tensor([*shape[:-1], 1], dtype)
            part.stride[last] = 0
        elif is_cols:
            part = self.tensor([*([1] * last), shape[-1]], dtype)
            for d in range(last):
                part.stride[d] = 0
        else:
            return self.tensor(shape, dtype)
        for d, size in enumerate(shape):
            part.size[d] = size
        return part

    # ---- timing ----

    def timed(self, run: Callable[[], None]) -> dict[str, Any]:
        """Chip time of the launches that `run` makes: their durations, and the launch gap in front of each."""
        self._check(self._driver.vnpu_profile_begin(0, 0), "vnpu_profile_begin")
        error: DeviceError | None = None
        try:
            run()
        except DeviceError as caught:
            error = caught
        blob, size = ctypes.c_void_p(), ctypes.c_size_t()
        self._check(self._driver.vnpu_profile_end(0, ctypes.byref(blob), ctypes.byref(size)), "vnpu_profile_end")
        if error:
            raise error
        return self._read_profile(ctypes.string_at(blob.value, size.value))

    def _read_profile(self, blob: bytes) -> dict[str, Any]:
        """Sums over the launches; `causes_ps` are those of the first matrix engine."""
        profile = profile_blob.parse(blob)
        total: dict[str, Any] = {"ps": 0, "launches": 0, "macs": 0, "padded_macs": 0, "dram_bytes": 0}
        causes = np.zeros(len(profile.causes), dtype=np.uint64)
        matrix = next(i for i, name in enumerate(profile.engines) if name.endswith(".matrix"))
        for launch in profile.launches:
            if launch["record"] == profile_blob.NO_RECORD:
                continue
            record = profile.records[launch["record"]]
            total["ps"] += int(record.duration_ps) + self.launch_gap_ps
            total["launches"] += 1
            total["macs"] += int(record.counters["macs"])
            total["padded_macs"] += int(record.counters["padded_macs"])
            total["dram_bytes"] += int(record.counters["dram_read_bytes"]) + int(record.counters["dram_written_bytes"])
            causes += record.causes_ps[matrix]
        total["causes_ps"] = {name: int(ps) for name, ps in zip(profile.causes, causes)}
        total["causes_ps"]["launch_gap"] += total["launches"] * self.launch_gap_ps
        return total

    def call(self, call: dict[str, Any]) -> dict[str, Any]:
        """One operation by name: {"op": ..., sizes and dtypes}. Raises RefusedError when it cannot be done."""
        operation = OPERATIONS.get(call["op"])
        if operation is None:
            raise RefusedError(f"{call['op']}: the kernel library has no such operation")
        try:
            return operation(self, **{key: value for key, value in call.items() if key != "op"})
        finally:
            self._free_all()

    def launch(self, name: str, argument: ctypes.Structure) -> dict[str, Any]:
        function = getattr(self._kernels, name)
        stream = ctypes.c_uint64(0)
        return self.timed(lambda: self._check_kernel(function(self._context, stream, ctypes.byref(argument)), name))

    # ---- operations ----

    def gemm(self, m: int, n: int, k: int, dtype: str, batch: int = 1, out: str | None = None,
             activation: int = 0, residual: bool = False, blocks: Mapping[str, Sequence[int]] | None = None) -> dict[str, Any]:  # fmt: skip
        """out[batch, m, n] = activation(a[batch, m, k] @ b[batch, k, n] (+ c, shaped as out: residual)).

        blocks: of which operands (a, b, out) blocks lie in the cores' scratchpads, and how many down and across.
        On a chip with layout.tile k lies along the tile's columns in both operands, in whole ones.
        """
        lead = [batch] if batch > 1 else []
        k, blocks = self.stored_columns(k), blocks or {}
        call = Gemm(alpha=1.0, beta=0.0)
        call.out = self.tensor([*lead, m, n], out or ("i32" if dtype == "i8" else dtype), blocks.get("out", ()))
        call.a = self.tensor([*lead, m, k], dtype, blocks.get("a", ()))
        call.b = self.tensor([*lead, k, n], dtype, blocks.get("b", ()))
        if residual:
            call.beta, call.c = 1.0, self.tensor([*lead, m, n], out or dtype)
        call.activation = activation
        return self.launch("kern_gemm", call)

    def conv2d(self, batch: int, height: int, width: int, c_in: int, c_out: int, kernel: int, stride: int, pad: int,
               dtype: str, out: str | None = None, bias: bool = False, activation: int = 0) -> dict[str, Any]:  # fmt: skip
        """A square-kernel convolution, channels last (NHWC, weights HWIO), as XLA for TPU and Gemmini's library store them.

        On a chip with layout.tile channels lie along the tile's columns, in whole ones.
        """
        c_in, c_out = self.stored_columns(c_in), self.stored_columns(c_out)
        call = Conv(groups=1, activation=activation)
        size = [(side + 2 * pad - kernel) // stride + 1 for side in (height, width)]
        call.out = self.permuted([batch, *size, c_out], out or ("i32" if dtype == "i8" else dtype), (0, 3, 1, 2))
        call.input = self.permuted([batch, height, width, c_in], dtype, (0, 3, 1, 2))
        call.weight = self.permuted([kernel, kernel, c_in, c_out], dtype, (3, 2, 0, 1))
        if bias:
            call.bias = self.tensor([c_out], "i32" if dtype == "i8" else out or dtype)
        for d in range(2):
            call.stride[d], call.dilation[d], call.pad[d] = stride, 1, pad
        return self.launch("kern_conv", call)

    def pointwise(self, shape: Sequence[int], func: str, dtype: str = "f32",
                  rows: Sequence[int] = (), cols: Sequence[int] = ()) -> dict[str, Any]:  # fmt: skip
        """rows: inputs with one value per row (broadcast along the last dimension); cols: with one row for all.

        Operands have the sizes with which the chip stores them (layout.tile).
        """
        shape = self.stored(shape)
        nodes, inputs, scalars = EXPRESSIONS[func]
        call = Pointwise(name=func.encode(), num_inputs=inputs, num_scalars=len(scalars), num_nodes=len(nodes))
        call.out = self.tensor(shape, dtype)
        for i in range(inputs):
            call.input[i] = self._operand(shape, dtype, i in rows, i in cols)
        for i, value in enumerate(scalars):
            call.scalar_f[i] = value
        for i, (kind, code, operands) in enumerate(nodes):
            call.node[i].kind, call.node[i].func = kind, code
            for j, operand in enumerate(operands):
                call.node[i].operand[j] = operand
        return self.launch("kern_pointwise", call)

    def reduce(self, rows: int, cols: int, kind: str = "sum", dtype: str = "f32") -> dict[str, Any]:
        """out[rows, 1] over the last dimension."""
        out, source = self.tensor([rows, 1], dtype), self.tensor([rows, cols], dtype)
        return self.timed(
            lambda: self._check_kernel(
                self._kernels.kern_reduce(
                    self._context, ctypes.c_uint64(0), REDUCTIONS[kind], ctypes.byref(out), ctypes.byref(source), 2
                ),
                "kern_reduce",
            )
        )

    def softmax(self, rows: int, cols: int, dtype: str = "f32") -> dict[str, Any]:
        out, source = self.tensor([rows, cols], dtype), self.tensor([rows, cols], dtype)
        return self.timed(
            lambda: self._check_kernel(
                self._kernels.kern_softmax(
                    self._context, ctypes.c_uint64(0), ctypes.byref(out), ctypes.byref(source), 1, False
                ),
                "kern_softmax",
            )
        )

    def layer_norm(self, rows: int, cols: int, dtype: str = "f32", affine: bool = True) -> dict[str, Any]:
        """affine: with weight and bias."""
        out, source = self.tensor([rows, cols], dtype), self.tensor([rows, cols], dtype)
        weight, bias = (ctypes.byref(self.tensor([cols], dtype)) if affine else None for _ in range(2))
        return self.timed(
            lambda: self._check_kernel(
                self._kernels.kern_layer_norm(
                    self._context, ctypes.c_uint64(0), ctypes.byref(out), ctypes.byref(source), weight, bias,
                    None, None, 1, ctypes.c_double(1e-5),
                ),
                "kern_layer_norm",
            )
        )  # fmt: skip

    def attention(self, heads: int, seq: int, dim: int, dtype: str = "f32", kv_seq: int = 0, batch: int = 1,
                  kv_heads: int = 0, causal: bool = False) -> dict[str, Any]:  # fmt: skip
        call = Attention(scale=dim**-0.5, is_causal=causal)
        call.out, call.q = (self.tensor([batch, heads, seq, dim], dtype) for _ in range(2))
        call.k, call.v = (self.tensor([batch, kv_heads or heads, kv_seq or seq, dim], dtype) for _ in range(2))
        return self.launch("kern_attention", call)

    def text(self, source: str, args: Sequence[int | str] = (), grid: Sequence[int] = (1, 1),
             core_class: int = 0) -> dict[str, Any]:  # fmt: skip
        """A text program. args: a number of bytes to allocate for a pointer argument. core_class: class + 1, 0: the first that can."""
        module = ctypes.c_uint64()
        self._check(
            self._driver.vnpu_module_load_text(0, source.encode(), b"accuracy", ctypes.byref(module)),
            "vnpu_module_load_text",
        )
        values = (ctypes.c_uint64 * max(len(args), 1))(*[self._alloc(max(int(a), ALIGNMENT)) for a in args])
        config = LaunchConfig(size=ctypes.sizeof(LaunchConfig), core_mask=0, stream=0, core_class=core_class)
        config.grid[0], config.grid[1] = grid
        try:
            return self.timed(
                lambda: self._check(
                    self._driver.vnpu_launch(module, ctypes.byref(config), values, ctypes.c_uint32(len(args))),
                    "vnpu_launch",
                )
            )
        finally:
            self._check(self._driver.vnpu_module_unload(module), "vnpu_module_unload")


def _unary(code: int) -> tuple[list[tuple[int, int, tuple[int, ...]]], int, list[float]]:
    return [(UNARY, code, (INPUT,))], 1, []


# name: (nodes, inputs, scalars)
EXPRESSIONS: dict[str, tuple[list[tuple[int, int, tuple[int, ...]]], int, list[float]]] = {
    "add": ([(BINARY, _ADD, (INPUT, INPUT + 1))], 2, []),
    "relu": _unary(_RELU),
    "sigmoid": _unary(_SIGMOID),
    "tanh": _unary(_TANH),
    "linear": ([(BINARY, _MUL, (INPUT, SCALAR))], 1, [1.5]),
    "binary": ([(BINARY, _GT, (INPUT, SCALAR))], 1, [0.0]),
    "leaky": (
        [
            (BINARY, _GT, (INPUT, SCALAR)),
            (BINARY, _MUL, (INPUT, SCALAR + 1)),
            (SELECT, 0, (NODE, INPUT, NODE + 1)),
        ],
        1,
        [0.0, 0.01],
    ),
    "elu": (
        [
            (UNARY, _EXP, (INPUT,)),
            (BINARY, _SUB, (NODE, SCALAR)),
            (BINARY, _GT, (INPUT, SCALAR + 1)),
            (SELECT, 0, (NODE + 2, INPUT, NODE + 1)),
        ],
        1,
        [1.0, 0.0],
    ),
    "selu": (
        [
            (UNARY, _EXP, (INPUT,)),
            (BINARY, _SUB, (NODE, SCALAR)),
            (BINARY, _MUL, (NODE + 1, SCALAR + 2)),
            (BINARY, _GT, (INPUT, SCALAR + 1)),
            (SELECT, 0, (NODE + 3, INPUT, NODE + 2)),
            (BINARY, _MUL, (NODE + 4, SCALAR + 3)),
        ],
        1,
        [1.0, 0.0, 1.6733, 1.0507],
    ),
}
EXPRESSIONS["exp_sub"] = ([(BINARY, _SUB, (INPUT, INPUT + 1)), (UNARY, _EXP, (NODE,))], 2, [])
EXPRESSIONS["sub"] = ([(BINARY, _SUB, (INPUT, INPUT + 1))], 2, [])
EXPRESSIONS["mul"] = ([(BINARY, _MUL, (INPUT, INPUT + 1))], 2, [])
EXPRESSIONS["square"] = _unary(_SQUARE)
EXPRESSIONS["gelu"] = _unary(_GELU_TANH)
EXPRESSIONS["affine"] = ([(BINARY, _MUL, (INPUT, INPUT + 1)), (BINARY, _ADD, (NODE, INPUT + 2))], 3, [])
# sigmoid as half of one plus tanh of half of x
EXPRESSIONS["sigmoid_tanh"] = (
    [
        (BINARY, _MUL, (INPUT, SCALAR)),
        (UNARY, _TANH, (NODE,)),
        (BINARY, _MUL, (NODE + 1, SCALAR)),
        (BINARY, _ADD, (NODE + 2, SCALAR)),
    ],
    1,
    [0.5],
)
EXPRESSIONS["parametric"] = EXPRESSIONS["leaky"]

OPERATIONS: dict[str, Callable[..., dict[str, Any]]] = {
    "gemm": Device.gemm,
    "pointwise": Device.pointwise,
    "reduce": Device.reduce,
    "softmax": Device.softmax,
    "layer_norm": Device.layer_norm,
    "attention": Device.attention,
    "conv2d": Device.conv2d,
    "text": Device.text,
}
