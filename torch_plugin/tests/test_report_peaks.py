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


def test_classes_of_cores_add_up():
    cube = fake.machine()
    vector = {**cube, "matrix_rows": 0, "matrix_cols": 0, "matrix_rate": [(0, 1)] * 16, "vector_lanes": 7, "workers": 24,
              "core_clock_hz": 2 * 10**9}  # fmt: skip
    both = {**cube, "classes": [cube, vector, cube]}
    assert peaks_of(both).matrix_flops == {name: 2 * flops for name, flops in peaks_of(cube).matrix_flops.items()}
    assert peaks_of(both).vector_elems == 2 * peaks_of(cube).vector_elems + 7 * 24 * 2e9
