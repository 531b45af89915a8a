"""`Statistics`: count, last, smallest, largest and mean value of metrics, computed in the background where missing."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from determined.config.metric_values import number as metric_number
from determined.curves.read import read_columns
from determined.curves.summary import Statistics as MetricStatistics
from determined.curves.summary import statistics_of
from determined.errors import StoreError
from determined.store.store import Store
from determined.web import metric_keys
from determined.web.answers import number, representable
from determined.web.api.shapes import Summary
from determined.web.connections import Connections

logger = logging.getLogger("determined.web")

_MOST_SUMMARIES = 200_000  # kept in memory, about 100 bytes each


class Known(NamedTuple):
    """The statistics of all metrics of a trial, for one version of its reports."""

    changes: int
    summaries: dict[str, tuple[Any, ...]]


class Statistics:
    """Statistics of the metrics of trials. Missing ones are computed by a thread, the newest trials first."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, int], Known] = OrderedDict()
        self._kept = 0
        self._wanted: list[int] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    def of_trials(
        self, store: Store, trial_ids: Sequence[int], keys: Sequence[str]
    ) -> tuple[dict[int, dict[str, Summary | None]], int]:
        """Return the statistics of some metrics, and for how many trials they are missing or of an earlier version.

        A metric that a trial has not reported is left out; None means that it is not known yet.
        """
        if not keys or not trial_ids:
            return {}, 0
        identity = store.reports.store_identity
        changes = {found.trial_id: found.changes for found in versions(store, trial_ids)}
        found: dict[int, dict[str, Summary | None]] = {}
        missing = []
        with self._lock:
            for trial_id in trial_ids:
                known = self._known.get((identity, trial_id))
                if known is None or known.changes != changes.get(trial_id):
                    missing.append(trial_id)
                found[trial_id] = dict.fromkeys(keys) if known is None else _chosen(known, keys)
        if missing:
            self._compute(missing)
        return found, len(missing)

    def of_trial(self, store: Store, trial_id: int) -> dict[str, Summary]:
        """Return the statistics of all metrics of a trial, computed now if necessary."""
        identity = store.reports.store_identity
        known = self._read(store, identity, trial_id)
        return {} if known is None else {key: _summary(values) for key, values in known.summaries.items()}

    def keys(self, store: Store, trial_ids: Sequence[int]) -> set[str]:
        """Return the metrics of these trials that are known."""
        identity = store.reports.store_identity
        with self._lock:
            known = [self._known.get((identity, trial_id)) for trial_id in trial_ids]
        return {key for one in known if one is not None for key in one.summaries}

    def wait(self) -> None:
        """Wait until nothing is left to compute."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """Stop the thread."""
        with self._lock:
            self._closed = True
            self._wanted = []
        self.wait()

    def _compute(self, trial_ids: Sequence[int]) -> None:
        """Let the thread compute the statistics of trials, the newest first."""
        with self._lock:
            if self._closed:
                return
            self._wanted = sorted({*self._wanted, *trial_ids})
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="statistics", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        """Compute what is wanted, and end when nothing is left."""
        while True:
            with self._lock:
                if not self._wanted:
                    self._thread = None
                    return
                trial_id = self._wanted.pop()
            try:
                with self._connections.reading() as store:
                    self._read(store, store.reports.store_identity, trial_id)
            except StoreError as error:
                logger.warning("the statistics of trial %d are missing: %s", trial_id, error)

    def _read(self, store: Store, identity: str, trial_id: int) -> Known | None:
        """Return the statistics of a trial for the present version of its reports; None if there is no such trial."""
        place = (identity, trial_id)
        # The version is read before the reports, so that these are never older than it says.
        found = store.reports.versions([trial_id])
        if not found:
            return None
        with self._lock:
            known = self._known.get(place)
        if known is not None and known.changes == found[0].changes:
            return known
        columns = read_columns(store.reports.pages(trial_id))
        known = Known(
            found[0].changes,
            {metric_keys.join(*key): _values(statistics_of(column.reported)) for key, column in columns.items()},
        )
        with self._lock:
            self._keep(place, known)
        return known

    def _keep(self, place: tuple[str, int], known: Known) -> None:
        """Keep statistics, and forget the oldest if they are too many."""
        before = self._known.pop(place, None)
        self._kept += len(known.summaries) - (0 if before is None else len(before.summaries))
        self._known[place] = known
        while self._kept > _MOST_SUMMARIES and len(self._known) > 1:
            _, oldest = self._known.popitem(last=False)
            self._kept -= len(oldest.summaries)


def versions(store: Store, trial_ids: Sequence[int]) -> list[Any]:
    """Return the versions of the reports of trials. In parts: a statement may have a limited number of values."""
    return [
        one
        for start in range(0, len(trial_ids), 500)
        for one in store.reports.versions(list(trial_ids[start : start + 500]))
    ]


def _values(statistics: MetricStatistics) -> tuple[Any, ...]:
    shown = statistics.plain()
    if statistics.kind != "number":
        return (statistics.points, representable(statistics.last), None, None, None, 0)
    numbers = (number(metric_number(shown[name])) for name in ("last", "min", "max", "mean"))
    return (statistics.points, *numbers, statistics.non_finite)


def _summary(values: tuple[Any, ...]) -> Summary:
    count, last, low, high, mean, nonfinite = values
    return {"count": count, "last": last, "min": low, "max": high, "mean": mean, "nonfinite": nonfinite}


def _chosen(known: Known, keys: Sequence[str]) -> dict[str, Summary | None]:
    return {key: _summary(known.summaries[key]) for key in keys if key in known.summaries}
