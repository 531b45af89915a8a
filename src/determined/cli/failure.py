"""The text of a command's error: `Cannot <action> <object>: <reason>`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

from determined.cli.display.safe_text import visible_lines
from determined.errors import DeterminedError, InvalidExperimentConfig, NotFoundException
from determined.plural import counted

_RANGE = re.compile(r"\d+-\d+")


def failure_text(action: str, parameters: Mapping[str, Any], error: DeterminedError | OSError) -> str:
    """Return the message for an error of a command.

    A missing object is named without the action: `Trial 9999 not found.` Several mistakes of a configuration are listed
    one per line.
    """
    if isinstance(error, NotFoundException):
        return visible_lines(str(error))
    names = _Action()
    cannot = f"Cannot {names.vformat(action, (), parameters)}: "
    if isinstance(error, InvalidExperimentConfig) and len(error.mistakes) > 1:
        cannot += f"{counted(len(error.mistakes), 'mistake')}\n"
    return visible_lines(cannot + without_repetition(_reason(error), names.objects))


def without_repetition(reason: str, objects: Sequence[str]) -> str:
    """Return a reason without the name of an object at its beginning that the action has just named.

    Errors of the library name their object, because a program may catch them anywhere.
    """
    for name in map(re.escape, objects):
        for pattern, replacement in (
            (rf"(?:the )?{name}(?: (?:cannot be|was not) \w+)?: ", ""),
            (rf"(?:the )?{name}(?= )", "it"),
            (rf"the (\w+) of {name}(?= )", r"its \1"),
            (rf"(no \w+) of {name}(?= )", r"\1"),
        ):
            shorter, found = re.subn(rf"\A{pattern}", replacement, reason, flags=re.IGNORECASE)
            if found:
                return shorter
    return reason


class _Action(Formatter):
    """Fills in parameters; `{ids:experiment}` becomes "experiment 3", "experiments 3, 4" or "experiments"."""

    def __init__(self) -> None:
        self.objects: list[str] = []  # named one by one, such as "experiment 3"

    def format_field(self, value: Any, format_spec: str) -> str:
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        listed = ", ".join(map(str, values))
        if not format_spec:
            return listed
        is_one = len(values) == 1 and not _RANGE.fullmatch(listed)
        if is_one:
            self.objects.append(f"{format_spec} {listed}")
        noun = format_spec if is_one else f"{format_spec}s"
        return f"{noun} {listed}".rstrip()


def _reason(error: Exception) -> str:
    """Return the reason of an error; for an OSError its file and message, without the error number."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__
