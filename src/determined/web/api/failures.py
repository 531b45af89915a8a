"""`/api/failures`: failed trials grouped by error, with the hyperparameters that distinguish them."""

from __future__ import annotations

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from determined.experiment.failures import FailureGroup as FoundGroup
from determined.web.answers import Route
from determined.web.identifiers import Id
from determined.web.state import reading, state_of, version

router = APIRouter(route_class=Route)

_MOST_EXPERIMENTS = 1000  # the newest with a failed trial


class SharedHparam(TypedDict):
    """A condition on a hyperparameter that all trials of a group fulfil, and how many of the others do.

    `text` is the condition, such as `lr >= 0.5`; `value` is the part behind the name, or the value itself if all have
    the same.
    """

    name: str
    text: str
    value: str
    in_group: str
    elsewhere: str


class FailureGroup(TypedDict):
    """Trials that failed with the same error at the same place. `command` runs the first of them again.

    `command_note` says which values of the command are masked, and have to be replaced.
    """

    error: str
    example: str
    file: str | None
    line: int | None
    trials: list[int]
    experiments: list[int]
    shared: list[SharedHparam]
    last_lines: list[str]
    command: str | None
    command_note: str | None


class Failures(TypedDict):
    """Failed trials by error, the most frequent error first."""

    version: str
    groups: list[FailureGroup]


@router.get("/api/failures")
def failures(request: Request, experiment: Id | None = None) -> Failures:
    """Return the failed trials of an experiment, or of the newest experiments that have any."""
    seen = version(request)
    with reading(request) as store:
        ids = store.overview.experiments_with_failures(_MOST_EXPERIMENTS) if experiment is None else [experiment]
        groups = state_of(request).failures.of(experiment).groups(store, ids)
    return {"version": seen, "groups": [_group(group) for group in groups]}


def _group(group: FoundGroup) -> FailureGroup:
    """Return a group of failures as it is sent."""
    shared: list[SharedHparam] = [
        {
            "name": one.name,
            "text": one.text,
            "value": one.text.removeprefix(one.name).strip().removeprefix("= "),
            "in_group": f"{one.failed} of {one.failed}",
            "elsewhere": f"{one.others} of {one.other_trials}",
        }
        for one in group.distinctions
    ]
    return {
        "error": group.error,
        "example": group.example,
        "file": group.file,
        "line": group.line,
        "trials": group.trial_ids,
        "experiments": group.experiment_ids,
        "shared": shared,
        "last_lines": group.last_lines,
        "command": group.command,
        "command_note": group.command_note,
    }
