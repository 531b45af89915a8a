"""A training program that is run as users run it, and a client whose behaviour a test defines.

The clients of the services are large and not installed everywhere. What has to hold with any client, however it fails,
is tested with a client of a few lines that is found in place of Trackio's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from tests.helpers import warm

ROOT = Path(__file__).resolve().parents[2]

STAND_IN = """
import json, os, threading

MANNER = os.environ.get("MANNER", "")
PLACE = os.environ["RECEIVED"]


def receive(kind, **said):
    with open(PLACE, "a") as file:
        file.write(json.dumps({"kind": kind, **said}) + "\\n")


def behave(call):
    if MANNER == "hang":
        threading.Event().wait()
    if MANNER == "raise" or MANNER == "raise in " + call:
        raise OSError(28, "No space left on device: https://me:hush@host/")


class Run:
    def log(self, row, step=None):
        behave("log")
        receive("log", row=row, step=step)

    def finish(self):
        behave("finish")
        receive("finish")


def init(**arguments):
    behave("init")
    receive("init", **arguments)
    return Run()
"""

TRAINING = """
import sys
import torch
from determined import pytorch
from tests.helpers.trials import LineTrial


class Trial(LineTrial):
    def train_batch(self, batch, epoch_idx, batch_idx):
        if batch_idx == 20 and "--until-told" in sys.argv:
            print("training", flush=True)
            sys.stdin.readline()
        return super().train_batch(batch, epoch_idx, batch_idx)


torch.manual_seed(3)
conf = {"name": "lines", "labels": ["small"], "description": "a line", "records_per_epoch": 12}
with pytorch.init(hparams={"global_batch_size": 2, "net": {"width": 8}}, exp_conf=conf) as context:
    trial = Trial(context)
    pytorch.Trainer(trial, context).fit(
        max_length=pytorch.Batch(40), reporting_period=pytorch.Batch(5), validation_period=pytorch.Batch(20)
    )
print("weight", trial.model.weight.item().hex(), flush=True)
"""


def client_that(directory: Path, manner: str = "") -> dict[str, str]:
    """Return the environment of a program that finds the fake client; what the client gets is written to `received`."""
    (directory / "clients").mkdir(exist_ok=True)
    (directory / "clients" / "trackio.py").write_text(STAND_IN)
    return {
        "PYTHONPATH": f"{directory / 'clients'}{os.pathsep}{ROOT}",
        "RECEIVED": str(directory / "received"),
        "MANNER": manner,
        "DET_SINKS": "trackio",
    }


def received(directory: Path, kind: str) -> list[dict[str, Any]]:
    file = directory / "received"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [line for line in lines if line["kind"] == kind]


def program(directory: Path, text: str) -> list[str]:
    file = directory / "train.py"
    file.write_text(textwrap.dedent(text))
    return [sys.executable, str(file)]


def run(directory: Path, text: str, **env: str) -> subprocess.CompletedProcess[str]:
    return warm.run(
        program(directory, text), env={**os.environ, **env}, cwd=directory, capture_output=True, text=True, timeout=120
    )
