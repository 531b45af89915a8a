"""The curves of many trials: from the cache where it is current, extended or derived again where it is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from determined.curves.cache import CachedCurve, CurveCache, Version
from determined.curves.derive import NOTHING, Axis, Curve, curves, extended, shortened
from determined.curves.read import Column, Key, read_columns
from determined.curves.thin import Points
from determined.store.report_texts import TrialVersion
from determined.store.store import Store


@dataclass(frozen=True)
class CurveReader:
    """Reads the curves of trials of one store."""

    store: Store
    cache: CurveCache

    def read(
        self, trial_ids: Sequence[int], axis: Axis, keys: Iterable[Key] | None = None
    ) -> dict[int, dict[Key, Curve]]:
        """Return curves of trials by trial id, group and name: of some metrics, or of all.

        Long curves are levels of detail; `exact` reads a part of them with all points.
        """
        wanted = None if keys is None else list(keys)
        # The stamps are read before the reports, so data are never cached under a newer stamp than their own.
        states = self.store.reports.versions(trial_ids)
        identity = self.store.reports.store_identity
        cached = self.cache.versions(identity, [state.trial_id for state in states], axis)
        return {
            state.trial_id: self._trial(identity, state, cached.get(state.trial_id), axis, wanted) for state in states
        }

    def exact(self, trial_id: int, axis: Axis, keys: Iterable[Key], low: float, high: float) -> dict[Key, Points]:
        """Return all points of some metrics of a trial between two places of an axis."""
        wanted = set(keys)
        first, last = (int(low), int(high)) if axis == "batches" else (None, None)
        groups = sorted({group for group, _ in wanted})
        found = {}
        for state in self.store.reports.versions([trial_id]):
            pages = self.store.reports.pages(trial_id, groups=groups, first_step=first, last_step=last)
            columns = read_columns(pages)
            for key, points in curves(columns, axis, state.started).items():
                if key in wanted:
                    inside = (points.x >= low) & (points.x <= high)
                    found[key] = Points(points.x[inside], points.values[inside])
        return found

    def _trial(
        self, identity: str, state: TrialVersion, cached: Version | None, axis: Axis, keys: list[Key] | None
    ) -> dict[Key, Curve]:
        """Return the curves of one trial, and bring its cache entry up to date."""
        place = (identity, state.trial_id, axis)
        if cached is not None and cached.changes == state.changes:
            found = self.cache.curves(*place, keys)
            if found is not None:
                return {key: extended(curve.settled, curve.tail) for key, curve in found.items()}
        known: dict[Key, CachedCurve] | None = None
        # Reports before the settled step have not changed, and the trial was not set back: only the rest is read.
        if cached is not None and cached.rewrites == state.rewrites and cached.settled_step <= state.steps_completed:
            known = self.cache.curves(*place, None)
        first_step = None if cached is None or known is None else cached.settled_step
        columns = read_columns(self.store.reports.pages(state.trial_id, first_step=first_step))
        last = state.steps_completed
        new = curves({key: _part(column, None, last) for key, column in columns.items()}, axis, state.started)
        tail = curves({key: _part(column, last, None) for key, column in columns.items()}, axis, state.started)
        settled = {key: curve.settled for key, curve in (known or {}).items()}
        for key, points in new.items():
            settled[key] = extended(settled[key], points) if key in settled else shortened(points)
        entry = {key: CachedCurve(curve, tail.get(key, NOTHING)) for key, curve in settled.items()}
        self.cache.write(*place, Version(state.changes, state.rewrites, state.steps_completed), entry)
        return {key: extended(curve.settled, curve.tail) for key, curve in entry.items() if keys is None or key in keys}


def _part(column: Column, first_step: int | None, before: int | None) -> Column:
    """Return the reports of a column from one step to another, which is not included."""
    low = 0 if first_step is None else int(np.searchsorted(column.steps, first_step))
    high = None if before is None else int(np.searchsorted(column.steps, before))
    return Column(column.steps[low:high], column.times[low:high], column.values[low:high])
