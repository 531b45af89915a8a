"""Curves and statistics from the cache equal newly derived ones, after any change of the store."""

from __future__ import annotations

import itertools
import os
import shutil
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from determined.curves import cache_file
from determined.curves.cache import CurveCache
from determined.curves.chart_data import AXES, Axis
from determined.curves.levels import Level
from determined.curves.read import Key
from determined.curves.thin import Drawing
from determined.curves.trials import CurveReader
from determined.store.moving.exporting import export_store
from determined.store.moving.importing import import_store
from determined.store.open import open_store
from determined.store.rows import BegunAttempt, EndRow
from determined.store.store import Store
from tests.store.rows import begin, metric

KEYS: list[Key] = [("training", "loss"), ("validation", "loss"), ("training", "note")]
KEY = KEYS[0]

# Events between two reads: a report of a rank at a step, or a restart at a step.
_VALUES = st.one_of(st.floats(0, 1), st.sampled_from([float("nan"), float("inf"), float("-inf"), 7]))
_REPORT = st.tuples(
    st.just("report"),
    st.sampled_from(["training", "validation"]),
    st.integers(0, 30),
    st.integers(0, 1),
    _VALUES,
    st.integers(-5, 5),
)
_RESTART = st.tuples(st.just("restart"), st.integers(0, 30))
_LOOK = st.tuples(st.just("look"))
_HISTORY = st.lists(st.one_of(_REPORT, _REPORT, _RESTART, _LOOK), min_size=1, max_size=30)


_CLOCK = itertools.count(3000.0)


def _reader(store: Store, directory: Path) -> CurveReader:
    return CurveReader(store, CurveCache(directory / "cache.sqlite"))


def _without_cache(store: Store) -> CurveReader:
    return CurveReader(store, CurveCache(Path(os.devnull) / "cache.sqlite"))  # in memory, and empty


def _plain(drawing: Drawing) -> object:
    return [
        drawing.width,
        drawing.x.tolist(),
        [(str(curve.low.tolist()), str(curve.high.tolist()), curve.marks, curve.points) for curve in drawing.curves],
        [(curve.drawn, curve.first, curve.last) for curve in drawing.curves],
    ]


def _assert_equal(cached: CurveReader, trial_id: int, axis: Axis) -> None:
    """Check that everything is the same as if it were read for the first time."""
    for key in KEYS:
        anew = _without_cache(cached.store)
        assert _plain(cached.drawing([trial_id], key, axis)) == _plain(anew.drawing([trial_id], key, axis))
    expected = _without_cache(cached.store).summarize(trial_id)
    if not cached.summaries([trial_id]).known:
        cached.summarize(trial_id)
    found = cached.summaries([trial_id])
    assert found.pending == []
    assert found.known[trial_id].keys() == expected.keys()
    for key, statistics in expected.items():
        same = found.known[trial_id][key]
        assert repr(same._replace(total=None)) == repr(statistics._replace(total=None))
        assert same.mean == pytest.approx(statistics.mean, nan_ok=True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(history=_HISTORY, axis=st.sampled_from(AXES))
def test_the_cache_is_never_stale(store: Store, tmp_path: Path, history: list[Any], axis: Axis) -> None:
    attempt = begin(store)
    cached = _reader(store, tmp_path)
    for kind, *details in [*history, ("look",)]:
        if kind == "report":
            group, step, rank, value, late = details
            row = metric(attempt, group, step, {"loss": value, "epochs": step // 10, "note": "text" if late else value})
            store.write([row._replace(rank=rank, reported=2000.0 + step + late)])
        elif kind == "restart":
            attempt = begin(store, previous=attempt, steps=details[0])
        else:
            _assert_equal(cached, attempt.trial_id, axis)
    assert cached.cache.trouble is None
    cached.cache.close()


def _trained(store: Store, steps: range, attempt: BegunAttempt | None = None, factor: float = 1.0) -> BegunAttempt:
    attempt = attempt or begin(store)
    rows = [metric(attempt, "training", step, {"loss": factor / (1 + step)}) for step in steps]
    store.write([row._replace(reported=next(_CLOCK)) for row in rows])
    return attempt


def test_a_running_trial_extends_its_entry(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = _reader(store, tmp_path)
    attempt = _trained(store, range(3000))
    reader.curves([attempt.trial_id], KEY)
    _trained(store, range(3000, 6000), attempt)
    read: list[int | None] = []
    pages = store.reports.pages

    def noted(trial_id: int, **options: Any) -> Any:
        read.append(options.get("first_step"))
        return pages(trial_id, **options)

    monkeypatch.setattr(store.reports, "pages", noted)
    curve = reader.curves([attempt.trial_id], KEY)[attempt.trial_id]
    assert read == [2999]
    assert isinstance(curve, Level)
    assert curve.points == 6000
    assert len(curve.buckets) <= 1024
    read.clear()
    reader.curves([attempt.trial_id], KEY)
    assert reader.summaries([attempt.trial_id]).known[attempt.trial_id][KEY].points == 6000
    assert read == []
    _assert_equal(reader, attempt.trial_id, "batches")


def test_a_zoom_draws_every_point_that_fits(store: Store, tmp_path: Path) -> None:
    reader = _reader(store, tmp_path)
    attempt = _trained(store, range(3000))
    short = _trained(store, range(1005))
    drawing = reader.drawing([attempt.trial_id, short.trial_id], KEY, low=1000, high=1010.5)
    assert drawing.width is None
    assert drawing.x.tolist() == list(range(1000, 1011))
    assert drawing.curves[0].high.tolist() == [1 / (1 + step) for step in range(1000, 1011)]
    assert [(curve.points, curve.drawn) for curve in drawing.curves] == [(11, 11), (5, 5)]
    assert [curve.first for curve in drawing.curves] == [(0.0, 1.0)] * 2
    assert [curve.last for curve in drawing.curves] == [(2999.0, 1 / 3000), (1004.0, 1 / 1005)]
    whole = reader.drawing([attempt.trial_id, short.trial_id], KEY)
    assert [curve.points for curve in whole.curves] == [3000, 1005]
    assert all(curve.drawn <= 1000 for curve in whole.curves)


def test_overwritten_points_are_drawn_on_request(store: Store, tmp_path: Path) -> None:
    reader = _reader(store, tmp_path)
    first = _trained(store, range(10))
    trial_id = first.trial_id
    second = begin(store, previous=first, steps=4)
    assert store.reports.overwritten_attempts(trial_id) == [1]
    assert reader.drawing([trial_id], KEY).x.tolist() == list(range(5))
    both = reader.drawing([trial_id], KEY, overwritten=[(trial_id, 1)])
    assert both.x.tolist() == list(range(10))
    assert [curve.points for curve in both.curves] == [5, 5]
    store.write([metric(second, "training", step, {"loss": -1.0}) for step in range(5, 8)])
    begin(store, previous=second, steps=6)
    assert store.reports.overwritten_attempts(trial_id) == [1, 2]
    drawn = reader.drawing([trial_id], KEY, overwritten=[(trial_id, 1), (trial_id, 2)]).curves
    assert [curve.points for curve in drawn] == [7, 5, 1]
    assert drawn[1].high[-1] == pytest.approx(1 / 10)  # the value before it was overwritten
    assert store.overview.last_steps(trial_id) == {1: 9, 2: 7}
    assert reader.drawing([trial_id], KEY).x.tolist() == list(range(7))


def test_attempts_begin_at_a_place_of_each_axis(store: Store, tmp_path: Path) -> None:
    reader = _reader(store, tmp_path)
    first = begin(store)
    store.write([metric(first, "training", step, {"loss": 1.0, "epochs": step / 2}) for step in range(10)])
    begin(store, previous=first, steps=4)
    assert reader.attempt_places(first.trial_id, "batches") == {1: 0.0, 2: 4.0}
    assert reader.attempt_places(first.trial_id, "epochs") == {1: 0.0, 2: 2.0}
    started = [attempt.started for attempt in store.attempts(first.trial_id)]
    assert reader.attempt_places(first.trial_id, "time") == {1: 0.0, 2: started[1] - started[0]}


def test_samples_are_a_curve_over_time(store: Store, tmp_path: Path) -> None:
    attempt = begin(store)
    rows = [metric(attempt, "gpu", None, {"load": value})._replace(sequence=value) for value in (3, 1, 2)]
    store.write([row._replace(reported=5000.0 + row.sequence) for row in rows])
    reader = _reader(store, tmp_path)
    (curve,) = reader.samples(attempt.trial_id, ("gpu", "load")).curves
    assert curve.high.tolist() == [1, 2, 3]
    assert reader.samples(attempt.trial_id, ("gpu", "nothing")).curves[0].points == 0


def test_what_does_not_exist_is_empty(store: Store, tmp_path: Path) -> None:
    reader = _reader(store, tmp_path)
    attempt = _trained(store, range(3))
    for key in (KEY, ("training", "missing")):
        assert reader.drawing([99], key).curves[0].points == 0
    assert reader.drawing([attempt.trial_id], ("other", "loss")).curves[0].points == 0
    assert reader.drawing([], KEY).curves == []
    assert (reader.summaries([99]).known, reader.summaries([99]).pending) == ({}, [])
    assert reader.summarize(99) == {}


def test_another_store_in_the_same_place(tmp_path: Path) -> None:
    """A copy of a store that continues separately replaces the original, and the original is put back."""
    place, copy = tmp_path / "store.sqlite", tmp_path / "copy.sqlite"
    store = open_store(place)
    attempt = _trained(store, range(5))
    reader = _reader(store, tmp_path)
    reader.curves([attempt.trial_id], KEY)
    store.close()
    shutil.copy(place, copy)
    for content, last in ((place, 2.0), (copy, 3.0)):
        store = open_store(content)
        _trained(store, range(4, 6), attempt, factor=last)
        store.close()
    for content in (copy, place):
        shown = tmp_path / "shown.sqlite"
        shutil.copy(content, shown)  # keeps the inode of a file that exists
        store = open_store(shown)
        _assert_equal(_reader(store, tmp_path), attempt.trial_id, "batches")
        store.close()


def test_an_experiment_that_was_deleted_and_imported_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export can be edited: the same trial may have other values."""
    monkeypatch.setenv("DET_STORE", str(tmp_path / "store.sqlite"))
    store = open_store()
    attempt = _trained(store, range(5))
    reader = _reader(store, tmp_path)
    assert reader.drawing([attempt.trial_id], KEY).curves[0].points == 5
    exported = export_store(tmp_path / "all.jsonl", "jsonl", None, lambda *numbers: None).path
    exported.write_text(exported.read_text().replace("0.5", "0.25"))
    store.write([EndRow(attempt.trial_id, 1, "completed", 7000.0, 1.0)])
    store.upkeep.delete_experiment(store.runs()[0].experiment_id, None)
    assert reader.drawing([attempt.trial_id], KEY).curves[0].points == 0
    import_store(exported, lambda read: None)
    (run,) = store.runs()
    curve = reader.drawing([run.trial_id], KEY).curves[0]
    assert curve.high.tolist()[:2] == [1.0, 0.25]
    _assert_equal(reader, run.trial_id, "batches")
    store.close()


@pytest.mark.parametrize("content", [b"", b"no database" * 1000])
def test_a_damaged_file_is_replaced(store: Store, tmp_path: Path, content: bytes) -> None:
    attempt = _trained(store, range(10))
    (tmp_path / "cache.sqlite").write_bytes(content)
    reader = _reader(store, tmp_path)
    _assert_equal(reader, attempt.trial_id, "batches")
    assert reader.cache.trouble is None


def test_a_damaged_entry_is_derived_again(store: Store, tmp_path: Path) -> None:
    attempt = _trained(store, range(10))
    _reader(store, tmp_path).curves([attempt.trial_id], KEY)
    with sqlite3.connect(tmp_path / "cache.sqlite") as connection:
        connection.execute("UPDATE curves SET settled = substr(settled, 1, 20)")
    _assert_equal(_reader(store, tmp_path), attempt.trial_id, "batches")


def test_a_file_that_was_deleted_is_created_again(store: Store, tmp_path: Path) -> None:
    attempt = _trained(store, range(10))
    reader = _reader(store, tmp_path)
    _assert_equal(reader, attempt.trial_id, "batches")
    (tmp_path / "cache.sqlite").unlink()
    _assert_equal(reader, attempt.trial_id, "batches")
    assert (tmp_path / "cache.sqlite").stat().st_size > 0


def test_without_a_file_memory_is_used(store: Store) -> None:
    attempt = _trained(store, range(10))
    reader = _without_cache(store)
    assert reader.summaries([attempt.trial_id]).pending == [attempt.trial_id]
    reader.summarize(attempt.trial_id)
    assert reader.summaries([attempt.trial_id]).known[attempt.trial_id][KEY].points == 10
    assert "charts are not cached" in (reader.cache.trouble or "")


def test_a_file_that_has_become_large_is_emptied(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_file, "_MOST_BYTES", 200_000)
    reader = _reader(store, tmp_path)
    trials = [_trained(store, range(1000, 2500)).trial_id for _ in range(20)]
    for _ in range(2):
        for trial_id in trials:
            assert reader.drawing([trial_id], KEY).curves[0].points == 1500
    assert reader.cache.trouble is None
    assert (tmp_path / "cache.sqlite").stat().st_size <= 200_000


def test_the_file_belongs_to_its_owner(store: Store, tmp_path: Path) -> None:
    attempt = _trained(store, range(10))
    _reader(store, tmp_path / "new").curves([attempt.trial_id], KEY)
    for name in os.listdir(tmp_path / "new"):
        assert stat.S_IMODE((tmp_path / "new" / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_statistics_are_pending_until_they_are_computed(store: Store, tmp_path: Path) -> None:
    trials = [_trained(store, range(5)).trial_id for _ in range(3)]
    reader = _reader(store, tmp_path)
    assert reader.summaries(trials).pending == trials
    reader.summarize(trials[1])
    found = reader.summaries(trials, [("other", "metric")])
    assert (found.known, found.pending) == ({trials[1]: {}}, [trials[0], trials[2]])
    assert reader.summaries(trials, [KEY]).known[trials[1]].keys() == {KEY}
