"""What a trial did, one row for each step at which it reported, validated or saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from determined.cli.output import iso_time
from determined.cli.plain import checkpoint_state
from determined.cli.render import Column, Row, time_texts

if TYPE_CHECKING:
    from determined.store.records import Checkpoint, Metric


class SharedReport(NamedTuple):
    """What several ranks reported for one group and step, none of them a metric of another."""

    reported: float
    metrics: dict[str, Any]
    rows: tuple[Metric, ...]


# A report of one rank is used as the store returned it: there may be very many.
Report: TypeAlias = "Metric | SharedReport"


def _report_plain(report: Report | None, metrics: bool) -> dict[str, Any] | None:
    if report is None:
        return None
    rows = report.rows if isinstance(report, SharedReport) else (report,)
    shown = {"metrics": report.metrics, "ranks": {name: row.rank for row in rows for name in row.metrics}}
    return {"reported": iso_time(report.reported), **(shown if metrics else {})}


class Workload(NamedTuple):
    """What a trial reported and saved at one step."""

    steps_completed: int
    training: Report | None
    validation: Report | None
    checkpoint: Checkpoint | None

    def plain(self, metrics: bool) -> dict[str, Any]:
        checkpoint = self.checkpoint
        return {
            "batches": self.steps_completed,
            "training": _report_plain(self.training, metrics),
            "validation": _report_plain(self.validation, metrics),
            "checkpoint": None
            if checkpoint is None
            else {
                "uuid": checkpoint.uuid,
                "state": checkpoint_state(checkpoint),
                "reported": iso_time(checkpoint.reported),
            },
        }


def workloads_of(rows: Sequence[Metric], checkpoints: Sequence[Checkpoint]) -> list[Workload]:
    """Return what a trial reported and saved, by step; checkpoints come with the newest first."""
    training = _reports([row for row in rows if row.group == "training"])
    validation = _reports([row for row in rows if row.group == "validation"])
    # Of two checkpoints at the same step the newest is the one to show.
    saved = {row.steps_completed: row for row in reversed(checkpoints)}
    steps = sorted(step for step in {*training, *validation, *saved} if step is not None)
    return [Workload(step, training.get(step), validation.get(step), saved.get(step)) for step in steps]


def _reports(rows: Sequence[Metric]) -> dict[int | None, Report]:
    """Return what was reported at each step; no two ranks have a metric of the same name there."""
    found: dict[int | None, Report] = {row.steps_completed: row for row in rows}
    if len(found) == len(rows):
        return found
    at_step: dict[int | None, list[Metric]] = {}
    for row in rows:
        at_step.setdefault(row.steps_completed, []).append(row)
    return {step: _together(reports) for step, reports in at_step.items()}


def _together(rows: Sequence[Metric]) -> Report:
    if len(rows) == 1:
        return rows[0]
    metrics = {name: value for row in rows for name, value in row.metrics.items()}
    return SharedReport(rows[0].reported, metrics, tuple(rows))


def metric_names(workloads: Sequence[Workload]) -> tuple[list[str], list[str]]:
    """Return every name that any trial reported, of training and of validation."""
    training = set[str]().union(*[workload.training.metrics for workload in workloads if workload.training])
    validation = set[str]().union(*[workload.validation.metrics for workload in workloads if workload.validation])
    return sorted(training), sorted(validation)


def short_workload_columns(training: list[str], validation: list[str]) -> list[Column]:
    """Return the same columns as `workload_columns` with names that leave space for more of them on a terminal."""
    shorter = {"Training Metric: ": "train ", "Validation Metric: ": "val "}
    columns = []
    for column in workload_columns(training, validation):
        before = next((prefix for prefix in shorter if column.name.startswith(prefix)), None)
        if before is not None:
            column = Column(shorter[before] + column.name.removeprefix(before), long=True, rank=column.rank)
        columns.append(column)
    return columns


def workload_columns(training: list[str], validation: list[str]) -> list[Column]:
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

    The rows are made column by column, which takes half the time of making them one by one.
    """
    time_text = time_texts()

    def report_columns(reports: list[Report | None], names: list[str]) -> list[list[Any]]:
        """Return states, times and metrics; a metric that was not reported is None, one that is zero is 0."""
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
        ["" if checkpoint is None else checkpoint_state(checkpoint) for checkpoint in checkpoints],
        ["" if checkpoint is None else time_text(checkpoint.reported) for checkpoint in checkpoints],
        *report_columns([workload.validation for workload in workloads], validation),
        strict=True,
    )
