"""Standard output that is full or closed: exit code 1 and one line, for every command and format."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Literal

import pytest

from determined.store.store import Store
from tests.cli.det_command import DET
from tests.cli.every_command import COMMANDS
from tests.cli.forking import Forking
from tests.cli.searched import Searched
from tests.helpers.records import opened
from tests.helpers.terminal import CTRL_C, Terminal, python

REASONS = {"full": "No space left on device", "closed": "it is closed"}
# Commands without output on standard output are not affected.
SILENT = ("queue serve",)


@pytest.mark.parametrize("output", ["full", "closed"])
def test_every_command_that_reads(
    output: Literal["full", "closed"], filled_store: dict[str, str], forking: Forking
) -> None:
    variables = {"XDG_DATA_HOME": os.environ["XDG_DATA_HOME"], "DET_STORE": ""}
    wrong = []
    for number, (name, case) in enumerate(COMMANDS.items()):
        if case.store == "writes" or case.elsewhere or name in SILENT:
            continue
        for form in ["", "--json", "--help"] if case.form != "none" else [""]:
            arguments = case.arguments.format(**filled_store, directory=f"directory-{number}{form}")
            words = [*name.split(), *shlex.split(arguments), *filter(None, [form])]
            result = forking.det(*words, environment=variables, cwd=Path.cwd(), output=output)
            told = f"standard output cannot be written: {REASONS[output]}\n"
            if result.code != 1 or result.stderr != told or result.stdout:
                wrong.append((words, result))
    assert not wrong, "\n".join(f"{words}: {result}" for words, result in wrong)


@pytest.mark.parametrize("output", [">/dev/full", ">&-"])
@pytest.mark.parametrize("words", ["--help", "--version", "e list --csv", "e logs 1"])
def test_a_separate_process(words: str, output: str, searched: Searched) -> None:
    """This includes the end of the interpreter, which has its own exit code for output that is lost: 120."""
    command = f"{shlex.join(DET)} {words} {output}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("standard output cannot be written: ")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_signal_while_a_terminal_is_written(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal arrives while a text that is larger than the buffer of the terminal is written."""
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    program = (
        "import signal, sys\n"
        "from determined.cli import streams\n"
        "signal.signal(signal.SIGINT, lambda *arguments: None)\n"
        "streams.prepare()\n"
        f"sys.{stream}.write('begin\\n' + 50_000 * 'some text\\n' + 'end\\n')\n"
    )
    with Terminal(python("-c", program)) as terminal:
        terminal.read_until(b"begin")
        terminal.write(CTRL_C)
        terminal.read_to_the_end()
        assert terminal.wait() == 0
    assert terminal.seen.replace(b"^C", b"").replace(b"\r", b"") == b"begin\n" + 50_000 * b"some text\n" + b"end\n"


def test_both_streams_closed(searched: Searched) -> None:
    done = subprocess.run(f"{shlex.join(DET)} e list >&- 2>&- <&-", shell=True, timeout=60)
    assert done.returncode == 1


@pytest.mark.parametrize("output", [pytest.param(">/dev/full", marks=pytest.mark.thorough), ">&-"])
def test_a_search_continues_and_says_at_its_end_that_output_was_lost(output: str, project: Path, store: Store) -> None:
    """And no output gets into files that were opened with the number of the closed stream."""
    command = f"{shlex.join(DET)} e create config.yaml model --slots 2 --config searcher.max_trials=1 {output}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("standard output cannot be written: ")
    assert store.experiments.get(1).state == "COMPLETED"
    assert not list(store.logs(1, 0, 10))[1:]


def test_a_change_is_made_although_output_is_lost(searched: Searched) -> None:
    command = f"{shlex.join(DET)} e label add 1 mine >/dev/full"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "standard output cannot be written: No space left on device\n")
    with opened(searched.home) as store:
        assert "mine" in store.experiments.get(1).labels
