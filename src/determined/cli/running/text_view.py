"""Show an experiment as text: one line for each event while it runs, and a summary at the end."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from determined.cli.display.json_rows import checkpoint_plain, experiment_plain, trial_plain
from determined.cli.display.safe_text import visible
from determined.cli.display.table import cell, number
from determined.cli.display.times import duration
from determined.config.effective import differences
from determined.config.flattening import flat
from determined.sentences import counted
from determined.store.experiment_records import nodes_text
from determined.store.ranking import best_checkpoints, best_trials
from determined.store.states import TRIAL_ENDED, TRIAL_FAILED, WITH_PROCESSES

if TYPE_CHECKING:
    from determined.experiment.runner.view import TrialView, View
    from determined.store.experiment_records import Experiment, Trial
    from determined.store.records import StoredCheckpoint
    from determined.store.store import Store

# The trials of a search often fail for one reason, and would fill the screen with it.
_MOST_FAILURES = 5


class LineView:
    """Prints the events since the previous view; in a new experiment the first view is all new."""

    def __init__(self, write: Callable[[str], None], *, new: bool) -> None:
        self._write = write
        self._state = ""
        self._trials: dict[int, TrialView] | None = {} if new else None
        self._best: tuple[int, float] | None = None

    def __call__(self, view: View) -> None:
        earlier, lines = [], []
        if self._trials is None:
            # Events before the start of watching are not reported.
            self._trials = {
                # So that trials that run at this moment are announced once, as started or resumed.
                trial.id: replace(trial, state="QUEUED") if trial.state in WITH_PROCESSES else trial
                for trial in view.trials
            }
            over = sum(trial.state in TRIAL_ENDED for trial in view.trials)
            earlier += [f"{over} of {counted(len(view.trials), 'trial')} ended before"] if over else []
        known = self._trials
        events = [event for trial in view.trials for event in _events(known.get(trial.id), trial, view)]
        self._trials = {trial.id: trial for trial in view.trials}
        best = view.best
        if best is not None and best.best is not None and (best.id, best.best) != self._best:
            self._best = (best.id, best.best)
            lines.append(f"best so far: trial {best.id}, {view.metric_name} {number(best.best)}")
        if view.state != self._state and self._state:
            lines.append(f"experiment {view.experiment_id}: {view.state}")
        self._state = view.state
        # In the order in which things happened, not in that of the trials.
        in_order = sorted(events, key=lambda event: event[0])
        now = view.seconds
        for seconds, line in [*((now, line) for line in earlier), *in_order, *((now, line) for line in lines)]:
            self._write(visible(f"[{duration(seconds)}, {100 * view.progress:.0f}%] {line}"))


def _events(before: TrialView | None, trial: TrialView, view: View) -> list[tuple[float, str]]:
    """Return the events of a trial between two views with their times; a short trial may have started and ended."""
    was = before.state if before else "QUEUED"
    if was == "QUEUED" and trial.state == "PAUSED" and trial.steps == (before.steps if before else 0):
        return []  # the experiment is paused, and the trial was not running
    started = view.seconds if trial.started_at is None else trial.started_at
    changed = view.seconds if trial.state_since is None else trial.state_since
    events = []
    if trial.has_started and trial.state != was and (was == "QUEUED" or trial.state == "RUNNING"):
        verb = "resumed" if before and (was == "PAUSED" or before.steps) else "started"
        hparams = hparams_text(trial.hparams, view.searched)
        where = f" on {nodes_text(list(trial.nodes))}" if trial.nodes else ""
        events.append((started, f"trial {trial.id} {verb}{where}" + (f": {hparams}" if hparams else "")))
    if trial.rung > (before.rung if before else 0) and trial.state in WITH_PROCESSES:
        events.append((view.seconds, f"trial {trial.id} passed rung {trial.rung}{_metric(trial, view)}"))
    if trial.state not in (was, "QUEUED", *WITH_PROCESSES):
        batches = f"after {counted(trial.steps, 'batch', 'batches')}"
        how_far = batches if trial.has_started else "before it started"
        events.append((changed, f"trial {trial.id} {trial.state} {how_far}{_metric(trial, view)}"))
    return events


def _metric(trial: TrialView, view: View) -> str:
    return "" if trial.metric is None else f": {view.metric_name} {number(trial.metric)}"


def hparams_text(hparams: dict[str, Any], only: Container[str] = ()) -> str:
    """Return text such as `layers=3 optimizer.lr=0.1`, restricted to the names in `only` if it has any of them."""
    known = flat(hparams).items()
    chosen = [(name, value) for name, value in known if name in only] or known
    return " ".join(f"{name}={cell(value)}" for name, value in chosen)


def own_command() -> str:
    """Return `det`, or the path that was typed if PATH does not lead to the program that is running."""
    typed = sys.argv[0]
    if os.path.basename(typed) != "det":
        return "det"
    found = shutil.which("det")
    # The same file under another path, for example through a link, is the same program.
    if found is not None and os.path.exists(typed) and os.path.samefile(found, typed):
        return "det"
    return shlex.quote(typed)


@dataclass(frozen=True)
class Summary:
    """The result of an experiment, for the lines printed at its end."""

    experiment: Experiment
    trials: list[Trial]
    best: Trial | None
    checkpoint: StoredCheckpoint | None  # the best checkpoint of the best trial, or else its newest
    has_results: bool  # whether any trial reported a metric or saved a checkpoint


def summarize(store: Store, experiment_id: int) -> Summary:
    """Read the data for the summary of an experiment."""
    experiment = store.experiments.get(experiment_id)
    trials = store.experiments.trials(experiment_id)
    best = next(iter(best_trials(trials, experiment.smaller_is_better)), None)
    checkpoint = None if best is None else _checkpoint(store, experiment, best)
    return Summary(experiment, trials, best, checkpoint, store.experiments.has_results(experiment_id))


def summary_plain(summary: Summary) -> dict[str, Any]:
    """Return a summary as JSON data."""
    checkpoint, metric = summary.checkpoint, summary.experiment.metric
    return {
        **experiment_plain(summary.experiment),
        "has_results": summary.has_results,
        "trial_states": dict(Counter(trial.state for trial in summary.trials)),
        "best_trial": None if summary.best is None else trial_plain(summary.best),
        "best_checkpoint": None if checkpoint is None else checkpoint_plain(checkpoint, metric),
    }


def summary_lines(summary: Summary, seconds: float | None) -> list[str]:
    """Return a summary as lines of text; `seconds` is how long the experiment ran."""
    row, best = summary.experiment, summary.best
    lines = [_headline(summary, seconds)]
    if row.reason:
        lines.append(f"  {row.reason}")
    lines += [f"  {line}" for line in missing_results(summary)]
    if best is not None and best.best is not None:
        lines += ["", f"Best trial: {best.id}, {row.metric} {number(best.best)} ({best.state})"]
        hparams = flat(best.effective_hparams)
        widest = max(map(len, hparams), default=0)
        replaced = {one.name: one.assigned for one in differences(best.hparams, best.passed_hparams)}
        lines += [
            f"  {name:<{widest}}  {cell(value)}" + (f" (assigned: {replaced[name]})" if name in replaced else "")
            for name, value in hparams.items()
        ]
    if summary.checkpoint is not None:
        lines.append(f"  checkpoint {summary.checkpoint.checkpoint_id}")
        lines.append(f"  {location_of(summary.checkpoint)}")
    lines += _failures(summary.trials)
    lines += ["", "To look closer:", *(f"  {line}" for line in _commands(summary))]
    return [visible(line) for line in lines]


def missing_results(summary: Summary) -> list[str]:
    """Return one line if trials ran, but none reported a metric or saved a checkpoint.

    A program that starts no workers, or ends before it trains, exits with 0 and would look like a success.
    """
    ran = any(trial.state not in ("QUEUED", "PAUSED") for trial in summary.trials)
    return (
        ["No trial reported a metric or saved a checkpoint: did the program train?"]
        if ran and not summary.has_results
        else []
    )


def location_of(checkpoint: StoredCheckpoint) -> str:
    """Return the directory or address of a checkpoint's files."""
    return f"{checkpoint.storage.rstrip('/')}/{checkpoint.checkpoint_id}"


def _checkpoint(store: Store, experiment: Experiment, trial: Trial) -> StoredCheckpoint | None:
    """Return the best checkpoint of a trial, or else its newest one."""
    existing = [row for row in store.checkpoints(trial.id) if row.state == "ACTIVE"]
    ranked = best_checkpoints(existing, experiment.metric, experiment.smaller_is_better)
    return next(iter(ranked or existing), None)


def _headline(summary: Summary, seconds: float | None) -> str:
    """Return the line with state, number of trials and duration."""
    row = summary.experiment
    states = Counter(trial.state for trial in summary.trials)
    by_state = ", ".join(f"{count} {state}" for state, count in states.most_common())
    trials = counted(len(summary.trials), "trial")
    taken = "" if seconds is None else f" in {duration(seconds)}"
    return f"Experiment {row.id} ({row.name}): {row.state}, {trials}{taken}" + (f" ({by_state})" if by_state else "")


def _failures(trials: list[Trial]) -> list[str]:
    """Return lines about the first failed trials."""
    failed = [trial for trial in trials if trial.state in TRIAL_FAILED]
    if not failed:
        return []
    lines = [f"  trial {trial.id}: {trial.reason or 'failed'}" for trial in failed[:_MOST_FAILURES]]
    more = len(failed) - len(lines)
    return ["", "Failed:", *lines, *([f"  and {more} more"] if more else [])]


def _commands(summary: Summary) -> list[str]:
    """Return commands that show more; they can be typed as printed."""
    number = summary.experiment.id
    commands = [f"det experiment describe {number} --metrics"]
    failed = [trial for trial in summary.trials if trial.state in TRIAL_FAILED]
    watched = (
        failed[0] if failed else summary.best or (None if summary.has_results else next(iter(summary.trials), None))
    )
    if watched is not None:
        commands.append(f"det experiment logs {number} --trial {watched.id}" + (" --tail 30" if failed else ""))
    if summary.checkpoint is not None:
        commands.append(f"det experiment list-checkpoints {number} --best 3")
    if summary.experiment.state == "PAUSED":
        commands.append(f"det experiment activate {number}    # resume")
    elif summary.experiment.state == "ERROR":
        from determined.experiment.creation.run_again import run_again

        advice = run_again(summary.experiment, summary.trials)
        commands.append(f"{advice.command}    # {advice.effect}")
    return [f"{own_command()}{command.removeprefix('det')}" for command in commands]
