"""Outputs in a directory storage: `<root>/<output>/rank_<n>/<file>`."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from determined.checkpoint_storage import files
from determined.checkpoint_storage.outputs import (
    file_name,
    incomplete_file,
    output_id,
    staged_upload,
    sync_directories,
    upload_key,
)
from determined.checkpoint_storage.staging import Staging
from determined.durable_files import sync

_REPLACED = ".replaced-"
# How often the directory of the target is created again; two uploads that fail at the same moment are rare.
_TRIES = 10


class DirectoryOutputs:
    """Outputs in a directory; `OutputStorage` in `outputs.py` documents the methods.

    A file becomes visible by one rename.
    """

    def __init__(self, root: Path, staging: Staging, open_root: Callable[[], None]) -> None:
        self._root = root
        self._staging = staging
        self._open_root = open_root

    def staged(self) -> AbstractContextManager[Path]:
        return staged_upload(self._staging, self._open_root)

    def publish(self, output: str, key: str, staged: Path, below: str, names: Collection[str]) -> bool:
        """Keep replaced files under a second name, then rename the new ones into place."""
        target, aside = self._directory(output) / below, self._replaced(output, key) / below
        # First, because after the first move a conflict would leave a part of the files in place.
        _refuse_conflicts(target, names)
        files.sync_tree(staged)
        kept: set[Path] = set()
        for name in names:
            # `lexists`, so that a dangling link counts as a file as well.
            if os.path.lexists(target / name):
                kept |= _make_directories(aside / name, self._root)
                _keep(target / name, aside / name)
        sync_directories(kept)  # on disk before anything is replaced, so that `revert` can restore it after a crash
        touched: set[Path] = set()
        for name in names:
            # Renames within one file system: the staging directory is below the same root.
            touched |= _move(staged / name, target / name, self._root)
        sync_directories(touched)
        return bool(kept)

    def revert(self, output: str, key: str, names: Collection[str], earlier: Collection[str]) -> list[str]:
        directory, aside = self._directory(output), self._replaced(output, key)
        staying = []
        for name in map(file_name, names):
            if os.path.lexists(aside / name):
                _move(aside / name, directory / name, self._root)
            elif name in earlier:
                staying.append(name)
            else:
                (directory / name).unlink(missing_ok=True)
                _remove_empty(directory / name, directory)
        if directory.is_dir():
            sync_directories([parent for parent in {(directory / name).parent for name in names} if parent.is_dir()])
        self.delete_replaced(output, key)
        return staying

    def delete_replaced(self, output: str, key: str) -> None:
        aside = self._replaced(output, key)
        with suppress(FileNotFoundError):
            shutil.rmtree(aside)
        with suppress(OSError):  # other uploads still need it, or it does not exist
            aside.parent.rmdir()

    def delete_all_replaced(self, output: str) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self._root / f"{_REPLACED}{output_id(output)}")

    def fetch(self, output: str, resources: Mapping[str, int], directory: Path, replaced_by: Mapping[str, str]) -> None:
        source = self._directory(output)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, size in resources.items():
            path = source / file_name(name)
            if name in replaced_by:
                aside = self._replaced(output, replaced_by[name]) / name
                # The unfinished upload may not have come as far as this file; then the file in place is still the
                # earlier one.
                path = aside if aside.exists() else path
            if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self._root)):
                raise ValueError(f"output {output}: {name} is a link to the outside")
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(path, directory / name)
            except FileNotFoundError as error:
                raise incomplete_file(output, name, None, size) from error
            # Compared after copying, because a rank may be replacing the file right now.
            found = (directory / name).stat().st_size
            if found != size:
                raise incomplete_file(output, name, found, size)

    def delete(self, output: str) -> None:
        # One rename hides each directory, so an interrupted deletion leaves nothing that looks complete.
        for path in (self._directory(output), self._root / f"{_REPLACED}{output_id(output)}"):
            hidden = self._root / f".deleted-{output}-{secrets.token_hex(4)}"
            with suppress(FileNotFoundError):
                os.rename(path, hidden)
                sync(self._root)
                shutil.rmtree(hidden)

    def _directory(self, output: str) -> Path:
        """Return the directory of an output; raise ValueError if it is a link."""
        path = self._root / output_id(output)
        if path.is_symlink():
            raise ValueError(f"output {output} in {self._root} is a link: links are not followed")
        return path

    def _replaced(self, output: str, key: str) -> Path:
        return self._root / f"{_REPLACED}{output_id(output)}" / upload_key(key)


def _refuse_conflicts(target: Path, names: Collection[str]) -> None:
    """Raise FileExistsError if a file would replace a directory or a directory a file.

    Checked before anything is moved.
    """
    for name in names:
        path = target / name
        parents = [parent for parent in path.parents if parent.is_relative_to(target)]
        for parent in parents:
            if os.path.lexists(parent) and not (parent.is_dir() and not parent.is_symlink()):
                raise FileExistsError(
                    f"{name!r} cannot be uploaded: {parent.relative_to(target.parent)} is a file that was uploaded "
                    "before; choose another name"
                )
        if path.is_dir() and not path.is_symlink():
            raise FileExistsError(
                f"{name!r} cannot be uploaded: a directory of that name was uploaded before; choose another name"
            )


def _keep(present: Path, aside: Path) -> None:
    """Keep a file under a second name; on a file system without hard links it is renamed instead."""
    try:
        # A link first: the file stays visible under its name until the new one replaces it.
        os.link(present, aside, follow_symlinks=False)
    except FileExistsError:
        pass  # kept by an earlier attempt of the same upload
    except OSError:
        os.rename(present, aside)


def _move(source: Path, target: Path, root: Path) -> set[Path]:
    """Move a file into place and return the directories whose entries have changed."""
    for tries_left in reversed(range(_TRIES)):
        try:
            changed = _make_directories(target, root)
            os.replace(source, target)
            return changed
        except FileNotFoundError:
            # Another rank, whose upload failed, has deleted the empty directory of the output.
            if tries_left == 0 or not os.path.lexists(source):
                raise
    raise AssertionError("unreachable")


def _make_directories(file: Path, root: Path) -> set[Path]:
    """Create the directories above a file and return those whose entries have changed or will change."""
    changed = {file.parent}
    missing = [parent for parent in file.parents if parent.is_relative_to(root) and not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(mode=0o700, exist_ok=True)
        changed.add(parent.parent)
    return changed


def _remove_empty(file: Path, stop: Path) -> None:
    """Delete the empty directories above a file, up to the output itself."""
    for parent in file.parents:
        try:
            parent.rmdir()
        except OSError:
            return
        if parent == stop:
            return
