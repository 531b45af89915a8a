"""Signals end training with a checkpoint, and a resumed run equals an uninterrupted one, to the last bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import records, warm
from tests.helpers.ranks import free_port

PROGRAM = """
import json, os, signal, sys, time
import numpy as np
import torch
from determined import pytorch

LENGTH, TELL = 40, os.environ.get("TELL") == "1"


class Sum(pytorch.MetricReducer):
    def __init__(self):
        self.total = np.zeros(2)
    def reset(self):
        self.total = np.zeros(2)
    def per_slot_reduce(self):
        return float(self.total.astype(float)[0])
    def cross_slot_reduce(self, parts):
        return sum(parts)


class SignalAtTheEnd(pytorch.PyTorchCallback):
    def on_checkpoint_write_end(self, checkpoint_dir):
        os.kill(os.getpid(), signal.SIGTERM)


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

    def build_callbacks(self):
        return {"last": SignalAtTheEnd()} if os.environ.get("SIGNAL_AT_THE_END") else {}

    def data(self):
        x = torch.arange(96.0 * 4).reshape(96, 4) / 400
        return pytorch.DataLoader(
            torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8, shuffle=True,
            num_workers=int(os.environ.get("WORKERS", 0)),
        )

    build_training_data_loader = build_validation_data_loader = data

    def tell(self, text):
        if TELL and self.context.distributed.rank == 0:
            print(text, flush=True)
            sys.stdin.readline()

    def train_batch(self, batch, epoch_idx, batch_idx):
        if os.environ.get("ALONE"):  # no rank needs another one before the report
            self.tell(f"trained {batch_idx}")
            return {"loss": 0.0}
        x, y = batch
        noise = torch.randn(()) * 0.01
        loss = torch.nn.functional.mse_loss(self.model(x + noise), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        self.sum.total[0] += float(x.sum())
        self.values.update(batch_idx)
        self.tell(f"trained {batch_idx}")
        if str(batch_idx) == os.environ.get("WAIT_AT"):
            while not flagged():
                time.sleep(0.01)
        return {"loss": loss, "first": float(x[0, 0])}

    def evaluate_batch(self, batch):
        x, y = batch
        self.tell(f"validated {self.context.current_train_batch()}")
        return {"error": torch.nn.functional.mse_loss(self.model(x) + torch.randn(()) * 0.01, y)}


def flagged():
    return trainer_stopping[0] is not None and trainer_stopping[0].raised

trainer_stopping = [None]

from determined.pytorch.run.stopping import Stopping
listening = Stopping.listening
def remember(self):
    trainer_stopping[0] = self
    return listening(self)
Stopping.listening = remember

with pytorch.init(seed=11, aggregation_frequency=int(os.environ.get("AGGREGATE", 1))) as context:
    trial = Trial(context)
    pytorch.Trainer(trial, context).fit(
        max_length=pytorch.Batch(LENGTH),
        reporting_period=pytorch.Batch(7),
        validation_period=pytorch.Batch(10),
        checkpoint_policy="none",
        latest_checkpoint=os.environ.get("RESUME"),
        time_limit=float(os.environ["TIME_LIMIT"]) if "TIME_LIMIT" in os.environ else None,
    )
print("after fit", flush=True)
"""


class Program:
    """The program above, on one rank or two, with a separate data directory."""

    def __init__(self, directory: Path, ranks: int = 1, env: Mapping[str, str] | None = None) -> None:
        directory.mkdir()
        self.ranks = ranks
        self.script = directory / "program.py"
        self.script.write_text(PROGRAM)
        self.data = directory / "data"
        self.env = {**os.environ, "XDG_DATA_HOME": str(self.data), "OMP_NUM_THREADS": "1", **(env or {})}

    def start(self, **env: str) -> list[subprocess.Popen[str]]:
        port = str(free_port())
        processes: list[subprocess.Popen[str]] = []
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
                warm.Popen(
                    [sys.executable, self.script],
                    cwd=self.script.parent,
                    env={**self.env, **(launcher if self.ranks > 1 else {}), **env},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )
            )
        return processes

    def run_to_the_end(self, **env: str) -> None:
        processes = self.start(**env)
        outputs = [process.communicate(timeout=120) for process in processes]
        assert [process.returncode for process in processes] == [0] * self.ranks, outputs

    def run_until(self, moment: str, number: int, target: int = 0, whole_group: bool = False) -> list[int]:
        """Send a signal to one rank when the chief prints `moment`, then let it continue. Return the exit codes."""
        processes = self.start(TELL="1")
        waiting = True
        chief = processes[0]
        assert chief.stdin is not None
        assert chief.stdout is not None
        assert chief.stderr is not None
        for line in chief.stdout:
            if line.strip() == moment and waiting:
                waiting = False
                if whole_group:
                    os.killpg(processes[target].pid, number)
                else:
                    processes[target].send_signal(number)
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
        return records.checkpoints(self.data)[-1]

    def record(self) -> dict[tuple[str, int | None], Any]:
        """Return all metrics by group and step; reports of a later run replace earlier ones."""
        with records.opened(self.data) as store:
            rows = [row for run in store.runs()[::-1] for row in store.metrics(run.trial_id)]
        return {(row.group, row.steps_completed): row.metrics for row in rows}

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
        pytest.param(["trained 3", "trained 17"], {}, marks=pytest.mark.thorough),
        (["trained 6", "validated 19", "trained 38"], {"AGGREGATE": "3"}),
        pytest.param(["validated 9", "trained 29"], {"WORKERS": "2"}, marks=pytest.mark.thorough),
    ],
    ids=["batches", "aggregation-validation", "workers"],
)
def test_a_stopped_and_resumed_run_is_the_run_that_was_never_stopped(
    tmp_path: Path, moments: list[str], env: dict[str, str]
) -> None:
    undisturbed = Program(tmp_path / "undisturbed", env=env)
    undisturbed.run_to_the_end()
    stopped = Program(tmp_path / "stopped", env=env)
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


def test_a_signal_to_the_process_group_spares_the_workers_until_the_batch_is_saved(tmp_path: Path) -> None:
    """As torchrun and a terminal send it: to the loader's workers as well."""
    program = Program(tmp_path / "run", env={"WORKERS": "2"})
    assert program.run_until("trained 4", signal.SIGTERM, whole_group=True) == [143], program.output
    assert json.loads((program.latest() / "trial_state.json").read_text())["batches_trained"] == 5


def test_a_signal_during_the_last_checkpoint_ends_all_ranks_alike(tmp_path: Path) -> None:
    program = Program(tmp_path / "run", ranks=2, env={"SIGNAL_AT_THE_END": "1"})
    processes = program.start()
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [143, 143], outputs
    assert not any("after fit" in stdout for stdout, _ in outputs)


@pytest.mark.thorough
def test_a_dead_rank_is_named_when_the_other_is_asked_to_stop(tmp_path: Path) -> None:
    program = Program(tmp_path / "run", ranks=2, env={"ALONE": "1"})
    processes = program.start(TELL="1")
    chief, other = processes
    assert chief.stdin is not None
    assert chief.stdout is not None
    for line in chief.stdout:
        if line.strip() == "trained 2":
            other.kill()
            other.wait(timeout=60)
            chief.send_signal(signal.SIGTERM)
            break
        chief.stdin.write("\n")
        chief.stdin.flush()
    _, errors = chief.communicate("\n" * 100, timeout=60)
    other.communicate(timeout=60)
    assert chief.returncode == 1
    assert "DistributedError: rank 1 did not answer" in errors


def test_an_interrupt_saves_and_ends_with_its_own_code(tmp_path: Path) -> None:
    program = Program(tmp_path / "run")
    assert program.run_until("trained 4", signal.SIGINT) == [130], program.output
    assert json.loads((program.latest() / "trial_state.json").read_text())["batches_trained"] == 5


def test_a_time_limit_saves_and_ends_with_its_own_code(tmp_path: Path) -> None:
    """The chief waits in its first batch until its time is over: a later one might not be reached in time."""
    undisturbed = Program(tmp_path / "undisturbed")
    undisturbed.run_to_the_end()
    program = Program(tmp_path / "run", env={"TIME_LIMIT": "0.01", "WAIT_AT": "0"})
    (process,) = program.start()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 124, errors
    assert "training was stopped by its time limit after 1 batch" in errors
    assert json.loads((program.latest() / "trial_state.json").read_text())["batches_trained"] == 1
    with records.opened(program.data) as store:
        (run,) = store.runs()
    assert run.attempt.state == "stopped"
    del program.env["TIME_LIMIT"], program.env["WAIT_AT"]
    program.run_to_the_end(RESUME=str(program.latest()))
    assert_same_run(program, undisturbed)


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.thorough), 2])
def test_a_request_to_pause_is_handled_after_the_batch(tmp_path: Path, ranks: int) -> None:
    """Another process writes the request into the store; `fit` returns, and the program continues after it."""
    undisturbed = Program(tmp_path / "undisturbed", ranks=ranks)
    undisturbed.run_to_the_end()
    program = Program(tmp_path / "run", ranks=ranks)
    processes = program.start(WAIT_AT="12", TELL="1")
    chief = processes[0]
    assert chief.stdin is not None
    assert chief.stdout is not None
    for line in chief.stdout:
        if line.strip() == "trained 11":
            with records.opened(program.data) as store:
                store.add_request(store.runs()[0].trial_id, "pause")
            break
        chief.stdin.write("\n")
        chief.stdin.flush()
    outputs = [process.communicate("\n" * 200, timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * ranks, outputs
    assert all("after fit" in stdout for stdout, _ in outputs)
    state = json.loads((program.latest() / "trial_state.json").read_text())
    assert 13 <= state["batches_trained"] <= 14
    with records.opened(program.data) as store:
        (run,) = store.runs()
    assert run.stop_acknowledged
    program.run_to_the_end(RESUME=str(program.latest()))
    assert_same_run(program, undisturbed)


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 7), ("SIGTERM", -signal.SIGTERM)])
def test_a_signal_that_comes_when_the_end_is_decided_is_not_lost(number: str, code: int) -> None:
    program = f"""
import signal
from determined.core import DummyDistributedContext
from determined.pytorch.run.stopping import Stopping
try:
    with Stopping(DummyDistributedContext(), lambda: 0, requested=lambda: False).listening() as stopping:
        stopping.share_reason()
        signal.raise_signal(signal.{number})
except KeyboardInterrupt:
    raise SystemExit(7)
"""
    assert warm.run([sys.executable, "-c", program]).returncode == code
