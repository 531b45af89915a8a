"""What a command writes never takes the place of a file that is there."""

from __future__ import annotations

import os
from pathlib import Path

from determined.errors import DeterminedError


def refuse_existing(path: Path) -> None:
    if os.path.lexists(path):
        raise DeterminedError(f"{path} is there already: name another place with -o, or remove it")
