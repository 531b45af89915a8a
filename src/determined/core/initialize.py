"""`core.init()`: open a run and make the context through which a worker uses it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from determined import info as cluster_info
from determined import paths
from determined.checkpoint_storage.base import CheckpointStorage
from determined.checkpoint_storage.build import build_from_argument, build_from_config
from determined.config.length import Length, parse_length
from determined.config.stored import StoredConfig
from determined.console_log import show_levels
from determined.core.checkpoint import CheckpointContext
from determined.core.checkpoints.cleanup import Retention, retention_of
from determined.core.context import Context, ContextParts
from determined.core.distributed import DistributedContext, DummyDistributedContext
from determined.core.output_capture.output_copy import is_wanted
from determined.core.preempt import PreemptContext, PreemptMode
from determined.core.profiler import ProfilerContext
from determined.core.ranks.agreement import in_step
from determined.core.searcher import SearcherContext
from determined.core.supervision.attempts import Member
from determined.core.supervision.build import supervise
from determined.core.supervision.detached import Detached, DetachedRun, describe_detached
from determined.core.supervision.managed import managed_trial
from determined.core.supervision.run_facts import RunFacts, standalone_info
from determined.core.supervision.run_identity import run_labels, run_name, run_notes
from determined.core.supervision.supervisor import Supervisor
from determined.core.supervision.unclosed_runs import UnclosedRun, end_earlier_runs
from determined.core.tensorboard import TensorboardFiles, TensorboardMode
from determined.core.train import TrainContext
from determined.info import ClusterInfo
from determined.sentences import counted
from determined.sinks.selection import chosen_sinks
from determined.stack_dumps import print_stacks_on
from determined.store.open import checked_place
from determined.user_code.copy import CODE
from determined.user_code.imports import refuse_while_importing

if TYPE_CHECKING:
    from determined.sinks.base import Sink


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
) -> Context:
    """Open a run: `with core.init() as context: ...`.

    With several ranks every rank calls this in step, each with its `distributed`. `checkpoint_storage` is a directory,
    a URI or a configuration block; by default the experiment's configuration decides, or else the user's data directory
    is used. `name`, or the environment variable DET_RUN_NAME, names a standalone run; runs of one user with the same
    name continue each other. `labels`, a list of texts, and `notes` describe a standalone run in lists. The output of a
    standalone run is stored as its log; `store_output=False`, or DET_STORE_OUTPUT=0, disables that.
    """
    return open_run(
        distributed=distributed,
        checkpoint_storage=checkpoint_storage,
        preempt_mode=preempt_mode,
        tensorboard_mode=tensorboard_mode,
        name=name,
        labels=labels,
        notes=notes,
        store_output=store_output,
    )


def open_run(
    *,
    distributed: DistributedContext | None = None,
    checkpoint_storage: str | dict[str, Any] | None = None,
    preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    tensorboard_mode: TensorboardMode = TensorboardMode.AUTO,
    name: str | None = None,
    labels: Sequence[str] | None = None,
    notes: str | None = None,
    store_output: bool | None = None,
    hparams: dict[str, Any] | None = None,
    exp_conf: dict[str, Any] | None = None,
    trial_seed: int | None = None,
    detached: Detached | None = None,
) -> Context:
    """Open a run as `init` does, with the facts that other packages of the library know about it.

    `hparams`, `exp_conf` and `trial_seed` describe the trial of a standalone run. With `detached` the run is recorded
    at once, under the names and in the store that it gives.
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
    _end_with_torchrun()
    # Detached runs are ended by `core_v2`.
    if detached is None:
        end_earlier_runs()

    config = exp_conf if exp_conf is not None or described is None else described.trial._config
    facts, storage, sinks = _checked_services(
        distributed, lambda: _storage(checkpoint_storage, described), StoredConfig(config)
    )
    run_dir = paths.local_run_dir(facts.run_dir)
    info = described or standalone_info(facts, distributed, hparams, exp_conf, trial_seed)
    member = Member(facts.run_key, facts.process, distributed.rank, distributed.size)
    supervisor = supervise(
        run_dir,
        member,
        hparams=info.trial.hparams if hparams is None else hparams,
        passed_hparams=hparams,
        config=info.trial._config if exp_conf is None else exp_conf,
        storage=storage.name,
        # Only the chief is woken by the runner, so the other ranks open no socket.
        managed=managed_trial(described, is_chief=member.is_chief),
        sinks=sinks,
        seed=info.trial.trial_seed,
        detached=detached,
        name=checked_name if described is None else None,
        labels=checked_labels,
        notes=checked_notes,
    )
    checkpoint = CheckpointContext(
        distributed,
        storage,
        supervisor.checkpoints,
        _retention(checkpoint_storage, described, info),
        run_dir / CODE,
    )
    if detached is not None and described is None:
        info = describe_detached(info, _begin_now(distributed, supervisor, checkpoint), hparams)
    tensorboard = TensorboardFiles(run_dir, distributed.rank, tensorboard_mode)
    train = TrainContext(distributed, supervisor, tensorboard, _mask_for(exp_conf or info.trial._config))
    preempt = PreemptContext(distributed, supervisor, preempt_mode)
    length = _searcher_length(info, standalone=described is None)
    context = Context(
        ContextParts(
            distributed=distributed,
            checkpoint=checkpoint,
            preempt=preempt,
            train=train,
            searcher=SearcherContext(distributed, train, preempt, length, info.trial._rungs),
            profiler=ProfilerContext(supervisor, agent_id=info.agent_id, records=distributed.local_rank == 0),
            info=info,
            supervisor=supervisor,
            tensorboard=tensorboard,
            storage=storage,
            # The runner of a search stores the output of its trials.
            copies_output=described is None and copies_output,
        )
    )
    if detached is None:  # core_v2 ends a detached run itself
        context._left_open = UnclosedRun(context._end_at_exit, context._end_for_another)
    return context


class _Services(NamedTuple):
    """The storage and the sinks of a run. Only the chief has sinks; `facts` are the same on all ranks."""

    facts: RunFacts
    storage: CheckpointStorage
    sinks: list[Sink]


def _checked_services(
    distributed: DistributedContext, open_storage: Callable[[], CheckpointStorage], config: StoredConfig
) -> _Services:
    """Open the storage on all ranks, and check storage, store and sinks on the chief before anything is recorded."""
    storages: list[CheckpointStorage] = []
    sinks: list[Sink] = []

    def check() -> RunFacts | None:
        """Return the facts of the run on the chief."""
        storage = open_storage()
        storages.append(storage)
        if distributed.rank != 0:
            return None
        # Refuses a storage that cannot be written now, and not at the first checkpoint after hours of training.
        storage.probe()
        checked_place()
        sinks.extend(chosen_sinks(config.sinks, os.environ))
        return RunFacts.fresh()

    # Ranks that did not fail get an error as well, instead of waiting for the chief in the next collective.
    facts = in_step(distributed.allgather, distributed.rank, check, doing="opening the run")[0]
    assert facts is not None
    return _Services(facts, storages[0], sinks)


def _mask_for(config: dict[str, Any]) -> Callable[[str], str]:
    """Return a function that masks secrets of the environment and of the configuration in a text."""

    def mask(text: str) -> str:
        from determined.config.secrets.line_mask import line_mask  # imported on use: few programs need it

        return line_mask(os.environ, config)(text)

    return mask


def _begin_now(distributed: DistributedContext, supervisor: Supervisor, checkpoint: CheckpointContext) -> DetachedRun:
    """Begin the attempt of a detached run on the chief, and return its description on every rank."""

    def begin() -> DetachedRun | None:
        """Record the attempt on the chief."""
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
        # The error should be shown soon, and nothing was reported that would have to be written.
        supervisor.close(hurry=True)
        raise
    assert begun is not None
    return begun


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
    configured = StoredConfig(None if described is None else described.trial._config).checkpoint_storage.plain
    return build_from_config(configured) if argument is None and configured else build_from_argument(argument)


def _retention(
    argument: str | dict[str, Any] | None, described: ClusterInfo | None, info: ClusterInfo
) -> Retention | None:
    """Return the retention policy of the argument, or else of the experiment's configuration."""
    config = StoredConfig(info.trial._config)
    managed = None if described is None else config.checkpoint_storage.plain
    return retention_of(argument if argument is not None else managed, config.searcher)


def _searcher_length(info: ClusterInfo, *, standalone: bool) -> Length | None:
    """Return the configured length of training; a standalone run without one has a length of one epoch."""
    searcher = StoredConfig(info.trial._config).searcher
    if searcher.max_length is not None:
        return parse_length(searcher.max_length, "searcher.max_length")
    if searcher.max_time is not None:
        known = searcher.time_metric in ("batches", "records", "epochs")
        return parse_length(
            {searcher.time_metric: searcher.max_time} if known else searcher.max_time, "searcher.max_time"
        )
    return Length(1, "epochs") if standalone else None


def _end_with_torchrun() -> None:
    """Let the kernel kill this process if torchrun, which started it, is killed.

    Otherwise it would train on, and the next start of the program would have to begin from scratch.
    """
    # Not under the launchers of this library, which end their workers themselves.
    if "TORCHELASTIC_RUN_ID" in os.environ and "DET_RUNNER" not in os.environ:
        from determined.kernel import signal_when_parent_ends  # imports ctypes

        signal_when_parent_ends(signal.SIGKILL)


def _print_stack_on_sigusr1() -> None:
    """Print all Python stacks on SIGUSR1, even while the program waits inside a collective."""
    # Windows has no such signal.
    if not hasattr(signal, "SIGUSR1") or threading.current_thread() is not threading.main_thread():
        return
    # The original stream, because a replacement, for example of a notebook, may have no file descriptor. It is None
    # without a console.
    if sys.__stderr__ is None:
        return
    print_stacks_on(signal.SIGUSR1, sys.__stderr__.fileno())
