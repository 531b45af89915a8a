"""What a trial did, one row for each step at which it reported, validated or saved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from determined.cli.output import iso_time
from determined.cli.plain import checkpoint_state
from determined.cli.render import Column, Row, time_texts

if TYPE_CHECKING:
    from determined.store.records import Checkpoint, Metric


class Report(NamedTuple):
    """What all ranks reported for one group and step, and which of them reported each metric."""

    reported: float
    metrics: dict[str, Any]
    rows: tuple[Metric, ...]  # of each rank

    @property
    def ranks(self) -> dict[str, int]:
        return {name: row.rank for row in self.rows for name in row.metrics}

    def plain(self, metrics: bool) -> dict[str, Any]:
        return {
            "reported": iso_time(self.reported),
            **({"metrics": self.metrics, "ranks": self.ranks} if metrics else {}),
        }


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
            "training": None if self.training is None else self.training.plain(metrics),
            "validation": None if self.validation is None else self.validation.plain(metrics),
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
    training = _reports(row for row in rows if row.group == "training")
    validation = _reports(row for row in rows if row.group == "validation")
    # Of two checkpoints at the same step the newest is the one to show.
    saved = {row.steps_completed: row for row in reversed(checkpoints)}
    steps = sorted(step for step in {*training, *validation, *saved} if step is not None)
    return [Workload(step, training.get(step), validation.get(step), saved.get(step)) for step in steps]


def _reports(rows: Iterable[Metric]) -> dict[int | None, Report]:
    """Return what was reported at each step; no two ranks have a metric of the same name there."""
    found: dict[int | None, Report] = {}
    for row in rows:
        report = found.get(row.steps_completed)
        if report is None:
            found[row.steps_completed] = Report(row.reported, row.metrics, (row,))
        else:
            together = {**report.metrics, **row.metrics}
            found[row.steps_completed] = Report(report.reported, together, (*report.rows, row))
    return found


def metric_names(workloads: Iterable[Workload]) -> tuple[list[str], list[str]]:
    """Every name that any trial reported: of training, of validation."""
    training: set[str] = set()
    validation: set[str] = set()
    for workload in workloads:
        if workload.training is not None:
            training.update(workload.training.metrics)
        if workload.validation is not None:
            validation.update(workload.validation.metrics)
    return sorted(training), sorted(validation)


def workload_columns(training: list[str], validation: list[str]) -> list[Column]:
    return [
        Column("Trial ID"),
        Column("# of Batches"),
        Column("State"),
        Column("Report Time"),
        *(Column(f"Training Metric: {name}") for name in training),
        Column("Checkpoint State"),
        Column("Checkpoint Report Time"),
        Column("Validation State"),
        Column("Validation Report Time"),
        *(Column(f"Validation Metric: {name}") for name in validation),
    ]


def workload_rows(
    trial_id: int, workloads: Iterable[Workload], training: list[str], validation: list[str]
) -> Iterator[Row]:
    """Yield a row for each workload, with a cell for each of the named metrics."""
    time_text = time_texts()

    def report(found: Report | None, names: list[str]) -> list[Any]:
        """Return state, time and metrics; a metric that was not reported is empty, one that is zero is 0."""
        if found is None:
            return ["", "", *[None] * len(names)]
        return ["COMPLETED", time_text(found.reported), *map(found.metrics.get, names)]

    for workload in workloads:
        checkpoint = workload.checkpoint
        yield [
            trial_id,
            workload.steps_completed,
            *report(workload.training, training),
            "" if checkpoint is None else checkpoint_state(checkpoint),
            "" if checkpoint is None else time_text(checkpoint.reported),
            *report(workload.validation, validation),
        ]
