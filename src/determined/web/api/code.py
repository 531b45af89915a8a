"""`/api/experiments/{id}/code`: the code of an experiment, and how it differs from that of another one."""

from __future__ import annotations

import tempfile
from typing import Literal

from fastapi import APIRouter, Request, Response
from typing_extensions import TypedDict

from determined.errors import InvalidExperimentException
from determined.experiment.code import reading as code_reading
from determined.experiment.code.archive import write_code_archive
from determined.sentences import capitalized
from determined.web.answers import Route, attachment
from determined.web.identifiers import Id
from determined.web.state import reading

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
def code(request: Request, experiment_id: Id) -> CodeFiles:
    """Return the files of an experiment's code."""
    with reading(request) as store:
        experiment = store.experiments.get(experiment_id)
        try:
            found = code_reading.code_of(store, experiment)
        except InvalidExperimentException as error:
            return {"files": [], "note": f"{capitalized(str(error))}."}
    files = code_reading.list_files(found)
    note = " ".join(filter(None, [found.note, code_reading.cut_note(files)])) or None
    return {"files": [{"path": file.path, "bytes": file.size} for file in files], "note": note}


@router.get("/api/experiments/{experiment_id}/code/file")
def file(request: Request, experiment_id: Id, path: str) -> FileText:
    """Return the text of a file of an experiment's code."""
    with reading(request) as store:
        found = code_reading.code_of(store, store.experiments.get(experiment_id))
    text, size, note = code_reading.text_of(found, path)
    return {"text": text, "bytes": size, "note": note}


@router.get("/api/experiments/{experiment_id}/code/diff")
def difference(request: Request, experiment_id: Id, other: Id) -> CodeDifference:
    """Return how the code of an experiment differs from that of another one."""
    with reading(request) as store:
        try:
            own, others = (code_reading.code_of(store, store.experiments.get(one)) for one in (experiment_id, other))
        except InvalidExperimentException as error:
            return {"files": [], "note": f"{capitalized(str(error))}."}
    found = code_reading.compare_code(own, others)
    same = None if found else f"The code is that of experiment {other}."
    cut = next(filter(None, (code_reading.cut_note(code_reading.list_files(one)) for one in (own, others))), None)
    return {
        "files": [{"path": one.path, "status": one.status, "diff": one.diff} for one in found],
        "note": " ".join(filter(None, [same, cut])) or None,
    }


@router.get(
    "/api/experiments/{experiment_id}/code/archive",
    response_class=Response,
    responses={200: {"content": {"application/gzip": {}}}},
)
def archive(request: Request, experiment_id: Id) -> Response:
    """Return the code of a search as a gzipped tar file, as `det experiment download-model-def` writes it."""
    with reading(request) as store:
        experiment = store.experiments.get(experiment_id)
    name = f"experiment_{experiment_id}_model_def.tgz"
    with tempfile.TemporaryDirectory(prefix="det-ui-") as directory:
        content = write_code_archive(experiment, directory, name).read_bytes()
    return attachment(content, name, "application/gzip")
