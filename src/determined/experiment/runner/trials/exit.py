"""Handle the exit of a trial's processes, and stop processes that hang or exceed their time."""

from __future__ import annotations

import logging

from determined.engines.base import Exited
from determined.experiment.runner import decisions
from determined.experiment.runner.fail_fast import note_missing_metric
from determined.experiment.runner.reports import look
from determined.experiment.runner.shared_state import RunnerState
from determined.experiment.runner.trials import exit_classification
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.experiment.runner.trials.stop_requests import ask_to_end
from determined.experiment.runner.trials.timeouts import Timeouts
from determined.searchers.base import Validated
from determined.store.experiment_changes import TrialChange
from determined.store.records import Attempt

logger = logging.getLogger("determined.experiment")


def exited(run: RunnerState, trial: LiveTrial, event: Exited) -> None:
    """Handle the exit of a trial's processes: restart, conclude or requeue it.

    All its reports are in the store by now.
    """
    process = trial.process
    assert process is not None
    run.last_code = event.code
    look(run, trial)
    if process.asked not in ("pause", "cancel", "kill") and not exit_classification.is_lost(event):
        note_missing_metric(run, trial, ended=True)
    verdict = _judge(run, trial, event)
    logger.info("trial %d: %s%s", trial.id, verdict.state, f" ({verdict.reason})" if verdict.reason else "")
    if verdict.restarts > trial.restarts:
        logger.warning(
            "trial %d failed and is started again (restart %d of %d): %s",
            trial.id,
            verdict.restarts,
            run.settings.max_restarts,
            verdict.reason,
        )
    run.logs.done(trial)
    trial.owes_restart, trial.repeated_error = verdict.restarts > trial.restarts, verdict.repeated_error
    trial.seconds_before, trial.restarts, trial.owes_pause = trial.seconds, verdict.restarts, False
    trial.process = None
    del run.by_key[process.key]
    decisions.fail_if_pointless(run)
    if exit_classification.is_of_another_version(verdict.reason):
        _pause_after_upgrade(run, str(verdict.reason))
    if verdict.told is None:
        _wait_again(run, trial, verdict.reason)
        return
    if verdict.told == "completed" and trial.ended_by is None and trial.last_value is not None and not run.ending:
        # The trial ended without being asked: its last value is a result as well.
        metric, when = trial.last_value
        decisions.tell(run, Validated(trial.number, metric, when), about=trial)
    decisions.conclude(run, trial, verdict.state, verdict.told, verdict.reason)


def end_the_unwell(run: RunnerState, health: Timeouts) -> None:
    """Stop or kill trials that hang, do not stop when asked to, or have reached their time limit."""
    for trial in list(run.by_key.values()):
        assert trial.process is not None
        if health.time_is_over(trial):
            ask_to_end(run, trial, "stop")
        reason = health.reason_to_kill(trial)
        if reason is not None:
            logger.warning("trial %d is killed: %s", trial.id, reason)
            trial.process.killed = reason
            run.engine.kill(trial.process.key)


def _pause_after_upgrade(run: RunnerState, reason: str) -> None:
    """Pause the experiment, because the package was replaced while it runs and new processes cannot use its store.

    Running trials have the earlier version loaded: they save and exit.
    """
    if run.stop_request is not None:
        return
    run.stop_request, run.paused_by_request = "pause", True
    run.pause_reason = f"determined-pytorch was replaced by another version while the experiment was running: {reason}"
    logger.error("%s. It is paused; resume with: det experiment activate %d", run.pause_reason, run.experiment.id)
    for trial in run.live():
        ask_to_end(run, trial, "pause")


def _judge(run: RunnerState, trial: LiveTrial, event: Exited) -> exit_classification.Verdict:
    """Return the verdict on an exit, from the exit code and the trial's rows in the store."""
    row = run.ask(lambda store: store.trial(trial.id))
    run.effects.note(trial, row.passed_hparams)
    trial.steps = row.steps_completed or _largest_saved_step(run, trial)
    attempts = run.writer.ask(lambda store: store.attempts(trial.id)) if event.code else []
    has_reported = _has_reported(run, trial, attempts)
    trial.lost += exit_classification.is_lost(event)
    verdict = exit_classification.judge(
        event,
        trial,
        early_exit=row.early_exit,
        acknowledged=row.stop_acknowledged,
        stopped_politely=bool(attempts) and attempts[-1].state == "stopped",
        has_reported=has_reported,
        max_restarts=run.settings.max_restarts,
    )
    trial.failure_without_report = None if has_reported else verdict.reason
    return verdict


def _largest_saved_step(run: RunnerState, trial: LiveTrial) -> int:
    """Return the step of a trial's newest checkpoint, for trials that report no metrics, such as batch inference."""
    saved = run.writer.ask(lambda store: store.checkpoints(trial.id))
    return max((checkpoint.steps_completed for checkpoint in saved), default=0)


def _has_reported(run: RunnerState, trial: LiveTrial, attempts: list[Attempt]) -> bool:
    """Return whether the trial has ever reported metrics or saved a checkpoint."""
    numbers = {attempt.number for attempt in attempts}
    return bool(numbers) and run.writer.ask(lambda store: store.has_reports(trial.id, numbers))


def _wait_again(run: RunnerState, trial: LiveTrial, reason: str | None) -> None:
    """Queue or pause a trial that has not ended. Unsaved work is repeated, including a validation at the goal."""
    if trial.at_goal is not None and not run.checkpoints.holds(trial.id, trial.last_step):
        trial.at_goal = None
    trial.state = "PAUSED" if trial.suspended or run.stop_request in ("pause", "halt") else "QUEUED"
    run.commit(
        trials=(TrialChange(trial.id, state=trial.state, restarts=trial.restarts, reason=reason or ""),),
    )
