"""`SearchHistories`: the decisions of the searches that were shown last, so that a page does not replay them again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from determined.experiment.search_decisions import SearchHistory

_MOST = 4  # a history holds its searcher, with the study of a package


class SearchHistories:
    """Histories by experiment, the least recently used first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._histories: OrderedDict[int, tuple[threading.Lock, SearchHistory]] = OrderedDict()

    @contextmanager
    def of(self, experiment_id: int) -> Iterator[SearchHistory]:
        """Yield the history of an experiment, which no other request uses meanwhile.

        The store is to be read within the block: with an earlier snapshot than that of the last request, the journal
        would be shorter than the history, and the search would be replayed again.
        """
        from determined.experiment.search_decisions import SearchHistory  # imports the search methods

        with self._lock:
            if experiment_id not in self._histories:
                self._histories[experiment_id] = (threading.Lock(), SearchHistory())
            self._histories.move_to_end(experiment_id)
            lock, history = self._histories[experiment_id]
            while len(self._histories) > _MOST:
                self._histories.popitem(last=False)
        with lock:
            yield history
