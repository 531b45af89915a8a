"""The code of an experiment: a copy of the model directory, and a working copy of that for each trial."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from determined.errors import InvalidExperimentException
from determined.user_code import copy as code_copy

HOOK = "startup-hook.sh"
# More is data and not code: it would be copied for every trial.
MOST_FILES = 10_000
MOST_BYTES = 2 * 2**30
_SHARED_FROM = 2**20  # files of this size and above are hard links in all trials, to save time and disk space

_LEFT_OUT = [
    ".git/",
    ".idea/",
    ".vscode/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".pytest_cache/",
    "__pycache__/",
    "*.py[co]",
    ".venv/",
    ".terraform/",
    "*.tfstate*",
    "/shared_fs/",
]


@dataclass(frozen=True)
class CodeCopy:
    """The size of a copy of the code, and the files that were skipped although no rule excludes them."""

    files: int
    size: int
    left_out: tuple[str, ...]
    has_hook: bool = False  # whether startup-hook.sh is included


def copy_model_dir(source: Path, include: Sequence[Path], target: Path, leave_out: Iterable[Path]) -> CodeCopy:
    """Copy a model directory without what `.detignore` excludes.

    Raises InvalidExperimentException if a file cannot be read or the directory is too large; nothing is left behind
    then.
    """
    _check_is_directory(source)
    shutil.rmtree(target, ignore_errors=True)
    # The copy may contain secrets that other users of the machine must not read.
    target.mkdir(mode=0o700, parents=True)
    try:
        return _copy([(source, Path()), *_included(source, include)], target, leave_out)
    # BaseException: Ctrl-C during a large copy must not leave half of it.
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def copy_code(code: Path, target: Path) -> CodeCopy:
    """Copy the code of another experiment as it is."""
    try:
        shutil.copytree(code, target)
    # BaseException: also after Ctrl-C no partial copy may stay, which would look like the complete code.
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return _measured(target)


def record_code(source: Path, target: Path, leave_out: Iterable[Path]) -> CodeCopy:
    """Copy the code by the rules for checkpoints: no data, no secrets. The copy is a record and is never run."""
    code_copy.copy_code(source, target, list(leave_out))
    return _measured(target)


def measure_model_dir(source: Path, include: Sequence[Path], leave_out: Iterable[Path]) -> CodeCopy:
    """Return number and size of the files that `copy_model_dir` would copy."""
    _check_is_directory(source)
    left_out: list[str] = []
    taken = list(_taken([(source, Path()), *_included(source, include)], leave_out, left_out))
    has_hook = any(relative == Path(HOOK) for _, relative, _, _ in taken)
    return CodeCopy(len(taken), sum(size for _, _, size, _ in taken), tuple(left_out), has_hook)


def make_work_dir(code: Path, directory: Path) -> Path:
    """Return a trial's working directory with a copy of the code. That of an earlier start is used again."""
    # A restarted trial finds the files that it wrote before.
    if directory.exists():
        return directory
    # Built beside and renamed, so that an interrupted copy is never taken for a complete one.
    draft = directory.with_name(f".{directory.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy_tree(code, draft)
    os.replace(draft, directory)
    return directory


def copy_tree(source: Path, target: Path) -> None:
    """Copy a directory, large files as hard links. Symbolic links stay links, because they may point to much data."""
    shutil.copytree(source, target, copy_function=_copy_or_share, symlinks=True)


def _measured(target: Path) -> CodeCopy:
    """Return the number and total size of the files in a copy."""
    sizes = [path.stat().st_size for path in target.rglob("*") if path.is_file()]
    return CodeCopy(len(sizes), sum(sizes), ())


def _check_is_directory(source: Path) -> None:
    """Raise InvalidExperimentException unless the model directory exists and is a directory."""
    if source.is_file():
        raise InvalidExperimentException(
            f"{source} is a file: give the directory of the code, for example {source.parent}"
        )
    if not source.is_dir():
        raise InvalidExperimentException(f"the model directory {source} does not exist")


def _included(source: Path, include: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """Yield each `--include` path with its place in the copy; raise if it is missing or its name is taken."""
    taken = {entry.name for entry in source.iterdir()}
    for path in include:
        if not path.exists():
            raise InvalidExperimentException(f"--include {path}: there is no such file or directory")
        name = path.resolve().name
        if name in taken:
            raise InvalidExperimentException(f"--include {path}: the model directory has a {name!r} already")
        taken.add(name)
        yield path, Path(name)


def _copy(roots: Iterable[tuple[Path, Path]], target: Path, leave_out: Iterable[Path]) -> CodeCopy:
    """Copy the files of all roots and return their number and size."""
    left_out: list[str] = []
    sizes = []
    for path, relative, size, executable in _taken(roots, leave_out, left_out):
        destination = target / relative
        destination.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            shutil.copyfile(path, destination)
        except PermissionError as error:
            raise InvalidExperimentException(
                f"{path} cannot be read ({error.strerror}): change its mode, or name it in .detignore"
            ) from None
        destination.chmod(0o700 if executable else 0o600)
        sizes.append(size)
    return CodeCopy(len(sizes), sum(sizes), tuple(left_out))


def _taken(
    roots: Iterable[tuple[Path, Path]], leave_out: Iterable[Path], left_out: list[str]
) -> Iterator[tuple[Path, Path, int, bool]]:
    """Yield each file with its place in the copy, its size, and whether it is executable.

    Raise if there are too many.
    """
    # Resolved, since the directory of the store or of checkpoints may be reached through a link.
    forbidden = {os.path.realpath(path) for path in leave_out}
    files = size = 0
    for root, below in roots:
        for path, relative in _entries(root, below, forbidden, left_out):
            # Follows links: a link to a file stands for the file.
            status = path.stat()
            files, size = files + 1, size + status.st_size
            if files > MOST_FILES or size > MOST_BYTES:
                raise InvalidExperimentException(
                    f"the model directory {root} holds more than {MOST_FILES:,} files or {MOST_BYTES // 2**30} GiB "
                    f"(at {relative}): name data in a file .detignore at its top, one pattern a line"
                )
            yield path, relative, status.st_size, bool(status.st_mode & 0o100)


def _entries(root: Path, below: Path, forbidden: set[str], left_out: list[str]) -> Iterator[tuple[Path, Path]]:
    """Yield the files to copy with their place in the copy. A link to a file stands for the file."""
    if not root.is_dir():
        yield root, below
        return
    ignored = _rules(root)
    for directory, subdirectories, names in os.walk(root, onerror=_refuse_unreadable):
        here = Path(directory)
        within = here.relative_to(root)
        for name in list(subdirectories):
            relative = within / name
            if ignored.match_file(f"{relative.as_posix()}/") or os.path.realpath(here / name) in forbidden:
                subdirectories.remove(name)
            # Following it could copy a data set, or never end.
            elif (here / name).is_symlink():
                subdirectories.remove(name)
                left_out.append(f"{relative} (a link to a directory)")
        # In a fixed order, so that errors and limits always name the same file.
        subdirectories.sort()
        for name in sorted(names):
            relative = within / name
            if ignored.match_file(relative.as_posix()) or os.path.realpath(here / name) in forbidden:
                continue
            reason = _reason_not_to_copy(here / name)
            if reason is None:
                yield here / name, below / relative
            else:
                left_out.append(f"{relative} ({reason})")


def _rules(root: Path) -> Any:
    """Return the exclusion rules of `.detignore` and the built-in ones."""
    # Imported when a directory is copied: it takes milliseconds that most commands do not need.
    from pathspec import GitIgnoreSpec

    try:
        own = (root / ".detignore").read_text(errors="replace").splitlines()
    except FileNotFoundError:
        own = []
    # The built-in rules come last, so that a `!` rule of the user cannot include these again.
    return GitIgnoreSpec.from_lines([*own, *_LEFT_OUT])


def _reason_not_to_copy(path: Path) -> str | None:
    """Return why a path cannot be copied, or None."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "a link to nothing"
    except OSError as error:
        return error.strerror or str(error)
    return None if stat.S_ISREG(mode) else "neither a file nor a directory"


def _refuse_unreadable(error: OSError) -> None:
    """Raise InvalidExperimentException for an unreadable directory: a part of the code would be missing."""
    raise InvalidExperimentException(
        f"the directory {error.filename} cannot be read ({error.strerror}): change its mode, or name it in .detignore"
    ) from None


def _copy_or_share(source: str, target: str) -> str:
    """Copy a file; large files become read-only hard links."""
    status = os.stat(source)
    # The kernel may forbid hard links to other users' files.
    if status.st_size >= _SHARED_FROM and status.st_uid == os.geteuid():
        os.link(source, target)
        # Read-only, because a change in one trial would change the file for all trials.
        os.chmod(target, status.st_mode & 0o500)
        return target
    return shutil.copy2(source, target)
