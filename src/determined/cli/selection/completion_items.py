"""Shell completion of ids, checkpoints and names from the store.

It runs while the user types, so it only reads a store that exists, does not wait, and never prints errors.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from determined.cli.display.safe_text import visible
from determined.sentences import counted
from determined.store.process import is_abandoned
from determined.store.states import EXPERIMENT_ENDED, EXPERIMENT_RUNNING

if TYPE_CHECKING:
    from determined.experiment.possible_actions import ExperimentAction
    from determined.store.databases.base import Database
    from determined.store.experiment_records import Experiment, Trial

_MOST = 50  # words offered
_MOST_READ = 500  # rows examined at most, because the shell waits meanwhile
_Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _from_store(find: Callable[[Database, str], list[CompletionItem]]) -> _Completion:
    """Make a completion function from a query; it offers nothing if the store does not exist or cannot be read."""

    @wraps(find)
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        # Any error: a traceback must not appear in the middle of a typed line.
        with suppress(Exception):
            database = _database()
            if database is not None:
                try:
                    return find(database, incomplete)
                finally:
                    database.close()
        return []

    return complete


def _allows(action: ExperimentAction) -> Callable[[Experiment], bool]:
    """Return a test of whether an experiment allows an action."""

    def allows(row: Experiment) -> bool:
        # Imported on use, because most words that are completed are no ids.
        from determined.experiment.possible_actions import why_not

        return why_not(action, row) is None

    return allows


# The experiments to which a command applies: a condition of the query, which limits what is read, and a test of each
# row, because the state of a standalone run and whether a process runs an experiment are not in the database.
SUITABLE: dict[str, tuple[str, Callable[[Experiment], bool]]] = {
    "are not archived": ("e.archived = 0", lambda row: True),
    "are archived": ("e.archived = 1", lambda row: True),
    "have not ended": ("e.archived = 0", lambda row: row.state not in EXPERIMENT_ENDED),
    "are running": ("e.archived = 0", lambda row: row.state in EXPERIMENT_RUNNING),
    "are not running": ("1 = 1", lambda row: row.state not in EXPERIMENT_RUNNING or is_abandoned(row)),
    "can be archived": ("e.archived = 0", _allows("archive")),
    "can be deleted": ("1 = 1", _allows("delete")),
    "can be activated": ("e.archived = 0 AND e.by_hand = 0", _allows("activate")),
    "can be continued": ("e.archived = 0 AND e.by_hand = 0", _allows("continue")),
    "are in the queue": ("e.id IN (SELECT experiment_id FROM queue)", lambda row: True),
}


def experiment_ids(suit: str) -> _Completion:
    """Offer experiments to which a command applies, newest first; in a list such as `3,4` the last id is completed."""
    condition, suits = SUITABLE[suit]

    @_from_store
    def find(database: Database, incomplete: str) -> list[CompletionItem]:
        from determined.store.sql.experiment_columns import read_experiments

        before, last = _last_of_list(incomplete)
        listed = {part.strip() for part in before.split(",")}
        rows = read_experiments(
            database,
            f"WHERE {condition} AND CAST(e.id AS TEXT) LIKE ? ORDER BY e.id DESC LIMIT ?",
            [f"{last}%", _MOST_READ],
        )
        suitable = [row for row in rows if str(row.id) not in listed and suits(row)]
        return [_item(f"{before}{row.id}", f"{row.name} {row.state}") for row in suitable[:_MOST]]

    return find


@_from_store
def experiment_labels(database: Database, incomplete: str) -> list[CompletionItem]:
    """Offer the distinct labels of experiments that are not archived."""
    import json
    from collections import Counter

    found = database.execute("SELECT labels FROM experiments WHERE archived = 0 AND labels <> '[]'", [])
    counts = Counter(label for (labels,) in found for label in json.loads(labels))
    offered = sorted(label for label in counts if label.startswith(incomplete))
    return [_item(label, counted(counts[label], "experiment")) for label in offered[:_MOST]]


@_from_store
def experiment_names(database: Database, incomplete: str) -> list[CompletionItem]:
    """Offer the distinct names of experiments."""
    found = database.execute(
        # Not LIKE, in which % and _ of the typed text would be wildcards.
        "SELECT name, COUNT(*) FROM experiments WHERE archived = 0 AND substr(name, 1, ?) = ? "
        "GROUP BY name ORDER BY name LIMIT ?",
        [len(incomplete), incomplete, _MOST],
    )
    return [_item(name, counted(count, "experiment")) for name, count in found]


@_from_store
def trial_ids(database: Database, incomplete: str) -> list[CompletionItem]:
    """Offer trials, newest first; in a list such as `3,4` the last id is completed."""
    return _trials(database, incomplete, lambda row: True)


@_from_store
def running_trial_ids(database: Database, incomplete: str) -> list[CompletionItem]:
    """Offer trials that can be killed, newest first."""
    from determined.experiment.possible_actions import why_not_kill

    return _trials(database, incomplete, lambda row: why_not_kill(row) is None)


def _trials(database: Database, incomplete: str, suits: Callable[[Trial], bool]) -> list[CompletionItem]:
    """Return the trials whose id starts with the last entry of the list and to which the command applies."""
    from determined.store.sql.experiment_columns import SELECT_TRIALS, trial

    before, last = _last_of_list(incomplete)
    found = database.execute(
        f"{SELECT_TRIALS} WHERE CAST(t.id AS TEXT) LIKE ? ORDER BY t.id DESC LIMIT ?", [f"{last}%", _MOST_READ]
    )
    rows = [row for row in map(trial, found) if suits(row)][:_MOST]
    return [_item(f"{before}{row.id}", f"experiment {row.experiment_id} {row.state}") for row in rows]


@_from_store
def checkpoint_uuids(database: Database, incomplete: str) -> list[CompletionItem]:
    """Offer checkpoints that can be loaded, newest first."""
    before, last = _last_of_list(incomplete)
    found = database.execute(
        "SELECT uuid, trial_id, steps_completed FROM checkpoints WHERE state = 'ACTIVE' AND substr(uuid, 1, ?) = ? "
        "ORDER BY id DESC LIMIT ?",
        [len(last), last, _MOST],
    )
    return [_item(f"{before}{uuid}", f"trial {trial_id}, batch {steps}") for uuid, trial_id, steps in found]


@_from_store
def model_names(database: Database, incomplete: str) -> list[CompletionItem]:
    """Offer the names of models."""
    found = database.execute(
        "SELECT name, description FROM models WHERE archived = 0 AND substr(name, 1, ?) = ? ORDER BY name LIMIT ?",
        [len(incomplete), incomplete, _MOST],
    )
    return [_item(name, description) for name, description in found]


def _database() -> Database | None:
    """Return the existing store, or None: completion neither creates nor migrates one, nor waits long for a server."""
    import os
    from pathlib import Path

    from determined.store.databases import location as places
    from determined.store.open import checked_place, open_database

    place = checked_place()
    if places.is_postgres(place):
        # Seconds. Without it a server that does not answer would block the shell.
        os.environ.setdefault("PGCONNECT_TIMEOUT", "2")
    elif not Path(place).is_file():
        return None
    return open_database(place)


def _last_of_list(incomplete: str) -> tuple[str, str]:
    """Split a comma-separated list into everything before the last entry, and the last entry."""
    before, comma, last = incomplete.rpartition(",")
    return before + comma, last


def _item(value: str, help_text: str) -> Any:
    """Return a completion with a short explanation, which some shells show."""
    # Shells show the explanation beside the word; longer ones would be wrapped.
    return CompletionItem(value, help=visible(help_text)[:60])
