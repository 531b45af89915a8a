"""`Command`: a command of `det`; its error messages, questions to confirm, and the message after Ctrl-C."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from string import Formatter
from typing import Any, NoReturn, TypeVar

import click

from determined.cli import streams
from determined.cli.display.safe_text import visible, visible_lines
from determined.errors import DeterminedError, InvalidExperimentConfig, NotFoundException
from determined.sentences import counted

INTERRUPTED = 130  # the exit code that shells report for a program ended by Ctrl-C

_RANGE = re.compile(r"\d+-\d+")
F = TypeVar("F", bound=Callable[..., Any])


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
            # An OSError too, so it has to be caught before the general case.
            raise  # the reader has closed the pipe, as `head` does; click exits quietly
        except KeyboardInterrupt:
            # Without a traceback: the user wanted to end the command.
            raise SystemExit(INTERRUPTED) from None
        except (DeterminedError, OSError) as error:
            if isinstance(error, OSError) and streams.is_output_error(error):
                raise  # reported by the root command: the work of the command itself may be complete
            _fail(self.action, ctx.params, error)


def explain_unused(option: str, value: object, reason: str) -> None:
    """Print a line about an option that is accepted for old command lines and has no effect."""
    if value:
        click.echo(f"{option} has no effect: {reason}", err=True)


def _fail(action: str, parameters: Mapping[str, Any], error: DeterminedError | OSError) -> NoReturn:
    """Print the error message of a command and exit with 1."""
    click.echo(failure_text(action, parameters, error), err=True)
    sys.exit(1)


def failure_text(action: str, parameters: Mapping[str, Any], error: DeterminedError | OSError) -> str:
    """Return the message for an error of a command.

    A missing object is named without the action: `Trial 9999 not found.` Several mistakes of a configuration are listed
    one per line.
    """
    if isinstance(error, NotFoundException):
        return visible_lines(str(error))
    names = _Action()
    cannot = f"Cannot {names.vformat(action, (), parameters)}: "
    if isinstance(error, InvalidExperimentConfig) and len(error.mistakes) > 1:
        cannot += f"{counted(len(error.mistakes), 'mistake')}\n"
    return visible_lines(cannot + without_repetition(_reason(error), names.objects))


def without_repetition(reason: str, objects: Sequence[str]) -> str:
    """Shorten the reason in a message: an object that the message has already named is dropped or becomes "it".

    Errors of the library name their object, because a program may catch them anywhere.
    """
    # Names may contain characters that have a meaning in a regular expression.
    for name in map(re.escape, objects):
        for pattern, replacement in (
            (rf"(?:the )?{name}(?: (?:cannot be|was not) \w+)?: ", ""),
            (rf"(?:the )?{name}(?= )", "it"),
            (rf"the (\w+) of {name}(?= )", r"its \1"),
            (rf"(no \w+) of {name}(?= )", r"\1"),
        ):
            shorter, found = re.subn(rf"\A{pattern}", replacement, reason, flags=re.IGNORECASE)
            if found:
                return shorter
    return reason


class _Action(Formatter):
    """Fills in parameters; `{ids:experiment}` becomes "experiment 3", "experiments 3, 4" or "experiments"."""

    def __init__(self) -> None:
        self.objects: list[str] = []  # named one by one, such as "experiment 3"

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return the values, preceded by the noun in `format_spec` if there is one."""
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        listed = ", ".join(map(str, values))
        if not format_spec:
            return listed
        # A range may stand for any number of objects.
        is_one = len(values) == 1 and not _RANGE.fullmatch(listed)
        if is_one:
            self.objects.append(f"{format_spec} {listed}")
        noun = format_spec if is_one else f"{format_spec}s"
        return f"{noun} {listed}".rstrip()


def _reason(error: Exception) -> str:
    """Return the reason of an error; for an OSError its file and message, without the error number."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def with_yes(command: F) -> F:
    """Add the option `--yes` to a command, as the argument `yes`."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")(command)


def confirm(question: str, *, yes: bool) -> None:
    """Ask the user to confirm, unless `yes`; without confirmation the command is aborted with exit code 1."""
    if not yes:
        # On standard error, so that the question is visible if the output goes to a file.
        click.confirm(visible(question), abort=True, err=True)


@contextmanager
def ctrl_c_ends_watching(what: str) -> Iterator[None]:
    """On Ctrl-C, print one line and end the command with code 130: with 0, `wait && ...` would continue."""
    try:
        yield
    except KeyboardInterrupt:
        after_echo = "\n" if sys.stderr.isatty() else ""  # the terminal has already printed ^C on this line
        click.echo(f"{after_echo}Stopped watching; {what} is not affected", err=True)
        raise
