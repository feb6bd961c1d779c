"""The `vnpu` command inside the environment: `profile` is Python, everything else is the C program beside the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def find_program() -> Path | None:
    """The C `vnpu`: installed in the package, or in a build tree (VNPU_TOOL overrides)."""
    here = Path(__file__).resolve().parent
    places = [Path(os.environ["VNPU_TOOL"])] if "VNPU_TOOL" in os.environ else [here / "bin" / "vnpu"]
    return next((path for path in places if os.access(path, os.X_OK)), None)


def main() -> int:
    if sys.argv[1:2] == ["profile"]:
        # torch's OpenMP workers spin after each region otherwise, on cores that the chip needs; read at start-up.
        if "OMP_WAIT_POLICY" not in os.environ:
            os.environ["OMP_WAIT_POLICY"] = "passive"
            os.execv(sys.executable, [sys.executable, "-m", "torch_vnpu.run_script", *sys.argv[2:]])
        from . import run_script

        return run_script.main(sys.argv[2:])
    program = find_program()
    if program is None:
        print(
            "vnpu: the program is not installed beside the package (torch_vnpu/bin/vnpu): run `./run setup`",
            file=sys.stderr,
        )
        return 2
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
