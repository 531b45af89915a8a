"""The code of an experiment in one file."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

from determined.errors import InvalidExperimentException
from determined.experiment.files import ExperimentFiles, experiment_dir
from determined.store.experiment_records import Experiment


def write_code_archive(experiment: Experiment, directory: str | os.PathLike[str], name: str) -> Path:
    """What `create` copied, as a gzipped tar file; returns its path. A file of that name is replaced at the end."""
    root = None if experiment.by_hand else experiment_dir(experiment.key)
    code = None if root is None else ExperimentFiles(root).code
    if code is None or not code.is_dir():
        why = "it is a standalone run" if experiment.by_hand else "its files are not on this machine"
        raise InvalidExperimentException(f"experiment {experiment.id} has no copy of its code: {why}")
    target = Path(directory) / name
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{name}-{os.getpid()}")
    try:
        with tarfile.open(draft, "w:gz") as archive:
            archive.add(code, arcname=".", filter=_without_owner)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    return target


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files and directories; who wrote them is nobody's business."""
    if not (member.isfile() or member.isdir()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
