"""Follow a page as a reader would: write its files, type its commands, compare what they print.

- A block under a line that names a file and ends with a colon ("Now `train.py`:") is that file.
- An `sh` block is typed into a shell, which stays the same from the top of the page to its end.
- A `text` block is what the commands above it print, line by line. `…` stands for anything within a line, and on a line
  of its own for any lines; how wide a table's columns are does not matter.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.helpers import warm

_FENCE = re.compile(r"^(?P<above>[^\n]*)\n+```(?P<language>\w+)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`([\w./-]+\.\w+)`[^`]*:$")
_ANYTHING = "…"


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its content, and the name of the file that it is."""

    language: str
    content: str
    file: str | None


def blocks(page: str) -> Iterator[Block]:
    for found in _FENCE.finditer(page):
        named = _FILE.search(found["above"].strip())
        yield Block(found["language"], found["content"], named[1] if named else None)


def follow(page: str, directory: Path, *, bin_directory: Path | None = None) -> None:
    """Carry out a page in `directory`, with the programs of `bin_directory` before all others.

    By default, those are `det` and `python` as forks of the warm interpreter, and then what is beside this interpreter.
    """
    places = [warm.commands(), Path(sys.executable).parent] if bin_directory is None else [bin_directory]
    shell = _Shell(directory, places)
    printed = ""
    for block in blocks(page):
        if block.file is not None:
            target = shell.where() / block.file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.content)
        elif block.language == "sh":
            printed = shell.type(block.content)
        elif block.language == "text":
            assert matches(block.content, printed), f"The page says:\n{block.content}\nPrinted was:\n{printed}"
        else:
            raise AssertionError(f"a reader does not know what to do with this {block.language}:\n{block.content}")


def matches(expected: str, printed: str) -> bool:
    """Return whether the output is what a page shows."""
    pattern = "".join(
        r"(?:[^\n]*\n)*" if line.strip() == _ANYTHING else _line_pattern(line) + r"\n"
        for line in expected.rstrip("\n").split("\n")
    )
    ending = "" if printed.endswith("\n") else "\n"
    return re.fullmatch(pattern, "\n".join(line.rstrip() for line in (printed + ending).split("\n"))) is not None


def _line_pattern(line: str) -> str:
    if re.fullmatch(r"-[-+]+", line.strip()):  # the rule below the headings of a table
        return r"-[-+]+"
    parts = [r"\s*".join(map(re.escape, re.split(r"\s+", part))) for part in line.rstrip().split(_ANYTHING)]
    return r"[^\n]*".join(parts)


class _Shell:
    """One shell for a complete page: directory and variables are kept from block to block."""

    def __init__(self, directory: Path, places: list[Path]) -> None:
        self._state = directory / ".shell"
        self._state.mkdir(parents=True)
        (self._state / "directory").write_text(f"{directory}\n")
        (self._state / "variables").write_text("")
        self._environment = {**os.environ, "PATH": os.pathsep.join([*map(str, places), os.environ["PATH"]])}

    def where(self) -> Path:
        return Path((self._state / "directory").read_text().rstrip("\n"))

    def type(self, commands: str) -> str:
        """Run commands and return their output; fail if one fails."""
        state = self._state
        script = (
            f"set -ea; . '{state}/variables'; cd \"$(cat '{state}/directory')\"\n{commands}\n"
            f"pwd > '{state}/directory'; export -p > '{state}/variables'"
        )
        done = subprocess.run(
            ["bash", "-c", script],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=150,
        )
        assert done.returncode == 0, f"{commands}\nended with code {done.returncode}:\n{done.stdout}"
        return done.stdout
