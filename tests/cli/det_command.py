"""Runs `det` in this process or in a separate one."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from io import StringIO
from typing import Any

from click.testing import CliRunner, Result

from determined.cli.main import main
from tests.helpers import terminal, warm

DET = [sys.executable, "-c", "from determined.cli.main import main; main()"]
WARM_DET = [sys.executable, "-m", "determined.cli"]  # for `tests.helpers.warm`


def det(*arguments: str) -> Result:
    """Run `det` in this process."""
    return CliRunner().invoke(main, list(arguments))


def det_ok(*arguments: str) -> str:
    result = det(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def det_json(*arguments: str) -> Any:
    """Run `det` with --json and parse its output strictly: no NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(det_ok(*arguments, "--json"), parse_constant=refuse)


def det_csv(*arguments: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(det_ok(*arguments, "--csv"))))


def run_det(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `det` in a separate process, as a user would."""
    return warm.run([*WARM_DET, *arguments], capture_output=True, text=True, timeout=60, **options)


class Terminal(terminal.Terminal):
    """`det` on a separate terminal."""

    def __init__(self, *arguments: str, columns: int = 100, rows: int = 40) -> None:
        super().__init__([*WARM_DET, *arguments], columns=columns, rows=rows, is_warm=True)


def det_on_terminal(*arguments: str, columns: int = 100) -> bytes:
    """Return what a terminal of that width shows."""
    with Terminal(*arguments, columns=columns) as shown:
        shown.read_to_the_end()
        shown.wait()
        return shown.seen


def rows_of(table: str) -> list[dict[str, str]]:
    """Return the rows of the table that `det` printed."""
    lines = table.splitlines()
    names = [name.strip() for name in lines[0].split(" | ")]
    cells = [[cell.strip() for cell in f"{line} ".split(" | ")] for line in lines[2:] if line]
    return [dict(zip(names, row, strict=True)) for row in cells]


def head_of(table: str) -> list[str]:
    return [name.strip() for name in table.splitlines()[0].split(" | ")]
