"""The root of `det`: it knows its nouns by name and imports one only when it is used."""

from __future__ import annotations

import importlib

import click

import determined

# Each noun is one file of this room with a command of the same name.
_NOUNS = ("version",)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_NOUNS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _NOUNS:
            return None
        command = getattr(importlib.import_module(f"determined.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(determined.__version__, prog_name="det")
def main() -> None:
    """Train, search, pause and resume models on this machine."""
