"""`det experiment create` and the commands that control what it runs, with real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from determined.store.store import Store
from tests.cli.det_command import WARM_DET, Terminal, det, det_json, det_ok, run_det
from tests.cli.projects import CONFIG, PROGRAM
from tests.helpers import warm

END_OF_FRAME = b"\x1b[0m\r\n"
FOR_EVER = ["--config", "hyperparameters.seconds=0.05", "--config", "searcher.max_trials=500", "--slots", "2"]


def test_a_search_without_a_terminal(project: Path) -> None:
    done = run_det("experiment", "create", "config.yaml", "model", "--follow", "--slots", "2")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == "Created experiment 1"
    assert any(line.endswith("[rank=0] hello from the trial") for line in lines)
    started = [line for line in lines if re.search(r"trial \d started: lr=0\.\d+$", line)]
    assert len(started) == 4
    assert "\x1b" not in done.stdout
    best = min(det_json("e", "lt", "1"), key=lambda row: row["best"])
    assert f"Best trial: {best['id']}, loss {best['best']:.6g} (COMPLETED)" in lines
    (checkpoint,) = det_json("e", "lc", "1", "--best", "1")
    place = next(line.strip() for line in lines if line.endswith(f"/{checkpoint['uuid']}"))
    assert (Path(place) / "weights").read_text() == str(checkpoint["batches"])
    assert f"  det experiment logs 1 --trial {best['id']}" in lines
    assert det_ok("e", "wait", "1") == "Experiment 1: COMPLETED\n"
    assert det_json("e", "config", "1")["searcher"]["max_trials"] == 4

    for command, word in (("pause", "ended"), ("cancel", "ended"), ("kill", "ended"), ("activate", "it is COMPLETED")):
        refused = det("e", command, "1")
        assert refused.exit_code == 1
        assert word in refused.stderr


def test_ctrl_c_pauses_and_activate_continues(project: Path, store: Store) -> None:
    """On a terminal with a live view. Paused by Ctrl-C, continued, and canceled by another process."""
    with Terminal("e", "create", "config.yaml", "model", *FOR_EVER) as terminal:
        terminal.read_until(b"best so far")
        terminal.write(b"\x03")
        rest = terminal.read_to_the_end()
        assert terminal.wait() == 130
    assert b"slots 2/2" in terminal.seen
    assert b"of 500 trials done" in terminal.seen
    assert b"det experiment activate 1" in rest
    assert store.experiments.get(1).state == "PAUSED"
    assert det("e", "wait", "1").exit_code == 1
    assert "Experiment 1 is already paused." in det_ok("e", "pause", "1")

    with warm.Popen(
        [*WARM_DET, "e", "activate", "1", "--json", "--slots", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as runner:
        assert runner.stderr is not None
        for line in runner.stderr:
            if "started" in line or "goes on" in line:
                break
        held = det("e", "activate", "1")
        assert held.exit_code == 1
        assert f"is being run by process {runner.pid} on host" in held.stderr
        assert det_json("e", "ls")[0]["runner"]["pid"] == runner.pid
        wait = [*WARM_DET, "e", "wait", "1", "--polling-interval", "0.2"]
        waiting = warm.Popen(wait, stdout=subprocess.PIPE, text=True)
        assert "Canceling" in det_ok("e", "cancel", "1")
        printed, _ = runner.communicate(timeout=60)
    assert runner.returncode == 1
    summary = json.loads(printed)
    assert (summary["id"], summary["state"]) == (1, "CANCELED")
    assert summary["best_checkpoint"]["uuid"]
    assert waiting.communicate(timeout=60)[0] == "Experiment 1: CANCELED\n"
    assert waiting.returncode == 1


def test_terminated_it_pauses_too_and_needs_no_reader(project: Path, store: Store) -> None:
    """As `det e create ... | head -1`: the search continues; SIGTERM pauses it. A paused one can be killed."""
    command = [*WARM_DET, "e", "create", "config.yaml", "model", *FOR_EVER]
    with warm.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        assert runner.stderr is not None
        assert runner.stdout.readline() == "Created experiment 1\n"
        runner.stdout.close()
        while len([trial for trial in store.experiments.trials(1) if trial.ended]) < 4:
            assert runner.poll() is None
            time.sleep(0.05)
        os.kill(runner.pid, signal.SIGTERM)
        assert runner.wait(timeout=60) == 143
        assert runner.stderr.read() == ""
    assert store.experiments.get(1).state == "PAUSED"
    assert "it is now canceled" in det_ok("e", "kill", "1")
    assert store.experiments.get(1).state == "CANCELED"


@pytest.mark.parametrize("columns", [80, 140])
def test_ctrl_c_twice_leaves_it_paused(project: Path, store: Store, columns: int) -> None:
    """A program that ignores requests cannot be paused quickly: the first Ctrl-C is answered at once nevertheless."""
    (begun := project / "begun").mkdir()
    note = f"__import__('tempfile').mkstemp(dir={str(begun)!r}); print("
    program = PROGRAM.replace("should_preempt()", "should_preempt() and False").replace("print(", note)
    (project / "model" / "train.py").write_text(program)
    with Terminal(
        "e", "create", "config.yaml", "model", *FOR_EVER, "--config", "hyperparameters.seconds=2", columns=columns
    ) as terminal:
        terminal.read_until(b"RUNNING")
        # Trials that have not begun yet have nothing to save, and end at once.
        terminal.read_until_true(lambda: len(os.listdir(begun)) == 2)
        terminal.read_until_end(END_OF_FRAME)
        terminal.write(b"\x03")
        terminal.read_until("Pausing: saving 2 trials … (Ctrl-C again: stop without saving)".encode())
        terminal.read_until_end(END_OF_FRAME)
        terminal.write(b"\x03")
        terminal.read_to_the_end()
        assert terminal.wait() == 130
    shown = terminal.screen()
    assert shown[:3] == ["Checking config.yaml …", "Checking entrypoint python3 train.py …", "Created experiment 1"]
    assert "Stopping without saving: trials resume from their last checkpoints" in shown
    assert [line for line in shown if line][-1].strip().startswith("det experiment activate 1")
    assert all(len(line) <= columns for line in shown)
    assert store.experiments.get(1).state == "PAUSED"
    assert {trial.state for trial in store.experiments.trials(1)} == {"PAUSED"}


def test_one_batch_to_see_that_it_works(project: Path, store: Store) -> None:
    """`--test`, of a script as well. The experiment stays in the store, and is not listed."""
    (project / "model" / "train.py").write_text(PROGRAM.replace("batch % 4 == 0", "True"))
    done = run_det("e", "create", "config.yaml", "model", "--test")
    assert done.returncode == 0, done.stdout + done.stderr
    row = store.experiments.get(1)
    assert (row.state, row.archived) == ("COMPLETED", True)
    (trial,) = store.experiments.trials(1)
    assert (trial.state, trial.steps_completed) == ("COMPLETED", 1)
    assert "det experiment list --all" in done.stderr
    assert det_json("e", "ls") == []
    assert [one["id"] for one in det_json("e", "ls", "--all")] == [1]


def test_a_failing_program(project: Path) -> None:
    (project / "model" / "train.py").write_text("raise ValueError('no data \\x1b[2J here')")
    done = run_det(
        "e", "create", "config.yaml", "model", "--config", "max_restarts=0", "--config", "searcher.max_trials=1"
    )
    assert done.returncode == 1
    assert "Experiment 1 (tiny): ERROR" in done.stdout
    assert "ValueError: no data \\x1b[2J here" in done.stdout
    assert "det experiment logs 1 --trial 1 --tail 30" in done.stdout
    assert "ValueError" in det_ok("e", "logs", "1", "--tail", "1")


def test_created_paused(project: Path, store: Store) -> None:
    printed = det_ok(
        "e", "create", "config.yaml", "model", "--paused", "--config", "name=a, b", "--config", "labels=x,y"
    )
    assert printed.splitlines() == [
        "Created experiment 1",
        "Paused. To run it: det experiment activate 1",
    ]
    row = store.experiments.get(1)
    assert (row.state, row.name, row.labels) == ("PAUSED", "a, b", ["x", "y"])
    plain = det_json("e", "create", "config.yaml", "model", "--paused")
    assert (plain["id"], plain["state"], plain["trial_count"]) == (2, "PAUSED", 0)
    assert det("e", "wait", "2").exit_code == 1
    (project / "model" / "gone").symlink_to("nowhere")
    told = det("e", "create", "config.yaml", "model", "--paused").stderr
    assert told.startswith("Not copied from the model directory: gone (")


def test_a_dry_run_shows_the_plan_and_creates_nothing(project: Path, data_home: Path) -> None:
    (project / "model" / "gone").symlink_to("nowhere")
    printed = det_ok("e", "create", "config.yaml", "model", "--dry-run", "--slots", "3")
    assert "; skipped: gone (" in printed
    assert "Experiment tiny: python3 train.py" in printed
    assert "Search: adaptive_asha over 4 trials, compared by loss (smaller is better)" in printed
    assert "Slots: 3, 1 for each trial, so 3 trials at once" in printed
    assert re.search(r"Checkpoints: at most \d+ are kept in \S+, where .* are free", printed)
    assert "Code: 1 file of " in printed
    assert "16 batches" in printed
    plain = det_json("e", "create", "config.yaml", "model", "--dry-run", "--slots", "3")
    assert plain["search"]["trials"] == 4
    assert (plain["slots"], plain["trials_at_once"], plain["code_files"]) == (3, 3, 1)
    assert not list(data_home.rglob("train.py"))
    assert det_json("e", "ls", "--all") == []


def test_options_of_old_command_lines_are_explained(project: Path) -> None:
    result = det(
        "e", "create", "config.yaml", "model", "--paused", "--local", "--template", "t", "--project_id", "3", "-p", "80"
    )
    assert result.exit_code == 0
    assert [line.partition(" has no effect: ")[0] for line in result.stderr.splitlines()] == [
        "--template",
        "--project_id",
        "-p/--publish",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.yaml", "model"], "missing.yaml: No such file"),
        (["config.yaml", "nowhere"], "nowhere does not exist"),
        (["config.yaml", "config.yaml"], "config.yaml is a file"),
        (["config.yaml", "model", "--config", "searcher.max_trials=0"], "searcher.max_trials: "),
        (["config.yaml", "model", "--config", "sercher.name=grid"], "sercher"),
        (["config.yaml", "model", "--config", "nonsense"], "nonsense"),
        (["config.yaml", "model", "--config", "resources.slots_per_trial=64", "--slots", "2"], "slots_per_trial"),
        (["config.yaml", "model", "--config", "entrypoint=python3 other.py"], "other.py"),
        (["config.yaml", "model", "--include", "nothing"], "nothing"),
    ],
)
def test_what_cannot_run_is_refused_and_nothing_is_created(project: Path, arguments: list[str], words: str) -> None:
    dry = det("e", "create", *arguments, "--dry-run")
    assert (dry.exit_code, dry.stdout) == (1, "") or "other.py" in arguments[-1]  # a plan does not read the code
    result = det("e", "create", *arguments, "--paused")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Cannot create the experiment: ")
    assert words in result.stderr
    assert det_json("e", "ls", "--all") == []


def test_all_mistakes_at_once(project: Path) -> None:
    (project / "config.yaml").write_text(CONFIG.replace("max_trials: 4", "max_trials: 0") + "max_restart: 3\n")
    for words in (["e", "create", "config.yaml", "model"], ["preview-search", "config.yaml"]):
        result = det(*words)
        assert result.exit_code == 1
        assert "searcher.max_trials: " in result.stderr
        assert "max_restarts" in result.stderr  # the most similar correct name


def test_choices_that_exclude_each_other(project: Path) -> None:
    for pair in (["--follow", "--paused"], ["-f", "--test"], ["--paused", "-t"]):
        assert det("e", "create", "config.yaml", "model", *pair).exit_code == 2


def test_preview_search(project: Path) -> None:
    printed = det_ok("preview-search", "config.yaml", "--config", "searcher.max_trials=16", "--slots", "8")
    assert "name: adaptive_asha" in printed
    table = printed.partition("\n\n")[2].split("\n\n")[0].splitlines()
    assert [line.split(" | ") for line in table] == [
        [" Trials", "Training Time"],
        ["--------+---------------"],
        ["      9", "1 batches"],
        ["      5", "4 batches"],
        ["      2", "16 batches"],
    ]
    assert "Total: 61 batches, 23.8% of training all trials to the end." in printed
    plain = det_json("preview-search", "config.yaml", "--config", "searcher.max_trials=16")
    assert plain["plan"] == [{"time": 1, "trials": 9}, {"time": 4, "trials": 5}, {"time": 16, "trials": 2}]
    assert plain["brackets"][0] == {"trials": 12, "at_once": 8, "rungs": [1, 4, 16]}
    single = "{name: single, metric: loss, max_length: {epochs: 2}}"
    (project / "config.yaml").write_text(re.sub(r"searcher: .*", f"searcher: {single}", CONFIG))
    assert "      1 | 2 epochs" in det_ok("preview-search", "config.yaml")


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        ("{type: s3, bucket: b, endpoint_url: 'minio:9000'}", "endpoint_url: expected a URL such as"),
        ("{type: azure, container: c, connection_string: 'AccountName=a'}", "connection_string: expected a connection"),
        ("{type: s3, bucket: b}", "the environment variable AWS_ENDPOINT_URL must be a URL"),
    ],
)
@pytest.mark.parametrize("option", ["--dry-run", "--paused"])
def test_a_bad_address_of_a_storage_is_reported_in_one_line(
    storage: str, words: str, option: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "nowhere")
    (project / "config.yaml").write_text(CONFIG + f"checkpoint_storage: {storage}\n")
    done = det("e", "create", "config.yaml", "model", option)
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert f"checkpoint_storage{'.' if 'expected' in words else ': '}{words}" in line
    assert "expected" not in words or f" config.yaml:{len(CONFIG.splitlines()) + 1}: " in line
    assert done.stdout == ""
