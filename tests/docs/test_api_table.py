"""The API table is true: names that work exist, absent ones do not, and no public name is missing."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from tools import api_table, surface
from tools.commands import walk

from determined.cli.main import main
from determined.config.blocks.block import TAG
from determined.config.blocks.experiment import ExperimentConfig
from determined.config.experiment import load_experiment
from determined.config.reading.catalog import catalog
from determined.config.reading.load import load_yaml
from determined.errors import InvalidExperimentConfig

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = api_table.sections()
THERE = ("works", "warns", "accepted")


def entries(kind: str) -> list[api_table.Entry]:
    return [entry for section in SECTIONS if section.kind == kind for entry in section.entries]


def names(kind: str, *statuses: str) -> list[str]:
    return [name for entry in entries(kind) if entry.status in statuses for name in entry.names]


def test_the_table_is_up_to_date() -> None:
    assert api_table.PAGE.read_text() == api_table.page(), "docs/api-table.md is out of date: run `make reference`"


def test_every_name_that_works_can_be_found() -> None:
    assert [name for name in names("python", *THERE) if not is_there(name)] == []


def test_what_is_not_there_cannot_be_found() -> None:
    assert [name for name in names("python", "absent", "refused") if is_there(name)] == []


def test_every_public_name_is_listed() -> None:
    listed = {api_table_name.partition("(")[0] for api_table_name in names("python", *THERE)}
    missing = [name for name in surface.all_names() if name not in listed]
    assert not missing, _add(missing)


def test_no_name_has_two_fates() -> None:
    listed = [name for section in SECTIONS for entry in section.entries for name in entry.names]
    assert sorted({name for name in listed if listed.count(name) > 1}) == []


def _add(missing: Iterable[str]) -> str:
    return f"add to tools/api_names.txt, then run `make reference`: {', '.join(sorted(missing))}"


def is_there(name: str) -> bool:
    """Return whether a full name exists: a module, a member, an attribute of its objects, an argument."""
    path, _, argument = name.rstrip(")").partition("(")
    try:
        found = find(path)
    except (AttributeError, ImportError):
        return False
    return not argument or argument in inspect.signature(found).parameters


def find(path: str) -> Any:
    parts = path.split(".")
    found: Any = importlib.import_module(parts[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # the message of an old name when it is used
        for position, part in enumerate(parts[1:], 1):
            try:
                found = getattr(found, part)
            except AttributeError:
                if not inspect.isclass(found):
                    found = importlib.import_module(".".join(parts[: position + 1]))
                elif not is_made_in_the_constructor(found, part):
                    raise
                else:
                    return None
    return found


def is_made_in_the_constructor(cls: type[Any], attribute: str) -> bool:
    fields = getattr(cls, "__dataclass_fields__", {})
    bases = [base for base in cls.__mro__ if base.__module__.startswith("determined")]
    return attribute in fields or any(attribute in surface.made_attributes(base) for base in bases)


# Configurations

SMALL = {"entrypoint": "python3 train.py", "searcher": {"name": "single", "metric": "loss"}}


def test_every_field_of_a_configuration_is_listed() -> None:
    places = catalog(ExperimentConfig).items()
    known = {
        ".".join([*(one for one in at if not one.startswith(TAG)), name]) for at, found in places for name in found
    }
    listed = set(names("configuration", "works", "read"))
    assert known <= listed, _add(known - listed)
    assert sorted(listed - known) == []


TRIED = [entry for entry in entries("configuration") if entry.example]


@pytest.mark.parametrize("entry", TRIED, ids=lambda entry: (entry.names + entry.described)[0])
def test_a_field_does_what_the_table_says(entry: api_table.Entry) -> None:
    config = SMALL | load_yaml(entry.example)
    if entry.status == "refused":
        with pytest.raises(InvalidExperimentConfig):
            load_experiment(config)
        return
    loaded = load_experiment(config)
    said = {"works": not loaded.notes and not loaded.warnings, "read": bool(loaded.warnings), "old": bool(loaded.notes)}
    assert said[entry.status], (loaded.notes, loaded.warnings)


def test_a_field_that_does_nothing_as_written_has_an_example() -> None:
    silent = [entry for entry in entries("configuration") if entry.status in ("read", "old", "refused")]
    assert [entry.names for entry in silent if not entry.example] == []


# Variables and commands


def test_every_variable_is_known_to_the_library_and_listed() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    listed = names("variables", "works")
    assert [name for name in listed if name not in sources] == []
    assert [name for name in names("variables", "absent") if name in sources] == []
    used = set(re.findall(r"\bDET_[A-Z_]*[A-Z]\b", sources))
    assert used <= set(listed), _add(used - set(listed))


def test_every_command_is_listed_and_there() -> None:
    commands = dict(walk())
    listed = names("commands", *THERE)
    assert commands.keys() <= set(listed), _add(commands.keys() - set(listed))
    assert [name for name in listed if not has_command(commands, name)] == []
    assert [name for name in names("commands", "absent", "refused") if has_command(commands, name)] == []


@pytest.mark.parametrize("name", names("commands", "refused"))
def test_a_command_that_is_refused_says_why(name: str) -> None:
    done = CliRunner().invoke(main, name.split()[1:])
    assert done.exit_code == 2
    assert re.search(r"No such command '[\w-]+': .{15}", done.output), done.output


def refused_below_modules() -> list[str]:
    refused = names("python", "refused")
    return [name for name in refused if not re.search(r"\.[A-Z]", name)]  # members of objects need an object


@pytest.mark.parametrize("name", refused_below_modules())
def test_a_name_that_is_refused_says_why(name: str) -> None:
    parent, _, last = name.rpartition(".")
    is_function = parent.endswith(".client")
    with pytest.raises((ModuleNotFoundError, AttributeError), match=r": .{15}"):
        getattr(importlib.import_module(parent), last) if is_function else importlib.import_module(name)


def test_a_module_that_is_not_here_says_why_however_it_is_imported() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"there is no determined\.keras here: only PyTorch is supported"):
        from determined import keras  # noqa: F401


def has_command(commands: dict[str, click.Command], name: str) -> bool:
    path, _, option = name.partition(" --")
    known = path in commands
    return known and (not option or any(f"--{option}" in one.opts for one in commands[path].params))
