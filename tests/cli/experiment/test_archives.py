"""Experiments in one file: complete on another machine, or rejected in one line with nothing left behind."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from determined import core, paths
from determined.errors import StoreError
from determined.experiment.moving import archive
from determined.experiment.moving.archive_import import import_experiments
from determined.store.maintenance.check import check_store
from determined.store.moving.path_map import PathMap
from tests.cli.det_command import det, det_json, det_ok
from tests.cli.searched import Searched
from tests.helpers import warm
from tests.helpers.records import opened
from tests.pytorch.experimental.test_inference_outputs import process


def use(monkeypatch: pytest.MonkeyPatch, machine: Path) -> Path:
    """Switch to another machine: another data directory."""
    monkeypatch.setenv("DET_DATA_DIR", str(machine))
    return machine


def data_files(machine: Path) -> list[str]:
    """Return all files of a machine except those of its store."""
    found = (path.relative_to(machine).as_posix() for path in machine.rglob("*") if path.is_file())
    return sorted(name for name in found if not name.startswith("store.sqlite"))


@pytest.fixture
def exported(searched: Searched, tmp_path: Path) -> Path:
    """Export the complete search, and return the archive."""
    det_ok("e", "export", "1", "--checkpoints", "all", "--code", "-o", "all.tar")
    return tmp_path / "all.tar"


def test_a_search_arrives_complete_and_belongs_to_the_new_store(
    searched: Searched, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = det_json("e", "describe", "1")
    with tarfile.open(exported) as tar:
        names = tar.getnames()
    assert (names[0], names[1], names[-1]) == ("header.json", "rows.jsonl", "hashes.json")
    assert stat.S_IMODE(exported.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if "all.tar" in path.name] == ["all.tar"]
    refused = det("e", "export", "1", "-o", "all.tar")
    assert refused.exit_code == 1
    assert "all.tar already exists" in refused.stderr

    machine = use(monkeypatch, tmp_path / "machine-b")
    shutil.rmtree(searched.home / "determined")
    done = det_json("e", "import", "all.tar")
    assert (done["checkpoints"], done["masked"], done["without_code"]) == (8, [], [])
    with opened() as store:
        rows = store.experiments.checkpoints(1)
        experiment = store.experiments.get(1)
    assert {(row.storage, row.borrowed) for row in rows} == {(str(machine / "checkpoints"), False)}
    assert experiment.config["checkpoint_storage"]["container_path"] == str(machine / "checkpoints")
    assert experiment.config["checkpoint_storage"]["save_trial_best"] == 9
    assert not experiment.borrowed
    assert det_json("e", "describe", "1") == before
    for row in rows:
        assert stat.S_IMODE((machine / "checkpoints" / row.checkpoint_id / "weights").stat().st_mode) == 0o600
    path = Path(det_ok("e", "download", "1", "-q").strip())
    assert (path / "weights").read_text() == "8"
    assert det_json("c", "describe", path.name)["uuid"] == path.name
    assert check_store(lambda what: None)[1] == []
    det_ok("e", "fork", "1", "--paused", "--slots", "1")
    again = det("e", "import", "all.tar")
    assert again.exit_code == 1
    assert "experiment 'odd/../name' is already in this store, as experiment 1; nothing was imported" in again.stderr
    assert "Imported 0 of 1 experiment " in det_ok("store", "import", "all.tar", "--skip-existing")
    det_ok("e", "kill", "2")
    det_ok("e", "delete", "2", "--yes")
    det_ok("e", "delete", "1", "--yes")
    assert data_files(machine) == []


def test_the_best_and_registered_checkpoints_alone(
    searched: Searched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered = searched.checkpoint(2, 4).checkpoint_id
    det_ok("model", "create", "net")
    det_ok("model", "register-version", "net", registered)
    best = det_json("e", "list-checkpoints", "1", "--best", "1")[0]["uuid"]
    done = det_json("e", "export", "1", "-o", "best.tar")
    assert done["checkpoints"] == [best, registered]
    machine = use(monkeypatch, tmp_path / "machine-b")
    said = det("store", "import", "best.tar", "--storage", "elsewhere")
    assert said.exit_code == 0, said.output
    assert "No code in the archive: experiment 1 cannot be activated, continued or forked here." in said.stderr
    assert f"Copied 2 checkpoints to {Path('elsewhere').absolute()}\n" in said.stdout
    assert sorted(path.name for path in Path("elsewhere").iterdir()) == sorted([best, registered])
    assert not (machine / "experiments").exists()
    with opened() as store:
        others = [row for row in store.experiments.checkpoints(1) if row.checkpoint_id not in (best, registered)]
        assert all(row.borrowed and row.storage != str(Path("elsewhere").absolute()) for row in others)
    det_ok("e", "download", "1")
    shutil.rmtree(searched.home / "determined" / "checkpoints")
    absent = det("c", "download", others[0].checkpoint_id)
    assert absent.exit_code == 1
    assert "it was imported without its files. Export it with --checkpoints all, or import with --map" in absent.stderr


def test_a_standalone_run_with_its_code_and_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    use(monkeypatch, tmp_path / "machine-a")
    process(3, batch_size=1)
    run = next(paths.runs_dir().iterdir())
    (run / "code").mkdir(exist_ok=True)
    (run / "code" / "train.py").write_text("print(1)\n")
    refused = det("e", "export", "1")
    assert refused.stderr.startswith("Cannot export experiment 1: no searcher metric is recorded, so the best ")
    assert [path.name for path in tmp_path.iterdir()] == ["machine-a"], "nothing is left of an export that failed"
    det_ok("e", "export", "1", "--checkpoints", "all", "--code")
    shutil.rmtree(tmp_path / "machine-a")
    machine = use(monkeypatch, tmp_path / "machine-b")
    with core.init() as context:  # so that ids differ
        context.train.report_training_metrics(1, {"loss": 1.0})
    det_ok("e", "import", "experiment-1.tar")
    with opened() as store:
        trial = store.experiments.trials(2)[0].id
        output = store.outputs.find(trial)
        assert output is not None
        (attempt,) = store.attempts(trial)
    assert (output.borrowed, output.storage) == (False, str(machine / "checkpoints"))
    det_ok("c", "download", output.uuid, "-o", "out")
    assert sorted(json.loads(path.read_text()) for path in Path("out").rglob("batch_*.json")) == [[0], [1], [2]]
    assert Path(attempt.run_dir, "code", "train.py").read_text() == "print(1)\n"
    assert Path(attempt.run_dir).parent == machine / "runs"
    det_ok("e", "delete", "2", "--yes")
    assert not [name for name in data_files(machine) if "code" in name or "batch_" in name]


class TestRelocatedStorage:
    def test_rows_name_the_new_place(self, searched: Searched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        old = searched.home / "determined"
        shutil.copytree(old / "checkpoints", tmp_path / "mounted" / "checkpoints")
        det_ok("e", "export", "1", "--checkpoints", "none", "--code", "-o", "rows.tar")
        det_ok("store", "export", "rows.jsonl")
        for number, file in enumerate(("rows.tar", "rows.jsonl")):
            machine = use(monkeypatch, tmp_path / f"machine-{number}")
            wrong = det("store", "import", file, "--map", "/no/such=/x")
            assert wrong.exit_code == 1
            assert f"--map /no/such=/x: {file} names no path below /no/such; nothing was imported" in wrong.stderr
            assert data_files(machine) == []
            det_ok("store", "import", file, "--map", f"{old}={tmp_path / 'mounted'}")
            with opened() as store:
                place = str(tmp_path / "mounted" / "checkpoints")
                assert {(row.storage, row.borrowed) for row in store.experiments.checkpoints(1)} == {(place, True)}
                assert store.experiments.get(1).config["checkpoint_storage"]["container_path"] == place
            det_ok("e", "download", "1", "-o", str(machine / "got"))
        (config,) = (tmp_path / "machine-0").glob("experiments/*/config.json")
        assert json.loads(config.read_text())["checkpoint_storage"]["container_path"] == place

    @pytest.mark.parametrize("pair", ["a=/b", "/a=b", "/a", "/a/../b=/c", "/a=/b/../c", "=/b"])
    def test_pairs_that_are_refused(self, pair: str) -> None:
        with pytest.raises(StoreError, match="expected OLD=NEW, two absolute paths"):
            PathMap([pair])

    def test_only_complete_names_of_directories_are_mapped(self) -> None:
        mapping = PathMap(["/mnt/a=/x", "/mnt/a/b=/y/"])
        assert [mapping.path(path) for path in ("/mnt/a", "/mnt/a/c", "/mnt/ab", "/mnt/a/b/c")] == [
            "/x",
            "/x/c",
            "/mnt/ab",
            "/y/c",
        ]


def test_secrets_are_not_exported(searched: Searched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (config,) = (searched.home / "determined" / "experiments").glob("*/config.json")
    content = json.loads(config.read_text())
    content["environment"]["environment_variables"] = {"cpu": ["MY_TOKEN=hunter2"]}
    config.write_text(json.dumps(content))
    det_ok("e", "export", "1", "--code", "-o", "all.tar")
    assert b"hunter2" not in (tmp_path / "all.tar").read_bytes()
    use(monkeypatch, tmp_path / "machine-b")
    said = det("e", "import", "all.tar")
    assert "Set again before running: environment.environment_variables (MY_TOKEN)" in said.stderr


def test_a_damaged_checkpoint_is_not_exported(searched: Searched, tmp_path: Path) -> None:
    row = searched.checkpoint(1, 4)
    (searched.files(row) / "weights").write_text("12345")
    refused = det("e", "export", "1", "--checkpoints", "all", "-o", "all.tar")
    assert refused.exit_code == 1
    assert f"checkpoint {row.checkpoint_id}" in refused.stderr
    assert list(tmp_path.iterdir()) == [] or [path.name for path in tmp_path.iterdir()] == ["searched"]


def rebuilt(file: Path, target: Path, change: Callable[[archive.ArchiveWriter, tarfile.TarFile], None]) -> Path:
    """Write the archive again with correct hashes; `change` adds members before the end."""
    with tarfile.open(file) as tar, open(target, "wb") as opened_file:
        writer = archive.ArchiveWriter(opened_file, {})
        for member in tar:
            if member.name in (archive.HEADER, archive.HASHES):
                continue
            if member.isdir():
                writer.add_directory(member.name)
            else:
                content = tar.extractfile(member)
                assert content is not None
                writer._add(member.name, content, member.size)
        change(writer, tar)
        writer.finish()
    return target


def added(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = ""
) -> Callable[[archive.ArchiveWriter, tarfile.TarFile], None]:
    def change(writer: archive.ArchiveWriter, tar: tarfile.TarFile) -> None:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, link
        member.size = 1 if kind == tarfile.REGTYPE else 0
        writer._tar.addfile(member, io.BytesIO(b"x"))

    return change


OTHER = "00000000-0000-4000-8000-000000000000"
HOSTILE = {
    "parent": added("../outside"),
    "absolute": added("/tmp/outside"),
    "parent inside": added(f"checkpoints/{OTHER}/../../../outside"),
    "symbolic link": added(f"checkpoints/{OTHER}/weights", tarfile.SYMTYPE, "/etc/passwd"),
    "hard link": added(f"checkpoints/{OTHER}/weights", tarfile.LNKTYPE, "rows.jsonl"),
    "device": added(f"checkpoints/{OTHER}/weights", tarfile.CHRTYPE),
    "pipe": added(f"checkpoints/{OTHER}/weights", tarfile.FIFOTYPE),
    "no row": added(f"checkpoints/{OTHER}/weights"),
    "no id": added("checkpoints/runs/weights"),
    "other kind": added("queue/x"),
    "output": added(f"outputs/{OTHER}/x"),
    "key": added("experiments/..x/code/a"),
    "not code": added("experiments/a/trials/1"),
    "back slash": added(f"checkpoints/{OTHER}/a\\b"),
    "header again": added("header.json"),
    "rows again": added("rows.jsonl"),
}


@pytest.fixture(scope="module")
def archive_of_search(search_that_ran: Searched, tmp_path_factory: pytest.TempPathFactory) -> Path:
    search_that_ran.restore()
    target = tmp_path_factory.mktemp("archive") / "all.tar"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(search_that_ran.home))
        det_ok("e", "export", "1", "--checkpoints", "all", "--code", "-o", str(target))
    return target


def refused(file: Path, machine: Path) -> str:
    """Import on a machine without data, and return the one line of the error; nothing may be left."""
    with pytest.MonkeyPatch.context() as patch:
        use(patch, machine)
        with pytest.raises(StoreError) as told:
            import_experiments(file, lambda done: None, mapping=PathMap())
        assert data_files(machine) == []
        left = [path.name for path in machine.rglob("*") if path.is_dir() and path.name not in ("checkpoints",)]
        assert left == []
        with opened() as store:
            assert store.experiments.list() == []
    message = str(told.value)
    assert "\n" not in message
    assert str(file) in message
    return message


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_members(name: str, archive_of_search: Path, tmp_path: Path) -> None:
    file = rebuilt(archive_of_search, tmp_path / "hostile.tar", HOSTILE[name])
    assert "is damaged, and nothing was imported: " in refused(file, tmp_path / "machine")
    assert not (tmp_path / "outside").exists()


def test_too_many_members(archive_of_search: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MOST_MEMBERS", 10)
    assert "it has more than 10 files" in refused(archive_of_search, tmp_path / "machine")


def test_a_newer_version(archive_of_search: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(archive, "VERSION", 2)
        file = rebuilt(archive_of_search, tmp_path / "newer.tar", lambda writer, tar: None)
    assert "was written by a newer version" in refused(file, tmp_path / "machine")


@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.3, 0.9, 0.99])
def test_cut_off(fraction: float, archive_of_search: Path, tmp_path: Path) -> None:
    content = archive_of_search.read_bytes()
    with tarfile.open(archive_of_search) as tar:
        end = tar.getmember("hashes.json").offset_data
    file = tmp_path / "cut.tar"
    file.write_bytes(content[: int(end * fraction)])
    refused(file, tmp_path / "machine")


def said_by(file: Path) -> str | None:
    try:
        import_experiments(file, lambda done: None, mapping=PathMap())
    except StoreError as error:
        return str(error)
    return None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_byte_is_noticed(data: st.DataObject, archive_of_search: Path, tmp_path: Path) -> None:
    """Only the padding between members may change: it is not read."""
    content = bytearray(archive_of_search.read_bytes())
    with tarfile.open(archive_of_search) as tar:
        chosen = data.draw(st.sampled_from(tar.getmembers()))
    start, end = chosen.offset, chosen.offset_data + chosen.size
    position = data.draw(st.integers(start, end - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    file, machine = tmp_path / "changed.tar", tmp_path / "machine"
    file.write_bytes(content)
    shutil.rmtree(machine, ignore_errors=True)
    with pytest.MonkeyPatch.context() as patch:
        use(patch, machine)
        message = said_by(file)
        if message is not None:
            assert "\n" not in message
            assert data_files(machine) == []
        else:  # a part of a header that does not describe the content, such as its owner
            assert chosen.offset <= position < chosen.offset_data
            with opened() as store:
                for row in store.experiments.checkpoints(1):
                    assert (machine / "checkpoints" / row.checkpoint_id / "weights").read_text() == str(
                        row.steps_completed
                    )


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
@pytest.mark.parametrize("where", ["publish", "commit"])
def test_an_import_that_is_interrupted_leaves_nothing(
    where: str,
    error: BaseException,
    archive_of_search: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from determined.experiment.moving import imported_files_placement
    from determined.store.databases.sqlite import SqliteDatabase

    machine = use(monkeypatch, tmp_path / "machine")
    with monkeypatch.context() as patch:
        if where == "publish":
            patch.setattr(imported_files_placement, "_move", _raising(error))
        else:
            execute = SqliteDatabase.execute

            def failing(self: SqliteDatabase, statement: str, values: object = ()) -> object:
                if statement == "COMMIT" and (machine / "experiments").exists():
                    raise error
                return execute(self, statement, values)  # type: ignore[arg-type]

            patch.setattr(SqliteDatabase, "execute", failing)
        with pytest.raises(type(error)):
            import_experiments(archive_of_search, lambda done: None, mapping=PathMap())
    assert data_files(machine) == []
    assert os.listdir(machine / "checkpoints") == []
    import_experiments(archive_of_search, lambda done: None, mapping=PathMap())
    with opened() as store:
        assert all(not row.borrowed for row in store.experiments.checkpoints(1))


KILLED = """
import os, sys
from pathlib import Path
from determined.experiment.moving.archive_import import import_experiments
from determined.store.moving.path_map import PathMap
from determined.store.databases.sqlite import SqliteDatabase
execute = SqliteDatabase.execute
def killing(self, statement, values=()):
    if statement == "COMMIT" and list(Path(os.environ["DET_DATA_DIR"]).glob("experiments/*/code")):
        os.kill(os.getpid(), 9)
    return execute(self, statement, values)
SqliteDatabase.execute = killing
import_experiments(Path(sys.argv[1]), lambda done: None, mapping=PathMap())
"""


def test_the_next_import_removes_what_a_killed_one_left(
    archive_of_search: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL when all files are in place and the rows are about to be committed."""
    machine = use(monkeypatch, tmp_path / "machine")
    (tmp_path / "program.py").write_text(KILLED)
    killed = warm.run([sys.executable, tmp_path / "program.py", archive_of_search], capture_output=True, text=True)
    assert killed.returncode == -9, killed.stderr
    assert len(list((machine / "checkpoints").glob("*-*"))) >= 8
    cut = tmp_path / "cut.tar"
    cut.write_bytes(archive_of_search.read_bytes()[:2000])
    assert said_by(cut) is not None
    assert data_files(machine) == []
    import_experiments(archive_of_search, lambda done: None, mapping=PathMap())
    with opened() as store:
        assert [row.borrowed for row in store.experiments.checkpoints(1)] == [False] * 8
    assert not (machine / "imports").exists()


def _raising(error: BaseException) -> Callable[..., None]:
    def fail(*arguments: object) -> None:
        raise error

    return fail


def test_existing_files_are_never_taken_over(
    searched: Searched, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another store with the same data directory: its checkpoints and code remain its own."""
    monkeypatch.setenv("DET_STORE", "other.sqlite")
    before = data_files(searched.home / "determined")
    det_ok("e", "import", "all.tar")
    with opened() as store:
        assert all(row.borrowed for row in store.experiments.checkpoints(1))
    det_ok("e", "delete", "1", "--yes")
    assert [name for name in before if ".lock" not in name] == [
        name for name in data_files(searched.home / "determined") if ".lock" not in name
    ]
    row = searched.checkpoint(1, 4)
    (searched.files(row) / "weights").write_text("5")
    refused = det("e", "import", "all.tar")
    assert "already exists with another content; nothing was imported" in refused.stderr
