"""The configuration files of the examples run as they are: one batch of each, by `det experiment create --test`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.searches import Search

EXAMPLES = Path(__file__).parents[2] / "examples"

# One of every kind of entrypoint and searcher, and every example; tests/config reads all the files.
FILES = [
    pytest.param("mnist_pytorch/const", marks=pytest.mark.thorough),
    "mnist_pytorch/distributed",
    pytest.param("mnist_multi_output_pytorch/const", marks=pytest.mark.thorough),
    pytest.param("fasterrcnn_coco_pytorch/const", marks=pytest.mark.thorough),
    pytest.param("gan_mnist_pytorch/adaptive", marks=pytest.mark.thorough),
]


@pytest.mark.parametrize("name", FILES)
def test_one_batch(name: str, tmp_path: Path) -> None:
    file = EXAMPLES / f"{name}.yaml"
    search = Search(tmp_path, file.parent, {})
    done = search.det(
        "experiment", "create", str(file), str(file.parent), "--test", "--slots", "2", "--json", timeout=170
    )
    summary = json.loads(done.stdout)
    assert summary["state"] == "COMPLETED"
    with search.opened() as store:
        (experiment,) = store.experiments.list(archived=True)
        (trial,) = store.experiments.trials(experiment.id)
        assert (experiment.archived, trial.state, trial.steps_completed) == (True, "COMPLETED", 1)
        assert trial.best is not None
