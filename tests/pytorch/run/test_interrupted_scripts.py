"""A standalone script that is interrupted, fails, or has nothing to do: what it prints, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import records, warm
from tests.helpers.terminal import Terminal, python, screen

PROGRAM = """
import os, sys, time
import torch
from determined import pytorch
from tests.helpers.trials import LineTrial


class Slow(pytorch.PyTorchCallback):
    def on_checkpoint_write_end(self, checkpoint_dir):
        print("saving", flush=True)
        while os.environ.get("SLOW_SAVE"):
            time.sleep(0.05)


class Trial(LineTrial):
    def make_model(self):
        hidden = self.context.get_hparam("hidden")
        return torch.nn.Sequential(torch.nn.Linear(1, hidden), torch.nn.Linear(hidden, 1))

    def build_callbacks(self):
        return {"slow": Slow()} if os.environ.get("SLOW_SAVE") else {}

    def train_batch(self, batch, epoch_idx, batch_idx):
        if batch_idx == int(os.environ.get("FAIL_AT", -1)):
            raise ValueError("bad data")
        if batch_idx == int(os.environ.get("WAIT_AT", -1)):
            print("trained", flush=True)
            while not os.path.exists("continue"):
                time.sleep(0.01)
        if batch_idx == int(os.environ.get("LOG_AT", -1)):
            print("a message of the program", file=sys.stderr, flush=True)
        if os.environ.get("PRINT"):
            time.sleep(0.05)
            if batch_idx % 10 == 9:
                print(f"from the program {batch_idx}", flush=True)
        return super().train_batch(batch, epoch_idx, batch_idx)


if __name__ == "__main__":
    hparams = {"global_batch_size": 8, "lr": 0.1, "hidden": int(os.environ.get("HIDDEN", 1))}
    with pytorch.init(hparams=hparams) as context:
        pytorch.Trainer(Trial(context), context).fit(
            max_length=pytorch.Epoch(int(sys.argv[1])),
            checkpoint_policy="none",
            checkpoint_period=pytorch.Batch(int(os.environ.get("SAVE_EVERY", 1000))),
            latest_checkpoint=os.environ.get("LATEST"),
        )
    print("after fit", flush=True)
"""


class Script:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "train.py").write_text(PROGRAM)
        self.data = directory / "data"

    def env(self, **more: str) -> dict[str, str]:
        repository = str(Path(__file__).resolve().parents[3])
        return {
            **os.environ,
            "XDG_DATA_HOME": str(self.data),
            "PYTHONPATH": repository,
            "OMP_NUM_THREADS": "1",
            "DET_PROGRESS": "1",
            **more,
        }

    def start(self, epochs: int, **env: str) -> subprocess.Popen[str]:
        return warm.Popen(
            [sys.executable, "train.py", str(epochs)],
            cwd=self.directory,
            env=self.env(**env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, epochs: int, *, code: int = 0, **env: str) -> list[str]:
        """Return the lines on standard error."""
        process = self.start(epochs, **env)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == code, errors
        return errors.splitlines()

    def state(self) -> str:
        """Return the state of the only experiment."""
        with records.opened(self.data) as store:
            ((experiment,), (trial,)) = store.experiments.list(), store.experiments.trials(1)
            assert trial.state == experiment.state
            return experiment.state

    def staged(self) -> list[str]:
        return [str(path) for path in self.data.rglob(".staging-*")]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path)


def await_line(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == word:
            return
    raise AssertionError(f"{word} was not printed")


def test_it_says_where_it_continues_and_when_nothing_is_left(script: Script) -> None:
    first = script.run(2, LATEST="latest")
    assert not [line for line in first if "Resuming" in line or "Nothing" in line]
    longer = script.run(3, LATEST="latest")
    uuid = records.checkpoints(script.data)[0].name
    assert f"Resuming from checkpoint {uuid} at epoch 2 (batch 4)" in longer
    again = script.run(3, LATEST="latest")
    newest = records.checkpoints(script.data)[-1].name
    assert [line for line in again if line] == [f"Nothing to do: already trained to epoch 3 (checkpoint {newest})"]


def test_a_failure_ends_with_how_to_continue(script: Script) -> None:
    """In a fresh interpreter, because the line comes after the traceback that Python itself prints."""

    def failed(**env: str) -> list[str]:
        done = subprocess.run(
            python("train.py", "4", "--token", "secret"),
            cwd=script.directory,
            env=script.env(**env),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 1, done.stderr
        return done.stderr.splitlines()

    shown = "python train.py 4 --token '********'"
    without = failed(FAIL_AT="1")
    assert without[-2:] == [
        "ValueError: bad data",
        f"No checkpoint was saved. To start from the beginning: {shown}",
    ]
    unnamed = failed(FAIL_AT="6", SAVE_EVERY="3")
    assert unnamed[-1] == f'To continue: pass latest_checkpoint="latest" to fit(), and run again: {shown}'
    resumed = failed(FAIL_AT="7", LATEST="latest")
    assert resumed[-1] == f"To continue: {shown}"


def contents(data: Path) -> list[Any]:
    """Return everything that the store contains about all runs."""
    with records.opened(data) as store:
        trials = [trial for experiment in store.experiments.list() for trial in store.experiments.trials(experiment.id)]
        rows = [(store.attempts(trial.id), store.logs(trial.id), store.metrics(trial.id)) for trial in trials]
        return [store.experiments.list(), trials, rows]


def test_a_start_with_hyperparameters_that_do_not_fit_changes_nothing(script: Script) -> None:
    """In a fresh interpreter, as above. What was COMPLETED stays so; a start with the former values continues it."""
    script.run(1, LATEST="latest")
    before, (checkpoint,) = contents(script.data), records.checkpoints(script.data)
    refused = subprocess.run(
        python("train.py", "2"),
        cwd=script.directory,
        env=script.env(LATEST="latest", HIDDEN="2"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert refused.returncode == 1
    assert "hidden: 1 -> 2" in refused.stderr
    assert refused.stderr.splitlines()[-1] == (
        f"To continue the former run, use the code and hyperparameters of checkpoint {checkpoint.name}; to train with "
        "the present ones, give the run another name: DET_RUN_NAME=NAME python train.py 2"
    )
    assert contents(script.data) == before
    assert script.state() == "COMPLETED"
    script.run(2, LATEST="latest", HIDDEN="2", DET_RUN_NAME="wide")
    with records.opened(script.data) as store:
        assert len(store.experiments.list()) == 2
    assert any("at epoch 1" in line for line in script.run(2, LATEST="latest"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_a_signal_saves_and_says_so(script: Script, number: signal.Signals) -> None:
    process = script.start(3, WAIT_AT="1", LATEST="latest")
    await_line(process, "trained")
    process.send_signal(number)
    assert process.stderr is not None
    line = process.stderr.readline()
    while not line.startswith("Stopping"):
        line = process.stderr.readline()
    again = " (Ctrl-C again: stop without saving)" if number == signal.SIGINT else ""
    assert line == f"Stopping because of the signal {number.name}: saving a checkpoint …{again}\n"
    (script.directory / "continue").touch()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert errors.splitlines()[-1] == "To continue: python train.py 3"
    assert len(records.checkpoints(script.data)) == 1
    assert script.state() == "PAUSED"
    script.run(3, LATEST="latest")
    assert script.state() == "COMPLETED"


def test_a_second_interrupt_during_the_save_stops_at_once(script: Script) -> None:
    """SIGTERM and SIGHUP in between do not count. No partial file is left, and the next run continues."""
    script.run(1, LATEST="latest")
    (before,) = records.checkpoints(script.data)
    process = script.start(5, WAIT_AT="3", LATEST="latest", SLOW_SAVE="1")
    await_line(process, "trained")
    process.send_signal(signal.SIGINT)
    (script.directory / "continue").touch()
    await_line(process, "saving")
    for number in (signal.SIGTERM, signal.SIGHUP):
        process.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "stopped without saving" in errors
    assert errors.splitlines()[-1] == "To continue: python train.py 5"
    assert records.checkpoints(script.data) == [before]
    assert script.staged() == []
    assert script.state() == "PAUSED"
    resumed = script.run(2, LATEST="latest")
    assert any(line.startswith(f"Resuming from checkpoint {before.name} at epoch 1") for line in resumed)


@pytest.mark.parametrize("columns", [80, 140])
def test_the_progress_line_fits_the_terminal(script: Script, columns: int) -> None:
    """Lines of the program stay complete; after a SIGKILL the shell's next text begins on a new line."""
    env = script.env(PRINT="1", LATEST="latest")
    with Terminal(python("train.py", "30"), columns=columns, env=env, cwd=script.directory, is_warm=True) as terminal:
        terminal.read_until(b"from the program 19")
        terminal.read_until(b"batches/s")
        drawn = len(terminal.seen)
        while b"left" not in terminal.seen[drawn:]:
            terminal._read()
        terminal.signal(signal.SIGKILL)
        terminal.read_to_the_end()
    shown = [line for line in screen(terminal.seen + b"Killed\r\n$ ", columns) if line]
    assert shown[-2:] == ["Killed", "$"]
    assert shown[-3].startswith("epoch ")
    assert "from the program 9" in shown
    assert "from the program 19" in shown
    progress = [line for line in shown if line.startswith("epoch ")]
    assert all("left" in line for line in progress)
    assert any(("next validation" in line) == (columns == 140) for line in progress)
    # A line that wrapped would have left pieces that begin differently.
    assert all(line.startswith(("epoch ", "from the program", "Killed", "$")) for line in shown)


def test_lines_beside_the_progress_line_are_stored_alone(script: Script) -> None:
    """On the terminal the progress line wraps; in the log nothing of it is before what is printed next."""
    env = script.env(LATEST="latest", WAIT_AT="12", LOG_AT="6", PRINT="1")
    with Terminal(python("train.py", "30"), env=env, cwd=script.directory, is_warm=True) as terminal:
        terminal.read_until(b"from the program 9")
        terminal.read_until(b"left")
        terminal.read_until(b"trained")
        terminal.signal(signal.SIGINT)
        terminal.read_until(b"Stopping because")
        (script.directory / "continue").touch()
        terminal.read_to_the_end()
    with records.opened(script.data) as store:
        lines = [row.text for row in store.logs(1)]
    assert "Stopping because of the signal SIGINT: saving a checkpoint … (Ctrl-C again: stop without saving)" in lines
    assert "a message of the program" in lines
    assert not [line for line in lines if "batches/s" in line or "\x1b" in line]


def test_a_resized_terminal_gets_lines_of_its_new_width(script: Script) -> None:
    env = script.env(PRINT="1")
    with Terminal(python("train.py", "40"), columns=140, env=env, cwd=script.directory, is_warm=True) as terminal:
        terminal.read_until(b"left")
        terminal.resize(40)
        terminal.read_until(b"from the program 19")
        before = len(terminal.seen)
        while terminal.seen[before:].count(b"\r\x1b[K") < 3:
            terminal._read()
        narrow = terminal.seen[before:].split(b"\r\x1b[K")[1:]
        terminal.signal(signal.SIGKILL)
    assert narrow
    assert all(len(line.split(b"from")[0].decode()) <= 40 for line in narrow)
