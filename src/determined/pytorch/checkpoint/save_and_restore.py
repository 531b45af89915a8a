"""Save and restore the complete state of a training run: `Checkpointer`, and functions that read checkpoint files."""

from __future__ import annotations

import functools
import io
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

import determined
from determined import core, paths
from determined.checkpoint_storage import files, manifest
from determined.code_copy import CODE, copy_code
from determined.core.checkpoints.forked_work import CannotFork, can_fork
from determined.core.checkpoints.upload import CheckpointUpload, saying_not_saved
from determined.core.ranks.agreement import in_step
from determined.core.supervision.run_identity import NAME_VARIABLE
from determined.errors import InvalidCheckpointException
from determined.pytorch.callbacks import Callbacks
from determined.pytorch.checkpoint import format as checkpoint_format
from determined.pytorch.checkpoint import legacy, pickled_state, random_generators, unwrapped_parameters
from determined.pytorch.checkpoint.fork_snapshot import snapshot
from determined.pytorch.checkpoint.optimizer_state import load_optimizer_state
from determined.pytorch.checkpoint.trial_states import EncodedState, TrialStates
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.data.trial_loaders import TrainingData
from determined.pytorch.metrics.report_window import ReportWindow
from determined.pytorch.optimization.steps import clear_gradients
from determined.pytorch.ranks.data_parallel import bare
from determined.pytorch.state import LoopState

logger = logging.getLogger("determined.pytorch")

T = TypeVar("T")

STATE_FILE = "trial_state.json"

# Checkpoints up to this size are written in the training process: writing 1 MiB takes hardly longer than a fork, and
# the checkpoint is complete before the next batch, so a kill loses no more than the batches trained after it.
SMALL = 2**20

# These hooks run on the training thread before the next batch, while weights and counters are still those that were
# saved. A checkpoint is therefore not written in the background if a callback overrides one of them.
_HOOKS_WITH_DIRECTORY = ("on_checkpoint_end", "on_checkpoint_write_end")
_HOOKS_WHEN_WRITTEN = (*_HOOKS_WITH_DIRECTORY, "on_checkpoint_upload_end")


class Checkpointer:
    """Saves and restores a trial through the checkpoint storage of the run.

    All ranks call its methods; only the chief writes files. Large checkpoints are written in the background by a forked
    child, which sees the state as it was at the fork while training continues.
    """

    def __init__(
        self,
        core_context: core.Context,
        context: PyTorchTrialContext,
        callbacks: Callbacks,
        load_data: dict[str, Any],
        code_dir: Path | None,
        data: TrainingData,
        states: TrialStates,
    ) -> None:
        self._core = core_context
        self._context = context
        self._callbacks = callbacks
        self._load_data = load_data
        self._code_dir = code_dir
        self._data = data
        self._states = states
        self._in_background = can_fork()
        self._storing: CheckpointUpload | None = None
        self._stored: list[tuple[int, str]] = []
        self.has_stored = False  # whether any checkpoint was completed
        self.latest: str | None = None  # id of the last checkpoint that this object saved

    def check(self) -> None:
        """Raise if the state of the trial cannot be saved, before it trains. All ranks must call it.

        Only the chief checks, because only the chief saves these states. The states of data loaders are not read: many
        loaders draw random numbers in `state_dict()`, which would change the order of the data.
        """
        ranks = self._context.distributed

        def check() -> None:
            if ranks.rank == 0:
                self._states.check()

        in_step(ranks.allgather, ranks.rank, check, doing="checking what checkpoints will hold")

    def save(self, state: LoopState, window: ReportWindow, *, wait: bool) -> None:
        """Save the current state as a new checkpoint. All ranks must call it.

        The chief writes the files in the background, unless the checkpoint is small, `wait` is set on any rank, or a
        callback has a hook that must see the written files.
        """
        distributed = self._context.distributed
        ranks = distributed.gather((self._rank_parts(state, window), wait or self._hooks_wait()))

        def chief() -> str | None:
            if ranks is None:
                return None
            self._settle()  # only one checkpoint may be in progress at a time
            position = self._data.position(state.batches_trained)
            saved = replace(state, last_ckpt=state.batches_trained, data=position.as_dict())
            return self._save(saved, [parts for parts, _ in ranks], wait=any(waits for _, waits in ranks))

        uuid = str(self._together(chief)[0])
        state.last_ckpt = state.batches_trained
        self.latest = uuid
        self._callbacks.call("on_checkpoint_upload_end", uuid=uuid)

    @property
    def failed(self) -> bool:
        """Whether the checkpoint in progress has failed (on the chief); `finish` raises the reason."""
        return self._storing is not None and self._storing.failure is not None

    def newly_stored(self) -> list[tuple[int, str]]:
        """Return (batch, id) of the checkpoints completed since the previous call (on the chief)."""
        if self._storing is not None and self._storing.done and not self.failed:
            self._settle()
        stored, self._stored = self._stored, []
        return stored

    def finish(self) -> None:
        """Wait until all checkpoints are stored. All ranks must call it; a failure is raised on every rank."""
        self._together(self._settle)

    def close(self) -> None:
        """Wait for the checkpoint in progress on this rank alone, when training ends with an error.

        Unlike `finish` it is not a collective: after an error the other ranks may not reach it.
        """
        self._settle()

    def give_up(self) -> None:
        """Abort the checkpoint in progress, if any, and delete its files."""
        if self._storing is not None:
            self._storing.give_up()
            self._storing = None

    def _together(self, action: Callable[[], T]) -> list[T]:
        """Run `action` on every rank and return all results; a failure on one rank is raised on all of them."""
        distributed = self._context.distributed
        return in_step(distributed.allgather, distributed.rank, action, doing="saving a checkpoint")

    def _settle(self) -> None:
        """Wait for the checkpoint in progress, if any, and note that it is stored; raise if it failed."""
        if self._storing is None:
            return
        try:
            self._storing.wait()
        except Exception:
            self._storing = None
            raise
        self._stored.append((self._storing.steps_completed, self._storing.storage_id))
        self.has_stored = True
        self._storing = None

    def _hooks_wait(self) -> bool:
        """Return whether a callback has a hook that must run when the checkpoint is written."""
        return any(map(self._callbacks.overrides, _HOOKS_WHEN_WRITTEN))

    def _rank_parts(self, state: LoopState, window: ReportWindow) -> dict[str, Any]:
        """Return the state that differs between ranks, one entry per kind; entries that are None are left out."""
        parts = {
            "rank_rng_states": random_generators.get_state(self._context.device),
            "rank_gradients": self._context._optimization.gradients_waiting(),
            "rank_windows": window.state_dict(),
            "rank_data": self._data.state_dict(state.batches_trained),
        }
        return {name: part for name, part in parts.items() if part is not None}

    def _save(self, state: LoopState, ranks: list[dict[str, Any]], *, wait: bool) -> str:
        """Save a checkpoint from the parts of all ranks, in the background if possible, and return its id."""
        metadata: dict[str, Any] = {
            "determined_version": determined.__version__,
            "steps_completed": state.batches_trained,
            "framework": f"torch-{torch.__version__}",
            "format": "pickle",
        }
        checkpoint = {**self._states.take(), "rng_state": ranks[0]["rank_rng_states"]}
        outside = unwrapped_parameters.take(self._context.models, self._context.optimizers)
        if any(outside):
            checkpoint[unwrapped_parameters.KEY] = outside
        for name in ranks[0]:
            if all(name in rank for rank in ranks):
                checkpoint[name] = [rank[name] for rank in ranks]
        self._callbacks.call("on_checkpoint_save_start", checkpoint)
        counters = {**state.state_dict(), "trial_seed": self._context.get_trial_seed()}
        encoded = self._states.encode(checkpoint)
        metadata.update(encoded.metadata())
        if not wait and self._in_background and encoded.size > SMALL:
            kept = encoded._replace(tree=snapshot(encoded.tree))
            _load_what_writing_needs()
            try:
                self._storing = self._core.checkpoint.begin_storing(
                    lambda directory: self._write(directory, kept, counters), metadata
                )
                encoded.tell(self._storing.storage_id)
                return self._storing.storage_id
            except CannotFork as error:
                logger.warning("checkpoints are written while training waits: %s", error)
                self._in_background = False
        with self._core.checkpoint.store_path(metadata, with_manifest=True) as (directory, uuid):
            with saying_not_saved(uuid):
                self._write(directory, encoded, counters)
            encoded.tell(uuid)
            self._callbacks.call("on_checkpoint_end", str(directory))
            self._callbacks.call("on_checkpoint_write_end", str(directory))
        self._stored.append((state.batches_trained, uuid))
        self.has_stored = True
        return uuid

    def _write(self, directory: Path, state: EncodedState, counters: dict[str, Any]) -> dict[str, str]:
        """Write all files of a checkpoint and return the SHA-256 of the large one by file name.

        This usually runs in a forked child, so it must not change objects of the training process or take locks that
        another thread could have held at the fork.
        """
        self._copy_code(directory / CODE)
        digest = checkpoint_format.write(state.tree, directory / "state_dict.pth")
        if state.pickles:
            pickled_state.write(state.pickles, directory)
        _write_json(directory / STATE_FILE, counters)
        _write_json(directory / "load_data.json", self._load_data)
        return {"state_dict.pth": digest}

    def _copy_code(self, target: Path) -> None:
        """Put the code of the run into a checkpoint directory.

        A standalone run copied its code when it started. Other runs copy it here, at their first checkpoint.
        """
        taken = self._core.run_dir / CODE
        if not taken.exists():
            # In this order: the marker of a flush must not vouch for a new copy, and the rename at the end means that
            # a copy under the final name is complete, even if an earlier attempt was interrupted.
            files.forget_flush(taken)
            taking = self._core.run_dir / ".code"
            shutil.rmtree(taking, ignore_errors=True)  # left by an interrupted attempt
            taking.mkdir()
            if self._code_dir is not None:
                roots = self._core.checkpoint.local_roots()
                not_code = [self._core.run_dir, *roots, *paths.store_files(), paths.data_dir()]
                copy_code(self._code_dir, taking, not_code)
            # Checkpoints share these files through hard links, so a write to one would change all of them.
            files.make_read_only(taking, private=paths.are_private(self._core.checkpoint.local_roots()))
            taking.rename(taken)
        # A callback that gets the directory may change its files, which must not change those of other checkpoints.
        shared = not any(map(self._callbacks.overrides, _HOOKS_WITH_DIRECTORY))
        if files.copy_tree(taken, target, link=shared):
            files.flush_once(taken)

    def restore(self, directory: Path, name: str, state: LoopState, window: ReportWindow) -> None:
        """Restore weights, optimizers, schedulers, callbacks and random generators from an opened checkpoint.

        `state` holds the counters already restored; with 0 batches trained this is a warm start from another trial,
        which takes neither gradients, metrics nor the position in the data. `name` is used in messages.
        """
        context = self._context
        checkpoint = self._states.decode(checkpoint_format.read(directory, name), directory, name)
        self._callbacks.call("on_checkpoint_load_start", checkpoint)
        checkpoint = legacy.modernise(
            checkpoint, len(context.models), len(context.optimizers), len(context.lr_schedulers)
        )
        for model, stored in _pairs(context.models, checkpoint, "models_state_dict", name):
            with _saying_not_taken("a model", name):
                legacy.load_weights(bare(model), stored)
        for optimizer, stored in _pairs(context.optimizers, checkpoint, "optimizers_state_dict", name):
            with _saying_not_taken("an optimizer", name):
                load_optimizer_state(optimizer, stored)
        outside = checkpoint.get(unwrapped_parameters.KEY)
        unwrapped_parameters.put_back(outside, context.models, context.optimizers, name)
        for scheduler, stored in _pairs(context.lr_schedulers, checkpoint, "lr_schedulers_state_dict", name):
            scheduler.load_state_dict(stored)
        self._restore_scaler(checkpoint, name)
        self._restore_generators(checkpoint, name)
        self._restore_gradients(checkpoint, state)
        self._restore_window(checkpoint, state, window)
        if state.batches_trained and checkpoint.get("rank_data"):
            self._data.load_state_dicts(checkpoint["rank_data"])
        callbacks = checkpoint.get("callbacks") or {}
        if not isinstance(callbacks, dict):
            kind = type(callbacks).__name__
            raise InvalidCheckpointException(f"checkpoint {name} holds a {kind} in 'callbacks', not a dict")
        self._callbacks.load_state_dict(callbacks)

    def _restore_window(self, checkpoint: dict[str, Any], state: LoopState, window: ReportWindow) -> None:
        """Restore the metrics since the last report, unless the number of ranks has changed."""
        windows = checkpoint.get("rank_windows")
        if windows is None or not state.batches_trained:
            return
        if len(windows) != self._context.distributed.size:
            logger.warning("the next report will miss batches before the restart: other ranks have their metrics")
            return
        if windows[self._context.distributed.rank] is not None:
            window.load_state_dict(windows[self._context.distributed.rank])

    def _restore_scaler(self, checkpoint: dict[str, Any], name: str) -> None:
        """Restore the gradient scaler, and warn if only the trial or only the checkpoint has one."""
        scaler = self._context._precision.scaler
        stored = checkpoint.get("scaler_state_dict")
        if scaler is not None and stored:
            scaler.load_state_dict(stored)
        elif scaler is not None and scaler.is_enabled():
            logger.warning("checkpoint %s holds no state for the gradient scaler; it starts afresh", name)
        elif stored:
            logger.warning("checkpoint %s holds the state of a gradient scaler, and the trial wrapped none", name)

    def _restore_generators(self, checkpoint: dict[str, Any], name: str) -> None:
        """Restore this rank's random generators; a rank that did not exist gets the chief's."""
        rank = self._context.distributed.rank
        states = checkpoint.get("rank_rng_states") or []
        if not isinstance(states, list):
            kind = type(states).__name__
            raise InvalidCheckpointException(f"checkpoint {name} holds a {kind} in 'rank_rng_states', not a list")
        state = states[rank] if rank < len(states) else checkpoint.get("rng_state")
        if state is None:
            logger.warning("checkpoint %s holds no state of random generators; they are left as they are", name)
            return
        try:
            random_generators.set_state(state, self._context.device)
        except (TypeError, ValueError, LookupError, AttributeError, RuntimeError) as error:
            raise InvalidCheckpointException(
                f"checkpoint {name} holds a state of random generators that they do not take: {error}"
            ) from error

    def _restore_gradients(self, checkpoint: dict[str, Any], state: LoopState) -> None:
        """Restore the gradients accumulated in an unfinished aggregation window.

        If the number of ranks changed, every rank gets the mean over the saved ranks.
        """
        for optimizer in self._context.optimizers:
            clear_gradients(optimizer)  # an earlier fit in this process may have left some
        ranks: list[Any] = checkpoint.get("rank_gradients") or []
        if not ranks or not state.batches_trained:  # none were waiting, or a warm start
            return
        distributed = self._context.distributed
        mine = ranks[distributed.rank] if len(ranks) == distributed.size else _mean_of_ranks(ranks)
        self._context._optimization.put_gradients_back(mine, state.batches_trained)


@functools.cache
def _load_what_writing_needs() -> None:
    """Import modules that writing a checkpoint loads at first use.

    A forked child must not import: if another thread held the import lock at the fork, the child would wait for ever.
    """
    import pathspec  # noqa: F401

    torch.save({"tensor": torch.zeros(1)}, io.BytesIO())


def _mean_of_ranks(ranks: list[Any]) -> list[list[torch.Tensor | None]]:
    """Return the mean over ranks of each accumulated gradient."""
    return [
        [None if parts[0] is None else torch.stack(parts).mean(dim=0) for parts in zip(*optimizers, strict=True)]
        for optimizers in zip(*ranks, strict=True)
    ]


def _pairs(objects: list[Any], checkpoint: dict[str, Any], key: str, name: str) -> Iterator[tuple[Any, Any]]:
    """Yield each object with its stored state; raise if their numbers differ."""
    stored = checkpoint.get(key) or []
    if not isinstance(stored, list):
        raise InvalidCheckpointException(f"checkpoint {name} holds a {type(stored).__name__} in {key!r}, not a list")
    if len(stored) != len(objects):
        raise RuntimeError(
            f"checkpoint {name} holds {len(stored)} states in {key!r}, and the trial wrapped {len(objects)}: "
            "it was saved by another trial"
        )
    yield from zip(objects, stored, strict=True)


@contextmanager
def _saying_not_taken(what: str, name: str) -> Iterator[None]:
    """Name the checkpoint in errors about a state that does not fit the trial.

    A RuntimeError of torch about shapes gets a note on what to do; wrong types become InvalidCheckpointException.
    """
    try:
        yield
    except RuntimeError as error:
        error.add_note(
            f"Checkpoint {name} does not fit {what} of the trial: use the code and the hyperparameters that it was "
            "saved with, or train from the beginning: give the run another name (name= in init(), or "
            f"{NAME_VARIABLE}), or call fit() without latest_checkpoint."
        )
        raise
    except (TypeError, LookupError, AttributeError) as error:
        raise InvalidCheckpointException(
            f"checkpoint {name} holds a state that {what} of the trial does not take: {type(error).__name__}: {error}"
        ) from error


def _write_json(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def check_files(directory: Path, name: str, *, read_them: bool = True) -> None:
    """Raise if files of a checkpoint are missing or damaged, before anything is loaded.

    Checkpoints of earlier releases have no manifest and are not checked. With `read_them` false the contents were
    verified already, and only a missing manifest is reported.
    """
    if not manifest.exists(directory) and not (directory / STATE_FILE).exists():
        return
    if read_them or not manifest.exists(directory):
        manifest.verify(directory, name)


@contextmanager
def opened(core_context: core.Context, name: Any) -> Iterator[Path]:
    """Yield the directory of a checkpoint, given by its id or by an explicit path. All ranks must call it.

    A checkpoint given by id may be downloaded for the duration of the block.
    """
    if not isinstance(name, (str, os.PathLike)):
        raise TypeError(f"latest_checkpoint is the id of a checkpoint or a path, got {name!r}")
    if not checkpoint_format.is_path(name):
        with core_context.checkpoint.restore_path(str(name)) as directory:
            check_files(directory, str(name), read_them=False)  # they were read when it was opened
            yield directory
        return
    ranks = core_context.distributed

    def find() -> Path:
        path = checkpoint_format.directory_at(name)
        check_files(path, str(path), read_them=ranks.local_rank == 0)
        return path

    yield in_step(ranks.allgather, ranks.rank, find, doing=f"opening the checkpoint at {os.fspath(name)!r}")[ranks.rank]


def read_state(directory: Path, name: str) -> dict[str, Any] | None:
    """Return the counters stored in a checkpoint of any release, or None if the release stored none."""
    if (directory / STATE_FILE).is_file():
        try:
            stored = json.loads((directory / STATE_FILE).read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            raise InvalidCheckpointException(f"checkpoint {name} cannot be read: {STATE_FILE}: {error}") from error
        if not isinstance(stored, dict):
            raise InvalidCheckpointException(f"checkpoint {name} cannot be read: {STATE_FILE} holds no object")
        return _with_checked_counters(stored, STATE_FILE, name)
    for old in ("trial_state.pkl", "workload_sequencer.pkl"):
        if (directory / old).is_file():
            return _with_checked_counters(checkpoint_format.read_plain_pickle(directory / old, name), old, name)
    return None


def _with_checked_counters(stored: dict[str, Any], file: str, name: str) -> dict[str, Any]:
    """Return `stored` if its counters are non-negative integers, else raise InvalidCheckpointException."""
    for counter in ("batches_trained", "steps_completed", "latest_batch", "last_ckpt", "last_val", "step_id"):
        value = stored.get(counter, 0)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidCheckpointException(
                f"checkpoint {name} cannot be read: {file}: {counter} is {value!r:.80}, and not a count"
            )
    return stored
