"""Check that this machine sees the checkpoint storage of a runner.

It is also a program, which a node runs with the interpreter and the environment of a trial.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from determined.checkpoint_storage.build import build_from_config
from determined.errors import DeterminedError


def storage_problem(block: Mapping[str, Any], mark: str) -> str | None:
    """Return why this machine cannot use the storage of the runner, which has left a mark there; None if it can."""
    try:
        storage = build_from_config(dict(block))
        found = storage.has_mark(mark)
    except (DeterminedError, OSError, ValueError) as error:
        return f"it cannot read the checkpoint storage: {error}"
    if found:
        return None
    return (
        f"its {storage.name} is not the checkpoint storage of the runner: set checkpoint_storage to a "
        "directory that all nodes share, or to an object store"
    )


def main() -> None:
    """Read the storage block and the mark of the runner from stdin, and write the problem or null as JSON."""
    block, mark = json.load(sys.stdin)
    json.dump(storage_problem(block, mark), sys.stdout)


if __name__ == "__main__":
    main()
