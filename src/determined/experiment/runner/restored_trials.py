"""Restore the trials of an experiment from the store, for a runner that resumes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from determined.config.secrets.fixed_secrets import unmask_fixed
from determined.experiment.runner.fail_fast import TWICE
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.experiment.runner.trials.observed import Observed
from determined.experiment.runner.trials.trial_values import Decided, Failures, RowValues, TrialSpec, final_decision
from determined.searchers.base import Action, Create, Pause, Stop
from determined.searchers.journal import actions_from_plain
from determined.store.experiment_records import JournalEntry, Trial


def trials(rows: Sequence[Trial], journal: Sequence[JournalEntry], space: dict[str, Any]) -> list[LiveTrial]:
    """Return the trials of these rows, with the states recorded there; none of them has processes."""
    decided: dict[int, Decided] = {}
    # Replayed in order: a later action replaces an earlier one.
    for entry in journal:
        for action in actions_from_plain(entry.actions):
            decided[action.number] = _after(action, decided.get(action.number, Decided()))
    return [_from_row(row, decided.get(row.number, Decided()), space) for row in rows]


def created(action: Create, trial_id: int, source_checkpoint_id: str | None) -> LiveTrial:
    """Return a trial that the searcher has just created."""
    return LiveTrial(
        TrialSpec(
            id=trial_id,
            number=action.number,
            request_id=action.request_id,
            hparams=action.hparams,
            seed=action.seed,
            bracket=action.bracket,
            rungs=action.rungs,
        ),
        RowValues(
            state="QUEUED",
            goal=action.goal,
            source_checkpoint_id=source_checkpoint_id if action.source is None else None,
        ),
        Decided(source_number=action.source),
    )


def _from_row(row: Trial, decided: Decided, space: dict[str, Any]) -> LiveTrial:
    """Return a trial as its row and the journal describe it."""
    is_copied_later = row.source_checkpoint_id is None and row.runs == 0  # its source has not been resolved yet
    return LiveTrial(
        TrialSpec(
            id=row.id,
            number=row.number,
            request_id=row.request_id,
            hparams=unmask_fixed(row.hparams, space),
            seed=row.seed,
            bracket=row.bracket,
            rungs=tuple(row.rungs),
        ),
        RowValues(row.state, row.goal, row.source_checkpoint_id, row.runs, row.restarts),
        decided if is_copied_later else replace(decided, source_number=None),
        Failures(
            without_report=row.reason if row.restarts and not row.steps_completed else None,
            # The suffix is how the row says that the trial failed twice alike.
            repeated_error=row.reason.removesuffix(TWICE) if row.reason and row.reason.endswith(TWICE) else None,
            # A restart is counted before it is made; a crash in between must not count it again.
            restart_is_pending=0 < row.runs <= row.restarts,
        ),
        Observed(best=row.best, steps=row.steps_completed, passed_hparams=row.passed_hparams),
    )


def _after(action: Action, decided: Decided) -> Decided:
    """Return what is decided about a trial after an action; goals and states come from the rows."""
    if isinstance(action, Create):
        return replace(decided, source_number=action.source)
    if isinstance(action, Stop):
        return replace(decided, final=final_decision(action))
    return replace(decided, suspended=isinstance(action, Pause))
