"""Determine which files are the code of a standalone program: its directory, or a few files of a shared directory."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from determined.user_code.program import Program

_PROJECT_MARKS = (".git", "pyproject.toml")

# Directories that contain files of many programs.
_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root", "/run"),
    *("/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/local", "/var", "/var/tmp", "/Users", "/Volumes", "/private/tmp"),
)


class CodeRoot(NamedTuple):
    """The directory with a program's code, and the files in it that are known to be used."""

    directory: Path
    in_use: tuple[Path, ...]  # the script, then the modules imported from the same directory
    complete: bool  # whether all other files of the directory belong to the program, too


def code_root(program: Program) -> CodeRoot | None:
    """Return the location of a program's code; None for a test and for code without a file.

    This is the project that contains a script or else its directory, the directory in which `python -m` found the
    module, or the directory of a notebook. In a directory shared by many programs, or in the Python environment,
    only the script and the modules that were imported from the same directory belong to the program; of an installed
    package, only its own modules.
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
    # The directory of an installed package contains all other packages, too: only its own modules count.
    package = program.module.partition(".")[0] if installed and program.module is not None else None
    in_use = dict.fromkeys([program.file, *_imported_from(_beside(program, directory), package)])
    return CodeRoot(directory, tuple(in_use), complete=not installed and not _is_shared(directory))


def _beside(program: Program, directory: Path) -> Path:
    """Return the directory from which imported modules belong to the program: that of the file, or of the package."""
    assert program.file is not None
    return directory if program.kind == "module" else program.file.parent


def _directory_of_module(file: Path, module: str) -> Path:
    """Return the directory that contains the top-level package: `pkg.mod` and `pkg.__main__` are in `pkg`."""
    return file.parents[min(module.count("."), len(file.parents) - 1)]


def _project_around(directory: Path) -> Path:
    """Return the nearest enclosing directory that is a project, or the directory itself."""
    for candidate in (directory, *directory.parents):
        # A home directory may be a repository of dotfiles, which is not the project.
        if _is_shared(candidate):
            break
        if any((candidate / mark).exists() for mark in _PROJECT_MARKS):
            return candidate
    return directory


def _is_shared(directory: Path) -> bool:
    """Return whether a directory is used by many programs: the root, a home, a temporary or a system directory."""
    return (
        directory == Path(directory.anchor)
        or str(directory) in _SYSTEM
        or directory.parent in (Path("/home"), Path("/Users"))
        or directory in (_resolved(place) for place in (tempfile.gettempdir(), os.path.expanduser("~")))
        or _is_home_of_its_owner(directory)
    )


def _is_home_of_its_owner(directory: Path) -> bool:
    """Return whether a directory is the home of the user who owns it, possibly not the current user."""
    try:
        import pwd

        return _resolved(pwd.getpwuid(directory.stat().st_uid).pw_dir) == directory
    # Not available on this system, or a user without an entry, as in containers.
    except (ImportError, KeyError, OSError):
        return False


def _resolved(path: str) -> Path:
    return Path(path).resolve()


def _imported_from(directory: Path, package: str | None) -> list[Path]:
    """Return the source files of modules imported from a directory; with `package`, only of that package."""
    # An entry of sys.path may be a link to the directory.
    places = {str(directory), *(place for place in sys.path if os.path.realpath(place) == str(directory))}
    beginnings = tuple(os.path.join(place, "") for place in places)
    found = []
    # A copy, because another thread may import modules.
    for name, module in sys.modules.copy().items():
        # Not by getattr, because modules that load their parts on demand may do so for any name.
        file = getattr(module, "__dict__", {}).get("__file__")
        # Checked first, because thousands of modules are loaded.
        if not isinstance(file, str) or not file.startswith(beginnings):
            continue
        top, *below = name.split(".")
        if top in ("__main__", "__mp_main__") or (package is not None and top != package):
            continue
        relative = os.path.join(top, *below)
        names = (f"{relative}.py", os.path.join(relative, "__init__.py"))
        if any(file == beginning + name for beginning in beginnings for name in names):
            found.append(Path(file).resolve())
    return sorted(found)
