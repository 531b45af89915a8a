"""Files in the data directory can be read by their owner alone, whatever the umask."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from determined import paths
from tests.cli.det_command import run_det

PROGRAM = """
from determined import core
with core.init() as context:
    context.train.report_validation_metrics(1, {"loss": 1.0})
    context.train.get_tensorboard_path().joinpath("mine").touch()
    with context.checkpoint.store_path({"steps_completed": 1}) as (path, _):
        (path / "layers").mkdir()
        (path / "layers" / "weights").write_text("x")
        (path / "run.sh").write_text("true")
        (path / "run.sh").chmod(0o755)
"""
CONFIG = "entrypoint: python3 train.py\nsearcher: {name: single, metric: loss}\n"
# The program of the test creates this file: only the directory around it is ours.
OF_THE_PROGRAM = "mine"


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(root: Path) -> list[str]:
    found = [root, *root.rglob("*")]
    return [
        f"{stat.filemode(path.lstat().st_mode)} {path.relative_to(root)}"
        for path in found
        if path.lstat().st_mode & 0o077 and not path.is_symlink() and path.name != OF_THE_PROGRAM
    ]


def test_everything_in_the_data_directory_is_private(usual_umask: None, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "train.py").write_text(PROGRAM)
    (tmp_path / "config.yaml").write_text(CONFIG)
    old = paths.data_dir() / "experiments"
    old.mkdir(mode=0o755)  # as an earlier release left it
    done = run_det("e", "create", str(tmp_path / "config.yaml"), str(model))
    assert done.returncode == 0, done.stderr
    standalone = subprocess.run([sys.executable, "train.py"], cwd=model, capture_output=True, text=True)
    assert standalone.returncode == 0, standalone.stderr
    assert open_to_others(paths.data_dir()) == []
    scripts = list(paths.data_dir().glob("checkpoints/*/run.sh"))
    assert [stat.S_IMODE(script.stat().st_mode) for script in scripts] == [0o700] * 2


def test_a_storage_elsewhere_keeps_the_modes_of_its_user(usual_umask: None, tmp_path: Path) -> None:
    """A team may share checkpoints there. A file that a checkpoint shares with another place keeps its mode, too."""
    from determined import core

    original = tmp_path / "pretrained"
    original.write_text("x")
    with core.init(checkpoint_storage=str(tmp_path / "shared")) as context:
        with context.checkpoint.store_path({"steps_completed": 1}) as (path, uuid):
            (path / "weights").write_text("x")
    assert stat.S_IMODE((tmp_path / "shared" / uuid / "weights").stat().st_mode) == 0o644
    with core.init() as context, context.checkpoint.store_path({"steps_completed": 1}) as (path, uuid):
        os.link(original, path / "pretrained")
    assert stat.S_IMODE(original.stat().st_mode) == 0o644
