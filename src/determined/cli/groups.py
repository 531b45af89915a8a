"""Command groups, which import a command when it is used, and explanations of commands that do not exist."""

from __future__ import annotations

import importlib
import keyword
import sys
from collections.abc import Mapping
from typing import Any

import click

from determined.cli import streams


class _RootGroup(click.Group):
    """A group that reports output which cannot be written in one line, if it is the root of the command line."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line, and report output that could not be written."""
        streams.prepare()
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            if not streams.is_output_error(error):
                raise
            streams.report_lost_output(error)
            sys.exit(streams.flushed_exit_code(1))
        except SystemExit as end:
            sys.exit(streams.flushed_exit_code(end.code))


class LazyGroup(_RootGroup):
    """A group that knows its commands by name, module and help line, and imports a command only when it is used.

    `commands_in` maps a command to its module and help line. The module has the command as an attribute of the same
    name, with underscores, and one more at the end of a Python keyword. `aliases` are short names; `default` is the
    command used if none is named.
    """

    def __init__(
        self,
        *args: Any,
        commands_in: Mapping[str, tuple[str, str]],
        aliases: Mapping[str, str],
        default: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.commands_in = commands_in
        self.aliases = aliases
        self.default = default
        self.no_args_is_help = default is None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return list(self.commands_in)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command by its name or alias."""
        name = self.aliases.get(cmd_name, cmd_name)
        if name not in self.commands_in:
            return None
        # A function cannot be named like a keyword.
        attribute = f"{name}_" if keyword.iskeyword(name) else name.replace("-", "_")
        command = getattr(importlib.import_module(self.commands_in[name][0]), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command to run; for an unknown one, explain why it does not exist or suggest another."""
        # Shell completion must not fail on an incomplete command.
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            reason = why_missing((*_names(ctx), args[0]))
            if reason is not None:
                ctx.fail(f"No such command {args[0]!r}: {reason}.")
            ctx.fail(f"No such command {args[0]!r}.{self._suggestion(ctx, args[0])}")
        return super().resolve_command(ctx, args)

    def _suggestion(self, ctx: click.Context, word: str) -> str:
        """Return a suggestion for an unknown command: one with the same beginning, a similar name, or another group."""
        from difflib import get_close_matches

        path = " ".join(("det", *_names(ctx)))
        # Aliases of one or two letters would match almost every mistake.
        names = [name for name in (*self.commands_in, *self.aliases) if len(name) > 2]
        begun = [name for name in names if len(word) > 2 and name.startswith(word)]
        found = [f"{path} {name}" for name in begun or get_close_matches(word, names, n=2)]
        for name in self.commands_in if not found else ():
            group = self.get_command(ctx, name)
            if isinstance(group, LazyGroup) and word in (*group.commands_in, *group.aliases):
                found.append(f"{path} {name} {word}")
        return f" Did you mean {' or '.join(map(repr, found[:3]))}?" if found else ""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; without a command name, the default command is used."""
        unnamed = not args or (args[0].startswith("-") and not _is_help_option(ctx, args[0]))
        if (
            self.default is not None and unnamed and not ctx.resilient_parsing
        ):  # completion in a shell is about the group
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for the help, without importing them."""
        short = {name: alias for alias, name in self.aliases.items()}
        rows = [
            (f"{name}, {short[name]}" if name in short else name, help_line)
            for name, (_, help_line) in self.commands_in.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _names(ctx: click.Context) -> tuple[str, ...]:
    """Return the names of the groups that lead to this context, without the root."""
    return () if ctx.parent is None else (*_names(ctx.parent), ctx.command.name or "")


def _is_help_option(ctx: click.Context, argument: str) -> bool:
    return argument in ctx.help_option_names


_ADMINISTRATION = "there is no cluster to administer"
_ACCOUNTS = "there are no accounts: any user who can read the store may use it"
_PROJECTS = "workspace and project are fields of a configuration, as labels are"

_REASONS: dict[tuple[str, ...], str] = {
    ("notebook",): "start Jupyter as usual; `determined.experimental.client` works in it",
    ("shell",): "use the shell of this machine",
    ("command",): "`det run COMMAND` runs a command and stores its output",
    ("cmd",): "`det run COMMAND` runs a command and stores its output",
    ("task",): "`det queue` and `det experiment list` show what runs",
    ("job",): "`det queue` shows the running and the waiting experiments",
    ("template",): "keep shared settings in one file, and override them with --config",
    ("deploy",): "there is nothing to deploy: `pip install determined-pytorch` is sufficient",
    **dict.fromkeys(
        [("resources",), ("resource-pool",), ("agent",), ("slot",)], "`det doctor` shows the slots of this machine"
    ),
    **dict.fromkeys([("master",), ("config-policies",)], _ADMINISTRATION),
    **dict.fromkeys([(name,) for name in ("user-group", "rbac", "token", "oauth", "sso")], _ACCOUNTS),
    **dict.fromkeys(
        [("user", name) for name in ("list", "create", "edit", "rename", "activate", "deactivate", "change-password")],
        _ACCOUNTS,
    ),
    ("user", "link-with-agent-user"): _ACCOUNTS,
    ("dev",): "there is no REST interface to call: use `--json` of any command, or determined.experimental.client",
    **dict.fromkeys([("workspace",), ("project",), ("experiment", "move"), ("model", "move")], _PROJECTS),
    ("experiment", "set", "weight"): "the queue schedules by priority: `det experiment set priority ID N`",
    ("experiment", "set", "log-retention"): "logs are kept as long as their experiment: `det experiment delete ID`",
    ("trial", "set"): "logs are kept as long as their experiment: `det experiment delete ID`",
    **dict.fromkeys(
        [("tensorboard", name) for name in ("list", "open", "kill", "logs", "config")],
        "`det tensorboard start` runs TensorBoard itself, until Ctrl-C",
    ),
}


def why_missing(path: tuple[str, ...]) -> str | None:
    """Return why an old command does not exist, given the words typed after `det`; None if it is unknown."""
    return _REASONS.get(path)
