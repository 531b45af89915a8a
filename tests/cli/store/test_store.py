"""The command `det store`: its output, its errors, and moving a search to another store."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from determined.store.store import Store
from tests.cli.conftest import WEIRD
from tests.cli.det_command import det, det_json, det_ok, det_on_terminal, rows_of, run_det
from tests.cli.filling import Steps, add_trials, lead, new_experiment, work
from tests.cli.searched import Searched
from tests.helpers.postgres import PASSWORD, running_server
from tests.helpers.records import opened
from tests.store.moving import fill


def test_info(searched: Searched) -> None:
    for words in (["store"], ["store", "info"]):
        shown = det_ok(*words)
        assert f"Store:          {searched.home}/determined/store.sqlite\n" in shown
        assert "Experiments:    1 (1 COMPLETED)\n" in shown
        assert "Trials:         2\n" in shown
        assert "Checkpoints:    8 (8 ACTIVE)\n" in shown
    found = det_json("store", "info")
    assert found["rows"]["trials"] == 2
    assert found["kind"] == "sqlite"
    assert {"experiments", "runs", "store.sqlite"} <= {entry["name"] for entry in found["contents"]}


def test_check(searched: Searched) -> None:
    assert det_ok("store", "check").endswith("no problems found\n")
    assert det_json("store", "check")["ok"] is True
    with closing(sqlite3.connect(searched.home / "determined" / "store.sqlite", isolation_level=None)) as connection:
        connection.execute("UPDATE trials SET hparams = ?, steps_completed = 3 WHERE id = 1", [WEIRD])
    result = det("store", "check")
    assert result.exit_code == 1
    assert "trials: hparams of 1 is not JSON\n" in result.stdout
    assert "2 problems found" in result.stdout.splitlines()[-1]
    found = json.loads(det("store", "check", "--json").stdout)
    assert [finding["where"] for finding in found["findings"]] == ["trials", "trials"]


def test_a_damaged_file_gets_a_clear_error(searched: Searched) -> None:
    path = searched.home / "determined" / "store.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 9] = b"\xa5" * 4096 * 6
    path.write_bytes(content)
    done = run_det("store", "check")
    assert done.returncode == 1
    assert done.stderr == ""
    assert all(line.startswith("file: ") for line in done.stdout.splitlines()[:-1])
    assert "restore a backup" in done.stdout.splitlines()[-1]


def test_a_check_creates_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DET_STORE", str(tmp_path / "none.sqlite"))
    result = det("store", "check")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no store at" in result.stderr
    assert not (tmp_path / "none.sqlite").exists()


def test_backup_and_back(searched: Searched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "mon\nday's 😀.sqlite"
    listed = det_ok("e", "ls")
    shown = det_ok("store", "backup", name)
    assert "mon\\nday" in shown
    assert "already exists" in det("store", "backup", name).stderr
    monkeypatch.setenv("DET_STORE", str(tmp_path / name))
    assert det_ok("e", "ls") == listed
    assert det_json("store", "check")["ok"] is True


def test_vacuum(searched: Searched) -> None:
    det_ok("store", "vacuum")
    assert "nothing to reclaim" in det_ok("store", "vacuum")
    det_ok("experiment", "delete", "1", "--yes", "--json")
    found = det_json("store", "vacuum")
    assert found["gained"] == found["bytes_before"] - found["bytes_after"] > 0


def test_while_a_run_writes(searched: Searched, store: Store) -> None:
    lead(store, new_experiment(store))
    result = det("store", "vacuum")
    assert result.exit_code == 1
    assert "experiment 2 is running" in result.stderr
    done = det("store", "export", "all.jsonl")
    assert done.exit_code == 0
    assert done.stderr == "Experiment 2 is running: its later changes are not exported\n"
    det_ok("store", "backup", "copy.sqlite")


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_search_moves_to_another_store(
    searched: Searched, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = det_json("e", "describe", "1", "--metrics")
    printed = det_ok("store", "export", "moved", "--format", form, "--experiment", "1")
    assert "Exported 1 experiment (" in printed
    monkeypatch.setenv("DET_STORE", str(tmp_path / "other.sqlite"))
    (row,) = rows_of(det_ok("store", "import", "moved").partition("\n\n")[0])
    assert row == {"Source ID": "1", "New ID": "1", "Name": "odd/../name", "New": "yes"}
    assert det_json("e", "describe", "1", "--metrics") == described
    assert det_json("store", "import", "moved")["experiments"] == [
        {"there": 1, "here": 1, "name": "odd/../name", "new": False}
    ]
    best = searched.checkpoint(searched.best, 8).checkpoint_id
    assert det_ok("e", "download", "1", "-q", "-o", "fetched").strip().endswith(best)  # files are where they were


def test_on_a_server(searched: Searched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A team moves there; the password is never shown."""
    described = det_json("e", "describe", "1", "--metrics")
    det_ok("store", "export", "all.jsonl")
    with running_server() as server:
        monkeypatch.setenv("DET_STORE", server.new_database())
        seen = det_ok("store", "import", "all.jsonl")
        assert det_json("e", "describe", "1", "--metrics") == described
        for words in (["info"], ["check"], ["vacuum"], ["export", "back.jsonl"], ["info", "--json"]):
            seen += det_ok("store", *words)
        refused = det("store", "backup", "copy").stderr
        assert "pg_dump --schema=determined" in refused
        assert PASSWORD not in seen + refused
        assert "s3cr3t" not in seen + refused
    monkeypatch.delenv("DET_STORE")
    assert [experiment["new"] for experiment in det_json("store", "import", "back.jsonl")["experiments"]] == [False]


def test_names_are_data(weird: int, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del weird
    monkeypatch.chdir(tmp_path)
    det_ok("store", "export", "all.jsonl")
    monkeypatch.setenv("DET_STORE", str(tmp_path / "other.sqlite"))
    with opened() as other:
        shown = det_on_terminal("store", "import", "all.jsonl")
        assert b"\x1b[31m" not in shown
        assert other.experiments.list()[0].name == store.experiments.list()[0].name == WEIRD


def test_progress_on_a_terminal(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown while it works, and erased at the end."""
    monkeypatch.chdir(tmp_path)
    lease = lead(store, new_experiment(store))
    (trial,) = add_trials(store, lease, [{}])
    work(store, lease, trial, Steps(lines=[(0, None, "a line")] * 30_000))
    seen = det_on_terminal("store", "export", "all.jsonl")
    assert b" rows\x1b[K" in seen
    assert b"\r\x1b[K" in seen


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Export one of everything, and return the lines."""
    directory = tmp_path_factory.mktemp("exported")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("DET_STORE", str(directory / "store.sqlite"))
        with opened() as store:
            fill(store)
        assert det("store", "export", str(directory / "all.jsonl")).exit_code == 0
    return [json.loads(line) for line in (directory / "all.jsonl").read_text().splitlines()]


def places_in(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the paths to all values in plain data."""
    yield above
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places_in(inner, (*above, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(copy[path[0]], path[1:], new)
    return copy


STRANGE: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 1e308, "", WEIRD, "../..", [], [[]], {}, {"a": {"b": []}}, {WEIRD: WEIRD}]
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_a_stranger_wrote_upsets_no_command(
    data: st.DataObject,
    lines: list[dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A value in a row, or deep in the JSON of a column, has another type: it is rejected, or shown as it is."""
    directory = tmp_path_factory.mktemp("strange")
    monkeypatch.setenv("DET_STORE", str(directory / "store.sqlite"))
    changed = [dict(line) for line in lines]
    number = data.draw(st.integers(1, len(lines) - 2))
    row = dict(changed[number]["row"])
    column = data.draw(st.sampled_from(sorted(row)))
    text = row[column]
    if isinstance(text, str) and text[:1] in ("{", "["):
        inner = json.loads(text)
        row[column] = json.dumps(replaced(inner, data.draw(st.sampled_from([*places_in(inner)])), data.draw(STRANGE)))
    else:
        row[column] = data.draw(STRANGE)
    changed[number]["row"] = row
    (directory / "strange.jsonl").write_text("".join(json.dumps(line) + "\n" for line in changed))
    imported = det("store", "import", str(directory / "strange.jsonl"))
    told = [imported]
    if imported.exit_code == 0:
        told += [det("e", command, "1") for command in ("lt", "lc", "config", "logs", "compare")]
        told += [det("e", "describe", "1,2,3,4", "--metrics"), det("e", "ls", "--all", "--show_project", "--json")]
        told += [det("t", "describe", "1", "--metrics"), det("m", "ls"), det("m", "describe", "1"), det("queue")]
    for result in told:
        assert result.exit_code == 0 or "Cannot " in result.stderr or "Usage" in result.stderr, result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert "\x1b" not in result.output or result is told[4]  # logs in a pipe are as they were written
