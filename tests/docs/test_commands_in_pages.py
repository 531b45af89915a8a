"""Commands of `det` that pages mention, in blocks or in sentences, exist and have the options that are shown."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from tools import recording

from determined.cli.groups import LazyGroup
from determined.cli.main import main
from tests.docs.test_pages import PAGES, ROOT

QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(det [^`&|]+)[^`]*`")
WRITTEN = [page for page in PAGES if page.name != "api-table.md" and page.parent.name != "reference"]  # not by programs


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_exist(page: Path) -> None:
    wrong = [f"{command}: {trouble}" for command in commands(page.read_text()) if (trouble := look_up(command))]
    assert wrong == []


def test_a_wrong_command_is_noticed() -> None:
    assert look_up("det experiment craete config.yaml") == "there is no experiment craete"
    assert look_up("det e create config.yaml . --dryrun") == "experiment create has no --dryrun"
    assert look_up("det run --label x python train.py --epochs 3") == ""


def test_the_picture_shows_commands_that_exist() -> None:
    picture = re.sub(r"<[^>]+>", "", (ROOT / "docs" / "det.svg").read_text()).replace("&#160;", " ")
    for command in recording.COMMANDS:
        assert f"$ {command}" in picture, "python -m tools.recording writes the picture again"
        assert [look_up(found) for found in commands(f"```sh\n{command}\n```\n")] == [""]


def commands(text: str) -> list[str]:
    """Yield the lines of `sh` blocks, and the texts between backticks."""
    typed = [line for block in SHELL.findall(text) for line in block.split("\n")]
    found = [part for line in typed for part in re.findall(r"(?<![\w/.-])det (?:[^|;&>)#]*)", line)]
    return [command.strip() for command in [*found, *INLINE.findall(text)]]


def look_up(command: str) -> str:
    """Return what is wrong with a command, or None."""
    found: click.Command = main
    path: list[str] = []
    for word in QUOTED.sub("quoted", command).split()[1:]:
        name = word.partition("=")[0]
        if name.startswith("-") and name.strip("-"):
            if not has_option(found, name):
                return f"{' '.join(path)} has no {name}"
        elif isinstance(found, LazyGroup):
            inner = found.get_command(click.Context(found), word)
            if inner is None and not path and "://" in word:
                continue  # the value of a global option
            if inner is None:
                return f"there is no {' '.join([*path, word])}"
            found = inner
            path.append(found.name or word)
        elif not found.context_settings.get("allow_interspersed_args", True):
            break  # all that follows belongs to another program
    return ""


def has_option(command: click.Command, name: str) -> bool:
    if isinstance(command, LazyGroup) and command.default is not None:
        inner = command.get_command(click.Context(command), command.default)
        if inner is not None and has_option(inner, name):
            return True
    known = [option for one in command.get_params(click.Context(command)) for option in one.opts + one.secondary_opts]
    return name in known
