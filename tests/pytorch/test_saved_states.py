"""Every kind of value, in every place of a state where a program can put one, survives a restart or is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from determined import pytorch
from tests.helpers import rich_states
from tests.helpers.rich_states import CLASSES, PLACES, RichTrial
from tests.helpers.trials import checkpoints, fit


def resumed(data_home: Path, places: list[str]) -> RichTrial:
    """Train three batches, and go on from there with a fresh trial."""
    fit(RichTrial, max_length=pytorch.Batch(3), hparams={"places": places})
    (checkpoint,) = checkpoints(data_home)
    torch.load(checkpoint / "state_dict.pth", weights_only=True)
    return fit(RichTrial, max_length=pytorch.Batch(4), latest_checkpoint=checkpoint.name, hparams={"places": places})


@pytest.mark.parametrize("place", PLACES)
def test_every_kind_survives_a_restart(place: str, data_home: Path) -> None:
    registered = CLASSES if place == "hook" else []  # there, nothing in the program says which classes they are
    with torch.serialization.safe_globals(registered):
        trial = resumed(data_home, [place])
    expected = trial.expected(3)
    assert trial.found.keys() == expected.keys() == {place}
    assert trial.found == expected
