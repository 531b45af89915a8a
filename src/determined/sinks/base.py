"""What a sink is told, as plain values, and what every sink offers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from determined.config.measures import finite_number

EndState = Literal["running", "completed", "stopped", "failed"]

# Which step of each group a service has already: what a resumed trial goes through again is not sent twice.
Known = dict[str, int]


@dataclass(frozen=True)
class Begin:
    """An attempt of a trial begins: with the same key it is the same run in the service."""

    key: str
    name: str
    experiment: str
    experiment_id: int
    trial_id: int
    description: str
    labels: tuple[str, ...]
    hparams: dict[str, Any]  # without secrets, as the configuration
    config: dict[str, Any]
    directory: str  # of this attempt, for what a client writes


@dataclass(frozen=True)
class Report:
    """Metrics of a group after so many steps."""

    group: str
    steps_completed: int
    body: str  # a JSON object
    reported: float

    def values(self) -> dict[str, float]:
        """The numbers in it, each with its group before its name."""
        return dict(_numbers(self.group, json.loads(self.body)))


@dataclass(frozen=True)
class CheckpointReference:
    """A checkpoint was stored: which one, and where; its files stay there."""

    uuid: str
    steps_completed: int
    storage: str


@dataclass(frozen=True)
class End:
    """The attempt is over, by its own word."""

    state: EndState


Event = Begin | Report | CheckpointReference | End


class Sink(Protocol):
    """One service. Its thread makes all calls; any exception means that the same call is made again later."""

    @property
    def name(self) -> str: ...

    def open(self, begin: Begin) -> Known:
        """Create the run in the service, or continue the one with the same key."""
        ...

    def send(self, events: Sequence[Report | CheckpointReference]) -> None: ...

    def end(self, state: EndState) -> None: ...

    def abandon(self) -> None:
        """There is no more time, and a call may still be under way: leave nothing that holds up the process."""
        ...


def last_steps(events: Sequence[Report | CheckpointReference]) -> Known:
    """The furthest of each group."""
    last: Known = {}
    for event in events:
        if isinstance(event, Report):
            last[event.group] = max(event.steps_completed, last.get(event.group, 0))
    return last


def _numbers(prefix: str, metrics: dict[str, Any]) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in metrics.items():
        if isinstance(value, dict):
            found += _numbers(f"{prefix}/{name}", value)
        elif isinstance(value, (bool, float)) or finite_number(value) is not None:
            found.append((f"{prefix}/{name}", float(value)))
    return found
