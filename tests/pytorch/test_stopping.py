"""Signals end training politely, and a resumed run is the run that was never stopped, to the last bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.ranks import free_port

PROGRAM = """
import json, os, sys
import torch
from determined import pytorch

LENGTH, TELL = 40, os.environ.get("TELL") == "1"


class Sum(pytorch.MetricReducer):
    def __init__(self):
        self.total = 0.0
    def reset(self):
        self.total = 0.0
    def per_slot_reduce(self):
        return self.total
    def cross_slot_reduce(self, parts):
        return sum(parts)


class Trial(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context = context
        layers = [torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1)]
        net = torch.nn.Sequential(*layers)
        self.model = context.wrap_model(net)
        self.optimizer = context.wrap_optimizer(torch.optim.Adam(self.model.parameters(), lr=0.01))
        context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.97), pytorch.LRScheduler.StepMode.STEP_EVERY_BATCH
        )
        self.sum = context.wrap_reducer(Sum(), name="sum")
        self.values = context.wrap_reducer(lambda values: float(len(values)), name="count")

    def data(self):
        x = torch.arange(96.0 * 4).reshape(96, 4) / 400
        return pytorch.DataLoader(
            torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8, shuffle=True,
            num_workers=int(os.environ.get("WORKERS", 0)),
        )

    build_training_data_loader = build_validation_data_loader = data

    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y = batch
        noise = torch.randn(()) * 0.01
        loss = torch.nn.functional.mse_loss(self.model(x + noise), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        self.sum.total += float(x.sum())
        self.values.update(batch_idx)
        if TELL and self.context.distributed.rank == 0:
            print(f"trained {batch_idx}", flush=True)
            sys.stdin.readline()
        return {"loss": loss, "first": float(x[0, 0])}

    def evaluate_batch(self, batch):
        x, y = batch
        if TELL and self.context.distributed.rank == 0:
            print(f"validated {self.context.current_train_batch()}", flush=True)
            sys.stdin.readline()
        return {"error": torch.nn.functional.mse_loss(self.model(x) + torch.randn(()) * 0.01, y)}


with pytorch.init(seed=11, aggregation_frequency=int(os.environ.get("AGGREGATE", 1))) as context:
    trial = Trial(context)
    pytorch.Trainer(trial, context).fit(
        max_length=pytorch.Batch(LENGTH),
        reporting_period=pytorch.Batch(7),
        validation_period=pytorch.Batch(10),
        checkpoint_policy="none",
        latest_checkpoint=os.environ.get("RESUME"),
    )
print("after fit", flush=True)
"""


class Program:
    """The program above, on one rank or two, with a data directory of its own."""

    def __init__(self, directory: Path, ranks: int = 1, **env: str) -> None:
        directory.mkdir()
        self.ranks = ranks
        self.script = directory / "program.py"
        self.script.write_text(PROGRAM)
        self.data = directory / "data"
        self.env = {**os.environ, "XDG_DATA_HOME": str(self.data), "OMP_NUM_THREADS": "1", **env}

    def start(self, **env: str) -> list[subprocess.Popen[str]]:
        port = str(free_port())
        processes = []
        for rank in range(self.ranks):
            launcher = {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(self.ranks),
                "LOCAL_WORLD_SIZE": str(self.ranks),
                "GROUP_RANK": "0",
                "GROUP_WORLD_SIZE": "1",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
            }
            processes.append(
                subprocess.Popen(
                    [sys.executable, self.script],
                    cwd=self.script.parent,
                    env={**self.env, **(launcher if self.ranks > 1 else {}), **env},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        return processes

    def run_to_the_end(self, **env: str) -> None:
        processes = self.start(**env)
        outputs = [process.communicate(timeout=120) for process in processes]
        assert [process.returncode for process in processes] == [0] * self.ranks, outputs

    def run_until(self, moment: str, number: int, target: int = 0, times: int = 1) -> list[int]:
        """Send a signal to one rank when the chief says `moment`, then let it go on. Returns the exit codes."""
        processes = self.start(TELL="1")
        chief = processes[0]
        assert chief.stdin is not None
        assert chief.stdout is not None
        assert chief.stderr is not None
        for line in chief.stdout:
            if line.strip() == moment and times:
                for _ in range(times):
                    processes[target].send_signal(number)
                times = 0
            chief.stdin.write("\n")
            chief.stdin.flush()
        codes = [process.wait(timeout=120) for process in processes]
        self.output = chief.stderr.read()
        for process in processes:
            for pipe in (process.stdin, process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()
        return codes

    def latest(self) -> Path:
        rows = [json.loads(line) for file in self.runs("checkpoints.jsonl") for line in file.read_text().splitlines()]
        return self.data / "determined" / max(rows, key=lambda row: row["time"])["storage_id"]

    def runs(self, name: str) -> list[Path]:
        return sorted((self.data / "determined" / "runs").glob(f"*/{name}"))

    def record(self) -> dict[tuple[str, int], Any]:
        """All metrics by group and step; what a later run reported wins."""
        rows = [json.loads(line) for file in self.runs("metrics.jsonl") for line in file.read_text().splitlines()]
        return {(row["group"], row["steps_completed"]): row["metrics"] for row in sorted(rows, key=lambda r: r["time"])}

    def final_state(self) -> dict[str, Any]:
        import torch

        state: dict[str, Any] = torch.load(self.latest() / "state_dict.pth", weights_only=True)
        return state


def assert_same_run(stopped: Program, undisturbed: Program) -> None:
    import torch
    from torch.utils._pytree import tree_leaves

    assert stopped.record() == undisturbed.record()
    ours, theirs = tree_leaves(stopped.final_state()), tree_leaves(undisturbed.final_state())
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


@pytest.mark.parametrize(
    ("moments", "env"),
    [
        (["trained 3", "trained 17"], {}),
        (["trained 6", "validated 19", "trained 38"], {"AGGREGATE": "3"}),
        (["validated 9", "trained 29"], {"WORKERS": "2"}),
    ],
    ids=["batches", "aggregation-validation", "workers"],
)
def test_a_stopped_and_resumed_run_is_the_run_that_was_never_stopped(
    tmp_path: Path, moments: list[str], env: dict[str, str]
) -> None:
    undisturbed = Program(tmp_path / "undisturbed", **env)
    undisturbed.run_to_the_end()
    stopped = Program(tmp_path / "stopped", **env)
    for moment in moments:
        assert stopped.run_until(moment, signal.SIGTERM) == [143], stopped.output
        stopped.env["RESUME"] = str(stopped.latest())
        batch = int(moment.split()[1])
        assert json.loads((stopped.latest() / "trial_state.json").read_text())["batches_trained"] == batch + 1
    stopped.run_to_the_end()
    assert_same_run(stopped, undisturbed)


def test_a_signal_to_one_of_two_ranks_stops_both_after_the_same_batch(tmp_path: Path) -> None:
    undisturbed = Program(tmp_path / "undisturbed", ranks=2)
    undisturbed.run_to_the_end()
    stopped = Program(tmp_path / "stopped", ranks=2)
    assert stopped.run_until("trained 15", signal.SIGTERM, target=1) == [143, 143], stopped.output
    stopped.env["RESUME"] = str(stopped.latest())
    stopped.run_to_the_end()
    assert_same_run(stopped, undisturbed)


def test_an_interrupt_saves_and_ends_with_its_own_code(tmp_path: Path) -> None:
    program = Program(tmp_path / "run")
    assert program.run_until("trained 4", signal.SIGINT) == [130], program.output
    assert json.loads((program.latest() / "trial_state.json").read_text())["batches_trained"] == 5
