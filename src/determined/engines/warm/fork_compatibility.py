"""Decide whether a job can run in a fork of the warm process or needs a new interpreter."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from determined.engines.command import Module, Script
from determined.engines.warm import libraries
from determined.engines.warm.program import first_import_directory

# Prefixes of variables that are read once, when the interpreter, the allocator or a library starts. A fork of the warm
# process cannot apply other values, so the job would silently run with those of the warm process.
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
# Exceptions: `job.py` applies these to a fork itself.
_SET_LATER = ("PYTHONUNBUFFERED", "PYTHONPATH", "OMP_NUM_THREADS")


def needs_fresh_interpreter(command: Script | Module, environment: Mapping[str, str], warm: Mapping[str, str]) -> bool:
    """Return whether a job cannot run in a fork of the warm process.

    A new interpreter is needed if variables that are read at startup differ, if CUDA was initialized in the warm
    process, or if modules of the job would shadow modules that are already loaded. `warm` holds the startup variables
    of the warm process, as `read_at_start` returns them.
    """
    # Compared with the values at the start of the warm process, not with its environment, which it has changed since.
    if read_at_start(environment) != warm or libraries.cuda_is_unusable():
        return True
    # Scanned for each job, since the code directories of trials differ.
    return any(_shadows_loaded(directory) for directory in [first_import_directory(command), *python_path(environment)])


def read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that take effect only if they are set when the interpreter starts."""
    return {
        name: value for name, value in environment.items() if name.startswith(_READ_AT_START) and name not in _SET_LATER
    }


def python_path(environment: Mapping[str, str]) -> list[str]:
    """Return the absolute directories listed in PYTHONPATH."""
    return [os.path.abspath(place) for place in environment.get("PYTHONPATH", "").split(os.pathsep) if place]


def _shadows_loaded(directory: str) -> bool:
    """Return whether the directory contains a module that would shadow an already loaded module of the same name."""
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return False
    for entry in entries:
        name, _, ending = entry.name.partition(".")
        module = sys.modules.get(name)
        # `__main__` is replaced for each job anyway.
        if module is None or name == "__main__":
            continue
        # A directory without __init__.py does not shadow a regular module.
        if not ending and not os.path.exists(os.path.join(entry.path, "__init__.py")):
            continue
        # The same module, for example of this library run from its own source directory, shadows nothing.
        origin = getattr(module, "__file__", None) or ""
        if (not ending or ending.endswith(("py", "pyc", "so"))) and not origin.startswith(entry.path):
            return True
    return False
