"""Read what trials report: new validations in the store, and whether one has reached the trial's goal."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from determined.config.metric_values import finite_number, number, time_of
from determined.experiment.runner import decisions
from determined.experiment.runner.fail_fast import note_missing_metric, shown_names
from determined.experiment.runner.runner_state import RunnerState
from determined.experiment.runner.settings import Settings
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.experiment.runner.trials.observed import Result
from determined.store.experiment_records import Trial
from determined.store.records import Metric
from determined.store.substores.experiments import Experiments

logger = logging.getLogger("determined.experiment")

# Rare, because each read is two statements per trial, and wake-ups usually come first.
_SECONDS_BETWEEN_READS = 1.0


class ReportReader:
    """Polls the reports of all trials once a second, in case a wake-up was lost."""

    def __init__(self, run: RunnerState) -> None:
        self._run = run
        self._read_at = 0.0

    def read_all(self) -> None:
        """Read new reports and the progress of all running trials, at most once per interval."""
        now = time.monotonic()
        if now - self._read_at < _SECONDS_BETWEEN_READS:
            return
        self._read_at = now
        running = list(self._run.by_key.values())
        # One query for all: another thread carries it out, and handing it over takes longer than the query itself.
        found = self._run.query(
            lambda store: [
                (store.validations(trial.id, trial.observed.read_up_to), store.trial(trial.id)) for trial in running
            ]
        )
        for trial, (reports, row) in zip(running, found, strict=True):
            _note_reports(self._run, trial, reports)
            trial.observed.note_progress(row.progress, row.steps_completed)
            self._run.effective_hparams.note(trial, row.passed_hparams)
        decisions.fail_if_pointless(self._run)


def read_reports(run: RunnerState, trial: LiveTrial) -> None:
    """Read the validations that a trial reported since the last call; one that was completed later is read again."""
    # By attempt and sequence number, since clocks of workers may differ.
    _note_reports(run, trial, run.query(lambda store: store.validations(trial.id, trial.observed.read_up_to)))


def _note_reports(run: RunnerState, trial: LiveTrial, reports: Sequence[Metric]) -> None:
    """Record validations of a trial in the order in which it reported them."""
    settings, observed = run.settings, trial.observed
    for report in reports:
        assert report.steps_completed is not None
        observed.note_validation(report.attempt, report.sequence, report.steps_completed)
        if trial.process is not None:
            trial.process.activity.note_report()
        metric = number(report.metrics.get(settings.metric))
        when = time_of(settings.time_metric, report.steps_completed, report.metrics)
        problem = _problem(settings, report.metrics, metric, when, compared=trial.goal is not None)
        # Such a trial reports the metric separately at the end of an operation (`searcher.operations()`).
        follows_operations = problem is not None and run.query(partial(_row_of, trial.id)).follows_operations
        if not follows_operations:
            if settings.metric not in report.metrics:
                note_missing_metric(run, trial, ended=False)
            _warn_once(trial, None if run.missing_metric else problem)
        elif metric is None:
            continue  # `report_completed` will add the metric, and the report is read again then
        # At or beyond: a trial validates at batches, and its goal may lie between two of them.
        is_at_goal = trial.goal is not None and when is not None and when >= trial.goal
        observed.note_result(Result(metric, when), _better(settings, observed.best, metric), is_at_goal=is_at_goal)


def _problem(
    settings: Settings, metrics: dict[str, Any], metric: float | None, when: float | None, *, compared: bool
) -> str | None:
    """Return what prevents a report from being compared, or None."""
    if metric is None:
        return _missing_metric_message("Searcher metric", settings.metric, metrics)
    if compared and when is None:
        return _missing_metric_message("Time metric", str(settings.time_metric), metrics)
    return None


def _missing_metric_message(kind: str, name: str, metrics: dict[str, Any]) -> str:
    """Return the message about a metric that is missing, or is not a number."""
    if name in metrics:
        return f"{kind} {name!r} is not a number among the validation metrics ({shown_names(metrics)})."
    return f"{kind} {name!r} is not among the validation metrics ({shown_names(metrics)})."


def _warn_once(trial: LiveTrial, problem: str | None) -> None:
    """Warn once about a report that cannot be compared."""
    if problem is not None and trial.observed.warn_once(problem):
        logger.warning("Trial %d: %s", trial.id, problem)


def _better(settings: Settings, best: float | None, value: float | None) -> float | None:
    """Return the better of two values; values that are not finite numbers are ignored."""
    if finite_number(value) is None or value is None:
        return best
    if best is None:
        return value
    return min(best, value) if settings.smaller_is_better else max(best, value)


def _row_of(trial_id: int, store: Experiments) -> Trial:
    return store.trial(trial_id)
