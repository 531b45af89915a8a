"""Check the interpreter, and whether the shell finds this `det`."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from determined.cli.doctor.result import Result, ok, problem

# As `requires-python` in pyproject.toml, which is not checked for a source tree on PYTHONPATH.
_OLDEST = (3, 11)


def check_python() -> Iterator[Result]:
    """Check the version of Python and the `det` in PATH."""
    found = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info < _OLDEST:
        yield problem("Python", found, f"install Python {_OLDEST[0]}.{_OLDEST[1]} or newer", needed=True)
    else:
        yield ok("Python", found)
    yield _det_on_path()


def _det_on_path() -> Result:
    """Check that a shell finds the `det` of this environment."""
    found = shutil.which("det")
    own = Path(sys.executable).parent
    called = Path(sys.argv[0])
    if called.is_absolute() and called.name == "det" and called.parent.resolve() == own.resolve():
        return ok("det on PATH", found or f"called as {called}")
    if found is None:
        advice = f"activate the environment, or add it to PATH: export PATH={own}:$PATH"
        return problem("det on PATH", "not found in PATH", advice)
    if Path(found).parent.resolve() != own.resolve():
        advice = f"call {own / 'det'}, or put {own} first in PATH"
        return problem("det on PATH", f"PATH leads to another one: {found}", advice)
    return ok("det on PATH", found)
