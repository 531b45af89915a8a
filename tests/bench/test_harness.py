"""The benchmarks run: every kind of case once, with so few repetitions that their numbers mean nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.__main__ import main
from bench.cases import CASES
from bench.measure import Pairs, Turns, in_child, summarize
from bench.table import Row, at_least, at_most, not_installed, show

REPOSITORY = Path(__file__).resolve().parents[2]


def run(results: Path, *arguments: str) -> tuple[str, dict[str, Any]]:
    """Return what `python -m bench --smoke` printed, and the results that it stored."""
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--smoke", "--results", str(results), *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (kept,) = results.glob("*.json")
    return done.stdout, json.loads(kept.read_text())


@pytest.mark.thorough
def test_table_shows_ours_beside_the_bare_loop_and_every_peer(tmp_path: Path) -> None:
    table, kept = run(tmp_path, "--only", "mlp-list")
    assert [row["who"] for row in kept["rows"]] == [
        "bare loop",
        "determined",
        "bare loop again",
        "Fabric",
        "Accelerate",
        "Ignite",
        "Lightning",
    ]
    ours = kept["rows"][1]
    assert ours["must_be"] == "<= 1.05"
    assert ours["ok"] is (ours["ratio"] <= 1.05)
    assert ("ok" if ours["ok"] else "MISSED") in table
    assert {"cpu", "cores", "torch"} <= kept["machine"].keys()


@pytest.mark.thorough
def test_ranks_meet_once_a_report_and_never_for_a_batch(tmp_path: Path) -> None:
    _, kept = run(tmp_path, "--only", "collectives")
    (row,) = kept["rows"]
    assert row["note"] == "0 a batch, 1 a report"
    assert row["ok"]


@pytest.mark.thorough
def test_cases_give_numbers_with_targets(tmp_path: Path) -> None:
    cases = ("validation", "sampler", "resume")
    printed, kept = run(tmp_path, "--json", *(word for case in cases for word in ("--only", case)))
    assert json.loads(printed) == kept
    judged = [row for row in kept["rows"] if row["ok"] is not None]
    assert [row["who"] for row in judged] == ["determined"] * 2 + ["determined, epoch 1", "determined, epoch 90"]
    assert all(row["us"] > 0 and row["must_be"] for row in judged)


def test_no_report_of_several_writers_is_lost(tmp_path: Path) -> None:
    _, kept = run(tmp_path, "--only", "store")
    reports, listing = kept["rows"]
    assert reports["ok"]
    assert sum(reports["detail"]["rows"]) == 4000
    assert listing["us"] > 0


def test_experiments_are_listed_with_their_trials(tmp_path: Path) -> None:
    _, kept = run(tmp_path, "--only", "listing")
    listing, trials = kept["rows"]
    assert listing["must_be"] == "<= 0.2 s"
    assert trials["us"] > 0
    assert listing["us"] > 0


@pytest.mark.thorough
def test_the_page_stands_beside_tensorboard(tmp_path: Path) -> None:
    _, kept = run(tmp_path, "--only", "ui")
    rows = kept["rows"]
    curves = [row for row in rows if "the first time" in row["case"]]
    assert {"determined", "TensorBoard", "determined / TensorBoard", "Trackio"} <= {row["who"] for row in curves}
    assert all(row["us"] or row["ratio"] for row in curves if row["note"] != "not installed")
    limits = {row["case"]: row["must_be"] for row in rows if row["who"] == "determined"}
    assert limits["20 curves again"] == "<= 20 ms"
    assert limits["a poll of an unchanged store"] == "<= 1 ms"
    drawn = [row for row in rows if "drawn" in row["case"]]
    assert [row["must_be"] for row in drawn] in ([], ["<= 1000 ms", "<= 200 ms", "<= 2000 ms", "<= 500 ms"])


@pytest.mark.thorough
def test_a_search_is_followed_in_turns(tmp_path: Path) -> None:
    _, kept = run(tmp_path, "--only", "following")
    assert all(row["ok"] is None or row["ratio"] > 0 for row in kept["rows"])


@pytest.mark.thorough
def test_a_warm_start_stands_beside_a_fresh_one(tmp_path: Path) -> None:
    _, kept = run(tmp_path, "--only", "start")
    warm, fresh, warm_cpu, fresh_cpu = kept["rows"]
    assert 0 < warm["us"] < fresh["us"]
    assert 0 < warm_cpu["us"] < fresh_cpu["us"]
    assert warm_cpu["must_be"] == "<= 10 ms"


def test_a_checkpoint_stands_beside_torch_save(tmp_path: Path) -> None:
    _, kept = run(tmp_path, "--only", "checkpoint")
    plain, still, durable, after = kept["rows"]
    assert (still["must_be"], durable["must_be"]) == ("<= 0.15", "<= 1.30")
    assert 0 < still["us"] < durable["us"]
    assert plain["us"] > 0
    assert len(after["detail"]["durable"]) == 2


def test_a_case_whose_process_crashes_does_not_cost_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(CASES, "crashes", lambda effort: [Row("never", str(in_child("os:abort", {})))])
    monkeypatch.setitem(CASES, "works", lambda effort: [Row("works", "determined")])
    main(["--only", "crashes", "--only", "works", "--results", str(tmp_path)])
    (kept,) = tmp_path.glob("*.json")
    assert [(row["case"], row["ok"]) for row in json.loads(kept.read_text())["rows"]] == [
        ("crashes", False),
        ("works", None),
    ]
    assert "a process failed" in capsys.readouterr().out


def test_turns_give_the_contender_its_blocks_and_the_bare_loop_as_many() -> None:
    bare: list[list[int]] = []
    turns = Turns([1, 2, 3], lambda block: bare.append(list(block)), pairs=4, warm_up=2)
    assert list(turns) == [1, 2, 3] * 6 + [1]
    assert len(turns) == 19
    assert bare == [[1, 2, 3]] * 6
    assert len(turns.result.own) == len(turns.result.bare) == 4


def test_summary_is_the_median_of_the_ratios() -> None:
    summary = summarize(Pairs([2e-6, 9e-6, 4e-6], [1e-6, 3e-6, 4e-6]))
    assert summary.ratio == pytest.approx(2)
    assert (summary.own_us, summary.bare_us) == pytest.approx((4, 3))


def test_a_missed_target_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        at_most(Row("a", "determined", us=1, ratio=1.2), 1.05),
        at_least(Row("b", "determined", us=1, ratio=1.2), 1.0),
        not_installed("b", "Peer"),
    ]
    assert [row.ok for row in rows] == [False, True, None]
    show(rows, "title")
    printed = capsys.readouterr().out
    assert "MISSED" in printed
    assert "not installed" in printed
