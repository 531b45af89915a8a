"""Find, open and check the directory of a checkpoint, and read the counters in it."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from determined import core
from determined.checkpoint_storage import manifest
from determined.core.ranks.agreement import in_step
from determined.errors import CheckpointNotFound, InvalidCheckpointException
from determined.pytorch.checkpoint import format as checkpoint_format

STATE_FILE = "trial_state.json"


def is_path(name: str | os.PathLike[str]) -> bool:
    """Return whether `name` is an explicit path, and not the id of a checkpoint."""
    # An id can never contain a separator, so a name that has one is a path that the user chose.
    return isinstance(name, os.PathLike) or os.sep in name


def directory_at(path: str | os.PathLike[str]) -> Path:
    """Return the checkpoint directory at a path given by the user; raise CheckpointNotFound if it does not exist."""
    try:
        found, reason = Path(path).is_dir(), "there is no such directory"
    except (ValueError, OSError) as error:  # the path contains a NUL or is too long
        found, reason = False, getattr(error, "strerror", None) or str(error)
    if not found:
        raise CheckpointNotFound(f"no checkpoint at {os.fspath(path)!r:.200}: {reason}")
    return Path(path)


def check_files(directory: Path, name: str, *, read_them: bool = True) -> None:
    """Raise if files of a checkpoint are missing or damaged, before anything is loaded.

    Checkpoints of earlier releases have no manifest and are not checked. With `read_them` false the contents were
    verified already, and only a missing manifest is reported.
    """
    # A checkpoint with counters but without a manifest is one of ours that lost its manifest, which `verify` reports.
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
    if not is_path(name):
        with core_context.checkpoint.restore_path(str(name)) as directory:
            check_files(directory, str(name), read_them=False)  # they were read when it was opened
            yield directory
        return
    ranks = core_context.distributed

    def find() -> Path:
        """Return the directory on this rank; one rank of each node reads the files to check them."""
        path = directory_at(name)
        check_files(path, str(path), read_them=ranks.local_rank == 0)
        return path

    yield in_step(ranks.allgather, ranks.rank, find, doing=f"opening the checkpoint at {os.fspath(name)!r}")[ranks.rank]


def read_json_object(file: Path, name: str) -> dict[str, Any]:
    """Return the JSON object in a file of the checkpoint `name`; raise InvalidCheckpointException if there is none."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InvalidCheckpointException(f"checkpoint {name} cannot be read: {file.name}: {error}") from error
    if not isinstance(stored, dict):
        raise InvalidCheckpointException(f"checkpoint {name} cannot be read: {file.name} holds no object")
    return stored


def read_state(directory: Path, name: str) -> dict[str, Any] | None:
    """Return the counters stored in a checkpoint of any release, or None if the release stored none."""
    if (directory / STATE_FILE).is_file():
        return _with_checked_counters(read_json_object(directory / STATE_FILE, name), STATE_FILE, name)
    # Releases from 0.21 on, and those of 0.17 to 0.20, pickled a plain dict of counters under these names.
    for old in ("trial_state.pkl", "workload_sequencer.pkl"):
        if (directory / old).is_file():
            return _with_checked_counters(_read_plain_pickle(directory / old, name), old, name)
    return None


def _with_checked_counters(stored: dict[str, Any], file: str, name: str) -> dict[str, Any]:
    """Return `stored` if its counters are non-negative integers, else raise InvalidCheckpointException."""
    # The counters select batches and steps: a wrong type would only fail deep inside the loop.
    for counter in ("batches_trained", "steps_completed", "latest_batch", "last_ckpt", "last_val", "step_id"):
        value = stored.get(counter, 0)
        # bool is a subclass of int, but no counter is ever stored as one.
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidCheckpointException(
                f"checkpoint {name} cannot be read: {file}: {counter} is {value!r:.80}, and not a count"
            )
    return stored


class _NoCode(pickle.Unpickler):
    """An unpickler for numbers, strings and containers that rejects any reference to a class or function."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse every reference to a class or function: loading one would run code."""
        raise pickle.UnpicklingError(f"it refers to {module}.{name}")


def _read_plain_pickle(file: Path, name: str) -> dict[str, Any]:
    """Return the dict of numbers in a pickled state file of an old release."""
    try:
        with open(file, "rb") as opened:
            state = _NoCode(opened).load()
    except Exception as error:  # a damaged pickle can raise any exception
        raise InvalidCheckpointException(
            f"checkpoint {name} cannot be read: {file.name}: {checkpoint_format.first_line(error)}"
        ) from error
    if not isinstance(state, dict):
        raise InvalidCheckpointException(f"checkpoint {name} cannot be read: {file.name} holds no dict")
    return state
