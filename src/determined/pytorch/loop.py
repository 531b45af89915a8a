"""`TrainLoop`: train batches, and report, validate and checkpoint when it is due."""

from __future__ import annotations

import enum
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from determined import core
from determined.errors import InvalidHP
from determined.pytorch.callbacks import Callbacks
from determined.pytorch.checkpoint import random_generators
from determined.pytorch.checkpoint.checkpointer import Checkpointer
from determined.pytorch.checkpoint.policy import CheckpointPolicy
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.data.device import batch_mover
from determined.pytorch.metrics.batch_metrics import Metrics
from determined.pytorch.metrics.nonfinite import NonFinite
from determined.pytorch.metrics.report_window import ReportWindow
from determined.pytorch.metrics.reporting import Reporter
from determined.pytorch.plan import BoundaryType, Plan
from determined.pytorch.ranks import data_parallel
from determined.pytorch.run.stopping import Stopping
from determined.pytorch.state import LoopState
from determined.pytorch.validation import Validation

logger = logging.getLogger("determined.pytorch")


class ShouldExit(Exception):
    """Raised to leave the training loop early; a checkpoint is saved unless `skip_exit_checkpoint` is set."""

    def __init__(self, skip_exit_checkpoint: bool = False) -> None:
        super().__init__()
        self.skip_exit_checkpoint = skip_exit_checkpoint


class Urgency(enum.IntEnum):
    """How soon the loop of this rank must exit, regardless of the kind of request.

    Separate from `StopRequest`: a signal and a time limit count as well, and the ranks agree on the largest value.
    """

    # The values are ordered, because the ranks agree on the maximum.
    NONE = 0
    SOON = 1  # after the action in progress at this boundary
    NOW = 2  # before the next action


class TrainLoop:
    """Trains to the end of a plan, with reports, validations and checkpoints when they are due."""

    def __init__(
        self,
        *,
        plan: Plan,
        state: LoopState,
        context: PyTorchTrialContext,
        preempt: core.PreemptContext,
        train_batch: Callable[..., Any],
        validation: Validation,
        checkpointer: Checkpointer,
        policy: CheckpointPolicy,
        callbacks: Callbacks,
        reporter: Reporter,
        stopping: Stopping,
        nonfinite: NonFinite,
    ) -> None:
        self.plan = plan
        self.state = state
        self.context = context
        self.preempt = preempt
        self.batches: Iterator[Any] = iter(())  # assigned by the controller after the checkpoint was restored
        self.train_batch = train_batch
        self.validation = validation
        self.checkpointer = checkpointer
        self.policy = policy
        self.callbacks = callbacks
        self.reporter = reporter
        self.stopping = stopping
        self.nonfinite = nonfinite
        self.window = ReportWindow(context)
        self.move = batch_mover(context)
        self._agreed_urgency = Urgency.NONE
        self._restored_at = state.batches_trained
        self._outdated = False  # the restored checkpoint lacks a validation that was made at its batch since

    def run(self, step_zero_validation: bool = False) -> None:
        """Train to the end of the plan, or to the first boundary after a stop request."""
        try:
            # A length of 0 trains nothing, so there is no step zero either.
            if step_zero_validation and not self.plan.finished(0):
                self.validate_now()
            self.catch_up()
            while not self.plan.finished(self.state.batches_trained):
                self.train_workload()
                self.report()
                for act in self.due_actions():  # each returns at once if there is nothing new
                    self.leave_if(Urgency.NOW)
                    act()
                    self.leave_if(Urgency.SOON)
            # Neither is repeated if it was due at the last batch; the last checkpoint is waited for in any case.
            self.validate()
            self.checkpoint(last=True)
            # The ranks must agree on the exit code even now: a signal
            # may have reached one of them during the last save.
            self.stopping.share_reason()
        except ShouldExit as leaving:
            self.leave(save=not leaving.skip_exit_checkpoint)
        except InvalidHP as refusal:
            if self.context.distributed.size == 1:  # saving is a collective, and other ranks may still be training
                try:
                    self.checkpoint(last=True)
                # The InvalidHP must be raised even then: by it the
                # searcher learns that the hyperparameters are invalid.
                except OSError:
                    logger.exception("the trial ends without a checkpoint")
            raise refusal

    def is_nothing_to_do(self) -> bool:
        """Return whether training has reached the end of the plan, with a validation and a checkpoint there."""
        batches = self.state.batches_trained
        return self.plan.finished(batches) and batches == self.state.last_val == self.state.last_ckpt

    def due_actions(self) -> Iterator[Callable[[], None]]:
        """Yield the methods to call after the current batch, in order; progress is reported at most once."""
        reported = False
        for due in self.plan.due(self.state.batches_trained):
            if due is BoundaryType.VALIDATE:
                yield self.validate
            elif due is BoundaryType.CHECKPOINT:
                yield self.checkpoint
            # REPORT and TRAIN (the end of the plan) can be due at the same batch, and both only report progress.
            elif not reported:
                reported = True
                yield self.report_progress

    def catch_up(self) -> None:
        """Perform the actions that were due at the restored batch but were not reached by the earlier run."""
        # Metrics in the window mean that the earlier run stopped inside a workload, at a batch where nothing was due.
        if self.state.batches_trained and not self.window.batches:
            for act in self.due_actions():
                act()

    def leave(self, *, save: bool) -> None:
        """End training early: save if requested, agree on the reason over ranks, and acknowledge a preemption."""
        if save:
            self.checkpoint(last=True)
        else:
            # Not saving must not hide that the checkpoint in progress failed: `finish` raises it on every rank.
            self.checkpointer.finish()
        self.stopping.share_reason()
        # After the checkpoint: the acknowledgement says that this run exits unfinished and can be resumed.
        if self.context.distributed.rank == 0 and self.preempt.pending():
            self.preempt.acknowledge_preemption_signal()

    def train_workload(self) -> None:
        """Train up to the next batch after which an action is due, or at which all ranks agreed to stop."""
        self.reporter.status("training")
        self.callbacks.call("on_train_step_start", self.state.step_id + 1)
        # In every workload, because a validation switches the models to evaluation mode.
        for model in self.context.models:
            model.train()
        self.window.begin()

        state, progress = self.state, self.reporter.progress
        last = planned = self.plan.next_stop(state.batches_trained)
        while state.batches_trained < last:
            epoch_idx, within = self.plan.epoch_of(state.batches_trained)
            if within == 0:
                # Set before the callback, which may ask the context for the current batch.
                self.context._current_batch_idx = state.batches_trained
                self.callbacks.epoch_start(epoch_idx)
            epoch_end = state.batches_trained - within + self.plan.epoch_length
            if state.batches_trained in state.skipped:
                self.skip_batch()
            else:
                # At least one batch: the tick of a display may lie in
                # the past, and an empty range would never end this loop.
                tick = max(progress.next_tick, state.batches_trained + 1)
                self.train_batches(epoch_idx, min(last, epoch_end, tick, self.next_skipped()))
            if state.batches_trained == epoch_end:
                self.callbacks.call("on_training_epoch_end", epoch_idx)
                state.epochs_trained = epoch_idx + 1
            if state.batches_trained >= progress.next_tick:
                progress.tick(state.batches_trained)
            # At the planned end nothing needs to be agreed: all ranks get there, and the report exchanges the urgency.
            if self.stopping.raised and state.batches_trained < planned:
                last = min(planned, self.stopping.stop_at())
        if last < planned:
            raise ShouldExit  # inside a workload: its metrics are saved in the checkpoint and reported after a resume
        state.step_id += 1

    def train_batches(self, epoch_idx: int, stop: int) -> None:
        """Train batches of one epoch up to `stop`.

        This is the path of every batch, so attributes are read into locals and each feature costs one test if unused.
        """
        context, state, batches, keep = self.context, self.state, self.batches, self.window.batches.keep
        stopping = self.stopping
        train_batch, move, profiler = self.train_batch, self.move, context.profiler
        optimization, precision = context._optimization, context._precision
        aggregate = optimization.aggregation_frequency > 1
        schedule = bool(optimization.automatic_schedulers())
        scale = precision.automatic
        # The default without aggregation; with it, `begin_batch` decides for each batch.
        optimization.updates = True

        for batch_idx in range(state.batches_trained, stop):
            context._current_batch_idx = batch_idx
            batch = next(batches)
            if aggregate:
                optimization.begin_batch(batch_idx)
            if move is not None:
                batch = move(batch)
            metrics = train_batch(batch, epoch_idx, batch_idx)
            if scale:
                precision.after_batch()
            # Schedulers step on the same batches as optimizers and catch up on those in between, see `steps_after`.
            if schedule and optimization.updates:
                optimization.step_schedulers(batch_idx, self.plan.epoch_length, self.plan.epoch_offset)
            # An exact type check is cheaper than isinstance and covers almost all programs.
            if type(metrics) is not dict:
                metrics = _as_dict(metrics)
            keep(metrics)
            # Only after the metrics were kept: counter and window
            # must describe the same batches if a checkpoint follows.
            state.batches_trained = batch_idx + 1
            if profiler is not None:
                profiler.step()
            # Read after every batch, so that a signal costs at most the batch in progress.
            if stopping.raised:
                return

    def skip_batch(self) -> None:
        """Skip a batch that a rollback excluded; schedules advance as if it had been trained."""
        # The batch is fetched and dropped, because the order of later batches must not change.
        next(self.batches)
        optimization = self.context._optimization
        optimization.skip_batch(self.state.batches_trained, self.plan.epoch_length, self.plan.epoch_offset)
        self.state.batches_trained += 1

    def next_skipped(self) -> int:
        """Return the next batch to skip, or a number that is never reached."""
        return min((batch for batch in self.state.skipped if batch > self.state.batches_trained), default=sys.maxsize)

    def batch_of(self, number: int) -> int:
        """Return the batch index of the `number`-th entry of the window, which has no entries for skipped batches."""
        end, count = self.state.batches_trained, len(self.window.batches)
        begin = max(0, end - count - len(self.state.skipped))
        return [batch for batch in range(begin, end) if batch not in self.state.skipped][number - count]

    def report(self) -> None:
        """Reduce the metrics of the workload over ranks in one collective, and report them.

        The same collective carries stop requests and failed checkpoints, so that a report needs only one.
        """
        failed = self.checkpointer.failed
        ranks = self.context.distributed.allgather((self.window.mine(), self.urgency(), failed))
        self._agreed_urgency = max(urgency for _, urgency, _ in ranks)
        columns, metrics = self.window.combine([half for half, _, _ in ranks])
        self.reporter.training(self.state, metrics, columns)
        # Here as well as every `scheduling_unit` batches: between validations, workloads may be shorter than that.
        self.report_progress()
        self.callbacks.call("on_train_step_end", self.state.step_id, metrics)
        if self.callbacks.overrides("on_training_workload_end"):
            rows = self.window.rows(columns)
            self.callbacks.call("on_training_workload_end", avg_metrics=metrics, batch_metrics=rows)
        # After the report, so that the record contains the value that ended training.
        self.nonfinite.check(columns, self.batch_of)
        self.window.clear()
        # The exchanged values are used, not the own one, so that all ranks enter the collective `finish` or none does.
        if any(failed for _, _, failed in ranks):
            self.checkpointer.finish()  # raises, on every rank
        self.reporter.stored(self.checkpointer.newly_stored())

    def validate(self) -> None:
        """Validate, unless the current batch was already validated."""
        if self.state.last_val != self.state.batches_trained:
            self.validate_now()

    def validate_now(self) -> None:
        """Validate, report the metrics, and save a checkpoint if the policy requests one."""
        self.reporter.status("validating")
        # Read before anything of the validation runs, because loaders and models may draw random numbers.
        generators = random_generators.get_state(self.context.device)
        metrics = self.validation.run()
        if metrics is None:  # aborted by a stop request: repeated after a resume, with the same random numbers
            random_generators.set_state(generators, self.context.device)
            raise ShouldExit
        self.state.last_val = self.state.batches_trained
        # A checkpoint restored at this batch does not know this validation; saving again keeps it from being repeated.
        self._outdated = 0 < self.state.batches_trained == self._restored_at
        # Read before the report: afterwards the value of this validation would be among those it is compared with.
        best = self.reporter.best_validation()
        self.reporter.validation(self.state, metrics)

        # The chief decides about the checkpoint, and any rank may request a stop: one collective exchanges both.
        save = self.policy.wants(metrics, best, self.state) if self.context.distributed.rank == 0 else False
        answers = self.context.distributed.allgather((save, self.urgency()))
        self._agreed_urgency = max(urgency for _, urgency in answers)
        if answers[0][0]:
            self.checkpoint()

    def checkpoint(self, *, last: bool = False) -> None:
        """Save a checkpoint, unless the current batch was already saved; with `last`, wait until it is stored."""
        if self.state.last_ckpt != self.state.batches_trained or self._outdated:
            self.reporter.status("checkpointing")
            # TensorBoard scalars first: a kill after the checkpoint
            # resumes behind them and would never write them again.
            self.reporter.flush()
            last_batch, ranks = self.state.batches_trained - 1, self.context.distributed
            # Before the state is taken, so that a rollback never returns to a checkpoint with such weights.
            self.nonfinite.check_weights(self.context.models, last_batch, ranks.allgather)
            # The chief's buffers are the ones saved; other ranks must continue with them, as they would after a resume.
            data_parallel.sync_buffers(self.context.models)
            self.checkpointer.save(self.state, self.window, wait=last)
            self._outdated = False
        if last:
            self.checkpointer.finish()
        self.reporter.stored(self.checkpointer.newly_stored())

    def report_progress(self) -> None:
        """Report the fraction of the plan that is done."""
        self.reporter.fraction_done(self.plan.progress(self.state.batches_trained))

    def urgency(self) -> Urgency:
        """Return the urgency of stop requests on this rank, without a collective."""
        if self.stopping.raised:
            # A raised flag also ends the workload in progress, so no further action is begun. The program's own
            # request, and one that the watching thread has not seen yet, wait for the action in progress.
            return Urgency.NOW
        return Urgency.SOON if self.context.get_stop_requested() or self.preempt.pending() else Urgency.NONE

    def leave_if(self, urgency: Urgency) -> None:
        """Raise ShouldExit if a stop of at least this urgency is requested.

        Several ranks use the value agreed on in their last collective: a rank that decided alone would leave the others
        waiting in the next one.
        """
        agreed = self._agreed_urgency if self.context.distributed.size > 1 else self.urgency()
        if agreed >= urgency:
            raise ShouldExit


def _as_dict(metrics: Any) -> Metrics:
    """Return what `train_batch` returned as a dict; a tensor is the loss. Raise TypeError for anything else."""
    if isinstance(metrics, torch.Tensor):
        return {"loss": metrics}
    if isinstance(metrics, dict):
        return metrics
    raise TypeError(
        f"train_batch() must return a dict of metrics or a tensor, got {type(metrics).__name__}: {metrics!r:.80}"
    )
