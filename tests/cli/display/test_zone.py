"""Times are shown in the zone of the user; `--utc` selects UTC, and JSON is always in UTC."""

from __future__ import annotations

import os
import re
import time
from datetime import datetime

import pytest

from determined.store.store import Store
from tests.cli.det_command import det, det_csv, det_json, det_ok, rows_of, run_det
from tests.cli.every_command import COMMANDS
from tests.cli.filling import new_experiment

SUMMER, WINTER = "2026-09-21 16:13:20+0200", "2026-12-20 12:00:00+0100"


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")  # needs no table of zones
    time.tzset()


def test_daylight_saving_is_that_of_the_moment_not_of_today(in_berlin: None, store: Store, search: int) -> None:
    del in_berlin
    winter = datetime.fromisoformat("2026-12-20T11:00:00+00:00").timestamp()
    other = new_experiment(store, "winter", created=winter)
    assert [row["Started"] for row in rows_of(det_ok("e", "ls"))] == [WINTER, SUMMER]
    assert [row["Started"] for row in det_csv("e", "ls")] == [WINTER, SUMMER]
    assert rows_of(det_ok("e", "ls", "--utc"))[0]["Started"] == "2026-12-20 11:00:00+0000"
    assert {row["id"]: row["started"] for row in det_json("e", "ls")} == {
        other: "2026-12-20T11:00:00.000+00:00",
        search: "2026-09-21T14:13:20.250+00:00",
    }


def test_utc_holds_for_one_command_alone(in_berlin: None, search: int) -> None:
    del in_berlin
    assert "+0000" in det_ok("e", "describe", str(search), "--utc")
    assert "+0000" not in det_ok("e", "describe", str(search))


def test_every_command_that_shows_times_can_show_them_in_utc(in_berlin: None, store: Store, search: int) -> None:
    del in_berlin
    first = store.experiments.trials(search)[0].id
    uuid = store.checkpoints(first)[0].checkpoint_id
    det_ok("m", "create", "digits")
    for words in (
        ["e", "ls"],
        ["e", "describe", str(search)],
        ["e", "lt", str(search)],
        ["e", "logs", str(search)],
        ["t", "describe", str(first)],
        ["t", "logs", str(first)],
        ["c", "describe", uuid],
        ["m", "ls"],
        ["m", "describe", "digits"],
    ):
        here, there = det(*words).stdout, det(*words, "--utc").stdout
        assert "+0000" not in here, words
        assert "+0100" in here or "+0200" in here, words
        assert "+0000" in there, words
        assert "+0100" not in there, words
        assert "+0200" not in there, words


def test_no_table_has_times_without_the_option() -> None:
    """Every command that shows a table is tested."""
    with_times = [
        name
        for name, case in COMMANDS.items()
        if any(re.search("time|started|ended|since", column, re.IGNORECASE) for head in case.tables for column in head)
        and "Training Time" not in case.tables[0]
    ]
    assert len(with_times) > 8
    for name in with_times:
        assert "--utc" in det_ok(*name.split(), "--help"), name


def test_the_zone_of_the_environment(search: int) -> None:
    """In a separate process: a running Python does not notice that TZ has changed."""
    for zone, started in (("IST-5:30", "2026-09-21 19:43:20+0530"), ("UTC", "2026-09-21 14:13:20+0000")):
        done = run_det("e", "ls", env={**os.environ, "TZ": zone})
        assert rows_of(done.stdout)[0]["Started"] == started
    assert search
