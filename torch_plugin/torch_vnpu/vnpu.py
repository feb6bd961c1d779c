"""The module ``torch.vnpu``: device, streams, events, memory, random numbers."""

from __future__ import annotations

import atexit
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import torch

from . import _C

__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "default_generators", "default_stream",
    "device", "device_count", "device_of", "empty_cache", "get_amp_supported_dtype", "get_device_capability",
    "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all", "host_clock_ps", "init",
    "initial_seed", "is_available", "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved",
    "memory_stats", "reset_accumulated_memory_stats", "reset_device", "reset_peak_memory_stats", "seed", "seed_all",
    "set_device", "set_rng_state", "set_rng_state_all", "set_stream", "stream", "synchronize",
]  # fmt: skip

_initialized = False  # checkpoint and DeviceMesh read this attribute


def _is_in_bad_fork() -> bool:
    return _C._is_in_bad_fork()


def _lazy_init() -> None:
    """Starts the device; torch calls this before the first device operation, and again in a forked child."""
    global _initialized
    if _C._is_in_bad_fork():
        _C._init()  # raises by name
    if not _initialized:
        _C._init()
        _initialized = True


def init() -> None:
    """Starts the device now instead of at first use."""
    _lazy_init()


def is_initialized() -> bool:
    return _initialized and not _is_in_bad_fork()


def is_available() -> bool:
    return _C._device_count() > 0


# --- devices -----------------------------------------------------------------------------------------------------


def device_count() -> int:
    return _C._device_count()


def current_device() -> int:
    return _C._current_device()


def _index(which: Any = None) -> int:
    """Index of a device given as None, int, str or torch.device."""
    if which is None:
        return current_device()
    if isinstance(which, int):
        return which
    which = torch.device(which)
    if which.type != "vnpu":
        raise ValueError(f"expected a vnpu device, got {which}")
    return current_device() if which.index is None else which.index


def set_device(which: Any) -> None:
    _C._set_device(_index(which))


class device:
    """Context manager: makes a device the current one."""

    def __init__(self, which: Any) -> None:
        self.idx = _index(which)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _C._exchange_device(self.idx)

    def __exit__(self, *_: object) -> None:
        self.idx = _C._exchange_device(self.prev_idx)


class device_of(device):
    """Context manager: the device of a tensor, if it is a vnpu tensor."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.get_device() if tensor.device.type == "vnpu" else -1)


class DeviceProperties:
    """The chip of the configuration; every field of the driver's machine description is an attribute, of its first class of cores;
    `classes` has one dictionary for each."""

    def __init__(self, machine: dict[str, Any]) -> None:
        self.__dict__.update(machine)
        self.total_memory = machine["dram_bytes"]
        self.multi_processor_count = sum(cores["workers"] for cores in machine["classes"])

    def __repr__(self) -> str:
        return (
            f"DeviceProperties(name={self.name!r}, cores={self.cores}, matrix={self.matrix_rows}x{self.matrix_cols}, "
            f"clock={self.core_clock_hz / 1e9:g} GHz, memory={self.total_memory >> 20} MiB)"
        )


def get_device_properties(which: Any = None) -> DeviceProperties:
    _index(which)
    return DeviceProperties(_C._machine())


def get_device_name(which: Any = None) -> str:
    return get_device_properties(which).name


def get_device_capability(which: Any = None) -> dict[str, Any]:
    """Types that the device computes with."""
    return torch.accelerator.get_device_capability(torch.device("vnpu", _index(which)))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the matrix units multiply bf16; with emulation, everything that is stored in bf16 is computed in f32."""
    return including_emulation or torch.bfloat16 in get_amp_supported_dtype()


def synchronize(which: Any = None) -> None:
    """Waits for everything submitted; reports errors of programs."""
    torch.accelerator.synchronize(torch.device("vnpu", _index(which)))


def reset_device() -> None:
    """Clears the sticky error of a failed program; memory stays as it is."""
    _C._reset_device()


def host_clock_ps() -> int:
    """The virtual host clock in picoseconds since the start of the device."""
    return _C._host_clock_ps()


# --- streams and events ----------------------------------------------------------------------------------------------


class Stream(torch.Stream):
    """A queue of device work.

    Parameters
    ----------
    device : where; the current device by default.
    priority : a negative number is a high priority.
    cores : numbers of the cores (0 to 63) that its kernels run on; all by default. Work of streams on disjoint cores overlaps in
        simulated time and shares the memory. Such a stream lives as long as the device: make it once.

    Raises
    ------
    RuntimeError : a core that the chip lacks, or no core at all.
    """

    def __new__(cls, device: Any = None, priority: int = 0, cores: Iterable[int] | None = None, **kwargs: Any):
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        if cores is not None:
            where = torch.device("vnpu", _index(device))
            numbers = {int(core) for core in cores}
            if not numbers or min(numbers) < 0 or max(numbers) > 63:
                raise RuntimeError(f"vnpu: a stream on cores {sorted(numbers)}: name at least one core, of 0 to 63")
            stream_id = _C._stream_on_cores(priority, sum(1 << core for core in numbers))
            plain = torch.Stream(where)  # for the number of the device's type
            return super().__new__(cls, stream_id=stream_id, device_index=where.index, device_type=plain.device_type)
        return super().__new__(cls, device=torch.device("vnpu", _index(device)), priority=priority)

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        return super().record_event(Event() if event is None else event)

    def __repr__(self) -> str:
        return f"<torch.vnpu.Stream device={self.device} stream_id={self.stream_id}>"


class _EventType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Event) and instance.device.type == "vnpu"


class Event(torch.Event, metaclass=_EventType):
    """A point in a stream. ``elapsed_time`` is simulated milliseconds.

    The instances are plain ``torch.Event`` objects of this device: torch's own stream and event methods refuse
    instances of subclasses.
    """

    def __new__(cls, enable_timing: bool = True, blocking: bool = False, interprocess: bool = False) -> torch.Event:
        if interprocess:
            raise NotImplementedError("vnpu: events cannot be shared between processes")
        return torch.Event(device="vnpu", enable_timing=enable_timing, blocking=blocking)


def _as_stream(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(which: Any = None) -> Stream:
    return _as_stream(torch.accelerator.current_stream(torch.device("vnpu", _index(which))))


def default_stream(which: Any = None) -> Stream:
    like = torch.accelerator.current_stream(torch.device("vnpu", _index(which)))
    return Stream(stream_id=0, device_index=like.device_index, device_type=like.device_type)


def set_stream(stream: torch.Stream | None) -> None:
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Context manager: work inside goes to a stream; None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self.previous: Stream | None = None

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            self.previous = current_stream(self.stream.device)
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *_: object) -> None:
        set_stream(self.previous)


def stream(stream: torch.Stream | None) -> StreamContext:
    return StreamContext(stream)


# --- memory --------------------------------------------------------------------------------------------------------


def empty_cache() -> None:
    """Gives memory that no tensor uses back to the device."""
    torch.accelerator.empty_cache()


def memory_stats(which: Any = None) -> OrderedDict[str, Any]:
    return torch.accelerator.memory_stats(_index(which))


def memory_allocated(which: Any = None) -> int:
    return torch.accelerator.memory_allocated(_index(which))


def max_memory_allocated(which: Any = None) -> int:
    return torch.accelerator.max_memory_allocated(_index(which))


def memory_reserved(which: Any = None) -> int:
    return torch.accelerator.memory_reserved(_index(which))


def max_memory_reserved(which: Any = None) -> int:
    return torch.accelerator.max_memory_reserved(_index(which))


def reset_peak_memory_stats(which: Any = None) -> None:
    torch.accelerator.reset_peak_memory_stats(_index(which))


def reset_accumulated_memory_stats(which: Any = None) -> None:
    torch.accelerator.reset_accumulated_memory_stats(_index(which))


def mem_get_info(which: Any = None) -> tuple[int, int]:
    """Free and total bytes of the device."""
    return torch.accelerator.get_memory_info(_index(which))


# --- random numbers ----------------------------------------------------------------------------------------------------


class _Generators:
    """``default_generators[i]``: the generator of device i."""

    def __getitem__(self, index: int) -> torch.Generator:
        return _C._default_generator(index)

    def __len__(self) -> int:
        return device_count()


default_generators = _Generators()


def get_rng_state(device: Any = "vnpu") -> torch.Tensor:
    """16 bytes: seed, offset."""
    return _C._default_generator(_index(device)).get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "vnpu") -> None:
    _C._default_generator(_index(device)).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed: int) -> None:
    _C._default_generator(current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    for i in range(device_count()):
        _C._default_generator(i).manual_seed(int(seed))


def initial_seed() -> int:
    return _C._default_generator(current_device()).initial_seed()


def seed() -> int:
    return _C._default_generator(current_device()).seed()


def seed_all() -> None:
    value = seed()
    manual_seed_all(value)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Types that torch.autocast may take: the short floats that the matrix units of this chip multiply."""
    rates = [cores["matrix_rate"] for cores in _C._machine()["classes"]]  # by type code of the instruction set
    return [
        dtype for dtype, code in ((torch.bfloat16, 2), (torch.float16, 3)) if any(rate[code][0] > 0 for rate in rates)
    ]


# --- plumbing ----------------------------------------------------------------------------------------------------------


def _patch_dlpack() -> None:
    """``Tensor.__dlpack_device__`` of this torch knows only the name "privateuse1"."""
    original = torch.Tensor.__dlpack_device__

    def __dlpack_device__(self):  # noqa: N807
        if self.device.type == "vnpu":
            from torch.utils.dlpack import DLDeviceType

            return (DLDeviceType.kDLExtDev, self.device.index or 0)
        return original(self)

    torch.Tensor.__dlpack_device__ = __dlpack_device__


def _patch_printing() -> None:
    """Values are printed from a copy on the host: torch would choose a format with some forty operators in float64."""
    from torch import _tensor_str

    original = _tensor_str._tensor_str

    def _values(tensor: torch.Tensor, indent: int, *rest: Any) -> str:
        if isinstance(tensor, torch.Tensor) and tensor.device.type == "vnpu":
            tensor = tensor.detach().cpu()
        return original(tensor, indent, *rest)

    _tensor_str._tensor_str = _values


def _pause_at_exit() -> None:
    """A backward of this process ran on a thread that may still drop its last Python reference.

    If the interpreter is finalizing by then, that thread is killed inside a destructor and the process aborts; a few
    milliseconds are enough for it to get there first.
    """
    if _C._backward_ran():
        time.sleep(0.005)


def _register_exit() -> None:
    atexit.register(_pause_at_exit)
