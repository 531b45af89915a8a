"""Preparation of another machine before it runs trials: code, startup hook, checkpoint storage, variables."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from determined.checkpoint_storage import build_from_config
from determined.engines.base import Job
from determined.engines.command import Program
from determined.engines.ray.versions import versions
from determined.errors import EngineError, StartupHookError
from determined.experiment.code.hook_script import HookStopped
from determined.experiment.code.packing import pack_code, unpack_code
from determined.experiment.runner.cluster.engine import _delete_mark
from determined.experiment.runner.cluster.node_setup import ExperimentNodeSetup
from determined.store.open import open_store
from tests.helpers.postgres import PASSWORD, PostgresServer, running_server
from tests.helpers.ranks import free_port
from tests.helpers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.helpers.waiting import wait_for_end
from tests.store.experiments import new_experiment


@dataclass
class Runner:
    """The data that a runner sends to a node."""

    directory: Path
    code: Path = field(init=False)
    storage: dict[str, Any] = field(init=False)
    variables: dict[str, str] = field(default_factory=dict)
    store: list[Any] | None = None

    def __post_init__(self) -> None:
        self.code = self.directory / "code"
        self.code.mkdir()
        self.storage = {"type": "shared_fs", "host_path": str(self.directory / "storage")}

    def setup(self, environment: dict[str, str] | None = None) -> ExperimentNodeSetup:
        archive = self.directory / "code.tar"
        config = {"environment": {"environment_variables": []}, "checkpoint_storage": self.storage}
        data = {
            "config": config,
            "versions": versions(),
            "variables": self.variables,
            "storage_mark": "mark",
            "store": self.store,
            "code_hash": pack_code(self.code, archive),
        }
        given = dict(os.environ) if environment is None else environment
        return ExperimentNodeSetup(data, self.directory / "node", archive.read_bytes(), given)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    runner = Runner(tmp_path)
    build_from_config(runner.storage).write_mark("mark")
    return runner


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    (tmp_path / "s3").mkdir()
    with S3Server(tmp_path / "s3") as server:
        yield server


def job(**environment: str) -> Job:
    return Job("1.1.1", Program(("true",)), environment, Path("1"), 1)


def test_the_hook_gets_the_environment_of_the_node_and_the_variables_of_the_runner(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    (runner.code / "startup-hook.sh").write_text(
        'echo "ray=${RAY_AUTH_TOKEN-none} threads=${OMP_NUM_THREADS-none} given=$GIVEN"\n'
        "export GIVEN=changed NEW=1 DET_TRIAL_ID=7\n"
    )
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cleaned = dict(os.environ)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    runner.variables = {"GIVEN": "first", "KEPT": "kept"}
    setup = runner.setup(cleaned)
    interpreter = setup.prepare(lambda: False)
    assert interpreter is not None
    assert "RAY_AUTH_TOKEN" not in interpreter.variables
    assert [text for _, text in setup.output()] == ["ray=none threads=none given=first"]
    assert setup.output() == []
    placed = setup.place(job(GIVEN="first", KEPT="kept", DET_TRIAL_ID="1", DET_STORE="x")).environment
    found = {name: placed[name] for name in ("GIVEN", "KEPT", "NEW", "DET_TRIAL_ID", "DET_STORE")}
    assert found == {"GIVEN": "changed", "KEPT": "kept", "NEW": "1", "DET_TRIAL_ID": "1", "DET_STORE": "x"}


def test_a_failing_hook_is_refused_with_its_last_lines(runner: Runner) -> None:
    (runner.code / "startup-hook.sh").write_text("echo the first line\necho the reason\nexit 3\n")
    with pytest.raises(StartupHookError, match=r"(?s)exit code 3: the reason.*the first line.*the reason"):
        runner.setup().prepare(lambda: False)


def test_another_directory_is_refused(runner: Runner) -> None:
    runner.storage["host_path"] = str(runner.directory / "other")
    with pytest.raises(EngineError, match="is not the checkpoint storage of the runner"):
        runner.setup().prepare(lambda: False)


def test_credentials_of_the_runner_reach_the_storage(runner: Runner, server: S3Server) -> None:
    build_from_config(server.config()).write_mark("mark")
    runner.storage = {
        "type": "s3",
        "bucket": server.config()["bucket"],
        "endpoint_url": server.config()["endpoint_url"],
    }
    with pytest.raises(EngineError, match="cannot read the checkpoint storage"):
        runner.setup().prepare(lambda: False)
    runner.variables = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    assert runner.setup().prepare(lambda: False) is None
    assert "AWS_ACCESS_KEY_ID" not in os.environ


def test_hard_links_travel_as_files_and_directories_do_not_count_as_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code"
    (code / "a" / "b" / "empty").mkdir(parents=True)
    (code / "model.py").write_text("x")
    os.link(code / "model.py", code / "a" / "same.py")
    monkeypatch.setattr("determined.experiment.code.packing.MOST_FILES", 2)
    archive = tmp_path / "code.tar"
    assert pack_code(code, archive) == pack_code(code, tmp_path / "again.tar")
    unpack_code(archive.read_bytes(), tmp_path / "unpacked")
    found = {path.relative_to(tmp_path / "unpacked").as_posix() for path in (tmp_path / "unpacked").rglob("*")}
    assert found == {"a", "a/b", "a/b/empty", "a/same.py", "model.py"}
    (code / "third.py").write_text("y")
    with pytest.raises(EngineError, match="limits"):
        pack_code(code, archive)


def test_a_mark_that_cannot_be_deleted_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / ".mark-one").mkdir()
    _delete_mark(build_from_config({"type": "shared_fs", "host_path": str(tmp_path)}), "one")
    assert "the mark one could not be deleted" in caplog.text


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with running_server() as made:
        yield made


def test_a_node_must_reach_the_store(runner: Runner, database: PostgresServer, tmp_path: Path) -> None:
    url = database.new_database()
    with closing(open_store(url)) as store:
        created = store.experiments.get(store.experiments.create(new_experiment()))
    runner.store = [url, created.id, created.key]
    assert runner.setup().prepare(lambda: False) is None
    # As behind a forwarded port: a server answers, but it is not that of the runner.
    runner.store = [database.new_database(), created.id, created.key]
    with pytest.raises(
        EngineError, match="is another store here: DET_STORE must name a server that all nodes"
    ) as other:
        runner.setup().prepare(lambda: False)
    assert PASSWORD not in str(other.value)
    runner.store = [url, created.id, "another"]
    with pytest.raises(EngineError, match="is another store here"):
        runner.setup().prepare(lambda: False)
    runner.store = [f"postgresql://det:secret@127.0.0.1:{free_port()}/x", created.id, created.key]
    with pytest.raises(EngineError, match=r"cannot use the store: .*DET_STORE must name a server") as unreachable:
        runner.setup().prepare(lambda: False)
    assert "secret" not in str(unreachable.value)
    without = tmp_path / "without" / "psycopg.py"
    without.parent.mkdir()
    without.write_text("raise ModuleNotFoundError(\"No module named 'psycopg'\", name='psycopg')\n")
    runner.variables = {"PYTHONPATH": str(without.parent)}
    with pytest.raises(EngineError, match=r"cannot use the store: .*psycopg"):
        runner.setup().prepare(lambda: False)


def test_a_hook_ends_with_the_actor(runner: Runner, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    (runner.code / "startup-hook.sh").write_text(f"echo $$ > {pid}\nsleep 1000\n")
    with pytest.raises(HookStopped):
        runner.setup().prepare(lambda: bool(pid.exists() and pid.read_text().strip()))
    wait_for_end(int(pid.read_text()))


def test_the_check_of_the_storage_ends_with_the_actor(runner: Runner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        runner.storage = {"type": "s3", "bucket": "bucket", "endpoint_url": f"http://127.0.0.1:{port}"}
        runner.variables = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        with pytest.raises(EngineError, match="no longer needed"):
            runner.setup().prepare(lambda: bool(select.select([silent], [], [], 0)[0]))
    assert [one for one in psutil.Process().children(recursive=True) if "access_check" in " ".join(one.cmdline())] == []
