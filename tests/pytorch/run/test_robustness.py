"""Training runs in unusual situations, and content that checkpoints must not have."""

from __future__ import annotations

import collections
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from determined import core, errors, pytorch
from determined.checkpoint_storage import manifest
from determined.pytorch.checkpoint import format as checkpoint_format
from determined.pytorch.checkpoint import legacy
from determined.user_code.program import Program
from tests.helpers import records
from tests.helpers.ranks import run_ranks
from tests.helpers.trials import HPARAMS, LineTrial, checkpoints, fit


class Normed(LineTrial):
    """A model with buffers, which data-parallel training exchanges by separate collectives."""

    def make_model(self) -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(1, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))


class OnTheChief(Normed):
    evaluate_batch = pytorch.PyTorchTrial.evaluate_batch

    def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
        return {"mean": torch.stack([self.model(x).mean() for x, _ in data_loader]).mean()}


class FewValidationBatches(Normed):
    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader([(torch.ones(1), torch.ones(1))] * 2, batch_size=2)


def evaluate_on_the_chief() -> int:
    return train_on_two_ranks(OnTheChief)


def evaluate_few_batches() -> int:
    return train_on_two_ranks(FewValidationBatches)


def train_on_two_ranks(trial_class: type[LineTrial]) -> int:
    with pytorch.init(hparams={**HPARAMS, "global_batch_size": 4}) as context:
        trial = trial_class(context)
        pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(4), validation_period=pytorch.Batch(2))
        return len(trial.batch_indices)


@pytest.mark.parametrize("program", [evaluate_on_the_chief, evaluate_few_batches])
def test_models_with_buffers_do_not_make_ranks_wait_for_each_other_in_validation(program: Any) -> None:
    results = run_ranks(program, n=2, env={"DET_COLLECTIVE_TIMEOUT": "20", "DET_PROGRESS": "0"})
    assert [result.value for result in results] == [4, 4]


class ByHand(LineTrial):
    """Steps every fourth batch itself, without the context."""

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        self.context.backward(loss)
        if batch_idx % 4 == 3:
            self.context.step_optimizer(self.optimizer)
        return {"loss": loss}


def test_gradients_that_the_program_accumulates_itself_survive_a_restart(data_home: Path) -> None:
    torch.manual_seed(3)
    whole = fit(ByHand, max_length=pytorch.Batch(8))
    torch.manual_seed(3)
    fit(ByHand, max_length=pytorch.Batch(6))
    latest = max(checkpoints(data_home), key=lambda path: path.stat().st_mtime)
    resumed = fit(ByHand, max_length=pytorch.Batch(8), latest_checkpoint=latest.name)
    assert torch.equal(resumed.weight, whole.weight)


def test_versions_of_layers_are_kept(tmp_path: Path) -> None:
    state = torch.nn.Sequential(torch.nn.BatchNorm1d(2)).state_dict()
    checkpoint_format.write({"models_state_dict": [state]}, tmp_path / "state_dict.pth")
    read = checkpoint_format.read(tmp_path, "x")["models_state_dict"][0]
    assert read._metadata["0"]["version"] == 2
    prefixed = collections.OrderedDict((f"module.{name}", value) for name, value in read.items())
    prefixed._metadata = {"": {}, "module": {"version": 1}, "module.0": {"version": 2}}  # type: ignore[attr-defined]
    assert legacy.without_prefix(prefixed)._metadata["0"] == {"version": 2}  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ["/dev/zero", "../outside", "a/../../outside", ""])
def test_a_manifest_leads_nowhere_outside(path: str, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("")
    directory = tmp_path / "checkpoint"
    directory.mkdir()
    (directory / "manifest.json").write_text(manifest._render({path: {"size": 0, "sha256": "0" * 64}}))
    with pytest.raises(errors.InvalidCheckpointException, match="checkpoint mine is damaged"):
        manifest.verify(directory, "mine")


def test_a_manifest_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "manifest.json").write_text(manifest._render({"pipe": {"size": 0, "sha256": "0" * 64}}))
    with pytest.raises(errors.InvalidCheckpointException, match="pipe is not a regular file inside the checkpoint"):
        manifest.verify(tmp_path, "mine")


def test_secrets_of_the_configuration_are_not_in_checkpoints(data_home: Path) -> None:
    storage = {"type": "s3", "bucket": "b", "secret_key": "hunter2"}
    fit(LineTrial, max_length=pytorch.Batch(1), options={"exp_conf": {"checkpoint_storage": storage}})
    (checkpoint,) = checkpoints(data_home)
    assert not any(b"hunter2" in file.read_bytes() for file in checkpoint.rglob("*") if file.is_file())


class ChangesTheCode(pytorch.PyTorchCallback):
    def on_checkpoint_write_end(self, checkpoint_dir: str) -> None:
        conf = Path(checkpoint_dir) / "code" / "conf.yaml"
        conf.write_text(conf.read_text() + "more")


def test_one_checkpoint_cannot_change_another_ones_code(data_home: Path, work_dir: Path) -> None:
    (work_dir / "conf.yaml").write_text("a: 1\n")
    (work_dir / "train.py").touch()

    class Trial(LineTrial):
        callbacks = {"changes": ChangesTheCode()}

    program = Program("script", work_dir / "train.py")
    fit(Trial, max_length=pytorch.Batch(3), checkpoint_period=pytorch.Batch(1), options={"program": program})
    assert len(checkpoints(data_home)) == 3
    for checkpoint in checkpoints(data_home):
        manifest.verify(checkpoint, checkpoint.name)


PROGRAM = """
import json, sys
from tests.helpers.trials import LineTrial, fit
from determined import pytorch
fit(LineTrial, max_length=pytorch.Batch(3), validation_period=pytorch.Batch(1))
open("done", "w").write("done")
"""


@pytest.mark.parametrize("stderr", ["2>&-", "2>&1 >/dev/null | true"])
def test_a_closed_stderr_does_not_stop_training(stderr: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    repository = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONPATH": str(repository), "DET_PROGRESS": "1"}
    subprocess.run(
        f"{sys.executable} program.py {stderr}", shell=True, cwd=tmp_path, env=environment, timeout=60, check=False
    )
    assert (tmp_path / "done").read_text() == "done"


def test_a_run_that_a_signal_ended_is_recorded_as_stopped(data_home: Path) -> None:
    with pytest.raises(SystemExit), core.init():
        raise SystemExit(143)
    (run,) = records.runs(data_home)
    assert run.attempt.state == "stopped"
