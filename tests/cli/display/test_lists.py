"""Lists of experiments and trials: filters, order, columns, and what fits a terminal."""

from __future__ import annotations

import csv
import re
import socket
import time
from io import StringIO
from typing import Any

import click
import pytest

from determined.cli.groups import LazyGroup
from determined.store.process import this_user
from determined.store.store import Store
from determined.store.substores.queue import NewEntry
from tests.cli.det_command import det, det_csv, det_json, det_ok, det_on_terminal, head_of, rows_of
from tests.cli.filling import Steps, add_trials, end, end_trial, lead, new_experiment, work

DAY = 86400.0
CONFIG: dict[str, Any] = {
    "name": "cnn",
    "hyperparameters": {
        "lr": {"type": "log", "base": 10.0, "minval": -3, "maxval": 0},
        "net": {"layers": {"type": "int", "minval": 1, "maxval": 9}, "activation": "relu"},
        "global_batch_size": {"type": "const", "val": 64},
        "optimizer": {"type": "categorical", "vals": ["sgd", "adam"]},
    },
    "searcher": {"name": "random", "metric": "accuracy", "smaller_is_better": False},
    "resources": {},
}
DETERMINED = ["ID", "Owner", "Name", "Parent ID", "State", "Progress", "Started", "Ended", "Resource Pool"]
TRIALS = ["Trial ID", "State", "H-Params", "Started", "Ended", "# of Batches"]


@pytest.fixture
def board(store: Store) -> tuple[int, list[int]]:
    """A search whose trials have the best accuracies 0.5, 0.75, none, 0.75, NaN and inf."""
    experiment_id = new_experiment(
        store, "a search with a long name", config=CONFIG, metric="accuracy", smaller_is_better=False, labels=["cnn"]
    )
    lease = lead(store, experiment_id)
    hparams = [
        {
            "lr": 0.1 / (n + 1),
            "net": {"layers": 9 - n, "activation": "relu"},
            "global_batch_size": 64,
            "optimizer": ["sgd", "adam"][n % 2],
        }
        for n in range(6)
    ]
    trials = add_trials(store, lease, hparams)
    for trial, best in zip(trials, [0.5, 0.75, None, 0.75, float("nan"), float("inf")], strict=True):
        reports = [] if best is None else [(4, {"accuracy": best, "cost": trial}), (8, {"accuracy": 0.25, "cost": 1})]
        if best != best or best == float("inf"):
            reports = reports[:1]
        work(store, lease, trial, Steps(validation=reports, saved=[4]))
        end_trial(store, lease, trial, "COMPLETED")
    end(store, lease, "COMPLETED", progress=1.0)
    return experiment_id, trials


def on_terminal(*words: str, columns: int = 80) -> list[str]:
    """Return the lines that a terminal of this width gets, none of which wraps."""
    written = det_on_terminal(*words, columns=columns).decode().replace("\r\n", "\n")
    lines = re.sub("\x1b\\[[0-9;]*m", "", written).splitlines()  # curves have colours
    assert all(len(line) <= columns for line in lines), "\n".join(lines)
    return lines


def test_the_leaderboard(board: tuple[int, list[int]]) -> None:
    experiment_id, trials = board
    best_first = [trials[number] for number in (1, 3, 0, 2, 4, 5)]
    for columns in (80, 140):
        lines = on_terminal("e", "lt", str(experiment_id), columns=columns)
        names = head_of("\n".join(lines))
        assert names[:4] == ["Trial ID", "State", "Best accuracy", "Latest"]
        assert [name for name in names if name in ("lr", "net.layers", "optimizer")] == [
            "lr",
            "net.layers",
            *(["optimizer"] if columns == 140 else []),
        ]
        assert not {"global_batch_size", "net.activation", "H-Params"} & set(names)
        assert [int(line.split("|")[0]) for line in lines[2:8]] == best_first
        assert [cell.strip() for cell in lines[2].split("|")][2:4] == ["0.75", "0.25"]
    assert lines[6].count("NaN") == 1  # shown as the newest value, and never the best
    assert [row["id"] for row in det_json("e", "lt", str(experiment_id))] == best_first
    latest = {row["id"]: row["latest"] for row in det_json("e", "lt", str(experiment_id))}
    assert [latest[trial] for trial in trials] == [0.25, 0.25, None, 0.25, "NaN", "Infinity"]


def test_orders_of_the_leaderboard(board: tuple[int, list[int]]) -> None:
    experiment_id, trials = board

    def listed(*options: str) -> list[int]:
        return [trials.index(row["id"]) for row in det_json("e", "lt", str(experiment_id), *options)]

    assert listed("--top", "2") == [1, 3]
    assert listed("--reverse") == [0, 1, 3, 2, 4, 5]
    assert listed("--reverse", "--top", "1") == [0]
    assert listed("--sort-by", "accuracy") == listed("--sort-by", "best") == listed()
    assert listed("--sort-by", "id", "--reverse") == [5, 4, 3, 2, 1, 0]
    assert listed("--sort-by", "lr") == [5, 4, 3, 2, 1, 0]
    assert listed("--sort-by", "net.layers", "--reverse") == [0, 1, 2, 3, 4, 5]
    assert listed("--sort-by", "optimizer") == [1, 3, 5, 0, 2, 4]
    assert listed("--sort-by", "latest") == [0, 1, 3, 2, 4, 5]
    assert listed("--sort-by", "cost", "--smaller-is-better", "false") == [5, 4, 3, 1, 0, 2]
    assert listed("--limit", "2", "--offset", "1") == [3, 0]
    lines = on_terminal("e", "lt", str(experiment_id), "--sort-by", "cost", "--smaller-is-better", "true")
    assert head_of(lines[0])[2] == "Best cost"
    for wrong, words in (
        (["--sort-by", "nothing"], "Metrics: accuracy, cost. Hyperparameters: global_batch_size, lr"),
        (["--sort-by", "cost"], "--sort-by cost needs --smaller-is-better"),
        (["--smaller-is-better", "true"], "--smaller-is-better requires --sort-by"),
        (["--top", "0"], "--top"),
    ):
        refused = det("e", "lt", str(experiment_id), *wrong)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert words in refused.stderr


def test_pipes_and_csv_keep_their_columns(board: tuple[int, list[int]]) -> None:
    experiment_id, _ = board
    assert head_of(det_ok("e", "ls")) == list(det_csv("e", "ls")[0]) == DETERMINED
    assert head_of(det_ok("e", "lt", str(experiment_id))) == list(det_csv("e", "lt", str(experiment_id))[0]) == TRIALS


def test_columns_are_chosen(board: tuple[int, list[int]]) -> None:
    experiment_id, _ = board
    (row,) = det_csv("e", "ls", "--columns", "id,best, trials,LABELS")
    assert row == {"ID": str(experiment_id), "Best": "0.75", "Trials": "6", "Labels": "cnn"}
    assert list(det_csv("e", "lt", str(experiment_id), "--columns", "trial_id,best,lr")[0]) == [
        *("Trial ID", "Best accuracy", "lr")
    ]
    assert "Labels" in head_of(det_ok("e", "ls", "--wide"))
    wide = det_on_terminal("e", "ls", "--wide", columns=80).decode().splitlines()
    assert len(wide[0]) > 80
    for wrong, words in (
        (["--columns", "id,stat"], "No column 'stat'. Did you mean 'State'?"),
        (["--columns", "id", "--wide"], "--wide excludes --columns"),
        (["--wide", "--csv"], "--wide is for tables"),
    ):
        refused = det("e", "ls", *wrong)
        assert refused.exit_code == 2
        assert words in refused.stderr


def list_commands(group: LazyGroup, words: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    """Return every command of `det` that prints a list, with its words."""
    found: list[tuple[tuple[str, ...], click.Command]] = []
    for name in group.commands_in:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, LazyGroup):
            found += list_commands(command, (*words, name))
        elif name.startswith("list"):
            found.append(((*words, name), command))
    return found


def test_every_list_takes_columns_and_has_a_separate_example() -> None:
    from determined.cli.main import main

    assert isinstance(main, LazyGroup)
    commands = list_commands(main)
    assert len(commands) == 6
    for words, command in commands:
        assert {"wide", "names"} <= {parameter.name for parameter in command.params}, words
        assert re.search(r"\n  Example: det ", det_ok(*words, "--help")), words


def test_columns_of_other_lists(store: Store, board: tuple[int, list[int]]) -> None:
    experiment_id, trials = board
    uuid = f"checkpoint-{trials[0]}-4"
    model = store.registry.create_model("digits", description="reads house numbers " * 9, labels=["good"])
    store.registry.register(model.id, uuid)
    waiting = new_experiment(store, "waits", created=time.time())
    store.queue.add(NewEntry(waiting, socket.gethostname(), this_user(), slots=3))
    for words, chosen, names, wide in (
        (("e", "lc", str(experiment_id)), "uuid,size,type", ["UUID", "Size", "Type"], {"Report Time", "Storage"}),
        (("queue",), "experiment-id,max_slots", ["Experiment ID", "Max Slots"], {"Max Slots"}),
        (("m", "list"), "name,versions,labels", ["Name", "Versions", "Labels"], {"Labels", "Description"}),
        (("m", "list-versions", "digits"), "version_#,registered", ["Version #", "Registered"], {"Registered"}),
    ):
        scripts = list(csv_rows(*words)[0])
        assert list(csv_rows(*words, "--columns", chosen)[0]) == names
        for columns in (80, 140):
            lines = on_terminal(*words, "--columns", chosen, columns=columns)
            assert head_of(lines[0]) == names
            written = det_on_terminal(*words, "--wide", columns=columns).decode()
            assert wide <= set(head_of(written)), written
            assert "Hidden" not in written
        assert head_of(det_ok(*words)) == scripts
        refused = det(*words, "--columns", "stat_")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "No column 'stat_'" in refused.stderr
    assert csv_rows("queue", "--columns", "experiment_id,max_slots") == [
        {"Experiment ID": str(waiting), "Max Slots": "3"}
    ]


def csv_rows(*words: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(det(*words, "--csv").stdout)))


def test_a_list_on_a_terminal(store: Store, board: tuple[int, list[int]]) -> None:
    now = time.time()
    recent = new_experiment(store, "x" * 70, created=now - 3 * 3600, config={})
    end(store, lead(store, recent), "CANCELED")
    active = new_experiment(store, "short", created=now - 2 * DAY - 60, config={}, paused=True)
    narrow = on_terminal("e", "ls")
    rows = rows_of("\n".join(narrow[:5]))
    assert [(row["ID"], row["Started"]) for row in rows[:2]] == [(str(active), "2d ago"), (str(recent), "3h ago")]
    assert (rows[2]["Trials"], rows[2]["Best"], rows[2]["Duration"]) == ("6", "0.75", "3m 20s")
    assert rows[1]["Name"].endswith("…")
    assert not {"Parent ID", "Resource Pool", "Ended"} & set(rows[0])
    assert "Hidden: " in "\n".join(narrow)
    wide = head_of("\n".join(on_terminal("e", "ls", columns=140)))
    assert {"Owner", "Metric", "Labels"} <= set(wide)
    assert "2026-09-21 14:13" in "\n".join(on_terminal("e", "ls", "--utc", columns=140))


def test_lists_are_filtered(store: Store, board: tuple[int, list[int]]) -> None:
    now = time.time()
    ids = {"old": board[0]}
    ids["yours"] = new_experiment(store, "resnet_18", owner="you", labels=["cnn", "b"], created=now - 3 * DAY)
    ids["paused"] = new_experiment(store, "Resnet-50", labels=["b"], created=now - 3600, paused=True)

    def listed(*options: str) -> list[str]:
        by_id = {number: name for name, number in ids.items()}
        return [by_id[row["id"]] for row in det_json("e", "ls", *options)]

    assert listed() == ["paused", "yours", "old"]
    assert listed("--state", "paused") == ["paused"]
    assert listed("--state", "PAUSED,completed") == listed("--state", "paused", "--state", "completed")
    assert listed("--state", "running") == listed("--state", "active") == ["yours"]
    assert listed("--label", "cnn") == ["yours", "old"]
    assert listed("--label", "cnn", "--label", "b") == ["yours"]
    assert listed("--name", "resnet*") == ["paused", "yours"]
    assert listed("--name", "resnet") == []
    assert listed("--name", "resnet?18") == ["yours"]
    assert listed("--owner", "you") == ["yours"]
    assert listed("--since", "2h") == ["paused"]
    assert listed("--since", "4d") == ["paused", "yours"]
    day_before_yesterday = time.strftime("%Y-%m-%d", time.localtime(now - 2 * DAY))
    assert listed("--since", day_before_yesterday) == ["paused"]
    assert listed("--since", "1w", "--label", "b", "--limit", "1", "--offset", "1") == ["yours"]
    assert on_terminal("e", "ls", "--label", "none")[-1] == "No experiment matches."
    for wrong, words in ((["--state", "done"], "States: ACTIVE"), (["--since", "soon"], "--since takes 30m, 3h, 2d")):
        refused = det("e", "ls", *wrong)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert words in refused.stderr


def test_describe_starts_with_the_leaderboard(board: tuple[int, list[int]]) -> None:
    experiment_id, trials = board
    for columns in (80, 140):
        lines = on_terminal("e", "describe", str(experiment_id), "--metrics", columns=columns)
        assert lines[0].startswith(f"Experiment {experiment_id}: COMPLETED, 6 trials in 3m 20s, best accuracy 0.75")
        assert head_of(lines[1])[:3] == ["Trial ID", "State", "Best accuracy"]
        assert int(lines[3].split("|")[0]) == trials[1]
        workloads = lines[lines.index("Workloads") + 1 :]
        assert {"val accuracy", "val cost"} <= set(head_of(workloads[0]))
    assert "Workloads" not in on_terminal("e", "describe", str(experiment_id))


def test_a_single_run_is_described_readably(store: Store) -> None:
    experiment_id = new_experiment(store, "one", config={})
    lease = lead(store, experiment_id)
    (trial,) = add_trials(store, lease, [{"lr": 0.25, "net": {"layers": 3}}])
    names = [f"a_rather_long_metric_name_{number}" for number in range(8)]
    reports = [(step, {"loss": 1 / step, **dict.fromkeys(names, step)}) for step in (1, 2)]
    work(store, lease, trial, Steps(training=reports, validation=reports, saved=[1]))
    for words in (("e", "describe", str(experiment_id)), ("t", "describe", str(trial), "--metrics")):
        for columns in (80, 140):
            text = "\n".join(on_terminal(*words, columns=columns))
            assert "\nHyperparameters\n lr          0.25\n net.layers  3\n" in text
            rows = rows_of(text.partition("\nMetrics\n")[2].partition("\n\n")[0].partition("\nHidden")[0])
            loss = next(row for row in rows if (row["Group"], row["Metric"]) == ("validation", "loss"))
            assert (loss["last"], loss["min"], loss["max"]) == ("0.5", "0.5", "1")
            assert '{"training"' not in text
    described = on_terminal("c", "describe", f"checkpoint-{trial}-1")
    assert "   loss                         1" in described


def test_other_tables_fit_as_well(store: Store, board: tuple[int, list[int]]) -> None:
    experiment_id, trials = board
    uuid = f"checkpoint-{trials[0]}-4"
    store.registry.register(store.registry.create_model("digits", description="reads house numbers " * 9).id, uuid)
    for words in (
        ("e", "lc", str(experiment_id)),
        ("m", "list"),
        ("m", "describe", "digits"),
        ("m", "list-versions", "digits"),
        ("queue", "list"),
        ("e", "compare", str(experiment_id)),
        ("t", "describe", str(trials[0]), "--metrics-summary"),
    ):
        for columns in (80, 140):
            on_terminal(*words, columns=columns)
    listed = on_terminal("e", "lc", str(experiment_id), columns=60)
    assert all(f"checkpoint-{trial}-4" in "\n".join(listed) for trial in trials)
    assert "hidden" in listed[-1].lower()
