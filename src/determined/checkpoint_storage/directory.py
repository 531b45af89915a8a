"""Checkpoints in a directory of this machine or of a shared file system: `directory` and `shared_fs`."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from determined import paths
from determined.checkpoint_storage import files
from determined.checkpoint_storage.base import (
    MARKS_ARE_KEPT,
    METADATA_FILE,
    Resources,
    Selector,
    checked_id,
    parse_metadata,
)
from determined.checkpoint_storage.directory_outputs import DirectoryOutputs
from determined.checkpoint_storage.staging import Staging
from determined.durable_files import sync
from determined.errors import CheckpointNotFound, InvalidCheckpointException, InvalidConfigurationException
from determined.names import is_uuid, named_entry

logger = logging.getLogger("determined.checkpoint_storage")

_MARK = ".mark-"


class DirectoryStorage:
    """Stores complete checkpoints as `<root>/<id>/`; all other entries have names that no id can have.

    Checkpoints with a UUID that are not found are looked up in `earlier`, where nothing new is stored.
    """

    def __init__(self, root: str | os.PathLike[str], *, earlier: DirectoryStorage | None = None) -> None:
        # Absolute, because the program may change its working directory later.
        self.root = Path(root).absolute()
        self.earlier = earlier
        self._staging = Staging(self.root)

    def __repr__(self) -> str:
        return f"DirectoryStorage({str(self.root)!r})"

    @property
    def name(self) -> str:
        return str(self.root)

    @property
    def outputs(self) -> DirectoryOutputs:
        return DirectoryOutputs(self.root, self._staging, self._open_root)

    def local_roots(self) -> list[Path]:
        return [self.root]

    def probe(self) -> None:
        try:
            self._open_root()
            # A random name, because several processes may probe at once.
            probe = self.root / f".probe-{secrets.token_hex(8)}"
            try:
                # Written and not only checked: permissions, quotas and read-only mounts show up only in a real write.
                with open(probe, "xb") as file:
                    file.write(b"probe")
            finally:
                probe.unlink(missing_ok=True)
            self._staging.collect()
            if self.earlier is not None:
                self.earlier._staging.collect()
        except OSError as error:
            raise OSError(
                error.errno, f"the checkpoint storage {self.root} cannot be written: {error.strerror}"
            ) from error

    def write_mark(self, name: str) -> None:
        self._open_root()
        mark = self._mark(name)
        mark.write_bytes(b"")
        # Compared with the time of the new mark, because the clock of a file server may differ.
        now = mark.stat().st_mtime
        for old in self.root.glob(f"{_MARK}*"):
            with contextlib.suppress(FileNotFoundError):  # another process deleted it
                if now - old.lstat().st_mtime > MARKS_ARE_KEPT.total_seconds():
                    old.unlink()

    def has_mark(self, name: str) -> bool:
        return self._mark(name).is_file()

    def delete_mark(self, name: str) -> None:
        self._mark(name).unlink(missing_ok=True)

    def _mark(self, name: str) -> Path:
        # Hidden, so that it is never taken for a checkpoint.
        return self.root / f"{_MARK}{checked_id(name)}"

    def stage(self, checkpoint_id: str) -> Path:
        self._open_root()
        return self._staging.create(checked_id(checkpoint_id))

    def staged(self, checkpoint_id: str) -> Path:
        return self._staging.path(checked_id(checkpoint_id))

    def commit(self, checkpoint_id: str, flushed: Path | None = None) -> Resources:
        """Flush the staged files, then rename the staging directory to the checkpoint's id."""
        staged = self.staged(checkpoint_id)
        resources = files.resources(staged)
        if paths.in_data_dir(self.root):  # elsewhere the user's umask decides, because a team may share the directory
            files.make_private(staged)
        # Flushed before the rename: after a power failure a visible checkpoint must not have empty files.
        files.sync_tree(staged, flushed)
        self._staging.publish(checkpoint_id, self.root / checkpoint_id)
        sync(self.root)
        return resources

    def contribute(self, checkpoint_id: str) -> None:
        """Do nothing: all ranks write into the chief's directory."""

    def abandon(self, checkpoint_id: str) -> None:
        self._staging.remove(checked_id(checkpoint_id))

    def resources(self, checkpoint_id: str) -> Resources:
        path = self._find(checkpoint_id)
        _refuse_links_outside(checkpoint_id, path)
        return files.resources(path)

    def metadata(self, checkpoint_id: str) -> dict[str, Any]:
        path = self._find(checkpoint_id) / METADATA_FILE
        try:
            content = path.read_bytes()
        # A directory that a user put there may have no metadata file.
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise InvalidCheckpointException(
                f"checkpoint {checkpoint_id}: {METADATA_FILE} cannot be read: {error}"
            ) from error
        return parse_metadata(checkpoint_id, content)

    @contextlib.contextmanager
    def open(self, checkpoint_id: str, wanted: Selector | None = None) -> Iterator[Path]:
        # Nothing is copied, so there is nothing that a selector could save.
        if wanted is not None:
            logger.warning(
                "checkpoint %s is opened in place with all its files: the selector has no effect", checkpoint_id
            )
        path = self._find(checkpoint_id)
        _refuse_links_outside(checkpoint_id, path)
        yield path

    def fetch(self, checkpoint_id: str, directory: Path, wanted: Selector | None = None) -> None:
        source = self._find(checkpoint_id)
        _refuse_links_outside(checkpoint_id, source)
        directory.mkdir(parents=True, exist_ok=True)
        for name, is_directory in files.walk(source):
            if wanted is not None and not wanted(name + "/" if is_directory else name):
                continue
            if is_directory:
                (directory / name).mkdir(parents=True, exist_ok=True)
            else:
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                # Atomically, because ranks that download separately may share the target directory.
                files.copy_atomically(source / name, directory / name)

    def rewrite(self, checkpoint_id: str, content: Mapping[str, bytes]) -> Resources:
        """Replace files atomically, each by a rename of a flushed draft."""
        path = self._find(checkpoint_id)
        _refuse_links_outside(checkpoint_id, path)
        for name, data in content.items():
            # Beside the checkpoint and not inside: a draft that is left behind must not look like one of its files.
            draft = path.parent / f".rewritten-{checkpoint_id}-{secrets.token_hex(4)}"
            try:
                with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(draft, path / name)
            finally:
                draft.unlink(missing_ok=True)
        sync(path)
        return files.resources(path)

    def remove_files(self, checkpoint_id: str, unwanted: Selector) -> Resources:
        path = self._find(checkpoint_id)
        _refuse_links_outside(checkpoint_id, path)
        # Listed before files are deleted from the directories that are walked.
        for name, is_directory in list(files.walk(path)):
            if not is_directory and name != METADATA_FILE and unwanted(name):
                (path / name).unlink()
        for name, is_directory in reversed(list(files.walk(path))):  # deepest first
            empty = is_directory and not (path / name).is_symlink() and not os.listdir(path / name)
            if empty and unwanted(f"{name}/"):
                (path / name).rmdir()
        return files.resources(path)

    def delete(self, checkpoint_id: str) -> None:
        path = self._find(checkpoint_id)
        # One rename hides the checkpoint, so an interrupted deletion leaves none that looks complete.
        grave = path.parent / f".deleted-{checkpoint_id}-{secrets.token_hex(4)}"
        os.rename(path, grave)
        # Before the files are deleted: after a power failure the id must not name a half-deleted directory.
        sync(path.parent)
        shutil.rmtree(grave)

    def _find(self, checkpoint_id: str) -> Path:
        """Return the directory of a checkpoint; raise CheckpointNotFound if there is none."""
        path = named_entry(self.root, checked_id(checkpoint_id))
        if path is None:
            raise InvalidCheckpointException(
                f"checkpoint {checkpoint_id} in {self.root} is a link: links are not followed"
            )
        if not path.is_dir():
            # Only UUIDs: the earlier root may also contain directories of this library, such as `runs`.
            if self.earlier is not None and is_uuid(checkpoint_id) and (self.earlier.root / checkpoint_id).is_dir():
                return self.earlier._find(checkpoint_id)
            raise CheckpointNotFound(f"no checkpoint {checkpoint_id} in {self.root}")
        return path

    def _open_root(self) -> None:
        """Create the root directory; raise InvalidConfigurationException if other users can write to it."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        # If everyone could write to the data directory, the storage itself could be replaced.
        for directory in (self.root, paths.data_dir()) if paths.in_data_dir(self.root) else (self.root,):
            mode = directory.stat().st_mode
            # With the sticky bit, as in /tmp, other users cannot rename or delete our directories.
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                raise InvalidConfigurationException(
                    message=f"the checkpoint storage {directory} can be written by all users of this machine, "
                    f"who could exchange checkpoints: run chmod o-w {directory}, or choose another directory"
                )


def _refuse_links_outside(checkpoint_id: str, root: Path) -> None:
    """Raise InvalidCheckpointException if a link leads out of a checkpoint.

    Otherwise a checkpoint made by another user could expose other files of this machine to its readers.
    """
    # The real path of the checkpoint too, because the storage itself may be reached through a link.
    real = Path(os.path.realpath(root))
    for directory, names, file_names in os.walk(root):
        for name in [*names, *file_names]:
            path = Path(directory, name)
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(real):
                raise InvalidCheckpointException(f"checkpoint {checkpoint_id}: {path.name} is a link to the outside")
