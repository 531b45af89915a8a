"""Commands and command groups: imported when they are used, with errors reported in one line."""

from __future__ import annotations

import importlib
import keyword
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from determined.cli import streams
from determined.errors import DeterminedError

INTERRUPTED = 130  # the exit code that shells report for a program ended by Ctrl-C


class Command(click.Command):
    """A command that reports errors as `Cannot <action>: <reason>`.

    `action` says in the imperative what the command does, with its object. Parameters of the command are filled in:
    "delete {experiment_id:experiment}" becomes "delete experiment 3".
    """

    def __init__(self, *args: Any, action: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.action = action

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; for a second id, say that the command takes only one."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            one = next((found.name for found in self.params if found.name in ("experiment_id", "trial_id")), None)
            if one is None or "unexpected extra argument" not in error.message:
                raise
            kind = one.removesuffix("_id")
            raise click.UsageError(f"{error.message.rstrip('.')}: this command takes one {kind}.", ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and report known errors in one line with exit code 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader has closed the pipe, as `head` does; click exits quietly
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        except (DeterminedError, OSError) as error:
            if isinstance(error, OSError) and streams.is_of_output(error):
                raise  # reported by the root command: the work of the command itself may be complete
            _fail(self.action, ctx.params, error)


class _Main(click.Group):
    """A group that, as the root of a command line, exits with a one-line message if its output cannot be written."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line, and report output that could not be written."""
        streams.prepare()
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            if not streams.is_of_output(error):
                raise
            streams.tell(error)
            sys.exit(streams.final_code(1))
        except SystemExit as end:
            sys.exit(streams.final_code(end.code))


class LazyGroup(_Main):
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
        return list(self.commands_in)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command by its name or alias."""
        name = self.aliases.get(cmd_name, cmd_name)
        if name not in self.commands_in:
            return None
        attribute = f"{name}_" if keyword.iskeyword(name) else name.replace("-", "_")
        command = getattr(importlib.import_module(self.commands_in[name][0]), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command to run; for an unknown one, explain why it does not exist or suggest another."""
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            from determined.cli.absent import why_absent

            reason = why_absent((*_names(ctx), args[0]))
            if reason is not None:
                ctx.fail(f"No such command {args[0]!r}: {reason}.")
            ctx.fail(f"No such command {args[0]!r}.{self._meant(ctx, args[0])}")
        return super().resolve_command(ctx, args)

    def _meant(self, ctx: click.Context, word: str) -> str:
        """Return a suggestion for an unknown command: one with the same beginning, a similar name, or another group."""
        from difflib import get_close_matches

        path = " ".join(("det", *_names(ctx)))
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
        unnamed = not args or (args[0].startswith("-") and not _asks_for_help(ctx, args[0]))
        if self.default is not None and unnamed and not ctx.resilient_parsing:  # a shell that completes means the group
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


def explain_unused(option: str, value: object, reason: str) -> None:
    """Print a line about an option that is accepted for old command lines and has no effect."""
    if value:
        click.echo(f"{option} is accepted and not used: {reason}", err=True)


def _names(ctx: click.Context) -> tuple[str, ...]:
    """Return the names of the groups that lead to this context, without the root."""
    return () if ctx.parent is None else (*_names(ctx.parent), ctx.command.name or "")


def _asks_for_help(ctx: click.Context, argument: str) -> bool:
    return argument in ctx.help_option_names


def _fail(action: str, parameters: Mapping[str, Any], error: DeterminedError | OSError) -> NoReturn:
    """Print the error message of a command and exit with 1."""
    from determined.cli.failure import failure_text

    click.echo(failure_text(action, parameters, error), err=True)
    sys.exit(1)
