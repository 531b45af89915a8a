"""`det`, in this process or as one of its own."""

from __future__ import annotations

import csv
import json
import os
import pty
import subprocess
import sys
from io import StringIO
from typing import Any

from click.testing import CliRunner, Result

from determined.cli.main import main

DET = [sys.executable, "-c", "from determined.cli.main import main; main()"]


def det(*arguments: str) -> Result:
    """Called in this process."""
    return CliRunner().invoke(main, list(arguments))


def det_ok(*arguments: str) -> str:
    result = det(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def det_json(*arguments: str) -> Any:
    """Strictly JSON: no NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(det_ok(*arguments, "--json"), parse_constant=refuse)


def det_csv(*arguments: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(det_ok(*arguments, "--csv"))))


def run_det(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as a user would."""
    return subprocess.run([*DET, *arguments], capture_output=True, text=True, timeout=60, **options)


def det_on_terminal(*arguments: str, columns: int = 100) -> bytes:
    """All that a terminal of that width would get."""
    parent, child = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "LINES": "40", "TERM": "xterm"}
    with subprocess.Popen(
        [*DET, *arguments], stdin=child, stdout=child, stderr=child, env=environment, close_fds=True
    ) as process:
        os.close(child)
        written = b""
        while chunk := _read(parent):
            written += chunk
        process.wait(timeout=60)
    os.close(parent)
    return written


def rows_of(table: str) -> list[dict[str, str]]:
    """The table that `det` printed, row by row."""
    lines = table.splitlines()
    names = [name.strip() for name in lines[0].split(" | ")]
    return [
        dict(zip(names, (cell.strip() for cell in f"{line} ".split(" | ")), strict=True)) for line in lines[2:] if line
    ]


def head_of(table: str) -> list[str]:
    return [name.strip() for name in table.splitlines()[0].split(" | ")]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the last writer is gone
        return b""
