"""A training run whose checkpoints lie on an S3 server, and its exact resume, on one rank and on two."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from determined import paths, pytorch
from tests.helpers.ranks import run_ranks
from tests.helpers.records import announced
from tests.helpers.s3_server import S3Server
from tests.helpers.trials import LineTrial, fit


class Dropping(LineTrial):
    """Shuffled data, dropout, Adam: a resume is exact only if all of their states are restored."""

    def make_model(self) -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))


@pytest.fixture(autouse=True)
def program_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory that a checkpoint takes as the code of the program."""
    directory = tmp_path / "program"
    directory.mkdir()
    (directory / "train.py").write_text("pass")
    monkeypatch.chdir(directory)
    return directory


def train(config: dict[str, Any], length: int, seed: int, latest: str | None = None) -> dict[str, Any]:
    trial = fit(
        Dropping,
        seed=seed,
        options={"checkpoint_storage": config},
        max_length=pytorch.Batch(length),
        checkpoint_period=pytorch.Batch(4),
        checkpoint_policy="all",
        latest_checkpoint=latest,
    )
    return {
        "weights": torch.cat([part.flatten() for part in trial.model.parameters()]).tolist(),
        "batches": trial.batch_indices,
    }


def train_and_resume(config: dict[str, Any]) -> list[dict[str, Any]]:
    whole = train(config, 9, 0)
    first = next(row.checkpoint_id for row in announced(paths.data_dir().parent) if row.steps_completed == 4)
    return [whole, train(config, 9, 5, first)]


def check(server: S3Server, data_home: Path, whole: dict[str, Any], resumed: dict[str, Any]) -> None:
    assert resumed["weights"] == whole["weights"]
    assert resumed["batches"] == [4, 5, 6, 7, 8]
    rows = announced(data_home)
    assert [row.steps_completed for row in rows] == [4, 8, 9, 8, 9]
    for row in rows:
        assert {"metadata.json", "manifest.json", "state_dict.pth"} <= set(
            os.listdir(server.bucket / row.checkpoint_id)
        )
    assert os.listdir(data_home / "determined" / "cloud") == []


def test_a_run_and_its_resume(server: S3Server, data_home: Path) -> None:
    check(server, data_home, *train_and_resume(server.config()))


def test_a_run_and_its_resume_on_two_ranks(server: S3Server, data_home: Path, program_directory: Path) -> None:
    for rank in run_ranks(train_and_resume, n=2, args=[server.config()], cwd=program_directory, timeout=120):
        check(server, data_home, *rank.value)


def test_a_damaged_state_is_named_before_the_first_batch(server: S3Server, data_home: Path) -> None:
    config = server.config()
    train(config, 1, 0)
    (row,) = announced(data_home)
    file = server.bucket / row.checkpoint_id / "state_dict.pth"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(Exception, match=rf"checkpoint {row.checkpoint_id} is damaged: .*state_dict.pth"):
        train(config, 2, 0, row.checkpoint_id)


def test_the_policy_of_a_configuration_holds_on_a_server_too(server: S3Server) -> None:
    train({**server.config(), "save_trial_best": 0, "save_trial_latest": 1}, 9, 0)
    assert len({name.split("/")[0] for name in server.objects()}) == 1
