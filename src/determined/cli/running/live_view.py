"""`LiveView`: show a running experiment on a terminal as a frame that is redrawn a few times a second."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from determined.cli.display.safe_text import visible
from determined.cli.display.table import number
from determined.cli.display.times import duration
from determined.cli.running.text_view import hparams_text
from determined.config.metric_values import is_finite
from determined.ranking import ranked
from determined.sentences import counted
from determined.store.experiment_records import nodes_text
from determined.store.states import WITH_PROCESSES

if TYPE_CHECKING:
    from determined.experiment.runner.view import RungView, TrialView, View

_BARS = "▁▂▃▄▅▆▇█"
# Even in a lower terminal, since a view without any trial is useless.
_FEWEST_ROWS = 3
_BELOW = Text("")  # keeps the cursor on an empty line, where text printed after a SIGKILL then begins
_SINGULAR = {"batches": "batch", "epochs": "epoch", "records": "record"}
_LINES_AROUND = 8  # lines above and below the trials, without one line for each bracket


class LiveView:
    """Draws each view in place of the previous one; lines printed meanwhile scroll by above it.

    Lines come from several threads. Views and lines share one lock, because a frame is erased by its height: a line
    printed between erasing and drawing would leave a part of a frame behind, or be erased.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._frame = Group(Text("Starting ..."), _BELOW)
        self._columns = self._console.width
        # Drawn only when a view arrives: rich's own thread would draw at any time, also between two of our lines.
        self._live = Live(self._frame, console=self._console, auto_refresh=False, transient=True)
        self._lock = threading.Lock()

    def __enter__(self) -> LiveView:
        self._live.start(refresh=True)
        self._console.show_cursor(True)  # rich hides it, and a process that is killed could not show it again
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._live.stop()

    def __call__(self, view: View) -> None:
        with self._lock:
            self._erase_wrapped_lines()
            self._frame = render(view, self._console.size.height)
            self._live.update(self._frame, refresh=True)

    def line(self, text: str) -> None:
        """Print a line above the frame."""
        with self._lock:
            self._erase_wrapped_lines()
            # Not `soft_wrap`, which would let the lines of the frame below exceed the width of the terminal.
            self._console.print(Text(text, no_wrap=True, overflow="ignore"), crop=False)

    def _erase_wrapped_lines(self) -> None:
        """Erase the additional rows that the frame occupies after the terminal was made narrower.

        Most terminals wrap the lines on the screen again. On those that truncate them, this erases as many lines of
        text.
        """
        before, self._columns = self._columns, self._console.width
        if self._columns >= before:
            return
        lines = self._console.render_lines(self._frame, self._console.options.update(width=before), pad=False)
        more = sum(max(0, math.ceil(Segment.get_line_length(line) / self._columns) - 1) for line in lines)
        if more:
            # Moves the cursor up over the additional rows and erases to the end of the screen.
            self._console.file.write(f"\x1b[{more}A\x1b[J")


def render(view: View, height: int) -> Group:
    """Return the frame: the experiment in a few lines, its rungs, and the most important trials."""
    brackets = len({rung.bracket for rung in view.rungs})
    parts: list[RenderableType] = [_headline(view), _bar(view.progress)]
    if view.best is not None and view.best.best is not None:
        parts.append(_best(view.best, view))
    if brackets:
        parts += _rungs(view)
    parts.append(_trials(view, max(_FEWEST_ROWS, height - _LINES_AROUND - brackets)))
    return Group(*parts, Text(_footer(view), style="dim", overflow="ellipsis", no_wrap=True), _BELOW)


def _footer(view: View) -> str:
    """Return a line that says what Ctrl-C does now, or an empty one if it does nothing more."""
    running = sum(trial.state in WITH_PROCESSES for trial in view.trials)
    if view.state == "ACTIVE":
        return "Ctrl-C pauses: everything is saved first" if running else "Ctrl-C pauses the experiment"
    if view.state != "PAUSING":
        return ""
    if not running:
        return "Pausing …"
    return f"Pausing: saving {counted(running, 'trial')} … (Ctrl-C again: stop without saving)"


def _bar(progress: float) -> Table:
    """Return the progress bar with its percentage."""
    line = Table.grid(padding=(0, 1))
    line.add_row(ProgressBar(total=1.0, completed=min(1.0, max(0.0, progress)), width=60), f"{100 * progress:.0f}%")
    return line


def _headline(view: View) -> Text:
    """Return the line with name, state, trials, slots and times."""
    ended = sum(trial.state not in ("QUEUED", "PAUSED", *WITH_PROCESSES) for trial in view.trials)
    done = counted(ended, "trial") if view.planned is None else f"{ended} of {counted(view.planned, 'trial')}"
    rate = f", {view.trials_per_hour:.0f} an hour" if view.trials_per_hour >= 0.5 else ""
    left = "" if view.seconds_left is None else f", about {duration(view.seconds_left)} left"
    line = Text(overflow="ellipsis", no_wrap=True)
    line.append(f"Experiment {view.experiment_id} ", style="bold")
    line.append(f"{visible(view.name)}  ")
    line.append(view.state, style="green" if view.state == "ACTIVE" else "yellow")
    line.append(f"  {done} done{rate}  slots {view.used}/{view.slots}  {duration(view.seconds)}{left}")
    return line


def _best(best: TrialView, view: View) -> Text:
    """Return the line about the best trial so far."""
    line = Text("best so far: ", overflow="ellipsis", no_wrap=True)
    assert best.best is not None
    line.append(f"trial {best.id}, {visible(view.metric_name)} {number(best.best)}", style="bold green")
    line.append(f"  {visible(hparams_text(best.hparams, view.searched))}", style="dim")
    return line


def _rungs(view: View) -> list[Text]:
    """Return one line for each bracket: `16 batches: 5 trials (2 on the way), 64: 1, 256: 0`."""
    brackets = sorted({rung.bracket for rung in view.rungs})
    lines = []
    for bracket in brackets:
        own = [rung for rung in view.rungs if rung.bracket == bracket]
        first, *others = own
        unit = _SINGULAR.get(view.time_metric, view.time_metric) if first.time == 1 else view.time_metric
        cells = [
            f"{number(first.time)} {visible(unit)}: {counted(first.reached, 'trial')}{_running_trials_text(first)}"
        ]
        cells += [f"{number(rung.time)}: {rung.reached}{_running_trials_text(rung)}" for rung in others]
        name = f"Bracket {bracket}, reached " if len(brackets) > 1 else "Reached "
        lines.append(Text(name + ", ".join(cells), overflow="ellipsis", no_wrap=True))
    return lines


def _running_trials_text(rung: RungView) -> str:
    return f" ({rung.running} on the way)" if rung.running else ""


def _trials(view: View, rows: int) -> Table:
    """Return the table of trials, limited to `rows` rows."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), expand=True)
    rung = ["Rung"] if view.rungs else []  # other searches compare no trials on the way
    for name in ("Trial", "State", *rung, "Batches", visible(view.metric_name), "Best", "Curve"):
        right = name not in ("State", "Curve")
        table.add_column(Text(name), justify="right" if right else "left", header_style="bold", no_wrap=True)
    has_nodes = any(trial.nodes for trial in view.trials)  # otherwise all trials run on this machine
    if has_nodes:
        table.add_column("Nodes", header_style="bold", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("Hyperparameters", header_style="bold", no_wrap=True, overflow="ellipsis", ratio=1)
    shown = _trials_to_show(view, rows)
    for trial in shown:
        table.add_row(
            str(trial.id),
            trial.state + (f" (restart {trial.restarts})" if trial.restarts else ""),
            *([str(trial.rung)] if view.rungs else []),
            str(trial.steps),
            "" if trial.metric is None else number(trial.metric),
            "" if trial.best is None else number(trial.best),
            sparkline(trial.values),
            *([Text(visible(nodes_text(list(trial.nodes))))] if has_nodes else []),
            Text(visible(hparams_text(trial.hparams, view.searched)), style="dim"),
        )
    return table


def _trials_to_show(view: View, rows: int) -> list[TrialView]:
    """Return the trials to show: running ones first, then the best of the others."""
    best_first = ranked(
        view.trials, lambda trial: trial.best, lambda trial: trial.id, smaller_is_better=view.smaller_is_better
    )
    # A stable sort keeps the best first within both groups.
    return sorted(best_first, key=lambda trial: trial.state not in WITH_PROCESSES)[:rows]


def sparkline(values: Sequence[float]) -> str:
    """Return a curve of one line, scaled from the smallest to the largest value; non-finite values are gaps."""
    finite = [value for value in values if is_finite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    return "".join(_bar_of(value, low, high) if is_finite(value) else " " for value in values)


def _bar_of(value: float, low: float, high: float) -> str:
    """Return the character for a value between the smallest and the largest of a sparkline."""
    if high == low:
        return _BARS[len(_BARS) // 2]
    # Halved first: the difference of the largest possible floats would overflow.
    return _BARS[round((value / 2 - low / 2) / (high / 2 - low / 2) * (len(_BARS) - 1))]
