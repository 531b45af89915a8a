"""The metrics of a trial as tables (a row for each workload, or for each metric), and lines about its processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from determined.cli.display.output import iso_time
from determined.cli.display.table import Column, Row, table
from determined.cli.display.times import time_texts
from determined.curves.summary import Summary, summarize

if TYPE_CHECKING:
    from determined.store.experiment_records import Trial
    from determined.store.records import Metric, StoredCheckpoint

MEASURES = ("count", "last", "min", "max", "mean", "sum", "type")


class SharedReport(NamedTuple):
    """The reports of several ranks for one group and step, which have no metric names in common."""

    reported: float
    metrics: dict[str, Any]
    rows: tuple[Metric, ...]


# The report of a single rank is used as the store returned it, because there may be very many.
Report: TypeAlias = "Metric | SharedReport"


def _report_plain(report: Report | None, metrics: bool) -> dict[str, Any] | None:
    """Return a report as JSON data, with metrics only if requested."""
    if report is None:
        return None
    rows = report.rows if isinstance(report, SharedReport) else (report,)
    shown = {"metrics": report.metrics, "ranks": {name: row.rank for row in rows for name in row.metrics}}
    return {"reported": iso_time(report.reported), **(shown if metrics else {})}


class Workload(NamedTuple):
    """The metrics and the checkpoint that a trial reported at one step."""

    steps_completed: int
    training: Report | None
    validation: Report | None
    checkpoint: StoredCheckpoint | None

    def plain(self, metrics: bool) -> dict[str, Any]:
        """Return the workload as JSON data, with metrics only if requested."""
        checkpoint = self.checkpoint
        return {
            "batches": self.steps_completed,
            "training": _report_plain(self.training, metrics),
            "validation": _report_plain(self.validation, metrics),
            "checkpoint": None
            if checkpoint is None
            else {
                "uuid": checkpoint.checkpoint_id,
                "state": checkpoint.shown_state,
                "reported": iso_time(checkpoint.reported),
            },
        }


def workloads_of(rows: Sequence[Metric], checkpoints: Sequence[StoredCheckpoint]) -> list[Workload]:
    """Return what a trial reported and saved, by step; `checkpoints` are expected newest first."""
    training = _reports([row for row in rows if row.group == "training"])
    validation = _reports([row for row in rows if row.group == "validation"])
    # The newest of several checkpoints at one step is shown.
    saved = {row.steps_completed: row for row in reversed(checkpoints)}
    steps = sorted(step for step in {*training, *validation, *saved} if step is not None)
    return [Workload(step, training.get(step), validation.get(step), saved.get(step)) for step in steps]


def _reports(rows: Sequence[Metric]) -> dict[int | None, Report]:
    """Return the report of each step, merged over ranks."""
    found: dict[int | None, Report] = {row.steps_completed: row for row in rows}
    # The usual case, one rank, needs no grouping.
    if len(found) == len(rows):
        return found
    at_step: dict[int | None, list[Metric]] = {}
    for row in rows:
        at_step.setdefault(row.steps_completed, []).append(row)
    return {step: _merge_ranks(reports) for step, reports in at_step.items()}


def _merge_ranks(rows: Sequence[Metric]) -> Report:
    """Merge the reports of several ranks for one step."""
    if len(rows) == 1:
        return rows[0]
    metrics = {name: value for row in rows for name, value in row.metrics.items()}
    return SharedReport(rows[0].reported, metrics, tuple(rows))


def metric_names(workloads: Sequence[Workload]) -> tuple[list[str], list[str]]:
    """Return the sorted names of all training metrics and of all validation metrics."""
    training = set[str]().union(*[workload.training.metrics for workload in workloads if workload.training])
    validation = set[str]().union(*[workload.validation.metrics for workload in workloads if workload.validation])
    return sorted(training), sorted(validation)


def short_workload_columns(training: list[str], validation: list[str]) -> list[Column]:
    """Return the columns of `workload_columns` with shorter names, so that more of them fit a terminal."""
    shorter = {"Training Metric: ": "train ", "Validation Metric: ": "val "}
    columns = []
    for column in workload_columns(training, validation):
        before = next((prefix for prefix in shorter if column.name.startswith(prefix)), None)
        if before is not None:
            column = Column(shorter[before] + column.name.removeprefix(before), long=True, rank=column.rank)
        columns.append(column)
    return columns


def workload_columns(training: list[str], validation: list[str]) -> list[Column]:
    """Return the columns for these training and validation metrics."""
    return [
        Column("Trial ID", rank=0),
        Column("# of Batches", rank=0),
        Column("State", rank=5),
        Column("Report Time", rank=6),
        *(Column(f"Training Metric: {name}", rank=2) for name in training),
        Column("Checkpoint State", rank=4),
        Column("Checkpoint Report Time", rank=6),
        Column("Validation State", rank=5),
        Column("Validation Report Time", rank=6),
        *(Column(f"Validation Metric: {name}", rank=1) for name in validation),
    ]


def workload_rows(
    trial_id: int, workloads: Sequence[Workload], training: list[str], validation: list[str]
) -> Iterator[Row]:
    """Yield a row for each workload, with a cell for each of the named metrics.

    Rows are built column by column, which takes half the time of building them one by one.
    """
    time_text = time_texts()

    def report_columns(reports: list[Report | None], names: list[str]) -> list[list[Any]]:
        """Return states, times and metrics; a metric that was not reported is None."""
        return [
            ["" if report is None else "COMPLETED" for report in reports],
            ["" if report is None else time_text(report.reported) for report in reports],
            *([None if report is None else report.metrics.get(name) for report in reports] for name in names),
        ]

    checkpoints = [workload.checkpoint for workload in workloads]
    yield from zip(
        [trial_id] * len(workloads),
        [workload.steps_completed for workload in workloads],
        *report_columns([workload.training for workload in workloads], training),
        ["" if checkpoint is None else checkpoint.shown_state for checkpoint in checkpoints],
        ["" if checkpoint is None else time_text(checkpoint.reported) for checkpoint in checkpoints],
        *report_columns([workload.validation for workload in workloads], validation),
        strict=True,
    )


COLUMNS = [
    Column("Group", rank=0),
    Column("Metric", long=True, rank=0),
    *(Column(measure, long=measure == "last", rank=0 if measure == "last" else 2) for measure in MEASURES),
]


def summary_rows(summary: Summary) -> list[Row]:
    """Return a row for each metric."""
    return [
        [group, name, *(measures.get(measure) for measure in MEASURES)]
        for group, metrics in summary.items()
        for name, measures in metrics.items()
    ]


def summary_table(reports: Sequence[Metric]) -> str:
    """Return the table without sums and types, which `det trial describe --metrics-summary` shows."""
    shown = [position for position, column in enumerate(COLUMNS) if column.name not in ("sum", "type")]
    rows = summary_rows(summarize(reports))
    if not rows:
        return " none"
    return table([COLUMNS[position] for position in shown], [[row[position] for position in shown] for row in rows])


def trial_facts(row: Trial) -> list[str]:
    """Return lines about the processes of a trial: the command of a standalone run, and why the trial ended."""
    lines = []
    if row.command is not None:
        commit = f", git commit {row.git_commit[:12]}" if row.git_commit else ""
        lines.append(f"Trial {row.id}: started on {row.host}{commit}: {row.command}")
    restarts = f" after {row.restarts} restart{'s' if row.restarts > 1 else ''}" if row.restarts else ""
    code = f" (exit code {row.exit_code})" if row.exit_code else ""
    if row.reason:
        separator = "\n" if "\n" in row.reason else " "
        lines.append(f"Trial {row.id}: {row.state}{restarts}{code}:{separator}{row.reason}")
    elif code:
        lines.append(f"Trial {row.id}: {row.state}{code}")
    return lines
