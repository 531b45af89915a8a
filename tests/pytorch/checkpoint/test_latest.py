"""`latest_checkpoint="latest"`, and the clean-up of checkpoints while a trial runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from determined import pytorch
from determined.errors import InvalidCheckpointException
from tests.helpers import warm
from tests.helpers.ranks import run_ranks
from tests.helpers.trials import LineTrial, checkpoints, fit


def test_the_first_run_starts_at_its_beginning_and_the_next_continues() -> None:
    first = fit(LineTrial, max_length=pytorch.Batch(3), latest_checkpoint="latest")
    assert first.batch_indices == [0, 1, 2]
    second = fit(LineTrial, max_length=pytorch.Batch(5), latest_checkpoint="latest")
    assert second.batch_indices == [3, 4]
    third = fit(LineTrial, max_length=pytorch.Batch(6), latest_checkpoint="latest")
    assert third.batch_indices == [5]
    assert third.weight.item() == fit(LineTrial, max_length=pytorch.Batch(6)).weight.item()


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))


DAMAGE: dict[str, Any] = {
    "truncated": lambda directory: (directory / "state_dict.pth").write_bytes(b"half"),
    "a bit flipped": lambda directory: flip_a_bit(directory / "state_dict.pth"),
    "a file gone": lambda directory: (directory / "load_data.json").unlink(),
    "the manifest gone": lambda directory: (directory / "manifest.json").unlink(),
    "all gone": shutil.rmtree,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_one_is_skipped_and_the_log_says_why(
    damage: Any, data_home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fit(LineTrial, max_length=pytorch.Batch(6), checkpoint_period=pytorch.Batch(2))
    newest = checkpoints(data_home)[-1]
    damage(newest)
    resumed = fit(LineTrial, max_length=pytorch.Batch(7), latest_checkpoint="latest")
    assert resumed.batch_indices == [4, 5, 6]
    (skipped,) = [record.message for record in caplog.records if "skipped" in record.message]
    assert newest.name in skipped
    assert resumed.weight.item() == fit(LineTrial, max_length=pytorch.Batch(7)).weight.item()


def test_where_none_is_good_nothing_is_started(data_home: Path) -> None:
    fit(LineTrial, max_length=pytorch.Batch(2), checkpoint_period=pytorch.Batch(1))
    for one in checkpoints(data_home):
        (one / "state_dict.pth").write_bytes(b"")
    with pytest.raises(InvalidCheckpointException, match="no checkpoint of this program's last run is good"):
        fit(LineTrial, max_length=pytorch.Batch(3), latest_checkpoint="latest")


def test_a_named_checkpoint_that_is_damaged_is_an_error_not_a_fallback(data_home: Path) -> None:
    fit(LineTrial, max_length=pytorch.Batch(2), checkpoint_period=pytorch.Batch(1))
    newest = checkpoints(data_home)[-1]
    (newest / "state_dict.pth").write_bytes(b"")
    with pytest.raises(InvalidCheckpointException, match=newest.name):
        fit(LineTrial, max_length=pytorch.Batch(3), latest_checkpoint=newest.name)


def on_two_ranks(length: int) -> Any:
    trial = fit(
        LineTrial, max_length=pytorch.Batch(length), hparams={"global_batch_size": 4}, latest_checkpoint="latest"
    )
    return trial.batch_indices


def test_all_ranks_take_the_same_one() -> None:
    named = {"DET_RUN_NAME": "on-two-ranks"}
    assert [result.value for result in run_ranks(on_two_ranks, args=[2], env=named)] == [[0, 1]] * 2
    assert [result.value for result in run_ranks(on_two_ranks, args=[3], env=named)] == [[2]] * 2


def test_a_running_run_is_not_taken_over(data_home: Path, work_dir: Path) -> None:
    """Two runs of one program at the same time: the second one does not take over the trial of the first."""
    program = work_dir / "program.py"
    program.write_text(
        "import sys\n"
        "from determined import pytorch\n"
        "from tests.helpers.trials import LineTrial, fit\n"
        "class Trial(LineTrial):\n"
        "    def train_batch(self, batch, epoch_idx, batch_idx):\n"
        "        if batch_idx == 4 and sys.argv[1] == 'wait':\n"
        "            print('waiting', flush=True); sys.stdin.readline()\n"
        "        return super().train_batch(batch, epoch_idx, batch_idx)\n"
        "two = pytorch.Batch(2)\n"
        "trial = fit(Trial, max_length=pytorch.Batch(6), checkpoint_period=two, latest_checkpoint='latest')\n"
        "print(trial.batch_indices)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    first = warm.Popen(
        [sys.executable, program, "wait"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdout is not None
    assert first.stdout.readline() == "waiting\n"
    second = warm.run([sys.executable, program, "go"], env=env, capture_output=True, text=True, check=True)
    assert second.stdout == "[0, 1, 2, 3, 4, 5]\n"
    assert f"trial 1 of this program is still running, in process {first.pid} on" in second.stderr
    assert first.communicate("\n", timeout=60)[0] == "[0, 1, 2, 3, 4, 5]\n"


def from_a_path(path: str) -> None:
    fit(LineTrial, max_length=pytorch.Batch(9), hparams={"global_batch_size": 4}, latest_checkpoint=Path(path))


def test_a_damaged_one_given_as_a_path_is_named_on_every_rank(data_home: Path) -> None:
    fit(LineTrial, max_length=pytorch.Batch(2))
    (one,) = checkpoints(data_home)
    flip_a_bit(one / "state_dict.pth")
    for result in run_ranks(from_a_path, args=[str(one)], check=False):
        assert result.returncode == 1
        assert "the content of state_dict.pth was changed" in result.stderr.strip().splitlines()[-1]


class Rated(LineTrial):
    """The metric says which batch is best."""

    best_at = 4

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return {"score": abs(len(self.batch_indices) - self.best_at)}


def kept_steps(storage: Path) -> list[int]:
    return sorted(json.loads(file.read_text())["steps_completed"] for file in storage.glob("*/metadata.json"))


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({}, list(range(1, 9))),
        ({"save_trial_best": 1, "save_trial_latest": 1}, [4, 8]),
        ({"save_trial_best": 0, "save_trial_latest": 2}, [7, 8]),
        ({"save_trial_best": 0, "save_trial_latest": 0, "save_experiment_best": 0}, [8]),
    ],
)
def test_checkpoints_that_need_not_be_kept_go_while_training_runs(
    numbers: dict[str, int], expected: list[int], tmp_path: Path
) -> None:
    storage = tmp_path / "storage"
    block = {"type": "directory", "container_path": str(storage), **numbers}
    torch.manual_seed(0)
    with pytorch.init(
        hparams={"global_batch_size": 2},
        exp_conf={"searcher": {"name": "single", "metric": "score", "max_length": {"batches": 8}}},
        checkpoint_storage=block,
    ) as trial_context:
        pytorch.Trainer(Rated(trial_context), trial_context).fit(
            max_length=pytorch.Batch(8), validation_period=pytorch.Batch(1), checkpoint_policy="all"
        )
    assert kept_steps(storage) == expected
