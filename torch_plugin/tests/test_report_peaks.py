"""Peak rates follow from the machine: cells, steps, arrays, rates, clock, workers."""

from __future__ import annotations

import fake_profile as fake

from torch_vnpu.report_peaks import peaks_of


def test_peak_counts_cells_steps_and_arrays() -> None:
    base = fake.machine()
    assert peaks_of(base).matrix_flops == {"f32": 2.0 * 128 * 128 * 2 * 10**9 / 4, "bf16": 2.0 * 128 * 128 * 2 * 10**9}
    wide = base | {"matrix_step": 16, "matrix_count": 4}
    for name, flops in peaks_of(base).matrix_flops.items():
        assert peaks_of(wide).matrix_flops[name] == 64 * flops
