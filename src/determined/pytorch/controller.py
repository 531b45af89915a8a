"""`PyTorchTrialController`: everything around the training loop in one `fit`, from the first check to the last hook."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

from determined import core
from determined.core.ranks.agreement import in_step
from determined.errors import InvalidExperimentException
from determined.pytorch import validation
from determined.pytorch.binding import bind
from determined.pytorch.callbacks import Callbacks, log_errors_of
from determined.pytorch.checkpoint import latest, legacy, trial_description, unwrapped_parameters
from determined.pytorch.checkpoint.checkpointer import Checkpointer
from determined.pytorch.checkpoint.directory import opened, read_state
from determined.pytorch.checkpoint.restoring import Restore
from determined.pytorch.checkpoint.trial_states import TrialStates
from determined.pytorch.compatibility import first_generation
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.data.position import DataPosition
from determined.pytorch.data.trial_loaders import TrainingData, checked, validation_loader
from determined.pytorch.display import resume_messages
from determined.pytorch.display.notebook_progress import shown_progress
from determined.pytorch.fit_arguments import FitArguments
from determined.pytorch.loop import TrainLoop
from determined.pytorch.metrics.nonfinite import NonFinite, RollBack, RollBacks
from determined.pytorch.metrics.reporting import Reporter
from determined.pytorch.plan import UNKNOWN_LENGTH, Plan, comparison_batches
from determined.pytorch.ranks.process_group import naming_lost_ranks
from determined.pytorch.run import startup_collections
from determined.pytorch.run.last_fit import LastFit
from determined.pytorch.run.stopping import Stopping, end_program, end_program_without_saving
from determined.pytorch.state import LoopState
from determined.pytorch.trial import PyTorchTrial
from determined.pytorch.units import Epoch
from determined.pytorch.validation import Validation
from determined.user_code.program import is_interactive

logger = logging.getLogger("determined.pytorch")


class PyTorchTrialController:
    """Runs one `fit`: checks the trial, builds the loop, restores a checkpoint, runs the loop and cleans up."""

    def __init__(
        self,
        trial_inst: PyTorchTrial,
        context: PyTorchTrialContext,
        core_context: core.Context,
        _arguments: FitArguments,
    ) -> None:
        self.core_context = core_context
        self.state = LoopState(trial_id=context.get_trial_id())
        self._trial = trial_inst
        self._context = context
        self._arguments = _arguments
        self._given = _arguments.latest_checkpoint
        self._latest: Any = self._given  # the checkpoint to start from: an id or a path, or None
        # Counted from the call of `fit` by the monotonic clock: a changed system time must not end training.
        limit = _arguments.time_limit
        self._ends = math.inf if limit is None else time.monotonic() + limit
        self._nonfinite = NonFinite(_arguments.on_nan)
        self._rollbacks = RollBacks()
        self._description = trial_description.describe(trial_inst, context)
        self._checkpointer: Checkpointer | None = None
        self._is_refused = False  # the checkpoint to start from does not fit
        self._begins_at = self._unfinished_end = 0
        self._saved_before: str | None = None  # the last checkpoint of an earlier fit in this context
        earlier = context._last_fit
        if earlier is not None:
            context._stop_requested = False  # that request was made to the previous fit
        # An explicit checkpoint wins over what is in memory.
        if self._given is None and earlier is not None:
            self.state = earlier.next_state(_arguments.checkpoint_policy.metric)
            self._begins_at, self._saved_before = earlier.next_beginning(), earlier.checkpoint
            self._unfinished_end = earlier.unfinished_end()

        self._callbacks = Callbacks(trial_inst.build_callbacks())
        self._first_generation = first_generation.is_first_generation(trial_inst, context)
        if self._first_generation:
            first_generation.set_up(trial_inst, context)
        self._states = TrialStates(context, self._callbacks, trial_inst)
        self._check_wrapped()
        # Before anything is built or recorded, so that a trial without an evaluate method is refused at once.
        self._evaluate_method = validation.evaluate_method(trial_inst)

    def _check_wrapped(self) -> None:
        """Raise InvalidExperimentException if the trial wrapped no model or no optimizer."""
        if not self._context.models:
            raise InvalidExperimentException(
                "the trial has no model: wrap at least one with context.wrap_model in __init__"
            )
        if not self._context.optimizers:
            raise InvalidExperimentException(
                "the trial has no optimizer: wrap at least one with context.wrap_optimizer in __init__"
            )

    def run(self) -> None:
        """Train to the end; with `on_nan="rollback"`, resume from the last checkpoint as often as necessary."""
        stopping = Stopping(
            self._context.distributed,
            lambda: self.state.batches_trained,
            requested=self.core_context.preempt.pending,
            ends=self._ends,
        )
        try:
            # Signal handlers are installed before anything else: while one rank restores a checkpoint, all ranks must
            # already react to signals in the same way.
            with stopping.listening():
                self._latest = latest.resolved(self.core_context, self._given)
                self._run_with_rollbacks(stopping)
        except KeyboardInterrupt:
            if not stopping.abandoned or is_interactive():
                raise
            end_program_without_saving(self.state.batches_trained, self._how_to_continue())
        except Exception as error:
            line = self._how_to_continue()
            if line is not None:
                resume_messages.say_after_traceback(error, line)
            raise
        why = stopping.why
        # REQUEST has no exit code: a paused or cancelled trial
        # returns from `fit`, and the script decides what comes next.
        if why is not None and why.value is not None:
            end_program(why, self.state.batches_trained, self._how_to_continue())

    def _how_to_continue(self) -> str | None:
        """Return the line that says how to continue a standalone script, or None."""
        return resume_messages.how_to_continue(
            self.core_context,
            self._given,
            self._latest,
            is_refused=self._is_refused,
            has_saved=self._checkpointer is not None and self._checkpointer.has_stored,
        )

    def _run_with_rollbacks(self, stopping: Stopping) -> None:
        """Train, and start again from the last checkpoint whenever a rollback is requested."""
        while True:
            try:
                self._run(stopping)
                return
            except RollBack as finding:
                # Skipped batches are complete aggregation windows: a
                # part of one would leave gradients of another scale.
                window = self._context._optimization.aggregation_frequency
                self._rollbacks.note(finding, self._latest, self.state.last_ckpt, window)
                # The counters are read from the checkpoint again; only the skipped batches of `_rollbacks` are kept.
                self.state = LoopState(trial_id=self.state.trial_id)

    def _run(self, stopping: Stopping) -> None:
        """Train once from the start or from a checkpoint.

        The shutdown hooks always run. If they fail as well, the exception of the training is the one that is raised.
        """
        # Two stacks, because the checkpoint is closed before training begins and everything else after it.
        with ExitStack() as cleanup, ExitStack() as restoring:
            checkpoint = restoring.enter_context(self._checkpoint_directory())
            if checkpoint is not None:
                # Before the loaders are built: they start at the position that the counters give.
                self._take_counters(checkpoint)
                if self._context.distributed.rank == 0:
                    trial_description.warn_of_differences(checkpoint, str(self._latest), self._description)
            self.state.skipped = sorted({*self.state.skipped, *self._rollbacks.skip})
            # Before the startup hooks, whose reports already belong to the new attempt.
            self._expect_attempt()
            self._context._steps_completed = self.state.batches_trained
            self._callbacks.start_up(self.state.batches_trained, self._latest, cleanup)

            # Built before the restore, because the checkpoint contains states of the loader that are loaded into it.
            data = self._training_data()
            cleanup.callback(log_errors_of, data.close)
            plan = self._plan(data)
            loop = self._build_loop(plan, data, stopping, cleanup)
            if self._context.distributed.rank == 0:
                unwrapped_parameters.warn(
                    self._context.models, self._context.optimizers, self._context.distributed.size
                )
            if checkpoint is not None:
                self._restore(loop, data, checkpoint)
            cleanup.callback(self._remember, plan, data, loop)  # not before: a refused fit has trained nothing
            self._begin_attempt()
            self._print_start_of_training(loop, plan, has_restored=checkpoint is not None)
            self._checkpointer = loop.checkpointer
            restoring.close()  # deletes the local copy of a checkpoint from remote storage before training
            loop.batches = data.begin()
            self._context._epoch_length, self._context._epoch_offset = data.epoch_length, data.epoch_offset
            if self.state.batches_trained:
                self._context._current_batch_idx = self.state.batches_trained - 1
            # Callbacks may ask for the current batch in `on_training_start`: after a resume it is the last trained one.
            self._callbacks.call("on_training_start")
            # After `on_training_start`, in which callbacks may create the state that is checked here.
            loop.checkpointer.check()
            if self._arguments.profiling_enabled:
                self.core_context.profiler.on()
                cleanup.callback(log_errors_of, self.core_context.profiler.off)
            self._train(loop)

    def _train(self, loop: TrainLoop) -> None:
        """Run the loop; before a rollback is passed on, choose the checkpoint to which it returns."""
        # Asked before the loop changes the counter; a resumed trial was validated at step zero by its first attempt.
        is_fresh = self.state.batches_trained == 0
        with self._context.profiler if self._context.profiler is not None else nullcontext():
            try:
                with naming_lost_ranks(self._context.distributed):
                    startup_collections.end_exemption()
                    loop.run(step_zero_validation=self._arguments.step_zero_validation and is_fresh)
            except RollBack:
                # Every rank is here, since the metrics were combined over
                # ranks. The newest checkpoint may still be in progress.
                loop.checkpointer.finish()
                # In the order of age: saved by this fit, the one it started from, the last one of an earlier fit.
                self._latest = loop.checkpointer.latest or self._latest or self._saved_before
                raise

    def _training_data(self) -> TrainingData:
        """Return the training data at the position where training is; raise if the length cannot be counted in it."""
        loader = checked(self._trial.build_training_data_loader(), "build_training_data_loader", self._context)
        data = TrainingData(loader, self._context, self.state.batches_trained, self._position_in_data())
        length = self._arguments.max_length
        if data.epoch_length == UNKNOWN_LENGTH and isinstance(length, Epoch):
            raise InvalidExperimentException(
                f"max_length={length!r} needs a training loader with a length, and the one that "
                "build_training_data_loader() returned has none; give max_length in batches: Batch(n)"
            )
        return data

    def _plan(self, data: TrainingData) -> Plan:
        """Return when to report, validate, save and end, counted in batches; note the current epoch in the state."""
        plan = Plan(
            self._arguments.max_length,
            data.epoch_length,
            self._arguments.validation_period,
            self._arguments.checkpoint_period,
            self._arguments.reporting_period,
            data.epoch_offset,
            comparison_batches(self.core_context.info.trial, self._context, data.epoch_length, data.epoch_offset),
            self._begins_at,
            self._unfinished_end,
        )
        self.state.epochs_trained = plan.epoch_of(self.state.batches_trained)[0]
        return plan

    def _print_start_of_training(self, loop: TrainLoop, plan: Plan, *, has_restored: bool) -> None:
        """Print where a resumed training begins, and that it is longer than given if it finishes an earlier fit."""
        if has_restored:
            loop.reporter.progress.note(
                resume_messages.resumed(
                    str(self._latest),
                    self.state.batches_trained,
                    plan,
                    nothing_to_do=loop.is_nothing_to_do(),
                )
            )
        if plan.last_batch > plan.given_end:
            loop.reporter.progress.note(resume_messages.finishing(plan))

    def _remember(self, plan: Plan, data: TrainingData, loop: TrainLoop) -> None:
        """Store the outcome of this fit in the context, for the next fit in the same context."""
        self.state.data = data.position(self.state.batches_trained).as_dict()
        self._context._last_fit = LastFit(
            self.state,
            plan.begins_at,
            plan.last_batch,
            self._arguments.checkpoint_policy.metric,
            loop.checkpointer.latest or self._saved_before,
        )

    def _restore(self, loop: TrainLoop, data: TrainingData, checkpoint: Path) -> None:
        """Restore a checkpoint. One that does not fit refuses the start, which leaves the records as they are."""
        restore = Restore(str(self._latest), self._context, self._callbacks, self._states, data)
        try:
            restore.load(checkpoint, self.state, loop.window)
        except Exception:
            self._is_refused = True
            # The attempt was expected but never begun: the reports of the former run stay the valid ones.
            self.core_context._supervisor.withdraw_attempt()
            raise

    def _expect_attempt(self) -> None:
        """Let reports from now on belong to a new attempt, which is recorded once the checkpoint is restored."""
        steps = self.state.batches_trained
        given = self._latest
        source = Path(given).name if steps and given is not None else None  # of a path, the id is the last part
        self.core_context._supervisor.expect_attempt(checkpoint=source, steps_completed=steps)

    def _begin_attempt(self) -> None:
        """Record the attempt: its reports replace those that came after the checkpoint; record a rollback as well."""
        ranks, policy, steps = self._context.distributed, self._arguments.checkpoint_policy, self.state.batches_trained
        # All ranks wait until the record is open; one that trains without a record could not report.
        in_step(
            ranks.allgather,
            ranks.rank,
            self.core_context._begin_expected,
            doing="opening the run's record",
        )
        # On every rank, after the chief has written the row that the reports of all ranks refer to.
        self.core_context._supervisor.note_recorded()
        if policy.metric is not None:
            self.core_context._compare_by(policy.metric, smaller_is_better=policy.smaller_is_better)
        if self._rollbacks.skip and self._context.distributed.rank == 0:
            self.core_context.train.report_metrics("rollback", steps, {"skipped": sorted(self._rollbacks.skip)})

    def _checkpoint_directory(self) -> AbstractContextManager[Path | None]:
        """Return a context manager that yields the directory of the checkpoint to restore, or None."""
        return nullcontext() if self._latest is None else opened(self.core_context, self._latest)

    def _take_counters(self, directory: Path) -> None:
        """Restore the counters of a checkpoint saved by this trial.

        A checkpoint of another trial is a warm start: only its weights and states are used, and counters start at 0.
        """
        stored = read_state(directory, str(self._latest))
        # Standalone runs have trial id 0, and checkpoints of old releases have no id.
        if stored is None or stored.get("trial_id", 0) != self.state.trial_id:
            return
        self.state = LoopState.from_dict(legacy.state_of(stored))
        # The order of the data must continue as before, so the stored seed replaces the one drawn by this process.
        self._context._trial_seed = stored.get("trial_seed", self._context._trial_seed)

    def _position_in_data(self) -> DataPosition | None:
        """Return the position in the data that the checkpoint contains, or None."""
        if self.state.data is None:
            return None
        return DataPosition.from_dict(self.state.data, str(self._latest))

    def _build_loop(self, plan: Plan, data: TrainingData, stopping: Stopping, cleanup: ExitStack) -> TrainLoop:
        """Return the training loop with everything it uses, and register what must be closed in `cleanup`."""
        context, full_dataset = self._context, self._evaluate_method == "evaluate_full_dataset"
        loader = checked(self._trial.build_validation_data_loader(), "build_validation_data_loader", self._context)
        # Only the chief prints progress; the other ranks would repeat each line.
        chief = context.distributed.rank == 0
        reporter = Reporter(self.core_context, context, shown_progress(plan, self.state.batches_trained, visible=chief))
        cleanup.callback(log_errors_of, reporter.close)
        checkpointer = Checkpointer(self.core_context, context, self._callbacks, self._description, data, self._states)
        # A lambda, because whether training was abandoned is known only when `cleanup` runs.
        cleanup.callback(lambda: log_errors_of(checkpointer.give_up if stopping.abandoned else checkpointer.close))
        train_batch, evaluate = self._bind()
        return TrainLoop(
            plan=plan,
            state=self.state,
            context=context,
            preempt=self.core_context.preempt,
            train_batch=train_batch,
            validation=Validation(
                self._trial,
                context,
                self._callbacks,
                validation_loader(loader, context, full_dataset=full_dataset),
                evaluate,
                full_dataset=full_dataset,
                test_mode=self._arguments.test_mode,
                stopping=stopping,
            ),
            checkpointer=checkpointer,
            policy=self._arguments.checkpoint_policy,
            callbacks=self._callbacks,
            reporter=reporter,
            stopping=stopping,
            nonfinite=self._nonfinite,
        )

    def _bind(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return the trial's training and evaluation methods in the form that the loop calls."""
        if self._first_generation:
            return (
                first_generation.bind_train_batch(self._trial, self._context, self._callbacks),
                first_generation.bind_evaluate(self._trial, self._context, self._evaluate_method),
            )
        train_batch = bind(self._trial.train_batch, ["batch", "epoch_idx", "batch_idx"])
        return train_batch, validation.bind_evaluate(self._trial, self._evaluate_method)
