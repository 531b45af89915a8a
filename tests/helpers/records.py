"""Reads from the store what runs have recorded.

rows = metrics(data_home, "validation")        # of all runs below a data directory, in order
assert run_of(context).phase == "training"     # of one run that is open, or was
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from determined import core
from determined.store.open import open_store
from determined.store.records import Metric, Run, StoredCheckpoint
from determined.store.store import Store


@contextmanager
def opened(data_home: Path | None = None) -> Iterator[Store]:
    """Open the store below a data directory, by default that of the current test."""
    store = open_store(None if data_home is None else data_home / "determined" / "store.sqlite")
    try:
        yield store
    finally:
        store.close()


def runs(data_home: Path | None = None) -> list[Run]:
    """Return all runs, the oldest first."""
    with opened(data_home) as store:
        return store.runs()[::-1]


def run_of(context: core.Context) -> Run:
    """Return the record of a run."""
    context._supervisor.flush()
    (run,) = [run for run in runs() if run.attempt.run_dir == str(context.run_dir)]
    return run


def metrics_of(context: core.Context) -> list[Metric]:
    """Return the reports of the run of a context, in order, samples last."""
    context._supervisor.flush()
    found: list[Metric] = []
    with opened() as store:
        for run in store.runs():
            if run.attempt.run_dir == str(context.run_dir):
                found += [*store.metrics(run.trial_id), *store.samples(run.trial_id)]
    return found


def checkpoints(data_home: Path) -> list[Path]:
    """Return the directories of the checkpoints below a data directory, the oldest first."""
    return [data_home / "determined" / "checkpoints" / row.checkpoint_id for row in announced(data_home)]


def announced(data_home: Path) -> list[StoredCheckpoint]:
    """Return the records of the checkpoints of all runs, the oldest first."""
    with opened(data_home) as store:
        found = [row for run in store.runs() for row in store.checkpoints(run.trial_id)]
    return sorted(found, key=lambda row: row.reported)


def metrics(data_home: Path, group: str) -> list[dict[str, Any]]:
    """Return the reports of the runs below a data directory, in order, each with its `steps_completed`."""
    with opened(data_home) as store:
        found = [row for run in store.runs()[::-1] for row in store.metrics(run.trial_id, group)]
    return [{"steps_completed": row.steps_completed, **row.metrics} for row in found]
