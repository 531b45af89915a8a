"""`NodeSetup`: prepares another machine to run the trials of an experiment. Runs there, in the actor of the node."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from determined.checkpoint_storage.build import build_from_config
from determined.config.stored import StoredConfig
from determined.engines.base import Interpreter, Job
from determined.engines.ray.versions import versions
from determined.errors import DeterminedError, EngineError
from determined.experiment.code import startup_hook
from determined.experiment.code.directories import MOST_BYTES, MOST_FILES, make_work_dir
from determined.experiment.files import ExperimentFiles


class NodeSetup:
    """The files of one experiment on a node, below `root`, which belongs to this node and experiment only."""

    def __init__(self, data: Mapping[str, Any], root: Path, code: bytes, environment: Mapping[str, str]) -> None:
        self._data, self._code, self._environment = data, code, environment
        self._files = ExperimentFiles(root)
        self._config = StoredConfig(data["config"])
        self._hook: startup_hook.PreparedHook | None = None

    def prepare(self) -> Interpreter | None:
        """Compare versions, find the runner's mark in the checkpoint storage, unpack the code, run the startup hook."""
        self._check_versions()
        self._check_storage()
        self._files.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hashlib.sha256(self._code).hexdigest() != self._data["code_hash"]:
            raise EngineError("the code of the experiment was damaged on its way to this node")
        unpack_code(self._code, self._files.code)
        self._code = b""
        self._hook = startup_hook.prepare(self._files, self._config)
        return None if self._hook is None else self._hook.interpreter()

    def place(self, job: Job) -> Job:
        """Return the job in its working directory on this node; `job.directory` is the id of its trial."""
        hook, trial = self._hook, int(job.directory.name)
        code = self._files.code if hook is None else hook.work
        directory = make_work_dir(code, self._files.work_dir(trial))
        if hook is None:
            return replace(job, directory=directory)
        environment = {**hook.variables(self._config, directory), **job.environment}
        return replace(job, directory=hook.inside(directory), environment=environment)

    def _check_versions(self) -> None:
        here, there = versions(), self._data["versions"]
        different = [f"{name} {here[name]} instead of {there[name]}" for name in here if here[name] != there[name]]
        if different:
            raise EngineError(f"it has {', '.join(different)}; install the versions of the runner's machine there")

    def _check_storage(self) -> None:
        """Raise EngineError if this node does not see the checkpoint storage of the runner."""
        block, mark = self._data["storage"], self._data["storage_mark"]
        try:
            storage = build_from_config(block)
            found = storage.has_mark(mark)
        except (DeterminedError, OSError) as error:
            raise EngineError(f"it cannot read the checkpoint storage: {error}") from error
        if not found:
            raise EngineError(
                f"its {storage.name} is not the checkpoint storage of the runner: set checkpoint_storage to a "
                "directory that all nodes share, or to an object store"
            )


def unpack_code(archive: bytes, target: Path) -> None:
    """Unpack an archive of code: regular files and directories only, with limits. Nothing is left after an error."""
    draft = target.with_name(f".{target.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700, parents=True)
    files = size = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as members:
            for member in members:
                path = _checked_path(draft, member)
                files, size = files + 1, size + member.size
                if files > MOST_FILES or size > MOST_BYTES:
                    raise EngineError("the archive of the code exceeds the limits of a model directory")
                if member.isdir():
                    path.mkdir(mode=0o700, parents=True, exist_ok=True)
                    continue
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                mode = 0o700 if member.mode & 0o100 else 0o600
                content = members.extractfile(member)
                assert content is not None  # a regular file
                # O_EXCL and O_NOFOLLOW: nothing that exists is written to, and no link is followed.
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
                with open(descriptor, "wb") as file:
                    shutil.copyfileobj(content, file)
        os.replace(draft, target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _checked_path(root: Path, member: tarfile.TarInfo) -> Path:
    """Return where to unpack a member; raise EngineError if it is a link or leads out of the directory."""
    parts = PurePosixPath(member.name).parts
    if not (member.isfile() or member.isdir()) or member.name.startswith("/") or ".." in parts:
        raise EngineError(f"the archive of the code contains {member.name!r}, which is no file below its directory")
    return root.joinpath(*parts)
