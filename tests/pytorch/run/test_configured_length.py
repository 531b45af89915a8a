"""The training length in a configuration: `fit` without `max_length` and a trial class read the same fields."""

from __future__ import annotations

from typing import Any

import pytest

from determined import pytorch
from determined.pytorch.fit_arguments import checked_length
from determined.pytorch.run import exec_trial
from tests.helpers.trials import EPOCH_LENGTH, HPARAMS, LineTrial, fit

LENGTHS: dict[str, tuple[dict[str, Any], int, bool]] = {
    # searcher block, batches trained, whether `fit` warns about the field
    "a number": ({"max_length": 3}, 3, True),
    "a unit": ({"max_length": {"epochs": 1}}, EPOCH_LENGTH, True),
    "time": ({"max_time": 4, "time_metric": "batches"}, 4, False),
    "time in records": ({"max_time": 6, "time_metric": "records"}, 3, False),
    "time without a unit": ({"max_time": 5}, 5, False),
    "steps": ({"max_steps": 2}, 8, False),
    "steps of adaptive searches": ({"target_trial_steps": 2}, 8, False),
}


def config(searcher: dict[str, Any]) -> dict[str, Any]:
    return {
        "hyperparameters": HPARAMS,
        "searcher": {"name": "single", "metric": "val_loss", **searcher},
        "batches_per_step": 4,
        "checkpoint_policy": "none",
    }


@pytest.mark.parametrize("name", LENGTHS)
def test_fit_and_a_trial_class_train_the_configured_length(name: str, recwarn: pytest.WarningsRecorder) -> None:
    searcher, batches, warns = LENGTHS[name]
    made: list[LineTrial] = []

    class Kept(LineTrial):
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            made.append(self)

    exec_trial.run(Kept, config(searcher))
    (trial,) = made
    assert len(trial.batch_indices) == batches

    trained = fit(LineTrial, max_length=checked_length(None, config(searcher), trial.context))
    assert len(trained.batch_indices) == batches
    deprecated = [found for found in recwarn if "pass max_length to fit()" in str(found.message)]
    assert len(deprecated) == warns


@pytest.mark.parametrize("searcher", [{}, {"max_time": 4, "time_metric": "val_loss"}])
def test_a_configuration_without_a_length_is_refused(searcher: dict[str, Any]) -> None:
    with (
        pytorch.init(hparams=HPARAMS) as context,
        pytest.raises(ValueError, match="max_length is required"),
    ):
        checked_length(None, config(searcher), context)
    with pytest.raises(ValueError, match="does not say how many batches"):
        exec_trial.run(LineTrial, config(searcher))
