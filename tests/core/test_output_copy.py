"""Standalone runs store their output, their command and how they ended; terminals work as before."""

from __future__ import annotations

import itertools
import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from determined import core
from determined.core.output_capture import output_limit
from determined.core.output_capture.output_copy import _Lines
from determined.core.output_capture.output_limit import OutputLimit, PrintedLine
from determined.store.experiment_records import Trial
from tests.helpers import warm
from tests.helpers.ranks import run_ranks
from tests.helpers.records import opened

REPORT = "context.train.report_validation_metrics(1, {'loss': 0.5})\n"


def program(tmp_path: Path, body: str, arguments: str = "") -> list[str]:
    """Return a script that runs `body` inside a run."""
    indented = "".join(f"    {line}\n" for line in body.splitlines())
    file = tmp_path / "train.py"
    file.write_text(
        f"import os, sys, time\nfrom determined import core\nwith core.init({arguments}) as context:\n{indented}"
    )
    return [sys.executable, str(file)]


def logged(data_home: Path, trial_id: int = 1) -> list[tuple[str, str]]:
    with opened(data_home) as store:
        return [(line.stream, line.text) for line in store.logs(trial_id)]


def recorded(data_home: Path) -> Trial:
    with opened(data_home) as store:
        return store.experiments.trial(1)


def test_a_failed_run_keeps_its_output_and_the_traceback(
    data_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "hunter2hunter2")
    body = (
        "print('one', 2)\n"
        "print('\\x1b[31mred\\x1b[0m', file=sys.stderr)\n"
        "print('step 1', end='\\r'); print('step 2', end='\\r'); print('step 3 done')\n"
        "print('token', os.environ['MY_API_TOKEN'])\n"
        "1 / len([])"
    )
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("1234567890" * 4 + "\n")
    done = warm.run(
        [*program(tmp_path, body), "--lr", "0.1", "--password", "swordfish"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "one 2" in done.stdout
    assert "token hunter2hunter2" in done.stdout, "the terminal shows what the program prints"

    lines = logged(data_home)
    assert lines[:4] == [
        ("stdout", "one 2"),
        ("stderr", "\x1b[31mred\x1b[0m"),
        ("stdout", "step 3 done"),
        ("stdout", "token ********"),
    ]
    assert lines[4] == ("stderr", "Traceback (most recent call last):")
    assert lines[-1] == ("stderr", "ZeroDivisionError: division by zero")
    trial = recorded(data_home)
    assert trial.state == "ERROR"
    assert trial.reason is not None
    assert trial.reason.startswith("Traceback (most recent call last):\n")
    assert "train.py" in trial.reason
    assert trial.reason.endswith("ZeroDivisionError: division by zero")
    assert (trial.exit_code, trial.host, trial.git_commit) == (1, os.uname().nodename, "1234567890" * 4)


def test_the_command_line_is_stored_without_secrets(data_home: Path, tmp_path: Path) -> None:
    command = [*program(tmp_path, REPORT), "--name", "two words", "--password", "swordfish"]
    subprocess.run(command, check=True)
    trial = recorded(data_home)
    assert trial.command is not None
    assert re.fullmatch(r"python[\d.]* \S+/train\.py --name 'two words' --password '\*{8}'", trial.command)
    assert (trial.exit_code, trial.reason) == (0, None)


def test_lines_of_a_killed_run_are_stored(data_home: Path, tmp_path: Path) -> None:
    body = REPORT + "print('the last words')\nprint('half a line', end='', flush=True)\ntime.sleep(600)"
    run = warm.Popen(program(tmp_path, body), stdout=subprocess.PIPE, text=True)
    try:
        while not (data_home / "determined" / "store.sqlite").exists() or not logged(data_home):
            select.select([], [], [], 0.02)
        assert run.poll() is None
    finally:
        run.kill()
        run.communicate()
    assert logged(data_home) == [("stdout", "the last words")]
    trial = recorded(data_home)
    assert (trial.state, trial.exit_code) == ("ERROR", None)
    assert trial.reason is not None
    assert trial.reason.startswith("The process ended without reporting its end")


TERMINAL = """
print("terminal:", sys.stdout.isatty(), sys.stderr.isatty(), sys.stdout.fileno(), os.get_terminal_size(1).columns)
name = input("your name? ")
print("hello", name)
breakpoint()
context.train.report_validation_metrics(1, {"loss": 0.5})
"""


def test_terminals_input_and_the_debugger_work(data_home: Path, tmp_path: Path) -> None:
    child, terminal = pty.fork()
    if child == 0:
        command = program(tmp_path, TERMINAL.strip())
        os.execv(command[0], command)
    shown = ""
    answers = [("your name? ", "Ada\n"), ("(Pdb) ", "p name * 2\n"), ("AdaAda", ""), ("(Pdb) ", "continue\n")]
    try:
        for prompt, answer in answers:
            while prompt not in shown:
                shown += os.read(terminal, 1024).decode()
            everything, shown = shown, shown.partition(prompt)[2]
            assert everything
            os.write(terminal, answer.encode())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(terminal)
    texts = [text for _, text in logged(data_home)]
    assert texts[0].startswith("terminal: True True 1 ")
    assert "hello Ada" in texts
    assert any("'AdaAda'" in text for text in texts), "what the debugger prints is output as well"


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_it_can_be_switched_off(data_home: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "environment":
        monkeypatch.setenv("DET_STORE_OUTPUT", "0")
    with core.init(store_output=False if how == "argument" else None) as context:
        assert "write" not in vars(sys.stdout)
        print("not stored")  # noqa: T201
        context.train.report_validation_metrics(1, {"loss": 0.5})
    assert logged(data_home) == []


def test_what_is_no_truth_value_is_refused(data_home: Path) -> None:
    with pytest.raises(TypeError, match="init: store_output must be True, False or None, got 'no'"):
        core.init(store_output="no")  # type: ignore[arg-type]


def test_streams_are_restored_in_any_order(data_home: Path) -> None:
    before = sys.stdout.write
    outer, inner = core.init().start(), core.init().start()
    for context in (outer, inner):
        context.train.report_validation_metrics(1, {"loss": 0.5})
    print("both")  # noqa: T201
    inner.close()
    print("outer alone")  # noqa: T201
    outer.close()
    assert sys.stdout.write == before
    print("neither")  # noqa: T201
    assert [text for _, text in logged(data_home, 1)] == ["both", "outer alone"]
    assert [text for _, text in logged(data_home, 2)] == ["both"]


CELLS = """
import asyncio
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance(history_length=0)
for cell in (
    "print('earlier cell')",
    "import asyncio; from determined import core; run = core.init(); run.__enter__(); print('cell of init')",
    "run.train.report_validation_metrics(1, {'loss': 1.0}); print('later cell')",
    "await asyncio.sleep(0); print('awaiting cell')",
    "import sys; print('last cell', file=sys.stderr)",
    "run.__exit__(None, None, None); print('after the run')",
):
    if "await" in cell:  # as Jupyter runs it: `write` is not replaced
        asyncio.run(shell.run_cell_async(cell, transformed_cell=cell))
    else:
        shell.run_cell(cell)
"""


def test_cells_after_that_of_init_are_stored_once(data_home: Path, tmp_path: Path) -> None:
    """IPython replaces `write` of both streams during a cell, and then restores what it found before it."""
    file = tmp_path / "cells.py"
    file.write_text(CELLS)
    env = {**os.environ, "IPYTHONDIR": str(tmp_path)}
    done = warm.run([sys.executable, str(file)], capture_output=True, text=True, env=env)
    assert done.stdout.splitlines()[-1] == "after the run", done.stderr
    assert logged(data_home) == [
        ("stdout", "cell of init"),
        ("stdout", "later cell"),
        ("stdout", "awaiting cell"),
        ("stderr", "last cell"),
    ]


def test_what_only_looks_around_leaves_nothing(data_home: Path) -> None:
    with core.init():
        print("a line")  # noqa: T201
    with opened(data_home) as store:
        assert store.experiments.list() == []


def test_a_program_that_never_closes_its_run(data_home: Path, tmp_path: Path) -> None:
    file = tmp_path / "open.py"
    file.write_text(
        "from determined import core\ncontext = core.init().start()\nprint('early')\n"
        "context.train.report_validation_metrics(1, {'loss': 0.5})\nprint('late')\nprint('cut', end='')\n"
    )
    warm.run([sys.executable, str(file)], check=True)
    assert [text for _, text in logged(data_home)] == ["early", "late", "cut"]


def test_an_attempt_after_another_has_its_own_lines(data_home: Path) -> None:
    with core.init() as context:
        context.begin_attempt()
        print("first")  # noqa: T201
        context._supervisor.flush()
        context.begin_attempt(steps_completed=1)
        print("second")  # noqa: T201
    with opened(data_home) as store:
        assert [(line.text, line.rank) for line in store.logs(1)] == [("first", 0), ("second", 0)]


def of_ranks() -> None:
    distributed = core.DistributedContext.from_torch_distributed()
    with core.init(distributed=distributed) as context:
        print("from rank", distributed.rank)  # noqa: T201
        if distributed.rank == 0:
            context.train.report_validation_metrics(1, {"loss": 0.5})
        distributed.allgather(None)


def test_every_rank_has_its_lines(data_home: Path) -> None:
    run_ranks(of_ranks, n=2)
    with opened(data_home) as store:
        lines = sorted((line.rank, line.text) for line in store.logs(1) if line.stream == "stdout")
    assert lines == [(0, "from rank 0"), (1, "from rank 1")]


@pytest.mark.parametrize(
    ("end", "state", "code", "reason"),
    [
        ("sys.exit(3)", "ERROR", 3, None),
        ("sys.exit('no data')", "ERROR", 1, "no data"),
        ("sys.exit(143)", "PAUSED", 143, None),
        ("sys.exit()", "COMPLETED", 0, None),
    ],
)
def test_exit_codes(data_home: Path, tmp_path: Path, end: str, state: str, code: int, reason: str | None) -> None:
    assert warm.run(program(tmp_path, REPORT + end), stderr=subprocess.DEVNULL).returncode == code
    trial = recorded(data_home)
    assert (trial.state, trial.exit_code, trial.reason) == (state, code, reason)


TEXT = st.text(st.sampled_from("ab \r\n\x1b[K"), max_size=40)


@given(TEXT, st.lists(st.integers(0, 40)))
def test_lines_do_not_depend_on_where_pieces_are_cut(text: str, cuts: list[int]) -> None:
    whole, cut = _Lines(), _Lines()
    expected = whole.feed(text) + whole.flush()
    places = sorted({0, len(text), *(min(place, len(text)) for place in cuts)})
    found = [line for start, end in itertools.pairwise(places) for line in cut.feed(text[start:end])]
    assert found + cut.flush() == expected
    assert not any("\r" in line or "\n" in line for line in expected)


def lines_of(count: int, written: float, size: int = 4) -> list[PrintedLine]:
    return [PrintedLine("stdout", "x" * size, written) for _ in range(count)]


def test_floods_are_cut_with_a_line_that_says_so() -> None:
    limit = OutputLimit()
    kept = limit.admitted(lines_of(output_limit.LINES_AT_ONCE + 500, 1000.0))
    assert len(kept) == output_limit.LINES_AT_ONCE
    later = limit.admitted(lines_of(1, 1001.0))
    assert [line.text for line in later][1:] == ["xxxx"]
    assert later[0].text.startswith("WARNING: 500 lines were not stored here: ")
    assert limit.summary(1002.0) == []


def test_the_complete_log_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_limit, "BYTES_IN_ALL", 100)
    limit = OutputLimit()
    kept: list[Any] = limit.admitted(lines_of(30, 1000.0))
    assert len(kept) == 25
    assert [line.text.partition(":")[0] for line in limit.summary(1000.0)] == ["WARNING"]


@pytest.mark.parametrize(
    ("setup", "shown"), [("", "WARNING: careful"), ("logging.basicConfig(format='mine: %(message)s')", "mine: careful")]
)
def test_warnings_show_their_level(data_home: Path, tmp_path: Path, setup: str, shown: str) -> None:
    body = f"import logging\n{setup}\nlogging.getLogger('determined.pytorch').warning('careful')\n{REPORT}"
    done = warm.run(program(tmp_path, body), capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [shown]
    assert logged(data_home) == [("stderr", shown)]
