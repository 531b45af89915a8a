"""Programs started by `tests.helpers.warm` behave as if a fresh interpreter ran them, without importing torch again."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn.datasets  # noqa: F401  (adds variables to this process)
import torch._dynamo  # noqa: F401

from tests.helpers import warm
from tests.helpers.searches import Search, end_processes, processes_of
from tests.helpers.terminal import CTRL_C, Terminal

LOOK = "import sys; print('torch' in sys.modules, sys.argv[1:], sys.stdin.read()); sys.exit(3)"


def test_streams_arguments_and_exit_code(tmp_path: Path) -> None:
    for _ in range(2):
        done = warm.run(
            [sys.executable, "-c", LOOK, "a"], capture_output=True, text=True, input="typed", cwd=tmp_path, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr) == (3, "True ['a'] typed\n", "")


def test_the_environment_and_directory_are_those_given(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import os; print(os.getcwd(), os.environ.get('X'), os.environ.get('HOME'), __file__)")
    done = warm.run([sys.executable, "program.py"], env={"X": "1"}, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert done.stdout == f"{tmp_path} 1 None {program}\n"


def test_signals(tmp_path: Path) -> None:
    with warm.Popen(
        [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGTERM)
    assert process.returncode == -signal.SIGTERM


def test_a_variable_that_python_reads_at_its_start_takes_a_fresh_interpreter() -> None:
    done = warm.run(
        [sys.executable, "-c", LOOK],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.stdout == "False [] \n"


def test_a_program_that_takes_too_long() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        warm.run([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.1)


def test_forks_can_be_found_by_their_data_directory(tmp_path: Path) -> None:
    """This includes the fork of a fork, as the trials of an experiment are."""
    program = "import os, time\nif os.fork() == 0:\n    print(os.getpid(), flush=True)\n    time.sleep(60)\nos.wait()\n"
    with warm.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path / "mine")},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        fork = int(process.stdout.readline())
        assert {found.pid for found in processes_of(tmp_path / "mine")} == {process.pid, fork}
        assert processes_of(tmp_path) == []
        process.kill()
        process.wait()
        assert [found.pid for found in processes_of(tmp_path / "mine")] == [fork]
        end_processes(tmp_path / "mine")


def test_a_key_of_the_controlling_terminal_is_a_signal() -> None:
    program = (
        "import time\ntry:\n    print('here')\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('interrupted')"
    )
    with Terminal([sys.executable, "-c", program], is_warm=True) as terminal:
        terminal.read_until(b"here")
        terminal.write(CTRL_C)
        terminal.read_until(b"interrupted")
        assert terminal.wait() == 0


@pytest.mark.parametrize(
    ("end", "code"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 15)", 128 + signal.SIGTERM)], ids=["exit", "signal"]
)
def test_commands_of_a_shell(tmp_path: Path, end: str, code: int) -> None:
    path = f"{warm.commands()}{os.pathsep}{os.environ['PATH']}"
    program = f"import os, sys; print('torch' in sys.modules, os.environ['X'], sys.stdin.read(), flush=True); {end}"
    done = subprocess.run(
        f"cd {tmp_path}; export X=1; echo typed | python -c {shlex.quote(program)} 2>&1; det --version",
        shell=True,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    printed = done.stdout.splitlines()
    assert printed[0] == "True 1 typed"
    assert printed[-1].startswith("det")
    ended = subprocess.run(["sh", "-c", f"python -c 'import os, sys; {end}'"], env={**os.environ, "PATH": path})
    assert ended.returncode == code


PARENT = """
import os, sys
print("forked", "sklearn" in sys.modules)  # the warm process of an engine does not import it, the one of tests does
print("grandparent", open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1])
"""


def test_the_warm_process_of_an_engine_is_a_fork_and_a_child_of_its_program(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "train.py").write_text(PARENT)
    searcher = {"name": "single", "metric": "loss"}
    search = Search(tmp_path / "home", tmp_path / "model", {"entrypoint": "python3 train.py", "searcher": searcher})
    experiment = search.create()
    with search.start(experiment) as runner:
        runner.wait(60)
    with search.opened() as store:
        lines = [line.text for line in store.logs(store.experiments.trials(experiment)[0].id)]
    assert "forked True" in lines
    assert f"grandparent {runner.pid}" in lines
    search.wait_for_exits()


WORKER = """
import os, sys
print("forked", "sklearn" in sys.modules, os.environ["RANK"], os.getppid(), flush=True)
"""


def test_the_ranks_of_a_launcher_are_forks_and_children_of_their_wrappers(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WORKER)
    done = warm.run(
        [sys.executable, "-m", "determined.launch.torch_distributed", "train.py"],
        cwd=tmp_path,
        env={**os.environ, "DET_SLOTS": "2"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert [line.rpartition(" ")[0] for line in lines] == [f"[rank={rank}] forked True {rank}" for rank in (0, 1)]
    assert len({line.rpartition(" ")[2] for line in lines}) == 2
