"""A full disk, with checkpoints and store on it: one clear error, no stored data lost, an exact resume afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import records, warm

PROGRAM = """
import os, sys, threading
import torch
from determined import pytorch
from tests.helpers.trials import LineTrial

METRICS = int(os.environ["METRICS"])

class Trial(LineTrial):
    def __init__(self, context):
        super().__init__(context)
        self.more = context.wrap_model(torch.nn.Linear(1000, 1000))

    def train_batch(self, batch, epoch_idx, batch_idx):
        if batch_idx == 3 and "fill" in sys.argv:
            for thread in threading.enumerate():
                if thread.name == "determined-storing":
                    thread.join()  # the checkpoint of batch 2 is on record
            fill_the_disk()
        print("batch", batch_idx, flush=True)
        metrics = super().train_batch(batch, epoch_idx, batch_idx)
        return {**metrics, **{f"metric {number}": batch_idx / (number + 1) for number in range(METRICS)}}

def fill_the_disk():
    ballast = os.open(os.environ["XDG_DATA_HOME"] + "/ballast", os.O_CREAT | os.O_WRONLY)
    try:
        while True:
            os.write(ballast, bytes(4096))
    except OSError:
        print("full", flush=True)

if "fill-before-the-record" in sys.argv:
    from determined.core.supervision.checkpoint_records import CheckpointRecords
    report = CheckpointRecords.report
    def report_late(self, checkpoint):
        if checkpoint.steps_completed == 4:
            fill_the_disk()
        report(self, checkpoint)
    CheckpointRecords.report = report_late

torch.manual_seed(0)
with pytorch.init(hparams={"global_batch_size": 2}) as context:
    trial = Trial(context)
    pytorch.Trainer(trial, context).fit(
        max_length=pytorch.Batch(9), checkpoint_period=pytorch.Batch(2), reporting_period=pytorch.Batch(1),
        checkpoint_policy="none", latest_checkpoint="latest",
    )
print("weight", trial.model.weight.item().hex())
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", disk], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no small disk can be had here, which needs the right to mount: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def run(home: Path, work_dir: Path, *args: str, metrics: int) -> subprocess.CompletedProcess[str]:
    program = work_dir / "program.py"
    program.write_text(PROGRAM)
    repository = str(Path(__file__).resolve().parents[3])
    env = {**os.environ, "PYTHONPATH": repository, "XDG_DATA_HOME": str(home), "METRICS": str(metrics)}
    return warm.run(
        [sys.executable, program, *args], env=env, cwd=work_dir, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    "metrics", [pytest.param(1, marks=pytest.mark.thorough), 3000], ids=["the store finds room", "the store finds none"]
)
def test_a_full_disk_costs_one_checkpoint(metrics: int, small_disk: Path, tmp_path: Path, work_dir: Path) -> None:
    """Batch 2 is saved; then the disk is full, for the checkpoint of batch 4 and for large reports."""
    whole = run(tmp_path / "elsewhere", work_dir, metrics=metrics)
    assert whole.returncode == 0, whole.stderr

    failed = run(small_disk, work_dir, "fill", metrics=metrics)
    assert "full" in failed.stdout
    assert failed.returncode == 1
    last = failed.stderr.strip().splitlines()[-1]
    assert last.startswith("OSError: [Errno 28] checkpoint "), failed.stderr
    assert "was not saved: No space left on device" in last
    root = small_disk / "determined" / "checkpoints"
    assert [entry.name for entry in root.iterdir() if entry.name.startswith(".")] == []

    (small_disk / "ballast").unlink()
    (good,) = records.checkpoints(small_disk)
    assert good.is_dir()
    resumed = run(small_disk, work_dir, metrics=metrics)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.split() == whole.stdout.split()[4:]  # from batch 2 on
    assert records.metrics(small_disk, "training") == records.metrics(tmp_path / "elsewhere", "training")


def test_no_space_for_the_record_of_a_checkpoint(small_disk: Path, tmp_path: Path, work_dir: Path) -> None:
    """The checkpoint of batch 4 is written when the disk becomes full: the next run records it, and resumes from it."""
    whole = run(tmp_path / "elsewhere", work_dir, metrics=3000)
    failed = run(small_disk, work_dir, "fill-before-the-record", metrics=3000)
    assert "full" in failed.stdout
    assert failed.returncode == 1
    last = failed.stderr.strip().splitlines()[-1]
    assert "checkpoint " in last
    assert "database or disk is full" in last
    (small_disk / "ballast").unlink()
    resumed = run(small_disk, work_dir, metrics=3000)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.split() == whole.stdout.split()[8:]
    assert [row.steps_completed for row in records.announced(small_disk)][:2] == [2, 4]
    assert records.metrics(small_disk, "training") == records.metrics(tmp_path / "elsewhere", "training")
