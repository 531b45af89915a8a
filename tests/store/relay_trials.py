"""Trials of a search in an SQLite store, whose jobs use the store through a relay."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from determined.store.experiment_changes import Change, TrialChange
from determined.store.experiment_records import Lease
from determined.store.open import open_store
from determined.store.relay.client import RelayedWorkerStore
from determined.store.relay.server import RelayServer
from determined.store.store import Store
from determined.store.workers.worker_store import WorkerStore
from tests.helpers.relay import Relay, serving
from tests.store.experiments import with_trials

# Values that differ between two stores with the same content.
_RANDOM = {"changes", "rewrites", "since"}
_TIMED = {"leases", "models", "model_versions"}  # tables of the runner and of users, with the time of day


class Served:
    """A store with trials, each with a current job, and the relay through which the jobs use it."""

    def __init__(self, path: Path, trials: int) -> None:
        self.path = path
        self.store = open_store(path)
        self.lease: Lease
        self.lease, self.trials = with_trials(self.store, trials, key="the-experiment")
        self.jobs: dict[str, int] = {}
        for trial_id in self.trials:
            self.start(trial_id, f"job-{trial_id}")
        self.server = RelayServer(lambda: open_store(path))
        self.relay: Relay

    def start(self, trial_id: int, job: str) -> None:
        """Make a job the current one of its trial, as a runner does before it starts the job."""
        change = TrialChange(trial_id, state="RUNNING", allocation=job)
        self.store.experiments.commit(self.lease, Change(trials=(change,)))
        self.jobs = {**{key: of for key, of in self.jobs.items() if of != trial_id}, job: trial_id}

    def current(self, job: str) -> int | None:
        return self.jobs.get(job)

    def worker(self, job: str) -> WorkerStore:
        return cast(WorkerStore, RelayedWorkerStore(self.relay.path, job))

    def rows(self) -> dict[str, list[Any]]:
        return rows_of(self.path)


@contextmanager
def served(path: Path, trials: int = 1) -> Iterator[Served]:
    made = Served(path, trials)
    try:
        with serving(made.server, made.current) as made.relay:
            yield made
    finally:
        made.store.close()


def same_identity(one: Store, other: Path) -> None:
    """Give a store the identity of another one, so that their contents can be compared."""
    with sqlite3.connect(other) as connection:
        ((identity,),) = connection.execute("SELECT uuid FROM store_identity").fetchall()
    one._database.execute("UPDATE store_identity SET uuid = ?", [identity])


def rows_of(path: Path) -> dict[str, list[Any]]:
    """Return all rows of a store, without random values."""
    connection = sqlite3.connect(path)
    try:
        connection.row_factory = sqlite3.Row
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            table: [
                {name: row[name] for name in row.keys() if name not in _RANDOM}  # noqa: SIM118
                for row in connection.execute(f"SELECT * FROM {table}")
            ]
            for table in tables
            if table not in _TIMED
        }
    finally:
        connection.close()
