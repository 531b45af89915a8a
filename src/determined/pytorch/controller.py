"""`PyTorchTrialController`: everything around the training loop in one `fit`, from the first check to the last hook."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NoReturn

from determined import core
from determined.core.ranks.agreement import in_step
from determined.errors import InvalidExperimentException
from determined.plural import counted
from determined.program import is_interactive
from determined.pytorch import validation
from determined.pytorch.binding import bind, overridden
from determined.pytorch.callbacks import Callbacks
from determined.pytorch.checkpoint import latest, legacy, run_differences, unwrapped_parameters
from determined.pytorch.checkpoint.policy import SAVE_ALL, CheckpointPolicy
from determined.pytorch.checkpoint.save_and_restore import Checkpointer, opened, read_state
from determined.pytorch.checkpoint.trial_states import TrialStates
from determined.pytorch.compatibility import first_generation
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.data.position import DataPosition
from determined.pytorch.data.trial_loaders import TrainingData, checked, validation_loader
from determined.pytorch.display import resume_messages
from determined.pytorch.display.notebook_progress import shown_progress
from determined.pytorch.display.progress import say
from determined.pytorch.loop import TrainLoop
from determined.pytorch.metrics import comparison_steps
from determined.pytorch.metrics.nonfinite import NonFinite, OnNan, RollBack, RollBacks
from determined.pytorch.metrics.reporting import Reporter
from determined.pytorch.plan import DEFAULT_REPORTING_PERIOD, UNKNOWN_LENGTH, Plan
from determined.pytorch.ranks import lost_ranks
from determined.pytorch.run import startup_collections
from determined.pytorch.run.early_end import spare_session
from determined.pytorch.run.last_fit import LastFit
from determined.pytorch.run.stopping import EarlyStop, Stopping
from determined.pytorch.state import LoopState
from determined.pytorch.trial import PyTorchTrial
from determined.pytorch.units import Epoch, TrainUnit
from determined.pytorch.validation import Validation

logger = logging.getLogger("determined.pytorch")


class PyTorchTrialController:
    """Runs one `fit`: checks the trial, builds the loop, restores a checkpoint, runs the loop and cleans up."""

    def __init__(
        self,
        trial_inst: PyTorchTrial,
        context: PyTorchTrialContext,
        core_context: core.Context,
        *,
        max_length: TrainUnit,
        checkpoint_period: TrainUnit | None = None,
        validation_period: TrainUnit | None = None,
        reporting_period: TrainUnit = DEFAULT_REPORTING_PERIOD,
        checkpoint_policy: CheckpointPolicy = SAVE_ALL,
        latest_checkpoint: Any = None,
        step_zero_validation: bool = False,
        test_mode: bool = False,
        profiling_enabled: bool = False,
        time_limit: float | None = None,
        on_nan: OnNan = "warn",
        load_data: dict[str, Any],
        code_dir: Path | None,
    ) -> None:
        self.trial = trial_inst
        self.context = context
        self.core_context = core_context
        self.max_length = max_length
        self.checkpoint_period = checkpoint_period
        self.validation_period = validation_period
        self.reporting_period = reporting_period
        self.checkpoint_policy = checkpoint_policy
        self.latest_checkpoint = latest_checkpoint
        self.step_zero_validation = step_zero_validation
        self.test_mode = test_mode
        self.profiling_enabled = profiling_enabled
        self.ends = math.inf if time_limit is None else time.monotonic() + time_limit
        self.nonfinite = NonFinite(on_nan)
        self.rollbacks = RollBacks()
        self.load_data = load_data
        self.code_dir = code_dir
        self._checkpointer: Checkpointer | None = None
        self._is_refused = False  # the checkpoint to start from does not fit
        self.state = LoopState(trial_id=context.get_trial_id())
        self.begins_at = self.unfinished_end = 0
        self.saved_before: str | None = None  # the last checkpoint of an earlier fit in this context
        earlier = context._last_fit
        if earlier is not None:
            context._stop_requested = False  # that request was made to the previous fit
        if latest_checkpoint is None and earlier is not None:
            self.state = earlier.next_state(checkpoint_policy.metric)
            self.begins_at, self.saved_before = earlier.next_beginning(), earlier.checkpoint
            self.unfinished_end = earlier.unfinished_end()

        self.callbacks = Callbacks(trial_inst.build_callbacks())
        self.first_generation = first_generation.is_first_generation(trial_inst, context)
        if self.first_generation:
            first_generation.set_up(trial_inst, context)
        self.states = TrialStates(context, self.callbacks, trial_inst)
        self._check()

    def _check(self) -> None:
        """Raise InvalidExperimentException if the trial wrapped no model or optimizer, or cannot be validated."""
        if not self.context.models:
            raise InvalidExperimentException(
                "the trial has no model: wrap at least one with context.wrap_model in __init__"
            )
        if not self.context.optimizers:
            raise InvalidExperimentException(
                "the trial has no optimizer: wrap at least one with context.wrap_optimizer in __init__"
            )
        methods = ("evaluate_batch", "evaluate_full_dataset")
        own = [name for name in methods if overridden(self.trial, name, PyTorchTrial)]
        if len(own) != 1:
            raise InvalidExperimentException(
                f"{type(self.trial).__name__} must override one of evaluate_batch and evaluate_full_dataset, but "
                f"it overrides {'both' if own else 'neither'}"
            )
        self.evaluate_method = own[0]

    def run(self) -> None:
        """Train to the end; with `on_nan="rollback"`, resume from the last checkpoint as often as necessary."""
        given = self.latest_checkpoint
        stopping = self._new_stopping()
        try:
            # Signal handlers are installed before anything else: while one rank restores a checkpoint, all ranks must
            # already react to signals in the same way.
            with stopping.listening():
                self.latest_checkpoint = latest.resolved(self.core_context, given)
                self._run_with_rollbacks(stopping)
        except KeyboardInterrupt:
            if not stopping.abandoned or is_interactive():
                raise
            batches = counted(self.state.batches_trained, "batch", "batches")
            logger.warning("training was stopped without saving after %s", batches)
            self._end_program(EarlyStop.SIGINT, given)
        except Exception as error:
            line = self._how_to_continue(given)
            if line is not None:
                resume_messages.say_after_traceback(error, line)
            raise
        why = stopping.why
        if why is not None and why.value is not None:
            spare_session(why, self.state.batches_trained)
            batches = counted(self.state.batches_trained, "batch", "batches")
            logger.warning("training was stopped by %s after %s", why.described, batches)
            self._end_program(why, given)

    def _end_program(self, why: EarlyStop, given: Any) -> NoReturn:
        """End the program after a signal or at the time limit; the last line printed says how to continue."""
        line = self._how_to_continue(given)
        if line is not None:
            say(line)
        raise SystemExit(why.value)

    def _how_to_continue(self, given: Any) -> str | None:
        """Return the line that says how to continue a standalone script, or None.

        None in an experiment, whose runner prints its own, and in an interactive session, where the next `fit`
        continues.
        """
        ranks = self.context.distributed
        if is_interactive() or ranks.rank != 0 or self.core_context.info.trial.trial_id != 0:
            return None
        if self._is_refused:
            return resume_messages.after_refusal(given, str(self.latest_checkpoint), ranks=ranks.size)
        saved = self._checkpointer is not None and self._checkpointer.has_stored
        has_checkpoint = saved or self.latest_checkpoint not in (None, latest.LATEST)
        return resume_messages.how_to_continue(given, has_checkpoint=has_checkpoint, ranks=ranks.size)

    def _run_with_rollbacks(self, stopping: Stopping) -> None:
        """Train, and start again from the last checkpoint whenever a rollback is requested."""
        while True:
            try:
                self._run(stopping)
                return
            except RollBack as finding:
                window = self.context._optimization.aggregation_frequency
                self.rollbacks.note(finding, self.latest_checkpoint, self.state.last_ckpt, window)
                self.state = LoopState(trial_id=self.state.trial_id)

    def _run(self, stopping: Stopping) -> None:
        """Train once from the start or from a checkpoint.

        The shutdown hooks always run. If they fail as well, the exception of the training is the one that is raised.
        """
        with ExitStack() as cleanup, ExitStack() as restoring:
            checkpoint = restoring.enter_context(self._checkpoint_directory())
            if checkpoint is not None:
                self._take_counters(checkpoint)
                if self.context.distributed.rank == 0:
                    run_differences.tell(checkpoint, str(self.latest_checkpoint), self.load_data)
            self.state.skipped = sorted({*self.state.skipped, *self.rollbacks.skip})
            self._expect_attempt()
            self.context._steps_completed = self.state.batches_trained
            for callback in self.callbacks:
                self._start_up(callback, cleanup)

            data = TrainingData(
                checked(self.trial.build_training_data_loader(), "build_training_data_loader", self.context),
                self.context,
                self.state.batches_trained,
                self._position_in_data(),
            )
            cleanup.callback(_quietly, data.close)
            self._refuse_endless_length(data.epoch_length)
            plan = Plan(
                self.max_length,
                data.epoch_length,
                self.validation_period,
                self.checkpoint_period,
                self.reporting_period,
                data.epoch_offset,
                comparison_steps.in_batches(
                    self.core_context.info.trial, self.context, data.epoch_length, data.epoch_offset
                ),
                self.begins_at,
                self.unfinished_end,
            )
            self.state.epochs_trained = plan.epoch_of(self.state.batches_trained)[0]
            loop = self._build_loop(plan, data, stopping, cleanup)
            if self.context.distributed.rank == 0:
                unwrapped_parameters.warn(self.context.models, self.context.optimizers, self.context.distributed.size)
            if checkpoint is not None:
                self._restore(loop, checkpoint)
            cleanup.callback(self._remember, plan, data, loop)  # not before: a refused fit has trained nothing
            self._begin_attempt()
            if checkpoint is not None:
                loop.reporter.progress.note(
                    resume_messages.resumed(
                        str(self.latest_checkpoint),
                        self.state.batches_trained,
                        plan,
                        nothing_to_do=loop.is_nothing_to_do(),
                    )
                )
            if plan.last_batch > plan.given_end:
                loop.reporter.progress.note(resume_messages.finishing(plan))
            self._checkpointer = loop.checkpointer
            restoring.close()  # deletes the local copy of a checkpoint from remote storage before training
            loop.batches = data.begin()
            self.context._epoch_length, self.context._epoch_offset = data.epoch_length, data.epoch_offset
            if self.state.batches_trained:
                self.context._current_batch_idx = self.state.batches_trained - 1
            self.callbacks.call("on_training_start")
            loop.checkpointer.check()
            if self.profiling_enabled:
                self.core_context.profiler.on()
                cleanup.callback(_quietly, self.core_context.profiler.off)
            fresh = self.state.batches_trained == 0
            with self.context.profiler if self.context.profiler is not None else nullcontext():
                try:
                    with lost_ranks.named(self.context.distributed):
                        startup_collections.end_exemption()
                        loop.run(step_zero_validation=self.step_zero_validation and fresh)
                except RollBack:
                    loop.checkpointer.finish()
                    self.latest_checkpoint = loop.checkpointer.latest or self.latest_checkpoint or self.saved_before
                    raise

    def _remember(self, plan: Plan, data: TrainingData, loop: TrainLoop) -> None:
        """Store the outcome of this fit in the context, for the next fit in the same context."""
        self.state.data = data.position(self.state.batches_trained).as_dict()
        self.context._last_fit = LastFit(
            self.state,
            plan.begins_at,
            plan.last_batch,
            self.checkpoint_policy.metric,
            loop.checkpointer.latest or self.saved_before,
        )

    def _new_stopping(self) -> Stopping:
        return Stopping(
            self.context.distributed,
            lambda: self.state.batches_trained,
            requested=self.core_context.preempt.pending,
            ends=self.ends,
        )

    def _restore(self, loop: TrainLoop, checkpoint: Path) -> None:
        """Restore a checkpoint. One that does not fit refuses the start, which leaves the records as they are."""
        try:
            loop.checkpointer.restore(checkpoint, str(self.latest_checkpoint), self.state, loop.window)
        except Exception:
            self._is_refused = True
            self.core_context._supervisor.withdraw_attempt()
            raise

    def _expect_attempt(self) -> None:
        """Let reports from now on belong to a new attempt, which is recorded once the checkpoint is restored."""
        steps = self.state.batches_trained
        given = self.latest_checkpoint
        source = Path(given).name if steps and given is not None else None  # of a path, the id is the last part
        self.core_context._supervisor.expect_attempt(checkpoint=source, steps_completed=steps)

    def _begin_attempt(self) -> None:
        """Record the attempt: its reports replace those that came after the checkpoint; record a rollback as well."""
        ranks, policy, steps = self.context.distributed, self.checkpoint_policy, self.state.batches_trained
        in_step(
            ranks.allgather,
            ranks.rank,
            self.core_context._begin_expected,
            doing="opening the run's record",
        )
        self.core_context._supervisor.note_recorded()
        if policy.metric is not None:
            self.core_context._compare_by(policy.metric, smaller_is_better=policy.smaller_is_better)
        if self.rollbacks.skip and self.context.distributed.rank == 0:
            self.core_context.train.report_metrics("rollback", steps, {"skipped": sorted(self.rollbacks.skip)})

    @contextmanager
    def _checkpoint_directory(self) -> Iterator[Path | None]:
        """Yield the directory of the checkpoint to restore, or None."""
        if self.latest_checkpoint is None:
            yield None
            return
        with opened(self.core_context, self.latest_checkpoint) as directory:
            yield directory

    def _take_counters(self, directory: Path) -> None:
        """Restore the counters of a checkpoint saved by this trial.

        A checkpoint of another trial is a warm start: only its weights and states are used, and counters start at 0.
        """
        stored = read_state(directory, str(self.latest_checkpoint))
        if stored is None or stored.get("trial_id", 0) != self.state.trial_id:
            return
        self.state = LoopState.from_dict(legacy.state_of(stored))
        # The order of the data must continue as before, so the stored seed replaces the one drawn by this process.
        self.context._trial_seed = stored.get("trial_seed", self.context._trial_seed)

    def _position_in_data(self) -> DataPosition | None:
        """Return the position in the data that the checkpoint contains, or None."""
        if self.state.data is None:
            return None
        return DataPosition.from_dict(self.state.data, str(self.latest_checkpoint))

    def _start_up(self, callback: Any, cleanup: ExitStack) -> None:
        """Call `on_trial_startup`, and register `on_trial_shutdown` for the end.

        Registered only afterwards: a callback whose startup failed is not shut down.
        """
        start = getattr(callback, "on_trial_startup", None)
        if callable(start):
            start(self.state.batches_trained, self.latest_checkpoint)
        stop = getattr(callback, "on_trial_shutdown", None)
        if callable(stop):
            cleanup.push(_shutting_down(stop))

    def _refuse_endless_length(self, epoch_length: int) -> None:
        """Raise if the length is given in epochs, but the loader has no length."""
        if epoch_length == UNKNOWN_LENGTH and isinstance(self.max_length, Epoch):
            raise InvalidExperimentException(
                f"max_length={self.max_length!r} needs a training loader with a length, and the one that "
                "build_training_data_loader() returned has none; give max_length in batches: Batch(n)"
            )

    def _build_loop(self, plan: Plan, data: TrainingData, stopping: Stopping, cleanup: ExitStack) -> TrainLoop:
        """Return the training loop with everything it uses, and register what must be closed in `cleanup`."""
        context, whole = self.context, self.evaluate_method == "evaluate_full_dataset"
        loader = checked(self.trial.build_validation_data_loader(), "build_validation_data_loader", self.context)
        chief = context.distributed.rank == 0
        reporter = Reporter(self.core_context, context, shown_progress(plan, self.state.batches_trained, visible=chief))
        cleanup.callback(_quietly, reporter.close)
        checkpointer = Checkpointer(
            self.core_context, context, self.callbacks, self.load_data, self.code_dir, data, self.states
        )
        cleanup.callback(lambda: _quietly(checkpointer.give_up if stopping.abandoned else checkpointer.close))
        train_batch, evaluate = self._bind()
        return TrainLoop(
            plan=plan,
            state=self.state,
            context=context,
            preempt=self.core_context.preempt,
            train_batch=train_batch,
            validation=Validation(
                self.trial,
                context,
                self.callbacks,
                validation_loader(loader, context, whole=whole),
                evaluate,
                whole=whole,
                test_mode=self.test_mode,
                stopping=stopping,
            ),
            checkpointer=checkpointer,
            policy=self.checkpoint_policy,
            callbacks=self.callbacks,
            reporter=reporter,
            stopping=stopping,
            nonfinite=self.nonfinite,
        )

    def _bind(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return the trial's training and evaluation methods in the form that the loop calls."""
        if self.first_generation:
            return (
                first_generation.bind_train_batch(self.trial, self.context, self.callbacks),
                first_generation.bind_evaluate(self.trial, self.context, self.evaluate_method),
            )
        train_batch = bind(self.trial.train_batch, ["batch", "epoch_idx", "batch_idx"])
        return train_batch, validation.bind_evaluate(self.trial, self.evaluate_method)


def _shutting_down(stop: Callable[[], None]) -> Callable[..., bool]:
    """Return an exit callback that calls a shutdown hook.

    An exception of the hook is raised, unless another exception is already propagating: then it is logged.
    """

    def leave(kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> bool:
        if error is None:
            stop()
        else:
            _quietly(stop)
        return False

    return leave


def _quietly(clean_up: Callable[[], None]) -> None:
    """Call `clean_up` and log an exception instead of raising it, so that it does not hide the original error."""
    try:
        clean_up()
    except Exception:
        logger.exception("cleaning up after training failed")
