"""Record any Python process as a run, from its start and with its log, under names that the program chooses.

from determined.experimental import core_v2

core_v2.init(config=core_v2.Config(name="mine", external_experiment_id="search", external_trial_id="a"))
core_v2.train.report_validation_metrics(steps_completed=1, metrics={"loss": 0.5})
core_v2.close()  # or the end of the program

`init_context()` returns the same as a `core.Context`. In a trial of a search both refer to that trial.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from typing import TYPE_CHECKING, Any

from determined import core
from determined import info as cluster_info
from determined.core import DistributedContext, PreemptMode, TensorboardMode
from determined.core.experimental import ExperimentalContext
from determined.core.initialize import open_run
from determined.core.output_capture.exit_watch import ExitWatch
from determined.core.supervision.detached import Detached
from determined.experimental.detached_config import Config, DefaultConfig, UnmanagedConfig, combine, experiment_config
from determined.store.open import checked_place
from determined.user_code.imports import refuse_while_importing

if TYPE_CHECKING:
    from determined.experimental.determined import Determined

__all__ = [
    "Config",
    "DefaultConfig",
    "UnmanagedConfig",
    "DistributedContext",
    "PreemptMode",
    "TensorboardMode",
    "init",
    "init_context",
    "close",
    "url_reverse_webui_exp_view",
]

# The parts of the run that `init` has opened. Reading one before `init` or after `close` raises (see __getattr__).
distributed: core.DistributedContext
checkpoint: core.CheckpointContext
preempt: core.PreemptContext
train: core.TrainContext
searcher: core.SearcherContext
profiler: core.ProfilerContext
experimental: ExperimentalContext
info: cluster_info.ClusterInfo

_PARTS = ("distributed", "checkpoint", "preempt", "train", "searcher", "profiler", "experimental", "info")

_context: core.Context | None = None
_watch: ExitWatch | None = None
_pid = 0


def init_context(
    *,
    config: Config | None = None,
    distributed: DistributedContext | None = None,
    checkpoint_storage: str | dict[str, Any] | None = None,
    preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    tensorboard_mode: TensorboardMode = TensorboardMode.AUTO,
    defaults: DefaultConfig | None = None,
    unmanaged: UnmanagedConfig | None = None,
    client: Determined | None = None,
) -> core.Context:
    """Open a run: `with core_v2.init_context(...) as context: ...`. With several ranks every rank calls this.

    The arguments are those of `init`.
    """
    # Importing the code of a checkpoint must not open a run.
    refuse_while_importing("core_v2.init_context()")
    described = combine(config, defaults, unmanaged)
    return _open(described, client, distributed, checkpoint_storage, preempt_mode, tensorboard_mode)


def init(
    *,
    config: Config | None = None,
    distributed: DistributedContext | None = None,
    checkpoint_storage: str | dict[str, Any] | None = None,
    preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    tensorboard_mode: TensorboardMode = TensorboardMode.AUTO,
    defaults: DefaultConfig | None = None,
    unmanaged: UnmanagedConfig | None = None,
    client: Determined | None = None,
) -> None:
    """Open the run of this process; its parts are `core_v2.train`, `core_v2.checkpoint`, `core_v2.info` and so on.

    It ends with `close()` or with the process: COMPLETED, or ERROR after an exception or `sys.exit` with a status.

    Args:
        config: name and description of the run, and the names by which it is found again.
        defaults, unmanaged: the same in the two parts of release 0.25.
        client: a `Determined` object; the run is recorded in its store. A run that a search started stays in the store
            of that search.
    """
    global _context, _watch, _pid
    refuse_while_importing("core_v2.init()")
    if _context is not None:
        raise RuntimeError("core_v2.init() was already called: close() ends that run")
    described = combine(config, defaults, unmanaged)
    context = _open(described, client, distributed, checkpoint_storage, preempt_mode, tensorboard_mode)
    # The process id, because a forked child inherits the exit function and must not end the run.
    _context, _watch, _pid = context.start(), ExitWatch(), os.getpid()
    _watch.start()
    globals().update({name: getattr(context, name) for name in _PARTS})
    atexit.register(_close_at_exit)  # registered after the run's own exit functions, so that it runs before them


def close() -> None:
    """End the run that `init` opened; do nothing if there is none."""
    _end(None)


def url_reverse_webui_exp_view() -> str:
    """Return the terminal command that shows the experiment of this run; the page of `det ui` has no fixed address."""
    return f"det experiment describe {_opened().info.trial.experiment_id}"


def _open(
    config: Config,
    client: Determined | None,
    distributed: DistributedContext | None,
    checkpoint_storage: str | dict[str, Any] | None,
    preempt_mode: PreemptMode,
    tensorboard_mode: TensorboardMode,
) -> core.Context:
    """Open a run with the configuration, recorded in the client's store if there is a client."""
    store = checked_place() if client is None else _store_of(client)
    # Inside a trial of a search the runner's configuration counts.
    described = cluster_info.from_env(os.environ) is not None
    if checkpoint_storage is None and not described:
        checkpoint_storage = config.checkpoint_storage
    return open_run(
        distributed=distributed,
        checkpoint_storage=checkpoint_storage,
        preempt_mode=preempt_mode,
        tensorboard_mode=tensorboard_mode,
        notes=None if described else config.notes,
        hparams=None if described else config.hparams,
        exp_conf=None if described else experiment_config(config),
        detached=Detached(config.external_experiment_id, config.external_trial_id, None if client is None else store),
    )


def _store_of(client: Determined) -> str:
    """Return the location of a client's store."""
    from determined.experimental.determined import Determined

    if not isinstance(client, Determined):
        raise TypeError(f"client must be a determined.experimental.Determined object, got {client!r}")
    return client._session.place


def _opened() -> core.Context:
    """Return the open run; raise RuntimeError if there is none."""
    if _context is None:
        raise RuntimeError("there is no open run: call core_v2.init() first")
    return _context


def _close_at_exit() -> None:
    """End the run with the error that ended the program. A forked child must not end its parent's run."""
    if os.getpid() == _pid and _watch is not None:
        _end(_watch.error)


def _end(error: BaseException | None) -> None:
    """End the run and remove its parts from this module."""
    global _context, _watch
    context, watch = _context, _watch
    if context is None or watch is None:
        return
    # Cleared first, so that an error while closing does not end the run twice.
    _context = _watch = None
    # Otherwise a program that opens many runs would collect exit functions.
    atexit.unregister(_close_at_exit)
    watch.stop()
    for name in _PARTS:
        globals().pop(name, None)
    # The interpreter has printed the traceback; it must not be shown again.
    context._error_is_shown = error is not None
    with contextlib.suppress(SystemExit):  # raised for InvalidHP; the program is ending anyway
        context.__exit__(type(error) if error is not None else None, error, None)


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        raise AttributeError(f"core_v2.{name} exists only between core_v2.init() and core_v2.close()")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
