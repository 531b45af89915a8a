"""`/api/actions`: everything that changes something. Each action calls the function that its `det` command calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from typing_extensions import TypedDict

from determined.config.secrets.masking import mask_secrets
from determined.errors import DeterminedError, StoreReadOnly, StoreUnavailable
from determined.web.actions.requests import ActionRequest
from determined.web.answers import Route
from determined.web.state import reading, state_of

if TYPE_CHECKING:
    from determined.experiment.deletion_plan import DeletionPlan
    from determined.web.actions.carrying_out import Done, Target

# The code that carries out actions is imported by the first one: it takes longer to import than the rest of the server.

router = APIRouter(route_class=Route)


class ActionResult(TypedDict):
    """The result of an action for one id. `created` is the id of a new experiment."""

    id: int | str
    ok: bool
    message: str
    created: int | None


class ActionResults(TypedDict):
    """The results of an action, for each id in the order of the request."""

    results: list[ActionResult]


class PreviewItem(TypedDict):
    """Something that would be deleted."""

    name: str
    bytes: int


class Preview(TypedDict):
    """The expected effect of an action, for the dialog that asks the user to confirm it."""

    text: str
    items: list[PreviewItem]
    bytes: int
    refused: list[str]


@router.post("/api/actions")
def act(request: Request, body: ActionRequest) -> ActionResults:
    """Carry out an action, or request it from the process that runs the experiment."""
    from determined.web.actions.carrying_out import Target

    act_on = _function(body)
    connections = state_of(request).connections
    results: list[ActionResult] = []
    ids: list[int | str] = list(dict.fromkeys(body.ids))
    with connections.writing() as store:
        target = Target(store, connections.place)
        for one in ids:
            try:
                done = act_on(target, one, body.options)
            except (StoreUnavailable, StoreReadOnly):
                raise  # the other ids would fail in the same way
            except (DeterminedError, OSError) as error:
                text = str(mask_secrets(str(error) or type(error).__name__))
                results.append({"id": one, "ok": False, "message": text, "created": None})
            else:
                results.append({"id": one, "ok": True, "message": done.message, "created": done.created})
    return {"results": results}


@router.post("/api/actions/preview")
def preview(request: Request, body: ActionRequest) -> Preview:
    """Return what a deletion would delete, with sizes, and the reasons that prevent it."""
    from determined.experiment.deletion_plan import plan_checkpoint_deletion, plan_experiment_deletion

    _function(body)
    with reading(request) as store:
        if body.action == "delete":
            plans = [plan_experiment_deletion(store, one) for one in dict.fromkeys(body.ids) if isinstance(one, int)]
        elif body.action == "delete_checkpoint":
            plans = [plan_checkpoint_deletion(store, [str(one) for one in body.ids])]
        else:
            raise HTTPException(422, "action: only deletions have a preview")
    return _preview(plans)


def _function(body: ActionRequest) -> Callable[[Target, Any, Any], Done]:
    """Return the function of an action, after checking that its ids are of the right kind."""
    from determined.web.actions.carrying_out import ON_CHECKPOINTS, ON_NUMBERS

    wanted: type = str if body.action in ON_CHECKPOINTS else int
    if not all(isinstance(one, wanted) for one in body.ids):
        raise HTTPException(422, f"ids: {body.action} expects {'texts' if wanted is str else 'numbers'}")
    return ON_CHECKPOINTS[body.action] if body.action in ON_CHECKPOINTS else ON_NUMBERS[body.action]


def _preview(plans: list[DeletionPlan]) -> Preview:
    """Return one preview of several planned deletions."""
    items: list[PreviewItem] = [{"name": part.name, "bytes": part.size} for plan in plans for part in plan.parts]
    return {
        "text": "\n".join(plan.question for plan in plans),
        "items": items,
        "bytes": sum(item["bytes"] for item in items),
        "refused": [reason for plan in plans for reason in plan.refused],
    }
