"""Unpack an archive into a private directory; nothing is used before everything was checked."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from determined.checkpoint_storage.outputs import is_output_id
from determined.errors import StoreError
from determined.experiment.code.directories import MOST_BYTES, MOST_FILES
from determined.experiment.moving.archive import ROWS, ArchiveReader, Member
from determined.names import is_name, is_uuid, shown

_CONFIG = re.compile(r"config(-[0-9]{1,18})?\.json")


@dataclass
class Unpacked:
    """The contents of an unpacked archive: each checkpoint, output, experiment and run is at `<root>/<kind>/<id>`."""

    root: Path
    checkpoints: set[str] = field(default_factory=set)
    outputs: set[str] = field(default_factory=set)
    experiments: set[str] = field(default_factory=set)  # keys of experiments
    runs: set[str] = field(default_factory=set)  # names of run directories
    default_storage: object = None  # default checkpoint directory of the exporting machine

    @property
    def rows(self) -> Path:
        """Return the file with the exported rows."""
        return self.root / ROWS


def unpack(
    source: Path, root: Path, *, private: bool, on_rows: Callable[[Path], None], progress: Callable[[int], None]
) -> Unpacked:
    """Unpack all members below `root` and compare their hashes.

    `on_rows` is called when the file with the rows, which comes first, is unpacked; it may raise. With `private`
    checkpoints and outputs are readable by their owner only; otherwise the umask decides, as for those that a run
    stores.
    """
    reader, unpacked = ArchiveReader(source), Unpacked(root)
    code = dict[str, tuple[int, int]]()
    for number, member in enumerate(reader.members()):
        # The rows come first, so that an archive of known experiments is refused before its gigabytes are unpacked.
        if (number == 0) != (member.name == ROWS):
            raise StoreError(f"{source} is damaged, and nothing was imported: {ROWS} is not its first file")
        kind = _checked(member, unpacked, code, source)
        _write(reader, member, root, source, private=private or kind not in ("checkpoints", "outputs"))
        if number == 0:
            on_rows(root / ROWS)
        progress(number)
    unpacked.default_storage = reader.header.get("checkpoints_dir")
    return unpacked


def _checked(member: Member, unpacked: Unpacked, code: dict[str, tuple[int, int]], source: Path) -> str:
    """Return the kind of a member after checking its name: an id of that kind, then a file name below it."""
    if member.name == ROWS and not member.is_directory:
        return ROWS
    kind, _, rest = member.name.partition("/")
    identity, _, below = rest.partition("/")
    # Each kind has its own rule for ids, the same as for new objects.
    kinds: dict[str, tuple[Callable[[object], bool], set[str]]] = {
        "checkpoints": (is_uuid, unpacked.checkpoints),
        "outputs": (is_output_id, unpacked.outputs),
        "experiments": (is_name, unpacked.experiments),
        "runs": (is_name, unpacked.runs),
    }
    known = kinds.get(kind)
    wrong = known is None or not known[0](identity)
    # Of an experiment only the code and its configurations are accepted, and of a run only its code.
    if kind in ("experiments", "runs") and below.split("/")[0] != "code":
        wrong = wrong or kind == "runs" or member.is_directory or not _CONFIG.fullmatch(below)
    if wrong or (not below and not member.is_directory):
        raise StoreError(
            f"{source} is damaged, and nothing was imported: {shown(member.name)} is no allowed file of an experiment"
        )
    assert known is not None
    known[1].add(identity)
    if below.startswith("code/"):
        files, size = code.get(rest.split("/")[0], (0, 0))
        code[identity] = files, size = files + 1, size + member.size
        # The limits for new experiments, so that an archive is no way around them.
        if files > MOST_FILES or size > MOST_BYTES:
            raise StoreError(
                f"{source}: the code of {kind} {identity} has more than {MOST_FILES:,} files or {MOST_BYTES // 2**30} "
                "GiB; nothing was imported"
            )
    return kind


def _write(reader: ArchiveReader, member: Member, root: Path, source: Path, *, private: bool) -> None:
    """Write a member to the private directory."""
    path = root / member.name
    try:
        if member.is_directory:
            path.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
            return
        path.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        mode = (0o700 if private else 0o777) if member.is_executable else (0o600 if private else 0o666)
        # O_EXCL and O_NOFOLLOW: nothing that exists is written to, and no link is followed.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise StoreError(
            f"{source} is damaged, and nothing was imported: {shown(member.name)} is a file and a directory"
        ) from None
    with open(descriptor, "wb") as file:
        reader.copy(member, file)
