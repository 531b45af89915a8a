"""A resumed run prints which settings differ from those of the checkpoint."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from determined import pytorch
from determined.pytorch.checkpoint.trial_description import differences
from tests.helpers.trials import LineTrial, checkpoints, fit


def test_each_setting_that_differs_is_one_line() -> None:
    then = {"a": 1, "b": {"c": [1, 2], "d": math.nan}, "e": "x" * 200, "gone": None}
    now = {"a": 1, "b": {"c": [1, 3], "d": math.nan}, "e": "y", "new": True}
    assert list(differences(then, now)) == [
        "b.c: [1, 2] -> [1, 3]",
        f'e: "{"x" * 76}... -> "y"',
        "gone: null -> (not set)",
        "new: (not set) -> true",
    ]
    assert list(differences(then, then)) == []


def test_a_resume_with_other_hyperparameters_prints_them(data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
    fit(LineTrial, max_length=pytorch.Batch(2), hparams={"lr": 0.1, "api_token": "s3cret-one"})
    (first,) = checkpoints(data_home)
    fit(
        LineTrial,
        max_length=pytorch.Batch(3),
        hparams={"lr": 0.2, "api_token": "s3cret-two"},
        latest_checkpoint=first.name,
    )
    (said,) = [record.message for record in caplog.records if "was saved with other" in record.message]
    assert said == f"checkpoint {first.name} was saved with other hyperparameters:\n  lr: 0.1 -> 0.2"
    assert "s3cret" not in caplog.text


def test_nothing_is_said_where_nothing_differs(data_home: Path, caplog: pytest.LogCaptureFixture) -> None:
    fit(LineTrial, max_length=pytorch.Batch(2))
    fit(LineTrial, max_length=pytorch.Batch(3), latest_checkpoint=checkpoints(data_home)[0].name)
    assert "was saved with" not in caplog.text
