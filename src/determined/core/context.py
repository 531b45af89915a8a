"""`core.init()` and `core.Context`: open a run, and close it reliably."""

from __future__ import annotations

import faulthandler
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from determined import info as cluster_info
from determined import paths
from determined.checkpoint_storage.base import CheckpointStorage
from determined.checkpoint_storage.build import build_from_argument, build_from_config
from determined.code_copy import CODE
from determined.code_import import refuse_while_importing
from determined.config.length import Length, parse_length
from determined.console_log import show_levels
from determined.core.checkpoint import CheckpointContext
from determined.core.checkpoints.cleanup import Retention, retention_of
from determined.core.distributed import DistributedContext, DummyDistributedContext
from determined.core.experimental import ExperimentalContext
from determined.core.output_capture.output_copy import is_wanted
from determined.core.preempt import PreemptContext, PreemptMode
from determined.core.profiler import ProfilerContext
from determined.core.ranks.agreement import in_step
from determined.core.searcher import SearcherContext
from determined.core.supervision import detached
from determined.core.supervision.attempts import Member
from determined.core.supervision.base import StatusChange, Supervisor
from determined.core.supervision.build import supervise
from determined.core.supervision.detached import Detached, DetachedRun
from determined.core.supervision.managed import managed_trial
from determined.core.supervision.run_end import how_it_ended
from determined.core.supervision.run_identity import run_labels, run_name, run_notes
from determined.core.supervision.store_supervisor import StoreSupervisor
from determined.core.supervision.unclosed_runs import UnclosedRun, end_earlier_runs, tell_of_new_run
from determined.core.tensorboard import TensorboardFiles, TensorboardMode
from determined.core.train import EarlyExitReason, TrainContext
from determined.errors import DeterminedError, InvalidHP
from determined.info import ClusterInfo, RendezvousInfo, TrialInfo
from determined.plural import counted
from determined.sinks.selection import chosen_sinks
from determined.store.open import checked_place
from determined.store.process import Process, this_process

if TYPE_CHECKING:
    from determined.core.outputs import OutputContext
    from determined.sinks.base import Sink

logger = logging.getLogger("determined.core")

_ALERT_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}


class Context:
    """One worker's view of its run. Create it with `core.init()` and use it as `with core.init() as context`."""

    def __init__(
        self,
        *,
        distributed: DistributedContext,
        checkpoint: CheckpointContext,
        preempt: PreemptContext,
        train: TrainContext,
        searcher: SearcherContext,
        profiler: ProfilerContext,
        info: ClusterInfo,
        supervisor: Supervisor,
        tensorboard: TensorboardFiles,
        storage: CheckpointStorage,
        copies_output: bool = False,
    ) -> None:
        self.distributed = distributed
        self.checkpoint = checkpoint
        self.preempt = preempt
        self.train = train
        self.searcher = searcher
        self.profiler = profiler
        self.info = info
        self._supervisor = supervisor
        self._storage = storage
        self.experimental = ExperimentalContext(supervisor)
        self._tensorboard = tensorboard
        self._at_close: list[Callable[[BaseException | None], None]] = []
        self._started = False
        self._closed = False
        self._left_open: UnclosedRun | None = None
        self._copies_output = copies_output
        self._error_is_shown = False  # whether Python has already printed the error that ended the program

    @cached_property
    def outputs(self) -> OutputContext:
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
        """Start the attempt that `begin_attempt` would, where the supervisor was told before what to expect."""
        self._supervisor.begin_expected()
        if self.distributed.rank == 0:
            self.checkpoint._record_published()

    def _compare_by(self, metric: str, *, smaller_is_better: bool = True) -> None:
        """Record the validation metric by which checkpoints are compared.

        Only for standalone runs: a search has its metric.
        """
        self._supervisor.compare_by(metric, smaller_is_better=smaller_is_better)

    def at_close(self, action: Callable[[BaseException | None], None]) -> None:
        """Call `action` first when the run is closed, with the error that ended it or None."""
        self._at_close.append(action)

    def start(self) -> Context:
        """Start the run; entering the context with `with` does this."""
        if self._started:
            raise RuntimeError("this core.Context was started already")
        self._started = True
        if self._copies_output:
            self._supervisor.copy_output()
        self.preempt.start()
        cluster_info.enter_run(self.info)
        return self

    def __enter__(self) -> Context:
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
        self._closed = True
        self._release()
        # The order matters: everything that reports is stopped before the supervisor writes the end of the run and
        # closes the store; the ranks are disconnected last.
        steps: list[Callable[[], None]] = [
            *(partial(action, exc_val) for action in self._at_close),
            self.preempt.close,
            self.profiler.off,
            self._tensorboard.close,
            lambda: self._report_end(exc_val),
            lambda: self._supervisor.end_output(None if self._error_is_shown else exc_val),
            lambda: self._supervisor.close(hurry=exc_val is not None),
            self.distributed.close,
            lambda: cluster_info.leave_run(self.info),
        ]
        first: Exception | None = None
        for step in steps:
            try:
                step()
            except Exception as error:
                logger.exception("an error while the run was being closed")
                first = first or error
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
                self.train.report_early_exit(EarlyExitReason.INVALID_HP)
            except DeterminedError:
                logger.exception("why the trial ends could not be recorded")
        self.close(exc_type, exc_val, exc_tb)
        if isinstance(exc_val, InvalidHP):
            # Exit code 0: rejected hyperparameters are a result of the trial, not a failure.
            raise SystemExit(0) from exc_val

    def alert(self, title: str = "", description: str = "", level: str = "info") -> None:
        """Write an alert to the log with the level debug, info, warn or error."""
        logger.log(_ALERT_LEVELS.get(level, logging.INFO), "alert: %s: %s", title, description)

    def end_at_exit(self, error: BaseException | None) -> None:
        """End the run because the program exits. A run without any record is not recorded for an error alone."""
        self._error_is_shown = True
        self.close(exc_val=error if self._supervisor.begun_attempt() is not None else None)

    def end_for_another(self) -> None:
        """End the run because another one starts, and notify the user."""
        self.close()
        tell_of_new_run(self._supervisor.begun_attempt())

    def _release(self) -> None:
        """Cancel the automatic end of the run at the exit of the program."""
        if self._left_open is not None:
            self._left_open.release()

    def _report_end(self, error: BaseException | None) -> None:
        """Record the final state of the run, the reason and the exit code."""
        end = how_it_ended(error)
        self._supervisor.report_status(StatusChange(state=end.state, reason=end.reason, exit_code=end.exit_code))


def init(
    *,
    distributed: DistributedContext | None = None,
    checkpoint_storage: str | dict[str, Any] | None = None,
    preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    tensorboard_mode: TensorboardMode = TensorboardMode.AUTO,
    name: str | None = None,
    labels: Sequence[str] | None = None,
    notes: str | None = None,
    store_output: bool | None = None,
    _hparams: dict[str, Any] | None = None,
    _exp_conf: dict[str, Any] | None = None,
    _trial_seed: int | None = None,
    _detached: Detached | None = None,
) -> Context:
    """Open a run: `with core.init() as context: ...`.

    With several ranks every rank calls this in step, each with its `distributed`. `checkpoint_storage` is a directory,
    a URI or a configuration block; by default the experiment's configuration decides, or else the user's data directory
    is used. `name`, or the environment variable DET_RUN_NAME, names a standalone run; runs of one user with the same
    name continue each other. `labels`, a list of texts, and `notes` describe a standalone run in lists. The output of a
    standalone run is stored as its log; `store_output=False`, or DET_STORE_OUTPUT=0, disables that.
    """
    refuse_while_importing("core.init()")
    if not isinstance(preempt_mode, PreemptMode):
        raise TypeError(f"preempt_mode must be a PreemptMode, got {preempt_mode!r}")
    if not isinstance(tensorboard_mode, TensorboardMode):
        raise TypeError(f"tensorboard_mode must be a TensorboardMode, got {tensorboard_mode!r}")
    copies_output = is_wanted(store_output, os.environ)
    checked_name, checked_labels, checked_notes = run_name(name, os.environ), run_labels(labels), run_notes(notes)
    described = cluster_info.from_env(os.environ)
    distributed = _checked_distributed(distributed, described)
    show_levels()
    _print_stack_on_sigusr1()
    if _detached is None:
        end_earlier_runs()

    storages: list[CheckpointStorage] = []
    sinks: list[Sink] = []

    def open_run() -> _Opened | None:
        storage = _storage(checkpoint_storage, described)
        storages.append(storage)
        if distributed.rank != 0:
            return None
        storage.probe()
        checked_place()
        config = _exp_conf if _exp_conf is not None or described is None else described.trial._config
        sinks.extend(chosen_sinks(config or {}, os.environ))
        return _Opened.fresh()

    opened = in_step(distributed.allgather, distributed.rank, open_run, doing="opening the run")[0]
    assert opened is not None
    info = described or _info_by_hand(opened, distributed, _hparams, _exp_conf, _trial_seed)
    member = Member(opened.run_key, opened.process, distributed.rank, distributed.size)
    supervisor = supervise(
        opened.run_dir,
        member,
        hparams=info.trial.hparams if _hparams is None else _hparams,
        passed_hparams=_hparams,
        config=info.trial._config if _exp_conf is None else _exp_conf,
        storage=storages[0].name,
        managed=managed_trial(described, is_chief=member.is_chief),
        sinks=sinks,
        seed=info.trial.trial_seed,
        detached=_detached,
        name=checked_name if described is None else None,
        labels=checked_labels,
        notes=checked_notes,
    )
    checkpoint = CheckpointContext(
        distributed,
        storages[0],
        supervisor,
        _retention(checkpoint_storage, described, info),
        opened.run_dir / CODE,
    )
    if _detached is not None and described is None:
        info = detached.describe(info, _begin_now(distributed, supervisor, checkpoint), _hparams)
    tensorboard = TensorboardFiles(opened.run_dir, distributed.rank, tensorboard_mode)
    train = TrainContext(distributed, supervisor, tensorboard, _mask_for(_exp_conf or info.trial._config))
    preempt = PreemptContext(distributed, supervisor, preempt_mode)
    length = _searcher_length(info, by_hand=described is None)
    context = Context(
        distributed=distributed,
        checkpoint=checkpoint,
        preempt=preempt,
        train=train,
        searcher=SearcherContext(distributed, train, preempt, length, info.trial._rungs),
        profiler=ProfilerContext(supervisor, agent_id=info.agent_id, records=distributed.local_rank == 0),
        info=info,
        supervisor=supervisor,
        tensorboard=tensorboard,
        storage=storages[0],
        copies_output=described is None and copies_output,
    )
    if _detached is None:  # core_v2 ends a detached run itself
        context._left_open = UnclosedRun(context)
    return context


def _mask_for(config: dict[str, Any]) -> Callable[[str], str]:
    """Return a function that masks secrets of the environment and of the configuration in a text."""

    def mask(text: str) -> str:
        from determined.config.secrets.line_mask import line_mask  # imported on use: few programs need it

        return line_mask(os.environ, config)(text)

    return mask


def _begin_now(
    distributed: DistributedContext, supervisor: StoreSupervisor, checkpoint: CheckpointContext
) -> DetachedRun:
    """Begin the attempt of a detached run on the chief, and return its description on every rank."""

    def begin() -> DetachedRun | None:
        if distributed.rank != 0:
            return None
        checkpoint._record_published()  # first, because the trial resumes from its newest checkpoint
        return supervisor.begin_detached()

    try:
        begun = in_step(
            distributed.allgather,
            distributed.rank,
            begin,
            doing="recording the run",
        )[0]
    except BaseException:
        supervisor.close(hurry=True)
        raise
    assert begun is not None
    return begun


class _Opened(NamedTuple):
    """The facts about a run that the chief determines for all ranks."""

    run_dir: Path
    cluster_id: str
    request_id: str
    session_token: str
    trial_seed: int
    run_key: str  # from which all ranks derive the keys of attempts
    process: Process

    @classmethod
    def fresh(cls) -> _Opened:
        """Create a run directory, random ids and a seed for a new run."""
        return cls(
            run_dir=paths.new_run_dir(),
            cluster_id=str(uuid.uuid4()),
            request_id=str(uuid.uuid4()),
            session_token=secrets.token_urlsafe(32),
            trial_seed=secrets.randbelow(2**31),
            run_key=str(uuid.uuid4()),
            process=this_process(),
        )


def _checked_distributed(distributed: DistributedContext | None, described: ClusterInfo | None) -> DistributedContext:
    """Return the distributed context; raise if a trial with several slots was given none."""
    if distributed is None:
        slots = sum(described.container_slot_counts) if described is not None else 1
        if slots > 1:
            raise ValueError(
                f"this trial has {counted(slots, 'slot')}: pass distributed=, for example "
                "core.DistributedContext.from_torch_distributed()"
            )
        return DummyDistributedContext()
    if not isinstance(distributed, DistributedContext):
        raise TypeError(f"distributed must be a DistributedContext, got {distributed!r}")
    return distributed


def _storage(argument: str | dict[str, Any] | None, described: ClusterInfo | None) -> CheckpointStorage:
    """Return the checkpoint storage of the argument, or else of the experiment's configuration, or else the default."""
    if argument is None and described is not None and described.trial._config.get("checkpoint_storage"):
        return build_from_config(described.trial._config["checkpoint_storage"])
    return build_from_argument(argument)


def _retention(
    argument: str | dict[str, Any] | None, described: ClusterInfo | None, info: ClusterInfo
) -> Retention | None:
    """Return the retention policy of the argument, or else of the experiment's configuration."""
    config = info.trial._config
    managed = None if described is None else config.get("checkpoint_storage")
    return retention_of(argument if argument is not None else managed, config.get("searcher") or {})


def _info_by_hand(
    opened: _Opened,
    distributed: DistributedContext,
    hparams: dict[str, Any] | None,
    exp_conf: dict[str, Any] | None,
    trial_seed: int | None,
) -> ClusterInfo:
    """Return the ClusterInfo of a standalone run.

    Its slots are the visible GPUs, or else one per rank of this machine.
    """
    task_id = f"0.{opened.request_id}"
    return ClusterInfo(
        master_url="local",
        cluster_id=opened.cluster_id,
        agent_id=socket.gethostname(),
        slot_ids=_visible_gpus() or list(range(distributed.local_size)),
        task_id=task_id,
        allocation_id=f"{task_id}.0",
        session_token=opened.session_token,
        task_type=cluster_info.TRIAL,
        _trial_info=TrialInfo(
            trial_id=0,
            experiment_id=0,
            trial_seed=opened.trial_seed if trial_seed is None else trial_seed,
            hparams={} if hparams is None else hparams,
            _config={} if exp_conf is None else exp_conf,
        ),
        _rendezvous_info=RendezvousInfo(
            container_addrs=["127.0.0.1"],
            container_rank=0,
            container_slot_counts=[distributed.size],
        ),
    )


def _visible_gpus() -> list[int]:
    """Return the indices of the GPUs that torch sees, or an empty list if the program has not imported torch."""
    torch = sys.modules.get("torch")
    return list(range(torch.cuda.device_count())) if torch is not None else []


def _searcher_length(info: ClusterInfo, *, by_hand: bool) -> Length | None:
    """Return the configured length of training; a standalone run without one has a length of one epoch."""
    searcher = info.trial._config.get("searcher") or {}
    if searcher.get("max_length") is not None:
        return parse_length(searcher["max_length"], "searcher.max_length")
    if searcher.get("max_time") is not None:
        unit = searcher.get("time_metric")
        value = searcher["max_time"]
        known = unit in ("batches", "records", "epochs")
        return parse_length({unit: value} if known else value, "searcher.max_time")
    return Length(1, "epochs") if by_hand else None


def _print_stack_on_sigusr1() -> None:
    """Print all Python stacks on SIGUSR1, even while the program waits inside a collective."""
    if not hasattr(signal, "SIGUSR1") or threading.current_thread() is not threading.main_thread():
        return
    if sys.__stderr__ is None:
        return
    previous = signal.getsignal(signal.SIGUSR1)
    # Chained only to a handler of the user: the default action of the signal would end the process.
    faulthandler.register(signal.SIGUSR1, file=sys.__stderr__, all_threads=True, chain=callable(previous))
