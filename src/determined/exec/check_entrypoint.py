"""Checks whether a trial class can be imported: `python -m determined.exec.check_entrypoint module:Class`."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from determined.errors import DeterminedError, InvalidExperimentException
from determined.user_code.imports import checking_entrypoint, import_class

# Exit code which states that the last line of the output is the reason. Not 1, with which Python exits after any error,
# nor 2, after wrong arguments.
EXPLAINED = 3


def main(arguments: list[str]) -> int:
    """Import the class without starting a run; return 0, or print the reason as the last line and return EXPLAINED."""
    # A program of the user is found from the directory of its experiment, as in a trial.
    sys.path.insert(0, os.getcwd())
    # The directory is the user's, and a check must leave no files in it.
    sys.dont_write_bytecode = True
    try:
        _import(arguments[0])
    # Not BaseException: SystemExit is handled below, and Ctrl-C ends the check.
    except Exception as error:  # noqa: BLE001 (code of the user may raise anything)
        sys.stdout.flush()
        sys.stderr.write(f"\n{_reason(error)}\n")
        return EXPLAINED
    return 0


def _import(spec: str) -> None:
    """Import the class. Raise if its module trains or exits on import."""
    try:
        with checking_entrypoint(spec):
            import_class(spec)
    except SystemExit as error:
        # Also for exit code 0, because the class was not found.
        raise InvalidExperimentException(
            f"{spec.partition(':')[0]} ends the program when it is imported (exit code {error.code}): put such "
            'lines under `if __name__ == "__main__":`'
        ) from None


def _reason(error: Exception) -> str:
    """Return the error in one line, with the innermost line of the user's code; paths are relative to that code."""
    text = " ".join(str(error).splitlines()).replace(f"{Path.cwd()}{os.sep}", "")
    if isinstance(error, DeterminedError):
        return text
    name = type(error).__name__
    shown = f"{name}: {text}" if text else name
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own(frame.filename)]
    if not frames or isinstance(error, SyntaxError):  # the text of a SyntaxError contains file and line
        return shown
    return f"{shown} ({Path(frames[-1].filename).relative_to(Path.cwd())}, line {frames[-1].lineno})"


def _is_own(file: str) -> bool:
    """Return whether a file belongs to the user's code."""
    return Path(file).is_relative_to(Path.cwd())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
