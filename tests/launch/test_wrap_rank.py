"""Output lines get their rank as a prefix."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from determined.launch.wrap_rank import find_rank


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "determined.launch.wrap_rank", *arguments],
        env={**os.environ, **env},
        capture_output=True,
        timeout=60,
    )


def test_every_line_carries_the_rank_and_the_code_is_passed_on() -> None:
    program = "import sys; sys.stdout.write('a\\rb\\r\\nc\\n\\nlast'); sys.stderr.write('err\\n'); sys.exit(5)"
    done = run("RANK", "--", sys.executable, "-c", program, RANK="3")
    assert done.stdout == b"[rank=3] b\n[rank=3] c\n[rank=3] \n[rank=3] last\n"
    assert done.stderr == b"[rank=3] err\n"
    assert done.returncode == 5


def test_without_redirection_the_output_is_left_alone() -> None:
    done = run("--no-redirect-stdio", "7", sys.executable, "-c", "print('plain')")
    assert done.stdout == b"plain\n"


def test_a_death_by_signal_is_reported_as_shells_do() -> None:
    done = run("0", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert done.returncode == 128 + signal.SIGKILL


def test_ranks() -> None:
    assert find_rank("4", {}) == 4
    assert find_rank("A,B", {"B": "2"}) == 2
    with pytest.raises(ValueError, match="A,B"):
        find_rank("A,B", {"A": "x"})


def test_lines_are_bounded() -> None:
    done = run("0", sys.executable, "-c", "print('x' * 70_000)")
    lines = done.stdout.splitlines()
    assert len(lines) > 1
    assert all(line.startswith(b"[rank=0] ") and len(line) < 70_000 for line in lines)
    assert b"".join(line.removeprefix(b"[rank=0] ") for line in lines) == b"x" * 70_000


def test_a_progress_bar_is_one_line() -> None:
    done = run("3", sys.executable, "-c", r"print('\r 10%\r 50%\r100%'); print('done\r')")
    assert done.stdout == b"[rank=3] 100%\n[rank=3] done\n"


def test_usage() -> None:
    done = run("0")
    assert done.returncode == 2
    assert b"COMMAND" in done.stderr
