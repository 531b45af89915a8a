"""Which modules `import determined.pytorch` loads: they add to the start of every program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import gc, json, sys
import torch
before = set(sys.modules)
full = gc.get_stats()[2]["collections"]
import determined.pytorch
full = gc.get_stats()[2]["collections"] - full
loaded = sorted(set(sys.modules) - before)
from determined.tensorboard import events
own = [module for name, module in sys.modules.items() if name.split(".")[0] == "determined"]
made = {f"{c.__module__}.{c.__qualname__}" for module in own for c in vars(module).values()
        if isinstance(c, type) and "__dataclass_params__" in vars(c) and c.__module__.startswith("determined")}
found = {
    "collections": [gc.isenabled(), full],
    "loaded": loaded,
    "dataclasses": sorted(made),
    "tables": events._contribution_table.cache_info().currsize + events._crc_table.cache_info().currsize,
}

from determined import pytorch

class Trial(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(torch.nn.Linear(1, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))

    def train_batch(self, batch, epoch_idx, batch_idx):
        found["loaded before a batch"] = sorted(sys.modules)
        loss = self.model(batch).sum()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"loss": 0.0}

    def build_training_data_loader(self):
        return pytorch.DataLoader([torch.ones(1)], batch_size=1)

    build_validation_data_loader = build_training_data_loader

with pytorch.init() as context:
    pytorch.Trainer(Trial(context), context).fit(max_length=pytorch.Batch(1), checkpoint_policy="none")
print(json.dumps(found))
"""
# Needed by some runs only, or not before a run begins.
LATER = {
    "determined.checkpoint_storage.cloud_storage",
    "determined.checkpoint_storage.cloud_access",
    "determined.config.hyperparameters",
    "determined.config.reading.load",
    "determined.core.ranks.object_group",
    "determined.core.outputs",
    "determined.checkpoint_storage.retention",
    "determined.experimental",
    "determined.store.experiment_records",
    "determined.store.store",
    "determined.tensorboard.events",
    "fractions",
    "getpass",
    "obstore",
    "pathspec",
    "pydantic",
    "sqlite3",
    "tensorboard",
    "yaml",
    "zoneinfo",
}
# Not needed by the first batch of a standalone run without ignore files.
LATER_THAN_A_BATCH = {
    "determined.store.experiment_records",
    "determined.store.substores.registry",
    "determined.store.substores.upkeep",
    "pathspec",
}
MOST_DATACLASSES = 10  # each takes about half a millisecond to create; a named tuple takes an eighth of that


def test_what_comes_along_with_the_library(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    command = [sys.executable, "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout.splitlines()[-1])
    assert not LATER & set(found["loaded"])
    assert len(found["dataclasses"]) <= MOST_DATACLASSES, found["dataclasses"]
    assert found["tables"] == 0
    assert found["collections"] == [True, 0], "the collector is paused during the import, and only then"

    before_a_batch = set(found["loaded before a batch"])
    assert "determined.store.store" in before_a_batch, "a run is recorded before it trains"
    assert not LATER_THAN_A_BATCH & before_a_batch
