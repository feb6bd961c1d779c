"""python -m benchmarks.accuracy --data DIR [--set NAME] [--predict-only] [--json FILE] [--fit] [--docs]"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.accuracy import evaluate, report
from benchmarks.accuracy.pool import Pool, PoolError
from benchmarks.accuracy.rows import DATA, DataSet
from benchmarks.accuracy.sets import SETS, by_name


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of measured files (default: the repository's)")
    parser.add_argument(
        "--set", dest="sets", action="append", default=[], metavar="NAME", help="only this set; repeatable"
    )
    parser.add_argument("--predict-only", action="store_true", help="no errors: the measured column may be absent")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results")
    parser.add_argument(
        "--fit", action="store_true", help="search the chip's fitted keys on the calibration rows and print them"
    )
    parser.add_argument("--docs", action="store_true", help="rewrite docs/accuracy.md from the repository's data")
    parser.add_argument("--sample", type=int, metavar="N", help="about N rows of each set, evenly spaced")
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="override a key of every chip"
    )
    parser.add_argument("--no-best", action="store_true", help="skip mapping `best` beside the chip's profile")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="device processes side by side")
    parser.add_argument("--list", action="store_true", help="names of the sets and their files")
    return parser.parse_args(arguments)


def chosen_sets(names: list[str], folder: Path) -> list[tuple[DataSet, Path]]:
    sets = [by_name(name) for name in names] if names else SETS
    found = [(dataset, path) for dataset in sets if (path := dataset.find(folder))]
    missing = [dataset.name for dataset in sets if dataset.find(folder) is None]
    if names and missing:
        raise SystemExit(f"accuracy: no file for {', '.join(missing)} in {folder}")
    if missing:
        print(f"not in {folder}: {', '.join(missing)}", file=sys.stderr)
    return found


def run_sets(arguments: argparse.Namespace, found: list[tuple[DataSet, Path]], pool: Pool) -> dict[str, Any]:
    results, bests = [], {}
    for dataset, path in found:
        result = evaluate.evaluate(dataset, path, pool, dataset.profile, arguments.predict_only, arguments.sample)
        other = None
        if dataset.profile != "best" and not arguments.no_best:
            other = evaluate.evaluate(dataset, path, pool, "best", arguments.predict_only, arguments.sample)
            result["best"] = {key: other.get(key) for key in ("mean_pct", "median_pct", "worst_pct", "predictions")}
        results.append(result)
        bests[dataset.name] = other
        print("\n".join(report.set_lines(result, other)), flush=True)
    out: dict[str, Any] = {"sets": results}
    if not arguments.predict_only:
        out["cross_class"] = evaluate.cross_class(results)
        print("\n".join(["", *report.cross_lines(out["cross_class"]), "", *report.table_lines(results)]))
    return out


def without_errors(out: dict[str, Any]) -> dict[str, Any]:
    """For the file: the errors by class stand under their means, not row by row."""
    for result in out["sets"]:
        for part in result.get("classes", {}).values():
            part.pop("errors_pct", None)
    return out


def main() -> int:
    arguments = parse()
    if arguments.list:
        for dataset in SETS:
            print(f"{dataset.name:22s} {dataset.pattern:36s} {dataset.config}")
        return 0
    options = dict(option.split("=", 1) for option in arguments.option)
    pool = Pool(arguments.jobs, options)
    try:
        if arguments.docs:
            from benchmarks.accuracy import docs

            return docs.write(pool)
        found = chosen_sets(arguments.sets, arguments.data)
        if arguments.fit:
            from benchmarks.accuracy import fit

            return fit.run(found, pool, arguments.sample)
        out = run_sets(arguments, found, pool)
    except PoolError as error:
        print(f"accuracy: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        arguments.json.write_text(json.dumps(without_errors(out), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
