"""`--utc`: which zone times are shown and read in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, timezone
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_UTC = "determined.cli.utc"


def with_utc(command: F) -> F:
    """Give a command the option `--utc`; without it times are in the viewer's zone, which the system or TZ names."""
    return click.option(
        "--utc", is_flag=True, expose_value=False, callback=_remember, help="Show times in UTC, not in your zone."
    )(command)


def shown_zone() -> timezone | None:
    """None stands for the viewer's own zone, with the offset that it has, or had, at that moment."""
    context = click.get_current_context(silent=True)
    return UTC if context is not None and context.meta.get(_UTC) else None


def _remember(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.meta[_UTC] = value
