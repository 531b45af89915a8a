"""The experiment configurations of the examples name what the code of their directory has."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from determined import pytorch
from determined.config.reading.load import load_yaml

EXAMPLES = Path(__file__).parents[2] / "examples"
DIRECTORIES = sorted(path for path in EXAMPLES.iterdir() if (path / "model_def.py").is_file())
KINDS = ["const", "adaptive", "distributed"]


def names(directories: list[Path]) -> list[str]:
    return [directory.name for directory in directories]


def test_there_are_five() -> None:
    assert len(DIRECTORIES) == 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("directory", DIRECTORIES, ids=names(DIRECTORIES))
def test_configuration(directory: Path, kind: str, load: Callable[[str, str], ModuleType]) -> None:
    config = load_yaml(directory / f"{kind}.yaml")
    assert config["name"] == f"{directory.name}_{kind}"
    assert isinstance(config["data"]["source"], str)

    code = (directory / "model_def.py").read_text()
    asked_for = set(re.findall(r'get_hparam\("(\w+)"\)', code)) | {"global_batch_size"}
    assert set(config["hyperparameters"]) == asked_for
    check_entrypoint(config["entrypoint"], directory, load)
    check_searcher(config, kind)
    # A configuration without a program has to define how long to train; a program defines it itself.
    assert ("max_length" in config["searcher"]) == ("model_def" in config["entrypoint"])


def check_entrypoint(entrypoint: str, directory: Path, load: Callable[[str, str], ModuleType]) -> None:
    if "train.py" in entrypoint:
        assert (directory / "train.py").is_file()
        return
    module, _, name = entrypoint.split()[-1].partition(":")
    assert issubclass(getattr(load(directory.name, module), name), pytorch.PyTorchTrial)


def check_searcher(config: dict[str, Any], kind: str) -> None:
    searcher = config["searcher"]
    assert searcher["smaller_is_better"] == (searcher["metric"] != "val_avg_iou")
    if kind == "adaptive":
        assert searcher["name"] == "adaptive_asha"
        assert searcher["time_metric"] in ("batches", "epochs")
        assert searcher["max_trials"] == 16
        if "max_length" in searcher:
            assert searcher["max_length"] == {searcher["time_metric"]: searcher["max_time"]}
        assert any(isinstance(value, dict) for value in config["hyperparameters"].values())
    else:
        assert searcher["name"] == "single"
        assert not any(isinstance(value, dict) for value in config["hyperparameters"].values())
    if kind == "distributed":
        slots = config["resources"]["slots_per_trial"]
        assert slots > 1
        assert config["hyperparameters"]["global_batch_size"] % slots == 0
        assert "determined.launch.torch_distributed" in config["entrypoint"]


def test_numbers_are_numbers() -> None:
    # YAML 1.1 readers take 1e-4, without a point, for a string.
    for path in EXAMPLES.glob("*/*.yaml"):
        assert not re.search(r"(?<![\d.])\d+e[-+]?\d", path.read_text()), path
