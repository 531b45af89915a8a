"""Training is the same with any behaviour of a client as without it: weights, exit code, and the store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from determined import pytorch
from tests.helpers.trials import LineTrial, fit
from tests.sinks.programs import TRAINING, client_that, program, received, run


def weight(trial: LineTrial) -> str:
    """Return the weight that the program prints."""
    return f"weight {float(trial.weight.item()).hex()}\n"


def weight_without() -> str:
    """Return what the program prints without a sink."""
    return weight(fit(LineTrial, seed=3, max_length=pytorch.Batch(40)))


def test_a_service_gets_all_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = weight_without()
    for name, value in client_that(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(tmp_path / "clients"))
    monkeypatch.delitem(sys.modules, "trackio", raising=False)
    trial = fit(
        LineTrial,
        seed=3,
        hparams={"net": {"width": 8}},
        options={"exp_conf": {"name": "lines", "labels": ["small"]}},
        max_length=pytorch.Batch(40),
        reporting_period=pytorch.Batch(5),
        validation_period=pytorch.Batch(20),
        checkpoint_policy="all",
    )
    monkeypatch.delitem(sys.modules, "trackio")
    assert weight(trial) == without
    (begin,) = received(tmp_path, "init")
    assert begin["project"] == "lines"
    assert begin["name"].startswith("lines-2-")  # the second run in this store
    assert begin["config"]["hyperparameters"] == {"global_batch_size": 2, "lr": 0.1, "net": {"width": 8}}
    assert begin["config"]["labels"] == ["small"]
    rows = received(tmp_path, "log")
    assert [row["step"] for row in rows if "training/loss" in row["row"]] == [5, 10, 15, 20, 25, 30, 35, 40]
    assert [row["step"] for row in rows if "validation/val_loss" in row["row"]] == [20, 40]
    assert [row["step"] for row in rows if "checkpoint/uuid" in row["row"]][-1] == 40
    assert received(tmp_path, "finish")


def test_a_client_that_fails_changes_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, TRAINING, **client_that(tmp_path, "raise in log"))
    assert (done.returncode, done.stdout) == (0, weight_without()), done.stderr
    assert done.stderr.count("trackio: upload failed (OSError: [Errno 28] No space left on device") == 1
    assert "10 reports were not sent to trackio" in done.stderr
    assert "hush" not in done.stderr


def test_a_signal_is_handled_in_time_while_a_client_hangs(tmp_path: Path) -> None:
    env = {**os.environ, **client_that(tmp_path, "hang")}
    with subprocess.Popen(
        [*program(tmp_path, TRAINING), "--until-told"],
        env=env,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "training\n"
        process.send_signal(signal.SIGTERM)
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.wait(60) == 143
