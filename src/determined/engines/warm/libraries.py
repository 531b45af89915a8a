"""Reset the state of numpy and torch in a fork of the warm process, as if they had just been imported."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

_MT19937_WORDS = 624  # the length of the state of numpy's global random generator


def cuda_is_unusable() -> bool:
    """Return whether CUDA was initialized in the warm process: a fork of it cannot use CUDA."""
    # Imported here: the engine's process imports this module's neighbours and must not load torch.
    import torch

    # Private: torch has no public way to ask whether a fork can use CUDA.
    return bool(torch.cuda._is_in_bad_fork())


def reset(environment: Mapping[str, str]) -> None:
    """Seed the global random generators from the system and set the numbers of threads that this job may use."""
    import numpy
    import torch

    words = numpy.frombuffer(os.urandom(4 * _MT19937_WORDS), dtype=numpy.uint32)
    # `numpy.random.seed()` would allocate many more objects. The last two values say that no second number of a normal
    # distribution is cached.
    numpy.random.set_state(("MT19937", words, _MT19937_WORDS, 0, 0.0))
    # Every fork would otherwise begin with the same random numbers.
    torch.default_generator.seed()
    threads = _number(environment, "OMP_NUM_THREADS")
    if threads is not None:
        torch.set_num_threads(threads)
    for_numpy = _number(environment, "OPENBLAS_NUM_THREADS") or threads or os.cpu_count() or 1
    if for_numpy > 1:  # the warm process limits OpenBLAS to one thread
        _set_openblas_threads(Path(numpy.__file__).parent, for_numpy)


def _number(environment: Mapping[str, str], name: str) -> int | None:
    """Return a positive integer from a variable, or None.

    Of a list (as OMP_NUM_THREADS allows) the first value counts.
    """
    # For example "4,2" for nested parallelism.
    text = environment.get(name, "").partition(",")[0]
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _set_openblas_threads(numpy: Path, threads: int) -> None:
    """Set the number of threads of the OpenBLAS library in numpy's wheel.

    Numpy has no function for this, so the shared library is called directly. Other builds of numpy stay at one thread.
    """
    for library in (numpy.parent / "numpy.libs").glob("libscipy_openblas*"):
        loaded = ctypes.CDLL(str(library))
        # The name depends on how numpy's wheel was built, with 64-bit integers or not.
        for name in ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads"):
            if hasattr(loaded, name):
                getattr(loaded, name)(threads)
                return
