"""`det`, in this process or as one of its own."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import pty
import subprocess
import sys
import termios
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


class Terminal:
    """`det` on a terminal of its own; `seen` is all that it wrote there."""

    def __init__(self, *arguments: str, columns: int = 100) -> None:
        self._parent, child = pty.openpty()
        environment = {**os.environ, "COLUMNS": str(columns), "LINES": "40", "TERM": "xterm"}
        self._process = subprocess.Popen(
            [*DET, *arguments],
            stdin=child,
            stdout=child,
            stderr=child,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(child)
        self.seen = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._parent)

    def write(self, keys: bytes) -> None:
        os.write(self._parent, keys)

    def read_until(self, words: bytes) -> None:
        while words not in self.seen:
            assert self._read(), self.seen.decode()

    def read_to_the_end(self) -> bytes:
        """What came since the last reading."""
        before = len(self.seen)
        while self._read():
            pass
        return self.seen[before:]

    def wait(self) -> int:
        return self._process.wait(timeout=60)

    def _read(self) -> bytes:
        try:
            chunk = os.read(self._parent, 65536)
        except OSError:  # Linux says so when the last writer is gone
            return b""
        self.seen += chunk
        return chunk


def det_on_terminal(*arguments: str, columns: int = 100) -> bytes:
    """All that a terminal of that width would get."""
    with Terminal(*arguments, columns=columns) as terminal:
        terminal.read_to_the_end()
        terminal.wait()
        return terminal.seen


def rows_of(table: str) -> list[dict[str, str]]:
    """The table that `det` printed, row by row."""
    lines = table.splitlines()
    names = [name.strip() for name in lines[0].split(" | ")]
    cells = [[cell.strip() for cell in f"{line} ".split(" | ")] for line in lines[2:] if line]
    return [dict(zip(names, row, strict=True)) for row in cells]


def head_of(table: str) -> list[str]:
    return [name.strip() for name in table.splitlines()[0].split(" | ")]
