"""Protect existing files from being overwritten by a command."""

from __future__ import annotations

import os
from pathlib import Path

from determined.errors import DeterminedError


def refuse_existing(path: Path) -> None:
    """Raise DeterminedError if something exists at `path`, also a broken link."""
    if os.path.lexists(path):
        raise DeterminedError(f"{path} already exists: name another file with -o, or remove it")
