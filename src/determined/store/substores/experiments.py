"""The experiments of a store: searches, which one runner at a time may change, and standalone runs."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from determined.errors import NotFoundException, StoreError
from determined.store.databases.base import Database
from determined.store.experiment_records import (
    ALL_EXPERIMENTS,
    Experiment,
    ExperimentFilter,
    ExperimentRequest,
    ExperimentRequestKind,
    JournalEntry,
    Lease,
    Trial,
    TrialDecision,
)
from determined.store.process import Process
from determined.store.records import Metric, StoredCheckpoint
from determined.store.sql import columns, leases
from determined.store.sql import experiment_columns as rows
from determined.store.sql.columns import text
from determined.store.sql.experiment_filter import conditions_of
from determined.store.sql.requests import requests_to

if TYPE_CHECKING:
    from determined.store.experiment_changes import Change, NewExperiment

# `list` names a method of the class below, so its annotations need another name for the type.
ListOfExperiments = list[Experiment]
ListOfIds = list[int]

# SQLite wants a LIMIT before an OFFSET, and PostgreSQL does not know -1 for "all".
_ALL_ROWS = 2**31 - 1


class Experiments:
    """The experiments of a store.

    Calls may be repeated if their answer was lost: creating or committing the same thing again changes nothing and
    returns the same answer, acquiring again returns a newer lease, and a repeated request is a second request. An
    unknown id raises a `StoreError` that names it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, new: NewExperiment) -> int:
        """Create an experiment and return its id."""
        # Exclusive, otherwise a retry that overlaps with the lost call could find no row either, and fail on the
        # unique key.
        with self._database.transaction(exclusive=True):
            known = self._database.execute("SELECT id FROM experiments WHERE key = ?", [new.key])
            if known:  # a retry after the answer to an earlier call was lost
                return int(known[0][0])
            self._insert(new)
            ((experiment_id,),) = self._database.execute("SELECT id FROM experiments WHERE key = ?", [new.key])
            # The row exists before any runner does, so that acquiring the lease always has a row to lock.
            self._database.execute("INSERT INTO leases (experiment_id) VALUES (?)", [experiment_id])
            return int(experiment_id)

    def acquire(self, experiment_id: int, process: Process, *, watch_seconds: float = 20.0) -> Lease:
        """Acquire the lease of an experiment, or raise `ExperimentHeld` if another process is running it.

        The lease is taken immediately if it has no holder, or the holder is this process or a dead process on this
        machine. Otherwise the holder's heartbeat is watched: if it advances, the holder is alive; if it has not
        advanced for `watch_seconds`, the experiment is taken over.
        """
        # Runners send a heartbeat every second, so 20 seconds without one mean that the holder is dead or frozen.
        return leases.acquire(self._database, experiment_id, process, watch_seconds=watch_seconds)

    def heartbeat(self, lease: Lease) -> None:
        """Advance the heartbeat of a lease. Raise `LeaseLost` if another process has taken over."""
        with self._database.transaction():
            leases.beat(self._database, lease)

    def release(self, lease: Lease) -> None:
        """Give up a lease. A lease that was already lost is ignored."""
        leases.release(self._database, lease)

    def commit(self, lease: Lease, change: Change) -> list[int]:
        """Write a change in one transaction and return the ids of its new trials.

        Raise `LeaseLost` if another process has taken over. A commit also counts as a heartbeat.
        """
        from determined.store.sql.changes import write_change

        with self._database.transaction():
            # First, because it locks the row of the lease: a process that lost it must not write anything of the
            # change.
            leases.beat(self._database, lease)
            return write_change(self._database, lease.experiment_id, change)

    def get(self, experiment_id: int) -> Experiment:
        """Return an experiment; raise NotFoundException if it does not exist."""
        found = rows.read_experiments(self._database, "WHERE e.id = ?", [experiment_id])
        if not found:
            raise self._no("experiment", experiment_id)
        return found[0]

    def trials(self, experiment_id: int) -> list[Trial]:
        """Return the trials of an experiment, ordered by number."""
        found = self._database.execute(
            f"{rows.SELECT_TRIALS} WHERE t.experiment_id = ? ORDER BY t.number", [experiment_id]
        )
        # Only an empty result needs a second query, to tell an experiment without trials from an unknown id.
        if not found:
            self._check(experiment_id)
        return [rows.trial(row) for row in found]

    def trial(self, trial_id: int) -> Trial:
        """Return a trial; raise NotFoundException if it does not exist."""
        found = self._database.execute(f"{rows.SELECT_TRIALS} WHERE t.id = ?", [trial_id])
        if not found:
            raise self._no("trial", trial_id)
        return rows.trial(found[0])

    def journal(self, experiment_id: int, after: int = 0) -> list[JournalEntry]:
        """Return the journal entries with a sequence number above `after`, in order."""
        found = self._database.execute(
            "SELECT sequence, event, actions FROM journal WHERE experiment_id = ? AND sequence > ? ORDER BY sequence",
            [experiment_id, after],
        )
        return [JournalEntry(sequence, json.loads(event), json.loads(actions)) for sequence, event, actions in found]

    def snapshot(self, experiment_id: int) -> tuple[int, dict[str, Any]] | None:
        """Return the newest searcher snapshot and the sequence number of the last entry that it includes, or None."""
        found = self._database.execute("SELECT sequence, body FROM snapshots WHERE experiment_id = ?", [experiment_id])
        return (found[0][0], json.loads(found[0][1])) if found else None

    def validations(self, trial_id: int, after: tuple[int, int] = (0, -1)) -> list[Metric]:
        """Return the trial's validations that are not archived, in the order they were reported.

        `after` is the attempt and sequence number of the last validation that the caller already has.
        """
        attempt, sequence = after
        # Not ordered by time: clocks can be set back, and a restarted trial may run on a host with another clock.
        found = self._database.execute(
            f"SELECT {columns.METRIC} FROM metrics WHERE trial_id = ? AND metric_group = 'validation' AND archived = 0 "
            "AND rank = 0 AND (attempt > ? OR (attempt = ? AND sequence > ?)) ORDER BY attempt, sequence",
            [trial_id, attempt, attempt, sequence],
        )
        return [columns.metric(row) for row in found]

    def best_validation(self, experiment_id: int, metric: str, smaller_is_better: bool) -> float | None:
        """Return the best value of a validation metric over all trials, or None.

        Values that are not finite are ignored.
        """
        from determined.store.sql.best import best_of_experiment

        found = self._database.execute(
            "SELECT e.metric, e.smaller_is_better, min(t.best_metric), max(t.best_metric) FROM experiments e "
            "LEFT JOIN trials t ON t.experiment_id = e.id WHERE e.id = ? GROUP BY e.id",
            [experiment_id],
        )
        if not found:
            raise self._no("experiment", experiment_id)
        own_metric, own_direction, smallest, largest = found[0]
        # The trials' rows have the best values of the experiment's own metric, so no report has to be read.
        if metric == own_metric and smaller_is_better == bool(own_direction):
            best: float | None = smallest if smaller_is_better else largest
            return best
        return best_of_experiment(self._database, experiment_id, metric, smaller_is_better)

    def checkpoints(self, experiment_id: int) -> list[StoredCheckpoint]:
        """Return the checkpoints of all trials of an experiment, newest first."""
        found = self._database.execute(
            f"{columns.SELECT_CHECKPOINTS} "
            "JOIN trials t ON t.id = c.trial_id WHERE t.experiment_id = ? ORDER BY c.id DESC",
            [experiment_id],
        )
        return [columns.checkpoint(row) for row in found]

    def has_results(self, experiment_id: int) -> bool:
        """Return whether any trial has reported a metric or saved a checkpoint, even one that was deleted since."""
        self._check(experiment_id)
        return any(
            self._database.execute(
                f"SELECT 1 FROM {table} r JOIN trials t ON t.id = r.trial_id WHERE t.experiment_id = ? LIMIT 1",
                [experiment_id],
            )
            for table in ("metrics", "checkpoints")
        )

    def request(self, experiment_id: int, kind: ExperimentRequestKind, trial_id: int | None = None) -> int:
        """Add a request to the runner of an experiment and return the id of the request."""
        # Exclusive, so that ids become visible in order: a reader that saw a later id first would skip the earlier one.
        with self._database.transaction(exclusive=True):
            self._check(experiment_id)
            if trial_id is not None and self.trial(trial_id).experiment_id != experiment_id:
                raise StoreError(f"trial {trial_id} is not one of experiment {experiment_id}")
            self._database.execute(
                "INSERT INTO experiment_requests (experiment_id, trial_id, kind, created) VALUES (?, ?, ?, ?)",
                [experiment_id, trial_id, kind, time.time()],
            )
            # The largest id is that of this request, because no other transaction can have added one meanwhile.
            ((number,),) = self._database.execute(
                "SELECT max(id) FROM experiment_requests WHERE experiment_id = ?", [experiment_id]
            )
            return int(number)

    def cancel_paused(self, experiment_id: int, trial_id: int | None = None) -> list[int]:
        """Cancel the interrupted trials of a standalone experiment, or one of them, and return the ids of those.

        No process works on them, so nothing has to be asked to stop.
        """
        from determined.store.sql.standalone_runs import cancel_paused

        with self._database.transaction(exclusive=True):
            self._check(experiment_id)
            return cancel_paused(self._database, experiment_id, trial_id)

    def requests(self, experiment_id: int, after: int = 0) -> list[ExperimentRequest]:
        """Return the requests to an experiment with an id above `after`, in order."""
        found = self._database.execute(
            "SELECT id, experiment_id, trial_id, kind, created FROM experiment_requests "
            "WHERE experiment_id = ? AND id > ? ORDER BY id",
            [experiment_id, after],
        )
        return [ExperimentRequest(*row) for row in found]

    def decision(self, trial_id: int, after: int = 0) -> TrialDecision:
        """Return the runner's newest decision about a trial, with the requests that have an id above `after`."""
        # The requests are read after the goal, so that a stop request written together with a goal is never missed.
        found = self._database.execute("SELECT goal, allocation FROM trials WHERE id = ?", [trial_id])
        if not found:
            raise self._no("trial", trial_id)
        ((goal, allocation),) = found
        return TrialDecision(goal, allocation, requests_to(self._database, trial_id, after))

    def latest_validations(self, experiment_id: int) -> dict[int, dict[str, Any]]:
        """Return the metrics of the newest validation of each trial that has one, by the trial's id."""
        found = self._database.execute(
            "SELECT t.id, (SELECT m.body FROM metrics m WHERE m.trial_id = t.id AND m.metric_group = 'validation' "
            "AND m.archived = 0 AND m.rank = 0 ORDER BY m.step DESC LIMIT 1) FROM trials t WHERE t.experiment_id = ?",
            [experiment_id],
        )
        return {trial_id: json.loads(body) for trial_id, body in found if body is not None}

    def best_of_trials(self, experiment_id: int, metric: str, smaller_is_better: bool) -> dict[int, float]:
        """Return the best value of any validation metric for each trial that reported one, by the trial's id.

        All validations of the experiment are read; the best values of the searcher metric are in the trials' rows.
        """
        from determined.store.sql.best import best_of_trials

        return best_of_trials(self._database, experiment_id, metric, smaller_is_better)

    def ids_between(self, first: int, last: int) -> ListOfIds:
        """Return the ids of the experiments from `first` to `last`, in order."""
        return self._ids("experiments", first, last)

    def trial_ids_between(self, first: int, last: int) -> ListOfIds:
        """Return the ids of the trials from `first` to `last`, in order."""
        return self._ids("trials", first, last)

    def list(
        self,
        *,
        limit: int | None = 200,
        offset: int = 0,
        archived: bool = False,
        only: ExperimentFilter = ALL_EXPERIMENTS,
    ) -> ListOfExperiments:
        """Return experiments, standalone runs included, the newest first; `archived` adds archived ones.

        Without a `limit`, all of them.
        """
        conditions, values = conditions_of(self._database, only)
        if not archived:
            conditions.append("e.archived = 0")
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        return rows.read_experiments(
            self._database,
            f"{where} ORDER BY e.id DESC LIMIT ? OFFSET ?",
            [*values, _ALL_ROWS if limit is None else limit, offset],
        )

    def _insert(self, new: NewExperiment) -> None:
        """Insert the row of a new experiment."""
        self._database.execute(
            "INSERT INTO experiments (key, by_hand, program, name, description, labels, state, progress, seed, config, "
            "original, code_dir, owner, parent_id, created, metric, smaller_is_better) "
            "VALUES (?, 0, '', ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                new.key,
                text(new.name),
                text(new.description),
                json.dumps(new.labels),
                "PAUSED" if new.paused else "ACTIVE",
                new.seed,
                json.dumps(new.config),
                text(new.original),
                text(new.code_dir),
                text(new.owner),
                new.parent_id,
                new.created,
                text(new.metric),
                int(new.smaller_is_better),
            ],
        )

    def _ids(self, table: str, first: int, last: int) -> ListOfIds:
        """Return the ids of a table from `first` to `last`, in order."""
        found = self._database.execute(f"SELECT id FROM {table} WHERE id BETWEEN ? AND ? ORDER BY id", [first, last])
        return [int(number) for (number,) in found]

    def _check(self, experiment_id: int) -> None:
        """Raise `NotFoundException` if the experiment does not exist."""
        if not self._database.execute("SELECT 1 FROM experiments WHERE id = ?", [experiment_id]):
            raise self._no("experiment", experiment_id)

    def _no(self, what: str, number: int) -> NotFoundException:
        """Return the error for an id that does not exist."""
        return NotFoundException.of(what, number)
