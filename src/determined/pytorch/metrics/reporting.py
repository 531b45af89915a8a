"""`Reporter`: report metrics, TensorBoard scalars, status and progress on the chief."""

from __future__ import annotations

import math
import time

from determined import core
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.display.progress import Progress
from determined.pytorch.metrics.batch_metrics import Columns, Metrics
from determined.pytorch.metrics.tensorboard_scalars import Scalars
from determined.pytorch.state import LoopState


class Reporter:
    """Reports on the chief; on other ranks nothing is reported."""

    def __init__(self, core_context: core.Context, context: PyTorchTrialContext, progress: Progress) -> None:
        self._train = core_context.train
        self._chief = context.distributed.rank == 0
        self.progress = progress
        if progress.visible:  # its lines show every report and checkpoint, so the log must not repeat them
            core_context.train._leave_lines_to_caller()
            core_context.checkpoint._leave_lines_to_caller()
        self._scalars = Scalars(context)
        self._status = ""
        self._progress_reported_at = -math.inf
        self._progress = -1.0  # the last that was reported
        by_records = core_context.info.trial._time_metric == "records"
        self._batch_size = context.get_global_batch_size() if by_records else None

    def status(self, text: str) -> None:
        """Report what the trial is doing, if it has changed."""
        if self._chief and text != self._status:
            self._status = text
            self._train.set_status(text)

    def fraction_done(self, fraction: float) -> None:
        """Report the fraction done, at most once per second except at the end: each report is a write to the store."""
        now = time.monotonic()
        # The last value is always sent, so that a finished trial shows 100 %.
        if self._chief and fraction != self._progress and (fraction >= 1 or now - self._progress_reported_at >= 1):
            self._progress_reported_at = now
            self._progress = fraction
            self._train.report_progress(fraction)

    def training(self, state: LoopState, metrics: Metrics, columns: Columns) -> None:
        """Report a workload: its averages and reducers, and the values of each batch to TensorBoard."""
        if not self._chief:
            # Callbacks on all ranks get the same metrics as those that are reported.
            self._add_counters(metrics, state)
            return
        # Before the counters are added, which need no curve and no place in the progress line.
        self._scalars.training(state.batches_trained, metrics, columns)
        self.progress.training(state.batches_trained, metrics)
        self._add_counters(metrics, state)
        self._train.report_training_metrics(state.batches_trained, metrics)

    def validation(self, state: LoopState, metrics: Metrics) -> None:
        """Report a validation."""
        if self._chief:
            self._scalars.validation(state.batches_trained, metrics)
            self.progress.validation(state.batches_trained, metrics)
        self._add_counters(metrics, state)
        if self._chief:
            self._train.report_validation_metrics(state.batches_trained, metrics)

    def stored(self, checkpoints: list[tuple[int, str]]) -> None:
        """Show checkpoints that were stored, given as (batch, id)."""
        for batches, checkpoint_id in checkpoints:
            self.progress.checkpoint(batches, checkpoint_id)

    def best_validation(self) -> float | None:
        """Return the experiment's best validation so far; None on ranks other than the chief."""
        return self._train.get_experiment_best_validation() if self._chief else None

    def flush(self) -> None:
        """Write pending TensorBoard scalars; called before a checkpoint, so that a later kill does not lose them."""
        self._scalars.flush()

    def close(self) -> None:
        """Erase the progress line and write pending TensorBoard scalars."""
        self.progress.close()
        self._scalars.close()

    def _add_counters(self, metrics: Metrics, state: LoopState) -> None:
        """Add the counters of training to a report, unless the trial reports metrics with these names itself."""
        metrics.setdefault("batches", state.batches_trained)
        metrics.setdefault("epochs", state.epochs_trained)
        if self._batch_size is not None:
            metrics.setdefault("records", state.batches_trained * self._batch_size)
