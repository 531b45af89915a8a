"""Checkpoints that are written while training continues."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import determined as det
from determined import pytorch
from determined.pytorch.checkpoint import checkpointer
from determined.pytorch.checkpoint import format as checkpoint_format
from determined.pytorch.checkpoint.fork_snapshot import snapshot
from tests.helpers import warm
from tests.helpers.ranks import run_ranks
from tests.helpers.trials import LineTrial, checkpoints, fit, with_callbacks


@pytest.fixture(autouse=True)
def nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let checkpoints of tiny models be written in the background, too."""
    monkeypatch.setattr(checkpointer, "SMALL", 0)


class Noting(LineTrial):
    """Records its weight after every batch."""

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        super().__init__(context)
        self.weights = [self.weight.item()]

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        metrics = super().train_batch(batch, epoch_idx, batch_idx)
        self.weights.append(self.weight.item())
        return metrics


class SharedWeights(Noting):
    def make_model(self) -> torch.nn.Module:
        return super().make_model().share_memory()


@pytest.mark.parametrize("trial_class", [Noting, SharedWeights])
def test_training_continues_while_a_checkpoint_is_written(
    trial_class: type[Noting], data_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer waits for a later batch: if training waited for the writer, the test would hang."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    write = checkpoint_format.write
    first = [True]

    def write_late(state: dict[str, Any], file: Path) -> None:
        if first[0]:
            gate.read_bytes()
        write(state, file)

    monkeypatch.setattr(checkpoint_format, "write", write_late)

    class Opening(trial_class):  # type: ignore[misc, valid-type]
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            if batch_idx == 5:
                assert not checkpoints(data_home)
                gate.write_bytes(b"go")
                first[0] = False
            metrics: dict[str, Any] = super().train_batch(batch, epoch_idx, batch_idx)
            return metrics

    trial = fit(Opening, max_length=pytorch.Batch(8), checkpoint_period=pytorch.Batch(3))
    assert saved_weights(data_home) == [trial.weights[3], trial.weights[6], trial.weights[8]]


def saved_weights(data_home: Path) -> list[float]:
    return [
        torch.load(directory / "state_dict.pth")["models_state_dict"][0]["weight"].item()
        for directory in checkpoints(data_home)
    ]


def test_every_checkpoint_holds_the_weights_of_its_batch(data_home: Path) -> None:
    trial = fit(Noting, max_length=pytorch.Batch(20), checkpoint_period=pytorch.Batch(1))
    assert saved_weights(data_home) == trial.weights[1:]


class Written(pytorch.PyTorchCallback):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_checkpoint_write_end(self, checkpoint_dir: str) -> None:
        state = torch.load(Path(checkpoint_dir) / "state_dict.pth")
        self.seen.append(state["models_state_dict"][0]["weight"].item())


class Uploaded(pytorch.PyTorchCallback):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_checkpoint_upload_end(self, uuid: str) -> None:
        state = torch.load(Path(os.environ["XDG_DATA_HOME"]) / "determined" / "checkpoints" / uuid / "state_dict.pth")
        self.seen.append(state["models_state_dict"][0]["weight"].item())


@pytest.mark.parametrize("kind", [Written, Uploaded])
def test_a_callback_that_wants_to_see_it_written_sees_it_before_the_next_batch(kind: Any) -> None:
    callback = kind()
    trial = fit(with_callbacks(callback, base=Noting), max_length=pytorch.Batch(4), checkpoint_period=pytorch.Batch(1))
    assert callback.seen == trial.weights[1:]


def test_where_no_process_can_be_had_training_waits(
    data_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> int:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(os, "fork", refuse)
    trial = fit(Noting, max_length=pytorch.Batch(3), checkpoint_period=pytorch.Batch(1))
    assert saved_weights(data_home) == trial.weights[1:]
    assert [r.message for r in caplog.records if "training waits" in r.message] == [
        "checkpoints are written while training waits: [Errno 12] the process could not be copied: "
        "Cannot allocate memory"
    ]


def test_a_small_one_is_written_at_once(data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a kill right after it loses nothing."""
    monkeypatch.setattr(checkpointer, "SMALL", 2**20)

    class Looking(Noting):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            assert batch_idx == 0 or len(checkpoints(data_home)) == batch_idx // 2
            return super().train_batch(batch, epoch_idx, batch_idx)

    trial = fit(Looking, max_length=pytorch.Batch(6), checkpoint_period=pytorch.Batch(2))
    assert saved_weights(data_home) == [trial.weights[2], trial.weights[4], trial.weights[6]]


FULL_DISK = """
import os, resource, signal, sys
import torch
from determined import pytorch
from tests.helpers.trials import LineTrial

class Trial(LineTrial):
    def __init__(self, context):
        super().__init__(context)
        self.more = context.wrap_model(torch.nn.Linear(1000, 1000))

    def train_batch(self, batch, epoch_idx, batch_idx):
        if batch_idx == 3 and "limit" in sys.argv:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))
        print("batch", batch_idx, flush=True)
        return super().train_batch(batch, epoch_idx, batch_idx)

torch.manual_seed(0)
latest = sys.argv[sys.argv.index("from") + 1] if "from" in sys.argv else None
with pytorch.init(hparams={"global_batch_size": 2}) as context:
    trial = Trial(context)
    pytorch.Trainer(trial, context).fit(
        max_length=pytorch.Batch(9), checkpoint_period=pytorch.Batch(2), reporting_period=pytorch.Batch(1),
        checkpoint_policy="none", latest_checkpoint=latest,
    )
print("weight", trial.model.weight.item().hex())
"""


def run(program: str, *args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    repository = Path(__file__).resolve().parents[3]
    return warm.run(
        [sys.executable, "-c", program, *args],
        env={**os.environ, "PYTHONPATH": str(repository)},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_save_that_fails_ends_the_run_soon_and_loudly(data_home: Path, work_dir: Path) -> None:
    """Batch 2 is saved; that of batch 4 meets a full disk; the run ends, and resumes exactly."""
    whole = run(FULL_DISK, cwd=work_dir)
    assert whole.returncode == 0, whole.stderr
    before = set(checkpoints(data_home))
    failed = run(FULL_DISK, "limit", cwd=work_dir)
    assert failed.returncode == 1
    last = failed.stderr.strip().splitlines()[-1]
    assert last.startswith("OSError: [Errno 27] checkpoint ")
    assert "was not saved: File too large" in last
    assert "batch 8" not in failed.stdout
    root = data_home / "determined" / "checkpoints"
    assert [entry.name for entry in root.iterdir() if entry.name.startswith(".")] == []
    (left,) = [one for one in checkpoints(data_home) if one not in before]
    assert left.is_dir()
    resumed = run(FULL_DISK, "from", left.name, cwd=work_dir)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1]


def failing_on_two_ranks() -> None:
    import resource
    import signal

    class Limited(LineTrial):
        def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
            super().__init__(context)
            context.wrap_model(torch.nn.Linear(1000, 1000))

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            if batch_idx == 1 and self.context.distributed.rank == 0:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))
            return super().train_batch(batch, epoch_idx, batch_idx)

    fit(
        Limited,
        max_length=pytorch.Batch(50),
        checkpoint_period=pytorch.Batch(2),
        reporting_period=pytorch.Batch(1),
    )


def test_on_several_ranks_all_end_with_the_reason() -> None:
    chief, other = run_ranks(failing_on_two_ranks, n=2, check=False, timeout=90)
    assert chief.returncode == other.returncode == 1
    assert "was not saved: File too large" in chief.stderr.strip().splitlines()[-1]
    assert "rank 0 failed saving a checkpoint: OSError" in other.stderr.strip().splitlines()[-1]
    assert "was not saved: File too large" in other.stderr.strip().splitlines()[-1]


def test_tensors_that_share_memory_still_share_it() -> None:
    shared = torch.arange(6.0).share_memory_()
    state = {"a": shared, "b": [shared[2:]], "c": shared.view(2, 3).t(), "d": torch.ones(2)}
    kept = snapshot(state)
    shared += 1
    assert torch.equal(kept["a"], torch.arange(6.0))
    assert torch.equal(kept["b"][0], torch.arange(2.0, 6.0))
    assert torch.equal(kept["c"], torch.arange(6.0).view(2, 3).t())
    assert kept["a"].untyped_storage().data_ptr() == kept["c"].untyped_storage().data_ptr()
    assert kept["d"] is state["d"]


def test_what_a_snapshot_cannot_share_is_copied_as_it_is() -> None:
    numbers = torch.tensor([1 + 2j, 3 - 1j]).share_memory_()
    state = {"conj": numbers.conj(), "neg": numbers.conj().imag, "meta": torch.empty(2, device="meta")}
    kept = snapshot(state)
    expected = [state["conj"].clone(), state["neg"].clone()]
    numbers.zero_()
    assert torch.equal(kept["conj"].resolve_conj(), expected[0].resolve_conj())
    assert torch.equal(kept["neg"].resolve_neg(), expected[1].resolve_neg())
    assert kept["meta"].is_meta


class LeavesAtOnce(Noting):
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx == 3:
            raise pytorch._ShouldExit(skip_exit_checkpoint=True)
        return super().train_batch(batch, epoch_idx, batch_idx)


class RefusesItself(Noting):
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if batch_idx == 3:
            raise det.InvalidHP("no")
        return super().train_batch(batch, epoch_idx, batch_idx)


def full(state: dict[str, Any], file: Path) -> None:
    raise OSError(28, "No space left on device", str(file))


@pytest.mark.parametrize(
    ("trial_class", "period"),
    [(Noting, pytorch.Batch(2)), (Noting, None), (LeavesAtOnce, pytorch.Batch(2))],
    ids=["beside training", "at the end", "on the way out"],
)
def test_a_failure_is_reported_however_training_ends(
    trial_class: type[Noting], period: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_format, "write", full)
    with pytest.raises(OSError, match=r"checkpoint [-0-9a-f]{36} was not saved: No space left on device"):
        fit(trial_class, max_length=pytorch.Batch(5), checkpoint_period=period)


def test_a_refusal_of_hyperparameters_stays_one_when_the_disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_format, "write", full)
    with pytest.raises(SystemExit) as ended:
        fit(RefusesItself, max_length=pytorch.Batch(5))
    assert ended.value.code == 0


def test_a_kill_takes_the_writer_along_and_leaves_no_checkpoint(data_home: Path, work_dir: Path) -> None:
    program = """
import os, signal, time
from determined import pytorch
from determined.pytorch.checkpoint import checkpointer as checkpoint
from determined.pytorch.checkpoint import format as checkpoint_format
from tests.helpers.trials import LineTrial, fit
checkpoint.SMALL = 0
checkpoint_format.write = lambda state, file: (file.write_bytes(b"half"), time.sleep(600))
class Trial(LineTrial):
    def train_batch(self, batch, epoch_idx, batch_idx):
        if batch_idx == 3:
            while not any(p.name == "state_dict.pth" for p in root.rglob("*")):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().train_batch(batch, epoch_idx, batch_idx)
from pathlib import Path
root = Path(os.environ["XDG_DATA_HOME"])
fit(Trial, max_length=pytorch.Batch(9), checkpoint_period=pytorch.Batch(2))
"""
    killed = run(program, cwd=work_dir)
    assert killed.returncode == -9, killed.stderr
    assert checkpoints(data_home) == []
    (staged,) = [e for e in (data_home / "determined" / "checkpoints").iterdir() if e.name.startswith(".staging-")]
    fit(LineTrial, max_length=pytorch.Batch(1))  # the next run cleans up
    assert not staged.exists()
