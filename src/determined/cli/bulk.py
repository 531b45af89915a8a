"""Commands that take several ids: each object is dealt with, and each failure is reported."""

from __future__ import annotations

import sys
from typing import Any, Literal

import click

from determined.cli import streams
from determined.cli.confirming import confirm
from determined.cli.failure import failure_text
from determined.cli.filters import filter_of, with_state_and_label
from determined.cli.groups import Command
from determined.cli.id_lists import check_ids, complete_experiments, complete_trials, expand, is_one, parse_ids
from determined.cli.opened import opened_store
from determined.cli.output import collected_json, print_json
from determined.cli.render import some
from determined.errors import DeterminedError

_EVERYTHING = 2**31


class _Each(click.Command):
    """Invokes the command once for each id."""

    kind: Literal["experiment", "trial"]
    has_filters: bool
    of_archived: bool

    def invoke(self, ctx: click.Context) -> Any:
        name = f"{self.kind}_id"
        given: tuple[str, ...] = ctx.params[name]
        filters = {key: ctx.params.pop(key) for key in ("states", "labels")} if self.has_filters else {}
        chosen = any(filters.values())
        if chosen and given:
            raise click.UsageError("give ids, or --state and --label, not both")
        if not chosen and not given:
            other = ", or choose them with --state or --label" if self.has_filters else ""
            raise click.UsageError(f"name one {self.kind} or several by id{other}")
        own_yes = any(parameter.name == "yes" and not parameter.expose_value for parameter in self.params)
        yes = bool(ctx.meta.get(_YES)) if own_yes else bool(ctx.params.get("yes"))
        if chosen:
            ids = _chosen(self, filters, archived=self.of_archived, yes=yes)
            if "yes" in ctx.params:
                ctx.params["yes"] = True  # confirmed for all of them
        else:
            ids = expand(self.kind, parse_ids(given))
        if is_one(given):
            ctx.params[name] = ids[0]
            return super().invoke(ctx)
        return self._for_each(ctx, name, ids)

    def _for_each(self, ctx: click.Context, name: str, ids: list[int]) -> None:
        failed = False
        with collected_json() as printed:
            for number in ids:
                ctx.params[name] = number
                try:
                    super().invoke(ctx)
                except (DeterminedError, OSError) as error:
                    if isinstance(error, OSError) and streams.is_of_output(error):
                        raise
                    assert isinstance(self, Command)
                    message = failure_text(self.action, ctx.params, error)
                    printed.append({"id": number, "error": message})
                    click.echo(message, err=True)
                    failed = True
                except SystemExit as end:
                    failed = failed or end.code not in (None, 0)
        if ctx.params.get("form") == "json" or ctx.params.get("as_json"):  # from `with_json`, or `with_csv`
            print_json(printed)
        if failed:
            sys.exit(1)


class BulkCommand(Command, _Each):
    """A command for one experiment or trial that also accepts several: `3 4`, `3,4`, `3-9`.

    Its function has the argument `experiment_id` or `trial_id`, and is called for each of them. With `filters` the
    experiments can be chosen by `--state` and `--label`, which asks for confirmation or needs `--yes`; with `archived`
    they choose among the archived experiments, else among the others.
    """

    def __init__(
        self,
        *args: Any,
        kind: Literal["experiment", "trial"],
        filters: bool = False,
        archived: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.kind = kind
        self.has_filters = filters
        self.of_archived = archived
        argument = click.Argument(
            [f"{kind}_id"],
            metavar="[IDS]..." if filters else "IDS...",
            nargs=-1,
            callback=check_ids,
            shell_complete=complete_experiments if kind == "experiment" else complete_trials,
        )
        self.params.insert(0, argument)
        if filters:
            with_state_and_label(self)
            if not any(parameter.name == "yes" for parameter in self.params):
                self.params.append(
                    click.Option(
                        ["-y", "--yes"],
                        is_flag=True,
                        expose_value=False,
                        callback=_remember_yes,
                        help="Do not ask about experiments chosen by --state or --label.",
                    )
                )


_YES = "determined.cli.yes"


def _remember_yes(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.meta[_YES] = value


def _chosen(command: click.Command, filters: dict[str, Any], *, archived: bool, yes: bool) -> list[int]:
    """Return the experiments in these states and with these labels, after a confirmation."""
    with opened_store() as store:
        found = store.experiments.list(limit=_EVERYTHING, archived=archived, only=filter_of(**filters))
    rows = [row for row in found if row.archived == archived]
    if not rows:
        raise DeterminedError(
            "no archived experiment matches" if archived else "no experiment matches; archived ones are chosen by id"
        )
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("--state and --label need --yes when there is no terminal to ask on")
    shown = some([f"{row.id} ({row.name}, {row.state})" for row in reversed(rows)])
    count = f"{len(rows)} experiment{'' if len(rows) == 1 else 's'}"
    confirm(f"{(command.name or '').capitalize()} {count}: {shown}?", yes=yes)
    return [row.id for row in reversed(rows)]
