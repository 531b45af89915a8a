"""Experiments that cannot run are rejected at creation, with the reason, and leave nothing behind; secrets stay
private.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from determined.config.dump import dump_yaml
from tests.experiment.conftest import MODELS, MakeSearch
from tests.helpers.searches import Search

CONFIG: dict[str, Any] = {
    "name": "bad",
    "entrypoint": "python3 train.py 0 2",
    "hyperparameters": {"lr": 0.5},
    "searcher": {"name": "single", "metric": "loss"},
}


def refused(search: Search, *options: str, **fields: Any) -> str:
    """Return the error of `det experiment create`, and check that nothing of an experiment exists."""
    path = search.home / "config.yaml"
    path.write_text(dump_yaml({**CONFIG, **fields}))
    done = search.det("experiment", "create", str(path), str(search.model_dir), *options, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stdout.replace("    Traceback", "")
    with search.opened() as store:
        assert store.experiments.list() == []
    assert list(search.home.glob("determined/experiments/*")) == []
    assert done.stderr.startswith("Cannot create the experiment: "), done.stderr
    return done.stderr


@pytest.fixture
def model_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    shutil.copytree(MODELS / "steady", directory)
    return directory


@pytest.fixture
def search(make_search: MakeSearch, model_dir: Path) -> Search:
    made = make_search("steady", CONFIG)
    made.model_dir = model_dir
    return made


def test_entrypoints_that_cannot_run(search: Search) -> None:
    (search.model_dir / "broken.py").write_text("def f(:\n")
    (search.model_dir / "raises.py").write_text("import json\nraise OSError('no data here')\n")
    (search.model_dir / "empty.py").write_text("Number = 3\n")
    (search.model_dir / "near.py").write_text("class Trial: ...\n")
    for entrypoint, words in {
        "python3 missing.py": r"entrypoint: there is no missing\.py in the model directory",
        "python3 broken.py": r"entrypoint: broken\.py is not Python that can be run: .*line 1",
        "nowhere:Trial": r"entrypoint: nowhere:Trial cannot be imported: .*No module named 'nowhere'.*no nowhere\.py",
        "broken:Trial": r"entrypoint: broken:Trial cannot be imported: SyntaxError",
        "raises:Trial": r"entrypoint: raises:Trial cannot be imported: OSError: no data here \(raises\.py, line 2\)$",
        "empty:Trial": r"entrypoint: empty:Trial cannot be imported: .*Trial",
        "empty:Nummer": r"Cannot create the experiment: \S+config\.yaml:2: entrypoint: empty:Nummer cannot be "
        r"imported: empty\.py has no class 'Nummer'$",
        "near:Trail": r"Cannot create the experiment: \S+config\.yaml:2: entrypoint: near:Trail cannot be imported: "
        r"near\.py has no class 'Trail'; did you mean Trial\?$",
        "empty:Number": r"entrypoint: empty:Number cannot be imported: .*Number",
        "Trial": r".*:2: entrypoint: expected module:TrialClass, got 'Trial'; for example model_def:Trial",
    }.items():
        said = refused(search, "--paused", entrypoint=entrypoint)
        assert re.search(words, said), (entrypoint, said)
        assert len(said.splitlines()) == 1, said
        assert "check_entrypoint" not in said
        assert str(search.home) not in said.replace(str(search.home / "config.yaml"), "")


def test_a_machine_that_lacks_something(search: Search, tmp_path: Path) -> None:
    said = refused(search, "--slots", "2", resources={"slots_per_trial": 3})
    assert "resources.slots_per_trial: a trial wants 3 slots, this machine has 2" in said
    occupied = tmp_path / "a-file"
    occupied.write_text("in the way")
    storage = {"type": "directory", "container_path": str(occupied / "checkpoints")}
    assert str(occupied) in refused(search, "--paused", checkpoint_storage=storage)
    if os.getuid() != 0:  # root may write everywhere
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o500)
        storage = {"type": "directory", "container_path": str(locked)}
        assert str(locked) in refused(search, "--paused", checkpoint_storage=storage)
    for source, words in (
        ({"source_trial_id": 3}, "searcher.source_trial_id: trial 3 has no checkpoint"),
        ({"source_checkpoint_uuid": "not-there"}, "not-there"),
    ):
        assert words in refused(search, "--paused", searcher={**CONFIG["searcher"], **source})


def test_model_directories_that_are_refused(search: Search, tmp_path: Path) -> None:
    given = search.model_dir
    search.model_dir = given / "train.py"
    assert f"train.py is a file: give the directory of the code, for example {given}" in refused(search)
    search.model_dir = given / "nowhere"
    assert f"the model directory {search.model_dir} does not exist" in refused(search)
    search.model_dir = given
    assert "--include nothing: there is no such file or directory" in refused(search, "--include", "nothing")
    twice = tmp_path / "elsewhere" / "train.py"
    twice.parent.mkdir()
    twice.write_text("")
    assert "the model directory has a 'train.py' already" in refused(search, "--include", str(twice))
    if os.getuid() != 0:  # root may read everything
        (given / "private.txt").write_text("")
        (given / "private.txt").chmod(0)
        assert "private.txt cannot be read" in refused(search)
        (given / "private.txt").unlink()
    data = given / "data"
    data.mkdir()
    for number in range(100_000):
        os.close(os.open(data / str(number), os.O_CREAT | os.O_WRONLY))
    said = refused(search)
    assert "holds more than 10,000 files" in said
    assert "(at data/" in said
    assert ".detignore" in said
    (given / ".detignore").write_text("data/\n")
    assert search.create() == 1


def test_odd_entries_are_taken_or_left_out_by_name(search: Search, tmp_path: Path) -> None:
    given = search.model_dir
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file.txt").write_text("linked")
    (given / "to-a-file.txt").symlink_to(outside / "file.txt")
    (given / "to-a-directory").symlink_to(outside)
    (given / "to-nothing").symlink_to(outside / "nothing")
    os.mkfifo(given / "pipe")
    (given / "package").mkdir()
    (given / "package" / "Ünïcode name.py").write_text("")
    (given / "__pycache__").mkdir()
    (given / "__pycache__" / "x.pyc").write_text("")
    (given / ".git").mkdir()
    (given / ".git" / "config").write_text("")
    here = os.getcwd()
    os.chdir(given)  # the path of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("socket")
    finally:
        os.chdir(here)
    search.config = CONFIG
    path = search.home / "config.yaml"
    path.write_text(dump_yaml(CONFIG))
    done = search.det("experiment", "create", str(path), str(given), "--paused")
    (code,) = search.home.glob("determined/experiments/*/code")
    taken = {str(file.relative_to(code)) for file in code.rglob("*") if not file.is_dir()}
    assert taken == {"train.py", "to-a-file.txt", "package/Ünïcode name.py"}
    assert not any(file.is_symlink() for file in code.rglob("*"))
    assert (code / "to-a-file.txt").read_text() == "linked"
    for name in ("to-a-directory", "to-nothing", "pipe", "socket"):
        assert name in done.stderr, done.stderr


SECRET = "kept-very-secret-4711"


def test_secrets_are_seen_by_trials_alone(make_search: MakeSearch) -> None:
    search = make_search(
        "linear",
        {
            **CONFIG,
            "entrypoint": "model_def:LinearTrial",
            "hyperparameters": {"global_batch_size": 16, "lr": 0.01},
            "searcher": {"name": "single", "metric": "validation_loss", "max_length": {"batches": 4}},
            "environment": {"environment_variables": [f"MY_TOKEN={SECRET}", f"WANDB_API_KEY={SECRET}", "PLAIN=seen"]},
            "data": {"url": f"postgresql://user:{SECRET}@localhost/db", "secret_key": SECRET, "plain": "seen"},
            "debug": True,
        },
    )
    experiment = search.create()
    said = search.activate(experiment)
    for command in (
        ["config", str(experiment)],
        ["config", str(experiment), "--json"],
        ["describe", str(experiment), "--json"],
        ["describe", str(experiment)],
        ["list", "--json"],
        ["list-trials", str(experiment), "--json"],
        ["list-checkpoints", str(experiment), "--json"],
        ["logs", str(experiment)],
    ):
        said += search.det("experiment", *command).stdout
    assert "seen" in said
    assert SECRET not in said
    keeping = {path for path in search.home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()}
    assert {path.name for path in keeping} == {"config.json", "config.yaml"}  # the owner's, and the user's own
    (kept,) = [path for path in keeping if path.name == "config.json"]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    (trial_dir,) = search.home.glob("determined/experiments/*/trials/*")
    assert trial_dir.is_dir()
    assert list(search.home.glob("determined/checkpoints/*"))
    assert json.loads(kept.read_text())["data"]["secret_key"] == SECRET
