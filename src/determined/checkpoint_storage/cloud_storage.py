"""Checkpoints in an object store: `s3`, `gcs` and `azure`."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from determined import paths
from determined.checkpoint_storage import files, object_names, transfer
from determined.checkpoint_storage.base import (
    MARKS_ARE_KEPT,
    METADATA_FILE,
    Resources,
    Selector,
    checked_id,
    parse_metadata,
)
from determined.checkpoint_storage.bucket import Bucket
from determined.checkpoint_storage.checkpoint_objects import UNFINISHED, CheckpointObjects, object_key
from determined.checkpoint_storage.cloud_outputs import CloudOutputs
from determined.checkpoint_storage.staging import Staging
from determined.errors import CheckpointNotFound, InvalidCheckpointException
from determined.sentences import counted

logger = logging.getLogger("determined.checkpoint_storage")

# Objects by which other machines recognize this storage, see `write_mark`.
_MARKS = ".marks"


class CloudStorage:
    """Stores a checkpoint as the objects `<id>/<path>`.

    `<id>/metadata.json` is stored last: the checkpoint exists once that object exists.
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._objects = CheckpointObjects(bucket)
        self._root = paths.cloud_dir()
        self._staging = Staging(self._root)
        self._joined: set[str] = set()
        self._begun: dict[str, list[str]] = {}  # object names of running uploads, by checkpoint

    def __repr__(self) -> str:
        return f"CloudStorage({self.name!r})"

    @property
    def name(self) -> str:
        return self._bucket.shown

    @property
    def outputs(self) -> CloudOutputs:
        return CloudOutputs(self._bucket, self._staging, self._open_root)

    @property
    def earlier(self) -> None:
        return None

    def local_roots(self) -> list[Path]:
        return [self._root]

    def probe(self) -> None:
        """Store, read and delete a small object; then clean up after processes that were killed."""
        key = f"{UNFINISHED}/probe-{secrets.token_hex(8)}"
        content = secrets.token_bytes(16)
        self._bucket.put(key, content)
        try:
            if self._bucket.get(key) != content:
                raise OSError(
                    errno.EIO, f"the checkpoint storage {self._bucket.shown} returned other data than was written to it"
                )
            # The time of the server: clocks of this machine and of the server may differ.
            now = self._bucket.head(key)
        finally:
            self._bucket.delete(key)
        self._open_root()
        if now is not None:
            self._objects.collect(now)

    def write_mark(self, name: str) -> None:
        key = f"{_MARKS}/{checked_id(name)}"
        self._bucket.put(key, b"")
        now = self._bucket.head(key)
        for old in self._bucket.entries(_MARKS):
            if now is not None and now.modified - old.modified > MARKS_ARE_KEPT:
                self._bucket.delete(old.key)

    def has_mark(self, name: str) -> bool:
        return self._bucket.head(f"{_MARKS}/{checked_id(name)}") is not None

    def delete_mark(self, name: str) -> None:
        self._bucket.delete(f"{_MARKS}/{checked_id(name)}")

    def stage(self, checkpoint_id: str) -> Path:
        self._open_root()
        return self._staging.create(checked_id(checkpoint_id))

    def staged(self, checkpoint_id: str) -> Path:
        """Return the staging directory. If the chief is on another machine, the first rank that asks creates it."""
        path = self._staging.path(checked_id(checkpoint_id))
        if not path.is_dir():
            self._open_root()
            # Another rank of this machine was faster.
            with contextlib.suppress(FileExistsError):
                self._staging.create(checkpoint_id)
                # Only the rank that created the directory uploads it.
                self._joined.add(checkpoint_id)
        return path

    def contribute(self, checkpoint_id: str) -> None:
        if checkpoint_id not in self._joined:
            return  # the files are in the chief's directory
        staged = self.staged(checkpoint_id)
        self._objects.note_begin(checkpoint_id)
        self._upload(checkpoint_id, staged, files.resources(staged))
        self._remove_staging(checkpoint_id)

    def commit(self, checkpoint_id: str, flushed: Path | None = None) -> Resources:
        """Upload the staged files and store the metadata last, which makes the checkpoint visible."""
        staged = self.staged(checkpoint_id)
        resources = files.resources(staged)
        if METADATA_FILE not in resources:
            raise InvalidCheckpointException(
                f"checkpoint {checkpoint_id} has no {METADATA_FILE}: it would not be visible"
            )
        # Checked before the upload: the metadata object alone makes a checkpoint visible, and would replace another
        # one.
        if self._bucket.head(object_key(checkpoint_id, METADATA_FILE)) is not None:
            raise InvalidCheckpointException(f"a checkpoint {checkpoint_id} exists already in {self._bucket.shown}")
        # Before the first object, so that a later process finds the objects of an upload that was killed.
        self._objects.note_begin(checkpoint_id)
        self._upload(checkpoint_id, staged, {name: size for name, size in resources.items() if name != METADATA_FILE})
        stored = self._objects.sizes(checkpoint_id)  # includes what ranks on other machines contributed
        # Verified before the metadata makes the checkpoint visible.
        self._check_arrived(resources, stored)
        self._bucket.put_file(object_key(checkpoint_id, METADATA_FILE), staged / METADATA_FILE)
        # After the metadata: until then the upload counts as unfinished.
        self._objects.note_end(checkpoint_id)
        self._remove_staging(checkpoint_id)
        return object_names.to_resources({**stored, METADATA_FILE: resources[METADATA_FILE]})

    def abandon(self, checkpoint_id: str) -> None:
        """Delete staged files; the chief also deletes uploaded objects.

        Objects that cannot be deleted now are not visible.
        """
        # Ranks on other machines only remove their staging directory; the chief removes the objects of all ranks.
        if self._staging.owns(checked_id(checkpoint_id)) and checkpoint_id not in self._joined:
            self._revert_upload(checkpoint_id)
        self._remove_staging(checkpoint_id)

    def resources(self, checkpoint_id: str) -> Resources:
        return object_names.to_resources(self._find(checkpoint_id))

    def metadata(self, checkpoint_id: str) -> dict[str, Any]:
        content = self._bucket.get(object_key(checked_id(checkpoint_id), METADATA_FILE))
        if content is None:
            raise self._not_found(checkpoint_id)
        return parse_metadata(checkpoint_id, content)

    @contextlib.contextmanager
    def open(self, checkpoint_id: str, wanted: Selector | None = None) -> Iterator[Path]:
        objects = self._find(checkpoint_id)
        self._open_root()
        # A random suffix, because several processes of this machine may open the same checkpoint.
        name = f"{checkpoint_id}.{secrets.token_hex(4)}"
        directory = self._staging.create(name)
        try:
            self._download(checkpoint_id, objects, directory, wanted)
            yield directory
        finally:
            self._staging.remove(name)

    def fetch(self, checkpoint_id: str, directory: Path, wanted: Selector | None = None) -> None:
        objects = self._find(checkpoint_id)
        directory.mkdir(parents=True, exist_ok=True)
        # Files are moved into place at the end, so an interrupted download leaves no incomplete file that looks
        # complete.
        arriving = directory / f".arriving-{secrets.token_hex(4)}"
        arriving.mkdir(mode=0o700)
        try:
            self._download(checkpoint_id, objects, arriving, wanted)
            # Listed completely before files are moved out of the directory that is walked.
            for name, is_directory in list(files.walk(arriving)):
                if is_directory:
                    (directory / name).mkdir(exist_ok=True)
                else:
                    os.replace(arriving / name, directory / name)
        finally:
            shutil.rmtree(arriving)
            # A failed download leaves no empty directory behind.
            with contextlib.suppress(OSError):
                directory.rmdir()  # succeeds only if the directory is empty

    def rewrite(self, checkpoint_id: str, content: Mapping[str, bytes]) -> Resources:
        self._find(checkpoint_id)
        for name, data in content.items():
            # Each object is replaced atomically by the server.
            self._bucket.put(object_key(checkpoint_id, name), data)
        return self.resources(checkpoint_id)

    def remove_files(self, checkpoint_id: str, unwanted: Selector) -> Resources:
        doomed = [name for name in self._find(checkpoint_id) if name != METADATA_FILE and unwanted(name)]
        transfer.delete(self._bucket, [object_key(checkpoint_id, name) for name in doomed])
        return self.resources(checkpoint_id)

    def delete(self, checkpoint_id: str) -> None:
        objects = self._find(checkpoint_id)
        # A killed deletion is completed later by `CheckpointObjects.collect`.
        self._objects.note_begin(checkpoint_id)
        self._objects.remove(checkpoint_id, objects)
        self._objects.note_end(checkpoint_id)

    def _upload(self, checkpoint_id: str, staged: Path, resources: Resources) -> None:
        """Upload files and markers of empty directories; remember the names for `_revert_upload`."""
        uploads: dict[str, Path] = {}
        empty_directories = []
        names = object_names.to_store(resources)
        for name in names:
            object_names.check(name, f"checkpoint {checkpoint_id}")
            key = object_key(checkpoint_id, object_names.object_name(name))
            if name.endswith("/"):
                empty_directories.append(key)
            else:
                uploads[key] = staged / name
        # Before the transfer, so that `_revert_upload` also knows objects of a transfer that fails.
        self._begun[checkpoint_id] = [object_names.object_name(name) for name in names]
        transfer.upload(self._bucket, uploads)
        for key in empty_directories:
            self._bucket.put(key, b"")

    def _check_arrived(self, resources: Resources, stored: dict[str, int]) -> None:
        """Raise OSError if an uploaded file is missing or has another size."""
        for name, size in resources.items():
            if not name.endswith("/") and name != METADATA_FILE and stored.get(name) != size:
                raise OSError(
                    errno.EIO, f"{self._bucket.shown} holds {stored.get(name, 'none')} of the {size} bytes of {name}"
                )

    def _download(self, checkpoint_id: str, objects: dict[str, int], directory: Path, wanted: Selector | None) -> None:
        """Download the wanted objects of a checkpoint into a directory."""
        downloads = []
        # Names come from the server, and could lead out of the directory; `check` refuses them.
        for name, size in object_names.to_resources(objects).items():
            object_names.check(name, f"checkpoint {checkpoint_id} in {self._bucket.shown}")
            if wanted is not None and not wanted(name):
                continue
            path = directory / name
            if name.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                downloads.append(transfer.Download(object_key(checkpoint_id, name), size, path))
        transfer.download(self._bucket, downloads)

    def _find(self, checkpoint_id: str) -> dict[str, int]:
        """Return the size of each object of a checkpoint, by its name relative to the checkpoint's prefix.

        Raise CheckpointNotFound if it is not visible.
        """
        objects = self._objects.sizes(checked_id(checkpoint_id))
        if METADATA_FILE not in objects:
            raise self._not_found(checkpoint_id, len(objects))
        return objects

    def _not_found(self, checkpoint_id: str, leftovers: int = 0) -> CheckpointNotFound:
        why = f" ({counted(leftovers, 'file')} of an unfinished upload or deletion)" if leftovers else ""
        return CheckpointNotFound(f"no checkpoint {checkpoint_id} in {self._bucket.shown}{why}")

    def _remove_staging(self, checkpoint_id: str) -> None:
        """Delete the staging directory and forget the upload."""
        self._staging.remove(checkpoint_id)
        self._joined.discard(checkpoint_id)
        self._begun.pop(checkpoint_id, None)

    def _revert_upload(self, checkpoint_id: str) -> None:
        """Delete the objects of a failed upload; if that fails, `CheckpointObjects.collect` does it later."""
        try:
            # The names are remembered because a server may not yet list objects that it has just stored.
            begun = self._begun.get(checkpoint_id, ())
            self._objects.remove(checkpoint_id, {*begun, *self._objects.sizes(checkpoint_id)})
        except OSError as error:
            logger.warning(
                "the partial upload of checkpoint %s could not be deleted; this is retried after a day: %s",
                checkpoint_id,
                error,
            )
        else:
            self._objects.note_end(checkpoint_id)

    def _open_root(self) -> None:
        """Create the local directory, and delete what killed processes left in it on this machine."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._staging.collect()
