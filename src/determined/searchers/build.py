"""Builds the searcher that a configuration names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from determined.searchers.base import Searcher
from determined.searchers.method import method_of

if TYPE_CHECKING:
    from determined.config.blocks.searcher import SearcherBlock


def build(searcher: SearcherBlock, hyperparameters: dict[str, Any], seed: int) -> Searcher:
    """Return a new searcher. The same arguments always build the same searcher."""
    return method_of(searcher).build(hyperparameters, seed)
