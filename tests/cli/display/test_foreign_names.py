"""Names in rows are data: an experiment whose key names another directory runs, reads and removes nothing there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from determined import paths
from determined.store.open import opened_database
from determined.store.store import Store
from tests.cli.det_command import det, det_ok

SINGLE = """
entrypoint: python3 train.py
hyperparameters: {lr: 0.1, seconds: 0.0}
searcher: {name: single, metric: loss, max_length: 4}
"""
COMMANDS = {
    "activate": ("e", "activate", "1"),
    "queue": ("e", "activate", "1", "--detach"),
    "continue": ("e", "continue", "1", "--config", "searcher.max_length.batches=9"),
    "fork": ("e", "fork", "1"),
    "code": ("e", "download-model-def", "1"),
}


@pytest.fixture
def planted(project: Path, store: Store, tmp_path: Path) -> Path:
    """Create an experiment, and elsewhere a complete directory of one whose code must not be run."""
    (project / "config.yaml").write_text(SINGLE)
    det_ok("e", "create", "config.yaml", "model", "--paused")
    place = tmp_path / "planted"
    shutil.copytree(paths.data_dir() / "experiments" / store.experiments.get(1).key, place)
    (place / "code" / "train.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    return place


def foreign_key(kind: str, planted: Path, store: Store) -> str:
    if kind == "absolute":
        return str(planted)
    if kind == "relative":
        return os.path.relpath(planted, paths.data_dir() / "experiments")
    link = paths.data_dir() / "experiments" / "link"
    link.symlink_to(planted)
    return link.name


@pytest.mark.parametrize("kind", ["absolute", "relative", "link"])
def test_the_key_of_an_experiment_leads_nowhere_else(
    kind: str, planted: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = foreign_key(kind, planted, store)
    with opened_database() as database, database.transaction():
        database.execute("UPDATE experiments SET key = ? WHERE id = 1", [key])
    before = sorted(planted.rglob("*"))
    for name, command in COMMANDS.items():
        done = det(*command)
        assert done.exit_code == 1, (name, done.output)
        assert len(done.stderr.splitlines()) == 1, (name, done.stderr)
    det_ok("e", "kill", "1")
    done = det("e", "delete", "1", "--yes")
    assert done.exit_code == 0, done.stderr
    assert sorted(planted.rglob("*")) == before
    assert not (tmp_path / "ran").exists()
