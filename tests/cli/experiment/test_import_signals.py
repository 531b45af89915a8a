"""Signals during an import or export: no part of it is visible afterwards, and no file is left."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.det_command import det_ok
from tests.cli.experiment.test_archives import data_files, use
from tests.cli.searched import Searched
from tests.helpers import warm
from tests.helpers.records import opened

# `det` gets the signal at a known moment: when it calls a function that writes files or commits the rows.
PROGRAM = """
import os, sys
from pathlib import Path
number, moment = int(sys.argv[1]), sys.argv[2]

def signalled(original, condition):
    sent = []
    def call(*arguments, **options):
        result = None if moment == "commit" else original(*arguments, **options)
        if not sent and condition(*arguments):
            sent.append(True)
            os.kill(os.getpid(), number)
        return original(*arguments, **options) if moment == "commit" else result
    return call

if moment == "unpack":
    from determined.experiment.moving.archive import ArchiveReader
    ArchiveReader.copy = signalled(ArchiveReader.copy, lambda self, member, target: "checkpoints" in member.name)
elif moment == "publish":
    from determined.checkpoint_storage.directory import DirectoryStorage
    DirectoryStorage.commit = signalled(DirectoryStorage.commit, lambda *arguments: True)
elif moment == "export":
    from determined.experiment.moving.archive import ArchiveWriter
    ArchiveWriter.add_file = signalled(ArchiveWriter.add_file, lambda self, name, path: "checkpoints" in name)
else:
    from determined.store.databases.sqlite import SqliteDatabase
    files = Path(os.environ["DET_DATA_DIR"])
    SqliteDatabase.execute = signalled(
        SqliteDatabase.execute,
        lambda self, statement, *rest: statement == "COMMIT" and any(files.glob("experiments/*/code")),
    )
from determined.cli.main import main
main(sys.argv[3:], prog_name="det")
"""


def run_signalled(directory: Path, number: int, moment: str, *arguments: str) -> tuple[int, str]:
    (directory / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(directory / "program.py"), str(int(number)), moment, *arguments]
    done = warm.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def archive(search_that_ran: Searched, tmp_path_factory: pytest.TempPathFactory) -> Path:
    search_that_ran.restore()
    target = tmp_path_factory.mktemp("archive") / "all.tar"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(search_that_ran.home))
        det_ok("e", "export", "1", "--checkpoints", "all", "--code", "-o", str(target))
    return target


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("moment", ["unpack", "publish", "commit"])
def test_an_import_is_undone(
    moment: str, number: signal.Signals, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = use(monkeypatch, tmp_path / "machine")
    code, said = run_signalled(tmp_path, number, moment, "experiment", "import", str(archive))
    assert code == 128 + number, said
    assert "Traceback" not in said
    assert data_files(machine) == []
    assert os.listdir(machine / "checkpoints") == []
    assert not (machine / "imports").exists()
    with opened() as store:
        assert store.experiments.list() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_export_leaves_no_file(
    number: signal.Signals, searched: Searched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.setenv("DET_DATA_DIR", str(searched.home / "determined"))
    target = str(tmp_path / "out" / "all.tar")
    code, said = run_signalled(
        tmp_path, number, "export", "experiment", "export", "1", "--checkpoints", "all", "-o", target
    )
    assert code == 128 + number, said
    assert os.listdir(tmp_path / "out") == []
