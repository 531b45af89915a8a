"""Copy the output of a trial to a directory; a later copy into the same directory brings it up to date."""

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
from determined.experiment.storages import storage_of
from determined.names import is_file_name
from determined.store.experiment_records import Experiment
from determined.store.outputs import Output

_MARK = ".output.json"  # says which output a directory was downloaded from, and which files came with it


def download_output(experiment: Experiment, output: Output, target: Path) -> None:
    """Copy all files. They are fetched beside the target and moved, so none of them is ever seen half.

    A target that holds an earlier copy of the same output is brought up to date: files that are not in the output any
    more are removed, files of others stay. A target that holds anything else is refused.
    """
    if not output.uploads:
        raise InvalidCheckpointException(f"output {output.uuid} has no files")
    _refuse_others(output, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    try:
        storage_of(experiment, output.storage).outputs.fetch(output.uuid, output.resources, draft, output.replaced_by)
        mark = {"output": output.uuid, "files": sorted(output.resources)}
        (draft / _MARK).write_text(json.dumps(mark))
        try:
            os.rename(draft, target)  # also in place of an empty directory
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            _refuse_others(output, target)  # another download may have come first
            _update(draft, target, output)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _refuse_others(output: Output, target: Path) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise FileExistsError(f"output {output.uuid} was not downloaded: {target} is not a directory")
    if target.is_dir() and os.listdir(target) and _mark(target).get("output") != output.uuid:
        raise FileExistsError(
            f"output {output.uuid} was not downloaded: {target} holds something else; name another directory"
        )


def _update(draft: Path, target: Path, output: Output) -> None:
    stale = [name for name in _mark(target).get("files", []) if name not in output.resources]
    for name in stale:
        if is_file_name(name):  # the mark is a file in the user's directory
            with contextlib.suppress(FileNotFoundError, IsADirectoryError, NotADirectoryError):
                (target / name).unlink()
            _remove_empty(target / name, target)
    for name in [*output.resources, _MARK]:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(draft / name, target / name)


def _remove_empty(file: Path, stop: Path) -> None:
    for parent in file.parents:
        if parent == stop:
            return
        with contextlib.suppress(OSError):
            parent.rmdir()


def _mark(target: Path) -> dict[str, Any]:
    try:
        content = json.loads((target / _MARK).read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
