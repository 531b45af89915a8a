"""What a trial did, one row for each step at which it reported, validated or saved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from determined.cli.output import iso_time
from determined.cli.plain import checkpoint_state
from determined.cli.render import Column, Row, time_text

if TYPE_CHECKING:
    from determined.store.base import Store
    from determined.store.records import Checkpoint, Metric


@dataclass(frozen=True)
class Report:
    """What all ranks reported for one group and step, and which of them reported each metric."""

    reported: float
    metrics: dict[str, Any]
    ranks: dict[str, int]

    def plain(self, metrics: bool) -> dict[str, Any]:
        return {
            "reported": iso_time(self.reported),
            **({"metrics": self.metrics, "ranks": self.ranks} if metrics else {}),
        }


@dataclass(frozen=True)
class Workload:
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


def workloads_of(store: Store, trial_id: int) -> list[Workload]:
    """Return what a trial reported and saved, by step."""
    training = _reports(store.metrics(trial_id, "training"))
    validation = _reports(store.metrics(trial_id, "validation"))
    # The newest comes first, and of two at the same step it is the one to show.
    checkpoints = {row.steps_completed: row for row in reversed(store.checkpoints(trial_id))}
    steps = sorted(step for step in {*training, *validation, *checkpoints} if step is not None)
    return [Workload(step, training.get(step), validation.get(step), checkpoints.get(step)) for step in steps]


def _reports(rows: Iterable[Metric]) -> dict[int | None, Report]:
    """Return what was reported at each step; no two ranks have a metric of the same name there."""
    found: dict[int | None, Report] = {}
    for row in rows:
        report = found.setdefault(row.steps_completed, Report(row.reported, {}, {}))
        report.metrics.update(row.metrics)
        report.ranks.update(dict.fromkeys(row.metrics, row.rank))
    return found


def metric_names(workloads: Iterable[Workload]) -> tuple[list[str], list[str]]:
    """Every name that any trial reported: of training, of validation."""
    training: set[str] = set()
    validation: set[str] = set()
    for workload in workloads:
        training |= set(workload.training.metrics) if workload.training else set()
        validation |= set(workload.validation.metrics) if workload.validation else set()
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


def workload_row(trial_id: int, workload: Workload, training: list[str], validation: list[str]) -> Row:
    checkpoint = workload.checkpoint
    return [
        trial_id,
        workload.steps_completed,
        *_state(workload.training),
        *_values(workload.training, training),
        "" if checkpoint is None else checkpoint_state(checkpoint),
        "" if checkpoint is None else time_text(checkpoint.reported),
        *_state(workload.validation),
        *_values(workload.validation, validation),
    ]


def _state(report: Report | None) -> tuple[str, str]:
    return ("", "") if report is None else ("COMPLETED", time_text(report.reported))


def _values(report: Report | None, names: list[str]) -> list[Any]:
    """A metric that was not reported is empty; one that is zero is 0."""
    return [None if report is None else report.metrics.get(name) for name in names]
