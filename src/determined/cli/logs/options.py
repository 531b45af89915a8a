"""The options that select lines of a log, shared by all commands that show one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from determined.cli.command import explain_unused
from determined.cli.display.times import parse_time, with_utc
from determined.cli.selection.ids import ID, Count
from determined.store.records import LOG_LEVELS, LogFilter

_NO_CLUSTER = "trials run as processes of this machine, and all lines are their own"


@dataclass(frozen=True)
class LogChoice:
    """The lines to show, the maximum number of them, and whether to wait for more."""

    follow: bool
    head: int | None
    tail: int | None
    only: LogFilter


def with_log_choice(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add these options to a command, as the argument `choice`."""

    @click.option("-f", "--follow", is_flag=True, help="Follow new lines until the end.")
    @click.option("--head", type=Count(min=1), metavar="N", help="Only the first N lines.")
    @click.option("--tail", type=Count(min=1), metavar="N", help="Only the last N lines.")
    @click.option("--rank-id", "ranks", type=ID, multiple=True, help="Only lines of this rank (repeatable).")
    @click.option(
        "--level", type=click.Choice(LOG_LEVELS, case_sensitive=False), help="Only lines of this level or above."
    )
    @click.option("--search", "text", metavar="TEXT", help="Only lines that contain this text.")
    @click.option("--timestamp-before", "before", metavar="TIME", help="Only lines written before this time.")
    @click.option("--timestamp-after", "after", metavar="TIME", help="Only lines written after this time.")
    @click.option(
        "--stdtype",
        "streams",
        type=click.Choice(["stdout", "stderr"]),
        multiple=True,
        help="Only lines from this stream.",
    )
    @click.option("--source", "sources", multiple=True, help="Accepted for old command lines.")
    @click.option("--agent-id", "agents", multiple=True, help="Accepted for old command lines.")
    @click.option("--container-id", "containers", multiple=True, help="Accepted for old command lines.")
    @with_utc
    @wraps(command)
    def choosing(
        *args: Any,
        follow: bool,
        head: int | None,
        tail: int | None,
        ranks: tuple[int, ...],
        level: str | None,
        text: str | None,
        before: str | None,
        after: str | None,
        streams: tuple[str, ...],
        sources: tuple[str, ...],
        agents: tuple[str, ...],
        containers: tuple[str, ...],
        **kwargs: Any,
    ) -> Any:
        if head is not None and (tail is not None or follow):
            raise click.UsageError("--head excludes --tail and --follow")
        for option, given in (("--source", sources), ("--agent-id", agents), ("--container-id", containers)):
            explain_unused(option, given, _NO_CLUSTER)
        choice = LogChoice(
            follow=follow,
            head=head,
            tail=tail,
            only=LogFilter(
                ranks=tuple(dict.fromkeys(ranks)),
                streams=tuple(dict.fromkeys(streams)),
                level=level,
                text=text,
                before=None if before is None else parse_time("--timestamp-before", before),
                after=None if after is None else parse_time("--timestamp-after", after),
            ),
        )
        return command(*args, choice=choice, **kwargs)

    return choosing
