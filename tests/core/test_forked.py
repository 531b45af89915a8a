"""Functions that run in a forked copy of the process."""

from __future__ import annotations

import errno
import io
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from determined.core.checkpoints import forked_work
from determined.core.checkpoints.forked_work import CannotFork, ChildLost, fork
from tests.helpers import warm
from tests.helpers.waiting import wait_for_end


def test_the_child_sees_memory_as_it_was(tmp_path: Path) -> None:
    value = ["before"]
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    def work() -> None:
        gate.read_bytes()
        (tmp_path / "seen").write_text(value[0])

    child = fork(work)
    value[0] = "after"
    gate.write_bytes(b"go")
    child.wait()
    assert (tmp_path / "seen").read_text() == "before"


def test_errors_of_the_child_are_raised_here(tmp_path: Path) -> None:
    def system() -> None:
        (tmp_path / "missing" / "file").write_text("")

    def own() -> None:
        raise ValueError("not like this: é\n")

    with pytest.raises(FileNotFoundError) as caught:
        fork(system).wait()
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(tmp_path / "missing" / "file"))
    with pytest.raises(RuntimeError, match="ValueError: not like this: é") as other:
        fork(own).wait()
    assert "in own" in str(other.value.__cause__)


def test_a_child_that_is_killed_is_named() -> None:
    def work() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ChildLost, match="SIGKILL: is the machine short of memory"):
        fork(work).wait()
    with pytest.raises(ChildLost, match="ended with code 3"):
        fork(lambda: os._exit(3)).wait()


def never_return() -> None:
    threading.Event().wait()


def test_a_child_that_sleeps_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_work, "_SECONDS_BETWEEN_POLLS", 0.05)
    monkeypatch.setattr(forked_work, "_SECONDS_ASLEEP", {True: 0.3, False: 0.3})
    with pytest.raises(ChildLost, match="was blocked, and was ended"):
        fork(never_return).wait()


def test_signals_for_the_program_do_not_reach_the_child(tmp_path: Path) -> None:
    def work() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
            os.kill(os.getpid(), number)
        (tmp_path / "done").touch()

    fork(work).wait()
    assert (tmp_path / "done").exists()


def test_a_program_that_reaps_all_children_itself(tmp_path: Path) -> None:
    child = fork(lambda: (tmp_path / "done").touch())
    os.waitpid(child.pid, 0)
    child.wait()
    assert (tmp_path / "done").exists()


def test_no_process_left_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(CannotFork, match="Resource temporarily unavailable"):
        fork(lambda: None)
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_child_dies_with_its_parent() -> None:
    program = (
        "import os, signal, time\n"
        "from determined.core.checkpoints.forked_work import fork\n"
        "child = fork(lambda: time.sleep(600))\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    parent = warm.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.returncode == -signal.SIGKILL
    wait_for_end(int(parent.stdout))


@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.thorough)])
def test_forks_beside_busy_threads(count: int, tmp_path: Path) -> None:
    """Threads allocate, log, open files, compute and load modules: whatever locks they hold, the child writes its
    result.
    """
    import torch

    stop = threading.Event()
    log = logging.getLogger("test.forked")
    log.addHandler(logging.FileHandler(tmp_path / "log"))
    log.propagate = False

    def allocate() -> None:
        while not stop.is_set():
            [bytearray(n) for n in range(1, 100_000, 997)]

    def write_log() -> None:
        while not stop.is_set():
            log.warning("a line")

    def compute() -> None:
        weights = torch.randn(64, 64, requires_grad=True)
        while not stop.is_set():
            (weights @ weights).sum().backward()
            torch.save(weights.detach(), tmp_path / "other.pt")

    torch.save(torch.zeros(1), io.BytesIO())  # loads the modules that the child needs
    threads = [threading.Thread(target=target) for target in (allocate, write_log, compute)]
    for thread in threads:
        thread.start()
    state = {"weights": torch.arange(100_000.0)}
    try:
        for number in range(count):
            state["weights"] += 1

            def work(number: int = number) -> None:
                log.warning("from child %d", number)
                torch.save(state, tmp_path / f"{number % 4}.pt")

            child = fork(work)
            state["weights"] += 1
            child.wait()
            saved = torch.load(tmp_path / f"{number % 4}.pt")["weights"]
            assert torch.equal(saved, state["weights"] - 1)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        log.handlers[0].close()
        log.handlers.clear()
        log.propagate = True
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line for line in lines if line != "a line"] == [f"from child {number}" for number in range(count)]
