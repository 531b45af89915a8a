"""`Statistics`: count, last, smallest, largest and mean value of metrics, computed in the background where missing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from determined.config.metric_values import number as metric_number
from determined.curves import metric_keys
from determined.curves.cache import CurveCache
from determined.curves.read import DamagedReports, Key
from determined.curves.summary import Statistics as MetricStatistics
from determined.curves.trials import CurveReader
from determined.errors import StoreError
from determined.sentences import counted
from determined.store.store import Store
from determined.web.answers import number, representable
from determined.web.api.shapes import Summary
from determined.web.connections import Connections
from determined.web.tables.stored_json import reported_metrics

logger = logging.getLogger("determined.web")

_Trial = tuple[str, int]  # the identity of the store, and the id of the trial

# Trials whose statistics are computed within the request. Those of a running trial change with every report, and are
# extended within a millisecond; without this its cells would be empty most of the time.
_COMPUTED_NOW = 20
_SECONDS_BETWEEN_NEWS = 3.0
_MOST_SENT = 20_000  # trials
_TOGETHER = 50  # trials whose statistics are computed with one connection, in one snapshot of the store


class Statistics:
    """Statistics of the metrics of trials. Missing ones are computed by a thread, the newest trials first.

    `on_more` is called every few seconds while it computes, and at its end: pages then ask again for what was missing.
    """

    def __init__(self, connections: Connections, cache: CurveCache, on_more: Callable[[], None]) -> None:
        self._connections = connections
        self._cache = cache
        self._on_more = on_more
        self._lock = threading.Lock()
        self._wanted: list[int] = []
        self._thread: threading.Thread | None = None
        self._closed = False
        # By trial: the version of its reports, and its metrics with whether any value is a number.
        self._metrics: dict[int, tuple[int, frozenset[tuple[Key, bool]]]] = {}
        # By store and trial: the version of reports that were read and cannot be summarized.
        self._unreadable: dict[_Trial, int] = {}
        # By store and trial: the version of its reports, and by key what was sent; None for metrics without reports.
        self._sent: dict[_Trial, tuple[int, dict[str, Summary | None]]] = {}

    def of_trials(
        self, store: Store, trial_ids: Sequence[int], keys: Sequence[str]
    ) -> tuple[dict[int, dict[str, Summary | None]], int]:
        """Return the statistics of some metrics, and for how many trials they are not known yet.

        A metric that a trial has not reported is left out; None means that it is not known yet.
        """
        reader = CurveReader(store, self._cache)
        wanted = {metric_keys.split(key): key for key in keys}
        versions = _versions(store, trial_ids)
        found = self._sent_before(versions, keys)
        cached = reader.summaries([trial_id for _, trial_id in versions if trial_id not in found], list(wanted))
        new: dict[int, dict[str, Summary | None]] = {
            trial_id: {wanted[key]: summary(one) for key, one in known.items()}
            for trial_id, known in cached.known.items()
        }
        self._note_sent(versions, keys, new)
        found |= new
        unreadable = self._known_as_unreadable(store, cached.pending)
        found |= {trial_id: {} for trial_id in unreadable}  # their own pages say why; the rows of others are shown
        pending = sorted(set(cached.pending) - unreadable, reverse=True)
        for trial_id in pending[:_COMPUTED_NOW]:
            known = self._summarized(store, reader, trial_id)
            found[trial_id] = {wanted[key]: summary(one) for key, one in known.items() if key in wanted}
        later = pending[_COMPUTED_NOW:]
        for trial_id in later:
            found[trial_id] = dict.fromkeys(keys)
        if later:
            self._compute(later)
        return found, len(later)

    def _sent_before(self, versions: dict[_Trial, int], keys: Sequence[str]) -> dict[int, dict[str, Summary | None]]:
        """Return the statistics of trials that were sent before and are current, for all of the keys."""
        found: dict[int, dict[str, Summary | None]] = {}
        with self._lock:
            for trial, changes in versions.items():
                known, sent = self._sent.get(trial, (None, {}))
                if known == changes and all(key in sent for key in keys):
                    found[trial[1]] = {key: one for key in keys if (one := sent[key]) is not None}
        return found

    def _note_sent(
        self, versions: dict[_Trial, int], keys: Sequence[str], new: dict[int, dict[str, Summary | None]]
    ) -> None:
        """Keep statistics: reading and decoding them again would take most of the time of a table."""
        with self._lock:
            for trial, changes in versions.items():
                if trial[1] in new:
                    known, sent = self._sent.get(trial, (None, {}))
                    self._sent[trial] = (
                        changes,
                        {**(sent if known == changes else {}), **dict.fromkeys(keys), **new[trial[1]]},
                    )
            while len(self._sent) > _MOST_SENT:
                del self._sent[next(iter(self._sent))]

    def of_trial(self, store: Store, trial_id: int) -> dict[str, Summary]:
        """Return the statistics of all metrics of a trial, computed now if necessary.

        If reports are damaged, the metrics that can still be found have empty statistics; their charts name the reason.
        """
        reader = CurveReader(store, self._cache)
        found = reader.summaries([trial_id])
        try:
            known = found.known[trial_id] if trial_id in found.known else reader.summarize(trial_id)
        except DamagedReports:
            if names := reported_metrics(store, trial_id):
                return dict.fromkeys(names, _UNREADABLE)
            raise
        return {metric_keys.join(*key): summary(one) for key, one in known.items()}

    def numeric(self, store: Store, trial_ids: Sequence[int]) -> tuple[dict[str, bool], list[int]]:
        """Return the metrics of trials, and for each whether any of its values is a number.

        The second result has the trials whose statistics are not cached, in the order of the ids.
        """
        versions = {state.trial_id: state.changes for state in store.reports.versions(trial_ids)}
        with self._lock:
            changed = [number for number in versions if self._metrics.get(number, (None,))[0] != versions[number]]
        found = CurveReader(store, self._cache).summaries(changed).known
        numeric: dict[str, bool] = {}
        with self._lock:
            self._metrics |= {
                number: (versions[number], frozenset((key, one.total is not None) for key, one in known.items()))
                for number, known in found.items()
            }
            current = {number for number in versions if self._metrics.get(number, (None,))[0] == versions[number]}
            different = {self._metrics[number][1] for number in current}  # few: most trials report the same metrics
        for metrics in different:
            for key, is_number in metrics:
                joined = metric_keys.join(*key)
                numeric[joined] = numeric.get(joined, False) or is_number
        return numeric, [number for number in trial_ids if number in versions and number not in current]

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
        """Thread: compute the missing statistics, and end when none are left."""
        told, computed = time.monotonic(), 0
        while True:
            with self._lock:
                chosen, self._wanted = self._wanted[-_TOGETHER:], self._wanted[:-_TOGETHER]
                if not chosen:
                    self._thread = None
            if computed and (not chosen or time.monotonic() - told >= _SECONDS_BETWEEN_NEWS):
                self._on_more()
                told, computed = time.monotonic(), 0
            if not chosen:
                return
            # After any error the thread continues: the page requests missing statistics again when the store changes.
            try:
                with self._connections.reading() as store:
                    reader = CurveReader(store, self._cache)
                    for trial_id in reversed(chosen):
                        if not self._closed:
                            self._summarized(store, reader, trial_id)
                            computed += 1
            except StoreError as error:
                logger.warning("the statistics of %s are missing: %s", counted(len(chosen), "trial"), error)
            except Exception:
                logger.exception("the statistics of %s are missing", counted(len(chosen), "trial"))

    def _summarized(self, store: Store, reader: CurveReader, trial_id: int) -> dict[Key, MetricStatistics]:
        """Compute, cache and return the statistics of a trial; none if that fails, which is noted."""
        try:
            return reader.summarize(trial_id)
        except DamagedReports as error:
            logger.warning("the statistics of trial %d are missing: %s", trial_id, error)
        except StoreError:
            raise  # the connection cannot be used any more
        except Exception:
            logger.exception("the statistics of trial %d are missing", trial_id)
        with self._lock:
            self._unreadable |= _versions(store, [trial_id])
        return {}

    def _known_as_unreadable(self, store: Store, trial_ids: Sequence[int]) -> set[int]:
        """Return the trials whose present reports cannot be summarized. Reading them again would fail again."""
        with self._lock:
            if not self._unreadable or not trial_ids:
                return set()
            return {key[1] for key, _ in _versions(store, trial_ids).items() & self._unreadable.items()}


def _versions(store: Store, trial_ids: Sequence[int]) -> dict[_Trial, int]:
    """Return the present versions of the reports of trials, by store and trial. A version is never used twice."""
    identity = store.reports.store_identity
    return {(identity, state.trial_id): state.changes for state in store.reports.versions(trial_ids)}


_UNREADABLE: Summary = {
    "count": 0,
    "last": None,
    "min": None,
    "max": None,
    "mean": None,
    "nonfinite": 0,
    "no_numbers": 0,
}


def summary(statistics: MetricStatistics) -> Summary:
    """Return statistics as they are sent."""
    shown = statistics.of_numbers()
    low, high, mean = (number(metric_number(shown.get(name))) for name in ("min", "max", "mean"))
    newest = statistics.newest_number
    return {
        "count": statistics.points,
        "last": representable(statistics.last) if newest is None else number(metric_number(newest)),
        "min": low,
        "max": high,
        "mean": mean,
        "nonfinite": statistics.non_finite,
        "no_numbers": statistics.others,
    }
