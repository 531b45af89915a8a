"""Sources of trials: they provide hyperparameters, ids and seeds in the order of creation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from determined.config.hyperparameters import sample_hyperparameters
from determined.config.random_stream import RandomStream
from determined.searchers.grid import Grid

_LARGEST_SEED = 2**31 - 1  # valid as a seed for Python, numpy and torch alike


@dataclass(frozen=True)
class Draw:
    """The values that define a trial."""

    hparams: dict[str, Any]
    request_id: str
    seed: int


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial for the search. `value` is the metric as reported, or None without a finite one."""

    value: float | None
    time: float | None
    reached_the_end: bool
    failed: bool


class TrialSource(Protocol):
    """A source of trials for a search."""

    def draw(self, number: int) -> Draw:
        """Return the hyperparameters and the seed of the trial with this number."""
        ...

    def learn(self, number: int, outcome: Outcome) -> None:
        """Receive the outcome of a trial, for sources that learn from results."""
        ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None:
        """Continue with a state that `state` returned."""
        ...


def with_identity(hparams: dict[str, Any], stream: RandomStream) -> Draw:
    """Return hyperparameters with an id and a seed drawn from the stream.

    The order of the draws (hyperparameters, id, seed) must not change: searches that are resumed or repeated would
    otherwise get other values.
    """
    return Draw(hparams, stream.uuid(), stream.integer(_LARGEST_SEED))


class _StreamSource:
    """The part of a source whose only state is a stream of random numbers: it learns nothing from results."""

    def __init__(self, seed: int) -> None:
        self._stream = RandomStream(seed)

    def learn(self, number: int, outcome: Outcome) -> None:
        pass

    def state(self) -> dict[str, Any]:
        return {"stream": self._stream.state()}

    def restore(self, state: dict[str, Any]) -> None:
        self._stream.restore(state["stream"])


class RandomSource(_StreamSource):
    """A source that samples every trial at random from the space."""

    def __init__(self, space: dict[str, Any], seed: int) -> None:
        super().__init__(seed)
        self._space = space

    def draw(self, number: int) -> Draw:
        return with_identity(sample_hyperparameters(self._space, self._stream), self._stream)


class GridSource(_StreamSource):
    """A source that returns the points of a grid in order."""

    def __init__(self, grid: Grid, seed: int) -> None:
        super().__init__(seed)
        self._grid = grid

    def draw(self, number: int) -> Draw:
        # By number and not by a counter, so that a restored source needs no position.
        return with_identity(self._grid[number], self._stream)
