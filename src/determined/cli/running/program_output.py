"""Run a program as an experiment of one trial, passing its output through."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from determined.cli.display.output import Form, print_json
from determined.cli.display.safe_text import log_line, visible
from determined.cli.display.table import number
from determined.cli.opened import opened_store
from determined.cli.running.foreground import warnings_to
from determined.cli.running.slot_waiting import Sharing, reserve_slots
from determined.cli.running.summary import Summary, missing_results, place_of, summarize, summary_plain
from determined.cli.streams import outliving_the_reader

if TYPE_CHECKING:
    from determined.engines.base import Line
    from determined.engines.local import LocalEngine
    from determined.experiment.runner.run import Ended


def run_program(experiment_id: int, engine: LocalEngine, form: Form, sharing: Sharing) -> int:
    """Run the program and return the exit code.

    Its output goes to the stream it was written to (with JSON, all of it to standard error); messages of `det` go to
    standard error.
    """
    from determined.experiment.runner.run import run_experiment
    from determined.store.open import checked_place

    def on_line(trial_id: int, line: Line) -> None:
        stream = sys.stdout if line.stream == "stdout" and form != "json" else sys.stderr
        rank = f"[rank={line.rank}] " if line.rank else ""
        with outliving_the_reader():
            # Colours are kept for pipes and files, from which click would remove them.
            click.echo(rank + log_line(line.text, stream), file=stream, color=True)

    with opened_store() as store:
        config = store.experiments.get(experiment_id).config
    with warnings_to(_say):
        reserve_slots(engine, config, experiment_id, sharing, _say)
        ended = run_experiment(checked_place(), experiment_id, engine=engine, on_line=on_line, say=_say)
    with opened_store() as store:
        summary = summarize(store, experiment_id)
    with outliving_the_reader():
        if form == "json":
            print_json({**summary_plain(summary), "exit_code": _exit_code(ended)})
        for line in _last_words(summary):
            _say(line)
    return _exit_code(ended)


def _exit_code(ended: Ended) -> int:
    """Return 0 if the program completed, 128 + N if signal N paused it, the program's code if it failed, else 1."""
    if ended.state == "COMPLETED":
        return 0
    if ended.signal is not None:
        return 128 + ended.signal
    return ended.code or 1 if ended.state == "ERROR" else 1


def _last_words(summary: Summary) -> list[str]:
    """Return the closing lines: the result, the checkpoint, and how to resume."""
    row = summary.experiment
    why = [trial.reason for trial in summary.trials if trial.reason and row.state != "COMPLETED"]
    reason = f" ({why[0]})" if why else ""
    best = "" if row.best is None else f", best {row.metric} {number(row.best)}"
    lines = [f"Experiment {row.id}: {row.state}{reason}{best}; see: det experiment describe {row.id}"]
    if row.state == "COMPLETED":  # a failed program has printed its reason
        lines += missing_results(summary)
    if summary.checkpoint is not None:
        lines.append(f"Checkpoint: {place_of(summary.checkpoint)}")
    if row.state == "PAUSED":
        lines.append(f"To resume: det experiment activate {row.id}")
    return lines


def _say(line: str) -> None:
    with outliving_the_reader():
        click.echo(visible(line), err=True)
