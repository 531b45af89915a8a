"""Handle the exit of a trial's processes, and stop processes that hang or exceed their time."""

from __future__ import annotations

import logging

from determined.engines.base import Exited
from determined.experiment.runner import decisions
from determined.experiment.runner.fail_fast import note_missing_metric
from determined.experiment.runner.reports import read_reports
from determined.experiment.runner.runner_state import RunnerState
from determined.experiment.runner.trials import exit_classification
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.experiment.runner.trials.stopping import request_stop
from determined.experiment.runner.trials.timeouts import Timeouts
from determined.searchers.base import Validated
from determined.stop_request import OF_USERS
from determined.store.experiment_records import nodes_text
from determined.store.records import Attempt

logger = logging.getLogger("determined.experiment")


def handle_exit(run: RunnerState, trial: LiveTrial, event: Exited) -> None:
    """Handle the exit of a trial's processes: restart, conclude or requeue it.

    All its reports are in the store by now.
    """
    process = trial.process
    assert process is not None
    run.last_code = event.code
    # Workers flush their reports before they exit, so that this is the last read.
    read_reports(run, trial)
    if process.stopping.request not in OF_USERS and not exit_classification.is_lost(event):
        note_missing_metric(run, trial, ended=True)
    verdict, has_reported = _classify(run, trial, event)
    logger.info("trial %d: %s%s", trial.id, verdict.state, f" ({verdict.reason})" if verdict.reason else "")
    if verdict.restarts > trial.restarts:
        logger.warning(
            "trial %d failed and is started again (restart %d of %d): %s",
            trial.id,
            verdict.restarts,
            run.settings.max_restarts,
            verdict.reason,
        )
    # Waited for, so that the log is complete before the end of the trial is recorded.
    run.logs.done(trial)
    is_not_started = exit_classification.is_not_started(event)
    trial.exited(
        lost=exit_classification.is_lost(event) and not event.lost_node and not is_not_started,
        lost_node=event.lost_node,
        not_started_on=nodes_text(list(process.nodes)) if is_not_started else "",
        without_report=None if has_reported else verdict.reason,
        repeated_error=verdict.repeated_error,
    )
    # From here on the trial has no processes, and `decisions` may start or end it.
    del run.by_key[process.key]
    decisions.fail_if_pointless(run)
    if exit_classification.is_of_another_version(verdict.reason):
        _pause_after_upgrade(run, str(verdict.reason))
    if verdict.exit_reason is None:
        _requeue(run, trial, verdict)
        return
    last = trial.observed.last_result
    if verdict.exit_reason == "completed" and trial.final_decision is None and last is not None and not run.ending:
        # The trial ended without a request: its last value is a result as well.
        decisions.report_event(run, Validated(trial.number, last.metric, last.time), about=trial)
    decisions.conclude(run, trial, verdict.state, verdict.exit_reason, verdict.reason)


def enforce_time_limits(run: RunnerState, timeouts: Timeouts) -> None:
    """Stop or kill trials that hang, do not stop when requested to, or have reached their time limit."""
    for trial in list(run.by_key.values()):
        assert trial.process is not None
        if timeouts.has_reached_time_limit(trial):
            request_stop(run, trial, "stop")
        reason = timeouts.reason_to_kill(trial)
        if reason is not None:
            logger.warning("trial %d is killed: %s", trial.id, reason)
            trial.process.note_kill(reason)
            run.engine.kill(trial.process.key)


def _pause_after_upgrade(run: RunnerState, reason: str) -> None:
    """Pause the experiment, because the package was replaced while it runs and new processes cannot use its store.

    Running trials have the earlier version loaded: they save and exit.
    """
    if run.stop_request is not None:
        return
    run.pause_for(f"determined-pytorch was replaced by another version while the experiment was running: {reason}")
    logger.error("%s. It is paused; resume with: det experiment activate %d", run.pause_reason, run.experiment.id)
    for trial in run.live():
        request_stop(run, trial, "pause")


def _classify(run: RunnerState, trial: LiveTrial, event: Exited) -> tuple[exit_classification.Verdict, bool]:
    """Return the verdict on an exit, and whether the trial has ever reported anything.

    It follows from the exit code and the trial's rows in the store.
    """
    row = run.query(lambda store: store.trial(trial.id))
    run.effective_hparams.note(trial, row.passed_hparams)
    trial.observed.note_steps(row.steps_completed or _largest_saved_step(run, trial))
    # Asked only then, because it looks into the storage: the node may have been lost before it recorded a checkpoint.
    if event.lost_node and run.checkpoints.holds(trial.id, trial.failures.saved_step + 1):
        trial.forgive_lost_nodes(_largest_saved_step(run, trial))
    # A trial that exited with 0 needs no look at its attempts.
    attempts = run.writer.query(lambda store: store.attempts(trial.id)) if event.code else []
    has_reported = _has_reported(run, trial, attempts)
    verdict = exit_classification.classify(
        event,
        trial,
        early_exit=row.early_exit,
        acknowledged=row.stop_acknowledged,
        saved_and_stopped=bool(attempts) and attempts[-1].state == "stopped",
        has_reported=has_reported,
        max_restarts=run.settings.max_restarts,
    )
    return verdict, has_reported


def _largest_saved_step(run: RunnerState, trial: LiveTrial) -> int:
    """Return the step of a trial's newest checkpoint, for trials that report no metrics, such as batch inference."""
    saved = run.writer.query(lambda store: store.checkpoints(trial.id))
    return max((checkpoint.steps_completed for checkpoint in saved), default=0)


def _has_reported(run: RunnerState, trial: LiveTrial, attempts: list[Attempt]) -> bool:
    """Return whether the trial has ever reported metrics or saved a checkpoint."""
    numbers = {attempt.number for attempt in attempts}
    return bool(numbers) and run.writer.query(lambda store: store.has_reports(trial.id, numbers))


def _requeue(run: RunnerState, trial: LiveTrial, verdict: exit_classification.Verdict) -> None:
    """Queue or pause a trial that has not ended. Unsaved work is repeated, including a validation at the goal."""
    # A result that is not saved could not be continued from.
    if trial.observed.at_goal is not None and not run.checkpoints.holds(trial.id, trial.observed.last_step):
        trial.observed.discard_result()
    paused = trial.suspended or run.stop_request in ("pause", "halt")
    run.commit(trials=(trial.requeue(paused=paused, restarts=verdict.restarts, reason=verdict.reason or ""),))
