"""The cache file may be shared, deleted, damaged or of another version: a chart is never wrong."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from determined.curves.cache import CurveCache
from determined.curves.trials import CurveReader
from determined.store.open import open_store
from determined.store.rows import BegunAttempt
from determined.store.store import Store
from tests.helpers.mounts import read_only
from tests.store.rows import begin, metric

KEY = ("training", "loss")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "curves.sqlite"


def trained(store: Store, steps: range, attempt: BegunAttempt | None = None, value: float = 1.0) -> BegunAttempt:
    attempt = attempt or begin(store)
    store.write([metric(attempt, "training", step, {"loss": value}) for step in steps])
    return attempt


def values(reader: CurveReader, trial_id: int) -> list[float]:
    drawn: list[float] = reader.drawing([trial_id], KEY).curves[0].high.tolist()
    if trial_id not in reader.summaries([trial_id]).known:
        reader.summarize(trial_id)
    statistics = reader.summaries([trial_id]).known[trial_id][KEY]
    assert (statistics.points, statistics.last) == (len(drawn), drawn[-1])
    return drawn


def test_two_programs_share_the_file(store: Store, file: Path) -> None:
    first, second = (CurveReader(store, CurveCache(file)) for _ in range(2))
    attempt = trained(store, range(5))
    assert values(first, attempt.trial_id) == values(second, attempt.trial_id) == [1.0] * 5
    trained(store, range(5, 8), attempt, 2.0)
    assert values(second, attempt.trial_id) == [1.0] * 5 + [2.0] * 3
    assert values(first, attempt.trial_id) == [1.0] * 5 + [2.0] * 3
    begin(store, previous=attempt, steps=3)  # decreased by a restart
    for reader in (first, second):
        assert values(reader, attempt.trial_id) == [1.0] * 4
        assert reader.cache.trouble is None


def test_two_servers_fill_it_at_the_same_time(tmp_path: Path, file: Path) -> None:
    place = tmp_path / "store.sqlite"
    store = open_store(place)
    trials = [trained(store, range(20), value=float(number)).trial_id for number in range(30)]
    store.close()

    def read(_: int) -> list[float]:
        own = open_store(place)
        reader = CurveReader(own, CurveCache(file))
        found = [values(reader, trial_id)[-1] for trial_id in trials]
        assert reader.cache.trouble is None
        reader.cache.close()
        own.close()
        return found

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(read, range(4)):
            assert found == [float(number) for number in range(30)]


def test_a_file_that_another_program_locks_is_not_given_up(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("determined.curves.cache_file._BUSY_SECONDS", 0.01)
    reader = CurveReader(store, CurveCache(file))
    attempt = trained(store, range(5))
    assert len(reader.drawing([attempt.trial_id], KEY).x) == 5
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    trained(store, range(5, 8), attempt)
    assert len(reader.drawing([attempt.trial_id], KEY).x) == 8
    other.close()
    assert reader.cache.trouble is None
    assert values(reader, attempt.trial_id) == [1.0] * 8


@pytest.mark.parametrize("remove", [lambda file: file.unlink(), lambda file: shutil.rmtree(file.parent)])
def test_it_may_be_deleted_with_its_directory(store: Store, file: Path, remove: Callable[[Path], None]) -> None:
    reader = CurveReader(store, CurveCache(file))
    attempt = trained(store, range(5))
    values(reader, attempt.trial_id)
    remove(file)
    assert values(reader, attempt.trial_id) == [1.0] * 5
    remove(file)
    trained(store, range(5, 7), attempt)
    assert values(reader, attempt.trial_id) == [1.0] * 7
    assert reader.cache.trouble is None
    assert file.exists()


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def overwritten(content: bytes) -> bytes:
    """Overwrite all but the header and the table of contents, so that only a query notices."""
    return content[:4096] + b"\xff" * (len(content) - 4096)


@pytest.mark.parametrize("damage", [cut, overwritten, lambda content: b"", lambda content: b"x" * 5000])
@pytest.mark.parametrize("is_open", [True, False])
def test_a_damaged_file_is_replaced(store: Store, file: Path, damage: Callable[[bytes], bytes], is_open: bool) -> None:
    reader = CurveReader(store, CurveCache(file))
    attempts = [trained(store, range(900)) for _ in range(5)]
    for attempt in attempts:
        values(reader, attempt.trial_id)
    if not is_open:
        reader.cache.close()
        reader = CurveReader(store, CurveCache(file))
    file.write_bytes(damage(file.read_bytes()))
    for attempt in attempts:
        assert values(reader, attempt.trial_id) == [1.0] * 900
    assert reader.cache.trouble is None
    # The content of the first one's memory is still correct; another program detects the damage.
    again = CurveReader(store, CurveCache(file))
    for attempt in attempts:
        assert values(again, attempt.trial_id) == [1.0] * 900
    assert again.cache.trouble is None
    assert again.summaries([one.trial_id for one in attempts]).pending == []
    with sqlite3.connect(file) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()


def test_a_damaged_file_that_cannot_be_deleted_is_replaced_by_memory(store: Store, file: Path) -> None:
    writer = CurveReader(store, CurveCache(file))
    attempts = [trained(store, range(900)) for _ in range(5)]
    for attempt in attempts:
        values(writer, attempt.trial_id)
    writer.cache.close()
    reader = CurveReader(store, CurveCache(file))
    reader.cache.summarized("another store", [1])  # opens the file, and reads none of the pages that are damaged next
    file.write_bytes(overwritten(file.read_bytes()))
    with read_only(file.parent):
        for attempt in attempts:
            assert values(reader, attempt.trial_id) == [1.0] * 900
    assert reader.cache.trouble is not None
    assert str(file) in reader.cache.trouble


def test_damaged_statistics_are_computed_again(store: Store, file: Path) -> None:
    reader = CurveReader(store, CurveCache(file))
    trials = [trained(store, range(5)).trial_id for _ in range(2)]
    for trial_id in trials:
        values(reader, trial_id)
    with sqlite3.connect(file) as database:
        database.execute("UPDATE summaries SET statistics = '[1' WHERE trial = ?", [trials[0]])
    database.close()
    assert reader.summaries(trials).pending == [trials[0]]
    assert values(reader, trials[0]) == [1.0] * 5


def test_a_file_of_another_version_is_emptied(store: Store, file: Path) -> None:
    reader = CurveReader(store, CurveCache(file))
    attempt = trained(store, range(5))
    values(reader, attempt.trial_id)
    reader.cache.close()
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA user_version = 999")
        database.execute("DROP TABLE curves")
        database.execute("CREATE TABLE curves (other TEXT)")
    database.close()
    reader = CurveReader(store, CurveCache(file))
    assert values(reader, attempt.trial_id) == [1.0] * 5
    assert reader.cache.trouble is None


def test_another_store_with_the_same_ids(tmp_path: Path, file: Path) -> None:
    """At the same path, with one cache for both, which another process keeps open."""
    place = tmp_path / "store.sqlite"
    cache = CurveCache(file)
    for value in (1.0, 2.0, 3.0):
        for ending in ("", "-wal", "-shm"):
            Path(f"{place}{ending}").unlink(missing_ok=True)
        store = open_store(place)
        attempt = trained(store, range(5), value=value)
        assert attempt.trial_id == 1
        for own in (cache, CurveCache(file)):
            assert values(CurveReader(store, own), attempt.trial_id) == [value] * 5
        store.close()
    cache.close()
