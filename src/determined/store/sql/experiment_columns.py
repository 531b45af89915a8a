"""The queries that read experiments and trials, and the functions that build records from their rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from determined.store import standalone_runs
from determined.store.databases.base import Database
from determined.store.experiment_records import Experiment, Trial
from determined.store.process import Process
from determined.store.sql import leases
from determined.store.states import trial_progress

# Field of the record -> SQL expression for its value.
_EXPERIMENT = {
    **{
        name: f"e.{name}"
        for name in (
            *("id", "key", "program", "name", "description", "labels", "state", "progress", "seed"),
            *("config", "original", "code_dir", "owner", "archived", "parent_id", "created", "ended", "reason"),
            *("metric", "smaller_is_better", "last_request", "notes", "external_id", "borrowed"),
        )
    },
    "is_standalone": "e.by_hand",
    "trial_count": "(SELECT count(*) FROM trials t WHERE t.experiment_id = e.id)",
    "best": "CASE WHEN e.smaller_is_better = 1 "
    "THEN (SELECT min(t.best_metric) FROM trials t WHERE t.experiment_id = e.id) "
    "ELSE (SELECT max(t.best_metric) FROM trials t WHERE t.experiment_id = e.id) END",
}
_TRIAL = {
    **{
        name: f"t.{name}"
        for name in (
            *("id", "experiment_id", "number", "request_id", "hparams", "seed", "state", "goal", "rungs", "bracket"),
            *("allocation", "runs", "restarts", "reason", "phase", "progress", "early_exit"),
            *("stop_acknowledged", "steps_completed", "created", "ended", "external_id", "passed_hparams"),
            *("follows_operations", "nodes"),
        )
    },
    "source_checkpoint_id": "t.source",
    "best": "t.best_metric",
    "latest_checkpoint": "(SELECT c.uuid FROM checkpoints c WHERE c.trial_id = t.id AND c.state = 'ACTIVE' "
    "ORDER BY c.id DESC LIMIT 1)",
    # Programs that do not use the library create no attempts; for them the runner stores the start in the trial.
    "started": "coalesce((SELECT f.started FROM attempts f WHERE f.trial_id = t.id AND f.number = 1), t.started)",
}

# A standalone run has no state in its own row: it follows from its newest attempt.
_RUN = "t.progress, t.reason, a.id, a.state, a.ended, a.host, a.pid, a.process_started"

# Joins only the first trial, so that there is one row for each experiment; see `_with_its_trials`.
_SELECT_EXPERIMENTS = f"""SELECT {", ".join(_EXPERIMENT.values())}, {leases.COLUMNS}, {_RUN}
FROM experiments e
LEFT JOIN leases l ON l.experiment_id = e.id
LEFT JOIN trials t ON e.by_hand = 1 AND t.experiment_id = e.id AND t.number = 0
LEFT JOIN attempts a ON a.trial_id = t.id AND a.number = t.attempt"""

SELECT_TRIALS = f"""SELECT {", ".join(_TRIAL.values())}, a.command, a.git_commit, a.exit_code, {_RUN}
FROM trials t
LEFT JOIN attempts a ON a.trial_id = t.id AND a.number = t.attempt"""


def read_experiments(database: Database, which: str, values: Sequence[Any] = ()) -> list[Experiment]:
    """Return the experiments selected by an SQL suffix (`WHERE`, `ORDER BY`, ...) in which `e` is the experiment."""
    found = [_experiment(row) for row in database.execute(f"{_SELECT_EXPERIMENTS} {which}", values)]
    # Only for several trials, which is rare: lists of experiments need one query.
    return [_with_its_trials(database, one) if one.is_standalone and one.trial_count > 1 else one for one in found]


def _with_its_trials(database: Database, experiment: Experiment) -> Experiment:
    """Return a standalone experiment with its status computed over all its trials."""
    found = database.execute(
        f"SELECT {_RUN} FROM trials t JOIN attempts a ON a.trial_id = t.id AND a.number = t.attempt "
        "WHERE t.experiment_id = ?",
        [experiment.id],
    )
    return experiment._replace(**standalone_runs.experiment_status(map(_run, found))._asdict())


def _run(row: Sequence[Any]) -> standalone_runs.RunOfTrial:
    """Build the record of a standalone trial from the columns `_RUN`."""
    progress, reason, attempt_id, attempt_state, ended, *process = row
    return standalone_runs.RunOfTrial(progress, reason, attempt_id, attempt_state, ended, Process(*process))


def _experiment(row: Sequence[Any]) -> Experiment:
    """Build an `Experiment` from a row."""
    values, more = _named(_EXPERIMENT, row)
    holder, run = leases.holder(*more[:6]), more[6:]
    values["config"], values["labels"] = json.loads(values["config"]), json.loads(values["labels"])
    for name in ("is_standalone", "archived", "smaller_is_better", "borrowed"):
        values[name] = bool(values[name])
    if values["is_standalone"]:
        values["name"] = values["name"] or standalone_runs.name(values["config"], values["program"])
        values |= standalone_runs.experiment_status([_run(run)])._asdict()
    return Experiment(**values, holder=holder)


def trial(row: Sequence[Any]) -> Trial:
    """Build a `Trial` from a row of `SELECT_TRIALS`."""
    values, (command, git_commit, exit_code, *columns) = _named(_TRIAL, row)
    run = _run(columns)
    values |= {"command": command, "git_commit": git_commit, "exit_code": exit_code, "host": run.process.host}
    values["hparams"], values["rungs"] = json.loads(values["hparams"]), json.loads(values["rungs"])
    passed = values["passed_hparams"]
    values["passed_hparams"] = None if passed is None else json.loads(passed)
    values["nodes"] = None if values["nodes"] is None else json.loads(values["nodes"])
    for name in ("stop_acknowledged", "follows_operations"):
        values[name] = bool(values[name])
    if values["state"] is None:  # a standalone run
        values |= standalone_runs.trial_status(run)._asdict()
    values["progress"] = trial_progress(values["state"], values["progress"])
    return Trial(**values)


def _named(fields: dict[str, str], row: Sequence[Any]) -> tuple[dict[str, Any], Sequence[Any]]:
    """Return the leading columns of a row by field name, and the remaining columns."""
    # `strict=False`: further columns follow those of the record.
    return dict(zip(fields, row, strict=False)), row[len(fields) :]
