"""Runs programs on a real pseudo-terminal of a given size, and returns what its screen shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.helpers import warm

CTRL_C = b"\x03"

# Control sequences (CSI), titles (OSC), and single characters.
_TOKENS = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b\][^\x07]*\x07|(.)", re.DOTALL)


class Terminal:
    """A program with a separate terminal as stdin, stdout and stderr; `seen` holds all bytes that it wrote.

    `is_warm` starts a Python program as a fork of the warm interpreter (see `tests.helpers.warm`), which saves the
    import of torch.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        columns: int = 80,
        rows: int = 24,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        is_warm: bool = False,
    ) -> None:
        self._parent, child = pty.openpty()
        self.columns, self.rows = columns, rows
        self.resize(columns, rows)
        # Ctrl-C would discard what the program wrote and this process has not read yet; a terminal reads at once.
        modes = termios.tcgetattr(child)
        modes[3] |= termios.NOFLSH
        termios.tcsetattr(child, termios.TCSANOW, modes)
        # COLUMNS and LINES would hide the size of the terminal from the program.
        environment = {name: value for name, value in (env or os.environ).items() if name not in ("COLUMNS", "LINES")}
        environment["TERM"] = "xterm-256color"
        self.process: subprocess.Popen[str]
        if is_warm:
            self.process = warm.Popen(
                command,
                stdin=child,
                stdout=child,
                stderr=child,
                env=environment,
                cwd=cwd,
                text=True,
                controlling_terminal=True,
            )
        else:
            self.process = subprocess.Popen(
                command,
                stdin=child,
                stdout=child,
                stderr=child,
                env=environment,
                cwd=cwd,
                text=True,
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            )
        os.close(child)
        self.seen = b""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._parent)

    def resize(self, columns: int, rows: int = 24) -> None:
        """Give the window another size; the program gets SIGWINCH if this is its controlling terminal."""
        self.columns, self.rows = columns, rows
        fcntl.ioctl(self._parent, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def write(self, keys: bytes) -> None:
        os.write(self._parent, keys)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def read_until(self, words: bytes) -> None:
        """Read until the program has written these bytes since the start; fail when it ends before."""
        while words not in self.seen:
            assert self._read(), self.seen.decode()

    def read_until_true(self, condition: Callable[[], object]) -> None:
        """Read until a condition holds; without a reader the program would block when the terminal's buffer is full."""
        while not condition():
            assert self._read(), self.seen.decode()

    def read_until_end(self, words: bytes) -> None:
        """Read until these bytes are the last ones that were written.

        The terminal prints ^C where the program is writing just then, even inside a control sequence.
        """
        while not self.seen.endswith(words):
            assert self._read(), self.seen.decode()

    def read_to_the_end(self) -> bytes:
        """Read until the program has closed its terminal, and return the bytes since the last reading."""
        before = len(self.seen)
        while self._read():
            pass
        return self.seen[before:]

    def wait(self) -> int:
        return self.process.wait(timeout=60)

    def screen(self) -> list[str]:
        """Return the lines that a terminal of the present width shows, those that scrolled away included."""
        return screen(self.seen, self.columns)

    def _read(self) -> bytes:
        try:
            chunk = os.read(self._parent, 65536)
        except OSError:  # Linux reports an error when the last writer has closed its end
            return b""
        self.seen += chunk
        return chunk


def python(*arguments: str | Path) -> list[str | Path]:
    return [sys.executable, *arguments]


def screen(written: bytes, columns: int) -> list[str]:
    """Return the lines, without trailing spaces, that an endlessly high terminal shows after these bytes."""
    return [line.rstrip() for line in screen_cells(written, columns)]


def screen_cells(written: bytes, columns: int) -> list[str]:
    """Return the lines of such a terminal with the spaces at their ends that were written.

    It knows what our programs write: text with automatic wrapping (delayed until the next character, as in xterm),
    carriage return, newline, cursor movements and erasing. Other sequences, such as colours, change nothing.
    """
    lines: list[list[str]] = [[]]
    row = column = 0
    for found in _TOKENS.finditer(written.decode(errors="replace")):
        arguments, kind, character = found.groups()
        if character is None:
            if kind is None:
                continue
            count = int(arguments) if arguments.isdigit() else None
            if kind == "A":
                row = max(0, row - (count or 1))
            elif kind == "B":
                row += count or 1
            elif kind == "C":
                column = min(columns - 1, column + (count or 1))
            elif kind == "G":
                column = (count or 1) - 1
            elif kind == "K":
                start = 0 if count in (1, 2) else column
                end = column + 1 if count == 1 else columns
                lines[row][start:end] = [" "] * (min(end, len(lines[row])) - start)
            elif kind == "J" and count in (None, 0):
                del lines[row][column:], lines[row + 1 :]
        elif character == "\r":
            column = 0
        elif character == "\n":
            row += 1
        elif character >= " ":
            width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
            if column + width > columns:
                row, column = row + 1, 0
            while len(lines) <= row:
                lines.append([])
            lines[row].extend(" " * (column + width - len(lines[row])))
            lines[row][column : column + width] = [character, *[""] * (width - 1)]
            column += width
        while len(lines) <= row:
            lines.append([])
    return ["".join(line) for line in lines]
