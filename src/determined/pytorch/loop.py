"""The training loop: batches, and what is due between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from determined import core
from determined.errors import InvalidHP
from determined.pytorch.callbacks import Callbacks
from determined.pytorch.checkpoint import Checkpointer
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.device import to_device
from determined.pytorch.metrics import Metrics, average, columns_of, combine, keep, rows_of
from determined.pytorch.plan import BoundaryType, Plan
from determined.pytorch.policy import CheckpointPolicy
from determined.pytorch.reporting import Reporter
from determined.pytorch.state import TrialState
from determined.pytorch.validation import Validation


class ShouldExit(Exception):
    """Leaves the training loop from wherever it is raised; a checkpoint is saved unless told otherwise."""

    def __init__(self, skip_exit_checkpoint: bool = False) -> None:
        super().__init__()
        self.skip_exit_checkpoint = skip_exit_checkpoint


class TrainLoop:
    """Trains to the end of a plan, reporting, validating and checkpointing on the way."""

    def __init__(
        self,
        *,
        plan: Plan,
        state: TrialState,
        context: PyTorchTrialContext,
        preempt: core.PreemptContext,
        batches: Iterator[Any],
        train_batch: Callable[..., Any],
        validation: Validation,
        checkpointer: Checkpointer,
        policy: CheckpointPolicy,
        callbacks: Callbacks,
        reporter: Reporter,
    ) -> None:
        self.plan = plan
        self.state = state
        self.context = context
        self.preempt = preempt
        self.batches = batches
        self.train_batch = train_batch
        self.validation = validation
        self.checkpointer = checkpointer
        self.policy = policy
        self.callbacks = callbacks
        self.reporter = reporter
        self.workload: list[Metrics] = []
        self._agreed_to_stop = False

    def run(self) -> None:
        """Train to the end of the plan, or to the first polite moment to stop."""
        try:
            while not self.plan.finished(self.state.batches_trained):
                self.train_workload()
                self.report()
                for act in self.due_actions():  # each does nothing if already up to date
                    act()
                    if self.should_stop():
                        raise ShouldExit
            self.validate()
            self.checkpoint()
        except ShouldExit as leaving:
            if not leaving.skip_exit_checkpoint:
                self.checkpoint()
            if self.context.distributed.rank == 0 and self.preempt.pending():
                self.preempt.acknowledge_preemption_signal()
        except InvalidHP:
            self.checkpoint()
            raise

    def due_actions(self) -> Iterator[Callable[[], None]]:
        told = False
        for due in self.plan.due(self.state.batches_trained):
            if due is BoundaryType.VALIDATE:
                yield self.validate
            elif due is BoundaryType.CHECKPOINT:
                yield self.checkpoint
            elif not told:
                told = True
                yield self.tell_progress

    def train_workload(self) -> None:
        """Train to the next batch after which something is due."""
        self.reporter.status("training")
        self.callbacks.call("on_train_step_start", self.state.step_id + 1)
        for model in self.context.models:
            model.train()
        self.context.reset_reducers()
        self.workload = []

        state, progress = self.state, self.reporter.progress
        stop = self.plan.next_stop(state.batches_trained)
        while state.batches_trained < stop:
            epoch_idx, within = divmod(state.batches_trained, self.plan.epoch_length)
            if within == 0:
                self.context._current_batch_idx = state.batches_trained
                self.callbacks.epoch_start(epoch_idx)
            epoch_end = state.batches_trained - within + self.plan.epoch_length
            self.train_stretch(epoch_idx, min(stop, epoch_end, max(progress.next_tick, state.batches_trained + 1)))
            if state.batches_trained == epoch_end:
                self.callbacks.call("on_training_epoch_end", epoch_idx)
                state.epochs_trained = epoch_idx + 1
            if state.batches_trained >= progress.next_tick:
                progress.tick(state.batches_trained)
        state.step_id += 1

    def train_stretch(self, epoch_idx: int, stop: int) -> None:
        """Train batches of one epoch up to `stop`. The path of every batch: only what it needs is here."""
        context, state, batches, workload = self.context, self.state, self.batches, self.workload
        train_batch, device, warned = self.train_batch, context.device, context._warned_types
        move, profiler = context.experimental._auto_to_device, context.profiler
        optimization, precision = context._optimization, context._precision
        aggregate = optimization.aggregation_frequency > 1
        schedule = bool(optimization.automatic_schedulers())
        optimization.updates = True

        for batch_idx in range(state.batches_trained, stop):
            context._current_batch_idx = batch_idx
            batch = next(batches)
            if aggregate:
                optimization.begin_batch(batch_idx)
            if move:
                batch = to_device(batch, device, warned)
            metrics = train_batch(batch, epoch_idx, batch_idx)
            if precision.automatic:
                precision.after_batch()
            if schedule and optimization.updates:
                optimization.step_schedulers(batch_idx, self.plan.epoch_length)
            if type(metrics) is not dict:
                metrics = _as_dict(metrics)
            workload.append(keep(metrics))
            state.batches_trained = batch_idx + 1
            if profiler is not None:
                profiler.step()

    def report(self) -> None:
        """Turn the workload's metrics into numbers, combine them over ranks in one collective, and report them."""
        reducers = self.context._reducers
        mine = (
            columns_of(self.workload, "train_batch()"),
            reducers.per_slot(for_training=True),
            self.wants_to_stop(),
        )
        ranks = self.context.distributed.allgather(mine)

        columns = combine([rank_columns for rank_columns, _, _ in ranks])
        metrics = average(columns)
        selected = reducers.selected(for_training=True)
        if selected:
            metrics.update(reducers.run_cross_slot_reduction(selected, [parts for _, parts, _ in ranks]))
        self._agreed_to_stop = any(stop for _, _, stop in ranks)

        self.reporter.training(self.state, metrics, columns)
        self.callbacks.call("on_train_step_end", self.state.step_id, metrics)
        if self.callbacks.overrides("on_training_workload_end"):
            rows = rows_of(columns) if columns else [{} for _ in self.workload]
            self.callbacks.call("on_training_workload_end", avg_metrics=metrics, batch_metrics=rows)

    def validate(self) -> None:
        """Validate, unless the last validation was at this very batch."""
        if self.state.last_val != self.state.batches_trained:
            self.validate_now()

    def validate_now(self) -> None:
        """Validate, report, and let the policy decide about a checkpoint."""
        self.reporter.status("validating")
        metrics = self.validation.run()
        self.state.last_val = self.state.batches_trained
        best = self.reporter.best_validation()
        self.reporter.validation(self.state, metrics)

        # The chief decides about the checkpoint, any rank may ask to stop: one collective for both.
        save = self.policy.wants(metrics, best, self.state) if self.context.distributed.rank == 0 else False
        answers = self.context.distributed.allgather((save, self.wants_to_stop()))
        self._agreed_to_stop = any(stop for _, stop in answers)
        if answers[0][0]:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Save a checkpoint, unless the last one was at this very batch."""
        if self.state.last_ckpt == self.state.batches_trained:
            return
        self.reporter.status("checkpointing")
        uuid = self.checkpointer.save(self.state)
        self.reporter.progress.checkpoint(self.state.batches_trained, uuid)

    def tell_progress(self) -> None:
        self.reporter.fraction_done(self.plan.progress(self.state.batches_trained))

    def wants_to_stop(self) -> bool:
        """This rank's own wish, without asking the others."""
        return self.context.get_stop_requested() or self.preempt.pending()

    def should_stop(self) -> bool:
        """Do we stop here? Several ranks go by what they agreed on when they last met, so that all do the same."""
        return self._agreed_to_stop if self.context.distributed.size > 1 else self.wants_to_stop()


def _as_dict(metrics: Any) -> Metrics:
    if isinstance(metrics, torch.Tensor):
        return {"loss": metrics}
    if isinstance(metrics, dict):
        return metrics
    raise TypeError(
        f"train_batch() must return a dict of metrics or a tensor, got {type(metrics).__name__}: {metrics!r:.80}"
    )
