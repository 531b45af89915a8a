"""Programs started by `tests.helpers.warm` behave as if a fresh interpreter ran them, without importing torch again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn.datasets  # noqa: F401  (adds variables to this process)
import torch._dynamo  # noqa: F401

from tests.helpers import warm

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
