"""`BulkCommand`: commands that accept several ids; each object is processed, and each failure is reported."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import click

from determined.cli import streams
from determined.cli.command import Command, confirm, failure_text
from determined.cli.display.output import collected_json, print_json
from determined.cli.selection.arguments import (
    Completion,
    check_ids,
    complete_experiments,
    complete_trials,
    expand,
    filter_of,
    is_single_id,
    parse_ids,
    with_state_and_label,
)
from determined.cli.store_access import opened_store
from determined.errors import DeterminedError, NotFoundException
from determined.sentences import capitalized, counted, first_few

if TYPE_CHECKING:
    from determined.store.experiment_records import Experiment

_YES, _ALL = "determined.cli.yes", "determined.cli.all"

Archived = Literal["never", "only", "on request"]


class _CommandForEachId(click.Command):
    """A command that is invoked once for each id."""

    kind: Literal["experiment", "trial"]
    has_filters: bool
    archived: Archived

    def invoke(self, ctx: click.Context) -> Any:
        """Invoke the command for the given or selected ids, after one confirmation if it asks for any."""
        name = f"{self.kind}_id"
        given: tuple[str, ...] = ctx.params[name]
        filters = {key: ctx.params.pop(key) for key in ("states", "labels")} if self.has_filters else {}
        everything = bool(ctx.meta.get(_ALL))
        chosen = any(filters.values())
        if chosen and given:
            raise click.UsageError("give ids, or --state and --label, not both")
        if everything and not chosen:
            raise click.UsageError("--all requires --state or --label")
        if not chosen and not given:
            self._reject_missing_ids(ctx)
        asks = "yes" in ctx.params
        yes = bool(ctx.params["yes"] if asks else ctx.meta.get(_YES))
        if chosen:
            rows = self._chosen(filters, everything=everything)
            # A script that selects by state could otherwise change more than its author saw.
            if not yes and not sys.stdin.isatty():
                raise click.UsageError("--state and --label require --yes if standard input is not a terminal")
            confirm(self._question(rows), yes=yes)
            ids = [row.id for row in rows]
        else:
            ids = expand(self.kind, parse_ids(given))
            if asks and len(ids) > 1 and (existing := _existing(ids)):
                confirm(self._question(existing), yes=yes)
        if asks and (chosen or len(ids) > 1):
            ctx.params["yes"] = True  # confirmed for all of them
        if is_single_id(given):
            ctx.params[name] = ids[0]
            return super().invoke(ctx)
        return self._for_each(ctx, name, ids)

    def _reject_missing_ids(self, ctx: click.Context) -> NoReturn:
        """Raise a usage error for missing ids; a single number was parsed as the argument that follows the ids."""
        for parameter in self.params[1:]:
            value = ctx.params.get(parameter.name or "")
            if isinstance(parameter, click.Argument) and re.fullmatch(r"\d+([-,]\d+)*", str(value)):
                metavar = parameter.make_metavar(ctx)
                raise click.UsageError(f"Missing argument {metavar}: {ctx.command_path} {value} {metavar}")
        other = ", or select them with --state or --label" if self.has_filters else ""
        raise click.UsageError(f"give the ids of one or several {self.kind}s{other}")

    def _chosen(self, filters: dict[str, Any], *, everything: bool) -> list[Experiment]:
        """Return the experiments in these states and with these labels, oldest first; raise if there are none."""
        with opened_store() as store:
            found = store.experiments.list(limit=None, archived=True, only=filter_of(**filters))
        rows = [row for row in found if everything or row.archived == (self.archived == "only")]
        skipped = len(found) - len(rows) if self.archived == "on request" else 0
        note = f"{counted(skipped, 'archived experiment matches', 'archived experiments match')}: --all includes them"
        if not rows and skipped:
            raise DeterminedError(f"only {note}")
        if not rows:
            raise DeterminedError(f"no {'archived ' if self.archived == 'only' else ''}experiment matches")
        if skipped:
            click.echo(f"Also {note}.", err=True)
        return list(reversed(rows))

    def _question(self, rows: Sequence[Experiment]) -> str:
        """Return the question to confirm: `Delete 2 experiments: 3 (digits, COMPLETED), 4 (digits, ERROR)?`."""
        assert isinstance(self, Command)
        doing = self.action.replace("{experiment_id:experiment}", counted(len(rows), "experiment"))
        shown = first_few([f"{row.id} ({row.name}, {row.state})" for row in rows])
        return f"{capitalized(doing)}: {shown}?"

    def _for_each(self, ctx: click.Context, name: str, ids: list[int]) -> None:
        """Invoke the command for each id, print failures, and exit with 1 if there were any."""
        failed = False
        with collected_json() as printed:
            for number in ids:
                ctx.params[name] = number
                try:
                    super().invoke(ctx)
                except (DeterminedError, OSError) as error:
                    if isinstance(error, OSError) and streams.is_output_error(error):
                        raise
                    assert isinstance(self, Command)
                    message = failure_text(self.action, ctx.params, error)
                    printed.append({"id": number, "error": message})
                    click.echo(message, err=True)
                    failed = True
                # Commands such as `wait` exit with a code; the next id is processed all the same.
                except SystemExit as end:
                    failed = failed or end.code not in (None, 0)
        if ctx.params.get("form") == "json" or ctx.params.get("as_json"):  # from `with_json`, or `with_csv`
            print_json(printed)
        if failed:
            sys.exit(1)


class BulkCommand(Command, _CommandForEachId):
    """A command for one experiment or trial that also accepts several: `3 4`, `3,4`, `3-9`.

    Its function has the argument `experiment_id` or `trial_id`, and is called for each of them. `complete` is the shell
    completion of the ids. With `filters` the experiments can be selected by `--state` and `--label`, which requires a
    confirmation or `--yes`; `archived` is whether this selects archived experiments. A command with its own option
    `--yes` asks once for several ids.
    """

    def __init__(
        self,
        *args: Any,
        kind: Literal["experiment", "trial"],
        filters: bool = False,
        archived: Archived = "never",
        complete: Completion | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.kind = kind
        self.has_filters = filters
        self.archived = archived
        argument = click.Argument(
            [f"{kind}_id"],
            metavar="[IDS]..." if filters else "IDS...",
            nargs=-1,
            callback=check_ids,
            shell_complete=complete or (complete_experiments if kind == "experiment" else complete_trials),
        )
        self.params.insert(0, argument)
        if not filters:
            return
        with_state_and_label(self)
        if archived == "on request":
            self.params.append(_remembered_flag(["-a", "--all"], _ALL, "With --state or --label: also archived ones."))
        if not any(parameter.name == "yes" for parameter in self.params):
            question = "Do not ask about experiments chosen by --state or --label."
            self.params.append(_remembered_flag(["-y", "--yes"], _YES, question))


def _existing(ids: Sequence[int]) -> list[Experiment]:
    """Return the experiments with these ids that exist; `_for_each` reports the others."""
    found = []
    with opened_store() as store:
        for number in ids:
            with suppress(NotFoundException):
                found.append(store.experiments.get(number))
    return found


def _remembered_flag(names: list[str], key: str, help_text: str) -> click.Option:
    """Return a flag that is stored in the context for `_CommandForEachId.invoke`, not passed to the command."""

    def remember(context: click.Context, parameter: click.Parameter, value: bool) -> None:
        context.meta[key] = value

    return click.Option(names, is_flag=True, expose_value=False, callback=remember, help=help_text)
