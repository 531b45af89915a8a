"""Messages of exports and imports: what is missing here, and one clear line for data that cannot be read or written."""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.det_command import det, det_json, det_ok
from tests.cli.experiment.test_archives import use
from tests.cli.searched import Searched


@pytest.mark.parametrize(("file", "export"), [("rows.tar", "experiment"), ("rows.jsonl", "store")])
def test_missing_checkpoints_are_counted_with_their_place_and_a_remedy(
    file: str, export: str, searched: Searched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = searched.home / "determined" / "checkpoints"
    if export == "store":
        det_ok("store", "export", file)
    else:
        det_ok("e", "export", "1", "--checkpoints", "none", "--code", "-o", file)
    use(monkeypatch, tmp_path / "machine-b")
    assert det("store", "import", file).stderr == "", "all files can be read where the rows say"
    shutil.move(old, tmp_path / "mounted")
    machine = use(monkeypatch, tmp_path / "machine-c")
    said = det("store", "import", file)
    assert said.exit_code == 0
    assert said.stderr == (
        f"Not on this machine: 8 checkpoints, expected in {old}\n"
        "To use them, delete the imported rows (det experiment delete 1 --yes) and import again: with --map "
        f"{old}=NEW if that directory is mounted as NEW here, or from an archive with the files (det experiment "
        "export 1 --checkpoints all).\n"
    )
    det_ok("experiment", "delete", "1", "--yes")
    again = det("store", "import", file, "--map", f"{old}={tmp_path / 'mounted'}")
    assert (again.exit_code, again.stderr) == (0, "")
    det_ok("e", "download", "1", "-o", str(machine / "got"))
    use(monkeypatch, tmp_path / "machine-d")
    assert det_json("store", "import", file)["missing"] == [{"storage": str(old), "checkpoints": 8, "outputs": 0}]


def test_an_archive_with_some_checkpoints_names_the_others(
    searched: Searched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    det_ok("e", "export", "1", "--code", "-o", "best.tar")
    old = searched.home / "determined" / "checkpoints"
    shutil.rmtree(old)
    use(monkeypatch, tmp_path / "machine-b")
    assert f"Not on this machine: 7 checkpoints, expected in {old}\n" in det("e", "import", "best.tar").stderr


def _tar_of_others(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("notes.txt")
        member.size = 2
        tar.addfile(member, io.BytesIO(b"hi"))


OTHERS: dict[str, Callable[[Path], object]] = {
    "text.tar": lambda path: path.write_text("these are my notes\n"),
    "empty.tar": lambda path: path.write_bytes(b""),
    "json.jsonl": lambda path: path.write_text('{"some": "json"}\n'),
    "list.json": lambda path: path.write_text("[1, 2]\n"),
    "binary.tar": lambda path: path.write_bytes(bytes(range(256)) * 4),
    "other.tar": _tar_of_others,
    "zipped.tar.gz": lambda path: path.write_bytes(gzip.compress(b"x" * 1000)),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("group", ["experiment", "store"])
def test_other_files_are_named_once(name: str, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    OTHERS[name](tmp_path / name)
    done = det(group, "import", name)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        f"Cannot import the experiments: {name} is neither an archive (det experiment export) nor an export of rows "
        "(det store export)\n"
    )


NO_CODE = "its code is not on this machine: export it without --code"
NAMED_ONCE = {
    "e export 1 -o taken": "experiment 1: taken already exists: name another file with -o, or remove it",
    "e export 1 -o no/x.tar": "experiment 1: no is not a directory: name another file with -o",
    "e export 1 --code": f"experiment 1: {NO_CODE}",
    "e export 1-2 --code": f"experiments 1-2: experiment 1: {NO_CODE}",
    "store export taken": "the store: taken already exists: name another place, or remove it",
    "store export no/x": "the store: no is not a directory: name another place",
    "store import no": "the experiments: no does not exist",
    "e fork 2": "experiment 2: it has no copy of its code and configuration: its files are not on this machine",
    "e activate 2": "experiment 2: its code and configuration are not on this machine.",
}


def test_files_and_experiments_are_named_once(searched: Searched, tmp_path: Path) -> None:
    det_ok("e", "fork", "1", "--paused", "--slots", "1")
    shutil.rmtree(searched.home / "determined" / "experiments")
    (tmp_path / "taken").touch()
    for command, message in NAMED_ONCE.items():
        words = command.split()
        assert det(*words).stderr == f"Cannot {words[1]} {message}\n"
    assert os.listdir(tmp_path) == ["taken"]


def test_a_damaged_or_deleted_checkpoint_is_named_once(searched: Searched, tmp_path: Path) -> None:
    row = searched.checkpoint(1, 4)
    (searched.files(row) / "weights").write_text("12345")
    said = det("e", "export", "1", "--checkpoints", "all", "-o", "all.tar").stderr
    assert said.startswith(f"Cannot export experiment 1: checkpoint {row.checkpoint_id} in ")
    assert det("c", "delete", row.checkpoint_id, "--yes").exit_code == 0
    for command in ("export", "download"):
        said = det("c", command, row.checkpoint_id).stderr
        assert re.fullmatch(rf"Cannot {command} checkpoint {row.checkpoint_id}: it is DELETED\n", said)
