"""How the user can start this `det` again: the commands that it suggests must work as printed."""

from __future__ import annotations

import os
import shlex
import shutil
import sys


def own_command() -> str:
    """Return `det`, or the path that was typed if PATH does not lead to the program that is running."""
    typed = sys.argv[0]
    if os.path.basename(typed) != "det":
        return "det"
    found = shutil.which("det")
    if found is not None and os.path.exists(typed) and os.path.samefile(found, typed):
        return "det"
    return shlex.quote(typed)
