"""`det trial logs`."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

import click

from determined.cli.experiment.logs import POLLING_SECONDS, Reader, print_lines
from determined.cli.groups import Command, explain_unused
from determined.cli.opened import opened_store, patiently
from determined.cli.output import Form, with_json
from determined.cli.zone import with_utc
from determined.store.records import LOG_LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable

    from determined.store.records import Log

_NO_CLUSTER = "trials run as processes of this machine, and all lines are their own"


def _moment(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """A time as RFC 3339 writes it; what names no zone is UTC."""
    from determined.experimental.trial_logs import seconds_of

    try:
        return seconds_of(str(parameter.opts[0]), value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(cls=Command)
@click.argument("trial_id", metavar="ID", type=int)
@click.option("-f", "--follow", is_flag=True, help="Go on as new lines are written, until the trial ends.")
@click.option("--head", type=click.IntRange(min=1), metavar="N", help="Only the first N lines.")
@click.option("--tail", type=click.IntRange(min=1), metavar="N", help="Only the last N lines.")
@click.option("--rank-id", "ranks", type=int, multiple=True, help="Only of this rank; may be repeated.")
@click.option(
    "--level", type=click.Choice(LOG_LEVELS, case_sensitive=False), help="Only lines of this level or above it."
)
@click.option("--timestamp-before", "before", metavar="TIME", callback=_moment, help="Only lines written before.")
@click.option("--timestamp-after", "after", metavar="TIME", callback=_moment, help="Only lines written after.")
@click.option(
    "--stdtype", "streams", type=click.Choice(["stdout", "stderr"]), multiple=True, help="Only what went there."
)
@click.option("--source", "sources", multiple=True, help="Accepted for old command lines.")
@click.option("--agent-id", "agents", multiple=True, help="Accepted for old command lines.")
@click.option("--container-id", "containers", multiple=True, help="Accepted for old command lines.")
@with_utc
@with_json
def logs(
    trial_id: int,
    follow: bool,
    head: int | None,
    tail: int | None,
    ranks: tuple[int, ...],
    level: str | None,
    before: float | None,
    after: float | None,
    streams: tuple[str, ...],
    sources: tuple[str, ...],
    agents: tuple[str, ...],
    containers: tuple[str, ...],
    form: Form,
) -> None:
    """Show what a trial wrote.

    Times are as in RFC 3339, in UTC if they name no zone. With --json each line is an object on a line of its own. With
    --level, lines that name none are left out.

    \b
    Example: det trial logs 7 --level WARNING --timestamp-after 2026-01-31T12:00:00Z
    """
    if head is not None and (tail is not None or follow):
        raise click.UsageError("--head excludes --tail and --follow")
    for option, given in (("--source", sources), ("--agent-id", agents), ("--container-id", containers)):
        explain_unused(option, given, _NO_CLUSTER)
    with opened_store() as store:
        experiment_id = store.experiments.trial(trial_id).experiment_id
        log = Reader(store, experiment_id, trial_id, False, ranks, level, _wanted(before, after, streams))
        print_lines(islice(log.new_lines(), head) if tail is None else log.last_lines(tail), False, form)
        while follow:
            # Asked before reading: what was written until then is read now.
            alive = patiently(lambda: store.experiments.trial(trial_id)).ended is None
            follow = alive and log.may_grow()
            print_lines(log.new_lines(), False, form)
            if follow:
                time.sleep(POLLING_SECONDS)
    if form != "json":
        click.echo(f"To see it again: det trial logs {trial_id}", err=True)


def _wanted(before: float | None, after: float | None, streams: tuple[str, ...]) -> Callable[[Log], bool] | None:
    """What the store does not sort out by itself."""
    if before is None and after is None and not streams:
        return None

    def wanted(line: Log) -> bool:
        return (
            (before is None or line.written < before)
            and (after is None or line.written > after)
            and (not streams or line.stream in streams)
        )

    return wanted
