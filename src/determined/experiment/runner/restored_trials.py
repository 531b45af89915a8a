"""Restore the trials of an experiment from the store, for a runner that resumes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from determined.config.secrets.fixed_secrets import unmask_fixed
from determined.experiment.runner.fail_fast import TWICE
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.searchers.base import Action, Continue, Create, Pause, Stop
from determined.searchers.journal import action_from_plain
from determined.store.experiment_records import JournalEntry, Trial


def trials(rows: Sequence[Trial], journal: Sequence[JournalEntry], space: dict[str, Any]) -> list[LiveTrial]:
    """Return the trials of these rows; those whose processes ended with their runner are queued to be started again."""
    known = {row.number: _from_row(row, space) for row in rows}
    for entry in journal:
        for action in _actions(entry):
            _apply(action, known)
    return list(known.values())


def created(action: Create, trial_id: int, source: str | None) -> LiveTrial:
    """Return a trial that the searcher has just created."""
    return LiveTrial(
        id=trial_id,
        number=action.number,
        request_id=action.request_id,
        hparams=action.hparams,
        seed=action.seed,
        bracket=action.bracket,
        rungs=action.rungs,
        goal=action.goal,
        state="QUEUED",
        source=source if action.source is None else None,
        source_number=action.source,
    )


def _from_row(row: Trial, space: dict[str, Any]) -> LiveTrial:
    """Return a trial as its row describes it."""
    live = row.state in ("RUNNING", "STOPPING", "PAUSED")
    return LiveTrial(
        id=row.id,
        number=row.number,
        request_id=row.request_id,
        hparams=unmask_fixed(row.hparams, space),
        seed=row.seed,
        bracket=row.bracket,
        rungs=tuple(row.rungs),
        goal=row.goal,
        state="QUEUED" if live else row.state,
        source=row.source,
        runs=row.runs,
        restarts=row.restarts,
        failure_without_report=row.reason if row.restarts and not row.steps_completed else None,
        repeated_error=row.reason.removesuffix(TWICE) if row.reason and row.reason.endswith(TWICE) else None,
        owes_restart=0 < row.runs <= row.restarts,
        best=row.best,
        steps=row.steps_completed,
        passed_hparams=row.passed_hparams,
    )


def _actions(entry: JournalEntry) -> list[Action]:
    return [action_from_plain(action) for action in entry.actions]


def _apply(action: Action, known: dict[int, LiveTrial]) -> None:
    """Apply the searcher's last action to a trial; goals and states come from the rows."""
    trial = known.get(action.number)
    if trial is None:
        return
    if isinstance(action, Create):
        trial.source_number = action.source if trial.source is None and trial.runs == 0 else None
    elif isinstance(action, Stop):
        trial.ended_by = "finish" if action.finished else "stop"
    elif isinstance(action, (Pause, Continue)):
        trial.suspended = isinstance(action, Pause)
