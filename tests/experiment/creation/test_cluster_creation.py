"""Experiments for a cluster, made on a machine that could not run their trials."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from determined.config.experiment import load_experiment
from determined.errors import InvalidExperimentException
from determined.experiment.creation.create import create_experiment
from tests.experiment.conftest import MakeSearch
from tests.experiment.inside import opened

TRIAL = "import a_library_of_the_nodes\n\nclass Trial: pass\n"


def config(entrypoint: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": "on a cluster",
        "entrypoint": entrypoint,
        "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 8}},
        "hyperparameters": {"global_batch_size": 8},
        "resources": {"engine": "ray:10.0.0.1:6379", "slots_per_trial": 1000},
        **fields,
    }


def create(model: Path, entrypoint: str, **fields: Any) -> int:
    with opened() as store:
        return create_experiment(load_experiment(config(entrypoint, **fields)), model, store).experiment_id


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model" / "package").mkdir(parents=True)
    (tmp_path / "model" / "package" / "__init__.py").touch()
    for name in ("model_def.py", "package/inner.py"):
        (tmp_path / "model" / name).write_text(TRIAL)
    (tmp_path / "model" / "train.py").write_text("import a_library_of_the_nodes\n")
    (tmp_path / "model" / "broken.py").write_text("def f(:\n")
    return tmp_path / "model"


@pytest.mark.parametrize(
    "entrypoint",
    ["model_def:Trial", "package.inner:Trial", "package:Trial", "python3 train.py", "email.message:Message"],
)
def test_code_that_only_the_nodes_can_import(model: Path, entrypoint: str) -> None:
    create(model, entrypoint)


def test_a_hook_runs_on_the_nodes_only(model: Path, tmp_path: Path) -> None:
    (model / "startup-hook.sh").write_text(f"touch {tmp_path}/ran\nexit 1\n")
    for entrypoint in ("model_def:Trial", "written_by_the_hook:Trial", "python3 written.py"):
        create(model, entrypoint)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("entrypoint", "said"),
    [
        ("broken:Trial", "broken.py is not Python that can be run"),
        ("python3 broken.py", "broken.py is not Python that can be run"),
        ("python3 tain.py", "there is no tain.py in the model directory"),
        ("modle_def:Trial", r"there is no modle_def\.py in the model directory, and no package of this name"),
        ("package.iner:Trial", r"there is no package/iner\.py in the model directory"),
        ("model_def.inner:Trial", r"there is no model_def/inner\.py in the model directory"),
    ],
)
def test_mistakes_that_can_be_seen_without_running_anything(model: Path, entrypoint: str, said: str) -> None:
    with pytest.raises(InvalidExperimentException, match=said):
        create(model, entrypoint)


def test_a_module_of_the_path_of_the_nodes(model: Path) -> None:
    create(model, "elsewhere:Trial", environment={"environment_variables": ["PYTHONPATH=/shared/library"]})


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_nothing_is_created(make_search: MakeSearch, model: Path) -> None:
    search = make_search("linear", config("model_def:Trial"))
    created = search.det("experiment", "create", *search.written(), check=False)
    assert created.returncode == 1
    assert 'pip install "determined-pytorch[ray]"' in created.stderr
    with search.opened() as store:
        assert store.experiments.list(limit=None) == []
