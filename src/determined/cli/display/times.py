"""Times: the option `--utc`, parsing, and showing times and durations."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timezone
from functools import lru_cache
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_UTC = "determined.cli.utc"

_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DAYS_COUNTED = 14  # older times are shown as a date
_TWO_DIGITS = [f"{number:02d}" for number in range(60)]


def with_utc(command: F) -> F:
    """Add the option `--utc` to a command; without it times are in the viewer's zone, set by the system or TZ."""
    return click.option(
        "--utc", is_flag=True, expose_value=False, callback=_store_choice, help="Show times in UTC, not in your zone."
    )(command)


def shown_zone() -> timezone | None:
    """Return UTC, or None for the viewer's zone, whose offset depends on the time."""
    # Outside of a command, for example in a test, times are local.
    context = click.get_current_context(silent=True)
    return UTC if context is not None and context.meta.get(_UTC) else None


def _store_choice(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.meta[_UTC] = value


def ago(seconds: float | None) -> str:
    """Return how long ago a time was, such as `5m ago`; a date for older ones; with `--utc`, the time itself."""
    if seconds is None:
        return ""
    if shown_zone() is not None:
        return time_text(seconds)[:16]
    passed = time.time() - seconds
    # A clock that was set back may make a time lie in the future; a second is tolerated.
    if passed < -1 or passed >= _DAYS_COUNTED * _SECONDS["d"]:
        return time_text(seconds)[:10]
    for unit in "dhm":
        if passed >= _SECONDS[unit]:
            return f"{int(passed // _SECONDS[unit])}{unit} ago"
    return f"{max(0, int(passed))}s ago"


def parse_time(option: str, value: str) -> float:
    """Return the Unix time for an option's value, in RFC 3339 or as shown in tables.

    A time without a zone is in the displayed zone.
    """
    found = _parse(value)
    if found is None:
        raise click.UsageError(f"{option} takes a time like 2026-01-31T12:00:00Z, got {value!r}")
    return found


def parse_since(option: str, value: str) -> float:
    """Return the time that `2d`, `3h`, a date or a time stands for, in seconds."""
    if counted := _AGO.fullmatch(value.strip().lower()):
        return time.time() - float(counted[1]) * _SECONDS[counted[2]]
    found = _parse(value)
    if found is None:
        raise click.UsageError(f"{option} takes 30m, 3h, 2d, 1w, a date or a time like 2026-01-31T12:00, got {value!r}")
    return found


def _parse(value: str) -> float | None:
    """Parse a time; None if it is invalid."""
    try:
        parsed = datetime.fromisoformat(value.strip())
        # A time without a zone is meant as it is displayed.
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=shown_zone())).timestamp()
    except (ValueError, OverflowError):
        return None


def time_text(seconds: float | None) -> str:
    """Return a time in the viewer's zone, or in UTC with `--utc`."""
    return time_texts()(seconds)


def time_texts() -> Callable[[float | None], str]:
    """Return a function like `time_text` that is fast for many times, most of which share their minute with others."""
    broken_down = time.localtime if shown_zone() is None else time.gmtime

    # A page of logs or workloads has many times in few minutes.
    @lru_cache(maxsize=1024)
    def of_minute(minute: int) -> tuple[str, str] | None:
        """Return the text before and after the seconds; None if local minutes do not begin with UTC minutes."""
        moment = broken_down(60 * minute)
        if moment.tm_sec:  # until 1972, zones had offsets that include seconds
            return None
        return time.strftime("%Y-%m-%d %H:%M:", moment), time.strftime("%z", moment)

    def shown(seconds: float | None) -> str:
        if seconds is None:
            return ""
        minute, second = divmod(math.floor(seconds), 60)
        around = of_minute(minute)
        if around is None:
            return time.strftime("%Y-%m-%d %H:%M:%S%z", broken_down(math.floor(seconds)))
        return around[0] + _TWO_DIGITS[second] + around[1]

    return shown


def duration(seconds: float) -> str:
    """Return a duration as `48s`, `3m 20s`, `2h 05m` or `3d 04h`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02d}h"
