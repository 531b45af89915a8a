"""The option `--utc`: the time zone in which times are shown and read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, timezone
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_UTC = "determined.cli.utc"


def with_utc(command: F) -> F:
    """Add the option `--utc` to a command; without it times are in the viewer's zone, set by the system or TZ."""
    return click.option(
        "--utc", is_flag=True, expose_value=False, callback=_remember, help="Show times in UTC, not in your zone."
    )(command)


def shown_zone() -> timezone | None:
    """Return UTC, or None for the viewer's zone, whose offset depends on the time."""
    context = click.get_current_context(silent=True)
    return UTC if context is not None and context.meta.get(_UTC) else None


def _remember(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.meta[_UTC] = value
