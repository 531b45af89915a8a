"""`det trial describe`: a trial and its workloads."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from determined.cli.display.json_rows import trial_plain
from determined.cli.display.output import (
    Form,
    Page,
    paging,
    print_json,
    show,
    with_csv,
    without_garbage_collection,
    write_csv,
)
from determined.cli.display.safe_text import visible_lines
from determined.cli.display.table import Column, Row, details, table
from determined.cli.display.times import time_text, with_utc
from determined.cli.experiment.views.trial_metrics import (
    COLUMNS,
    Workload,
    summary_rows,
    summary_table,
    trial_facts,
    workloads_of,
)
from determined.cli.selection.bulk import BulkCommand
from determined.cli.store_access import opened_store
from determined.config.flattening import flat
from determined.curves.summary import Summary, summarize
from determined.store.experiment_records import nodes_text

if TYPE_CHECKING:
    from determined.store.experiment_records import Trial

_TRIAL = [
    Column("Experiment ID"),
    Column("State"),
    Column("H-Params", long=True),
    Column("Summary Metrics", long=True),
    Column("Started"),
    Column("Ended"),
]
_WORKLOADS = [
    Column("# of Batches", rank=0),
    Column("Report Time", rank=4),
    Column("Checkpoint", rank=2),
    Column("Checkpoint UUID", rank=1),
    Column("Checkpoint Metadata", long=True, rank=3),
    Column("Validation Metrics", long=True, rank=0),
]


@click.command(cls=BulkCommand, kind="trial", action="describe {trial_id:trial}")
@click.option("--metrics", is_flag=True, help="Also show the training metrics of each workload.")
@click.option("--metrics-summary", "summed_up", is_flag=True, help="Only show a summary of each metric.")
@paging(1000)
@with_utc
@with_csv
@without_garbage_collection
def describe(trial_id: int, metrics: bool, summed_up: bool, page: Page, form: Form) -> None:
    """Describe a trial and its metrics.

    \b
    Example: det trial describe 7 --metrics
    """
    if metrics and summed_up:
        raise click.UsageError("--metrics and --metrics-summary exclude each other")
    with opened_store() as store:
        row = store.experiments.trial(trial_id)
        reports = store.metrics(trial_id)
        workloads: list[Workload] = page.of(workloads_of(reports, store.checkpoints(trial_id)))
    summary = summarize(reports)
    if summed_up:
        show(form, COLUMNS, summary_rows(summary), lambda: summary)
        return
    if form == "json":
        plain = [workload.plain(metrics) for workload in workloads]
        print_json({**trial_plain(row), "summary_metrics": summary, "workloads": plain})
        return
    columns = [*_WORKLOADS, *([Column("Workload Metrics", long=True, rank=0)] if metrics else [])]
    rows = [_workload_row(workload, metrics) for workload in workloads]
    if form == "csv":
        write_csv(sys.stdout, _trial_columns(row), [_trial_row(row, summary)])
        click.echo()
        write_csv(sys.stdout, columns, rows)
        return
    if sys.stdout.isatty():
        hparams = details(list(flat(row.effective_hparams).items()))
        described = (
            f"Trial\n{details(_properties(row))}\n\nHyperparameters\n{hparams or ' none'}"
            f"\n\nMetrics\n{summary_table(reports)}"
        )
    else:
        described = table(_trial_columns(row), [_trial_row(row, summary)])
    click.echo(f"{described}\n\nWorkloads\n{table(columns, rows)}")
    facts = trial_facts(row)
    if facts:
        click.echo("\n" + "\n".join(map(visible_lines, facts)))


def _trial_columns(row: Trial) -> list[Column]:
    """Return the columns of a trial; only one that ran on a cluster has nodes."""
    return _TRIAL if row.nodes is None else [*_TRIAL, Column("Nodes")]


def _trial_row(row: Trial, summary: Summary) -> Row:
    """Return the row of a trial, with the summary of its metrics; see `_trial_columns`."""
    return [
        row.experiment_id,
        row.state,
        row.effective_hparams,
        summary,
        time_text(row.started),
        time_text(row.ended),
        *([] if row.nodes is None else [nodes_text(row.nodes)]),
    ]


def _properties(row: Trial) -> list[tuple[str, object]]:
    """Return the properties of a trial; empty ones are not shown."""
    return [
        ("Trial ID", row.id),
        ("Experiment ID", row.experiment_id),
        ("State", row.state),
        ("Started", time_text(row.started)),
        ("Ended", time_text(row.ended)),
        ("Batches", row.steps_completed),
        ("Restarts", row.restarts or None),
        ("Host", row.host if row.nodes is None else None),
        ("Nodes", None if row.nodes is None else nodes_text(row.nodes)),
    ]


def _workload_row(workload: Workload, metrics: bool) -> Row:
    """Return the row of a workload, with training metrics if requested."""
    checkpoint = workload.checkpoint
    reports = [report for report in (workload.training, workload.validation, checkpoint) if report is not None]
    return [
        workload.steps_completed,
        time_text(max(report.reported for report in reports)),
        "" if checkpoint is None else checkpoint.shown_state,
        "" if checkpoint is None else checkpoint.checkpoint_id,
        None if checkpoint is None else checkpoint.metadata,
        None if workload.validation is None else workload.validation.metrics,
        *([None if workload.training is None else workload.training.metrics] if metrics else []),
    ]
