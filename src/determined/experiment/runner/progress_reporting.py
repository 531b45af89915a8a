"""Record the progress of an experiment regularly, and pass its state to an observer."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from determined.config.effective import effective
from determined.config.metric_values import number
from determined.config.secrets.fixed_secrets import mask_fixed
from determined.experiment.creation.search_check import searched_paths
from determined.experiment.runner.runner_state import RunnerState
from determined.experiment.runner.trials.live_trial import LiveTrial
from determined.experiment.runner.view import Observer, RungView, TrialView, View
from determined.store.experiment_changes import ExperimentChange
from determined.store.ranking import best_trials
from determined.store.records import Metric
from determined.store.substores.experiments import Experiments

# Four frames a second look continuous; computing a view takes time from the runner.
_SECONDS_BETWEEN_VIEWS = 0.25
# Each note is a transaction, which competes with the reports of the trials.
_SECONDS_BETWEEN_NOTES = 1.0
_SHOWN = {
    None: "ACTIVE",
    "pause": "PAUSING",
    "halt": "STOPPING",
    "cancel": "STOPPING_CANCELED",
    "kill": "STOPPING_KILLED",
}


class ProgressReporter:
    """Reports the state of a running experiment. Without an observer it costs next to nothing."""

    def __init__(self, run: RunnerState, observer: Observer | None) -> None:
        self._run = run
        self._observer = observer
        self._began = time.monotonic()
        # Far in the past, so that the first call shows and records.
        self._shown = self._noted = -1e9
        self._progress = -1.0
        self._hparams: dict[int, dict[str, Any]] = {}
        self._at_first: tuple[int, float] | None = None  # number of ended trials and progress at the first view
        self._searched = tuple(map(".".join, searched_paths(run.settings.space)))

    def seconds_to_next_view(self) -> float:
        """Return the time until the observer may be called again; infinite without an observer."""
        if self._observer is None:
            return math.inf
        return max(0.0, self._shown + _SECONDS_BETWEEN_VIEWS - time.monotonic())

    def show(self) -> None:
        """Call the observer and record the progress, each at most once per interval."""
        now = time.monotonic()
        if self._observer is not None and now - self._shown >= _SECONDS_BETWEEN_VIEWS:
            self._shown = now
            state = "STOPPING_ERROR" if self._run.failure is not None else _SHOWN[self._run.stop_request]
            self._observer(self._view(state))
        if now - self._noted >= _SECONDS_BETWEEN_NOTES:
            self._noted = now
            self._note_progress()

    def show_last(self, state: str) -> None:
        """Call the observer with the final state."""
        if self._observer is not None:
            self._observer(self._view(state))

    def _note_progress(self) -> None:
        """Record the progress of the experiment if it has changed noticeably."""
        progress = self._run.progress()
        # A tenth of a percent: each note is a transaction.
        if abs(progress - self._progress) >= 0.001:
            self._progress = progress
            self._run.commit(experiment=ExperimentChange(progress=progress))

    def _shown_hparams(self, trial: LiveTrial) -> dict[str, Any]:
        """Return the hyperparameters of a trial with secrets masked; cached, because views are frequent."""
        if trial.id not in self._hparams:
            self._hparams[trial.id] = mask_fixed(trial.spec.hparams, self._run.settings.space)
        return self._hparams[trial.id]

    def _view(self, state: str) -> View:
        """Return the current state of the experiment."""
        run, settings = self._run, self._run.settings
        # Once: results from before a pause do not change.
        if self._at_first is None:
            self._recall()
        trials = tuple(self._trial_view(trial) for trial in run.trials.values())
        progress = run.progress()
        seconds = time.monotonic() - self._began
        ended = len(trials) - len(run.live())
        ended_at_first, progress_at_first = self._at_first = self._at_first or (ended, progress)
        done = progress - progress_at_first
        return View(
            experiment_id=run.experiment.id,
            name=run.experiment.name,
            state=state,
            progress=progress,
            slots=run.engine.slots,
            used=len(run.by_key) * settings.slots_per_trial,
            trials=trials,
            planned=run.planned,
            rungs=tuple(_rungs(run.trials.values())),
            best=next(iter(best_trials(trials, settings.smaller_is_better)), None),
            metric_name=settings.metric,
            smaller_is_better=settings.smaller_is_better,
            time_metric=settings.time_metric or "batches",
            searched=self._searched,
            seconds=seconds,
            trials_per_hour=(ended - ended_at_first) / max(seconds, 1e-3) * 3600,
            # Not before there is enough progress for an estimate.
            seconds_left=seconds / done * (1 - progress) if done > 0.01 and seconds > 1 else None,
        )

    def _trial_view(self, trial: LiveTrial) -> TrialView:
        """Return a trial as shown to the observer."""
        observed = trial.observed
        return TrialView(
            id=trial.id,
            number=trial.number,
            state=trial.state,
            hparams=effective(self._shown_hparams(trial), observed.passed_hparams),
            bracket=trial.spec.bracket,
            rung=trial.rung,
            goal=trial.goal,
            progress=observed.progress,
            has_started=trial.runs > 0,
            steps=max(observed.last_step, observed.steps),
            metric=observed.values[-1] if observed.values else None,
            best=observed.best,
            restarts=trial.restarts,
            started_at=self._since_start(trial.started_at),
            state_since=self._since_start(trial.state_since),
            values=tuple(observed.values),
            nodes=() if trial.process is None else trial.process.nodes,
        )

    def _since_start(self, moment: float | None) -> float | None:
        """Return a time of the monotonic clock in seconds since this runner began."""
        return None if moment is None else moment - self._began

    def _recall(self) -> None:
        """Read results from before a pause out of the store, for display only."""
        run = self._run
        for trial in run.trials.values():
            if trial.runs and not trial.observed.values:
                reports = run.query(partial(_validations, trial.id))
                found = [number(report.metrics.get(run.settings.metric)) for report in reports]
                trial.observed.recall([value for value in found if value is not None])


def _validations(trial_id: int, store: Experiments) -> list[Metric]:
    return store.validations(trial_id)


def _rungs(trials: Iterable[LiveTrial]) -> list[RungView]:
    """Return the state of each rung of each bracket."""
    known = list(trials)
    times = sorted({(trial.spec.bracket, rung) for trial in known for rung in trial.spec.rungs})
    views = []
    for bracket, rung in times:
        own = [trial for trial in known if trial.spec.bracket == bracket]
        running = sum(trial.process is not None and trial.goal == rung for trial in own)
        reached = sum(trial.reached >= rung for trial in own)
        views.append(RungView(bracket, rung, reached, running))
    return views
