"""Checkpoints and experiments as files: downloaded, annotated, deleted; no other file is ever changed."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from determined import core
from determined.errors import CheckpointInUse, CheckpointStateException, InvalidExperimentException, NotFoundException
from determined.experiment.deletion import delete_experiment
from determined.experimental import Checkpoint, Experiment, client
from determined.experimental.client import CheckpointState, DownloadMode, ExperimentState
from determined.store.experiment_changes import Change, ExperimentChange, TrialChange
from determined.store.process import this_process
from determined.store.rows import (
    AttemptStart,
    CheckpointRow,
    EndRow,
    NewRun,
)
from tests.helpers.mounts import read_only
from tests.helpers.records import opened
from tests.store.experiments import new_experiment, new_trial


def tree(root: Path) -> dict[str, bytes | None]:
    """Return every file below a directory with its content."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in sorted(root.rglob("*"))
    }


@pytest.fixture
def standalone_checkpoint(home: Path) -> Checkpoint:
    """Return the checkpoint of a standalone script that has ended."""
    with core.init() as context:
        context.train.report_validation_metrics(3, {"error": 0.5})
        with context.checkpoint.store_path({"steps_completed": 3}) as (path, uuid):
            (path / "weights.bin").write_bytes(b"12345")
            (path / "code").mkdir()
            (path / "code" / "train.py").write_text("pass")
    return client.get_checkpoint(uuid)


class TestDownload:
    def test_to_the_usual_place(self, searched: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        best = searched.list_checkpoints(max_results=1)[0]
        path = best.download()
        assert path == f"checkpoints/{best.uuid}"
        found = {name: len(data) for name, data in tree(Path(path)).items() if data is not None}
        assert {name: size for name, size in best.resources.items() if not name.endswith("/")}.items() <= found.items()
        assert [entry.name for entry in Path("checkpoints").iterdir()] == [best.uuid]

    def test_a_directory_that_cannot_be_written_is_named(
        self, searched: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        best = searched.list_checkpoints(max_results=1)[0]
        with read_only(tmp_path):
            monkeypatch.chdir(tmp_path)
            with pytest.raises(OSError, match="Read-only") as raised:
                best.load()
            monkeypatch.chdir("/")
        told = f"checkpoint {best.uuid} was not downloaded: {tmp_path}/checkpoints cannot be written (Read-only"
        assert told in str(raised.value)

    def test_the_trial_of_it_can_be_made_again(self, searched: Experiment, tmp_path: Path) -> None:
        trial = searched.list_checkpoints()[0].load(tmp_path / "here")
        assert type(trial).__name__ == "LinearTrial"
        with pytest.warns(FutureWarning, match="pass torch_load_kwargs"):
            again = Checkpoint.load_from_path(tmp_path / "here", map_location="cpu")
        weights = [list(one.model.state_dict().values()) for one in (trial, again)]
        assert all(bool((one == other).all()) for one, other in zip(*weights, strict=True))

    def test_an_existing_directory_is_used_only_if_it_is_the_same_checkpoint(
        self, searched: Experiment, tmp_path: Path
    ) -> None:
        first, second = searched.list_checkpoints(max_results=2)
        target = tmp_path / "target"
        target.mkdir()
        first.download(target)  # into an empty directory
        before = (target / "metadata.json").stat().st_ino
        first.download(target, DownloadMode.MASTER)
        assert (target / "metadata.json").stat().st_ino == before
        with pytest.raises(FileExistsError, match=f"checkpoint {second.uuid} was not downloaded: .*something else"):
            second.download(target)
        (target / "metadata.json").unlink()
        first.download(target)  # a part was missing
        assert json.loads((target / "metadata.json").read_text()) == first.metadata
        first.add_metadata({"a": 1})
        first.download(target)
        first.add_metadata({"a": 2})  # a file of the same size
        first.download(target)
        assert json.loads((target / "metadata.json").read_text()) == first.metadata
        other = tmp_path / "mine"
        other.mkdir()
        (other / "metadata.json").write_text("{}")
        with pytest.raises(FileExistsError, match="holds something else"):
            first.download(other)
        assert (other / "metadata.json").read_text() == "{}"
        assert sorted(path.name for path in tmp_path.iterdir() if path.name != "xdg-data") == ["mine", "target"]

    def test_own_files_in_the_directory_stay(self, standalone_checkpoint: Checkpoint, tmp_path: Path) -> None:
        target = Path(standalone_checkpoint.download(tmp_path / "target"))
        (target / "code" / "mine.txt").write_text("mine")
        standalone_checkpoint.download(target)  # nothing is missing
        standalone_checkpoint.add_metadata({"a": 1})
        before = tree(target)
        with pytest.raises(FileExistsError, match=r"target holds something else \(code/mine.txt\); name another"):
            standalone_checkpoint.download(target)
        assert tree(target) == before
        (target / "code" / "mine.txt").unlink()
        standalone_checkpoint.download(target)
        assert json.loads((target / "metadata.json").read_text()) == {"steps_completed": 3, "a": 1}
        assert [path.name for path in tmp_path.iterdir() if path.name != "xdg-data"] == ["target"]

    def test_the_old_copy_comes_back_when_the_new_one_cannot_be_put_there(
        self, standalone_checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        target = Path(standalone_checkpoint.download(tmp_path / "target"))
        standalone_checkpoint.add_metadata({"a": 1})
        before, rename = tree(target), os.rename

        def full(source: Path, to: Path) -> None:
            """A disk with space to rename the old copy, but not for a new one."""
            if to == target and not str(source).endswith("-old"):
                raise OSError(errno.ENOSPC, "No space left on device")
            rename(source, to)

        monkeypatch.setattr(os, "rename", full)
        with pytest.raises(OSError, match="No space left"):
            standalone_checkpoint.download(target)
        assert tree(target) == before
        assert [path.name for path in tmp_path.iterdir() if path.name != "xdg-data"] == ["target"]

    def test_a_link_is_refused(self, standalone_checkpoint: Checkpoint, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        for name, to in (("link", "elsewhere"), ("dead", "nowhere")):
            (tmp_path / name).symlink_to(to)
            with pytest.raises(FileExistsError, match=f"{name} is a link to {to}; name that directory itself"):
                standalone_checkpoint.download(tmp_path / name)
        assert list((tmp_path / "elsewhere").iterdir()) == []

    def test_a_mode_that_is_none(self, searched: Experiment) -> None:
        with pytest.raises(TypeError, match="mode must be a DownloadMode, got 'direct'"):
            searched.list_checkpoints()[0].download(mode="direct")  # type: ignore[arg-type]


class TestMetadata:
    def test_in_the_store_and_in_the_file(self, searched: Experiment, tmp_path: Path) -> None:
        checkpoint = searched.list_checkpoints()[1]
        old = dict(checkpoint.metadata)
        checkpoint.add_metadata({"stage": "prod 😀", "drop": 1})
        checkpoint.remove_metadata(["drop", "unknown"])
        wanted = {**old, "stage": "prod 😀"}
        assert checkpoint.metadata == client.get_checkpoint(checkpoint.uuid).metadata == wanted
        path = Path(checkpoint.download(tmp_path / "here"))
        assert json.loads((path / "metadata.json").read_text()) == wanted
        Checkpoint.load_from_path(path)  # its manifest agrees
        checkpoint.write_metadata_file(tmp_path / "metadata.json")
        assert json.loads((tmp_path / "metadata.json").read_text()) == wanted
        with pytest.raises(ValueError, match="must have steps_completed"):
            checkpoint.remove_metadata("steps_completed")
        with pytest.raises(TypeError, match="must be JSON"):
            checkpoint.add_metadata({"a": {1, 2}})
        with pytest.raises(TypeError, match="metadata must be a dict"):
            checkpoint.add_metadata("a")  # type: ignore[arg-type]
        assert client.get_checkpoint(checkpoint.uuid).metadata == wanted

    def test_without_a_manifest(self, standalone_checkpoint: Checkpoint, tmp_path: Path) -> None:
        standalone_checkpoint.add_metadata({"a": None})
        path = Path(standalone_checkpoint.download(tmp_path / "here"))
        assert json.loads((path / "metadata.json").read_text()) == {"steps_completed": 3, "a": None}


class TestDeletingCheckpoints:
    def test_some_files_then_all(self, standalone_checkpoint: Checkpoint, home: Path, tmp_path: Path) -> None:
        root = home / "determined" / "checkpoints" / standalone_checkpoint.uuid
        standalone_checkpoint.remove_files(["no such file"])
        states = [standalone_checkpoint.state]
        standalone_checkpoint.remove_files(["code/**", "code/"])
        states.append(standalone_checkpoint.state)
        assert states == [CheckpointState.COMPLETED, CheckpointState.PARTIALLY_DELETED]
        assert set(standalone_checkpoint.resources) == {"weights.bin", "metadata.json"} == set(tree(root))
        standalone_checkpoint.download(tmp_path / "rest")
        standalone_checkpoint.remove_files(["*"])
        assert (standalone_checkpoint.state, standalone_checkpoint.resources) == (CheckpointState.DELETED, {})
        assert not root.exists()
        with pytest.raises(
            CheckpointStateException, match=f"{standalone_checkpoint.uuid} cannot be downloaded: it is DELETED"
        ):
            standalone_checkpoint.download(tmp_path / "again")
        with pytest.raises(CheckpointStateException, match="is DELETED"):
            standalone_checkpoint.add_metadata({"a": 1})
        standalone_checkpoint.delete()  # a repetition changes nothing
        assert client.get_checkpoint(standalone_checkpoint.uuid).state is CheckpointState.DELETED

    def test_files_that_another_program_removed_are_noticed(
        self, standalone_checkpoint: Checkpoint, home: Path
    ) -> None:
        (home / "determined" / "checkpoints" / standalone_checkpoint.uuid / "weights.bin").unlink()
        standalone_checkpoint.remove_files([])
        assert standalone_checkpoint.state is CheckpointState.PARTIALLY_DELETED
        assert "weights.bin" not in standalone_checkpoint.resources

    def test_a_registered_one_stays(self, standalone_checkpoint: Checkpoint, home: Path) -> None:
        model = client.create_model("a/../'b'\n😀", labels=["x"], metadata={"k": 1})
        version = model.register_version(standalone_checkpoint.uuid)
        before = tree(home / "determined" / "checkpoints" / standalone_checkpoint.uuid)
        experiment = client.get_experiment(standalone_checkpoint.training.experiment_id)
        for call in (
            standalone_checkpoint.delete,
            lambda: standalone_checkpoint.remove_files(["*.bin"]),
            experiment.delete,
        ):
            with pytest.raises(
                CheckpointInUse, match=f"{standalone_checkpoint.uuid} is registered as version 1 of model"
            ):
                call()
        assert tree(home / "determined" / "checkpoints" / standalone_checkpoint.uuid) == before
        assert client.get_checkpoint(standalone_checkpoint.uuid).state is CheckpointState.COMPLETED
        version.delete()
        standalone_checkpoint.delete()
        assert not (home / "determined" / "checkpoints" / standalone_checkpoint.uuid).exists()


class TestOldNames:
    def test_of_checkpoints(self, standalone_checkpoint: Checkpoint) -> None:
        with pytest.warns(FutureWarning, match=r"trial_id is deprecated: use Checkpoint\.training\.trial_id"):
            assert standalone_checkpoint.trial_id == standalone_checkpoint.training.trial_id
        with pytest.warns(FutureWarning, match="experiment_config"):
            assert standalone_checkpoint.experiment_config is standalone_checkpoint.training.experiment_config
        with pytest.warns(FutureWarning, match="batch_number"):
            assert standalone_checkpoint.batch_number == 3
        with pytest.warns(FutureWarning, match="validation"):
            validation = standalone_checkpoint.validation
        assert validation == {"error": 0.5}
        assert validation["metrics"]["validationMetrics"]["error"] == 0.5
        with pytest.raises(KeyError, match="loss"):
            validation["loss"]

    def test_of_versions(self, standalone_checkpoint: Checkpoint, tmp_path: Path) -> None:
        net = client.create_model("net")
        version = net.register_version(standalone_checkpoint.uuid)
        other = net.get_version(1)
        assert other is not None
        other.set_notes("changed elsewhere")
        assert version.notes == ""
        version.reload()
        assert version.notes == "changed elsewhere"
        assert Path(version.download(tmp_path / "here"), "weights.bin").read_bytes() == b"12345"
        with pytest.warns(FutureWarning, match="ModelVersion.get_metrics is deprecated"):
            assert list(version.get_metrics()) == []
        version.delete()
        with pytest.raises(NotFoundException, match="Version 1 of model 1 not found: it was deleted"):
            version.reload()

    def test_a_version_is_loaded(self, searched: Experiment, tmp_path: Path) -> None:
        net = client.create_model("to be loaded")
        version = net.register_version(searched.list_checkpoints(max_results=1)[0].uuid)
        assert type(version.load(tmp_path / "here")).__name__ == "LinearTrial"
        net.delete()


class TestModels:
    def test_models_and_versions(self, standalone_checkpoint: Checkpoint) -> None:
        net = client.create_model("net", "for cats", {"a": 1}, ["x", "y"])
        client.create_model("12", labels=["x"])
        assert client.get_model("net").model_id == client.get_model(net.model_id).model_id == net.model_id
        assert client.get_model("12").name == "12"
        assert client.get_model(str(net.model_id)).name == "net"
        assert [model.name for model in client.list_models()] == ["12", "net"]
        assert [model.name for model in client.list_models(description="CATS")] == ["net"]
        assert client.get_model_labels() == ["x", "y"]
        assert net.get_version() is None
        first, second = (
            net.register_version(standalone_checkpoint.uuid),
            net.register_version(standalone_checkpoint.uuid),
        )
        first.set_name("first")
        first.set_notes("good")
        first.add_metadata({"k": 1})
        found = net.get_version(1)
        assert found is not None
        assert (found.name, found.notes, found.metadata, found.checkpoint.uuid) == (
            "first",
            "good",
            {"k": 1},
            standalone_checkpoint.uuid,
        )
        latest = net.get_version()
        assert latest is not None
        assert latest.model_version == second.model_version == 2
        assert [version.model_version for version in net.list_versions()] == [2, 1]
        net.set_description("for dogs")
        net.set_labels(["z"])
        net.add_metadata({"b": 2})
        net.remove_metadata(["a"])
        net.archive()
        again = client.get_model("net")
        assert (again.description, again.labels, again.metadata, again.archived) == ("for dogs", ["z"], {"b": 2}, True)
        assert (again.username, again.workspace_id) == (net.username, None)
        net.unarchive()
        net.delete()
        assert [model.name for model in client.list_models()] == ["12"]


class TestDeletingExperiments:
    def test_a_standalone_run_leaves_nothing_but_its_neighbours(
        self, standalone_checkpoint: Checkpoint, home: Path
    ) -> None:
        with core.init() as context:
            context.train.report_training_metrics(1, {"loss": 1.0})
        root = home / "determined"
        first, second = client.list_experiments()
        with opened() as store:
            ((run_dir,),) = [[found.path] for found in store.upkeep.run_directories(first.id)]
        assert len(list((root / "runs").iterdir())) == 2
        first.delete_tensorboard_files()
        assert len(list(root.glob("runs/*/tensorboard"))) == 1
        (root / "runs" / f".deleted-{Path(run_dir).name}-0").mkdir()  # of a deletion that was interrupted
        first.delete()
        assert first.state is ExperimentState.DELETED
        assert [found.id for found in client.list_experiments()] == [second.id]
        assert len(list((root / "runs").iterdir())) == 1
        assert not (root / "checkpoints" / standalone_checkpoint.uuid).exists()
        assert list(root.rglob(".deleted*")) == []

    def test_tensorboard_files_are_kept_while_a_process_writes_them(self, home: Path) -> None:
        with core.init() as context:
            context.train.report_training_metrics(1, {"loss": 1.0})
            with context.checkpoint.store_path({"steps_completed": 1}):
                pass  # everything before it is committed then
            (experiment,) = client.list_experiments()
            with pytest.raises(InvalidExperimentException, match=rf"is running \(process {os.getpid()} on"):
                experiment.delete_tensorboard_files()
            assert list(home.glob("determined/runs/*/tensorboard"))
        experiment.delete_tensorboard_files()
        assert not list(home.glob("determined/runs/*/tensorboard"))

    @pytest.mark.parametrize("odd", ["..", "../outside", "a/b", "/", ".", "", "quo'te\n"])
    def test_keys_and_directories_are_data(self, home: Path, odd: str) -> None:
        """A store whose rows were changed to name other places."""
        root = home / "determined"
        (root / "experiments" / "neighbour").mkdir(parents=True)
        (root / "runs" / "neighbour").mkdir(parents=True)
        (home / "outside").mkdir()
        (home / "outside" / "file").write_text("x")
        before = tree(home)
        with opened() as store:
            experiment_id = store.experiments.create(new_experiment(key=odd))
            lease = store.experiments.acquire(experiment_id, this_process())
            (trial_id,) = store.experiments.commit(lease, Change(new_trials=(new_trial(0),)))
            running = TrialChange(trial_id, state="RUNNING", allocation="a")
            store.experiments.commit(lease, Change(trials=(running,)))
            for number, run_dir in enumerate([str(root / "runs" / odd), odd, str(home / "outside"), str(root)]):
                run = NewRun("train.py", run_dir, {}, {}, 1.0)
                start = AttemptStart(f"k{number}", run, this_process(), 1.0, allocation=(trial_id, "a"))
                store.begin_attempt(start)
            over = TrialChange(trial_id, state="COMPLETED", ended=2.0)
            ended = ExperimentChange(state="COMPLETED", ended=2.0)
            store.experiments.commit(lease, Change(trials=(over,), experiment=ended))
            store.experiments.release(lease)
            done = delete_experiment(store, experiment_id)
            assert store.experiments.list() == []
        assert done.directories == ()
        after = tree(home)
        assert {name: data for name, data in after.items() if "store.sqlite" not in name} == before

    def test_a_checkpoint_whose_name_is_a_path_has_no_files(self, home: Path) -> None:
        (home / "outside").mkdir()
        with opened() as store:
            run = NewRun("train.py", str(home / "run"), {}, {}, 1.0)
            begun = store.begin_attempt(AttemptStart("k", run, this_process(), 1.0))
            row = CheckpointRow("../outside", begun.trial_id, 1, 1, {}, {}, str(home / "saved"), 1.0)
            store.write([row, EndRow(begun.trial_id, 1, "completed", 2.0, 1.0)])
            delete_experiment(store, begun.experiment_id)
        assert (home / "outside").is_dir()
