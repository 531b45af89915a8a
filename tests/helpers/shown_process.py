"""What /proc shows of a fork: the variables and the command of its own, not those of the process it was forked from.

The kernel shows the memory that held both when the first of these processes was started, and nothing that was set
later. That one is started with room for more, in a variable and in an argument, and each fork writes there. Tests find
the processes of a data directory by it, also after these have lost their parent.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

VARIABLE = "SHOWN_ENVIRONMENT"
ROOM = " " * 4096
_FOUND_BY = ("XDG_", "DET_STORE", "SOAK_MARK")

# Where the room is in memory: the first byte, and the number of bytes.
_for_variables = (0, 0)
_for_command = (0, 0)


def find_room() -> None:
    """Find the room of this process, which was started with `ROOM` in `VARIABLE` and as its last argument."""
    global _for_variables, _for_command
    # See proc(5): arg_start, arg_end, env_start and env_end.
    places = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:49])
    command, command_end, variables, variables_end = places
    text = f"{VARIABLE}={ROOM}".encode()
    offset = ctypes.string_at(variables, variables_end - variables).index(text)
    _for_variables = (variables + offset, len(text))
    _for_command = (command, command_end - command - 1)  # the last byte is a zero, and stays one
    del os.environ[VARIABLE]


def show_variables(environment: Mapping[str, str]) -> None:
    """Show the variables by which tests find this process and its forks, such as that of the data directory."""
    named = [f"{name}={value}" for name, value in environment.items() if name.startswith(_FOUND_BY)]
    _write(_for_variables, os.fsencode("\0".join(named)).ljust(_for_variables[1], b"\0"))


def show_command(command: Sequence[str]) -> None:
    """Show a command. Spaces after its first word fill the room, because tests look at the other words."""
    first, rest = os.fsencode(command[0]), b"".join(b"\0" + os.fsencode(word) for word in command[1:])
    _write(_for_command, first.ljust(_for_command[1] - len(rest)) + rest)


def _write(room: tuple[int, int], text: bytes) -> None:
    start, length = room
    assert len(text) == length, "the text is longer than the room for it"
    ctypes.memmove(start, text, length)
