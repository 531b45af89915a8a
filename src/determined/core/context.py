"""`core.Context`: one worker's view of its run, from the start to a reliable end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from determined import info as cluster_info
from determined.checkpoint_storage.base import CheckpointStorage
from determined.core.checkpoint import CheckpointContext
from determined.core.distributed import DistributedContext
from determined.core.experimental import ExperimentalContext
from determined.core.preempt import PreemptContext
from determined.core.profiler import ProfilerContext
from determined.core.searcher import SearcherContext
from determined.core.supervision.reports import StatusChange
from determined.core.supervision.run_end import how_it_ended
from determined.core.supervision.supervisor import Supervisor
from determined.core.supervision.unclosed_runs import UnclosedRun, announce_new_run
from determined.core.tensorboard import TensorboardFiles
from determined.core.train import EarlyExitReason, TrainContext
from determined.errors import DeterminedError, InvalidHP
from determined.info import ClusterInfo

if TYPE_CHECKING:
    from determined.core.outputs import OutputContext

logger = logging.getLogger("determined.core")

_ALERT_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}


class ContextParts(NamedTuple):
    """The parts of which `core.init()` makes a context."""

    distributed: DistributedContext
    checkpoint: CheckpointContext
    preempt: PreemptContext
    train: TrainContext
    searcher: SearcherContext
    profiler: ProfilerContext
    info: ClusterInfo
    supervisor: Supervisor
    tensorboard: TensorboardFiles
    storage: CheckpointStorage
    copies_output: bool  # whether what the process prints is stored as the log of the run


class Context:
    """One worker's view of its run. Create it with `core.init()` and use it as `with core.init() as context`."""

    def __init__(self, _parts: ContextParts) -> None:
        self.distributed: DistributedContext = _parts.distributed
        self.checkpoint: CheckpointContext = _parts.checkpoint
        self.preempt: PreemptContext = _parts.preempt
        self.train: TrainContext = _parts.train
        self.searcher: SearcherContext = _parts.searcher
        self.profiler: ProfilerContext = _parts.profiler
        self.info: ClusterInfo = _parts.info
        self._supervisor = _parts.supervisor
        self._storage = _parts.storage
        self.experimental = ExperimentalContext(_parts.supervisor)
        self._tensorboard = _parts.tensorboard
        self._started = False
        self._closed = False
        self._left_open: UnclosedRun | None = None
        self._copies_output = _parts.copies_output
        self._error_is_shown = False  # whether Python has already printed the error that ended the program

    @cached_property
    def _outputs(self) -> OutputContext:
        """The files that batch inference uploads."""
        from determined.core.outputs import OutputContext  # here: training has no outputs

        return OutputContext(self.distributed, self._storage, self._supervisor)

    @property
    def run_dir(self) -> Path:
        """The directory with this run's files."""
        return self._supervisor.run_dir

    def begin_attempt(self, *, checkpoint: str | None = None, steps_completed: int = 0) -> None:
        """Start a new attempt of the trial, from a checkpoint or from scratch.

        With several ranks every rank calls this.

        Reports replace those of the previous attempt for the same steps. If the store knows the checkpoint, this run
        becomes the next attempt of that checkpoint's trial.
        """
        self._supervisor.expect_attempt(checkpoint=checkpoint, steps_completed=steps_completed)
        self._begin_expected()

    def _begin_expected(self) -> None:
        """Start the attempt that `begin_attempt` would, for which the supervisor was prepared before."""
        self._supervisor.begin_expected()
        if self.distributed.rank == 0:
            self.checkpoint._record_published()

    def _compare_by(self, metric: str, *, smaller_is_better: bool = True) -> None:
        """Record the validation metric by which checkpoints are compared.

        Only for standalone runs: a search has its metric.
        """
        self._supervisor.compare_by(metric, smaller_is_better=smaller_is_better)

    def start(self) -> Context:
        """Start the run; entering the context with `with` does this."""
        if self._started:
            raise RuntimeError("this core.Context was started already")
        self._started = True
        # Before anything else of the run can print.
        if self._copies_output:
            self._supervisor.copy_output()
        self.preempt.start()
        cluster_info.enter_run(self.info)
        return self

    def __enter__(self) -> Context:
        # The `with` block ends the run from now on, and not the exit of the program.
        self._release()
        return self.start()

    def close(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        """Write pending data and release all resources.

        Every step runs even if another one fails. An error of a step is raised only if the run itself did not fail.
        """
        if self._closed:
            return
        # Set at once, so that an exit handler or a second call does not close the run while this call does.
        self._closed = True
        self._release()
        # The order matters: everything that reports is stopped before the supervisor writes the end of the run and
        # closes the store; the ranks are disconnected last.
        steps: list[Callable[[], None]] = [
            self.preempt.close,
            self.profiler.off,
            self._tensorboard.close,
            lambda: self._report_end(exc_val),
            lambda: self._supervisor.end_output(None if self._error_is_shown else exc_val),
            lambda: self._supervisor.close(hurry=exc_val is not None),
            self.distributed.close,
            lambda: cluster_info.leave_run(self.info),
        ]
        # Errors of later steps are only logged: the first one is usually their cause.
        first: Exception | None = None
        for step in steps:
            try:
                step()
            except Exception as error:
                logger.exception("an error while the run was being closed")
                first = first or error
        # The error of the program is more important than one of closing, which was logged.
        if first is not None and exc_val is None:
            raise first

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        if isinstance(exc_val, InvalidHP):
            logger.warning("the trial refused its hyperparameters and ends: %s", exc_val)
            try:
                # Recorded before `close`, which ends the reporting.
                self.train.report_early_exit(EarlyExitReason.INVALID_HP)
            except DeterminedError:
                logger.exception("the reason for the end of the trial could not be recorded")
        self.close(exc_type, exc_val, exc_tb)
        if isinstance(exc_val, InvalidHP):
            # Exit code 0: rejected hyperparameters are a result of the trial, not a failure.
            raise SystemExit(0) from exc_val

    def alert(self, title: str = "", description: str = "", level: str = "info") -> None:
        """Write an alert to the log with the level debug, info, warn or error."""
        # Unknown levels are logged as info: an alert must not end the training.
        logger.log(_ALERT_LEVELS.get(level, logging.INFO), "alert: %s: %s", title, description)

    def _end_at_exit(self, error: BaseException | None) -> None:
        """End the run because the program exits. A run without any record is not recorded for an error alone."""
        self._error_is_shown = True
        self.close(exc_val=error if self._supervisor.begun_attempt() is not None else None)

    def _end_for_another(self) -> None:
        """End the run because another one starts, and notify the user."""
        self.close()
        announce_new_run(self._supervisor.begun_attempt())

    def _release(self) -> None:
        """Cancel the automatic end of the run at the exit of the program."""
        if self._left_open is not None:
            self._left_open.release()

    def _report_end(self, error: BaseException | None) -> None:
        """Record the final state of the run, the reason and the exit code."""
        end = how_it_ended(error)
        self._supervisor.report_status(StatusChange(state=end.state, reason=end.reason, exit_code=end.exit_code))
