"""Deprecated names that still work, with a warning that names the replacement."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from determined.experimental.unserved import refuse

_CLASSES = {
    "ExperimentReference": ("determined.experimental.experiment", "Experiment"),
    "TrialReference": ("determined.experimental.trial", "Trial"),
    "TrainingMetrics": ("determined.experimental.metrics", "TrialMetrics"),
    "ValidationMetrics": ("determined.experimental.metrics", "TrialMetrics"),
    "ExperimentOrderBy": ("determined.experimental.enums", "OrderBy"),
    "TrialOrderBy": ("determined.experimental.enums", "OrderBy"),
    "CheckpointOrderBy": ("determined.experimental.enums", "OrderBy"),
    "ModelOrderBy": ("determined.experimental.enums", "OrderBy"),
}


def warn_renamed(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warn that a name is deprecated."""
    warnings.warn(f"{old} is deprecated: use {new}", FutureWarning, stacklevel=stacklevel)


def old_name(module: str, name: str) -> Any:
    """Return the class that a deprecated name refers to, with a warning; for the `__getattr__` of a module."""
    if name not in _CLASSES:
        refuse(module, name)
    place, new = _CLASSES[name]
    warn_renamed(f"{module}.{name}", f"{module}.{new}", stacklevel=4)
    return getattr(importlib.import_module(place), new)
