"""Delete experiments and checkpoints, with rows and files. What is registered or in use is never deleted.

Rows are marked first, so that nothing starts to use what is about to be deleted; then files are deleted, then rows.
After an interruption the same call completes the deletion.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from determined import paths
from determined.checkpoint_storage.base import CheckpointStorage, Selector
from determined.checkpoint_storage.unrecorded import examine
from determined.errors import CheckpointNotFound, InvalidExperimentException
from determined.experiment.checkpoints.storage_lookup import storage_of
from determined.experiment.files import experiment_dir
from determined.names import is_name
from determined.store.experiment_records import Experiment, Lease
from determined.store.heartbeats import is_active
from determined.store.process import this_process
from determined.store.records import StoredCheckpoint
from determined.store.standalone_runs import is_finished_or_interrupted
from determined.store.store import Store
from determined.store.workers.local_worker_store import LocalWorkerStore
from determined.store.workers.unrecorded import recover_unrecorded

logger = logging.getLogger("determined.experiment")

_SHORT_WATCH = 3.0  # the heartbeat of a live runner is about once a second


@dataclass(frozen=True)
class Deleted:
    """The result of a deletion."""

    checkpoints: tuple[str, ...]
    directories: tuple[Path, ...]
    left: tuple[str, ...]  # checkpoints and directories of other stores or machines, which were kept
    outputs: tuple[str, ...]


def delete_experiment(store: Store, experiment_id: int) -> Deleted:
    """Delete an experiment that has ended, or an interrupted standalone run, with all its files and rows.

    Raises `CheckpointInUse` if one of its checkpoints is registered or something starts from it, and `ExperimentHeld`
    if it is running; nothing is deleted then. The files of an imported experiment that belong to another store are
    kept.
    """
    experiment = store.experiments.get(experiment_id)
    if experiment.is_standalone:
        return _delete(store, experiment, None)
    # The lease excludes a runner: it could start from a checkpoint that is being deleted.
    lease = store.experiments.acquire(experiment_id, this_process(), watch_seconds=_SHORT_WATCH)
    try:
        return _delete(store, experiment, lease)
    finally:
        store.experiments.release(lease)


def delete_tensorboard_files(store: Store, experiment_id: int) -> list[Path]:
    """Delete the TensorBoard files of an experiment that is not running; return the deleted directories.

    Raises `ExperimentHeld` or `InvalidExperimentException` if it is running, or if the files belong to another store.
    """
    experiment = store.experiments.get(experiment_id)
    if experiment.borrowed:
        raise InvalidExperimentException(
            f"experiment {experiment_id} was imported, and its TensorBoard files belong to the store that it comes "
            "from: delete them there"
        )
    if experiment.is_standalone:
        _refuse_running(store, experiment_id)
        return _delete_tensorboard_files(store, experiment_id)
    lease = store.experiments.acquire(experiment_id, this_process(), watch_seconds=_SHORT_WATCH)
    try:
        return _delete_tensorboard_files(store, experiment_id)
    finally:
        store.experiments.release(lease)


def _refuse_running(store: Store, experiment_id: int) -> None:
    """Raise InvalidExperimentException if a process of a standalone run is still running."""
    for trial in store.experiments.trials(experiment_id):
        newest = store.attempts(trial.id)[-1]
        if is_active(newest):
            process = newest.process
            raise InvalidExperimentException(
                f"experiment {experiment_id} is running (process {process.pid} on {process.host}): its TensorBoard "
                "files can be deleted once it has ended"
            )


def _delete_tensorboard_files(store: Store, experiment_id: int) -> list[Path]:
    """Delete the TensorBoard files of an experiment and return the deleted directories."""
    run_directories, _ = _run_directories(store, experiment_id)
    found = [path / "tensorboard" for path in run_directories]
    return [path for path in found if _remove_tree(path)]


def delete_checkpoints(store: Store, checkpoint_ids: Sequence[str]) -> None:
    """Delete checkpoints: all of them, or none if one is registered or in use (`CheckpointInUse`).

    For checkpoints that were deleted before, remaining files of an interrupted deletion are deleted.
    """
    rows = [store.upkeep.checkpoint(checkpoint_id) for checkpoint_id in dict.fromkeys(checkpoint_ids)]
    # Opened before anything is marked, because one may be unreachable.
    storages = [_storage(store, row) for row in rows]
    # All in one transaction: either every checkpoint may be deleted or none is marked.
    store.upkeep.mark_deleted([row.checkpoint_id for row in rows if row.state != "DELETED"])
    for row, storage in zip(rows, storages, strict=True):
        # The files of an imported checkpoint belong to the store that it came from.
        if not row.borrowed:
            _delete_files(storage, row)


def delete_checkpoint_files(store: Store, checkpoint_id: str, unwanted: Selector) -> StoredCheckpoint:
    """Like `delete_files_of_checkpoints`, for one checkpoint."""
    return delete_files_of_checkpoints(store, [checkpoint_id], unwanted)[0]


def delete_files_of_checkpoints(
    store: Store, checkpoint_ids: Sequence[str], unwanted: Selector
) -> list[StoredCheckpoint]:
    """Delete files of checkpoints, which become PARTIALLY_DELETED, or DELETED if only metadata remains.

    If a checkpoint that would lose a file is registered or in use (`CheckpointInUse`), nothing is deleted. For a
    checkpoint that loses no file, the recorded list of files is refreshed.
    """
    found = [
        _found(store, row)
        for row in [store.upkeep.checkpoint(checkpoint_id) for checkpoint_id in dict.fromkeys(checkpoint_ids)]
    ]
    # Decided before anything is marked, from the files that exist.
    wholly = [one for one in found if one.present and all(map(unwanted, one.present))]
    partly = [one for one in found if one not in wholly and any(map(unwanted, one.present))]
    store.upkeep.mark_deleted(
        [one.row.checkpoint_id for one in wholly], partially=[one.row.checkpoint_id for one in partly]
    )
    for one in found:
        if one in wholly or not one.present:
            if not one.row.borrowed:
                _delete_files(one.storage, one.row)  # also the remains of an interrupted deletion
            store.upkeep.set_checkpoint_files(one.row.checkpoint_id, "DELETED", {})
        elif one in partly:
            left = one.storage.remove_files(one.row.checkpoint_id, unwanted)
            store.upkeep.set_checkpoint_files(one.row.checkpoint_id, "PARTIALLY_DELETED", left)
        # Files that were deleted without this library.
        elif one.present != one.row.resources:
            store.upkeep.set_checkpoint_files(one.row.checkpoint_id, "PARTIALLY_DELETED", one.present)
    return [store.upkeep.checkpoint(checkpoint_id) for checkpoint_id in checkpoint_ids]


@dataclass(frozen=True)
class _Found:
    """A checkpoint with the files that really exist; none for a deleted one."""

    row: StoredCheckpoint
    storage: CheckpointStorage
    present: dict[str, int]


def _found(store: Store, row: StoredCheckpoint) -> _Found:
    """Return a checkpoint with the files that exist in its storage."""
    storage = _storage(store, row)
    if row.state == "DELETED":
        return _Found(row, storage, {})
    try:
        return _Found(row, storage, storage.resources(row.checkpoint_id))
    except CheckpointNotFound:
        return _Found(row, storage, {})


def _record_published(store: Store, experiment: Experiment) -> None:
    """Record checkpoints whose processes were killed before they could.

    Otherwise their files would never be deleted.
    """
    # While it runs, its processes record their checkpoints themselves.
    if not is_finished_or_interrupted(experiment) or experiment.borrowed:
        return
    for trial_id, place in store.publishing.places(experiment.id):
        recover_unrecorded(LocalWorkerStore(store), place, partial(examine, storage_of(experiment, place)), trial_id)


def _delete(store: Store, experiment: Experiment, lease: Lease | None) -> Deleted:
    """Delete an experiment's files and rows; `lease` is None for a standalone run."""
    _record_published(store, experiment)
    outputs = store.outputs.of_experiment(experiment.id)
    kept_elsewhere = [output for output in outputs if output.borrowed]
    own_outputs = [output for output in outputs if not output.borrowed]
    places = {row.storage for row in store.experiments.checkpoints(experiment.id) if not row.borrowed}
    places |= {output.storage for output in own_outputs}
    # Opened first: a failure here happens before anything is marked.
    storages = {place: storage_of(experiment, place) for place in places}
    marked = store.upkeep.mark_experiment_deleted(experiment.id)
    checkpoints = [row for row in marked if not row.borrowed]
    for row in checkpoints:
        _delete_files(storages[row.storage], row)
        # Deleting files of an object store takes long, and without a heartbeat the lease would be taken over.
        if lease is not None:
            store.experiments.heartbeat(lease)
    for output in own_outputs:
        storages[output.storage].outputs.delete(output.uuid)
        if lease is not None:
            store.experiments.heartbeat(lease)
    run_directories, left = _run_directories(store, experiment.id)
    own = None if experiment.is_standalone else experiment_dir(experiment.key)
    # The experiment's own directory is deleted last: it holds the credentials of its checkpoint storage.
    directories = [*run_directories, *([] if own is None else [own])]
    left += [f"{row.storage}/{row.checkpoint_id}" for row in marked if row.borrowed and row.resources]
    left += [f"{output.storage}/{output.uuid}" for output in kept_elsewhere if output.uploads]
    if experiment.borrowed:
        left += [str(path) for path in directories if path.exists()]
        directories = []
    removed = [path for path in directories if _remove_tree(path)]
    # Rows last: after an interruption the same command finds what is left to delete.
    store.upkeep.delete_experiment(experiment.id, lease)
    for path in left:
        logger.info(
            "experiment %d is deleted, but %s was not deleted: it belongs to another store or is on another machine",
            experiment.id,
            path,
        )
    return Deleted(
        tuple(row.checkpoint_id for row in checkpoints),
        tuple(removed),
        tuple(left),
        tuple(output.uuid for output in own_outputs),
    )


def own_directories(store: Store, experiment: Experiment) -> list[Path]:
    """Return the directories of this machine that are deleted with an experiment: its own one last."""
    own = None if experiment.is_standalone else experiment_dir(experiment.key)
    return [*_run_directories(store, experiment.id)[0], *([] if own is None else [own])]


def _delete_files(storage: CheckpointStorage, row: StoredCheckpoint) -> None:
    """Delete the files of a checkpoint; do nothing if they do not exist."""
    try:
        storage.delete(row.checkpoint_id)
    except CheckpointNotFound:
        logger.debug("the files of checkpoint %s were gone already", row.checkpoint_id)


def _storage(store: Store, row: StoredCheckpoint) -> CheckpointStorage:
    """Return the storage in which the files of a checkpoint are."""
    trial = store.experiments.trial(row.trial_id)
    return storage_of(store.experiments.get(trial.experiment_id), row.storage)


def _run_directories(store: Store, experiment_id: int) -> tuple[list[Path], list[str]]:
    """Return the experiment's run directories below the data directory of this machine, and those that are kept."""
    ours, left = [], []
    root = paths.runs_dir()
    for directory in store.upkeep.run_directories(experiment_id):
        path = Path(directory.path)
        # A path comes from the store, which may be shared: only a direct child of our own directory is deleted.
        is_ours = path.parent == root and is_name(path.name)
        # The same path on another host is another directory.
        if is_ours and (directory.host == socket.gethostname() or (directory.was_copied and path.is_dir())):
            ours.append(path)
        else:
            left.append(directory.path)
    return ours, left


def _remove_tree(path: Path) -> bool:
    """Delete a directory; return False if it does not exist. A link is deleted, not followed."""
    # One rename hides the directory, so an interrupted deletion leaves nothing that looks complete.
    try:
        os.rename(path, path.with_name(f".deleted-{path.name}-{secrets.token_hex(4)}"))
        found = True
    except FileNotFoundError:
        found = False
    for grave in path.parent.glob(f".deleted-{path.name}-*"):  # also the remains of interrupted deletions
        if grave.is_symlink():
            grave.unlink()
        else:
            shutil.rmtree(grave)
    return found
