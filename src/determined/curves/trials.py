"""The curves and statistics of many trials: from the cache where it is current, extended or derived where it is not."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from determined.curves.cache import CachedCurve, CurveCache, Entry, SettledCurve, Version
from determined.curves.chart_data import Axis
from determined.curves.derive import EPOCHS, NOTHING, Curve, curves, extended
from determined.curves.levels import Level
from determined.curves.read import Column, DamagedReports, Key, read_columns
from determined.curves.summary import Statistics, joined_statistics
from determined.curves.thin import MOST_DRAWN, Drawing, draw, wanted_exponent
from determined.store.store import Store
from determined.store.substores.report_texts import TrialVersion

# Trials whose entries are written in one transaction. A transaction alone takes as long as writing a few entries.
_WRITTEN_AT_ONCE = 16


@dataclass(frozen=True)
class TrialSummaries:
    """The statistics of metrics by trial id, group and name, and the trials whose statistics are not known yet."""

    known: dict[int, dict[Key, Statistics]]
    pending: list[int]


@dataclass(frozen=True)
class CurveReader:
    """Reads the curves and statistics of trials of one store. For one thread, like the store; the cache is shared."""

    store: Store
    cache: CurveCache

    def drawing(
        self,
        trial_ids: Sequence[int],
        key: Key,
        axis: Axis = "batches",
        *,
        low: float | None = None,
        high: float | None = None,
        most: int = MOST_DRAWN,
        overwritten: Sequence[tuple[int, int]] = (),
    ) -> Drawing:
        """Return the curves of one metric of several trials, on one grid, in the order of the trials.

        From `low` to `high`, if they are given, in as much detail as the chart can show. After them come the curves of
        `overwritten`, each a trial and an attempt: the points after the step at which a later attempt began. A trial
        that does not exist has no points, and neither has one whose reports are damaged.
        """
        damaged = dict[int, str]()
        found = self.curves(trial_ids, key, axis, damaged)
        wholes = [found[trial_id] for trial_id in trial_ids]
        if low is not None and high is not None:
            needed = wanted_exponent(low, high, most)
            coarse = [
                trial_id
                for trial_id in trial_ids
                if isinstance(curve := found[trial_id], Level) and curve.exponent > needed
            ]
            found |= self._exact(coarse, key, axis, low, high, damaged)
        replaced = [self._overwritten(trial_id, attempt, key, axis, damaged) for trial_id, attempt in overwritten]
        drawn = [found[trial_id] for trial_id in trial_ids]
        drawing = draw([*drawn, *replaced], most, low, high, wholes=[*wholes, *replaced])
        return replace(drawing, damaged=damaged)

    def curves(
        self, trial_ids: Sequence[int], key: Key, axis: Axis = "batches", damaged: dict[int, str] | None = None
    ) -> dict[int, Curve]:
        """Return the curves of one metric by trial id: all points of short ones, levels of detail of others.

        Trials whose reports are damaged are added to `damaged` with the reason; without it, DamagedReports is raised.
        """
        # The stamps are read before the reports, so data are never cached under a newer stamp than their own.
        states = self.store.reports.versions(trial_ids)
        identity = self.store.reports.store_identity
        cached = self.cache.of_metric(identity, [state.trial_id for state in states], axis, key)
        found: dict[int, Curve] = dict.fromkeys(trial_ids, NOTHING)
        stale = list[TrialVersion]()
        for state in states:
            version, curve = cached.get(state.trial_id, (None, None))
            if version is None or (version.changes, version.started) != (state.changes, state.started):
                stale.append(state)
            elif curve is not None:
                found[state.trial_id] = curve
        for start in range(0, len(stale), _WRITTEN_AT_ONCE):
            entries = list[Entry]()
            for state in stale[start : start + _WRITTEN_AT_ONCE]:
                with _noted(damaged, state.trial_id):
                    entries.append(self._derive(identity, state, axis))
            self.cache.write(identity, axis, entries)
            found |= {entry.trial_id: entry.curves[key].whole for entry in entries if key in entry.curves}
        return found

    def samples(
        self,
        trial_id: int,
        key: Key,
        *,
        low: float | None = None,
        high: float | None = None,
        most: int = MOST_DRAWN,
    ) -> Drawing:
        """Return the curve over time of a metric that a trial reports without a step, such as the load of a GPU."""
        # The profiler reports maps: the values of each device below the name of its machine.
        columns = read_columns(self.store.reports.samples(trial_id, key[0]), flatten=True)
        started = next((state.started for state in self.store.reports.versions([trial_id])), 0.0)
        return draw([curves(columns, "time", started).get(key, NOTHING)], most, low, high)

    def summaries(self, trial_ids: Sequence[int], keys: Sequence[Key] | None = None) -> TrialSummaries:
        """Return the statistics of trials that are cached and current, of some metrics or all; computes nothing."""
        states = {state.trial_id: state.changes for state in self.store.reports.versions(trial_ids)}
        identity = self.store.reports.store_identity
        cached = self.cache.summarized(identity, list(states))
        known: dict[int, dict[Key, Statistics]] = {
            trial_id: {} for trial_id, changes in states.items() if cached.get(trial_id) == changes
        }
        for trial_id, changes, key, statistics in self.cache.summaries(identity, list(known), keys):
            if statistics is None:
                known.pop(trial_id, None)
            elif states[trial_id] == changes and trial_id in known:
                known[trial_id][key] = statistics
        return TrialSummaries(known, [trial_id for trial_id in states if trial_id not in known])

    def others(self, trial_ids: Sequence[int], key: Key) -> int:
        """Return how many reported values of a metric are not numbers, and so cannot be drawn."""
        known = self.summaries(trial_ids, [key]).known.values()
        return sum(statistics.others for metrics in known for statistics in metrics.values())

    def summarize(self, trial_id: int) -> dict[Key, Statistics]:
        """Return the statistics of every metric of a trial, and cache them with its curves over batches."""
        identity = self.store.reports.store_identity
        for state in self.store.reports.versions([trial_id]):
            entry = self._derive(identity, state, "batches")
            self.cache.write(identity, "batches", [entry])
            return {key: curve.statistics for key, curve in entry.curves.items() if curve.statistics is not None}
        return {}

    def attempt_places(self, trial_id: int, axis: Axis) -> dict[int, float]:
        """Return the place on an axis at which each attempt of a trial begins, by its number; empty if unknown."""
        attempts = self.store.attempts(trial_id)
        if axis == "batches":
            return {attempt.number: float(attempt.start_step) for attempt in attempts}
        if axis == "time":
            (state,) = self.store.reports.versions([trial_id])
            return {attempt.number: attempt.started - state.started for attempt in attempts}
        columns = read_columns(self.store.reports.pages(trial_id, times=False))
        epochs = [each.numbers() for (_, name), each in columns.items() if name in EPOCHS]
        found = {}
        for attempt in attempts:
            # The epoch of the last report before the attempt; of several groups, the one that is furthest.
            reached = [each.values[each.steps <= attempt.start_step][-1:] for each in epochs]
            found[attempt.number] = max((float(value[0]) for value in reached if len(value)), default=0.0)
        return found if epochs else {}

    def nearest_report(
        self, trial_id: int, key: Key, axis: Axis, wanted: float, *, by_time: bool
    ) -> tuple[float, float] | None:
        """Return the place on an axis and the time of the report that is nearest to a place, or to a time; or None."""
        columns = read_columns(self.store.reports.pages(trial_id, groups=[key[0]]))
        if key not in columns:
            return None
        # The curve of the times of the reports: it leaves out those without a place on the axis.
        column = columns[key].numbers()
        columns[key] = replace(column, values=column.times)
        started = next((state.started for state in self.store.reports.versions([trial_id])), 0.0)
        points = curves(columns, axis, started)[key]
        if len(points.x) == 0:
            return None
        distances = abs((points.values if by_time else points.x) - wanted)
        nearest = int(distances.argmin())
        return float(points.x[nearest]), float(points.values[nearest])

    def _exact(
        self,
        trial_ids: Sequence[int],
        key: Key,
        axis: Axis,
        low: float | None,
        high: float | None,
        damaged: dict[int, str],
    ) -> dict[int, Curve]:
        """Return the points of a metric by trial id: those in a range of batches, or all points on another axis."""
        # Steps are the only axis by which the store can search.
        first = math.floor(low) if axis == "batches" and low is not None else None
        last = math.ceil(high) if axis == "batches" and high is not None else None
        found: dict[int, Curve] = dict.fromkeys(trial_ids, NOTHING)
        for state in self.store.reports.versions(trial_ids):
            pages = self.store.reports.pages(
                state.trial_id,
                groups=[key[0]],
                first_step=first,
                last_step=last,
                times=axis == "time",
            )
            with _noted(damaged, state.trial_id):
                found[state.trial_id] = curves(read_columns(pages), axis, state.started).get(key, NOTHING)
        return found

    def _overwritten(self, trial_id: int, attempt: int, key: Key, axis: Axis, damaged: dict[int, str]) -> Curve:
        """Return the points of a metric that an attempt reported after the step at which a later attempt began."""
        columns = dict[Key, Column]()
        with _noted(damaged, trial_id):
            columns = read_columns(self.store.reports.overwritten(trial_id, attempt, key[0]))
        started = next((state.started for state in self.store.reports.versions([trial_id])), 0.0)
        return curves(columns, axis, started).get(key, NOTHING)

    def _derive(self, identity: str, state: TrialVersion, axis: Axis) -> Entry:
        """Return a new cache entry of a trial: its cached curves, extended by the reports since then."""
        last = state.steps_completed
        settled, columns = self._since_cached(identity, state, axis)
        before = {key: column.part(before=last) for key, column in columns.items()}
        after = {key: column.part(first_step=last) for key, column in columns.items()}
        new, tail = curves(before, axis, state.started), curves(after, axis, state.started)
        # A metric that was not reported since then stays as it is.
        derived = {key: CachedCurve(known, known.curve, known.statistics) for key, known in settled.items()}
        for key in columns:
            known = settled.get(key, _UNKNOWN)
            joined = joined_statistics(known.statistics, before[key].statistics)
            now_settled = SettledCurve(extended(known.curve, new[key]), joined)
            statistics = joined_statistics(now_settled.statistics, after[key].statistics)
            derived[key] = CachedCurve(now_settled, extended(now_settled.curve, tail[key]), statistics)
        version = Version(state.changes, state.rewrites, last, state.started, *self._anchor(state.trial_id, last))
        return Entry(state.trial_id, version, derived)

    def _since_cached(
        self, identity: str, state: TrialVersion, axis: Axis
    ) -> tuple[dict[Key, SettledCurve], dict[Key, Column]]:
        """Return the cached curves that can be extended, and the reports since them; without any, all reports."""
        cached = self.cache.of_trial(identity, state.trial_id, axis)
        if cached is not None and _can_be_extended(cached[0], state):
            version, settled = cached
            if self._anchor(state.trial_id, version.settled_step) == (version.anchor_step, version.anchor_time):
                return settled, self._columns(state.trial_id, axis, first_step=version.settled_step)
        return {}, self._columns(state.trial_id, axis)

    def _columns(self, trial_id: int, axis: Axis, first_step: int | None = None) -> dict[Key, Column]:
        """Return the reports of a trial from a step on, with their times only if the axis needs them."""
        return read_columns(self.store.reports.pages(trial_id, first_step=first_step, times=axis == "time"))

    def _anchor(self, trial_id: int, settled_step: int) -> tuple[int, float]:
        """Return the last settled step that has reports and the time of the latest of them; see `Version`."""
        return self.store.reports.last_before(trial_id, settled_step) or _NO_ANCHOR


_NO_ANCHOR = (-1, 0.0)
_UNKNOWN = SettledCurve(NOTHING, None)


@contextlib.contextmanager
def _noted(damaged: dict[int, str] | None, trial_id: int) -> Iterator[None]:
    """Catch DamagedReports in the block and add its message to `damaged`; raise it again if `damaged` is None."""
    try:
        yield
    except DamagedReports as error:
        if damaged is None:
            raise
        damaged[trial_id] = str(error)


def _can_be_extended(cached: Version, state: TrialVersion) -> bool:
    """Return whether the reports before the settled step are unchanged, and the trial did not go back before it."""
    unchanged = (cached.rewrites, cached.started) == (state.rewrites, state.started)
    return unchanged and cached.settled_step <= state.steps_completed
