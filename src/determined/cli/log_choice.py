"""Which lines of a log are wanted: the options of every command that shows one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any

import click

from determined.cli.groups import explain_unused
from determined.cli.whole_numbers import ID, Count
from determined.cli.zone import shown_zone, with_utc
from determined.store.records import LOG_LEVELS, LogFilter

_NO_CLUSTER = "trials run as processes of this machine, and all lines are their own"
# What Python 3.10 does not read: an offset as tables show it, and a fraction of a second as RFC 3339 allows it.
_OFFSET_WITHOUT_COLON = re.compile(r"(:\d\d(?:\.\d+)?[+-]\d\d)(\d\d)$")
_FRACTION = re.compile(r"\.(\d+)")


@dataclass(frozen=True)
class LogChoice:
    """Which lines, how many of them, and whether to wait for more."""

    follow: bool
    head: int | None
    tail: int | None
    only: LogFilter


def with_log_choice(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options, as the argument `choice`."""

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
                before=_moment("--timestamp-before", before),
                after=_moment("--timestamp-after", after),
            ),
        )
        return command(*args, choice=choice, **kwargs)

    return choosing


def _moment(option: str, value: str | None) -> float | None:
    """As RFC 3339 writes it, or as a table shows it; what names no zone is in the one that times are shown in."""
    if value is None:
        return None
    written = _OFFSET_WITHOUT_COLON.sub(r"\1:\2", value.strip()).replace("Z", "+00:00")
    written = _FRACTION.sub(lambda found: f".{found[1][:6]:0<6}", written)
    try:
        moment = datetime.fromisoformat(written)
        return (moment if moment.tzinfo else moment.replace(tzinfo=shown_zone())).timestamp()
    except (ValueError, OverflowError):
        raise click.UsageError(f"{option} takes a time like 2026-01-31T12:00:00Z, got {value!r}") from None
