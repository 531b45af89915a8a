"""The code of an experiment as one archive, the form in which it travels to other machines."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from determined.errors import EngineError
from determined.experiment.code.directories import MOST_BYTES, MOST_FILES

# Directories have no size, so that a small archive could contain millions of them.
_MOST_DIRECTORIES = 10 * MOST_FILES


@dataclass
class _Size:
    """Counts what an archive contains, in the same way when it is written and when it is read."""

    files: int = 0
    directories: int = 0
    size: int = 0

    def add(self, member: tarfile.TarInfo) -> None:
        """Count a member; raise EngineError if the archive is larger than a model directory can be."""
        if member.isdir():
            self.directories += 1
        else:
            self.files, self.size = self.files + 1, self.size + member.size
        if self.files > MOST_FILES or self.directories > _MOST_DIRECTORIES or self.size > MOST_BYTES:
            raise EngineError("the archive of the code exceeds the limits of a model directory")


def pack_code(code: Path, target: Path) -> str:
    """Write the files and directories of an experiment's code to an archive, and return the hash of the archive.

    The same code has the same hash. Links and special files are left out.
    """
    size = _Size()
    with open(os.open(target, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w+b") as file:
        # `dereference`: otherwise files with several hard links become links inside the archive.
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT, dereference=True) as archive:
            for path in sorted(code.rglob("*")):
                if path.is_symlink() or not (path.is_file() or path.is_dir()):
                    continue
                member = archive.gettarinfo(path, arcname=path.relative_to(code).as_posix())
                member.uid = member.gid = 0
                member.uname = member.gname = ""
                member.mtime = 0
                size.add(member)
                if member.isdir():
                    archive.addfile(member)
                else:
                    with open(path, "rb") as content:
                        archive.addfile(member, content)
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack_code(archive: bytes, target: Path) -> None:
    """Unpack an archive of code: regular files and directories only, with limits. Nothing is left after an error."""
    draft = target.with_name(f".{target.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700, parents=True)
    size = _Size()
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as members:
            for member in members:
                path = _checked_path(draft, member)
                size.add(member)
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
    # BaseException: also after Ctrl-C no partial copy may stay.
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _checked_path(root: Path, member: tarfile.TarInfo) -> Path:
    """Return where to unpack a member; raise EngineError if it is a link or leads out of the directory."""
    parts = PurePosixPath(member.name).parts
    if not (member.isfile() or member.isdir()) or member.name.startswith("/") or ".." in parts:
        raise EngineError(f"the archive of the code contains {member.name!r}, which is no file below its directory")
    return root.joinpath(*parts)
