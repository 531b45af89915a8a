"""Numpy and torch in a copy of the warm process: as if they had just been imported there."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

_MT19937_WORDS = 624  # the state of numpy's global random generator


def cuda_is_lost() -> bool:
    """Whether an import has asked CUDA for something in the warm process, so that a copy cannot use it any more."""
    import torch

    return bool(torch.cuda._is_in_bad_fork())


def refresh(environment: Mapping[str, str]) -> None:
    """Random numbers from the system, and as many threads as this job may have."""
    import numpy
    import torch

    words = numpy.frombuffer(os.urandom(4 * _MT19937_WORDS), dtype=numpy.uint32)
    # `seed()` would compute them with many more objects; no number of a normal distribution is kept for later.
    numpy.random.set_state(("MT19937", words, _MT19937_WORDS, 0, 0.0))
    torch.default_generator.seed()
    threads = _number(environment, "OMP_NUM_THREADS")
    if threads is not None:
        torch.set_num_threads(threads)
    for_numpy = _number(environment, "OPENBLAS_NUM_THREADS") or threads or os.cpu_count() or 1
    if for_numpy > 1:  # the warm process holds it to one
        _set_openblas_threads(Path(numpy.__file__).parent, for_numpy)


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").partition(",")[0]
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _set_openblas_threads(numpy: Path, threads: int) -> None:
    """By the library in numpy's wheel; numpy itself has no word for it, and other builds stay at one thread."""
    for library in (numpy.parent / "numpy.libs").glob("libscipy_openblas*"):
        loaded = ctypes.CDLL(str(library))
        for name in ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads"):
            if hasattr(loaded, name):
                getattr(loaded, name)(threads)
                return
