"""Copy the output of a trial to a directory; a later copy to the same directory updates it."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

from determined.errors import InvalidCheckpointException
from determined.experiment.checkpoints.storage_lookup import storage_of
from determined.names import is_file_name
from determined.store.experiment_records import Experiment
from determined.store.output_records import Output

_MARK = ".output.json"  # records from which output a directory was downloaded, and its files


def download_output(experiment: Experiment, output: Output, target: Path) -> None:
    """Copy all files of an output. They are fetched beside the target and moved, so that no partial file is visible.

    A target with an earlier copy of the same output is updated: files that are no longer in the output are deleted,
    other files are kept. A target that contains anything else raises FileExistsError.
    """
    if not output.uploads:
        raise InvalidCheckpointException(f"output {output.uuid} has no files")
    _refuse_others(output, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the rename stays on one file system.
    draft = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    try:
        storage_of(experiment, output.storage).outputs.fetch(output.uuid, output.resources, draft, output.replaced_by)
        mark = {"output": output.uuid, "files": sorted(output.resources)}
        (draft / _MARK).write_text(json.dumps(mark))
        try:
            os.rename(draft, target)  # also replaces an empty directory
        except OSError as error:
            # POSIX allows either number for a directory that is not empty.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            _refuse_others(output, target)  # another download may have been faster
            _update(draft, target, output)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _refuse_others(output: Output, target: Path) -> None:
    """Raise FileExistsError if the target contains anything but a copy of this output."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise FileExistsError(f"output {output.uuid} was not downloaded: {target} is not a directory")
    if target.is_dir() and os.listdir(target) and _mark(target).get("output") != output.uuid:
        raise FileExistsError(
            f"output {output.uuid} was not downloaded: {target} holds something else; name another directory"
        )


def _update(draft: Path, target: Path, output: Output) -> None:
    """Delete stale files of an earlier copy and move the new ones into place."""
    stale = [name for name in _mark(target).get("files", []) if name not in output.resources]
    for name in stale:
        if is_file_name(name):  # checked, because the user may have edited the mark
            # Files that the user deleted, or replaced by a directory, are none of ours.
            with contextlib.suppress(FileNotFoundError, IsADirectoryError, NotADirectoryError):
                (target / name).unlink()
            _remove_empty(target / name, target)
    for name in [*output.resources, _MARK]:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(draft / name, target / name)


def _remove_empty(file: Path, stop: Path) -> None:
    """Delete the empty directories above a file, but not `stop`."""
    for parent in file.parents:
        if parent == stop:
            return
        # A directory that is not empty stays, with everything above it.
        with contextlib.suppress(OSError):
            parent.rmdir()


def _mark(target: Path) -> dict[str, Any]:
    """Return the content of the mark, or an empty dict."""
    try:
        content = json.loads((target / _MARK).read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
