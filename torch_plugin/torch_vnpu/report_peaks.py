"""Peak rates of a machine, from the dictionary of `_C._machine()` (vnpu_machine_t; rates are pairs num, den by dtype)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# vnpu_dtype_t codes by the names that torch and the instruction set use.
DTYPE_CODES = {
    "f32": 1, "float32": 1, "float": 1,
    "bf16": 2, "bfloat16": 2,
    "f16": 3, "float16": 3, "half": 3,
    "i8": 6, "int8": 6, "u8": 7, "uint8": 7,
}  # fmt: skip
SHORT_NAMES = {1: "f32", 2: "bf16", 3: "f16", 6: "i8", 7: "u8"}


@dataclass(frozen=True)
class Peaks:
    """Rates that no program can exceed: operations and bytes per second."""

    matrix_flops: dict[str, float]  # by short dtype name; only what the chip has
    vector_elems: float  # elements of a one-pass operation
    dram_bytes: float
    link_bytes: float

    def flops_of(self, dtype: str) -> float:
        """Matrix peak of a dtype; integer and unknown types count against f32, the array's base type."""
        name = SHORT_NAMES.get(DTYPE_CODES.get(dtype.removeprefix("torch."), 0), "f32")
        return self.matrix_flops.get(name) or self.matrix_flops.get("f32", 0.0)


def peaks_of(machine: dict[str, Any]) -> Peaks:
    """All classes of cores together: `machine["classes"]`, or the one that `machine` is."""
    flops: dict[str, float] = {}
    vector = 0.0
    for cores in machine.get("classes") or [machine]:
        workers, clock = int(cores["workers"]), int(cores["core_clock_hz"])
        cells = int(cores["matrix_rows"]) * int(cores["matrix_cols"]) * workers
        cells *= int(cores.get("matrix_step", 1)) * int(cores.get("matrix_count", 1))
        for code, name in SHORT_NAMES.items():
            num, den = cores["matrix_rate"][code]
            if num and den:
                flops[name] = flops.get(name, 0.0) + 2.0 * cells * clock * num / den
        vector += int(cores["vector_lanes"]) * workers * clock
    return Peaks(
        matrix_flops=flops,
        vector_elems=vector,
        dram_bytes=float(machine["dram_bytes_per_s"]),
        link_bytes=float(machine["link_bytes_per_s"]),
    )
