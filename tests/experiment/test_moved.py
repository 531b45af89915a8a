"""A paused experiment goes to another machine in one file, and continues there exactly as it does at home."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.helpers.searches import Search

MODEL = """
import os
import torch
from determined import pytorch
from determined.store.open import open_store

class Trial(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context = context
        layers = torch.nn.Linear(2, 4), torch.nn.Dropout(), torch.nn.Linear(4, 1)
        self.model = context.wrap_model(torch.nn.Sequential(*layers))
        self.optimizer = context.wrap_optimizer(torch.optim.Adam(self.model.parameters(), lr=context.get_hparam("lr")))

    def build_training_data_loader(self):
        return pytorch.DataLoader(torch.arange(40.0).reshape(20, 2) / 40, batch_size=2, shuffle=True)

    build_validation_data_loader = build_training_data_loader

    def train_batch(self, batch, epoch_idx, batch_idx):
        if batch_idx == 6 and os.environ.get("PAUSE"):
            store = open_store()
            store.experiments.request(self.context.get_experiment_id(), "pause")
            store.close()
        loss = (self.model(batch) - batch.sum(1, keepdim=True)).square().mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"error": self.model(batch).abs().mean()}
"""
CONFIG: dict[str, Any] = {
    "name": "moves",
    "entrypoint": "model:Trial",
    "hyperparameters": {"lr": 0.01, "global_batch_size": 2},
    "searcher": {"name": "single", "metric": "error", "max_length": {"batches": 4000}},
    "min_validation_period": {"batches": 1000},
    "reproducibility": {"experiment_seed": 7},
}


def weights_and_metrics(search: Search, experiment: int) -> tuple[list[bytes], Any]:
    """Return the weights of the newest checkpoint, and all metrics that were reported."""
    with search.opened() as store:
        (trial,) = store.experiments.trials(experiment)
        newest = max(store.checkpoints(trial.id), key=lambda row: row.steps_completed)
    state = torch.load(Path(newest.storage) / newest.checkpoint_id / "state_dict.pth")["models_state_dict"][0]
    return [tensor.numpy().tobytes() for tensor in state.values()], search.record(experiment)["trials"][0]["metrics"]


@pytest.mark.thorough
def test_a_paused_experiment_continues_on_another_machine_bit_for_bit(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.py").write_text(MODEL)
    here = Search(tmp_path / "a", tmp_path / "model", CONFIG, slots=1, environment={"PAUSE": "1"})
    experiment = here.create()
    here.start(experiment).wait(100)
    with here.opened() as store:
        assert store.experiments.get(experiment).state == "PAUSED", here.said.read_text()
    archive = tmp_path / "moves.tar"
    here.det("e", "export", "1", "--checkpoints", "all", "--code", "-o", str(archive))
    here.environment = {}
    here.activate(experiment)
    at_home = weights_and_metrics(here, experiment)
    shutil.rmtree(here.home)

    there = Search(tmp_path / "b", tmp_path / "nowhere", CONFIG, slots=1)
    there.home.mkdir()
    assert json.loads(there.det("e", "import", str(archive), "--json").stdout)["checkpoints"] >= 1
    there.activate(experiment)
    assert weights_and_metrics(there, experiment) == at_home

    longer = ("--config", "searcher.max_length.batches=4010", "--slots", "1")
    there.det("e", "continue", "1", *longer)
    assert there.record(experiment)["trials"][0]["saved"] == 4010
    there.det(
        "e", "fork", "1", "--from-checkpoint", "latest", "--config", "searcher.max_length.batches=2", "--slots", "1"
    )
    assert there.record(2)["state"] == "COMPLETED"
    assert not here.home.exists(), "nothing looks for files of the first machine"
