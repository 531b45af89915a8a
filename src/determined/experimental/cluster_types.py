"""Classes of a cluster's administration, for annotations and `isinstance`: there are no such objects here."""

from __future__ import annotations

from typing import Any


class _Nonexistent:
    _why = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(f"{type(self).__name__} cannot be made: {self._why}")


class User(_Nonexistent):
    """An account of a cluster."""

    _why = "there are no accounts; the owner of an experiment is the user of this machine"


class Workspace(_Nonexistent):
    """A workspace of a cluster."""

    _why = "there are no workspaces; use another store for each, or labels"


class Project(_Nonexistent):
    """A project of a workspace."""

    _why = "there are no projects; use labels"
