"""Converts events and actions to plain JSON data for the journal of a search, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from determined.config.metric_values import finite_number
from determined.errors import StoreError
from determined.searchers.base import (
    Action,
    Continue,
    Create,
    Event,
    Exited,
    Extended,
    Pause,
    Reopened,
    Stop,
    Validated,
)

_EVENTS: dict[str, type[Event]] = {
    "validated": Validated,
    "exited": Exited,
    "extended": Extended,
    "reopened": Reopened,
}
_ACTIONS: dict[str, type[Action]] = {"create": Create, "continue": Continue, "pause": Pause, "stop": Stop}
_EVENT_NAMES = {kind: name for name, kind in _EVENTS.items()}
_ACTION_NAMES = {kind: name for name, kind in _ACTIONS.items()}


def event_to_plain(event: Event) -> dict[str, Any]:
    """Return an event as plain JSON data."""
    # `vars` and not `asdict`, which would copy the values recursively.
    plain = {"event": _EVENT_NAMES[type(event)], **vars(event)}
    if isinstance(event, Reopened):
        plain["numbers"] = list(event.numbers)
    elif isinstance(event, Validated):  # JSON cannot represent NaN and infinity; searchers treat them as missing
        plain["metric"], plain["time"] = finite_number(event.metric), finite_number(event.time)
    return plain


def event_from_plain(plain: dict[str, Any]) -> Event:
    """Return the event of plain JSON data. Raise `StoreError` for an unknown one."""
    event: Event = _build(_EVENTS, "event", plain)
    return Reopened(tuple(event.numbers)) if isinstance(event, Reopened) else event


def action_to_plain(action: Action) -> dict[str, Any]:
    """Return an action as plain JSON data."""
    plain = {"action": _ACTION_NAMES[type(action)], **vars(action)}
    if isinstance(action, Create):
        plain["rungs"] = list(action.rungs)
    return plain


def action_from_plain(plain: dict[str, Any]) -> Action:
    """Return the action of plain JSON data. Raise `StoreError` for an unknown one."""
    action = _build(_ACTIONS, "action", plain)
    return Create(**{**vars(action), "rungs": tuple(action.rungs)}) if isinstance(action, Create) else action


def actions_from_plain(plain: Sequence[dict[str, Any]]) -> list[Action]:
    """Return the actions of a journal entry."""
    return [action_from_plain(action) for action in plain]


def _build(kinds: dict[str, type[Any]], key: str, plain: dict[str, Any]) -> Any:
    """Return the event or action that plain data describe; raise an error for an unknown kind."""
    fields = dict(plain)
    name = fields.pop(key, None)
    try:
        return kinds[name](**fields)
    # A journal of a newer version, or a damaged one.
    except (KeyError, TypeError) as error:
        raise StoreError(f"the journal of the search contains an unknown {key}: {plain!r}") from error
