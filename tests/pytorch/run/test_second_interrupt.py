"""A second Ctrl-C with several ranks, which all of them receive."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from determined import pytorch
from tests.helpers import records
from tests.helpers.ranks import run_ranks
from tests.helpers.trials import HPARAMS, LineTrial


class Interrupt(pytorch.PyTorchCallback):
    """Sends SIGINT to all ranks while the checkpoint after the first one is written."""

    def __init__(self, processes: list[int]) -> None:
        self.processes = processes

    def on_checkpoint_write_end(self, checkpoint_dir: str) -> None:
        for process in reversed(self.processes):  # itself last: that ends the callback
            os.kill(process, signal.SIGINT)


class Interrupted(LineTrial):
    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        self.processes = context.distributed.allgather(os.getpid())

    def build_callbacks(self) -> dict[str, pytorch.PyTorchCallback]:
        return {"interrupt": Interrupt(self.processes)} if self.context.distributed.rank == 0 else {}

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return super().train_batch(batch, epoch_idx, batch_idx)


def train() -> None:
    with pytorch.init(hparams=HPARAMS) as context:
        pytorch.Trainer(Interrupted(context), context).fit(max_length=pytorch.Epoch(4), checkpoint_policy="none")


def test_all_ranks_stop_without_saving(data_home: Path) -> None:
    results = run_ranks(train, n=2, check=False)
    assert [result.returncode for result in results] == [130, 130], "\n".join(map(str, results))
    assert "stopped without saving" in results[0].stderr
    assert not any("Traceback" in result.stderr for result in results), "\n".join(map(str, results))
    with records.opened(data_home) as store:
        (experiment,) = store.experiments.list()
        assert experiment.state == "PAUSED"
        assert store.experiments.checkpoints(experiment.id) == []
    assert not list(data_home.rglob(".staging-*"))
