"""Queries for standalone runs: create an experiment and its trial, or find those that the program named."""

from __future__ import annotations

import json

from determined.config.stored import StoredConfig
from determined.errors import TrialRunning
from determined.store.databases.base import Database
from determined.store.heartbeats import is_active
from determined.store.process import this_user
from determined.store.rows import AttemptStart, ComparedMetricRow, NewRun
from determined.store.sql import columns
from determined.store.sql.best import keep_best
from determined.store.sql.columns import optional_text, text


def find_named_trial(database: Database, start: AttemptStart) -> int | None:
    """Return the trial that the program gave this name before, or None.

    Raise `TrialRunning` while another process is running it.
    """
    run = start.run
    # A run that already works on a trial continues that one.
    if run.external_trial is None or start.allocation is not None or start.previous is not None:
        return None
    found = database.execute(
        f"SELECT {columns.ATTEMPT} FROM trials t JOIN experiments e ON e.id = t.experiment_id "
        "JOIN attempts a ON a.trial_id = t.id AND a.number = t.attempt WHERE e.external_id = ? AND t.external_id = ?",
        [optional_text(run.external_experiment), optional_text(run.external_trial)],
    )
    if not found:
        return None
    newest = columns.attempt(found[0])
    if is_active(newest):
        raise TrialRunning(
            newest.trial_id,
            f"trial {newest.trial_id}, which is {run.external_trial!r} of {run.external_experiment!r}, is running in "
            f"process {newest.process.pid} on {newest.process.host}: only one process at a time can continue it",
        )
    return newest.trial_id


def newest_saved_step(database: Database, trial_id: int) -> int:
    """Return the step of a trial's newest complete checkpoint, from which it resumes; 0 if it has none."""
    found = database.execute(
        "SELECT steps_completed FROM checkpoints WHERE trial_id = ? AND state = 'ACTIVE' ORDER BY id DESC LIMIT 1",
        [trial_id],
    )
    return int(found[0][0]) if found else 0


def add_trial(database: Database, start: AttemptStart, *, parent: int | None) -> int:
    """Create a trial in the experiment that the program named, or in a new one, and return its id."""
    experiment_id = _find_experiment(database, start.run) or _add_experiment(database, start)
    # The caller's transaction is exclusive, so no other process can take the same number.
    ((number,),) = database.execute(
        "SELECT coalesce(max(number) + 1, 0) FROM trials WHERE experiment_id = ?", [experiment_id]
    )
    database.execute(
        "INSERT INTO trials (experiment_id, number, parent_id, hparams, created, seed, external_id) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            experiment_id,
            number,
            parent,
            # `default=repr`: hyperparameters may be any objects, and are stored as text if JSON cannot hold them.
            json.dumps(start.run.hparams, default=repr),
            start.run.created,
            start.run.seed,
            optional_text(start.run.external_trial),
        ],
    )
    ((trial_id,),) = database.execute(
        "SELECT id FROM trials WHERE experiment_id = ? AND number = ?", [experiment_id, number]
    )
    return int(trial_id)


def cancel_paused(database: Database, experiment_id: int, trial_id: int | None) -> list[int]:
    """Cancel the interrupted trials of a standalone experiment, or one of them, and return the ids of those."""
    found = database.execute(
        "SELECT a.trial_id, a.number FROM attempts a JOIN trials t ON t.id = a.trial_id AND t.attempt = a.number "
        "JOIN experiments e ON e.id = t.experiment_id "
        "WHERE e.id = ? AND e.by_hand = 1 AND a.state = 'stopped' ORDER BY a.trial_id",
        [experiment_id],
    )
    chosen = [row for row in found if trial_id in (None, row[0])]
    for row in chosen:
        database.execute("UPDATE attempts SET state = 'canceled' WHERE trial_id = ? AND number = ?", list(row))
    return [int(trial) for trial, _ in chosen]


def set_metric(database: Database, row: ComparedMetricRow) -> None:
    """Record the validation metric that compares the checkpoints of a standalone run, and update the best values."""
    found = database.read_locked(
        "SELECT e.id, e.metric, e.smaller_is_better FROM experiments e JOIN trials t ON t.experiment_id = e.id "
        "WHERE t.id = ? AND e.by_hand = 1",
        [row.trial_id],
    )
    metric = (text(row.metric), int(row.smaller_is_better))
    if not found or found[0][1:] == metric:
        return
    experiment_id = found[0][0]
    database.execute(
        "UPDATE experiments SET metric = ?, smaller_is_better = ? WHERE id = ?",
        [*metric, experiment_id],
    )
    # In the order of their ids, as every transaction locks trials; otherwise two could deadlock.
    for (trial,) in database.execute("SELECT id FROM trials WHERE experiment_id = ? ORDER BY id", [experiment_id]):
        database.read_locked("SELECT id FROM trials WHERE id = ?", [trial])  # required by `keep_best`
        keep_best(database, trial)


def _find_experiment(database: Database, run: NewRun) -> int | None:
    """Return the id of the experiment that the program named, or None."""
    found = database.execute(
        "SELECT id FROM experiments WHERE external_id = ?", [optional_text(run.external_experiment)]
    )
    return int(found[0][0]) if found else None


def _add_experiment(database: Database, start: AttemptStart) -> int:
    """Create the experiment of a standalone run and return its id."""
    run = start.run
    config = StoredConfig(run.config)
    labels, metric = run.labels or config.labels, config.searcher.metric
    database.execute(
        "INSERT INTO experiments (key, by_hand, program, config, created, description, labels, metric, "
        "smaller_is_better, external_id, owner, notes) VALUES (?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            start.key,
            text(run.program),
            json.dumps(run.config, default=repr),
            run.created,
            text(str(config.description)),
            json.dumps([str(label) for label in labels]),
            None if metric is None else text(str(metric)),
            int(bool(config.searcher.smaller_is_better)),
            optional_text(run.external_experiment),
            this_user(),
            text(run.notes),
        ],
    )
    ((experiment_id,),) = database.execute("SELECT id FROM experiments WHERE key = ?", [start.key])
    return int(experiment_id)
