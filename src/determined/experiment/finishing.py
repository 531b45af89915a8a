"""The last word about an experiment, and about trials that will not go on."""

from __future__ import annotations

import time
from typing import Literal

from determined.experiment.running import Running
from determined.plural import counted
from determined.store.experiment_records import ExperimentChange, ExperimentState, TrialChange

_STOPPING: dict[ExperimentState, ExperimentState] = {"COMPLETED": "STOPPING_COMPLETED", "ERROR": "STOPPING_ERROR"}


def finish(run: Running) -> ExperimentState:
    """The state in which the experiment is left."""
    if run.intent in ("pause", "halt") and run.failure is None and not run.search.searcher.finished:
        goes_on = run.in_queue and not run.paused_by_request
        left: Literal["ACTIVE", "PAUSED"] = "ACTIVE" if goes_on else "PAUSED"
        run.commit(
            trials=tuple(TrialChange(trial.id, state="QUEUED" if goes_on else "PAUSED") for trial in run.live()),
            snapshot=run.search.snapshot_if_due(now=True),
            experiment=ExperimentChange(state=left, progress=run.progress(), reason=run.pause_reason or None),
        )
        return left
    for trial in run.live():
        trial.state = "CANCELED"
        # Only restarts that were made count.
        trial.restarts, trial.owes_restart = trial.restarts - trial.owes_restart, False
        change = TrialChange(trial.id, state="CANCELED", restarts=trial.restarts, ended=time.time())
        run.commit(trials=(change,))
    state, reason = _outcome(run)
    if state in _STOPPING:
        run.commit(experiment=ExperimentChange(state=_STOPPING[state]))
    run.ask(lambda store: store.heartbeat(run.lease))  # whoever has lost the lease deletes nothing
    run.checkpoints.clean_up(run.settings)
    run.least_progress = _progress(run, state)
    run.commit(
        snapshot=run.search.snapshot_if_due(now=True),
        experiment=ExperimentChange(
            state=state,
            reason=reason,
            progress=run.least_progress,
            ended=time.time(),
        ),
    )
    return state


def _progress(run: Running, state: ExperimentState) -> float:
    if state == "COMPLETED":
        return 1.0
    if not run.search.searcher.finished:
        return run.progress()
    # All trials are over, as the searcher counts; of what was planned only that is done which they did.
    done = sum(trial.progress or 0.0 for trial in run.trials.values())
    return max(run.progress(), min(done / max(len(run.trials), run.planned or 0, 1), 1.0))


def _outcome(run: Running) -> tuple[ExperimentState, str | None]:
    """One trial that came through is enough."""
    if run.failure is not None:
        return "ERROR", run.failure
    if run.intent in ("cancel", "kill"):
        return "CANCELED", None
    states = {trial.state for trial in run.trials.values()}
    if states <= {"CANCELED"}:
        return "CANCELED", None
    if states <= {"ERROR", "CANCELED", "INVALID_HP"}:
        failed = "The trial failed" if len(run.trials) == 1 else f"All {counted(len(run.trials), 'trial')} failed"
        return "ERROR", f"{failed}. See: det experiment list-trials {run.experiment.id}"
    compared = any(trial.rungs for trial in run.trials.values())
    if compared and all(trial.best is None for trial in run.trials.values()):
        return "ERROR", f"No trial has reported the searcher metric {run.settings.metric!r} as a number."
    return "COMPLETED", None
