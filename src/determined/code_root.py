"""Which files are the code of a program that runs standalone: its directory, or a few files of a shared directory."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from determined.program import Program

_PROJECT_MARKS = (".git", "pyproject.toml")

# Directories of the system, which hold the files of many programs.
_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root", "/run"),
    *("/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/local", "/var", "/var/tmp", "/Users", "/Volumes", "/private/tmp"),
)


class CodeRoot(NamedTuple):
    """The directory with a program's code, and the files in it that are known to be in use."""

    directory: Path
    in_use: tuple[Path, ...]  # the script first, then the modules imported from beside it
    complete: bool  # whether the other files of the directory belong to the program as well


def code_root(program: Program) -> CodeRoot | None:
    """Return where the program's code is; None for a test, and for code that was typed in.

    That is the project around a script or its directory, the directory that `python -m` found the module in, or the
    directory of a notebook. Of a directory shared by many programs only the script and the modules that were imported
    from beside it belong to the program.
    """
    if program.file is None or program.kind == "test":
        return None
    if program.kind == "module":
        directory = _directory_of_module(program.file, program.module or "")
    elif program.kind == "notebook":
        directory = program.file.parent
    else:
        directory = _project_around(program.file.parent)
    installed = directory.is_relative_to(Path(sys.prefix).resolve())
    # Beside an installed package are all the others: its own modules count alone.
    package = program.module.partition(".")[0] if installed and program.module is not None else None
    in_use = dict.fromkeys([program.file, *_imported_from(_beside(program, directory), package)])
    return CodeRoot(directory, tuple(in_use), complete=not installed and not _is_shared(directory))


def _beside(program: Program, directory: Path) -> Path:
    """Return the directory whose modules count as imported from beside the program."""
    assert program.file is not None
    return directory if program.kind == "module" else program.file.parent


def _directory_of_module(file: Path, module: str) -> Path:
    """Return the directory that contains the top-level package: `pkg.mod` and `pkg.__main__` are in `pkg`."""
    return file.parents[min(module.count("."), len(file.parents) - 1)]


def _project_around(directory: Path) -> Path:
    """Return the nearest directory around it that is a project, or the directory itself."""
    for candidate in (directory, *directory.parents):
        # A home directory may be a repository of settings: the project does not reach so far.
        if _is_shared(candidate):
            break
        if any((candidate / mark).exists() for mark in _PROJECT_MARKS):
            return candidate
    return directory


def _is_shared(directory: Path) -> bool:
    """Whether a directory holds more than one program: the root, a home, one for temporary files or of the system."""
    return (
        directory == Path(directory.anchor)
        or str(directory) in _SYSTEM
        or directory.parent in (Path("/home"), Path("/Users"))
        or directory in (_resolved(place) for place in (tempfile.gettempdir(), os.path.expanduser("~")))
        or _is_home_of_its_owner(directory)
    )


def _is_home_of_its_owner(directory: Path) -> bool:
    """Whether it is the home of the user who owns it, who may be another one than the user of this process."""
    try:
        import pwd

        return _resolved(pwd.getpwuid(directory.stat().st_uid).pw_dir) == directory
    except (ImportError, KeyError, OSError):  # not on this system; a user without an entry, as in containers
        return False


def _resolved(path: str) -> Path:
    return Path(path).resolve()


def _imported_from(directory: Path, package: str | None) -> list[Path]:
    """Return the source files of modules that were imported from a directory; with `package`, of this package alone."""
    # A path for imports may lead to the directory through a link.
    places = {str(directory), *(place for place in sys.path if os.path.realpath(place) == str(directory))}
    beginnings = tuple(os.path.join(place, "") for place in places)
    found = []
    for name, module in sys.modules.copy().items():
        file = getattr(module, "__dict__", {}).get("__file__")
        if not isinstance(file, str) or not file.startswith(beginnings):  # first: thousands of modules are loaded
            continue
        top, *below = name.split(".")
        if top in ("__main__", "__mp_main__") or (package is not None and top != package):
            continue
        relative = os.path.join(top, *below)
        names = (f"{relative}.py", os.path.join(relative, "__init__.py"))
        if any(file == beginning + name for beginning in beginnings for name in names):
            found.append(Path(file).resolve())
    return sorted(found)
