"""The root command `det`: names, abbreviations, help, errors in one line."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import determined
from determined.cli.groups import LazyGroup
from determined.cli.main import main
from determined.cli.running.run_or_queue import warnings_to
from determined.experimental.session import Session
from tests.cli.det_command import DET, det, det_json, det_ok, run_det
from tests.helpers.records import opened


def commands(group: LazyGroup, words: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command, str]]:
    """Return every command below a group, with the line of help that the group has for it."""
    found: list[tuple[tuple[str, ...], click.Command, str]] = []
    context = click.Context(group)
    for name, (_, line) in group.commands_in.items():
        command = group.get_command(context, name)
        assert command is not None
        found.append(((*words, name), command, line))
        if isinstance(command, LazyGroup):
            found += commands(command, (*words, name))
    return found


def test_version() -> None:
    assert det_ok("version") == f"{determined.__version__}\n"
    assert det_json("version") == {"version": determined.__version__}
    for option in ("--version", "-v"):
        assert determined.__version__ in det_ok(option)


def test_the_lines_of_help_are_those_of_the_commands_and_each_help_has_an_example() -> None:
    assert isinstance(main, LazyGroup)
    for words, command, line in commands(main):
        assert command.get_short_help_str(limit=1000) == line, words
        assert len(line) <= 60
        shown = det_ok(*words, "--help")
        assert re.search(f"Example: ([A-Z_]+=\\S+ )?det {' '.join(words)}", shown), words
    assert f"  version         {'Show the version.'}" in det_ok("--help")


def test_every_command_prints_json() -> None:
    assert isinstance(main, LazyGroup)
    without = [words for words, command, _ in commands(main) if "--json" not in str([p.opts for p in command.params])]
    groups = [words for words, command, _ in commands(main) if isinstance(command, LazyGroup)]
    assert [words for words in without if words not in groups] == [("completion",)]


def test_abbreviations_and_the_default_command() -> None:
    listed = det_ok("experiment", "list")
    for words in (["e"], ["e", "ls"], ["experiment"], ["e", "list", "--all"][:2]):
        assert det_ok(*words) == listed
    assert det_ok("e", "--json") == "[]\n"
    assert det_ok("m") == det_ok("model", "list") == det_ok("m", "ls")
    assert det("tensorboard").stderr == det("tensorboard", "start").stderr != ""
    for short, long in (("lt", "list-trials"), ("lc", "list-checkpoints"), ("unpause", "activate")):
        assert det_ok("e", short, "--help").partition("\n")[2] == det_ok("e", long, "--help").partition("\n")[2]


def test_master_and_user_are_accepted_and_explained() -> None:
    result = det("-m", "http://localhost:8080", "-u", "admin", "e", "ls")
    assert result.exit_code == 0
    master, user = result.stderr.splitlines()
    assert master.startswith("-m/--master has no effect: there is no master")
    assert user.startswith("-u/--user has no effect")


@pytest.mark.parametrize(
    "words",
    [
        ["user", "login"],
        ["user", "login", "admin", "-p", "secret"],
        ["user", "logout", "-a"],
        ["user", "whoami"],
        ["user"],
        ["auth"],
        ["auth", "login", "--provider", "saml"],
    ],
)
def test_scripts_that_log_in_continue(words: list[str]) -> None:
    said = det_ok(*words)
    assert "there are no accounts" in said
    assert "secret" not in said
    assert det_json(*words)["accounts"] is False


def test_calls_of_the_old_interface_get_advice() -> None:
    result = det("dev", "curl", "/api/v1/experiments")
    assert result.exit_code == 2
    assert "No such command 'dev': there is no REST interface to call: use `--json`" in result.stderr


def test_options_of_a_cluster_are_accepted(store: object, search: int) -> None:
    del store
    assert det_ok("e", "list-checkpoints", str(search), "--include-resources") == det_ok("e", "lc", str(search))
    result = det("model", "list", "-w", "mine")
    assert result.exit_code == 0
    assert "-w/--workspace-names has no effect: there are no workspaces" in result.stderr


@pytest.mark.parametrize("words", [["nonsense"], ["e", "nonsense"], ["e", "describe"], ["e", "describe", "1,x"]])
def test_usage_errors_have_exit_code_2(words: list[str]) -> None:
    result = det(*words)
    assert result.exit_code == 2
    assert words[-1] in result.stderr


@pytest.mark.parametrize(
    "command",
    ["describe", "config", "list-trials", "list-checkpoints", "logs", "wait", "pause", "activate", "cancel", "kill"],
)
def test_an_unknown_id_is_one_line_and_exit_code_1(command: str) -> None:
    result = det("e", command, "7")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == "Experiment 7 not found.\n"


def test_stores_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(b"no database" * 1000)
    newer = tmp_path / "newer.sqlite"
    monkeypatch.setenv("DET_STORE", str(newer))
    with opened():
        pass
    import sqlite3

    connection = sqlite3.connect(newer)
    connection.execute("UPDATE determined_schema SET version = 99")
    connection.commit()
    connection.close()
    expected = {
        str(damaged): f"the store {damaged} cannot be used: file is not a database",
        str(newer): "was written by a newer version of determined-pytorch",
        str(tmp_path): str(tmp_path),
        "mysql://me:secret@host/x": "cannot name a store",
        "": "",
    }
    for place, words in expected.items():
        monkeypatch.setenv("DET_STORE", place)
        result = det("e", "ls")
        if not place:  # as if it were not set
            assert result.exit_code == 0
            continue
        assert result.exit_code == 1
        (line,) = result.stderr.splitlines()
        assert line.startswith("Cannot list the experiments: ")
        assert words in line
        assert "secret" not in line


def test_a_reader_that_has_seen_enough(store: object, search: int) -> None:
    """As `det e logs 1 | head -1`: no traceback, nothing on stderr."""
    del store
    reading, writing = os.pipe()
    os.close(reading)
    for words in (["e", "ls"], ["e", "logs", str(search), "--all"], ["e", "describe", str(search), "--json"]):
        done = subprocess.run([*DET, *words], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.stderr == ""
        assert done.returncode in (0, 1)
    os.close(writing)


def test_commands_that_read_load_nothing_heavy(search: int) -> None:
    program = (
        "import sys\nfrom determined.cli.main import main\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = {'torch', 'numpy', 'pydantic', 'rich', 'psutil', 'ruamel'} & set(sys.modules)\n"
        "    heavy -= {'numpy'} if 'compare' in sys.argv else set()  # for its curves\n"
        "    assert not heavy, heavy\n"
    )
    for words in (
        ["e"],
        ["e", "describe", str(search), "--metrics"],
        ["e", "logs", str(search)],
        ["e", "compare", str(search)],
        ["t", "describe", "1"],
        ["t", "logs", "1"],
        ["m"],
        ["e", "create", "-h"],
    ):
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


def test_names_that_the_terminals_encoding_has_not(weird: int) -> None:
    del weird
    done = run_det("e", "ls", env={**os.environ, "PYTHONIOENCODING": "iso-8859-1"})
    assert done.returncode == 0, done.stderr
    assert "\\u65e5" in done.stdout


def test_warnings_of_the_library_show_their_level(capsys: pytest.CaptureFixture[str]) -> None:
    """Printed by any command, once, and by the runner of an experiment among its own lines."""
    det_ok("version")
    det_ok("version")
    logger = logging.getLogger("determined.store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.root, "handlers", [])  # of pytest
        logger.warning("careful")
        logger.error("lost")
        said: list[str] = []
        with warnings_to(said.append):
            logger.warning("among lines")
        assert capsys.readouterr().err.splitlines() == ["WARNING: careful", "ERROR: lost"]
        assert said == ["WARNING: among lines"]
        Session(None)  # of the SDK
        logger.warning("again")
        assert capsys.readouterr().err.splitlines() == ["WARNING: again"]
