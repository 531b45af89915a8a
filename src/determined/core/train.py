"""`TrainContext`: report metrics, progress, status and metadata of a training."""

from __future__ import annotations

import enum
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from determined.core.distributed import DistributedContext
from determined.core.jsonable import to_jsonable
from determined.core.supervision.reports import StatusChange
from determined.core.supervision.supervisor import Supervisor
from determined.core.tensorboard import TensorboardFiles

logger = logging.getLogger("determined.core")


class EarlyExitReason(enum.Enum):
    """Why a trial ends early."""

    INVALID_HP = "EXITED_REASON_INVALID_HP"
    USER_REQUESTED_STOP = "EXITED_REASON_USER_REQUESTED_STOP"


class TrainContext:
    """Reports of a training. They are validated in the call and written in the background.

    Storing a checkpoint and closing the run wait until all reports are written. Any rank may report. If several ranks
    report the same metric for the same group and step, the lowest rank's value counts; searches and the choice of best
    checkpoints use only the chief's reports.
    """

    def __init__(
        self,
        distributed: DistributedContext,
        supervisor: Supervisor,
        tensorboard: TensorboardFiles,
        mask: Callable[[str], str],
    ) -> None:
        self._distributed = distributed
        self._supervisor = supervisor
        self._tensorboard = tensorboard
        self._mask = mask
        self._log_level = logging.INFO

    def _leave_lines_to_caller(self) -> None:
        """Log reports at DEBUG from now on, because the caller shows each of them to the user itself."""
        self._log_level = logging.DEBUG

    def report_training_metrics(
        self, steps_completed: int, metrics: dict[str, Any], batch_metrics: list[dict[str, Any]] | None = None
    ) -> None:
        """Report metrics of the training group. `batch_metrics`, one dict per batch, are stored with them."""
        # Converted here, because they are stored beside the metrics and not checked with them.
        extra = {} if batch_metrics is None else {"batch_metrics": to_jsonable(batch_metrics, "batch_metrics")}
        self._report("training", steps_completed, metrics, extra)

    def report_validation_metrics(self, steps_completed: int, metrics: dict[str, Any]) -> None:
        """Report metrics of the validation group, by which checkpoints and trials are compared."""
        self._report("validation", steps_completed, metrics)

    def report_metrics(self, group: str, steps_completed: int, metrics: dict[str, Any]) -> None:
        """Report metrics of any group."""
        self._report(group, steps_completed, metrics)

    def report_progress(self, progress: float) -> None:
        """Report which fraction of the training is done, from 0 to 1."""
        if isinstance(progress, bool) or not isinstance(progress, (int, float)) or not 0 <= progress <= 1:
            raise ValueError(f"progress must be a number from 0 to 1, got {progress!r}")
        logger.debug("report_progress(%s)", progress)
        self._supervisor.report_status(StatusChange(progress=float(progress)))

    def set_status(self, status: str) -> None:
        """Record in a few words what the training is doing now. Secrets in it are masked, as in log lines."""
        if not isinstance(status, str):
            raise TypeError(f"status must be a str, got {status!r}")
        self._supervisor.report_status(StatusChange(phase=self._mask(status)))

    def set_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Replace the run's free-form metadata (with several ranks: this rank's part) and return what is stored."""
        if not isinstance(metadata, dict):
            raise TypeError(f"metadata must be a dict, got {metadata!r}")
        # A copy: later changes of the program's dict do not belong to what was reported.
        kept: dict[str, Any] = to_jsonable(metadata, "metadata")
        self._supervisor.set_metadata(kept)
        return dict(kept)

    def get_metadata(self) -> dict[str, Any]:
        """Return the run's free-form metadata of all ranks; for a shared name the lowest rank's value."""
        return self._supervisor.metadata()

    def get_experiment_best_validation(self) -> float | None:
        """Return the best searcher metric of all trials so far; None if no searcher metric is configured."""
        return self._supervisor.best_validation()

    def get_tensorboard_path(self) -> Path:
        """Return this rank's directory for event files."""
        return self._tensorboard.path()

    def upload_tensorboard_files(
        self,
        selector: Callable[[Path], bool] = lambda _: True,
        mangler: Callable[[Path, int], Path] = lambda path, _: path,
    ) -> None:
        """Add this rank's files to those of the run, under the names that `mangler` returns. Only in MANUAL mode."""
        self._tensorboard.upload(selector, mangler)

    def report_early_exit(self, reason: EarlyExitReason) -> None:
        """Report why this trial is about to end early."""
        if not isinstance(reason, EarlyExitReason):
            raise TypeError(f"reason must be an EarlyExitReason, got {reason!r}")
        logger.info("report_early_exit(%s)", reason.name)
        self._supervisor.report_status(StatusChange(early_exit=reason.name))

    def _follow_operations(self) -> None:
        """Record that `report_completed` adds the length, and possibly the metric, to validations."""
        self._supervisor.report_status(StatusChange(follows_operations=True))

    def _complete_length(self, length: float, metric: float) -> None:
        """Record the end of a searcher operation.

        Its length and metric are added to the last validation report, for the runner.
        """
        self._supervisor.complete_length(length, metric)

    def _report(
        self, group: str, steps_completed: int, metrics: dict[str, Any], extra: dict[str, Any] | None = None
    ) -> None:
        """Validate metrics, then log, store and plot them."""
        _check_group(group)
        _check_steps(steps_completed)
        kept = _checked_metrics(group, metrics) | (extra or {})
        # Before anything is written: the store merges reports of one step, and could not tell which value is right.
        self._refuse_changed(group, steps_completed, kept)
        logger.log(self._log_level, "report of group %s: steps_completed=%d, metrics=%s", group, steps_completed, kept)
        self._supervisor.report_metrics(group, steps_completed, kept)
        self._tensorboard.write_report(group, steps_completed, kept)

    def _refuse_changed(self, group: str, steps_completed: int, metrics: dict[str, Any]) -> None:
        """Raise ValueError if a metric was reported before for this step with another value."""
        earlier = self._supervisor.find_metrics(group, steps_completed)
        for name in metrics.keys() & earlier.keys():
            # Compared as text, because NaN is not equal to itself.
            if json.dumps(metrics[name]) != json.dumps(earlier[name]):
                raise ValueError(
                    f"the metric {name!r} of group {group!r} was already reported for steps_completed "
                    f"{steps_completed}: {earlier[name]!r}, now {metrics[name]!r}"
                )


def _check_group(group: Any) -> None:
    """Raise ValueError for a name of a group that metric paths cannot contain."""
    if not isinstance(group, str) or not group or "." in group:
        raise ValueError(f"group must be a non-empty str without '.', got {group!r}")


def _check_steps(steps_completed: Any) -> None:
    """Raise unless the number of steps is an integer that a database column can hold."""
    if isinstance(steps_completed, bool) or not isinstance(steps_completed, int):
        raise TypeError(f"steps_completed must be an int, got {steps_completed!r}")
    if not 0 <= steps_completed < 2**63:
        raise ValueError(f"steps_completed must be from 0 to 2**63 - 1, got {steps_completed}")


def _checked_metrics(group: str, metrics: Any) -> dict[str, Any]:
    """Return metrics as JSON-compatible data; raise for names and values that cannot be stored."""
    if not isinstance(metrics, dict):
        raise TypeError(f"metrics must be a dict, got {type(metrics).__name__}: {metrics!r}")
    kept = {}
    for name, value in metrics.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a metric must be a str, got {name!r}")
        kept[name] = to_jsonable(value, f"the metric {name!r}")
        # Searches compare validation metrics, and None cannot be compared.
        if kept[name] is None and group == "validation":
            raise RuntimeError(f"the validation metric {name!r} is None: report a value or leave it out")
        if name in {"epoch", "epochs"} and (isinstance(kept[name], bool) or not isinstance(kept[name], (int, float))):
            raise ValueError(f"the metric {name!r} must be a number, got {value!r}")
    return kept
