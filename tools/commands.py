"""Build the reference page of `det` from the help of its commands."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from determined.cli.main import main


def commands_page() -> str:
    lines = [
        "# `det`",
        "",
        "Every command, from its help. An overview: [the command `det`](../cli.md).",
        "",
    ]
    for path, command in walk():
        lines += _command(path, command)
    return "\n".join(lines)


def walk() -> Iterator[tuple[str, click.Command]]:
    """Yield every command that is not a group, with its full name."""
    yield from _below("det", main)


def _below(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from _below(f"{path} {name}", found)


def _command(path: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    yield from [f"## `{path}`", "", "```text", f"{path} {' '.join(command.collect_usage_pieces(context))}", "```", ""]
    yield _help(command.help or "")
    options = [record for one in command.get_params(context) if (record := one.get_help_record(context)) is not None]
    if options:
        yield from ["", "| option | |", "|---|---|"]
        yield from (
            f"| `{_cell(names)}` | {_cell(text)} |" for names, text in options if text and "--help" not in names
        )
    yield ""


def _help(text: str) -> str:
    """Return a help text as Markdown: click's formatting marks are removed, and examples become code."""
    lines = [line for line in inspect.cleandoc(text).replace("\f", "").split("\n") if line.strip() != "\b"]
    shown = [
        f"Example: `{line.removeprefix('Example:').strip()}`" if line.startswith("Example:") else line for line in lines
    ]
    return "\n".join(shown).strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
