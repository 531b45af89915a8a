"""Write the code of an experiment to an archive file."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

from determined.errors import InvalidExperimentException
from determined.experiment.files import ExperimentFiles, experiment_dir
from determined.store.experiment_records import Experiment


def write_code_archive(experiment: Experiment, directory: str | os.PathLike[str], name: str) -> Path:
    """Write the experiment's copy of the code to a gzipped tar file and return its path.

    An existing file is replaced when the archive is complete.
    """
    root = None if experiment.is_standalone else experiment_dir(experiment.key)
    code = None if root is None else ExperimentFiles(root).code
    if code is None or not code.is_dir():
        why = "it is a standalone run" if experiment.is_standalone else "its files are not on this machine"
        raise InvalidExperimentException(f"experiment {experiment.id} has no copy of its code: {why}")
    target = Path(directory) / name
    target.parent.mkdir(parents=True, exist_ok=True)
    # The pid separates two commands that write the same archive at once.
    draft = target.with_name(f".{name}-{os.getpid()}")
    try:
        with tarfile.open(draft, "w:gz") as archive:
            archive.add(code, arcname=".", filter=_without_owner)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    return target


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return an archive member without its owner, or None if it is neither a file nor a directory."""
    # Links could point anywhere on the machine that unpacks the archive.
    if not (member.isfile() or member.isdir()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
