"""Makes /proc show the variables and the command of a fork, not those of the process that it was forked from.

The kernel shows the memory that held both when the first of these processes was started, and nothing that was set
later. The first process is started with reserved space in a variable and in an argument, and each fork writes there. By
this tests find the processes of a data directory, also after their parent has exited.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

VARIABLE = "SHOWN_ENVIRONMENT"
SPACE = " " * 4096
_FOUND_BY = ("XDG_", "DET_STORE", "SOAK_MARK")

# The address of the reserved space: the first byte, and the number of bytes.
_for_variables = (0, 0)
_for_command = (0, 0)


def find_space() -> None:
    """Find the reserved space of this process, started with `SPACE` in `VARIABLE` and as its last argument."""
    global _for_variables, _for_command
    # See proc(5): arg_start, arg_end, env_start and env_end.
    places = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:49])
    command, command_end, variables, variables_end = places
    text = f"{VARIABLE}={SPACE}".encode()
    offset = ctypes.string_at(variables, variables_end - variables).index(text)
    _for_variables = (variables + offset, len(text))
    _for_command = (command, command_end - command - 1)  # the last byte is the terminating zero
    del os.environ[VARIABLE]


def show_variables(environment: Mapping[str, str]) -> None:
    """Show the variables by which tests find this process and its forks, such as that of the data directory."""
    named = [f"{name}={value}" for name, value in environment.items() if name.startswith(_FOUND_BY)]
    _write(_for_variables, os.fsencode("\0".join(named)).ljust(_for_variables[1], b"\0"))


def show_command(command: Sequence[str]) -> None:
    """Show a command. Spaces after its first word fill the reserved space, because tests look at the other words."""
    first, rest = os.fsencode(command[0]), b"".join(b"\0" + os.fsencode(word) for word in command[1:])
    _write(_for_command, first.ljust(_for_command[1] - len(rest)) + rest)


def _write(space: tuple[int, int], text: bytes) -> None:
    start, length = space
    assert len(text) == length, "the text is longer than the reserved space"
    ctypes.memmove(start, text, length)
