"""Errors of programs that run on several machines, each with directories of its own."""

from __future__ import annotations

from pathlib import Path

from tests.experiment.inside import run
from tests.experiment.nodes import Nodes

LIBRARY = """
def fail():
    raise ValueError("a mistake")
"""


def test_the_same_mistake_on_several_nodes_ends_the_search(tmp_path: Path) -> None:
    model, roots = tmp_path / "model", tmp_path / "roots"
    model.mkdir()
    (tmp_path / "link").symlink_to(roots)  # tracebacks name the directory behind it
    roots.mkdir()
    (model / "library.py").write_text(LIBRARY)
    (model / "train.py").write_text("import library\nlibrary.fail()\n")
    config = {
        "name": "mistake",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}},
        "searcher": {"name": "random", "metric": "loss", "max_trials": 8},
        "max_restarts": 3,
    }
    with Nodes(model, ["first", "second"] * 8, roots=tmp_path / "link") as engine:
        outcome = run(engine, model, config)
    assert outcome.experiment.state == "ERROR"
    error = "ValueError: a mistake (library.py, line 3)"
    assert outcome.experiment.reason == f"the first 3 trials failed with the same error: {error}"
    assert [trial.runs for trial in outcome.trials if trial.state == "ERROR"] == [2, 2, 2]
    assert sorted(path.name for path in roots.iterdir()) == ["first", "second"]
