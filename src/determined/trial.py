"""The parts of trials that do not depend on a framework: `TrialContext` and the base of trial classes."""

from __future__ import annotations

import logging
import secrets
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from determined.config.stored import StoredConfig
from determined.core.distributed import DistributedContext, DummyDistributedContext
from determined.errors import InternalException, InvalidExperimentException
from determined.info import ClusterInfo

logger = logging.getLogger("determined.trial")

# They describe a cluster or how a trial runs there, which does not concern a context for debugging.
_IGNORED_BY_FROM_CONFIG = ("bind_mounts", "checkpoint_storage", "environment", "resources", "optimizations")


@dataclass(frozen=True)
class EnvContext:
    """Facts about the environment of a trial that programs of older releases read as `context.env`."""

    experiment_config: dict[str, Any]
    hparams: dict[str, Any]
    latest_checkpoint: str | None = None
    steps_completed: int = 0
    use_gpu: bool = False
    container_gpus: list[str] = field(default_factory=list)
    slot_ids: list[int] = field(default_factory=list)
    slots_per_trial: int = 1
    debug: bool = False
    det_trial_id: str = "0"
    det_experiment_id: str = "0"
    det_agent_id: str = ""
    det_cluster_id: str = ""
    trial_seed: int = 0
    trial_run_id: int = 0
    allocation_id: str = ""
    managed_training: bool = False
    test_mode: bool = False
    on_cluster: bool = False
    master_url: str = "local"

    def first_step(self) -> int:
        """Return the number, counted from 1, of the first step of this process.

        A step has as many batches as there are between two reports of training metrics.
        """
        return self.steps_completed // StoredConfig(self.experiment_config).batches_between_reports + 1


class TrialFacts(NamedTuple):
    """The facts about a trial from which the library creates its context.

    A context belongs to a run, or serves to create a trial outside a run, for example to load weights or to debug it.
    `info` describes the run, if there is one.
    """

    distributed: DistributedContext
    hparams: dict[str, Any] | None
    exp_conf: dict[str, Any] | None
    trial_seed: int | None
    trial_id: int = 0
    experiment_id: int = 0
    steps_completed: int = 0
    tensorboard_path: Path | None = None
    belongs_to_run: bool = False
    info: ClusterInfo | None = None


class TrialContext:
    """Information about a trial that does not depend on a framework; the contexts of frameworks extend it.

    Programs receive a context from the library, or create one with `from_config`.
    """

    def __init__(self, _facts: TrialFacts) -> None:
        self.distributed: DistributedContext = _facts.distributed
        self._hparams = _facts.hparams
        self._exp_conf = _facts.exp_conf
        self._trial_seed = _facts.trial_seed
        self._trial_id = _facts.trial_id
        self._experiment_id = _facts.experiment_id
        self._steps_completed = _facts.steps_completed
        self._initial_batch_asked = False
        self._tensorboard_path = _facts.tensorboard_path
        self._belongs_to_run = _facts.belongs_to_run
        self._info = _facts.info
        self._stop_requested = False
        self._per_slot_batch_size = per_slot_batch_size(
            (self._hparams or {}).get("global_batch_size"), self.distributed.size
        )

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> TrialContext:
        """Return a context for debugging; hyperparameters that are not constants are sampled at random."""
        from determined.config.hyperparameters import sample_hyperparameters
        from determined.config.random_stream import RandomStream

        exp_conf = {name: value for name, value in config.items() if name not in _IGNORED_BY_FROM_CONFIG}
        settings = StoredConfig(exp_conf)
        # From a random seed, because a context for debugging need not be reproducible.
        hparams = sample_hyperparameters(settings.hyperparameters, RandomStream(secrets.randbits(32)))
        seed = settings.reproducibility.experiment_seed or 0
        return cls(TrialFacts(DummyDistributedContext(), hparams, exp_conf, seed))

    @property
    def env(self) -> EnvContext:
        """Facts about the environment of the trial, for programs of older releases."""
        info = self._info
        return EnvContext(
            experiment_config=self._exp_conf or {},
            hparams=self._hparams or {},
            latest_checkpoint=info.latest_checkpoint if info else None,
            steps_completed=self._steps_completed,
            use_gpu=_has_gpu(),
            container_gpus=list(info.gpu_uuids) if info else [],
            slot_ids=list(info.slot_ids) if info else [],
            slots_per_trial=self.distributed.size,
            debug=bool(StoredConfig(self._exp_conf).debug),
            det_trial_id=str(self._trial_id),
            det_experiment_id=str(self._experiment_id),
            det_agent_id=info.agent_id if info else "",
            det_cluster_id=info.cluster_id if info else "",
            trial_seed=self._trial_seed or 0,
            trial_run_id=info.trial._trial_run_id if info else 0,
            allocation_id=info.allocation_id if info else "",
            managed_training=self._belongs_to_run,
            on_cluster=info is not None and info.master_url != "local",
            master_url=info.master_url if info else "local",
        )

    def get_experiment_config(self) -> dict[str, Any]:
        """Return the experiment configuration; in a standalone run the `exp_conf` given to `init`."""
        if self._exp_conf is None:
            raise ValueError("this run has no experiment configuration: pass exp_conf to init()")
        return self._exp_conf

    def get_data_config(self) -> dict[str, Any]:
        """Return the `data` block of the experiment configuration."""
        return StoredConfig(self.get_experiment_config()).data

    def get_experiment_id(self) -> int:
        """Return the id of the experiment; 0 in a standalone run."""
        return self._experiment_id

    def get_trial_id(self) -> int:
        """Return the id of the trial; 0 in a standalone run."""
        return self._trial_id

    def get_trial_seed(self) -> int:
        """Return the seed of random generators and of the order of the data."""
        if self._trial_seed is None:
            raise InternalException("this context has no trial seed: pytorch.init() creates contexts that have one")
        return self._trial_seed

    def get_hparams(self) -> dict[str, Any]:
        """Return the hyperparameters: the same dict that was given, not a copy."""
        if self._hparams is None:
            raise ValueError("this run has no hyperparameters: pass hparams to init()")
        return self._hparams

    def get_hparam(self, name: str) -> Any:
        """Return one hyperparameter; raise `ValueError` with the known names if it does not exist."""
        hparams = self.get_hparams()
        if name not in hparams:
            raise ValueError(
                f"no hyperparameter is called {name!r}; there are: {', '.join(map(str, hparams)) or 'none'}"
            )
        if name == "global_batch_size":
            logger.warning(
                "global_batch_size was read by get_hparam(): use get_per_slot_batch_size() for loaders, or "
                "get_global_batch_size(), which count the ranks"
            )
        return hparams[name]

    def get_global_batch_size(self) -> int:
        """Return the number of records per batch over all ranks, rounded down to a multiple of the number of ranks."""
        return self.get_per_slot_batch_size() * self.distributed.size

    def get_per_slot_batch_size(self) -> int:
        """Return the number of records per batch of one rank."""
        if self._per_slot_batch_size is None:
            raise ValueError("no batch size: the hyperparameters hold no global_batch_size")
        return self._per_slot_batch_size

    def get_stop_requested(self) -> bool:
        """Return whether training was asked to stop."""
        return self._stop_requested

    def set_stop_requested(self, stop_requested: bool) -> None:
        """Ask training to stop at the next boundary, with a checkpoint."""
        # AssertionError, as in Determined, which some programs expect.
        if not isinstance(stop_requested, bool):
            raise AssertionError(f"set_stop_requested takes a bool, got {stop_requested!r}")
        logger.info("stop requested: %s", stop_requested)
        self._stop_requested = stop_requested

    def get_initial_batch(self) -> int:
        """Return the number of batches trained before this process started.

        A program that calls this skips these batches itself: a loader that is not a `pytorch.DataLoader` is then not
        fast-forwarded.
        """
        self._initial_batch_asked = True
        return self._steps_completed

    def get_tensorboard_path(self) -> Path:
        """Return the directory in which this run's TensorBoard event files are written."""
        if self._tensorboard_path is None:
            raise InternalException("this context belongs to no run, so it has no TensorBoard directory")
        return self._tensorboard_path


class LegacyTrial:
    """Base of all trial classes."""

    trial_context_class: ClassVar[type[TrialContext] | None] = None
    trial_controller_class: ClassVar[type[Any] | None] = None

    def __init__(self, context: TrialContext) -> None:
        self.context = context


def _has_gpu() -> bool:
    """Return whether torch sees a GPU; False if the program has not imported torch."""
    # Importing torch here would take seconds in programs that do not use it.
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_available())


def per_slot_batch_size(global_batch_size: Any, ranks: int) -> int | None:
    """Return each rank's share of the global batch size; None if that is missing or 0."""
    if isinstance(global_batch_size, bool) or not isinstance(global_batch_size, (int, type(None))):
        raise InvalidExperimentException(
            f"the hyperparameter global_batch_size must be a whole number, got {global_batch_size!r} "
            f"({type(global_batch_size).__name__})"
        )
    if not global_batch_size:
        return None
    if global_batch_size < ranks:
        raise InvalidExperimentException(
            f"the hyperparameter global_batch_size is {global_batch_size}: too small for {ranks} "
            f"{'rank' if ranks == 1 else 'ranks'}, each needs at least one record of a batch"
        )
    share = global_batch_size // ranks
    if share * ranks != global_batch_size:
        logger.warning(
            "global_batch_size %d cannot be shared evenly by %d ranks: %d records each, %d in all",
            global_batch_size,
            ranks,
            share,
            share * ranks,
        )
    return share
