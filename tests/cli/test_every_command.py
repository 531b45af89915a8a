"""Every command, on a store that a search filled, on an empty one, a locked one, a damaged one, and a newer one."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shlex
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest

from determined.cli.groups import LazyGroup
from determined.cli.main import main
from tests.cli.det_command import DET
from tests.cli.every_command import COMMANDS, Case
from tests.cli.filling import new_experiment
from tests.cli.forking import Forking, Result
from tests.cli.projects import CONFIG, PROGRAM
from tests.cli.searched import Searched
from tests.helpers.records import opened

PATIENCE = "0.2"
SEARCH_RUNS_HERE = [name for name, case in COMMANDS.items() if not case.elsewhere]
IDS = ("experiment", "trial", "idle", "model")  # numbers, or what may be one
WITH_STORE = [name for name, case in COMMANDS.items() if case.store != "none"]


@pytest.fixture
def given(tmp_path: Path) -> dict[str, str]:
    """Return a project, and ids of objects that may exist or not."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "train.py").write_text(PROGRAM)
    (tmp_path / "config.yaml").write_text(CONFIG)
    ids = {"experiment": "1", "trial": "1", "checkpoint": "none", "spare": "none", "idle": "2", "model": "digits"}
    header = {"format": "determined-store", "version": 1, "schema": 4}
    (tmp_path / "export.jsonl").write_text(f'{json.dumps(header)}\n{{"end": {{}}}}\n')
    paths = {"config": "config.yaml", "model_dir": "model", "directory": "fetched", "export": "export.jsonl"}
    return {**ids, **paths}


@pytest.fixture
def filled(searched: Searched, given: dict[str, str], request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the values of the arguments in the store with the search."""
    case: Case = COMMANDS[request.node.callspec.params["name"]]
    registered = searched.checkpoint(1, 8).checkpoint_id
    with opened() as store:
        new_experiment(store, "nobody runs it")
        if "{model}" in case.arguments or case.tables:
            store.registry.register(store.registry.create_model("digits").id, registered)
    return {**given, "checkpoint": registered, "spare": searched.checkpoint(2, 4).checkpoint_id}


@pytest.fixture
def place(data_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the path of the file of an empty store, in the working directory of this test."""
    monkeypatch.chdir(tmp_path)
    with opened():
        pass
    return data_home / "determined" / "store.sqlite"


def serves(case: Case) -> bool:
    """Whether the command reads the store and runs until it is ended."""
    return bool(case.elsewhere) and case.store == "reads"


def words_of(name: str, given: dict[str, str]) -> list[str]:
    return [*name.split(), *(word.format(**given) for word in shlex.split(COMMANDS[name].arguments))]


def forked(forking: Forking, *words: str) -> Result:
    environment = {
        "XDG_DATA_HOME": os.environ["XDG_DATA_HOME"],
        "DET_STORE": os.environ.get("DET_STORE", ""),
        "DET_STORE_PATIENCE": PATIENCE,
    }
    return forking.det(*words, environment=environment, cwd=Path.cwd())


def assert_refused(result: Result, words: str) -> None:
    """Check for one line, exit code 1, and no other output."""
    assert result.code == 1, result
    assert result.stdout == "", result
    (line,) = result.stderr.splitlines()
    assert line.startswith("Cannot ") or line.endswith(" not found."), line
    assert words in line, line


def parse(text: str, case: Case) -> Any:
    """Parse strictly: no NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    if case.form == "lines":
        return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]
    return json.loads(text, parse_constant=refuse)


def keys_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner)


def heads_of(text: str) -> list[tuple[str, ...]]:
    """Return the headings of all tables in a text: the line above a line of dashes."""
    lines = text.splitlines()
    return [
        tuple(name.strip() for name in above.split(" | "))
        for above, line in pairwise(lines)
        if line and set(line) <= set("-+")
    ]


def has_option(name: str, option: str) -> bool:
    command: click.Command = main
    for word in name.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return any(option in parameter.opts for parameter in command.params)


def all_commands(group: LazyGroup, words: tuple[str, ...] = ()) -> Iterator[str]:
    for name in group.commands_in:
        command = group.get_command(click.Context(group), name)
        if isinstance(command, LazyGroup):
            yield from all_commands(command, (*words, name))
        else:
            yield " ".join((*words, name))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_no_command_is_left_out() -> None:
    assert isinstance(main, LazyGroup)
    assert set(all_commands(main)) == set(COMMANDS)
    here = Path(__file__).parent
    for name, case in COMMANDS.items():
        if case.elsewhere:
            assert f'"{name.split()[-1]}"' in (here / case.elsewhere).read_text(), name


@pytest.mark.parametrize("name", SEARCH_RUNS_HERE)
def test_with_a_search(name: str, filled: dict[str, str], forking: Forking, searched: Searched) -> None:
    """In a separate process with --json, and with the output for people."""
    case = COMMANDS[name]
    words = words_of(name, filled)
    if case.form != "none":
        done = subprocess.run([*DET, *words, "--json"], capture_output=True, text=True, timeout=60)
        assert done.returncode == case.exit_code, done.stderr
        if done.returncode == 0:
            printed = parse(done.stdout, case)
            assert printed is not None
            assert all(key == key.lower() and " " not in key for key in keys_of(printed)), printed
        else:
            assert case.words in done.stderr
    if case.form != "none" and case.store == "writes":
        return  # it has been done, and cannot be repeated
    shown = forked(forking, *words_of(name, {**filled, "directory": "fetched again"}))
    assert shown.code == case.exit_code, shown
    assert heads_of(shown.stdout) == list(case.tables)
    assert shown.stdout or case.exit_code, shown
    if has_option(name, "--csv") and len(case.tables) == 1:
        listed = forked(forking, *words_of(name, filled), "--csv")
        assert listed.stderr == ""
        assert tuple(next(csv.reader(listed.stdout.splitlines()))) == case.tables[0]


@pytest.mark.parametrize("name", [*WITH_STORE, *(name for name in SEARCH_RUNS_HERE if name not in WITH_STORE)])
def test_on_an_empty_store(name: str, given: dict[str, str], place: Path, forking: Forking) -> None:
    """Lists are empty without an error; a missing object that is named is one line."""
    case = COMMANDS[name]
    for form in [[], ["--json"]] if case.form != "none" and case.store != "writes" else [[]]:
        result = forked(forking, *words_of(name, {**given, "directory": "-".join(["fetched", *form])}), *form)
        if case.empty_exit_code:
            assert_refused(result, "")
        else:
            assert result.code == 0, result
            assert not form or parse(result.stdout, case) is not None
            assert form or heads_of(result.stdout) == list(case.tables)


@pytest.mark.parametrize("name", [name for name in WITH_STORE if not serves(COMMANDS[name])])
def test_while_another_process_writes(name: str, filled: dict[str, str], searched: Searched, forking: Forking) -> None:
    """Commands that only read do not wait; commands that write fail after a while, and name the writer."""
    case = COMMANDS[name]
    with closing(sqlite3.connect(searched.home / "determined" / "store.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        result = forked(forking, *words_of(name, filled))
        other.execute("ROLLBACK")
    if case.store == "writes" and not case.exit_code:
        assert result.code == 1, result
        assert f"other processes have been writing to it for {PATIENCE} seconds" in result.stderr.splitlines()[-1]
        assert "Traceback" not in result.stderr
    else:
        assert result.code == case.exit_code, result


@pytest.mark.parametrize("name", WITH_STORE)
@pytest.mark.parametrize("damage", ["no database", "pages"])
def test_on_a_damaged_store(name: str, damage: str, given: dict[str, str], place: Path, forking: Forking) -> None:
    case = COMMANDS[name]
    content = place.read_bytes()
    place.write_bytes(b"no database" * 1000 if damage == "no database" else content[:4096] + b"\xa5" * 100_000)
    before = digest(place)
    result = forked(forking, *words_of(name, given))
    if case.reports:
        assert result.code == 1
        assert "Traceback" not in result.stdout + result.stderr
    else:
        assert_refused(result, "not a database" if damage == "no database" else "malformed")
    assert digest(place) == before


@pytest.mark.parametrize("name", WITH_STORE)
def test_on_a_store_of_a_newer_version(name: str, given: dict[str, str], place: Path, forking: Forking) -> None:
    case = COMMANDS[name]
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        connection.execute("UPDATE determined_schema SET version = 99")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = digest(place)
    result = forked(forking, *words_of(name, given))
    if case.reports:
        assert result.code == 1
        assert "a newer version" in result.stdout + result.stderr
    else:
        assert_refused(result, "was written by a newer version of determined-pytorch")
    assert digest(place) == before


@pytest.mark.parametrize(
    "name", [name for name in WITH_STORE if any(f"{{{kind}}}" in COMMANDS[name].arguments for kind in IDS)]
)
def test_with_an_id_that_no_store_can_hold(name: str, given: dict[str, str], place: Path, forking: Forking) -> None:
    """One clear line about it, whichever part of the code notices the number."""
    beyond = dict.fromkeys(IDS, str(10**20))
    result = forked(forking, *words_of(name, {**given, **beyond}))
    assert result.code in (1, 2), result
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    said = result.stderr.splitlines()
    assert len(said) == 1 if result.code == 1 else said[-1].startswith("Error: Invalid value"), said


@pytest.mark.parametrize(
    "words",
    [
        "experiment list --limit {n}",
        "experiment list --offset {n}",
        "experiment describe 1,{n}",
        "trial logs 1 --head {n}",
        "trial logs 1 --tail {n}",
        "trial logs 1 --rank-id {n}",
        "experiment set max-slots 1 {n}",
    ],
)
def test_numbers_that_no_store_can_hold(words: str, searched: Searched, forking: Forking) -> None:
    result = forked(forking, *words.format(n=10**20).split())
    assert result.code in (1, 2), result
    assert result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert f"{10**20} is too large" in last or "no whole number of more than 64 bits" in last, result.stderr
