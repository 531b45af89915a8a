"""The options `--limit`, `--offset` and `--pages` of a list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from determined.cli.selection.integers import Count


@dataclass(frozen=True)
class Page:
    """The part of a list to show; without a limit everything after the offset."""

    limit: int | None
    offset: int

    def of(self, rows: list[Any]) -> list[Any]:
        """Return this part of the rows."""
        return rows[self.offset :] if self.limit is None else rows[self.offset : self.offset + self.limit]


def paging(rows: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds these options to a command, as the argument `page`, with `rows` rows per page."""

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--limit", type=Count(min=1), default=rows, show_default=True, help="Rows per page.")
        @click.option("--offset", type=Count(min=0), default=0, help="Skip the first N rows.")
        @click.option(
            "--pages",
            type=click.Choice(["1", "all"]),
            default="1",
            show_default=True,
            help="Show one page or all rows.",
        )
        @wraps(command)
        def paged(*args: Any, limit: int, offset: int, pages: str, **kwargs: Any) -> Any:
            return command(*args, page=Page(None if pages == "all" else limit, offset), **kwargs)

        return paged

    return with_options


with_paging = paging(200)
