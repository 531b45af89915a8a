"""Validation of names before they become part of a path.

Ids, keys and file names come from rows, archives and command lines and are untrusted: `../x` or `/x` must not lead a
reader, a deletion or an import of code to another directory.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeGuard

NAME_RULE = "1 to 128 letters, digits, '-' or '_', the first one a letter or a digit"

_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Neither a dot nor a slash, so that a name can neither be `..` nor be hidden nor lead to another directory.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
# Control characters could forge lines in logs and terminals.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def is_name(name: object) -> TypeGuard[str]:
    """Return whether a value is a valid name of a directory entry: the id of a checkpoint, the key of an experiment."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def is_uuid(name: object) -> TypeGuard[str]:
    """Return whether a value is a UUID in lower case with hyphens, the form of checkpoint ids."""
    return isinstance(name, str) and _UUID.fullmatch(name) is not None


def named_entry(root: Path, name: object) -> Path | None:
    """Return the path of an entry in a directory; None if the name is invalid or the entry is a link."""
    if not is_name(name):
        return None
    path = root / name
    # A link could lead to any other directory.
    return None if path.is_symlink() else path


def is_file_name(name: object) -> TypeGuard[str]:
    """Return whether a value is a relative name of a file (with a trailing slash: of a directory) that stays inside.

    Names that mean another place on another system, such as `a\\\\b`, are invalid as well.
    """
    if not isinstance(name, str) or "\\" in name or _CONTROL.search(name):
        return False
    return all(part not in ("", ".", "..") for part in name.removesuffix("/").split("/"))


def is_plain_directory(path: object) -> TypeGuard[str]:
    """Return whether a value is an absolute path without `..`, such as the run directory in a row."""
    return isinstance(path, str) and os.path.isabs(path) and "\0" not in path and ".." not in path.split("/")


def shown(name: object) -> str:
    """Return an invalid name as quoted in a message, limited in length."""
    text = repr(name)
    return text if len(text) <= 200 else text[:200] + "..."
