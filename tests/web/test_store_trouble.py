"""If a store is missing, empty, newer, damaged, deleted, replaced or restarted, the page says so, and recovers."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from determined.curves import cache
from determined.store.databases.base import Database
from determined.store.open import open_store
from determined.store.store import Store
from determined.web import connections
from determined.web.connections import Connections
from determined.web.tables.statistics import Statistics
from tests.helpers.mounts import read_only
from tests.helpers.postgres import PostgresServer, running_server
from tests.store.experiments import begin_managed, with_trials
from tests.store.rows import begin, checkpoint, metric
from tests.web.server import Server
from tests.web.server import running_server as started_server
from tests.web.site import Site

READS = ["/api/trials", "/api/experiments", "/api/metrics", "/api/failures", "/api/models", "/api/queue"]


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "store.sqlite")


def problem(site: Site) -> str | None:
    found: str | None = site.get("/api/changes")["store"]["problem"]
    return found


def add_run(place: str) -> int:
    store = open_store(place)
    try:
        return begin(store).trial_id
    finally:
        store.close()


def all_answer(site: Site, status: int) -> None:
    for path in READS:
        answer = site.ask("GET", path, site.bearer)
        assert answer.status_code == status, (path, answer.text)
        assert status == 200 or answer.json()["error"]


def test_a_store_that_does_not_exist_is_not_created_and_appears_later(site: Site, place: str) -> None:
    assert "there is no store at" in (problem(site) or "")
    all_answer(site, 503)
    answer = site.ask("POST", "/api/actions", site.bearer, json={"action": "pause", "ids": [1]})
    assert answer.status_code == 503
    assert not os.path.exists(place)
    add_run(place)
    assert problem(site) is None
    assert len(site.get("/api/trials")["rows"]) == 1


def test_an_empty_store_is_empty(site: Site, place: str) -> None:
    open_store(place).close()
    assert problem(site) is None
    all_answer(site, 200)
    assert site.get("/api/trials")["rows"] == []


def test_an_empty_file_becomes_a_store(site: Site, place: str) -> None:
    Path(place).touch()
    all_answer(site, 200)


def test_a_newer_store_is_named(site: Site, place: str) -> None:
    open_store(place).close()
    with sqlite3.connect(place) as database:
        database.execute("UPDATE determined_schema SET version = 999")
    database.close()
    assert "newer version of determined-pytorch" in (problem(site) or "")
    all_answer(site, 409)


def test_a_damaged_store_is_named(site: Site, place: str) -> None:
    Path(place).write_bytes(b"this is no database" * 1000)
    assert "cannot be used" in (problem(site) or "")
    all_answer(site, 503)


def test_data_of_another_program_are_named(site: Site, place: str) -> None:
    with sqlite3.connect(place) as database:
        database.execute("CREATE TABLE theirs (x)")
    database.close()
    assert "holds the data of another program" in (problem(site) or "")
    all_answer(site, 503)


def test_a_deleted_store_is_noticed_and_so_is_its_successor(site: Site, place: str) -> None:
    add_run(place)
    first = site.get("/api/changes")
    assert len(site.get("/api/trials")["rows"]) == 1
    for ending in ("", "-wal", "-shm"):
        Path(place + ending).unlink(missing_ok=True)
    gone = site.get(f"/api/changes?seen={first['version']}")
    assert gone["changed"]
    assert "there is no store" in gone["store"]["problem"]
    all_answer(site, 503)
    assert not os.path.exists(place)
    add_run(place)
    add_run(place)
    again = site.get(f"/api/changes?seen={gone['version']}")
    assert again["changed"]
    assert again["store"]["problem"] is None
    assert len(site.get("/api/trials")["rows"]) == 2


@pytest.mark.parametrize("replace", [shutil.move, shutil.copyfile])
def test_a_replaced_store_is_noticed_although_its_trials_have_the_same_ids(
    site: Site, place: str, tmp_path: Path, replace: Callable[[str, str], Any]
) -> None:
    def write(path: str, value: float) -> None:
        store = open_store(path)
        attempt = begin(store)
        store.write([metric(attempt, "training", step, {"loss": value}) for step in (1, 2)])
        store.close()

    write(place, 1.0)
    path = "/api/curves?trials=1&key=training/loss"
    assert site.get(path)["curves"][0]["low"] == [1.0, 1.0]
    before = site.get("/api/changes")["version"]
    other = str(tmp_path / "other.sqlite")
    write(other, 2.0)
    for ending in ("-wal", "-shm"):
        Path(place + ending).unlink(missing_ok=True)
    replace(other, place)
    assert site.get(f"/api/changes?seen={before}")["changed"]
    assert site.get(path)["curves"][0]["low"] == [2.0, 2.0]
    assert site.get("/api/trials?metric=training/loss")["rows"][0]["metrics"]["training/loss"]["max"] == 2.0


def test_a_store_of_an_earlier_version_is_brought_up_to_date(site: Site, place: str) -> None:
    script = Path(__file__).parents[1] / "store" / "released" / "schema_1.sql"
    with sqlite3.connect(place) as database:
        database.executescript(script.read_text())
    database.close()
    all_answer(site, 200)


def test_changes_are_noticed_and_nothing_else_is(site: Site, place: str) -> None:
    trial = add_run(place)
    first = site.get("/api/changes")
    assert not site.get(f"/api/changes?seen={first['version']}")["changed"]
    site.get("/api/trials")
    site.get(f"/api/trials/{trial}")
    assert not site.get(f"/api/changes?seen={first['version']}")["changed"]
    assert site.act("rename", [1], text="other")[0]["ok"]
    second = site.get(f"/api/changes?seen={first['version']}")
    assert second["changed"]
    assert not site.get(f"/api/changes?seen={second['version']}")["changed"]


def test_reading_connections_refuse_changes(site: Site, place: str) -> None:
    from determined.errors import StoreReadOnly

    add_run(place)
    with site.app.state.server.connections.reading() as store, pytest.raises(StoreReadOnly):
        store.upkeep.describe(1, name="x")


def test_without_space_for_the_cache_charts_are_drawn(
    place: str, static: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = tmp_path / "a file, not a directory"
    full.touch()
    monkeypatch.setattr(cache, "default_path", lambda: full / "curves.sqlite")
    store = open_store(place)
    attempt = begin(store)
    store.write([metric(attempt, "training", step, {"loss": 1.0}) for step in (1, 2)])
    store.close()
    with Site(place, static) as site:
        found = site.get("/api/curves?trials=1&key=training/loss")
        assert found["curves"][0]["points"] == 2
        assert "a file, not a directory" in found["note"]
        assert site.get("/api/trials?metric=training/loss")["rows"][0]["metrics"]["training/loss"]["count"] == 2


def test_a_store_that_a_newer_version_migrates_meanwhile_is_named(site: Site, place: str) -> None:
    add_run(place)
    assert problem(site) is None
    all_answer(site, 200)
    with sqlite3.connect(place) as database:
        database.execute("UPDATE determined_schema SET version = 999")
        database.execute("ALTER TABLE trials RENAME COLUMN progress TO advance")
    database.close()
    assert "newer version of determined-pytorch" in (problem(site) or "")
    all_answer(site, 409)


def test_a_store_that_is_damaged_meanwhile_is_named(site: Site, place: str) -> None:
    for _ in range(20):
        add_run(place)
    assert problem(site) is None
    all_answer(site, 200)
    with sqlite3.connect(place) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    content = Path(place).read_bytes()
    Path(place).write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    for path in ("/api/trials", "/api/experiments"):
        answer = site.ask("GET", path, site.bearer)
        assert answer.status_code == 503, answer.text
        assert "cannot be used" in answer.json()["error"]
    for ending in ("-wal", "-shm"):
        Path(place + ending).unlink(missing_ok=True)
    Path(place).write_bytes(content)
    all_answer(site, 200)


def write_run(place: str) -> None:
    store = open_store(place)
    attempt = begin(store)
    store.write([metric(attempt, "training", step, {"loss": float(step)}) for step in range(900)])
    store.close()


def drawn_with_note(server: Server) -> str:
    found = server.get("/api/curves?trials=1&key=training/loss")
    assert found["curves"][0]["points"] == 900
    row = server.get("/api/trials?metric=training/loss")["rows"][0]
    assert row["metrics"]["training/loss"]["max"] == 899.0
    note: str = server.get("/api/curves?trials=1&key=training/loss&points=500")["note"]
    return note


def test_charts_are_drawn_while_no_file_can_grow(place: str, static: Path, tmp_path: Path) -> None:
    """As with a quota, or on a full disk: the cache file is created, but cannot grow."""
    write_run(place)
    env = {"DET_STORE": place, "XDG_DATA_HOME": str(tmp_path / "data")}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with ExitStack() as ending:
        ending.callback(open_store(place).close)  # so that SQLite's own files exist
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
        try:
            server = ending.enter_context(started_server(static, env))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert "charts are not cached" in drawn_with_note(server)


def test_charts_are_drawn_where_the_data_directory_is_read_only(place: str, static: Path, tmp_path: Path) -> None:
    write_run(place)
    data = tmp_path / "data"
    data.mkdir(0o700)
    with read_only(data), started_server(static, {"DET_STORE": place, "XDG_DATA_HOME": str(data)}) as server:
        note = drawn_with_note(server)
        assert "charts are not cached" in note
        assert str(data) in note


def test_a_store_of_somebody_else_is_copied_rarely_if_it_is_large(
    static: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is trained into all the time, by its own path; the page reads it where it cannot be written."""
    theirs, seen = tmp_path / "theirs", tmp_path / "seen"
    theirs.mkdir()
    seen.mkdir()
    store = open_store(str(theirs / "store.sqlite"))
    begin(store)
    now = [0.0]
    monkeypatch.setattr(connections, "_COPIED_BYTES_A_SECOND", 1.0)
    with read_only(theirs, at=seen), Site(str(seen / "store.sqlite"), static) as site:
        site.app.state.server.connections._clock = lambda: now[0]

        def shown() -> tuple[int, bool]:
            return len(site.get("/api/trials")["rows"]), site.get("/api/changes")["store"]["copied"] is not None

        assert shown() == (1, False)
        before = site.get("/api/changes")
        begin(store)
        assert shown() == (1, True)
        assert not site.get(f"/api/changes?seen={before['version']}")["changed"]
        now[0] = 1e9
        assert site.get(f"/api/changes?seen={before['version']}")["changed"]
        assert shown() == (2, False)
        now[0] = 1e9 + 1
        assert shown() == (2, False)  # nothing has changed
        begin(store)
        assert shown() == (2, True)
        assert before["now"] <= site.get("/api/changes")["store"]["copied"] <= site.get("/api/changes")["now"]
        now[0] = 2e9
        assert shown() == (3, False)
    store.close()


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


def test_postgresql_may_be_restarted(server: PostgresServer, static: Path) -> None:
    url = server.new_database()
    add_run(url)
    with Site(url, static) as site:
        assert len(site.get("/api/trials")["rows"]) == 1
        state = site.get("/api/changes")
        assert (state["store"]["kind"], "s3cr3t" in state["store"]["place"]) == ("postgresql", False)
        server.stop()
        trouble = problem(site) or ""
        assert "cannot be reached now" in trouble
        assert "s3cr3t" not in trouble
        all_answer(site, 503)
        server.start()
        assert problem(site) is None
        all_answer(site, 200)
        with site.app.state.server.connections.reading() as store:
            assert_read_only(store)


def test_no_request_fails_after_a_quick_restart_of_postgresql(server: PostgresServer, static: Path) -> None:
    url = server.new_database()
    add_run(url)
    with Site(url, static) as site:
        with ExitStack() as several_requests:
            for _ in range(4):
                several_requests.enter_context(site.app.state.server.connections.reading())
        assert problem(site) is None
        server.stop()
        server.start()
        all_answer(site, 200)


def test_one_damaged_report_keeps_no_other_trial_from_its_statistics(place: str, static: Path) -> None:
    store = open_store(place)
    trials = []
    for _ in range(30):
        attempt = begin(store)
        trials.append(attempt.trial_id)
        store.write([metric(attempt, "training", 1, {"loss": 1.0})])
    store.close()
    with sqlite3.connect(place) as database:
        database.execute("UPDATE metrics SET body = '{' WHERE trial_id = ?", [trials[5]])
    database.close()
    with Site(place, static) as site:
        for _ in range(2):
            answer = site.get("/api/trials?metric=training/loss")
            site.app.state.server.statistics.wait()
        missing = [row["id"] for row in answer["rows"] if row["metrics"].get("training/loss") is None]
        assert missing == [trials[5]]
        note = site.get(f"/api/curves?trials={trials[5]}&key=training/loss")["note"]
        assert note.startswith(f"trial {trials[5]} is missing: its reports in the store are damaged")


def test_many_damaged_trials_are_read_once(place: str, static: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(place)
    attempts = [begin(store) for _ in range(30)]
    store.write([metric(attempt, "training", 1, {"loss": 1.0}) for attempt in attempts])
    damaged = [attempt.trial_id for attempt in attempts[:25]]
    with sqlite3.connect(place) as database:
        database.execute("UPDATE metrics SET body = '{' WHERE trial_id <= ?", [damaged[-1]])
    database.close()
    path = "/api/trials?metric=training/loss"
    with Site(place, static) as site:
        site.get(path)
        site.app.state.server.statistics.wait()
        answer = site.get(path)
        assert answer["pending_summaries"] == 0
        assert {row["id"]: "training/loss" in row["metrics"] for row in answer["rows"]} == {
            attempt.trial_id: attempt.trial_id not in damaged for attempt in attempts
        }
        assert len(caplog.messages) == len(damaged)
        # Reports that come after the damaged ones are another version: it is read again, once.
        store.write([metric(attempts[0], "training", 2, {"loss": 1.0})])
        for _ in range(2):
            assert site.get(path)["pending_summaries"] == 0
        assert len(caplog.messages) == len(damaged) + 1
    store.close()


def test_statistics_are_computed_after_an_error_of_the_system(place: str, tmp_path: Path) -> None:
    class Failing(Connections):
        """Connections of a process that has too many open files at first."""

        failures = 1

        def open_database(self) -> Database:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "Too many open files")
            return super().open_database()

    store = open_store(place)
    attempts = [begin(store) for _ in range(21)]
    store.write([metric(attempt, "training", 1, {"loss": 1.0}) for attempt in attempts])
    ids = [attempt.trial_id for attempt in attempts]
    failing, told = Failing(place), list[bool]()
    curves = cache.CurveCache(tmp_path / "curves.sqlite")
    statistics = Statistics(failing, curves, lambda: told.append(True))
    for failures in (1, 0):
        statistics._compute(ids)
        statistics.wait()
        assert (failing.failures, len(told)) == (0, 1 - failures)
    assert statistics.of_trials(store, ids, ["training/loss"])[1] == 0
    for opened in (statistics, failing, curves, store):
        opened.close()


@pytest.mark.parametrize("content", ["{", "1", "[]", '{"error": 1.0}, {"error": 2.0}'])
def test_the_rest_of_the_page_works_with_damaged_reports(place: str, static: Path, content: str) -> None:
    store = open_store(place)
    lease, trials = with_trials(store, 2)
    for trial_id in trials:
        attempt = begin_managed(store, lease, trial_id)
        reports = [metric(attempt, "validation", step, {"error": 1.0 / step}) for step in range(1, 2000)]
        store.write([*reports, metric(attempt, "gpu", None, {"load": 1.0}), checkpoint(attempt, 1)])
    store.close()
    with Site(place, static) as site:
        for statement in (
            "UPDATE metrics SET body = ? WHERE trial_id = ? AND step > 1000",
            "UPDATE samples SET body = ? WHERE trial_id = ?",
        ):
            with sqlite3.connect(place) as database:
                database.execute(statement, [content, trials[0]])
            database.close()
        pages = [
            f"/api/{kind}/{number}" for kind, number in (("experiments", lease.experiment_id), ("trials", trials[0]))
        ]
        for path in (*READS, *pages, *(f"{page}/checkpoints" for page in pages), f"/api/compare?trials={trials[0]}"):
            site.get(path)
        assert [one["key"] for one in site.get("/api/metrics")["keys"]] == ["validation/error"]
        (shown,) = site.get(f"/api/trials/{trials[0]}")["metrics"]
        assert (shown["key"], shown["numeric"]) == ("validation/error", True)
        listed = ",".join(map(str, trials))
        for more in ("", "&axis=time", "&axis=epochs", "&from=1&to=100", "&archived=1"):
            answer = site.get(f"/api/curves?trials={listed}&key=validation/error{more}")
            assert answer["note"].startswith(f"trial {trials[0]} is missing: its reports in the store are damaged")
            assert answer["curves"][0]["points"] == 0
            if "epochs" not in more:
                assert answer["curves"][1]["points"] == (100 if "from" in more else 1999)


def test_many_damaged_trials_are_counted(place: str, static: Path) -> None:
    store = open_store(place)
    attempts = [begin(store) for _ in range(5)]
    store.write([metric(attempt, "training", 1, {"loss": 1.0}) for attempt in attempts])
    store.close()
    with sqlite3.connect(place) as database:
        database.execute("UPDATE metrics SET body = '{'")
    database.close()
    with Site(place, static) as site:
        numbers = ",".join(str(attempt.trial_id) for attempt in attempts)
        note = site.get(f"/api/curves?trials={numbers}&key=training/loss")["note"]
        assert (note.count(" is missing: "), note.endswith("; 2 more are damaged")) == (3, True)


def test_a_row_that_cannot_be_decoded_is_an_error_of_what_needs_it(place: str, static: Path) -> None:
    store = open_store(place)
    attempts = [begin(store) for _ in range(2)]
    store.write([checkpoint(attempt, 1) for attempt in attempts])
    store.close()
    with sqlite3.connect(place) as database:
        database.execute("UPDATE checkpoints SET metadata = '{' WHERE trial_id = ?", [attempts[0].trial_id])
    database.close()
    with Site(place, static) as site:
        answer = site.get(f"/api/trials/{attempts[0].trial_id}/checkpoints", 503)
        assert answer["error"].startswith("data in the store are damaged")
        assert "det store check" in answer["hint"]
        assert len(site.get(f"/api/trials/{attempts[1].trial_id}/checkpoints")["rows"]) == 1


def test_reports_that_are_damaged_after_they_were_cached_are_named_where_they_are_needed(
    place: str, static: Path
) -> None:
    store = open_store(place)
    attempts = [begin(store) for _ in range(2)]
    for attempt in attempts:
        store.write([metric(attempt, "training", step, {"loss": 1.0 / step}) for step in range(1, 3000)])
    store.close()
    path = f"/api/curves?trials={attempts[0].trial_id},{attempts[1].trial_id}&key=training/loss"
    with Site(place, static) as site:
        assert site.get(path)["note"] is None
        with sqlite3.connect(place) as database:
            database.execute("UPDATE metrics SET body = '{' WHERE trial_id = ?", [attempts[0].trial_id])
        database.close()
        assert [curve["points"] for curve in site.get(path)["curves"]] == [2999, 2999]
        zoomed = site.get(f"{path}&from=1&to=100")
        assert [curve["points"] for curve in zoomed["curves"]] == [0, 100]
        assert f"trial {attempts[0].trial_id} is missing" in zoomed["note"]


def assert_read_only(store: Store) -> None:
    from determined.errors import StoreError

    with pytest.raises(StoreError, match="read-only transaction"):
        store.upkeep.describe(1, name="x")


def test_changes_in_postgresql_are_noticed_when_they_are_visible(server: PostgresServer, static: Path) -> None:
    url = server.new_database()
    add_run(url)
    with Site(url, static) as site:
        first = site.get("/api/changes")["version"]
        site.get("/api/trials")
        assert not site.get(f"/api/changes?seen={first}")["changed"]
        store = open_store(url)
        try:
            with store._database.transaction():
                store._database.execute("UPDATE experiments SET name = 'x'")
                during = site.get("/api/changes")["version"]
                assert site.get("/api/experiments")["rows"][0]["name"] != "x"
            after = site.get(f"/api/changes?seen={during}")
        finally:
            store.close()
        assert after["changed"]
        assert site.get("/api/experiments")["rows"][0]["name"] == "x"
        assert not site.get(f"/api/changes?seen={after['version']}")["changed"]
