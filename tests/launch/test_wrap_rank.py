"""Lines with their rank before them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from determined.launch.wrap_rank import find_rank, split_lines


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
    assert done.stdout == b"[rank=3] a\n[rank=3] b\n[rank=3] c\n[rank=3] \n[rank=3] last\n"
    assert done.stderr == b"[rank=3] err\n"
    assert done.returncode == 5


def test_without_redirection_the_output_is_left_alone() -> None:
    done = run("--no-redirect-stdio", "7", sys.executable, "-c", "print('plain')")
    assert done.stdout == b"plain\n"


def test_a_death_by_signal_is_told_as_shells_do() -> None:
    done = run("0", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert done.returncode == 128 + signal.SIGKILL


def test_ranks() -> None:
    assert find_rank("4", {}) == 4
    assert find_rank("A,B", {"B": "2"}) == 2
    with pytest.raises(ValueError, match="A,B"):
        find_rank("A,B", {"A": "x"})


def test_lines_are_bounded() -> None:
    assert split_lines(b"a", b"b\nc") == ([b"ab"], b"c")
    assert split_lines(b"", b"x" * 70_000) == ([b"x" * 70_000], b"")


def test_usage() -> None:
    done = run("0")
    assert done.returncode == 2
    assert b"COMMAND" in done.stderr
