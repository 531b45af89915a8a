"""Curves from the cache equal curves that are derived anew, whatever happened to the store in between."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from determined.curves.cache import CurveCache
from determined.curves.derive import AXES, Axis, Curve
from determined.curves.levels import Level
from determined.curves.read import Key
from determined.curves.thin import Points, draw
from determined.curves.trials import CurveReader
from determined.store.rows import BegunAttempt
from determined.store.store import Store
from tests.store.rows import begin, metric

KEY: Key = ("training", "loss")

# What can happen between two looks: a report of a rank at a step, or a restart at a step.
_REPORT = st.tuples(
    st.just("report"),
    st.sampled_from(["training", "validation"]),
    st.integers(0, 30),
    st.integers(0, 1),
    st.floats(0, 1),
)
_RESTART = st.tuples(st.just("restart"), st.integers(0, 30))
_LOOK = st.tuples(st.just("look"))
_HISTORY = st.lists(st.one_of(_REPORT, _REPORT, _RESTART, _LOOK), min_size=1, max_size=30)


def _same(one: dict[int, dict[Key, Curve]], other: dict[int, dict[Key, Curve]]) -> None:
    assert one.keys() == other.keys()
    for trial_id, found in one.items():
        # A metric whose reports were all archived may be left in the cache without a point.
        filled = {key: curve for key, curve in found.items() if draw([curve]).curves[0].points}
        expected = {key: curve for key, curve in other[trial_id].items() if draw([curve]).curves[0].points}
        assert filled.keys() == expected.keys()
        for key, curve in filled.items():
            drawn, anew = draw([curve]), draw([expected[key]])
            assert drawn.x.tolist() == anew.x.tolist()
            assert np.array_equal(drawn.curves[0].values, anew.curves[0].values, equal_nan=True)
            assert (drawn.curves[0].points, drawn.curves[0].marks) == (anew.curves[0].points, anew.curves[0].marks)


def _without_cache(store: Store, directory: Path) -> CurveReader:
    (directory / "a file").write_text("")
    return CurveReader(store, CurveCache(directory / "a file" / "cache.sqlite"))  # cannot be created


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(history=_HISTORY, axis=st.sampled_from(AXES))
def test_the_cache_is_never_stale(store: Store, tmp_path: Path, history: list[Any], axis: Axis) -> None:
    attempt = begin(store)
    cached = CurveReader(store, CurveCache(tmp_path / "cache.sqlite"))
    anew = _without_cache(store, tmp_path)
    for kind, *details in [*history, ("look",)]:
        if kind == "report":
            group, step, rank, value = details
            row = metric(attempt, group, step, {"loss": value, "epochs": step // 10})
            store.write([row._replace(rank=rank, reported=2000.0 + step)])
        elif kind == "restart":
            attempt = begin(store, previous=attempt, steps=details[0])
        else:
            _same(cached.read([attempt.trial_id], axis), anew.read([attempt.trial_id], axis))
            _same(cached.read([attempt.trial_id], axis, [KEY]), anew.read([attempt.trial_id], axis, [KEY]))
    assert cached.cache.trouble is None
    cached.cache.close()


def _trained(store: Store, steps: range, attempt: BegunAttempt | None = None) -> BegunAttempt:
    attempt = attempt or begin(store)
    store.write([metric(attempt, "training", step, {"loss": 1 / (1 + step)}) for step in steps])
    return attempt


def test_a_running_trial_extends_its_entry(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = CurveReader(store, CurveCache(tmp_path / "cache.sqlite"))
    attempt = _trained(store, range(3000))
    reader.read([attempt.trial_id], "batches")
    _trained(store, range(3000, 6000), attempt)
    read: list[int | None] = []
    pages = store.reports.pages

    def noted(trial_id: int, **options: Any) -> Any:
        read.append(options.get("first_step"))
        return pages(trial_id, **options)

    monkeypatch.setattr(store.reports, "pages", noted)
    curve = reader.read([attempt.trial_id], "batches")[attempt.trial_id][KEY]
    assert read == [2999]
    assert isinstance(curve, Level)
    assert curve.points == 6000
    assert len(curve.buckets) <= 1024
    read.clear()
    reader.read([attempt.trial_id], "batches")
    assert read == []
    _same(
        reader.read([attempt.trial_id], "batches"), _without_cache(store, tmp_path).read([attempt.trial_id], "batches")
    )


def test_a_zoom_reads_every_point(store: Store, tmp_path: Path) -> None:
    reader = CurveReader(store, CurveCache(tmp_path / "cache.sqlite"))
    attempt = _trained(store, range(3000))
    found = reader.exact(attempt.trial_id, "batches", [KEY], 1000, 1010.5)[KEY]
    assert found.x.tolist() == list(range(1000, 1011))
    assert found.values.tolist() == [1 / (1 + step) for step in range(1000, 1011)]


@pytest.mark.parametrize("content", [b"", b"no database" * 1000])
def test_a_damaged_file_costs_no_curve(store: Store, tmp_path: Path, content: bytes) -> None:
    attempt = _trained(store, range(10))
    (tmp_path / "cache.sqlite").write_bytes(content)
    reader = CurveReader(store, CurveCache(tmp_path / "cache.sqlite"))
    for _ in range(2):
        curve = reader.read([attempt.trial_id], "batches")[attempt.trial_id][KEY]
        assert isinstance(curve, Points)
        assert curve.x.tolist() == list(range(10))
    assert (reader.cache.trouble is None) == (content == b"")


def test_a_damaged_entry_is_derived_again(store: Store, tmp_path: Path) -> None:
    import sqlite3

    attempt = _trained(store, range(10))
    CurveReader(store, CurveCache(tmp_path / "cache.sqlite")).read([attempt.trial_id], "batches")
    with sqlite3.connect(tmp_path / "cache.sqlite") as connection:
        connection.execute("UPDATE curves SET settled = substr(settled, 1, 20)")
    reader = CurveReader(store, CurveCache(tmp_path / "cache.sqlite"))
    curve = reader.read([attempt.trial_id], "batches")[attempt.trial_id][KEY]
    assert isinstance(curve, Points)
    assert curve.x.tolist() == list(range(10))


def test_the_file_belongs_to_its_owner(store: Store, tmp_path: Path) -> None:
    attempt = _trained(store, range(10))
    CurveReader(store, CurveCache(tmp_path / "new" / "cache.sqlite")).read([attempt.trial_id], "batches")
    for name in os.listdir(tmp_path / "new"):
        assert stat.S_IMODE((tmp_path / "new" / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
