"""The commands that read: their columns, values, JSON and CSV."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from determined.cli.running.text_view import summarize, summary_lines
from determined.experimental import client
from determined.store.experiment_changes import Change, ExperimentChange
from determined.store.process import Process, this_process
from determined.store.rows import AttemptStart, NewRun
from determined.store.store import Store
from tests.cli.conftest import WEIRD
from tests.cli.det_command import det, det_csv, det_json, det_ok, det_on_terminal, head_of, rows_of
from tests.cli.filling import Steps, add_trials, end, end_trial, lead, new_experiment, work

LIST = ["ID", "Owner", "Name", "Parent ID", "State", "Progress", "Started", "Ended", "Resource Pool"]
TRIALS = ["Trial ID", "State", "H-Params", "Started", "Ended", "# of Batches"]
CHECKPOINTS = ["Trial ID", "# of Batches", "State", "Validation Metric", "UUID", "Resources", "Size"]


def test_nothing_in_the_store() -> None:
    printed = det_ok("e", "ls")
    assert head_of(printed) == LIST
    assert rows_of(printed) == []
    assert det_json("e", "ls") == []
    assert det_csv("e", "ls") == []


def test_list(store: Store, search: int) -> None:
    config = {"resources": {"resource_pool": "big"}, "workspace": "team", "project": "digits"}
    other = new_experiment(store, "other", config=config, parent_id=search, paused=True)
    newest, oldest = rows_of(det_ok("e", "ls"))
    assert oldest == {
        "ID": str(search),
        "Owner": "somebody",
        "Name": "search",
        "Parent ID": "",
        "State": "COMPLETED",
        "Progress": "100.0%",
        "Started": "2026-09-21 14:13:20+0000",
        "Ended": "2026-09-21 14:16:40+0000",
        "Resource Pool": "",
    }
    assert newest["ID"] == str(other)
    assert (newest["State"], newest["Parent ID"], newest["Resource Pool"]) == ("PAUSED", str(search), "big")
    assert det_csv("e", "ls")[1]["Ended"] == "2026-09-21 14:16:40+0000"

    plain = det_json("e", "ls")
    assert [row["id"] for row in plain] == [other, search]
    assert plain[1]["started"] == "2026-09-21T14:13:20.250+00:00"
    assert (plain[1]["best"], plain[1]["trial_count"], plain[1]["metric"]) == (0.25, 3, "loss")
    assert plain[1]["runner"] is None

    assert head_of(det_ok("e", "ls", "--show_project")) == [*LIST, "Workspace", "Project"]
    assert rows_of(det_ok("e", "ls", "--show_project"))[0]["Project"] == "digits"
    places: list[dict[str, Any]] = [{"workspace": "team", "project": "digits"}, {"workspace": None, "project": None}]
    assert det_json("e", "ls", "--show_project") == [{**row, **place} for row, place in zip(plain, places, strict=True)]


def test_archived_experiments_are_shown_on_request(store: Store, search: int) -> None:
    lease = lead(store, search)
    store.experiments.commit(lease, Change(experiment=ExperimentChange(archived=True)))
    assert det_json("e", "ls") == []
    assert head_of(det_ok("e", "ls", "-a")) == [*LIST, "Archived"]
    assert rows_of(det_ok("e", "ls", "--all"))[0]["Archived"] == "True"


def test_one_form_at_a_time(store: Store) -> None:
    for forms in (("--csv", "--json"), ("--json", "--csv")):
        result = det("e", "ls", *forms)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.endswith("Error: --csv excludes --json\n")


def test_paging(store: Store) -> None:
    ids = [new_experiment(store, str(number)) for number in range(5)][::-1]

    def listed(*arguments: str) -> list[int]:
        return [row["id"] for row in det_json("e", "ls", *arguments)]

    assert listed("--limit", "2") == ids[:2]
    assert listed("--limit", "2", "--offset", "3") == ids[3:]
    assert listed("--limit", "2", "--pages", "all") == ids
    assert listed("--limit", "2", "--offset", "1", "--pages", "all") == ids[1:]
    assert det("e", "ls", "--limit", "0").exit_code == 2

    lease = lead(store, ids[0])
    trials = add_trials(store, lease, [{"n": n} for n in range(4)])
    assert [row["id"] for row in det_json("e", "lt", str(ids[0]), "--limit", "1", "--offset", "2")] == trials[2:3]


def test_standalone_runs_are_listed_with_the_name_of_their_program(store: Store) -> None:
    run = NewRun("/home/me/train.py", "runs/1", {"lr": 1}, {}, 1_790_000_000.0)
    begun = store.begin_attempt(AttemptStart("by hand", run, this_process(), 1_790_000_000.0))
    (row,) = det_json("e", "ls")
    assert (row["name"], row["state"], row["by_hand"]) == ("train.py", "ACTIVE", True)
    (trial,) = det_json("e", "lt", str(begun.experiment_id))
    assert (trial["id"], trial["hparams"]) == (begun.trial_id, {"lr": 1})
    assert det_json("e", "describe", str(begun.experiment_id))[0]["trials"][0]["id"] == begun.trial_id
    assert det_ok("e", "lc", str(begun.experiment_id), "--best", "1").count("\n") == 2


def test_list_trials(search: int) -> None:
    printed = det_ok("e", "list-trials", str(search))
    assert head_of(printed) == TRIALS
    first, second, third = rows_of(printed)
    assert first == {
        "Trial ID": first["Trial ID"],
        "State": "COMPLETED",
        "H-Params": '{"lr": 0.1, "net": {"layers": 3}}',
        "Started": "2026-09-21 14:13:22+0000",
        "Ended": "2026-09-21 14:15:00+0000",
        "# of Batches": "16",
    }
    assert [row["State"] for row in (second, third)] == ["STOPPED_EARLY", "ERROR"]
    plain = det_json("e", "lt", str(search))
    assert [(row["number"], row["best"], row["restarts"], row["reason"]) for row in plain] == [
        (0, 0.25, 0, None),
        (1, None, 0, None),
        (2, None, 2, "exit code 1: no such file"),
    ]
    assert plain[0]["latest_checkpoint"] == f"checkpoint-{plain[0]['id']}-16"
    assert det_csv("e", "lt", str(search))[0]["H-Params"] == '{"lr": 0.1, "net": {"layers": 3}}'


def test_effective_hyperparameters(store: Store) -> None:
    experiment_id = new_experiment(store)
    lease = lead(store, experiment_id)
    (trial_id,) = add_trials(store, lease, [{"lr": 0.1, "net": {"layers": 3}}])
    work(store, lease, trial_id, Steps(validation=[(4, {"loss": 0.5})], passed={"lr": 0.25, "net": {"act": "relu"}}))
    used = {"lr": 0.25, "net": {"layers": 3, "act": "relu"}}
    assert rows_of(det_ok("e", "list-trials", str(experiment_id)))[0]["H-Params"] == json.dumps(used)
    assert json.dumps(used) in det_ok("e", "describe", str(experiment_id))
    assert json.dumps(used) in det_ok("trial", "describe", str(trial_id))
    listed = det_json("e", "lt", str(experiment_id))
    described = det_json("e", "describe", str(experiment_id))[0]["trials"]
    for row in (*listed, *described, det_json("trial", "describe", str(trial_id))):
        assert (row["hparams"], row["effective_hparams"]) == ({"lr": 0.1, "net": {"layers": 3}}, used)
    text = "\n".join(summary_lines(summarize(store, experiment_id), None))
    assert "  lr          0.25 (assigned: 0.1)\n  net.layers  3\n  net.act     relu\n" in text
    compared = det_json("e", "compare", str(experiment_id))
    assert [row["values"] for row in compared["hyperparameters"] if row["name"] == "lr"] == [[0.25]]
    trial = client.get_trial(trial_id)
    assert (trial.hparams["lr"], trial.effective_hparams) == (0.1, used)


def test_list_checkpoints(store: Store, search: int) -> None:
    printed = det_ok("e", "list-checkpoints", str(search))
    assert head_of(printed) == CHECKPOINTS
    rows = rows_of(printed)
    assert [(row["# of Batches"], row["Validation Metric"]) for row in rows] == [
        ("4", "0.75"),
        ("16", "0.25"),
        ("4", "NaN"),
    ]
    assert rows[0] == {**rows[0], "State": "COMPLETED", "Resources": "code/, state_dict.pth", "Size": "1.5 KB"}

    best = det_json("e", "lc", str(search), "--best", "5")
    assert [row["validation_metric"] for row in best] == [0.25, 0.75]  # what is not a number is never the best
    assert best[0]["size"] == 1500
    assert [row["UUID"] for row in det_csv("e", "lc", str(search), "--best", "1")] == [best[0]["uuid"]]
    assert det_json("e", "lc", str(search))[2]["validation_metric"] == "NaN"

    store.set_checkpoint_deleted(best[0]["uuid"])
    assert [row["validation_metric"] for row in det_json("e", "lc", str(search), "--best", "1")] == [0.75]
    assert [row["state"] for row in det_json("e", "lc", str(search))] == ["COMPLETED", "DELETED", "COMPLETED"]


def test_the_best_checkpoint_where_more_is_better(store: Store) -> None:
    experiment_id = new_experiment(store, metric="accuracy", smaller_is_better=False)
    lease = lead(store, experiment_id)
    (trial_id,) = add_trials(store, lease, [{}])
    reports: list[tuple[int, dict[str, Any]]] = [
        (1, {"accuracy": 0.5}),
        (2, {"accuracy": 0.75}),
        (3, {"accuracy": float("inf")}),
        (4, {"other": 1}),
    ]
    work(store, lease, trial_id, Steps(validation=reports, saved=[1, 2, 3, 4]))
    assert [row["batches"] for row in det_json("e", "lc", str(experiment_id), "--best", "9")] == [2, 1]


def test_describe(search: int, store: Store) -> None:
    other = new_experiment(store, "other")
    experiments, trials, workloads = det_ok("e", "describe", f"{search},{other}").split("\n\n")[:3]
    title, _, table = experiments.partition("\n")
    assert title == "Experiment"
    assert head_of(table) == [
        "Experiment ID",
        "State",
        "Progress",
        "Started",
        "Ended",
        "Name",
        "Description",
        "Archived",
        "Resource Pool",
        "Labels",
    ]
    assert [row["Name"] for row in rows_of(table)] == ["search", "other"]
    assert rows_of(table)[0]["Labels"] == "a, b"
    title, _, table = trials.partition("\n")
    assert title == "Trials"
    assert head_of(table) == ["Trial ID", "Experiment ID", "State", "Started", "Ended", "H-Params"]
    assert len(rows_of(table)) == 3
    title, _, table = workloads.partition("\n")
    assert title == "Workloads"
    assert head_of(table) == [
        "Trial ID",
        "# of Batches",
        "State",
        "Report Time",
        "Checkpoint State",
        "Checkpoint Report Time",
        "Validation State",
        "Validation Report Time",
    ]
    assert len(rows_of(table)) == 3


def test_describe_says_why_something_ended_and_how_to_continue(store: Store, search: int) -> None:
    abandoned = new_experiment(store, "nobody runs it")
    closing = det_ok("e", "describe", f"{search},{abandoned}").split("\n\n")[-1]
    assert closing.splitlines()[0].endswith(f"resume with: det experiment activate {abandoned}")
    assert "ERROR after 2 restarts: exit code 1: no such file" in closing
    for process, gone in (
        (Process(socket.gethostname(), os.getpid(), "another start of the machine"), True),
        (Process("another-host", 1, "of which nothing is known"), False),
        (this_process(), False),
    ):
        lease = store.experiments.acquire(abandoned, process, watch_seconds=0)
        assert ("activate" in det_ok("e", "describe", str(abandoned))) is gone
        store.experiments.release(lease)


def test_describe_shows_zeros_and_the_metrics_of_all_trials(search: int) -> None:
    workloads = det_ok("e", "describe", str(search), "--metrics").split("\n\n")[2].partition("\n")[2]
    rows = rows_of(workloads)
    assert rows[0]["Training Metric: loss"] == "0"
    assert rows[0]["Validation Metric: loss"] == "0.75"
    assert rows[2]["Validation Metric: accuracy"] == "0"
    assert rows[2]["Validation Metric: loss"] == "NaN"
    assert rows[2]["Training Metric: loss"] == ""

    (plain,) = det_json("e", "describe", str(search), "--metrics")
    first, second, third = plain["trials"]
    assert first["workloads"][0]["training"]["metrics"] == {"loss": 0.0}
    assert second["workloads"][0]["validation"]["metrics"] == {"loss": "NaN", "accuracy": 0}
    assert first["workloads"][1]["checkpoint"]["uuid"] == f"checkpoint-{first['id']}-16"
    assert third["workloads"] == []
    assert "metrics" not in det_json("e", "describe", str(search))[0]["trials"][0]["workloads"][0]["training"]


def test_describe_as_csv(search: int, tmp_path: Path) -> None:
    target = tmp_path / "new" / "directory"
    assert "workloads.csv" in det_ok("e", "describe", str(search), "--metrics", "--outdir", str(target))
    printed = det_ok("e", "describe", str(search), "--metrics", "--csv")
    files = [(target / name).read_text() for name in ("experiments.csv", "trials.csv", "workloads.csv")]
    assert printed == "\n".join(files)
    assert "Training Metric: loss" in files[2].splitlines()[0]
    assert det("e", "describe", str(search), "--outdir", str(target), "--json").exit_code == 2
    blocked = tmp_path / "file"
    blocked.write_text("")
    failed = det("e", "describe", str(search), "--outdir", str(blocked / "below"))
    assert failed.exit_code == 1
    assert str(blocked) in failed.stderr


def test_config(store: Store, search: int) -> None:
    from determined.config.reading.load import load_yaml

    assert load_yaml(det_ok("e", "config", str(search))) == det_json("e", "config", str(search))
    config = {"environment": {"environment_variables": ["API_TOKEN=hunter2"]}, "name": WEIRD}
    secret = new_experiment(store, config=config)
    for form in ([], ["--json"]):
        printed = det_ok("e", "config", str(secret), *form)
        assert "hunter2" not in printed
        assert "API_TOKEN" in printed
        assert "\x1b" not in printed


def test_logs(search: int) -> None:
    first, second, _ = (row["id"] for row in det_json("e", "lt", str(search)))

    def texts(*arguments: str) -> list[str]:
        return [line.partition("] [rank=")[2][3:] for line in det_ok("e", "logs", str(search), *arguments).splitlines()]

    hello, plain, oops, other = (
        "INFO: [1] root: hello",
        "plain",
        "ERROR: [1] root: oops",
        "WARNING: [2] root: second",
    )
    assert texts() == [hello, plain, oops]
    assert texts("--trial", str(second)) == [other]
    assert texts("--all") == [hello, plain, oops, other]
    assert texts("--all", "--tail", "2") == [oops, other]
    assert texts("--all", "--head", "2") == [hello, plain]
    assert texts("--rank-id", "1") == [plain]
    assert texts("--rank-id", "1", "--rank-id", "0") == [hello, plain, oops]
    assert texts("--all", "--level", "warning") == [oops, other]
    assert texts("--follow", "--all") == [hello, plain, oops, other]  # it has ended: nothing to wait for
    assert texts("--follow", "--tail", "1") == [oops]
    assert det_ok("e", "logs", str(search), "--head", "1").startswith("[2026-09-21 14:13:32+0000] [rank=0] INFO")
    assert f"[trial {second}] [rank=0]" in det_ok("e", "logs", str(search), "--all")

    import json

    lines = [json.loads(line) for line in det_ok("e", "logs", str(search), "--json").splitlines()]
    assert [(line["rank"], line["level"], line["text"]) for line in lines] == [
        (0, "INFO", hello),
        (1, None, plain),
        (0, "ERROR", oops),
    ]
    assert {line["trial_id"] for line in lines} == {first}

    refused = det("e", "logs", str(search), "--trial", "99")
    assert refused.exit_code == 1
    assert f"is not one of its trials: {first}, {second}" in refused.stderr
    for wrong in (["--trial", "1", "--all"], ["--head", "1", "--tail", "1"], ["--head", "1", "-f"], ["--level", "x"]):
        assert det("e", "logs", str(search), *wrong).exit_code == 2


def test_a_long_log_is_read_in_pages_and_in_order(store: Store) -> None:
    experiment_id = new_experiment(store)
    lease = lead(store, experiment_id)
    first, second = add_trials(store, lease, [{}, {}])
    for trial_id in (first, second):
        work(store, lease, trial_id, Steps(lines=[(n % 2, None, f"{trial_id}:{n}") for n in range(2500)]))
    printed = [line.rpartition("] ")[2] for line in det_ok("e", "logs", str(experiment_id), "--all").splitlines()]
    assert printed == [f"{trial_id}:{n}" for trial_id in (first, second) for n in range(2500)]


@pytest.mark.parametrize(
    ("state", "code"), [("COMPLETED", 0), ("CANCELED", 1), ("ERROR", 1), ("PAUSED", 1), ("ACTIVE", 1)]
)
def test_wait_for_what_is_not_running(store: Store, state: str, code: int) -> None:
    experiment_id = new_experiment(store, paused=state == "PAUSED")
    if state not in ("PAUSED", "ACTIVE"):
        end(store, lead(store, experiment_id), state, reason="said why")  # type: ignore[arg-type]
    result = det("e", "wait", str(experiment_id), "--polling-interval", "0.05")
    assert result.exit_code == code
    if state in ("PAUSED", "ACTIVE"):
        assert result.stderr.startswith("Cannot wait for experiment ")
        assert f"det experiment activate {experiment_id}" in result.stderr
    else:
        assert result.stdout == f"Experiment {experiment_id}: {state} (said why)\n"
        plain = det("e", "wait", str(experiment_id), "--json")
        assert plain.exit_code == code
        assert f'"state": "{state}"' in plain.stdout


@pytest.mark.parametrize("terminal", [False, True])
def test_what_a_program_writes_is_shown_as_text(weird: int, terminal: bool) -> None:
    """Tables and messages are harmless everywhere, a log on a terminal; a file gets the log as it was."""
    commands = [
        ["ls"],
        ["describe", str(weird), "--metrics"],
        ["lt", str(weird)],
        ["config", str(weird)],
        ["logs", str(weird)],
    ]
    for words in commands:
        if terminal:
            printed = det_on_terminal("e", *words, columns=4000).decode()
        else:
            printed = det_ok("e", *words)
        if words[0] == "logs" and not terminal:
            assert WEIRD.replace("\n", "") in printed
            continue
        assert not set(printed) & {"\x1b", "\x07", "\u202e"}, words
        assert "[bold]😀[/bold] 日本" in printed or words[0] == "config", words
    assert det_json("e", "ls")[0]["name"] == WEIRD


def test_a_table_fits_the_terminal_and_keeps_its_ids(store: Store, search: int) -> None:
    new_experiment(store, "日本" * 200)
    lines = det_on_terminal("e", "ls", columns=150).decode().replace("\r\n", "\n").splitlines()
    assert all(len(line) + sum(c in "日本" for c in line) <= 150 for line in lines[:4])
    assert "…" in lines[2]
    assert "resume with: det experiment activate" in lines[4]
    narrow = det_on_terminal("e", "lc", str(search), columns=40).decode()
    assert all(row["uuid"] in narrow for row in det_json("e", "lc", str(search)))


def test_logs_are_followed_until_the_end(store: Store) -> None:
    """A line that is written while a command follows the log is printed; the end of the experiment ends the command."""
    import subprocess

    from tests.cli.det_command import DET

    experiment_id = new_experiment(store)
    lease = lead(store, experiment_id)
    (first,) = add_trials(store, lease, [{}])
    work(store, lease, first, Steps(lines=[(0, None, "before")]))
    with subprocess.Popen(
        [*DET, "e", "logs", str(experiment_id), "--all", "-f"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith("before\n")
        (second,) = add_trials(store, lease, [{}])
        work(store, lease, second, Steps(lines=[(0, None, "meanwhile")]))
        assert process.stdout.readline().endswith("meanwhile\n")
        end_trial(store, lease, first, "COMPLETED")
        end(store, lease, "COMPLETED")
        assert process.stdout.read() == ""
        assert process.wait(timeout=30) == 0
