"""`FailureCache`: the failures that were shown last, which most changes of the store do not change."""

from __future__ import annotations

import threading
from collections import OrderedDict

from determined.experiment.failures import KnownFailures

_MOST = 8  # experiments


class FailureCache:
    """Failures by experiment, or of the newest ones (None), the least recently used first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[int | None, KnownFailures] = OrderedDict()

    def of(self, experiment_id: int | None) -> KnownFailures:
        """Return the failures of an experiment, or of the newest ones."""
        with self._lock:
            known = self._known.setdefault(experiment_id, KnownFailures())
            self._known.move_to_end(experiment_id)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
            return known
