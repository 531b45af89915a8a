"""`Checkpointer`: save the complete state of a training run, in the background if it is large."""

from __future__ import annotations

import functools
import io
import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

import determined
from determined import core, paths
from determined.checkpoint_storage import files
from determined.core.checkpoints.forked_work import CannotFork, can_fork
from determined.core.checkpoints.upload import CheckpointUpload, saying_not_saved
from determined.core.ranks.agreement import in_step
from determined.pytorch.callbacks import Callbacks
from determined.pytorch.checkpoint import format as checkpoint_format
from determined.pytorch.checkpoint import pickled_state, random_generators, trial_description, unwrapped_parameters
from determined.pytorch.checkpoint.directory import STATE_FILE
from determined.pytorch.checkpoint.fork_snapshot import snapshot
from determined.pytorch.checkpoint.trial_states import EncodedState, TrialStates
from determined.pytorch.context import PyTorchTrialContext
from determined.pytorch.data.trial_loaders import TrainingData
from determined.pytorch.metrics.report_window import ReportWindow
from determined.pytorch.state import LoopState
from determined.user_code.copy import CODE, copy_code

logger = logging.getLogger("determined.pytorch")

T = TypeVar("T")

# Checkpoints up to this size are written in the training process: writing 1 MiB takes hardly longer than a fork, and
# the checkpoint is complete before the next batch, so a kill loses no more than the batches trained after it.
SMALL = 2**20

# These hooks run on the training thread before the next batch, while weights and counters are still those that were
# saved. A checkpoint is therefore not written in the background if a callback overrides one of them.
_HOOKS_WITH_DIRECTORY = ("on_checkpoint_end", "on_checkpoint_write_end")
_HOOKS_WHEN_WRITTEN = (*_HOOKS_WITH_DIRECTORY, "on_checkpoint_upload_end")


class Checkpointer:
    """Saves the state of a trial in the checkpoint storage of its run.

    All ranks call its methods; only the chief writes files. Large checkpoints are written in the background by a forked
    child, which sees the state as it was at the fork while training continues.
    """

    def __init__(
        self,
        core_context: core.Context,
        context: PyTorchTrialContext,
        callbacks: Callbacks,
        description: dict[str, Any],
        data: TrainingData,
        states: TrialStates,
    ) -> None:
        self._core = core_context
        self._context = context
        self._callbacks = callbacks
        self._description = description
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
        # A gather, because every rank has its own part of the state, and only the chief writes.
        ranks = distributed.gather((self._rank_parts(state, window), wait or self._has_write_hooks()))

        def chief() -> str | None:
            if ranks is None:
                return None
            # One at a time: checkpoints are recorded in their order, and the memory of forks does not add up.
            self._finish_storing()
            position = self._data.position(state.batches_trained)
            # A copy: the counters of the loop change only after the checkpoint has succeeded on all ranks.
            saved = replace(state, last_ckpt=state.batches_trained, data=position.as_dict())
            return self._save(saved, [parts for parts, _ in ranks], wait=any(waits for _, waits in ranks))

        checkpoint_id = str(self._on_all_ranks(chief)[0])
        # On every rank, so that no rank saves this batch a second time on its own.
        state.last_ckpt = state.batches_trained
        self.latest = checkpoint_id
        self._callbacks.call("on_checkpoint_upload_end", uuid=checkpoint_id)

    @property
    def failed(self) -> bool:
        """Whether the checkpoint in progress has failed (on the chief); `finish` raises the reason."""
        return self._storing is not None and self._storing.failure is not None

    def newly_stored(self) -> list[tuple[int, str]]:
        """Return (batch, id) of the checkpoints completed since the previous call (on the chief)."""
        # Only the chief has an upload; a failed one is left to `report`, which raises on all ranks.
        if self._storing is not None and self._storing.done and not self.failed:
            self._finish_storing()
        stored, self._stored = self._stored, []
        return stored

    def finish(self) -> None:
        """Wait until all checkpoints are stored. All ranks must call it; a failure is raised on every rank."""
        self._on_all_ranks(self._finish_storing)

    def close(self) -> None:
        """Wait for the checkpoint in progress on this rank alone, when training ends with an error.

        Unlike `finish` it is not a collective: after an error the other ranks may not reach it.
        """
        self._finish_storing()

    def give_up(self) -> None:
        """Abort the checkpoint in progress, if any, and delete its files."""
        if self._storing is not None:
            self._storing.give_up()
            self._storing = None

    def _on_all_ranks(self, action: Callable[[], T]) -> list[T]:
        """Run `action` on every rank and return all results; a failure on one rank is raised on all of them."""
        distributed = self._context.distributed
        return in_step(distributed.allgather, distributed.rank, action, doing="saving a checkpoint")

    def _finish_storing(self) -> None:
        """Wait for the checkpoint in progress, if any, and note that it is stored; raise if it failed."""
        if self._storing is None:
            return
        try:
            self._storing.wait()
        except Exception:
            # Cleared, so that the failure is raised once and `close` does not wait for the same upload again.
            self._storing = None
            raise
        self._stored.append((self._storing.steps_completed, self._storing.checkpoint_id))
        self.has_stored = True
        self._storing = None

    def _has_write_hooks(self) -> bool:
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
        # The key of older releases. A rank that did not exist when the checkpoint was saved starts from it.
        checkpoint = {**self._states.take(), "rng_state": ranks[0]["rank_rng_states"]}
        outside = unwrapped_parameters.take(self._context.models, self._context.optimizers)
        if any(outside):
            checkpoint[unwrapped_parameters.KEY] = outside
        for name in ranks[0]:
            # All ranks or none: a restored list has one entry per rank,
            # and one rank may have metrics that cannot be stored.
            if all(name in rank for rank in ranks):
                checkpoint[name] = [rank[name] for rank in ranks]
        # Before encoding, so that values that callbacks add are encoded, counted and checked like all others.
        self._callbacks.call("on_checkpoint_save_start", checkpoint)
        counters = {**state.state_dict(), "trial_seed": self._context.get_trial_seed()}
        encoded = self._states.encode(checkpoint)
        metadata.update(encoded.metadata())
        # `wait` includes the last checkpoint: the process exits after it, so nothing would overlap with the write.
        if not wait and self._in_background and encoded.size > SMALL:
            kept = encoded._replace(tree=snapshot(encoded.tree))
            _import_writing_modules()
            try:
                self._storing = self._core.checkpoint._begin_storing(
                    lambda directory: self._write(directory, kept, counters), metadata
                )
                encoded.log_problems(self._storing.checkpoint_id)
                return self._storing.checkpoint_id
            except CannotFork as error:
                logger.warning("checkpoints are written while training waits: %s", error)
                # Not tried again at each checkpoint: a limit on memory or
                # processes that refuses a fork will refuse the next one.
                self._in_background = False
        with self._core.checkpoint.store_path(metadata, with_manifest=True) as (directory, checkpoint_id):
            with saying_not_saved(checkpoint_id):
                self._write(directory, encoded, counters)
            encoded.log_problems(checkpoint_id)
            # Inside the block: the manifest is written when it ends, so files that callbacks add are in it.
            self._callbacks.call("on_checkpoint_end", str(directory))
            self._callbacks.call("on_checkpoint_write_end", str(directory))
        self._stored.append((state.batches_trained, checkpoint_id))
        self.has_stored = True
        return checkpoint_id

    def _write(self, directory: Path, state: EncodedState, counters: dict[str, Any]) -> dict[str, str]:
        """Write all files of a checkpoint and return the SHA-256 of the large one by file name.

        This usually runs in a forked child, so it must not change objects of the training process or take locks that
        another thread could have held at the fork.
        """
        self._copy_code(directory / CODE)
        digest = checkpoint_format.write(state.tree, directory / "state_dict.pth")
        if state.pickles:
            pickled_state.write(state.pickles, directory)
        # The JSON files are small; the manifest hashes them, and only the large file is hashed while it is written.
        _write_json(directory / STATE_FILE, counters)
        _write_json(directory / trial_description.FILE, self._description)
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
            if self._context._code_dir is not None:
                roots = self._core.checkpoint._local_roots()
                not_code = [self._core.run_dir, *roots, *paths.store_files(), paths.data_dir()]
                copy_code(self._context._code_dir, taking, not_code)
            # Checkpoints share these files through hard links, so a write to one would change all of them.
            files.make_read_only(taking, private=paths.are_private(self._core.checkpoint._local_roots()))
            taking.rename(taken)
        # A callback that gets the directory may change its files, which must not change those of other checkpoints.
        shared = not any(map(self._callbacks.overrides, _HOOKS_WITH_DIRECTORY))
        if files.copy_tree(taken, target, link=shared):
            files.flush_once(taken)


@functools.cache
def _import_writing_modules() -> None:
    """Import modules that writing a checkpoint loads at first use.

    A forked child must not import: if another thread held the import lock at the fork, the child would wait for ever.
    """
    import pathspec  # noqa: F401

    torch.save({"tensor": torch.zeros(1)}, io.BytesIO())


def _write_json(file: Path, value: Any) -> None:
    """Write a value to a file as indented JSON, for people who look into a checkpoint."""
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
