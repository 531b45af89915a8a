"""Trackio's own client; its database is read back."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.sinks.resuming import run_twice

if importlib.util.find_spec("trackio") is None:
    pytest.skip("Trackio is not installed: pip install trackio", allow_module_level=True)


def test_a_resumed_trial_is_one_run(tmp_path: Path) -> None:
    run_twice(tmp_path, DET_SINKS="trackio", TRACKIO_DIR=str(tmp_path / "tracked"))
    (database,) = (tmp_path / "tracked").glob("*.db")
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT run_id, run_name, step, metrics FROM metrics ORDER BY id").fetchall()
        ((config,),) = connection.execute("SELECT config FROM configs").fetchall()
    assert len({(run_id, name) for run_id, name, *_ in rows}) == 1
    assert rows[0][1].startswith("my lines-1-")
    steps = [step for *_, step, body in rows if "training/loss" in json.loads(body)]
    assert steps == [1, 2, 3, 4, 5, 4, 5, 6, 7, 8]
    assert json.loads(config)["hyperparameters"] == {"lr": 0.1, "net": {"width": 8, "api_key": "********"}}
