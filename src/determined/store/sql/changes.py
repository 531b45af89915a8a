"""Writes one `Change`, the rows that belong to one decision of a runner, inside the caller's transaction.

Every write is idempotent, because the runner retries when the database's answer is lost: journal entries and trials are
identified by number, values are set instead of incremented, and a request equal to the newest one is not added again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from determined.errors import StoreError
from determined.stop_request import StopRequest
from determined.store.databases.base import Database
from determined.store.experiment_changes import (
    UNCHANGED,
    Change,
    ExperimentChange,
    NewTrial,
    TrialChange,
)
from determined.store.experiment_records import JournalEntry
from determined.store.sql.columns import text
from determined.store.sql.requests import last_request, newest_request
from determined.store.states import TRIAL_ENDED


def write_change(database: Database, experiment_id: int, change: Change) -> list[int]:
    """Write the rows of a change and return the ids of its new trials."""
    # The journal comes first, because the snapshot records the number of its last entry.
    _write_journal(database, experiment_id, change.journal)
    if change.snapshot is not None:
        _write_snapshot(database, experiment_id, change.snapshot)
    ids = _write_new_trials(database, experiment_id, change.new_trials)
    columns: dict[int, dict[str, Any]] = {}
    for trial in change.trials:
        columns.setdefault(trial.trial_id, {}).update(_trial_columns(trial))
    # Every transaction locks trial rows in the order of their ids, otherwise two transactions could deadlock.
    for trial_id in sorted(columns):
        _write_trial(database, experiment_id, trial_id, columns[trial_id])
    # At most one request for each trial: of several in one change, the last counts.
    for trial_id, kind in sorted(dict(change.requests).items()):
        _write_request(database, experiment_id, trial_id, kind)
    if change.experiment is not None:
        _write_experiment(database, experiment_id, change.experiment)
    return ids


def _write_journal(database: Database, experiment_id: int, entries: Sequence[JournalEntry]) -> None:
    """Insert journal entries. Raise `StoreError` if an entry with the same number but other contents exists."""
    if not entries:
        return
    rows = {entry.sequence: (json.dumps(entry.event), json.dumps(entry.actions)) for entry in entries}
    database.insert(
        "journal (experiment_id, sequence, event, actions)",
        [(experiment_id, sequence, *body) for sequence, body in rows.items()],
        "DO NOTHING",
    )
    # A range and not a list of numbers, because the number of bound values is limited.
    found = database.execute(
        "SELECT sequence, event, actions FROM journal WHERE experiment_id = ? AND sequence BETWEEN ? AND ?",
        [experiment_id, min(rows), max(rows)],
    )
    for sequence, *body in found:
        # Different contents mean that two runners decided about the same event, which the lease should prevent.
        if tuple(body) != rows.get(sequence, tuple(body)):
            raise StoreError(
                f"entry {sequence} of the journal of experiment {experiment_id} exists already with different content"
            )


def _write_snapshot(database: Database, experiment_id: int, snapshot: dict[str, Any]) -> None:
    """Replace the searcher's snapshot, recording the last journal entry that it includes."""
    # The largest number in the table, which includes the entries of this change and those of an earlier call.
    ((sequence,),) = database.execute("SELECT max(sequence) FROM journal WHERE experiment_id = ?", [experiment_id])
    database.insert(
        "snapshots (experiment_id, sequence, body)",
        [(experiment_id, sequence or 0, json.dumps(snapshot))],
        "(experiment_id) DO UPDATE SET sequence = excluded.sequence, body = excluded.body",
    )


def _write_new_trials(database: Database, experiment_id: int, trials: Sequence[NewTrial]) -> list[int]:
    """Insert trials and return their ids. Raise `StoreError` if a number is taken by a different trial."""
    if not trials:
        return []
    database.insert(
        "trials (experiment_id, number, request_id, hparams, seed, state, goal, rungs, bracket, source, created)",
        [
            (
                experiment_id,
                trial.number,
                trial.request_id,
                json.dumps(trial.hparams),
                trial.seed,
                "QUEUED",
                trial.goal,
                json.dumps(trial.rungs),
                trial.bracket,
                trial.source_checkpoint_id,
                trial.created,
            )
            for trial in trials
        ],
        "(experiment_id, number) DO NOTHING",
    )
    numbers = [trial.number for trial in trials]
    found = database.execute(
        "SELECT number, id, request_id FROM trials WHERE experiment_id = ? AND number BETWEEN ? AND ?",
        [experiment_id, min(numbers), max(numbers)],
    )
    known = {number: (trial_id, request_id) for number, trial_id, request_id in found}
    for trial in trials:
        # The same number with another request id means that two searches wrote to the experiment.
        if known[trial.number][1] != trial.request_id:
            raise StoreError(f"experiment {experiment_id} has another trial with the number {trial.number} already")
    return [known[number][0] for number in numbers]


def _trial_columns(change: TrialChange) -> dict[str, Any]:
    """Return the columns of a trial's row that a change sets, with their new values."""
    columns = _given(
        state=change.state,
        allocation=change.allocation,
        runs=change.runs,
        restarts=change.restarts,
        started=change.started,
        reason=None if change.reason is None else text(change.reason),
        source=change.source_checkpoint_id,
        hparams=None if change.hparams is None else json.dumps(change.hparams),
        nodes=None if change.nodes is None else json.dumps(change.nodes),
    )
    if change.goal is not UNCHANGED:
        columns["goal"] = change.goal
    return columns | _end(change.state, change.ended)


def _write_trial(database: Database, experiment_id: int, trial_id: int, columns: dict[str, Any]) -> None:
    """Update the row of a trial. A new allocation also resets the status that workers of the previous one reported."""
    found = database.read_locked(
        "SELECT allocation, started FROM trials WHERE id = ? AND experiment_id = ?", [trial_id, experiment_id]
    )
    if not found:
        raise StoreError(f"experiment {experiment_id} has no trial with the id {trial_id}")
    ((allocation, started),) = found
    if started is not None:  # the first start counts
        columns.pop("started", None)
    if columns.get("allocation", allocation) != allocation:
        columns |= {"phase": "", "progress": None, "early_exit": None, "stop_acknowledged": 0}
        # Requests up to this one were made to the previous allocation and must not stop the new one.
        columns["last_request"] = last_request(database, trial_id)
    _update(database, "trials", trial_id, columns)
    if columns.get("reason"):
        # A process that was killed cannot say so, and the reason of a trial is replaced when its next attempt ends.
        database.execute(
            "UPDATE attempts SET reason = ? WHERE trial_id = ? AND state IN ('running', 'failed') AND reason IS NULL "
            "AND number = (SELECT attempt FROM trials WHERE id = ?)",
            [columns["reason"], trial_id, trial_id],
        )


def _write_request(database: Database, experiment_id: int, trial_id: int, kind: StopRequest) -> None:
    """Add a request to a trial's workers unless the newest request is of the same kind."""
    if not database.execute("SELECT 1 FROM trials WHERE id = ? AND experiment_id = ?", [trial_id, experiment_id]):
        raise StoreError(f"experiment {experiment_id} has no trial with the id {trial_id}")
    if newest_request(database, trial_id) != kind:
        database.execute(
            "INSERT INTO requests (trial_id, kind, created) VALUES (?, ?, ?)", [trial_id, kind, time.time()]
        )


def _write_experiment(database: Database, experiment_id: int, change: ExperimentChange) -> None:
    """Write the changed columns of an experiment."""
    columns = _given(
        state=change.state,
        progress=change.progress,
        reason=None if change.reason is None else text(change.reason),
        name=None if change.name is None else text(change.name),
        archived=None if change.archived is None else int(change.archived),
        last_request=change.last_request,
    )
    if change.config is not None:
        columns["config"] = json.dumps(change.config)
    if change.max_trials is not None:
        columns["config"] = _config_with_max_trials(database, experiment_id, change.max_trials)
    _update(database, "experiments", experiment_id, columns | _end(change.state, change.ended))


def _config_with_max_trials(database: Database, experiment_id: int, max_trials: int) -> str:
    """Return the stored configuration with another number of trials, as JSON."""
    ((body,),) = database.execute("SELECT config FROM experiments WHERE id = ?", [experiment_id])
    # Merged into the stored configuration: a user may have changed other blocks since the runner read it.
    config = json.loads(body)
    return json.dumps({**config, "searcher": {**config.get("searcher", {}), "max_trials": max_trials}})


def _end(state: str | None, ended: float | None) -> dict[str, Any]:
    """Return the `ended` column: cleared if the new state is not terminal, otherwise set if a time is given."""
    if state is not None and state not in TRIAL_ENDED:
        return {"ended": None}
    return _given(ended=ended)


def _given(**columns: Any) -> dict[str, Any]:
    """Return the columns whose value is not None."""
    return {name: value for name, value in columns.items() if value is not None}


def _update(database: Database, table: str, row_id: int, columns: Mapping[str, Any]) -> None:
    """Update the given columns of a row, if there are any."""
    if columns:
        assignments = ", ".join(f"{name} = ?" for name in columns)
        database.execute(f"UPDATE {table} SET {assignments} WHERE id = ?", [*columns.values(), row_id])
