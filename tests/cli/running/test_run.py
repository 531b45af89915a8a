"""`det run`: any programs as experiments of one trial."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import IO

import pytest

from determined.store.store import Store
from tests.cli.det_command import WARM_DET, det, det_json, run_det
from tests.helpers import warm

PROGRAM = """
import json, sys, time
from pathlib import Path
import determined as det
from determined import core

info = det.get_cluster_info()
factor = float(Path("factor.txt").read_text())
with core.init() as context:
    done = 0
    if info.latest_checkpoint is not None:
        with context.checkpoint.restore_path(info.latest_checkpoint) as path:
            done = json.loads((path / "done.json").read_text())
    print("begins after", done, file=sys.stderr)
    stop = False
    while done < int(sys.argv[2]) and not stop:
        time.sleep(0.1)
        done += 1
        context.train.report_validation_metrics(done, {"accuracy": factor * done})
        print("batch", done)
        stop = context.preempt.should_preempt()
    with context.checkpoint.store_path({"steps_completed": done}) as (path, _):
        (path / "done.json").write_text(json.dumps(done))
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the directory of a program and of the data that it reads."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(PROGRAM)
    (tmp_path / "work" / "factor.txt").write_text("0.5")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def started(*words: str) -> subprocess.Popen[str]:
    return warm.Popen([*WARM_DET, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def read_until(stream: IO[str] | None, line: str) -> None:
    assert stream is not None
    assert any(read == f"{line}\n" for read in stream)


def test_paused_continued_killed_and_brought_to_its_end(
    directory: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program reads files beside it, its lines are printed as it writes them, and no batch is lost or repeated."""
    options = ["--metric", "accuracy", "--larger-is-better", "--hparam", "lr=1e-3", "--label", "a", "--name", "../x y"]
    runner = started("run", *options, "python", "train.py", "--epochs", "1000", "--api-token", "geheim")
    read_until(runner.stdout, "batch 3")
    runner.send_signal(signal.SIGINT)
    rest, said = runner.communicate(timeout=60)
    assert runner.returncode == 130
    assert all(line.startswith("batch ") for line in rest.splitlines())
    assert "begins after 0" in said.splitlines()
    assert "To resume: det experiment activate 1" in said
    row, (trial,) = store.experiments.get(1), store.experiments.trials(1)
    assert (row.name, row.labels, row.state, trial.hparams) == ("../x y", ["a"], "PAUSED", {"lr": 0.001})
    assert (Path(row.code_dir) / "train.py").read_text() == PROGRAM
    paused_at = trial.steps_completed

    monkeypatch.chdir("/")  # it works in its own directory from everywhere
    runner = started("e", "continue", "1", "--config", "entrypoint=python train.py --epochs 20", "-f")
    while store.experiments.trial(trial.id).steps_completed <= paused_at:
        assert runner.poll() is None
        time.sleep(0.05)
    runner.kill()
    runner.communicate()
    done = run_det("e", "activate", "1", "--json")
    assert done.returncode == 0, done.stderr
    plain = json.loads(done.stdout)
    assert (plain["state"], plain["best_trial"]["best"]) == ("COMPLETED", 10.0)
    reported = sorted((row.steps_completed, row.metrics["accuracy"]) for row in store.metrics(trial.id))
    assert reported == [(step, 0.5 * step) for step in range(1, 21)]
    lines = [row.text for row in store.logs(trial.id)]
    assert [f"begins after {paused_at}"] * 2 == [line for line in lines if line.startswith("begins")][1:]
    assert plain["best_checkpoint"]["batches"] == 20
    kept = [path for path in Path(os.environ["XDG_DATA_HOME"]).rglob("*") if path.is_file()]
    assert [path.name for path in kept if b"geheim" in path.read_bytes()] == ["config.json"]


def test_its_own_exit_code_and_streams(directory: Path, store: Store) -> None:
    """It is restarted as often as the option says; standard output has exactly its lines, including colours.

    A line that the program overwrites is shown in its last state.
    """
    program = r"echo out $1; printf '\033[1mX\033[0m\351\nZ\rY'; echo err >&2; exit 7"
    done = run_det("run", "--max-restarts", "1", "--", "sh", "-c", program, "--", "--json")
    assert (done.returncode, done.stdout) == (7, "out --json\n\x1b[1mX\x1b[0m\\xe9\nY\n" * 2)
    first, *lines, last = done.stderr.splitlines()
    assert first.startswith("Experiment 1: sh -c 'echo out")
    assert [line for line in lines if line == "err"] == ["err"] * 2
    assert last.startswith("Experiment 1: ERROR (exit code 7")
    experiment, (trial,) = store.experiments.get(1), store.experiments.trials(1)
    assert (trial.restarts, experiment.progress) == (1, 0.0)
    assert trial.started is not None
    assert trial.ended is not None
    assert experiment.created < trial.started < trial.ended


@pytest.mark.thorough
def test_a_program_that_knows_nothing_of_us_gets_the_signal(directory: Path, store: Store) -> None:
    runner = started("run", "sh", "-c", 'trap "echo saved; exit 3" INT; echo begun; sleep 60 & wait')
    read_until(runner.stdout, "begun")
    runner.send_signal(signal.SIGTERM)
    rest, _ = runner.communicate(timeout=20)
    assert (runner.returncode, rest) == (143, "saved\n")
    assert store.experiments.get(1).state == "PAUSED"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none-such"], "none-such: there is no such program"),
        (["./none"], "./none: there is no such program"),
        (["./factor.txt"], "./factor.txt: it may not be executed"),
        (["train.py"], "Did you mean: det run python train.py"),
        (["python", "none.py"], "none.py: there is no such file"),
        (["python3", "-m", "none.such"], "none.such: there is no such module"),
        (["--slots-per-trial", "999", "true"], "resources.slots_per_trial"),
        (["--config", "max_restart=1", "true"], "max_restart"),
        (["--hparam", "lr", "true"], "hyperparameters.lr: expected name=value"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_created(directory: Path, words: list[str], said: str) -> None:
    result = det("run", "--paused", *words)
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert said in line
    assert det_json("e", "ls", "--all") == []
    assert not list(Path(os.environ["XDG_DATA_HOME"]).rglob("config.json"))


def test_in_a_copy(directory: Path, store: Store) -> None:
    result = det("run", "--copy", "--paused", "--json", "python", "train.py", "--epochs", "1")
    plain = json.loads(result.stdout)
    assert (plain["name"], plain["state"]) == ("python train.py --epochs 1", "PAUSED")
    code = Path(store.experiments.get(plain["id"]).code_dir)
    assert (code / "factor.txt").exists()
    assert not (code.parent / "directory").exists()
    assert det("run", "--paused", "--detach", "true").exit_code == 2
