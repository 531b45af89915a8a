"""Check that this machine has access to what a runner uses: its checkpoint storage, and its store if that is a server.

It is also a program, which a node runs with the interpreter and the environment of a trial.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from determined.checkpoint_storage.build import build_from_config
from determined.errors import DeterminedError, MissingExtraError, NotFoundException
from determined.store.databases.location import shown
from determined.store.open import open_database


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


def store_problem(place: str, experiment: int, key: str) -> str | None:
    """Return why this machine cannot use the store of the runner, which contains the experiment; None if it can."""
    from determined.store.substores.experiments import Experiments

    try:
        with closing(open_database(place, read_only=True)) as database:
            found = "experiments" in database.tables() and Experiments(database).get(experiment).key == key
    except MissingExtraError as error:
        return f"it cannot use the store: {error}"
    except NotFoundException:
        found = False
    except DeterminedError as error:
        return f"it cannot use the store: {error}; DET_STORE must name a server that all nodes can reach"
    if found:
        return None
    return f"{shown(place)} is another store here: DET_STORE must name a server that all nodes can reach"


def main(exchanged: int) -> None:
    """Replace the request in this open file by the problem or null, both as JSON; see `ExperimentNodeSetup`."""
    with os.fdopen(exchanged, "r+") as file:
        request = json.load(file)
        problem = None if request["storage"] is None else storage_problem(request["storage"], request["mark"])
        if problem is None and request["store"] is not None:
            problem = store_problem(*request["store"])
        file.seek(0)
        file.truncate()
        json.dump(problem, file)


if __name__ == "__main__":
    main(int(sys.argv[1]))
