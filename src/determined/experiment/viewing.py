"""Make the picture of an experiment that people watch, now and then."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from determined.experiment.progress import Observer, RungView, TrialView, View
from determined.experiment.settings import Settings
from determined.experiment.trials import LiveTrial
from determined.store.experiment_records import Experiment

if TYPE_CHECKING:
    from determined.experiment.runner import Runner

_SECONDS_BETWEEN_VIEWS = 0.25
_SECONDS_BETWEEN_PROGRESS = 1.0


class Viewing:
    """Costs nothing where nobody watches."""

    def __init__(self, experiment: Experiment, settings: Settings, observer: Observer | None) -> None:
        self._experiment = experiment
        self._settings = settings
        self._observer = observer
        self._began = time.monotonic()
        self._shown = self._told = -1e9
        self._ended_before: int | None = None

    def show(self, runner: Runner, state: str, *, last: bool = False) -> None:
        now = time.monotonic()
        if self._observer is None or (not last and now - self._shown < _SECONDS_BETWEEN_VIEWS):
            return
        self._shown = now
        self._observer(self._view(runner, state, now - self._began))

    def often_enough(self) -> bool:
        """Whether a while has passed since the progress was last written down."""
        now = time.monotonic()
        if now - self._told < _SECONDS_BETWEEN_PROGRESS:
            return False
        self._told = now
        return True

    def _view(self, runner: Runner, state: str, seconds: float) -> View:
        trials = tuple(_trial_view(trial) for trial in runner.trials.values())
        progress = runner.progress()
        ended = len(trials) - len(runner.live())
        if self._ended_before is None:
            self._ended_before, self._progress_before = ended, progress
        done = progress - self._progress_before
        return View(
            experiment_id=self._experiment.id,
            name=self._experiment.name,
            state=state,
            progress=progress,
            slots=runner.engine.slots,
            used=len(runner.by_key) * self._settings.slots_per_trial,
            trials=trials,
            planned=self._settings.max_trials,
            rungs=tuple(_rungs(runner.trials.values())),
            best=self._best(trials),
            metric_name=self._settings.metric,
            smaller_is_better=self._settings.smaller_is_better,
            seconds=seconds,
            trials_per_hour=(ended - self._ended_before) / max(seconds, 1e-3) * 3600,
            seconds_left=seconds / done * (1 - progress) if done > 0.01 and seconds > 1 else None,
        )

    def _best(self, trials: Iterable[TrialView]) -> TrialView | None:
        sign = 1 if self._settings.smaller_is_better else -1
        compared = [trial for trial in trials if trial.best is not None]
        return min(compared, key=lambda trial: sign * (trial.best or 0), default=None)


def _trial_view(trial: LiveTrial) -> TrialView:
    return TrialView(
        id=trial.id,
        number=trial.number,
        state=trial.state,
        hparams=trial.hparams,
        bracket=trial.bracket,
        rung=trial.rung,
        goal=trial.goal,
        progress=trial.progress,
        steps=max(trial.last_step, 0),
        metric=None if trial.last_value is None else trial.last_value[0],
        best=trial.best,
        restarts=trial.restarts,
    )


def _rungs(trials: Iterable[LiveTrial]) -> list[RungView]:
    known = list(trials)
    times = sorted({(trial.bracket, rung) for trial in known for rung in trial.rungs})
    views = []
    for bracket, rung in times:
        own = [trial for trial in known if trial.bracket == bracket]
        at_work = sum(trial.process is not None and trial.goal == rung for trial in own)
        reached = sum(trial.reached >= rung for trial in own)
        views.append(RungView(bracket, rung, reached, at_work))
    return views
