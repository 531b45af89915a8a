"""The contract of an engine, with real processes. A test class of an engine gives the fixture `engine`, of two slots.

class TestLocalEngine(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls) -> Iterator[Engine]: ...
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from determined.engines.base import Engine, Event, Exited, Interpreter, Job, Line, WakeupRequested
from determined.engines.command import Command, parse_entrypoint
from determined.errors import EngineError
from tests.helpers.waiting import PATIENCE_SECONDS, alive, wait_until

_keys = itertools.count(1)


@dataclass(frozen=True)
class Done:
    """A job that has ended, and its output."""

    exited: Exited
    lines: list[Line]

    @property
    def output(self) -> list[str]:
        return [line.text for line in self.lines if line.stream == "stdout"]

    @property
    def errors(self) -> str:
        return "\n".join(line.text for line in self.lines if line.stream == "stderr")


class Bench:
    """A directory with programs, and an engine to run them."""

    def __init__(self, engine: Engine, directory: Path) -> None:
        self.engine = engine
        self.directory = directory
        self.started: list[str] = []

    def write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(textwrap.dedent(text))

    def start(self, entrypoint: str | list[str] | Command, slots: int = 1, **environment: str) -> str:
        key = f"1.job.{next(_keys)}"
        command = parse_entrypoint(entrypoint) if isinstance(entrypoint, str | list) else entrypoint
        self.started.append(key)
        self.engine.start(Job(key, command, environment, self.directory, slots))
        return key

    def until(self, condition: Callable[[Event], bool], seen: list[Event] | None = None) -> Event:
        """Return the next event of this kind; append the others before it to `seen`."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        found = None
        while found is None:
            assert time.monotonic() < deadline, f"it never happened; but this did: {seen}"
            for event in self.engine.events(1.0):
                if seen is not None:
                    seen.append(event)
                if found is None and condition(event):
                    found = event
        return found

    def line(self, text: str, seen: list[Event] | None = None) -> Event:
        return self.until(lambda event: isinstance(event, Line) and text in event.text, seen)

    def finish(self, key: str, seen: list[Event] | None = None) -> Done:
        seen = [] if seen is None else seen
        exited = next((e for e in seen if isinstance(e, Exited) and e.key == key), None)
        if exited is None:
            found = self.until(lambda event: isinstance(event, Exited) and event.key == key, seen)
            assert isinstance(found, Exited)
            exited = found
        after = seen[seen.index(exited) + 1 :]
        assert [event for event in after if event.key == key] == [], "something came after the end"
        return Done(exited, [event for event in seen if isinstance(event, Line) and event.key == key])

    def run(self, entrypoint: str | list[str] | Command, slots: int = 1, **environment: str) -> Done:
        return self.finish(self.start(entrypoint, slots, **environment))

    def script(self, text: str, slots: int = 1, **environment: str) -> Done:
        self.write("program.py", text)
        return self.run("python3 program.py", slots, **environment)


class EngineContract:
    @pytest.fixture
    def bench(self, engine: Engine, tmp_path: Path) -> Iterator[Bench]:
        directory = tmp_path / "model"
        directory.mkdir()
        bench = Bench(engine, directory)
        yield bench
        for key in bench.started:  # those of a test that failed
            engine.kill(key)
        wait_until(lambda: [engine.events(0.0)] and engine.free_slots() == engine.slots)

    # How jobs end

    @pytest.mark.parametrize(
        ("ending", "code"),
        [("pass", 0), ("sys.exit()", 0), ("sys.exit(7)", 7), ("sys.exit('words')", 1), ("os._exit(9)", 9)],
    )
    def test_exit_codes(self, bench: Bench, ending: str, code: int) -> None:
        done = bench.script(f"import os, sys\nprint('here', flush=True)\n{ending}")
        assert (done.exited.code, done.exited.signal, done.exited.out_of_memory) == (code, None, False)
        assert done.output == ["here"]
        assert done.errors == ("words" if "words" in ending else "")
        assert not done.exited.lost

    def test_an_exception_is_shown_as_by_python_itself(self, bench: Bench) -> None:
        done = bench.script("def act():\n    raise ValueError('no such thing')\nact()\n")
        assert done.exited.code == 1
        by_hand = f'Traceback (most recent call last):\n  File "{bench.directory}/program.py", line 3, in <module>'
        assert done.errors.startswith(by_hand)
        assert done.errors.endswith("ValueError: no such thing")

    def test_a_syntax_error_and_missing_programs(self, bench: Bench) -> None:
        assert "SyntaxError" in bench.script("def").errors
        done = bench.run("python3 missing.py")
        assert done.exited.code == 2
        assert "missing.py" in done.errors
        done = bench.run("python3 -m missing_module")
        assert done.exited.code == 1
        assert "No module named missing_module" in done.errors
        done = bench.run(["missing-program", "x"])
        assert done.exited.code == 127
        assert "missing-program" in done.errors

    def test_a_crash_of_the_interpreter(self, bench: Bench) -> None:
        done = bench.script("import ctypes\nprint('before')\nctypes.string_at(0)")
        assert (done.exited.code, done.exited.signal) == (139, "SIGSEGV")
        assert done.output == ["before"]

    def test_a_signal_from_elsewhere_is_not_a_lack_of_memory(self, bench: Bench) -> None:
        done = bench.script("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
        assert (done.exited.code, done.exited.signal, done.exited.out_of_memory) == (137, "SIGKILL", False)

    def test_an_interrupted_program(self, bench: Bench) -> None:
        done = bench.script("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nsignal.pause()")
        assert done.exited.code == 130
        assert done.errors.endswith("KeyboardInterrupt")

    def test_what_an_interpreter_does_before_it_ends(self, bench: Bench) -> None:
        done = bench.script(
            """
            import atexit, concurrent.futures, sys, threading, time, weakref
            finalizer = weakref.finalize(sys, print, "finalizer")
            atexit.register(lambda: print("at exit"))
            threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
            pool = concurrent.futures.ThreadPoolExecutor()
            pool.submit(lambda: None)
            sys.stdout.write("no end of line")
            sys.exit(3)
            """
        )
        assert done.exited.code == 3
        assert "".join(done.output) == "no end of linethreadat exitfinalizer"

    def test_cpu_time_is_counted(self, bench: Bench) -> None:
        text = "import time\nwhile time.process_time() < {}: pass\nprint('ready', flush=True)\n"
        bench.write("program.py", text.format(0.4) + "time.sleep(100)")
        key = bench.start("python3 program.py")
        bench.line("ready")
        assert bench.engine.cpu_seconds(key) >= 0.3
        bench.engine.kill(key)
        assert bench.finish(key).exited.cpu_seconds >= 0.3
        assert bench.engine.cpu_seconds(key) == 0

    # Ending jobs

    def test_kill_reaches_everything(self, bench: Bench) -> None:
        bench.write(
            "program.py",
            """
            import os, signal, subprocess, sys, time
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            own = subprocess.Popen(["sleep", "1000"])
            other = subprocess.Popen(["sh", "-c", "sleep 1000 & sleep 1000"], start_new_session=True)
            print(os.getpid(), own.pid, other.pid, flush=True)
            time.sleep(1000)
            """,
        )
        key = bench.start("python3 program.py")
        line = bench.until(lambda event: isinstance(event, Line))
        assert isinstance(line, Line)
        pids = [int(word) for word in line.text.split()]
        pids += [child.pid for child in psutil.Process(pids[2]).children()]
        bench.engine.kill(key)
        done = bench.finish(key)
        assert (done.exited.code, done.exited.signal, done.exited.out_of_memory) == (137, "SIGKILL", False)
        assert alive(pids) == []

    def test_kill_of_what_is_not_there(self, bench: Bench) -> None:
        bench.engine.kill("nobody")
        bench.engine.wake("nobody")
        bench.engine.show_stacks("nobody")

    def test_nothing_is_left_behind(self, bench: Bench) -> None:
        """Neither a daemon that detached in the usual way nor a child that holds the output open."""
        done = bench.script(
            """
            import os, subprocess, sys, time
            print(subprocess.Popen(["sleep", "1000"]).pid, flush=True)
            reading, writing = os.pipe()
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    print(os.getpid(), file=os.fdopen(writing, "w"), flush=True)
                    os.closerange(0, 100)
                    time.sleep(1000)
                os._exit(0)
            print(os.read(reading, 100).decode(), flush=True)
            """
        )
        assert done.exited.code == 0
        pids = [int(text) for text in done.output if text]
        assert len(pids) == 2
        assert alive(pids) == []

    def test_a_daemon_lives_as_long_as_its_job_while_others_end(self, bench: Bench) -> None:
        bench.write(
            "program.py",
            """
            import os, sys, time
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    print(os.getpid(), flush=True)
                    time.sleep(1000)
                os._exit(0)
            os.wait()
            open("go").read()
            """,
        )
        os.mkfifo(bench.directory / "go")
        key = bench.start("python3 program.py")
        seen: list[Event] = []
        line = bench.until(lambda event: isinstance(event, Line), seen)
        assert isinstance(line, Line)
        bench.write("other.py", "")
        bench.finish(bench.start("python3 other.py"), seen)
        assert alive([int(line.text)])
        (bench.directory / "go").write_text("x")
        assert bench.finish(key, seen).exited.code == 0
        assert alive([int(line.text)]) == []

    # Output of jobs

    def test_many_lines_are_complete_and_in_order(self, bench: Bench) -> None:
        done = bench.script(
            """
            import sys
            for number in range(100_000):
                sys.stdout.write(f"{number}\\n")
                if number % 10 == 0:
                    sys.stderr.write(f"{number}\\n")
            """
        )
        assert done.output == [str(number) for number in range(100_000)]
        assert done.errors.split() == [str(number) for number in range(0, 100_000, 10)]

    def test_a_job_that_writes_too_fast_has_to_wait(self, bench: Bench) -> None:
        bench.write("program.py", "for number in range(300_000): print(number)\nopen('done', 'w').close()")
        key = bench.start("python3 program.py")
        seen: list[Event] = []
        bench.until(lambda event: isinstance(event, Line), seen)
        used = -1.0
        while used != (used := bench.engine.cpu_seconds(key)):
            time.sleep(0.3)
        assert not (bench.directory / "done").exists()
        assert len(bench.finish(key, seen).output) == 300_000

    def test_lines_have_rank_level_stream_and_time(self, bench: Bench) -> None:
        before = time.time()
        done = bench.script(
            """
            import sys
            print("[rank=1] plain")
            print("INFO: [77] determined: text", file=sys.stderr)
            sys.stdout.buffer.write(b"\\xff bytes\\n 1%\\r 2%")
            """
        )
        found = {(line.rank, line.stream, line.level, line.text) for line in done.lines}
        assert found == {
            (1, "stdout", None, "plain"),
            (0, "stderr", "INFO", "INFO: [77] determined: text"),
            (0, "stdout", None, "\\xff bytes"),
            (0, "stdout", None, " 2%"),  # the last state of a progress bar
        }
        assert all(before <= line.written <= time.time() for line in done.lines)

    def test_a_hung_job_shows_where_it_is(self, bench: Bench) -> None:
        bench.write(
            "program.py",
            """
            import time
            def stuck_here():
                print("ready", flush=True)
                time.sleep(1000)
            stuck_here()
            """,
        )
        key = bench.start("python3 program.py")
        bench.line("ready")
        bench.engine.show_stacks(key)
        bench.line("in stuck_here")
        bench.engine.kill(key)
        bench.finish(key)

    def test_a_program_that_shows_no_stacks_does_not_die_of_being_asked(self, bench: Bench) -> None:
        os.mkfifo(bench.directory / "go")
        key = bench.start("echo ready; read word < go; echo $word")
        seen: list[Event] = []
        bench.line("ready", seen)
        bench.engine.show_stacks(key)
        (bench.directory / "go").write_text("alive\n")
        done = bench.finish(key, seen)
        assert done.exited.code == 0
        assert done.output == ["ready", "alive"]

    # The environment of jobs

    def test_jobs_do_not_see_each_other(self, bench: Bench) -> None:
        show = """
            import json, logging, os, random, sys, tempfile, warnings
            import numpy, torch
            print(json.dumps([
                os.environ.get("MINE"), os.getcwd(), sys.argv, sys.path[0], __name__, __file__, sys.path.count("/x"),
                len(logging.getLogger().handlers), tempfile.gettempdir(), torch.get_num_threads(),
            ]))
            print(random.random(), numpy.random.rand(), torch.rand(1).item())
        """
        spoil = """
            os.environ["MINE"] = "changed"
            os.chdir("/")
            sys.path.append("/x")
            sys.argv.append("more")
            logging.basicConfig()
            random.seed(0), numpy.random.seed(0), torch.manual_seed(0)
            torch.set_num_threads(3)
        """
        (bench.directory / "tmp").mkdir()
        environment = {"MINE": "given", "TMPDIR": str(bench.directory / "tmp"), "OMP_NUM_THREADS": "2"}
        bench.write("program.py", textwrap.dedent(show) + textwrap.dedent(spoil))
        first = bench.run("python3 program.py a 'b c'", 1, **environment)
        second = bench.run("python3 program.py a 'b c'", 1, **environment)
        assert first.errors == second.errors == ""
        here = str(bench.directory)
        assert json.loads(first.output[0]) == json.loads(second.output[0])
        assert json.loads(first.output[0]) == [
            *("given", here, ["program.py", "a", "b c"], here, "__main__", f"{here}/program.py", 0, 0, f"{here}/tmp", 2)
        ]
        numbers = [done.output[1].split() for done in (first, second)]
        assert not set(numbers[0]) & set(numbers[1])

    def test_a_directory_is_taken_from_where_the_runner_is(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(bench.directory.parent)
        bench.engine.start(Job("here", parse_entrypoint("pwd; echo $PWD"), {}, Path(bench.directory.name), 1))
        assert bench.finish("here").output == [str(bench.directory)] * 2

    def test_the_environment_that_the_engine_sets_for_a_job(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DET_LATEST_CHECKPOINT", "of-a-run-around-us")
        monkeypatch.setenv("RANK", "5")
        bench.write(
            "program.py",
            """
            import json, os
            names = ["DET_ALLOCATION_ID", "DET_LATEST_CHECKPOINT", "RANK", "DET_CONTAINER_SLOT_COUNTS", "HOME", "A"]
            print(json.dumps([os.environ.get(name) for name in names]))
            """,
        )
        key = bench.start("python3 program.py", A="1")
        assert json.loads(bench.finish(key).output[0]) == [key, None, None, "[1]", os.environ.get("HOME"), "1"]

    def test_variables_that_are_read_when_python_starts_have_their_effect(self, bench: Bench) -> None:
        bench.write("program.py", "import sys\nprint(hash('x'), sys.flags.optimize)")
        environment = {"PYTHONHASHSEED": "3", "PYTHONOPTIMIZE": "1"}
        first, second = (bench.run("python3 program.py", 1, **environment) for _ in range(2))
        assert first.output == second.output
        assert first.output[0].endswith(" 1")

    def test_own_modules_win_over_installed_ones_and_paths_are_added(self, bench: Bench) -> None:
        bench.write("tqdm.py", "WHOSE = 'own'")
        (bench.directory / "more").mkdir()
        bench.write("more/added.py", "HERE = 'added'")
        done = bench.script("import tqdm, added\nprint(tqdm.WHOSE, added.HERE)", PYTHONPATH="more")
        assert done.output == ["own added"], done.errors

    def test_a_module_as_by_python_m(self, bench: Bench) -> None:
        (bench.directory / "package").mkdir()
        bench.write("package/__init__.py", "")
        bench.write(
            "package/tool.py", "import sys\nfrom package import part\nprint(__name__, __package__, sys.argv[1:])"
        )
        bench.write("package/part.py", "")
        assert bench.run("python3 -m package.tool 1").output == ["__main__ package ['1']"]

    def test_shells_and_programs_run_our_interpreter(self, bench: Bench) -> None:
        code = "import os, sys; print(sys.prefix, os.getcwd())"
        expected = [f"{sys.prefix} {bench.directory}"]
        assert bench.run(f"true && python3 -c '{code}'").output == expected
        assert bench.run(["python3", "-c", code]).output == expected
        assert bench.run("echo $WORD; exit 4", 1, WORD="said").exited.code == 4

    def test_another_interpreter_with_its_variables(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """It runs scripts and shells alike; the engine does not run a startup hook in the directory."""
        other = bench.directory / "other" / "bin" / "python"
        other.parent.mkdir(parents=True)
        other.symlink_to(sys.executable)
        other.with_name("python3").symlink_to(sys.executable)
        (other.parent.parent / "pyvenv.cfg").write_text(Path(sys.prefix, "pyvenv.cfg").read_text())
        (other.parent.parent / "lib").symlink_to(Path(sys.prefix) / "lib")
        bench.write("startup-hook.sh", "echo never")
        code = "import os, sys\nprint(sys.prefix, os.environ.get('WORD'), os.environ.get('GONE'))"
        monkeypatch.setenv("GONE", "from outside")
        bench.engine.use(Interpreter(str(other), {"WORD": "said"}, frozenset({"GONE"})))
        try:
            expected = [f"{bench.directory / 'other'} said None"]
            assert bench.script(code).output == expected
            assert bench.run("true && python3 program.py").output == expected
            key = bench.start("sleep 60")
            with pytest.raises(EngineError, match="cannot be changed while"):
                bench.engine.use(Interpreter())
            bench.engine.kill(key)
            bench.finish(key)
        finally:
            bench.engine.use(Interpreter())
        assert bench.script(code).output == [f"{sys.prefix} None from outside"]

    def test_processes_of_the_program(self, bench: Bench) -> None:
        done = bench.script(
            """
            import multiprocessing, pickle
            import torch
            from torch.utils.data import DataLoader, Dataset
            class Squares(Dataset):
                def __len__(self): return 8
                def __getitem__(self, index): return index * index
            def double(x): return 2 * x
            def main():
                assert pickle.loads(pickle.dumps(Squares())).__class__ is Squares
                for method in ("fork", "spawn"):
                    with multiprocessing.get_context(method).Pool(1) as pool:
                        print(method, pool.map(double, [1, 2]))
                print([batch.tolist() for batch in DataLoader(Squares(), batch_size=4, num_workers=2)])
            if __name__ == "__main__":
                main()
            """
        )
        expected = ["fork [2, 4]", "spawn [2, 4]", "[[0, 1, 4, 9], [16, 25, 36, 49]]"]
        assert done.output == expected, done.errors
        assert done.exited.code == 0

    def test_runner_and_workers_wake_each_other(self, bench: Bench) -> None:
        bench.write(
            "program.py",
            """
            import os, socket
            runner = os.environ["DET_DOORBELL"]
            own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            own.bind(os.path.join(os.path.dirname(runner), f"w-{os.getpid()}-0"))
            own.sendto(os.environ["DET_ALLOCATION_ID"].encode(), runner)
            print(own.recv(10))
            """,
        )
        key = bench.start("python3 program.py")
        seen: list[Event] = []
        bench.until(lambda event: event == WakeupRequested(key), seen)
        bench.engine.wake(key)
        assert bench.finish(key, seen).output == ["b'!'"]

    # Slots

    def test_slots_are_assigned_and_released(self, bench: Bench) -> None:
        assert (bench.engine.slots, bench.engine.free_slots()) == (2, 2)
        bench.write("program.py", "import time\ntime.sleep(1000)")
        command = parse_entrypoint("python3 program.py")
        jobs = [Job(f"slots.{number}", command, {}, bench.directory, 1) for number in range(2)]
        given = [bench.engine.start(job) for job in jobs]
        assert sorted(number for ids in given for number in ids) == [0, 1]
        assert bench.engine.free_slots() == 0
        with pytest.raises(EngineError, match=r"slots\.2 needs 1 slot: 0 of 2 are free"):
            bench.engine.start(Job("slots.2", command, {}, bench.directory, 1))
        bench.engine.kill("slots.1")
        bench.finish("slots.1")
        assert bench.engine.free_slots() == 1
        assert bench.engine.start(jobs[1]) == given[1]
        for job in jobs:
            bench.engine.kill(job.key)
        seen: list[Event] = []
        for job in jobs:
            bench.finish(job.key, seen)
        assert bench.engine.free_slots() == 2

    def test_what_cannot_be_started(self, bench: Bench) -> None:
        command = parse_entrypoint("sleep 1000")
        with pytest.raises(EngineError, match="does not exist"):
            bench.engine.start(Job("nowhere", command, {}, bench.directory / "missing", 1))
        bench.engine.start(Job("twice", command, {}, bench.directory, 1))
        with pytest.raises(EngineError, match="already running"):
            bench.engine.start(Job("twice", command, {}, bench.directory, 1))
        bench.engine.kill("twice")
        bench.finish("twice")
        assert bench.engine.free_slots() == 2

    def test_a_job_on_two_slots(self, bench: Bench) -> None:
        """Only one of its ranks can print its stack; the other is not harmed."""
        bench.write(
            "program.py",
            """
            import faulthandler, os, signal, time
            from determined import core
            ranks = core.DistributedContext.from_torch_distributed()
            if ranks.rank == 1:
                faulthandler.register(signal.SIGUSR1)
            def wait_here():
                print(f"{ranks.rank} of {ranks.size}: {sum(ranks.allgather(ranks.rank + 1))}")
                while not os.path.exists("go"):
                    time.sleep(0.02)
            wait_here()
            """,
        )
        command = "python3 -m determined.launch.torch_distributed python3 program.py"
        trial = {"DET_TASK_TYPE": "TRIAL", "DET_TRIAL_ID": "1", "DET_EXPERIMENT_ID": "1", "DET_TRIAL_SEED": "0"}
        key = bench.start(command, 2, **trial)
        seen: list[Event] = []
        bench.line("0 of 2", seen)
        if not any(isinstance(event, Line) and "1 of 2" in event.text for event in seen):
            bench.line("1 of 2", seen)
        bench.engine.show_stacks(key)
        shown = bench.line("in wait_here", seen)
        assert isinstance(shown, Line)
        assert shown.rank == 1
        (bench.directory / "go").touch()
        done = bench.finish(key, seen)
        assert done.exited.code == 0, done.errors
        # Some versions of torch print lines of their own: "[Gloo] Rank 0 is connected to 1 peer ranks".
        own = [line for line in done.lines if line.stream == "stdout" and not line.text.startswith("[Gloo] ")]
        found = {(line.rank, line.text) for line in own}
        assert found == {(0, "0 of 2: 3"), (1, "1 of 2: 3")}

    # In the long run

    def test_many_jobs_leave_nothing(self, bench: Bench) -> None:
        bench.write("program.py", "print('x')")
        bench.run("python3 program.py")
        before = self.held()
        seen: list[Event] = []
        keys: list[str] = []
        while len(keys) < 200 or bench.engine.free_slots() < 2:
            while len(keys) < 200 and bench.engine.free_slots():
                keys.append(bench.start("python3 program.py"))
            seen += bench.engine.events(10.0)
        assert [event.code for event in seen if isinstance(event, Exited)] == [0] * 200
        assert len([event for event in seen if isinstance(event, Line)]) == 200
        assert self.held() == before

    def held(self) -> dict[str, int]:
        """Return the resources of this process; an engine adds those of its own processes."""
        own = psutil.Process()
        return {"files": own.num_fds(), "threads": threading.active_count(), "children": len(own.children())}
