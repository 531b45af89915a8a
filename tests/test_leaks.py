"""A test that leaves something behind fails, and one that uses a shared server or cleans up does not."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.helpers import leaks, warm

REPOSITORY = Path(__file__).resolve().parents[1]

TESTS = """
import os, subprocess, sys, tempfile, threading, time
from pathlib import Path

import pytest
import torch.distributed

from tests.helpers import leaks

leaks.GRACE_SECONDS = 0.2
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
ended = threading.Event()


@pytest.fixture(scope="module")
def server():
    with subprocess.Popen(SLEEP) as process:
        threading.Thread(target=ended.wait, name="of the server").start()
        (Path.home() / "server.sock").touch()
        yield process
        ended.set()
        process.kill()


def test_clean(tmp_path, monkeypatch):
    monkeypatch.setenv("A", "1")
    monkeypatch.chdir(tmp_path)
    subprocess.run(["true"])
    with tempfile.TemporaryDirectory():
        Path("file").touch()


def test_shared(server):
    assert server.poll() is None


def test_child():
    global child
    child = subprocess.Popen(SLEEP)


def test_zombie():
    global zombie
    zombie = os.posix_spawn("/bin/true", ["true"], os.environ)


def test_orphan():
    subprocess.run("sleep 601 & true", shell=True)


def test_thread():
    threading.Thread(target=ended.wait, name="forgotten").start()


def test_our_daemon_thread():
    global thread
    thread = threading.Thread(target=lambda: time.sleep(600), name="forgotten daemon", daemon=True)
    thread._target.__module__ = "determined.somewhere"
    thread.start()


def test_process_group(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)


def test_variables():
    os.environ["ADDED"] = "1"
    os.environ["TMPDIR"] += "/changed"
    del os.environ["REMOVED"]


def test_working_directory(tmp_path):
    os.chdir(tmp_path)


def test_file_in_home():
    (Path.home() / "in-home").touch()


def test_temporary_file():
    Path(tempfile.gettempdir(), "temporary").touch()


def test_file_in_the_working_directory():
    Path("here").touch()


def test_clean_after_all():
    assert not torch.distributed.is_initialized()
    assert "ADDED" not in os.environ and os.environ["REMOVED"] == "before"
    assert Path.cwd() == Path(__file__).parent
"""


EXPECTED = {
    "test_child": [r"process \d+: .* -c import time; time.sleep\(600\)"],
    "test_zombie": [r"process \d+: ended, but nobody waited for it"],
    "test_orphan": [r"process \d+: sleep 601"],
    "test_thread": ["thread: forgotten"],
    "test_our_daemon_thread": ["thread: forgotten daemon"],
    "test_process_group": ["process group of torch.distributed"],
    "test_variables": [
        "environment variable: ADDED='1'",
        "environment variable: REMOVED=None",
        "environment variable: TMPDIR='.*/tmp/changed'",
    ],
    "test_working_directory": ["working directory: .*/test_working_directory0"],
    "test_file_in_home": ["file: .*/home/in-home"],
    "test_temporary_file": ["file: .*/tmp/temporary"],
    "test_file_in_the_working_directory": ["file: .*/here"],
}


def test_what_is_left_behind_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_them.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = warm.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-q", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(tmp_path), "REMOVED": "before"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert f"14 passed, {len(EXPECTED)} errors" in done.stdout, done.stdout + done.stderr
    reported = {}
    for section in re.split(r"_+ ERROR at teardown of ", done.stdout)[1:]:
        lines = section.split("====")[0].splitlines()
        reported[lines[0].split()[0]] = [line.strip() for line in lines if line.startswith("  ")]
    assert reported.keys() == EXPECTED.keys()
    for test, patterns in EXPECTED.items():
        assert len(reported[test]) == len(patterns)
        assert all(re.fullmatch(pattern, line) for pattern, line in zip(patterns, reported[test], strict=True))


def test_a_shared_block(tmp_path: Path) -> None:
    before = leaks.take()
    leftover = Path.home() / "shared-by-this-test"
    with leaks.shared():
        leftover.touch()
    assert leaks.found(before, tmp_path) == []
    leftover.unlink()


def test_a_program_of_the_warm_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "GRACE_SECONDS", 0.1)
    before = leaks.take()
    with warm.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        (line,) = leaks.found(before, tmp_path)
        assert line.startswith(f"process {process.pid}: ")
    assert leaks.found(before, tmp_path) == []
