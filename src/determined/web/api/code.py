"""`/api/experiments/{id}/code`: the code of an experiment, and how it differs from that of another one."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from determined.web.answers import Route, not_yet

router = APIRouter(route_class=Route)


class CodeFile(TypedDict):
    """A file of an experiment's code."""

    path: str
    bytes: int


class CodeFiles(TypedDict):
    """The files of an experiment's code. `note` says why there are none, or which code it is."""

    files: list[CodeFile]
    note: str | None


class FileText(TypedDict):
    """The text of a file; null, with a note, if it is too large or no text."""

    text: str | None
    bytes: int
    note: str | None


class FileDifference(TypedDict):
    """A file that differs between two experiments. `diff` is in the unified format."""

    path: str
    status: Literal["added", "removed", "changed"]
    diff: str


class CodeDifference(TypedDict):
    """The files that differ from those of another experiment."""

    files: list[FileDifference]
    note: str | None


@router.get("/api/experiments/{experiment_id}/code")
def code(request: Request, experiment_id: int) -> CodeFiles:
    """Return the files of an experiment's code."""
    raise not_yet()


@router.get("/api/experiments/{experiment_id}/code/file")
def file(request: Request, experiment_id: int, path: str) -> FileText:
    """Return the text of a file of an experiment's code."""
    raise not_yet()


@router.get("/api/experiments/{experiment_id}/code/diff")
def difference(request: Request, experiment_id: int, other: int) -> CodeDifference:
    """Return how the code of an experiment differs from that of another one."""
    raise not_yet()
