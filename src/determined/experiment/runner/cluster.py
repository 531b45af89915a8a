"""Create the engine of an experiment that runs on a Ray cluster: what its nodes need, and the mark in the storage."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from determined.config.engine import EngineChoice
from determined.engines.ray.engine import Experiment, RayEngine
from determined.engines.ray.versions import versions
from determined.errors import InvalidExperimentException
from determined.experiment.checkpoints.storage_lookup import configured_storage
from determined.experiment.files import ExperimentFiles
from determined.experiment.runner.settings import Settings

_SETUP = "determined.experiment.runner.node_setup:NodeSetup"


@contextmanager
def ray_engine(choice: EngineChoice, key: str, files: ExperimentFiles, settings: Settings) -> Iterator[RayEngine]:
    """Yield an engine for the trials of an experiment on the cluster; raise EngineError if it cannot be reached."""
    if files.place is not None:
        raise InvalidExperimentException(
            f"its trials work in {files.place}, which other machines do not have: create it with a model directory"
        )
    config = settings.config
    storage = configured_storage(config)
    mark = f"det-{uuid.uuid4()}"
    # Every node must find it: a node with another directory of the same name would lose checkpoints.
    storage.write_mark(mark)
    try:
        code = _archive(files)
        data = {
            "config": config.plain,
            "versions": versions(),
            "storage": config.plain["checkpoint_storage"],
            "storage_mark": mark,
            "code_hash": hashlib.sha256(code.read_bytes()).hexdigest(),
        }
        experiment = Experiment(key, _SETUP, data, code)
        single_node = bool(config.resources.is_single_node)
        with RayEngine(choice.address, settings.slots_per_trial, experiment, single_node=single_node) as engine:
            yield engine
    finally:
        storage.delete_mark(mark)


def _archive(files: ExperimentFiles) -> Path:
    """Write the code of an experiment to an archive with the same bytes each time, and return its path."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(files.code.rglob("*")):
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                continue
            member = archive.gettarinfo(path, arcname=path.relative_to(files.code).as_posix())
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = 0
            if path.is_dir():
                archive.addfile(member)
            else:
                with open(path, "rb") as content:
                    archive.addfile(member, content)
    target = files.root / "code.tar"
    draft = target.with_suffix(".new")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(buffer.getvalue())
    os.replace(draft, target)
    return target
