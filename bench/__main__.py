"""Run the cases, print one table, store the numbers. A missed target is marked; it does not change the exit code."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.cases import CASES
from bench.measure import FULL, QUICK, SMOKE, ChildError
from bench.table import Row, show

RESULTS = Path(__file__).parent / "results"


def main(argv: Sequence[str] | None = None) -> None:
    options = _parse(argv)
    effort = SMOKE if options.smoke else QUICK if options.quick else FULL
    about, rows = machine(), list[Row]()
    result: dict[str, Any] = {"date": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "machine": about, "effort": asdict(effort)}
    file = options.results / (time.strftime("%Y-%m-%dT%H%M%S") + ".json")
    file.parent.mkdir(parents=True, exist_ok=True)
    for name in options.only or CASES:
        if name == "mlp-instructions" and options.no_callgrind:
            continue
        started = time.monotonic()
        print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
        try:
            rows += CASES[name](effort)
        except ChildError as error:
            # One process that crashes must not cost the measurements of an hour.
            rows.append(Row(name, "", ok=False, must_be="to run", note=f"a process failed: {error}".strip()))
        print(f"{time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        # After every case, so that an interrupted run keeps what it has.
        result["rows"] = [asdict(row) for row in rows]
        file.write_text(json.dumps(result, indent=2) + "\n")
    if options.json:
        print(json.dumps(result, indent=2))
        return
    show(
        rows,
        f"{about['cpu']}, {about['cores']} cores, torch {about['torch']}, load {about['load']:.1f}; CPU time, "
        "medians over pairs of blocks",
    )


def machine() -> dict[str, Any]:
    """Return the machine on which the numbers were measured."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": version("torch"),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", action="append", choices=list(CASES), metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: a first impression")
    parser.add_argument("--smoke", action="store_true", help="hardly any: does the harness run at all?")
    parser.add_argument("--no-callgrind", action="store_true", help="leave out the slow counting of instructions")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON instead of the table")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON file of this run goes")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
