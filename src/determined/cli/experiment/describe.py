"""`det experiment describe`: tables of experiments, their trials, and the workloads of the trials."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from determined.cli.command import Command
from determined.cli.display.json_rows import experiment_plain, resource_pool, trial_plain
from determined.cli.display.output import Form, print_json, with_csv, without_garbage_collection, write_csv
from determined.cli.display.safe_text import visible_lines
from determined.cli.display.table import Column, Row, percent, table
from determined.cli.display.times import time_text, with_utc
from determined.cli.experiment.views.trial_metrics import (
    Workload,
    metric_names,
    short_workload_columns,
    trial_facts,
    workload_columns,
    workload_rows,
    workloads_of,
)
from determined.cli.selection.arguments import Ids, complete_experiments, expand, numbers
from determined.cli.store_access import opened_store

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment, Trial
    from determined.store.store import Store

_EXPERIMENT = [
    Column("Experiment ID"),
    Column("State"),
    Column("Progress"),
    Column("Started"),
    Column("Ended"),
    Column("Name", long=True),
    Column("Description", long=True),
    Column("Archived"),
    Column("Resource Pool"),
    Column("Labels", long=True),
]
_TRIALS = [
    Column("Trial ID"),
    Column("Experiment ID"),
    Column("State"),
    Column("Started"),
    Column("Ended"),
    Column("H-Params", long=True),
]
# The name of a table, of its file in `--outdir`, its columns and its rows.
Tables = list[tuple[str, str, list[Column], list[Row]]]


@click.command(cls=Command, action="describe {experiment_ids:experiment}")
@click.argument(
    "experiment_ids", metavar="IDS...", nargs=-1, required=True, callback=numbers, shell_complete=complete_experiments
)
@click.option("--metrics", is_flag=True, help="Also show the metrics of each workload.")
@click.option("--outdir", type=click.Path(path_type=Path, file_okay=False), help="Write CSV files into this directory.")
@with_utc
@with_csv
@without_garbage_collection
def describe(experiment_ids: list[Ids], metrics: bool, outdir: Path | None, form: Form) -> None:
    """Describe experiments, their trials and their metrics.

    On a terminal the best trials come first, and workloads are shown with --metrics.

    \b
    Example: det experiment describe 3,4 --metrics
    """
    if outdir is not None and form != "table":
        raise click.UsageError("--outdir, --csv and --json exclude each other")
    from determined.queue.liveness import resume_hints

    ids = expand("experiment", experiment_ids)
    if form == "table" and outdir is None and sys.stdout.isatty():
        _describe_on_terminal(ids, metrics)
        return
    with opened_store() as store:
        experiments = [store.experiments.get(number) for number in ids]
        trials = {row.id: store.experiments.trials(row.id) for row in experiments}
        workloads = {trial.id: _workloads(store, trial.id) for rows in trials.values() for trial in rows}
        hints = resume_hints(store, experiments)
    if form == "json":
        print_json([_plain(row, trials[row.id], workloads, metrics) for row in experiments])
        return
    all_trials = [trial for row in experiments for trial in trials[row.id]]
    found = _tables(experiments, all_trials, workloads, metrics)
    if outdir is not None:
        outdir.mkdir(parents=True, exist_ok=True)
        for _, file_name, columns, rows in found:
            # newline="": the csv writer ends its lines itself.
            with open(outdir / file_name, "w", newline="", encoding="utf-8") as file:
                write_csv(file, columns, rows)
        click.echo(f"Wrote {', '.join(str(outdir / file_name) for _, file_name, _, _ in found)}")
    elif form == "csv":
        for position, (_, _, columns, rows) in enumerate(found):
            click.echo("" if position else None, nl=bool(position))
            write_csv(sys.stdout, columns, rows)
    else:
        click.echo("\n\n".join(f"{name}\n{table(columns, rows)}" for name, _, columns, rows in found))
        _explain(experiments, all_trials, hints)


def _describe_on_terminal(experiment_ids: list[int], metrics: bool) -> None:
    """Print the leaderboard and properties of each experiment; with `metrics`, also the workloads."""
    from determined.cli.experiment.views.description import description
    from determined.cli.experiment.views.leaderboard import leaderboard
    from determined.queue.liveness import resume_hints

    parts: list[str] = []
    with opened_store() as store:
        experiments = [store.experiments.get(number) for number in experiment_ids]
        boards = [leaderboard(store, row) for row in experiments]
        parts += [description(store, board) for board in boards]
        trials = [entry.trial for board in boards for entry in board.entries]
        if metrics:
            workloads = {trial.id: _workloads(store, trial.id) for trial in trials}
            names = metric_names([workload for rows in workloads.values() for workload in rows])
            rows = [row for trial in trials for row in workload_rows(trial.id, workloads[trial.id], *names)]
            parts.append(f"Workloads\n{table(short_workload_columns(*names), rows)}")
        hints = resume_hints(store, experiments)
    click.echo("\n\n".join(parts))
    _explain(experiments, trials, hints)


def _workloads(store: Store, trial_id: int) -> list[Workload]:
    """Return what a trial reported at each step: training metrics, validation metrics, checkpoint."""
    # Two queries, so that reports of other groups, which are not shown, are not read.
    reports = [*store.metrics(trial_id, "training"), *store.metrics(trial_id, "validation")]
    return workloads_of(reports, store.checkpoints(trial_id))


def _tables(
    experiments: list[Experiment], trials: list[Trial], workloads: dict[int, list[Workload]], metrics: bool
) -> Tables:
    """Return the tables of experiments, trials and workloads."""
    names = metric_names([workload for rows in workloads.values() for workload in rows]) if metrics else ([], [])
    return [
        ("Experiment", "experiments.csv", _EXPERIMENT, [_experiment_row(row) for row in experiments]),
        ("Trials", "trials.csv", _TRIALS, [_trial_row(row) for row in trials]),
        (
            "Workloads",
            "workloads.csv",
            workload_columns(*names),
            [row for trial in trials for row in workload_rows(trial.id, workloads[trial.id], *names)],
        ),
    ]


def _experiment_row(row: Experiment) -> Row:
    """Return the row of an experiment for the table of experiments."""
    return [
        row.id,
        row.state,
        percent(row.progress),
        time_text(row.created),
        time_text(row.ended),
        row.name,
        row.description,
        row.archived,
        resource_pool(row),
        ", ".join(row.labels),
    ]


def _trial_row(row: Trial) -> Row:
    """Return the row of a trial for the table of trials."""
    return [row.id, row.experiment_id, row.state, time_text(row.started), time_text(row.ended), row.effective_hparams]


def _plain(row: Experiment, trials: list[Trial], workloads: dict[int, list[Workload]], metrics: bool) -> dict[str, Any]:
    """Return an experiment with its trials and workloads as JSON data."""
    return {
        **experiment_plain(row),
        "trials": [
            {**trial_plain(trial), "workloads": [workload.plain(metrics) for workload in workloads[trial.id]]}
            for trial in trials
        ],
    }


def _explain(experiments: list[Experiment], trials: list[Trial], hints: list[str]) -> None:
    """Print notes, reasons and commands to continue, for which the tables have no columns."""
    lines = [f"Experiment {row.id}: notes: {row.notes}" for row in experiments if row.notes]
    # The reason of a standalone run is that of its trial, which is printed below.
    lines += [
        f"Experiment {row.id}: {row.state}: {row.reason}" for row in experiments if row.reason and not row.is_standalone
    ]
    lines += hints
    for row in trials:
        lines += trial_facts(row)
    if lines:
        click.echo("\n" + "\n".join(visible_lines(line) for line in lines))
