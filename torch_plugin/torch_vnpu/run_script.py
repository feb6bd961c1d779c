"""`vnpu profile [--out DIR] script.py [args]`: runs any PyTorch script under the profiler and writes the report.

The script sees itself as `__main__` with its own sys.argv. Its exit code is ours; the report is written either way.
"""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from pathlib import Path

USAGE = "vnpu profile [options] (script.py | -m module) [args]"


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="vnpu profile", usage=USAGE, description=__doc__)
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the files (default: out/NAME-profile)")
    parser.add_argument("--kernels", action="store_true", help="one row per launch in report.json")
    parser.add_argument("--no-slices", action="store_true", help="no instruction slices in the trace (long runs)")
    parser.add_argument("--rows", type=int, default=15, help="rows of the operator table to print")
    parser.add_argument("--quiet", action="store_true", help="do not print the report")
    parser.add_argument("-m", dest="module", metavar="MODULE", help="run a module instead of a script")
    parser.add_argument("target", nargs=argparse.REMAINDER, help="the script (or, with -m, nothing) and its arguments")
    args = parser.parse_args(argv)
    if args.module is None:
        if not args.target:
            parser.error("a script is missing")
        args.script, args.arguments = args.target[0], args.target[1:]
        if not Path(args.script).is_file():
            parser.error(f"no such script: {args.script}")
    else:
        args.script, args.arguments = None, args.target
    name = args.module or Path(args.script).stem
    args.title = name
    args.out = args.out or Path("out") / f"{name}-profile"
    return args


def _run(args: argparse.Namespace) -> int:
    """Runs the script; its exit code."""
    sys.argv = [args.script or args.module, *args.arguments]
    try:
        if args.module:
            sys.path[0] = str(Path.cwd())
            runpy.run_module(args.module, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(args.script).resolve().parent)
            runpy.run_path(args.script, run_name="__main__")
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def main(argv: list[str] | None = None) -> int:
    args = _parse(sys.argv[1:] if argv is None else argv)
    import torch_vnpu

    with torch_vnpu.profile(kernels=args.kernels, slices=not args.no_slices, title=args.title) as profile:
        code = _run(args)
    paths = profile.save(args.out)
    if not args.quiet:
        print()
        profile.print(limit=args.rows)
    print("files: " + " ".join(str(path) for path in paths), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
