"""The interface of a search method: the model of its `searcher` block with what it does with the settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from determined.config.blocks.searcher import SearcherBlock
from determined.searchers.base import Searcher
from determined.searchers.halving.brackets import Bracket


@dataclass(frozen=True)
class Outline:
    """The expected course of a search.

    `plan` is (time, expected number of trials that end there); `units` the total time units. `at_once` 0 means limited
    by slots only. `time_metric` and `units` are None if trials run to their own end.
    """

    trials: int
    at_once: int
    brackets: tuple[Bracket, ...] = ()
    plan: tuple[tuple[int, int], ...] = ()
    time_metric: str | None = None
    units: int | None = None
    warnings: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()


class Method(SearcherBlock, ABC):
    """A search method with its settings. Each is registered in `determined/config/registry/search_methods.py`."""

    # Whether the user can increase the number of trials follows from the fields: a method with `max_trials` accepts the
    # event `Extended`, and one without it refuses it with a reason.

    # Advice for a user who continues an ended search that has nothing left to do.
    to_continue: ClassVar[str] = "all its trials have ended; give it more with --config searcher.max_trials=N"

    @abstractmethod
    def build(self, space: dict[str, Any], seed: int) -> Searcher:
        """Return a new searcher over a space of hyperparameters. The same arguments always build the same one."""

    @abstractmethod
    def outline(self, space: dict[str, Any], *, slots: int | None, validation_period: float | None) -> Outline:
        """Return the expected course of the search, with warnings and suggestions.

        `slots` is the number of slots of the machine, and `validation_period` the time between two validations of a
        program that decides itself when to validate. Each is None if it is not known.
        """


def method_of(searcher: SearcherBlock) -> Method:
    """Return a validated `searcher` block, typed as `Method`: the block of each search method is a subclass of it."""
    assert isinstance(searcher, Method), f"{type(searcher).__name__} is not a search method"
    return searcher
