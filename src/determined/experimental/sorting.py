"""Sort and truncate the lists of the SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from determined.config import ranking
from determined.experimental.enums import OrderBy

T = TypeVar("T")


def in_order(
    items: Iterable[T], value_of: Callable[[T], Any], order_by: OrderBy, age_of: Callable[[T], Any]
) -> list[T]:
    """Return the items sorted by a value; missing values come last, and of equal ones the oldest first."""
    return ranking.in_order(items, value_of, age_of, descending=order_by is OrderBy.DESC)


def first(items: list[T], argument: str, count: int | None) -> list[T]:
    """Return the first `count` items, or all for None. A negative count would cut the end, and raises ValueError."""
    if count is not None and count < 0:
        raise ValueError(f"{argument} must be 0 or more, got {count}")
    return items[:count]
