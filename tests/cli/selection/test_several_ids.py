"""Commands for several experiments and trials, and the errors for words that are not commands."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from determined.cli.main import main
from determined.store.process import this_user
from determined.store.rows import EndRow
from determined.store.store import Store
from determined.store.substores.queue import NewEntry
from tests.cli.det_command import Terminal, det, det_json, det_ok
from tests.cli.filling import Steps, add_trials, end, end_trial, lead, new_experiment, work
from tests.store.rows import begin


@pytest.fixture
def four(store: Store) -> list[int]:
    """Create two experiments that ended, one that is paused, and one that ended."""
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
    assert "require --yes" in refused.stderr
    assert archived(store) == []
    det_ok("e", "archive", "--state", "completed", "--label", "old", "--yes")
    assert archived(store) == four[:2]
    assert det("e", "archive", "--state", "error", "--yes").stderr.endswith(": no experiment matches\n")
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


@pytest.mark.parametrize(("columns", "answer", "done"), [(80, b"n\n", False), (140, b"y\n", True)])
def test_several_ids_are_asked_about_once(
    store: Store, four: list[int], columns: int, answer: bytes, done: bool
) -> None:
    with Terminal("e", "delete", f"{four[0]}-{four[1]},{four[3]}", "999", columns=columns) as terminal:
        terminal.read_until(b"[y/N]")
        shown = "".join(terminal.screen())
        listed = ", ".join(f"{four[number]} (e{number}, COMPLETED)" for number in (0, 1, 3))
        assert f"Delete 3 experiments: {listed}?" in shown
        terminal.write(answer)
        terminal.read_to_the_end()
        assert terminal.wait() == 1
        assert terminal.seen.count(b"[y/N]") == 1
        assert (b"Experiment 999 not found." in terminal.seen) == done
    assert [row.id for row in store.experiments.list()][::-1] == (four[2:3] if done else four)


def test_one_question_for_other_commands(store: Store, four: list[int]) -> None:
    result = CliRunner().invoke(main, ["e", "delete-tb-files", f"{four[0]},{four[1]}"], input="n\n")
    assert result.exit_code == 1
    assert "Delete the TensorBoard files of 2 experiments: " in result.stderr
    assert CliRunner().invoke(main, ["e", "delete", "998", "999"], input="").stderr.splitlines() == [
        "Experiment 998 not found.",
        "Experiment 999 not found.",
    ]


def test_archived_experiments_are_not_skipped_silently(store: Store, four: list[int]) -> None:
    det_ok("e", "archive", str(four[0]))
    some = det("e", "delete", "--label", "old", "--yes")
    assert some.stderr == "Also 1 archived experiment matches: --all includes them.\n"
    assert some.stdout == f"Deleted experiment {four[1]}\n"
    none = det("e", "delete", "--label", "old", "--yes")
    assert (none.exit_code, "only 1 archived experiment matches: --all includes them" in none.stderr) == (1, True)
    assert det_ok("e", "delete", "--label", "old", "--all", "--yes") == f"Deleted experiment {four[0]}\n"
    assert det("e", "delete", str(four[3]), "--all").exit_code == 2


def test_a_missing_argument_after_the_ids_is_named(store: Store, four: list[int]) -> None:
    for words, missing in (
        (("label", "add", "1"), "Missing argument LABEL: det experiment label add 1 LABEL"),
        (("label", "remove", "1,2"), "Missing argument LABEL: det experiment label remove 1,2 LABEL"),
        (("set", "name", "1-3"), "Missing argument NAME"),
        (("set", "priority", "1"), "Missing argument N:"),
        (("label", "add", "baseline"), "give the ids of one or several experiments"),
    ):
        refused = CliRunner().invoke(main, ["experiment", *words], prog_name="det")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert missing in refused.stderr


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
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_DET_COMPLETE": "zsh_complete"}
    result = CliRunner(env=asked).invoke(main, prog_name="det", complete_var="_DET_COMPLETE")
    lines = result.stdout.splitlines()
    assert result.stderr == ""
    return list(zip(lines[1::3], lines[2::3], strict=True))


def test_labels_and_names_from_the_store_are_completed(store: Store, four: list[int]) -> None:
    lease = lead(store, four[2])
    (trial,) = add_trials(store, lease, [{}])
    work(store, lease, trial, Steps(saved=[4]))
    store.registry.create_model("digits", description="reads house numbers")
    ids = [str(number) for number in four][::-1]
    for command in ("describe", "logs", "list-trials", "fork", "label add"):
        assert [value for value, _ in completed(f"det experiment {command} ")] == ids, command
    assert (str(four[0]), "e0 COMPLETED") in completed("det e describe ")
    assert completed(f"det e describe {four[0]},{four[1]}") == [(f"{four[0]},{four[1]}", "e1 COMPLETED")]
    assert completed("det trial describe ") == [(str(trial), f"experiment {four[2]} RUNNING")]
    assert completed("det checkpoint describe check") == [(f"checkpoint-{trial}-4", f"trial {trial}, batch 4")]
    assert completed("det model describe d") == [("digits", "reads house numbers")]
    assert completed("det e ls --name e1") == [("e1", "1 experiment")]
    assert [value for value, _ in completed("det e ls --state c")] == ["COMPLETED", "CANCELED"]


def test_commands_complete_what_they_can_do_something_for(store: Store, four: list[int]) -> None:
    det_ok("e", "archive", str(four[0]))
    running = new_experiment(store, "running")
    lease = lead(store, running)
    trials = add_trials(store, lease, [{}, {}])
    for trial in trials:
        work(store, lease, trial, Steps())
    end_trial(store, lease, trials[0], "COMPLETED")
    abandoned = new_experiment(store, "abandoned")
    queued = new_experiment(store, "queued")
    store.queue.add(NewEntry(queued, socket.gethostname(), this_user()))
    old, ended, paused, also_ended = four
    for words, expected in (
        ("e unarchive", [old]),
        ("e archive", [also_ended, ended]),
        ("e delete", [also_ended, ended, old]),
        ("e activate", [queued, abandoned, paused]),
        ("e continue", [queued, abandoned, also_ended, paused, ended]),
        ("e pause", [queued, abandoned, running]),
        ("e kill", [queued, abandoned, running, paused]),
        ("e cancel", [queued, abandoned, running, paused]),
        ("e wait", [queued, abandoned, running]),
        ("e set max-slots", [queued, abandoned, running, paused]),
        ("e set priority", [queued]),
        ("queue remove", [queued]),
        ("trial kill", [trials[1]]),
        ("trial logs", [trials[1], trials[0]]),
    ):
        assert [value for value, _ in completed(f"det {words} ")] == [str(number) for number in expected], words
    assert [value for value, _ in completed(f"det e kill {queued},")] == [
        f"{queued},{number}" for number in (abandoned, running, paused)
    ]


def test_labels_are_completed(store: Store, four: list[int]) -> None:
    det_ok("e", "label", "add", str(four[2]), "new wave")
    assert completed("det e ls --label ") == [("new wave", "1 experiment"), ("old", "2 experiments")]
    assert completed("det e archive --label o") == [("old", "2 experiments")]
    assert completed(f"det e label remove {four[0]} o") == [("old", "2 experiments")]
    assert completed("det e label remove o") == []


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


def test_interrupted_standalone_runs_are_completed_where_commands_accept_them(store: Store) -> None:
    run = begin(store)
    store.write([EndRow(run.trial_id, 1, "stopped", 9.0, 1.0)])
    number = str(run.experiment_id)
    for command in ("archive", "delete", "cancel"):
        assert completed(f"det e {command} ") == [(number, "mine PAUSED")], command
    for command in ("activate", "continue", "pause"):
        assert completed(f"det e {command} ") == [], command
    det_ok("e", "archive", number)
