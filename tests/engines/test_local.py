"""Jobs on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from determined.engines.base import Event, Exited, Line
from determined.engines.local import LocalEngine
from determined.errors import EngineError
from tests.engines.contract import Bench, EngineContract
from tests.helpers import leaks
from tests.helpers.waiting import PATIENCE_SECONDS, alive, wait_until


def warm_processes() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "determined.engines.warm.server" in child.cmdline()[-1]]


def warm_process() -> psutil.Process:
    (found,) = warm_processes()
    return found


class TestLocalEngine(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls) -> Iterator[LocalEngine]:
        with LocalEngine(2) as engine:
            yield engine

    @pytest.fixture(autouse=True)
    def warm_process_is_shared(self, leaves_nothing_behind: None) -> Iterator[None]:
        """The engine of the class starts its warm process with the first job, and again after a test has killed it."""
        yield
        assert len(warm_processes()) <= 1
        leaks.share_processes(process.pid for process in warm_processes())

    def held(self) -> dict[str, int]:
        warm = warm_process()
        return {**super().held(), "warm files": warm.num_fds(), "warm children": len(warm.children())}

    def test_the_warm_process_has_one_thread_and_no_connections(self, bench: Bench) -> None:
        bench.script("")
        assert warm_process().num_threads() == 1
        for process in (psutil.Process(), warm_process()):
            listening = [c for c in process.net_connections() if c.status == psutil.CONN_LISTEN]
            assert listening == []

    def test_ctrl_c_in_the_terminal_is_the_runners_business(self, bench: Bench) -> None:
        key = bench.start("echo ready; sleep 0.2; echo unharmed")
        seen: list[Event] = []
        bench.line("ready", seen)
        assert os.getpgid(warm_process().pid) != os.getpgid(0)
        warm_process().send_signal(signal.SIGINT)
        assert bench.finish(key, seen).output == ["ready", "unharmed"]

    def test_a_kill_for_lack_of_memory_is_distinguished_from_others(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The kernel's counter is simulated: really running out of memory would affect other processes."""
        kills = [3]
        monkeypatch.setattr("determined.engines.local.count_memory_kills", lambda: kills[0])
        bench.write("program.py", "import os, signal\nopen('go').read()\nos.kill(os.getpid(), signal.SIGKILL)")
        os.mkfifo(bench.directory / "go")

        def run(entrypoint: str, more: int) -> bool:
            key = bench.start(entrypoint)
            kills[0] += more
            (bench.directory / "go").write_text("x")
            return bench.finish(key).exited.out_of_memory

        assert run("python3 program.py", 1)
        assert not run("python3 program.py", 0)
        assert run("sh -c 'python3 program.py'; exit $?", 1)  # a worker was killed, as the launcher reports
        assert not run("cat go", 1)  # whichever process was killed

    def test_jobs_go_before_the_engine_when_memory_is_short(self, bench: Bench) -> None:
        done = bench.script("print(open('/proc/self/oom_score_adj').read())")
        assert int(done.output[0]) > int(Path(f"/proc/{warm_process().pid}/oom_score_adj").read_text())

    def test_a_copy_imports_nothing_heavy(self, bench: Bench) -> None:
        done = bench.script(
            """
            import sys
            before = set(sys.modules)
            import torch
            from determined import pytorch
            model = torch.nn.Linear(1, 1)
            optimizer = torch.optim.Adam(model.parameters())
            model(torch.ones(1, 1)).sum().backward()
            optimizer.step()
            print(len(set(sys.modules) - before))
            """
        )
        assert int(done.output[0]) < 20, done.errors

    def test_a_lost_warm_process_is_reported_and_replaced(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        bench.write("torch.py", "raise ImportError('modules where the runner happens to be are not for it')")
        monkeypatch.chdir(bench.directory)
        key = bench.start("sleep 1000 & setsid sleep 1000 & echo $!; wait")
        line = bench.until(lambda event: isinstance(event, Line))
        assert isinstance(line, Line)
        warm_process().kill()
        done = bench.finish(key)
        assert done.exited == Exited(key, 137, "SIGKILL", False, 0.0, lost=True)
        wait_until(lambda: not alive([int(line.text)]))
        assert bench.engine.free_slots() == 2
        assert bench.run("echo again").output == ["again"]


SHELL_AND_DAEMON = """
import os, subprocess, sys, time
from pathlib import Path
from determined.engines.base import Job
from determined.engines.command import parse_entrypoint
from determined.engines.local import LocalEngine
engine = LocalEngine(2)
here = Path(sys.argv[1])
engine.start(Job("a", parse_entrypoint("python3 program.py"), {}, here, 1))
engine.start(Job("b", parse_entrypoint("setsid sleep 1000 & sleep 1000; true"), {}, here, 1))
if os.fork() == 0:
    time.sleep(1000)  # holds all files of its parent open
while True:
    for event in engine.events(10):
        print(event.text, os.environ.get("x"), engine._wakeups.directory, flush=True)
"""


def test_when_the_process_of_the_engine_is_killed_nothing_lives_on(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import os, signal, subprocess, time\n"
        "from torch.utils.data import DataLoader\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "workers = iter(DataLoader(range(10), num_workers=2))\n"
        "subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "print('ready', flush=True)\n"
        "time.sleep(1000)\n"
    )
    runner = subprocess.Popen(
        [sys.executable, "-c", SHELL_AND_DAEMON, str(tmp_path)],
        env={**os.environ, "TMPDIR": str(tmp_path)},  # the workers of the loader leave files there when they are killed
        stdout=subprocess.PIPE,
        text=True,
    )
    assert runner.stdout is not None
    fork = None
    try:
        # On a busy machine torch may print a warning first.
        directory = next(line for line in runner.stdout if line.startswith("ready ")).split()[-1]
        engine = psutil.Process(runner.pid)
        # The fork; warm; program, two loader workers, sleep; shell, two sleeps: those of the shell may start a moment
        # later.
        wait_until(lambda: len(engine.children(recursive=True)) >= 9)
        below = engine.children(recursive=True)
        fork = next(process for process in below if process.ppid() == runner.pid and not process.children())
        below.remove(fork)
        runner.kill()
        runner.wait()
        _, left = psutil.wait_procs(below, timeout=PATIENCE_SECONDS)
        assert left == []
        wait_until(lambda: not os.path.exists(directory))
    finally:
        runner.kill()
        if fork is not None:
            fork.kill()
        runner.stdout.close()


def test_when_it_is_killed_at_once_nothing_lives_on(tmp_path: Path) -> None:
    program = "from determined.engines.local import LocalEngine; e = LocalEngine(1); print(e._wakeups.directory); "
    runner = subprocess.Popen(
        [sys.executable, "-uc", program + "e.events(1000)"], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert runner.stdout is not None
    directory = runner.stdout.readline().strip()
    below = psutil.Process(runner.pid).children()
    runner.kill()
    runner.wait()
    runner.stdout.close()
    assert len(below) == 1
    assert psutil.wait_procs(below, timeout=PATIENCE_SECONDS)[1] == []
    assert not os.path.exists(directory)


def test_a_warm_process_that_cannot_begin_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('this torch is broken')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with LocalEngine(1) as engine:
        with pytest.raises(EngineError, match="this torch is broken"):
            Bench(engine, tmp_path).start("echo x")
        assert engine.free_slots() == 1


def test_wakeups_come_from_the_same_user_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("long" * 30)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    engine = LocalEngine(1)
    directory = Path(engine._wakeups.directory)
    assert directory.stat().st_mode & 0o777 == 0o700
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.sendto(b"unknown key", engine._wakeups.path)
        assert engine.events(0.1) == []
    engine.close()
    assert not directory.exists()
