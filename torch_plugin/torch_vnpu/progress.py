"""Steps of a longer command: a line at the start, the time at the end, a sign of life in between."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

FIRST_S, EVERY_S = 2.0, 5.0


class step:  # noqa: N801  (reads like a function: `with step("loading"):`)
    """`with step("loading the model") as s: ...; s.note = "90 MB"` prints one line; more after 2 s and then every 5 s."""

    def __init__(self, text: str) -> None:
        self.text, self.note, self.seconds = text, "", 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        wait = FIRST_S
        while not self._done.wait(wait):
            wait = EVERY_S
            print(f"       {self.text}: {time.perf_counter() - self._started:.0f} s ...", file=sys.stderr, flush=True)

    def __enter__(self) -> step:
        self._started = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.seconds = time.perf_counter() - self._started
        self._done.set()
        self._thread.join()
        note = f"  {self.note}" if self.note else ""
        state = "" if error is None else "  FAILED"
        print(f"  {self.seconds:6.2f} s  {self.text}{note}{state}", flush=True)
