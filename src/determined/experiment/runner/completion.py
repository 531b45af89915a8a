"""Record the final state of an experiment and of its remaining trials."""

from __future__ import annotations

import time
from typing import Literal

from determined.experiment.runner.runner_state import RunnerState
from determined.sentences import counted
from determined.store.experiment_changes import ExperimentChange
from determined.store.states import ExperimentState

_STOPPING: dict[ExperimentState, ExperimentState] = {"COMPLETED": "STOPPING_COMPLETED", "ERROR": "STOPPING_ERROR"}


def finish(run: RunnerState) -> ExperimentState:
    """Record and return the state in which the runner leaves the experiment."""
    # A search that has finished, or failed, ends even if a pause was requested meanwhile.
    if run.stop_request in ("pause", "halt") and run.failure is None and not run.search.searcher.finished:
        # The queue preempted it, and resumes it later: it stays ACTIVE, and its trials QUEUED.
        is_resumed_by_queue = run.in_queue and not run.paused_by_request
        left: Literal["ACTIVE", "PAUSED"] = "ACTIVE" if is_resumed_by_queue else "PAUSED"
        run.commit(
            trials=tuple(trial.requeue(paused=not is_resumed_by_queue) for trial in run.live()),
            snapshot=run.search.snapshot_if_due(now=True),
            experiment=ExperimentChange(state=left, progress=run.progress(), reason=run.pause_reason or None),
        )
        return left
    if remaining := run.live():
        # Trials that never started, or were paused by the searcher, end with the experiment.
        run.commit(trials=tuple(trial.end("CANCELED") for trial in remaining))
    state, reason = _outcome(run)
    if state in _STOPPING:  # the clean-up takes long, and users should see that the trials have ended
        run.commit(experiment=ExperimentChange(state=_STOPPING[state]))
    # This fails if the lease was lost. Then another runner may need the checkpoints, and nothing may be deleted.
    run.query(lambda store: store.heartbeat(run.lease))
    run.checkpoints.clean_up(run.settings)
    # Set before the commit, so that no later view shows less.
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


def _progress(run: RunnerState, state: ExperimentState) -> float:
    """Return the progress at the end, from 0 to 1."""
    if state == "COMPLETED":
        return 1.0
    if not run.search.searcher.finished:
        # A canceled search shows how far it came.
        return run.progress()
    # The searcher reports 1 when all trials have ended; the real progress is what the trials did of what was planned.
    done = sum(trial.observed.progress or 0.0 for trial in run.trials.values())
    return max(run.progress(), min(done / max(len(run.trials), run.planned or 0, 1), 1.0))


def _outcome(run: RunnerState) -> tuple[ExperimentState, str | None]:
    """Return the final state and its reason; one successful trial is enough for COMPLETED."""
    if run.failure is not None:
        return "ERROR", run.failure
    if run.stop_request in ("cancel", "kill"):
        return "CANCELED", None
    states = {trial.state for trial in run.trials.values()}
    if states <= {"CANCELED"}:
        return "CANCELED", None
    if states <= {"ERROR", "CANCELED", "INVALID_HP"}:
        failed = "The trial failed" if len(run.trials) == 1 else f"All {counted(len(run.trials), 'trial')} failed"
        return "ERROR", f"{failed}. See: det experiment list-trials {run.experiment.id}"
    # Without rungs the metric only chooses the best checkpoint, so a search without it is still complete.
    compared = any(trial.spec.rungs for trial in run.trials.values())
    if compared and all(trial.observed.best is None for trial in run.trials.values()):
        return "ERROR", f"No trial has reported the searcher metric {run.settings.metric!r} as a number."
    return "COMPLETED", None
