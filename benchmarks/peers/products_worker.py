"""Times calls of standard input (one JSON object a line) on the chip of the environment, and says what CPU each took."""

from __future__ import annotations

import json
import sys
import time

from benchmarks.accuracy.device import Device


def main() -> None:
    device = Device()
    for line in sys.stdin:
        start = time.process_time()
        reply = device.call(json.loads(line))
        seconds = time.process_time() - start
        cycles = (reply["ps"] - reply["launches"] * device.launch_gap_ps) * device.clock_hz / 1e12
        print(json.dumps({"cycles": cycles, "cpu_s": seconds}), flush=True)
    device.close()


if __name__ == "__main__":
    main()
