"""Classes for users, workspaces and projects of a cluster, for annotations and `isinstance` only."""

from __future__ import annotations

from typing import Any


class _Nonexistent:
    """Base of classes that cannot be instantiated, because there is no cluster."""

    _why = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(f"{type(self).__name__} cannot be created: {self._why}")


class User(_Nonexistent):
    """A user account of a cluster. Cannot be instantiated."""

    _why = "there are no accounts; the owner of an experiment is the user of this machine"


class Workspace(_Nonexistent):
    """A workspace of a cluster. Cannot be instantiated."""

    _why = "there are no workspaces; use another store for each, or labels"


class Project(_Nonexistent):
    """A project of a workspace. Cannot be instantiated."""

    _why = "there are no projects; use labels"
