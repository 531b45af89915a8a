"""`LineView`: show a running experiment without a terminal, as one line for each event."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from determined.cli.display.safe_text import visible
from determined.cli.display.table import cell, number
from determined.cli.display.times import duration
from determined.config.flattening import flat
from determined.plural import counted
from determined.store.states import TRIAL_ENDED

if TYPE_CHECKING:
    from determined.experiment.runner.view import TrialView, View

WITH_PROCESSES = ("RUNNING", "STOPPING")


class LineView:
    """Prints the events since the previous view; in a new experiment the first view is all new."""

    def __init__(self, write: Callable[[str], None], *, new: bool) -> None:
        self._write = write
        self._state = ""
        self._trials: dict[int, TrialView] | None = {} if new else None
        self._best: tuple[int, float] | None = None

    def __call__(self, view: View) -> None:
        lines = []
        if self._trials is None:
            # Events before the start of watching are not reported.
            self._trials = {
                trial.id: replace(trial, state="QUEUED") if trial.state in WITH_PROCESSES else trial
                for trial in view.trials
            }
            over = sum(trial.state in TRIAL_ENDED for trial in view.trials)
            lines += [f"{over} of {counted(len(view.trials), 'trial')} ended before"] if over else []
        for trial in view.trials:
            lines += _events(self._trials.get(trial.id), trial, view)
        self._trials = {trial.id: trial for trial in view.trials}
        best = view.best
        if best is not None and best.best is not None and (best.id, best.best) != self._best:
            self._best = (best.id, best.best)
            lines.append(f"best so far: trial {best.id}, {view.metric_name} {number(best.best)}")
        if view.state != self._state and self._state:
            lines.append(f"experiment {view.experiment_id}: {view.state}")
        self._state = view.state
        for line in lines:
            self._write(visible(f"[{duration(view.seconds)}, {100 * view.progress:.0f}%] {line}"))


def _events(before: TrialView | None, trial: TrialView, view: View) -> list[str]:
    """Return the events of a trial between two views, in which a short trial may have started and ended."""
    was = before.state if before else "QUEUED"
    if was == "QUEUED" and trial.state == "PAUSED" and trial.steps == (before.steps if before else 0):
        return []  # the experiment is paused, and the trial was not running
    lines = []
    if trial.has_started and trial.state != was and (was == "QUEUED" or trial.state == "RUNNING"):
        verb = "resumed" if before and (was == "PAUSED" or before.steps) else "started"
        hparams = hparams_text(trial.hparams, view.searched)
        lines.append(f"trial {trial.id} {verb}" + (f": {hparams}" if hparams else ""))
    if trial.rung > (before.rung if before else 0) and trial.state in WITH_PROCESSES:
        lines.append(f"trial {trial.id} passed rung {trial.rung}{_metric(trial, view)}")
    if trial.state not in (was, "QUEUED", *WITH_PROCESSES):
        batches = f"after {counted(trial.steps, 'batch', 'batches')}"
        how_far = batches if trial.has_started else "before it started"
        lines.append(f"trial {trial.id} {trial.state} {how_far}{_metric(trial, view)}")
    return lines


def _metric(trial: TrialView, view: View) -> str:
    return "" if trial.metric is None else f": {view.metric_name} {number(trial.metric)}"


def hparams_text(hparams: dict[str, Any], only: Container[str] = ()) -> str:
    """Return text such as `layers=3 optimizer.lr=0.1`, restricted to the names in `only` if it has any of them."""
    known = flat(hparams).items()
    chosen = [(name, value) for name, value in known if name in only] or known
    return " ".join(f"{name}={cell(value)}" for name, value in chosen)
