"""`with torch_vnpu.profile() as p:` measures what is submitted inside it, in simulated time."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from . import report as report_module
from . import trace
from .profile_blob import Profile


class profile:
    """Profiles the device; synchronizes at both ends.

    Parameters
    ----------
    out : folder that receives the files of `save` when the block ends without an exception; None writes nothing.
    kernels : add one row per launch to the report.
    slices : keep instruction slices for the trace (costs memory for very long runs).
    title : heads the report.

    Attributes
    ----------
    report : dictionary of report.json (docs: README, "Reports"); available after the block.
    """

    _active = False

    def __init__(
        self, out: str | Path | None = None, *, kernels: bool = False, slices: bool = True, title: str = ""
    ) -> None:
        self._out, self._kernels, self._slices, self._title = out, kernels, slices, title
        self._report: dict[str, Any] | None = None
        self._profile: Profile | None = None
        self._ops: list[tuple] = []
        self._started = 0.0

    def __enter__(self) -> profile:
        from torch_vnpu import _C

        if profile._active:
            raise RuntimeError("torch_vnpu.profile: profiles do not nest, another one is active")
        torch.vnpu.synchronize()
        _C._profile_begin(self._slices)
        profile._active = True
        self._started = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        from torch_vnpu import _C

        profile._active = False
        try:
            torch.vnpu.synchronize()
            wall_s = time.perf_counter() - self._started
            blob, self._ops = _C._profile_end()
            self._report, self._profile = report_module.build(
                blob,
                self._ops,
                _C._machine(),
                _C._config_text(),
                wall_s,
                title=self._title,
                kernels=self._kernels,
                memory_rate=_C._memory_rate(),
            )
        except Exception as failure:
            if error is None:
                raise
            error.add_note(f"torch_vnpu.profile: no report, {failure}")
            return
        if self._out is not None and error is None:
            self.save(self._out)

    @property
    def report(self) -> dict[str, Any]:
        if self._report is None:
            raise RuntimeError("torch_vnpu.profile: the report exists after the `with` block has ended")
        return self._report

    def save(self, directory: str | Path) -> list[Path]:
        """Writes report.json, report.html, trace.json.gz and config.ini into a folder; returns their paths."""
        from . import report_html

        folder, report = Path(directory), self.report
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / name for name in ("report.json", "report.html", "trace.json.gz", "config.ini")]
        paths[0].write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        paths[1].write_text(report_html.render(report), encoding="utf-8")
        assert self._profile is not None
        trace.write(paths[2], self._profile, self._ops, report["config"]["name"])
        paths[3].write_text(report["config"]["effective"], encoding="utf-8")
        return paths

    def print(self, limit: int = 15) -> None:
        """Prints the report on the terminal."""
        from . import report_text

        report_text.render(self.report, limit=limit)
