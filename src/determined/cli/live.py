"""How a running experiment is shown on a terminal: a picture that is drawn again a few times a second."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from determined.cli.render import duration, number
from determined.cli.text import visible
from determined.cli.watching import AT_WORK, hparams_text
from determined.config.ranking import ranked

if TYPE_CHECKING:
    from determined.experiment.progress import RungView, TrialView, View

_FEWEST_ROWS = 3
_LINES_AROUND = 7  # above and below the trials, beside one for each bracket


class LiveView:
    """Draws the newest view; lines printed meanwhile scroll by above it."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._live = Live(Text("Starting ..."), console=self._console, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, view: View) -> None:
        self._live.update(picture(view, self._console.size.height))

    def line(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


def picture(view: View, height: int) -> Group:
    """The experiment in a few lines, its rungs, and the trials that matter most."""
    brackets = len({rung.bracket for rung in view.rungs})
    parts: list[RenderableType] = [_headline(view), _bar(view.progress)]
    if view.best is not None and view.best.best is not None:
        parts.append(_best(view.best, view))
    if brackets:
        parts.append(_rungs(view.rungs))
    parts.append(_trials(view, max(_FEWEST_ROWS, height - _LINES_AROUND - brackets)))
    return Group(*parts, Text("Ctrl-C pauses: everything is saved first", style="dim"))


def _bar(progress: float) -> Table:
    line = Table.grid(padding=(0, 1))
    line.add_row(ProgressBar(total=1.0, completed=min(1.0, max(0.0, progress)), width=60), f"{100 * progress:.0f}%")
    return line


def _headline(view: View) -> Text:
    ended = sum(trial.state not in ("QUEUED", "PAUSED", *AT_WORK) for trial in view.trials)
    planned = "" if view.planned is None else f" of {view.planned}"
    left = "" if view.seconds_left is None else f", about {duration(view.seconds_left)} left"
    line = Text(overflow="ellipsis", no_wrap=True)
    line.append(f"Experiment {view.experiment_id} ", style="bold")
    line.append(f"{visible(view.name)}  ")
    line.append(view.state, style="green" if view.state == "ACTIVE" else "yellow")
    line.append(
        f"  {ended}{planned} trials done, {view.trials_per_hour:.0f} an hour  "
        f"slots {view.used}/{view.slots}  {duration(view.seconds)}{left}"
    )
    return line


def _best(best: TrialView, view: View) -> Text:
    line = Text("best so far: ", overflow="ellipsis", no_wrap=True)
    assert best.best is not None
    line.append(f"trial {best.id}, {visible(view.metric_name)} {number(best.best)}", style="bold green")
    line.append(f"  {visible(hparams_text(best.hparams))}", style="dim")
    return line


def _rungs(rungs: tuple[RungView, ...]) -> Table:
    """One line for each bracket: after which time how many trials came as far, and how many are on their way."""
    table = Table.grid(padding=(0, 3, 0, 0))
    for bracket in sorted({rung.bracket for rung in rungs}):
        own = [rung for rung in rungs if rung.bracket == bracket]
        cells = [
            f"{number(rung.time)}: {rung.reached}" + (f" (+{rung.at_work})" if rung.at_work else "") for rung in own
        ]
        table.add_row(Text(f"bracket {bracket}, trials at", style="dim"), *cells)
    return table


def _trials(view: View, rows: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), expand=True)
    for name in ("Trial", "State", "Rung", "Batches", visible(view.metric_name), "Best"):
        right = name not in ("State",)
        table.add_column(Text(name), justify="right" if right else "left", header_style="bold", no_wrap=True)
    table.add_column("Hyperparameters", header_style="bold", no_wrap=True, overflow="ellipsis", ratio=1)
    shown = _most_interesting(view, rows)
    for trial in shown:
        table.add_row(
            str(trial.id),
            trial.state + (f" (restart {trial.restarts})" if trial.restarts else ""),
            str(trial.rung),
            str(trial.steps),
            "" if trial.metric is None else number(trial.metric),
            "" if trial.best is None else number(trial.best),
            Text(visible(hparams_text(trial.hparams)), style="dim"),
        )
    return table


def _most_interesting(view: View, rows: int) -> list[TrialView]:
    """Those at work, then the best of the others."""
    best_first = ranked(
        view.trials, lambda trial: trial.best, lambda trial: trial.id, smaller_is_better=view.smaller_is_better
    )
    return sorted(best_first, key=lambda trial: trial.state not in AT_WORK)[:rows]
