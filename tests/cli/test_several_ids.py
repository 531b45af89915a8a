"""Commands for several experiments and trials, and what they say of words that are no commands."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from determined.store.base import Store
from tests.cli.filling import Steps, add_trials, end, lead, new_experiment, work
from tests.cli.running import Terminal, det, det_json, det_ok


@pytest.fixture
def four(store: Store) -> list[int]:
    """Two experiments that ended, one that is paused, and one that ended."""
    ids = []
    for number in range(4):
        experiment_id = new_experiment(store, f"e{number}", labels=["old"] if number < 2 else [], paused=number == 2)
        if number != 2:
            end(store, lead(store, experiment_id), "COMPLETED")
        ids.append(experiment_id)
    return ids


def archived(store: Store) -> list[int]:
    return sorted(row.id for row in store.experiments.list(archived=True) if row.archived)


@pytest.mark.parametrize("form", ["{0} {1}", "{0},{1}", "{0}-{1}", "{0} {0},{1}"])
def test_several_ids(store: Store, four: list[int], form: str) -> None:
    words = form.format(*four).split()
    assert det_ok("e", "archive", *words) == "".join(f"Experiment {number}: archived\n" for number in four[:2])
    assert archived(store) == four[:2]
    assert [row["id"] for row in det_json("e", "describe", *words)] == four[:2]
    assert [row["id"] for row in det_json("e", "unarchive", *words)] == four[:2]


def test_each_id_is_dealt_with_and_each_failure_reported(store: Store, four: list[int]) -> None:
    result = det("e", "archive", f"{four[0]}-{four[3]}", "999")
    assert result.exit_code == 1
    assert archived(store) == [four[0], four[1], four[3]]
    paused, missing = result.stderr.splitlines()
    assert paused.startswith(f"Cannot archive experiment {four[2]}: ")
    assert missing == "Experiment 999 not found."
    plain = det("e", "unarchive", str(four[0]), "999", "--json")
    assert plain.exit_code == 1
    assert [("error" in row, row["id"]) for row in json.loads(plain.stdout)] == [(False, four[0]), (True, 999)]
    one = det_json("e", "unarchive", str(four[1]))
    assert one["id"] == four[1]  # one id: an object, as before


def test_a_range_means_those_that_exist(store: Store, four: list[int]) -> None:
    assert det_ok("e", "archive", f"{four[3]}-{10**9}") == f"Experiment {four[3]}: archived\n"
    nothing = det("e", "archive", "1000-2000")
    assert (nothing.exit_code, nothing.stderr) == (1, "There is no experiment between 1000 and 2000.\n")
    for wrong in (["9-3"], ["3-"], ["x"], ["3,,4"], [str(10**20)], []):
        refused = det("e", "archive", *wrong)
        assert (refused.exit_code, refused.stdout) == (2, ""), wrong


def test_experiments_are_chosen_by_state_and_label(store: Store, four: list[int]) -> None:
    refused = det("e", "archive", "--label", "old")
    assert refused.exit_code == 2
    assert "need --yes" in refused.stderr
    assert archived(store) == []
    det_ok("e", "archive", "--state", "completed", "--label", "old", "--yes")
    assert archived(store) == four[:2]
    assert "matches; archived ones are chosen by id" in det("e", "archive", "--state", "error", "--yes").stderr
    assert "no archived experiment matches" in det("e", "unarchive", "--state", "paused", "--yes").stderr
    det_ok("e", "unarchive", "--label", "old", "--yes")
    assert archived(store) == []
    both = det("e", "archive", "3", "--state", "error")
    assert (both.exit_code, "not both" in both.stderr) == (2, True)


@pytest.mark.parametrize(("answer", "done"), [(b"n\n", False), (b"y\n", True)])
def test_a_terminal_is_asked_about_them_once(store: Store, four: list[int], answer: bytes, done: bool) -> None:
    with Terminal("e", "delete", "--label", "old") as terminal:
        terminal.read_until(b"[y/N]")
        shown = terminal.seen.decode()
        assert f"Delete 2 experiments: {four[0]} (e0, COMPLETED), {four[1]} (e1, COMPLETED)?" in shown
        terminal.write(answer)
        terminal.read_to_the_end()
        assert terminal.wait() == int(not done)
    assert [row.id for row in store.experiments.list()][::-1] == (four[2:] if done else four)


def test_labels_and_settings_of_several(store: Store, four: list[int]) -> None:
    det_ok("e", "label", "add", str(four[0]), f"{four[2]},{four[3]}", "new")
    assert [("new" in store.experiments.get(number).labels) for number in four] == [True, False, True, True]
    det_ok("e", "set", "name", f"{four[0]}-{four[1]}", "wider layers")
    assert [store.experiments.get(number).name for number in four[:2]] == ["wider layers"] * 2
    assert det("e", "wait", *map(str, (four[0], four[1]))).exit_code == 0
    assert det("e", "wait", *map(str, (four[0], four[2], four[1]))).exit_code == 1


def test_trials(store: Store) -> None:
    lease = lead(store, new_experiment(store))
    trials = add_trials(store, lease, [{}, {}, {}])
    for trial in trials:
        work(store, lease, trial, Steps(validation=[(1, {"loss": 1})]))
    assert [row["id"] for row in det_json("t", "describe", f"{trials[0]}-{trials[2]}")] == trials
    assert det("t", "kill", *map(str, trials[:2])).exit_code == 0
    assert [request.trial_id for request in store.experiments.requests(lease.experiment_id)] == trials[:2]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["experiments", "list"], "'det experiment'"),
        (["e", "lst"], "'det experiment list'"),
        (["experiment", "list-trails"], "'det experiment list-trials'"),
        (["describe", "3"], "'det experiment describe' or 'det trial describe'"),
        (["e", "label", "ad"], "'det experiment label add'"),
        (["exp", "list"], "'det experiment'"),
    ],
)
def test_did_you_mean(words: list[str], meant: str) -> None:
    result = det(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Did you mean {meant}" in result.stderr
    assert "Did you mean" not in det("xyzzy").stderr
    assert "'--label'" in det("e", "ls", "--lable", "x").stderr


def completed(words: str) -> list[tuple[str, str]]:
    """Return what zsh is offered, with the explanations."""
    from click.testing import CliRunner

    from determined.cli.main import main

    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_DET_COMPLETE": "zsh_complete"}
    result = CliRunner(env=asked).invoke(main, prog_name="det", complete_var="_DET_COMPLETE")
    lines = result.stdout.splitlines()
    assert result.stderr == ""
    return list(zip(lines[1::3], lines[2::3], strict=True))


def test_words_of_the_store_are_completed(store: Store, four: list[int]) -> None:
    lease = lead(store, four[2])
    (trial,) = add_trials(store, lease, [{}])
    work(store, lease, trial, Steps(saved=[4]))
    store.registry.create_model("digits", description="reads house numbers")
    ids = [str(number) for number in four][::-1]
    for command in ("describe", "delete", "logs", "list-trials", "archive", "fork"):
        assert [value for value, _ in completed(f"det experiment {command} ")] == ids, command
    assert (str(four[0]), "e0 COMPLETED") in completed("det e describe ")
    assert completed(f"det e delete {four[0]},{four[1]}") == [(f"{four[0]},{four[1]}", "e1 COMPLETED")]
    assert completed("det trial describe ") == [(str(trial), f"experiment {four[2]} RUNNING")]
    assert completed("det checkpoint describe check") == [(f"checkpoint-{trial}-4", f"trial {trial}, batch 4")]
    assert completed("det model describe d") == [("digits", "reads house numbers")]
    assert completed("det e ls --name e1") == [("e1", "1 experiment")]
    assert [value for value, _ in completed("det e ls --state c")] == ["COMPLETED", "CANCELED"]


@pytest.mark.parametrize("kind", ["no store", "no database", "a directory", "no name of a store"])
def test_without_a_store_nothing_is_offered_said_or_made(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "elsewhere" / "store.sqlite"
    monkeypatch.setenv("DET_STORE", "http://master" if kind == "no name of a store" else str(place))
    if kind in ("no database", "a directory"):
        place.parent.mkdir()
    if kind == "no database":
        place.write_bytes(b"no database" * 1000)
    if kind == "a directory":
        place.mkdir()
    for words in ("det e describe ", "det trial logs ", "det checkpoint delete ", "det model describe "):
        assert completed(words) == []
    assert os.path.exists(place) == (kind in ("no database", "a directory"))


def test_commands_for_one_say_so(four: list[int]) -> None:
    for command in ("logs", "list-trials", "fork", "config"):
        for words in (["1", "2"], ["1,2"], ["1-2"]):
            refused = det("e", command, *words)
            assert (refused.exit_code, refused.stdout) == (2, ""), (command, words)
            assert "this command takes one" in refused.stderr
