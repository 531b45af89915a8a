"""Events and actions survive the way through the store."""

from __future__ import annotations

import json
import math

import pytest

from determined.errors import StoreError
from determined.searchers import journal
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


@pytest.mark.parametrize(
    "event",
    [Validated(3, 0.1, 64.0), Validated(3, None, None), Exited(0, "invalid_hp"), Extended(20), Reopened((0, 2))],
    ids=repr,
)
def test_events(event: Event) -> None:
    plain = json.loads(json.dumps(journal.event_to_plain(event), allow_nan=False))
    assert journal.event_from_plain(plain) == event


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_becomes_none(bad: float) -> None:
    assert journal.event_from_plain(journal.event_to_plain(Validated(1, bad, bad))) == Validated(1, None, None)


@pytest.mark.parametrize(
    "action",
    [
        Create(0, "id", {"a": [1, {"b": None}]}, 5, 4.0, 1, (4.0, 16.0), 3),
        Create(0, "id", {}, 5, None),
        Continue(1, 16.0),
        Continue(1, None),
        Pause(2),
        Stop(3),
        Stop(3, finished=True),
    ],
    ids=repr,
)
def test_actions(action: Action) -> None:
    plain = json.loads(json.dumps(journal.action_to_plain(action), allow_nan=False))
    assert journal.action_from_plain(plain) == action


@pytest.mark.parametrize("plain", [{"event": "started"}, {}, {"event": "exited", "number": 1}])
def test_what_a_newer_version_wrote_is_named(plain: dict[str, object]) -> None:
    with pytest.raises(StoreError, match="contains an unknown"):
        journal.event_from_plain(plain)
