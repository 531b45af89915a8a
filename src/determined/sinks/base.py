"""The `Sink` interface, and the events that a sink receives."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from determined.config.metric_values import is_finite
from determined.store.states import EndState

# The last step of each metric group that a service has. A resumed trial repeats steps, which are not sent again.
Known = dict[str, int]


@dataclass(frozen=True)
class Begin:
    """The start of an attempt. The key identifies the run in the service, so that a later attempt continues it."""

    key: str
    name: str
    experiment: str
    experiment_id: int
    trial_id: int
    description: str
    labels: tuple[str, ...]
    hparams: dict[str, Any]  # without secrets, like the configuration
    config: dict[str, Any]
    directory: str  # of this attempt, for files that the service's client writes


@dataclass(frozen=True)
class Report:
    """The metrics of a group at a step."""

    group: str
    steps_completed: int
    body: str  # a JSON object
    reported: float

    def values(self) -> dict[str, float]:
        """Return the numeric metrics, each named `group/name`."""
        return dict(_numbers(self.group, json.loads(self.body)))


@dataclass(frozen=True)
class CheckpointReference:
    """A stored checkpoint: its id and where it is stored. Its files are not sent."""

    checkpoint_id: str
    steps_completed: int
    storage: str


@dataclass(frozen=True)
class End:
    """The end of an attempt, as reported by the attempt."""

    state: EndState


Event = Begin | Report | CheckpointReference | End


class Sink(Protocol):
    """A tracking service. Each is registered in `determined/config/registry/sinks.py`.

    It is made with its `Settings`, the model of its field in the `sinks` block. All calls come from one thread; after
    any exception the same call is retried later.
    """

    @property
    def name(self) -> str: ...

    @property
    def Settings(self) -> type[Any]:
        """Return the class of the settings of this sink."""
        ...

    @abstractmethod
    def open(self, begin: Begin) -> Known:
        """Create the run in the service, or continue the one with the same key. Return the last steps that it has."""
        ...

    @abstractmethod
    def send(self, events: Sequence[Report | CheckpointReference]) -> None:
        """Send reports and references to checkpoints, in their order."""
        ...

    @abstractmethod
    def end(self, state: EndState) -> None:
        """Report the end of the attempt."""
        ...

    @abstractmethod
    def abandon(self) -> None:
        """Stop everything that could delay the end of the process.

        Time has run out, and a call may still be running.
        """
        ...


def last_steps(events: Sequence[Report | CheckpointReference]) -> Known:
    """Return the largest step of each group among the reports."""
    last: Known = {}
    for event in events:
        if isinstance(event, Report):
            last[event.group] = max(event.steps_completed, last.get(event.group, 0))
    return last


def _numbers(prefix: str, metrics: dict[str, Any]) -> list[tuple[str, float]]:
    """Return the metrics that are numbers, also from nested maps, as (`prefix/name`, value); booleans are 0 or 1."""
    found: list[tuple[str, float]] = []
    for name, value in metrics.items():
        if isinstance(value, dict):
            found += _numbers(f"{prefix}/{name}", value)
        # An integer beyond the range of a float cannot be sent as a number.
        elif isinstance(value, (bool, float)) or is_finite(value):
            found.append((f"{prefix}/{name}", float(value)))
    return found
