"""`pytorch.init()`: open a run and return the context for its trial."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from determined import core, paths
from determined.core.initialize import open_run
from determined.core.jsonable import as_text, to_jsonable
from determined.core.ranks.agreement import in_step
from determined.core.supervision.unclosed_runs import end_earlier_runs
from determined.info import ClusterInfo, from_env
from determined.pytorch.checkpoint import random_generators
from determined.pytorch.context import PyTorchTrialContext, RunParts
from determined.pytorch.display import progress
from determined.pytorch.ranks import process_group
from determined.pytorch.run import startup_collections
from determined.pytorch.run.open_run import OpenRun
from determined.tensorboard import directory as tensorboard_directory
from determined.trial import TrialFacts
from determined.user_code.copy import CODE
from determined.user_code.imports import refuse_while_importing
from determined.user_code.program import Program, this_program
from determined.user_code.root import code_root
from determined.user_code.snapshot import take_snapshot

logger = logging.getLogger("determined.pytorch")


def init(
    *,
    hparams: dict[str, Any] | None = None,
    exp_conf: dict[str, Any] | None = None,
    distributed: core.DistributedContext | None = None,
    aggregation_frequency: int = 1,
    enable_tensorboard_logging: bool = True,
    checkpoint_storage: str | dict[str, Any] | None = None,
    seed: int | None = None,
    seed_per_rank: bool = False,
    name: str | None = None,
    labels: Sequence[str] | None = None,
    notes: str | None = None,
    store_output: bool | None = None,
) -> PyTorchTrialContext:
    """Open a run and return its context: `with pytorch.init(hparams=...) as context:`.

    All training happens inside the block. In a notebook, `context = pytorch.init(...)` opens a run for later cells. It
    ends with `context.close()`, with the kernel, or when the cell runs again and opens a new run.

    Ranks started by torchrun or the launcher of this package find each other automatically. A standalone script stores
    its metrics, TensorBoard files and checkpoints in the user's data directory.

    Args:
        hparams: the hyperparameters; in an experiment, those of the trial are used if this is None.
        exp_conf: the experiment configuration of a standalone run; it must be JSON data.
        distributed: the ranks of this job, if they are neither those of a launcher nor of torch's process group.
        aggregation_frequency: the number of batches whose gradients are accumulated before an optimizer step.
        enable_tensorboard_logging: write metrics as TensorBoard scalars.
        checkpoint_storage: where to store checkpoints, a path or a `checkpoint_storage` block of a configuration.
        seed: seeds Python, numpy and torch. Without it nothing is reseeded, and the order of shuffled data follows from
            the current state of torch's generator: it is the same after the same `torch.manual_seed`. In an experiment
            the seed of the trial is used.
        seed_per_rank: let the random numbers of ranks differ, except for the order of the data.
        name: the name of a standalone run, also set by the environment variable DET_RUN_NAME. It is shown in lists, and
            `latest_checkpoint="latest"` then finds checkpoints of this user's runs with the same name, instead of those
            of the same script on the same host.
        labels: a list of texts that are shown in lists.
        notes: a text that describes the run.
        store_output: store what a standalone run prints as its log (`det trial logs`). On by default; the environment
            variable DET_STORE_OUTPUT=0 turns it off.

    Raises TypeError for arguments of a wrong type.
    """
    return open_context(
        hparams=hparams,
        exp_conf=exp_conf,
        distributed=distributed,
        aggregation_frequency=aggregation_frequency,
        enable_tensorboard_logging=enable_tensorboard_logging,
        checkpoint_storage=checkpoint_storage,
        seed=seed,
        seed_per_rank=seed_per_rank,
        name=name,
        labels=labels,
        notes=notes,
        store_output=store_output,
    )


def open_context(
    *,
    hparams: dict[str, Any] | None = None,
    exp_conf: dict[str, Any] | None = None,
    distributed: core.DistributedContext | None = None,
    aggregation_frequency: int = 1,
    enable_tensorboard_logging: bool = True,
    checkpoint_storage: str | dict[str, Any] | None = None,
    seed: int | None = None,
    seed_per_rank: bool = False,
    name: str | None = None,
    labels: Sequence[str] | None = None,
    notes: str | None = None,
    store_output: bool | None = None,
    program: Program | None = None,
) -> PyTorchTrialContext:
    """Open a run as `init` does; `program` is the program whose code the run keeps, if it is not the main module."""
    refuse_while_importing("pytorch.init()")
    # Arguments are checked before any rank waits for another, so that a mistake is an error at once.
    _check_arguments(hparams, exp_conf, seed)
    progress.is_wanted()  # raises for a wrong value of its variable: here, on all ranks, rather than later on one
    passed, texts = _storable(hparams)
    described = from_env(os.environ)
    # Before anything is opened: a cell that runs again replaces the former run, which may hold the process group.
    end_earlier_runs()
    with ExitStack() as opened:
        ranks = opened.enter_context(process_group.joined(distributed))
        if texts and ranks.rank == 0:
            _warn_of_texts(texts)
        trial_seed = described.trial.trial_seed if described is not None else seed
        if trial_seed is not None:
            # Different seeds per rank only affect the program's
            # random numbers: the order of the data uses `trial_seed`.
            random_generators.seed_everything(trial_seed + (ranks.rank if seed_per_rank else 0))
        else:
            # Each rank would derive a different seed; all must use the same one for the order of the data.
            trial_seed = int(ranks.broadcast(random_generators.seed_from_torch()))
        if described is not None:
            exp_conf = described.trial._config
            # Hyperparameters that the program passes win; the runner warns of the difference.
            hparams = hparams if hparams is not None else described.trial.hparams
        core_context = opened.enter_context(
            open_run(
                distributed=ranks,
                checkpoint_storage=checkpoint_storage,
                tensorboard_mode=core.TensorboardMode.MANUAL,
                name=name,
                labels=labels,
                notes=notes,
                store_output=store_output,
                hparams=passed,
                exp_conf=exp_conf,
                trial_seed=trial_seed,
            )
        )
        # The engine starts a managed trial in the directory of its code.
        code_dir = Path.cwd() if described is not None else _snapshot_code(core_context, program or this_program())
        context = PyTorchTrialContext(
            _facts(core_context, hparams, exp_conf, trial_seed),
            RunParts(core_context, aggregation_frequency, enable_tensorboard_logging, code_dir),
        )
        opened.enter_context(tensorboard_directory.in_use(context.get_tensorboard_path()))
        # Registered after the directory is in use, so it is closed before that ends.
        opened.callback(_close_summary_writer, context)
        if described is None:  # the warm process has frozen its objects before it forked a managed trial
            startup_collections.exempt_present_objects()
            opened.callback(startup_collections.end_exemption)
        # From here the run owns what was opened; an error before this line closes everything.
        context._run = OpenRun(core_context, opened.pop_all())
    return context


def _close_summary_writer(context: PyTorchTrialContext) -> None:
    """Close the SummaryWriter that the program asked for, if it did."""
    if context._summary_writer is not None:
        context._summary_writer.close()


def _snapshot_code(core_context: core.Context, program: Program) -> Path | None:
    """Copy the code of a standalone run for its checkpoints, on the chief; return the directory it was copied from."""
    root, ranks, checkpoint = code_root(program), core_context.distributed, core_context.checkpoint

    def copy() -> None:
        """Copy the code on the chief, without checkpoints and stores that may lie in its directory."""
        if ranks.rank == 0:
            roots = checkpoint._local_roots()
            not_code = [*roots, *paths.store_files(), paths.data_dir()]
            take_snapshot(root, core_context.run_dir / CODE, not_code, private=paths.are_private(roots))

    in_step(ranks.allgather, ranks.rank, copy, doing="copying the code of the program")
    return None if root is None else root.directory


def _facts(
    core_context: core.Context, hparams: dict[str, Any] | None, exp_conf: dict[str, Any] | None, trial_seed: int
) -> TrialFacts:
    """Return the facts about the trial of an open run."""
    info: ClusterInfo = core_context.info
    return TrialFacts(
        core_context.distributed,
        hparams,
        exp_conf,
        trial_seed,
        trial_id=info.trial.trial_id,
        experiment_id=info.trial.experiment_id,
        steps_completed=info.trial._steps_completed,
        tensorboard_path=core_context.train.get_tensorboard_path(),
        belongs_to_run=True,
        info=info,
    )


def _check_arguments(hparams: Any, exp_conf: Any, seed: Any) -> None:
    """Raise TypeError for arguments of a wrong type."""
    for name, value in (("hparams", hparams), ("exp_conf", exp_conf)):
        if value is not None and not isinstance(value, dict):
            raise TypeError(f"init: {name} is a dict or None, got {type(value).__name__}: {value!r:.80}")
    to_jsonable(exp_conf, "exp_conf")  # raises here rather than at the first checkpoint, which stores it
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise TypeError(f"init: seed is a whole number of 0 or more, got {seed!r}")


def _storable(hparams: dict[str, Any] | None) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Return the hyperparameters as stored in records and checkpoints, and those that were converted to text."""
    texts: dict[str, str] = {}

    def note(value: Any, name: str) -> str:
        """Record and return the text for a value that JSON cannot represent."""
        texts[name] = as_text(value)
        return texts[name]

    stored = to_jsonable(hparams, "hparams", otherwise=note)
    return (stored if texts else hparams), texts


def _warn_of_texts(texts: dict[str, str]) -> None:
    """Log which hyperparameters are stored as texts because JSON cannot represent them."""
    logger.warning(
        "training uses these hyperparameters as they are, and records and checkpoints hold them as texts: %s",
        ", ".join(f"{name} as {text!r:.200}" for name, text in texts.items()),
    )
