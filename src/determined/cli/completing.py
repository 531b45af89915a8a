"""Words for a shell to complete: ids with names and states, checkpoints and models.

A shell asks while somebody types, so only a store that exists is read, briefly, and nothing is ever printed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from determined.cli.text import visible
from determined.plural import counted

if TYPE_CHECKING:
    from determined.store.database import Database

_MOST = 50
_Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _from_store(find: Callable[[Database, str], list[CompletionItem]]) -> _Completion:
    """Make a completion of a query; without a store, or with one that cannot be read now, nothing is offered."""

    @wraps(find)
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with suppress(Exception):
            database = _database()
            if database is not None:
                try:
                    return find(database, incomplete)
                finally:
                    database.close()
        return []

    return complete


@_from_store
def experiment_ids(database: Database, incomplete: str) -> list[CompletionItem]:
    """Offer experiments, the newest first; in a list such as `3,4` the last one is completed."""
    from determined.store.experiment_columns import read_experiments

    before, last = _last_of_list(incomplete)
    rows = read_experiments(
        database,
        "WHERE e.archived = 0 AND CAST(e.id AS TEXT) LIKE ? ORDER BY e.id DESC LIMIT ?",
        [f"{last}%", _MOST],
    )
    return [_item(f"{before}{row.id}", f"{row.name} {row.state}") for row in rows]


@_from_store
def experiment_names(database: Database, incomplete: str) -> list[CompletionItem]:
    """Offer the names of experiments, each once."""
    found = database.execute(
        "SELECT name, COUNT(*) FROM experiments WHERE archived = 0 AND substr(name, 1, ?) = ? "
        "GROUP BY name ORDER BY name LIMIT ?",
        [len(incomplete), incomplete, _MOST],
    )
    return [_item(name, counted(count, "experiment")) for name, count in found]


@_from_store
def trial_ids(database: Database, incomplete: str) -> list[CompletionItem]:
    """Offer trials, the newest first."""
    from determined.store.experiment_columns import SELECT_TRIALS, trial

    before, last = _last_of_list(incomplete)
    found = database.execute(
        f"{SELECT_TRIALS} WHERE CAST(t.id AS TEXT) LIKE ? ORDER BY t.id DESC LIMIT ?", [f"{last}%", _MOST]
    )
    rows = [trial(row) for row in found]
    return [_item(f"{before}{row.id}", f"experiment {row.experiment_id} {row.state}") for row in rows]


@_from_store
def checkpoint_uuids(database: Database, incomplete: str) -> list[CompletionItem]:
    """Offer checkpoints that can be loaded, the newest first."""
    before, last = _last_of_list(incomplete)
    found = database.execute(
        "SELECT uuid, trial_id, steps_completed FROM checkpoints WHERE state = 'ACTIVE' AND substr(uuid, 1, ?) = ? "
        "ORDER BY id DESC LIMIT ?",
        [len(last), last, _MOST],
    )
    return [_item(f"{before}{uuid}", f"trial {trial_id}, batch {steps}") for uuid, trial_id, steps in found]


@_from_store
def model_names(database: Database, incomplete: str) -> list[CompletionItem]:
    """Offer models by name."""
    found = database.execute(
        "SELECT name, description FROM models WHERE archived = 0 AND substr(name, 1, ?) = ? ORDER BY name LIMIT ?",
        [len(incomplete), incomplete, _MOST],
    )
    return [_item(name, description) for name, description in found]


def _database() -> Database | None:
    """Return the store as it is: completing words neither creates nor migrates one, and does not wait for a server."""
    import os
    from pathlib import Path

    from determined.store import place as places
    from determined.store.open import checked_place, open_database

    place = checked_place()
    if places.is_postgres(place):
        os.environ.setdefault("PGCONNECT_TIMEOUT", "2")
    elif not Path(place).is_file():
        return None
    return open_database(place)


def _last_of_list(incomplete: str) -> tuple[str, str]:
    before, comma, last = incomplete.rpartition(",")
    return before + comma, last


def _item(value: str, help_text: str) -> Any:
    return CompletionItem(value, help=visible(help_text)[:60])
