"""The code in checkpoints of standalone runs: the program, wherever it is started from, once for the whole run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from determined import pytorch
from determined.checkpoint_storage import manifest
from determined.user_code.program import Program
from tests.helpers import warm
from tests.helpers.ranks import run_ranks
from tests.helpers.trials import LineTrial, checkpoints, fit

REPOSITORY = Path(__file__).resolve().parents[3]

TRAIN = """
import logging, sys
logging.basicConfig(level=logging.INFO)
from determined import pytorch
from tests.helpers.trials import LineTrial, fit

if __name__ == "__main__":
    fit(LineTrial, max_length=pytorch.Batch(3), checkpoint_period=pytorch.Batch(1), hparams={"global_batch_size": 4})
"""


def names(code: Path) -> set[str]:
    return {file.relative_to(code).as_posix() for file in code.rglob("*") if file.is_file()}


def run(script: Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **env}
    command = [sys.executable, str(script)]
    return warm.run(command, cwd=cwd, env=environment, check=True, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("cwd", ["/", "parent"])
def test_where_a_program_is_started_does_not_matter(cwd: str, data_home: Path, work_dir: Path) -> None:
    """Started in `/` it neither reads the machine nor hangs; started in a parent directory it takes no secrets."""
    project = work_dir / "proj"
    project.mkdir()
    (work_dir / "private").mkdir()
    (work_dir / "private" / "diary.txt").write_text("secret")
    (project / "train.py").write_text(TRAIN)
    (project / "data.bin").write_bytes(os.urandom(3_000_000))
    ran = run(project / "train.py", Path("/") if cwd == "/" else work_dir)
    saved = checkpoints(data_home)
    assert len(saved) == 3
    for checkpoint in saved:
        assert names(checkpoint / "code") == {"train.py"}
        manifest.verify(checkpoint, checkpoint.name)
    assert ran.stderr.count("data.bin") == 1
    # A small model has small checkpoints, and the code is on the disk once.
    assert sum(file.stat().st_size for file in saved[0].rglob("*") if file.is_file()) < 50_000
    copies = {(checkpoint / "code" / "train.py").stat().st_ino for checkpoint in saved}
    assert len(copies) == 1


def test_later_edits_of_the_source_reach_no_checkpoint(data_home: Path, work_dir: Path) -> None:
    program = Program("script", work_dir / "train.py")
    (work_dir / "train.py").write_text("old")

    class Editing(LineTrial):
        def train_batch(self, batch: object, epoch_idx: int, batch_idx: int) -> dict[str, object]:
            with open(work_dir / "train.py", "r+") as file:  # in place, as some editors do
                file.write(f"new {batch_idx}")
            return super().train_batch(batch, epoch_idx, batch_idx)

    fit(Editing, max_length=pytorch.Batch(2), checkpoint_period=pytorch.Batch(1), options={"program": program})
    for checkpoint in checkpoints(data_home):
        assert (checkpoint / "code" / "train.py").read_text() == "old"
        manifest.verify(checkpoint, checkpoint.name)


@pytest.mark.parametrize("in_background", [False, True])
def test_code_that_checkpoints_share_is_flushed_once(
    in_background: bool, data_home: Path, work_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An announced checkpoint survives power loss with its code, and many files of code do not delay each one."""
    flushed = work_dir / "flushed.log"
    fsync = os.fsync

    def watch_fsync(descriptor: int) -> None:  # also in the forked process that writes a checkpoint
        fsync(descriptor)
        with open(flushed, "a") as file:
            file.write(f"{os.fstat(descriptor).st_ino}\n")

    monkeypatch.setattr(os, "fsync", watch_fsync)
    if in_background:
        monkeypatch.setattr("determined.pytorch.checkpoint.checkpointer.SMALL", 0)
    project = work_dir / "project"
    (project / "package").mkdir(parents=True)
    for name in ("train.py", "package/one.py", "package/two.py"):
        (project / name).write_text(name)
    options = {"program": Program("script", project / "train.py")}
    (project / "pyproject.toml").touch()
    fit(LineTrial, max_length=pytorch.Batch(3), checkpoint_period=pytorch.Batch(1), options=options)
    seen = Counter(map(int, flushed.read_text().split()))
    saved = checkpoints(data_home)
    assert len(saved) == 3
    for checkpoint in saved:
        code = checkpoint / "code"
        assert names(code) == {"train.py", "package/one.py", "package/two.py", "pyproject.toml"}
        assert {seen[file.stat().st_ino] for file in code.rglob("*.*")} == {1}
        assert all(seen[path.stat().st_ino] for path in (checkpoint, *checkpoint.rglob("*")))


def test_on_another_file_system_checkpoints_have_copies(
    data_home: Path, work_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    own = tmp_path_factory.mktemp("other")
    others = [place for place in map(Path, ("/dev/shm", "/tmp")) if place.stat().st_dev != own.stat().st_dev]
    if not others:
        pytest.skip("needs another file system")
    storage = others[0] / f"determined-{own.name}" / str(os.getpid())
    storage.mkdir(parents=True, mode=0o700)
    (work_dir / "train.py").write_text("text")
    options = {"program": Program("script", work_dir / "train.py"), "checkpoint_storage": str(storage)}
    try:
        fit(LineTrial, max_length=pytorch.Batch(2), checkpoint_period=pytorch.Batch(1), options=options)
        copies = [file.stat() for file in storage.glob("*/code/train.py")]
        assert len({status.st_ino for status in copies}) == len(copies) == 2
        assert [status.st_nlink for status in copies] == [1, 1]
        for checkpoint in storage.glob("*-*"):
            manifest.verify(checkpoint, checkpoint.name)
    finally:
        subprocess.run(["rm", "-rf", str(storage)], check=True)


def test_a_checkpoint_can_be_deleted_and_the_others_keep_their_code(data_home: Path, work_dir: Path) -> None:
    (work_dir / "train.py").write_text("text")
    storage = work_dir / "checkpoints"
    kept = {"type": "directory", "container_path": str(storage), "save_trial_best": 0, "save_trial_latest": 2}
    options = {"program": Program("script", work_dir / "train.py"), "checkpoint_storage": kept}
    fit(LineTrial, max_length=pytorch.Batch(5), checkpoint_period=pytorch.Batch(1), options=options)
    saved = [path.parent for path in storage.glob("*/state_dict.pth")]
    assert len(saved) == 2
    for checkpoint in saved:
        assert names(checkpoint / "code") == {"train.py"}  # and not the storage inside the project
        manifest.verify(checkpoint, checkpoint.name)


def test_records_inside_the_project_are_not_code(work_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(work_dir / "home"))
    monkeypatch.setenv("DET_STORE", "data/records.db")
    (work_dir / "data").mkdir()
    (work_dir / "train.py").write_text("x")
    for _ in range(2):
        fit(LineTrial, max_length=pytorch.Batch(1), options={"program": Program("script", work_dir / "train.py")})
    (work_dir / "home" / "determined").rename(work_dir / "home" / "away")
    for saved in (work_dir / "home" / "away").glob("*/code"):
        assert names(saved) == {"train.py"}


def test_several_ranks_take_one_snapshot(data_home: Path, work_dir: Path) -> None:
    (work_dir / "train.py").write_text(TRAIN)
    results = run_ranks(work_dir / "train.py", n=2, cwd=Path("/"))
    assert [result.returncode for result in results] == [0, 0]
    (snapshot,) = data_home.glob("determined/runs/*/code")
    assert names(snapshot) == {"train.py"}
    assert all(names(checkpoint / "code") == {"train.py"} for checkpoint in checkpoints(data_home))


def test_a_script_in_the_home_directory_takes_its_modules_alone(data_home: Path, work_dir: Path) -> None:
    (work_dir / "train.py").write_text("import helper\n" + TRAIN)
    (work_dir / "helper.py").touch()
    (work_dir / "unused.py").touch()
    (work_dir / "letters.txt").write_text("private")
    run(work_dir / "train.py", work_dir, HOME=str(work_dir))
    assert all(names(checkpoint / "code") == {"train.py", "helper.py"} for checkpoint in checkpoints(data_home))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_snapshot_can_be_interrupted(number: signal.Signals, data_home: Path, work_dir: Path) -> None:
    """Thousands of files remain when the signal arrives: the run does not wait for them."""
    (work_dir / "train.py").write_text(
        "from determined import pytorch\n"
        "from determined.user_code.snapshot import _Snapshot\n"
        "take = _Snapshot._take\n"
        "def announced(self, relative):\n"
        "    print('copying', flush=True)\n"
        "    take(self, relative)\n"
        "_Snapshot._take = announced\n"
        "with pytorch.init():\n    print('training', flush=True)\n"
    )
    for number_of_file in range(3000):
        (work_dir / f"{number_of_file}.txt").write_text("text")
    with warm.Popen(
        [sys.executable, str(work_dir / "train.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "copying\n"
        process.send_signal(number)
        rest = process.stdout.read()
    assert process.returncode in (-number, 128 + number)
    assert "training" not in rest


@pytest.mark.skipif(not os.path.exists("/proc/kmsg"), reason="needs a file that can be read for ever")
def test_a_script_in_the_root_directory(data_home: Path, tmp_path: Path) -> None:
    script = Path(f"/program-of-a-test-{os.getpid()}.py")
    try:
        script.write_text(TRAIN)
    except OSError:
        pytest.skip("the root directory cannot be written")
    try:
        run(script, Path("/"))
    finally:
        script.unlink()
    assert all(names(checkpoint / "code") == {script.name} for checkpoint in checkpoints(data_home))
    assert len(checkpoints(data_home)) == 3


def test_a_trial_class_run_by_the_harness_takes_the_directory_of_its_module(data_home: Path, work_dir: Path) -> None:
    (work_dir / "model_of_test.py").write_text(
        "from tests.helpers.trials import LineTrial\nclass Trial(LineTrial):\n    pass\n"
    )
    (work_dir / "config.yaml").write_text(
        "searcher: {name: single, metric: val_loss, max_length: {batches: 1}}\n"
        "hyperparameters: {global_batch_size: 2}\n"
    )
    command = [sys.executable, "-m", "determined.exec.harness", "model_of_test:Trial", "--config", "config.yaml"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    warm.run(command, cwd=work_dir, env=environment, check=True, timeout=60)
    (checkpoint,) = checkpoints(data_home)
    assert names(checkpoint / "code") == {"model_of_test.py", "config.yaml"}
