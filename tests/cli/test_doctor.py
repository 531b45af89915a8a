"""`det doctor` on machines with and without problems."""

from __future__ import annotations

import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from determined.cli.doctor.cluster import check_cluster, judge_cluster
from determined.cli.doctor.data import file_system
from determined.cli.doctor.packages import check_packages
from determined.config.secrets.masking import MASK
from tests.cli.det_command import DET, det, run_det
from tests.helpers.records import opened

THINGS = [
    *(
        "Python",
        "det on PATH",
        "torch",
        "devices",
        "torch internals",
        "C compiler",
        "slots",
        "shared memory",
        "open files",
        "loopback",
    ),
    *("host name", "clock", "data directory", "store", "checkpoint storage", "packages"),
]
HAS_RAY = importlib.util.find_spec("ray") is not None


@pytest.fixture
def no_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a torch that cannot be imported, as after an interrupted upgrade: it costs no time either."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "torch.py").write_text("raise ImportError('libtorch_cpu.so: \\x1b[31mundefined symbol')\n")
    monkeypatch.setenv("PYTHONPATH", str(broken))


def checks(*options: str, code: int = 1) -> dict[str, dict[str, Any]]:
    result = det("doctor", "--json", *options)
    assert result.exit_code == code, result.output
    return {check["name"]: check for check in json.loads(result.stdout)["checks"]}


def test_a_healthy_machine() -> None:
    """In a separate process, in the environment of the tests."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = run_det("doctor", "--json", env={**os.environ, "PATH": path})
    assert done.returncode == 0, done.stdout
    found = json.loads(done.stdout)
    assert found["ok"] is True
    assert set(found["checks"][0]) == {"name", "state", "found", "advice", "needed"}
    assert [check["name"] for check in found["checks"] if not check["name"].startswith("extra ")] == [
        *THINGS,
        *(["Ray"] if HAS_RAY else []),  # how to check a cluster
    ]
    by_name = {check["name"]: check for check in found["checks"]}
    assert by_name["torch"]["state"] == "ok"
    assert "checkpoints from others are safe to load" in by_name["torch"]["found"]
    assert by_name["store"]["state"] == by_name["torch internals"]["state"] == "ok"
    assert all(check["advice"] for check in found["checks"] if check["state"] != "ok")


def test_a_torch_that_cannot_be_imported(no_torch: None) -> None:
    result = det("doctor")
    assert result.exit_code == 1
    (line,) = [line for line in result.stdout.splitlines() if "torch" in line.split()[:2]]
    assert line.startswith(
        "problem  torch               torch cannot be imported (exit code 1): ImportError: libtorch_cpu"
    )
    assert line.endswith("undefined symbol; pip install --force-reinstall torch")
    assert "\x1b" not in result.stdout
    assert "Traceback" not in result.output
    assert checks()["torch"]["needed"] is True


def test_a_torch_with_other_internals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A future release may have other internals."""
    (tmp_path / "sitecustomize.py").write_text("import torch\ndel torch.cuda._is_in_bad_fork\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = checks()["torch internals"]
    assert (found["state"], found["needed"]) == ("problem", True)
    assert found["found"].startswith("torch.cuda._is_in_bad_fork (trials are copies of a process")


def test_stores_in_bad_health(no_torch: None, data_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks()["store"]["state"] == "ok"
    place = data_home / "determined" / "store.sqlite"
    monkeypatch.setenv("DET_STORE_PATIENCE", "0.1")
    with closing(sqlite3.connect(place, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        found = checks()["store"]
        assert "other processes have been writing" in found["found"]
    with closing(sqlite3.connect(place, isolation_level=None)) as other:
        other.execute("UPDATE determined_schema SET version = 99")
    newer = checks()["store"]
    assert "a newer version" in newer["found"]
    assert newer["needed"] is True
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(b"no database" * 1000)
    monkeypatch.setenv("DET_STORE", str(damaged))
    found = checks()["store"]
    assert "not a database" in found["found"]
    assert "det store check" in found["advice"]
    monkeypatch.setenv("DET_STORE", "postgresql://me:s3cr3t@127.0.0.1:1/team")
    result = det("doctor")
    assert (
        f"problem  store               the store postgresql://me:{MASK}@127.0.0.1:1/team cannot be reached"
        in result.stdout
    )
    assert "s3cr3t" not in result.output
    monkeypatch.delenv("DET_STORE")
    monkeypatch.setenv("DET_STORE_PATIENCE", "soon")
    assert "DET_STORE_PATIENCE is 'soon'" in checks()["store"]["found"]


def test_directories_that_are_open_to_others(no_torch: None, data_home: Path) -> None:
    with opened():
        pass
    directory = data_home / "determined"
    directory.chmod(0o755)
    found = checks()
    assert found["data directory"]["advice"] == f"chmod go-rwx {directory}"
    assert found["data directory"]["needed"] is False
    assert found["checkpoint storage"]["state"] == "ok"
    directory.chmod(0o777)
    found = checks()
    assert found["checkpoint storage"]["needed"] is True
    assert "can be written by all users" in found["checkpoint storage"]["found"]


def test_a_data_directory_that_cannot_be(no_torch: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    found = checks()
    assert found["data directory"]["needed"] is True
    assert "DET_DATA_DIR" in found["data directory"]["advice"]
    assert "store" not in found


def test_few_files_another_det_wrong_slots(no_torch: None, tmp_path: Path) -> None:
    """In a separate shell, with such limits and variables."""
    (tmp_path / "det").write_text("#!/bin/sh\n")
    (tmp_path / "det").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "DET_SLOTS": "many", "TZ": "Asia/Tokyo"}
    command = ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh", *DET, "doctor", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    found = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert found["open files"]["found"] == "256 at once"
    assert found["open files"]["advice"].startswith("ulimit -n ")
    assert "leads to another one" in found["det on PATH"]["found"]
    assert "DET_SLOTS is 'many'" in found["slots"]["found"]
    assert "+0900, zone JST" in found["clock"]["found"]


def test_extras_are_those_that_the_package_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new extra is read from the metadata of the package."""
    metadata = tmp_path / "determined_pytorch-9.9.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.4\nName: determined-pytorch\nVersion: 9.9\n"
        "Provides-Extra: cloud\nProvides-Extra: dev\nProvides-Extra: new\nProvides-Extra: postgres\n"
        "Requires-Dist: click>=8.1\nRequires-Dist: numpy>=1.26\n"
        "Requires-Dist: nothing-like-it; python_version < '4' and extra == \"new\"\n"
        "Requires-Dist: click>=8; extra == 'new'\n"
        "Requires-Dist: obstore>=99.1; extra == 'cloud'\n"
        "Requires-Dist: psycopg[binary]>=3.1; extra == 'postgres'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    core, cloud, new, postgres = check_packages()
    assert (core.state, core.found) == ("ok", "all 2 required packages")
    assert cloud.state == "missing"
    assert "older than 99.1" in cloud.found
    assert (new.name, new.found) == ("extra new", "nothing-like-it is not installed")
    assert new.advice == 'pip install "determined-pytorch[new]"'
    assert postgres.state == "ok"
    text = (metadata / "METADATA").read_text()
    (metadata / "METADATA").write_text(text.replace("numpy>=1.26", "not-there>=1.0"))
    core = next(check_packages())
    assert core.is_broken
    assert core.found == "not-there is not installed"


def test_the_kind_of_a_file_system() -> None:
    assert file_system(Path("/proc")) == "proc"
    assert file_system(Path("/")) != ""


@pytest.fixture
def lab() -> Iterator[Path]:
    """Return a directory that all users can enter: those of pytest are for the owner alone, which protects their
    content.
    """
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.mark.parametrize("weak", ["store.sqlite", "."])
def test_a_store_that_other_users_can_write(
    weak: str, no_torch: None, lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_STORE", str(lab / "store.sqlite"))
    with opened():
        pass
    assert checks()["store"]["state"] == "ok"
    (lab / weak).chmod(0o777)
    store = checks()["store"]
    assert store["state"] == "problem"
    assert f"other users can write {lab / weak}" in store["found"]
    assert store["advice"] == f"chmod go-w {lab / weak}"
    lab.chmod(0o700)  # now no other user reaches the file
    assert checks()["store"]["state"] == "ok"


def test_det_that_is_called_by_its_full_path_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from determined.cli.doctor.python import check_python

    own = Path(sys.executable).parent / "det"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["det", "doctor"])
    assert [result.state for result in check_python()] == ["ok", "problem"]
    monkeypatch.setattr(sys, "argv", [str(own), "doctor"])
    assert [result.state for result in check_python()] == ["ok", "ok"]


def test_missing_extras_are_one_line() -> None:
    from determined.cli.doctor.command import _extras_in_one_line
    from determined.cli.doctor.result import missing, ok

    first, second = missing("extra cloud", "x", "y"), missing("extra wandb", "x", "y")
    shown = _extras_in_one_line([ok("packages", "all"), first, ok("extra ray", "2"), second])
    assert [(result.name, result.state) for result in shown] == [
        ("packages", "ok"),
        ("extras", "missing"),
        ("extra ray", "ok"),
    ]
    assert shown[1].found == "cloud, wandb"
    assert _extras_in_one_line([first]) == [first]


HERE = {"Python": "3.11", "torch": "2.13.0", "determined-pytorch": "1.0"}


def test_a_cluster_is_judged_by_its_nodes_and_its_authentication() -> None:
    nodes = [
        {"name": "same", "versions": HERE},
        {"name": "other", "versions": {**HERE, "torch": "2.12.0", "determined-pytorch": "(not installed)"}},
        {"name": "failing", "versions": {"problem": "ModuleNotFoundError: No module named 'determined'"}},
        {"name": "silent", "versions": None},
    ]
    found = {"ray": "2.60.0", "auth": "token", "nodes": nodes}
    results = list(judge_cluster(found, HERE, {"RAY_AUTH_MODE": "token"}))
    assert [(result.name, result.state, result.found) for result in results] == [
        ("Ray", "ok", "2.60.0, 4 nodes"),
        ("Ray authentication", "ok", "token"),
        ("node same", "ok", "Python 3.11, torch 2.13.0, determined-pytorch 1.0"),
        ("node other", "problem", "torch 2.12.0, here 2.13.0; determined-pytorch (not installed), here 1.0"),
        ("node failing", "problem", "ModuleNotFoundError: No module named 'determined'"),
        ("node silent", "problem", "it did not answer"),
    ]
    assert all(result.advice for result in results if result.state == "problem")
    unset = list(judge_cluster({**found, "nodes": []}, HERE, {}))
    assert [(result.name, result.state) for result in unset] == [("Ray", "ok"), ("Ray authentication", "problem")]
    assert "RAY_AUTH_MODE is not set" in unset[1].found


def test_the_engine_to_check(no_torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option is used, else the variable."""
    monkeypatch.delenv("DET_ENGINE", raising=False)
    assert "Ray" not in checks("--engine", "local")
    unknown = checks("--engine", "slurm")["engine"]
    assert unknown["needed"] is True
    assert unknown["found"].startswith("--engine: unknown engine 'slurm'")
    # No process listens there; without the package ray, that is the problem.
    unreachable = checks("--engine", "ray:127.0.0.1:1")["Ray"]
    assert unreachable["needed"] is True
    assert ("cannot connect to the Ray cluster 127.0.0.1:1" if HAS_RAY else "[ray]") in unreachable["found"]
    monkeypatch.setenv("DET_ENGINE", "ray:127.0.0.1:1")
    assert checks()["Ray"] == unreachable
    assert "Ray" not in checks("--engine", "local")


def test_where_ray_is_installed_the_option_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    (result,) = check_cluster(None, {})
    assert (result.state, result.advice) == ("missing", "det doctor --engine ray")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert list(check_cluster(None, {})) == []
