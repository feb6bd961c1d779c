"""A process with one device: reads calls (JSON, one a line), writes their times (JSON, one a line)."""

from __future__ import annotations

import json
import sys

from benchmarks.accuracy.device import Device, DeviceError, RefusedError


def main() -> int:
    try:
        device = Device()
    except DeviceError as error:
        print(json.dumps({"fatal": str(error)}), flush=True)
        return 1
    for line in sys.stdin:
        try:
            reply = device.call(json.loads(line))
            reply["clock_hz"] = device.clock_hz
        except RefusedError as error:
            reply = {"refused": str(error)}
        except DeviceError as error:
            reply = {"failed": str(error)}
        print(json.dumps(reply), flush=True)
    device.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
