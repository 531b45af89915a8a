"""Where the trials of a search come from: their hyperparameters, ids and seeds, in the order of creation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from determined.config.hyperparameters import sample_hyperparameters
from determined.config.random_stream import RandomStream
from determined.searchers.grid import Grid

_LARGEST_SEED = 2**31 - 1


@dataclass(frozen=True)
class Draw:
    """What makes a trial itself."""

    hparams: dict[str, Any]
    request_id: str
    seed: int


@dataclass(frozen=True)
class Outcome:
    """How a trial ended for the search. `value` is as reported, None without a usable metric."""

    value: float | None
    time: float | None
    reached_the_end: bool
    failed: bool


class TrialSource(Protocol):
    def draw(self, number: int) -> Draw: ...

    def learn(self, number: int, outcome: Outcome) -> None:
        """A trial is over: methods that learn from results hear of it here."""
        ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...


def with_identity(hparams: dict[str, Any], stream: RandomStream) -> Draw:
    """The order of the draws is part of the format: hyperparameters, then the id, then the seed."""
    return Draw(hparams, stream.uuid(), stream.integer(_LARGEST_SEED))


class RandomSource:
    """Every trial drawn at random from the space."""

    def __init__(self, space: dict[str, Any], seed: int) -> None:
        self._space, self._stream = space, RandomStream(seed)

    def draw(self, number: int) -> Draw:
        return with_identity(sample_hyperparameters(self._space, self._stream), self._stream)

    def learn(self, number: int, outcome: Outcome) -> None:
        pass

    def state(self) -> dict[str, Any]:
        return {"stream": self._stream.state()}

    def restore(self, state: dict[str, Any]) -> None:
        self._stream.restore(state["stream"])


class GridSource:
    """The points of a grid, one after the other."""

    def __init__(self, grid: Grid, seed: int) -> None:
        self._grid, self._stream = grid, RandomStream(seed)

    def draw(self, number: int) -> Draw:
        return with_identity(self._grid[number], self._stream)

    def learn(self, number: int, outcome: Outcome) -> None:
        pass

    def state(self) -> dict[str, Any]:
        return {"stream": self._stream.state()}

    def restore(self, state: dict[str, Any]) -> None:
        self._stream.restore(state["stream"])
