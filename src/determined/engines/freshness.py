"""Whether a copy of the warm process will do, or only a fresh interpreter."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from determined.engines import libraries
from determined.engines.command import Module, Script
from determined.engines.program import first_place

# Read when the interpreter, its memory or a library starts: setting them later has no effect.
_READ_AT_START = (
    "LANG",
    "LC_",
    "NPY_",
    "TQDM_",
    "PYTHON",
    "LD_",
    "GLIBC_",
    "MALLOC_",
    "OMP_",
    "KMP_",
    "MKL_",
    "OPENBLAS_",
    "TORCH",
    "PYTORCH_",
    "ATEN_",
)
_SET_LATER = ("PYTHONUNBUFFERED", "PYTHONPATH", "OMP_NUM_THREADS")


def needs_fresh_interpreter(command: Script | Module, environment: Mapping[str, str], warm: Mapping[str, str]) -> bool:
    """Return whether variables that are read at the start differ, CUDA is not fresh, or own modules hide loaded ones.

    `warm` are the variables that the warm process was started with, as `read_at_start` returns them.
    """
    if read_at_start(environment) != warm or libraries.cuda_is_lost():
        return True
    return any(_hides_loaded(directory) for directory in [first_place(command), *python_path(environment)])


def read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that have an effect only on an interpreter that is started with them."""
    return {
        name: value for name, value in environment.items() if name.startswith(_READ_AT_START) and name not in _SET_LATER
    }


def python_path(environment: Mapping[str, str]) -> list[str]:
    """Where the environment says that modules are."""
    return [os.path.abspath(place) for place in environment.get("PYTHONPATH", "").split(os.pathsep) if place]


def _hides_loaded(directory: str) -> bool:
    """Whether `import` would find modules here, by names under which others are loaded already."""
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return False
    for entry in entries:
        name, _, ending = entry.name.partition(".")
        module = sys.modules.get(name)
        if module is None or name == "__main__":
            continue
        # A folder that is no package hides nothing.
        if not ending and not os.path.exists(os.path.join(entry.path, "__init__.py")):
            continue
        origin = getattr(module, "__file__", None) or ""
        if (not ending or ending.endswith(("py", "pyc", "so"))) and not origin.startswith(entry.path):
            return True
    return False
