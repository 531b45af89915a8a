"""How a running experiment is told where there is no terminal: one line for each thing that happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from determined.cli.render import cell, duration, number
from determined.cli.text import visible

if TYPE_CHECKING:
    from determined.experiment.progress import TrialView, View

AT_WORK = ("RUNNING", "STOPPING")


class Lines:
    """Called with the newest view; says what is new in it."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._state = ""
        self._trials: dict[int, TrialView] = {}
        self._best: tuple[int, float] | None = None

    def __call__(self, view: View) -> None:
        said = []
        if view.state != self._state and self._state:
            said.append(f"experiment {view.experiment_id}: {view.state}")
        self._state = view.state
        for trial in view.trials:
            said += _news(self._trials.get(trial.id), trial, view)
        self._trials = {trial.id: trial for trial in view.trials}
        best = view.best
        if best is not None and best.best is not None and (best.id, best.best) != self._best:
            self._best = (best.id, best.best)
            said.append(f"best so far: trial {best.id}, {view.metric_name} {number(best.best)}")
        for line in said:
            self._write(visible(f"[{duration(view.seconds)}, {100 * view.progress:.0f}%] {line}"))


def hparams_text(hparams: dict[str, Any]) -> str:
    """`layers=3 optimizer.lr=0.1`."""
    return " ".join(f"{name}={cell(value)}" for name, value in flat(hparams))


def flat(hparams: dict[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Nested hyperparameters with dots in their names."""
    found = []
    for name, value in hparams.items():
        if isinstance(value, dict) and value:
            found += flat(value, f"{before}{name}.")
        else:
            found.append((f"{before}{name}", value))
    return found


def _news(before: TrialView | None, trial: TrialView, view: View) -> list[str]:
    said = []
    was = before.state if before else "QUEUED"
    if before is not None and trial.rung > before.rung:
        said.append(f"trial {trial.id} passed rung {trial.rung}{_metric(trial, view)}")
    if before is not None and trial.restarts > before.restarts:
        said.append(f"trial {trial.id} failed and is started again (restart {trial.restarts})")
    if trial.state == was:
        return said
    if trial.state == "RUNNING":
        again = "goes on" if before is not None and was == "PAUSED" else "started"
        said.append(f"trial {trial.id} {again}: {hparams_text(trial.hparams)}")
    elif trial.state not in ("QUEUED", "STOPPING"):
        said.append(f"trial {trial.id} {trial.state} after {trial.steps} batches{_metric(trial, view)}")
    return said


def _metric(trial: TrialView, view: View) -> str:
    return "" if trial.metric is None else f": {view.metric_name} {number(trial.metric)}"
