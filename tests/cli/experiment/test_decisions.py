"""`det experiment decisions`: the rows, the choice of one trial, and experiments without decisions."""

from __future__ import annotations

from pathlib import Path

from tests.cli.det_command import det, det_csv, det_json, det_ok
from tests.cli.searched import Searched
from tests.helpers.records import opened
from tests.store.rows import begin


def test_rows_and_json(searched: Searched) -> None:
    rows = det_csv("experiment", "decisions", "1")
    # With two slots it would depend on chance which trial ends first.
    assert [(row["Trial ID"], row["Decision"]) for row in rows][:2] == [("1", "created"), ("2", "created")]
    assert sorted((row["Trial ID"], row["Decision"]) for row in rows[2:]) == [("1", "completed"), ("2", "completed")]
    found = det_json("experiment", "decisions", "1")
    assert (found["method"], found["time_metric"], found["rungs"], found["problem"]) == ("random", "batches", [], None)
    assert [row["text"] for row in found["decisions"]] == [row["Reason"] for row in rows]
    assert "created" in det_ok("e", "decisions", "1")


def test_one_trial(searched: Searched) -> None:
    rows = det_csv("experiment", "decisions", "1", "--trial", "2")
    assert [(row["Trial ID"], row["Reason"]) for row in rows] == [("2", "created"), ("2", "ended by itself")]
    wrong = det("experiment", "decisions", "1", "--trial", "77")
    assert wrong.exit_code != 0
    assert "77" in wrong.output


def test_paging(searched: Searched) -> None:
    every = det_csv("experiment", "decisions", "1")
    assert det_csv("experiment", "decisions", "1", "--limit", "1", "--offset", "2") == every[2:3]


def test_a_trial_of_another_experiment(searched: Searched) -> None:
    with opened() as store:
        begun = begin(store)
    wrong = det("experiment", "decisions", "1", "--trial", str(begun.trial_id))
    assert wrong.exit_code == 2
    assert f"trial {begun.trial_id} does not belong to experiment 1" in wrong.stderr


def test_a_standalone_run_has_no_decisions(tmp_path: Path) -> None:
    with opened() as store:
        begin(store)
    result = det("experiment", "decisions", "1", "--json")
    assert result.exit_code == 0
    assert '"decisions": []' in result.stdout
    assert "experiment 1 has no decisions" in result.stderr
